// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "rx_auditor.h"

extern "C" {
#include "stream_tx.h"
}

namespace {

using Rng = std::mt19937_64;
const u32 P = 64;
const u32 kStarts[] = {0, 1, 4095, 0x7fffffff, 0xfffff000, 0xffffffc0, 0xffffffff};

struct Message {
	u8 op = MROCE_OP_SEND;
	u8 hflags = 0;
	u32 length = 0;
	u32 msn = 0, first = 0, rsn = 0;
	u32 npkts() const
	{
		return op == MROCE_OP_SEND || op == MROCE_OP_WRITE ? mroce_npkts(length, P) : 1;
	}
};

bool consumes(const Message &m)
{
	return m.op == MROCE_OP_SEND || (m.op == MROCE_OP_WRITE && (m.hflags & MROCE_HF_IMM));
}

mroce_pkt packet(const Message &m, u32 idx)
{
	mroce_pkt p{};
	bool multi = m.op == MROCE_OP_SEND || m.op == MROCE_OP_WRITE;
	bool last = idx == m.npkts() - 1;

	p.type = MROCE_T_DATA;
	p.opcode = m.op;
	p.spsn = m.first + idx;
	p.msn = m.msn;
	p.sflags = u8((idx ? 0 : MROCE_SF_FIRST) | (last ? MROCE_SF_LAST : 0));
	p.hflags = u8(m.hflags & (last ? 0xff : MROCE_HF_XRC));
	if (multi) {
		p.offset = idx * P;
		p.payload_len = last ? m.length - idx * P : P;
	}
	if (m.op != MROCE_OP_SEND) {
		p.va = 0x1000000000 + m.msn;
		p.rkey = 0x77000000 + m.msn;
	}
	if (m.op == MROCE_OP_WRITE || m.op == MROCE_OP_READ_REQ)
		p.length = m.length;
	if (m.op == MROCE_OP_CMP_SWP || m.op == MROCE_OP_FETCH_ADD) {
		p.op1 = m.msn * 3ull;
		p.op2 = m.msn * 5ull;
	}
	if (m.op == MROCE_OP_SEND || (p.hflags & MROCE_HF_IMM))
		p.rsn = m.rsn;
	if (p.hflags & MROCE_HF_IMM)
		p.imm = 0xabc00000 + m.msn;
	if (p.hflags & MROCE_HF_INV)
		p.inv_rkey = 0xdef00000 + m.msn;
	if (p.hflags & MROCE_HF_XRC)
		p.srqn = 0x42;
	return p;
}

/* What the door would say to it: the stream only ever sees such packets. */
bool passes_the_door(const mroce_pkt &p)
{
	u8 buf[128];
	mroce_pkt q;
	const auto *op = mroce_op_info(p.opcode);

	if (!op || (p.hflags & ~op->hflags))
		return false;
	u32 n = mroce_build_data(buf, &p);
	return mroce_parse(buf, n, n + p.payload_len, &q) == MROCE_DOOR_OK;
}

/* A stream of messages that follow each other. */
struct Script {
	Script(u32 spsn, u32 first_msn = 0, u32 first_rsn = 0) : next(spsn), msn(first_msn), rsn(first_rsn) {}

	const Message &add(u8 op, u32 length, u8 hflags = 0)
	{
		Message m;
		m.op = op, m.length = length, m.hflags = hflags, m.msn = msn++, m.first = next, m.rsn = rsn;
		rsn += consumes(m);
		next += m.npkts();
		list.push_back(m);
		return list.back();
	}

	void add_random(Rng &rng, u32 max_pkts)
	{
		static const u8 ops[] = {MROCE_OP_SEND,	    MROCE_OP_WRITE,   MROCE_OP_WRITE,
					 MROCE_OP_READ_REQ, MROCE_OP_CMP_SWP, MROCE_OP_FETCH_ADD};
		u8 op = ops[rng() % std::size(ops)];
		u8 hf = 0;
		if (op == MROCE_OP_SEND)
			hf = u8(rng() % 3 * 0x40); /* none, INV, IMM */
		if (op == MROCE_OP_WRITE && rng() % 2)
			hf = MROCE_HF_IMM;
		if (rng() % 8 == 0)
			hf |= MROCE_HF_XRC;
		bool multi = op == MROCE_OP_SEND || op == MROCE_OP_WRITE;
		u32 len = rng() % 3 ? u32(rng() % (3 * P)) : u32(rng() % (max_pkts * P));
		add(op, op == MROCE_OP_READ_REQ ? len * 1000 : multi ? len : 0, hf);
	}

	std::vector<Message> list;
	u32 next, msn, rsn;
};

mroce_rx_verdict deliver(RxAuditor &a, const mroce_pkt &p, bool relaxed = false)
{
	EXPECT_TRUE(passes_the_door(p));
	return a.packet(p, relaxed);
}

/* SEND, WRITE, READ... of given packets, on a fresh receiver; P = 64, window 16. */
class Fixture : public ::testing::TestWithParam<u32> {
protected:
	Fixture() : s(GetParam()), a(GetParam(), P, 16) {}

	mroce_rx_verdict put(const Message &m, u32 idx) { return deliver(a, packet(m, idx)); }

	template <typename F> mroce_rx_verdict put_changed(const Message &m, u32 idx, F change)
	{
		mroce_pkt p = packet(m, idx);
		change(p);
		return deliver(a, p);
	}

