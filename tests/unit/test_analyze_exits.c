// SPDX-License-Identifier: GPL-2.0-or-later
/* Exits by reason, task, system call, function and level are in the right rows, which add up. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __x86_64__
#include <asm/kvm.h>	/* the vectors that svm.h names */
#include <asm/svm.h>
#include <asm/vmx.h>
#endif

#include "host_agent/analyze/analysis.h"
#include "host_agent/analyze/near.h"
#include "host_agent/trace/binaries.h"
#include "host_agent/util/error.h"
#include "tests/unit/analyze_text.h"
#include "tests/unit/check.h"
#include "tests/unit/memory_trace.h"
#include "tests/unit/need.h"
#include "tests/unit/scratch.h"

#define IO	30
#define HLT	12
#define MSR	32
#define KERNEL	0xffffffff81000000ULL
#define CSV(...)	(struct braid_analysis_options){ .form = BRAID_TABLE_CSV, __VA_ARGS__ }
#define TEXT(...)	(struct braid_analysis_options){ .form = BRAID_TABLE_TEXT, __VA_ARGS__ }

/* The output of an analysis that must not fail. */
static char *of(const char *name, struct braid_analysis_options wants)
{
	int err;
	char *text = analyze_with(name, wants, &err);

	NEED(!err);
	return text;
}

/* An exit of 10 ns for each reason, at a time when the guest is at @ip. */
static struct memory_event *leave(s64 ns, u32 reason, u64 ip)
{
	struct memory_event *e = memory_exit(0, ns, 70, reason);

	memory_put(e, 16, ip, 8);
	memory_entry(0, ns + 10, 70);
	return e;
}

static void call(s64 ns, s32 pid, s64 id)
{
	memory_put(memory_add(2, ns, id < 0 ? MEMORY_CALL_END : MEMORY_CALL, pid), 8, id, 8);
}

/* The host runs the vCPU, which executes guest code from 1000 on; its task is 33. */
static void begin(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_entry(0, 1000, 70);
	memory_switch(2, 1000, 0, 0, 33);
}

/*
 * An exit while the last one is handled, as after an entry that failed: only its own time counts.
 */
static void twice(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_entry(0, 2000, 70);
	memory_exit(0, 2600, 70, IO);
	memory_exit(0, 2700, 70, IO);
	memory_entry(0, 2800, 70);
	memory_switch(0, 3000, 70, 1, 0);
	text_has(of("exits", (struct braid_analysis_options){ .top = 3, .form = BRAID_TABLE_JSON }),
		 "\"count\":1,\"total_ns\":100,\"hypervisor_ns\":100,", "\"blocked_ns\":0,", NULL);
}

/* Each exit ends at the next entry, or the end; what happens in between adds up to its time. */
static void add_up(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(2, 1000, 0, 0, 33);
	memory_entry(0, 2000, 70);
	memory_exit(0, 2600, 70, IO);
	memory_user(0, 2650, 70);
	memory_entry(0, 2700, 70);
	memory_exit(0, 2700, 70, IO);		/* at once: it counts, too */
	memory_entry(0, 2710, 70);
	memory_exit(0, 3000, 70, HLT);
	memory_switch(0, 3100, 70, 1, 9);
	memory_wakeup(0, 3600, 70);
	memory_switch(0, 3650, 9, 0, 70);
	memory_entry(0, 3700, 70);
	memory_exit(0, 3900, 70, IO);		/* without a later entry */
	memory_switch(0, 4000, 70, 1, 0);
	text_has(analyze_text("exits", BRAID_TABLE_CSV, false),
	    "guest/vCPU 0,,HLT,1,700,150,0,50,,500,0,", "guest/vCPU 0,,IO_INSTRUCTION,3,210,160,50,0,,0,0,",
	    NULL);
	text_has(analyze_text("exits", BRAID_TABLE_TEXT, true),
	    "# 4 exits, 910 ns in all\n", "task33[33]  guest/vCPU 0  HLT", NULL);
	text_has(analyze_text("summary", BRAID_TABLE_JSON, false), "\"exits\":4,", NULL);
	memory_rings[0].events[8].lost = 1;	/* one that lost events is not an exit of known
						   length */
	text_has(analyze_text("exits", BRAID_TABLE_CSV, false), "IO_INSTRUCTION,3,210,", NULL);
}


