// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "runner.h"
#include "workloads.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sim {

namespace {

constexpr u32 JAIN_WINDOW = 8;	/* samples */

std::unique_ptr<Transport> make_transport(Network &net, const Scenario &s)
{
	switch (s.system) {
	case System::MetaRoce:
		return std::make_unique<MetaRoce>(net, s.metaroce);
	case System::Sprayer:
		return std::make_unique<Sprayer>(net, s.sprayer);
	default:
		return std::make_unique<Roce>(net, s.roce);
	}
}

/*
 * Receiver 0.  The victim goes to a neighbour of the receiver, from a neighbour
 * of senders, if there is one that is no sender itself; it is well under way
 * when the incast begins.
 */
std::vector<Schedule::Item> incast_items(const Scenario &s, Rng &rng)
{
	const WorkloadSettings &w = s.workload;
	std::vector<Schedule::Item> items;
	std::vector<u32> senders;
	u32 n = s.fabric.hosts;

	if (w.incast) {
		for (u32 i = 0; i < w.senders; i++)
			senders.push_back(n - 1 - i);
		items = incast(0, senders, w.message_bytes, w.stagger_ns * PS_PER_NS, rng);
		for (Schedule::Item &i : items)
			i.start += 200 * PS_PER_US;
	}
	if (w.victim)
		items.push_back({w.senders + 2 < n ? n - 1 - w.senders : n - 1, 1, u64{1} << 31, 0, 0, w.incast, 1});
	return items;
}

std::unique_ptr<Workload> make_workload(const Scenario &s, Rng &rng)
{
	const WorkloadSettings &w = s.workload;
	u32 n = s.fabric.hosts;

	switch (w.pattern) {
	case Pattern::Ring:
		return std::make_unique<RingAllReduce>(placement(n, w.random_placement, rng),
						       w.message_bytes, w.slices, w.steps);
	case Pattern::AllToAll:
		return std::make_unique<AllToAll>(placement(n, w.random_placement, rng),
						  w.message_bytes, w.outstanding);
	case Pattern::Incast:
		return std::make_unique<Schedule>(incast_items(s, rng), w.incast ? w.rounds : 1,
						  w.gap_ns * PS_PER_NS);
	case Pattern::Permutation: {
		std::vector<Schedule::Item> items = permutation(n, w.message_bytes, rng), all;

		for (u32 lane = 0; lane < w.connections; lane++)
			for (Schedule::Item i : items) {
				i.lane = lane;
				all.push_back(i);
			}
		return std::make_unique<Schedule>(all);
	}
	case Pattern::PointToPoint:
		break;
	}
	if (w.connections == 1)
		return std::make_unique<PointToPoint>(0, n - 1, w.message_bytes, w.count, w.window);

	/* Many connections of one host, to all others in turn. */
	std::vector<Schedule::Item> items;

	for (u32 k = 0; k < w.connections; k++)
		items.push_back({0, 1 + k % (n - 1), w.message_bytes, 0, 0, false, k / (n - 1)});
	return std::make_unique<Schedule>(items);
}

void add_fault(Network &net, const FaultSettings &f)
{
	const FabricSettings &fs = net.fabric.settings();
	Time begin = net.world.now;
	Fault a;

	auto both = [&](u32 id) {
		a.links.push_back(id);
		a.links.push_back(id ^ 1);
	};

	switch (f.kind) {
	case FaultSettings::Kind::SpineLink:
		both(net.fabric.leaf_up(f.leaf, f.spine, f.plane));
		break;
	case FaultSettings::Kind::Spine:
		for (u32 leaf = 0; leaf < fs.leaves; leaf++)
			both(net.fabric.leaf_up(leaf, f.spine, f.plane));
		break;
	case FaultSettings::Kind::Plane:
		for (u32 host = 0; host < fs.hosts; host++)
			both(net.fabric.up(host, f.plane));
		break;
	case FaultSettings::Kind::HostLink:
		both(net.fabric.up(f.host, f.plane));
		break;
	}
	a.at = begin + f.at_ns * PS_PER_NS;
	a.converge = !f.silent;
	a.value = f.what == FaultSettings::What::Slow ? f.gbps : f.loss_percent / 100;
	a.what = f.what == FaultSettings::What::Down ? Fault::What::LinkDown :
		 f.what == FaultSettings::What::Slow ? Fault::What::LinkSlow : Fault::What::LinkLoss;
	net.add_fault(a);
	if (!f.until_ns)
		return;
	a.at = begin + f.until_ns * PS_PER_NS;
	if (a.what == Fault::What::LinkDown)
		a.what = Fault::What::LinkUp;
	else
		a.value = a.what == Fault::What::LinkSlow ? fs.gbps / fs.planes : fs.loss_link;
	net.add_fault(a);
}

/* Looks at the network every sample_ns. */
class Recorder {
public:
	Recorder(const Scenario &s, const Workload &w, Outcome &out, Time begin)
		: s_(s), w_(w), out_(out), begin_(begin), period_(s.sample_ns * PS_PER_NS)
	{
	}

