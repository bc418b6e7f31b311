/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Filling work queue entries; shared by classic and ibv_wr_* posting. */
#ifndef METAROCE_WQE_H
#define METAROCE_WQE_H

#include <errno.h>
#include <string.h>

#include "metaroce.h"

static inline bool mroce_may_post(const struct mroce_sq *sq, unsigned int op)
{
	return sq->ops & (1U << op);
}

/* States in which the send queue takes requests (in SQE and ERR to flush them). */
static inline bool mroce_may_send(enum ibv_qp_state state)
{
	return state != IBV_QPS_RESET && state != IBV_QPS_INIT &&
	       state != IBV_QPS_RTR;
}

static inline uint8_t mroce_sqe_flags(const struct mroce_sq *sq,
				      unsigned int send_flags)
{
	uint8_t flags = 0;

	if (send_flags & IBV_SEND_SIGNALED || sq->signal_all)
		flags |= METAROCE_WR_SIGNALED;
	if (send_flags & IBV_SEND_SOLICITED)
		flags |= METAROCE_WR_SOLICITED;
	if (send_flags & IBV_SEND_FENCE)
		flags |= METAROCE_WR_FENCE;
	return flags;
}

/* Everything that is not set afterwards is 0, also where the slot was used before. */
static inline void mroce_sqe_start(struct metaroce_sqe *sqe, uint64_t wr_id,
				   unsigned int op, uint8_t flags)
{
	memset(sqe, 0, METAROCE_SQE_HDR);
	sqe->wr_id = wr_id;
	sqe->opcode = (uint8_t)op;
	sqe->flags = flags;
}

static inline uint8_t *mroce_sqe_data(struct metaroce_sqe *sqe)
{
	return (uint8_t *)sqe + METAROCE_SQE_HDR;
}

/* Copy a gather list; its total must not exceed the largest message. */
static inline int mroce_put_sges(struct metaroce_sge *to,
				 const struct ibv_sge *from, size_t num)
{
	uint64_t total = 0;
	size_t i;

	for (i = 0; i < num; i++) {
		to[i].addr = from[i].addr;
		to[i].length = from[i].length;
		to[i].lkey = from[i].lkey;
		total += from[i].length;
	}
	return total > MROCE_MAX_MSG ? EINVAL : 0;
}

/* Bytes behind a length word; nothing is copied before the length is known to fit. */
static inline void mroce_put_inline_length(struct metaroce_sqe *sqe,
					   uint32_t length)
{
	memcpy(mroce_sqe_data(sqe), &length, METAROCE_INLINE_HDR);
	sqe->flags |= METAROCE_WR_INLINE;
	sqe->num_sge = 0;
}

static inline uint8_t *mroce_inline_bytes(struct metaroce_sqe *sqe)
{
	return mroce_sqe_data(sqe) + METAROCE_INLINE_HDR;
}

static inline void mroce_put_bind(struct metaroce_sqe *sqe,
				  const struct ibv_mw *mw, uint32_t new_rkey,
				  const struct ibv_mw_bind_info *info)
{
	sqe->bind.addr = info->addr;
	sqe->bind.length = info->length;
	sqe->bind.mr_lkey = info->mr ? info->mr->lkey : 0;
	sqe->bind.access = info->mw_access_flags;
	sqe->bind.mw_rkey = mw->rkey;
	sqe->bind.new_rkey = new_rkey;
}

#endif
