/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Queue pairs.  The verbs side (qp.c) owns creation, attributes and states;
 * the engine owns what moves.  struct mroce_qp is separate from struct ib_qp
 * because it is freed by RCU while ib_core frees ib_qp at once.
 */
#ifndef MROCE_VERBS_QP_H
#define MROCE_VERBS_QP_H

#include <linux/completion.h>
#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/timer.h>
#include <rdma/ib_verbs.h>

#include "../core/stream_rx.h"
#include "../core/stream_tx.h"
#include "cq.h"
#include "ring.h"

#define MROCE_MIN_QPN		17	/* 0 and 1 have a meaning of their own */

struct mroce_conn;
struct mroce_dev;
struct mroce_srq;

/* Immutable copy of a send work request (DESIGN: every packet is computed from it and an offset). */
struct mroce_sreq {
	u64 wr_id;
	u64 raddr;
	u64 compare, swap_add;
	u32 rkey;
	u32 imm_inv;
	u32 length;		/* of the message */
	u32 msn;
	u32 rsn;		/* if it consumes a receive at the peer */
	u32 first_spsn;
	u32 npkts;		/* request packets; 0: nothing goes on the wire (local operation, failed) */
	u32 sent;		/* packets sent for the first time */
	u32 rsp_spsn;		/* READ, atomic: SPSN of its first response packet */
	u32 rsp_npkts, rsp_got;	/* response packets, received so far */
	u8 opcode;		/* enum metaroce_wr_opcode */
	u8 flags;		/* METAROCE_WR_* */
	u8 num_sge;
	u8 status;		/* enum ib_wc_status once failed locally */
	struct metaroce_sge sge[];	/* or inline bytes */
};

/* A READ or atomic accepted for answering. */
struct mroce_rreq {
	u64 va;
	u64 result;		/* atomic: original value */
	u32 rkey;
	u32 length;
	u32 msn;
	u32 first_spsn;		/* response class */
	u32 npkts, sent;
	u8 op;			/* enum mroce_op of the request */
};

/* A receive bound to an RSN: copied once from the ring. */
struct mroce_recv {
	u64 wr_id;
	u64 total;		/* bytes of all elements */
	u32 num_sge;
	u32 bound;
	struct metaroce_sge sge[];
};

struct mroce_sq {
	struct mroce_ring ring;
	spinlock_t post_lock;	/* kernel users' producer side */
	u32 post_prod;		/* kernel users: next index */
	u32 max_sge, max_inline;
	bool sig_all;
	bool watching;		/* what the ring's word says */

	void *sreqs;		/* (sreq_mask + 1) * sreq_stride, allocated at creation */
	u32 sreq_mask, sreq_stride;
	/* A send request has the index of its WQE. */
	u32 head;		/* oldest not completed: the ring's cons */
	u32 send;		/* first with unsent packets */
	u32 tail;		/* next WQE to copy */

	struct mroce_stream_tx req;
	u32 msn, rsn, spsn;	/* of the next message */
	u32 rsp_spsn;		/* of the next READ or atomic's first response */
	u32 rtx_cur, rtx_end;	/* request SPSNs that a stream block wants again */
	u32 msn_done;		/* from the peer */
	u32 rd_out;		/* READs and atomics outstanding */

	struct hrtimer rnr_timer;
	struct timer_list retry_timer;	/* no-progress timer (3.2 rule 9) */
	u64 last_progress;	/* ns */
	u64 last_check;		/* when retry_timer last ran or was started; ns */
	u64 rnr_sent;		/* ns: the message was tried again; 0: not yet */
	u32 rnr_tries;
	u32 rnr_msn;
	u8 rnr_run;		/* RNRs in a row for it: the wait grows */
	bool rnr_probe;		/* only message rnr_msn goes again, until it is through */
	bool rnr_wait;		/* nothing is sent until rnr_timer fires */
	bool not_ready;		/* because the peer's QP is not there, which is no progress */
	bool asked;		/* solicited, and no progress since */
	bool stopped;		/* a request failed: nothing new is sent */
	u8 fail_status;		/* enum ib_wc_status of the oldest request when the peer is given up; else 0 */
	bool live;		/* RTR or later: timers may be armed */
	bool sqd_event;		/* SQ_DRAINED is owed */

