// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Keys, rights, bounds and protection domains: what is not allowed does not happen, and says so.
#include "work.h"

#include <algorithm>
#include <cerrno>
#include <initializer_list>

namespace mv {

namespace {

constexpr size_t size = 16384;
constexpr Op remote_ops[] = {Op::write, Op::write_imm, Op::read, Op::cmp_swp, Op::fetch_add};
constexpr Op all_ops[] = {Op::write, Op::write_imm, Op::send, Op::send_imm, Op::read, Op::cmp_swp, Op::fetch_add};

bool is_atomic(Op op)
{
	return op == Op::cmp_swp || op == Op::fetch_add;
}

// A pair, memory at both ends, and a way to expect refusals one after the other.
class Court {
public:
	explicit Court(Env &env, const PairSpec &spec = {}) : pair(env, spec), local(pair.a.pd.get(), size), remote(pair.b.pd.get(), size), env_(env)
	{
		local.paint_all();
		remote.paint_all();
	}

	[[nodiscard]] Wr request(Op op, size_t length) const
	{
		length = is_atomic(op) ? 8 : length;
		return {op, 0x77, {local.sge(0, length)}, remote.addr(), remote.rkey(), 1, 1, 1};
	}

	[[nodiscard]] bool supported(Op op) const
	{
		return !is_atomic(op) || pair.a.dev.attr.atomic_cap != IBV_ATOMIC_NONE;
	}

	// The request fails with one of these states, nothing is changed anywhere, and the pair can be used again.
	void refused(const Wr &wr, std::initializer_list<ibv_wc_status> allowed, std::string_view what)
	{
		if (takes_receive(wr.op))
			post_recv(pair.b.qp.get(), 0x55, {remote.sge(0, size)});
		post_send(pair.a.qp.get(), wr);
		ibv_wc wc = next_wc(env_, pair.a.scq.get(), cat(name_of(wr.op), ", ", what));

		if (std::find(allowed.begin(), allowed.end(), wc.status) == allowed.end())
			fail(name_of(wr.op), ", ", what, ": status ", ibv_wc_status_str(wc.status), ", expected ", ibv_wc_status_str(*allowed.begin()));
		require_eq(wc.wr_id, wr.id, what, ": wr_id");
		require_eq(wc.qp_num, pair.a.qp->qp_num, what, ": qp_num");
		require_eq(static_cast<int>(state_of(pair.a.qp.get())), static_cast<int>(IBV_QPS_ERR), what, ": state of the requester");
		local.check_all_painted(cat(name_of(wr.op), ", ", what, ": requester's memory"));
		// An atomic may have been executed there before its answer found no place here.
		if (!(is_atomic(wr.op) && wc.status == IBV_WC_LOC_PROT_ERR))
			remote.check_all_painted(cat(name_of(wr.op), ", ", what, ": responder's memory"));
		remote.paint_all();
		pair.reconnect();
	}

