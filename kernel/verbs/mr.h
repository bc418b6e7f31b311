/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory regions: keys, access checks, and the copy routines of the packet path. */
#ifndef MROCE_VERBS_MR_H
#define MROCE_VERBS_MR_H

#include <linux/refcount.h>
#include <linux/skbuff.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/metaroce-abi.h>

struct mroce_dev;

struct mroce_mr {
	struct ib_mr ibmr;
	struct mroce_dev *dev;
	struct ib_umem *umem;		/* user MRs */
	struct page **pages;		/* kvmalloc'ed, PAGE_SIZE each */
	u64 iova, length;
	u32 page_off;			/* of iova in pages[0] */
	u32 n_pages;
	u32 access;			/* IB_ACCESS_* */
	u32 key;			/* index << 8 | key byte; lkey == rkey */
	bool dma;			/* all memory of the kernel: address = kernel virtual address */
	bool valid;			/* cleared by invalidate and dereg */
	bool can_invalidate;		/* by a work request: nothing that reg_user_mr makes */
	refcount_t refs;
	struct completion gone;		/* last reference dropped */
	struct rcu_head rcu;
};

/*
 * The MR behind @key, referenced, if it is valid, belongs to @pd, allows
 * @access (all bits) and contains [@addr, @addr + @len); else ERR_PTR(-EACCES).
 * Overflow-safe (mroce_range_in).  Any context; RCU inside.
 */
struct mroce_mr *mroce_mr_get(struct mroce_dev *dev, struct ib_pd *pd, u32 key,
			      u64 addr, u64 len, u32 access);
void mroce_mr_put(struct mroce_mr *mr);

/* Kernel buffer <-> MR.  Range must have been checked by mroce_mr_get().  Any context. */
void mroce_mr_read(struct mroce_mr *mr, u64 addr, void *buf, u32 len);
void mroce_mr_write(struct mroce_mr *mr, u64 addr, const void *buf, u32 len);
/* Payload of a (maybe non-linear) skb -> MR; 0 or -EFAULT. */
int mroce_mr_write_skb(struct mroce_mr *mr, u64 addr, const struct sk_buff *skb,
		       u32 off, u32 len);
/* Atomic on a naturally aligned 64-bit word (caller checked addr % 8 == 0); returns the original value. */
u64 mroce_mr_cmp_swp(struct mroce_mr *mr, u64 addr, u64 compare, u64 swap);
u64 mroce_mr_fetch_add(struct mroce_mr *mr, u64 addr, u64 add);

/*
 * Scatter/gather lists.  Each element's key is looked up per call (a key may
 * vanish between packets).  @sge: already copied from the ring.
 * gather: bytes [@off, @off + @len) of the list into @buf (needs no access bit).
 * scatter: skb bytes into the list (IB_ACCESS_LOCAL_WRITE).  0 or -EACCES (key, bounds,
 * access, PD) or -EMSGSIZE (beyond the list).
 */
int mroce_sge_gather(struct mroce_dev *dev, struct ib_pd *pd,
		     const struct metaroce_sge *sge, u32 n, u64 off, void *buf,
		     u32 len);
int mroce_sge_scatter_skb(struct mroce_dev *dev, struct ib_pd *pd,
			  const struct metaroce_sge *sge, u32 n, u64 off,
			  const struct sk_buff *skb, u32 skb_off, u32 len);
int mroce_sge_scatter(struct mroce_dev *dev, struct ib_pd *pd,
		      const struct metaroce_sge *sge, u32 n, u64 off,
		      const void *buf, u32 len);

/* SEND with invalidate, LOCAL_INV: 0 or -EINVAL. */
int mroce_mr_invalidate(struct mroce_dev *dev, struct ib_pd *pd, u32 key);

/* ib_device_ops */
struct ib_mr *mroce_get_dma_mr(struct ib_pd *pd, int access);
struct ib_mr *mroce_reg_user_mr(struct ib_pd *pd, u64 start, u64 length,
				u64 iova, int access, struct ib_udata *udata);
struct ib_mr *mroce_rereg_user_mr(struct ib_mr *mr, int flags, u64 start,
				  u64 length, u64 iova, int access,
				  struct ib_pd *pd, struct ib_udata *udata);
int mroce_dereg_mr(struct ib_mr *mr, struct ib_udata *udata);

#endif
