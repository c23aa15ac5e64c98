// SPDX-License-Identifier: GPL-2.0-or-later
/* The exports: columns, filters, hostile formats, and captures that are damaged anywhere. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/export/text/form.h"
#include "host_agent/trace/source.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"
#include "shared/schema.h"
#include "tests/unit/check.h"
#include "tests/unit/format_text.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"

static char path[64], copy[64];

/* The complete report in memory; to be freed. NULL on failure. */
static char *report(const char *file, bool json, const struct braid_walk_options *options)
{
	static const struct braid_walk_options all;
	struct braid_walk_totals totals;
	struct braid_source *source;
	char *names[] = { (char *)file }, *text = NULL;
	size_t bytes;
	FILE *to;
	int err;

	if (braid_source_open_captures(&source, names, 1, NULL))
		return NULL;
	to = open_memstream(&text, &bytes);
	NEED(to);
	err = (json ? braid_export_json : braid_export_text)(to, source, options ? options : &all,
							     &totals);
	CHECK_EQ(err, 0);
	fclose(to);
	braid_source_free(source);
	return text;
}

/* No control characters of a terminal; times do not decrease. */
static void check_lines(const char *text)
{
	const char *line, *end;
	double last = -1e30, t;
	const u8 *s;

	for (s = (const u8 *)text; *s; s++)
		if ((*s < 0x20 && *s != '\n') || *s == 0x7f) {
			CHECK(!"a control character");
			return;
		}
	for (line = text; (end = strchr(line, '\n')); line = end + 1) {
		const char *at = strchr(line, ']');

		if (*line == '#' || *line == '{' || !at || at > end || sscanf(at + 1, "%lf", &t) != 1)
			continue;
		CHECK(t >= last);
		last = t;
	}
}

static u32 count_lines(const char *text, const char *with)
{
	const char *line, *end, *at;
	u32 n = 0;

	for (line = text; (end = strchr(line, '\n')); line = end + 1) {
		at = strstr(line, with);
		n += at && at < end;
	}
	return n;
}

static void columns(void)
{
	struct braid_walk_options few = { .no_header = true, .max_lines = 3 };
	char *text;

	synth_standard(path);
	text = report(path, false, &few);
	NEED(text);
	CHECK(!strcmp(text,
"host:               qemu-55      [001]   1000.000001000: tock:                  count=0\n"
"guest1:            first-100     [000]   1000.000020926: tick:                  number=0 text=hello\n"
"guest1:           second-101     [001]   1000.000040927: tick:                  number=1 text=hello\n"));
	free(text);
	text = report(path, false, NULL);
	check_lines(text);
	CHECK_EQ(count_lines(text, "# guest1: Linux 6.1.0-test x86_64, 2 vCPUs, clock exchange"), 1);
	CHECK_EQ(count_lines(text, "# guest2: "), 1);
	CHECK_EQ(count_lines(text, "clock mono_raw"), 2);
	CHECK_EQ(count_lines(text, " tick: "), 607);
	CHECK_EQ(count_lines(text, " tock: "), 250);
	CHECK(count_lines(text, "renamed-101") > 50);
	CHECK(count_lines(text, ": LOST ") >= 2);
	CHECK_EQ(count_lines(text, "# 857 events, 193 lost"), 1);
	free(text);
}

