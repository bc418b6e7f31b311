// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The receive entry: door check, connection, path, stream.  Softirq. */
#include <linux/udp.h>
#include <net/inet_ecn.h>
#include <net/ipv6.h>

#include "../verbs/device.h"
#include "../verbs/qp.h"
#include "conn.h"
#include "engine.h"
#include "responder.h"

static void mroce_count_door(struct mroce_dev *dev, enum mroce_door why)
{
	switch (why) {
	case MROCE_DOOR_SHORT:
		mroce_count(dev, bad_short);
		break;
	case MROCE_DOOR_VERSION:
		mroce_count(dev, bad_version);
		break;
	case MROCE_DOOR_TYPE:
		mroce_count(dev, bad_type);
		break;
	case MROCE_DOOR_OPCODE:
		mroce_count(dev, bad_opcode);
		break;
	case MROCE_DOOR_FLAGS:
		mroce_count(dev, bad_flags);
		break;
	default:
		mroce_count(dev, bad_length);
		break;
	}
}

/* What comes without a valid connection is counted on the first device of the socket. */
static struct mroce_dev *mroce_any_dev(struct mroce_sock *sock)
{
	return list_first_or_null_rcu(&sock->devs, struct mroce_dev, sock_entry);
}

static bool mroce_is_ce(const struct sk_buff *skb)
{
	u8 ds = ip_hdr(skb)->version == 4 ? ipv4_get_dsfield(ip_hdr(skb)) :
					    ipv6_get_dsfield(ipv6_hdr(skb));

	return INET_ECN_is_ce(ds);
}

/* Judges the path numbers; true: go on. */
static bool mroce_path_rx(struct mroce_conn *conn, const struct mroce_pkt *pkt,
			  enum mroce_path_verdict *v)
{
	spin_lock(&conn->rx_lock);
	*v = mroce_conn_rx_check(&conn->rx, pkt);
	spin_unlock(&conn->rx_lock);
	if (*v != MROCE_PATH_REJECT)
		return true;
	mroce_count(conn->dev, bad_path);
	return false;
}

static void mroce_path_taken(struct mroce_conn *conn, const struct mroce_pkt *pkt, u32 len, bool ce)
{
	enum mroce_path_verdict v;

	spin_lock(&conn->rx_lock);
	/* another CPU may have moved the path on meanwhile */
	v = mroce_conn_rx_check(&conn->rx, pkt);
	if (v == MROCE_PATH_OK || v == MROCE_PATH_DUP)
		mroce_conn_rx_commit(&conn->rx, pkt, len, ce, mroce_now());
	spin_unlock(&conn->rx_lock);
}

/* Is the answer a packet that can carry our acknowledgement? */
static bool mroce_answer_carries(const struct mroce_conn *conn, const struct mroce_pkt *pkt)
{
	return mroce_op_info(pkt->opcode)->flags & MROCE_OPF_REPLY &&
	       pkt->length + MROCE_PIGGY_MAX <= conn->payload;
}

static void mroce_data_rx(struct mroce_conn *conn, const struct mroce_pkt *pkt,
			  struct sk_buff *skb, u32 len, bool ce)
{
	bool rides = mroce_answer_carries(conn, pkt), acked = false;
	enum mroce_path_verdict v;
	enum mroce_rx_fate fate;
	struct mroce_qp *qp;

	mroce_count(conn->dev, rx_data_pkts);
	if (!mroce_path_rx(conn, pkt, &v))
		return;
	if (pkt->piggy_len)
		acked = mroce_ack_take(conn, skb->data + sizeof(struct udphdr) +
				       sizeof(struct mroce_base_hdr), pkt->piggy_len, true);
	qp = mroce_qp_get(conn->dev, pkt->dst_qpn);
	fate = mroce_qp_rx(conn, qp, pkt, skb, sizeof(struct udphdr) + pkt->hdr_len);
	if (qp)
		mroce_qp_put(qp);
	if (fate == MROCE_FATE_ACK)
		mroce_path_taken(conn, pkt, len, ce);
	if (!rides)
		mroce_ack_run(conn, false);
	/* answers, resends that its acknowledgement asks for, sends that it made possible */
	if (acked || !list_empty(&conn->ready))
		mroce_conn_run(conn);
	if (rides)
		mroce_ack_run(conn, false);	/* it did not */
}

