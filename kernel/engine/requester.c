// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Requester: copies work requests out of the ring, checks the copies, and
 * computes packets from them.  A packet, first or tenth time sent, is a
 * function of (send request, packet index).
 */
#include <linux/skbuff.h>

#include "../verbs/device.h"
#include "../verbs/mr.h"
#include "completer.h"
#include "conn.h"
#include "engine.h"
#include "requester.h"
#include "timer.h"

#define MROCE_WR_FLAGS	(METAROCE_WR_SIGNALED | METAROCE_WR_SOLICITED | METAROCE_WR_FENCE | \
			 METAROCE_WR_INLINE)

struct mroce_wr_info {
	u8 op;			/* enum mroce_op; 0: local */
	u8 hflags;
	bool reply;		/* is answered in the response class */
	bool recv;		/* consumes a receive at the peer */
	bool inline_ok;
	bool local_write;	/* its scatter list is written to */
};

static const struct mroce_wr_info mroce_wr_table[METAROCE_WR_END] = {
	[METAROCE_WR_SEND] = { MROCE_OP_SEND, 0, .recv = true, .inline_ok = true },
	[METAROCE_WR_SEND_IMM] = { MROCE_OP_SEND, MROCE_HF_IMM, .recv = true, .inline_ok = true },
	[METAROCE_WR_SEND_INV] = { MROCE_OP_SEND, MROCE_HF_INV, .recv = true, .inline_ok = true },
	[METAROCE_WR_WRITE] = { MROCE_OP_WRITE, 0, .inline_ok = true },
	[METAROCE_WR_WRITE_IMM] = { MROCE_OP_WRITE, MROCE_HF_IMM, .recv = true,
				    .inline_ok = true },
	[METAROCE_WR_READ] = { MROCE_OP_READ_REQ, 0, .reply = true, .local_write = true },
	[METAROCE_WR_CMP_SWP] = { MROCE_OP_CMP_SWP, 0, .reply = true, .local_write = true },
	[METAROCE_WR_FETCH_ADD] = { MROCE_OP_FETCH_ADD, 0, .reply = true, .local_write = true },
	[METAROCE_WR_LOCAL_INV] = { 0 },
};

bool mroce_wr_has_reply(u8 opcode)
{
	return opcode < METAROCE_WR_END && mroce_wr_table[opcode].reply;
}

bool mroce_wr_has_recv(u8 opcode)
{
	return opcode < METAROCE_WR_END && mroce_wr_table[opcode].recv;
}

static bool mroce_wr_known(u8 opcode)
{
	return opcode < METAROCE_WR_END &&
	       (mroce_wr_table[opcode].op || opcode == METAROCE_WR_LOCAL_INV);
}

/* Copies what follows the header; the counts are from the copy.  0 or a completion status. */
static u8 mroce_copy_data(struct mroce_sq *sq, struct mroce_sreq *sr, const u8 *data)
{
	const struct mroce_wr_info *info = &mroce_wr_table[sr->opcode];
	u64 sum = 0;
	u32 i;

	if (sr->flags & METAROCE_WR_INLINE) {
		u32 len;

		memcpy(&len, data, sizeof(len));
		barrier(); /* user space may change it: the copy is what counts */
		if (!info->inline_ok || len > sq->max_inline)
			return IB_WC_LOC_QP_OP_ERR;
		memcpy(sr->sge, data + METAROCE_INLINE_HDR, len);
		sr->num_sge = 0;
		sr->length = len;
		return 0;
	}
	if (sr->num_sge > sq->max_sge)
		return IB_WC_LOC_QP_OP_ERR;
	memcpy(sr->sge, data, sr->num_sge * sizeof(sr->sge[0]));
	barrier();
	for (i = 0; i < sr->num_sge; i++)
		sum += sr->sge[i].length;
	if (sum > MROCE_MAX_MSG)
		return IB_WC_LOC_LEN_ERR;
	sr->length = sum;
	return 0;
}

