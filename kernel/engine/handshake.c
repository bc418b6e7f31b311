// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Handshake and control packets (protocol.rst 2).  HELLO, HELLO_ACK and
 * CHALLENGE are handled in process context under conn_mutex.
 *
 * Simultaneous open needs no winner here: both ends have one object for the
 * pair of addresses, each HELLO describes its sender's object completely, and
 * every parameter is the smaller of both sides' offers.
 */
#include <linux/ip.h>
#include <linux/ratelimit.h>
#include <linux/siphash.h>
#include <linux/udp.h>
#include <net/ip.h>

#include "../verbs/device.h"
#include "conn.h"
#include "engine.h"
#include "qp.h"

#define MROCE_HALF_OPEN_MAX	256	/* unvalidated connections before cookies are asked for */
#define MROCE_HALF_OPEN_TOP	1024	/* and before nothing more is taken */
#define MROCE_COOKIE_SLOT	(4 * HZ)
#define MROCE_RESETS_PER_TICK	4
#define MROCE_CTL_MAX		(sizeof(struct mroce_base_hdr) + sizeof(struct mroce_hello) + \
				 MROCE_MAX_PLANES * sizeof(struct mroce_hello_addr))

static struct sk_buff *mroce_ctl_alloc(u32 len)
{
	struct sk_buff *skb = alloc_skb(MAX_HEADER + MROCE_IP_UDP_HDR + len,
					GFP_ATOMIC | __GFP_NOWARN);

	if (skb)
		skb_reserve(skb, MAX_HEADER + MROCE_IP_UDP_HDR);
	return skb;
}

static void mroce_ctl_output(struct mroce_conn *conn, struct sk_buff *skb)
{
	mroce_count(conn->dev, tx_pkts);
	mroce_count_add(conn->dev, tx_bytes, skb->len);
	rcu_read_lock_bh();
	spin_lock(&conn->ack_lock);
	if (mroce_output(conn->sock, &conn->ack_route, skb, true))
		mroce_count(conn->dev, tx_refused);
	spin_unlock(&conn->ack_lock);
	rcu_read_unlock_bh();
}

void mroce_ctrl_send(struct mroce_conn *conn, u8 type, u8 opcode, const void *body, u32 len)
{
	struct sk_buff *skb = mroce_ctl_alloc(sizeof(struct mroce_base_hdr) + len);
	struct mroce_pkt pkt = {
		.type = type,
		.opcode = opcode,
		.dst_conn = conn->peer_id,
		.vtag = conn->peer_vtag,
		.tx_ts = mroce_ts(mroce_now()),
	};

	if (!skb) {
		mroce_count(conn->dev, no_mem);
		return;
	}
	mroce_build_base(skb_put(skb, sizeof(struct mroce_base_hdr)), &pkt);
	if (len)
		skb_put_data(skb, body, len);
	mroce_ctl_output(conn, skb);
}

static void mroce_hello_fill(struct mroce_conn *conn, struct mroce_hello_h *h)
{
	struct mroce_dev *dev = conn->dev;

	h->ver_min = MROCE_WIRE_VERSION;
	h->ver_max = MROCE_WIRE_VERSION;
	h->tclass = conn->tclass;
	h->max_paths = MROCE_MAX_PATHS;
	h->conn_id = conn->id;
	h->vtag = conn->vtag;
	h->payload = mroce_conn_offer(conn);
	h->mtu = min_t(u32, dev->ndev->mtu, U16_MAX);
	h->instance = dev->instance;
	h->nonce = conn->nonce;
	h->msn_log2 = MROCE_MSN_LOG2;
	h->spsn_log2 = ilog2(MROCE_SPSN_WINDOW);
	h->ack_max = 16;
	h->n_addr = 1;
	h->addr[0].family = mroce_addr_is_v4(&conn->local) ? 4 : 6;
	h->addr[0].mtu = h->mtu;
	if (h->addr[0].family == 4)
		memcpy(h->addr[0].addr, &conn->local.a.s6_addr32[3], 4);
	else
		memcpy(h->addr[0].addr, &conn->local.a, 16);
}

