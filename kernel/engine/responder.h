/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Receiving half of a QP: requests of the peer, and responses to our own. */
#ifndef MROCE_ENGINE_RESPONDER_H
#define MROCE_ENGINE_RESPONDER_H

#include <linux/skbuff.h>

#include "../core/codec.h"

struct mroce_conn;
struct mroce_qp;

/* What the path layer shall do with the packet's PSN. */
enum mroce_rx_fate {
	MROCE_FATE_ACK,		/* the transport has it (or wants it no more): set the bit */
	MROCE_FATE_DROP,	/* no room: for the path it is lost */
};

/*
 * A DATA packet for @qp came; payload at skb->data + @off.  Takes qp->rx_lock.
 * May keep a reference of @skb (held LAST packet).  Softirq, RCU.
 */
enum mroce_rx_fate mroce_qp_rx(struct mroce_conn *conn, struct mroce_qp *qp,
			       const struct mroce_pkt *pkt, struct sk_buff *skb, u32 off);

/* The peer asks for the stream blocks of @qp (NULL: there is none).  Takes qp->rx_lock. */
void mroce_qp_solicited(struct mroce_conn *conn, struct mroce_qp *qp,
			const struct mroce_pkt *pkt);

/* qp->rx_lock held. */
/* Fills the stream block that @qp owes for @cls and clears the debt. */
void mroce_fill_block(struct mroce_qp *qp, u8 cls, struct mroce_ack_stream *b);
/* Message @msn cannot be executed: fatal when it is its turn. */
void mroce_nak_later(struct mroce_conn *conn, struct mroce_qp *qp, u32 msn, u8 code);
/* Frees held packets. */
void mroce_drop_held(struct mroce_qp *qp);

#endif
