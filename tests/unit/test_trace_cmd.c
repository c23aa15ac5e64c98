// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Exports to trace.dat, of captures with all special cases: trace-cmd prints the same as our
 * report.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/export/trace_dat/form.h"
#include "host_agent/export/trace_dat/trace_dat.h"
#include "host_agent/util/error.h"
#include "shared/schema.h"
#include "tests/unit/check.h"
#include "tests/unit/format_text.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/state_sums.h"

#define COMPARE	"tests/e2e/trace_cmd.py"
#define AGENT	"build/address/tracebraid"

#define FIELDS									\
	"\tfield:s16 small;\toffset:8;\tsize:2;\tsigned:1;\n"			\
	"\tfield:u8 tiny;\toffset:10;\tsize:1;\tsigned:0;\n"			\
	"\tfield:char name[5];\toffset:11;\tsize:5;\tsigned:0;\n"		\
	"\tfield:u64 address;\toffset:16;\tsize:8;\tsigned:0;\n"		\
	"\tfield:s64 large;\toffset:24;\tsize:8;\tsigned:1;\n"			\
	"\tfield:__data_loc char[] text;\toffset:32;\tsize:4;\tsigned:0;\n\n"

enum { ID_TICK = 1, ID_FIELDS, ID_SYMBOL, ID_GARBAGE, ID_NONE, ID_BLOB, ID_PRINT, ID_FOLLOWS,
       ID_POINTER, ID_STACK };

static const struct braid_schema_event events[] = {
	{ .id = ID_FIELDS, .system = "odd", .name = "calls",
	  .format = FORMAT_HEAD FIELDS "print fmt: \"%s\", call_me(REC->small)\n" },
	{ .id = ID_SYMBOL, .system = "odd", .name = "at-it",
	  .format = FORMAT_HEAD FIELDS "print fmt: \"at %pS by %s\", (void *)REC->address, REC->name\n" },
	{ .id = ID_GARBAGE, .system = "odd", .name = "garbage", .format = "format:\nno fields\n" },
	{ .id = ID_BLOB, .system = "odd", .name = "blob",
	  .format = FORMAT_HEAD "\tfield:__data_loc char[] text;\toffset:8;\tsize:4;\tsigned:0;\n\n"
		    "print fmt: \"%s\", __get_str(text)\n" },
	{ .id = ID_PRINT, .system = "ftrace", .name = "bprint",
	  .format = FORMAT_HEAD "\tfield:u64 ip;\toffset:8;\tsize:8;\tsigned:0;\n"
		    "\tfield:u64 fmt;\toffset:16;\tsize:8;\tsigned:0;\n\n"
		    "print fmt: \"%ps: %s\", (void *)REC->ip, REC->fmt\n" },
	{ .id = ID_FOLLOWS, .system = "odd", .name = "follows",
	  .format = FORMAT_HEAD "\tfield:u32 count;\toffset:8;\tsize:4;\tsigned:0;\n"
		    "\tfield:u8 bytes[4];\toffset:12;\tsize:4;\tsigned:0;\n\n"
		    "print fmt: \"%s\", __print_hex(REC->bytes, REC->count)\n" },
	{ .id = ID_POINTER, .system = "odd", .name = "pointer",
	  .format = FORMAT_HEAD "\tfield:const char * s;\toffset:8;\tsize:8;\tsigned:0;\n\n"
		    "print fmt: \"<%s>\", REC->s\n" },
	{ .id = ID_STACK, .system = "tracebraid", .name = "stack",
	  .format = FORMAT_HEAD "\tfield:unsigned int kernel;\toffset:8;\tsize:4;\tsigned:0;\n"
		    "\tfield:unsigned int user;\toffset:12;\tsize:4;\tsigned:0;\n"
		    "\tfield:__data_loc u64[] stack;\toffset:16;\tsize:4;\tsigned:0;\n"
		    "\tfield:__data_loc u64[] user_stack;\toffset:20;\tsize:4;\tsigned:0;\n\n"
		    "print fmt: \"%s%s\", __get_dynamic_array_len(stack) ? \"\" : \"unknown\", "
		    "__get_stacktrace(stack)\n" },
	/* What trace-cmd would read from before its copies of, and odd ones. */
	{ .flags = BRAID_EVENT_GONE, .id = BRAID_TEXT_ID, .system = "",
	  .name = BRAID_TEXT_PRINTK_NAME,
	  .format = "0x10 : \"Start switch\"\n0x11 : \"\"\n0x12 : \"ab\"\nno line\n0x13 :\n0x14"
		    "\n0x15 : \"bell\a:%s%n \\\"quoted\\\"\"\n0x10 : \"later\"\n:\n\"\n" },
};

