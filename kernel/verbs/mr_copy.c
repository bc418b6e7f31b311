// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Memory regions: the copy routines of the packet path. */
#include <linux/atomic.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/skbuff.h>

#include "../core/seq.h"
#include "device.h"
#include "mr.h"

/* A piece of a region that is contiguous in the kernel's eyes. */
struct mroce_piece {
	void *p;
	u32 len;
	bool mapped;
};

/*
 * Maps the piece at @addr, at most @len bytes.  The region is referenced and
 * the range was checked against it.  Pieces nest like kmap_local_page().
 */
static struct mroce_piece mroce_piece_map(const struct mroce_mr *mr, u64 addr,
					  u32 len)
{
	u64 off = addr - mr->iova + mr->page_off;
	u32 in = off & ~PAGE_MASK;
	struct mroce_piece piece = { };

	if (mr->dma) {
		piece.p = (void *)(uintptr_t)addr;
		piece.len = len;
		return piece;
	}
	piece.p = kmap_local_page(mr->pages[off >> PAGE_SHIFT]) + in;
	piece.len = min_t(u32, len, PAGE_SIZE - in);
	piece.mapped = true;
	return piece;
}

static void mroce_piece_unmap(const struct mroce_piece *piece)
{
	if (piece->mapped)
		kunmap_local(piece->p);
}

void mroce_mr_read(struct mroce_mr *mr, u64 addr, void *buf, u32 len)
{
	while (len) {
		struct mroce_piece piece = mroce_piece_map(mr, addr, len);

		memcpy(buf, piece.p, piece.len);
		mroce_piece_unmap(&piece);
		buf += piece.len;
		addr += piece.len;
		len -= piece.len;
	}
}

void mroce_mr_write(struct mroce_mr *mr, u64 addr, const void *buf, u32 len)
{
	while (len) {
		struct mroce_piece piece = mroce_piece_map(mr, addr, len);

		memcpy(piece.p, buf, piece.len);
		mroce_piece_unmap(&piece);
		buf += piece.len;
		addr += piece.len;
		len -= piece.len;
	}
}

/* Any context.  -EFAULT: @skb is shorter than @off + @len; what it has may have been written. */
int mroce_mr_write_skb(struct mroce_mr *mr, u64 addr, const struct sk_buff *skb,
		       u32 off, u32 len)
{
	while (len) {
		struct mroce_piece piece = mroce_piece_map(mr, addr, len);
		int err = skb_copy_bits(skb, off, piece.p, piece.len);

		mroce_piece_unmap(&piece);
		if (err)
			return err;
		off += piece.len;
		addr += piece.len;
		len -= piece.len;
	}
	return 0;
}

/*
 * Atomic for other packets, for the CPUs of this host and (on 64 bit) for user
 * space.  A region's pages keep the alignment of its addresses, so an aligned
 * word lies in one page.
 */
u64 mroce_mr_cmp_swp(struct mroce_mr *mr, u64 addr, u64 compare, u64 swap)
{
	struct mroce_piece piece = mroce_piece_map(mr, addr, sizeof(u64));
	u64 old = 0;

	if (!WARN_ON_ONCE(piece.len < sizeof(u64)))
		old = atomic64_cmpxchg((atomic64_t *)piece.p, compare, swap);
	mroce_piece_unmap(&piece);
	return old;
}

u64 mroce_mr_fetch_add(struct mroce_mr *mr, u64 addr, u64 add)
{
	struct mroce_piece piece = mroce_piece_map(mr, addr, sizeof(u64));
	u64 old = 0;

	if (!WARN_ON_ONCE(piece.len < sizeof(u64)))
		old = atomic64_fetch_add(add, (atomic64_t *)piece.p);
	mroce_piece_unmap(&piece);
	return old;
}

/* What is done with one element's part. */
struct mroce_sge_op {
	int (*copy)(struct mroce_mr *mr, u64 addr, u32 len,
		    struct mroce_sge_op *op);
	u32 access;
	const struct sk_buff *skb;
	u32 skb_off;
	void *to;
	const void *from;
};

static int mroce_op_gather(struct mroce_mr *mr, u64 addr, u32 len,
			   struct mroce_sge_op *op)
{
	mroce_mr_read(mr, addr, op->to, len);
	op->to += len;
	return 0;
}

static int mroce_op_scatter(struct mroce_mr *mr, u64 addr, u32 len,
			    struct mroce_sge_op *op)
{
	mroce_mr_write(mr, addr, op->from, len);
	op->from += len;
	return 0;
}

static int mroce_op_scatter_skb(struct mroce_mr *mr, u64 addr, u32 len,
				struct mroce_sge_op *op)
{
	int err = mroce_mr_write_skb(mr, addr, op->skb, op->skb_off, len);

	op->skb_off += len;
	return err;
}

/* Bytes [@off, @off + @len) of the list, element by element; elements without bytes are not looked at. */
static int mroce_sge_walk(struct mroce_dev *dev, struct ib_pd *pd,
			  const struct metaroce_sge *sge, u32 n, u64 off,
			  u32 len, struct mroce_sge_op *op)
{
	struct mroce_mr *mr;
	u32 i, part;
	int err;

	for (i = 0; len && i < n; i++) {
		if (off >= sge[i].length) {
			off -= sge[i].length;
			continue;
		}
		part = min_t(u32, len, sge[i].length - off);
		/* the whole element must lie in the region, not just this part */
		mr = mroce_mr_get(dev, pd, sge[i].lkey, sge[i].addr,
				  sge[i].length, op->access);
		if (IS_ERR(mr))
			return PTR_ERR(mr);
		err = op->copy(mr, sge[i].addr + off, part, op);
		mroce_mr_put(mr);
		if (err)
			return err;
		len -= part;
		off = 0;
	}
	return len ? -EMSGSIZE : 0;
}

int mroce_sge_gather(struct mroce_dev *dev, struct ib_pd *pd,
		     const struct metaroce_sge *sge, u32 n, u64 off, void *buf,
		     u32 len)
{
	struct mroce_sge_op op = {
		.copy = mroce_op_gather,
		.to = buf,
	};

	return mroce_sge_walk(dev, pd, sge, n, off, len, &op);
}

int mroce_sge_scatter_skb(struct mroce_dev *dev, struct ib_pd *pd,
			  const struct metaroce_sge *sge, u32 n, u64 off,
			  const struct sk_buff *skb, u32 skb_off, u32 len)
{
	struct mroce_sge_op op = {
		.copy = mroce_op_scatter_skb,
		.access = IB_ACCESS_LOCAL_WRITE,
		.skb = skb,
		.skb_off = skb_off,
	};

	return mroce_sge_walk(dev, pd, sge, n, off, len, &op);
}

int mroce_sge_scatter(struct mroce_dev *dev, struct ib_pd *pd,
		      const struct metaroce_sge *sge, u32 n, u64 off,
		      const void *buf, u32 len)
{
	struct mroce_sge_op op = {
		.copy = mroce_op_scatter,
		.access = IB_ACCESS_LOCAL_WRITE,
		.from = buf,
	};

	return mroce_sge_walk(dev, pd, sge, n, off, len, &op);
}
