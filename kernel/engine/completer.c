// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Completer: stream blocks of the peer, completions in order, flushing. */
#include "../verbs/cq.h"
#include "../verbs/device.h"
#include "../verbs/mr.h"
#include "completer.h"
#include "conn.h"
#include "engine.h"
#include "requester.h"
#include "timer.h"

/* ibv_wc opcodes by enum metaroce_wr_opcode. */
static const u8 mroce_wc_opcode[METAROCE_WR_END] = {
	[METAROCE_WR_SEND] = IB_WC_SEND,
	[METAROCE_WR_SEND_IMM] = IB_WC_SEND,
	[METAROCE_WR_SEND_INV] = IB_WC_SEND,
	[METAROCE_WR_WRITE] = IB_WC_RDMA_WRITE,
	[METAROCE_WR_WRITE_IMM] = IB_WC_RDMA_WRITE,
	[METAROCE_WR_READ] = IB_WC_RDMA_READ,
	[METAROCE_WR_CMP_SWP] = IB_WC_COMP_SWAP,
	[METAROCE_WR_FETCH_ADD] = IB_WC_FETCH_ADD,
	[METAROCE_WR_LOCAL_INV] = IB_WC_LOCAL_INV,
};

static void mroce_post_send_cqe(struct mroce_qp *qp, const struct mroce_sreq *sr, u8 status)
{
	struct metaroce_cqe cqe = {
		.wr_id = sr->wr_id,
		.status = status,
		.opcode = mroce_wc_opcode[sr->opcode],
		.qp_num = qp->qpn,
	};

	if (mroce_wr_has_reply(sr->opcode))
		cqe.byte_len = sr->length;
	mroce_cq_post(qp->scq, &cqe, status != IB_WC_SUCCESS);
}

static bool mroce_sreq_done(const struct mroce_sq *sq, const struct mroce_sreq *sr, u32 index)
{
	if (!sr->npkts)
		return mroce_seq_lt(index, sq->send);	/* local: done once passed */
	return mroce_seq_lt(sr->msn, sq->msn_done) && sr->rsp_got == sr->rsp_npkts;
}

void mroce_complete(struct mroce_qp *qp)
{
	struct mroce_sq *sq = &qp->sq;
	struct mroce_sreq *sr;
	u32 head = sq->head;

	lockdep_assert_held(&qp->sq_lock);
	while (sq->head != sq->tail) {
		sr = mroce_sreq_at(sq, sq->head);
		if (sr->status || sq->fail_status) {
			queue_work(qp->dev->wq, &qp->error_work);
			break;
		}
		if (!mroce_sreq_done(sq, sr, sq->head))
			break;
		if (sr->rsp_npkts)
			sq->rd_out--;
		sq->head++;
		/* the slot is free before the program can know it */
		smp_store_release(&sq->ring.hdr->cons, sq->head);
		if (sq->sig_all || (sr->flags & METAROCE_WR_SIGNALED))
			mroce_post_send_cqe(qp, sr, IB_WC_SUCCESS);
	}
	if (head != sq->head)
		sq->rnr_tries = 0;
	if (sq->sqd_event && sq->head == sq->tail) {
		sq->sqd_event = false;
		mroce_qp_event(qp, IB_EVENT_SQ_DRAINED);
	}
}

static u8 mroce_nak_to_status(u8 code)
{
	switch (code) {
	case MROCE_NAK_REM_ACCESS:
		return IB_WC_REM_ACCESS_ERR;
	case MROCE_NAK_REM_OP:
		return IB_WC_REM_OP_ERR;
	default:
		return IB_WC_REM_INV_REQ_ERR;
	}
}

/*
 * Everything that has not arrived for sure goes again, from the ready list.
 * What a path acknowledged may have been dropped behind it: for want of a
 * receive or of a QP.
 */
void mroce_resend_all(struct mroce_qp *qp)
{
	struct mroce_sq *sq = &qp->sq;

	lockdep_assert_held(&qp->sq_lock);
	mroce_stream_tx_unmark(&sq->req, sq->req.base, sq->req.next - sq->req.base);
	sq->rtx_cur = sq->req.base;
	sq->rtx_end = sq->req.next;
}

/*
 * Is the block an answer to an earlier try?  Every packet of a message that
 * finds no receive may cause one; only one for each try counts.
 */
static bool mroce_rnr_stale(const struct mroce_conn *conn, const struct mroce_sq *sq, u32 msn,
			    u64 now)
{
	return sq->rnr_probe && sq->rnr_msn == msn &&
	       (!sq->rnr_sent || now - sq->rnr_sent < conn->tx.min_rtt_ns);
}