	void operator()(Network &net)
	{
		Sample x{};
		u64 placed = net.placed_bytes();

		x.us = micros(net.world.now - begin_);
		x.gbps = static_cast<double>(placed - placed_) * 8 / (micros(period_) * 1000);
		placed_ = placed;
		if (s_.workload.pattern == Pattern::Incast && s_.workload.incast)
			incast(net, x);
		out_.samples.push_back(x);
	}

private:
	using Bytes = std::vector<double>;	/* received, of every sender */

	static double fairness(const Bytes &now, const Bytes &then)
	{
		Bytes got(now.size());

		for (std::size_t i = 0; i < now.size(); i++)
			got[i] = now[i] - then[i];
		return jain(got);
	}

	void incast(Network &net, Sample &x)
	{
		Bytes now(s_.workload.senders);
		Time last = 0, rtt = net.fabric.base_rtt(4096), t = net.world.now;
		u32 started = 0;

		for (u32 plane = 0; plane < s_.fabric.planes; plane++)
			x.queue_bytes += static_cast<double>(
				net.fabric.link(net.fabric.down(0, plane)).queued(net.world));
		if (from_ != w_.measured_from()) {	/* another round */
			from_ = w_.measured_from();
			history_.clear();
			out_.samples.clear();
		}
		for (u32 i = from_; i < net.n_messages(); i++) {
			const Message &m = net.message(i);

			if (m.dst != 0)
				continue;
			if (!started)
				victim(net, x.us);
			now[m.tag] = static_cast<double>(m.placed);
			last = std::max(last, m.start);
			started++;
		}
		history_.push_back(now);
		if (history_.size() > JAIN_WINDOW + 1)
			history_.erase(history_.begin());
		x.jain = fairness(now, history_.front());
		if (from_ == 0 && s_.workload.rounds > 1)
			return;
		if (started < s_.workload.senders || t < last + 2 * rtt)
			return;
		if (after_.empty())
			after_ = now;
		out_.queue_after_2rtt = std::max(out_.queue_after_2rtt, x.queue_bytes);
		if (t >= last + 12 * rtt && !judged_) {
			out_.jain_after_2rtt = fairness(now, after_);
			judged_ = true;
		}
	}

	/* What it got before the round does not count. */
	void victim(const Network &net, double us)
	{
		if (victim_seen_ == from_)
			return;
		victim_seen_ = from_;
		for (u32 i = 0; i < net.n_messages(); i++) {
			if (net.message(i).dst != 1)
				continue;
			out_.victim_from_us = us;
			out_.victim_from_bytes = static_cast<double>(net.message(i).placed);
		}
	}

