// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Responder: places what lands, in any order; executes and completes messages
 * in order (protocol.rst 6).
 */
#include "../core/opcode.h"
#include "../verbs/cq.h"
#include "../verbs/device.h"
#include "../verbs/mr.h"
#include "completer.h"
#include "conn.h"
#include "engine.h"
#include "requester.h"
#include "responder.h"
#include "timer.h"

#define MROCE_NOT_READY_CODE	14	/* RNR timer code: 1.28 ms */

/* skb->cb of a held packet.  A decoded packet does not fit: it is parsed again on release. */
struct mroce_held_cb {
	u32 start;		/* of our headers, from skb->data */
	u32 spsn;
};

static struct mroce_held_cb *mroce_cb(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct mroce_held_cb) > sizeof(skb->cb));
	return (void *)skb->cb;
}

/* Is @msn the message that fails, or behind it? */
static bool mroce_behind_nak(const struct mroce_rq *rq, u32 msn)
{
	return rq->nak_pending && mroce_seq_le(rq->nak_msn, msn);
}

void mroce_nak_later(struct mroce_conn *conn, struct mroce_qp *qp, u32 msn, u8 code)
{
	struct mroce_rq *rq = &qp->rq;

	lockdep_assert_held(&qp->rx_lock);
	/* what is executed cannot fail any more; the stream is broken from here on */
	if (mroce_seq_lt(msn, rq->req.exec_msn))
		msn = rq->req.exec_msn;
	if (mroce_behind_nak(rq, msn))
		return;
	rq->nak_pending = true;
	rq->nak_msn = msn;
	rq->nak_code = code;
	rq->nak_status = 0;
}

/* The receive that goes with it fails too. */
static void mroce_nak_recv(struct mroce_conn *conn, struct mroce_qp *qp,
			   const struct mroce_pkt *p, u8 code, u8 status)
{
	if (mroce_behind_nak(&qp->rq, p->msn))
		return;
	mroce_nak_later(conn, qp, p->msn, code);
	qp->rq.nak_status = status;
	qp->rq.nak_rsn = p->rsn;
}

/* It is the turn of the message that failed: the QP is finished. */
static void mroce_nak_fire(struct mroce_conn *conn, struct mroce_qp *qp)
{
	struct mroce_rq *rq = &qp->rq;

	if (!rq->nak_pending || rq->nak_sent || rq->nak_msn != rq->req.exec_msn)
		return;
	rq->nak_sent = true;
	mroce_count(qp->dev, nak_tx);
	mroce_block_due(conn, qp, MROCE_CLASS_REQ);
	mroce_qp_event(qp, rq->nak_code == MROCE_NAK_REM_ACCESS ? IB_EVENT_QP_ACCESS_ERR :
								   IB_EVENT_QP_REQ_ERR);
	queue_work(qp->dev->wq, &qp->error_work);
}

/*
 * The receive that matches @rsn, copied from the ring on first use; NULL if it
 * is not posted.  A malformed one counts as posted: it fails when used.
 */
static struct mroce_recv *mroce_bind(struct mroce_qp *qp, u32 rsn)
{
	struct mroce_rq *rq = &qp->rq;
	struct mroce_recv *recv = mroce_recv_at(rq, rsn);
	struct metaroce_rqe e;
	const u8 *wqe;
	u32 i;

	if (mroce_seq_lt(rsn, rq->rsn_seen) && recv->bound)
		return recv;
	if ((s32)(mroce_ring_prod(&rq->ring) - rsn) <= 0)
		return NULL;
	wqe = mroce_ring_at(&rq->ring, rsn);
	memcpy(&e, wqe, sizeof(e));
	barrier(); /* R9: the copy is what counts */
	recv->wr_id = e.wr_id;
	recv->num_sge = min(e.num_sge, rq->max_sge);
	memcpy(recv->sge, wqe + METAROCE_RQE_HDR, recv->num_sge * sizeof(recv->sge[0]));
	barrier();
	recv->total = 0;
	for (i = 0; i < recv->num_sge; i++)
		recv->total += recv->sge[i].length;
	/* receives between the highest seen and this one are not bound yet */
	for (; mroce_seq_le(rq->rsn_seen, rsn); rq->rsn_seen++)
		mroce_recv_at(rq, rq->rsn_seen)->bound = 0;
	recv->bound = 1;
	return recv;
}

