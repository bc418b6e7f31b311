/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Driver data of uverbs commands, by the rules at the head of metaroce-abi.h. */
#ifndef MROCE_VERBS_UDATA_H
#define MROCE_VERBS_UDATA_H

#include <linux/minmax.h>
#include <linux/string.h>
#include <rdma/ib_verbs.h>

/*
 * Copies a request of @size bytes; a shorter one is extended by zeros, what is
 * longer must be zero.  0, -EFAULT, -EOPNOTSUPP.  Process context.
 */
static inline int mroce_udata_in(struct ib_udata *udata, void *req, size_t size)
{
	memset(req, 0, size);
	if (udata->inlen > size &&
	    !ib_is_udata_cleared(udata, size, udata->inlen - size))
		return -EOPNOTSUPP;
	return ib_copy_from_udata(req, udata, min(size, udata->inlen));
}

/* The command knows no driver data: whatever comes must be zero.  0 or -EOPNOTSUPP. */
static inline int mroce_udata_none(struct ib_udata *udata)
{
	if (udata && udata->inlen &&
	    !ib_is_udata_cleared(udata, 0, udata->inlen))
		return -EOPNOTSUPP;
	return 0;
}

/* A response that user space cannot do without.  0, -EINVAL (no room for it), -EFAULT. */
static inline int mroce_udata_out(struct ib_udata *udata, void *resp,
				  size_t size)
{
	if (udata->outlen < size)
		return -EINVAL;
	return ib_copy_to_udata(udata, resp, size);
}

#endif
