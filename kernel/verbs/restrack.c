// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Driver details of `rdma resource show -dd`.  The core holds a reference to
 * the object's restrack entry: no destroy verb runs through meanwhile.
 */
#include <linux/bits.h>
#include <net/netlink.h>
#include <rdma/restrack.h>
#include <uapi/rdma/rdma_netlink.h>

#include "cq.h"
#include "device.h"
#include "mr.h"
#include "qp.h"
#include "restrack.h"

struct mroce_detail {
	const char *name;
	u32 value;	/* not u64: its padding on some machines ends the table for iproute2 */
	bool hex;
};

static int mroce_put_details(struct sk_buff *msg, const struct mroce_detail *d,
			     size_t n)
{
	struct nlattr *table;
	size_t i;
	int err;

	table = nla_nest_start_noflag(msg, RDMA_NLDEV_ATTR_DRIVER);
	if (!table)
		return -EMSGSIZE;
	for (i = 0; i < n; i++) {
		if (d[i].hex)
			err = rdma_nl_put_driver_u32_hex(msg, d[i].name,
							 d[i].value);
		else
			err = rdma_nl_put_driver_u32(msg, d[i].name,
						     d[i].value);
		if (err) {
			nla_nest_cancel(msg, table);
			return -EMSGSIZE;
		}
	}
	nla_nest_end(msg, table);
	return 0;
}

int mroce_fill_res_qp(struct sk_buff *msg, struct ib_qp *ibqp)
{
	struct mroce_qp *qp = to_mqp(ibqp);
	struct mroce_sq *sq = &qp->sq;
	struct mroce_rq *rq = &qp->rq;
	struct mroce_detail d[16];
	size_t n = 0;

	spin_lock_bh(&qp->rx_lock);
	spin_lock(&qp->sq_lock);
#define DETAIL(text, v) (d[n++] = (struct mroce_detail){ .name = (text), .value = (v) })
	DETAIL("sq-entries", sq->ring.mask + 1);
	DETAIL("sq-outstanding", sq->tail - sq->head);
	DETAIL("sq-unsent", sq->tail - sq->send);
	DETAIL("sq-msn", sq->msn);
	DETAIL("sq-msn-done", sq->msn_done);
	DETAIL("sq-reads-outstanding", sq->rd_out);
	DETAIL("sq-spsn-next", sq->req.next);
	DETAIL("sq-spsn-base", sq->req.base);
	DETAIL("rnr-tries", sq->rnr_tries);
	DETAIL("rq-entries", rq->ring.mask + 1);
	DETAIL("rq-completed", rq->completed);
	DETAIL("rq-spsn-base", rq->req.base);
	DETAIL("rq-msn", rq->req.exec_msn);
	DETAIL("rq-held", rq->n_held);
	DETAIL("reads-to-answer", sq->rreq_tail - sq->rreq_head);
#undef DETAIL
	spin_unlock(&qp->sq_lock);
	spin_unlock_bh(&qp->rx_lock);
	return mroce_put_details(msg, d, n);
}

int mroce_fill_res_cq(struct sk_buff *msg, struct ib_cq *ibcq)
{
	struct mroce_cq *cq = to_mcq(ibcq);
	struct mroce_detail d[5];
	unsigned long flags;

	spin_lock_irqsave(&cq->lock, flags);
	d[0] = (struct mroce_detail){ "cqn", cq->cqn };
	d[1] = (struct mroce_detail){ "prod", cq->prod };
	d[2] = (struct mroce_detail){ "cons", READ_ONCE(cq->ring.hdr->cons) };
	d[3] = (struct mroce_detail){ "armed", cq->armed };
	d[4] = (struct mroce_detail){ "overflowed", cq->overflowed };
	spin_unlock_irqrestore(&cq->lock, flags);
	return mroce_put_details(msg, d, ARRAY_SIZE(d));
}

int mroce_fill_res_mr(struct sk_buff *msg, struct ib_mr *ibmr)
{
	struct mroce_mr *mr = container_of(ibmr, struct mroce_mr, ibmr);
	struct mroce_detail d[] = {
		{ "pages", mr->n_pages },
		{ "valid", READ_ONCE(mr->valid) },
		{ "access", READ_ONCE(mr->access), true },
	};

	return mroce_put_details(msg, d, ARRAY_SIZE(d));
}
