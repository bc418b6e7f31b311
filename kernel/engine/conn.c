// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Connections: tables, life cycle, the work item that does what may sleep. */
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "../compat/compat.h"
#include "../verbs/device.h"
#include "../verbs/qp.h"
#include "conn.h"
#include "engine.h"
#include "qp.h"

#define MROCE_IDLE_CLOSE	(30 * HZ)	/* no QP for so long: CLOSE (2, point 6) */
#define MROCE_HELLO_FIRST	(HZ / 50 ? HZ / 50 : 1)
#define MROCE_HELLO_MAX		HZ
#define MROCE_GIVE_UP		8		/* unanswered repeats of a connection that nobody uses */

static void mroce_conn_work(struct work_struct *work);

static void mroce_conn_free_paths(struct mroce_conn *conn)
{
	kvfree(conn->tx_paths);
	kvfree(conn->tx_mem);
	kvfree(conn->routes);
	kvfree(conn->rx_paths);
	kfree(conn->acked);
	conn->tx_paths = NULL;
	conn->tx_mem = NULL;
	conn->routes = NULL;
	conn->rx_paths = NULL;
	conn->acked = NULL;
}

static void mroce_conn_free(struct work_struct *work)
{
	struct mroce_conn *conn = container_of(to_rcu_work(work), struct mroce_conn, free_work);
	struct mroce_dev *dev = conn->dev;
	u32 i;

	for (i = 0; conn->routes && i < conn->tx.n_paths; i++)
		mroce_route_drop(&conn->routes[i]);
	mroce_route_drop(&conn->ack_route);
	mroce_conn_free_paths(conn);
	kfree(conn);
	if (atomic_dec_and_test(&dev->n_conns))
		wake_up_var(&dev->n_conns);
}

void mroce_conn_put(struct mroce_conn *conn)
{
	/* the last one may drop it in softirq, and large memory cannot be freed there */
	if (refcount_dec_and_test(&conn->refs))
		queue_rcu_work(conn->dev->wq, &conn->free_work);
}

/* The work item holds a reference while it is queued. */
static void mroce_conn_queue(struct mroce_conn *conn, unsigned long delay)
{
	refcount_inc(&conn->refs);
	/* an event that waits must not be put off by a timer */
	if (READ_ONCE(conn->events))
		delay = 0;
	if (mod_delayed_work(conn->dev->wq, &conn->work, delay))
		mroce_conn_put(conn);
}

void mroce_conn_requeue(struct mroce_conn *conn)
{
	mroce_conn_queue(conn, MROCE_HELLO_FIRST);
}

void mroce_conn_event(struct mroce_conn *conn, int event)
{
	if (!test_and_set_bit(event, &conn->events))
		mroce_conn_queue(conn, 0);
}

struct mroce_conn *mroce_conn_lookup(struct mroce_sock *sock, u32 id)
{
	struct mroce_conn *conn;

	rcu_read_lock();
	conn = xa_load(&sock->conns, id & MROCE_CONN_INDEX);
	if (conn && (conn->id != id || !refcount_inc_not_zero(&conn->refs)))
		conn = NULL;
	rcu_read_unlock();
	return conn;
}

struct mroce_conn *mroce_conn_find(struct mroce_dev *dev, const struct mroce_addr *local,
				   const struct mroce_addr *remote, u8 tclass)
{
	struct mroce_conn *conn;

	lockdep_assert_held(&dev->conn_mutex);
	list_for_each_entry(conn, &dev->conns, entry) {
		if (conn->listed && conn->tclass == tclass &&
		    mroce_addr_eq(&conn->remote, remote) && mroce_addr_eq(&conn->local, local))
			return conn;
	}
	return NULL;
}

static void mroce_route_set(struct mroce_route *r, const struct mroce_conn *conn, u16 sport)
{
	r->local = conn->local;
	r->remote = conn->remote;
	r->sport = sport;
	r->dport = conn->sock->port;
	r->tclass = conn->tclass & ~3;
	r->oif = conn->dev->ndev->ifindex;
}

