// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Posting: what stands in the ring, what is refused and how, when the bell rings. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fake_kernel.h"
#include "tap.h"

#define ALL_OPS (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | \
	IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |			\
	IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |		\
	IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV |	\
	IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV |			\
	IBV_QP_EX_WITH_ATOMIC_WRITE)
#define ENTRIES	8
#define SGES	4

static struct ibv_pd *pd;
static struct ibv_cq *cq;

static struct ibv_qp *make_qp(enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = type, .pd = pd,
		.cap = { .max_send_wr = ENTRIES, .max_recv_wr = ENTRIES,
			 .max_send_sge = SGES, .max_recv_sge = SGES },
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     (ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.send_ops_flags = ops,
	};
	struct ibv_qp *qp = fake.ops->create_qp_ex(fake.context, &attr);

	if (!qp)
		abort();
	qp->state = IBV_QPS_RTS;
	return qp;
}

/* The kernel takes and completes everything. */
static void drain(void)
{
	fake.sq.own = fake.sq.hdr->prod;
	mroce_store_release(&fake.sq.hdr->cons, fake.sq.own);
}

static struct metaroce_sqe *last_sqe(void)
{
	return fake_slot(&fake.sq, fake.sq.hdr->prod - 1);
}

static int post1(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	uint32_t before = fake.sq.hdr->prod;
	int ret = fake.ops->post_send(qp, wr, &bad);

	if (ret && (bad != wr || fake.sq.hdr->prod != before))
		return -1;	/* refused, but not properly */
	return ret;
}

static void test_full(void)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC, 0);
	struct ibv_send_wr wr[ENTRIES + 3], *bad = NULL;
	int i, bells;

	for (i = 0; i < ENTRIES + 3; i++)
		wr[i] = (struct ibv_send_wr){ .wr_id = 100 + (uint64_t)i,
			.opcode = IBV_WR_SEND, .next = wr + i + 1 };
	wr[ENTRIES + 2].next = NULL;

	bells = fake.doorbells;
	ok(fake.ops->post_send(qp, wr, &bad) == ENOMEM && bad == wr + ENTRIES,
	   "full queue: ENOMEM at the first that does not fit");
	ok(fake.sq.hdr->prod - fake.start == ENTRIES && fake.doorbells == bells + 1,
	   "the ones before it are posted, with one doorbell");
	ok(fake.ops->post_send(qp, wr, &bad) == ENOMEM && bad == wr &&
	   fake.doorbells == bells + 1, "still full: nothing posted, no doorbell");
	mroce_store_release(&fake.sq.hdr->cons, fake.start + 1);
	wr[0].next = NULL;
	ok(!fake.ops->post_send(qp, wr, &bad), "one slot freed, one more posted");
	drain();
	fake.sq.hdr->watching = 1;
	bells = fake.doorbells;
	ok(!fake.ops->post_send(qp, wr, &bad) && fake.doorbells == bells,
	   "no doorbell while the kernel watches");
	fake.sq.hdr->watching = 0;
	wr[0].next = wr + 1;
	wr[1].num_sge = SGES + 1;
	bad = NULL;
	ok(fake.ops->post_send(qp, wr, &bad) == EINVAL && bad == wr + 1 &&
	   last_sqe()->wr_id == 100, "bad second request: the first is posted");
	fake.ops->destroy_qp(qp);
}

static void test_doorbell_errors(void)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC, 0);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad = NULL;
	int bells = fake.doorbells;

	fake.fail_doorbells = 2;
	fake.doorbell_errno = ENOMEM;
	ok(!fake.ops->post_send(qp, &wr, &bad) && fake.doorbells == bells + 3,
	   "a doorbell without memory is repeated");
	fake.fail_doorbells = 1;
	fake.doorbell_errno = EIO;
	ok(fake.ops->post_send(qp, &wr, &bad) == EIO && bad == &wr,
	   "device gone: EIO");
	fake.ops->destroy_qp(qp);
}

