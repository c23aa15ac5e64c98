// SPDX-License-Identifier: GPL-2.0-or-later
/* vCPUs' states as slices: what is joined, which slices depend on each other, what is selected. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/perfetto/form.h"
#include "host_agent/walk/slices.h"
#include "tests/unit/check.h"
#include "tests/unit/memory_trace.h"
#include "tests/unit/need.h"

static struct braid_slices *slices;
static struct braid_text text;
static u32 nr_events;

static int note_slice(void *arg, const struct braid_slice *slice)
{
	char culprit[BRAID_NAME_TEXT];
	u32 k;

	(void)arg;
	braid_text_printf(&text, "%u %lld-%lld %s", slice->vcpu, (long long)slice->from_ns,
			  (long long)slice->to_ns, braid_vcpu_state_name(slice->state));
	if (slice->task != BRAID_PID_UNKNOWN)
		braid_text_printf(&text, " task %d", slice->task);
	for (k = 0; k < slice->culprits.nr; k++) {
		braid_culprit_name(braid_slices_states(slices), &slice->culprits.of[k].culprit, culprit);
		braid_text_printf(&text, " by %s %llu", culprit,
				  (unsigned long long)slice->culprits.of[k].ns);
	}
	for (k = 0; k < slice->flows.nr; k++)
		braid_text_printf(&text, " flow %llu", (unsigned long long)slice->flows.of[k].id);
	braid_text_puts(&text, "\n");
	return 0;
}

static int note_wake(void *arg, const struct braid_slice_wake *wake)
{
	(void)arg;
	braid_text_printf(&text, "%u %lld wakes %d flow %llu\n", wake->vcpu, (long long)wake->ns,
			  wake->pid, (unsigned long long)wake->flow);
	return 0;
}

static int count_event(void *arg, const struct braid_item *item,
		       const struct braid_event_type_info *info)
{
	(void)arg;
	(void)item;
	(void)info;
	nr_events++;
	return 0;
}

/* Walks the trace; the slices are in the text, a line each. */
static void run(const struct braid_walk_options *options)
{
	static const struct braid_slices_ops ops = { .slice = note_slice, .wake = note_wake };
	static const struct braid_walk_ops walk_ops = { .event = count_event };
	struct braid_walk_totals totals;
	struct braid_walk w;

	text.bytes = 0;
	nr_events = 0;
	braid_source_rewind(&memory_source);
	NEED(!braid_walk_begin(&w, &memory_source, options, &totals));
	NEED(!braid_slices_begin(&slices, &w, &ops, NULL));
	NEED(!braid_walk_run(&w, &walk_ops, NULL) && !braid_slices_end(slices));
	braid_walk_end(&w);
	braid_text_putc(&text, 0);
	braid_slices_free(slices);
}

static void expect(const struct braid_walk_options *options, u32 events, const char *want)
{
	run(options);
	CHECK_EQ(nr_events, events);
	if (strcmp(text.data, want)) {
		fprintf(stderr, "wanted:\n%sfound:\n%s", want, text.data);
		CHECK(!"the slices are others");
	}
}

/* Two vCPUs on one CPU, which take it from each other, and an interrupt in between. */
static void put_two(void)
{
	static struct braid_vcpu_thread two[] = {
		{ .vcpu = 0, .tid = 70 }, { .vcpu = 1, .tid = 71 },
	};

	memory_begin();
	memory_guest.nr_cpus = 2;
	memory_guest.threads = two;
	memory_guest.nr_threads = 2;
	memory_switch(0, 1000, 71, 1, 70);
	memory_migrate(0, 1000, 9, 0);
	memory_switch(2, 1100, 0, 0, 33);
	memory_wakeup(2, 1200, 5);
	memory_wakeup(0, 1300, 71);
	memory_switch(0, 1500, 70, 0, 71);
	memory_put(memory_add(0, 1700, MEMORY_IRQ, 71), 8, 11, 4);
	memory_put(memory_add(0, 1710, MEMORY_IRQ_END, 71), 8, 11, 4);
	memory_switch(0, 2000, 71, 1, 70);
	memory_switch(2, 2200, 33, 1, 5);
	memory_switch(0, 2500, 70, 1, 0);
}

static void joined_and_linked(void)
{
	static const struct braid_walk_options all;

	put_two();
	expect(&all, 11,
	       "0 1000-1100 running\n"
	       "1 1000-1300 sleeping\n"
	       "1 1300-1500 stolen by guest/vCPU 0: task33[33] 200 flow 1\n"
	       "0 1100-1500 running task 33 flow 1\n"
	       "1 1500-1700 running flow 2\n"
	       "1 1700-1710 stolen by irq 11 10\n"
	       "0 1500-2000 stolen task 33 by guest/vCPU 1 490 by irq 11 10 flow 2\n"
	       "0 2000-2200 running task 33\n"
	       "0 1200 wakes 5 flow 3\n"
	       "1 1710-2000 running\n"
	       "0 2200-2500 running task 5 flow 3\n"
	       "1 2000-2500 sleeping\n");
}

