// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* UDP sockets per (namespace, port): see sock.h. */
#include <linux/inetdevice.h>
#include <linux/mutex.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/udp.h>
#include <net/addrconf.h>
#include <net/ipv6.h>
#include <net/netns/generic.h>
#include <net/udp_tunnel.h>

#include "../verbs/device.h"
#include "sock.h"

static unsigned int mroce_net_id;	/* slot of the namespaces' private data */

struct mroce_net {
	struct mutex mutex;		/* socks, their users */
	struct list_head socks;
};

static int mroce_encap_rcv(struct sock *sk, struct sk_buff *skb)
{
	struct mroce_sock *sock = rcu_dereference_sk_user_data(sk);

	if (sock)
		mroce_engine_rx(sock, skb);
	else
		kfree_skb(skb);
	return 0;
}

static void mroce_ctl_work(struct work_struct *work)
{
	struct mroce_sock *sock = container_of(work, struct mroce_sock, ctl_work);
	struct sk_buff *skb;

	while ((skb = skb_dequeue(&sock->ctl_queue))) {
		mroce_engine_ctl(sock, skb);
		consume_skb(skb);
		cond_resched();
	}
}

static struct socket *mroce_sock_open(struct mroce_sock *sock, int family)
{
	struct udp_tunnel_sock_cfg tun = {
		.sk_user_data = sock,
		.encap_type = 1,
		.encap_rcv = mroce_encap_rcv,
	};
	struct udp_port_cfg cfg = {
		.family = family,
		.local_udp_port = htons(sock->port),
		.use_udp_checksums = 1,
		.use_udp6_tx_checksums = 1,
		.use_udp6_rx_checksums = 1,
		.ipv6_v6only = family == AF_INET6,
	};
	struct socket *s;
	int err;

	err = udp_sock_create(sock->net, &cfg, &s);
	if (err)
		return ERR_PTR(err);
	/* What waits in queueing disciplines is bounded by the engine against this. */
	s->sk->sk_sndbuf = INT_MAX / 2;
	setup_udp_tunnel_sock(sock->net, s, &tun);
	return s;
}

static void mroce_sock_close(struct mroce_sock *sock)
{
	struct socket *s4 = rcu_replace_pointer(sock->sk4, NULL, true);
	struct socket *s6 = rcu_replace_pointer(sock->sk6, NULL, true);

	/* No packet enters or leaves through them any more when this is through. */
	if (s4)
		rcu_assign_sk_user_data(s4->sk, NULL);
	if (s6)
		rcu_assign_sk_user_data(s6->sk, NULL);
	synchronize_net();
	if (s4)
		udp_tunnel_sock_release(s4);
	if (s6)
		udp_tunnel_sock_release(s6);
	cancel_work_sync(&sock->ctl_work);
	skb_queue_purge(&sock->ctl_queue);
}

static struct mroce_sock *mroce_sock_new(struct net *net, u16 port)
{
	struct mroce_sock *sock = kzalloc(sizeof(*sock), GFP_KERNEL);
	struct socket *s;

	if (!sock)
		return ERR_PTR(-ENOMEM);
	sock->net = net;
	sock->port = port;
	spin_lock_init(&sock->lock);
	INIT_LIST_HEAD(&sock->devs);
	xa_init_flags(&sock->conns, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_BH);
	skb_queue_head_init(&sock->ctl_queue);
	INIT_WORK(&sock->ctl_work, mroce_ctl_work);
	get_random_bytes(sock->cookie_key, sizeof(sock->cookie_key));

	s = mroce_sock_open(sock, AF_INET);
	if (IS_ERR(s))
		goto err;
	rcu_assign_pointer(sock->sk4, s);
	if (IS_ENABLED(CONFIG_IPV6) && ipv6_mod_enabled()) {
		s = mroce_sock_open(sock, AF_INET6);
		if (IS_ERR(s)) {
			mroce_sock_close(sock);
			goto err;
		}
		rcu_assign_pointer(sock->sk6, s);
	}
	return sock;
err:
	kfree(sock);
	return ERR_CAST(s);
}