/* All elements of an array, so that a script never gets a part of it. */
static void arrays(void)
{
	struct { struct braid_record record; u32 words[200]; } payload = {
		.record = { .common_type = 9, .common_pid = 100 }, .words[199] = 77,
	};
	struct synth_guest_params params = {
		.name = "guest1", .incarnation = 11, .boot = 1, .start_ns = SYNTH_START_NS,
		.nr_slots = 8, .subbuf_bytes = 1024,
	};
	struct braid_capture_writer *w = synth_capture(path);
	struct synth_guest g;
	char *text, *at;

	synth_guest_init(&g, &params);
	synth_begin(w, &g, 1);
	synth_format(w, 9, "test", "array", "format:\n"
		     FORMAT_COMMON
		     "\tfield:unsigned int words[200];\toffset:8;\tsize:800;\tsigned:0;\n\nprint fmt: \"\"\n");
	g.now = 1000;
	NEED(synth_event(&g, 0, &payload, sizeof(payload)));
	synth_sample(w, &g, 900, 600);
	synth_drain(w, &g, 0);
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	synth_guest_free(&g);
	text = report(path, true, NULL);
	NEED(text);
	at = strstr(text, "\"words\":[");
	NEED(at && strchr(at, ']'));
	*strchr(at, ']') = 0;
	CHECK_EQ(strlen(at), strlen("\"words\":[") + 199 * 2 + 2);
	CHECK(!strcmp(at + strlen(at) - 5, ",0,77"));
	free(text);
}

static void filters(void)
{
	char *tock[] = { "test:to*" }, *none[] = { "nothing:*", "test:nothing" };
	struct braid_walk_options options = { .no_header = true };
	char *text;

	synth_standard(path);
	options.events = tock;
	options.nr_events = 1;
	text = report(path, false, &options);
	CHECK_EQ(count_lines(text, " tock: "), 250);
	CHECK_EQ(count_lines(text, " tick: "), 0);
	CHECK(count_lines(text, "LOST") > 0);	/* a loss may have been of these */
	free(text);
	options.events = none;
	options.nr_events = 2;
	text = report(path, false, &options);
	CHECK_EQ(count_lines(text, ": t"), 0);
	free(text);
	options.nr_events = 0;
	options.stream = "guest1";
	options.one_cpu = true;
	options.cpu = 1;
	text = report(path, false, &options);
	CHECK_EQ(count_lines(text, ""), 200);
	CHECK_EQ(count_lines(text, "guest1: "), 200);
	free(text);
}

static void json(void)
{
	char *text;

	synth_standard(path);
	text = report(path, true, NULL);
	NEED(text);
	CHECK_EQ(count_lines(text, "\"type\":\"event\""), 857);
	CHECK_EQ(count_lines(text, "\"type\":\"stream\""), 3);
	CHECK_EQ(count_lines(text, "{\"type\":\"end\",\"events\":857,\"lost\":193,\"uncertain\":"), 1);
	CHECK_EQ(count_lines(text, "\"fields\":{\"number\":0,\"text\":\"hello\"}"), 1);
	free(text);
}

/* Hostile guests ------------------------------------------------------------------------------ */

