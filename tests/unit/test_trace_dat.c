// SPDX-License-Identifier: GPL-2.0-or-later
/* Files of trace-cmd: versions, clocks, losses; alone and with a capture; damaged. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/export/text/form.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/make_trace_dat.h"
#include "tests/unit/need.h"
#include "tests/unit/report_text.h"
#include "tests/unit/run_command.h"
#include "tests/unit/shell.h"

static char dat[64], capture[64];

/* With the standard capture of make_capture.h. */
static const struct synth_dat usual = {
	.version = 7, .clock = "mono_raw", .start = SYNTH_START_NS + 5000, .step = 10000,
};

/* One file, or both as one trace. NULL: it cannot be opened. */
static char *report_all(struct braid_walk_totals *totals, bool both)
{
	static const struct braid_walk_options options;
	char *names[] = { dat, capture }, *text = NULL;
	struct braid_source *source;
	size_t bytes;
	FILE *to;

	if (braid_source_open_captures(&source, names, both ? 2 : 1, NULL))
		return NULL;
	to = open_memstream(&text, &bytes);
	NEED(to && !braid_export_text(to, source, &options, totals));
	fclose(to);
	braid_source_free(source);
	return text;
}

static u64 events_of(const struct synth_dat *params, bool both)
{
	struct braid_walk_totals totals;
	char *text;

	synth_trace_dat(dat, params);
	text = report_all(&totals, both);
	if (!text)
		fprintf(stderr, "%s\n", braid_failure());
	NEED(text);
	free(text);
	return totals.events;
}

static bool refused(const struct synth_dat *params, bool both, const char *why)
{
	struct braid_walk_totals totals;
	char *text;

	synth_trace_dat(dat, params);
	text = report_all(&totals, both);
	if (text)
		fprintf(stderr, "it was read\n");
	else if (!strstr(braid_failure(), why))
		fprintf(stderr, "%s\n", braid_failure());
	else
		return true;
	free(text);
	return false;
}

/* The lines of all versions are the same, except the headers of files. */
static void versions(void)
{
	static const struct { u32 version; bool compressed, zlib; } kinds[] = {
		{ 6, false, false }, { 7, false, false }, { 7, true, false }, { 7, true, true },
	};
	struct braid_walk_totals totals;
	char *first = NULL, *text;
	size_t k;

	for (k = 0; k < 4; k++) {
		struct synth_dat p = usual;

		p.version = kinds[k].version;
		p.compressed = kinds[k].compressed;
		p.zlib = kinds[k].zlib;
		p.uname = "Linux unit-test 6.18.0 x86_64";
		synth_trace_dat(dat, &p);
		text = report_all(&totals, false);
		NEED(text);
		CHECK_EQ(totals.events, SYNTH_DAT_EVENTS);
		CHECK_EQ(totals.lost, 0);
		if (!first) {
			CHECK(strstr(text, "Linux 6.18.0 x86_64, 2 CPUs, clock mono_raw"));
			CHECK(strstr(text, "first-40      [000]   1000.000005000: beat:                  count=0\n"));
			CHECK(strstr(text, "second one-41      [001]   1000.000015000: beat:                  count=0\n"));
			CHECK(strstr(text, "1000.005995000: beat:                  count=299\n"));
			first = text;
			continue;
		}
		CHECK(!strcmp(text, first));
		free(text);
	}
	free(first);
}

/* The list of constant texts. */
static void printk_formats(void)
{
	struct synth_dat p = usual;
	char *names[] = { dat };
	struct braid_source *source;

	for (p.version = 6; p.version <= 7; p.version++) {
		synth_trace_dat(dat, &p);
		NEED(!braid_source_open_captures(&source, names, 1, NULL));
		CHECK(source->streams[0]->printk_formats &&
		      !strcmp(source->streams[0]->printk_formats, "0xffff : \"printk\"\n"));
		braid_source_free(source);
	}
}

static int status_of_buffer(const char *name)
{
	return RUN_COMMAND(braid_cmd_report, "report", "-o", "/dev/null", "-B", name, dat);
}

static void instances(void)
{
	struct synth_dat p = usual;

	for (p.version = 6; p.version <= 7; p.version++) {
		p.top_empty = false;
		p.instance = "second";
		CHECK_EQ(events_of(&p, false), 2 * SYNTH_DAT_EVENTS);
		p.top_empty = true;
		CHECK_EQ(events_of(&p, false), SYNTH_DAT_EVENTS);
		CHECK_EQ(status_of_buffer("second"), 0);
		CHECK_EQ(status_of_buffer("trace"), 2);
	}
}

