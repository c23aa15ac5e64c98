// SPDX-License-Identifier: GPL-2.0-or-later
/* CTF: babeltrace2 reads the same as the report, for any names from guests. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/export/ctf/form.h"
#include "host_agent/util/error.h"
#include "shared/schema.h"
#include "tests/unit/check.h"
#include "tests/unit/format_text.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/report_text.h"
#include "tests/unit/scratch.h"
#include "tests/unit/shell.h"
#include "tests/unit/state_sums.h"

static char *capture, *json, *folder;

static const struct braid_walk_options all;
static const struct braid_walk_options wall = { .realtime = true };

static const struct synth_guest_params roomy = {
	.name = "guest", .incarnation = 7, .boot = 1, .start_ns = SYNTH_START_NS,
	.nr_slots = 64, .subbuf_bytes = 16384,
};

static int export(const struct braid_walk_options *options, struct braid_walk_totals *totals)
{
	return export_capture(braid_export_ctf, capture, folder, options, totals);
}

static void remove_folder(void)
{
	free(shell_output("rm -rf %s %s.part", folder, folder));
}

/* Whether babeltrace2 can read all of it. */
static void check_readable(u64 events)
{
	char *text = shell_output("babeltrace2 %s 2>&1", folder);
	const u8 *c;

	CHECK_EQ(count_of(text, "\n"), events);
	for (c = (const u8 *)text; *c; c++)
		if ((*c < ' ' && *c != '\n') || *c == 0x7f)
			break;
	CHECK(!*c);
	free(text);
}

/* Exports, and compares each event, its values, the order and the losses. */
static void compare(const struct braid_walk_options *options)
{
	struct braid_walk_totals totals;
	char *text = report_text(capture, true, options, NULL), want[64];
	FILE *to = fopen(json, "w");

	NEED(to && fputs(text, to) >= 0 && !fclose(to));
	free(text);
	remove_folder();
	CHECK_EQ(export(options, &totals), 0);
	text = shell_output("tests/unit/compare_ctf.py %s %s 2>&1", json, folder);
	snprintf(want, sizeof(want), ", %llu lost\n", (unsigned long long)totals.lost);
	if (!strstr(text, want))
		fprintf(stderr, "%s", text);
	CHECK(strstr(text, want));
	free(text);
}

static char *metadata(const char *stream)
{
	return shell_output("cat %s/%s/metadata", folder, stream);
}

/* Without events there is a trace that can be opened, whatever the capture has. */
static void empty(void)
{
	struct braid_walk_totals totals;
	struct braid_walk_options options = { 0 };
	struct braid_capture_writer *w;
	u32 nr;

	for (nr = 0; nr < 2; nr++) {
		w = synth_capture(capture);
		if (nr)
			synth_host(w, 1, 0, SYNTH_START_NS, 1000);
		NEED(!braid_capture_finish(w));
		remove_folder();
		CHECK_EQ(export(&options, &totals), 0);
		CHECK_EQ(totals.events, 0);
		check_readable(0);
	}
	remove_folder();
	synth_standard(capture);
}

static void standard(void)
{
	struct braid_walk_options few = { .stream = "guest2" };
	char *text;

	synth_standard(capture);
	compare(&all);
	text = metadata("guest1");
	CHECK(strstr(text, "name = mono_raw;") && strstr(text, "freq = 1000000000;"));
	CHECK(strstr(text, "hostname = \"guest1\";") && strstr(text, "domain = \"kernel\";"));
	CHECK(!strstr(text, "precision = 0;"));
	free(text);
	text = metadata("host");
	CHECK(strstr(text, "hostname = \"testhost\";") && strstr(text, "precision = 0;"));
	free(text);
	compare(&few);
	text = shell_output("ls %s", folder);
	CHECK(!strcmp(text, "guest2\n"));
	free(text);
}

