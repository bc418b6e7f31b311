// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <gtest/gtest.h>

#include <set>
#include <string>

extern "C" {
#include "codec.h"
#include "opcode.h"
}

TEST(Opcode14, KnownOpcodesAndNoOther)
{
	for (unsigned op = 0; op < 256; op++) {
		const auto *info = mroce_op_info(u8(op));
		EXPECT_EQ(info != nullptr, op >= MROCE_OP_SEND && op < MROCE_OP_END) << op;
		if (info) {
			EXPECT_EQ(info, &mroce_op_table[op]);
		}
	}
	EXPECT_EQ(mroce_op_table[0].flags, 0);
}

TEST(Opcode14, DestinationHeaderLengths)
{
	EXPECT_EQ(mroce_op_info(MROCE_OP_SEND)->dest_len, 8);
	EXPECT_EQ(mroce_op_info(MROCE_OP_WRITE)->dest_len, 20);
	EXPECT_EQ(mroce_op_info(MROCE_OP_READ_REQ)->dest_len, 16);
	EXPECT_EQ(mroce_op_info(MROCE_OP_READ_RSP)->dest_len, 8);
	EXPECT_EQ(mroce_op_info(MROCE_OP_CMP_SWP)->dest_len, 32);
	EXPECT_EQ(mroce_op_info(MROCE_OP_FETCH_ADD)->dest_len, 32);
	EXPECT_EQ(mroce_op_info(MROCE_OP_ATOMIC_RSP)->dest_len, 16);
}

TEST(Opcode12, ClassesAreTwoSpaces)
{
	std::set<int> rsp;

	for (int op = MROCE_OP_SEND; op < MROCE_OP_END; op++) {
		const auto *info = mroce_op_info(u8(op));
		if (info->flags & MROCE_OPF_RSP) {
			rsp.insert(op);
			EXPECT_FALSE(info->flags & (MROCE_OPF_RECV | MROCE_OPF_RECV_IMM | MROCE_OPF_REPLY));
			EXPECT_EQ(info->hflags, 0);
		}
	}
	EXPECT_EQ(rsp, (std::set<int>{MROCE_OP_READ_RSP, MROCE_OP_ATOMIC_RSP}));
}

TEST(Opcode63, ConsumersAndRepliers)
{
	EXPECT_TRUE(mroce_op_info(MROCE_OP_SEND)->flags & MROCE_OPF_RECV);
	EXPECT_TRUE(mroce_op_info(MROCE_OP_WRITE)->flags & MROCE_OPF_RECV_IMM);
	for (int op : {MROCE_OP_READ_REQ, MROCE_OP_CMP_SWP, MROCE_OP_FETCH_ADD}) {
		EXPECT_TRUE(mroce_op_info(u8(op))->flags & MROCE_OPF_REPLY);
		EXPECT_FALSE(mroce_op_info(u8(op))->flags &
			     (MROCE_OPF_PAYLOAD | MROCE_OPF_OFFSET | MROCE_OPF_RECV));
	}
}

TEST(Opcode14, NamesAreDistinct)
{
	std::set<std::string> names;

	for (int op = MROCE_OP_SEND; op < MROCE_OP_END; op++)
		EXPECT_TRUE(names.insert(mroce_op_info(u8(op))->name).second);
}

TEST(Opcode14, HeaderLengthsFitTheLimits)
{
	for (int op = MROCE_OP_SEND; op < MROCE_OP_END; op++) {
		const auto *info = mroce_op_info(u8(op));
		u32 n = mroce_data_hdr_len(u8(op), info->hflags);
		EXPECT_LE(n, u32(MROCE_MAX_DATA_HDR));
		if (info->flags & MROCE_OPF_PAYLOAD) {
			EXPECT_LE(n, u32(MROCE_MAX_PAYLOAD_HDR));
		}
	}
	EXPECT_EQ(mroce_data_hdr_len(MROCE_OP_WRITE, 0), 60u);
	EXPECT_EQ(mroce_data_hdr_len(MROCE_OP_WRITE, MROCE_HF_IMM), 68u);
	EXPECT_EQ(mroce_data_hdr_len(MROCE_OP_WRITE, MROCE_HF_IMM | MROCE_HF_XRC), 72u);
	EXPECT_EQ(mroce_data_hdr_len(MROCE_OP_SEND, MROCE_HF_INV), 52u);
	EXPECT_EQ(mroce_data_hdr_len(MROCE_OP_CMP_SWP, MROCE_HF_XRC), 76u);
	EXPECT_EQ(mroce_data_hdr_len(0, 0), 0u);
}
