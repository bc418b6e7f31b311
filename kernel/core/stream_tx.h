/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Sending half of one stream class of a QP: which SPSNs were sent, which have
 * arrived, which must go again because the peer's stream block says so.  The
 * caller (engine) keeps the messages; this keeps numbers.  Caller serialises.
 * Rules: protocol.rst 1.2, 1.5, 6.3.
 */
#ifndef MROCE_CORE_STREAM_TX_H
#define MROCE_CORE_STREAM_TX_H

#include "codec.h"
#include "seq.h"

struct mroce_stream_tx {
	u32 start;		/* first SPSN of this incarnation */
	u32 base;		/* all below are received, said the peer (base_spsn) */
	u32 next;		/* next SPSN never sent */
	u64 arrived[MROCE_SPSN_WINDOW / 64];	/* path-acknowledged or named by a block; index spsn % 4096 */
};

/* start: the verbs sq_psn, or for the response class as protocol.rst 1.4. */
void mroce_stream_tx_init(struct mroce_stream_tx *s, u32 start);

/* Packets that may still be sent for the first time: window minus (next - base). */
u32 mroce_stream_tx_room(const struct mroce_stream_tx *s);

/* Takes the next SPSN.  Precondition: room > 0. */
u32 mroce_stream_tx_take(struct mroce_stream_tx *s);

/* Was sent, and has not arrived: does a resend make sense? */
bool mroce_stream_tx_wanted(const struct mroce_stream_tx *s, u32 spsn);

/* A path acknowledged @spsn.  True if it is news; no progress yet (3.2 rule 9), as it may be dropped behind the path. */
bool mroce_stream_tx_arrived(struct mroce_stream_tx *s, u32 spsn);

/*
 * A stream block came.  One whose base lies beyond next, or whose vector names
 * what was never sent, is refused with -EINVAL and has no effect; one whose
 * base lies below ours was overtaken by a newer block and has none either (0).
 * Else moves base forward, marks what the vector shows as arrived.  Packets that the vector shows missing below
 * its highest set bit although a path had acknowledged them (dropped behind
 * the path) are unmarked and set in @resend, whose bit i stands for SPSN
 * base_spsn + i.  Returns 1 if base moved or something was news, else 0.
 */
int mroce_stream_tx_block(struct mroce_stream_tx *s,
			  const struct mroce_ack_stream *b, u64 *resend);

/* RNR or not-ready: [first, first + n) must go again; unmarks those at or above base. */
void mroce_stream_tx_unmark(struct mroce_stream_tx *s, u32 first, u32 n);

/* Everything sent has been received, said the peer. */
static inline bool mroce_stream_tx_idle(const struct mroce_stream_tx *s)
{
	return s->base == s->next;
}

#endif
