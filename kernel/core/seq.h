/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Serial-number arithmetic and the one overflow-checked range helper (rule R9). */
#ifndef MROCE_CORE_SEQ_H
#define MROCE_CORE_SEQ_H

#include "platform.h"

/* a before b, in 32-bit serial arithmetic. */
static inline bool mroce_seq_lt(u32 a, u32 b)
{
	return (s32)(a - b) < 0;
}

static inline bool mroce_seq_le(u32 a, u32 b)
{
	return (s32)(a - b) <= 0;
}

/* How far generation @a is ahead of @b: 1..32767 ahead, 0 equal, negative behind. */
static inline s16 mroce_gen_diff(u16 a, u16 b)
{
	return (s16)(u16)(a - b);
}

/*
 * Is [addr, addr + len) inside [base, base + size)?  Never wraps: only
 * subtractions of what is known to be smaller.  An empty range is inside if
 * its address is in [base, base + size].
 */
static inline bool mroce_range_in(u64 base, u64 size, u64 addr, u64 len)
{
	u64 off;

	if (addr < base)
		return false;
	off = addr - base;
	return off <= size && len <= size - off;
}

/* Packets of a message of @len bytes with payload @p per packet; an empty message is one packet. */
static inline u32 mroce_npkts(u32 len, u32 p)
{
	return len ? (len - 1) / p + 1 : 1;
}

#endif
