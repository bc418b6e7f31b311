/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Objects of the metaroce provider. */
#ifndef METAROCE_H
#define METAROCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "verbs_private.h"
#include "ring.h"

/* The largest message of any operation. */
#define MROCE_MAX_MSG	(UINT64_C(1) << 31)

/*
 * A queue's lock.  Not taken for objects that the program declared to be used
 * by one thread at a time (thread domains, IBV_CREATE_CQ_ATTR_SINGLE_THREADED).
 */
struct mroce_lock {
	pthread_spinlock_t spin;
	bool shared;
};

static inline int mroce_lock_init(struct mroce_lock *lock, bool shared)
{
	lock->shared = shared;
	return pthread_spin_init(&lock->spin, PTHREAD_PROCESS_PRIVATE);
}

static inline void mroce_lock(struct mroce_lock *lock)
{
	if (lock->shared)
		pthread_spin_lock(&lock->spin);
}

static inline void mroce_unlock(struct mroce_lock *lock)
{
	if (lock->shared)
		pthread_spin_unlock(&lock->spin);
}

struct mroce_device {
	struct verbs_device vdev;
};

struct mroce_context {
	struct verbs_context vctx;
	uint32_t max_inline;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
};

/* A protection domain, or a parent domain around one. */
struct mroce_pd {
	struct ibv_pd pd;
	struct mroce_pd *contained;	/* parent domain: the real one */
	bool single_threaded;		/* parent domain with a thread domain */
	atomic_uint parents;		/* protection domain: how many stand on it */
};

struct mroce_cq {
	struct verbs_cq vcq;
	struct mroce_queue q;
	struct mroce_lock lock;
	const struct metaroce_cqe *cur;	/* extended polling: the entry on show */
	bool lost;			/* the ring could not be mapped again after a resize */
};

struct mroce_rq {
	struct mroce_queue q;
	struct mroce_lock lock;
	uint32_t max_sge;
};

struct mroce_srq {
	struct verbs_srq vsrq;
	struct mroce_rq rq;
};

struct mroce_sq {
	struct mroce_queue q;
	struct mroce_lock lock;
	uint32_t ops;		/* bit per METAROCE_WR_* that this QP may post */
	uint32_t max_sge;
	uint32_t max_inline;
	bool signal_all;
	bool datagram;
	bool xrc;
	/* between wr_start and wr_complete: */
	uint32_t start;		/* index to go back to */
	int error;		/* the first one */
	struct metaroce_sqe *cur;
};

struct mroce_qp {
	struct verbs_qp vqp;
	/* A newer libibverbs than the one compiled against has a longer verbs_qp. */
	void *vqp_tail[2];
	struct mroce_sq sq;
	struct mroce_rq rq;
};

struct mroce_ah {
	struct ibv_ah ah;
	uint32_t index;
};

