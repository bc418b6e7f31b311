// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The module's own protocol core, compiled from kernel/core. */
#ifndef SIM_CORE_H
#define SIM_CORE_H

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
extern "C" {
#include "conn_rx.h"
#include "conn_tx.h"
#include "fair_share.h"
#include "health.h"
#include "path_sched.h"
#include "stream_rx.h"
#include "stream_tx.h"
}
#pragma GCC diagnostic pop

#endif
