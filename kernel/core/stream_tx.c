// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

#include "stream_tx.h"

static u64 *word_of(struct mroce_stream_tx *s, u32 spsn)
{
	return &s->arrived[spsn % MROCE_SPSN_WINDOW / 64];
}

static bool has_arrived(const struct mroce_stream_tx *s, u32 spsn)
{
	return s->arrived[spsn % MROCE_SPSN_WINDOW / 64] >> (spsn % 64) & 1;
}

void mroce_stream_tx_init(struct mroce_stream_tx *s, u32 start)
{
	memset(s, 0, sizeof(*s));
	s->start = start;
	s->base = start;
	s->next = start;
}

u32 mroce_stream_tx_room(const struct mroce_stream_tx *s)
{
	return MROCE_SPSN_WINDOW - (s->next - s->base);
}

u32 mroce_stream_tx_take(struct mroce_stream_tx *s)
{
	u32 spsn = s->next;

	mroce_assert(mroce_stream_tx_room(s));
	*word_of(s, spsn) &= ~(1ull << (spsn % 64));
	s->next++;
	return spsn;
}

bool mroce_stream_tx_wanted(const struct mroce_stream_tx *s, u32 spsn)
{
	return spsn - s->base < s->next - s->base && !has_arrived(s, spsn);
}

bool mroce_stream_tx_arrived(struct mroce_stream_tx *s, u32 spsn)
{
	if (!mroce_stream_tx_wanted(s, spsn))
		return false;
	*word_of(s, spsn) |= 1ull << (spsn % 64);
	return true;
}

/*
 * Bits of the window in wire order: bit i is SPSN @spsn + i, for the 64 from
 * @spsn on.
 */
static u64 peek(const struct mroce_stream_tx *s, u32 spsn)
{
	u32 w = spsn % MROCE_SPSN_WINDOW / 64;
	u32 off = spsn % 64;
	u64 v = s->arrived[w] >> off;

	if (off)
		v |= s->arrived[(w + 1) % (MROCE_SPSN_WINDOW / 64)] << (64 - off);
	return v;
}

static void change(struct mroce_stream_tx *s, u32 spsn, u64 set, u64 clear)
{
	u32 w = spsn % MROCE_SPSN_WINDOW / 64;
	u32 off = spsn % 64;

	s->arrived[w] = (s->arrived[w] & ~(clear << off)) | set << off;
	if (!off)
		return;
	w = (w + 1) % (MROCE_SPSN_WINDOW / 64);
	s->arrived[w] = (s->arrived[w] & ~(clear >> (64 - off))) | set >> (64 - off);
}

/* All ones at and above bit @n; n may be 64 and more. */
static u64 from_bit(u32 n)
{
	return n < 64 ? ~0ull << n : 0;
}

int mroce_stream_tx_block(struct mroce_stream_tx *s, const struct mroce_ack_stream *b, u64 *resend)
{
	u32 left, top;
	u64 have, known, missing;
	int news = 0;

	*resend = 0;
	/* Older than what is known: was overtaken by another block, says nothing new. */
	if (mroce_seq_lt(b->base_spsn, s->base))
		return 0;
	if (mroce_seq_lt(s->next, b->base_spsn))
		return -EINVAL;
	left = s->next - b->base_spsn;	/* sent, at or above the block's base */
	top = (u32)fls64(b->vector);	/* highest named: base_spsn + top */
	if (top && top >= left)
		return -EINVAL;
	if (b->base_spsn != s->base) {
		s->base = b->base_spsn;
		news = 1;
	}
	if (!top)
		return news;
	have = peek(s, s->base + 1);
	if (b->vector & ~have)
		news = 1;
	change(s, s->base + 1, b->vector, 0);
	/* Below the highest set bit: base_spsn itself and the zeros of the vector. */
	known = peek(s, s->base) & ~from_bit(top);
	missing = known & ~(b->vector << 1);
	change(s, s->base, 0, missing);
	*resend = missing;
	return news;
}

void mroce_stream_tx_unmark(struct mroce_stream_tx *s, u32 first, u32 n)
{
	s64 lo = (s32)(first - s->base);
	s64 hi = lo + n;

	lo = max_t(s64, lo, 0);
	hi = min_t(s64, hi, s->next - s->base);
	while (lo < hi) {
		u32 k = min_t(u32, (u32)(hi - lo), 64);

		change(s, s->base + (u32)lo, 0, ~from_bit(k));
		lo += k;
	}
}
