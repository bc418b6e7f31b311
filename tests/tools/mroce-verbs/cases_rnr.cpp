// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Receiver not ready: retries counted and timed, for ever when asked to, and harmless to what comes after.
#include "work.h"

#include <fstream>

namespace mv {

namespace {

struct Bench {
	explicit Bench(Env &env, const Rc &rc = {}) : pair(env, PairSpec{.rc = rc}), source(pair.a.pd.get(), 65536), target(pair.b.pd.get(), 65536) {}

	[[nodiscard]] Wr message(Op op, uint64_t id, size_t length) const
	{
		return {op, id, {source.sge(0, length)}, target.addr(), target.rkey(), static_cast<uint32_t>(id)};
	}

	Pair pair;
	Buffer source, target;
};

// The timer behind a 5-bit code, in seconds.
double rnr_seconds(uint8_t code)
{
	static const double ms[32] = {655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32,
				      0.48,   0.64, 0.96, 1.28, 1.92, 2.56, 3.84, 5.12, 7.68, 10.24, 15.36,
				      20.48,  30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52};

	return ms[code & 31] / 1000;
}

void used_up(Env &env, Op op, uint8_t retries)
{
	Rc rc{.rnr = retries, .min_rnr = 24};
	Bench bench(env, rc);
	auto start = Clock::now();

	bench.target.paint_all();
	post_send(bench.pair.a.qp.get(), bench.message(op, 1, 5000));
	post_send(bench.pair.a.qp.get(), bench.message(op, 2, 5000));
	expect_wc(env, bench.pair.a.scq.get(), IBV_WC_RNR_RETRY_EXC_ERR, 1, bench.pair.a.qp.get(), cat("rnr_retry ", int(retries)));
	double took = seconds_since(start), expected = rnr_seconds(24) * retries;

	note("rnr_retry ", int(retries), ": given up after ", took * 1000, " ms, at least ", expected * 1000, " ms wanted");
	require(took >= expected * 0.9, "given up after ", took * 1000, " ms, before ", int(retries), " retries of 41 ms");
	require(took < (expected * 5 + 2) * env.opt.slow, "given up only after ", took, " s");
	expect_wc(env, bench.pair.a.scq.get(), IBV_WC_WR_FLUSH_ERR, 2, bench.pair.a.qp.get(), "the request behind it");
	if (op != Op::write_imm) // its data may be there already; nobody was told
		bench.target.check_all_painted("after a message that found no receive");
	require_silence(bench.pair.b.rcq.get(), 0.02, "receiver of a message that found no receive");
	// The same two QPs, connected anew, deliver as if nothing had happened.
	bench.pair.reconnect();
	pattern_fill(bench.source.at(0), 5000, 8, 0);
	post_recv(bench.pair.b.qp.get(), 3, {bench.target.sge(0, 8192)});
	post_send(bench.pair.a.qp.get(), bench.message(op, 4, 5000));
	require_recv_wc(next_wc(env, bench.pair.b.rcq.get(), "receive"), op, 3, bench.pair.b.qp.get(), 5000, 4);
	expect_wc(env, bench.pair.a.scq.get(), IBV_WC_SUCCESS, 4, bench.pair.a.qp.get(), "send");
	pattern_check(bench.target.at(0), 5000, 8, 0, "message after the error");
}

// The receive comes `factor` RNR times late: honoured in full, delivered once.
void late_receive(Env &env, Op op, uint8_t code, double factor, uint8_t timeout)
{
	Rc rc{.timeout = timeout, .retry = 3, .rnr = 7, .min_rnr = code};
	Bench bench(env, rc);
	uint64_t seed = env.random();

	pattern_fill(bench.source.at(0), 30000, seed, 0);
	post_send(bench.pair.a.qp.get(), bench.message(op, 1, 30000));
	post_send(bench.pair.a.qp.get(), bench.message(op, 2, 100));
	require_silence(bench.pair.a.scq.get(), rnr_seconds(code) * factor, "before the receive");
	post_recv(bench.pair.b.qp.get(), 11, {bench.target.sge(0, 30000)});
	post_recv(bench.pair.b.qp.get(), 12, {bench.target.sge(30000, 100)});
	require_recv_wc(next_wc(env, bench.pair.b.rcq.get(), "late receive"), op, 11, bench.pair.b.qp.get(), 30000, 1);
	require_recv_wc(next_wc(env, bench.pair.b.rcq.get(), "late receive"), op, 12, bench.pair.b.qp.get(), 100, 2);
	require_send_wc(next_wc(env, bench.pair.a.scq.get(), "send"), op, 1, bench.pair.a.qp.get(), 30000);
	require_send_wc(next_wc(env, bench.pair.a.scq.get(), "send"), op, 2, bench.pair.a.qp.get(), 100);
	pattern_check(bench.target.at(0), op == Op::write_imm ? 0 : 30000, seed, 0, "late receive");
	require_silence(bench.pair.b.rcq.get(), 0.05, "after both messages");
}

void timer_shorter_than_rnr(Env &env)
{
	// Retransmission would give up after 4 * 33 ms; the RNR time is 246 ms.
	for (double factor : {0.5, 1.5, 2.5})
		for (Op op : {Op::send, Op::write_imm})
			late_receive(env, op, 29, factor, 13);
}

// Each message finds its receive late, many times.
void storm(Env &env)
{
	Bench bench(env, {.rnr = 7, .min_rnr = 1});

	for (uint64_t i = 0; i < static_cast<uint64_t>(env.count(200, 10)); i++) {
		uint64_t seed = env.random();
		size_t length = 1 + env.random(30000);
		Op op = i % 3 ? Op::send : Op::send_imm;

		pattern_fill(bench.source.at(0), length, seed, 0);
		post_send(bench.pair.a.qp.get(), bench.message(op, i, length));
		if (env.random(2))
			sleep_seconds(0.0001 * static_cast<double>(env.random(20)));
		post_recv(bench.pair.b.qp.get(), i, {bench.target.sge(0, 30000)});
		require_recv_wc(next_wc(env, bench.pair.b.rcq.get(), "receive"), op, i, bench.pair.b.qp.get(), length, static_cast<uint32_t>(i));
		require_send_wc(next_wc(env, bench.pair.a.scq.get(), "send"), op, i, bench.pair.a.qp.get(), length);
		pattern_check(bench.target.at(0), length, seed, 0, "message of a storm");
	}
}

// Many messages queued behind one that waits: delivered in order, each once.
void queue_behind(Env &env)
{
	Bench bench(env, {.rnr = 7, .min_rnr = 12});

	for (int round = 0; round < env.count(20, 2); round++) {
		for (uint64_t i = 0; i < 50; i++)
			post_send(bench.pair.a.qp.get(), bench.message(i % 4 == 3 ? Op::write : Op::send_imm, i, 8));
		sleep_seconds(0.005);
		for (uint64_t i = 0; i < 50; i++) {
			if (i % 4 != 3) {
				post_recv(bench.pair.b.qp.get(), 100 + i, {bench.target.sge(0, 64)});
				require_recv_wc(next_wc(env, bench.pair.b.rcq.get(), "receive"), Op::send_imm, 100 + i, bench.pair.b.qp.get(), 8,
						static_cast<uint32_t>(i));
			}
			require_send_wc(next_wc(env, bench.pair.a.scq.get(), "send"), i % 4 == 3 ? Op::write : Op::send_imm, i,
					bench.pair.a.qp.get(), 8);
		}
	}
}

// The share of all CPUs that was busy between two readings of /proc/stat.
class CpuMeter {
public:
	CpuMeter() { read(busy_, all_); }

