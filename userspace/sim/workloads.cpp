// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "workloads.h"

#include <algorithm>
#include <numeric>

namespace sim {

u32 Connections::get(Network &net, u32 src, u32 dst, u32 lane)
{
	auto [it, is_new] = endpoints_.try_emplace({u64{src} << 32 | dst, lane}, NONE);

	if (is_new)
		it->second = net.open(src, dst);
	return it->second;
}

PointToPoint::PointToPoint(u32 src, u32 dst, u64 bytes, u32 count, u32 window)
	: src_(src), dst_(dst), count_(count), window_(window), bytes_(bytes)
{
}

void PointToPoint::start(Network &net)
{
	endpoint_ = net.open(src_, dst_);
	for (u32 n = std::min(window_, count_); posted_ < n; posted_++)
		net.post(endpoint_, src_, dst_, bytes_, posted_);
}

void PointToPoint::arrived(Network &net, u32)
{
	arrived_++;
	if (posted_ < count_)
		net.post(endpoint_, src_, dst_, bytes_, posted_++);
}

RingAllReduce::RingAllReduce(std::vector<u32> ranks, u64 chunk, u32 slices, u32 steps)
	: ranks_(std::move(ranks)), chunk_(chunk), slices_(slices),
	  steps_(steps ? steps : 2 * (static_cast<u32>(ranks_.size()) - 1)),
	  total_(u64{steps_} * slices_ * ranks_.size())
{
}

void RingAllReduce::send(Network &net, u32 rank, u32 step, u32 slice)
{
	u32 next = (rank + 1) % static_cast<u32>(ranks_.size());
	u32 tag = (rank * steps_ + step) * slices_ + slice;

	net.post(endpoints_[rank], ranks_[rank], ranks_[next], chunk_ / slices_, tag);
}

void RingAllReduce::start(Network &net)
{
	u32 n = static_cast<u32>(ranks_.size());

	for (u32 r = 0; r < n; r++)
		endpoints_.push_back(net.open(ranks_[r], ranks_[(r + 1) % n]));
	for (u32 r = 0; r < n; r++)
		for (u32 k = 0; k < slices_; k++)
			send(net, r, 0, k);
}

void RingAllReduce::arrived(Network &net, u32 message)
{
	u32 tag = net.message(message).tag;
	u32 slice = tag % slices_, step = tag / slices_ % steps_, rank = tag / slices_ / steps_;

	arrived_++;
	if (step + 1 < steps_)
		send(net, (rank + 1) % static_cast<u32>(ranks_.size()), step + 1, slice);
}

AllToAll::AllToAll(std::vector<u32> ranks, u64 bytes, u32 outstanding)
	: ranks_(std::move(ranks)), sent_(ranks_.size()), bytes_(bytes), outstanding_(outstanding),
	  total_(ranks_.size() * (ranks_.size() - 1))
{
}

void AllToAll::next(Network &net, u32 rank)
{
	u32 n = static_cast<u32>(ranks_.size());

	if (sent_[rank] == n - 1)
		return;
	u32 to = (rank + ++sent_[rank]) % n;

	net.post(connections_.get(net, ranks_[rank], ranks_[to]), ranks_[rank], ranks_[to], bytes_,
		 rank);
}

void AllToAll::start(Network &net)
{
	for (u32 k = 0; k < outstanding_; k++)
		for (u32 r = 0; r < ranks_.size(); r++)
			next(net, r);
}

void AllToAll::arrived(Network &net, u32 message)
{
	arrived_++;
	next(net, net.message(message).tag);
}

Schedule::Schedule(std::vector<Item> items, u32 rounds, Time gap)
	: items_(std::move(items)), rounds_(rounds), gap_(gap)
{
	for (const Item &i : items_)
		per_round_ += !i.background;
	total_ = per_round_ * rounds_;
}

void Schedule::start(Network &net)
{
	Time now = net.world.now;

	for (u32 i = 0; i < items_.size(); i++) {
		endpoints_.push_back(connections_.get(net, items_[i].src, items_[i].dst,
						      items_[i].lane));
		net.world.at(now + items_[i].start, Kind::Traffic, i);
	}
}

void Schedule::event(Network &net, u32 i)
{
	const Item &it = items_[i];

	net.post(endpoints_[i], it.src, it.dst, it.bytes, i);
}

void Schedule::arrived(Network &net, u32 message)
{
	if (items_[net.message(message).tag].background)
		return;
	if (++arrived_ % per_round_ || ++round_ == rounds_)
		return;
	measured_from_ = net.n_messages();
	for (u32 i = 0; i < items_.size(); i++)
		if (!items_[i].background)
			net.world.at(net.world.now + gap_ + items_[i].start, Kind::Traffic, i);
}

std::vector<Schedule::Item> incast(u32 receiver, const std::vector<u32> &senders, u64 bytes,
				   Time stagger, Rng &rng)
{
	std::vector<Schedule::Item> items;

	for (u32 s : senders) {
		Time start = stagger ? rng.next() % stagger : 0;

		items.push_back({s, receiver, bytes, start, 0});
	}
	return items;
}

std::vector<Schedule::Item> permutation(u32 hosts, u64 bytes, Rng &rng)
{
	std::vector<Schedule::Item> items;
	std::vector<u32> cycle = placement(hosts, true, rng);

	/* one cycle through all hosts: nobody sends to itself */
	for (u32 i = 0; i < hosts; i++)
		items.push_back({cycle[i], cycle[(i + 1) % hosts], bytes, 0, 0});
	return items;
}

std::vector<u32> placement(u32 n, bool random, Rng &rng)
{
	std::vector<u32> hosts(n);

	std::iota(hosts.begin(), hosts.end(), 0u);
	if (random)
		rng.shuffle(hosts);
	return hosts;
}

} // namespace sim
