// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The ibv_wr_* interface.  Between wr_start and wr_complete the send queue's
 * lock is held; requests are built in their slots but not published.  The
 * first error stays, everything behind it is ignored, and wr_complete then
 * takes the whole list back.
 */
#include <errno.h>

#include "metaroce.h"
#include "wqe.h"

static const struct {
	uint64_t flag;
	unsigned int op;
} flag_table[] = {
	{ IBV_QP_EX_WITH_RDMA_WRITE, METAROCE_WR_WRITE },
	{ IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, METAROCE_WR_WRITE_IMM },
	{ IBV_QP_EX_WITH_SEND, METAROCE_WR_SEND },
	{ IBV_QP_EX_WITH_SEND_WITH_IMM, METAROCE_WR_SEND_IMM },
	{ IBV_QP_EX_WITH_RDMA_READ, METAROCE_WR_READ },
	{ IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, METAROCE_WR_CMP_SWP },
	{ IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, METAROCE_WR_FETCH_ADD },
	{ IBV_QP_EX_WITH_LOCAL_INV, METAROCE_WR_LOCAL_INV },
	{ IBV_QP_EX_WITH_BIND_MW, METAROCE_WR_BIND_MW },
	{ IBV_QP_EX_WITH_SEND_WITH_INV, METAROCE_WR_SEND_INV },
	{ IBV_QP_EX_WITH_ATOMIC_WRITE, METAROCE_WR_ATOMIC_WRITE },
};

bool mroce_wr_supports(enum ibv_qp_type type, uint64_t send_ops_flags)
{
	uint32_t ops = mroce_qp_ops(type);
	size_t i;

	for (i = 0; i < sizeof(flag_table) / sizeof(flag_table[0]); i++)
		if (ops & (1U << flag_table[i].op))
			send_ops_flags &= ~flag_table[i].flag;
	return !send_ops_flags;
}

static void fail(struct mroce_sq *sq, int error)
{
	if (!sq->error)
		sq->error = error;
	sq->cur = NULL;
}

/* Start a request; NULL if it or one before it failed. */
static struct metaroce_sqe *begin(struct ibv_qp_ex *ibqp, unsigned int op)
{
	struct mroce_sq *sq = &to_mroce_qp_ex(ibqp)->sq;
	struct metaroce_sqe *sqe;

	if (sq->error)
		return NULL;
	if (!mroce_may_post(sq, op)) {
		fail(sq, EINVAL);
		return NULL;
	}
	sqe = mroce_produce(&sq->q);
	if (!sqe) {
		fail(sq, ENOMEM);
		return NULL;
	}
	mroce_sqe_start(sqe, ibqp->wr_id, op,
			mroce_sqe_flags(sq, ibqp->wr_flags));
	sq->cur = sqe;
	sq->q.next++;
	return sqe;
}

static struct metaroce_sqe *begin_remote(struct ibv_qp_ex *ibqp,
					 unsigned int op, uint32_t rkey,
					 uint64_t addr)
{
	struct metaroce_sqe *sqe = begin(ibqp, op);

	if (sqe) {
		sqe->remote.addr = addr;
		sqe->remote.rkey = rkey;
	}
	return sqe;
}

static void begin_tagged(struct ibv_qp_ex *ibqp, unsigned int op, uint32_t word)
{
	struct metaroce_sqe *sqe = begin(ibqp, op);

	if (sqe)
		sqe->imm_inv = word;
}

static void wr_send(struct ibv_qp_ex *qp)
{
	begin(qp, METAROCE_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *qp, __be32 imm_data)
{
	begin_tagged(qp, METAROCE_WR_SEND_IMM, (uint32_t)imm_data);
}

static void wr_send_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	begin_tagged(qp, METAROCE_WR_SEND_INV, rkey);
}

static void wr_local_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	begin_tagged(qp, METAROCE_WR_LOCAL_INV, rkey);
}

static void wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr)
{
	begin_remote(qp, METAROCE_WR_WRITE, rkey, addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey,
			      uint64_t addr, __be32 imm_data)
{
	struct metaroce_sqe *sqe;

	sqe = begin_remote(qp, METAROCE_WR_WRITE_IMM, rkey, addr);
	if (sqe)
		sqe->imm_inv = (uint32_t)imm_data;
}

static void wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr)
{
	begin_remote(qp, METAROCE_WR_READ, rkey, addr);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey,
			      uint64_t addr, uint64_t compare, uint64_t swap)
{
	struct metaroce_sqe *sqe;

	sqe = begin_remote(qp, METAROCE_WR_CMP_SWP, rkey, addr);
	if (sqe) {
		sqe->remote.compare = compare;
		sqe->remote.swap_add = swap;
	}
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey,
				uint64_t addr, uint64_t add)
{
	struct metaroce_sqe *sqe;

	sqe = begin_remote(qp, METAROCE_WR_FETCH_ADD, rkey, addr);
	if (sqe)
		sqe->remote.swap_add = add;
}

static void wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr,
			    const void *value)
{
	struct metaroce_sqe *sqe;
	uint64_t word;

	sqe = begin_remote(qp, METAROCE_WR_ATOMIC_WRITE, rkey, addr);
	if (sqe) {
		memcpy(&word, value, sizeof(word));
		sqe->remote.swap_add = word;
	}
}

static void wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	struct metaroce_sqe *sqe = begin(qp, METAROCE_WR_BIND_MW);

	if (!sqe)
		return;
	if (mw->type != IBV_MW_TYPE_2)
		fail(&to_mroce_qp_ex(qp)->sq, EINVAL);
	else
		mroce_put_bind(sqe, mw, rkey, info);
}

