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

int main(void)
{
	RUN(many_culprits);
	return VERDICT();
}