static void mroce_probe_rx(struct mroce_conn *conn, const struct mroce_pkt *pkt,
			   const u8 *body, u32 len, u32 udp_len, bool ce)
{
	const struct mroce_probe *probe = (const void *)body;
	struct mroce_probe_rsp rsp;
	enum mroce_path_verdict v;

	if (len < sizeof(*probe)) {
		mroce_count(conn->dev, bad_short);
		return;
	}
	if (!mroce_path_rx(conn, pkt, &v))
		return;
	mroce_path_taken(conn, pkt, udp_len, ce);
	rsp = (struct mroce_probe_rsp) {
		.value = probe->value,
		.path_id = pkt->path_id,
		.path_gen = cpu_to_be16(pkt->path_gen),
		.path_psn = cpu_to_be32(pkt->path_psn),
	};
	mroce_ctrl_send(conn, MROCE_T_PROBE_RSP, 0, &rsp, sizeof(rsp));
	mroce_ack_run(conn, true);
}

static void mroce_probe_rsp_rx(struct mroce_conn *conn, const u8 *body, u32 len)
{
	const struct mroce_probe_rsp *rsp = (const void *)body;

	if (len < sizeof(*rsp)) {
		mroce_count(conn->dev, bad_short);
		return;
	}
	spin_lock(&conn->tx_lock);
	if (conn->state == MROCE_CONN_OPEN) {
		if (mroce_conn_tx_probe_rsp(&conn->tx, rsp->path_id, be16_to_cpu(rsp->path_gen),
					    be32_to_cpu(rsp->path_psn), be64_to_cpu(rsp->value),
					    mroce_now()))
			mroce_count(conn->dev, bad_ctrl);
		mroce_conn_tx_update(conn);
	}
	spin_unlock(&conn->tx_lock);
	mroce_conn_run(conn);
}

static void mroce_solicit_rx(struct mroce_conn *conn, const u8 *body, u32 len)
{
	const struct mroce_solicit *s = (const void *)body;
	struct mroce_pkt pkt = {};
	struct mroce_qp *qp;

	if (len < sizeof(*s)) {
		mroce_count(conn->dev, bad_short);
		return;
	}
	pkt.dst_qpn = be32_to_cpu(s->dst_qpn) >> 8;
	pkt.src_qpn = be32_to_cpu(s->src_qpn) >> 8;
	qp = mroce_qp_get(conn->dev, pkt.dst_qpn);
	mroce_qp_solicited(conn, qp, &pkt);
	if (qp)
		mroce_qp_put(qp);
	mroce_blocks_send(conn);
}

static void mroce_ctrl_rx(struct mroce_conn *conn, const struct mroce_pkt *pkt,
			  const u8 *body, u32 len)
{
	switch (pkt->opcode) {
	case MROCE_C_SOLICIT:
		mroce_solicit_rx(conn, body, len);
		break;
	case MROCE_C_CLOSE:
		mroce_conn_event(conn, MROCE_CEV_CLOSE);
		break;
	case MROCE_C_CLOSE_ACK:
		if (len < sizeof(struct mroce_close_ack))
			mroce_count(conn->dev, bad_short);
		else
			mroce_conn_event(conn, ((const struct mroce_close_ack *)body)->refused ?
						       MROCE_CEV_REFUSED : MROCE_CEV_CLOSED);
		break;
	case MROCE_C_BYE:
		mroce_conn_event(conn, MROCE_CEV_DEAD);
		break;
	default:
		mroce_count(conn->dev, bad_ctrl);
		break;
	}
}

/* HELLO has no connection yet, HELLO_ACK and CHALLENGE change one: process context. */
static bool mroce_is_handshake(const struct mroce_pkt *pkt)
{
	return pkt->type == MROCE_T_CTRL &&
	       (pkt->opcode == MROCE_C_HELLO || pkt->opcode == MROCE_C_HELLO_ACK ||
		pkt->opcode == MROCE_C_CHALLENGE || pkt->opcode == MROCE_C_VERSION);
}

static void mroce_queue_ctl(struct mroce_sock *sock, struct sk_buff *skb, struct mroce_dev *dev)
{
	if (skb_queue_len_lockless(&sock->ctl_queue) >= MROCE_CTL_QUEUE) {
		mroce_count(dev, bad_ctrl);
		kfree_skb(skb);
		return;
	}
	skb_queue_tail(&sock->ctl_queue, skb);
	schedule_work(&sock->ctl_work);
}

static bool mroce_from_peer(const struct mroce_conn *conn, const struct sk_buff *skb)
{
	struct mroce_addr src, dst;

	mroce_skb_addrs(skb, &src, &dst);
	return mroce_addr_eq(&src, &conn->remote) && mroce_addr_eq(&dst, &conn->local);
}

