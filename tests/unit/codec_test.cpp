// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <vector>

extern "C" {
#include "codec.h"
#include "opcode.h"
}

namespace {

using Bytes = std::vector<u8>;
using Rng = std::mt19937_64;

const u8 kOps[] = {MROCE_OP_SEND,    MROCE_OP_WRITE,     MROCE_OP_READ_REQ,  MROCE_OP_READ_RSP,
		   MROCE_OP_CMP_SWP, MROCE_OP_FETCH_ADD, MROCE_OP_ATOMIC_RSP};

/* Parses a copy of exactly @b.size() bytes, so that the sanitizer sees every byte beyond. */
mroce_door parse(const Bytes &b, mroce_pkt *p, u32 len = 0)
{
	std::unique_ptr<u8[]> copy(new u8[b.size()]);

	if (!b.empty())
		memcpy(copy.get(), b.data(), b.size());
	return mroce_parse(copy.get(), u32(b.size()), len ? len : u32(b.size()), p);
}

/* A valid single-packet message. */
mroce_pkt sample(u8 op, u8 hflags = 0, u32 payload = 0)
{
	mroce_pkt p{};

	p.type = MROCE_T_DATA;
	p.flags = MROCE_F_AR | MROCE_F_TAIL;
	p.path_id = 7;
	p.demand = 0x5a;
	p.opcode = op;
	p.sflags = MROCE_SF_FIRST | MROCE_SF_LAST;
	p.hflags = hflags;
	p.path_gen = 0x1234;
	p.dst_conn = 0x01020304;
	p.vtag = 0xa1a2a3a4;
	p.path_psn = 0xfffffffe;
	p.tx_ts = 0x0badcafe;
	p.dst_qpn = 0xabcdef;
	p.src_qpn = 0x123456;
	p.spsn = 0xfffffff0;
	p.msn = 0x80000001;
	if (op == MROCE_OP_WRITE || op == MROCE_OP_READ_REQ || op == MROCE_OP_CMP_SWP ||
	    op == MROCE_OP_FETCH_ADD) {
		p.va = 0x1122334455667788;
		p.rkey = 0x99aabbcc;
	}
	if (op == MROCE_OP_WRITE)
		p.length = payload;
	if (op == MROCE_OP_READ_REQ)
		p.length = 0x00100000;
	if (op == MROCE_OP_CMP_SWP || op == MROCE_OP_FETCH_ADD)
		p.op1 = 0xdeadbeef00c0ffee, p.op2 = 0x0123456789abcdef;
	if (op == MROCE_OP_ATOMIC_RSP)
		p.op1 = 0xfeedface12345678;
	if (op == MROCE_OP_READ_RSP || op == MROCE_OP_ATOMIC_RSP)
		p.req_msn = 0x77665544;
	if (op == MROCE_OP_SEND || (op == MROCE_OP_WRITE && (hflags & MROCE_HF_IMM)))
		p.rsn = 0x0000a0b0;
	if (hflags & MROCE_HF_IMM)
		memcpy(&p.imm, "\x11\x22\x33\x44", 4);
	if (hflags & MROCE_HF_INV)
		p.inv_rkey = 0x51525354;
	if (hflags & MROCE_HF_XRC)
		p.srqn = 0x00616263;
	p.payload_len = payload;
	return p;
}

Bytes build(const mroce_pkt &p)
{
	Bytes b(128); /* flags that the opcode does not allow need more than MROCE_MAX_DATA_HDR */
	u32 n = mroce_build_data(b.data(), &p);

	EXPECT_EQ(n, mroce_data_hdr_len(p.opcode, p.hflags));
	b.resize(n + p.payload_len, 0x5c);
	return b;
}

void expect_same(const mroce_pkt &a, const mroce_pkt &b)
{
	EXPECT_EQ(a.type, b.type);
	EXPECT_EQ(a.flags, b.flags);
	EXPECT_EQ(a.path_id, b.path_id);
	EXPECT_EQ(a.demand, b.demand);
	EXPECT_EQ(a.opcode, b.opcode);
	EXPECT_EQ(a.sflags, b.sflags);
	EXPECT_EQ(a.hflags, b.hflags);
	EXPECT_EQ(a.path_gen, b.path_gen);
	EXPECT_EQ(a.payload_len, b.payload_len);
	EXPECT_EQ(a.dst_conn, b.dst_conn);
	EXPECT_EQ(a.vtag, b.vtag);
	EXPECT_EQ(a.path_psn, b.path_psn);
	EXPECT_EQ(a.tx_ts, b.tx_ts);
	EXPECT_EQ(a.dst_qpn, b.dst_qpn);
	EXPECT_EQ(a.src_qpn, b.src_qpn);
	EXPECT_EQ(a.spsn, b.spsn);
	EXPECT_EQ(a.msn, b.msn);
	EXPECT_EQ(a.va, b.va);
	EXPECT_EQ(a.op1, b.op1);
	EXPECT_EQ(a.op2, b.op2);
	EXPECT_EQ(a.rkey, b.rkey);
	EXPECT_EQ(a.offset, b.offset);
	EXPECT_EQ(a.length, b.length);
	EXPECT_EQ(a.rsn, b.rsn);
	EXPECT_EQ(a.req_msn, b.req_msn);
	EXPECT_EQ(a.imm, b.imm);
	EXPECT_EQ(a.inv_rkey, b.inv_rkey);
	EXPECT_EQ(a.srqn, b.srqn);
	EXPECT_EQ(a.resv, b.resv);
}

mroce_door door(const mroce_pkt &p)
{
	mroce_pkt q;

	return parse(build(p), &q);
}

mroce_door door_of(mroce_pkt p, const std::function<void(mroce_pkt &)> &change)
{
	change(p);
	return door(p);
}

u32 be32_at(const Bytes &b, size_t i)
{
	return u32(b[i]) << 24 | u32(b[i + 1]) << 16 | u32(b[i + 2]) << 8 | b[i + 3];
}

} // namespace

