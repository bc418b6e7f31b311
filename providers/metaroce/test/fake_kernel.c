// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake_kernel.h"

#define ARENA	(64UL << 20)

struct fake fake = { .grant_inline = 256 };

static int arena_fd;
static uint8_t *arena;
static size_t arena_used;
static struct verbs_device *vdev;

static int take_fail(void)
{
	int ret = fake.fail;

	fake.fail = 0;
	return ret;
}

static void make_ring(struct fake_ring *r, uint32_t entries, uint32_t stride)
{
	uint32_t pow2 = 1;
	size_t size;

	memset(r, 0, sizeof(*r));
	if (!entries)
		return;
	while (pow2 < entries)
		pow2 *= 2;
	stride = (stride + 15) & ~15U;
	size = (METAROCE_RING_HDR + (size_t)pow2 * stride + 4095) & ~4095UL;
	if (arena_used + size > ARENA)
		abort();
	r->hdr = (void *)(arena + arena_used);
	r->slots = arena + arena_used + METAROCE_RING_HDR;
	r->info.entries = pow2;
	r->info.stride = stride;
	r->info.mmap_offset = arena_used + (fake.bad_offset ? 1 : 0);
	r->info.mmap_size = size;
	fake.bad_offset = false;
	arena_used += size;
	memset(r->hdr, 0, size);
	r->hdr->prod = r->hdr->cons = r->own = fake.start;
}

void fake_complete(struct fake_ring *cq, const struct metaroce_cqe *cqe)
{
	memcpy(fake_slot(cq, cq->own), cqe, sizeof(*cqe));
	mroce_store_release(&cq->hdr->prod, ++cq->own);
}

void verbs_register_driver_34(const struct verbs_device_ops *ops)
{
	fake.driver = ops;
}

void *_verbs_init_and_alloc_context(struct ibv_device *device, int cmd_fd,
				    size_t alloc_size,
				    struct verbs_context *context_offset,
				    uint32_t driver_id)
{
	char *mem = calloc(1, alloc_size);
	struct verbs_context *ctx = (void *)(mem + (uintptr_t)context_offset);

	if (driver_id != METAROCE_DRIVER_ID)
		abort();
	ctx->context.device = device;
	ctx->context.cmd_fd = cmd_fd;
	return mem;
}

void verbs_uninit_context(struct verbs_context *context)
{
	(void)context;
	fake.destroyed++;
}

void verbs_set_ops(struct verbs_context *context,
		   const struct verbs_context_ops *ops)
{
	(void)context;
	fake.ops = ops;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	struct verbs_qp *vqp = (struct verbs_qp *)qp;
	uint32_t mask;

	memcpy(&mask, (uint8_t *)&vqp->comp_mask + fake.qp_ex_shift,
	       sizeof(mask));
	return mask & VERBS_QP_EX ? &vqp->qp_ex : NULL;
}

struct ibv_context *fake_open(void)
{
	struct verbs_context *vctx;
	int err;

	vdev = fake.driver->alloc_device(NULL);

	arena_fd = memfd_create("rings", 0);
	if (arena_fd < 0 || ftruncate(arena_fd, ARENA))
		abort();
	arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_SHARED, arena_fd,
		     0);
	if (arena == MAP_FAILED)
		abort();
	vctx = fake.driver->alloc_context(&vdev->device, arena_fd, NULL);
	fake.context = vctx ? &vctx->context : NULL;
	err = errno;
	if (!vctx)
		fake_close();
	errno = err;
	return fake.context;
}

void fake_close(void)
{
	if (fake.context)
		fake.ops->free_context(fake.context);
	fake.context = NULL;
	fake.driver->uninit_device(vdev);
	munmap(arena, ARENA);
	close(arena_fd);
}

#define DRV(type, resp) ((struct type *)((uint8_t *)(resp) + sizeof(*(resp))))

int ibv_cmd_get_context(struct verbs_context *context,
			struct ibv_get_context *cmd, size_t cmd_size,
			struct ib_uverbs_get_context_resp *resp,
			size_t resp_size)
{
	struct metaroce_alloc_ucontext_resp *drv =
		DRV(metaroce_alloc_ucontext_resp, resp);

	(void)context;
	(void)cmd;
	if (cmd_size != 24 || resp_size != sizeof(*resp) + sizeof(*drv))
		return EPROTO;
	drv->max_inline = fake.grant_inline;
	drv->max_send_sge = drv->max_recv_sge = 16;
	return take_fail();
}

int ibv_cmd_create_cq_ex(struct ibv_context *context,
			 const struct ibv_cq_init_attr_ex *attr,
			 struct verbs_cq *cq, struct ibv_create_cq_ex *cmd,
			 size_t cmd_size,
			 struct ib_uverbs_ex_create_cq_resp *resp,
			 size_t resp_size, uint32_t cmd_flags)
{
	struct metaroce_create_cq_resp *drv = DRV(metaroce_create_cq_resp, resp);

	(void)cmd;
	(void)cmd_flags;
	if (cmd_size || resp_size != sizeof(*resp) + sizeof(*drv))
		return EPROTO;
	if (fake.fail)
		return take_fail();
	fake.cq_attr = *attr;
	make_ring(&fake.cq, attr->cqe, sizeof(struct metaroce_cqe));
	drv->cq = fake.cq.info;
	cq->cq.context = context;
	cq->cq.cqe = (int)fake.cq.info.entries;
	fake.created++;
	return 0;
}

