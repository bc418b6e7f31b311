// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Work queues: signalling, being full, lists with a bad request in them.
#include "work.h"

#include <cerrno>

namespace mv {

namespace {

// Requests chained for one ibv_post_send.
class Chain {
public:
	explicit Chain(std::vector<Wr> wrs) : wrs_(std::move(wrs))
	{
		for (Wr &wr : wrs_)
			raw_.push_back(raw_of(wr));
		for (size_t i = 0; i + 1 < raw_.size(); i++)
			raw_[i].next = &raw_[i + 1];
	}

	// The errno value; `posted` gets how many requests bad_wr says went in.
	[[nodiscard]] int post(ibv_qp *qp, size_t &posted)
	{
		ibv_send_wr *bad = nullptr;
		int returned = ibv_post_send(qp, raw_.data(), &bad);

		posted = raw_.size();
		if (!returned)
			return 0;
		require(bad >= raw_.data() && bad < raw_.data() + raw_.size(), "bad_wr points nowhere");
		posted = static_cast<size_t>(bad - raw_.data());
		return error_of(returned);
	}

	[[nodiscard]] ibv_send_wr &at(size_t i) { return raw_[i]; }

private:
	std::vector<Wr> wrs_;
	std::vector<ibv_send_wr> raw_;
};

struct Bench {
	explicit Bench(Env &env, const PairSpec &spec = {})
		: pair(env, spec), source(pair.a.pd.get(), 65536), target(pair.b.pd.get(), 65536)
	{
	}

	[[nodiscard]] Wr write(uint64_t id, unsigned flags = IBV_SEND_SIGNALED, size_t length = 8) const
	{
		return {Op::write, id, {source.sge(0, length)}, target.addr(), target.rkey(), 0, 0, 0, flags};
	}

