// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Virtual time: one message from a conn_tx over a simulated network to a
 * conn_rx, acknowledgements back.  Data passes one bottleneck queue (FIFO),
 * then the delay of its path's plane; what happens to a packet on the way is
 * settings of the loop.  After every step the books of conn_tx are checked.
 */
#ifndef TX_LOOP_H
#define TX_LOOP_H

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <queue>
#include <random>
#include <set>
#include <vector>

extern "C" {
#include "conn_rx.h"
#include "conn_tx.h"
#include "health.h"
#include "path_sched.h"
}

/* Memory of a conn_tx with its paths. */
struct TxMem {
	std::vector<mroce_tx_path> paths;
	std::vector<u64> rings;
	mroce_conn_tx tx;

	TxMem(u32 n, u32 mss, u64 seed, bool validated, u64 now, u32 planes = 1)
		: paths(n), rings((mroce_conn_tx_ring_mem(n) + 7) / 8)
	{
		for (u32 i = 0; i < n; i++)
			paths[i].plane = u8(i % planes);
		mroce_conn_tx_init(&tx, paths.data(), rings.data(), n, mss, seed, validated, now);
	}
	TxMem(const TxMem &) = delete;
};

/* A block that says: all PSNs of the path up to @max came, except @missing. */
inline mroce_ack_path block(const mroce_conn_tx &tx, u32 path, u32 max, std::set<u32> missing = {})
{
	mroce_ack_path b{};

	b.path_id = u8(path);
	b.gen = tx.path[path].gen;
	b.max_psn = max;
	for (u32 i = 0; i < MROCE_SACK_BITS && i <= max; i++)
		if (!missing.count(max - i))
			b.sack[i / 64] |= 1ull << (i % 64);
	b.cum_psn = missing.empty() ? max + 1 : *missing.begin();
	b.rx_pkts = max + 1 - u32(missing.size());
	b.rate_hint = MROCE_HINT_UNLIMITED;
	return b;
}

/* The books of a conn_tx, counted again from the rings and queues. */
inline void check_books(const mroce_conn_tx &tx)
{
	u64 inflight = 0, sum_w = 0, deadline = ~0ull;
	u32 n_data = 0, queued = 0, probes = 0, sendable = 0, rtx_ready = 0, denied = 0;

	for (u32 i = 0; i < tx.n_paths; i++) {
		const mroce_tx_path &p = tx.path[i];
		u32 data = 0, flight = 0, lost = 0, bytes = 0;

		if (!p.ring)
			continue;
		for (u32 k = 0; k < MROCE_PATH_RING; k++) {
			u32 st = mroce_slot_state(&p.ring[k]);

			data += st == MROCE_SLOT_DATA;
			bytes += st == MROCE_SLOT_DATA ? p.ring[k].ref.bytes : 0;
			flight += st == MROCE_SLOT_DATA || st == MROCE_SLOT_PROBE ||
				  st == MROCE_SLOT_MOVED;
			lost += st == MROCE_SLOT_LOST;
		}
		ASSERT_EQ(p.n_data, data);
		ASSERT_EQ(p.inflight, bytes);
		ASSERT_EQ(p.n_flight, flight);
		ASSERT_EQ(p.n_lost, lost);
		ASSERT_LE(p.head - p.una, u32(MROCE_PATH_RING));
		ASSERT_GE(p.cwnd, 2 * tx.payload);
		u32 n = 0;
		for (u16 k = p.rtx.head; k != MROCE_RTX_NIL; k = tx.pool.node[k].next)
			n++;
		ASSERT_EQ(p.rtx.n, n);
		inflight += bytes;
		n_data += data;
		queued += n;
		probes += p.probe_due;
		denied += p.state == MROCE_PATH_DENIED;
		if (mroce_path_sendable(&p)) {
			sendable++;
			sum_w += p.cwnd;
			rtx_ready += n && (p.inflight < p.cwnd || !p.n_data) && mroce_path_room(&p);
		}
		deadline = std::min(deadline, mroce_health_deadline(&tx, &p));
	}
	ASSERT_EQ(tx.inflight, inflight);
	ASSERT_EQ(tx.n_data, n_data);
	ASSERT_EQ(tx.rtx_queued, queued);
	ASSERT_EQ(tx.pool.used, queued);
	ASSERT_EQ(tx.probes_due, probes);
	ASSERT_EQ(tx.n_sendable, sendable);
	ASSERT_EQ(tx.cc.sum_w, sum_w);
	ASSERT_LE(n_data + queued, MROCE_TX_OUTSTANDING);
	/* A timer may be early, never late; and something always goes on. */
	ASSERT_LE(tx.next_timer, deadline);
	bool goes_on = tx.next_timer != ~0ull || rtx_ready || probes || denied == tx.n_paths;
	ASSERT_TRUE(goes_on || (!n_data && !queued && (sendable || !tx.attached)));
	/* Where some path can send, nothing waits on one that cannot. */
	for (u32 i = 0; sendable && i < tx.n_paths; i++) {
		ASSERT_TRUE(!tx.path[i].rtx.n || mroce_path_sendable(&tx.path[i]));
	}
}