/* System calls -------------------------------------------------------------------------------- */

/* A task is in its system call also after it has slept in it; the idle task is in none. */
static void by_call(void)
{
	begin();
	leave(1100, IO, 0);			/* not known yet */
	memory_add(2, 1200, MEMORY_WRITE, 33);
	leave(1300, IO, 0);
	memory_switch(2, 1400, 33, 1, 0);	/* it sleeps in write() */
	leave(1500, IO, 0);
	memory_switch(2, 1600, 0, 0, 34);
	call(1700, 34, 39);
	leave(1800, IO, 0);
	memory_switch(2, 1900, 34, 0, 33);
	leave(2000, IO, 0);
	memory_add(2, 2100, MEMORY_WRITE_END, 33);
	leave(2200, IO, 0);
	memory_switch(2, 2300, 33, 0, 34);
	leave(2400, IO, 0);
	call(2500, 34, -1);
	leave(2600, IO, 0);
	memory_switch(0, 2700, 70, 1, 0);
	text_has(of("exits", CSV(.by_call = true)), "system_call,vcpu,level,reason,count,total_ns,",
		 "\n?,guest/vCPU 0,,IO_INSTRUCTION,1,10,", "\nwrite,guest/vCPU 0,,IO_INSTRUCTION,2,20,",
		 "\n-,guest/vCPU 0,,IO_INSTRUCTION,3,30,", "\n39,guest/vCPU 0,,IO_INSTRUCTION,2,20,",
		 NULL);
	text_has(of("exits", (struct braid_analysis_options){ .form = BRAID_TABLE_JSON,
							      .by_call = true }),
		 "\"count\":8,\"total_ns\":80,\"near_change_ns\":0,", NULL);
	text_has(of("exits", (struct braid_analysis_options){ .form = BRAID_TABLE_JSON }),
		 "\"count\":8,\"total_ns\":80,\"near_change_ns\":null,", NULL);
}

/* A pid that is used again is another task, which has not called yet. */
static void dead_task(void)
{
	begin();
	memory_add(2, 1200, MEMORY_WRITE, 33);
	memory_switch(2, 1300, 33, 0x20, 0);
	memory_switch(2, 1400, 0, 0, 33);
	leave(1500, IO, 0);
	memory_switch(0, 1600, 70, 1, 0);
	text_has(of("exits", CSV(.by_call = true)), "\n?,guest/vCPU 0,,IO_INSTRUCTION,1,10,", NULL);
}

/* After a loss no system call is known, until an event shows one. */
static void lost_calls(u32 lost_at, const char *want)
{
	begin();
	memory_add(2, 1200, MEMORY_WRITE, 33);
	leave(1300, IO, 0);
	memory_wakeup(2, 1400, 5);
	leave(1500, IO, 0);
	memory_wakeup(2, 1600, 5);
	leave(1700, IO, 0);
	memory_add(2, 1800, MEMORY_WRITE, 33);
	leave(1900, IO, 0);
	memory_switch(0, 2000, 70, 1, 0);
	memory_rings[2].events[lost_at].lost = 1;
	text_has(of("exits", CSV(.by_call = true)), want, NULL);
}

/* A task that sleeps over a loss may have returned from its system call, and slept again. */
static void asleep_over_a_loss(u64 lost, const char *want)
{
	begin();
	memory_add(2, 1200, MEMORY_WRITE, 33);
	memory_switch(2, 1300, 33, 1, 0);
	memory_wakeup(2, 1400, 5)->lost = lost;
	memory_switch(2, 1500, 0, 0, 33);
	leave(1600, IO, 0);
	memory_switch(0, 2000, 70, 1, 0);
	text_has(of("exits", CSV(.by_call = true)), want, NULL);
}