static void mroce_rnr(struct mroce_conn *conn, struct mroce_qp *qp, u32 msn)
{
	struct mroce_rq *rq = &qp->rq;

	if (rq->rnr_code != 0xff && mroce_seq_le(rq->rnr_msn, msn))
		return;
	rq->rnr_code = qp->attr.min_rnr_timer & 31;
	rq->rnr_msn = msn;
	mroce_count(qp->dev, rnr_tx);
	mroce_block_due(conn, qp, MROCE_CLASS_REQ);
}

/* Puts a packet's payload where it belongs.  False: failed, the NAK is pending. */
static bool mroce_place(struct mroce_conn *conn, struct mroce_qp *qp,
			const struct mroce_pkt *p, struct sk_buff *skb, u32 off)
{
	struct mroce_recv *recv;
	struct mroce_mr *mr;
	int err;

	if (p->opcode == MROCE_OP_SEND) {
		recv = mroce_recv_at(&qp->rq, p->rsn);
		if ((u64)p->offset + p->payload_len > recv->total) {
			mroce_nak_recv(conn, qp, p, MROCE_NAK_INV_REQ, IB_WC_LOC_LEN_ERR);
			return false;
		}
		err = mroce_sge_scatter_skb(qp->dev, qp->pd, recv->sge, recv->num_sge, p->offset,
					    skb, off, p->payload_len);
		if (err)
			mroce_nak_recv(conn, qp, p, MROCE_NAK_REM_OP, IB_WC_LOC_PROT_ERR);
		return !err;
	}
	if (p->opcode != MROCE_OP_WRITE || !p->payload_len)
		return true;
	/* va + offset cannot be trusted not to wrap: the range check would see a small address */
	if (p->va + p->offset < p->va) {
		mroce_nak_later(conn, qp, p->msn, MROCE_NAK_REM_ACCESS);
		return false;
	}
	mr = mroce_mr_get(qp->dev, qp->pd, p->rkey, p->va + p->offset, p->payload_len,
			  IB_ACCESS_REMOTE_WRITE);
	if (IS_ERR(mr)) {
		mroce_nak_later(conn, qp, p->msn, MROCE_NAK_REM_ACCESS);
		return false;
	}
	err = mroce_mr_write_skb(mr, p->va + p->offset, skb, off, p->payload_len);
	mroce_mr_put(mr);
	if (err)
		mroce_nak_later(conn, qp, p->msn, MROCE_NAK_REM_OP);
	return !err;
}

static bool mroce_hold(struct mroce_qp *qp, const struct mroce_pkt *p, struct sk_buff *skb,
		       u32 off)
{
	struct mroce_rq *rq = &qp->rq;
	u32 slot = p->msn & (MROCE_MSN_WINDOW - 1);
	struct mroce_dev *dev = qp->dev;

	if (rq->held[slot] ||
	    atomic_add_return(skb->truesize, &dev->held_bytes) > READ_ONCE(dev->set.hold_bytes)) {
		if (!rq->held[slot])
			atomic_sub(skb->truesize, &dev->held_bytes);
		mroce_count(dev, hold_drops);
		return false;
	}
	mroce_cb(skb)->spsn = p->spsn;
	mroce_cb(skb)->start = off - p->hdr_len;
	rq->held[slot] = skb_get(skb);
	rq->n_held++;
	mroce_count(dev, held);
	return true;
}

static void mroce_unhold(struct mroce_qp *qp, u32 slot)
{
	struct sk_buff *skb = qp->rq.held[slot];

	qp->rq.held[slot] = NULL;
	qp->rq.n_held--;
	atomic_sub(skb->truesize, &qp->dev->held_bytes);
	consume_skb(skb);
}

