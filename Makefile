# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# MetaRoCE for Linux. `make help` lists the targets.

KERNEL ?= 6.1
CHECK_FLAGS ?=
BENCH_FLAGS ?=
LAB := tests/lab
BUILD := build
KVER ?= $(shell uname -r)
KDIR ?= /lib/modules/$(KVER)/build
DESTDIR ?=
PREFIX ?= /usr/local

all: provider tools userspace

help:
	@echo 'make                 provider and tools, for this machine'
	@echo 'make module KERNEL=K the module for a kernel of the lab: uml uml-debug 6.1 6.12 smp-debug'
	@echo 'make demo            boot a stock kernel, run perftest over MetaRoCE on a clean and on a lossy wire'
	@echo 'make check           every test; parts: check-unit check-uml check-uml-debug check-vm KERNEL=6.1|6.12|smp-debug'
	@echo 'make sim             simulated fabrics, half an hour at most: build/sim/results.json and plots; sim-full for everything'
	@echo 'make bench           measurements beside rdma_rxe, siw and TCP'
	@echo 'make install         module, provider and tools onto this machine, for the running kernel or KVER'
	@echo 'make deps            install the Debian packages that all this needs'
	@echo 'make clean           remove build/; the kernels of the lab stay in their cache'

deps:
	@$(LAB)/deps build lab kernel unit

# A folder that has no makefile yet has nothing to build.
sub = $(if $(wildcard $(1)/Makefile),+$(MAKE) -C $(1) $(2),@:)

build-deps:
	@$(LAB)/deps build

provider: build-deps
	$(call sub,providers/metaroce)

tools: build-deps
	$(call sub,tests/tools)

userspace: build-deps
	$(call sub,userspace)

module: build-deps
	@$(LAB)/lab module $(KERNEL)

check:
	@$(LAB)/deps build && $(LAB)/check $(CHECK_FLAGS)

check-unit:
	@$(LAB)/deps build && $(LAB)/check $(CHECK_FLAGS) unit

check-uml check-uml-debug:
	@$(LAB)/deps build && $(LAB)/check $(CHECK_FLAGS) $(@:check-%=%)

check-vm:
	@$(LAB)/deps build && $(LAB)/check $(CHECK_FLAGS) $(KERNEL)

demo:
	@$(LAB)/deps build && $(LAB)/demo $(KERNEL)

sim sim-full:
	@$(LAB)/deps build sim plots && $(MAKE) -C userspace $@

bench:
	@$(LAB)/deps build && tests/bench/bench $(BENCH_FLAGS)

# For the running kernel, or another through KVER; its headers must be there.
host-module:
	@[ -d $(KDIR) ] || { echo "no $(KDIR): please install linux-headers-$(KVER)" >&2; exit 1; }
	mkdir -p $(BUILD)/host/module
	rsync -rlp --checksum --delete --filter='merge $(LAB)/module-files' kernel/ $(BUILD)/host/module/
	+$(MAKE) -C $(KDIR) M=$(abspath $(BUILD)/host/module) modules

install: all host-module
	install -D -m 644 $(BUILD)/host/module/metaroce.ko $(DESTDIR)/lib/modules/$(KVER)/updates/metaroce.ko
	$(if $(DESTDIR),,depmod $(KVER))
	$(call sub,providers/metaroce,install DESTDIR=$(DESTDIR))
	$(call sub,userspace,install DESTDIR=$(DESTDIR) PREFIX=$(PREFIX))

clean:
	rm -rf $(BUILD)

.PHONY: all help deps build-deps provider tools userspace module check check-unit check-uml check-uml-debug check-vm demo sim sim-full bench host-module install clean
