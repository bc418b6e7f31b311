// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// mroce-verbs: tests the verbs of any RC-capable RDMA device, byte by byte.
#include "runner.h"

#include <cstdio>
#include <cstdlib>
#include <getopt.h>
#include <iostream>
#include <regex>

namespace mv {

namespace {

const char usage_text[] =
	"usage: mroce-verbs [options]\n"
	"  --dev NAME         RDMA device under test (default: the first)\n"
	"  --gid INDEX        its GID index (default: the first routable one)\n"
	"  --peer-dev NAME    device at the other end (default: the same, loopback)\n"
	"  --peer-gid INDEX   its GID index\n"
	"  --port N           port of both (default 1)\n"
	"  --filter REGEX     only cases whose name matches\n"
	"  --exclude REGEX    no cases whose name matches\n"
	"  --scale N          effort: multiplies loop counts, sets sizes (default 1; 0.1 for emulated CPUs)\n"
	"  --slow N           patience: multiplies every deadline (default 1)\n"
	"  --lossy            the link loses or reorders: skip cases that judge elapsed time\n"
	"  --remove COMMAND   removes the first device, or both: only the cases named removal_ run, one for each time the devices are there\n"
	"  --seed N           of all random choices (default 1)\n"
	"  --no-fork          run cases in this process (for debuggers)\n"
	"  --list             print the names of the cases\n";

Registry all_cases(const Options &options)
{
	Registry cases;

	if (!options.remove.empty()) {
		add_removal_cases(cases);
		return cases;
	}
	add_query_cases(cases);
	add_mr_cases(cases);
	add_qp_cases(cases);
	add_size_cases(cases);
	add_sge_cases(cases);
	add_inline_cases(cases);
	add_cq_cases(cases);
	add_queue_cases(cases);
	add_read_cases(cases);
	add_atomic_cases(cases);
	add_order_cases(cases);
	add_mixed_cases(cases);
	add_access_cases(cases);
	add_error_cases(cases);
	add_rnr_cases(cases);
	add_flush_cases(cases);
	add_life_cases(cases);
	add_process_cases(cases);
	add_hostile_cases(cases);
	return cases;
}

double number(const char *text, const char *option, double least)
{
	char *end = nullptr;
	double value = std::strtod(text, &end);

	if (end == text || *end || !(value >= least))
		throw std::runtime_error(cat("--", option, ": not a usable number: ", text));
	return value;
}

void set_option(Options &options, int key, const char *value)
{
	switch (key) {
	case 'd': options.dev = value; break;
	case 'D': options.peer_dev = value; break;
	case 'g': options.gid = static_cast<int>(number(value, "gid", 0)); break;
	case 'G': options.peer_gid = static_cast<int>(number(value, "peer-gid", 0)); break;
	case 'p': options.port = static_cast<uint8_t>(number(value, "port", 1)); break;
	case 'f': options.filter = value; break;
	case 'x': options.exclude = value; break;
	case 's': options.scale = number(value, "scale", 1e-6); break;
	case 'w': options.slow = number(value, "slow", 1e-6); break;
	case 'r': options.remove = value; break;
	case 'S': options.seed = std::strtoull(value, nullptr, 0); break;
	case 'L': options.lossy = true; break;
	case 'n': options.fork = false; break;
	case 'l': options.list = true; break;
	default: throw std::runtime_error("unknown option");
	}
}

Options parse(int argc, char **argv)
{
	static const option known[] = {
		{"dev", required_argument, nullptr, 'd'},     {"peer-dev", required_argument, nullptr, 'D'},
		{"gid", required_argument, nullptr, 'g'},     {"peer-gid", required_argument, nullptr, 'G'},
		{"port", required_argument, nullptr, 'p'},    {"filter", required_argument, nullptr, 'f'},
		{"exclude", required_argument, nullptr, 'x'}, {"scale", required_argument, nullptr, 's'},
		{"slow", required_argument, nullptr, 'w'},    {"remove", required_argument, nullptr, 'r'},
		{"seed", required_argument, nullptr, 'S'},    {"lossy", no_argument, nullptr, 'L'},
		{"no-fork", no_argument, nullptr, 'n'},       {"list", no_argument, nullptr, 'l'},
		{"help", no_argument, nullptr, 'h'},          {nullptr, 0, nullptr, 0},
	};
	Options options;
	int key;

	while ((key = getopt_long(argc, argv, "", known, nullptr)) != -1) {
		if (key == 'h') {
			std::cout << usage_text;
			std::exit(0);
		}
		set_option(options, key, optarg);
	}
	if (optind != argc)
		throw std::runtime_error(cat("unexpected argument: ", argv[optind]));
	return options;
}

Registry chosen(const Options &options)
{
	std::regex wanted(options.filter, std::regex::extended), unwanted(options.exclude, std::regex::extended);
	Registry result;

	for (Case &item : all_cases(options)) {
		if (!options.filter.empty() && !std::regex_search(item.name, wanted))
			continue;
		if (!options.exclude.empty() && std::regex_search(item.name, unwanted))
			continue;
		result.push_back(std::move(item));
	}
	return result;
}

int run(int argc, char **argv)
{
	Options options = parse(argc, argv);
	Registry cases = chosen(options);

	if (options.list) {
		for (const Case &item : cases)
			std::cout << item.name << "\n";
		return 0;
	}
	if (cases.empty())
		throw std::runtime_error("no case has such a name");
	return run_cases(options, cases) ? 0 : 1;
}

} // namespace

} // namespace mv

int main(int argc, char **argv)
{
	try {
		return mv::run(argc, argv);
	} catch (const std::exception &error) {
		std::cerr << "mroce-verbs: " << error.what() << "\n";
		return 2;
	}
}