void mroce_hello_send(struct mroce_conn *conn, u8 ctrl, u64 echo_nonce,
		      const struct mroce_hello_h *challenge)
{
	struct mroce_hello_h h = {};
	struct mroce_pkt pkt = { .type = MROCE_T_CTRL, .opcode = ctrl };
	struct sk_buff *skb;
	u8 *body;

	lockdep_assert_held(&conn->dev->conn_mutex);
	mroce_hello_fill(conn, &h);
	if (!h.payload)
		return;		/* no route now: the next retry finds out */
	h.echo_nonce = echo_nonce;
	if (challenge) {
		h.cookie = challenge->cookie;
		h.cookie_slot = challenge->cookie_slot;
	}
	if (ctrl == MROCE_C_HELLO_ACK) {
		pkt.dst_conn = conn->peer_id;
		pkt.vtag = conn->peer_vtag;
	}
	skb = mroce_ctl_alloc(MROCE_CTL_MAX);
	if (!skb) {
		mroce_count(conn->dev, no_mem);
		return;
	}
	mroce_build_base(skb_put(skb, sizeof(struct mroce_base_hdr)), &pkt);
	body = skb_tail_pointer(skb);
	skb_put(skb, mroce_build_hello(body, &h));
	mroce_count(conn->dev, hello_tx);
	mroce_ctl_output(conn, skb);
}

/* A short packet to an address without a connection: CHALLENGE, VERSION, RESET. */
static void mroce_send_bare(struct mroce_sock *sock, struct mroce_dev *dev,
			    const struct mroce_addr *local, const struct mroce_addr *remote,
			    const struct mroce_pkt *pkt, const void *body, u32 len)
{
	struct sk_buff *skb = mroce_ctl_alloc(sizeof(struct mroce_base_hdr) + len);
	struct mroce_route r = {
		.local = *local,
		.remote = *remote,
		.sport = sock->port,
		.dport = sock->port,
	};

	if (!skb)
		return;
	mroce_build_base(skb_put(skb, sizeof(struct mroce_base_hdr)), pkt);
	if (len)
		skb_put_data(skb, body, len);
	rcu_read_lock_bh();
	mroce_output(sock, &r, skb, false);
	rcu_read_unlock_bh();
	mroce_route_drop(&r);
}

static bool mroce_rate_ok(struct mroce_rate *r)
{
	if (READ_ONCE(r->stamp) != jiffies) {
		WRITE_ONCE(r->stamp, jiffies);
		atomic_set(&r->tokens, MROCE_RESETS_PER_TICK);
	}
	return atomic_dec_if_positive(&r->tokens) >= 0;
}

void mroce_reset_send(struct mroce_sock *sock, const struct sk_buff *skb,
		      const struct mroce_pkt *pkt)
{
	struct mroce_pkt out = {
		.type = MROCE_T_RESET,
		.dst_conn = pkt->dst_conn,
		.vtag = pkt->vtag,
	};
	struct mroce_addr src, dst;
	struct mroce_dev *dev;

	if (!mroce_rate_ok(&sock->reset_tx))
		return;
	mroce_skb_addrs(skb, &src, &dst);
	/* only as an address of ours, and never to a group */
	if (!mroce_addr_is_v4(&dst) ? ipv6_addr_is_multicast(&dst.a) :
				      ipv4_is_multicast(dst.a.s6_addr32[3]) ||
				      ipv4_is_lbcast(dst.a.s6_addr32[3]))
		return;
	dev = list_first_or_null_rcu(&sock->devs, struct mroce_dev, sock_entry);
	if (dev)
		mroce_count(dev, resets_tx);
	mroce_send_bare(sock, dev, &dst, &src, &out, NULL, 0);
}

