/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The provider interface of libibverbs, private ABI 34 (rdma-core 44 to 56).
 *
 * Inside an rdma-core tree (METAROCE_IN_TREE) this is rdma-core's own header.
 * Distributions install libibverbs without it, so for every other build the
 * few structures and functions that this provider uses are declared here.
 * Their layout was compared with releases 44, 45, 46, 48, 50, 51, 53, 55 and
 * 56; the numbers asserted at the end are the result (64-bit).
 *
 * One thing did change inside private ABI 34: release 45 appended wr_flush to
 * struct ibv_qp_ex, which moved what follows it in struct verbs_qp.  See
 * mroce_qp_mark_ex() in qp.c, which copes with either.
 */
#ifndef METAROCE_VERBS_PRIVATE_H
#define METAROCE_VERBS_PRIVATE_H

#ifdef METAROCE_IN_TREE

#include <config.h>
#include <infiniband/driver.h>
#include <util/compiler.h>

#else

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

#ifndef container_of
#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))
#endif

/* Requests: the command header, then the kernel's structure, then driver data. */
#define MROCE_REQUEST(name, kernel_struct)			\
	struct name {						\
		struct ib_uverbs_cmd_hdr hdr;			\
		struct kernel_struct core_payload;		\
	};							\
	_Static_assert(sizeof(struct name) ==			\
		       sizeof(struct ib_uverbs_cmd_hdr) +	\
		       sizeof(struct kernel_struct), "padding in " #name)

MROCE_REQUEST(ibv_alloc_mw, ib_uverbs_alloc_mw);
MROCE_REQUEST(ibv_alloc_pd, ib_uverbs_alloc_pd);
MROCE_REQUEST(ibv_create_qp, ib_uverbs_create_qp);
MROCE_REQUEST(ibv_create_xsrq, ib_uverbs_create_xsrq);
MROCE_REQUEST(ibv_get_context, ib_uverbs_get_context);
MROCE_REQUEST(ibv_modify_qp, ib_uverbs_modify_qp);
MROCE_REQUEST(ibv_modify_srq, ib_uverbs_modify_srq);
MROCE_REQUEST(ibv_open_qp, ib_uverbs_open_qp);
MROCE_REQUEST(ibv_open_xrcd, ib_uverbs_open_xrcd);
MROCE_REQUEST(ibv_query_port, ib_uverbs_query_port);
MROCE_REQUEST(ibv_query_qp, ib_uverbs_query_qp);
MROCE_REQUEST(ibv_query_srq, ib_uverbs_query_srq);
MROCE_REQUEST(ibv_reg_mr, ib_uverbs_reg_mr);
MROCE_REQUEST(ibv_rereg_mr, ib_uverbs_rereg_mr);
MROCE_REQUEST(ibv_resize_cq, ib_uverbs_resize_cq);

struct ibv_create_cq_ex;	/* no driver data: never looked into */

enum verbs_qp_mask {
	VERBS_QP_XRCD = 1 << 0,
	VERBS_QP_EX = 1 << 1,
};

enum ibv_mr_type {
	IBV_MR_TYPE_MR = 0,
};

struct verbs_xrcd {
	struct ibv_xrcd xrcd;
	uint32_t comp_mask;
	uint32_t handle;
};

struct verbs_srq {
	struct ibv_srq srq;
	enum ibv_srq_type srq_type;
	struct verbs_xrcd *xrcd;
	struct ibv_cq *cq;
	uint32_t srq_num;
};

struct verbs_mr {
	struct ibv_mr ibv_mr;
	enum ibv_mr_type mr_type;
	int access;
};

struct verbs_qp {
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex qp_ex;
	};
	uint32_t comp_mask;
	struct verbs_xrcd *xrcd;
};

struct verbs_cq {
	union {
		struct ibv_cq cq;
		struct ibv_cq_ex cq_ex;
	};
};

enum {
	VERBS_MATCH_SENTINEL = 0,
	VERBS_MATCH_DRIVER_ID = 3,
};

struct verbs_match_ent {
	void *driver_data;
	union {
		const char *modalias;
		uint64_t driver_id;
	} u;
	uint16_t vendor;
	uint16_t device;
	uint8_t kind;
};

