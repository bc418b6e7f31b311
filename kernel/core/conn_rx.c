// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

#include "conn_rx.h"

#define DELAY_MAX_NS	25000u	/* of the delayed acknowledgement */
#define LAZY_MIN_NS	250000u	/* of what may wait for a DATA packet */
#define LAZY_MAX_NS	1000000u
#define IDLE_NS		1000000u /* if no RTT is known */
#define BYTES_PER_ACK	16384u

#define NEWS_CUR	1	/* something of cur is unreported */
#define NEWS_PREV	2

#define GEN_SEEN	1	/* mroce_rx_gen.valid */
#define GEN_WRAPPED	2	/* its PSNs have passed 2^32 */

enum gen_of {
	GEN_CUR,
	GEN_PREV,
	GEN_NEW,		/* becomes cur */
	GEN_OLD,		/* older than prev */
};

void mroce_conn_rx_init(struct mroce_conn_rx *rx, struct mroce_rx_path *paths, u32 n_paths)
{
	memset(rx, 0, sizeof(*rx));
	rx->path = paths;
	rx->n_paths = n_paths;
	rx->deadline = ~0ull;
	rx->pkts_per_ack = 4;
}

static enum gen_of which_gen(const struct mroce_rx_path *path, u16 gen)
{
	if (!path->cur.valid)
		return GEN_NEW;
	if (gen == path->cur.gen)
		return GEN_CUR;
	if (mroce_gen_diff(gen, path->cur.gen) > 0)
		return GEN_NEW;
	if (path->prev.valid && gen == path->prev.gen)
		return GEN_PREV;
	return GEN_OLD;
}

static enum mroce_path_verdict check_psn(const struct mroce_rx_gen *g, u32 psn)
{
	u32 ahead = psn - g->max_psn;
	u32 back = g->max_psn - psn;

	if (ahead && ahead <= MROCE_PSN_MAX_AHEAD)
		return MROCE_PATH_OK;
	/* Below PSN 0, where every generation begins? */
	if (back > MROCE_PSN_MAX_AHEAD || (psn > g->max_psn && g->valid != GEN_WRAPPED))
		return MROCE_PATH_REJECT;
	if (back >= MROCE_SACK_BITS)
		return MROCE_PATH_DUP;
	return g->sack[back / 64] >> (back % 64) & 1 ? MROCE_PATH_DUP : MROCE_PATH_OK;
}

enum mroce_path_verdict mroce_conn_rx_check(const struct mroce_conn_rx *rx,
					    const struct mroce_pkt *p)
{
	const struct mroce_rx_path *path;

	if (p->path_id >= rx->n_paths)
		return MROCE_PATH_REJECT;
	path = &rx->path[p->path_id];
	switch (which_gen(path, p->path_gen)) {
	case GEN_CUR:
		return check_psn(&path->cur, p->path_psn);
	case GEN_PREV:
		return check_psn(&path->prev, p->path_psn);
	case GEN_NEW:
		return p->path_psn < MROCE_PSN_MAX_AHEAD ? MROCE_PATH_OK : MROCE_PATH_REJECT;
	case GEN_OLD:
		break;
	}
	return MROCE_PATH_FORGOTTEN;
}

/* The vector looks back from max_psn: a higher one moves every bit up by @n. */
static void shift_sack(u64 *sack, u32 n)
{
	u32 words = n / 64, bits = n % 64;
	int i;

	if (n >= MROCE_SACK_BITS) {
		memset(sack, 0, 4 * sizeof(*sack));
		return;
	}
	for (i = 3; i >= 0; i--) {
		int from = i - (int)words;
		u64 v = from >= 0 ? sack[from] << bits : 0;

		if (bits && from >= 1)
			v |= sack[from - 1] >> (64 - bits);
		sack[i] = v;
	}
}

/* First PSN never received, as far as the vector still shows it. */
static void advance_cum(struct mroce_rx_gen *g)
{
	u32 back = g->max_psn - g->cum_psn;

	/* A hole is never filled; keep the number comparable with max_psn. */
	if (back >= 1u << 30 && back < 1u << 31) {
		g->cum_psn = g->max_psn - (1u << 30);
		return;
	}
	while (back < MROCE_SACK_BITS && (g->sack[back / 64] >> (back % 64) & 1)) {
		g->cum_psn++;
		back--;		/* past max_psn: wraps, ends the loop */
	}
}

/* Enters the packet into its generation; true if that alone asks for an ACK at once. */
static bool record(struct mroce_rx_gen *g, const struct mroce_pkt *p, bool ce, u64 now)
{
	u32 ahead = p->path_psn - g->max_psn;
	u32 back = g->max_psn - p->path_psn;
	bool urgent;

	g->rx_pkts++;
	g->ce_pkts += ce;
	if (ahead && ahead <= MROCE_PSN_MAX_AHEAD) {
		urgent = ahead > 1 || (ce && !(g->flags & MROCE_PB_CE));
		shift_sack(g->sack, ahead);
		g->sack[0] |= 1;
		if (!g->valid)
			g->valid = GEN_SEEN;
		else if (p->path_psn < g->max_psn)
			g->valid = GEN_WRAPPED;
		g->max_psn = p->path_psn;
		g->ts_echo = p->tx_ts;
		g->max_time = now;
		g->flags = (u8)((g->flags & ~MROCE_PB_CE) | (ce ? MROCE_PB_CE : 0));
	} else if (back < MROCE_SACK_BITS && !(g->sack[back / 64] >> (back % 64) & 1)) {
		urgent = false;
		g->sack[back / 64] |= 1ull << (back % 64);
	} else {
		g->flags |= MROCE_PB_DUP;
		return true;
	}
	advance_cum(g);
	return urgent;
}