	Script s;
	RxAuditor a;
};

class StreamRx14 : public Fixture {};
class StreamRx62 : public Fixture {};
class StreamRx63 : public Fixture {};

const auto kAll = ::testing::ValuesIn(kStarts);
INSTANTIATE_TEST_SUITE_P(Start, StreamRx14, kAll);
INSTANTIATE_TEST_SUITE_P(Start, StreamRx62, kAll);
INSTANTIATE_TEST_SUITE_P(Start, StreamRx63, kAll);

} // namespace

TEST_P(StreamRx14, DuplicatesAreToldBeforeAnythingElse)
{
	Message m = s.add(MROCE_OP_SEND, 3 * P), n = s.add(MROCE_OP_SEND, P);

	EXPECT_EQ(put(m, 2), MROCE_RX_OK);
	EXPECT_EQ(put(m, 2), MROCE_RX_DUP);
	EXPECT_EQ(put(m, 0), MROCE_RX_OK);
	EXPECT_EQ(put(m, 0), MROCE_RX_DUP);
	EXPECT_EQ(put(m, 1), MROCE_RX_OK);
	EXPECT_TRUE(a.execute());
	for (u32 i = 0; i < 3; i++)
		EXPECT_EQ(put(m, i), MROCE_RX_DUP);
	EXPECT_EQ(put(n, 0), MROCE_RX_OK);
	EXPECT_TRUE(a.execute());
	EXPECT_FALSE(a.execute());
}

TEST_P(StreamRx14, MessagesCompleteInOrder)
{
	Message m[3] = {s.add(MROCE_OP_SEND, P), s.add(MROCE_OP_WRITE, 2 * P), s.add(MROCE_OP_READ_REQ, 5)};

	EXPECT_EQ(put(m[2], 0), MROCE_RX_OK);
	EXPECT_EQ(put(m[1], 0), MROCE_RX_OK);
	EXPECT_EQ(put(m[1], 1), MROCE_RX_HOLD);
	EXPECT_FALSE(a.execute());
	EXPECT_EQ(put(m[0], 0), MROCE_RX_OK);
	mroce_msg_rec r;
	for (int i = 0; i < 3; i++) {
		EXPECT_TRUE(a.execute(&r));
		EXPECT_EQ(r.op, m[i].op);
	}
	EXPECT_FALSE(a.execute());
}

TEST_P(StreamRx14, OffsetIsAMultipleOfP)
{
	Message m = s.add(MROCE_OP_SEND, 3 * P);

	EXPECT_EQ(put_changed(m, 1, [](auto &p) { p.offset++; }), MROCE_RX_INVALID);
	EXPECT_EQ(put_changed(m, 1, [](auto &p) { p.offset--; }), MROCE_RX_INVALID);
	EXPECT_EQ(put(m, 1), MROCE_RX_OK);
}

TEST_P(StreamRx14, OnlyLastMayBeShort)
{
	Message m = s.add(MROCE_OP_SEND, 3 * P - 5), w = s.add(MROCE_OP_WRITE, 3 * P - 5);

	EXPECT_EQ(put_changed(m, 0, [](auto &p) { p.payload_len--; }), MROCE_RX_INVALID);
	EXPECT_EQ(put_changed(m, 0, [](auto &p) { p.payload_len++; }), MROCE_RX_INVALID);
	EXPECT_EQ(put_changed(m, 2, [](auto &p) { p.payload_len = P + 1; }), MROCE_RX_INVALID);
	EXPECT_EQ(put_changed(w, 0, [](auto &p) { p.payload_len--; }), MROCE_RX_INVALID);
	EXPECT_EQ(put(m, 2), MROCE_RX_OK);
	EXPECT_EQ(put(w, 2), MROCE_RX_HOLD);
}

TEST_P(StreamRx14, FirstSpsnMustAgreeWithTheRecord)
{
	s.add(MROCE_OP_SEND, P);
	Message m = s.add(MROCE_OP_SEND, 5 * P);

	EXPECT_EQ(put(m, 1), MROCE_RX_OK);
	EXPECT_EQ(put_changed(m, 2, [](auto &p) { p.spsn++; }), MROCE_RX_INVALID);
	EXPECT_EQ(put_changed(m, 2, [](auto &p) { p.offset += P; }), MROCE_RX_INVALID);
	EXPECT_EQ(put_changed(m, 0, [](auto &p) { p.spsn--; }), MROCE_RX_INVALID);
	EXPECT_EQ(put(m, 2), MROCE_RX_OK);
}

TEST_P(StreamRx14, ExecMsnBeginsAtExecSpsn)
{
	Message m = s.add(MROCE_OP_SEND, 3 * P), n = s.add(MROCE_OP_SEND, 2 * P);

	EXPECT_EQ(put_changed(m, 0, [](auto &p) { p.spsn++; }), MROCE_RX_INVALID);
	EXPECT_EQ(put_changed(m, 1, [](auto &p) { p.spsn++; }), MROCE_RX_INVALID);
	EXPECT_EQ(put_changed(m, 2, [](auto &p) { p.spsn--; }), MROCE_RX_INVALID);
	for (u32 i = 0; i < 3; i++)
		EXPECT_EQ(put(m, i), MROCE_RX_OK);
	EXPECT_TRUE(a.execute());
	EXPECT_EQ(put_changed(n, 0, [](auto &p) { p.spsn++; }), MROCE_RX_INVALID);
	EXPECT_EQ(put_changed(n, 1, [](auto &p) { p.offset += P; }), MROCE_RX_INVALID);
	EXPECT_EQ(put(n, 0), MROCE_RX_OK);
}

