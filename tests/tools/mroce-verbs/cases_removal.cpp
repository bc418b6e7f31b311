// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What a program sees whose device is taken away: only with --remove, whose command takes away the first device, or both.
#include "work.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <thread>

namespace mv {

namespace {

// Runs the command in a thread of its own. Nobody waits for the thread: a command that hangs must not hang the case as well.
class Removal {
public:
	explicit Removal(const Options &options) : status_(std::make_shared<std::atomic<int>>(running))
	{
		std::thread([status = status_, command = options.remove] { *status = std::system(command.c_str()); }).detach();
	}

	void require_done(const Env &env) const
	{
		Waiter waiter(env.patience());

		while (*status_ == running)
			require(waiter.pause(), "the device's removal does not come to its end");
		require_eq(status_->load(), 0, "status of the removal");
	}

private:
	static constexpr int running = -1000;

	std::shared_ptr<std::atomic<int>> status_;
};

// A thread that sleeps in one call; the case does not end with it either.
class Sleeper {
public:
	template <class Body>
	explicit Sleeper(Body body) : error_(std::make_shared<std::atomic<int>>(asleep))
	{
		std::thread([error = error_, body] { *error = body(); }).detach();
	}

	[[nodiscard]] bool sleeps() const { return *error_ == asleep; }

	[[nodiscard]] int woken(const Env &env, std::string_view what) const
	{
		Waiter waiter(env.patience());

		while (sleeps())
			require(waiter.pause(), what, ": still asleep");
		return *error_;
	}

private:
	static constexpr int asleep = -1000;

	std::shared_ptr<std::atomic<int>> error_;
};

int sleep_in_channel(ibv_comp_channel *channel)
{
	ibv_cq *cq = nullptr;
	void *context = nullptr;

	errno = 0;
	return ibv_get_cq_event(channel, &cq, &context) ? errno : 0;
}

// Until the event that says so; other events may come before it.
int sleep_until_fatal(ibv_context *context)
{
	ibv_async_event event{};

	do {
		errno = 0;
		if (ibv_get_async_event(context, &event))
			return errno;
		ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_DEVICE_FATAL);
	return 0;
}

// WRITEs without an end. step() is false when the device is gone, and throws at anything but success, flush and EIO.
class Stream {
public:
	Stream(Pair &pair, bool forwards)
		: qp_((forwards ? pair.a : pair.b).qp.get()), cq_((forwards ? pair.a : pair.b).scq.get()),
		  source_((forwards ? pair.a : pair.b).pd.get(), length), target_((forwards ? pair.b : pair.a).pd.get(), length)
	{
	}

	[[nodiscard]] bool step()
	{
		ibv_wc wc[8];
		int n = ibv_poll_cq(cq_, 8, wc);

		if (n < 0) {
			require_eq(error_of(n), EIO, "ibv_poll_cq when the device goes");
			return false;
		}
		for (int i = 0; i < n; i++)
			take(wc[i]);
		// Posts that find the device gone leave it to the CQ to say so.
		while (posted_ - completed_ < 16 && !refused_) {
			int error = try_send(qp_, {Op::write, posted_, {source_.sge(0, length)}, target_.addr(), target_.rkey()});

			require(error == 0 || error == EIO, "ibv_post_send when the device goes: ", errno_name(error));
			refused_ = error == EIO;
			posted_ += error == 0;
		}
		return true;
	}

	[[nodiscard]] uint64_t completed() const { return completed_; }
	[[nodiscard]] bool failed() const { return failed_; }
	[[nodiscard]] int post() { return try_send(qp_, {Op::write, 0, {source_.sge(0, 8)}, target_.addr(), target_.rkey()}); }

private:
	static constexpr size_t length = 65536;

	void take(const ibv_wc &wc)
	{
		require_eq(wc.wr_id, completed_, "order of completions");
		// The first failure: flushed, or its connection was gone before the QP was in ERR.
		require(wc.status == IBV_WC_WR_FLUSH_ERR ||
				(!failed_ && (wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_RETRY_EXC_ERR)),
			"WRITE when the device goes: ", ibv_wc_status_str(wc.status));
		failed_ |= wc.status != IBV_WC_SUCCESS;
		completed_++;
	}