static void lost(void)
{
	asleep_over_a_loss(0, "\nwrite,guest/vCPU 0,,IO_INSTRUCTION,1,10,");
	asleep_over_a_loss(1, "\n?,guest/vCPU 0,,IO_INSTRUCTION,1,10,");
	asleep_over_a_loss(BRAID_LOST_SOME, "\n?,guest/vCPU 0,,IO_INSTRUCTION,1,10,");
	lost_calls(1, "\nwrite,guest/vCPU 0,,IO_INSTRUCTION,4,40,");
	lost_calls(2, "\n?,guest/vCPU 0,,IO_INSTRUCTION,3,30,");
	lost_calls(3, "\n?,guest/vCPU 0,,IO_INSTRUCTION,2,20,");
	lost_calls(4, "\n?,guest/vCPU 0,,IO_INSTRUCTION,1,10,");
	lost_calls(3, "\nwrite,guest/vCPU 0,,IO_INSTRUCTION,2,20,");
}

/* An exit within the error bound of a change may be of what was before, or of what came then. */
static void close_to_a_change(void)
{
	begin();
	memory_add(2, 1200, MEMORY_WRITE, 33)->bound = 50;
	leave(1240, IO, 0);			/* 40 after it */
	leave(1300, IO, 0);
	leave(1850, IO, 0);			/* 50 before: not within it */
	leave(1870, IO, 0);			/* 30 before */
	memory_add(2, 1900, MEMORY_WRITE_END, 33)->bound = 50;
	leave(1960, IO, 0);
	memory_switch(0, 2000, 70, 1, 0);
	text_has(of("exits", TEXT(.by_call = true)),
		 "# 20 ns of that may belong to another task or system call: the guest switched within "
		 "the clocks' error bounds of the exit\n", NULL);
	text_has(of("exits", TEXT(.by_task = true)), "# 0 ns of that may belong to another task", NULL);
	text_has(of("exits", TEXT(.by_function = false)), "# 5 exits, 50 ns in all\n\n",
		 NULL);
}

/* More exits than are kept: the oldest count as close if they may be. */
static void many_exits_without_a_change(void)
{
	struct braid_near near = { 0 };
	u32 k;

	braid_near_edge(&near, 0, 10);
	for (k = 0; k < BRAID_NEAR_EXITS + 6; k++)
		braid_near_exit(&near, 1000 + 10 * k, 1, 645);
	CHECK_EQ(near.near_ns, 6);		/* 640 ns: less than the worst bound */
	braid_near_edge(&near, 1000 + 10 * k, 100);
	CHECK_EQ(near.near_ns, 6 + 9);
	for (k = 0; k < 2 * BRAID_NEAR_EXITS; k++)
		braid_near_exit(&near, 9000 + 10 * k, 1, 640);
	CHECK_EQ(near.near_ns, 6 + 9);
}

/* Functions ----------------------------------------------------------------------------------- */

static void by_function(void)
{
	static struct braid_symbol symbols[] = {
		{ .address = KERNEL + 0x105, .name = "outb;\x1b+0x5/0x20" },
	};

	begin();
	memory_guest.symbols = symbols;
	memory_guest.nr_symbols = 1;
	leave(1100, IO, KERNEL + 0x100);
	leave(1200, IO, KERNEL + 0x11f);
	leave(1300, IO, KERNEL + 0x120);
	leave(1400, IO, 0x401000);
	leave(1500, IO, 0x7f0000401000);
	memory_exit(0, 1600, 70, IO);		/* of its own guest: an address there */
	memory_put(&memory_rings[0].events[memory_rings[0].nr - 1], 16, KERNEL + 0x100, 8);
	memory_add(0, 1602, MEMORY_NESTED, 70);
	memory_entry(0, 1610, 70);
	memory_switch(0, 1700, 70, 1, 0);
	text_has(of("exits", CSV(.by_function = true)), "function,vcpu,level,reason,",
		 "\noutb;?,guest/vCPU 0,1,IO_INSTRUCTION,2,20,",
		 "\n0xffffffff81000120,guest/vCPU 0,1,IO_INSTRUCTION,1,10,",
		 "\nuser space,guest/vCPU 0,1,IO_INSTRUCTION,2,20,",
		 "\n-,guest/vCPU 0,2,IO_INSTRUCTION,1,10,", NULL);
	text_has(of("exits", TEXT(.by_function = true, .folded = true)),
		 "guest;vCPU 0;task33[33];outb:?;IO_INSTRUCTION 20\n",
		 "guest;vCPU 0;task33[33];L2;IO_INSTRUCTION 10\n", NULL);
	memory_guest.nr_symbols = 0;
	text_has(of("exits", TEXT(.by_function = true)),
		 "# guest: the capture has no names of its functions, so addresses are shown", NULL);
}

static struct braid_binaries *with_file(const char *name, const char *text)
{
	struct braid_binaries *b = NULL;

	write_file(scratch(name), text, strlen(text));
	NEED(!braid_binaries_open(&b, scratch(".")));
	return b;
}

/* Without driver, functions are those of a copy of the guest's kallsyms: its own, or any guest's. */
static void by_given_symbols(void)
{
	struct braid_binaries *b;
	int err;

	begin();
	memory_guest.kind = BRAID_STREAM_VM;
	leave(1100, IO, KERNEL + 0x100);
	leave(1200, IO, KERNEL + 0x11f);
	leave(1300, IO, 0x401000);
	memory_switch(0, 1700, 70, 1, 0);
	text_has(of("exits", TEXT(.by_function = true)), "0xffffffff81000100", "/proc/kallsyms", NULL);
	b = with_file("kallsyms", "ffffffff81000000 T any\nffffffff81000200 T last\n");
	text_has(of("exits", CSV(.by_function = true, .binaries = b)),
		 "\nany,guest/vCPU 0,,IO_INSTRUCTION,2,20,", "\nuser space,", NULL);
	braid_binaries_free(b);
	b = with_file("guest.kallsyms", "ffffffff81000120 T outb [mod]\nffffffff81000100 T inb\n\nx\n");
	text_has(of("exits", CSV(.by_function = true, .binaries = b)),
		 "\ninb,guest/vCPU 0,,IO_INSTRUCTION,2,20,", NULL);
	NEED(!truncate(scratch("guest.kallsyms"), 65ull << 20));
	free(analyze_with("exits", CSV(.by_function = true, .binaries = b), &err));
	CHECK_EQ(err, -EFBIG);
	CHECK(strstr(braid_failure(), "guest.kallsyms: more than 64 MiB"));
	braid_binaries_free(b);
	memory_guest.kind = BRAID_STREAM_GUEST;
}

/* Levels -------------------------------------------------------------------------------------- */

/* An exit from a guest of the guest is another row; one whose event was lost does not count. */
static void levels(void)
{
	begin();
	leave(1100, MSR, 0);
	memory_exit(0, 1200, 70, MSR);
	memory_add(0, 1205, MEMORY_NESTED, 70);
	memory_entry(0, 1210, 70);
	leave(1300, MSR, 0);
	memory_switch(0, 1400, 70, 1, 0);
	text_has(of("exits", CSV(.by_task = false)), "guest/vCPU 0,1,MSR_WRITE,2,20,",
		 "guest/vCPU 0,2,MSR_WRITE,1,10,", NULL);
	text_has(of("exits", TEXT(.by_task = false)), "VCPU          LEVEL  REASON", NULL);
	memory_rings[0].events[5].lost = 1;	/* kvm_nested_vmexit may be missing */
	text_has(of("exits", CSV(.by_task = false)), "guest/vCPU 0,1,MSR_WRITE,2,20,", NULL);
}

/* Stacks -------------------------------------------------------------------------------------- */

/* The sum of the stacks' weights. */
static u64 weights(char *text)
{
	char *line, *next;
	u64 sum = 0;

	for (line = text; *line; line = next + 1) {
		next = strchr(line, '\n');
		NEED(next);
		*next = 0;
		NEED(strrchr(line, ' '));
		sum += strtoull(strrchr(line, ' ') + 1, NULL, 10);
	}
	free(text);
	return sum;
}

