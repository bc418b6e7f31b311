#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# lab: kernels=uml timeout=300
# Devices, netdevs, namespaces, programs and the module come and go, idle and under traffic, and leave nothing behind.
. "$LAB_DIR/guest.sh"

sockets() { on "$1" ss -Hlun 'sport = :61791' | wc -l; }
cycle() { local i; for ((i = 0; i < $1; i++)); do modprobe metaroce && modprobe -r metaroce || return; done; }
links() { local i; for ((i = 0; i < $1; i++)); do dev_add mr1 1 eth0 && dev_del mr1 || return; done; }
no_device() { [ -z "$(rdma link show)" ] && [ -z "$(rdma resource show)" ]; }
unused() { [ "$(module_refcount)" = 0 ]; }
gone() { ! kill -0 "$1" 2>/dev/null; }
# traffic SECONDS: in the background, until killed or its device goes
traffic() {
	PAIR_TIMEOUT=$(($1 + 30)) run_pair ib_write_bw -D "$1" -s 65536 >"$LAB_TMP/traffic.log" 2>&1 &
	TRAFFIC=$!
	sleep $((2 * LAB_SLOWNESS))
}
kill_tools() { local h p; for h in h1 h2; do for p in $(ip netns pids $h 2>/dev/null); do kill -9 "$p" 2>/dev/null; done; done; }
# traffic_over: programs end by themselves or are killed; both must work
traffic_over() { kill_tools; wait_for 5 gone $TRAFFIC; }
clean() {
	check "$1: programs can be killed" traffic_over
	wait $TRAFFIC 2>/dev/null
	dev_del mr1 2>/dev/null; dev_del mr2 2>/dev/null; hosts_down
	check "$1: no device and no resource is left" wait_for 10 no_device
	check "$1: nobody uses the module" wait_for 5 unused
}

check "load and unload" cycle "$(scaled 200 20)"
check "modprobe metaroce" modprobe metaroce && check "two hosts" hosts_up 2 || done_testing

expect "no socket before the first device" 0 "$(sockets 1)"
refused "an unknown netdev" dev_add mrx 1 nosuch
refused "the loopback netdev" dev_add mrx 1 lo
ip -n h1 link add tiny mtu 68 type dummy && ip -n h1 link set tiny up
refused "a small MTU" dev_add mrx 1 tiny
expect "no socket after refusals" 0 "$(sockets 1)"
check "a device" dev_add mr1 1 eth0
at_least "a socket" 1 "$(sockets 1)"
refused "the same netdev twice" dev_add mrx 1 eth0
check "the device goes" dev_del mr1
expect "no socket after the last device" 0 "$(sockets 1)"
check "add and delete" links "$(scaled 100 10)"

for i in $(seq "$(scaled 5 2)"); do
	check "$i: devices" devs_up; traffic 10
	check "$i: the device is deleted under traffic" timeout $((5 * LAB_SLOWNESS)) rdma link delete mr1
	clean "link delete $i"; hosts_up 2
done

devs_up; traffic 10
check "the device is renamed under traffic" rdma dev set mr1 name mrq
check "and back" rdma dev set mrq name mr1
clean "rename"; hosts_up 2

devs_up; traffic 10
check "the netdev is deleted under traffic" timeout $((5 * LAB_SLOWNESS)) ip -n h1 link del eth0
clean "netdev"; hosts_up 2

devs_up; traffic 10
check "the namespace is deleted under traffic" ip netns del h1
clean "namespace"; hosts_up 2

devs_up
for i in $(seq "$(scaled 30 5)"); do
	PAIR_TIMEOUT=30 run_pair ib_write_bw -D 5 -s 65536 >/dev/null 2>&1 &
	TRAFFIC=$!
	sleep "0.$((RANDOM % 10))"; sleep $((RANDOM % 2))
	for p in $(ip netns pids h$((RANDOM % 2 + 1))); do kill -9 "$p" 2>/dev/null; done
	sleep 0.3; traffic_over || check "$i: killed programs end" false
	wait $TRAFFIC 2>/dev/null
done
check "a pair after the kills" run_pair ib_write_bw -n "$(scaled 500 50)" -s 4096

# 4.096 us * 2^18 * 8 = 8.6 s without progress before the program is told: more than the second without a link
PAIR_TIMEOUT=60 run_pair ib_write_bw -D 6 -s 65536 -u 18 >"$LAB_TMP/traffic.log" 2>&1 &
TRAFFIC=$!
sleep 3; ip -n h1 link set eth0 down; sleep 1; ip -n h1 link set eth0 up; ip -n h1 addr add "$(addr6 1)/64" dev eth0 nodad 2>/dev/null
wait $TRAFFIC
expect "the link is down for a second, the program finishes" 0 $? || note "$(cat "$LAB_TMP/traffic.log")"

# open devices hold the module: they go first, programs see it
traffic 10
dev_del mr1; dev_del mr2
check "programs end when their devices go" wait_for 5 gone $TRAFFIC
check "unload with a program that had it open" timeout $((5 * LAB_SLOWNESS)) modprobe -r metaroce
kill_tools; wait $TRAFFIC 2>/dev/null
refused "the module is gone" module_loaded
hosts_down
done_testing
