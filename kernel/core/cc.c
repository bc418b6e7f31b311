// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "cc.h"
#include "conn_tx.h"
#include "path_sched.h"

static u64 cc_floor(const struct mroce_conn_tx *tx)
{
	return (u64)tx->payload * MROCE_CC_MIN_PKTS;
}

static void cc_set_w(struct mroce_conn_tx *tx, u64 w)
{
	u64 cap = min_t(u64, tx->cc.w_max, (u64)tx->n_paths * MROCE_PATH_RING * tx->payload);

	tx->cc.w = max_t(u64, min_t(u64, w, cap), cc_floor(tx));
}

void mroce_cc_set_cwnd(struct mroce_conn_tx *tx, struct mroce_tx_path *p, u64 bytes)
{
	u64 cap = (u64)MROCE_PATH_RING * tx->payload;

	bytes = max_t(u64, min_t(u64, bytes, cap), cc_floor(tx));
	if (mroce_path_sendable(p))
		tx->cc.sum_w = tx->cc.sum_w - p->cwnd + bytes;
	p->cwnd = (u32)bytes;
}

void mroce_cc_resum(struct mroce_conn_tx *tx)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < tx->n_paths; i++)
		if (mroce_path_sendable(&tx->path[i]))
			sum += tx->path[i].cwnd;
	tx->cc.sum_w = sum;
}

void mroce_cc_init(struct mroce_conn_tx *tx, u64 now)
{
	struct mroce_cc *cc = &tx->cc;
	u64 share;
	u32 i;

	memset(cc, 0, sizeof(*cc));
	cc->w_max = MROCE_CC_W_MAX;
	cc->w_hint = MROCE_CC_HINT_NONE;
	cc->w0 = (u64)MROCE_CC_W0_PKTS * tx->payload;
	cc_set_w(tx, cc->w0);
	cc->round_start = now;
	cc->last_sent = now;
	cc->starting = MROCE_CC_START_ROUNDS;
	share = div64_u64(cc->w, mroce_sched_n_active(tx));
	for (i = 0; i < tx->n_paths; i++) {
		tx->path[i].cwnd = 0;
		mroce_cc_set_cwnd(tx, &tx->path[i], share);
		tx->path[i].round_start = now;
	}
	mroce_cc_resum(tx);
}

u64 mroce_cc_limit(const struct mroce_conn_tx *tx)
{
	return max_t(u64, min_t(u64, tx->cc.w, tx->cc.w_hint), cc_floor(tx));
}

/* Takes @num of @den from the path window and the same bytes' share from W. */
static void cc_shrink(struct mroce_conn_tx *tx, struct mroce_tx_path *p, u32 num, u32 den,
		      u32 *took_p, u32 *took_w)
{
	u64 sum = max_t(u64, tx->cc.sum_w, 1), before = p->cwnd, w = tx->cc.w, want;

	want = mul_u64_u64_div_u64(before, num, den);
	mroce_cc_set_cwnd(tx, p, before - want);
	*took_p = (u32)(before - p->cwnd);
	cc_set_w(tx, w - min_t(u64, w, mul_u64_u64_div_u64(w, want, max_t(u64, sum, before))));
	*took_w = (u32)(w - min_t(u64, w, tx->cc.w));
}

void mroce_cc_halve(struct mroce_conn_tx *tx, struct mroce_tx_path *p)
{
	u32 a, b;

	cc_shrink(tx, p, 1, 2, &a, &b);
}

/* >= 3/4 of the plane's sendable paths were marked lately, and the hint binds: last hop. */
static bool cc_hint_has_it(const struct mroce_conn_tx *tx, u32 plane, u64 now)
{
	u32 i, n = 0, marked = 0;
	u64 rtt = mroce_conn_tx_srtt(tx, NULL);

	if (tx->cc.w_hint > tx->cc.w)
		return false;
	for (i = 0; i < tx->n_paths; i++) {
		const struct mroce_tx_path *p = &tx->path[i];

		if (p->plane != plane || !mroce_path_sendable(p) || !p->last_sent ||
		    now - p->last_sent > rtt)
			continue;
		n++;
		if (p->last_ce && now - p->last_ce <= rtt)
			marked++;
	}
	return n && marked * 4 >= n * 3;
}

static u32 cc_fraction(u32 ce, u32 rx)
{
	if (!rx)
		return 0;
	if (ce >= rx)
		return MROCE_ALPHA_ONE;
	return (u32)div64_u64((u64)ce * MROCE_ALPHA_ONE, rx);
}