static void test_refused(void)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC, 0);
	struct ibv_sge sge[SGES] = { { .length = 1 } };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = sge };
	static const enum ibv_qp_state no[] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR };
	static const enum ibv_qp_state yes[] = { IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_SQE, IBV_QPS_ERR };
	unsigned int i;
	int op;

	wr.num_sge = SGES + 1;
	ok(post1(qp, &wr) == EINVAL, "too many elements: EINVAL");
	wr.num_sge = -1;
	ok(post1(qp, &wr) == EINVAL, "-1 elements: EINVAL");
	wr.num_sge = 1;
	sge[0].length = 0x80000001;
	ok(post1(qp, &wr) == EINVAL, "2 GiB + 1: EINVAL");
	sge[0].length = 0x80000000;
	ok(post1(qp, &wr) == 0, "2 GiB");
	wr.num_sge = 2;
	sge[0].length = sge[1].length = 0x80000000;
	ok(post1(qp, &wr) == EINVAL, "two of 2 GiB, 0 in 32 bits: EINVAL");
	wr.send_flags = IBV_SEND_INLINE;
	ok(post1(qp, &wr) == EINVAL, "the same inline: EINVAL, nothing copied");
	sge[0].length = 0xffffffff;
	sge[1].length = 2;
	ok(post1(qp, &wr) == EINVAL, "inline, 1 in 32 bits: EINVAL");
	wr.num_sge = 0;
	wr.send_flags = IBV_SEND_IP_CSUM;
	ok(post1(qp, &wr) == EINVAL, "checksum offload: EINVAL");
	wr.send_flags = 1U << 31;
	ok(post1(qp, &wr) == EINVAL, "unknown flag: EINVAL");
	wr.send_flags = IBV_SEND_INLINE;
	wr.opcode = IBV_WR_RDMA_READ;
	ok(post1(qp, &wr) == EINVAL, "inline READ: EINVAL");
	wr.send_flags = 0;
	for (op = -1; op < 300; op++) {
		if (op >= IBV_WR_RDMA_WRITE && op <= IBV_WR_SEND_WITH_INV)
			continue;
		if (op == IBV_WR_ATOMIC_WRITE)
			continue;
		wr.opcode = (enum ibv_wr_opcode)op;
		if (post1(qp, &wr) != EINVAL)
			break;
	}
	ok(op == 300, "unknown opcodes: EINVAL");
	wr.opcode = IBV_WR_SEND;
	for (i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
		qp->state = no[i];
		ok(post1(qp, &wr) == EINVAL, "state %d: EINVAL", no[i]);
	}
	for (i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
		qp->state = yes[i];
		ok(post1(qp, &wr) == 0, "state %d: accepted", yes[i]);
		drain();
	}
	fake.ops->destroy_qp(qp);
}

static void test_types(void)
{
	struct ibv_ah ibah_parent = { .context = fake.context };
	struct mroce_ah ah = { .ah = ibah_parent, .index = 42 };
	struct ibv_qp *qp = make_qp(IBV_QPT_UC, 0);
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ };
	struct metaroce_sqe *sqe;

	ok(post1(qp, &wr) == EINVAL, "UC: no READ");
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	ok(post1(qp, &wr) == EINVAL, "UC: no atomics");
	wr.opcode = IBV_WR_RDMA_WRITE;
	ok(post1(qp, &wr) == 0, "UC: WRITE");
	fake.ops->destroy_qp(qp);

	qp = make_qp(IBV_QPT_UD, 0);
	ok(post1(qp, &wr) == EINVAL, "UD: no WRITE");
	wr.opcode = IBV_WR_SEND;
	ok(post1(qp, &wr) == EINVAL, "UD: no address handle: EINVAL");
	wr.wr.ud.ah = &ah.ah;
	wr.wr.ud.remote_qpn = 7;
	wr.wr.ud.remote_qkey = 9;
	ok(post1(qp, &wr) == 0, "UD: SEND");
	sqe = last_sqe();
	ok(sqe->ud.ah == 42 && sqe->ud.qpn == 7 && sqe->ud.qkey == 9 &&
	   !sqe->ud.resv[0] && !sqe->ud.resv[4], "UD: address in the request");
	fake.ops->destroy_qp(qp);

	qp = make_qp(IBV_QPT_XRC_SEND, 0);
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.qp_type.xrc.remote_srqn = 0x123456;
	ok(post1(qp, &wr) == 0 && last_sqe()->remote.srqn == 0x123456,
	   "XRC: the remote SRQ in the request");
	fake.ops->destroy_qp(qp);
}

