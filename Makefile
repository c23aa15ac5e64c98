# SPDX-License-Identifier: GPL-2.0-or-later
# tracebraid: builds driver and agent, runs the demo and the tests. `make help` lists all.

B		:= build
PREFIX		?= /usr/local
DESTDIR		?=
# The kernel that the driver is built for; the packaged ones are built for the tests.
KREL		?= $(shell uname -r)
CASE		?=
KERNELS		?=
SERIES		?=
NPROC		:= $(shell nproc)

CC		?= gcc
PKGS		:= libtracefs libvirt libxml-2.0 libcap-ng libseccomp libxxhash libzstd \
		   libisal libkdumpfile libprotobuf-c sqlite3
# Exports take 3 to 9 % less time than with -O2.
CFLAGS		?= -O3 -g
# Position-independent and hidden: the same objects are the program's and the library's.
ALL_CFLAGS	= -std=gnu11 -Wall -Wextra -Werror -D_GNU_SOURCE -I. -Iinclude -I$(B)/made $(CFLAGS) \
		  -fPIC -fvisibility=hidden \
		  $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
LIBS		= $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lpthread -lm
# The tests' reference for formats and pages.
TEST_LIBS	= $(shell pkg-config --libs libtraceevent zlib 2>/dev/null)

ifeq ($(V),1)
Q		:=
else
Q		:= @
MAKEFLAGS	+= --no-print-directory
endif
say		= @printf '  %-8s %s\n' '$(1)' '$(2)'

