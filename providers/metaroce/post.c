// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Classic posting.  ENOMEM means a full queue and nothing else; every argument
 * that can be seen to be wrong here is EINVAL.
 */
#include <errno.h>

#include "metaroce.h"
#include "wqe.h"

/* What of ibv_send_wr an operation uses. */
enum wr_kind {
	WR_UNKNOWN = 0,
	WR_MESSAGE,		/* data only */
	WR_REMOTE,		/* address and key */
	WR_READ,		/* the same, and the data comes to us */
	WR_CMP_SWP,
	WR_FETCH_ADD,
	WR_WORD,		/* address, key and 8 bytes of data */
	WR_INVALIDATE,
	WR_BIND,
};

static const struct {
	uint8_t op;
	uint8_t kind;
} wr_table[] = {
	[IBV_WR_RDMA_WRITE] = { METAROCE_WR_WRITE, WR_REMOTE },
	[IBV_WR_RDMA_WRITE_WITH_IMM] = { METAROCE_WR_WRITE_IMM, WR_REMOTE },
	[IBV_WR_SEND] = { METAROCE_WR_SEND, WR_MESSAGE },
	[IBV_WR_SEND_WITH_IMM] = { METAROCE_WR_SEND_IMM, WR_MESSAGE },
	[IBV_WR_RDMA_READ] = { METAROCE_WR_READ, WR_READ },
	[IBV_WR_ATOMIC_CMP_AND_SWP] = { METAROCE_WR_CMP_SWP, WR_CMP_SWP },
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = { METAROCE_WR_FETCH_ADD, WR_FETCH_ADD },
	[IBV_WR_LOCAL_INV] = { METAROCE_WR_LOCAL_INV, WR_INVALIDATE },
	[IBV_WR_BIND_MW] = { METAROCE_WR_BIND_MW, WR_BIND },
	[IBV_WR_SEND_WITH_INV] = { METAROCE_WR_SEND_INV, WR_MESSAGE },
	[IBV_WR_ATOMIC_WRITE] = { METAROCE_WR_ATOMIC_WRITE, WR_WORD },
};

#define SEND_FLAGS (IBV_SEND_FENCE | IBV_SEND_SIGNALED | \
		    IBV_SEND_SOLICITED | IBV_SEND_INLINE)

static bool takes_inline(enum wr_kind kind)
{
	return kind == WR_MESSAGE || kind == WR_REMOTE || kind == WR_WORD;
}

/*
 * Inline data is read when the request is posted, so that the program may use
 * its buffers again.  The sum is 64 bits wide: lengths that wrap at 32 must
 * not pass the check and then overrun the slot.
 */
static int put_inline(const struct mroce_sq *sq, struct metaroce_sqe *sqe,
		      const struct ibv_send_wr *wr)
{
	uint64_t total = 0;
	uint8_t *to;
	int i;

	for (i = 0; i < wr->num_sge; i++)
		total += wr->sg_list[i].length;
	if (total > sq->max_inline)
		return EINVAL;

	mroce_put_inline_length(sqe, (uint32_t)total);
	to = mroce_inline_bytes(sqe);
	for (i = 0; i < wr->num_sge; i++) {
		memcpy(to, (const void *)(uintptr_t)wr->sg_list[i].addr,
		       wr->sg_list[i].length);
		to += wr->sg_list[i].length;
	}
	return 0;
}

/* The 8 bytes of an atomic write travel in the request. */
static int put_word(struct metaroce_sqe *sqe, const struct ibv_send_wr *wr)
{
	uint64_t word;

	if (wr->num_sge != 1 || wr->sg_list[0].length != sizeof(word))
		return EINVAL;
	memcpy(&word, (const void *)(uintptr_t)wr->sg_list[0].addr,
	       sizeof(word));
	sqe->remote.swap_add = word;
	return 0;
}

static int put_data(const struct mroce_sq *sq, struct metaroce_sqe *sqe,
		    const struct ibv_send_wr *wr, enum wr_kind kind)
{
	if (kind == WR_INVALIDATE || kind == WR_BIND)
		return 0;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > sq->max_sge)
		return EINVAL;
	if (kind == WR_WORD)
		return put_word(sqe, wr);
	if (wr->send_flags & IBV_SEND_INLINE)
		return put_inline(sq, sqe, wr);
	sqe->num_sge = (uint8_t)wr->num_sge;
	return mroce_put_sges((struct metaroce_sge *)mroce_sqe_data(sqe),
			      wr->sg_list, (size_t)wr->num_sge);
}

