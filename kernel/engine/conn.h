/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Connections: one per (device, local address, remote address, traffic class),
 * shared by all QPs between the two (protocol.rst 2).  A connection owns the
 * paths, windows and timers; a QP is a stream on it.
 */
#ifndef MROCE_ENGINE_CONN_H
#define MROCE_ENGINE_CONN_H

#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "../core/conn_rx.h"
#include "../core/conn_tx.h"
#include "../net/output.h"
#include "../net/sock.h"

struct mroce_dev;
struct mroce_qp;

enum mroce_conn_state {
	MROCE_CONN_IDLE = 0,	/* just made */
	MROCE_CONN_HELLO_SENT,	/* we asked, no answer yet */
	MROCE_CONN_ACCEPTED,	/* the peer asked, its address is not validated yet */
	MROCE_CONN_OPEN,
	MROCE_CONN_CLOSING,	/* CLOSE sent */
	MROCE_CONN_DEAD,
};

/* Bits of mroce_conn.events: what the work item has to do. */
enum {
	MROCE_CEV_VALIDATED,	/* a candidate has proven itself: takes the old one's place */
	MROCE_CEV_DEAD,		/* RESET, BYE: the peer has forgotten us */
	MROCE_CEV_CLOSE,	/* the peer asks to close */
	MROCE_CEV_CLOSED,	/* CLOSE_ACK: it agrees */
	MROCE_CEV_REFUSED,	/* CLOSE_ACK: it does not */
};

#define MROCE_RECENT_BLOCKS	8

struct mroce_conn {
	struct mroce_dev *dev;
	struct mroce_sock *sock;
	struct list_head entry;		/* dev->conns, conn_mutex */
	refcount_t refs;		/* list, QPs, packets and runs under way */
	u32 id, vtag;			/* how the peer names us */
	u8 tclass;
	u8 state;			/* enum mroce_conn_state; written under conn_mutex or tx_lock */
	bool listed;			/* found by key; conn_mutex */
	struct mroce_addr local, remote;
	u64 nonce;
	struct mroce_conn *replaces;	/* we are a candidate for this one's place; conn_mutex */

	/* set once, before the state becomes ACCEPTED or OPEN */
	u32 peer_id, peer_vtag;
	u64 peer_instance, peer_nonce;
	u32 payload;			/* P */
	u32 offered;			/* the P of our first HELLO: it stays, or the two ends disagree; conn_mutex */
	u32 msn_window;

	/* control; conn_mutex */
	unsigned int users;		/* QPs */
	struct delayed_work work;	/* handshake retries, closing, events */
	unsigned long events;
	unsigned int attempts;
	unsigned long idle_since;	/* jiffies */

	spinlock_t rx_lock;
	struct mroce_conn_rx rx;
	struct mroce_rx_path *rx_paths;
	struct hrtimer ack_timer;
	u64 ack_armed;			/* when ack_timer will fire; ~0: not armed */

	spinlock_t tx_lock;
	struct mroce_conn_tx tx;
	struct mroce_tx_path *tx_paths;
	void *tx_mem;
	struct mroce_route *routes;	/* one per path */
	struct mroce_conn_tx_stats seen;	/* what the counters have already */
	u64 paths_used;			/* bit per path */
	struct mroce_pkt_ref *acked;	/* scratch of mroce_ack_rx(), MROCE_SACK_BITS */
	struct list_head qps;		/* mroce_qp.conn_entry */
	struct list_head ready;		/* QPs with something to send */
	struct list_head block_list;	/* QPs that owe the peer a stream block */
	u32 recent[MROCE_RECENT_BLOCKS];	/* QPNs of the blocks last sent: repeated when a PROBE comes */
	u32 recent_pos;
	int tx_cpu;			/* the CPU that transmits */
	struct hrtimer tx_timer;
	u64 tx_armed;

	struct mroce_route ack_route;	/* acknowledgements, control; under ack_lock */
	spinlock_t ack_lock;		/* innermost */
	u64 snak_stamp;

	struct list_head run_entry;	/* per-CPU list of deferred runs */
	unsigned long run_flags;
	struct rcu_work free_work;
};

#define MROCE_RUN_QUEUED	0	/* bit of run_flags: on a deferred list, with a reference */

/* Nanoseconds of the transport's clock. */
static inline u64 mroce_now(void)
{
	return ktime_get_ns();
}

static inline u8 mroce_conn_state(const struct mroce_conn *conn)
{
	/* pairs with smp_store_release() in mroce_conn_set_state(): the peer's parameters are there */
	return smp_load_acquire(&conn->state);
}

/* conn.c: process context unless said otherwise. */
/* Found or made and opened; referenced, users + 1.  ERR_PTR. */
struct mroce_conn *mroce_conn_get(struct mroce_dev *dev,
				  const struct mroce_addr *local,
				  const struct mroce_addr *remote, u8 tclass);
