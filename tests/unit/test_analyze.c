// SPDX-License-Identifier: GPL-2.0-or-later
/* The states of vCPUs, to the nanosecond, and what the analyses make of them. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/sums.h"
#include "host_agent/util/error.h"
#include "host_agent/walk/analysis.h"
#include "host_agent/walk/walk.h"
#include "tests/unit/analyze_text.h"
#include "tests/unit/check.h"
#include "tests/unit/memory_trace.h"
#include "tests/unit/need.h"
#include "tests/unit/span_text.h"

#define IO	30
#define HLT	12

/* States -------------------------------------------------------------------------------------- */

static void life_of_a_vcpu(void)
{
	memory_begin();
	memory_switch(0, 1000, 70, 1, 0);
	memory_wakeup_on(1, 1500, 70, 0);
	memory_switch(0, 1900, 0, 0, 70);
	memory_entry(0, 2000, 70);
	memory_exit(0, 2600, 70, IO);
	memory_user(0, 2650, 70);
	memory_entry(0, 2700, 70);
	memory_exit(0, 3000, 70, HLT);
	memory_switch(0, 3100, 70, 0x100, 9);	/* preempted */
	memory_switch(0, 3300, 9, 1, 0);
	memory_switch(0, 3600, 0, 0, 70);
	memory_switch(0, 3700, 70, 1, 0);	/* now it halts */
	memory_wakeup(0, 4000, 70);
	memory_switch(0, 4100, 0, 0, 70);
	memory_entry(0, 4200, 70);
	memory_exit(0, 4300, 70, IO);
	memory_user(0, 4310, 70);
	memory_switch(0, 4400, 70, 1, 0);	/* the VMM waits */
	memory_switch(0, 5000, 0, 0, 9);
	span_expect("1000-1500 sleeping\n"
	       "1500-1900 stolen by nothing (idle CPU)\n"
	       "1900-2000 running\n"
	       "2000-2600 guest\n"
	       "2600-2650 hypervisor exit 30\n"
	       "2650-2700 VMM\n"
	       "2700-3000 guest\n"
	       "3000-3100 hypervisor exit 12\n"
	       "3100-3300 stolen exit 12 by task9[9]\n"
	       "3300-3600 stolen exit 12 by nothing (idle CPU)\n"
	       "3600-3700 hypervisor exit 12\n"
	       "3700-4000 halted exit 12\n"
	       "4000-4100 stolen exit 12 by nothing (idle CPU)\n"
	       "4100-4200 hypervisor exit 12\n"
	       "4200-4300 guest\n"
	       "4300-4310 hypervisor exit 30\n"
	       "4310-4400 VMM\n"
	       "4400-5000 blocked\n");
}

/* Who runs where it waits: the CPU on which it was woken, or to which it was moved. */
static void waits_where_it_is(void)
{
	memory_begin();
	memory_switch(0, 1000, 70, 1, 8);
	memory_switch(1, 1000, 0, 0, 9);
	memory_wakeup_on(0, 1100, 70, 1);
	memory_migrate(0, 1300, 70, 0);
	memory_switch(0, 1400, 8, 0, 7);
	memory_switch(0, 1500, 7, 0, 70);
	span_expect("1000-1100 sleeping\n1100-1300 stolen by task9[9]\n1300-1400 stolen by task8[8]\n"
	       "1400-1500 stolen by task7[7]\n");
	memory_switch(0, 1600, 70, 0, 8);
	memory_switch(1, 1700, 9, 0, 70);	/* it was moved, and no event says so */
	memory_switch(1, 1800, 70, 1, 0);
	NEED(!span_walk());
	CHECK_EQ(span_states.hosts->moved_unseen, 1);
	braid_states_free(&span_states);
}

/* A handler of the host's takes a vCPU's time, as much as another thread does. */
static void interrupts(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_irq(0, 1100, true, 11);
	memory_irq(0, 1200, false, 11);
	memory_switch(0, 1300, 70, 4, 0);	/* SIGSTOP */
	memory_switch(0, 1500, 0, 0, 3);
	span_expect("1000-1100 running\n1100-1200 stolen by irq 11\n"
	       "1200-1300 running\n1300-1500 stopped\n");
}

