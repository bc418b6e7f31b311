// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Memory regions: registration, keys, look-up. */
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#include "../core/seq.h"
#include "device.h"
#include "mr.h"
#include "udata.h"

/* Access flags that mean something here; others are refused, or ignored if optional. */
#define MROCE_MR_ACCESS (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | \
			 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC | \
			 IB_ACCESS_MW_BIND | IB_ZERO_BASED | IB_ACCESS_HUGETLB)
#define MROCE_MR_OPTIONAL	IB_ACCESS_RELAXED_ORDERING

static struct mroce_mr *to_mmr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct mroce_mr, ibmr);
}

/* The region with @key, whatever its state, referenced; or NULL.  Any context. */
static struct mroce_mr *mroce_mr_find(struct mroce_dev *dev, u32 key)
{
	struct mroce_mr *mr;

	rcu_read_lock();
	mr = xa_load(&dev->mrs, key >> 8);
	if (mr && !refcount_inc_not_zero(&mr->refs))
		mr = NULL;
	rcu_read_unlock();
	if (mr && READ_ONCE(mr->key) != key) {
		mroce_mr_put(mr);
		mr = NULL;
	}
	return mr;
}

struct mroce_mr *mroce_mr_get(struct mroce_dev *dev, struct ib_pd *pd, u32 key,
			      u64 addr, u64 len, u32 access)
{
	struct mroce_mr *mr = mroce_mr_find(dev, key);

	if (!mr)
		return ERR_PTR(-EACCES);
	if (READ_ONCE(mr->valid) && READ_ONCE(mr->ibmr.pd) == pd &&
	    (READ_ONCE(mr->access) & access) == access &&
	    mroce_range_in(mr->iova, mr->length, addr, len))
		return mr;
	mroce_mr_put(mr);
	return ERR_PTR(-EACCES);
}

/* Any context. */
void mroce_mr_put(struct mroce_mr *mr)
{
	if (refcount_dec_and_test(&mr->refs))
		complete(&mr->gone);
}

/*
 * What reg_user_mr made keeps its translation until dereg: only what a work
 * request binds can be invalidated by one (part 2: memory windows, fast
 * registration).  Any context.
 */
int mroce_mr_invalidate(struct mroce_dev *dev, struct ib_pd *pd, u32 key)
{
	struct mroce_mr *mr = mroce_mr_find(dev, key);
	int err = -EINVAL;

	if (!mr)
		return -EINVAL;
	if (mr->can_invalidate && READ_ONCE(mr->valid) &&
	    READ_ONCE(mr->ibmr.pd) == pd) {
		WRITE_ONCE(mr->valid, false);
		err = 0;
	}
	mroce_mr_put(mr);
	return err;
}

static struct mroce_mr *mroce_mr_new(struct ib_pd *pd, u32 access)
{
	struct mroce_mr *mr = kzalloc(sizeof(*mr), GFP_KERNEL);

	if (!mr)
		return NULL;
	mr->dev = to_mdev(pd->device);
	mr->ibmr.device = pd->device;
	mr->ibmr.pd = pd;	/* as the core sets it later; the packet path needs it now */
	mr->access = access;
	mr->valid = true;
	refcount_set(&mr->refs, 1);
	init_completion(&mr->gone);
	return mr;
}

/* Gives @mr a key and makes it visible.  Last step of a registration.  0, -ENOMEM, -EBUSY. */
static int mroce_mr_publish(struct mroce_mr *mr)
{
	u32 index;
	int err;

	err = xa_alloc_cyclic(&mr->dev->mrs, &index, NULL, XA_LIMIT(1, 0xffffff),
			      &mr->dev->next_mr, GFP_KERNEL);
	if (err < 0)
		return err;
	mr->key = index << 8 | get_random_u8();
	mr->ibmr.lkey = mr->key;
	mr->ibmr.rkey = mr->key;
	/* The slot is reserved: storing needs no memory and cannot fail. */
	xa_store(&mr->dev->mrs, index, mr, GFP_KERNEL);
	return 0;
}

/* Reverse of mroce_mr_publish(): no packet refers to @mr any more when it returns.  Process context. */
static void mroce_mr_unpublish(struct mroce_mr *mr)
{
	WRITE_ONCE(mr->valid, false);
	xa_erase(&mr->dev->mrs, mr->key >> 8);
	mroce_mr_put(mr);
	wait_for_completion(&mr->gone);
}