static u16 mroce_random_sport(void)
{
	return MROCE_SPORT_MIN + (get_random_u32() & (MROCE_SPORT_MAX - MROCE_SPORT_MIN));
}

static int mroce_conn_number(struct mroce_conn *conn)
{
	struct mroce_sock *sock = conn->sock;
	u32 index;
	int err;

	err = xa_alloc_cyclic_bh(&sock->conns, &index, NULL,
				 XA_LIMIT(1, MROCE_CONN_INDEX), &sock->next_conn, GFP_KERNEL);
	if (err < 0)
		return err;
	conn->id = index | (get_random_u32() & ~MROCE_CONN_INDEX);
	conn->vtag = get_random_u32();
	/* visible from here on */
	return xa_err(xa_store_bh(&sock->conns, index, conn, GFP_KERNEL));
}

struct mroce_conn *mroce_conn_new(struct mroce_dev *dev, const struct mroce_addr *local,
				  const struct mroce_addr *remote, u8 tclass)
{
	struct mroce_conn *conn;
	int err;

	lockdep_assert_held(&dev->conn_mutex);
	conn = kzalloc(sizeof(*conn), GFP_KERNEL);
	if (!conn)
		return ERR_PTR(-ENOMEM);
	conn->dev = dev;
	conn->sock = dev->sock;
	conn->local = *local;
	conn->remote = *remote;
	conn->tclass = tclass;
	conn->nonce = get_random_u64();
	refcount_set(&conn->refs, 1);
	spin_lock_init(&conn->rx_lock);
	spin_lock_init(&conn->tx_lock);
	spin_lock_init(&conn->ack_lock);
	INIT_LIST_HEAD(&conn->qps);
	INIT_LIST_HEAD(&conn->ready);
	INIT_LIST_HEAD(&conn->block_list);
	INIT_LIST_HEAD(&conn->run_entry);
	INIT_DELAYED_WORK(&conn->work, mroce_conn_work);
	INIT_RCU_WORK(&conn->free_work, mroce_conn_free);
	mroce_hrtimer_setup(&conn->tx_timer, mroce_tx_timer, CLOCK_MONOTONIC,
			    HRTIMER_MODE_ABS_SOFT);
	mroce_hrtimer_setup(&conn->ack_timer, mroce_ack_timer, CLOCK_MONOTONIC,
			    HRTIMER_MODE_ABS_SOFT);
	conn->tx_armed = ~0ull;
	conn->ack_armed = ~0ull;
	mroce_route_set(&conn->ack_route, conn, mroce_random_sport());
	err = mroce_conn_number(conn);
	if (err) {
		kfree(conn);
		return ERR_PTR(err);
	}
	atomic_inc(&dev->n_conns);
	list_add_tail(&conn->entry, &dev->conns);
	return conn;
}

/* A copy of the acknowledgement route for one use in process context. */
static u32 mroce_conn_mtu(struct mroce_conn *conn)
{
	struct mroce_route r = conn->ack_route;
	u32 mtu;

	r.dst = NULL;
	mtu = mroce_route_mtu(conn->sock, &r);
	mroce_route_drop(&r);
	/* loopback and tunnels may offer more than the netdev: the device's MTU is what peers see */
	return min(mtu, READ_ONCE(conn->dev->ndev->mtu));
}

u32 mroce_conn_offer(struct mroce_conn *conn)
{
	lockdep_assert_held(&conn->dev->conn_mutex);
	if (!conn->offered)
		conn->offered = mroce_payload_for_mtu(mroce_conn_mtu(conn),
						      mroce_addr_is_v4(&conn->remote) ? 4 : 6);
	return conn->offered;
}