/* The guest says which of its tasks is current, within its clock's bound. */
static void tasks_of_the_guest(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_entry(0, 1000, 70);
	memory_switch(2, 1200, 0, 0, 33)->bound = 10;
	memory_switch(2, 1500, 33, 1, 0)->bound = 20;
	memory_exit(0, 1600, 70, IO);
	memory_switch(0, 2000, 70, 0, 9);
	memory_switch(0, 2100, 9, 0, 70);
	span_expect("1000-1200 guest within 0+10\n1200-1500 guest task 33 within 10+20\n"
	       "1500-1600 guest task 0 within 20+0\n1600-2000 hypervisor task 0 exit 30\n"
	       "2000-2100 stolen task 0 exit 30 by task9[9]\n");
	NEED(!span_walk());
	CHECK_EQ(span_states.vcpus[0].bound_sum_ns, 10 + 30 + 20);
	CHECK_EQ(braid_states_task(&span_states, 1, 33)->ns[BRAID_VCPU_GUEST], 300);
	CHECK_EQ(braid_states_task(&span_states, 1, 33)->bound_sum_ns, 30);
	CHECK_EQ(braid_states_task(&span_states, 1, 33)->blocked_ns, 600);
	braid_states_free(&span_states);
}

/* Losses -------------------------------------------------------------------------------------- */

/* The gap begins at the ring's last event before it, and what it may have hidden is unknown. */
static void loss_on_its_cpu(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_wakeup(0, 2000, 8);		/* the last before the gap */
	memory_wakeup(1, 5000, 8);
	memory_wakeup(0, 9000, 8);
	memory_rings[0].events[2].lost = 6;
	memory_switch(0, 9100, 70, 1, 0);
	memory_switch(0, 9400, 0, 0, 8);
	span_expect("1000-2000 running\n2000-9000 unknown\n9000-9100 running\n9100-9400 sleeping\n");
	memory_rings[0].events[2].lost = BRAID_LOST_SOME;
	span_expect("1000-2000 running\n2000-9000 unknown\n9000-9100 running\n9100-9400 sleeping\n");
}

/* One that sleeps may have been woken, and run, where events are missing; one that runs not. */
static void loss_on_another_cpu(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_wakeup(1, 1500, 9);
	memory_switch(0, 2000, 70, 1, 0);	/* in the gap of CPU 1 */
	memory_wakeup(1, 3000, 9);
	memory_rings[1].events[1].lost = 1;
	memory_switch(0, 4000, 0, 0, 70);
	memory_switch(0, 5000, 70, 1, 0);
	memory_switch(0, 6000, 0, 0, 9);
	span_expect("1000-2000 running\n2000-4000 unknown\n4000-5000 running\n5000-6000 sleeping\n");
}

static void loss_at_the_end(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_wakeup(1, 1500, 9);
	memory_switch(0, 2000, 70, 1, 0);
	memory_wakeup(0, 2500, 9);
	memory_wakeup(1, 2500, 9);
	memory_rings[1].events[1].lost = 5;
	memory_rings[1].events[1].at_end = true;
	memory_wakeup(0, 3000, 9);
	span_expect("1000-2000 running\n2000-3000 unknown\n");
}

static void loss_in_the_guest(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(2, 1100, 0, 0, 33);
	memory_switch(2, 1500, 33, 0, 34);
	memory_rings[2].events[1].lost = 3;
	memory_wakeup(2, 1800, 5);
	memory_switch(0, 2000, 70, 1, 0);
	span_expect("1000-1100 running\n1100-1500 running\n1500-2000 running task 34\n");
}

/* A window limits what is observed; sums are of it. */
static void window(void)
{
	static struct braid_window recorded = { .start_ns = 500, .stop_ns = 1800 };

	memory_begin();
	memory_source.windows = &recorded;
	memory_source.nr_windows = 1;
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(0, 1700, 70, 1, 0);
	memory_switch(0, 2000, 0, 0, 70);
	span_expect("500-1000 unknown\n1000-1700 running\n1700-1800 sleeping\n");
	memory_source.nr_windows = 0;
}

