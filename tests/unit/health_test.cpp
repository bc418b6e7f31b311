// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tx_loop.h"

namespace {

const u32 kMss = 4156;
const u64 kStart = 1000000000, kMs = 1000000;

struct Health : ::testing::Test {
	std::unique_ptr<TxMem> m;
	mroce_conn_tx *tx;
	u64 now = kStart;
	u32 spsn = 0;
	std::map<u32, u32> last_probe;	/* path: PSN */

	Health() { make(16, true); }
	~Health() override { check_books(*tx); }

	void make(u32 n, bool validated, u32 planes = 1)
	{
		m = std::make_unique<TxMem>(n, kMss, 5, validated, now, planes);
		tx = &m->tx;
	}

	mroce_tx_path &p(u32 i) { return m->paths[i]; }
	void set_rtt(u32 ns)
	{
		for (auto &q : m->paths) {
			mroce_rtt_sample(&q.rtt, ns, now);
			q.rtt.rttvar_ns = 0;
			q.srtt_ns = ns;
		}
		tx->srtt_ns = ns;
	}

	/* @more: the connection has another packet, so that no tail is to be probed soon. */
	u32 send(u32 i, bool more = false)
	{
		mroce_pkt_ref r{};
		mroce_pkt k{};

		r.qpn = 1;
		r.spsn = spsn++;
		r.bytes = kMss;
		mroce_conn_tx_sent(tx, i, &r, more, now, &k);
		return k.path_psn;
	}

	/* Sends what is due; returns how much of it was probes and retransmissions. */
	std::pair<u32, u32> pump()
	{
		mroce_pkt_ref r;
		mroce_pkt k{};
		u32 path, n = 0, rtx = 0;
		u64 value;
		mroce_send_kind kind;

		while ((kind = mroce_conn_tx_next(tx, &path, &r)) != MROCE_SEND_NONE) {
			if (kind == MROCE_SEND_PROBE) {
				mroce_conn_tx_sent_probe(tx, path, now, &k, &value);
				last_probe[path] = k.path_psn;
				n++;
			} else {
				mroce_conn_tx_sent(tx, path, &r, true, now, &k);
				rtx++;
			}
		}
		check_books(*tx);
		return {n, rtx};
	}

	bool answer(u32 i)
	{
		u64 v = mroce_health_probe_value(&p(i), p(i).gen, last_probe[i]);
		return !mroce_conn_tx_probe_rsp(tx, i, p(i).gen, last_probe[i], v, now);
	}

	int ack(u32 i, u32 max, std::set<u32> missing = {}, u32 ce = 0)
	{
		mroce_pkt_ref refs[MROCE_SACK_BITS];
		mroce_ack_path b = block(*tx, i, max, missing);
		u32 n;

		b.ce_pkts = ce;
		b.ts_echo = mroce_ts(now - tx->srtt_ns);
		return mroce_conn_tx_ack(tx, &b, now, refs, &n);
	}

