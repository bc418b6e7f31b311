// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <vector>

extern "C" {
#include "conn_rx.h"
}

namespace {

using Rng = std::mt19937_64;
const u64 kUs = 1000, kMs = 1000000;

struct Rx : mroce_conn_rx {
	explicit Rx(u32 n = 4) : mem(n)
	{
		mroce_conn_rx_init(this, mem.data(), n);
		srtt_ns = 80 * kUs; /* delayed acknowledgement: 10 us */
	}

	static mroce_pkt pkt(u8 path, u16 gen, u32 psn, u8 flags = 0, u8 type = MROCE_T_DATA)
	{
		mroce_pkt p{};
		p.type = type, p.path_id = path, p.path_gen = gen, p.path_psn = psn, p.flags = flags;
		p.tx_ts = psn * 7 + 1;
		return p;
	}

	mroce_path_verdict check(u8 path, u16 gen, u32 psn) const
	{
		mroce_pkt p = pkt(path, gen, psn);
		return mroce_conn_rx_check(this, &p);
	}

	mroce_path_verdict put(const mroce_pkt &p, u32 bytes = 100, bool ce = false)
	{
		mroce_path_verdict v = mroce_conn_rx_check(this, &p);
		if (v == MROCE_PATH_OK || v == MROCE_PATH_DUP)
			mroce_conn_rx_commit(this, &p, bytes, ce, now);
		return v;
	}

	mroce_path_verdict put(u8 path, u16 gen, u32 psn) { return put(pkt(path, gen, psn)); }

	bool due() const { return mroce_conn_rx_due(this, now); }

	std::vector<mroce_ack_path> blocks(u32 max = 22)
	{
		std::vector<mroce_ack_path> b(max);
		u32 n = mroce_conn_rx_blocks(this, b.data(), max, now);
		EXPECT_LE(n, max);
		b.resize(n);
		u32 owed = 0;
		u64 first = ~0ull;
		for (const auto &p : mem) {
			owed += p.due;
			EXPECT_LE(p.due, p.news ? 1 : 0);
			if (p.ack_deadline)
				first = std::min(first, p.ack_deadline);
		}
		EXPECT_EQ(owed, n_due);
		EXPECT_EQ(first, deadline);
		return b;
	}

	/* Brings a path past its first packet and its idle time, with nothing owed. */
	void settle(u8 path, u16 gen = 1, u32 upto = 0)
	{
		for (u32 i = 0; i <= upto; i++)
			put(path, gen, i);
		while (!blocks().empty())
			;
		now += kUs;
	}

	std::vector<mroce_rx_path> mem;
	u64 now = 5 * kMs;
};

bool has(const mroce_ack_path &b, u32 psn)
{
	u32 back = b.max_psn - psn;
	return back < 256 && b.sack[back / 64] >> (back % 64) & 1;
}

} // namespace

TEST(Path32Rule3, FirstGenerationMayBeAny)
{
	for (u16 gen : {0, 1, 32767, 32768, 65535}) {
		Rx rx;
		EXPECT_EQ(rx.check(0, gen, 65536), MROCE_PATH_REJECT);
		EXPECT_EQ(rx.check(0, gen, ~0u), MROCE_PATH_REJECT);
		EXPECT_EQ(rx.put(0, gen, 65535), MROCE_PATH_OK);
	}
}

TEST(Path32Rule3, UnknownPath)
{
	Rx rx(4);
	EXPECT_EQ(rx.check(3, 0, 0), MROCE_PATH_OK);
	EXPECT_EQ(rx.check(4, 0, 0), MROCE_PATH_REJECT);
	EXPECT_EQ(rx.check(255, 0, 0), MROCE_PATH_REJECT);
}

