// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What a case gets: the two devices, the effort it may spend, and its random numbers.
#pragma once

#include "clock.h"
#include "handle.h"

#include <cstdint>
#include <functional>
#include <random>
#include <string>

namespace mv {

struct Options {
	std::string dev, peer_dev;
	int gid = -1, peer_gid = -1;
	uint8_t port = 1;
	double scale = 1;     // effort: loop counts, sizes
	double slow = 1;      // patience: deadlines
	uint64_t seed = 1;
	std::string filter;
	std::string exclude;
	std::string remove;   // command that takes away the first device, or both
	bool list = false;
	bool fork = true;     // every case in a process of its own
	bool lossy = false;   // the link loses or reorders: leave out cases that judge time
};

// One open RDMA device and the port and GID to use on it.
class Device {
public:
	Device(const std::string &name, uint8_t port, int gid_index);

	[[nodiscard]] ibv_context *ctx() const { return context_.get(); }
	[[nodiscard]] Context release() { return std::move(context_); }

	uint8_t port_num;
	int gid_index;
	std::string name;
	ibv_device_attr attr{};
	ibv_port_attr port{};
	ibv_gid gid{};

private:
	Context context_;
};

class Env {
public:
	Env(const Options &options, std::string_view case_name);

	// The requester's and the responder's device: opened at first use, two contexts even when it is one device.
	[[nodiscard]] Device &a();
	[[nodiscard]] Device &b();

	// New contexts on the same devices.
	[[nodiscard]] Device open_a() const;
	[[nodiscard]] Device open_b() const;

	[[nodiscard]] double patience(double seconds = 20) const { return seconds * opt.slow; }

	// A loop count fitted to the machine: `base` at scale 1, at least `least`.
	[[nodiscard]] int count(int base, int least = 1) const;
	// The largest message worth sending here.
	[[nodiscard]] size_t size_limit() const;

	[[nodiscard]] uint64_t random() { return random_(); }
	[[nodiscard]] uint64_t random(uint64_t below) { return random_() % below; }

	const Options opt;

private:
	std::mt19937_64 random_;
	std::unique_ptr<Device> a_, b_;
};

struct Case {
	std::string name;
	std::function<void(Env &)> run;
	bool timed = false; // judges elapsed time: not for lossy links
};

using Registry = std::vector<Case>;

// One function per family; main.cpp lists them.
void add_query_cases(Registry &);
void add_mr_cases(Registry &);
void add_qp_cases(Registry &);
void add_size_cases(Registry &);
void add_sge_cases(Registry &);
void add_inline_cases(Registry &);
void add_cq_cases(Registry &);
void add_queue_cases(Registry &);
void add_read_cases(Registry &);
void add_atomic_cases(Registry &);
void add_order_cases(Registry &);
void add_mixed_cases(Registry &);
void add_access_cases(Registry &);
void add_error_cases(Registry &);
void add_rnr_cases(Registry &);
void add_flush_cases(Registry &);
void add_life_cases(Registry &);
void add_process_cases(Registry &);
void add_hostile_cases(Registry &);
void add_removal_cases(Registry &);

} // namespace mv