TEST_P(StreamRx14, EveryMessageNeedsAPacket)
{
	Message m[4] = {s.add(MROCE_OP_SEND, P), s.add(MROCE_OP_SEND, P), s.add(MROCE_OP_SEND, P),
			s.add(MROCE_OP_SEND, 2 * P)};

	/* Message 3 cannot begin at SPSN 2, nor before the stream. */
	EXPECT_EQ(put_changed(m[3], 0, [](auto &p) { p.spsn--; }), MROCE_RX_INVALID);
	EXPECT_EQ(put_changed(m[3], 1, [](auto &p) { p.offset = 5 * P; }), MROCE_RX_INVALID);
	EXPECT_EQ(put(m[3], 0), MROCE_RX_OK);
}

TEST_P(StreamRx14, ReusedMsnOfAnExecutedMessage)
{
	Message m = s.add(MROCE_OP_SEND, P), n = s.add(MROCE_OP_SEND, P);

	EXPECT_EQ(put(m, 0), MROCE_RX_OK);
	EXPECT_TRUE(a.execute());
	EXPECT_EQ(put_changed(n, 0, [](auto &p) { p.msn--; }), MROCE_RX_INVALID);
	EXPECT_EQ(put_changed(n, 0, [](auto &p) { p.msn -= 0x7fffffff; }), MROCE_RX_INVALID);
	EXPECT_EQ(put(n, 0), MROCE_RX_OK);
}

TEST_P(StreamRx14, ReusedMsnOfAMessageInProgress)
{
	Message m = s.add(MROCE_OP_READ_REQ, 4), n = s.add(MROCE_OP_READ_REQ, 4);

	EXPECT_EQ(put(m, 0), MROCE_RX_OK);
	EXPECT_EQ(put_changed(n, 0, [](auto &p) { p.msn--; }), MROCE_RX_INVALID);
	EXPECT_TRUE(a.execute());
	EXPECT_EQ(put(n, 0), MROCE_RX_OK);
}

TEST_P(StreamRx14, PacketsOfAMessageAgree)
{
	Message w = s.add(MROCE_OP_WRITE, 4 * P, MROCE_HF_IMM | MROCE_HF_XRC);
	Message m = s.add(MROCE_OP_SEND, 4 * P, MROCE_HF_XRC);

	EXPECT_EQ(put(w, 1), MROCE_RX_OK);
	EXPECT_EQ(put_changed(w, 2, [](auto &p) { p.va++; }), MROCE_RX_INVALID);
	EXPECT_EQ(put_changed(w, 2, [](auto &p) { p.rkey ^= 0x80000000; }), MROCE_RX_INVALID);
	EXPECT_EQ(put_changed(w, 2, [](auto &p) { p.length++; }), MROCE_RX_INVALID);
	EXPECT_EQ(put_changed(w, 2, [](auto &p) { p.length += 100 * P; }), MROCE_RX_INVALID);
	EXPECT_EQ(put_changed(w, 2, [](auto &p) { p.srqn++; }), MROCE_RX_INVALID);
	EXPECT_EQ(put_changed(w, 2, [](auto &p) { p.hflags = 0, p.srqn = 0; }), MROCE_RX_INVALID);
	EXPECT_EQ(put_changed(w, 2,
			      [](auto &p) {
				      p.opcode = MROCE_OP_SEND, p.va = 0, p.rkey = 0, p.length = 0;
			      }),
		  MROCE_RX_INVALID);
	EXPECT_EQ(put(m, 1), MROCE_RX_OK);
	EXPECT_EQ(put_changed(m, 2, [](auto &p) { p.rsn--; }), MROCE_RX_INVALID);
	EXPECT_EQ(put_changed(m, 2, [](auto &p) { p.srqn--; }), MROCE_RX_INVALID);
	EXPECT_EQ(put(m, 2), MROCE_RX_OK);
	EXPECT_EQ(put(w, 2), MROCE_RX_OK);
}

TEST_P(StreamRx14, SecondLastAndPacketsBeyondIt)
{
	Message m = s.add(MROCE_OP_SEND, 3 * P), longer = m, shorter = m;

	longer.length = 5 * P, shorter.length = 2 * P;
	EXPECT_EQ(put(m, 2), MROCE_RX_OK);
	EXPECT_EQ(put(longer, 3), MROCE_RX_INVALID);
	EXPECT_EQ(put(longer, 4), MROCE_RX_INVALID);
	EXPECT_EQ(put(shorter, 1), MROCE_RX_INVALID);
	EXPECT_EQ(put(m, 1), MROCE_RX_OK);
	EXPECT_EQ(put(m, 0), MROCE_RX_OK);
	mroce_msg_rec r;
	EXPECT_TRUE(a.execute(&r));
	EXPECT_EQ(r.length, 3 * P);
}

TEST_P(StreamRx14, LastBelowAPacketAlreadyReceived)
{
	Message m = s.add(MROCE_OP_SEND, 5 * P), shorter = m;

	EXPECT_EQ(put(m, 3), MROCE_RX_OK);
	for (u32 n = 1; n < 4; n++) {
		shorter.length = n * P;
		EXPECT_EQ(put(shorter, n - 1), MROCE_RX_INVALID);
	}
	EXPECT_EQ(put(m, 4), MROCE_RX_OK);
}

