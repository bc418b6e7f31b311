#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# lab: kernels=uml,uml-debug,6.12 timeout=120
# A host without a device sends hostile packets, some on a connection of its own: the device counts them and works on.
. "$LAB_DIR/guest.sh"

gids() { gid_index mr1 "$(addr4 1)" && gid_index mr2 "$(addr4 2)"; }
bad() { cat /sys/class/infiniband/mr1/ports/1/hw_counters/bad_"$1"; }
# ibv_rc_pingpong has no -p LONG of perftest's, but the same -d and -p
pingpong() { run_pair ibv_rc_pingpong -g "$(gid_index mr1 "$(addr4 1)")" -n "$(scaled 200 20)"; }

check "three hosts" hosts_up 3 && check "modprobe metaroce" modprobe metaroce &&
	check "a device on h1" dev_add mr1 1 eth0 && check "a device on h2" dev_add mr2 2 eth0 && check "GIDs" wait_for 5 gids || done_testing
check "ping-pong before" pingpong
for addr in "$(addr4 1)" "$(addr6 1)"; do
	on 3 timeout $((60 * LAB_SLOWNESS)) python3 "$LAB_TOP/tests/tools/hostile-wire.py" --count "$(scaled 20000 1000)" "$addr" >"$LAB_TMP/hostile" 2>&1 &
	attack=$!
	check "ping-pong during the attack on $addr" pingpong
	wait $attack
	expect "the attack on $addr came to its end" 0 $?
	note "$(cat "$LAB_TMP/hostile")"
	check "a connection was made" grep -q '^handshake done' "$LAB_TMP/hostile"
	check "the flood of HELLOs is challenged" grep -qx challenge "$LAB_TMP/hostile"
done
for name in short version type opcode flags length conn vtag path ctrl; do at_least "bad_$name counts" 1 "$(bad $name)"; done
check "ping-pong after" pingpong
check "mr1 goes away" dev_del mr1
check "mr2 goes away" dev_del mr2
check "the module is unloaded" wait_for 5 modprobe -r metaroce
done_testing
