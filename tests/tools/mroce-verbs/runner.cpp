// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "runner.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace mv {

namespace {

enum class Outcome : char { passed = 'p', failed = 'f', skipped = 's' };

struct Verdict {
	Outcome outcome = Outcome::failed;
	std::string why;
};

std::string one_line(std::string text)
{
	for (char &c : text)
		if (c == '\n' || c == '#')
			c = ' ';
	return text;
}

Verdict run_here(const Options &options, const Case &item)
{
	Verdict verdict{Outcome::passed, ""};

	try {
		Env env(options, item.name);

		item.run(env);
	} catch (const Skipped &skipped) {
		verdict = {Outcome::skipped, skipped.what()};
	} catch (const std::exception &error) {
		verdict = {Outcome::failed, error.what()};
	}
	for (const std::string &left : take_cleanup_failures()) {
		verdict.outcome = Outcome::failed;
		verdict.why += (verdict.why.empty() ? "" : "; ") + left;
	}
	return verdict;
}

[[noreturn]] void run_in_child(const Options &options, const Case &item, int pipe_end)
{
	Verdict verdict = run_here(options, item);
	std::string message = static_cast<char>(verdict.outcome) + verdict.why;

	std::fflush(stdout);
	if (write(pipe_end, message.data(), message.size()) < 0)
		_exit(2);
	_exit(0);
}

// Everything the child says until it ends or the time is up; false if the time was up.
bool read_until_end(int fd, double seconds, std::string &message)
{
	auto start = Clock::now();

	for (;;) {
		double left = seconds - seconds_since(start);
		pollfd waiting{fd, POLLIN, 0};
		char bytes[4096];

		if (left <= 0)
			return false;
		if (poll(&waiting, 1, static_cast<int>(left * 1000) + 1) <= 0)
			continue;
		ssize_t n = read(fd, bytes, sizeof(bytes));

		if (n <= 0)
			return true;
		message.append(bytes, static_cast<size_t>(n));
	}
}

// Reaps the child, killing it first if asked; false if it cannot be killed.
bool reap(pid_t child, double seconds, int &status)
{
	Waiter waiter(seconds);

	do {
		if (waitpid(child, &status, WNOHANG) == child)
			return true;
	} while (waiter.pause());
	return false;
}

Verdict judge(int status, const std::string &message)
{
	if (WIFSIGNALED(status))
		return {Outcome::failed, cat("killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")")};
	if (message.empty())
		return {Outcome::failed, "ended without a verdict"};
	return {static_cast<Outcome>(message[0]), message.substr(1)};
}

Verdict run_forked(const Options &options, const Case &item)
{
	double limit = 15 * 20 * options.slow;
	std::string message;
	int ends[2], status = 0;

	must(pipe2(ends, O_CLOEXEC), "pipe");
	std::fflush(stdout);
	pid_t child = fork();

	require(child >= 0, "fork: ", errno_name(errno));
	if (child == 0) {
		close(ends[0]);
		run_in_child(options, item, ends[1]);
	}
	close(ends[1]);
	bool ended = read_until_end(ends[0], limit, message);

	close(ends[0]);
	if (!ended)
		kill(child, SIGKILL);
	if (!reap(child, 30 * options.slow, status)) {
		std::printf("Bail out! process %d of the case %s cannot be killed\n", child, item.name.c_str());
		std::fflush(stdout);
		std::_Exit(1);
	}
	if (!ended)
		return {Outcome::failed, cat("hung: killed after ", limit, " s")};
	return judge(status, message);
}

void report(int number, const Case &item, const Verdict &verdict, double seconds)
{
	std::string why = one_line(verdict.why);

	switch (verdict.outcome) {
	case Outcome::passed:
		std::printf("ok %d - %s\n", number, item.name.c_str());
		break;
	case Outcome::skipped:
		std::printf("ok %d - %s # SKIP %s\n", number, item.name.c_str(), why.c_str());
		break;
	case Outcome::failed:
		std::printf("not ok %d - %s # %s\n", number, item.name.c_str(), why.c_str());
		break;
	}
	if (seconds > 5)
		std::printf("# %s took %.1f s\n", item.name.c_str(), seconds);
	std::fflush(stdout);
}

} // namespace

bool run_cases(const Options &options, const Registry &cases)
{
	int number = 0, failed = 0, skipped = 0;

	std::printf("TAP version 13\n1..%zu\n", cases.size());
	for (const Case &item : cases) {
		auto start = Clock::now();
		Verdict verdict;

		if (item.timed && options.lossy)
			verdict = {Outcome::skipped, "judges time, link is lossy"};
		else
			verdict = options.fork ? run_forked(options, item) : run_here(options, item);
		failed += verdict.outcome == Outcome::failed;
		skipped += verdict.outcome == Outcome::skipped;
		report(++number, item, verdict, seconds_since(start));
	}
	std::printf("# %zu cases: %zu passed, %d failed, %d skipped; seed %llu\n", cases.size(),
		    cases.size() - static_cast<size_t>(failed + skipped), failed, skipped,
		    static_cast<unsigned long long>(options.seed));
	return failed == 0;
}

} // namespace mv
