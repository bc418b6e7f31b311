// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* QP life cycle inside the engine: see engine.h. */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "../verbs/device.h"
#include "completer.h"
#include "conn.h"
#include "engine.h"
#include "qp.h"
#include "responder.h"
#include "requester.h"
#include "timer.h"

static void mroce_lock_both(struct mroce_qp *qp)
	__acquires(&qp->rx_lock) __acquires(&qp->sq_lock)
{
	spin_lock_bh(&qp->rx_lock);
	spin_lock(&qp->sq_lock);
}

static void mroce_unlock_both(struct mroce_qp *qp)
	__releases(&qp->sq_lock) __releases(&qp->rx_lock)
{
	spin_unlock(&qp->sq_lock);
	spin_unlock_bh(&qp->rx_lock);
}

/* Flushes, and once more what was posted before its poster could see that it has to ring. */
static void mroce_flush(struct mroce_qp *qp)
{
	mroce_flush_sq(qp);
	mroce_flush_rq(qp);
	mroce_flush_sq(qp);
	mroce_flush_rq(qp);
}

static void mroce_enter_error(struct mroce_qp *qp)
{
	lockdep_assert_held(&qp->rx_lock);
	lockdep_assert_held(&qp->sq_lock);
	if (qp->state == IB_QPS_RESET)
		return;
	qp->state = IB_QPS_ERR;
	qp->sq.stopped = true;
	qp->sq.rreq_head = qp->sq.rreq_tail;
	qp->sq.rreq_send = qp->sq.rreq_tail;
	mroce_drop_held(qp);
	mroce_flush(qp);
}

static void mroce_error_work(struct work_struct *work)
{
	struct mroce_qp *qp = container_of(work, struct mroce_qp, error_work);
	struct mroce_conn *conn;
	bool owe = false;

	mroce_lock_both(qp);
	if (qp->sq.rsp_failed && !qp->rq.nak_sent) {
		qp->rq.nak_pending = true;
		qp->rq.nak_sent = true;
		qp->rq.nak_code = MROCE_NAK_REM_ACCESS;
		qp->rq.nak_msn = qp->sq.rsp_failed_msn;
		mroce_qp_event(qp, IB_EVENT_QP_ACCESS_ERR);
		owe = true;
	}
	mroce_enter_error(qp);
	mroce_unlock_both(qp);
	if (!owe)
		return;
	mroce_count(qp->dev, nak_tx);
	rcu_read_lock_bh();
	conn = rcu_dereference_bh(qp->conn);
	if (conn) {
		spin_lock(&qp->rx_lock);
		mroce_block_due(conn, qp, MROCE_CLASS_REQ);
		spin_unlock(&qp->rx_lock);
		mroce_blocks_send(conn);
	}
	rcu_read_unlock_bh();
}

void mroce_engine_qp_init(struct mroce_qp *qp)
{
	spin_lock_init(&qp->rx_lock);
	spin_lock_init(&qp->sq_lock);
	INIT_LIST_HEAD(&qp->conn_entry);
	INIT_LIST_HEAD(&qp->ready_entry);
	INIT_LIST_HEAD(&qp->block_entry);
	INIT_LIST_HEAD(&qp->db_entry);
	INIT_WORK(&qp->error_work, mroce_error_work);
	mroce_timer_init(qp);
	qp->rq.rnr_code = 0xff;
}

/* Streams and queues as after creation. */
static void mroce_clear(struct mroce_qp *qp)
{
	struct mroce_sq *sq = &qp->sq;
	struct mroce_rq *rq = &qp->rq;

	mroce_drop_held(qp);
	sq->watching = false;
	sq->post_prod = 0;
	sq->head = 0;
	sq->send = 0;
	sq->tail = 0;
	sq->msn = 0;
	sq->rsn = 0;
	sq->msn_done = 0;
	sq->rd_out = 0;
	sq->rnr_tries = 0;
	sq->rnr_msn = ~0u;
	sq->rnr_wait = false;
	sq->rnr_probe = false;
	sq->rnr_run = 0;
	sq->not_ready = false;
	sq->asked = false;
	sq->stopped = false;
	sq->fail_status = 0;
	sq->sqd_event = false;
	sq->rreq_head = 0;
	sq->rreq_send = 0;
	sq->rreq_tail = 0;
	sq->rsp_failed = false;
	rq->post_prod = 0;
	rq->completed = 0;
	rq->nak_pending = false;
	rq->nak_sent = false;
	rq->nak_status = 0;
	rq->block_due = 0;
	rq->rnr_code = 0xff;
	rq->rsn_seen = 0;
	qp->comm_est = false;
	if (sq->ring.hdr)
		WRITE_ONCE(sq->ring.hdr->watching, 0);
	if (rq->ring.hdr)
		WRITE_ONCE(rq->ring.hdr->watching, 1);	/* posting a receive needs no bell */
}

