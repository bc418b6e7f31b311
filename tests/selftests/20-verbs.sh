#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# lab: kernels=uml,uml-debug,6.1,6.12 timeout=400
# Every case of the verbs tester between two hosts on a clean wire.
. "$LAB_TOP/tests/selftests/20-verbs-lib.sh"

setup_pair 9000 || done_testing
# an address that resolves and never answers, for retry_peer_unreachable
ip -n h1 neigh add "$(addr4 $((2 ^ 64)))" lladdr 02:00:00:00:00:42 dev eth0
run_verbs 50
expect "no completion was lost to a full CQ but in the case that wants it" 1 $(($(counter mr1 cq_overflow) > 0))
teardown_pair

# A path MTU that is no power of two, and the other address family.
setup_pair 1500 || done_testing
run_verbs 30 --filter 'A14_sizes_[A-Z]|A14_path|A36_mixed_8|order_last_byte|A24_lists_[A-Z]'
note "IPv6"
check "IPv6 GIDs" gid_index mr1 "$(addr6 1)" &&
	run_verbs 30 --filter 'A14_sizes_[A-Z]|A36_mixed_1' --gid "$(gid_index mr1 "$(addr6 1)")" --peer-gid "$(gid_index mr2 "$(addr6 2)")"
note "loopback"
run_verbs 30 --filter 'A14_sizes_[A-Z]|A36_mixed_1|C21_atomic_exact' --peer-dev mr1
teardown_pair
unload
done_testing