static void mroce_conn_rx(struct mroce_conn *conn, const struct mroce_pkt *pkt,
			  struct sk_buff *skb, u32 len)
{
	const u32 head = sizeof(struct udphdr) + sizeof(struct mroce_base_hdr);
	bool ce = mroce_is_ce(skb);
	u32 body_len = len - sizeof(struct mroce_base_hdr);

	mroce_count(conn->dev, rx_pkts);
	mroce_count_add(conn->dev, rx_bytes, len);
	if (ce)
		mroce_count(conn->dev, rx_ce);
	if (pkt->type == MROCE_T_DATA) {
		mroce_data_rx(conn, pkt, skb, len, ce);
		return;
	}
	/* the others are short, or only their beginning matters */
	if (pkt->type == MROCE_T_PROBE)
		body_len = min_t(u32, body_len, sizeof(struct mroce_probe));
	if (!pskb_may_pull(skb, head + body_len)) {
		mroce_count(conn->dev, no_mem);
		return;
	}
	switch (pkt->type) {
	case MROCE_T_ACK:
		mroce_ack_rx(conn, skb->data + head, body_len, true);
		break;
	case MROCE_T_SNAK:
		mroce_ack_rx(conn, skb->data + head, body_len, false);
		break;
	case MROCE_T_PROBE:
		mroce_probe_rx(conn, pkt, skb->data + head, body_len, len, ce);
		break;
	case MROCE_T_PROBE_RSP:
		mroce_probe_rsp_rx(conn, skb->data + head, body_len);
		break;
	case MROCE_T_CTRL:
		mroce_ctrl_rx(conn, pkt, skb->data + head, body_len);
		break;
	default:
		mroce_count(conn->dev, bad_type);
		break;
	}
}

/* A valid packet on it: the peer got our HELLO_ACK, its address is proven. */
static bool mroce_conn_validate(struct mroce_conn *conn)
{
	u8 state = mroce_conn_state(conn);

	if (state == MROCE_CONN_OPEN || state == MROCE_CONN_CLOSING)
		return true;
	if (state != MROCE_CONN_ACCEPTED)
		return false;
	mroce_conn_event(conn, MROCE_CEV_VALIDATED);
	if (READ_ONCE(conn->replaces))
		return false;	/* takes its place first: the sender tries again */
	spin_lock(&conn->tx_lock);
	if (conn->state == MROCE_CONN_ACCEPTED) {
		smp_store_release(&conn->state, MROCE_CONN_OPEN);
		mroce_count(conn->dev, conn_opened);
	}
	spin_unlock(&conn->tx_lock);
	return true;
}

void mroce_engine_rx(struct mroce_sock *sock, struct sk_buff *skb)
{
	struct mroce_dev *dev = mroce_any_dev(sock);
	struct mroce_conn *conn = NULL;
	struct mroce_pkt pkt;
	enum mroce_door why;
	u32 len, avail;

	if (!dev)
		goto drop;
	if (skb->len < sizeof(struct udphdr)) {
		mroce_count(dev, bad_short);
		goto drop;
	}
	len = skb->len - sizeof(struct udphdr);
	avail = min_t(u32, len, MROCE_PULL);
	if (!pskb_may_pull(skb, sizeof(struct udphdr) + avail)) {
		mroce_count(dev, no_mem);
		goto drop;
	}
	why = mroce_parse(skb->data + sizeof(struct udphdr), avail, len, &pkt);
	if (why != MROCE_DOOR_OK) {
		mroce_count_door(dev, why);
		if (why != MROCE_DOOR_VERSION)
			goto drop;
		mroce_queue_ctl(sock, skb, dev);	/* a HELLO gets an answer */
		return;
	}
	if (mroce_is_handshake(&pkt)) {
		mroce_queue_ctl(sock, skb, dev);
		return;
	}
	conn = mroce_conn_lookup(sock, pkt.dst_conn);
	if (pkt.type == MROCE_T_RESET) {
		mroce_reset_rx(sock, skb, &pkt, dev);
		goto drop;
	}
	if (!conn) {
		mroce_count(dev, bad_conn);
		mroce_reset_send(sock, skb, &pkt);
		goto drop;
	}
	if (conn->vtag != pkt.vtag) {
		mroce_count(conn->dev, bad_vtag);
		goto drop;
	}
	if (!mroce_from_peer(conn, skb)) {
		mroce_count(conn->dev, bad_conn);
		goto drop;
	}
	if (mroce_conn_validate(conn))
		mroce_conn_rx(conn, &pkt, skb, len);
drop:
	if (conn)
		mroce_conn_put(conn);
	consume_skb(skb);
}
