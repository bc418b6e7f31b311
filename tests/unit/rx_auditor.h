// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Watches a struct mroce_stream_rx (request class) from outside and throws when
 * a promise of stream_rx.h is broken.  Knows every packet that was accepted and
 * shares no code with stream_rx.c.
 */
#ifndef RX_AUDITOR_H
#define RX_AUDITOR_H

#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" {
#include "stream_rx.h"
}

class RxAuditor {
public:
	RxAuditor(u32 start, u32 payload, u32 window, u32 msn = 0, u32 rsn = 0)
		: start_(start), payload_(payload), rec_(window), msn_(msn), rsn_(rsn)
	{
		mroce_stream_rx_init(&rx, start, payload, rec_.data(), window);
		rx.exec_msn = msn;
		rx.exec_rsn = rsn;
	}

	/* Checks and, if accepted, commits one packet; executes nothing. */
	mroce_rx_verdict packet(const mroce_pkt &p, bool relaxed)
	{
		mroce_rx_verdict v = mroce_stream_rx_check(&rx, &p, relaxed);
		s64 n = unroll(p.spsn);
		u32 old = rx.base;

		if (n < base_ || received_.count(n)) {
			require(v == MROCE_RX_DUP, "a duplicate is told");
			return v;
		}
		require(v != MROCE_RX_DUP, "what is new is no duplicate");
		if (n >= base_ + MROCE_SPSN_WINDOW)
			require(v == MROCE_RX_WINDOW, "beyond the window");
		if (v != MROCE_RX_OK && v != MROCE_RX_HOLD)
			return v;
		bool late_last = p.opcode == MROCE_OP_WRITE && (p.sflags & MROCE_SF_LAST) &&
				 p.payload_len && !relaxed && n != base_;
		require((v == MROCE_RX_HOLD) == late_last, "held exactly if early");
		note(p);
		if (v == MROCE_RX_HOLD)
			held_.insert(n);
		bool moved = mroce_stream_rx_commit(&rx, &p);
		received_.insert(n);
		while (received_.erase(base_))
			base_++;
		require(rx.base == u32(start_ + base_), "base is the first missing");
		require(moved == (rx.base != old), "commit tells that base moved");
		/* What is released has everything before it by now; nothing is kept longer. */
		while (!held_.empty() && *held_.begin() < base_)
			held_.erase(held_.begin());
		check_block();
		return v;
	}

	/* Executes at most one message; false if none is complete. */
	bool execute(mroce_msg_rec *out = nullptr)
	{
		mroce_msg_rec *r = mroce_stream_rx_complete(&rx);
		auto m = msgs_.find(rx.exec_msn);
		bool whole = m != msgs_.end() && m->second.last >= 0 &&
			     s64(m->second.idx.size()) == m->second.last + 1;

		require(rx.exec_msn == msn_, "messages are executed in order");
		if (!r) {
			require(mroce_stream_rx_broken(&rx) == whole, "incomplete, or broken");
			require(!whole || (m->second.rsn >= 0 && m->second.rsn != s64(rsn_)), "broken by its RSN");
			return false;
		}
		require(!mroce_stream_rx_broken(&rx), "not both");
		require(whole, "complete means every packet");
		require(r == mroce_stream_rx_rec(&rx, msn_), "the record of exec_msn");
		const Msg &g = m->second;
		require(g.first == next_first_, "no hole and no overlap between messages");
		require(r->npkts == u32(g.last + 1) && r->got == r->npkts, "number of packets");
		require(r->op == g.op && r->length == g.length && r->va == g.va && r->rkey == g.rkey &&
				r->op1 == g.op1 && r->op2 == g.op2 && r->srqn == g.srqn,
			"fields");
		require(r->hflags == g.last_hflags, "LAST has the flags of the message");
		require(!(r->hflags & MROCE_HF_IMM) || r->imm == g.imm, "immediate");
		require(!(r->hflags & MROCE_HF_INV) || r->inv_rkey == g.inv_rkey, "key to invalidate");
		require(bool(r->sflags & MROCE_SF_SOLICITED) == g.solicited, "solicited");
		require(next_first_ + r->npkts <= base_, "everything before is received");
		require(held_.empty() || *held_.begin() >= base_, "nothing of it is held");
		if (consumes(r->op, r->hflags)) {
			require(r->rsn == rsn_ && g.rsn == s64(rsn_), "receives are consumed in order");
			rsn_++;
		}
		if (out)
			*out = *r;
		next_first_ += r->npkts;
		msgs_.erase(m);
		msn_++;
		mroce_stream_rx_executed(&rx);
		require(rx.exec_msn == msn_ && rx.exec_rsn == rsn_ &&
				rx.exec_spsn == u32(start_ + next_first_),
			"executed moves on");
		return true;
	}

