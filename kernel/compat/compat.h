/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Differences between kernel versions, 6.1 and later: the only place with
 * version checks.  What 6.1 calls by another name gets the newer name here.
 */
#ifndef MROCE_COMPAT_COMPAT_H
#define MROCE_COMPAT_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/netdevice.h>
#include <linux/version.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif

/* create_cq: the last argument became an attribute bundle. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
#define MROCE_CREATE_CQ_LAST	struct uverbs_attr_bundle *attrs
/* A bundle without a user context is that of a kernel user. */
#define MROCE_CREATE_CQ_UDATA	(attrs ? &attrs->driver_udata : NULL)
#else
#define MROCE_CREATE_CQ_LAST	struct ib_udata *udata
#define MROCE_CREATE_CQ_UDATA	udata
#endif

/* The user gave the device its name: udev must not rename it. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
static inline void ib_mark_name_assigned_by_user(struct ib_device *ibdev)
{
}
#endif

/* hrtimer_init() and the assignment of the function, in one. */
static inline void
mroce_hrtimer_setup(struct hrtimer *timer,
		    enum hrtimer_restart (*function)(struct hrtimer *),
		    clockid_t clock, enum hrtimer_mode mode)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(timer, function, clock, mode);
#else
	hrtimer_init(timer, clock, mode);
	timer->function = function;
#endif
}

#endif