/* The scatter list of a READ or atomic must be writable before anything is asked for. */
static u8 mroce_check_local(struct mroce_qp *qp, struct mroce_sreq *sr)
{
	struct mroce_mr *mr;
	u32 i;

	if (sr->opcode != METAROCE_WR_READ && sr->length != sizeof(u64))
		return IB_WC_LOC_LEN_ERR;
	for (i = 0; i < sr->num_sge; i++) {
		if (!sr->sge[i].length)
			continue;
		mr = mroce_mr_get(qp->dev, qp->pd, sr->sge[i].lkey, sr->sge[i].addr,
				  sr->sge[i].length, IB_ACCESS_LOCAL_WRITE);
		if (IS_ERR(mr))
			return IB_WC_LOC_PROT_ERR;
		mroce_mr_put(mr);
	}
	return 0;
}

/* Gives the copied request its numbers in the streams. */
static void mroce_number(struct mroce_sq *sq, struct mroce_sreq *sr, u32 payload)
{
	const struct mroce_wr_info *info = &mroce_wr_table[sr->opcode];

	sr->first_spsn = sq->spsn;
	sr->msn = sq->msn;
	sr->rsp_spsn = sq->rsp_spsn;
	if (!info->op || sr->status)
		return;
	sr->npkts = info->reply ? 1 : mroce_npkts(sr->length, payload);
	sq->spsn += sr->npkts;
	sq->msn++;
	if (info->recv)
		sr->rsn = sq->rsn++;
	if (info->reply) {
		sr->rsp_npkts = mroce_npkts(sr->length, payload);
		sq->rsp_spsn += sr->rsp_npkts;
	}
}

/* Copies the next WQE into a send request; NULL if there is none, or no room. */
static struct mroce_sreq *mroce_fetch(struct mroce_qp *qp, struct mroce_conn *conn)
{
	struct mroce_sq *sq = &qp->sq;
	struct metaroce_sqe e;
	struct mroce_sreq *sr;
	const u8 *wqe;

	if (sq->tail - sq->head > sq->sreq_mask || mroce_ring_prod(&sq->ring) == sq->tail)
		return NULL;
	wqe = mroce_ring_at(&sq->ring, sq->tail);
	memcpy(&e, wqe, sizeof(e));
	barrier(); /* everything below works on the copy (R9) */

	sr = mroce_sreq_at(sq, sq->tail);
	memset(sr, 0, sizeof(*sr));
	sr->wr_id = e.wr_id;
	sr->opcode = e.opcode;
	sr->flags = e.flags;
	sr->num_sge = e.num_sge;
	sr->imm_inv = e.imm_inv;
	sr->raddr = e.remote.addr;
	sr->rkey = e.remote.rkey;
	sr->swap_add = e.remote.swap_add;
	sr->compare = e.remote.compare;
	if (!mroce_wr_known(sr->opcode) || (sr->flags & ~MROCE_WR_FLAGS)) {
		sr->opcode = METAROCE_WR_SEND;	/* never an index from user space */
		sr->status = IB_WC_LOC_QP_OP_ERR;
	} else {
		sr->status = mroce_copy_data(sq, sr, wqe + METAROCE_SQE_HDR);
		if (!sr->status && mroce_wr_table[sr->opcode].local_write)
			sr->status = mroce_check_local(qp, sr);
	}
	mroce_number(sq, sr, conn->payload);
	sq->tail++;
	if (sr->status)
		mroce_sreq_fail(qp, sr, sr->status);
	return sr;
}

void mroce_sreq_fail(struct mroce_qp *qp, struct mroce_sreq *sr, u8 status)
{
	lockdep_assert_held(&qp->sq_lock);
	if (!sr->status)
		sr->status = status;
	qp->sq.stopped = true;
	mroce_complete(qp);
}

/* May the first packet of @sr go now?  Order, fences and the peer's limits. */
static bool mroce_may_start(struct mroce_qp *qp, struct mroce_conn *conn,
			    const struct mroce_sreq *sr)
{
	struct mroce_sq *sq = &qp->sq;

	if ((sr->flags & METAROCE_WR_FENCE) && sq->rd_out)
		return false;
	if (!sr->npkts)
		return true;
	if (mroce_wr_table[sr->opcode].reply && sq->rd_out >= qp->attr.max_rd_atomic)
		return false;
	return sr->msn - sq->msn_done < conn->msn_window;
}