void mroce_drop_held(struct mroce_qp *qp)
{
	u32 i;

	if (!qp->rq.held)
		return;
	for (i = 0; qp->rq.n_held && i < MROCE_MSN_WINDOW; i++) {
		if (qp->rq.held[i])
			mroce_unhold(qp, i);
	}
}

/* Places held packets whose predecessors are all there, in order; the key is looked up anew. */
static void mroce_release_held(struct mroce_conn *conn, struct mroce_qp *qp)
{
	struct mroce_rq *rq = &qp->rq;
	struct mroce_pkt p;
	u8 hdr[MROCE_PULL];
	u32 msn, i;

	for (i = 0, msn = rq->req.exec_msn; rq->n_held && i < MROCE_MSN_WINDOW; i++, msn++) {
		struct sk_buff *skb = rq->held[msn & (MROCE_MSN_WINDOW - 1)];
		u32 start, avail;

		if (!skb)
			continue;
		if (!mroce_seq_lt(mroce_cb(skb)->spsn, rq->req.base))
			break;
		start = mroce_cb(skb)->start;
		avail = min_t(u32, skb->len - start, sizeof(hdr));
		if (!skb_copy_bits(skb, start, hdr, avail) &&
		    mroce_parse(hdr, avail, skb->len - start, &p) == MROCE_DOOR_OK)
			mroce_place(conn, qp, &p, skb, start + p.hdr_len);
		mroce_unhold(qp, msn & (MROCE_MSN_WINDOW - 1));
	}
}

static void mroce_post_recv_cqe(struct mroce_qp *qp, const struct mroce_msg_rec *rec)
{
	struct mroce_rq *rq = &qp->rq;
	struct mroce_recv *recv = mroce_recv_at(rq, rec->rsn);
	struct metaroce_cqe cqe = {
		.wr_id = recv->wr_id,
		.status = IB_WC_SUCCESS,
		.opcode = rec->op == MROCE_OP_WRITE ? IB_WC_RECV_RDMA_WITH_IMM : IB_WC_RECV,
		.byte_len = rec->length,
		.qp_num = qp->qpn,
		.src_qp = qp->attr.dest_qp_num,
	};

	if (rec->hflags & MROCE_HF_IMM) {
		cqe.imm_inv = rec->imm;
		cqe.wc_flags = METAROCE_WC_IMM;
	} else if (rec->hflags & MROCE_HF_INV) {
		cqe.imm_inv = rec->inv_rkey;
		cqe.wc_flags = METAROCE_WC_INV;
	}
	recv->bound = 0;
	rq->completed++;
	smp_store_release(&rq->ring.hdr->cons, rq->completed);
	mroce_cq_post(qp->rcq, &cqe, rec->sflags & MROCE_SF_SOLICITED);
}

/*
 * Is there a slot for one more answer?  A peer that keeps to max_rd_atomic and
 * asks for one more has had the oldest answer, even if the block that says so
 * was lost.
 */
static bool mroce_rreq_room(struct mroce_qp *qp)
{
	struct mroce_sq *sq = &qp->sq;

	if (sq->rreq_tail - sq->rreq_head >= qp->attr.max_dest_rd_atomic &&
	    sq->rreq_head != sq->rreq_send)
		sq->rreq_head++;
	return sq->rreq_tail - sq->rreq_head < qp->attr.max_dest_rd_atomic;
}