static void folded(void)
{
	begin();
	leave(1100, IO, 0);
	memory_add(2, 1200, MEMORY_WRITE, 33);
	leave(1300, IO, 0);
	leave(1400, HLT, 0);
	memory_exit(0, 1450, 70, HLT);
	memory_entry(0, 1450, 70);		/* of no length: no time, but a count */
	memory_switch(2, 1500, 33, 1, 0);
	memory_exit(0, 1600, 70, HLT);
	memory_switch(0, 1600, 70, 0, 9);
	memory_switch(0, 1700, 9, 0, 8);
	memory_switch(0, 1750, 8, 0, 70);
	memory_entry(0, 1800, 70);
	memory_switch(0, 2000, 70, 1, 0);
	text_has(of("exits", TEXT(.folded = true)), "guest;vCPU 0;task33[33];?;IO_INSTRUCTION 10\n",
		 "guest;vCPU 0;task33[33];write;IO_INSTRUCTION 10\n",
		 "guest;vCPU 0;task33[33];write;HLT 10\n", "guest;vCPU 0;idle;HLT 200\n", NULL);
	CHECK_EQ(weights(of("exits", TEXT(.folded = true))), 230);
	CHECK_EQ(weights(of("exits", TEXT(.folded = true, .by_count = true))), 5);
	text_has(of("exits", (struct braid_analysis_options){ .form = BRAID_TABLE_JSON }),
		 "\"count\":5,\"total_ns\":230,", NULL);
	text_has(of("steal", TEXT(.folded = true)), "guest;vCPU 0;idle;task9[9] 100\n",
		 "guest;vCPU 0;idle;task8[8] 50\n", NULL);
	CHECK_EQ(weights(of("steal", TEXT(.folded = true))), 150);
	text_has(of("steal", (struct braid_analysis_options){ .form = BRAID_TABLE_JSON }),
		 "\"stolen_ns\":150,", NULL);
}

/* What is missing ----------------------------------------------------------------------------- */

static void fails(struct braid_analysis_options wants, const char *why)
{
	int err;
	char *text = analyze_with("exits", wants, &err);

	CHECK(!text && err);
	if (!strstr(braid_failure(), why)) {
		fprintf(stderr, "no '%s' in: %s\n", why, braid_failure());
		CHECK(!"it fails for another reason");
	}
}

static void missing(void)
{
	begin();
	leave(1100, IO, 0);
	memory_switch(0, 2000, 70, 1, 0);
	fails(TEXT(.by_call = true), "no guest has events of system calls; record them with -e raw_syscalls");
	fails(TEXT(.by_function = true), "have no address in the guest");
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_entry(0, 1000, 70);
	memory_add(2, 1050, MEMORY_WRITE, 33);
	leave(1100, IO, 0);
	memory_switch(0, 2000, 70, 1, 0);
	fails(TEXT(.by_call = true), "a guest has no sched_switch events, so its vCPUs' tasks are "
	      "unknown; record with -e sched:sched_switch");
}

/* A host's own file has exits, but no vCPU: that none left guest code is not known. */
static void no_vcpu(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_entry(0, 1000, 70);
	leave(1100, IO, 0);
	memory_source.nr_streams = 1;
	text_has(of("exits", TEXT()), "whose the exits are is not known", NULL);
	memory_source.nr_streams = 2;
}

/* The names are those of the kernel's own headers, as far as this machine's know them. */
static void names(void)
{
#ifdef __x86_64__
	static const struct {
		unsigned int number;
		const char *name;
	} kernel[2][256] = { { VMX_EXIT_REASONS }, { SVM_EXIT_REASONS } };
	char name[BRAID_NAME_TEXT];
	u32 isa, k;

	for (isa = 0; isa < 2; isa++)
		for (k = 0; kernel[isa][k].name; k++) {
			braid_exit_name((u64)(isa + 1) << 32 | kernel[isa][k].number, name);
			CHECK(!strcmp(name, kernel[isa][k].name));
		}
	CHECK(k > 50);
#endif
}

int main(void)
{
	RUN(add_up);
	RUN(twice);
	RUN(by_call);
	RUN(dead_task);
	RUN(lost);
	RUN(close_to_a_change);
	RUN(many_exits_without_a_change);
	RUN(by_function);
	RUN(by_given_symbols);
	RUN(levels);
	RUN(folded);
	RUN(missing);
	RUN(no_vcpu);
	RUN(names);
	return VERDICT();
}
