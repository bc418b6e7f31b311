// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The transmit run of a connection: probes, retransmissions, then new packets
 * of the ready QPs, round robin, as long as windows and budget allow.  A path
 * is FIFO because a packet gets its PSN and goes to the IP layer under one
 * lock, conn->tx_lock.
 */
#include <linux/netdevice.h>
#include <linux/percpu.h>
#include <linux/smp.h>
#include <net/sock.h>

#include "../compat/compat.h"
#include "../verbs/device.h"
#include "../verbs/qp.h"
#include "conn.h"
#include "engine.h"
#include "qp.h"
#include "requester.h"

/* What may wait in queueing disciplines before we stop and look again a little later. */
#define MROCE_QUEUE_BYTES	(4u << 20)
#define MROCE_QUEUE_RETRY_NS	(100 * NSEC_PER_USEC)
#define MROCE_NOMEM_RETRY_NS	NSEC_PER_MSEC

struct mroce_deferred {		/* per CPU */
	struct napi_struct napi;
	call_single_data_t csd;		/* schedules napi from another CPU */
	spinlock_t lock;
	struct list_head conns;		/* mroce_conn.run_entry: runs that used up their budget */
	struct list_head qps;		/* mroce_qp.db_entry: doorbells rung with interrupts off */
};

static struct mroce_deferred __percpu *mroce_deferred;
static struct net_device mroce_napi_dev;	/* NAPI wants a device; never registered */

static void mroce_defer_ipi(void *info)
{
	struct mroce_deferred *d = info;

	napi_schedule(&d->napi);
}

/* Queues a run on @cpu.  Any context. */
static void mroce_conn_defer_to(struct mroce_conn *conn, int cpu)
{
	struct mroce_deferred *d;
	unsigned long flags;

	if (test_and_set_bit(MROCE_RUN_QUEUED, &conn->run_flags))
		return;
	if (!refcount_inc_not_zero(&conn->refs)) {	/* killed, and its last QP gone, meanwhile */
		clear_bit(MROCE_RUN_QUEUED, &conn->run_flags);
		return;
	}
	local_irq_save(flags);
	if (!cpu_online(cpu))
		cpu = smp_processor_id();
	d = per_cpu_ptr(mroce_deferred, cpu);
	spin_lock(&d->lock);
	list_add_tail(&conn->run_entry, &d->conns);
	spin_unlock(&d->lock);
	if (cpu == smp_processor_id())
		napi_schedule(&d->napi);
	else	/* -EBUSY: one is under way, and it will see the entry */
		smp_call_function_single_async(cpu, &d->csd);
	local_irq_restore(flags);
}

void mroce_conn_defer(struct mroce_conn *conn)
{
	mroce_conn_defer_to(conn, raw_smp_processor_id());
}

void mroce_qp_defer(struct mroce_qp *qp)
{
	struct mroce_deferred *d;
	unsigned long flags;

	if (test_and_set_bit(0, &qp->db_flags))
		return;
	refcount_inc(&qp->refs);
	local_irq_save(flags);
	d = this_cpu_ptr(mroce_deferred);
	spin_lock(&d->lock);
	list_add_tail(&qp->db_entry, &d->qps);
	spin_unlock(&d->lock);
	napi_schedule(&d->napi);
	local_irq_restore(flags);
}

static bool mroce_deferred_qp(struct mroce_deferred *d)
{
	struct mroce_qp *qp;

	spin_lock_irq(&d->lock);
	qp = list_first_entry_or_null(&d->qps, struct mroce_qp, db_entry);
	if (qp)
		list_del_init(&qp->db_entry);
	spin_unlock_irq(&d->lock);
	if (!qp)
		return false;
	clear_bit(0, &qp->db_flags);
	mroce_qp_doorbell_bh(qp);
	mroce_qp_put(qp);
	return true;
}

static bool mroce_deferred_conn(struct mroce_deferred *d)
{
	struct mroce_conn *conn;

	spin_lock_irq(&d->lock);
	conn = list_first_entry_or_null(&d->conns, struct mroce_conn, run_entry);
	if (conn)
		list_del_init(&conn->run_entry);
	spin_unlock_irq(&d->lock);
	if (!conn)
		return false;
	clear_bit(MROCE_RUN_QUEUED, &conn->run_flags);
	mroce_conn_run(conn);
	mroce_conn_put(conn);
	return true;
}