/* trace-cmd writes the top buffer's clock for an instance that had another. */
static void clocks_of_instances(void)
{
	struct synth_dat p = usual;

	p.instance = "second";
	p.buffer_clock = "local";
	CHECK(refused(&p, false, "lacks the clock of its instance 'second'"));
	p.top_empty = true;
	CHECK_EQ(events_of(&p, true), SYNTH_DAT_EVENTS + 857);
	p.clock = NULL;
	CHECK(refused(&p, true, "record -C mono_raw"));
}

static void losses(void)
{
	struct braid_walk_totals totals;
	struct synth_dat p = usual;
	char *text;

	p.lost = 77;
	synth_trace_dat(dat, &p);
	text = report_all(&totals, false);
	NEED(text);
	CHECK_EQ(totals.lost, 77);
	CHECK(!totals.some_lost);
	CHECK(strstr(text, "[001]   1000.002015000: LOST 77 events\n"));
	free(text);
	p.lost = ~0ULL;
	p.compressed = true;
	synth_trace_dat(dat, &p);
	text = report_all(&totals, false);
	NEED(text);
	CHECK(totals.some_lost);
	CHECK(strstr(text, "[001]   1000.002015000: LOST some events\n"));
	free(text);
}

/*
 * What the kernel counted and the pages do not tell is lost at an unknown time: after all events.
 */
static void counted_losses(void)
{
	struct braid_walk_totals totals;
	struct synth_dat p = usual;
	char *text;

	for (p.version = 6; p.version <= 7; p.version++) {
		p.overrun = 70;
		p.lost = 0;
		synth_trace_dat(dat, &p);
		text = report_all(&totals, false);
		NEED(text);
		CHECK_EQ(totals.lost, 77);
		CHECK_EQ(totals.events, SYNTH_DAT_EVENTS);
		CHECK(strstr(text, "[001]   1000.005995000: LOST 77 events\n"));
		free(text);
		p.lost = 50;
		synth_trace_dat(dat, &p);
		text = report_all(&totals, false);
		NEED(text);
		CHECK_EQ(totals.lost, 77);
		CHECK(strstr(text, "LOST 50 events\n") && strstr(text, "LOST 27 events\n"));
		free(text);
		p.lost = 90;
		CHECK_EQ(events_of(&p, false), SYNTH_DAT_EVENTS);
	}
}

/* With a capture: by its clock, by one that it has samples of, and by no other. */
static void clocks(void)
{
	struct braid_capture_writer *w = synth_capture(capture);
	struct braid_walk_totals totals;
	struct synth_dat p = usual;
	char *text;

	synth_host_clock(w, BRAID_HOST_CLOCK_TRACE, "boot", 7000000000ULL);
	synth_host_clock(w, BRAID_HOST_CLOCK_COUNTER, "tsc", 90000000000ULL);
	synth_host(w, 1, 10, SYNTH_START_NS + 1000, 40000);
	NEED(!braid_capture_finish(w));
	CHECK_EQ(events_of(&p, true), SYNTH_DAT_EVENTS + 10);
	p.clock = p.buffer_clock = "boot";
	p.start = usual.start + 7000000000ULL;
	synth_trace_dat(dat, &p);
	text = report_all(&totals, true);
	NEED(text);
	CHECK(strstr(text, "first-40      [000]   1000.000005"));
	CHECK(strstr(text, "clock boot"));
	free(text);
	p.clock = p.buffer_clock = "x86-tsc";
	p.start = usual.start + 90000000000ULL;
	synth_trace_dat(dat, &p);
	text = report_all(&totals, true);
	NEED(text);
	CHECK(strstr(text, "first-40      [000]   1000.000005"));
	free(text);
	CHECK(refused(&p, false, "not in seconds"));
	p.clock = p.buffer_clock = "local";
	CHECK(refused(&p, true, "record -C mono_raw"));
	CHECK_EQ(events_of(&p, false), SYNTH_DAT_EVENTS);
}

static void other_hosts(void)
{
	struct synth_dat p = usual;

	synth_standard(capture);
	CHECK_EQ(events_of(&p, true), SYNTH_DAT_EVENTS + 857);
	p.start += 100000000000000;
	CHECK(refused(&p, true, "no time in common"));
	p.start = 1000;
	CHECK(refused(&p, true, "no time in common"));
	p.start = usual.start;
	p.uname = "Linux elsewhere 6.1.0 x86_64";
	CHECK(refused(&p, true, "differ in their host:"));
	p.uname = NULL;
	p.shifted = true;
	CHECK(refused(&p, true, "a guest"));
}

