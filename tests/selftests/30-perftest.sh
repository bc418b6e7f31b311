#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# lab: kernels=uml-debug,6.1,6.12 timeout=150 mem=3G
# The distribution's perftest, unmodified, in a pairwise matrix of its options: any two values of any two columns that the programs take
# together stand in some row. Verdict: both ends exit with 0, never a speed. What limits the rows:
#  - several QPs and -b only in bandwidth tests, -e not with WRITE, 8 bytes for atomics;
#  - 64 QPs of 8 MiB are left out: their buffers would take 2 GiB;
#  - with -e 16 QPs stand for many, and one completion for each: after an event perftest polls at most 16 completions of its send
#    queue, whose notification is armed again already, and then waits for an event that does not come if these were not all. For the
#    same reason no SEND with many QPs, -b and -e at once: there it polls no more than -n receives.
. "$LAB_TOP/tests/selftests/20-verbs-lib.sh"

# mtu gid tool size qps -b -e
matrix() {
	cat <<'ROWS'
1500  4 ib_write_bw   65536    64 - -
1500  6 ib_write_bw   1048576  1  b -
1500  4 ib_read_bw    1        16 b e
1500  4 ib_read_bw    65536    1  b -
1500  4 ib_read_bw    1048576  16 - e
1500  6 ib_read_bw    8388608  1  - e
1500  6 ib_send_bw    1        1  - e
1500  6 ib_send_bw    256      64 b -
1500  6 ib_atomic_bw  8        1  b e
1500  6 ib_write_lat  1        1  - -
1500  6 ib_write_lat  65536    1  - -
1500  4 ib_read_lat   1        1  - e
1500  4 ib_read_lat   256      1  - -
1500  6 ib_read_lat   8388608  1  - e
1500  4 ib_send_lat   4095     1  - -
1500  6 ib_send_lat   65536    1  - e
1500  6 ib_atomic_lat 8        1  - e
9000  4 ib_write_bw   1        64 - -
9000  4 ib_write_bw   256      64 - -
9000  6 ib_write_bw   4095     1  b -
9000  6 ib_write_bw   8388608  1  b -
9000  4 ib_read_bw    256      1  b e
9000  6 ib_read_bw    4095     16 b e
9000  6 ib_send_bw    4095     1  - -
9000  4 ib_send_bw    65536    16 - e
9000  4 ib_send_bw    1048576  64 - -
9000  4 ib_send_bw    8388608  1  - e
9000  4 ib_atomic_bw  8        64 - -
9000  4 ib_write_lat  256      1  - -
9000  6 ib_write_lat  4095     1  - -
9000  6 ib_write_lat  1048576  1  - -
9000  4 ib_write_lat  8388608  1  - -
9000  6 ib_read_lat   4095     1  - -
9000  6 ib_read_lat   65536    1  - e
9000  4 ib_read_lat   1048576  1  - -
9000  4 ib_send_lat   1        1  - e
9000  6 ib_send_lat   256      1  - e
9000  4 ib_send_lat   1048576  1  - -
9000  4 ib_send_lat   8388608  1  - -
9000  4 ib_atomic_lat 8        1  - -
ROWS
}

# What one row should move and post: little, as options are the question. Most of a row's time goes into starting the programs, and with
# large buffers into filling them, which perftest does byte by byte. Its least is five messages for each QP. The debug kernels take every
# fifth row: they look for other things than options.
case $LAB_KERNEL in
*debug) every=5 MESSAGES=100 BYTES=$((6 << 20)) ;;
*) every=1 MESSAGES=400 BYTES=$((25 << 20)) ;;
esac

# iterations SIZE QPS: of each QP
iterations() {
	local n=$((MESSAGES / $2)) most=$((BYTES / ($1 * $2)))
	[ $n -le $most ] || n=$most
	# up to 100 of them share one completion
	[ "$2" != 16 ] || [ $n -le 100 ] || n=100
	[ $n -ge 5 ] || n=5
	echo $n
}

# counters: what there is to know of a row that failed, from both devices
counters() {
	local dev
	for dev in mr1 mr2; do note "$dev: $(cd /sys/class/infiniband/$dev/ports/1/hw_counters && grep -v '^0$' ./*)"; done
	note "the server: $(tail -n 4 "$LAB_TMP/server.log")"
}

row() { # GID TOOL SIZE QPS -b -e
	local family=$1 tool=$2 size=$3 qps=$4 both=$5 events=$6 index options what start
	what="$tool, $size bytes, $qps QPs, IPv$family${both/b/, bidirectional}${events/e/, events}"
	what=${what//-/}
	if [ "$tool" = ib_write_lat ] && [ "$(nproc)" = 1 ]; then
		skip "$what" "two programs that spin on memory need two CPUs"
		return
	fi
	index=GID$family
	options=(-F -x "${!index}" -n "$(iterations "$size" "$qps")")
	case $tool in *atomic*) ;; *) options+=(-s "$size") ;; esac
	case $tool in *_bw) options+=(-q "$qps") ;; esac
	[ "$both" = - ] || options+=(-b)
	[ "$events" = - ] || options+=(-e)
	start=$SECONDS
	check "$what" run_pair "$tool" "${options[@]}" || counters
	note "$((SECONDS - start)) s: ${options[*]}"
}

for mtu in 1500 9000; do
	setup_pair $mtu || done_testing
	# one option -x is for both ends
	GID4=$(gid_index mr1 "$(addr4 1)") GID6=$(gid_index mr1 "$(addr6 1)")
	expect "the same GID indices on both" "$GID4 $GID6" "$(gid_index mr2 "$(addr4 2)") $(gid_index mr2 "$(addr6 2)")"
	number=0
	while read -r wanted family tool size qps both events <&3; do
		[ "$wanted" = $mtu ] && [ $((number++ % every)) = 0 ] || continue
		row "$family" "$tool" "$size" "$qps" "$both" "$events"
	done 3< <(matrix)
	teardown_pair
done
unload
done_testing