static void mroce_rnr_rx(struct mroce_conn *conn, struct mroce_qp *qp,
			 const struct mroce_ack_stream *b)
{
	struct mroce_sq *sq = &qp->sq;
	struct mroce_sreq *sr = mroce_sreq_by_msn(sq, b->word);

	mroce_count(qp->dev, rnr_rx);
	if (!sr || sq->rnr_wait || !mroce_wr_has_recv(sr->opcode) ||
	    mroce_rnr_stale(conn, sq, b->word, mroce_now()))
		return;
	if (sq->rnr_msn != b->word) {
		sq->rnr_msn = b->word;
		sq->rnr_tries = 0;
		sq->rnr_run = 0;
	}
	/* 7 means for ever */
	if (qp->attr.rnr_retry != 7 && sq->rnr_tries++ >= qp->attr.rnr_retry) {
		mroce_sreq_fail(qp, sr, IB_WC_RNR_RETRY_EXC_ERR);
		return;
	}
	mroce_progress(qp, mroce_now());	/* it lives, it only has no receive */
	mroce_rnr_wait(qp, b->value);
	if (sq->rnr_run < U8_MAX)
		sq->rnr_run++;
}

static void mroce_nak_rx(struct mroce_qp *qp, const struct mroce_ack_stream *b)
{
	struct mroce_sreq *sr = mroce_sreq_by_msn(&qp->sq, b->word);

	if (!sr || sr->status)
		return;
	mroce_count(qp->dev, nak_rx);
	mroce_sreq_fail(qp, sr, mroce_nak_to_status(b->value));
}

/* Merges the resend bitmap of a block into the range of the stream. */
static void mroce_resend_bits(u32 base, u64 bits, u32 *cur, u32 *end)
{
	u32 first, last;

	if (!bits)
		return;
	first = base + __ffs64(bits);
	last = base + fls64(bits);
	if (*cur == *end) {
		*cur = first;
		*end = last;
		return;
	}
	if (mroce_seq_lt(first, *cur))
		*cur = first;
	if (mroce_seq_lt(*end, last))
		*end = last;
}

/* Does any path still have a packet of ours to deliver? */
static bool mroce_all_arrived(const struct mroce_stream_tx *s)
{
	u32 spsn;

	for (spsn = s->base; spsn != s->next; spsn++) {
		if (mroce_stream_tx_wanted(s, spsn))
			return false;
	}
	return true;
}

/*
 * The peer was asked, because nothing had moved for long, and says that it
 * misses what every path says it has: it was dropped behind the path, and the
 * block that said so was lost.
 */
static void mroce_answer_solicited(struct mroce_qp *qp, const struct mroce_ack_stream *b)
{
	struct mroce_sq *sq = &qp->sq;
	u64 resend;

	sq->asked = false;
	if (mroce_stream_tx_idle(&sq->req) || (!sq->rnr_probe && !mroce_all_arrived(&sq->req)))
		return;
	mroce_resend_all(qp);
	mroce_stream_tx_block(&sq->req, b, &resend);
}

static void mroce_req_block(struct mroce_conn *conn, struct mroce_qp *qp,
			    const struct mroce_ack_stream *b, u64 now)
{
	struct mroce_sq *sq = &qp->sq;
	u64 resend = 0;
	u32 sent;
	int news;

	if (b->kind == MROCE_SB_NOT_READY) {
		/* the QP's own timer bounds this */
		if (sq->head != sq->send || sq->req.base != sq->req.next) {
			if (!sq->rnr_wait) {
				sq->not_ready = true;
				mroce_rnr_wait(qp, b->value);
			}
		}
		return;
	}
	/* no message is done before all of it is sent */
	sent = sq->send == sq->tail ? sq->msn : mroce_sreq_at(sq, sq->send)->msn;
	if (mroce_seq_lt(sent, b->msn_done)) {
		mroce_count(qp->dev, bad_ack);
		return;
	}
	news = mroce_stream_tx_block(&sq->req, b, &resend);
	if (news < 0) {
		mroce_count(qp->dev, bad_ack);
		return;
	}
	if (mroce_seq_lt(sq->msn_done, b->msn_done)) {
		sq->msn_done = b->msn_done;
		news = 1;
	}
	sq->not_ready = false;
	if (news)
		mroce_progress(qp, now);
	if (sq->rnr_probe && mroce_seq_lt(sq->rnr_msn, sq->msn_done)) {
		/* it is through; what came behind it was dropped as well */
		sq->rnr_probe = false;
		mroce_resend_all(qp);
		mroce_stream_tx_block(&sq->req, b, &resend);
		resend = 0;
	}
	mroce_complete(qp);
	if (b->kind == MROCE_SB_RNR)
		mroce_rnr_rx(conn, qp, b);
	else if (b->kind == MROCE_SB_ERROR)
		mroce_nak_rx(qp, b);
	else if (!sq->rnr_wait)
		mroce_resend_bits(b->base_spsn, resend, &sq->rtx_cur, &sq->rtx_end);
	if (b->kind == MROCE_SB_PROGRESS && !news && sq->asked && !sq->rnr_wait)
		mroce_answer_solicited(qp, b);
}

static void mroce_rsp_block(struct mroce_qp *qp, const struct mroce_ack_stream *b)
{
	struct mroce_sq *sq = &qp->sq;
	u64 resend = 0;

	if (mroce_stream_tx_block(&sq->rsp, b, &resend) < 0) {
		mroce_count(qp->dev, bad_ack);
		return;
	}
	while (sq->rreq_head != sq->rreq_send) {
		struct mroce_rreq *rr = &sq->rreqs[sq->rreq_head & sq->rreq_mask];

		if (mroce_seq_lt(sq->rsp.base, rr->first_spsn + rr->npkts))
			break;
		sq->rreq_head++;
	}
	mroce_resend_bits(b->base_spsn, resend, &sq->rsp_rtx_cur, &sq->rsp_rtx_end);
}

