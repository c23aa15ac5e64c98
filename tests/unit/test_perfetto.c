// SPDX-License-Identifier: GPL-2.0-or-later
/* Perfetto's format: Google's protobuf reads the same as the report, for any names from guests. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/export/export.h"
#include "host_agent/export/perfetto/form.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"
#include "shared/schema.h"
#include "tests/unit/check.h"
#include "tests/unit/format_text.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/report_text.h"
#include "tests/unit/scratch.h"
#include "tests/unit/state_sums.h"

#define BIG_EVENTS	"12000"
#define MANY_CPUS	2000u

static char *capture, *json, *trace, *states;

static const struct braid_walk_options all;
static const struct braid_walk_options wall = { .realtime = true };

/* The last line that a command prints, errors included. */
static void last_line(const char *command, char *line, size_t bytes)
{
	FILE *from = popen(command, "r");

	NEED(from);
	*line = '\0';
	while (fgets(line, bytes, from))
		;
	CHECK_EQ(pclose(from), 0);
}

static int export(const struct braid_walk_options *options)
{
	const struct braid_export_form *form = braid_export_form_by_name("perfetto");
	struct braid_walk_totals totals;
	struct braid_source *source;
	char *names[] = { capture };
	int err;

	NEED(form && !braid_source_open_captures(&source, names, 1, NULL));
	err = braid_export_run(form, trace, source, options, &totals);
	braid_source_free(source);
	return err;
}

/* Exports, and compares everything with the report; the script's output must contain @want. */
static void compare(const struct braid_walk_options *options, const char *want)
{
	char *text = report_text(capture, true, options, NULL), line[512], command[256];
	FILE *to = fopen(json, "w");

	NEED(to && fputs(text, to) >= 0 && !fclose(to));
	free(text);
	state_sums(capture, options, states);
	CHECK_EQ(export(options), 0);
	snprintf(command, sizeof(command), "tests/unit/compare_perfetto.py %s %s %s 2>&1", json,
		 trace, states);
	last_line(command, line, sizeof(line));
	if (!strstr(line, want))
		fprintf(stderr, "'%s' is not in: %s\n", want, line);
	CHECK(strstr(line, want));
}

static void standard(void)
{
	struct braid_walk_options few = { .stream = "guest2" };

	synth_standard(capture);
	compare(&all, "857 events, 193 lost, 2 own, 0 slices");
	compare(&few, "193 lost, 1 own, 0 slices");
}

/* Without events there is a trace that can be read, whatever the capture has. */
static void empty(void)
{
	struct braid_capture_writer *w;
	u32 nr;

	for (nr = 0; nr < 2; nr++) {
		w = synth_capture(capture);
		if (nr)
			synth_host(w, 1, 0, SYNTH_START_NS, 1000);
		NEED(!braid_capture_finish(w));
		compare(&all, "0 events, 0 lost");
	}
}

/* Wall time is written in addition to the host's clock, and is the timeline on request. */
static void wall_time(void)
{
	const u64 start = 1700000000123456789;

	synth_standard_at(capture, start - SYNTH_START_NS);
	compare(&all, "857 events, 193 lost");
	compare(&wall, "857 events, 193 lost");
}

/* Two guests and their host, as kernels have them, with vCPUs that run. */
static void kernels(void)
{
	struct braid_walk_options guest = { .stream = "guest1" };
	struct braid_walk_options host = { .stream = "host" };
	char command[128], line[512];

	snprintf(command, sizeof(command), "build/make_big_capture %s " BIG_EVENTS " 2>&1", capture);
	last_line(command, line, sizeof(line));
	compare(&all, BIG_EVENTS " events, 0 lost, 3 own");
	compare(&guest, ", 8 functions");
	compare(&guest, " 0 lost, 1 own, 0 slices");
	compare(&host, " 0 lost, 3 own");
}

/* vCPUs' states are those of the state machine, whatever events are selected. */
static void vcpu_states(void)
{
	static char *const none[] = { "none_has_this_name" };
	struct braid_walk_options options = { .events = none, .nr_events = 1 };
	char command[128], line[512];

	snprintf(command, sizeof(command), "build/make_big_capture %s " BIG_EVENTS " 2>&1", capture);
	last_line(command, line, sizeof(line));
	compare(&options, "0 events, 0 lost, 0 own, 0 slices, 0 functions, 1750 states, 68 flows, 244 wakeups");
	options.stream = "guest2";
	compare(&options, " states, ");
	options.from = (struct braid_walk_moment){ .kind = BRAID_MOMENT_SINCE, .ns = 3000000 };
	options.to = (struct braid_walk_moment){ .kind = BRAID_MOMENT_SINCE, .ns = 7500000 };
	compare(&options, " states, ");
	synth_standard(capture);	/* has no host */
	compare(&all, " 0 states, 0 flows, 0 wakeups");
}

/* Fields of all types ---------------------------------------------------------------------- */