TEST(Codec13, BaseHeaderBytes)
{
	mroce_pkt p = sample(MROCE_OP_SEND);
	u8 b[24];
	const u8 want[24] = {0x11, 0x90, 0x07, 0x5a, 0x01, 0x02, 0x03, 0x04, 0xa1, 0xa2, 0xa3, 0xa4,
			     0x12, 0x34, 0x01, 0xc0, 0xff, 0xff, 0xff, 0xfe, 0x0b, 0xad, 0xca, 0xfe};

	mroce_build_base(b, &p);
	EXPECT_EQ(0, memcmp(b, want, sizeof(b)));
	p.type = MROCE_T_ACK;
	mroce_build_base(b, &p);
	EXPECT_EQ(b[0], 0x12);
}

TEST(Codec14, WriteWithImmediateBytes)
{
	Bytes b = build(sample(MROCE_OP_WRITE, MROCE_HF_IMM | MROCE_HF_XRC, 64));

	ASSERT_EQ(b.size(), 72u + 64u);
	EXPECT_EQ(be32_at(b, 24), 0xabcdefa0u); /* QPN, IMM | XRC */
	EXPECT_EQ(be32_at(b, 28), 0x12345600u);
	EXPECT_EQ(be32_at(b, 32), 0xfffffff0u);
	EXPECT_EQ(be32_at(b, 36), 0x80000001u);
	EXPECT_EQ(be32_at(b, 40), 0x11223344u);
	EXPECT_EQ(be32_at(b, 44), 0x55667788u);
	EXPECT_EQ(be32_at(b, 48), 0x99aabbccu);
	EXPECT_EQ(be32_at(b, 52), 0u);
	EXPECT_EQ(be32_at(b, 56), 64u);
	EXPECT_EQ(be32_at(b, 60), 0x11223344u); /* immediate, as carried */
	EXPECT_EQ(be32_at(b, 64), 0x00616263u); /* SRQ number */
	EXPECT_EQ(be32_at(b, 68), 0x0000a0b0u); /* RSN */
}

TEST(Codec14, OptionalWordsFollowInOrder)
{
	Bytes b = build(sample(MROCE_OP_SEND, MROCE_HF_INV | MROCE_HF_XRC));

	ASSERT_EQ(b.size(), 56u);
	EXPECT_EQ(be32_at(b, 40), 0x0000a0b0u);
	EXPECT_EQ(be32_at(b, 48), 0x51525354u);
	EXPECT_EQ(be32_at(b, 52), 0x00616263u);
}

TEST(Codec14, ImmediateIsKeptAsCarried)
{
	mroce_pkt q;

	ASSERT_EQ(parse(build(sample(MROCE_OP_SEND, MROCE_HF_IMM)), &q), MROCE_DOOR_OK);
	EXPECT_EQ(0, memcmp(&q.imm, "\x11\x22\x33\x44", 4));
}

TEST(Codec14, EveryOpcodeAndFlagSetRoundTrips)
{
	for (u8 op : kOps) {
		for (unsigned hf = 0; hf < 256; hf += 0x20) {
			const auto *info = mroce_op_info(op);
			bool legal = !(hf & ~info->hflags) &&
				     (hf & (MROCE_HF_IMM | MROCE_HF_INV)) != (MROCE_HF_IMM | MROCE_HF_INV);
			u32 payload = info->flags & MROCE_OPF_PAYLOAD ? 1000 : 0;
			mroce_pkt p = sample(op, u8(hf), payload), q;

			ASSERT_EQ(parse(build(p), &q), legal ? MROCE_DOOR_OK : MROCE_DOOR_FLAGS)
				<< info->name << " " << hf;
			if (!legal)
				continue;
			expect_same(p, q);
			EXPECT_EQ(q.hdr_len, mroce_data_hdr_len(op, u8(hf)));
		}
	}
}

TEST(Codec14, RandomFieldsRoundTrip)
{
	Rng rng(1);

	for (int i = 0; i < 20000; i++) {
		u8 op = kOps[rng() % std::size(kOps)];
		const auto *info = mroce_op_info(op);
		u8 hf = u8(rng() & info->hflags);
		if (hf & MROCE_HF_IMM)
			hf &= u8(~MROCE_HF_INV);
		mroce_pkt p = sample(op, hf), q;

		p.flags = u8(rng()) & (MROCE_F_AR | MROCE_F_RTX | MROCE_F_MOVED | MROCE_F_TAIL);
		p.path_id = u8(rng()), p.demand = u8(rng()), p.path_gen = u16(rng());
		p.dst_conn = u32(rng()), p.vtag = u32(rng()), p.path_psn = u32(rng());
		p.tx_ts = u32(rng()), p.spsn = u32(rng()), p.msn = u32(rng());
		p.dst_qpn = u32(rng()) & 0xffffff, p.src_qpn = u32(rng()) & 0xffffff;
		if (info->flags & MROCE_OPF_OFFSET) {
			p.payload_len = u32(rng() % 8193);
			p.offset = rng() % 2 ? 0 : u32(rng() % 0x70000000);
			if (p.offset && !p.payload_len)
				p.payload_len = 1;
			bool last = !p.payload_len || rng() % 2;
			p.sflags = u8((p.offset ? 0 : MROCE_SF_FIRST) | (last ? MROCE_SF_LAST : 0));
			if (op == MROCE_OP_WRITE)
				p.length = p.offset + p.payload_len + (last ? 0 : 1 + u32(rng() % 4096));
		}
		if (rng() % 2)
			p.sflags |= MROCE_SF_SOLICITED;
		ASSERT_EQ(parse(build(p), &q), MROCE_DOOR_OK) << i;
		expect_same(p, q);
	}
}

