// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "metaroce.h"

#include <algorithm>

namespace sim {

static constexpr u32 BASE_HDR = 24, ACK_HDR = 8, PATH_BLOCK = 64, STREAM_BLOCK = 24;
static constexpr u32 DATA_HDR = 60;	/* of a WRITE */
static constexpr u32 PROBE_BODY = 8, PROBE_RSP_BODY = 16;
static constexpr Time SOLICIT_AFTER = 2 * PS_PER_MS;

struct TxMessage {
	u32 id;			/* of the traffic */
	u32 msn;
	u32 first_spsn;
	u32 npkts;
	u32 length;
};

struct MetaRoce::Endpoint {
	u32 id = 0, host = 0, peer_host = 0;
	mroce_conn_tx tx{};
	std::vector<mroce_tx_path> paths;
	std::vector<u64> rings;
	mroce_conn_rx rx{};
	std::vector<mroce_rx_path> rx_paths;
	mroce_stream_tx out{};
	mroce_stream_rx in{};
	std::vector<mroce_msg_rec> records;
	std::vector<mroce_share_peer> share;	/* per plane */

	Ring<TxMessage> messages;	/* not yet known to be done; the front has number first_msn */
	u32 first_msn = 0;
	u32 sending = 0;	/* index of the message new packets come from */
	u32 next_idx = 0;	/* the packet of it */
	u64 unsent = 0;		/* bytes never sent */
	Time last_progress = 0;

	bool in_ready = false;
	bool block_due = false;
	Time tx_armed = NEVER, ack_armed = NEVER;
	/* Acknowledgements keep to one way as long as it works: one that is overtaken confuses. */
	u8 ack_plane = 0;
	u16 ack_sport = 0;

