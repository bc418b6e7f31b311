// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* One simulation: fabric, NICs, a transport on all hosts, a workload. */
#ifndef SIM_NETWORK_H
#define SIM_NETWORK_H

#include "fabric.h"
#include "traffic.h"
#include "transport.h"

#include <functional>
#include <memory>

namespace sim {

struct Fault {
	enum class What { LinkDown, LinkUp, LinkSlow, LinkLoss };
	Time at = 0;
	What what = What::LinkDown;
	std::vector<u32> links;
	double value = 0;	/* Gb/s, or probability of loss */
	bool converge = true;	/* routing will learn of it */
};

class Network {
public:
	Network(const FabricSettings &fabric, u64 seed);

	World world;
	Fabric fabric;

	void use(std::unique_ptr<Transport> transport) { transport_ = std::move(transport); }
	Transport &transport() { return *transport_; }
	Rng &rng() { return rng_; }

	/* For workloads. */
	u32 open(u32 src, u32 dst) { return transport_->open(src, dst); }
	u32 post(u32 endpoint, u32 src, u32 dst, u64 bytes, u32 tag);
	const Message &message(u32 id) const { return messages_[id]; }
	u32 n_messages() const { return static_cast<u32>(messages_.size()); }

	/* For transports: bytes of a message are at their place in the receiver. */
	void placed(u32 message, u64 bytes);
	u64 placed_bytes() const { return placed_bytes_; }

	/* For transports: an endpoint of @host has something to send. */
	void ready(u32 host, u32 endpoint) { nics_[host].ready.push(endpoint); nic_pump(host); }
	/* A packet from host to host, for @endpoint there, with the headers that all transports share. */
	u32 packet(u32 src, u32 dst, u32 endpoint, u8 kind, u32 plane, u16 sport, u32 udp_payload);
	/* It goes to the host's link. */
	void emit(u32 pkt);
	u64 emitted_packets() const { return emitted_; }
	u64 received_packets() const { return received_; }
	u64 no_route() const { return no_route_; }

	void add_fault(const Fault &f);
	/* @f is called every @period from @from on while the run lasts. */
	void sample(Time from, Time period, std::function<void(Network &)> f);

	enum class End { Finished, TimeOver, Stuck };
	End run(Workload &workload, Time limit, const std::function<void(double)> &progress = {});

private:
	struct Nic {
		Ring<u32> ready;
		Time pull_at = NEVER;
	};

	void nic_pump(u32 host);
	void arrive(u32 link);
	void forward(u32 node, u32 pkt);
	void left(Link &out, u32 pkt, u32 came_over);
	void fault(u32 i);
	void converge(const Fault &f);

	std::unique_ptr<Transport> transport_;
	Rng rng_;
	std::vector<Nic> nics_;
	std::vector<Message> messages_;
	std::vector<Fault> faults_;
	std::function<void(Network &)> sampler_;
	Time sample_period_ = 0;
	Workload *workload_ = nullptr;
	u64 placed_bytes_ = 0, emitted_ = 0, received_ = 0;
	u64 no_route_ = 0;
	bool pumping_ = false;
};

} // namespace sim

#endif
