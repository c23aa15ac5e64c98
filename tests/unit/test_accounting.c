// SPDX-License-Identifier: GPL-2.0-or-later
/* Each nanosecond counts once, for what it was. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/analyze_text.h"
#include "tests/unit/check.h"
#include "tests/unit/memory_trace.h"
#include "tests/unit/need.h"

static void none_is_unknown(const char *name, enum braid_table_form form, bool by_task)
{
	char *text = analyze_text(name, form, by_task);

	CHECK(!strstr(text, "\"unknown\"") && !strstr(text, ",unknown,") &&
	      !strstr(text, ": unknown (") &&
	      !strstr(text, ", unknown ("));
	free(text);
}

/* Of very many culprits of one episode, of which the last takes most, each has what it took. */
static void many_culprits(void)
{
	u32 k;

	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(2, 1000, 0, 0, 33);
	memory_switch(0, 2000, 70, 0, 100);
	for (k = 1; k < 40; k++)
		memory_switch(0, 2000 + 10 * k, 100 + k - 1, 0, 100 + k);
	memory_switch(0, 3390, 139, 0, 70);
	memory_wakeup(2, 4000, 5);
	text_has(analyze_text("steal", BRAID_TABLE_CSV, false),
		 "guest/vCPU 0,task139[139],1000,719424,1,960,960,1000,2000\n",
		 "guest/vCPU 0,task100[100],10,7194,1,", "guest/vCPU 0,task138[138],10,7194,1,", NULL);
	text_has(analyze_text("steal", BRAID_TABLE_TEXT, false), "37 more pairs",
		 "task33[33]  task139[139] (1.000 µs), task1", "(10 ns), 37 more\n", NULL);
	text_has(analyze_text("steal", BRAID_TABLE_JSON, true),
		 "\"culprits\":[{\"culprit\":\"task139[139]\",\"ns\":1000},",
		 ",{\"culprit\":\"others\",\"ns\":250}]", NULL);
	text_has(analyze_text("stalls", BRAID_TABLE_TEXT, false), "; on its CPU: task139[139] (1.000 µs)",
		 ", 37 more\n", NULL);
	for (k = 0; k < 2; k++) {
		none_is_unknown("steal", BRAID_TABLE_CSV, k);
		none_is_unknown("steal", BRAID_TABLE_JSON, k);
		none_is_unknown("steal", BRAID_TABLE_TEXT, k);
	}
	none_is_unknown("stalls", BRAID_TABLE_JSON, false);
	none_is_unknown("stalls", BRAID_TABLE_TEXT, false);
}

static u64 total_of(const char *name)
{
	char *text = analyze_text(name, BRAID_TABLE_JSON, false), *at = strstr(text, ",\"total_ns\":");
	u64 ns;

	NEED(at);
	ns = strtoull(at + 12, NULL, 10);
	free(text);
	return ns;
}

/* What is cut at a limit is the sum of its parts. */
static void slices(void)
{
	static const char *const names[] = { "exits", "wake" };
	u64 whole, parts;
	u32 k, from;

	for (k = 0; k < 2; k++) {
		for (whole = parts = from = 0; from <= 4000; from += from ? 700 : 1000) {
			memory_begin();
			memory_switch(0, 1000, 0, 0, 70);
			memory_entry(0, 1010, 70);
			memory_switch(2, 1020, 0, 0, 33);
			memory_wakeup(2, 1500, 44);
			memory_exit(0, 1600, 70, 30);
			memory_entry(0, 2900, 70);
			memory_switch(2, 3000, 33, 1, 44);
			memory_exit(0, 3100, 70, 30);
			memory_entry(0, 3400, 70);
			memory_exit(0, 4200, 70, 30);	/* without a later entry */
			memory_window(from ? from : 1000, from ? from + 700 : 4500);
			if (from)
				parts += total_of(names[k]);
			else
				whole = total_of(names[k]);
		}
		CHECK_EQ(whole, k ? 1500 : 1300 + 300 + 300);
		CHECK_EQ(parts, whole);
	}
}

int main(void)
{
	RUN(many_culprits);
	RUN(slices);
	return VERDICT();
}
