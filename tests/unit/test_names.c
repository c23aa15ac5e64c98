// SPDX-License-Identifier: GPL-2.0-or-later
/* Names and texts of events: id spaces, sub-events, RAW bytes, the kernel's ftrace. */
#include <string.h>
#include <unistd.h>

#include "host_agent/export/text/form.h"
#include "shared/region.h"
#include "shared/schema.h"
#include "tests/unit/check.h"
#include "tests/unit/format_text.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"

static char path[64];

static const struct synth_guest_params roomy = {
	.name = "guest", .incarnation = 7, .boot = 1, .start_ns = SYNTH_START_NS,
	.nr_slots = 64, .subbuf_bytes = 4096,
};

static struct braid_capture_writer *writer;
static struct synth_guest guest;

static void begin(u32 flags)
{
	struct synth_guest_params params = roomy;

	params.flags = flags;
	writer = synth_capture(path);
	synth_guest_init(&guest, &params);
}

static void introduce(void)
{
	synth_begin(writer, &guest, 1);
	synth_sample(writer, &guest, 100, 100);
}

static void add_event(const struct braid_schema_event *event)
{
	static struct {
		struct braid_directory dir;
		u8 room[64 << 10];
	} d;
	struct braid_schema_event copy = *event;
	u32 used = 0;

	memset(&d.dir, 0, sizeof(d.dir));
	NEED(!braid_schema_append(&d.dir, sizeof(d.room), &used, &copy));
	NEED(!braid_capture_put(writer, BRAID_CHUNK_EVENTS, 1, NULL, 0, d.dir.data, used));
}

static void record(u16 id, const void *data, u32 bytes)
{
	struct braid_record head = { .common_type = id, .common_pid = 100 };
	u8 payload[512] = { 0 };

	memcpy(payload, &head, sizeof(head));
	memcpy(payload + sizeof(head), data, bytes);
	guest.now += 1000;
	NEED(synth_event(&guest, 0, payload, sizeof(head) + bytes));
}

static void finish(void)
{
	synth_drain(writer, &guest, 0);
	synth_end(writer, &guest, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(writer));
	synth_guest_free(&guest);
}

/* The complete report; to be freed. */
static char *report(bool json, const char *event, const char *buffer)
{
	char *events[] = { (char *)event }, *names[] = { path }, *text = NULL;
	struct braid_walk_options options = {
		.no_header = true, .events = events, .nr_events = !!event, .buffer = buffer,
	};
	struct braid_walk_totals totals;
	struct braid_source *source;
	size_t bytes;
	FILE *to;

	NEED(!braid_source_open_captures(&source, names, 1, NULL));
	to = open_memstream(&text, &bytes);
	NEED(to);
	CHECK_EQ((json ? braid_export_json : braid_export_text)(to, source, &options, &totals), 0);
	fclose(to);
	CHECK_EQ(source->faults, 0);
	braid_source_free(source);
	return text;
}

static u32 count(const char *text, const char *what)
{
	u32 n = 0;

	for (; (text = strstr(text, what)); text += strlen(what))
		n++;
	return n;
}

#define REPORTED(json, event, buffer, what, times)				\
	do {									\
		char *report_text = report(json, event, buffer);		\
		if (count(report_text, what) != (times))			\
			fprintf(stderr, "%s", report_text);			\
		CHECK_EQ(count(report_text, what), times);			\
		free(report_text);						\
	} while (0)

/* One id in two buffers: its meaning is that in the buffer whose events are used. */
static void id_spaces(void)
{
	struct braid_buffer_params other = { .name = "other", .subbuf_bytes = 4096, .nr_slots = 4 };
	struct braid_schema_event event = {
		.id = 1, .buffer = 1, .system = "mine", .name = "theirs",
		.format = FORMAT_HEAD "\tfield:u32 a;\toffset:8;\tsize:4;\tsigned:0;\n\nprint fmt: \"a is %u\", REC->a\n",
	};
	u32 a = 42;
	u64 needed;

	begin(0);
	CHECK_EQ(braid_region_add_buffer(&guest.sb, &other, &needed), 1);
	guest.sb.buffers[0].events_of = 1;
	introduce();
	add_event(&event);
	record(1, &a, sizeof(a));
	finish();
	REPORTED(false, NULL, NULL, " theirs:                a is 42\n", 1);
	REPORTED(true, NULL, NULL, "\"cpu\":0,\"buffer\":\"main\"", 1);
	REPORTED(true, NULL, NULL, "\"system\":\"mine\",\"event\":\"theirs\",\"fields\":{\"a\":42}", 1);
	REPORTED(false, NULL, "main", "theirs", 1);
	REPORTED(false, NULL, "other", "theirs", 0);
}