static void cc_cut(struct mroce_conn_tx *tx, struct mroce_tx_path *p, u64 now)
{
	struct mroce_cc *cc = &tx->cc;
	u32 alpha;

	if (now >= p->cut_until) {
		alpha = p->seen_ce ? p->alpha : cc_fraction(p->round_ce, p->round_rx);
		mroce_cc_set_cwnd(tx, p, p->cwnd -
				  mul_u64_u64_div_u64(p->cwnd, alpha, 2 * MROCE_ALPHA_ONE));
		p->cut_until = now + mroce_conn_tx_srtt(tx, p);
		p->undo_cwnd = 0;
		p->undo_w = 0;
		tx->stats.ce_cuts++;
	}
	if (now >= cc->cut_until && !cc_hint_has_it(tx, p->plane, now)) {
		alpha = cc->seen_ce ? cc->alpha : cc_fraction(cc->round_ce, cc->round_rx);
		cc_set_w(tx, cc->w - mul_u64_u64_div_u64(cc->w, alpha, 2 * MROCE_ALPHA_ONE));
		cc->cut_until = now + mroce_conn_tx_srtt(tx, NULL);
	}
}

static void cc_grow(struct mroce_conn_tx *tx, struct mroce_tx_path *p, u64 bytes, u64 p_before,
		    u64 c_before, u64 now)
{
	struct mroce_cc *cc = &tx->cc;
	u64 mult = 1;

	/* Whose starts have met others before does not race into the next one. */
	if (cc->w < cc->w_hint &&
	    !(cc->starting && cc->w0 < (u64)MROCE_CC_W0_PKTS * tx->payload) &&
	    (!cc->last_ce || now - cc->last_ce > 4 * (u64)mroce_conn_tx_srtt(tx, NULL)))
		mult = MROCE_CC_FAST;
	bytes *= mult;
	if (p_before * 2 >= p->cwnd && cc->sum_w)
		mroce_cc_set_cwnd(tx, p, p->cwnd +
				  mul_u64_u64_div_u64(bytes, tx->payload, cc->sum_w));
	if (c_before * 2 >= cc->w)
		cc_set_w(tx, cc->w + mul_u64_u64_div_u64(bytes, tx->payload, cc->w));
}

void mroce_cc_ack(struct mroce_conn_tx *tx, struct mroce_tx_path *p,
		  const struct mroce_ack_path *b, const struct mroce_path_acked *a,
		  u64 p_before, u64 c_before, u64 now)
{
	struct mroce_cc *cc = &tx->cc;
	u32 rx = b->rx_pkts - p->rx_seen, ce = b->ce_pkts - p->ce_seen;
	u64 bytes = a->bytes;

	/* An older block (rx goes back), or counters that jump: no news about marks. */
	if (rx - 1u < 2u * MROCE_PSN_MAX_AHEAD) {
		p->rx_seen = b->rx_pkts;
		p->ce_seen = b->ce_pkts;
		rx = min_t(u32, rx, MROCE_PATH_RING);
		ce = ce > rx ? (ce >> 31 ? 0 : rx) : ce;
		p->round_rx = (u16)min_t(u32, p->round_rx + rx, 0xffff);
		p->round_ce = (u16)min_t(u32, p->round_ce + ce, 0xffff);
		cc->round_rx += rx;
		cc->round_ce += ce;
		if (ce) {
			p->last_ce = now;
			cc->last_ce = now;
			cc_cut(tx, p, now);
			bytes = mul_u64_u64_div_u64(bytes, rx - ce, rx);
		}
	}
	p->round_acked = (u16)min_t(u32, p->round_acked + a->n_data, 0xffff);
	if (bytes)
		cc_grow(tx, p, bytes, p_before, c_before, now);
}

void mroce_cc_lost(struct mroce_conn_tx *tx, struct mroce_tx_path *p, u32 n, u64 now)
{
	u64 srtt = mroce_conn_tx_srtt(tx, p);

	p->round_lost = (u16)min_t(u32, p->round_lost + n, 0xffff);
	tx->cc.round_lost += n;
	if (now < p->cut_until)
		return;
	if (p->last_ce && now - p->last_ce <= srtt) {
		cc_cut(tx, p, now);
		return;
	}
	cc_shrink(tx, p, 1, MROCE_CC_LOSS_DIV, &p->undo_cwnd, &p->undo_w);
	p->cut_until = now + srtt;
	tx->stats.loss_cuts++;
}

void mroce_cc_undo(struct mroce_conn_tx *tx, struct mroce_tx_path *p)
{
	if (p->undo_cwnd)
		mroce_cc_set_cwnd(tx, p, (u64)p->cwnd + p->undo_cwnd);
	if (p->undo_w)
		cc_set_w(tx, tx->cc.w + p->undo_w);
	p->undo_cwnd = 0;
	p->undo_w = 0;
}

static u32 cc_alpha(u32 alpha, u8 *seen, u32 ce, u32 rx)
{
	u32 f = cc_fraction(ce, rx);

	if (!rx)
		return alpha;
	if (!*seen) {		/* the first sample of the average */
		*seen = f != 0;
		return f;
	}
	return alpha - alpha / 16 + f / 16;
}

bool mroce_cc_path_round_over(struct mroce_conn_tx *tx, struct mroce_tx_path *p, u64 now)
{
	if (now < p->round_start + mroce_conn_tx_srtt(tx, p))
		return false;
	p->alpha = cc_alpha(p->alpha, &p->seen_ce, p->round_ce, p->round_rx);
	return true;
}

void mroce_cc_path_round_next(struct mroce_tx_path *p, u64 now)
{
	p->round_start = now;
	p->round_rx = 0;
	p->round_ce = 0;
	p->round_lost = 0;
	p->round_acked = 0;
}

