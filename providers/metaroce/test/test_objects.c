// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Matching, creation, failure half-way, destruction, attributes. */
#include <errno.h>
#include <string.h>

#include "fake_kernel.h"
#include "tap.h"

static struct ibv_pd *pd;
static struct ibv_cq *cq;

static struct ibv_qp_init_attr_ex qp_attr(enum ibv_qp_type type, uint64_t ops)
{
	return (struct ibv_qp_init_attr_ex){
		.send_cq = cq, .recv_cq = cq, .qp_type = type, .pd = pd,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8,
			 .max_send_sge = 4, .max_recv_sge = 4 },
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     (ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.send_ops_flags = ops,
	};
}

static void test_driver(void)
{
	const struct verbs_match_ent *m = fake.driver->match_table;

	ok(m[0].kind == VERBS_MATCH_DRIVER_ID &&
	   m[0].u.driver_id == METAROCE_DRIVER_ID &&
	   m[1].kind == VERBS_MATCH_SENTINEL && !fake.driver->match_device,
	   "matches by driver id alone");
	ok(fake.driver->match_min_abi_version == 1 &&
	   fake.driver->match_max_abi_version == 1, "ABI versions 1 to 1");
}

static void test_failed_context(void)
{
	fake.fail = EPERM;
	ok(!fake_open() && errno == EPERM, "context: error of the kernel comes through");
	ok(fake_open() != NULL, "context");
}

static void test_failed_creates(void)
{
	struct ibv_qp_init_attr_ex attr = qp_attr(IBV_QPT_RC, 0);
	struct ibv_srq_init_attr sattr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	int before = fake.destroyed;

	fake.bad_offset = true;
	ok(!fake.ops->create_cq(fake.context, 4, NULL, 0) && errno == EINVAL &&
	   fake.destroyed == before + 1, "CQ: unmappable ring: destroyed again");
	fake.bad_offset = true;
	ok(!fake.ops->create_qp_ex(fake.context, &attr) && errno == EINVAL &&
	   fake.destroyed == before + 2, "QP: unmappable ring: destroyed again");
	fake.bad_offset = true;
	ok(!fake.ops->create_srq(pd, &sattr) && errno == EINVAL &&
	   fake.destroyed == before + 3, "SRQ: unmappable ring: destroyed again");
	fake.fail = ENOMEM;
	ok(!fake.ops->create_cq(fake.context, 4, NULL, 0) && errno == ENOMEM &&
	   fake.destroyed == before + 3, "CQ: kernel's ENOMEM");
	ok(!fake.ops->create_cq(fake.context, 0, NULL, 0) && errno == EINVAL,
	   "CQ without entries: EINVAL");
	ok(!fake.ops->create_cq(fake.context, -1, NULL, 0) && errno == EINVAL,
	   "CQ with -1 entries: EINVAL");
}

static void test_qp_attributes(void)
{
	struct ibv_qp_init_attr_ex attr = qp_attr(IBV_QPT_RAW_PACKET, 0);

	ok(!fake.ops->create_qp_ex(fake.context, &attr) && errno == EOPNOTSUPP,
	   "raw packet QP: EOPNOTSUPP");
	attr = qp_attr(IBV_QPT_RC, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_TSO);
	ok(!fake.ops->create_qp_ex(fake.context, &attr) && errno == EOPNOTSUPP,
	   "TSO operations: EOPNOTSUPP");
	attr = qp_attr(IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ);
	ok(!fake.ops->create_qp_ex(fake.context, &attr) && errno == EOPNOTSUPP,
	   "READ on UC: EOPNOTSUPP");
	attr = qp_attr(IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE);
	ok(!fake.ops->create_qp_ex(fake.context, &attr) && errno == EOPNOTSUPP,
	   "WRITE on UD: EOPNOTSUPP");
	attr = qp_attr(IBV_QPT_RC, UINT64_C(1) << 60);
	ok(!fake.ops->create_qp_ex(fake.context, &attr) && errno == EOPNOTSUPP,
	   "unknown operations flag: EOPNOTSUPP");
	attr = qp_attr(IBV_QPT_RC, 0);
	attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	attr.create_flags = IBV_QP_CREATE_CVLAN_STRIPPING;
	ok(!fake.ops->create_qp_ex(fake.context, &attr) && errno == EOPNOTSUPP,
	   "create flags: EOPNOTSUPP");
}