int mroce_engine_qp_alloc(struct mroce_qp *qp)
{
	struct mroce_sq *sq = &qp->sq;
	struct mroce_rq *rq = &qp->rq;
	u32 data = max_t(u32, sq->max_sge * sizeof(struct metaroce_sge), sq->max_inline);

	sq->sreq_stride = ALIGN(sizeof(struct mroce_sreq) + data, 16);
	sq->sreq_mask = MROCE_MSN_WINDOW - 1;
	sq->sreqs = kvcalloc(MROCE_MSN_WINDOW, sq->sreq_stride, GFP_KERNEL);
	sq->rreq_mask = MROCE_MAX_RD_ATOMIC - 1;
	sq->rreqs = kvcalloc(MROCE_MAX_RD_ATOMIC, sizeof(*sq->rreqs), GFP_KERNEL);
	rq->recs = kvcalloc(MROCE_MSN_WINDOW, sizeof(*rq->recs), GFP_KERNEL);
	rq->held = kvcalloc(MROCE_MSN_WINDOW, sizeof(*rq->held), GFP_KERNEL);
	rq->recv_stride = ALIGN(sizeof(struct mroce_recv) +
				rq->max_sge * sizeof(struct metaroce_sge), 16);
	rq->recvs = kvcalloc(MROCE_MSN_WINDOW, rq->recv_stride, GFP_KERNEL);
	if (sq->sreqs && sq->rreqs && rq->recs && rq->held && rq->recvs) {
		mroce_clear(qp);
		return 0;
	}
	mroce_engine_qp_free(qp);
	return -ENOMEM;
}

void mroce_engine_qp_free(struct mroce_qp *qp)
{
	mroce_drop_held(qp);
	kvfree(qp->sq.sreqs);
	kvfree(qp->sq.rreqs);
	kvfree(qp->rq.recs);
	kvfree(qp->rq.held);
	kvfree(qp->rq.recvs);
	qp->sq.sreqs = NULL;
	qp->sq.rreqs = NULL;
	qp->rq.recs = NULL;
	qp->rq.held = NULL;
	qp->rq.recvs = NULL;
}

void mroce_engine_set_state(struct mroce_qp *qp, enum ib_qp_state state)
{
	mroce_lock_both(qp);
	/* an error that came meanwhile stays */
	if (qp->state != IB_QPS_ERR || state == IB_QPS_RESET)
		qp->state = state;
	mroce_unlock_both(qp);
}

static int mroce_join(struct mroce_qp *qp, struct mroce_conn *conn)
{
	int err = 0;

	spin_lock_bh(&conn->tx_lock);
	if (conn->state == MROCE_CONN_DEAD) {
		err = -ENETUNREACH;
	} else {
		rcu_assign_pointer(qp->conn, conn);
		list_add_tail(&qp->conn_entry, &conn->qps);
	}
	spin_unlock_bh(&conn->tx_lock);
	return err;
}

int mroce_engine_qp_to_rtr(struct mroce_qp *qp)
{
	const struct ib_global_route *grh = rdma_ah_read_grh(&qp->attr.ah_attr);
	struct mroce_addr local, remote;
	struct mroce_conn *conn;
	int err;

	if (!grh->sgid_attr)
		return -EINVAL;
	memcpy(&local, &grh->sgid_attr->gid, sizeof(local));
	memcpy(&remote, &grh->dgid, sizeof(remote));
	if (mroce_addr_is_v4(&local) != mroce_addr_is_v4(&remote))
		return -EINVAL;
	if (!mroce_dev_has_addr(qp->dev, &local))
		return -EADDRNOTAVAIL;	/* the GID table lags behind the netdev (faults A08) */
	conn = mroce_conn_get(qp->dev, &local, &remote, grh->traffic_class & ~3);
	if (IS_ERR(conn))
		return PTR_ERR(conn);

	mroce_lock_both(qp);
	memset(qp->rq.recs, 0, MROCE_MSN_WINDOW * sizeof(*qp->rq.recs));
	mroce_stream_rx_init(&qp->rq.req, qp->attr.rq_psn, MROCE_MIN_PAYLOAD, qp->rq.recs, MROCE_MSN_WINDOW);
	mroce_stream_tx_init(&qp->sq.rsp, qp->attr.rq_psn);
	qp->sq.rreq_spsn = qp->attr.rq_psn;
	qp->sq.rsp_rtx_cur = qp->attr.rq_psn;
	qp->sq.rsp_rtx_end = qp->attr.rq_psn;
	mroce_unlock_both(qp);
	err = mroce_join(qp, conn);
	if (err)
		mroce_conn_leave(conn);
	return err;
}

