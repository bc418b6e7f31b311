// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Extended polling: the program walks the completions in place.
 *
 * From a successful start_poll to end_poll the queue's lock is held and `cur`
 * is the entry on show; it is NULL once next_poll found no more.  An entry is
 * consumed by moving on from it, and the kernel hears of it in end_poll.
 */
#include <errno.h>
#include <time.h>

#include "metaroce.h"

#define SUPPORTED_WC_FLAGS					\
	((uint64_t)IBV_WC_STANDARD_FLAGS |			\
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |			\
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

static int show_next(struct mroce_cq *cq)
{
	int error;

	cq->cur = mroce_cq_next(cq, &error);
	if (!cq->cur)
		return error ? error : ENOENT;
	cq->vcq.cq_ex.wr_id = cq->cur->wr_id;
	cq->vcq.cq_ex.status = cq->cur->status;
	return 0;
}

static int start_poll(struct ibv_cq_ex *ibcq, struct ibv_poll_cq_attr *attr)
{
	struct mroce_cq *cq = to_mroce_cq_ex(ibcq);
	int ret;

	if (attr->comp_mask)
		return EINVAL;

	mroce_lock(&cq->lock);
	ret = show_next(cq);
	if (ret)
		mroce_unlock(&cq->lock);
	return ret;
}

static int next_poll(struct ibv_cq_ex *ibcq)
{
	struct mroce_cq *cq = to_mroce_cq_ex(ibcq);

	if (cq->cur)
		cq->q.next++;
	return show_next(cq);
}

static void end_poll(struct ibv_cq_ex *ibcq)
{
	struct mroce_cq *cq = to_mroce_cq_ex(ibcq);

	if (cq->cur)
		cq->q.next++;
	cq->cur = NULL;
	if (!cq->lost)
		mroce_release(&cq->q);
	mroce_unlock(&cq->lock);
}

#define READER(name, ret_type, expr)					\
	static ret_type name(struct ibv_cq_ex *ibcq)			\
	{								\
		const struct metaroce_cqe *cqe = to_mroce_cq_ex(ibcq)->cur; \
									\
		return expr;						\
	}
READER(read_opcode, enum ibv_wc_opcode, cqe->opcode)
READER(read_vendor_err, uint32_t, cqe->vendor_err)
READER(read_byte_len, uint32_t, cqe->byte_len)
READER(read_imm_data, __be32, (__be32)cqe->imm_inv)
READER(read_qp_num, uint32_t, cqe->qp_num)
READER(read_src_qp, uint32_t, cqe->src_qp)
READER(read_wc_flags, unsigned int, mroce_wc_flags(cqe))
READER(read_slid, uint32_t, cqe->slid)
READER(read_sl, uint8_t, cqe->sl)
READER(read_dlid_path_bits, uint8_t, ((void)cqe, 0))
READER(read_completion_ts, uint64_t, cqe->timestamp)
#undef READER

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* Wall clock = now, less the age of the completion. */
static uint64_t read_wallclock(struct ibv_cq_ex *ibcq)
{
	const struct metaroce_cqe *cqe = to_mroce_cq_ex(ibcq)->cur;
	uint64_t age = now_ns(CLOCK_MONOTONIC_RAW) - cqe->timestamp;

	return now_ns(CLOCK_REALTIME) - age;
}

bool mroce_cq_ex_supports(uint64_t wc_flags)
{
	return !(wc_flags & ~SUPPORTED_WC_FLAGS);
}

/* A reader that was not asked for stays NULL, as the man page has it. */
void mroce_cq_ex_init(struct ibv_cq_ex *cq, uint64_t wc_flags)
{
	cq->start_poll = start_poll;
	cq->next_poll = next_poll;
	cq->end_poll = end_poll;
	cq->read_opcode = read_opcode;
	cq->read_vendor_err = read_vendor_err;
	cq->read_wc_flags = read_wc_flags;

	if (wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
		cq->read_byte_len = read_byte_len;
	if (wc_flags & IBV_WC_EX_WITH_IMM)
		cq->read_imm_data = read_imm_data;
	if (wc_flags & IBV_WC_EX_WITH_QP_NUM)
		cq->read_qp_num = read_qp_num;
	if (wc_flags & IBV_WC_EX_WITH_SRC_QP)
		cq->read_src_qp = read_src_qp;
	if (wc_flags & IBV_WC_EX_WITH_SLID)
		cq->read_slid = read_slid;
	if (wc_flags & IBV_WC_EX_WITH_SL)
		cq->read_sl = read_sl;
	if (wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
		cq->read_dlid_path_bits = read_dlid_path_bits;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		cq->read_completion_ts = read_completion_ts;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		cq->read_completion_wallclock_ns = read_wallclock;
}