/* libibverbs 44 and 45 look for the mark in different places. */
static void test_qp_ex_mark(void)
{
	struct ibv_qp_init_attr_ex attr;
	struct ibv_qp *qp;
	unsigned int shift;

	for (shift = 0; shift <= sizeof(void *); shift += sizeof(void *)) {
		fake.qp_ex_shift = shift;
		attr = qp_attr(IBV_QPT_RC, IBV_QP_EX_WITH_SEND);
		qp = fake.ops->create_qp_ex(fake.context, &attr);
		ok(qp && ibv_qp_to_qp_ex(qp), "ibv_qp_to_qp_ex with its word %u bytes on", shift);
		ok(qp && !fake.ops->destroy_qp(qp), "destroyed");
		attr = qp_attr(IBV_QPT_RC, 0);
		qp = fake.ops->create_qp_ex(fake.context, &attr);
		ok(qp && !ibv_qp_to_qp_ex(qp), "no ibv_wr_* where it was not asked for");
		fake.ops->destroy_qp(qp);
	}
	fake.qp_ex_shift = 0;
}

static void test_cq_attributes(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 4 };
	struct ibv_cq_ex *ex;

	attr.wc_flags = IBV_WC_EX_WITH_CVLAN;
	ok(!fake.ops->create_cq_ex(fake.context, &attr) && errno == EOPNOTSUPP,
	   "CQ with VLAN tags: EOPNOTSUPP");
	attr.wc_flags = 0;
	attr.comp_mask = 1U << 31;
	ok(!fake.ops->create_cq_ex(fake.context, &attr) && errno == EOPNOTSUPP,
	   "CQ with unknown comp_mask: EOPNOTSUPP");
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	attr.flags = 1U << 31;
	ok(!fake.ops->create_cq_ex(fake.context, &attr) && errno == EOPNOTSUPP,
	   "CQ with unknown flags: EOPNOTSUPP");
	attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	ex = fake.ops->create_cq_ex(fake.context, &attr);
	ok(ex && !to_mroce_cq_ex(ex)->lock.shared, "single-threaded CQ takes no lock");
	fake.ops->destroy_cq((struct ibv_cq *)ex);
}

static void test_removed_device(void)
{
	struct ibv_qp_init_attr_ex attr = qp_attr(IBV_QPT_RC, 0);
	struct ibv_qp *qp = fake.ops->create_qp_ex(fake.context, &attr);
	struct ibv_cq *cq2 = fake.ops->create_cq(fake.context, 4, NULL, 0);
	struct ibv_pd *pd2 = fake.ops->alloc_pd(fake.context);
	struct ibv_ah_attr aattr = { .port_num = 1 };
	struct ibv_ah *ah = fake.ops->create_ah(pd2, &aattr);

	fake.fail = EBUSY;
	ok(fake.ops->destroy_cq(cq2) == EBUSY, "destroy: EBUSY comes through");
	ok(fake.ops->poll_cq(cq2, 1, NULL) == 0, "and leaves the CQ usable");
	fake.fail = EIO;
	ok(!fake.ops->destroy_qp(qp), "QP of a removed device can be destroyed");
	fake.fail = EIO;
	ok(!fake.ops->destroy_cq(cq2), "CQ of a removed device can be destroyed");
	fake.fail = EIO;
	ok(!fake.ops->destroy_ah(ah), "AH of a removed device can be destroyed");
	fake.fail = EIO;
	ok(!fake.ops->dealloc_pd(pd2), "PD of a removed device can be freed");
}