void mroce_engine_qp_to_rts(struct mroce_qp *qp)
{
	struct mroce_sq *sq = &qp->sq;

	mroce_lock_both(qp);
	mroce_stream_tx_init(&sq->req, qp->attr.sq_psn);
	mroce_stream_rx_init(&qp->rq.rsp, qp->attr.sq_psn, MROCE_MIN_PAYLOAD, NULL, 0);
	sq->spsn = qp->attr.sq_psn;
	sq->rsp_spsn = qp->attr.sq_psn;
	sq->rtx_cur = qp->attr.sq_psn;
	sq->rtx_end = qp->attr.sq_psn;
	sq->live = true;
	mroce_unlock_both(qp);
}

void mroce_engine_qp_to_error(struct mroce_qp *qp)
{
	mroce_lock_both(qp);
	mroce_enter_error(qp);
	mroce_unlock_both(qp);
}

void mroce_qp_conn_lost(struct mroce_qp *qp)
{
	struct mroce_sq *sq = &qp->sq;

	mroce_lock_both(qp);
	if (qp->state == IB_QPS_ERR || qp->state == IB_QPS_RESET) {
		mroce_unlock_both(qp);
		return;
	}
	sq->fail_status = IB_WC_RETRY_EXC_ERR;
	mroce_enter_error(qp);
	mroce_qp_event(qp, IB_EVENT_QP_FATAL);
	mroce_unlock_both(qp);
}

void mroce_engine_qp_to_reset(struct mroce_qp *qp)
{
	struct mroce_conn *conn;

	mroce_lock_both(qp);
	qp->state = IB_QPS_RESET;
	qp->sq.live = false;
	qp->sq.stopped = true;
	mroce_unlock_both(qp);

	mroce_timer_stop(qp);
	cancel_work_sync(&qp->error_work);
	conn = rcu_dereference_protected(qp->conn, lockdep_is_held(&qp->mutex));
	if (conn) {
		spin_lock_bh(&conn->tx_lock);
		list_del_init(&qp->conn_entry);
		list_del_init(&qp->ready_entry);
		list_del_init(&qp->block_entry);
		mroce_conn_tx_forget_qp(&conn->tx, qp->qpn);
		rcu_assign_pointer(qp->conn, NULL);
		spin_unlock_bh(&conn->tx_lock);
		/* what it had in flight filled windows that others wait for */
		mroce_conn_kick(conn);
		mroce_conn_leave(conn);
	}
	mroce_lock_both(qp);
	mroce_clear(qp);
	mroce_unlock_both(qp);
}

static void mroce_qp_transmit(struct mroce_qp *qp, bool arm)
{
	struct mroce_conn *conn;

	rcu_read_lock_bh();
	conn = rcu_dereference_bh(qp->conn);
	if (conn) {
		spin_lock(&conn->tx_lock);
		/* the QP may have left meanwhile, even for another connection */
		if (rcu_access_pointer(qp->conn) == conn) {
			mroce_conn_ready(conn, qp);
			if (conn->state != MROCE_CONN_OPEN)
				mroce_retry_before_open(qp);
		}
		spin_unlock(&conn->tx_lock);
		mroce_conn_transmit(conn, arm);
	}
	rcu_read_unlock_bh();
}

void mroce_qp_run(struct mroce_qp *qp)
{
	mroce_qp_transmit(qp, true);
}

/* A doorbell in ERR: what was posted is flushed.  False: not in ERR. */
static bool mroce_flush_posted(struct mroce_qp *qp)
{
	if (READ_ONCE(qp->state) != IB_QPS_ERR)
		return false;
	spin_lock(&qp->rx_lock);
	spin_lock(&qp->sq_lock);
	if (qp->state == IB_QPS_ERR)
		mroce_flush(qp);
	spin_unlock(&qp->sq_lock);
	spin_unlock(&qp->rx_lock);
	return true;
}

void mroce_qp_doorbell_bh(struct mroce_qp *qp)
{
	if (!mroce_flush_posted(qp))
		mroce_qp_run(qp);
}

static void mroce_qp_arm_late(struct mroce_qp *qp)
{
	struct mroce_conn *conn;

	rcu_read_lock_bh();
	conn = rcu_dereference_bh(qp->conn);
	if (conn)
		mroce_conn_arm_late(conn);
	rcu_read_unlock_bh();
}

void mroce_engine_doorbell(struct mroce_qp *qp)
{
	if (irqs_disabled()) {
		mroce_qp_defer(qp);
		return;
	}
	local_bh_disable();
	if (mroce_flush_posted(qp)) {
		local_bh_enable();
		return;
	}
	mroce_qp_transmit(qp, false);
	local_bh_enable();	/* the packets go their way, and answers may be there */
	mroce_qp_arm_late(qp);
}

void mroce_engine_recv_posted(struct mroce_qp *qp)
{
	if (READ_ONCE(qp->state) == IB_QPS_ERR)
		mroce_engine_doorbell(qp);
}
