// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "conn_tx.h"
#include "health.h"
#include "path_sched.h"

#define POOL_SLACK	16u	/* for refs that are put back */
#define SLOTS_SIZE(n)	((size_t)(n) * MROCE_PATH_RING * sizeof(struct mroce_tx_slot))

static u32 pool_size(u32 n)
{
	return min_t(u32, n * MROCE_PATH_RING, MROCE_TX_OUTSTANDING) + POOL_SLACK;
}

static bool pool_has_room(const struct mroce_conn_tx *tx)
{
	return tx->n_data + tx->rtx_queued + POOL_SLACK < tx->pool.n;
}

static void arm_all(struct mroce_conn_tx *tx)
{
	u64 next = ~0ull;
	u32 i;

	for (i = 0; i < tx->n_paths; i++)
		next = min_t(u64, next, mroce_health_deadline(tx, &tx->path[i]));
	tx->next_timer = next;
	tx->rearm = 0;
}

/* After a change of path @i: only an earlier deadline matters, unless all is quiet. */
static void arm(struct mroce_conn_tx *tx, const struct mroce_tx_path *p)
{
	if (tx->rearm || (!tx->n_data && !tx->rtx_queued))
		arm_all(tx);
	else
		tx->next_timer = min_t(u64, tx->next_timer, mroce_health_deadline(tx, p));
}

size_t mroce_conn_tx_ring_mem(u32 n)
{
	return SLOTS_SIZE(n) + pool_size(n) * sizeof(struct mroce_rtx_node);
}

void mroce_conn_tx_init(struct mroce_conn_tx *tx, struct mroce_tx_path *paths, void *rings,
			u32 n, u32 mss, u64 seed, bool validated, u64 now)
{
	u32 i;

	memset(tx, 0, sizeof(*tx));
	tx->path = paths;
	tx->n_paths = n;
	tx->payload = mss;
	tx->rng = seed;
	tx->max_ack_delay = 25000;
	tx->tick_ns = MROCE_TICK_NS;
	tx->backlog = ~0ull;
	tx->next_timer = ~0ull;
	for (i = 0; i < n; i++) {
		paths[i].secret = mroce_sched_random(tx);
		paths[i].reo_time = now;
		mroce_rtx_queue_init(&paths[i].rtx);
	}
	mroce_cc_init(tx, now);
	mroce_health_init(tx, validated, now);
	mroce_conn_tx_attach(tx, rings, now);
}

void mroce_conn_tx_attach(struct mroce_conn_tx *tx, void *rings, u64 now)
{
	struct mroce_tx_slot *slots = rings;
	u32 i;

	if (!rings)
		return;
	for (i = 0; i < tx->n_paths; i++) {
		mroce_path_attach(&tx->path[i], slots + (size_t)i * MROCE_PATH_RING);
		tx->path[i].last_sent = now;
	}
	mroce_rtx_pool_init(&tx->pool, (void *)((u8 *)rings + SLOTS_SIZE(tx->n_paths)),
			    pool_size(tx->n_paths));
	tx->attached = 1;
	arm_all(tx);
}

bool mroce_conn_tx_detach(struct mroce_conn_tx *tx)
{
	u32 i;

	if (tx->n_data || tx->rtx_queued)
		return false;
	for (i = 0; i < tx->n_paths; i++)
		if (tx->path[i].n_flight)
			return false;
	for (i = 0; i < tx->n_paths; i++)
		mroce_path_attach(&tx->path[i], NULL);
	tx->attached = 0;
	tx->next_timer = ~0ull;
	return true;
}

int mroce_conn_tx_pick(struct mroce_conn_tx *tx, u32 bytes __always_unused)
{
	if (!tx->attached || tx->inflight >= mroce_cc_limit(tx) || !pool_has_room(tx))
		return -1;
	return mroce_sched_pick(tx);
}

void mroce_conn_tx_probe_due(struct mroce_conn_tx *tx, u32 path)
{
	if (!tx->path[path].probe_due)
		tx->probes_due++;
	tx->path[path].probe_due = 1;
}

