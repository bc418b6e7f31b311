// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Shared receive queues. */
#include <errno.h>
#include <stdlib.h>

#include "metaroce.h"

MROCE_MESSAGE(create_srq_resp, ib_uverbs_create_srq_resp,
	      metaroce_create_srq_resp);

static struct mroce_srq *create_srq(struct ibv_context *context,
				    struct ibv_srq_init_attr_ex *attr)
{
	struct mroce_pd *pd = to_mroce_pd(attr->pd);
	union create_srq_resp resp = { .core = { 0 } };
	struct ibv_create_xsrq cmd;
	struct mroce_srq *srq;
	int ret;

	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return NULL;
	ret = mroce_lock_init(&srq->rq.lock, !pd->single_threaded);
	if (ret)
		goto free;
	ret = ibv_cmd_create_srq_ex(context, &srq->vsrq, attr, &cmd,
				    sizeof(cmd), &resp.ibv, sizeof(resp));
	if (ret)
		goto free;

	ret = EPROTO;
	if (!resp.drv.rq.entries)
		goto destroy;
	ret = mroce_queue_map(&srq->rq.q, context->cmd_fd, &resp.drv.rq,
			      METAROCE_RQE_HDR + attr->attr.max_sge *
			      (uint32_t)sizeof(struct metaroce_sge));
	if (ret)
		goto destroy;

	srq->rq.max_sge = attr->attr.max_sge;
	if (srq->vsrq.srq_type == IBV_SRQT_XRC)
		srq->vsrq.srq_num = resp.drv.srqn;
	srq->vsrq.srq.pd = attr->pd;
	srq->vsrq.srq.srq_context = attr->srq_context;
	return srq;

destroy:
	ibv_cmd_destroy_srq(&srq->vsrq.srq);
free:
	free(srq);
	errno = ret;
	return NULL;
}

struct ibv_srq *mroce_create_srq(struct ibv_pd *pd,
				 struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex = {
		.srq_context = attr->srq_context,
		.attr = attr->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_PD,
		.pd = pd,
	};
	struct mroce_srq *srq;

	srq = create_srq(pd->context, &ex);
	if (!srq)
		return NULL;
	attr->attr.max_wr = ex.attr.max_wr;
	attr->attr.max_sge = ex.attr.max_sge;
	return &srq->vsrq.srq;
}

struct ibv_srq *mroce_create_srq_ex(struct ibv_context *context,
				    struct ibv_srq_init_attr_ex *attr)
{
	struct mroce_srq *srq;

	if (attr->comp_mask & ~(IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
				IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD)) {
		errno = EINVAL;
		return NULL;
	}
	if (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE &&
	    attr->srq_type != IBV_SRQT_BASIC &&
	    attr->srq_type != IBV_SRQT_XRC) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	srq = create_srq(context, attr);
	return srq ? &srq->vsrq.srq : NULL;
}

/* The ring stays as it was made: the device does not claim SRQ_RESIZE. */
int mroce_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	struct ibv_modify_srq cmd;

	if (mask & IBV_SRQ_MAX_WR)
		return EOPNOTSUPP;
	return ibv_cmd_modify_srq(srq, attr, mask, &cmd, sizeof(cmd));
}

int mroce_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	struct ibv_query_srq cmd;

	return ibv_cmd_query_srq(srq, attr, &cmd, sizeof(cmd));
}

int mroce_get_srq_num(struct ibv_srq *ibsrq, uint32_t *srq_num)
{
	struct mroce_srq *srq = to_mroce_srq(ibsrq);

	if (srq->vsrq.srq_type != IBV_SRQT_XRC)
		return EOPNOTSUPP;
	*srq_num = srq->vsrq.srq_num;
	return 0;
}

int mroce_destroy_srq(struct ibv_srq *ibsrq)
{
	struct mroce_srq *srq = to_mroce_srq(ibsrq);
	int ret;

	ret = mroce_destroyed(ibv_cmd_destroy_srq(ibsrq));
	if (ret)
		return ret;
	mroce_queue_unmap(&srq->rq.q);
	pthread_spin_destroy(&srq->rq.lock.spin);
	free(srq);
	return 0;
}

int mroce_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			struct ibv_recv_wr **bad_wr)
{
	return mroce_post_rq(&to_mroce_srq(srq)->rq, wr, bad_wr);
}
