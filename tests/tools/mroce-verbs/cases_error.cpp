// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Errors between the two ends: lengths, receives that do not fit, memory that goes away, peers that do not answer.
#include "work.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <thread>

namespace mv {

namespace {

struct Bench {
	explicit Bench(Env &env, const PairSpec &spec = {}, size_t size = 65536)
		: pair(env, spec), source(pair.a.pd.get(), size), target(pair.b.pd.get(), size)
	{
	}

	Pair pair;
	Buffer source, target;
};

void receive_too_small(Env &env, Op op)
{
	Bench bench(env);

	for (auto [message, room] : {std::pair<size_t, size_t>{1, 0}, {2, 1}, {1025, 1024}, {9000, 8999}, {20000, 100}}) {
		bench.target.paint_all();
		post_recv(bench.pair.b.qp.get(), 2, {bench.target.sge(4096, room)});
		post_recv(bench.pair.b.qp.get(), 3, {bench.target.sge(40000, 100)});
		post_send(bench.pair.a.qp.get(), {op, 1, {bench.source.sge(0, message)}});
		expect_wc(env, bench.pair.b.rcq.get(), IBV_WC_LOC_LEN_ERR, 2, bench.pair.b.qp.get(), cat(message, " bytes into ", room));
		expect_wc(env, bench.pair.a.scq.get(), IBV_WC_REM_INV_REQ_ERR, 1, bench.pair.a.qp.get(), cat(message, " bytes into ", room));
		// The receiver is in error as well: the next receive is flushed.
		expect_wc(env, bench.pair.b.rcq.get(), IBV_WC_WR_FLUSH_ERR, 3, bench.pair.b.qp.get(), "next receive");
		ibv_sge used = bench.target.sge(4096, room);

		bench.target.check_around({&used, 1}, "receive that was too small");
		bench.pair.reconnect();
	}
	require_alive(env, bench.pair);
}

void receive_bad_lkey(Env &env)
{
	Bench bench(env);

	for (int kind = 0; kind < 3; kind++) {
		ibv_sge bad = bench.target.sge(0, 4096);

		if (kind == 0)
			bad.lkey ^= 0x5500;
		else if (kind == 1)
			bad.addr = bench.target.addr(bench.target.size() - 4095);
		else
			bad.addr -= 1;
		bench.target.paint_all();
		post_recv(bench.pair.b.qp.get(), 2, {bad});
		post_send(bench.pair.a.qp.get(), {Op::send, 1, {bench.source.sge(0, 4096)}});
		expect_wc(env, bench.pair.b.rcq.get(), IBV_WC_LOC_PROT_ERR, 2, bench.pair.b.qp.get(), "receive that is not allowed");
		expect_wc(env, bench.pair.a.scq.get(), IBV_WC_REM_OP_ERR, 1, bench.pair.a.qp.get(), "SEND to such a receive");
		bench.target.check_all_painted("after a receive that is not allowed");
		bench.pair.reconnect();
	}
	// An MR without the right to write locally.
	Mr read_only = make_mr(bench.pair.b.pd.get(), bench.target.at(0), 4096, 0);

	post_recv(bench.pair.b.qp.get(), 2, {{bench.target.addr(), 4096, read_only->lkey}});
	post_send(bench.pair.a.qp.get(), {Op::send, 1, {bench.source.sge(0, 4096)}});
	expect_wc(env, bench.pair.b.rcq.get(), IBV_WC_LOC_PROT_ERR, 2, bench.pair.b.qp.get(), "receive into a read-only MR");
	expect_wc(env, bench.pair.a.scq.get(), IBV_WC_REM_OP_ERR, 1, bench.pair.a.qp.get(), "SEND to a receive into a read-only MR");
	bench.pair.reconnect();
	require_alive(env, bench.pair);
}

// The owner takes the memory away while it is being read: soon over, with an error or with right bytes.
void dereg_during(Env &env, Op op)
{
	size_t size = std::min<size_t>(size_t(64) << 20, env.size_limit() * 8);

	for (int round = 0; round < env.count(10, 3); round++) {
		Bench bench(env, {}, size);
		uint64_t seed = env.random();
		Buffer &from = op == Op::read ? bench.target : bench.source, &to = op == Op::read ? bench.source : bench.target;

		pattern_fill(from.at(0), size, seed, 0);
		post_send(bench.pair.a.qp.get(), {op, 1, {bench.source.sge(0, size)}, bench.target.addr(), bench.target.rkey()});
		sleep_seconds(0.001 * static_cast<double>(env.random(20)));
		auto start = Clock::now();

		bench.target.mr().reset();
		require(seconds_since(start) < env.patience(5), "deregistration took ", seconds_since(start), " s");
		if (op == Op::write) // nothing may be written once deregistration has returned
			pattern_fill(to.at(0), size, seed + 1, 0);
		ibv_wc wc = next_wc(env, bench.pair.a.scq.get(), "request on an MR that went away");

		require(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_REM_ACCESS_ERR, "request on an MR that went away: ",
			ibv_wc_status_str(wc.status));
		if (op == Op::write)
			pattern_check(to.at(0), size, seed + 1, 0, "memory after deregistration");
		else if (wc.status == IBV_WC_SUCCESS)
			pattern_check(to.at(0), size, seed, 0, "READ that still succeeded");
	}
}

// The requester's own memory goes away.
void dereg_local_during(Env &env)
{
	size_t size = std::min<size_t>(size_t(32) << 20, env.size_limit() * 4);

	for (int round = 0; round < env.count(10, 3); round++) {
		for (Op op : {Op::read, Op::write}) {
			Bench bench(env, {}, size);

			post_send(bench.pair.a.qp.get(), {op, 1, {bench.source.sge(0, size)}, bench.target.addr(), bench.target.rkey()});
			sleep_seconds(0.001 * static_cast<double>(env.random(20)));
			bench.source.mr().reset();
			if (op == Op::read)
				bench.source.paint_all();
			ibv_wc wc = next_wc(env, bench.pair.a.scq.get(), "request whose own MR went away");

			require(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_LOC_PROT_ERR, "request whose own MR went away: ",
				ibv_wc_status_str(wc.status));
			if (op == Op::read)
				bench.source.check_all_painted("memory after deregistration");
		}
	}
}

// 4.096 us * 2^timeout per try; verbs allow up to four times that.
double expected_seconds(uint8_t timeout, uint8_t retry)
{
	return 4.096e-6 * static_cast<double>(1u << timeout) * (retry + 1);
}

void require_retry_exceeded(Env &env, Bench &bench, const Rc &rc, std::string_view what)
{
	auto start = Clock::now();
	double expected = expected_seconds(rc.timeout, rc.retry);

	post_send(bench.pair.a.qp.get(), {Op::write, 1, {bench.source.sge(0, 100)}, bench.target.addr(), bench.target.rkey()});
	post_send(bench.pair.a.qp.get(), {Op::write, 2, {bench.source.sge(0, 100)}, bench.target.addr(), bench.target.rkey()});
	expect_wc(env, bench.pair.a.scq.get(), IBV_WC_RETRY_EXC_ERR, 1, bench.pair.a.qp.get(), what);
	double took = seconds_since(start);

	note(what, ": RETRY_EXC_ERR after ", took, " s, nominal ", expected, " s");
	require(took > expected * 0.2, what, ": gave up after ", took, " s, nominal ", expected, " s");
	require(took < expected * 10 * env.opt.slow + 2, what, ": gave up only after ", took, " s, nominal ", expected, " s");
	expect_wc(env, bench.pair.a.scq.get(), IBV_WC_WR_FLUSH_ERR, 2, bench.pair.a.qp.get(), cat(what, ", the next request"));
	require_eq(static_cast<int>(state_of(bench.pair.a.qp.get())), static_cast<int>(IBV_QPS_ERR), what, ": state");
}

void peer_gone(Env &env)
{
	PairSpec spec{.rc = {.timeout = 14, .retry = 3}};
	Bench bench(env, spec);

	require_alive(env, bench.pair);
	bench.pair.b.qp.reset();
	require_retry_exceeded(env, bench, spec.rc, "peer QP destroyed");
}

void peer_never_ready(Env &env)
{
	PairSpec spec{.rc = {.timeout = 14, .retry = 2}};

	spec.connected = false;
	Bench bench(env, spec);

	connect_half(bench.pair.a.qp.get(), bench.pair.a.dev, bench.pair.b.dev, bench.pair.b.qp->qp_num, true, spec.rc);
	require_retry_exceeded(env, bench, spec.rc, "peer QP still in RESET");
}

// The other machine does not exist: the handshake itself is never answered.
void peer_unreachable(Env &env)
{
	PairSpec spec{.rc = {.timeout = 14, .retry = 2}};

	spec.connected = false;
	Bench bench(env, spec);
	End &a = bench.pair.a;
	Attributes rtr = rtr_attributes(a.dev, bench.pair.b.dev, bench.pair.b.qp->qp_num, spec.rc.psn_ba, spec.rc);

	rtr.attr.ah_attr.grh.dgid.raw[15] ^= 0x40;
	must(modify(a.qp.get(), init_attributes(a.dev, spec.rc)), "to INIT");
	int refused = modify(a.qp.get(), rtr);

	if (refused == ETIMEDOUT)
		skip("no neighbour entry for the peer's address with its last byte ^ 0x40");
	must(refused, "to RTR, an address without a host");
	must(modify(a.qp.get(), rts_attributes(a.dev, bench.pair.b.dev, spec.rc.psn_ab, spec.rc)), "to RTS");
	require_retry_exceeded(env, bench, spec.rc, "no host has the address");
}

void peer_in_error(Env &env)
{
	PairSpec spec{.rc = {.timeout = 14, .retry = 2}};
	Bench bench(env, spec);

	require_alive(env, bench.pair);
	must(modify_state(bench.pair.b.qp.get(), IBV_QPS_ERR), "to ERR");
	auto start = Clock::now();

	post_send(bench.pair.a.qp.get(), {Op::write, 1, {bench.source.sge(0, 100)}, bench.target.addr(), bench.target.rkey()});
	ibv_wc wc = next_wc(env, bench.pair.a.scq.get(), "WRITE to a QP in ERR");

	note("WRITE to a QP in ERR: ", ibv_wc_status_str(wc.status), " after ", seconds_since(start), " s");
	require(wc.status == IBV_WC_RETRY_EXC_ERR || wc.status == IBV_WC_REM_OP_ERR || wc.status == IBV_WC_REM_INV_REQ_ERR,
		"WRITE to a QP in ERR: ", ibv_wc_status_str(wc.status));
}

// The peer becomes ready while we already try: it must work out in the end.
void peer_ready_late(Env &env)
{
	PairSpec spec{.rc = {.timeout = 16, .retry = 7}};

	spec.connected = false;
	Bench bench(env, spec);
	uint64_t seed = env.random();

	connect_half(bench.pair.a.qp.get(), bench.pair.a.dev, bench.pair.b.dev, bench.pair.b.qp->qp_num, true, spec.rc);
	pattern_fill(bench.source.at(0), 50000, seed, 0);
	post_send(bench.pair.a.qp.get(), {Op::write, 1, {bench.source.sge(0, 50000)}, bench.target.addr(), bench.target.rkey()});
	sleep_seconds(0.3);
	connect_half(bench.pair.b.qp.get(), bench.pair.b.dev, bench.pair.a.dev, bench.pair.a.qp->qp_num, false, spec.rc);
	expect_wc(env, bench.pair.a.scq.get(), IBV_WC_SUCCESS, 1, bench.pair.a.qp.get(), "WRITE to a peer that was late");
	pattern_check(bench.target.at(0), 50000, seed, 0, "WRITE to a peer that was late");
}

// A QP that names us as its peer although we are connected to another gets nothing through.
void impostor(Env &env)
{
	Bench bench(env, {.rc = {.timeout = 12, .retry = 1}});
	Qp third = make_qp(bench.pair.a.pd.get(), bench.pair.a.scq.get(), bench.pair.a.rcq.get());
	Rc rc{.timeout = 12, .retry = 1};

	bench.target.paint_all();
	rc.psn_ab = 0x445566; // not the PSN that B waits for
	connect_half(third.get(), bench.pair.a.dev, bench.pair.b.dev, bench.pair.b.qp->qp_num, true, rc);
	post_send(third.get(), {Op::write, 9, {bench.source.sge(0, 5000)}, bench.target.addr(), bench.target.rkey()});
	ibv_wc wc = next_wc(env, bench.pair.a.scq.get(), "WRITE of an impostor");

	require(wc.wr_id == 9 && wc.status != IBV_WC_SUCCESS, "WRITE of an impostor: ", ibv_wc_status_str(wc.status));
	bench.target.check_all_painted("after a WRITE of an impostor");
	require_alive(env, bench.pair);
}

// Waits for one asynchronous event of a context; nothing if none came.
std::optional<ibv_async_event> next_event(ibv_context *ctx, double seconds)
{
	ibv_async_event event{};
	pollfd waiting{ctx->async_fd, POLLIN, 0};

	if (poll(&waiting, 1, static_cast<int>(seconds * 1000)) != 1)
		return std::nullopt;
	must(ibv_get_async_event(ctx, &event), "ibv_get_async_event");
	return event;
}

void event_communication_established(Env &env)
{
	Bench bench(env, {.connected = false});
	Rc rc;
	ibv_qp *a = bench.pair.a.qp.get(), *b = bench.pair.b.qp.get();

	must(modify(b, init_attributes(bench.pair.b.dev, rc)), "B to INIT");
	must(modify(b, rtr_attributes(bench.pair.b.dev, bench.pair.a.dev, a->qp_num, rc.psn_ab, rc)), "B to RTR");
	connect_half(a, bench.pair.a.dev, bench.pair.b.dev, b->qp_num, true, rc);
	post_recv(b, 2, {bench.target.sge(0, 100)});
	post_send(a, {Op::send, 1, {bench.source.sge(0, 100)}});
	// A QP in RTR receives.
	expect_wc(env, bench.pair.b.rcq.get(), IBV_WC_SUCCESS, 2, b, "receive in RTR");
	expect_wc(env, bench.pair.a.scq.get(), IBV_WC_SUCCESS, 1, a, "SEND to a QP in RTR");
	auto event = next_event(bench.pair.b.dev.ctx(), 1);

	if (!event)
		skip("received in RTR, but no COMM_EST event");
	bool right = event->event_type == IBV_EVENT_COMM_EST && event->element.qp == b;

	ibv_ack_async_event(&*event);
	require(right, "event ", ibv_event_type_str(event->event_type), ", expected COMM_EST");
}

void event_of_responder(Env &env)
{
	Bench bench(env);

	post_send(bench.pair.a.qp.get(), {Op::write, 1, {bench.source.sge(0, 100)}, bench.target.addr(), bench.target.rkey() ^ 0x700});
	expect_wc(env, bench.pair.a.scq.get(), IBV_WC_REM_ACCESS_ERR, 1, bench.pair.a.qp.get(), "WRITE with a bad key");
	auto event = next_event(bench.pair.b.dev.ctx(), 1);

	if (!event)
		skip("no event at the responder");
	bool right = event->event_type == IBV_EVENT_QP_ACCESS_ERR && event->element.qp == bench.pair.b.qp.get();

	ibv_ack_async_event(&*event);
	require(right, "event ", ibv_event_type_str(event->event_type), ", expected QP_ACCESS_ERR");
}

} // namespace

void add_error_cases(Registry &cases)
{
	cases.push_back({"A37_receive_too_small_SEND", [](Env &env) { receive_too_small(env, Op::send); }});
	cases.push_back({"A37_receive_too_small_SEND_WITH_IMM", [](Env &env) { receive_too_small(env, Op::send_imm); }});
	cases.push_back({"A37_receive_bad_lkey", receive_bad_lkey});
	cases.push_back({"C10_dereg_during_READ", [](Env &env) { dereg_during(env, Op::read); }});
	cases.push_back({"C10_dereg_during_WRITE", [](Env &env) { dereg_during(env, Op::write); }});
	cases.push_back({"C10_dereg_local_during", dereg_local_during});
	cases.push_back({"retry_peer_gone", peer_gone, true});
	cases.push_back({"retry_peer_never_ready", peer_never_ready, true});
	cases.push_back({"retry_peer_unreachable", peer_unreachable});
	cases.push_back({"retry_peer_in_error", peer_in_error});
	cases.push_back({"retry_peer_ready_late", peer_ready_late});
	cases.push_back({"impostor", impostor});
	cases.push_back({"event_COMM_EST", event_communication_established});
	cases.push_back({"event_QP_ACCESS_ERR", event_of_responder});
}

} // namespace mv