/* Queues an answer.  False: more than the QP agreed to. */
static bool mroce_queue_answer(struct mroce_conn *conn, struct mroce_qp *qp,
			       const struct mroce_msg_rec *rec, u32 msn, u64 result)
{
	struct mroce_sq *sq = &qp->sq;
	struct mroce_rreq *rr;
	bool room;

	spin_lock(&conn->tx_lock);
	spin_lock(&qp->sq_lock);
	room = mroce_rreq_room(qp);
	if (room) {
		rr = &sq->rreqs[sq->rreq_tail & sq->rreq_mask];
		*rr = (struct mroce_rreq) {
			.va = rec->va,
			.rkey = rec->rkey,
			.length = rec->op == MROCE_OP_READ_REQ ? rec->length : 0,
			.msn = msn,
			.op = rec->op,
			.result = result,
			.first_spsn = sq->rreq_spsn,
			.npkts = rec->op == MROCE_OP_READ_REQ ?
					 mroce_npkts(rec->length, conn->payload) : 1,
		};
		sq->rreq_spsn += rr->npkts;
		sq->rreq_tail++;
		mroce_conn_ready(conn, qp);
	}
	spin_unlock(&qp->sq_lock);
	spin_unlock(&conn->tx_lock);
	return room;
}

static u8 mroce_exec_atomic(struct mroce_qp *qp, const struct mroce_msg_rec *rec, u64 *result)
{
	struct mroce_mr *mr;

	if (rec->va & 7)
		return MROCE_NAK_INV_REQ;
	mr = mroce_mr_get(qp->dev, qp->pd, rec->rkey, rec->va, sizeof(u64),
			  IB_ACCESS_REMOTE_ATOMIC);
	if (IS_ERR(mr))
		return MROCE_NAK_REM_ACCESS;
	if (rec->op == MROCE_OP_CMP_SWP)
		*result = mroce_mr_cmp_swp(mr, rec->va, rec->op2, rec->op1);
	else
		*result = mroce_mr_fetch_add(mr, rec->va, rec->op1);
	mroce_mr_put(mr);
	return 0;
}

static u8 mroce_check_read(struct mroce_qp *qp, const struct mroce_msg_rec *rec)
{
	struct mroce_mr *mr;

	if (!rec->length)
		return 0;
	mr = mroce_mr_get(qp->dev, qp->pd, rec->rkey, rec->va, rec->length,
			  IB_ACCESS_REMOTE_READ);
	if (IS_ERR(mr))
		return MROCE_NAK_REM_ACCESS;
	mroce_mr_put(mr);
	return 0;
}

/* Room for an answer is known before an atomic is executed: it must not run twice. */
static bool mroce_answer_room(struct mroce_qp *qp)
{
	bool room;

	spin_lock(&qp->sq_lock);
	room = mroce_rreq_room(qp);
	spin_unlock(&qp->sq_lock);
	return room;
}

/* Executes the complete message rec, whose turn it is.  0 or a NAK code. */
static u8 mroce_execute(struct mroce_conn *conn, struct mroce_qp *qp,
			const struct mroce_msg_rec *rec, u32 msn)
{
	u64 result = 0;
	u8 nak = 0;

	switch (rec->op) {
	case MROCE_OP_SEND:
		if ((rec->hflags & MROCE_HF_INV) &&
		    mroce_mr_invalidate(qp->dev, qp->pd, rec->inv_rkey))
			return MROCE_NAK_REM_ACCESS;
		mroce_post_recv_cqe(qp, rec);
		return 0;
	case MROCE_OP_WRITE:
		if (rec->hflags & MROCE_HF_IMM)
			mroce_post_recv_cqe(qp, rec);
		return 0;
	case MROCE_OP_READ_REQ:
		nak = mroce_check_read(qp, rec);
		break;
	default:
		if (!mroce_answer_room(qp))
			return MROCE_NAK_INV_REQ;
		nak = mroce_exec_atomic(qp, rec, &result);
		break;
	}
	if (!nak && !mroce_queue_answer(conn, qp, rec, msn, result))
		nak = MROCE_NAK_INV_REQ;
	return nak;
}