TEST(Path32Rule3, GenerationAheadBecomesCurrent)
{
	for (u16 g : {u16(0), u16(40000), u16(65535)}) {
		Rx rx;
		rx.settle(0, g, 3);
		EXPECT_EQ(rx.check(0, u16(g + 1), 65536), MROCE_PATH_REJECT);
		EXPECT_EQ(rx.check(0, u16(g + 32767), 65535), MROCE_PATH_OK);
		EXPECT_EQ(rx.check(0, u16(g + 32768), 0), MROCE_PATH_FORGOTTEN);
		EXPECT_EQ(rx.put(0, u16(g + 1), 0), MROCE_PATH_OK);
		/* The old one is the previous, and still counted. */
		EXPECT_EQ(rx.put(0, g, 3), MROCE_PATH_DUP);
		EXPECT_EQ(rx.put(0, g, 4), MROCE_PATH_OK);
		EXPECT_EQ(rx.put(0, u16(g + 3), 0), MROCE_PATH_OK);
		EXPECT_EQ(rx.put(0, g, 5), MROCE_PATH_FORGOTTEN);
		EXPECT_EQ(rx.put(0, u16(g + 2), 0), MROCE_PATH_FORGOTTEN) << "never seen";
		EXPECT_EQ(rx.put(0, u16(g + 1), 1), MROCE_PATH_OK);
	}
}

TEST(Path32Rule3, ForgottenIsNotRecorded)
{
	Rx rx;
	rx.settle(0, 5);
	rx.settle(0, 6);
	rx.settle(0, 7);
	auto old = rx.mem;
	u64 bytes = rx.rx_bytes;
	mroce_pkt p = Rx::pkt(0, 5, 1);
	mroce_conn_rx_commit(&rx, &p, 100, true, rx.now);
	EXPECT_EQ(0, memcmp(old.data(), rx.mem.data(), sizeof(old[0]) * old.size()));
	EXPECT_EQ(rx.rx_bytes, bytes);
}

TEST(Path32Rule3, RetiredBlockOnceAndWhileItsPacketsArrive)
{
	Rx rx;
	rx.settle(0, 5, 2);
	rx.put(0, 6, 0);
	EXPECT_TRUE(rx.due());
	auto b = rx.blocks();
	ASSERT_EQ(b.size(), 2u);
	EXPECT_EQ(b[0].gen, 5);
	EXPECT_TRUE(b[0].flags & MROCE_PB_RETIRED);
	EXPECT_EQ(b[0].max_psn, 2u);
	EXPECT_EQ(b[1].gen, 6);
	EXPECT_FALSE(b[1].flags & MROCE_PB_RETIRED);
	EXPECT_TRUE(rx.blocks().empty());
	rx.put(0, 6, 1);
	b = rx.blocks();
	ASSERT_EQ(b.size(), 1u);
	EXPECT_EQ(b[0].gen, 6);
	rx.put(0, 5, 3);
	b = rx.blocks();
	ASSERT_EQ(b.size(), 1u);
	EXPECT_EQ(b[0].gen, 5);
	EXPECT_TRUE(b[0].flags & MROCE_PB_RETIRED);
	EXPECT_EQ(b[0].max_psn, 3u);
	EXPECT_EQ(b[0].rx_pkts, 4u);
}

TEST(Path32Rule3, PsnWithin65536OfTheHighest)
{
	Rx rx;
	rx.put(0, 0, 65000);
	EXPECT_EQ(rx.check(0, 0, 65000 + 65536), MROCE_PATH_OK);
	EXPECT_EQ(rx.check(0, 0, 65000 + 65537), MROCE_PATH_REJECT);
	EXPECT_EQ(rx.check(0, 0, 65000u + 0x7fffffff), MROCE_PATH_REJECT);
	EXPECT_EQ(rx.check(0, 0, 65000 + 0x80000000), MROCE_PATH_REJECT);
	rx.put(0, 0, 130000);
	EXPECT_EQ(rx.check(0, 0, 130000 - 65536), MROCE_PATH_DUP);
	EXPECT_EQ(rx.check(0, 0, 130000 - 65537), MROCE_PATH_REJECT);
	EXPECT_EQ(rx.check(0, 0, 130000 - 255), MROCE_PATH_OK);
	EXPECT_EQ(rx.check(0, 0, 130000 - 256), MROCE_PATH_DUP) << "cannot tell";
	EXPECT_EQ(rx.check(0, 0, 130000), MROCE_PATH_DUP);
}

