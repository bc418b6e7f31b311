// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Work requests, completions, and whole verified messages.
#pragma once

#include "link.h"

namespace mv {

enum class Op { write, write_imm, send, send_imm, read, cmp_swp, fetch_add };
enum class Api { classic, ex, ex_list };

[[nodiscard]] const char *name_of(Op op);
[[nodiscard]] ibv_wr_opcode opcode_of(Op op);
[[nodiscard]] ibv_wc_opcode wc_opcode_of(Op op);
[[nodiscard]] uint64_t ex_flag_of(Op op);
[[nodiscard]] bool takes_receive(Op op);
constexpr uint64_t all_ex_ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
				IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
				IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

struct Wr {
	Op op = Op::write;
	uint64_t id = 0;
	SgeList sg;
	uint64_t raddr = 0;
	uint32_t rkey = 0;
	uint32_t imm = 0;
	uint64_t compare_or_add = 0, swap = 0;
	unsigned flags = IBV_SEND_SIGNALED;
};

// The C form; it points into `wr`, which must outlive it.
[[nodiscard]] ibv_send_wr raw_of(Wr &wr);

// 0 or an errno value.
[[nodiscard]] int try_send(ibv_qp *qp, Wr wr, Api api = Api::classic);
[[nodiscard]] int try_recv(ibv_qp *qp, uint64_t id, SgeList list);
void post_send(ibv_qp *qp, const Wr &wr, Api api = Api::classic);
void post_recv(ibv_qp *qp, uint64_t id, const SgeList &list = {});

// The next completion; throws Failure after the case's patience.
[[nodiscard]] ibv_wc next_wc(const Env &env, ibv_cq *cq, std::string_view what);
[[nodiscard]] std::vector<ibv_wc> next_wcs(const Env &env, ibv_cq *cq, int n, std::string_view what);
[[nodiscard]] std::optional<ibv_wc> poll_one(ibv_cq *cq);
void require_silence(ibv_cq *cq, double seconds, std::string_view what);

// Checks status, and for success everything a completion of this kind promises.
void require_wc(const ibv_wc &wc, ibv_wc_status status, uint64_t id, const ibv_qp *qp, std::string_view what);
void require_send_wc(const ibv_wc &wc, Op op, uint64_t id, const ibv_qp *qp, size_t length);
void require_recv_wc(const ibv_wc &wc, Op op, uint64_t id, const ibv_qp *qp, size_t length, uint32_t imm);

// Waits for one completion of `qp` with this status.
void expect_wc(const Env &env, ibv_cq *cq, ibv_wc_status status, uint64_t id, const ibv_qp *qp, std::string_view what);

struct Shape {
	size_t length = 0;
	size_t local_offset = Buffer::guard, remote_offset = Buffer::guard;
	unsigned local_pieces = 1, remote_pieces = 1;
	unsigned flags = IBV_SEND_SIGNALED;
	Api api = Api::classic;
};

// A Pair with a buffer at each end, able to move one message and check every byte of it and around it.
class Mover {
public:
	Mover(Env &env, const PairSpec &spec, size_t largest);

	// Any Op but the atomics.
	void move(Op op, const Shape &shape);
	// All that a message touches, from outside: the other direction of the same pair.
	[[nodiscard]] Env &env() { return env_; }

	Pair pair;
	Buffer a_buf, b_buf;

private:
	void await(Op op, const Shape &shape, const Wr &wr, const std::string &what);

	Env &env_;
	uint64_t serial_ = 0;
};

// Posts a one-SGE WRITE and waits until its bytes are over: "is this pair alive?"
void require_alive(Env &env, Pair &pair);

} // namespace mv
