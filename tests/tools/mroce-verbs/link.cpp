// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "link.h"

#include <algorithm>
#include <cerrno>

namespace mv {

namespace {

Qp try_qp_ex(ibv_pd *pd, ibv_cq *scq, ibv_cq *rcq, const QpSpec &spec, const ibv_qp_cap &cap)
{
	ibv_qp_init_attr_ex init{};

	init.send_cq = scq;
	init.recv_cq = rcq;
	init.srq = spec.srq;
	init.cap = cap;
	init.qp_type = IBV_QPT_RC;
	init.sq_sig_all = spec.signal_all;
	init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	init.pd = pd;
	init.send_ops_flags = spec.ex_ops;
	return Qp(ibv_create_qp_ex(pd->context, &init));
}

int cq_entries_for(const PairSpec &spec)
{
	return spec.cq_entries ? spec.cq_entries : static_cast<int>(spec.qp.send_wr + spec.qp.recv_wr);
}

} // namespace

Qp try_qp(ibv_pd *pd, ibv_cq *scq, ibv_cq *rcq, const QpSpec &spec, ibv_qp_cap *granted)
{
	ibv_qp_init_attr init{};
	ibv_qp_attr attr{};
	Qp qp;

	init.send_cq = scq;
	init.recv_cq = rcq;
	init.srq = spec.srq;
	init.cap = {spec.send_wr, spec.recv_wr, spec.send_sge, spec.recv_sge, spec.inline_bytes};
	init.qp_type = IBV_QPT_RC;
	init.sq_sig_all = spec.signal_all;
	errno = 0;
	if (!spec.ex_ops) {
		qp.reset(ibv_create_qp(pd, &init));
		if (qp && granted)
			*granted = init.cap;
		return qp;
	}
	qp = try_qp_ex(pd, scq, rcq, spec, init.cap);
	if (qp && granted) {
		must(ibv_query_qp(qp.get(), &attr, IBV_QP_CAP, &init), "ibv_query_qp");
		*granted = init.cap;
	}
	return qp;
}

Qp make_qp(ibv_pd *pd, ibv_cq *scq, ibv_cq *rcq, const QpSpec &spec, ibv_qp_cap *granted)
{
	Qp qp = try_qp(pd, scq, rcq, spec, granted);

	if (!qp && spec.ex_ops && (errno == EOPNOTSUPP || errno == ENOSYS))
		skip("no ibv_wr_* API");
	require(qp != nullptr, "creating a QP (", spec.send_wr, " sends, ", spec.recv_wr, " receives, ", spec.send_sge, "/",
		spec.recv_sge, " SGEs, ", spec.inline_bytes, " inline): ", errno_name(errno));
	return qp;
}

uint8_t usable_rd_atomic(const Device &self, const Device &peer, const Rc &rc)
{
	int limit = std::min({self.attr.max_qp_init_rd_atom, self.attr.max_qp_rd_atom, peer.attr.max_qp_rd_atom,
			      peer.attr.max_qp_init_rd_atom, 255});

	return static_cast<uint8_t>(std::min<int>(rc.rd_atomic, limit));
}

Attributes init_attributes(const Device &self, const Rc &rc)
{
	Attributes result;

	result.attr.qp_state = IBV_QPS_INIT;
	result.attr.port_num = self.port_num;
	result.attr.qp_access_flags = rc.access;
	result.mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	return result;
}

Attributes rtr_attributes(const Device &self, const Device &peer, uint32_t peer_qpn, uint32_t rq_psn, const Rc &rc)
{
	Attributes result;
	ibv_qp_attr &attr = result.attr;

	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = rc.mtu.value_or(std::min(self.port.active_mtu, peer.port.active_mtu));
	attr.dest_qp_num = peer_qpn;
	attr.rq_psn = rq_psn;
	attr.max_dest_rd_atomic = usable_rd_atomic(self, peer, rc);
	attr.min_rnr_timer = rc.min_rnr;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.grh.dgid = peer.gid;
	attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(self.gid_index);
	attr.ah_attr.grh.hop_limit = 64;
	attr.ah_attr.port_num = self.port_num;
	result.mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return result;
}

Attributes rts_attributes(const Device &self, const Device &peer, uint32_t sq_psn, const Rc &rc)
{
	Attributes result;

	result.attr.qp_state = IBV_QPS_RTS;
	result.attr.timeout = rc.timeout;
	result.attr.retry_cnt = rc.retry;
	result.attr.rnr_retry = rc.rnr;
	result.attr.sq_psn = sq_psn;
	result.attr.max_rd_atomic = usable_rd_atomic(self, peer, rc);
	result.mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		      IBV_QP_MAX_QP_RD_ATOMIC;
	return result;
}

int modify(ibv_qp *qp, Attributes attributes)
{
	int returned = ibv_modify_qp(qp, &attributes.attr, attributes.mask);

	return returned ? error_of(returned) : 0;
}

int modify_state(ibv_qp *qp, ibv_qp_state state)
{
	Attributes attributes;

	attributes.attr.qp_state = state;
	attributes.mask = IBV_QP_STATE;
	return modify(qp, attributes);
}

ibv_qp_state state_of(ibv_qp *qp)
{
	ibv_qp_attr attr{};
	ibv_qp_init_attr init{};

	must(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
	return attr.qp_state;
}

void connect_half(ibv_qp *self, const Device &self_dev, const Device &peer_dev, uint32_t peer_qpn, bool is_a, const Rc &rc)
{
	uint32_t out = is_a ? rc.psn_ab : rc.psn_ba;
	uint32_t in = is_a ? rc.psn_ba : rc.psn_ab;

	must(modify(self, init_attributes(self_dev, rc)), "QP to INIT");
	must(modify(self, rtr_attributes(self_dev, peer_dev, peer_qpn, in, rc)), "QP to RTR");
	must(modify(self, rts_attributes(self_dev, peer_dev, out, rc)), "QP to RTS");
}

void connect(ibv_qp *a, const Device &a_dev, ibv_qp *b, const Device &b_dev, const Rc &rc)
{
	// Both in RTR before either sends, as programs do.
	must(modify(a, init_attributes(a_dev, rc)), "QP A to INIT");
	must(modify(b, init_attributes(b_dev, rc)), "QP B to INIT");
	must(modify(a, rtr_attributes(a_dev, b_dev, b->qp_num, rc.psn_ba, rc)), "QP A to RTR");
	must(modify(b, rtr_attributes(b_dev, a_dev, a->qp_num, rc.psn_ab, rc)), "QP B to RTR");
	must(modify(a, rts_attributes(a_dev, b_dev, rc.psn_ab, rc)), "QP A to RTS");
	must(modify(b, rts_attributes(b_dev, a_dev, rc.psn_ba, rc)), "QP B to RTS");
}

End::End(Device &device, const QpSpec &spec, int cq_entries, bool with_channel)
	: dev(device), pd(make_pd(device.ctx())), channel(with_channel ? make_channel(device.ctx()) : nullptr),
	  scq(make_cq(device.ctx(), cq_entries, channel.get())), rcq(make_cq(device.ctx(), cq_entries, channel.get())),
	  qp(make_qp(pd.get(), scq.get(), rcq.get(), spec, &cap))
{
}

Pair::Pair(Env &env, const PairSpec &wanted)
	: spec(wanted), a(env.a(), spec.qp, cq_entries_for(spec), spec.with_channel),
	  b(env.b(), spec.qp, cq_entries_for(spec), spec.with_channel)
{
	if (spec.connected)
		connect(a.qp.get(), a.dev, b.qp.get(), b.dev, spec.rc);
}

void Pair::reconnect()
{
	// Far from the old ones, so that a late packet cannot be taken for a new one.
	spec.rc.psn_ab = (spec.rc.psn_ab + 0x313131) & 0xffffff;
	spec.rc.psn_ba = (spec.rc.psn_ba + 0x535353) & 0xffffff;
	reconnect_same_psn();
}

void Pair::reconnect_same_psn()
{
	must(modify_state(a.qp.get(), IBV_QPS_RESET), "QP A to RESET");
	must(modify_state(b.qp.get(), IBV_QPS_RESET), "QP B to RESET");
	for (ibv_cq *cq : {a.scq.get(), a.rcq.get(), b.scq.get(), b.rcq.get()})
		drain(cq);
	connect(a.qp.get(), a.dev, b.qp.get(), b.dev, spec.rc);
}

void drain(ibv_cq *cq)
{
	ibv_wc wc[16];
	int n;

	while ((n = ibv_poll_cq(cq, 16, wc)) > 0)
		;
	require(n == 0, "ibv_poll_cq: ", errno_name(error_of(n)));
}

} // namespace mv
