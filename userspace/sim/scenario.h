// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Everything that determines one run; read from JSON, checked key by key. */
#ifndef SIM_SCENARIO_H
#define SIM_SCENARIO_H

#include "fabric.h"
#include "metaroce.h"
#include "roce.h"
#include "sprayer.h"

#include <nlohmann/json_fwd.hpp>

#include <stdexcept>
#include <string>
#include <vector>

namespace sim {

/* "key: expected this, found that" */
struct ConfigError : std::runtime_error {
	using std::runtime_error::runtime_error;
};

enum class System { MetaRoce, Rocev2Pfc, Rocev2, Sprayer };
enum class Pattern { PointToPoint, Ring, AllToAll, Incast, Permutation };

struct WorkloadSettings {
	Pattern pattern = Pattern::PointToPoint;
	u64 message_bytes = 1 << 20;
	u32 count = 8;			/* point-to-point: messages */
	u32 window = 2;			/* point-to-point: posted at a time */
	u32 connections = 1;		/* point-to-point, permutation: of every pair */
	bool random_placement = true;
	u32 slices = 1;			/* ring: parts of a chunk */
	u32 steps = 0;			/* ring: 0 means 2 (N - 1) */
	u32 outstanding = 8;		/* all-to-all */
	u32 senders = 63;		/* incast */
	u64 stagger_ns = 8000;		/* incast: the senders start within it */
	bool victim = false;		/* incast: one more flow beside it */
	u32 rounds = 1;			/* incast: the last one is measured */
	u64 gap_ns = 1000000;		/* between rounds */
	bool incast = true;		/* false: the victim without the incast */
};

struct FaultSettings {
	enum class Kind { SpineLink, Spine, Plane, HostLink };
	enum class What { Down, Slow, Loss };
	Kind kind = Kind::SpineLink;
	What what = What::Down;
	u64 at_ns = 0, until_ns = 0;	/* 0: for ever */
	u32 plane = 0, leaf = 0, spine = 0, host = 0;
	double gbps = 0, loss_percent = 0;
	bool silent = false;	/* routing does not learn of it */
};

struct Scenario {
	std::string name = "run";
	System system = System::MetaRoce;
	u64 seed = 1;
	FabricSettings fabric;
	WorkloadSettings workload;
	MetaSettings metaroce;
	RoceSettings roce;
	SprayerSettings sprayer;
	std::vector<FaultSettings> faults;
	u64 limit_ns = 2000000000;	/* simulated */
	u64 sample_ns = 0;		/* 0: no time series */
};

const char *system_name(System s);
const char *pattern_name(Pattern p);

/* What a system brings along: marking that suits it, flow control. */
Scenario default_scenario(System system);

/* Throws ConfigError. */
Scenario parse_scenario(const nlohmann::json &j);
/* What fits together and what does not; parse_scenario() ends with it. */
void check_scenario(const Scenario &s);

} // namespace sim

#endif
