#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# lab: kernels=uml,uml-debug,6.12,smp-debug timeout=300
# Devices, netdevs, namespaces, programs and the module come and go, idle and under traffic, and leave nothing behind.
. "$LAB_TOP/tests/selftests/20-verbs-lib.sh"

# The slowest kernel needs seconds for every command: it does what a second CPU may spoil, once.
slowest=
[ "$LAB_KERNEL" != smp-debug ] || slowest=1

sockets() { on "$1" ss -Hlun 'sport = :61791' | wc -l; }
cycle() { local i; for ((i = 0; i < $1; i++)); do modprobe metaroce && modprobe -r metaroce || return; done; }
links() { local i; for ((i = 0; i < $1; i++)); do dev_add "$2" "$3" eth0 && dev_del "$2" || return; done; }
no_device() { [ -z "$(rdma link show)" ] && [ -z "$(rdma resource show)" ]; }
unused() { [ "$(module_refcount)" = 0 ]; }
gone() { ! kill -0 "$1" 2>/dev/null; }
within() { timeout $(($1 * LAB_SLOWNESS)) "${@:2}"; }
listening() { [ -n "$(on 2 ss -Hltn 'sport = :18515')" ]; }
sent() { [ "$(counter "$1" tx_data_pkts)" -ge "$2" ]; }
# not perftest: its short runs fail when its clock does not please it
pingpong() { run_pair ibv_rc_pingpong -g "$(gid_index mr1 "$(addr4 1)")" -n "$(scaled 200 20)"; }
as_before() { [ "$(resources mr1)" = "$IDLE1" ] && [ "$(resources mr2)" = "$IDLE2" ]; }

# moves DEVICE: it sends at this moment
moves() { wait_for 20 sent "$1" $(($(counter "$1" tx_data_pkts) + 50)); }