/* A task that enters a vCPU's queue, and leaves it, does not divide the vCPU's spans. */
static void queues_divide_nothing(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(2, 1200, 0, 0, 33)->bound = 10;
	memory_wakeup_on(2, 1500, 44, 0);
	memory_switch(2, 1800, 33, 1, 44)->bound = 20;
	memory_switch(0, 2000, 70, 1, 0);
	span_queues = true;
	span_expect("1000-1200 running within 0+10\n1200-1800 running task 33 within 10+20\n"
		    "1800-2000 running task 44 within 20+0\n");
	span_queues = false;
}

/* Whatever a trace says, each nanosecond is in one state. */
static void any_trace_adds_up(void)
{
	u64 random = 88172645463325252ULL;
	u32 turn, k;

	for (turn = 0; turn < 3000; turn++) {
		s64 ns[3] = { 1000, 1000, 1000 };

		memory_begin();
		if (turn & 1)
			memory_window(900 + turn % 700, turn & 2 ? 3000 : INT64_MAX);
		for (k = 0; k < MEMORY_EVENTS; k++) {
			u32 ring, id;
			struct memory_event *e;

			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			ring = random % 3;
			id = ring == 2 ? 1 + (random >> 8) % 2 : 1 + (random >> 8) % MEMORY_FORMATS;
			ns[ring] += (random >> 16) % 200;
			e = memory_add(ring, ns[ring], id,
				       random & 1 << 20 ? 70 : random >> 21 & 3);
			memory_put(e, 8, random & 1 << 24 ? 70 : random >> 25 & 3, 4);
			if (id == MEMORY_SWITCH) {
				memory_put(e, 16, random >> 28 & 0x1ff, 8);
				memory_put(e, 40, random & 1ULL << 40 ? 70 : random >> 41 & 3, 4);
			} else {
				memory_put(e, 12, random >> 44 & 3, 4);
				memory_put(e, 16, random >> 46 & 3, 4);
			}
			e->bound = random >> 50 & 63;
			e->lost = random >> 56 < 10;
		}
		if (span_walk()) {
			fprintf(stderr, "turn %u: %s\n", turn, braid_failure());
			CHECK(!"it adds up");
		}
		braid_states_free(&span_states);
	}
}

/* Analyses ------------------------------------------------------------------------------------ */

static void steal(void)
{
	memory_stolen();
	text_has(analyze_text("steal", BRAID_TABLE_TEXT, false),
	    "# 1 vCPU, 0.000004000 s of vCPU time = 0.000004000 proven (100.00 %)",
	    "# stolen: 1.200 µs in 2 episodes\n",
	    "guest/vCPU 0  task9[9]  700 ns  58.33 %      2  288 ns  384 ns  400 ns  0.000003\n",
	    "guest/vCPU 0  task8[8]  500 ns  41.67 %      1  480 ns  480 ns  500 ns  0.000003\n",
	    "0.000003  900 ns  guest/vCPU 0  task33[33]  task8[8] (500 ns), task9[9] (400 ns)\n", NULL);
	text_has(analyze_text("steal", BRAID_TABLE_JSON, true),
	    "{\"vcpus\":1,\"observed_ns\":4000,\"proven_ns\":4000,\"within_bound_ns\":0,\"unknown_ns\":0,",
	    ",\"stolen_ns\":1200,\"episodes\":2,\"recorder_ns\":null,\"steal\":[{\"task\":\"task33[33]\",\"victim\":\"guest/vCPU 0\","
	    "\"culprit\":\"task9[9]\",\"total_ns\":700,", NULL);
	text_has(analyze_text("steal", BRAID_TABLE_CSV, false),
	    "victim,culprit,total_ns,share_ppm,count,p50_ns,p99_ns,worst_ns,worst_at_ns\n"
	    "guest/vCPU 0,task9[9],700,583333,2,288,384,400,3000\n", NULL);
}