/* Length, bytes, and the slot behind it untouched. */
static bool inline_right(const uint8_t *bytes, uint32_t length)
{
	struct metaroce_sqe *sqe = last_sqe();
	uint8_t *data = (uint8_t *)sqe + METAROCE_SQE_HDR;
	uint8_t *next = fake_slot(&fake.sq, fake.sq.hdr->prod);
	uint32_t got;
	unsigned int i;

	memcpy(&got, data, 4);
	for (i = 0; i < fake.sq.info.stride; i++)
		if (next[i] != 0xa5)
			return false;
	return got == length && sqe->flags & METAROCE_WR_INLINE &&
	       !sqe->num_sge && !memcmp(data + 4, bytes, length);
}

static void paint_next(void)
{
	memset(fake_slot(&fake.sq, fake.sq.hdr->prod + 1), 0xa5,
	       fake.sq.info.stride);
}

static void split(uint32_t total, int parts, uint32_t *len)
{
	int i;

	for (i = 0; i < parts; i++)
		len[i] = total / (uint32_t)parts;
	len[parts - 1] += total % (uint32_t)parts;
}

static bool inline_both_apis(struct ibv_qp *qp, uint32_t total, int parts,
			     const uint8_t *bytes)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .num_sge = parts,
				  .send_flags = IBV_SEND_INLINE };
	bool fits = total <= fake.grant_inline;
	struct ibv_data_buf buf[SGES];
	struct ibv_sge sge[SGES];
	uint32_t len[SGES], at = 0;
	int i, ret;

	split(total, parts, len);
	for (i = 0; i < parts; at += len[i++]) {
		sge[i] = (struct ibv_sge){ .addr = (uintptr_t)bytes + at, .length = len[i] };
		buf[i] = (struct ibv_data_buf){ .addr = (void *)(bytes + at), .length = len[i] };
	}
	wr.sg_list = sge;
	paint_next();
	ret = post1(qp, &wr);
	if (ret != (fits ? 0 : EINVAL) || (fits && !inline_right(bytes, total)))
		return false;
	drain();

	paint_next();
	ex->wr_start(ex);
	ex->wr_rdma_write(ex, 1, 2);
	ex->wr_set_inline_data_list(ex, (size_t)parts, buf);
	ret = ex->wr_complete(ex);
	if (ret != (fits ? 0 : EINVAL) || (fits && !inline_right(bytes, total)))
		return false;
	drain();
	return true;
}

static void test_inline(void)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC, ALL_OPS);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct ibv_data_buf wrap[2] = { { .length = SIZE_MAX }, { .length = 2 } };
	uint8_t bytes[1024];
	uint32_t total;
	int parts;

	for (total = 0; total < sizeof(bytes); total++)
		bytes[total] = (uint8_t)(total * 7 + 3);
	for (parts = 1; parts <= SGES; parts++) {
		for (total = 0; total <= fake.grant_inline + 2; total++)
			if (!inline_both_apis(qp, total, parts, bytes))
				break;
		ok(total == fake.grant_inline + 3,
		   "inline 0 to %u bytes in %d pieces, both interfaces",
		   fake.grant_inline, parts);
	}
	ex->wr_start(ex);
	ex->wr_send(ex);
	ex->wr_set_inline_data_list(ex, 2, wrap);
	ok(ex->wr_complete(ex) == EINVAL, "inline lengths that wrap 64 bits: EINVAL");
	fake.ops->destroy_qp(qp);
}