/* States are of the selected vCPUs and time. What else is selected does not change them. */
static void selected(void)
{
	static char *const some[] = { "sched_wakeup" };
	struct braid_walk_options options = { .events = some, .nr_events = 1 };

	options.from = (struct braid_walk_moment){ .kind = BRAID_MOMENT_AT, .ns = 1250 };
	options.to = (struct braid_walk_moment){ .kind = BRAID_MOMENT_AT, .ns = 1800 };
	put_two();
	expect(&options, 1,
	       "1 1250-1300 sleeping\n"
	       "1 1300-1500 stolen by guest/vCPU 0: task33[33] 200 flow 1\n"
	       "0 1250-1500 running task 33 flow 1\n"
	       "1 1500-1700 running flow 2\n"
	       "1 1700-1710 stolen by irq 11 10\n"
	       "0 1500-1800 stolen task 33 by guest/vCPU 1 290 by irq 11 10 flow 2\n"
	       "1 1710-1800 running\n");
	options.stream = "guest";	/* whose first event is at 1100 */
	options.from = (struct braid_walk_moment){ .kind = BRAID_MOMENT_SINCE, .ns = 800 };
	options.to.ns = 2100;
	options.one_cpu = true;
	expect(&options, 0, "0 1900-2000 stolen task 33 by guest/vCPU 1 100\n"
	       "0 2000-2100 running task 33\n");
	options.stream = "host";
	options.from.ns = 950;		/* after its first event at 1000 */
	expect(&options, 0, "0 1950-2000 stolen task 33 by guest/vCPU 1 50\n"
	       "0 2000-2100 running task 33\n");
	options.cpu = 1;		/* which has no first event */
	expect(&options, 0, "");
}

/* Events are missing after the switch to the woken task: who ran is unknown. */
static void woken_and_lost(void)
{
	static const struct braid_walk_options all;

	put_two();
	memory_switch(2, 2400, 5, 1, 0);
	memory_rings[2].events[memory_rings[2].nr - 1].lost = 3;
	expect(&all, 12,
	       "0 1000-1100 running\n"
	       "1 1000-1300 sleeping\n"
	       "1 1300-1500 stolen by guest/vCPU 0: task33[33] 200 flow 1\n"
	       "0 1100-1500 running task 33 flow 1\n"
	       "1 1500-1700 running flow 2\n"
	       "1 1700-1710 stolen by irq 11 10\n"
	       "0 1500-2000 stolen task 33 by guest/vCPU 1 490 by irq 11 10 flow 2\n"
	       "0 2000-2200 running task 33\n"
	       "0 2200-2400 running\n"
	       "1 1710-2000 running\n"
	       "0 2400-2500 running task 0\n"
	       "1 2000-2500 sleeping\n");
}

/* Without threads that are vCPUs, or without a host, there is nothing to show. */
static void nothing_known(void)
{
	static const struct braid_walk_options all;

	put_two();
	memory_guest.nr_threads = 0;
	expect(&all, 11, "");
	put_two();
	memory_host.nr_rings = 0;
	expect(&all, 3, "");
}

/*
 * It waited, and ran on another CPU, and no event says when it was moved: who ran where it waited
 * is not known, and no arrow leads there. An event of its guest ends what is not certain.
 */
static void moved_unseen(void)
{
	static const struct braid_walk_options all;

	put_two();
	memory_formats[MEMORY_MIGRATE - 1].name = "other";
	memory_switch(0, 2600, 0, 0, 70);
	memory_wakeup(0, 2700, 71);
	memory_switch(0, 2800, 70, 0, 9);
	memory_switch(1, 2900, 0, 0, 71);
	memory_switch(1, 3000, 71, 1, 0);
	memory_switch(0, 3100, 9, 0, 8);
	memory_switch(2, 3200, 5, 0, 5);
	memory_switch(0, 3300, 8, 1, 0);
	memory_switch(1, 3400, 0, 0, 70);
	memory_switch(1, 3500, 70, 1, 0);
	run(&all);
	CHECK(strstr(text.data, "1 2700-2900 stolen by unknown 200\n"));
	CHECK(strstr(text.data, "0 2800-3400 stolen task 5 by task9[9] 300 by unknown 200 by task8[8] 100\n"));
	memory_formats[MEMORY_MIGRATE - 1].name = "sched_migrate_task";
	/* A host that records migrations says where it waits. */
	memory_rings[0].nr = memory_rings[1].nr = memory_rings[2].nr = 0;
	memory_migrate(1, 900, 7, 0);
	memory_switch(1, 950, 0, 0, 7);
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(0, 2000, 70, 0, 9);
	memory_migrate(0, 2500, 70, 1);
	memory_switch(1, 3000, 7, 0, 70);
	memory_switch(1, 4000, 70, 1, 0);
	run(&all);
	CHECK(strstr(text.data, " stolen by task7[7] 500 by task9[9] 500\n"));
}

