// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The experiments of protocol.md 8.2: which runs, and what is read off their outcomes. */
#ifndef SIM_EXPERIMENTS_H
#define SIM_EXPERIMENTS_H

#include "results.h"

#include <functional>
#include <string>
#include <vector>

namespace sim {

struct Experiment {
	std::string name;
	std::vector<Scenario> runs;
	std::function<void(const std::vector<Scenario> &, const std::vector<Outcome> &, Report &)> judge;
};

/* Half an hour's worth, or everything. */
std::vector<Experiment> experiments(bool full);

/* Those whose names begin with one of @only; all if it is empty.  ConfigError if one fits none. */
std::vector<Experiment> choose(std::vector<Experiment> all, const std::vector<std::string> &only);

/* Runs them, @jobs runs at a time, and writes the report.  The results do not depend on @jobs. */
bool run_suite(const std::vector<Experiment> &list, unsigned jobs, const std::string &folder);

} // namespace sim

#endif
