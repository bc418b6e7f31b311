// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "fabric.h"

namespace sim {

/* Nodes: hosts, then per plane its leaves and its spines. */
static u32 leaf_node(const FabricSettings &s, u32 plane, u32 leaf)
{
	return s.hosts + plane * (s.leaves + s.spines) + leaf;
}

static LinkSettings link_settings(const FabricSettings &s, u64 bdp, bool to_host, bool from_host)
{
	auto part = [bdp](double x) { return static_cast<u64>(x * static_cast<double>(bdp)); };
	LinkSettings l;

	l.gbps = s.gbps / s.planes;
	l.delay = s.hop_delay;
	l.pfc = s.pfc;
	l.loss = s.loss_link + (to_host ? s.loss_path : 0);
	if (from_host)		/* the NIC takes packets only as it can send them */
		return l;
	l.ecn_min = part(s.ecn_bdp);
	l.ecn_max = part(s.ecn_max_bdp);
	l.ecn_pmax = s.ecn_pmax;
	l.buffer = s.pfc ? 0 : part(s.buffer_bdp);
	return l;
}

Time Fabric::base_rtt(u32 bytes) const
{
	u32 hops = s_.spines ? 4 : 2;

	return 2 * hops * s_.hop_delay + hops * bytes * byte_time(s_.gbps / s_.planes);
}

u64 Fabric::bdp() const
{
	return base_rtt(4096) / byte_time(s_.gbps / s_.planes);
}

Fabric::Fabric(const FabricSettings &settings, u64 seed)
	: s_(settings), usable_(static_cast<std::size_t>(s_.planes) * s_.leaves * s_.spines, 1),
	  salt_(mix64(seed ^ 0x5bd1e995))
{
	Rng rng(seed);

	xoff_ = static_cast<u64>(s_.pfc_xoff_bdp * static_cast<double>(bdp()));
	auto add = [&](u32 from, u32 to) {
		links_.emplace_back(static_cast<u32>(links_.size()), from, to,
				    link_settings(s_, bdp(), is_host(to), is_host(from)), rng.next());
	};

	for (u32 plane = 0; plane < s_.planes; plane++) {
		for (u32 host = 0; host < s_.hosts; host++) {
			add(host, leaf_node(s_, plane, leaf_of(host)));
			add(leaf_node(s_, plane, leaf_of(host)), host);
		}
	}
	first_core_ = n_links();
	for (u32 plane = 0; plane < s_.planes; plane++) {
		for (u32 leaf = 0; leaf < s_.leaves; leaf++) {
			for (u32 spine = 0; spine < s_.spines; spine++) {
				u32 a = leaf_node(s_, plane, leaf);
				u32 b = leaf_node(s_, plane, s_.leaves + spine);

				add(a, b);
				add(b, a);
			}
		}
	}
}

u32 Fabric::leaf_up(u32 leaf, u32 spine, u32 plane) const
{
	return first_core_ + ((plane * s_.leaves + leaf) * s_.spines + spine) * 2;
}

void Fabric::set_usable(u32 leaf, u32 spine, u32 plane, bool usable)
{
	u8 &u = usable_[(plane * s_.leaves + leaf) * s_.spines + spine];

	n_faulty_ += (u && !usable) ? 1 : 0;
	n_faulty_ -= (!u && usable) ? 1 : 0;
	u = usable;
}

u32 Fabric::route(u32 node, const Packet &p) const
{
	u32 per_plane = s_.leaves + s_.spines;
	u32 sw = node - s_.hosts;
	u32 plane = sw / per_plane, me = sw % per_plane;
	u32 to = leaf_of(p.dst);

	if (me >= s_.leaves)
		return leaf_down(to, me - s_.leaves, plane);
	if (me == to)
		return down(p.dst, plane);

	/* every switch hashes with its own salt */
	u64 h = mix64(p.hash + salt_ * (node + 1)) >> 32;

	if (!n_faulty_)
		return leaf_up(me, static_cast<u32>(h * s_.spines >> 32), plane);

	const u8 *out = &usable_[(plane * s_.leaves + me) * s_.spines];
	const u8 *in = &usable_[(plane * s_.leaves + to) * s_.spines];
	u32 n = 0, k;

	for (u32 i = 0; i < s_.spines; i++)
		n += out[i] && in[i];
	k = static_cast<u32>(h * n >> 32);
	for (u32 i = 0; i < s_.spines; i++)
		if (out[i] && in[i] && !k--)
			return leaf_up(me, i, plane);
	return NONE;
}

} // namespace sim