#define MROCE_TO(type, member) \
	static inline struct mroce_##type *to_mroce_##type(struct ibv_##type *ptr) \
	{ return container_of(ptr, struct mroce_##type, member); }
MROCE_TO(pd, pd)
MROCE_TO(cq, vcq.cq)
MROCE_TO(srq, vsrq.srq)
MROCE_TO(qp, vqp.qp)
MROCE_TO(ah, ah)
#undef MROCE_TO

static inline struct mroce_cq *to_mroce_cq_ex(struct ibv_cq_ex *cq)
{
	return container_of(cq, struct mroce_cq, vcq.cq_ex);
}

static inline struct mroce_qp *to_mroce_qp_ex(struct ibv_qp_ex *qp)
{
	return container_of(qp, struct mroce_qp, vqp.qp_ex);
}

/*
 * The result of a destroy command.  EIO means that the device is gone, and the
 * kernel's object with it: what is left is ours to free, so the program's
 * clean-up succeeds.  (libibverbs can do this for all providers of a process,
 * by an environment variable; a soft device that comes and goes should not
 * depend on that, nor decide it for others.)
 */
static inline int mroce_destroyed(int ret)
{
	return ret == EIO ? 0 : ret;
}

/*
 * A command or response of libibverbs with our driver data right behind it.
 * (Nesting the structures would put flexible arrays in the middle of one.)
 */
#define MROCE_MESSAGE(name, ibv_struct, drv_struct)			\
	union name {							\
		struct ibv_struct ibv;					\
		struct {						\
			uint8_t core[sizeof(struct ibv_struct)];	\
			struct drv_struct drv;				\
		};							\
	};								\
	_Static_assert(offsetof(union name, drv) ==			\
		       sizeof(struct ibv_struct), "padding in " #name)

/* queue.c */
int mroce_queue_map(struct mroce_queue *q, int fd,
		    const struct metaroce_ring_info *info, uint32_t min_stride);
void mroce_queue_unmap(struct mroce_queue *q);
void mroce_queue_reload(struct mroce_queue *q);

/* pd.c */
struct ibv_pd *mroce_alloc_pd(struct ibv_context *context);
int mroce_dealloc_pd(struct ibv_pd *pd);
struct ibv_td *mroce_alloc_td(struct ibv_context *context,
			      struct ibv_td_init_attr *attr);
int mroce_dealloc_td(struct ibv_td *td);
struct ibv_pd *mroce_alloc_parent_domain(struct ibv_context *context,
					 struct ibv_parent_domain_init_attr *attr);
struct ibv_xrcd *mroce_open_xrcd(struct ibv_context *context,
				 struct ibv_xrcd_init_attr *attr);
int mroce_close_xrcd(struct ibv_xrcd *xrcd);
struct ibv_ah *mroce_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int mroce_destroy_ah(struct ibv_ah *ah);

/* mr.c */
struct ibv_mr *mroce_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			    uint64_t hca_va, int access);
int mroce_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd,
		   void *addr, size_t length, int access);
int mroce_dereg_mr(struct verbs_mr *vmr);
struct ibv_mw *mroce_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int mroce_dealloc_mw(struct ibv_mw *mw);

/* cq.c */
struct ibv_cq *mroce_create_cq(struct ibv_context *context, int cqe,
			       struct ibv_comp_channel *channel,
			       int comp_vector);
struct ibv_cq_ex *mroce_create_cq_ex(struct ibv_context *context,
				     struct ibv_cq_init_attr_ex *attr);
int mroce_resize_cq(struct ibv_cq *cq, int cqe);
int mroce_destroy_cq(struct ibv_cq *cq);
int mroce_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
/* As enum ibv_wc_flags. */
static inline unsigned int mroce_wc_flags(const struct metaroce_cqe *cqe)
{
	return (cqe->wc_flags & METAROCE_WC_GRH ? IBV_WC_GRH : 0U) |
	       (cqe->wc_flags & METAROCE_WC_IMM ? IBV_WC_WITH_IMM : 0U) |
	       (cqe->wc_flags & METAROCE_WC_INV ? IBV_WC_WITH_INV : 0U);
}

const struct metaroce_cqe *mroce_cq_next(struct mroce_cq *cq, int *error);

/* cq_ex.c */
bool mroce_cq_ex_supports(uint64_t wc_flags);
void mroce_cq_ex_init(struct ibv_cq_ex *cq, uint64_t wc_flags);

/* srq.c */
struct ibv_srq *mroce_create_srq(struct ibv_pd *pd,
				 struct ibv_srq_init_attr *attr);
struct ibv_srq *mroce_create_srq_ex(struct ibv_context *context,
				    struct ibv_srq_init_attr_ex *attr);
int mroce_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int mroce_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int mroce_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num);
int mroce_destroy_srq(struct ibv_srq *srq);
int mroce_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			struct ibv_recv_wr **bad_wr);

/* qp.c */
uint32_t mroce_qp_ops(enum ibv_qp_type type);
struct ibv_qp *mroce_create_qp(struct ibv_pd *pd,
			       struct ibv_qp_init_attr *attr);
struct ibv_qp *mroce_create_qp_ex(struct ibv_context *context,
				  struct ibv_qp_init_attr_ex *attr);
struct ibv_qp *mroce_open_qp(struct ibv_context *context,
			     struct ibv_qp_open_attr *attr);
int mroce_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int mroce_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		   struct ibv_qp_init_attr *init_attr);
int mroce_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op,
				 uint32_t flags);
int mroce_destroy_qp(struct ibv_qp *qp);

/* post.c */
int mroce_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		    struct ibv_send_wr **bad_wr);
int mroce_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
		    struct ibv_recv_wr **bad_wr);
int mroce_post_rq(struct mroce_rq *rq, struct ibv_recv_wr *wr,
		  struct ibv_recv_wr **bad_wr);
int mroce_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw,
		  struct ibv_mw_bind *bind);
int mroce_doorbell(struct mroce_qp *qp, const struct mroce_queue *q);

/* wr.c */
bool mroce_wr_supports(enum ibv_qp_type type, uint64_t send_ops_flags);
void mroce_wr_init(struct mroce_qp *qp);

#endif