#define NR_SUBS	450

static void add_subevents(u16 id, u32 bytes, const char *prefix)
{
	struct braid_schema_event event = {
		.id = id, .system = "calls", .name = id == 2 ? "enter" : "exit",
		.format = FORMAT_HEAD "\tfield:long nr;\toffset:8;\tsize:8;\tsigned:1;\n\nprint fmt: \"NR %ld\", REC->nr\n",
	};
	char name[32], format[1024];
	u32 k;

	add_event(&event);
	event.flags = BRAID_EVENT_SUB | bytes << BRAID_SUB_BYTES_SHIFT |
		      8u << BRAID_SUB_OFFSET_SHIFT;
	for (k = 0; k < NR_SUBS; k++) {
		event.number = 7 * (NR_SUBS - k);	/* not in order */
		snprintf(name, sizeof(name), "%s_%u", prefix, event.number);
		snprintf(format, sizeof(format), "name: %s\nID: %u\n" FORMAT_HEAD
			 "\tfield:long nr;\toffset:8;\tsize:8;\tsigned:1;\n"
			 "\tfield:u64 x;\toffset:16;\tsize:8;\tsigned:0;\n\n"
			 "print fmt: \"%s(0x%%llx)\", REC->x\n", name, id, name);
		event.name = name;
		event.format = k == 3 ? "" : format;
		add_event(&event);
	}
}

static void sub_events(void)
{
	u64 data[2] = { 7 * 5, 0xabc };

	begin(0);
	introduce();
	add_subevents(2, 8, "do");
	add_subevents(3, 1, "did");
	add_subevents(4, 0, "dont");
	record(2, data, sizeof(data));
	record(3, data, sizeof(data));
	record(4, data, sizeof(data));	/* no number: the event itself */
	data[0] = 6;			/* no such number */
	record(2, data, sizeof(data));
	data[0] = 1ULL << 32 | 35;	/* another one in 8 bytes, the same in 1 */
	record(2, data, sizeof(data));
	record(3, data, sizeof(data));
	data[0] = 7 * (NR_SUBS - 3);	/* its bytes are not checked */
	record(2, data, sizeof(data));
	record(2, data, 4);		/* too short for a number */
	finish();
	REPORTED(false, NULL, NULL, " do_35:                 do_35(0xabc)\n", 1);
	REPORTED(false, NULL, NULL, " did_35:                did_35(0xabc)\n", 2);
	REPORTED(false, NULL, NULL, " exit:                  NR 35\n", 1);
	REPORTED(false, NULL, NULL, " enter:                 NR 6\n", 1);
	REPORTED(false, NULL, NULL, " enter:                 NR 4294967331\n", 1);
	REPORTED(false, NULL, NULL, " do_3129:               02 00 00 00 64 00 00 00", 1);
	REPORTED(true, NULL, NULL, "\"system\":\"calls\",\"event\":\"enter\",\"subevent\":\"do_35\",", 1);
	REPORTED(true, NULL, NULL, "\"subevent\"", 4);
	REPORTED(false, "do_35", NULL, "\n", 1);
	REPORTED(false, "calls:did_*", NULL, "\n", 2);
	REPORTED(false, "calls:enter", NULL, "\n", 5);
	REPORTED(false, "others:do_35", NULL, "\n", 0);
}

/* An event that is registered again with its id is another one, without the former sub-events. */
static void registered_again(void)
{
	struct braid_schema_event event = {
		.id = 2, .system = "a", .name = "later",
		.format = FORMAT_HEAD "\tfield:u64 n;\toffset:8;\tsize:8;\tsigned:0;\n\nprint fmt: \"n=%llu\", REC->n\n",
	};
	u64 number = 35;

	begin(0);
	introduce();
	add_subevents(2, 8, "do");
	add_event(&event);
	record(2, &number, sizeof(number));
	finish();
	REPORTED(false, NULL, NULL, " later:                 n=35\n", 1);
}

