// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Rings of the user ABI: memory and mapping. */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "ring.h"

#define MROCE_MAX_ENTRIES	(1u << 24)

static struct mroce_mmap_entry *to_mmap_entry(struct rdma_user_mmap_entry *e)
{
	return container_of(e, struct mroce_mmap_entry, rdma);
}

int mroce_ring_create(struct mroce_ring *ring, struct ib_ucontext *uctx,
		      u32 entries, u32 stride)
{
	size_t size;
	int err;

	if (entries > MROCE_MAX_ENTRIES || !stride || stride % 16)
		return -EINVAL;
	entries = roundup_pow_of_two(max(entries, 1u));
	size = size_add(size_mul(entries, stride), METAROCE_RING_HDR);
	if (size > INT_MAX)
		return -EINVAL;
	size = PAGE_ALIGN(size);

	ring->hdr = vmalloc_user(size);
	if (!ring->hdr)
		return -ENOMEM;
	ring->data = (u8 *)ring->hdr + METAROCE_RING_HDR;
	ring->mask = entries - 1;
	ring->stride = stride;
	ring->size = size;
	ring->entry = NULL;
	if (!uctx)
		return 0;

	ring->entry = kzalloc(sizeof(*ring->entry), GFP_KERNEL);
	if (!ring->entry) {
		err = -ENOMEM;
		goto err_free;
	}
	ring->entry->addr = ring->hdr;
	err = rdma_user_mmap_entry_insert(uctx, &ring->entry->rdma, size);
	if (err)
		goto err_entry;
	return 0;

err_entry:
	kfree(ring->entry);
	ring->entry = NULL;
err_free:
	vfree(ring->hdr);
	ring->hdr = NULL;
	return err;
}

/*
 * Process context.  Programs that still have the pages mapped (a destroyed
 * queue, a removed device) keep them, each page holds its own reference, and
 * read in them that the queue is gone.
 */
void mroce_ring_destroy(struct mroce_ring *ring)
{
	if (!ring->hdr)
		return;
	WRITE_ONCE(ring->hdr->gone, 1);
	WRITE_ONCE(ring->hdr->watching, 0);	/* whoever posts must ring, and gets EIO */
	if (ring->entry)
		rdma_user_mmap_entry_remove(&ring->entry->rdma);	/* -> mroce_mmap_free() */
	else
		vfree(ring->hdr);
	ring->entry = NULL;
	ring->hdr = NULL;
	ring->data = NULL;
}

void mroce_ring_info(const struct mroce_ring *ring,
		     struct metaroce_ring_info *info)
{
	memset(info, 0, sizeof(*info));
	if (!ring->hdr)
		return;
	if (ring->entry)
		info->mmap_offset = rdma_user_mmap_get_offset(&ring->entry->rdma);
	info->mmap_size = ring->size;
	info->entries = ring->mask + 1;
	info->stride = ring->stride;
}

/*
 * Maps a whole ring, shared.  No vm_ops of ours: open files do not pin this
 * module, and the pages outlive the ring.  -EINVAL: no such offset, other
 * size, not shared.  Process context, mmap lock held for writing.
 */
int mroce_mmap(struct ib_ucontext *uctx, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *entry;
	int err;

	entry = rdma_user_mmap_entry_get(uctx, vma);
	if (!entry)
		return -EINVAL;
	err = remap_vmalloc_range(vma, to_mmap_entry(entry)->addr, 0);
	rdma_user_mmap_entry_put(entry);
	return err;
}

/* The last reference to the entry is gone (ring destroyed, no mmap() under way).  Process context. */
void mroce_mmap_free(struct rdma_user_mmap_entry *rdma)
{
	struct mroce_mmap_entry *entry = to_mmap_entry(rdma);

	vfree(entry->addr);
	kfree(entry);
}
