// SPDX-License-Identifier: GPL-2.0-or-later
/* A profile: samples divide what vCPUs executed, and all parts add up to their time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/analyze_text.h"
#include "tests/unit/check.h"
#include "tests/unit/memory_trace.h"
#include "tests/unit/need.h"

#define KERNEL	0xffffffff81000000ULL
#define SLEEPS	1	/* of prev_state */

/* Of the vCPU's task; user code has no frames. */
static struct memory_event *sample(s64 ns, u64 ip, u32 missed, bool user, u64 caller)
{
	struct memory_event *e = memory_add(2, ns, MEMORY_SAMPLE, memory_current(2));

	memory_put(e, 8, ip, 8);
	memory_put(e, 16, missed, 4);
	memory_put(e, 20, user, 4);
	memory_put(e, 24, (caller ? 8u : 0) << 16 | 32, 4);
	memory_put(e, 32, caller, 8);
	return e;
}

static char *folded(bool by_count)
{
	const struct braid_analysis_options wants = { .folded = true, .by_count = by_count };
	int err;
	char *text = analyze_with("profile", wants, &err);

	NEED(!err);
	return text;
}

/* The weights of all lines. */
static u64 sum_of(const char *text)
{
	const char *line, *end;
	u64 sum = 0;

	for (line = text; *line; line = end + 1) {
		end = strchr(line, '\n');
		NEED(end);
		while (end > line && end[-1] != ' ')
			end--;
		sum += strtoull(end, NULL, 10);
		end = strchr(end, '\n');
	}
	return sum;
}

/* 4 ms of task 33 with three samples, 1 ms stolen, 3 ms of task 34 without one. */
static void usual(void)
{
	memory_begin();
	memory_window(1000000, 9000000);
	memory_switch(0, 1000000, 0, 0, 70);
	memory_switch(2, 1000000, 0, 0, 33);
	sample(2000000, KERNEL + 0x100, 0, false, KERNEL + 0x801);
	sample(3000000, KERNEL + 0x100, 0, false, KERNEL + 0x801);
	sample(4000000, 0x400000, 0, true, 0);
	memory_switch(0, 5000000, 70, 0, 9);
	memory_switch(0, 6000000, 9, SLEEPS, 70);
	memory_switch(2, 6000000, 33, SLEEPS, 34);
	memory_switch(0, 9000000, 70, SLEEPS, 0);
}

static void divided(void)
{
	char *text;

	usual();
	text = folded(false);
	CHECK_EQ(sum_of(text), 8000000);
	text_has(text, "guest;vCPU 0;task33[33];0xffffffff81000800;0xffffffff81000100 2666666\n",
		 "guest;vCPU 0;task33[33];user space 1333334\n",
		 "guest;vCPU 0;task33[33];[stolen];the host's threads 1000000\n",
		 "guest;vCPU 0;task34[34];[no sample] 3000000\n", NULL);
	text = folded(true);
	CHECK(!strstr(text, "no sample"));
	text_has(text, ";0xffffffff81000100 2\n", ";user space 1\n", NULL);
}

static void rows(void)
{
	usual();
	text_has(analyze_text("profile", BRAID_TABLE_CSV, false),
		 "guest,[no sample],3000000,375000\n", "guest,0xffffffff81000100,2666666,333333\n",
		 "guest,user space,1333334,166666\n",
		 "guest,[stolen] the host's threads,1000000,125000\n", NULL);
	text_has(analyze_text("profile", BRAID_TABLE_JSON, false),
		 "\"samples\":3,\"periods_off\":0,\"samples_of_others\":0", NULL);
}