static const char *const hostile[] = {
	"",
	"format:",
	"print fmt: \"%s\"",
	FORMAT_HEAD "print fmt: \"%s%s%s%n\"\n",
	FORMAT_HEAD "\tfield:u32 a;\toffset:8;\tsize:4;\tsigned:0;\n\nprint fmt: \"%d\", REC->a / 0\n",
	FORMAT_HEAD "\tfield:u32 a;\toffset:8;\tsize:4;\tsigned:0;\n\nprint fmt: \"%d\", 5 / REC->a\n",
	FORMAT_HEAD "\tfield:u32 a;\toffset:8;\tsize:4;\tsigned:0;\n\nprint fmt: \"%d\", 5 % (8 - 8)\n",
	FORMAT_HEAD "\tfield:u32 a[1/0];\toffset:8;\tsize:4;\tsigned:0;\n\nprint fmt: \"%d\", 5\n",
	FORMAT_HEAD "\tfield:u32 a;\toffset:8;\tsize:4;\tsigned:0;\n\nprint fmt: \"%d\", REC->a / 4 * 0\n",
	FORMAT_HEAD "\tfield:u32 a;\toffset:8;\tsize:4;\tsigned:0;\n\n"
	       "print fmt: \"%s\", __print_hex(REC->a, 1000000000)\n",
	FORMAT_HEAD "\tfield:u32 a;\toffset:8;\tsize:4;\tsigned:0;\n\n"
	       "print fmt: \"%s\", __print_hex(REC->a, REC->a)\n",
	FORMAT_HEAD "\tfield:u32 a;\toffset:8;\tsize:4;\tsigned:0;\n\n"
	       "print fmt: \"%s\", __print_array(REC->a, REC->a, 8)\n",
	FORMAT_HEAD "\tfield:u32 a;\toffset:8;\tsize:4;\tsigned:0;\n\n"
	       "print fmt: \"%s\", __print_array(REC->a, (s8)REC->a, 8)\n",
	FORMAT_HEAD "\tfield:u32 a[4];\toffset:8;\tsize:16;\tsigned:0;\n\n"
	       "print fmt: \"%d %d\", REC->a[100000], REC->a[REC->common_pid]\n",
	FORMAT_HEAD "\tfield:u32 a;\toffset:-8;\tsize:4;\tsigned:0;\n\nprint fmt: \"%d\", REC->a\n",
	FORMAT_HEAD "\tfield:u32 a;\toffset:60000;\tsize:4;\tsigned:0;\n\nprint fmt: \"%d\", REC->a\n",
	FORMAT_HEAD "\tfield:char a[60000];\toffset:8;\tsize:60000;\tsigned:0;\n\n"
	       "print fmt: \"%s\", REC->a\n",
	FORMAT_HEAD "\tfield:u32 a;\toffset:8;\tsize:4;\tsigned:0;\n\nprint fmt: \"%s\", __get_str(a)\n",
	FORMAT_HEAD "\tfield:__data_loc char[] a;\toffset:8;\tsize:4;\tsigned:0;\n\n"
	       "print fmt: \"%s %s\", __get_str(a), __get_bitmask(a)\n",
	FORMAT_HEAD "\tfield:__rel_loc char[] a;\toffset:8;\tsize:4;\tsigned:0;\n\n"
	       "print fmt: \"%s\", __get_rel_str(a)\n",
	FORMAT_HEAD "\tfield:u32 a;\toffset:8;\tsize:4;\tsigned:0;\n\nprint fmt: \"%999999999d\", REC->a\n",
	FORMAT_HEAD "\tfield:u32 a;\toffset:8;\tsize:4;\tsigned:0;\n\n"
	       "print fmt: \"%*d %*ph\", REC->a, REC->a, REC->a, REC->a\n",
	FORMAT_HEAD "\tfield:u32 a;\toffset:8;\tsize:4;\tsigned:0;\n\n"
	       "print fmt: \"%pS %pI4 %pM %pU %pISpc %pb\", REC->a, REC->a, REC->a, REC->a, REC->a, REC->a\n",
	FORMAT_HEAD "\tfield:u32 a;\toffset:8;\tsize:4;\tsigned:0;\n\n"
	       "print fmt: \"%d\", REC->a ? REC->a\n",
	FORMAT_HEAD "\tfield:u32 a;\toffset:8;\tsize:4;\tsigned:0;\n\nprint fmt: \"%d %d %d\", REC->b\n",
	FORMAT_HEAD "\tfield:u32 \x1b[2J;\toffset:8;\tsize:4;\tsigned:0;\n\nprint fmt: \"\x1b]0;x\a%d\", 1\n",
	"format:\n\tfield:u32 a;\toffset:60000;\tsize:4;\tsigned:0;\n\nprint fmt: \"%d\", REC->a\n",
};

#define NR_HOSTILE	(sizeof(hostile) / sizeof(hostile[0]))

#define EVIL	"evil\033[31m"	/* a system that would colour the terminal */

/* A format of @nr repetitions of @unit, to exhaust a parser's stack. */
static char *deep_format(const char *unit, u32 nr)
{
	struct braid_text t = { 0 };

	braid_text_puts(&t, FORMAT_HEAD "print fmt: \"%d\", ");
	while (nr--)
		braid_text_puts(&t, unit);
	braid_text_puts(&t, "1\n");
	braid_text_putc(&t, 0);
	return t.data;
}

