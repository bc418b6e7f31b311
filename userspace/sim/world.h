// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What every part of one simulation shares: the clock, the events to come, the packets under way. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "event_queue.h"
#include "packet.h"

namespace sim {

struct World {
	EventQueue events;
	Pool<Packet> packets;
	Time now = 1000 * PS_PER_MS;	/* the core takes 0 for "never" */

	u64 now_ns() const { return now / PS_PER_NS; }
	void at(Time t, Kind kind, u32 index) { events.push(t < now ? now : t, kind, index); }
};

} // namespace sim

#endif
