// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "fair_share.h"
#include "codec.h"
#include "rtt.h"

#define DEMAND_SHIFT	16
#define AGE_KNOWN	4u	/* updates before a measured rate counts */
#define KEEP_RTTS	2u	/* silent for so long: no longer active */
#define KEEP_RTTS_QUEUED 16u	/* the same while it has data for us */

static u32 share_rtt(const struct mroce_share *s)
{
	return s->rtt_ns ? s->rtt_ns : MROCE_RTT_INIT_NS;
}

static u64 share_period(const struct mroce_share *s)
{
	return max_t(u64, share_rtt(s) / 2, s->period_ns);
}

void mroce_share_init(struct mroce_share *s, u64 link_bps, u64 now)
{
	memset(s, 0, sizeof(*s));
	s->link = link_bps;
	s->last_update = now;
	s->period_ns = MROCE_SHARE_PERIOD_NS;
	s->hint = MROCE_HINT_UNLIMITED;
	mroce_share_load(s, 0, false);
}

void mroce_share_load(struct mroce_share *s, u64 other_bps, bool busy)
{
	u64 c = div64_u64(s->link * MROCE_SHARE_PERCENT, 100);

	c -= min_t(u64, other_bps, c);
	/* Something must be left, or nobody would ever send again. */
	c = max_t(u64, c, div64_u64(s->link, 20));
	if (busy)
		c = div64_u64(c * MROCE_SHARE_BUSY, 100);
	s->capacity = c;
}

bool mroce_share_rx(struct mroce_share *s, struct mroce_share_peer *p, u32 bytes, u64 demand,
		    u64 now)
{
	u64 queued = (demand + (1u << DEMAND_SHIFT) - 1) >> DEMAND_SHIFT;

	p->bytes += bytes;
	p->last_rx = mroce_ts(now);
	p->demand = (u16)min_t(u64, queued, 0xffff);
	if (!p->active) {
		p->active = 1;
		p->age = 0;
		p->rate = 0;
		if (!s->peers)		/* after a pause: nobody was held back */
			s->total = s->capacity;
		p->next = s->peers;
		s->peers = p;
		s->n_active++;
		s->dirty = 1;
	}
	/* News about who is there counts at once, but a burst of it only so often. */
	return now - s->last_update >= (s->dirty ? share_period(s) / 4 : share_period(s));
}

static bool is_silent(const struct mroce_share *s, const struct mroce_share_peer *p, u64 now)
{
	u64 silent = (u64)(mroce_ts(now) - p->last_rx) << 6;

	return silent > (u64)share_rtt(s) * (p->demand ? KEEP_RTTS_QUEUED : KEEP_RTTS);
}

/* Bits in nanoseconds to bit/s. */
static u64 rate_of(u64 bits, u64 ns)
{
	return mul_u64_u64_div_u64(bits, 1000000000ull, ns);
}

/* Moves an average over about @span ns to what was seen for @passed ns. */
static u64 average(u64 avg, u64 seen, u64 passed, u64 span)
{
	passed = min_t(u64, passed, span);
	if (seen > avg)
		return avg + mul_u64_u64_div_u64(seen - avg, passed, span);
	return avg - mul_u64_u64_div_u64(avg - seen, passed, span);
}

/* What the peer could use, bit/s: what it has queued, and twice what it sends now. */
static u64 peer_wants(const struct mroce_share *s, const struct mroce_share_peer *p)
{
	u64 wants;

	if (p->demand == 0xffff)
		wants = ~0ull;
	else
		wants = rate_of(((u64)p->demand << DEMAND_SHIFT) * 8, share_rtt(s));
	if (p->age >= AGE_KNOWN)
		wants = min_t(u64, wants, 2 * p->rate);
	/* nothing queued any more: its last packets may be under way */
	return p->demand ? max_t(u64, wants, p->rate) : p->rate;
}

static void measure(struct mroce_share *s, u64 now)
{
	struct mroce_share_peer **at = &s->peers, *p;
	u64 passed = max_t(u64, now - s->last_update, 1), rtt = share_rtt(s), rate, all = 0;

	while ((p = *at)) {
		all += p->bytes;
		if (is_silent(s, p, now)) {
			*at = p->next;
			p->active = 0;
			p->bytes = 0;
			s->n_active--;
			continue;
		}
		rate = rate_of((u64)p->bytes * 8, passed);
		/* without more in its queue only what came last counts */
		p->rate = p->age && p->demand ? average(p->rate, rate, passed, 2 * rtt) : rate;
		p->bytes = 0;
		if (p->age < 0xff)
			p->age++;
		at = &p->next;
	}
	s->total = average(s->total, rate_of(all * 8, passed), passed, 16 * rtt);
}

/*
 * Whoever is held back elsewhere does not use what it may.  As long as less
 * arrives than could, more is promised than there is; marks keep it in bounds.
 */
static u64 committed(const struct mroce_share *s)
{
	u64 idle = s->capacity - min_t(u64, s->total, s->capacity);

	return s->capacity + min_t(u64, 2 * idle, div64_u64(s->capacity * MROCE_SHARE_OVER, 100));
}

static u64 find_level(const struct mroce_share *s)
{
	u64 capacity = committed(s), level = div64_u64(capacity, s->n_active), left, w;
	const struct mroce_share_peer *p;
	u32 round, n;

	for (round = 0; round < MROCE_SHARE_ROUNDS; round++) {
		left = capacity;
		n = 0;
		for (p = s->peers; p; p = p->next) {
			w = peer_wants(s, p);
			if (w < level)
				left -= min_t(u64, w, left);
			else
				n++;
		}
		if (!n)
			return ~0ull;	/* everyone has what it wants */
		w = div64_u64(left, n);
		if (w <= level)
			break;
		level = w;
	}
	return level;
}

void mroce_share_update(struct mroce_share *s, u64 now)
{
	u64 level;

	measure(s, now);
	s->last_update = now;
	s->dirty = 0;
	/* A single sender: the host's own limit shows in loss, marks and delay. */
	level = s->n_active < 2 ? ~0ull : find_level(s);
	s->hint = level >= s->capacity ? MROCE_HINT_UNLIMITED : mroce_hint_encode(level);
}

void mroce_share_forget(struct mroce_share *s, struct mroce_share_peer *p)
{
	struct mroce_share_peer **at;

	if (!p->active)
		return;
	for (at = &s->peers; *at && *at != p; at = &(*at)->next)
		;
	if (*at) {
		*at = p->next;
		s->n_active--;
	}
	memset(p, 0, sizeof(*p));
}
