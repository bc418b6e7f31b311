// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Processes: killed in mid-traffic, forked with live queue pairs, one at each end.
#include "work.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

namespace mv {

namespace {

// A child process that is killed and reaped at the latest when its owner goes away.
class Child {
public:
	template <class Body>
	explicit Child(Body body) : pid_(fork())
	{
		require(pid_ >= 0, "fork: ", errno_name(errno));
		if (pid_)
			return;
		int status = 0;

		try {
			body();
		} catch (const std::exception &error) {
			note("child: ", error.what());
			status = 1;
		}
		_exit(status);
	}
	~Child()
	{
		if (pid_ > 0) {
			::kill(pid_, SIGKILL);
			waitpid(pid_, nullptr, 0);
		}
	}
	Child(const Child &) = delete;
	Child &operator=(const Child &) = delete;

	void kill() { ::kill(pid_, SIGKILL); }

	// Its wait status, within so many seconds.
	[[nodiscard]] int reap(double seconds, std::string_view what)
	{
		Waiter waiter(seconds);
		int status = 0;

		do {
			if (waitpid(pid_, &status, WNOHANG) == pid_) {
				pid_ = -1;
				return status;
			}
		} while (waiter.pause());
		fail(what, ": the process is still there after ", seconds, " s");
	}

private:
	pid_t pid_;
};

// A pipe that carries small structures.
class Pipe {
public:
	Pipe() { must(pipe(ends_), "pipe"); }
	~Pipe()
	{
		close(ends_[0]);
		close(ends_[1]);
	}
	Pipe(const Pipe &) = delete;
	Pipe &operator=(const Pipe &) = delete;

	template <class T>
	void put(const T &value)
	{
		require(write(ends_[1], &value, sizeof(value)) == ssize_t(sizeof(value)), "write to a pipe");
	}

