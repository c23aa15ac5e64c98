# SPDX-License-Identifier: GPL-2.0-or-later
# tracebraid: builds driver and agent, runs the demo and the tests. `make help` lists all.

B		:= build
PREFIX		?= /usr/local
DESTDIR		?=
# The kernel that the driver is built for; the packaged ones are built for the tests.
KREL		?= $(shell uname -r)
NPROC		:= $(shell nproc)

CC		?= gcc
PKGS		:= libtracefs libvirt libvirt-qemu libxml-2.0 libcap-ng libseccomp libxxhash libzstd \
		   libisal libkdumpfile libprotobuf-c sqlite3 inih libmicrohttpd libnats libelf
# Packages are compiled with this too, and it warns of more.
ifeq ($(origin CFLAGS),undefined)
CPPFLAGS	?= -D_FORTIFY_SOURCE=2
endif
# Exports take 3 to 9 % less time than with -O2.
CFLAGS		?= -O3 -g
# Position-independent and hidden: the same objects are the program's and the library's.
ALL_CFLAGS	= -std=gnu11 -Wall -Wextra -Werror -D_GNU_SOURCE -I. -Iinclude -I$(B)/made $(CPPFLAGS) $(CFLAGS) \
		  -fPIC -fvisibility=hidden $(PKG_CFLAGS)
LIBS		= $(PKG_LIBS) -lpthread -lm
# Asked for by the first recipe that compiles, and then known.
once		= $(eval $(1) := $$(shell $(2)))$($(1))
PKG_CFLAGS	= $(call once,PKG_CFLAGS,pkg-config --cflags $(PKGS) 2>/dev/null)
PKG_LIBS	= $(call once,PKG_LIBS,pkg-config --libs $(PKGS) 2>/dev/null)

ifeq ($(V),1)
Q		:=
else
Q		:= @
MAKEFLAGS	+= --no-print-directory
endif
say		= @printf '  %-8s %s\n' '$(1)' '$(2)'

SHARED_SRCS	:= $(wildcard shared/*.c)
PROTO		:= host_agent/export/perfetto/perfetto
AGENT_SRCS	:= $(filter-out host_agent/select/%,$(wildcard host_agent/*.c host_agent/*/*.c host_agent/export/*/*.c)) \
		   $(B)/made/$(PROTO).pb-c.c
AGENT_OBJS	:= $(addprefix $(B)/obj/,$(SHARED_SRCS:.c=.o) $(AGENT_SRCS:.c=.o))
LIB_OBJS	:= $(filter-out $(B)/obj/host_agent/main.o,$(AGENT_OBJS))

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
VERSION		:= $(shell packages/version.sh)
SONAME		:= libtracebraid.so.0
LIBRARY		= $(filter $(B)/obj/host_agent/library/% $(B)/obj/host_agent/sql/%,$(AGENT_OBJS))
READING		:= shared $(addprefix host_agent/,util capture clock_model fields trace format analyze walk export) $(B)/made
# Those of PKGS that it needs.
READING_PKGS	:= libseccomp libxxhash libzstd libisal libprotobuf-c sqlite3 libelf

.PHONY: library
library: $(B)/libtracebraid.so $(B)/libtracebraid.a $(B)/man/libtracebraid.3

# Its page is made of the public headers.
PUBLIC_H	:= include/tracebraid/tracebraid.h include/tracebraid/output.h include/tracebraid/recording.h
$(B)/man/libtracebraid.3: docs/man/library.awk $(PUBLIC_H) shared/version.h
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

$(B)/obj/%.o: %.c Makefile
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
$(foreach tree,obj address/obj thread/obj counted/obj fuzz/obj,$(patsubst %.c,$(B)/$(tree)/%.o,$(wildcard host_agent/clock_model/*.c))): \
	ALL_CFLAGS += -ffp-contract=off

# Perfetto's messages, for protobuf-c.
$(B)/made/%.pb-c.c $(B)/made/%.pb-c.h: %.proto
	$(call say,PROTO,$<)
	$(Q)mkdir -p $(B)/made
	$(Q)protoc --c_out=$(B)/made $<

$(foreach tree,obj address/obj thread/obj counted/obj fuzz/obj,$(patsubst %.c,$(B)/$(tree)/%.o,$(wildcard $(dir $(PROTO))*.c))): \
	| $(B)/made/$(PROTO).pb-c.h

# The guest's program: of the agent what selects events, and no library but the C library. What those files have
# beyond that, the linker leaves out.
SELECT_SRCS	:= $(wildcard host_agent/select/*.c host_agent/control/*.c host_agent/fields/*.c) \
		   $(addprefix host_agent/,capture/writer.c cli/common.c cli/options.c cli/record_selection.c \
			clock_sync/host.c record/options.c \
			$(addprefix live/region_,accounts.c control.c filters.c reshape.c sampling.c stream.c triggers.c) \
			$(addprefix transport/,directory.c endpoint.c guard.c identity.c mapping.c) \
			$(addprefix util/,array.c error.c option.c text.c)) \
		   $(addprefix shared/,asked.c clock.c filter.c probe.c region.c schema.c)
SELECT_OBJS	:= $(addprefix $(B)/select/,$(SELECT_SRCS:.c=.o))

$(B)/select/%.o: %.c Makefile
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -Os -ffunction-sections -fdata-sections -MMD -MP -c -o $@ $<

$(B)/tracebraid-select: $(SELECT_OBJS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -Wl,--gc-sections -o $@ $^

$(B)/man/tracebraid-select.1: docs/man/guest/tracebraid-select.1.in docs/man/generate.awk $(B)/tracebraid-select
	$(Q)mkdir -p $(@D)
	$(Q)awk -v agent=$(B)/tracebraid-select -f docs/man/generate.awk $< >$@.part && mv $@.part $@

.PHONY: select
select: $(B)/tracebraid-select $(B)/man/tracebraid-select.1

-include $(AGENT_OBJS:.o=.d) $(SELECT_OBJS:.o=.d)

include guest_driver/driver.mk
include tests/tests.mk
include tests/bench/bench.mk
include tests/fuzz/fuzz.mk
include tests/arm64/arm64.mk
include host_agent/install.mk

# Demo ----------------------------------------------------------------------------------------

.PHONY: demo demo-run
demo:
	@tests/packages.sh build driver guests
	@$(MAKE) -j$(NPROC) demo-run

demo-run: agent
	@$(MAKE) $(call test-drivers,$(call packaged,$(OLDEST)))
	@tests/e2e/demo.py

.PHONY: clean
clean:
	$(Q)rm -rf $(B)

.PHONY: help
help:
	@cat docs/make.txt
