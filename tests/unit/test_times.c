// SPDX-License-Identifier: GPL-2.0-or-later
/* The law of tasks: each nanosecond of a guest's task is in exactly one state. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/util/error.h"
#include "host_agent/walk/analysis.h"
#include "tests/unit/check.h"
#include "tests/unit/memory_trace.h"
#include "tests/unit/need.h"

#define HLT		12
#define SLEEPS	1	/* sleeps */
#define DEAD		0x20
#define PREEMPTED	0x100

static char *run(bool by_task, s64 from_ns, s64 to_ns)
{
	const struct braid_walk_options options = {
		.from = { .kind = from_ns ? BRAID_MOMENT_AT : BRAID_MOMENT_NONE, .ns = from_ns },
		.to = { .kind = to_ns ? BRAID_MOMENT_AT : BRAID_MOMENT_NONE, .ns = to_ns },
	};
	const struct braid_analysis_options wants = {
		.top = 10, .form = BRAID_TABLE_CSV, .by_task = by_task,
	};
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	memory_guest.nr_cpus = 1;
	braid_source_rewind(&memory_source);
	NEED(to && !braid_analysis_write(to, &memory_source, &options,
					 braid_analysis_by_name("states"), &wants));
	fclose(to);
	return text;
}

static void expect(bool by_task, s64 from_ns, s64 to_ns, const char *rows)
{
	char *text = run(by_task, from_ns, to_ns), *body = strchr(text, '\n') + 1;

	if (strcmp(body, rows)) {
		fprintf(stderr, "wanted:\n%sfound:\n%s", rows, body);
		CHECK(!"the rows are others");
	}
	free(text);
}

/* The thread is current, is preempted by 9, and halts; in the guest, 33 and 44 share the vCPU. */
static void make_life(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(2, 1000, 0, 0, 33);
	memory_entry(0, 1100, 70);
	memory_wakeup(2, 1500, 44);
	memory_switch(2, 1800, 33, PREEMPTED, 44);
	memory_exit(0, 2000, 70, HLT);
	memory_switch(0, 2100, 70, PREEMPTED, 9);
	memory_switch(0, 2900, 9, 1, 70);
	memory_entry(0, 3000, 70);
	memory_switch(2, 3200, 44, DEAD, 33);
	memory_switch(2, 3700, 33, SLEEPS, 0);
	memory_exit(0, 3800, 70, HLT);
	memory_switch(0, 3900, 70, SLEEPS, 0);
	memory_switch(0, 5000, 0, 0, 9);
}

static void vcpus(void)
{
	make_life();
	/*
	 * observed, guest, hypervisor, VMM, running, stolen, halted, blocked, sleeping, stopped,
	 * offline, unknown
	 */
	expect(false, 0, 0, "guest/vCPU 0,4000,1700,300,,100,800,,1100,0,0,0,0,0\n");
	expect(false, 2500, 0, "guest/vCPU 0,2500,800,200,,0,400,,1100,0,0,0,0,0\n");
	expect(false, 0, 2500, "guest/vCPU 0,1500,900,100,,100,400,,0,0,0,0,0,0\n");
	expect(false, 0, 9000, "guest/vCPU 0,4000,1700,300,,100,800,,1100,0,0,0,0,0\n");
}

static void tasks(void)
{
	make_life();
	/* observed, in guest, exited, running, stolen, held, queued, blocked, unknown */
	expect(true, 0, 0, "guest,task44[44],1700,400,200,0,800,,0,300,0,0\n"
			"guest,task33[33],4000,1200,0,100,0,,0,1400,1300,0\n");
	expect(true, 2500, 0, "guest,task44[44],700,200,100,0,400,,0,0,0,0\n"
			   "guest,task33[33],2500,500,0,0,0,,0,700,1300,0\n");
}

/*
 * Without a window, nothing says when the trace ends: a time before that is refused, not ignored.
 */
static void no_end(void)
{
	const struct braid_walk_options options = {
		.from = { .kind = BRAID_MOMENT_BEFORE, .ns = 1000 },
	};
	const struct braid_analysis_options wants = { .top = 10 };
	FILE *to = fopen("/dev/null", "w");

	make_life();
	memory_guest.nr_cpus = 1;
	braid_source_rewind(&memory_source);
	NEED(to);
	CHECK_EQ(braid_analysis_write(to, &memory_source, &options,
				      braid_analysis_by_name("states"), &wants), -ENODATA);
	CHECK(strstr(braid_failure(), "end time unknown"));
	fclose(to);
}