/* The request that a setter speaks of, NULL if it failed or was never begun. */
static struct metaroce_sqe *current(struct ibv_qp_ex *ibqp)
{
	struct mroce_sq *sq = &to_mroce_qp_ex(ibqp)->sq;

	if (!sq->cur)
		fail(sq, EINVAL);
	return sq->cur;
}

static void wr_set_sge(struct ibv_qp_ex *ibqp, uint32_t lkey, uint64_t addr,
		       uint32_t length)
{
	struct mroce_sq *sq = &to_mroce_qp_ex(ibqp)->sq;
	struct metaroce_sqe *sqe = current(ibqp);
	struct metaroce_sge *sge;

	if (!sqe)
		return;
	if (!sq->max_sge || length > MROCE_MAX_MSG) {
		fail(sq, EINVAL);
		return;
	}
	sge = (struct metaroce_sge *)mroce_sqe_data(sqe);
	sge->addr = addr;
	sge->length = length;
	sge->lkey = lkey;
	sqe->num_sge = 1;
}

static void wr_set_sge_list(struct ibv_qp_ex *ibqp, size_t num_sge,
			    const struct ibv_sge *list)
{
	struct mroce_sq *sq = &to_mroce_qp_ex(ibqp)->sq;
	struct metaroce_sqe *sqe = current(ibqp);

	if (!sqe)
		return;
	if (num_sge > sq->max_sge ||
	    mroce_put_sges((struct metaroce_sge *)mroce_sqe_data(sqe), list,
			   num_sge)) {
		fail(sq, EINVAL);
		return;
	}
	sqe->num_sge = (uint8_t)num_sge;
}

/* Only operations that send data can take it along. */
static bool takes_inline(const struct metaroce_sqe *sqe)
{
	switch (sqe->opcode) {
	case METAROCE_WR_SEND:
	case METAROCE_WR_SEND_IMM:
	case METAROCE_WR_SEND_INV:
	case METAROCE_WR_WRITE:
	case METAROCE_WR_WRITE_IMM:
		return true;
	default:
		return false;
	}
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ibqp, size_t num_buf,
				    const struct ibv_data_buf *bufs)
{
	struct mroce_sq *sq = &to_mroce_qp_ex(ibqp)->sq;
	struct metaroce_sqe *sqe = current(ibqp);
	size_t left = sq->max_inline;
	uint8_t *to;
	size_t i;

	if (!sqe)
		return;
	/* Against what is left, each in turn: no sum that could wrap. */
	for (i = 0; i < num_buf && bufs[i].length <= left; i++)
		left -= bufs[i].length;
	if (i < num_buf || !takes_inline(sqe)) {
		fail(sq, EINVAL);
		return;
	}

	mroce_put_inline_length(sqe, sq->max_inline - (uint32_t)left);
	to = mroce_inline_bytes(sqe);
	for (i = 0; i < num_buf; i++) {
		if (bufs[i].length)
			memcpy(to, bufs[i].addr, bufs[i].length);
		to += bufs[i].length;
	}
}

static void wr_set_inline_data(struct ibv_qp_ex *ibqp, void *addr,
			       size_t length)
{
	const struct ibv_data_buf buf = { .addr = addr, .length = length };

	wr_set_inline_data_list(ibqp, 1, &buf);
}

static void wr_set_ud_addr(struct ibv_qp_ex *ibqp, struct ibv_ah *ah,
			   uint32_t remote_qpn, uint32_t remote_qkey)
{
	struct metaroce_sqe *sqe = current(ibqp);

	if (!sqe)
		return;
	sqe->ud.ah = to_mroce_ah(ah)->index;
	sqe->ud.qpn = remote_qpn;
	sqe->ud.qkey = remote_qkey;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ibqp, uint32_t remote_srqn)
{
	struct metaroce_sqe *sqe = current(ibqp);

	if (sqe)
		sqe->remote.srqn = remote_srqn;
}

static void wr_start(struct ibv_qp_ex *ibqp)
{
	struct mroce_sq *sq = &to_mroce_qp_ex(ibqp)->sq;

	mroce_lock(&sq->lock);
	sq->start = sq->q.next;
	sq->cur = NULL;
	sq->error = 0;
	if (!sq->q.ring || !mroce_may_send(ibqp->qp_base.state))
		sq->error = EINVAL;
}

static int wr_complete(struct ibv_qp_ex *ibqp)
{
	struct mroce_qp *qp = to_mroce_qp_ex(ibqp);
	struct mroce_sq *sq = &qp->sq;
	int error = sq->error;
	bool posted = false;

	if (error) {
		sq->q.next = sq->start;
	} else if (sq->q.next != sq->start) {
		mroce_publish(&sq->q);
		posted = true;
	}
	mroce_unlock(&sq->lock);

	return posted ? mroce_doorbell(qp, &sq->q) : error;
}

static void wr_abort(struct ibv_qp_ex *ibqp)
{
	struct mroce_sq *sq = &to_mroce_qp_ex(ibqp)->sq;

	sq->q.next = sq->start;
	mroce_unlock(&sq->lock);
}

/*
 * All of them, asked for or not: what the QP's type does not allow ends in
 * EINVAL from wr_complete instead of a jump to address 0.
 */
void mroce_wr_init(struct mroce_qp *qp)
{
	struct ibv_qp_ex *ex = &qp->vqp.qp_ex;

	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_atomic_write = wr_atomic_write;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
}