struct fields {
	struct braid_record record;
	s16 small;
	u8 tiny;
	char name[5];
	u64 address;
	s64 large;
	u32 text;
	char data[8];
};

struct follows {
	struct braid_record record;
	u32 count;
	u8 bytes[4];
};

struct stack {
	struct braid_record record;
	u32 kernel, user, stack, user_stack, more;
};

static char folder[] = "/tmp/tracebraid-XXXXXX";
static char path[64];

static void put_events(struct braid_capture_writer *w, u32 stream)
{
	size_t room = 16 << 10, k;
	struct braid_directory *dir = calloc(1, sizeof(*dir) + room);
	u32 used = 0;

	NEED(dir);
	for (k = 0; k < sizeof(events) / sizeof(events[0]); k++) {
		struct braid_schema_event copy = events[k];

		NEED(!braid_schema_append(dir, room, &used, &copy));
	}
	NEED(!braid_capture_put(w, BRAID_CHUNK_EVENTS, stream, NULL, 0, dir->data, used));
	free(dir);
}

static void put_threads(struct braid_capture_writer *w, u32 stream)
{
	struct braid_vcpu_thread threads[] = { { .vcpu = 0, .tid = 4000 },
					       { .vcpu = 1, .tid = 4001 } };

	NEED(!braid_capture_put(w, BRAID_CHUNK_VCPU_THREADS, stream, NULL, 0, threads,
				sizeof(threads)));
}

static void put_note(struct braid_capture_writer *w, struct synth_guest *g, const char *text)
{
	struct braid_chunk_note note = { .host_ns = synth_host_ns(g, g->now) };

	NEED(!braid_capture_put(w, BRAID_CHUNK_NOTE, g->stream, &note, sizeof(note), text,
				strlen(text)));
}

/* With or without a text at the stated offset. */
static void put_fields(struct synth_guest *g, u16 id, bool sound)
{
	struct fields f = {
		.record = { .common_type = id, .common_pid = 100 },
		.small = -7, .tiny = 200, .name = "four", .address = 0xffffffff81000018, .large = -1,
		.text = sound ? sizeof("inside") << 16 | offsetof(struct fields, data) : 0xffffffff,
		.data = "inside",
	};

	g->now += 1000;
	NEED(synth_event(g, 0, &f, sizeof(f)));
}

static void put_follows(struct synth_guest *g, u32 count)
{
	struct follows f = {
		.record = { .common_type = ID_FOLLOWS, .common_pid = 100 }, .count = count,
		.bytes = { 1, 2, 3, 4 },
	};

	g->now += 1000;
	NEED(synth_event(g, 0, &f, sizeof(f)));
}

/* Number 0 is unknown; others have as many frames. */
static void put_stack(struct synth_guest *g, u32 number)
{
	struct stack s = {
		.record = { .common_type = ID_STACK, .common_pid = 100 }, .kernel = number,
		.stack = sizeof(s), .user_stack = sizeof(s),
	};

	g->now += 1000;
	NEED(synth_event(g, 0, &s, sizeof(s)));
}