	ibv_qp *qp_;
	ibv_cq *cq_;
	Buffer source_, target_;
	uint64_t posted_ = 0, completed_ = 0;
	bool failed_ = false, refused_ = false;
};

void require_eio(bool refused, int error, std::string_view what)
{
	require(refused, what, " works on a device that is gone");
	require_eq(error, EIO, what, " on a device that is gone");
}

// Calls that return an errno value, and such that return an object.
#define EIO_FROM(call)                                                 \
	do {                                                           \
		int returned = (call);                                 \
		require_eio(returned != 0, error_of(returned), #call); \
	} while (0)
#define EIO_FOR(type, call)                                             \
	do {                                                            \
		errno = 0;                                              \
		type object(call);                                      \
		int error = errno;                                      \
		require_eio(object == nullptr, error, #call);           \
	} while (0)

void require_gone(End &end)
{
	ibv_context *context = end.dev.ctx();
	ibv_pd *pd = end.pd.get();
	ibv_qp *qp = end.qp.get();
	ibv_device_attr device{};
	ibv_port_attr port{};
	ibv_qp_attr attr{};
	ibv_qp_init_attr init{};
	Buffer memory(4096);
	ibv_wc wc;

	EIO_FROM(ibv_query_device(context, &device));
	EIO_FROM(ibv_query_port(context, end.dev.port_num, &port));
	EIO_FROM(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	EIO_FROM(modify_state(qp, IBV_QPS_ERR));
	EIO_FOR(Pd, ibv_alloc_pd(context));
	EIO_FOR(Mr, ibv_reg_mr(pd, memory.at(0), memory.size(), all_access));
	EIO_FOR(Channel, ibv_create_comp_channel(context));
	EIO_FOR(Cq, ibv_create_cq(context, 16, nullptr, nullptr, 0));
	init.send_cq = init.recv_cq = end.scq.get();
	init.cap = {4, 4, 1, 1, 0};
	init.qp_type = IBV_QPT_RC;
	EIO_FOR(Qp, ibv_create_qp(pd, &init));
	EIO_FROM(try_recv(qp, 1, {}));
	EIO_FROM(ibv_poll_cq(end.rcq.get(), 1, &wc));
}

// Until the stream has seen the device go; the pair's other direction keeps running meanwhile.
void stream_until_gone(Env &env, Stream &stream, Stream &other)
{
	Waiter waiter(env.patience());

	while (stream.step()) {
		(void)other.step();
		require(waiter.pause(), "nothing tells that the device is gone");
	}
}

// Traffic both ways, sleepers, then the device goes. The destroy calls at the end must all work: their handles see to that.
void traffic(Env &env, bool both)
{
	Pair pair(env, {.rc = {.timeout = 16}});
	Channel channel = make_channel(env.a().ctx());
	Cq idle = make_cq(env.a().ctx(), 16, channel.get());
	Stream there(pair, true), back(pair, false);
	uint64_t enough = static_cast<uint64_t>(env.count(500, 20));

	must(ibv_req_notify_cq(idle.get(), 0), "ibv_req_notify_cq");
	Sleeper in_channel([channel = channel.get()] { return sleep_in_channel(channel); });
	Sleeper in_events([context = env.a().ctx()] { return sleep_until_fatal(context); });
	for (Waiter waiter(env.patience()); there.completed() < enough || back.completed() < enough;) {
		require(there.step() && back.step() && !there.failed() && !back.failed(), "no traffic before the device goes");
		require(waiter.pause(), "traffic too slow");
	}
	require(in_channel.sleeps() && in_events.sleeps(), "events before the device goes");

	Removal removal(env.opt);

	stream_until_gone(env, there, back);
	removal.require_done(env);
	require_eq(in_channel.woken(env, "ibv_get_cq_event"), EIO, "a sleeper in ibv_get_cq_event");
	require_eq(in_events.woken(env, "ibv_get_async_event"), 0, "a sleeper in ibv_get_async_event");
	EIO_FROM(there.post());
	require_gone(pair.a);
	if (both) {
		stream_until_gone(env, back, there);
		EIO_FROM(back.post());
		require_gone(pair.b);
		return;
	}
	// The peer is told, or finds out; its own device works on.
	for (Waiter waiter(env.patience()); !back.failed();) {
		require(back.step(), "the peer's device is gone too");
		require(waiter.pause(), "the peer never learns that the device is gone");
	}
	End one(env.b(), {}, 128, false), two(env.b(), {}, 128, false);
	Buffer source(one.pd.get(), 4096), target(two.pd.get(), 4096);

	connect(one.qp.get(), env.b(), two.qp.get(), env.b());
	post_send(one.qp.get(), {Op::write, 1, {source.sge(0, 4096)}, target.addr(), target.rkey()});
	expect_wc(env, one.scq.get(), IBV_WC_SUCCESS, 1, one.qp.get(), "WRITE on the device that stays");
}

// True if it worked; false if the device is gone; anything else fails the case.
bool worked(bool success, int error, std::string_view what)
{
	require(success || error == EIO, what, " while the device goes: ", errno_name(error));
	return success;
}

// One round of all that can be created, connected to itself, used and destroyed; false when the device is gone.
bool create_round(Device &dev, std::byte *memory)
{
	errno = 0;
	Pd pd(ibv_alloc_pd(dev.ctx()));
	if (!worked(pd != nullptr, errno, "ibv_alloc_pd"))
		return false;
	Mr mr = try_mr(pd.get(), memory, 65536, all_access);
	if (!worked(mr != nullptr, errno, "ibv_reg_mr"))
		return false;
	errno = 0;
	Channel channel(ibv_create_comp_channel(dev.ctx()));
	if (!worked(channel != nullptr, errno, "ibv_create_comp_channel"))
		return false;
	Cq cq(ibv_create_cq(dev.ctx(), 32, nullptr, channel.get(), 0));
	if (!worked(cq != nullptr, errno, "ibv_create_cq"))
		return false;
	Qp qp = try_qp(pd.get(), cq.get(), cq.get(), {.send_wr = 8, .recv_wr = 8});
	if (!worked(qp != nullptr, errno, "ibv_create_qp"))
		return false;
	Rc rc{.psn_ab = 5, .psn_ba = 5};
	for (const Attributes &step : {init_attributes(dev, rc), rtr_attributes(dev, dev, qp->qp_num, 5, rc), rts_attributes(dev, dev, 5, rc)}) {
		int error = modify(qp.get(), step);

		// Before the program is cut off, all QPs are moved to ERR, and there are no new connections.
		if (error == EINVAL || error == ENODEV)
			return true;
		if (!worked(error == 0, error, "ibv_modify_qp"))
			return false;
	}
	ibv_sge sge{reinterpret_cast<uintptr_t>(memory), 60000, mr->lkey};
	int error = try_send(qp.get(), {Op::write, 1, {sge}, sge.addr, mr->rkey});

	return worked(error == 0, error, "ibv_post_send");
}

// Threads that create and destroy all the time, and never wait for what they have posted.
void creating(Env &env)
{
	constexpr int threads = 3;
	Device &dev = env.a();
	Buffer memory(threads * 65536);
	std::atomic<int> rounds = 0, ended = 0;
	std::vector<std::string> errors(threads);
	std::vector<std::jthread> workers;

	for (int i = 0; i < threads; i++)
		workers.emplace_back([&, i](const std::stop_token &stop) {
			try {
				while (!stop.stop_requested() && create_round(dev, memory.at(static_cast<size_t>(i) * 65536)))
					rounds++;
			} catch (const std::exception &error) {
				errors[static_cast<size_t>(i)] = error.what();
			}
			ended++;
		});
	for (Waiter waiter(env.patience()); rounds < env.count(100, 10) && !ended && waiter.pause();)
		;
	require(rounds > 0, "nothing was created before the device goes");
	Removal removal(env.opt);

	for (Waiter waiter(env.patience()); ended < threads;)
		require(waiter.pause(), "the device goes, and threads work on");
	removal.require_done(env);
	for (const std::string &error : errors)
		require(error.empty(), error);
	note(rounds.load(), " rounds before the device went");
}

} // namespace

void add_removal_cases(Registry &cases)
{
	cases.push_back({"removal_one_traffic", [](Env &env) { traffic(env, false); }});
	cases.push_back({"removal_both_traffic", [](Env &env) { traffic(env, true); }});
	cases.push_back({"removal_creating", creating});
}

} // namespace mv