TEST(Codec13, ShorterThanItsHeaders)
{
	for (u8 op : kOps) {
		Bytes b = build(sample(op, mroce_op_info(op)->hflags & ~MROCE_HF_INV));
		mroce_pkt q;

		for (size_t n = 0; n < b.size(); n++)
			EXPECT_EQ(parse(Bytes(b.begin(), b.begin() + long(n)), &q), MROCE_DOOR_SHORT)
				<< mroce_op_info(op)->name << " " << n;
		EXPECT_EQ(parse(b, &q), MROCE_DOOR_OK);
	}
}

TEST(Codec13, ResultIsZeroBeyondWhatWasDecoded)
{
	mroce_pkt q, zero{};

	memset(&q, 0xff, sizeof(q));
	EXPECT_EQ(parse(Bytes(23, 0x11), &q), MROCE_DOOR_SHORT);
	EXPECT_EQ(0, memcmp(&q, &zero, sizeof(q)));
}

TEST(Codec13, OnlyTheHeaderNeedsToBeReadable)
{
	Bytes b = build(sample(MROCE_OP_WRITE, 0, 4096));
	mroce_pkt q;

	ASSERT_EQ(parse(Bytes(b.begin(), b.begin() + MROCE_PULL), &q, u32(b.size())), MROCE_DOOR_OK);
	EXPECT_EQ(q.payload_len, 4096u);
	EXPECT_EQ(q.hdr_len, 60u);
}

TEST(Codec13, AvailBeyondLengthIsNotRead)
{
	Bytes b = build(sample(MROCE_OP_SEND, 0, 100));
	mroce_pkt q;

	EXPECT_EQ(mroce_parse(b.data(), u32(b.size()), 30, &q), MROCE_DOOR_SHORT);
}

TEST(Codec13, VersionAndType)
{
	Bytes b = build(sample(MROCE_OP_SEND));
	mroce_pkt q;

	for (unsigned v = 0; v < 256; v++) {
		unsigned type = v & 15;
		b[0] = u8(v);
		mroce_door want = v >> 4 != 1			    ? MROCE_DOOR_VERSION
				  : !type || type >= MROCE_T_END    ? MROCE_DOOR_TYPE
								    : MROCE_DOOR_OK;
		EXPECT_EQ(parse(b, &q), want) << v;
		EXPECT_EQ(q.type, type);
		EXPECT_EQ(q.opcode, MROCE_OP_SEND);
		EXPECT_EQ(q.dst_conn, 0x01020304u);
	}
}

TEST(Codec13, HelloOfAnotherVersionCanBeTold)
{
	Bytes b(88, 0);
	mroce_pkt q;

	b[0] = 0x25, b[14] = MROCE_C_HELLO;
	EXPECT_EQ(parse(b, &q), MROCE_DOOR_VERSION);
	EXPECT_EQ(q.type, MROCE_T_CTRL);
	EXPECT_EQ(q.opcode, MROCE_C_HELLO);
}

/* Acknowledgement body of so many blocks, recognisable. */
Bytes piggy(u32 n_path, u32 n_stream)
{
	Bytes body(mroce_ack_len(n_path, n_stream), 0x77);

	mroce_put_ack_hdr(body.data(), 0x1234500, n_path, n_stream);
	return body;
}

Bytes with_piggy(mroce_pkt p, const Bytes &body)
{
	Bytes b(MROCE_PULL);

	p.piggy_len = u16(body.size());
	b.resize(mroce_build_data(b.data(), &p));
	memcpy(b.data() + sizeof(mroce_base_hdr), body.data(), body.size());
	b.resize(b.size() + p.payload_len, 0x5c);
	return b;
}

TEST(Codec33, AcknowledgementInDataRoundTrip)
{
	for (u8 op : kOps)
		for (u32 n_path = 0; n_path <= MROCE_PIGGY_BLOCKS; n_path++)
			for (u32 n_stream = !n_path; n_stream <= MROCE_PIGGY_BLOCKS; n_stream++) {
				mroce_pkt p = sample(op), q;
				Bytes body = piggy(n_path, n_stream), b = with_piggy(p, body);
				u32 got_path, got_stream;

				ASSERT_EQ(b.size(), mroce_data_hdr_len(op, 0) + body.size());
				ASSERT_EQ(parse(b, &q), MROCE_DOOR_OK);
				EXPECT_EQ(q.piggy_len, body.size());
				EXPECT_EQ(q.hdr_len, b.size());
				p.flags |= MROCE_F_PIGGY;
				expect_same(p, q);
				ASSERT_EQ(mroce_parse_ack_counts(b.data() + sizeof(mroce_base_hdr), q.piggy_len,
								 &got_path, &got_stream), 0);
				EXPECT_EQ(got_path, n_path);
				EXPECT_EQ(got_stream, n_stream);
				for (size_t n = sizeof(mroce_base_hdr); n < b.size(); n++)
					EXPECT_EQ(parse(Bytes(b.begin(), b.begin() + long(n)), &q), MROCE_DOOR_SHORT);
			}
}

