// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "roce.h"

#include <algorithm>

namespace sim {

/* BTH 12 and ICRC 4; the RETH of a message's first packet is left out. */
static constexpr u32 HDR = 16, ACK_HDR = 20, CNP_HDR = 32;

struct Roce::Endpoint {
	u32 id = 0, host = 0, peer_host = 0, plane = 0;
	u16 sport = 0;

	struct Out {
		u32 id, first_psn, npkts, length;
	};
	Ring<Out> messages;	/* not yet acknowledged as a whole */
	u32 next = 0;		/* PSN to send */
	u32 high = 0;		/* one above the highest PSN ever sent */
	u32 una = 0;
	u32 end = 0;		/* one above the last PSN of what was posted */
	u32 expected = 0;	/* as receiver */
	u32 unacked = 0;
	bool nak_sent = false;
	Time cnp_after = 0;

	bool in_ready = false;
	Time may_send = 0;
	Time last_progress = 0;
	Time armed[N_TIMERS] = {NEVER, NEVER, NEVER, NEVER};

	double rate = 0, target = 0, alpha = 1;
	Time ps_per_byte = 0;
	u32 timer_steps = 0, byte_steps = 0;
	u64 bytes = 0;		/* since the last step */
	bool marked = false;	/* a CNP since alpha's timer */
	bool cut = false;	/* below line rate: the timers run */
};

Roce::Roce(Network &net, const RoceSettings &settings)
	: net_(net), s_(settings),
	  line_(net.fabric.settings().gbps / net.fabric.settings().planes)
{
}

Roce::~Roce() = default;

double Roce::rate(u32 endpoint) const
{
	return endpoints_[endpoint]->rate;
}

u32 Roce::open(u32 src, u32 dst)
{
	u32 first = static_cast<u32>(endpoints_.size());
	u32 plane = net_.rng().below(net_.fabric.settings().planes);

	for (u32 side = 0; side < 2; side++) {
		auto e = std::make_unique<Endpoint>();

		e->id = first + side;
		e->host = side ? dst : src;
		e->peer_host = side ? src : dst;
		e->plane = plane;
		e->sport = static_cast<u16>(49152 + net_.rng().below(16384));
		e->target = line_;
		set_rate(*e, line_);
		endpoints_.push_back(std::move(e));
	}
	return first;
}

void Roce::set_rate(Endpoint &e, double gbps)
{
	e.rate = std::clamp(gbps, s_.min_gbps, line_);
	e.ps_per_byte = byte_time(e.rate);
}

void Roce::arm(Endpoint &e, TimerKind kind, Time at)
{
	if (at >= e.armed[kind])
		return;
	e.armed[kind] = std::max(at, net_.world.now);
	net_.world.at(e.armed[kind], Kind::Timer, e.id * N_TIMERS + kind);
}

void Roce::kick(Endpoint &e)
{
	if (e.in_ready || e.next == e.end)
		return;
	if (e.may_send > net_.world.now) {
		arm(e, PACE, e.may_send);
		return;
	}
	e.in_ready = true;
	net_.ready(e.host, e.id);
}

void Roce::post(u32 endpoint, u32 message)
{
	Endpoint &e = *endpoints_[endpoint];
	u32 bytes = static_cast<u32>(net_.message(message).bytes);
	u32 npkts = (bytes + s_.payload - 1) / s_.payload;

	if (e.una == e.end)
		e.last_progress = net_.world.now;
	e.messages.push({message, e.end, npkts, bytes});
	e.end += npkts;
	arm(e, RETRY, e.last_progress + s_.timeout);
	kick(e);
}

u32 Roce::make(Endpoint &e, PacketKind kind, u32 udp_payload)
{
	return net_.packet(e.host, e.peer_host, e.id ^ 1, kind, e.plane, e.sport, udp_payload);
}

bool Roce::pull(u32 endpoint)
{
	Endpoint &e = *endpoints_[endpoint];

	e.in_ready = false;
	if (e.next == e.end)
		return false;
	if (e.may_send > net_.world.now) {
		arm(e, PACE, e.may_send);
		return false;
	}

	u32 k = 0;

	while (e.next - e.messages[k].first_psn >= e.messages[k].npkts)
		k++;
	const Endpoint::Out &m = e.messages[k];
	u32 idx = e.next - m.first_psn;
	u32 len = std::min(s_.payload, m.length - idx * s_.payload);
	u32 i = make(e, DATA, HDR + len);
	Packet &p = net_.world.packets[i];

	p.gbn.psn = e.next;
	p.gbn.payload = len;
	p.gbn.message = m.id;
	p.gbn.last = idx + 1 == m.npkts;
	counters_.data_packets++;
	counters_.data_bytes += p.bytes;
	if (e.next++ == e.high)
		e.high++;
	else
		counters_.retransmitted++;
	e.may_send = std::max(e.may_send, net_.world.now) + p.bytes * e.ps_per_byte;
	if (e.cut) {
		e.bytes += p.bytes;
		if (e.bytes >= s_.byte_counter) {
			e.bytes = 0;
			e.byte_steps++;
			increase(e);
		}
	} else {
		e.may_send = net_.world.now;	/* the line itself paces */
	}
	net_.emit(i);
	if (e.next == e.end)
		return false;
	if (e.may_send > net_.world.now) {
		arm(e, PACE, e.may_send);
		return false;
	}
	e.in_ready = true;
	return true;
}

void Roce::answer(Endpoint &e, PacketKind kind, u32 psn)
{
	u32 i = make(e, kind, kind == CNP ? CNP_HDR : ACK_HDR);

	net_.world.packets[i].gbn.psn = psn;
	counters_.ack_packets++;
	counters_.ack_bytes += net_.world.packets[i].bytes;
	net_.emit(i);
}

void Roce::data_rx(Endpoint &e, const Packet &p)
{
	if (p.ce && s_.dcqcn && net_.world.now >= e.cnp_after) {
		e.cnp_after = net_.world.now + s_.cnp_interval;
		answer(e, CNP, 0);
	}
	if (p.gbn.psn != e.expected) {
		bool ahead = static_cast<std::int32_t>(p.gbn.psn - e.expected) > 0;

		if (!ahead) {
			counters_.duplicates++;
			if (p.gbn.last)
				answer(e, ACK, e.expected);
		} else if (!e.nak_sent) {
			e.nak_sent = true;
			answer(e, NAK, e.expected);
		}
		return;
	}
	e.expected++;
	e.nak_sent = false;
	if (++e.unacked >= s_.packets_per_ack || p.gbn.last) {
		e.unacked = 0;
		answer(e, ACK, e.expected);
	}
	net_.placed(p.gbn.message, p.gbn.payload);
}

/* All below @psn has arrived; a NAK also says that @psn has not, though later ones have. */
void Roce::ack_rx(Endpoint &e, u32 psn, bool nak)
{
	if (static_cast<std::int32_t>(psn - e.una) < 0 ||
	    static_cast<std::int32_t>(e.high - psn) < 0)
		return;
	if (psn != e.una)
		e.last_progress = net_.world.now;
	e.una = psn;
	while (!e.messages.empty() &&
	       static_cast<std::int32_t>(psn - e.messages.front().first_psn) >=
		       static_cast<std::int32_t>(e.messages.front().npkts))
		e.messages.pop();
	if (nak || static_cast<std::int32_t>(e.next - psn) < 0)
		e.next = psn;
	kick(e);
}

void Roce::cnp_rx(Endpoint &e)
{
	e.alpha = (1 - s_.g) * e.alpha + s_.g;
	e.target = e.rate;
	set_rate(e, e.rate * (1 - e.alpha / 2));
	e.marked = true;
	e.cut = true;
	e.timer_steps = e.byte_steps = 0;
	e.bytes = 0;
	counters_.cuts++;
	e.armed[ALPHA] = e.armed[RATE] = NEVER;	/* they start anew */
	arm(e, ALPHA, net_.world.now + s_.alpha_timer);
	arm(e, RATE, net_.world.now + s_.rate_timer);
}

void Roce::increase(Endpoint &e)
{
	double scale = line_ / 40;

	if (e.timer_steps > s_.fast_recovery && e.byte_steps > s_.fast_recovery)
		e.target += s_.hai_gbps * scale *
			    (std::min(e.timer_steps, e.byte_steps) - s_.fast_recovery);
	else if (e.timer_steps > s_.fast_recovery || e.byte_steps > s_.fast_recovery)
		e.target += s_.ai_gbps * scale;
	e.target = std::min(e.target, line_);
	set_rate(e, (e.target + e.rate) / 2);
	if (e.rate > 0.999 * line_) {
		set_rate(e, line_);
		e.cut = false;
	}
}

void Roce::timer(u32 what)
{
	Endpoint &e = *endpoints_[what / N_TIMERS];
	TimerKind kind = static_cast<TimerKind>(what % N_TIMERS);
	Time now = net_.world.now;

	if (now != e.armed[kind])
		return;
	e.armed[kind] = NEVER;
	switch (kind) {
	case PACE:
		kick(e);
		break;
	case RETRY:
		if (e.una == e.end)
			break;
		if (e.una != e.next && now >= e.last_progress + s_.timeout) {
			counters_.timeouts++;
			e.next = e.una;
			e.last_progress = now;
			kick(e);
		}
		if (e.una == e.next)	/* not even sent: paused or paced */
			e.last_progress = now;
		arm(e, RETRY, e.last_progress + s_.timeout);
		break;
	case ALPHA:
		if (!e.marked)
			e.alpha *= 1 - s_.g;
		e.marked = false;
		if (e.cut)
			arm(e, ALPHA, now + s_.alpha_timer);
		break;
	case RATE:
		if (!e.cut)
			break;
		e.timer_steps++;
		increase(e);
		if (e.cut)
			arm(e, RATE, now + s_.rate_timer);
		break;
	default:
		break;
	}
}

void Roce::receive(u32 pkt)
{
	Packet p = net_.world.packets[pkt];
	Endpoint &e = *endpoints_[p.endpoint];

	net_.world.packets.put(pkt);
	switch (p.kind) {
	case DATA:
		data_rx(e, p);
		break;
	case CNP:
		cnp_rx(e);
		break;
	default:
		ack_rx(e, p.gbn.psn, p.kind == NAK);
		break;
	}
}

} // namespace sim
