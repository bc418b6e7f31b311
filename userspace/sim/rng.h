// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Random numbers that are the same on every machine: the standard's distributions are not. */
#ifndef SIM_RNG_H
#define SIM_RNG_H

#include "units.h"

#include <cmath>
#include <utility>
#include <vector>

namespace sim {

constexpr u64 mix64(u64 x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

class Rng {
public:
	explicit Rng(u64 seed = 1) : state_(mix64(seed + 0x632be59bd9b4e019ull)) {}

	u64 next() { return mix64(state_ += 0x9e3779b97f4a7c15ull); }

	u32 below(u32 n) { return static_cast<u32>((next() >> 32) * n >> 32); }

	/* True with the probability that threshold() was asked for. */
	bool hit(u64 threshold) { return threshold && next() < threshold; }

	static u64 threshold(double p)
	{
		if (p <= 0)
			return 0;
		return p >= 1 ? ~u64{0} : static_cast<u64>(std::ldexp(p, 63)) << 1;
	}

	template <typename T> void shuffle(std::vector<T> &v)
	{
		for (std::size_t i = v.size(); i > 1; i--)
			std::swap(v[i - 1], v[below(static_cast<u32>(i))]);
	}

private:
	u64 state_;
};

} // namespace sim

#endif