TEST(Codec33, AcknowledgementInDataIsBounded)
{
	mroce_pkt p = sample(MROCE_OP_SEND, 0, 1000), q;
	Bytes b = with_piggy(p, piggy(1, 1));

	ASSERT_EQ(parse(b, &q), MROCE_DOOR_OK);
	EXPECT_EQ(q.payload_len, 1000u);
	ASSERT_EQ(parse(Bytes(b.begin(), b.begin() + MROCE_PULL), &q, u32(b.size())), MROCE_DOOR_OK);
	for (u32 n_path = 0; n_path < 256; n_path++)
		for (u32 n_stream : {0, 1, 2, 3, 255}) {
			bool ok = n_path <= MROCE_PIGGY_BLOCKS && n_stream <= MROCE_PIGGY_BLOCKS && n_path + n_stream;
			Bytes c = b;

			c[28] = u8(n_path), c[29] = u8(n_stream);
			mroce_door why = parse(c, &q);
			if (ok)
				EXPECT_NE(why, MROCE_DOOR_SHORT);
			else
				EXPECT_EQ(why, MROCE_DOOR_LENGTH);
		}
}

TEST(Codec33, AcknowledgementOnlyInData)
{
	for (u8 type = MROCE_T_DATA + 1; type < MROCE_T_END; type++) {
		mroce_pkt p{}, q;
		Bytes b(200);

		p.type = type, p.opcode = MROCE_C_CLOSE, p.flags = MROCE_F_PIGGY;
		mroce_build_base(b.data(), &p);
		EXPECT_EQ(parse(b, &q), MROCE_DOOR_FLAGS) << int(type);
	}
}

TEST(Codec13, ReservedAndUnnegotiatedFlags)
{
	for (u8 op : kOps) {
		Bytes b = build(sample(op));
		mroce_pkt q;

		for (unsigned bit = 1; bit < 256; bit <<= 1) {
			Bytes c = b;
			bool known = bit & (MROCE_F_AR | MROCE_F_RTX | MROCE_F_MOVED | MROCE_F_TAIL);

			c[1] = u8(bit);
			if (bit == MROCE_F_PIGGY)
				continue; /* below */
			EXPECT_EQ(parse(c, &q), known ? MROCE_DOOR_OK : MROCE_DOOR_FLAGS);
			c = b;
			c[15] |= u8(bit);
			known = bit & ~MROCE_SF_RESV;
			EXPECT_EQ(parse(c, &q), known ? MROCE_DOOR_OK : MROCE_DOOR_FLAGS);
			c = b;
			c[31] = u8(bit);
			EXPECT_EQ(parse(c, &q), MROCE_DOOR_FLAGS) << "behind src_qpn";
			if (bit & MROCE_HF_RESV) {
				c = b;
				c[27] |= u8(bit);
				EXPECT_EQ(parse(c, &q), MROCE_DOOR_FLAGS);
			}
		}
	}
	Bytes b = build(sample(MROCE_OP_CMP_SWP));
	mroce_pkt q;
	b[40 + 15] = 1;
	EXPECT_EQ(parse(b, &q), MROCE_DOOR_FLAGS);
	b = build(sample(MROCE_OP_ATOMIC_RSP));
	b[40 + 4] = 0x80;
	EXPECT_EQ(parse(b, &q), MROCE_DOOR_FLAGS);
}

TEST(Codec13, UnknownOpcodes)
{
	Bytes b = build(sample(MROCE_OP_SEND, 0, 100));
	mroce_pkt q;

	for (unsigned op = 0; op < 256; op++) {
		if (op && op < MROCE_OP_END)
			continue;
		b[14] = u8(op);
		EXPECT_EQ(parse(b, &q), MROCE_DOOR_OPCODE);
	}
	b[0] = 0x10 | MROCE_T_CTRL;
	for (unsigned op = 0; op < 256; op++) {
		b[14] = u8(op);
		EXPECT_EQ(parse(b, &q), op && op < MROCE_C_END ? MROCE_DOOR_OK : MROCE_DOOR_OPCODE);
	}
}

TEST(Codec13, OtherTypesHaveOnlyTheBaseHeader)
{
	for (u8 type = MROCE_T_ACK; type < MROCE_T_END; type++) {
		Bytes b = build(sample(MROCE_OP_SEND, 0, 100));
		mroce_pkt q;

		b[0] = u8(0x10 | type);
		ASSERT_EQ(parse(b, &q), MROCE_DOOR_OK);
		EXPECT_EQ(q.hdr_len, 24);
		EXPECT_EQ(q.payload_len, b.size() - 24);
		EXPECT_EQ(q.dst_qpn, 0u);
	}
}

TEST(Codec14, PayloadOnlyWhereAllowed)
{
	for (u8 op : kOps) {
		Bytes b = build(sample(op));
		mroce_pkt q;

		if (mroce_op_info(op)->flags & MROCE_OPF_PAYLOAD)
			continue;
		b.push_back(0);
		EXPECT_EQ(parse(b, &q), MROCE_DOOR_LENGTH) << mroce_op_info(op)->name;
	}
}

