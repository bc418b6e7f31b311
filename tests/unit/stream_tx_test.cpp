// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <set>

extern "C" {
#include "stream_tx.h"
}

namespace {

using Rng = std::mt19937_64;
const u32 kStarts[] = {0, 1, 63, 4095, 0x7fffffff, 0x80000000, 0xfffff000, 0xffffffc1, 0xffffffff};

struct Tx : mroce_stream_tx {
	explicit Tx(u32 start, u32 taken = 0)
	{
		mroce_stream_tx_init(this, start);
		while (taken--)
			mroce_stream_tx_take(this);
	}
	u32 room() const { return mroce_stream_tx_room(this); }
	u32 take() { return mroce_stream_tx_take(this); }
	bool wanted(u32 spsn) const { return mroce_stream_tx_wanted(this, spsn); }
	bool arrived(u32 spsn) { return mroce_stream_tx_arrived(this, spsn); }
	int block(u32 base_spsn, u64 vector)
	{
		mroce_ack_stream b{};

		b.base_spsn = base_spsn;
		b.vector = vector;
		resend = 0x5555;
		return mroce_stream_tx_block(this, &b, &resend);
	}
	void unmark(u32 first, u32 n) { mroce_stream_tx_unmark(this, first, n); }
	u64 resend = 0;
};

bool same(const mroce_stream_tx &a, const mroce_stream_tx &b)
{
	return !memcmp(&a, &b, sizeof(a));
}

} // namespace

TEST(StreamTx14, SpsnsAreTakenInOrderThroughTheWrap)
{
	for (u32 start : kStarts) {
		Tx t(start);

		EXPECT_TRUE(mroce_stream_tx_idle(&t));
		for (u32 i = 0; i < 200; i++) {
			EXPECT_FALSE(t.wanted(start + i));
			EXPECT_EQ(t.take(), start + i);
			EXPECT_TRUE(t.wanted(start + i));
			EXPECT_FALSE(mroce_stream_tx_idle(&t));
		}
		EXPECT_FALSE(t.wanted(start - 1));
	}
}

TEST(StreamTx63, WindowIs4096)
{
	for (u32 start : kStarts) {
		Tx t(start);

		for (u32 i = 0; i < 4096; i++) {
			ASSERT_EQ(t.room(), 4096 - i);
			t.take();
		}
		EXPECT_EQ(t.room(), 0u);
		/* Path acknowledgements do not open the window: the peer's base does. */
		for (u32 i = 0; i < 4096; i++)
			EXPECT_TRUE(t.arrived(start + i));
		EXPECT_EQ(t.room(), 0u);
		EXPECT_EQ(t.block(start + 1, 0), 1);
		EXPECT_EQ(t.room(), 1u);
		/* The slot of the first SPSN is used again and clean. */
		EXPECT_EQ(t.take(), start + 4096);
		EXPECT_TRUE(t.wanted(start + 4096));
		EXPECT_EQ(t.block(start + 4097, 0), 1);
		EXPECT_TRUE(mroce_stream_tx_idle(&t));
		EXPECT_EQ(t.room(), 4096u);
	}
}

TEST(StreamTx32, Rule9_ArrivedIsNewsOnce)
{
	for (u32 start : kStarts) {
		Tx t(start, 100);

		EXPECT_FALSE(t.arrived(start - 1));
		EXPECT_FALSE(t.arrived(start + 100));
		EXPECT_FALSE(t.arrived(start + 4096 + 5));
		EXPECT_TRUE(t.arrived(start + 5));
		EXPECT_FALSE(t.arrived(start + 5));
		EXPECT_FALSE(t.wanted(start + 5));
		EXPECT_EQ(t.block(start + 50, 0), 1);
		EXPECT_FALSE(t.arrived(start + 49));
		EXPECT_TRUE(t.arrived(start + 50));
	}
}

TEST(StreamTx32, Rule9_ChangedBlockIsProgressRepeatedIsNot)
{
	Tx t(0xfffffff0, 100);

	EXPECT_EQ(t.block(0xfffffff0, 0b110), 1);
	EXPECT_EQ(t.block(0xfffffff0, 0b110), 0);
	EXPECT_EQ(t.block(0xfffffff0, 0b111), 1);
	EXPECT_EQ(t.block(0xfffffff4, 0), 1);
	EXPECT_EQ(t.block(0xfffffff4, 0), 0);
}

TEST(StreamTx15, BlockNamingUnsentHasNoEffect)
{
	for (u32 start : kStarts) {
		Tx t(start, 70), old = t;

		t.arrived(start + 3);
		old = t;
		EXPECT_EQ(t.block(start + 71, 0), -EINVAL);
		EXPECT_EQ(t.block(start + 0x7fffffff, 0), -EINVAL);
		EXPECT_EQ(t.block(start + 70, 1), -EINVAL);
		EXPECT_EQ(t.block(start + 69, 1), -EINVAL);
		EXPECT_EQ(t.block(start + 68, 3), -EINVAL);
		EXPECT_EQ(t.block(start + 6, 1ull << 63), -EINVAL);
		EXPECT_EQ(t.block(start + 40, 1ull << 29), -EINVAL);
		EXPECT_EQ(t.resend, 0u);
		EXPECT_TRUE(same(t, old));
		EXPECT_EQ(t.block(start + 5, 1ull << 63), 1);
		EXPECT_EQ(t.block(start + 40, 1ull << 28), 1);
		EXPECT_EQ(t.block(start + 70, 0), 1);
	}
}

