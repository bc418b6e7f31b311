/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Sending half of a connection: paths, windows, loss detection, timers, path
 * choice, path health (protocol.rst 3, 4, 5).  The engine asks "may I send,
 * and where" and says "sent", "acknowledged", "the time is"; this says what
 * arrived, what is lost, what to send next.  Caller serialises.  Times are
 * nanoseconds of one monotonic clock; sizes are bytes of UDP payload.
 * Parts: path_tx.c (ring, gaps), rtt.c, cc.c (windows), path_sched.c (choice),
 * health.c (states, re-roll, PTO), conn_tx.c (the walk through them).
 */
#ifndef MROCE_CORE_CONN_TX_H
#define MROCE_CORE_CONN_TX_H

#include "codec.h"
#include "opcode.h"
#include "path_tx.h"
#include "cc.h"
#include "seq.h"

#define MROCE_PORT_CACHE	8
#define MROCE_TX_LOSSY		16384u	/* new packets after a loss, in which tails are probed early */
#define MROCE_TX_OUTSTANDING	2048u	/* packets in flight or queued per connection, at most */

/* struct mroce_pkt_ref, what a DATA transmission carried, is in path_tx.h */

enum mroce_send_kind {
	MROCE_SEND_NONE = 0,
	MROCE_SEND_PROBE,	/* a PROBE on this path: take a PSN with mroce_conn_tx_sent_probe() */
	MROCE_SEND_RTX,		/* resend ref on this path */
};

struct mroce_conn_tx_stats {	/* cumulative; the engine adds them to its counters */
	u64 lost, spurious, pto, tail_probes, probes, reroll, moved;
	u64 bad_ack;		/* blocks that named what was never sent */
	u64 ce_cuts, loss_cuts;
};

struct mroce_port_cache {	/* ports of a plane that returned unmarked acknowledgements (4) */
	u16 port[MROCE_PORT_CACHE];
	u8 n, next;
};

struct mroce_conn_tx {
	struct mroce_tx_path *path;	/* caller's memory, n_paths entries */
	u32 n_paths;
	u32 payload;		/* P + headers: the MSS of the window arithmetic, bytes */
	struct mroce_cc cc;	/* connection window */
	u64 inflight;		/* bytes on all paths */
	u64 next_timer;		/* ~0: none; may be early; see mroce_conn_tx_timer() */
	u64 max_ack_delay;	/* peer's, ns; the owner may change it */
	u64 backlog;		/* bytes that wait for their first transmission, if the owner tells; ~0 */
	u32 tick_ns;		/* no timer is shorter: MROCE_TICK_NS; the owner may change it */
	u64 rng;		/* state of the path choice and port generator */
	u32 srtt_ns, min_rtt_ns; /* of the connection: smallest of its paths; 0 unknown */
	u32 n_data;		/* DATA packets in flight on all paths */
	u32 rtx_queued;		/* refs waiting in the retransmission queues */
	u32 probes_due;		/* paths with a PROBE to send */
	struct mroce_conn_tx_stats stats;

	/* for conn_tx.c and its parts */
	struct mroce_rtx_pool pool;
	u64 last_progress;	/* something was newly acknowledged, on any path */
	u64 reroll_since, fail_since, frozen_until;
	u16 reroll_n, fail_n;
	u8 order[MROCE_MAX_PATHS];	/* sendable paths, the best first */
	u8 n_sendable, n_active;
	u8 rr;			/* where next() looks first */
	u8 attached;
	u8 drained;		/* the last new packet was the last there was */
	u16 lossy;		/* new packets until a loss is forgotten */
	u8 rearm;		/* deadlines of several paths changed */
	struct mroce_port_cache cache[MROCE_MAX_PLANES];
};

/* Smoothed round trip of a path, else (or for NULL) of the connection, else 1 ms. */
static inline u32 mroce_conn_tx_srtt(const struct mroce_conn_tx *tx,
				     const struct mroce_tx_path *p)
{
	if (p && p->srtt_ns)
		return p->srtt_ns;
	return tx->srtt_ns ? tx->srtt_ns : MROCE_RTT_INIT_NS;
}

/*
 * Bytes of the rings and queue entries of @n paths: one zeroed block, aligned
 * to 8, for mroce_conn_tx_attach().  4 KiB per path, and up to 33 KiB.
 */
size_t mroce_conn_tx_ring_mem(u32 n);

/*
 * @paths: zeroed, @n entries, 2..MROCE_MAX_PATHS; every path starts NEW with a
 * PROBE due unless @validated (the handshake has proven the address: GOOD).
 * The caller may have set plane in each entry.
 * @mss: header + payload bytes of a full packet; @seed: random, not 0;
 * sport of each path is drawn from it in 49152..65535.
 * @rings: mroce_conn_tx_ring_mem() bytes, or NULL: attach them before the
 * first packet (until then pick() returns -1 and next() NONE).
 */
void mroce_conn_tx_init(struct mroce_conn_tx *tx, struct mroce_tx_path *paths, void *rings,
			u32 n, u32 mss, u64 seed, bool validated, u64 now);

