/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Sending half of one path: the ring of what is in flight, gap = loss, and the
 * retransmission queue (protocol.rst 3.2 rules 1 to 4, 10).  Used by conn_tx.c
 * and its parts; the engine reads the fields for display.
 *
 * A slot of the ring is found by position, which counts on through all
 * generations: position = base + PSN.  So packets of the generation that was
 * left behind share the ring with the present one.
 */
#ifndef MROCE_CORE_PATH_TX_H
#define MROCE_CORE_PATH_TX_H

#include "codec.h"
#include "rtt.h"
#include "seq.h"

#define MROCE_PATH_RING		256	/* in flight per path, at most: the horizon of the vector */
#define MROCE_PATH_DATA_MAX	248	/* of these for data, the rest for probes */
#define MROCE_PATH_PSN_MAX	0xfff00000u	/* beyond this the generation is changed */
#define MROCE_RTX_NIL		0xffff

struct mroce_pkt_ref {		/* 12 bytes */
	u32 qpn;		/* our QP */
	u32 spsn;
	u16 bytes;		/* UDP payload length */
	u8 cls;			/* enum mroce_class */
	u8 tries : 7;		/* transmissions so far, saturating; 0 in a new ref */
	u8 moved : 1;		/* has changed its path; 0 in a new ref */
};

enum mroce_slot_state {		/* low three bits of mroce_tx_slot.ts_state */
	MROCE_SLOT_FREE = 0,	/* never used, acknowledged, or forgotten */
	MROCE_SLOT_DATA,	/* in flight */
	MROCE_SLOT_PROBE,	/* in flight, without a stream packet */
	MROCE_SLOT_MOVED,	/* in flight, but the packet was queued elsewhere: not counted */
	MROCE_SLOT_LOST,	/* declared lost; kept a while to find out if that was wrong */
};

#define MROCE_SLOT_MASK		7u

struct mroce_tx_slot {		/* 16 bytes */
	struct mroce_pkt_ref ref;
	u32 ts_state;		/* tx_ts, the low bits replaced by the state: 512 ns resolution */
};

struct mroce_rtx_node {		/* 16 bytes: an entry of a retransmission queue */
	struct mroce_pkt_ref ref;
	u16 next;
	u16 resv;
};

struct mroce_rtx_pool {		/* the entries of one connection */
	struct mroce_rtx_node *node;
	u16 free;
	u16 n, used;
};

struct mroce_rtx_queue {
	u16 head, tail, n;
};

enum mroce_path_state {
	MROCE_PATH_NEW = 0,
	MROCE_PATH_GOOD,
	MROCE_PATH_CONGESTED,
	MROCE_PATH_SUSPECT,
	MROCE_PATH_FAILED,
	MROCE_PATH_PROBING,
	MROCE_PATH_DENIED,
	MROCE_PATH_NSTATES
};

struct mroce_tx_path {
	struct mroce_tx_slot *ring;	/* NULL: detached, nothing may be sent */
	u64 secret;		/* probe values are made from it */
	u64 last_sent;
	u64 pto_base;		/* last progress, or first packet after none */
	u64 state_deadline;	/* next step of a state that is not GOOD; 0 none */
	u64 reo_deadline;	/* a gap becomes a loss then; 0 none */
	u64 gen_time;		/* when the previous generation was left */
	u64 round_start;	/* of the present round trip */
	u64 cut_until;		/* no second window cut before */
	u64 last_ce;
	u64 reo_time;		/* last spurious loss */
	struct mroce_rtt rtt;
	u32 srtt_ns;		/* of rtt, for readers */

	u32 head;		/* position of the next packet */
	u32 una;		/* oldest position in flight */
	u32 lost_lo;		/* no LOST slot below */
	u32 base;		/* position of PSN 0 of gen */
	u32 old_base;		/* of the previous generation */
	u32 acked_hi;		/* one above the highest acknowledged position of gen */

	u32 inflight;		/* bytes of DATA slots */
	u32 cwnd;		/* bytes */
	u32 alpha;		/* MROCE_ALPHA_ONE = all packets are marked */
	u32 rx_seen, ce_seen;	/* counters of the last block of gen */
	u32 undo_cwnd, undo_w;	/* what the last loss took, for spurious ones */
	u32 lost, spurious;	/* since the beginning, for display */
	u32 rsp_next;		/* answers to probes of gen below this PSN are old */
	u16 round_rx, round_ce, round_lost, round_acked;
	u16 win_sent, win_lost;	/* of the last packets, for the comparison of paths */
	u16 reo_lost, reo_spur;	/* of the last 8 round trips */
	u16 sport;
	u16 gen, old_gen;
	u16 n_data;		/* DATA slots */
	u16 n_flight;		/* DATA, PROBE, MOVED slots */
	u16 n_lost;		/* LOST slots */
	struct mroce_rtx_queue rtx;

	u8 state;		/* enum mroce_path_state */
	u8 plane;
	u8 old_valid;		/* acknowledgements for old_gen are still taken */
	u8 pto_cnt;		/* timeouts since the last acknowledgement */
	u8 probe_due;
	u8 tail_probed;		/* this quiet period has had its probe */
	u8 probe_fail, probe_ok;
	u8 backoff;
	u8 reo_level;		/* reorder window: 0, srtt / 8, srtt / 4 */
	u8 seen_ce;		/* alpha has had its first sample */
	u8 cong_rounds, calm_rounds;
	u8 cong_rerolls;	/* for congestion, in vain so far: the next one waits longer */
	u8 reo_rounds;
	u8 cached;		/* sport is in the entropy cache */
	u8 lazy;		/* the last packet may be acknowledged late (3.3) */
};