static void fails(bool by_task, s64 from_ns, s64 to_ns, int err, const char *why)
{
	const struct braid_walk_options options = {
		.from = { .kind = from_ns ? BRAID_MOMENT_AT : BRAID_MOMENT_NONE, .ns = from_ns },
		.to = { .kind = to_ns ? BRAID_MOMENT_AT : BRAID_MOMENT_NONE, .ns = to_ns },
	};
	const struct braid_analysis_options wants = { .top = 10, .by_task = by_task };
	FILE *to = fopen("/dev/null", "w");

	memory_guest.nr_cpus = 1;
	braid_source_rewind(&memory_source);
	NEED(to);
	CHECK_EQ(braid_analysis_write(to, &memory_source, &options,
				      braid_analysis_by_name("states"), &wants), err);
	CHECK(strstr(braid_failure(), why));
	fclose(to);
}

static void another_time(void)
{
	make_life();
	fails(false, 8000000, 9000000, -ENOENT,
	      "the recording, from 0.000001 to 0.000005 s, is not within the selected time");
	memory_window(3000, 7000000);
	fails(false, 8000000, 9000000, -ENOENT,
	      "the recording, from 0.000003 to 0.007000 s, is not within the selected time");
}

/* Without switches in the guest, its first task would count as the current one until the end. */
static void no_switches(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_wakeup(2, 2000, 5);
	memory_switch(0, 5000, 70, 1, 0);
	fails(true, 0, 0, -ENODATA, "a guest has no sched_switch events");
	expect(false, 0, 0, "guest/vCPU 0,4000,,,,4000,0,,,,0,0,0,0\n");
}

/* After a loss in the guest, it is unknown what its tasks did, until an event shows it. */
static void losses(void)
{
	struct memory_event *e;

	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(2, 1000, 0, 0, 33);
	memory_switch(2, 2000, 33, SLEEPS, 44);
	memory_wakeup(2, 2500, 33);
	e = memory_switch(2, 3000, 44, SLEEPS, 33);
	e->lost = 3;
	memory_switch(2, 4000, 33, SLEEPS, 0);
	memory_switch(0, 5000, 70, 1, 0);
	expect(true, 0, 0, "guest,task33[33],4000,,,2000,0,,0,0,1500,500\n"
			"guest,task44[44],3000,,,500,0,,0,0,2000,500\n");
}

/* A pid is used again by another task. */
static void reused(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(2, 1000, 0, 0, 33);
	memory_switch(2, 2000, 33, DEAD, 0);
	memory_wakeup(2, 3000, 33);
	memory_switch(2, 3500, 0, 0, 33);
	memory_switch(0, 5000, 70, 1, 0);
	expect(true, 0, 0, "guest,task33[33],4000,,,2500,0,,0,500,0,1000\n");
}

/* Of random events of one vCPU, all rows add up. */
static void sums(void)
{
	u64 random = 5;
	u32 turn, k;

	for (turn = 0; turn < 300; turn++) {
		s64 ns = 1000, host_ns = 1000;
		char *text, *line;

		memory_begin();
		memory_switch(0, 1000, 0, 0, 70);
		for (k = 0; k < 40; k++) {
			random = random * 6364136223846793005ULL + 1442695040888963407ULL;
			ns += random >> 40 & 255;
			host_ns += random >> 48 & 255;
			if (random >> 33 & 3)
				memory_switch(2, ns, random >> 35 & 3,
					      random >> 20 & 1 ? 1 : PREEMPTED, random >> 37 & 3)
					->lost = !(random >> 56 & 31);
			else
				memory_wakeup(2, ns, random >> 35 & 3);
			memory_switch(0, host_ns, k % 2 ? 9 : 70, PREEMPTED, k % 2 ? 70 : 9);
		}
		text = run(true, 0, 0);
		for (line = strchr(text, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
			unsigned long long observed, running, stolen, held, queued, blocked, unknown;

			NEED(sscanf(line, "guest,%*[^,],%llu,,,%llu,%llu,,%llu,%llu,%llu,%llu\n", &observed,
				    &running, &stolen, &held, &queued, &blocked, &unknown) == 7);
			CHECK_EQ(observed, running + stolen + held + queued + blocked + unknown);
			CHECK(observed <= (u64)(ns > host_ns ? ns : host_ns) - 1000);
		}
		free(text);
	}
}

int main(void)
{
	RUN(vcpus);
	RUN(tasks);
	RUN(no_end);
	RUN(another_time);
	RUN(no_switches);
	RUN(losses);
	RUN(reused);
	RUN(sums);
	return VERDICT();
}
