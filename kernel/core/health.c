// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "health.h"
#include "path_sched.h"

#define MS	1000000ull

/*
 * How much longer the acknowledgement of a lazy packet may take: twice the
 * peer's delay (3.3), as its idea of the round trip is not ours.
 */
static u64 path_lazy(const struct mroce_conn_tx *tx, const struct mroce_tx_path *p)
{
	if (!p->lazy)
		return 0;
	return clamp_t(u64, 4ull * mroce_conn_tx_srtt(tx, p), MS / 2, 2 * MS);
}

static u64 path_pto(const struct mroce_conn_tx *tx, const struct mroce_tx_path *p)
{
	return mroce_rtt_pto(&p->rtt, mroce_conn_tx_srtt(tx, p), tx->tick_ns,
			     tx->max_ack_delay) + path_lazy(tx, p);
}

/* PTO with its back-off: x1, x1, x2, x3. */
static u64 path_pto_backed_off(const struct mroce_conn_tx *tx, const struct mroce_tx_path *p)
{
	u32 mult = p->pto_cnt < 2 ? 1 : p->pto_cnt == 2 ? 2 : 3;

	return path_pto(tx, p) * mult;
}

static u64 path_quiet(const struct mroce_conn_tx *tx, const struct mroce_tx_path *p)
{
	u64 srtt = mroce_conn_tx_srtt(tx, p);

	/*
	 * As long as there is more to send, the next packet shows the gap as
	 * well; and where nothing gets lost there is no gap to be shown.
	 */
	return max_t(u64, tx->drained && tx->lossy ? srtt / 4 : srtt + srtt / 2, tx->tick_ns) +
	       path_lazy(tx, p);
}

static bool tail_wanted(const struct mroce_tx_path *p)
{
	return mroce_path_sendable(p) && p->n_data && !p->tail_probed && !p->probe_due;
}

static bool old_in_flight(const struct mroce_tx_path *p)
{
	return p->n_flight && mroce_seq_lt(p->una, p->base);
}

u64 mroce_health_deadline(const struct mroce_conn_tx *tx, const struct mroce_tx_path *p)
{
	u64 d = ~0ull, srtt = mroce_conn_tx_srtt(tx, p);

	if (!p->ring)
		return d;
	if (p->state_deadline)
		d = p->state_deadline;
	if (!p->n_flight)
		return d;
	if (old_in_flight(p))
		d = min_t(u64, d, p->gen_time + srtt + srtt / 8);
	if (p->reo_deadline)
		d = min_t(u64, d, p->reo_deadline);
	if (mroce_path_sendable(p))
		d = min_t(u64, d, p->pto_base + path_pto_backed_off(tx, p));
	if (tail_wanted(p))
		d = min_t(u64, d, p->last_sent + path_quiet(tx, p));
	return d;
}

u64 mroce_health_probe_value(const struct mroce_tx_path *p, u16 gen, u32 psn)
{
	u64 x = p->secret ^ (((u64)gen << 32 | psn) * 0x9e3779b97f4a7c15ull);

	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
	x = (x ^ x >> 32) * (p->secret | 1);
	return x ^ x >> 32;
}

/* All that is queued on path @i, and if @flight all that it has in flight, goes elsewhere. */
static void move_away(struct mroce_conn_tx *tx, u32 i, bool flight)
{
	struct mroce_tx_path *p = &tx->path[i];
	bool calm = mroce_sched_best(tx, i, true) >= 0;
	struct mroce_pkt_ref ref;
	int to;

	for (;;) {
		to = mroce_sched_best(tx, i, calm);
		if (to < 0)
			return;
		if (p->rtx.n) {
			mroce_rtx_pop(&tx->pool, &p->rtx, &ref);
			tx->rtx_queued--;
		} else if (flight) {
			mroce_conn_tx_out(tx, p);
			flight = mroce_path_take_oldest(p, &ref);
			mroce_conn_tx_in(tx, p);
			if (!flight)
				return;
		} else {
			return;
		}
		ref.moved = 1;
		tx->stats.moved++;
		mroce_conn_tx_queue(tx, (u32)to, &ref, false);
	}
}

