// SPDX-License-Identifier: GPL-2.0-or-later
/* Each nanosecond counts once, for what it was. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/util/error.h"
#include "tests/unit/analyze_text.h"
#include "tests/unit/check.h"
#include "tests/unit/memory_trace.h"
#include "tests/unit/need.h"
#include "tests/unit/span_text.h"

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

/* The host and the guest at work, from @ns on for 1000 ns; its task is @pid, and stays. */
static void at_work(s64 ns, s32 pid)
{
	memory_switch(0, ns + 100, 9, 1, 70);
	memory_entry(0, ns + 110, 70);
	memory_switch(2, ns + 200, 0, 0, pid);
	memory_wakeup(2, ns + 300, 44);
	memory_exit(0, ns + 400, 70, 30);
	memory_switch(0, ns + 500, 70, 0, 9);	/* it is stolen up to the end, the exit is open */
}

static void two_windows(void)
{
	memory_begin();
	at_work(1000, 33);
	at_work(900000, 34);
	memory_window(1000, 2000);
	memory_more_window(900000, 901000, true, true);
}

/* What was not recorded is nothing: no state, no stall, no stolen time, no wait. */
static void two_recordings(void)
{
	two_windows();
	span_expect("1000-1100 stolen by <...>[9]\n" "1100-1110 running\n" "1110-1200 guest\n"
		    "1200-1400 guest task 33\n" "1400-1500 hypervisor task 33 exit 30\n"
		    "1500-2000 stolen task 33 exit 30 by task9[9]\n"
		    "900000-900100 stolen by task9[9]\n" "900100-900110 running\n" "900110-900200 guest\n"
		    "900200-900400 guest task 34\n" "900400-900500 hypervisor task 34 exit 30\n"
		    "900500-901000 stolen task 34 exit 30 by task9[9]\n");
}

/* All analyses of them agree on that. */
static void all_analyses(void)
{
	two_windows();
	text_has(analyze_text("states", BRAID_TABLE_CSV, false), "guest/vCPU 0,2000,580,200,", NULL);
	text_has(analyze_text("states", BRAID_TABLE_CSV, true), "guest,task33[33],1800,200,", NULL);
	text_has(analyze_text("states", BRAID_TABLE_JSON, false),
		 "\"proven_ns\":2000,\"within_bound_ns\":0,\"unknown_ns\":0", NULL);
	text_has(analyze_text("summary", BRAID_TABLE_JSON, false), "\"worst_stall_ns\":700,", NULL);
	text_has(analyze_text("stalls", BRAID_TABLE_CSV, false), "\n900300,700,0,guest/vCPU 0,",
		 "\n1300,700,0,guest/vCPU 0,", ",silent until the end of the recording,1,", NULL);
	text_has(analyze_text("steal", BRAID_TABLE_CSV, false),
		 "guest/vCPU 0,task9[9],1200,1000000,4,", NULL);
	CHECK_EQ(total_of("exits"), 1200);
	CHECK_EQ(total_of("wake"), 0);
}

/* A guest's events from between recordings, as a backlog has, count for nothing but its task. */
static void backlog(void)
{
	two_windows();
	memory_rings[2].nr--;
	memory_rings[2].nr--;
	memory_switch(2, 500000, 33, 1, 55);
	memory_wakeup(2, 500100, 66);
	memory_switch(2, 500200, 55, 1, 66);
	NEED(!span_walk());
	CHECK(strstr(span_found(), "1500-2000 stolen task 33 exit 30 by task9[9]\n"
				   "900000-900100 stolen task 66 by task9[9]\n"));
	CHECK_EQ(span_states.vcpus[0].observed_ns, 2000);
	CHECK_EQ(braid_states_task(&span_states, 1, 55)->ns[BRAID_VCPU_STOLEN], 0);
	braid_states_free(&span_states);
	CHECK_EQ(total_of("wake"), 0);
}

/* Three, of which two overlap; of one without events all is unknown. */
static void several_windows(void)
{
	two_windows();
	memory_more_window(1500, 2500, true, true);
	memory_more_window(5000, 5200, true, true);
	NEED(!span_walk());
	CHECK(strstr(span_found(), "1500-2500 stolen task 33 exit 30 by task9[9]\n"
				   "5000-5200 unknown\n900000-900100 stolen by task9[9]\n"));
	CHECK_EQ(span_states.vcpus[0].observed_ns, 2700);
	braid_states_free(&span_states);
}

/* Another guest's recording is nothing for this one; without the host, what was known does not go on. */
static void of_others(void)
{
	memory_begin();
	at_work(1000, 33);
	memory_window(1000, 2000);
	memory_more_window(900000, 901000, false, false);
	NEED(!span_walk());
	CHECK(!strcmp(strstr(span_found(), "1500-"), "1500-2000 stolen task 33 exit 30 by task9[9]\n"));
	CHECK_EQ(span_states.vcpus[0].observed_ns, 1000);
	braid_states_free(&span_states);
	text_has(analyze_text("states", BRAID_TABLE_JSON, false),
		 "\"proven_ns\":1000,\"within_bound_ns\":0,\"unknown_ns\":0", NULL);
	memory_begin();			/* the guest's recording goes on alone */
	at_work(1000, 33);
	memory_more_window(1000, 2000, true, false);
	memory_more_window(1000, 3000, false, true);
	NEED(!span_walk());
	CHECK(strstr(span_found(), "1500-2000 stolen task 33 exit 30 by task9[9]\n"
				   "2000-3000 unknown task 33\n"));
	braid_states_free(&span_states);
}

