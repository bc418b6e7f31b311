// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * A sequence of packets into the receiving half of a stream, watched by the
 * auditor.  Each packet is 10 bytes of input: small numbers around what the
 * stream expects, so that contradictions are likely; all pass the door first.
 */
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "rx_auditor.h"

static const u32 P = 64;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *d, size_t size)
{
	static const u32 starts[] = {0, 0xfffffffa, 0x7ffffffe, 0xfffff008};
	u8 buf[128];

	if (size < 1)
		return 0;
	const u32 start = starts[d[0] & 3];
	RxAuditor a(start, P, 16, start, start);
	for (d++, size--; size >= 10; d += 10, size -= 10) {
		mroce_pkt p{}, q;

		p.opcode = u8(1 + d[0] % 6);
		p.hflags = u8(d[0] & 0xe0);
		p.spsn = a.rx.exec_spsn + u32(s8(d[1]));
		if (d[9] & 0x40)
			p.spsn += 4032;
		p.msn = a.rx.exec_msn + (d[2] & 31) - 2;
		p.offset = (d[3] & 15) * P + (d[3] >= 0xf0);
		p.sflags = u8((p.offset ? 0 : MROCE_SF_FIRST) | (d[4] & MROCE_SF_LAST));
		if (p.opcode == MROCE_OP_SEND || p.opcode == MROCE_OP_WRITE)
			p.payload_len = d[4] & 0x20 ? P : d[4] & 0x0f;
		else
			p.offset = 0, p.sflags = MROCE_SF_FIRST | MROCE_SF_LAST;
		if (p.opcode == MROCE_OP_WRITE)
			p.length = p.sflags & MROCE_SF_LAST ? p.offset + p.payload_len : d[5] * 16;
		if (p.opcode != MROCE_OP_SEND)
			p.va = d[6] & 1, p.rkey = d[6] >> 1 & 1;
		p.rsn = a.rx.exec_rsn + (d[7] & 15) - 1;
		p.imm = d[8] & 1, p.inv_rkey = d[8] >> 1 & 1, p.srqn = d[8] >> 2 & 1;
		const auto *op = mroce_op_info(p.opcode);
		if (p.hflags & ~op->hflags)
			continue;
		u32 n = mroce_build_data(buf, &p);
		if (mroce_parse(buf, n, n + p.payload_len, &q) != MROCE_DOOR_OK)
			continue;
		a.packet(q, d[9] & 1);
		for (u32 k = d[9] >> 1 & 7; k && a.execute(); k--)
			;
	}
	return 0;
}
