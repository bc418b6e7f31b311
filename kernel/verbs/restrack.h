/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Driver details of `rdma resource show -dd`. */
#ifndef MROCE_VERBS_RESTRACK_H
#define MROCE_VERBS_RESTRACK_H

#include <rdma/ib_verbs.h>

/* ib_device_ops: 0, or -EMSGSIZE with nothing added.  Process context. */
int mroce_fill_res_qp(struct sk_buff *msg, struct ib_qp *ibqp);
int mroce_fill_res_cq(struct sk_buff *msg, struct ib_cq *ibcq);
int mroce_fill_res_mr(struct sk_buff *msg, struct ib_mr *ibmr);

#endif
