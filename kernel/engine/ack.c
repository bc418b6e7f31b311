// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Acknowledgements: bundling path and stream blocks, and taking them apart (protocol.rst 1.5, 3.3). */
#include "../verbs/device.h"
#include "../verbs/qp.h"
#include "completer.h"
#include "conn.h"
#include "engine.h"
#include "responder.h"
#include "timer.h"

#define MROCE_ACK_PATHS		8	/* path blocks per packet */
#define MROCE_ACK_STREAMS	16	/* stream blocks per packet */
#define MROCE_ACK_SIZE							\
	(sizeof(struct mroce_base_hdr) + sizeof(struct mroce_ack_hdr) +	\
	 MROCE_ACK_PATHS * sizeof(struct mroce_path_block) +		\
	 MROCE_ACK_STREAMS * sizeof(struct mroce_stream_block))

void mroce_block_due(struct mroce_conn *conn, struct mroce_qp *qp, u8 cls)
{
	struct mroce_conn *own;

	lockdep_assert_held(&qp->rx_lock);
	if (qp->rq.block_due) {
		/* on the list already, or about to be filled by who took it off */
		qp->rq.block_due |= BIT(cls);
		return;
	}
	own = rcu_dereference_bh(qp->conn);
	if (!own)
		return;
	qp->rq.block_due |= BIT(cls);
	/* listed with the connection it lives on, which takes it off at the end */
	spin_lock(&own->tx_lock);
	if (list_empty(&qp->block_entry))
		list_add_tail(&qp->block_entry, &own->block_list);
	spin_unlock(&own->tx_lock);
}

static struct mroce_qp *mroce_next_block_qp(struct mroce_conn *conn)
{
	struct mroce_qp *qp;

	spin_lock(&conn->tx_lock);
	qp = list_first_entry_or_null(&conn->block_list, struct mroce_qp, block_entry);
	if (qp) {
		list_del_init(&qp->block_entry);
		/* listed QPs have not left the connection, so their reference is there */
		refcount_inc(&qp->refs);
	}
	spin_unlock(&conn->tx_lock);
	return qp;
}

static u32 mroce_put_blocks_locked(struct mroce_qp *qp, u8 classes, u8 *p, u32 room)
{
	struct mroce_ack_stream b;
	u32 n = 0;
	u8 cls;

	lockdep_assert_held(&qp->rx_lock);
	classes |= qp->rq.block_due;
	for (cls = 0; cls < MROCE_N_CLASS && n < room; cls++) {
		if (!(classes & BIT(cls)) || qp->state < IB_QPS_RTR)
			continue;
		mroce_fill_block(qp, cls, &b);
		mroce_put_stream_block(p + n * sizeof(struct mroce_stream_block), &b);
		n++;
	}
	qp->rq.block_due = 0;
	return n;
}

static u32 mroce_put_blocks_of(struct mroce_qp *qp, u8 classes, u8 *p, u32 room)
{
	u32 n;

	spin_lock(&qp->rx_lock);
	n = mroce_put_blocks_locked(qp, classes, p, room);
	spin_unlock(&qp->rx_lock);
	return n;
}

/* A probe will have this QP's blocks repeated. */
static void mroce_note_recent(struct mroce_conn *conn, u32 qpn)
{
	u32 pos = READ_ONCE(conn->recent_pos);

	if (conn->recent[(pos - 1) % MROCE_RECENT_BLOCKS] == qpn)
		return;
	WRITE_ONCE(conn->recent[pos % MROCE_RECENT_BLOCKS], qpn);
	WRITE_ONCE(conn->recent_pos, pos + 1);
}

/* Writes the stream blocks that are due, and with @probed those of the last ACKs again. */
static u32 mroce_put_blocks(struct mroce_conn *conn, u8 *p, bool probed)
{
	struct mroce_qp *qp;
	u32 n = 0, i;

	while (n + MROCE_N_CLASS <= MROCE_ACK_STREAMS && (qp = mroce_next_block_qp(conn))) {
		n += mroce_put_blocks_of(qp, 0, p + n * sizeof(struct mroce_stream_block),
					 MROCE_N_CLASS);
		mroce_note_recent(conn, qp->qpn);
		mroce_qp_put(qp);
	}
	if (!probed)
		return n;
	for (i = 0; i < MROCE_RECENT_BLOCKS && n + MROCE_N_CLASS <= MROCE_ACK_STREAMS; i++) {
		qp = mroce_qp_get(conn->dev, READ_ONCE(conn->recent[i]));
		if (!qp)
			continue;
		if (rcu_access_pointer(qp->conn) == conn)
			n += mroce_put_blocks_of(qp, BIT(MROCE_CLASS_REQ) | BIT(MROCE_CLASS_RSP),
						 p + n * sizeof(struct mroce_stream_block),
						 MROCE_N_CLASS);
		mroce_qp_put(qp);
	}
	return n;
}