#define VERBS_DRIVER_ID(id) \
	{ .u.driver_id = (id), .kind = VERBS_MATCH_DRIVER_ID }

struct verbs_sysfs_dev;
struct verbs_device;

struct verbs_device_ops {
	const char *name;
	uint32_t match_min_abi_version;
	uint32_t match_max_abi_version;
	const struct verbs_match_ent *match_table;
	const struct verbs_device_ops **static_providers;
	bool (*match_device)(struct verbs_sysfs_dev *dev);
	struct verbs_context *(*alloc_context)(struct ibv_device *device,
					       int cmd_fd, void *private_data);
	struct verbs_context *(*import_context)(struct ibv_device *device,
						int cmd_fd);
	struct verbs_device *(*alloc_device)(struct verbs_sysfs_dev *dev);
	void (*uninit_device)(struct verbs_device *device);
};

struct verbs_list_node {
	struct verbs_list_node *next, *prev;
};

struct verbs_device {
	struct ibv_device device;
	const struct verbs_device_ops *ops;
	atomic_int refcount;
	struct verbs_list_node entry;
	struct verbs_sysfs_dev *sysfs;
	uint64_t core_support;
};

/*
 * The table of context operations is sorted by name.  The ones that this
 * provider leaves to libibverbs are mere slots.
 */
typedef void (*verbs_slot)(void);

struct verbs_context_ops {
	verbs_slot advise_mr, alloc_dm;
	struct ibv_mw *(*alloc_mw)(struct ibv_pd *pd, enum ibv_mw_type type);
	verbs_slot alloc_null_mr;
	struct ibv_pd *(*alloc_parent_domain)(struct ibv_context *context,
			struct ibv_parent_domain_init_attr *attr);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	struct ibv_td *(*alloc_td)(struct ibv_context *context,
				   struct ibv_td_init_attr *attr);
	verbs_slot async_event, attach_counters_point_flow;
	int (*attach_mcast)(struct ibv_qp *qp, const union ibv_gid *gid,
			    uint16_t lid);
	int (*bind_mw)(struct ibv_qp *qp, struct ibv_mw *mw,
		       struct ibv_mw_bind *bind);
	int (*close_xrcd)(struct ibv_xrcd *xrcd);
	verbs_slot cq_event;
	struct ibv_ah *(*create_ah)(struct ibv_pd *pd, struct ibv_ah_attr *attr);
	verbs_slot create_counters;
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe,
				    struct ibv_comp_channel *channel,
				    int comp_vector);
	struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *context,
					  struct ibv_cq_init_attr_ex *attr);
	verbs_slot create_flow, create_flow_action_esp;
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd,
				    struct ibv_qp_init_attr *attr);
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *context,
				       struct ibv_qp_init_attr_ex *attr);
	verbs_slot create_rwq_ind_table;
	struct ibv_srq *(*create_srq)(struct ibv_pd *pd,
				      struct ibv_srq_init_attr *attr);
	struct ibv_srq *(*create_srq_ex)(struct ibv_context *context,
					 struct ibv_srq_init_attr_ex *attr);
	verbs_slot create_wq;
	int (*dealloc_mw)(struct ibv_mw *mw);
	int (*dealloc_pd)(struct ibv_pd *pd);
	int (*dealloc_td)(struct ibv_td *td);
	int (*dereg_mr)(struct verbs_mr *vmr);
	int (*destroy_ah)(struct ibv_ah *ah);
	verbs_slot destroy_counters;
	int (*destroy_cq)(struct ibv_cq *cq);
	verbs_slot destroy_flow, destroy_flow_action;
	int (*destroy_qp)(struct ibv_qp *qp);
	verbs_slot destroy_rwq_ind_table;
	int (*destroy_srq)(struct ibv_srq *srq);
	verbs_slot destroy_wq;
	int (*detach_mcast)(struct ibv_qp *qp, const union ibv_gid *gid,
			    uint16_t lid);
	void (*free_context)(struct ibv_context *context);
	verbs_slot free_dm;
	int (*get_srq_num)(struct ibv_srq *srq, uint32_t *srq_num);
	verbs_slot import_dm, import_mr, import_pd, modify_cq;
	verbs_slot modify_flow_action_esp;
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	verbs_slot modify_qp_rate_limit;
	int (*modify_srq)(struct ibv_srq *srq, struct ibv_srq_attr *attr,
			  int mask);
	verbs_slot modify_wq;
	struct ibv_qp *(*open_qp)(struct ibv_context *context,
				  struct ibv_qp_open_attr *attr);
	struct ibv_xrcd *(*open_xrcd)(struct ibv_context *context,
				      struct ibv_xrcd_init_attr *attr);
	int (*poll_cq)(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad_wr);
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr,
			 struct ibv_send_wr **bad_wr);
	verbs_slot post_srq_ops;
	int (*post_srq_recv)(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			     struct ibv_recv_wr **bad_wr);
	int (*query_device_ex)(struct ibv_context *context,
			       const struct ibv_query_device_ex_input *input,
			       struct ibv_device_attr_ex *attr,
			       size_t attr_size);
	verbs_slot query_ece;
	int (*query_port)(struct ibv_context *context, uint8_t port_num,
			  struct ibv_port_attr *attr);
	int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			struct ibv_qp_init_attr *init_attr);
	int (*query_qp_data_in_order)(struct ibv_qp *qp, enum ibv_wr_opcode op,
				      uint32_t flags);
	int (*query_rt_values)(struct ibv_context *context,
			       struct ibv_values_ex *values);
	int (*query_srq)(struct ibv_srq *srq, struct ibv_srq_attr *attr);
	verbs_slot read_counters, reg_dm_mr, reg_dmabuf_mr;
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length,
				 uint64_t hca_va, int access);
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
	int (*rereg_mr)(struct verbs_mr *vmr, int flags, struct ibv_pd *pd,
			void *addr, size_t length, int access);
	int (*resize_cq)(struct ibv_cq *cq, int cqe);
	verbs_slot set_ece, unimport_dm, unimport_mr, unimport_pd;
};