static void raw_bytes(void)
{
	static const u8 bytes[] = { 0xde, 0xad, 0xbe, 0xef, 0, 1, 2, 0x1b };

	begin(BRAID_BUFFER_RAW);
	introduce();
	guest.now += 1000;
	NEED(synth_event(&guest, 1, bytes, sizeof(bytes)));
	NEED(synth_event(&guest, 1, bytes, 4));
	finish();
	REPORTED(false, NULL, NULL, "] ", 2);
	REPORTED(false, NULL, NULL, ": raw:                   de ad be ef 00 01 02 1b\n", 1);
	REPORTED(true, NULL, NULL, "\"system\":\"main\",\"event\":\"raw\",\"fields\":{\"raw\":\"de ad be ef\"}", 1);
	REPORTED(true, NULL, NULL, "\"pid\"", 0);
	REPORTED(false, "main:raw", NULL, "\n", 2);
	REPORTED(false, "main", NULL, "\n", 2);
	REPORTED(false, "test:tick", NULL, "\n", 0);
}

/* Without known fields: bytes, not an empty line. */
static void no_fields(void)
{
	struct braid_schema_event event = { .id = 2, .system = "a", .name = "bare", .format = FORMAT_HEAD };

	begin(0);
	introduce();
	add_event(&event);
	record(2, "\1\2\3\4", 4);
	record(2, "", 0);
	finish();
	REPORTED(false, NULL, NULL, " bare:                  02 00 00 00 64 00 00 00 01 02 03 04\n", 1);
	REPORTED(true, NULL, NULL, "\"fields\":{\"raw\":\"02 00 00 00 64 00 00 00 01 02 03 04\"}", 1);
	REPORTED(true, NULL, NULL, "\"fields\":{}", 1);
}

/* The kernel's own ftrace -------------------------------------------------------------- */

struct shape {
	const char *name, *format, *text;
	u8 data[64];
	u32 bytes;
};

#define U64(x)	(u8)(x), (u8)((x) >> 8), (u8)((x) >> 16), (u8)((x) >> 24), (u8)((x) >> 32), \
		(u8)((x) >> 40), (u8)((x) >> 48), (u8)((x) >> 56)
#define START	0xffffffff81000010ULL	/* "start", in the capture's symbols */

#define IP	"\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n"
#define PROBE	"\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;\n"

