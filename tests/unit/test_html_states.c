// SPDX-License-Identifier: GPL-2.0-or-later
/* The states of vCPUs and the starts of tasks in an exported page, to the nanosecond. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/analyze/states.h"
#include "host_agent/export/html/form.h"
#include "host_agent/export/html/states.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/memory_trace.h"
#include "tests/unit/need.h"
#include "tests/unit/page_chunks.h"

#define COLUMNS	5u
#define NAMES	64u

static char *page;
static size_t page_bytes;
static struct braid_text found;

/* What a name says: "CPU 0 task9[9] in lane 1"; of those that are culprits. */
static char names[NAMES][BRAID_HTML_STATES * 16];

static void read_names(void)
{
	struct braid_text bytes = { 0 };
	const char *at = page;
	u32 nr = 0;

	while (page_chunk(&at, "names", &bytes)) {
		const char *from = bytes.data, *end = bytes.data + bytes.bytes;

		while (from < end) {
			u64 type, group, lane, length;

			from = braid_varint_take(from, &type);
			from = braid_varint_take(from, &group);
			from = braid_varint_take(from, &lane);
			from = braid_varint_take(from, &length);
			NEED(nr < NAMES);
			snprintf(names[nr++], sizeof(names[0]), "by %.*s, CPU %d, lane %d",
				 (int)length, from, (int)group - 1,
				 (int)braid_varint_unfold(lane) - 1);
			from += length;
		}
	}
	braid_text_free(&bytes);
}

static void read_parts(const char **at)
{
	u64 nr, state, ns;

	*at = braid_varint_take(*at, &nr);
	for (; nr; nr--) {
		*at = braid_varint_take(*at, &state);
		*at = braid_varint_take(*at, &ns);
		braid_text_printf(&found, " %s %llu", braid_vcpu_state_name(state),
				  (unsigned long long)ns);
	}
}

/* The page's states as lines: lane, times after @base_ns, state. */
static void read_states(s64 base_ns)
{
	struct braid_text bytes = { 0 };
	const char *at = page, *c[COLUMNS];
	s64 end_ns = base_ns;
	u64 rows, track, end, length, culprit;

	found.bytes = 0;
	while (page_chunk(&at, "states", &bytes))
		for (rows = page_columns(&bytes, c, COLUMNS); rows; rows--) {
			u32 state;

			c[0] = braid_varint_take(c[0], &track);
			c[1] = braid_varint_take(c[1], &end);
			c[2] = braid_varint_take(c[2], &length);
			c[3] = braid_varint_take(c[3], &culprit);
			end_ns += (s64)braid_varint_unfold(end);
			state = track % BRAID_HTML_STATES;
			braid_text_printf(&found, "lane %u: %lld-%lld ", (u32)(track / BRAID_HTML_STATES),
					  (long long)(end_ns - (s64)length), (long long)end_ns);
			if (state == BRAID_HTML_STATE_MERGED)
				read_parts(&c[4]);
			else
				braid_text_puts(&found, state == BRAID_HTML_STATE_IDLE ? "idle" :
							braid_vcpu_state_name(state));
			if (culprit)
				braid_text_printf(&found, " %s", names[culprit]);
			braid_text_putc(&found, '\n');
		}
	braid_text_putc(&found, 0);
	braid_text_free(&bytes);
}

static void compare(const char *want)
{
	if (!strcmp(found.data, want))
		return;
	fprintf(stderr, "wanted:\n%sfound:\n%s", want, found.data);
	CHECK(!"the states are others");
}