	/* Nearly always one of the first. */
	const TxMessage *message_of(u32 spsn) const
	{
		for (u32 k = 0; k < messages.size(); k++)
			if (spsn - messages[k].first_spsn < messages[k].npkts)
				return &messages[k];
		return nullptr;
	}
};

MetaRoce::MetaRoce(Network &net, const MetaSettings &settings)
	: net_(net), s_(settings),
	  rtt_ns_(net.fabric.base_rtt(settings.payload + DATA_HDR + WIRE_OVERHEAD) / PS_PER_NS)
{
	const FabricSettings &f = net.fabric.settings();

	shares_.resize(static_cast<std::size_t>(f.hosts) * f.planes);
	for (mroce_share &s : shares_) {
		mroce_share_init(&s, static_cast<u64>(f.gbps / f.planes * 1e9), net.world.now_ns());
		s.rtt_ns = static_cast<u32>(rtt_ns_);
		s.period_ns = s_.tick_ns;
	}
}

MetaRoce::~MetaRoce() = default;

mroce_share &MetaRoce::share(u32 host, u32 plane)
{
	return shares_[host * net_.fabric.settings().planes + plane];
}

const mroce_conn_tx &MetaRoce::tx(u32 endpoint) const
{
	return endpoints_[endpoint]->tx;
}

u32 MetaRoce::open(u32 src, u32 dst)
{
	u32 first = static_cast<u32>(endpoints_.size());

	for (u32 side = 0; side < 2; side++) {
		auto e = std::make_unique<Endpoint>();

		e->id = first + side;
		e->host = side ? dst : src;
		e->peer_host = side ? src : dst;
		e->paths.resize(s_.paths);
		for (u32 i = 0; i < s_.paths; i++)
			e->paths[i].plane = static_cast<u8>(i % net_.fabric.settings().planes);
		mroce_conn_tx_init(&e->tx, e->paths.data(), nullptr, s_.paths,
				   s_.payload + MROCE_MAX_PAYLOAD_HDR, net_.rng().next() | 1, true,
				   net_.world.now_ns());
		e->tx.tick_ns = s_.tick_ns;
		/* the peer waits for an eighth of the round trip, in whole ticks */
		e->tx.max_ack_delay = std::min<u64>(25000, rtt_ns_ / 8 + s_.tick_ns);
		e->ack_sport = static_cast<u16>(49152 + net_.rng().below(16384));
		/* Path validation has measured the round trip. */
		for (mroce_tx_path &p : e->paths) {
			mroce_rtt_sample(&p.rtt, static_cast<u32>(rtt_ns_), net_.world.now_ns());
			p.srtt_ns = p.rtt.srtt_ns;
		}
		e->tx.srtt_ns = e->tx.min_rtt_ns = static_cast<u32>(rtt_ns_);
		e->rx_paths.resize(s_.paths);
		mroce_conn_rx_init(&e->rx, e->rx_paths.data(), s_.paths);
		e->rx.srtt_ns = static_cast<u32>(rtt_ns_);	/* the handshake has measured it */
		mroce_stream_tx_init(&e->out, 0);
		e->share.resize(net_.fabric.settings().planes);
		endpoints_.push_back(std::move(e));
	}
	return first;
}

void MetaRoce::attach(Endpoint &e)
{
	if (e.tx.attached)
		return;
	e.rings.assign((mroce_conn_tx_ring_mem(s_.paths) + 7) / 8, 0);
	mroce_conn_tx_attach(&e.tx, e.rings.data(), net_.world.now_ns());
}

void MetaRoce::post(u32 endpoint, u32 message)
{
	Endpoint &e = at(endpoint);
	u64 bytes = net_.message(message).bytes;
	TxMessage m{};

	attach(e);
	m.id = message;
	m.msn = e.first_msn + static_cast<u32>(e.messages.size());
	m.length = static_cast<u32>(bytes);
	m.npkts = static_cast<u32>((bytes + s_.payload - 1) / s_.payload);
	m.first_spsn = e.messages.empty() ? e.out.next :
		       e.messages.back().first_spsn + e.messages.back().npkts;
	if (e.messages.empty())
		e.last_progress = net_.world.now;
	e.messages.push(m);
	e.unsent += bytes;
	kick(e);
	arm(e);
}

void MetaRoce::kick(Endpoint &e)
{
	if (e.in_ready)
		return;
	if (!e.tx.probes_due && !e.tx.rtx_queued && e.sending == e.messages.size())
		return;
	e.in_ready = true;
	net_.ready(e.host, e.id);
}

/* The timer of the sending half: fires early rather than moving with every packet. */
void MetaRoce::arm(Endpoint &e)
{
	Time when = e.tx.next_timer == ~0ull ? NEVER : e.tx.next_timer * PS_PER_NS;

	if (!e.messages.empty())
		when = std::min(when, e.last_progress + SOLICIT_AFTER);
	if (when >= e.tx_armed)
		return;
	e.tx_armed = std::max(when, net_.world.now);
	net_.world.at(e.tx_armed, Kind::Timer, e.id * N_TIMERS + TX_TIMER);
}

void MetaRoce::arm_ack(Endpoint &e)
{
	if (e.rx.deadline == ~0ull || e.rx.deadline * PS_PER_NS >= e.ack_armed)
		return;
	e.ack_armed = std::max(e.rx.deadline * PS_PER_NS, net_.world.now);
	net_.world.at(e.ack_armed, Kind::Timer, e.id * N_TIMERS + ACK_TIMER);
}

void MetaRoce::timer(u32 what)
{
	Endpoint &e = at(what / N_TIMERS);
	Time now = net_.world.now;

	if (what % N_TIMERS == ACK_TIMER) {
		if (now != e.ack_armed)
			return;
		e.ack_armed = NEVER;
		ack_run(e, false);
		return;
	}
	if (now != e.tx_armed)
		return;
	e.tx_armed = NEVER;
	if (e.tx.next_timer <= net_.world.now_ns())
		mroce_conn_tx_timer(&e.tx, net_.world.now_ns());
	if (!e.messages.empty() && now >= e.last_progress + SOLICIT_AFTER) {
		e.last_progress = now;
		send_solicit(e);
	}
	kick(e);
	arm(e);
}

u32 MetaRoce::make(Endpoint &e, PacketKind kind, u32 plane, u16 sport, u32 udp_payload)
{
	return net_.packet(e.host, e.peer_host, e.id ^ 1, kind, plane, sport, udp_payload);
}

void MetaRoce::send_data(Endpoint &e, u32 path, const mroce_pkt_ref &ref, bool more)
{
	const TxMessage &m = *e.message_of(ref.spsn);
	u32 idx = ref.spsn - m.first_spsn;
	mroce_pkt pkt{};

	pkt.type = MROCE_T_DATA;
	pkt.sflags = static_cast<u8>((idx ? 0 : MROCE_SF_FIRST) |
				     (idx + 1 == m.npkts ? MROCE_SF_LAST : 0));
	mroce_conn_tx_sent(&e.tx, path, &ref, more, net_.world.now_ns(), &pkt);

	mroce_tx_path &tp = e.paths[path];

	if (!s_.tail_probe)
		tp.tail_probed = 1;

	u32 i = make(e, DATA, tp.plane, tp.sport, ref.bytes);
	Packet &p = net_.world.packets[i];

	p.meta.psn = pkt.path_psn;
	p.meta.tx_ts = pkt.tx_ts;
	p.meta.gen = pkt.path_gen;
	p.meta.path = pkt.path_id;
	p.meta.flags = pkt.flags;
	p.meta.sflags = pkt.sflags;
	p.meta.spsn = ref.spsn;
	p.meta.msn = m.msn;
	p.meta.offset = idx * s_.payload;
	p.meta.length = m.length;
	p.meta.payload = ref.bytes - DATA_HDR;
	p.meta.demand = mroce_demand_encode(e.unsent);
	counters_.data_packets++;
	counters_.data_bytes += p.bytes;
	if (pkt.flags & MROCE_F_RTX)
		counters_.retransmitted++;
	net_.emit(i);
}

void MetaRoce::send_probe(Endpoint &e, u32 path)
{
	mroce_pkt pkt{};
	u64 value;

	mroce_conn_tx_sent_probe(&e.tx, path, net_.world.now_ns(), &pkt, &value);

	const mroce_tx_path &tp = e.paths[path];
	bool pad = tp.state == MROCE_PATH_NEW;
	u32 i = make(e, PROBE, tp.plane, tp.sport,
		     pad ? s_.payload + MROCE_MAX_PAYLOAD_HDR : BASE_HDR + PROBE_BODY);
	Packet &p = net_.world.packets[i];

	p.meta.psn = pkt.path_psn;
	p.meta.tx_ts = pkt.tx_ts;
	p.meta.gen = pkt.path_gen;
	p.meta.path = pkt.path_id;
	p.meta.flags = pkt.flags;
	p.meta.sflags = 0;
	p.meta.probe_value = value;
	p.meta.demand = mroce_demand_encode(e.unsent);
	counters_.data_bytes += p.bytes;
	net_.emit(i);
}

/* A new packet of the stream, if windows allow. */
bool MetaRoce::send_new(Endpoint &e)
{
	if (e.sending == e.messages.size() || e.sending >= s_.msn_window ||
	    !mroce_stream_tx_room(&e.out))
		return false;

	e.tx.backlog = e.unsent;
	int path = mroce_conn_tx_pick(&e.tx, s_.payload + MROCE_MAX_PAYLOAD_HDR);

	if (path < 0)
		return false;

	const TxMessage &m = e.messages[e.sending];
	u32 len = std::min(s_.payload, m.length - e.next_idx * s_.payload);
	mroce_pkt_ref ref{};

	ref.qpn = e.id;
	ref.spsn = mroce_stream_tx_take(&e.out);
	ref.bytes = static_cast<u16>(len + DATA_HDR);
	ref.cls = MROCE_CLASS_REQ;
	e.unsent -= len;
	if (++e.next_idx == m.npkts) {
		e.next_idx = 0;
		e.sending++;
	}
	send_data(e, static_cast<u32>(path), ref, e.unsent != 0);
	return true;
}

bool MetaRoce::pull(u32 endpoint)
{
	Endpoint &e = at(endpoint);
	mroce_pkt_ref ref;
	bool sent = true;
	u32 path;

	for (;;) {
		mroce_send_kind kind = mroce_conn_tx_next(&e.tx, &path, &ref);

		if (kind == MROCE_SEND_PROBE)
			send_probe(e, path);
		else if (kind == MROCE_SEND_NONE)
			sent = send_new(e);
		else if (mroce_stream_tx_wanted(&e.out, ref.spsn))
			send_data(e, path, ref, true);
		else
			continue;	/* has arrived meanwhile */
		break;
	}
	e.in_ready = sent;
	if (sent)
		arm(e);
	return sent;
}

void MetaRoce::receive(u32 pkt)
{
	Packet p = net_.world.packets[pkt];	/* a copy: answers may take its place */
	Endpoint &e = at(p.endpoint);

	net_.world.packets.put(pkt);
	switch (p.kind) {
	case DATA:
		data_rx(e, p);
		break;
	case PROBE:
		probe_rx(e, p);
		break;
	case PROBE_RSP:
		mroce_conn_tx_probe_rsp(&e.tx, p.meta.path, p.meta.gen, p.meta.psn,
					p.meta.probe_value, net_.world.now_ns());
		kick(e);
		arm(e);
		break;
	case ACK:
		ack_rx(e, pkt);
		break;
	default:
		e.block_due = true;
		send_ack(e, true);
		break;
	}
}

static mroce_pkt parse(const Packet &p, u8 type)
{
	mroce_pkt k{};

	k.type = type;
	k.flags = p.meta.flags;
	k.path_id = p.meta.path;
	k.demand = p.meta.demand;
	k.path_gen = p.meta.gen;
	k.path_psn = p.meta.psn;
	k.tx_ts = p.meta.tx_ts;
	return k;
}

void MetaRoce::data_rx(Endpoint &e, const Packet &p)
{
	mroce_pkt k = parse(p, MROCE_T_DATA);
	mroce_path_verdict pv = mroce_conn_rx_check(&e.rx, &k);

	if (pv == MROCE_PATH_REJECT)
		return;
	if (e.records.empty()) {
		e.records.assign(s_.msn_window, mroce_msg_rec{});
		mroce_stream_rx_init(&e.in, 0, s_.payload, e.records.data(), s_.msn_window);
	}
	k.opcode = MROCE_OP_WRITE;
	k.sflags = p.meta.sflags;
	k.spsn = p.meta.spsn;
	k.msn = p.meta.msn;
	k.offset = p.meta.offset;
	k.length = p.meta.length;
	k.payload_len = p.meta.payload;

	Endpoint &from = at(e.id ^ 1);
	mroce_rx_verdict v = mroce_stream_rx_check(&e.in, &k, true);

	e.block_due = true;
	if (v == MROCE_RX_OK) {
		mroce_stream_rx_commit(&e.in, &k);
		while (mroce_stream_rx_complete(&e.in))
			mroce_stream_rx_executed(&e.in);
	} else {
		counters_.duplicates++;
	}
	if (pv == MROCE_PATH_OK || pv == MROCE_PATH_DUP)
		mroce_conn_rx_commit(&e.rx, &k, p.bytes - WIRE_OVERHEAD, p.ce, net_.world.now_ns());
	share_rx(e, p, p.bytes);
	ack_run(e, false);
	if (v == MROCE_RX_OK)
		net_.placed(from.messages[k.msn - from.first_msn].id, k.payload_len);
}

void MetaRoce::share_rx(Endpoint &e, const Packet &p, u32 bytes)
{
	mroce_share &s = share(e.host, p.plane);

	if (mroce_share_rx(&s, &e.share[p.plane], bytes, mroce_demand_decode(p.meta.demand),
			   net_.world.now_ns()))
		mroce_share_update(&s, net_.world.now_ns());
}

void MetaRoce::probe_rx(Endpoint &e, const Packet &p)
{
	mroce_pkt k = parse(p, MROCE_T_PROBE);
	mroce_path_verdict v = mroce_conn_rx_check(&e.rx, &k);

	if (v == MROCE_PATH_REJECT)
		return;
	if (v == MROCE_PATH_OK || v == MROCE_PATH_DUP)
		mroce_conn_rx_commit(&e.rx, &k, p.bytes - WIRE_OVERHEAD, p.ce, net_.world.now_ns());

	u32 i = make(e, PROBE_RSP, p.plane, p.sport, BASE_HDR + PROBE_RSP_BODY);
	Packet &rsp = net_.world.packets[i];

	rsp.meta = p.meta;
	counters_.ack_packets++;
	counters_.ack_bytes += rsp.bytes;
	net_.emit(i);
	ack_run(e, true);
}

void MetaRoce::send_ack(Endpoint &e, bool probed)
{
	AckBody b{};

	for (; b.n_path < ACK_PATHS; b.n_path++) {
		mroce_ack_path &pb = b.path[b.n_path];

		if (!mroce_conn_rx_blocks(&e.rx, &pb, 1, net_.world.now_ns()))
			break;
		if (s_.hint)
			pb.rate_hint = share(e.host, at(e.id ^ 1).paths[pb.path_id].plane).hint;
	}
	b.has_stream = (e.block_due || probed) && !e.records.empty();
	if (b.has_stream)
		mroce_stream_rx_block(&e.in, &b.stream);
	e.block_due = false;

	u32 i = make(e, ACK, e.ack_plane, e.ack_sport,
		     BASE_HDR + ACK_HDR + b.n_path * PATH_BLOCK + (b.has_stream ? STREAM_BLOCK : 0));

	acks_[i] = b;
	counters_.ack_packets++;
	counters_.ack_bytes += net_.world.packets[i].bytes;
	net_.emit(i);
}

void MetaRoce::ack_run(Endpoint &e, bool probed)
{
	while (mroce_conn_rx_due(&e.rx, net_.world.now_ns()))
		send_ack(e, probed);
	arm_ack(e);
}

void MetaRoce::send_solicit(Endpoint &e)
{
	u32 i = make(e, SOLICIT, e.paths[0].plane, e.paths[0].sport, BASE_HDR + 8);

	counters_.probes++;
	net_.emit(i);
}

void MetaRoce::stream_block(Endpoint &e, const mroce_ack_stream &b)
{
	u64 resend;

	if (mroce_stream_tx_block(&e.out, &b, &resend) > 0)
		e.last_progress = net_.world.now;
	while (!e.messages.empty() && static_cast<std::int32_t>(b.msn_done - e.first_msn) > 0 &&
	       e.sending) {
		e.messages.pop();
		e.first_msn++;
		e.sending--;
		e.last_progress = net_.world.now;
	}
	for (; resend; resend &= resend - 1) {
		mroce_pkt_ref ref{};

		ref.qpn = e.id;
		ref.spsn = b.base_spsn + static_cast<u32>(__builtin_ctzll(resend));
		const TxMessage *m = e.message_of(ref.spsn);

		if (!m)
			continue;
		u32 offset = (ref.spsn - m->first_spsn) * s_.payload;

		ref.bytes = static_cast<u16>(std::min(s_.payload, m->length - offset) + DATA_HDR);
		mroce_conn_tx_resend(&e.tx, &ref);
	}
}

void MetaRoce::ack_rx(Endpoint &e, u32 pkt)
{
	const AckBody &b = acks_[pkt];
	mroce_pkt_ref refs[MROCE_SACK_BITS];
	u32 n;

	for (u32 i = 0; i < b.n_path; i++) {
		u64 cuts = e.tx.stats.loss_cuts;

		if (mroce_conn_tx_ack(&e.tx, &b.path[i], net_.world.now_ns(), refs, &n))
			continue;
		if (s_.halve_on_loss && e.tx.stats.loss_cuts != cuts)
			mroce_cc_halve(&e.tx, &e.paths[b.path[i].path_id]);
		for (u32 k = 0; k < n; k++)
			mroce_stream_tx_arrived(&e.out, refs[k].spsn);
		if (n)
			e.last_progress = net_.world.now;
	}
	if (b.has_stream)
		stream_block(e, b.stream);
	if (e.tx.srtt_ns)
		e.rx.srtt_ns = e.tx.srtt_ns;
	if (!s_.per_path_windows)
		one_window(e);
	kick(e);
	arm(e);
}

/* One window for all paths: that of a path never binds. */
void MetaRoce::one_window(Endpoint &e)
{
	for (mroce_tx_path &p : e.paths)
		mroce_cc_set_cwnd(&e.tx, &p, mroce_cc_limit(&e.tx));
}

void MetaRoce::carrier(u32 host, u32 plane, bool up)
{
	if (up)
		return;
	for (auto &e : endpoints_) {
		if (e->host != host)
			continue;
		mroce_conn_tx_plane_failed(&e->tx, plane, net_.world.now_ns());
		kick(*e);
		arm(*e);
	}
}

TransportCounters MetaRoce::counters() const
{
	TransportCounters c = counters_;

	for (const auto &e : endpoints_) {
		const mroce_conn_tx_stats &s = e->tx.stats;

		c.spurious += s.spurious;
		c.timeouts += s.pto;
		c.probes += s.probes;
		c.cuts += s.ce_cuts;
		c.rerolls += s.reroll;
		c.moved += s.moved;
	}
	return c;
}

} // namespace sim