static void set_state(struct mroce_conn_tx *tx, u32 i, enum mroce_path_state state)
{
	struct mroce_tx_path *p = &tx->path[i];
	bool was = mroce_path_sendable(p);
	u32 k;

	p->state = (u8)state;
	p->probe_fail = 0;
	p->probe_ok = 0;
	p->cong_rounds = 0;
	p->calm_rounds = 0;
	p->state_deadline = 0;
	mroce_sched_rebuild(tx);
	mroce_cc_resum(tx);
	tx->rearm = 1;
	if (was == mroce_path_sendable(p))
		return;
	if (was) {
		move_away(tx, i, false);
		return;
	}
	/* The first path that can send again takes what the others cannot. */
	for (k = 0; k < tx->n_paths; k++)
		if (!mroce_path_sendable(&tx->path[k]))
			move_away(tx, k, tx->path[k].state != MROCE_PATH_NEW);
}

/* At least one other path that answers, or two that may send, must remain. */
static bool may_leave(const struct mroce_conn_tx *tx, u32 i)
{
	u32 others = tx->n_sendable - (mroce_path_sendable(&tx->path[i]) ? 1 : 0);

	return others >= 2 || mroce_sched_best(tx, i, true) >= 0;
}

static void start_probing(struct mroce_conn_tx *tx, u32 i, enum mroce_path_state state, u64 now)
{
	set_state(tx, i, state);
	mroce_conn_tx_probe_due(tx, i);
	tx->path[i].state_deadline = now + path_pto(tx, &tx->path[i]);
}

void mroce_health_init(struct mroce_conn_tx *tx, bool validated, u64 now)
{
	u32 i;

	for (i = 0; i < tx->n_paths; i++) {
		tx->path[i].sport = mroce_health_port(tx, i, now);
		if (validated)
			tx->path[i].state = MROCE_PATH_GOOD;
		else
			start_probing(tx, i, MROCE_PATH_NEW, now);
	}
	mroce_sched_rebuild(tx);
	mroce_cc_resum(tx);
}

static struct mroce_port_cache *cache_of(struct mroce_conn_tx *tx, u32 i)
{
	return &tx->cache[tx->path[i].plane % MROCE_MAX_PLANES];
}

static bool port_in_use(const struct mroce_conn_tx *tx, u32 i, u16 port)
{
	u32 k;

	for (k = 0; k < tx->n_paths; k++)
		if (k != i && tx->path[k].plane == tx->path[i].plane && tx->path[k].sport == port)
			return true;
	return false;
}

static void cache_drop(struct mroce_port_cache *c, u16 port)
{
	u32 i;

	for (i = 0; i < c->n; i++) {
		if (c->port[i] != port)
			continue;
		c->port[i] = c->port[--c->n];
		c->next = 0;
		return;
	}
}

static void cache_put(struct mroce_port_cache *c, u16 port)
{
	u32 i;

	for (i = 0; i < c->n; i++)
		if (c->port[i] == port)
			return;
	if (c->n < MROCE_PORT_CACHE) {
		c->port[c->n++] = port;
		return;
	}
	c->port[c->next] = port;
	c->next = (u8)((c->next + 1) % MROCE_PORT_CACHE);
}

u16 mroce_health_port(struct mroce_conn_tx *tx, u32 i, u64 now)
{
	struct mroce_port_cache *c = cache_of(tx, i);
	bool frozen = now < tx->frozen_until;
	u16 own = tx->path[i].sport, port;
	u32 k, from, tries;

	from = (u32)mroce_sched_random(tx) % MROCE_PORT_CACHE;
	for (k = 0; k < c->n; k++) {
		port = c->port[(from + k) % c->n];
		if (port == own || (!frozen && port_in_use(tx, i, port)))
			continue;
		return port;
	}
	for (tries = 0; tries < 8; tries++) {
		port = (u16)(MROCE_SPORT_MIN + (mroce_sched_random(tx) & 0x3fff));
		if (port != own && !port_in_use(tx, i, port))
			break;
	}
	return port;
}

/* At most 1/4 of the paths per round trip. */
static bool reroll_allowed(struct mroce_conn_tx *tx, u64 now)
{
	if (now - tx->reroll_since > mroce_conn_tx_srtt(tx, NULL)) {
		tx->reroll_since = now;
		tx->reroll_n = 0;
	}
	return tx->reroll_n < max_t(u32, tx->n_paths / 4, 1);
}

