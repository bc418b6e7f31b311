// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Every operation at every size where something could change: empty, odd, around each packet size, large.
#include "work.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <sys/mman.h>
#include <unistd.h>

namespace mv {

namespace {

constexpr Op data_ops[] = {Op::write, Op::write_imm, Op::send, Op::send_imm, Op::read};

std::vector<size_t> interesting_sizes(const Env &env)
{
	std::vector<size_t> sizes = {0, 1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 255, 256, 257};

	for (size_t payload : {1024, 1408, 2048, 4096, 8192})
		for (size_t times : {1, 2, 3})
			for (size_t size : {payload * times - 1, payload * times, payload * times + 1})
				sizes.push_back(size);
	for (size_t size : {65535, 65536, 65537, 300007, 1048575, 1048576, 1048577, 8388608, 8388609})
		sizes.push_back(size);
	std::erase_if(sizes, [&](size_t size) { return size > env.size_limit(); });
	return sizes;
}

PairSpec spec_for(Api api)
{
	PairSpec spec;

	if (api != Api::classic)
		spec.qp.ex_ops = all_ex_ops;
	return spec;
}

void sizes(Env &env, Op op, Api api)
{
	Mover mover(env, spec_for(api), env.size_limit());

	for (size_t size : interesting_sizes(env))
		mover.move(op, {.length = size, .api = api});
}

// Each path MTU the devices have, although ours may send in packets of another size.
void path_mtus(Env &env)
{
	ibv_mtu most = std::min(env.a().port.active_mtu, env.b().port.active_mtu);

	for (int mtu = IBV_MTU_256; mtu <= most; mtu++) {
		PairSpec spec;

		spec.rc.mtu = static_cast<ibv_mtu>(mtu);
		Mover mover(env, spec, 20000);
		size_t bytes = 128u << mtu;

		for (Op op : data_ops)
			for (size_t size : {bytes - 1, bytes, bytes + 1, 2 * bytes - 1, 2 * bytes, 2 * bytes + 1, size_t(20000)})
				mover.move(op, {.length = size});
	}
}

void alignments(Env &env, Op op)
{
	Mover mover(env, {}, 40000);
	size_t base = Buffer::guard;

	for (size_t source : {0, 1, 2, 3, 4, 7, 2047})
		for (size_t target : {0, 1, 3, 4, 6, 2041})
			for (size_t length : {1, 8, 1025, 9000})
				mover.move(op, {.length = length, .local_offset = base + source, .remote_offset = base + target});
	// Ending and starting exactly at a page.
	for (size_t length : {1, 100, 4095, 4096, 4097, 8192})
		mover.move(op, {.length = length, .local_offset = 16384 - length, .remote_offset = 16384});
	for (int i = 0; i < env.count(200, 20); i++)
		mover.move(op, {.length = env.random(30000), .local_offset = base + env.random(5000), .remote_offset = base + env.random(5000)});
}

void random_sizes(Env &env)
{
	Mover mover(env, {}, env.size_limit());

	for (int i = 0; i < env.count(300, 20); i++) {
		size_t length = env.random(uint64_t(1) << (1 + env.random(17)));

		mover.move(data_ops[env.random(5)], {.length = std::min(length, env.size_limit())});
	}
}

// A message of exactly the largest size, from and to memory that repeats 2 MiB: 2 GiB of addresses, little memory.
class Repeated {
public:
	static constexpr size_t piece = 2 << 20, times = 1024;

