// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The classic sprayer: every packet takes a random port, one sequence for all,
 * selective acknowledgement, retransmission of the same number; a packet is
 * lost if one that was sent a quarter of a round trip later has arrived
 * (RFC 8985), or by timeout.  One window, driven by the marked fraction (DCTCP).
 */
#ifndef SIM_SPRAYER_H
#define SIM_SPRAYER_H

#include "network.h"

#include <memory>
#include <vector>

namespace sim {

struct SprayerSettings {
	u32 payload = 4096;
	double window_bdp = 1.5;	/* first window, and the largest */
	Time min_timeout = 100 * PS_PER_US;
	double reorder_rtt = 0.25;	/* 0: every hole is a loss at once (IRN) */
	u32 packets_per_ack = 4;
};

class Sprayer final : public Transport {
public:
	Sprayer(Network &net, const SprayerSettings &settings);
	~Sprayer() override;

	u32 open(u32 src, u32 dst) override;
	void post(u32 endpoint, u32 message) override;
	void receive(u32 pkt) override;
	bool pull(u32 endpoint) override;
	void timer(u32 what) override;
	TransportCounters counters() const override { return counters_; }

private:
	struct Endpoint;
	struct AckBody {
		u32 cum;
		u32 n;
		u32 n_ce;
		struct {
			u32 psn, tries;
			Time sent;
		} got[16];
	};
	enum PacketKind : u8 { DATA, ACK };
	enum TimerKind : u32 { RETRY, DELAYED, N_TIMERS };

	void kick(Endpoint &e);
	void arm(Endpoint &e, TimerKind kind, Time at);
	u32 make(Endpoint &e, PacketKind kind, u32 udp_payload);
	void send_ack(Endpoint &e);
	void data_rx(Endpoint &e, const Packet &p);
	void ack_rx(Endpoint &e, const AckBody &b);
	void detect(Endpoint &e, bool timeout);
	void marks(Endpoint &e, u32 n, u32 ce);

	Network &net_;
	SprayerSettings s_;
	Time base_rtt_;
	double max_window_;
	Slab<AckBody> acks_;
	std::vector<std::unique_ptr<Endpoint>> endpoints_;
	TransportCounters counters_;
};

} // namespace sim

#endif