TEST(Path32Rule3, NothingIsBelowZero)
{
	Rx rx;
	rx.put(0, 0, 10);
	EXPECT_EQ(rx.check(0, 0, 0), MROCE_PATH_OK);
	EXPECT_EQ(rx.check(0, 0, ~0u), MROCE_PATH_REJECT);
	EXPECT_EQ(rx.check(0, 0, 0u - 200), MROCE_PATH_REJECT);
}

TEST(Path32Rule3, PsnWrapsAround)
{
	Rx rx;
	for (u32 i = 0; i <= 0xffff; i++)
		ASSERT_EQ(rx.put(0, 0, i << 16), MROCE_PATH_OK);
	auto b = rx.blocks();
	ASSERT_EQ(b.size(), 1u);
	EXPECT_LE(b[0].max_psn - b[0].cum_psn, 1u << 30) << "stays comparable with max_psn";
	EXPECT_EQ(rx.put(0, 0, 0xfffffff0), MROCE_PATH_OK);
	EXPECT_EQ(rx.put(0, 0, 5), MROCE_PATH_OK);
	/* Now what is before 0 is real. */
	EXPECT_EQ(rx.put(0, 0, 0xffffffff), MROCE_PATH_OK);
	EXPECT_EQ(rx.put(0, 0, 0xffffffff), MROCE_PATH_DUP);
	EXPECT_EQ(rx.put(0, 0, 0xfffffff0), MROCE_PATH_DUP);
	EXPECT_EQ(rx.put(0, 0, 0), MROCE_PATH_OK);
	b = rx.blocks();
	ASSERT_EQ(b.size(), 1u);
	EXPECT_EQ(b[0].max_psn, 5u);
	for (u32 i = 0; i < 256; i++) {
		u32 p = 5 - i;
		EXPECT_EQ(has(b[0], p), p == 5 || p == 0 || p == 0xffffffff || p == 0xfffffff0) << p;
	}
	/* A new generation begins at 0 again. */
	rx.put(0, 1, 3);
	EXPECT_EQ(rx.check(0, 1, 0xffffffff), MROCE_PATH_REJECT);
	EXPECT_EQ(rx.check(0, 0, 0xfffffffe), MROCE_PATH_OK);
}

TEST(Path32Rule1, CumulativeStaysAtAHole)
{
	Rx rx;
	for (u32 i = 0; i < 10; i++)
		rx.put(0, 0, i);
	EXPECT_EQ(rx.blocks().at(0).cum_psn, 10u);
	rx.put(0, 0, 11);
	rx.put(0, 0, 12);
	EXPECT_EQ(rx.blocks().at(0).cum_psn, 10u);
	rx.put(0, 0, 10);
	EXPECT_EQ(rx.blocks().at(0).cum_psn, 13u);
	for (u32 i = 14; i < 500; i++)
		rx.put(0, 0, i);
	EXPECT_EQ(rx.blocks().at(0).cum_psn, 13u);
	EXPECT_EQ(rx.put(0, 0, 13), MROCE_PATH_DUP);
	EXPECT_EQ(rx.blocks().at(0).cum_psn, 13u);
}

TEST(Path32Rule1, VectorShowsEveryShift)
{
	for (u32 jump = 1; jump < 600; jump++) {
		Rx rx;
		for (u32 i = 0; i < 300; i += 3)
			rx.put(0, 0, i);
		rx.put(0, 0, 297 + jump);
		auto b = rx.blocks();
		ASSERT_EQ(b.size(), 1u);
		EXPECT_EQ(b[0].max_psn, 297 + jump);
		EXPECT_EQ(b[0].ts_echo, (297 + jump) * 7 + 1);
		for (u32 i = 0; i <= 297 + jump; i++)
			ASSERT_EQ(has(b[0], i),
				  297 + jump - i < 256 && (i == 297 + jump || (i <= 297 && i % 3 == 0)))
				<< jump << " " << i;
	}
}