	s64 base() const { return base_; }
	size_t held() const { return held_.size(); }

	mroce_stream_rx rx;

private:
	struct Msg {
		s64 first;
		u8 op;
		std::set<u32> idx;
		s64 last = -1;
		s64 rsn = -1;
		u64 va, op1, op2;
		u32 rkey, srqn, length = 0, imm = 0, inv_rkey = 0;
		u8 last_hflags = 0;
		bool solicited = false;
	};

	static void require(bool ok, const char *what)
	{
		if (!ok)
			throw std::logic_error(what);
	}

	static bool consumes(u8 op, u8 hflags)
	{
		return op == MROCE_OP_SEND || (op == MROCE_OP_WRITE && (hflags & MROCE_HF_IMM));
	}

	/* Number since the start of the stream, near base. */
	s64 unroll(u32 spsn) const { return base_ + s32(spsn - u32(start_ + base_)); }

	void note(const mroce_pkt &p)
	{
		bool multi = p.opcode == MROCE_OP_SEND || p.opcode == MROCE_OP_WRITE;
		u32 idx = multi ? p.offset / payload_ : 0;
		s64 first = unroll(p.spsn) - idx;
		auto [it, fresh] = msgs_.try_emplace(p.msn);
		Msg &m = it->second;

		require(p.msn - msn_ < rec_.size(), "message inside the window");
		require(!multi || p.offset % payload_ == 0, "offset is a multiple of P");
		if (fresh) {
			m.first = first, m.op = p.opcode, m.va = p.va, m.rkey = p.rkey, m.srqn = p.srqn;
			m.op1 = p.op1, m.op2 = p.op2;
		}
		require(m.first == first && m.op == p.opcode && m.va == p.va && m.rkey == p.rkey &&
				m.srqn == p.srqn,
			"packets of a message agree");
		require(m.idx.insert(idx).second, "each packet once");
		require(first >= next_first_ && (p.msn != msn_ || first == next_first_), "place in the stream");
		if (p.sflags & MROCE_SF_LAST) {
			require(m.last < 0 && *m.idx.rbegin() == idx, "one LAST, and nothing beyond");
			m.last = idx;
			m.length = multi ? p.offset + p.payload_len : p.length;
			m.last_hflags = p.hflags;
			require(!multi || p.payload_len <= payload_, "LAST is no longer than P");
		} else {
			require(m.last < 0 || idx < m.last, "nothing beyond LAST");
			require(p.payload_len == payload_, "all but LAST are full");
		}
		if (p.hflags & MROCE_HF_IMM)
			m.imm = p.imm;
		if (p.hflags & MROCE_HF_INV)
			m.inv_rkey = p.inv_rkey;
		m.solicited |= bool(p.sflags & MROCE_SF_SOLICITED);
		if (consumes(p.opcode, p.hflags)) {
			require(m.rsn < 0 || m.rsn == s64(p.rsn), "packets of a message agree about the RSN");
			require(p.rsn - rsn_ <= p.msn - msn_, "no receive is used twice");
			m.rsn = p.rsn;
		}
		/* Neighbours that are known: neither overlap nor hole. */
		auto next = msgs_.find(p.msn + 1), prev = msgs_.find(p.msn - 1);
		if (next != msgs_.end() && p.msn + 1 - msn_ < rec_.size())
			adjacent(m, next->second);
		if (prev != msgs_.end() && p.msn != msn_)
			adjacent(prev->second, m);
	}

	static void adjacent(const Msg &a, const Msg &b)
	{
		s64 end = a.first + (a.last >= 0 ? a.last : *a.idx.rbegin()) + 1;

		require(a.last >= 0 ? b.first == end : b.first > end, "neighbours touch");
	}

	void check_block() const
	{
		mroce_ack_stream b{};
		u64 want = 0;

		mroce_stream_rx_block(&rx, &b);
		for (int i = 0; i < 64; i++)
			if (received_.count(base_ + 1 + i))
				want |= 1ull << i;
		require(b.base_spsn == u32(start_ + base_) && b.vector == want && b.msn_done == msn_,
			"stream block");
	}

	u32 start_, payload_;
	std::vector<mroce_msg_rec> rec_;
	u32 msn_, rsn_;
	s64 next_first_ = 0; /* first packet of msn_, counted from the start */
	s64 base_ = 0;
	std::set<s64> received_; /* at or above base_ */
	std::set<s64> held_;
	std::map<u32, Msg> msgs_;
};

#endif