int ibv_cmd_resize_cq(struct ibv_cq *cq, int cqe, struct ibv_resize_cq *cmd,
		      size_t cmd_size, struct ib_uverbs_resize_cq_resp *resp,
		      size_t resp_size)
{
	struct metaroce_resize_cq_resp *drv = DRV(metaroce_resize_cq_resp, resp);
	struct fake_ring old = fake.cq;
	uint32_t i;

	(void)cmd_size;
	(void)cmd;
	if (resp_size != sizeof(*resp) + sizeof(*drv))
		return EPROTO;
	if (fake.fail)
		return take_fail();
	make_ring(&fake.cq, (uint32_t)cqe, sizeof(struct metaroce_cqe));
	for (i = old.hdr->cons; i != old.own; i++)
		fake_complete(&fake.cq, fake_slot(&old, i));
	old.hdr->gone = 1;
	drv->cq = fake.cq.info;
	cq->cqe = (int)fake.cq.info.entries;
	return 0;
}

int ibv_cmd_create_qp_ex(struct ibv_context *context, struct verbs_qp *qp,
			 struct ibv_qp_init_attr_ex *attr,
			 struct ibv_create_qp *cmd, size_t cmd_size,
			 struct ib_uverbs_create_qp_resp *resp,
			 size_t resp_size)
{
	struct metaroce_create_qp_resp *drv = DRV(metaroce_create_qp_resp, resp);
	uint32_t sges = attr->cap.max_send_sge * 16;
	uint32_t inl = fake.grant_inline + METAROCE_INLINE_HDR;

	(void)cmd;
	if (cmd_size != 72 || resp_size != sizeof(*resp) + sizeof(*drv))
		return EPROTO;
	if (fake.fail)
		return take_fail();
	make_ring(&fake.sq, attr->cap.max_send_wr,
		  METAROCE_SQE_HDR + (sges > inl ? sges : inl));
	make_ring(&fake.rq, attr->srq ? 0 : attr->cap.max_recv_wr,
		  METAROCE_RQE_HDR + attr->cap.max_recv_sge * 16);
	if (fake.rq.hdr)
		fake.rq.hdr->watching = 1;
	drv->sq = fake.sq.info;
	drv->rq = fake.rq.info;
	drv->max_inline = fake.grant_inline;
	qp->qp.context = context;
	qp->qp.qp_type = attr->qp_type;
	qp->qp.state = IBV_QPS_RESET;
	fake.created++;
	return 0;
}

int ibv_cmd_create_srq_ex(struct ibv_context *context, struct verbs_srq *srq,
			  struct ibv_srq_init_attr_ex *attr,
			  struct ibv_create_xsrq *cmd, size_t cmd_size,
			  struct ib_uverbs_create_srq_resp *resp,
			  size_t resp_size)
{
	struct metaroce_create_srq_resp *drv =
		DRV(metaroce_create_srq_resp, resp);

	(void)cmd;
	if (cmd_size != sizeof(*cmd) || resp_size != sizeof(*resp) + sizeof(*drv))
		return EPROTO;
	if (fake.fail)
		return take_fail();
	make_ring(&fake.srq, attr->attr.max_wr,
		  METAROCE_RQE_HDR + attr->attr.max_sge * 16);
	drv->rq = fake.srq.info;
	drv->srqn = 77;
	srq->srq.context = context;
	srq->srq_type = attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ?
			attr->srq_type : IBV_SRQT_BASIC;
	fake.created++;
	return 0;
}

int ibv_cmd_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		      struct ibv_send_wr **bad_wr)
{
	(void)qp;
	if (wr)
		abort();
	fake.doorbells++;
	if (fake.fail_doorbells) {
		fake.fail_doorbells--;
		*bad_wr = NULL;	/* as libibverbs does on failure */
		return fake.doorbell_errno;
	}
	if (fake.doorbell)
		fake.doorbell();
	return 0;
}

int ibv_cmd_create_ah(struct ibv_pd *pd, struct ibv_ah *ah,
		      struct ibv_ah_attr *attr,
		      struct ib_uverbs_create_ah_resp *resp, size_t resp_size)
{
	(void)attr;
	if (resp_size != sizeof(*resp) + sizeof(struct metaroce_create_ah_resp))
		return EPROTO;
	ah->context = pd->context;
	DRV(metaroce_create_ah_resp, resp)->ah = 42;
	fake.created++;
	return take_fail();
}

int ibv_cmd_alloc_pd(struct ibv_context *context, struct ibv_pd *pd,
		     struct ibv_alloc_pd *cmd, size_t cmd_size,
		     struct ib_uverbs_alloc_pd_resp *resp, size_t resp_size)
{
	(void)cmd;
	(void)cmd_size;
	(void)resp;
	(void)resp_size;
	pd->context = context;
	pd->handle = 5;
	fake.created++;
	return take_fail();
}