static void fill(const struct mroce_tx_path *p, u32 path, u32 psn, u64 now,
		 struct mroce_pkt *pkt)
{
	pkt->path_id = (u8)path;
	pkt->path_gen = p->gen;
	pkt->path_psn = psn;
	pkt->tx_ts = mroce_ts(now);
}

void mroce_conn_tx_sent(struct mroce_conn_tx *tx, u32 path, const struct mroce_pkt_ref *ref,
			bool more, u64 now, struct mroce_pkt *pkt)
{
	struct mroce_tx_path *p = &tx->path[path];

	mroce_cc_sent(tx, now);
	if (!p->n_flight)
		p->pto_base = now;
	if (!ref->tries) {
		if (tx->drained == more)
			tx->rearm = 1;
		tx->drained = !more;
		if (tx->lossy)
			tx->lossy--;
	}
	mroce_conn_tx_out(tx, p);
	fill(p, path, mroce_path_push(p, ref, now), now, pkt);
	mroce_conn_tx_in(tx, p);
	pkt->flags &= 0xff ^ (MROCE_F_AR | MROCE_F_RTX | MROCE_F_MOVED | MROCE_F_TAIL);
	if (!more)
		pkt->flags |= MROCE_F_TAIL;
	/* an answer of one packet waits for the next request to carry its acknowledgement */
	p->lazy = mroce_is_lazy(pkt) && !ref->tries;
	if (((!more || (pkt->sflags & MROCE_SF_LAST)) && !p->lazy) ||
	    p->cwnd <= MROCE_CC_MIN_PKTS * tx->payload || !mroce_path_room(p)) {
		pkt->flags |= MROCE_F_AR;
		p->lazy = 0;
	}
	if (ref->tries)
		pkt->flags |= MROCE_F_RTX;
	if (ref->moved)
		pkt->flags |= MROCE_F_MOVED;
	p->last_sent = now;
	p->tail_probed = 0;
	if (p->win_sent < 0xffff)
		p->win_sent++;
	if (mroce_path_next_psn(p) >= MROCE_PATH_PSN_MAX)
		mroce_health_psn_end(tx, path, now);
	if (tx->rearm)
		arm_all(tx);
	else
		tx->next_timer = min_t(u64, tx->next_timer, mroce_health_deadline(tx, p));
}

void mroce_conn_tx_sent_probe(struct mroce_conn_tx *tx, u32 path, u64 now,
			      struct mroce_pkt *pkt, u64 *value)
{
	struct mroce_tx_path *p = &tx->path[path];
	struct mroce_pkt_ref ref;

	mroce_conn_tx_out(tx, p);
	if (p->head - p->una >= MROCE_PATH_RING && mroce_path_evict(p, &ref)) {
		tx->stats.lost++;
		mroce_conn_tx_queue(tx, path, &ref, true);
	}
	if (!p->n_flight)
		p->pto_base = now;
	fill(p, path, mroce_path_push(p, NULL, now), now, pkt);
	mroce_conn_tx_in(tx, p);
	*value = mroce_health_probe_value(p, p->gen, pkt->path_psn);
	pkt->type = MROCE_T_PROBE;
	pkt->flags |= MROCE_F_AR;
	if (p->probe_due)
		tx->probes_due--;
	p->probe_due = 0;
	p->last_sent = now;
	tx->stats.probes++;
	tx->next_timer = min_t(u64, tx->next_timer, mroce_health_deadline(tx, p));
}

/*
 * A retransmission is held back by the path's window and, since a lost packet
 * often met many others there, by what the receiver wants to see; never if
 * nothing is in flight.
 */
static bool rtx_allowed(const struct mroce_conn_tx *tx, const struct mroce_tx_path *p)
{
	u64 limit = max_t(u64, tx->cc.w_hint, (u64)MROCE_CC_MIN_PKTS * tx->payload);

	return p->rtx.n && mroce_path_sendable(p) && mroce_path_room(p) &&
	       ((p->inflight < p->cwnd && tx->inflight < limit) || !tx->n_data);
}

