// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Protection domains, what is built around them, and address handles. */
#include <errno.h>
#include <stdlib.h>

#include "metaroce.h"

struct ibv_pd *mroce_alloc_pd(struct ibv_context *context)
{
	struct ib_uverbs_alloc_pd_resp resp;
	struct ibv_alloc_pd cmd;
	struct mroce_pd *pd;
	int ret;

	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	ret = ibv_cmd_alloc_pd(context, &pd->pd, &cmd, sizeof(cmd), &resp,
			       sizeof(resp));
	if (ret) {
		free(pd);
		errno = ret;
		return NULL;
	}
	return &pd->pd;
}

int mroce_dealloc_pd(struct ibv_pd *ibpd)
{
	struct mroce_pd *pd = to_mroce_pd(ibpd);
	int ret;

	if (pd->contained) {
		atomic_fetch_sub(&pd->contained->parents, 1);
		free(pd);
		return 0;
	}
	if (atomic_load(&pd->parents))
		return EBUSY;

	ret = mroce_destroyed(ibv_cmd_dealloc_pd(ibpd));
	if (!ret)
		free(pd);
	return ret;
}

struct ibv_td *mroce_alloc_td(struct ibv_context *context,
			      struct ibv_td_init_attr *attr)
{
	struct ibv_td *td;

	if (attr->comp_mask) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (td)
		td->context = context;
	return td;
}

int mroce_dealloc_td(struct ibv_td *td)
{
	free(td);
	return 0;
}

/* To the kernel a parent domain is the domain inside. */
struct ibv_pd *mroce_alloc_parent_domain(struct ibv_context *context,
					 struct ibv_parent_domain_init_attr *attr)
{
	struct mroce_pd *inner, *pd;

	if (!attr->pd) {
		errno = EINVAL;
		return NULL;
	}
	/* The rings are the kernel's memory: allocators would not be asked. */
	if (attr->comp_mask) {
		errno = EOPNOTSUPP;
		return NULL;
	}

	inner = to_mroce_pd(attr->pd);
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	if (inner->contained)
		inner = inner->contained;
	pd->pd.context = context;
	pd->pd.handle = inner->pd.handle;
	pd->contained = inner;
	pd->single_threaded = attr->td != NULL;
	atomic_fetch_add(&inner->parents, 1);
	return &pd->pd;
}

struct ibv_xrcd *mroce_open_xrcd(struct ibv_context *context,
				 struct ibv_xrcd_init_attr *attr)
{
	struct ib_uverbs_open_xrcd_resp resp;
	struct ibv_open_xrcd cmd = { 0 };
	struct verbs_xrcd *xrcd;
	int ret;

	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd)
		return NULL;
	ret = ibv_cmd_open_xrcd(context, xrcd, sizeof(*xrcd), attr, &cmd,
				sizeof(cmd), &resp, sizeof(resp));
	if (ret) {
		free(xrcd);
		errno = ret;
		return NULL;
	}
	return &xrcd->xrcd;
}

int mroce_close_xrcd(struct ibv_xrcd *ibxrcd)
{
	struct verbs_xrcd *xrcd = container_of(ibxrcd, struct verbs_xrcd, xrcd);
	int ret;

	ret = mroce_destroyed(ibv_cmd_close_xrcd(xrcd));
	if (!ret)
		free(xrcd);
	return ret;
}

MROCE_MESSAGE(create_ah_resp, ib_uverbs_create_ah_resp, metaroce_create_ah_resp);

struct ibv_ah *mroce_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	union create_ah_resp resp = { .core = { 0 } };
	struct mroce_ah *ah;
	int ret;

	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return NULL;
	ret = ibv_cmd_create_ah(pd, &ah->ah, attr, &resp.ibv, sizeof(resp));
	if (ret) {
		free(ah);
		errno = ret;
		return NULL;
	}
	ah->index = resp.drv.ah;
	return &ah->ah;
}

int mroce_destroy_ah(struct ibv_ah *ah)
{
	int ret;

	ret = mroce_destroyed(ibv_cmd_destroy_ah(ah));
	if (!ret)
		free(to_mroce_ah(ah));
	return ret;
}
