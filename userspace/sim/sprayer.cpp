// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "sprayer.h"

#include <algorithm>

namespace sim {

/* Headers like MetaRoCE's, less the path; an ACK with a vector of 128 bits. */
static constexpr u32 HDR = 48, ACK_HDR = 48;

struct Sprayer::Endpoint {
	u32 id = 0, host = 0, peer_host = 0;

	struct Out {
		u32 id, first_psn, npkts, length;
	};
	struct Sent {
		Time at;
		u32 tries;
		u8 acked, lost, was_lost;
	};
	Ring<Out> messages;
	Ring<Sent> sent;	/* from una on */
	Ring<u32> resend;
	u32 una = 0, next = 0, end = 0;
	u32 inflight = 0;	/* packets */
	double window = 0;	/* packets */
	double alpha = 0;
	u32 round_n = 0, round_ce = 0;
	Time round_end = 0;
	Time newest = 0;	/* when the latest-sent packet that arrived was sent */
	Time srtt = 0, rttvar = 0;
	Time last_progress = 0;
	bool in_ready = false;
	Time armed[N_TIMERS] = {NEVER, NEVER};

	/* Receiver. */
	u32 cum = 0;
	Ring<u8> got;		/* from cum on */
	AckBody pending{};
};

Sprayer::Sprayer(Network &net, const SprayerSettings &settings)
	: net_(net), s_(settings),
	  base_rtt_(net.fabric.base_rtt(settings.payload + HDR + WIRE_OVERHEAD)),
	  max_window_(settings.window_bdp * static_cast<double>(net.fabric.bdp()) *
		      net.fabric.settings().planes /
		      (settings.payload + HDR + WIRE_OVERHEAD))
{
}

Sprayer::~Sprayer() = default;

u32 Sprayer::open(u32 src, u32 dst)
{
	u32 first = static_cast<u32>(endpoints_.size());

	for (u32 side = 0; side < 2; side++) {
		auto e = std::make_unique<Endpoint>();

		e->id = first + side;
		e->host = side ? dst : src;
		e->peer_host = side ? src : dst;
		e->window = max_window_;
		e->srtt = base_rtt_;
		e->rttvar = base_rtt_ / 4;
		endpoints_.push_back(std::move(e));
	}
	return first;
}

void Sprayer::arm(Endpoint &e, TimerKind kind, Time at)
{
	if (at >= e.armed[kind])
		return;
	e.armed[kind] = std::max(at, net_.world.now);
	net_.world.at(e.armed[kind], Kind::Timer, e.id * N_TIMERS + kind);
}

void Sprayer::kick(Endpoint &e)
{
	if (e.in_ready || (e.resend.empty() && (e.next == e.end || e.inflight >= e.window)))
		return;
	e.in_ready = true;
	net_.ready(e.host, e.id);
}

static Time timeout_of(Time srtt, Time rttvar, Time least)
{
	return std::max(srtt + 4 * rttvar, least);
}

void Sprayer::post(u32 endpoint, u32 message)
{
	Endpoint &e = *endpoints_[endpoint];
	u32 bytes = static_cast<u32>(net_.message(message).bytes);
	u32 npkts = (bytes + s_.payload - 1) / s_.payload;

	if (e.una == e.end)
		e.last_progress = net_.world.now;
	e.messages.push({message, e.end, npkts, bytes});
	e.end += npkts;
	arm(e, RETRY, e.last_progress + timeout_of(e.srtt, e.rttvar, s_.min_timeout));
	kick(e);
}

u32 Sprayer::make(Endpoint &e, PacketKind kind, u32 udp_payload)
{
	u32 plane = net_.rng().below(net_.fabric.settings().planes);
	u16 sport = static_cast<u16>(49152 + net_.rng().below(16384));

	return net_.packet(e.host, e.peer_host, e.id ^ 1, kind, plane, sport, udp_payload);
}

bool Sprayer::pull(u32 endpoint)
{
	Endpoint &e = *endpoints_[endpoint];
	u32 psn;

	e.in_ready = false;
	for (;;) {
		if (e.resend.empty()) {
			if (e.next == e.end || e.inflight >= e.window)
				return false;
			psn = e.next++;
			e.sent.push({});
			break;
		}
		psn = e.resend.front();
		e.resend.pop();
		if (static_cast<std::int32_t>(psn - e.una) >= 0 && e.sent[psn - e.una].lost)
			break;		/* it has not arrived meanwhile */
	}

	Endpoint::Sent &st = e.sent[psn - e.una];
	u32 k = 0;

	st.at = net_.world.now;
	st.lost = 0;
	st.tries++;
	e.inflight++;
	while (psn - e.messages[k].first_psn >= e.messages[k].npkts)
		k++;
	const Endpoint::Out &m = e.messages[k];
	u32 len = std::min(s_.payload, m.length - (psn - m.first_psn) * s_.payload);
	u32 i = make(e, DATA, HDR + len);
	Packet &p = net_.world.packets[i];

	p.spray.psn = psn;
	p.spray.payload = len;
	p.spray.message = m.id;
	p.spray.tries = st.tries;
	p.spray.sent = net_.world.now;
	counters_.data_packets++;
	counters_.data_bytes += p.bytes;
	counters_.retransmitted += st.tries > 1;
	net_.emit(i);
	e.in_ready = true;
	return true;
}

void Sprayer::send_ack(Endpoint &e)
{
	u32 i = make(e, ACK, ACK_HDR);

	e.pending.cum = e.cum;
	acks_[i] = e.pending;
	e.pending = AckBody{};
	e.armed[DELAYED] = NEVER;
	counters_.ack_packets++;
	counters_.ack_bytes += net_.world.packets[i].bytes;
	net_.emit(i);
}

void Sprayer::data_rx(Endpoint &e, const Packet &p)
{
	u32 ahead = p.spray.psn - e.cum;
	bool is_new = static_cast<std::int32_t>(ahead) >= 0;

	if (is_new) {
		while (e.got.size() <= ahead)
			e.got.push(0);
		is_new = !e.got[ahead];
		e.got[ahead] = 1;
		while (!e.got.empty() && e.got.front()) {
			e.got.pop();
			e.cum++;
		}
	}
	counters_.duplicates += !is_new;
	e.pending.got[e.pending.n++] = {p.spray.psn, p.spray.tries, p.spray.sent};
	e.pending.n_ce += p.ce;
	if (e.pending.n >= s_.packets_per_ack)
		send_ack(e);
	else
		arm(e, DELAYED, net_.world.now + base_rtt_ / 8);
	if (is_new)
		net_.placed(p.spray.message, p.spray.payload);
}

void Sprayer::marks(Endpoint &e, u32 n, u32 ce)
{
	e.round_n += n;
	e.round_ce += ce;
	if (n > ce)
		e.window = std::min(max_window_, e.window + (n - ce) / e.window);
	if (net_.world.now < e.round_end)
		return;
	double f = e.round_n ? static_cast<double>(e.round_ce) / e.round_n : 0;

	e.alpha = e.alpha * 15 / 16 + f / 16;
	if (e.round_ce) {
		e.window = std::max(1.0, e.window * (1 - std::max(e.alpha, f / 2) / 2));
		counters_.cuts++;
	}
	e.round_n = e.round_ce = 0;
	e.round_end = net_.world.now + e.srtt;
}

/* Holes with a later-sent packet behind them are losses; at a timeout all is. */
void Sprayer::detect(Endpoint &e, bool timeout)
{
	Time reorder = static_cast<Time>(s_.reorder_rtt * static_cast<double>(e.srtt));

	for (u32 i = 0; i < e.sent.size(); i++) {
		Endpoint::Sent &st = e.sent[i];

		if (st.acked || st.lost)
			continue;
		if (!timeout && st.at + reorder >= e.newest)
			continue;
		st.lost = st.was_lost = 1;
		e.inflight--;
		e.resend.push(e.una + i);
	}
}

void Sprayer::ack_rx(Endpoint &e, const AckBody &b)
{
	Time now = net_.world.now, newest = e.newest;
	bool news = false;

	auto settle = [&](Endpoint::Sent &st) {
		if (st.acked)
			return;
		st.acked = 1;
		news = true;
		if (!st.lost)
			e.inflight--;
		st.lost = 0;
	};

	for (u32 i = 0; i < b.n; i++) {
		u32 pos = b.got[i].psn - e.una;

		newest = std::max(newest, b.got[i].sent);
		if (static_cast<std::int32_t>(pos) < 0 || pos >= e.sent.size())
			continue;
		if (e.sent[pos].was_lost && b.got[i].tries < e.sent[pos].tries + e.sent[pos].lost)
			counters_.spurious++;
		settle(e.sent[pos]);
	}
	while (static_cast<std::int32_t>(b.cum - e.una) > 0 && !e.sent.empty()) {
		settle(e.sent.front());
		e.sent.pop();
		e.una++;
	}
	while (!e.messages.empty() &&
	       static_cast<std::int32_t>(e.una - e.messages.front().first_psn) >=
		       static_cast<std::int32_t>(e.messages.front().npkts))
		e.messages.pop();
	if (b.n) {
		Time rtt = now - b.got[b.n - 1].sent;
		Time diff = rtt > e.srtt ? rtt - e.srtt : e.srtt - rtt;

		e.rttvar = (3 * e.rttvar + diff) / 4;
		e.srtt = (7 * e.srtt + rtt) / 8;
	}
	if (news)
		e.last_progress = now;
	if (newest != e.newest) {
		e.newest = newest;
		detect(e, false);
	}
	marks(e, b.n, b.n_ce);
	kick(e);
}

void Sprayer::timer(u32 what)
{
	Endpoint &e = *endpoints_[what / N_TIMERS];
	TimerKind kind = static_cast<TimerKind>(what % N_TIMERS);

	if (net_.world.now != e.armed[kind])
		return;
	e.armed[kind] = NEVER;
	if (kind == DELAYED) {
		if (e.pending.n)
			send_ack(e);
		return;
	}
	if (e.una == e.end)
		return;
	Time limit = timeout_of(e.srtt, e.rttvar, s_.min_timeout);

	if (!e.inflight) {
		e.last_progress = net_.world.now;
	} else if (net_.world.now >= e.last_progress + limit) {
		counters_.timeouts++;
		detect(e, true);
		e.last_progress = net_.world.now;
		kick(e);
	}
	arm(e, RETRY, e.last_progress + limit);
}

void Sprayer::receive(u32 pkt)
{
	Packet p = net_.world.packets[pkt];
	Endpoint &e = *endpoints_[p.endpoint];

	net_.world.packets.put(pkt);
	if (p.kind == DATA)
		data_rx(e, p);
	else
		ack_rx(e, acks_[pkt]);
}

} // namespace sim
