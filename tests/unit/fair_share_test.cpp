// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <gtest/gtest.h>

#include <vector>

extern "C" {
#include "codec.h"
#include "fair_share.h"
}

namespace {

constexpr u64 kLink = 100000000000ull;	/* 100 Gb/s */
constexpr u64 kC = kLink * 95 / 100;
constexpr u32 kRtt = 100000;

struct FairShare : ::testing::Test {
	mroce_share s;
	std::vector<mroce_share_peer> peers{4000};
	u64 now = 1000000000;

	FairShare()
	{
		mroce_share_init(&s, kLink, now);
		s.rtt_ns = kRtt;
	}

	void rx(u32 i, u32 bytes, u64 demand) { mroce_share_rx(&s, &peers[i], bytes, demand, now); }
	double level() const { return double(mroce_hint_decode(s.hint)); }

	void update(u64 after)
	{
		now += after;
		mroce_share_update(&s, now);
	}
};

TEST_F(FairShare, Sec53_OneSenderIsNotLimited)
{
	rx(0, 4096, 1 << 30);
	update(kRtt / 2);
	EXPECT_EQ(s.n_active, 1u);
	EXPECT_EQ(s.hint, MROCE_HINT_UNLIMITED);
}

TEST_F(FairShare, Sec53_SendersWithEnoughShareEqually)
{
	for (u32 i = 0; i < 63; i++)
		rx(i, 4096, 8 << 20);
	update(kRtt / 8);
	EXPECT_NEAR(level(), double(kC) / 63, double(kC) / 63 * 0.01);
}

TEST_F(FairShare, Sec53_WhatOneDoesNotWantGoesToTheOthers)
{
	/* Peer 0 sends 2 Gb/s and no more, the other three all they may. */
	for (int k = 0; k < 40; k++) {
		rx(0, 2000000000ull / 8 * (kRtt / 2) / 1000000000, 1 << 30);
		for (u32 i = 1; i < 4; i++)
			rx(i, u32(31e9 / 8 * (kRtt / 2) / 1e9), 1 << 30);
		update(kRtt / 2);
	}
	/* Twice its rate is set aside for peer 0; the port is full, nothing is over-committed. */
	EXPECT_NEAR(level(), (double(kC) - 4e9) / 3, 0.3e9);
}

TEST_F(FairShare, Sec53_NothingQueuedWantsNothingMore)
{
	rx(0, 100, 0);
	rx(1, 4096, 1 << 30);
	rx(2, 4096, 1 << 30);
	update(kRtt / 2);
	EXPECT_GT(level(), double(kC) / 2 * 0.98);
}

TEST_F(FairShare, Sec53_ASmallMessageIsWorthItsBytes)
{
	rx(0, 4096, 65536);	/* 64 KiB per round trip: 5.2 Gb/s */
	rx(1, 4096, 1 << 30);
	rx(2, 4096, 1 << 30);
	update(kRtt / 2);
	EXPECT_NEAR(level(), (double(kC) - 65536 * 8e9 / kRtt) / 2, 4e9);
}

TEST_F(FairShare, Sec53_TheSilentLoseTheirShare)
{
	for (u32 i = 0; i < 4; i++)
		rx(i, 4096, i < 2 ? 0 : 1 << 30);
	update(kRtt / 2);
	EXPECT_EQ(s.n_active, 4u);
	now += 2 * kRtt;
	rx(0, 4096, 1 << 30);
	rx(3, 4096, 1 << 30);
	update(kRtt / 2);
	EXPECT_EQ(s.n_active, 3u);	/* 2 has data queued: it is waited for */
	update(16 * kRtt);
	EXPECT_EQ(s.n_active, 0u);
	EXPECT_EQ(s.hint, MROCE_HINT_UNLIMITED);
	rx(1, 4096, 1 << 30);
	EXPECT_EQ(s.n_active, 1u);
}

TEST_F(FairShare, Sec53_NobodyIsHeldBackWhereThereIsRoom)
{
	for (int k = 0; k < 20; k++) {
		for (u32 i = 0; i < 4; i++)
			rx(i, 62500, 1 << 30);	/* 10 Gb/s each */
		update(kRtt / 2);
	}
	EXPECT_EQ(s.hint, MROCE_HINT_UNLIMITED);
}

TEST_F(FairShare, Sec53_MoreIsPromisedWhileLessArrivesThanCould)
{
	/* All have enough, but elsewhere: half of the port stays idle. */
	for (int k = 0; k < 200; k++) {
		for (u32 i = 0; i < 4; i++)
			rx(i, u32(12e9 / 8 * (kRtt / 2) / 1e9), 65535u << 16);
		peers[0].age = peers[1].age = peers[2].age = peers[3].age = 0;	/* rates unknown */
		update(kRtt / 2);
	}
	EXPECT_NEAR(level(), double(kC) / 4 * 1.5, double(kC) * 0.01);
}

TEST_F(FairShare, Sec53_UpdatesAreAskedForInTime)
{
	s.period_ns = 0;
	update(0);
	EXPECT_FALSE(mroce_share_rx(&s, &peers[0], 1, 1, now + kRtt / 8 - 1));
	EXPECT_TRUE(mroce_share_rx(&s, &peers[0], 1, 1, now + kRtt / 8));	/* somebody new */
	update(kRtt / 8);
	EXPECT_FALSE(mroce_share_rx(&s, &peers[0], 1, 1, now + kRtt / 2 - 1));
	EXPECT_TRUE(mroce_share_rx(&s, &peers[0], 1, 1, now + kRtt / 2));
	s.period_ns = MROCE_SHARE_PERIOD_NS;
	s.rtt_ns = 8000;
	EXPECT_FALSE(mroce_share_rx(&s, &peers[0], 1, 1, now + 49999));
}

TEST_F(FairShare, Sec53_OtherTrafficAndABusyHostTakeTheirPart)
{
	mroce_share_load(&s, 40000000000ull, false);
	EXPECT_EQ(s.capacity, kC - 40000000000ull);
	mroce_share_load(&s, 40000000000ull, true);
	EXPECT_EQ(s.capacity, (kC - 40000000000ull) * 8 / 10);
	mroce_share_load(&s, ~0ull, true);
	EXPECT_GT(s.capacity, 0u);
}

TEST_F(FairShare, Sec7_FourThousandPeersComeAndGo)
{
	for (u32 i = 0; i < 4000; i++)
		rx(i, 4096, 1 << 20);
	update(kRtt / 2);
	EXPECT_EQ(s.n_active, 4000u);
	EXPECT_NEAR(level(), double(kC) / 4000, double(kC) / 4000 * 0.01);
	for (u32 i = 0; i < 4000; i += 2)
		mroce_share_forget(&s, &peers[i]);
	EXPECT_EQ(s.n_active, 2000u);
	mroce_share_forget(&s, &peers[0]);
	for (u32 i = 1; i < 4000; i += 2)
		mroce_share_forget(&s, &peers[i]);
	EXPECT_EQ(s.n_active, 0u);
	EXPECT_EQ(s.peers, nullptr);
}

} // namespace
