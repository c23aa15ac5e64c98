# SPDX-License-Identifier: GPL-2.0-or-later
# Installs the agent, the library, and the driver if it was built. The packages consist of what it installs.

# Of the library: /usr/lib/x86_64-linux-gnu or /usr/lib64, by the distribution.
LIBDIR		?= $(PREFIX)/lib
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
	for kind in sysusers tmpfiles; do \
		install -D -m 644 packages/tracebraid.$$kind $(DESTDIR)$(PREFIX)/lib/$$kind.d/tracebraid.conf; \
	done
	sed 's|@PREFIX@|$(PREFIX)|' packages/tracebraid.service.in \
		>$(DESTDIR)$(PREFIX)/lib/systemd/system/tracebraid.service
	@[ -e $(DESTDIR)/etc/tracebraid.conf ] || \
		(set -x; install -D -m 644 packages/tracebraid.conf $(DESTDIR)/etc/tracebraid.conf)
	install -D -m 755 $(B)/$(SONAME) $(DESTDIR)$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libtracebraid.so
	install -m 644 $(B)/libtracebraid.a $(DESTDIR)$(LIBDIR)/libtracebraid.a
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig
	sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|; s|@PKGS@|$(READING_PKGS)|' \
		host_agent/library/tracebraid.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/tracebraid.pc
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/include/tracebraid $(PUBLIC_H) include/tracebraid/marker.h
	$(if $(PYTHON_TO),install -d $(DESTDIR)$(PYTHON_TO)/tracebraid && \
		install -m 644 python/tracebraid/*.py $(PUBLIC_H) $(DESTDIR)$(PYTHON_TO)/tracebraid/)
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 $(MAN_PAGES) $(DESTDIR)$(PREFIX)/share/man/man1/
	install -d $(DESTDIR)$(PREFIX)/share/man/man5
	sed 's/^\.Os.*/.Os tracebraid $(VERSION)/' docs/man/tracebraid.conf.5 >$(DESTDIR)$(PREFIX)/share/man/man5/tracebraid.conf.5
	install -D -m 644 $(B)/man/libtracebraid.3 $(DESTDIR)$(PREFIX)/share/man/man3/libtracebraid.3
	@for name in $$(sed -n 's/^\.SS \(tracebraid_.*\)/\1/p' $(B)/man/libtracebraid.3); do \
		echo ".so man3/libtracebraid.3" >$(DESTDIR)$(PREFIX)/share/man/man3/$$name.3; \
	done
	install -D -m 644 -t $(DOC_TO)/docs docs/*.md docs/*.png
	install -D -m 644 -t $(DOC_TO)/docs/examples docs/examples/*
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/tracebraid packages/prometheus/*
	install -m 644 README.md CHANGELOG.md $(DOC_TO)/
	@if [ -e $(B)/guest-$(KREL)/tracebraid.ko ]; then \
		set -x; install -d $(DESTDIR)/lib/modules/$(KREL)/updates; \
		install -m 644 $(B)/guest-$(KREL)/tracebraid*.ko $(DESTDIR)/lib/modules/$(KREL)/updates/; \
		$(if $(DESTDIR),,depmod $(KREL);) \
	fi
	@$(if $(PYTHON_TO),,echo "Not installed: the Python module. Install python3, then run make install again.")
	@$(if $(DESTDIR),,ldconfig; ldconfig -p | grep -q $(LIBDIR)/$(SONAME) || \
		echo "Programs find the library with LD_LIBRARY_PATH=$(LIBDIR)")
	@$(if $(DESTDIR),,printf '%s\n' 'Next, give a guest memory for its trace:' \
		'  tracebraid attach DOMAIN            a libvirt domain' \
		'  tracebraid create /dev/shm/NAME     another QEMU: prints its options' \
		'In the guest, from a clone: make dkms && modprobe tracebraid. Then, here: tracebraid list')

# In a guest whose memory the host only reads.
.PHONY: install-select
install-select: select
	install -D -m 755 $(B)/tracebraid-select $(DESTDIR)$(PREFIX)/bin/tracebraid-select
	install -D -m 644 host_agent/tracebraid-select.bash \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/tracebraid-select
	install -D -m 644 $(B)/man/tracebraid-select.1 $(DESTDIR)$(PREFIX)/share/man/man1/tracebraid-select.1

# Of any version and release of Python. What DKMS has in a guest: dkms remove tracebraid/VERSION --all.
.PHONY: uninstall
uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/tracebraid $(DESTDIR)$(PREFIX)/share/bash-completion/completions/tracebraid \
		$(DESTDIR)$(PREFIX)/lib/systemd/system/tracebraid-memory.service \
		$(DESTDIR)$(PREFIX)/lib/systemd/system/tracebraid.service \
		$(DESTDIR)$(PREFIX)/share/man/man5/tracebraid.conf.5 \
		$(addprefix $(DESTDIR)$(PREFIX)/lib/,$(addsuffix .d/tracebraid.conf,sysusers tmpfiles)) \
		$(DESTDIR)$(LIBDIR)/libtracebraid.* $(DESTDIR)$(LIBDIR)/pkgconfig/tracebraid.pc \
		$(DESTDIR)$(PREFIX)/share/man/man1/tracebraid.1 $(DESTDIR)$(PREFIX)/share/man/man1/tracebraid-*.1 \
		$(addprefix $(DESTDIR)$(PREFIX)/,bin/tracebraid-select share/bash-completion/completions/tracebraid-select) \
		$(DESTDIR)$(PREFIX)/share/man/man3/libtracebraid.3 $(DESTDIR)$(PREFIX)/share/man/man3/tracebraid_*.3
	rm -rf $(DESTDIR)$(PREFIX)/include/tracebraid $(DESTDIR)$(PREFIX)/share/tracebraid $(DOC_TO) \
		$(wildcard $(DESTDIR)$(PREFIX)/lib/python*/*-packages/tracebraid)
	@! cmp -s packages/tracebraid.conf $(DESTDIR)/etc/tracebraid.conf || (set -x; rm $(DESTDIR)/etc/tracebraid.conf)
	@$(if $(DESTDIR),,ldconfig)
	@for module in $(wildcard $(DESTDIR)/lib/modules/*/updates/tracebraid.ko); do \
		(set -x; rm -f "$$module" "$${module%.ko}_virtio.ko"); \
		krel=$${module%/updates/*}; $(if $(DESTDIR),,depmod "$${krel##*/}";) \
	done

# The packages, in build/deb and build/rpm, and the archive that they are built of.
.PHONY: deb rpm dist
deb:
	@tests/packages.sh build packages
	@packages/deb.sh

rpm:
	@tests/packages.sh build rpm
	@packages/rpm.sh

dist:
	@mkdir -p $(B)
	@packages/sources.sh tracebraid-$(VERSION) | gzip -n >$(B)/tracebraid-$(VERSION).tar.gz
	@echo $(B)/tracebraid-$(VERSION).tar.gz

# In a guest: the driver for each kernel that it has, and for each that it will get.
.PHONY: dkms
dkms:
	@$(if $(DESTDIR),mkdir -p $(DESTDIR)/usr/src && guest_driver/dkms.sh $(DESTDIR)/usr/src, \
		guest_driver/dkms_install.sh /usr/src /lib/modules)

# For a kernel that is built with the driver: in its source, LINUX.
.PHONY: kernel-tree
kernel-tree:
	@guest_driver/kernel_tree.sh "$(LINUX)"