	template <class T>
	[[nodiscard]] T get()
	{
		T value;

		require(read(ends_[0], &value, sizeof(value)) == ssize_t(sizeof(value)), "read from a pipe");
		return value;
	}

private:
	int ends_[2];
};

struct Address {
	uint32_t qpn;
	uint32_t rkey;
	uint64_t addr;
};

// Both ends in one child, full load in both directions, until killed.
void load_until_killed(Env &env, Pipe &started)
{
	std::vector<std::unique_ptr<Pair>> pairs;
	std::vector<std::unique_ptr<Buffer>> buffers;

	for (int i = 0; i < 8; i++) {
		pairs.push_back(std::make_unique<Pair>(env));
		buffers.push_back(std::make_unique<Buffer>(pairs.back()->a.pd.get(), 1 << 20));
		buffers.push_back(std::make_unique<Buffer>(pairs.back()->b.pd.get(), 1 << 20));
	}
	for (uint64_t round = 0;; round++) {
		for (size_t i = 0; i < pairs.size(); i++) {
			Buffer &a = *buffers[2 * i], &b = *buffers[2 * i + 1];
			Op op = std::vector{Op::write, Op::read, Op::send}[round % 3];

			(void)try_send(pairs[i]->a.qp.get(), {op, round, {a.sge(0, op == Op::send ? 64 : 1 << 19)}, b.addr(), b.rkey()});
			(void)try_send(pairs[i]->b.qp.get(), {Op::write, round, {b.sge(1 << 19, 100000)}, a.addr(1 << 19), a.rkey()});
			drain(pairs[i]->a.scq.get());
			drain(pairs[i]->b.scq.get());
		}
		if (round == 3)
			started.put(1);
	}
}

void killed(Env &env)
{
	for (int round = 0; round < env.count(10, 2); round++) {
		Pipe started;
		Child child([&] { load_until_killed(env, started); });

		require_eq(started.get<int>(), 1, "child");
		sleep_seconds(0.001 * static_cast<double>(env.random(50)));
		auto start = Clock::now();

		child.kill();
		(void)child.reap(env.patience(10), "a process killed under load");
		note("killed process gone after ", seconds_since(start), " s");
	}
	Pair pair(env);

	require_alive(env, pair);
}

// Exits with everything open and requests in flight; the kernel cleans up.
void exit_with_objects(Env &env)
{
	for (int round = 0; round < env.count(30, 4); round++) {
		Child child([&] {
			Pair pair(env, {.with_channel = true});
			Buffer source(pair.a.pd.get(), 65536), target(pair.b.pd.get(), 65536);

			for (uint64_t i = 0; i < 60; i++)
				post_send(pair.a.qp.get(), {Op::write, i, {source.sge(0, 60000)}, target.addr(), target.rkey()});
			_exit(0);
		});

		require_eq(child.reap(env.patience(10), "a process that exits with requests in flight"), 0, "its exit status");
	}
	Pair pair(env);

	require_alive(env, pair);
}

// Killed while it waits in infinite RNR retry.
void killed_in_rnr(Env &env)
{
	Pipe started;
	Child child([&] {
		Pair pair(env, {.rc = {.min_rnr = 1}});
		Buffer source(pair.a.pd.get(), 4096);

		post_send(pair.a.qp.get(), {Op::send, 1, {source.sge(0, 64)}});
		started.put(1);
		sleep_seconds(1000);
	});

	require_eq(started.get<int>(), 1, "child");
	sleep_seconds(0.3);
	auto start = Clock::now();

	child.kill();
	(void)child.reap(env.patience(5), "a process killed in RNR wait");
	note("process in RNR wait gone after ", seconds_since(start), " s");
}

// The child owns one end only: when it is killed, the other end gets an error in bounded time.
void peer_killed(Env &env)
{
	Pipe up, down;
	Child child([&] {
		End end(env.b(), {}, 128, false);
		Buffer target(end.pd.get(), 1 << 20);
		Rc rc;
		Device &other = env.a();

		up.put(Address{end.qp->qp_num, target.rkey(), target.addr()});
		auto peer = down.get<Address>();

		connect_half(end.qp.get(), env.b(), other, peer.qpn, false, rc);
		up.put(1);
		sleep_seconds(1000);
	});
	auto peer = up.get<Address>();
	End end(env.a(), {}, 128, false);
	Buffer source(end.pd.get(), 1 << 20);
	Rc rc{.timeout = 14, .retry = 2};

	down.put(Address{end.qp->qp_num, 0, 0});
	require_eq(up.get<int>(), 1, "child");
	connect_half(end.qp.get(), env.a(), env.b(), peer.qpn, true, rc);
	post_send(end.qp.get(), {Op::write, 0, {source.sge(0, 1 << 20)}, peer.addr, peer.rkey});
	expect_wc(env, end.scq.get(), IBV_WC_SUCCESS, 0, end.qp.get(), "WRITE to another process");
	for (uint64_t i = 0; i < 50; i++)
		post_send(end.qp.get(), {Op::write, i, {source.sge(0, 1 << 20)}, peer.addr, peer.rkey});
	child.kill();
	(void)child.reap(env.patience(10), "a killed peer");
	for (uint64_t i = 50; i < 60; i++) // these certainly find nobody
		post_send(end.qp.get(), {Op::write, i, {source.sge(0, 64)}, peer.addr, peer.rkey});
	auto start = Clock::now();
	bool failed = false;

	for (uint64_t i = 0; i < 60; i++) {
		ibv_wc wc = next_wc(env, end.scq.get(), "WRITE to a killed process");

		require_eq(wc.wr_id, i, "order of completions");
		require(!failed || wc.status == IBV_WC_WR_FLUSH_ERR, "after the first error: ", ibv_wc_status_str(wc.status));
		require(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_WR_FLUSH_ERR || wc.status == IBV_WC_RETRY_EXC_ERR ||
				wc.status == IBV_WC_REM_ACCESS_ERR || wc.status == IBV_WC_REM_OP_ERR || wc.status == IBV_WC_REM_INV_REQ_ERR,
			"WRITE to a killed process: ", ibv_wc_status_str(wc.status));
		failed |= wc.status != IBV_WC_SUCCESS;
	}
	require(failed, "WRITEs posted after the peer was gone succeeded");
	note("error ", seconds_since(start), " s after the peer was gone");
}

// A child that only exits must not disturb the QPs of its parent.
void fork_with_live_qp(Env &env, bool closes_files)
{
	Pair pair(env, {.with_channel = true});
	Buffer source(pair.a.pd.get(), 65536), target(pair.b.pd.get(), 65536);

	for (int round = 0; round < env.count(20, 3); round++) {
		uint64_t seed = env.random();

		pattern_fill(source.at(0), 65536, seed, 0);
		post_send(pair.a.qp.get(), {Op::write, 1, {source.sge(0, 65536)}, target.addr(), target.rkey()});
		Child child([&] {
			if (closes_files) {
				close(env.a().ctx()->cmd_fd);
				close(env.a().ctx()->async_fd);
				close(pair.a.channel->fd);
			}
			source.at(100)[0] = std::byte(0x55);
			target.at(100)[0] = std::byte(0x55);
		});

		require_eq(child.reap(env.patience(), "the child"), 0, "exit status of the child");
		expect_wc(env, pair.a.scq.get(), IBV_WC_SUCCESS, 1, pair.a.qp.get(), "WRITE across a fork");
		pattern_check(target.at(0), 65536, seed, 0, "WRITE across a fork");
		// Memory registered before the fork is still the parent's own.
		pattern_fill(source.at(0), 65536, seed + 1, 0);
		post_send(pair.a.qp.get(), {Op::write, 2, {source.sge(0, 65536)}, target.addr(), target.rkey()});
		expect_wc(env, pair.a.scq.get(), IBV_WC_SUCCESS, 2, pair.a.qp.get(), "WRITE after a fork");
		pattern_check(target.at(0), 65536, seed + 1, 0, "WRITE after a fork");
	}
}

// Several processes work at the same time over the same devices.
void many_processes(Env &env)
{
	std::vector<std::unique_ptr<Child>> children;

	for (int i = 0; i < 6; i++)
		children.push_back(std::make_unique<Child>([&env, i] {
			Env own(env.opt, cat("process ", i));
			Mover mover(own, {}, 100000);

			for (int k = 0; k < own.count(100, 10); k++)
				mover.move(k % 2 ? Op::write : Op::read, {.length = std::min<size_t>(own.random(100000), own.size_limit())});
		}));
	for (auto &child : children)
		require_eq(child->reap(env.patience(100), "one of six processes"), 0, "exit status of one of six processes");
}

} // namespace

void add_process_cases(Registry &cases)
{
	cases.push_back({"B17_killed", killed});
	cases.push_back({"exit_with_objects", exit_with_objects});
	cases.push_back({"A03_killed_in_rnr", killed_in_rnr});
	cases.push_back({"peer_killed", peer_killed});
	cases.push_back({"A43_fork_with_live_qp", [](Env &env) { fork_with_live_qp(env, false); }});
	cases.push_back({"A43_fork_child_closes", [](Env &env) { fork_with_live_qp(env, true); }});
	cases.push_back({"many_processes", many_processes});
}

} // namespace mv
