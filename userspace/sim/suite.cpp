// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Running experiments: a few threads, a progress line, one report. */
#include "experiments.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>

#include <unistd.h>

namespace sim {

namespace {

class Progress {
public:
	explicit Progress(u32 total) : total_(total), tty_(isatty(2)), begin_(Clock::now()) {}

	void running(const std::string &what, double part)
	{
		std::lock_guard<std::mutex> hold(mutex_);

		if (tty_)
			print(what, part, '\r');
	}

	void finished(const std::string &what)
	{
		std::lock_guard<std::mutex> hold(mutex_);

		done_++;
		print(what, 1, tty_ ? '\r' : '\n');
	}

	~Progress()
	{
		if (tty_)
			std::fprintf(stderr, "\n");
	}

private:
	using Clock = std::chrono::steady_clock;

	void print(const std::string &what, double part, char end)
	{
		double s = std::chrono::duration<double>(Clock::now() - begin_).count();

		std::fprintf(stderr, "[%u/%u] %5.0f s  %-60.60s %3.0f %%%c", done_, total_, s,
			     what.c_str(), 100 * part, end);
		std::fflush(stderr);
	}

	std::mutex mutex_;
	u32 done_ = 0, total_;
	bool tty_;
	Clock::time_point begin_;
};

struct Job {
	const Scenario *scenario;
	Outcome *outcome;
};

void work(const std::vector<Job> &jobs, std::atomic<std::size_t> &next, Progress &progress,
	  std::mutex &error_mutex, std::exception_ptr &error)
{
	for (std::size_t i; (i = next++) < jobs.size();) {
		const Scenario &s = *jobs[i].scenario;
		std::string what = s.name + " " + system_name(s.system) + " seed " +
				   std::to_string(s.seed);

		try {
			*jobs[i].outcome = run_scenario(s, [&](double part) {
				progress.running(what, part);
			});
		} catch (...) {
			std::lock_guard<std::mutex> hold(error_mutex);

			error = std::current_exception();
			next = jobs.size();
			return;
		}
		progress.finished(what);
	}
}

} // namespace

std::vector<Experiment> choose(std::vector<Experiment> all, const std::vector<std::string> &only)
{
	std::vector<Experiment> chosen;

	if (only.empty())
		return all;
	for (const std::string &o : only) {
		bool any = std::any_of(all.begin(), all.end(), [&](const Experiment &e) {
			return e.name.rfind(o, 0) == 0;
		});

		if (!any)
			throw ConfigError("--only: expected the beginning of an experiment's name "
					  "(see --list), found " + o);
	}
	for (Experiment &e : all)
		if (std::any_of(only.begin(), only.end(), [&](const std::string &o) {
			    return e.name.rfind(o, 0) == 0;
		    }))
			chosen.push_back(std::move(e));
	return chosen;
}

bool run_suite(const std::vector<Experiment> &list, unsigned jobs, const std::string &folder)
{
	std::vector<std::vector<Outcome>> outcomes;
	std::vector<Job> all;

	for (const Experiment &e : list)
		outcomes.emplace_back(e.runs.size());
	for (std::size_t i = 0; i < list.size(); i++)
		for (std::size_t k = 0; k < list[i].runs.size(); k++)
			all.push_back({&list[i].runs[k], &outcomes[i][k]});

	std::atomic<std::size_t> next = 0;
	std::mutex error_mutex;
	std::exception_ptr error;
	Report report;

	{
		Progress progress(static_cast<u32>(all.size()));
		std::vector<std::jthread> threads;

		for (unsigned i = 0; i < std::min<std::size_t>(jobs, all.size()); i++)
			threads.emplace_back([&] { work(all, next, progress, error_mutex, error); });
	}
	if (error)
		std::rethrow_exception(error);
	for (std::size_t i = 0; i < list.size(); i++)
		list[i].judge(list[i].runs, outcomes[i], report);
	write_report(report, folder);
	return true;
}

} // namespace sim