TEST(Codec14, PayloadLimit)
{
	EXPECT_EQ(door(sample(MROCE_OP_SEND, 0, MROCE_MAX_PAYLOAD)), MROCE_DOOR_OK);
	EXPECT_EQ(door(sample(MROCE_OP_SEND, 0, MROCE_MAX_PAYLOAD + 1)), MROCE_DOOR_LENGTH);
	EXPECT_EQ(door(sample(MROCE_OP_WRITE, 0, MROCE_MAX_PAYLOAD + 1)), MROCE_DOOR_LENGTH);
	EXPECT_EQ(door(sample(MROCE_OP_READ_RSP, 0, 65000)), MROCE_DOOR_LENGTH);
}

TEST(Codec14, FirstExactlyAtOffsetZero)
{
	for (u8 op : {MROCE_OP_SEND, MROCE_OP_READ_RSP}) {
		mroce_pkt p = sample(op, 0, 100);

		EXPECT_EQ(door_of(p, [](auto &q) { q.sflags = MROCE_SF_LAST; }), MROCE_DOOR_FLAGS);
		EXPECT_EQ(door_of(p, [](auto &q) { q.offset = 4096; }), MROCE_DOOR_FLAGS);
		EXPECT_EQ(door_of(p, [](auto &q) { q.offset = 4096, q.sflags = MROCE_SF_LAST; }),
			  MROCE_DOOR_OK);
	}
}

TEST(Codec14, WithoutOffsetBothFirstAndLast)
{
	for (u8 op : {MROCE_OP_READ_REQ, MROCE_OP_CMP_SWP, MROCE_OP_FETCH_ADD, MROCE_OP_ATOMIC_RSP})
		for (u8 sf : {0, MROCE_SF_FIRST, MROCE_SF_LAST})
			EXPECT_EQ(door_of(sample(op), [sf](auto &q) { q.sflags = sf; }), MROCE_DOOR_FLAGS);
}

TEST(Codec14, WriteLastExactlyAtItsEnd)
{
	mroce_pkt p = sample(MROCE_OP_WRITE, 0, 100);

	EXPECT_EQ(door(p), MROCE_DOOR_OK);
	EXPECT_EQ(door_of(p, [](auto &q) { q.length = 99; }), MROCE_DOOR_LENGTH);
	EXPECT_EQ(door_of(p, [](auto &q) { q.length = 101; }), MROCE_DOOR_LENGTH);
	EXPECT_EQ(door_of(p, [](auto &q) { q.sflags = MROCE_SF_FIRST; }), MROCE_DOOR_LENGTH);
	EXPECT_EQ(door_of(p, [](auto &q) { q.sflags = MROCE_SF_FIRST, q.length = 101; }), MROCE_DOOR_OK);
	EXPECT_EQ(door_of(p, [](auto &q) { q.sflags = MROCE_SF_FIRST, q.length = 99; }),
		  MROCE_DOOR_LENGTH);
}

TEST(Codec14, OffsetPlusLengthDoesNotWrap)
{
	mroce_pkt p = sample(MROCE_OP_WRITE, 0, 100);

	p.sflags = MROCE_SF_LAST;
	for (u32 offset : {0xffffffffu, 0xffffff9cu, 0xffffff9du, 0x80000000u, 0x7fffff9du}) {
		for (u32 length : {0u, 1u, 99u, 0x7fffffffu, 0x80000000u, 0x80000001u, 0xffffffffu}) {
			p.offset = offset, p.length = length;
			EXPECT_EQ(door(p), MROCE_DOOR_LENGTH) << offset << " " << length;
		}
	}
	p.offset = 0x80000000u - 100, p.length = 0x80000000u;
	EXPECT_EQ(door(p), MROCE_DOOR_OK);
	for (u8 op : {MROCE_OP_SEND, MROCE_OP_READ_RSP}) {
		p = sample(op, 0, 100);
		p.sflags = MROCE_SF_LAST;
		p.offset = 0x80000000u - 100;
		EXPECT_EQ(door(p), MROCE_DOOR_OK);
		p.offset++;
		EXPECT_EQ(door(p), MROCE_DOOR_LENGTH);
		p.offset = 0xffffffc0;
		EXPECT_EQ(door(p), MROCE_DOOR_LENGTH);
	}
}

TEST(Codec14, MessageLengthLimit)
{
	mroce_pkt p = sample(MROCE_OP_READ_REQ);

	EXPECT_EQ(door_of(p, [](auto &q) { q.length = MROCE_MAX_MSG; }), MROCE_DOOR_OK);
	EXPECT_EQ(door_of(p, [](auto &q) { q.length = MROCE_MAX_MSG + 1; }), MROCE_DOOR_LENGTH);
	EXPECT_EQ(door_of(p, [](auto &q) { q.length = 0; }), MROCE_DOOR_OK);
}

TEST(Codec14, EmptyOnlyAsAWholeMessage)
{
	for (u8 op : {MROCE_OP_SEND, MROCE_OP_READ_RSP, MROCE_OP_WRITE}) {
		mroce_pkt p = sample(op);

		EXPECT_EQ(door(p), MROCE_DOOR_OK);
		p.sflags = MROCE_SF_FIRST;
		EXPECT_EQ(door(p), MROCE_DOOR_LENGTH);
		p.sflags = MROCE_SF_LAST, p.offset = 4096;
		p.length = op == MROCE_OP_WRITE ? 4096 : 0;
		EXPECT_EQ(door(p), MROCE_DOOR_LENGTH);
		p.sflags = 0;
		EXPECT_EQ(door(p), MROCE_DOOR_LENGTH);
	}
}