static const char shapes[] = FORMAT_HEAD
	"\tfield:u8 a;\toffset:8;\tsize:1;\tsigned:0;\n"
	"\tfield:s8 b;\toffset:9;\tsize:1;\tsigned:1;\n"
	"\tfield:u16 c;\toffset:10;\tsize:2;\tsigned:0;\n"
	"\tfield:int d;\toffset:12;\tsize:4;\tsigned:1;\n"
	"\tfield:long e;\toffset:16;\tsize:8;\tsigned:1;\n"
	"\tfield:void * p;\toffset:24;\tsize:8;\tsigned:0;\n"
	"\tfield:s16 v[4];\toffset:32;\tsize:8;\tsigned:1;\n"
	"\tfield:__data_loc char[] s;\toffset:40;\tsize:4;\tsigned:0;\n"
	"\tfield:__data_loc u32[] w;\toffset:44;\tsize:4;\tsigned:0;\n"
	"\tfield:u8 mac[6];\toffset:48;\tsize:6;\tsigned:0;\n"
	"\tfield:char name[8];\toffset:54;\tsize:8;\tsigned:0;\n\n"
	"print fmt: \"%d\", REC->d\n";

struct shapes {
	struct braid_record r;
	u8 a;
	s8 b;
	u16 c;
	s32 d;
	s64 e;
	u64 p;
	s16 v[4];
	u32 s_at, w_at;
	u8 mac[6];
	char name[8];
	u16 nothing;
	u32 w[3];
	char s[8];
};

/* Of a well-known name with fields that do not fit there, and one of that name elsewhere. */
static const char idle[] = FORMAT_HEAD
	"\tfield:u32 state;\toffset:8;\tsize:4;\tsigned:0;\n"
	"\tfield:u32 cpu_id;\toffset:12;\tsize:4;\tsigned:0;\n\n"
	"print fmt: \"state=%lu\", (unsigned long)REC->state\n";
static const char wide_idle[] = FORMAT_HEAD
	"\tfield:u32 state;\toffset:8;\tsize:4;\tsigned:0;\n"
	"\tfield:u32 more;\toffset:12;\tsize:4;\tsigned:0;\n\n"
	"print fmt: \"state=%lu\", (unsigned long)REC->state\n";

/* More fields than a self-describing event may have. */
static char *long_format(u32 nr)
{
	struct braid_text t = { 0 };
	u32 k;

	braid_text_puts(&t, FORMAT_HEAD);
	for (k = 0; k < nr; k++)
		braid_text_printf(&t, "\tfield:u8 f%u;\toffset:%u;\tsize:1;\tsigned:0;\n", k, 8 + k);
	braid_text_puts(&t, "\nprint fmt: \"%u\", REC->f0\n");
	braid_text_putc(&t, '\0');
	NEED(!t.failed);
	return t.data;
}

static void put(struct synth_guest *g, u16 id, void *payload, u32 bytes)
{
	struct braid_record r = { .common_type = id, .common_pid = -5 };

	memcpy(payload, &r, sizeof(r));
	g->now += 1000;
	NEED(synth_event(g, 1, payload, bytes));
}

static void put_shapes(struct synth_guest *g)
{
	struct shapes e = {
		.a = 200, .b = -3, .c = 65535, .d = -2000000000, .e = INT64_MIN, .p = ~0ULL,
		.v = { 1, -1, 300, -32768 }, .mac = { 1, 2, 3, 0x7f, 0, 9 }, .name = "eightby",
		.w = { 7, 0, 0xffffffff }, .s = "a\x1b" "b\n",
	};

	e.s_at = offsetof(struct shapes, s) | sizeof(e.s) << 16;
	e.w_at = offsetof(struct shapes, w) | sizeof(e.w) << 16;
	put(g, 2, &e, sizeof(e));
	e.s_at = 60000;		/* has another offset: then no field is trusted */
	put(g, 2, &e, sizeof(e));
	put(g, 2, &e, 20);
}

static void odd(void)
{
	static const struct synth_guest_params params = {
		.name = "g", .incarnation = 7, .boot = 1, .start_ns = SYNTH_START_NS,
		.nr_slots = 64, .subbuf_bytes = 4096,
	};
	struct braid_capture_writer *w = synth_capture(capture);
	struct braid_chunk_note note = { .host_ns = SYNTH_START_NS + 5000 };
	static const char text[] = "clock: a \x1b[31mnote";
	char *many = long_format(31), *too_many = long_format(32);
	struct synth_guest g;
	u8 bytes[64];
	u32 k;

	for (k = 0; k < sizeof(bytes); k++)
		bytes[k] = 100 + k;
	synth_guest_init(&g, &params);
	synth_begin(w, &g, 1);
	synth_format(w, 2, "test", "shapes", shapes);
	synth_format(w, 3, "power", "cpu_idle", idle);
	synth_format(w, 4, "mine", "cpu_idle", idle);
	synth_format(w, 5, "power", "cpu_idle", wide_idle);
	synth_format(w, 6, "test", "many", many);
	synth_format(w, 7, "test", "too_many", too_many);
	synth_sample(w, &g, 100, 100);
	put_shapes(&g);
	for (k = 3; k < 10; k++)	/* 8 and 9: undefined */
		put(&g, k, bytes, k < 6 ? 16 : 60);
	synth_sample(w, &g, 100, 100);
	synth_drain(w, &g, 0);
	NEED(!braid_capture_put(w, BRAID_CHUNK_NOTE, 1, &note, sizeof(note), text,
				sizeof(text) - 1));
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	synth_guest_free(&g);
	free(many);
	free(too_many);
	compare(&all, "10 events, 0 lost, 3 own");
}