TEST(StreamTx15, OvertakenBlockHasNoEffect)
{
	for (u32 start : kStarts) {
		Tx t(start, 300);

		EXPECT_EQ(t.block(start + 200, 0), 1);
		for (u32 i = 200; i < 300; i++)
			t.arrived(start + i);
		Tx old = t;
		EXPECT_EQ(t.block(start + 199, 0b1010), 0);
		EXPECT_EQ(t.resend, 0u);
		EXPECT_EQ(t.block(start, ~0ull), 0);
		EXPECT_EQ(t.block(start - 0x70000000, ~0ull), 0);
		EXPECT_TRUE(same(t, old));
	}
}

TEST(StreamTx15, ZerosBelowTheHighestOneGoAgain)
{
	for (u32 start : kStarts) {
		Tx t(start, 100);

		for (u32 i = 0; i < 100; i++)
			t.arrived(start + i);
		/* Received: 1, 3 and 64; the paths had acknowledged everything. */
		EXPECT_EQ(t.block(start, 1 | 1 << 2 | 1ull << 63), 0);
		EXPECT_EQ(t.resend, ~(1ull << 1 | 1ull << 3));
		for (u32 i = 0; i < 64; i++)
			EXPECT_EQ(t.wanted(start + i), i != 1 && i != 3) << i;
		/* Above the highest one nothing is known. */
		for (u32 i = 64; i < 100; i++)
			EXPECT_FALSE(t.wanted(start + i));
		/* They are under way again: the repeated block asks for nothing. */
		EXPECT_EQ(t.block(start, 1 | 1 << 2 | 1ull << 63), 0);
		EXPECT_EQ(t.resend, 0u);
	}
}

TEST(StreamTx15, WhatNoPathAcknowledgedIsThePathsAffair)
{
	Tx t(0xfffffffa, 20);

	t.arrived(0xfffffffa);
	t.arrived(0xfffffffd);
	EXPECT_EQ(t.block(0xfffffffa, 1ull << 9), 1);
	EXPECT_EQ(t.resend, 1u | 1u << 3);
}

TEST(StreamTx63, UnmarkMakesAMessageWantedAgain)
{
	for (u32 start : kStarts) {
		Tx t(start, 4096);

		for (u32 i = 0; i < 4096; i++)
			t.arrived(start + i);
		t.unmark(start + 100, 333);
		for (u32 i = 0; i < 4096; i++)
			ASSERT_EQ(t.wanted(start + i), i >= 100 && i < 433) << i;
		Tx old = t;
		t.unmark(start + 100, 0);
		t.unmark(start - 50, 50);
		t.unmark(start + 4096, 1000);
		EXPECT_TRUE(same(t, old));
		/* A message that began below base, of a length beyond next. */
		t.block(start + 1000, 0);
		t.unmark(start - 1000000, 0x7fffffff);
		for (u32 i = 1000; i < 4096; i++)
			ASSERT_TRUE(t.wanted(start + i));
		EXPECT_FALSE(t.wanted(start + 999));
		EXPECT_FALSE(t.wanted(start + 4096));
	}
}

/* Against sets of 64-bit numbers, over thousands of seeds. */
TEST(StreamTx15, RandomAgainstModel)
{
	for (u64 seed = 0; seed < 3000; seed++) {
		Rng rng(seed);
		u32 start = seed % 2 ? u32(0) - u32(rng() % 6000) : u32(rng());
		Tx t(start);
		s64 base = 0, next = 0;
		std::set<s64> arrived;

		for (int step = 0; step < 120; step++) {
			switch (rng() % 5) {
			case 0:
				for (u32 n = u32(rng() % (seed % 3 ? 80 : 2000)); n && next - base < 4096; n--) {
					ASSERT_EQ(t.take(), u32(start + next));
					next++;
				}
				break;
			case 1:
				for (int n = 0; n < 30; n++) {
					s64 i = base - 5 + s64(rng() % u64(next - base + 10));
					bool news = i >= base && i < next && !arrived.count(i);
					ASSERT_EQ(t.arrived(u32(start + i)), news);
					if (news)
						arrived.insert(i);
				}
				break;
			case 2:
			case 3: {
				s64 b = base - 2 + s64(rng() % u64(rng() % 4 ? 70 : next - base + 5));
				u64 v = rng() & rng() & (~0ull >> rng() % 64);
				s64 top = -1;
				for (int k = 0; k < 64; k++)
					if (v >> k & 1)
						top = b + 1 + k;
				int r = t.block(u32(start + b), v);
				u64 want = 0;
				if (b < base) {
					ASSERT_EQ(r, 0);
				} else if (b > next || top >= next) {
					ASSERT_EQ(r, -EINVAL);
				} else {
					bool news = b != base;
					base = b;
					for (s64 i = b; i <= top; i++) {
						bool got = i > b && (v >> (i - b - 1) & 1);
						if (got && arrived.insert(i).second)
							news = true;
						if (!got && arrived.erase(i))
							want |= 1ull << (i - b);
					}
					ASSERT_EQ(r, int(news));
				}
				ASSERT_EQ(t.resend, want) << seed << " " << step;
				break;
			}
			case 4: {
				s64 f = base - 10 + s64(rng() % u64(next - base + 20));
				u32 n = u32(rng() % 200);
				if (rng() % 3)
					break;
				t.unmark(u32(start + f), n);
				for (s64 i = std::max(f, base); i < f + n; i++)
					arrived.erase(i);
				break;
			}
			}
			ASSERT_EQ(t.room(), u32(4096 - (next - base)));
			for (int n = 0; n < 20; n++) {
				s64 i = base - 5 + s64(rng() % u64(next - base + 10));
				ASSERT_EQ(t.wanted(u32(start + i)), i >= base && i < next && !arrived.count(i));
			}
		}
	}
}