static const struct shape shapes[] = {
	{ "function", FORMAT_HEAD IP "\tfield:unsigned long parent_ip;\toffset:16;\tsize:8;\tsigned:0;\n\n"
	  "print fmt: \" %ps <-- %ps\", (void *)REC->ip, (void *)REC->parent_ip\n",
	  " start <-- start", { U64(START), U64(START + 4) }, 16 },
	{ "function_args", FORMAT_HEAD IP "\tfield:unsigned long parent_ip;\toffset:16;\tsize:8;\tsigned:0;\n"
	  "\tfield:unsigned long args[];\toffset:24;\tsize:0;\tsigned:0;\n\n"
	  "print fmt: \" %ps <-- %ps\", (void *)REC->ip, (void *)REC->parent_ip\n",
	  " start <-- start", { U64(START), U64(START) }, 16 },
	{ "print", FORMAT_HEAD IP "\tfield:char buf[];\toffset:16;\tsize:0;\tsigned:1;\n\n"
	  "print fmt: \"%ps: %s\", (void *)REC->ip, REC->buf\n",
	  "start: hello there", { U64(START), 'h', 'e', 'l', 'l', 'o', ' ', 't', 'h', 'e', 'r', 'e', '\n' },
	  21 },
	{ "print_empty", FORMAT_HEAD IP "\tfield:char buf[];\toffset:16;\tsize:0;\tsigned:1;\n\n"
	  "print fmt: \"%ps: %s\", (void *)REC->ip, REC->buf\n", "start:", { U64(START) }, 8 },
	{ "bprint", FORMAT_HEAD IP "\tfield:const char * fmt;\toffset:16;\tsize:8;\tsigned:0;\n"
	  "\tfield:u32 buf[];\toffset:24;\tsize:0;\tsigned:0;\n\n"
	  "print fmt: \"%ps: %s\", (void *)REC->ip, REC->fmt\n",
	  "ip=0xffffffff81000010 fmt=0xffffffff82000000 buf={1,0,0,0,2,0,0,0}",
	  { U64(START), U64(0xffffffff82000000ULL), 1, 0, 0, 0, 2, 0, 0, 0 }, 24 },
	{ "bputs", FORMAT_HEAD IP "\tfield:const char * str;\toffset:16;\tsize:8;\tsigned:0;\n\n"
	  "print fmt: \"%ps: %s\", (void *)REC->ip, REC->str\n",
	  "start: ffffffff82000000", { U64(START), U64(0xffffffff82000000ULL) }, 16 },
	{ "raw_data", FORMAT_HEAD "\tfield:unsigned int id;\toffset:8;\tsize:4;\tsigned:0;\n"
	  "\tfield:char buf[];\toffset:12;\tsize:0;\tsigned:1;\n\n"
	  "print fmt: \"id:%04x %08x\", REC->id, (int)REC->buf[0]\n",
	  "id=17 buf=ABCD", { 17, 0, 0, 0, 'A', 'B', 'C', 'D' }, 8 },
	{ "kprobe", FORMAT_HEAD PROBE "\tfield:__data_loc char[] arg1;\toffset:16;\tsize:4;\tsigned:1;\n\n"
	  "print fmt: \"(%lx) arg1=\\\"%s\\\"\", REC->__probe_ip, __get_str(arg1)\n",
	  "(ffffffff81000010) arg1=\"abc\"",
	  { U64(START), 20, 0, 4, 0, 'a', 'b', 'c', 0 }, 16 },
	{ "kprobe_numbers", FORMAT_HEAD PROBE "\tfield:s64 ret;\toffset:16;\tsize:8;\tsigned:1;\n"
	  "\tfield:u64 x;\toffset:24;\tsize:8;\tsigned:0;\n\n"
	  "print fmt: \"(%lx) ret=%Ld x=0x%Lx\", REC->__probe_ip, REC->ret, REC->x\n",
	  "(ffffffff81000010) ret=-2 x=0x2a", { U64(START), U64(-2ULL), U64(42ULL) }, 24 },
	{ "kprobe_array", FORMAT_HEAD PROBE "\tfield:u8 a[3];\toffset:16;\tsize:3;\tsigned:0;\n\n"
	  "print fmt: \"(%lx) a={%u,%u,%u}\", REC->__probe_ip, REC->a[0], REC->a[1], REC->a[2]\n",
	  "(ffffffff81000010) a={1,2,3}", { U64(START), 1, 2, 3 }, 11 },
	{ "kretprobe", FORMAT_HEAD "\tfield:unsigned long __probe_func;\toffset:8;\tsize:8;\tsigned:0;\n"
	  "\tfield:unsigned long __probe_ret_ip;\toffset:16;\tsize:8;\tsigned:0;\n\n"
	  "print fmt: \"(%lx <- %lx)\", REC->__probe_func, REC->__probe_ret_ip\n",
	  "(ffffffff81000010 <- 10)", { U64(START), U64(16ULL) }, 16 },
	{ "kprobe_symbol", FORMAT_HEAD PROBE "\tfield:u64 f;\toffset:16;\tsize:8;\tsigned:0;\n\n"
	  "print fmt: \"(%lx) f=%pS\", REC->__probe_ip, (void *)REC->f\n",
	  "(ffffffff81000010) f=start+0x10", { U64(START), U64(START) }, 16 },
	{ "kprobe_nameless", FORMAT_HEAD PROBE "\tfield:u64 f;\toffset:16;\tsize:8;\tsigned:0;\n\n"
	  "print fmt: \"(%lx) f=%pS\", REC->__probe_ip, (void *)REC->f\n",
	  "(ffffffff81000010) f=0x1234", { U64(START), U64(0x1234ULL) }, 16 },
	{ "uprobe", FORMAT_HEAD PROBE "\tfield:u32 a;\toffset:16;\tsize:4;\tsigned:0;\n\n"
	  "print fmt: \"(%lx) a=%u\", REC->__probe_ip, REC->a\n",
	  "(ffffffff81000010) a=9", { U64(START), 9, 0, 0, 0 }, 12 },
	{ "synthetic", FORMAT_HEAD "\tfield:u64 lat;\toffset:8;\tsize:8;\tsigned:0;\n"
	  "\tfield:char comm[8];\toffset:16;\tsize:8;\tsigned:1;\n\n"
	  "print fmt: \"lat=%llu, comm=%.*s\", REC->lat, 8, REC->comm\n",
	  NULL, { U64(5ULL), 'b', 'a', 's', 'h' }, 16 },
	{ "user_event", FORMAT_HEAD "\tfield:u32 count;\toffset:8;\tsize:4;\tsigned:0;\n\n"
	  "print fmt: \"count=%u\", REC->count\n", "count=3", { 3, 0, 0, 0 }, 4 },
	{ "funcgraph_entry", FORMAT_HEAD "\tfield:unsigned long func;\toffset:8;\tsize:8;\tsigned:0;\n"
	  "\tfield:int depth;\toffset:16;\tsize:4;\tsigned:1;\n\n"
	  "print fmt: \"--> %ps (%d)\", (void *)REC->func, REC->depth\n",
	  "--> start (2)", { U64(START), 2, 0, 0, 0 }, 12 },
	{ "kernel_stack", FORMAT_HEAD "\tfield:int size;\toffset:8;\tsize:4;\tsigned:1;\n"
	  "\tfield:unsigned long caller[2];\toffset:16;\tsize:16;\tsigned:0;\n\n"
	  "print fmt: \"\\t=> %ps\\n\\t=> %ps\\n\" \"\\t=> %ps\\n\", (void *)REC->caller[0], (void *)REC->caller[1], (void *)REC->caller[1]\n",
	  NULL, { 2, 0, 0, 0, 0, 0, 0, 0, U64(START), U64(START) }, 24 },
};

