// SPDX-License-Identifier: GPL-2.0-or-later
/* What analyses say of why: the causes of stalls, and guests as culprits. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/util/error.h"
#include "tests/unit/analyze_text.h"
#include "tests/unit/check.h"
#include "tests/unit/memory_trace.h"

/* Of guests, what belongs to one counts as one: also where it is the victim. */
static void guests(void)
{
	struct braid_analysis_options wants = { .form = BRAID_TABLE_TEXT, .by_guest = true };
	struct braid_vcpu_thread of_vmm[] = { { BRAID_VCPU_NONE, 8, 0 },
					      { BRAID_VCPU_NONE, 9, 0 } };
	int err;

	memory_stolen();
	text_has(analyze_with("steal", wants, &err),
	    "guest   the host's threads  1.200 µs  100.00 %      2  288 ns  896 ns  900 ns  0.000003\n",
	    "guest/vCPU 0  task33[33]  the host's threads (900 ns)\n", NULL);
	text_has(analyze_with("steal", (struct braid_analysis_options){ .form = BRAID_TABLE_JSON }, &err),
	    "\"longest\":[{\"at_ns\":3000,\"duration_ns\":900,", "},{\"at_ns\":2000,\"duration_ns\":300,", NULL);
	memory_guest.others = of_vmm;
	memory_guest.nr_others = 2;
	text_has(analyze_with("steal", wants, &err), "guest   guest    1.200 µs  100.00 %      2", NULL);
	memory_host.others = of_vmm;
	memory_host.nr_others = 1;
	memory_guest.nr_others = 0;
	text_has(analyze_with("steal", wants, &err), "own recorder took 500 ns (41.67 %)\n",
	    "guest   recorder            500 ns", "guest   the host's threads  700 ns", NULL);
}

/* The cause is named: by the summary, too. */
static void causes(void)
{
	struct braid_clock_epoch epochs[2] = {
		{ .from_ns = INT64_MIN, .begun_ns = INT64_MIN },
		{ .cause = BRAID_EPOCH_PAUSED, .from_ns = 20000000, .begun_ns = 2032000000 },
	};
	struct braid_clock_track track = { .epochs = epochs, .nr_epochs = 2 };
	struct braid_vcpu_thread of_vmm[] = { { BRAID_VCPU_NONE, 8, 0 } };

	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(1, 1000, 0, 0, 8);
	memory_switch(2, 1000, 0, 0, 33);
	memory_switch(0, 2000, 70, 1, 0);
	memory_wakeup_on(1, 20000000, 70, 0);
	memory_switch(0, 20001000, 0, 0, 70);
	memory_wakeup(2, 20002000, 5);
	memory_switch(0, 20003000, 70, 1, 0);
	memory_guest.others = of_vmm;
	memory_guest.nr_others = 1;
	text_has(analyze_text("stalls", BRAID_TABLE_TEXT, false),
		 "  cause: its thread slept for 20.00 ms, until guest/task8[8] woke it\n", NULL);
	text_has(analyze_text("stalls", BRAID_TABLE_JSON, false), "\"stall_ns\":20001000,",
		 "\"cause\":\"its thread slept for 20.00 ms, until guest/task8[8] woke it\"", "\"until_end\":0,", NULL);
	text_has(analyze_text("summary", BRAID_TABLE_TEXT, false), "guest/vCPU 0 had work and recorded no event for "
		 "20.00 ms: its thread slept for 20.00 ms, until guest/task8[8] woke it. ", NULL);
	/* Stopped by its monitor: as its clock shows. */
	memory_switch(1, 2100000000, 8, 1, 0);
	memory_wakeup(2, 2040000000, 5);
	memory_guest.clock.tracks = &track;
	memory_guest.clock.nr_tracks = 1;
	text_has(analyze_text("stalls", BRAID_TABLE_TEXT, false), "  cause: the guest was paused for 2.012 s\n", NULL);
	text_has(analyze_text("summary", BRAID_TABLE_TEXT, false), ": the guest was paused for 2.012 s. ", NULL);
	memory_guest.clock.nr_tracks = 0;
	memory_guest.clock.tracks = NULL;
	/* A hang. */
	memory_switch(1, 9000000000, 0, 0, 8);
	text_has(analyze_text("stalls", BRAID_TABLE_TEXT, false), "recorded no event for 6.960 s from 2.040000;",
		 "  cause: silent until the end\n", NULL);
	text_has(analyze_text("summary", BRAID_TABLE_TEXT, false), "had work and recorded no event for 6.960 s: "
		 "silent until the end. ", NULL);
}