	explicit Repeated(ibv_pd *pd)
	{
		int fd = memfd_create("mroce-verbs", MFD_CLOEXEC);

		require(fd >= 0 && ftruncate(fd, piece) == 0, "memfd");
		base_ = static_cast<char *>(mmap(nullptr, piece * times, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
		require(base_ != MAP_FAILED, "mmap of 2 GiB of addresses");
		for (size_t i = 0; i < times; i++)
			require(mmap(base_ + i * piece, piece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED, "mmap");
		close(fd);
		mr = make_mr(pd, base_, piece * times, all_access);
	}
	Repeated(const Repeated &) = delete;
	Repeated &operator=(const Repeated &) = delete;
	~Repeated()
	{
		mr.reset();
		munmap(base_, piece * times);
	}

	[[nodiscard]] char *at(size_t offset) const { return base_ + offset; }
	[[nodiscard]] uint64_t addr() const { return reinterpret_cast<uintptr_t>(base_); }

	Mr mr;

private:
	char *base_;
};

bool user_mode_linux()
{
	std::ifstream cpuinfo("/proc/cpuinfo");
	std::string text(std::istreambuf_iterator<char>(cpuinfo), {});

	return text.find("User Mode Linux") != std::string::npos;
}

void two_gib(Env &env)
{
	if (env.opt.scale < 2)
		skip("moves 4 GiB: only from --scale 2 on");
	if (user_mode_linux())
		skip("this kernel cannot map 2 GiB in one process");
	Pair pair(env);
	Repeated source(pair.a.pd.get()), target(pair.b.pd.get());
	constexpr uint32_t length = 1u << 31;

	pattern_fill(source.at(0), Repeated::piece, 77, 0);
	for (Op op : {Op::write, Op::read}) {
		Repeated &to = op == Op::write ? target : source;
		Repeated &from = op == Op::write ? source : target;

		pattern_fill(from.at(0), Repeated::piece, 77, 0);
		pattern_fill(to.at(0), Repeated::piece, 78, 0);
		post_send(pair.a.qp.get(), {op, 1, {{source.addr(), length, source.mr->lkey}}, target.addr(), target.mr->rkey});
		auto start = Clock::now();
		std::optional<ibv_wc> wc;

		while (!wc && seconds_since(start) < env.patience(250))
			wc = poll_one(pair.a.scq.get());
		require(wc.has_value(), name_of(op), " of 2 GiB: no completion");
		require_send_wc(*wc, op, 1, pair.a.qp.get(), length);
		pattern_check(to.at(0), Repeated::piece, 77, 0, "2 GiB");
	}
}

// Posts lists whose true sum is beyond 2 GiB, though small in 32 bits: refused at once or in error, nothing sent.
void refuse_lists(Env &env, Pair &pair, Op op, const std::vector<SgeList> &lists)
{
	Buffer target(pair.b.pd.get(), 8192);

	target.paint_all();
	for (const SgeList &list : lists) {
		if (takes_receive(op))
			post_recv(pair.b.qp.get(), 5, {target.sge(0, 4096)});
		int error = try_send(pair.a.qp.get(), {op, 1, list, target.addr(), target.rkey()});

		if (error) {
			require(error == EINVAL || error == EMSGSIZE, "post of more than 2 GiB: ", errno_name(error));
			continue;
		}
		ibv_wc wc = next_wc(env, pair.a.scq.get(), "message of more than 2 GiB");

		require(wc.status == IBV_WC_LOC_LEN_ERR || wc.status == IBV_WC_LOC_PROT_ERR || wc.status == IBV_WC_LOC_QP_OP_ERR,
			"message of more than 2 GiB: ", ibv_wc_status_str(wc.status));
		pair.reconnect();
	}
	target.check_all_painted("after messages of more than 2 GiB");
}

// The elements reach beyond their MR as well.
void sum_overflow(Env &env, Op op)
{
	Pair pair(env, {.qp = {.send_sge = 3, .recv_sge = 3}});
	Buffer memory(pair.a.pd.get(), 8192);
	uint32_t key = memory.lkey(), half = 1u << 31;
	uint64_t at = memory.addr();

	refuse_lists(env, pair, op,
		     {{{at, half, key}, {at, half, key}},
		      {{at, half, key}, {at, half, key}, {at, 64, key}},
		      {{at, 64, key}, {at, half, key}, {at, half, key}},
		      {{at, 100, key}, {at, 0xffffffff, key}, {at, 1, key}},
		      {{at, 0xffffffff, key}, {at, 2, key}}});
}

// Each element is good for itself.
void sum_overflow_in_bounds(Env &env, Op op)
{
	if (user_mode_linux())
		skip("this kernel cannot map 2 GiB in one process");
	Pair pair(env, {.qp = {.send_sge = 3, .recv_sge = 3}});
	Repeated memory(pair.a.pd.get());
	uint32_t key = memory.mr->lkey, half = 1u << 31;
	uint64_t at = memory.addr();

	refuse_lists(env, pair, op,
		     {{{at, half, key}, {at, half, key}}, {{at, half, key}, {at, half, key}, {at, 64, key}}, {{at, half, key}, {at, 1, key}}});
}

void zero_length_elements(Env &env)
{
	Pair pair(env, {.qp = {.send_sge = 4, .recv_sge = 4}});
	Buffer source(pair.a.pd.get(), 8192), target(pair.b.pd.get(), 8192);
	SgeList from = {source.sge(0, 0), source.sge(64, 10), source.sge(128, 0), source.sge(192, 3000)};
	SgeList to = {target.sge(0, 5), target.sge(100, 0), target.sge(200, 3005)};

	if (static_cast<int>(pair.a.cap.max_send_sge) < 4 || static_cast<int>(pair.b.cap.max_recv_sge) < 3)
		skip("too few SGEs");
	pattern_fill(from, 3);
	post_recv(pair.b.qp.get(), 2, to);
	post_send(pair.a.qp.get(), {Op::send, 1, from});
	require_recv_wc(next_wc(env, pair.b.rcq.get(), "receive"), Op::send, 2, pair.b.qp.get(), 3010, 0);
	require_send_wc(next_wc(env, pair.a.scq.get(), "send"), Op::send, 1, pair.a.qp.get(), 3010);
	pattern_check(to, 3010, 3, "elements of length 0");
}

} // namespace

void add_size_cases(Registry &cases)
{
	for (Op op : data_ops)
		cases.push_back({cat("A14_sizes_", name_of(op)), [op](Env &env) { sizes(env, op, Api::classic); }});
	for (Op op : data_ops)
		cases.push_back({cat("A14_sizes_ex_", name_of(op)), [op](Env &env) { sizes(env, op, Api::ex); }});
	for (Op op : data_ops)
		cases.push_back({cat("alignments_", name_of(op)), [op](Env &env) { alignments(env, op); }});
	cases.push_back({"A14_path_mtus", path_mtus});
	cases.push_back({"A14_random_sizes", random_sizes});
	cases.push_back({"A14_two_gib", two_gib});
	for (Op op : {Op::write, Op::send, Op::read}) {
		cases.push_back({cat("A30_sum_overflow_", name_of(op)), [op](Env &env) { sum_overflow(env, op); }});
		cases.push_back({cat("A30_sum_overflow_in_bounds_", name_of(op)), [op](Env &env) { sum_overflow_in_bounds(env, op); }});
	}
	cases.push_back({"A24_zero_length_elements", zero_length_elements});
}

} // namespace mv
