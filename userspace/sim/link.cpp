// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "link.h"

#include <algorithm>

namespace sim {

Link::Link(u32 id, u32 from, u32 to, const LinkSettings &s, u64 seed)
	: id_(id), from_(from), to_(to), ps_per_byte_(byte_time(s.gbps)), delay_(s.delay),
	  buffer_(s.buffer), ecn_min_(s.ecn_min), ecn_max_(s.ecn_max), ecn_pmax_(s.ecn_pmax),
	  loss_(Rng::threshold(s.loss)), pfc_(s.pfc), rng_(seed)
{
}

void Link::set_rate(double gbps)
{
	ps_per_byte_ = byte_time(gbps);
}

u64 Link::queued(const World &w) const
{
	if (pfc_)
		return queue_bytes_;
	return busy_until_ > w.now ? (busy_until_ - w.now) / ps_per_byte_ : 0;
}

Time Link::below(u64 bytes) const
{
	Time t = bytes * ps_per_byte_;

	return busy_until_ > t ? busy_until_ - t : 0;
}

void Link::fly(World &w, Time at, u32 pkt)
{
	if (flying_.empty())
		w.at(at, Kind::Arrive, id_);
	flying_.push({at, pkt});
}

bool Link::mark(u64 queue)
{
	if (!ecn_min_ || queue < ecn_min_)
		return false;
	if (queue >= ecn_max_)
		return true;
	double p = ecn_pmax_ * static_cast<double>(queue - ecn_min_) /
		   static_cast<double>(ecn_max_ - ecn_min_);

	return rng_.hit(Rng::threshold(p));
}

bool Link::send(World &w, u32 pkt)
{
	Packet &p = w.packets[pkt];
	u64 queue = queued(w);

	if (!up_) {
		counters_.dropped_down++;
		w.packets.put(pkt);
		return false;
	}
	if (buffer_ && queue + p.bytes > buffer_) {
		counters_.dropped_full++;
		w.packets.put(pkt);
		return false;
	}
	if (mark(queue)) {
		p.ce = 1;
		counters_.marked++;
	}
	counters_.max_queue = std::max(counters_.max_queue, queue + p.bytes);
	if (pfc_) {
		queue_.push(pkt);
		queue_bytes_ += p.bytes;
		start(w);
		return true;
	}
	counters_.tx_packets++;
	counters_.tx_bytes += p.bytes;
	p.link = id_;
	busy_until_ = std::max(busy_until_, w.now) + p.bytes * ps_per_byte_;
	fly(w, busy_until_ + delay_, pkt);
	return true;
}

u32 Link::arrive(World &w)
{
	u32 pkt = flying_.front().pkt;

	flying_.pop();
	if (flying_.empty())
		w.events.pop();
	else
		w.events.postpone_top(flying_.front().at);
	if (!up_)
		counters_.dropped_down++;
	else if (rng_.hit(loss_))
		counters_.dropped_loss++;
	else
		return pkt;
	w.packets.put(pkt);
	return NONE;
}

void Link::start(World &w)
{
	if (sending_ || paused_ || queue_.empty())
		return;
	sending_ = true;
	w.at(w.now + w.packets[queue_.front()].bytes * ps_per_byte_, Kind::TxDone, id_);
}

u32 Link::tx_done(World &w)
{
	u32 pkt = queue_.front();
	Packet &p = w.packets[pkt];

	queue_.pop();
	queue_bytes_ -= p.bytes;
	counters_.tx_packets++;
	counters_.tx_bytes += p.bytes;
	sending_ = false;
	fly(w, w.now + delay_, pkt);
	start(w);
	return pkt;
}

void Link::pause(World &w, bool on)
{
	counters_.pauses += on && !paused_;
	paused_ = on;
	if (!on)
		start(w);
}

} // namespace sim