TEST_P(StreamRx14, OverlapAndHoleBesideTheNextMessage)
{
	Message m = s.add(MROCE_OP_SEND, 3 * P), n = s.add(MROCE_OP_WRITE, 2 * P), x = m;

	EXPECT_EQ(put(n, 0), MROCE_RX_OK);
	/* LAST of m must touch n: neither earlier nor later. */
	x.length = 2 * P;
	EXPECT_EQ(put(x, 1), MROCE_RX_INVALID);
	x.length = 5 * P;
	EXPECT_EQ(put(x, 4), MROCE_RX_INVALID);
	/* No packet but LAST directly before n. */
	EXPECT_EQ(put(x, 2), MROCE_RX_INVALID);
	EXPECT_EQ(put(m, 1), MROCE_RX_OK);
	EXPECT_EQ(put(m, 2), MROCE_RX_OK);
	/* The same for an opcode that tells its length at once. */
	Message w = s.add(MROCE_OP_WRITE, 3 * P), y = w;
	Message r = s.add(MROCE_OP_READ_REQ, 4);
	EXPECT_EQ(put(r, 0), MROCE_RX_OK);
	for (u32 len : {2 * P, 4 * P, 1000 * P, MROCE_MAX_MSG}) {
		y.length = len;
		EXPECT_EQ(put(y, 1), MROCE_RX_INVALID) << len;
	}
	EXPECT_EQ(put(w, 1), MROCE_RX_OK);
}

TEST_P(StreamRx14, OverlapAndHoleBesideThePreviousMessage)
{
	Message f = s.add(MROCE_OP_READ_REQ, 1), m = s.add(MROCE_OP_SEND, 3 * P), n = s.add(MROCE_OP_SEND, 2 * P);

	EXPECT_EQ(put(m, 1), MROCE_RX_OK);
	/* m has packets 0 and 1 and at least a LAST behind them. */
	EXPECT_EQ(put_changed(n, 0, [](auto &p) { p.spsn--; }), MROCE_RX_INVALID);
	EXPECT_EQ(put_changed(n, 0, [](auto &p) { p.spsn -= 3; }), MROCE_RX_INVALID);
	EXPECT_EQ(put(m, 2), MROCE_RX_OK);
	EXPECT_EQ(put_changed(n, 0, [](auto &p) { p.spsn++; }), MROCE_RX_INVALID);
	EXPECT_EQ(put(n, 0), MROCE_RX_OK);
	EXPECT_EQ(put(f, 0), MROCE_RX_OK);
}

TEST_P(StreamRx14, WindowOfSpsns)
{
	Message m = s.add(MROCE_OP_SEND, 5000 * P);

	EXPECT_EQ(put(m, 4095), MROCE_RX_OK);
	EXPECT_EQ(put(m, 4096), MROCE_RX_WINDOW);
	EXPECT_EQ(put(m, 0), MROCE_RX_OK);
	EXPECT_EQ(put(m, 4096), MROCE_RX_OK);
	EXPECT_EQ(put(m, 4097), MROCE_RX_WINDOW);
	for (u32 i = 1; i < 4097; i++)
		put(m, i);
	EXPECT_EQ(a.base(), 4097);
	EXPECT_EQ(put_changed(m, 4999, [](auto &p) { p.spsn += 4000; }), MROCE_RX_WINDOW);
	EXPECT_EQ(put_changed(m, 4999, [](auto &p) { p.spsn += 0x7fff0000; }), MROCE_RX_WINDOW);
	for (u32 i = 4097; i < 5000; i++)
		EXPECT_EQ(put(m, i), MROCE_RX_OK);
	EXPECT_TRUE(a.execute());
}

TEST_P(StreamRx14, BaseMovesOverAFullWindow)
{
	Message m = s.add(MROCE_OP_SEND, 4096 * P);

	for (u32 i = 4095; i > 0; i--)
		ASSERT_EQ(put(m, i), MROCE_RX_OK);
	EXPECT_EQ(a.base(), 0);
	EXPECT_EQ(put(m, 0), MROCE_RX_OK);
	EXPECT_EQ(a.base(), 4096);
	for (u64 w : a.rx.bits)
		EXPECT_EQ(w, 0u);
	EXPECT_TRUE(a.execute());
}

TEST_P(StreamRx14, LongestMessage)
{
	Message m = s.add(MROCE_OP_WRITE, MROCE_MAX_MSG), x = m;

	x.length = MROCE_MAX_MSG - 1;
	EXPECT_EQ(put(m, 4095), MROCE_RX_OK);
	EXPECT_EQ(put(x, 4094), MROCE_RX_INVALID);
	EXPECT_EQ(put(m, m.npkts() - 1), MROCE_RX_WINDOW);
}

/* Messages that are received but not executed cannot pile up until numbers become ambiguous. */
TEST_P(StreamRx14, UnexecutedPacketsAreLimited)
{
	mroce_msg_rec rec[16] = {};
	mroce_stream_rx rx;
	Script t(GetParam());
	mroce_pkt p = packet(t.add(MROCE_OP_SEND, P), 0);

	mroce_stream_rx_init(&rx, GetParam(), P, rec, 16);
	p.msn = 8;
	for (u32 back : {0x100u, 1u << 30, (1u << 30) + 1, 0xfffffff0u}) {
		rx.exec_spsn = rx.base - back;
		EXPECT_EQ(mroce_stream_rx_check(&rx, &p, false),
			  back <= 1u << 30 ? MROCE_RX_OK : MROCE_RX_WINDOW);
	}
}

