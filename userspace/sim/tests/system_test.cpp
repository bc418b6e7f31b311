// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Whole runs: the same every time, nothing vanishes, every transport does what it is known for. */
#include "results.h"
#include "runner.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace {

using namespace sim;
using nlohmann::json;

Scenario scenario(const std::string &text)
{
	return parse_scenario(json::parse(text));
}

Scenario small(System system, const std::string &pattern, double loss_percent = 0)
{
	json j = {{"topology", {{"hosts", 16}, {"leaves", 4}, {"spines", 4},
				{"loss_percent", loss_percent}}},
		  {"workload", {{"pattern", pattern}, {"message_bytes", 262144}}},
		  {"system", system_name(system)}};

	return parse_scenario(j);
}

class EverySystem : public ::testing::TestWithParam<System> {};

TEST_P(EverySystem, TheSameSeedGivesTheSameRun)
{
	for (const char *pattern : {"ring", "all-to-all", "permutation"}) {
		Scenario s = small(GetParam(), pattern, 0.5);
		std::string a = describe(run_scenario(s)).dump(), b = describe(run_scenario(s)).dump();

		EXPECT_EQ(a, b);
		s.seed = 2;
		EXPECT_NE(a, describe(run_scenario(s)).dump());
	}
}

TEST_P(EverySystem, NothingVanishes)
{
	for (const char *pattern : {"ring", "all-to-all", "permutation"}) {
		Scenario s = small(GetParam(), pattern, 1);
		Outcome o = run_scenario(s);

		EXPECT_TRUE(o.finished) << pattern;
		EXPECT_EQ(o.emitted, o.received + o.drops_full + o.drops_loss + o.drops_down +
					     o.in_flight) << pattern;
		EXPECT_EQ(o.unfinished, 0u);
		EXPECT_EQ(o.placed, 262144u * o.fct_us.size());	/* every byte once */
		EXPECT_GT(o.drops_loss, 0u);
		EXPECT_GE(o.transport.retransmitted, 1u);
	}
}

TEST_P(EverySystem, FillsAnIdlePath)
{
	Scenario s = small(GetParam(), "point-to-point");

	s.workload.message_bytes = 16 << 20;
	s.workload.count = 4;
	Outcome o = run_scenario(s);

	EXPECT_GT(o.gbps, 0.94 * 400);
	EXPECT_EQ(o.transport.retransmitted, 0u);
	EXPECT_EQ(o.transport.spurious, 0u);
}

TEST_P(EverySystem, OddSizesArrive)
{
	for (u64 bytes : {1ull, 4095ull, 4097ull, 100001ull}) {
		Scenario s = small(GetParam(), "permutation", 2);

		s.workload.message_bytes = bytes;
		EXPECT_TRUE(run_scenario(s).finished) << bytes;
	}
}

INSTANTIATE_TEST_SUITE_P(All, EverySystem,
			 ::testing::Values(System::MetaRoce, System::Sprayer, System::Rocev2,
					   System::Rocev2Pfc),
			 [](const auto &p) {
				 std::string name = system_name(p.param);

				 name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
				 return name;
			 });

TEST(MetaRoce, KeepsItsThroughputUnderLoss)
{
	Scenario s = small(System::MetaRoce, "point-to-point");

	s.workload.message_bytes = 16 << 20;
	double lossless = run_scenario(s).gbps;

	s.fabric.loss_path = 0.01;
	Outcome o = run_scenario(s);
	EXPECT_GT(o.gbps, 0.97 * lossless);
	EXPECT_EQ(o.transport.spurious, 0u);
	s.fabric.loss_path = 0.1;
	EXPECT_GT(run_scenario(s).gbps, 0.85 * lossless);
}

TEST(MetaRoce, UsesAllPlanesAndSurvivesTheLossOfOne)
{
	Scenario s = small(System::MetaRoce, "permutation");

	s.fabric.planes = 4;
	s.metaroce.paths = 32;
	s.workload.message_bytes = 8 << 20;
	double whole = run_scenario(s).us;
	FaultSettings f;

	f.kind = FaultSettings::Kind::Plane;
	f.plane = 1;
	f.at_ns = 50000;
	s.faults.push_back(f);
	Outcome o = run_scenario(s);
	EXPECT_TRUE(o.finished);
	EXPECT_LT(o.us, 2 * whole);
	EXPECT_GT(o.drops_down, 0u);
}

