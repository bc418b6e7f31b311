// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Programs that poll memory: the flag written behind the data, and the last byte of the data itself.
#include "work.h"

#include <atomic>

namespace mv {

namespace {

// Spins until the 8-byte word at `where` is `value`.
void await_word(Env &env, const uint64_t *where, uint64_t value, std::string_view what)
{
	std::atomic_ref<const uint64_t> word(*where);
	Waiter waiter(env.patience());

	while (word.load(std::memory_order_acquire) != value)
		require(waiter.pause(), what, ": the flag never came");
}

struct Bench {
	Bench(Env &env, size_t length)
		: pair(env, {.qp = {.send_wr = 128, .recv_wr = 128}}), source(pair.a.pd.get(), length + 4096), target(pair.b.pd.get(), length + 4096)
	{
	}

	Pair pair;
	Buffer source, target;
};

// WRITE of the data, WRITE of a flag: whoever sees the flag sees all of the data.
void data_then_flag(Env &env, size_t length)
{
	length = std::min(length, env.size_limit());
	Bench bench(env, length);
	size_t flag = (length + 15) / 8 * 8;
	ibv_qp *qp = bench.pair.a.qp.get();

	for (int round = 1; round <= env.count(length > 100000 ? 100 : 1000, 20); round++) {
		uint64_t seed = env.random(), mark = static_cast<uint64_t>(round);

		pattern_fill(bench.source.at(0), length, seed, 0);
		*bench.source.word(flag) = mark;
		post_send(qp, {Op::write, mark, {bench.source.sge(0, length)}, bench.target.addr(), bench.target.rkey(), 0, 0, 0, 0});
		post_send(qp, {Op::write, mark, {bench.source.sge(flag, 8)}, bench.target.addr(flag), bench.target.rkey()});
		await_word(env, bench.target.word(flag), mark, "WRITE then flag");
		pattern_check(bench.target.at(0), length, seed, 0, cat("data behind flag ", round));
		expect_wc(env, bench.pair.a.scq.get(), IBV_WC_SUCCESS, mark, qp, "flag");
	}
}

// Many small WRITEs, then the flag: all of them are there.
void many_then_flag(Env &env)
{
	constexpr size_t n = 100, each = 3000;
	Bench bench(env, n * each);
	size_t flag = n * each;
	ibv_qp *qp = bench.pair.a.qp.get();

	for (int round = 1; round <= env.count(200, 10); round++) {
		uint64_t seed = env.random(), mark = static_cast<uint64_t>(round);

		pattern_fill(bench.source.at(0), n * each, seed, 0);
		*bench.source.word(flag) = mark;
		for (size_t i = 0; i < n; i++)
			post_send(qp, {Op::write, mark, {bench.source.sge(i * each, each)}, bench.target.addr(i * each), bench.target.rkey(), 0, 0, 0, 0});
		post_send(qp, {Op::write, mark, {bench.source.sge(flag, 8)}, bench.target.addr(flag), bench.target.rkey()});
		await_word(env, bench.target.word(flag), mark, "WRITEs then flag");
		pattern_check(bench.target.at(0), n * each, seed, 0, cat("data behind flag ", round));
		expect_wc(env, bench.pair.a.scq.get(), IBV_WC_SUCCESS, mark, qp, "flag");
	}
}

// Data by WRITE, news of it by SEND, by WRITE_WITH_IMM, or as an atomic.
void data_then_message(Env &env, Op news)
{
	size_t length = std::min<size_t>(200001, env.size_limit());
	Bench bench(env, length);
	size_t spare = (length + 15) / 8 * 8;
	ibv_qp *qp = bench.pair.a.qp.get();

	for (uint64_t round = 1; round <= static_cast<uint64_t>(env.count(200, 10)); round++) {
		uint64_t seed = env.random();

		pattern_fill(bench.source.at(0), length, seed, 0);
		post_recv(bench.pair.b.qp.get(), round, {bench.target.sge(spare, 8)});
		post_send(qp, {Op::write, round, {bench.source.sge(0, length)}, bench.target.addr(), bench.target.rkey(), 0, 0, 0, 0});
		post_send(qp, {news, round, {bench.source.sge(spare, 8)}, bench.target.addr(spare), bench.target.rkey(), 5});
		require_recv_wc(next_wc(env, bench.pair.b.rcq.get(), "news"), news, round, bench.pair.b.qp.get(), 8, 5);
		pattern_check(bench.target.at(0), length, seed, 0, cat("data before its ", name_of(news)));
		expect_wc(env, bench.pair.a.scq.get(), IBV_WC_SUCCESS, round, qp, "news");
	}
}

// The last byte of a message appears: so has all of it. Latency tests and many libraries rely on it.
void last_byte(Env &env)
{
	for (size_t length : {1, 2, 64, 1408, 4096, 4097, 16384, 65536}) {
		if (length > env.size_limit())
			continue;
		Bench bench(env, length);
		ibv_qp *qp = bench.pair.a.qp.get();
		auto *end = reinterpret_cast<unsigned char *>(bench.target.at(length - 1));
		std::atomic_ref<unsigned char> last(*end);

		for (int round = 0; round < env.count(200, 10); round++) {
			uint64_t seed = env.random();
			Waiter waiter(env.patience());

			pattern_fill(bench.source.at(0), length, seed, 0);
			auto coming = static_cast<unsigned char>(*bench.source.at(length - 1));

			last.store(static_cast<unsigned char>(~coming));
			post_send(qp, {Op::write, seed, {bench.source.sge(0, length)}, bench.target.addr(), bench.target.rkey()});
			while (last.load(std::memory_order_acquire) != coming)
				require(waiter.pause(), "the last byte never came");
			pattern_check(bench.target.at(0), length, seed, 0, cat("all of ", length, " bytes when the last is there"));
			expect_wc(env, bench.pair.a.scq.get(), IBV_WC_SUCCESS, seed, qp, "WRITE");
		}
	}
}

// WRITE to one word again and again: the reader sees its values only grow.
void counter_only_grows(Env &env)
{
	Bench bench(env, 4096);
	constexpr size_t depth = 64;
	uint64_t posted = 0, done = 0, total = static_cast<uint64_t>(env.count(5000, 200)), before = 0;
	std::atomic_ref<uint64_t> word(*bench.target.word(0));

	while (done < total) {
		while (posted < total && posted - done < depth) {
			*bench.source.word(posted % depth * 8) = posted + 1;
			post_send(bench.pair.a.qp.get(),
				  {Op::write, posted, {bench.source.sge(posted % depth * 8, 8)}, bench.target.addr(), bench.target.rkey()});
			posted++;
		}
		uint64_t now = word.load(std::memory_order_acquire);

		require(now >= before, "a counter written in order fell from ", before, " to ", now);
		before = now;
		expect_wc(env, bench.pair.a.scq.get(), IBV_WC_SUCCESS, done++, bench.pair.a.qp.get(), "WRITE");
		require(word.load(std::memory_order_acquire) >= done, "a WRITE completed before its value was there");
	}
	require_eq(*bench.target.word(0), total, "last value");
}

} // namespace

void add_order_cases(Registry &cases)
{
	cases.push_back({"order_data_then_flag_64", [](Env &env) { data_then_flag(env, 64); }});
	cases.push_back({"order_data_then_flag_20000", [](Env &env) { data_then_flag(env, 20000); }});
	cases.push_back({"order_data_then_flag_1M", [](Env &env) { data_then_flag(env, 1 << 20); }});
	cases.push_back({"order_many_then_flag", many_then_flag});
	cases.push_back({"order_data_then_SEND", [](Env &env) { data_then_message(env, Op::send); }});
	cases.push_back({"order_data_then_WRITE_WITH_IMM", [](Env &env) { data_then_message(env, Op::write_imm); }});
	cases.push_back({"order_last_byte", last_byte});
	cases.push_back({"order_counter_only_grows", counter_only_grows});
}

} // namespace mv
