// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * metaroce-sim run      one scenario, from a file and options
 * metaroce-sim suite    the experiments; writes results.json and series.json
 */
#include "experiments.h"
#include "results.h"
#include "runner.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>
#include <iostream>

using nlohmann::json;

namespace {

json read_file(const std::string &path)
{
	std::ifstream in(path);

	if (!in)
		throw sim::ConfigError(path + ": expected a readable file");
	try {
		return json::parse(in);
	} catch (const json::parse_error &e) {
		throw sim::ConfigError(path + ": expected JSON, found an error at byte " +
				       std::to_string(e.byte));
	}
}

/* topology.hosts=128 */
void set_key(json &j, const std::string &option)
{
	std::size_t eq = option.find('=');

	if (eq == std::string::npos || !eq)
		throw sim::ConfigError(option + ": expected KEY=VALUE");
	std::string key = option.substr(0, eq), text = option.substr(eq + 1);
	json value = json::parse(text, nullptr, false);
	json *at = &j;
	std::size_t dot;

	if (value.is_discarded())
		value = text;
	while ((dot = key.find('.')) != std::string::npos) {
		at = &(*at)[key.substr(0, dot)];
		if (!at->is_object() && !at->is_null())
			throw sim::ConfigError(key.substr(0, dot) + ": expected an object");
		key = key.substr(dot + 1);
	}
	(*at)[key] = value;
}

int run(const std::string &file, const std::vector<std::string> &settings)
{
	json j = file.empty() ? json::object() : read_file(file);

	for (const std::string &s : settings)
		set_key(j, s);
	sim::Scenario s = sim::parse_scenario(j);
	sim::Outcome o = sim::run_scenario(s, [](double p) {
		std::fprintf(stderr, "\r%3.0f %%", 100 * p);
	});

	std::fprintf(stderr, "\r     \r");
	std::cout << sim::describe(o).dump(2) << "\n";
	return o.finished ? 0 : 1;
}

} // namespace

int main(int argc, char **argv)
{
	CLI::App app{"Discrete-event simulator of MetaRoCE and its peers"};
	std::string file, out = "build/sim";
	std::vector<std::string> settings, only;
	bool full = false, list = false;
	unsigned jobs = 2;

	app.require_subcommand(1);
	CLI::App *one = app.add_subcommand("run", "run one scenario, print what came out");
	one->add_option("file", file, "JSON: name, system, seed, topology, workload, metaroce, rocev2, "
				      "sprayer, faults, limit_ns, sample_ns");
	one->add_option("-s,--set", settings, "set a key, as in topology.hosts=128");
	CLI::App *suite = app.add_subcommand("suite", "run the experiments");
	suite->add_option("-o,--out", out, "folder of results.json and series.json");
	suite->add_option("-j,--jobs", jobs, "runs at a time")->check(CLI::Range(1u, 256u));
	suite->add_option("--only", only, "experiments, by the beginning of their names");
	suite->add_flag("--full", full, "everything, also what takes hours");
	suite->add_flag("--list", list, "name the experiments and the number of their runs");
	CLI11_PARSE(app, argc, argv);
	try {
		if (one->parsed())
			return run(file, settings);
		std::vector<sim::Experiment> e = sim::choose(sim::experiments(full), only);

		if (list) {
			for (const sim::Experiment &x : e)
				std::cout << x.name << " " << x.runs.size() << "\n";
			return 0;
		}
		return sim::run_suite(e, jobs, out) ? 0 : 1;
	} catch (const sim::ConfigError &e) {
		std::cerr << "metaroce-sim: " << e.what() << "\n";
		return 2;
	} catch (const std::exception &e) {
		std::cerr << "metaroce-sim: " << e.what() << "\n";
		return 1;
	}
}
