// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Scatter and gather lists of every length, fences, and each opcode in its simplest and fullest form.
#include "work.h"

#include <algorithm>
#include <cerrno>

namespace mv {

namespace {

constexpr Op data_ops[] = {Op::write, Op::write_imm, Op::send, Op::send_imm, Op::read};

QpSpec widest(Env &env)
{
	uint32_t most = static_cast<uint32_t>(std::min(env.a().attr.max_sge, env.b().attr.max_sge));

	return {.send_wr = 16, .recv_wr = 16, .send_sge = most, .recv_sge = most};
}

void lists(Env &env, Op op, Api api)
{
	PairSpec spec{.qp = widest(env)};

	if (api != Api::classic)
		spec.qp.ex_ops = all_ex_ops;
	Mover mover(env, spec, 70000);
	unsigned most = mover.pair.a.cap.max_send_sge, most_recv = mover.pair.b.cap.max_recv_sge;

	if (spec.qp.send_sge < most)
		most = spec.qp.send_sge;
	most_recv = std::min(most_recv, spec.qp.recv_sge);
	for (unsigned pieces = 0; pieces <= most; pieces++) {
		unsigned there = pieces ? std::clamp(most - pieces + 1, 1u, most_recv) : 0;

		for (size_t length : {0, 1, 100, 4096, 8193, 66000}) {
			if ((pieces == 0) != (length == 0))
				continue;
			mover.move(op, {.length = length, .local_pieces = pieces, .remote_pieces = there, .api = api});
		}
	}
	mover.move(op, {.length = 0, .local_pieces = 1, .remote_pieces = 1, .api = api});
}

void too_many(Env &env)
{
	Pair pair(env, {.qp = {.send_sge = 2, .recv_sge = 2}});
	Buffer buffer(pair.a.pd.get(), 65536), sink(pair.b.pd.get(), 65536);
	SgeList list = buffer.split(0, 60000, pair.a.cap.max_send_sge + 1);

	must_fail(try_send(pair.a.qp.get(), {Op::write, 1, list, sink.addr(), sink.rkey()}), {EINVAL, ENOMEM}, "a send with too many SGEs");
	list = sink.split(0, 60000, pair.b.cap.max_recv_sge + 1);
	must_fail(try_recv(pair.b.qp.get(), 1, list), {EINVAL, ENOMEM}, "a receive with too many SGEs");
	require_alive(env, pair);
}

// A receive longer than the message keeps the rest of its memory as it was.
void receive_longer(Env &env)
{
	Pair pair(env);
	Buffer source(pair.a.pd.get(), 8192), target(pair.b.pd.get(), 16384);

	for (size_t length : {0, 1, 4095, 4096, 8000}) {
		uint64_t seed = env.random();

		target.paint_all();
		pattern_fill(source.at(0), length, seed, 0);
		post_recv(pair.b.qp.get(), 2, {target.sge(0, 16384)});
		post_send(pair.a.qp.get(), {Op::send, 1, {source.sge(0, length)}});
		require_recv_wc(next_wc(env, pair.b.rcq.get(), "receive"), Op::send, 2, pair.b.qp.get(), length, 0);
		require_send_wc(next_wc(env, pair.a.scq.get(), "send"), Op::send, 1, pair.a.qp.get(), length);
		pattern_check(target.at(0), length, seed, 0, "long receive");
		ibv_sge used = target.sge(0, length);

		target.check_around({&used, 1}, "long receive");
	}
}

// A receive that waits for WRITE_WITH_IMM is consumed but its memory is not touched.
void imm_leaves_receive_alone(Env &env)
{
	Pair pair(env);
	Buffer source(pair.a.pd.get(), 8192), target(pair.b.pd.get(), 8192), other(pair.b.pd.get(), 8192);

	other.paint_all();
	for (uint32_t imm : {0u, 1u, 0x12345678u, 0xffffffffu}) {
		pattern_fill(source.at(0), 8192, imm, 0);
		post_recv(pair.b.qp.get(), 2, {other.sge(0, 8192)});
		post_send(pair.a.qp.get(), {Op::write_imm, 1, {source.sge(0, 8192)}, target.addr(), target.rkey(), imm});
		require_recv_wc(next_wc(env, pair.b.rcq.get(), "receive"), Op::write_imm, 2, pair.b.qp.get(), 8192, imm);
		require_send_wc(next_wc(env, pair.a.scq.get(), "send"), Op::write_imm, 1, pair.a.qp.get(), 8192);
		pattern_check(target.at(0), 8192, imm, 0, "WRITE_WITH_IMM");
	}
	other.check_all_painted("receive memory of WRITE_WITH_IMM");
}

// READ into memory, then a fenced WRITE or SEND out of the same memory.
void fence(Env &env)
{
	constexpr size_t length = 20000;
	Pair pair(env);
	Buffer local(pair.a.pd.get(), length), remote(pair.b.pd.get(), 2 * length);

	for (int i = 0; i < env.count(200, 20); i++) {
		uint64_t seed = env.random();
		bool send = i % 2;
		Wr second{send ? Op::send : Op::write, 2, {local.sge(0, length)}, remote.addr(length), remote.rkey()};

		second.flags |= IBV_SEND_FENCE;
		pattern_fill(remote.at(0), length, seed, 0);
		if (send)
			post_recv(pair.b.qp.get(), 3, {remote.sge(length, length)});
		post_send(pair.a.qp.get(), {Op::read, 1, {local.sge(0, length)}, remote.addr(), remote.rkey()});
		post_send(pair.a.qp.get(), second);
		require_send_wc(next_wc(env, pair.a.scq.get(), "READ"), Op::read, 1, pair.a.qp.get(), length);
		require_send_wc(next_wc(env, pair.a.scq.get(), "fenced"), second.op, 2, pair.a.qp.get(), length);
		if (send)
			require_recv_wc(next_wc(env, pair.b.rcq.get(), "receive"), Op::send, 3, pair.b.qp.get(), length, 0);
		pattern_check(remote.at(length), length, seed, 0, "fenced request after a READ");
	}
}

// WRITE followed by READ of the same place on one QP: the READ sees what the WRITE wrote.
void read_after_write(Env &env)
{
	constexpr size_t length = 9000;
	Pair pair(env);
	Buffer source(pair.a.pd.get(), length), sink(pair.a.pd.get(), length), remote(pair.b.pd.get(), length);

	for (int i = 0; i < env.count(200, 20); i++) {
		uint64_t seed = env.random();

		pattern_fill(source.at(0), length, seed, 0);
		post_send(pair.a.qp.get(), {Op::write, 1, {source.sge(0, length)}, remote.addr(), remote.rkey()});
		post_send(pair.a.qp.get(), {Op::read, 2, {sink.sge(0, length)}, remote.addr(), remote.rkey()});
		require_send_wc(next_wc(env, pair.a.scq.get(), "WRITE"), Op::write, 1, pair.a.qp.get(), length);
		require_send_wc(next_wc(env, pair.a.scq.get(), "READ"), Op::read, 2, pair.a.qp.get(), length);
		pattern_check(sink.at(0), length, seed, 0, "READ after WRITE");
	}
}

// One end, both ends of one QP, and the same memory as source and target.
void to_itself(Env &env)
{
	Device &dev = env.a();
	Pd pd = make_pd(dev.ctx());
	Cq cq = make_cq(dev.ctx(), 64);
	Qp qp = make_qp(pd.get(), cq.get(), cq.get());
	Buffer buffer(pd.get(), 65536);
	Rc rc;

	rc.psn_ba = rc.psn_ab;
	connect_half(qp.get(), dev, dev, qp->qp_num, true, rc);
	pattern_fill(buffer.at(0), 20000, 9, 0);
	post_send(qp.get(), {Op::write, 1, {buffer.sge(0, 20000)}, buffer.addr(30000), buffer.rkey()});
	expect_wc(env, cq.get(), IBV_WC_SUCCESS, 1, qp.get(), "WRITE of a QP to itself");
	pattern_check(buffer.at(30000), 20000, 9, 0, "WRITE of a QP to itself");
}

} // namespace

void add_sge_cases(Registry &cases)
{
	for (Op op : data_ops)
		cases.push_back({cat("A24_lists_", name_of(op)), [op](Env &env) { lists(env, op, Api::classic); }});
	for (Op op : data_ops)
		cases.push_back({cat("A24_lists_ex_", name_of(op)), [op](Env &env) { lists(env, op, Api::ex_list); }});
	cases.push_back({"A33_too_many_sges", too_many});
	cases.push_back({"receive_longer_than_message", receive_longer});
	cases.push_back({"A24_imm_leaves_receive_alone", imm_leaves_receive_alone});
	cases.push_back({"fence", fence});
	cases.push_back({"read_after_write", read_after_write});
	cases.push_back({"A11_qp_to_itself", to_itself});
}

} // namespace mv
