// SPDX-License-Identifier: GPL-2.0-or-later
/* Statistics, to the nanosecond: of a host that switches, and enters and leaves its guest. */
#include <stdarg.h>
#include <string.h>

#include "host_agent/export/export.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/report_text.h"

#define MAX_EVENTS	64

/* A ring in memory. */
static struct ring {
	struct braid_ring ring;
	struct event {
		s64 ns;
		u64 lost;
		u8 payload[64];
	} events[MAX_EVENTS];
	u32 nr, at;
} rings[3];	/* the host's two CPUs, the guest's one */

static struct braid_stream host, guest;
static struct braid_stream *streams[] = { &host, &guest };
static struct braid_source source = { .streams = streams, .nr_streams = 2 };
static struct braid_vcpu_thread threads[] = { { .vcpu = 0, .tid = 70 } };

static int next(struct braid_ring *base)
{
	struct ring *r = (struct ring *)base;
	struct event *e = &r->events[r->at];

	if (r->at == r->nr)
		return 0;
	r->at++;
	base->item.kind = BRAID_ITEM_EVENT;
	base->item.host_ns = e->ns;
	base->item.lost_before = e->lost;
	base->item.payload = e->payload;
	base->item.payload_bytes = sizeof(e->payload);
	return 1;
}

static void rewind_ring(struct braid_ring *base)
{
	((struct ring *)base)->at = 0;
}

#define COMMON									\
	"format:\n"								\
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"	\
	"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"	\
	"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n" \
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"

enum { SWITCH = 1, WAKEUP, ENTRY, EXIT };

static struct braid_event_format formats[] = {
	{ .id = SWITCH, .system = "sched", .name = "sched_switch", .format = COMMON
	  "\tfield:pid_t prev_pid;\toffset:8;\tsize:4;\tsigned:1;\n"
	  "\tfield:long prev_state;\toffset:16;\tsize:8;\tsigned:1;\n"
	  "\tfield:char next_comm[16];\toffset:24;\tsize:16;\tsigned:0;\n"
	  "\tfield:pid_t next_pid;\toffset:40;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n" },
	{ .id = WAKEUP, .system = "sched", .name = "sched_wakeup", .format = COMMON
	  "\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n" },
	{ .id = ENTRY, .system = "kvm", .name = "kvm_entry", .format = COMMON
	  "\tfield:unsigned int vcpu_id;\toffset:8;\tsize:4;\tsigned:0;\n\nprint fmt: \"\"\n" },
	{ .id = EXIT, .system = "kvm", .name = "kvm_exit", .format = COMMON
	  "\tfield:unsigned int exit_reason;\toffset:8;\tsize:4;\tsigned:0;\n"
	  "\tfield:u32 isa;\toffset:12;\tsize:4;\tsigned:0;\n\n"
	  "print fmt: \"vcpu 0 reason %s%s rip 0x0\", (REC->isa == 1) ? "
	  "__print_symbolic(REC->exit_reason, { 12, \"HLT\" }, { 30, \"IO\" }) : \"?\", \"\"\n" },
};

static struct event *add(u32 ring, s64 ns, u16 id, s32 pid)
{
	struct event *e = &rings[ring].events[rings[ring].nr++];
	struct braid_record record = { .common_type = id, .common_pid = pid };

	NEED(rings[ring].nr <= MAX_EVENTS);
	memset(e, 0, sizeof(*e));
	e->ns = ns;
	memcpy(e->payload, &record, sizeof(record));
	return e;
}

static void put(struct event *e, u32 offset, u64 value, u32 bytes)
{
	memcpy(e->payload + offset, &value, bytes);
}

static struct event *add_switch(u32 ring, s64 ns, s32 prev, u64 state, s32 next_pid)
{
	struct event *e = add(ring, ns, SWITCH, prev);

	put(e, 8, prev, 4);
	put(e, 16, state, 8);
	snprintf((char *)e->payload + 24, 16, "task%d", next_pid);
	put(e, 40, next_pid, 4);
	return e;
}