/* Against sets of what has arrived, through re-rolls, losses and duplicates. */
TEST(Path32Rule1, RandomAgainstModel)
{
	struct Model {
		std::set<u32> got;
		u32 rx = 0, ce = 0;
	};

	for (u64 seed = 0; seed < 1000; seed++) {
		Rng rng(seed);
		Rx rx(3);
		std::map<std::pair<int, u16>, Model> models;
		u16 gen[3] = {u16(rng()), u16(rng()), u16(rng())};
		u32 next[3] = {}, rolled[3] = {};
		u64 bytes = 0;

		for (int step = 0; step < 400; step++) {
			u8 path = u8(rng() % 3);
			u16 g = gen[path];
			rx.now += rng() % (20 * kUs);
			if (rng() % 100 == 0 && !models[{path, g}].got.empty()) {
				gen[path] = ++g, rolled[path]++, next[path] = 0;
			}
			u32 psn = next[path];
			bool fresh = true;
			if (rolled[path] && !models[{path, g}].got.empty() && rng() % 5 == 0) {
				g--; /* late, of the previous one */
				psn = *models[{path, g}].got.rbegin() + 1 - u32(rng() % 40);
				if (psn > 0x80000000)
					continue;
			} else if (psn > 20 && rng() % 5 == 0) {
				psn -= 1 + u32(rng() % std::min(psn, 300u));
			} else {
				if (rng() % 8 == 0)
					psn += u32(rng() % (rng() % 8 ? 4 : 400));
				if (g == gen[path])
					next[path] = psn + 1;
			}
			Model &m = models[{path, g}];
			u32 max = m.got.empty() ? 0 : *m.got.rbegin();
			fresh = m.got.empty() || psn > max || (max - psn < 256 && !m.got.count(psn));
			mroce_pkt p = Rx::pkt(path, g, psn, rng() % 16 ? 0 : MROCE_F_AR);
			bool ce = rng() % 6 == 0;
			ASSERT_EQ(rx.put(p, 1000, ce), fresh ? MROCE_PATH_OK : MROCE_PATH_DUP)
				<< seed << " " << step;
			bytes += 1000;
			m.rx++, m.ce += ce;
			if (fresh)
				m.got.insert(psn);
			if (!fresh || (p.flags & MROCE_F_AR)) {
				ASSERT_TRUE(rx.due());
			}
			if (!rx.due() && rng() % 8)
				continue;
			for (const auto &b : rx.blocks(1 + u32(rng() % 6))) {
				const Model &k = models.at({b.path_id, b.gen});
				u32 top = *k.got.rbegin(), hole = 0;
				while (k.got.count(hole))
					hole++;
				ASSERT_EQ(b.max_psn, top);
				ASSERT_EQ(b.ts_echo, top * 7 + 1);
				ASSERT_EQ(b.cum_psn, hole);
				ASSERT_EQ(b.rx_pkts, k.rx);
				ASSERT_EQ(b.ce_pkts, k.ce);
				ASSERT_EQ(bool(b.flags & MROCE_PB_RETIRED), b.gen != gen[b.path_id]);
				for (u32 i = 0; i < 256; i++)
					ASSERT_EQ(has(b, top - i), top >= i && k.got.count(top - i) > 0);
			}
		}
		EXPECT_EQ(rx.rx_bytes, bytes);
		/* Everything owed is paid in the end, and then nothing more. */
		for (int n = 0; n < 20; n++)
			rx.blocks(1);
		EXPECT_TRUE(rx.blocks().empty());
		EXPECT_EQ(rx.deadline, ~0ull);
		EXPECT_FALSE(rx.due());
	}
}

TEST(Ack33, GapAtOnce)
{
	Rx rx;
	rx.settle(0);
	rx.put(0, 1, 1);
	EXPECT_FALSE(rx.due());
	rx.put(0, 1, 3);
	EXPECT_TRUE(rx.due());
	rx.blocks();
	/* The hole is old news, and its filling no gap. */
	rx.put(0, 1, 4);
	EXPECT_FALSE(rx.due());
	rx.put(0, 1, 2);
	EXPECT_FALSE(rx.due());
}

