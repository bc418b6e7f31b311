// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Creation and removal of devices.
 *
 * Whoever removes a device (`rdma link delete`, the netdev or the namespace
 * that goes, the module's unload) ends up in ib_core's __ib_unregister_device(),
 * which works the same in 6.1 and 6.12:
 *
 *  1. No new user of the device; then the clients are told, the one that was
 *     registered last first.  We are a client ourselves (mroce_client): its
 *     remove() is the only call that a driver can get before user space's
 *     objects are destroyed.  It stops the engine: BYE to the peers, all queue
 *     pairs to ERR, so that completions are flushed and sleepers wake.
 *     (Clients registered after us, kernel ULPs, have already drained and
 *     destroyed their queue pairs by then, on a working device.)
 *  2. ib_uverbs waits for running commands, then destroys each program's
 *     objects by the ordinary verbs.  Its async files deliver DEVICE_FATAL,
 *     completion channels are closed (EIO), later commands get EIO, and a
 *     program that polls a ring reads "gone" there (mroce_ring_destroy()).
 *     Then disassociate_ucontext, dealloc_ucontext.  rdma_cm delivers
 *     DEVICE_REMOVAL.
 *  3. The device leaves sysfs, its GIDs go, and dealloc_driver undoes what
 *     mroce_newlink() did.
 *
 * `rdma dev set NAME netns NS` does 1 and 2 as well, and then, instead of 3,
 * enables the device again: mroce_enable_driver() takes the stop back.
 */
#include <linux/if_arp.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/random.h>
#include <linux/rtnetlink.h>
#include <net/netns/generic.h>
#include <rdma/ib_verbs.h>
#include <rdma/metaroce-abi.h>
#include <rdma/rdma_netlink.h>

#include "../compat/compat.h"
#include "../core/codec.h"
#include "../engine/engine.h"
#include "../net/sock.h"
#include "../verbs/device.h"
#include "counters.h"
#include "link.h"

#define MROCE_DRIVER		((enum rdma_driver_id)METAROCE_DRIVER_ID)
#define MROCE_USEFUL_PAYLOAD	1024	/* below it nothing useful can be done */

static DEFINE_MUTEX(link_mutex);	/* one device per netdev: check and creation */

static unsigned int mroce_link_net_id;	/* slot of the namespaces' private data */

struct mroce_link_net {
	struct mutex lock;
	struct list_head devs;		/* mroce_dev.net_entry */
};

static void mroce_net_add(struct mroce_dev *dev)
{
	struct mroce_link_net *ln = net_generic(dev->net, mroce_link_net_id);

	mutex_lock(&ln->lock);
	list_add_tail(&dev->net_entry, &ln->devs);
	mutex_unlock(&ln->lock);
}

static void mroce_net_del(struct mroce_dev *dev)
{
	struct mroce_link_net *ln = net_generic(dev->net, mroce_link_net_id);

	mutex_lock(&ln->lock);
	list_del(&dev->net_entry);
	mutex_unlock(&ln->lock);
}

/* Why @ndev cannot carry a device; 0 if it can. */
static int mroce_check_ndev(const char *name, struct net_device *ndev)
{
	struct ib_device *other;

	if (ndev->flags & IFF_LOOPBACK || ndev->type != ARPHRD_ETHER) {
		netdev_err(ndev, "metaroce: %s: not an Ethernet interface (%d)\n",
			   name, -EINVAL);
		return -EINVAL;
	}
	if (mroce_payload_for_mtu(ndev->mtu, 6) < MROCE_USEFUL_PAYLOAD) {
		netdev_err(ndev, "metaroce: %s: MTU %u is too small for %u bytes of payload (%d)\n",
			   name, ndev->mtu, MROCE_USEFUL_PAYLOAD, -EINVAL);
		return -EINVAL;
	}
	other = ib_device_get_by_netdev(ndev, MROCE_DRIVER);
	if (other) {
		netdev_err(ndev, "metaroce: %s: the interface already has %s (%d)\n",
			   name, dev_name(&other->dev), -EEXIST);
		ib_device_put(other);
		return -EEXIST;
	}
	other = ib_device_get_by_netdev(ndev, RDMA_DRIVER_UNKNOWN);
	if (other) {
		netdev_warn(ndev, "metaroce: %s: %s is on the interface too: both have the same GIDs, select devices by name\n",
			    name, dev_name(&other->dev));
		ib_device_put(other);
	}
	return 0;
}

static void mroce_default_settings(struct mroce_settings *set)
{
	set->paths = 4;
	set->run_budget = 64;
	set->hold_bytes = 4 << 20;
	set->udp_port = MROCE_UDP_PORT;
}

/*
 * Everything but the registration.  The device is not reachable through
 * ib_core yet; packets may come, and find no connection and no queue pair.
 */
static struct mroce_dev *mroce_dev_create(struct net *net,
					  struct net_device *ndev)
{
	struct mroce_dev *dev = ib_alloc_device(mroce_dev, ib);
	int err;

	if (!dev)
		return ERR_PTR(-ENOMEM);
	dev->dying = true;		/* until mroce_enable_driver() */
	dev->instance = get_random_u64();
	dev->net = net;
	dev->ndev = ndev;
	netdev_hold(ndev, &dev->ndev_tracker, GFP_KERNEL);
	mroce_default_settings(&dev->set);
	mroce_verbs_setup(dev);
	dev->counters = alloc_percpu(struct mroce_counters);
	if (!dev->counters) {
		err = -ENOMEM;
		goto err_ndev;
	}
	err = mroce_sock_attach(dev);
	if (err)
		goto err_counters;
	err = mroce_engine_dev_init(dev);
	if (err)
		goto err_sock;
	mroce_net_add(dev);
	/* from here on ib_dealloc_device() calls mroce_dealloc_driver() */
	ib_set_device_ops(&dev->ib, &mroce_dev_ops);
	return dev;

err_sock:
	mroce_sock_detach(dev);
err_counters:
	free_percpu(dev->counters);
err_ndev:
	netdev_put(ndev, &dev->ndev_tracker);
	ib_dealloc_device(&dev->ib);
	return ERR_PTR(err);
}

/* Reverse of mroce_dev_create() but for the memory, which the core frees.  Process context. */
void mroce_dealloc_driver(struct ib_device *ibdev)
{
	struct mroce_dev *dev = to_mdev(ibdev);

	mroce_net_del(dev);
	mroce_engine_dev_exit(dev);
	mroce_sock_detach(dev);
	WARN_ON(!xa_empty(&dev->qps));
	WARN_ON(!xa_empty(&dev->mrs));
	xa_destroy(&dev->qps);
	xa_destroy(&dev->mrs);
	free_percpu(dev->counters);
	netdev_put(dev->ndev, &dev->ndev_tracker);
}

int mroce_enable_driver(struct ib_device *ibdev)
{
	struct mroce_dev *dev = to_mdev(ibdev);

	if (mroce_port_up(dev->ndev))
		set_bit(0, &dev->port_active);
	WRITE_ONCE(dev->dying, false);
	return 0;
}

/* The namespace that @ndev is in, referenced; NULL if either is going away. */
static struct net *mroce_get_net(struct net_device *ndev)
{
	struct net *net = NULL;

	rtnl_lock();
	if (ndev->reg_state == NETREG_REGISTERED)
		net = maybe_get_net(dev_net(ndev));
	rtnl_unlock();
	return net;
}

/*
 * Before the device could be found by its netdev, NETDEV_UNREGISTER may have
 * passed, or a move to another namespace: nobody would ever tell us.
 */
static bool mroce_ndev_still_there(struct mroce_dev *dev)
{
	bool there;

	rtnl_lock();
	there = dev->ndev->reg_state == NETREG_REGISTERED &&
		net_eq(dev_net(dev->ndev), dev->net);
	rtnl_unlock();
	return there;
}

/* @net is referenced: no namespace goes away under a device that is not complete.  link_mutex held. */
static int mroce_link_create(const char *name, struct net *net,
			     struct net_device *ndev)
{
	struct mroce_dev *dev;
	int err;

	lockdep_assert_held(&link_mutex);
	dev = mroce_dev_create(net, ndev);
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	ib_mark_name_assigned_by_user(&dev->ib);
	err = ib_device_set_netdev(&dev->ib, ndev, 1);
	if (err)
		goto err_dealloc;
	/* Once registered it may be unregistered at any time. */
	get_device(&dev->ib.dev);
	err = ib_register_device(&dev->ib, name, NULL);
	if (!err && !mroce_ndev_still_there(dev)) {
		ib_unregister_device(&dev->ib);
		put_device(&dev->ib.dev);
		return -ENODEV;
	}
	put_device(&dev->ib.dev);
	if (err)
		goto err_dealloc;
	return 0;

err_dealloc:
	ib_dealloc_device(&dev->ib);
	return err;
}

static int mroce_newlink(const char *name, struct net_device *ndev)
{
	struct net *net;
	int err;

	mutex_lock(&link_mutex);
	err = mroce_check_ndev(name, ndev);
	if (err)
		goto out;
	net = mroce_get_net(ndev);
	if (net) {
		err = mroce_link_create(name, net, ndev);
		put_net(net);
	} else {
		err = -ENODEV;
	}
	if (err)
		netdev_err(ndev, "metaroce: %s: cannot create the device (%d)\n",
			   name, err);
out:
	mutex_unlock(&link_mutex);
	return err;
}

static struct rdma_link_ops mroce_link_ops = {
	.type = "metaroce",
	.newlink = mroce_newlink,
};

/* Tells verbs users when the port changes between up and down. */
static void mroce_port_event(struct mroce_dev *dev)
{
	bool up = mroce_port_up(dev->ndev);
	struct ib_event ev = {
		.device = &dev->ib,
		.element.port_num = 1,
		.event = up ? IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR,
	};

	if (up ? !test_and_set_bit(0, &dev->port_active) :
		 test_and_clear_bit(0, &dev->port_active))
		ib_dispatch_event(&ev);
}

/* RTNL held: removal only from a work item. */
static int mroce_netdev_event(struct notifier_block *nb, unsigned long event,
			      void *arg)
{
	struct net_device *ndev = netdev_notifier_info_to_dev(arg);
	struct ib_device *ibdev = ib_device_get_by_netdev(ndev, MROCE_DRIVER);

	if (!ibdev)
		return NOTIFY_DONE;

	switch (event) {
	case NETDEV_UNREGISTER:
		ib_unregister_device_queued(ibdev);
		break;
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
		mroce_port_event(to_mdev(ibdev));
		break;
	case NETDEV_CHANGEMTU:
		if (mroce_payload_for_mtu(ndev->mtu, 6) < MROCE_USEFUL_PAYLOAD)
			netdev_warn(ndev, "metaroce: MTU %u is too small for %s: packets of connections will be lost\n",
				    ndev->mtu, dev_name(&ibdev->dev));
		break;
	}
	ib_device_put(ibdev);
	return NOTIFY_OK;
}

static struct notifier_block mroce_netdev_nb = {
	.notifier_call = mroce_netdev_event,
};

static int mroce_client_add(struct ib_device *ibdev)
{
	/* An error means: do not call for this device again. */
	return ibdev->ops.driver_id == MROCE_DRIVER ? 0 : -EOPNOTSUPP;
}

/* The earliest step of a removal that a driver sees: see the head of this file. */
static void mroce_client_remove(struct ib_device *ibdev, void *client_data)
{
	struct mroce_dev *dev = to_mdev(ibdev);

	WRITE_ONCE(dev->dying, true);
	mroce_engine_dev_stop(dev);
}

static struct ib_client mroce_client = {
	.name = "metaroce",
	.add = mroce_client_add,
	.remove = mroce_client_remove,
	.no_kverbs_req = true,
};

static int __net_init mroce_link_net_init(struct net *net)
{
	struct mroce_link_net *ln = net_generic(net, mroce_link_net_id);

	mutex_init(&ln->lock);
	INIT_LIST_HEAD(&ln->devs);
	return 0;
}

/*
 * The namespace is going, its netdevs are still up: takes our devices down
 * first, while peers can be told.  Returns when they are gone, whoever
 * removes them, so that no socket of ours outlives the namespace.
 */
static void __net_exit mroce_link_net_pre_exit(struct net *net)
{
	struct mroce_link_net *ln = net_generic(net, mroce_link_net_id);
	struct mroce_dev *dev;

	for (;;) {
		mutex_lock(&ln->lock);
		dev = list_first_entry_or_null(&ln->devs, struct mroce_dev,
					       net_entry);
		if (dev)
			get_device(&dev->ib.dev);
		mutex_unlock(&ln->lock);
		if (!dev)
			break;
		ib_unregister_device(&dev->ib);
		put_device(&dev->ib.dev);
	}
}

static struct pernet_operations mroce_link_net_ops = {
	.init = mroce_link_net_init,
	.pre_exit = mroce_link_net_pre_exit,
	.id = &mroce_link_net_id,
	.size = sizeof(struct mroce_link_net),
};

int mroce_link_init(void)
{
	int err;

	err = register_pernet_subsys(&mroce_link_net_ops);
	if (err)
		return err;
	err = ib_register_client(&mroce_client);
	if (err)
		goto err_net;
	err = register_netdevice_notifier(&mroce_netdev_nb);
	if (err)
		goto err_client;
	rdma_link_register(&mroce_link_ops);
	return 0;

err_client:
	ib_unregister_client(&mroce_client);
err_net:
	unregister_pernet_subsys(&mroce_link_net_ops);
	return err;
}

void mroce_link_exit(void)
{
	rdma_link_unregister(&mroce_link_ops);
	/* also waits for removals that others have begun or queued */
	ib_unregister_driver(MROCE_DRIVER);
	unregister_netdevice_notifier(&mroce_netdev_nb);
	ib_unregister_client(&mroce_client);
	unregister_pernet_subsys(&mroce_link_net_ops);
}

MODULE_ALIAS_RDMA_LINK("metaroce");
