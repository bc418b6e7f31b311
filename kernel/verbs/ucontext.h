/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A process that has the device open, and the objects that need nothing but to exist. */
#ifndef MROCE_VERBS_UCONTEXT_H
#define MROCE_VERBS_UCONTEXT_H

#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

struct mroce_ucontext {
	struct ib_ucontext ibuc;
};

struct mroce_pd {
	struct ib_pd ibpd;
};

/* The caller's context; NULL for kernel users. */
static inline struct ib_ucontext *mroce_udata_uctx(struct ib_udata *udata)
{
	struct mroce_ucontext *uctx =
		rdma_udata_to_drv_context(udata, struct mroce_ucontext, ibuc);

	return uctx ? &uctx->ibuc : NULL;
}

#endif
