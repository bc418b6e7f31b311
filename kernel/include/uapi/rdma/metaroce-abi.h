/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * User ABI of the metaroce driver: uverbs driver data and the mapped rings.
 *
 * Rules:
 *  - Fixed-size types only; every structure a multiple of 8 bytes, the same on
 *    32 and 64 bit; sizes and offsets are asserted at the end of this file.
 *  - No pointers and no bookkeeping of the kernel in shared memory.  What the
 *    kernel writes into a ring it never reads back; what user space writes is
 *    read once, copied, then checked.
 *  - Reserved fields are sent as 0 and refused otherwise; unknown trailing
 *    bytes must be 0.  comp_mask bits that the kernel does not know: EOPNOTSUPP.
 *  - A change that old binaries cannot stand raises METAROCE_ABI_VERSION.
 *
 * Rings: power-of-two entries behind a header of METAROCE_RING_HDR bytes.
 * Indices run freely modulo 2^32; the entry is index & (entries - 1); the ring
 * is full when prod - cons == entries.  Index stores are releases, loads of
 * the other side's index are acquires.  Moving a QP to RESET sets both indexes
 * of its rings to 0; a resized CQ starts where the old one's indexes were.
 */
#ifndef METAROCE_ABI_H
#define METAROCE_ABI_H

#include <linux/types.h>

#define METAROCE_ABI_VERSION	1

/* Not an existing and not "the next" number: ids are matched first by libibverbs. */
#define METAROCE_DRIVER_ID	0x4d524f43

#define METAROCE_RING_HDR	256

/* Header of SQ, RQ, SRQ (user produces) and CQ (kernel produces). */
struct metaroce_ring {
	__u32 prod;		/* written by the producer only */
	__u32 resv0[15];
	__u32 cons;		/* written by the consumer only */
	__u32 resv1[15];
	/* written by the kernel only: */
	__u32 watching;		/* SQ, RQ: 1 = the kernel will read prod again by itself, no doorbell needed; RQ: 0 only in ERR */
	__u32 gone;		/* 1 = the device is gone; poll returns EIO */
	__u32 error;		/* CQ: 1 = it overflowed, poll returns EOVERFLOW; QP: unused */
	__u32 resv2[29];
};

/* Entries and stride of a ring, and where to map it. */
struct metaroce_ring_info {
	__aligned_u64 mmap_offset;
	__aligned_u64 mmap_size;
	__u32 entries;		/* power of two */
	__u32 stride;		/* bytes per entry, a multiple of 16 */
};

struct metaroce_sge {
	__aligned_u64 addr;
	__u32 length;
	__u32 lkey;
};

enum metaroce_wr_opcode {
	METAROCE_WR_SEND = 0,
	METAROCE_WR_SEND_IMM = 1,
	METAROCE_WR_SEND_INV = 2,
	METAROCE_WR_WRITE = 3,
	METAROCE_WR_WRITE_IMM = 4,
	METAROCE_WR_READ = 5,
	METAROCE_WR_CMP_SWP = 6,
	METAROCE_WR_FETCH_ADD = 7,
	METAROCE_WR_LOCAL_INV = 8,
	METAROCE_WR_BIND_MW = 9,
	METAROCE_WR_ATOMIC_WRITE = 10,
	METAROCE_WR_END
};

#define METAROCE_WR_SIGNALED	0x01
#define METAROCE_WR_SOLICITED	0x02
#define METAROCE_WR_FENCE	0x04
#define METAROCE_WR_INLINE	0x08

/*
 * Send work request: 48 bytes, then num_sge scatter/gather elements, or
 * inline_len bytes if INLINE.  The stride of the SQ covers both maxima.
 */