int ibv_cmd_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type,
		     struct ibv_mw *mw, struct ibv_alloc_mw *cmd,
		     size_t cmd_size, struct ib_uverbs_alloc_mw_resp *resp,
		     size_t resp_size)
{
	(void)cmd;
	(void)cmd_size;
	(void)resp;
	(void)resp_size;
	mw->context = pd->context;
	mw->pd = pd;
	mw->type = type;
	mw->rkey = 0x1234ff;
	fake.created++;
	return take_fail();
}

int ibv_cmd_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
		   uint64_t hca_va, int access, struct verbs_mr *vmr,
		   struct ibv_reg_mr *cmd, size_t cmd_size,
		   struct ib_uverbs_reg_mr_resp *resp, size_t resp_size)
{
	(void)addr;
	(void)length;
	(void)hca_va;
	(void)cmd;
	(void)cmd_size;
	(void)resp;
	(void)resp_size;
	vmr->ibv_mr.context = pd->context;
	vmr->access = access;
	fake.created++;
	return take_fail();
}

int ibv_cmd_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)cq;
	(void)solicited_only;
	fake.arms++;
	return take_fail();
}

static void reset_ring(struct fake_ring *r)
{
	if (r->hdr)
		r->hdr->prod = r->hdr->cons = r->own = 0;
}

/* Of the QP made last. */
int ibv_cmd_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		      struct ibv_modify_qp *cmd, size_t cmd_size)
{
	(void)qp;
	(void)cmd;
	if (cmd_size != sizeof(*cmd))
		return EPROTO;
	if (!fake.fail && mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET) {
		reset_ring(&fake.sq);
		reset_ring(&fake.rq);
	}
	return take_fail();
}

/* The rest: succeed, or fail as told. */
#define PLAIN(name, ...) int name(__VA_ARGS__) { return take_fail(); }
#define DESTROY(name, arg)				\
	int name(arg)					\
	{						\
		if (!fake.fail)				\
			fake.destroyed++;		\
		return take_fail();			\
	}
#pragma GCC diagnostic ignored "-Wunused-parameter"
DESTROY(ibv_cmd_dealloc_pd, struct ibv_pd *pd)
DESTROY(ibv_cmd_close_xrcd, struct verbs_xrcd *xrcd)
DESTROY(ibv_cmd_dereg_mr, struct verbs_mr *vmr)
DESTROY(ibv_cmd_dealloc_mw, struct ibv_mw *mw)
DESTROY(ibv_cmd_destroy_cq, struct ibv_cq *cq)
DESTROY(ibv_cmd_destroy_srq, struct ibv_srq *srq)
DESTROY(ibv_cmd_destroy_qp, struct ibv_qp *qp)
DESTROY(ibv_cmd_destroy_ah, struct ibv_ah *ah)
PLAIN(ibv_cmd_query_device_any, struct ibv_context *c,
      const struct ibv_query_device_ex_input *i, struct ibv_device_attr_ex *a,
      size_t s, struct ib_uverbs_ex_query_device_resp *r, size_t *rs)
PLAIN(ibv_cmd_query_port, struct ibv_context *c, uint8_t n,
      struct ibv_port_attr *a, struct ibv_query_port *cmd, size_t s)
PLAIN(ibv_cmd_open_xrcd, struct ibv_context *c, struct verbs_xrcd *x, int xs,
      struct ibv_xrcd_init_attr *a, struct ibv_open_xrcd *cmd, size_t s,
      struct ib_uverbs_open_xrcd_resp *r, size_t rs)
PLAIN(ibv_cmd_rereg_mr, struct verbs_mr *v, uint32_t f, void *a, size_t l,
      uint64_t h, int ac, struct ibv_pd *pd, struct ibv_rereg_mr *cmd, size_t s,
      struct ib_uverbs_rereg_mr_resp *r, size_t rs)
PLAIN(ibv_cmd_modify_srq, struct ibv_srq *q, struct ibv_srq_attr *a, int m,
      struct ibv_modify_srq *cmd, size_t s)
PLAIN(ibv_cmd_query_srq, struct ibv_srq *q, struct ibv_srq_attr *a,
      struct ibv_query_srq *cmd, size_t s)
PLAIN(ibv_cmd_open_qp, struct ibv_context *c, struct verbs_qp *q, int qs,
      struct ibv_qp_open_attr *a, struct ibv_open_qp *cmd, size_t s,
      struct ib_uverbs_create_qp_resp *r, size_t rs)
PLAIN(ibv_cmd_query_qp, struct ibv_qp *q, struct ibv_qp_attr *a, int m,
      struct ibv_qp_init_attr *i, struct ibv_query_qp *cmd, size_t s)
PLAIN(ibv_cmd_attach_mcast, struct ibv_qp *q, const union ibv_gid *g, uint16_t l)
PLAIN(ibv_cmd_detach_mcast, struct ibv_qp *q, const union ibv_gid *g, uint16_t l)
