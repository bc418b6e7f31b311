/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* QP life cycle inside the engine (what verbs/ calls is in engine.h). */
#ifndef MROCE_ENGINE_QP_H
#define MROCE_ENGINE_QP_H

struct mroce_conn;
struct mroce_qp;

/* The connection of @qp is dead: what is outstanding fails with RETRY_EXC, the QP goes to ERR.  Process. */
void mroce_qp_conn_lost(struct mroce_qp *qp);
/* Runs the connection of @qp, with @qp on its ready list.  BH off or softirq; no lock of ours held. */
void mroce_qp_run(struct mroce_qp *qp);
/* Work of a doorbell that came with interrupts off.  BH off. */
void mroce_qp_doorbell_bh(struct mroce_qp *qp);
/* Rings @qp's doorbell from this CPU's NAPI.  Any context. */
void mroce_qp_defer(struct mroce_qp *qp);

/* conn.c */
/* The P of our HELLOs: what the route to the peer allowed when it was first asked for; 0: no route yet.  conn_mutex held. */
u32 mroce_conn_offer(struct mroce_conn *conn);
/* The handshake is through.  conn_mutex held. */
void mroce_conn_opened(struct mroce_conn *conn);
/* Starts the repeats of the present state. */
void mroce_conn_requeue(struct mroce_conn *conn);

#endif