/* Registration.  The number in the name is the private ABI's. */
void verbs_register_driver_34(const struct verbs_device_ops *ops);

#define PROVIDER_DRIVER(name, ops)						\
	static __attribute__((constructor)) void name##_register(void)		\
	{									\
		verbs_register_driver_34(&(ops));				\
	}

void *_verbs_init_and_alloc_context(struct ibv_device *device, int cmd_fd,
				    size_t alloc_size,
				    struct verbs_context *context_offset,
				    uint32_t driver_id);

#define verbs_init_and_alloc_context(device, cmd_fd, ptr, member, driver_id)	\
	((__typeof__(ptr))_verbs_init_and_alloc_context(device, cmd_fd,		\
		sizeof(*(ptr)),							\
		(struct verbs_context *)offsetof(__typeof__(*(ptr)), member),	\
		driver_id))

void verbs_uninit_context(struct verbs_context *context);
void verbs_set_ops(struct verbs_context *context,
		   const struct verbs_context_ops *ops);

/* Commands to the kernel: 0 or a positive errno. */
int ibv_cmd_get_context(struct verbs_context *context,
			struct ibv_get_context *cmd, size_t cmd_size,
			struct ib_uverbs_get_context_resp *resp,
			size_t resp_size);
int ibv_cmd_query_device_any(struct ibv_context *context,
			     const struct ibv_query_device_ex_input *input,
			     struct ibv_device_attr_ex *attr, size_t attr_size,
			     struct ib_uverbs_ex_query_device_resp *resp,
			     size_t *resp_size);
int ibv_cmd_query_port(struct ibv_context *context, uint8_t port_num,
		       struct ibv_port_attr *attr, struct ibv_query_port *cmd,
		       size_t cmd_size);

int ibv_cmd_alloc_pd(struct ibv_context *context, struct ibv_pd *pd,
		     struct ibv_alloc_pd *cmd, size_t cmd_size,
		     struct ib_uverbs_alloc_pd_resp *resp, size_t resp_size);