struct LoopSettings {
	u32 n_paths = 16, planes = 1;
	u32 packets = 4096;
	u32 payload = 4096, header = 60;
	double loss = 0, ack_loss = 0;
	u64 packet_ns = 3300;		/* of the bottleneck */
	u64 delay_ns = 165000;		/* one way */
	u32 ecn_packets = 0;		/* queue length from which packets are marked; 0 never */
	u32 queue_packets = 0;		/* longest queue; 0 no limit */
	u64 jitter_ns = 0;		/* reorders */
	u16 hint = MROCE_HINT_UNLIMITED;
	bool validated = true;
	u64 seed = 1;
	u64 start = 1000000000;
	u64 limit_ns = 20000000000;
	u32 check_every = 16;		/* steps between checks of the books */
};

struct Loop {
	LoopSettings s;
	TxMem a;
	std::vector<mroce_rx_path> rx_paths;
	mroce_conn_rx rx;
	std::mt19937_64 rng;
	u64 now, busy_until = 0, done_at = 0;
	u32 next_new = 0, sent = 0, data_rx = 0, dup_rx = 0;
	std::vector<bool> arrived, acked;
	u32 n_arrived = 0, n_acked = 0;
	u64 order = 0, steps = 0;
	using Event = std::pair<std::pair<u64, u64>, std::function<void()>>;
	struct Later {
		bool operator()(const Event &x, const Event &y) const { return x.first > y.first; }
	};
	std::priority_queue<Event, std::vector<Event>, Later> events;
	u64 timer_at = ~0ull, rx_timer_at = ~0ull;
	/* May a packet of this path pass now? ack: on the way back */
	std::function<bool(u32 path, bool ack)> pass = [](u32, bool) { return true; };
	std::function<void()> each_step = [] {};
	std::vector<u64> arrival_times;

	explicit Loop(const LoopSettings &set)
		: s(set), a(s.n_paths, s.payload + s.header, s.seed, s.validated, s.start, s.planes),
		  rx_paths(s.n_paths), rng(s.seed), now(s.start), arrived(s.packets), acked(s.packets)
	{
		mroce_conn_rx_init(&rx, rx_paths.data(), s.n_paths);
		rx.hint = s.hint;
	}

	void at(u64 t, std::function<void()> f) { events.push({{t, order++}, std::move(f)}); }
	bool chance(double p) { return p > 0 && std::uniform_real_distribution<>(0, 1)(rng) < p; }

	void send(const mroce_pkt &p, u32 bytes)
	{
		u64 tx_time = s.packet_ns * bytes / (s.payload + s.header);
		u64 start = std::max(now, busy_until), queue = (start - now) / s.packet_ns;
		bool ce = s.ecn_packets && queue >= s.ecn_packets;

		sent++;
		if (s.queue_packets && queue >= s.queue_packets)
			return;
		busy_until = start + tx_time;
		if (chance(s.loss) || !pass(p.path_id, false))
			return;
		u64 jitter = s.jitter_ns ? rng() % s.jitter_ns : 0;
		at(busy_until + s.delay_ns + jitter, [this, p, bytes, ce] { receive(p, bytes, ce); });
	}