TEST_P(StreamRx63, WindowOfMessages)
{
	for (int i = 0; i < 18; i++)
		s.add(MROCE_OP_READ_REQ, 8);
	EXPECT_EQ(put(s.list[15], 0), MROCE_RX_OK);
	EXPECT_EQ(put(s.list[16], 0), MROCE_RX_WINDOW);
	EXPECT_EQ(put(s.list[0], 0), MROCE_RX_OK);
	/* Received is not executed: the record is still in use. */
	EXPECT_EQ(put(s.list[16], 0), MROCE_RX_WINDOW);
	EXPECT_TRUE(a.execute());
	EXPECT_EQ(put(s.list[16], 0), MROCE_RX_OK);
	EXPECT_EQ(put(s.list[17], 0), MROCE_RX_WINDOW);
	EXPECT_EQ(put_changed(s.list[17], 0, [](auto &p) { p.msn += 0x7fffff00; }), MROCE_RX_WINDOW);
}

TEST_P(StreamRx63, ReadGate)
{
	Message w = s.add(MROCE_OP_WRITE, 2 * P), r = s.add(MROCE_OP_READ_REQ, 2 * P);

	EXPECT_EQ(put(r, 0), MROCE_RX_OK);
	EXPECT_EQ(put(w, 1), MROCE_RX_HOLD);
	EXPECT_FALSE(a.execute());
	EXPECT_EQ(put(w, 0), MROCE_RX_OK);
	EXPECT_TRUE(a.execute());
	/* Waits for room in the response queue: asked again later, executed once. */
	EXPECT_EQ(mroce_stream_rx_complete(&a.rx), mroce_stream_rx_complete(&a.rx));
	EXPECT_TRUE(a.execute());
	EXPECT_FALSE(a.execute());
	EXPECT_EQ(put(r, 0), MROCE_RX_DUP);
}

TEST_P(StreamRx63, AtomicIsExecutedOnce)
{
	Message m = s.add(MROCE_OP_CMP_SWP, 0), n = s.add(MROCE_OP_FETCH_ADD, 0);
	mroce_msg_rec r;

	EXPECT_EQ(put(m, 0), MROCE_RX_OK);
	EXPECT_EQ(put(m, 0), MROCE_RX_DUP);
	EXPECT_TRUE(a.execute(&r));
	EXPECT_EQ(r.op1, 0u);
	EXPECT_EQ(put(m, 0), MROCE_RX_DUP);
	EXPECT_EQ(put(n, 0), MROCE_RX_OK);
	EXPECT_TRUE(a.execute(&r));
	EXPECT_EQ(r.op1, 3u);
	EXPECT_EQ(r.op2, 5u);
	EXPECT_FALSE(a.execute());
}

TEST_P(StreamRx63, RsnOfTheMessageWhoseTurnItIs)
{
	Message m = s.add(MROCE_OP_SEND, 2 * P);

	EXPECT_EQ(put_changed(m, 0, [](auto &p) { p.rsn++; }), MROCE_RX_INVALID);
	EXPECT_EQ(put_changed(m, 0, [](auto &p) { p.rsn--; }), MROCE_RX_INVALID);
	EXPECT_EQ(put(m, 0), MROCE_RX_OK);
}

TEST_P(StreamRx63, RsnOfALaterMessageHasItsRange)
{
	for (int i = 0; i < 3; i++)
		s.add(MROCE_OP_SEND, P);
	Message m = s.list[2];

	EXPECT_EQ(put_changed(m, 0, [](auto &p) { p.rsn = 3; }), MROCE_RX_INVALID);
	EXPECT_EQ(put_changed(m, 0, [](auto &p) { p.rsn = ~0u; }), MROCE_RX_INVALID);
	EXPECT_EQ(put(s.list[0], 0), MROCE_RX_OK);
	EXPECT_TRUE(a.execute());
	/* The receive of message 0 is completed: nobody may write to it any more. */
	EXPECT_EQ(put_changed(m, 0, [](auto &p) { p.rsn = 0; }), MROCE_RX_INVALID);
	EXPECT_EQ(put(m, 0), MROCE_RX_OK);
}

TEST_P(StreamRx63, WrongRsnOfACompleteMessageIsBroken)
{
	Message w = s.add(MROCE_OP_WRITE, P), m = s.add(MROCE_OP_SEND, P);

	EXPECT_EQ(put_changed(m, 0, [](auto &p) { p.rsn = 1; }), MROCE_RX_OK); /* if w had an immediate */
	EXPECT_FALSE(mroce_stream_rx_broken(&a.rx));
	EXPECT_EQ(put(w, 0), MROCE_RX_OK);
	EXPECT_TRUE(a.execute());
	EXPECT_TRUE(mroce_stream_rx_broken(&a.rx));
	EXPECT_EQ(mroce_stream_rx_complete(&a.rx), nullptr);
	EXPECT_FALSE(a.execute());
}

