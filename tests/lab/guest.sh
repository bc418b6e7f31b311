# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash
# Library of the selftests, sourced inside the guest: hosts as network namespaces, wires with loss, RDMA devices, perftest pairs, TAP.
#
# Hosts h1, h2, ... are network namespaces. Plane P of host H is the netdev ethP with 10.0.P.H/24 and fd00:0:0:P::H/64. Two hosts are
# joined by one veth pair per plane, more by one bridge per plane in the namespace "switch".

LAB_HOSTS=0 LAB_PLANES=0
LAB_TMP=$(mktemp -d /tmp/lab.XXXXXX)

### TAP

TAP_COUNT=0 TAP_FAILED=0

note() { printf '%s\n' "$*" | sed 's/^/# /'; }
ok() { TAP_COUNT=$((TAP_COUNT + 1)); printf 'ok %d - %s\n' $TAP_COUNT "$*"; }
not_ok() { TAP_COUNT=$((TAP_COUNT + 1)) TAP_FAILED=$((TAP_FAILED + 1)); printf 'not ok %d - %s\n' $TAP_COUNT "$*"; }
skip() { TAP_COUNT=$((TAP_COUNT + 1)); printf 'ok %d - %s # SKIP %s\n' $TAP_COUNT "$1" "$2"; }
skip_all() { printf '1..0 # SKIP %s\n' "$*"; exit 0; }
plan() { printf '1..%d\n' "$1"; }

# done_testing: the plan, and an exit status that tells whether all was well; the last line of a test
done_testing() {
	printf '1..%d\n' $TAP_COUNT
	exit $((TAP_FAILED > 0))
}

# check DESCRIPTION COMMAND...: one point; what the command prints is shown when it fails, and stays in $LAB_TMP/check.log
check() {
	local what=$1 status
	shift
	# not in a subshell: commands of this library keep state
	"$@" >"$LAB_TMP/check.log" 2>&1
	status=$?
	if [ $status = 0 ]; then
		ok "$what"
	else
		note "$* gave $status: $(cat "$LAB_TMP/check.log")"
		not_ok "$what"
	fi
	return $status
}

# refused DESCRIPTION COMMAND...: one point; passes if the command fails
refused() {
	local what=$1
	shift
	if "$@" >"$LAB_TMP/check.log" 2>&1; then
		note "$* was accepted: $(cat "$LAB_TMP/check.log")"
		not_ok "$what"
		return 1
	fi
	ok "$what"
}

# expect DESCRIPTION WANTED GOT
expect() {
	if [ "$2" = "$3" ]; then
		ok "$1"
	else
		note "wanted: $2"
		note "got: $3"
		not_ok "$1"
		return 1
	fi
}

# at_least DESCRIPTION MINIMUM GOT: integers
at_least() {
	if [ "${3:-0}" -ge "$2" ] 2>/dev/null; then
		ok "$1"
	else
		note "wanted at least $2, got $3"
		not_ok "$1"
		return 1
	fi
}

# wait_for SECONDS COMMAND...: until the command succeeds; the seconds are those of the fastest kernel
wait_for() {
	local until=$((SECONDS + $1 * ${LAB_SLOWNESS:-1}))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $until ] || return 1
		sleep 0.1
	done
}

# scaled COUNT [MINIMUM]: as many iterations as this kernel can do in the time that the fastest needs for COUNT
scaled() {
	local n=$(($1 * ${LAB_SCALE:-100} / 100)) least=${2:-1}
	echo $((n > least ? n : least))
}

### Hosts and wires