static int mroce_napi_poll(struct napi_struct *napi, int budget)
{
	struct mroce_deferred *d = container_of(napi, struct mroce_deferred, napi);
	int done = 0;

	/* a run is worth many packets: few of them fill a NAPI budget */
	while (done < budget && (mroce_deferred_qp(d) || mroce_deferred_conn(d)))
		done += 16;
	if (done >= budget)
		return budget;
	/* a defer since the last look has set the missed bit: then it runs again */
	napi_complete_done(napi, done);
	return done;
}

void mroce_conn_ready(struct mroce_conn *conn, struct mroce_qp *qp)
{
	lockdep_assert_held(&conn->tx_lock);
	if (list_empty(&qp->ready_entry))
		list_add_tail(&qp->ready_entry, &conn->ready);
}

static void mroce_conn_arm(struct mroce_conn *conn, u64 when)
{
	lockdep_assert_held(&conn->tx_lock);
	/*
	 * Moving a timer is dear, and most deadlines move away with every
	 * packet: let it fire early and look again.
	 */
	if (when >= conn->tx_armed || conn->state == MROCE_CONN_DEAD)
		return;
	conn->tx_armed = when;
	hrtimer_start(&conn->tx_timer, ns_to_ktime(when), HRTIMER_MODE_ABS_SOFT);
}

static void mroce_conn_tx_count(struct mroce_conn *conn)
{
	struct mroce_conn_tx_stats *now = &conn->tx.stats, *seen = &conn->seen;
	struct mroce_dev *dev = conn->dev;

	lockdep_assert_held(&conn->tx_lock);
	if (!memcmp(now, seen, sizeof(*now)))
		return;
	mroce_count_add(dev, lost, now->lost - seen->lost);
	mroce_count_add(dev, spurious, now->spurious - seen->spurious);
	mroce_count_add(dev, pto, now->pto - seen->pto);
	mroce_count_add(dev, tail_probes, now->tail_probes - seen->tail_probes);
	mroce_count_add(dev, probes, now->probes - seen->probes);
	mroce_count_add(dev, rerolls, now->reroll - seen->reroll);
	mroce_count_add(dev, moved, now->moved - seen->moved);
	mroce_count_add(dev, bad_ack, now->bad_ack - seen->bad_ack);
	*seen = *now;
}

void mroce_conn_tx_update(struct mroce_conn *conn)
{
	mroce_conn_arm(conn, conn->tx.next_timer);
	mroce_conn_tx_count(conn);
}

void mroce_conn_arm_late(struct mroce_conn *conn)
{
	/* without the lock: whoever changes next_timer meanwhile arms himself */
	if (mroce_conn_state(conn) != MROCE_CONN_OPEN ||
	    READ_ONCE(conn->tx.next_timer) >= READ_ONCE(conn->tx_armed))
		return;
	spin_lock(&conn->tx_lock);
	mroce_conn_arm(conn, conn->tx.next_timer);
	spin_unlock(&conn->tx_lock);
}

enum hrtimer_restart mroce_tx_timer(struct hrtimer *timer)
{
	struct mroce_conn *conn = container_of(timer, struct mroce_conn, tx_timer);
	u64 now;

	spin_lock(&conn->tx_lock);
	conn->tx_armed = ~0ull;
	now = mroce_now();
	if (conn->tx.next_timer <= now)
		mroce_conn_tx_timer(&conn->tx, now);
	spin_unlock(&conn->tx_lock);
	mroce_conn_run(conn);
	return HRTIMER_NORESTART;
}

static void mroce_fill_conn(struct mroce_conn *conn, struct mroce_pkt *pkt)
{
	pkt->dst_conn = conn->peer_id;
	pkt->vtag = conn->peer_vtag;
}

static void mroce_path_output(struct mroce_conn *conn, u32 path, struct sk_buff *skb)
{
	struct mroce_route *route = &conn->routes[path];
	struct mroce_dev *dev = conn->dev;
	int err;

	if (route->sport != conn->tx_paths[path].sport) {	/* re-rolled */
		mroce_route_drop(route);
		route->sport = conn->tx_paths[path].sport;
	}
	mroce_count(dev, tx_pkts);
	mroce_count_add(dev, tx_bytes, skb->len);
	err = mroce_output(conn->sock, route, skb, true);
	if (!err)
		return;
	/* It has its PSN: for the path it is a packet lost on the wire. */
	if (err == -ENOBUFS)
		mroce_count(dev, tx_refused);
	else
		mroce_count(dev, tx_no_route);
}