int mroce_sock_attach(struct mroce_dev *dev)
{
	struct mroce_net *mn = net_generic(dev->net, mroce_net_id);
	struct mroce_sock *sock;
	int err = 0;

	mutex_lock(&mn->mutex);
	list_for_each_entry(sock, &mn->socks, entry) {
		if (sock->port == dev->set.udp_port)
			goto found;
	}
	sock = mroce_sock_new(dev->net, dev->set.udp_port);
	if (IS_ERR(sock)) {
		err = PTR_ERR(sock);
		goto out;
	}
	list_add_tail(&sock->entry, &mn->socks);
found:
	sock->users++;
	dev->sock = sock;
	spin_lock_bh(&sock->lock);
	list_add_tail_rcu(&dev->sock_entry, &sock->devs);
	spin_unlock_bh(&sock->lock);
out:
	mutex_unlock(&mn->mutex);
	return err;
}

void mroce_sock_detach(struct mroce_dev *dev)
{
	struct mroce_sock *sock = dev->sock;
	struct mroce_net *mn;

	if (!sock)
		return;
	mn = net_generic(dev->net, mroce_net_id);
	spin_lock_bh(&sock->lock);
	list_del_rcu(&dev->sock_entry);
	spin_unlock_bh(&sock->lock);
	synchronize_net();
	flush_work(&sock->ctl_work);

	mutex_lock(&mn->mutex);
	dev->sock = NULL;
	if (!--sock->users) {
		list_del(&sock->entry);
		mroce_sock_close(sock);
		WARN_ON(!xa_empty(&sock->conns));
		xa_destroy(&sock->conns);
		kfree_rcu(sock, rcu);
	}
	mutex_unlock(&mn->mutex);
}

static bool mroce_has_v4(const struct net_device *ndev, __be32 addr)
{
	struct in_device *in_dev = __in_dev_get_rcu(ndev);
	const struct in_ifaddr *ifa;

	if (!in_dev)
		return false;
	in_dev_for_each_ifa_rcu(ifa, in_dev) {
		if (ifa->ifa_local == addr)
			return true;
	}
	return false;
}

bool mroce_dev_has_addr(const struct mroce_dev *dev,
			const struct mroce_addr *addr)
{
	bool has;

	rcu_read_lock();
	if (mroce_addr_is_v4(addr))
		has = mroce_has_v4(dev->ndev, addr->a.s6_addr32[3]);
	else
		has = IS_ENABLED(CONFIG_IPV6) && ipv6_chk_addr(dev->net, &addr->a, dev->ndev, 1);
	rcu_read_unlock();
	return has;
}

void mroce_skb_addrs(const struct sk_buff *skb, struct mroce_addr *src,
		     struct mroce_addr *dst)
{
	if (ip_hdr(skb)->version == 4) {
		ipv6_addr_set_v4mapped(ip_hdr(skb)->saddr, &src->a);
		ipv6_addr_set_v4mapped(ip_hdr(skb)->daddr, &dst->a);
	} else {
		src->a = ipv6_hdr(skb)->saddr;
		dst->a = ipv6_hdr(skb)->daddr;
	}
}

static int __net_init mroce_net_init(struct net *net)
{
	struct mroce_net *mn = net_generic(net, mroce_net_id);

	mutex_init(&mn->mutex);
	INIT_LIST_HEAD(&mn->socks);
	return 0;
}

static void __net_exit mroce_net_exit(struct net *net)
{
	struct mroce_net *mn = net_generic(net, mroce_net_id);
	struct mroce_sock *sock;

	/*
	 * A device whose netdev was moved away (not destroyed) may still be on
	 * its way out: its sockets must not outlive the namespace.
	 */
	mutex_lock(&mn->mutex);
	list_for_each_entry(sock, &mn->socks, entry)
		mroce_sock_close(sock);
	mutex_unlock(&mn->mutex);
}

static struct pernet_operations mroce_net_ops = {
	.init = mroce_net_init,
	.exit = mroce_net_exit,
	.id = &mroce_net_id,
	.size = sizeof(struct mroce_net),
};

int mroce_sock_init(void)
{
	return register_pernet_subsys(&mroce_net_ops);
}

void mroce_sock_exit(void)
{
	unregister_pernet_subsys(&mroce_net_ops);
}