/* Headers in front of @skb's blocks, and out on the connection's acknowledgement route. */
static void mroce_ack_output(struct mroce_conn *conn, struct sk_buff *skb, u8 type,
			     u32 n_path, u32 n_stream, u64 rx_bytes)
{
	struct mroce_pkt pkt = {
		.type = type,
		.dst_conn = conn->peer_id,
		.vtag = conn->peer_vtag,
		.tx_ts = mroce_ts(mroce_now()),
	};

	mroce_build_base(skb->data, &pkt);
	mroce_put_ack_hdr(skb->data + sizeof(struct mroce_base_hdr), rx_bytes, n_path, n_stream);
	skb_trim(skb, sizeof(struct mroce_base_hdr) + mroce_ack_len(n_path, n_stream));
	mroce_count(conn->dev, tx_acks);
	mroce_count(conn->dev, tx_pkts);
	mroce_count_add(conn->dev, tx_bytes, skb->len);
	spin_lock(&conn->ack_lock);
	if (mroce_output(conn->sock, &conn->ack_route, skb, true))
		mroce_count(conn->dev, tx_refused);
	spin_unlock(&conn->ack_lock);
}

static struct sk_buff *mroce_ack_alloc(struct mroce_conn *conn)
{
	struct sk_buff *skb = alloc_skb(MAX_HEADER + MROCE_IP_UDP_HDR + MROCE_ACK_SIZE,
					GFP_ATOMIC | __GFP_NOWARN);

	if (!skb) {
		mroce_count(conn->dev, no_mem);
		return NULL;
	}
	skb_reserve(skb, MAX_HEADER + MROCE_IP_UDP_HDR);
	skb_put(skb, MROCE_ACK_SIZE);
	return skb;
}

static u8 *mroce_ack_blocks(struct sk_buff *skb)
{
	return skb->data + sizeof(struct mroce_base_hdr) + sizeof(struct mroce_ack_hdr);
}

static u32 mroce_try_blocks(struct mroce_conn *conn, struct mroce_qp *qp, u8 *p)
{
	u32 n;

	if (!spin_trylock(&qp->rx_lock))
		return 0;
	list_del_init(&qp->block_entry);
	n = mroce_put_blocks_locked(qp, 0, p, MROCE_PIGGY_BLOCKS);
	spin_unlock(&qp->rx_lock);
	mroce_note_recent(conn, qp->qpn);
	return n;
}

/*
 * The locks of the receive half come before tx_lock (device.h): here they are
 * only tried.  Whoever has them sends the acknowledgement itself.
 */
u32 mroce_ack_piggy(struct mroce_conn *conn, u8 *body, u32 room)
{
	u8 *p = body + sizeof(struct mroce_ack_hdr);
	u32 n_path = 0, n_stream = 0;
	struct mroce_ack_path b;
	struct mroce_qp *qp;
	u64 rx_bytes;

	lockdep_assert_held(&conn->tx_lock);
	if (!mroce_conn_rx_piggy(&conn->rx) || room < MROCE_PIGGY_MAX)
		return 0;
	if (!spin_trylock(&conn->rx_lock))
		return 0;
	while (n_path < MROCE_PIGGY_BLOCKS &&
	       mroce_conn_rx_blocks(&conn->rx, &b, 1, mroce_now())) {
		mroce_put_path_block(p, &b);
		p += sizeof(struct mroce_path_block);
		n_path++;
	}
	rx_bytes = conn->rx.rx_bytes;
	spin_unlock(&conn->rx_lock);

	qp = list_first_entry_or_null(&conn->block_list, struct mroce_qp, block_entry);
	if (qp)
		n_stream = mroce_try_blocks(conn, qp, p);
	if (!(n_path + n_stream))
		return 0;
	mroce_put_ack_hdr(body, rx_bytes, n_path, n_stream);
	mroce_count(conn->dev, tx_piggy);
	return mroce_ack_len(n_path, n_stream);
}

void mroce_ack_run(struct mroce_conn *conn, bool probed)
{
	struct mroce_ack_path b;
	u32 n_path, n_stream;
	struct sk_buff *skb;
	u64 rx_bytes, now;
	bool more;
	u8 *p;

	do {
		skb = NULL;
		spin_lock(&conn->rx_lock);
		now = mroce_now();	/* under the lock, as every time that is compared with times of others */
		if (mroce_conn_rx_due(&conn->rx, now))
			skb = mroce_ack_alloc(conn);
		if (!skb) {
			u64 when = conn->rx.deadline;

			if (when <= now)	/* no memory: soon again */
				when = now + NSEC_PER_MSEC;
			if (when < conn->ack_armed && conn->state != MROCE_CONN_DEAD) {
				conn->ack_armed = when;
				hrtimer_start(&conn->ack_timer, ns_to_ktime(when),
					      HRTIMER_MODE_ABS_SOFT);
			}
			spin_unlock(&conn->rx_lock);
			return;
		}
		p = mroce_ack_blocks(skb);
		for (n_path = 0; n_path < MROCE_ACK_PATHS; n_path++) {
			if (!mroce_conn_rx_blocks(&conn->rx, &b, 1, now))
				break;
			mroce_put_path_block(p, &b);
			p += sizeof(struct mroce_path_block);
		}
		rx_bytes = conn->rx.rx_bytes;
		more = mroce_conn_rx_due(&conn->rx, now);
		spin_unlock(&conn->rx_lock);

		n_stream = mroce_put_blocks(conn, p, probed);
		mroce_ack_output(conn, skb, MROCE_T_ACK, n_path, n_stream, rx_bytes);
	} while (more);
	/* more QPs owe a block than one packet holds */
	if (!list_empty(&conn->block_list))
		mroce_blocks_send(conn);
}

