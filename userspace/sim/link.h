// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * One direction of a cable with the output queue in front of it.
 *
 * Without flow control the time at which a packet leaves is known as soon as
 * it is queued, and it costs one event: the arrival at the other end.  With
 * flow control (PFC) packets wait in the queue until the port may send.
 */
#ifndef SIM_LINK_H
#define SIM_LINK_H

#include "ring.h"
#include "rng.h"
#include "world.h"

namespace sim {

struct LinkSettings {
	double gbps = 400;
	Time delay = PS_PER_US;
	u64 buffer = 0;		/* longest queue, bytes; 0: no limit */
	u64 ecn_min = 0;	/* queue from which packets are marked; 0: never */
	u64 ecn_max = 0;	/* from here on all are; equal to ecn_min: a threshold */
	double ecn_pmax = 1;	/* probability just below ecn_max */
	double loss = 0;
	bool pfc = false;
};

struct LinkCounters {
	u64 tx_packets = 0, tx_bytes = 0;
	u64 dropped_full = 0, dropped_loss = 0, dropped_down = 0;
	u64 marked = 0;
	u64 pauses = 0;
	u64 max_queue = 0;	/* bytes */
};

class Link {
public:
	Link(u32 id, u32 from, u32 to, const LinkSettings &settings, u64 seed);

	u32 id() const { return id_; }
	u32 from() const { return from_; }
	u32 to() const { return to_; }
	bool up() const { return up_; }
	const LinkCounters &counters() const { return counters_; }
	Time ps_per_byte() const { return ps_per_byte_; }

	/* Queues a packet; false: it was dropped and is no more. */
	bool send(World &w, u32 pkt);

	/* The first packet is at the end: NONE if it got lost.  Arms the next. */
	u32 arrive(World &w);

	/* Bytes that wait in front of the cable. */
	u64 queued(const World &w) const;
	/* When the queue will be down to @bytes; only without flow control. */
	Time below(u64 bytes) const;

	void set_up(bool up) { up_ = up; }
	void set_rate(double gbps);
	void set_loss(double p) { loss_ = Rng::threshold(p); }

	/* Flow control: a packet has left; returns it.  The port goes on by itself. */
	u32 tx_done(World &w);
	void pause(World &w, bool on);

	/* Bytes that came over this link and still lie in the switch at its end. */
	u64 buffered = 0;
	bool pausing = false;	/* the switch has told the sender to stop */

private:
	struct Flying {
		Time at;
		u32 pkt;
	};

	void fly(World &w, Time at, u32 pkt);
	bool mark(u64 queue);
	void start(World &w);

	u32 id_, from_, to_;
	Time ps_per_byte_, delay_;
	u64 buffer_, ecn_min_, ecn_max_;
	double ecn_pmax_;
	u64 loss_;
	bool pfc_, up_ = true;
	Time busy_until_ = 0;
	Ring<Flying> flying_;
	Ring<u32> queue_;
	u64 queue_bytes_ = 0;
	bool sending_ = false, paused_ = false;
	Rng rng_;
	LinkCounters counters_;
};

} // namespace sim

#endif