int ibv_cmd_dealloc_pd(struct ibv_pd *pd);
int ibv_cmd_open_xrcd(struct ibv_context *context, struct verbs_xrcd *xrcd,
		      int vxrcd_size, struct ibv_xrcd_init_attr *attr,
		      struct ibv_open_xrcd *cmd, size_t cmd_size,
		      struct ib_uverbs_open_xrcd_resp *resp, size_t resp_size);
int ibv_cmd_close_xrcd(struct verbs_xrcd *xrcd);

int ibv_cmd_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
		   uint64_t hca_va, int access, struct verbs_mr *vmr,
		   struct ibv_reg_mr *cmd, size_t cmd_size,
		   struct ib_uverbs_reg_mr_resp *resp, size_t resp_size);
int ibv_cmd_rereg_mr(struct verbs_mr *vmr, uint32_t flags, void *addr,
		     size_t length, uint64_t hca_va, int access,
		     struct ibv_pd *pd, struct ibv_rereg_mr *cmd,
		     size_t cmd_size, struct ib_uverbs_rereg_mr_resp *resp,
		     size_t resp_size);
int ibv_cmd_dereg_mr(struct verbs_mr *vmr);
int ibv_cmd_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type,
		     struct ibv_mw *mw, struct ibv_alloc_mw *cmd,
		     size_t cmd_size, struct ib_uverbs_alloc_mw_resp *resp,
		     size_t resp_size);
int ibv_cmd_dealloc_mw(struct ibv_mw *mw);

int ibv_cmd_create_cq_ex(struct ibv_context *context,
			 const struct ibv_cq_init_attr_ex *attr,
			 struct verbs_cq *cq, struct ibv_create_cq_ex *cmd,
			 size_t cmd_size,
			 struct ib_uverbs_ex_create_cq_resp *resp,
			 size_t resp_size, uint32_t cmd_flags);
int ibv_cmd_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int ibv_cmd_resize_cq(struct ibv_cq *cq, int cqe, struct ibv_resize_cq *cmd,
		      size_t cmd_size, struct ib_uverbs_resize_cq_resp *resp,
		      size_t resp_size);
int ibv_cmd_destroy_cq(struct ibv_cq *cq);

int ibv_cmd_create_srq_ex(struct ibv_context *context, struct verbs_srq *srq,
			  struct ibv_srq_init_attr_ex *attr,
			  struct ibv_create_xsrq *cmd, size_t cmd_size,
			  struct ib_uverbs_create_srq_resp *resp,
			  size_t resp_size);
int ibv_cmd_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr,
		       int mask, struct ibv_modify_srq *cmd, size_t cmd_size);
int ibv_cmd_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr,
		      struct ibv_query_srq *cmd, size_t cmd_size);
int ibv_cmd_destroy_srq(struct ibv_srq *srq);

int ibv_cmd_create_qp_ex(struct ibv_context *context, struct verbs_qp *qp,
			 struct ibv_qp_init_attr_ex *attr,
			 struct ibv_create_qp *cmd, size_t cmd_size,
			 struct ib_uverbs_create_qp_resp *resp,
			 size_t resp_size);
int ibv_cmd_open_qp(struct ibv_context *context, struct verbs_qp *qp,
		    int vqp_size, struct ibv_qp_open_attr *attr,
		    struct ibv_open_qp *cmd, size_t cmd_size,
		    struct ib_uverbs_create_qp_resp *resp, size_t resp_size);
int ibv_cmd_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		     struct ibv_qp_init_attr *init_attr,
		     struct ibv_query_qp *cmd, size_t cmd_size);
int ibv_cmd_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		      struct ibv_modify_qp *cmd, size_t cmd_size);
int ibv_cmd_destroy_qp(struct ibv_qp *qp);
int ibv_cmd_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		      struct ibv_send_wr **bad_wr);
int ibv_cmd_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid,
			 uint16_t lid);
int ibv_cmd_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid,
			 uint16_t lid);

int ibv_cmd_create_ah(struct ibv_pd *pd, struct ibv_ah *ah,
		      struct ibv_ah_attr *attr,
		      struct ib_uverbs_create_ah_resp *resp, size_t resp_size);
