// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Leaf-spine fabrics, one per plane.  A host has one port in every plane; a
 * leaf spreads over the spines by a hash of addresses and ports (ECMP), and
 * leaves out those it has learnt to be unreachable.  spines = 0: one switch.
 */
#ifndef SIM_FABRIC_H
#define SIM_FABRIC_H

#include "link.h"

#include <vector>

namespace sim {

struct FabricSettings {
	u32 hosts = 64;
	u32 leaves = 8;
	u32 spines = 8;		/* per plane */
	u32 planes = 1;
	double gbps = 400;	/* of a host, over all planes */
	Time hop_delay = PS_PER_US;
	double ecn_bdp = 0.25;		/* queue marked from, in bandwidth-delay products of a host port */
	double ecn_max_bdp = 0.25;
	double ecn_pmax = 1;
	double buffer_bdp = 3;		/* longest queue; ignored with pfc */
	double loss_path = 0;	/* every packet, once on its way: on the last link */
	double loss_link = 0;	/* on every link it crosses */
	bool pfc = false;
	double pfc_xoff_bdp = 2;	/* of bytes that came over one link; resume at half */
	Time converge = 10 * PS_PER_MS;	/* until routing knows of a fault */
};

class Fabric {
public:
	Fabric(const FabricSettings &settings, u64 seed);

	const FabricSettings &settings() const { return s_; }
	Link &link(u32 id) { return links_[id]; }
	const Link &link(u32 id) const { return links_[id]; }
	u32 n_links() const { return static_cast<u32>(links_.size()); }

	bool is_host(u32 node) const { return node < s_.hosts; }
	u32 leaf_of(u32 host) const { return host / (s_.hosts / s_.leaves); }

	/* Link of a host into a plane, and from the plane's leaf to the host. */
	u32 up(u32 host, u32 plane) const { return (plane * s_.hosts + host) * 2; }
	u32 down(u32 host, u32 plane) const { return up(host, plane) + 1; }
	/* Leaf to spine, and back. */
	u32 leaf_up(u32 leaf, u32 spine, u32 plane) const;
	u32 leaf_down(u32 leaf, u32 spine, u32 plane) const { return leaf_up(leaf, spine, plane) + 1; }

	/* The link a packet leaves switch @node on; NONE: no way there. */
	u32 route(u32 node, const Packet &p) const;

	/* Routing learns about (or forgets) a faulty leaf-spine cable. */
	void set_usable(u32 leaf, u32 spine, u32 plane, bool usable);

	/* Round trip of a full packet over the longest way without queues, and bytes under way in it. */
	Time base_rtt(u32 bytes) const;
	u64 bdp() const;
	u64 pfc_xoff() const { return xoff_; }

private:
	FabricSettings s_;
	std::vector<Link> links_;
	std::vector<u8> usable_;	/* [plane][leaf][spine] */
	u32 first_core_ = 0;		/* number of the first leaf-spine link */
	u32 n_faulty_ = 0;
	u64 salt_;
	u64 xoff_ = 0;
};

} // namespace sim

#endif