/* Of equal durations the earliest is the worst, in whatever order they come: guests have several vCPUs. */
static void equal_durations(void)
{
	static const s64 begins[][3] = { { 10, 20, 30 }, { 30, 10, 20 }, { 20, 30, 10 } };
	static const struct braid_sum_key key = { .vcpu = 1 };
	static const u64 lengths[] = { 0, 5 };
	struct braid_sums sums;
	struct braid_sum *sum, all;
	size_t k, l, order;

	for (l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++)
		for (order = 0; order < 3; order++) {
			sums = (struct braid_sums){ 0 };
			for (k = 0; k < 3; k++)
				NEED(!braid_sums_add(&sums, &key, lengths[l], begins[order][k], &sum));
			CHECK_EQ(sum->histogram.longest_ns, lengths[l]);
			CHECK_EQ(sum->histogram.longest_at_ns, 10);
			all = (struct braid_sum){ 0 };
			braid_histogram_add(&all.histogram, lengths[l], 15);
			braid_sums_merge(&all, sum);
			CHECK_EQ(all.histogram.longest_at_ns, 10);
			braid_sums_merge(&all, &(struct braid_sum){ 0 });
			CHECK_EQ(all.histogram.longest_at_ns, 10);
			braid_sums_free(&sums);
		}
}

/* Whose thread a culprit is, if the trace says so; and what the measurement itself took. */
static void owners(void)
{
	struct braid_vcpu_thread of_recorder[] = { { BRAID_VCPU_NONE, 7, 0 },
						   { BRAID_VCPU_NONE, 9, 0 } };
	struct braid_vcpu_thread of_vmm[] = { { BRAID_VCPU_NONE, 8, 0 } };

	memory_stolen();
	text_has(analyze_text("steal", BRAID_TABLE_JSON, false), "\"episodes\":2,\"recorder_ns\":null,",
		 "\"task9[9]\"", "\"task8[8]\"", NULL);
	memory_host.others = of_recorder;
	memory_host.nr_others = 2;
	memory_guest.others = of_vmm;
	memory_guest.nr_others = 1;
	text_has(analyze_text("steal", BRAID_TABLE_TEXT, false),
		 "# of the stolen time, tracebraid's own recorder took 700 ns (58.33 %)\n",
		 "guest/vCPU 0  recorder/task9[9]  700 ns", "guest/vCPU 0  guest/task8[8]     500 ns", NULL);
	text_has(analyze_text("steal", BRAID_TABLE_JSON, true), "\"episodes\":2,\"recorder_ns\":700,", NULL);
	text_has(analyze_text("summary", BRAID_TABLE_JSON, false), ",\"recorder_ns\":700,",
		 "\"top_culprit\":\"recorder/task9[9]\"", NULL);
	text_has(analyze_text("summary", BRAID_TABLE_TEXT, false),
		 "# of the stolen time, tracebraid's own recorder took 700 ns (58.33 %)\n", NULL);
	text_has(analyze_text("stalls", BRAID_TABLE_TEXT, false),
		 "on its CPU: recorder/task9[9] (700 ns), guest/task8[8] (500 ns)\n", NULL);
}