/*
 * W0 remembers how starts went: what an incast of N senders is hit with is N *
 * W0.  The hint says at once how much would have been right.
 */
static void cc_start_round(struct mroce_conn_tx *tx)
{
	struct mroce_cc *cc = &tx->cc;

	if (cc->w_hint < cc->w0) {
		cc->w0 = cc->w_hint;
		cc->start_bad = 1;
	} else if (cc->round_lost && !cc->start_bad) {
		cc->w0 /= 2;
		cc->start_bad = 1;
	}
	if (!--cc->starting && !cc->start_bad)
		cc->w0 *= 2;
	cc->w0 = max_t(u64, cc->w0, cc_floor(tx));
	cc->w0 = min_t(u64, cc->w0, (u64)MROCE_CC_W0_PKTS * tx->payload);
}

/* W_H = 1.15 * sum over planes(hint * smallest RTT); no limit if a plane has no fresh one. */
static void cc_hint_window(struct mroce_conn_tx *tx, u64 now)
{
	struct mroce_cc *cc = &tx->cc;
	u64 old = cc->w_hint, sum = 0, age = 8ull * mroce_conn_tx_srtt(tx, NULL);
	u32 rtt[MROCE_MAX_PLANES] = { 0 };
	bool seen = false;
	u32 i, r;

	for (i = 0; i < tx->n_paths; i++) {
		const struct mroce_tx_path *p = &tx->path[i];

		if (!mroce_path_sendable(p) || p->plane >= MROCE_MAX_PLANES)
			continue;
		r = p->rtt.min_ns ? p->rtt.min_ns : mroce_conn_tx_srtt(tx, NULL);
		if (!rtt[p->plane] || r < rtt[p->plane])
			rtt[p->plane] = r;
	}
	cc->w_hint = MROCE_CC_HINT_NONE;
	for (i = 0; i < MROCE_MAX_PLANES; i++) {
		if (!rtt[i])
			continue;
		if (cc->hint[i] == MROCE_HINT_NONE || cc->hint[i] == MROCE_HINT_UNLIMITED ||
		    now - cc->hint_time[i] > age)
			return;
		seen = true;
		sum += mul_u64_u64_div_u64(mroce_hint_decode(cc->hint[i]), rtt[i], 8000000000ull);
	}
	if (!seen)
		return;
	cc->w_hint = sum + mul_u64_u64_div_u64(sum, 3, 20);
	/*
	 * A rising hint is followed in one step, on the paths too; but not at a
	 * start, where the others may not have been heard of yet.
	 */
	sum = mul_u64_u64_div_u64(cc->w_hint, 9, 10);
	if (cc->starting || old == MROCE_CC_HINT_NONE || cc->w_hint <= old || sum <= cc->w)
		return;
	old = cc->w;
	cc_set_w(tx, sum);
	for (i = 0; i < tx->n_paths; i++)
		mroce_cc_set_cwnd(tx, &tx->path[i],
				  mul_u64_u64_div_u64(tx->path[i].cwnd, cc->w, old));
}

void mroce_cc_hint(struct mroce_conn_tx *tx, u32 plane, u16 hint, u64 now)
{
	struct mroce_cc *cc = &tx->cc;
	u16 old;

	if (plane >= MROCE_MAX_PLANES)
		return;
	old = cc->hint[plane];
	cc->hint[plane] = hint;
	cc->hint_time[plane] = now;
	if (hint != old)
		cc_hint_window(tx, now);
}

bool mroce_cc_round(struct mroce_conn_tx *tx, u64 now)
{
	struct mroce_cc *cc = &tx->cc;

	if (now < cc->round_start + mroce_conn_tx_srtt(tx, NULL))
		return false;
	cc->alpha = cc_alpha(cc->alpha, &cc->seen_ce, cc->round_ce, cc->round_rx);
	cc_hint_window(tx, now);
	if (cc->starting && cc->round_rx)
		cc_start_round(tx);
	cc->round_start = now;
	cc->round_rx = 0;
	cc->round_ce = 0;
	cc->round_lost = 0;
	return true;
}

void mroce_cc_sent(struct mroce_conn_tx *tx, u64 now)
{
	struct mroce_cc *cc = &tx->cc;
	u64 share;
	u32 i;

	if (!tx->inflight && now - cc->last_sent > 8ull * mroce_conn_tx_srtt(tx, NULL)) {
		cc_set_w(tx, max_t(u64, cc->w / 2, cc->w0));
		share = div64_u64(cc->w, mroce_sched_n_active(tx));
		for (i = 0; i < tx->n_paths; i++)
			mroce_cc_set_cwnd(tx, &tx->path[i],
					  max_t(u64, tx->path[i].cwnd / 2, share));
		cc->starting = MROCE_CC_START_ROUNDS;
		cc->start_bad = 0;
		cc->round_start = now;
		cc->round_rx = 0;
		cc->round_ce = 0;
		cc->round_lost = 0;
	}
	cc->last_sent = now;
}
