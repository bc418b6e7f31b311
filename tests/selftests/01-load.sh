#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# lab: kernels=uml,uml-debug,6.1,6.12,smp-debug timeout=60
# The module loads and unloads, again and again, and leaves nothing behind.
. "$LAB_DIR/guest.sh"

check "modprobe metaroce" modprobe metaroce
check "the module is there" module_loaded
expect "nobody uses it yet" 0 "$(module_refcount)"
check "modprobe -r metaroce" modprobe -r metaroce
refused "the module is gone" module_loaded

cycle() {
	local i
	for ((i = 0; i < $1; i++)); do
		modprobe metaroce && modprobe -r metaroce || return
	done
}
check "load and unload again and again" cycle "$(scaled 50 5)"
done_testing
