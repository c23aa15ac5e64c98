// SPDX-License-Identifier: GPL-2.0-or-later
/* The start of a recording: a vCPU's first events prove what it did until then. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/memory_trace.h"
#include "tests/unit/need.h"
#include "tests/unit/span_text.h"

#define HLT		12
#define SLEEPS		1	/* of prev_state */
#define PREEMPTED	0x100

static void begin(void)
{
	memory_begin();
	memory_window(1000, 9000);
}

static void halted(s64 ns, bool slept)
{
	memory_put(memory_add(0, ns, MEMORY_HALTED, 70), 16, slept, 1);
}

/* A wakeup is of a thread that slept. Without events of KVM it is not known in what. */
static void asleep(void)
{
	begin();
	memory_switch(0, 1100, 9, SLEEPS, 8);
	memory_switch(1, 1200, 9, SLEEPS, 8);
	memory_migrate(0, 1999, 70, 1);
	memory_wakeup(0, 2000, 70);
	memory_switch(0, 2100, 8, SLEEPS, 70);
	memory_switch(0, 3000, 70, SLEEPS, 0);
	span_expect("1000-2000 sleeping\n2000-2100 stolen by task8[8]\n2100-3000 running\n"
		    "3000-9000 sleeping\n");
}

/* The end of its halt shows that it was halted. */
static void in_a_halt(void)
{
	begin();
	memory_wakeup(1, 2000, 70);
	memory_switch(0, 2100, 0, 0, 70);
	halted(2110, true);
	memory_entry(0, 2200, 70);
	memory_exit(0, 2300, 70, HLT);
	memory_switch(0, 2400, 70, SLEEPS, 0);
	span_expect("1000-2000 halted\n2000-2100 stolen by nothing (idle CPU)\n"
		    "2100-2200 hypervisor\n2200-2300 guest\n2300-2400 hypervisor exit 12\n"
		    "2400-9000 halted exit 12\n");
	begin();				/* it slept before that halt */
	memory_wakeup(1, 2000, 70);
	memory_switch(0, 2100, 0, 0, 70);
	halted(2110, false);
	memory_entry(0, 2200, 70);
	span_expect("1000-2000 sleeping\n2000-2100 stolen by nothing (idle CPU)\n"
		    "2100-2200 running\n2200-9000 guest\n");
}

/* What is switched out was there, since its CPU's previous event would be a switch to it. */
static void current(void)
{
	begin();
	memory_switch(0, 2000, 70, PREEMPTED, 9);
	memory_switch(0, 3000, 9, SLEEPS, 70);
	span_expect("1000-2000 running\n2000-3000 stolen by task9[9]\n3000-9000 running\n");
	begin();
	memory_wakeup(1, 1500, 70);		/* on its way to sleep: it goes on */
	memory_switch(0, 2000, 70, SLEEPS, 9);
	span_expect("1000-2000 running\n2000-9000 sleeping\n");
}

/* The first exit is from the guest, where it was. */
static void in_the_guest(void)
{
	begin();
	memory_exit(0, 2000, 70, HLT);
	memory_switch(0, 2100, 70, SLEEPS, 9);
	span_expect("1000-2000 guest\n2000-2100 hypervisor exit 12\n2100-9000 halted exit 12\n");
	begin();				/* in KVM, or in the VMM */
	memory_entry(0, 2000, 70);
	memory_exit(0, 3000, 70, HLT);
	memory_switch(0, 3100, 70, SLEEPS, 9);
	span_expect("1000-2000 running\n2000-3000 guest\n3000-3100 hypervisor exit 12\n"
		    "3100-9000 halted exit 12\n");
}