/* @skew: difference between a region's addresses and those of its memory. */
static int mroce_check_access(int access, u64 skew)
{
	if (access & ~(MROCE_MR_ACCESS | IB_ACCESS_OPTIONAL))
		return -EOPNOTSUPP;
	if (access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC) &&
	    !(access & IB_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	/* A word that is aligned by its address must be aligned in memory. */
	if (access & IB_ACCESS_REMOTE_ATOMIC && skew % sizeof(u64))
		return -EINVAL;
	return 0;
}

/* A region of all kernel memory: addresses are kernel virtual addresses.  Kernel users only. */
struct ib_mr *mroce_get_dma_mr(struct ib_pd *pd, int access)
{
	struct mroce_mr *mr;
	int err;

	err = mroce_check_access(access, 0);
	if (err)
		return ERR_PTR(err);
	mr = mroce_mr_new(pd, access & (MROCE_MR_ACCESS | MROCE_MR_OPTIONAL));
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->dma = true;
	mr->length = U64_MAX;
	err = mroce_mr_publish(mr);
	if (err) {
		kfree(mr);
		return ERR_PTR(err);
	}
	return &mr->ibmr;
}

/* Pages of mr->umem, PAGE_SIZE each, also where the table has larger pieces. */
static int mroce_mr_fill_pages(struct mroce_mr *mr)
{
	struct sg_page_iter iter;
	size_t n = ib_umem_num_pages(mr->umem);
	size_t i = 0;

	mr->pages = kvmalloc_array(n, sizeof(*mr->pages), GFP_KERNEL);
	if (!mr->pages)
		return -ENOMEM;
	for_each_sgtable_page(&mr->umem->sgt_append.sgt, &iter, 0) {
		if (WARN_ON_ONCE(i == n))
			break;
		mr->pages[i++] = sg_page_iter_page(&iter);
		if (!(i & 0xffff))
			cond_resched();
	}
	if (WARN_ON_ONCE(i != n)) {
		kvfree(mr->pages);
		mr->pages = NULL;
		return -EINVAL;
	}
	mr->n_pages = n;
	return 0;
}

/*
 * Pins and registers.  Errors: those of pinning, unchanged (-ENOMEM beyond the
 * locked-memory limit, -EFAULT for a hole, ...), -EOPNOTSUPP for a mandatory
 * access flag that is not supported, -EINVAL.  Process context.
 */
struct ib_mr *mroce_reg_user_mr(struct ib_pd *pd, u64 start, u64 length,
				u64 iova, int access, struct ib_udata *udata)
{
	struct mroce_mr *mr;
	u64 end;
	int err;

	if (access & IB_ZERO_BASED)
		iova = 0;
	err = mroce_udata_none(udata) ?: mroce_check_access(access, iova - start);
	if (err)
		return ERR_PTR(err);
	if (!length || length > MROCE_MAX_MR_SIZE ||
	    check_add_overflow(iova, length, &end))
		return ERR_PTR(-EINVAL);

	mr = mroce_mr_new(pd, access & (MROCE_MR_ACCESS | MROCE_MR_OPTIONAL));
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->iova = iova;
	mr->length = length;
	mr->page_off = start & ~PAGE_MASK;

	mr->umem = ib_umem_get(pd->device, start, length, access);
	if (IS_ERR(mr->umem)) {
		err = PTR_ERR(mr->umem);
		goto err_free;
	}
	err = mroce_mr_fill_pages(mr);
	if (err)
		goto err_umem;
	err = mroce_mr_publish(mr);
	if (err)
		goto err_pages;
	return &mr->ibmr;

err_pages:
	kvfree(mr->pages);
err_umem:
	ib_umem_release(mr->umem);
err_free:
	kfree(mr);
	return ERR_PTR(err);
}

/*
 * PD and access rights change in place (NULL is returned: the same object, the
 * same key) as long as the pinned pages allow it; another translation makes a
 * new region with a new key, and the core deregisters the old one.  An error
 * leaves the region as it was.  Process context.
 */
struct ib_mr *mroce_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start,
				  u64 length, u64 iova, int access,
				  struct ib_pd *pd, struct ib_udata *udata)
{
	struct mroce_mr *mr = to_mmr(ibmr);
	int err;

	if (flags & ~IB_MR_REREG_SUPPORTED)
		return ERR_PTR(-EOPNOTSUPP);
	if (!mr->umem)
		return ERR_PTR(-EINVAL);
	if (!(flags & IB_MR_REREG_ACCESS))
		access = mr->access;
	if (!(flags & IB_MR_REREG_PD))
		pd = ibmr->pd;
	err = mroce_udata_none(udata);
	if (err)
		return ERR_PTR(err);

	if (flags & IB_MR_REREG_TRANS)
		return mroce_reg_user_mr(pd, start, length, iova, access, NULL);
	err = mroce_check_access(access, mr->iova - mr->page_off);
	if (err)
		return ERR_PTR(err);
	if (ib_access_writable(access) && !mr->umem->writable)
		return mroce_reg_user_mr(pd, mr->umem->address,
					 mr->umem->length, mr->iova,
					 access & ~IB_ZERO_BASED, NULL);

	access &= MROCE_MR_ACCESS | MROCE_MR_OPTIONAL;
	WRITE_ONCE(mr->access, access);
	WRITE_ONCE(ibmr->pd, pd);
	return NULL;
}

/* Returns when no packet refers to the region any more; cannot fail.  Process context. */
int mroce_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct mroce_mr *mr = to_mmr(ibmr);

	mroce_mr_unpublish(mr);
	kvfree(mr->pages);
	ib_umem_release(mr->umem);
	kfree_rcu(mr, rcu);
	return 0;
}
