// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "path_tx.h"

static void slot_set(struct mroce_tx_slot *s, u32 state)
{
	s->ts_state = (s->ts_state & ~MROCE_SLOT_MASK) | state;
}

/* Age in ns: exact to 512 ns, right up to 275 s. */
static u64 slot_age(const struct mroce_tx_slot *s, u64 now)
{
	u32 age = (mroce_ts(now) | MROCE_SLOT_MASK) - s->ts_state;

	return (u64)(age & ~MROCE_SLOT_MASK) << 6;
}

static bool slot_in_flight(u32 state)
{
	return state == MROCE_SLOT_DATA || state == MROCE_SLOT_PROBE ||
	       state == MROCE_SLOT_MOVED;
}

/* Takes a slot out of the counters and gives it a state that is not in flight. */
static void slot_leave(struct mroce_tx_path *p, struct mroce_tx_slot *s, u32 to)
{
	u32 state = mroce_slot_state(s);

	if (state == MROCE_SLOT_DATA) {
		p->inflight -= s->ref.bytes;
		p->n_data--;
	}
	if (slot_in_flight(state))
		p->n_flight--;
	if (state == MROCE_SLOT_LOST)
		p->n_lost--;
	if (to == MROCE_SLOT_LOST)
		p->n_lost++;
	slot_set(s, to);
}

void mroce_path_attach(struct mroce_tx_path *p, struct mroce_tx_slot *ring)
{
	mroce_assert(!p->n_flight);
	p->ring = ring;
	p->una = p->head;
	p->lost_lo = p->head;
	p->n_lost = 0;
}

u32 mroce_path_push(struct mroce_tx_path *p, const struct mroce_pkt_ref *ref, u64 now)
{
	struct mroce_tx_slot *s = mroce_path_slot(p, p->head);
	u32 psn = mroce_path_next_psn(p);
	u32 ts = mroce_ts(now) & ~MROCE_SLOT_MASK;

	mroce_assert(p->head - p->una < MROCE_PATH_RING);
	slot_leave(p, s, MROCE_SLOT_FREE);
	if (ref) {
		s->ref = *ref;
		if (s->ref.tries < 126)
			s->ref.tries++;
		s->ts_state = ts | MROCE_SLOT_DATA;
		p->inflight += ref->bytes;
		p->n_data++;
	} else {
		memset(&s->ref, 0, sizeof(s->ref));
		s->ts_state = ts | MROCE_SLOT_PROBE;
	}
	p->n_flight++;
	p->head++;
	return psn;
}

/* Packets sent in the generation of @b, and the position of its PSN 0. */
static bool path_gen_of(const struct mroce_tx_path *p, u16 gen, u32 *base, u32 *sent)
{
	if (gen == p->gen) {
		*base = p->base;
		*sent = p->head - p->base;
		return true;
	}
	if (p->old_valid && gen == p->old_gen) {
		*base = p->old_base;
		*sent = p->base - p->old_base;
		return true;
	}
	return false;
}

static bool sack_bit(const struct mroce_ack_path *b, u32 i)
{
	return b->sack[i / 64] >> (i % 64) & 1;
}

int mroce_path_check(const struct mroce_tx_path *p, const struct mroce_ack_path *b)
{
	u32 base, sent, i;

	if (!p->ring || !path_gen_of(p, b->gen, &base, &sent))
		return -EINVAL;
	if (b->max_psn >= sent || !sack_bit(b, 0))
		return -EINVAL;
	if (b->cum_psn > b->max_psn + 1)
		return -EINVAL;
	for (i = b->max_psn + 1; i < MROCE_SACK_BITS; i++)
		if (sack_bit(b, i))
			return -EINVAL;
	return 0;
}

/* Oldest position that a block may say something about. */
static u32 path_walk_lo(const struct mroce_tx_path *p, u32 base, u32 max_pos)
{
	u32 lo = p->n_lost && mroce_seq_lt(p->lost_lo, p->una) ? p->lost_lo : p->una;

	if (p->head - lo > MROCE_PATH_RING)
		lo = p->head - MROCE_PATH_RING;
	if (mroce_seq_lt(lo, base))
		lo = base;
	if (max_pos - lo >= MROCE_SACK_BITS && mroce_seq_lt(lo, max_pos))
		lo = max_pos - (MROCE_SACK_BITS - 1);
	return lo;
}

static void sack_one(struct mroce_tx_path *p, struct mroce_tx_slot *s,
		     struct mroce_pkt_ref *refs, struct mroce_path_acked *a)
{
	u32 state = mroce_slot_state(s);

	a->n_new++;
	switch (state) {
	case MROCE_SLOT_DATA:
		a->bytes += s->ref.bytes;
		break;
	case MROCE_SLOT_LOST:
		a->n_spurious++;
		break;
	default:
		break;
	}
	if (state != MROCE_SLOT_PROBE) {
		a->n_data++;
		refs[a->n_refs++] = s->ref;
	}
	slot_leave(p, s, MROCE_SLOT_FREE);
}

