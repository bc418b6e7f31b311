// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "rtt.h"

u32 mroce_rtt_of(u64 now, u32 ts_echo, u16 ack_delay)
{
	u32 passed = mroce_ts(now) - ts_echo;
	u64 delay = (u64)ack_delay << 8;
	u64 ns = (u64)passed << 6;

	if (passed >> 31 || ack_delay == 0xffff || ns < delay)
		return 0;
	ns -= delay;
	if (ns > MROCE_RTT_MAX_NS)
		return 0;
	return ns ? (u32)ns : 1;
}

static void rtt_min(struct mroce_rtt *r, u32 rtt_ns, u64 now)
{
	if (now - r->min_since > MROCE_RTT_MIN_WINDOW_NS) {
		r->min_ns = r->min_next_ns;
		r->min_next_ns = rtt_ns;
		r->min_since = now;
	}
	r->min_next_ns = min_t(u32, r->min_next_ns, rtt_ns);
	r->min_ns = min_t(u32, r->min_ns, rtt_ns);
}

void mroce_rtt_sample(struct mroce_rtt *r, u32 rtt_ns, u64 now)
{
	u32 diff;

	if (!r->srtt_ns) {
		r->srtt_ns = rtt_ns;
		r->rttvar_ns = rtt_ns / 2;
		r->min_ns = rtt_ns;
		r->min_next_ns = rtt_ns;
		r->min_since = now;
		r->last = now;
		return;
	}
	rtt_min(r, rtt_ns, now);
	if (mroce_rtt_stale(r, now)) {
		r->srtt_ns = rtt_ns;
		r->rttvar_ns = max_t(u32, r->rttvar_ns, rtt_ns / 4);
	}
	r->last = now;
	diff = rtt_ns > r->srtt_ns ? rtt_ns - r->srtt_ns : r->srtt_ns - rtt_ns;
	r->rttvar_ns = (u32)(((u64)r->rttvar_ns * 3 + diff) / 4);
	r->srtt_ns = (u32)(((u64)r->srtt_ns * 7 + rtt_ns) / 8);
	if (!r->srtt_ns)
		r->srtt_ns = 1;
}

u64 mroce_rtt_pto(const struct mroce_rtt *r, u32 srtt_ns, u32 tick_ns, u64 ack_delay_ns)
{
	u64 srtt = r->srtt_ns ? r->srtt_ns : srtt_ns;
	u64 var = r->srtt_ns ? 4ull * r->rttvar_ns : 2 * srtt;

	return srtt + max_t(u64, var, tick_ns) + ack_delay_ns;
}