void mroce_reset_rx(struct mroce_sock *sock, const struct sk_buff *skb,
		    const struct mroce_pkt *pkt, struct mroce_dev *dev)
{
	struct mroce_addr src, dst;
	struct mroce_conn *conn;
	unsigned long index;

	/* the walk is long: a flood of forged ones must not buy much of it */
	if (!mroce_rate_ok(&sock->reset_rx)) {
		mroce_count(dev, bad_ctrl);
		return;
	}
	mroce_skb_addrs(skb, &src, &dst);
	rcu_read_lock();
	xa_for_each(&sock->conns, index, conn) {
		if (conn->peer_vtag != pkt->vtag || conn->peer_id != pkt->dst_conn ||
		    mroce_conn_state(conn) < MROCE_CONN_OPEN || !mroce_addr_eq(&conn->remote, &src))
			continue;
		if (refcount_inc_not_zero(&conn->refs)) {
			mroce_count(conn->dev, resets_rx);
			mroce_conn_event(conn, MROCE_CEV_DEAD);
			mroce_conn_put(conn);
		}
		break;
	}
	rcu_read_unlock();
}

static u64 mroce_cookie(struct mroce_sock *sock, const struct mroce_addr *remote,
			const struct mroce_hello_h *h, u32 slot)
{
	siphash_key_t key = { { sock->cookie_key[0], sock->cookie_key[1] } };
	struct {
		struct in6_addr addr;
		u64 nonce, instance, slot;
	} in = { remote->a, h->nonce, h->instance, slot };

	return siphash(&in, sizeof(in), &key);
}

static bool mroce_cookie_ok(struct mroce_sock *sock, const struct mroce_addr *remote,
			    const struct mroce_hello_h *h)
{
	u32 now = jiffies / MROCE_COOKIE_SLOT;

	return h->cookie && now - h->cookie_slot <= 1 &&
	       mroce_cookie(sock, remote, h, h->cookie_slot) == h->cookie;
}

static unsigned int mroce_half_open(struct mroce_dev *dev)
{
	struct mroce_conn *conn;
	unsigned int n = 0;

	list_for_each_entry(conn, &dev->conns, entry)
		n += conn->state == MROCE_CONN_ACCEPTED;
	return n;
}

static void mroce_challenge(struct mroce_sock *sock, struct mroce_dev *dev,
			    const struct mroce_addr *local, const struct mroce_addr *remote,
			    const struct mroce_hello_h *h)
{
	u32 slot = jiffies / MROCE_COOKIE_SLOT;
	struct mroce_challenge body = {
		.nonce = cpu_to_be64(h->nonce),
		.cookie = cpu_to_be64(mroce_cookie(sock, remote, h, slot)),
		.cookie_slot = cpu_to_be32(slot),
	};
	struct mroce_pkt pkt = {
		.type = MROCE_T_CTRL,
		.opcode = MROCE_C_CHALLENGE,
		.dst_conn = h->conn_id,
		.vtag = h->vtag,
	};

	mroce_send_bare(sock, dev, local, remote, &pkt, &body, sizeof(body));
}

static bool mroce_same_peer(const struct mroce_conn *conn, const struct mroce_hello_h *h)
{
	return conn->peer_instance == h->instance && conn->peer_id == h->conn_id &&
	       conn->peer_nonce == h->nonce;
}

/* An earlier HELLO of the same peer already made a candidate. */
static struct mroce_conn *mroce_candidate(struct mroce_dev *dev, struct mroce_conn *old,
					  const struct mroce_hello_h *h)
{
	struct mroce_conn *conn;

	list_for_each_entry(conn, &dev->conns, entry) {
		if (conn->replaces == old && mroce_same_peer(conn, h))
			return conn;
	}
	return NULL;
}

/* Takes the peer's parameters and answers. */
static void mroce_accept(struct mroce_conn *conn, const struct mroce_hello_h *h)
{
	if (mroce_conn_setup(conn, h)) {
		if (!conn->users)
			mroce_conn_kill(conn);
		return;
	}
	conn->attempts = 0;
	mroce_conn_set_state(conn, MROCE_CONN_ACCEPTED);
	mroce_hello_send(conn, MROCE_C_HELLO_ACK, h->nonce, NULL);
	mroce_conn_requeue(conn);
}

