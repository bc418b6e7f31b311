/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Receiving half of one stream class of a QP: duplicates, completeness, order.
 * Request class: message records in a window of MSNs; says which messages are
 * complete, in order (exec_msn), and when the LAST packet of a WRITE must be
 * held (compatible placement, 6.2).  Response class: only the SPSN bitmap.
 * Caller serialises.  Two steps per packet: check (no side effect), then
 * commit once the payload is placed.  Rules: protocol.rst 1.4, 6.
 */
#ifndef MROCE_CORE_STREAM_RX_H
#define MROCE_CORE_STREAM_RX_H

#include "codec.h"
#include "opcode.h"
#include "seq.h"

struct mroce_msg_rec {		/* one message of the MSN window */
	u32 first_spsn;
	u32 got;		/* packets received */
	u32 npkts;		/* known once LAST came (or at once for WRITE/READ/atomic); 0 = unknown */
	u32 rsn;		/* if it consumes a receive */
	union {
		u32 length;	/* of the whole message, known like npkts */
		u32 top;	/* while npkts is 0: highest packet received, plus one */
	};
	u32 imm, inv_rkey;
	u8 op, hflags, sflags;	/* SF_SOLICITED of any packet */
	u8 state;		/* 0 free, 1 in progress */
	u64 va;			/* WRITE, READ, atomic: as in the first packet seen; all must agree */
	u32 rkey;
	u32 srqn;		/* HF_XRC; in every packet of the message */
	u64 op1, op2;		/* atomics */
};

struct mroce_stream_rx {
	u32 base;		/* first SPSN not received */
	u32 payload;		/* P of the connection */
	u32 exec_msn;		/* first message not executed */
	u32 msn_mask;		/* window - 1; 0: response class, no records */
	u32 exec_spsn;		/* first SPSN of message exec_msn */
	u32 exec_rsn;		/* RSN of the next receive-consuming message to execute */
	struct mroce_msg_rec *rec;	/* caller's memory, msn_mask + 1 entries */
	u64 bits[MROCE_SPSN_WINDOW / 64];	/* index spsn % 4096: received */
};

enum mroce_rx_verdict {
	MROCE_RX_OK = 0,	/* place it, then commit */
	MROCE_RX_HOLD,		/* LAST of a WRITE with earlier packets missing: keep, then commit */
	MROCE_RX_DUP,		/* seen: drop, path bit set */
	MROCE_RX_WINDOW,	/* outside the SPSN or MSN window: drop, path bit set, stream block due */
	MROCE_RX_INVALID,	/* contradicts what is known of the stream: drop, NAK_INV_REQ for its MSN */
};

/* @rec: array of @msn_window zeroed records (request class), or NULL and 0. */
void mroce_stream_rx_init(struct mroce_stream_rx *s, u32 start, u32 payload,
			  struct mroce_msg_rec *rec, u32 msn_window);

/*
 * Judges a parsed DATA packet of this class.  Request class checks: SPSN in
 * [base, base + 4096); MSN in [exec_msn, exec_msn + window); offset % P == 0;
 * payload length exactly P unless LAST; first SPSN (spsn - offset / P) equals
 * the record's; opcode, rkey, va, length, rsn agree with the record; packets
 * beyond a known LAST, a second LAST elsewhere, a LAST below a packet already
 * received; overlap with the neighbouring records that are known; for
 * message exec_msn first SPSN must be exec_spsn, and rsn must be exec_rsn if
 * it consumes a receive (of a later message n: exec_rsn .. exec_rsn + n -
 * exec_msn; what is executed is never named again).  HF_XRC and srqn are the
 * same in every packet.  IMM and INV must be in LAST; other packets carry the
 * same or none.  A relaxed target (@relaxed) is never held, nor is an empty
 * packet, which places nothing.
 * Response class checks window and duplicates only.
 */
enum mroce_rx_verdict mroce_stream_rx_check(const struct mroce_stream_rx *s,
					    const struct mroce_pkt *p,
					    bool relaxed);

/*
 * The packet (verdict OK or HOLD, no other commit in between) is taken: sets
 * its bit, updates its record, moves base.  True if base moved: held packets
 * below base are to be released, in SPSN order, before anything is executed.
 */
bool mroce_stream_rx_commit(struct mroce_stream_rx *s,
			    const struct mroce_pkt *p);

/*
 * The message exec_msn, if it is complete (every packet received); else NULL.
 * Execute it, then call mroce_stream_rx_executed(), which frees the record
 * and moves exec_msn, exec_spsn and (if it consumed a receive) exec_rsn.
 * A complete message has all earlier SPSNs received, so nothing of it is held
 * once the caller has released what lies below base.
 */
struct mroce_msg_rec *mroce_stream_rx_complete(struct mroce_stream_rx *s);

/*
 * Message exec_msn has every packet, but consumes another receive than the one
 * whose turn it is (its RSN is not exec_rsn: only its predecessors could
 * tell).  It is never complete: NAK_INV_REQ for exec_msn, no execution.
 */
bool mroce_stream_rx_broken(const struct mroce_stream_rx *s);

/* Precondition: mroce_stream_rx_complete() is not NULL; frees that record. */
void mroce_stream_rx_executed(struct mroce_stream_rx *s);

/* Record of @msn if in the window and in progress, else NULL. */
struct mroce_msg_rec *mroce_stream_rx_rec(struct mroce_stream_rx *s, u32 msn);

/* Fills base_spsn, vector and (request class) msn_done of a stream block. */
void mroce_stream_rx_block(const struct mroce_stream_rx *s,
			   struct mroce_ack_stream *b);

static_assert_core(sizeof(struct mroce_msg_rec) == 64, "message record: one cache line");

#endif
