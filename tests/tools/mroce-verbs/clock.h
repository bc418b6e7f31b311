// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Deadlines: every wait of this program has one.
#pragma once

#include <chrono>
#include <sched.h>
#include <thread>

namespace mv {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

[[nodiscard]] inline double seconds_since(Clock::time_point start)
{
	return Seconds(Clock::now() - start).count();
}

// Busy at first, then polite: on a machine with one CPU the peer needs it.
class Waiter {
public:
	explicit Waiter(double seconds)
		: end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(seconds)))
	{
	}

	// Pauses a little; false when the time is up.
	[[nodiscard]] bool pause()
	{
		if (Clock::now() >= end_)
			return false;
		if (++rounds_ < 200)
			sched_yield();
		else
			std::this_thread::sleep_for(std::chrono::microseconds(rounds_ < 1000 ? 20 : 200));
		return true;
	}

	// Something happened: be busy again.
	void progress() { rounds_ = 0; }

private:
	Clock::time_point end_;
	unsigned rounds_ = 0;
};

inline void sleep_seconds(double seconds)
{
	std::this_thread::sleep_for(Seconds(seconds));
}

} // namespace mv