enum mroce_send_kind mroce_conn_tx_next(struct mroce_conn_tx *tx, u32 *path,
					struct mroce_pkt_ref *ref)
{
	u32 n, i;

	if (!tx->attached)
		return MROCE_SEND_NONE;
	for (i = 0; tx->probes_due && i < tx->n_paths; i++) {
		if (!tx->path[i].probe_due)
			continue;
		*path = i;
		return MROCE_SEND_PROBE;
	}
	for (n = 0; tx->rtx_queued && n < tx->n_paths; n++) {
		i = tx->rr + n;
		if (i >= tx->n_paths)
			i -= tx->n_paths;
		if (!rtx_allowed(tx, &tx->path[i]))
			continue;
		mroce_rtx_pop(&tx->pool, &tx->path[i].rtx, ref);
		tx->rtx_queued--;
		tx->rr = (u8)(i + 1 < tx->n_paths ? i + 1 : 0);
		*path = i;
		return MROCE_SEND_RTX;
	}
	return MROCE_SEND_NONE;
}

void mroce_conn_tx_queue(struct mroce_conn_tx *tx, u32 path, const struct mroce_pkt_ref *ref,
			 bool first)
{
	struct mroce_rtx_queue *q = &tx->path[path].rtx;
	bool ok;

	ok = first ? mroce_rtx_push_head(&tx->pool, q, ref) :
		     mroce_rtx_push_tail(&tx->pool, q, ref);
	mroce_assert(ok);
	if (ok)
		tx->rtx_queued++;
}

void mroce_conn_tx_requeue(struct mroce_conn_tx *tx, u32 path, const struct mroce_pkt_ref *ref)
{
	mroce_conn_tx_queue(tx, path, ref, true);
}

int mroce_conn_tx_resend(struct mroce_conn_tx *tx, const struct mroce_pkt_ref *ref)
{
	struct mroce_pkt_ref again = *ref;
	int best;

	if (!tx->attached || !pool_has_room(tx))
		return -ENOBUFS;
	if (!again.tries)
		again.tries = 1;
	best = mroce_sched_best(tx, tx->n_paths, true);
	if (best < 0)
		best = mroce_sched_best(tx, tx->n_paths, false);
	mroce_conn_tx_queue(tx, best < 0 ? 0 : (u32)best, &again, false);
	return 0;
}

static u64 reo_window(const struct mroce_tx_path *p, u64 srtt)
{
	if (!p->reo_level)
		return 0;
	return max_t(u64, srtt >> (4 - p->reo_level), 1000);
}

/* Where a lost packet of path @i goes: at its third loss, or if @i may not send, elsewhere. */
static u32 lost_goes_to(const struct mroce_conn_tx *tx, u32 i, struct mroce_pkt_ref *ref)
{
	int best;

	if (mroce_path_sendable(&tx->path[i]) && ref->tries % 3)
		return i;
	best = mroce_sched_best(tx, i, true);
	if (best < 0 && !mroce_path_sendable(&tx->path[i]))
		best = mroce_sched_best(tx, i, false);
	if (best < 0)
		return i;
	ref->moved = 1;
	return (u32)best;
}

