// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tx_loop.h"

namespace {

const u32 kMss = 4156;

struct Cc : ::testing::Test {
	TxMem m{16, kMss, 7, true, 1000000000};
	mroce_conn_tx &tx = m.tx;
	u64 now = 1000000000;

	Cc()
	{
		for (auto &p : m.paths) {
			mroce_rtt_sample(&p.rtt, 100000, now);
			p.srtt_ns = 100000;
		}
		tx.srtt_ns = 100000;
	}

	/* n packets of path i arrived, ce of them marked; the windows were full. */
	void acked(u32 i, u32 n, u32 ce = 0)
	{
		mroce_tx_path &p = m.paths[i];
		mroce_path_acked a{};
		mroce_ack_path b{};

		b.rx_pkts = p.rx_seen + n;
		b.ce_pkts = p.ce_seen + ce;
		a.bytes = n * kMss;
		a.n_new = a.n_data = n;
		mroce_cc_ack(&tx, &p, &b, &a, p.cwnd, tx.cc.w, now);
	}

	void path_round(u32 i)
	{
		mroce_cc_path_round_over(&tx, &m.paths[i], now);
		mroce_cc_path_round_next(&m.paths[i], now);
	}
};

TEST_F(Cc, Sec52_StartsWith64Packets)
{
	EXPECT_EQ(tx.cc.w, 64u * kMss);
	EXPECT_EQ(tx.cc.sum_w, 64u * kMss);
	EXPECT_EQ(m.paths[3].cwnd, 4u * kMss);
	EXPECT_EQ(tx.n_active, 16);
}

TEST_F(Cc, Sec52_CoupledIncreaseIsOnePacketPerRttOverAllPaths)
{
	u64 w = tx.cc.w, sum = tx.cc.sum_w;

	tx.cc.last_ce = now;		/* no fast growth */
	for (u32 i = 0; i < 16; i++)
		acked(i, 4);
	EXPECT_NEAR(double(tx.cc.w - w), kMss, kMss * 0.05);
	EXPECT_NEAR(double(tx.cc.sum_w - sum), kMss, kMss * 0.05);
}

TEST_F(Cc, Sec52_EightTimesFasterWithoutMarksFor4Rtts)
{
	u64 w = tx.cc.w;

	for (u32 i = 0; i < 16; i++)
		acked(i, 4);
	EXPECT_NEAR(double(tx.cc.w - w), 8.0 * kMss, 0.8 * kMss);
	tx.cc.last_ce = now;
	now += 400000;
	w = tx.cc.w;
	acked(0, 4);
	u64 slow = tx.cc.w - w;
	now += 1;
	w = tx.cc.w;
	acked(0, 4);
	EXPECT_NEAR(double(tx.cc.w - w), 8.0 * slow, slow * 0.1);
}

TEST_F(Cc, Sec52_UnusedWindowDoesNotGrow)
{
	mroce_path_acked a{};
	mroce_ack_path b{};
	u64 w = tx.cc.w;

	a.bytes = kMss;
	a.n_new = a.n_data = 1;
	b.rx_pkts = 1;
	mroce_cc_ack(&tx, &m.paths[0], &b, &a, kMss, kMss, now);
	EXPECT_EQ(tx.cc.w, w);
	EXPECT_EQ(m.paths[0].cwnd, 4 * kMss);
}

TEST_F(Cc, Sec52_AllMarkedHalvesOncePerRtt)
{
	for (auto &p : m.paths)
		mroce_cc_set_cwnd(&tx, &p, 16 * kMss);
	u64 w = tx.cc.w;

	for (u32 k = 0; k < 3; k++)
		for (u32 i = 0; i < 16; i++)
			acked(i, 4, 4);
	EXPECT_NEAR(double(tx.cc.w), double(w) / 2, kMss);
	EXPECT_NEAR(m.paths[5].cwnd, 8 * kMss, kMss);
	EXPECT_EQ(tx.stats.ce_cuts, 16u);
	now += 100000;
	acked(5, 4, 4);
	EXPECT_EQ(tx.stats.ce_cuts, 17u);
}

TEST_F(Cc, Sec52_OneMarkedPathOf16CostsTheConnectionLittle)
{
	u64 w;

	for (auto &p : m.paths)
		mroce_cc_set_cwnd(&tx, &p, 16 * kMss);
	for (u32 r = 0; r < 60; r++) {		/* the averages settle */
		tx.cc.last_ce = now;
		for (u32 i = 0; i < 16; i++)
			acked(i, 16, i == 3 ? 16 : 0);
		now += 100001;
		for (u32 i = 0; i < 16; i++)
			path_round(i);
		mroce_cc_round(&tx, now);
	}
	EXPECT_NEAR(tx.cc.alpha, MROCE_ALPHA_ONE / 16, MROCE_ALPHA_ONE / 100);
	EXPECT_NEAR(m.paths[3].alpha, MROCE_ALPHA_ONE, MROCE_ALPHA_ONE / 100);
	EXPECT_EQ(m.paths[4].alpha, 0u);
	mroce_cc_set_cwnd(&tx, &m.paths[3], 16 * kMss);
	tx.cc.w = w = 256 * kMss;
	acked(3, 16, 16);
	EXPECT_NEAR(double(tx.cc.w) / double(w), 0.97, 0.01);
	EXPECT_NEAR(m.paths[3].cwnd, 8 * kMss, kMss / 5);
}

TEST_F(Cc, Path32Rule8_LossWithoutMarksTakesATwentiethOncePerRtt)
{
	for (auto &p : m.paths)
		mroce_cc_set_cwnd(&tx, &p, 20 * kMss);
	u64 w = tx.cc.w;

	mroce_cc_lost(&tx, &m.paths[2], 1, now);
	mroce_cc_lost(&tx, &m.paths[2], 3, now + 99999);
	EXPECT_EQ(m.paths[2].cwnd, 19 * kMss);
	EXPECT_NEAR(double(tx.cc.w), double(w) * (1 - 0.05 / 16), 10);
	EXPECT_EQ(tx.stats.loss_cuts, 1u);
	mroce_cc_lost(&tx, &m.paths[2], 1, now + 100000);
	EXPECT_EQ(tx.stats.loss_cuts, 2u);
}

TEST_F(Cc, Path32Rule4_UndoGivesBack)
{
	mroce_cc_set_cwnd(&tx, &m.paths[2], 20 * kMss);
	u64 w = tx.cc.w, sum = tx.cc.sum_w;

	mroce_cc_lost(&tx, &m.paths[2], 1, now);
	EXPECT_LT(tx.cc.w, w);
	mroce_cc_undo(&tx, &m.paths[2]);
	EXPECT_EQ(tx.cc.w, w);
	EXPECT_EQ(tx.cc.sum_w, sum);
	EXPECT_EQ(m.paths[2].cwnd, 20 * kMss);
	mroce_cc_undo(&tx, &m.paths[2]);
	EXPECT_EQ(tx.cc.w, w);
}

TEST_F(Cc, Sec4_LossWithMarksIsTreatedAsMarks)
{
	mroce_cc_set_cwnd(&tx, &m.paths[2], 20 * kMss);
	acked(2, 4, 4);
	u32 cut = m.paths[2].cwnd;
	mroce_cc_lost(&tx, &m.paths[2], 1, now + 50000);
	EXPECT_EQ(m.paths[2].cwnd, cut);	/* that was this round trip's */
	EXPECT_EQ(tx.stats.loss_cuts, 0u);
}

TEST_F(Cc, Sec52_FloorIsTwoPackets)
{
	for (u32 k = 0; k < 200; k++, now += 100001)
		for (u32 i = 0; i < 16; i++) {
			acked(i, 4, 4);
			path_round(i);
		}
	EXPECT_EQ(m.paths[0].cwnd, 2 * kMss);
	EXPECT_GE(tx.cc.w, 2u * kMss);
	EXPECT_LT(tx.cc.w, 3u * kMss);
	EXPECT_EQ(tx.cc.sum_w, 32u * kMss);
}

TEST_F(Cc, Sec52_WindowIsCapped)
{
	for (u32 k = 0; k < 20000; k++)
		acked(k % 16, 16);
	EXPECT_EQ(tx.cc.w, MROCE_CC_W_MAX);
	EXPECT_LE(m.paths[0].cwnd, 256u * kMss);
	tx.cc.w_max = 1u << 20;
	acked(0, 1);
	EXPECT_EQ(tx.cc.w, 1u << 20);
}

TEST_F(Cc, Sec52_HintLimitsAtOnceAndLiftsInOneStep)
{
	u16 low = mroce_hint_encode(1000000000);	/* 1 Gb/s: 12.5 KB per 100 us */
	u16 high = mroce_hint_encode(100000000000);

	mroce_cc_hint(&tx, 0, high, now);
	EXPECT_NEAR(double(tx.cc.w_hint), 1.15 * 1250000, 5000);
	EXPECT_EQ(tx.cc.w, 64u * kMss);			/* a first hint is none that rises */
	mroce_cc_hint(&tx, 0, low, now);
	EXPECT_NEAR(double(mroce_cc_limit(&tx)), 1.15 * 12500, 100);
	mroce_cc_hint(&tx, 0, high, now);
	EXPECT_EQ(tx.cc.w, 64u * kMss);			/* nor is one at a start: who knows who else begins */
	tx.cc.starting = 0;
	mroce_cc_hint(&tx, 0, low, now);
	mroce_cc_hint(&tx, 0, high, now);
	EXPECT_NEAR(double(tx.cc.w), 0.9 * 1.15 * 1250000, 5000);
	EXPECT_NEAR(double(tx.cc.sum_w), double(tx.cc.w), 10000);
	mroce_cc_hint(&tx, 0, MROCE_HINT_UNLIMITED, now);
	EXPECT_EQ(tx.cc.w_hint, MROCE_CC_HINT_NONE);
	mroce_cc_hint(&tx, 0, 1, now);			/* 64 kb/s */
	EXPECT_EQ(mroce_cc_limit(&tx), 2u * kMss);
	mroce_cc_hint(&tx, 0, MROCE_HINT_NONE, now);
	EXPECT_EQ(tx.cc.w_hint, MROCE_CC_HINT_NONE);
	mroce_cc_hint(&tx, 200, 1, now);		/* no such plane */
	EXPECT_EQ(tx.cc.w_hint, MROCE_CC_HINT_NONE);
}

TEST_F(Cc, Sec52_OldHintIsIgnored)
{
	mroce_cc_hint(&tx, 0, mroce_hint_encode(1000000000), now);
	EXPECT_NE(tx.cc.w_hint, MROCE_CC_HINT_NONE);
	now += 800000;
	mroce_cc_round(&tx, now);
	EXPECT_NE(tx.cc.w_hint, MROCE_CC_HINT_NONE);
	now += 100001;
	mroce_cc_round(&tx, now);
	EXPECT_EQ(tx.cc.w_hint, MROCE_CC_HINT_NONE);
}

TEST_F(Cc, Sec52_NoDoubleReactionWhereTheHintBinds)
{
	mroce_cc_hint(&tx, 0, mroce_hint_encode(1000000000), now);
	u64 w = tx.cc.w;

	for (auto &p : m.paths) {
		p.last_sent = now;
		p.last_ce = now;
	}
	acked(0, 4, 4);
	EXPECT_EQ(tx.cc.w, w);
	EXPECT_LT(m.paths[0].cwnd, 4u * kMss);
	for (u32 i = 0; i < 8; i++)
		m.paths[i].last_ce = 0;
	acked(1, 4, 4);
	EXPECT_LT(tx.cc.w, w);
}

TEST_F(Cc, Sec52_IdleRestart)
{
	tx.cc.w = 800 * kMss;
	mroce_cc_sent(&tx, now + 700000);
	EXPECT_EQ(tx.cc.w, 800u * kMss);
	mroce_cc_sent(&tx, now + 700000 + 800001);
	EXPECT_EQ(tx.cc.w, 400u * kMss);
	mroce_cc_sent(&tx, now + 100000000);
	mroce_cc_sent(&tx, now + 200000000);
	mroce_cc_sent(&tx, now + 300000000);
	mroce_cc_sent(&tx, now + 400000000);
	EXPECT_EQ(tx.cc.w, 64u * kMss);
}

TEST_F(Cc, Sec52_W0LearnsFromStarts)
{
	auto rounds = [&](u32 n) {
		for (u32 k = 0; k < n; k++) {
			acked(0, 4);
			mroce_cc_round(&tx, now += 100001);
		}
	};

	acked(0, 4);
	mroce_cc_lost(&tx, &m.paths[0], 1, now);
	mroce_cc_round(&tx, now += 100001);
	EXPECT_EQ(tx.cc.w0, 32u * kMss);
	rounds(3);
	EXPECT_EQ(tx.cc.w0, 32u * kMss);	/* the start has met loss */
	mroce_cc_sent(&tx, now += 10000000);
	rounds(4);
	EXPECT_EQ(tx.cc.w0, 64u * kMss);	/* this one was clean */
	rounds(4);
	EXPECT_EQ(tx.cc.w0, 64u * kMss);	/* no start */
}

TEST_F(Cc, Sec52_W0IsWhatTheHintSays)
{
	acked(0, 4);
	mroce_cc_round(&tx, now += 100001);
	mroce_cc_hint(&tx, 0, mroce_hint_encode(1000000000), now);
	acked(0, 4);
	mroce_cc_round(&tx, now += 100001);	/* in one of the next rounds: others begin later */
	EXPECT_NEAR(double(tx.cc.w0), 1.15 * 12500, 100);
	mroce_cc_hint(&tx, 0, MROCE_HINT_UNLIMITED, now);
	for (u32 k = 0; k < 2; k++) {
		acked(0, 4);
		mroce_cc_round(&tx, now += 100001);
	}
	EXPECT_EQ(tx.cc.starting, 0u);
	EXPECT_NEAR(double(tx.cc.w0), 1.15 * 12500, 100);
}

TEST_F(Cc, Sec52_AStartThatHasMetOthersDoesNotRace)
{
	u64 w = tx.cc.w;

	acked(0, 16);
	u64 fast = tx.cc.w - w;
	tx.cc.w0 /= 2;
	w = tx.cc.w;
	acked(0, 16);
	EXPECT_LT(tx.cc.w - w, fast / 4);
}

TEST_F(Cc, Sec52_CountersThatJumpOrGoBackSayNothing)
{
	mroce_tx_path &p = m.paths[0];
	mroce_path_acked a{};
	mroce_ack_path b{};

	acked(0, 100, 1);
	u64 cuts = tx.stats.ce_cuts;
	b.rx_pkts = 50;
	b.ce_pkts = 50;
	mroce_cc_ack(&tx, &p, &b, &a, 0, 0, now + 200000);
	b.rx_pkts = 0x80000000;
	b.ce_pkts = 0x80000000;
	mroce_cc_ack(&tx, &p, &b, &a, 0, 0, now + 200000);
	EXPECT_EQ(tx.stats.ce_cuts, cuts);
	EXPECT_EQ(p.rx_seen, 100u);
	b.rx_pkts = 104;
	b.ce_pkts = 0;				/* marks cannot be taken back */
	mroce_cc_ack(&tx, &p, &b, &a, 0, 0, now + 200000);
	EXPECT_EQ(tx.stats.ce_cuts, cuts);
}

} // namespace
