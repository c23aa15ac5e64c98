// SPDX-License-Identifier: GPL-2.0-or-later
/* vCPUs that the CPU quota of their cgroup holds back are throttled, not stolen. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/vcpu.h"
#include "tests/unit/analyze_text.h"
#include "tests/unit/check.h"
#include "tests/unit/memory_trace.h"
#include "tests/unit/need.h"
#include "tests/unit/span_text.h"

#define SYSTEM	BRAID_QUOTA_SYSTEM "77"
#define QUEUE	0xffff888001ULL
#define OUTER	40u
#define INNER	41u

enum { THROTTLE = MEMORY_FORMATS + 1, THROTTLED, UNTHROTTLE, HELD_BACK, NR_FORMATS = HELD_BACK };

#define QUEUE_FIELD	FORMAT_FIELD("u64 queue", 8, 8, 0)

static struct braid_cgroup cgroups[] = {
	{ .tid = 60, .id = 9, .path = "/other" },
	{ .tid = 70, .id = OUTER, .path = "/machine" },
	{ .tid = 70, .id = INNER, .path = "/machine/guest" },
};

static void take_cgroups(struct braid_cgroup *rows, size_t nr)
{
	memory_guest.cgroups = rows;
	memory_guest.nr_cgroups = nr;
	braid_vcpu_sort_cgroups(&memory_guest);
}

/* The host has the moments of quotas; of threads, too, as newer kernels. */
static void take_moments(bool of_threads)
{
	static struct braid_event_format formats[NR_FORMATS] = {
		[THROTTLE - 1] = { .id = THROTTLE, .system = SYSTEM, .name = "throttle",
			.format = FORMAT_HEAD QUEUE_FIELD FORMAT_FIELD("u64 cgroup", 16, 8, 0)
				  FORMAT_FIELD("s32 cpu", 24, 4, 1) FORMAT_END },
		[THROTTLED - 1] = { .id = THROTTLED, .system = SYSTEM, .name = "throttled",
			.format = FORMAT_HEAD FORMAT_FIELD("u8 ret", 8, 1, 0) FORMAT_END },
		[UNTHROTTLE - 1] = { .id = UNTHROTTLE, .system = SYSTEM, .name = "unthrottle" },
		[HELD_BACK - 1] = { .id = HELD_BACK, .system = SYSTEM, .name = "held_back",
			.format = FORMAT_HEAD FORMAT_END },
	};
	u32 k;

	memcpy(formats, memory_formats, sizeof(memory_formats));
	formats[UNTHROTTLE - 1].format = of_threads ?
		FORMAT_HEAD QUEUE_FIELD FORMAT_FIELD("u8 throttled", 16, 1, 0) FORMAT_END :
		FORMAT_HEAD QUEUE_FIELD FORMAT_END;
	for (k = 0; k < NR_FORMATS; k++)
		formats[k].format_bytes = strlen(formats[k].format);
	memory_host.formats = formats;
	memory_host.nr_formats = of_threads ? NR_FORMATS : NR_FORMATS - 1;
}

/* On @ring's CPU, throttle_cfs_rq() of a run queue of @cpu. */
static void throttle(u32 ring, s64 ns, u64 queue, u32 cgroup, u32 cpu, bool succeeds)
{
	struct memory_event *e = memory_add(ring, ns, THROTTLE, memory_current(ring));

	memory_put(e, 8, queue, 8);
	memory_put(e, 16, cgroup, 8);
	memory_put(e, 24, cpu, 4);
	memory_put(memory_add(ring, ns, THROTTLED, memory_current(ring)), 8, succeeds, 1);
}

static void unthrottle(u32 ring, s64 ns, u64 queue)
{
	memory_put(memory_add(ring, ns, UNTHROTTLE, memory_current(ring)), 8, queue, 8);
}

/* A vCPU is preempted, its neighbour runs, then nobody; then it runs. */
static void waits(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(0, 2000, 70, 0, 9);
	memory_switch(0, 2500, 9, 1, 0);
	memory_switch(0, 3000, 0, 0, 70);
	memory_switch(0, 4000, 70, 1, 0);
}

