// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Messages, and who wants to know when they have arrived. */
#ifndef SIM_TRAFFIC_H
#define SIM_TRAFFIC_H

#include "units.h"

#include <vector>

namespace sim {

struct Message {
	u32 src, dst;
	u64 bytes;
	Time start = 0;
	Time done = NEVER;	/* its last byte was placed */
	u64 placed = 0;
	u32 tag = 0;		/* of the workload */
};

class Network;

class Workload {
public:
	virtual ~Workload() = default;
	virtual void start(Network &net) = 0;
	virtual void arrived(Network &net, u32 message) = 0;
	virtual void event(Network &, u32) {}
	virtual bool finished() const = 0;
	/* Messages before this one only prepare the ground. */
	virtual u32 measured_from() const { return 0; }
	/* 0 to 1, for the progress line. */
	virtual double progress() const = 0;
};

} // namespace sim

#endif
