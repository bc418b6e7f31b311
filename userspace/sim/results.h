// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* results.json: an array of measured values; series.json: curves over time, for the plots. */
#ifndef SIM_RESULTS_H
#define SIM_RESULTS_H

#include "runner.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace sim {

struct Result {
	std::string experiment, system;
	u32 nodes, planes;
	double loss_percent;
	u64 message_bytes;
	std::string metric;
	double value;
	std::string unit;
};

struct Series {
	std::string experiment, system, metric, unit;
	double rtt_us, bdp_bytes;
	std::vector<std::pair<double, double>> points;	/* us, value */
};

struct Report {
	std::vector<Result> results;
	std::vector<Series> series;
};

/* Both files appear complete or not at all. */
void write_report(const Report &report, const std::string &folder);

/* One outcome as JSON. */
nlohmann::json describe(const Outcome &o);

} // namespace sim

#endif