/* What the door lets in is rebuilt to the same bytes: nothing is lost, nothing is ambiguous. */
TEST(Codec14, WhatIsAcceptedIsCanonical)
{
	Rng rng(2);
	int accepted = 0;

	for (int i = 0; i < 300000; i++) {
		u8 op = kOps[rng() % std::size(kOps)];
		mroce_pkt p = sample(op, 0, mroce_op_info(op)->flags & MROCE_OPF_PAYLOAD ? 64 : 0), q;
		Bytes b = build(p);

		for (int k = int(rng() % 4); k >= 0; k--)
			b[rng() % b.size()] ^= u8(1 << rng() % 8);
		if (rng() % 8 == 0)
			b.resize(rng() % 160, u8(rng()));
		if (parse(b, &q) != MROCE_DOOR_OK || q.type != MROCE_T_DATA)
			continue;
		accepted++;
		Bytes c(MROCE_MAX_DATA_HDR);
		c.resize(mroce_build_data(c.data(), &q));
		ASSERT_EQ(c.size(), q.hdr_len);
		ASSERT_EQ(c, Bytes(b.begin(), b.begin() + q.hdr_len));
		ASSERT_EQ(q.hdr_len + q.payload_len, b.size());
	}
	EXPECT_GT(accepted, 50000);
}

TEST(Codec15, CountsMustFitExactly)
{
	for (unsigned np : {0u, 1u, 3u, 255u}) {
		for (unsigned ns : {0u, 1u, 7u, 255u}) {
			Bytes b(8 + 64 * np + 24 * ns);
			u32 p, s;

			b[4] = u8(np), b[5] = u8(ns);
			EXPECT_EQ(mroce_parse_ack_counts(b.data(), u32(b.size()), &p, &s), 0);
			EXPECT_EQ(p, np);
			EXPECT_EQ(s, ns);
			EXPECT_EQ(mroce_parse_ack_counts(b.data(), u32(b.size()) - 1, &p, &s), -EINVAL);
			EXPECT_EQ(mroce_parse_ack_counts(b.data(), u32(b.size()) + 1, &p, &s), -EINVAL);
			EXPECT_EQ(p, 0u);
			EXPECT_EQ(s, 0u);
		}
	}
	u32 p, s;
	for (u32 len = 0; len < 8; len++) {
		Bytes b(len);
		EXPECT_EQ(mroce_parse_ack_counts(b.data(), len, &p, &s), -EINVAL);
	}
}

TEST(Codec15, PathBlockBytes)
{
	mroce_ack_path a{}, r;
	Bytes b(8 + 2 * 64);

	a.path_id = 9, a.flags = 5, a.gen = 0x0102, a.max_psn = 0x11121314, a.ts_echo = 0x21222324;
	a.ack_delay = 0x3132, a.rate_hint = 0x4142, a.rx_pkts = 0x51525354, a.ce_pkts = 0x61626364;
	a.cum_psn = 0x71727374;
	a.sack[0] = 1 | 1ull << 9, a.sack[1] = 1ull << 1, a.sack[3] = 1ull << 63;
	mroce_put_path_block(&b[8 + 64], &a);
	const u8 want[32] = {9,	   5,	 1,    2,    0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23,
			     0x24, 0x31, 0x32, 0x41, 0x42, 0x51, 0x52, 0x53, 0x54, 0x61, 0x62,
			     0x63, 0x64, 0x71, 0x72, 0x73, 0x74, 1,    2,    0,	   0};
	EXPECT_EQ(0, memcmp(&b[8 + 64], want, 32));
	EXPECT_EQ(b[8 + 64 + 28 + 8], 2); /* bit 65: byte 8, bit 1 */
	EXPECT_EQ(b[8 + 64 + 28 + 31], 0x80);
	mroce_get_path_block(b.data(), 1, &r);
	EXPECT_EQ(0, memcmp(&a, &r, sizeof(a)));
}

TEST(Codec15, StreamBlockBytes)
{
	mroce_ack_stream a{}, r{};
	Bytes b(8 + 64 + 2 * 24);

	a.qpn = 0xabcdef, a.kind = MROCE_SB_RNR, a.value = 0x15, a.msn_done = 1, a.word = 0xffffffff;
	a.base_spsn = 0x80000000, a.vector = 0x8000000000000001;
	mroce_put_stream_block(&b[8 + 64 + 24], &a);
	EXPECT_EQ(be32_at(b, 8 + 64 + 24), 0xabcdef35u);
	EXPECT_EQ(b[8 + 64 + 24 + 16], 0x80);
	EXPECT_EQ(b[8 + 64 + 24 + 23], 0x01);
	mroce_get_stream_block(b.data(), 1, 1, &r);
	EXPECT_EQ(a.qpn, r.qpn);
	EXPECT_EQ(a.kind, r.kind);
	EXPECT_EQ(a.value, r.value);
	EXPECT_EQ(a.msn_done, r.msn_done);
	EXPECT_EQ(a.word, r.word);
	EXPECT_EQ(a.base_spsn, r.base_spsn);
	EXPECT_EQ(a.vector, r.vector);
}