/* Writes the states alone; all but @exact spans are merged when they are short. */
static void expect_merged(u32 exact, s64 first_ns, s64 last_ns, const char *want)
{
	static const struct braid_walk_ops ops;
	const struct braid_walk_options options = {
		.from = { .kind = first_ns ? BRAID_MOMENT_AT : BRAID_MOMENT_NONE, .ns = first_ns },
		.to = { .kind = last_ns ? BRAID_MOMENT_AT : BRAID_MOMENT_NONE, .ns = last_ns },
	};
	struct braid_walk_totals totals;
	struct braid_walk shown;
	struct braid_html_names *n = braid_html_names_new();
	struct braid_html_states *states;
	struct braid_html_lanes lanes;
	struct braid_html_out out;
	FILE *to = open_memstream(&page, &page_bytes);
	s64 origin_ns;

	memory_guest.nr_cpus = memory_guest.nr_threads > 1 ? 2 : 1;
	NEED(n && to && !braid_html_out_begin(&out, to));
	braid_source_rewind(&memory_source);
	NEED(!braid_walk_begin(&shown, &memory_source, &options, &totals));
	NEED(!braid_html_lanes_make(&lanes, &memory_source, &options));
	NEED(!braid_html_states_begin(&states, &shown, &lanes, n, NULL, &out, exact));
	CHECK_EQ(braid_walk_run(&shown, &ops, NULL), 0);
	CHECK_EQ(braid_html_states_end(states), 0);
	origin_ns = braid_html_states_origin(states);
	braid_walk_end(&shown);
	braid_html_states_free(states);
	NEED(!braid_html_names_flush(n, &out) && !braid_html_out_end(&out));
	fclose(to);
	read_names();
	read_states(origin_ns);
	compare(want);
	braid_html_out_free(&out);
	braid_html_lanes_free(&lanes);
	braid_html_names_free(n);
	free(page);
}

static void expect(const char *want)
{
	expect_merged(BRAID_HTML_EXACT_STATES, 0, 0, want);
}

static void irq(s64 ns, bool begins)
{
	memory_put(memory_add(0, ns, begins ? MEMORY_IRQ : MEMORY_IRQ_END, 70), 8, 11, 4);
}

/* Lanes: 0 and 1 host and guest, 2 and 3 the CPUs of the host, 4 the vCPU, 5 its thread, 70. */
static void life(void)
{
	memory_begin();
	memory_switch(0, 1000, 9, 1, 0);
	memory_switch(0, 1900, 0, 0, 70);	/* the first that is known of it */
	memory_entry(0, 2000, 70);
	memory_switch(2, 2000, 0, 0, 33);
	memory_exit(0, 2600, 70, 30);
	memory_put(memory_add(0, 2650, MEMORY_USER, 70), 8, 0, 4);
	memory_entry(0, 2700, 70);
	memory_exit(0, 3000, 70, 12);
	memory_switch(0, 3100, 70, 0x100, 9);
	memory_switch(0, 3300, 9, 1, 0);
	memory_switch(0, 3600, 0, 0, 70);
	irq(3620, true);
	irq(3650, false);
	memory_switch(0, 3700, 70, 1, 0);
	memory_switch(0, 4000, 0, 0, 9);
	expect("lane 4: 1000-1900 unknown\n"
	       "lane 4: 2600-2650 hypervisor\n"
	       "lane 4: 2650-2700 VMM\n"
	       "lane 4: 3000-3100 hypervisor\n"
	       "lane 4: 3100-3300 stolen by task9[9], CPU 0, lane 2\n"
	       "lane 4: 3300-3600 stolen by nothing (idle CPU), CPU 0, lane 2\n"
	       "lane 4: 3600-3620 hypervisor\n"
	       "lane 4: 3620-3650 stolen by irq 11, CPU 0, lane 2\n"
	       "lane 4: 3650-3700 hypervisor\n"
	       "lane 4: 3700-4000 halted\n");
	/* Only a part of it is shown; what came before explains it nevertheless. */
	expect_merged(BRAID_HTML_EXACT_STATES, 3200, 3400,
		      "lane 4: 3200-3300 stolen by task9[9], CPU 0, lane 2\n"
		      "lane 4: 3300-3400 stolen by nothing (idle CPU), CPU 0, lane 2\n");
}

/* A culprit gets another name: later states have that one. */
static void renamed(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(0, 2000, 70, 0, 9);
	memory_switch(0, 3000, 9, 0, 70);
	strcpy((char *)memory_switch(0, 4000, 70, 0, 9)->payload + 24, "newer");
	memory_switch(0, 5000, 9, 0, 70);
	memory_switch(0, 6000, 70, 0, 9);
	expect("lane 4: 2000-3000 stolen by task9[9], CPU 0, lane 2\n"
	       "lane 4: 4000-5000 stolen by newer[9], CPU 0, lane 2\n");
}