	/* Time goes on with nothing coming back, until @end. */
	void silence(u64 end)
	{
		while (tx->next_timer <= end) {
			now = std::max(now, tx->next_timer);
			mroce_conn_tx_timer(tx, now);
			pump();
		}
		now = end;
	}
};

TEST_F(Health, Sec4_NewPathsProbeFirst)
{
	make(16, false);
	EXPECT_EQ(mroce_conn_tx_pick(tx, kMss), -1);
	EXPECT_EQ(pump().first, 16u);
	EXPECT_TRUE(answer(3));
	EXPECT_EQ(p(3).state, MROCE_PATH_GOOD);
	EXPECT_EQ(mroce_conn_tx_pick(tx, kMss), 3);
}

TEST_F(Health, Sec2_AtMostThreePacketsBeforeAnAnswer)
{
	make(2, false);
	pump();
	silence(now + 9 * kMs);		/* PTO is 3 ms without a sample */
	EXPECT_EQ(tx->stats.probes, 6u);
	EXPECT_TRUE(p(0).state == MROCE_PATH_FAILED || p(0).state == MROCE_PATH_NEW);
}

TEST_F(Health, Sec2_OnlyTheRightValueAnswers)
{
	make(4, false);
	pump();
	u64 v = mroce_health_probe_value(&p(0), 0, 0);
	EXPECT_EQ(mroce_conn_tx_probe_rsp(tx, 0, 0, 0, v + 1, now), -EINVAL);
	EXPECT_EQ(mroce_conn_tx_probe_rsp(tx, 1, 0, 0, v, now), -EINVAL);
	EXPECT_EQ(mroce_conn_tx_probe_rsp(tx, 0, 1, 0, v, now), -EINVAL);
	EXPECT_EQ(mroce_conn_tx_probe_rsp(tx, 0, 0, 1, v, now), -EINVAL);
	EXPECT_EQ(mroce_conn_tx_probe_rsp(tx, 200, 0, 0, v, now), -EINVAL);
	EXPECT_EQ(p(0).state, MROCE_PATH_NEW);
	EXPECT_EQ(mroce_conn_tx_probe_rsp(tx, 0, 0, 0, v, now), 0);
	EXPECT_EQ(p(0).state, MROCE_PATH_GOOD);
}

TEST_F(Health, Path32Rule5_OneTailProbePerQuietPeriod)
{
	set_rtt(1000000);
	tx->lossy = 100;
	send(2);
	EXPECT_EQ(tx->next_timer, now + 250000);
	silence(now + 249999);
	EXPECT_EQ(tx->stats.probes, 0u);
	silence(now + 1);
	EXPECT_EQ(tx->stats.tail_probes, 1u);
	silence(now + 400000);
	EXPECT_EQ(tx->stats.probes, 1u);
	send(2);				/* a new quiet period */
	silence(now + 250000);
	EXPECT_EQ(tx->stats.tail_probes, 2u);
}

TEST_F(Health, Path32Rule5_NoTailAsLongAsThereIsMore)
{
	set_rtt(1000000);
	tx->lossy = 100;
	send(2, true);
	silence(now + 700000);
	EXPECT_EQ(tx->stats.tail_probes, 0u);
	send(2, true);
	send(3, false);
	silence(now + 250000);
	EXPECT_EQ(tx->stats.tail_probes, 2u);
}

TEST_F(Health, Path32Rule5_NoEarlyProbeWhereNothingIsLost)
{
	set_rtt(1000000);
	send(2);
	silence(now + 1000000);
	EXPECT_EQ(tx->stats.tail_probes, 0u);
	ack(2, 0);
	for (u32 i = 0; i < 4; i++)
		send(3);
	ack(3, 3, {1});
	EXPECT_EQ(tx->lossy, MROCE_TX_LOSSY);
	send(2);
	silence(now + 250000);
	EXPECT_EQ(tx->stats.tail_probes, 1u);
	EXPECT_EQ(tx->lossy, MROCE_TX_LOSSY - 1);
}

TEST_F(Health, Path32Rule5_TailProbeNotBelowATick)
{
	set_rtt(20000);
	send(2);
	EXPECT_EQ(tx->next_timer, now + MROCE_TICK_NS);
}

TEST_F(Health, Path32Rule5_TheOwnerKnowsItsTick)
{
	set_rtt(20000);
	tx->tick_ns = 1000;
	tx->lossy = 100;
	send(2);
	EXPECT_EQ(tx->next_timer, now + 5000);	/* a quarter of the round trip */
}

TEST_F(Health, Path32Rule5_NothingUnackedNoProbe)
{
	set_rtt(1000000);
	send(2);
	now += 100000;
	ack(2, 0);
	EXPECT_EQ(tx->next_timer, ~0ull);
	silence(now + 1000 * kMs);
	EXPECT_EQ(tx->stats.probes, 0u);
}

TEST_F(Health, Path32Rule7_PtoMovesTheOldestAndProbes)
{
	set_rtt(1000000);
	for (u32 i = 0; i < 3; i++)
		send(2);
	u64 pto = 1000000 + MROCE_TICK_NS + 25000;
	now += pto;
	tx->last_progress = now - 1;	/* other paths go on */
	mroce_conn_tx_timer(tx, now);
	EXPECT_EQ(tx->stats.pto, 1u);
	EXPECT_EQ(tx->stats.lost, 0u);
	EXPECT_EQ(tx->stats.loss_cuts, 0u);
	EXPECT_EQ(tx->rtx_queued, 1u);
	EXPECT_EQ(p(2).rtx.n, 0);
	EXPECT_TRUE(p(2).probe_due);
	EXPECT_EQ(p(2).n_data, 2);
	mroce_pkt_ref r;
	u32 path;
	mroce_pkt k{};
	u64 v;
	ASSERT_EQ(mroce_conn_tx_next(tx, &path, &r), MROCE_SEND_PROBE);
	EXPECT_EQ(path, 2u);
	mroce_conn_tx_sent_probe(tx, path, now, &k, &v);
	ASSERT_EQ(mroce_conn_tx_next(tx, &path, &r), MROCE_SEND_RTX);
	EXPECT_NE(path, 2u);
	EXPECT_EQ(r.spsn, 0u);
	mroce_conn_tx_sent(tx, path, &r, true, now, &k);
	EXPECT_TRUE(k.flags & MROCE_F_MOVED);
	EXPECT_TRUE(k.flags & MROCE_F_RTX);
}

TEST_F(Health, Path32Rule7_SilenceOnAllPathsIsAQueueFirst)
{
	set_rtt(1000000);
	send(2);
	send(3);
	u64 pto = 1000000 + MROCE_TICK_NS + 25000;
	mroce_conn_tx_timer(tx, now += pto);
	EXPECT_EQ(tx->stats.pto, 2u);
	EXPECT_TRUE(p(2).probe_due && p(3).probe_due);
	EXPECT_EQ(tx->rtx_queued, 0u);
	pump();
	mroce_conn_tx_timer(tx, now += pto);
	EXPECT_EQ(p(2).state, MROCE_PATH_SUSPECT);	/* and no longer the second time */
	EXPECT_EQ(tx->rtx_queued, 2u);
}

TEST_F(Health, Path32Rule7_BackOffIsLinear)
{
	make(2, true);
	set_rtt(1000000);
	p(1).state = MROCE_PATH_DENIED;		/* none to go to: it stays */
	mroce_sched_rebuild(tx);
	mroce_cc_resum(tx);
	std::vector<u64> at;
	u64 pto = 1000000 + MROCE_TICK_NS + 25000, begin = now, seen = 0;

	send(0);
	while (at.size() < 6) {
		now = tx->next_timer;
		mroce_conn_tx_timer(tx, now);
		pump();
		if (tx->stats.pto > seen) {
			at.push_back(now - begin);
			seen = tx->stats.pto;
		}
	}
	EXPECT_EQ(at, (std::vector<u64>{pto, 2 * pto, 4 * pto, 7 * pto, 10 * pto, 13 * pto}));
}

TEST_F(Health, Path32Rule8_TwoPtosSuspectAndAllMoves)
{
	set_rtt(1000000);
	for (u32 i = 0; i < 4; i++)
		send(2);
	u32 cwnd = p(2).cwnd;
	silence(now + 2200000);
	EXPECT_EQ(p(2).state, MROCE_PATH_SUSPECT);
	EXPECT_EQ(p(2).n_data, 0);
	EXPECT_GE(tx->stats.moved, 4u);
	EXPECT_EQ(p(2).cwnd, cwnd);
	EXPECT_EQ(tx->n_data, 4u);		/* on other paths now */
}

TEST_F(Health, Sec4_SuspectLeavesByAnyAckAtHalfWindow)
{
	set_rtt(1000000);
	send(2);
	mroce_cc_set_cwnd(tx, &p(2), 10 * kMss);
	silence(now + 2200000);
	ASSERT_EQ(p(2).state, MROCE_PATH_SUSPECT);
	ASSERT_EQ(ack(2, last_probe[2], {0}), 0);
	EXPECT_EQ(p(2).state, MROCE_PATH_GOOD);
	EXPECT_NEAR(p(2).cwnd, 5 * kMss, kMss / 2);
	EXPECT_EQ(p(2).pto_cnt, 0);
}

TEST_F(Health, Sec4_SuspectFailsAfterThreeProbesAndComesBack)
{
	set_rtt(100000);
	u16 port = p(2).sport;

	send(2);
	while (p(2).state != MROCE_PATH_FAILED && p(2).state != MROCE_PATH_PROBING && now < kStart + kMs) {
		u64 t = tx->next_timer;
		for (u32 i = 0; i < 16; i++)	/* the others answer */
			if (i != 2 && p(i).n_flight) {
				now += 1000;
				ack(i, mroce_path_next_psn(&p(i)) - 1);
			}
		silence(std::max(t, now));
	}
	EXPECT_LT(now, kStart + kMs);
	silence(now + 1);
	EXPECT_EQ(p(2).state, MROCE_PATH_PROBING);
	EXPECT_NE(p(2).sport, port);
	EXPECT_EQ(p(2).gen, 1);
	EXPECT_EQ(tx->stats.reroll, 1u);
	for (u32 k = 0; k < 3; k++) {
		u32 psn = mroce_path_next_psn(&p(2));
		silence(now + 1100000);
		ASSERT_GT(mroce_path_next_psn(&p(2)), psn);
		ASSERT_TRUE(answer(2));
		ASSERT_TRUE(answer(2));		/* twice counts once */
	}
	EXPECT_EQ(p(2).state, MROCE_PATH_NEW);
	pump();
	ASSERT_TRUE(answer(2));
	EXPECT_EQ(p(2).state, MROCE_PATH_GOOD);
	EXPECT_EQ(p(2).cwnd, 2 * kMss);
}

TEST_F(Health, Sec4_ProbingBacksOffTo1Second)
{
	std::vector<u64> at;
	u32 seen = 0;

	mroce_conn_tx_path_failed(tx, 2, now);
	for (u64 begin = now; at.size() < 10;) {
		silence(tx->next_timer);
		if (p(2).state == MROCE_PATH_PROBING && mroce_path_next_psn(&p(2)) > seen) {
			at.push_back((now - begin) / kMs);
			seen = mroce_path_next_psn(&p(2));
		}
	}
	EXPECT_EQ(at, (std::vector<u64>{1, 3, 7, 15, 31, 63, 127, 1127, 2127, 3127}));
}

TEST_F(Health, Sec4_CarrierLossMovesAllAtOnce)
{
	make(16, true, 2);
	set_rtt(100000);
	for (u32 i = 0; i < 16; i++)
		send(i);
	mroce_conn_tx_plane_failed(tx, 1, now);
	EXPECT_EQ(tx->rtx_queued, 8u);
	for (u32 i = 1; i < 16; i += 2) {
		EXPECT_EQ(p(i).n_data, 0);
		EXPECT_EQ(p(i).rtx.n, 0);
		EXPECT_EQ(p(i).state, MROCE_PATH_FAILED);
	}
	EXPECT_EQ(pump().second, 8u);
}

TEST_F(Health, Sec4_WithoutAnyPathPacketsWaitForTheFirstThatAnswers)
{
	set_rtt(100000);
	for (u32 i = 0; i < 16; i++)
		send(i);
	mroce_conn_tx_plane_failed(tx, 0, now);
	EXPECT_EQ(mroce_conn_tx_pick(tx, kMss), -1);
	silence(now + 20 * kMs);
	EXPECT_EQ(tx->rtx_queued, 16u);
	ASSERT_TRUE(answer(7));
	EXPECT_EQ(p(7).state, MROCE_PATH_GOOD);		/* one answer will do */
	EXPECT_EQ(p(7).rtx.n, 16);
	EXPECT_GE(pump().second, 1u);
}

TEST_F(Health, Sec4_MinimumActiveTwoPathsStayByTimeouts)
{
	set_rtt(100000);
	for (u32 i = 0; i < 16; i++)
		for (u32 k = 0; k < 3; k++)
			send(i);
	silence(now + 50 * kMs);
	EXPECT_EQ(tx->n_sendable, 2);
	EXPECT_EQ(tx->n_data + tx->rtx_queued, 48u);
	EXPECT_EQ(mroce_conn_tx_pick(tx, kMss), -1);
}

TEST_F(Health, Sec4_MostOfAPlaneSuspectTheRestFollows)
{
	make(8, true, 2);
	set_rtt(100000);
	for (u32 i : {1, 3, 5})
		send(i);
	for (u32 i : {0, 2, 4, 6})
		p(i).pto_cnt = 0;
	for (u32 i = 0; i < 40 && p(5).state != MROCE_PATH_SUSPECT; i++) {
		for (u32 k : {0, 2, 4, 6})
			if (p(k).n_flight)
				ack(k, mroce_path_next_psn(&p(k)) - 1);
		silence(std::max(now, tx->next_timer));
	}
	EXPECT_EQ(p(7).state, MROCE_PATH_SUSPECT);
	EXPECT_EQ(p(0).state, MROCE_PATH_GOOD);
}

TEST_F(Health, Sec4_BurstOf8IsSuspectAtOnce)
{
	set_rtt(100000);
	mroce_cc_set_cwnd(tx, &p(2), 20 * kMss);
	for (u32 i = 0; i < 12; i++)
		send(2);
	now += 100000;
	ack(2, 9, {1, 2, 3, 4, 5, 6, 7});
	EXPECT_EQ(p(2).state, MROCE_PATH_GOOD);		/* seven */
	u32 base = mroce_path_next_psn(&p(2));
	for (u32 i = 0; i < 10; i++)
		send(2);
	std::set<u32> miss;
	for (u32 i = 1; i < 8; i++)
		miss.insert(i);
	for (u32 i = base; i < base + 8; i++)
		miss.insert(i);
	ack(2, base + 8, miss);
	EXPECT_EQ(p(2).state, MROCE_PATH_SUSPECT);
	EXPECT_EQ(p(2).rtx.n, 0);			/* moved */
	EXPECT_EQ(p(2).n_data, 1);			/* what it may still deliver is left to it */
	ack(2, base + 9, miss);
	EXPECT_EQ(p(2).state, MROCE_PATH_GOOD);
}

TEST_F(Health, Sec4_CongestedAfterTwoMarkedRoundsThenRerolled)
{
	set_rtt(100000);
	u32 ce = 0, rounds = 0;
	u16 port = p(2).sport;

	for (u32 r = 0; r < 2; r++) {
		u32 psn = send(2);
		now += 100001;
		ack(2, psn, {}, ++ce);
	}
	EXPECT_EQ(p(2).state, MROCE_PATH_CONGESTED);
	for (; p(2).state == MROCE_PATH_CONGESTED && rounds < 10; rounds++) {
		u32 psn = send(2);
		now += 100001;
		ack(2, psn, {}, ++ce);
	}
	EXPECT_EQ(rounds, 3u);
	EXPECT_EQ(p(2).state, MROCE_PATH_NEW);
	EXPECT_NE(p(2).sport, port);
	EXPECT_EQ(p(2).gen, 1);
	EXPECT_EQ(p(2).cwnd, 2 * kMss);
	EXPECT_NEAR(p(2).srtt_ns, 100000, 64);	/* kept */
}

TEST_F(Health, Sec4_AtMostAQuarterIsRerolledPerRtt)
{
	set_rtt(1000000);
	for (u32 i = 0; i < 8; i++)
		mroce_conn_tx_path_failed(tx, i, now);
	mroce_conn_tx_timer(tx, now);
	EXPECT_EQ(tx->stats.reroll, 4u);
	now += 500000;
	mroce_conn_tx_timer(tx, now);
	EXPECT_EQ(tx->stats.reroll, 4u);
	now += 600000;
	mroce_conn_tx_timer(tx, now);
	EXPECT_EQ(tx->stats.reroll, 8u);
}

TEST_F(Health, Sec4_RerolledPathLosesOldPacketsByTime)
{
	set_rtt(100000);
	send(2);
	send(2);
	mroce_health_psn_end(tx, 2, now);
	EXPECT_EQ(p(2).state, MROCE_PATH_NEW);
	EXPECT_EQ(p(2).n_data, 2);
	pump();
	now += 100000;
	answer(2);
	EXPECT_EQ(ack(2, last_probe[2]), 0);
	EXPECT_EQ(p(2).n_data, 2);
	silence(kStart + 112000);
	EXPECT_EQ(tx->stats.lost, 0u);
	silence(kStart + 113000);
	EXPECT_EQ(tx->stats.lost, 2u);
	EXPECT_EQ(tx->stats.loss_cuts, 0u);
	EXPECT_EQ(tx->n_data, 2u);			/* sent again */
}

TEST_F(Health, Sec4_PortsComeFromTheCacheFirst)
{
	set_rtt(100000);
	u16 port = p(2).sport;
	std::set<u16> ports;

	for (auto &q : m->paths) {
		EXPECT_GE(q.sport, MROCE_SPORT_MIN);
		ports.insert(q.sport);
	}
	EXPECT_EQ(ports.size(), 16u);
	u32 psn = send(2);
	now += 100001;
	ack(2, psn);
	EXPECT_EQ(tx->cache[0].n, 1);
	EXPECT_EQ(tx->cache[0].port[0], port);
	EXPECT_NE(mroce_health_port(tx, 3, now), port);	/* in use */
	tx->frozen_until = now + 1;
	EXPECT_EQ(mroce_health_port(tx, 3, now), port);	/* frozen: even so */
	tx->frozen_until = 0;
	p(2).sport = 50000;
	EXPECT_EQ(mroce_health_port(tx, 3, now), port);
}

TEST_F(Health, Sec4_FailedPortLeavesTheCacheAndManyFailuresFreezeIt)
{
	set_rtt(100000);
	u32 psn = send(2);
	now += 100001;
	ack(2, psn);
	mroce_conn_tx_path_failed(tx, 2, now);
	EXPECT_EQ(tx->cache[0].n, 0);
	EXPECT_LE(tx->frozen_until, now);
	for (u32 i = 3; i < 11; i++)
		mroce_conn_tx_path_failed(tx, i, now);
	EXPECT_GT(tx->frozen_until, now);
}

TEST_F(Health, Sec4_GrayPathIsRerolled)
{
	set_rtt(100000);
	for (u32 i = 0; i < 16; i++) {
		p(i).win_sent = 100;
		p(i).win_lost = 0;
	}
	p(5).win_lost = 9;
	u32 psn = send(5);
	now += 100001;
	ack(5, psn);
	EXPECT_EQ(p(5).state, MROCE_PATH_NEW);
	for (u32 i = 0; i < 16; i++)
		p(i).win_lost = 9;			/* all alike: no one is gray */
	psn = send(6);
	now += 100001;
	ack(6, psn);
	EXPECT_EQ(p(6).state, MROCE_PATH_GOOD);
}

TEST_F(Health, Sec4_DeniedByTheAdministrator)
{
	set_rtt(100000);
	send(2);
	mroce_conn_tx_path_admin(tx, 2, true, now);
	EXPECT_EQ(p(2).state, MROCE_PATH_DENIED);
	EXPECT_EQ(p(2).n_data, 0);
	mroce_conn_tx_path_failed(tx, 2, now);
	EXPECT_EQ(p(2).state, MROCE_PATH_DENIED);
	pump();
	silence(now + 100 * kMs);
	EXPECT_EQ(p(2).state, MROCE_PATH_DENIED);
	mroce_conn_tx_path_admin(tx, 2, false, now);
	EXPECT_EQ(p(2).state, MROCE_PATH_NEW);
}

TEST_F(Health, Path32Rule3_PsnsNeverWrap)
{
	set_rtt(100000);
	p(2).base = p(2).head - (MROCE_PATH_PSN_MAX - 2);
	send(2);
	EXPECT_EQ(p(2).gen, 0);
	send(2);
	EXPECT_EQ(p(2).gen, 1);
	EXPECT_EQ(p(2).state, MROCE_PATH_NEW);
	EXPECT_EQ(mroce_path_next_psn(&p(2)), 0u);
}

} // namespace