static void mroce_send_probe(struct mroce_conn *conn, u32 path, u64 now)
{
	/* An unproven path carries a full packet, so that an MTU black hole shows before data. */
	bool pad = conn->tx_paths[path].state == MROCE_PATH_NEW;
	u32 len = sizeof(struct mroce_base_hdr) + sizeof(struct mroce_probe);
	u32 full = pad ? MROCE_MAX_PAYLOAD_HDR + conn->payload : len;
	struct mroce_pkt pkt = { .type = MROCE_T_PROBE };
	struct mroce_probe *body;
	struct sk_buff *skb;
	u64 value;

	mroce_fill_conn(conn, &pkt);
	mroce_conn_tx_sent_probe(&conn->tx, path, now, &pkt, &value);
	pkt.flags |= MROCE_F_AR;
	skb = mroce_skb_alloc(&conn->routes[path], full);
	if (!skb) {
		mroce_count(conn->dev, no_mem);
		return;
	}
	mroce_build_base(skb_put_zero(skb, full), &pkt);
	body = (void *)(skb->data + sizeof(struct mroce_base_hdr));
	body->value = cpu_to_be64(value);
	mroce_path_output(conn, path, skb);
}

static void mroce_send_data(struct mroce_conn *conn, u32 path,
			    struct mroce_tx_unit *u, bool more, u64 now)
{
	u32 full = MROCE_MAX_PAYLOAD_HDR + conn->payload;
	struct mroce_dev *dev = conn->dev;
	u8 piggy[MROCE_PIGGY_MAX];

	mroce_fill_conn(conn, &u->pkt);
	u->pkt.type = MROCE_T_DATA;
	mroce_conn_tx_sent(&conn->tx, path, &u->ref, more, now, &u->pkt);
	if (u->skb->len < full)
		u->pkt.piggy_len = mroce_ack_piggy(conn, piggy, full - u->skb->len);
	if (u->pkt.piggy_len)
		memcpy(skb_push(u->skb, u->pkt.piggy_len) + sizeof(struct mroce_base_hdr), piggy,
		       u->pkt.piggy_len);
	mroce_build_data(u->skb->data, &u->pkt);
	if (!(conn->paths_used & BIT_ULL(path))) {
		conn->paths_used |= BIT_ULL(path);
		mroce_count(dev, paths_used);
	}
	mroce_count(dev, tx_data_pkts);
	if (u->pkt.flags & MROCE_F_RTX)
		mroce_count(dev, retransmitted);
	mroce_path_output(conn, path, u->skb);
}

/* Resends what the path layer asks for, if it is still wanted.  False: no memory. */
static bool mroce_send_rtx(struct mroce_conn *conn, u32 path,
			   const struct mroce_pkt_ref *ref, u64 now)
{
	struct mroce_tx_unit u = { .ref = *ref, .path = path };
	struct mroce_qp *qp = mroce_qp_get(conn->dev, ref->qpn);
	bool built = false;

	if (qp) {
		if (rcu_access_pointer(qp->conn) == conn)
			built = mroce_build_again(qp, conn, &u);
		mroce_qp_put(qp);
	}
	if (built)
		mroce_send_data(conn, path, &u, true, now);
	else if (u.nomem)
		mroce_conn_tx_requeue(&conn->tx, path, ref);
	if (u.nomem)
		mroce_conn_arm(conn, now + MROCE_NOMEM_RETRY_NS);
	return !u.nomem;
}

/* New packets of the ready QPs, and what stream blocks asked for again. */
static bool mroce_send_new(struct mroce_conn *conn, u64 now)
{
	u32 mss = MROCE_MAX_PAYLOAD_HDR + conn->payload;
	struct mroce_tx_unit u;
	struct mroce_qp *qp;
	int path;

	while (!list_empty(&conn->ready)) {
		path = mroce_conn_tx_pick(&conn->tx, mss);
		if (path < 0)
			return false;
		qp = list_first_entry(&conn->ready, struct mroce_qp, ready_entry);
		memset(&u, 0, sizeof(u));
		u.path = path;
		if (!mroce_build_next(qp, conn, &u)) {
			if (u.nomem) {
				mroce_conn_arm(conn, now + MROCE_NOMEM_RETRY_NS);
				return false;
			}
			list_del_init(&qp->ready_entry);
			continue;
		}
		/* one packet each, in turn */
		list_move_tail(&qp->ready_entry, &conn->ready);
		mroce_send_data(conn, path, &u, u.more || !list_is_singular(&conn->ready), now);
		return true;
	}
	return false;
}

