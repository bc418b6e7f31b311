// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "outcome.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <utility>

namespace mv {

namespace {

std::mutex cleanup_lock;
std::vector<std::string> cleanup_failures;

} // namespace

std::string errno_name(int error)
{
	const char *name = strerrorname_np(error < 0 ? -error : error);

	return name ? name : cat("errno ", error);
}

int error_of(int returned)
{
	if (returned == -1 && errno)
		return errno;
	return returned < 0 ? -returned : returned;
}

void must(int returned, std::string_view what)
{
	if (returned)
		fail(what, ": ", errno_name(error_of(returned)));
}

void must_fail(int returned, std::initializer_list<int> wanted, std::string_view what)
{
	int error = returned ? error_of(returned) : 0;
	std::string names;

	for (int want : wanted) {
		if (error == want)
			return;
		names += (names.empty() ? "" : " or ") + errno_name(want);
	}
	fail(what, ": got ", errno_name(error), ", expected ", names);
}

void note_line(const std::string &line)
{
	std::printf("# %s\n", line.c_str());
	std::fflush(stdout);
}

void record_cleanup_failure(const std::string &what)
{
	std::lock_guard guard(cleanup_lock);
	cleanup_failures.push_back(what);
}

std::vector<std::string> take_cleanup_failures()
{
	std::lock_guard guard(cleanup_lock);
	return std::exchange(cleanup_failures, {});
}

} // namespace mv