/* Periods missed with interrupts off count, those while the vCPU is not executed do not. */
static void missed(void)
{
	char *text;

	memory_begin();
	memory_window(1000000, 31000000);
	memory_switch(0, 1000000, 0, 0, 70);
	memory_switch(2, 1000000, 0, 0, 33);
	sample(2000000, KERNEL + 0x100, 0, false, 0);
	sample(12000000, KERNEL + 0x200, 9, false, 0);
	memory_switch(0, 13000000, 70, 0, 9);
	memory_switch(0, 22000000, 9, SLEEPS, 70);
	sample(22000001, KERNEL + 0x300, 9, false, 0);
	memory_switch(0, 31000000, 70, SLEEPS, 0);
	text = folded(true);
	CHECK(!strstr(text, "300;[interrupts off]"));
	text_has(text, ";0xffffffff81000100 1\n", ";0xffffffff81000200 1\n",
		 ";0xffffffff81000200;[interrupts off] 9\n", ";0xffffffff81000300 1\n", NULL);
	text = folded(false);
	CHECK_EQ(sum_of(text), 30000000);
	text_has(text, ";0xffffffff81000200;[interrupts off] 15749999\n", NULL);
}

/* Of task 33: two frames of address space 5; 0: none. */
static void user_sample(s64 ns, u64 ip, u64 caller, u32 ends)
{
	struct memory_event *e = memory_add(2, ns, MEMORY_USER_SAMPLE, memory_current(2));

	memory_put(e, 8, ip, 8);
	memory_put(e, 20, 1, 2);
	memory_put(e, 22, ends, 2);
	memory_put(e, 28, (caller ? 16u : 8u) << 16 | 48, 4);
	memory_put(e, 32, 5, 8);
	memory_put(e, 48, ip, 8);
	memory_put(e, 56, caller, 8);
}

static void mapping(s64 ns, u64 start, u64 end, const char *path)
{
	struct memory_event *e = memory_add(2, ns, MEMORY_MAPPING, 7);

	memory_put(e, 8, 5, 8);
	memory_put(e, 16, start, 8);
	memory_put(e, 24, end, 8);
	memory_put(e, 32, 0x1000, 8);
	memory_put(e, 44, (u32)(strlen(path) + 1) << 16 | 72, 4);
	strcpy((char *)e->payload + 72, path);
}

/* Before its mapping is recorded, after that, and with a caller where no code is. */
static void user_code(void)
{
	char *text;

	memory_begin();
	memory_window(1000000, 9000000);
	memory_switch(0, 1000000, 0, 0, 70);
	memory_switch(2, 1000000, 0, 0, 33);
	user_sample(2000000, 0x400010, 0x400101, BRAID_STACK_WHOLE);
	mapping(2500000, 0x400000, 0x500000, "/bin/a");
	user_sample(3000000, 0x400010, 0x400101, BRAID_STACK_WHOLE);
	user_sample(4000000, 0x400010, 0x700000, BRAID_STACK_WHOLE);
	user_sample(5000000, 0x400010, 0, BRAID_STACK_BROKEN);
	user_sample(6000000, 0x700000, 0x400101, BRAID_STACK_WHOLE);
	memory_switch(0, 9000000, 70, SLEEPS, 0);
	text = folded(true);
	CHECK_EQ(sum_of(text), 5);
	text_has(text, "task33[33];[/bin/a+0x1100];[/bin/a+0x1010] 2\n",
		 "task33[33];[ends here];[/bin/a+0x1010] 2\n", "task33[33];user space 1\n", NULL);
	text = folded(false);
	CHECK_EQ(sum_of(text), 8000000);
	free(text);
	text_has(analyze_text("profile", BRAID_TABLE_CSV, false),
		 "guest,[/bin/a+0x1010],", "guest,user space,", NULL);
}