int mroce_conn_setup(struct mroce_conn *conn, const struct mroce_hello_h *h)
{
	struct mroce_dev *dev = conn->dev;
	u32 n = clamp_t(u32, READ_ONCE(dev->set.paths), 2, min_t(u32, h->max_paths, MROCE_MAX_PATHS));
	u32 n_rx = min_t(u32, h->max_paths, MROCE_MAX_PATHS), i;
	u32 payload = min_t(u32, mroce_conn_offer(conn), h->payload);

	lockdep_assert_held(&dev->conn_mutex);
	if (payload < MROCE_MIN_PAYLOAD)
		return -EMSGSIZE;
	conn->tx_paths = kvcalloc(n, sizeof(*conn->tx_paths), GFP_KERNEL);
	conn->tx_mem = kvzalloc(mroce_conn_tx_ring_mem(n), GFP_KERNEL);
	conn->routes = kvcalloc(n, sizeof(*conn->routes), GFP_KERNEL);
	conn->rx_paths = kvcalloc(n_rx, sizeof(*conn->rx_paths), GFP_KERNEL);
	conn->acked = kcalloc(MROCE_SACK_BITS, sizeof(*conn->acked), GFP_KERNEL);
	if (!conn->tx_paths || !conn->tx_mem || !conn->routes || !conn->rx_paths || !conn->acked)
		goto nomem;
	conn->payload = payload;
	conn->msn_window = min_t(u32, 1u << h->msn_log2, MROCE_MSN_WINDOW);
	conn->peer_id = h->conn_id;
	conn->peer_vtag = h->vtag;
	conn->peer_instance = h->instance;
	conn->peer_nonce = h->nonce;
	mroce_conn_rx_init(&conn->rx, conn->rx_paths, n_rx);
	/* a QP that leaves may look for its packets meanwhile */
	spin_lock_bh(&conn->tx_lock);
	mroce_conn_tx_init(&conn->tx, conn->tx_paths, conn->tx_mem, n,
			   MROCE_MAX_PAYLOAD_HDR + payload, get_random_u64() | 1, true, mroce_now());
	spin_unlock_bh(&conn->tx_lock);
	for (i = 0; i < n; i++)
		mroce_route_set(&conn->routes[i], conn, conn->tx_paths[i].sport);
	return 0;
nomem:
	mroce_conn_free_paths(conn);
	return -ENOMEM;
}

bool mroce_conn_unsetup(struct mroce_conn *conn)
{
	bool early;

	lockdep_assert_held(&conn->dev->conn_mutex);
	spin_lock_bh(&conn->rx_lock);
	spin_lock(&conn->tx_lock);
	early = conn->state == MROCE_CONN_ACCEPTED;
	if (early) {
		/* before OPEN nobody looks at the paths, but a QP that leaves: not any more */
		smp_store_release(&conn->state, MROCE_CONN_HELLO_SENT);
		memset(&conn->tx, 0, sizeof(conn->tx));
	}
	spin_unlock(&conn->tx_lock);
	spin_unlock_bh(&conn->rx_lock);
	if (early)
		mroce_conn_free_paths(conn);
	return early;
}

void mroce_conn_set_state(struct mroce_conn *conn, u8 state)
{
	bool opened = false;

	spin_lock_bh(&conn->rx_lock);
	spin_lock(&conn->tx_lock);
	if (conn->state != state && conn->state != MROCE_CONN_DEAD) {
		opened = state == MROCE_CONN_OPEN && conn->state < MROCE_CONN_OPEN;
		smp_store_release(&conn->state, state);
	}
	spin_unlock(&conn->tx_lock);
	spin_unlock_bh(&conn->rx_lock);
	smp_mb(); /* the new state before the look for mroce_conn_wait_closing() */
	wake_up_var(&conn->state);
	if (opened)
		mroce_count(conn->dev, conn_opened);
}

/* Lets all QPs look for work: the connection has just opened. */
static void mroce_conn_wake(struct mroce_conn *conn)
{
	struct mroce_qp *qp;

	spin_lock_bh(&conn->tx_lock);
	list_for_each_entry(qp, &conn->qps, conn_entry)
		mroce_conn_ready(conn, qp);
	spin_unlock_bh(&conn->tx_lock);
	mroce_conn_kick(conn);
}

