// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "rings.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sstream>
#include <sys/ioctl.h>
#include <unistd.h>

namespace mv {

namespace {

// The core compares the driver id before it looks for the method: another driver says EINVAL.
bool is_metaroce(ibv_context *context)
{
	ib_uverbs_ioctl_hdr header{};

	header.length = sizeof(header);
	header.object_id = 0xfff;
	header.driver_id = METAROCE_DRIVER_ID;
	return ioctl(context->cmd_fd, RDMA_VERBS_IOCTL, &header) < 0 && errno == EPROTONOSUPPORT;
}

constexpr uint64_t first_mark = 0x6d726f6365000001, second_mark = 0x6d726f6365000002;

} // namespace

void need_metaroce(Env &env)
{
	if (!is_metaroce(env.a().ctx()) || !is_metaroce(env.b().ctx()))
		skip("the mapped rings are those of metaroce only");
}

std::vector<Area> uverbs_areas()
{
	std::ifstream maps("/proc/self/maps");
	std::vector<Area> result;
	std::string line;

	while (std::getline(maps, line)) {
		uint64_t begin, end, offset;
		char rights[8];

		if (line.find("/uverbs") == std::string::npos)
			continue;
		if (sscanf(line.c_str(), "%lx-%lx %7s %lx", &begin, &end, rights, &offset) == 4)
			result.push_back({begin, end - begin, offset});
	}
	return result;
}

std::vector<Area> new_areas(const std::vector<Area> &before)
{
	std::vector<Area> result = uverbs_areas();

	std::erase_if(result, [&](const Area &area) {
		return std::any_of(before.begin(), before.end(), [&](const Area &old) { return old.address == area.address; });
	});
	return result;
}

void Ring::measure(uint64_t first_id, uint64_t second_id)
{
	const auto *data = reinterpret_cast<const unsigned char *>(area_.address) + METAROCE_RING_HDR;
	size_t bytes = area_.size - METAROCE_RING_HDR;

	require(!memcmp(data, &first_id, 8), "the first slot does not hold the first request");
	for (stride_ = 16; stride_ + 8 <= bytes; stride_ += 16)
		if (!memcmp(data + stride_, &second_id, 8))
			break;
	require(stride_ + 8 <= bytes, "no stride fits: the second request is not in the ring");
	for (entries_ = 1; size_t(2) * entries_ * stride_ <= bytes; entries_ *= 2)
		;
}

unsigned char *Ring::slot(uint32_t index) const
{
	return reinterpret_cast<unsigned char *>(area_.address) + METAROCE_RING_HDR + size_t(index % entries_) * stride_;
}

void Ring::scribble(size_t word, uint32_t value)
{
	auto *words = reinterpret_cast<uint32_t *>(area_.address + METAROCE_RING_HDR);

	std::atomic_ref(words[word]).store(value, std::memory_order_relaxed);
}

HostileEnd::HostileEnd(Env &, Device &device) : dev(device), pd(make_pd(device.ctx()))
{
	auto before = uverbs_areas();

	cq = make_cq(device.ctx(), 512);
	auto areas = new_areas(before);

	require_eq(areas.size(), 1u, "rings mapped for a CQ");
	cq_ring = Ring(areas[0]);
	before = uverbs_areas();
	qp = make_qp(pd.get(), cq.get(), cq.get(), {.send_wr = 128, .recv_wr = 128, .send_sge = 4, .recv_sge = 4, .inline_bytes = 64});
	areas = new_areas(before);
	require_eq(areas.size(), 2u, "rings mapped for a QP");
	sq = Ring(areas[0]);
	rq = Ring(areas[1]);
}

HostilePair::HostilePair(Env &env)
	: a(env, env.a()), b(env.b(), QpSpec{.send_wr = 128, .recv_wr = 128}, 512, false), a_buf(a.pd.get(), 65536), b_buf(b.pd.get(), 65536)
{
	// half a second of silence: attacks that get no answer must end, the marks before them arrive also on a slow machine
	Rc rc{.timeout = 16, .retry = 1, .rnr = 1, .min_rnr = 1};

	connect(a.qp.get(), a.dev, b.qp.get(), b.dev, rc);
	tell_rings_apart(env);
}

void HostilePair::tell_rings_apart(Env &env)
{
	for (uint64_t mark : {first_mark, second_mark}) {
		post_recv(a.qp.get(), mark, {a_buf.sge(0, 64)});
		post_recv(b.qp.get(), mark, {b_buf.sge(0, 64)});
	}
	require(a.sq.prod() + a.rq.prod() == 2, "posting receives moved no index");
	if (a.sq.prod() == 2)
		std::swap(a.sq, a.rq);
	a.rq.measure(first_mark, second_mark);
	for (uint64_t mark : {first_mark, second_mark}) {
		post_send(a.qp.get(), {Op::send, mark, {a_buf.sge(0, 8)}});
		expect_wc(env, a.cq.get(), IBV_WC_SUCCESS, mark, a.qp.get(), "SEND before the attack");
		expect_wc(env, b.rcq.get(), IBV_WC_SUCCESS, mark, b.qp.get(), "receive before the attack");
	}
	a.sq.measure(first_mark, second_mark);
	next_send_ = a.sq.prod();
	next_receive_ = a.rq.prod();
}

void HostilePair::doorbell()
{
	(void)raw_post_send_command(a.dev.ctx(), a.qp->handle, 0, 0, sizeof(ibv_send_wr), 0);
}

void HostilePair::post_raw(const void *request, size_t size)
{
	memcpy(a.sq.slot(next_send_), request, std::min<size_t>(size, a.sq.stride()));
	a.sq.set_prod(++next_send_);
	doorbell();
}

void HostilePair::post_raw_receive(const void *request, size_t size)
{
	memcpy(a.rq.slot(next_receive_), request, std::min<size_t>(size, a.rq.stride()));
	a.rq.set_prod(++next_receive_);
}

int raw_post_send_command(ibv_context *context, uint32_t qp_handle, uint32_t wr_count, uint32_t sge_count, uint32_t wqe_size,
			  size_t extra_bytes)
{
	struct {
		ib_uverbs_cmd_hdr header;
		ib_uverbs_post_send body;
	} command{};
	ib_uverbs_post_send_resp response{};
	std::vector<unsigned char> bytes(sizeof(command) + extra_bytes, 0);

	command.header.command = IB_USER_VERBS_CMD_POST_SEND;
	command.header.in_words = static_cast<uint16_t>(bytes.size() / 4);
	command.header.out_words = sizeof(response) / 4;
	command.body.response = reinterpret_cast<uintptr_t>(&response);
	command.body.qp_handle = qp_handle;
	command.body.wr_count = wr_count;
	command.body.sge_count = sge_count;
	command.body.wqe_size = wqe_size;
	memcpy(bytes.data(), &command, sizeof(command));
	ssize_t written = write(context->cmd_fd, bytes.data(), bytes.size());

	return written < 0 ? -errno : static_cast<int>(written);
}

} // namespace mv
