// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* A sequence of packets and acknowledgements at the receiving half of a connection. */
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

extern "C" {
#include "conn_rx.h"
}

static void require(bool ok)
{
	if (!ok)
		abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *d, size_t size)
{
	mroce_rx_path paths[3] = {};
	mroce_conn_rx rx;
	std::map<u32, std::set<u32>> got;
	u64 now = 1000000;

	mroce_conn_rx_init(&rx, paths, 3);
	for (; size >= 6; d += 6, size -= 6) {
		const auto &c = paths[d[0] % 3].cur;
		mroce_pkt p{};

		now += d[5] * 100u;
		p.type = d[0] & 0x40 ? MROCE_T_PROBE : MROCE_T_DATA;
		p.flags = d[0] & 0x80;
		p.path_id = d[0] & 3;
		p.path_gen = u16(c.gen + s8(d[1]) / 32 + (d[1] == 127 ? 0x7ffe : 0));
		p.path_psn = d[0] & 0x20 ? u32(d[2]) << 24 | u32(d[3]) << 8 | d[4] :
					   c.max_psn + u32(s16(d[2] << 8 | d[3])) + d[4];
		p.tx_ts = p.path_psn;
		mroce_path_verdict v = mroce_conn_rx_check(&rx, &p);
		if (p.path_id >= 3) {
			require(v == MROCE_PATH_REJECT);
			continue;
		}
		auto &g = got[u32(p.path_id) << 16 | p.path_gen];
		const auto &path = paths[p.path_id];
		if (v == MROCE_PATH_OK) {
			if (!(path.cur.valid && path.cur.gen == p.path_gen) &&
			    !(path.prev.valid && path.prev.gen == p.path_gen))
				g.clear(); /* a generation begins, perhaps after 65536 others */
			require(g.insert(p.path_psn).second);
			mroce_conn_rx_commit(&rx, &p, d[5] * 64u, d[0] & 0x10, now);
		} else if (v == MROCE_PATH_DUP) {
			mroce_conn_rx_commit(&rx, &p, d[5] * 64u, d[0] & 0x10, now);
			require(mroce_conn_rx_due(&rx, now));
		}
		u32 due = 0;
		for (const auto &x : paths)
			due += x.due;
		require(due == rx.n_due);
		if (!mroce_conn_rx_due(&rx, now) && (d[5] & 7))
			continue;
		mroce_ack_path b[6];
		u32 n = mroce_conn_rx_blocks(&rx, b, d[4] % 7, now);
		require(n <= d[4] % 7u);
		for (u32 i = 0; i < n; i++) {
			require(b[i].path_id < 3 && (b[i].sack[0] & 1) && b[i].rx_pkts >= b[i].ce_pkts);
			const auto &s = got[u32(b[i].path_id) << 16 | b[i].gen];
			for (u32 k = 0; k < 256; k++)
				if (b[i].sack[k / 64] >> (k % 64) & 1)
					require(s.count(b[i].max_psn - k));
		}
	}
	return 0;
}
