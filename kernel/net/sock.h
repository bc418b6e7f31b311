/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * UDP sockets, shared per (network namespace, port) and counted: none before
 * the first device, none after the last (R10).  A socket knows the devices on
 * it and the connections by id.
 */
#ifndef MROCE_NET_SOCK_H
#define MROCE_NET_SOCK_H

#include <linux/in6.h>
#include <linux/list.h>
#include <linux/skbuff.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <net/net_namespace.h>

struct mroce_conn;
struct mroce_dev;

struct mroce_addr {		/* IPv4 in v6-mapped form: one comparison for both */
	struct in6_addr a;
};

static inline bool mroce_addr_is_v4(const struct mroce_addr *a)
{
	return ipv6_addr_v4mapped(&a->a);
}

static inline bool mroce_addr_eq(const struct mroce_addr *a,
				 const struct mroce_addr *b)
{
	return ipv6_addr_equal(&a->a, &b->a);
}

struct mroce_rate {		/* a limit per jiffy */
	atomic_t tokens;	/* what is left for the jiffy of stamp */
	unsigned long stamp;
};

struct mroce_sock {
	struct list_head entry;		/* on the namespace's list */
	struct net *net;
	u16 port;
	unsigned int users;		/* devices; under the namespace's mutex */
	struct socket __rcu *sk4;
	struct socket __rcu *sk6;	/* NULL without IPv6 */
	spinlock_t lock;		/* writers of devs; readers: RCU */
	struct list_head devs;		/* mroce_dev.sock_entry */
	struct xarray conns;		/* conn id & MROCE_CONN_INDEX -> mroce_conn, RCU */
	u32 next_conn;
	struct sk_buff_head ctl_queue;	/* HELLOs wait for process context */
	struct work_struct ctl_work;
	struct mroce_rate reset_tx;	/* RESETs sent */
	struct mroce_rate reset_rx;	/* RESETs that are looked into */
	u64 cookie_key[2];		/* CHALLENGE */
	struct rcu_head rcu;
};

#define MROCE_CONN_INDEX	0x000fffff	/* low bits of a connection id; the rest is random */
#define MROCE_CTL_QUEUE		256

/* Takes (or opens) the socket of @dev->net, @dev->set.udp_port and adds @dev.  Process.  Errors of the socket layer. */
int mroce_sock_attach(struct mroce_dev *dev);
/* Reverse; no packet reaches @dev when it returns.  Idempotent. */
void mroce_sock_detach(struct mroce_dev *dev);

/* Is @addr one of the addresses of @dev's netdev?  Takes RCU. */
bool mroce_dev_has_addr(const struct mroce_dev *dev,
			const struct mroce_addr *addr);

/* Source and destination of a received skb (network header set). */
void mroce_skb_addrs(const struct sk_buff *skb, struct mroce_addr *src,
		     struct mroce_addr *dst);

int mroce_sock_init(void);
void mroce_sock_exit(void);

/* Implemented by the engine: packets from the socket; skb->data at the UDP header; consumes skb.  Softirq, RCU. */
void mroce_engine_rx(struct mroce_sock *sock, struct sk_buff *skb);
/* A control packet in process context; does not consume skb. */
void mroce_engine_ctl(struct mroce_sock *sock, struct sk_buff *skb);

#endif
