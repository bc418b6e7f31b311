// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The RDMA device: what it can do, its port, contexts and protection domains. */
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <net/addrconf.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_mad.h>
#include <rdma/metaroce-abi.h>

#include "../compat/compat.h"
#include "../core/codec.h"
#include "../ctl/counters.h"
#include "../ctl/link.h"
#include "cq.h"
#include "device.h"
#include "mr.h"
#include "qp.h"
#include "restrack.h"
#include "ring.h"
#include "ucontext.h"
#include "udata.h"

#define MROCE_GID_TABLE		256
#define MROCE_LAST_QPN_START	(1u << 20)	/* the first QPN is below it */

/* Everything it says is kept; what part 2 brings (SRQ, AH, MW, UD) is 0 until then. */
static int mroce_query_device(struct ib_device *ibdev,
			      struct ib_device_attr *attr, struct ib_udata *uhw)
{
	int err;

	err = mroce_udata_none(uhw);
	if (err)
		return err;
	attr->fw_ver = MROCE_WIRE_VERSION;
	attr->sys_image_guid = ibdev->node_guid;
	attr->max_mr_size = MROCE_MAX_MR_SIZE;
	attr->page_size_cap = PAGE_SIZE;
	attr->device_cap_flags = IB_DEVICE_CURR_QP_STATE_MOD |
				 IB_DEVICE_PORT_ACTIVE_EVENT |
				 IB_DEVICE_SYS_IMAGE_GUID |
				 IB_DEVICE_RC_RNR_NAK_GEN;
	attr->kernel_cap_flags = IBK_ALLOW_USER_UNREG;
	attr->max_qp = MROCE_MAX_QP;
	attr->max_qp_wr = MROCE_MAX_QP_WR;
	attr->max_send_sge = MROCE_MAX_SGE;
	attr->max_recv_sge = MROCE_MAX_SGE;
	attr->max_sge_rd = MROCE_MAX_SGE;
	attr->max_cq = MROCE_MAX_CQ;
	attr->max_cqe = MROCE_MAX_CQE;
	attr->max_mr = MROCE_MAX_MR;
	attr->max_pd = MROCE_MAX_PD;
	attr->max_qp_rd_atom = MROCE_MAX_RD_ATOMIC;
	attr->max_qp_init_rd_atom = MROCE_MAX_RD_ATOMIC;
	attr->max_res_rd_atom = MROCE_MAX_RD_ATOMIC * MROCE_MAX_QP;
	attr->atomic_cap = IB_ATOMIC_GLOB;	/* the CPU's own instructions */
	attr->max_pkeys = 1;
	attr->local_ca_ack_delay = 15;
	attr->timestamp_mask = U64_MAX;
	attr->hca_core_clock = 1000000;		/* kHz: nanoseconds */
	return 0;
}

static int mroce_modify_device(struct ib_device *ibdev, int mask,
			       struct ib_device_modify *modify)
{
	if (mask & ~IB_DEVICE_MODIFY_NODE_DESC)
		return -EOPNOTSUPP;
	if (mask & IB_DEVICE_MODIFY_NODE_DESC)
		memcpy(ibdev->node_desc, modify->node_desc,
		       sizeof(ibdev->node_desc));
	return 0;
}

/*
 * The verbs MTU is for show: packets carry what the connection has negotiated.
 * It is the largest one not above that payload.
 */
static enum ib_mtu mroce_port_mtu(const struct net_device *ndev)
{
	return ib_mtu_int_to_enum(mroce_payload_for_mtu(READ_ONCE(ndev->mtu), 6));
}

static int mroce_query_port(struct ib_device *ibdev, u32 port_num,
			    struct ib_port_attr *attr)
{
	/* held by a reference until dealloc_driver, after the last operation (faults B18) */
	struct net_device *ndev = to_mdev(ibdev)->ndev;