static void build_new(struct ibv_qp_ex *ex, const struct ibv_send_wr *wr,
		      const void *word)
{
	uint64_t addr = wr->wr.rdma.remote_addr;
	uint32_t rkey = wr->wr.rdma.rkey;

	ex->wr_id = wr->wr_id;
	ex->wr_flags = wr->send_flags;
	switch (wr->opcode) {
	case IBV_WR_RDMA_WRITE: ex->wr_rdma_write(ex, rkey, addr); break;
	case IBV_WR_RDMA_WRITE_WITH_IMM: ex->wr_rdma_write_imm(ex, rkey, addr, wr->imm_data); break;
	case IBV_WR_SEND: ex->wr_send(ex); break;
	case IBV_WR_SEND_WITH_IMM: ex->wr_send_imm(ex, wr->imm_data); break;
	case IBV_WR_SEND_WITH_INV: ex->wr_send_inv(ex, wr->invalidate_rkey); break;
	case IBV_WR_RDMA_READ: ex->wr_rdma_read(ex, rkey, addr); break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ex->wr_atomic_cmp_swp(ex, wr->wr.atomic.rkey, addr,
				      wr->wr.atomic.compare_add, wr->wr.atomic.swap);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ex->wr_atomic_fetch_add(ex, wr->wr.atomic.rkey, addr,
					wr->wr.atomic.compare_add);
		break;
	case IBV_WR_LOCAL_INV: ex->wr_local_inv(ex, wr->invalidate_rkey); return;
	case IBV_WR_BIND_MW:
		ex->wr_bind_mw(ex, wr->bind_mw.mw, wr->bind_mw.rkey,
			       &wr->bind_mw.bind_info);
		return;
	case IBV_WR_ATOMIC_WRITE: ex->wr_atomic_write(ex, rkey, addr, word); return;
	default: abort();
	}
	if (wr->num_sge == 1)
		ex->wr_set_sge(ex, wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length);
	else
		ex->wr_set_sge_list(ex, (size_t)wr->num_sge, wr->sg_list);
}

/* The same request through both interfaces must give the same bytes. */
static void test_same_bytes(void)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND,
		IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_LOCAL_INV, IBV_WR_BIND_MW, IBV_WR_ATOMIC_WRITE,
	};
	struct ibv_qp *qp = make_qp(IBV_QPT_RC, ALL_OPS);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct ibv_mw *mw = fake.ops->alloc_mw(pd, IBV_MW_TYPE_2);
	uint64_t word = 0x1122334455667788;
	uint8_t old[METAROCE_SQE_HDR + SGES * 16];
	struct ibv_mr mr = { .lkey = 77 };
	struct ibv_send_wr wr;
	struct ibv_sge sge[2];
	size_t i, len;

	for (i = 0; i < 2 * sizeof(ops) / sizeof(ops[0]); i++) {
		sge[0] = (struct ibv_sge){ .addr = (uintptr_t)&word, .length = 8, .lkey = 11 };
		sge[1] = (struct ibv_sge){ .addr = 0x5000, .length = 70000, .lkey = 12 };
		memset(&wr, 0, sizeof(wr));
		wr.wr_id = 0xabcdef0123456789 + i;
		wr.opcode = ops[i / 2];
		wr.sg_list = sge;
		wr.num_sge = ops[i / 2] == IBV_WR_ATOMIC_WRITE ? 1 : (int)(i % 2) + 1;
		wr.send_flags = IBV_SEND_SIGNALED | (i % 2 ? IBV_SEND_FENCE : IBV_SEND_SOLICITED);
		wr.invalidate_rkey = 0xcafe1234;
		wr.wr.atomic.remote_addr = 0x123456789abc;
		wr.wr.atomic.compare_add = 3;
		wr.wr.atomic.swap = 4;
		wr.wr.atomic.rkey = 5;
		if (wr.opcode == IBV_WR_BIND_MW) {
			wr.bind_mw.mw = mw;
			wr.bind_mw.rkey = mw->rkey + 1;
			wr.bind_mw.bind_info.mr = &mr;
			wr.bind_mw.bind_info.addr = 0x9000;
			wr.bind_mw.bind_info.length = UINT64_C(5) << 32;
			wr.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_READ;
		} else if (wr.opcode != IBV_WR_ATOMIC_CMP_AND_SWP &&
			   wr.opcode != IBV_WR_ATOMIC_FETCH_AND_ADD) {
			wr.wr.rdma.rkey = 6;
		}
		memset(fake_slot(&fake.sq, fake.sq.hdr->prod), 0xff, METAROCE_SQE_HDR);
		if (post1(qp, &wr))
			break;
		len = METAROCE_SQE_HDR + last_sqe()->num_sge * 16U;
		memcpy(old, last_sqe(), len);
		drain();
		memset(fake_slot(&fake.sq, fake.sq.hdr->prod), 0xff, METAROCE_SQE_HDR);
		ex->wr_start(ex);
		build_new(ex, &wr, &word);
		if (ex->wr_complete(ex) || memcmp(old, last_sqe(), len) ||
		    last_sqe()->wr_id != wr.wr_id)
			break;
		drain();
	}
	ok(i == 2 * sizeof(ops) / sizeof(ops[0]),
	   "every opcode: the same bytes from both interfaces (stopped at %zu)", i);
	fake.ops->dealloc_mw(mw);
	fake.ops->destroy_qp(qp);
}

