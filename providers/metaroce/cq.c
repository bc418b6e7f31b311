// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Completion queues: their life, and classic polling. */
#include <errno.h>
#include <stdlib.h>

#include "metaroce.h"

MROCE_MESSAGE(create_cq_resp, ib_uverbs_ex_create_cq_resp,
	      metaroce_create_cq_resp);
MROCE_MESSAGE(resize_cq_resp, ib_uverbs_resize_cq_resp, metaroce_resize_cq_resp);

static int map_ring(struct mroce_cq *cq, int fd,
		    const struct metaroce_ring_info *info)
{
	int ret;

	if (!info->entries)
		return EPROTO;
	ret = mroce_queue_map(&cq->q, fd, info, sizeof(struct metaroce_cqe));
	if (ret)
		return ret;
	/* After a resize the kernel has moved the unpolled entries over. */
	cq->q.next = mroce_load_relaxed(&cq->q.ring->cons);
	cq->q.seen = cq->q.next;
	return 0;
}

static struct mroce_cq *create_cq(struct ibv_context *context,
				  const struct ibv_cq_init_attr_ex *attr,
				  bool shared)
{
	union create_cq_resp resp = { .core = { 0 } };
	struct mroce_cq *cq;
	int ret;

	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return NULL;
	ret = mroce_lock_init(&cq->lock, shared);
	if (ret)
		goto free;
	ret = ibv_cmd_create_cq_ex(context, attr, &cq->vcq, NULL, 0, &resp.ibv,
				   sizeof(resp), 0);
	if (ret)
		goto free;
	ret = map_ring(cq, context->cmd_fd, &resp.drv.cq);
	if (ret)
		goto destroy;
	return cq;

destroy:
	ibv_cmd_destroy_cq(&cq->vcq.cq);
free:
	free(cq);
	errno = ret;
	return NULL;
}

struct ibv_cq *mroce_create_cq(struct ibv_context *context, int cqe,
			       struct ibv_comp_channel *channel,
			       int comp_vector)
{
	struct ibv_cq_init_attr_ex attr = {
		.channel = channel,
		.comp_vector = comp_vector,
	};
	struct mroce_cq *cq;

	if (cqe <= 0) {
		errno = EINVAL;
		return NULL;
	}
	attr.cqe = cqe;
	cq = create_cq(context, &attr, true);
	return cq ? &cq->vcq.cq : NULL;
}

struct ibv_cq_ex *mroce_create_cq_ex(struct ibv_context *context,
				     struct ibv_cq_init_attr_ex *attr)
{
	bool shared = true;
	struct mroce_cq *cq;

	if (!mroce_cq_ex_supports(attr->wc_flags) ||
	    attr->comp_mask & ~(IBV_CQ_INIT_ATTR_MASK_FLAGS |
				IBV_CQ_INIT_ATTR_MASK_PD)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) {
		if (attr->flags & ~(IBV_CREATE_CQ_ATTR_SINGLE_THREADED |
				    IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)) {
			errno = EOPNOTSUPP;
			return NULL;
		}
		if (attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED)
			shared = false;
	}
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) {
		if (!attr->parent_domain ||
		    !to_mroce_pd(attr->parent_domain)->contained) {
			errno = EINVAL;
			return NULL;
		}
		if (to_mroce_pd(attr->parent_domain)->single_threaded)
			shared = false;
	}

	cq = create_cq(context, attr, shared);
	if (!cq)
		return NULL;
	mroce_cq_ex_init(&cq->vcq.cq_ex, attr->wc_flags);
	return &cq->vcq.cq_ex;
}

/*
 * The lock is held over the system call: nobody may move the consumer index
 * between the kernel's copying of the entries and our use of the new ring.
 */
int mroce_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct mroce_cq *cq = to_mroce_cq(ibcq);
	union resize_cq_resp resp = { .core = { 0 } };
	struct ibv_resize_cq cmd = { 0 };
	struct mroce_queue old;
	int ret;

	if (cqe <= 0)
		return EINVAL;

	mroce_lock(&cq->lock);
	ret = ibv_cmd_resize_cq(ibcq, cqe, &cmd, sizeof(cmd), &resp.ibv,
				sizeof(resp));
	if (!ret) {
		old = cq->q;
		ret = map_ring(cq, ibcq->context->cmd_fd, &resp.drv.cq);
		/* The old ring is dead already: better an error than silence. */
		cq->lost = ret != 0;
		mroce_queue_unmap(&old);
	}
	mroce_unlock(&cq->lock);
	return ret;
}

int mroce_destroy_cq(struct ibv_cq *ibcq)
{
	struct mroce_cq *cq = to_mroce_cq(ibcq);
	int ret;

	ret = mroce_destroyed(ibv_cmd_destroy_cq(ibcq));
	if (ret)
		return ret;
	mroce_queue_unmap(&cq->q);
	pthread_spin_destroy(&cq->lock.spin);
	free(cq);
	return 0;
}

/* Why is there nothing to poll?  0: because nothing has completed. */
static int why_empty(struct mroce_cq *cq)
{
	if (mroce_load_acquire(&cq->q.ring->gone))
		return EIO;
	if (mroce_load_acquire(&cq->q.ring->error))
		return EOVERFLOW;
	return 0;
}

/*
 * The next completion, or NULL with *error set.  Errors of the queue are
 * reported behind the last completion that made it into the ring: look once
 * more after having seen the error, the kernel writes it last.
 */
const struct metaroce_cqe *mroce_cq_next(struct mroce_cq *cq, int *error)
{
	const struct metaroce_cqe *cqe;

	*error = 0;
	if (cq->lost) {
		*error = EIO;
		return NULL;
	}
	cqe = mroce_consume(&cq->q);
	if (cqe)
		return cqe;
	*error = why_empty(cq);
	if (!*error)
		return NULL;
	cqe = mroce_consume(&cq->q);
	if (cqe)
		*error = 0;
	return cqe;
}

static void copy_wc(struct ibv_wc *wc, const struct metaroce_cqe *cqe)
{
	wc->wr_id = cqe->wr_id;
	wc->status = cqe->status;
	wc->opcode = cqe->opcode;
	wc->vendor_err = cqe->vendor_err;
	wc->byte_len = cqe->byte_len;
	/* Immediate data stays as it came, in network order. */
	wc->invalidated_rkey = cqe->imm_inv;
	wc->qp_num = cqe->qp_num;
	wc->src_qp = cqe->src_qp;
	wc->wc_flags = mroce_wc_flags(cqe);
	wc->pkey_index = cqe->pkey_index;
	wc->slid = cqe->slid;
	wc->sl = cqe->sl;
	wc->dlid_path_bits = 0;
}

int mroce_poll_cq(struct ibv_cq *ibcq, int num_entries, struct ibv_wc *wc)
{
	struct mroce_cq *cq = to_mroce_cq(ibcq);
	const struct metaroce_cqe *cqe;
	int error = 0;
	int n;

	mroce_lock(&cq->lock);
	for (n = 0; n < num_entries; n++) {
		cqe = mroce_cq_next(cq, &error);
		if (!cqe)
			break;
		copy_wc(wc + n, cqe);
		cq->q.next++;
	}
	if (n)
		mroce_release(&cq->q);
	mroce_unlock(&cq->lock);

	return n ? n : -error;
}