/* Bytes without an id or a task. */
static void raw(void)
{
	static const struct synth_guest_params params = {
		.name = "g", .incarnation = 7, .boot = 1, .start_ns = SYNTH_START_NS,
		.flags = BRAID_BUFFER_RAW, .nr_slots = 64, .subbuf_bytes = 4096,
	};
	struct braid_capture_writer *w = synth_capture(capture);
	struct synth_guest g;

	synth_guest_init(&g, &params);
	synth_begin(w, &g, 1);
	synth_sample(w, &g, 100, 100);
	g.now += 1000;
	NEED(synth_event(&g, 0, "some bytes", 10));
	g.now += 1000;
	NEED(synth_event(&g, 0, "x", 1));
	synth_sample(w, &g, 100, 100);
	synth_drain(w, &g, 0);
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	synth_guest_free(&g);
	compare(&all, "2 events, 0 lost, 0 own");
}

/* Perfetto's reader rejects a trace that has a higher CPU. */
static void too_many_cpus(void)
{
	struct braid_chunk_stream head = {
		.kind = BRAID_STREAM_HOST, .nr_cpus = MANY_CPUS, .subbuf_bytes = 4096,
		.host_ns = SYNTH_START_NS, .name = "host",
	};
	struct braid_chunk_host_page page = { .cpu = MANY_CPUS - 1, .bytes = 4096 };
	struct braid_walk_options few = { .one_cpu = true, .cpu = 0 };
	struct braid_capture_writer *w = synth_capture(capture);
	static const u8 empty[4096];

	NEED(!braid_capture_put(w, BRAID_CHUNK_STREAM, 1, &head, sizeof(head), NULL, 0));
	NEED(!braid_capture_put(w, BRAID_CHUNK_HOST_PAGE, 1, &page, sizeof(page), empty,
				sizeof(empty)));
	NEED(!braid_capture_finish(w));
	CHECK_EQ(export(&all), -ERANGE);
	CHECK(strstr(braid_failure(), "CPU 1999") && strstr(braid_failure(), "--cpu"));
	CHECK_EQ(export(&few), 0);
}

/* The export ends for any content of a capture. */
static void damaged(void)
{
	struct braid_walk_totals totals;
	struct braid_source *source;
	char *names[] = { trace }, *bytes;
	FILE *from, *to, *null = fopen("/dev/null", "w");
	u64 seed = 5;
	struct stat st;
	u32 turn, k;

	synth_standard(capture);
	NEED(null && !stat(capture, &st));
	bytes = malloc(st.st_size);
	for (turn = 0; turn < 100; turn++) {
		from = fopen(capture, "r");
		NEED(from && fread(bytes, 1, st.st_size, from) == (size_t)st.st_size);
		fclose(from);
		for (k = 0; k <= turn % 20; k++) {
			seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
			bytes[(seed >> 20) % st.st_size] ^= 1 << (seed >> 61);
		}
		to = fopen(trace, "w");
		NEED(to && fwrite(bytes, 1, st.st_size, to) == (size_t)st.st_size && !fclose(to));
		if (braid_source_open_captures(&source, names, 1, NULL))
			continue;
		braid_export_perfetto(null, source, &all, &totals);
		braid_source_free(source);
	}
	free(bytes);
	fclose(null);
}

/* A full disk is reported. */
static void full(void)
{
	struct braid_walk_totals totals;
	struct braid_source *source;
	char *names[] = { capture };
	FILE *to = fopen("/dev/full", "w");

	synth_standard(capture);
	NEED(to && !braid_source_open_captures(&source, names, 1, NULL));
	CHECK_EQ(braid_export_perfetto(to, source, &all, &totals), -ENOSPC);
	fclose(to);
	braid_source_free(source);
}

int main(void)
{
	capture = scratch("capture");
	json = scratch("json");
	trace = scratch("trace");
	states = scratch("states");
	RUN(empty);
	RUN(standard);
	RUN(wall_time);
	RUN(kernels);
	RUN(vcpu_states);
	RUN(odd);
	RUN(raw);
	RUN(too_many_cpus);
	RUN(damaged);
	RUN(full);
	return VERDICT();
}
