# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash
# Sourced by the selftests that run mroce-verbs and perftest; no test itself. Two hosts, one device each, both visible from here.
. "$LAB_DIR/guest.sh"

# setup_pair [MTU]: points; false if there is nothing to go on with
setup_pair() {
	{ module_loaded || check "modprobe metaroce" modprobe metaroce; } &&
		check "two hosts, MTU ${1:-9000}" hosts_up 2 "${1:-9000}" &&
		check "a device on each" devs_up || return
	LEFT1=$(resources mr1) LEFT2=$(resources mr2)
}

_as_before() { [ "$(resources mr1)" = "$LEFT1" ] && [ "$(resources mr2)" = "$LEFT2" ]; }

# teardown_pair: points; nothing may be left behind
teardown_pair() {
	wait_for 5 _as_before
	expect "no verbs object is left on mr1" "$LEFT1" "$(resources mr1)"
	expect "no verbs object is left on mr2" "$LEFT2" "$(resources mr2)"
	check "the devices go away" dev_del mr1 && check "both of them" dev_del mr2
	hosts_down
}

unload() {
	wait_for 5 modprobe -r metaroce
	refused "the module is unloaded" module_loaded
}

# effort PERCENT: the option --scale for this kernel, PERCENT of what it can do
effort() { awk -v lab="${LAB_SCALE:-100}" -v part="$1" 'BEGIN { printf "%.3f", lab * part / 10000 }'; }

# _renumber COUNT: points that follow so many others. Not awk: Debian's mawk holds lines back, and a test that hangs would not tell where.
_renumber() {
	local n=$1 line
	while IFS= read -r line; do
		[[ ! $line =~ ^(1\.\.|TAP\ version) ]] || continue
		[[ ! $line =~ ^((not\ )?ok\ )[0-9]+(.*) ]] || line=${BASH_REMATCH[1]}$((++n))${BASH_REMATCH[3]}
		printf '%s\n' "$line"
	done
}

# run_verbs PERCENT [OPTION...]: cases of mroce-verbs as points of this test, at that percentage of the kernel's effort
run_verbs() {
	local part=$1 tap=$LAB_TMP/verbs.tap status failed
	shift
	"$LAB_TOP/build/tools/mroce-verbs" --dev mr1 --gid "$(gid_index mr1 "$(addr4 1)")" --peer-dev mr2 --peer-gid "$(gid_index mr2 "$(addr4 2)")" \
		--scale "$(effort "$part")" --slow "${LAB_SLOWNESS:-1}" "$@" |
		tee "$tap" | _renumber "$TAP_COUNT"
	status=${PIPESTATUS[0]}
	failed=$(grep -c '^not ok' "$tap")
	TAP_COUNT=$((TAP_COUNT + $(grep -cE '^(not )?ok ' "$tap")))
	TAP_FAILED=$((TAP_FAILED + failed))
	# its own word that it came to the end: 1 means failed cases, which are counted already
	expect "mroce-verbs came to its end" $((failed > 0)) "$status"
}

# counter_grew DESCRIPTION DEVICE NAME BEFORE
counter_grew() { at_least "$1" $(($4 + 1)) "$(counter "$2" "$3")"; }