/* New port, new generation.  What is in flight is lost only by time. */
static void reroll(struct mroce_conn_tx *tx, u32 i, u64 now)
{
	struct mroce_tx_path *p = &tx->path[i];

	tx->reroll_n++;
	tx->stats.reroll++;
	if (old_in_flight(p)) {		/* of the generation before: lost now */
		p->gen_time = now - 2ull * mroce_conn_tx_srtt(tx, p);
		mroce_conn_tx_detect(tx, i, now);
	}
	mroce_path_new_gen(p, now);
	p->sport = mroce_health_port(tx, i, now);
	mroce_cc_set_cwnd(tx, p, min_t(u64, p->cwnd / 2, div64_u64(tx->cc.w, tx->n_paths)));
	p->pto_cnt = 0;
	p->tail_probed = 0;
	p->win_sent = 0;
	p->win_lost = 0;
	p->reo_level = 0;
	p->cached = 0;
	p->undo_cwnd = 0;
	p->undo_w = 0;
	tx->rearm = 1;
}

void mroce_health_psn_end(struct mroce_conn_tx *tx, u32 i, u64 now)
{
	reroll(tx, i, now);
	start_probing(tx, i, MROCE_PATH_NEW, now);
}

/* >= 3/4 of a plane's paths do not answer: the others follow, if another plane can take over. */
static void check_plane(struct mroce_conn_tx *tx, u32 plane, u64 now)
{
	u32 i, n = 0, bad = 0, elsewhere = 0;

	for (i = 0; i < tx->n_paths; i++) {
		const struct mroce_tx_path *p = &tx->path[i];

		if (p->plane != plane) {
			elsewhere += mroce_path_sendable(p) && !p->pto_cnt;
			continue;
		}
		n++;
		bad += p->state == MROCE_PATH_SUSPECT || p->state == MROCE_PATH_FAILED ||
		       p->state == MROCE_PATH_PROBING;
	}
	if (!elsewhere || bad == n || bad * 4 < n * 3)
		return;
	for (i = 0; i < tx->n_paths; i++) {
		struct mroce_tx_path *p = &tx->path[i];

		if (p->plane != plane || !mroce_path_sendable(p))
			continue;
		start_probing(tx, i, MROCE_PATH_SUSPECT, now);
		move_away(tx, i, true);
	}
}

void mroce_health_fail(struct mroce_conn_tx *tx, u32 i, u64 now)
{
	struct mroce_tx_path *p = &tx->path[i];

	if (p->state == MROCE_PATH_FAILED || p->state == MROCE_PATH_PROBING ||
	    p->state == MROCE_PATH_DENIED)
		return;
	cache_drop(cache_of(tx, i), p->sport);
	if (now - tx->fail_since > mroce_conn_tx_srtt(tx, NULL)) {
		tx->fail_since = now;
		tx->fail_n = 0;
	}
	if (++tx->fail_n * 2u > tx->n_paths)
		tx->frozen_until = now + 16ull * mroce_conn_tx_srtt(tx, NULL);
	set_state(tx, i, MROCE_PATH_FAILED);
	move_away(tx, i, true);
	p->state_deadline = now;
	if (p->probe_due)
		tx->probes_due--;
	p->probe_due = 0;
}

void mroce_health_admin(struct mroce_conn_tx *tx, u32 i, bool deny, u64 now)
{
	struct mroce_tx_path *p = &tx->path[i];

	if (deny == (p->state == MROCE_PATH_DENIED))
		return;
	if (!deny) {
		start_probing(tx, i, MROCE_PATH_NEW, now);
		return;
	}
	set_state(tx, i, MROCE_PATH_DENIED);
	move_away(tx, i, true);
	reroll(tx, i, now);		/* so that the rest is lost by time */
	if (p->probe_due)
		tx->probes_due--;
	p->probe_due = 0;
}

void mroce_health_progress(struct mroce_conn_tx *tx, u32 i, u64 now)
{
	struct mroce_tx_path *p = &tx->path[i];

	p->pto_cnt = 0;
	p->pto_base = now;
	tx->last_progress = now;
	if (p->state != MROCE_PATH_SUSPECT)
		return;
	mroce_cc_set_cwnd(tx, p, p->cwnd / 2);
	set_state(tx, i, MROCE_PATH_GOOD);
}

void mroce_health_burst(struct mroce_conn_tx *tx, u32 i, u64 now)
{
	struct mroce_tx_path *p = &tx->path[i];

	if (!mroce_path_sendable(p))
		return;
	if (may_leave(tx, i))
		start_probing(tx, i, MROCE_PATH_SUSPECT, now);
	else
		mroce_cc_halve(tx, p);
}

