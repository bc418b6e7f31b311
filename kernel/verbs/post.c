// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Posting.  User space writes its rings itself and comes here only to ring the
 * doorbell; for kernel users this is the producer side of the same rings.
 */
#include "../core/wire.h"
#include "../engine/engine.h"
#include "device.h"
#include "qp.h"

/* The slot at @prod; NULL: the ring is full. */
static void *mroce_ring_slot(struct mroce_ring *ring, u32 prod)
{
	/* pairs with the release of cons: the entry has been copied */
	if (prod - smp_load_acquire(&ring->hdr->cons) > ring->mask)
		return NULL;
	return mroce_ring_at(ring, prod);
}

static int mroce_sqe_opcode(enum ib_wr_opcode opcode)
{
	switch (opcode) {
	case IB_WR_SEND:
		return METAROCE_WR_SEND;
	case IB_WR_SEND_WITH_IMM:
		return METAROCE_WR_SEND_IMM;
	case IB_WR_SEND_WITH_INV:
		return METAROCE_WR_SEND_INV;
	case IB_WR_RDMA_WRITE:
		return METAROCE_WR_WRITE;
	case IB_WR_RDMA_WRITE_WITH_IMM:
		return METAROCE_WR_WRITE_IMM;
	case IB_WR_RDMA_READ:
		return METAROCE_WR_READ;
	case IB_WR_ATOMIC_CMP_AND_SWP:
		return METAROCE_WR_CMP_SWP;
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		return METAROCE_WR_FETCH_ADD;
	case IB_WR_LOCAL_INV:
		return METAROCE_WR_LOCAL_INV;
	default:
		return -EOPNOTSUPP;
	}
}

/* Reads only the subtype of ib_send_wr that the opcode implies (faults A44). */
static void mroce_sqe_remote(struct metaroce_sqe *sqe,
			     const struct ib_send_wr *wr)
{
	switch (wr->opcode) {
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
	case IB_WR_RDMA_READ:
		sqe->remote.addr = rdma_wr(wr)->remote_addr;
		sqe->remote.rkey = rdma_wr(wr)->rkey;
		break;
	case IB_WR_ATOMIC_CMP_AND_SWP:
		sqe->remote.addr = atomic_wr(wr)->remote_addr;
		sqe->remote.rkey = atomic_wr(wr)->rkey;
		sqe->remote.swap_add = atomic_wr(wr)->swap;
		sqe->remote.compare = atomic_wr(wr)->compare_add;
		break;
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		sqe->remote.addr = atomic_wr(wr)->remote_addr;
		sqe->remote.rkey = atomic_wr(wr)->rkey;
		sqe->remote.swap_add = atomic_wr(wr)->compare_add;
		break;
	default:
		break;
	}
}

static u32 mroce_sqe_imm_inv(const struct ib_send_wr *wr)
{
	switch (wr->opcode) {
	case IB_WR_SEND_WITH_IMM:
	case IB_WR_RDMA_WRITE_WITH_IMM:
		return (__force u32)wr->ex.imm_data;
	case IB_WR_SEND_WITH_INV:
	case IB_WR_LOCAL_INV:
		return wr->ex.invalidate_rkey;
	default:
		return 0;
	}
}

/* Inline data of a kernel user stands at kernel addresses. */
static void mroce_sqe_inline(struct metaroce_sqe *sqe,
			     const struct ib_send_wr *wr)
{
	u32 *len = (u32 *)(sqe + 1);
	void *to = len + 1;
	int i;

	*len = 0;
	for (i = 0; i < wr->num_sge; i++) {
		memcpy(to, (void *)(uintptr_t)wr->sg_list[i].addr,
		       wr->sg_list[i].length);
		to += wr->sg_list[i].length;
		*len += wr->sg_list[i].length;
	}
}

static void mroce_copy_sges(struct metaroce_sge *to, const struct ib_sge *from,
			    int n)
{
	int i;

	for (i = 0; i < n; i++) {
		to[i].addr = from[i].addr;
		to[i].length = from[i].length;
		to[i].lkey = from[i].lkey;
	}
}

static u64 mroce_sge_total(const struct ib_sge *sge, int n)
{
	u64 sum = 0;

	while (n > 0)
		sum += sge[--n].length;
	return sum;
}

/* -EINVAL: arguments, -EOPNOTSUPP: opcode; else the METAROCE_WR_* opcode. */
static int mroce_check_send(const struct mroce_sq *sq,
			    const struct ib_send_wr *wr)
{
	int opcode = mroce_sqe_opcode(wr->opcode);
	bool is_inline = wr->send_flags & IB_SEND_INLINE;
	u64 max = is_inline ? sq->max_inline : MROCE_MAX_MSG;
	u32 max_sge = is_inline ? MROCE_MAX_SGE : sq->max_sge;

	if (opcode < 0)
		return opcode;
	if (wr->num_sge < 0 || wr->num_sge > max_sge)
		return -EINVAL;
	if (wr->send_flags & ~(IB_SEND_SIGNALED | IB_SEND_SOLICITED |
			       IB_SEND_FENCE | IB_SEND_INLINE))
		return -EINVAL;
	if (is_inline && opcode > METAROCE_WR_WRITE_IMM)
		return -EINVAL;
	if (opcode == METAROCE_WR_LOCAL_INV && wr->num_sge)
		return -EINVAL;
	if (mroce_sge_total(wr->sg_list, wr->num_sge) > max)
		return -EINVAL;
	return opcode;
}