/* KASLR puts the kernel at another address in each boot. */
static void other_boots(void)
{
	static const char *const here = "ffffffff81000000 T _stext\nffffffff81000100 T other\n";
	struct synth_dat p = usual;
	char *names[] = { dat, capture };
	struct braid_source *source;

	p.kallsyms = here;
	synth_trace_dat(dat, &p);
	synth_trace_dat(capture, &p);
	NEED(!braid_source_open_captures(&source, names, 2, NULL));
	CHECK_EQ(source->nr_streams, 2);
	CHECK(strcmp(source->streams[0]->name, source->streams[1]->name));
	braid_source_free(source);
	p.kallsyms = "ffffffff92000000 T _stext\n";
	synth_trace_dat(dat, &p);
	CHECK_EQ(braid_source_open_captures(&source, names, 2, NULL), -EXDEV);
	CHECK(strstr(braid_failure(), "differ in their boot of the host"));
	synth_standard(capture);
}

static void unknown_kinds(void)
{
	struct synth_dat p = usual;

	p.compression = "lzma";
	CHECK(refused(&p, false, "compressed by lzma"));
}

/* trace-cmd itself ----------------------------------------------------------------------------- */

/*
 * "[CPU] SECONDS count=N" of each event, sorted: lines of the same time have no order. trace-cmd 3.3
 * shows flags after the CPU.
 */
#define BEATS	"sed -n 's/.*\\(\\[0[0-9]*\\]\\) *\\([^0-9 ][^ ]*\\)* *\\([0-9]*[.]......\\)[0-9]*: beat: *\\(count.*\\)/\\1 \\3 \\4/p' | sort"

/* It reads the same from our files as we do. */
static void as_trace_cmd_reads(void)
{
	struct braid_walk_totals totals;
	struct synth_dat p = usual;
	char *ours, *theirs, *text, name[80];
	FILE *file;
	u32 kind;

	p.instance = "second";
	p.lost = 5;
	snprintf(name, sizeof(name), "%s.text", dat);
	for (kind = 0; kind < 3; kind++) {
		p.version = kind ? 7 : 6;
		p.compressed = kind == 2;
		synth_trace_dat(dat, &p);
		text = report_all(&totals, false);
		NEED(text);
		file = fopen(name, "w");
		NEED(file && fputs(text, file) >= 0 && !fclose(file));
		ours = shell_output("cat %s | " BEATS, name);
		theirs = shell_output("trace-cmd report -i %s 2>/dev/null | " BEATS, dat);
		CHECK_EQ(totals.events, 2 * SYNTH_DAT_EVENTS);
		CHECK(strlen(ours) > 1000 && !strcmp(ours, theirs));
		free(ours);
		free(theirs);
		free(text);
	}
	unlink(name);
}

/* We read the same from all files that it converts. */
static void as_trace_cmd_writes(void)
{
	static const char *const kinds[] = {
		"6 --compression none", "7 --compression none", "7 --compression zstd",
	};
	struct braid_walk_totals totals;
	char *first, *text, other[80];
	struct synth_dat p = usual;
	size_t k;

	p.version = 6;
	p.instance = "second";
	p.lost = 5;
	p.uname = "Linux testhost 6.12.0-test x86_64";
	synth_trace_dat(dat, &p);
	first = report_all(&totals, true);
	NEED(first);
	CHECK_EQ(totals.lost, 193 + 2 * 5);
	snprintf(other, sizeof(other), "%s.other", dat);
	NEED(!rename(dat, other));
	for (k = 0; k < 3; k++) {
		free(shell_output("trace-cmd convert -i %s -o %s --file-version %s >/dev/null 2>&1", other,
				  dat, kinds[k]));
		text = report_all(&totals, true);
		NEED(text);
		CHECK(!strcmp(text, first));
		free(text);
	}
	free(first);
	unlink(other);
}

/* `merge` prints, and writes other forms. */
static void command(void)
{
	struct stat st;
	char out[80], *text;

	snprintf(out, sizeof(out), "%s.out", dat);
	synth_trace_dat(dat, &usual);
	CHECK_EQ(RUN_COMMAND(braid_cmd_merge, "merge", capture, dat, "--to", "json", "-o", out), 0);
	CHECK(!stat(out, &st) && st.st_size > 50000);
	unlink(out);
	CHECK_EQ(RUN_COMMAND(braid_cmd_report, "report", "--stats", "-o", out, dat), 0);
	text = shell_output("grep -c ' unknown  *?  *?  *?$' %s", out);
	CHECK(!strcmp(text, "2\n"));	/* CPUs without sched_switch: busy for an unknown time */
	free(text);
	unlink(out);
	CHECK_EQ(RUN_COMMAND(braid_cmd_merge, "merge", capture, dat, "-F", "beat: count > 1000", "-o", out), 2);
	unlink(out);
	CHECK_EQ(RUN_COMMAND(braid_cmd_merge, "merge", "/nowhere/at/all", dat, "-o", out), 1);
}

