// SPDX-License-Identifier: GPL-2.0-or-later
/* A guest that is reset: its tasks end with its last sign of life, and it has two names. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/util/error.h"
#include "host_agent/walk/select.h"
#include "tests/unit/analyze_text.h"
#include "tests/unit/check.h"
#include "tests/unit/memory_trace.h"
#include "tests/unit/need.h"
#include "tests/unit/span_text.h"

#define IO	30

/* Its vCPU's thread runs on: in the firmware, and in the next boot without a driver. */
static void make(s64 answers_ns)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_entry(0, 1000, 70);
	memory_switch(2, 1200, 0, 0, 33);
	memory_wakeup(2, 1400, 34);
	memory_wakeup(2, 1500, 5);
	memory_switch(0, 3000, 70, 0, 9);
	memory_switch(0, 4000, 9, 0, 70);
	memory_exit(0, 5000, 70, IO);
	memory_entry(0, 5100, 70);
	memory_exit(0, 6100, 70, IO);
	memory_entry(0, 6200, 70);
	memory_switch(3, 6500, 0, 0, 1);
	memory_wakeup(3, 6900, 5);
	memory_switch(0, 7000, 70, 1, 0);
	memory_reset(answers_ns, 6000);
}

static void tasks_end(void)
{
	make(2000);
	span_expect("1000-1200 guest\n1200-2000 guest task 33\n"
		    "2000-3000 guest task -2\n3000-4000 stolen task -2 by task9[9]\n"
		    "4000-5000 guest task -2\n5000-5100 hypervisor task -2 exit 30\n"
		    "6000-6100 unknown\n6100-6200 unknown\n6200-6500 guest\n6500-7000 guest task 1\n"
		    "5100-6000 guest task -2\n");
	/* An event may be the last sign, too. */
	make(1300);
	NEED(!span_walk());
	CHECK(strstr(span_found(), "1200-1500 guest task 33\n1500-3000 guest task -2\n"));
	/* It was in its guest's queue until then. */
	CHECK_EQ(braid_states_task(&span_states, 1, 34)->queued_ns, 100);
	CHECK_EQ(braid_states_task(&span_states, 1, 34)->end_ns, 1500);
	braid_states_free(&span_states);
	/* A recording that stops shows no end of the guest. */
	memory_guest.end_reason = BRAID_END_STOPPED;
	NEED(!span_walk());
	CHECK(strstr(span_found(), "1200-3000 guest task 33\n"));
	braid_states_free(&span_states);
}

/* It is not observed before the first event, although it had ended by then. */
static void ends_before_all_events(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(0, 2000, 70, 0, 9);
	memory_switch(3, 6500, 0, 0, 1);
	memory_reset(500, 6000);
	span_expect("1000-2000 running task -2\n6000-6500 unknown\n"
		    "2000-6000 stolen task -2 by task9[9]\n");
}

/* Two incarnations have two names, and what the first one did after its end has no task. */
static void names(void)
{
	struct braid_analysis_options wants = { .form = BRAID_TABLE_CSV };
	struct braid_walk_options of = { 0 };
	char *text;
	int err;

	make(2000);
	text_has(analyze_text("states", BRAID_TABLE_JSON, false), "\"vcpu\":\"guest/vCPU 0\"",
		 "\"vcpu\":\"guest (2)/vCPU 0\"", NULL);
	text_has(analyze_text("states", BRAID_TABLE_TEXT, false), "guest/vCPU 0 ",
		 "guest (2)/vCPU 0 ", NULL);
	text_has(analyze_text("states", BRAID_TABLE_CSV, true), "guest,task33[33],800,",
		 "guest (2),task1[1],", NULL);
	text_has(analyze_text("steal", BRAID_TABLE_CSV, true),
		 "not traced (booting),guest/vCPU 0,task9[9],1000,", NULL);
	text_has(analyze_text("exits", BRAID_TABLE_CSV, true), "not traced (booting),", NULL);
	text_has(analyze_text("summary", BRAID_TABLE_JSON, false), "\"guest\":\"guest\"",
		 "\"guest\":\"guest (2)\"", NULL);
	/* Each name selects what it shows. */
	memory_guest.life = 1;
	wants.stream = "guest (2)";
	text = analyze_with("states", wants, &err);
	CHECK(text && !strstr(text, "\nguest/") && strstr(text, "\nguest (2)/vCPU 0,"));
	free(text);
	wants.stream = "guest (1)";
	text = analyze_with("states", wants, &err);
	CHECK(text && strstr(text, "\nguest/vCPU 0,") && !strstr(text, "guest (2)"));
	free(text);
	wants.stream = "guest";
	text = analyze_with("states", wants, &err);
	CHECK(text && strstr(text, "\nguest/vCPU 0,") && strstr(text, "\nguest (2)/vCPU 0,"));
	free(text);
	of.stream = "guest (3)";
	CHECK_EQ(braid_select_check(&of, &memory_source), -ENOENT);
	CHECK(strstr(braid_failure(), "did you mean 'guest (2)'?"));
	/* Not from the last event to the next driver. */
	text = analyze_text("stalls", BRAID_TABLE_TEXT, false);
	CHECK(strstr(text, "guest/vCPU 0 (thread 70) recorded no event for 500 ns from "
			   "0.000001; its task was task33[33]:"));
	CHECK(!strstr(text, "4.500 µs"));
	free(text);
	/* The driver was loaded again: the boot is the same. */
	memory_again.boot_id[0] = 0;
	text = analyze_text("steal", BRAID_TABLE_CSV, true);
	CHECK(strstr(text, "\nnot traced,guest/vCPU 0,task9[9],1000,"));
	free(text);
}

int main(void)
{
	RUN(tasks_end);
	RUN(ends_before_all_events);
	RUN(names);
	span_free();
	return VERDICT();
}