SHARED_SRCS	:= $(wildcard shared/*.c)
PROTO		:= host_agent/export/perfetto/perfetto
AGENT_SRCS	:= $(wildcard host_agent/*.c host_agent/*/*.c host_agent/export/*/*.c) \
		   $(B)/made/$(PROTO).pb-c.c
AGENT_OBJS	:= $(addprefix $(B)/obj/,$(SHARED_SRCS:.c=.o) $(AGENT_SRCS:.c=.o))
LIB_OBJS	:= $(filter-out $(B)/obj/host_agent/main.o,$(AGENT_OBJS))
UNIT_HELPERS	:= $(filter-out tests/unit/test_% tests/unit/stress_% tests/unit/work_%,$(wildcard tests/unit/*.c))

.PHONY: all
all: agent library driver

# Their options and synopses are of the commands' tables.
MAN_PAGES	:= $(patsubst docs/man/%.in,$(B)/man/%,$(wildcard docs/man/*.in))

.PHONY: agent
agent: $(B)/tracebraid $(MAN_PAGES)

$(B)/man/%: docs/man/%.in docs/man/generate.awk $(B)/tracebraid
	$(Q)mkdir -p $(@D)
	$(Q)awk -v agent=$(B)/tracebraid -f docs/man/generate.awk $< >$@.part && mv $@.part $@

$(B)/tracebraid: $(AGENT_OBJS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

# The library: what its functions need of the rooms that read captures, without any name of ours but theirs.
VERSION		:= $(shell sed -n 's/^.*BRAID_AGENT_VERSION.*"\(.*\)"/\1/p' host_agent/util/version.h)
SONAME		:= libtracebraid.so.0
LIBRARY		= $(filter $(B)/obj/host_agent/library/% $(B)/obj/host_agent/sql/%,$(AGENT_OBJS))
READING		:= shared $(addprefix host_agent/,util capture timeline store format merge analyze walk export) $(B)/made
# Those of PKGS that it needs.
READING_PKGS	:= libseccomp libxxhash libzstd libisal libprotobuf-c sqlite3

.PHONY: library
library: $(B)/libtracebraid.so $(B)/libtracebraid.a $(B)/man/libtracebraid.3

# Its page is made of the public headers.
PUBLIC_H	:= include/tracebraid/tracebraid.h include/tracebraid/output.h include/tracebraid/recording.h
$(B)/man/libtracebraid.3: docs/man/library.awk $(PUBLIC_H) host_agent/util/version.h
	$(Q)mkdir -p $(@D)
	$(Q)awk -v version=$(VERSION) -v date="$$(date -ud "$$(sed -n 's/^.Dd //p' docs/man/tracebraid.1.in)" +%F)" \
		-f docs/man/library.awk $(PUBLIC_H) >$@.part && mv $@.part $@

$(B)/reading.a: $(foreach room,$(READING),$(filter $(B)/obj/$(room)/%,$(AGENT_OBJS)))
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(B)/$(SONAME): $(LIBRARY) $(B)/reading.a host_agent/library/exported.map
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -shared -Wl,-soname,$(SONAME) -Wl,--no-undefined \
		-Wl,--version-script=host_agent/library/exported.map -o $@ $(filter %.o %.a,$^) \
		$(shell pkg-config --libs $(READING_PKGS)) -lm

$(B)/libtracebraid.so: $(B)/$(SONAME)
	$(Q)ln -sf $(SONAME) $@

$(B)/libtracebraid.a: $(LIBRARY) $(B)/reading.a
	$(call say,AR,$@)
	$(Q)$(LD) -r -o $(B)/libtracebraid.o $^ && objcopy --localize-hidden $(B)/libtracebraid.o
	$(Q)rm -f $@ && $(AR) rcs $@ $(B)/libtracebraid.o

$(B)/obj/%.o: %.c
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# The page of the HTML export, into which html/out.c puts its data.
$(B)/html/page: $(wildcard host_agent/export/html/page/*)
	$(call say,PAGE,$@)
	$(Q)mkdir -p $(@D)
	$(Q)host_agent/export/html/page/assemble.sh > $@.part && mv $@.part $@

$(foreach tree,obj address/obj thread/obj counted/obj fuzz/obj,$(B)/$(tree)/host_agent/export/html/out.o): $(B)/html/page

# A fused multiply-add, which x86-64 has not, would give other times and bounds of the same capture.
$(foreach tree,obj address/obj thread/obj counted/obj fuzz/obj,$(patsubst %.c,$(B)/$(tree)/%.o,$(wildcard host_agent/timeline/*.c))): \
	ALL_CFLAGS += -ffp-contract=off

# Perfetto's messages, for protobuf-c.
$(B)/made/%.pb-c.c $(B)/made/%.pb-c.h: %.proto
	$(call say,PROTO,$<)
	$(Q)mkdir -p $(B)/made
	$(Q)protoc --c_out=$(B)/made $<

$(foreach tree,obj address/obj thread/obj counted/obj fuzz/obj,$(patsubst %.c,$(B)/$(tree)/%.o,$(wildcard $(dir $(PROTO))*.c))): \
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

# Where kbuild finds a kernel: the packaged ones, those that tests/kernels/fetch.sh gets, and those that
# tests/kernels/build.sh makes, by their suffix.
kdir		= $(or $(wildcard /lib/modules/$(1)/build $(B)/kernels/$(1)/build), \
		    $(B)/kernels/$(lastword $(subst -, ,$(1))))

# Modules in a folder of links: (folder, Kbuild file, kernel's folder, more for make). A print format
# of 6.12's trace headers is longer than sparse's longest string, 7.3's mix a flag's type with integers, and
# 7.3 uses an operator that sparse lacks, and in constants a function that sparse does not evaluate.
SPARSE_FLAGS	:= -D__typeof_unqual__=__typeof__ '-D__builtin_strlen(s)=(sizeof(s)-1)'
define kbuild
	$(Q)guest_driver/stage.sh $(1) $(2)
	$(call say,KBUILD,$@)
	$(Q)+guest_driver/kbuild.sh $(1)/build.log \
		$(MAKE) -C $(3) M=$(abspath $(1)) W=1 V=$(or $(V),0) CF="$(SPARSE_FLAGS)" $(4) modules \
		|| { cat $(1)/build.log; exit 1; }
	$(Q)! grep -E 'warning:|WARNING|error:' $(1)/build.log | grep -vE '/include/trace/.* (too long token expansion|degrades to integer)'
	@touch $@
endef

# kbuild knows best what is out of date.
$(B)/guest-%/tracebraid.ko: FORCE
	$(call kbuild,$(B)/guest-$*,guest_driver/Kbuild,$(call kdir,$*),$(if $(filter %-uml,$*),ARCH=um) \
		BRAID_TEST_MODULES="$(BRAID_TEST_MODULES)")

$(B)/kunit-%/tracebraid_kunit.ko: FORCE
	$(call kbuild,$(B)/kunit-$*,tests/kunit/Kbuild,$(B)/kernels/$*,$(if $(filter uml uml-%,$*),ARCH=um))

# Tests ---------------------------------------------------------------------------------------

# Names of the guest kernels: of this machine's release, the oldest first, and those that fetch.sh gets.
PACKAGED	:= $(shell tests/packages.sh --kernels | cut -f 1)
OLDEST		:= $(firstword $(PACKAGED))
NEWEST		:= newest newest-rt newest-cloud
# The releases of kernels by name (a series and flavour: the newest of them); asked for late, when they are there.
packaged	= $(shell ls /boot/vmlinuz-$(word 1,$(subst -, ,$(1))).*-amd64 2>/dev/null | sed 's|/boot/vmlinuz-||' | \
		    grep -E '^[0-9.]+[^-]*(-[0-9]+)?$(addprefix -,$(word 2,$(subst -, ,$(1))))-amd64$$' | sort -V | tail -1)
krels		= $(foreach one,$(1),$(if $(filter newest% arm64%,$(one)), \
		    $(notdir $(realpath $(B)/kernels/$(one))),$(call packaged,$(one))))
# Those that are asked for; by default each that is packaged, and the newest, for "all" in all its flavours.
TEST_NAMES	= $(if $(filter-out all,$(KERNELS)),$(KERNELS),$(PACKAGED) $(if $(KERNELS),$(NEWEST),newest))
TEST_KRELS	= $(call krels,$(TEST_NAMES))
TEST_MODULES	:= $(addprefix tests/e2e/,storm/storm.o storm/lap.o storm/unstable.o buffers/buffers.o \
		   subevents/subevents.o nested/pairs.o wakes/wakes.o) tests/bench/guest_ring/guest_ring.o
# The release of a kernel that tests/kernels/build.sh has made.
made		= $(shell cat $(B)/kernels/$(1)/include/config/kernel.release)
# The flavours among them that fetch.sh gets.
FLAVOURS	= $(patsubst newest-%,%,$(patsubst newest,generic,$(filter newest% arm64%,$(TEST_NAMES))))
test-drivers	= $(foreach krel,$(1),$(B)/guest-$(krel)/tracebraid.ko)
build-drivers	= $(if $(1),$(MAKE) BRAID_TEST_MODULES="$(2)" $(call test-drivers,$(1)))

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
	$(Q)$$(CC) $$(ALL_CFLAGS) $$(SAN_$(1)) -o $$@ $$^ $$(LIBS) $$(TEST_LIBS)
endef
$(foreach san,address thread counted,$(eval $(call unit-rules,$(san))))

UNIT_PROGRAMS	:= $(patsubst tests/unit/%.c,$(B)/address/%,$(wildcard tests/unit/test_*.c)) \
		   $(B)/address/stress_ring $(B)/thread/stress_ring $(B)/thread/test_flusher $(B)/thread/test_two_cpus \
		   $(B)/counted/work_linear

.SECONDARY:

.PHONY: check check-all check-matrix check-releases check-lint check-unit check-kunit check-debug check-e2e check-dkms
check:
	@tests/needs.sh
	@tests/packages.sh build forms driver arm64 guests libvirt tests library kunit fuzz html bench
	@$(MAKE) check-all

# Parts at once are those that use one CPU most of the time; what several of them would build is built before.
.PHONY: programs
programs: agent library $(addprefix $(B)/,live_region make_big_capture make_hostile)

check-all:
	@tests/parts.sh check-lint check-unit fuzz-short '-j$(NPROC) programs' 'check-library + model-short + check-kunit + check-html' \
		check-e2e 'check-e2e KERNELS=arm64 CASE="driver-load record"' 'check-bench + dkms-short'

# Every kernel that there is, and the whole `make check` on both releases: hours.
check-matrix:
	@tests/packages.sh build forms library driver guests libvirt tests kunit
	@tests/parts.sh 'check-lint KERNELS=all' check-kunit \
		$(patsubst %,'check-kunit SERIES=%',$(filter-out $(shell tests/packages.sh --source),6.12) newest) \
		'check-e2e KERNELS=all' check-dkms check-arm64 check-releases

# The README's two commands as a newcomer runs them, on minimal machines: the last commit, nothing installed.
RELEASES	:= bookworm trixie
check-releases:
	@tests/packages.sh releases
	@for release in $(RELEASES); do \
		echo "$$release: make demo, make check" && \
		tests/releases.sh $$release 'make demo && make check' || exit 1; done

.PHONY: check-model model-short
check-model:
	@tests/packages.sh build tests
	@tests/model/run.sh

# The part of `make check`.
model-short:
	@tests/model/run.sh nested_full_stops deaths_laps deaths_full_stops no_pending_look no_clear order

check-lint:
	@tests/packages.sh build driver guests tests
	@$(if $(KERNELS),,tests/kernels/fetch.sh rt cloud)
	@$(if $(FLAVOURS),tests/kernels/fetch.sh $(FLAVOURS))
	@$(MAKE) -j$(NPROC) lint-run

# C=2: sparse checks each source of the driver while kbuild is there anyway. For the newest kernel's flavours, the driver
# alone, unless they are asked for.
.PHONY: lint-run
LINT_KRELS	= $(if $(KERNELS),,$(strip $(call krels,newest-rt newest-cloud)))
lint-run: agent library $(B)/live_region
	@$(MAKE) C=2 BRAID_TEST_MODULES="$(TEST_MODULES)" $(call test-drivers,$(TEST_KRELS))
	@$(if $(LINT_KRELS),$(MAKE) C=2 $(call test-drivers,$(LINT_KRELS)))
	@tests/lint/house.sh
	@tests/lint/test_uses.py
	@tests/lint/uses.py $(B)/obj $(patsubst %/tracebraid.ko,%,$(call test-drivers,$(TEST_KRELS)))
	@tests/lint/backtrace.sh $(foreach krel,$(TEST_KRELS),$(B)/guest-$(krel)/tracebraid.ko $(B)/guest-$(krel)/tracebraid_virtio.ko)
	@for driver in $(call test-drivers,$(TEST_KRELS)); do tests/lint/write_path.sh $$driver || exit 1; done
	@tests/lint/read_back.py $(foreach krel,$(TEST_KRELS) $(LINT_KRELS),$(call kdir,$(krel)))
	@tests/lint/completion.sh
	@tests/lint/kbuild.sh
	@tests/lint/qemu.sh
	@tests/lint/man.sh
	@tests/lint/examples.sh
	@tests/lint/help.sh
	@shellcheck -s bash host_agent/tracebraid.bash && shellcheck $$(git ls-files '*.sh' .ci/run) && echo 'ok   shellcheck'

check-unit:
	@tests/packages.sh build forms
	@$(MAKE) -j$(NPROC) unit-programs
	@tests/unit/run.sh $(UNIT_PROGRAMS)

.PHONY: unit-programs
unit-programs: $(UNIT_PROGRAMS) $(B)/address/tracebraid $(B)/make_big_capture

# MUTANTS lines of these rooms are changed, one at a time: some unit program must fail. Slow.
MUTANTS		?= 50
SEED		?=
.PHONY: check-mutants
check-mutants:
	@tests/packages.sh build forms
	@tests/mutants/mutants.py --count $(MUTANTS) $(SEED:%=--seed %) $(addprefix host_agent/,store analyze library)

# The library as other programs use it, installed into a folder.
.PHONY: check-library library-run
check-library:
	@tests/packages.sh build forms library
	@$(MAKE) -j$(NPROC) library-run

library-run: agent library $(B)/make_big_capture $(B)/live_region
	@CC="$(CC)" tests/library/run.sh

.PHONY: check-html html-run
check-html:
	@tests/packages.sh build html
	@$(MAKE) -j$(NPROC) html-run

html-run: agent $(B)/make_big_capture $(B)/make_hostile
	@tests/html/run.sh

# In user-mode Linux of the release's own source, or of another: SERIES=6.12, SERIES=newest.
check-kunit:
	@tests/packages.sh build kunit
	@tests/kernels/build.sh uml $(SERIES)
	@$(MAKE) -j$(NPROC) $(B)/kunit-uml$(addprefix -,$(SERIES))/tracebraid_kunit.ko
	@tests/kunit/run.py --kernel uml$(addprefix -,$(SERIES))

# Slow: everything emulated, under KASAN and lockdep.
check-debug:
	@tests/packages.sh build forms library guests libvirt kunit
	@tests/kernels/build.sh debug
	@tests/qemu/fetch.sh
	@$(MAKE) -j$(NPROC) debug-run

.PHONY: debug-run
debug-run: agent library $(B)/kunit-debug/tracebraid_kunit.ko
	@$(MAKE) BRAID_TEST_MODULES="$(TEST_MODULES)" $(call test-drivers,$(call made,debug))
	@tests/kunit/run.py --kernel debug
	@tests/e2e/run.py --no-skip --kernel debug $(CASE:%=--case '%')

.PHONY: dkms-short
dkms-short:
	@tests/dkms.sh $(call packaged,6.12)

check-dkms:
	@tests/packages.sh driver tests
	@tests/dkms.sh $(call krels,$(filter-out %-rt,$(PACKAGED)))

# User-mode Linux is made for the case that runs on it, unless other kernels are asked for.
E2E_UML		= $(if $(filter all uml,$(or $(KERNELS),all)),$(if $(CASE),$(filter $(subst *,%,$(CASE)),virtio-uml),virtio-uml))

check-e2e:
	@tests/packages.sh build forms library driver guests libvirt $(if $(E2E_UML),kunit)
	@tests/qemu/fetch.sh x86 $(if $(filter arm64%,$(FLAVOURS)),arm)
	@$(if $(E2E_UML),tests/kernels/build.sh uml)
	@$(if $(FLAVOURS),tests/kernels/fetch.sh $(FLAVOURS))
	@$(if $(filter arm64%,$(FLAVOURS)),tests/packages.sh arm64; \
		[ -e $(B)/kernels/arm64.missing ] || tests/kernels/sysroot.sh arm64)
	@$(MAKE) -j$(NPROC) e2e-run

.PHONY: e2e-run
e2e-run: agent library $(B)/address/test_formats
	+@$(call build-drivers,$(filter-out $(A64_RELEASES),$(TEST_KRELS)),$(TEST_MODULES))
	+@$(call build-drivers,$(filter $(A64_RELEASES),$(TEST_KRELS)),$(A64_MODULES))
	@$(if $(E2E_UML),$(MAKE) BRAID_TEST_MODULES=tests/e2e/storm/storm.o $(call test-drivers,$(call made,uml)))
	@tests/e2e/nested/test_judge.py
	@tests/e2e/run.py --no-skip $(CASE:%=--case '%') $(addprefix --kernel ,$(KERNELS))

include tests/fuzz/fuzz.mk
include tests/arm64/arm64.mk

# Demo ----------------------------------------------------------------------------------------

.PHONY: demo demo-run
demo:
	@tests/packages.sh build driver guests
	@$(MAKE) -j$(NPROC) demo-run

demo-run: agent
	@$(MAKE) $(call test-drivers,$(call packaged,$(OLDEST)))
	@tests/e2e/demo.py

# Bench, install, clean, help -----------------------------------------------------------------

.PHONY: bench check-bench bench-run
bench:
	@tests/packages.sh build driver guests tests bench
	@tests/qemu/fetch.sh
	@[ -e $(B)/demo/demo.braid ] || $(MAKE) demo
	@$(MAKE) -j$(NPROC) bench-run

check-bench:
	@tests/packages.sh build driver guests tests bench
	@tests/qemu/fetch.sh
	@$(MAKE) -j$(NPROC) bench-run BENCH=short

BENCH_LIBS_lttng := -llttng-ust -ldl

bench-run: agent library $(addprefix $(B)/bench_,ring lttng count clock many walk flush) $(B)/make_big_capture
	@$(MAKE) BRAID_TEST_MODULES="$(TEST_MODULES)" \
		$(call test-drivers,$(call krels,$(filter-out %-rt,$(PACKAGED))))
	@tests/bench/run.sh $(BENCH)

$(B)/bench_clock $(B)/bench_many: $(B)/bench_%: $(B)/obj/tests/bench/bench_%.o \
		$(B)/obj/tests/unit/fake_guest.o $(LIB_OBJS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $^ $(LIBS)

# A capture to measure with: build/make_big_capture OUT [EVENTS [WORD...]]
$(B)/make_big_capture: $(addprefix $(B)/obj/tests/,bench/make_big_capture.o bench/big_formats.o bench/big_streams.o \
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

$(B)/bench_walk $(B)/bench_flush: $(B)/bench_%: $(B)/obj/tests/bench/bench_%.o $(LIB_OBJS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $^ $(LIBS)

$(B)/bench_%: $(B)/obj/tests/bench/bench_%.o $(filter $(B)/obj/shared/%,$(AGENT_OBJS))
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $^ $(BENCH_LIBS_$*)

PYTHON_TO	= $(shell python/where.sh $(PREFIX))
DOC_TO		= $(DESTDIR)$(PREFIX)/share/doc/tracebraid

.PHONY: install
install: agent library
	install -D -m 755 $(B)/tracebraid $(DESTDIR)$(PREFIX)/bin/tracebraid
	install -D -m 644 host_agent/tracebraid.bash \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/tracebraid
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's|@PREFIX@|$(PREFIX)|' host_agent/tracebraid-memory.service.in \
		>$(DESTDIR)$(PREFIX)/lib/systemd/system/tracebraid-memory.service
	install -D -m 755 $(B)/$(SONAME) $(DESTDIR)$(PREFIX)/lib/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(PREFIX)/lib/libtracebraid.so
	install -m 644 $(B)/libtracebraid.a $(DESTDIR)$(PREFIX)/lib/libtracebraid.a
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|; s|@PKGS@|$(READING_PKGS)|' \
		host_agent/library/tracebraid.pc.in >$(DESTDIR)$(PREFIX)/lib/pkgconfig/tracebraid.pc
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/include/tracebraid $(PUBLIC_H)
	$(if $(PYTHON_TO),install -d $(DESTDIR)$(PYTHON_TO)/tracebraid && \
		install -m 644 python/tracebraid/*.py $(PUBLIC_H) $(DESTDIR)$(PYTHON_TO)/tracebraid/)
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 $(MAN_PAGES) $(DESTDIR)$(PREFIX)/share/man/man1/
	install -D -m 644 $(B)/man/libtracebraid.3 $(DESTDIR)$(PREFIX)/share/man/man3/libtracebraid.3
	@for name in $$(sed -n 's/^\.SS \(tracebraid_.*\)/\1/p' $(B)/man/libtracebraid.3); do \
		echo ".so man3/libtracebraid.3" >$(DESTDIR)$(PREFIX)/share/man/man3/$$name.3; \
	done
	install -D -m 644 -t $(DOC_TO)/docs docs/*.md docs/*.png
	install -D -m 644 -t $(DOC_TO)/docs/examples docs/examples/*
	install -m 644 README.md CHANGELOG.md $(DOC_TO)/
	@if [ -e $(B)/guest-$(KREL)/tracebraid.ko ]; then \
		set -x; install -d $(DESTDIR)/lib/modules/$(KREL)/updates; \
		install -m 644 $(B)/guest-$(KREL)/tracebraid*.ko $(DESTDIR)/lib/modules/$(KREL)/updates/; \
		$(if $(DESTDIR),,depmod $(KREL);) \
	fi
	@$(if $(PYTHON_TO),,echo "Not installed: the Python module. Install python3, then run make install again.")
	@$(if $(DESTDIR),,ldconfig; ldconfig -p | grep -q $(PREFIX)/lib/$(SONAME) || \
		echo "Programs find the library with LD_LIBRARY_PATH=$(PREFIX)/lib")
	@$(if $(DESTDIR),,printf '%s\n' 'Next, give a guest memory for its trace:' \
		'  tracebraid attach DOMAIN            a libvirt domain' \
		'  tracebraid create /dev/shm/NAME     another QEMU: prints its options' \
		'In the guest, from a clone: make dkms && modprobe tracebraid. Then, here: tracebraid list')

# Of any version and release of Python. What DKMS has in a guest: dkms remove tracebraid/VERSION --all.
.PHONY: uninstall
uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/tracebraid $(DESTDIR)$(PREFIX)/share/bash-completion/completions/tracebraid \
		$(DESTDIR)$(PREFIX)/lib/systemd/system/tracebraid-memory.service \
		$(DESTDIR)$(PREFIX)/lib/libtracebraid.* $(DESTDIR)$(PREFIX)/lib/pkgconfig/tracebraid.pc \
		$(DESTDIR)$(PREFIX)/share/man/man1/tracebraid.1 $(DESTDIR)$(PREFIX)/share/man/man1/tracebraid-*.1 \
		$(DESTDIR)$(PREFIX)/share/man/man3/libtracebraid.3 $(DESTDIR)$(PREFIX)/share/man/man3/tracebraid_*.3
	rm -rf $(DESTDIR)$(PREFIX)/include/tracebraid $(DOC_TO) \
		$(wildcard $(DESTDIR)$(PREFIX)/lib/python*/*-packages/tracebraid)
	@$(if $(DESTDIR),,ldconfig)
	@for module in $(wildcard $(DESTDIR)/lib/modules/*/updates/tracebraid.ko); do \
		(set -x; rm -f "$$module" "$${module%.ko}_virtio.ko"); \
		krel=$${module%/updates/*}; $(if $(DESTDIR),,depmod "$${krel##*/}";) \
	done

