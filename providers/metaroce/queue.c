// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Mapping the rings that the kernel made. */
#include <errno.h>
#include <sys/mman.h>

#include "metaroce.h"

/*
 * Map what a create command described.  A ring without entries is a ring that
 * this object does not have.  The checks are not about trust but about a
 * kernel and a provider that do not mean the same by this ABI.
 */
int mroce_queue_map(struct mroce_queue *q, int fd,
		    const struct metaroce_ring_info *info, uint32_t min_stride)
{
	void *map;

	*q = (struct mroce_queue){ 0 };
	if (!info->entries)
		return 0;
	if (info->entries & (info->entries - 1) ||
	    info->stride < min_stride || info->stride % 16 ||
	    info->mmap_size > SIZE_MAX ||
	    info->mmap_size < METAROCE_RING_HDR +
			      (uint64_t)info->entries * info->stride)
		return EPROTO;

	map = mmap(NULL, info->mmap_size, PROT_READ | PROT_WRITE, MAP_SHARED,
		   fd, (off_t)info->mmap_offset);
	if (map == MAP_FAILED)
		return errno;

	q->ring = map;
	q->slots = (uint8_t *)map + METAROCE_RING_HDR;
	q->entries = info->entries;
	q->stride = info->stride;
	q->mapped = info->mmap_size;
	mroce_queue_reload(q);
	return 0;
}

/* A producer's indexes, after the kernel has set both. */
void mroce_queue_reload(struct mroce_queue *q)
{
	if (!q->ring)
		return;
	q->next = mroce_load_acquire(&q->ring->prod);
	q->seen = mroce_load_acquire(&q->ring->cons);
}

void mroce_queue_unmap(struct mroce_queue *q)
{
	if (q->ring)
		munmap(q->ring, q->mapped);
	q->ring = NULL;
	q->slots = NULL;
	q->mapped = 0;
}
