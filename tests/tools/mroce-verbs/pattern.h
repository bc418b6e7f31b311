// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Position-dependent bytes, and registered buffers that watch the bytes around a target.
#pragma once

#include "handle.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mv {

using SgeList = std::vector<ibv_sge>;

// Byte i of the stream `seed` is byte i%8 of the word hash(seed, i/8).
void pattern_fill(void *target, size_t length, uint64_t seed, uint64_t offset);

// Throws Failure naming the first byte that differs.
void pattern_check(const void *target, size_t length, uint64_t seed, uint64_t offset, std::string_view what);

// The same over a scatter list: message offsets run through all its elements.
void pattern_fill(std::span<const ibv_sge> list, uint64_t seed);
void pattern_check(std::span<const ibv_sge> list, size_t length, uint64_t seed, std::string_view what);

[[nodiscard]] uint64_t total_length(std::span<const ibv_sge> list);

// Anonymous memory of its own, optionally registered.
class Buffer {
public:
	static constexpr size_t guard = 2048; // bytes watched on each side of a target

	explicit Buffer(size_t size);
	Buffer(ibv_pd *pd, size_t size, unsigned access = all_access);
	~Buffer();
	Buffer(const Buffer &) = delete;
	Buffer &operator=(const Buffer &) = delete;

	[[nodiscard]] std::byte *at(size_t offset) const { return base_ + offset; }
	[[nodiscard]] uint64_t addr(size_t offset = 0) const { return reinterpret_cast<uintptr_t>(base_ + offset); }
	[[nodiscard]] size_t size() const { return size_; }
	[[nodiscard]] uint32_t lkey() const { return mr_->lkey; }
	[[nodiscard]] uint32_t rkey() const { return mr_->rkey; }
	[[nodiscard]] Mr &mr() { return mr_; }
	[[nodiscard]] ibv_sge sge(size_t offset, size_t length) const;
	[[nodiscard]] uint64_t *word(size_t offset) const { return reinterpret_cast<uint64_t *>(base_ + offset); }

	// `pieces` elements that together hold `length` bytes, laid out from `offset` on with gaps between them.
	[[nodiscard]] SgeList split(size_t offset, size_t length, unsigned pieces) const;

	// The bytes next to these targets: painted before, checked after.
	void paint_around(std::span<const ibv_sge> targets);
	void check_around(std::span<const ibv_sge> targets, std::string_view what) const;

	void paint_all();
	void check_all_painted(std::string_view what) const;

private:
	[[nodiscard]] uint64_t paint_seed() const; // differs between buffers

	template <class Visit>
	void each_zone(std::span<const ibv_sge> targets, Visit visit) const;

	std::byte *base_ = nullptr;
	size_t size_;
	Mr mr_;
};

} // namespace mv
