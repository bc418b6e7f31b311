// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "scenario.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace sim {

using json = nlohmann::json;

namespace {

const std::vector<std::pair<std::string, System>> systems = {
	{"metaroce", System::MetaRoce},
	{"rocev2-pfc", System::Rocev2Pfc},
	{"rocev2", System::Rocev2},
	{"sprayer", System::Sprayer},
};

const std::vector<std::pair<std::string, Pattern>> patterns = {
	{"point-to-point", Pattern::PointToPoint},
	{"ring", Pattern::Ring},
	{"all-to-all", Pattern::AllToAll},
	{"incast", Pattern::Incast},
	{"permutation", Pattern::Permutation},
};

const std::vector<std::pair<std::string, FaultSettings::Kind>> fault_kinds = {
	{"spine-link", FaultSettings::Kind::SpineLink},
	{"spine", FaultSettings::Kind::Spine},
	{"plane", FaultSettings::Kind::Plane},
	{"host-link", FaultSettings::Kind::HostLink},
};

const std::vector<std::pair<std::string, FaultSettings::What>> fault_whats = {
	{"down", FaultSettings::What::Down},
	{"slow", FaultSettings::What::Slow},
	{"loss", FaultSettings::What::Loss},
};

/* One object: every key is asked for once; what remains is unknown. */
class Reader {
public:
	Reader(const json &j, std::string path) : j_(j), path_(std::move(path))
	{
		if (!j.is_object())
			throw ConfigError((path_.empty() ? "scenario" : path_) +
					  ": expected an object, found " + j.dump());
	}

	template <typename T> void number(const char *key, T &out, double min, double max)
	{
		const json *v = find(key);
		bool whole = std::is_integral_v<T>;

		if (!v)
			return;
		if (!v->is_number() || (whole && !is_whole(*v)) || v->get<double>() < min ||
		    v->get<double>() > max)
			wrong(key, std::string(whole ? "a whole number" : "a number") + " from " +
					   show(min) + " to " + show(max), *v);
		out = v->get<T>();
	}

	void boolean(const char *key, bool &out)
	{
		const json *v = find(key);

		if (!v)
			return;
		if (!v->is_boolean())
			wrong(key, "true or false", *v);
		out = v->get<bool>();
	}

	void text(const char *key, std::string &out)
	{
		const json *v = find(key);

		if (!v)
			return;
		if (!v->is_string() || v->get<std::string>().empty())
			wrong(key, "a name", *v);
		out = v->get<std::string>();
	}

	template <typename T>
	void choice(const char *key, T &out, const std::vector<std::pair<std::string, T>> &of)
	{
		const json *v = find(key);
		std::string names;

		if (!v)
			return;
		for (const auto &[name, value] : of) {
			if (v->is_string() && v->get<std::string>() == name) {
				out = value;
				return;
			}
			names += (names.empty() ? "" : ", ") + name;
		}
		wrong(key, "one of " + names, *v);
	}

	const json *find(const char *key)
	{
		known_.insert(key);
		auto it = j_.find(key);

		return it == j_.end() ? nullptr : &*it;
	}

	std::string at(const std::string &key) const { return path_.empty() ? key : path_ + "." + key; }

	/* Nothing else may be there. */
	void end() const
	{
		for (const auto &[key, value] : j_.items()) {
			if (known_.count(key))
				continue;
			std::string names;

			for (const std::string &k : known_)
				names += (names.empty() ? "" : ", ") + k;
			throw ConfigError(at(key) + ": unknown key, expected one of " + names);
		}
	}

private:
	static bool is_whole(const json &v)
	{
		return v.is_number_integer() || v.get<double>() == static_cast<double>(
							static_cast<long long>(v.get<double>()));
	}

	static std::string show(double x)
	{
		return json(x == static_cast<double>(static_cast<long long>(x)) ?
				    json(static_cast<long long>(x)) : json(x)).dump();
	}

	[[noreturn]] void wrong(const char *key, const std::string &expected, const json &found) const
	{
		throw ConfigError(at(key) + ": expected " + expected + ", found " + found.dump());
	}