TEST_P(StreamRx63, ImmediateAndInvalidateComeWithLast)
{
	Message m = s.add(MROCE_OP_SEND, 3 * P, MROCE_HF_IMM), n = s.add(MROCE_OP_SEND, 3 * P, MROCE_HF_INV);
	auto imm = [](auto &p) { p.hflags = MROCE_HF_IMM, p.imm = 0xabc00000; };
	auto other = [](auto &p) { p.hflags = MROCE_HF_IMM, p.imm = 1; };
	auto none = [](auto &p) { p.hflags = 0, p.imm = 0, p.inv_rkey = 0; };
	auto inv = [](auto &p) { p.hflags = MROCE_HF_INV, p.imm = 0, p.inv_rkey = 5; };

	/* Announced by an earlier packet, then LAST without or with another. */
	EXPECT_EQ(put_changed(m, 0, imm), MROCE_RX_OK);
	EXPECT_EQ(put_changed(m, 2, none), MROCE_RX_INVALID);
	EXPECT_EQ(put_changed(m, 2, other), MROCE_RX_INVALID);
	EXPECT_EQ(put_changed(m, 1, inv), MROCE_RX_INVALID);
	EXPECT_EQ(put_changed(m, 1, other), MROCE_RX_INVALID);
	EXPECT_EQ(put(m, 2), MROCE_RX_OK);
	EXPECT_EQ(put(m, 1), MROCE_RX_OK);
	/* LAST without, then a packet that claims to have one. */
	EXPECT_EQ(put(n, 2), MROCE_RX_OK);
	EXPECT_EQ(put_changed(n, 1, inv), MROCE_RX_INVALID);
	EXPECT_EQ(put_changed(n, 1, imm), MROCE_RX_INVALID);
	EXPECT_EQ(put(n, 1), MROCE_RX_OK);
	EXPECT_EQ(put(n, 0), MROCE_RX_OK);
	EXPECT_TRUE(a.execute());
	mroce_msg_rec r;
	EXPECT_TRUE(a.execute(&r));
	EXPECT_EQ(r.inv_rkey, 0xdef00001u);
}

TEST_P(StreamRx63, ImmediateCannotBeAddedToAWrite)
{
	Message w = s.add(MROCE_OP_WRITE, 3 * P);

	EXPECT_EQ(put(w, 2), MROCE_RX_HOLD);
	EXPECT_EQ(put_changed(w, 1, [](auto &p) { p.hflags = MROCE_HF_IMM; }), MROCE_RX_INVALID);
	EXPECT_EQ(put(w, 1), MROCE_RX_OK);
	EXPECT_EQ(put(w, 0), MROCE_RX_OK);
	EXPECT_TRUE(a.execute());
	EXPECT_EQ(a.rx.exec_rsn, 0u);
}

TEST_P(StreamRx62, LastOfAWriteIsHeld)
{
	Message m = s.add(MROCE_OP_SEND, P), w = s.add(MROCE_OP_WRITE, 2 * P), x = s.add(MROCE_OP_WRITE, P);

	EXPECT_EQ(put(x, 0), MROCE_RX_HOLD);
	EXPECT_EQ(put(w, 0), MROCE_RX_OK);
	EXPECT_EQ(put(w, 1), MROCE_RX_HOLD);
	EXPECT_EQ(a.held(), 2u);
	EXPECT_EQ(put(m, 0), MROCE_RX_OK);
	EXPECT_EQ(a.held(), 0u);
	Message y = s.add(MROCE_OP_WRITE, P);
	EXPECT_EQ(put(y, 0), MROCE_RX_OK) << "in order: nothing to wait for";
}

TEST_P(StreamRx62, RelaxedEmptyAndSendAreNotHeld)
{
	s.add(MROCE_OP_READ_REQ, 4);
	Message w = s.add(MROCE_OP_WRITE, P), e = s.add(MROCE_OP_WRITE, 0, MROCE_HF_IMM), m = s.add(MROCE_OP_SEND, P);

	EXPECT_EQ(deliver(a, packet(w, 0), true), MROCE_RX_OK);
	EXPECT_EQ(put(e, 0), MROCE_RX_OK);
	EXPECT_EQ(put(m, 0), MROCE_RX_OK);
	EXPECT_EQ(a.held(), 0u);
}

TEST(StreamRx12, ResponseClassIsOnlyTheBitmap)
{
	for (u32 start : kStarts) {
		mroce_stream_rx rx;
		mroce_pkt p{};

		mroce_stream_rx_init(&rx, start, P, nullptr, 0);
		p.opcode = MROCE_OP_READ_RSP;
		p.spsn = start + 4095;
		EXPECT_EQ(mroce_stream_rx_check(&rx, &p, false), MROCE_RX_OK);
		EXPECT_FALSE(mroce_stream_rx_commit(&rx, &p));
		EXPECT_EQ(mroce_stream_rx_check(&rx, &p, false), MROCE_RX_DUP);
		p.spsn++;
		EXPECT_EQ(mroce_stream_rx_check(&rx, &p, false), MROCE_RX_WINDOW);
		p.spsn = start - 1;
		EXPECT_EQ(mroce_stream_rx_check(&rx, &p, false), MROCE_RX_DUP);
		p.spsn = start;
		EXPECT_EQ(mroce_stream_rx_check(&rx, &p, false), MROCE_RX_OK);
		EXPECT_TRUE(mroce_stream_rx_commit(&rx, &p));
		mroce_ack_stream b{};
		b.msn_done = 77;
		mroce_stream_rx_block(&rx, &b);
		EXPECT_EQ(b.base_spsn, start + 1);
		EXPECT_EQ(b.vector, 0u);
		EXPECT_EQ(b.msn_done, 77u);
		p.spsn = start + 3;
		mroce_stream_rx_commit(&rx, &p);
		mroce_stream_rx_block(&rx, &b);
		EXPECT_EQ(b.vector, 2u);
		EXPECT_EQ(mroce_stream_rx_complete(&rx), nullptr);
		EXPECT_EQ(mroce_stream_rx_rec(&rx, 0), nullptr);
		EXPECT_FALSE(mroce_stream_rx_broken(&rx));
		p.opcode = MROCE_OP_SEND, p.spsn = start + 10;
		EXPECT_EQ(mroce_stream_rx_check(&rx, &p, false), MROCE_RX_INVALID);
	}
}

