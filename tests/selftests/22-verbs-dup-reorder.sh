#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# lab: kernels=uml timeout=400
# Every fifth packet twice and half of them overtaking the others, both ways: data right, atomics once, messages once and in order.
. "$LAB_TOP/tests/selftests/20-verbs-lib.sh"

cases='A14_sizes_[A-Z]|A14_random|A36_mixed|A34_mixed|C21_atomic|atomic_mixed|A13_reads|read_|order_|A52_rnr_retry_7|rnr_queue|A04_rnr|A17_flush_in|A17_one_bad|fence|qp_psn_wrap'

setup_pair 9000 || done_testing
before=$(counter mr2 duplicates)
check "duplicate 20 %, reorder 50 %" netem delay 1ms reorder 50% duplicate 20%
run_verbs 20 --lossy --filter "$cases"
counter_grew "duplicates arrived and were told apart" mr2 duplicates "$before"
netem
check "the same with 1 % loss" loss 1
check "duplicate 20 %, reorder 50 %" netem delay 1ms reorder 50% duplicate 20%
run_verbs 10 --lossy --filter "$cases"
at_least "packets of the wire were dropped" 1 "$(dropped)"
netem
noloss
teardown_pair
unload
done_testing