/* The clocks count from 1970 where wall time is known; an event's own number is the report's. */
static void wall_time(void)
{
	const u64 start = 1700000000123456789;
	char *text;

	synth_standard_at(capture, start - SYNTH_START_NS);
	compare(&all);
	text = metadata("guest1");
	CHECK(strstr(text, "absolute = true;") && strstr(text, "offset_s = 1699999000;") &&
	      strstr(text, "uuid = \"01010101-0101-0101-0101-010101010101\";"));
	free(text);
	text = shell_output("babeltrace2 --clock-seconds %s/guest1 | head -1", folder);
	CHECK(strstr(text, "[1700000000.1234"));
	free(text);
	compare(&wall);
	text = metadata("guest1");
	CHECK(strstr(text, "absolute = true;") && strstr(text, "name = realtime;"));
	CHECK(strstr(text, "offset_s = 0;"));
	free(text);
}

/* Without known wall time, babeltrace2 still merges the traces. */
static void no_wall_time(void)
{
	struct braid_chunk_file head = {
		.version_major = BRAID_CAPTURE_MAJOR, .version_minor = BRAID_CAPTURE_MINOR,
		.start_host_ns = SYNTH_START_NS, .clock = "mono_raw", .host_name = "testhost",
	};
	struct braid_capture_writer *w;
	struct synth_guest g;
	char *text;

	NEED(!braid_capture_create(&w, capture, &head));
	synth_guest_init(&g, &roomy);
	synth_begin(w, &g, 1);
	synth_host(w, 2, 10, SYNTH_START_NS, 500);
	synth_sample(w, &g, 100, 100);
	NEED(synth_tick(&g, 0, 1, "x"));
	synth_drain(w, &g, 0);
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	compare(&all);
	text = shell_output("cat %s/*/metadata", folder);
	CHECK_EQ(count_of(text, "absolute = true;"), 0);
	CHECK_EQ(count_of(text, "offset_s = 0;"), 2);
	free(text);
	synth_guest_free(&g);
}

/* Wall time is set back while events are recorded: babeltrace2 refuses decreasing times. */
static void wall_set_back(void)
{
	struct braid_chunk_host_clock head = { .kind = BRAID_HOST_CLOCK_REALTIME, .name = "realtime" };
	struct braid_capture_writer *w = synth_capture(capture);
	struct braid_walk_totals totals;
	struct braid_clock_sample samples[40];
	struct synth_guest g;
	u32 k;

	for (k = 0; k < 40; k++) {
		samples[k].h1_ns = SYNTH_START_NS + k * 10000000ULL;
		samples[k].counter = samples[k].h1_ns + 30 + (k < 20 ? 5000000000ULL : 1000000000);
		samples[k].h2_ns = samples[k].h1_ns + 60;
	}
	NEED(!braid_capture_put(w, BRAID_CHUNK_HOST_CLOCK, 0, &head, sizeof(head), samples,
				sizeof(samples)));
	synth_guest_init(&g, &roomy);
	synth_begin(w, &g, 1);
	for (k = 0; k < 40; k++) {
		g.now += 10000000;
		synth_sample(w, &g, 100, 100);
		NEED(synth_tick(&g, k & 1, k, "x"));
	}
	synth_drain(w, &g, 0);
	NEED(!braid_capture_finish(w));
	remove_folder();
	CHECK_EQ(export(&wall, &totals), 0);
	check_readable(totals.events);
	synth_guest_free(&g);
}

/* Readers count a loss at a stream's start only if something precedes it. */
static void lost_at_first(void)
{
	struct synth_guest_params params = roomy;
	struct braid_capture_writer *w = synth_capture(capture);
	struct synth_guest g;
	u32 k;

	params.nr_slots = 2;
	params.subbuf_bytes = 256;
	params.flags = BRAID_BUFFER_OVERWRITE;
	synth_guest_init(&g, &params);
	synth_begin(w, &g, 1);
	synth_sample(w, &g, 100, 100);
	for (k = 0; k < 100; k++) {
		g.now += 1000;
		NEED(synth_tick(&g, k & 1, k, "x"));
	}
	synth_drain(w, &g, 0);
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	compare(&all);
	synth_guest_free(&g);
}

/* Fields of all types -------------------------------------------------------------------- */

#define FIELD	FORMAT_FIELD
#define END	FORMAT_END

