/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Building packets from send requests and accepted READs. */
#ifndef MROCE_ENGINE_REQUESTER_H
#define MROCE_ENGINE_REQUESTER_H

#include "../core/conn_tx.h"
#include "../verbs/qp.h"

struct mroce_conn;

struct mroce_tx_unit {		/* a packet on its way to a path */
	struct sk_buff *skb;	/* header space and payload */
	struct mroce_pkt pkt;	/* header fields but those of the path */
	struct mroce_pkt_ref ref;
	u32 path;		/* where it will go, for its route's header room */
	bool more;		/* the QP has more to send at once */
	bool nomem;		/* not built for want of memory: try again later */
};

/* conn->tx_lock held; take qp->sq_lock.  False: nothing to send now. */
/* What goes next on this QP: asked-for resends, responses, new requests. */
bool mroce_build_next(struct mroce_qp *qp, struct mroce_conn *conn,
		      struct mroce_tx_unit *u);
/* The packet u->ref once more; false: no longer wanted. */
bool mroce_build_again(struct mroce_qp *qp, struct mroce_conn *conn,
		       struct mroce_tx_unit *u);

/* qp->sq_lock held. */
/* Outstanding send request that holds request SPSN @spsn, or NULL. */
struct mroce_sreq *mroce_sreq_by_spsn(struct mroce_sq *sq, u32 spsn);
/* Outstanding READ or atomic with MSN @msn, or NULL. */
struct mroce_sreq *mroce_sreq_by_msn(struct mroce_sq *sq, u32 msn);
/* @sr fails; nothing after it is sent or completed well; the QP goes to ERR from a work item. */
void mroce_sreq_fail(struct mroce_qp *qp, struct mroce_sreq *sr, u8 status);
/* Opcode properties on the requester's side. */
bool mroce_wr_has_reply(u8 opcode);
bool mroce_wr_has_recv(u8 opcode);

#endif