static void put_remote(struct metaroce_sqe *sqe, uint64_t addr, uint32_t rkey)
{
	sqe->remote.addr = addr;
	sqe->remote.rkey = rkey;
}

static int put_operands(const struct mroce_sq *sq, struct metaroce_sqe *sqe,
			const struct ibv_send_wr *wr, enum wr_kind kind)
{
	switch (kind) {
	case WR_MESSAGE:
		if (!sq->datagram)
			break;
		if (!wr->wr.ud.ah)
			return EINVAL;
		sqe->ud.ah = to_mroce_ah(wr->wr.ud.ah)->index;
		sqe->ud.qpn = wr->wr.ud.remote_qpn;
		sqe->ud.qkey = wr->wr.ud.remote_qkey;
		break;
	case WR_REMOTE:
	case WR_READ:
	case WR_WORD:
		put_remote(sqe, wr->wr.rdma.remote_addr, wr->wr.rdma.rkey);
		break;
	case WR_CMP_SWP:
		put_remote(sqe, wr->wr.atomic.remote_addr, wr->wr.atomic.rkey);
		sqe->remote.swap_add = wr->wr.atomic.swap;
		sqe->remote.compare = wr->wr.atomic.compare_add;
		break;
	case WR_FETCH_ADD:
		put_remote(sqe, wr->wr.atomic.remote_addr, wr->wr.atomic.rkey);
		sqe->remote.swap_add = wr->wr.atomic.compare_add;
		break;
	case WR_BIND:
		/* Windows of type 1 are bound by ibv_bind_mw. */
		if (!wr->bind_mw.mw || wr->bind_mw.mw->type != IBV_MW_TYPE_2)
			return EINVAL;
		mroce_put_bind(sqe, wr->bind_mw.mw, wr->bind_mw.rkey,
			       &wr->bind_mw.bind_info);
		break;
	case WR_INVALIDATE:
		break;
	case WR_UNKNOWN:
		return EINVAL;
	}
	return 0;
}

/* Write one request at our index, unpublished. */
static int build(struct mroce_sq *sq, const struct ibv_send_wr *wr)
{
	struct metaroce_sqe *sqe;
	enum wr_kind kind;
	unsigned int op;
	int ret;

	if ((unsigned int)wr->opcode >= sizeof(wr_table) / sizeof(wr_table[0]))
		return EINVAL;
	kind = wr_table[wr->opcode].kind;
	op = wr_table[wr->opcode].op;
	if (kind == WR_UNKNOWN || !mroce_may_post(sq, op) ||
	    wr->send_flags & ~(unsigned int)SEND_FLAGS ||
	    (wr->send_flags & IBV_SEND_INLINE && !takes_inline(kind)))
		return EINVAL;

	sqe = mroce_produce(&sq->q);
	if (!sqe)
		return ENOMEM;
	mroce_sqe_start(sqe, wr->wr_id, op,
			mroce_sqe_flags(sq, wr->send_flags));
	/* One word of the union holds either: as it is, no byte swapping. */
	if (op == METAROCE_WR_SEND_IMM || op == METAROCE_WR_WRITE_IMM ||
	    op == METAROCE_WR_SEND_INV || op == METAROCE_WR_LOCAL_INV)
		sqe->imm_inv = wr->invalidate_rkey;
	if (sq->xrc)
		sqe->remote.srqn = wr->qp_type.xrc.remote_srqn;

	ret = put_operands(sq, sqe, wr, kind);
	if (!ret)
		ret = put_data(sq, sqe, wr, kind);
	if (!ret)
		sq->q.next++;
	return ret;
}

/*
 * Tell the kernel that there is new work, unless it is looking anyway.  The
 * call carries no work requests, so the kernel uses no length of ours.
 *
 * An interrupted or starved call is repeated: the requests are in the ring,
 * and saying that they were not posted would make the program post them twice.
 */
int mroce_doorbell(struct mroce_qp *qp, const struct mroce_queue *q)
{
	struct ibv_send_wr *bad;
	int tries = 100;
	int ret;

	if (!mroce_needs_doorbell(q))
		return 0;
	do {
		ret = ibv_cmd_post_send(&qp->vqp.qp, NULL, &bad);
	} while ((ret == EINTR || ret == EAGAIN || ret == ENOMEM) && --tries);
	return ret;
}

