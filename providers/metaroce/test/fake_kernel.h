/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The other side of the provider: libibverbs' private functions, answered by
 * a kernel that only makes rings (in a memfd, so that mmap works) and notes
 * what it was told.
 */
#ifndef FAKE_KERNEL_H
#define FAKE_KERNEL_H

#include "../metaroce.h"

struct fake_ring {
	struct metaroce_ring *hdr;
	uint8_t *slots;
	struct metaroce_ring_info info;
	uint32_t own;		/* the kernel's index */
};

struct fake {
	const struct verbs_device_ops *driver;
	const struct verbs_context_ops *ops;
	struct ibv_context *context;

	/* the next answers: */
	int fail;		/* errno of the next command */
	int fail_doorbells;	/* that many doorbells return doorbell_errno */
	int doorbell_errno;
	bool bad_offset;	/* the next ring cannot be mapped */
	uint32_t start;		/* first index of new rings */
	unsigned int qp_ex_shift;	/* where ibv_qp_to_qp_ex looks, from its place here */
	uint32_t grant_inline;

	/* what was made last */
	struct fake_ring cq, sq, rq, srq;
	struct ibv_cq_init_attr_ex cq_attr;

	/* counters */
	int doorbells, destroyed, created, arms;
	void (*doorbell)(void);	/* called for each, if set */
};

extern struct fake fake;

/* Register, open a device; returns its context. */
struct ibv_context *fake_open(void);
void fake_close(void);

static inline void *fake_slot(struct fake_ring *r, uint32_t index)
{
	return r->slots + (size_t)(index & (r->info.entries - 1)) * r->info.stride;
}

/* Append a completion. */
void fake_complete(struct fake_ring *cq, const struct metaroce_cqe *cqe);

#endif