static void mroce_advance(struct mroce_conn *conn, struct mroce_qp *qp)
{
	struct mroce_stream_rx *rx = &qp->rq.req;
	struct mroce_msg_rec *rec;
	u8 nak;

	while (!mroce_behind_nak(&qp->rq, rx->exec_msn) &&
	       (rec = mroce_stream_rx_complete(rx))) {
		nak = mroce_execute(conn, qp, rec, rx->exec_msn);
		if (nak) {
			mroce_nak_later(conn, qp, rx->exec_msn, nak);
			break;
		}
		if (qp->rq.rnr_code != 0xff && qp->rq.rnr_msn == rx->exec_msn)
			qp->rq.rnr_code = 0xff;
		mroce_stream_rx_executed(rx);
	}
	if (mroce_stream_rx_broken(rx))
		mroce_nak_later(conn, qp, rx->exec_msn, MROCE_NAK_INV_REQ);
	mroce_nak_fire(conn, qp);
}

/* Does the packet's target allow that its data is seen before earlier data? */
static bool mroce_relaxed(struct mroce_qp *qp, const struct mroce_pkt *p)
{
	struct mroce_mr *mr;
	bool relaxed;

	if (p->opcode != MROCE_OP_WRITE || !(p->sflags & MROCE_SF_LAST) ||
	    p->spsn == qp->rq.req.base || !p->payload_len)
		return true;
	mr = mroce_mr_get(qp->dev, qp->pd, p->rkey, p->va + p->offset, p->payload_len,
			  IB_ACCESS_REMOTE_WRITE);
	if (IS_ERR(mr))
		return true;
	relaxed = mr->access & IB_ACCESS_RELAXED_ORDERING;
	mroce_mr_put(mr);
	return relaxed;
}

/* Remote rights of the QP itself; those of the key come on top. */
static bool mroce_qp_allows(const struct mroce_qp *qp, u8 opcode)
{
	switch (opcode) {
	case MROCE_OP_WRITE:
		return qp->attr.qp_access_flags & IB_ACCESS_REMOTE_WRITE;
	case MROCE_OP_READ_REQ:
		return qp->attr.qp_access_flags & IB_ACCESS_REMOTE_READ;
	case MROCE_OP_CMP_SWP:
	case MROCE_OP_FETCH_ADD:
		return qp->attr.qp_access_flags & IB_ACCESS_REMOTE_ATOMIC;
	default:
		return true;
	}
}

static enum mroce_rx_fate mroce_request_rx(struct mroce_conn *conn, struct mroce_qp *qp,
					   const struct mroce_pkt *p, struct sk_buff *skb, u32 off)
{
	const struct mroce_op_info *info = mroce_op_info(p->opcode);
	struct mroce_rq *rq = &qp->rq;
	enum mroce_rx_verdict v;

	if (rq->nak_sent || mroce_behind_nak(rq, p->msn)) {
		mroce_block_due(conn, qp, MROCE_CLASS_REQ);
		return MROCE_FATE_ACK;
	}
	v = mroce_stream_rx_check(&rq->req, p, mroce_relaxed(qp, p));
	if (v != MROCE_RX_OK && v != MROCE_RX_HOLD) {
		mroce_block_due(conn, qp, MROCE_CLASS_REQ);
		if (v == MROCE_RX_DUP)
			mroce_count(qp->dev, duplicates);
		else if (v == MROCE_RX_WINDOW)
			mroce_count(qp->dev, window_drops);
		else
			mroce_count(qp->dev, bad_stream);
		if (v == MROCE_RX_INVALID) {
			mroce_nak_later(conn, qp, p->msn, MROCE_NAK_INV_REQ);
			mroce_nak_fire(conn, qp);
		}
		return MROCE_FATE_ACK;
	}
	if (!mroce_qp_allows(qp, p->opcode)) {
		mroce_nak_later(conn, qp, p->msn, MROCE_NAK_INV_REQ);
		mroce_nak_fire(conn, qp);
		mroce_block_due(conn, qp, MROCE_CLASS_REQ);
		return MROCE_FATE_ACK;
	}
	if (((info->flags & MROCE_OPF_RECV) ||
	     ((info->flags & MROCE_OPF_RECV_IMM) && (p->hflags & MROCE_HF_IMM))) &&
	    !mroce_bind(qp, p->rsn)) {
		mroce_rnr(conn, qp, p->msn);
		return MROCE_FATE_ACK;
	}
	if (v == MROCE_RX_HOLD) {
		if (!mroce_hold(qp, p, skb, off))
			return MROCE_FATE_DROP;
	} else if (!mroce_place(conn, qp, p, skb, off)) {
		mroce_nak_fire(conn, qp);
		mroce_block_due(conn, qp, MROCE_CLASS_REQ);
		return MROCE_FATE_ACK;
	}
	if (mroce_stream_rx_commit(&rq->req, p) && rq->n_held)
		mroce_release_held(conn, qp);
	mroce_advance(conn, qp);
	mroce_block_due(conn, qp, MROCE_CLASS_REQ);
	return MROCE_FATE_ACK;
}