/* What is switched to, and was not woken, waited; the CPU's events show for what. */
static void queued(void)
{
	begin();
	memory_switch(0, 1500, 9, PREEMPTED, 8);
	memory_switch(0, 2000, 8, SLEEPS, 70);
	memory_switch(0, 3000, 70, SLEEPS, 0);
	span_expect("1000-1500 stolen by <...>[9]\n1500-2000 stolen by task8[8]\n"
		    "2000-3000 running\n3000-9000 sleeping\n");
	begin();				/* on another CPU at first */
	memory_switch(1, 1500, 6, PREEMPTED, 5);
	memory_switch(0, 1600, 9, PREEMPTED, 8);
	memory_put(memory_migrate(0, 1700, 70, 0), 16, 1, 4);
	memory_switch(0, 2000, 8, SLEEPS, 70);
	memory_switch(0, 3000, 70, SLEEPS, 0);
	span_expect("1000-1500 stolen by <...>[6]\n1500-1700 stolen by task5[5]\n"
		    "1700-2000 stolen by task8[8]\n2000-3000 running\n3000-9000 sleeping\n");
}

/* Host events of before the start are of the same trace. */
static void before_the_start(void)
{
	begin();
	memory_wakeup(1, 900, 70);
	memory_switch(0, 950, 7, SLEEPS, 9);
	memory_switch(0, 2000, 9, SLEEPS, 70);
	span_expect("1000-2000 stolen by task9[9]\n2000-9000 running\n");
}

/* Nothing is known of a thread that starts later, or has no event, or if events are missing. */
static void unknown(void)
{
	struct memory_event *e;

	begin();
	memory_put(memory_add(0, 2000, MEMORY_WAKEUP_ON, 1), 8, 70, 4);	/* sched_wakeup_new */
	memory_switch(0, 2100, 0, 0, 70);
	span_expect("1000-2100 unknown\n2100-9000 running\n");
	begin();
	memory_switch(0, 2000, 9, SLEEPS, 8);
	span_expect("1000-9000 unknown\n");
	begin();
	memory_wakeup(1, 1500, 5);
	e = memory_wakeup(1, 2000, 70);
	e->lost = 1;
	memory_switch(0, 2100, 0, 0, 70);
	memory_switch(0, 3000, 70, SLEEPS, 0);
	span_expect("1000-2100 unknown\n2100-3000 running\n3000-9000 sleeping\n");
	begin();				/* lost before the ring's first event, which is
						   later */
	memory_switch(0, 2000, 70, SLEEPS, 9);
	memory_wakeup(1, 3000, 5)->lost = BRAID_LOST_SOME;
	memory_switch(0, 4000, 9, SLEEPS, 70);
	span_expect("1000-2000 unknown\n2000-3000 sleeping\n3000-4000 unknown\n4000-9000 running\n");
	begin();				/* without wakeups, it may have slept */
	memory_formats[MEMORY_WAKEUP - 1].name = "other";
	memory_switch(0, 2000, 9, SLEEPS, 70);
	span_expect("1000-2000 unknown\n2000-9000 running\n");
	memory_formats[MEMORY_WAKEUP - 1].name = "sched_wakeup";
	begin();				/* the host was recorded by others */
	memory_source.windows[0].host = NULL;
	memory_switch(0, 2000, 70, SLEEPS, 9);
	span_expect("1000-2000 unknown\n2000-9000 sleeping\n");
}

/* Without migrations, it is not known where it waited. */
static void moved_unseen(void)
{
	begin();
	memory_formats[MEMORY_MIGRATE - 1].name = "other";
	memory_switch(0, 1500, 9, PREEMPTED, 8);
	memory_switch(0, 2000, 8, SLEEPS, 70);
	span_expect("1000-2000 stolen by unknown\n2000-9000 running\n");
	memory_formats[MEMORY_MIGRATE - 1].name = "sched_migrate_task";
}