TEST(MetaRoce, AnIncastSharesFairly)
{
	Scenario s = scenario(R"({"workload": {"pattern": "incast", "message_bytes": 1048576,
		"rounds": 2, "victim": true}, "sample_ns": 1000})");
	Outcome o = run_scenario(s);

	EXPECT_TRUE(o.finished);
	EXPECT_GE(o.jain_after_2rtt, 0.95);
	EXPECT_LT(o.queue_after_2rtt, 2 * o.bdp_bytes);
	EXPECT_GT(o.victim_gbps, 0.9 * 384);
}

TEST(Rocev2, PfcLosesNothingGoBackNCollapses)
{
	Scenario s = scenario(R"({"system": "rocev2-pfc", "workload": {"pattern": "incast",
		"message_bytes": 1048576, "senders": 15}})");
	Outcome o = run_scenario(s);

	EXPECT_EQ(o.drops_full, 0u);
	EXPECT_GT(o.pauses, 0u);
	EXPECT_GT(o.transport.cuts, 0u);

	Scenario p = small(System::Rocev2, "point-to-point");

	p.workload.message_bytes = 16 << 20;
	double lossless = run_scenario(p).gbps;

	p.fabric.loss_path = 0.01;
	EXPECT_LT(run_scenario(p).gbps, 0.5 * lossless);
}

TEST(Sprayer, OneSequenceTakesReorderingForLoss)
{
	Scenario s = small(System::Sprayer, "ring");

	s.workload.message_bytes = 1 << 20;
	s.sprayer.reorder_rtt = 0;	/* as IRN has it */
	EXPECT_GT(run_scenario(s).transport.spurious, 0u);
	s.system = System::MetaRoce;
	EXPECT_EQ(run_scenario(s).transport.spurious, 0u);
}

std::string error_of(const std::string &text)
{
	try {
		scenario(text);
	} catch (const ConfigError &e) {
		return e.what();
	}
	return "";
}

TEST(Config, SaysWhichKeyAndWhatWasExpected)
{
	EXPECT_EQ(error_of(R"({"topology": {"hosts": 1}})"),
		  "topology.hosts: expected a whole number from 2 to 4096, found 1");
	EXPECT_EQ(error_of(R"({"topology": {"hosts": 8.5}})"),
		  "topology.hosts: expected a whole number from 2 to 4096, found 8.5");
	EXPECT_EQ(error_of(R"({"topology": {"hosts": 63}})"),
		  "topology.leaves: expected a divisor of hosts (63), found 8");
	EXPECT_EQ(error_of(R"({"topology": {"gbps": "fast"}})"),
		  "topology.gbps: expected a number from 1 to 800, found \"fast\"");
	EXPECT_EQ(error_of(R"({"system": "tcp"})"),
		  "system: expected one of metaroce, rocev2-pfc, rocev2, sprayer, found \"tcp\"");
	EXPECT_EQ(error_of(R"({"workload": []})"), "workload: expected an object, found []");
	EXPECT_EQ(error_of(R"({"workload": {"pattern": "incast", "senders": 64}})"),
		  "workload.senders: expected a number below 64, found 64");
	EXPECT_EQ(error_of(R"({"metaroce": {"payload": 1000}})"),
		  "metaroce.payload: expected a multiple of 64, found 1000");
	EXPECT_EQ(error_of(R"({"metaroce": {"tail_probe": 1}})"),
		  "metaroce.tail_probe: expected true or false, found 1");
	EXPECT_EQ(error_of(R"({"faults": [{"kind": "plane", "plane": 3}]})"),
		  "faults[0].plane: expected a number below 1, found 3");
	EXPECT_EQ(error_of(R"({"sead": 3})").substr(0, 36), "sead: unknown key, expected one of f");
}

TEST(Results, NothingIsLeftOfAReportThatCannotBeWritten)
{
	namespace fs = std::filesystem;
	fs::path folder = fs::temp_directory_path() / "metaroce-sim-test";

	fs::remove_all(folder);
	fs::create_directories(folder / "results.json");	/* in the way */
	EXPECT_THROW(write_report({}, folder.string()), std::exception);
	EXPECT_FALSE(fs::exists(folder / "results.json.tmp"));
	EXPECT_FALSE(fs::exists(folder / "series.json.tmp"));
	fs::remove_all(folder);
	Report r;

	r.results.push_back({"e", "s", 64, 1, 1.5, 4096, "m", 0.0 / 1, "u"});
	write_report(r, folder.string());
	std::ifstream in(folder / "results.json");
	json j = json::parse(in);
	ASSERT_EQ(j.size(), 1u);
	EXPECT_EQ(j[0]["loss_percent"], 1.5);
	EXPECT_EQ(j[0].size(), 9u);
	fs::remove_all(folder);
}

} // namespace