void mroce_conn_tx_detect(struct mroce_conn_tx *tx, u32 path, u64 now)
{
	struct mroce_tx_path *p = &tx->path[path];
	u64 srtt = mroce_conn_tx_srtt(tx, p), reo = reo_window(p, srtt);
	u32 pos = p->una, prev = pos, run = 0, longest = 0, n = 0, to;
	struct mroce_rtx_queue own;
	struct mroce_pkt_ref ref;
	enum mroce_slot_state was;

	p->reo_deadline = 0;
	mroce_rtx_queue_init(&own);
	mroce_conn_tx_out(tx, p);
	while ((was = mroce_path_next_lost(p, now, srtt, reo, &pos, &ref)) != MROCE_SLOT_FREE) {
		if (mroce_seq_lt(p->base, pos)) {
			n++;
			run = pos == prev + 1 ? run + 1 : 1;
			prev = pos;
			longest = max_t(u32, longest, run);
		}
		if (was == MROCE_SLOT_PROBE)
			continue;
		tx->stats.lost++;
		p->lost++;
		if (was == MROCE_SLOT_MOVED)
			continue;
		if (p->reo_lost < 0xffff)
			p->reo_lost++;
		to = lost_goes_to(tx, path, &ref);
		if (to != path)
			mroce_conn_tx_queue(tx, to, &ref, false);
		else if (mroce_rtx_push_tail(&tx->pool, &own, &ref))
			tx->rtx_queued++;
		else
			mroce_assert(false);
	}
	mroce_rtx_splice(&tx->pool, &p->rtx, &own);
	mroce_path_advance(p);
	mroce_conn_tx_in(tx, p);
	if (!n)
		return;
	if (!tx->lossy)
		tx->rearm = 1;		/* tails are probed earlier now */
	tx->lossy = MROCE_TX_LOSSY;
	p->win_lost = (u16)min_t(u32, p->win_lost + n, 0xffff);
	mroce_cc_lost(tx, p, n, now);
	if (longest >= MROCE_BURST)
		mroce_health_burst(tx, path, now);
}

/* Rule 4: losses that were none. */
static void spurious(struct mroce_conn_tx *tx, struct mroce_tx_path *p, u32 n, u64 now)
{
	tx->stats.spurious += n;
	p->spurious += n;
	p->reo_spur = (u16)min_t(u32, p->reo_spur + n, 0xffff);
	mroce_cc_undo(tx, p);
	if (p->reo_spur * 100u > p->reo_lost && p->reo_level < 2 &&
	    (!p->reo_level || now - p->reo_time > mroce_conn_tx_srtt(tx, p)))
		p->reo_level++;
	p->reo_time = now;
}

static void rtt_sample(struct mroce_conn_tx *tx, struct mroce_tx_path *p,
		       u64 rtt, u64 now)
{
	if (!rtt || rtt > MROCE_RTT_MAX_NS)
		return;
	mroce_rtt_sample(&p->rtt, (u32)rtt, now);
	p->srtt_ns = p->rtt.srtt_ns;
	if (!tx->srtt_ns || p->srtt_ns < tx->srtt_ns) {
		tx->srtt_ns = p->srtt_ns;
		tx->rearm = 1;		/* paths without a sample go by it */
	}
	if (!tx->min_rtt_ns || p->rtt.min_ns < tx->min_rtt_ns)
		tx->min_rtt_ns = p->rtt.min_ns;
}

/* A round trip of the connection is over: its RTT and the order of the paths are found anew. */
static void conn_round(struct mroce_conn_tx *tx, u64 now)
{
	u32 i, srtt = 0, lowest = 0;

	for (i = 0; i < tx->n_paths; i++) {
		const struct mroce_tx_path *p = &tx->path[i];

		if (!p->srtt_ns || mroce_rtt_stale(&p->rtt, now) ||
		    (!mroce_path_sendable(p) && tx->n_sendable))
			continue;
		if (!srtt || p->srtt_ns < srtt)
			srtt = p->srtt_ns;
		if (!lowest || p->rtt.min_ns < lowest)
			lowest = p->rtt.min_ns;
	}
	if (srtt) {
		tx->srtt_ns = srtt;
		tx->min_rtt_ns = lowest;
		tx->rearm = 1;
	}
	mroce_sched_rebuild(tx);
}

int mroce_conn_tx_ack(struct mroce_conn_tx *tx, const struct mroce_ack_path *b, u64 now,
		      struct mroce_pkt_ref *acked, u32 *n_acked)
{
	u64 p_before, c_before = tx->inflight;
	struct mroce_path_acked a;
	struct mroce_tx_path *p;

