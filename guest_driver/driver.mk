# SPDX-License-Identifier: GPL-2.0-or-later
# The driver, for any kernel.

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

# Modules in a folder of links: (folder, Kbuild file, kernel's folder, more for make). W=1 would start kernel-doc for each
# source and kernel, which `make check-lint` runs once. A print format
# of 6.12's trace headers is longer than sparse's longest string, 7.3's mix a flag's type with integers, and
# 7.3 uses an operator that sparse lacks, and in constants a function that sparse does not evaluate.
SPARSE_FLAGS	:= -D__typeof_unqual__=__typeof__ '-D__builtin_strlen(s)=(sizeof(s)-1)'
define kbuild
	$(Q)guest_driver/stage.sh $(1) $(2)
	$(call say,KBUILD,$@)
	$(Q)+guest_driver/kbuild.sh $(1)/build.log \
		$(MAKE) -C $(3) M=$(abspath $(1)) W=1 cmd_checkdoc= V=$(or $(V),0) CF="$(SPARSE_FLAGS)" $(4) modules \
		|| { cat $(1)/build.log; exit 1; }
	$(Q)! grep -E 'warning:|WARNING|error:' $(1)/build.log | grep -vE '/include/trace/.* (too long token expansion|degrades to integer)'
	@touch $@
endef

# kbuild knows best what is out of date.
$(B)/guest-%/tracebraid.ko: FORCE
	$(call kbuild,$(B)/guest-$*,guest_driver/Kbuild,$(call kdir,$*),$(if $(filter %-uml,$*),ARCH=um) \
		$(if $(filter %-arm64-64k,$*),ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-) BRAID_TEST_MODULES="$(BRAID_TEST_MODULES)")

$(B)/kunit-%/tracebraid_kunit.ko: FORCE
	$(call kbuild,$(B)/kunit-$*,tests/kunit/Kbuild,$(B)/kernels/$*,$(if $(filter uml uml-%,$*),ARCH=um))
