/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Receiver's share: what every peer may send to one local port, as the rate
 * hint of the path blocks says it (protocol.rst 5.3).
 *
 * Max-min fairness needs one number per port, not one per connection: the
 * level up to which everyone may send.  Who wants less does not use it all;
 * what is left over raises the level of the others.
 *
 * One mroce_share per local port (plane), one mroce_share_peer per connection
 * and port.  Per packet: mroce_share_rx(), a few additions; when it says so,
 * mroce_share_update(), which walks the active peers: the owner may leave that
 * to a work item.  share->hint may be read at any time.  Caller serialises.
 * Times are nanoseconds of a monotonic clock.
 */
#ifndef MROCE_CORE_FAIR_SHARE_H
#define MROCE_CORE_FAIR_SHARE_H

#include "platform.h"

#define MROCE_SHARE_PERCENT	95u	/* of the link is shared out */
#define MROCE_SHARE_BUSY	80u	/* per cent of that if the host does not keep up */
#define MROCE_SHARE_OVER	50u	/* per cent of over-commitment, at most */
#define MROCE_SHARE_ROUNDS	3u	/* of water-filling: within 2 % */
#define MROCE_SHARE_PERIOD_NS	50000u	/* between updates, at least; the owner may change it */

struct mroce_share_peer {	/* 32 bytes; zeroed by the owner */
	struct mroce_share_peer *next;
	u64 rate;		/* average, bit/s */
	u32 bytes;		/* since the last update */
	u32 last_rx;		/* 64 ns units */
	u16 demand;		/* queued for us, in 64 KiB, saturating, rounded up */
	u8 active;
	u8 age;			/* updates since it became active, saturating */
};

struct mroce_share {
	struct mroce_share_peer *peers;	/* the active ones */
	u64 capacity;		/* bit/s to share out */
	u64 link;		/* bit/s */
	u64 total;		/* average of what comes from the peers, bit/s */
	u64 last_update;
	u32 rtt_ns;		/* typical round trip; the owner may change it */
	u32 period_ns;		/* between updates, at least; the owner may change it */
	u32 n_active;
	u16 hint;		/* for the path blocks of this port */
	u8 dirty;		/* a peer became active since the last update */
};

static_assert_core(sizeof(struct mroce_share_peer) <= 32, "share peer");

void mroce_share_init(struct mroce_share *s, u64 link_bps, u64 now);

/* What else arrives at the port (bit/s), and whether the host falls behind. */
void mroce_share_load(struct mroce_share *s, u64 other_bps, bool busy);

/*
 * A packet of @bytes came; its header says that @demand more bytes are queued
 * for us.  True: call mroce_share_update() soon.
 */
bool mroce_share_rx(struct mroce_share *s, struct mroce_share_peer *p, u32 bytes, u64 demand,
		    u64 now);

/* Forgets the silent, measures the others, finds the level anew. */
void mroce_share_update(struct mroce_share *s, u64 now);

/* The connection goes away. */
void mroce_share_forget(struct mroce_share *s, struct mroce_share_peer *p);

#endif
