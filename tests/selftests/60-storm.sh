#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# lab: kernels=uml,uml-debug,6.12 timeout=240
# Everything is created, used and destroyed again and again beside steady traffic; no object, reference or memory stays behind.
. "$LAB_TOP/tests/selftests/20-verbs-lib.sh"

# Rounds that each kernel does in less than a minute: of the storm, and of devices or modules that come and go.
case $LAB_KERNEL in
uml) rounds=500 links=50 ;;
uml-debug) rounds=500 links=15 ;;
smp-debug) rounds=20 links=3 ;;
*) rounds=100 links=6 ;;
esac

sent() { [ "$(counter mr1 tx_data_pkts)" -ge "$1" ]; }
moves() { wait_for 20 sent $(($(counter mr1 tx_data_pkts) + 50)); }
gone() { ! kill -0 "$1" 2>/dev/null; }

section() { note "$SECONDS s: $*"; }

# storm ROUNDS: beside a pair of programs, whose time-out is long because the storm may take all CPUs of the slowest kernel for a second
storm() {
	local steady p
	PAIR_TIMEOUT=600 run_pair ib_write_bw -D 600 -s 4096 -u 18 >"$LAB_TMP/steady" 2>&1 &
	steady=$!
	check "steady traffic" moves || note "$(cat "$LAB_TMP/steady")"
	run_verbs 100 --filter '^storm$' --scale "$(awk -v n="$1" 'BEGIN { print n / 500 }')"
	check "the steady traffic goes on" moves || note "$(cat "$LAB_TMP/steady")"
	for p in $(ip netns pids h1) $(ip netns pids h2); do kill -9 "$p" 2>/dev/null; done
	wait_for 5 gone $steady; wait $steady 2>/dev/null
}

# links ROUNDS: two devices with a connection between them, each time
links() {
	local i
	for ((i = 0; i < $1; i++)); do
		devs_up && run_pair ibv_rc_pingpong -g "$(gid_index mr1 "$(addr4 1)")" -n 5 && dev_del mr1 && dev_del mr2 || return
	done
}

# modules ROUNDS: and the module as well
modules() {
	local i
	for ((i = 0; i < $1; i++)); do modprobe metaroce && devs_up && modprobe -r metaroce || return; done
}

# memory: kB that the kernel holds, by kind, after all that it can give back
memory() {
	local i file
	# emptying the quarantine, cache by cache, takes minutes there
	[ "$LAB_KERNEL" != smp-debug ] || return
	for i in 1 2 3; do
		sleep 1
		echo 3 >/proc/sys/vm/drop_caches
		# also empties KASAN's quarantine
		for file in /sys/kernel/slab/*/shrink; do echo 1 >"$file"; done 2>/dev/null
	done
	awk '{ sub(":", ""); m[$1] = $2 }
		END {
			print "Slab", m["SUnreclaim"]
			print "Percpu", m["Percpu"]
			print "Vmalloc", m["VmallocUsed"]
			print "All", m["MemTotal"] - m["MemFree"] - m["Buffers"] - m["Cached"] - m["SReclaimable"] - m["AnonPages"]
		}' /proc/meminfo
}

# no_more DESCRIPTION BEFORE: no kind of memory has grown for good. The limits, in kB, are more than twice what was seen to be noise (some
# free pages come back late, on kernels with several CPUs up to 15 MB); one pair of queue pairs with its connection has 370 kB of Slab and
# 56 of Vmalloc. Smaller things are for kmemleak, which the lab asks at the end.
no_more() {
	local after grown
	[ "$2" ] || { skip "$1" "not measured on this kernel"; return; }
	for _ in 1 2 3; do
		after=$(memory)
		grown=$(paste -d ' ' <(echo "$2") <(echo "$after") | awk -v pages="$(($(nproc) > 1 ? 25000 : 10000))" '
			BEGIN { limit["Slab"] = 400; limit["Percpu"] = 50; limit["Vmalloc"] = 100; limit["All"] = pages }
			$4 - $2 > limit[$1] { print $1 " + " $4 - $2 " kB" }')
		[ "$grown" ] || break
	done
	note "$(paste <(echo "$2") <(echo "$after"))"
	expect "$1" "" "$grown"
}

setup_pair 9000 || done_testing
section "warming up"
storm $((rounds / 10 + 10))
wait_for 5 _as_before
before=$(memory)
section storm
storm $rounds
wait_for 5 _as_before
expect "no verbs object is left on mr1" "$LEFT1" "$(resources mr1)"
expect "no verbs object is left on mr2" "$LEFT2" "$(resources mr2)"
no_more "the storm leaves no memory behind" "$before"
teardown_pair

section links
hosts_up 2
check "links, warming up" links 2
before=$(memory)
check "links with a connection each" links $links
no_more "they leave no memory behind" "$before"
expect "nobody uses the module" 0 "$(module_refcount)"
unload
section modules
check "modules, warming up" modules 2
before=$(memory)
check "modules with devices" modules $links
no_more "they leave no memory behind" "$before"
section end
hosts_down
done_testing
