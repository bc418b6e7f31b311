// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Objects that come and go while others work: destruction with work outstanding, many QPs, several threads.
#include "work.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <thread>

namespace mv {

namespace {

struct Bench {
	explicit Bench(Env &env, const PairSpec &spec = {}, size_t size = 65536)
		: pair(env, spec), source(pair.a.pd.get(), size), target(pair.b.pd.get(), size)
	{
	}

	[[nodiscard]] Wr write(uint64_t id, size_t length) const
	{
		return {Op::write, id, {source.sge(0, length)}, target.addr(), target.rkey()};
	}

	Pair pair;
	Buffer source, target;
};

// A thread whose exception is not lost.
class Worker {
public:
	template <class Body>
	explicit Worker(Body body)
		: thread_([this, body] {
			  try {
				  body(stop_);
			  } catch (...) {
				  error_ = std::current_exception();
				  failed_ = true;
			  }
		  })
	{
	}
	~Worker()
	{
		stop_ = true;
		if (thread_.joinable())
			thread_.join();
	}
	Worker(const Worker &) = delete;
	Worker &operator=(const Worker &) = delete;

	[[nodiscard]] bool failed() const { return failed_; }

	void finish()
	{
		stop_ = true;
		thread_.join();
		if (error_)
			std::rethrow_exception(error_);
	}

private:
	std::atomic<bool> stop_ = false, failed_ = false;
	std::exception_ptr error_;
	std::thread thread_;
};

// Verified WRITEs, one after the other, until told to stop; returns how many.
uint64_t steady_writes(Env &env, Bench &bench, const std::atomic<bool> &stop)
{
	uint64_t n = 0;

	for (; !stop; n++) {
		pattern_fill(bench.source.at(0), 20000, n, 0);
		post_send(bench.pair.a.qp.get(), bench.write(n, 20000));
		expect_wc(env, bench.pair.a.scq.get(), IBV_WC_SUCCESS, n, bench.pair.a.qp.get(), "steady WRITE beside the storm");
		pattern_check(bench.target.at(0), 20000, n, 0, "steady WRITE beside the storm");
	}
	return n;
}

// One round of a pair that is destroyed in the middle of its work, `order` saying how.
void destroy_busy(Env &env, uint64_t order)
{
	PairSpec spec{.rc = {.timeout = 10, .retry = 1, .min_rnr = 5}};
	Bench bench(env, spec);

	for (uint64_t i = 0; i < 30; i++) {
		post_recv(bench.pair.a.qp.get(), i, {bench.source.sge(0, 64)});
		if (i % 3)
			post_recv(bench.pair.b.qp.get(), i, {bench.target.sge(0, 64)});
		post_send(bench.pair.a.qp.get(), bench.write(i, 1 + env.random(60000)));
		post_send(bench.pair.a.qp.get(), {Op::send, i, {bench.source.sge(0, 64)}});
		post_send(bench.pair.b.qp.get(), {Op::read, i, {bench.target.sge(0, 60000)}, bench.source.addr(), bench.source.rkey()});
	}
	if (order & 1)
		sleep_seconds(0.0001 * static_cast<double>(env.random(50)));
	if (order & 2)
		bench.target.mr().reset();
	if (order & 4)
		bench.pair.b.qp.reset();
	if (order & 8)
		must(modify_state(bench.pair.a.qp.get(), IBV_QPS_ERR), "to ERR");
	bench.pair.a.qp.reset();
	bench.pair.b.qp.reset();
	// What was in the CQ may be read; nothing new may come.
	drain(bench.pair.a.scq.get());
	drain(bench.pair.b.rcq.get());
	require_silence(bench.pair.a.scq.get(), 0.002, "after destruction of the QP");
	require_silence(bench.pair.b.rcq.get(), 0.002, "after destruction of the QP");
}

void destroy_outstanding(Env &env)
{
	auto start = Clock::now();

	for (uint64_t i = 0; i < static_cast<uint64_t>(env.count(200, 16)); i++)
		destroy_busy(env, i);
	note("busy pairs created and destroyed in ", seconds_since(start), " s");
}

void destroy_under_traffic(Env &env)
{
	Bench steady(env);
	uint64_t moved = 0;

	(void)env.b();
	Worker worker([&](const std::atomic<bool> &stop) { moved = steady_writes(env, steady, stop); });

	Env other(env.opt, "storm");
	for (uint64_t i = 0; i < static_cast<uint64_t>(env.count(500, 16)) && !worker.failed(); i++)
		destroy_busy(other, i);
	worker.finish();
	note(moved, " WRITEs beside the storm");
	require(moved > 0, "no traffic beside the storm");
}

// QPs only created, moved through their states and destroyed, as fast as it goes.
void create_destroy_loop(Env &env)
{
	for (int i = 0; i < env.count(500, 50); i++) {
		Pair pair(env, {.connected = i % 2 == 0});

		if (i % 10 == 0)
			require_alive(env, pair);
	}
}

// Everything new in every round, the contexts in every eighth: connected, verified messages, destroyed idle or busy.
void storm(Env &env)
{
	std::unique_ptr<Env> own;
	auto start = Clock::now();

	for (int i = 0; i < env.count(500, 16); i++) {
		if (i % 8 == 0)
			own = std::make_unique<Env>(env.opt, cat("storm ", i));
		Mover mover(*own, {.rc = {.timeout = 16}}, 70000);

		mover.move(Op::send, {.length = 1 + own->random(4000)});
		mover.move(Op::write, {.length = 1 + own->random(60000)});
		mover.move(Op::read, {.length = 1 + own->random(60000)});
		for (uint64_t k = 0; i % 2 && k < 10; k++) {
			post_send(mover.pair.a.qp.get(), {Op::write, k, {mover.a_buf.sge(0, 60000)}, mover.b_buf.addr(), mover.b_buf.rkey()});
			post_send(mover.pair.b.qp.get(), {Op::read, k, {mover.b_buf.sge(0, 60000)}, mover.a_buf.addr(), mover.a_buf.rkey()});
		}
	}
	note("everything created and destroyed in ", seconds_since(start), " s");
}

void many_qps(Env &env, int wanted)
{
	int n = std::min({wanted, env.a().attr.max_qp / 2 - 4, env.b().attr.max_qp / 2 - 4});
	QpSpec spec{.send_wr = 4, .recv_wr = 4};
	Pd pd_a = make_pd(env.a().ctx()), pd_b = make_pd(env.b().ctx());
	Cq cq_a = make_cq(env.a().ctx(), 8 * n), cq_b = make_cq(env.b().ctx(), 8 * n);
	std::vector<Qp> a, b;
	constexpr size_t each = 4000;
	Buffer source(pd_a.get(), each * static_cast<size_t>(n)), target(pd_b.get(), each * static_cast<size_t>(n));

	if (n < wanted)
		note("device allows only ", n, " pairs of QPs");
	for (int i = 0; i < n; i++) {
		Rc rc;

		rc.psn_ab = static_cast<uint32_t>(env.random()) & 0xffffff;
		a.push_back(make_qp(pd_a.get(), cq_a.get(), cq_a.get(), spec));
		b.push_back(make_qp(pd_b.get(), cq_b.get(), cq_b.get(), spec));
		connect(a.back().get(), env.a(), b.back().get(), env.b(), rc);
	}
	for (int round = 0; round < 3; round++) {
		uint64_t seed = env.random();
		std::vector<bool> done(static_cast<size_t>(n), false);

		pattern_fill(source.at(0), source.size(), seed, 0);
		for (size_t i = 0; i < static_cast<size_t>(n); i++)
			post_send(a[i].get(), {Op::write, i, {source.sge(i * each, each)}, target.addr(i * each), target.rkey()});
		for (int k = 0; k < n; k++) {
			ibv_wc wc = next_wc(env, cq_a.get(), cat("WRITE from one of ", n, " QPs"));

			require(wc.wr_id < static_cast<uint64_t>(n) && !done[wc.wr_id], "completion unknown or a duplicate: ", wc.wr_id);
			require_send_wc(wc, Op::write, wc.wr_id, a[wc.wr_id].get(), each);
			done[wc.wr_id] = true;
		}
		pattern_check(target.at(0), target.size(), seed, 0, "WRITEs from many QPs");
	}
}

// One QP, one thread that posts and one that polls.
void post_and_poll_threads(Env &env)
{
	Bench bench(env);
	uint64_t total = static_cast<uint64_t>(env.count(20000, 500));
	std::atomic<uint64_t> done = 0;
	constexpr uint64_t in_flight = 100;

	Worker poster([&](const std::atomic<bool> &stop) {
		for (uint64_t i = 0; i < total && !stop;) {
			if (i - done >= in_flight) { // the CQ holds no more
				sched_yield();
				continue;
			}
			int error = try_send(bench.pair.a.qp.get(), bench.write(i, 16));

			require(error == 0 || error == ENOMEM, "post: ", errno_name(error));
			if (error)
				sched_yield();
			else
				i++;
		}
	});

	while (done < total && !poster.failed()) {
		require_send_wc(next_wc(env, bench.pair.a.scq.get(), "WRITE of another thread"), Op::write, done, bench.pair.a.qp.get(), 16);
		done++;
	}
	poster.finish();
	require_eq(done.load(), total, "completions");
}

// Threads with a QP each, all completing into one CQ that all poll.
void shared_cq_threads(Env &env)
{
	constexpr uint64_t threads = 4;
	Pd pd_a = make_pd(env.a().ctx()), pd_b = make_pd(env.b().ctx());
	Cq cq = make_cq(env.a().ctx(), 512), cq_b = make_cq(env.b().ctx(), 512);
	Buffer source(pd_a.get(), 65536), target(pd_b.get(), 65536);
	std::vector<Qp> a, b;
	std::vector<std::unique_ptr<Worker>> workers;
	uint64_t each = static_cast<uint64_t>(env.count(3000, 100));
	std::atomic<uint64_t> completed = 0, started = 0;

	for (uint64_t i = 0; i < threads; i++) {
		a.push_back(make_qp(pd_a.get(), cq.get(), cq.get()));
		b.push_back(make_qp(pd_b.get(), cq_b.get(), cq_b.get()));
		connect(a[i].get(), env.a(), b[i].get(), env.b());
	}
	for (uint64_t t = 0; t < threads; t++)
		workers.push_back(std::make_unique<Worker>([&, t](const std::atomic<bool> &stop) {
			uint64_t posted = 0;
			Waiter waiter(env.patience(60));

			while (!stop && completed < threads * each) {
				Wr wr{Op::write, t << 32 | posted, {source.sge(t * 64, 64)}, target.addr(t * 64), target.rkey()};

				if (posted < each && started - completed < 400 && try_send(a[t].get(), wr) == 0)
					posted++, started++;
				while (auto wc = poll_one(cq.get())) {
					require(wc->status == IBV_WC_SUCCESS, "status ", ibv_wc_status_str(wc->status));
					completed++;
				}
				require(waiter.pause(), "threads on one CQ: ", completed.load(), " of ", threads * each);
			}
		}));
	for (Waiter waiter(env.patience(70)); completed < threads * each && waiter.pause();)
		if (std::any_of(workers.begin(), workers.end(), [](const auto &worker) { return worker->failed(); }))
			break;
	for (auto &worker : workers)
		worker->finish();
	require_eq(completed.load(), threads * each, "completions");
	require_silence(cq.get(), 0.02, "after all");
}

// One thread moves a QP to ERR or destroys it while another posts and polls on it.
void error_from_other_thread(Env &env)
{
	for (int round = 0; round < env.count(100, 10); round++) {
		Bench bench(env);
		std::atomic<uint64_t> posted = 0, polled = 0;
		bool flushing = false;

		Worker poster([&](const std::atomic<bool> &stop) {
			while (!stop && posted < 5000) {
				if (posted - polled >= 100) { // the CQ holds no more
					sched_yield();
					continue;
				}
				int error = try_send(bench.pair.a.qp.get(), bench.write(posted, 8));

				require(error == 0 || error == ENOMEM, "post: ", errno_name(error));
				posted += error == 0;
				if (error)
					sched_yield();
			}
		});
		sleep_seconds(0.0001 * static_cast<double>(env.random(30)));
		Worker breaker([&](const std::atomic<bool> &) { must(modify_state(bench.pair.a.qp.get(), IBV_QPS_ERR), "to ERR"); });

		for (uint64_t i = 0; i < 200; i++) {
			ibv_wc wc = next_wc(env, bench.pair.a.scq.get(), "while another thread breaks the QP");

			require_eq(wc.wr_id, i, "order of completions");
			require(wc.status == IBV_WC_WR_FLUSH_ERR || (wc.status == IBV_WC_SUCCESS && !flushing), ibv_wc_status_str(wc.status));
			flushing |= wc.status != IBV_WC_SUCCESS;
			polled++;
		}
		breaker.finish();
		poster.finish();
	}
}

// MRs come and go beside traffic that does not use them.
void mr_storm(Env &env)
{
	Bench steady(env);
	uint64_t moved = 0;
	Worker worker([&](const std::atomic<bool> &stop) { moved = steady_writes(env, steady, stop); });
	Buffer memory(1 << 20);

	for (int i = 0; i < env.count(2000, 100) && !worker.failed(); i++)
		make_mr(steady.pair.b.pd.get(), memory.at(0), 4096u << i % 8, all_access);
	worker.finish();
	require(moved > 0, "no traffic beside the storm");
}

} // namespace

void add_life_cases(Registry &cases)
{
	cases.push_back({"A36_destroy_outstanding", destroy_outstanding});
	cases.push_back({"B10_destroy_under_traffic", destroy_under_traffic});
	cases.push_back({"create_destroy_loop", create_destroy_loop});
	cases.push_back({"storm", storm});
	cases.push_back({"qps_64", [](Env &env) { many_qps(env, 64); }});
	cases.push_back({"qps_1000", [](Env &env) { many_qps(env, env.count(1000, 100)); }});
	cases.push_back({"threads_post_and_poll", post_and_poll_threads});
	cases.push_back({"threads_shared_cq", shared_cq_threads});
	cases.push_back({"B09_error_from_other_thread", error_from_other_thread});
	cases.push_back({"mr_storm", mr_storm});
}

} // namespace mv
