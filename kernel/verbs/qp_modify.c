// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Queue pairs: attributes and states. */
#include <linux/slab.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>

#include "../engine/engine.h"
#include "device.h"
#include "qp.h"
#include "udata.h"

#define MROCE_QP_ACCESS (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | \
			 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC | \
			 IB_ACCESS_MW_BIND | IB_ACCESS_OPTIONAL)

static int mroce_check_av(const struct rdma_ah_attr *ah)
{
	const struct ib_global_route *grh = rdma_ah_read_grh(ah);

	if (!(rdma_ah_get_ah_flags(ah) & IB_AH_GRH) || !grh->sgid_attr)
		return -EINVAL;
	if (grh->sgid_attr->gid_type != IB_GID_TYPE_ROCE_UDP_ENCAP)
		return -EINVAL;
	if (rdma_is_zero_gid((union ib_gid *)&grh->dgid) ||
	    rdma_is_multicast_addr((struct in6_addr *)grh->dgid.raw))
		return -EINVAL;
	return 0;
}

/* Values of the attributes that @mask names; which may be named was checked before. */
static int mroce_check_attr(const struct ib_qp_attr *attr, int mask)
{
	if (mask & IB_QP_PORT && attr->port_num != 1)
		return -EINVAL;
	if (mask & IB_QP_PKEY_INDEX && attr->pkey_index)
		return -EINVAL;
	if (mask & IB_QP_ALT_PATH)
		return -EOPNOTSUPP;
	if (mask & IB_QP_PATH_MIG_STATE &&
	    attr->path_mig_state != IB_MIG_MIGRATED)
		return -EOPNOTSUPP;
	if (mask & IB_QP_ACCESS_FLAGS &&
	    attr->qp_access_flags & ~MROCE_QP_ACCESS)
		return -EINVAL;
	if (mask & IB_QP_PATH_MTU &&
	    (attr->path_mtu < IB_MTU_256 || attr->path_mtu > IB_MTU_4096))
		return -EINVAL;
	if (mask & IB_QP_TIMEOUT && attr->timeout > 31)
		return -EINVAL;
	if (mask & IB_QP_RETRY_CNT && attr->retry_cnt > 7)
		return -EINVAL;
	if (mask & IB_QP_RNR_RETRY && attr->rnr_retry > 7)
		return -EINVAL;
	if (mask & IB_QP_MIN_RNR_TIMER && attr->min_rnr_timer > 31)
		return -EINVAL;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC &&
	    attr->max_rd_atomic > MROCE_MAX_RD_ATOMIC)
		return -EINVAL;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC &&
	    attr->max_dest_rd_atomic > MROCE_MAX_RD_ATOMIC)
		return -EINVAL;
	if (mask & IB_QP_DEST_QPN && attr->dest_qp_num > 0xffffff)
		return -EINVAL;
	return mask & IB_QP_AV ? mroce_check_av(&attr->ah_attr) : 0;
}

static void mroce_copy_attr(struct ib_qp_attr *to,
			    const struct ib_qp_attr *from, int mask)
{
	if (mask & IB_QP_PORT)
		to->port_num = from->port_num;
	if (mask & IB_QP_PKEY_INDEX)
		to->pkey_index = from->pkey_index;
	if (mask & IB_QP_PATH_MIG_STATE)
		to->path_mig_state = from->path_mig_state;
	if (mask & IB_QP_ACCESS_FLAGS)
		to->qp_access_flags = from->qp_access_flags;
	if (mask & IB_QP_PATH_MTU)
		to->path_mtu = from->path_mtu;
	if (mask & IB_QP_TIMEOUT)
		to->timeout = from->timeout;
	if (mask & IB_QP_RETRY_CNT)
		to->retry_cnt = from->retry_cnt;
	if (mask & IB_QP_RNR_RETRY)
		to->rnr_retry = from->rnr_retry;
	if (mask & IB_QP_MIN_RNR_TIMER)
		to->min_rnr_timer = from->min_rnr_timer;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC)
		to->max_rd_atomic = from->max_rd_atomic;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC)
		to->max_dest_rd_atomic = from->max_dest_rd_atomic;
	if (mask & IB_QP_DEST_QPN)
		to->dest_qp_num = from->dest_qp_num;
	if (mask & IB_QP_RQ_PSN)
		to->rq_psn = from->rq_psn;
	if (mask & IB_QP_SQ_PSN)
		to->sq_psn = from->sq_psn;
	if (mask & IB_QP_EN_SQD_ASYNC_NOTIFY)
		to->en_sqd_async_notify = from->en_sqd_async_notify;
	if (mask & IB_QP_AV)
		to->ah_attr = from->ah_attr;	/* the reference: mroce_set_attr() */
}

