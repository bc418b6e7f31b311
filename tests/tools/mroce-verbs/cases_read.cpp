// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Many READs at once, up to what was agreed and beyond it.
#include "work.h"

#include <algorithm>

namespace mv {

namespace {

// `n` READs of `length` bytes outstanding at once over a connection with `rd_atomic` agreed.
void outstanding(Env &env, uint8_t rd_atomic, int n, size_t length)
{
	PairSpec spec{.qp = {.send_wr = 256}};

	spec.rc.rd_atomic = rd_atomic;
	Pair pair(env, spec);
	Buffer sink(pair.a.pd.get(), static_cast<size_t>(n) * length), source(pair.b.pd.get(), static_cast<size_t>(n) * length);

	for (int round = 0; round < env.count(5, 1); round++) {
		uint64_t seed = env.random();

		pattern_fill(source.at(0), source.size(), seed, 0);
		for (size_t i = 0; i < static_cast<size_t>(n); i++)
			post_send(pair.a.qp.get(), {Op::read, i, {sink.sge(i * length, length)}, source.addr(i * length), source.rkey()});
		for (size_t i = 0; i < static_cast<size_t>(n); i++) {
			require_send_wc(next_wc(env, pair.a.scq.get(), cat("READ ", i, " of ", n)), Op::read, i, pair.a.qp.get(), length);
			pattern_check(sink.at(i * length), length, seed, i * length, cat("READ ", i, " of ", n));
		}
	}
}

void up_to_limit(Env &env)
{
	Rc rc{.rd_atomic = 255};
	int most = usable_rd_atomic(env.a(), env.b(), rc);

	for (int n : {1, 2, 3, 8, 16, most})
		if (n <= most)
			for (size_t length : {size_t(1), size_t(5000), std::min<size_t>(100000, env.size_limit())})
				outstanding(env, static_cast<uint8_t>(n), n, length);
}

void beyond_limit(Env &env)
{
	for (int agreed : {1, 2, 4})
		for (size_t length : {size_t(8), size_t(9001), std::min<size_t>(60000, env.size_limit())})
			outstanding(env, static_cast<uint8_t>(agreed), 50, length);
}

// Both ends read from each other at once.
void both_ways(Env &env)
{
	constexpr size_t length = 30000, n = 32;
	Pair pair(env);
	Buffer a_sink(pair.a.pd.get(), n * length), a_source(pair.a.pd.get(), n * length);
	Buffer b_sink(pair.b.pd.get(), n * length), b_source(pair.b.pd.get(), n * length);

	for (int round = 0; round < env.count(10, 1); round++) {
		uint64_t seed = env.random();

		pattern_fill(a_source.at(0), n * length, seed, 0);
		pattern_fill(b_source.at(0), n * length, seed + 1, 0);
		for (size_t i = 0; i < n; i++) {
			post_send(pair.a.qp.get(), {Op::read, i, {a_sink.sge(i * length, length)}, b_source.addr(i * length), b_source.rkey()});
			post_send(pair.b.qp.get(), {Op::read, i, {b_sink.sge(i * length, length)}, a_source.addr(i * length), a_source.rkey()});
		}
		for (size_t i = 0; i < n; i++) {
			require_send_wc(next_wc(env, pair.a.scq.get(), "READ by A"), Op::read, i, pair.a.qp.get(), length);
			require_send_wc(next_wc(env, pair.b.scq.get(), "READ by B"), Op::read, i, pair.b.qp.get(), length);
		}
		pattern_check(a_sink.at(0), n * length, seed + 1, 0, "READs by A");
		pattern_check(b_sink.at(0), n * length, seed, 0, "READs by B");
	}
}

// A SEND that waits for a receive must not hold up the answers to the peer's READs.
void not_blocked_by_rnr(Env &env)
{
	Pair pair(env, {.rc = {.min_rnr = 20}});
	Buffer a(pair.a.pd.get(), 65536), b(pair.b.pd.get(), 65536);

	pattern_fill(a.at(0), 50000, 31, 0);
	post_send(pair.a.qp.get(), {Op::send, 1, {a.sge(0, 64)}}); // B has no receive
	post_send(pair.b.qp.get(), {Op::read, 2, {b.sge(0, 50000)}, a.addr(), a.rkey()});
	require_send_wc(next_wc(env, pair.b.scq.get(), "READ while the other side is in RNR"), Op::read, 2, pair.b.qp.get(), 50000);
	pattern_check(b.at(0), 50000, 31, 0, "READ while the other side is in RNR");
	post_recv(pair.b.qp.get(), 3, {b.sge(60000, 64)});
	expect_wc(env, pair.a.scq.get(), IBV_WC_SUCCESS, 1, pair.a.qp.get(), "SEND after RNR");
	expect_wc(env, pair.b.rcq.get(), IBV_WC_SUCCESS, 3, pair.b.qp.get(), "receive after RNR");
}

// READs between WRITEs and SENDs complete in the order they were posted.
void in_order(Env &env)
{
	Pair pair(env, {.qp = {.send_wr = 128, .recv_wr = 128}});
	size_t large = std::min<size_t>(200000, env.size_limit());
	Buffer a(pair.a.pd.get(), large), b(pair.b.pd.get(), large);

	for (int round = 0; round < env.count(20, 2); round++) {
		std::vector<std::pair<Op, size_t>> plan;

		for (uint64_t i = 0; i < 100; i++) {
			Op op = std::vector{Op::read, Op::write, Op::send}[env.random(3)];
			size_t length = op == Op::send ? 8 : env.random(env.random(2) ? 64 : large);

			plan.emplace_back(op, length);
			if (op == Op::send)
				post_recv(pair.b.qp.get(), i, {b.sge(0, 8)});
			post_send(pair.a.qp.get(), {op, i, {a.sge(0, length)}, b.addr(), b.rkey()});
		}
		for (uint64_t i = 0; i < 100; i++)
			require_send_wc(next_wc(env, pair.a.scq.get(), "mixed"), plan[i].first, i, pair.a.qp.get(), plan[i].second);
		drain(pair.b.rcq.get());
	}
}

} // namespace

void add_read_cases(Registry &cases)
{
	cases.push_back({"A13_reads_up_to_limit", up_to_limit});
	cases.push_back({"A13_reads_beyond_limit", beyond_limit});
	cases.push_back({"A13_reads_both_ways", both_ways});
	cases.push_back({"read_not_blocked_by_rnr", not_blocked_by_rnr});
	cases.push_back({"read_completes_in_order", in_order});
}

} // namespace mv