void mroce_conn_opened(struct mroce_conn *conn)
{
	conn->attempts = 0;
	conn->idle_since = jiffies;
	mroce_conn_set_state(conn, MROCE_CONN_OPEN);
	mroce_conn_wake(conn);
	mroce_conn_queue(conn, MROCE_IDLE_CLOSE);
}

/* One QP of a dead connection, referenced, off its list; NULL when all are gone. */
static struct mroce_qp *mroce_conn_pop_qp(struct mroce_conn *conn, struct list_head *seen)
{
	struct mroce_qp *qp;

	spin_lock_bh(&conn->tx_lock);
	qp = list_first_entry_or_null(&conn->qps, struct mroce_qp, conn_entry);
	if (qp) {
		list_move_tail(&qp->conn_entry, seen);
		refcount_inc(&qp->refs);
	}
	spin_unlock_bh(&conn->tx_lock);
	return qp;
}

static void mroce_conn_unreplace(struct mroce_conn *conn)
{
	struct mroce_conn *old = conn->replaces;

	if (!old)
		return;
	conn->replaces = NULL;
	mroce_conn_put(old);
}

/*
 * @conn goes: @heir, or else the first candidate for its place, is found under
 * its addresses from now on, and other candidates are for the heir's place.
 */
static void mroce_conn_inherit(struct mroce_conn *conn, struct mroce_conn *heir)
{
	struct mroce_conn *other;

	lockdep_assert_held(&conn->dev->conn_mutex);
	if (!conn->listed)
		return;
	conn->listed = false;
	if (heir)
		heir->listed = true;
	list_for_each_entry(other, &conn->dev->conns, entry) {
		if (other->replaces != conn)
			continue;
		mroce_conn_unreplace(other);
		if (!heir) {
			heir = other;
			heir->listed = true;
		} else if (other != heir) {
			refcount_inc(&heir->refs);
			other->replaces = heir;
		}
	}
}

void mroce_conn_kill(struct mroce_conn *conn)
{
	LIST_HEAD(seen);
	struct mroce_qp *qp;

	lockdep_assert_held(&conn->dev->conn_mutex);
	if (conn->state == MROCE_CONN_DEAD)
		return;
	mroce_conn_set_state(conn, MROCE_CONN_DEAD);
	mroce_count(conn->dev, conn_closed);
	xa_erase_bh(&conn->sock->conns, conn->id & MROCE_CONN_INDEX);
	mroce_conn_unreplace(conn);
	mroce_conn_inherit(conn, NULL);
	list_del_init(&conn->entry);
	/* DEAD was set under the locks that arm them */
	hrtimer_cancel(&conn->tx_timer);
	hrtimer_cancel(&conn->ack_timer);
	if (cancel_delayed_work(&conn->work))
		mroce_conn_put(conn);
	while ((qp = mroce_conn_pop_qp(conn, &seen))) {
		mroce_qp_conn_lost(qp);
		mroce_qp_put(qp);
	}
	spin_lock_bh(&conn->tx_lock);
	list_splice(&seen, &conn->qps);
	spin_unlock_bh(&conn->tx_lock);
	mroce_conn_put(conn);
}

/*
 * The peer has been asked to close and may have done so: only its answer says
 * if the connection still has a peer.  It comes within a round trip, or the
 * connection is given up.  Drops conn_mutex meanwhile.  0 or -ERESTARTSYS.
 */
static int mroce_conn_wait_closing(struct mroce_conn *conn)
{
	struct mroce_dev *dev = conn->dev;
	int err;

	lockdep_assert_held(&dev->conn_mutex);
	refcount_inc(&conn->refs);
	mutex_unlock(&dev->conn_mutex);
	err = wait_var_event_killable(&conn->state,
				      mroce_conn_state(conn) != MROCE_CONN_CLOSING);
	mroce_conn_put(conn);
	mutex_lock(&dev->conn_mutex);
	return err;
}