void mroce_health_probe_rsp(struct mroce_conn_tx *tx, u32 i, u64 now)
{
	struct mroce_tx_path *p = &tx->path[i];
	u32 n;

	switch (p->state) {
	case MROCE_PATH_NEW:
		p->pto_cnt = 0;
		p->pto_base = now;
		p->tail_probed = 0;
		set_state(tx, i, MROCE_PATH_GOOD);
		break;
	case MROCE_PATH_PROBING:
		n = p->probe_ok + 1u;
		mroce_cc_set_cwnd(tx, p, 2 * tx->payload);
		if (mroce_sched_best(tx, i, true) < 0) {	/* better than none */
			p->pto_cnt = 0;
			p->pto_base = now;
			set_state(tx, i, MROCE_PATH_GOOD);
		} else if (n >= MROCE_PROBE_GOOD) {
			start_probing(tx, i, MROCE_PATH_NEW, now);
		} else {
			p->probe_ok = (u8)n;
			p->backoff = 0;
			p->state_deadline = now + MS;
			tx->rearm = 1;
		}
		break;
	case MROCE_PATH_FAILED:
	case MROCE_PATH_DENIED:
		break;
	default:
		mroce_health_progress(tx, i, now);
	}
}

/* Is the path's loss more than ten times the median of the others? */
static bool path_is_gray(const struct mroce_conn_tx *tx, u32 i)
{
	const struct mroce_tx_path *p = &tx->path[i];
	u16 rate[MROCE_MAX_PATHS];
	u32 n = 0, k, j, r, median;

	if (p->win_sent < MROCE_GRAY_SENT || p->win_lost < MROCE_GRAY_LOST)
		return false;
	for (k = 0; k < tx->n_paths; k++) {
		const struct mroce_tx_path *q = &tx->path[k];

		if (k == i || q->win_sent < MROCE_GRAY_SENT / 4 || !mroce_path_sendable(q))
			continue;
		r = min_t(u32, q->win_lost, q->win_sent) * 65535u / q->win_sent;
		for (j = n++; j && rate[j - 1] > r; j--)
			rate[j] = rate[j - 1];
		rate[j] = (u16)r;
	}
	if (!n)
		return false;
	median = max_t(u32, rate[n / 2], MROCE_GRAY_FLOOR);
	return min_t(u32, p->win_lost, p->win_sent) * 65535u / p->win_sent > 10 * median;
}

static void round_congestion(struct mroce_conn_tx *tx, u32 i, u64 now)
{
	struct mroce_tx_path *p = &tx->path[i];
	bool slow = p->srtt_ns > 2ull * mroce_conn_tx_srtt(tx, NULL) + 2ull * tx->tick_ns;
	bool bad = slow || (p->round_ce && p->alpha > MROCE_ALPHA_ONE / 2);
	u32 k, good = 0;

	if (p->state == MROCE_PATH_GOOD) {
		p->cong_rounds = bad ? p->cong_rounds + 1 : 0;
		if (p->cong_rounds >= 2)
			set_state(tx, i, MROCE_PATH_CONGESTED);
		return;
	}
	if (!slow && p->alpha < MROCE_ALPHA_ONE / 10) {
		if (++p->calm_rounds >= 2) {
			p->cong_rerolls = 0;
			set_state(tx, i, MROCE_PATH_GOOD);
		}
		return;
	}
	p->calm_rounds = 0;
	if (p->cong_rounds < 0xff)
		p->cong_rounds += bad;
	for (k = 0; k < tx->n_paths; k++)
		good += tx->path[k].state == MROCE_PATH_GOOD;
	/* If most are congested the fault is where all meet: another port does not help. */
	if (p->cong_rounds < 3u << p->cong_rerolls || good * 2u < tx->n_sendable || good < 2 ||
	    !reroll_allowed(tx, now))
		return;
	if (p->cong_rerolls < 6)
		p->cong_rerolls++;
	cache_drop(cache_of(tx, i), p->sport);
	reroll(tx, i, now);
	start_probing(tx, i, MROCE_PATH_NEW, now);
}

void mroce_health_round(struct mroce_conn_tx *tx, u32 i, u64 now)
{
	struct mroce_tx_path *p = &tx->path[i];

	if (p->reo_level && now - p->reo_time > 16ull * mroce_conn_tx_srtt(tx, p))
		p->reo_level = 0;
	if (++p->reo_rounds >= 8) {
		p->reo_rounds = 0;
		p->reo_lost /= 2;
		p->reo_spur /= 2;
	}
	if (!mroce_path_sendable(p) || !p->round_rx)
		return;
	if (!p->round_ce && !p->round_lost && !p->cached) {
		cache_put(cache_of(tx, i), p->sport);
		p->cached = 1;
	}
	if (p->round_lost >= 4 && !p->round_acked) {
		mroce_health_burst(tx, i, now);
		return;
	}
	if (path_is_gray(tx, i) && may_leave(tx, i) && reroll_allowed(tx, now)) {
		cache_drop(cache_of(tx, i), p->sport);
		reroll(tx, i, now);
		start_probing(tx, i, MROCE_PATH_NEW, now);
		return;
	}
	if (p->win_sent >= 4 * MROCE_GRAY_SENT) {
		p->win_sent /= 2;
		p->win_lost /= 2;
	}
	round_congestion(tx, i, now);
}