void mroce_blocks_send(struct mroce_conn *conn)
{
	struct sk_buff *skb = mroce_ack_alloc(conn);
	u32 n;

	if (!skb)
		return;
	n = mroce_put_blocks(conn, mroce_ack_blocks(skb), false);
	if (n)
		mroce_ack_output(conn, skb, MROCE_T_SNAK, 0, n, 0);
	else
		kfree_skb(skb);
}

void mroce_snak_send(struct mroce_conn *conn, const struct mroce_ack_stream *b)
{
	struct sk_buff *skb = mroce_ack_alloc(conn);

	if (!skb)
		return;
	mroce_put_stream_block(mroce_ack_blocks(skb), b);
	mroce_ack_output(conn, skb, MROCE_T_SNAK, 0, 1, 0);
}

enum hrtimer_restart mroce_ack_timer(struct hrtimer *timer)
{
	struct mroce_conn *conn = container_of(timer, struct mroce_conn, ack_timer);

	rcu_read_lock_bh();
	spin_lock(&conn->rx_lock);
	conn->ack_armed = ~0ull;
	spin_unlock(&conn->rx_lock);
	mroce_ack_run(conn, false);
	rcu_read_unlock_bh();
	return HRTIMER_NORESTART;
}

static void mroce_refs_arrived(struct mroce_qp *qp, const struct mroce_pkt_ref *ref, u32 n)
{
	spin_lock(&qp->sq_lock);
	for (; n; n--, ref++)
		mroce_stream_tx_arrived(ref->cls == MROCE_CLASS_REQ ? &qp->sq.req : &qp->sq.rsp,
					ref->spsn);
	spin_unlock(&qp->sq_lock);
}

static void mroce_path_block_rx(struct mroce_conn *conn, const struct mroce_ack_path *b, u64 now)
{
	u32 n = 0, first, end;
	struct mroce_qp *qp;

	if (mroce_conn_tx_ack(&conn->tx, b, now, conn->acked, &n))
		return;
	for (first = 0; first < n; first = end) {
		u32 qpn = conn->acked[first].qpn;

		for (end = first + 1; end < n && conn->acked[end].qpn == qpn; end++)
			;
		qp = mroce_qp_get(conn->dev, qpn);
		if (!qp)
			continue;
		/* a QP that was reset meanwhile has other numbers: the stream refuses them */
		if (rcu_access_pointer(qp->conn) == conn)
			mroce_refs_arrived(qp, &conn->acked[first], end - first);
		mroce_qp_put(qp);
	}
}

bool mroce_ack_take(struct mroce_conn *conn, const u8 *body, u32 len, bool with_paths)
{
	struct mroce_ack_stream sb;
	struct mroce_ack_path pb;
	u32 n_path, n_stream, i;
	struct mroce_qp *qp;
	u64 now;

	if (mroce_parse_ack_counts(body, len, &n_path, &n_stream) || (n_path && !with_paths)) {
		mroce_count(conn->dev, bad_length);
		return false;
	}
	spin_lock(&conn->tx_lock);
	if (conn->state != MROCE_CONN_OPEN) {
		spin_unlock(&conn->tx_lock);
		return false;
	}
	/* under the lock: earlier than a packet's time stamp it would make that one very old */
	now = mroce_now();
	for (i = 0; i < n_path; i++) {
		mroce_get_path_block(body, i, &pb);
		mroce_path_block_rx(conn, &pb, now);
	}
	for (i = 0; i < n_stream; i++) {
		mroce_get_stream_block(body, n_path, i, &sb);
		qp = mroce_qp_get(conn->dev, sb.qpn);
		if (!qp) {
			mroce_count(conn->dev, bad_qp);
			continue;
		}
		if (rcu_access_pointer(qp->conn) == conn)
			mroce_stream_block_rx(conn, qp, &sb, now);
		mroce_qp_put(qp);
	}
	WRITE_ONCE(conn->rx.srtt_ns, conn->tx.srtt_ns);
	mroce_conn_tx_update(conn);
	spin_unlock(&conn->tx_lock);
	return true;
}

void mroce_ack_rx(struct mroce_conn *conn, const u8 *body, u32 len, bool with_paths)
{
	mroce_count(conn->dev, rx_acks);
	if (mroce_ack_take(conn, body, len, with_paths))
		mroce_conn_run(conn);
}
