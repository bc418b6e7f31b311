// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What a transport must do: MetaRoCE, RoCEv2, the sprayer. */
#ifndef SIM_TRANSPORT_H
#define SIM_TRANSPORT_H

#include "units.h"

namespace sim {

class Network;

struct TransportCounters {
	u64 data_packets = 0;	/* sent, with retransmissions */
	u64 data_bytes = 0;	/* on the wire */
	u64 ack_packets = 0, ack_bytes = 0;
	u64 retransmitted = 0;
	u64 duplicates = 0;	/* data that the receiver had already */
	u64 spurious = 0;	/* losses that were none, as the sender learns */
	u64 timeouts = 0;
	u64 probes = 0;
	u64 cuts = 0;		/* of windows or rates, for marks */
	u64 rerolls = 0;
	u64 moved = 0;
};

class Transport {
public:
	virtual ~Transport() = default;

	/* A connection from host to host; the number of its sending end. */
	virtual u32 open(u32 src, u32 dst) = 0;
	/* Sends a message; the traffic hears of every byte placed. */
	virtual void post(u32 endpoint, u32 message) = 0;
	/* A packet for one of its endpoints; it is the transport's now. */
	virtual void receive(u32 pkt) = 0;
	/* The NIC has room: at most one packet.  False: nothing to send now. */
	virtual bool pull(u32 endpoint) = 0;
	virtual void timer(u32 what) = 0;
	/* The host knows that its cable into a plane is cut. */
	virtual void carrier(u32 host, u32 plane, bool up) { (void)host, (void)plane, (void)up; }
	virtual TransportCounters counters() const = 0;
};

} // namespace sim

#endif
