// SPDX-License-Identifier: GPL-2.0-or-later
/* Texts of the kernel's list of constant ones: trace_printk(), and pointers that %s prints. */
#include <string.h>
#include <unistd.h>

#include "host_agent/format/constants.h"
#include "host_agent/format/format.h"
#include "shared/schema.h"
#include "tests/unit/bprint_format.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"

#define FMT	0xffffffff82000000ULL

static struct braid_event_format formats[] = {
	{ .id = 6, .system = "ftrace", .name = "bprint", .format = BPRINT_FORMAT,
	  .format_bytes = sizeof(BPRINT_FORMAT) - 1 },
	{ .id = 7, .system = "ftrace", .name = "bputs", .format = FORMAT_HEAD
	  "\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n"
	  "\tfield:const char * str;\toffset:16;\tsize:8;\tsigned:0;\n\n"
	  "print fmt: \"%ps: %s\", (void *)REC->ip, REC->str\n" },
	{ .id = 8, .system = "rcu", .name = "stage", .format = FORMAT_HEAD
	  "\tfield:const char * s;\toffset:8;\tsize:8;\tsigned:0;\n\n"
	  "print fmt: \"<%s|%20s|%.3s>\", REC->s, REC->s, REC->s\n" },
};

static struct braid_symbol symbols[] = {
	{ .address = 0xffffffff81000010, .name = "my_function+0x10/0x40" },
};

/* What an event prints, with a list. */
static const char *text_of(const char *list, const void *payload, u32 bytes)
{
	static char kept[1024];
	struct braid_stream stream = {
		.kind = BRAID_STREAM_HOST, .formats = formats, .nr_formats = 3,
		.printk_formats = list, .symbols = symbols, .nr_symbols = 1,
	};
	struct braid_stream *streams[] = { &stream };
	struct braid_source source = { .streams = streams, .nr_streams = 1 };
	struct braid_ring ring = { .stream = &stream };
	struct braid_item item = { .stream = &stream, .ring = &ring, .payload_bytes = bytes };
	u8 *copy = malloc(bytes);	/* of exactly this size */
	struct braid_text out = { 0 };
	struct braid_format *f;
	size_t k;

	NEED(copy);
	for (k = 0; k < 3; k++)
		formats[k].format_bytes = strlen(formats[k].format);
	item.payload = memcpy(copy, payload, bytes);
	NEED(!braid_format_open(&f, &source));
	braid_format_text_of(&item, braid_format_event(f, &item), &out);
	snprintf(kept, sizeof(kept), "%.*s", (int)out.bytes, out.data ? out.data : "");
	braid_format_close(f);
	braid_text_free(&out);
	free(copy);
	return kept;
}

/* An event of trace_printk() with this format and these arguments. */
static const char *printed(const char *format, const void *args, u32 bytes)
{
	u64 head[3] = { 6 | 42ULL << 32, 0xffffffff81000004, FMT };
	char list[1024];
	u8 payload[512];

	snprintf(list, sizeof(list), "0xffffffff81ffffff : \"no\"\n"
		 "broken\n0x12\n0xffffffff82000000 : \"%s\"\n0xffffffff82000008 : \"no\"", format);
	memcpy(payload, head, sizeof(head));
	memcpy(payload + BPRINT_ARGS_AT, args, bytes);
	return text_of(list, payload, BPRINT_ARGS_AT + bytes);
}

static bool is(const char *text, const char *wanted)
{
	if (strcmp(text, wanted))
		fprintf(stderr, "%s, not %s\n", text, wanted);
	return !strcmp(text, wanted);
}

#define IS(format, wanted, ...) do {						\
		const u8 args_[] = { __VA_ARGS__ };				\
		CHECK(is(printed(format, args_, sizeof(args_)), "my_function: " wanted)); \
	} while (0)

/* As the kernel's vbin_printf() lays them out. */
static void trace_printk(void)
{
	IS("answer=%d\\n", "answer=17", 17, 0, 0, 0);
	IS("100%% \\\"%u\\\" %s|%5d|%-5d|%05d", "100% \"1\" ab|    2|3    |00004",
	   1, 0, 0, 0, 'a', 'b', 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0);
	IS("%d %lx", "-1 807060504030201", 255, 255, 255, 255, 1, 2, 3, 4, 5, 6, 7, 8);
	IS("%c%c%hd%hhu%hhu", "xy-2" "57", 'x', 'y', 254, 255, 5, 7);
	IS("%s%lld|", "a5|", 'a', 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0);
	IS("%*d|%-*d|%.*s|%6.2s|", "   7|8  |abc|    de|", 4, 0, 0, 0, 7, 0, 0, 0, 3, 0, 0, 0,
	   8, 0, 0, 0, 3, 0, 0, 0, 'a', 'b', 'c', 'd', 0, 'd', 'e', 'f', 0);
	IS("%ps %pS %p", "my_function my_function+0x10 0x12",
	   4, 0, 0, 0x81, 255, 255, 255, 255, 0x10, 0, 0, 0x81, 255, 255, 255, 255,
	   0x12, 0, 0, 0, 0, 0, 0, 0);
	IS("from %pI4 to %pM.", "from 1.2.3.4 to aa.", '1', '.', '2', '.', '3', '.', '4', 0,
	   'a', 'a', 0);
	IS("%#x %+d %zu", "0x10 +3 4", 16, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0);
}