int ibv_cmd_destroy_ah(struct ibv_ah *ah);

/* What libibverbs expects of these structures, as found in its releases. */
#define MROCE_SIZE(s, n) \
	_Static_assert(sizeof(struct s) == (n), "size of " #s)
#define MROCE_OFFSET(s, m, n) \
	_Static_assert(offsetof(struct s, m) == (n), #s "." #m)

#define MROCE_OP(m, n) MROCE_OFFSET(verbs_context_ops, m, (n) * sizeof(void *))
MROCE_SIZE(verbs_context_ops, 76 * sizeof(void *));
MROCE_OP(alloc_mw, 2);
MROCE_OP(alloc_parent_domain, 4);
MROCE_OP(attach_mcast, 9);
MROCE_OP(close_xrcd, 11);
MROCE_OP(create_ah, 13);
MROCE_OP(create_cq, 15);
MROCE_OP(create_qp, 19);
MROCE_OP(create_srq, 22);
MROCE_OP(dealloc_mw, 25);
MROCE_OP(destroy_cq, 31);
MROCE_OP(destroy_qp, 34);
MROCE_OP(destroy_srq, 36);
MROCE_OP(detach_mcast, 38);
MROCE_OP(free_context, 39);
MROCE_OP(get_srq_num, 41);
MROCE_OP(modify_qp, 47);
MROCE_OP(modify_srq, 49);
MROCE_OP(open_qp, 51);
MROCE_OP(poll_cq, 53);
MROCE_OP(post_srq_recv, 57);
MROCE_OP(query_device_ex, 58);
MROCE_OP(query_port, 60);
MROCE_OP(query_srq, 64);
MROCE_OP(reg_mr, 68);
MROCE_OP(resize_cq, 71);
MROCE_OP(unimport_pd, 75);
#undef MROCE_OP

#if defined(__LP64__)
MROCE_SIZE(verbs_xrcd, 16);
MROCE_OFFSET(verbs_xrcd, handle, 12);
MROCE_SIZE(verbs_srq, 160);
MROCE_OFFSET(verbs_srq, srq_type, 128);
MROCE_OFFSET(verbs_srq, srq_num, 152);
MROCE_SIZE(verbs_mr, 56);
MROCE_OFFSET(verbs_mr, access, 52);
MROCE_SIZE(verbs_cq, 288);
MROCE_SIZE(verbs_match_ent, 24);
MROCE_OFFSET(verbs_match_ent, kind, 20);
MROCE_SIZE(verbs_device_ops, 72);
MROCE_OFFSET(verbs_device_ops, match_table, 16);
MROCE_OFFSET(verbs_device_ops, alloc_context, 40);
MROCE_OFFSET(verbs_device_ops, uninit_device, 64);
MROCE_SIZE(verbs_device, 712);
MROCE_OFFSET(verbs_device, ops, 664);
MROCE_OFFSET(verbs_device, entry, 680);
MROCE_OFFSET(verbs_device, core_support, 704);
MROCE_SIZE(verbs_context, 648);
MROCE_OFFSET(verbs_context, priv, 208);
MROCE_OFFSET(verbs_context, context, 320);
_Static_assert(offsetof(struct verbs_qp, comp_mask) == 352 ||	/* 44 */
	       offsetof(struct verbs_qp, comp_mask) == 360,	/* 45 and later */
	       "verbs_qp.comp_mask");
#endif
MROCE_SIZE(ibv_get_context, 16);
MROCE_SIZE(ibv_create_qp, 64);
MROCE_SIZE(ibv_create_xsrq, 56);
MROCE_SIZE(ib_uverbs_get_context_resp, 8);
MROCE_SIZE(ib_uverbs_ex_create_cq_resp, 16);
MROCE_SIZE(ib_uverbs_resize_cq_resp, 8);
MROCE_SIZE(ib_uverbs_create_qp_resp, 32);
MROCE_SIZE(ib_uverbs_create_srq_resp, 16);
MROCE_SIZE(ib_uverbs_create_ah_resp, 4);
#undef MROCE_SIZE
#undef MROCE_OFFSET

#endif	/* METAROCE_IN_TREE */

#endif
