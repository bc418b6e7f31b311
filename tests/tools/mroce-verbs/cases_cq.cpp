// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Completion queues: extended polling, channels and events, solicited events, overflow, resize, many on one.
#include "work.h"

#include <algorithm>
#include <cerrno>
#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <tuple>

namespace mv {

namespace {

using CqEx = std::unique_ptr<ibv_cq_ex, void (*)(ibv_cq_ex *)>;

void destroy_cq_ex(ibv_cq_ex *cq)
{
	must(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), "destroying an extended CQ");
}

CqEx make_cq_ex(ibv_context *ctx, uint32_t entries, uint64_t fields)
{
	ibv_cq_init_attr_ex init{};

	init.cqe = entries;
	init.wc_flags = fields;
	errno = 0;
	CqEx cq(ibv_create_cq_ex(ctx, &init), destroy_cq_ex);

	if (!cq && (errno == EOPNOTSUPP || errno == ENOSYS))
		skip("no extended CQ");
	require(cq != nullptr, "ibv_create_cq_ex: ", errno_name(errno));
	return cq;
}

constexpr uint64_t standard_fields = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP |
				     IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL | IBV_WC_EX_WITH_DLID_PATH_BITS;

// Waits for the first completion of a batch; the caller ends the batch.
void start_poll(const Env &env, ibv_cq_ex *cq)
{
	ibv_poll_cq_attr attr{};
	Waiter waiter(env.patience());

	do {
		int returned = ibv_start_poll(cq, &attr);

		if (!returned)
			return;
		require_eq(error_of(returned), ENOENT, "ibv_start_poll on an empty CQ");
	} while (waiter.pause());
	fail("ibv_start_poll: nothing came");
}

// QPs whose A side completes into an extended CQ.
struct ExPair {
	explicit ExPair(Env &env)
		: pd_a(make_pd(env.a().ctx())), pd_b(make_pd(env.b().ctx())), cq_a(make_cq_ex(env.a().ctx(), 128, standard_fields)),
		  cq_b(make_cq_ex(env.b().ctx(), 128, standard_fields)),
		  a(make_qp(pd_a.get(), ibv_cq_ex_to_cq(cq_a.get()), ibv_cq_ex_to_cq(cq_a.get()))),
		  b(make_qp(pd_b.get(), ibv_cq_ex_to_cq(cq_b.get()), ibv_cq_ex_to_cq(cq_b.get())))
	{
		connect(a.get(), env.a(), b.get(), env.b());
	}

