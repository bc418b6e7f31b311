// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Timers of a QP: see timer.h. */
#include <linux/jiffies.h>
#include <linux/rcupdate.h>

#include "../compat/compat.h"
#include "../verbs/device.h"
#include "completer.h"
#include "conn.h"
#include "qp.h"
#include "requester.h"
#include "timer.h"

#define MROCE_RNR_GROW_USEC	1000	/* waits below grow up to this while RNRs repeat */

/* IBTA RNR NAK timer field to microseconds. */
static const u32 mroce_rnr_usec[32] = {
	655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920,
	2560, 3840, 5120, 7680, 10240, 15360, 20480, 30720, 40960, 61440, 81920, 122880,
	163840, 245760, 327680, 491520,
};

/* Nanoseconds without progress after which the peer is given up; 0: never. */
static u64 mroce_retry_limit(const struct mroce_qp *qp)
{
	if (!qp->attr.timeout)
		return 0;
	return (4096ull << qp->attr.timeout) * (qp->attr.retry_cnt + 1);
}

static unsigned long mroce_retry_period(const struct mroce_qp *qp)
{
	u64 limit = mroce_retry_limit(qp);
	unsigned long j = limit ? nsecs_to_jiffies(limit / 8) : HZ / 10;

	return clamp(j, 1UL, (unsigned long)HZ / 10);
}

/* Requests that wait for a handshake, which is the peer's silence as well. */
static bool mroce_waits_for_open(struct mroce_qp *qp)
{
	struct mroce_conn *conn;
	bool waits;

	if (qp->state != IB_QPS_RTS || mroce_ring_prod(&qp->sq.ring) == qp->sq.head)
		return false;
	rcu_read_lock();
	conn = rcu_dereference(qp->conn);
	waits = conn && mroce_conn_state(conn) != MROCE_CONN_OPEN;
	rcu_read_unlock();
	return waits;
}

static bool mroce_outstanding(struct mroce_qp *qp)
{
	struct mroce_sq *sq = &qp->sq;

	return sq->head != sq->send || !mroce_stream_tx_idle(&sq->req) ||
	       (sq->send != sq->tail && mroce_sreq_at(sq, sq->send)->sent) ||
	       mroce_waits_for_open(qp);
}

void mroce_progress(struct mroce_qp *qp, u64 now)
{
	lockdep_assert_held(&qp->sq_lock);
	qp->sq.last_progress = now;
	qp->sq.asked = false;
}

void mroce_retry_timer_start(struct mroce_qp *qp)
{
	struct mroce_sq *sq = &qp->sq;

	lockdep_assert_held(&qp->sq_lock);
	if (timer_pending(&sq->retry_timer) || !sq->live)
		return;
	mroce_progress(qp, mroce_now());
	sq->last_check = sq->last_progress;
	mod_timer(&sq->retry_timer, jiffies + mroce_retry_period(qp));
}

void mroce_retry_before_open(struct mroce_qp *qp)
{
	spin_lock(&qp->sq_lock);
	if (mroce_waits_for_open(qp))
		mroce_retry_timer_start(qp);
	spin_unlock(&qp->sq_lock);
}

void mroce_rnr_wait(struct mroce_qp *qp, u8 code)
{
	u32 usec = mroce_rnr_usec[code & 31];

	lockdep_assert_held(&qp->sq_lock);
	if (!qp->sq.live)
		return;
	/*
	 * The time is the least that must be waited.  Waits shorter than the
	 * work they cause would leave no CPU for the program that is to post
	 * the receive (R6; faults A03, A04).
	 */
	if (usec < MROCE_RNR_GROW_USEC)
		usec = min_t(u32, usec << min_t(u8, qp->sq.rnr_run, 7), MROCE_RNR_GROW_USEC);
	qp->sq.rnr_wait = true;
	hrtimer_start(&qp->sq.rnr_timer, ns_to_ktime((u64)usec * NSEC_PER_USEC),
		      HRTIMER_MODE_REL_SOFT);
}

