// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

extern "C" {
#include "path_tx.h"
}

namespace {

struct PathTx : ::testing::Test {
	mroce_tx_slot ring[MROCE_PATH_RING] = {};
	mroce_tx_path p{};
	mroce_pkt_ref refs[MROCE_SACK_BITS];
	mroce_path_acked a;
	u64 now = 1000000000;

	PathTx()
	{
		mroce_rtx_queue_init(&p.rtx);
		mroce_path_attach(&p, ring);
	}

	void push(u32 spsn)
	{
		mroce_pkt_ref r{};

		r.qpn = 1;
		r.spsn = spsn;
		r.bytes = 1000;
		mroce_path_push(&p, &r, now);
	}

	int ack(u32 max, std::set<u32> missing = {}, int gen = -1)
	{
		mroce_ack_path b{};

		b.gen = gen < 0 ? p.gen : u16(gen);
		b.max_psn = max;
		for (u32 i = 0; i < MROCE_SACK_BITS && i <= max; i++)
			if (!missing.count(max - i))
				b.sack[i / 64] |= 1ull << (i % 64);
		if (mroce_path_check(&p, &b))
			return -EINVAL;
		mroce_path_sack(&p, &b, now, 1000000, refs, &a);
		return 0;
	}

	std::vector<u32> lost(u64 srtt = 100000, u64 reo = 0)
	{
		std::vector<u32> out;
		mroce_pkt_ref r;
		u32 pos = p.una;
		enum mroce_slot_state st;

		while ((st = mroce_path_next_lost(&p, now, srtt, reo, &pos, &r)) != MROCE_SLOT_FREE)
			if (st == MROCE_SLOT_DATA)
				out.push_back(r.spsn);
		mroce_path_advance(&p);
		return out;
	}
};

using Spsns = std::vector<u32>;

TEST_F(PathTx, Sec31_EveryTransmissionHasANewPsn)
{
	for (u32 i = 0; i < 10; i++)
		EXPECT_EQ(mroce_path_push(&p, nullptr, now), i);
	EXPECT_EQ(p.n_flight, 10);
	EXPECT_EQ(p.n_data, 0);
}

TEST_F(PathTx, Path32Rule1_GapIsLostNow)
{
	for (u32 i = 0; i < 10; i++)
		push(100 + i);
	EXPECT_EQ(ack(6, {2, 5}), 0);
	EXPECT_EQ(a.n_refs, 5u);
	EXPECT_EQ(a.bytes, 5000u);
	EXPECT_TRUE(a.newest);
	EXPECT_EQ(lost(), (Spsns{102, 105}));
	EXPECT_EQ(p.n_data, 3);
	EXPECT_EQ(p.inflight, 3000u);
	EXPECT_EQ(lost(), Spsns{});
}

TEST_F(PathTx, Path32Rule1_AboveMaxPsnNothingIsKnown)
{
	for (u32 i = 0; i < 4; i++)
		push(i);
	ack(1);
	EXPECT_EQ(lost(), Spsns{});
	EXPECT_EQ(p.n_data, 2);
}

TEST_F(PathTx, Path32Rule1_OlderBlockChangesNothing)
{
	for (u32 i = 0; i < 10; i++)
		push(i);
	ack(9, {4});
	EXPECT_EQ(lost(), Spsns{4});
	EXPECT_EQ(ack(6, {4}), 0);
	EXPECT_EQ(a.n_new, 0u);
	EXPECT_FALSE(a.newest);
	EXPECT_EQ(lost(), Spsns{});
	EXPECT_EQ(p.n_flight, 0);
}

TEST_F(PathTx, Path32Rule2_HorizonIsTheRing)
{
	for (u32 i = 0; i < MROCE_PATH_DATA_MAX; i++) {
		ASSERT_TRUE(mroce_path_room(&p));
		push(i);
	}
	EXPECT_FALSE(mroce_path_room(&p));
	while (p.head - p.una < MROCE_PATH_RING)
		mroce_path_push(&p, nullptr, now);
	std::set<u32> missing;
	for (u32 i = 0; i < 255; i++)
		missing.insert(i);
	EXPECT_EQ(ack(255, missing), 0);
	EXPECT_EQ(lost().size(), size_t(MROCE_PATH_DATA_MAX));
	EXPECT_EQ(p.n_flight, 0);
	EXPECT_EQ(p.una, p.head);
}

TEST_F(PathTx, Path32Rule2_TheOldestMakesRoomForAProbe)
{
	mroce_pkt_ref r;

	for (u32 i = 0; i < MROCE_PATH_RING; i++)
		push(i);
	EXPECT_TRUE(mroce_path_evict(&p, &r));
	EXPECT_EQ(r.spsn, 0u);
	mroce_path_push(&p, nullptr, now);
	EXPECT_EQ(p.n_flight, MROCE_PATH_RING);
	EXPECT_EQ(p.n_data, MROCE_PATH_RING - 1);
}

TEST_F(PathTx, Path32Rule3_OldGenerationIsLostByTimeOnly)
{
	for (u32 i = 0; i < 6; i++)
		push(i);
	ack(1);
	mroce_path_new_gen(&p, now);
	EXPECT_EQ(mroce_path_next_psn(&p), 0u);
	push(10);
	push(11);
	EXPECT_EQ(ack(1), 0);				/* of the new one */
	EXPECT_EQ(a.n_refs, 2u);
	EXPECT_EQ(lost(), Spsns{});
	EXPECT_EQ(ack(3, {2}, u16(p.gen - 1)), 0);	/* a gap in the old one */
	EXPECT_FALSE(a.of_gen);
	EXPECT_EQ(lost(), Spsns{});
	now += 112499;
	EXPECT_EQ(lost(), Spsns{});
	now += 1;
	EXPECT_EQ(lost(), (Spsns{2, 4, 5}));
	EXPECT_EQ(p.n_flight, 0);
}

TEST_F(PathTx, Path32Rule3_OnlyTwoGenerationsAreKnown)
{
	push(0);
	mroce_path_new_gen(&p, now);
	push(1);
	EXPECT_EQ(ack(0, {}, 0), 0);
	mroce_path_new_gen(&p, now);
	push(2);
	EXPECT_EQ(ack(0, {}, 0), -EINVAL);
	EXPECT_EQ(ack(0, {}, 1), 0);
	EXPECT_EQ(ack(0, {}, 2), 0);
	EXPECT_EQ(ack(0, {}, 3), -EINVAL);
	p.old_valid = 0;
	EXPECT_EQ(ack(0, {}, 1), -EINVAL);
}

TEST_F(PathTx, Path32Rule3_GenerationWraps)
{
	p.gen = 0xfffe;
	for (u32 g = 0; g < 4; g++) {
		u16 left = p.gen;

		push(g);
		mroce_path_new_gen(&p, now);
		EXPECT_EQ(p.gen, u16(left + 1));
		push(g + 100);
		EXPECT_EQ(ack(0, {}, u16(left - 2)), -EINVAL);
		EXPECT_EQ(ack(mroce_path_next_psn(&p) - 1), 0);
		EXPECT_EQ(refs[0].spsn, g + 100);
		EXPECT_EQ(ack(g ? 1 : 0, {}, left), 0);
		ASSERT_EQ(a.n_refs, 1u);
		EXPECT_EQ(refs[0].spsn, g);
		EXPECT_EQ(p.n_flight, 0);
	}
	EXPECT_EQ(p.gen, 2);
}

TEST_F(PathTx, Path32Rule4_LateBitIsSpurious)
{
	for (u32 i = 0; i < 5; i++)
		push(i);
	ack(4, {2, 3});
	EXPECT_EQ(lost(), (Spsns{2, 3}));
	ack(4, {3});
	EXPECT_EQ(a.n_spurious, 1u);
	ASSERT_EQ(a.n_refs, 1u);
	EXPECT_EQ(refs[0].spsn, 2u);
	EXPECT_EQ(a.bytes, 0u);
	ack(4);
	EXPECT_EQ(a.n_spurious, 1u);
	EXPECT_EQ(p.n_lost, 0);
}

TEST_F(PathTx, Path32Rule4_LostSlotsAreForgottenAfterAWhile)
{
	for (u32 i = 0; i < 5; i++)
		push(i);
	ack(4, {2});
	lost();
	EXPECT_EQ(p.n_lost, 1);
	now += 2000000;
	ack(4, {2});
	EXPECT_EQ(p.n_lost, 0);
	ack(4);
	EXPECT_EQ(a.n_spurious, 0u);
}

TEST_F(PathTx, Path32Rule4_ReorderWindowWaits)
{
	for (u32 i = 0; i < 3; i++)
		push(i);
	now += 100000;
	ack(2, {1});
	EXPECT_EQ(lost(100000, 25000), Spsns{});
	EXPECT_GE(p.reo_deadline, now + 24000);
	EXPECT_LE(p.reo_deadline, now + 26000);
	now = p.reo_deadline;
	EXPECT_EQ(lost(100000, 25000), Spsns{1});
}

TEST_F(PathTx, Path32Rule7_TakenPacketIsNotCountedButStillHeardOf)
{
	mroce_pkt_ref r;

	push(0);
	push(1);
	ASSERT_TRUE(mroce_path_take_oldest(&p, &r));
	EXPECT_EQ(r.spsn, 0u);
	EXPECT_EQ(p.inflight, 1000u);
	EXPECT_EQ(p.n_data, 1);
	EXPECT_EQ(p.n_flight, 2);
	ack(0);
	EXPECT_EQ(a.n_refs, 1u);
	EXPECT_EQ(a.bytes, 0u);
	EXPECT_EQ(a.n_spurious, 0u);
	ASSERT_TRUE(mroce_path_take_oldest(&p, &r));
	EXPECT_EQ(r.spsn, 1u);
	EXPECT_FALSE(mroce_path_take_oldest(&p, &r));
	mroce_path_push(&p, nullptr, now);
	ack(2, {1});
	EXPECT_EQ(lost(), Spsns{});		/* it is resent already */
	EXPECT_EQ(p.n_flight, 0);
}

TEST_F(PathTx, Sec2_HostileBlocksAreRefused)
{
	mroce_ack_path b{};

	for (u32 i = 0; i < 5; i++)
		push(i);
	EXPECT_EQ(ack(5), -EINVAL);			/* never sent */
	EXPECT_EQ(ack(0xffffffff), -EINVAL);
	EXPECT_EQ(ack(4, {4}), -EINVAL);		/* max_psn without its bit */
	EXPECT_EQ(ack(4, {}, 1), -EINVAL);
	b.max_psn = 4;
	b.sack[0] = 0x3f;				/* PSN -1 */
	EXPECT_EQ(mroce_path_check(&p, &b), -EINVAL);
	b.sack[0] = 0x1f;
	b.sack[3] = 1ull << 63;
	EXPECT_EQ(mroce_path_check(&p, &b), -EINVAL);
	b.sack[3] = 0;
	b.cum_psn = 6;
	EXPECT_EQ(mroce_path_check(&p, &b), -EINVAL);
	b.cum_psn = 5;
	EXPECT_EQ(mroce_path_check(&p, &b), 0);
	EXPECT_EQ(p.n_data, 5);
}

TEST_F(PathTx, Sec31_PositionsWrapAndTimestampsToo)
{
	u64 wrap = 1ull << 38;
	std::set<u32> missing;
	u32 psn = 0;

	p.head = p.una = p.base = p.acked_hi = p.lost_lo = 0xffffff80u;
	now = 3 * wrap - 10000;
	for (u32 round = 0; round < 100; round++) {
		for (u32 i = 0; i < 4; i++)
			push(psn + i);
		now += 400;
		missing.insert(psn + 1);
		ASSERT_EQ(ack(psn + 3, missing), 0);
		ASSERT_EQ(a.n_refs, 3u);
		ASSERT_EQ(lost(), Spsns{psn + 1});
		ASSERT_EQ(p.una, p.head);
		psn += 4;
	}
	EXPECT_LT(p.head, 0x1000u);
	EXPECT_GT(now, 3 * wrap);
}

TEST_F(PathTx, Sec63_QpIsForgotten)
{
	mroce_pkt_ref r{};

	for (u32 i = 0; i < 20; i++) {
		r.qpn = i % 2;
		r.spsn = i;
		r.bytes = 10;
		mroce_path_push(&p, &r, now);
	}
	ack(3, {1, 2});
	lost();
	mroce_path_forget_qp(&p, 1);
	EXPECT_EQ(p.n_data, 8);
	EXPECT_EQ(p.n_lost, 1);
	ack(19);
	for (u32 i = 0; i < a.n_refs; i++)
		EXPECT_EQ(refs[i].qpn, 0u);
	EXPECT_EQ(p.n_flight, 0);
}

TEST(RtxQueue, Path32Rule10_OrderAndPool)
{
	mroce_rtx_node node[4];
	mroce_rtx_pool pool;
	mroce_rtx_queue q, h;
	mroce_pkt_ref r{};

	mroce_rtx_pool_init(&pool, node, 4);
	mroce_rtx_queue_init(&q);
	mroce_rtx_queue_init(&h);
	auto put = [&](mroce_rtx_queue *to, u32 n, bool head) {
		r.spsn = n;
		r.qpn = n % 2;
		return head ? mroce_rtx_push_head(&pool, to, &r) : mroce_rtx_push_tail(&pool, to, &r);
	};
	auto pop = [&](mroce_rtx_queue *from) {
		return mroce_rtx_pop(&pool, from, &r) ? int(r.spsn) : -1;
	};
	EXPECT_TRUE(put(&q, 1, false));
	EXPECT_TRUE(put(&q, 2, false));
	EXPECT_TRUE(put(&q, 0, true));
	EXPECT_TRUE(put(&h, 9, false));
	EXPECT_FALSE(put(&h, 10, false));
	mroce_rtx_splice(&pool, &q, &h);
	EXPECT_EQ(h.n, 0);
	EXPECT_EQ(q.n, 4);
	EXPECT_EQ(pop(&q), 9);
	EXPECT_EQ(pop(&q), 0);
	EXPECT_EQ(mroce_rtx_forget_qp(&pool, &q, 0), 1u);
	EXPECT_EQ(pop(&q), 1);
	EXPECT_EQ(pop(&q), -1);
	EXPECT_EQ(pool.used, 0);
	EXPECT_TRUE(put(&q, 5, true));
	EXPECT_TRUE(put(&q, 6, false));
	EXPECT_EQ(mroce_rtx_forget_qp(&pool, &q, 0), 1u);
	EXPECT_TRUE(put(&q, 7, false));
	EXPECT_EQ(pop(&q), 5);
	EXPECT_EQ(pop(&q), 7);
}

} // namespace