# on HOST COMMAND...: HOST is a number or a namespace
on() {
	local host=h${1#h}
	shift
	ip netns exec "$host" "$@"
}

addr4() { echo "10.0.${2:-0}.$1"; }
addr6() { if [ "${2:-0}" = 0 ]; then echo "fd00::$1"; else echo "fd00:0:0:$2::$1"; fi; }

# each_wire_end COMMAND...: for each netdev of each host, HOST and NETDEV being the last two arguments
each_wire_end() {
	local host plane
	for ((host = 1; host <= LAB_HOSTS; host++)); do
		for ((plane = 0; plane < LAB_PLANES; plane++)); do
			"$@" $host eth$plane || return
		done
	done
}

# hosts_up COUNT [MTU [PLANES]]
hosts_up() {
	local count=$1 mtu=${2:-9000} planes=${3:-1} host plane
	LAB_HOSTS=$count LAB_PLANES=$planes
	for ((host = 1; host <= count; host++)); do
		ip netns add h$host || return
		on $host sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0 net.ipv4.ip_local_port_range="20000 60999"
		on $host ip link set lo up
	done
	[ "$count" -le 2 ] || ip netns add switch || return
	for ((plane = 0; plane < planes; plane++)); do
		if [ "$count" = 2 ]; then
			ip link add eth$plane netns h1 type veth peer name eth$plane netns h2 || return
		else
			ip -n switch link add br$plane mtu "$mtu" type bridge forward_delay 0 || return
			for ((host = 1; host <= count; host++)); do
				ip link add eth$plane netns h$host type veth peer name h${host}p$plane netns switch || return
				ip -n switch link set h${host}p$plane mtu "$mtu" master br$plane up || return
			done
			ip -n switch link set br$plane up
		fi
		for ((host = 1; host <= count; host++)); do
			ip -n h$host link set eth$plane mtu "$mtu" up || return
			ip -n h$host addr add "$(addr4 $host $plane)/24" dev eth$plane || return
			ip -n h$host addr add "$(addr6 $host $plane)/64" dev eth$plane nodad || return
		done
	done
}

hosts_down() {
	local host
	for ((host = 1; host <= LAB_HOSTS; host++)); do ip netns del h$host 2>/dev/null; done
	ip netns del switch 2>/dev/null
	LAB_HOSTS=0 LAB_PLANES=0
}

# Segmentation offloads off: then one skb is one packet of the wire, for loss, duplication and counting
_no_offloads() { on "$1" ethtool -K "$2" tso off gso off gro off tx-udp-segmentation off >/dev/null 2>&1; }
wire_packets() { each_wire_end _no_offloads; }

_loss() {
	on "$2" tc qdisc add dev "$3" ingress &&
		on "$2" tc filter add dev "$3" ingress matchall action pass random netrand drop "$1"
}
_noloss() { on "$1" tc qdisc del dev "$2" ingress 2>/dev/null; return 0; }

# loss PERCENT: every packet of the wire that comes in anywhere is dropped with this probability
loss() {
	noloss
	[ "$1" != 0 ] || return 0
	wire_packets
	each_wire_end _loss "$(awk -v p="$1" 'BEGIN { printf "%d", 100 / p + 0.5 }')"
}
noloss() { each_wire_end _noloss; }

# dropped: packets that loss has dropped so far
_dropped() { on "$1" tc -s filter show dev "$2" ingress; }
dropped() { each_wire_end _dropped | awk '{ for (i = 1; i < NF; i++) if ($i ~ /dropped$/) { sub(",", "", $(i + 1)); n += $(i + 1) } } END { print n + 0 }'; }

# netem OPTION...: tc-netem's own words, on all that is sent; "netem" alone takes it away again
_netem() {
	local args=("${@:1:$#-2}") host=${*: -2:1} netdev=${*: -1}
	on "$host" tc qdisc del dev "$netdev" root 2>/dev/null
	[ ${#args[@]} = 0 ] || on "$host" tc qdisc add dev "$netdev" root netem limit 100000 "${args[@]}"
}
netem() {
	[ $# = 0 ] || wire_packets
	each_wire_end _netem "$@"
}

# reorder PERCENT [DELAY]: that many packets overtake those that DELAY holds back
reorder() { netem delay "${2:-1ms}" reorder "$1%"; }
duplicate() { netem duplicate "$1%"; }

# peers_up [MTU]: both ends of a wire, v0 (10.0.0.1) and v1 (10.0.1.1), in this one namespace, traffic between them forced onto the wire:
# for rxe and siw, which know no other namespace. It changes the routing rules: a test that uses it asks for boot=own.
peers_up() {
	local mtu=${1:-9000} v
	ip link add v0 type veth peer name v1 || return
	for v in v0 v1; do
		ethtool -K $v tso off gso off gro off tx-udp-segmentation off >/dev/null 2>&1
		ip link set $v mtu "$mtu" up
		sysctl -qw net.ipv4.conf.$v.accept_local=1 net.ipv4.conf.$v.rp_filter=0
	done
	sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.all.accept_local=1
	ip addr add 10.0.0.1/24 dev v0
	ip addr add 10.0.1.1/24 dev v1
	# the local table only for what arrives on the wire; what is sent takes a route over it
	ip rule add pref 10 iif v0 lookup local
	ip rule add pref 11 iif v1 lookup local
	ip route add 10.0.1.1 dev v0 src 10.0.0.1 table 100
	ip route add 10.0.0.1 dev v1 src 10.0.1.1 table 100
	ip rule add pref 20 lookup 100
	ip rule add pref 32000 lookup local
	ip rule del pref 0
	ip neigh add 10.0.1.1 lladdr "$(cat /sys/class/net/v1/address)" dev v0
	ip neigh add 10.0.0.1 lladdr "$(cat /sys/class/net/v0/address)" dev v1
}

# peers_loss PERCENT: as loss, for peers_up
peers_loss() {
	local v
	for v in v0 v1; do
		tc qdisc del dev $v ingress 2>/dev/null
		[ "$1" = 0 ] && continue
		tc qdisc add dev $v ingress
		tc filter add dev $v ingress matchall action pass random netrand drop "$(awk -v p="$1" 'BEGIN { printf "%d", 100 / p + 0.5 }')"
	done
}

### RDMA devices

# dev_add NAME HOST NETDEV
dev_add() { on "$2" rdma link add "$1" type metaroce netdev "$3"; }
dev_del() { rdma link delete "$1"; }

_gids_up() {
	local host
	for ((host = 1; host <= LAB_HOSTS; host++)); do gid_index mr$host "$(addr4 $host)" || return; done
}

# devs_up: one device per host, mr1 on h1 and so on
devs_up() {
	local host
	for ((host = 1; host <= LAB_HOSTS; host++)); do dev_add mr$host $host eth0 || return; done
	wait_for 5 _gids_up
}

# counter DEVICE NAME
counter() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"; }

# _gid ADDRESS: as sysfs writes the GID; in the shell, because a program's start takes seconds on the slowest kernel
_gid() {
	local -a head tail
	local i
	if [[ $1 != *:* ]]; then
		IFS=. read -ra head <<<"$1"
		printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x\n' "${head[@]}"
		return
	fi
	IFS=: read -ra head <<<"${1%%::*}"
	[[ $1 != *::* ]] || IFS=: read -ra tail <<<"${1#*::}"
	for ((i = ${#head[@]}; i < 8 - ${#tail[@]}; i++)); do head[i]=0; done
	head+=("${tail[@]}")
	for i in "${!head[@]}"; do printf -v "head[$i]" '%04x' "0x${head[i]}"; done
	(IFS=:; echo "${head[*]}")
}

# gid_index DEVICE ADDRESS: of the RoCE v2 entry with this IPv4 or IPv6 address
gid_index() {
	local dir=/sys/class/infiniband/$1/ports/1 want file index gid type
	want=$(_gid "$2")
	for file in "$dir"/gids/*; do
		{ read -r gid <"$file"; } 2>/dev/null || continue
		[ "$gid" = "$want" ] || continue
		index=${file##*/}
		{ read -r type <"$dir/gid_attrs/types/$index"; } 2>/dev/null || continue
		case $type in *v2*) echo "$index"; return 0 ;; esac
	done
	return 1
}

# resources DEVICE: counts of verbs objects, in one line
resources() { rdma resource show "$1" | sed 's/^[0-9]*: //'; }

module_refcount() { cat /sys/module/metaroce/refcnt; }
module_loaded() { [ -d /sys/module/metaroce ]; }

### Programs in pairs

PAIR_DEV1=mr1 PAIR_DEV2=mr2 PAIR_HOST1=1 PAIR_HOST2=2 PAIR_TIMEOUT=60

# _listens HOST PORT PID SECONDS: waits until something listens there; false if the process ends before. One shell does all the
# looking: starting ip and ss again and again takes seconds on emulated CPUs, just when the server needs them.
_listens() {
	on "$1" bash -c '
		end=$((SECONDS + $3))
		while kill -0 "$2" && [ $SECONDS -lt $end ]; do
			while read -r _ local _ state _; do
				[ "${local##*:} $state" != "$1 0A" ] || exit 0
			done < <(cat /proc/net/tcp /proc/net/tcp6)
			sleep 0.1
		done
		exit 1' listens "$(printf %04X "$2")" "$3" $(($4 * LAB_SLOWNESS)) 2>/dev/null
}

# run_pair TOOL [OPTION...]: a perftest program, or another with its options -d and SERVER; the server on h2, the client on h1.
# Prints what the client prints; the server's part is in $LAB_TMP/server.log. PAIR_ADDR is where the client connects.
run_pair() {
	local tool=$1 port=18515 server status addr
	shift
	addr=${PAIR_ADDR:-$(addr4 $PAIR_HOST2)}
	on $PAIR_HOST2 timeout $((PAIR_TIMEOUT * LAB_SLOWNESS)) "$tool" -d $PAIR_DEV2 -p $port "$@" >"$LAB_TMP/server.log" 2>&1 </dev/null &
	server=$!
	_listens $PAIR_HOST2 $port $server 10 || {
		echo "the server of $tool does not listen: $(cat "$LAB_TMP/server.log")"
		kill $server 2>/dev/null
		wait $server
		return 1
	}
	on $PAIR_HOST1 timeout $((PAIR_TIMEOUT * LAB_SLOWNESS)) "$tool" -d $PAIR_DEV1 -p $port "$@" "$addr" 2>&1 </dev/null
	status=$?
	[ $status = 0 ] || kill $server 2>/dev/null
	if ! wait $server && [ $status = 0 ]; then
		echo "the server of $tool failed: $(cat "$LAB_TMP/server.log")"
		status=1
	fi
	return $status
}

# Figures out of perftest's output on standard input
bw_average() { awk '/#bytes/ { getline; print $4; exit }'; }
lat_typical() { awk '/#bytes/ { getline; print $5; exit }'; }

### Between tests

# guest_reset: processes, devices, module and hosts of a test that is over
guest_reset() {
	local ns pid dev
	for ns in $(ip netns list | awk '{ print $1 }'); do
		for pid in $(ip netns pids "$ns"); do kill -9 "$pid" 2>/dev/null; done
	done
	for dev in $(rdma link show 2>/dev/null | sed -nE 's|^link ([^/]+)/.*|\1|p'); do
		rdma link delete "$dev" 2>/dev/null
	done
	! module_loaded || modprobe -r metaroce 2>/dev/null
	ip -all netns delete 2>/dev/null
	rm -rf /tmp/lab.*
}
