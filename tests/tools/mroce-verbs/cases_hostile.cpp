// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A program that writes what it likes into its rings: it may break itself, and nothing else.
#include "rings.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

namespace mv {

namespace {

// Somebody else on the same devices, in contexts of their own: works before, during and after.
class Bystander {
public:
	explicit Bystander(Env &env) : env_(env.opt, "bystander"), mover_(env_, {}, 20000) {}

	void check()
	{
		for (Op op : {Op::write, Op::send, Op::read})
			mover_.move(op, {.length = 20000});
	}

private:
	Env env_;
	Mover mover_;
};

// A thread that does one thing over and over until it is told to stop.
template <class Body>
class Nuisance {
public:
	explicit Nuisance(Body body)
		: thread_([this, body]() mutable {
			  while (!stop_)
				  body();
		  })
	{
	}
	~Nuisance()
	{
		stop_ = true;
		thread_.join();
	}
	Nuisance(const Nuisance &) = delete;
	Nuisance &operator=(const Nuisance &) = delete;

private:
	std::atomic<bool> stop_ = false;
	std::thread thread_;
};

// Takes what has come, without a look at it.
void sink(ibv_cq *cq)
{
	ibv_wc wc[16];

	for (int round = 0; round < 64 && ibv_poll_cq(cq, 16, wc) > 0; round++)
		;
}

void settle(HostilePair &pair)
{
	sleep_seconds(0.002);
	sink(pair.a.cq.get());
	sink(pair.b.scq.get());
	sink(pair.b.rcq.get());
}

// A request that is right in every field.
struct Request {
	metaroce_sqe head{};
	metaroce_sge list[8]{};
};

Request good_request(const HostilePair &pair, Op op)
{
	static const uint8_t opcodes[] = {METAROCE_WR_WRITE, METAROCE_WR_WRITE_IMM, METAROCE_WR_SEND, METAROCE_WR_SEND_IMM,
					  METAROCE_WR_READ,  METAROCE_WR_CMP_SWP,   METAROCE_WR_FETCH_ADD};
	Request request;

	request.head.wr_id = 77;
	request.head.opcode = opcodes[static_cast<int>(op)];
	request.head.flags = METAROCE_WR_SIGNALED;
	request.head.num_sge = 1;
	request.head.remote.addr = pair.b_buf.addr();
	request.head.remote.rkey = pair.b_buf.rkey();
	request.list[0] = {pair.a_buf.addr(), 8, pair.a_buf.lkey()};
	return request;
}

// Proof that raw posting works at all; the attacks below would otherwise prove nothing.
void raw_posting_works(Env &env)
{
	need_metaroce(env);
	HostilePair pair(env);

	for (Op op : {Op::write, Op::read, Op::fetch_add}) {
		Request request = good_request(pair, op);

		*pair.a_buf.word(0) = 0x1122334455667788;
		pair.post_raw(&request, sizeof(request));
		expect_wc(env, pair.a.cq.get(), IBV_WC_SUCCESS, 77, pair.a.qp.get(), cat("raw ", name_of(op)));
	}
	require_eq(*pair.b_buf.word(0), 0x1122334455667788u, "memory after a raw WRITE");
}

// One field wrong at a time, every value that a byte can have.
void every_opcode_and_flag(Env &env)
{
	need_metaroce(env);
	Bystander bystander(env);
	int step = env.opt.scale >= 1 ? 1 : 7;

	for (int value = 0; value < 256; value += step)
		for (int field = 0; field < 4; field++) {
			HostilePair pair(env);
			Request request = good_request(pair, Op::write);

			(field == 0 ? request.head.opcode : field == 1 ? request.head.flags : field == 2 ? request.head.num_sge : request.head.resv) =
				static_cast<uint8_t>(value);
			pair.post_raw(&request, sizeof(request));
			sink(pair.a.cq.get());
			if (value % 16 == 0)
				settle(pair);
		}
	bystander.check();
}

// Inline lengths far beyond the slot.
void inline_lengths(Env &env)
{
	need_metaroce(env);
	Bystander bystander(env);

	for (uint32_t length : {0u, 1u, 60u, 64u, 65u, 256u, 4096u, 65536u, 0x7fffffffu, 0x80000000u, 0xfffffff0u, 0xffffffffu}) {
		for (Op op : {Op::write, Op::send, Op::read, Op::fetch_add}) {
			HostilePair pair(env);
			Request request = good_request(pair, op);

			pair.b_buf.paint_all();
			request.head.flags |= METAROCE_WR_INLINE;
			request.head.num_sge = 0;
			memcpy(request.list, &length, 4);
			pair.post_raw(&request, sizeof(request));
			settle(pair);
			if (length > pair.a.sq.stride())
				pair.b_buf.check_all_painted(cat("inline length ", length));
		}
	}
	bystander.check();
}

// Requests of random bytes, and good ones with a few random bytes.
void random_requests(Env &env)
{
	need_metaroce(env);
	Bystander bystander(env);

	for (int trial = 0; trial < env.count(400, 40); trial++) {
		HostilePair pair(env);

		for (int i = 0; i < 20; i++) {
			Request request = good_request(pair, static_cast<Op>(env.random(7)));
			auto *bytes = reinterpret_cast<unsigned char *>(&request);

			if (trial % 4 == 0)
				pattern_fill(bytes, sizeof(request), env.random(), 0);
			else
				for (int k = 0; k < 3; k++)
					bytes[env.random(96)] = static_cast<unsigned char>(env.random());
			pair.post_raw(&request, sizeof(request));
		}
		settle(pair);
		if (trial % 50 == 0)
			bystander.check();
	}
	bystander.check();
}

// Random receives, met by good messages of the innocent peer.
void random_receives(Env &env)
{
	need_metaroce(env);
	Bystander bystander(env);

	for (int trial = 0; trial < env.count(400, 40); trial++) {
		HostilePair pair(env);

		for (int i = 0; i < 10; i++) {
			unsigned char bytes[METAROCE_RQE_HDR + 4 * sizeof(metaroce_sge)] = {};
			auto *head = reinterpret_cast<metaroce_rqe *>(bytes);
			auto *list = reinterpret_cast<metaroce_sge *>(head + 1);

			head->num_sge = 1;
			list[0] = {pair.a_buf.addr(), 4096, pair.a_buf.lkey()};
			if (trial % 4 == 0)
				pattern_fill(bytes, sizeof(bytes), env.random(), 0);
			else if (trial % 4 == 1)
				head->num_sge = static_cast<uint32_t>(env.random());
			else
				bytes[env.random(sizeof(bytes))] = static_cast<unsigned char>(env.random());
			pair.post_raw_receive(bytes, sizeof(bytes));
		}
		for (uint64_t i = 0; i < 10; i++)
			(void)try_send(pair.b.qp.get(), {Op::send, i, {pair.b_buf.sge(0, 3000)}});
		settle(pair);
	}
	bystander.check();
}

// Work goes on properly while another thread scribbles over the entries.
void scribble_work_queues(Env &env, bool receives)
{
	need_metaroce(env);
	Bystander bystander(env);

	for (int trial = 0; trial < env.count(30, 4); trial++) {
		HostilePair pair(env);
		Ring &ring = receives ? pair.a.rq : pair.a.sq;
		uint64_t seed = env.random();
		Nuisance scribbler([&ring, seed]() mutable {
			std::mt19937_64 random(seed++);

			for (int i = 0; i < 200; i++) {
				// Mostly small numbers: counts and lengths that are nearly right.
				auto value = static_cast<uint32_t>(i % 3 ? random() & 0xff : random());

				ring.scribble(random() % ring.words(), value);
			}
		});

		for (uint64_t i = 0; i < 300; i++) {
			Op op = std::vector{Op::write, Op::send, Op::read, Op::fetch_add}[i % 4];

			(void)try_recv(pair.a.qp.get(), i, {pair.a_buf.sge(0, 4096)});
			(void)try_recv(pair.b.qp.get(), i, {pair.b_buf.sge(0, 4096)});
			(void)try_send(pair.a.qp.get(), {op, i, {pair.a_buf.sge(0, 8)}, pair.b_buf.addr(), pair.b_buf.rkey()});
			(void)try_send(pair.b.qp.get(), {Op::send, i, {pair.b_buf.sge(0, 1000)}});
			if (i % 8 == 0) {
				sink(pair.a.cq.get());
				sink(pair.b.scq.get());
				sink(pair.b.rcq.get());
			}
		}
		settle(pair);
	}
	bystander.check();
}

// The CQ is written by its owner while the kernel writes completions into it.
void scribble_cq(Env &env)
{
	need_metaroce(env);
	Bystander bystander(env);

	for (int trial = 0; trial < env.count(30, 4); trial++) {
		HostilePair pair(env);
		Ring &ring = pair.a.cq_ring;
		uint64_t seed = env.random();
		Nuisance scribbler([&ring, seed]() mutable {
			std::mt19937_64 random(seed++);

			for (int i = 0; i < 100; i++)
				ring.scribble(random() % ring.words(), static_cast<uint32_t>(random()));
			ring.set_cons(static_cast<uint32_t>(random()));
			if (random() % 4 == 0)
				ring.set_prod(static_cast<uint32_t>(random()));
		});

		for (uint64_t i = 0; i < 300; i++) {
			Request request = good_request(pair, Op::write);

			request.head.wr_id = i;
			pair.post_raw(&request, sizeof(request));
		}
		sleep_seconds(0.005);
	}
	bystander.check();
}

// Indices that no honest program would store.
void wild_indices(Env &env)
{
	need_metaroce(env);
	Bystander bystander(env);
	const uint32_t jumps[] = {0, 1, 0xffffffff, 127, 128, 129, 255, 256, 257, 0x10000, 0x7fffffff, 0x80000000, 0x80000001};

	for (uint32_t jump : jumps)
		for (int which = 0; which < 6; which++) {
			HostilePair pair(env);
			Ring *rings[] = {&pair.a.sq, &pair.a.rq, &pair.a.cq_ring};
			Ring &ring = *rings[which % 3];

			if (which < 3)
				ring.set_prod(ring.prod() + jump);
			else
				ring.set_cons(ring.cons() + jump);
			pair.doorbell();
			for (uint64_t i = 0; i < 5; i++)
				(void)try_send(pair.b.qp.get(), {Op::send, i, {pair.b_buf.sge(0, 100)}});
			sleep_seconds(0.002);
			pair.doorbell();
			sink(pair.b.scq.get());
		}
	bystander.check();
}

// Words that only the kernel writes, written by us.
void kernel_words(Env &env)
{
	need_metaroce(env);
	Bystander bystander(env);

	for (int trial = 0; trial < env.count(100, 10); trial++) {
		HostilePair pair(env);
		Ring *rings[] = {&pair.a.sq, &pair.a.rq, &pair.a.cq_ring};

		for (Ring *ring : rings) {
			metaroce_ring *header = ring->header();

			for (__u32 *word : {&header->watching, &header->gone, &header->error})
				std::atomic_ref(*word).store(env.random(2) ? 1u : static_cast<uint32_t>(env.random()));
			for (__u32 &word : header->resv2)
				std::atomic_ref(word).store(static_cast<uint32_t>(env.random()));
		}
		for (uint64_t i = 0; i < 20; i++) {
			Request request = good_request(pair, Op::write);

			pair.post_raw(&request, sizeof(request));
			(void)try_send(pair.b.qp.get(), {Op::send, i, {pair.b_buf.sge(0, 100)}});
		}
		sleep_seconds(0.002);
	}
	bystander.check();
}

// The doorbell's command with sizes and counts that make no sense, and other objects' handles.
void doorbell_commands(Env &env)
{
	need_metaroce(env);
	Bystander bystander(env);
	HostilePair pair(env);
	uint32_t handle = pair.a.qp->handle;

	for (uint32_t wr_count : {0u, 1u, 2u, 1000u, 0xffffffffu})
		for (uint32_t sge_count : {0u, 1u, 0xffffffffu})
			for (uint32_t wqe_size : {0u, 1u, 63u, 64u, 128u, 4096u, 0x7fffffffu, 0xffffffffu})
				for (size_t extra : {0, 64, 256, 4096}) {
					int result = raw_post_send_command(pair.a.dev.ctx(), handle, wr_count, sge_count, wqe_size, extra);

					require(result < 0 || wr_count == 0, "doorbell with ", wr_count, " requests of ", wqe_size, " bytes was taken");
				}
	for (uint32_t other : {handle + 1, handle + 1000, pair.a.cq->handle, pair.a.pd->handle, 0u, 0xffffffffu}) {
		if (other == handle)
			continue;
		int result = raw_post_send_command(pair.a.dev.ctx(), other, 0, 0, 64, 0);

		require(result < 0, "doorbell for handle ", other, " was taken");
	}
	Request request = good_request(pair, Op::write);

	pair.post_raw(&request, sizeof(request));
	expect_wc(env, pair.a.cq.get(), IBV_WC_SUCCESS, 77, pair.a.qp.get(), "WRITE after bad doorbells");
	bystander.check();
}

// Mapping what is not ours, too much of it, or with rights it should not have.
void mappings(Env &env)
{
	need_metaroce(env);
	Bystander bystander(env);
	HostilePair pair(env);
	int fd = pair.a.dev.ctx()->cmd_fd;
	Device stranger = env.open_a();

	for (const Ring *ring : {&pair.a.sq, &pair.a.rq, &pair.a.cq_ring}) {
		const Area &area = ring->area();
		auto offset = static_cast<off_t>(area.offset);
		auto map = [&](size_t size, int rights, int flags, int file, off_t at) {
			void *memory = mmap(nullptr, size, rights, flags, file, at);

			if (memory != MAP_FAILED)
				munmap(memory, size);
			return memory != MAP_FAILED;
		};
		constexpr int both = PROT_READ | PROT_WRITE;

		require(map(area.size, both, MAP_SHARED, fd, offset), "mapping a ring a second time was refused");
		require(!map(area.size + 4096, both, MAP_SHARED, fd, offset), "more than the ring was mapped");
		require(!map(area.size, both, MAP_SHARED, stranger.ctx()->cmd_fd, offset), "another context mapped the ring");
		require(!map(4096, both, MAP_SHARED, fd, offset + (off_t(1) << 40)), "an offset that is nobody's was mapped");
		note("executable mapping of a ring: ", map(area.size, both | PROT_EXEC, MAP_SHARED, fd, offset) ? "taken" : "refused");
		note("private mapping of a ring: ", map(area.size, both, MAP_PRIVATE, fd, offset) ? "taken" : "refused");
		void *grown = mremap(reinterpret_cast<void *>(area.address), area.size, area.size + 4096, MREMAP_MAYMOVE);

		require(grown == MAP_FAILED, "a mapped ring grew");
	}
	bystander.check();
}

// A mapping that outlives its QP and CQ.
void mapping_outlives(Env &env)
{
	need_metaroce(env);
	Bystander bystander(env);

	for (int trial = 0; trial < env.count(50, 5); trial++) {
		std::vector<std::pair<void *, size_t>> copies;
		{
			HostilePair pair(env);

			for (const Ring *ring : {&pair.a.sq, &pair.a.rq, &pair.a.cq_ring}) {
				const Area &area = ring->area();
				void *memory = mmap(nullptr, area.size, PROT_READ | PROT_WRITE, MAP_SHARED, pair.a.dev.ctx()->cmd_fd,
						    static_cast<off_t>(area.offset));

				require(memory != MAP_FAILED, "second mapping: ", errno_name(errno));
				copies.emplace_back(memory, area.size);
			}
		}
		bystander.check();
		for (auto [memory, size] : copies) {
			memset(memory, 0xa5, size);
			munmap(memory, size);
		}
	}
	bystander.check();
}

// The rings are unmapped while the QP works.
void unmapped_rings(Env &env)
{
	need_metaroce(env);
	Bystander bystander(env);

	if (!env.opt.fork)
		skip("needs its own process");
	for (int which = 0; which < 3; which++) {
		HostilePair pair(env);
		Ring *rings[] = {&pair.a.sq, &pair.a.rq, &pair.a.cq_ring};
		const Area &area = rings[which]->area();

		for (uint64_t i = 0; i < 50; i++)
			(void)try_send(pair.a.qp.get(), {Op::write, i, {pair.a_buf.sge(0, 60000)}, pair.b_buf.addr(), pair.b_buf.rkey()});
		// Memory of our own in its place, so that the library's own munmap finds something.
		void *memory = mmap(reinterpret_cast<void *>(area.address), area.size, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

		require(memory != MAP_FAILED, "mmap over a ring");
		for (uint64_t i = 0; i < 20; i++)
			(void)try_send(pair.b.qp.get(), {Op::send, i, {pair.b_buf.sge(0, 100)}});
		sleep_seconds(0.01);
		pair.doorbell();
	}
	bystander.check();
}

} // namespace

void add_hostile_cases(Registry &cases)
{
	cases.push_back({"hostile_raw_posting_works", raw_posting_works});
	cases.push_back({"B08_hostile_opcodes_and_flags", every_opcode_and_flag});
	cases.push_back({"B08_hostile_inline_lengths", inline_lengths});
	cases.push_back({"B08_hostile_random_requests", random_requests});
	cases.push_back({"B08_hostile_random_receives", random_receives});
	cases.push_back({"B07_hostile_scribble_sends", [](Env &env) { scribble_work_queues(env, false); }});
	cases.push_back({"B07_hostile_scribble_receives", [](Env &env) { scribble_work_queues(env, true); }});
	cases.push_back({"B34_hostile_scribble_cq", scribble_cq});
	cases.push_back({"B08_hostile_wild_indices", wild_indices});
	cases.push_back({"hostile_kernel_words", kernel_words});
	cases.push_back({"B43_hostile_doorbell_commands", doorbell_commands});
	cases.push_back({"hostile_mappings", mappings});
	cases.push_back({"hostile_mapping_outlives", mapping_outlives});
	cases.push_back({"hostile_unmapped_rings", unmapped_rings});
}

} // namespace mv