/* Another vCPU's task whose name is known only later, by one of its system calls. */
static void named_later(void)
{
	struct braid_vcpu_thread two[] = { { .vcpu = 0, .tid = 70 }, { .vcpu = 1, .tid = 71 } };
	struct braid_comm comm = { .pid = 33, .comm = "late" };
	struct braid_ring *rings[] = { &memory_rings[2].ring, &memory_rings[3].ring };

	memory_begin();
	memory_guest.rings = rings;
	memory_guest.nr_rings = 2;
	rings[1]->stream = rings[1]->item.stream = &memory_guest;
	rings[1]->cpu = 1;
	memory_guest.threads = two;
	memory_guest.nr_threads = 2;
	memory_guest.comms = &comm;
	memory_guest.nr_comms = 1;
	memory_switch(0, 900, 0, 0, 70);
	memory_put(memory_switch(2, 950, 0, 0, 33), 24, 0, 8);
	memory_switch(0, 1000, 70, 0, 71);
	memory_switch(0, 2000, 71, 0, 70);
	memory_switch(0, 3000, 70, 0, 71);
	memory_switch(0, 3500, 71, 1, 70);
	memory_put(memory_switch(2, 3600, 33, 0, 34), 24, 0, 8);
	memory_add(2, 3700, MEMORY_WRITE, 33);
	memory_wakeup(0, 3900, 71);
	memory_switch(0, 4500, 70, 0, 71);
	memory_switch(0, 5000, 71, 1, 0);
	expect("lane 5: 900-1000 unknown\n"
	       "lane 4: 1000-2000 stolen by guest/vCPU 1, CPU 0, lane 5\n"
	       "lane 5: 2000-3000 stolen by guest/vCPU 0: <...>[33], CPU 0, lane 4\n"
	       "lane 4: 3000-3500 stolen by guest/vCPU 1, CPU 0, lane 5\n"
	       "lane 5: 3500-3900 sleeping\n"
	       "lane 5: 3900-4500 stolen by guest/vCPU 0: late[33], CPU 0, lane 4\n"
	       "lane 4: 4500-5000 stolen by guest/vCPU 1, CPU 0, lane 5\n");
}

/* Without kvm events a vCPU that sleeps is idle if its guest is. */
static void idle(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(2, 1000, 0, 0, 33);
	memory_switch(0, 1500, 70, 1, 0);
	memory_switch(0, 2000, 0, 0, 70);
	memory_switch(2, 2100, 33, 1, 0);
	memory_switch(0, 2200, 70, 1, 0);
	memory_switch(0, 3000, 0, 0, 9);
	expect("lane 4: 1500-2000 sleeping\nlane 4: 2200-3000 idle\n");
}

/* It was moved while it waited, and no event says when: who ran on its CPU is not known. */
static void moved_unseen(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(1, 1000, 0, 0, 9);
	memory_switch(0, 2000, 70, 0, 8);
	memory_switch(0, 2500, 8, 0, 7);
	memory_switch(1, 3000, 9, 0, 70);
	memory_switch(1, 4000, 70, 1, 0);
	memory_switch(1, 5000, 0, 0, 70);
	memory_switch(1, 6000, 70, 0, 9);
	memory_switch(0, 7000, 7, 0, 70);
	memory_switch(0, 8000, 70, 0, 7);
	memory_switch(1, 8500, 9, 0, 9);
	expect("lane 4: 2000-3000 stolen by unknown, CPU -1, lane -1\n"
	       "lane 4: 4000-5000 sleeping\n"
	       "lane 4: 6000-7000 stolen by unknown, CPU -1, lane -1\n"
	       "lane 4: 8000-8500 stolen by task7[7], CPU 0, lane 2\n");
}

/* Short ones that follow each other share a span, which has the time in each state. */
static void merged(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_entry(0, 1000, 70);
	memory_exit(0, 1300, 70, 30);
	memory_entry(0, 1400, 70);
	irq(1500, true);
	irq(1550, false);
	memory_exit(0, 1600, 70, 30);
	memory_entry(0, 2200, 70);
	memory_exit(0, 5000, 70, 30);
	memory_switch(0, 5100, 70, 0, 9);
	memory_switch(0, 8100, 9, 0, 70);
	memory_entry(0, 8200, 70);
	memory_exit(0, 8300, 70, 30);
	memory_entry(0, 8400, 70);
	memory_switch(0, 8500, 70, 0, 9);
	expect_merged(0, 0, 0,
		      "lane 4: 1000-2200  hypervisor 700 stolen 50\n"
		      "lane 4: 5000-5100 hypervisor\n"
		      "lane 4: 5100-8100 stolen by task9[9], CPU 0, lane 2\n"
		      "lane 4: 8100-8500  hypervisor 200\n");
	/* The first two are exact. */
	expect_merged(2, 0, 0,
		      "lane 4: 1300-1400 hypervisor\n"
		      "lane 4: 1500-1550 stolen by irq 11, CPU 0, lane 2\n"
		      "lane 4: 1550-2200  hypervisor 600\n"
		      "lane 4: 5000-5100 hypervisor\n"
		      "lane 4: 5100-8100 stolen by task9[9], CPU 0, lane 2\n"
		      "lane 4: 8100-8500  hypervisor 200\n");
}

/* Nothing of the host, or no thread of the vCPU: the page is as without states. */
static void not_known(void)
{
	memory_begin();
	memory_switch(2, 1000, 0, 0, 33);
	memory_switch(2, 2000, 33, 0, 34);
	expect("");
	memory_begin();
	memory_switch(0, 1000, 0, 0, 71);
	memory_switch(2, 1000, 0, 0, 33);
	memory_switch(0, 2000, 71, 0, 72);
	expect("");
	memory_guest.nr_threads = 0;
	expect("");
}

/* Of the page's "meta": the time that its states begin at. */
static s64 states_ns(void)
{
	struct braid_text meta = { 0 };
	const char *at = page;
	long long base, from;

	NEED(page_chunk(&at, "meta", &meta));
	braid_text_putc(&meta, '\0');
	NEED(sscanf(meta.data, "{\"base_ns\":\"%lld\",\"states_ns\":%lld,", &base, &from) == 2);
	braid_text_free(&meta);
	return base + from;
}

/* Returns the number of events in it. */
static u64 export_page(const struct braid_walk_options *options)
{
	struct braid_walk_totals totals;
	char path[64];
	FILE *file;

	memory_guest.nr_cpus = 1;
	snprintf(path, sizeof(path), "/tmp/braid-html-states-%d.html", getpid());
	braid_source_rewind(&memory_source);
	NEED(!braid_export_html(path, &memory_source, options, &totals));
	page = calloc(1, 1 << 20);
	file = fopen(path, "r");
	NEED(page && file && fread(page, 1, (1 << 20) - 1, file) > 0);
	fclose(file);
	unlink(path);
	read_names();
	return totals.events;
}

static void expect_page(const struct braid_walk_options *options, u64 events, const char *want)
{
	memory_begin();
	memory_window(1000, 4000);
	memory_wakeup(1, 2000, 70);	/* so it slept from the start on */
	memory_switch(0, 2100, 0, 0, 70);
	memory_switch(0, 2500, 70, 0, 9);
	memory_switch(0, 3000, 9, 0, 70);
	memory_wakeup(2, 3500, 5);
	CHECK_EQ(export_page(options), events);
	read_states(states_ns());
	compare(want);
	free(page);
}

#define UP_TO_2500	"lane 4: 1000-2000 sleeping\n" \
			"lane 4: 2000-2100 stolen by nothing (idle CPU), CPU 0, lane 2\n"
#define UP_TO_3500	UP_TO_2500 "lane 4: 2500-3000 stolen by task9[9], CPU 0, lane 2\n"

/* The whole page: events that it does not show count too. */
static void in_a_page(void)
{
	char *events[] = { "sched_wakeup" };

	expect_page(&(struct braid_walk_options){ 0 }, 5, UP_TO_3500);
	expect_page(&(struct braid_walk_options){ .events = events, .nr_events = 1 }, 2,
		    UP_TO_3500);
}

/* Nothing is claimed of the time after the last of them. */
static void first_lines(void)
{
	expect_page(&(struct braid_walk_options){ .max_lines = 3 }, 3, UP_TO_2500);
	expect_page(&(struct braid_walk_options){ .max_lines = 5 }, 5, UP_TO_3500);
}

/* Starts --------------------------------------------------------------------------------------- */