void mroce_path_sack(struct mroce_tx_path *p, const struct mroce_ack_path *b, u64 now,
		     u64 keep_ns, struct mroce_pkt_ref *refs, struct mroce_path_acked *a)
{
	u32 base, sent, max_pos, pos, lost_lo;
	struct mroce_tx_slot *s;
	u32 state;

	memset(a, 0, sizeof(*a));
	if (!path_gen_of(p, b->gen, &base, &sent))
		return;
	a->of_gen = b->gen == p->gen;
	max_pos = base + b->max_psn;
	lost_lo = p->head;
	for (pos = path_walk_lo(p, base, max_pos); mroce_seq_le(pos, max_pos); pos++) {
		s = mroce_path_slot(p, pos);
		state = mroce_slot_state(s);
		if (state == MROCE_SLOT_FREE)
			continue;
		if (sack_bit(b, max_pos - pos)) {
			sack_one(p, s, refs, a);
			if (pos == max_pos)
				a->newest = true;
		} else if (state == MROCE_SLOT_LOST) {
			if (slot_age(s, now) > keep_ns)
				slot_leave(p, s, MROCE_SLOT_FREE);
			else if (mroce_seq_lt(pos, lost_lo))
				lost_lo = pos;
		}
	}
	/* Of LOST slots above max_psn or of the other generation nothing was learnt. */
	if (a->of_gen && mroce_seq_le(p->acked_hi, max_pos + 1)) {
		p->lost_lo = lost_lo;
		p->acked_hi = max_pos + 1;
	}
	mroce_path_advance(p);
}

u64 mroce_path_settle(struct mroce_tx_path *p, u32 psn, u64 now)
{
	u32 pos = p->base + psn;
	struct mroce_tx_slot *s;

	if (!p->ring || psn >= mroce_path_next_psn(p) || p->head - pos > MROCE_PATH_RING)
		return 0;
	s = mroce_path_slot(p, pos);
	if (mroce_slot_state(s) != MROCE_SLOT_PROBE)
		return 0;
	slot_leave(p, s, MROCE_SLOT_FREE);
	mroce_path_advance(p);
	return max_t(u64, slot_age(s, now), 1);
}

/* Is the slot at @pos lost?  If it will be, reo_deadline says when. */
static bool path_is_lost(struct mroce_tx_path *p, u32 pos, u64 now, u64 srtt_ns, u64 reo_ns)
{
	u64 age, limit;

	if (mroce_seq_lt(pos, p->base))
		return now >= p->gen_time + srtt_ns + srtt_ns / 8;
	if (!mroce_seq_lt(pos, p->acked_hi))
		return false;
	if (!reo_ns)
		return true;
	age = slot_age(mroce_path_slot(p, pos), now);
	limit = srtt_ns + reo_ns;
	if (age >= limit)
		return true;
	limit += now - age + ((MROCE_SLOT_MASK + 1) << 6);	/* ages are rounded down */
	if (!p->reo_deadline || limit < p->reo_deadline)
		p->reo_deadline = limit;
	return false;
}

enum mroce_slot_state mroce_path_next_lost(struct mroce_tx_path *p, u64 now, u64 srtt_ns,
					   u64 reo_ns, u32 *pos, struct mroce_pkt_ref *ref)
{
	u32 end = mroce_seq_lt(p->base, p->acked_hi) ? p->acked_hi : p->base;
	struct mroce_tx_slot *s;
	u32 state;

	while (mroce_seq_lt(*pos, end)) {
		s = mroce_path_slot(p, *pos);
		state = mroce_slot_state(s);
		if (!slot_in_flight(state) || !path_is_lost(p, *pos, now, srtt_ns, reo_ns)) {
			++*pos;
			continue;
		}
		*ref = s->ref;
		if (state == MROCE_SLOT_DATA) {
			if (!p->n_lost || mroce_seq_lt(*pos, p->lost_lo))
				p->lost_lo = *pos;
			slot_leave(p, s, MROCE_SLOT_LOST);
		} else {
			slot_leave(p, s, MROCE_SLOT_FREE);
		}
		++*pos;
		return (enum mroce_slot_state)state;
	}
	return MROCE_SLOT_FREE;
}

void mroce_path_advance(struct mroce_tx_path *p)
{
	while (p->una != p->head && !slot_in_flight(mroce_slot_state(mroce_path_slot(p, p->una))))
		p->una++;
}

bool mroce_path_take_oldest(struct mroce_tx_path *p, struct mroce_pkt_ref *ref)
{
	struct mroce_tx_slot *s;
	u32 pos;

	if (!p->n_data)
		return false;
	for (pos = p->una; pos != p->head; pos++) {
		s = mroce_path_slot(p, pos);
		if (mroce_slot_state(s) != MROCE_SLOT_DATA)
			continue;
		*ref = s->ref;
		p->inflight -= s->ref.bytes;
		p->n_data--;
		slot_set(s, MROCE_SLOT_MOVED);
		return true;
	}
	return false;
}

