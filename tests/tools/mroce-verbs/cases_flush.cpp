// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The error state: everything posted comes back, in order, once; and SRQs where there are any.
#include "work.h"

#include <cerrno>

namespace mv {

namespace {

struct Bench {
	explicit Bench(Env &env, const PairSpec &spec = {}) : pair(env, spec), source(pair.a.pd.get(), 65536), target(pair.b.pd.get(), 65536), back(pair.a.pd.get(), 4096) {}

	Pair pair;
	Buffer source, target;
	Buffer back; // receives of A
};

void expect_flushed(Env &env, ibv_cq *cq, const ibv_qp *qp, uint64_t first, uint64_t n, std::string_view what)
{
	for (uint64_t i = first; i < first + n; i++)
		expect_wc(env, cq, IBV_WC_WR_FLUSH_ERR, i, qp, what);
}

// Posted before the error state, and posted in it.
void posted_before_and_in(Env &env)
{
	Bench bench(env);
	ibv_qp *qp = bench.pair.a.qp.get();

	for (int round = 0; round < env.count(20, 3); round++) {
		for (uint64_t i = 0; i < 20; i++)
			post_recv(qp, i, {bench.back.sge(0, 64)});
		must(modify_state(qp, IBV_QPS_ERR), "to ERR");
		expect_flushed(env, bench.pair.a.rcq.get(), qp, 0, 20, "receives from before");
		for (uint64_t i = 100; i < 110; i++) {
			post_send(qp, {Op::send, i, {bench.source.sge(0, 64)}});
			post_recv(qp, i, {bench.back.sge(0, 64)});
		}
		expect_flushed(env, bench.pair.a.scq.get(), qp, 100, 10, "sends posted in ERR");
		expect_flushed(env, bench.pair.a.rcq.get(), qp, 100, 10, "receives posted in ERR");
		require_silence(bench.pair.a.scq.get(), 0.02, "after the flush");
		require_silence(bench.pair.a.rcq.get(), 0.02, "after the flush");
		bench.pair.reconnect();
	}
	require_alive(env, bench.pair);
}

// Every opcode, unsignalled ones too: flush completions come for all.
void every_opcode(Env &env)
{
	Bench bench(env);
	ibv_qp *qp = bench.pair.a.qp.get();
	uint64_t id = 0;

	must(modify_state(qp, IBV_QPS_ERR), "to ERR");
	for (unsigned flags : {unsigned(IBV_SEND_SIGNALED), 0u, unsigned(IBV_SEND_SIGNALED | IBV_SEND_FENCE)})
		for (Op op : {Op::write, Op::write_imm, Op::send, Op::send_imm, Op::read, Op::cmp_swp, Op::fetch_add})
			post_send(qp, {op, id++, {bench.source.sge(0, 8)}, bench.target.addr(), bench.target.rkey(), 0, 0, 0, flags});
	expect_flushed(env, bench.pair.a.scq.get(), qp, 0, id, "every opcode in ERR");
}

// A whole queue in flight when the error strikes: each request comes back once and in order.
void in_flight(Env &env)
{
	for (int round = 0; round < env.count(50, 5); round++) {
		Bench bench(env);
		ibv_qp *qp = bench.pair.a.qp.get();
		bool flushing = false;

		for (uint64_t i = 0; i < 60; i++)
			post_send(qp, {i % 2 ? Op::write : Op::read, i, {bench.source.sge(i * 1000, 1000)}, bench.target.addr(i * 1000), bench.target.rkey()});
		sleep_seconds(0.0001 * static_cast<double>(env.random(30)));
		must(modify_state(qp, IBV_QPS_ERR), "to ERR");
		for (uint64_t i = 0; i < 60; i++) {
			ibv_wc wc = next_wc(env, bench.pair.a.scq.get(), cat("request ", i, " when the error struck"));

			require_eq(wc.wr_id, i, "order of completions");
			require(wc.status == IBV_WC_WR_FLUSH_ERR || (wc.status == IBV_WC_SUCCESS && !flushing), "request ", i, ": ",
				ibv_wc_status_str(wc.status), flushing ? " after a flush" : "");
			flushing |= wc.status != IBV_WC_SUCCESS;
		}
		require_silence(bench.pair.a.scq.get(), 0.01, "after the flush");
	}
}

// One request fails; those before it succeed, those behind it are flushed, and it is the only one with its own status.
void one_bad_in_the_middle(Env &env)
{
	for (int bad : {0, 1, 20, 39}) {
		Bench bench(env);
		ibv_qp *qp = bench.pair.a.qp.get();

		for (int i = 0; i < 40; i++)
			post_send(qp, {i % 3 ? Op::write : Op::read, static_cast<uint64_t>(i), {bench.source.sge(0, 1500)}, bench.target.addr(),
				       bench.target.rkey() ^ (i == bad ? 0x30000u : 0u)});
		for (int i = 0; i < 40; i++)
			expect_wc(env, bench.pair.a.scq.get(), i < bad ? IBV_WC_SUCCESS : i == bad ? IBV_WC_REM_ACCESS_ERR : IBV_WC_WR_FLUSH_ERR,
				  static_cast<uint64_t>(i), qp, cat("request ", i, ", bad is ", bad));
	}
}

// The error of an unsignalled request is told, with its own id.
void unsignalled_error(Env &env)
{
	Bench bench(env);
	ibv_qp *qp = bench.pair.a.qp.get();

	for (uint64_t i = 0; i < 10; i++)
		post_send(qp, {Op::write, i, {bench.source.sge(0, 100)}, bench.target.addr(), bench.target.rkey() ^ (i == 5 ? 0x30000u : 0u), 0, 0, 0, 0});
	expect_wc(env, bench.pair.a.scq.get(), IBV_WC_REM_ACCESS_ERR, 5, qp, "unsignalled request that failed");
	expect_flushed(env, bench.pair.a.scq.get(), qp, 6, 4, "unsignalled requests behind it");
}

// The error state while messages arrive: no receive completes twice, none is lost.
void error_while_receiving(Env &env)
{
	for (int round = 0; round < env.count(100, 10); round++) {
		Bench bench(env, {.rc = {.timeout = 10, .retry = 1}});
		bool flushing = false;

		for (uint64_t i = 0; i < 60; i++)
			post_recv(bench.pair.b.qp.get(), i, {bench.target.sge(i * 1000, 64)});
		for (uint64_t i = 0; i < 60; i++)
			post_send(bench.pair.a.qp.get(), {Op::send, i, {bench.source.sge(0, 64)}});
		sleep_seconds(0.0001 * static_cast<double>(env.random(20)));
		must(modify_state(bench.pair.b.qp.get(), IBV_QPS_ERR), "to ERR");
		for (uint64_t i = 0; i < 60; i++) {
			ibv_wc wc = next_wc(env, bench.pair.b.rcq.get(), cat("receive ", i));

			require_eq(wc.wr_id, i, "order of receives");
			require(wc.status == IBV_WC_WR_FLUSH_ERR || (wc.status == IBV_WC_SUCCESS && !flushing), "receive ", i, ": ", ibv_wc_status_str(wc.status));
			flushing |= wc.status != IBV_WC_SUCCESS;
		}
		require_silence(bench.pair.b.rcq.get(), 0.005, "after the flush");
	}
}

// More posts in ERR than the queue is long, polled in between: the ring keeps turning.
void many_in_error(Env &env)
{
	Bench bench(env, {.qp = {.send_wr = 8, .recv_wr = 8}});
	ibv_qp *qp = bench.pair.a.qp.get();

	must(modify_state(qp, IBV_QPS_ERR), "to ERR");
	for (uint64_t i = 0; i < static_cast<uint64_t>(env.count(500, 50)); i++) {
		post_send(qp, {Op::send, i, {bench.source.sge(0, 64)}});
		post_recv(qp, i, {bench.back.sge(0, 64)});
		expect_wc(env, bench.pair.a.scq.get(), IBV_WC_WR_FLUSH_ERR, i, qp, "send in ERR");
		expect_wc(env, bench.pair.a.rcq.get(), IBV_WC_WR_FLUSH_ERR, i, qp, "receive in ERR");
	}
}

// RESET throws away what was posted, without completions.
void reset_forgets(Env &env)
{
	Bench bench(env, {.rc = {.min_rnr = 20}});

	for (uint64_t i = 0; i < 10; i++) {
		post_send(bench.pair.a.qp.get(), {Op::send, i, {bench.source.sge(0, 64)}});
		post_recv(bench.pair.a.qp.get(), i, {bench.back.sge(0, 64)});
	}
	must(modify_state(bench.pair.a.qp.get(), IBV_QPS_RESET), "to RESET");
	drain(bench.pair.a.scq.get());
	drain(bench.pair.a.rcq.get());
	require_silence(bench.pair.a.scq.get(), 0.05, "after RESET");
	require_silence(bench.pair.a.rcq.get(), 0.05, "after RESET");
	must(modify_state(bench.pair.b.qp.get(), IBV_QPS_RESET), "to RESET");
	connect(bench.pair.a.qp.get(), bench.pair.a.dev, bench.pair.b.qp.get(), bench.pair.b.dev);
	require_alive(env, bench.pair);
}

Srq make_srq(Device &dev, ibv_pd *pd, uint32_t wr)
{
	ibv_srq_init_attr init{};

	if (dev.attr.max_srq == 0)
		skip("no SRQ");
	init.attr.max_wr = wr;
	init.attr.max_sge = 2;
	Srq srq(ibv_create_srq(pd, &init));

	if (!srq && (errno == EOPNOTSUPP || errno == ENOSYS))
		skip("no SRQ");
	require(srq != nullptr, "ibv_create_srq: ", errno_name(errno));
	return srq;
}

void srq_shared(Env &env)
{
	constexpr size_t n = 4;
	Pd pd_b = make_pd(env.b().ctx());
	Srq srq = make_srq(env.b(), pd_b.get(), 64);
	Cq cq_b = make_cq(env.b().ctx(), 256);
	Buffer target(pd_b.get(), 65536);
	End a(env.a(), QpSpec{}, 256, false);
	std::vector<Qp> senders, receivers;
	Buffer source(a.pd.get(), 4096);

	for (size_t i = 0; i < n; i++) {
		senders.push_back(make_qp(a.pd.get(), a.scq.get(), a.rcq.get()));
		// The manual says that receive sizes are ignored with an SRQ.
		receivers.push_back(make_qp(pd_b.get(), cq_b.get(), cq_b.get(), {.recv_wr = static_cast<uint32_t>(env.b().attr.max_qp_wr) + 1, .srq = srq.get()}));
		connect(senders[i].get(), env.a(), receivers[i].get(), env.b());
	}
	for (uint64_t i = 0; i < 40; i++) {
		ibv_sge sge = target.sge(i * 1000, 1000);
		ibv_recv_wr wr{}, *bad;

		wr.wr_id = i, wr.sg_list = &sge, wr.num_sge = 1;
		must(ibv_post_srq_recv(srq.get(), &wr, &bad), "ibv_post_srq_recv");
	}
	for (uint64_t i = 0; i < 40; i++) {
		pattern_fill(source.at(0), 1000, i, 0);
		post_send(senders[i % n].get(), {Op::send, i, {source.sge(0, 1000)}});
		ibv_wc wc = next_wc(env, cq_b.get(), "receive from an SRQ");

		require_recv_wc(wc, Op::send, i, receivers[i % n].get(), 1000, 0);
		pattern_check(target.at(i * 1000), 1000, i, 0, "receive from an SRQ");
		expect_wc(env, a.scq.get(), IBV_WC_SUCCESS, i, senders[i % n].get(), "send");
	}
}

} // namespace

void add_flush_cases(Registry &cases)
{
	cases.push_back({"A17_flush_before_and_in_error", posted_before_and_in});
	cases.push_back({"B34_flush_every_opcode", every_opcode});
	cases.push_back({"A17_flush_in_flight", in_flight});
	cases.push_back({"A17_one_bad_in_the_middle", one_bad_in_the_middle});
	cases.push_back({"A17_unsignalled_error", unsignalled_error});
	cases.push_back({"B09_error_while_receiving", error_while_receiving});
	cases.push_back({"A17_many_in_error", many_in_error});
	cases.push_back({"reset_forgets", reset_forgets});
	cases.push_back({"A28_srq_shared", srq_shared});
}

} // namespace mv
