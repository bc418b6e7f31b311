// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Polling, classic and extended; removal, overflow, resizing. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake_kernel.h"
#include "tap.h"

#define WC_FLAGS (IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | \
		  IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

static struct metaroce_cqe sample(uint64_t id)
{
	return (struct metaroce_cqe){
		.wr_id = id, .timestamp = 1000 + id, .status = IBV_WC_SUCCESS,
		.opcode = IBV_WC_RECV_RDMA_WITH_IMM, .byte_len = 2, .imm_inv = 3,
		.qp_num = 4, .src_qp = 5, .wc_flags = IBV_WC_WITH_IMM,
		.vendor_err = 6, .pkey_index = 7, .slid = 8, .sl = 9,
	};
}

static void complete(uint64_t from, uint64_t to)
{
	struct metaroce_cqe cqe;

	for (; from < to; from++) {
		cqe = sample(from);
		fake_complete(&fake.cq, &cqe);
	}
}

static void test_classic(void)
{
	struct ibv_cq *cq = fake.ops->create_cq(fake.context, 8, NULL, 0);
	struct ibv_wc wc[16];
	uint32_t start = fake.cq.hdr->cons;
	int i, n;

	ok(fake.ops->poll_cq(cq, 16, wc) == 0, "empty: 0");
	ok(fake.ops->poll_cq(cq, 0, wc) == 0, "0 asked for: 0");
	complete(0, 3);
	ok(fake.ops->poll_cq(cq, 2, wc) == 2 && wc[0].wr_id == 0 && wc[1].wr_id == 1,
	   "two of three");
	ok(fake.cq.hdr->cons == start + 2, "and the kernel hears of two");
	ok(fake.ops->poll_cq(cq, 2, wc) == 1 && wc[0].wr_id == 2, "the third");
	ok(wc[0].status == IBV_WC_SUCCESS && wc[0].opcode == IBV_WC_RECV_RDMA_WITH_IMM &&
	   wc[0].byte_len == 2 && wc[0].imm_data == 3 && wc[0].qp_num == 4 &&
	   wc[0].src_qp == 5 && wc[0].wc_flags == IBV_WC_WITH_IMM &&
	   wc[0].vendor_err == 6 && wc[0].pkey_index == 7 && wc[0].slid == 8 &&
	   wc[0].sl == 9 && wc[0].dlid_path_bits == 0, "every field");
	for (i = 0; i < 100; i++) {
		complete((uint64_t)i * 8, (uint64_t)i * 8 + 8);
		n = fake.ops->poll_cq(cq, 16, wc);
		if (n != 8 || wc[0].wr_id != (uint64_t)i * 8 ||
		    wc[7].wr_id != (uint64_t)i * 8 + 7)
			break;
	}
	ok(i == 100, "a full ring, a hundred times round");
	fake.ops->destroy_cq(cq);
}

static void test_errors(void)
{
	struct ibv_cq *cq = fake.ops->create_cq(fake.context, 8, NULL, 0);
	struct ibv_wc wc[4];

	complete(0, 2);
	fake.cq.hdr->gone = 1;
	ok(fake.ops->poll_cq(cq, 4, wc) == 2, "device gone: what completed is delivered");
	ok(fake.ops->poll_cq(cq, 4, wc) == -EIO, "then -EIO");
	ok(fake.ops->poll_cq(cq, 4, wc) == -EIO, "and again");
	fake.ops->destroy_cq(cq);

	cq = fake.ops->create_cq(fake.context, 8, NULL, 0);
	complete(0, 8);
	fake.cq.hdr->error = 1;
	ok(fake.ops->poll_cq(cq, 4, wc) == 4 && fake.ops->poll_cq(cq, 4, wc) == 4,
	   "overflow: what fitted is delivered");
	ok(fake.ops->poll_cq(cq, 4, wc) == -EOVERFLOW, "then -EOVERFLOW");
	fake.ops->destroy_cq(cq);
}