static void test_latch(void)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC, ALL_OPS);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct ibv_sge sge[SGES + 1] = { { 0 } };
	uint32_t before = fake.sq.hdr->prod;
	int i, bells = fake.doorbells;

	ex->wr_start(ex);
	for (i = 0; i < ENTRIES + 1; i++) {
		ex->wr_send(ex);
		ex->wr_set_sge(ex, 0, 0, 0);
	}
	ex->wr_set_sge(ex, 0, 0, UINT32_MAX);
	ok(ex->wr_complete(ex) == ENOMEM && fake.sq.hdr->prod == before &&
	   fake.doorbells == bells, "list too long: ENOMEM, nothing posted, the first error stays");
	ex->wr_start(ex);
	ex->wr_send(ex);
	ex->wr_set_sge_list(ex, SGES + 1, sge);
	ex->wr_send(ex);
	ok(ex->wr_complete(ex) == EINVAL && fake.sq.hdr->prod == before,
	   "too many elements: EINVAL, nothing posted");
	ex->wr_start(ex);
	ex->wr_set_sge(ex, 0, 0, 0);
	ok(ex->wr_complete(ex) == EINVAL, "a setter without a request: EINVAL");
	ex->wr_start(ex);
	ex->wr_send(ex);
	ex->wr_abort(ex);
	ok(fake.sq.hdr->prod == before, "abort: nothing posted");
	ex->wr_start(ex);
	ok(!ex->wr_complete(ex) && fake.doorbells == bells, "an empty list: nothing happens");
	qp->state = IBV_QPS_INIT;
	ex->wr_start(ex);
	ex->wr_send(ex);
	ok(ex->wr_complete(ex) == EINVAL, "state INIT: EINVAL");
	qp->state = IBV_QPS_RTS;
	ex->wr_start(ex);
	for (i = 0; i < ENTRIES; i++) {
		ex->wr_id = (uint64_t)i;
		ex->wr_send(ex);
	}
	ok(!ex->wr_complete(ex) && fake.sq.hdr->prod == before + ENTRIES &&
	   fake.doorbells == bells + 1, "a full list: posted with one doorbell");
	fake.ops->destroy_qp(qp);
}

static void test_bind(void)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC, 0);
	struct ibv_mw *mw = fake.ops->alloc_mw(pd, IBV_MW_TYPE_1);
	struct ibv_mr mr = { .lkey = 3 };
	struct ibv_mw_bind bind = { .wr_id = 1, .send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = &mr, .addr = 4096, .length = 10 } };
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW };

	ok(!fake.ops->bind_mw(qp, mw, &bind) && mw->rkey == 0x123400 &&
	   last_sqe()->bind.new_rkey == 0x123400 &&
	   last_sqe()->bind.mw_rkey == 0x1234ff, "type 1: the key's low byte wraps");
	wr.bind_mw.mw = mw;
	ok(post1(qp, &wr) == EINVAL, "type 1 by post_send: EINVAL");
	fake.ops->dealloc_mw(mw);
	fake.ops->destroy_qp(qp);
}