	Pair pair;
	Buffer source, target;
};

// An unsignalled run and a signalled tail: one completion, and everything before it done.
void unsignalled(Env &env)
{
	Bench bench(env);
	uint64_t seed = env.random();

	for (int round = 0; round < env.count(50, 5); round++) {
		pattern_fill(bench.source.at(0), 65536, seed + static_cast<uint64_t>(round), 0);
		for (uint64_t i = 0; i < 63; i++)
			post_send(bench.pair.a.qp.get(), {Op::write, i, {bench.source.sge(i * 1000, 1000)}, bench.target.addr(i * 1000),
							  bench.target.rkey(), 0, 0, 0, 0});
		post_send(bench.pair.a.qp.get(),
			  {Op::write, 63, {bench.source.sge(63000, 1000)}, bench.target.addr(63000), bench.target.rkey()});
		require_send_wc(next_wc(env, bench.pair.a.scq.get(), "tail"), Op::write, 63, bench.pair.a.qp.get(), 1000);
		pattern_check(bench.target.at(0), 64000, seed + static_cast<uint64_t>(round), 0, "unsignalled WRITEs");
	}
	require_silence(bench.pair.a.scq.get(), 0.02, "unsignalled WRITEs");
}

void signal_all(Env &env)
{
	Bench bench(env, {.qp = {.signal_all = true}});

	for (uint64_t i = 0; i < 60; i++)
		post_send(bench.pair.a.qp.get(), bench.write(i, i % 2 ? unsigned(IBV_SEND_SIGNALED) : 0u));
	for (uint64_t i = 0; i < 60; i++)
		require_send_wc(next_wc(env, bench.pair.a.scq.get(), "sq_sig_all"), Op::write, i, bench.pair.a.qp.get(), 8);
}

// Every n-th signalled, kept as full as it goes.
void selective(Env &env)
{
	for (uint64_t every : {1, 2, 5, 16, 63}) {
		Bench bench(env);
		uint64_t posted = 0, done = 0, total = static_cast<uint64_t>(env.count(2000, 200));

		total -= total % every;
		while (done < total) {
			while (posted < total && posted - done < 64) {
				bool tail = posted % every == every - 1;

				post_send(bench.pair.a.qp.get(), bench.write(posted, tail ? unsigned(IBV_SEND_SIGNALED) : 0u));
				posted++;
			}
			ibv_wc wc = next_wc(env, bench.pair.a.scq.get(), cat("every ", every, "th signalled"));

			done += every;
			require_send_wc(wc, Op::write, done - 1, bench.pair.a.qp.get(), 8);
		}
	}
}

// Fills the send queue behind a SEND that finds no receive; returns how many requests went in.
uint32_t fill(Bench &bench)
{
	uint32_t posted = 0;
	int error;

	while (!(error = try_send(bench.pair.a.qp.get(), {Op::send, posted, {bench.source.sge(0, 8)}})))
		require(++posted < 100000, "the send queue never fills");
	require_eq(error, ENOMEM, "errno of a full send queue");
	return posted;
}

void send_queue_full(Env &env)
{
	Bench bench(env, {.qp = {.send_wr = 40, .recv_wr = 512}, .rc = {.min_rnr = 1}});
	uint32_t posted = fill(bench);

	require(posted >= 40, "room for ", posted, " requests, 40 asked");
	// Bad arguments on a full queue and a good one: still refused, nothing is lost.
	for (int i = 0; i < 5; i++)
		require_eq(try_send(bench.pair.a.qp.get(), bench.write(7)), ENOMEM, "a post on a full queue");
	for (uint32_t i = 0; i < posted; i++) {
		post_recv(bench.pair.b.qp.get(), i, {bench.target.sge(0, 64)});
		expect_wc(env, bench.pair.b.rcq.get(), IBV_WC_SUCCESS, i, bench.pair.b.qp.get(), "receive");
	}
	for (uint32_t i = 0; i < posted; i++)
		expect_wc(env, bench.pair.a.scq.get(), IBV_WC_SUCCESS, i, bench.pair.a.qp.get(), "send after being full");
	// And room again for as many.
	require_eq(fill(bench), posted, "room after the queue was emptied");
}

void list_fills_queue(Env &env)
{
	Bench bench(env, {.qp = {.send_wr = 16, .recv_wr = 512}, .rc = {.min_rnr = 1}});
	uint32_t room = fill(bench);

	bench.pair.reconnect();
	std::vector<Wr> wrs;

	for (uint64_t i = 0; i < room + 3; i++)
		wrs.push_back({Op::send, i, {bench.source.sge(0, 8)}});
	Chain chain(wrs);
	size_t posted = 0;

	require_eq(chain.post(bench.pair.a.qp.get(), posted), ENOMEM, "errno of a list longer than the queue");
	require_eq(posted, room, "requests before bad_wr");
	for (uint32_t i = 0; i < room; i++) {
		post_recv(bench.pair.b.qp.get(), i, {bench.target.sge(0, 64)});
		expect_wc(env, bench.pair.a.scq.get(), IBV_WC_SUCCESS, i, bench.pair.a.qp.get(), "send of the list");
	}
	require_silence(bench.pair.a.scq.get(), 0.02, "requests behind bad_wr");
}

// A refused request in the middle of a list: those before it are sent, none behind it.
void bad_in_list(Env &env)
{
	Bench bench(env);
	uint32_t too_many = bench.pair.a.cap.max_send_sge + 1;
	std::vector<Wr> wrs = {bench.write(0), bench.write(1), bench.write(2), bench.write(3)};

	wrs[2].sg = SgeList(too_many, bench.source.sge(0, 8));
	for (int kind = 0; kind < 2; kind++) {
		if (kind == 1)
			wrs[2].sg = {bench.source.sge(0, 8)};
		Chain chain(wrs);
		size_t posted = 0;

		if (kind == 1)
			chain.at(2).opcode = static_cast<ibv_wr_opcode>(99);
		int error = chain.post(bench.pair.a.qp.get(), posted);

		require(error == EINVAL || (kind == 0 && error == ENOMEM), "a list with a bad request: ", errno_name(error));
		require_eq(posted, 2u, "requests before bad_wr");
		expect_wc(env, bench.pair.a.scq.get(), IBV_WC_SUCCESS, 0, bench.pair.a.qp.get(), "before the bad one");
		expect_wc(env, bench.pair.a.scq.get(), IBV_WC_SUCCESS, 1, bench.pair.a.qp.get(), "before the bad one");
		require_silence(bench.pair.a.scq.get(), 0.05, "behind the bad one");
	}
	require_alive(env, bench.pair);
}

void bad_opcodes(Env &env)
{
	Bench bench(env, {.qp = {}});
	const int opcodes[] = {-1, 12, 13, 50, 99, 1 << 20};

	for (int opcode : opcodes) {
		Wr wr = bench.write(1);
		ibv_send_wr raw = raw_of(wr), *bad = nullptr;

		raw.opcode = static_cast<ibv_wr_opcode>(opcode);
		int returned = ibv_post_send(bench.pair.a.qp.get(), &raw, &bad);

		require(returned != 0, "opcode ", opcode, " was accepted");
		require_eq(error_of(returned), EINVAL, "errno for opcode ", opcode);
	}
	require_alive(env, bench.pair);
}

void receive_queue_full(Env &env)
{
	Bench bench(env, {.qp = {.recv_wr = 20}});
	uint32_t posted = 0;
	int error;

	while (!(error = try_recv(bench.pair.b.qp.get(), posted, {bench.target.sge(0, 64)})))
		require(++posted < 100000, "the receive queue never fills");
	require_eq(error, ENOMEM, "errno of a full receive queue");
	require(posted >= 20, "room for ", posted, " receives, 20 asked");
	for (uint32_t i = 0; i < posted; i++) {
		post_send(bench.pair.a.qp.get(), {Op::send, i, {bench.source.sge(0, 8)}});
		expect_wc(env, bench.pair.b.rcq.get(), IBV_WC_SUCCESS, i, bench.pair.b.qp.get(), "receive");
		expect_wc(env, bench.pair.a.scq.get(), IBV_WC_SUCCESS, i, bench.pair.a.qp.get(), "send");
	}
}

// A long list in one call, all operations in it.
void long_list(Env &env)
{
	Bench bench(env, {.qp = {.send_wr = 512, .recv_wr = 512}});
	const Op ops[] = {Op::write, Op::send, Op::read, Op::write_imm, Op::send_imm};
	std::vector<Wr> wrs;
	size_t posted = 0;

	for (uint64_t i = 0; i < 500; i++) {
		Op op = ops[i % 5];

		wrs.push_back({op, i, {bench.source.sge(i * 8, 8)}, bench.target.addr(i * 8), bench.target.rkey(), uint32_t(i)});
		if (takes_receive(op))
			post_recv(bench.pair.b.qp.get(), i, {bench.target.sge(32768 + i * 8, 8)});
	}
	pattern_fill(bench.source.at(0), 4000, 11, 0);
	pattern_fill(bench.target.at(0), 4000, 11, 0);
	Chain chain(wrs);

	must(chain.post(bench.pair.a.qp.get(), posted), "posting 500 requests at once");
	for (uint64_t i = 0; i < 500; i++) {
		require_send_wc(next_wc(env, bench.pair.a.scq.get(), "list"), ops[i % 5], i, bench.pair.a.qp.get(), 8);
		if (takes_receive(ops[i % 5]))
			require_recv_wc(next_wc(env, bench.pair.b.rcq.get(), "list"), ops[i % 5], i, bench.pair.b.qp.get(), 8, uint32_t(i));
	}
	pattern_check(bench.source.at(0), 4000, 11, 0, "READs of the list");
	pattern_check(bench.target.at(0), 4000, 11, 0, "WRITEs of the list");
}

// The send ring goes round many times, requests of different sizes in it.
void ring_wraps(Env &env)
{
	Bench bench(env, {.qp = {.send_wr = 5, .send_sge = 4, .inline_bytes = 128}});
	uint64_t total = static_cast<uint64_t>(env.count(3000, 200));

	for (uint64_t i = 0; i < total; i++) {
		size_t length = 1 + env.random(120);
		uint64_t seed = env.random();
		SgeList list = bench.source.split(0, length, 1 + i % 4);
		Wr wr{Op::write, i, list, bench.target.addr(), bench.target.rkey()};

		if (i % 3 == 0)
			wr.flags |= IBV_SEND_INLINE;
		pattern_fill(list, seed);
		post_send(bench.pair.a.qp.get(), wr);
		require_send_wc(next_wc(env, bench.pair.a.scq.get(), "WRITE"), Op::write, i, bench.pair.a.qp.get(), length);
		pattern_check(bench.target.at(0), length, seed, 0, cat("WRITE ", i, " through a small ring"));
	}
}

// ibv_wr_start .. ibv_wr_abort leaves nothing behind; a batch of several goes out as one.
void ex_batches(Env &env)
{
	Bench bench(env, {.qp = {.ex_ops = all_ex_ops}});
	ibv_qp_ex *qpx = ibv_qp_to_qp_ex(bench.pair.a.qp.get());

	require(qpx != nullptr, "ibv_qp_to_qp_ex gave nothing");
	bench.target.paint_all();
	ibv_wr_start(qpx);
	for (uint64_t i = 0; i < 10; i++) {
		qpx->wr_id = i;
		qpx->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(qpx, bench.target.rkey(), bench.target.addr());
		ibv_wr_set_sge(qpx, bench.source.lkey(), bench.source.addr(), 8);
	}
	ibv_wr_abort(qpx);
	require_silence(bench.pair.a.scq.get(), 0.05, "an aborted batch");
	bench.target.check_all_painted("after an aborted batch");
	ibv_wr_start(qpx);
	for (uint64_t i = 0; i < 40; i++) {
		qpx->wr_id = 100 + i;
		qpx->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(qpx, bench.target.rkey(), bench.target.addr(i * 100));
		ibv_wr_set_sge(qpx, bench.source.lkey(), bench.source.addr(i * 100), 100);
	}
	pattern_fill(bench.source.at(0), 4000, 12, 0);
	must(ibv_wr_complete(qpx), "ibv_wr_complete");
	for (uint64_t i = 0; i < 40; i++)
		require_send_wc(next_wc(env, bench.pair.a.scq.get(), "batch"), Op::write, 100 + i, bench.pair.a.qp.get(), 100);
	pattern_check(bench.target.at(0), 4000, 12, 0, "batch");
}

// More than fits, in one batch: complete says so and none of it is sent.
void ex_batch_too_big(Env &env)
{
	Bench bench(env, {.qp = {.send_wr = 16, .ex_ops = all_ex_ops}});
	ibv_qp_ex *qpx = ibv_qp_to_qp_ex(bench.pair.a.qp.get());

	require(qpx != nullptr, "ibv_qp_to_qp_ex gave nothing");
	bench.target.paint_all();
	ibv_wr_start(qpx);
	for (uint64_t i = 0; i < bench.pair.a.cap.max_send_wr + 2000; i++) {
		qpx->wr_id = i;
		qpx->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(qpx, bench.target.rkey(), bench.target.addr());
		ibv_wr_set_sge(qpx, bench.source.lkey(), bench.source.addr(), 8);
	}
	must_fail(ibv_wr_complete(qpx), {ENOMEM}, "a batch longer than the queue");
	require_silence(bench.pair.a.scq.get(), 0.05, "a refused batch");
	bench.target.check_all_painted("after a refused batch");
	post_send(bench.pair.a.qp.get(), bench.write(1), Api::ex);
	expect_wc(env, bench.pair.a.scq.get(), IBV_WC_SUCCESS, 1, bench.pair.a.qp.get(), "WRITE after a refused batch");
}

} // namespace

void add_queue_cases(Registry &cases)
{
	cases.push_back({"queue_unsignalled", unsignalled});
	cases.push_back({"queue_signal_all", signal_all});
	cases.push_back({"queue_selective_signalling", selective});
	cases.push_back({"A33_send_queue_full", send_queue_full});
	cases.push_back({"A33_list_fills_queue", list_fills_queue});
	cases.push_back({"A33_bad_in_list", bad_in_list});
	cases.push_back({"A33_bad_opcodes", bad_opcodes});
	cases.push_back({"A33_receive_queue_full", receive_queue_full});
	cases.push_back({"queue_long_list", long_list});
	cases.push_back({"queue_ring_wraps", ring_wraps});
	cases.push_back({"queue_ex_batches", ex_batches});
	cases.push_back({"queue_ex_batch_too_big", ex_batch_too_big});
}

} // namespace mv
