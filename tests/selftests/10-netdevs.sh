#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# lab: kernels=uml,6.12 timeout=90
# A device on each kind of Ethernet netdev, and traffic through it: VLAN, macvlan, bridge, bond in active-backup, whose active
# port goes away under traffic.
. "$LAB_DIR/guest.sh"

modprobe -a 8021q bonding macvlan bridge 2>/dev/null # built in on some kernels
check "two hosts with two wires" hosts_up 2 1500 2 && check "modprobe metaroce" modprobe metaroce || done_testing

# one NETDEV PLANE: addresses of its own, devices, traffic over both address families, and all of it away again
gids() { local h; for h in 1 2; do gid_index mr$h "$(addr4 $h "$1")" && gid_index mr$h "$(addr6 $h "$1")" || return; done; }
traffic() { # NETDEV PLANE OPTION...
	local plane=$2 family
	shift 2
	for family in 4 6; do
		PAIR_ADDR=$(addr4 2 "$plane") run_pair ib_write_bw -F -x "$(gid_index mr1 "$("addr$family" 1 "$plane")")" \
			-s 65536 -n "$(scaled 500 50)" "$@" || return
	done
}
on_netdev() {
	local netdev=$1 plane=$2 h before
	for h in 1 2; do
		ip -n h$h link set "$netdev" up &&
			ip -n h$h addr add "$(addr4 $h "$plane")/24" dev "$netdev" &&
			ip -n h$h addr add "$(addr6 $h "$plane")/64" dev "$netdev" nodad || not_ok "$netdev on h$h has addresses"
		check "$netdev: a device on h$h" dev_add mr$h $h "$netdev"
	done
	check "$netdev: GIDs" wait_for 20 gids "$plane"
	before=$(counter mr1 tx_data_pkts)
	check "$netdev: traffic" traffic "$netdev" "$plane"
	at_least "$netdev: by this device" $((before + 50)) "$(counter mr1 tx_data_pkts)"
}
away() {
	local h
	for h in 1 2; do
		check "$1: the device on h$h goes" dev_del mr$h
		ip -n h$h link del "$1"
	done
}
both() { local h; for h in 1 2; do "$@" $h || return; done; }

vlan() { ip -n h$1 link add link eth0 name eth0.7 type vlan id 7; }
check "a VLAN on each host" both vlan && on_netdev eth0.7 7
away eth0.7

macvlan() { ip -n h$1 link add link eth0 name mac0 type macvlan mode bridge; }
check "a macvlan on each host" both macvlan && on_netdev mac0 8
away mac0

bridge() { ip -n h$1 link add br0 type bridge forward_delay 0 && ip -n h$1 link set eth1 master br0; }
check "a bridge on each host" both bridge && on_netdev br0 9
away br0

bond() {
	ip -n h$1 link add bond0 type bond mode active-backup miimon 50 || return
	for port in eth0 eth1; do
		ip -n h$1 link set $port down && ip -n h$1 link set $port master bond0 && ip -n h$1 link set $port up || return
	done
}
check "a bond in active-backup on each host" both bond && on_netdev bond0 10
active() { on 1 cat /sys/class/net/bond0/bonding/active_slave; }
first=$(active)
PAIR_ADDR=$(addr4 2 10) PAIR_TIMEOUT=90 run_pair ib_write_bw -F -x "$(gid_index mr1 "$(addr4 1 10)")" -s 65536 -u 20 -n "$(scaled 20000 2000)" \
	>"$LAB_TMP/bond.log" 2>&1 &
program=$!
before=$(counter mr1 tx_data_pkts)
flows() { [ "$(counter mr1 tx_data_pkts)" -gt $((before + 100)) ]; }
check "bond0: traffic flows" wait_for 20 flows
ip -n h1 link set "$first" down
ip -n h2 link set "$first" down
moved() { [ "$(active)" != "$first" ]; }
check "bond0: the active port goes down and the other takes over" wait_for 5 moved
wait $program
expect "bond0: the program has not noticed" 0 $? || note "$(cat "$LAB_TMP/bond.log")"
away bond0

for netdev in lo nosuch; do refused "no device on $netdev" dev_add mrx 1 $netdev; done
ip -n h1 link add sit7 type sit remote 10.9.9.9 2>/dev/null && refused "no device on a tunnel that is not Ethernet" dev_add mrx 1 sit7
hosts_down
check "the module is unloaded" wait_for 5 modprobe -r metaroce
done_testing
