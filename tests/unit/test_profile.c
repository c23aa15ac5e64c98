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
	text_has(text, ";0xffffffff81000200;[interrupts off] 15750000\n", NULL);
}

int main(void)
{
	RUN(divided);
	RUN(rows);
	RUN(missed);
	return VERDICT();
}