void mroce_stream_block_rx(struct mroce_conn *conn, struct mroce_qp *qp,
			   const struct mroce_ack_stream *b, u64 now)
{
	lockdep_assert_held(&conn->tx_lock);
	spin_lock(&qp->sq_lock);
	if (qp->state == IB_QPS_RTS || qp->state == IB_QPS_SQD || qp->state == IB_QPS_RTR) {
		if (b->kind == MROCE_SB_RSP_PROGRESS)
			mroce_rsp_block(qp, b);
		else if (qp->state != IB_QPS_RTR)
			mroce_req_block(conn, qp, b, now);
		/* freed window, freed slots, idle: the run will find out */
		mroce_conn_ready(conn, qp);
	}
	spin_unlock(&qp->sq_lock);
}

void mroce_flush_sq(struct mroce_qp *qp)
{
	struct mroce_sq *sq = &qp->sq;
	u32 prod = mroce_ring_prod(&sq->ring);
	u8 first = sq->fail_status ?: IB_WC_WR_FLUSH_ERR;	/* of the oldest that is not done */
	struct mroce_sreq *sr;
	bool flushing = false;

	lockdep_assert_held(&qp->sq_lock);
	while (sq->head != sq->tail) {
		bool done;

		sr = mroce_sreq_at(sq, sq->head);
		/* never a success behind a failure, whatever the peer has done with it */
		done = !flushing && !sr->status && !sq->fail_status &&
		       mroce_sreq_done(sq, sr, sq->head);
		sq->head++;
		/* the slot is free before the program can know it */
		smp_store_release(&sq->ring.hdr->cons, sq->head);
		if (done) {
			if (sq->sig_all || (sr->flags & METAROCE_WR_SIGNALED))
				mroce_post_send_cqe(qp, sr, IB_WC_SUCCESS);
			continue;
		}
		mroce_post_send_cqe(qp, sr, !flushing && sr->status ? sr->status : first);
		flushing = true;
		first = IB_WC_WR_FLUSH_ERR;
	}
	/* a hostile index flushes at most one ring */
	if (prod - sq->tail > sq->ring.mask + 1)
		prod = sq->tail + sq->ring.mask + 1;
	while (sq->tail != prod) {
		const struct metaroce_sqe *e = mroce_ring_at(&sq->ring, sq->tail);
		struct mroce_sreq flushed = { .wr_id = READ_ONCE(e->wr_id) };
		u8 opcode = READ_ONCE(e->opcode);

		flushed.opcode = opcode < METAROCE_WR_END ? opcode : METAROCE_WR_SEND;
		sq->tail++;
		smp_store_release(&sq->ring.hdr->cons, sq->tail);
		mroce_post_send_cqe(qp, &flushed, first);
		first = IB_WC_WR_FLUSH_ERR;
	}
	sq->head = sq->tail;
	sq->send = sq->tail;
	sq->rd_out = 0;
	sq->fail_status = 0;
	sq->watching = false;
	WRITE_ONCE(sq->ring.hdr->watching, 0);
	smp_mb(); /* a post from now on rings; one from before is seen by the caller's second look */
}

static void mroce_flush_recv_cqe(struct mroce_qp *qp, u64 wr_id, u8 status)
{
	struct metaroce_cqe cqe = {
		.wr_id = wr_id,
		.status = status,
		.opcode = IB_WC_RECV,
		.qp_num = qp->qpn,
	};

	mroce_cq_post(qp->rcq, &cqe, true);
}

void mroce_flush_rq(struct mroce_qp *qp)
{
	struct mroce_rq *rq = &qp->rq;
	u32 prod;

	lockdep_assert_held(&qp->rx_lock);
	if (!rq->ring.hdr)
		return;
	prod = mroce_ring_prod(&rq->ring);
	if (prod - rq->completed > rq->ring.mask + 1)
		prod = rq->completed + rq->ring.mask + 1;
	while (rq->completed != prod) {
		const struct metaroce_rqe *e = mroce_ring_at(&rq->ring, rq->completed);
		struct mroce_recv *recv = mroce_recv_at(rq, rq->completed);
		bool bound = mroce_seq_lt(rq->completed, rq->rsn_seen) && recv->bound;
		u64 wr_id = bound ? recv->wr_id : READ_ONCE(e->wr_id);
		u8 status = IB_WC_WR_FLUSH_ERR;

		if (rq->nak_status && rq->completed == rq->nak_rsn)
			status = rq->nak_status;
		rq->completed++;
		smp_store_release(&rq->ring.hdr->cons, rq->completed);
		mroce_flush_recv_cqe(qp, wr_id, status);
	}
	rq->nak_status = 0;
	/* in ERR the program has to ring for receives too */
	WRITE_ONCE(rq->ring.hdr->watching, 0);
	smp_mb(); /* as in mroce_flush_sq() */
}