	const Scenario &s_;
	const Workload &w_;
	Outcome &out_;
	Time begin_, period_;
	u64 placed_ = 0;
	u32 from_ = 0, victim_seen_ = NONE;
	std::vector<Bytes> history_;
	Bytes after_;
	bool judged_ = false;
};

void collect(const Scenario &s, Network &net, Outcome &out, Time begin, u32 from)
{
	double total_us = micros(net.world.now - begin);
	u32 victim_tag = s.workload.incast ? s.workload.senders : 0;
	std::vector<u8> sends(s.fabric.hosts);
	Time last = 0, first = NEVER;

	for (u32 i = 0; i < net.n_messages(); i++) {
		const Message &m = net.message(i);
		bool victim = s.workload.pattern == Pattern::Incast && s.workload.victim &&
			      m.tag == victim_tag;

		sends[m.src] = 1;
		if (victim) {
			out.victim_gbps = (static_cast<double>(m.placed) - out.victim_from_bytes) * 8 /
					  ((total_us - out.victim_from_us) * 1000);
			continue;
		}
		if (i < from)
			continue;
		last = std::max(last, m.start);
		first = std::min(first, m.start);
		if (m.done == NEVER)
			out.unfinished++;
		else
			out.fct_us.push_back(micros(m.done - m.start));
	}
	std::sort(out.fct_us.begin(), out.fct_us.end());
	out.last_start_us = last > first ? micros(last - first) : 0;
	out.us = total_us;
	out.measured_us = first == NEVER ? 0 : micros(net.world.now - first);
	out.placed = net.placed_bytes();
	out.gbps = static_cast<double>(out.placed) * 8 / (total_us * 1000);
	out.gbps_per_sender =
		out.gbps / std::max<double>(1, static_cast<double>(
						       std::count(sends.begin(), sends.end(), 1)));
	for (u32 i = 0; i < net.fabric.n_links(); i++) {
		const Link &l = net.fabric.link(i);
		const LinkCounters &c = l.counters();

		out.drops_full += c.dropped_full;
		out.drops_loss += c.dropped_loss;
		out.drops_down += c.dropped_down;
		out.marked += c.marked;
		out.pauses += c.pauses;
		if (!net.fabric.is_host(l.from()))
			out.max_queue = std::max(out.max_queue, c.max_queue);
	}
	out.drops_down += net.no_route();
	out.emitted = net.emitted_packets();
	out.received = net.received_packets();
	out.in_flight = net.world.packets.used();
	out.transport = net.transport().counters();
}

} // namespace

double jain(const std::vector<double> &x)
{
	double sum = 0, squares = 0;

	for (double v : x) {
		sum += v;
		squares += v * v;
	}
	return squares > 0 ? sum * sum / (static_cast<double>(x.size()) * squares) : 0;
}

double Outcome::percentile(double p) const
{
	if (fct_us.empty())
		return std::numeric_limits<double>::quiet_NaN();
	std::size_t n = fct_us.size();
	std::size_t i = static_cast<std::size_t>(std::ceil(p / 100 * static_cast<double>(n)));

	return fct_us[std::clamp<std::size_t>(i, 1, n) - 1];
}

Outcome run_scenario(const Scenario &s, const std::function<void(double)> &progress)
{
	check_scenario(s);

	Network net(s.fabric, s.seed);
	Rng rng(s.seed * 7919 + 17);
	Outcome out;
	Time begin = net.world.now;

	out.rtt_us = micros(net.fabric.base_rtt(4096));
	out.bdp_bytes = static_cast<double>(net.fabric.bdp()) * s.fabric.planes;
	net.use(make_transport(net, s));
	std::unique_ptr<Workload> workload = make_workload(s, rng);

	for (const FaultSettings &f : s.faults)
		add_fault(net, f);

	Recorder recorder(s, *workload, out, begin);
	if (s.sample_ns)
		net.sample(begin + s.sample_ns * PS_PER_NS, s.sample_ns * PS_PER_NS,
			   [&recorder](Network &n) { recorder(n); });
	Network::End end = net.run(*workload, begin + s.limit_ns * PS_PER_NS, progress);

	out.finished = end == Network::End::Finished;
	collect(s, net, out, begin, workload->measured_from());
	return out;
}

} // namespace sim
