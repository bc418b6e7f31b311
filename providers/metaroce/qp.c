// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Queue pairs: their life. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "metaroce.h"

MROCE_MESSAGE(create_qp_cmd, ibv_create_qp, metaroce_create_qp_req);
MROCE_MESSAGE(create_qp_resp, ib_uverbs_create_qp_resp, metaroce_create_qp_resp);

#define OP(name) (1U << METAROCE_WR_##name)
#define UD_OPS	(OP(SEND) | OP(SEND_IMM))
#define UC_OPS	(UD_OPS | OP(SEND_INV) | OP(WRITE) | OP(WRITE_IMM) | \
		 OP(LOCAL_INV) | OP(BIND_MW))
#define RC_OPS	(UC_OPS | OP(READ) | OP(CMP_SWP) | OP(FETCH_ADD) | \
		 OP(ATOMIC_WRITE))

static bool type_known(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC || type == IBV_QPT_UC ||
	       type == IBV_QPT_UD || type == IBV_QPT_XRC_SEND ||
	       type == IBV_QPT_XRC_RECV;
}

uint32_t mroce_qp_ops(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_XRC_SEND:
		return RC_OPS;
	case IBV_QPT_UC:
		return UC_OPS;
	case IBV_QPT_UD:
		return UD_OPS;
	default:
		return 0;
	}
}

static int map_rings(struct mroce_qp *qp, int fd,
		     const struct metaroce_create_qp_resp *resp,
		     const struct ibv_qp_cap *cap)
{
	uint64_t sges = cap->max_send_sge * (uint64_t)sizeof(struct metaroce_sge);
	uint64_t inl = METAROCE_INLINE_HDR + (uint64_t)resp->max_inline;
	uint64_t send = METAROCE_SQE_HDR + (sges > inl ? sges : inl);
	uint64_t recv = METAROCE_RQE_HDR +
			cap->max_recv_sge * (uint64_t)sizeof(struct metaroce_sge);
	int ret;

	/* num_sge of a send request has 8 bits. */
	if (send > UINT32_MAX || recv > UINT32_MAX || cap->max_send_sge > 255)
		return EPROTO;
	ret = mroce_queue_map(&qp->sq.q, fd, &resp->sq, (uint32_t)send);
	if (ret)
		return ret;
	ret = mroce_queue_map(&qp->rq.q, fd, &resp->rq, (uint32_t)recv);
	if (ret)
		mroce_queue_unmap(&qp->sq.q);
	return ret;
}

/*
 * Say that this QP has the ibv_wr_* interface.  libibverbs looks for the mark
 * behind struct ibv_qp_ex, which release 45 made one pointer longer: the place
 * in the libibverbs that runs need not be the one compiled against.  Its public
 * conversion function tells which it is.  The neighbouring places are padding
 * of ours, an unused XRC pointer, or the unused wr_flush, and read 0.
 */
static bool mroce_qp_mark_ex(struct mroce_qp *qp)
{
	static const int shifts[] = { 0, sizeof(void *), -(int)sizeof(void *) };
	uint8_t *usual = (uint8_t *)&qp->vqp.comp_mask;
	uint32_t old, mark;
	size_t i;

	for (i = 0; i < sizeof(shifts) / sizeof(shifts[0]); i++) {
		memcpy(&old, usual + shifts[i], sizeof(old));
		mark = old | VERBS_QP_EX;
		memcpy(usual + shifts[i], &mark, sizeof(mark));
		if (ibv_qp_to_qp_ex(&qp->vqp.qp))
			return true;
		memcpy(usual + shifts[i], &old, sizeof(old));
	}
	return false;
}

static int check_attr(const struct ibv_qp_init_attr_ex *attr)
{
	if (!type_known(attr->qp_type))
		return EOPNOTSUPP;
	if (attr->comp_mask & ~(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
				IBV_QP_INIT_ATTR_CREATE_FLAGS |
				IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return EOPNOTSUPP;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS &&
	    attr->create_flags)
		return EOPNOTSUPP;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS &&
	    !mroce_wr_supports(attr->qp_type, attr->send_ops_flags))
		return EOPNOTSUPP;
	return 0;
}

static int init_locks(struct mroce_qp *qp,
		      const struct ibv_qp_init_attr_ex *attr)
{
	bool shared = true;
	int ret;

	if (attr->comp_mask & IBV_QP_INIT_ATTR_PD && attr->pd)
		shared = !to_mroce_pd(attr->pd)->single_threaded;
	ret = mroce_lock_init(&qp->sq.lock, shared);
	if (!ret)
		ret = mroce_lock_init(&qp->rq.lock, shared);
	return ret;
}

