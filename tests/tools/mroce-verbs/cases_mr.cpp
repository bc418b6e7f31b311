// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Memory registration: flags, ranges, accounting.
#include "work.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace mv {

namespace {

constexpr unsigned remote_any[] = {remote_write, remote_read, remote_atomic};

// Pages pinned by this process, in KiB.
long pinned_kib()
{
	std::ifstream status("/proc/self/status");
	std::string word;
	long value = -1;

	while (status >> word)
		if (word == "VmPin:" && status >> value)
			return value;
	return value;
}

void access_flags(Env &env)
{
	Pd pd = make_pd(env.a().ctx());
	Buffer memory(8192);

	for (unsigned access = 0; access < 16; access++) {
		bool needs_local = access & (remote_write | remote_atomic);
		Mr mr = try_mr(pd.get(), memory.at(0), 8192, access);

		if (needs_local && !(access & local_write)) {
			require(mr == nullptr, "access ", access, " accepted without local write");
			require_eq(errno, EINVAL, "errno for access ", access);
		} else {
			require(mr != nullptr, "access ", access, " refused: ", errno_name(errno));
		}
	}
	for (unsigned remote : remote_any)
		make_mr(pd.get(), memory.at(0), 8192, local_write | remote);
}

void optional_flags(Env &env)
{
	Pd pd = make_pd(env.a().ctx());
	Buffer memory(8192);

	make_mr(pd.get(), memory.at(0), 8192, all_access | IBV_ACCESS_RELAXED_ORDERING);
	// An optional bit that nobody has defined yet is ignored.
	make_mr(pd.get(), memory.at(0), 8192, all_access | (1u << 28));
}

void mandatory_flags(Env &env)
{
	Pd pd = make_pd(env.a().ctx());
	Buffer memory(8192);
	ibv_device_attr_ex attr{};
	const unsigned may_work[] = {IBV_ACCESS_MW_BIND, IBV_ACCESS_ZERO_BASED, IBV_ACCESS_HUGETLB, IBV_ACCESS_ON_DEMAND};

	for (unsigned flag : may_work) {
		Mr mr = try_mr(pd.get(), memory.at(0), 8192, local_write | flag);

		require(mr || errno == EOPNOTSUPP || errno == EINVAL, "flag ", flag, ": ", errno_name(errno));
		note("access flag ", flag, mr ? " accepted" : " refused with " + errno_name(errno));
	}
	for (unsigned bit = 12; bit < 20; bit++) {
		Mr mr = try_mr(pd.get(), memory.at(0), 8192, local_write | (1u << bit));

		require(mr == nullptr, "unknown mandatory flag ", bit, " accepted");
		require(errno == EOPNOTSUPP || errno == EINVAL, "unknown flag ", bit, ": ", errno_name(errno));
	}
	if (ibv_query_device_ex(env.a().ctx(), nullptr, &attr) == 0 && !attr.odp_caps.general_caps) {
		Mr mr = try_mr(pd.get(), memory.at(0), 8192, local_write | IBV_ACCESS_ON_DEMAND);

		require(mr == nullptr, "on-demand paging accepted, though not claimed");
	}
}

void sizes(Env &env)
{
	Pd pd = make_pd(env.a().ctx());
	Buffer memory(1 << 20);

	for (size_t offset : {0, 1, 7, 4095, 4096, 8191})
		for (size_t length : {1, 2, 3, 4095, 4096, 4097, 8191, 65537, 1000001}) {
			Mr mr = make_mr(pd.get(), memory.at(offset), length, all_access);

			require_eq(mr->length, length, "length of the MR");
			require(mr->addr == memory.at(offset), "address of the MR");
		}
	Mr none = try_mr(pd.get(), memory.at(0), 0, all_access);

	require(none || errno == EINVAL, "MR of length 0: ", errno_name(errno));
}

void keys_differ(Env &env)
{
	Pd pd = make_pd(env.a().ctx());
	Buffer memory(8192);
	std::vector<Mr> mrs;
	std::vector<uint32_t> keys;
	int n = std::min(env.count(500, 50), env.a().attr.max_mr / 2);

	for (int i = 0; i < n; i++) {
		mrs.push_back(make_mr(pd.get(), memory.at(0), 8192, all_access));
		keys.push_back(mrs.back()->rkey);
	}
	std::sort(keys.begin(), keys.end());
	require(std::adjacent_find(keys.begin(), keys.end()) == keys.end(), "two live MRs with the same rkey");
	// A key must not come back at once after its MR went away.
	uint32_t old = mrs.back()->rkey;

	mrs.pop_back();
	Mr next = make_mr(pd.get(), memory.at(0), 8192, all_access);

	require(next->rkey != old, "the rkey of a freed MR was given out again at once");
}

void unmapped(Env &env)
{
	Pd pd = make_pd(env.a().ctx());
	Buffer memory(16 * 4096);
	long before = pinned_kib();

	must(munmap(memory.at(8 * 4096), 4096), "munmap");
	Mr hole = try_mr(pd.get(), memory.at(0), 16 * 4096, all_access);

	require(hole == nullptr, "an MR over unmapped memory was made");
	require(errno == EFAULT || errno == ENOMEM, "MR over unmapped memory: ", errno_name(errno));
	for (uintptr_t address : {uintptr_t(0), uintptr_t(4096), ~uintptr_t(4095), uintptr_t(1) << 63}) {
		Mr mr = try_mr(pd.get(), reinterpret_cast<void *>(address), 4096, all_access);

		require(mr == nullptr, "an MR at address ", address, " was made");
	}
	Mr wrapping = try_mr(pd.get(), memory.at(0), ~size_t(0) - 100, all_access);

	require(wrapping == nullptr, "an MR that wraps around the address space was made");
	require_eq(pinned_kib(), before, "VmPin after refused registrations");
}

bool kernel_before(int major, int minor)
{
	utsname name{};
	int has_major = 0, has_minor = 0;

	must(uname(&name), "uname");
	require(std::sscanf(name.release, "%d.%d", &has_major, &has_minor) == 2, "kernel release ", name.release);
	return std::pair(has_major, has_minor) < std::pair(major, minor);
}

// A file of two pages, read-only and read-write, and beyond its end.
void file_mappings(Env &env)
{
	Pd pd = make_pd(env.a().ctx());
	int fd = memfd_create("mroce-verbs", MFD_CLOEXEC);

	require(fd >= 0 && ftruncate(fd, 8192) == 0, "memfd: ", errno_name(errno));
	void *read_only = mmap(nullptr, 8192, PROT_READ, MAP_SHARED, fd, 0);
	void *shared = mmap(nullptr, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	void *none = mmap(nullptr, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	close(fd);
	require(read_only != MAP_FAILED && shared != MAP_FAILED && none != MAP_FAILED, "mmap");
	make_mr(pd.get(), shared, 8192, all_access);
	// Before 6.2 the kernel forces its way into every page for writing, whatever the device: a read-only shared mapping
	// refuses, and PROT_NONE does not.
	if (!try_mr(pd.get(), read_only, 8192, remote_read))
		require(errno == EFAULT && kernel_before(6, 2), "MR over a read-only mapping of a file: ", errno_name(errno));
	require(try_mr(pd.get(), read_only, 8192, all_access) == nullptr, "writable MR over a read-only mapping");
	require(kernel_before(6, 2) || try_mr(pd.get(), none, 8192, remote_read) == nullptr, "MR over PROT_NONE");
	require(try_mr(pd.get(), shared, 16384, all_access) == nullptr, "MR beyond the end of a file");
	munmap(read_only, 8192);
	munmap(shared, 16384);
	munmap(none, 8192);
}

void pin_accounting(Env &env)
{
	Pd pd = make_pd(env.a().ctx());
	constexpr size_t length = 1 << 20;
	Buffer memory(length);
	long before = pinned_kib();

	if (before < 0)
		skip("no VmPin in /proc/self/status");
	for (int i = 0; i < env.count(1000, 30); i++) {
		Mr mr = make_mr(pd.get(), memory.at(0), i % 2 ? length : 4096, all_access);

		require(pinned_kib() > before, "nothing is pinned while an MR lives");
	}
	require_eq(pinned_kib(), before, "VmPin after as many deregistrations");
}

void memlock_limit(Env &env)
{
	Pd pd = make_pd(env.a().ctx());
	Buffer memory(1 << 20);
	const rlimit small{65536, 65536};

	// Root may pin more than the limit: become nobody, in this case's own process.
	if (!env.opt.fork)
		skip("needs its own process");
	must(setrlimit(RLIMIT_MEMLOCK, &small), "setrlimit");
	must(seteuid(65534), "seteuid");
	Mr fits = try_mr(pd.get(), memory.at(0), 32768, all_access);
	int fits_error = errno;
	Mr big = try_mr(pd.get(), memory.at(0), 1 << 20, all_access);
	int error = errno;

	fits.reset();
	Mr again = try_mr(pd.get(), memory.at(0), 32768, all_access);

	must(seteuid(0), "seteuid");
	require(fits_error == 0, "32 KiB refused under a limit of 64 KiB: ", errno_name(fits_error));
	require(big == nullptr, "1 MiB pinned under a limit of 64 KiB");
	require_eq(error, ENOMEM, "errno beyond the limit");
	require(again != nullptr, "32 KiB refused after deregistration: the limit was not given back");
}

void rereg(Env &env)
{
	Pair pair(env);
	Buffer source(pair.a.pd.get(), 4096), target(pair.b.pd.get(), 4096);
	int returned = ibv_rereg_mr(target.mr().get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, local_write | remote_read);

	if (returned)
		skip("ibv_rereg_mr: ", errno_name(errno));
	target.paint_all();
	post_send(pair.a.qp.get(), {Op::write, 1, {source.sge(0, 100)}, target.addr(), target.rkey()});
	expect_wc(env, pair.a.scq.get(), IBV_WC_REM_ACCESS_ERR, 1, pair.a.qp.get(), "WRITE after the right was taken away");
	target.check_all_painted("after a refused WRITE");
}

void iova(Env &env)
{
	Pair pair(env);
	Buffer source(pair.a.pd.get(), 16384), target(16384);
	constexpr uint64_t base = 0x123456789000;

	for (uint64_t start : {base + 64, uint64_t(64), ~uint64_t(0) - 4095 - 16384 + 64}) {
		Mr mr(ibv_reg_mr_iova(pair.b.pd.get(), target.at(64), 16384 - 64, start, all_access));

		require(mr != nullptr, "ibv_reg_mr_iova: ", errno_name(errno));
		pattern_fill(source.at(0), 16384, start, 0);
		post_send(pair.a.qp.get(), {Op::write, 1, {source.sge(0, 8000)}, start + 100, mr->rkey});
		expect_wc(env, pair.a.scq.get(), IBV_WC_SUCCESS, 1, pair.a.qp.get(), "WRITE to an iova");
		pattern_check(target.at(164), 8000, start, 0, "WRITE to an iova");
	}
	// The address of the memory is no address in an MR that has another.
	Mr mr(ibv_reg_mr_iova(pair.b.pd.get(), target.at(0), 16384, base, all_access));

	require(mr != nullptr, "ibv_reg_mr_iova: ", errno_name(errno));
	post_send(pair.a.qp.get(), {Op::write, 2, {source.sge(0, 8)}, target.addr(), mr->rkey});
	expect_wc(env, pair.a.scq.get(), IBV_WC_REM_ACCESS_ERR, 2, pair.a.qp.get(), "WRITE to the memory's own address");
}

void iova_wrap(Env &env)
{
	Pair pair(env);
	Buffer source(pair.a.pd.get(), 8192), target(16384);
	Mr mr(ibv_reg_mr_iova(pair.b.pd.get(), target.at(0), 16384, ~uint64_t(0) - 4095, all_access));

	if (!mr) {
		require_eq(errno, EINVAL, "errno for an MR whose iova wraps");
		return;
	}
	note("an MR whose iova wraps was accepted");
	// Then nothing may be reached through it beyond the wrap.
	target.paint_all();
	post_send(pair.a.qp.get(), {Op::write, 1, {source.sge(0, 8192)}, ~uint64_t(0) - 4095, mr->rkey});
	expect_wc(env, pair.a.scq.get(), IBV_WC_REM_ACCESS_ERR, 1, pair.a.qp.get(), "WRITE across address 0");
	target.check_all_painted("after a WRITE across address 0");
}

void dereg_under_others(Env &env)
{
	// Many MRs over the same pages: taking some away leaves the others working.
	Pair pair(env);
	Buffer source(pair.a.pd.get(), 4096), target(4096);
	std::vector<Mr> mrs;

	for (int i = 0; i < 20; i++)
		mrs.push_back(make_mr(pair.b.pd.get(), target.at(0), 4096, all_access));
	while (!mrs.empty()) {
		uint64_t seed = env.random();

		pattern_fill(source.at(0), 4096, seed, 0);
		post_send(pair.a.qp.get(), {Op::write, seed, {source.sge(0, 4096)}, target.addr(), mrs.back()->rkey});
		expect_wc(env, pair.a.scq.get(), IBV_WC_SUCCESS, seed, pair.a.qp.get(), "WRITE");
		pattern_check(target.at(0), 4096, seed, 0, "WRITE");
		mrs.erase(mrs.begin() + static_cast<long>(mrs.size()) / 2);
	}
}

} // namespace

void add_mr_cases(Registry &cases)
{
	cases.push_back({"A53_mr_access_flags", access_flags});
	cases.push_back({"A53_mr_optional_flags", optional_flags});
	cases.push_back({"A53_mr_mandatory_flags", mandatory_flags});
	cases.push_back({"mr_sizes", sizes});
	cases.push_back({"mr_keys_differ", keys_differ});
	cases.push_back({"B14_mr_unmapped", unmapped});
	cases.push_back({"A56_mr_file_mappings", file_mappings});
	cases.push_back({"A54_mr_pin_accounting", pin_accounting});
	cases.push_back({"A54_mr_memlock_limit", memlock_limit});
	cases.push_back({"mr_rereg", rereg});
	cases.push_back({"mr_iova", iova});
	cases.push_back({"B01_mr_iova_wrap", iova_wrap});
	cases.push_back({"mr_dereg_under_others", dereg_under_others});
}

} // namespace mv