	const json &j_;
	std::string path_;
	std::set<std::string> known_;
};

void read_fabric(Reader r, FabricSettings &f)
{
	double loss = f.loss_path * 100, link_loss = f.loss_link * 100;
	u64 delay_ns = f.hop_delay / PS_PER_NS, converge_us = f.converge / PS_PER_US;

	r.number("hosts", f.hosts, 2, 4096);
	r.number("leaves", f.leaves, 1, 512);
	r.number("spines", f.spines, 0, 256);
	r.number("planes", f.planes, 1, MROCE_MAX_PLANES);
	r.number("gbps", f.gbps, 1, 800);
	r.number("hop_delay_ns", delay_ns, 1, 1e9);
	r.number("ecn_bdp", f.ecn_bdp, 0, 100);
	f.ecn_max_bdp = std::max(f.ecn_max_bdp, f.ecn_bdp);
	r.number("ecn_max_bdp", f.ecn_max_bdp, 0, 100);
	r.number("ecn_pmax", f.ecn_pmax, 0, 1);
	r.number("buffer_bdp", f.buffer_bdp, 0.1, 1000);
	r.number("pfc_xoff_bdp", f.pfc_xoff_bdp, 0.1, 100);
	r.number("loss_percent", loss, 0, 100);
	r.number("link_loss_percent", link_loss, 0, 100);
	r.number("converge_us", converge_us, 0, 1e9);
	r.end();
	f.hop_delay = delay_ns * PS_PER_NS;
	f.converge = converge_us * PS_PER_US;
	f.loss_path = loss / 100;
	f.loss_link = link_loss / 100;
}

void read_workload(Reader r, WorkloadSettings &w)
{
	r.choice("pattern", w.pattern, patterns);
	r.number("message_bytes", w.message_bytes, 1, 2147483648.0);
	r.number("count", w.count, 1, 1e6);
	r.number("window", w.window, 1, 1000);
	r.number("connections", w.connections, 1, 4096);
	r.boolean("random_placement", w.random_placement);
	r.number("slices", w.slices, 1, 1024);
	r.number("steps", w.steps, 0, 1e6);
	r.number("outstanding", w.outstanding, 1, 4096);
	r.number("senders", w.senders, 1, 4095);
	r.number("stagger_ns", w.stagger_ns, 0, 1e9);
	r.boolean("victim", w.victim);
	r.number("rounds", w.rounds, 1, 1000);
	r.number("gap_ns", w.gap_ns, 0, 1e12);
	r.boolean("incast", w.incast);
	r.end();
}

void read_metaroce(Reader r, MetaSettings &m)
{
	r.number("paths", m.paths, 2, MROCE_MAX_PATHS);
	r.number("payload", m.payload, 64, MROCE_MAX_PAYLOAD);
	r.number("msn_window", m.msn_window, 16, 4096);
	r.number("tick_ns", m.tick_ns, 1, 1e9);
	r.boolean("tail_probe", m.tail_probe);
	r.boolean("hint", m.hint);
	r.boolean("per_path_windows", m.per_path_windows);
	r.boolean("halve_on_loss", m.halve_on_loss);
	r.end();
	if (m.payload % 64)
		throw ConfigError("metaroce.payload: expected a multiple of 64, found " +
				  std::to_string(m.payload));
	if (m.msn_window & (m.msn_window - 1))
		throw ConfigError("metaroce.msn_window: expected a power of two, found " +
				  std::to_string(m.msn_window));
}

void read_roce(Reader r, RoceSettings &s)
{
	u64 timeout_us = s.timeout / PS_PER_US;

	r.number("payload", s.payload, 256, 4096);
	r.boolean("dcqcn", s.dcqcn);
	r.number("timeout_us", timeout_us, 1, 1e7);
	r.end();
	s.timeout = timeout_us * PS_PER_US;
}

void read_sprayer(Reader r, SprayerSettings &s)
{
	u64 timeout_us = s.min_timeout / PS_PER_US;

	r.number("payload", s.payload, 64, 8192);
	r.number("window_bdp", s.window_bdp, 0.1, 100);
	r.number("reorder_rtt", s.reorder_rtt, 0, 10);
	r.number("timeout_us", timeout_us, 1, 1e7);
	r.end();
	s.min_timeout = timeout_us * PS_PER_US;
}

void read_fault(Reader r, FaultSettings &f)
{
	u64 at_us = f.at_ns / 1000, until_us = f.until_ns / 1000;

	r.choice("kind", f.kind, fault_kinds);
	r.choice("what", f.what, fault_whats);
	r.number("at_us", at_us, 0, 1e9);
	r.number("until_us", until_us, 0, 1e9);
	r.number("plane", f.plane, 0, MROCE_MAX_PLANES - 1);
	r.number("leaf", f.leaf, 0, 511);
	r.number("spine", f.spine, 0, 255);
	r.number("host", f.host, 0, 4095);
	r.number("gbps", f.gbps, 0.1, 800);
	r.number("loss_percent", f.loss_percent, 0, 100);
	r.boolean("silent", f.silent);
	r.end();
	f.at_ns = at_us * 1000;
	f.until_ns = until_us * 1000;
}

void below(const std::string &key, u32 value, u32 limit)
{
	if (value >= limit)
		throw ConfigError(key + ": expected a number below " + std::to_string(limit) +
				  ", found " + std::to_string(value));
}

void check_fault(const Scenario &s, std::size_t i)
{
	const FaultSettings &f = s.faults[i];
	std::string at = "faults[" + std::to_string(i) + "].";

	below(at + "plane", f.plane, s.fabric.planes);
	if (f.kind == FaultSettings::Kind::HostLink)
		below(at + "host", f.host, s.fabric.hosts);
	if (f.kind == FaultSettings::Kind::SpineLink)
		below(at + "leaf", f.leaf, s.fabric.leaves);
	if (f.kind == FaultSettings::Kind::SpineLink || f.kind == FaultSettings::Kind::Spine)
		below(at + "spine", f.spine, s.fabric.spines);
	if (f.until_ns && f.until_ns <= f.at_ns)
		throw ConfigError(at + "until_us: expected a time behind at_us, found " +
				  std::to_string(f.until_ns / 1000));
	if (f.what == FaultSettings::What::Slow && f.gbps <= 0)
		throw ConfigError(at + "gbps: expected a rate, since the link is to be slow");
}

} // namespace

