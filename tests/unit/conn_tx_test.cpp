// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tx_loop.h"

namespace {

const u32 kMss = 4156;

struct ConnTx : ::testing::Test {
	TxMem m{4, kMss, 11, true, 1000000000};
	mroce_conn_tx &tx = m.tx;
	u64 now = 1000000000;
	mroce_pkt_ref refs[MROCE_SACK_BITS];
	u32 n = 0;

	~ConnTx() override { check_books(tx); }

	mroce_pkt send(u32 path, u32 spsn, bool more = true, u8 sflags = 0, u32 qpn = 1)
	{
		mroce_pkt_ref r{};
		mroce_pkt k{};

		r.qpn = qpn;
		r.spsn = spsn;
		r.bytes = kMss;
		k.sflags = sflags;
		mroce_conn_tx_sent(&tx, path, &r, more, now, &k);
		return k;
	}

	int ack(const mroce_ack_path &b) { return mroce_conn_tx_ack(&tx, &b, now, refs, &n); }

	std::vector<std::pair<u32, u32>> drain()	/* path, spsn */
	{
		std::vector<std::pair<u32, u32>> out;
		mroce_pkt_ref r;
		mroce_pkt k{};
		u32 path;
		u64 v;

		for (;;) {
			switch (mroce_conn_tx_next(&tx, &path, &r)) {
			case MROCE_SEND_PROBE:
				mroce_conn_tx_sent_probe(&tx, path, now, &k, &v);
				break;
			case MROCE_SEND_RTX:
				out.push_back({path, r.spsn});
				mroce_conn_tx_sent(&tx, path, &r, true, now, &k);
				EXPECT_TRUE(k.flags & MROCE_F_RTX);
				break;
			default:
				return out;
			}
		}
	}
};

using Sent = std::vector<std::pair<u32, u32>>;

TEST_F(ConnTx, Sec13_FieldsOfAPacket)
{
	now = (1ull << 38) + 6400;	/* tx_ts has wrapped */
	mroce_pkt k = send(2, 7);
	EXPECT_EQ(k.path_id, 2);
	EXPECT_EQ(k.path_gen, 0);
	EXPECT_EQ(k.path_psn, 0u);
	EXPECT_EQ(k.tx_ts, 100u);
	EXPECT_FALSE(k.flags & (MROCE_F_RTX | MROCE_F_MOVED | MROCE_F_TAIL));
	EXPECT_EQ(send(2, 8).path_psn, 1u);
	EXPECT_EQ(send(1, 9).path_psn, 0u);
}

TEST_F(ConnTx, Path32Rule6_AckRequest)
{
	mroce_cc_set_cwnd(&tx, &m.paths[0], 10 * kMss);
	EXPECT_FALSE(send(0, 0).flags & MROCE_F_AR);
	EXPECT_TRUE(send(0, 1, false).flags & MROCE_F_AR);		/* last queued */
	EXPECT_TRUE(send(0, 2, true, MROCE_SF_LAST).flags & MROCE_F_AR);	/* last of its message */
	mroce_cc_set_cwnd(&tx, &m.paths[0], 3 * kMss);
	EXPECT_FALSE(send(0, 3).flags & MROCE_F_AR);
	mroce_cc_set_cwnd(&tx, &m.paths[0], 2 * kMss);
	EXPECT_TRUE(send(0, 4).flags & MROCE_F_AR);			/* smallest window */
}

TEST_F(ConnTx, Sec33_AnAnswerOfOnePacketDoesNotAsk)
{
	const u8 both = MROCE_SF_FIRST | MROCE_SF_LAST;
	auto answer = [&](u32 path, u32 spsn, u8 tries = 0) {
		mroce_pkt_ref r{};
		mroce_pkt k{};

		r.spsn = spsn, r.bytes = 100, r.cls = MROCE_CLASS_RSP, r.tries = tries & 0x7f;
		k.type = MROCE_T_DATA, k.opcode = MROCE_OP_READ_RSP, k.sflags = both;
		mroce_conn_tx_sent(&tx, path, &r, false, now, &k);
		return k;
	};
	u64 probe_at, pto_at;

	for (u32 i = 0; i < 3; i++)
		mroce_cc_set_cwnd(&tx, &m.paths[i], 10 * kMss);
	mroce_pkt k = answer(0, 0);
	EXPECT_FALSE(k.flags & MROCE_F_AR);
	EXPECT_TRUE(k.flags & MROCE_F_TAIL);
	EXPECT_TRUE(mroce_is_lazy(&k));
	probe_at = mroce_health_deadline(&tx, &m.paths[0]);
	k = send(1, 1, false);
	EXPECT_TRUE(k.flags & MROCE_F_AR);
	pto_at = mroce_health_deadline(&tx, &m.paths[1]);
	EXPECT_GE(probe_at, pto_at + 400000) << "no probe while the peer may wait";
	EXPECT_TRUE(answer(2, 2, 1).flags & MROCE_F_AR) << "a resend asks";
	send(0, 3);
	EXPECT_FALSE(m.paths[0].lazy) << "the last packet counts";
	mroce_cc_set_cwnd(&tx, &m.paths[0], MROCE_CC_MIN_PKTS * kMss);
	EXPECT_TRUE(answer(0, 4).flags & MROCE_F_AR) << "small window";
}

TEST_F(ConnTx, Path32Rule1_GapIsResentOnThatPathAtOnceInOrder)
{
	for (u32 i = 0; i < 8; i++)
		send(1, 100 + i);
	now += 100000;
	ASSERT_EQ(ack(block(tx, 1, 6, {1, 3})), 0);
	EXPECT_EQ(n, 5u);
	EXPECT_EQ(tx.stats.lost, 2u);
	EXPECT_EQ(drain(), (Sent{{1, 101}, {1, 103}}));
	ack(block(tx, 1, 6, {1, 3}));
	EXPECT_EQ(tx.stats.lost, 2u);
	EXPECT_EQ(tx.stats.loss_cuts, 1u);
}

TEST_F(ConnTx, Path32Rule1_NewerLossGoesToTheHead)
{
	mroce_pkt_ref r{};

	r.qpn = 1;
	r.spsn = 55;
	r.bytes = kMss;
	r.tries = 1;
	mroce_conn_tx_queue(&tx, 1, &r, false);
	for (u32 i = 0; i < 3; i++)
		send(1, 100 + i);
	ack(block(tx, 1, 2, {1}));
	auto d = drain();
	ASSERT_EQ(d.size(), 2u);
	EXPECT_EQ(d[0].second, 101u);
}

TEST_F(ConnTx, Path32Rule10_ThirdLossGoesElsewhere)
{
	std::set<u32> missing;

	send(1, 100);
	for (u32 k = 0; k < 3; k++) {
		u32 psn = mroce_path_next_psn(&m.paths[1]) - 1;
		missing.insert(psn);
		send(1, 200 + k);
		now += 100000;
		ASSERT_EQ(ack(block(tx, 1, psn + 1, missing)), 0);
		auto d = drain();
		ASSERT_EQ(d.size(), 1u);
		EXPECT_EQ(d[0].second, 100u);
		EXPECT_EQ(d[0].first == 1, k < 2) << k;
	}
}

TEST_F(ConnTx, Path32Rule10_NotHeldBackByTheConnectionWindow)
{
	for (u32 i = 0; i < 8; i++)
		send(1, i);
	ack(block(tx, 1, 1, {0}));
	tx.cc.w = 2 * kMss;
	EXPECT_EQ(mroce_conn_tx_pick(&tx, kMss), -1);
	EXPECT_EQ(drain(), (Sent{{1, 0}}));
	EXPECT_EQ(tx.inflight, 7u * kMss);
}

TEST_F(ConnTx, Path32Rule10_HeldByThePathWindowButNeverIfNothingIsInFlight)
{
	for (u32 i = 0; i < 10; i++)
		send(1, i);
	mroce_cc_set_cwnd(&tx, &m.paths[1], 2 * kMss);
	ack(block(tx, 1, 1, {0}));
	EXPECT_EQ(drain(), Sent{});
	EXPECT_NE(tx.next_timer, ~0ull);
	ack(block(tx, 1, 9, {0}));
	EXPECT_EQ(drain(), (Sent{{1, 0}}));
}

TEST_F(ConnTx, Path32Rule4_SpuriousLossIsCountedAndUndone)
{
	u64 w = tx.cc.w;

	mroce_cc_set_cwnd(&tx, &m.paths[1], 20 * kMss);
	for (u32 i = 0; i < 4; i++)
		send(1, i);
	ack(block(tx, 1, 2, {1}));
	EXPECT_LT(m.paths[1].cwnd, 20 * kMss);
	ack(block(tx, 1, 2));
	EXPECT_EQ(tx.stats.spurious, 1u);
	EXPECT_EQ(n, 1u);				/* the engine hears that it arrived */
	EXPECT_EQ(refs[0].spsn, 1u);
	EXPECT_GE(m.paths[1].cwnd, 20 * kMss);
	EXPECT_GE(tx.cc.w, w);
	EXPECT_EQ(m.paths[1].reo_level, 1);
	send(1, 4);					/* now a gap waits srtt / 8 */
	send(1, 5);
	ack(block(tx, 1, 5, {4}));
	EXPECT_EQ(tx.stats.lost, 1u);
	EXPECT_EQ(m.paths[1].n_data, 1);
	EXPECT_LE(tx.next_timer, m.paths[1].reo_deadline);
	now = m.paths[1].reo_deadline;
	mroce_conn_tx_timer(&tx, now);
	EXPECT_EQ(tx.stats.lost, 2u);
}

TEST_F(ConnTx, Sec2_HostileAcknowledgementsHaveNoEffect)
{
	std::mt19937_64 rng(3);
	u32 bad = 0;

	for (u32 i = 0; i < 3; i++)
		send(1, i);
	u64 timer = tx.next_timer, w = tx.cc.w;
	for (u32 k = 0; k < 20000; k++) {
		mroce_ack_path b = block(tx, 1, 1);

		switch (rng() % 6) {
		case 0:
			b.path_id = u8(4 + rng() % 252);
			break;
		case 1:
			b.gen = u16(1 + rng() % 65535);
			break;
		case 2:
			b.max_psn = u32(3 + rng() % 0xfffffffcu);
			break;
		case 3:
			b.sack[0] &= ~1ull;
			break;
		case 4: {
			u32 bit = 2 + rng() % 254;
			b.sack[bit / 64] |= 1ull << (bit % 64);
			break;
		}
		default:
			b.cum_psn = u32(3 + rng() % 0xfffffffcu);
		}
		ASSERT_EQ(ack(b), -EINVAL);
		ASSERT_EQ(n, 0u);
		bad++;
	}
	EXPECT_EQ(tx.stats.bad_ack, bad);
	EXPECT_EQ(tx.n_data, 3u);
	EXPECT_EQ(tx.next_timer, timer);
	EXPECT_EQ(tx.cc.w, w);
	EXPECT_EQ(tx.srtt_ns, 0u);
}

TEST_F(ConnTx, Sec2_AbsurdEchoHasNoEffectOnTheRtt)
{
	send(1, 0);
	mroce_ack_path b = block(tx, 1, 0);
	b.ts_echo = mroce_ts(now) + 5;
	ASSERT_EQ(ack(b), 0);
	EXPECT_EQ(n, 1u);
	EXPECT_EQ(tx.srtt_ns, 0u);
}

TEST_F(ConnTx, Sec33_RttOnlyFromNews)
{
	send(1, 0);
	mroce_ack_path b = block(tx, 1, 0);
	b.ts_echo = mroce_ts(now);
	now += 100032;
	ack(b);
	EXPECT_EQ(m.paths[1].srtt_ns, 100032u);
	now += 900000;
	ack(b);						/* repeated later */
	EXPECT_EQ(m.paths[1].srtt_ns, 100032u);
}

TEST_F(ConnTx, Sec15_ResendAndRequeue)
{
	mroce_pkt_ref r{};
	u32 path;

	r.qpn = 1;
	r.spsn = 5;
	r.bytes = kMss;
	ASSERT_EQ(mroce_conn_tx_resend(&tx, &r), 0);
	r.spsn = 6;
	ASSERT_EQ(mroce_conn_tx_resend(&tx, &r), 0);
	ASSERT_EQ(mroce_conn_tx_next(&tx, &path, &r), MROCE_SEND_RTX);
	mroce_conn_tx_requeue(&tx, path, &r);
	u32 spsn = r.spsn, again;
	ASSERT_EQ(mroce_conn_tx_next(&tx, &again, &r), MROCE_SEND_RTX);
	mroce_conn_tx_requeue(&tx, again, &r);
	(void)spsn;
	EXPECT_EQ(tx.rtx_queued, 2u);
	EXPECT_EQ(drain().size(), 2u);
}

TEST_F(ConnTx, Sec7_OutstandingIsBounded)
{
	mroce_pkt_ref r{};
	u32 count = 0;

	r.bytes = 100;
	while (!mroce_conn_tx_resend(&tx, &r))
		count++;
	EXPECT_EQ(count, 4u * MROCE_PATH_RING);
	EXPECT_EQ(mroce_conn_tx_resend(&tx, &r), -ENOBUFS);
	EXPECT_EQ(mroce_conn_tx_pick(&tx, 100), -1);
	r.qpn = 9;
	mroce_conn_tx_requeue(&tx, 0, &r);		/* always finds room */
	mroce_conn_tx_forget_qp(&tx, 9);
	mroce_conn_tx_forget_qp(&tx, 0);
	EXPECT_EQ(tx.rtx_queued, 0u);
}

TEST_F(ConnTx, Sec63_ForgottenQpIsNeitherResentNorReported)
{
	for (u32 i = 0; i < 6; i++)
		send(1, i, true, 0, i % 2);
	ack(block(tx, 1, 2, {0, 1}));
	EXPECT_EQ(tx.rtx_queued, 2u);
	mroce_conn_tx_forget_qp(&tx, 1);
	EXPECT_EQ(drain(), (Sent{{1, 0}}));
	ack(block(tx, 1, 5, {0, 1}));
	for (u32 i = 0; i < n; i++)
		EXPECT_EQ(refs[i].qpn, 0u);
	mroce_conn_tx_forget_qp(&tx, 0);
	EXPECT_EQ(tx.n_data, 0u);
	EXPECT_EQ(tx.next_timer == ~0ull, m.paths[1].n_flight == 0);
}

TEST_F(ConnTx, Sec7_RingsAreGivenBackWhenIdle)
{
	send(1, 0);
	EXPECT_FALSE(mroce_conn_tx_detach(&tx));
	ack(block(tx, 1, 0));
	EXPECT_TRUE(mroce_conn_tx_detach(&tx));
	EXPECT_EQ(tx.next_timer, ~0ull);
	EXPECT_EQ(ack(block(tx, 1, 0)), -EINVAL);
	std::fill(m.rings.begin(), m.rings.end(), 0);
	mroce_conn_tx_attach(&tx, m.rings.data(), now);
	EXPECT_EQ(send(1, 1).path_psn, 1u);
	EXPECT_EQ(ack(block(tx, 1, 1)), 0);
	EXPECT_EQ(n, 1u);
}

/* ---- closed loop ---- */

double mean_seconds(LoopSettings s, u32 runs, u64 *spurious = nullptr)
{
	double t = 0;

	for (s.seed = 1; s.seed <= runs; s.seed++) {
		Loop l(s);

		EXPECT_TRUE(l.run()) << "seed " << s.seed << " acked " << l.n_acked;
		t += l.seconds();
		if (spurious)
			*spurious += l.a.tx.stats.spurious;
		EXPECT_EQ(l.a.tx.stats.bad_ack, 0u);
	}
	return t / runs;
}

/* Section 9: 16 MiB, RTT of 100 packets, 16 paths, loss on data and acknowledgements. */
TEST(Loop, Sec9_GoodputUnderLoss)
{
	LoopSettings s;
	u64 spurious = 0;

	s.check_every = 64;
	double base = mean_seconds(s, 3, &spurious);
	s.loss = s.ack_loss = 0.01;
	double one = mean_seconds(s, 5, &spurious);
	s.loss = s.ack_loss = 0.1;
	double ten = mean_seconds(s, 5, &spurious);
	RecordProperty("goodput_1_percent", std::to_string(base / one));
	RecordProperty("goodput_10_percent", std::to_string(base / ten));
	EXPECT_GE(base / one, 0.95);
	EXPECT_GE(base / ten, 0.80);
	EXPECT_EQ(spurious, 0u);		/* the network is FIFO */
}

TEST(Loop, Sec9_ShortMessages)
{
	for (u32 packets : {1u, 2u, 16u, 256u})
		for (double p : {0., 0.01, 0.1, 0.3}) {
			LoopSettings s;
			u64 spurious = 0;

			s.packets = packets;
			s.loss = s.ack_loss = p;
			s.check_every = 1;
			mean_seconds(s, 10, &spurious);
			EXPECT_EQ(spurious, 0u);
		}
}

TEST(Loop, Sec4_AnyNumberOfPathsGetsThrough)
{
	for (u32 n : {2u, 3u, 7u, 64u})
		for (double p : {0., 0.02, 0.5}) {
			LoopSettings s;

			s.n_paths = n;
			s.packets = 600;
			s.loss = s.ack_loss = p;
			s.validated = n % 2;
			s.seed = n;
			Loop l(s);
			EXPECT_TRUE(l.run()) << n << " paths, loss " << p;
		}
}

TEST(Loop, Sec4_AlmostEverythingLost)
{
	LoopSettings s;

	s.packets = 100;
	s.loss = s.ack_loss = 0.9;
	s.check_every = 1;
	s.n_paths = 4;
	mean_seconds(s, 3);
}

TEST(Loop, Sec52_MarksKeepTheQueueShort)
{
	LoopSettings s;

	s.ecn_packets = 30;
	s.queue_packets = 300;
	s.check_every = 64;
	Loop l(s);
	u64 longest = 0;
	l.each_step = [&] {
		if (l.now > s.start + 5000000)
			longest = std::max(longest, (l.busy_until - std::min(l.busy_until, l.now)) / s.packet_ns);
	};
	ASSERT_TRUE(l.run());
	EXPECT_EQ(l.a.tx.stats.lost, 0u);
	EXPECT_GT(l.a.tx.stats.ce_cuts, 0u);
	EXPECT_LT(longest, 100u);
	EXPECT_LT(l.seconds(), 4096 * 3300e-9 / 0.85);
}

TEST(Loop, Sec52_HintIsKept)
{
	LoopSettings s;

	s.hint = mroce_hint_encode(1000000000);
	s.packets = 1024;
	Loop l(s);
	ASSERT_TRUE(l.run());
	double rate = 1024. * kMss * 8 / l.seconds();
	EXPECT_LT(rate, 1.35e9);		/* 1.15, and the first round trip without a hint */
	EXPECT_GT(rate, 0.9e9);
}

TEST(Loop, Path32Rule4_JitterIsLearnt)
{
	LoopSettings s;

	s.jitter_ns = 40000;
	s.check_every = 64;
	Loop l(s);
	ASSERT_TRUE(l.run());
	EXPECT_GT(l.a.tx.stats.spurious, 0u);
	EXPECT_LT(l.a.tx.stats.spurious, 100u);
	EXPECT_LT(l.seconds(), 4096 * 3300e-9 / 0.9);
}

TEST(Loop, Sec4_OnePathDies)
{
	for (u32 n : {2u, 4u, 16u}) {
		LoopSettings s;

		s.n_paths = n;
		s.packets = 2048;
		Loop l(s);
		l.pass = [&](u32 p, bool) { return p != 1 || l.now < s.start + 2000000; };
		ASSERT_TRUE(l.run()) << n;
		EXPECT_NE(l.a.paths[1].state, MROCE_PATH_GOOD);
		EXPECT_LT(l.seconds(), 0.012) << n;
		EXPECT_EQ(l.a.tx.stats.spurious, 0u);
	}
}

TEST(Loop, Sec4_OnePlaneDiesAndComesBack)
{
	LoopSettings s;
	u64 down = s.start + 2000000, up = down + 10000000, moved_at = 0;

	s.planes = 2;
	s.packets = 12000;
	s.check_every = 64;
	Loop l(s);
	l.pass = [&](u32 p, bool) { return p % 2 == 0 || l.now < down || l.now >= up; };
	l.each_step = [&] {
		u32 data = 0;

		for (u32 i = 1; i < 16; i += 2)
			data += mroce_path_sendable(&l.a.paths[i]);
		if (l.now > down && !data && !moved_at)
			moved_at = l.now;
	};
	ASSERT_TRUE(l.run());
	EXPECT_LT(moved_at - down, 10u * 2 * s.delay_ns);	/* 10 RTT */
	EXPECT_EQ(l.a.tx.n_sendable, 16);			/* all are back */
	EXPECT_LT(l.seconds(), 12000 * 3300e-9 / 0.9);
}

TEST(Loop, Sec4_EverythingDiesAndComesBack)
{
	for (u64 ms : {1, 10, 100})
		for (bool acks_only : {false, true}) {
			LoopSettings s;
			u64 down = s.start + 2000000, up = down + ms * 1000000;

			s.packets = 2048;
			s.check_every = 4;
			Loop l(s);
			l.pass = [&](u32, bool ack) {
				return (acks_only && !ack) || l.now < down || l.now >= up;
			};
			ASSERT_TRUE(l.run());
			EXPECT_LT(l.now - s.start, ms * 1000000 + 40000000) << ms;
		}
}

TEST(Loop, Sec4_GrayPathIsLeft)
{
	LoopSettings s;
	std::mt19937 r(4);

	s.packets = 8000;
	s.check_every = 64;
	Loop l(s);
	u16 port = l.a.paths[3].sport;
	l.pass = [&](u32 p, bool ack) {
		return ack || p != 3 || l.a.paths[3].sport != port || r() % 8;
	};
	ASSERT_TRUE(l.run());
	EXPECT_NE(l.a.paths[3].sport, port);
}

TEST(Loop, Sec33_ClockOfTimestampsWraps)
{
	LoopSettings s;
	u64 spurious = 0;

	s.start = (1ull << 38) - 3000000;
	s.packets = 2048;
	s.loss = s.ack_loss = 0.02;
	double t = mean_seconds(s, 3, &spurious);
	EXPECT_EQ(spurious, 0u);
	s.start = 1000000000;
	EXPECT_NEAR(t, mean_seconds(s, 3), t * 0.02);
}

TEST(Loop, Path32Rule3_GenerationsWrapUnderLoad)
{
	LoopSettings s;

	s.packets = 4096;
	s.check_every = 16;
	s.loss = s.ack_loss = 0.01;
	Loop l(s);
	for (auto &p : l.a.paths)
		p.gen = 0xfffd;
	u64 next = s.start + 1000000;
	l.each_step = [&] {
		if (l.now < next)
			return;
		next = l.now + 150000;
		u32 i = u32(l.rng() % 16);
		/* twice within a round trip and an ACK's delay: some block would be of neither */
		if (mroce_path_sendable(&l.a.paths[i]) && l.now - l.a.paths[i].gen_time > 500000) {
			mroce_health_psn_end(&l.a.tx, i, l.now);
			l.a.tx.next_timer = l.now;	/* as the calls of conn_tx.h would */
		}
	};
	ASSERT_TRUE(l.run());
	EXPECT_GT(l.a.tx.stats.reroll, 30u);
	EXPECT_EQ(l.a.tx.stats.bad_ack, 0u);
}

/* Random acknowledgements, plausible and not, random time: the books stay right. */
TEST(Loop, Sec2_RandomAcknowledgementsKeepTheBooks)
{
	for (u64 seed = 1; seed <= 20; seed++) {
		LoopSettings s;

		s.seed = seed;
		s.packets = 100000;
		s.n_paths = u32(2 + seed % 6);
		Loop l(s);
		l.pass = [](u32, bool) { return false; };
		l.at(l.now, [&] { l.pump(); });
		for (u32 k = 0; k < 800 && !HasFatalFailure(); k++) {
			mroce_ack_path b{};
			mroce_pkt_ref refs[MROCE_SACK_BITS];
			u32 n, i = u32(l.rng() % s.n_paths), sent;

			l.run_for(l.rng() % 300000);
			sent = mroce_path_next_psn(&l.a.paths[i]);
			b.path_id = u8(i);
			b.gen = u16(l.a.paths[i].gen - l.rng() % 8 / 7);
			b.max_psn = sent ? u32(sent - 1 - l.rng() % std::min(sent, 20u)) : 0;
			for (u32 j = 0; j <= b.max_psn && j < MROCE_SACK_BITS; j++)
				if (!j || l.rng() % 3)
					b.sack[j / 64] |= 1ull << (j % 64);
			b.rx_pkts = u32(l.rng() >> (l.rng() % 64));
			b.ce_pkts = u32(l.rng() >> (l.rng() % 64));
			b.ts_echo = u32(mroce_ts(l.now) - (l.rng() >> (l.rng() % 64)));
			b.ack_delay = u16(l.rng() >> 40);
			b.rate_hint = u16(l.rng());
			mroce_conn_tx_ack(&l.a.tx, &b, l.now, refs, &n);
			if (l.rng() % 4 == 0)
				mroce_conn_tx_probe_rsp(&l.a.tx, i, l.a.paths[i].gen, sent - 1,
							mroce_health_probe_value(&l.a.paths[i],
										 l.a.paths[i].gen,
										 sent - 1),
							l.now);
			if (l.rng() % 50 == 0)
				mroce_conn_tx_path_failed(&l.a.tx, i, l.now);
			l.pump();
			check_books(l.a.tx);
		}
	}
}

} // namespace
