/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One side of a ring shared with the kernel, see metaroce-abi.h.
 *
 * The side that user space owns (producer of work queues, consumer of
 * completion queues) keeps its index here, in memory that nobody shares, and
 * only stores it to the ring.  The kernel's index is loaded from the ring.
 * All functions expect the queue's lock to be held.
 */
#ifndef METAROCE_RING_H
#define METAROCE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <rdma/metaroce-abi.h>

struct mroce_queue {
	struct metaroce_ring *ring;	/* NULL: there is no such ring */
	uint8_t *slots;
	uint32_t entries;
	uint32_t stride;
	uint32_t next;		/* our index; runs ahead of the ring's until published */
	uint32_t seen;		/* the kernel's index when last looked at */
	size_t mapped;
};

/*
 * The ABI header cannot use _Atomic, it is the kernel's as well.  _Atomic
 * uint32_t has the size and alignment of __u32 wherever Linux runs.
 */
static inline uint32_t mroce_load_acquire(const __u32 *word)
{
	return atomic_load_explicit((const _Atomic uint32_t *)word,
				    memory_order_acquire);
}

static inline uint32_t mroce_load_relaxed(const __u32 *word)
{
	return atomic_load_explicit((const _Atomic uint32_t *)word,
				    memory_order_relaxed);
}

static inline void mroce_store_release(__u32 *word, uint32_t value)
{
	atomic_store_explicit((_Atomic uint32_t *)word, value,
			      memory_order_release);
}

static inline void *mroce_slot(const struct mroce_queue *q, uint32_t index)
{
	return q->slots + (size_t)(index & (q->entries - 1)) * q->stride;
}

/* Work queues: user space produces. */

/* The free slot at our index, or NULL when the ring is full. */
static inline void *mroce_produce(struct mroce_queue *q)
{
	if (q->next - q->seen >= q->entries) {
		q->seen = mroce_load_acquire(&q->ring->cons);
		if (q->next - q->seen >= q->entries)
			return NULL;
	}
	return mroce_slot(q, q->next);
}

static inline void mroce_publish(struct mroce_queue *q)
{
	mroce_store_release(&q->ring->prod, q->next);
}

/*
 * Has the kernel to be told about what was just published?  It stores 0 to
 * `watching` before it looks at the producer index for the last time; the
 * fence here is the counterpart of its own: one of the two sees the other.
 */
static inline bool mroce_needs_doorbell(const struct mroce_queue *q)
{
	atomic_thread_fence(memory_order_seq_cst);
	return !mroce_load_relaxed(&q->ring->watching);
}

/* Completion queues: the kernel produces. */

/* The entry at our index, or NULL when there is none. */
static inline const void *mroce_consume(struct mroce_queue *q)
{
	if (q->next == q->seen) {
		q->seen = mroce_load_acquire(&q->ring->prod);
		if (q->next == q->seen)
			return NULL;
	}
	return mroce_slot(q, q->next);
}

static inline void mroce_release(struct mroce_queue *q)
{
	mroce_store_release(&q->ring->cons, q->next);
}

#endif
