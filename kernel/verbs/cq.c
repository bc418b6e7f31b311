// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Completion queues. */
#include <linux/slab.h>
#include <linux/timekeeping.h>

#include "cq.h"
#include "device.h"
#include "qp.h"
#include "ucontext.h"
#include "udata.h"

static u32 mroce_cq_entries(const struct mroce_cq *cq)
{
	return cq->ring.mask + 1;
}

/*
 * Completions that the consumer has not taken.  Its index may be anything:
 * more than the ring holds counts as a full ring, and hurts only its writer.
 */
static u32 mroce_cq_used(const struct mroce_cq *cq)
{
	u32 used = cq->prod - smp_load_acquire(&cq->ring.hdr->cons);

	lockdep_assert_held(&cq->lock);
	return min(used, mroce_cq_entries(cq));
}

/* First overflow: tell user space in the ring.  True: the event is still to be sent. */
static bool mroce_cq_overflow(struct mroce_cq *cq)
{
	lockdep_assert_held(&cq->lock);
	mroce_count(cq->dev, cq_overflow);
	if (cq->overflowed)
		return false;
	cq->overflowed = true;
	WRITE_ONCE(cq->ring.hdr->error, 1);
	return true;
}

static void mroce_cq_fatal(struct mroce_cq *cq)
{
	struct ib_event ev = {
		.device = cq->ibcq.device,
		.event = IB_EVENT_CQ_ERR,
		.element.cq = &cq->ibcq,
	};

	ibdev_dbg(cq->ibcq.device, "CQ overflow, %u entries\n",
		  mroce_cq_entries(cq));
	if (cq->ibcq.event_handler)
		cq->ibcq.event_handler(&ev, cq->ibcq.cq_context);
}

/* Is a consumer to be woken?  Disarms. */
static bool mroce_cq_take_arm(struct mroce_cq *cq, bool event_worthy)
{
	lockdep_assert_held(&cq->lock);
	if (cq->armed != IB_CQ_NEXT_COMP &&
	    !(cq->armed == IB_CQ_SOLICITED && event_worthy))
		return false;
	cq->armed = 0;
	return true;
}

static void mroce_cq_call(struct mroce_cq *cq, bool fatal, bool wake)
{
	if (fatal)
		mroce_cq_fatal(cq);
	if (wake && cq->ibcq.comp_handler)
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
}

static void mroce_cq_task(struct tasklet_struct *t)
{
	struct mroce_cq *cq = from_tasklet(cq, t, task);
	unsigned long flags;
	bool fatal, wake;

	spin_lock_irqsave(&cq->lock, flags);
	fatal = cq->fatal;
	wake = cq->wake;
	cq->fatal = false;
	cq->wake = false;
	spin_unlock_irqrestore(&cq->lock, flags);
	mroce_cq_call(cq, fatal, wake);
}

void mroce_cq_post(struct mroce_cq *cq, const struct metaroce_cqe *cqe,
		   bool event_worthy)
{
	struct metaroce_cqe *slot;
	bool fatal = false, wake;
	unsigned long flags;

	spin_lock_irqsave(&cq->lock, flags);
	if (mroce_cq_used(cq) == mroce_cq_entries(cq)) {
		fatal = mroce_cq_overflow(cq);
	} else {
		slot = mroce_ring_at(&cq->ring, cq->prod);
		*slot = *cqe;
		if (cq->timestamps)
			slot->timestamp = ktime_get_raw_ns();
		cq->prod++;
		/* pairs with the consumer's load of prod: the entry first */
		smp_store_release(&cq->ring.hdr->prod, cq->prod);
	}
	/* An overflow wakes too: whoever sleeps must come and see it. */
	wake = mroce_cq_take_arm(cq, event_worthy || fatal);
	if (!cq->user) {
		cq->fatal |= fatal;
		cq->wake |= wake;
	}
	spin_unlock_irqrestore(&cq->lock, flags);

	if (cq->user)
		mroce_cq_call(cq, fatal, wake);
	else if (fatal || wake)
		tasklet_schedule(&cq->task);
}

/*
 * Context: process.  -EINVAL: size or vector; -EOPNOTSUPP: flags, driver data;
 * -ENOMEM.  The ring has the next power of two of entries, and cqe says so.
 */
int mroce_cq_create(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		    struct ib_udata *udata)
{
	struct mroce_cq *cq = to_mcq(ibcq);
	struct metaroce_create_cq_resp resp = { };
	int err;

	if (attr->flags & ~(u32)IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION)
		return -EOPNOTSUPP;
	if (!attr->cqe || attr->cqe > MROCE_MAX_CQE)
		return -EINVAL;
	if (attr->comp_vector >= ibcq->device->num_comp_vectors)
		return -EINVAL;
	err = mroce_udata_none(udata);
	if (err)
		return err;

	cq->dev = to_mdev(ibcq->device);
	cq->cqn = atomic_inc_return(&cq->dev->last_cqn);
	spin_lock_init(&cq->lock);
	tasklet_setup(&cq->task, mroce_cq_task);
	cq->user = udata;
	cq->timestamps = attr->flags & IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION;
	err = mroce_ring_create(&cq->ring, mroce_udata_uctx(udata), attr->cqe,
				sizeof(struct metaroce_cqe));
	if (err)
		return err;
	ibcq->cqe = mroce_cq_entries(cq);
	if (!udata)
		return 0;

	mroce_ring_info(&cq->ring, &resp.cq);
	resp.cqn = cq->cqn;
	err = mroce_udata_out(udata, &resp, sizeof(resp));
	if (err)
		mroce_ring_destroy(&cq->ring);
	return err;
}