static void add_wakeup(u32 ring, s64 ns, s32 pid)
{
	put(add(ring, ns, WAKEUP, 1), 8, pid, 4);
}

static void add_entry(u32 ring, s64 ns, s32 tid)
{
	add(ring, ns, ENTRY, tid);
}

static void add_exit(u32 ring, s64 ns, s32 tid, u32 reason)
{
	struct event *e = add(ring, ns, EXIT, tid);

	put(e, 8, reason, 4);
	put(e, 12, 1, 4);
}

static void begin(void)
{
	static const struct braid_ring_ops ops = { .next = next, .rewind = rewind_ring };
	static struct braid_ring *of_host[] = { &rings[0].ring, &rings[1].ring };
	static struct braid_ring *of_guest[] = { &rings[2].ring };
	u32 k;

	memset(rings, 0, sizeof(rings));
	host = (struct braid_stream){
		.kind = BRAID_STREAM_HOST, .name = "host", .rings = of_host, .nr_rings = 2,
		.formats = formats, .nr_formats = 4,
	};
	guest = (struct braid_stream){
		.number = 1, .kind = BRAID_STREAM_GUEST, .name = "guest", .rings = of_guest,
		.nr_rings = 1, .threads = threads, .nr_threads = 1,
		.formats = formats, .nr_formats = 1,
	};
	for (k = 0; k < 3; k++) {
		rings[k].ring.stream = k < 2 ? &host : &guest;
		rings[k].ring.cpu = k == 1;
		rings[k].ring.order = k;
		rings[k].ring.ops = &ops;
		rings[k].ring.item.stream = rings[k].ring.stream;
		rings[k].ring.item.ring = &rings[k].ring;
	}
	for (k = 0; k < 4; k++)
		formats[k].format_bytes = strlen(formats[k].format);
}

static char *stats(bool json)
{
	static const struct braid_export_options options;
	struct braid_export_totals totals;
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	braid_source_rewind(&source);
	NEED(to && !(json ? braid_export_stats_json : braid_export_stats)(to, &source, &options,
									  &totals));
	fclose(to);
	return text;
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
	begin();
	add_switch(0, 1000, 5, 1, 0);		/* idle from here on; 5 sleeps */
	add_wakeup(1, 1500, 70);		/* waits 400 */
	add_switch(0, 1900, 0, 0, 70);		/* idle 900 */
	add_entry(0, 2000, 70);
	add_exit(0, 2600, 70, 30);		/* in 600 */
	add_entry(0, 2700, 70);			/* IO: away 100 */
	add_exit(0, 3000, 70, 12);		/* in 300 */
	add_switch(0, 3100, 70, 0x100, 9);	/* ran 1200; preempted: waits */
	add_switch(1, 3600, 0, 0, 70);		/* 500, and goes on at the other CPU */
	add_entry(1, 4000, 70);			/* HLT: away 1000 */
	add_exit(1, 4100, 70, 30);		/* in 100; never comes back */
	add_switch(1, 4200, 70, 1, 0);		/* ran 600; sleeps */
	add_switch(1, 5200, 0, 0, 9);		/* 1000, to the end; 9 was never told to wait */
	add_switch(2, 1100, 0, 0, 33);
	add_switch(2, 1800, 33, 2, 0);
	has(stats(true), "{\"cpu\":0,\"events\":7,\"lost\":0,\"busy_ns\":1200,\"idle_ns\":900,",
	    "{\"cpu\":1,\"events\":6,\"lost\":0,\"busy_ns\":600,\"idle_ns\":1000,",
	    "{\"cpu\":0,\"events\":2,\"lost\":0,\"busy_ns\":700,\"idle_ns\":0,",
	    "\"pid\":70,\"comm\":\"task70\",\"ran_ns\":1800,\"waited_ns\":900,\"slept_ns\":1000,",
	    "{\"tid\":70,\"vcpu\":0,\"ran_ns\":1800,\"waited_ns\":900,",
	    "\"in_guest_ns\":1000,\"entries\":3,\"exits\":3,\"reasons\":["
	    "{\"reason\":\"IO\",\"count\":2,\"returned\":1,\"away_ns\":100,\"longest_ns\":100},"
	    "{\"reason\":\"HLT\",\"count\":1,\"returned\":1,\"away_ns\":1000,\"longest_ns\":1000}]",
	    "{\"pid\":33,\"comm\":\"task33\",\"ran_ns\":700,\"waited_ns\":0,",
	    "{\"system\":\"sched\",\"event\":\"sched_switch\",\"count\":6}", NULL);
	has(stats(false), "# 15 events, 0 lost, from 0.000001 to 0.000005 s",
	    "guest             000       70        0.000001        0.000001", "HLT  ", NULL);
}