/* Only cpu.stat: where its CPU was idle, within an interval; of any of its cgroups. */
static void intervals(void)
{
	struct braid_throttled rows[] = {
		{ .id = 9, .from_ns = 0, .to_ns = 9000, .ns = 9000 },	/* of another thread's */
		{ .id = OUTER, .from_ns = 2700, .to_ns = 2900, .ns = 100 },
		{ .id = OUTER, .from_ns = 2100, .to_ns = 2700, .ns = 100 },
	};

	waits();
	take_cgroups(cgroups, 3);
	span_expect("1000-2000 running\n2000-2500 stolen by task9[9]\n"
		    "2500-3000 stolen by nothing (idle CPU)\n3000-4000 running\n");
	memory_guest.throttled = rows;
	memory_guest.nr_throttled = 3;
	braid_vcpu_sort_cgroups(&memory_guest);
	span_expect("1000-2000 running\n2000-2500 stolen by task9[9]\n"
		    "2500-2900 throttled by /machine\n2900-3000 stolen by nothing (idle CPU)\n"
		    "3000-4000 running\n");
	NEED(!span_walk());
	CHECK_EQ(span_states.vcpus[0].ns[BRAID_VCPU_THROTTLED], 400);
	CHECK_EQ(span_states.vcpus[0].bound_sum_ns, 400);
	CHECK_EQ(braid_states_sum(span_states.vcpus[0].ns), 3000);
	braid_states_free(&span_states);
	text_has(analyze_text("states", BRAID_TABLE_TEXT, false),
		 "= 0.000002600 proven (86.67 %) + 0.000000400 within",
		 "# no moments of CPU quotas: throttled is where", NULL);
}

/* The kernel's moments: what else runs on its CPU changes nothing. */
static void moments(void)
{
	memory_begin();
	take_cgroups(cgroups, 3);
	take_moments(false);
	memory_switch(0, 1000, 0, 0, 70);
	throttle(0, 1900, QUEUE, INNER, 0, false);
	throttle(0, 1950, QUEUE, INNER, 0, true);
	throttle(0, 1960, QUEUE + 1, 9, 0, true);	/* of no vCPU's cgroup */
	throttle(1, 1970, QUEUE + 2, OUTER, 1, true);	/* on another CPU */
	memory_switch(0, 2000, 70, 0, 9);
	unthrottle(1, 2200, QUEUE + 2);
	unthrottle(1, 2400, QUEUE);
	memory_switch(0, 2500, 9, 1, 0);
	memory_switch(0, 3000, 0, 0, 70);
	memory_switch(0, 4000, 70, 1, 0);
	span_expect("1000-2000 running\n2000-2400 throttled by /machine/guest\n"
		    "2400-2500 stolen by task9[9]\n2500-3000 stolen by nothing (idle CPU)\n"
		    "3000-4000 running\n");
	NEED(!span_walk());
	CHECK_EQ(span_states.vcpus[0].bound_sum_ns, 0);
	braid_states_free(&span_states);
	/* Events are missing after it: what was throttled is not known. */
	memory_rings[1].events[memory_rings[1].nr - 2].lost = 1;
	NEED(!span_walk());
	CHECK(!span_states.hosts->nr_throttled);
	braid_states_free(&span_states);
}

/* "unthrottle" is missing: a thread that runs is not held back, nor are the others on its CPU. */
static void runs_nevertheless(void)
{
	memory_begin();
	take_cgroups(cgroups, 3);
	take_moments(false);
	memory_switch(0, 1000, 0, 0, 70);
	throttle(0, 1900, QUEUE, INNER, 0, true);
	throttle(0, 1950, QUEUE + 1, OUTER, 0, true);
	memory_switch(0, 2000, 70, 0, 9);
	memory_switch(0, 3000, 9, 0, 70);
	memory_switch(0, 3500, 70, 0, 9);
	memory_switch(0, 4000, 9, 0, 70);
	memory_switch(0, 4500, 70, 1, 0);
	span_expect("1000-2000 running\n2000-3000 throttled by /machine\n3000-3500 running\n"
		    "3500-4000 stolen by task9[9]\n4000-4500 running\n");
}

/* A thread that wakes in a throttled cgroup has no moment of its own, ... */
static void wakes_in_it(void)
{
	memory_begin();
	take_cgroups(cgroups, 3);
	take_moments(false);
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(0, 1500, 70, 1, 0);
	throttle(0, 1600, QUEUE, OUTER, 0, true);
	memory_wakeup_on(1, 2000, 70, 0);
	unthrottle(1, 2600, QUEUE);
	memory_switch(0, 2700, 0, 0, 70);
	memory_switch(0, 3000, 70, 1, 0);
	span_expect("1000-1500 running\n1500-2000 sleeping\n2000-2600 throttled by /machine\n"
		    "2600-2700 stolen by nothing (idle CPU)\n2700-3000 running\n");
}

/* ... but on kernels that throttle threads each has one. */
static void threads(void)
{
	memory_begin();
	take_cgroups(cgroups, 3);
	take_moments(true);
	memory_switch(0, 1000, 0, 0, 70);
	throttle(0, 1100, QUEUE, OUTER, 0, true);
	memory_switch(0, 1500, 70, 0, 8);	/* preempted in the kernel: it may run */
	memory_switch(0, 1600, 8, 0, 70);
	memory_add(0, 1700, HELD_BACK, 70);
	memory_switch(0, 1800, 70, 0, 8);
	unthrottle(1, 2300, QUEUE);
	memory_switch(0, 2500, 8, 0, 70);
	memory_switch(0, 3000, 70, 1, 0);
	span_expect("1000-1500 running\n1500-1600 stolen by task8[8]\n1600-1800 running\n"
		    "1800-2300 throttled by /machine\n2300-2500 stolen by task8[8]\n"
		    "2500-3000 running\n");
}

