// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The counters as `rdma statistic` and hw_counters show them. */
#include <linux/build_bug.h>
#include <linux/cpumask.h>
#include <rdma/ib_verbs.h>

#include "../verbs/device.h"
#include "counters.h"

static const struct rdma_stat_desc mroce_stat_descs[] = {
#define X(counter, text) { .name = #counter, .priv = text },
	MROCE_COUNTERS(X)
#undef X
};

static_assert(ARRAY_SIZE(mroce_stat_descs) == MROCE_CNT_N);

/* Lifespan 0: what sysfs shows is at most a jiffy old (netlink: not at all), for tests use it. */
struct rdma_hw_stats *mroce_alloc_hw_port_stats(struct ib_device *ibdev,
						u32 port_num)
{
	return rdma_alloc_hw_stats_struct(mroce_stat_descs, MROCE_CNT_N, 0);
}

u64 mroce_counter_read(const struct mroce_dev *dev, enum mroce_counter which)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(dev->counters, cpu)->v[which]);
	return sum;
}

int mroce_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats,
		       u32 port, int index)
{
	int i;

	if (!port)
		return -EINVAL;
	for (i = 0; i < MROCE_CNT_N; i++)
		stats->value[i] = mroce_counter_read(to_mdev(ibdev), i);
	return MROCE_CNT_N;
}
