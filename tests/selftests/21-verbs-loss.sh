#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# lab: kernels=uml timeout=400
# 1 % of the packets of the wire are lost, both ways: every case again, all data right, no error that was not asked for.
. "$LAB_TOP/tests/selftests/20-verbs-lib.sh"

setup_pair 9000 || done_testing
loss 1
before=$(counter mr1 retransmitted)
run_verbs 30 --lossy --exclude 'query|mr_|qp_|cq_limits|create_destroy|hostile'
at_least "packets of the wire were dropped" 10 "$(dropped)"
counter_grew "packets were sent again" mr1 retransmitted "$before"
noloss
teardown_pair
setup_pair 1500 || done_testing
loss 1
run_verbs 30 --lossy --filter 'A14_sizes_[A-Z]|A36_mixed|order_|C21_atomic|A13_reads'
at_least "packets of the wire were dropped" 10 "$(dropped)"
noloss
teardown_pair
unload
done_testing