/* Rule 7: no loss is declared; the oldest packet goes elsewhere, a probe here. */
static void path_timeout(struct mroce_conn_tx *tx, u32 i, u64 now)
{
	struct mroce_tx_path *p = &tx->path[i];
	bool alone = tx->last_progress > p->pto_base;	/* others were answered meanwhile */
	struct mroce_pkt_ref ref;
	bool taken;
	int to;

	tx->stats.pto++;
	if (p->pto_cnt < 0xff)
		p->pto_cnt++;
	p->pto_base = now;
	if (p->pto_cnt >= 2 && may_leave(tx, i)) {
		start_probing(tx, i, MROCE_PATH_SUSPECT, now);
		move_away(tx, i, true);
		check_plane(tx, p->plane, now);
		return;
	}
	mroce_conn_tx_probe_due(tx, i);
	/*
	 * Silence on all paths is a long queue at the far end more often than
	 * anything else: the same data once more would make it longer.
	 */
	if (p->pto_cnt == 1 && !alone)
		return;
	to = mroce_sched_best(tx, i, true);
	if (to < 0)
		to = mroce_sched_best(tx, i, false);
	mroce_conn_tx_out(tx, p);
	taken = mroce_path_take_oldest(p, &ref);
	mroce_conn_tx_in(tx, p);
	if (!taken)
		return;
	if (to >= 0) {
		ref.moved = 1;
		tx->stats.moved++;
	}
	mroce_conn_tx_queue(tx, to < 0 ? i : (u32)to, &ref, true);
}

static void probe_unanswered(struct mroce_conn_tx *tx, u32 i, u64 now)
{
	struct mroce_tx_path *p = &tx->path[i];

	p->state_deadline = now + path_pto(tx, p);
	if (p->probe_due)	/* not even sent */
		return;
	if (++p->probe_fail >= MROCE_PROBE_TRIES) {
		mroce_health_fail(tx, i, now);
		return;
	}
	mroce_conn_tx_probe_due(tx, i);
	if (p->state == MROCE_PATH_SUSPECT)
		move_away(tx, i, true);
}

static void state_step(struct mroce_conn_tx *tx, u32 i, u64 now)
{
	struct mroce_tx_path *p = &tx->path[i];

	switch (p->state) {
	case MROCE_PATH_NEW:
	case MROCE_PATH_SUSPECT:
		probe_unanswered(tx, i, now);
		break;
	case MROCE_PATH_FAILED:
		if (!reroll_allowed(tx, now)) {
			p->state_deadline = now + mroce_conn_tx_srtt(tx, NULL) + 1;
			break;
		}
		reroll(tx, i, now);
		set_state(tx, i, MROCE_PATH_PROBING);
		p->backoff = 0;
		p->state_deadline = now + MS;
		break;
	case MROCE_PATH_PROBING:
		mroce_conn_tx_probe_due(tx, i);
		if (p->backoff < 7)
			p->backoff++;
		p->state_deadline = now + (p->backoff < 7 ? MS << p->backoff : 1000 * MS);
		break;
	default:
		p->state_deadline = 0;
	}
}

void mroce_health_timer(struct mroce_conn_tx *tx, u32 i, u64 now)
{
	struct mroce_tx_path *p = &tx->path[i];

	if (old_in_flight(p) || (p->reo_deadline && p->reo_deadline <= now))
		mroce_conn_tx_detect(tx, i, now);
	if (tail_wanted(p) && p->last_sent + path_quiet(tx, p) <= now) {
		p->tail_probed = 1;
		tx->stats.tail_probes++;
		mroce_conn_tx_probe_due(tx, i);
	}
	if (mroce_path_sendable(p) && p->n_flight &&
	    p->pto_base + path_pto_backed_off(tx, p) <= now)
		path_timeout(tx, i, now);
	if (p->state_deadline && p->state_deadline <= now)
		state_step(tx, i, now);
}
