/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What verbs/ and ctl/ ask of the engine. */
#ifndef MROCE_ENGINE_ENGINE_H
#define MROCE_ENGINE_ENGINE_H

#include <rdma/ib_verbs.h>

struct mroce_dev;
struct mroce_qp;

/*
 * QP life cycle; process context, qp->mutex held, in this order:
 *  init      locks, lists, timers, work: cannot fail; right after allocation.
 *  alloc     send requests, message records, receive slots (sizes from qp->cap
 *            and qp->sq, qp->rq); 0 or -ENOMEM; undone by free (idempotent).
 *  to_rtr    attributes are in qp->attr: takes or opens the connection; may
 *            sleep; 0, -ENETUNREACH, -EINVAL, -ENOMEM.  Does not wait for the peer.
 *  to_rts    send streams start (qp->attr.sq_psn).
 *  to_error  state is ERR: both queues flush, now and for later posts.
 *  to_reset  leaves the connection, forgets everything; the QP can be used
 *            again or destroyed: when it returns nothing of the engine
 *            (timer, list, packet in flight) refers to it any more.
 */
void mroce_engine_qp_init(struct mroce_qp *qp);
int mroce_engine_qp_alloc(struct mroce_qp *qp);
void mroce_engine_qp_free(struct mroce_qp *qp);
int mroce_engine_qp_to_rtr(struct mroce_qp *qp);
void mroce_engine_qp_to_rts(struct mroce_qp *qp);
void mroce_engine_qp_to_error(struct mroce_qp *qp);
void mroce_engine_qp_to_reset(struct mroce_qp *qp);

/* Sets qp->state under rx_lock and sq_lock. */
void mroce_engine_set_state(struct mroce_qp *qp, enum ib_qp_state state);

/* There is something in the SQ ring (or the QP is in ERR and must flush). Any context, any irq state. */
void mroce_engine_doorbell(struct mroce_qp *qp);
/* The same for the RQ: only needed in ERR, to flush.  Any context. */
void mroce_engine_recv_posted(struct mroce_qp *qp);

/* Device life cycle: connections of a device.  Process context. */
int mroce_engine_dev_init(struct mroce_dev *dev);	/* wq, conn list */
void mroce_engine_dev_stop(struct mroce_dev *dev);	/* BYE, all QPs to ERR, no packet is taken any more */
void mroce_engine_dev_exit(struct mroce_dev *dev);	/* after the last QP is gone */

/* Module life cycle: per-CPU deferred transmit. */
int mroce_engine_init(void);
void mroce_engine_exit(void);

#endif
