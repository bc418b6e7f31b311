/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The timers of a QP (those of a connection are in xmit.c and ack.c):
 *  rnr_timer    the peer had no receive posted, or the QP was not ready: wait, then resend
 *  retry_timer  no-progress supervision (protocol.rst 3.2 rule 9), and solicits
 *               a stream block that was lost
 * Functions are named for the event.  qp->sq_lock held by all of them.
 */
#ifndef MROCE_ENGINE_TIMER_H
#define MROCE_ENGINE_TIMER_H

#include <linux/hrtimer.h>
#include <linux/timer.h>

struct mroce_qp;

/* Something is outstanding from now on. */
void mroce_retry_timer_start(struct mroce_qp *qp);
/* The peer gave a sign that this stream moves. */
void mroce_progress(struct mroce_qp *qp, u64 now);
/* Wait at least as RNR timer @code says (IBTA encoding, 5 bits); a short wait grows with sq.rnr_run, to 1 ms. */
void mroce_rnr_wait(struct mroce_qp *qp, u8 code);

void mroce_timer_init(struct mroce_qp *qp);
/* What is posted before the connection is open counts as outstanding: a peer that never answers is given up too. */
void mroce_retry_before_open(struct mroce_qp *qp);
/* Both timers stopped for good (until mroce_timer_init).  No lock held; sq.live must be false. */
void mroce_timer_stop(struct mroce_qp *qp);

#endif