static void test_resize(void)
{
	struct ibv_cq *cq = fake.ops->create_cq(fake.context, 4, NULL, 0);
	struct ibv_wc wc[8];

	complete(0, 4);
	ok(fake.ops->poll_cq(cq, 1, wc) == 1, "one of four polled");
	ok(!fake.ops->resize_cq(cq, 32), "resized");
	complete(4, 7);
	ok(fake.ops->poll_cq(cq, 8, wc) == 6 && wc[0].wr_id == 1 && wc[5].wr_id == 6,
	   "the old three and three new ones, in order");
	ok(fake.ops->resize_cq(cq, 0) == EINVAL, "to nothing: EINVAL");
	fake.fail = ENOMEM;
	ok(fake.ops->resize_cq(cq, 64) == ENOMEM && fake.ops->poll_cq(cq, 1, wc) == 0,
	   "refused by the kernel: the queue lives on");
	fake.bad_offset = true;
	ok(fake.ops->resize_cq(cq, 64) == EINVAL, "new ring cannot be mapped");
	ok(fake.ops->poll_cq(cq, 1, wc) == -EIO, "polling says so");
	ok(!fake.ops->destroy_cq(cq), "destroyed");
}

static bool fields_right(struct ibv_cq_ex *cq, uint64_t id)
{
	return cq->wr_id == id && cq->status == IBV_WC_SUCCESS &&
	       cq->read_opcode(cq) == IBV_WC_RECV_RDMA_WITH_IMM &&
	       cq->read_byte_len(cq) == 2 && cq->read_imm_data(cq) == 3 &&
	       cq->read_qp_num(cq) == 4 && cq->read_src_qp(cq) == 5 &&
	       cq->read_wc_flags(cq) == IBV_WC_WITH_IMM &&
	       cq->read_vendor_err(cq) == 6 && cq->read_slid(cq) == 8 &&
	       cq->read_sl(cq) == 9 && cq->read_dlid_path_bits(cq) == 0 &&
	       cq->read_completion_ts(cq) == 1000 + id;
}

static void test_extended(bool single)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 8, .wc_flags = WC_FLAGS,
		.comp_mask = single ? IBV_CQ_INIT_ATTR_MASK_FLAGS : 0,
		.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED };
	struct ibv_cq_ex *cq = fake.ops->create_cq_ex(fake.context, &attr);
	struct ibv_poll_cq_attr poll = { 0 };
	struct metaroce_cqe cqe = sample(0);
	uint32_t start = fake.cq.hdr->cons;
	struct timespec ts;
	struct ibv_wc wc;
	int64_t off;

	ok(cq->start_poll(cq, &poll) == ENOENT, "empty: ENOENT, and no lock held");
	poll.comp_mask = 1;
	ok(cq->start_poll(cq, &poll) == EINVAL, "unknown comp_mask: EINVAL");
	poll.comp_mask = 0;
	complete(0, 3);
	ok(!cq->start_poll(cq, &poll) && fields_right(cq, 0), "first entry, every field");
	ok(!cq->next_poll(cq) && fields_right(cq, 1), "second entry");
	ok(fake.cq.hdr->cons == start, "nothing given back yet");
	cq->end_poll(cq);
	ok(fake.cq.hdr->cons == start + 2, "end gives both back");
	ok(!cq->start_poll(cq, &poll) && cq->wr_id == 2, "third entry");
	ok(cq->next_poll(cq) == ENOENT, "no more");
	complete(3, 4);
	cq->end_poll(cq);
	ok(fake.cq.hdr->cons == start + 3, "end after ENOENT consumes nothing more");
	ok(fake.ops->poll_cq((struct ibv_cq *)cq, 1, &wc) == 1 && wc.wr_id == 3,
	   "classic polling of the same queue");

	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	cqe.timestamp = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
	fake_complete(&fake.cq, &cqe);
	clock_gettime(CLOCK_REALTIME, &ts);
	cq->start_poll(cq, &poll);
	off = (int64_t)(cq->read_completion_wallclock_ns(cq) -
			((uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec));
	cq->end_poll(cq);
	ok(off > -1000000000 && off < 1000000000, "wall clock of a completion");
	fake.cq.hdr->gone = 1;
	ok(cq->start_poll(cq, &poll) == EIO && cq->start_poll(cq, &poll) == EIO,
	   "device gone: EIO");
	fake.ops->destroy_cq((struct ibv_cq *)cq);

	attr.wc_flags = 0;
	cq = fake.ops->create_cq_ex(fake.context, &attr);
	ok(!cq->read_byte_len && !cq->read_completion_ts && cq->read_opcode,
	   "readers that were not asked for are NULL");
	fake.ops->destroy_cq((struct ibv_cq *)cq);
}

int main(void)
{
	fake_open();
	for (int round = 0; round < 2; round++) {
		fake.start = round ? UINT32_MAX - 2 : 0;
		test_classic();
		test_errors();
		test_resize();
		test_extended(false);
		test_extended(true);
	}
	fake_close();
	return tap_done();
}
