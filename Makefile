# SPDX-License-Identifier: GPL-2.0-or-later
# tracebraid: builds driver and agent, runs the demo and the tests. `make help` lists all.

B		:= build
PREFIX		?= /usr/local
DESTDIR		?=
# The kernel that the driver is built for; the packaged ones are built for the tests.
KREL		?= $(shell uname -r)
CASE		?=

CC		?= gcc
PKGS		:= libtraceevent libtracefs libxxhash libzstd json-c
CFLAGS		?= -O2 -g
ALL_CFLAGS	= -std=gnu11 -Wall -Wextra -Werror -D_GNU_SOURCE -I. -Iinclude $(CFLAGS) \
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
AGENT_SRCS	:= $(wildcard host_agent/*.c host_agent/*/*.c)
AGENT_OBJS	:= $(addprefix $(B)/obj/,$(SHARED_SRCS:.c=.o) $(AGENT_SRCS:.c=.o))
LIB_OBJS	:= $(filter-out $(B)/obj/host_agent/main.o,$(AGENT_OBJS))
UNIT_TESTS	:= $(patsubst tests/unit/%.c,$(B)/unit/%,$(wildcard tests/unit/test_*.c))
UNIT_HELPERS	:= $(filter-out tests/unit/test_%,$(wildcard tests/unit/*.c))

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

-include $(AGENT_OBJS:.o=.d)

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

# kbuild knows best what is out of date.
$(B)/guest-%/tracebraid.ko: FORCE
	$(Q)guest_driver/stage.sh $(B)/guest-$*
	$(call say,KBUILD,$@)
	$(Q)$(MAKE) -C /lib/modules/$*/build M=$(abspath $(B)/guest-$*) W=1 V=$(or $(V),0) modules \
		> $(B)/guest-$*/build.log 2>&1 || { cat $(B)/guest-$*/build.log; exit 1; }
	$(Q)! grep -E 'warning:|WARNING' $(B)/guest-$*/build.log

.PHONY: clean
clean:
	$(Q)rm -rf $(B)