static void stalls(void)
{
	memory_stolen();
	text_has(analyze_text("stalls", BRAID_TABLE_TEXT, false),
	    "guest/vCPU 0 (thread 70) recorded no event for 3.000 µs from 0.000001; its task was "
	    "task33[33]:\n"
	    "  1.800 µs running, in the guest, the hypervisor or the VMM\n"
	    "  1.200 µs runnable, not running; on its CPU: task9[9] (700 ns), task8[8] (500 ns)\n", NULL);
	text_has(analyze_text("stalls", BRAID_TABLE_JSON, false),
	    "\"stalls\":[{\"at_ns\":1000,\"duration_ns\":3000,\"idle_ns\":0,\"vcpu\":\"guest/vCPU 0\","
	    "\"task\":\"task33[33]\",\"tid\":70,", "\"running_ns\":1800,\"stolen_ns\":1200,",
	    "\"culprits\":[{\"culprit\":\"task9[9]\",\"ns\":700},{\"culprit\":\"task8[8]\",\"ns\":500}]}", NULL);
	memory_stolen();
	memory_switch(2, 5000, 33, 1, 0);
	memory_wakeup(0, 7000, 70);
	memory_switch(0, 7000, 0, 0, 70);
	memory_switch(2, 7500, 0, 0, 5);
	text_has(analyze_text("stalls", BRAID_TABLE_TEXT, false), "had work and recorded no event for 500 ns from 0.000005; "
	    "its task was idle:\n  2.000 µs asleep: halted, or blocked in the hypervisor or the VMM\n"
	    "  500 ns running, in the guest, the hypervisor or the VMM\n"
	    "  not counted: for 2.000 µs more the guest had nothing to run\n", NULL);
	memory_begin();				/* without switches, its task is not known */
	memory_switch(0, 1000, 0, 0, 70);
	memory_wakeup(2, 1500, 5);
	memory_wakeup(2, 4000, 5);
	memory_switch(0, 5000, 70, 1, 0);
	text_has(analyze_text("stalls", BRAID_TABLE_TEXT, false), "# a guest has no sched_switch events, so its "
	    "vCPUs' tasks are unknown", "for 2.500 µs from 0.000001; its task was ?:\n", NULL);
	memory_begin();				/* nor with switches at any time */
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(2, 1500, 0, 0, 33)->bound = BRAID_BOUND_UNKNOWN;
	memory_switch(0, 5000, 70, 1, 0);
	memory_guest.bound_ns = BRAID_BOUND_UNKNOWN;
	text_has(analyze_text("stalls", BRAID_TABLE_TEXT, false), "# the times of a guest's events have no "
	    "bound, so its vCPUs' tasks are unknown; 'tracebraid report' shows why\n", NULL);
	memory_begin();				/* a guest without work does not stall */
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(2, 1000, 33, 1, 0);
	memory_switch(0, 1000, 70, 1, 0);
	memory_wakeup(0, 9000, 70);
	memory_switch(0, 9000, 0, 0, 70);
	memory_switch(2, 9000, 0, 0, 33);
	memory_switch(0, 9000, 70, 1, 0);
	text_has(analyze_text("stalls", BRAID_TABLE_TEXT, false), "No vCPU stalled.\n", NULL);
}

static void guest_wakeup(s64 ns, s32 pid, u32 cpu)
{
	memory_wakeup_on(2, ns, pid, cpu);
}

/* What a woken task waited for, by what its vCPU did: all of that adds up to the wait. */
static void wake(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_entry(0, 1000, 70);
	memory_switch(2, 1100, 40, 1, 33);	/* 40 sleeps */
	guest_wakeup(2000, 40, 0);
	memory_exit(0, 2100, 70, IO);
	memory_user(0, 2150, 70);
	memory_switch(0, 2200, 70, 0, 9);
	memory_switch(0, 2900, 9, 0, 70);
	memory_entry(0, 3000, 70);
	memory_switch(2, 3100, 33, 0, 40);
	memory_switch(2, 3200, 40, 1, 33);
	guest_wakeup(3300, 40, 7);		/* on a vCPU that is not there */
	memory_switch(2, 3400, 33, 0, 40);
	memory_switch(0, 4000, 70, 1, 0);
	text_has(analyze_text("wake", BRAID_TABLE_CSV, true), "task40[40],guest/vCPU 0,2,1200,200,50,150,700,,0,100,",
	    NULL);
	text_has(analyze_text("wake", BRAID_TABLE_TEXT, false),
	    "# 2 wakeups of tasks that then ran; the tasks waited 1.200 µs in all\n",
	    "0.000002  1.100 µs  task40[40]  guest/vCPU 0      200 ns       50 ns  150 ns  700 ns          -    0 ns     0 ns  task33[33] (400 ns)\n",
	    "0 ns          -    0 ns   100 ns  -\n", NULL);
	text_has(analyze_text("summary", BRAID_TABLE_JSON, false), "\"worst_wakeup_ns\":1100,\"worst_wakeup_at_ns\":2000,", NULL);
}

