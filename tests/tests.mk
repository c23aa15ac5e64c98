# SPDX-License-Identifier: GPL-2.0-or-later
# What is tested, on which kernels.

CASE		?=
KERNELS		?=
SERIES		?=

UNIT_HELPERS	:= $(filter-out tests/unit/test_% tests/unit/stress_% tests/unit/work_%,$(wildcard tests/unit/*.c))
# The tests' reference for formats and pages.
TEST_LIBS	= $(shell pkg-config --libs libtraceevent zlib 2>/dev/null)

# Names of the guest kernels: of this machine's release, the oldest first, and those that fetch.sh gets.
PACKAGED	= $(call once,PACKAGED,tests/packages.sh --kernels | cut -f 1)
OLDEST		= $(firstword $(PACKAGED))
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
		   subevents/subevents.o nested/pairs.o wakes/wakes.o) \
		   $(addprefix tests/bench/guest_ring/,guest_ring.o deep.o)
# The release of a kernel that tests/kernels/build.sh has made.
made		= $(shell cat $(B)/kernels/$(1)/include/config/kernel.release)
# The flavours among them that fetch.sh gets; arm64-64k is built.
FLAVOURS	= $(patsubst newest-%,%,$(patsubst newest,generic,$(filter-out arm64-64k,$(filter newest% arm64%,$(TEST_NAMES)))))
test-drivers	= $(foreach krel,$(1),$(B)/guest-$(krel)/tracebraid.ko)
build-drivers	= $(if $(1),$(MAKE) BRAID_TEST_MODULES="$(2)" $(call test-drivers,$(1)))

SAN_address	:= -fsanitize=address,undefined -fno-sanitize-recover=all
SAN_thread	:= -fsanitize=thread -Wno-tsan
# No sanitizer: counts the basic blocks that run, by a function of the program's own.
SAN_counted	:= -fsanitize-coverage=trace-pc

# Programs that execute themselves as another user, who may not be able to read the folder with the library.
AS_OTHER_USERS	:= test_domains test_resolve

# One object tree, one library of the agent's and the helpers' code, and one set of programs for each sanitizer.
define unit-rules
$(B)/$(1)/obj/%.o: %.c Makefile tests/tests.mk
	$(Q)mkdir -p $$(@D)
	$(Q)$$(CC) $$(ALL_CFLAGS) -U_FORTIFY_SOURCE -fvisibility=default -O1 $$(SAN_$(1)) -MMD -MP -c -o $$@ $$<

$(B)/$(1)/tracebraid: $$(patsubst $(B)/obj/%,$(B)/$(1)/obj/%,$$(AGENT_OBJS))
	$(call say,LINK,$$@)
	$(Q)$$(CC) $$(ALL_CFLAGS) $$(SAN_$(1)) -o $$@ $$^ $$(LIBS)

UNIT_OBJS_$(1)	:= $$(patsubst $(B)/obj/%,$(B)/$(1)/obj/%,$$(LIB_OBJS)) $$(patsubst %.c,$(B)/$(1)/obj/%.o,$$(UNIT_HELPERS))

$(B)/$(1)/libunits.so: $$(UNIT_OBJS_$(1))
	$(call say,LINK,$$@)
	$(Q)$$(CC) $$(ALL_CFLAGS) $$(SAN_$(1)) -shared -Wl,-Bsymbolic,-soname,libunits.so -o $$@ $$^ $$(LIBS) $$(TEST_LIBS)

$(B)/$(1)/%: $(B)/$(1)/obj/tests/unit/%.o $(B)/$(1)/libunits.so
	$(call say,LINK,$$@)
	$(Q)$$(CC) $$(ALL_CFLAGS) $$(SAN_$(1)) -o $$@ $$^ -Wl,-rpath,$(abspath $(B)/$(1)) $$(LIBS) $$(TEST_LIBS)

$(addprefix $(B)/$(1)/,$(AS_OTHER_USERS)): $(B)/$(1)/%: $(B)/$(1)/obj/tests/unit/%.o $$(UNIT_OBJS_$(1))
	$(call say,LINK,$$@)
	$(Q)$$(CC) $$(ALL_CFLAGS) $$(SAN_$(1)) -o $$@ $$^ $$(LIBS) $$(TEST_LIBS)
endef
$(foreach san,address thread counted,$(eval $(call unit-rules,$(san))))

# Those that take long first, so that no CPU waits for one at the end.
UNIT_PROGRAMS	:= $(addprefix $(B)/thread/,test_parts test_flusher stress_ring) $(B)/counted/work_linear \
		   $(addprefix $(B)/address/,test_steps test_index stress_ring) \
		   $(filter-out %/test_steps %/test_index,$(patsubst tests/unit/%.c,$(B)/address/%,$(wildcard tests/unit/test_*.c)))

.SECONDARY:

# The folder has links by the compilers' names, kbuild's included. Objects of another clone differ in its path, for debuggers.
check check-all check-matrix: export PATH := /usr/lib/ccache:$(PATH)
check check-all check-matrix: export CCACHE_NOHASHDIR := 1

.PHONY: check check-all check-matrix check-releases check-lint check-unit check-kunit check-debug check-e2e check-dkms check-kernel-tree
check:
	@tests/needs.sh
	@tests/packages.sh build ccache forms driver arm64 guests libvirt tests library kunit fuzz html bench service fleet prometheus
	@$(MAKE) check-all

# Parts at once are those that use one CPU most of the time; what several of them would build is built before.
.PHONY: programs
programs: agent library $(addprefix $(B)/,live_region make_big_capture make_hostile)

check-all:
	@tests/parts.sh check-lint check-unit fuzz-short '-j$(NPROC) programs' 'check-library + model-short + check-kunit + check-html + check-service + check-fleet' \
		check-e2e 'check-e2e KERNELS=arm64 CASE="driver-load record select-kprobe select-stack" + check-bench + dkms-short'

# Every kernel that there is, and the whole `make check` on both releases: hours.
check-matrix:
	@tests/packages.sh build ccache forms library driver guests libvirt prometheus tests kunit
	@tests/parts.sh 'check-lint KERNELS=all' check-kunit \
		$(patsubst %,'check-kunit SERIES=%',$(filter-out $(shell tests/packages.sh --source),6.12) newest) \
		'check-e2e KERNELS=all' check-dkms check-kernel-tree check-upgrade check-arm64 check-releases

# The README's two commands as a newcomer runs them, on minimal machines: the last commit, nothing installed.
RELEASES	:= bookworm trixie
check-releases:
	@tests/packages.sh releases
	@for release in $(RELEASES); do \
		echo "$$release: make demo, make check" && \
		tests/releases.sh $$release 'make demo && make check' || exit 1; done

# The Debian packages on minimal machines: built, installed, used, upgraded, purged.
.PHONY: check-packages
check-packages:
	@tests/packages.sh releases
	@for release in $(RELEASES); do \
		echo "$$release: packages" && tests/releases.sh $$release tests/installed.sh || exit 1; done

# CHECK: the target that has the tests.
CHECK		?= check
.PHONY: release-check
release-check:
	@tests/packages.sh build driver library packages
	@tests/release.sh $(CHECK)

# FROM: the commit that has the other version.
FROM		?=
.PHONY: check-upgrade
check-upgrade:
	@tests/packages.sh build driver guests
	@tests/qemu/fetch.sh x86
	@tests/upgrade.sh $(call packaged,6.12) $(FROM)

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

# C=2: sparse checks each source of the driver while kbuild is there anyway: for all kernels that are asked for, by default
# for the oldest and the newest, which have both branches of each condition on a version. For the newest kernel's flavours
# the driver alone is compiled, unless they are asked for.
.PHONY: lint-run lint-drivers lint-agent
SPARSE_KRELS	= $(if $(KERNELS),$(TEST_KRELS),$(call krels,$(OLDEST) newest))
LINT_KRELS	= $(if $(KERNELS),,$(strip $(call krels,newest-rt newest-cloud)))
lint-run: lint-drivers lint-agent
	@tests/lint/uses.py $(B)/obj $(B)/select $(patsubst %/tracebraid.ko,%,$(call test-drivers,$(TEST_KRELS)))

lint-drivers:
	@$(MAKE) C=2 BRAID_TEST_MODULES="$(TEST_MODULES)" $(call test-drivers,$(SPARSE_KRELS))
	+@$(call build-drivers,$(filter-out $(SPARSE_KRELS),$(TEST_KRELS)),$(TEST_MODULES))
	@$(if $(LINT_KRELS),$(MAKE) $(call test-drivers,$(LINT_KRELS)))
	@! $(call kdir,$(call packaged,$(OLDEST)))/scripts/kernel-doc -none $$(git ls-files 'guest_driver/*.c' 'shared/*.c') 2>&1 | grep .
	@tests/lint/backtrace.sh $(foreach krel,$(TEST_KRELS),$(B)/guest-$(krel)/tracebraid.ko $(B)/guest-$(krel)/tracebraid_virtio.ko)
	@for driver in $(call test-drivers,$(TEST_KRELS)); do tests/lint/write_path.sh $$driver || exit 1; done
	@tests/lint/read_back.py $(foreach krel,$(TEST_KRELS) $(LINT_KRELS),$(call kdir,$(krel)))
	@tests/lint/kbuild.sh

# While kbuild links, a CPU is free for it.
lint-agent: agent select library $(B)/live_region
	@tests/lint/house.sh
	@tests/lint/test_uses.py
	@tests/lint/completion.sh
	@tests/lint/qemu.sh
	@tests/lint/man.sh
	@tests/lint/examples.sh
	@tests/lint/help.sh
	@shellcheck -s bash host_agent/tracebraid.bash host_agent/tracebraid-select.bash && shellcheck $$(git ls-files '*.sh' .ci/run) && echo 'ok   shellcheck'

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
	@tests/mutants/mutants.py --count $(MUTANTS) $(SEED:%=--seed %) $(addprefix host_agent/,trace analyze library)

# The library as other programs use it, installed into a folder.
.PHONY: check-library library-run
check-library:
	@tests/packages.sh build forms library
	@$(MAKE) -j$(NPROC) library-run

library-run: agent library $(B)/make_big_capture $(B)/live_region
	@CC="$(CC)" tests/library/run.sh

# The service under the systemd of each release, in a container. There programs load this machine's libraries.
OWN		:= /usr/lib/tracebraid-test
LINK_OWN	:= -Wl,--disable-new-dtags,-rpath,$(OWN),--dynamic-linker=$(OWN)/loader
.PHONY: check-service service-run
check-service:
	@tests/packages.sh build service
	@$(MAKE) -j$(NPROC) service-run

service-run: agent library $(B)/service/tracebraid $(B)/service/live_region
	@for release in $(RELEASES); do \
		echo "$$release: service" && tests/service/run.sh $$release || exit 1; done

LIVE_REGION_OBJS := $(addprefix $(B)/obj/tests/,lint/live_region.o unit/fake_guest.o) $(LIB_OBJS)
$(B)/service/tracebraid: $(AGENT_OBJS)
$(B)/service/live_region: $(LIVE_REGION_OBJS)
$(B)/service/tracebraid $(B)/service/live_region:
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) $(LINK_OWN) -o $@ $^ $(LIBS)

# Services and a real nats-server: what they answer, who may ask, what is said when one of them fails.
# Both parts wait more than they compute, so they run at once.
.PHONY: check-fleet fleet-requests fleet-store
check-fleet:
	@tests/packages.sh build fleet
	@$(MAKE) -j$(NPROC) fleet-requests fleet-store

fleet-requests: agent $(B)/live_region
	@tests/fleet/run.py

fleet-store: agent $(B)/live_region
	@tests/fleet/store.py

# The packaged service on an emulated host: its limits, the host's trace, README's commands. Slow.
.PHONY: check-machine machine-run
check-machine:
	@tests/packages.sh build service packages guests
	@$(MAKE) -j$(NPROC) deb
	@$(MAKE) -j$(NPROC) machine-run

machine-run: $(B)/live_region
	@tests/service/machine.sh $(call packaged,6.12)

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
	@tests/packages.sh build forms library guests libvirt prometheus kunit
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

# Built in, as modules, and without modules, in the source that user-mode Linux is made of.
check-kernel-tree:
	@tests/packages.sh build kunit
	@tests/kernels/build.sh uml $(SERIES)
	@tests/kernel_tree.sh uml$(addprefix -,$(SERIES))

check-dkms:
	@tests/packages.sh driver tests
	@tests/dkms.sh $(call krels,$(filter-out %-rt,$(PACKAGED)))

# User-mode Linux is made for the case that runs on it, unless other kernels are asked for.
E2E_UML		= $(if $(filter all uml,$(or $(KERNELS),all)),$(if $(CASE),$(filter $(subst *,%,$(CASE)),virtio-uml),virtio-uml))

check-e2e:
	@tests/packages.sh build forms library driver guests libvirt prometheus $(if $(E2E_UML),kunit)
	@tests/qemu/fetch.sh x86 $(if $(filter arm64%,$(TEST_NAMES)),arm)
	@$(if $(E2E_UML),tests/kernels/build.sh uml)
	@$(if $(FLAVOURS),tests/kernels/fetch.sh $(FLAVOURS))
	@$(if $(filter arm64%,$(TEST_NAMES)),tests/packages.sh arm64; \
		[ -e $(B)/kernels/arm64.missing ] || tests/kernels/sysroot.sh arm64)
	@$(if $(filter arm64-64k,$(TEST_NAMES)),tests/packages.sh kunit; tests/kernels/build.sh arm64-64k)
	@$(MAKE) -j$(NPROC) e2e-run

.PHONY: e2e-run
e2e-run: agent select library $(B)/address/test_formats
	+@$(call build-drivers,$(filter-out $(A64_RELEASES),$(TEST_KRELS)),$(TEST_MODULES))
	+@$(call build-drivers,$(filter $(A64_RELEASES),$(TEST_KRELS)),$(A64_MODULES))
	+@$(if $(filter $(A64_RELEASES),$(TEST_KRELS)), \
		$(A64_MAKE) LDFLAGS=-static $(A64)/tracebraid-select)
	@$(if $(E2E_UML),$(MAKE) BRAID_TEST_MODULES=tests/e2e/storm/storm.o $(call test-drivers,$(call made,uml)))
	@tests/e2e/nested/test_judge.py
	@tests/e2e/run.py --no-skip $(CASE:%=--case '%') $(addprefix --kernel ,$(KERNELS))

-include $(wildcard $(foreach san,address thread counted,$(B)/$(san)/obj/*/*.d $(B)/$(san)/obj/*/*/*.d $(B)/$(san)/obj/*/*/*/*.d))
