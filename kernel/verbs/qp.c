// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Queue pairs: creation, look-up, events, destruction. */
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#include "../engine/engine.h"
#include "device.h"
#include "qp.h"
#include "ucontext.h"
#include "udata.h"

#define MROCE_SQE_ALIGN	64	/* strides: a send request fills cache lines of its own */
#define MROCE_RQE_ALIGN	16

struct mroce_qp *mroce_qp_get(struct mroce_dev *dev, u32 qpn)
{
	struct mroce_qp *qp;

	rcu_read_lock();
	qp = xa_load(&dev->qps, qpn);
	if (qp && !refcount_inc_not_zero(&qp->refs))
		qp = NULL;
	rcu_read_unlock();
	return qp;
}

/* Any context. */
void mroce_qp_put(struct mroce_qp *qp)
{
	if (refcount_dec_and_test(&qp->refs))
		complete(&qp->gone);
}

/* The caller holds a reference: destroy waits for it, then for the work. */
void mroce_qp_event(struct mroce_qp *qp, enum ib_event_type event)
{
	set_bit(event, &qp->events);
	queue_work(qp->dev->wq, &qp->event_work);
}

static void mroce_qp_event_work(struct work_struct *work)
{
	struct mroce_qp *qp = container_of(work, struct mroce_qp, event_work);
	struct ib_qp *ibqp = qp->ibqp;
	struct ib_event ev = {
		.device = ibqp->device,
		.element.qp = ibqp,
	};
	unsigned int bit;

	for (bit = 0; bit < BITS_PER_LONG; bit++) {
		if (!test_and_clear_bit(bit, &qp->events))
			continue;
		ev.event = bit;
		if (ibqp->event_handler)
			ibqp->event_handler(&ev, ibqp->qp_context);
	}
}

/* The one place that knows which types exist. */
static int mroce_check_qp_type(const struct ib_qp_init_attr *init)
{
	switch (init->qp_type) {
	case IB_QPT_RC:
		break;
	default:	/* part 2: UC, UD, GSI */
		return -EOPNOTSUPP;
	}
	if (init->srq || init->xrcd || init->rwq_ind_tbl || init->create_flags)
		return -EOPNOTSUPP;
	if (!init->send_cq || !init->recv_cq)
		return -EINVAL;
	return 0;
}

static int mroce_check_qp_cap(const struct ib_qp_init_attr *init)
{
	const struct ib_qp_cap *cap = &init->cap;

	if (cap->max_send_wr > MROCE_MAX_QP_WR ||
	    cap->max_send_sge > MROCE_MAX_SGE ||
	    cap->max_inline_data > MROCE_MAX_INLINE)
		return -EINVAL;
	if (init->srq)		/* its limits count, not these (faults A28) */
		return 0;
	if (cap->max_recv_wr > MROCE_MAX_QP_WR ||
	    cap->max_recv_sge > MROCE_MAX_SGE)
		return -EINVAL;
	return 0;
}

static u32 mroce_sq_stride(const struct ib_qp_cap *cap)
{
	u32 sge = METAROCE_SQE_HDR +
		  cap->max_send_sge * sizeof(struct metaroce_sge);
	u32 inl = METAROCE_SQE_HDR + METAROCE_INLINE_HDR + cap->max_inline_data;

	return ALIGN(max(sge, inl), MROCE_SQE_ALIGN);
}

static u32 mroce_rq_stride(const struct ib_qp_cap *cap)
{
	return ALIGN(METAROCE_RQE_HDR +
		     cap->max_recv_sge * sizeof(struct metaroce_sge),
		     MROCE_RQE_ALIGN);
}

static int mroce_create_sq(struct mroce_qp *qp, struct ib_qp_init_attr *init,
			   struct ib_ucontext *uctx)
{
	struct mroce_sq *sq = &qp->sq;
	u32 stride = mroce_sq_stride(&qp->cap);
	int err;

	err = mroce_ring_create(&sq->ring, uctx, qp->cap.max_send_wr, stride);
	if (err)
		return err;
	qp->cap.max_send_wr = sq->ring.mask + 1;
	/* what the stride leaves is granted */
	qp->cap.max_inline_data = min_t(u32, MROCE_MAX_INLINE,
					stride - METAROCE_SQE_HDR -
					METAROCE_INLINE_HDR);
	sq->max_sge = qp->cap.max_send_sge;
	sq->max_inline = qp->cap.max_inline_data;
	sq->sig_all = init->sq_sig_type == IB_SIGNAL_ALL_WR;
	return 0;
}

static int mroce_create_rq(struct mroce_qp *qp, struct ib_ucontext *uctx)
{
	int err;

	err = mroce_ring_create(&qp->rq.ring, uctx, qp->cap.max_recv_wr,
				mroce_rq_stride(&qp->cap));
	if (err)
		return err;
	qp->cap.max_recv_wr = qp->rq.ring.mask + 1;
	qp->rq.max_sge = qp->cap.max_recv_sge;
	return 0;
}