static const struct synth_guest_params roomy = {
	.name = "evil\033[2J\xc2\x9b", .incarnation = 7, .boot = 1, .start_ns = SYNTH_START_NS,
	.nr_slots = 256, .subbuf_bytes = 4096,
};

/* Payloads that are short, or full of ones, small numbers, or strings without an end. */
static void put_payloads(struct synth_guest *g, u16 id)
{
	struct braid_record record = { .common_type = id, .common_pid = 100 };
	static u8 payload[600];
	u32 shape, bytes, k;

	for (shape = 0; shape < 5; shape++) {
		for (bytes = 0; bytes <= sizeof(payload); bytes += bytes < 32 ? 3 : 190) {
			for (k = 0; k < bytes; k++)
				payload[k] = shape == 0 ? 0xff : shape == 1 ? 0 : shape == 2 ? 8 :
					     shape == 3 ? (k % 4 == 2 ? 4 : k % 4 ? 0 : 12) : 0x1b;
			memcpy(payload, &record, bytes < sizeof(record) ? bytes : sizeof(record));
			g->now += 1000;
			synth_event(g, 0, payload, bytes);
		}
	}
}

static void hostile_formats(void)
{
	static const char *const units[] = { "(", "!", "-", "1 + ", "1 ? ", "1 ? 1 : ", "(int)", "a[" };
	struct braid_capture_writer *w = synth_capture(path);
	struct synth_guest g;
	char *text, *deep;
	u32 k, id;

	synth_guest_init(&g, &roomy);
	synth_begin(w, &g, 1);
	synth_sample(w, &g, 100, 100);
	for (k = 0; k < NR_HOSTILE; k++)
		synth_format(w, 2 + k, EVIL, k & 1 ? "bprint" : "ev\nil\033[0m", hostile[k]);
	for (k = 0; k < sizeof(units) / sizeof(*units); k++) {
		deep = deep_format(units[k], 400);
		synth_format(w, 100 + 2 * k, EVIL, "deep", deep);
		free(deep);
		deep = deep_format(units[k], 15000);
		synth_format(w, 101 + 2 * k, EVIL, "deeper", deep);
		free(deep);
	}
	for (k = 0; k < NR_HOSTILE; k++) {
		put_payloads(&g, 2 + k);
		synth_drain(w, &g, 0);
	}
	for (id = 100; id < 120; id++)
		put_payloads(&g, id);
	put_payloads(&g, 9999);
	synth_drain(w, &g, 0);
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	text = report(path, false, NULL);
	NEED(text);
	check_lines(text);
	CHECK(count_lines(text, "event-9999") > 10);
	CHECK_EQ(count_lines(text, ", 0 lost"), 1);
	free(text);
	text = report(path, true, NULL);
	check_lines(text);
	free(text);
	synth_guest_free(&g);
}

/* Random damage to formats: bytes changed, duplicated, removed. */
static void mutated_formats(void)
{
	static const char good[] = FORMAT_HEAD
		"\tfield:u32 number;\toffset:8;\tsize:4;\tsigned:0;\n"
		"\tfield:__data_loc char[] text;\toffset:12;\tsize:4;\tsigned:1;\n"
		"\tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;\n\n"
		"print fmt: \"%u %s %lx {%s} %s %s\", REC->number, __get_str(text), REC->args[1], "
		"__print_flags(REC->number & 7, \"|\", { 1, \"a\" }, { 2, \"b\" }), "
		"__print_hex(REC->args, 8), REC->number ? \"yes\" : __print_symbolic(REC->number, { 0, \"no\" })\n";
	static char bad[sizeof(good) + 64];
	u64 seed = 5;
	u32 turn, k;

	for (turn = 0; turn < 150; turn++) {
		struct braid_capture_writer *w = synth_capture(path);
		struct synth_guest g;
		char *text;

		synth_guest_init(&g, &roomy);
		synth_begin(w, &g, 1);
		for (k = 2; k < 12; k++) {
			u32 edits = 1 + k % 4, n = sizeof(good) - 1;

			memcpy(bad, good, sizeof(good));
			while (edits--) {
				u32 at, from;

				seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
				at = (seed >> 33) % n;
				from = (seed >> 13) % n;
				if (seed >> 62 == 0)
					memmove(bad + at, bad + at + 1, n-- - at);
				else if (seed >> 62 == 1)
					bad[at] = good[from];
				else
					bad[at] = "0(){}\"\\,->[]%/*"[from % 15];
			}
			synth_format(w, k, EVIL, "tick", bad);
			put_payloads(&g, k);
			synth_drain(w, &g, 0);
		}
		NEED(!braid_capture_finish(w));
		text = report(path, turn & 1, NULL);
		NEED(text);
		check_lines(text);
		free(text);
		synth_guest_free(&g);
	}
}

