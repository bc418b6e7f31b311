// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Registration with libibverbs; device, context, and what can be asked of them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "metaroce.h"

MROCE_MESSAGE(get_context_cmd, ibv_get_context, metaroce_alloc_ucontext_req);
MROCE_MESSAGE(get_context_resp, ib_uverbs_get_context_resp,
	      metaroce_alloc_ucontext_resp);

static int mroce_query_device_ex(struct ibv_context *context,
				 const struct ibv_query_device_ex_input *input,
				 struct ibv_device_attr_ex *attr,
				 size_t attr_size)
{
	struct ib_uverbs_ex_query_device_resp resp;
	size_t resp_size = sizeof(resp);
	uint64_t fw;
	int ret;

	ret = ibv_cmd_query_device_any(context, input, attr, attr_size, &resp,
				       &resp_size);
	if (ret)
		return ret;

	fw = resp.base.fw_ver;
	snprintf(attr->orig_attr.fw_ver, sizeof(attr->orig_attr.fw_ver),
		 "%u.%u.%u", (unsigned int)(fw >> 32),
		 (unsigned int)(fw >> 16) & 0xffff, (unsigned int)fw & 0xffff);
	return 0;
}

static int mroce_query_port(struct ibv_context *context, uint8_t port_num,
			    struct ibv_port_attr *attr)
{
	struct ibv_query_port cmd;

	return ibv_cmd_query_port(context, port_num, attr, &cmd, sizeof(cmd));
}

/* Completions are stamped with this very clock. */
static int mroce_query_rt_values(struct ibv_context *context,
				 struct ibv_values_ex *values)
{
	uint32_t asked = values->comp_mask;

	(void)context;
	values->comp_mask = 0;
	if (asked & IBV_VALUES_MASK_RAW_CLOCK) {
		if (clock_gettime(CLOCK_MONOTONIC_RAW, &values->raw_clock))
			return errno;
		values->comp_mask |= IBV_VALUES_MASK_RAW_CLOCK;
	}
	return asked & ~IBV_VALUES_MASK_RAW_CLOCK ? EINVAL : 0;
}

static void mroce_free_context(struct ibv_context *context)
{
	struct mroce_context *ctx =
		container_of(context, struct mroce_context, vctx.context);

	verbs_uninit_context(&ctx->vctx);
	free(ctx);
}

static const struct verbs_context_ops mroce_context_ops = {
	.alloc_mw = mroce_alloc_mw,
	.alloc_parent_domain = mroce_alloc_parent_domain,
	.alloc_pd = mroce_alloc_pd,
	.alloc_td = mroce_alloc_td,
	.attach_mcast = ibv_cmd_attach_mcast,
	.bind_mw = mroce_bind_mw,
	.close_xrcd = mroce_close_xrcd,
	.create_ah = mroce_create_ah,
	.create_cq = mroce_create_cq,
	.create_cq_ex = mroce_create_cq_ex,
	.create_qp = mroce_create_qp,
	.create_qp_ex = mroce_create_qp_ex,
	.create_srq = mroce_create_srq,
	.create_srq_ex = mroce_create_srq_ex,
	.dealloc_mw = mroce_dealloc_mw,
	.dealloc_pd = mroce_dealloc_pd,
	.dealloc_td = mroce_dealloc_td,
	.dereg_mr = mroce_dereg_mr,
	.destroy_ah = mroce_destroy_ah,
	.destroy_cq = mroce_destroy_cq,
	.destroy_qp = mroce_destroy_qp,
	.destroy_srq = mroce_destroy_srq,
	.detach_mcast = ibv_cmd_detach_mcast,
	.free_context = mroce_free_context,
	.get_srq_num = mroce_get_srq_num,
	.modify_qp = mroce_modify_qp,
	.modify_srq = mroce_modify_srq,
	.open_qp = mroce_open_qp,
	.open_xrcd = mroce_open_xrcd,
	.poll_cq = mroce_poll_cq,
	.post_recv = mroce_post_recv,
	.post_send = mroce_post_send,
	.post_srq_recv = mroce_post_srq_recv,
	.query_device_ex = mroce_query_device_ex,
	.query_port = mroce_query_port,
	.query_qp = mroce_query_qp,
	.query_qp_data_in_order = mroce_query_qp_data_in_order,
	.query_rt_values = mroce_query_rt_values,
	.query_srq = mroce_query_srq,
	.reg_mr = mroce_reg_mr,
	.req_notify_cq = ibv_cmd_req_notify_cq,
	.rereg_mr = mroce_rereg_mr,
	.resize_cq = mroce_resize_cq,
};

static struct verbs_context *mroce_alloc_context(struct ibv_device *device,
						 int cmd_fd, void *private_data)
{
	union get_context_cmd cmd = { .core = { 0 } };
	union get_context_resp resp = { .core = { 0 } };
	struct mroce_context *ctx;
	int ret;

	(void)private_data;
	ctx = verbs_init_and_alloc_context(device, cmd_fd, ctx, vctx,
					   METAROCE_DRIVER_ID);
	if (!ctx)
		return NULL;

	ret = ibv_cmd_get_context(&ctx->vctx, &cmd.ibv, sizeof(cmd), &resp.ibv,
				  sizeof(resp));
	if (ret) {
		verbs_uninit_context(&ctx->vctx);
		free(ctx);
		errno = ret;
		return NULL;
	}

	ctx->max_inline = resp.drv.max_inline;
	ctx->max_send_sge = resp.drv.max_send_sge;
	ctx->max_recv_sge = resp.drv.max_recv_sge;
	verbs_set_ops(&ctx->vctx, &mroce_context_ops);
	return &ctx->vctx;
}

static struct verbs_device *mroce_alloc_device(struct verbs_sysfs_dev *sysfs)
{
	struct mroce_device *dev = calloc(1, sizeof(*dev));

	(void)sysfs;
	return dev ? &dev->vdev : NULL;
}

static void mroce_uninit_device(struct verbs_device *vdev)
{
	free(container_of(vdev, struct mroce_device, vdev));
}

/* By driver id and nothing else: names and modaliases belong to others. */
static const struct verbs_match_ent mroce_match[] = {
	VERBS_DRIVER_ID(METAROCE_DRIVER_ID),
	{ .kind = VERBS_MATCH_SENTINEL },
};

static const struct verbs_device_ops mroce_device_ops = {
	.name = "metaroce",
	.match_min_abi_version = METAROCE_ABI_VERSION,
	.match_max_abi_version = METAROCE_ABI_VERSION,
	.match_table = mroce_match,
	.alloc_device = mroce_alloc_device,
	.uninit_device = mroce_uninit_device,
	.alloc_context = mroce_alloc_context,
};

PROVIDER_DRIVER(metaroce, mroce_device_ops);
