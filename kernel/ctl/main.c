// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Module initialisation and exit. */
#include <linux/module.h>
#include <linux/rcupdate.h>

#include "../engine/engine.h"
#include "../net/sock.h"
#include "link.h"

static int __init mroce_init(void)
{
	int err;

	err = mroce_sock_init();
	if (err)
		return err;
	err = mroce_engine_init();
	if (err)
		goto err_sock;
	err = mroce_link_init();
	if (err)
		goto err_engine;
	return 0;

err_engine:
	mroce_engine_exit();
err_sock:
	mroce_sock_exit();
	return err;
}

static void __exit mroce_exit(void)
{
	mroce_link_exit();
	mroce_engine_exit();
	mroce_sock_exit();
	/* call_rcu() callbacks, if any, have code of ours */
	rcu_barrier();
}

/* late: built in, the InfiniBand core and IPv6 must be there */
late_initcall(mroce_init);
module_exit(mroce_exit);

MODULE_DESCRIPTION("MetaRoCE: multipath RDMA over Ethernet, in software");
MODULE_AUTHOR("MetaRoCE for Linux developers");
MODULE_LICENSE("Dual BSD/GPL");
