// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * 4-ary heap of 16-byte events: the four children of a node share a cache
 * line.  Equal times are ordered by what is to happen, so that a run does not
 * depend on the history of the heap.
 */
#ifndef SIM_EVENT_QUEUE_H
#define SIM_EVENT_QUEUE_H

#include "units.h"

#include <cstddef>
#include <vector>

namespace sim {

enum class Kind : u32 {
	Arrive,		/* the first packet of a link is at its end */
	TxDone,		/* a port with flow control has sent a packet */
	Pause,
	Resume,
	Pull,		/* a NIC has room */
	Timer,		/* of the transport */
	Traffic,	/* of the workload */
	Fault,
	Sample,
};

struct Event {
	Time at;
	Kind kind;
	u32 index;

	bool before(const Event &o) const
	{
		if (at != o.at)
			return at < o.at;
		return kind != o.kind ? kind < o.kind : index < o.index;
	}
};

class EventQueue {
public:
	bool empty() const { return heap_.empty(); }
	std::size_t size() const { return heap_.size(); }
	const Event &top() const { return heap_.front(); }

	void push(Time at, Kind kind, u32 index)
	{
		heap_.push_back({at, kind, index});
		up(heap_.size() - 1);
	}

	void pop()
	{
		Event last = heap_.back();

		heap_.pop_back();
		if (!heap_.empty())
			down(last);
	}

	/* pop() and push() of the same event at a later time, in one walk. */
	void postpone_top(Time at)
	{
		Event e = heap_.front();

		e.at = at;
		down(e);
	}

private:
	void up(std::size_t i)
	{
		Event e = heap_[i];

		while (i) {
			std::size_t parent = (i - 1) / 4;

			if (!e.before(heap_[parent]))
				break;
			heap_[i] = heap_[parent];
			i = parent;
		}
		heap_[i] = e;
	}

	/* Puts @e in the place of the top. */
	void down(const Event &e)
	{
		std::size_t n = heap_.size(), i = 0;

		for (;;) {
			std::size_t first = 4 * i + 1, best = first;

			if (first >= n)
				break;
			for (std::size_t k = first + 1; k < first + 4 && k < n; k++)
				if (heap_[k].before(heap_[best]))
					best = k;
			if (!heap_[best].before(e))
				break;
			heap_[i] = heap_[best];
			i = best;
		}
		heap_[i] = e;
	}

	std::vector<Event> heap_;
};

} // namespace sim

#endif
