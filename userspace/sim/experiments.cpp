// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "experiments.h"

#include <algorithm>
#include <cmath>

namespace sim {

namespace {

constexpr u64 KiB = 1024, MiB = 1024 * KiB;
constexpr u64 MS = 1000000;

using Runs = std::vector<Scenario>;
using Outcomes = std::vector<Outcome>;

std::string size_name(u64 bytes)
{
	return bytes >= MiB ? std::to_string(bytes / MiB) + "MiB" : std::to_string(bytes / KiB) + "KiB";
}

Scenario scenario(const std::string &name, System system, Pattern pattern, u64 bytes,
		  double loss_percent = 0)
{
	Scenario s = default_scenario(system);

	s.name = name;
	s.workload.pattern = pattern;
	s.workload.message_bytes = bytes;
	s.fabric.loss_path = loss_percent / 100;
	return s;
}

/* Adds values of one run to the report, under the name of its experiment. */
class Sink {
public:
	Sink(const std::string &experiment, const Scenario &s, Report &report, std::string system = "")
		: s_(s), report_(report)
	{
		base_.experiment = experiment;
		base_.system = system.empty() ? system_name(s.system) : std::move(system);
		base_.nodes = s.fabric.hosts;
		base_.planes = s.fabric.planes;
		base_.loss_percent = 100 * (s.fabric.loss_path + s.fabric.loss_link);
		base_.message_bytes = s.workload.message_bytes;
	}

	void operator()(const std::string &metric, double value, const std::string &unit)
	{
		Result r = base_;

		r.metric = metric;
		r.value = value;
		r.unit = unit;
		report_.results.push_back(r);
	}

	void series(const Outcome &o, const std::string &metric, const std::string &unit,
		    double (*pick)(const Sample &))
	{
		Series x{base_.experiment, base_.system, metric, unit, o.rtt_us, o.bdp_bytes, {}};

		for (const Sample &p : o.samples)
			x.points.emplace_back(p.us, pick(p));
		report_.series.push_back(std::move(x));
	}