/* @from into the QP; with the address vector goes a reference to its GID. */
static void mroce_set_attr(struct mroce_qp *qp, const struct ib_qp_attr *from,
			   int mask)
{
	struct rdma_ah_attr old = qp->attr.ah_attr;

	lockdep_assert_held(&qp->mutex);
	if (mask & IB_QP_AV && from->ah_attr.grh.sgid_attr)
		rdma_hold_gid_attr(from->ah_attr.grh.sgid_attr);
	spin_lock_bh(&qp->rx_lock);
	spin_lock(&qp->sq_lock);
	mroce_copy_attr(&qp->attr, from, mask);
	spin_unlock(&qp->sq_lock);
	spin_unlock_bh(&qp->rx_lock);
	if (mask & IB_QP_AV)
		rdma_destroy_ah_attr(&old);
}

/* An empty ring, as after creation.  The engine has let go of the QP. */
static void mroce_ring_reset(struct mroce_ring *ring)
{
	WRITE_ONCE(ring->hdr->cons, 0);
	smp_store_release(&ring->hdr->prod, 0);
}

static void mroce_qp_reset(struct mroce_qp *qp)
{
	static const struct ib_qp_attr none;

	lockdep_assert_held(&qp->mutex);
	mroce_engine_set_state(qp, IB_QPS_RESET);
	mroce_engine_qp_to_reset(qp);
	mroce_set_attr(qp, &none, ~0);
	qp->attr_mask = 0;
	qp->comm_est = false;
	qp->sq.sqd_event = false;
	spin_lock_irq(&qp->sq.post_lock);
	qp->sq.post_prod = 0;
	mroce_ring_reset(&qp->sq.ring);
	spin_unlock_irq(&qp->sq.post_lock);
	spin_lock_irq(&qp->rq.post_lock);
	qp->rq.post_prod = 0;
	mroce_ring_reset(&qp->rq.ring);
	spin_unlock_irq(&qp->rq.post_lock);
}

/* SQ_DRAINED, if it was asked for: now if the queue is idle, else the engine sends it when it is. */
static void mroce_qp_owe_drained(struct mroce_qp *qp, bool owed)
{
	bool now;

	spin_lock_bh(&qp->sq_lock);
	now = owed && qp->sq.head == qp->sq.tail;
	qp->sq.sqd_event = owed && !now;
	spin_unlock_bh(&qp->sq_lock);
	if (now)
		mroce_qp_event(qp, IB_EVENT_SQ_DRAINED);
}

static int mroce_qp_to_rtr(struct mroce_qp *qp)
{
	int err = mroce_engine_qp_to_rtr(qp);

	if (!err)
		mroce_engine_set_state(qp, IB_QPS_RTR);
	return err;
}