TEST(Codec15, RandomBlocksRoundTrip)
{
	Rng rng(3);

	for (int i = 0; i < 5000; i++) {
		u8 body[8 + 64 + 24] = {0, 0, 0, 0, 1, 1}, copy[sizeof(body)];
		mroce_ack_path p;
		mroce_ack_stream s;

		for (size_t k = 8; k < sizeof(body); k++)
			body[k] = u8(rng());
		memset(body + 8 + 60, 0, 4); /* reserved */
		memcpy(copy, body, sizeof(body));
		mroce_get_path_block(body, 0, &p);
		mroce_get_stream_block(body, 1, 0, &s);
		mroce_put_path_block(body + 8, &p);
		mroce_put_stream_block(body + 72, &s);
		ASSERT_EQ(0, memcmp(body, copy, sizeof(body)));
	}
}

TEST(Codec13, DemandRoundsUpAndSaturates)
{
	EXPECT_EQ(mroce_demand_encode(0), 0);
	EXPECT_EQ(mroce_demand_encode(1), 1);
	EXPECT_EQ(mroce_demand_encode(4096), 1);
	EXPECT_EQ(mroce_demand_encode(4097), 2);
	EXPECT_EQ(mroce_demand_decode(0xff), 15ull << 15 << 12);
	EXPECT_EQ(mroce_demand_encode(~0ull), 0xff);
	EXPECT_EQ(mroce_demand_encode((15ull << 15 << 12) + 1), 0xff);
	EXPECT_EQ(mroce_demand_encode(15ull << 15 << 12), 0xff);
	EXPECT_EQ(mroce_demand_encode(15ull << 14 << 12), 0xef);
	Rng rng(4);
	for (int i = 0; i < 100000; i++) {
		u64 v = (rng() >> (rng() % 40 + 24)) % (15ull << 15 << 12);
		u64 d = mroce_demand_decode(mroce_demand_encode(v));
		ASSERT_GE(d, v);
		ASSERT_LE(d, v + v / 8 + 4096);
	}
	for (unsigned d = 0; d < 256; d++) {
		u64 v = mroce_demand_decode(u8(d));
		EXPECT_EQ(mroce_demand_decode(mroce_demand_encode(v)), v);
	}
}

TEST(Codec15, HintRoundsDownAndSaturates)
{
	EXPECT_EQ(mroce_hint_encode(0), MROCE_HINT_NONE);
	EXPECT_EQ(mroce_hint_decode(MROCE_HINT_NONE), 0u);
	EXPECT_EQ(mroce_hint_decode(MROCE_HINT_UNLIMITED), ~0ull);
	EXPECT_NE(mroce_hint_encode(1), MROCE_HINT_NONE);
	EXPECT_EQ(mroce_hint_decode(mroce_hint_encode(64000)), 64000u);
	EXPECT_EQ(mroce_hint_decode(mroce_hint_encode(128000000)), 128000000u);
	u16 top = mroce_hint_encode(~0ull);
	EXPECT_NE(top, MROCE_HINT_UNLIMITED);
	EXPECT_EQ(mroce_hint_encode((2047ull << 31) * 64000), top) << "the number that all ones would be";
	for (unsigned h = 0; h < 0xffff; h++) {
		u64 v = mroce_hint_decode(u16(h));
		EXPECT_LE(v, mroce_hint_decode(top));
		EXPECT_EQ(mroce_hint_decode(mroce_hint_encode(v)), v) << h;
	}
	u64 last = 0;
	for (u64 v = 64000; v < 1ull << 57; v += v / 3001 + 1) {
		u64 d = mroce_hint_decode(mroce_hint_encode(v));
		ASSERT_LE(d, v);
		ASSERT_GE(d + v / 1024 + 64000, v);
		ASSERT_GE(d, last);
		last = d;
	}
}

namespace {

mroce_hello_h hello(u8 n_addr = 2)
{
	mroce_hello_h h{};

	h.ver_min = 1, h.ver_max = 3, h.tclass = 0x68, h.max_paths = 16, h.conn_id = 0x01020304;
	h.vtag = 0xdeadbeef, h.payload = 4096, h.mtu = 9000, h.instance = 0x1122334455667788;
	h.nonce = 0xa1a2a3a4a5a6a7a8, h.echo_nonce = 0xb1b2b3b4b5b6b7b8, h.msn_log2 = 8;
	h.spsn_log2 = 12, h.n_addr = n_addr, h.ack_max = 16, h.rate_hint = 0x1234;
	h.cookie_slot = 5, h.cookie = 0xc1c2c3c4c5c6c7c8;
	for (u8 i = 0; i < n_addr; i++) {
		h.addr[i].plane = i, h.addr[i].family = i % 2 ? 6 : 4, h.addr[i].mtu = u16(1500 + i);
		h.addr[i].speed = 100000u + i;
		for (u8 k = 0; k < 16; k++)
			h.addr[i].addr[k] = u8(i * 16 + k);
	}
	return h;
}

int hello_with(const std::function<void(mroce_hello_h &)> &change)
{
	mroce_hello_h h = hello(), r;
	u8 b[64 + 24 * 16];

	change(h);
	u32 n = mroce_build_hello(b, &h);
	return mroce_parse_hello(b, n, &r);
}

} // namespace

