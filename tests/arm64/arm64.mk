# SPDX-License-Identifier: GPL-2.0-or-later
# The agent and its unit tests for arm64: cross-compiled, and run by qemu-user.

A64		:= $(B)/arm64
A64_ROOT	:= $(abspath $(B)/kernels/sysroot-arm64)
A64_LIB		:= $(A64_ROOT)/usr/lib/aarch64-linux-gnu
A64_MAKE	= PKG_CONFIG_LIBDIR=$(A64_LIB)/pkgconfig:$(A64_ROOT)/usr/share/pkgconfig \
		  PKG_CONFIG_SYSROOT_DIR=$(A64_ROOT) $(MAKE) B=$(A64) CC=tests/arm64/cc.sh

# The test modules that are not x86's.
A64_MODULES	:= $(addprefix tests/e2e/,storm/storm.o storm/lap.o buffers/buffers.o subevents/subevents.o)
A64_KERNELS	:= arm64 arm64-16k
A64_RELEASES	:= %-arm64 %-arm64-16k %-arm64-64k

# False positives of GCC 12.
$(B)/obj/tests/unit/test_follow.o $(B)/obj/tests/unit/test_times.o: CFLAGS += -Wno-dangling-pointer

# Without a sanitizer: qemu-user has no room for their shadow memory.
$(B)/plain/%: $(B)/obj/tests/unit/%.o $(LIB_OBJS) $(patsubst %.c,$(B)/obj/%.o,$(UNIT_HELPERS))
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $^ $(LIBS) $(TEST_LIBS)

$(B)/no_seccomp.so: tests/arm64/no_seccomp.c
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -fvisibility=default -shared -fPIC -o $@ $<

.PHONY: plain-programs
plain-programs: $(B)/tracebraid $(B)/no_seccomp.so $(B)/make_big_capture $(B)/plain/stress_ring \
		$(patsubst tests/unit/%.c,$(B)/plain/%,$(wildcard tests/unit/test_*.c))

# html/out.c takes the page from build/, whatever B is.
.PHONY: check-arm64 arm64-drivers
check-arm64: $(B)/html/page
	@tests/packages.sh build arm64 arm64-user
	@tests/kernels/sysroot.sh arm64
	@tests/kernels/fetch.sh $(A64_KERNELS)
	@$(MAKE) -j$(NPROC) agent $(B)/make_big_capture $(B)/live_region arm64-drivers
	@$(A64_MAKE) -j$(NPROC) plain-programs
	@tests/arm64/run.sh $(A64)

arm64-drivers:
	+@$(call build-drivers,$(call krels,$(A64_KERNELS)),$(A64_MODULES))