static void put_stack_table(struct braid_capture_writer *w, u32 stream)
{
	static const u64 words[] = {
		1 | 1ULL << 32, 0xffffffff81000018,
		2 | 2ULL << 32, 0xffffffff81000010, 0xffffffff80000000,
		3 | 3ULL << 32, 0xffffffff81000018, 0xffffffff80000000, 0xffffffff81000018,
	};

	NEED(!braid_capture_put(w, BRAID_CHUNK_STACKS, stream, NULL, 0, words, sizeof(words)));
}

static void put_pointers(struct synth_guest *g)
{
	u64 record[2] = { ID_POINTER | 100ULL << 32 };

	for (record[1] = 0x10; record[1] <= 0x16; record[1]++) {
		if (record[1] == 0x11)
			continue;	/* trace-cmd shows its address */
		g->now += 1000;
		NEED(synth_event(g, 0, record, sizeof(record)));
	}
}

static void put_bytes(struct synth_guest *g, u16 id, u32 bytes, u8 fill)
{
	struct braid_record record = { .common_type = id, .common_pid = 101 };
	u8 *payload = malloc(bytes);
	u32 text = (bytes - 12) << 16 | 12;

	NEED(payload);
	memset(payload, fill, bytes);
	memcpy(payload, &record, sizeof(record));
	memcpy(payload + sizeof(record), &text, sizeof(text));
	payload[bytes - 1] = 0;
	g->now += 1000;
	NEED(synth_event(g, 1, payload, bytes));
	free(payload);
}

static void put_odd(struct synth_guest *g)
{
	u32 k;

	for (k = ID_FIELDS; k <= ID_SYMBOL; k++) {
		put_fields(g, k, true);
		put_fields(g, k, false);	/* its text is missing */
	}
	put_bytes(g, ID_GARBAGE, 40, 0xa5);
	put_bytes(g, ID_NONE, 24, 0x5a);
	put_bytes(g, ID_PRINT, 24, 0x11);
	put_follows(g, 3);
	for (k = 0; k <= 3; k++)
		put_stack(g, k);
	put_pointers(g);
	synth_tick(g, 1, 1, "");
	g->now += 1ULL << 27;			/* ns: more than a delta can express */
	synth_tick(g, 1, 2, "later");
	g->now += 1ULL << 40;
	synth_tick(g, 1, 3, "much later");
	put_bytes(g, ID_BLOB, 4040, 'a');	/* as much as fits in a page, and more */
	put_bytes(g, ID_BLOB, 4044, 'b');
	put_bytes(g, ID_BLOB, 15000, 'c');
	put_bytes(g, ID_NONE, 16000, 0xee);
}