static_assert_core(sizeof(struct mroce_pkt_ref) == 12, "packet reference");
static_assert_core(sizeof(struct mroce_tx_slot) == 16, "ring slot");
static_assert_core(sizeof(struct mroce_rtx_node) == 16, "queue entry");
static_assert_core(sizeof(struct mroce_tx_path) <= 256, "TX path");

static inline struct mroce_tx_slot *mroce_path_slot(const struct mroce_tx_path *p, u32 pos)
{
	return &p->ring[pos % MROCE_PATH_RING];
}

static inline u32 mroce_slot_state(const struct mroce_tx_slot *s)
{
	return s->ts_state & MROCE_SLOT_MASK;
}

/* PSN of the next packet. */
static inline u32 mroce_path_next_psn(const struct mroce_tx_path *p)
{
	return p->head - p->base;
}

/* Is there a slot for one more DATA packet? */
static inline bool mroce_path_room(const struct mroce_tx_path *p)
{
	return p->ring && p->head - p->una < MROCE_PATH_DATA_MAX &&
	       mroce_path_next_psn(p) < MROCE_PATH_PSN_MAX;
}

/* May the path carry data at all? */
static inline bool mroce_path_sendable(const struct mroce_tx_path *p)
{
	return p->state == MROCE_PATH_GOOD || p->state == MROCE_PATH_CONGESTED;
}

/* PATH_RING zeroed slots; NULL detaches (only when nothing is in flight). */
void mroce_path_attach(struct mroce_tx_path *p, struct mroce_tx_slot *ring);

/* Takes the next PSN for @ref, or for a probe if NULL.  Precondition: head - una < PATH_RING. */
u32 mroce_path_push(struct mroce_tx_path *p, const struct mroce_pkt_ref *ref, u64 now);

struct mroce_path_acked {
	u32 n_refs;		/* refs written */
	u32 bytes;		/* of packets that were counted in flight */
	u32 n_new;		/* slots newly acknowledged, probes too */
	u32 n_data;		/* of these packets of streams */
	u32 n_spurious;		/* had been declared lost */
	bool of_gen;		/* the block is of the present generation */
	bool newest;		/* max_psn is among the newly acknowledged */
};

/*
 * Checks a block against what was sent: generation known, max_psn sent, its
 * bit set, no bit for a PSN below 0.  0 or -EINVAL.
 */
int mroce_path_check(const struct mroce_tx_path *p, const struct mroce_ack_path *b);

/*
 * Takes a checked block.  @refs has room for MROCE_SACK_BITS.  LOST slots
 * older than @keep_ns are forgotten on the way.
 */
void mroce_path_sack(struct mroce_tx_path *p, const struct mroce_ack_path *b, u64 now,
		     u64 keep_ns, struct mroce_pkt_ref *refs, struct mroce_path_acked *a);

/* Settles the slot of a probe of gen that was answered: its age in ns, 0 if it is not in flight. */
u64 mroce_path_settle(struct mroce_tx_path *p, u32 psn, u64 now);

/*
 * The next lost slot at or above *@pos; start with *@pos = una.  Lost is what
 * lies below the highest acknowledged position of its generation, at once or,
 * with @reo_ns, when it is @srtt_ns + @reo_ns old (else reo_deadline is set);
 * and all of the previous generation 9/8 srtt after it was left.  Returns
 * the state the slot had (DATA: @ref must be resent; PROBE, MOVED: nothing to
 * resend) or FREE if there is none; *@pos is then one above the slot.  Call
 * mroce_path_advance() at the end.
 */
enum mroce_slot_state mroce_path_next_lost(struct mroce_tx_path *p, u64 now, u64 srtt_ns,
					   u64 reo_ns, u32 *pos, struct mroce_pkt_ref *ref);
void mroce_path_advance(struct mroce_tx_path *p);

/* Oldest DATA slot: becomes MOVED, @ref is to be queued elsewhere.  False if there is none. */
bool mroce_path_take_oldest(struct mroce_tx_path *p, struct mroce_pkt_ref *ref);

/* The oldest slot makes room for a probe.  True if it was DATA: @ref must be resent. */
bool mroce_path_evict(struct mroce_tx_path *p, struct mroce_pkt_ref *ref);

/* New generation: PSN from 0.  Nothing of an older one than the present may be in flight. */
void mroce_path_new_gen(struct mroce_tx_path *p, u64 now);

/* Frees the slots of this QP. */
void mroce_path_forget_qp(struct mroce_tx_path *p, u32 qpn);

void mroce_rtx_pool_init(struct mroce_rtx_pool *pool, struct mroce_rtx_node *node, u32 n);
/* False if the pool is empty. */
bool mroce_rtx_push_tail(struct mroce_rtx_pool *pool, struct mroce_rtx_queue *q,
			 const struct mroce_pkt_ref *ref);
bool mroce_rtx_push_head(struct mroce_rtx_pool *pool, struct mroce_rtx_queue *q,
			 const struct mroce_pkt_ref *ref);
bool mroce_rtx_pop(struct mroce_rtx_pool *pool, struct mroce_rtx_queue *q,
		   struct mroce_pkt_ref *ref);
/* All of @from in front of @q; @from is empty then. */
void mroce_rtx_splice(struct mroce_rtx_pool *pool, struct mroce_rtx_queue *q,
		      struct mroce_rtx_queue *from);
/* Removes the entries of a QP; returns how many. */
u32 mroce_rtx_forget_qp(struct mroce_rtx_pool *pool, struct mroce_rtx_queue *q, u32 qpn);

static inline void mroce_rtx_queue_init(struct mroce_rtx_queue *q)
{
	q->head = MROCE_RTX_NIL;
	q->tail = MROCE_RTX_NIL;
	q->n = 0;
}

#endif