# In a guest: the driver for each kernel that it has, and for each that it will get.
.PHONY: dkms
dkms:
	@$(if $(DESTDIR),mkdir -p $(DESTDIR)/usr/src && guest_driver/dkms.sh $(DESTDIR)/usr/src, \
		guest_driver/dkms_install.sh /usr/src /lib/modules)

.PHONY: clean
clean:
	$(Q)rm -rf $(B)

# Not by echo: make prints it, so no shell reads its quotation marks.
define HELP
Build:
  make                      agent (build/tracebraid), library, and the driver
                            for the running kernel
  make agent                the agent alone
  make library              libtracebraid, shared and static
  make driver KREL=RELEASE  the driver for another kernel:
                            build/guest-RELEASE/tracebraid.ko
  make clean                remove build/

Use:
  make demo                 two guests and their host in one timeline
  make install              agent, library, man pages and completion; the
                            driver if it was built
  make uninstall            remove what make install installed
  make dkms                 in a guest: the driver for this and later kernels

Test:
  make check                all tests, but not check-debug, and short runs of
                            the model and the fuzzers
  make check-matrix         every kernel: lint, KUnit, end-to-end; hours
  make check-arm64          agent, unit tests and driver, cross-compiled
  make check-releases       make demo and make check on minimal Debian 12
                            and 13; RELEASES=trixie
  make check-lint           house rules, write path, man pages, shellcheck
  make check-unit           unit tests under sanitizers
  make check-library        libtracebraid installed: examples, Python
  make check-html           an exported page in a headless browser
  make check-kunit          the driver in user-mode Linux, under KASAN and
                            lockdep; SERIES=6.12 or newest
  make check-e2e            real kernels in QEMU; CASE=NAME or a pattern,
                            KERNELS=6.12, newest or all;
                            tests/e2e/run.py --list shows the names
  make check-dkms           the driver built by DKMS, from its own sources
  make check-debug          KUnit and end-to-end cases in an emulated debug
                            kernel; CASE=NAME; slow
  make check-model          all states of small rings, and mutants
  make check-mutants        MUTANTS=50 changed lines, by SEED=N, one at a
                            time: does a unit test fail? Half an hour
  make check-fuzz           each fuzz target for FUZZ_SECONDS=60
  make fuzz-long            FUZZ_INPUTS=10000000 over all targets, in rounds,
                            until each has had FUZZ_LEAST=100000
  make fuzz-corpus          regenerate the fuzz targets' inputs, after a
                            change of the formats

Measure:
  make bench                a table with limits and other tools' figures
  make check-bench          the same benches, each for about a second

Package:
  make install DESTDIR=DIR  into a folder; PREFIX=/usr in place of /usr/local
  make dkms DESTDIR=DIR     the driver's sources for DKMS, into a folder

V=1 shows the commands; KREL defaults to the running kernel.
Details: CONTRIBUTING.md and docs/testing.md.
endef

.PHONY: help
help:
	$(info $(HELP))
	@:
