// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The state machine of an RC queue pair: what modify takes, what it refuses, and what query gives back.
#include "work.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mv {

namespace {

// A QP whose peer is a second one, walked by hand through the states.
class Walker {
public:
	explicit Walker(Env &env) : pair(env, PairSpec{.connected = false}), qp(pair.a.qp.get())
	{
		bring(pair.b.qp.get(), pair.b.dev, pair.a.dev, pair.a.qp->qp_num, IBV_QPS_RTS);
	}

	[[nodiscard]] Attributes to(ibv_qp_state state) const
	{
		switch (state) {
		case IBV_QPS_INIT:
			return init_attributes(pair.a.dev, rc);
		case IBV_QPS_RTR:
			return rtr_attributes(pair.a.dev, pair.b.dev, pair.b.qp->qp_num, rc.psn_ba, rc);
		case IBV_QPS_RTS:
			return rts_attributes(pair.a.dev, pair.b.dev, rc.psn_ab, rc);
		default: {
			Attributes only;

			only.attr.qp_state = state;
			only.mask = IBV_QP_STATE;
			return only;
		}
		}
	}

	void go(ibv_qp_state target)
	{
		must(modify_state(qp, IBV_QPS_RESET), "to RESET");
		if (target == IBV_QPS_ERR) {
			bring(qp, pair.a.dev, pair.b.dev, pair.b.qp->qp_num, IBV_QPS_INIT);
			must(modify_state(qp, IBV_QPS_ERR), "INIT to ERR");
		} else if (target == IBV_QPS_SQD) {
			bring(qp, pair.a.dev, pair.b.dev, pair.b.qp->qp_num, IBV_QPS_RTS);
			must(modify_state(qp, IBV_QPS_SQD), "RTS to SQD");
		} else if (target != IBV_QPS_RESET) {
			bring(qp, pair.a.dev, pair.b.dev, pair.b.qp->qp_num, target);
		}
		require_eq(static_cast<int>(state_of(qp)), static_cast<int>(target), "state after modify");
	}

	// Refused with EINVAL (or another value, when the core is first to look), and the state is what it was.
	void refused(const Attributes &attributes, std::string_view what, int or_error = EINVAL)
	{
		ibv_qp_state before = state_of(qp);
		int error = modify(qp, attributes);

		require(error == EINVAL || (error && error == or_error), what, ": ", error ? errno_name(error) : "accepted", ", expected EINVAL");
		require_eq(static_cast<int>(state_of(qp)), static_cast<int>(before), what, ": state after the refusal");
	}

	Pair pair;
	ibv_qp *qp;
	Rc rc;

private:
	void bring(ibv_qp *which, Device &self, Device &peer, uint32_t peer_qpn, ibv_qp_state target)
	{
		bool is_a = which == pair.a.qp.get();

		must(modify(which, init_attributes(self, rc)), "to INIT");
		if (target == IBV_QPS_INIT)
			return;
		must(modify(which, rtr_attributes(self, peer, peer_qpn, is_a ? rc.psn_ba : rc.psn_ab, rc)), "to RTR");
		if (target == IBV_QPS_RTR)
			return;
		must(modify(which, rts_attributes(self, peer, is_a ? rc.psn_ab : rc.psn_ba, rc)), "to RTS");
	}
};

const char *name(ibv_qp_state state)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

	return names[state];
}

void legal_transitions(Env &env)
{
	Walker walk(env);

	for (auto state : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
		walk.go(state);
	for (auto from : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_ERR}) {
		for (auto to : {IBV_QPS_RESET, IBV_QPS_ERR}) {
			walk.go(from);
			must(modify_state(walk.qp, to), cat(name(from), " to ", name(to)));
			require_eq(static_cast<int>(state_of(walk.qp)), static_cast<int>(to), name(from), " to ", name(to));
		}
	}
	walk.go(IBV_QPS_RESET);
	must(modify_state(walk.qp, IBV_QPS_RESET), "RESET to RESET");
	// INIT to INIT changes attributes, and takes none of them too.
	walk.go(IBV_QPS_INIT);
	must(modify(walk.qp, walk.to(IBV_QPS_INIT)), "INIT to INIT with attributes");
	must(modify_state(walk.qp, IBV_QPS_INIT), "INIT to INIT");
	// RTS to RTS may change the rights of the peer and the RNR timer.
	walk.go(IBV_QPS_RTS);
	Attributes change;

	change.attr.qp_state = IBV_QPS_RTS;
	change.attr.qp_access_flags = remote_read;
	change.attr.min_rnr_timer = 20;
	change.mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER;
	must(modify(walk.qp, change), "RTS to RTS");
	change.mask = IBV_QP_ACCESS_FLAGS;
	must(modify(walk.qp, change), "modify without a state");
}

void send_queue_drain(Env &env)
{
	Walker walk(env);

	walk.go(IBV_QPS_RTS);
	int error = modify_state(walk.qp, IBV_QPS_SQD);

	if (error == EOPNOTSUPP || error == ENOSYS || error == EINVAL)
		skip("no SQD: ", errno_name(error));
	must(error, "RTS to SQD");
	must(modify_state(walk.qp, IBV_QPS_RTS), "SQD to RTS");
	require_alive(env, walk.pair);
	for (auto to : {IBV_QPS_ERR, IBV_QPS_RESET}) {
		walk.go(IBV_QPS_SQD);
		must(modify_state(walk.qp, to), cat("SQD to ", name(to)));
	}
}

void illegal_transitions(Env &env)
{
	Walker walk(env);
	const std::pair<ibv_qp_state, ibv_qp_state> pairs[] = {
		{IBV_QPS_RESET, IBV_QPS_RTR}, {IBV_QPS_RESET, IBV_QPS_RTS}, {IBV_QPS_RESET, IBV_QPS_SQD}, {IBV_QPS_RESET, IBV_QPS_SQE},
		{IBV_QPS_INIT, IBV_QPS_RTS},  {IBV_QPS_INIT, IBV_QPS_SQD},  {IBV_QPS_RTR, IBV_QPS_INIT},  {IBV_QPS_RTR, IBV_QPS_RTR},
		{IBV_QPS_RTR, IBV_QPS_SQD},   {IBV_QPS_RTS, IBV_QPS_INIT},  {IBV_QPS_RTS, IBV_QPS_RTR},   {IBV_QPS_ERR, IBV_QPS_INIT},
		{IBV_QPS_ERR, IBV_QPS_RTR},   {IBV_QPS_ERR, IBV_QPS_RTS},   {IBV_QPS_ERR, IBV_QPS_SQD},   {IBV_QPS_RTS, IBV_QPS_SQE},
	};

	for (auto [from, to] : pairs) {
		walk.go(from);
		walk.refused(walk.to(to), cat(name(from), " to ", name(to)));
	}
	walk.go(IBV_QPS_RTS);
	walk.refused(walk.to(static_cast<ibv_qp_state>(9)), "RTS to a state that does not exist");
	walk.go(IBV_QPS_RTS);
	require_alive(env, walk.pair);
}

// Leaves out each required attribute in turn; `from` stays as it was, and the complete set still works after it.
void missing_one_by_one(Walker &walk, ibv_qp_state from, ibv_qp_state to)
{
	walk.go(from);
	Attributes full = walk.to(to);

	for (int bit = 1; bit && bit <= full.mask; bit <<= 1) {
		if (!(full.mask & bit) || bit == IBV_QP_STATE)
			continue;
		Attributes less = full;

		less.mask &= ~bit;
		walk.refused(less, cat(name(from), " to ", name(to), " without attribute ", bit));
	}
	must(modify(walk.qp, full), cat(name(from), " to ", name(to), " after refusals"));
}

void missing_attributes(Env &env)
{
	Walker walk(env);

	missing_one_by_one(walk, IBV_QPS_RESET, IBV_QPS_INIT);
	missing_one_by_one(walk, IBV_QPS_INIT, IBV_QPS_RTR);
	missing_one_by_one(walk, IBV_QPS_RTR, IBV_QPS_RTS);
}

void extra_one_by_one(Walker &walk, ibv_qp_state from, ibv_qp_state to, int foreign)
{
	walk.go(from);
	for (int bit = 1; bit && bit <= foreign; bit <<= 1) {
		if (!(foreign & bit))
			continue;
		Attributes more = walk.to(to);

		more.mask |= bit;
		more.attr.port_num = walk.pair.a.dev.port_num;
		walk.refused(more, cat(name(from), " to ", name(to), " with the foreign attribute ", bit));
	}
}

void extra_attributes(Env &env)
{
	Walker walk(env);

	extra_one_by_one(walk, IBV_QPS_RESET, IBV_QPS_INIT,
			 IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RQ_PSN | IBV_QP_SQ_PSN |
				 IBV_QP_DEST_QPN | IBV_QP_QKEY);
	extra_one_by_one(walk, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_QKEY);
	extra_one_by_one(walk, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_PATH_MTU);
	extra_one_by_one(walk, IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_SQ_PSN);
}

using Change = std::function<void(ibv_qp_attr &)>;

struct BadValue {
	const char *what;
	Change change;
	int or_error = EINVAL;
};

void each_refused(Walker &walk, ibv_qp_state from, ibv_qp_state to, const std::vector<BadValue> &values)
{
	walk.go(from);
	for (const BadValue &value : values) {
		Attributes bad = walk.to(to);

		value.change(bad.attr);
		walk.refused(bad, cat(name(from), " to ", name(to), " with ", value.what), value.or_error);
	}
	must(modify(walk.qp, walk.to(to)), cat(name(from), " to ", name(to), " after refusals"));
}

void bad_init_values(Env &env)
{
	Walker walk(env);
	uint16_t no_pkey = walk.pair.a.dev.port.pkey_tbl_len;

	each_refused(walk, IBV_QPS_RESET, IBV_QPS_INIT,
		     {{"port 0", [](auto &attr) { attr.port_num = 0; }},
		      {"port 200", [](auto &attr) { attr.port_num = 200; }},
		      {"a P_Key beyond the table", [=](auto &attr) { attr.pkey_index = no_pkey; }}});
}

void bad_rtr_values(Env &env)
{
	Walker walk(env);
	int gids = walk.pair.a.dev.port.gid_tbl_len;
	int most = walk.pair.a.dev.attr.max_qp_rd_atom;

	each_refused(walk, IBV_QPS_INIT, IBV_QPS_RTR,
		     {{"path MTU 0", [](auto &attr) { attr.path_mtu = static_cast<ibv_mtu>(0); }},
		      {"path MTU 6", [](auto &attr) { attr.path_mtu = static_cast<ibv_mtu>(6); }},
		      {"a GID index that is empty", [](auto &attr) { attr.ah_attr.grh.sgid_index = 254; }, ENODATA},
		      {"min_rnr_timer 32", [](auto &attr) { attr.min_rnr_timer = 32; }},
		      {"no GRH", [](auto &attr) { attr.ah_attr.is_global = 0; }},
		      {"an AH port that does not exist", [](auto &attr) { attr.ah_attr.port_num = 99; }}});
	if (gids < 255)
		each_refused(walk, IBV_QPS_INIT, IBV_QPS_RTR, {{"GID index just beyond the table", [=](auto &attr) {
			attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(gids);
		}}});
	if (most < 255)
		each_refused(walk, IBV_QPS_INIT, IBV_QPS_RTR, {{"max_dest_rd_atomic beyond the limit", [=](auto &attr) {
			attr.max_dest_rd_atomic = static_cast<uint8_t>(most + 1);
		}}});
}

void bad_rts_values(Env &env)
{
	Walker walk(env);
	int most = walk.pair.a.dev.attr.max_qp_init_rd_atom;

	each_refused(walk, IBV_QPS_RTR, IBV_QPS_RTS,
		     {{"timeout 32", [](auto &attr) { attr.timeout = 32; }},
		      {"retry_cnt 8", [](auto &attr) { attr.retry_cnt = 8; }},
		      {"rnr_retry 8", [](auto &attr) { attr.rnr_retry = 8; }}});
	if (most < 255)
		each_refused(walk, IBV_QPS_RTR, IBV_QPS_RTS, {{"max_rd_atomic beyond the limit", [=](auto &attr) {
			attr.max_rd_atomic = static_cast<uint8_t>(most + 1);
		}}});
}

void wrong_current_state(Env &env)
{
	Walker walk(env);

	walk.go(IBV_QPS_RTR);
	Attributes to_rts = walk.to(IBV_QPS_RTS);

	to_rts.mask |= IBV_QP_CUR_STATE;
	to_rts.attr.cur_qp_state = IBV_QPS_INIT;
	walk.refused(to_rts, "RTR to RTS, claiming to be in INIT");
	to_rts.attr.cur_qp_state = IBV_QPS_RTR;
	must(modify(walk.qp, to_rts), "RTR to RTS with the right current state");
}

// A path to nowhere must be an error soon, or end in one, never a hang or a crash.
void unreachable_peer(Env &env)
{
	Walker walk(env);

	walk.go(IBV_QPS_INIT);
	Attributes zero = walk.to(IBV_QPS_RTR);

	memset(&zero.attr.ah_attr.grh.dgid, 0, sizeof(ibv_gid));
	int error = modify(walk.qp, zero);

	note("modify to RTR with an all-zero GID: ", errno_name(error));
	walk.go(IBV_QPS_INIT);
	Attributes multicast = walk.to(IBV_QPS_RTR);

	memset(&multicast.attr.ah_attr.grh.dgid, 0xff, sizeof(ibv_gid));
	error = modify(walk.qp, multicast);
	note("modify to RTR with a multicast GID: ", errno_name(error));
	walk.go(IBV_QPS_RTS);
	require_alive(env, walk.pair);
}

void query_returns_what_was_set(Env &env)
{
	Walker walk(env);
	ibv_qp_attr got{};
	ibv_qp_init_attr init{};

	walk.rc.timeout = 17, walk.rc.retry = 5, walk.rc.rnr = 3, walk.rc.min_rnr = 21;
	walk.rc.psn_ab = 0x00fedc, walk.rc.psn_ba = 0xffff12, walk.rc.rd_atomic = 1, walk.rc.access = remote_write | remote_read;
	walk.go(IBV_QPS_RTS);
	must(ibv_query_qp(walk.qp, &got,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_CAP | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_RQ_PSN | IBV_QP_DEST_QPN | IBV_QP_ACCESS_FLAGS |
				  IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_PORT |
				  IBV_QP_PKEY_INDEX,
			  &init),
	     "ibv_query_qp");
	Attributes rtr = walk.to(IBV_QPS_RTR);

	require_eq(static_cast<int>(got.qp_state), static_cast<int>(IBV_QPS_RTS), "qp_state");
	require_eq(static_cast<int>(got.path_mtu), static_cast<int>(rtr.attr.path_mtu), "path_mtu");
	require_eq(got.timeout, 17, "timeout");
	require_eq(got.retry_cnt, 5, "retry_cnt");
	require_eq(got.rnr_retry, 3, "rnr_retry");
	require_eq(got.min_rnr_timer, 21, "min_rnr_timer");
	require_eq(got.sq_psn, 0x00fedcu, "sq_psn");
	require_eq(got.rq_psn, 0xffff12u, "rq_psn");
	require_eq(got.max_rd_atomic, 1, "max_rd_atomic");
	require_eq(got.max_dest_rd_atomic, 1, "max_dest_rd_atomic");
	require_eq(got.dest_qp_num, walk.pair.b.qp->qp_num, "dest_qp_num");
	require_eq(got.qp_access_flags & 0xe, remote_write | remote_read, "qp_access_flags");
	require_eq(got.port_num, walk.pair.a.dev.port_num, "port_num");
	require_eq(got.pkey_index, 0, "pkey_index");
	require_eq(got.ah_attr.is_global, 1, "is_global");
	require_eq(got.ah_attr.grh.sgid_index, walk.pair.a.dev.gid_index, "sgid_index");
	require(!memcmp(&got.ah_attr.grh.dgid, &walk.pair.b.dev.gid, sizeof(ibv_gid)), "dgid is not what was set");
	require(got.cap.max_send_wr >= 64 && got.cap.max_recv_wr >= 64 && got.cap.max_send_sge >= 2, "cap is not what was set");
	require(init.send_cq == walk.pair.a.scq.get() && init.recv_cq == walk.pair.a.rcq.get(), "CQs of the query are wrong");
	require_eq(static_cast<int>(init.qp_type), static_cast<int>(IBV_QPT_RC), "qp_type");
}

void reset_and_reuse(Env &env)
{
	Mover mover(env, {}, 10000);

	for (int i = 0; i < env.count(50, 4); i++) {
		mover.move(Op::write, {.length = 10000});
		mover.move(Op::send, {.length = 3001});
		if (i % 2)
			post_recv(mover.pair.b.qp.get(), 99, {mover.b_buf.sge(0, 100)}); // RESET forgets it
		mover.pair.reconnect();
	}
}

// The same with the same PSNs each time, which careful programs avoid, right after an error.
void reset_same_psn(Env &env)
{
	Mover mover(env, {}, 10000);
	Pair &pair = mover.pair;

	for (int i = 0; i < env.count(50, 4); i++) {
		mover.move(Op::write, {.length = 10000});
		if (i % 2) {
			post_send(pair.a.qp.get(), {Op::read, 1, {mover.a_buf.sge(0, 100)}, mover.b_buf.addr(), mover.b_buf.rkey() ^ 0x500});
			expect_wc(env, pair.a.scq.get(), IBV_WC_REM_ACCESS_ERR, 1, pair.a.qp.get(), "READ with a bad key");
		}
		pair.reconnect_same_psn();
	}
}

// PSNs at the end of their range.
void psn_wrap(Env &env)
{
	PairSpec spec;

	spec.rc.psn_ab = 0xffffff, spec.rc.psn_ba = 0xfffff0;
	Mover mover(env, spec, 65536);

	for (int i = 0; i < env.count(10, 3); i++)
		for (Op op : {Op::write, Op::send, Op::read})
			mover.move(op, {.length = 65536});
}