/* Thread 70 has "held_back" on CPU 0, then another thread takes the CPU. */
static void held_back(s64 ns)
{
	memory_add(0, ns, HELD_BACK, 70);
	memory_switch(0, ns + 100, 70, 0, 8);
}

/* "held_back" counts while a quota holds the thread back, and not the next time that one does. */
static void threads_again(void)
{
	memory_begin();
	take_cgroups(cgroups, 3);
	take_moments(true);
	memory_switch(0, 1000, 0, 0, 70);
	held_back(1100);			/* too late: it is not throttled any more */
	throttle(0, 1300, QUEUE, OUTER, 0, true);
	memory_switch(0, 1500, 8, 0, 70);
	held_back(1600);
	unthrottle(1, 1800, QUEUE);
	throttle(0, 1900, QUEUE, OUTER, 0, true);
	memory_switch(0, 2000, 8, 0, 70);
	memory_add(0, 2100, HELD_BACK, 70);
	unthrottle(0, 2150, QUEUE);		/* before it leaves the CPU */
	memory_switch(0, 2200, 70, 0, 8);
	throttle(0, 2300, QUEUE, OUTER, 0, true);
	memory_switch(0, 2500, 8, 0, 70);
	memory_switch(0, 3000, 70, 1, 0);
	span_expect("1000-1200 running\n1200-1500 stolen by task8[8]\n1500-1700 running\n"
		    "1700-1800 throttled by /machine\n1800-2000 stolen by task8[8]\n"
		    "2000-2200 running\n2200-2500 stolen by task8[8]\n2500-3000 running\n");
}

/* An interrupt, or a neighbour, between "held_back" and the kernel's check; the thread goes on. */
static void threads_in_between(void)
{
	memory_begin();
	take_cgroups(cgroups, 3);
	take_moments(true);
	memory_switch(0, 1000, 0, 0, 70);
	memory_entry(0, 1010, 70);
	memory_exit(0, 1020, 70, 12);
	memory_add(0, 1100, HELD_BACK, 70);
	throttle(0, 1150, QUEUE, OUTER, 0, true);
	memory_switch(0, 1200, 70, 0, 8);
	memory_switch(0, 1300, 8, 0, 70);
	memory_switch(0, 1310, 70, 0, 8);
	unthrottle(1, 1500, QUEUE);
	memory_switch(0, 1600, 8, 0, 70);
	memory_add(0, 1700, HELD_BACK, 70);
	memory_entry(0, 1800, 70);
	memory_exit(0, 1900, 70, 1);
	throttle(0, 1950, QUEUE, OUTER, 0, true);
	memory_switch(0, 2000, 70, 0, 8);
	memory_switch(0, 2100, 8, 0, 70);
	memory_switch(0, 2200, 70, 1, 0);
	NEED(!span_walk());
	CHECK_EQ(span_states.vcpus[0].ns[BRAID_VCPU_THROTTLED], 290);
	CHECK_EQ(span_states.vcpus[0].ns[BRAID_VCPU_STOLEN], 200);
	braid_states_free(&span_states);
}

/* The kernel was to unthrottle a run queue, and did not; two quotas; another CPU. */
static void threads_still(void)
{
	memory_begin();
	take_cgroups(cgroups, 3);
	take_moments(true);
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(1, 1000, 9, 1, 0);
	throttle(0, 1050, QUEUE, OUTER, 0, true);
	held_back(1100);
	unthrottle(0, 1300, QUEUE);
	memory_put(&memory_rings[0].events[memory_rings[0].nr - 1], 16, 1, 1);
	throttle(0, 1400, QUEUE + 1, INNER, 0, true);
	unthrottle(0, 1500, QUEUE);
	unthrottle(0, 1600, QUEUE + 1);
	memory_switch(0, 1700, 8, 0, 70);
	throttle(0, 1750, QUEUE, OUTER, 0, true);
	held_back(1800);
	memory_migrate(0, 2000, 70, 1);
	throttle(1, 2100, QUEUE + 2, OUTER, 1, true);
	memory_switch(1, 2200, 0, 0, 70);
	memory_switch(1, 3000, 70, 1, 0);
	span_expect("1000-1200 running\n1200-1500 throttled by /machine\n"
		    "1500-1600 throttled by /machine/guest\n1600-1700 stolen by task8[8]\n"
		    "1700-1900 running\n1900-2000 throttled by /machine\n"
		    "2000-2200 stolen by nothing (idle CPU)\n2200-3000 running\n");
}