TEST(Codec20, HelloRoundTrips)
{
	for (u8 n = 0; n <= 16; n++) {
		mroce_hello_h h = hello(n), r;
		Bytes b(64 + 24 * n);

		ASSERT_EQ(mroce_build_hello(b.data(), &h), b.size());
		memset(&r, 0xee, sizeof(r));
		ASSERT_EQ(mroce_parse_hello(b.data(), u32(b.size()), &r), 0);
		EXPECT_EQ(r.ver_min, h.ver_min);
		EXPECT_EQ(r.ver_max, h.ver_max);
		EXPECT_EQ(r.tclass, h.tclass);
		EXPECT_EQ(r.max_paths, h.max_paths);
		EXPECT_EQ(r.conn_id, h.conn_id);
		EXPECT_EQ(r.vtag, h.vtag);
		EXPECT_EQ(r.payload, h.payload);
		EXPECT_EQ(r.mtu, h.mtu);
		EXPECT_EQ(r.instance, h.instance);
		EXPECT_EQ(r.nonce, h.nonce);
		EXPECT_EQ(r.echo_nonce, h.echo_nonce);
		EXPECT_EQ(r.msn_log2, h.msn_log2);
		EXPECT_EQ(r.spsn_log2, h.spsn_log2);
		EXPECT_EQ(r.ack_max, h.ack_max);
		EXPECT_EQ(r.rate_hint, h.rate_hint);
		EXPECT_EQ(r.cookie, h.cookie);
		EXPECT_EQ(r.cookie_slot, h.cookie_slot);
		ASSERT_EQ(r.n_addr, n);
		for (u8 i = 0; i < n; i++) {
			EXPECT_EQ(r.addr[i].plane, h.addr[i].plane);
			EXPECT_EQ(r.addr[i].family, h.addr[i].family);
			EXPECT_EQ(r.addr[i].mtu, h.addr[i].mtu);
			EXPECT_EQ(r.addr[i].speed, h.addr[i].speed);
			EXPECT_EQ(0, memcmp(r.addr[i].addr, h.addr[i].addr, 16));
		}
	}
}

TEST(Codec20, HelloLengthIsExact)
{
	mroce_hello_h h = hello(3), r;
	Bytes b(64 + 24 * 3);

	mroce_build_hello(b.data(), &h);
	for (u32 n = 0; n < b.size(); n++) {
		std::unique_ptr<u8[]> copy(new u8[n]);
		if (n)
			memcpy(copy.get(), b.data(), n);
		EXPECT_EQ(mroce_parse_hello(copy.get(), n, &r), -EINVAL);
	}
	b.resize(b.size() + 24);
	EXPECT_EQ(mroce_parse_hello(b.data(), u32(b.size()), &r), -EINVAL);
	b.resize(64 + 24 * 17);
	b[42] = 17; /* n_addr */
	EXPECT_EQ(mroce_parse_hello(b.data(), u32(b.size()), &r), -EINVAL);
}

TEST(Codec20, HelloRefusals)
{
	EXPECT_EQ(hello_with([](auto &) {}), 0);
	EXPECT_EQ(hello_with([](auto &h) { h.ver_min = 4; }), -EINVAL);
	EXPECT_EQ(hello_with([](auto &h) { h.conn_id = 0; }), -EINVAL);
	EXPECT_EQ(hello_with([](auto &h) { h.max_paths = 0; }), -EINVAL);
	for (u16 bad : {0, 1, 63, 65, 4095, 8256, 65535})
		EXPECT_EQ(hello_with([bad](auto &h) { h.payload = bad; }), -EINVAL) << bad;
	for (u16 good : {64, 1344, 1408, 4096, 8192})
		EXPECT_EQ(hello_with([good](auto &h) { h.payload = good; }), 0) << good;
	for (u8 bad : {0, 3, 13, 31, 32, 255})
		EXPECT_EQ(hello_with([bad](auto &h) { h.msn_log2 = bad; }), -EINVAL);
	for (u8 bad : {0, 11, 13, 31, 32, 44, 255})
		EXPECT_EQ(hello_with([bad](auto &h) { h.spsn_log2 = bad; }), -EINVAL);
	for (u8 bad : {0, 5, 10, 255})
		EXPECT_EQ(hello_with([bad](auto &h) { h.addr[1].family = bad; }), -EINVAL);
}

TEST(Codec14, PayloadForMtu)
{
	EXPECT_EQ(mroce_payload_for_mtu(9000, 4), 8192u);
	EXPECT_EQ(mroce_payload_for_mtu(65535, 6), 8192u);
	EXPECT_EQ(mroce_payload_for_mtu(5000, 4), 4096u);
	EXPECT_EQ(mroce_payload_for_mtu(1500, 5), 0u);
	for (u8 family : {4, 6}) {
		u32 over = (family == 4 ? 20 : 40) + 8 + MROCE_MAX_PAYLOAD_HDR;

		for (u32 mtu = 0; mtu < 10000; mtu++) {
			u32 p = mroce_payload_for_mtu(mtu, family);

			if (mtu < over + 64) {
				ASSERT_EQ(p, 0u) << mtu;
				continue;
			}
			ASSERT_GE(p, 64u) << mtu;
			ASSERT_LE(p + over, mtu) << mtu;
			ASSERT_EQ(p % 64, 0u);
			ASSERT_TRUE(p < 4096 ? mtu - over - p < 64 : p % 4096 == 0) << mtu;
		}
	}
}