static bool mroce_put_payload(struct mroce_qp *qp, struct mroce_sreq *sr,
			      struct sk_buff *skb, u32 off, u32 len)
{
	void *to = skb_put(skb, len);

	if (!len)
		return true;
	if (sr->flags & METAROCE_WR_INLINE) {
		memcpy(to, (u8 *)sr->sge + off, len);
		return true;
	}
	return !mroce_sge_gather(qp->dev, qp->pd, sr->sge, sr->num_sge, off, to, len);
}

static void mroce_req_headers(struct mroce_qp *qp, struct mroce_sreq *sr,
			      u32 idx, u32 off, struct mroce_pkt *pkt)
{
	const struct mroce_wr_info *info = &mroce_wr_table[sr->opcode];

	memset(pkt, 0, sizeof(*pkt));	/* an answer may have been tried in it */
	pkt->opcode = info->op;
	pkt->hflags = info->hflags;
	pkt->dst_qpn = qp->attr.dest_qp_num;
	pkt->src_qpn = qp->qpn;
	pkt->spsn = sr->first_spsn + idx;
	pkt->msn = sr->msn;
	if (!idx)
		pkt->sflags |= MROCE_SF_FIRST;
	if (idx == sr->npkts - 1)
		pkt->sflags |= MROCE_SF_LAST;
	if (sr->flags & METAROCE_WR_SOLICITED)
		pkt->sflags |= MROCE_SF_SOLICITED;
	pkt->va = sr->raddr;
	pkt->rkey = sr->rkey;
	pkt->offset = off;
	pkt->length = sr->length;
	pkt->rsn = sr->rsn;
	if (info->hflags & MROCE_HF_INV)
		pkt->inv_rkey = sr->imm_inv;
	else
		pkt->imm = sr->imm_inv;
	pkt->op1 = sr->swap_add;
	pkt->op2 = sr->compare;
}

/* Packet @idx of @sr.  False: failed (then the request is marked), or no memory. */
static bool mroce_build_req(struct mroce_qp *qp, struct mroce_conn *conn,
			    struct mroce_sreq *sr, u32 idx, struct mroce_tx_unit *u)
{
	u32 off = 0, len = 0, hdr;

	if (!mroce_wr_table[sr->opcode].reply) {
		off = idx * conn->payload;
		len = min(conn->payload, sr->length - off);
	}
	mroce_req_headers(qp, sr, idx, off, &u->pkt);
	hdr = mroce_data_hdr_len(u->pkt.opcode, u->pkt.hflags);
	u->skb = mroce_skb_alloc(&conn->routes[u->path], hdr + len);
	if (!u->skb) {
		mroce_count(qp->dev, no_mem);
		u->nomem = true;
		return false;
	}
	skb_put(u->skb, hdr);
	if (!mroce_put_payload(qp, sr, u->skb, off, len)) {
		kfree_skb(u->skb);
		mroce_sreq_fail(qp, sr, IB_WC_LOC_PROT_ERR);
		return false;
	}
	u->ref.qpn = qp->qpn;
	u->ref.spsn = u->pkt.spsn;
	u->ref.cls = MROCE_CLASS_REQ;
	u->ref.bytes = hdr + len;
	return true;
}

/* Packet @idx of the answer to @rr.  The key is looked up for every packet (faults C10). */
static bool mroce_build_rsp(struct mroce_qp *qp, struct mroce_conn *conn,
			    struct mroce_rreq *rr, u32 idx, struct mroce_tx_unit *u)
{
	bool read = rr->op == MROCE_OP_READ_REQ;
	u32 off = idx * conn->payload;
	u32 len = read ? min(conn->payload, rr->length - off) : 0;
	struct mroce_pkt *pkt = &u->pkt;
	struct mroce_mr *mr;
	u32 hdr;