TEST(StreamRx12, RequestClassTakesNoResponses)
{
	RxAuditor a(5, P, 16);
	mroce_pkt p{};

	p.spsn = 5;
	for (int op : {int(MROCE_OP_READ_RSP), int(MROCE_OP_ATOMIC_RSP), int(MROCE_OP_END), 0, 255}) {
		p.opcode = u8(op);
		p.sflags = MROCE_SF_FIRST | MROCE_SF_LAST;
		EXPECT_EQ(mroce_stream_rx_check(&a.rx, &p, false), MROCE_RX_INVALID);
	}
}

TEST(StreamRx63, RecordOnlyWhileInProgressAndInTheWindow)
{
	RxAuditor a(0, P, 16);
	Script s(0);
	Message m = s.add(MROCE_OP_SEND, P), n = s.add(MROCE_OP_SEND, P);

	EXPECT_EQ(mroce_stream_rx_rec(&a.rx, 0), nullptr);
	deliver(a, packet(n, 0));
	EXPECT_NE(mroce_stream_rx_rec(&a.rx, 1), nullptr);
	EXPECT_EQ(mroce_stream_rx_rec(&a.rx, 17), nullptr);
	EXPECT_EQ(mroce_stream_rx_rec(&a.rx, 1u - 16), nullptr);
	deliver(a, packet(m, 0));
	EXPECT_TRUE(a.execute());
	EXPECT_EQ(mroce_stream_rx_rec(&a.rx, 0), nullptr);
	EXPECT_NE(mroce_stream_rx_rec(&a.rx, 1), nullptr);
}

namespace {

u32 random_start(Rng &rng)
{
	return rng() % 2 ? 0u - u32(rng() % 5000) : u32(rng());
}

/* Sends a script through a network that loses, repeats and shuffles. */
class Lossy {
public:
	Lossy(u64 seed, u32 n_msgs, u32 max_pkts, u32 window)
		: rng_(seed), spsn_(random_start(rng_)), msn_(random_start(rng_)), rsn_(random_start(rng_)),
		  script_(spsn_, msn_, rsn_), a_(spsn_, P, window, msn_, rsn_), window_(window)
	{
		mroce_stream_tx_init(&tx_, spsn_);
		for (u32 i = 0; i < n_msgs; i++)
			script_.add_random(rng_, max_pkts);
		for (const Message &m : script_.list)
			for (u32 k = 0; k < m.npkts(); k++)
				pkts_.push_back(packet(m, k));
	}

	/* False if it does not come to an end. */
	bool run()
	{
		u64 patience = 400 * (pkts_.size() + 100);

		while (done_ < script_.list.size() || !mroce_stream_tx_idle(&tx_)) {
			if (!patience--)
				return false;
			send();
			receive();
			if (rng_() % 4 == 0)
				stream_block();
			if (rng_() % 4)
				execute();
		}
		return true;
	}

private:
	void send()
	{
		u32 n = u32(rng_() % 5);

		while (n-- && next_ < pkts_.size() && mroce_stream_tx_room(&tx_) &&
		       pkts_[next_].msn - msn_done_ - msn_ < window_) {
			u32 spsn = mroce_stream_tx_take(&tx_);
			ASSERT_EQ(spsn, pkts_[next_].spsn);
			wire_.push_back(u32(next_++));
		}
		/* Loss on a path is seen by the path, here by an oracle. */
		if (wire_.empty() && next_) {
			u32 from = tx_.base - spsn_;
			for (u32 i = from; i < next_; i++)
				if (mroce_stream_tx_wanted(&tx_, spsn_ + i))
					wire_.push_back(i);
		}
	}

	void receive()
	{
		for (u32 n = u32(rng_() % 6); n && !wire_.empty(); n--) {
			size_t k = rng_() % std::min<size_t>(wire_.size(), 1 + rng_() % 64);
			u32 i = wire_[k];
			if (rng_() % 8 == 0) { /* stays: a duplicate */
			} else {
				wire_.erase(wire_.begin() + long(k));
			}
			if (rng_() % 6 == 0)
				continue; /* lost */
			if (rng_() % 20 == 0) { /* dropped behind the path */
				mroce_stream_tx_arrived(&tx_, spsn_ + i);
				continue;
			}
			bool relaxed = rng_() % 4 == 0;
			mroce_rx_verdict v = a_.packet(pkts_[i], relaxed);
			ASSERT_NE(v, MROCE_RX_INVALID);
			ASSERT_NE(v, MROCE_RX_WINDOW);
			if (rng_() % 2)
				mroce_stream_tx_arrived(&tx_, spsn_ + i);
		}
	}

	void stream_block()
	{
		mroce_ack_stream b{};
		u64 resend;

		mroce_stream_rx_block(&a_.rx, &b);
		if (rng_() % 8 == 0)
			std::swap(b, late_); /* overtaken */
		if (!b.base_spsn && !b.vector && !b.msn_done)
			return;
		ASSERT_GE(mroce_stream_tx_block(&tx_, &b, &resend), 0);
		for (int k = 0; k < 64; k++)
			if (resend >> k & 1)
				wire_.push_back(b.base_spsn + u32(k) - spsn_);
		if (b.msn_done - msn_ < script_.list.size() + 1)
			msn_done_ = std::max(msn_done_, b.msn_done - msn_);
		/* A tail that was dropped behind the path shows by no bit: solicited, then resent. */
		if (wire_.empty())
			mroce_stream_tx_unmark(&tx_, b.base_spsn, 4096);
	}

