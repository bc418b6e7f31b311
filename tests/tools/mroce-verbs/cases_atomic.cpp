// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Atomics: results, exactly-once under contention, what is refused.
#include "work.h"

#include <algorithm>
#include <cerrno>

namespace mv {

namespace {

void need_atomics(Env &env)
{
	if (env.a().attr.atomic_cap == IBV_ATOMIC_NONE || env.b().attr.atomic_cap == IBV_ATOMIC_NONE)
		skip("no atomics");
}

Wr fetch_add(uint64_t id, const Buffer &result, size_t result_offset, const Buffer &target, size_t offset, uint64_t add)
{
	return {Op::fetch_add, id, {result.sge(result_offset, 8)}, target.addr(offset), target.rkey(), 0, add};
}

Wr cmp_swp(uint64_t id, const Buffer &result, const Buffer &target, size_t offset, uint64_t compare, uint64_t swap)
{
	return {Op::cmp_swp, id, {result.sge(0, 8)}, target.addr(offset), target.rkey(), 0, compare, swap};
}

void values(Env &env, Api api)
{
	need_atomics(env);
	Pair pair(env, {.qp = {.ex_ops = api == Api::classic ? 0 : all_ex_ops}});
	Buffer result(pair.a.pd.get(), 4096), target(pair.b.pd.get(), 8192);
	ibv_qp *qp = pair.a.qp.get();
	ibv_cq *cq = pair.a.scq.get();
	uint64_t adds[] = {0, 1, 0xffffffffffffffff, 0x8000000000000000, 0x0123456789abcdef};

	for (size_t offset : {size_t(0), size_t(8), size_t(4088), size_t(4096), size_t(8184)}) {
		uint64_t value = env.random();
		ibv_sge word = target.sge(offset, 8);

		target.paint_around({&word, 1});
		*target.word(offset) = value;
		for (uint64_t add : adds) {
			post_send(qp, fetch_add(1, result, 0, target, offset, add), api);
			require_send_wc(next_wc(env, cq, "FETCH_ADD"), Op::fetch_add, 1, qp, 8);
			require_eq(*result.word(0), value, "value fetched");
			value += add;
			require_eq(*target.word(offset), value, "sum in memory");
		}
		post_send(qp, cmp_swp(2, result, target, offset, value ^ 1, 5), api);
		require_send_wc(next_wc(env, cq, "CMP_SWP"), Op::cmp_swp, 2, qp, 8);
		require_eq(*result.word(0), value, "value returned by a CMP_SWP that does not match");
		require_eq(*target.word(offset), value, "memory after a CMP_SWP that does not match");
		post_send(qp, cmp_swp(3, result, target, offset, value, 0xfedcba9876543210), api);
		require_send_wc(next_wc(env, cq, "CMP_SWP"), Op::cmp_swp, 3, qp, 8);
		require_eq(*result.word(0), value, "value returned by a CMP_SWP that matches");
		require_eq(*target.word(offset), 0xfedcba9876543210, "memory after a CMP_SWP that matches");
		target.check_around({&word, 1}, "atomics");
	}
}

// Eight QPs add to one word at once. The sum is exact, and every value was handed out exactly once.
void exact_sum(Env &env)
{
	need_atomics(env);
	constexpr size_t qps = 8, depth = 16;
	size_t each = static_cast<size_t>(env.count(2500, 100));
	std::vector<std::unique_ptr<Pair>> pairs;

	for (size_t i = 0; i < qps; i++)
		pairs.push_back(std::make_unique<Pair>(env));
	// One word in one MR: all QPs of the B side share its protection domain for this.
	Pd pd_b = make_pd(env.b().ctx());
	std::vector<Qp> b_qps;
	Buffer counter(pd_b.get(), 4096);
	std::vector<std::unique_ptr<Buffer>> results;
	std::vector<bool> seen(qps * each, false);

	for (auto &pair : pairs) {
		b_qps.push_back(make_qp(pd_b.get(), pair->b.scq.get(), pair->b.rcq.get()));
		must(modify_state(pair->a.qp.get(), IBV_QPS_RESET), "to RESET");
		connect(pair->a.qp.get(), env.a(), b_qps.back().get(), env.b());
		results.push_back(std::make_unique<Buffer>(pair->a.pd.get(), 4096));
	}
	std::vector<size_t> posted(qps, 0), done(qps, 0);
	size_t total = 0;
	Waiter waiter(env.patience(120));

	while (total < qps * each) {
		for (size_t q = 0; q < qps; q++) {
			while (posted[q] < each && posted[q] - done[q] < depth) {
				post_send(pairs[q]->a.qp.get(), fetch_add(posted[q], *results[q], posted[q] % depth * 8, counter, 64, 1));
				posted[q]++;
			}
			while (auto wc = poll_one(pairs[q]->a.scq.get())) {
				require_send_wc(*wc, Op::fetch_add, done[q], pairs[q]->a.qp.get(), 8);
				uint64_t value = *results[q]->word(done[q] % depth * 8);

				require(value < qps * each, "fetched ", value, ", more than was ever added");
				require(!seen[value], "the value ", value, " was handed out twice");
				seen[value] = true;
				done[q]++, total++;
				waiter.progress();
			}
		}
		require(waiter.pause(), "atomics from ", qps, " QPs: ", total, " of ", qps * each, " in time");
	}
	require_eq(*counter.word(64), qps * each, "final sum");
}

// A lock word taken by compare-and-swap from several QPs: never held twice.
void lock_word(Env &env)
{
	need_atomics(env);
	constexpr size_t qps = 4;
	Pd pd_b = make_pd(env.b().ctx());
	Buffer word(pd_b.get(), 4096);
	std::vector<std::unique_ptr<End>> ends;
	std::vector<std::unique_ptr<Buffer>> results;
	std::vector<Cq> cqs;
	std::vector<Qp> peers;

	for (size_t i = 0; i < qps; i++) {
		ends.push_back(std::make_unique<End>(env.a(), QpSpec{}, 64, false));
		results.push_back(std::make_unique<Buffer>(ends[i]->pd.get(), 4096));
		cqs.push_back(make_cq(env.b().ctx(), 64));
		peers.push_back(make_qp(pd_b.get(), cqs[i].get(), cqs[i].get()));
		connect(ends[i]->qp.get(), env.a(), peers[i].get(), env.b());
	}
	*word.word(0) = 0;
	for (int round = 0; round < env.count(300, 20); round++) {
		int winners = 0;
		uint64_t owner = 0;

		for (size_t i = 0; i < qps; i++)
			post_send(ends[i]->qp.get(), cmp_swp(i, *results[i], word, 0, 0, i + 1));
		for (size_t i = 0; i < qps; i++) {
			require_send_wc(next_wc(env, ends[i]->scq.get(), "CMP_SWP"), Op::cmp_swp, i, ends[i]->qp.get(), 8);
			if (*results[i]->word(0) == 0)
				winners++, owner = i + 1;
		}
		require_eq(winners, 1, "QPs that took the lock");
		require_eq(*word.word(0), owner, "owner in the lock word");
		*word.word(0) = 0;
	}
}

void misaligned(Env &env, Op op)
{
	need_atomics(env);
	Pair pair(env);
	Buffer result(pair.a.pd.get(), 4096), target(pair.b.pd.get(), 4096);

	for (size_t offset : {1, 2, 4, 7}) {
		Wr wr{op, offset, {result.sge(0, 8)}, target.addr(64 + offset), target.rkey(), 0, 1, 1};

		target.paint_all();
		if (int error = try_send(pair.a.qp.get(), wr)) {
			require_eq(error, EINVAL, "errno of a misaligned atomic");
			continue; // the library looked first
		}
		expect_wc(env, pair.a.scq.get(), IBV_WC_REM_INV_REQ_ERR, offset, pair.a.qp.get(), cat("atomic at offset ", offset));
		require_eq(static_cast<int>(state_of(pair.a.qp.get())), static_cast<int>(IBV_QPS_ERR), "state after it");
		target.check_all_painted("after a misaligned atomic");
		pair.reconnect();
	}
}

// The result may go to any address, in one element or several.
void result_lists(Env &env)
{
	need_atomics(env);
	Pair pair(env, {.qp = {.send_sge = 4}});
	Buffer result(pair.a.pd.get(), 4096), target(pair.b.pd.get(), 4096);

	for (size_t offset : {0, 1, 3, 4, 4088}) {
		ibv_sge place = result.sge(offset, 8);
		uint64_t got;

		*target.word(0) = 1000 + offset;
		result.paint_around({&place, 1});
		post_send(pair.a.qp.get(), {Op::fetch_add, 1, {place}, target.addr(), target.rkey(), 0, 1});
		require_send_wc(next_wc(env, pair.a.scq.get(), "FETCH_ADD"), Op::fetch_add, 1, pair.a.qp.get(), 8);
		std::copy_n(result.at(offset), 8, reinterpret_cast<std::byte *>(&got));
		require_eq(got, 1000 + offset, "value at an odd address");
		result.check_around({&place, 1}, "result of an atomic");
	}
}

// Atomics and READs share one budget at the responder; far more than it holds, mixed.
void mixed_with_reads(Env &env)
{
	need_atomics(env);
	PairSpec spec{.qp = {.send_wr = 256}};

	spec.rc.rd_atomic = 2;
	Pair pair(env, spec);
	Buffer a(pair.a.pd.get(), 1 << 20), b(pair.b.pd.get(), 1 << 20);
	uint64_t base = 0;

	*b.word(0) = 0;
	for (int round = 0; round < env.count(20, 2); round++) {
		uint64_t seed = env.random();

		pattern_fill(b.at(4096), 5000, seed, 0);
		for (uint64_t i = 0; i < 100; i++) {
			if (i % 2)
				post_send(pair.a.qp.get(), {Op::read, i, {a.sge(4096 + i * 5000, 5000)}, b.addr(4096), b.rkey()});
			else
				post_send(pair.a.qp.get(), fetch_add(i, a, i * 8, b, 0, 3));
		}
		for (uint64_t i = 0; i < 100; i++) {
			Op op = i % 2 ? Op::read : Op::fetch_add;

			require_send_wc(next_wc(env, pair.a.scq.get(), "mixed"), op, i, pair.a.qp.get(), i % 2 ? 5000 : 8);
			if (i % 2) {
				pattern_check(a.at(4096 + i * 5000), 5000, seed, 0, "READ among atomics");
			} else {
				require_eq(*a.word(i * 8), base, "value fetched among READs");
				base += 3;
			}
		}
	}
}

} // namespace

void add_atomic_cases(Registry &cases)
{
	cases.push_back({"atomic_values", [](Env &env) { values(env, Api::classic); }});
	cases.push_back({"atomic_values_ex", [](Env &env) { values(env, Api::ex); }});
	cases.push_back({"C21_atomic_exact_sum", exact_sum});
	cases.push_back({"C21_atomic_lock_word", lock_word});
	cases.push_back({"C21_atomic_misaligned_FETCH_ADD", [](Env &env) { misaligned(env, Op::fetch_add); }});
	cases.push_back({"C21_atomic_misaligned_CMP_SWP", [](Env &env) { misaligned(env, Op::cmp_swp); }});
	cases.push_back({"atomic_result_lists", result_lists});
	cases.push_back({"atomic_mixed_with_reads", mixed_with_reads});
}

} // namespace mv
