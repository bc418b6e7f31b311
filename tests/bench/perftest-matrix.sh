#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# lab: kernels=6.1,6.12 timeout=400 mem=3G
# The distribution's perftest, unmodified, in a pairwise matrix of its options: for any two columns every pair of values that the
# programs allow stands in some row. Verdict: both ends exit with 0. What they allow: several QPs and -b only in bandwidth tests, -e not
# with WRITE, 8 bytes for atomics. 64 QPs of 8 MiB are left out: their buffers would take 2 GiB.
. "$LAB_TOP/tests/selftests/20-verbs-lib.sh"

# mtu gid tool size qps -b -e
matrix() {
	cat <<'ROWS'
1500  6 ib_write_bw   1        64  - -
1500  4 ib_write_bw   4095     1   - -
1500  6 ib_write_bw   65536    64  b -
1500  4 ib_write_bw   1048576  64  b -
1500  4 ib_read_bw    2        1   b e
1500  4 ib_read_bw    4095     64  b e
1500  6 ib_read_bw    65536    1   - -
1500  6 ib_read_bw    8388608  1   b -
1500  6 ib_send_bw    1        64  - -
1500  6 ib_send_bw    8388608  1   b e
1500  6 ib_atomic_bw  8        64  b e
1500  4 ib_write_lat  4095     1   - -
1500  4 ib_write_lat  65536    1   - -
1500  6 ib_write_lat  1048576  1   - -
1500  4 ib_read_lat   1        1   - e
1500  6 ib_read_lat   4095     1   - -
1500  6 ib_read_lat   1048576  1   - e
1500  4 ib_read_lat   8388608  1   - e
1500  4 ib_send_lat   1        1   - e
1500  6 ib_atomic_lat 8        1   - e
9000  4 ib_write_bw   2        64  - -
9000  6 ib_write_bw   8388608  1   b -
9000  6 ib_read_bw    1        64  b -
9000  4 ib_read_bw    1048576  64  b e
9000  4 ib_send_bw    2        64  - e
9000  4 ib_send_bw    4095     1   - e
9000  4 ib_send_bw    65536    64  b e
9000  4 ib_send_bw    1048576  1   b e
9000  4 ib_atomic_bw  8        1   - -
9000  4 ib_write_lat  1        1   - -
9000  4 ib_write_lat  2        1   - -
9000  4 ib_write_lat  8388608  1   - -
9000  6 ib_read_lat   2        1   - -
9000  6 ib_read_lat   65536    1   - e
9000  4 ib_send_lat   2        1   - e
9000  6 ib_send_lat   4095     1   - -
9000  4 ib_send_lat   65536    1   - e
9000  6 ib_send_lat   1048576  1   - e
9000  4 ib_send_lat   8388608  1   - -
9000  4 ib_atomic_lat 8        1   - -
ROWS
}

# Bytes that one row should move here; perftest's least is five messages for each QP.
BUDGET=$(scaled $((64 << 20)) $((1 << 20)))

# fitted SIZE QPS: the size, smaller where five messages would be far beyond the budget
fitted() {
	local size=$1
	while [ $((size * $2 * 5)) -gt $((BUDGET * 8)) ]; do size=$((size / 4)); done
	echo "$size"
}

# iterations SIZE QPS
iterations() {
	local n=$((BUDGET / ($1 * $2))) most
	most=$(scaled 1000 20)
	[ "$n" -le "$most" ] || n=$most
	[ "$n" -ge 5 ] || n=5
	echo "$n"
}

row() { # GID TOOL SIZE QPS -b -e
	local family=$1 tool=$2 size=$3 qps=$4 both=$5 events=$6 options index what
	size=$(fitted "$size" "$qps")
	what="$tool, $size bytes, $qps QPs, IPv$family${both/b/, bidirectional}${events/e/, events}"
	what=${what//-/}
	if [ "$tool" = ib_write_lat ] && [ "$(nproc)" = 1 ]; then
		skip "$what" "two programs that spin on memory need two CPUs"
		return
	fi
	index=$(gid_index mr1 "$("addr$family" 1)")
	if [ "$index" != "$(gid_index mr2 "$("addr$family" 2)")" ]; then
		note "GID indices differ: $index on mr1"
		not_ok "$what"
		return
	fi
	options=(-F -x "$index" -n "$(iterations "$size" "$qps")")
	case $tool in *atomic*) ;; *) options+=(-s "$size") ;; esac
	case $tool in *_bw) options+=(-q "$qps") ;; esac
	[ "$both" = - ] || options+=(-b)
	[ "$events" = - ] || options+=(-e)
	check "$what" run_pair "$tool" "${options[@]}"
}

# The debug kernels take every fifth row: they look for other things than options.
case $LAB_KERNEL in *debug) every=5 ;; *) every=1 ;; esac

for mtu in 1500 9000; do
	setup_pair $mtu || done_testing
	number=0
	while read -r wanted family tool size qps both events <&3; do
		[ "$wanted" = $mtu ] && [ $((number++ % every)) = 0 ] || continue
		row "$family" "$tool" "$size" "$qps" "$both" "$events"
	done 3< <(matrix)
	teardown_pair
done
unload
done_testing