	Pair pair;
	Buffer local, remote;

private:
	Env &env_;
};

void bad_rkey(Env &env)
{
	Court court(env);

	for (Op op : remote_ops) {
		if (!court.supported(op))
			continue;
		for (uint32_t flip : {1u, 0x80u, 0x100u, 0x10000u, 0x80000000u, 0xffffffffu}) {
			Wr wr = court.request(op, 5000);

			wr.rkey ^= flip;
			court.refused(wr, {IBV_WC_REM_ACCESS_ERR}, cat("rkey with bits ", flip, " flipped"));
		}
		Wr wr = court.request(op, 8);

		wr.rkey = 0;
		court.refused(wr, {IBV_WC_REM_ACCESS_ERR}, "rkey 0");
	}
	require_alive(env, court.pair);
}

void bad_lkey(Env &env)
{
	Court court(env);

	for (Op op : all_ops) {
		if (!court.supported(op))
			continue;
		for (uint32_t flip : {1u, 0x100u, 0x10000u, 0x80000000u}) {
			Wr wr = court.request(op, 5000);

			wr.sg[0].lkey ^= flip;
			court.refused(wr, {IBV_WC_LOC_PROT_ERR}, cat("lkey with bits ", flip, " flipped"));
		}
	}
	require_alive(env, court.pair);
}

// Just inside is fine, one byte outside is not, at either end of either MR.
void out_of_bounds(Env &env)
{
	Court court(env);

	for (Op op : {Op::write, Op::write_imm, Op::read}) {
		for (size_t length : {1, 100, 5000}) {
			Wr wr = court.request(op, length);

			wr.raddr = court.remote.addr() + size - length + 1;
			court.refused(wr, {IBV_WC_REM_ACCESS_ERR}, "one byte beyond the remote MR");
			wr.raddr = court.remote.addr() - 1;
			court.refused(wr, {IBV_WC_REM_ACCESS_ERR}, "one byte before the remote MR");
			wr.raddr = court.remote.addr() + size;
			court.refused(wr, {IBV_WC_REM_ACCESS_ERR}, "just behind the remote MR");
			wr = court.request(op, length);
			wr.sg[0].addr = court.local.addr() + size - length + 1;
			court.refused(wr, {IBV_WC_LOC_PROT_ERR}, "one byte beyond the local MR");
			wr.sg[0].addr = court.local.addr() - 1;
			court.refused(wr, {IBV_WC_LOC_PROT_ERR}, "one byte before the local MR");
		}
	}
	for (Op op : {Op::cmp_swp, Op::fetch_add}) {
		if (!court.supported(op))
			continue;
		Wr wr = court.request(op, 8);

		wr.raddr = court.remote.addr() + size;
		court.refused(wr, {IBV_WC_REM_ACCESS_ERR}, "just behind the remote MR");
		wr.raddr = court.remote.addr() - 8;
		court.refused(wr, {IBV_WC_REM_ACCESS_ERR}, "just before the remote MR");
	}
}

void exact_bounds(Env &env)
{
	Pair pair(env);
	Buffer local(pair.a.pd.get(), size), remote(pair.b.pd.get(), size);

	for (Op op : {Op::write, Op::read}) {
		for (size_t length : {size_t(1), size_t(4097), size}) {
			post_send(pair.a.qp.get(), {op, 1, {local.sge(size - length, length)}, remote.addr(size - length), remote.rkey()});
			expect_wc(env, pair.a.scq.get(), IBV_WC_SUCCESS, 1, pair.a.qp.get(), cat(name_of(op), " to the last byte of an MR"));
		}
		post_send(pair.a.qp.get(), {op, 2, {local.sge(size, 0)}, remote.addr(size), remote.rkey()});
		expect_wc(env, pair.a.scq.get(), IBV_WC_SUCCESS, 2, pair.a.qp.get(), "length 0 at the end of an MR");
	}
}

// Only part of the buffer is registered: what lies beside it stays out of reach although it is mapped.
void part_registered(Env &env)
{
	Court court(env);
	Mr part = make_mr(court.pair.b.pd.get(), court.remote.at(1001), 3001, all_access);
	const std::pair<uint64_t, size_t> outside[] = {{1000, 10}, {1001, 3002}, {4001, 2}, {4002, 1}, {0, size}, {500, 501}, {500, 502}};

	for (auto [offset, length] : outside)
		for (Op op : {Op::write, Op::read}) {
			Wr wr = court.request(op, length);

			wr.raddr = court.remote.addr(offset);
			wr.rkey = part->rkey;
			court.refused(wr, {IBV_WC_REM_ACCESS_ERR}, cat(length, " bytes at ", offset, " of an MR from 1001 to 4002"));
		}
}

void address_wrap(Env &env)
{
	Court court(env);
	const uint64_t near_end[] = {~uint64_t(0), ~uint64_t(0) - 7, ~uint64_t(0) - 4095, uint64_t(1) << 63, 0};

	for (uint64_t address : near_end) {
		for (Op op : {Op::write, Op::read}) {
			for (size_t length : {size_t(1), size_t(8), size_t(9), size}) {
				Wr wr = court.request(op, length);

				wr.raddr = address;
				court.refused(wr, {IBV_WC_REM_ACCESS_ERR}, cat(length, " bytes at address ", address));
			}
			// Length 0: the address and key need not be looked at, but nothing may break.
			Wr wr = court.request(op, 0);

			wr.raddr = address;
			post_send(court.pair.a.qp.get(), wr);
			ibv_wc wc = next_wc(env, court.pair.a.scq.get(), "length 0");

			require(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_REM_ACCESS_ERR, "length 0: ", ibv_wc_status_str(wc.status));
			court.pair.reconnect();
		}
		for (Op op : {Op::cmp_swp, Op::fetch_add}) {
			if (!court.supported(op))
				continue;
			Wr wr = court.request(op, 8);

			wr.raddr = address & ~uint64_t(7);
			court.refused(wr, {IBV_WC_REM_ACCESS_ERR}, cat("8 bytes at address ", wr.raddr));
		}
	}
	// Far beyond the MR so that address + length comes out right modulo 2^64.
	for (size_t length : {size_t(8), size}) {
		Wr wr = court.request(Op::write, length);

		wr.raddr = court.remote.addr() - length - 1;
		court.refused(wr, {IBV_WC_REM_ACCESS_ERR}, "just before the MR");
	}
	require_alive(env, court.pair);
}

// SGEs near the end of the address space on this side.
void local_address_wrap(Env &env)
{
	Court court(env);

	for (Op op : {Op::write, Op::send, Op::read})
		for (uint64_t address : {~uint64_t(0), ~uint64_t(0) - 100, ~uint64_t(0) - 4095})
			for (uint32_t length : {1u, 200u, 0x7fffffffu, 0x80000000u}) {
				Wr wr = court.request(op, 8);

				wr.sg[0].addr = address;
				wr.sg[0].length = length;
				court.refused(wr, {IBV_WC_LOC_PROT_ERR, IBV_WC_LOC_LEN_ERR}, cat("local ", length, " bytes at ", address));
			}
}

// Lengths far beyond the MR, up to the largest: refused before a byte moves.
void huge_lengths(Env &env)
{
	Court court(env);

	for (Op op : {Op::write, Op::send, Op::read})
		for (uint32_t length : {uint32_t(size + 1), 1u << 20, 1u << 30, 1u << 31, 0x80000001u, 0xffffffffu}) {
			Wr wr = court.request(op, 8);

			wr.sg[0].length = length;
			if (takes_receive(op))
				post_recv(court.pair.b.qp.get(), 1, {court.remote.sge(0, size)});
			int error = try_send(court.pair.a.qp.get(), wr);

			if (error) {
				require_eq(error, EINVAL, "errno for a request of ", length, " bytes");
				continue;
			}
			ibv_wc wc = next_wc(env, court.pair.a.scq.get(), cat(name_of(op), " of ", length, " bytes"));

			require(wc.status == IBV_WC_LOC_PROT_ERR || wc.status == IBV_WC_LOC_LEN_ERR, name_of(op), " of ", length, " bytes: ",
				ibv_wc_status_str(wc.status));
			court.pair.reconnect();
		}
	court.remote.check_all_painted("after requests of huge length");
}

void other_pd(Env &env)
{
	Court court(env);
	Pd pd_a = make_pd(env.a().ctx()), pd_b = make_pd(env.b().ctx());
	Mr local = make_mr(pd_a.get(), court.local.at(0), size, all_access);
	Mr remote = make_mr(pd_b.get(), court.remote.at(0), size, all_access);

	for (Op op : all_ops) {
		if (!court.supported(op))
			continue;
		Wr wr = court.request(op, 100);

		wr.sg[0].lkey = local->lkey;
		court.refused(wr, {IBV_WC_LOC_PROT_ERR}, "lkey of another PD");
		if (op == Op::send || op == Op::send_imm)
			continue;
		wr = court.request(op, 100);
		wr.rkey = remote->rkey;
		court.refused(wr, {IBV_WC_REM_ACCESS_ERR}, "rkey of another PD");
	}
	require_alive(env, court.pair);
}

unsigned right_for(Op op)
{
	return op == Op::read ? remote_read : is_atomic(op) ? remote_atomic : remote_write;
}

// Every right but the one that is needed.
void missing_mr_right(Env &env)
{
	Court court(env);

	for (Op op : remote_ops) {
		if (!court.supported(op))
			continue;
		Mr mr = make_mr(court.pair.b.pd.get(), court.remote.at(0), size, all_access & ~right_for(op));
		Wr wr = court.request(op, 100);

		wr.rkey = mr->rkey;
		court.refused(wr, {IBV_WC_REM_ACCESS_ERR}, "MR without the right");
	}
	// What is written on this side needs the local right.
	Mr read_only = make_mr(court.pair.a.pd.get(), court.local.at(0), size, remote_read);

	for (Op op : {Op::read, Op::cmp_swp, Op::fetch_add}) {
		if (!court.supported(op))
			continue;
		Wr wr = court.request(op, 100);

		wr.sg[0].lkey = read_only->lkey;
		court.refused(wr, {IBV_WC_LOC_PROT_ERR}, "local MR without the right to write");
	}
	Wr wr = court.request(Op::write, 100);

	wr.sg[0].lkey = read_only->lkey;
	post_send(court.pair.a.qp.get(), wr);
	expect_wc(env, court.pair.a.scq.get(), IBV_WC_SUCCESS, wr.id, court.pair.a.qp.get(), "WRITE out of a read-only MR");
}

void missing_qp_right(Env &env)
{
	for (Op op : remote_ops) {
		PairSpec spec;

		spec.rc.access = all_access & ~right_for(op);
		Court court(env, spec);

		if (court.supported(op))
			court.refused(court.request(op, 100), {IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR}, "QP without the right");
	}
}

// Using keys of MRs that are gone.
void deregistered(Env &env)
{
	Court court(env);
	Mr local = make_mr(court.pair.a.pd.get(), court.local.at(0), size, all_access);
	Mr remote = make_mr(court.pair.b.pd.get(), court.remote.at(0), size, all_access);
	uint32_t lkey = local->lkey, rkey = remote->rkey;

	local.reset();
	remote.reset();
	for (Op op : all_ops) {
		if (!court.supported(op))
			continue;
		Wr wr = court.request(op, 100);

		wr.sg[0].lkey = lkey;
		court.refused(wr, {IBV_WC_LOC_PROT_ERR}, "lkey of an MR that is gone");
		if (op == Op::send || op == Op::send_imm)
			continue;
		wr = court.request(op, 100);
		wr.rkey = rkey;
		court.refused(wr, {IBV_WC_REM_ACCESS_ERR}, "rkey of an MR that is gone");
	}
	require_alive(env, court.pair);
}

// Only one element of a list is bad, the first or the last.
void bad_element(Env &env)
{
	Court court(env, {.qp = {.send_sge = 3}});

	for (Op op : {Op::write, Op::send, Op::read})
		for (size_t bad : {0, 1, 2}) {
			Wr wr = court.request(op, 0);

			wr.sg = {court.local.sge(0, 3000), court.local.sge(4000, 3000), court.local.sge(8000, 3000)};
			wr.sg[bad].lkey ^= 0x4400;
			// A READ may have filled the elements before the bad one; only statuses are looked at then.
			if (op == Op::read) {
				post_send(court.pair.a.qp.get(), wr);
				expect_wc(env, court.pair.a.scq.get(), IBV_WC_LOC_PROT_ERR, wr.id, court.pair.a.qp.get(), "READ with a bad element");
				court.pair.reconnect();
			} else {
				if (takes_receive(op))
					post_recv(court.pair.b.qp.get(), 1, {court.remote.sge(0, size)});
				post_send(court.pair.a.qp.get(), wr);
				expect_wc(env, court.pair.a.scq.get(), IBV_WC_LOC_PROT_ERR, wr.id, court.pair.a.qp.get(), "bad element");
				court.pair.reconnect();
			}
		}
	require_alive(env, court.pair);
}

// What another process could guess: keys near a valid one find nothing of ours.
void neighbouring_keys(Env &env)
{
	Court court(env);
	int hits = 0, tries = env.count(300, 30);

	for (int i = 1; i <= tries; i++) {
		Wr wr = court.request(Op::read, 8);

		wr.rkey += i % 2 ? static_cast<uint32_t>(i) : static_cast<uint32_t>(i) << 8;
		if (wr.rkey == court.local.rkey())
			continue;
		post_send(court.pair.a.qp.get(), wr);
		hits += next_wc(env, court.pair.a.scq.get(), "READ with a guessed key").status == IBV_WC_SUCCESS;
		court.pair.reconnect();
	}
	require_eq(hits, 0, "guessed keys that worked");
}

} // namespace

void add_access_cases(Registry &cases)
{
	cases.push_back({"B24_bad_rkey", bad_rkey});
	cases.push_back({"B24_bad_lkey", bad_lkey});
	cases.push_back({"B01_out_of_bounds", out_of_bounds});
	cases.push_back({"B01_exact_bounds", exact_bounds});
	cases.push_back({"B01_part_registered", part_registered});
	cases.push_back({"B01_address_wrap", address_wrap});
	cases.push_back({"B02_local_address_wrap", local_address_wrap});
	cases.push_back({"B02_huge_lengths", huge_lengths});
	cases.push_back({"B24_other_pd", other_pd});
	cases.push_back({"B24_missing_mr_right", missing_mr_right});
	cases.push_back({"B24_missing_qp_right", missing_qp_right});
	cases.push_back({"B24_deregistered", deregistered});
	cases.push_back({"B24_bad_element", bad_element});
	cases.push_back({"neighbouring_keys", neighbouring_keys});
}

} // namespace mv