static void test_recv(void)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC, 0);
	struct ibv_sge sge[SGES] = { { .addr = 1, .length = 2, .lkey = 3 } };
	struct ibv_recv_wr wr[ENTRIES + 1], *bad = NULL;
	int i, bells = fake.doorbells;

	for (i = 0; i <= ENTRIES; i++)
		wr[i] = (struct ibv_recv_wr){ .sg_list = sge, .num_sge = 1,
			.next = i < ENTRIES ? wr + i + 1 : NULL };
	ok(fake.ops->post_recv(qp, wr, &bad) == ENOMEM && bad == wr + ENTRIES &&
	   fake.doorbells == bells, "receives: ENOMEM when full, no doorbell");
	qp->state = IBV_QPS_RESET;
	ok(fake.ops->post_recv(qp, wr, &bad) == EINVAL && bad == wr,
	   "receives in RESET: EINVAL");
	qp->state = IBV_QPS_INIT;
	fake.rq.hdr->cons = fake.rq.hdr->prod;
	wr[0].num_sge = SGES + 1;
	ok(fake.ops->post_recv(qp, wr, &bad) == EINVAL && bad == wr,
	   "receive with too many elements: EINVAL");
	qp->state = IBV_QPS_ERR;
	fake.rq.hdr->watching = 0;
	wr[0].num_sge = 0;
	wr[0].next = NULL;
	ok(!fake.ops->post_recv(qp, wr, &bad) && fake.doorbells == bells + 1,
	   "receive in ERR: doorbell, so that it is flushed");
	fake.fail_doorbells = 1;
	fake.doorbell_errno = EIO;
	ok(fake.ops->post_recv(qp, wr, &bad) == EIO && bad == wr,
	   "receive, device gone: EIO");
	fake.ops->destroy_qp(qp);
}

/* The kernel empties the rings and starts them at 0 again. */
static void test_reset(void)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC, 0);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct ibv_send_wr wr[ENTRIES] = { { 0 } }, *bad;
	struct ibv_recv_wr rwr = { .wr_id = 9 }, *rbad;
	int i;

	for (i = 0; i < ENTRIES; i++)
		wr[i] = (struct ibv_send_wr){ .wr_id = 50 + (uint64_t)i,
			.opcode = IBV_WR_SEND, .next = i < ENTRIES - 1 ? wr + i + 1 : NULL };
	fake.ops->post_recv(qp, &rwr, &rbad);
	ok(!fake.ops->post_send(qp, wr, &bad) &&
	   !fake.ops->modify_qp(qp, &attr, IBV_QP_STATE), "a full queue, then RESET");
	ok(!fake.ops->post_send(qp, wr, &bad) && fake.sq.hdr->prod == ENTRIES &&
	   ((struct metaroce_sqe *)fake_slot(&fake.sq, 0))->wr_id == 50,
	   "then room for a full queue, from index 0");
	ok(!fake.ops->post_recv(qp, &rwr, &rbad) && fake.rq.hdr->prod == 1,
	   "receives from 0, too");
	fake.fail = EINVAL;
	ok(fake.ops->modify_qp(qp, &attr, IBV_QP_STATE) == EINVAL &&
	   fake.ops->post_send(qp, wr, &bad) == ENOMEM, "RESET refused: nothing changes");
	fake.ops->destroy_qp(qp);
}

int main(void)
{
	fake_open();
	pd = fake.ops->alloc_pd(fake.context);
	cq = fake.ops->create_cq(fake.context, 16, NULL, 0);
	/* Once from 0, once with indexes that wrap. */
	for (int round = 0; round < 2; round++) {
		fake.start = round ? UINT32_MAX - 3 : 0;
		test_full();
		test_doorbell_errors();
		test_refused();
		test_types();
		test_inline();
		test_same_bytes();
		test_latch();
		test_bind();
		test_recv();
		test_reset();
	}
	fake.ops->destroy_cq(cq);
	fake.ops->dealloc_pd(pd);
	fake_close();
	return tap_done();
}