	memset(pkt, 0, sizeof(*pkt));
	pkt->opcode = read ? MROCE_OP_READ_RSP : MROCE_OP_ATOMIC_RSP;
	pkt->dst_qpn = qp->attr.dest_qp_num;
	pkt->src_qpn = qp->qpn;
	pkt->spsn = rr->first_spsn + idx;
	pkt->msn = rr->msn;
	pkt->req_msn = rr->msn;
	pkt->offset = off;
	pkt->op1 = rr->result;
	pkt->sflags = (idx ? 0 : MROCE_SF_FIRST) | (idx == rr->npkts - 1 ? MROCE_SF_LAST : 0);
	hdr = mroce_data_hdr_len(pkt->opcode, 0);
	u->skb = mroce_skb_alloc(&conn->routes[u->path], hdr + len);
	if (!u->skb) {
		mroce_count(qp->dev, no_mem);
		u->nomem = true;
		return false;
	}
	skb_put(u->skb, hdr);
	if (len) {
		mr = mroce_mr_get(qp->dev, qp->pd, rr->rkey, rr->va + off, len,
				  IB_ACCESS_REMOTE_READ);
		if (IS_ERR(mr)) {
			kfree_skb(u->skb);
			qp->sq.rsp_failed_msn = rr->msn;
			qp->sq.rsp_failed = true;
			queue_work(qp->dev->wq, &qp->error_work);
			return false;
		}
		mroce_mr_read(mr, rr->va + off, skb_put(u->skb, len), len);
		mroce_mr_put(mr);
	}
	u->ref.qpn = qp->qpn;
	u->ref.spsn = pkt->spsn;
	u->ref.cls = MROCE_CLASS_RSP;
	u->ref.bytes = hdr + len;
	return true;
}

/*
 * The last outstanding request whose number is not behind @key, or NULL.
 * Numbers never fall; a local operation shares those of the message behind it.
 */
static struct mroce_sreq *mroce_sreq_find(struct mroce_sq *sq, u32 key, bool by_msn)
{
	u32 lo = sq->head, n = sq->tail - sq->head;

	while (n > 1) {
		u32 half = n / 2;
		struct mroce_sreq *sr = mroce_sreq_at(sq, lo + half);

		if (mroce_seq_le(by_msn ? sr->msn : sr->first_spsn, key)) {
			lo += half;
			n -= half;
		} else {
			n = half;
		}
	}
	return n ? mroce_sreq_at(sq, lo) : NULL;
}

struct mroce_sreq *mroce_sreq_by_spsn(struct mroce_sq *sq, u32 spsn)
{
	struct mroce_sreq *sr = mroce_sreq_find(sq, spsn, false);

	return sr && spsn - sr->first_spsn < sr->npkts ? sr : NULL;
}

struct mroce_sreq *mroce_sreq_by_msn(struct mroce_sq *sq, u32 msn)
{
	struct mroce_sreq *sr = mroce_sreq_find(sq, msn, true);

	return sr && sr->msn == msn && sr->npkts ? sr : NULL;
}

static struct mroce_rreq *mroce_rreq_by_spsn(struct mroce_sq *sq, u32 spsn)
{
	u32 i;

	for (i = sq->rreq_head; i != sq->rreq_tail; i++) {
		struct mroce_rreq *rr = &sq->rreqs[i & sq->rreq_mask];

		if (spsn - rr->first_spsn < rr->npkts)
			return rr;
	}
	return NULL;
}

static bool mroce_build_spsn(struct mroce_qp *qp, struct mroce_conn *conn,
			     u8 cls, u32 spsn, struct mroce_tx_unit *u)
{
	if (cls == MROCE_CLASS_REQ) {
		struct mroce_sreq *sr = mroce_sreq_by_spsn(&qp->sq, spsn);

		return sr && !sr->status &&
		       mroce_build_req(qp, conn, sr, spsn - sr->first_spsn, u);
	} else {
		struct mroce_rreq *rr = mroce_rreq_by_spsn(&qp->sq, spsn);

		return rr && mroce_build_rsp(qp, conn, rr, spsn - rr->first_spsn, u);
	}
}

static bool mroce_can_answer(const struct mroce_qp *qp)
{
	return qp->state == IB_QPS_RTR || qp->state == IB_QPS_RTS || qp->state == IB_QPS_SQD;
}