struct mroce_conn *mroce_conn_get(struct mroce_dev *dev, const struct mroce_addr *local,
				  const struct mroce_addr *remote, u8 tclass)
{
	struct mroce_conn *conn;
	int err;

	mutex_lock(&dev->conn_mutex);
again:
	if (dev->dying) {
		conn = ERR_PTR(-ENODEV);
		goto out;
	}
	conn = mroce_conn_find(dev, local, remote, tclass);
	if (conn && conn->state == MROCE_CONN_CLOSING) {
		err = mroce_conn_wait_closing(conn);
		if (!err)
			goto again;
		conn = ERR_PTR(err);
		goto out;
	}
	if (!conn) {
		conn = mroce_conn_new(dev, local, remote, tclass);
		if (IS_ERR(conn))
			goto out;
		if (!mroce_conn_offer(conn)) {
			mroce_conn_kill(conn);
			conn = ERR_PTR(-ENETUNREACH);
			goto out;
		}
		conn->listed = true;
		mroce_conn_set_state(conn, MROCE_CONN_HELLO_SENT);
		mroce_hello_send(conn, MROCE_C_HELLO, 0, NULL);
		mroce_conn_queue(conn, MROCE_HELLO_FIRST);
	}
	conn->users++;
	refcount_inc(&conn->refs);
out:
	mutex_unlock(&dev->conn_mutex);
	return conn;
}

void mroce_conn_leave(struct mroce_conn *conn)
{
	struct mroce_dev *dev = conn->dev;

	mutex_lock(&dev->conn_mutex);
	/* a handshake under way goes on by its own timer, which must not be put off */
	if (!--conn->users && conn->state == MROCE_CONN_OPEN) {
		conn->idle_since = jiffies;
		mroce_conn_queue(conn, MROCE_IDLE_CLOSE);
	}
	mutex_unlock(&dev->conn_mutex);
	mroce_conn_put(conn);
}

static unsigned long mroce_backoff(struct mroce_conn *conn)
{
	return min_t(unsigned long, (unsigned long)MROCE_HELLO_FIRST << min(conn->attempts, 8u),
		     MROCE_HELLO_MAX);
}

static void mroce_send_close(struct mroce_conn *conn, u8 opcode, bool refused)
{
	struct mroce_close_ack body = { .refused = refused };

	local_bh_disable();
	mroce_ctrl_send(conn, MROCE_T_CTRL, opcode, &body,
			opcode == MROCE_C_CLOSE_ACK ? sizeof(body) : 0);
	local_bh_enable();
}

static void mroce_conn_do_events(struct mroce_conn *conn)
{
	struct mroce_conn *old = conn->replaces;

	if (test_and_clear_bit(MROCE_CEV_DEAD, &conn->events)) {
		mroce_conn_kill(conn);
		return;
	}
	if (test_and_clear_bit(MROCE_CEV_VALIDATED, &conn->events)) {
		if (old) {
			mroce_conn_inherit(old, conn);
			mroce_conn_kill(old);
		}
		mroce_conn_opened(conn);
	}
	if (test_and_clear_bit(MROCE_CEV_CLOSE, &conn->events)) {
		mroce_send_close(conn, MROCE_C_CLOSE_ACK, conn->users);
		if (!conn->users) {
			mroce_conn_kill(conn);
			return;
		}
	}
	if (test_and_clear_bit(MROCE_CEV_REFUSED, &conn->events) &&
	    conn->state == MROCE_CONN_CLOSING)
		mroce_conn_opened(conn);
	if (test_and_clear_bit(MROCE_CEV_CLOSED, &conn->events) &&
	    conn->state == MROCE_CONN_CLOSING)
		mroce_conn_kill(conn);
}