/* The host was recorded all the time, the guest was not: in between there is nothing of it. */
static void host_covers_both(void)
{
	memory_begin();
	at_work(1000, 33);
	at_work(900000, 34);
	memory_more_window(500, 950000, true, false);
	memory_more_window(1000, 2000, false, true);
	memory_more_window(900000, 901000, false, true);
	NEED(!span_walk());
	CHECK(strstr(span_found(), "1500-2000 stolen task 33 exit 30 by task9[9]\n"
				   "900000-900100 stolen exit 30 by task9[9]\n"
				   "900100-900110 hypervisor exit 30\n"));
	CHECK_EQ(span_states.vcpus[0].observed_ns, 2000);
	CHECK_EQ(braid_states_task(&span_states, 1, 33)->ns[BRAID_VCPU_STOLEN], 500);
	braid_states_free(&span_states);
	text_has(analyze_text("stalls", BRAID_TABLE_CSV, false), "\n1300,700,0,guest/vCPU 0,", NULL);
	CHECK_EQ(total_of("exits"), 600 + 110 + 600);	/* the exit goes on, and counts where observed */
	CHECK_EQ(total_of("wake"), 0);
}

/* Of both recordings, a part; of all, and in two captures that are compared. */
static void limits(void)
{
	const struct braid_analysis_options wants = {
		.form = BRAID_TABLE_JSON, .top = 50, .compares = ~0u, .names = { "now", "other" },
	};
	struct braid_walk_options across = {
		.from = { .kind = BRAID_MOMENT_AT, .ns = 1800 },
		.to = { .kind = BRAID_MOMENT_AT, .ns = 900300 },
	};
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	two_windows();
	memory_guest.nr_cpus = 1;
	braid_source_rewind(&memory_source);
	NEED(to && !braid_analysis_write(to, &memory_source, &across,
					 braid_analysis_by_name("states"), &wants));
	fclose(to);
	text_has(text, "\"observed_ns\":500,\"proven_ns\":500,", NULL);
	/* The same against both recordings: 300 of 500 ns stolen, and 1200 of 2000. */
	to = open_memstream(&text, &bytes);
	NEED(to && !braid_analysis_diff(to, &memory_source, &across, &memory_source,
					&(struct braid_walk_options){ 0 }, &wants));
	fclose(to);
	text_has(text, "\"now\":{", "\"observed_ns\":500,", "\"observed_ns\":2000,",
		 "\"measure\":\"stolen\",\"unit\":\"ppm\",\"other\":600000,\"now\":600000,\"change\":0,", NULL);
	/* Against a part of the second one. */
	to = open_memstream(&text, &bytes);
	NEED(to && !braid_analysis_diff(to, &memory_source, &(struct braid_walk_options){ 0 },
					&memory_source, &(struct braid_walk_options){
		.from = { .kind = BRAID_MOMENT_AT, .ns = 5000 }, .to = { .kind = BRAID_MOMENT_AT, .ns = 900200 },
	}, &wants));
	fclose(to);
	text_has(text, "\"observed_ns\":200,", "\"observed_ns\":2000,",
		 "\"measure\":\"stolen\",\"unit\":\"ppm\",\"other\":500000,\"now\":600000,\"change\":100000,", NULL);
	/* Nothing was recorded there. */
	across.from.ns = 3000;
	across.to.ns = 4000;
	to = open_memstream(&text, &bytes);
	braid_source_rewind(&memory_source);
	NEED(to);
	CHECK_EQ(braid_analysis_write(to, &memory_source, &across,
				      braid_analysis_by_name("states"), &wants), -ENOENT);
	CHECK(strstr(braid_failure(), "no guest was recorded in the selected time"));
	fclose(to);
	free(text);
}

/* A recording that was killed ends with its last sign of life. */
static void killed(void)
{
	two_windows();
	memory_source.windows[0].stop_ns = INT64_MAX;
	memory_source.windows[0].last_ns = 1700;
	NEED(!span_walk());
	CHECK(strstr(span_found(), "1500-1700 stolen task 33 exit 30 by task9[9]\n"
				   "900000-900100 stolen by task9[9]\n"));
	braid_states_free(&span_states);
	two_windows();
	memory_source.windows[1].stop_ns = INT64_MAX;
	NEED(!span_walk());
	CHECK_EQ(span_states.vcpus[0].observed_ns, 1500);
	braid_states_free(&span_states);
}

int main(void)
{
	RUN(many_culprits);
	RUN(slices);
	RUN(two_recordings);
	RUN(all_analyses);
	RUN(backlog);
	RUN(several_windows);
	RUN(of_others);
	RUN(host_covers_both);
	RUN(limits);
	RUN(killed);
	span_free();
	return VERDICT();
}