static void odd_capture(bool with_host)
{
	struct synth_guest_params params = {
		.name = "../we b1", .incarnation = 3, .boot = 3, .ppm = 1, .start_ns = SYNTH_START_NS,
		.nr_slots = 16, .subbuf_bytes = 32768,
	};
	struct synth_guest_params raw = {
		.name = "raw", .incarnation = 4, .boot = 4, .start_ns = SYNTH_START_NS,
		.nr_slots = 4, .subbuf_bytes = 512, .flags = BRAID_BUFFER_RAW,
	};
	struct braid_capture_writer *w = synth_capture(path);
	struct synth_guest a, b;

	synth_guest_init(&a, &params);
	synth_guest_init(&b, &raw);
	synth_begin(w, &a, 1);
	synth_begin(w, &b, 2);
	put_events(w, 1);
	put_threads(w, 1);
	put_stack_table(w, 1);
	if (with_host)
		synth_host(w, 3, 50, SYNTH_START_NS + 100, 3000);
	synth_sample(w, &a, 500, 500);
	synth_sample(w, &b, 500, 500);
	put_note(w, &a, "paused by \"hand\": 100%");
	put_odd(&a);
	b.now += 5000;
	NEED(synth_event(&b, 0, "seven b", 7));
	NEED(synth_event(&b, 1, "four", 4));
	synth_sample(w, &a, 500, 500);
	synth_sample(w, &b, 500, 500);
	synth_drain(w, &a, 0);
	synth_drain(w, &b, 0);
	synth_end(w, &a, BRAID_END_STOPPED);
	synth_end(w, &b, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	synth_guest_free(&a);
	synth_guest_free(&b);
}

/* Both forms, compared by the script, which prints differences. */
static bool trace_cmd_agrees(const char *select)
{
	char command[256];

	snprintf(command, sizeof(command), COMPARE " --select='%s' " AGENT " %s >&2", select, path);
	return !system(command);
}

static void usual(void)
{
	synth_standard(path);
	CHECK(trace_cmd_agrees(""));
}

static void selected(void)
{
	synth_standard(path);
	CHECK(trace_cmd_agrees("--stream=guest2"));
	CHECK(trace_cmd_agrees("--cpu=1"));
	CHECK(trace_cmd_agrees("-e tock"));	/* guests' losses are reported separately */
	CHECK(trace_cmd_agrees("--since=+0.002 --until=+0.004 --comm=first"));
	CHECK(trace_cmd_agrees("--since=+0.0001 --stream=guest2"));	/* whose CPU 1 is first */
}

static void odd(void)
{
	odd_capture(true);
	CHECK(trace_cmd_agrees(""));
}

static void no_host(void)
{
	odd_capture(false);
	CHECK(trace_cmd_agrees(""));
}

/* Hosts' pages may be so large that an event's length exceeds trace-cmd's field. */
static void large(void)
{
	enum { PAGE = 256 << 10, EVENT = 100000 };
	struct braid_chunk_stream head = {
		.kind = BRAID_STREAM_HOST, .nr_cpus = 1, .subbuf_bytes = PAGE,
		.host_ns = SYNTH_START_NS, .name = "host",
	};
	struct braid_chunk_host_page at = { .bytes = PAGE };
	struct {
		u64 ns, commit;
		u32 header, length;
		struct braid_record record;
		u8 rest[PAGE];
	} *page = calloc(1, sizeof(*page));
	struct braid_capture_writer *w = synth_capture(path);

	NEED(page);
	page->ns = SYNTH_START_NS;
	page->commit = 8 + EVENT;
	page->length = EVENT + 4;
	page->record.common_type = ID_NONE;
	memset(page->rest, 0xab, EVENT);
	NEED(!braid_capture_put(w, BRAID_CHUNK_STREAM, 1, &head, sizeof(head), NULL, 0));
	NEED(!braid_capture_put(w, BRAID_CHUNK_HOST_PAGE, 1, &at, sizeof(at), page, PAGE));
	NEED(!braid_capture_finish(w));
	free(page);
	CHECK(trace_cmd_agrees(""));
}

static char *inputs[] = { path };

static int export_with(const char *out, struct braid_walk_options options)
{
	struct braid_walk_totals totals;
	struct braid_source *source;
	int err;

	options.inputs = inputs;
	options.nr_inputs = 1;
	NEED(!braid_source_open_captures(&source, inputs, 1, NULL));
	err = braid_export_trace_dat(out, source, &options, &totals);
	braid_source_free(source);
	return err;
}

static int export(const char *out)
{
	return export_with(out, (struct braid_walk_options){ 0 });
}

/* An event with a number that makes a printer read beyond the event is written as bytes. */
static void forged_number(void)
{
	struct synth_guest_params params = {
		.name = "forged_number", .incarnation = 5, .boot = 5, .start_ns = SYNTH_START_NS,
		.nr_slots = 4, .subbuf_bytes = 512,
	};
	struct braid_capture_writer *w = synth_capture(path);
	char command[256], line[256] = "";
	struct synth_guest g;
	bool found = false;
	FILE *said;

	synth_guest_init(&g, &params);
	synth_begin(w, &g, 1);
	put_events(w, 1);
	put_follows(&g, 0x10000000);
	synth_sample(w, &g, 10, 10);
	synth_drain(w, &g, 0);
	synth_end(w, &g, BRAID_END_STOPPED);
	synth_guest_free(&g);
	NEED(!braid_capture_finish(w));
	snprintf(command, sizeof(command), "%s/l.dat", folder);
	CHECK_EQ(export(command), 0);
	CHECK(!unlink(command));
	snprintf(command, sizeof(command), "trace-cmd report -N -i %s/l-forged_number.dat", folder);
	said = popen(command, "r");
	NEED(said);
	while (fgets(line, sizeof(line), said))
		found |= strstr(line, "follows: 08 00 00 00 64 00 00 00 00 00 00 10 01") != NULL;
	CHECK_EQ(pclose(said), 0);
	CHECK(found);
	snprintf(command, sizeof(command), "%s/l-forged_number.dat", folder);
	CHECK(!unlink(command));
}

static void run(const char *format, const char *a, const char *b)
{
	char command[512];

	snprintf(command, sizeof(command), format, a, b);
	CHECK_EQ(system(command), 0);
}

/* vCPUs' states are in a buffer of their own: trace-cmd adds up what the state machine does. */
static void vcpu_states(void)
{
	struct braid_walk_options options = { .states = true };
	char plain[128], with[128], sums[128];

	run("build/make_big_capture %s 12000 >%s", path, "/dev/null");
	snprintf(plain, sizeof(plain), "%s/s", folder);
	snprintf(with, sizeof(with), "%s/t", folder);
	snprintf(sums, sizeof(sums), "%s/sums", folder);
	state_sums(path, &options, sums);
	CHECK_EQ(export(plain), 0);
	CHECK_EQ(export_with(with, options), 0);
	run("tests/unit/compare_states.py %s trace-cmd %s-guest[12].dat >&2", sums, with);
	run("cmp %s.dat %s.dat", plain, with);
	run("bash -c 'for k in 1 2; do cmp <(trace-cmd report -t -i %s-guest$k.dat | sed \"s/^ *//\") "
	    "<(trace-cmd report -t -i %s-guest$k.dat | grep -v ^tracebraid: | sed \"s/^ *//\") "
	    "|| exit 1; done'", plain, with);
	options.from = (struct braid_walk_moment){ .kind = BRAID_MOMENT_SINCE, .ns = 3000000 };
	options.to = (struct braid_walk_moment){ .kind = BRAID_MOMENT_SINCE, .ns = 7500000 };
	state_sums(path, &options, sums);
	CHECK_EQ(export_with(with, options), 0);
	run("tests/unit/compare_states.py %s trace-cmd %s-guest[12].dat >&2", sums, with);
	run("rm %s.dat %s-*.dat", plain, plain);
	run("rm %s.dat %s-*.dat", with, with);
	CHECK(!unlink(sums));
}

/* Guests choose their names: files stay in the folder, and each guest has its own. */
static void names(void)
{
	struct synth_guest_params params = {
		.name = "same", .incarnation = 5, .boot = 5, .start_ns = SYNTH_START_NS,
		.nr_slots = 4, .subbuf_bytes = 512,
	};
	static const char *const made[] = { "n.dat", "n-same.dat", "n-same+2.dat" };
	struct braid_capture_writer *w = synth_capture(path);
	struct synth_guest guests[2];
	char out[128];
	struct stat st;
	u32 k;

	for (k = 0; k < 2; k++) {
		params.incarnation = params.boot = 5 + k;
		synth_guest_init(&guests[k], &params);
		synth_begin(w, &guests[k], 1 + k);
		synth_tick(&guests[k], 0, k, "me");
		synth_sample(w, &guests[k], 10, 10);
		synth_drain(w, &guests[k], 0);
		synth_end(w, &guests[k], BRAID_END_STOPPED);
		synth_guest_free(&guests[k]);
	}
	NEED(!braid_capture_finish(w));
	snprintf(out, sizeof(out), "%s/n", folder);
	CHECK_EQ(export(out), 0);
	for (k = 0; k < 3; k++) {
		snprintf(out, sizeof(out), "%s/%s", folder, made[k]);
		CHECK(!stat(out, &st) && (st.st_mode & 0777) == 0600);
		CHECK(!unlink(out));
	}
	odd_capture(true);
	snprintf(out, sizeof(out), "%s/o.dat", folder);
	CHECK_EQ(export(out), 0);
	CHECK(!unlink(out));
	snprintf(out, sizeof(out), "%s/o-.._we_b1.dat", folder);
	CHECK(!unlink(out));
	snprintf(out, sizeof(out), "%s/o-raw.dat", folder);
	CHECK(!unlink(out));
}

/* A capture with the name of one of the files, or of a temporary one, is not overwritten. */
static void own_input(void)
{
	static const char *const taken[] = { "q.dat", "q.dat.part", "q-guest2.dat.part" };
	static char moved[128];
	char out[128];
	u32 k;

	snprintf(out, sizeof(out), "%s/q", folder);
	for (k = 0; k < 3; k++) {
		synth_standard(path);
		snprintf(moved, sizeof(moved), "%s/%s", folder, taken[k]);
		NEED(!rename(path, moved));
		inputs[0] = moved;
		CHECK_EQ(export(out), -EINVAL);
		CHECK(strstr(braid_failure(), "an input file"));
		inputs[0] = path;
		CHECK(!rename(moved, path));
		CHECK(trace_cmd_agrees(""));
	}
}

/* A partial file is replaced, and a link in its place is not followed. */
static void left_over(void)
{
	static const char *const made[] = { "r.dat", "r-guest1.dat", "r-guest2.dat" };
	char part[128], other[128], out[128];
	struct stat st;
	u32 k;

	synth_standard(path);
	snprintf(out, sizeof(out), "%s/r", folder);
	snprintf(part, sizeof(part), "%s/r.dat.part", folder);
	snprintf(other, sizeof(other), "%s/other", folder);
	NEED(!close(open(other, O_WRONLY | O_CREAT | O_EXCL, 0644)));
	NEED(!symlink(other, part));
	CHECK_EQ(export(out), 0);
	CHECK(!stat(other, &st) && !st.st_size);
	NEED(!unlink(other));
	for (k = 0; k < 3; k++) {
		snprintf(out, sizeof(out), "%s/%s", folder, made[k]);
		CHECK(!lstat(out, &st) && S_ISREG(st.st_mode) && (st.st_mode & 0777) == 0600);
		CHECK(!unlink(out));
	}
}

/* A folder is no name for files: ".dat" in it would be hidden. */
static void a_folder(void)
{
	char out[128];

	synth_standard(path);
	snprintf(out, sizeof(out), "%s/", folder);
	CHECK_EQ(export(out), -EISDIR);
	CHECK(strstr(braid_failure(), "name a file in it"));
}

/* An incomplete export leaves no files. */
static void no_room(void)
{
	char out[128];

	synth_standard(path);
	snprintf(out, sizeof(out), "%s/p-guest2.dat", folder);
	NEED(!mkdir(out, 0700));
	snprintf(out, sizeof(out), "%s/p.dat", folder);
	CHECK(export(out) < 0);
	CHECK(access(out, F_OK));
	snprintf(out, sizeof(out), "%s/p.dat.part", folder);
	CHECK(access(out, F_OK));
	snprintf(out, sizeof(out), "%s/p-guest1.dat.part", folder);
	CHECK(access(out, F_OK));
	snprintf(out, sizeof(out), "%s/p-guest2.dat", folder);
	NEED(!rmdir(out));
}

int main(void)
{
	NEED(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/capture", folder);
	RUN(usual);
	RUN(selected);
	RUN(odd);
	RUN(no_host);
	RUN(large);
	RUN(forged_number);
	RUN(vcpu_states);
	RUN(names);
	RUN(own_input);
	RUN(left_over);
	RUN(no_room);
	RUN(a_folder);
	unlink(path);
	CHECK(!rmdir(folder));
	return VERDICT();
}