/* The queue that it is moved to counts from then on. */
static void moved_while_queued(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_entry(0, 1000, 70);
	memory_switch(2, 1100, 40, 1, 33);
	guest_wakeup(2000, 40, 7);		/* on a vCPU that is not there */
	memory_migrate(2, 2300, 40, 0);
	memory_migrate(2, 2350, 41, 0);		/* another task */
	memory_switch(2, 3000, 33, 0, 40);
	memory_switch(0, 4000, 70, 1, 0);
	text_has(analyze_text("wake", BRAID_TABLE_CSV, true), "task40[40],guest/vCPU 0,1,1000,700,0,0,0,,0,300,",
	    NULL);
}

/*
 * Which tasks ran on the vCPU while one was in its run queue: those that it was stolen from did
 * not.
 */
static void behind(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(2, 1100, 40, 1, 33);
	guest_wakeup(2000, 40, 0);
	memory_switch(0, 2200, 70, 0, 9);
	memory_switch(0, 2900, 9, 0, 70);
	memory_switch(2, 3000, 33, 0, 44);
	memory_switch(2, 3450, 44, 0, 33);
	memory_switch(2, 3500, 33, 1, 40);
	memory_switch(0, 4000, 70, 1, 0);
	text_has(analyze_text("wake", BRAID_TABLE_TEXT, false),
	    "ASLEEP  UNKNOWN  RAN INSTEAD\n", "0 ns     0 ns  task44[44] (450 ns), task33[33] (350 ns)\n", NULL);
	text_has(analyze_text("wake", BRAID_TABLE_JSON, false), "\"behind\":[{\"culprit\":\"task44[44]\","
	    "\"ns\":450},{\"culprit\":\"task33[33]\",\"ns\":350}]}]", NULL);
}

static void summary(void)
{
	memory_stolen();
	text_has(analyze_text("summary", BRAID_TABLE_JSON, false),
	    "\"guests\":[{\"guest\":\"guest\",\"vcpus\":1,\"busy_ppm\":700000,\"stolen_ppm\":300000,"
	    "\"throttled_ppm\":null,\"asleep_ppm\":0,\"offline_ppm\":0,\"unknown_ppm\":0,", "\"worst_stall_ns\":3000,\"worst_stall_at_ns\":1000,",
	    "\"top_culprit\":\"task9[9]\"}]", NULL);
	text_has(analyze_text("summary", BRAID_TABLE_TEXT, false), "\nNext:\nguest's vCPUs were runnable, not running, for 1.200 µs "
	    "(all vCPUs together): 58 % of that time because of task9[9]. "
	    "tracebraid analyze steal --stream guest FILE\n", NULL);
}

/* What the trace lacks is said, with what to record for it. */
static void missing(void)
{
	char *text;

	memory_stolen();
	text_has(analyze_text("summary", BRAID_TABLE_TEXT, false), "no sched_wakeup events", "no kvm events", "  -  ", NULL);
	memory_begin();
	memory_switch(2, 1000, 33, 1, 0);
	memory_switch(2, 2000, 33, 1, 0);
	text_has(analyze_text("summary", BRAID_TABLE_TEXT, false), "the host has no sched_switch events",
	    "0.000000000 proven", "0.000001000 unknown (100.00 %)", NULL);
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_entry(0, 1500, 70);
	memory_exit(0, 2000, 70, IO);
	text_has(analyze_text("summary", BRAID_TABLE_TEXT, false), "no kvm_userspace_exit events", NULL);
	text = analyze_text("summary", BRAID_TABLE_TEXT, false);
	CHECK(!strstr(text, "no kvm events of a host CPU"));
	free(text);
	memory_switch(0, 3000, 70, 0, 0);
	memory_switch(1, 4000, 0, 0, 70);
	text_has(analyze_text("summary", BRAID_TABLE_TEXT, false), "no kvm events of a host CPU on which vCPUs ran", NULL);
	memory_begin();
	text_has(analyze_text("summary", BRAID_TABLE_TEXT, false), "0.000000000 s of vCPU time", NULL);
}

