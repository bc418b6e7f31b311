// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Owners of verbs objects. A destroy call that fails is recorded and fails the case.
#pragma once

#include "outcome.h"

#include <infiniband/verbs.h>
#include <memory>

namespace mv {

template <auto Destroy>
struct Destroyer {
	template <class Object>
	void operator()(Object *object) const
	{
		int returned = Destroy(object);

		if (returned)
			record_cleanup_failure(cat("destroying a ", type_name(object), ": ", errno_name(error_of(returned))));
	}

	static const char *type_name(ibv_context *) { return "context"; }
	static const char *type_name(ibv_pd *) { return "PD"; }
	static const char *type_name(ibv_mr *) { return "MR"; }
	static const char *type_name(ibv_comp_channel *) { return "completion channel"; }
	static const char *type_name(ibv_cq *) { return "CQ"; }
	static const char *type_name(ibv_qp *) { return "QP"; }
	static const char *type_name(ibv_srq *) { return "SRQ"; }
	static const char *type_name(ibv_ah *) { return "AH"; }
};

using Context = std::unique_ptr<ibv_context, Destroyer<ibv_close_device>>;
using Pd = std::unique_ptr<ibv_pd, Destroyer<ibv_dealloc_pd>>;
using Mr = std::unique_ptr<ibv_mr, Destroyer<ibv_dereg_mr>>;
using Channel = std::unique_ptr<ibv_comp_channel, Destroyer<ibv_destroy_comp_channel>>;
using Cq = std::unique_ptr<ibv_cq, Destroyer<ibv_destroy_cq>>;
using Qp = std::unique_ptr<ibv_qp, Destroyer<ibv_destroy_qp>>;
using Srq = std::unique_ptr<ibv_srq, Destroyer<ibv_destroy_srq>>;

constexpr unsigned local_write = IBV_ACCESS_LOCAL_WRITE;
constexpr unsigned remote_write = IBV_ACCESS_REMOTE_WRITE;
constexpr unsigned remote_read = IBV_ACCESS_REMOTE_READ;
constexpr unsigned remote_atomic = IBV_ACCESS_REMOTE_ATOMIC;
constexpr unsigned all_access = local_write | remote_write | remote_read | remote_atomic;

[[nodiscard]] Pd make_pd(ibv_context *context);
[[nodiscard]] Channel make_channel(ibv_context *context);
[[nodiscard]] Cq make_cq(ibv_context *context, int entries, ibv_comp_channel *channel = nullptr);

// Null with errno set when refused.
[[nodiscard]] Mr try_mr(ibv_pd *pd, void *address, size_t length, unsigned access);
Mr make_mr(ibv_pd *pd, void *address, size_t length, unsigned access);

} // namespace mv