static enum hrtimer_restart mroce_rnr_timer(struct hrtimer *timer)
{
	struct mroce_qp *qp = container_of(timer, struct mroce_qp, sq.rnr_timer);
	struct mroce_sq *sq = &qp->sq;
	struct mroce_sreq *sr;

	spin_lock(&qp->sq_lock);
	sq->rnr_wait = false;
	/* one message finds out; the rest follows when it is through */
	sr = mroce_sreq_by_spsn(sq, sq->req.base);
	if (sq->not_ready && sr)
		sq->rnr_msn = sr->msn;
	sq->rnr_probe = true;
	sq->rnr_sent = 0;
	mroce_resend_all(qp);
	spin_unlock(&qp->sq_lock);
	mroce_qp_run(qp);
	return HRTIMER_NORESTART;
}

static void mroce_solicit(struct mroce_qp *qp)
{
	struct mroce_solicit body = {
		.dst_qpn = cpu_to_be32(qp->attr.dest_qp_num << 8),
		.src_qpn = cpu_to_be32(qp->qpn << 8),
	};
	struct mroce_conn *conn;

	rcu_read_lock_bh();
	conn = rcu_dereference_bh(qp->conn);
	if (conn && mroce_conn_state(conn) == MROCE_CONN_OPEN)
		mroce_ctrl_send(conn, MROCE_T_CTRL, MROCE_C_SOLICIT, &body, sizeof(body));
	rcu_read_unlock_bh();
}

static void mroce_retry_timer(struct timer_list *t)
{
	struct mroce_qp *qp = from_timer(qp, t, sq.retry_timer);
	struct mroce_sq *sq = &qp->sq;
	u64 limit = mroce_retry_limit(qp), now;
	u64 timely = 2 * jiffies_to_nsecs(mroce_retry_period(qp));
	bool solicit = false;

	spin_lock(&qp->sq_lock);
	/* under the lock: a progress noted by another CPU while we waited for it is not in our future */
	now = mroce_now();
	if (!sq->live || sq->fail_status || !mroce_outstanding(qp))
		goto out;
	if (sq->rnr_wait && !sq->not_ready)
		sq->last_progress = now;	/* waiting by agreement is not silence */
	/* a handshake takes work items of both hosts, and is begun with the first request */
	if (mroce_waits_for_open(qp))
		limit *= 4;
	/*
	 * A check that comes late tells of a busy CPU, not of a silent peer:
	 * what that sent waits for softirqs as this timer did, and behind it.
	 */
	if (now - sq->last_check > timely)
		sq->last_progress = min(now, sq->last_progress + now - sq->last_check - timely);
	sq->last_check = now;
	if (limit && now - sq->last_progress > limit) {
		mroce_count(qp->dev, retry_exceeded);
		/* the oldest request, which may not even be copied from the ring yet */
		sq->fail_status = IB_WC_RETRY_EXC_ERR;
		sq->stopped = true;
		queue_work(qp->dev->wq, &qp->error_work);
		goto out;
	}
	/* all was delivered for all we know, and yet it is not done: ask */
	solicit = !sq->rnr_wait && now - sq->last_progress > 2 * NSEC_PER_MSEC;
	sq->asked = sq->asked || solicit;
	mod_timer(&sq->retry_timer, jiffies + mroce_retry_period(qp));
out:
	spin_unlock(&qp->sq_lock);
	if (solicit)
		mroce_solicit(qp);
}

void mroce_timer_init(struct mroce_qp *qp)
{
	mroce_hrtimer_setup(&qp->sq.rnr_timer, mroce_rnr_timer, CLOCK_MONOTONIC,
			    HRTIMER_MODE_REL_SOFT);
	timer_setup(&qp->sq.retry_timer, mroce_retry_timer, 0);
}

void mroce_timer_stop(struct mroce_qp *qp)
{
	WARN_ON_ONCE(qp->sq.live);
	hrtimer_cancel(&qp->sq.rnr_timer);
	del_timer_sync(&qp->sq.retry_timer);
}