/* Keywords of the metadata, names with the library's prefixes, and an empty one. */
static const char shapes[] = FORMAT_HEAD
	FIELD("s8 event", 8, 1, 1) FIELD("u8 struct", 9, 1, 0) FIELD("s16 __x_len", 10, 2, 1)
	FIELD("u32 _", 12, 4, 0) FIELD("s64 prev_pid", 16, 8, 1) FIELD("void * at", 24, 8, 0)
	FIELD("char comm[8]", 32, 8, 0) FIELD("u16 few[4]", 40, 8, 0)
	FIELD("__data_loc unsigned long[] a", 48, 4, 0) FIELD("__data_loc char[] pid", 52, 4, 0)
	FIELD("__rel_loc u8[] b", 56, 4, 0) FIELD("__data_loc cpumask_t mask", 60, 4, 0)
	FIELD("struct odd c", 64, 12, 0) END;
static const char same[] = FORMAT_HEAD
	FIELD("u32 a", 8, 4, 0) FIELD("u32 a", 12, 4, 0) FIELD("u32 a_2", 16, 4, 0) END;
static const char huge[] = FORMAT_HEAD FIELD("u16 a[5000]", 8, 10000, 0) END;
static const char clash[] = FORMAT_HEAD
	FIELD("__data_loc char[] a", 8, 4, 0) FIELD("__data_loc char[] b", 12, 4, 0)
	FIELD("u32 __a_len", 16, 4, 0) FIELD("u32 __a_len_0", 20, 4, 0) END;
static const char overlap[] = FORMAT_HEAD FIELD("u16 a[99]", 8, 198, 0) FIELD("u16 b[99]", 8, 198, 0) END;
static const char none[] = FORMAT_HEAD END;
static const char words[] = FORMAT_HEAD
	FIELD("char a[8]", 8, 8, 0) FIELD("char b[5]", 16, 5, 0) FIELD("char c[80]", 24, 80, 0) END;

/* An event with these fields, its dynamic ones at the given offsets and lengths. */
static void put_shapes(struct synth_guest *g, u16 id, u32 a, u32 text, u32 b, u32 mask)
{
	struct braid_record record = { .common_type = id, .common_flags = 5, .common_pid = 101 };
	u8 payload[160];
	u32 k;

	for (k = 0; k < sizeof(payload); k++)
		payload[k] = 0xf9 + 3 * k;
	memcpy(payload, &record, sizeof(record));
	memcpy(payload + 32, "qu\"o\\te", 8);
	memcpy(payload + 48, &a, 4);
	memcpy(payload + 52, &text, 4);
	memcpy(payload + 56, &b, 4);
	memcpy(payload + 60, &mask, 4);
	memcpy(payload + 100, "\x1b[2J\xc3\xa9\xff", 8);
	g->now += 1000;
	NEED(synth_event(g, 1, payload, sizeof(payload)));
}

static void put_bytes(struct synth_guest *g, u16 id, u32 bytes, u8 with)
{
	struct braid_record record = { .common_type = id, .common_pid = -7 };
	static u8 payload[12000];

	memset(payload, with, sizeof(payload));
	memcpy(payload, &record, sizeof(record));
	g->now += 1000;
	NEED(synth_event(g, 0, payload, bytes));
}

/* An event whose first two fields have the same offset. */
static void put_location(struct synth_guest *g, u16 id, u32 location)
{
	struct braid_record record = { .common_type = id };
	u8 payload[160] = { 0 };

	memcpy(payload, &record, sizeof(record));
	memcpy(payload + 8, &location, 4);
	memcpy(payload + 12, &location, 4);
	g->now += 1000;
	NEED(synth_event(g, 1, payload, sizeof(payload)));
}

/* Arrays of characters: not ASCII, not terminated, and too long to be copied. */
static void put_words(struct synth_guest *g, u16 id)
{
	struct braid_record record = { .common_type = id };
	u8 payload[104] = { 0 };

	memcpy(payload, &record, sizeof(record));
	memcpy(payload + 8, "\x1b[2J\xc3\xa9\xff", 8);
	memcpy(payload + 16, "abcd\xc3", 5);
	memset(payload + 24, 'x', 80);
	memcpy(payload + 30, "\xe2\x80\xae\x7f", 4);
	g->now += 1000;
	NEED(synth_event(g, 0, payload, sizeof(payload)));
}

