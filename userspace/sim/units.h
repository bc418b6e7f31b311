// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Fixed-width types and time: picoseconds, so that a byte at 800 Gb/s is a whole number. */
#ifndef SIM_UNITS_H
#define SIM_UNITS_H

#include <cstdint>

namespace sim {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using Time = std::uint64_t;

inline constexpr Time NEVER = ~Time{0};
inline constexpr Time PS_PER_NS = 1000;
inline constexpr Time PS_PER_US = 1000 * PS_PER_NS;
inline constexpr Time PS_PER_MS = 1000 * PS_PER_US;
inline constexpr u32 NONE = ~u32{0};

constexpr double seconds(Time t)
{
	return static_cast<double>(t) * 1e-12;
}

constexpr double micros(Time t)
{
	return static_cast<double>(t) * 1e-6;
}

/* Time of one byte; the rate is rounded so that this is a whole number of picoseconds. */
constexpr Time byte_time(double gbps)
{
	return static_cast<Time>(8000.0 / gbps + 0.5);
}

} // namespace sim

#endif