	*n_acked = 0;
	if (b->path_id >= tx->n_paths || mroce_path_check(&tx->path[b->path_id], b)) {
		tx->stats.bad_ack++;
		return -EINVAL;
	}
	p = &tx->path[b->path_id];
	p_before = p->inflight;
	mroce_conn_tx_out(tx, p);
	mroce_path_sack(p, b, now, 2ull * mroce_conn_tx_srtt(tx, p) + tx->max_ack_delay,
			acked, &a);
	mroce_conn_tx_in(tx, p);
	*n_acked = a.n_refs;
	mroce_cc_hint(tx, p->plane, b->rate_hint, now);
	if (a.n_spurious)
		spurious(tx, p, a.n_spurious, now);
	if (a.of_gen) {
		if (a.newest)
			rtt_sample(tx, p, mroce_rtt_of(now, b->ts_echo, b->ack_delay), now);
		mroce_cc_ack(tx, p, b, &a, p_before, c_before, now);
		if (a.n_new)
			mroce_health_progress(tx, b->path_id, now);
	}
	mroce_conn_tx_detect(tx, b->path_id, now);
	if (a.of_gen && mroce_cc_path_round_over(tx, p, now)) {
		mroce_health_round(tx, b->path_id, now);
		mroce_cc_path_round_next(p, now);
	}
	if (mroce_cc_round(tx, now))
		conn_round(tx, now);
	arm(tx, p);
	return 0;
}

int mroce_conn_tx_probe_rsp(struct mroce_conn_tx *tx, u32 path, u16 gen, u32 psn, u64 value,
			    u64 now)
{
	struct mroce_tx_path *p;

	if (path >= tx->n_paths)
		return -EINVAL;
	p = &tx->path[path];
	if (!p->ring || gen != p->gen || psn >= mroce_path_next_psn(p) ||
	    value != mroce_health_probe_value(p, gen, psn))
		return -EINVAL;
	if (psn < p->rsp_next)
		return 0;	/* came twice */
	p->rsp_next = psn + 1;
	mroce_conn_tx_out(tx, p);
	rtt_sample(tx, p, mroce_path_settle(p, psn, now), now);
	mroce_conn_tx_in(tx, p);
	mroce_health_probe_rsp(tx, path, now);
	arm(tx, p);
	return 0;
}

void mroce_conn_tx_timer(struct mroce_conn_tx *tx, u64 now)
{
	u32 i;

	if (!tx->attached)
		return;
	for (i = 0; i < tx->n_paths; i++)
		if (mroce_health_deadline(tx, &tx->path[i]) <= now)
			mroce_health_timer(tx, i, now);
	arm_all(tx);
}

void mroce_conn_tx_path_failed(struct mroce_conn_tx *tx, u32 path, u64 now)
{
	if (path >= tx->n_paths)
		return;
	mroce_health_fail(tx, path, now);
	arm_all(tx);
}

void mroce_conn_tx_plane_failed(struct mroce_conn_tx *tx, u32 plane, u64 now)
{
	u32 i;

	for (i = 0; i < tx->n_paths; i++)
		if (tx->path[i].plane == plane)
			mroce_health_fail(tx, i, now);
	arm_all(tx);
}

void mroce_conn_tx_path_admin(struct mroce_conn_tx *tx, u32 path, bool deny, u64 now)
{
	if (path >= tx->n_paths)
		return;
	mroce_health_admin(tx, path, deny, now);
	arm_all(tx);
}

void mroce_conn_tx_forget_qp(struct mroce_conn_tx *tx, u32 qpn)
{
	u32 i;

	if (!tx->attached)
		return;
	for (i = 0; i < tx->n_paths; i++) {
		struct mroce_tx_path *p = &tx->path[i];

		mroce_conn_tx_out(tx, p);
		mroce_path_forget_qp(p, qpn);
		mroce_conn_tx_in(tx, p);
		tx->rtx_queued -= mroce_rtx_forget_qp(&tx->pool, &p->rtx, qpn);
	}
	arm_all(tx);
}