static struct mroce_qp *create_qp(struct ibv_context *context,
				  struct ibv_qp_init_attr_ex *attr)
{
	union create_qp_cmd cmd = { .core = { 0 } };
	union create_qp_resp resp = { .core = { 0 } };
	struct mroce_qp *qp = NULL;
	int ret;

	ret = check_attr(attr);
	if (ret)
		goto free;
	attr->comp_mask &= ~(uint32_t)IBV_QP_INIT_ATTR_CREATE_FLAGS;

	ret = ENOMEM;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		goto free;
	ret = init_locks(qp, attr);
	if (ret)
		goto free;
	ret = ibv_cmd_create_qp_ex(context, &qp->vqp, attr, &cmd.ibv,
				   sizeof(cmd), &resp.ibv, sizeof(resp));
	if (ret)
		goto free;
	ret = map_rings(qp, context->cmd_fd, &resp.drv, &attr->cap);
	if (ret)
		goto destroy;

	attr->cap.max_inline_data = resp.drv.max_inline;
	qp->sq.ops = mroce_qp_ops(attr->qp_type);
	qp->sq.max_sge = attr->cap.max_send_sge;
	qp->sq.max_inline = resp.drv.max_inline;
	qp->sq.signal_all = attr->sq_sig_all;
	qp->sq.datagram = attr->qp_type == IBV_QPT_UD;
	qp->sq.xrc = attr->qp_type == IBV_QPT_XRC_SEND;
	qp->rq.max_sge = attr->cap.max_recv_sge;

	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		mroce_wr_init(qp);
		ret = EPROTO;
		if (!mroce_qp_mark_ex(qp))
			goto unmap;
	}
	return qp;

unmap:
	mroce_queue_unmap(&qp->rq.q);
	mroce_queue_unmap(&qp->sq.q);
destroy:
	ibv_cmd_destroy_qp(&qp->vqp.qp);
free:
	free(qp);
	errno = ret;
	return NULL;
}

struct ibv_qp *mroce_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct mroce_qp *qp;

	qp = create_qp(pd->context, &ex);
	if (!qp)
		return NULL;
	attr->cap = ex.cap;
	return &qp->vqp.qp;
}

struct ibv_qp *mroce_create_qp_ex(struct ibv_context *context,
				  struct ibv_qp_init_attr_ex *attr)
{
	struct mroce_qp *qp = create_qp(context, attr);

	return qp ? &qp->vqp.qp : NULL;
}

/* A handle on the receiving XRC QP of another process: no rings. */
struct ibv_qp *mroce_open_qp(struct ibv_context *context,
			     struct ibv_qp_open_attr *attr)
{
	struct ib_uverbs_create_qp_resp resp;
	struct ibv_open_qp cmd = { .hdr = { 0 } };
	struct mroce_qp *qp;
	int ret;

	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	ret = ibv_cmd_open_qp(context, &qp->vqp, sizeof(qp->vqp), attr, &cmd,
			      sizeof(cmd), &resp, sizeof(resp));
	if (ret) {
		free(qp);
		errno = ret;
		return NULL;
	}
	return &qp->vqp.qp;
}

/*
 * The move to RESET empties the rings: this once the kernel writes both
 * indexes, so nobody may post meanwhile.
 */
int mroce_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
	struct mroce_qp *qp = to_mroce_qp(ibqp);
	bool reset = mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET;
	struct ibv_modify_qp cmd = { .hdr = { 0 } };
	int ret;

	if (reset) {
		mroce_lock(&qp->sq.lock);
		mroce_lock(&qp->rq.lock);
	}
	ret = ibv_cmd_modify_qp(ibqp, attr, mask, &cmd, sizeof(cmd));
	if (reset) {
		mroce_queue_reload(&qp->sq.q);
		mroce_queue_reload(&qp->rq.q);
		mroce_unlock(&qp->rq.lock);
		mroce_unlock(&qp->sq.lock);
	}
	return ret;
}

int mroce_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		   struct ibv_qp_init_attr *init_attr)
{
	struct ibv_query_qp cmd;

	return ibv_cmd_query_qp(qp, attr, mask, init_attr, &cmd, sizeof(cmd));
}

/* Packets are sprayed over paths and placed as they come. */
int mroce_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op,
				 uint32_t flags)
{
	(void)qp;
	(void)op;
	(void)flags;
	return 0;
}

int mroce_destroy_qp(struct ibv_qp *ibqp)
{
	struct mroce_qp *qp = to_mroce_qp(ibqp);
	int ret;

	ret = mroce_destroyed(ibv_cmd_destroy_qp(ibqp));
	if (ret)
		return ret;
	mroce_queue_unmap(&qp->rq.q);
	mroce_queue_unmap(&qp->sq.q);
	pthread_spin_destroy(&qp->sq.lock.spin);
	pthread_spin_destroy(&qp->rq.lock.spin);
	free(qp);
	return 0;
}
