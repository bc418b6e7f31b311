/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A ring of the user ABI: zeroed pages that user space may map. */
#ifndef MROCE_VERBS_RING_H
#define MROCE_VERBS_RING_H

#include <linux/types.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>
#include <rdma/metaroce-abi.h>

struct mroce_mmap_entry {
	struct rdma_user_mmap_entry rdma;
	void *addr;		/* vmalloc_user memory */
};

struct mroce_ring {
	struct metaroce_ring *hdr;	/* start of the memory; hostile: read once, mask */
	u8 *data;			/* hdr + METAROCE_RING_HDR */
	u32 mask;			/* entries - 1 */
	u32 stride;
	size_t size;			/* bytes, page aligned */
	struct mroce_mmap_entry *entry;	/* NULL for kernel users */
};

/*
 * Allocates a ring of at least @entries (rounded up to a power of two) of
 * @stride bytes; with @uctx also a mapping for user space.  0, -ENOMEM,
 * -EINVAL.  Process context.
 */
int mroce_ring_create(struct mroce_ring *ring, struct ib_ucontext *uctx,
		      u32 entries, u32 stride);
/* Idempotent; memory stays alive while user space has it mapped. */
void mroce_ring_destroy(struct mroce_ring *ring);
void mroce_ring_info(const struct mroce_ring *ring,
		     struct metaroce_ring_info *info);

static inline void *mroce_ring_at(const struct mroce_ring *ring, u32 index)
{
	return ring->data + (size_t)(index & ring->mask) * ring->stride;
}

/* Producer index of user space (acquire). */
static inline u32 mroce_ring_prod(const struct mroce_ring *ring)
{
	return smp_load_acquire(&ring->hdr->prod);
}

/* ib_device_ops: mmap, mmap_free. */
int mroce_mmap(struct ib_ucontext *uctx, struct vm_area_struct *vma);
void mroce_mmap_free(struct rdma_user_mmap_entry *entry);

#endif
