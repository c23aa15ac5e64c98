# SPDX-License-Identifier: GPL-2.0-or-later
# tracebraid: builds driver and agent, runs the demo and the tests. `make help` lists all.

B		:= build
PREFIX		?= /usr/local
DESTDIR		?=
# The kernel that the driver is built for; the packaged ones are built for the tests.
KREL		?= $(shell uname -r)
CASE		?=
KERNELS		?=
NPROC		:= $(shell nproc)

CC		?= gcc
PKGS		:= libtraceevent libtracefs libvirt libxml-2.0 libcap-ng libseccomp libxxhash libzstd \
		   babeltrace2 zlib libkdumpfile libprotobuf-c
CFLAGS		?= -O2 -g
ALL_CFLAGS	= -std=gnu11 -Wall -Wextra -Werror -D_GNU_SOURCE -I. -Iinclude -I$(B)/made $(CFLAGS) \
		  $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
LIBS		= $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lpthread -lm

ifeq ($(V),1)
Q		:=
else
Q		:= @
MAKEFLAGS	+= --no-print-directory
endif
say		= @printf '  %-8s %s\n' '$(1)' '$(2)'

SHARED_SRCS	:= $(wildcard shared/*.c)
PROTO		:= host_agent/export/perfetto
AGENT_SRCS	:= $(wildcard host_agent/*.c host_agent/*/*.c) $(B)/made/$(PROTO).pb-c.c
AGENT_OBJS	:= $(addprefix $(B)/obj/,$(SHARED_SRCS:.c=.o) $(AGENT_SRCS:.c=.o))
LIB_OBJS	:= $(filter-out $(B)/obj/host_agent/main.o,$(AGENT_OBJS))
UNIT_HELPERS	:= $(filter-out tests/unit/test_% tests/unit/stress_% tests/unit/work_%,$(wildcard tests/unit/*.c))

.PHONY: all
all: agent driver

.PHONY: agent
agent: $(B)/tracebraid

$(B)/tracebraid: $(AGENT_OBJS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/obj/%.o: %.c
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# The page of the HTML export, into which html_out.c puts its data.
$(B)/html/page: $(wildcard host_agent/export/html/*)
	$(call say,PAGE,$@)
	$(Q)mkdir -p $(@D)
	$(Q)host_agent/export/html/assemble.sh > $@.part && mv $@.part $@

$(foreach tree,obj address/obj thread/obj counted/obj fuzz/obj,$(B)/$(tree)/host_agent/export/html_out.o): $(B)/html/page

# Perfetto's messages, for protobuf-c.
$(B)/made/%.pb-c.c $(B)/made/%.pb-c.h: %.proto
	$(call say,PROTO,$<)
	$(Q)mkdir -p $(B)/made
	$(Q)protoc-c --c_out=$(B)/made $<

$(foreach tree,obj address/obj thread/obj counted/obj fuzz/obj,$(patsubst %.c,$(B)/$(tree)/%.o,$(wildcard $(PROTO)*.c))): \
	| $(B)/made/$(PROTO).pb-c.h

-include $(AGENT_OBJS:.o=.d)
-include $(shell find $(B)/address $(B)/thread $(B)/counted -name '*.d' 2>/dev/null)

# Driver --------------------------------------------------------------------------------------

.PHONY: driver
driver:
	@if [ -d /lib/modules/$(KREL)/build ]; then \
		$(MAKE) $(B)/guest-$(KREL)/tracebraid.ko; \
	else \
		echo "no kernel headers for $(KREL): make driver KREL=<release>, after installing linux-headers-<release>"; \
	fi

.PHONY: FORCE
FORCE:

# Where kbuild finds a kernel: the packaged ones, and those that tests/kernels/build.sh makes, by their suffix.
kdir		= $(or $(wildcard /lib/modules/$(1)/build),$(B)/kernels/$(lastword $(subst -, ,$(1))))

# Modules in a folder of links: (folder, Kbuild file, kernel's folder, more for make).
define kbuild
	$(Q)guest_driver/stage.sh $(1) $(2)
	$(call say,KBUILD,$@)
	$(Q)+guest_driver/kbuild.sh $(1)/build.log \
		$(MAKE) -C $(3) M=$(abspath $(1)) W=1 V=$(or $(V),0) $(4) modules \
		|| { cat $(1)/build.log; exit 1; }
	$(Q)! grep -E 'warning:|WARNING' $(1)/build.log
	@touch $@
endef

# kbuild knows best what is out of date.
$(B)/guest-%/tracebraid.ko: FORCE
	$(call kbuild,$(B)/guest-$*,guest_driver/Kbuild,$(call kdir,$*),$(if $(filter %-uml,$*),ARCH=um) \
		BRAID_TEST_MODULES="$(BRAID_TEST_MODULES)")

$(B)/kunit-%/tracebraid_kunit.ko: FORCE
	$(call kbuild,$(B)/kunit-$*,tests/kunit/Kbuild,$(call kdir,$*),$(if $(filter uml,$*),ARCH=um))

# Tests ---------------------------------------------------------------------------------------

# The newest packaged kernel of a series and flavour; asked for late, when the packages are in.
packaged	= $(shell ls /boot/vmlinuz-$(1).*-amd64 2>/dev/null | sed 's|/boot/vmlinuz-||' | \
		    grep -E '^[0-9.]+[^-]*(-[0-9]+)?$(if $(2),-$(2))-amd64$$' | sort -V | tail -1)
TEST_KRELS	= $(call packaged,6.1) $(call packaged,6.12) $(call packaged,6.12,rt)
TEST_MODULES	:= $(addprefix tests/e2e/,storm/storm.o storm/lap.o storm/unstable.o buffers/buffers.o \
		   subevents/subevents.o nested/pairs.o) tests/bench/guest_ring/guest_ring.o
# The release of a kernel that tests/kernels/build.sh has made.
made		= $(shell cat $(B)/kernels/$(1)/include/config/kernel.release)
test-drivers	= $(foreach krel,$(1),$(B)/guest-$(krel)/tracebraid.ko)

SAN_address	:= -fsanitize=address,undefined -fno-sanitize-recover=all
SAN_thread	:= -fsanitize=thread -Wno-tsan
# No sanitizer: counts the basic blocks that run, by a function of the program's own.
SAN_counted	:= -fsanitize-coverage=trace-pc

# One object tree and one set of programs for each sanitizer.
define unit-rules
$(B)/$(1)/obj/%.o: %.c
	$(Q)mkdir -p $$(@D)
	$(Q)$$(CC) $$(ALL_CFLAGS) -O1 $$(SAN_$(1)) -MMD -MP -c -o $$@ $$<

$(B)/$(1)/tracebraid: $$(patsubst $(B)/obj/%,$(B)/$(1)/obj/%,$$(AGENT_OBJS))
	$(call say,LINK,$$@)
	$(Q)$$(CC) $$(ALL_CFLAGS) $$(SAN_$(1)) -o $$@ $$^ $$(LIBS)

$(B)/$(1)/%: $(B)/$(1)/obj/tests/unit/%.o \
		$$(patsubst $(B)/obj/%,$(B)/$(1)/obj/%,$$(LIB_OBJS)) \
		$$(patsubst %.c,$(B)/$(1)/obj/%.o,$$(UNIT_HELPERS))
	$(call say,LINK,$$@)
	$(Q)$$(CC) $$(ALL_CFLAGS) $$(SAN_$(1)) -o $$@ $$^ $$(LIBS)
endef
$(foreach san,address thread counted,$(eval $(call unit-rules,$(san))))

UNIT_PROGRAMS	:= $(patsubst tests/unit/%.c,$(B)/address/%,$(wildcard tests/unit/test_*.c)) \
		   $(B)/address/stress_ring $(B)/thread/stress_ring $(B)/counted/work_linear

.SECONDARY:

.PHONY: check check-all check-lint check-unit check-kunit check-debug check-e2e check-dkms
check:
	@tests/packages.sh build forms driver guests libvirt tests kunit fuzz html bench
	@$(MAKE) check-all

# The model's short searches; check-model has them all.
check-all: check-lint check-unit fuzz-short
	@tests/model/run.sh nested_full_stops deaths_laps deaths_full_stops no_pending_look no_clear
	@$(MAKE) check-kunit
	@$(MAKE) check-html
	@$(MAKE) check-e2e
	@$(MAKE) check-bench
	@tests/dkms.sh $(call packaged,6.12)

.PHONY: check-model
check-model:
	@tests/packages.sh build tests
	@tests/model/run.sh

check-lint:
	@tests/packages.sh build driver guests tests
	@$(MAKE) -j$(NPROC) lint-run

.PHONY: lint-run
lint-run: agent $(B)/live_region
	@$(MAKE) BRAID_TEST_MODULES="$(TEST_MODULES)" $(call test-drivers,$(TEST_KRELS))
	@tests/lint/rooms.sh
	@tests/lint/circles.py $(B)/obj $(patsubst %/tracebraid.ko,%,$(call test-drivers,$(TEST_KRELS)))
	@for driver in $(call test-drivers,$(TEST_KRELS)); do tests/lint/write_path.sh $$driver || exit 1; done
	@tests/lint/completion.sh
	@tests/lint/kbuild.sh
	@tests/lint/man.sh
	@tests/lint/examples.sh
	@shellcheck -s bash host_agent/tracebraid.bash && shellcheck $$(git ls-files '*.sh' .ci/run) && echo 'ok   shellcheck'

check-unit:
	@tests/packages.sh build forms
	@$(MAKE) -j$(NPROC) unit-programs
	@tests/unit/run.sh $(UNIT_PROGRAMS)

.PHONY: unit-programs
unit-programs: $(UNIT_PROGRAMS) $(B)/address/tracebraid $(B)/make_big_capture

.PHONY: check-html html-run
check-html:
	@tests/packages.sh build html
	@$(MAKE) -j$(NPROC) html-run

html-run: agent $(B)/make_big_capture $(B)/make_hostile
	@tests/html/run.sh

check-kunit:
	@tests/packages.sh build kunit
	@tests/kernels/build.sh uml
	@$(MAKE) -j$(NPROC) $(B)/kunit-uml/tracebraid_kunit.ko
	@tests/kunit/run.py

# Slow: everything emulated, under KASAN and lockdep.
check-debug:
	@tests/packages.sh build guests libvirt kunit
	@tests/kernels/build.sh debug
	@$(MAKE) -j$(NPROC) debug-run

.PHONY: debug-run
debug-run: agent $(B)/kunit-debug/tracebraid_kunit.ko
	@$(MAKE) BRAID_TEST_MODULES="$(TEST_MODULES)" $(call test-drivers,$(call made,debug))
	@tests/kunit/run.py --kernel debug
	@tests/e2e/run.py --no-skip --kernel debug $(addprefix --case ,$(CASE))

check-dkms:
	@tests/packages.sh driver tests
	@tests/dkms.sh $(call packaged,6.1) $(call packaged,6.12)

# The releases of the kernels that are asked for; by default, and for "all", of each.
E2E_KRELS	= $(if $(filter-out all,$(KERNELS)),$(foreach one,$(KERNELS),$(call packaged,$(word 1,\
		    $(subst -, ,$(one))),$(word 2,$(subst -, ,$(one))))),$(TEST_KRELS))

# User-mode Linux is made for the case that runs on it.
E2E_UML		= $(if $(CASE),$(filter virtio-uml,$(CASE)),virtio-uml)

check-e2e:
	@tests/packages.sh build forms driver guests libvirt $(if $(E2E_UML),kunit)
	@$(if $(E2E_UML),tests/kernels/build.sh uml)
	@$(MAKE) -j$(NPROC) e2e-run

.PHONY: e2e-run
e2e-run: agent
	@$(MAKE) BRAID_TEST_MODULES="$(TEST_MODULES)" $(call test-drivers,$(E2E_KRELS))
	@$(if $(E2E_UML),$(MAKE) BRAID_TEST_MODULES=tests/e2e/storm/storm.o $(call test-drivers,$(call made,uml)))
	@tests/e2e/nested/test_judge.py
	@tests/e2e/run.py --no-skip $(addprefix --case ,$(CASE)) $(addprefix --kernel ,$(KERNELS))

include tests/fuzz/fuzz.mk

# Demo ----------------------------------------------------------------------------------------

.PHONY: demo demo-run
demo:
	@tests/packages.sh build driver guests
	@$(MAKE) -j$(NPROC) demo-run

demo-run: agent
	@$(MAKE) $(call test-drivers,$(call packaged,6.1))
	@tests/e2e/demo.py

# Bench, install, clean, help -----------------------------------------------------------------

.PHONY: bench check-bench bench-run
bench:
	@tests/packages.sh build driver guests tests bench
	@$(MAKE) -j$(NPROC) bench-run

check-bench:
	@tests/packages.sh build driver guests tests bench
	@$(MAKE) -j$(NPROC) bench-run BENCH=short

BENCH_LIBS_lttng := -llttng-ust -ldl

bench-run: agent $(addprefix $(B)/bench_,ring lttng count clock many walk) $(B)/make_big_capture
	@$(MAKE) BRAID_TEST_MODULES="$(TEST_MODULES)" \
		$(call test-drivers,$(call packaged,6.1) $(call packaged,6.12))
	@tests/bench/run.sh $(BENCH)

$(B)/bench_clock $(B)/bench_many: $(B)/bench_%: $(B)/obj/tests/bench/bench_%.o \
		$(B)/obj/tests/unit/fake_guest.o $(LIB_OBJS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $^ $(LIBS)

# A capture to measure with: build/make_big_capture OUT [EVENTS]
$(B)/make_big_capture: $(addprefix $(B)/obj/tests/,bench/make_big_capture.o bench/big_formats.o \
		unit/make_capture.o) $(LIB_OBJS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $^ $(LIBS)

# A live guest without a guest: build/live_region FILE NAME
$(B)/live_region: $(addprefix $(B)/obj/tests/,lint/live_region.o unit/fake_guest.o) $(LIB_OBJS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $^ $(LIBS)

# A capture whose names try to be markup: build/make_hostile OUT
$(B)/make_hostile: $(addprefix $(B)/obj/tests/,html/make_hostile.o unit/make_capture.o) $(LIB_OBJS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $^ $(LIBS)

$(B)/bench_walk: $(B)/obj/tests/bench/bench_walk.o $(LIB_OBJS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $^ $(LIBS)

$(B)/bench_%: $(B)/obj/tests/bench/bench_%.o $(filter $(B)/obj/shared/%,$(AGENT_OBJS))
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $^ $(BENCH_LIBS_$*)

.PHONY: install
install: agent
	install -D -m 755 $(B)/tracebraid $(DESTDIR)$(PREFIX)/bin/tracebraid
	install -D -m 644 host_agent/tracebraid.bash \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/tracebraid
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 docs/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1/
	@if [ -e $(B)/guest-$(KREL)/tracebraid.ko ]; then \
		set -x; install -d $(DESTDIR)/lib/modules/$(KREL)/updates; \
		install -m 644 $(B)/guest-$(KREL)/tracebraid*.ko $(DESTDIR)/lib/modules/$(KREL)/updates/; \
	fi

# In a guest: the driver for each kernel that it has, and for each that it will get.
.PHONY: dkms
dkms:
	@mkdir -p $(DESTDIR)/usr/src
	@version=$$(guest_driver/dkms.sh $(DESTDIR)/usr/src) && if [ -z "$(DESTDIR)" ]; then \
		dkms remove tracebraid/$$version --all >/dev/null 2>&1; \
		for build in /lib/modules/*/build; do \
			[ -d "$$build" ] || continue; \
			krel=$${build%/build}; \
			dkms install tracebraid/$$version -k $${krel##*/} || exit 1; \
		done; \
	fi

.PHONY: clean
clean:
	$(Q)rm -rf $(B)

.PHONY: help
help:
	@echo 'make demo                    two guests and their host in one timeline, from nothing'
	@echo 'make check                   all tests'
	@echo 'make                         agent (build/tracebraid), driver for the running kernel'
	@echo 'make driver KREL=RELEASE     driver for another kernel: build/guest-RELEASE/tracebraid.ko'
	@echo 'make check-lint              house rules, shellcheck'
	@echo 'make check-unit              unit tests under sanitizers'
	@echo 'make check-html              an exported page in a headless browser'
	@echo 'make check-kunit             the driver in user-mode Linux, under KASAN and lockdep'
	@echo 'make check-debug [CASE=name] the same and the end-to-end cases in an emulated kernel; slow'
	@echo 'make check-model             all states of the ring, in small shapes, and its mutants'
	@echo 'make check-fuzz              each fuzz target for FUZZ_SECONDS=60; make fuzz-corpus remakes the corpora'
	@echo 'make check-e2e [CASE=name]   real kernels in QEMU; tests/e2e/run.py --list names the cases; KERNELS=all for all on all'
	@echo 'make check-dkms              the driver built by DKMS, from its own copy of the sources'
	@echo 'make bench                   figures, as ratios, kept in build/bench.tsv'
	@echo 'make check-bench             the same benches, each for about a second: that they work'
	@echo 'make install DESTDIR=        the agent, and the driver if it was built'
	@echo 'make dkms                    in a guest: the driver for this and all later kernels'
	@echo 'make clean                   remove build/'
	@echo 'V=1 shows the commands; KREL defaults to the running kernel.'
