# SPDX-License-Identifier: GPL-2.0-or-later
# The fuzz targets: one program for each tests/fuzz/fuzz_NAME.c, over the corpus corpus/NAME.

FUZZ_CC		= clang-$(shell tests/packages.sh --clang)
FUZZ_SECONDS	?= 60
FUZZ_RUNS	?= 2000
FUZZ_INPUTS	?= 10000000
FUZZ_LEAST	?= 100000
# libvirt's own macros cast functions, which clang 19 warns of; make_capture.c fills an ABI struct's array;
# and tables name the members that they set, which GCC does not warn of.
FUZZ_SAN	:= -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -Wno-cast-function-type \
		   -Wno-missing-field-initializers -Wno-gnu-variable-sized-type-not-at-end
FUZZ_NAMES	:= $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_PROGRAMS	:= $(addprefix $(B)/fuzz/,$(FUZZ_NAMES))
FUZZ_LIB	:= $(patsubst $(B)/obj/%,$(B)/fuzz/obj/%,$(LIB_OBJS))

# An archive, so that objects that a target does not use are not linked into it.
$(B)/fuzz/obj/%.o: %.c Makefile tests/fuzz/fuzz.mk
	$(Q)mkdir -p $(@D)
	$(Q)$(FUZZ_CC) $(ALL_CFLAGS) $(FUZZ_SAN) -fsanitize=fuzzer-no-link -MMD -MP -c -o $@ $<

$(B)/fuzz/lib.a: $(FUZZ_LIB)
	$(Q)rm -f $@ && ar rc $@ $^

$(B)/fuzz/%: $(B)/fuzz/obj/tests/fuzz/fuzz_%.o $(B)/fuzz/obj/tests/fuzz/ring_model.o \
		$(B)/fuzz/obj/tests/unit/front_end.o $(B)/fuzz/obj/tests/unit/make_capture.o \
		$(B)/fuzz/obj/tests/unit/memory_trace.o \
		$(B)/fuzz/lib.a
	$(call say,LINK,$@)
	$(Q)$(FUZZ_CC) $(FUZZ_SAN) -fsanitize=fuzzer -o $@ $^ $(LIBS)

-include $(FUZZ_LIB:.o=.d) $(wildcard $(B)/fuzz/obj/tests/fuzz/*.d $(B)/obj/tests/*/*.d)

.PHONY: check-fuzz fuzz-programs fuzz-short fuzz-long fuzz-corpus
check-fuzz:
	@tests/packages.sh build fuzz
	@$(MAKE) -j$(NPROC) fuzz-programs
	@tests/fuzz/run.sh -max_total_time=$(FUZZ_SECONDS) $(FUZZ_NAMES)

# The part of `make check`: bounded by runs, the same ones each time.
fuzz-short:
	@tests/packages.sh build fuzz
	@$(MAKE) -j$(NPROC) fuzz-programs
	@tests/fuzz/run.sh -runs=$(FUZZ_RUNS) $(FUZZ_NAMES)

# Before a release: so many inputs over all targets, and so many of each, in rounds of FUZZ_SECONDS,
# from the corpus that earlier runs kept.
fuzz-long:
	@tests/packages.sh build fuzz
	@$(MAKE) -j$(NPROC) fuzz-programs
	@FUZZ_SECONDS=$(FUZZ_SECONDS) nice -n 19 tests/fuzz/run.sh --inputs=$(FUZZ_INPUTS) \
		--least=$(FUZZ_LEAST) $(FUZZ_NAMES)

fuzz-programs: $(FUZZ_PROGRAMS)

# For use after a change of the ABI. The corpora are committed.
fuzz-corpus: $(B)/fuzz/make_corpus
	@$< tests/fuzz/corpus

$(B)/fuzz/make_corpus: $(B)/obj/tests/fuzz/make_corpus.o $(B)/obj/tests/unit/make_capture.o \
		$(B)/obj/tests/unit/make_trace_dat.o $(LIB_OBJS)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $^ $(LIBS) $(TEST_LIBS)