bool mroce_path_evict(struct mroce_tx_path *p, struct mroce_pkt_ref *ref)
{
	struct mroce_tx_slot *s = mroce_path_slot(p, p->una);
	bool data = mroce_slot_state(s) == MROCE_SLOT_DATA;

	*ref = s->ref;
	slot_leave(p, s, MROCE_SLOT_FREE);
	mroce_path_advance(p);
	return data;
}

void mroce_path_new_gen(struct mroce_tx_path *p, u64 now)
{
	p->old_base = p->base;
	p->old_gen = p->gen;
	p->old_valid = p->head != p->base;
	p->gen++;
	p->base = p->head;
	p->acked_hi = p->head;
	p->gen_time = now;
	p->reo_deadline = 0;
	p->rsp_next = 0;
	p->rx_seen = 0;
	p->ce_seen = 0;
}

void mroce_path_forget_qp(struct mroce_tx_path *p, u32 qpn)
{
	struct mroce_tx_slot *s;
	u32 i, state;

	if (!p->ring)
		return;
	for (i = 0; i < MROCE_PATH_RING; i++) {
		s = &p->ring[i];
		state = mroce_slot_state(s);
		if (state == MROCE_SLOT_FREE || state == MROCE_SLOT_PROBE || s->ref.qpn != qpn)
			continue;
		slot_leave(p, s, MROCE_SLOT_FREE);
	}
	mroce_path_advance(p);
}

void mroce_rtx_pool_init(struct mroce_rtx_pool *pool, struct mroce_rtx_node *node, u32 n)
{
	u32 i;

	pool->node = node;
	pool->n = (u16)n;
	pool->used = 0;
	pool->free = n ? 0 : MROCE_RTX_NIL;
	for (i = 0; i < n; i++)
		node[i].next = i + 1 < n ? (u16)(i + 1) : MROCE_RTX_NIL;
}

static u16 rtx_get(struct mroce_rtx_pool *pool, const struct mroce_pkt_ref *ref)
{
	u16 i = pool->free;

	if (i == MROCE_RTX_NIL)
		return i;
	pool->free = pool->node[i].next;
	pool->node[i].ref = *ref;
	pool->node[i].next = MROCE_RTX_NIL;
	pool->used++;
	return i;
}

static void rtx_put(struct mroce_rtx_pool *pool, u16 i)
{
	pool->node[i].next = pool->free;
	pool->free = i;
	pool->used--;
}

bool mroce_rtx_push_tail(struct mroce_rtx_pool *pool, struct mroce_rtx_queue *q,
			 const struct mroce_pkt_ref *ref)
{
	u16 i = rtx_get(pool, ref);

	if (i == MROCE_RTX_NIL)
		return false;
	if (q->n)
		pool->node[q->tail].next = i;
	else
		q->head = i;
	q->tail = i;
	q->n++;
	return true;
}

bool mroce_rtx_push_head(struct mroce_rtx_pool *pool, struct mroce_rtx_queue *q,
			 const struct mroce_pkt_ref *ref)
{
	u16 i = rtx_get(pool, ref);

	if (i == MROCE_RTX_NIL)
		return false;
	if (q->n)
		pool->node[i].next = q->head;
	else
		q->tail = i;
	q->head = i;
	q->n++;
	return true;
}

bool mroce_rtx_pop(struct mroce_rtx_pool *pool, struct mroce_rtx_queue *q,
		   struct mroce_pkt_ref *ref)
{
	u16 i = q->head;

	if (!q->n)
		return false;
	*ref = pool->node[i].ref;
	q->head = pool->node[i].next;
	if (!--q->n)
		q->tail = MROCE_RTX_NIL;
	rtx_put(pool, i);
	return true;
}

void mroce_rtx_splice(struct mroce_rtx_pool *pool, struct mroce_rtx_queue *q,
		      struct mroce_rtx_queue *from)
{
	if (!from->n)
		return;
	pool->node[from->tail].next = q->n ? q->head : MROCE_RTX_NIL;
	if (!q->n)
		q->tail = from->tail;
	q->head = from->head;
	q->n += from->n;
	mroce_rtx_queue_init(from);
}

u32 mroce_rtx_forget_qp(struct mroce_rtx_pool *pool, struct mroce_rtx_queue *q, u32 qpn)
{
	u16 i = q->head, next, prev = MROCE_RTX_NIL;
	u32 n = 0;

	for (; i != MROCE_RTX_NIL; i = next) {
		next = pool->node[i].next;
		if (pool->node[i].ref.qpn != qpn) {
			prev = i;
			continue;
		}
		if (prev == MROCE_RTX_NIL)
			q->head = next;
		else
			pool->node[prev].next = next;
		if (q->tail == i)
			q->tail = prev;
		rtx_put(pool, i);
		q->n--;
		n++;
	}
	return n;
}
