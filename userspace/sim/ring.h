// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* First in, first out, in one growing array. */
#ifndef SIM_RING_H
#define SIM_RING_H

#include <cstddef>
#include <vector>

namespace sim {

template <typename T> class Ring {
public:
	bool empty() const { return head_ == tail_; }
	std::size_t size() const { return tail_ - head_; }
	T &front() { return data_[head_ & mask()]; }
	const T &front() const { return data_[head_ & mask()]; }
	T &back() { return data_[(tail_ - 1) & mask()]; }
	/* The i-th from the front. */
	T &operator[](std::size_t i) { return data_[(head_ + i) & mask()]; }
	const T &operator[](std::size_t i) const { return data_[(head_ + i) & mask()]; }

	void push(const T &v)
	{
		if (size() == data_.size())
			grow();
		data_[tail_++ & mask()] = v;
	}

	void pop() { head_++; }
	void pop_back() { tail_--; }
	void clear() { head_ = tail_ = 0; }

private:
	std::size_t mask() const { return data_.size() - 1; }

	void grow()
	{
		std::vector<T> bigger(data_.empty() ? 4 : 2 * data_.size());
		std::size_t n = size();

		for (std::size_t i = 0; i < n; i++)
			bigger[i] = (*this)[i];
		data_ = std::move(bigger);
		head_ = 0;
		tail_ = n;
	}

	std::vector<T> data_;
	std::size_t head_ = 0, tail_ = 0;
};

} // namespace sim

#endif