	void receive(const mroce_pkt &p, u32 bytes, bool ce)
	{
		mroce_path_verdict v = mroce_conn_rx_check(&rx, &p);

		ASSERT_NE(v, MROCE_PATH_REJECT);
		if (v == MROCE_PATH_OK || v == MROCE_PATH_DUP)
			mroce_conn_rx_commit(&rx, &p, bytes, ce, now);
		if (p.type == MROCE_T_DATA) {
			data_rx++;
			if (arrived[p.spsn])
				dup_rx++;
			else if (arrived[p.spsn] = true, arrival_times.push_back(now),
				 ++n_arrived == s.packets)
				done_at = now;
		}
		if (p.type == MROCE_T_PROBE && pass(p.path_id, true) && !chance(s.ack_loss)) {
			u64 value = p.op1;

			at(now + s.delay_ns, [this, p, value] {
				mroce_conn_tx_probe_rsp(&a.tx, p.path_id, p.path_gen, p.path_psn,
							value, now);
				pump();
			});
		}
		ack();
	}

	void ack()
	{
		rx.srtt_ns = a.tx.srtt_ns;
		while (mroce_conn_rx_due(&rx, now)) {
			std::vector<mroce_ack_path> b(16);

			b.resize(mroce_conn_rx_blocks(&rx, b.data(), 16, now));
			if (b.empty())
				break;
			if (chance(s.ack_loss) || !pass(b[0].path_id, true))
				continue;
			at(now + s.delay_ns, [this, b] { got_ack(b); });
		}
		if (rx.deadline != ~0ull && rx.deadline != rx_timer_at) {
			rx_timer_at = rx.deadline;
			at(std::max(rx.deadline, now), [this] { ack(); });
		}
	}

	void got_ack(const std::vector<mroce_ack_path> &blocks)
	{
		mroce_pkt_ref refs[MROCE_SACK_BITS];
		u32 n;

		for (const mroce_ack_path &b : blocks) {
			int err = mroce_conn_tx_ack(&a.tx, &b, now, refs, &n);

			if (err)
				continue;
			for (u32 i = 0; i < n; i++) {
				n_acked += !acked[refs[i].spsn];
				ASSERT_TRUE(arrived[refs[i].spsn]);
				acked[refs[i].spsn] = true;
			}
		}
		pump();
	}

	void send_data(u32 path, const mroce_pkt_ref &ref, bool more)
	{
		mroce_pkt p{};

		p.type = MROCE_T_DATA;
		p.spsn = ref.spsn;
		p.sflags = ref.spsn + 1 == s.packets ? MROCE_SF_LAST : 0;
		mroce_conn_tx_sent(&a.tx, path, &ref, more, now, &p);
		send(p, ref.bytes);
	}

	void pump()
	{
		mroce_pkt_ref ref;
		u32 path;
		int pick;

		for (;;) {
			mroce_send_kind kind = mroce_conn_tx_next(&a.tx, &path, &ref);

			if (kind == MROCE_SEND_PROBE) {
				mroce_pkt p{};

				mroce_conn_tx_sent_probe(&a.tx, path, now, &p, &p.op1);
				send(p, 66);
				continue;
			}
			if (kind == MROCE_SEND_RTX) {
				if (!acked[ref.spsn])
					send_data(path, ref, true);
				continue;
			}
			if (next_new == s.packets)
				break;
			pick = mroce_conn_tx_pick(&a.tx, s.payload + s.header);
			if (pick < 0)
				break;
			ref = {};
			ref.qpn = 5;
			ref.spsn = next_new++;
			ref.bytes = u16(s.payload + s.header);
			send_data(u32(pick), ref, next_new < s.packets);
		}
		if (a.tx.next_timer < timer_at) {
			timer_at = a.tx.next_timer;
			at(std::max(timer_at, now), [this] {
				timer_at = ~0ull;
				if (a.tx.next_timer <= now)
					mroce_conn_tx_timer(&a.tx, now);
				pump();
			});
		}
		if (++steps % s.check_every == 0 || events.empty())
			check_books(a.tx);
		each_step();
	}

	/* Runs until everything is acknowledged; false if the time is over. */
	bool run()
	{
		at(now, [this] { pump(); });
		while (!events.empty() && n_acked < s.packets) {
			Event e = events.top();

			events.pop();
			now = e.first.first;
			if (now > s.start + s.limit_ns || ::testing::Test::HasFatalFailure())
				return false;
			e.second();
		}
		return n_acked == s.packets;
	}

	/* Runs on, without looking whether all is done. */
	void run_for(u64 ns)
	{
		u64 end = now + ns;

		while (!events.empty() && events.top().first.first <= end &&
		       !::testing::Test::HasFatalFailure()) {
			Event e = events.top();

			events.pop();
			now = e.first.first;
			e.second();
		}
		now = end;
	}

	double seconds() const { return double(done_at - s.start) / 1e9; }
};

#endif