/* Two numbers of a flow in one line of the text. */
static bool same_slice(const char *flow)
{
	const char *line_end = strchr(flow, '\n'), *at = flow;
	u64 id = strtoull(flow + 5, NULL, 10);

	while ((at = strstr(at + 5, "flow ")) && at < line_end)
		if (strtoull(at + 5, NULL, 10) == id)
			return true;
	return false;
}

/* Every flow has two ends, at two slices, whatever a trace says. */
static void any_trace(void)
{
	static const struct braid_walk_options all;
	u64 random = 88172645463325252ULL;
	u32 turn, k;

	for (turn = 0; turn < 300; turn++) {
		s64 ns[3] = { 1000, 1000, 1000 };
		u64 flows = 0, ends = 0, id;
		const char *at;

		put_two();
		memory_rings[0].nr = memory_rings[1].nr = memory_rings[2].nr = 0;
		for (k = 0; k < MEMORY_EVENTS; k++) {
			struct memory_event *e;
			u32 ring, type;

			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			ring = random % 3;
			type = ring == 2 ? 1 + (random >> 8) % 2 :
					   1 + (random >> 8) % MEMORY_FORMATS;
			ns[ring] += (random >> 16) % 50;
			e = memory_add(ring, ns[ring], type, 68 + (random >> 21 & 3));
			memory_put(e, 8, (ring == 2 ? 0 : 68) + (random >> 25 & 3), 4);
			if (type == MEMORY_SWITCH) {
				memory_put(e, 16, random >> 28 & 1, 8);
				memory_put(e, 40, (ring == 2 ? 0 : 68) + (random >> 41 & 3), 4);
			} else {
				memory_put(e, 12, random >> 44 & 1, 4);
			}
			e->lost = random >> 56 < 3;
		}
		run(&all);
		for (at = text.data; (at = strstr(at, "flow ")); at += 5, ends++) {
			id = strtoull(at + 5, NULL, 10);
			flows = id > flows ? id : flows;
			CHECK(!same_slice(at));
		}
		CHECK_EQ(ends, 2 * flows);
	}
}

/* Why there are none. */
static void missing(void)
{
	memory_begin();
	CHECK(!braid_slices_missing(&memory_source));
	memory_guest.nr_threads = 0;
	CHECK(!strcmp(braid_slices_missing(&memory_source), BRAID_VCPUS_UNKNOWN));
	memory_host.nr_rings = 0;
	CHECK(!strcmp(braid_slices_missing(&memory_source),
		      "the capture has no events of the host; record them with --host"));
}

/* A task gets another name: Perfetto's later slices have that one. */
static void renamed(void)
{
	static const struct braid_walk_options all;
	struct braid_walk_totals totals;
	size_t bytes;
	char *out;
	FILE *to = open_memstream(&out, &bytes);

	NEED(to);
	memory_begin();
	memory_guest.nr_cpus = 1;
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(0, 2000, 70, 0, 9);
	memory_switch(0, 3000, 9, 0, 70);
	memory_switch(0, 3500, 70, 1, 0);
	memory_switch(0, 3600, 0, 0, 70);
	strcpy((char *)memory_switch(0, 4000, 70, 0, 9)->payload + 24, "newer");
	memory_switch(0, 5000, 9, 0, 70);
	memory_switch(0, 6000, 70, 1, 0);
	braid_source_rewind(&memory_source);
	CHECK_EQ(braid_export_perfetto(to, &memory_source, &all, &totals), 0);
	fclose(to);
	CHECK(memmem(out, bytes, "task9[9]", 8));
	CHECK(memmem(out, bytes, "newer[9]", 8));
	free(out);
}

int main(void)
{
	RUN(joined_and_linked);
	RUN(renamed);
	RUN(selected);
	RUN(woken_and_lost);
	RUN(moved_unseen);
	RUN(nothing_known);
	RUN(any_trace);
	braid_text_free(&text);
	RUN(missing);
	return VERDICT();
}
