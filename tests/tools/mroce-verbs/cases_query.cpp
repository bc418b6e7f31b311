// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What a device says about itself.
#include "link.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mv {

namespace {

void device_attributes(Env &env)
{
	const ibv_device_attr &attr = env.a().attr;

	require(attr.phys_port_cnt >= 1, "no port");
	require(attr.max_qp >= 16 && attr.max_cq >= 16 && attr.max_mr >= 16 && attr.max_pd >= 16, "limits too small to use");
	require(attr.max_qp_wr >= 64 && attr.max_cqe >= 64, "queues too small to use");
	require(attr.max_sge >= 1, "no SGE");
	require(attr.max_mr_size >= (1ull << 30), "max_mr_size ", attr.max_mr_size);
	require(attr.page_size_cap & 4096, "4 KiB pages not in page_size_cap");
	require(attr.max_qp_rd_atom >= 1 && attr.max_qp_init_rd_atom >= 1, "no outstanding READ allowed");
	require(attr.max_res_rd_atom >= attr.max_qp_rd_atom, "max_res_rd_atom below max_qp_rd_atom");
	require(attr.node_guid != 0, "node GUID is zero");
	require(memchr(attr.fw_ver, 0, sizeof(attr.fw_ver)) != nullptr, "fw_ver not terminated");
}

void device_attributes_ex(Env &env)
{
	ibv_device_attr_ex attr{};
	int returned = ibv_query_device_ex(env.a().ctx(), nullptr, &attr);

	if (returned && (error_of(returned) == EOPNOTSUPP || error_of(returned) == ENOSYS))
		skip("no ibv_query_device_ex");
	must(returned, "ibv_query_device_ex");
	require_eq(attr.orig_attr.max_qp, env.a().attr.max_qp, "max_qp of the two queries");
	require_eq(attr.orig_attr.max_sge, env.a().attr.max_sge, "max_sge of the two queries");
}

void port_attributes(Env &env)
{
	const ibv_port_attr &port = env.a().port;
	ibv_port_attr none{};

	require_eq(static_cast<int>(port.state), static_cast<int>(IBV_PORT_ACTIVE), "port state");
	require_eq(static_cast<int>(port.link_layer), static_cast<int>(IBV_LINK_LAYER_ETHERNET), "link layer");
	require(port.active_mtu >= IBV_MTU_256 && port.active_mtu <= port.max_mtu, "active MTU ", port.active_mtu);
	require(port.gid_tbl_len > 0, "empty GID table");
	require(port.pkey_tbl_len > 0, "empty P_Key table");
	require(port.max_msg_sz >= (1u << 30), "max_msg_sz ", port.max_msg_sz);
	require(port.active_width != 0 && port.active_speed != 0, "width or speed is 0");
	require(ibv_query_port(env.a().ctx(), 0, &none) != 0, "port 0 answers");
	require(ibv_query_port(env.a().ctx(), static_cast<uint8_t>(env.a().attr.phys_port_cnt + 1), &none) != 0,
		"a port that does not exist answers");
}

void gid_table(Env &env)
{
	Device &dev = env.a();
	union ibv_gid gid;
	ibv_gid_entry entry{};
	int used = 0;

	for (int i = 0; i < dev.port.gid_tbl_len && i < 1024; i++) {
		if (ibv_query_gid(dev.ctx(), dev.port_num, i, &gid) == 0)
			used += gid.global.interface_id != 0;
	}
	require(used > 0, "no GID set");
	require(ibv_query_gid(dev.ctx(), dev.port_num, dev.port.gid_tbl_len, &gid) != 0, "GID beyond the table answers");
	must(ibv_query_gid_ex(dev.ctx(), dev.port_num, dev.gid_index, &entry, 0), "ibv_query_gid_ex");
	require(!memcmp(&entry.gid, &dev.gid, sizeof(gid)), "the two GID queries differ");
	require_eq(entry.gid_type, static_cast<uint32_t>(IBV_GID_TYPE_ROCE_V2), "GID type");
	require(entry.ndev_ifindex != 0, "GID without netdev");
}

void pkey_table(Env &env)
{
	Device &dev = env.a();
	__be16 pkey = 0;

	must(ibv_query_pkey(dev.ctx(), dev.port_num, 0, &pkey), "ibv_query_pkey");
	require(pkey == 0xffff, "P_Key 0 is not the default one");
	require(ibv_query_pkey(dev.ctx(), dev.port_num, dev.port.pkey_tbl_len, &pkey) != 0, "P_Key beyond the table answers");
}

void open_and_close(Env &env)
{
	for (int i = 0; i < env.count(200, 5); i++) {
		Device dev = env.open_a();
		Pd pd = make_pd(dev.ctx());
		Cq cq = make_cq(dev.ctx(), 10);
	}
}

void pd_lifetime(Env &env)
{
	std::vector<Pd> pds;
	int n = std::min(env.count(200, 20), env.a().attr.max_pd - 1);

	for (int i = 0; i < n; i++)
		pds.push_back(make_pd(env.a().ctx()));
	// Busy while something lives in it.
	Pd pd = make_pd(env.a().ctx());
	Cq cq = make_cq(env.a().ctx(), 16);
	Qp qp = make_qp(pd.get(), cq.get(), cq.get());

	must_fail(ibv_dealloc_pd(pd.get()), {EBUSY}, "dealloc of a PD that has a QP");
}

void cq_limits(Env &env)
{
	ibv_context *ctx = env.a().ctx();
	int most = env.a().attr.max_cqe;
	Cq one = make_cq(ctx, 1);
	Cq big = make_cq(ctx, std::min(most, 1 << 14));

	for (int entries : {0, -1, most + 1}) {
		if (entries == most + 1 && most == INT32_MAX)
			continue;
		errno = 0;
		Cq bad(ibv_create_cq(ctx, entries, nullptr, nullptr, 0));

		require(bad == nullptr, "CQ of ", entries, " entries was created, max_cqe is ", most);
		require_eq(errno, EINVAL, "errno for a CQ of ", entries, " entries");
	}
	require(Cq(ibv_create_cq(ctx, 16, nullptr, nullptr, ctx->num_comp_vectors)) == nullptr, "bad completion vector accepted");
}

void cq_busy(Env &env)
{
	Pd pd = make_pd(env.a().ctx());
	Cq cq = make_cq(env.a().ctx(), 16);
	Qp qp = make_qp(pd.get(), cq.get(), cq.get());

	must_fail(ibv_destroy_cq(cq.get()), {EBUSY}, "destroy of a CQ that has a QP");
}

void qp_caps(Env &env)
{
	const ibv_device_attr &attr = env.a().attr;
	Pd pd = make_pd(env.a().ctx());
	Cq cq = make_cq(env.a().ctx(), 64);
	uint32_t wr = static_cast<uint32_t>(attr.max_qp_wr), sge = static_cast<uint32_t>(attr.max_sge);
	const QpSpec too_big[] = {
		{.send_wr = wr + 1}, {.recv_wr = wr + 1}, {.send_sge = sge + 1}, {.recv_sge = sge + 1}, {.inline_bytes = 1u << 24},
	};
	const QpSpec good[] = {
		{.send_wr = 1, .recv_wr = 1, .send_sge = 1, .recv_sge = 1}, {.send_wr = 1000, .recv_wr = 33}, {.send_sge = sge, .recv_sge = sge},
		{.send_wr = wr, .recv_wr = 1},
	};

	for (const QpSpec &spec : too_big) {
		Qp qp = try_qp(pd.get(), cq.get(), cq.get(), spec);

		require(qp == nullptr, "QP beyond the device's limits was created: ", spec.send_wr, "/", spec.recv_wr, " WRs, ",
			spec.send_sge, "/", spec.recv_sge, " SGEs, ", spec.inline_bytes, " inline");
		require(errno == EINVAL || errno == ENOMEM, "QP beyond limits: ", errno_name(errno));
	}
	for (const QpSpec &spec : good) {
		ibv_qp_cap cap{};
		Qp qp = make_qp(pd.get(), cq.get(), cq.get(), spec, &cap);

		require(cap.max_send_wr >= spec.send_wr && cap.max_recv_wr >= spec.recv_wr && cap.max_send_sge >= spec.send_sge &&
				cap.max_recv_sge >= spec.recv_sge && cap.max_inline_data >= spec.inline_bytes,
			"QP got less than it asked for");
	}
}

void qp_types(Env &env)
{
	Pd pd = make_pd(env.a().ctx());
	Cq cq = make_cq(env.a().ctx(), 64);
	ibv_qp_init_attr init{};

	init.send_cq = init.recv_cq = cq.get();
	init.cap = {1, 1, 1, 1, 0};
	init.qp_type = static_cast<ibv_qp_type>(0x70);
	Qp qp(ibv_create_qp(pd.get(), &init));

	require(qp == nullptr, "QP of an undefined type was created");
	require(errno == EOPNOTSUPP || errno == EINVAL, "QP of an undefined type: ", errno_name(errno));
}

} // namespace

void add_query_cases(Registry &cases)
{
	cases.push_back({"query_device", device_attributes});
	cases.push_back({"query_device_ex", device_attributes_ex});
	cases.push_back({"query_port", port_attributes});
	cases.push_back({"query_gid", gid_table});
	cases.push_back({"query_pkey", pkey_table});
	cases.push_back({"open_close_loop", open_and_close});
	cases.push_back({"pd_lifetime", pd_lifetime});
	cases.push_back({"cq_limits", cq_limits});
	cases.push_back({"cq_busy", cq_busy});
	cases.push_back({"qp_caps", qp_caps});
	cases.push_back({"qp_type_undefined", qp_types});
}

} // namespace mv