static void shapes_of_fields(void)
{
	struct braid_capture_writer *w = synth_capture(capture);
	struct synth_guest g;

	synth_guest_init(&g, &roomy);
	synth_begin(w, &g, 1);
	synth_sample(w, &g, 100, 100);
	synth_format(w, 2, "sched", "sched_all", shapes);
	synth_format(w, 3, "other", "all", shapes);
	synth_format(w, 5, "raw_syscalls", "sys_exit", clash);
	synth_format(w, 6, "test", "huge", huge);
	synth_format(w, 7, "test", "none", none);
	synth_format(w, 8, "test", "words", words);
	put_words(&g, 8);
	put_shapes(&g, 2, 80 | 16 << 16, 100 | 8 << 16, 50 | 5 << 16, 120 | 8 << 16);
	put_shapes(&g, 3, 80 | 0 << 16, 100 | 0 << 16, 50 | 1 << 16, 120 | 16 << 16);
	put_bytes(&g, 2, 40, 0);	/* too short */
	put_shapes(&g, 3, 80 | 16 << 16, 100 | 999 << 16, 0, 0);
	put_bytes(&g, 5, 24, 0);
	put_bytes(&g, 5, 20, 0);
	put_bytes(&g, 7, 8, 0);
	put_bytes(&g, 9999, 700, 0xab);
	put_bytes(&g, 9999, 3, 0);
	synth_drain(w, &g, 0);
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	compare(&all);
	synth_guest_free(&g);
}

/* A restarted driver gets a separate trace; what happened to it is reported. */
static void notes(void)
{
	struct synth_guest_params params = roomy;
	struct braid_capture_writer *w = synth_capture(capture);
	struct synth_guest g;
	char *text;
	u32 k, n;

	for (k = 1; k <= 2; k++) {
		params.incarnation = k;
		params.boot = k;
		synth_guest_init(&g, &params);
		g.now = k * 1000000;
		synth_begin(w, &g, k);
		for (n = 0; n < 20; n++) {
			g.now += 1000;
			synth_tick(&g, n & 1, n, "x");
			synth_sample(w, &g, 100, 100);
		}
		synth_drain(w, &g, 0);
		synth_end(w, &g, k == 1 ? BRAID_END_REINIT : BRAID_END_STOPPED);
		synth_guest_free(&g);
	}
	NEED(!braid_capture_finish(w));
	text = report_text(capture, true, NULL, NULL);
	CHECK(strstr(text, "\"type\":\"note\""));
	free(text);
	compare(&all);
}

/* Hostile guests -------------------------------------------- */

/* @large: with records that are larger than all metadata. Return: how many events are in it. */
static u32 hostile_capture(bool large)
{
	static const char *const names[] = {
		"ev\nil\033[0m", "\"; }; event { name = \"", "\\", "\\x", "caf\xc3\xa9""ab", "%s%n",
		"", "..", "/", "a: { b = 1 }", "\xff\xfe",
	};
	struct synth_guest_params params = roomy;
	struct braid_capture_writer *w = synth_capture(capture);
	struct synth_guest g;
	u32 k, nr = sizeof(names) / sizeof(*names);

	params.name = "../\"\xc3\xa9""a\\\033;}";
	synth_guest_init(&g, &params);
	synth_begin(w, &g, 1);
	synth_sample(w, &g, 100, 100);
	for (k = 0; k < nr; k++)
		synth_format(w, 10 + k, names[k], names[k], k & 1 ? same : shapes);
	synth_format(w, 50, "huge", "huge", huge);
	synth_format(w, 51, "clash", "clash", clash);
	synth_format(w, 52, "overlap", "overlap", overlap);
	for (k = 0; k < nr; k++)
		put_shapes(&g, 10 + k, 80 | 16 << 16, 100 | 8 << 16, 0, 0);
	if (large) {
		put_bytes(&g, 50, 10100, 1);
		put_location(&g, 51, 60 | 100 << 16);
		put_bytes(&g, 51, 6000, 8);
		put_bytes(&g, 52, 300, 8);
	}
	synth_drain(w, &g, 0);
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	synth_guest_free(&g);
	return nr + 4 * large;
}