# kill_programs [HOST...]
kill_programs() {
	local h p
	[ $# -gt 0 ] || set -- h1 h2
	for h; do for p in $(ip netns pids "$h"); do kill -9 "$p" 2>/dev/null; done; done
}

# program HOST [OPTION...]: one end of a pair of programs, its process PROGRAM
program() {
	local host=$1
	shift
	on "$host" timeout $((60 * LAB_SLOWNESS)) ib_write_bw -d "mr$host" -s 65536 "$@" >"$LAB_TMP/program$host.log" 2>&1 </dev/null &
	PROGRAM=$!
}

# start [OPTION...]: a pair of programs
start() {
	program 2 "$@"; SERVER=$PROGRAM
	wait_for 10 listening
	program 1 "$@" "$(addr4 2)"; CLIENT=$PROGRAM
}

# traffic WHAT: two devices and a pair of programs that is seen to send
traffic() {
	devs_up || return
	start -D 300
	check "$1: traffic" moves mr1
}

# ended WHAT PROCESS...: each ends by itself, and says that something was wrong: no success, no signal, no time-out
ended() {
	local what=$1 pid status bad=
	shift
	for pid; do
		wait_for 10 gone "$pid" || { bad+=" $pid does not end,"; kill_programs; }
		wait "$pid"; status=$?
		[ $status -ge 1 ] && [ $status -lt 124 ] || bad+=" exit status $status,"
	done
	expect "$what" "" "$bad" || note "$(tail -n 5 "$LAB_TMP"/program*.log)"
}

# nothing_left WHAT: no device, nobody who holds the module, no socket
nothing_left() {
	check "$1: no device and no resource is left" wait_for 10 no_device
	check "$1: nobody uses the module" wait_for 5 unused
	expect "$1: no socket is left" "0 0" "$(sockets 1) $(sockets 2)"
}

# section WHAT: where the time goes
section() { note "$SECONDS s: $*"; }

# again: hosts as they were at the beginning
again() { dev_del mr1 2>/dev/null; dev_del mr2 2>/dev/null; hosts_down; hosts_up 2; }

check "load and unload" cycle "$(scaled 50 2)"
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
refused "the same name twice" dev_add mr1 2 eth0
check "the device goes" dev_del mr1
expect "no socket after the last device" 0 "$(sockets 1)"
links "$(scaled 50 2)" mr2 2 >"$LAB_TMP/links2" 2>&1 &
check "add and delete" links "$(scaled 50 2)" mr1 1
wait $!
expect "add and delete of another device at the same time" 0 $? || note "$(cat "$LAB_TMP/links2")"
nothing_left "add and delete"

section "devices are deleted"
for i in $(seq "$(scaled 4 1)"); do
	traffic "link delete $i"
	check "link delete $i: under traffic" within 5 rdma link delete mr$((i % 2 + 1))
	ended "link delete $i: both programs end with an error" "$CLIENT" "$SERVER"
	check "link delete $i: the other one" dev_del mr$(((i + 1) % 2 + 1))
	nothing_left "link delete $i"
done

renamed() {
	section "a device is renamed"
	traffic rename
	check "rename: under traffic" rdma dev set mr1 name mrq
	check "rename: traffic goes on" moves mrq
	check "rename: and back" rdma dev set mrq name mr1
	check "rename: traffic goes on" moves mr1
	kill_programs; wait "$CLIENT" "$SERVER" 2>/dev/null
	again; nothing_left rename
}

link_down() {
	section "the link goes down for a second"
	# 4.096 us * 2^18 * 8 = 8.6 s without progress before a program is told: more than the second without a link
	devs_up
	IDLE1=$(resources mr1) IDLE2=$(resources mr2)
	start -D $((3 + 3 * LAB_SLOWNESS)) -u 18
	check "link down: traffic" moves mr1
	ip -n h1 link set eth0 down; sleep 1; ip -n h1 link set eth0 up; ip -n h1 addr add "$(addr6 1)/64" dev eth0 nodad 2>/dev/null
	before=$(counter mr1 tx_data_pkts)
	wait "$CLIENT"; expect "link down: the client finishes" 0 $? || note "$(cat "$LAB_TMP/program1.log")"
	wait "$SERVER"; expect "link down: the server finishes" 0 $? || note "$(cat "$LAB_TMP/program2.log")"
	at_least "link down: traffic went on" $((before + 50)) "$(counter mr1 tx_data_pkts)"
}

killed() {
	section "programs are killed"
	for i in $(seq "$(scaled 12 2)"); do
		start -D 300
		if ((i & 1)); then
			check "kill $i: traffic" moves mr1
			victim=$((RANDOM % 2 + 1))
			kill_programs h$victim
			other=$SERVER
			[ $victim = 1 ] || other=$CLIENT
			ended "kill $i: the program on the other host ends with an error" "$other"
		else
			# in the middle of their setting up
			sleep 0.$((RANDOM % 10))
			kill_programs
		fi
		wait "$CLIENT" "$SERVER" 2>/dev/null
		wait_for 5 as_before
		expect "kill $i: nothing is left" "$IDLE1 $IDLE2" "$(resources mr1) $(resources mr2)"
	done
	check "a pair after the kills" pingpong
	again; nothing_left kills
}

[ "$slowest" ] || { renamed; link_down; killed; }

# What a program sees; it runs outside of h1 and h2, so that these namespaces can go
cases=("removal_one_traffic:rdma link delete mr1" "removal_creating:modprobe -r metaroce")
[ "$slowest" ] || cases+=("removal_creating:rdma link delete mr1" "removal_both_traffic:ip -n h1 link delete eth0"
	"removal_both_traffic:ip netns delete h1" "removal_both_traffic:modprobe -r metaroce")
for case in "${cases[@]}"; do
	section "$case"
	devs_up
	run_verbs 50 --filter "^${case%%:*}\$" --remove "${case#*:}"
	module_loaded || modprobe metaroce
	again; nothing_left "$case"
done

section "the module is unloaded"
for i in $(seq "$(scaled 3 1)"); do
	traffic "unload $i"
	check "unload $i: under traffic" within 5 modprobe -r metaroce
	refused "unload $i: the module is gone" module_loaded
	ended "unload $i: both programs end with an error" "$CLIENT" "$SERVER"
	check "unload $i: and back" modprobe metaroce
done
check "the devices after all" devs_up
check "a pair after all" pingpong
again; nothing_left all
unload
hosts_down
done_testing
