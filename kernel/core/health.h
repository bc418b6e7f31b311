/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Health of the paths: states, timeouts, re-roll of the source port, entropy
 * cache, minimum of sendable paths (protocol.rst 3.2 rules 7, 8; 4).
 */
#ifndef MROCE_CORE_HEALTH_H
#define MROCE_CORE_HEALTH_H

#include "conn_tx.h"

#define MROCE_PROBE_TRIES	3	/* unanswered: the path has failed */
#define MROCE_PROBE_GOOD	3	/* answered: it may come back */
#define MROCE_BURST		8	/* consecutive losses: SUSPECT */
#define MROCE_GRAY_SENT		64	/* packets before paths are compared */
#define MROCE_GRAY_LOST		8
#define MROCE_GRAY_FLOOR	197u	/* 0.3 % of 65536: a smaller median counts as this */

void mroce_health_init(struct mroce_conn_tx *tx, bool validated, u64 now);

/* Something on the path was newly acknowledged. */
void mroce_health_progress(struct mroce_conn_tx *tx, u32 i, u64 now);

/* MROCE_BURST packets in a row were lost. */
void mroce_health_burst(struct mroce_conn_tx *tx, u32 i, u64 now);

/* A round trip of the path is over; its counts are still there. */
void mroce_health_round(struct mroce_conn_tx *tx, u32 i, u64 now);

/* A probe was answered with the right value. */
void mroce_health_probe_rsp(struct mroce_conn_tx *tx, u32 i, u64 now);

/* PSNs run out: next generation at once. */
void mroce_health_psn_end(struct mroce_conn_tx *tx, u32 i, u64 now);

/* Local carrier loss, or refused by the network. */
void mroce_health_fail(struct mroce_conn_tx *tx, u32 i, u64 now);

/* To and from DENIED. */
void mroce_health_admin(struct mroce_conn_tx *tx, u32 i, bool deny, u64 now);

/* Tail probe, timeout, next step of a state: whatever is due on this path. */
void mroce_health_timer(struct mroce_conn_tx *tx, u32 i, u64 now);

/* When mroce_health_timer() has something to do; ~0 never. */
u64 mroce_health_deadline(const struct mroce_conn_tx *tx, const struct mroce_tx_path *p);

/* Takes a port for the plane: from the cache, else random. */
u16 mroce_health_port(struct mroce_conn_tx *tx, u32 i, u64 now);

/* The value a probe of this PSN must come back with. */
u64 mroce_health_probe_value(const struct mroce_tx_path *p, u16 gen, u32 psn);

#endif