/* Checks a response against the request it claims to answer, and places it.  sq_lock held. */
static bool mroce_response_place(struct mroce_qp *qp, const struct mroce_pkt *p,
				 struct sk_buff *skb, u32 off, u32 payload)
{
	struct mroce_sreq *sr = mroce_sreq_by_msn(&qp->sq, p->req_msn);
	bool read = p->opcode == MROCE_OP_READ_RSP;
	int err;

	if (!sr || !sr->sent || sr->status || !mroce_wr_has_reply(sr->opcode) ||
	    read != (sr->opcode == METAROCE_WR_READ))
		return false;
	if (read) {
		u32 idx = p->offset / payload;

		if (p->offset % payload || p->spsn - sr->rsp_spsn != idx || idx >= sr->rsp_npkts ||
		    p->payload_len != min(payload, sr->length - p->offset))
			return false;
		err = mroce_sge_scatter_skb(qp->dev, qp->pd, sr->sge, sr->num_sge, p->offset, skb,
					    off, p->payload_len);
	} else {
		if (p->spsn != sr->rsp_spsn)
			return false;
		err = mroce_sge_scatter(qp->dev, qp->pd, sr->sge, sr->num_sge, 0, &p->op1,
					sizeof(p->op1));
	}
	if (err) {
		mroce_sreq_fail(qp, sr, IB_WC_LOC_PROT_ERR);
		return true;
	}
	sr->rsp_got++;
	/* requests are executed in order: this one is, whatever became of the block that says so */
	if (mroce_seq_le(qp->sq.msn_done, p->req_msn))
		qp->sq.msn_done = p->req_msn + 1;
	return true;
}

static enum mroce_rx_fate mroce_response_rx(struct mroce_conn *conn, struct mroce_qp *qp,
					    const struct mroce_pkt *p, struct sk_buff *skb, u32 off)
{
	struct mroce_rq *rq = &qp->rq;
	enum mroce_rx_verdict v;
	bool ok;

	v = mroce_stream_rx_check(&rq->rsp, p, true);
	mroce_block_due(conn, qp, MROCE_CLASS_RSP);
	if (v != MROCE_RX_OK) {
		if (v == MROCE_RX_DUP)
			mroce_count(qp->dev, duplicates);
		else
			mroce_count(qp->dev, window_drops);
		return MROCE_FATE_ACK;
	}
	spin_lock(&qp->sq_lock);
	ok = mroce_response_place(qp, p, skb, off, conn->payload);
	if (ok) {
		mroce_stream_rx_commit(&rq->rsp, p);
		mroce_progress(qp, mroce_now());
		mroce_complete(qp);
	}
	spin_unlock(&qp->sq_lock);
	if (!ok) {
		mroce_count(qp->dev, bad_stream);
		return MROCE_FATE_ACK;
	}
	/* a slot for the next READ may be free, or the queue idle */
	spin_lock(&conn->tx_lock);
	mroce_conn_ready(conn, qp);
	spin_unlock(&conn->tx_lock);
	return MROCE_FATE_ACK;
}