/* A thread's cgroups at a time are those of its last rows; the first ones hold before, too. */
static void cgroups_of_a_time(void)
{
	struct braid_cgroup rows[] = {
		{ .tid = 70, .id = 3, .from_ns = 900 }, { .tid = 70, .id = 1, .from_ns = 500 },
		{ .tid = 70, .id = 2, .from_ns = 500 }, { .tid = 70, .id = 0, .from_ns = 1200 },
	};
	const struct braid_cgroup *first;
	size_t nr;

	memory_begin();
	CHECK(!braid_vcpu_cgroups(&memory_guest, 70, 5, &nr) && !nr);
	take_cgroups(rows, 4);
	first = braid_vcpu_cgroups(&memory_guest, 70, -5, &nr);
	CHECK(nr == 2 && first[0].id == 1 && first[1].id == 2);
	first = braid_vcpu_cgroups(&memory_guest, 70, 899, &nr);
	CHECK(nr == 2 && first[0].id == 1);
	first = braid_vcpu_cgroups(&memory_guest, 70, 900, &nr);
	CHECK(nr == 1 && first->id == 3);
	first = braid_vcpu_cgroups(&memory_guest, 70, 1200, &nr);
	CHECK(nr == 1 && !first->id);
	CHECK(!braid_vcpu_cgroups(&memory_guest, 69, 900, &nr) && !nr);
	CHECK(!braid_vcpu_cgroups(&memory_guest, 71, 900, &nr) && !nr);
}

/* Each analysis has it; where the trace has no quotas, it is not known. */
static void analyses(void)
{
	moments();
	memory_rings[1].events[memory_rings[1].nr - 2].lost = 0;
	memory_switch(2, 1000, 0, 0, 33);
	memory_wakeup_on(2, 1800, 44, 0);
	memory_switch(2, 3500, 33, 0, 44);
	text_has(analyze_text("states", BRAID_TABLE_JSON, false), "\"stolen_ns\":600,\"throttled_ns\":400,",
		 NULL);
	text_has(analyze_text("steal", BRAID_TABLE_JSON, false), "\"stolen_ns\":600,\"episodes\":1,", NULL);
	text_has(analyze_text("summary", BRAID_TABLE_JSON, false), "\"throttled_ppm\":133333,", NULL);
	text_has(analyze_text("summary", BRAID_TABLE_TEXT, false),
		 "guest's vCPUs were throttled for 400 ns (all vCPUs together), by the CPU quota of "
		 "/machine/guest (400 ns). tracebraid analyze states --stream guest FILE\n", NULL);
	text_has(analyze_text("stalls", BRAID_TABLE_TEXT, false),
		 "400 ns throttled by the CPU quota of its cgroup\n", NULL);
	text_has(analyze_text("wake", BRAID_TABLE_JSON, false), "\"stolen_ns\":600,\"throttled_ns\":400,",
		 NULL);
	take_cgroups(NULL, 0);
	text_has(analyze_text("wake", BRAID_TABLE_JSON, false), "\"throttled_ns\":null,", NULL);
	text_has(analyze_text("states", BRAID_TABLE_JSON, false),
		 "\"stolen_ns\":1000,\"throttled_ns\":null,", NULL);
	text_has(analyze_text("summary", BRAID_TABLE_JSON, false), "\"throttled_ppm\":null,", NULL);
}

/* Of a host that is a virtual machine itself: what was taken from it, if that is known. */
static void steal_of_the_host(void)
{
	waits();
	text_has(analyze_text("summary", BRAID_TABLE_JSON, false), "\"host_steal_ns\":null,", NULL);
	memory_host.steal_first = (struct braid_host_steal){ .host_ns = 900, .steal_ns = 50 };
	memory_host.steal_last = (struct braid_host_steal){ .host_ns = 5000, .steal_ns = 1250 };
	text_has(analyze_text("summary", BRAID_TABLE_JSON, false), "\"host_steal_ns\":1200,", NULL);
	text_has(analyze_text("summary", BRAID_TABLE_TEXT, false),
		 "# the host is a virtual machine: by its /proc/stat, its own host took 1.200 µs", NULL);
	memory_host.steal_last.steal_ns = 50;
	text_has(analyze_text("summary", BRAID_TABLE_JSON, false), "\"host_steal_ns\":0,", NULL);
}

int main(void)
{
	RUN(intervals);
	RUN(moments);
	RUN(runs_nevertheless);
	RUN(wakes_in_it);
	RUN(threads);
	RUN(threads_again);
	RUN(threads_in_between);
	RUN(threads_still);
	RUN(cgroups_of_a_time);
	RUN(analyses);
	RUN(steal_of_the_host);
	span_free();
	return VERDICT();
}
