// SPDX-License-Identifier: GPL-2.0-or-later
/* Statistics, exact to the nanosecond, of a host that switches tasks and runs its guest. */
#include <stdarg.h>
#include <string.h>

#include "host_agent/export/stats/form.h"
#include "tests/unit/check.h"
#include "tests/unit/memory_trace.h"
#include "tests/unit/need.h"
#include "tests/unit/report_text.h"

static char *stats_of(bool json, const struct braid_walk_options *options)
{
	struct braid_walk_totals totals;
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	memory_guest.nr_cpus = 1;
	braid_source_rewind(&memory_source);
	NEED(to && !(json ? braid_export_stats_json : braid_export_stats)(to, &memory_source,
									  options, &totals));
	fclose(to);
	return text;
}

static char *stats(bool json)
{
	static const struct braid_walk_options all;

	return stats_of(json, &all);
}

/* All of the strings, up to NULL, are in it; frees it. */
static void has(char *text, ...)
{
	const char *what;
	va_list args;

	va_start(args, text);
	while ((what = va_arg(args, const char *)))
		if (!strstr(text, what)) {
			fprintf(stderr, "no '%s' in:\n%s\n", what, text);
			CHECK(!"it is missing");
		}
	va_end(args);
	free(text);
}

/* The thread 70 of the guest's vCPU 0: woken, runs, enters, leaves, is preempted, halts. */
static void life_of_a_vcpu(void)
{
	memory_begin();
	memory_switch(0, 1000, 5, 1, 0);		/* idle from here on; 5 sleeps */
	memory_wakeup(1, 1500, 70);		/* 400; of a vCPU not known, as it may run */
	memory_switch(0, 1900, 0, 0, 70);		/* idle 900 */
	memory_entry(0, 2000, 70);
	memory_exit(0, 2600, 70, 30);		/* in 600 */
	memory_entry(0, 2700, 70);			/* IO: away 100 */
	memory_exit(0, 3000, 70, 12);		/* in 300 */
	memory_switch(0, 3100, 70, 0x100, 9);	/* ran 1200; preempted: waits */
	memory_switch(1, 3600, 0, 0, 70);		/* 500, and continues on the other CPU */
	memory_entry(1, 4000, 70);			/* HLT: away 1000 */
	memory_exit(1, 4100, 70, 30);		/* in 100; does not come back: away 1100 */
	memory_switch(1, 4200, 70, 1, 0);		/* ran 600; sleeps */
	/* 1000, to the end, to which 9 runs on CPU 0: 2100 */
	memory_switch(1, 5200, 0, 0, 9);
	memory_switch(2, 1100, 0, 0, 33);
	memory_switch(2, 1800, 33, 2, 0);
	has(stats(true), "{\"cpu\":0,\"events\":7,\"lost\":0,\"busy_ns\":3300,\"idle_ns\":900,",
	    "{\"cpu\":1,\"events\":6,\"lost\":0,\"busy_ns\":600,\"idle_ns\":1000,",
	    "{\"cpu\":0,\"events\":2,\"lost\":0,\"busy_ns\":700,\"idle_ns\":3400,",
	    "\"pid\":70,\"comm\":\"task70\",\"ran_ns\":1800,\"waited_ns\":900,\"slept_ns\":1000,",
	    "{\"tid\":70,\"vcpu\":0,\"ran_ns\":1800,\"waited_ns\":500,",
	    "\"in_guest_ns\":1000,\"entries\":3,\"exits\":3,\"reasons\":["
	    "{\"reason\":\"IO_INSTRUCTION\",\"count\":2,\"returned\":1,"
	    "\"away_ns\":1200,\"longest_ns\":1100},"
	    "{\"reason\":\"HLT\",\"count\":1,\"returned\":1,\"away_ns\":1000,\"longest_ns\":1000}]",
	    "{\"pid\":33,\"comm\":\"task33\",\"ran_ns\":700,\"waited_ns\":0,",
	    "{\"system\":\"sched\",\"event\":\"sched_switch\",\"count\":6}", NULL);
	has(stats(false), "# 15 events, 0 lost, from 0.000001 to 0.000005 s",
	    "guest             000       70        0.000001        0.000001", "HLT  ", NULL);
}

