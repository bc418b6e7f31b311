// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The mapped rings of a metaroce device, found behind the back of its library, to be written by a hostile hand.
#pragma once

#include "work.h"

#include <atomic>
#include <rdma/metaroce-abi.h>

namespace mv {

// Skips the case unless both devices are of this driver.
void need_metaroce(Env &env);

// What this process has mapped of uverbs devices.
struct Area {
	uintptr_t address;
	size_t size;
	uint64_t offset; // in the device file
};

[[nodiscard]] std::vector<Area> uverbs_areas();
// Those that were not there before.
[[nodiscard]] std::vector<Area> new_areas(const std::vector<Area> &before);

// One mapped ring.
class Ring {
public:
	Ring() = default;
	explicit Ring(const Area &area) : area_(area) {}

	[[nodiscard]] metaroce_ring *header() const { return reinterpret_cast<metaroce_ring *>(area_.address); }
	[[nodiscard]] const Area &area() const { return area_; }
	[[nodiscard]] uint32_t prod() const { return std::atomic_ref(header()->prod).load(std::memory_order_acquire); }
	[[nodiscard]] uint32_t cons() const { return std::atomic_ref(header()->cons).load(std::memory_order_acquire); }
	void set_prod(uint32_t value) { std::atomic_ref(header()->prod).store(value, std::memory_order_release); }
	void set_cons(uint32_t value) { std::atomic_ref(header()->cons).store(value, std::memory_order_release); }

	// Found out by posting two requests with these ids, which must still stand in the first two slots.
	void measure(uint64_t first_id, uint64_t second_id);
	[[nodiscard]] uint32_t entries() const { return entries_; }
	[[nodiscard]] uint32_t stride() const { return stride_; }
	[[nodiscard]] unsigned char *slot(uint32_t index) const;

	// One 32-bit word behind the header.
	[[nodiscard]] size_t words() const { return (area_.size - METAROCE_RING_HDR) / 4; }
	void scribble(size_t word, uint32_t value);

private:
	Area area_{};
	uint32_t entries_ = 0, stride_ = 0;
};

// An End whose rings are known: A of a pair that misbehaves.
struct HostileEnd {
	HostileEnd(Env &env, Device &device);

	Device &dev;
	Pd pd;
	Cq cq;
	Ring cq_ring;
	Qp qp;
	Ring sq, rq; // told apart after connect() by posting
};

// A hostile end and its innocent peer, connected; the rings measured.
class HostilePair {
public:
	explicit HostilePair(Env &env);

	// Rings the doorbell as the library would, whatever stands in the ring.
	void doorbell();
	// Writes one request of `size` bytes into the next slot as it is, and publishes it.
	void post_raw(const void *request, size_t size);
	void post_raw_receive(const void *request, size_t size);

	HostileEnd a;
	End b;
	Buffer a_buf, b_buf;

private:
	void tell_rings_apart(Env &env);

	uint32_t next_send_ = 0, next_receive_ = 0;
};

// The bare command behind the doorbell: its return value or the negated errno.
[[nodiscard]] int raw_post_send_command(ibv_context *context, uint32_t qp_handle, uint32_t wr_count, uint32_t sge_count,
					uint32_t wqe_size, size_t extra_bytes);

} // namespace mv
