/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Completion queues. */
#ifndef MROCE_VERBS_CQ_H
#define MROCE_VERBS_CQ_H

#include <linux/interrupt.h>
#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>

#include "ring.h"

struct mroce_dev;

struct mroce_cq {
	struct ib_cq ibcq;
	struct mroce_dev *dev;
	u32 cqn;			/* for display */
	spinlock_t lock;		/* ring, arming */
	struct mroce_ring ring;
	u32 prod;			/* kernel's own; never read back from the ring */
	u8 armed;			/* 0, IB_CQ_SOLICITED or IB_CQ_NEXT_COMP */
	bool overflowed;		/* fatal event sent */
	bool user;
	bool timestamps;		/* asked for at creation */
	bool wake, fatal;		/* kernel users: calls that the tasklet owes; lock */
	struct tasklet_struct task;	/* kernel users' handlers run here: they may post and poll */
};

static inline struct mroce_cq *to_mcq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct mroce_cq, ibcq);
}

/*
 * Appends a completion.  @event_worthy: solicited, or an error (wakes a CQ
 * armed for solicited only).  On overflow: counter, CQ error event once,
 * ring->error = 1, completion dropped.  comp_handler is called outside the
 * lock; that of a kernel user from a tasklet, as it may post, and our caller
 * holds locks of the engine.  Any context.
 */
void mroce_cq_post(struct mroce_cq *cq, const struct metaroce_cqe *cqe,
		   bool event_worthy);

/* ib_device_ops; create_cq's prototype differs by kernel version: compat/ wraps mroce_cq_create(). */
int mroce_cq_create(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		    struct ib_udata *udata);
int mroce_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);
int mroce_poll_cq(struct ib_cq *ibcq, int n, struct ib_wc *wc);
int mroce_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);
int mroce_resize_cq(struct ib_cq *ibcq, int cqe, struct ib_udata *udata);

#endif
