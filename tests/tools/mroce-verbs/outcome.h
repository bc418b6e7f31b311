// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// How a case ends: it returns (passed), throws Failure, or throws Skipped. Nothing else reports errors here, so none can be ignored.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace mv {

struct Failure : std::runtime_error {
	using std::runtime_error::runtime_error;
};

struct Skipped : std::runtime_error {
	using std::runtime_error::runtime_error;
};

template <class... Parts>
std::string cat(const Parts &...parts)
{
	std::ostringstream out;
	(out << ... << parts);
	return out.str();
}

template <class... Parts>
[[noreturn]] void fail(const Parts &...parts)
{
	throw Failure(cat(parts...));
}

template <class... Parts>
[[noreturn]] void skip(const Parts &...parts)
{
	throw Skipped(cat(parts...));
}

template <class... Parts>
void require(bool holds, const Parts &...parts)
{
	if (!holds)
		fail(parts...);
}

template <class Got, class Want, class... Parts>
void require_eq(const Got &got, const Want &want, const Parts &...parts)
{
	if (!(got == want))
		fail(parts..., ": got ", +got, ", expected ", +want);
}

// "EINVAL" for 22, "0" for 0; accepts the negated form too.
std::string errno_name(int error);

// The verbs calls return an errno value, or -1 with errno set, or the negated value: one form for all of them.
[[nodiscard]] int error_of(int returned);

// A verbs call that had to work.
void must(int returned, std::string_view what);

// A verbs call that had to be refused with one of these errno values.
void must_fail(int returned, std::initializer_list<int> wanted, std::string_view what);

// A diagnostic line of the running case ("# ..."), shown at once.
void note_line(const std::string &line);

template <class... Parts>
void note(const Parts &...parts)
{
	note_line(cat(parts...));
}

// Failures that destructors cannot throw; the runner fails the case when there are any.
void record_cleanup_failure(const std::string &what);
[[nodiscard]] std::vector<std::string> take_cleanup_failures();

} // namespace mv
