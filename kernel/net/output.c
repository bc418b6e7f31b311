// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Routing and output: see output.h. */
#include <linux/udp.h>
#include <net/inet_ecn.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/ipv6_stubs.h>
#include <net/netdev_queues.h>
#include <net/route.h>
#include <net/udp.h>

#include "output.h"

static struct sock *mroce_sk(struct mroce_sock *sock, bool v4)
{
	struct socket *s = v4 ? rcu_dereference_bh(sock->sk4) : rcu_dereference_bh(sock->sk6);

	return s ? s->sk : NULL;
}

static struct dst_entry *mroce_lookup_v4(struct mroce_sock *sock, struct sock *sk,
					 const struct mroce_route *r)
{
	struct flowi4 fl = {
		.flowi4_oif = r->oif,
		.flowi4_tos = r->tclass & INET_DSCP_MASK,
		.flowi4_proto = IPPROTO_UDP,
		.saddr = r->local.a.s6_addr32[3],
		.daddr = r->remote.a.s6_addr32[3],
		.fl4_sport = htons(r->sport),
		.fl4_dport = htons(r->dport),
	};
	struct rtable *rt = ip_route_output_flow(sock->net, &fl, sk);

	return IS_ERR(rt) ? ERR_CAST(rt) : &rt->dst;
}

/* A router may hash only the flow label: it follows the path as the port does. */
static __be32 mroce_flow_label(const struct mroce_route *r)
{
	return htonl(((u32)r->sport * 0x9e3779b1u) >> 12) & IPV6_FLOWLABEL_MASK;
}

static struct dst_entry *mroce_lookup_v6(struct mroce_sock *sock, struct sock *sk,
					 const struct mroce_route *r)
{
	struct flowi6 fl = {
		.flowi6_oif = r->oif,
		.flowi6_proto = IPPROTO_UDP,
		.saddr = r->local.a,
		.daddr = r->remote.a,
		.fl6_sport = htons(r->sport),
		.fl6_dport = htons(r->dport),
		.flowlabel = ip6_make_flowinfo(r->tclass, mroce_flow_label(r)),
	};

	return ipv6_stub->ipv6_dst_lookup_flow(sock->net, sk, &fl, NULL);
}

void mroce_route_drop(struct mroce_route *r)
{
	dst_release(r->dst);
	r->dst = NULL;
}

int mroce_route_check(struct mroce_sock *sock, struct mroce_route *r)
{
	bool v4 = mroce_addr_is_v4(&r->remote);
	struct dst_entry *dst = r->dst;
	struct sock *sk;

	if (dst && (!dst->obsolete || dst->ops->check(dst, r->cookie)))
		return 0;
	mroce_route_drop(r);
	sk = mroce_sk(sock, v4);
	if (!sk)
		return -ENETDOWN;
	dst = v4 ? mroce_lookup_v4(sock, sk, r) : mroce_lookup_v6(sock, sk, r);
	if (IS_ERR(dst))
		return PTR_ERR(dst);
	if (dst->error) {
		int err = dst->error;

		dst_release(dst);
		return err;
	}
	r->cookie = v4 ? 0 : rt6_get_cookie((struct rt6_info *)dst);
	r->dst = dst;
	return 0;
}

u32 mroce_route_mtu(struct mroce_sock *sock, struct mroce_route *r)
{
	u32 mtu = 0;

	rcu_read_lock_bh();
	if (!mroce_route_check(sock, r))
		mtu = dst_mtu(r->dst);
	rcu_read_unlock_bh();
	return mtu;
}

struct sk_buff *mroce_skb_alloc(const struct mroce_route *r, u32 len)
{
	u32 head = MROCE_IP_UDP_HDR + MROCE_PIGGY_MAX +
		   (r->dst ? LL_RESERVED_SPACE(r->dst->dev) + r->dst->header_len : MAX_HEADER);
	struct sk_buff *skb = alloc_skb(head + len, GFP_ATOMIC | __GFP_NOWARN);

	if (skb)
		skb_reserve(skb, head);
	return skb;
}

static void mroce_push_udp(struct sk_buff *skb, const struct mroce_route *r)
{
	struct udphdr *uh = skb_push(skb, sizeof(*uh));

	skb_reset_transport_header(skb);
	uh->source = htons(r->sport);
	uh->dest = htons(r->dport);
	uh->len = htons(skb->len);
	uh->check = 0;
}

static int mroce_output_v4(struct mroce_sock *sock, struct sock *sk,
			   struct mroce_route *r, struct sk_buff *skb, u8 tos)
{
	__be32 saddr = r->local.a.s6_addr32[3], daddr = r->remote.a.s6_addr32[3];
	struct iphdr *iph;

	udp_set_csum(false, skb, saddr, daddr, skb->len);
	iph = skb_push(skb, sizeof(*iph));
	skb_reset_network_header(skb);
	iph->version = 4;
	iph->ihl = sizeof(*iph) >> 2;
	iph->tos = tos;
	iph->frag_off = htons(IP_DF);
	iph->ttl = ip4_dst_hoplimit(r->dst);
	iph->protocol = IPPROTO_UDP;
	iph->saddr = saddr;
	iph->daddr = daddr;
	__ip_select_ident(sock->net, iph, 1);
	skb->protocol = htons(ETH_P_IP);
	return ip_local_out(sock->net, sk, skb);
}

static int mroce_output_v6(struct mroce_sock *sock, struct sock *sk,
			   struct mroce_route *r, struct sk_buff *skb, u8 tos)
{
	struct ipv6hdr *ip6h;
	u32 len = skb->len;

	udp6_set_csum(false, skb, &r->local.a, &r->remote.a, len);
	ip6h = skb_push(skb, sizeof(*ip6h));
	skb_reset_network_header(skb);
	ip6_flow_hdr(ip6h, tos, mroce_flow_label(r));
	ip6h->payload_len = htons(len);
	ip6h->nexthdr = IPPROTO_UDP;
	ip6h->hop_limit = ip6_dst_hoplimit(r->dst);
	ip6h->saddr = r->local.a;
	ip6h->daddr = r->remote.a;
	skb->protocol = htons(ETH_P_IPV6);
	return ip6_local_out(sock->net, sk, skb);
}

int mroce_output(struct mroce_sock *sock, struct mroce_route *r,
		 struct sk_buff *skb, bool ect)
{
	bool v4 = mroce_addr_is_v4(&r->remote);
	u8 tos = (r->tclass & ~INET_ECN_MASK) | (ect ? INET_ECN_ECT_0 : 0);
	struct sock *sk = mroce_sk(sock, v4);
	int err = sk ? mroce_route_check(sock, r) : -ENETDOWN;

	if (err) {
		kfree_skb(skb);
		return err;
	}
	mroce_push_udp(skb, r);
	skb_set_owner_w(skb, sk);
	skb_dst_set(skb, dst_clone(r->dst));
	skb->ip_summed = CHECKSUM_NONE;
	err = v4 ? mroce_output_v4(sock, sk, r, skb, tos) : mroce_output_v6(sock, sk, r, skb, tos);
	return err > 0 ? net_xmit_errno(err) : err;
}
