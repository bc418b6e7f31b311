// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Any bytes as an acknowledgement; its stream blocks go into the sending half of a stream. */
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

extern "C" {
#include "stream_tx.h"
}

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void feed(mroce_stream_tx *s, mroce_ack_stream b)
{
	u32 base = s->base, next = s->next;
	mroce_stream_tx old = *s;
	u64 resend;
	int r;

	r = mroce_stream_tx_block(s, &b, &resend);
	require(s->next == next && s->base - base <= next - base);
	require(s->next - s->base <= MROCE_SPSN_WINDOW);
	if (r < 0)
		require(!resend && !memcmp(&old, s, sizeof(old)));
	for (u32 i = 0; i < 64; i++)
		require(!(resend >> i & 1) || mroce_stream_tx_wanted(s, b.base_spsn + i));
}

static void body(const u8 *data, size_t size, u32 start)
{
	u32 n_path, n_stream;
	mroce_stream_tx s;

	mroce_stream_tx_init(&s, start);
	for (u32 i = 0; i < 300 + start % 4000 && mroce_stream_tx_room(&s); i++)
		if (mroce_stream_tx_take(&s) % 3)
			mroce_stream_tx_arrived(&s, s.next - 1);
	if (mroce_parse_ack_counts(data, u32(size), &n_path, &n_stream)) {
		require(!n_path && !n_stream);
		return;
	}
	require(size == 8 + 64 * size_t(n_path) + 24 * size_t(n_stream));
	for (u32 i = 0; i < n_path; i++) {
		mroce_ack_path b;
		u8 w[64];

		mroce_get_path_block(data, i, &b);
		mroce_put_path_block(w, &b);
		require(!memcmp(w, data + 8 + 64 * i, 60)); /* the rest is reserved */
		mroce_hint_decode(b.rate_hint);
	}
	for (u32 i = 0; i < n_stream; i++) {
		mroce_ack_stream b;
		u8 w[24];

		mroce_get_stream_block(data, n_path, i, &b);
		mroce_put_stream_block(w, &b);
		require(!memcmp(w, data + 8 + 64 * n_path + 24 * i, 24));
		feed(&s, b);
		b.base_spsn = s.base + b.base_spsn % 5000 - 50;
		feed(&s, b);
		mroce_stream_tx_unmark(&s, b.msn_done, b.word);
		mroce_stream_tx_unmark(&s, s.base + b.msn_done % 5000 - 50, b.word % 5000);
		while (b.value-- && mroce_stream_tx_room(&s))
			mroce_stream_tx_take(&s);
	}
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	u32 start;

	if (size < 12)
		return 0;
	memcpy(&start, data, 4);
	data += 4, size -= 4;
	body(data, size, start);
	/* Once more with counts that fit. */
	std::vector<u8> fit(data, data + size);
	fit[4] = u8(start % 5 % ((size - 8) / 64 + 1));
	fit[5] = u8((size - 8 - 64 * fit[4]) / 24);
	fit.resize(8 + 64 * size_t(fit[4]) + 24 * size_t(fit[5]));
	body(fit.data(), fit.size(), start);
	return 0;
}