static bool mroce_can_request(const struct mroce_qp *qp)
{
	const struct mroce_sq *sq = &qp->sq;

	if (qp->state != IB_QPS_RTS && qp->state != IB_QPS_SQD)
		return false;
	/*
	 * Stopped: nothing new (mroce_next_sreq), but what stands before the
	 * failure goes on.  Once that is at the head, nothing: the work item
	 * that flushes must get the CPU.
	 */
	return !sq->stopped ||
	       (!sq->fail_status && sq->head != sq->tail &&
		!mroce_sreq_at((struct mroce_sq *)sq, sq->head)->status);
}

bool mroce_build_again(struct mroce_qp *qp, struct mroce_conn *conn,
		       struct mroce_tx_unit *u)
{
	struct mroce_sq *sq = &qp->sq;
	bool req = u->ref.cls == MROCE_CLASS_REQ;
	struct mroce_pkt_ref ref = u->ref;
	bool built = false;

	lockdep_assert_held(&conn->tx_lock);
	spin_lock(&qp->sq_lock);
	if (mroce_stream_tx_wanted(req ? &sq->req : &sq->rsp, ref.spsn) &&
	    (req ? mroce_can_request(qp) : mroce_can_answer(qp)))
		built = mroce_build_spsn(qp, conn, ref.cls, ref.spsn, u);
	/* the path layer counts the tries in its ref */
	ref.bytes = u->ref.bytes;
	u->ref = ref;
	spin_unlock(&qp->sq_lock);
	return built;
}

/* Resends of a range that a stream block asked for. */
static bool mroce_build_range(struct mroce_qp *qp, struct mroce_conn *conn, u8 cls,
			      u32 *cur, u32 end, struct mroce_tx_unit *u)
{
	struct mroce_stream_tx *s = cls == MROCE_CLASS_REQ ? &qp->sq.req : &qp->sq.rsp;

	for (; *cur != end; (*cur)++) {
		if (!mroce_stream_tx_wanted(s, *cur))
			continue;
		if (mroce_build_spsn(qp, conn, cls, *cur, u)) {
			u->ref.tries = 1;
			(*cur)++;
			return true;
		}
		if (u->nomem)
			return false;
	}
	return false;
}

static bool mroce_build_answer(struct mroce_qp *qp, struct mroce_conn *conn,
			       struct mroce_tx_unit *u)
{
	struct mroce_sq *sq = &qp->sq;
	struct mroce_rreq *rr;

	if (sq->rsp_failed)
		return false;
	if (mroce_build_range(qp, conn, MROCE_CLASS_RSP, &sq->rsp_rtx_cur, sq->rsp_rtx_end, u))
		return true;
	if (u->nomem || sq->rreq_send == sq->rreq_tail || !mroce_stream_tx_room(&sq->rsp))
		return false;
	rr = &sq->rreqs[sq->rreq_send & sq->rreq_mask];
	if (!mroce_build_rsp(qp, conn, rr, rr->sent, u))
		return false;
	WARN_ON_ONCE(mroce_stream_tx_take(&sq->rsp) != u->ref.spsn);
	if (++rr->sent == rr->npkts)
		sq->rreq_send++;
	return true;
}

/* The send request whose next packet is to go, fetched if need be. */
static struct mroce_sreq *mroce_next_sreq(struct mroce_qp *qp, struct mroce_conn *conn)
{
	struct mroce_sq *sq = &qp->sq;
	struct mroce_sreq *sr;

	for (;;) {
		if (sq->stopped)
			return NULL;
		if (sq->send != sq->tail)
			sr = mroce_sreq_at(sq, sq->send);
		else if (qp->state == IB_QPS_SQD)
			return NULL;	/* draining: what is begun goes on, nothing new */
		else
			sr = mroce_fetch(qp, conn);
		if (!sr || sr->status)
			return NULL;
		if (!sr->sent && !mroce_may_start(qp, conn, sr))
			return NULL;
		if (sr->npkts)
			return sr;
		/* local operation */
		if (mroce_mr_invalidate(qp->dev, qp->pd, sr->imm_inv)) {
			mroce_sreq_fail(qp, sr, IB_WC_LOC_QP_OP_ERR);
			return NULL;
		}
		sq->send++;
		mroce_complete(qp);
	}
}