const char *system_name(System s)
{
	for (const auto &[name, value] : systems)
		if (value == s)
			return name.c_str();
	return "?";
}

const char *pattern_name(Pattern p)
{
	for (const auto &[name, value] : patterns)
		if (value == p)
			return name.c_str();
	return "?";
}

void check_scenario(const Scenario &s)
{
	const FabricSettings &f = s.fabric;
	const WorkloadSettings &w = s.workload;

	if (f.hosts % f.leaves)
		throw ConfigError("topology.leaves: expected a divisor of hosts (" +
				  std::to_string(f.hosts) + "), found " + std::to_string(f.leaves));
	if (!f.spines && f.leaves > 1)
		throw ConfigError("topology.spines: expected at least 1 with more than one leaf, found 0");
	if (f.ecn_max_bdp < f.ecn_bdp)
		throw ConfigError("topology.ecn_max_bdp: expected at least ecn_bdp");
	if (f.loss_path + f.loss_link >= 1)
		throw ConfigError("topology.loss_percent: expected less than 100 with link_loss_percent");
	if (s.metaroce.paths < f.planes)
		throw ConfigError("metaroce.paths: expected at least one for each of the " +
				  std::to_string(f.planes) + " planes, found " +
				  std::to_string(s.metaroce.paths));
	if (w.pattern == Pattern::Incast)
		below("workload.senders", w.senders, f.hosts);
	if (w.pattern == Pattern::Incast && w.victim && f.hosts < 4)
		throw ConfigError("workload.victim: expected at least 4 hosts");
	if (w.pattern == Pattern::Ring && w.message_bytes < w.slices)
		throw ConfigError("workload.slices: expected at most message_bytes");
	for (std::size_t i = 0; i < s.faults.size(); i++)
		check_fault(s, i);
}

Scenario default_scenario(System system)
{
	Scenario s;

	s.system = system;
	if (system == System::Rocev2Pfc || system == System::Rocev2) {
		/* DCQCN wants a ramp; of those tried these values served it best */
		s.fabric.ecn_bdp = 1;
		s.fabric.ecn_max_bdp = 4;
		s.fabric.ecn_pmax = 0.2;
	}
	s.fabric.pfc = system == System::Rocev2Pfc;
	return s;
}

Scenario parse_scenario(const json &j)
{
	System system = System::MetaRoce;
	Reader r(j, "");

	r.choice("system", system, systems);
	Scenario s = default_scenario(system);

	r.text("name", s.name);
	r.number("seed", s.seed, 0, 9e15);
	r.number("limit_ns", s.limit_ns, 1, 9e12);
	r.number("sample_ns", s.sample_ns, 0, 1e12);
	if (const json *v = r.find("topology"))
		read_fabric(Reader(*v, "topology"), s.fabric);
	if (const json *v = r.find("workload"))
		read_workload(Reader(*v, "workload"), s.workload);
	if (const json *v = r.find("metaroce"))
		read_metaroce(Reader(*v, "metaroce"), s.metaroce);
	if (const json *v = r.find("rocev2"))
		read_roce(Reader(*v, "rocev2"), s.roce);
	if (const json *v = r.find("sprayer"))
		read_sprayer(Reader(*v, "sprayer"), s.sprayer);
	if (const json *v = r.find("faults")) {
		if (!v->is_array())
			throw ConfigError("faults: expected an array, found " + v->dump());
		for (std::size_t i = 0; i < v->size(); i++)
			read_fault(Reader((*v)[i], "faults[" + std::to_string(i) + "]"),
				   s.faults.emplace_back());
	}
	r.end();
	check_scenario(s);
	return s;
}

} // namespace sim
