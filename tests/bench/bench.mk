# SPDX-License-Identifier: GPL-2.0-or-later
# Benches, and the captures and regions that they and the tests make.

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

bench-run: agent library $(B)/make_big_capture \
		$(addprefix $(B)/bench_,ring lttng count sample clock many memory live walk flush)
	@$(MAKE) BRAID_TEST_MODULES="$(TEST_MODULES)" \
		$(call test-drivers,$(call krels,$(filter-out %-rt,$(PACKAGED))))
	@tests/bench/run.sh $(BENCH)

$(addprefix $(B)/bench_,clock many memory live): $(B)/bench_%: $(B)/obj/tests/bench/bench_%.o \
		$(addprefix $(B)/obj/tests/,bench/recorder.o unit/fake_guest.o unit/own_memory.o) $(LIB_OBJS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $^ $(LIBS)

# A capture to measure with: build/make_big_capture OUT [EVENTS [WORD...]]
$(B)/make_big_capture: $(addprefix $(B)/obj/tests/,bench/make_big_capture.o bench/big_formats.o bench/big_streams.o \
		unit/make_capture.o) $(LIB_OBJS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $^ $(LIBS)

# A live guest without a guest: build/live_region FILE NAME
$(B)/live_region: $(LIVE_REGION_OBJS)
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
