/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Receiving half of a connection: per path two generations of PSN vectors, CE
 * counts, and the decision when an acknowledgement is due (protocol.rst 3.2
 * rule 3, 3.3).  Caller serialises.  Times are nanoseconds of a monotonic
 * clock.
 */
#ifndef MROCE_CORE_CONN_RX_H
#define MROCE_CORE_CONN_RX_H

#include "codec.h"
#include "seq.h"

struct mroce_rx_gen {		/* one generation of one path */
	u64 sack[4];		/* bit i = max_psn - i received */
	u64 max_time;		/* when max_psn came */
	u32 max_psn;
	u32 cum_psn;		/* all below received; stays at a hole, at most 2^30 behind */
	u32 rx_pkts, ce_pkts;
	u32 ts_echo;
	u16 gen;
	u8 valid;		/* 1: a packet of it was received; 2: and its PSNs passed 2^32 */
	u8 flags;		/* MROCE_PB_CE of max_psn, MROCE_PB_DUP since the last block */
};

struct mroce_rx_path {
	struct mroce_rx_gen cur, prev;
	u64 ack_deadline;	/* 0: none owed */
	u32 unacked_bytes;
	u16 unacked_pkts;
	u8 due;			/* must be in the next ACK */
	u8 news;		/* unreported: bit 0 of cur, bit 1 of prev */
	u8 lazy;		/* what is owed may wait for a DATA packet of ours */
};

struct mroce_conn_rx {
	struct mroce_rx_path *path;	/* caller's zeroed memory, n_paths entries */
	u32 n_paths;
	u32 srtt_ns;		/* of the sending half, for the delayed-ACK timer; 0 unknown */
	u64 deadline;		/* earliest ack_deadline, ~0 if none */
	u64 rx_bytes;
	u64 last_rx;		/* on any path */
	u32 n_due;		/* paths with due set */
	u32 n_lazy;		/* paths with lazy set */
	u32 pkts_per_ack;	/* 4..16 (3.3) */
	u16 hint;		/* rate hint for the blocks */
};

enum mroce_path_verdict {
	MROCE_PATH_OK = 0,	/* new PSN of the current or previous generation */
	MROCE_PATH_DUP,		/* PSN already seen, or too old to tell: stream layer decides, no bit to set */
	MROCE_PATH_FORGOTTEN,	/* generation older than previous: stream layer decides, not acknowledged */
	MROCE_PATH_REJECT,	/* implausible: drop without effect, count */
};

void mroce_conn_rx_init(struct mroce_conn_rx *rx, struct mroce_rx_path *paths,
			u32 n_paths);

/*
 * Judges (path_id, path_gen, path_psn) of a sequenced packet; no side effect.
 * A generation ahead of the newest by 1..32767 is accepted if its PSN <
 * 65536; the very first one of a path likewise with any generation.  A PSN
 * must lie within 65536 of max_psn, above or below, and never below the 0 at
 * which its generation began.
 */
enum mroce_path_verdict mroce_conn_rx_check(const struct mroce_conn_rx *rx,
					    const struct mroce_pkt *p);

/*
 * Records the packet (verdict OK or DUP; others have no effect).  @bytes: UDP
 * payload length; @ce: marked CE.  Makes the path due at once for: AR, PROBE,
 * new gap, new generation (with one block of the retired one), first packet
 * after idle (none on any path for srtt, or 1 ms if unknown), CE after non-CE,
 * duplicate; or after pkts_per_ack packets or, at pkts_per_ack <= 4 (window
 * below 64 packets), 16 KiB since the last block; else arms the delayed
 * acknowledgement min(srtt / 8, 25 us).  A lazy packet (mroce_is_lazy(), 3.3)
 * that fills no gap is owed only clamp(2 srtt, 250 us, 1 ms) later: by then a
 * request will mostly have carried the block.
 */
void mroce_conn_rx_commit(struct mroce_conn_rx *rx, const struct mroce_pkt *p,
			  u32 bytes, bool ce, u64 now);

/* Is there something that a DATA packet should carry? */
static inline bool mroce_conn_rx_piggy(const struct mroce_conn_rx *rx)
{
	return rx->n_due || rx->n_lazy;
}

/* Is an acknowledgement due now? */
static inline bool mroce_conn_rx_due(const struct mroce_conn_rx *rx, u64 now)
{
	return rx->n_due || rx->deadline <= now;
}

/*
 * Fills up to @max blocks of paths that are due, then of those that merely
 * have something unacknowledged (bundling), clears what it has reported and
 * recomputes the deadline.  Returns the number; call again while due.  A block
 * of a previous generation carries RETIRED and goes before the current one's.
 */
u32 mroce_conn_rx_blocks(struct mroce_conn_rx *rx, struct mroce_ack_path *b,
			 u32 max, u64 now);

#endif
