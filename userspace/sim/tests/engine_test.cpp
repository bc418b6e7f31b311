// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Event queue, links, fabric: what everything stands on. */
#include "fabric.h"
#include "ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace {

using namespace sim;

TEST(EventQueue, ComesOutInOrderWhateverGoesIn)
{
	EventQueue q;
	Rng rng(7);
	std::vector<std::pair<Time, u32>> in, out;

	for (u32 i = 0; i < 5000; i++) {
		Time t = rng.below(1000);

		in.emplace_back(t, i);
		q.push(t, Kind::Timer, i);
	}
	while (!q.empty()) {
		out.emplace_back(q.top().at, q.top().index);
		if (out.size() % 7 == 0 && q.top().at < 500) {	/* some move on */
			in.emplace_back(q.top().at + 600, q.top().index);
			q.postpone_top(q.top().at + 600);
		} else {
			q.pop();
		}
	}
	std::sort(in.begin(), in.end());
	EXPECT_EQ(in, out);
}

TEST(Ring, GrowsAcrossItsEnd)
{
	Ring<int> r;
	int next = 0, expected = 0;

	for (int round = 0; round < 100; round++) {
		for (int k = 0; k < round; k++)
			r.push(next++);
		for (int k = 0; k < round - 1; k++) {
			ASSERT_EQ(r.front(), expected++);
			r.pop();
		}
	}
	EXPECT_EQ(r.size(), std::size_t(next - expected));
	EXPECT_EQ(r[1], expected + 1);
	EXPECT_EQ(r.back(), next - 1);
}

u32 packet(World &w, u32 bytes)
{
	u32 i = w.packets.get();

	w.packets[i].bytes = bytes;
	w.packets[i].ce = 0;
	return i;
}

LinkSettings fast()
{
	LinkSettings s;

	s.gbps = 100;		/* 80 ps for a byte */
	s.delay = 1000 * PS_PER_NS;
	return s;
}

TEST(Link, TakesItsTime)
{
	World w;
	Link l(0, 0, 1, fast(), 1);
	Time begin = w.now;

	l.send(w, packet(w, 1000));
	l.send(w, packet(w, 1000));
	EXPECT_EQ(l.queued(w), 2000u);
	EXPECT_EQ(w.events.top().at, begin + 80000 + 1000000);
	w.now = w.events.top().at;
	EXPECT_NE(l.arrive(w), NONE);
	EXPECT_EQ(w.events.top().at, begin + 160000 + 1000000);
}

TEST(Link, DropsAtTheTailAndMarksAtTheThreshold)
{
	World w;
	LinkSettings s = fast();

	s.buffer = 5000;
	s.ecn_min = s.ecn_max = 2000;
	Link l(0, 0, 1, s, 1);

	for (int i = 0; i < 10; i++)
		l.send(w, packet(w, 1000));
	EXPECT_EQ(l.counters().dropped_full, 5u);
	EXPECT_EQ(l.counters().marked, 3u);
	EXPECT_EQ(w.packets.used(), 5u);
}

TEST(Link, LosesWhatItIsTold)
{
	World w;
	LinkSettings s = fast();

	s.loss = 0.1;
	Link l(0, 0, 1, s, 3);
	for (int i = 0; i < 100000; i++) {
		l.send(w, packet(w, 100));
		w.now = w.events.top().at;
		u32 p = l.arrive(w);

		if (p != NONE)
			w.packets.put(p);
	}
	EXPECT_NEAR(double(l.counters().dropped_loss), 10000, 400);
	EXPECT_EQ(w.packets.used(), 0u);
}

TEST(Link, ADownLinkSwallows)
{
	World w;
	Link l(0, 0, 1, fast(), 1);

	l.send(w, packet(w, 100));
	l.set_up(false);
	EXPECT_FALSE(l.send(w, packet(w, 100)));
	w.now = w.events.top().at;
	EXPECT_EQ(l.arrive(w), NONE);
	EXPECT_EQ(l.counters().dropped_down, 2u);
	EXPECT_EQ(w.packets.used(), 0u);
}

TEST(Link, PauseHoldsWhatHasNotBegun)
{
	World w;
	LinkSettings s = fast();

	s.pfc = true;
	Link l(0, 0, 1, s, 1);
	l.send(w, packet(w, 1000));
	l.send(w, packet(w, 1000));
	l.pause(w, true);
	ASSERT_EQ(w.events.top().kind, Kind::TxDone);
	w.now = w.events.top().at;
	w.events.pop();
	l.tx_done(w);
	ASSERT_EQ(w.events.size(), 1u);		/* only the arrival of the first */
	EXPECT_EQ(w.events.top().kind, Kind::Arrive);
	l.pause(w, false);
	EXPECT_EQ(w.events.size(), 2u);
}

TEST(Fabric, PacketsReachTheirHostOverFourLinks)
{
	FabricSettings s;

	s.planes = 2;
	Fabric f(s, 1);
	Packet p{};

	p.dst = 63;
	for (u32 plane = 0; plane < 2; plane++) {
		u32 node = f.link(f.up(0, plane)).to(), hops = 1;

		while (!f.is_host(node)) {
			node = f.link(f.route(node, p)).to();
			hops++;
		}
		EXPECT_EQ(node, 63u);
		EXPECT_EQ(hops, 4u);
	}
	p.dst = 7;
	EXPECT_EQ(f.route(f.link(f.up(0, 0)).to(), p), f.down(7, 0));
}

TEST(Fabric, EcmpIsFair)
{
	FabricSettings s;
	Fabric f(s, 5);
	std::vector<int> n(8);
	Packet p{};

	p.dst = 63;
	for (u32 i = 0; i < 80000; i++) {
		p.hash = static_cast<u32>(mix64(i * 2654435761u + 17));
		u32 out = f.route(f.link(f.up(0, 0)).to(), p);

		n[f.link(out).to() - f.link(f.leaf_up(0, 0, 0)).to()]++;
	}
	for (int k : n)
		EXPECT_NEAR(k, 10000, 400);
}

TEST(Fabric, RoutingLeavesOutWhatItKnowsToBeFaulty)
{
	FabricSettings s;
	Fabric f(s, 5);
	Packet p{};

	p.dst = 63;
	f.set_usable(0, 2, 0, false);	/* our cable to spine 2 */
	f.set_usable(7, 5, 0, false);	/* the receiver's to spine 5 */
	for (u32 i = 0; i < 1000; i++) {
		p.hash = static_cast<u32>(mix64(i));
		u32 out = f.route(f.link(f.up(0, 0)).to(), p);

		EXPECT_NE(out, f.leaf_up(0, 2, 0));
		EXPECT_NE(out, f.leaf_up(0, 5, 0));
	}
	for (u32 i = 0; i < 8; i++)
		f.set_usable(0, i, 0, false);
	EXPECT_EQ(f.route(f.link(f.up(0, 0)).to(), p), NONE);
}

} // namespace