	void usual(const Outcome &o)
	{
		const TransportCounters &t = o.transport;
		double wire = static_cast<double>(t.data_bytes + t.ack_bytes);

		(*this)("goodput", o.gbps_per_sender, "Gb/s per sender");
		(*this)("fct_p50", o.percentile(50), "us");
		(*this)("fct_p99", o.percentile(99), "us");
		(*this)("fct_p99.9", o.percentile(99.9), "us");
		(*this)("wire_overhead", 100 * (wire / static_cast<double>(o.placed) - 1), "%");
		(*this)("spurious_retransmissions", static_cast<double>(t.spurious), "packets");
		(*this)("duplicates", static_cast<double>(t.duplicates), "packets");
		(*this)("unfinished", o.unfinished, "messages");
	}

private:
	const Scenario &s_;
	Report &report_;
	Result base_;
};

double gbps_of(const Sample &x) { return x.gbps; }
double queue_of(const Sample &x) { return x.queue_bytes; }
double jain_of(const Sample &x) { return x.jain; }

double mean(const std::vector<double> &x)
{
	double sum = 0;

	for (double v : x)
		sum += v;
	return x.empty() ? NAN : sum / static_cast<double>(x.size());
}

/* The same work at several loss rates; the first is none.  Systems one after the other. */
Experiment loss_sweep(const std::string &name, const std::vector<System> &systems, Scenario model,
		      const std::vector<double> &losses, bool on_links = false)
{
	Experiment e{name, {}, {}};

	for (System sys : systems) {
		for (double loss : losses) {
			Scenario s = default_scenario(sys);

			s.name = name + " " + std::to_string(loss) + " %";
			s.workload = model.workload;
			s.metaroce = model.metaroce;
			s.fabric.gbps = model.fabric.gbps;
			s.limit_ns = model.limit_ns;
			(on_links ? s.fabric.loss_link : s.fabric.loss_path) = loss / 100;
			e.runs.push_back(s);
		}
	}
	std::size_t n = losses.size();

	e.judge = [name, n](const Runs &runs, const Outcomes &o, Report &report) {
		for (std::size_t i = 0; i < runs.size(); i++) {
			const Outcome &lossless = o[i - i % n];
			Sink out(name, runs[i], report);

			out.usual(o[i]);
			out("of_lossless", 100 * o[i].gbps / lossless.gbps, "%");
		}
	};
	return e;
}

void point_to_point(std::vector<Experiment> &all, bool full)
{
	const std::vector<System> systems = {System::MetaRoce, System::Sprayer, System::Rocev2};
	const std::vector<double> losses = {0, 0.001, 0.01, 0.1, 1, 2, 5, 10};
	struct {
		u64 bytes;
		u32 count, window;
	} sizes[] = {{64 * KiB, 2000, 1}, {1 * MiB, 400, 1}, {16 * MiB, 16, 2}, {256 * MiB, 4, 2}};

	for (auto [bytes, count, window] : sizes) {
		if (bytes > 16 * MiB && !full)
			continue;
		Scenario m = scenario("", System::MetaRoce, Pattern::PointToPoint, bytes);

		m.workload.count = count;
		m.workload.window = window;
		m.limit_ns = 300 * MS;
		all.push_back(loss_sweep("p2p-" + size_name(bytes), systems, m, losses));
	}
	for (double gbps : {100.0, 800.0}) {
		Scenario m = scenario("", System::MetaRoce, Pattern::PointToPoint, 16 * MiB);

		m.workload.count = 16;
		m.fabric.gbps = gbps;
		all.push_back(loss_sweep("p2p-16MiB-" + std::to_string(int(gbps)) + "G",
					 {System::MetaRoce}, m, losses));
	}
}

void collectives(std::vector<Experiment> &all, bool full)
{
	const std::vector<System> three = {System::MetaRoce, System::Sprayer, System::Rocev2};
	const std::vector<System> one = {System::MetaRoce};
	Scenario ring = scenario("", System::MetaRoce, Pattern::Ring, MiB);
	Scenario a2a = scenario("", System::MetaRoce, Pattern::AllToAll, MiB);

	ring.limit_ns = a2a.limit_ns = 100 * MS;
	all.push_back(loss_sweep("ring-1MiB", three, ring, {0, 0.1, 1, 10}));
	all.push_back(loss_sweep("ring-1MiB-every-link", one, ring, {0, 1}, true));
	all.push_back(loss_sweep("all-to-all-1MiB", three, a2a, {0, 0.1, 1, 10}));
	all.push_back(loss_sweep("all-to-all-1MiB-every-link", one, a2a, {0, 1}, true));

	Scenario slow = ring;

	slow.metaroce.tick_ns = 50000;
	all.push_back(loss_sweep("ring-1MiB-50us-timers", one, slow, {0, 1}));
	ring.workload.message_bytes = a2a.workload.message_bytes = 16 * MiB;
	ring.limit_ns = a2a.limit_ns = 1000 * MS;
	all.push_back(loss_sweep("ring-16MiB", full ? three : one, ring,
				 full ? std::vector<double>{0, 0.1, 1, 10} : std::vector<double>{0, 1}));
	all.push_back(loss_sweep("all-to-all-16MiB", full ? three : one, a2a,
				 full ? std::vector<double>{0, 0.1, 1, 10} : std::vector<double>{0, 1}));
	if (full)
		all.push_back(loss_sweep("ring-16MiB-every-link", one, ring, {0, 1}, true));
}

/* Without loss beside RoCEv2 with PFC and DCQCN, random placement, several seeds. */
Experiment against_roce(const std::string &name, Pattern pattern, u64 bytes, u32 spines, u32 seeds)
{
	const std::vector<std::pair<const char *, System>> systems = {
		{"rocev2-pfc", System::Rocev2Pfc},
		{"metaroce", System::MetaRoce},
		{"metaroce-8KiB-payload", System::MetaRoce},	/* RoCEv2 has 4 KiB at most */
		{"sprayer", System::Sprayer}};
	Experiment e{name, {}, {}};
	std::vector<std::string> labels;

	for (auto [label, sys] : systems) {
		labels.push_back(label);
		for (u64 seed = 1; seed <= seeds; seed++) {
			Scenario s = scenario(name, sys, pattern, bytes);

			s.fabric.spines = spines;
			s.seed = seed;
			s.limit_ns = 400 * MS;
			if (labels.back() == "metaroce-8KiB-payload")
				s.metaroce.payload = 8192;
			e.runs.push_back(s);
		}
	}
	e.judge = [name, seeds, labels](const Runs &runs, const Outcomes &o, Report &report) {
		auto ratio = [&](std::size_t i, auto f) { return f(o[i]) / f(o[i % seeds]); };
		auto goodput = [](const Outcome &x) { return x.gbps_per_sender; };
		auto p50 = [](const Outcome &x) { return x.percentile(50); };
		auto p99 = [](const Outcome &x) { return x.percentile(99); };

		for (std::size_t first = 0; first < runs.size(); first += seeds) {
			std::vector<double> g, a, b, rg, ra, rb;
			double spurious = 0;

			for (std::size_t i = first; i < first + seeds; i++) {
				g.push_back(goodput(o[i]));
				a.push_back(p50(o[i]));
				b.push_back(p99(o[i]));
				rg.push_back(ratio(i, goodput));
				ra.push_back(ratio(i, p50));
				rb.push_back(ratio(i, p99));
				spurious += static_cast<double>(o[i].transport.spurious);
			}
			Sink out(name, runs[first], report, labels[first / seeds]);

			out("goodput", mean(g), "Gb/s per sender");
			out("fct_p50", mean(a), "us");
			out("fct_p99", mean(b), "us");
			out("spurious_retransmissions", spurious, "packets");
			if (!first)
				continue;
			out("goodput_to_rocev2_mean", mean(rg), "ratio");
			out("goodput_to_rocev2_worst_seed", *std::min_element(rg.begin(), rg.end()), "ratio");
			out("fct_p50_to_rocev2_mean", mean(ra), "ratio");
			out("fct_p50_to_rocev2_worst_seed", *std::max_element(ra.begin(), ra.end()), "ratio");
			out("fct_p99_to_rocev2_mean", mean(rb), "ratio");
			out("fct_p99_to_rocev2_worst_seed", *std::max_element(rb.begin(), rb.end()), "ratio");
		}
	};
	return e;
}

/* Neighbours placed together: hardly anything crosses a spine, RoCEv2 is at its best. */
Experiment together(const std::string &name, u64 bytes, u32 steps)
{
	Experiment e{name, {}, {}};

	for (u32 k = 0; k < 3; k++) {
		Scenario s = scenario(name, k == 2 ? System::Rocev2Pfc : System::MetaRoce, Pattern::Ring,
				      bytes);

		s.workload.random_placement = false;
		s.workload.steps = steps;
		s.metaroce.payload = k ? 8192 : 4096;
		e.runs.push_back(s);
	}
	e.judge = [name](const Runs &runs, const Outcomes &o, Report &report) {
		const char *names[] = {"metaroce-4KiB-payload", "metaroce-8KiB-payload", ""};

		for (std::size_t i = 0; i < runs.size(); i++) {
			Sink out(name, runs[i], report, names[i]);

			out.usual(o[i]);
			out("goodput_to_rocev2", o[i].gbps / o[2].gbps, "ratio");
		}
	};
	return e;
}

void fabrics(std::vector<Experiment> &all, bool full)
{
	for (u32 spines : {8u, 4u}) {
		std::string f = spines == 8 ? "leaf-spine-1to1-" : "leaf-spine-2to1-";

		all.push_back(against_roce(f + "ring-1MiB", Pattern::Ring, MiB, spines, 5));
		all.push_back(against_roce(f + "all-to-all-1MiB", Pattern::AllToAll, MiB, spines, 5));
		all.push_back(against_roce(f + "all-to-all-64KiB", Pattern::AllToAll, 64 * KiB, spines, 5));
		if (!full)
			continue;
		all.push_back(against_roce(f + "ring-16MiB", Pattern::Ring, 16 * MiB, spines, 5));
		all.push_back(against_roce(f + "all-to-all-16MiB", Pattern::AllToAll, 16 * MiB, spines, 5));
	}
	all.push_back(together("together-ring-1MiB", MiB, 0));
	all.push_back(together("together-ring-16MiB", 16 * MiB, full ? 0 : 16));
}

void planes(std::vector<Experiment> &all)
{
	Experiment e{"planes", {}, {}};

	for (u32 k : {1u, 2u, 4u, 8u}) {
		Scenario s = scenario("planes", System::MetaRoce, Pattern::Permutation, 16 * MiB * k);

		s.fabric.planes = k;
		s.fabric.gbps = 100 * k;
		s.metaroce.paths = std::clamp(8 * k, 16u, 64u);
		e.runs.push_back(s);
	}
	e.judge = [](const Runs &runs, const Outcomes &o, Report &report) {
		for (std::size_t i = 0; i < runs.size(); i++) {
			Sink out("planes", runs[i], report);

			out.usual(o[i]);
			out("linearity", o[i].gbps / (o[0].gbps * runs[i].fabric.planes), "ratio");
		}
	};
	all.push_back(e);
}

/* A fault while a permutation runs: how deep the dip is, and how long. */
Experiment failure(const std::string &name, u32 n_planes, FaultSettings fault)
{
	Experiment e{name, {}, {}};
	u64 at = 300000, until = 1300000;

	for (int with : {0, 1}) {
		Scenario s = scenario(name, System::MetaRoce, Pattern::Permutation, 192 * MiB);

		s.fabric.planes = n_planes;
		s.metaroce.paths = std::max(16u, 8 * n_planes);
		s.limit_ns = 2 * MS + MS / 2;
		s.sample_ns = 10000;
		if (with) {
			fault.at_ns = at;
			fault.until_ns = until;
			s.faults.push_back(fault);
		}
		e.runs.push_back(s);
	}
	e.judge = [name, at, until](const Runs &runs, const Outcomes &o, Report &report) {
		Sink out(name, runs[1], report);
		double before = 0, during = 0, after = 0, least = 1e9, back = 0;
		u32 n_before = 0, n_during = 0, n_after = 0;
		double t0 = static_cast<double>(at) / 1000, t1 = static_cast<double>(until) / 1000;
		double end = o[1].us;

		for (const Sample &x : o[1].samples) {
			if (x.us > t0 / 3 && x.us <= t0) {
				before += x.gbps;
				n_before++;
			} else if (x.us > t0 + 200 && x.us <= t1) {
				during += x.gbps;
				n_during++;
			} else if (x.us > end - 300) {
				after += x.gbps;
				n_after++;
			}
			if (x.us > t0 && x.us <= t1)
				least = std::min(least, x.gbps);
		}
		before /= std::max(n_before, 1u);
		during /= std::max(n_during, 1u);
		after /= std::max(n_after, 1u);
		/* as good as it gets during the fault, less 5 %: how long that took */
		for (const Sample &x : o[1].samples) {
			if (x.us <= t0)
				continue;
			if (x.gbps >= 0.95 * during) {
				back = x.us - t0;
				break;
			}
		}
		out("goodput_before", before / runs[1].fabric.hosts, "Gb/s per sender");
		out("goodput_during", 100 * during / before, "% of before");
		out("goodput_least_10us", 100 * least / before, "% of before");
		out("time_to_steady", back, "us");
		out("goodput_after_repair", 100 * after / before, "% of before");
		out("moved", static_cast<double>(o[1].transport.moved), "packets");
		out("rerolls", static_cast<double>(o[1].transport.rerolls), "paths");
		out.series(o[1], "goodput", "Gb/s", gbps_of);
	};
	return e;
}

void failures(std::vector<Experiment> &all)
{
	FaultSettings f;

	f.kind = FaultSettings::Kind::Plane;
	f.plane = 2;
	all.push_back(failure("plane-down", 4, f));
	f = {};
	f.kind = FaultSettings::Kind::Spine;
	f.spine = 3;
	f.silent = true;
	all.push_back(failure("spine-down-silent", 1, f));
	f.what = FaultSettings::What::Loss;
	f.loss_percent = 5;
	all.push_back(failure("spine-gray-5-percent", 1, f));
	f.what = FaultSettings::What::Slow;
	f.gbps = 40;
	f.kind = FaultSettings::Kind::SpineLink;
	all.push_back(failure("spine-link-slow", 1, f));
}

struct IncastSystem {
	const char *label;
	System system;
	u32 rounds;		/* the last is measured: connections that have met before, or not */
	bool hint;
};

/* N to 1, all at about the same time, with a flow to a neighbour of the receiver. */
Experiment incast(u32 senders, u64 bytes)
{
	const std::vector<IncastSystem> list = {
		{"metaroce", System::MetaRoce, 3, true},
		{"metaroce-first-incast-ever", System::MetaRoce, 1, true},
		{"metaroce-no-hint", System::MetaRoce, 3, false},
		{"sprayer", System::Sprayer, 3, true},
		{"rocev2-pfc", System::Rocev2Pfc, 3, true},
		{"rocev2", System::Rocev2, 3, true},
	};
	std::string name = "incast-" + std::to_string(senders) + "-" + size_name(bytes);
	Experiment e{name, {}, {}};
	std::vector<std::string> labels;

	for (const IncastSystem &x : list) {
		labels.push_back(x.label);
		for (bool alone : {true, false}) {
			Scenario s = scenario(name, x.system, Pattern::Incast, bytes);

			s.fabric.hosts = senders < 64 ? 64 : 128;
			s.fabric.leaves = s.fabric.hosts / 8;
			s.workload.senders = senders;
			s.workload.rounds = x.rounds;
			s.workload.victim = true;
			s.workload.incast = !alone;
			s.metaroce.hint = x.hint;
			s.sample_ns = alone ? 0 : bytes >= MiB ? 4000 : 1000;
			s.limit_ns = alone ? MS : 200 * MS;
			e.runs.push_back(s);
		}
	}
	e.judge = [name, labels](const Runs &runs, const Outcomes &o, Report &report) {
		for (std::size_t i = 1; i < runs.size(); i += 2) {
			const Scenario &s = runs[i];
			Sink out(name, s, report, labels[i / 2]);
			/* the link of the receiver carries all messages, one after the other */
			double wire = s.system == System::MetaRoce ? 1 + 126.0 / s.metaroce.payload :
				      s.system == System::Sprayer  ? 1 + 114.0 / s.sprayer.payload :
								     1 + 82.0 / s.roce.payload;
			double ideal = static_cast<double>(s.workload.message_bytes) * 8 *
					       s.workload.senders * wire / (s.fabric.gbps * 1000) +
				       o[i].rtt_us / 2;

			out.usual(o[i]);
			out("fct_p99_to_ideal", o[i].percentile(99) / ideal, "ratio");
			out("all_done_to_ideal", o[i].measured_us / (ideal + o[i].last_start_us), "ratio");
			if (o[i].jain_after_2rtt > 0)	/* it lasted so long */
				out("jain_2_to_12_rtt_after_last_start", o[i].jain_after_2rtt, "index");
			out("queue_2_rtt_after_last_start", o[i].queue_after_2rtt / o[i].bdp_bytes, "BDP");
			out("queue_max_any_port", static_cast<double>(o[i].max_queue) / o[i].bdp_bytes, "BDP");
			out("victim_loss", 100 * (1 - o[i].victim_gbps / o[i - 1].victim_gbps), "%");
			out("drops", static_cast<double>(o[i].drops_full), "packets");
			out.series(o[i], "queue", "bytes", queue_of);
			out.series(o[i], "fairness", "Jain", jain_of);
			out.series(o[i], "goodput", "Gb/s", gbps_of);
		}
	};
	return e;
}

void incasts(std::vector<Experiment> &all, bool full)
{
	for (u32 n : {7u, 15u, 31u, 63u, 127u}) {
		if (n != 7 && n != 63 && !full)
			continue;
		all.push_back(incast(n, 64 * KiB));
		all.push_back(incast(n, 8 * MiB));
	}
}

Experiment simple(const std::string &name, std::vector<std::pair<std::string, Scenario>> runs)
{
	Experiment e{name, {}, {}};
	std::vector<std::string> systems;

	for (auto &[system, s] : runs) {
		s.name = name;
		e.runs.push_back(s);
		systems.push_back(system);
	}
	e.judge = [name, systems](const Runs &r, const Outcomes &o, Report &report) {
		for (std::size_t i = 0; i < r.size(); i++) {
			Sink out(name, r[i], report, systems[i]);

			out.usual(o[i]);
			out("jain_of_fct", jain(o[i].fct_us), "index");
			out("max_queue", static_cast<double>(o[i].max_queue) / o[i].bdp_bytes, "BDP");
		}
	};
	return e;
}

void scale(std::vector<Experiment> &all, bool full)
{
	Scenario many = scenario("", System::MetaRoce, Pattern::PointToPoint, 256 * KiB);

	many.workload.connections = 4000;
	all.push_back(simple("scale-4000-connections", {{"", many}}));

	Scenario big = scenario("", System::MetaRoce, Pattern::Permutation, 4 * MiB);
	Scenario roce = scenario("", System::Rocev2Pfc, Pattern::Permutation, 4 * MiB);

	for (Scenario *s : {&big, &roce}) {
		s->fabric.hosts = 1024;
		s->fabric.leaves = 32;
		s->fabric.spines = 32;
		if (full)
			s->workload.message_bytes = 64 * MiB;
	}
	all.push_back(simple("scale-1024-nodes", {{"", big}, {"", roce}}));
}

/* What each part of the protocol is worth. */
void ablations(std::vector<Experiment> &all)
{
	Scenario ring = scenario("", System::MetaRoce, Pattern::Ring, MiB, 1);
	Scenario a2a = scenario("", System::MetaRoce, Pattern::AllToAll, MiB);
	Scenario bulk = scenario("", System::MetaRoce, Pattern::PointToPoint, 16 * MiB, 1);
	Scenario perm = scenario("", System::MetaRoce, Pattern::Permutation, 16 * MiB);
	FaultSettings slow;

	slow.kind = FaultSettings::Kind::SpineLink;
	slow.what = FaultSettings::What::Slow;
	slow.gbps = 40;
	perm.faults.push_back(slow);

	auto with = [](Scenario s, auto change) {
		change(s.metaroce);
		return s;
	};
	auto no_probe = [](MetaSettings &m) { m.tail_probe = false; };
	auto no_hint = [](MetaSettings &m) { m.hint = false; };
	auto one_window = [](MetaSettings &m) { m.per_path_windows = false; };
	auto halve = [](MetaSettings &m) { m.halve_on_loss = true; };

	all.push_back(simple("ablation-ring-1MiB-1-percent", {{"metaroce", ring},
							      {"no-tail-probe", with(ring, no_probe)},
							      {"halve-on-loss", with(ring, halve)}}));
	all.push_back(simple("ablation-p2p-16MiB-1-percent", {{"metaroce", bulk},
							      {"halve-on-loss", with(bulk, halve)}}));
	all.push_back(simple("ablation-all-to-all-1MiB", {{"metaroce", a2a},
							  {"no-hint", with(a2a, no_hint)},
							  {"one-window", with(a2a, one_window)}}));
	all.push_back(simple("ablation-permutation-16MiB-slow-link",
			     {{"metaroce", perm}, {"one-window", with(perm, one_window)}}));
}

} // namespace

std::vector<Experiment> experiments(bool full)
{
	std::vector<Experiment> all;

	point_to_point(all, full);
	collectives(all, full);
	fabrics(all, full);
	planes(all);
	failures(all);
	incasts(all, full);
	scale(all, full);
	ablations(all);
	return all;
}

} // namespace sim
