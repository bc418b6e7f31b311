/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Completing send requests in order, and flushing. */
#ifndef MROCE_ENGINE_COMPLETER_H
#define MROCE_ENGINE_COMPLETER_H

#include "../verbs/qp.h"

struct mroce_ack_stream;
struct mroce_conn;

/* Completes from the oldest on what is done; a failed request at the head sends the QP to ERR.  sq_lock held. */
void mroce_complete(struct mroce_qp *qp);

/* All that the peer has not confirmed goes again.  sq_lock held. */
void mroce_resend_all(struct mroce_qp *qp);

/* A stream block for @qp came.  conn->tx_lock held; takes sq_lock. */
void mroce_stream_block_rx(struct mroce_conn *conn, struct mroce_qp *qp,
			   const struct mroce_ack_stream *b, u64 now);

/* ERR: everything left in both queues and rings is flushed.  rx_lock and sq_lock held. */
void mroce_flush_sq(struct mroce_qp *qp);
void mroce_flush_rq(struct mroce_qp *qp);

#endif
