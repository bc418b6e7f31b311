/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Windows: AIMD per path and per connection driven by CE marks, gentle with
 * loss, bounded by the receiver's rate hint (protocol.rst 5.2).
 */
#ifndef MROCE_CORE_CC_H
#define MROCE_CORE_CC_H

#include "codec.h"

struct mroce_conn_tx;
struct mroce_tx_path;
struct mroce_path_acked;

#define MROCE_ALPHA_ONE		65536u
#define MROCE_CC_MIN_PKTS	2u	/* floor of every window */
#define MROCE_CC_W0_PKTS	64u	/* first window */
#define MROCE_CC_W_MAX		(4u << 20) /* bytes in flight per connection, unless w_max says otherwise */
#define MROCE_CC_FAST		8u	/* growth while no CE came for 4 round trips */
#define MROCE_CC_START_ROUNDS	4u	/* the others of an incast may begin a little later */
#define MROCE_CC_LOSS_DIV	20u	/* loss without CE takes 1/20 */
#define MROCE_CC_HINT_NONE	(~0ull)	/* value of w_hint: no limit */

struct mroce_cc {
	u64 w;			/* window, bytes */
	u64 w_hint;		/* limit from the receiver's hints, bytes; ~0 none */
	u64 w_max;		/* the owner may change it */
	u64 w0;			/* first window, and after idle */
	u64 sum_w;		/* of the windows of the sendable paths */
	u64 round_start;
	u64 cut_until;
	u64 last_ce;
	u64 last_sent;
	u64 hint_time[MROCE_MAX_PLANES];
	u16 hint[MROCE_MAX_PLANES];
	u32 alpha;
	u32 round_rx, round_ce, round_lost;
	u8 seen_ce;
	u8 starting;		/* round trips left of a start or a restart after idle */
	u8 start_bad;		/* it has met loss or a hint below w0 */
};

void mroce_cc_init(struct mroce_conn_tx *tx, u64 now);

/* Bytes that may be in flight in all. */
u64 mroce_cc_limit(const struct mroce_conn_tx *tx);

/* Sets a path window within floor and ceiling, keeps sum_w. */
void mroce_cc_set_cwnd(struct mroce_conn_tx *tx, struct mroce_tx_path *p, u64 bytes);

/* Adds up sum_w again (a path became sendable or ceased to be). */
void mroce_cc_resum(struct mroce_conn_tx *tx);

/*
 * Takes the CE counters of a block of the present generation.  Cuts windows
 * at most once per round trip.  @acked as from mroce_path_sack(); @p_before
 * and @c_before: bytes in flight on the path and in all before it (windows
 * grow only where they are used).
 */
void mroce_cc_ack(struct mroce_conn_tx *tx, struct mroce_tx_path *p,
		  const struct mroce_ack_path *b, const struct mroce_path_acked *a,
		  u64 p_before, u64 c_before, u64 now);

/* @n packets of @p were found lost. */
void mroce_cc_lost(struct mroce_conn_tx *tx, struct mroce_tx_path *p, u32 n, u64 now);

/* A loss was none: gives back what it took. */
void mroce_cc_undo(struct mroce_conn_tx *tx, struct mroce_tx_path *p);

/* Half the window of a path, and its share of the connection's. */
void mroce_cc_halve(struct mroce_conn_tx *tx, struct mroce_tx_path *p);

/* Is the path's round trip over?  Then alpha is new; the counts stay until round_next(). */
bool mroce_cc_path_round_over(struct mroce_conn_tx *tx, struct mroce_tx_path *p, u64 now);
void mroce_cc_path_round_next(struct mroce_tx_path *p, u64 now);

/* The same for the connection. */
bool mroce_cc_round(struct mroce_conn_tx *tx, u64 now);

/* Rate hint of a plane. */
void mroce_cc_hint(struct mroce_conn_tx *tx, u32 plane, u16 hint, u64 now);

/* A packet is sent: restart after idle. */
void mroce_cc_sent(struct mroce_conn_tx *tx, u64 now);

#endif