/* A switch that the kernel did not record: the task of a CPU's next event shows it. */
static void missing_switch(void)
{
	begin();
	memory_switch(0, 1500, 70, PREEMPTED, 9);
	memory_entry(0, 2000, 70);
	memory_exit(0, 2500, 70, HLT);
	memory_add(0, 3000, MEMORY_IRQ, 8);
	memory_switch(0, 4000, 8, SLEEPS, 70);
	span_expect("1000-1500 running\n1500-2000 unknown\n2000-2500 guest\n"
		    "2500-4000 unknown\n4000-9000 running\n");
	begin();				/* the one to the vCPU, at the start */
	memory_switch(0, 1500, 9, PREEMPTED, 8);
	memory_entry(0, 2000, 70);
	span_expect("1000-2000 unknown\n2000-9000 guest\n");
}

static int (*memory_next)(struct braid_ring *ring);
static u32 nr_faults;

static void note_fault(void *arg, const struct braid_stream *stream, const char *line)
{
	(void)arg;
	(void)stream;
	(void)line;
	nr_faults++;
}

static int next_and_fault(struct braid_ring *ring)
{
	braid_source_faulty(&memory_source, &memory_host, "damaged");
	return memory_next(ring);
}

/* What is wrong with a capture is reported once, though its first events are read twice. */
static void faults_once(void)
{
	struct braid_ring_ops ops;

	begin();
	memory_switch(0, 2000, 70, PREEMPTED, 9);
	memory_switch(0, 3000, 9, SLEEPS, 70);
	ops = *memory_rings[0].ring.ops;
	memory_next = ops.next;
	ops.next = next_and_fault;
	memory_rings[0].ring.ops = &ops;
	memory_source.fault = note_fault;
	memory_source.faults = 0;
	span_expect("1000-2000 running\n2000-3000 stolen by task9[9]\n3000-9000 running\n");
	CHECK_EQ(nr_faults, 3);		/* two events, and the end */
	CHECK_EQ(memory_source.faults, 3);
	memory_source.fault = NULL;
}

/* Traces whose truth is known, from before the start on: a thread of two CPUs, and its events. */
static u64 next_random(u64 *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return *state >> 33;
}

static void random_starts(void)
{
	static const char *const names[] = { "sleeping", "stolen", "running" };
	u64 random = 11;
	u32 turn, k;

	for (turn = 0; turn < 2000; turn++) {
		u32 now = next_random(&random) % 3, cpu = next_random(&random) % 2, at_start = 3;
		s64 ns = 500;

		begin();
		memory_source.windows[0].stop_ns = 100000;
		for (k = 0; k < 20; k++) {
			ns += 1 + next_random(&random) % 200;
			if (ns > 1000 && at_start == 3)
				at_start = now;
			if (now == 0) {
				/* Events of before the start were not recorded. */
				if (ns > 1000)
					memory_wakeup(next_random(&random) % 2, ns, 70);
			} else if (now == 1) {
				if (ns > 1000)
					memory_switch(cpu, ns, memory_current(cpu) == 1 ? 9 :
						      memory_current(cpu), SLEEPS, 70);
			} else if (ns > 1000) {
				memory_switch(cpu, ns, 70, k % 2 ? SLEEPS : PREEMPTED, 9);
			}
			now = now < 2 ? now + 1 : k % 2 ? 0 : 1;
		}
		NEED(!span_walk());
		CHECK(!strncmp(span_found(), "1000-", 5));
		if (strncmp(strchr(span_found(), ' ') + 1, names[at_start],
			    strlen(names[at_start]))) {
			fprintf(stderr, "turn %u: not %s:\n%s", turn, names[at_start], span_found());
			CHECK(!"the start is another");
		}
		CHECK_EQ(span_states.vcpus[0].ns[BRAID_VCPU_UNKNOWN], 0);
		braid_states_free(&span_states);
	}
}

int main(void)
{
	RUN(asleep);
	RUN(in_a_halt);
	RUN(current);
	RUN(in_the_guest);
	RUN(queued);
	RUN(before_the_start);
	RUN(unknown);
	RUN(moved_unseen);
	RUN(missing_switch);
	RUN(faults_once);
	RUN(random_starts);
	span_free();
	return VERDICT();
}