/* An analysis gets every event, with its type: of the host, and of a vCPU. */
struct counts {
	struct braid_states *s;
	u64 irqs, irq_sum, wakeups;
};

static int counts_begin(void *state, struct braid_states *s,
			const struct braid_analysis_options *options)
{
	(void)options;
	((struct counts *)state)->s = s;
	return 0;
}

static int counts_event(void *state, const struct braid_item *item,
			const struct braid_event_type_info *info)
{
	struct counts *x = state;
	const struct braid_layout *layout = braid_format_fields_of(info, item);
	const struct braid_field *irq = layout ? braid_layout_find(layout, "irq") : NULL;

	if (!strcmp(info->name, "irq_handler_entry")) {
		CHECK_EQ(braid_states_vcpu_of(x->s, item), BRAID_NO_VCPU);
		NEED(irq && braid_field_is_number(irq));
		x->irq_sum += braid_field_number(irq, item->payload);
		x->irqs++;
	} else if (!strcmp(info->name, "sched_wakeup")) {
		CHECK_EQ(braid_states_vcpu_of(x->s, item), 0);
		x->wakeups++;
	}
	return 0;
}

static void counts_write(void *state, struct braid_text *out)
{
	const struct counts *x = state;

	braid_text_printf(out, "%llu %llu %llu\n", (unsigned long long)x->irqs,
			  (unsigned long long)x->irq_sum, (unsigned long long)x->wakeups);
}

static void counts_free(void *state)
{
	(void)state;
}

static void all_events(void)
{
	static const struct braid_analysis counts = {
		.name = "counts", .state_bytes = sizeof(struct counts), .begin = counts_begin,
		.event = counts_event, .write = counts_write, .free = counts_free,
	};
	const struct braid_analysis_options wants = { .top = 3 };
	char *text;
	int err;

	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_irq(0, 1100, true, 11);
	memory_irq(0, 1200, false, 11);
	memory_irq(1, 1250, true, 20);
	memory_wakeup(2, 1300, 33);
	memory_wakeup(2, 1400, 34);
	memory_wakeup(2, 1500, 35);
	text = analyze_by(&counts, wants, &err);
	NEED(!err);
	text_has(text, "2 31 3\n", NULL);
}

/* A new analysis is in all messages that list names. */
static void names(void)
{
	const struct braid_analysis *analysis;
	char all[BRAID_ANALYSIS_NAMES], some[BRAID_ANALYSIS_NAMES];
	size_t k;

	CHECK(!braid_analysis_by_name("nobody"));
	braid_analysis_names(BRAID_ANALYSIS_ANY, all);
	braid_analysis_names(BRAID_ANALYSIS_BY_CALL, some);
	CHECK(strlen(all) < sizeof(all) - 1 && strstr(braid_failure(), all));
	CHECK(strstr(all, " or "));
	for (k = 0; (analysis = braid_analysis_by_number(k)); k++) {
		CHECK(strstr(all, analysis->name));
		CHECK_EQ(!!strstr(some, analysis->name),
			 braid_analysis_takes(analysis, BRAID_ANALYSIS_BY_CALL));
		CHECK(braid_analysis_by_name(analysis->name) == analysis);
	}
}

int main(void)
{
	RUN(life_of_a_vcpu);
	RUN(waits_where_it_is);
	RUN(interrupts);
	RUN(tasks_of_the_guest);
	RUN(loss_on_its_cpu);
	RUN(loss_on_another_cpu);
	RUN(loss_at_the_end);
	RUN(loss_in_the_guest);
	RUN(window);
	RUN(queues_divide_nothing);
	RUN(any_trace_adds_up);
	RUN(steal);
	RUN(equal_durations);
	RUN(owners);
	RUN(stalls);
	RUN(wake);
	RUN(moved_while_queued);
	RUN(behind);
	RUN(summary);
	RUN(missing);
	RUN(all_events);
	RUN(names);
	span_free();
	return VERDICT();
}