	void execute()
	{
		mroce_msg_rec r;

		while (rng_() % 8 && a_.execute(&r)) {
			const Message &m = script_.list.at(done_++);
			ASSERT_EQ(r.op, m.op);
			ASSERT_EQ(r.first_spsn, m.first);
			ASSERT_EQ(r.npkts, m.npkts());
			if (m.op != MROCE_OP_CMP_SWP && m.op != MROCE_OP_FETCH_ADD) {
				ASSERT_EQ(r.length, m.length);
			}
			ASSERT_EQ(r.hflags, m.hflags);
			if (m.op != MROCE_OP_SEND) {
				ASSERT_EQ(r.va, 0x1000000000 + m.msn);
				ASSERT_EQ(r.rkey, 0x77000000 + m.msn);
			}
		}
	}

	Rng rng_;
	u32 spsn_, msn_, rsn_;
	Script script_;
	RxAuditor a_;
	u32 window_;
	mroce_stream_tx tx_;
	std::vector<mroce_pkt> pkts_;
	std::vector<u32> wire_;
	mroce_ack_stream late_{};
	size_t next_ = 0, done_ = 0;
	u32 msn_done_ = 0;
};

} // namespace

TEST(StreamRx12, LossyNetworkCompletesEveryMessageOnceInOrder)
{
	for (u64 seed = 0; seed < 3000; seed++) {
		try {
			ASSERT_TRUE(Lossy(seed, 30, 12, 16).run()) << seed;
		} catch (const std::logic_error &e) {
			FAIL() << "seed " << seed << ": " << e.what();
		}
		if (HasFatalFailure())
			FAIL() << "seed " << seed;
	}
}

TEST(StreamRx12, LossyNetworkWithLongMessages)
{
	for (u64 seed = 0; seed < 40; seed++) {
		try {
			ASSERT_TRUE(Lossy(1000000 + seed, 8, 2500, 256).run()) << seed;
		} catch (const std::logic_error &e) {
			FAIL() << "seed " << seed << ": " << e.what();
		}
		if (HasFatalFailure())
			FAIL() << "seed " << seed;
	}
}

/* A peer that knows everything and wants to confuse: no promise may break, whatever it sends. */
TEST(StreamRx14, HostilePacketsNeverConfuse)
{
	u64 verdicts[5] = {}, executed = 0, broken = 0;

	for (u64 seed = 0; seed < 4000; seed++) {
		Rng rng(seed);
		u32 spsn = random_start(rng), msn = random_start(rng), rsn = random_start(rng);
		Script s(spsn, msn, rsn);
		RxAuditor a(spsn, P, 16, msn, rsn);
		std::vector<mroce_pkt> pkts;

		for (int i = 0; i < 40; i++)
			s.add_random(rng, 6);
		for (const Message &m : s.list)
			for (u32 k = 0; k < m.npkts(); k++)
				pkts.push_back(packet(m, k));
		try {
			for (int step = 0; step < 400; step++) {
				size_t near = std::min<size_t>(size_t(a.base()) + rng() % 24, pkts.size() - 1);
				mroce_pkt p = pkts[near];

				for (u64 n = rng() % 4 ? 0 : 1 + rng() % 2; n; n--) {
					const mroce_pkt &q = pkts[(near + rng() % 8) % pkts.size()];
					u32 d = u32(rng() % 5) - 2;
					switch (rng() % 16) {
					case 0: p.spsn += d; break;
					case 1: p.msn += d; break;
					case 2: p.rsn += d; break;
					case 3: p.offset += d * P; break;
					case 4: p.sflags ^= MROCE_SF_LAST; break;
					case 5: p.hflags ^= u8(0x20 << rng() % 3); break;
					case 6: p.length += d * P; break;
					case 7: p.payload_len = u32(rng() % (2 * P)); break;
					case 8: p.va = q.va; break;
					case 9: p.rkey = q.rkey; break;
					case 10: p = q; p.spsn += d; break;
					case 11: p = q; p.msn += d; break;
					case 12: p.spsn += u32(rng()); break;
					case 13: p.spsn += d, p.offset += d * P; break;
					case 14: p.msn += d, p.spsn = q.spsn; break;
					case 15: p.offset = 0, p.sflags |= MROCE_SF_FIRST | MROCE_SF_LAST; break;
					}
				}
				if (p.opcode != MROCE_OP_WRITE && p.opcode != MROCE_OP_READ_REQ)
					p.length = 0;
				if (p.opcode == MROCE_OP_SEND)
					p.va = p.rkey = 0;
				if (!passes_the_door(p))
					continue;
				verdicts[a.packet(p, rng() % 4 == 0)]++;
				while (rng() % 3 && a.execute())
					executed++;
				if (mroce_stream_rx_broken(&a.rx)) {
					broken++;
					break;
				}
			}
		} catch (const std::logic_error &e) {
			FAIL() << "seed " << seed << ": " << e.what();
		}
	}
	for (u64 n : verdicts)
		EXPECT_GT(n, 100u);
	EXPECT_GT(executed, 10000u);
	EXPECT_GT(broken, 10u);
	printf("ok %llu hold %llu dup %llu window %llu invalid %llu, executed %llu, broken %llu\n",
	       (unsigned long long)verdicts[0], (unsigned long long)verdicts[1], (unsigned long long)verdicts[2],
	       (unsigned long long)verdicts[3], (unsigned long long)verdicts[4], (unsigned long long)executed,
	       (unsigned long long)broken);
}
