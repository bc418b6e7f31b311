// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "path_sched.h"
#include "conn_tx.h"

u64 mroce_sched_random(struct mroce_conn_tx *tx)
{
	u64 x = tx->rng += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* Random number below @n, n <= 256. */
static u32 sched_below(struct mroce_conn_tx *tx, u32 n)
{
	return (u32)((mroce_sched_random(tx) >> 32) * n >> 32);
}

u32 mroce_sched_n_active(const struct mroce_conn_tx *tx)
{
	u64 n = div64_u64(mroce_cc_limit(tx), 4ull * tx->payload);

	return (u32)min_t(u64, max_t(u64, n, 2), tx->n_paths);
}

void mroce_sched_rebuild(struct mroce_conn_tx *tx)
{
	u32 i, n = 0;

	for (i = 0; i < tx->n_paths; i++)
		if (tx->path[i].state == MROCE_PATH_GOOD)
			tx->order[n++] = (u8)i;
	for (i = 0; i < tx->n_paths; i++)
		if (tx->path[i].state == MROCE_PATH_CONGESTED)
			tx->order[n++] = (u8)i;
	tx->n_sendable = n;
	tx->n_active = min_t(u32, n, mroce_sched_n_active(tx));
}

static u32 path_free(const struct mroce_tx_path *p)
{
	return p->inflight < p->cwnd ? p->cwnd - p->inflight : 0;
}

/* May a new packet go there now?  Not in front of a retransmission, not after a timeout. */
static bool path_usable(const struct mroce_tx_path *p)
{
	return mroce_path_sendable(p) && path_free(p) && !p->rtx.n && !p->pto_cnt &&
	       mroce_path_room(p);
}

int mroce_sched_pick(struct mroce_conn_tx *tx)
{
	u32 n = tx->n_active, i, k;
	const struct mroce_tx_path *a, *b;
	u64 left;

	if (!n)
		return -1;
	/* A short message does not need all paths. */
	left = tx->inflight + min_t(u64, tx->backlog, ~0u);
	if (left < 4ull * tx->payload * n)
		n = min_t(u32, n, (u32)max_t(u64, div64_u64(left, 4ull * tx->payload), 2));
	i = tx->order[sched_below(tx, n)];
	k = tx->order[sched_below(tx, n)];
	a = &tx->path[i];
	b = &tx->path[k];
	if (path_usable(a) && (!path_usable(b) || path_free(a) >= path_free(b)))
		return (int)i;
	if (path_usable(b))
		return (int)k;
	/* Any other, first of the active, then the rest: the window must not lie idle. */
	for (i = 0; i < tx->n_sendable; i++)
		if (path_usable(&tx->path[tx->order[i]]))
			return tx->order[i];
	return -1;
}

int mroce_sched_best(const struct mroce_conn_tx *tx, u32 not_path, bool calm)
{
	s64 best = 0, room;
	int found = -1;
	u32 i;

	for (i = 0; i < tx->n_sendable; i++) {
		u32 k = tx->order[i];
		const struct mroce_tx_path *p = &tx->path[k];

		if (k == not_path || !mroce_path_sendable(p) || (calm && p->pto_cnt))
			continue;
		room = (s64)p->cwnd - p->inflight - (s64)p->rtx.n * tx->payload;
		if (found < 0 || room > best) {
			found = (int)k;
			best = room;
		}
	}
	return found;
}