/*
 * The QPs of this CQ are gone (the core counts them), so nobody posts.  User
 * space that still polls reads "gone", which ends its wait also when a removed
 * device is the reason (ctl/link.c).  Process context.
 */
int mroce_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	tasklet_kill(&to_mcq(ibcq)->task);
	mroce_ring_destroy(&to_mcq(ibcq)->ring);
	return 0;
}

/* Moves what is not consumed to @fresh.  -EINVAL: it does not fit. */
static int mroce_cq_move(struct mroce_cq *cq, struct mroce_ring *fresh)
{
	u32 used = mroce_cq_used(cq);
	u32 i, from = cq->prod - used;

	lockdep_assert_held(&cq->lock);
	if (used > fresh->mask + 1)
		return -EINVAL;
	for (i = from; i != cq->prod; i++)
		memcpy(mroce_ring_at(fresh, i), mroce_ring_at(&cq->ring, i),
		       sizeof(struct metaroce_cqe));
	fresh->hdr->prod = cq->prod;
	fresh->hdr->cons = from;
	fresh->hdr->error = cq->overflowed;
	return 0;
}

/*
 * A new ring takes the place of the old one; the program must not poll
 * meanwhile (the provider holds its lock).  An error leaves everything as it
 * was.  Process context.
 */
int mroce_resize_cq(struct ib_cq *ibcq, int cqe, struct ib_udata *udata)
{
	struct mroce_cq *cq = to_mcq(ibcq);
	struct metaroce_resize_cq_resp resp = { };
	struct mroce_ring fresh = { }, old;
	unsigned long flags;
	int err;

	if (cqe < 1 || cqe > MROCE_MAX_CQE)
		return -EINVAL;
	err = mroce_udata_none(udata);
	if (err)
		return err;
	err = mroce_ring_create(&fresh, mroce_udata_uctx(udata), cqe,
				sizeof(struct metaroce_cqe));
	if (err)
		return err;
	if (udata) {
		mroce_ring_info(&fresh, &resp.cq);
		err = mroce_udata_out(udata, &resp, sizeof(resp));
		if (err)
			goto err_ring;
	}

	spin_lock_irqsave(&cq->lock, flags);
	err = mroce_cq_move(cq, &fresh);
	if (!err) {
		old = cq->ring;
		cq->ring = fresh;
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	if (err)
		goto err_ring;
	mroce_ring_destroy(&old);
	ibcq->cqe = mroce_cq_entries(cq);
	return 0;

err_ring:
	mroce_ring_destroy(&fresh);
	return err;
}

/* One entry for a kernel user.  False: its QP is gone, and with it whoever could understand it. */
static bool mroce_cqe_to_wc(struct mroce_cq *cq, const struct metaroce_cqe *cqe,
			    struct ib_wc *wc)
{
	struct mroce_qp *qp = mroce_qp_get(cq->dev, cqe->qp_num);

	if (!qp)
		return false;
	memset(wc, 0, sizeof(*wc));
	wc->wr_id = cqe->wr_id;
	wc->status = cqe->status;
	wc->opcode = cqe->opcode;
	wc->vendor_err = cqe->vendor_err;
	wc->byte_len = cqe->byte_len;
	wc->qp = qp->ibqp;
	if (cqe->wc_flags & METAROCE_WC_GRH)
		wc->wc_flags |= IB_WC_GRH;
	if (cqe->wc_flags & METAROCE_WC_IMM) {
		wc->wc_flags |= IB_WC_WITH_IMM;
		wc->ex.imm_data = (__force __be32)cqe->imm_inv;
	}
	if (cqe->wc_flags & METAROCE_WC_INV) {
		wc->wc_flags |= IB_WC_WITH_INVALIDATE;
		wc->ex.invalidate_rkey = cqe->imm_inv;
	}
	wc->src_qp = cqe->src_qp;
	wc->pkey_index = cqe->pkey_index;
	wc->slid = cqe->slid;
	wc->sl = cqe->sl;
	wc->port_num = 1;
	mroce_qp_put(qp);
	return true;
}

/* Kernel users: up to @n completions; their number.  Any context. */
int mroce_poll_cq(struct ib_cq *ibcq, int n, struct ib_wc *wc)
{
	struct mroce_cq *cq = to_mcq(ibcq);
	unsigned long flags;
	u32 cons;
	int got = 0;

	spin_lock_irqsave(&cq->lock, flags);
	cons = cq->prod - mroce_cq_used(cq);
	while (got < n && cons != cq->prod) {
		if (mroce_cqe_to_wc(cq, mroce_ring_at(&cq->ring, cons),
				    &wc[got]))
			got++;
		cons++;
	}
	smp_store_release(&cq->ring.hdr->cons, cons);
	spin_unlock_irqrestore(&cq->lock, flags);
	return got;
}

/*
 * Arms.  A completion posted before is in the ring, one posted later sees the
 * arm: who polls, arms and polls again loses none.  "Next" is not weakened to
 * "solicited".  1 if IB_CQ_REPORT_MISSED_EVENTS and entries wait; else 0.  Any
 * context.
 */
int mroce_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	struct mroce_cq *cq = to_mcq(ibcq);
	unsigned long irq;
	int ret;

	spin_lock_irqsave(&cq->lock, irq);
	if (cq->armed != IB_CQ_NEXT_COMP)
		cq->armed = flags & IB_CQ_SOLICITED_MASK;
	ret = flags & IB_CQ_REPORT_MISSED_EVENTS && mroce_cq_used(cq);
	spin_unlock_irqrestore(&cq->lock, irq);
	return ret;
}