/* What happened while something was lost nobody knows: no time of it counts. */
static void losses(void)
{
	begin();
	add_switch(0, 1000, 0, 0, 70);
	add_entry(0, 1100, 70);
	add_wakeup(0, 2000, 8);			/* the last before the gap */
	add_exit(0, 9000, 70, 30);
	rings[0].events[rings[0].nr - 1].lost = 6;
	add_switch(0, 9100, 70, 1, 8);
	add_switch(0, 9400, 8, 1, 0);
	has(stats(true), "\"lost\":6,\"busy_ns\":1300,\"idle_ns\":0,",
	    "\"pid\":70,\"comm\":\"task70\",\"ran_ns\":0,", "\"in_guest_ns\":0,",
	    "\"pid\":8,\"comm\":\"task8\",\"ran_ns\":300,\"waited_ns\":0,", NULL);
	rings[0].events[rings[0].nr - 3].lost = BRAID_LOST_SOME;
	has(stats(true), "\"lost\":0,\"more_lost\":true,\"busy_ns\":1300,", NULL);
}

/* What the trace does not tell is said, and not told as 0. */
static void untold(void)
{
	begin();
	add_wakeup(0, 1000, 70);
	add_switch(2, 1500, 0, 0, 33);
	has(stats(true), "how long tasks ran: it has no sched_switch events",
	    "no kvm_entry and kvm_exit events", "steal: the host has no sched_switch", NULL);
	begin();
	add_switch(0, 1000, 0, 0, 70);
	add_entry(0, 1500, 70);
	add_switch(2, 1500, 0, 0, 33);
	guest.nr_threads = 0;
	has(stats(true), "steal: vCPU threads unknown",
	    "\"vcpus\":[{\"tid\":70,\"vcpu\":0,\"ran_ns\":500,", NULL);
	has(stats(false), "task70            000       70", NULL);
}

/* Tasks without end, and a format whose fields are not what they should be. */
static void hostile(void)
{
	const struct braid_event_format good = formats[0];
	u32 k;

	begin();
	for (k = 0; k < MAX_EVENTS; k++)
		add_switch(2, k, 0x7fffffff - k, k, -5 - k);
	has(stats(true), "\"pid\":-5,", "\"pid\":2147483647,", NULL);
	formats[0].format = COMMON
		"\tfield:pid_t prev_pid[2];\toffset:8;\tsize:8;\tsigned:1;\n"
		"\tfield:__data_loc char[] prev_state;\toffset:16;\tsize:4;\tsigned:1;\n"
		"\tfield:u8 next_comm;\toffset:24;\tsize:1;\tsigned:0;\n"
		"\tfield:pid_t next_pid;\toffset:40;\tsize:3;\tsigned:1;\n\nprint fmt: \"\"\n";
	formats[0].format_bytes = strlen(formats[0].format);
	has(stats(true), "\"tasks\":[],\"vcpus\":[]", "\"count\":64", NULL);
	formats[0] = good;
	for (k = 0; k < MAX_EVENTS; k++)
		rings[2].events[k].payload[0] = k;
	free(stats(false));
}

int main(void)
{
	RUN(life_of_a_vcpu);
	RUN(losses);
	RUN(untold);
	RUN(hostile);
	return VERDICT();
}
