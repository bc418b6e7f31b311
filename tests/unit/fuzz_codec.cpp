// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Any bytes at the door: nothing beyond them is read, and what is let in is canonical. */
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

extern "C" {
#include "codec.h"
#include "opcode.h"
}

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void check_data(const u8 *data, u32 len, const mroce_pkt &p)
{
	const auto *op = mroce_op_info(p.opcode);
	u8 buf[MROCE_MAX_DATA_HDR];

	require(op && p.hdr_len + p.payload_len == len);
	require(p.hdr_len == mroce_data_hdr_len(p.opcode, p.hflags));
	require(mroce_build_data(buf, &p) == p.hdr_len && !memcmp(buf, data, p.hdr_len));
	require(p.payload_len <= MROCE_MAX_PAYLOAD && (!p.payload_len || op->flags & MROCE_OPF_PAYLOAD));
	require(u64(p.offset) + p.payload_len <= MROCE_MAX_MSG && p.length <= MROCE_MAX_MSG);
	require(bool(p.sflags & MROCE_SF_FIRST) == !p.offset);
	if (p.opcode == MROCE_OP_WRITE) {
		require(u64(p.offset) + p.payload_len <= p.length);
		require(bool(p.sflags & MROCE_SF_LAST) == (p.offset + p.payload_len == p.length));
	}
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	mroce_pkt p, q;

	if (mroce_parse(data, u32(size), u32(size), &p) == MROCE_DOOR_OK) {
		require(p.hdr_len + p.payload_len == size);
		if (p.type == MROCE_T_DATA)
			check_data(data, u32(size), p);
	}
	/* The same packet with only its first MROCE_PULL bytes at hand, and nothing behind them. */
	if (size > MROCE_PULL) {
		std::unique_ptr<u8[]> head(new u8[MROCE_PULL]);

		memcpy(head.get(), data, MROCE_PULL);
		mroce_parse(head.get(), MROCE_PULL, u32(size), &q);
		require(!memcmp(&p, &q, sizeof(p)));
	}
	return 0;
}