/* The page's starts of tasks as lines: lane, time, what is known of the time before. */
static void read_starts(s64 base_ns)
{
	struct braid_text bytes = { 0 };
	const char *at = page, *c[7];
	u64 rows, n[7];
	s64 ns = base_ns;
	u32 k;

	found.bytes = 0;
	while (page_chunk(&at, "waits", &bytes))
		for (rows = page_columns(&bytes, c, 7); rows; rows--) {
			for (k = 0; k < 5; k++)
				c[k] = braid_varint_take(c[k], &n[k]);
			ns += braid_varint_unfold(n[1]);
			braid_text_printf(&found, "lane %u at %lld", (u32)n[0], (long long)ns);
			if (n[2])
				braid_text_printf(&found, " %s %u", n[2] & 1 ? "preempted" : "blocked",
						  (u32)(n[2] / 2 - 1));
			if (n[3])
				braid_text_printf(&found, " in %.*s", (int)strcspn(names[n[3]] + 3, ","),
						  names[n[3]] + 3);
			for (k = 5; n[4] && k < 7; k++)
				c[k] = braid_varint_take(c[k], &n[k]);
			if (n[4])
				braid_text_printf(&found, " woken %u ago in lane %u", (u32)n[4] - 1,
						  (u32)n[5]);
			braid_text_putc(&found, '\n');
		}
	braid_text_putc(&found, 0);
	braid_text_free(&bytes);
}

static void expect_starts(const char *want)
{
	export_page(&(struct braid_walk_options){ 0 });
	read_starts(states_ns());
	compare(want);
	free(page);
}

static void waking(u32 ring, s64 ns, s32 pid)
{
	memory_put(memory_add(ring, ns, MEMORY_WAKING, memory_current(ring)), 8, pid, 4);
}

/* A guest's tasks and the host's. */
static void starts(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 9);	/* since when it waited: unknown */
	memory_switch(2, 1000, 0, 0, 33);
	memory_add(2, 1050, MEMORY_WRITE, 33);
	waking(2, 1060, 33);			/* it runs */
	memory_add(0, 1080, MEMORY_WRITE, 9);
	memory_switch(2, 1100, 33, 0x100, 34);
	memory_wakeup(2, 1150, 33);		/* it is in the queue */
	memory_switch(2, 1200, 34, 1, 33);
	memory_switch(0, 1250, 9, 1, 0);
	memory_switch(2, 1300, 33, 1, 0);
	waking(1, 1350, 9);			/* the wakeup is on another CPU */
	memory_wakeup(0, 1400, 9);
	memory_switch(0, 1450, 0, 0, 9);
	waking(2, 1500, 33);			/* nobody recorded its wakeup */
	waking(2, 1510, 34);
	memory_wakeup(2, 1520, 34);
	memory_wakeup(2, 1530, 34);		/* it is in the queue */
	memory_wakeup(2, 1540, 35);		/* a new one */
	memory_switch(2, 1600, 0, 0, 33);
	memory_switch(2, 1700, 33, 0x10, 34);	/* it exits */
	memory_switch(2, 1800, 34, 1, 35);
	memory_switch(2, 1900, 35, 1, 33);	/* the same number again */
	expect_starts("lane 4 at 1200 preempted 100 in write\n"
		      "lane 2 at 1450 blocked 200 in write woken 50 ago in lane 3\n"
		      "lane 4 at 1600 blocked 300 in write woken 100 ago in lane 4\n"
		      "lane 4 at 1700 blocked 500 woken 180 ago in lane 4\n"
		      "lane 4 at 1800 woken 260 ago in lane 4\n");
}

/* After lost events, and in the next recording, nothing is known of what was before. */
static void starts_forgotten(void)
{
	struct memory_event *e;

	memory_begin();
	memory_window(1000, 2000);
	memory_more_window(3000, 4000, true, true);
	memory_switch(0, 1000, 9, 1, 8);
	memory_switch(1, 1100, 7, 1, 6);
	memory_switch(2, 1200, 33, 1, 34);
	e = memory_switch(1, 1300, 6, 1, 0);
	e->lost = 3;
	memory_switch(0, 1400, 8, 0, 9);
	memory_switch(0, 1500, 9, 0, 8);
	memory_switch(2, 1500, 34, 1, 33);
	memory_switch(0, 3100, 8, 0, 9);
	memory_switch(2, 3200, 33, 0, 34);
	expect_starts("lane 2 at 1500 preempted 100\nlane 4 at 1500 blocked 300\n");
}

int main(void)
{
	RUN(life);
	RUN(renamed);
	RUN(named_later);
	RUN(idle);
	RUN(moved_unseen);
	RUN(merged);
	RUN(not_known);
	RUN(in_a_page);
	RUN(first_lines);
	RUN(starts);
	RUN(starts_forgotten);
	braid_text_free(&found);
	return VERDICT();
}
