// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Two threads: a program that posts and polls, a kernel that consumes and
 * completes.  Every entry carries its number in several places.  The kernel
 * sleeps by the `watching` protocol, so that a lost doorbell ends in a hang
 * (and the watchdog's failure).
 *
 *   test_stress [messages]
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_kernel.h"
#include "tap.h"

#define ENTRIES	64

static uint64_t messages = 10000000;
static sem_t bell;
static uint64_t broken, sleeps;

static void ring_bell(void)
{
	sem_post(&bell);
}

/* One request: compare, complete it. */
static void serve(uint64_t n)
{
	const struct metaroce_sqe *sqe = fake_slot(&fake.sq, (uint32_t)n);
	struct metaroce_sge sge[2];
	struct metaroce_cqe cqe = { 0 };
	uint64_t inl;

	if (sqe->wr_id != n || sqe->remote.addr != ~n)
		broken++;
	if (sqe->flags & METAROCE_WR_INLINE) {
		memcpy(&inl, (const uint8_t *)sqe + METAROCE_SQE_HDR +
		       METAROCE_INLINE_HDR, 8);
		if (inl != n * 3)
			broken++;
	} else {
		memcpy(sge, sqe + 1, sizeof(sge));
		if (sqe->num_sge != 2 || sge[0].addr != n ||
		    sge[1].lkey != (uint32_t)n)
			broken++;
	}
	cqe.wr_id = n;
	cqe.timestamp = ~n;
	cqe.imm_inv = (uint32_t)n;
	cqe.vendor_err = (uint32_t)n;
	while (fake.cq.own - mroce_load_acquire(&fake.cq.hdr->cons) == fake.cq.info.entries)
		sched_yield();
	fake_complete(&fake.cq, &cqe);
}

static void *kernel(void *arg)
{
	uint64_t n = 0;
	uint32_t prod;

	(void)arg;
	while (n < messages) {
		prod = mroce_load_acquire(&fake.sq.hdr->prod);
		if (prod == (uint32_t)n) {
			/* Store 0, full fence, look again; only then sleep. */
			mroce_store_release(&fake.sq.hdr->watching, 0);
			atomic_thread_fence(memory_order_seq_cst);
			if (mroce_load_acquire(&fake.sq.hdr->prod) == (uint32_t)n) {
				sleeps++;
				while (sem_wait(&bell))
					;
			}
			continue;
		}
		mroce_store_release(&fake.sq.hdr->watching, 1);
		for (; (uint32_t)n != prod; n++) {
			serve(n);
			mroce_store_release(&fake.sq.hdr->cons, (uint32_t)n + 1);
		}
	}
	return NULL;
}

static int post(struct ibv_qp *qp, uint64_t n)
{
	struct ibv_send_wr wr = { .wr_id = n, .opcode = IBV_WR_RDMA_WRITE }, *bad;
	struct ibv_sge sge[2];
	uint64_t inl = n * 3;

	wr.wr.rdma.remote_addr = ~n;
	wr.sg_list = sge;
	if (n & 1) {
		wr.send_flags = IBV_SEND_INLINE;
		wr.num_sge = 1;
		sge[0] = (struct ibv_sge){ .addr = (uintptr_t)&inl, .length = 8 };
	} else {
		wr.num_sge = 2;
		sge[0] = (struct ibv_sge){ .addr = n, .length = 1 };
		sge[1] = (struct ibv_sge){ .addr = n, .length = 1, .lkey = (uint32_t)n };
	}
	return fake.ops->post_send(qp, &wr, &bad);
}

static uint64_t poll_some(struct ibv_cq *cq, uint64_t expect)
{
	struct ibv_wc wc[16];
	int i, n = fake.ops->poll_cq(cq, 16, wc);

	for (i = 0; i < n; i++, expect++)
		if (wc[i].wr_id != expect || wc[i].imm_data != (uint32_t)expect ||
		    wc[i].vendor_err != (uint32_t)expect)
			broken++;
	if (n <= 0)
		sched_yield();
	return expect;
}

int main(int argc, char **argv)
{
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = ENTRIES, .max_send_sge = 2 },
		.comp_mask = IBV_QP_INIT_ATTR_PD };
	uint64_t posted = 0, polled = 0, full = 0;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	pthread_t thread;
	int ret;

	if (argc > 1)
		messages = strtoull(argv[1], NULL, 0);
	alarm(600);
	sem_init(&bell, 0, 0);
	fake.doorbell = ring_bell;
	fake_open();
	attr.pd = fake.ops->alloc_pd(fake.context);
	cq = fake.ops->create_cq(fake.context, ENTRIES / 2, NULL, 0);
	qp = fake.ops->create_qp_ex(fake.context, &attr);
	qp->state = IBV_QPS_RTS;
	pthread_create(&thread, NULL, kernel, NULL);

	while (polled < messages) {
		/* Run dry now and then, or the kernel never gets to sleep. */
		while (posted < messages &&
		       (posted % 1000 || polled == posted)) {
			ret = post(qp, posted);
			if (ret == ENOMEM) {
				full++;
				break;
			}
			if (ret) {
				broken++;
				break;
			}
			posted++;
		}
		polled = poll_some(cq, polled);
	}
	pthread_join(thread, NULL);
	ok(!broken, "%llu messages in order and whole", (unsigned long long)messages);
	printf("# queue full %llu times, kernel slept %llu times, %d doorbells\n",
	       (unsigned long long)full, (unsigned long long)sleeps, fake.doorbells);
	ok(full && sleeps, "the ring was full and empty at times");
	fake.ops->destroy_qp(qp);
	fake.ops->destroy_cq(cq);
	fake.ops->dealloc_pd(attr.pd);
	fake_close();
	return tap_done();
}