/* A QP leaves: users - 1, reference dropped. */
void mroce_conn_leave(struct mroce_conn *conn);
/* New, unlisted, state IDLE, one reference.  ERR_PTR. */
struct mroce_conn *mroce_conn_new(struct mroce_dev *dev,
				  const struct mroce_addr *local,
				  const struct mroce_addr *remote, u8 tclass);
struct mroce_conn *mroce_conn_find(struct mroce_dev *dev,
				   const struct mroce_addr *local,
				   const struct mroce_addr *remote, u8 tclass);
/* Takes it out of all tables, stops its timers, fails its QPs.  conn_mutex held. */
void mroce_conn_kill(struct mroce_conn *conn);
void mroce_conn_set_state(struct mroce_conn *conn, u8 state);
/* By id; referenced, or NULL.  Any context. */
struct mroce_conn *mroce_conn_lookup(struct mroce_sock *sock, u32 id);
void mroce_conn_put(struct mroce_conn *conn);
/* Tells the work item.  Any context. */
void mroce_conn_event(struct mroce_conn *conn, int event);
/* The peer's parameters are known: makes paths; 0 or an error.  Once. */
int mroce_conn_setup(struct mroce_conn *conn, const struct mroce_hello_h *h);
/* Undoes that as long as nothing was sent or received: back to HELLO_SENT.  False: too late. */
bool mroce_conn_unsetup(struct mroce_conn *conn);

/* handshake.c */
/* Sends a HELLO (or HELLO_ACK as answer to @nonce).  Process context. */
void mroce_hello_send(struct mroce_conn *conn, u8 ctrl, u64 echo_nonce,
		      const struct mroce_hello_h *challenge);
/* Body-less or small control packet on an established connection.  BH off. */
void mroce_ctrl_send(struct mroce_conn *conn, u8 type, u8 opcode,
		     const void *body, u32 len);
/* Answers a packet of an unknown connection; rate-limited.  Softirq. */
void mroce_reset_send(struct mroce_sock *sock, const struct sk_buff *skb,
		      const struct mroce_pkt *pkt);
/* The peer does not know one of our connections: dead, if the tag is right.  Softirq. */
void mroce_reset_rx(struct mroce_sock *sock, const struct sk_buff *skb,
		    const struct mroce_pkt *pkt, struct mroce_dev *dev);

/* xmit.c; BH off unless said otherwise. */
/*
 * Sends what may be sent, at most a budget, then yields.  Must not hold any
 * lock of ours.  Without @arm the timer of what was sent is armed by
 * mroce_conn_arm_late(), which must follow soon: when the softirqs that this
 * run raised have run.  On a wire within one host all is acknowledged by then,
 * and the timer is saved.
 */
void mroce_conn_transmit(struct mroce_conn *conn, bool arm);
void mroce_conn_arm_late(struct mroce_conn *conn);

static inline void mroce_conn_run(struct mroce_conn *conn)
{
	mroce_conn_transmit(conn, true);
}

/* The same from any context, with interrupts off too (then deferred). */
void mroce_conn_kick(struct mroce_conn *conn);
/* Queues a run on this CPU's NAPI.  Any context. */
void mroce_conn_defer(struct mroce_conn *conn);
/* @qp has something to send.  tx_lock held. */
void mroce_conn_ready(struct mroce_conn *conn, struct mroce_qp *qp);
/* Re-arms the timer and updates the counters.  tx_lock held. */
void mroce_conn_tx_update(struct mroce_conn *conn);
enum hrtimer_restart mroce_tx_timer(struct hrtimer *timer);

/* ack.c; BH off */
/* @qp owes a stream block of @cls (bit in rq.block_due).  qp->rx_lock held. */
void mroce_block_due(struct mroce_conn *conn, struct mroce_qp *qp, u8 cls);
/* Sends acknowledgements that are due, and arms the timer for the delayed ones.  @probed: repeats recent stream blocks. */
void mroce_ack_run(struct mroce_conn *conn, bool probed);
/* Stream blocks that are due, without path blocks: nothing on a path asks for them. */
void mroce_blocks_send(struct mroce_conn *conn);
/* One stream block alone. */
void mroce_snak_send(struct mroce_conn *conn, const struct mroce_ack_stream *b);
/*
 * Writes what is due, at most MROCE_PIGGY_MAX bytes, as body of an
 * acknowledgement that a DATA packet with @room to spare carries.  Its length,
 * or 0.  tx_lock held.
 */
u32 mroce_ack_piggy(struct mroce_conn *conn, u8 *body, u32 room);
/* Takes an acknowledgement apart.  False: nothing came of it. */
bool mroce_ack_take(struct mroce_conn *conn, const u8 *body, u32 len, bool with_paths);
/* The same, and sends what it made possible. */
void mroce_ack_rx(struct mroce_conn *conn, const u8 *body, u32 len, bool with_paths);
enum hrtimer_restart mroce_ack_timer(struct hrtimer *timer);

#endif
