// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Any bytes as the body of a HELLO. */
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

extern "C" {
#include "codec.h"
}

static void require(bool ok)
{
	if (!ok)
		abort();
}

static int body(const u8 *data, size_t size)
{
	u8 buf[64 + 24 * MROCE_MAX_PLANES];
	mroce_hello_h h, again;
	u32 n;

	if (mroce_parse_hello(data, u32(size), &h))
		return 0;
	require(size == 64 + 24 * size_t(h.n_addr) && h.n_addr <= MROCE_MAX_PLANES);
	require(h.conn_id && h.max_paths && h.ver_min <= h.ver_max && h.spsn_log2 == 12);
	require(h.payload >= MROCE_MIN_PAYLOAD && h.payload <= MROCE_MAX_PAYLOAD && h.payload % 64 == 0);
	n = mroce_build_hello(buf, &h);
	require(n == size && !mroce_parse_hello(buf, n, &again));
	require(!memcmp(&h, &again, sizeof(h)));
	return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	body(data, size);
	if (size < sizeof(mroce_hello))
		return 0;
	/* Once more with a number of addresses that fits. */
	std::vector<u8> fit(data, data + size);
	u8 &n = fit[offsetof(mroce_hello, n_addr)];
	n = u8((size - sizeof(mroce_hello)) / sizeof(mroce_hello_addr));
	fit.resize(sizeof(mroce_hello) + n * sizeof(mroce_hello_addr));
	body(fit.data(), fit.size());
	return 0;
}
