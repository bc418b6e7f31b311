// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * RoCEv2: one path per connection, go-back-N, DCQCN (Zhu et al., SIGCOMM 2015).
 * The increase steps are the paper's, for 40 Gb/s, in proportion to the rate.
 */
#ifndef SIM_ROCE_H
#define SIM_ROCE_H

#include "network.h"

#include <memory>
#include <vector>

namespace sim {

struct RoceSettings {
	u32 payload = 4096;		/* the largest path MTU there is */
	bool dcqcn = true;
	Time cnp_interval = 50 * PS_PER_US;
	Time alpha_timer = 55 * PS_PER_US;
	Time rate_timer = 55 * PS_PER_US;
	u64 byte_counter = 10u << 20;
	double g = 1.0 / 256;
	u32 fast_recovery = 5;
	double ai_gbps = 0.04;		/* per 40 Gb/s of the line */
	double hai_gbps = 0.4;
	double min_gbps = 0.1;
	Time timeout = 500 * PS_PER_US;
	u32 packets_per_ack = 16;
};

class Roce final : public Transport {
public:
	Roce(Network &net, const RoceSettings &settings);
	~Roce() override;

	u32 open(u32 src, u32 dst) override;
	void post(u32 endpoint, u32 message) override;
	void receive(u32 pkt) override;
	bool pull(u32 endpoint) override;
	void timer(u32 what) override;
	TransportCounters counters() const override { return counters_; }

	double rate(u32 endpoint) const;	/* Gb/s */

private:
	struct Endpoint;
	enum PacketKind : u8 { DATA, ACK, NAK, CNP };
	enum TimerKind : u32 { PACE, RETRY, ALPHA, RATE, N_TIMERS };

	void kick(Endpoint &e);
	void arm(Endpoint &e, TimerKind kind, Time at);
	u32 make(Endpoint &e, PacketKind kind, u32 udp_payload);
	void answer(Endpoint &e, PacketKind kind, u32 psn);
	void data_rx(Endpoint &e, const Packet &p);
	void ack_rx(Endpoint &e, u32 psn, bool nak);
	void cnp_rx(Endpoint &e);
	void increase(Endpoint &e);
	void set_rate(Endpoint &e, double gbps);

	Network &net_;
	RoceSettings s_;
	double line_;		/* Gb/s */
	std::vector<std::unique_ptr<Endpoint>> endpoints_;
	TransportCounters counters_;
};

} // namespace sim

#endif
