// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Queue pairs and their connections: both ends live in this process.
#pragma once

#include "env.h"
#include "pattern.h"

#include <optional>

namespace mv {

struct QpSpec {
	uint32_t send_wr = 64, recv_wr = 64;
	uint32_t send_sge = 2, recv_sge = 2;
	uint32_t inline_bytes = 0;
	bool signal_all = false;
	uint64_t ex_ops = 0;  // not 0: create it for the ibv_wr_* API
	ibv_srq *srq = nullptr;
};

// The attributes of one RC connection.
struct Rc {
	std::optional<ibv_mtu> mtu = {}; // the smaller active MTU if not set
	// 4.3 s without progress: a verdict must not depend on the speed of an emulated machine
	uint8_t timeout = 17, retry = 7, rnr = 7, min_rnr = 12;
	uint8_t rd_atomic = 16; // clipped to what the devices can
	uint32_t psn_ab = 0x123456, psn_ba = 0xabcdef;
	unsigned access = all_access;
};

// Null with errno set when refused; `granted` gets what the device gave.
[[nodiscard]] Qp try_qp(ibv_pd *pd, ibv_cq *scq, ibv_cq *rcq, const QpSpec &spec, ibv_qp_cap *granted = nullptr);
[[nodiscard]] Qp make_qp(ibv_pd *pd, ibv_cq *scq, ibv_cq *rcq, const QpSpec &spec = {}, ibv_qp_cap *granted = nullptr);

struct Attributes {
	ibv_qp_attr attr{};
	int mask = 0;
};

[[nodiscard]] uint8_t usable_rd_atomic(const Device &self, const Device &peer, const Rc &rc);
[[nodiscard]] Attributes init_attributes(const Device &self, const Rc &rc);
[[nodiscard]] Attributes rtr_attributes(const Device &self, const Device &peer, uint32_t peer_qpn, uint32_t rq_psn, const Rc &rc);
[[nodiscard]] Attributes rts_attributes(const Device &self, const Device &peer, uint32_t sq_psn, const Rc &rc);
[[nodiscard]] int modify(ibv_qp *qp, Attributes attributes);
[[nodiscard]] int modify_state(ibv_qp *qp, ibv_qp_state state);
[[nodiscard]] ibv_qp_state state_of(ibv_qp *qp);

// RESET or INIT to RTS, one end and both.
void connect_half(ibv_qp *self, const Device &self_dev, const Device &peer_dev, uint32_t peer_qpn, bool is_a, const Rc &rc);
void connect(ibv_qp *a, const Device &a_dev, ibv_qp *b, const Device &b_dev, const Rc &rc = {});

// One side of a test: protection domain, CQs and one QP.
struct End {
	End(Device &device, const QpSpec &spec, int cq_entries, bool with_channel);

	Device &dev;
	Pd pd;
	Channel channel;
	Cq scq, rcq;
	ibv_qp_cap cap{};
	Qp qp;
};

struct PairSpec {
	QpSpec qp = {};
	Rc rc = {};
	int cq_entries = 0; // enough for the queues if 0
	bool with_channel = false;
	bool connected = true;
};

// Two connected ends; A is the requester by convention.
class Pair {
public:
	explicit Pair(Env &env, const PairSpec &spec = {});

	// Both ends through RESET to RTS again, completions thrown away, new PSNs.
	void reconnect();
	void reconnect_same_psn();

	PairSpec spec;
	End a, b;
};

void drain(ibv_cq *cq);

} // namespace mv