/* Attributes are set.  Only the way to RTR can fail, and then nothing has changed. */
static int mroce_qp_transit(struct mroce_qp *qp, enum ib_qp_state from,
			    enum ib_qp_state to)
{
	lockdep_assert_held(&qp->mutex);
	switch (to) {
	case IB_QPS_RTR:
		return mroce_qp_to_rtr(qp);
	case IB_QPS_RTS:
		if (from == IB_QPS_RTR)
			mroce_engine_qp_to_rts(qp);
		mroce_qp_owe_drained(qp, false);
		mroce_engine_set_state(qp, IB_QPS_RTS);
		/* what was posted while the queue was drained */
		mroce_engine_doorbell(qp);
		return 0;
	case IB_QPS_SQD:
		mroce_engine_set_state(qp, IB_QPS_SQD);
		mroce_qp_owe_drained(qp, qp->attr.en_sqd_async_notify);
		return 0;
	case IB_QPS_ERR:
		mroce_engine_set_state(qp, IB_QPS_ERR);
		mroce_engine_qp_to_error(qp);
		return 0;
	default:
		mroce_engine_set_state(qp, to);
		return 0;
	}
}

static int mroce_do_modify(struct mroce_qp *qp, struct ib_qp_attr *attr,
			   int mask)
{
	enum ib_qp_state from = READ_ONCE(qp->state);
	enum ib_qp_state to = mask & IB_QP_STATE ? attr->qp_state : from;
	struct ib_qp_attr *saved = NULL;
	int err;

	lockdep_assert_held(&qp->mutex);
	if (mask & IB_QP_CUR_STATE && attr->cur_qp_state != from)
		return -EINVAL;
	if (!ib_modify_qp_is_ok(from, to, qp->type, mask))
		return -EINVAL;
	err = mroce_check_attr(attr, mask);
	if (err)
		return err;
	if (to == IB_QPS_RESET) {
		if (from != IB_QPS_RESET)
			mroce_qp_reset(qp);
		return 0;
	}
	if (from == IB_QPS_INIT && to == IB_QPS_RTR) {
		saved = kmemdup(&qp->attr, sizeof(qp->attr), GFP_KERNEL);
		if (!saved)
			return -ENOMEM;
	}
	mroce_set_attr(qp, attr, mask);
	if (mask & IB_QP_STATE && to != from) {
		err = mroce_qp_transit(qp, from, to);
		if (err && saved)	/* an AV was not set before RTR: nothing to give back */
			mroce_set_attr(qp, saved, mask);
	}
	kfree(saved);
	if (!err)
		qp->attr_mask |= mask;
	return err;
}

/*
 * Context: process.  -EINVAL: transition or value not allowed; -EOPNOTSUPP:
 * attribute not supported; at RTR also what the engine says about the address
 * (-ENETUNREACH, ...) and -ENOMEM.  An error leaves the QP as it was.
 */
int mroce_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		    struct ib_udata *udata)
{
	struct mroce_qp *qp = to_mqp(ibqp);
	int err;

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	err = mroce_udata_none(udata);
	if (err)
		return err;
	mutex_lock(&qp->mutex);
	err = mroce_do_modify(qp, attr, mask);
	mutex_unlock(&qp->mutex);
	return err;
}

/* Context: process.  All attributes, whatever @mask asks for. */
int mroce_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_qp_init_attr *init)
{
	struct mroce_qp *qp = to_mqp(ibqp);

	mutex_lock(&qp->mutex);
	spin_lock_bh(&qp->sq_lock);
	*attr = qp->attr;
	attr->qp_state = qp->state;
	attr->sq_draining = qp->state == IB_QPS_SQD &&
			    qp->sq.head != qp->sq.tail;
	spin_unlock_bh(&qp->sq_lock);
	mutex_unlock(&qp->mutex);

	attr->cur_qp_state = attr->qp_state;
	attr->cap = qp->cap;
	attr->ah_attr.grh.sgid_attr = NULL;	/* our reference stays ours */
	attr->xmit_slave = NULL;

	memset(init, 0, sizeof(*init));
	init->event_handler = ibqp->event_handler;
	init->qp_context = ibqp->qp_context;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->srq = ibqp->srq;
	init->cap = qp->cap;
	init->sq_sig_type = qp->sq.sig_all ? IB_SIGNAL_ALL_WR :
					     IB_SIGNAL_REQ_WR;
	init->qp_type = qp->type;
	init->port_num = attr->port_num;
	return 0;
}
