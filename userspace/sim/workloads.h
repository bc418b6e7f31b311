// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Who sends what to whom, and when. */
#ifndef SIM_WORKLOADS_H
#define SIM_WORKLOADS_H

#include "network.h"

#include <map>
#include <vector>

namespace sim {

/* Connections that are opened once and found again by their ends. */
class Connections {
public:
	u32 get(Network &net, u32 src, u32 dst, u32 lane = 0);

private:
	std::map<std::pair<u64, u32>, u32> endpoints_;
};

/* @count messages from a to b, @window of them posted at a time. */
class PointToPoint final : public Workload {
public:
	PointToPoint(u32 src, u32 dst, u64 bytes, u32 count, u32 window);
	void start(Network &net) override;
	void arrived(Network &net, u32 message) override;
	bool finished() const override { return arrived_ == count_; }
	double progress() const override { return double(arrived_) / double(count_); }

private:
	u32 src_, dst_, count_, window_;
	u64 bytes_;
	u32 endpoint_ = NONE, posted_ = 0, arrived_ = 0;
};

/*
 * Ring all-reduce: 2 (N - 1) steps; a rank sends the chunk of a step when it
 * has that of the step before.  A chunk may be cut into slices that go their
 * way one by one.
 */
class RingAllReduce final : public Workload {
public:
	RingAllReduce(std::vector<u32> ranks, u64 chunk, u32 slices, u32 steps = 0);
	void start(Network &net) override;
	void arrived(Network &net, u32 message) override;
	bool finished() const override { return arrived_ == total_; }
	double progress() const override { return double(arrived_) / double(total_); }
	u32 steps() const { return steps_; }

private:
	void send(Network &net, u32 rank, u32 step, u32 slice);

	std::vector<u32> ranks_, endpoints_;
	u64 chunk_;
	u32 slices_, steps_;
	u64 arrived_ = 0, total_;
};

/* Everyone sends to everyone, @outstanding messages at a time, the next rank first. */
class AllToAll final : public Workload {
public:
	AllToAll(std::vector<u32> ranks, u64 bytes, u32 outstanding);
	void start(Network &net) override;
	void arrived(Network &net, u32 message) override;
	bool finished() const override { return arrived_ == total_; }
	double progress() const override { return double(arrived_) / double(total_); }

private:
	void next(Network &net, u32 rank);

	std::vector<u32> ranks_, sent_;
	u64 bytes_;
	u32 outstanding_;
	u64 arrived_ = 0, total_;
	Connections connections_;
};

/* Messages given beforehand, each with its start; some go on as long as the others last. */
class Schedule final : public Workload {
public:
	struct Item {
		u32 src, dst;
		u64 bytes;
		Time start;
		u32 tag;
		bool background = false;	/* the run does not wait for it */
		u32 lane = 0;
	};

	/* The foreground is repeated, @gap after it was through; the last round is measured. */
	explicit Schedule(std::vector<Item> items, u32 rounds = 1, Time gap = 0);
	void start(Network &net) override;
	void event(Network &net, u32 i) override;
	void arrived(Network &net, u32 message) override;
	bool finished() const override { return arrived_ == total_; }
	double progress() const override { return double(arrived_) / double(total_); }
	u32 measured_from() const override { return measured_from_; }

private:
	std::vector<Item> items_;
	std::vector<u32> endpoints_;
	u32 rounds_, round_ = 0, measured_from_ = 0;
	Time gap_;
	u64 arrived_ = 0, total_ = 0, per_round_ = 0;
	Connections connections_;
};

std::vector<Schedule::Item> incast(u32 receiver, const std::vector<u32> &senders, u64 bytes,
				   Time stagger, Rng &rng);
std::vector<Schedule::Item> permutation(u32 hosts, u64 bytes, Rng &rng);

/* Hosts 0..n-1 in order, or shuffled. */
std::vector<u32> placement(u32 n, bool random, Rng &rng);

} // namespace sim

#endif