	[[nodiscard]] double share() const
	{
		double busy = 0, all = 0;

		read(busy, all);
		return all > all_ ? (busy - busy_) / (all - all_) : 0;
	}

private:
	static void read(double &busy, double &all)
	{
		std::ifstream stat("/proc/stat");
		std::string cpu;
		double value;

		stat >> cpu;
		busy = all = 0;
		for (int field = 0; field < 8 && stat >> value; field++) {
			all += value;
			if (field != 3 && field != 4)
				busy += value;
		}
	}

	double busy_ = 0, all_ = 0;
};

// Infinite retry with the smallest timer, then destruction: quick, and cheap until then.
void infinite_then_destroy(Env &env)
{
	for (uint8_t code : {1, 14, 0}) {
		Bench bench(env, {.rnr = 7, .min_rnr = code});

		post_send(bench.pair.a.qp.get(), bench.message(Op::send, 1, 100));
		CpuMeter meter;

		sleep_seconds(1);
		note("infinite RNR retry with timer code ", int(code), ": CPUs ", int(meter.share() * 100), " % busy");
		require_silence(bench.pair.a.scq.get(), 0.05, "infinite RNR retry");
		auto start = Clock::now();

		bench.pair.a.qp.reset();
		require(seconds_since(start) < env.opt.slow, "destroying a QP in RNR wait took ", seconds_since(start), " s");
		start = Clock::now();
		bench.pair.b.qp.reset();
		require(seconds_since(start) < env.opt.slow, "destroying its peer took ", seconds_since(start), " s");
	}
}

// RESET in the middle of the wait forgets the message for good.
void reset_in_wait(Env &env)
{
	Bench bench(env, {.rnr = 7, .min_rnr = 20});

	for (int round = 0; round < env.count(20, 3); round++) {
		bench.target.paint_all();
		post_send(bench.pair.a.qp.get(), bench.message(Op::send, 1, 5000));
		sleep_seconds(0.002);
		bench.pair.reconnect();
		post_recv(bench.pair.b.qp.get(), 2, {bench.target.sge(0, 8192)});
		require_silence(bench.pair.b.rcq.get(), 0.03, "message from before RESET");
		bench.target.check_all_painted("message from before RESET");
		post_send(bench.pair.a.qp.get(), bench.message(Op::send, 3, 77));
		require_recv_wc(next_wc(env, bench.pair.b.rcq.get(), "receive"), Op::send, 2, bench.pair.b.qp.get(), 77, 0);
		expect_wc(env, bench.pair.a.scq.get(), IBV_WC_SUCCESS, 3, bench.pair.a.qp.get(), "send");
	}
}

// After RNR on WRITE_WITH_IMM, the MR can be deregistered at once.
void dereg_after_rnr(Env &env)
{
	Bench bench(env, {.rnr = 1, .min_rnr = 12});

	post_send(bench.pair.a.qp.get(), bench.message(Op::write_imm, 1, 20000));
	expect_wc(env, bench.pair.a.scq.get(), IBV_WC_RNR_RETRY_EXC_ERR, 1, bench.pair.a.qp.get(), "WRITE_WITH_IMM");
	auto start = Clock::now();

	bench.target.mr().reset();
	bench.source.mr().reset();
	require(seconds_since(start) < env.opt.slow, "deregistration took ", seconds_since(start), " s");
}

} // namespace

void add_rnr_cases(Registry &cases)
{
	for (int retries : {0, 1, 6})
		for (Op op : {Op::send, Op::write_imm})
			cases.push_back({cat("A52_rnr_retry_", retries, "_", name_of(op)),
					 [=](Env &env) { used_up(env, op, static_cast<uint8_t>(retries)); }, true});
	cases.push_back({"A52_rnr_retry_7_SEND", [](Env &env) { late_receive(env, Op::send, 20, 30, 14); }});
	cases.push_back({"A52_rnr_retry_7_WRITE_WITH_IMM", [](Env &env) { late_receive(env, Op::write_imm, 20, 30, 14); }});
	cases.push_back({"C01_timer_shorter_than_rnr", timer_shorter_than_rnr, true});
	cases.push_back({"A04_rnr_storm", storm});
	cases.push_back({"rnr_queue_behind", queue_behind});
	cases.push_back({"A03_infinite_then_destroy", infinite_then_destroy, true});
	cases.push_back({"rnr_reset_in_wait", reset_in_wait});
	cases.push_back({"B16_dereg_after_rnr", dereg_after_rnr});
}

} // namespace mv