struct metaroce_sqe {
	__aligned_u64 wr_id;
	__u8 opcode;
	__u8 flags;
	__u8 num_sge;
	__u8 resv;
	__u32 imm_inv;		/* immediate (big-endian as in ibv_send_wr) or rkey to invalidate */
	union {
		struct {
			__aligned_u64 addr;
			__u32 rkey;
			__u32 srqn;			/* XRC, any opcode: the remote SRQ; else 0 */
			__aligned_u64 swap_add;		/* CMP_SWP: swap, FETCH_ADD: add, ATOMIC_WRITE: the 8 bytes */
			__aligned_u64 compare;
		} remote;
		struct {
			__u32 ah;	/* index of the address handle */
			__u32 qpn;
			__u32 qkey;
			__u32 resv[5];
		} ud;
		struct {
			__aligned_u64 addr;
			__aligned_u64 length;
			__u32 mr_lkey;
			__u32 access;
			__u32 mw_rkey;
			__u32 new_rkey;
		} bind;
	};
	/* struct metaroce_sge[], or bytes */
};

/* inline_len stands here when METAROCE_WR_INLINE is set: first 4 bytes of the data part; num_sge is 0 then. */
#define METAROCE_SQE_HDR	48
#define METAROCE_INLINE_HDR	4

/* Receive work request: 16 bytes, then scatter elements. */
struct metaroce_rqe {
	__aligned_u64 wr_id;
	__u32 num_sge;
	__u32 resv;
	/* struct metaroce_sge[] */
};

#define METAROCE_RQE_HDR	16

#define METAROCE_WC_GRH		0x01
#define METAROCE_WC_IMM		0x02
#define METAROCE_WC_INV		0x04

/* Completion, written by the kernel.  status and opcode are those of ibv_wc. */
struct metaroce_cqe {
	__aligned_u64 wr_id;
	__aligned_u64 timestamp;	/* ns, CLOCK_MONOTONIC_RAW */
	__u32 status;
	__u32 opcode;
	__u32 byte_len;
	__u32 imm_inv;
	__u32 qp_num;
	__u32 src_qp;
	__u32 wc_flags;			/* METAROCE_WC_*: neither ibv_wc's nor ib_wc's are the other's */
	__u32 vendor_err;
	__u16 pkey_index;
	__u16 slid;
	__u8 sl;
	__u8 resv[11];
};

struct metaroce_alloc_ucontext_req {
	__u32 comp_mask;
	__u32 resv;
};

struct metaroce_alloc_ucontext_resp {
	__u32 comp_mask;
	__u32 max_inline;
	__u32 max_send_sge;
	__u32 max_recv_sge;
};

struct metaroce_create_cq_resp {
	struct metaroce_ring_info cq;
	__u32 cqn;
	__u32 resv;
};

struct metaroce_resize_cq_resp {
	struct metaroce_ring_info cq;
};

struct metaroce_create_qp_req {
	__u32 comp_mask;
	__u32 flags;		/* 0 */
};

struct metaroce_create_qp_resp {
	struct metaroce_ring_info sq;
	struct metaroce_ring_info rq;	/* entries 0 with an SRQ */
	__u32 max_inline;	/* what was granted */
	__u32 resv;
};

struct metaroce_create_srq_resp {
	struct metaroce_ring_info rq;
	__u32 srqn;
	__u32 resv;
};

struct metaroce_create_ah_resp {
	__u32 ah;
	__u32 resv;
};

#define METAROCE_ASSERT(e) _Static_assert(e, #e)
#ifndef __cplusplus
METAROCE_ASSERT(sizeof(struct metaroce_ring) == METAROCE_RING_HDR);
METAROCE_ASSERT(sizeof(struct metaroce_ring_info) == 24);
METAROCE_ASSERT(sizeof(struct metaroce_sge) == 16);
METAROCE_ASSERT(sizeof(struct metaroce_sqe) == METAROCE_SQE_HDR);
METAROCE_ASSERT(sizeof(struct metaroce_rqe) == METAROCE_RQE_HDR);
METAROCE_ASSERT(sizeof(struct metaroce_cqe) == 64);
METAROCE_ASSERT(sizeof(struct metaroce_create_cq_resp) == 32);
METAROCE_ASSERT(sizeof(struct metaroce_create_qp_resp) == 56);
METAROCE_ASSERT(sizeof(struct metaroce_create_srq_resp) == 32);
#endif
#undef METAROCE_ASSERT

#endif