TEST(Ack33, AckRequestProbeAndDuplicateAtOnce)
{
	Rx rx;
	rx.settle(0);
	rx.put(Rx::pkt(0, 1, 1, MROCE_F_AR));
	EXPECT_TRUE(rx.due());
	rx.blocks();
	rx.put(Rx::pkt(0, 1, 2, 0, MROCE_T_PROBE));
	EXPECT_TRUE(rx.due());
	rx.blocks();
	rx.put(Rx::pkt(0, 1, 3, MROCE_F_RTX | MROCE_F_MOVED | MROCE_F_TAIL));
	EXPECT_FALSE(rx.due());
	rx.put(0, 1, 3);
	EXPECT_TRUE(rx.due());
	auto b = rx.blocks();
	ASSERT_EQ(b.size(), 1u);
	EXPECT_TRUE(b[0].flags & MROCE_PB_DUP);
	EXPECT_EQ(b[0].rx_pkts, 5u);
	rx.put(0, 1, 4);
	EXPECT_FALSE(rx.blocks().at(0).flags & MROCE_PB_DUP) << "told once";
}

/* An answer of one packet that does not ask. */
mroce_pkt lazy(u8 path, u32 psn, u8 flags = 0)
{
	mroce_pkt p = Rx::pkt(path, 1, psn, flags);
	p.opcode = MROCE_OP_READ_RSP, p.sflags = MROCE_SF_FIRST | MROCE_SF_LAST;
	return p;
}

TEST(Ack33, LazyWaitsForAPacketOfOurs)
{
	Rx rx;
	rx.settle(0);
	rx.now += 10 * kMs;
	EXPECT_FALSE(mroce_conn_rx_piggy(&rx));
	rx.put(lazy(0, 1));
	EXPECT_FALSE(rx.due()) << "not even after idle";
	EXPECT_TRUE(mroce_conn_rx_piggy(&rx));
	EXPECT_EQ(rx.deadline, rx.now + 250 * kUs) << "at least";
	auto b = rx.blocks(1);
	ASSERT_EQ(b.size(), 1u);
	EXPECT_EQ(b[0].max_psn, 1u);
	EXPECT_FALSE(mroce_conn_rx_piggy(&rx));
	EXPECT_EQ(rx.deadline, ~0ull);
	rx.put(lazy(0, 2));
	rx.now += 250 * kUs;
	EXPECT_TRUE(rx.due()) << "no packet of ours came";
}

TEST(Ack33, LazyIsNeverLazierThanItsLimitsAndItsCompany)
{
	Rx rx;
	rx.settle(0);
	rx.srtt_ns = u32(200 * kUs);
	rx.put(lazy(0, 1));
	EXPECT_EQ(rx.deadline, rx.now + 400 * kUs) << "2 srtt";
	rx.blocks();
	rx.srtt_ns = u32(10 * kMs);
	rx.put(lazy(0, 2));
	EXPECT_EQ(rx.deadline, rx.now + kMs);
	rx.put(0, 1, 3); /* not lazy: min(srtt / 8, 25 us) */
	EXPECT_EQ(rx.deadline, rx.now + 25 * kUs);
	EXPECT_EQ(rx.n_lazy, 0u);
	rx.put(lazy(0, 4));
	EXPECT_EQ(rx.deadline, rx.now + 25 * kUs);
	rx.blocks();
	rx.srtt_ns = 0;
	rx.put(lazy(0, 5));
	EXPECT_EQ(rx.deadline, rx.now + 250 * kUs);
	rx.put(lazy(0, 7));
	EXPECT_TRUE(rx.due()) << "a gap";
	rx.blocks();
	for (u32 i = 8; i < 12; i++)
		rx.put(lazy(0, i));
	EXPECT_TRUE(rx.due()) << "the fourth";
	rx.blocks();
	rx.put(lazy(0, 12, MROCE_F_AR));
	EXPECT_TRUE(rx.due()) << "it does ask";
	mroce_pkt p = lazy(1, 0);
	p.sflags = MROCE_SF_LAST;
	EXPECT_FALSE(mroce_is_lazy(&p)) << "several packets";
	p = lazy(1, 0), p.opcode = MROCE_OP_WRITE;
	EXPECT_FALSE(mroce_is_lazy(&p)) << "a request";
}

