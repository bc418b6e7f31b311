// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "handle.h"

#include <cerrno>

namespace mv {

Pd make_pd(ibv_context *context)
{
	Pd pd(ibv_alloc_pd(context));

	require(pd != nullptr, "ibv_alloc_pd: ", errno_name(errno));
	return pd;
}

Channel make_channel(ibv_context *context)
{
	Channel channel(ibv_create_comp_channel(context));

	require(channel != nullptr, "ibv_create_comp_channel: ", errno_name(errno));
	return channel;
}

Cq make_cq(ibv_context *context, int entries, ibv_comp_channel *channel)
{
	Cq cq(ibv_create_cq(context, entries, nullptr, channel, 0));

	require(cq != nullptr, "ibv_create_cq(", entries, "): ", errno_name(errno));
	require(cq->cqe >= entries, "CQ of ", entries, " entries asked, ", cq->cqe, " given");
	return cq;
}

Mr try_mr(ibv_pd *pd, void *address, size_t length, unsigned access)
{
	errno = 0;
	return Mr(ibv_reg_mr(pd, address, length, access));
}

Mr make_mr(ibv_pd *pd, void *address, size_t length, unsigned access)
{
	Mr mr = try_mr(pd, address, length, access);

	require(mr != nullptr, "ibv_reg_mr of ", length, " bytes, access ", access, ": ", errno_name(errno));
	return mr;
}

} // namespace mv
