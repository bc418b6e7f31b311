/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Packets to a plane's netdev. */
#ifndef MROCE_NET_OUTPUT_H
#define MROCE_NET_OUTPUT_H

#include <linux/skbuff.h>
#include <net/dst.h>

#include "../core/wire.h"
#include "sock.h"

/* Where packets of one path go, and the route last found. */
struct mroce_route {
	struct mroce_addr local, remote;
	u16 sport, dport;	/* host order */
	u8 tclass;		/* DSCP << 2; ECT is added */
	int oif;		/* ifindex of the plane */
	struct dst_entry *dst;	/* cached; the caller serialises its use */
	u32 cookie;		/* IPv6 */
};

#define MROCE_IP_UDP_HDR	(sizeof(struct ipv6hdr) + sizeof(struct udphdr))

/*
 * Makes sure @route->dst is valid.  0, or the routing error.  Any context with BH off.
 */
int mroce_route_check(struct mroce_sock *sock, struct mroce_route *route);
/* Drops the cached route (address, port or netdev changed; end of life). */
void mroce_route_drop(struct mroce_route *route);

/* An skb with room for all lower headers in front and @len bytes behind skb->data; NULL without memory. */
struct sk_buff *mroce_skb_alloc(const struct mroce_route *route, u32 len);

/*
 * Puts UDP and IP headers in front and hands @skb to the IP layer; consumes
 * it.  ECN field: ECT(0) if @ect.  0, or a negative errno: the packet was
 * refused (no route, queue full).  BH off, RCU.
 */
int mroce_output(struct mroce_sock *sock, struct mroce_route *route,
		 struct sk_buff *skb, bool ect);

/* MTU of the route (IP packet size), 0 if there is none. */
u32 mroce_route_mtu(struct mroce_sock *sock, struct mroce_route *route);

#endif
