// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "results.h"

#include <cmath>
#include <filesystem>
#include <fstream>

namespace sim {

using json = nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

json number(double x)
{
	return std::isfinite(x) ? json(x) : json(nullptr);
}

/* A file that takes its name only when it is complete, and goes away if it never is. */
class NewFile {
public:
	explicit NewFile(fs::path path) : path_(std::move(path)), tmp_(path_.string() + ".tmp") {}
	NewFile(const NewFile &) = delete;
	NewFile &operator=(const NewFile &) = delete;

	~NewFile()
	{
		std::error_code ignored;

		if (!done_)
			fs::remove(tmp_, ignored);
	}

	void write(const json &j)
	{
		std::ofstream out(tmp_);

		out << "[";
		for (std::size_t i = 0; i < j.size(); i++)
			out << (i ? ",\n" : "\n") << j[i].dump();
		out << "\n]\n";
		out.close();
		if (!out)
			throw std::runtime_error(tmp_.string() + ": cannot write");
	}

	void finish()
	{
		fs::rename(tmp_, path_);
		done_ = true;
	}

private:
	fs::path path_, tmp_;
	bool done_ = false;
};

json to_json(const Result &r)
{
	return {{"experiment", r.experiment},	{"system", r.system},
		{"nodes", r.nodes},		{"planes", r.planes},
		{"loss_percent", r.loss_percent}, {"message_bytes", r.message_bytes},
		{"metric", r.metric},		{"value", number(r.value)},
		{"unit", r.unit}};
}

json to_json(const Series &s)
{
	json points = json::array();

	for (auto [us, value] : s.points)
		points.push_back({us, number(value)});
	return {{"experiment", s.experiment}, {"system", s.system}, {"metric", s.metric},
		{"unit", s.unit}, {"rtt_us", s.rtt_us}, {"bdp_bytes", s.bdp_bytes},
		{"points", points}};
}

} // namespace

void write_report(const Report &report, const std::string &folder)
{
	json results = json::array(), series = json::array();

	for (const Result &r : report.results)
		results.push_back(to_json(r));
	for (const Series &s : report.series)
		series.push_back(to_json(s));
	fs::create_directories(folder);

	NewFile a(fs::path(folder) / "results.json"), b(fs::path(folder) / "series.json");

	a.write(results);
	b.write(series);
	a.finish();
	b.finish();
}

nlohmann::json describe(const Outcome &o)
{
	nlohmann::json j = {
		{"finished", o.finished},
		{"us", o.us},
		{"measured_us", o.measured_us},
		{"gbps", o.gbps},
		{"gbps_per_sender", o.gbps_per_sender},
		{"messages", o.fct_us.size()},
		{"unfinished", o.unfinished},
		{"placed_bytes", o.placed},
		{"packets_emitted", o.emitted},
		{"packets_received", o.received},
		{"packets_in_flight", o.in_flight},
		{"drops_full", o.drops_full},
		{"drops_loss", o.drops_loss},
		{"drops_down", o.drops_down},
		{"marked", o.marked},
		{"pauses", o.pauses},
		{"max_queue_bytes", o.max_queue},
		{"rtt_us", o.rtt_us},
		{"bdp_bytes", o.bdp_bytes},
		{"data_packets", o.transport.data_packets},
		{"retransmitted", o.transport.retransmitted},
		{"duplicates", o.transport.duplicates},
		{"spurious", o.transport.spurious},
		{"timeouts", o.transport.timeouts},
		{"probes", o.transport.probes},
		{"cuts", o.transport.cuts},
		{"rerolls", o.transport.rerolls},
		{"moved", o.transport.moved},
		{"ack_packets", o.transport.ack_packets},
		{"ack_bytes_percent", 100.0 * static_cast<double>(o.transport.ack_bytes) /
					      static_cast<double>(o.transport.data_bytes)},
	};

	if (!o.fct_us.empty())
		j["fct_us"] = {{"p50", o.percentile(50)}, {"p99", o.percentile(99)},
			       {"p99.9", o.percentile(99.9)}, {"max", o.fct_us.back()}};
	if (o.jain_after_2rtt > 0)
		j["incast"] = {{"last_start_us", o.last_start_us},
			       {"jain_after_2rtt", o.jain_after_2rtt},
			       {"queue_after_2rtt_bdp", o.queue_after_2rtt / o.bdp_bytes}};
	if (o.victim_gbps > 0)
		j["victim_gbps"] = o.victim_gbps;
	return j;
}

} // namespace sim
