// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "work.h"

#include <cerrno>
#include <endian.h>

namespace mv {

namespace {

struct OpFacts {
	const char *name;
	ibv_wr_opcode opcode;
	ibv_wc_opcode wc;
	uint64_t ex_flag;
	bool receive;
};

const OpFacts &facts(Op op)
{
	static const OpFacts table[] = {
		{"WRITE", IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE, false},
		{"WRITE_WITH_IMM", IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, true},
		{"SEND", IBV_WR_SEND, IBV_WC_SEND, IBV_QP_EX_WITH_SEND, true},
		{"SEND_WITH_IMM", IBV_WR_SEND_WITH_IMM, IBV_WC_SEND, IBV_QP_EX_WITH_SEND_WITH_IMM, true},
		{"READ", IBV_WR_RDMA_READ, IBV_WC_RDMA_READ, IBV_QP_EX_WITH_RDMA_READ, false},
		{"CMP_SWP", IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, false},
		{"FETCH_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, false},
	};

	return table[static_cast<int>(op)];
}

void start_ex(ibv_qp_ex *qpx, const Wr &wr)
{
	switch (wr.op) {
	case Op::write:
		return ibv_wr_rdma_write(qpx, wr.rkey, wr.raddr);
	case Op::write_imm:
		return ibv_wr_rdma_write_imm(qpx, wr.rkey, wr.raddr, htobe32(wr.imm));
	case Op::send:
		return ibv_wr_send(qpx);
	case Op::send_imm:
		return ibv_wr_send_imm(qpx, htobe32(wr.imm));
	case Op::read:
		return ibv_wr_rdma_read(qpx, wr.rkey, wr.raddr);
	case Op::cmp_swp:
		return ibv_wr_atomic_cmp_swp(qpx, wr.rkey, wr.raddr, wr.compare_or_add, wr.swap);
	case Op::fetch_add:
		return ibv_wr_atomic_fetch_add(qpx, wr.rkey, wr.raddr, wr.compare_or_add);
	}
}

void set_data_ex(ibv_qp_ex *qpx, Wr &wr, bool list)
{
	if (!(wr.flags & IBV_SEND_INLINE)) {
		if (wr.sg.size() == 1 && !list)
			ibv_wr_set_sge(qpx, wr.sg[0].lkey, wr.sg[0].addr, wr.sg[0].length);
		else
			ibv_wr_set_sge_list(qpx, wr.sg.size(), wr.sg.data());
		return;
	}
	if (wr.sg.size() == 1 && !list) {
		ibv_wr_set_inline_data(qpx, reinterpret_cast<void *>(wr.sg[0].addr), wr.sg[0].length);
		return;
	}
	std::vector<ibv_data_buf> pieces;

	for (const ibv_sge &sge : wr.sg)
		pieces.push_back({reinterpret_cast<void *>(sge.addr), sge.length});
	ibv_wr_set_inline_data_list(qpx, pieces.size(), pieces.data());
}

int try_send_ex(ibv_qp *qp, Wr &wr, bool list)
{
	ibv_qp_ex *qpx = ibv_qp_to_qp_ex(qp);
	int returned;

	require(qpx != nullptr, "ibv_qp_to_qp_ex gave nothing");
	ibv_wr_start(qpx);
	qpx->wr_id = wr.id;
	qpx->wr_flags = wr.flags;
	start_ex(qpx, wr);
	set_data_ex(qpx, wr, list);
	returned = ibv_wr_complete(qpx);
	return returned ? error_of(returned) : 0;
}

} // namespace

const char *name_of(Op op)
{
	return facts(op).name;
}

ibv_wr_opcode opcode_of(Op op)
{
	return facts(op).opcode;
}

ibv_wc_opcode wc_opcode_of(Op op)
{
	return facts(op).wc;
}

uint64_t ex_flag_of(Op op)
{
	return facts(op).ex_flag;
}

bool takes_receive(Op op)
{
	return facts(op).receive;
}

ibv_send_wr raw_of(Wr &wr)
{
	ibv_send_wr raw{};

	raw.wr_id = wr.id;
	raw.sg_list = wr.sg.data();
	raw.num_sge = static_cast<int>(wr.sg.size());
	raw.opcode = opcode_of(wr.op);
	raw.send_flags = wr.flags;
	raw.imm_data = htobe32(wr.imm);
	if (wr.op == Op::cmp_swp || wr.op == Op::fetch_add) {
		raw.wr.atomic.remote_addr = wr.raddr;
		raw.wr.atomic.rkey = wr.rkey;
		raw.wr.atomic.compare_add = wr.compare_or_add;
		raw.wr.atomic.swap = wr.swap;
	} else {
		raw.wr.rdma.remote_addr = wr.raddr;
		raw.wr.rdma.rkey = wr.rkey;
	}
	return raw;
}

int try_send(ibv_qp *qp, Wr wr, Api api)
{
	if (api != Api::classic)
		return try_send_ex(qp, wr, api == Api::ex_list);

	ibv_send_wr raw = raw_of(wr), *bad = nullptr;
	int returned = ibv_post_send(qp, &raw, &bad);

	if (returned)
		require(bad == &raw, "bad_wr does not point at the refused request");
	return returned ? error_of(returned) : 0;
}

int try_recv(ibv_qp *qp, uint64_t id, SgeList list)
{
	ibv_recv_wr raw{}, *bad = nullptr;

	raw.wr_id = id;
	raw.sg_list = list.data();
	raw.num_sge = static_cast<int>(list.size());
	int returned = ibv_post_recv(qp, &raw, &bad);

	if (returned)
		require(bad == &raw, "bad_wr does not point at the refused receive");
	return returned ? error_of(returned) : 0;
}

void post_send(ibv_qp *qp, const Wr &wr, Api api)
{
	must(try_send(qp, wr, api), cat("posting a ", name_of(wr.op), " of ", total_length(wr.sg), " bytes"));
}

void post_recv(ibv_qp *qp, uint64_t id, const SgeList &list)
{
	must(try_recv(qp, id, list), "posting a receive");
}

std::optional<ibv_wc> poll_one(ibv_cq *cq)
{
	ibv_wc wc;
	int n = ibv_poll_cq(cq, 1, &wc);

	require(n >= 0, "ibv_poll_cq: ", errno_name(error_of(n)));
	return n ? std::optional(wc) : std::nullopt;
}

ibv_wc next_wc(const Env &env, ibv_cq *cq, std::string_view what)
{
	Waiter waiter(env.patience());

	do {
		if (auto wc = poll_one(cq))
			return *wc;
	} while (waiter.pause());
	fail(what, ": no completion within ", env.patience(), " s");
}

std::vector<ibv_wc> next_wcs(const Env &env, ibv_cq *cq, int n, std::string_view what)
{
	std::vector<ibv_wc> result;

	while (n-- > 0)
		result.push_back(next_wc(env, cq, what));
	return result;
}

void require_silence(ibv_cq *cq, double seconds, std::string_view what)
{
	Waiter waiter(seconds);

	do {
		if (auto wc = poll_one(cq))
			fail(what, ": unexpected completion, wr_id ", wc->wr_id, ", ", ibv_wc_status_str(wc->status));
	} while (waiter.pause());
}

void require_wc(const ibv_wc &wc, ibv_wc_status status, uint64_t id, const ibv_qp *qp, std::string_view what)
{
	if (wc.status != status)
		fail(what, ": status ", ibv_wc_status_str(wc.status), ", expected ", ibv_wc_status_str(status));
	require_eq(wc.wr_id, id, what, ": wr_id");
	require_eq(wc.qp_num, qp->qp_num, what, ": qp_num");
}

void require_send_wc(const ibv_wc &wc, Op op, uint64_t id, const ibv_qp *qp, size_t length)
{
	std::string what = cat(name_of(op), " of ", length, " bytes, send completion");

	require_wc(wc, IBV_WC_SUCCESS, id, qp, what);
	require_eq(static_cast<int>(wc.opcode), static_cast<int>(wc_opcode_of(op)), what, ": opcode");
	if (op == Op::read || op == Op::cmp_swp || op == Op::fetch_add)
		require_eq(wc.byte_len, length, what, ": byte_len");
}

void require_recv_wc(const ibv_wc &wc, Op op, uint64_t id, const ibv_qp *qp, size_t length, uint32_t imm)
{
	std::string what = cat(name_of(op), " of ", length, " bytes, receive completion");
	bool with_imm = op == Op::write_imm || op == Op::send_imm;
	int opcode = op == Op::write_imm ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;

	require_wc(wc, IBV_WC_SUCCESS, id, qp, what);
	require_eq(static_cast<int>(wc.opcode), opcode, what, ": opcode");
	require_eq(wc.byte_len, length, what, ": byte_len");
	require_eq(bool(wc.wc_flags & IBV_WC_WITH_IMM), with_imm, what, ": flag WITH_IMM");
	if (with_imm)
		require_eq(be32toh(wc.imm_data), imm, what, ": immediate");
}

void expect_wc(const Env &env, ibv_cq *cq, ibv_wc_status status, uint64_t id, const ibv_qp *qp, std::string_view what)
{
	require_wc(next_wc(env, cq, what), status, id, qp, what);
}

Mover::Mover(Env &env, const PairSpec &spec, size_t largest)
	: pair(env, spec), a_buf(pair.a.pd.get(), largest + 4 * Buffer::guard + 8192),
	  b_buf(pair.b.pd.get(), largest + 4 * Buffer::guard + 8192), env_(env)
{
}

void Mover::move(Op op, const Shape &shape)
{
	uint64_t seed = env_.random(), id = ++serial_ << 8;
	SgeList local = a_buf.split(shape.local_offset, shape.length, shape.local_pieces);
	bool scatters = op == Op::send || op == Op::send_imm; // the others name one remote address
	SgeList remote = b_buf.split(shape.remote_offset, shape.length, scatters ? shape.remote_pieces : 1);
	SgeList &source = op == Op::read ? remote : local, &target = op == Op::read ? local : remote;
	Buffer &watched = op == Op::read ? a_buf : b_buf;
	std::string what = cat(name_of(op), " of ", shape.length, " bytes, offsets ", shape.local_offset, "->",
			       shape.remote_offset, ", pieces ", shape.local_pieces, "->", shape.remote_pieces);
	Wr wr{op, id, local, 0, 0, static_cast<uint32_t>(seed), 0, 0, shape.flags};

	if (op != Op::send && op != Op::send_imm) {
		wr.raddr = b_buf.addr(shape.remote_offset);
		wr.rkey = b_buf.rkey();
	}
	pattern_fill(source, seed);
	watched.paint_around(target);
	if (op == Op::write_imm)
		post_recv(pair.b.qp.get(), id + 1);
	else if (takes_receive(op))
		post_recv(pair.b.qp.get(), id + 1, remote);
	post_send(pair.a.qp.get(), wr, shape.api);
	await(op, shape, wr, what);
	pattern_check(target, shape.length, seed, what);
	watched.check_around(target, what);
	pattern_check(source, shape.length, seed, cat(what, ", source"));
}

void Mover::await(Op op, const Shape &shape, const Wr &wr, const std::string &what)
{
	if (takes_receive(op)) {
		ibv_wc wc = next_wc(env_, pair.b.rcq.get(), cat(what, ", receive side"));

		require_recv_wc(wc, op, wr.id + 1, pair.b.qp.get(), shape.length, wr.imm);
	}
	if (shape.flags & IBV_SEND_SIGNALED) {
		ibv_wc wc = next_wc(env_, pair.a.scq.get(), cat(what, ", send side"));

		require_send_wc(wc, op, wr.id, pair.a.qp.get(), shape.length);
	}
}

void require_alive(Env &env, Pair &pair)
{
	constexpr size_t length = 3000;
	Buffer source(pair.a.pd.get(), length), target(pair.b.pd.get(), length);
	uint64_t seed = env.random();
	Wr wr{Op::write, seed, {source.sge(0, length)}, target.addr(), target.rkey()};

	pattern_fill(source.at(0), length, seed, 0);
	post_send(pair.a.qp.get(), wr);
	expect_wc(env, pair.a.scq.get(), IBV_WC_SUCCESS, seed, pair.a.qp.get(), "a WRITE to see whether the pair is alive");
	pattern_check(target.at(0), length, seed, 0, "a WRITE to see whether the pair is alive");
}

} // namespace mv