static void hostile_names(void)
{
	u32 events = hostile_capture(true);
	struct braid_walk_totals totals;
	char *text;

	remove_folder();
	CHECK_EQ(export(&all, &totals), 0);
	CHECK_EQ(totals.events, events);
	check_readable(events);
	text = shell_output("cat %s/*/metadata | tr -cd '\\\\'", folder);
	CHECK(!*text);
	free(text);
	/* Fields that overlap are written as bytes. */
	text = shell_output("babeltrace2 %s | grep -E ' (huge|clash|overlap): .* raw = '", folder);
	CHECK_EQ(count_of(text, "\n"), 2);
	free(text);
	text = shell_output("ls %s", folder);
	CHECK_EQ(count_of(text, "\n"), 1);
	free(text);
}

/* Randomly damaged captures: every export of them can be read. */
static void damaged(void)
{
	struct braid_walk_totals totals;
	struct braid_source *source;
	char *names[] = { capture };
	u64 seed = 11;
	struct stat st;
	u32 turn, k;

	for (turn = 0; turn < 40; turn++) {
		int fd, err;

		synth_standard_at(capture, turn & 1 ? 1ULL << (turn % 60) : 0);
		NEED(!stat(capture, &st));
		fd = open(capture, O_RDWR);
		for (k = 0; k <= turn % 10; k++) {
			u8 byte;

			seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
			NEED(pread(fd, &byte, 1, (seed >> 20) % st.st_size) == 1);
			byte ^= 1 << (seed >> 61);
			NEED(pwrite(fd, &byte, 1, (seed >> 20) % st.st_size) == 1);
		}
		close(fd);
		if (braid_source_open_captures(&source, names, 1, NULL))
			continue;
		remove_folder();
		err = braid_export_ctf(folder, source, turn % 4 == 3 ? &wall : &all, &totals);
		CHECK(!err || err == -ENODATA);
		if (!err && totals.events && turn % 8 == 1)
			free(shell_output("babeltrace2 %s >/dev/null 2>&1", folder));
		braid_source_free(source);
	}
}

/* Other cases ----------------------------------------------------------------------------- */

/* Simulates a full disk: no file may grow beyond a limit. Return: 0, or failed checks. */
static int export_into(rlim_t room)
{
	struct rlimit limit = { room, room };
	struct braid_walk_totals totals;

	check_failures = 0;
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
	CHECK_EQ(export(&all, &totals), -EFBIG);
	CHECK(strstr(braid_failure(), "File too large"));
	return check_failures;
}

static void full_disk(void)
{
	/* No space at all; none for a packet; none for the metadata. */
	static const rlim_t rooms[] = { 0, 12000, 6000 };
	char *text;
	u32 k;

	for (k = 0; k < sizeof(rooms) / sizeof(*rooms); k++) {
		int status;
		pid_t pid;

		hostile_capture(k < 2);
		remove_folder();
		pid = fork();
		if (!pid)
			_exit(export_into(rooms[k]));
		CHECK(waitpid(pid, &status, 0) == pid && !status);
		text = shell_output("ls %s.part %s 2>/dev/null || true", folder, folder);
		CHECK(!*text);
		free(text);
	}
}

/* vCPUs' states are in a stream class of their own: babeltrace2 shows the state machine's. */
static void vcpu_states(void)
{
	struct braid_walk_options options = { .states = true };
	char *sums = scratch("sums"), *text;

	free(shell_output("build/make_big_capture %s 12000", capture));
	state_sums(capture, &options, sums);
	compare(&options);		/* all others are as without */
	text = shell_output("tests/unit/compare_states.py %s babeltrace2 %s", sums, folder);
	CHECK(strcmp(text, "0 states\n"));
	free(text);
	synth_standard(capture);	/* has no host */
	compare(&options);
}

/* Those that come late have long ids, and so have those for which there is no short one. */
static void many_types(void)
{
	u64 events = synth_many_types(capture);

	compare(&all);
	check_readable(events);
}

int main(void)
{
	capture = scratch("capture.braid");
	json = scratch("report.json");
	folder = scratch("ctf");
	RUN(empty);
	RUN(standard);
	RUN(wall_time);
	RUN(no_wall_time);
	RUN(wall_set_back);
	RUN(lost_at_first);
	RUN(shapes_of_fields);
	RUN(notes);
	RUN(hostile_names);
	RUN(damaged);
	RUN(full_disk);
	RUN(vcpu_states);
	RUN(many_types);
	return VERDICT();
}
