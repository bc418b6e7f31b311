// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Runs a scenario and says what came out. */
#ifndef SIM_RUNNER_H
#define SIM_RUNNER_H

#include "scenario.h"

#include <functional>
#include <vector>

namespace sim {

struct Sample {
	double us;		/* since the start */
	double gbps;		/* placed at all receivers, since the last sample */
	double queue_bytes;	/* incast: in front of the receiver, all planes */
	double jain;		/* incast: over the last WINDOW samples */
};

struct Outcome {
	bool finished = false;
	double us = 0;			/* until the last message, or the limit */
	double measured_us = 0;		/* the same, from the first start that is measured */
	double gbps = 0;		/* placed, all hosts together */
	double gbps_per_sender = 0;
	std::vector<double> fct_us;	/* sorted; without the victim */
	u32 unfinished = 0;		/* messages */
	u64 placed = 0, emitted = 0, received = 0, in_flight = 0;
	u64 drops_full = 0, drops_loss = 0, drops_down = 0, marked = 0, pauses = 0;
	u64 max_queue = 0;		/* bytes, of any switch port */
	TransportCounters transport;
	double rtt_us = 0, bdp_bytes = 0;

	/* Incast. */
	double last_start_us = 0;	/* after the first that is measured */
	double jain_after_2rtt = 0;	/* of what came from 2 to 12 round trips after the last start */
	double queue_after_2rtt = 0;	/* largest of the samples from there on, bytes */
	double victim_gbps = 0;
	double victim_from_us = 0, victim_from_bytes = 0;	/* what counts begins here */
	std::vector<Sample> samples;

	double percentile(double p) const;	/* of the FCTs; NaN if there are none */
};

Outcome run_scenario(const Scenario &s, const std::function<void(double)> &progress = {});

double jain(const std::vector<double> &x);

} // namespace sim

#endif