/*
 * An idle connection may give its rings back: detach() returns true if
 * nothing is in flight or queued, and the memory is the caller's again.
 */
void mroce_conn_tx_attach(struct mroce_conn_tx *tx, void *rings, u64 now);
bool mroce_conn_tx_detach(struct mroce_conn_tx *tx);

/*
 * Path for a new packet of @bytes, or -1 if every window is full.
 * Two random of the n_active = clamp(W / 4 packets, 2, n) sendable paths, the
 * one with more free window (5.2).
 */
int mroce_conn_tx_pick(struct mroce_conn_tx *tx, u32 bytes);

/*
 * Records a DATA transmission of @ref on @path and fills the path fields and
 * flags of @pkt: path_id, path_gen, path_psn, tx_ts, AR (3.2 rule 6), RTX,
 * MOVED, TAIL.  sflags must be set already: a packet with LAST gets AR.
 * @more: another packet follows at once on this connection (AR is then not
 * set for "last queued").  Precondition: pick() or next() chose the path.
 */
void mroce_conn_tx_sent(struct mroce_conn_tx *tx, u32 path,
			const struct mroce_pkt_ref *ref, bool more, u64 now,
			struct mroce_pkt *pkt);

/* The same for a PROBE (clears the path's due flag); type and AR are set too. */
void mroce_conn_tx_sent_probe(struct mroce_conn_tx *tx, u32 path, u64 now,
			      struct mroce_pkt *pkt, u64 *value);

/*
 * What must go out before new data: probes that are due, then
 * retransmissions whose path window allows (not held back by the connection
 * window).  RTX: @ref leaves the queue; if the engine finds it no longer
 * wanted it simply drops it.  Returns NONE if there is nothing.
 */
enum mroce_send_kind mroce_conn_tx_next(struct mroce_conn_tx *tx, u32 *path,
					struct mroce_pkt_ref *ref);

/* Puts a ref back at the head of its queue (the IP layer refused the packet). */
void mroce_conn_tx_requeue(struct mroce_conn_tx *tx, u32 path,
			   const struct mroce_pkt_ref *ref);

/*
 * Queues a stream packet that a stream block asked for again, on the best
 * path.  -ENOBUFS if MROCE_TX_OUTSTANDING packets are in flight or queued: ask
 * again after the next acknowledgement.
 */
int mroce_conn_tx_resend(struct mroce_conn_tx *tx,
			  const struct mroce_pkt_ref *ref);

/*
 * One path block.  Writes the refs of DATA packets newly acknowledged to
 * @acked (room for MROCE_SACK_BITS) and their number to @n_acked; queues lost
 * ones for resending by itself.  -EINVAL (bad_ack counted, no effect): path or
 * generation unknown, max_psn never sent, bits for PSNs never sent.  After it
 * next() may have something, and next_timer may have changed.
 */
int mroce_conn_tx_ack(struct mroce_conn_tx *tx, const struct mroce_ack_path *b,
		      u64 now, struct mroce_pkt_ref *acked, u32 *n_acked);

/* PROBE_RSP: validates NEW and PROBING paths.  -EINVAL if it answers nothing we sent. */
int mroce_conn_tx_probe_rsp(struct mroce_conn_tx *tx, u32 path, u16 gen,
			    u32 psn, u64 value, u64 now);

/*
 * next_timer has come: tail probes, PTO (oldest packet moves to another path),
 * health.  Deadlines move out with every packet, next_timer does so only
 * here: a call too early only moves it.  Afterwards next() may have something.
 */
void mroce_conn_tx_timer(struct mroce_conn_tx *tx, u64 now);

/* Local carrier loss, or ICMP unreachable for its probes: the path has FAILED, its packets move. */
void mroce_conn_tx_path_failed(struct mroce_conn_tx *tx, u32 path, u64 now);
void mroce_conn_tx_plane_failed(struct mroce_conn_tx *tx, u32 plane, u64 now);

/* The administrator takes a path out (DENIED), or lets it in again (as NEW). */
void mroce_conn_tx_path_admin(struct mroce_conn_tx *tx, u32 path, bool deny, u64 now);

/* Forgets everything in flight or queued of this QP (it is being reset or destroyed). */
void mroce_conn_tx_forget_qp(struct mroce_conn_tx *tx, u32 qpn);

/* For the parts: queue a ref (at the head if @first); losses of a path; accounts. */
void mroce_conn_tx_queue(struct mroce_conn_tx *tx, u32 path, const struct mroce_pkt_ref *ref,
			 bool first);
void mroce_conn_tx_detect(struct mroce_conn_tx *tx, u32 path, u64 now);
void mroce_conn_tx_probe_due(struct mroce_conn_tx *tx, u32 path);

static inline void mroce_conn_tx_out(struct mroce_conn_tx *tx, const struct mroce_tx_path *p)
{
	tx->inflight -= p->inflight;
	tx->n_data -= p->n_data;
}

static inline void mroce_conn_tx_in(struct mroce_conn_tx *tx, const struct mroce_tx_path *p)
{
	tx->inflight += p->inflight;
	tx->n_data += p->n_data;
}

#endif