static bool mroce_queue_full(struct mroce_conn *conn)
{
	bool v4 = mroce_addr_is_v4(&conn->remote);
	struct socket *s = v4 ? rcu_dereference_bh(conn->sock->sk4) :
				rcu_dereference_bh(conn->sock->sk6);

	return s && sk_wmem_alloc_get(s->sk) > MROCE_QUEUE_BYTES;
}

/*
 * A path is FIFO only as long as one CPU sends on it: each CPU has its own
 * backlog and its own queue of the netdev (3.2 rule 3).  The connection moves
 * to another CPU when nothing is under way that could be overtaken.
 */
static bool mroce_may_run_here(struct mroce_conn *conn)
{
	int cpu = smp_processor_id();

	lockdep_assert_held(&conn->tx_lock);
	if (conn->tx_cpu == cpu)
		return true;
	if (conn->tx.inflight && cpu_online(conn->tx_cpu))
		return false;
	conn->tx_cpu = cpu;
	return true;
}

void mroce_conn_transmit(struct mroce_conn *conn, bool arm)
{
	u32 budget = READ_ONCE(conn->dev->set.run_budget);
	struct mroce_pkt_ref ref;
	enum mroce_send_kind kind;
	bool again = false, sent;
	int elsewhere = -1;
	u32 path;
	u64 now;

	if (mroce_conn_state(conn) != MROCE_CONN_OPEN)
		return;
	rcu_read_lock_bh();
	spin_lock(&conn->tx_lock);
	if (conn->state != MROCE_CONN_OPEN)
		goto out;
	if (!mroce_may_run_here(conn)) {
		if (!list_empty(&conn->ready) || conn->tx.rtx_queued || conn->tx.probes_due)
			elsewhere = conn->tx_cpu;
		mroce_conn_tx_update(conn);
		goto out;
	}
	for (;;) {
		if (!budget--) {
			again = true;
			break;
		}
		if (mroce_queue_full(conn)) {
			mroce_conn_arm(conn, mroce_now() + MROCE_QUEUE_RETRY_NS);
			break;
		}
		now = mroce_now();
		kind = mroce_conn_tx_next(&conn->tx, &path, &ref);
		sent = true;
		if (kind == MROCE_SEND_PROBE)
			mroce_send_probe(conn, path, now);
		else if (kind == MROCE_SEND_RTX)
			sent = mroce_send_rtx(conn, path, &ref, now);
		else
			sent = mroce_send_new(conn, now);
		if (!sent)
			break;
	}
	if (arm)
		mroce_conn_tx_update(conn);
	else
		mroce_conn_tx_count(conn);
out:
	spin_unlock(&conn->tx_lock);
	rcu_read_unlock_bh();
	if (elsewhere >= 0)
		mroce_conn_defer_to(conn, elsewhere);
	if (again) {
		mroce_count(conn->dev, deferred_runs);
		mroce_conn_defer(conn);
	}
}

void mroce_conn_kick(struct mroce_conn *conn)
{
	if (irqs_disabled()) {
		mroce_conn_defer(conn);
		return;
	}
	local_bh_disable();
	mroce_conn_run(conn);
	local_bh_enable();
}

int mroce_engine_init(void)
{
	int cpu;

	mroce_deferred = alloc_percpu(struct mroce_deferred);
	if (!mroce_deferred)
		return -ENOMEM;
	init_dummy_netdev(&mroce_napi_dev);
	for_each_possible_cpu(cpu) {
		struct mroce_deferred *d = per_cpu_ptr(mroce_deferred, cpu);

		spin_lock_init(&d->lock);
		INIT_CSD(&d->csd, mroce_defer_ipi, d);
		INIT_LIST_HEAD(&d->conns);
		INIT_LIST_HEAD(&d->qps);
		netif_napi_add(&mroce_napi_dev, &d->napi, mroce_napi_poll);
		napi_enable(&d->napi);
	}
	return 0;
}

void mroce_engine_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct mroce_deferred *d = per_cpu_ptr(mroce_deferred, cpu);

		napi_disable(&d->napi);
		__netif_napi_del(&d->napi);
		WARN_ON(!list_empty(&d->conns) || !list_empty(&d->qps));
	}
	synchronize_net();
	free_percpu(mroce_deferred);
}
