// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <gtest/gtest.h>

extern "C" {
#include "rtt.h"
}

namespace {

const u64 kWrap = 1ull << 38;	/* ns until tx_ts is 0 again */

TEST(Rtt, Sec33_SampleIsNowMinusEchoMinusDelay)
{
	u64 sent = 5000000000, now = sent + 300032;

	EXPECT_EQ(mroce_rtt_of(now, mroce_ts(sent), 0), 300032u);
	EXPECT_EQ(mroce_rtt_of(now, mroce_ts(sent), 100), 300032u - 25600u);
}

TEST(Rtt, Sec33_TimestampsWrapEvery275Seconds)
{
	for (u64 k = 1; k < 4; k++) {
		u64 sent = k * kWrap - 64000, now = k * kWrap + 64000;

		EXPECT_GT(mroce_ts(sent), mroce_ts(now));
		EXPECT_EQ(mroce_rtt_of(now, mroce_ts(sent), 0), 128000u);
	}
}

TEST(Rtt, Sec33_AbsurdValuesAreIgnored)
{
	u64 now = 5 * kWrap + 1000000000;

	EXPECT_EQ(mroce_rtt_of(now, mroce_ts(now + 64), 0), 0u);	   /* future */
	EXPECT_EQ(mroce_rtt_of(now, mroce_ts(now - 64000), 0xffff), 0u);   /* saturated delay */
	EXPECT_EQ(mroce_rtt_of(now, mroce_ts(now - 64000), 1000), 0u);	   /* longer than it took */
	EXPECT_EQ(mroce_rtt_of(now, mroce_ts(now - 5000000000), 0), 0u);   /* 5 s */
	EXPECT_EQ(mroce_rtt_of(now, mroce_ts(now - kWrap / 2), 0), 0u);
	EXPECT_EQ(mroce_rtt_of(now, mroce_ts(now), 0), 1u);		   /* a sample is never 0 */
	for (u32 e = 0; e < 1000; e++)
		EXPECT_LE(mroce_rtt_of(now, e * 4294967u, u16(e * 65)), MROCE_RTT_MAX_NS);
}

TEST(Rtt, Path32Rule7_FirstSampleAndAverage)
{
	mroce_rtt r{};

	mroce_rtt_sample(&r, 100000, 1);
	EXPECT_EQ(r.srtt_ns, 100000u);
	EXPECT_EQ(r.rttvar_ns, 50000u);
	EXPECT_EQ(r.min_ns, 100000u);
	for (int i = 0; i < 200; i++)
		mroce_rtt_sample(&r, 200000, 2);
	EXPECT_NEAR(r.srtt_ns, 200000, 100);
	EXPECT_LT(r.rttvar_ns, 100u);
	EXPECT_EQ(r.min_ns, 100000u);
}

TEST(Rtt, Path32Rule7_PtoHasATickAsFloorOfTheVariance)
{
	mroce_rtt r{};

	EXPECT_EQ(mroce_rtt_pto(&r, 1000000, MROCE_TICK_NS, 25000), 1000000u + 2000000 + 25000);
	for (int i = 0; i < 200; i++)
		mroce_rtt_sample(&r, 200000, u64(i));
	EXPECT_EQ(mroce_rtt_pto(&r, 1, MROCE_TICK_NS, 25000), 200000u + MROCE_TICK_NS + 25000);
	EXPECT_EQ(mroce_rtt_pto(&r, 1, 300000, 25000), 200000u + 300000 + 25000);
}

TEST(Rtt, Sec52_MinimumIsForgotten)
{
	mroce_rtt r{};
	u64 now = 1;

	mroce_rtt_sample(&r, 1000, now);
	for (int i = 0; i < 30; i++)
		mroce_rtt_sample(&r, 5000, now += 1000000000);
	EXPECT_EQ(r.min_ns, 5000u);
}

TEST(Rtt, Sec4_AfterALongPauseOneSampleIsEnough)
{
	mroce_rtt r{};

	mroce_rtt_sample(&r, 100000, 1000);
	EXPECT_FALSE(mroce_rtt_stale(&r, 2000000));
	EXPECT_TRUE(mroce_rtt_stale(&r, 10000000));
	mroce_rtt_sample(&r, 900000, 10000000);
	EXPECT_EQ(r.srtt_ns, 900000u);
}

TEST(Rtt, Sec33_HugeSamplesDoNotOverflow)
{
	mroce_rtt r{};

	for (int i = 0; i < 100; i++)
		mroce_rtt_sample(&r, i % 2 ? MROCE_RTT_MAX_NS : 1, u64(i));
	EXPECT_LE(r.srtt_ns, MROCE_RTT_MAX_NS);
	EXPECT_GT(mroce_rtt_pto(&r, 1, MROCE_TICK_NS, 0), u64(r.srtt_ns));
}

} // namespace