/* States during a loss, from the event before it, are unknown: that time does not count. */
static void losses(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_entry(0, 1100, 70);
	memory_wakeup(0, 2000, 8);			/* the last before the gap */
	memory_exit(0, 9000, 70, 30);
	memory_rings[0].events[memory_rings[0].nr - 1].lost = 6;
	memory_switch(0, 9100, 70, 1, 8);
	memory_switch(0, 9400, 8, 1, 0);
	has(stats(true), "\"lost\":6,\"busy_ns\":1400,\"idle_ns\":0,",
	    "\"pid\":70,\"comm\":\"task70\",\"ran_ns\":1100,", "\"in_guest_ns\":900,",
	    "\"pid\":8,\"comm\":\"task8\",\"ran_ns\":300,\"waited_ns\":0,", NULL);
	memory_rings[0].events[memory_rings[0].nr - 3].lost = BRAID_LOST_SOME;
	has(stats(true), "\"lost\":0,\"more_lost\":true,\"busy_ns\":1400,", NULL);
}

/* Data missing in the trace is reported as unknown, not as 0. */
static void unknown(void)
{
	char *text;

	memory_begin();
	memory_wakeup(0, 1000, 70);
	memory_switch(2, 1500, 0, 0, 33);
	has(stats(true), "how long tasks ran: it has no sched_switch events",
	    "no kvm_entry and kvm_exit events", "steal: the host has no sched_switch", NULL);
	memory_begin();
	memory_entry(0, 1500, 70);
	memory_exit(0, 1700, 70, 30);
	text = stats(true);
	CHECK(strstr(text, "\"in_guest_ns\":200,") && !strstr(text, "ran_ns"));
	free(text);
	has(stats(false), "0.000000               ?               ?               ?               ?         1\n", NULL);
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_entry(0, 1500, 70);
	memory_switch(2, 1500, 0, 0, 33);
	memory_guest.nr_threads = 0;
	has(stats(true), "steal: vCPU threads unknown",
	    "\"vcpus\":[{\"tid\":70,\"vcpu\":0,\"ran_ns\":500,", NULL);
	has(stats(false), "task70            000       70", NULL);
}

/* A selection is of the events that are counted; times are of all, in the selected time. */
static void selected(void)
{
	char *wakeups[] = { "sched_wakeup" };
	struct braid_walk_options options = { .events = wakeups, .nr_events = 1 };

	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_entry(0, 1500, 70);
	memory_wakeup(1, 1600, 8);
	memory_exit(0, 2000, 70, 12);
	memory_switch(0, 2500, 70, 0, 0);
	has(stats_of(true, &options), "{\"type\":\"stats\",\"events\":1,",
	    "\"pid\":70,\"comm\":\"task70\",\"ran_ns\":1500,", "\"in_guest_ns\":500,", NULL);
	options = (struct braid_walk_options){
		.from = { BRAID_MOMENT_AT, 1600 }, .to = { BRAID_MOMENT_AT, 1800 },
	};
	has(stats_of(true, &options), "{\"type\":\"stats\",\"events\":1,", "\"ran_ns\":200,",
	    "\"in_guest_ns\":200,\"entries\":0,\"exits\":0,", NULL);
	options = (struct braid_walk_options){ .stream = "guest" };
	has(stats_of(true, &options), "\"events\":0,\"lost\":0,", "\"vcpus\":[]", NULL);
	memory_switch(2, 1100, 0, 0, 33);
	has(stats_of(true, &options), "{\"type\":\"stats\",\"events\":1,", "\"in_guest_ns\":500,",
	    NULL);
}

/* Tasks without end, and a format whose fields are not what they should be. */
static void hostile(void)
{
	const struct braid_event_format good = memory_formats[0];
	u32 k;

	memory_begin();
	for (k = 0; k < MEMORY_EVENTS; k++)
		memory_switch(2, k, 0x7fffffff - k, k, -5 - k);
	has(stats(true), "\"pid\":-5,", "\"pid\":2147483647,", NULL);
	memory_formats[0].format = FORMAT_HEAD
		"\tfield:pid_t prev_pid[2];\toffset:8;\tsize:8;\tsigned:1;\n"
		"\tfield:__data_loc char[] prev_state;\toffset:16;\tsize:4;\tsigned:1;\n"
		"\tfield:u8 next_comm;\toffset:24;\tsize:1;\tsigned:0;\n"
		"\tfield:pid_t next_pid;\toffset:40;\tsize:3;\tsigned:1;\n\nprint fmt: \"\"\n";
	memory_formats[0].format_bytes = strlen(memory_formats[0].format);
	has(stats(true), "\"tasks\":[],\"vcpus\":[]", "\"count\":64", NULL);
	memory_formats[0] = good;
	for (k = 0; k < MEMORY_EVENTS; k++)
		memory_rings[2].events[k].payload[0] = k;
	free(stats(false));
}

int main(void)
{
	RUN(life_of_a_vcpu);
	RUN(losses);
	RUN(unknown);
	RUN(selected);
	RUN(hostile);
	return VERDICT();
}