int mroce_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
		    struct ibv_send_wr **bad_wr)
{
	struct mroce_qp *qp = to_mroce_qp(ibqp);
	struct mroce_sq *sq = &qp->sq;
	struct ibv_send_wr *first = wr;
	uint32_t start;
	bool posted;
	int ret = 0;
	int err;

	if (!sq->q.ring || !mroce_may_send(ibqp->state)) {
		*bad_wr = wr;
		return EINVAL;
	}

	mroce_lock(&sq->lock);
	start = sq->q.next;
	for (; wr; wr = wr->next) {
		ret = build(sq, wr);
		if (ret) {
			*bad_wr = wr;
			break;
		}
	}
	posted = sq->q.next != start;
	if (posted)
		mroce_publish(&sq->q);
	mroce_unlock(&sq->lock);

	if (posted) {
		err = mroce_doorbell(qp, &sq->q);
		if (err) {
			*bad_wr = first;
			ret = err;
		}
	}
	return ret;
}

/* A window of type 1: the provider picks the new key, which is the old one's next. */
int mroce_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *mw,
		  struct ibv_mw_bind *bind)
{
	struct mroce_qp *qp = to_mroce_qp(ibqp);
	uint32_t rkey = (mw->rkey & ~0xffU) | ((mw->rkey + 1) & 0xff);
	struct mroce_sq *sq = &qp->sq;
	struct metaroce_sqe *sqe;
	int ret;

	if (!sq->q.ring || !mroce_may_send(ibqp->state) ||
	    !mroce_may_post(sq, METAROCE_WR_BIND_MW) ||
	    bind->send_flags & ~(unsigned int)(IBV_SEND_FENCE |
					       IBV_SEND_SIGNALED))
		return EINVAL;

	mroce_lock(&sq->lock);
	sqe = mroce_produce(&sq->q);
	if (!sqe) {
		mroce_unlock(&sq->lock);
		return ENOMEM;
	}
	mroce_sqe_start(sqe, bind->wr_id, METAROCE_WR_BIND_MW,
			mroce_sqe_flags(sq, bind->send_flags));
	mroce_put_bind(sqe, mw, rkey, &bind->bind_info);
	sq->q.next++;
	mroce_publish(&sq->q);
	mroce_unlock(&sq->lock);

	ret = mroce_doorbell(qp, &sq->q);
	if (!ret)
		mw->rkey = rkey;
	return ret;
}

static int build_recv(struct mroce_rq *rq, const struct ibv_recv_wr *wr)
{
	struct metaroce_rqe *rqe;
	int ret;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge)
		return EINVAL;
	rqe = mroce_produce(&rq->q);
	if (!rqe)
		return ENOMEM;
	rqe->wr_id = wr->wr_id;
	rqe->num_sge = (uint32_t)wr->num_sge;
	rqe->resv = 0;
	ret = mroce_put_sges((struct metaroce_sge *)(rqe + 1), wr->sg_list,
			     (size_t)wr->num_sge);
	if (!ret)
		rq->q.next++;
	return ret;
}

int mroce_post_rq(struct mroce_rq *rq, struct ibv_recv_wr *wr,
		  struct ibv_recv_wr **bad_wr)
{
	int ret = 0;

	mroce_lock(&rq->lock);
	for (; wr; wr = wr->next) {
		ret = build_recv(rq, wr);
		if (ret) {
			*bad_wr = wr;
			break;
		}
	}
	mroce_publish(&rq->q);
	mroce_unlock(&rq->lock);
	return ret;
}

/*
 * Receives need no system call while the QP works: the kernel looks when a
 * message arrives.  In ERR no message will, and it asks to be told, so that it
 * can flush them.
 */
int mroce_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
		    struct ibv_recv_wr **bad_wr)
{
	struct mroce_qp *qp = to_mroce_qp(ibqp);
	int ret, err;

	if (!qp->rq.q.ring || ibqp->state == IBV_QPS_RESET) {
		*bad_wr = wr;
		return EINVAL;
	}
	ret = mroce_post_rq(&qp->rq, wr, bad_wr);
	err = mroce_doorbell(qp, &qp->rq.q);
	if (err) {
		*bad_wr = wr;
		ret = err;
	}
	return ret;
}