static void mroce_hello_rx(struct mroce_sock *sock, struct mroce_dev *dev,
			   const struct mroce_addr *local, const struct mroce_addr *remote,
			   const struct mroce_hello_h *h)
{
	struct mroce_conn *conn = mroce_conn_find(dev, local, remote, h->tclass), *fresh;
	unsigned int half_open;

	if (conn && conn->state <= MROCE_CONN_HELLO_SENT) {
		mroce_accept(conn, h);
		return;
	}
	if (conn && !mroce_same_peer(conn, h)) {
		/* restarted, or an impostor: only a validated packet decides (2, point 5) */
		fresh = mroce_candidate(dev, conn, h);
		if (fresh)
			conn = fresh;
	}
	if (conn && mroce_same_peer(conn, h)) {
		mroce_hello_send(conn, MROCE_C_HELLO_ACK, h->nonce, NULL);
		return;
	}
	half_open = mroce_half_open(dev);
	if (half_open >= MROCE_HALF_OPEN_MAX && !mroce_cookie_ok(sock, remote, h)) {
		mroce_challenge(sock, dev, local, remote, h);
		return;
	}
	/* proven addresses may flood as well */
	if (half_open >= MROCE_HALF_OPEN_TOP) {
		mroce_count(dev, bad_ctrl);
		return;
	}
	fresh = mroce_conn_new(dev, local, remote, h->tclass);
	if (IS_ERR(fresh)) {
		mroce_count(dev, no_mem);
		return;
	}
	if (conn) {
		refcount_inc(&conn->refs);
		fresh->replaces = conn;
	} else {
		fresh->listed = true;
	}
	mroce_accept(fresh, h);
}

static void mroce_hello_ack_rx(struct mroce_conn *conn, const struct mroce_hello_h *h)
{
	if (h->echo_nonce != conn->nonce) {
		mroce_count(conn->dev, bad_ctrl);
		return;
	}
	switch (conn->state) {
	case MROCE_CONN_HELLO_SENT:
		if (mroce_conn_setup(conn, h))
			return;
		mroce_conn_opened(conn);
		break;
	case MROCE_CONN_ACCEPTED:
		if (conn->replaces)
			break;
		/* a HELLO may be forged; this answer knows our nonce and takes its place */
		if (!mroce_same_peer(conn, h) &&
		    (!mroce_conn_unsetup(conn) || mroce_conn_setup(conn, h)))
			break;
		mroce_conn_opened(conn);
		break;
	case MROCE_CONN_OPEN:
		break;
	default:
		return;
	}
	/* a packet with its tag: proves our address to the peer, which may wait for it */
	local_bh_disable();
	mroce_ctrl_send(conn, MROCE_T_SNAK, 0, &(struct mroce_ack_hdr){},
			sizeof(struct mroce_ack_hdr));
	local_bh_enable();
}

static void mroce_challenge_rx(struct mroce_conn *conn, const u8 *body, u32 len)
{
	const struct mroce_challenge *c = (const void *)body;
	struct mroce_hello_h h = {};

	if (len != sizeof(*c) || be64_to_cpu(c->nonce) != conn->nonce ||
	    conn->state != MROCE_CONN_HELLO_SENT) {
		mroce_count(conn->dev, bad_ctrl);
		return;
	}
	h.cookie = be64_to_cpu(c->cookie);
	h.cookie_slot = be32_to_cpu(c->cookie_slot);
	mroce_hello_send(conn, MROCE_C_HELLO, 0, &h);
}

/* To whom a HELLO is addressed: the device that has the address; referenced. */
static struct mroce_dev *mroce_addressed_dev(struct mroce_sock *sock,
					     const struct mroce_addr *local)
{
	struct mroce_dev *dev;

	rcu_read_lock();
	list_for_each_entry_rcu(dev, &sock->devs, sock_entry) {
		if (mroce_dev_has_addr(dev, local) && ib_device_try_get(&dev->ib)) {
			rcu_read_unlock();
			return dev;
		}
	}
	rcu_read_unlock();
	return NULL;
}