/* Damage --------------------------------------------------------------------------------------- */

static u8 bytes[1 << 20];

static size_t load(void)
{
	int fd = open(dat, O_RDONLY);
	ssize_t n = read(fd, bytes, sizeof(bytes));

	NEED(n > 0 && n < (ssize_t)sizeof(bytes));
	close(fd);
	return n;
}

static void store(size_t n)
{
	int fd = open(dat, O_WRONLY | O_TRUNC);

	NEED(write(fd, bytes, n) == (ssize_t)n);
	close(fd);
}

/* Truncated anywhere, and changed anywhere except in the formats' text, which format/ tests. */
static void damaged(void)
{
	struct braid_walk_totals totals;
	u32 kind, turn;
	size_t n, at;
	u64 seed = 9;

	for (kind = 0; kind < 4; kind++) {
		struct synth_dat p = usual;

		p.version = kind ? 7 : 6;
		p.compressed = kind >= 2;
		p.zlib = kind == 3;
		p.instance = "second";
		synth_trace_dat(dat, &p);
		n = load();
		for (at = 0; at < n; at += at < 2000 ? 37 : 1999) {
			store(at);
			free(report_all(&totals, false));
		}
		for (turn = 0; turn < 250; turn++) {
			u8 before;

			seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
			at = (seed >> 33) % (turn & 1 || n < 2000 ? n : 2000);
			before = bytes[at];
			bytes[at] = turn & 2 ? 0xff : before ^ 1 << (seed >> 61);
			store(n);
			free(report_all(&totals, false));
			bytes[at] = before;
		}
	}
}

/* Claimed content takes memory page by page. */
static void claims_too_much(void)
{
	struct synth_dat p = usual;

	p.version = 7;
	p.compressed = true;
	p.bloated = 1000;
	CHECK(refused(&p, false, "more pages than it can hold"));
}

/* Rings are merged page by page: the decompressed data of all must fit in memory. */
static void unpacks_too_much(void)
{
	struct synth_dat p = usual;
	char *names[] = { dat };
	struct braid_source *source;

	p.version = 7;
	p.compressed = true;
	p.bloated = 1;
	p.aliases = 80;		/* of 8 MiB each */
	synth_trace_dat(dat, &p);
	NEED(!truncate(dat, 8 << 20));	/* a file of this size may contain them */
	CHECK_EQ(braid_source_open_captures(&source, names, 1, NULL), -EFBIG);
	CHECK(strstr(braid_failure(), "--compression none"));
}

static u32 unpacked;		/* chunks, since it was set */

/* In the place of zstd's own. */
size_t ZSTD_decompress(void *to, size_t room, const void *from, size_t bytes)
{
	ZSTD_DCtx *zstd = ZSTD_createDCtx();
	size_t n = ZSTD_decompressDCtx(zstd, to, room, from, bytes);

	ZSTD_freeDCtx(zstd);
	unpacked++;
	return n;
}

/* A chunk that can't be unpacked is tried once, not for each of its 2048 pages. */
static void damaged_chunks(void)
{
	struct braid_walk_totals totals;
	struct synth_dat p = usual;

	p.compressed = true;
	p.bloated = 1;
	synth_trace_dat(dat, &p);
	unpacked = 0;
	free(report_all(&totals, false));
	CHECK_EQ(totals.events, 0);
	CHECK(unpacked && unpacked < 20);
}

int main(void)
{
	snprintf(dat, sizeof(dat), "/tmp/braid-%d.dat", getpid());
	snprintf(capture, sizeof(capture), "/tmp/braid-%d.braid", getpid());
	synth_standard(capture);
	RUN(versions);
	RUN(printk_formats);
	RUN(instances);
	RUN(clocks_of_instances);
	RUN(losses);
	RUN(counted_losses);
	RUN(clocks);
	RUN(other_hosts);
	RUN(other_boots);
	RUN(unknown_kinds);
	RUN(as_trace_cmd_reads);
	RUN(as_trace_cmd_writes);
	RUN(command);
	RUN(damaged);
	RUN(claims_too_much);
	RUN(unpacks_too_much);
	RUN(damaged_chunks);
	unlink(dat);
	unlink(capture);
	return VERDICT();
}