/* Of a space that has more mappings than are looked at, what is not named is counted. */
static void many_mappings(void)
{
	u32 k;

	memory_begin();
	memory_window(1000000, 9000000);
	memory_switch(0, 1000000, 0, 0, 70);
	memory_switch(2, 1000000, 0, 0, 33);
	for (k = 0; k < 600; k++)
		mapping(1000001 + k, 0x400000 + k * 0x1000, 0x401000 + k * 0x1000, "/bin/a");
	user_sample(2000000, 0x400010, 0, BRAID_STACK_WHOLE);
	user_sample(3000000, 0x500010, 0, BRAID_STACK_WHOLE);
	memory_switch(0, 9000000, 70, SLEEPS, 0);
	text_has(analyze_text("profile", BRAID_TABLE_JSON, false), "\"what\":\"[/bin/a+0x1010]\"",
		 "\"what\":\"user space\"", "\"samples_of_others\":0,\"mappings_of_others\":0,"
		 "\"addresses_of_others\":2", NULL);
	text_has(analyze_text("profile", BRAID_TABLE_TEXT, false),
		 "# user code is incomplete: 0 mappings are not used, and 2 times", NULL);
}

/* A symbol that begins below the kernel: its start would be taken for user code. */
static void low_symbol(void)
{
	static struct braid_symbol symbol = { .address = 1ULL << 63, .name = "low+0x10/0x40" };

	memory_begin();
	memory_guest.symbols = &symbol;
	memory_guest.nr_symbols = 1;
	memory_window(1000000, 9000000);
	memory_switch(0, 1000000, 0, 0, 70);
	memory_switch(2, 1000000, 0, 0, 33);
	sample(2000000, (1ULL << 63) + 8, 0, false, 0);
	memory_switch(0, 9000000, 70, SLEEPS, 0);
	text_has(folded(true), "task33[33];low 1\n", NULL);
}

/* The host's stack at a tick: what the interrupt interrupted. */
static void host_stack(s64 ns, u64 caller)
{
	struct memory_event *e = memory_add(0, ns, MEMORY_STACK, 70);

	memory_put(e, 16, KERNEL + 0x501, 8);
	memory_put(e, 24, KERNEL + 0x601, 8);
	memory_put(e, 32, caller, 8);
	memory_put(e, 40, ~0ULL, 8);
}

/* 2 ms in the guest, 4 ms in the hypervisor with two samples, then 2 ms in the VMM with one. */
static void host_stacks(void)
{
	static char kallsyms[] = "ffffffff81000500 t tick\nffffffff81000600 t asm_sysvec_timer\n"
				 "ffffffff81000700 t exits\nffffffff81000800 t waits\n";
	char *text;

	memory_begin();
	memory_host.kallsyms = kallsyms;
	memory_host.kallsyms_bytes = strlen(kallsyms);
	memory_window(1000000, 9000000);
	memory_switch(0, 1000000, 0, 0, 70);
	memory_switch(2, 1000000, 0, 0, 33);
	memory_entry(0, 1000000, 70);
	memory_exit(0, 3000000, 70, 30);
	host_stack(4000000, KERNEL + 0x701);
	host_stack(5000000, KERNEL + 0x801);
	memory_user(0, 7000000, 70);
	host_stack(8000000, 0);
	memory_switch(0, 9000000, 70, SLEEPS, 0);
	text = folded(false);
	CHECK_EQ(sum_of(text), 8000000);
	text_has(text, "[hypervisor];IO_INSTRUCTION;exits 2000000\n", "[hypervisor];IO_INSTRUCTION;waits 2000000\n",
		 "[VMM];IRQ;user space 2000000\n", NULL);
	memory_host.kallsyms = NULL;
}

static void speedscope(void)
{
	const struct braid_text lines = { .data = "a;b \"c\" 3\na;d 4\n", .bytes = 16 };
	struct braid_text out = { 0 };

	CHECK_EQ(braid_speedscope_write(&lines, "profile", false, &out), 0);
	braid_text_putc(&out, 0);
	text_has(out.data, "\"frames\":[{\"name\":\"a\"},{\"name\":\"b \\\"c\\\"\"},{\"name\":\"d\"}]",
		 "\"endValue\":7", "\"samples\":[[0,1],[0,2]],\"weights\":[3,4]", NULL);
}

int main(void)
{
	RUN(divided);
	RUN(user_code);
	RUN(many_mappings);
	RUN(low_symbol);
	RUN(host_stacks);
	RUN(speedscope);
	RUN(rows);
	RUN(missed);
	return VERDICT();
}