/* Where resending ends: behind message rnr_msn while that is all that may go. */
static u32 mroce_rtx_limit(struct mroce_sq *sq)
{
	struct mroce_sreq *sr;

	if (!sq->rnr_probe)
		return sq->rtx_end;
	sr = mroce_sreq_by_msn(sq, sq->rnr_msn);
	if (!sr) {
		sq->rnr_probe = false;
		return sq->rtx_end;
	}
	return mroce_seq_lt(sr->first_spsn + sr->sent, sq->rtx_end) ? sr->first_spsn + sr->sent :
								     sq->rtx_end;
}

static bool mroce_build_request(struct mroce_qp *qp, struct mroce_conn *conn,
				struct mroce_tx_unit *u)
{
	struct mroce_sq *sq = &qp->sq;
	struct mroce_sreq *sr;
	u32 end;

	if (sq->rnr_wait)
		return false;
	end = mroce_rtx_limit(sq);
	if (mroce_seq_lt(sq->rtx_cur, end) &&
	    mroce_build_range(qp, conn, MROCE_CLASS_REQ, &sq->rtx_cur, end, u)) {
		if (sq->rnr_probe && !sq->rnr_sent)
			sq->rnr_sent = mroce_now();
		return true;
	}
	if (u->nomem)
		return false;
	sr = mroce_next_sreq(qp, conn);
	if (!sr || !mroce_stream_tx_room(&sq->req) || (sq->rnr_probe && sr->msn != sq->rnr_msn))
		return false;
	if (!mroce_build_req(qp, conn, sr, sr->sent, u))
		return false;
	/* the first after a quiet time: silence is counted from here */
	if (mroce_stream_tx_idle(&sq->req) && sq->head == sq->send)
		mroce_progress(qp, mroce_now());
	WARN_ON_ONCE(mroce_stream_tx_take(&sq->req) != u->ref.spsn);
	if (!sr->sent++ && mroce_wr_table[sr->opcode].reply)
		sq->rd_out++;
	if (sr->sent == sr->npkts)
		sq->send++;
	mroce_retry_timer_start(qp);
	u->more = sq->send != sq->tail || mroce_ring_prod(&sq->ring) != sq->tail;
	return true;
}

/*
 * Nothing to send.  While requests are outstanding we will look at the ring
 * again (an acknowledgement or a timer brings us here), so user space need not
 * ring.  Otherwise say that we no longer look; look once more behind the
 * barrier, for what was posted meanwhile.  True: there is something after all.
 */
static bool mroce_stop_watching(struct mroce_qp *qp)
{
	struct mroce_sq *sq = &qp->sq;

	if (!sq->watching || sq->head != sq->tail)
		return false;
	sq->watching = false;
	WRITE_ONCE(sq->ring.hdr->watching, 0);
	smp_mb(); /* pairs with the fence between prod and watching in the provider */
	return mroce_ring_prod(&sq->ring) != sq->tail;
}

bool mroce_build_next(struct mroce_qp *qp, struct mroce_conn *conn,
		      struct mroce_tx_unit *u)
{
	bool built = false;

	lockdep_assert_held(&conn->tx_lock);
	spin_lock(&qp->sq_lock);
	if (mroce_can_answer(qp))
		built = mroce_build_answer(qp, conn, u);
	while (!built && !u->nomem && mroce_can_request(qp)) {
		if (!qp->sq.watching) {
			qp->sq.watching = true;
			WRITE_ONCE(qp->sq.ring.hdr->watching, 1);
		}
		built = mroce_build_request(qp, conn, u);
		/* a timer that ends a wait brings us here again: looking now would never end */
		if (built || qp->sq.rnr_wait || qp->state != IB_QPS_RTS ||
		    !mroce_stop_watching(qp))
			break;
	}
	spin_unlock(&qp->sq_lock);
	return built;
}
