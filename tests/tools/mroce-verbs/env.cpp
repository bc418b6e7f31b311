// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "env.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mv {

namespace {

// A list of devices that frees itself.
struct DeviceList {
	int count = 0;
	ibv_device **devices = ibv_get_device_list(&count);

	DeviceList() = default;
	DeviceList(const DeviceList &) = delete;
	DeviceList &operator=(const DeviceList &) = delete;
	~DeviceList()
	{
		if (devices)
			ibv_free_device_list(devices);
	}
};

Context open_device(const std::string &name)
{
	DeviceList list;

	require(list.devices != nullptr, "ibv_get_device_list: ", errno_name(errno));
	for (int i = 0; i < list.count; i++) {
		if (!name.empty() && name != ibv_get_device_name(list.devices[i]))
			continue;
		Context context(ibv_open_device(list.devices[i]));

		require(context != nullptr, "ibv_open_device(", ibv_get_device_name(list.devices[i]), "): ", errno_name(errno));
		return context;
	}
	fail("no RDMA device", name.empty() ? "" : " named ", name);
}

bool is_zero(const ibv_gid &gid)
{
	return gid.global.subnet_prefix == 0 && gid.global.interface_id == 0;
}

bool is_link_local(const ibv_gid &gid)
{
	return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
}

// The first routable GID, or else the first of any kind.
int choose_gid(ibv_context *context, uint8_t port, int entries)
{
	int found = -1;

	for (int i = 0; i < entries; i++) {
		ibv_gid gid;

		if (ibv_query_gid(context, port, i, &gid) || is_zero(gid))
			continue;
		if (!is_link_local(gid))
			return i;
		if (found < 0)
			found = i;
	}
	require(found >= 0, "the device has no GID: give its netdev an address");
	return found;
}

} // namespace

Device::Device(const std::string &wanted, uint8_t port_number, int gid)
	: port_num(port_number), gid_index(gid), context_(open_device(wanted))
{
	name = ibv_get_device_name(context_->device);
	must(ibv_query_device(ctx(), &attr), "ibv_query_device");
	must(ibv_query_port(ctx(), port_num, &port), "ibv_query_port");
	if (gid_index < 0)
		gid_index = choose_gid(ctx(), port_num, port.gid_tbl_len);
	must(ibv_query_gid(ctx(), port_num, gid_index, &this->gid), "ibv_query_gid");
	require(!is_zero(this->gid), name, ": GID ", gid_index, " is empty");
}

Env::Env(const Options &options, std::string_view case_name)
	: opt(options), random_(options.seed ^ std::hash<std::string_view>{}(case_name))
{
}

Device Env::open_a() const
{
	return Device(opt.dev, opt.port, opt.gid);
}

Device Env::open_b() const
{
	if (opt.peer_dev.empty() || opt.peer_dev == opt.dev)
		return Device(opt.dev, opt.port, opt.peer_gid < 0 ? opt.gid : opt.peer_gid);
	return Device(opt.peer_dev, opt.port, opt.peer_gid);
}

Device &Env::a()
{
	if (!a_)
		a_ = std::make_unique<Device>(open_a());
	return *a_;
}

Device &Env::b()
{
	if (!b_)
		b_ = std::make_unique<Device>(open_b());
	return *b_;
}

int Env::count(int base, int least) const
{
	return std::max(least, static_cast<int>(base * opt.scale));
}

size_t Env::size_limit() const
{
	constexpr size_t mib = 1 << 20;

	if (opt.scale >= 1)
		return 8 * mib + 1;
	if (opt.scale >= 0.3)
		return mib + 1;
	return opt.scale >= 0.1 ? 65536 + 1 : 2 * 8192 + 1;
}

} // namespace mv