/* What cannot fail: after it, every step of destruction is safe. */
static struct mroce_qp *mroce_qp_new(struct ib_qp *ibqp,
				     const struct ib_qp_init_attr *init,
				     bool user)
{
	struct mroce_qp *qp = kzalloc(sizeof(*qp), GFP_KERNEL);

	if (!qp)
		return NULL;
	mroce_engine_qp_init(qp);
	mutex_init(&qp->mutex);
	spin_lock_init(&qp->sq.post_lock);
	spin_lock_init(&qp->rq.post_lock);
	INIT_WORK(&qp->event_work, mroce_qp_event_work);
	refcount_set(&qp->refs, 1);
	init_completion(&qp->gone);

	qp->ibqp = ibqp;
	qp->dev = to_mdev(ibqp->device);
	qp->pd = ibqp->pd;
	qp->scq = to_mcq(init->send_cq);
	qp->rcq = to_mcq(init->recv_cq);
	qp->type = init->qp_type;
	qp->state = IB_QPS_RESET;
	qp->user = user;
	qp->cap = init->cap;
	qp->cap.max_send_sge = max(qp->cap.max_send_sge, 1u);
	qp->cap.max_recv_sge = max(qp->cap.max_recv_sge, 1u);
	return qp;
}

static int mroce_qp_request(struct ib_udata *udata)
{
	struct metaroce_create_qp_req req;
	int err;

	if (!udata)
		return 0;
	err = mroce_udata_in(udata, &req, sizeof(req));
	if (err)
		return err;
	return req.comp_mask || req.flags ? -EOPNOTSUPP : 0;
}

static int mroce_qp_respond(const struct mroce_qp *qp, struct ib_udata *udata)
{
	struct metaroce_create_qp_resp resp = { };

	if (!udata)
		return 0;
	mroce_ring_info(&qp->sq.ring, &resp.sq);
	mroce_ring_info(&qp->rq.ring, &resp.rq);
	resp.max_inline = qp->sq.max_inline;
	return mroce_udata_out(udata, &resp, sizeof(resp));
}

/*
 * Context: process.  -EOPNOTSUPP: type, flags, driver data; -EINVAL: beyond a
 * limit; -ENOMEM; -EBUSY: no number left.  init->cap becomes what was granted.
 */
int mroce_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init,
		    struct ib_udata *udata)
{
	struct mroce_dev *dev = to_mdev(ibqp->device);
	struct ib_ucontext *uctx = mroce_udata_uctx(udata);
	struct mroce_qp *qp;
	int err;

	err = mroce_check_qp_type(init) ?: mroce_check_qp_cap(init) ?:
	      mroce_qp_request(udata);
	if (err)
		return err;
	qp = mroce_qp_new(ibqp, init, udata);
	if (!qp)
		return -ENOMEM;
	err = mroce_create_sq(qp, init, uctx);
	if (err)
		goto err_free;
	err = mroce_create_rq(qp, uctx);
	if (err)
		goto err_sq;
	err = mroce_engine_qp_alloc(qp);
	if (err)
		goto err_rq;
	err = xa_alloc_cyclic(&dev->qps, &qp->qpn, NULL,
			      XA_LIMIT(MROCE_MIN_QPN, 0xffffff), &dev->next_qpn,
			      GFP_KERNEL);
	if (err < 0)
		goto err_engine;
	err = mroce_qp_respond(qp, udata);
	if (err)
		goto err_qpn;

	ibqp->qp_num = qp->qpn;
	container_of(ibqp, struct mroce_ibqp, ibqp)->qp = qp;
	init->cap = qp->cap;
	/* The slot is reserved: storing needs no memory and cannot fail. */
	xa_store(&dev->qps, qp->qpn, qp, GFP_KERNEL);
	return 0;

err_qpn:
	xa_erase(&dev->qps, qp->qpn);
err_engine:
	mroce_engine_qp_free(qp);
err_rq:
	mroce_ring_destroy(&qp->rq.ring);
err_sq:
	mroce_ring_destroy(&qp->sq.ring);
err_free:
	mutex_destroy(&qp->mutex);
	kfree(qp);
	return err;
}

/*
 * Context: process; cannot fail.  Sources first (the engine lets go of the QP,
 * the number is withdrawn), then all references, then what they used.  The
 * event work is queued by holders of references, so it is last.
 */
int mroce_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct mroce_qp *qp = to_mqp(ibqp);
	struct mroce_dev *dev = qp->dev;

	mutex_lock(&qp->mutex);
	mroce_engine_set_state(qp, IB_QPS_RESET);
	mroce_engine_qp_to_reset(qp);
	mutex_unlock(&qp->mutex);

	xa_erase(&dev->qps, qp->qpn);
	mroce_qp_put(qp);
	wait_for_completion(&qp->gone);
	cancel_work_sync(&qp->event_work);

	mroce_engine_qp_free(qp);
	mroce_ring_destroy(&qp->rq.ring);
	mroce_ring_destroy(&qp->sq.ring);
	rdma_destroy_ah_attr(&qp->attr.ah_attr);
	mutex_destroy(&qp->mutex);
	kfree_rcu(qp, rcu);
	return 0;
}