static void mroce_ctl_for_conn(struct mroce_sock *sock, const struct mroce_pkt *pkt,
			       const struct mroce_addr *remote, const u8 *body, u32 len,
			       const struct mroce_hello_h *h)
{
	struct mroce_conn *conn = mroce_conn_lookup(sock, pkt->dst_conn);

	if (!conn)
		return;
	mutex_lock(&conn->dev->conn_mutex);
	if (conn->state == MROCE_CONN_DEAD || conn->vtag != pkt->vtag ||
	    !mroce_addr_eq(&conn->remote, remote))
		mroce_count(conn->dev, bad_ctrl);
	else if (pkt->opcode == MROCE_C_HELLO_ACK)
		mroce_hello_ack_rx(conn, h);
	else
		mroce_challenge_rx(conn, body, len);
	mutex_unlock(&conn->dev->conn_mutex);
	mroce_conn_put(conn);
}

static void mroce_version_send(struct mroce_sock *sock, struct mroce_dev *dev,
			       const struct mroce_addr *local, const struct mroce_addr *remote)
{
	struct mroce_pkt out = { .type = MROCE_T_CTRL, .opcode = MROCE_C_VERSION };

	mroce_send_bare(sock, dev, local, remote, &out, NULL, 0);
}

/* A HELLO of another version gets told which one we speak. */
static void mroce_version_rx(struct mroce_sock *sock, struct mroce_dev *dev, const u8 *data,
			     u32 len, const struct mroce_addr *local,
			     const struct mroce_addr *remote)
{
	const struct mroce_base_hdr *base = (const void *)data;

	if (len < sizeof(*base) || (base->ver_type & 15) != MROCE_T_CTRL ||
	    base->opcode != MROCE_C_HELLO)
		return;
	mroce_version_send(sock, dev, local, remote);
}

void mroce_engine_ctl(struct mroce_sock *sock, struct sk_buff *skb)
{
	struct mroce_addr local, remote;
	struct mroce_hello_h h;
	struct mroce_dev *dev;
	struct mroce_pkt pkt;
	u32 len, body_len = 0;
	const u8 *body;

	if (skb_linearize(skb))
		return;
	mroce_skb_addrs(skb, &remote, &local);
	dev = mroce_addressed_dev(sock, &local);
	if (!dev)
		return;
	body = skb->data + sizeof(struct udphdr);
	len = skb->len - sizeof(struct udphdr);
	if (mroce_parse(body, len, len, &pkt) != MROCE_DOOR_OK) {
		mroce_version_rx(sock, dev, body, len, &local, &remote);
		goto out;
	}
	body += sizeof(struct mroce_base_hdr);
	body_len = len - sizeof(struct mroce_base_hdr);
	if (pkt.opcode == MROCE_C_VERSION) {
		net_warn_ratelimited("metaroce: %pI6c speaks another protocol version\n", &remote.a);
		goto out;
	}
	if (pkt.opcode != MROCE_C_CHALLENGE && mroce_parse_hello(body, body_len, &h)) {
		mroce_count(dev, bad_ctrl);
		goto out;
	}
	if (pkt.opcode != MROCE_C_CHALLENGE)
		mroce_count(dev, hello_rx);
	if (pkt.opcode == MROCE_C_HELLO &&
	    (h.ver_min > MROCE_WIRE_VERSION || h.ver_max < MROCE_WIRE_VERSION)) {
		mroce_version_send(sock, dev, &local, &remote);
		goto out;
	}
	if (pkt.opcode != MROCE_C_HELLO) {
		mroce_ctl_for_conn(sock, &pkt, &remote, body, body_len, &h);
		goto out;
	}
	mutex_lock(&dev->conn_mutex);
	if (!dev->dying)
		mroce_hello_rx(sock, dev, &local, &remote, &h);
	mutex_unlock(&dev->conn_mutex);
out:
	ib_device_put(&dev->ib);
}
