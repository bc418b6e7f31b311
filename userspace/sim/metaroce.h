// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * MetaRoCE: drives kernel/core as kernel/engine does, with simulated packets
 * instead of skbs.  Messages are WRITEs of one QP per connection.
 */
#ifndef SIM_METAROCE_H
#define SIM_METAROCE_H

#include "core.h"
#include "network.h"

#include <memory>
#include <optional>
#include <vector>

namespace sim {

struct MetaSettings {
	u32 paths = 16;
	u32 payload = 4096;
	u32 msn_window = 64;
	u32 tick_ns = 1000;	/* shortest timer of a host: a NIC's; a kernel has 50000 */
	bool tail_probe = true;
	bool hint = true;
	bool per_path_windows = true;	/* false: one window for all paths */
	bool halve_on_loss = false;
};

class MetaRoce final : public Transport {
public:
	MetaRoce(Network &net, const MetaSettings &settings);
	~MetaRoce() override;

	u32 open(u32 src, u32 dst) override;
	void post(u32 endpoint, u32 message) override;
	void receive(u32 pkt) override;
	bool pull(u32 endpoint) override;
	void timer(u32 what) override;
	void carrier(u32 host, u32 plane, bool up) override;
	TransportCounters counters() const override;

	const mroce_conn_tx &tx(u32 endpoint) const;

private:
	struct Endpoint;
	static constexpr u32 ACK_PATHS = 8;	/* path blocks per packet, as in kernel/engine/ack.c */

	struct AckBody {
		mroce_ack_path path[ACK_PATHS];
		mroce_ack_stream stream;
		u32 n_path;
		bool has_stream;
	};

	enum PacketKind : u8 { DATA, PROBE, PROBE_RSP, ACK, SOLICIT };
	enum TimerKind : u32 { TX_TIMER, ACK_TIMER, N_TIMERS };

	Endpoint &at(u32 id) { return *endpoints_[id]; }
	void attach(Endpoint &e);
	void kick(Endpoint &e);
	void arm(Endpoint &e);
	void arm_ack(Endpoint &e);
	u32 make(Endpoint &e, PacketKind kind, u32 plane, u16 sport, u32 udp_payload);
	bool send_new(Endpoint &e);
	void send_data(Endpoint &e, u32 path, const mroce_pkt_ref &ref, bool more);
	void send_probe(Endpoint &e, u32 path);
	void send_ack(Endpoint &e, bool probed);
	void send_solicit(Endpoint &e);
	void data_rx(Endpoint &e, const Packet &p);
	void probe_rx(Endpoint &e, const Packet &p);
	void ack_rx(Endpoint &e, u32 pkt);
	void share_rx(Endpoint &e, const Packet &p, u32 bytes);
	void ack_run(Endpoint &e, bool probed);
	void stream_block(Endpoint &e, const mroce_ack_stream &b);
	void one_window(Endpoint &e);
	mroce_share &share(u32 host, u32 plane);

	Network &net_;
	MetaSettings s_;
	u64 rtt_ns_;		/* without queues */
	std::vector<mroce_share> shares_;	/* [host][plane] */
	std::vector<std::unique_ptr<Endpoint>> endpoints_;
	Slab<AckBody> acks_;	/* of the packet with the same number */
	TransportCounters counters_;
};

} // namespace sim

#endif