/* What is not known is not an answer, and what would not help is not advised. */
static void unknown(void)
{
	struct memory_event *e;
	char *text;
	int err;

	/* The thread waits on a CPU whose events were lost. */
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(2, 1000, 0, 0, 33);
	memory_switch(0, 2000, 70, 0, 9);
	memory_migrate(0, 2100, 70, 1);
	e = memory_switch(1, 9000, 9, 0, 70);
	e->lost = 5;
	memory_wakeup(2, 9500, 5);
	memory_switch(1, 9600, 70, 1, 0);
	text = analyze_text("summary", BRAID_TABLE_TEXT, false);
	CHECK(strstr(text, ": 1 % of that time because of task9[9]; for 99 % the trace does not show what ran instead. "));
	free(text);
	/* A guest that recorded nothing. */
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(0, 5000, 70, 1, 0);
	text = analyze_text("summary", BRAID_TABLE_TEXT, false);
	CHECK(strstr(text, "# a guest recorded no event, so its vCPUs' tasks are unknown\n"));
	CHECK(!strstr(text, "-e sched"));
	free(text);
	CHECK(!analyze_with("states", (struct braid_analysis_options){ .by_task = true }, &err));
	CHECK(!strstr(braid_failure(), "-e sched"));
	/* It was recorded, and there was none; or only the other kind was. */
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_wakeup(2, 1100, 33);
	text_has(analyze_text("wake", BRAID_TABLE_TEXT, false), "record with -e sched:sched_switch.", NULL);
	memory_switch(2, 1200, 0, 0, 5);
	text = analyze_text("wake", BRAID_TABLE_TEXT, false);
	CHECK(strstr(text, "No guest has a wakeup of a task that then ran.\n"));
	CHECK(!strstr(text, "-e sched"));
	free(text);
}

#define OFF_NS	5000000000	/* how long the vCPU is offline */

/* The guest takes its vCPU off, and on again. @told: it records that. */
static void make_offline(bool told)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(2, 1000, 0, 0, 20);
	memory_entry(0, 1100, 70);
	if (told)
		memory_online(2, 2000, 0, false);
	memory_exit(0, 2900, 70, 12);
	memory_switch(0, 3000, 70, 1, 9);
	memory_wakeup_on(0, 3000 + OFF_NS, 70, 0);
	memory_switch(0, 3100 + OFF_NS, 9, 0, 70);
	memory_entry(0, 3200 + OFF_NS, 70);
	if (told)
		memory_online(2, 4000 + OFF_NS, 0, true);
	memory_wakeup(2, 5000 + OFF_NS, 5);
	memory_switch(0, 6000 + OFF_NS, 70, 1, 0);
}

/* A vCPU that is offline has no work: it does not stall, and its thread's wake-up is not one. */
static void offline(void)
{
	make_offline(false);
	text_has(analyze_text("states", BRAID_TABLE_JSON, false), "\"halted_ns\":5000000000,",
		 "\"offline_ns\":0,\"unknown_ns\":0", NULL);
	make_offline(true);
	text_has(analyze_text("states", BRAID_TABLE_JSON, false), "\"halted_ns\":0,",
		 "\"offline_ns\":5000000000,\"unknown_ns\":0", NULL);
	text_has(analyze_text("summary", BRAID_TABLE_JSON, false), "\"asleep_ppm\":0,\"offline_ppm\":9999",
		 "\"worst_stall_ns\":2000,", NULL);
	text_has(analyze_text("stalls", BRAID_TABLE_TEXT, false),
		 "not counted: for 5.000 s more the guest had nothing to run, or the vCPU was offline\n", NULL);
	text_has(analyze_text("exits", BRAID_TABLE_JSON, false), "\"halted_ns\":5000000000,", NULL);
	text_has(analyze_text("wake", BRAID_TABLE_TEXT, false), "guest  vCPU woken to on CPU       0 ", NULL);
}

/* Without events of KVM it slept while its task was not the idle one: that was the worst stall. */
static void offline_without_kvm(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(2, 1000, 0, 0, 20);
	memory_online(2, 2000, 0, false);
	memory_switch(0, 3000, 70, 1, 9);
	memory_switch(0, 3000 + OFF_NS, 9, 0, 70);
	memory_online(2, 4000 + OFF_NS, 0, true);
	memory_switch(0, 6000 + OFF_NS, 70, 1, 0);
	text_has(analyze_text("states", BRAID_TABLE_JSON, false), "\"sleeping_ns\":0,",
		 "\"offline_ns\":5000000000,\"unknown_ns\":0", NULL);
	text_has(analyze_text("summary", BRAID_TABLE_JSON, false), "\"worst_stall_ns\":2000,", NULL);
}

/* It was offline before, as another vCPU states; its thread has no event. Lost events end that. */
static void offline_before(void)
{
	struct memory_event *e;

	memory_begin();
	memory_window(1000, 9000);
	memory_online(2, 900, 0, false);
	memory_switch(0, 1100, 9, 0, 8);
	memory_switch(0, 8000, 8, 0, 9);
	text_has(analyze_text("states", BRAID_TABLE_JSON, false),
		 "\"offline_ns\":8000,\"unknown_ns\":0", NULL);
	memory_begin();
	memory_window(1000, 9000);
	memory_online(2, 1000, 0, false);
	memory_switch(0, 1100, 9, 0, 8);
	memory_wakeup_on(0, 2900, 70, 0);
	memory_switch(0, 3000, 8, 0, 70);
	memory_switch(0, 4000, 70, 1, 8);
	e = memory_wakeup(2, 5000, 5);
	e->lost = 3;
	memory_switch(0, 8000, 8, 0, 9);
	text_has(analyze_text("states", BRAID_TABLE_JSON, false), "\"sleeping_ns\":5000,",
		 "\"offline_ns\":2000,\"unknown_ns\":0", NULL);
}

int main(void)
{
	RUN(offline);
	RUN(offline_without_kvm);
	RUN(offline_before);
	RUN(unknown);
	RUN(guests);
	RUN(causes);
	return VERDICT();
}
