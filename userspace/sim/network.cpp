// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "network.h"

#include <algorithm>

namespace sim {

/* Bytes that a NIC keeps in front of a cable; more waits in the endpoints. */
static constexpr u64 NIC_AHEAD = 2 * 4300;

Network::Network(const FabricSettings &fabric_settings, u64 seed)
	: fabric(fabric_settings, seed), rng_(seed ^ 0x9d1c5a7e), nics_(fabric_settings.hosts)
{
}

u32 Network::post(u32 endpoint, u32 src, u32 dst, u64 bytes, u32 tag)
{
	Message m{};

	m.src = src;
	m.dst = dst;
	m.bytes = bytes;
	m.tag = tag;
	m.start = world.now;
	messages_.push_back(m);
	u32 id = n_messages() - 1;

	transport_->post(endpoint, id);
	return id;
}

void Network::placed(u32 id, u64 bytes)
{
	Message &m = messages_[id];

	m.placed += bytes;
	placed_bytes_ += bytes;
	if (m.placed != m.bytes)
		return;
	m.done = world.now;
	workload_->arrived(*this, id);
}

u32 Network::packet(u32 src, u32 dst, u32 endpoint, u8 kind, u32 plane, u16 sport, u32 udp_payload)
{
	u32 i = world.packets.get();
	Packet &p = world.packets[i];

	p.src = src;
	p.dst = dst;
	p.endpoint = endpoint;
	p.bytes = udp_payload + WIRE_OVERHEAD;
	p.kind = kind;
	p.plane = static_cast<u8>(plane);
	p.sport = sport;
	p.hash = static_cast<u32>(mix64((u64{src} << 40) ^ (u64{dst} << 16) ^ sport));
	return i;
}

void Network::emit(u32 pkt)
{
	Packet &p = world.packets[pkt];

	p.ce = 0;
	p.link = NONE;
	emitted_++;
	fabric.link(fabric.up(p.src, p.plane)).send(world, pkt);
}

/*
 * The NIC asks its endpoints in turn, one packet each, while a cable is about
 * to run dry; else it looks again when one is.
 */
void Network::nic_pump(u32 host)
{
	Nic &nic = nics_[host];
	u32 planes = fabric.settings().planes;
	bool pfc = fabric.settings().pfc;

	if (nic.pull_at != NEVER || pumping_)
		return;
	pumping_ = true;
	while (!nic.ready.empty()) {
		Time when = NEVER;
		bool room = false;

		for (u32 p = 0; p < planes && !room; p++) {
			Link &l = fabric.link(fabric.up(host, p));

			if (pfc) {
				room = l.queued(world) < NIC_AHEAD;
				continue;
			}
			Time t = l.below(NIC_AHEAD);

			room = t <= world.now;
			when = std::min(when, t);
		}
		if (!room) {
			if (!pfc) {
				nic.pull_at = when;
				world.at(when, Kind::Pull, host);
			}
			break;
		}
		u32 endpoint = nic.ready.front();

		nic.ready.pop();
		if (transport_->pull(endpoint))
			nic.ready.push(endpoint);
	}
	pumping_ = false;
}

void Network::forward(u32 node, u32 pkt)
{
	Packet &p = world.packets[pkt];
	u32 out = fabric.route(node, p);

	if (out == NONE) {
		no_route_++;
		world.packets.put(pkt);
		return;
	}
	if (!fabric.settings().pfc) {
		fabric.link(out).send(world, pkt);
		return;
	}
	Link &in = fabric.link(p.link);
	u32 bytes = p.bytes;

	if (!fabric.link(out).send(world, pkt))
		return;
	in.buffered += bytes;
	if (in.buffered > fabric.pfc_xoff() && !in.pausing) {
		in.pausing = true;
		world.at(world.now + fabric.settings().hop_delay, Kind::Pause, in.id());
	}
}

/* Flow control: a packet has left a port; the switch gives back its room. */
void Network::left(Link &out, u32 pkt, u32 came_over)
{
	if (fabric.is_host(out.from())) {
		nic_pump(out.from());
		return;
	}
	Link &in = fabric.link(came_over);

	in.buffered -= world.packets[pkt].bytes;
	if (in.pausing && in.buffered < fabric.pfc_xoff() / 2) {
		in.pausing = false;
		world.at(world.now + fabric.settings().hop_delay, Kind::Resume, in.id());
	}
}

void Network::arrive(u32 id)
{
	Link &l = fabric.link(id);
	u32 pkt = l.arrive(world);

	if (pkt == NONE)
		return;
	if (!fabric.is_host(l.to())) {
		forward(l.to(), pkt);
		return;
	}
	received_++;
	transport_->receive(pkt);
}

void Network::add_fault(const Fault &f)
{
	faults_.push_back(f);
	world.at(f.at, Kind::Fault, static_cast<u32>(faults_.size() - 1));
}

void Network::converge(const Fault &f)
{
	const FabricSettings &s = fabric.settings();
	u32 first = s.planes * s.hosts * 2;

	for (u32 id : f.links) {
		if (id < first)
			continue;
		u32 k = (id - first) / 2;

		fabric.set_usable(k / s.spines % s.leaves, k % s.spines, k / s.spines / s.leaves,
				  f.what == Fault::What::LinkUp);
	}
}

void Network::fault(u32 i)
{
	if (i >= faults_.size()) {	/* routing has learnt of it */
		converge(faults_[i - faults_.size()]);
		return;
	}
	const Fault &f = faults_[i];
	bool updown = f.what == Fault::What::LinkDown || f.what == Fault::What::LinkUp;

	for (u32 id : f.links) {
		Link &l = fabric.link(id);

		if (f.what == Fault::What::LinkSlow)
			l.set_rate(f.value);
		else if (f.what == Fault::What::LinkLoss)
			l.set_loss(f.value);
		else
			l.set_up(f.what == Fault::What::LinkUp);
		if (updown && fabric.is_host(l.from()))
			transport_->carrier(l.from(), id / 2 / fabric.settings().hosts,
					    f.what == Fault::What::LinkUp);
	}
	if (updown && f.converge)
		world.at(world.now + fabric.settings().converge, Kind::Fault,
			 i + static_cast<u32>(faults_.size()));
}

void Network::sample(Time from, Time period, std::function<void(Network &)> f)
{
	sampler_ = std::move(f);
	sample_period_ = period;
	world.at(from, Kind::Sample, 0);
}

Network::End Network::run(Workload &workload, Time limit,
			  const std::function<void(double)> &progress)
{
	u64 steps = 0;

	workload_ = &workload;
	workload.start(*this);
	while (!workload.finished()) {
		if (world.events.empty())
			return End::Stuck;
		Event e = world.events.top();

		world.now = e.at;
		if (e.at > limit)
			return End::TimeOver;
		if (!(++steps & 0xfffff) && progress)
			progress(workload.progress());
		if (e.kind == Kind::Arrive) {	/* takes itself off, or moves on */
			arrive(e.index);
			continue;
		}
		world.events.pop();
		switch (e.kind) {
		case Kind::TxDone: {
			Link &l = fabric.link(e.index);
			u32 pkt = l.tx_done(world);
			u32 came_over = world.packets[pkt].link;

			world.packets[pkt].link = e.index;
			left(l, pkt, came_over);
			break;
		}
		case Kind::Pause:
		case Kind::Resume: {
			Link &l = fabric.link(e.index);

			l.pause(world, e.kind == Kind::Pause);
			break;
		}
		case Kind::Pull:
			nics_[e.index].pull_at = NEVER;
			nic_pump(e.index);
			break;
		case Kind::Timer:
			transport_->timer(e.index);
			break;
		case Kind::Traffic:
			workload.event(*this, e.index);
			break;
		case Kind::Fault:
			fault(e.index);
			break;
		case Kind::Sample:
			sampler_(*this);
			world.at(world.now + sample_period_, Kind::Sample, 0);
			break;
		case Kind::Arrive:
			break;
		}
	}
	return End::Finished;
}

} // namespace sim