/* Arguments that are not there, and formats that no kernel has. */
static void too_few(void)
{
	IS("a %d b %d c", "a 1 b ...", 1, 0, 0, 0, 2, 0, 0);
	IS("%s|", "...", 'a', 'b');
	IS("%", "...", 1);
	IS("%y", "...", 1);
	IS("%9999999999d%.99999999d", "...", 1);
	CHECK(is(printed("none", "", 0), "my_function: none"));
}

/* Without its format an event shows its fields. */
static void unknown_formats(void)
{
	u64 event[4] = { 6 | 42ULL << 32, 16, FMT + 1, 9 };

	CHECK(is(text_of("0xffffffff82000000 : \"x\"\n", event, 28),
		 "ip=0x10 fmt=0xffffffff82000001 buf={9,0,0,0}"));
	CHECK(is(text_of(NULL, event, 28), "ip=0x10 fmt=0xffffffff82000001 buf={9,0,0,0}"));
}

static void pointers(void)
{
	static const char list[] = "0xffffffff82000000 : \"Start switch\"\n0x10 : \"bell\a\"\n";
	u64 puts[3] = { 7 | 42ULL << 32, 0xffffffff81000000, FMT };
	u64 stage[2] = { 8 | 42ULL << 32, FMT };

	CHECK(is(text_of(list, puts, sizeof(puts)), "my_function: Start switch"));
	CHECK(is(text_of(list, stage, sizeof(stage)), "<Start switch|        Start switch|Sta>"));
	stage[1] = 0x10;
	CHECK(is(text_of(list, stage, sizeof(stage)),
		 "<bell?|               bell?|bel>"));
	stage[1] = 0x11;
	CHECK(is(text_of(list, stage, sizeof(stage)), "<11|11|11>"));
	CHECK(is(text_of(NULL, stage, sizeof(stage)), "<11|11|11>"));
}

/* A recording of ours has the list, too. */
static void in_captures(void)
{
	struct braid_chunk_stream head = { .kind = BRAID_STREAM_HOST, .nr_cpus = 1, .name = "host" };
	struct braid_chunk_text text = { .kind = BRAID_TEXT_PRINTK };
	static const char list[] = "0x10 : \"one\"\n";
	struct braid_capture_writer *w;
	struct braid_source *source;
	char path[64], *names[] = { path };

	snprintf(path, sizeof(path), "/tmp/braid-%d.braid", getpid());
	w = synth_capture(path);
	NEED(!braid_capture_put(w, BRAID_CHUNK_STREAM, 1, &head, sizeof(head), NULL, 0));
	NEED(!braid_capture_put(w, BRAID_CHUNK_TEXT, 1, &text, sizeof(text), list, strlen(list)));
	NEED(!braid_capture_finish(w));
	NEED(!braid_source_open_captures(&source, names, 1, NULL));
	CHECK(source->nr_streams == 1 && source->streams[0]->printk_formats &&
	      !strcmp(source->streams[0]->printk_formats, list));
	braid_source_free(source);
	unlink(path);
}

/* The list of a guest with @entry in its directory, "" if it has none. */
static const char *list_of_guest(struct braid_schema_event entry, size_t *nr_formats)
{
	static char kept[64];
	static struct {
		struct braid_directory dir;
		u8 room[256];
	} d;
	struct braid_source *source;
	struct synth_guest_params params = {
		.name = "guest", .incarnation = 5, .boot = 1, .start_ns = SYNTH_START_NS,
		.nr_slots = 8, .subbuf_bytes = 4096,
	};
	char path[64], *names[] = { path };
	struct braid_capture_writer *w;
	struct synth_guest g;
	const char *list;
	u32 used = 0;

	snprintf(path, sizeof(path), "/tmp/braid-%d.braid", getpid());
	w = synth_capture(path);
	synth_guest_init(&g, &params);
	synth_begin(w, &g, 1);
	NEED(!braid_schema_append(&d.dir, sizeof(d.room), &used, &entry));
	NEED(!braid_capture_put(w, BRAID_CHUNK_EVENTS, 1, NULL, 0, d.dir.data, used));
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	synth_guest_free(&g);
	NEED(!braid_source_open_captures(&source, names, 1, NULL) && source->nr_streams == 1);
	unlink(path);
	*nr_formats = source->streams[0]->nr_formats;
	list = source->streams[0]->printk_formats;
	snprintf(kept, sizeof(kept), "%s", list ? list : "");
	braid_source_free(source);
	return kept;
}

/* A guest's list is an entry of its directory, which is no event. */
static void in_directories(void)
{
	struct braid_schema_event entry = {
		.flags = BRAID_EVENT_GONE, .id = BRAID_TEXT_ID, .system = "",
		.name = BRAID_TEXT_PRINTK_NAME, .format = "0x10 : \"one\"\n",
	};
	size_t least, nr;

	entry.name = "a text of the future";
	CHECK(is(list_of_guest(entry, &least), ""));
	entry.name = BRAID_TEXT_PRINTK_NAME;
	CHECK(is(list_of_guest(entry, &nr), entry.format));
	CHECK_EQ(nr, least);
	entry.system = "module";
	CHECK(is(list_of_guest(entry, &nr), ""));
	CHECK_EQ(nr, least + 1);
}

int main(void)
{
	RUN(trace_printk);
	RUN(too_few);
	RUN(unknown_formats);
	RUN(pointers);
	RUN(in_captures);
	RUN(in_directories);
	return VERDICT();
}
