/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The RDMA device.  Everything of this driver hangs off one of these (R10).
 *
 * LOCKING (R7).  Every lock, what it protects, who takes it:
 *
 *  link_mutex   (ctl/link.c)    device creation and removal.  Process.
 *  dev->conn_mutex              dev->conns, connection look-up, creation, closing.  Process.
 *  qp->mutex                    serialises modify, query, destroy of a QP.  Process.
 *  qp->rx_lock                  receive half of a QP: both receive streams, bound
 *                               receives, held packets, RQ ring.  Softirq; process with BH off.
 *  conn->rx_lock                receive half of a connection: conn->rx.  As above.
 *  conn->tx_lock                sending half: conn->tx, ready list, timer, the order of
 *                               transmissions on a path (a path is FIFO: the packet goes to
 *                               the IP layer under it).  As above.
 *  qp->sq_lock                  send half of a QP: send requests, both sending streams,
 *                               SQ ring (consumer side), response queue, state of the timers.
 *  sock->lock   (net/sock.c)    table of devices and connections of a UDP socket (writers; readers: RCU).
 *  conn->ack_lock               the route of acknowledgements and control packets.  Softirq; process
 *                               with BH off.
 *  deferred->lock (engine/xmit.c)  a CPU's list of runs and doorbells put off.  Any context (irqsave).
 *  mroce_net.mutex (net/sock.c) sockets of a namespace and their users.  Process.
 *  sq->post_lock, rq->post_lock producer side of a ring of a kernel QP.  Any context (irqsave).
 *  cq->lock                     CQ ring and arming.  Any context (irqsave).
 *
 * Order, outer first:
 *  qp->mutex > conn_mutex > qp->rx_lock > conn->rx_lock > conn->tx_lock > qp->sq_lock > cq->lock
 *  conn->ack_lock and deferred->lock are innermost; mroce_net.mutex stands between link_mutex and sock->lock.
 *  Under conn->tx_lock the two rx_locks are tried, never waited for (mroce_ack_piggy).
 *  post locks are never held while another lock of this list is taken.
 * conn->rx_lock is never held while qp->rx_lock is taken.
 *
 * qp->state changes under rx_lock and sq_lock together; either suffices to read it.
 * Object look-up on the packet path is RCU plus refcount_inc_not_zero; objects
 * are freed by kfree_rcu after their destroy verb has waited for the last reference.
 */
#ifndef MROCE_VERBS_DEVICE_H
#define MROCE_VERBS_DEVICE_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/types.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>

#include "../core/wire.h"
#include "../ctl/counters.h"

struct mroce_sock;

#define MROCE_MAX_QP		65536
#define MROCE_MAX_QP_WR		16384
#define MROCE_MAX_SGE		32
#define MROCE_MAX_INLINE	1024
#define MROCE_MAX_CQ		65536
#define MROCE_MAX_CQE		(1 << 22)
#define MROCE_MAX_MR		(1 << 20)
#define MROCE_MAX_MR_SIZE	(1ULL << 38)
#define MROCE_MAX_PD		65536
#define MROCE_MAX_RD_ATOMIC	128

/* Settings of a device; read with READ_ONCE, may change while it runs. */
struct mroce_settings {
	u32 paths;		/* per connection, default 4 */
	u32 run_budget;		/* packets per transmit run before it yields, default 64 */
	u32 hold_bytes;		/* budget of held packets, default 4 MiB */
	u16 udp_port;
};

struct mroce_dev {
	struct ib_device ib;
	struct mroce_counters __percpu *counters;
	struct mroce_settings set;
	u64 instance;			/* random number of this registration (2.) */

	struct net *net;		/* of the first netdev; held through sock */
	struct net_device *ndev;	/* plane 0; held: netdev_tracker */
	netdevice_tracker ndev_tracker;
	struct mroce_sock *sock;	/* shared per (net, port) */
	struct list_head sock_entry;	/* net/sock.c: devices on the socket */

	struct xarray qps;		/* QPN -> struct mroce_qp *, cyclic, 24 bits */
	u32 next_qpn;
	struct xarray mrs;		/* key >> 8 -> struct mroce_mr * */
	u32 next_mr;
	atomic_t last_cqn;

	struct mutex conn_mutex;
	struct list_head conns;
	atomic_t n_conns;		/* not yet freed */
	struct workqueue_struct *wq;	/* handshakes, closing, QP events */
	atomic_t held_bytes;
	bool dying;			/* no new connections: before registration and in removal */

	struct list_head net_entry;	/* ctl/link.c: devices of a namespace */
	unsigned long port_active;	/* last port event sent was ACTIVE */
};

static inline struct mroce_dev *to_mdev(struct ib_device *ib)
{
	return container_of(ib, struct mroce_dev, ib);
}

/* Device operations table with everything in verbs/; driver_id, uverbs_abi_ver included. */
extern const struct ib_device_ops mroce_dev_ops;

/* Fills @dev's GUID and verbs masks, initialises xarrays: cannot fail; right after allocation, @dev->ndev set. */
void mroce_verbs_setup(struct mroce_dev *dev);

#endif