/* What is due by time, in each state (2, point 6). */
static void mroce_conn_step(struct mroce_conn *conn)
{
	switch (conn->state) {
	case MROCE_CONN_HELLO_SENT:
		if (!conn->users && conn->attempts >= MROCE_GIVE_UP) {
			mroce_conn_kill(conn);
			return;
		}
		mroce_hello_send(conn, MROCE_C_HELLO, 0, NULL);
		mroce_conn_queue(conn, mroce_backoff(conn));
		conn->attempts++;
		break;
	case MROCE_CONN_ACCEPTED:
		if (!conn->users && conn->attempts >= MROCE_GIVE_UP) {
			mroce_conn_kill(conn);
			return;
		}
		/* the answer may be lost, or the peer silent: it answers this */
		mroce_hello_send(conn, MROCE_C_HELLO_ACK, conn->peer_nonce, NULL);
		mroce_conn_queue(conn, mroce_backoff(conn));
		conn->attempts++;
		break;
	case MROCE_CONN_OPEN:
		if (conn->users)
			break;
		if (time_before(jiffies, conn->idle_since + MROCE_IDLE_CLOSE)) {
			mroce_conn_queue(conn, conn->idle_since + MROCE_IDLE_CLOSE - jiffies);
			break;
		}
		conn->attempts = 0;
		mroce_conn_set_state(conn, MROCE_CONN_CLOSING);
		fallthrough;
	case MROCE_CONN_CLOSING:
		/* no QP joins meanwhile: mroce_conn_get() waits */
		if (conn->attempts++ >= MROCE_GIVE_UP) {
			mroce_conn_kill(conn);
			break;
		}
		mroce_send_close(conn, MROCE_C_CLOSE, false);
		mroce_conn_queue(conn, mroce_backoff(conn));
		break;
	default:
		break;
	}
}

static void mroce_conn_work(struct work_struct *work)
{
	struct mroce_conn *conn = container_of(to_delayed_work(work), struct mroce_conn, work);
	struct mroce_dev *dev = conn->dev;
	bool events;

	mutex_lock(&dev->conn_mutex);
	if (conn->state != MROCE_CONN_DEAD) {
		events = READ_ONCE(conn->events);
		if (events)
			mroce_conn_do_events(conn);
		/* also when an event came in place of the timer */
		if (!events ||
		    (conn->state != MROCE_CONN_DEAD && !delayed_work_pending(&conn->work)))
			mroce_conn_step(conn);
	}
	mutex_unlock(&dev->conn_mutex);
	mroce_conn_put(conn);
}

int mroce_engine_dev_init(struct mroce_dev *dev)
{
	mutex_init(&dev->conn_mutex);
	INIT_LIST_HEAD(&dev->conns);
	atomic_set(&dev->n_conns, 0);
	atomic_set(&dev->held_bytes, 0);
	dev->wq = alloc_workqueue("metaroce", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return dev->wq ? 0 : -ENOMEM;
}

void mroce_engine_dev_stop(struct mroce_dev *dev)
{
	struct mroce_conn *conn, *next;
	struct mroce_qp *qp;
	unsigned long i;

	mutex_lock(&dev->conn_mutex);
	dev->dying = true;
	mutex_unlock(&dev->conn_mutex);

	/* before their connections die: a device that goes is a flush, not the peer's silence */
	rcu_read_lock();
	xa_for_each(&dev->qps, i, qp) {
		if (!refcount_inc_not_zero(&qp->refs))
			continue;	/* being destroyed */
		rcu_read_unlock();
		mroce_engine_qp_to_error(qp);
		mroce_qp_put(qp);
		cond_resched();
		rcu_read_lock();
	}
	rcu_read_unlock();

	mutex_lock(&dev->conn_mutex);
	list_for_each_entry_safe(conn, next, &dev->conns, entry) {
		if (conn->state == MROCE_CONN_OPEN || conn->state == MROCE_CONN_CLOSING)
			mroce_send_close(conn, MROCE_C_BYE, false);
		mroce_conn_kill(conn);
	}
	mutex_unlock(&dev->conn_mutex);
	flush_workqueue(dev->wq);
}

void mroce_engine_dev_exit(struct mroce_dev *dev)
{
	if (!dev->wq)
		return;
	wait_var_event(&dev->n_conns, !atomic_read(&dev->n_conns));
	destroy_workqueue(dev->wq);
	dev->wq = NULL;
	WARN_ON(atomic_read(&dev->held_bytes));
}