TEST(Ack33, TooOldToTellIsADuplicate)
{
	Rx rx;
	rx.settle(0, 1, 400);
	rx.put(0, 1, 100);
	EXPECT_TRUE(rx.due());
	auto b = rx.blocks();
	ASSERT_EQ(b.size(), 1u);
	EXPECT_TRUE(b[0].flags & MROCE_PB_DUP);
	EXPECT_EQ(b[0].max_psn, 400u);
}

TEST(Ack33, FirstPacketAfterIdleAtOnce)
{
	Rx rx;
	rx.put(0, 1, 0);
	EXPECT_TRUE(rx.due()) << "the first of all";
	rx.blocks();
	rx.now += 79 * kUs;
	rx.put(0, 1, 1);
	EXPECT_FALSE(rx.due());
	rx.blocks();
	rx.now += 80 * kUs;
	rx.put(0, 1, 2);
	EXPECT_TRUE(rx.due());
	rx.blocks();
	rx.srtt_ns = 0;
	rx.now += 999 * kUs;
	rx.put(0, 1, 3);
	EXPECT_FALSE(rx.due());
	rx.blocks();
	rx.now += 1000 * kUs;
	rx.put(0, 1, 4);
	EXPECT_TRUE(rx.due());
}

TEST(Ack33, FirstCeAfterNonCeAtOnce)
{
	Rx rx;
	rx.settle(0);
	rx.put(Rx::pkt(0, 1, 1), 100, true);
	EXPECT_TRUE(rx.due());
	auto b = rx.blocks();
	EXPECT_TRUE(b.at(0).flags & MROCE_PB_CE);
	EXPECT_EQ(b[0].ce_pkts, 1u);
	rx.put(Rx::pkt(0, 1, 2), 100, true);
	EXPECT_FALSE(rx.due());
	b = rx.blocks();
	EXPECT_TRUE(b.at(0).flags & MROCE_PB_CE);
	EXPECT_EQ(b[0].ce_pkts, 2u);
	rx.put(0, 1, 3);
	EXPECT_FALSE(rx.due());
	EXPECT_FALSE(rx.blocks().at(0).flags & MROCE_PB_CE);
	rx.put(Rx::pkt(0, 1, 4), 100, true);
	EXPECT_TRUE(rx.due());
}

TEST(Ack33, EveryFourPackets)
{
	Rx rx;
	rx.settle(0);
	for (u32 i = 1; i < 100; i++) {
		rx.put(0, 1, i);
		EXPECT_EQ(rx.due(), i % 4 == 0) << i;
		if (rx.due())
			rx.blocks();
	}
	rx.pkts_per_ack = 16;
	rx.put(0, 1, 100);
	rx.blocks();
	for (u32 i = 101; i < 117; i++) {
		rx.put(Rx::pkt(0, 1, i), 8192);
		EXPECT_EQ(rx.due(), i == 116) << "no limit of bytes at a large window";
	}
}

TEST(Ack33, Every16KiB)
{
	Rx rx;
	rx.settle(0);
	rx.put(Rx::pkt(0, 1, 1), 8192);
	EXPECT_FALSE(rx.due());
	rx.put(Rx::pkt(0, 1, 2), 8191);
	EXPECT_FALSE(rx.due());
	rx.put(Rx::pkt(0, 1, 3), 1);
	EXPECT_TRUE(rx.due());
	EXPECT_EQ(rx.blocks().size(), 1u);
	EXPECT_FALSE(rx.due());
}