/* The peer is faster than we are, or talks to what is gone. */
static void mroce_not_ready(struct mroce_conn *conn, const struct mroce_pkt *p)
{
	struct mroce_ack_stream b = {
		.qpn = p->src_qpn,
		.kind = MROCE_SB_NOT_READY,
		.value = MROCE_NOT_READY_CODE,
	};
	u64 now = mroce_now();

	mroce_count(conn->dev, bad_qp);
	if (now - READ_ONCE(conn->snak_stamp) < 200 * NSEC_PER_USEC)
		return;
	WRITE_ONCE(conn->snak_stamp, now);
	mroce_snak_send(conn, &b);
}

static bool mroce_is_peer(struct mroce_qp *qp, struct mroce_conn *conn, const struct mroce_pkt *p)
{
	/* lists, windows and P are those of the QP's own connection: no other will do */
	return rcu_access_pointer(qp->conn) == conn && p->src_qpn == qp->attr.dest_qp_num;
}

enum mroce_rx_fate mroce_qp_rx(struct mroce_conn *conn, struct mroce_qp *qp,
			       const struct mroce_pkt *p, struct sk_buff *skb, u32 off)
{
	bool rsp = mroce_op_info(p->opcode)->flags & MROCE_OPF_RSP;
	enum mroce_rx_fate fate = MROCE_FATE_ACK;

	if (!qp) {
		mroce_not_ready(conn, p);
		return fate;
	}
	spin_lock(&qp->rx_lock);
	if (qp->state < IB_QPS_RTR || !mroce_is_peer(qp, conn, p)) {
		mroce_not_ready(conn, p);
	} else if (qp->state == IB_QPS_ERR || qp->state == IB_QPS_SQE) {
		/* silent, as verbs have it, unless we owe the reason */
		if (qp->rq.nak_sent)
			mroce_block_due(conn, qp, MROCE_CLASS_REQ);
	} else if (rsp) {
		qp->rq.rsp.payload = conn->payload;
		fate = mroce_response_rx(conn, qp, p, skb, off);
	} else {
		qp->rq.req.payload = conn->payload;
		if (!qp->comm_est && qp->state == IB_QPS_RTR) {
			qp->comm_est = true;
			mroce_qp_event(qp, IB_EVENT_COMM_EST);
		}
		fate = mroce_request_rx(conn, qp, p, skb, off);
	}
	spin_unlock(&qp->rx_lock);
	return fate;
}

void mroce_qp_solicited(struct mroce_conn *conn, struct mroce_qp *qp, const struct mroce_pkt *p)
{
	if (!qp) {
		mroce_not_ready(conn, p);
		return;
	}
	spin_lock(&qp->rx_lock);
	if (qp->state < IB_QPS_RTR || !mroce_is_peer(qp, conn, p)) {
		mroce_not_ready(conn, p);
	} else if (qp->state != IB_QPS_ERR || qp->rq.nak_sent) {
		mroce_block_due(conn, qp, MROCE_CLASS_REQ);
		mroce_block_due(conn, qp, MROCE_CLASS_RSP);
	}
	spin_unlock(&qp->rx_lock);
}

void mroce_fill_block(struct mroce_qp *qp, u8 cls, struct mroce_ack_stream *b)
{
	struct mroce_rq *rq = &qp->rq;

	lockdep_assert_held(&qp->rx_lock);
	memset(b, 0, sizeof(*b));
	rq->block_due &= ~BIT(cls);
	b->qpn = qp->attr.dest_qp_num;
	mroce_stream_rx_block(cls == MROCE_CLASS_REQ ? &rq->req : &rq->rsp, b);
	if (cls == MROCE_CLASS_RSP) {
		b->kind = MROCE_SB_RSP_PROGRESS;
		return;
	}
	if (rq->nak_sent) {
		b->kind = MROCE_SB_ERROR;
		b->value = rq->nak_code;
		b->word = rq->nak_msn;
	} else if (rq->rnr_code != 0xff) {
		b->kind = MROCE_SB_RNR;
		b->value = rq->rnr_code;
		b->word = rq->rnr_msn;
		rq->rnr_code = 0xff;
	} else {
		b->kind = MROCE_SB_PROGRESS;
		b->word = rq->ring.hdr ? mroce_ring_prod(&rq->ring) : ~0u;
	}
}