	attr->gid_tbl_len = MROCE_GID_TABLE;
	attr->pkey_tbl_len = 1;
	attr->max_msg_sz = MROCE_MAX_MSG;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = mroce_port_mtu(ndev);
	attr->max_vl_num = 1;
	attr->ip_gids = true;
	if (mroce_port_up(ndev)) {
		attr->state = IB_PORT_ACTIVE;
		attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
	} else {
		attr->state = IB_PORT_DOWN;
		attr->phys_state = IB_PORT_PHYS_STATE_DISABLED;
	}
	attr->active_width = IB_WIDTH_1X;
	attr->active_speed = IB_SPEED_SDR;
	/* -ENODEV while the netdev is being taken away: the port is down, the rest is moot */
	ib_get_eth_speed(ibdev, port_num, &attr->active_speed,
			 &attr->active_width);
	return 0;
}

static int mroce_modify_port(struct ib_device *ibdev, u32 port_num, int mask,
			     struct ib_port_modify *modify)
{
	/* Nothing can be set; the counter that can be reset is always 0. */
	return mask & ~IB_PORT_RESET_QKEY_CNTR ? -EOPNOTSUPP : 0;
}

/*
 * Of which netdev and of those above it the core puts the addresses into the
 * GID table.  It leaves a VLAN's out unless this is the netdev below, whose
 * own then come along: a QP that names one of those is refused.
 */
static struct net_device *mroce_get_netdev(struct ib_device *ibdev, u32 port_num)
{
	struct net_device *ndev = to_mdev(ibdev)->ndev;
	struct net_device *below = rdma_vlan_dev_real_dev(ndev);

	if (below)
		ndev = below;
	dev_hold(ndev);	/* the core drops it */
	return ndev;
}

static enum rdma_link_layer mroce_get_link_layer(struct ib_device *ibdev,
						 u32 port_num)
{
	return IB_LINK_LAYER_ETHERNET;
}

/* Which management the port takes part in: part 2 adds MAD and CM with UD queue pairs, here. */
static int mroce_get_port_immutable(struct ib_device *ibdev, u32 port_num,
				    struct ib_port_immutable *immutable)
{
	immutable->core_cap_flags = RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP |
				    RDMA_CORE_CAP_ETH_AH;
	immutable->gid_tbl_len = MROCE_GID_TABLE;
	immutable->pkey_tbl_len = 1;
	immutable->max_mad_size = 0;
	return 0;
}

static int mroce_query_pkey(struct ib_device *ibdev, u32 port_num, u16 index,
			    u16 *pkey)
{
	if (index)
		return -EINVAL;
	*pkey = IB_DEFAULT_PKEY_FULL;
	return 0;
}

static void mroce_get_dev_fw_str(struct ib_device *ibdev, char *str)
{
	snprintf(str, IB_FW_VERSION_NAME_MAX, "wire %d, abi %d",
		 MROCE_WIRE_VERSION, METAROCE_ABI_VERSION);
}

static int mroce_alloc_ucontext(struct ib_ucontext *uctx,
				struct ib_udata *udata)
{
	struct metaroce_alloc_ucontext_req req;
	struct metaroce_alloc_ucontext_resp resp = {
		.max_inline = MROCE_MAX_INLINE,
		.max_send_sge = MROCE_MAX_SGE,
		.max_recv_sge = MROCE_MAX_SGE,
	};
	int err;

	err = mroce_udata_in(udata, &req, sizeof(req));
	if (err)
		return err;
	if (req.comp_mask)
		return -EOPNOTSUPP;
	if (req.resv)
		return -EINVAL;
	return mroce_udata_out(udata, &resp, sizeof(resp));
}

static void mroce_dealloc_ucontext(struct ib_ucontext *uctx)
{
}

/*
 * That this exists lets a device go while programs have it open.  Nothing is
 * left to do here: when the core calls it, it has destroyed the context's
 * objects by their ordinary verbs (see the head of ctl/link.c), and what
 * user space still has mapped are pages of its own that say "gone".
 */