void post_too_early(Env &env)
{
	Pair pair(env, {.connected = false});
	Buffer buffer(pair.a.pd.get(), 4096);

	note("post_recv in RESET: ", errno_name(try_recv(pair.a.qp.get(), 1, {buffer.sge(0, 64)})));
	for (int state = 0; state < 2; state++) {
		// Verbs want an error at once; libraries that do not look must at least do nothing.
		int error = try_send(pair.a.qp.get(), {Op::send, 2, {buffer.sge(0, 64)}});

		note("post_send in ", name(state_of(pair.a.qp.get())), ": ", errno_name(error));
		require(error == 0 || error == EINVAL, "post_send before RTS: ", errno_name(error));
		must(modify(pair.a.qp.get(), init_attributes(pair.a.dev, pair.spec.rc)), "to INIT");
	}
	require_silence(pair.a.scq.get(), 0.1, "send before RTS");
	must(modify_state(pair.a.qp.get(), IBV_QPS_RESET), "to RESET");
	drain(pair.a.scq.get());
	connect(pair.a.qp.get(), pair.a.dev, pair.b.qp.get(), pair.b.dev);
	require_alive(env, pair);
}

// Receives posted in INIT are there when the peer's first message comes.
void receive_in_init(Env &env)
{
	Pair pair(env, {.connected = false});
	Buffer source(pair.a.pd.get(), 4096), target(pair.b.pd.get(), 4096);

	must(modify(pair.b.qp.get(), init_attributes(pair.b.dev, pair.spec.rc)), "to INIT");
	post_recv(pair.b.qp.get(), 7, {target.sge(0, 4096)});
	connect(pair.a.qp.get(), pair.a.dev, pair.b.qp.get(), pair.b.dev);
	pattern_fill(source.at(0), 4096, 5, 0);
	post_send(pair.a.qp.get(), {Op::send, 1, {source.sge(0, 4096)}});
	require_recv_wc(next_wc(env, pair.b.rcq.get(), "receive"), Op::send, 7, pair.b.qp.get(), 4096, 0);
	pattern_check(target.at(0), 4096, 5, 0, "receive posted in INIT");
}

void qp_numbers(Env &env)
{
	Pd pd = make_pd(env.a().ctx());
	Cq cq = make_cq(env.a().ctx(), 16);
	std::vector<Qp> qps;
	std::vector<uint32_t> numbers;
	uint32_t last;

	for (int i = 0; i < std::min(env.count(200, 32), env.a().attr.max_qp / 2); i++) {
		qps.push_back(make_qp(pd.get(), cq.get(), cq.get(), {.send_wr = 1, .recv_wr = 1}));
		numbers.push_back(qps.back()->qp_num);
		require(numbers.back() > 1 && numbers.back() < (1u << 24), "QP number ", numbers.back());
	}
	last = numbers.back();
	std::sort(numbers.begin(), numbers.end());
	require(std::adjacent_find(numbers.begin(), numbers.end()) == numbers.end(), "two live QPs with the same number");
	qps.clear();
	Qp next = make_qp(pd.get(), cq.get(), cq.get());

	require(next->qp_num != last, "the number of a destroyed QP was given out again at once");
}

} // namespace

void add_qp_cases(Registry &cases)
{
	cases.push_back({"qp_legal_transitions", legal_transitions});
	cases.push_back({"qp_send_queue_drain", send_queue_drain});
	cases.push_back({"qp_illegal_transitions", illegal_transitions});
	cases.push_back({"qp_missing_attributes", missing_attributes});
	cases.push_back({"qp_extra_attributes", extra_attributes});
	cases.push_back({"qp_bad_init_values", bad_init_values});
	cases.push_back({"qp_bad_rtr_values", bad_rtr_values});
	cases.push_back({"qp_bad_rts_values", bad_rts_values});
	cases.push_back({"qp_wrong_current_state", wrong_current_state});
	cases.push_back({"A07_qp_unreachable_peer", unreachable_peer});
	cases.push_back({"qp_query", query_returns_what_was_set});
	cases.push_back({"qp_reset_and_reuse", reset_and_reuse});
	cases.push_back({"qp_reset_same_psn", reset_same_psn});
	cases.push_back({"qp_psn_wrap", psn_wrap});
	cases.push_back({"qp_post_too_early", post_too_early});
	cases.push_back({"qp_receive_in_init", receive_in_init});
	cases.push_back({"qp_numbers", qp_numbers});
}

} // namespace mv
