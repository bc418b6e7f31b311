/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Creation and removal of devices: `rdma link`, netdev and namespace events. */
#ifndef MROCE_CTL_LINK_H
#define MROCE_CTL_LINK_H

#include <linux/netdevice.h>

struct ib_device;

/* Module life cycle; process context.  exit: when it returns no device of ours exists. */
int mroce_link_init(void);
void mroce_link_exit(void);

/* Can packets leave through it?  Any context. */
static inline bool mroce_port_up(const struct net_device *ndev)
{
	return netif_running(ndev) && netif_carrier_ok(ndev);
}

/* ib_device_ops: called by the core before the first client sees the device, and after the last object is gone. */
int mroce_enable_driver(struct ib_device *ibdev);
void mroce_dealloc_driver(struct ib_device *ibdev);

#endif