static void mroce_disassociate_ucontext(struct ib_ucontext *uctx)
{
}

static int mroce_alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return mroce_udata_none(udata);
}

static int mroce_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static int mroce_create_cq_op(struct ib_cq *ibcq,
			      const struct ib_cq_init_attr *attr,
			      MROCE_CREATE_CQ_LAST)
{
	return mroce_cq_create(ibcq, attr, MROCE_CREATE_CQ_UDATA);
}

const struct ib_device_ops mroce_dev_ops = {
	.owner = THIS_MODULE,
	.driver_id = (enum rdma_driver_id)METAROCE_DRIVER_ID,
	.uverbs_abi_ver = METAROCE_ABI_VERSION,

	.alloc_hw_port_stats = mroce_alloc_hw_port_stats,
	.alloc_pd = mroce_alloc_pd,
	.alloc_ucontext = mroce_alloc_ucontext,
	.create_cq = mroce_create_cq_op,
	.create_qp = mroce_create_qp,
	.dealloc_driver = mroce_dealloc_driver,
	.dealloc_pd = mroce_dealloc_pd,
	.dealloc_ucontext = mroce_dealloc_ucontext,
	.dereg_mr = mroce_dereg_mr,
	.destroy_cq = mroce_destroy_cq,
	.destroy_qp = mroce_destroy_qp,
	.disassociate_ucontext = mroce_disassociate_ucontext,
	.enable_driver = mroce_enable_driver,
	.fill_res_cq_entry = mroce_fill_res_cq,
	.fill_res_mr_entry = mroce_fill_res_mr,
	.fill_res_qp_entry = mroce_fill_res_qp,
	.get_dev_fw_str = mroce_get_dev_fw_str,
	.get_dma_mr = mroce_get_dma_mr,
	.get_hw_stats = mroce_get_hw_stats,
	.get_link_layer = mroce_get_link_layer,
	.get_netdev = mroce_get_netdev,
	.get_port_immutable = mroce_get_port_immutable,
	.mmap = mroce_mmap,
	.mmap_free = mroce_mmap_free,
	.modify_device = mroce_modify_device,
	.modify_port = mroce_modify_port,
	.modify_qp = mroce_modify_qp,
	.poll_cq = mroce_poll_cq,
	.post_recv = mroce_post_recv,
	.post_send = mroce_post_send,
	.query_device = mroce_query_device,
	.query_pkey = mroce_query_pkey,
	.query_port = mroce_query_port,
	.query_qp = mroce_query_qp,
	.reg_user_mr = mroce_reg_user_mr,
	.req_notify_cq = mroce_req_notify_cq,
	.rereg_user_mr = mroce_rereg_user_mr,
	.resize_cq = mroce_resize_cq,

	INIT_RDMA_OBJ_SIZE(ib_cq, mroce_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_pd, mroce_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_qp, mroce_ibqp, ibqp),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, mroce_ucontext, ibuc),
};

/* Process context. */
void mroce_verbs_setup(struct mroce_dev *dev)
{
	struct ib_device *ibdev = &dev->ib;

	xa_init_flags(&dev->qps, XA_FLAGS_ALLOC);
	xa_init_flags(&dev->mrs, XA_FLAGS_ALLOC);
	dev->next_qpn = MROCE_MIN_QPN + get_random_u32() % MROCE_LAST_QPN_START;
	dev->next_mr = 1 + get_random_u16();

	ibdev->node_type = RDMA_NODE_IB_CA;
	ibdev->phys_port_cnt = 1;
	ibdev->num_comp_vectors = num_possible_cpus();
	strscpy(ibdev->node_desc, "MetaRoCE", sizeof(ibdev->node_desc));
	addrconf_addr_eui48((u8 *)&ibdev->node_guid, dev->ndev->dev_addr);
	/* the doorbell, and arming; receives and polling are user space's own */
	ibdev->uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_POST_SEND) |
				  BIT_ULL(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ);
}