	Pd pd_a, pd_b;
	CqEx cq_a, cq_b;
	Qp a, b;
};

void extended_polling(Env &env)
{
	ExPair pair(env);
	Buffer source(pair.pd_a.get(), 4096), target(pair.pd_b.get(), 4096);
	ibv_poll_cq_attr attr{};

	require_eq(error_of(ibv_start_poll(pair.cq_a.get(), &attr)), ENOENT, "ibv_start_poll on an empty CQ");
	for (uint32_t i = 0; i < 40; i++) {
		post_recv(pair.b.get(), 100 + i, {target.sge(0, 4096)});
		post_send(pair.a.get(), {Op::send_imm, i, {source.sge(0, 40 + i)}, 0, 0, 0x1000 + i});
	}
	for (uint32_t i = 0; i < 40;) {
		ibv_cq_ex *cq = pair.cq_b.get();
		int more = 0;

		start_poll(env, cq);
		do {
			require_eq(static_cast<int>(cq->status), static_cast<int>(IBV_WC_SUCCESS), "status");
			require_eq(cq->wr_id, 100 + i, "wr_id");
			require_eq(static_cast<int>(ibv_wc_read_opcode(cq)), static_cast<int>(IBV_WC_RECV), "opcode");
			require_eq(ibv_wc_read_byte_len(cq), 40 + i, "byte_len");
			require_eq(be32toh(ibv_wc_read_imm_data(cq)), 0x1000 + i, "immediate");
			require_eq(ibv_wc_read_qp_num(cq), pair.b->qp_num, "qp_num");
			require_eq(ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM, static_cast<unsigned>(IBV_WC_WITH_IMM), "flags");
			i++;
		} while (i < 40 && !(more = ibv_next_poll(cq)));
		require(more == 0 || more == ENOENT, "ibv_next_poll: ", errno_name(more));
		ibv_end_poll(cq);
	}
	for (uint32_t i = 0; i < 40; i++) {
		start_poll(env, pair.cq_a.get());
		require_eq(pair.cq_a->wr_id, i, "wr_id of a send");
		require_eq(static_cast<int>(ibv_wc_read_opcode(pair.cq_a.get())), static_cast<int>(IBV_WC_SEND), "opcode of a send");
		ibv_end_poll(pair.cq_a.get());
	}
}

// Old-style polling of an extended CQ, in turns with the new one.
void extended_classic_mix(Env &env)
{
	ExPair pair(env);
	Buffer source(pair.pd_a.get(), 4096), target(pair.pd_b.get(), 4096);

	for (uint64_t i = 0; i < 200; i++) {
		post_send(pair.a.get(), {Op::write, i, {source.sge(0, 8)}, target.addr(), target.rkey()});
		if (i % 3) {
			expect_wc(env, ibv_cq_ex_to_cq(pair.cq_a.get()), IBV_WC_SUCCESS, i, pair.a.get(), "classic poll");
		} else {
			start_poll(env, pair.cq_a.get());
			require_eq(pair.cq_a->wr_id, i, "wr_id");
			ibv_end_poll(pair.cq_a.get());
		}
	}
}

void extended_errors(Env &env)
{
	ExPair pair(env);
	Buffer source(pair.pd_a.get(), 4096), target(pair.pd_b.get(), 4096);

	post_send(pair.a.get(), {Op::write, 5, {source.sge(0, 8)}, target.addr(), target.rkey() ^ 0x5a5a00});
	start_poll(env, pair.cq_a.get());
	require_eq(static_cast<int>(pair.cq_a->status), static_cast<int>(IBV_WC_REM_ACCESS_ERR), "status");
	require_eq(pair.cq_a->wr_id, 5u, "wr_id");
	require_eq(ibv_wc_read_qp_num(pair.cq_a.get()), pair.a->qp_num, "qp_num");
	(void)ibv_wc_read_vendor_err(pair.cq_a.get());
	ibv_end_poll(pair.cq_a.get());
}

bool channel_ready(const Channel &channel, double seconds)
{
	pollfd waiting{channel->fd, POLLIN, 0};

	return poll(&waiting, 1, static_cast<int>(seconds * 1000)) == 1;
}

// Takes the one event that must be there, of this CQ.
void take_event(Env &env, const Channel &channel, ibv_cq *wanted, std::string_view what)
{
	ibv_cq *cq = nullptr;
	void *context = nullptr;

	require(channel_ready(channel, env.patience()), what, ": no event");
	must(ibv_get_cq_event(channel.get(), &cq, &context), "ibv_get_cq_event");
	require(cq == wanted, what, ": event of another CQ");
	ibv_ack_cq_events(cq, 1);
}

void events(Env &env)
{
	Pair pair(env, {.with_channel = true});
	Buffer source(pair.a.pd.get(), 4096), target(pair.b.pd.get(), 4096);
	ibv_cq *scq = pair.a.scq.get();

	for (uint64_t i = 0; i < static_cast<uint64_t>(env.count(200, 20)); i++) {
		must(ibv_req_notify_cq(scq, 0), "ibv_req_notify_cq");
		post_send(pair.a.qp.get(), {Op::write, i, {source.sge(0, 64)}, target.addr(), target.rkey()});
		take_event(env, pair.a.channel, scq, "event of a WRITE");
		expect_wc(env, scq, IBV_WC_SUCCESS, i, pair.a.qp.get(), "after its event");
	}
	// Not armed: no event. One event per arming, however many completions.
	post_send(pair.a.qp.get(), {Op::write, 1, {source.sge(0, 64)}, target.addr(), target.rkey()});
	expect_wc(env, scq, IBV_WC_SUCCESS, 1, pair.a.qp.get(), "without arming");
	require(!channel_ready(pair.a.channel, 0.05), "an event although the CQ was not armed");
	must(ibv_req_notify_cq(scq, 0), "ibv_req_notify_cq");
	for (uint64_t i = 0; i < 8; i++)
		post_send(pair.a.qp.get(), {Op::write, i, {source.sge(0, 64)}, target.addr(), target.rkey()});
	(void)next_wcs(env, scq, 8, "eight completions");
	take_event(env, pair.a.channel, scq, "event of eight WRITEs");
	require(!channel_ready(pair.a.channel, 0.05), "two events for one arming");
}

// Arm, look again, sleep: no wake-up may be lost between completion and arming.
void no_lost_wakeup(Env &env)
{
	Pair pair(env, {.with_channel = true});
	Buffer source(pair.a.pd.get(), 4096), target(pair.b.pd.get(), 4096);
	ibv_cq *scq = pair.a.scq.get();
	uint64_t done = 0, total = static_cast<uint64_t>(env.count(5000, 200)), posted = 0;

	must(ibv_req_notify_cq(scq, 0), "ibv_req_notify_cq");
	while (done < total) {
		while (posted < total && posted - done < 1 + env.random(32))
			post_send(pair.a.qp.get(), {Op::write, posted++, {source.sge(0, 8)}, target.addr(), target.rkey()});
		take_event(env, pair.a.channel, scq, cat("wake-up after ", done, " of ", posted));
		must(ibv_req_notify_cq(scq, 0), "ibv_req_notify_cq");
		while (auto wc = poll_one(scq))
			require_send_wc(*wc, Op::write, done++, pair.a.qp.get(), 8);
	}
}

void solicited(Env &env)
{
	Pair pair(env, {.with_channel = true});
	Buffer source(pair.a.pd.get(), 4096), target(pair.b.pd.get(), 4096);
	ibv_cq *rcq = pair.b.rcq.get();

	for (Op op : {Op::send, Op::send_imm, Op::write_imm}) {
		for (bool with : {false, true}) {
			Wr wr{op, 1, {source.sge(0, 900)}, target.addr(), target.rkey(), 7};

			if (with)
				wr.flags |= IBV_SEND_SOLICITED;
			post_recv(pair.b.qp.get(), 2, {target.sge(0, 4096)});
			must(ibv_req_notify_cq(rcq, 1), "ibv_req_notify_cq, solicited only");
			post_send(pair.a.qp.get(), wr);
			expect_wc(env, pair.a.scq.get(), IBV_WC_SUCCESS, 1, pair.a.qp.get(), "send");
			if (with)
				take_event(env, pair.b.channel, rcq, cat("solicited ", name_of(op)));
			else
				require(!channel_ready(pair.b.channel, 0.05), "event for an unsolicited ", name_of(op));
			expect_wc(env, rcq, IBV_WC_SUCCESS, 2, pair.b.qp.get(), "receive");
		}
	}
	// An error counts as solicited.
	must(ibv_req_notify_cq(rcq, 1), "ibv_req_notify_cq, solicited only");
	post_recv(pair.b.qp.get(), 3, {target.sge(0, 4096)});
	must(modify_state(pair.b.qp.get(), IBV_QPS_ERR), "to ERR");
	take_event(env, pair.b.channel, rcq, "event for a flushed receive");
	expect_wc(env, rcq, IBV_WC_WR_FLUSH_ERR, 3, pair.b.qp.get(), "flushed receive");
}

// A solicited-only arming does not weaken one for every completion.
void arming_is_kept(Env &env)
{
	Pair pair(env, {.with_channel = true});
	Buffer source(pair.a.pd.get(), 4096), target(pair.b.pd.get(), 4096);
	ibv_cq *rcq = pair.b.rcq.get();

	must(ibv_req_notify_cq(rcq, 0), "ibv_req_notify_cq");
	must(ibv_req_notify_cq(rcq, 1), "ibv_req_notify_cq, solicited only");
	post_recv(pair.b.qp.get(), 2, {target.sge(0, 4096)});
	post_send(pair.a.qp.get(), {Op::send, 1, {source.sge(0, 64)}});
	take_event(env, pair.b.channel, rcq, "event after arming for all, then for solicited");
	expect_wc(env, rcq, IBV_WC_SUCCESS, 2, pair.b.qp.get(), "receive");
	expect_wc(env, pair.a.scq.get(), IBV_WC_SUCCESS, 1, pair.a.qp.get(), "send");
}

void unacknowledged_events(Env &env)
{
	// Several events taken and acknowledged together; a CQ goes away only after that.
	Pair pair(env, {.with_channel = true});
	Buffer source(pair.a.pd.get(), 4096), target(pair.b.pd.get(), 4096);
	ibv_cq *scq = pair.a.scq.get(), *cq;
	void *context;

	for (int i = 0; i < 5; i++) {
		must(ibv_req_notify_cq(scq, 0), "ibv_req_notify_cq");
		post_send(pair.a.qp.get(), {Op::write, 1, {source.sge(0, 8)}, target.addr(), target.rkey()});
		require(channel_ready(pair.a.channel, env.patience()), "no event");
		must(ibv_get_cq_event(pair.a.channel.get(), &cq, &context), "ibv_get_cq_event");
		expect_wc(env, scq, IBV_WC_SUCCESS, 1, pair.a.qp.get(), "WRITE");
	}
	ibv_ack_cq_events(scq, 5);
	must_fail(ibv_destroy_comp_channel(pair.a.channel.get()), {EBUSY}, "destroying a channel in use");
}

void shared_by_both_queues(Env &env)
{
	// Send and receive completions of both ends in one CQ per device, told apart by QP number and opcode.
	Pd pd_a = make_pd(env.a().ctx()), pd_b = make_pd(env.b().ctx());
	Cq cq_a = make_cq(env.a().ctx(), 256), cq_b = make_cq(env.b().ctx(), 256);
	Qp a = make_qp(pd_a.get(), cq_a.get(), cq_a.get()), b = make_qp(pd_b.get(), cq_b.get(), cq_b.get());
	Buffer buf_a(pd_a.get(), 8192), buf_b(pd_b.get(), 8192);

	connect(a.get(), env.a(), b.get(), env.b());
	for (uint64_t i = 0; i < 50; i++) {
		post_recv(a.get(), 1000 + i, {buf_a.sge(4096, 64)});
		post_recv(b.get(), 2000 + i, {buf_b.sge(4096, 64)});
		post_send(a.get(), {Op::send, 3000 + i, {buf_a.sge(0, 32)}});
		post_send(b.get(), {Op::send, 4000 + i, {buf_b.sge(0, 33)}});
	}
	for (auto [cq, qp, sends, recvs] : {std::tuple{cq_a.get(), a.get(), 3000u, 1000u}, std::tuple{cq_b.get(), b.get(), 4000u, 2000u}}) {
		for (int i = 0; i < 100; i++) {
			ibv_wc wc = next_wc(env, cq, "shared CQ");

			require_wc(wc, IBV_WC_SUCCESS, wc.opcode == IBV_WC_RECV ? recvs++ : sends++, qp, "shared CQ");
		}
	}
}

void poll_batches(Env &env)
{
	Pair pair(env);
	Buffer source(pair.a.pd.get(), 4096), target(pair.b.pd.get(), 4096);
	uint64_t next = 0;

	for (uint64_t i = 0; i < 60; i++)
		post_send(pair.a.qp.get(), {Op::write, i, {source.sge(0, 8)}, target.addr(), target.rkey()});
	Waiter waiter(env.patience());

	do {
		ibv_wc wc[7];
		int n = ibv_poll_cq(pair.a.scq.get(), 7, wc);

		require(n >= 0 && n <= 7, "ibv_poll_cq returned ", n);
		for (int i = 0; i < n; i++)
			require_send_wc(wc[i], Op::write, next++, pair.a.qp.get(), 8);
	} while (next < 60 && waiter.pause());
	require_eq(next, 60u, "completions");
	ibv_wc none;

	require_eq(ibv_poll_cq(pair.a.scq.get(), 0, &none), 0, "poll for 0 entries");
	require_eq(ibv_poll_cq(pair.a.scq.get(), 1, &none), 0, "poll of an empty CQ");
}

// The ring of a small CQ goes round many times.
void ring_wraps(Env &env)
{
	Pair pair(env, {.qp = {.send_wr = 3, .recv_wr = 3}, .cq_entries = 5});
	Buffer source(pair.a.pd.get(), 4096), target(pair.b.pd.get(), 4096);

	for (uint64_t i = 0; i < static_cast<uint64_t>(env.count(3000, 300)); i += 3) {
		for (uint64_t k = i; k < i + 3; k++)
			post_send(pair.a.qp.get(), {Op::write, k, {source.sge(0, 8)}, target.addr(), target.rkey()});
		for (uint64_t k = i; k < i + 3; k++)
			require_send_wc(next_wc(env, pair.a.scq.get(), "WRITE"), Op::write, k, pair.a.qp.get(), 8);
	}
}

// More completions than the CQ holds: an event says so, and nothing else breaks.
void overflow(Env &env)
{
	PairSpec spec{.qp = {.send_wr = 512}, .cq_entries = 4};
	Pair pair(env, spec);
	Buffer source(pair.a.pd.get(), 4096), target(pair.b.pd.get(), 4096);
	int entries = pair.a.scq->cqe, flags = fcntl(env.a().ctx()->async_fd, F_GETFL);
	pollfd waiting{env.a().ctx()->async_fd, POLLIN, 0};
	ibv_async_event event{};

	if (entries > 400)
		skip("a CQ of 4 entries holds ", entries);
	for (int i = 0; i < entries + 20; i++)
		if (try_send(pair.a.qp.get(), {Op::write, static_cast<uint64_t>(i), {source.sge(0, 8)}, target.addr(), target.rkey()}))
			break;
	fcntl(env.a().ctx()->async_fd, F_SETFL, flags | O_NONBLOCK);
	if (poll(&waiting, 1, static_cast<int>(env.patience(3) * 1000)) == 1 && !ibv_get_async_event(env.a().ctx(), &event)) {
		note("CQ overflow: ", ibv_event_type_str(event.event_type));
		ibv_ack_async_event(&event);
	} else {
		note("CQ overflow: no event");
	}
	int seen = 0;
	ibv_wc wc;

	// Polling may report the error; what it delivers must be in order from 0.
	while (ibv_poll_cq(pair.a.scq.get(), 1, &wc) == 1 && seen < 1000)
		require_eq(wc.wr_id, static_cast<uint64_t>(seen++), "order of completions in an overflown CQ");
	require(seen <= entries + 20, "more completions than requests");
	pair.a.qp.reset();
	Pair other(env);

	require_alive(env, other);
}

void resize(Env &env)
{
	Pair pair(env);
	Buffer source(pair.a.pd.get(), 4096), target(pair.b.pd.get(), 4096);

	for (uint64_t i = 0; i < 10; i++)
		post_send(pair.a.qp.get(), {Op::write, i, {source.sge(0, 8)}, target.addr(), target.rkey()});
	sleep_seconds(0.05);
	int returned = ibv_resize_cq(pair.a.scq.get(), 1000);

	if (returned && (error_of(returned) == EOPNOTSUPP || error_of(returned) == ENOSYS))
		skip("no ibv_resize_cq");
	must(returned, "ibv_resize_cq");
	for (uint64_t i = 0; i < 10; i++)
		expect_wc(env, pair.a.scq.get(), IBV_WC_SUCCESS, i, pair.a.qp.get(), "completion after resize");
}

void many_cqs(Env &env)
{
	std::vector<Cq> cqs;
	int n = std::min(env.count(500, 50), env.a().attr.max_cq / 2);

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < n; i++)
			cqs.push_back(make_cq(env.a().ctx(), 64));
		cqs.clear();
	}
}

} // namespace

void add_cq_cases(Registry &cases)
{
	cases.push_back({"cq_extended_polling", extended_polling});
	cases.push_back({"cq_extended_classic_mix", extended_classic_mix});
	cases.push_back({"cq_extended_errors", extended_errors});
	cases.push_back({"cq_events", events});
	cases.push_back({"cq_no_lost_wakeup", no_lost_wakeup});
	cases.push_back({"cq_solicited", solicited});
	cases.push_back({"cq_arming_is_kept", arming_is_kept});
	cases.push_back({"cq_unacknowledged_events", unacknowledged_events});
	cases.push_back({"cq_shared_by_both_queues", shared_by_both_queues});
	cases.push_back({"cq_poll_batches", poll_batches});
	cases.push_back({"cq_ring_wraps", ring_wraps});
	cases.push_back({"cq_overflow", overflow});
	cases.push_back({"cq_resize", resize});
	cases.push_back({"cq_many", many_cqs});
}

} // namespace mv