/* First packet of a generation. */
static void start_gen(struct mroce_rx_path *path, const struct mroce_pkt *p)
{
	if (path->cur.valid) {
		path->prev = path->cur;
		path->news |= NEWS_PREV;
	}
	memset(&path->cur, 0, sizeof(path->cur));
	path->cur.gen = p->path_gen;
	path->cur.max_psn = ~0u;	/* so that PSN 0 is one ahead */
	path->cur.cum_psn = 0;
}

static void arm(struct mroce_conn_rx *rx, struct mroce_rx_path *path, bool urgent, bool lazy,
		u64 now)
{
	u64 delay = DELAY_MAX_NS;

	if (urgent || path->unacked_pkts >= rx->pkts_per_ack ||
	    (rx->pkts_per_ack <= 4 && path->unacked_bytes >= BYTES_PER_ACK)) {
		if (!path->due)
			rx->n_due++;
		path->due = 1;
		return;
	}
	if (path->ack_deadline && (lazy || !path->lazy))
		return;
	if (lazy)
		delay = clamp_t(u64, 2ull * rx->srtt_ns, LAZY_MIN_NS, LAZY_MAX_NS);
	else if (rx->srtt_ns)
		delay = min_t(u64, rx->srtt_ns / 8, DELAY_MAX_NS);
	rx->n_lazy += lazy - path->lazy;
	path->lazy = lazy;
	path->ack_deadline = path->ack_deadline ? min_t(u64, path->ack_deadline, now + delay) :
						  now + delay;
	rx->deadline = min_t(u64, rx->deadline, path->ack_deadline);
}

void mroce_conn_rx_commit(struct mroce_conn_rx *rx, const struct mroce_pkt *p, u32 bytes, bool ce,
			  u64 now)
{
	struct mroce_rx_path *path;
	struct mroce_rx_gen *g;
	bool urgent, lazy = mroce_is_lazy(p);

	mroce_assert(p->path_id < rx->n_paths);
	if (p->path_id >= rx->n_paths)
		return;
	path = &rx->path[p->path_id];
	urgent = (p->flags & MROCE_F_AR) || p->type == MROCE_T_PROBE;
	switch (which_gen(path, p->path_gen)) {
	case GEN_NEW:
		urgent |= path->cur.valid;
		start_gen(path, p);
		g = &path->cur;
		break;
	case GEN_CUR:
		g = &path->cur;
		break;
	case GEN_PREV:
		g = &path->prev;
		break;
	default:
		return;		/* forgotten: nothing to tell */
	}
	if (!lazy && now - rx->last_rx >= (rx->srtt_ns ? rx->srtt_ns : IDLE_NS))
		urgent = true;
	rx->last_rx = now;
	rx->rx_bytes += bytes;
	path->news |= g == &path->cur ? NEWS_CUR : NEWS_PREV;
	path->unacked_bytes += bytes;
	if (path->unacked_pkts < 0xffff)
		path->unacked_pkts++;
	if (record(g, p, ce, now))
		urgent = true;
	arm(rx, path, urgent, lazy, now);
}

static void fill_block(const struct mroce_conn_rx *rx, struct mroce_rx_gen *g, u8 path_id,
		       u8 flags, struct mroce_ack_path *b, u64 now)
{
	u64 delay = now > g->max_time ? (now - g->max_time) >> 8 : 0;

	b->path_id = path_id;
	b->flags = g->flags | flags;
	b->gen = g->gen;
	b->max_psn = g->max_psn;
	b->ts_echo = g->ts_echo;
	b->ack_delay = (u16)min_t(u64, delay, 0xffff);
	b->rate_hint = rx->hint;
	b->rx_pkts = g->rx_pkts;
	b->ce_pkts = g->ce_pkts;
	b->cum_psn = g->cum_psn;
	memcpy(b->sack, g->sack, sizeof(b->sack));
	g->flags &= (u8)~MROCE_PB_DUP;
}

/* Blocks of one path, at most @max; its debts are paid once both are out. */
static u32 path_blocks(struct mroce_conn_rx *rx, u32 i, struct mroce_ack_path *b, u32 max, u64 now)
{
	struct mroce_rx_path *path = &rx->path[i];
	u32 n = 0;

	if ((path->news & NEWS_PREV) && n < max) {
		fill_block(rx, &path->prev, (u8)i, MROCE_PB_RETIRED, &b[n++], now);
		path->news &= (u8)~NEWS_PREV;
	}
	if ((path->news & NEWS_CUR) && n < max) {
		fill_block(rx, &path->cur, (u8)i, 0, &b[n++], now);
		path->news &= (u8)~NEWS_CUR;
	}
	if (path->news)
		return n;
	if (path->due)
		rx->n_due--;
	path->due = 0;
	rx->n_lazy -= path->lazy;
	path->lazy = 0;
	path->ack_deadline = 0;
	path->unacked_bytes = 0;
	path->unacked_pkts = 0;
	return n;
}

u32 mroce_conn_rx_blocks(struct mroce_conn_rx *rx, struct mroce_ack_path *b, u32 max, u64 now)
{
	u32 n = 0, i;

	for (i = 0; i < rx->n_paths && rx->n_due; i++)
		if (rx->path[i].due)
			n += path_blocks(rx, i, b + n, max - n, now);
	for (i = 0; i < rx->n_paths && n < max; i++)
		if (rx->path[i].news)
			n += path_blocks(rx, i, b + n, max - n, now);
	rx->deadline = ~0ull;
	for (i = 0; i < rx->n_paths; i++)
		if (rx->path[i].ack_deadline)
			rx->deadline = min_t(u64, rx->deadline, rx->path[i].ack_deadline);
	return n;
}
