/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Round-trip time of a path from echoed timestamps: no Karn rule is needed,
 * since every transmission carries its own time (protocol.rst 3.1, 3.3).
 */
#ifndef MROCE_CORE_RTT_H
#define MROCE_CORE_RTT_H

#include "platform.h"

#define MROCE_TICK_NS		50000u		/* no timer of a kernel is shorter (3.2 rule 7) */
#define MROCE_RTT_INIT_NS	1000000u	/* before the first sample */
#define MROCE_RTT_MAX_NS	4000000000u	/* more is absurd */
#define MROCE_RTT_MIN_WINDOW_NS	10000000000ull	/* a minimum is forgotten after 10 to 20 s */

struct mroce_rtt {
	u64 min_since;		/* when min_next_ns began */
	u64 last;		/* time of the last sample */
	u32 srtt_ns;		/* 0: no sample yet */
	u32 rttvar_ns;
	u32 min_ns;
	u32 min_next_ns;
};

/* Nothing was measured for 16 round trips (and 1 ms): the average says little. */
static inline bool mroce_rtt_stale(const struct mroce_rtt *r, u64 now)
{
	return now - r->last > 16ull * r->srtt_ns + 1000000;
}

/* The clock of tx_ts and ts_echo: 64 ns units, wraps every 275 s. */
static inline u32 mroce_ts(u64 now)
{
	return (u32)(now >> 6);
}

/*
 * Round trip in ns from the echo of a packet's tx_ts and the peer's delay
 * (256 ns units), or 0 if the values are absurd: an echo from the future, a
 * saturated delay, a delay longer than the time that passed, more than 4 s.
 */
u32 mroce_rtt_of(u64 now, u32 ts_echo, u16 ack_delay);

/* One sample (not 0).  After a long pause it replaces the average. */
void mroce_rtt_sample(struct mroce_rtt *r, u32 rtt_ns, u64 now);

/*
 * Probe timeout: srtt + max(4 rttvar, @tick_ns) + @ack_delay_ns; @srtt_ns
 * stands in as long as there is no sample.
 */
u64 mroce_rtt_pto(const struct mroce_rtt *r, u32 srtt_ns, u32 tick_ns, u64 ack_delay_ns);

#endif
