// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Random operations from many QPs in both directions, against a model of everything that must happen.
#include "work.h"

#include <algorithm>
#include <deque>

namespace mv {

namespace {

constexpr size_t slots = 16; // requests a QP may have in flight

struct Load {
	int qps = 4;
	uint64_t messages = 2000; // of each direction of each QP
	size_t largest = 60000;
	bool atomics = true;
	bool unsignalled = true;
};

// A request on its way, and what its end must look like.
struct Sent {
	uint64_t id;
	Op op;
	size_t length;
	size_t slot;
	uint64_t seed;
	uint64_t old_value;
	uint32_t imm;
	bool signalled;
};

// One direction of one connection: this end requests, the other responds.
class Flow {
public:
	Flow(Env &env, const Load &load, int number, ibv_pd *self_pd, ibv_pd *peer_pd, ibv_qp *self, ibv_qp *peer)
		: env_(env), load_(load), self_(self), peer_(peer), stride_(load.largest + 64),
		  local_(self_pd, slots * stride_ + 8192), remote_(peer_pd, slots * stride_ + 8192),
		  received_(peer_pd, 2 * slots * stride_), cookie_(static_cast<uint64_t>(number) << 32)
	{
		*remote_.word(counter_at()) = 0;
		for (size_t i = 0; i < 2 * slots; i++)
			post_one_receive();
	}

	[[nodiscard]] bool finished() const { return completed_ == load_.messages && expected_.empty(); }
	[[nodiscard]] uint64_t completed() const { return completed_; }
	[[nodiscard]] ibv_qp *self() const { return self_; }
	[[nodiscard]] ibv_qp *peer() const { return peer_; }

	// Posts a few random requests; false if there was no room or nothing left to do.
	bool post_some()
	{
		bool any = false;

		while (posted_ < load_.messages && in_flight_.size() < slots && env_.random(4)) {
			post_one();
			any = true;
		}
		return any;
	}

	void send_completed(const ibv_wc &wc)
	{
		std::string what = cat("send completion ", std::hex, wc.wr_id);

		// Those before it that asked for no completion are done as well.
		while (!in_flight_.empty() && in_flight_.front().id != wc.wr_id) {
			require(!in_flight_.front().signalled, what, ": a completion before it is missing, or this one is unknown or a duplicate");
			finish(in_flight_.front());
			in_flight_.pop_front();
		}
		require(!in_flight_.empty(), what, ": unknown or a duplicate");
		Sent sent = in_flight_.front();

		require(sent.signalled, what, ": completion of an unsignalled request");
		in_flight_.pop_front();
		require_send_wc(wc, sent.op, sent.id, self_, sent.length);
		finish(sent);
	}

	void receive_completed(const ibv_wc &wc)
	{
		require(!expected_.empty(), "receive completion ", wc.wr_id, ": no message is on its way");
		Sent sent = expected_.front();

		expected_.pop_front();
		require_recv_wc(wc, sent.op, cookie_ + next_received_, peer_, sent.length, sent.imm);
		if (sent.op != Op::write_imm)
			pattern_check(received_.at(next_received_ % (2 * slots) * stride_), sent.length, sent.seed, 0, "received message");
		next_received_++;
		post_one_receive();
	}

private:
	[[nodiscard]] size_t counter_at() const { return (slots * stride_ + 7) / 8 * 8; }
	[[nodiscard]] size_t fetched_at(size_t slot) const { return counter_at() + slot * 8; }

	void post_one_receive()
	{
		post_recv(peer_, cookie_ + posted_receives_, {received_.sge(posted_receives_ % (2 * slots) * stride_, load_.largest)});
		posted_receives_++;
	}

	[[nodiscard]] Op choose()
	{
		static const Op ops[] = {Op::write, Op::write, Op::write_imm, Op::send, Op::send, Op::send_imm, Op::read, Op::read, Op::fetch_add};

		return ops[env_.random(load_.atomics ? 9 : 8)];
	}

	void post_one()
	{
		Sent sent{cookie_ + posted_, choose(), 0, posted_ % slots, env_.random(), 0, 0, true};
		size_t at = sent.slot * stride_ + env_.random(16);

		sent.length = sent.op == Op::fetch_add ? 8 : env_.random(env_.random(3) ? 512 : load_.largest - 16);
		sent.imm = static_cast<uint32_t>(sent.seed);
		sent.signalled = !load_.unsignalled || posted_ % slots == slots - 1 || posted_ + 1 == load_.messages || env_.random(2);
		Wr wr{sent.op, sent.id, {local_.sge(at, sent.length)}, remote_.addr(at), remote_.rkey(), sent.imm};

		wr.flags = sent.signalled ? unsigned(IBV_SEND_SIGNALED) : 0u;
		if (sent.op == Op::fetch_add) {
			wr.sg = {local_.sge(fetched_at(sent.slot), 8)};
			wr.raddr = remote_.addr(counter_at());
			wr.compare_or_add = sent.seed;
			sent.old_value = counter_;
			counter_ += sent.seed;
		} else {
			pattern_fill((sent.op == Op::read ? remote_ : local_).at(at), sent.length, sent.seed, 0);
		}
		offsets_[sent.slot] = at;
		in_flight_.push_back(sent);
		if (takes_receive(sent.op))
			expected_.push_back(sent);
		post_send(self_, wr);
		posted_++;
	}

	void finish(const Sent &sent)
	{
		std::string what = cat(name_of(sent.op), " of ", sent.length, " bytes, request ", sent.id - cookie_);

		completed_++;
		if (sent.op == Op::read)
			pattern_check(local_.at(offsets_[sent.slot]), sent.length, sent.seed, 0, what);
		else if (sent.op == Op::write || sent.op == Op::write_imm)
			pattern_check(remote_.at(offsets_[sent.slot]), sent.length, sent.seed, 0, what);
		else if (sent.op == Op::fetch_add)
			require_eq(*local_.word(fetched_at(sent.slot)), sent.old_value, what, ": value");
	}