static void test_parent_domain(void)
{
	struct ibv_td_init_attr tattr = { 0 };
	struct ibv_td *td = fake.ops->alloc_td(fake.context, &tattr);
	struct ibv_parent_domain_init_attr pattr = { .pd = pd, .td = td };
	struct ibv_pd *parent = fake.ops->alloc_parent_domain(fake.context, &pattr);
	struct ibv_qp_init_attr_ex attr = qp_attr(IBV_QPT_RC, 0);
	struct ibv_qp *qp;

	attr.pd = parent;
	qp = fake.ops->create_qp_ex(fake.context, &attr);
	ok(parent && parent->handle == pd->handle, "parent domain has the domain's handle");
	ok(qp && !to_mroce_qp(qp)->sq.lock.shared, "QP in a thread domain takes no lock");
	ok(fake.ops->dealloc_pd(pd) == EBUSY, "the domain inside is busy");
	fake.ops->destroy_qp(qp);
	ok(!fake.ops->dealloc_pd(parent), "parent domain freed");
	fake.ops->dealloc_td(td);
	pattr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	ok(!fake.ops->alloc_parent_domain(fake.context, &pattr) &&
	   errno == EOPNOTSUPP, "allocators: EOPNOTSUPP");
	pattr.pd = NULL;
	ok(!fake.ops->alloc_parent_domain(fake.context, &pattr) &&
	   errno == EINVAL, "no domain: EINVAL");
}

static void test_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 3, .max_sge = 2 } };
	struct ibv_srq *srq = fake.ops->create_srq(pd, &attr);
	struct ibv_sge sge[3] = { { .addr = 1, .length = 2, .lkey = 3 } };
	struct ibv_recv_wr wr[6], *bad = NULL;
	struct ibv_srq_attr mod = { .max_wr = 8 };
	struct metaroce_rqe *rqe;
	uint32_t num;
	int i;

	for (i = 0; i < 6; i++)
		wr[i] = (struct ibv_recv_wr){ .wr_id = (uint64_t)i, .sg_list = sge,
			.num_sge = 1, .next = i < 5 ? wr + i + 1 : NULL };
	ok(fake.ops->post_srq_recv(srq, wr, &bad) == ENOMEM && bad == wr + 4,
	   "SRQ: full behind the 4th of 6");
	ok(fake.srq.hdr->prod == 4, "SRQ: four published");
	rqe = fake_slot(&fake.srq, 3);
	ok(rqe->wr_id == 3 && rqe->num_sge == 1 &&
	   !memcmp(rqe + 1, sge, sizeof(sge[0])), "SRQ: entry as posted");
	fake.srq.hdr->cons = 4;
	wr[0].num_sge = 3;
	ok(fake.ops->post_srq_recv(srq, wr, &bad) == EINVAL && bad == wr,
	   "SRQ: too many elements: EINVAL");
	ok(fake.ops->modify_srq(srq, &mod, IBV_SRQ_MAX_WR) == EOPNOTSUPP,
	   "SRQ: no resizing");
	ok(fake.ops->get_srq_num(srq, &num) == EOPNOTSUPP, "plain SRQ has no number");
	ok(!fake.ops->destroy_srq(srq), "SRQ destroyed");
}

int main(void)
{
	test_driver();
	test_failed_context();
	pd = fake.ops->alloc_pd(fake.context);
	cq = fake.ops->create_cq(fake.context, 16, NULL, 0);
	ok(pd && cq, "PD and CQ");
	test_failed_creates();
	test_qp_attributes();
	test_qp_ex_mark();
	test_cq_attributes();
	test_removed_device();
	test_parent_domain();
	test_srq();
	ok(!fake.ops->destroy_cq(cq) && !fake.ops->dealloc_pd(pd), "all gone");
	fake_close();
	return tap_done();
}