TEST(Ack33, DelayedAcknowledgement)
{
	for (u32 srtt : {0u, 8000u, 80000u, 200000u, 900000u}) {
		Rx rx;
		u64 delay = srtt ? std::min<u64>(srtt / 8, 25 * kUs) : 25 * kUs;

		rx.srtt_ns = srtt;
		rx.settle(0);
		EXPECT_EQ(rx.deadline, ~0ull);
		rx.put(0, 1, 1);
		EXPECT_EQ(rx.deadline, rx.now + delay);
		u64 first = rx.deadline;
		rx.now += delay / 2;
		rx.put(0, 1, 2);
		EXPECT_EQ(rx.deadline, first) << "of the first unreported packet";
		EXPECT_FALSE(rx.due());
		rx.now = first - 1;
		EXPECT_FALSE(rx.due());
		rx.now = first;
		EXPECT_TRUE(rx.due());
		EXPECT_EQ(rx.blocks().size(), 1u);
		EXPECT_EQ(rx.deadline, ~0ull);
	}
}

TEST(Ack33, DeadlineOfAPathLeftOut)
{
	Rx rx;
	rx.settle(0);
	rx.settle(1);
	rx.put(0, 1, 1);
	u64 first = rx.deadline;
	rx.now += 3 * kUs;
	rx.put(0, 1, 2);
	rx.put(Rx::pkt(1, 1, 1, MROCE_F_AR));
	ASSERT_EQ(rx.blocks(1).at(0).path_id, 1);
	EXPECT_EQ(rx.deadline, first);
}

TEST(Ack33, DueBlocksFirstThenTheRest)
{
	Rx rx(8);
	for (u8 i = 0; i < 8; i++)
		rx.settle(i);
	for (u8 i = 0; i < 8; i++)
		rx.put(Rx::pkt(i, 1, 1, i == 6 ? MROCE_F_AR : 0));
	auto b = rx.blocks(3);
	ASSERT_EQ(b.size(), 3u);
	EXPECT_EQ(b[0].path_id, 6);
	EXPECT_FALSE(rx.due());
	b = rx.blocks(10);
	EXPECT_EQ(b.size(), 5u);
	EXPECT_TRUE(rx.blocks(10).empty());
}

TEST(Ack33, MoreDueThanFit)
{
	Rx rx(8);
	for (u8 i = 0; i < 8; i++)
		rx.put(Rx::pkt(i, 1, 0, MROCE_F_AR));
	EXPECT_EQ(rx.n_due, 8u);
	EXPECT_EQ(rx.blocks(3).size(), 3u);
	EXPECT_TRUE(rx.due());
	EXPECT_EQ(rx.blocks(3).size(), 3u);
	EXPECT_TRUE(rx.due());
	EXPECT_EQ(rx.blocks(3).size(), 2u);
	EXPECT_FALSE(rx.due());
	/* A path that owes two blocks, one at a time. */
	rx.put(0, 2, 0);
	auto b = rx.blocks(1);
	ASSERT_EQ(b.size(), 1u);
	EXPECT_EQ(b[0].gen, 1);
	EXPECT_TRUE(rx.due());
	b = rx.blocks(1);
	ASSERT_EQ(b.size(), 1u);
	EXPECT_EQ(b[0].gen, 2);
	EXPECT_FALSE(rx.due());
	EXPECT_TRUE(rx.blocks(0).empty());
}

TEST(Ack15, DelayIsOfTheHighestPacketAndSaturates)
{
	Rx rx;
	rx.settle(0);
	rx.put(0, 1, 2);
	rx.now += 2560;
	rx.put(0, 1, 1);
	auto b = rx.blocks();
	EXPECT_EQ(b.at(0).ack_delay, 10);
	EXPECT_EQ(b[0].ts_echo, 15u);
	rx.put(0, 2, 0);
	rx.now += 25600;
	b = rx.blocks();
	ASSERT_EQ(b.size(), 2u);
	EXPECT_EQ(b[0].ack_delay, 110) << "of the retired one";
	EXPECT_EQ(b[1].ack_delay, 100);
	rx.put(0, 2, 1);
	rx.now += 20 * kMs;
	EXPECT_EQ(rx.blocks().at(0).ack_delay, 0xffff);
}

TEST(Ack15, HintGoesIntoEveryBlock)
{
	Rx rx;
	rx.hint = 0x1234;
	rx.put(0, 1, 0);
	rx.put(1, 1, 0);
	for (const auto &b : rx.blocks())
		EXPECT_EQ(b.rate_hint, 0x1234);
}