static int mroce_post_one_send(struct mroce_qp *qp, const struct ib_send_wr *wr)
{
	struct mroce_sq *sq = &qp->sq;
	struct metaroce_sqe *sqe;
	int opcode;

	lockdep_assert_held(&sq->post_lock);
	opcode = mroce_check_send(sq, wr);
	if (opcode < 0)
		return opcode;
	sqe = mroce_ring_slot(&sq->ring, sq->post_prod);
	if (!sqe)
		return -ENOMEM;

	memset(sqe, 0, sizeof(*sqe));
	sqe->wr_id = wr->wr_id;
	sqe->opcode = opcode;
	if (wr->send_flags & IB_SEND_SIGNALED)
		sqe->flags |= METAROCE_WR_SIGNALED;
	if (wr->send_flags & IB_SEND_SOLICITED)
		sqe->flags |= METAROCE_WR_SOLICITED;
	if (wr->send_flags & IB_SEND_FENCE)
		sqe->flags |= METAROCE_WR_FENCE;
	sqe->imm_inv = mroce_sqe_imm_inv(wr);
	mroce_sqe_remote(sqe, wr);
	if (wr->send_flags & IB_SEND_INLINE) {
		sqe->flags |= METAROCE_WR_INLINE;
		mroce_sqe_inline(sqe, wr);
	} else {
		sqe->num_sge = wr->num_sge;
		mroce_copy_sges((struct metaroce_sge *)(sqe + 1), wr->sg_list,
				wr->num_sge);
	}
	sq->post_prod++;
	/* the entry before its index */
	smp_store_release(&sq->ring.hdr->prod, sq->post_prod);
	return 0;
}

/*
 * User space's doorbell, or a list from a kernel user: entries before the
 * first bad one are posted, and *@bad points at that.  -ENOMEM: the queue is
 * full; -EINVAL: arguments, state; -EOPNOTSUPP: opcode.  Any context, any
 * interrupt state.
 */
int mroce_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		    const struct ib_send_wr **bad)
{
	struct mroce_qp *qp = to_mqp(ibqp);
	unsigned long flags;
	int err = 0;

	*bad = wr;
	if (qp->user) {
		/* the requests are in the ring; a list here is a wrong provider's */
		if (wr)
			return -EINVAL;
		mroce_engine_doorbell(qp);
		return 0;
	}

	switch (READ_ONCE(qp->state)) {
	case IB_QPS_RTS:
	case IB_QPS_SQD:
	case IB_QPS_SQE:
	case IB_QPS_ERR:
		break;
	default:
		return -EINVAL;
	}

	spin_lock_irqsave(&qp->sq.post_lock, flags);
	for (; wr; wr = wr->next) {
		err = mroce_post_one_send(qp, wr);
		if (err)
			break;
	}
	spin_unlock_irqrestore(&qp->sq.post_lock, flags);
	*bad = wr;
	mroce_engine_doorbell(qp);
	return err;
}

static int mroce_post_one_recv(struct mroce_qp *qp, const struct ib_recv_wr *wr)
{
	struct mroce_rq *rq = &qp->rq;
	struct metaroce_rqe *rqe;

	lockdep_assert_held(&rq->post_lock);
	if (wr->num_sge < 0 || wr->num_sge > rq->max_sge ||
	    mroce_sge_total(wr->sg_list, wr->num_sge) > MROCE_MAX_MSG)
		return -EINVAL;
	rqe = mroce_ring_slot(&rq->ring, rq->post_prod);
	if (!rqe)
		return -ENOMEM;
	rqe->wr_id = wr->wr_id;
	rqe->num_sge = wr->num_sge;
	rqe->resv = 0;
	mroce_copy_sges((struct metaroce_sge *)(rqe + 1), wr->sg_list,
			wr->num_sge);
	rq->post_prod++;
	/* the entry before its index */
	smp_store_release(&rq->ring.hdr->prod, rq->post_prod);
	return 0;
}

/* Kernel users; as mroce_post_send(). */
int mroce_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		    const struct ib_recv_wr **bad)
{
	struct mroce_qp *qp = to_mqp(ibqp);
	unsigned long flags;
	int err = 0;

	*bad = wr;
	if (qp->user || qp->srq || READ_ONCE(qp->state) == IB_QPS_RESET)
		return -EINVAL;

	spin_lock_irqsave(&qp->rq.post_lock, flags);
	for (; wr; wr = wr->next) {
		err = mroce_post_one_recv(qp, wr);
		if (err)
			break;
	}
	spin_unlock_irqrestore(&qp->rq.post_lock, flags);
	*bad = wr;
	/* Index, then state here; state, then index in the engine: one of the two sees the other. */
	smp_mb();
	if (READ_ONCE(qp->state) == IB_QPS_ERR)
		mroce_engine_recv_posted(qp);
	return err;
}