	/* we answer */
	struct mroce_stream_tx rsp;
	struct mroce_rreq *rreqs;
	u32 rreq_mask, rreq_head, rreq_send, rreq_tail;
	u32 rreq_spsn;		/* first response SPSN of the next READ or atomic accepted */
	u32 rsp_rtx_cur, rsp_rtx_end;
	bool rsp_failed;	/* the key of an answered READ went away */
	u32 rsp_failed_msn;
};

struct mroce_rq {
	struct mroce_ring ring;
	spinlock_t post_lock;
	u32 post_prod;
	u32 max_sge;
	u32 completed;		/* receives completed: the ring's cons */

	struct mroce_stream_rx req, rsp;
	struct mroce_msg_rec *recs;	/* MROCE_MSN_WINDOW */
	struct sk_buff **held;		/* by MSN slot, or NULL */
	u32 n_held;
	u8 *recvs;		/* struct mroce_recv by RSN slot, MROCE_MSN_WINDOW */
	u32 recv_stride;
	bool nak_pending;	/* fatal for nak_msn, to be acted on when it is its turn */
	u8 nak_code;		/* enum mroce_nak */
	u32 nak_msn;
	bool nak_sent;		/* QP is in ERR by it: the error block repeats */
	u8 nak_status;		/* enum ib_wc_status of the receive that failed with it, or 0 */
	u32 nak_rsn;
	u8 block_due;		/* bit per MROCE_CLASS: stream block for the next ACK */
	u8 rnr_code;		/* RNR block due with this timer code, else 0xff */
	u32 rnr_msn;
	u32 rsn_seen;		/* first RSN never bound */
};

struct mroce_qp {
	struct ib_qp *ibqp;	/* valid until destroy returns */
	struct mroce_dev *dev;
	struct ib_pd *pd;
	struct mroce_cq *scq, *rcq;
	struct mroce_srq *srq;
	u32 qpn;
	enum ib_qp_type type;
	enum ib_qp_state state;
	bool user;
	bool comm_est;		/* event sent */

	struct mutex mutex;
	struct ib_qp_attr attr;	/* as set by modify; what packets need is read under a lock */
	int attr_mask;		/* attributes ever set since RESET */
	struct ib_qp_cap cap;

	spinlock_t rx_lock;
	spinlock_t sq_lock;
	struct mroce_sq sq;
	struct mroce_rq rq;

	struct mroce_conn __rcu *conn;	/* from RTR until RESET or destroy; reference held */
	struct list_head conn_entry;	/* conn->qps, under conn->tx_lock */
	struct list_head ready_entry;	/* conn->ready, under conn->tx_lock */
	struct list_head block_entry;	/* conn->block_list, under conn->tx_lock: stream block due */

	struct list_head db_entry;	/* deferred doorbell, with a reference */
	unsigned long db_flags;
	struct work_struct error_work;	/* engine: goes to ERR and flushes */
	struct work_struct event_work;	/* async events from softirq */
	unsigned long events;		/* bit IB_EVENT_* pending */

	refcount_t refs;
	struct completion gone;
	struct rcu_head rcu;
};

struct mroce_ibqp {
	struct ib_qp ibqp;
	struct mroce_qp *qp;
};

static inline struct mroce_qp *to_mqp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct mroce_ibqp, ibqp)->qp;
}

static inline struct mroce_sreq *mroce_sreq_at(struct mroce_sq *sq, u32 i)
{
	return sq->sreqs + (size_t)(i & sq->sreq_mask) * sq->sreq_stride;
}

static inline struct mroce_recv *mroce_recv_at(struct mroce_rq *rq, u32 rsn)
{
	return (void *)(rq->recvs +
			(size_t)(rsn & (MROCE_MSN_WINDOW - 1)) * rq->recv_stride);
}

/* QP by number, referenced, or NULL.  Any context (RCU inside). */
struct mroce_qp *mroce_qp_get(struct mroce_dev *dev, u32 qpn);
void mroce_qp_put(struct mroce_qp *qp);
/* Queues an asynchronous event (delivered from dev->wq).  Any context. */
void mroce_qp_event(struct mroce_qp *qp, enum ib_event_type event);

/* ib_device_ops */
int mroce_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init,
		    struct ib_udata *udata);
int mroce_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		    struct ib_udata *udata);
int mroce_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_qp_init_attr *init);
int mroce_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);
int mroce_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		    const struct ib_send_wr **bad);
int mroce_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		    const struct ib_recv_wr **bad);

#endif
