// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Packets of all transports, and the pool they live in. */
#ifndef SIM_PACKET_H
#define SIM_PACKET_H

#include "units.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace sim {

/* Ethernet 14 + FCS 4 + preamble and gap 20 + IPv4 20 + UDP 8: on the wire around a UDP payload. */
inline constexpr u32 WIRE_OVERHEAD = 66;

struct MetaPart {		/* MetaRoCE: what the headers carry */
	u64 probe_value;
	u32 psn, tx_ts, spsn, msn, offset, length, payload;
	u16 gen;
	u8 path, flags, sflags, demand, type;
};

struct GoBackNPart {		/* RoCEv2 */
	u32 psn, payload, message;
	u8 last;
};

struct SprayPart {		/* selective repeat on one sequence */
	u32 psn, payload, message;
	u32 tries;
	Time sent;
};

struct Packet {
	u32 src, dst;		/* hosts */
	u32 endpoint;		/* that receives it */
	u32 bytes;		/* on the wire */
	u32 hash;		/* of addresses and ports, for ECMP */
	u32 link;		/* it is on, or came over last */
	u8 kind;		/* of the transport */
	u8 plane;
	u8 ce;
	u8 live;
	u16 sport;
	u16 resv;
	union {
		MetaPart meta;
		GoBackNPart gbn;
		SprayPart spray;
	};
};

/* Items that are found by number; references to them stay good while the pool grows. */
template <typename T> class Pool {
public:
	u32 get()
	{
		used_++;
		if (free_.empty())
			grow();
		u32 i = free_.back();

		free_.pop_back();
		return i;
	}

	void put(u32 i)
	{
		used_--;
		free_.push_back(i);
	}

	T &operator[](u32 i) { return chunks_[i / CHUNK][i % CHUNK]; }
	const T &operator[](u32 i) const { return chunks_[i / CHUNK][i % CHUNK]; }
	std::size_t used() const { return used_; }

private:
	static constexpr u32 CHUNK = 1024;

	void grow()
	{
		u32 first = static_cast<u32>(chunks_.size()) * CHUNK;

		chunks_.push_back(std::make_unique<T[]>(CHUNK));
		for (u32 i = CHUNK; i > 0; i--)
			free_.push_back(first + i - 1);
	}

	std::vector<std::unique_ptr<T[]>> chunks_;
	std::vector<u32> free_;
	std::size_t used_ = 0;
};

/* One T for every packet that needs it, found by the packet's number. */
template <typename T> class Slab {
public:
	T &operator[](u32 i)
	{
		while (i / CHUNK >= chunks_.size())
			chunks_.emplace_back();
		if (!chunks_[i / CHUNK])
			chunks_[i / CHUNK] = std::make_unique<T[]>(CHUNK);
		return chunks_[i / CHUNK][i % CHUNK];
	}

private:
	static constexpr u32 CHUNK = 256;

	std::vector<std::unique_ptr<T[]>> chunks_;
};

} // namespace sim

#endif
