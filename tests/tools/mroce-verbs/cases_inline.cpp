// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Inline data: every length that was granted, none beyond it, from memory that is not registered and gone at once.
#include "work.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace mv {

namespace {

constexpr Op inline_ops[] = {Op::write, Op::write_imm, Op::send, Op::send_imm};
constexpr uint32_t asked = 256;

PairSpec inline_spec(Api api)
{
	PairSpec spec;

	spec.qp.inline_bytes = asked;
	spec.qp.send_sge = 4;
	if (api != Api::classic)
		spec.qp.ex_ops = all_ex_ops;
	return spec;
}

// Sends `list` inline, destroys the source at once, and checks what arrived.
void one_inline(Env &env, Pair &pair, Buffer &source, Buffer &target, Op op, Api api, size_t length, unsigned pieces)
{
	std::string what = cat("inline ", name_of(op), " of ", length, " bytes in ", pieces, " pieces");
	uint64_t seed = env.random();
	SgeList from = source.split(0, length, pieces);
	SgeList to = {target.sge(Buffer::guard, length)};
	Wr wr{op, 1, from, target.addr(Buffer::guard), target.rkey(), static_cast<uint32_t>(seed)};

	wr.flags |= IBV_SEND_INLINE;
	for (ibv_sge &sge : wr.sg)
		sge.lkey = 0xdeadbeef; // inline data needs no key
	pattern_fill(from, seed);
	target.paint_around(to);
	if (takes_receive(op))
		post_recv(pair.b.qp.get(), 2, op == Op::write_imm ? SgeList{} : to);
	post_send(pair.a.qp.get(), wr, api);
	memset(source.at(0), 0xee, source.size());
	if (takes_receive(op))
		require_recv_wc(next_wc(env, pair.b.rcq.get(), what), op, 2, pair.b.qp.get(), length, wr.imm);
	require_send_wc(next_wc(env, pair.a.scq.get(), what), op, 1, pair.a.qp.get(), length);
	pattern_check(to, length, seed, what);
	target.check_around(to, what);
}

void every_length(Env &env, Op op, Api api)
{
	Pair pair(env, inline_spec(api));
	uint32_t most = pair.a.cap.max_inline_data;
	Buffer source(most + 4096), target(pair.b.pd.get(), most + 8192);
	uint32_t step = env.opt.scale >= 0.5 ? 1 : 7;

	require(most >= asked, "inline limit ", most, " below what was asked");
	for (uint32_t length = 0; length <= most; length += (length < 16 || length + 16 > most) ? 1 : step)
		one_inline(env, pair, source, target, op, api, length, 1);
	for (unsigned pieces = 0; pieces <= pair.a.cap.max_send_sge && pieces <= 8; pieces++)
		for (uint32_t length : {0u, 1u, 13u, most - 1, most})
			if (pieces || !length)
				one_inline(env, pair, source, target, op, api, length, pieces);
}

void beyond(Env &env, Api api)
{
	Pair pair(env, inline_spec(api));
	uint32_t most = pair.a.cap.max_inline_data;
	Buffer source(3 * size_t(most) + 4096), target(pair.b.pd.get(), 3 * size_t(most) + 8192);

	target.paint_all();
	for (unsigned pieces = 1; pieces <= 4; pieces++)
		for (size_t length : {size_t(most) + 1, size_t(most) + 17, 2 * size_t(most)}) {
			Wr wr{Op::write, 1, source.split(0, length, pieces), target.addr(), target.rkey()};

			wr.flags |= IBV_SEND_INLINE;
			must_fail(try_send(pair.a.qp.get(), wr, api), {EINVAL, ENOMEM},
				  cat("inline of ", length, " bytes in ", pieces, " pieces, granted ", most));
		}
	require_silence(pair.a.scq.get(), 0.05, "refused inline sends");
	target.check_all_painted("after refused inline sends");
	require_alive(env, pair);
}

// Lengths whose 32-bit sum is small.
void sum_wraps(Env &env, Api api)
{
	Pair pair(env, inline_spec(api));
	Buffer source(8192), target(pair.b.pd.get(), 8192);
	const std::pair<uint32_t, uint32_t> lengths[] = {{0xffffffff, 2}, {0x80000000, 0x80000000}, {0xfffffff0, 0x20}, {1, 0xffffffff}};

	target.paint_all();
	for (auto [first, second] : lengths) {
		Wr wr{Op::write, 1, {{source.addr(), first, 0}, {source.addr(), second, 0}}, target.addr(), target.rkey()};

		wr.flags |= IBV_SEND_INLINE;
		must_fail(try_send(pair.a.qp.get(), wr, api), {EINVAL, ENOMEM}, cat("inline of ", first, "+", second, " bytes"));
	}
	target.check_all_painted("after refused inline sends");
	require_alive(env, pair);
}

// The memory is unmapped right after the post.
void source_unmapped(Env &env)
{
	Pair pair(env, inline_spec(Api::classic));
	Buffer target(pair.b.pd.get(), 8192);

	for (int i = 0; i < env.count(100, 10); i++) {
		void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		uint64_t seed = env.random();

		require(page != MAP_FAILED, "mmap");
		pattern_fill(page, asked, seed, 0);
		Wr wr{Op::write, seed, {{reinterpret_cast<uintptr_t>(page), asked, 0}}, target.addr(), target.rkey()};

		wr.flags |= IBV_SEND_INLINE;
		post_send(pair.a.qp.get(), wr);
		munmap(page, 4096);
		expect_wc(env, pair.a.scq.get(), IBV_WC_SUCCESS, seed, pair.a.qp.get(), "inline from memory that is gone");
		pattern_check(target.at(0), asked, seed, 0, "inline from memory that is gone");
	}
}

// Many small inline sends in a full queue: neighbours in the ring must not touch each other.
void full_queue(Env &env)
{
	PairSpec spec = inline_spec(Api::classic);

	spec.qp.send_wr = 64;
	Pair pair(env, spec);
	uint32_t most = pair.a.cap.max_inline_data;
	Buffer source(most), target(pair.b.pd.get(), size_t(most) * 64);

	for (int round = 0; round < env.count(20, 2); round++) {
		uint64_t seed = env.random();

		for (uint32_t i = 0; i < 64; i++) {
			uint32_t length = i % 3 == 0 ? most : i % 3 == 1 ? 1 : most / 2 + i;
			Wr wr{Op::write, i, {source.sge(0, length)}, target.addr(size_t(i) * most), target.rkey()};

			wr.flags = IBV_SEND_INLINE | (i == 63 ? unsigned(IBV_SEND_SIGNALED) : 0u);
			pattern_fill(source.at(0), length, seed + i, 0);
			post_send(pair.a.qp.get(), wr);
		}
		expect_wc(env, pair.a.scq.get(), IBV_WC_SUCCESS, 63, pair.a.qp.get(), "last of 64 inline sends");
		for (uint32_t i = 0; i < 64; i++) {
			uint32_t length = i % 3 == 0 ? most : i % 3 == 1 ? 1 : most / 2 + i;

			pattern_check(target.at(size_t(i) * most), length, seed + i, 0, cat("inline send ", i, " of 64"));
		}
	}
}

// Inline means nothing to a READ: refused, or ignored, never both kinds of nonsense.
void inline_read(Env &env)
{
	Pair pair(env, inline_spec(Api::classic));
	Buffer sink(pair.a.pd.get(), 4096), source(pair.b.pd.get(), 4096);
	Wr wr{Op::read, 1, {sink.sge(0, 64)}, source.addr(), source.rkey()};

	wr.flags |= IBV_SEND_INLINE;
	pattern_fill(source.at(0), 64, 4, 0);
	int error = try_send(pair.a.qp.get(), wr);

	if (error) {
		require_eq(error, EINVAL, "errno of an inline READ");
	} else {
		ibv_wc wc = next_wc(env, pair.a.scq.get(), "inline READ");

		note("inline READ: ", ibv_wc_status_str(wc.status));
		if (wc.status == IBV_WC_SUCCESS)
			pattern_check(sink.at(0), 64, 4, 0, "inline READ");
		pair.reconnect();
	}
	require_alive(env, pair);
}

} // namespace

void add_inline_cases(Registry &cases)
{
	for (Op op : inline_ops)
		cases.push_back({cat("A25_inline_", name_of(op)), [op](Env &env) { every_length(env, op, Api::classic); }});
	for (Op op : inline_ops)
		cases.push_back({cat("A29_inline_list_", name_of(op)), [op](Env &env) { every_length(env, op, Api::ex_list); }});
	cases.push_back({"A25_inline_ex", [](Env &env) { every_length(env, Op::write, Api::ex); }});
	cases.push_back({"A25_inline_beyond", [](Env &env) { beyond(env, Api::classic); }});
	cases.push_back({"A29_inline_beyond_ex", [](Env &env) { beyond(env, Api::ex_list); }});
	cases.push_back({"A30_inline_sum_wraps", [](Env &env) { sum_wraps(env, Api::classic); }});
	cases.push_back({"A30_inline_sum_wraps_ex", [](Env &env) { sum_wraps(env, Api::ex_list); }});
	cases.push_back({"A50_inline_source_unmapped", source_unmapped});
	cases.push_back({"A25_inline_full_queue", full_queue});
	cases.push_back({"inline_read", inline_read});
}

} // namespace mv
