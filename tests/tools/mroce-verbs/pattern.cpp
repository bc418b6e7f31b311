// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "pattern.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace mv {

namespace {

constexpr uint64_t guard_seed = 0x6775617264627974;
constexpr size_t split_gap = 29; // odd on purpose: elements start at every alignment

// The finaliser of splitmix64: cheap, and every input bit reaches every output bit.
uint64_t word_at(uint64_t seed, uint64_t index)
{
	uint64_t x = seed + index * 0x9e3779b97f4a7c15;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

unsigned char byte_at(uint64_t seed, uint64_t offset)
{
	return static_cast<unsigned char>(word_at(seed, offset / 8) >> (offset % 8 * 8));
}

// Calls `word(position, value)` for whole words and `byte(position, value)` for the ragged ends.
template <class Word, class Byte>
void walk(size_t length, uint64_t seed, uint64_t offset, Word word, Byte byte)
{
	size_t i = 0;

	for (; i < length && (offset + i) % 8; i++)
		byte(i, byte_at(seed, offset + i));
	for (; i + 8 <= length; i += 8)
		word(i, word_at(seed, (offset + i) / 8));
	for (; i < length; i++)
		byte(i, byte_at(seed, offset + i));
}

[[noreturn]] void report(const unsigned char *bytes, size_t length, uint64_t seed, uint64_t offset, std::string_view what)
{
	size_t wrong = 0, first = length, last = 0;

	for (size_t i = 0; i < length; i++) {
		if (bytes[i] == byte_at(seed, offset + i))
			continue;
		wrong++;
		first = std::min(first, i);
		last = i;
	}
	if (!wrong)
		fail(what, ": bytes were wrong and right when read again (still changing)");
	fail(what, ": ", wrong, " of ", length, " bytes wrong, from offset ", offset + first, " to ", offset + last);
}

} // namespace

void pattern_fill(void *target, size_t length, uint64_t seed, uint64_t offset)
{
	auto *bytes = static_cast<unsigned char *>(target);

	walk(
		length, seed, offset, [&](size_t i, uint64_t value) { std::memcpy(bytes + i, &value, 8); },
		[&](size_t i, unsigned char value) { bytes[i] = value; });
}

void pattern_check(const void *target, size_t length, uint64_t seed, uint64_t offset, std::string_view what)
{
	const auto *bytes = static_cast<const unsigned char *>(target);
	uint64_t difference = 0;

	walk(
		length, seed, offset,
		[&](size_t i, uint64_t value) {
			uint64_t found;

			std::memcpy(&found, bytes + i, 8);
			difference |= found ^ value;
		},
		[&](size_t i, unsigned char value) { difference |= bytes[i] ^ value; });
	if (difference)
		report(bytes, length, seed, offset, what);
}

void pattern_fill(std::span<const ibv_sge> list, uint64_t seed)
{
	uint64_t offset = 0;

	for (const ibv_sge &sge : list) {
		pattern_fill(reinterpret_cast<void *>(sge.addr), sge.length, seed, offset);
		offset += sge.length;
	}
}

void pattern_check(std::span<const ibv_sge> list, size_t length, uint64_t seed, std::string_view what)
{
	uint64_t offset = 0;

	for (const ibv_sge &sge : list) {
		size_t part = std::min<size_t>(sge.length, length - offset);

		pattern_check(reinterpret_cast<void *>(sge.addr), part, seed, offset, what);
		offset += part;
	}
	require(offset == length, what, ": list shorter than the message");
}

uint64_t total_length(std::span<const ibv_sge> list)
{
	uint64_t total = 0;

	for (const ibv_sge &sge : list)
		total += sge.length;
	return total;
}

Buffer::Buffer(size_t size) : size_(size)
{
	void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	require(memory != MAP_FAILED, "mmap of ", size, " bytes: ", errno_name(errno));
	base_ = static_cast<std::byte *>(memory);
}

Buffer::Buffer(ibv_pd *pd, size_t size, unsigned access) : Buffer(size)
{
	mr_ = make_mr(pd, base_, size, access);
}

Buffer::~Buffer()
{
	mr_.reset();
	munmap(base_, size_);
}

ibv_sge Buffer::sge(size_t offset, size_t length) const
{
	require(offset + length <= size_, "test error: element outside its buffer");
	return {addr(offset), static_cast<uint32_t>(length), mr_ ? mr_->lkey : 0};
}

SgeList Buffer::split(size_t offset, size_t length, unsigned pieces) const
{
	SgeList list;

	for (unsigned i = 0; i < pieces; i++) {
		size_t part = i + 1 == pieces ? length : length / (pieces - i) / (1 + i % 2);

		list.push_back(sge(offset, part));
		offset += part + split_gap;
		length -= part;
	}
	return list;
}

uint64_t Buffer::paint_seed() const
{
	return guard_seed ^ addr();
}

template <class Visit>
void Buffer::each_zone(std::span<const ibv_sge> targets, Visit visit) const
{
	std::vector<std::pair<size_t, size_t>> ranges;
	size_t end_before = 0;

	for (const ibv_sge &sge : targets)
		ranges.emplace_back(sge.addr - addr(), sge.addr - addr() + sge.length);
	std::sort(ranges.begin(), ranges.end());
	for (size_t i = 0; i < ranges.size(); i++) {
		auto [begin, end] = ranges[i];
		size_t limit = i + 1 < ranges.size() ? ranges[i + 1].first : size_;
		size_t from = std::max(end_before, begin > guard ? begin - guard : 0);
		size_t to = std::min(limit, end + guard);

		if (from < begin)
			visit(from, begin - from);
		if (end < to)
			visit(end, to - end);
		end_before = std::max(to, end);
	}
}

void Buffer::paint_around(std::span<const ibv_sge> targets)
{
	each_zone(targets, [this](size_t offset, size_t length) { pattern_fill(at(offset), length, paint_seed(), offset); });
}

void Buffer::check_around(std::span<const ibv_sge> targets, std::string_view what) const
{
	each_zone(targets, [&](size_t offset, size_t length) {
		pattern_check(at(offset), length, paint_seed(), offset, cat(what, ", bytes beside the target"));
	});
}

void Buffer::paint_all()
{
	pattern_fill(base_, size_, paint_seed(), 0);
}

void Buffer::check_all_painted(std::string_view what) const
{
	pattern_check(base_, size_, paint_seed(), 0, what);
}

} // namespace mv
