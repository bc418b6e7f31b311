/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Choice of the path: two random ones, the freer wins; few paths for small windows (5.2). */
#ifndef MROCE_CORE_PATH_SCHED_H
#define MROCE_CORE_PATH_SCHED_H

#include "platform.h"

struct mroce_conn_tx;

/* Next value of the connection's generator. */
u64 mroce_sched_random(struct mroce_conn_tx *tx);

/* clamp(W / 4 packets, 2, n_paths). */
u32 mroce_sched_n_active(const struct mroce_conn_tx *tx);

/* Orders the sendable paths anew, GOOD before CONGESTED: after changes of state, per round trip. */
void mroce_sched_rebuild(struct mroce_conn_tx *tx);

int mroce_sched_pick(struct mroce_conn_tx *tx);

/*
 * Best path for a packet to be resent elsewhere than on @not_path (n_paths: any):
 * sendable, without timeouts if @calm, most free window; -1 if none.
 */
int mroce_sched_best(const struct mroce_conn_tx *tx, u32 not_path, bool calm);

#endif