	Env &env_;
	const Load load_;
	ibv_qp *self_, *peer_;
	size_t stride_;
	Buffer local_, remote_, received_;
	uint64_t cookie_;
	uint64_t posted_ = 0, completed_ = 0, posted_receives_ = 0, next_received_ = 0, counter_ = 0;
	size_t offsets_[slots] = {};
	std::deque<Sent> in_flight_, expected_;
};

// All QPs of one end complete into one CQ.
struct Side {
	explicit Side(Device &device, int entries) : pd(make_pd(device.ctx())), cq(make_cq(device.ctx(), entries)) {}

	Pd pd;
	Cq cq;
	std::vector<Qp> qps;
};

class Storm {
public:
	Storm(Env &env, const Load &load)
		: env_(env), load_(load), a_(env.a(), load.qps * 128), b_(env.b(), load.qps * 128)
	{
		QpSpec spec{.send_wr = 2 * slots, .recv_wr = 2 * slots};

		for (int i = 0; i < load.qps; i++) {
			Rc rc;

			rc.min_rnr = 5;
			rc.psn_ab = static_cast<uint32_t>(env.random()) & 0xffffff;
			rc.psn_ba = static_cast<uint32_t>(env.random()) & 0xffffff;
			a_.qps.push_back(make_qp(a_.pd.get(), a_.cq.get(), a_.cq.get(), spec));
			b_.qps.push_back(make_qp(b_.pd.get(), b_.cq.get(), b_.cq.get(), spec));
			connect(a_.qps.back().get(), env.a(), b_.qps.back().get(), env.b(), rc);
			flows_.push_back(std::make_unique<Flow>(env, load, 2 * i, a_.pd.get(), b_.pd.get(), a_.qps.back().get(), b_.qps.back().get()));
			flows_.push_back(std::make_unique<Flow>(env, load, 2 * i + 1, b_.pd.get(), a_.pd.get(), b_.qps.back().get(), a_.qps.back().get()));
		}
	}

	void run()
	{
		auto last = Clock::now();
		uint64_t before = 0;
		Waiter waiter(env_.patience(280));

		while (!finished()) {
			bool busy = false;

			for (auto &flow : flows_)
				busy |= flow->post_some();
			busy |= poll(a_.cq.get()) | poll(b_.cq.get());
			uint64_t now = total();

			if (now != before)
				before = now, last = Clock::now();
			require(seconds_since(last) < env_.patience(), "no progress for ", env_.patience(), " s after ", now, " messages");
			if (busy)
				waiter.progress();
			require(waiter.pause(), "not finished in time: ", now, " messages");
		}
		require_silence(a_.cq.get(), 0.02, "after the last message");
		require_silence(b_.cq.get(), 0.02, "after the last message");
	}

private:
	[[nodiscard]] bool finished() const
	{
		return std::all_of(flows_.begin(), flows_.end(), [](const auto &flow) { return flow->finished(); });
	}

	[[nodiscard]] uint64_t total() const
	{
		uint64_t sum = 0;

		for (const auto &flow : flows_)
			sum += flow->completed();
		return sum;
	}

	bool poll(ibv_cq *cq)
	{
		ibv_wc wc[16];
		int n = ibv_poll_cq(cq, 16, wc);

		require(n >= 0, "ibv_poll_cq: ", errno_name(error_of(n)));
		for (int i = 0; i < n; i++)
			deliver(wc[i]);
		return n > 0;
	}

	void deliver(const ibv_wc &wc)
	{
		size_t number = wc.wr_id >> 32;

		require(number < flows_.size(), "completion with a wr_id that was never posted: ", wc.wr_id);
		require(wc.status == IBV_WC_SUCCESS, "completion with status ", ibv_wc_status_str(wc.status), " after ", total(), " messages");
		Flow &flow = *flows_[number];

		if (wc.opcode & IBV_WC_RECV) {
			require_eq(wc.qp_num, flow.peer()->qp_num, "qp_num of a receive");
			flow.receive_completed(wc);
		} else {
			require_eq(wc.qp_num, flow.self()->qp_num, "qp_num of a send");
			flow.send_completed(wc);
		}
	}

	Env &env_;
	const Load load_;
	Side a_, b_;
	std::vector<std::unique_ptr<Flow>> flows_;
};

void storm(Env &env, Load load)
{
	load.messages = static_cast<uint64_t>(env.count(static_cast<int>(load.messages), 30));
	load.largest = std::min(load.largest, env.size_limit());
	load.atomics = load.atomics && env.a().attr.atomic_cap != IBV_ATOMIC_NONE && env.b().attr.atomic_cap != IBV_ATOMIC_NONE;
	Storm(env, load).run();
}

} // namespace

void add_mixed_cases(Registry &cases)
{
	cases.push_back({"A36_mixed_1_qp", [](Env &env) { storm(env, {.qps = 1, .messages = 3000}); }});
	cases.push_back({"A36_mixed_8_qps", [](Env &env) { storm(env, {.qps = 8, .messages = 800}); }});
	cases.push_back({"A34_mixed_all_signalled", [](Env &env) { storm(env, {.qps = 4, .messages = 800, .unsignalled = false}); }});
	cases.push_back({"A36_mixed_small_64_qps", [](Env &env) { storm(env, {.qps = 64, .messages = 200, .largest = 600}); }});
	cases.push_back({"A36_mixed_large", [](Env &env) { storm(env, {.qps = 2, .messages = 150, .largest = 1 << 20}); }});
}

} // namespace mv