/* Damaged captures ----------------------------------------------------------------------------- */

static void copy_capture(void)
{
	static u8 buffer[1 << 20];
	int from = open(path, O_RDONLY), to = open(copy, O_RDWR | O_CREAT | O_TRUNC, 0600);
	ssize_t n;

	NEED(from >= 0 && to >= 0);
	while ((n = read(from, buffer, sizeof(buffer))) > 0)
		NEED(write(to, buffer, n) == n);
	close(from);
	close(to);
}

/* Truncated at each chunk's border, and a byte before and after. */
static void cut_at_chunks(void)
{
	struct braid_capture_reader *r;
	struct braid_chunk_view view;
	struct braid_chunk_file head;
	u64 offsets[4096];
	u32 nr = 0, last_events = ~0u;
	char *text;
	int off;

	synth_standard(path);
	copy_capture();
	NEED(!braid_capture_open(&r, path, &head));
	while (braid_capture_next(r, &view) > 0 && nr < 4096)
		offsets[nr++] = view.offset;
	braid_capture_close(r);
	while (nr-- > 1) {
		for (off = 1; off >= -1; off--) {
			NEED(!truncate(copy, offsets[nr] + off));
			text = report(copy, nr & 1, NULL);
			NEED(text);
			check_lines(text);
			if (off == 0 && !(nr & 1)) {
				u32 events = count_lines(text, " tick: ") + count_lines(text, " tock: ");

				CHECK(events <= last_events);
				last_events = events;
			}
			free(text);
		}
		if (nr > 40 && nr % 5)
			nr -= 4;	/* enough of these */
	}
	NEED(!truncate(copy, 10));
	CHECK(!report(copy, false, NULL));
	CHECK(strstr(braid_failure(), "truncated"));
	NEED(!truncate(copy, 0));
	CHECK(!report(copy, false, NULL));
	CHECK(strstr(braid_failure(), "empty"));
}

static void flipped_bits(void)
{
	u64 seed = 3;
	struct stat st;
	u32 turn, k;
	char *text;

	synth_standard(path);
	NEED(!stat(path, &st));
	for (turn = 0; turn < 200; turn++) {
		int fd;

		copy_capture();
		fd = open(copy, O_RDWR);
		for (k = 0; k <= turn % 20; k++) {
			u64 at;
			u8 byte;

			seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
			at = (seed >> 20) % st.st_size;
			NEED(pread(fd, &byte, 1, at) == 1);
			byte ^= 1 << (seed >> 61);
			NEED(pwrite(fd, &byte, 1, at) == 1);
		}
		close(fd);
		text = report(copy, turn & 1, NULL);
		if (text)
			check_lines(text);
		free(text);
	}
}

int main(void)
{
	snprintf(path, sizeof(path), "/tmp/braid-report-%d", getpid());
	snprintf(copy, sizeof(copy), "/tmp/braid-report-%d-copy", getpid());
	RUN(columns);
	RUN(arrays);
	RUN(filters);
	RUN(json);
	RUN(hostile_formats);
	RUN(mutated_formats);
	RUN(cut_at_chunks);
	RUN(flipped_bits);
	unlink(path);
	unlink(copy);
	return VERDICT();
}
