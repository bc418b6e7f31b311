// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tx_loop.h"

namespace {

const u32 kMss = 4156;

struct Sched : ::testing::Test {
	TxMem m{16, kMss, 99, true, 1000000000};
	mroce_conn_tx &tx = m.tx;

	std::vector<u32> picks(u32 n)
	{
		std::vector<u32> count(16);

		for (u32 i = 0; i < n; i++) {
			int k = mroce_conn_tx_pick(&tx, kMss);
			if (k >= 0)
				count[k]++;
		}
		return count;
	}
};

TEST_F(Sched, Sec52_ActivePathsFollowTheWindow)
{
	const std::pair<u32, u32> expect[] = {{2, 2}, {8, 2}, {15, 3}, {32, 8}, {64, 16}, {900, 16}};

	for (auto [packets, active] : expect) {
		tx.cc.w = u64(packets) * kMss;
		EXPECT_EQ(mroce_sched_n_active(&tx), active) << packets;
	}
}

TEST_F(Sched, Sec52_SmallWindowUsesFewPaths)
{
	tx.cc.w = 16 * kMss;
	mroce_sched_rebuild(&tx);
	auto c = picks(1000);
	EXPECT_EQ(std::count(c.begin(), c.end(), 0u), 12);
}

TEST_F(Sched, Sec52_EvenPathsShareEvenly)
{
	for (u32 n : picks(16000)) {
		EXPECT_GT(n, 800u);
		EXPECT_LT(n, 1200u + 600u);
	}
}

TEST_F(Sched, Sec52_TheFreerOfTwoWins)
{
	mroce_cc_set_cwnd(&tx, &m.paths[6], 100 * kMss);
	auto c = picks(16000);
	EXPECT_NEAR(c[6], 16000 * (1 - 225. / 256), 200);	/* whenever it is drawn */
}

TEST_F(Sched, Sec52_FullPathsAreLeftOutUntilNoneIsFree)
{
	for (u32 i = 0; i < 16; i++)
		if (i != 11)
			m.paths[i].inflight = m.paths[i].cwnd;
	EXPECT_EQ(picks(100)[11], 100u);
	m.paths[11].inflight = m.paths[11].cwnd;
	EXPECT_EQ(mroce_conn_tx_pick(&tx, kMss), -1);
	m.paths[11].inflight -= 1;
	EXPECT_EQ(mroce_conn_tx_pick(&tx, kMss), 11);
	tx.inflight = tx.cc.w;					/* the connection's window */
	EXPECT_EQ(mroce_conn_tx_pick(&tx, kMss), -1);
}

TEST_F(Sched, Sec4_CongestedPathsComeLast)
{
	m.paths[0].state = MROCE_PATH_CONGESTED;
	m.paths[1].state = MROCE_PATH_SUSPECT;
	tx.cc.w = 32 * kMss;
	mroce_sched_rebuild(&tx);
	EXPECT_EQ(tx.n_sendable, 15);
	EXPECT_EQ(tx.order[14], 0);
	auto c = picks(1000);
	EXPECT_EQ(c[0], 0u);
	EXPECT_EQ(c[1], 0u);
	for (u32 i = 2; i < 16; i++)
		m.paths[i].inflight = m.paths[i].cwnd;
	EXPECT_EQ(mroce_conn_tx_pick(&tx, kMss), 0);
}

TEST_F(Sched, Path32Rule7_NoNewDataAfterATimeout)
{
	m.paths[4].pto_cnt = 1;
	EXPECT_EQ(picks(1000)[4], 0u);
	EXPECT_EQ(mroce_sched_best(&tx, 16, true) == 4, false);
	for (auto &p : m.paths)
		p.pto_cnt = 1;
	EXPECT_EQ(mroce_conn_tx_pick(&tx, kMss), -1);
	EXPECT_EQ(mroce_sched_best(&tx, 16, true), -1);
	EXPECT_GE(mroce_sched_best(&tx, 16, false), 0);
}

TEST_F(Sched, Path32Rule10_NoNewDataInFrontOfARetransmission)
{
	mroce_pkt_ref r{};

	r.bytes = kMss;
	mroce_conn_tx_queue(&tx, 4, &r, false);
	EXPECT_EQ(picks(1000)[4], 0u);
}

TEST_F(Sched, Sec52_BestIsTheFreestWithItsQueueCounted)
{
	mroce_pkt_ref r{};

	mroce_cc_set_cwnd(&tx, &m.paths[3], 10 * kMss);
	mroce_cc_set_cwnd(&tx, &m.paths[9], 8 * kMss);
	EXPECT_EQ(mroce_sched_best(&tx, 16, true), 3);
	EXPECT_EQ(mroce_sched_best(&tx, 3, true), 9);
	for (u32 i = 0; i < 3; i++)
		mroce_conn_tx_queue(&tx, 3, &r, false);
	EXPECT_EQ(mroce_sched_best(&tx, 16, true), 9);
}

TEST_F(Sched, Sec52_DetachedOrNoneSendable)
{
	EXPECT_TRUE(mroce_conn_tx_detach(&tx));
	EXPECT_EQ(mroce_conn_tx_pick(&tx, kMss), -1);
	mroce_conn_tx_attach(&tx, m.rings.data(), 2000000000);
	EXPECT_GE(mroce_conn_tx_pick(&tx, kMss), 0);
	for (u32 i = 0; i < 16; i++)
		mroce_conn_tx_path_admin(&tx, i, true, 2000000000);
	EXPECT_EQ(mroce_conn_tx_pick(&tx, kMss), -1);
}

} // namespace