#define NR_SHAPES	(sizeof(shapes) / sizeof(shapes[0]))

static void ftrace_formats(void)
{
	struct braid_schema_event event = { .system = "ftrace" };
	char want[256];
	u32 k;

	begin(0);
	introduce();
	for (k = 0; k < NR_SHAPES; k++) {
		event.id = 10 + k;
		event.name = shapes[k].name;
		event.format = shapes[k].format;
		add_event(&event);
		record(event.id, shapes[k].data, shapes[k].bytes);
	}
	finish();
	for (k = 0; k < NR_SHAPES; k++) {
		if (!shapes[k].text)
			continue;
		snprintf(want, sizeof(want), "%s: %*s%s\n", shapes[k].name,
			 (int)strlen(shapes[k].name) < 21 ? 21 - (int)strlen(shapes[k].name) : 0, "",
			 shapes[k].text);
		REPORTED(false, shapes[k].name, NULL, want, 1);
	}
	REPORTED(false, "synthetic", NULL, "comm=bash", 1);
	REPORTED(false, "kernel_stack", NULL, "start", 3);
}

static const struct braid_event_format *format_of(const struct braid_stream *s, u32 id)
{
	size_t k;

	for (k = 0; k < s->nr_formats; k++)
		if (s->formats[k].id == id)
			return &s->formats[k];
	return NULL;
}

/* What a guest and a host call their events is printed: nothing in it controls a terminal. */
static void cleaned(void)
{
	struct braid_schema_event event = { .id = 2, .system = "a\033b", .name = "c\xff""d", .format = FORMAT_HEAD };
	static const char file[] = "name: c\xff""d\nID: 2\n" FORMAT_HEAD;
	struct braid_chunk_text text = { .kind = BRAID_TEXT_FORMAT, .name = "a\033b" };
	const struct braid_event_format *format;
	struct braid_source *source;
	char *names[] = { path };
	size_t k;

	begin(0);
	introduce();
	add_event(&event);
	synth_host(writer, 2, 5, SYNTH_START_NS, 1000);
	NEED(!braid_capture_put(writer, BRAID_CHUNK_TEXT, 2, &text, sizeof(text), file,
				strlen(file)));
	NEED(!braid_capture_finish(writer));
	synth_guest_free(&guest);
	NEED(!braid_source_open_captures(&source, names, 1, NULL));
	CHECK_EQ(source->nr_streams, 2);
	for (k = 0; k < source->nr_streams; k++) {
		format = format_of(source->streams[k], 2);
		NEED(format);
		CHECK(!strcmp(format->system, "a?b") && !strcmp(format->name, "c?d"));
	}
	braid_source_free(source);
}

int main(void)
{
	snprintf(path, sizeof(path), "/tmp/braid-names-%d", getpid());
	RUN(id_spaces);
	RUN(sub_events);
	RUN(registered_again);
	RUN(raw_bytes);
	RUN(no_fields);
	RUN(ftrace_formats);
	RUN(cleaned);
	unlink(path);
	return VERDICT();
}
