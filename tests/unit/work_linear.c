// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Reading a capture takes work in proportion to its size, for any content. Work is counted, not
 * timed: this program's objects call a counter at the start of each basic block, so that a count is
 * the same on every machine. Four times as many items may take at most five times the work:
 * sorting is allowed, a scan for each element is not.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "host_agent/capture/pack.h"
#include "host_agent/export/html/form.h"
#include "host_agent/export/perfetto/form.h"
#include "host_agent/export/stats/form.h"
#include "host_agent/export/text/form.h"
#include "host_agent/trace/source.h"
#include "host_agent/util/error.h"
#include "host_agent/walk/analysis.h"
#include "shared/schema.h"
#include "tests/unit/check.h"
#include "tests/unit/crowd.h"
#include "tests/unit/format_text.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/make_trace_dat.h"
#include "tests/unit/need.h"
#include "tracebraid/tracebraid.h"

#define GROWTH	4
#define MOST	5	/* times the work */

static char path[64];
static u64 blocks;

void __sanitizer_cov_trace_pc(void);

__attribute__((no_sanitize_coverage))
void __sanitizer_cov_trace_pc(void)
{
	blocks++;
}

/* In the place of zstd's own, which does not count. */
size_t ZSTD_decompress(void *to, size_t room, const void *from, size_t bytes)
{
	ZSTD_DCtx *zstd = ZSTD_createDCtx();
	size_t n = ZSTD_decompressDCtx(zstd, to, room, from, bytes);

	ZSTD_freeDCtx(zstd);
	blocks += room / 64;
	return n;
}

/* A sub-buffer with one event of an id. */
static void put_page(struct braid_capture_writer *w, u32 buffer, u32 vcpu, u64 position, u64 seq,
		     u16 id)
{
	struct braid_chunk_page page = {
		.buffer = buffer, .vcpu = vcpu, .flags = BRAID_PAGE_FINAL, .position = position,
		.to_bytes = 12, .time_stamp = 1000 + position * 1000, .first_seq = seq,
		.host_ns = SYNTH_START_NS + (1ULL << 40),
	};
	struct {
		u32 head;
		struct braid_record record;
	} event = { BRAID_TYPE_DATA | 2 << 2, { .common_type = id, .common_pid = position } };

	static_assert(sizeof(event) == 12, "one event");
	NEED(!braid_capture_put(w, BRAID_CHUNK_PAGE, 1, &page, sizeof(page), &event,
				sizeof(event)));
}

static void put_all(struct braid_capture_writer *w, u16 type, const void *one, u32 bytes)
{
	NEED(!braid_capture_put(w, type, 1, one, bytes, NULL, 0));
}

/* One name for all: each follows another. */
static void streams(struct braid_capture_writer *w, u32 n)
{
	u32 k;

	for (k = 1; k <= n; k++)
		crowd_guest(w, k, 1, 1);
}

/* Pages of all rings alternately. */
static void rings(struct braid_capture_writer *w, u32 n)
{
	u32 k;

	crowd_guest(w, 1, n / BRAID_MAX_BUFFERS, BRAID_MAX_BUFFERS);
	for (k = 0; k < 2 * n; k++)
		put_page(w, k % BRAID_MAX_BUFFERS, k % n / BRAID_MAX_BUFFERS, k / n, k / n, 1);
}

/* A ring that recordings took in turn; pages that jump from its first part to after its last. */
static void parts(struct braid_capture_writer *w, u32 n)
{
	u32 k;

	crowd_guest(w, 1, 1, 1);
	for (k = 0; k < n; k++) {
		struct braid_chunk_ring_end end = {
			.first_seq = 100 + 10 * k, .read = 1 + k, .read_before = k,
		};

		put_all(w, BRAID_CHUNK_RING_END, &end, sizeof(end));
		put_page(w, 0, 0, k, k & 1 ? 100 + 10 * n : 100, 1);
	}
}

static void notes(struct braid_capture_writer *w, u32 n)
{
	struct {
		struct braid_chunk_note head;
		char text[8];
	} note = { .text = "a note" };
	u32 k;

	crowd_guest(w, 1, 1, 1);
	for (k = 0; k < n; k++) {
		note.head.host_ns = SYNTH_START_NS - k;
		put_all(w, BRAID_CHUNK_NOTE, &note, sizeof(note));
	}
}

static void comms(struct braid_capture_writer *w, u32 n)
{
	u32 k;

	crowd_guest(w, 1, 1, 1);
	for (k = 0; k < n; k++) {
		struct braid_comm comm = { .seq = 2, .pid = k & 7, .since_counter = n - k, .comm = "task" };

		put_all(w, BRAID_CHUNK_COMMS, &comm, sizeof(comm));
		put_page(w, 0, 0, k, k, 1);
	}
}

static void stacks(struct braid_capture_writer *w, u32 n)
{
	u32 k;

	crowd_guest(w, 1, 1, 1);
	for (k = 0; k < n; k++) {
		const u64 words[] = { (n - k) | 1ULL << 32, k };

		put_all(w, BRAID_CHUNK_STACKS, words, sizeof(words));
		put_page(w, 0, 0, k, k, 1);
	}
}

/* Formats of ids of all buffers, and an event of each. */
static void formats(struct braid_capture_writer *w, u32 n)
{
	static struct {
		struct braid_directory dir;
		u8 room[1024];
	} d;
	u32 k;

	crowd_guest(w, 1, 1, BRAID_MAX_BUFFERS);
	for (k = 0; k < n; k++) {
		struct braid_schema_event event = {
			.id = k * 7, .buffer = k % BRAID_MAX_BUFFERS, .system = "s", .name = "n",
			.format = "format:\n",
		};
		u32 used = 0;

		memset(&d.dir, 0, sizeof(d.dir));
		NEED(!braid_schema_append(&d.dir, sizeof(d.room), &used, &event));
		NEED(!braid_capture_put(w, BRAID_CHUNK_EVENTS, 1, NULL, 0, d.dir.data, used));
		put_page(w, k % BRAID_MAX_BUFFERS, 0, k / BRAID_MAX_BUFFERS, k / BRAID_MAX_BUFFERS,
			 k * 7);
	}
}

static void put_sample(struct braid_capture_writer *w, u32 vcpu, u64 ns, u64 counter)
{
	struct {
		struct braid_chunk_clock_vcpu head;
		struct braid_clock_sample sample;
	} one = { { .vcpu = vcpu - 1 }, { ns - 100, counter, ns + 100 } };

	if (vcpu)
		put_all(w, BRAID_CHUNK_CLOCK_VCPU, &one, sizeof(one));
	else
		put_all(w, BRAID_CHUNK_CLOCK, &one.sample, sizeof(one.sample));
}

/* The host's counter, to which guests' offsets refer. */
static void put_host_counter(struct braid_capture_writer *w)
{
	synth_host_clock(w, BRAID_HOST_CLOCK_COUNTER, "tsc", 0);
}

/* An event that wakes up a task, with a word in it. */
static void put_wakeup(struct braid_capture_writer *w, u32 k, u32 pid, const char *word)
{
	struct {
		u32 head;
		struct braid_record record;
		u32 pid;
		char word[8];
	} event = {
		BRAID_TYPE_DATA | 5 << 2, { .common_type = 9, .common_pid = pid }, .pid = pid,
	};
	struct braid_chunk_page page = {
		.flags = BRAID_PAGE_FINAL, .position = k, .to_bytes = sizeof(event),
		.time_stamp = 1000 + k * 1000ULL, .first_seq = k,
		.host_ns = SYNTH_START_NS + (1ULL << 40),
	};

	static_assert(sizeof(event) == 24, "one event");
	memcpy(event.word, word, strnlen(word, sizeof(event.word)));
	NEED(!braid_capture_put(w, BRAID_CHUNK_PAGE, 1, &page, sizeof(page), &event,
				sizeof(event)));
}

static void begin_wakeups(struct braid_capture_writer *w)
{
	crowd_guest(w, 1, 1, 1);
	synth_format(w, 9, "sched", "sched_wakeup",
		     "format:\n"
		     FORMAT_COMMON
		     "\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n"
		     "\tfield:char comm[8];\toffset:12;\tsize:8;\tsigned:0;\n"
		     "\tfield:char word[8];\toffset:12;\tsize:8;\tsigned:0;\n\n"
		     "print fmt: \"%s\", REC->word\n");
}

#define CHOSEN_MASK	0x3fffu

/* Tasks of the first stream that are in one slot if their number is multiplied to hash it. */
static void pids(struct braid_capture_writer *w, u32 n)
{
	u32 k = 0, pid;

	begin_wakeups(w);
	for (pid = 1; k < n; pid++)
		if (!((pid * 0x9e3779b97f4a7c15ULL) >> 32 & CHOSEN_MASK))
			put_wakeup(w, k++, pid, "word");
}

/* Words that are in one slot if FNV-1a hashes them. */
static void words(struct braid_capture_writer *w, u32 n)
{
	char word[9] = "";
	u32 k = 0, number, at;

	begin_wakeups(w);
	for (number = 0; k < n; number++) {
		u64 hash = 0xcbf29ce484222325ULL;

		for (at = 0; at < 8; at++) {
			word[at] = 'a' + (number >> 4 * at & 15);
			hash = (hash ^ (u8)word[at]) * 0x100000001b3ULL;
		}
		if (!((hash ^ hash >> 29) & CHOSEN_MASK))
			put_wakeup(w, k++, 1, word);
	}
}

/* No two samples are on one line. */
static void steps(struct braid_capture_writer *w, u32 n)
{
	u32 k;

	crowd_guest(w, 1, 64, 1);
	for (k = 0; k < n; k++)
		put_sample(w, 1 + k % 2, SYNTH_START_NS + k * 1000000ULL,
			   1000 + k * 1000000ULL + k % 5 * 300000ULL);
}

/* Offsets of many vCPUs; samples that any of them may have answered. */
static void offsets(struct braid_capture_writer *w, u32 n)
{
	u32 k;

	put_host_counter(w);
	crowd_guest(w, 1, n, 1);
	for (k = 0; k < n; k++) {
		struct braid_clock_offset offset = {
			.vcpu = k, .offset = (u64)k << 40, .from_counter = k,
		};

		put_all(w, BRAID_CHUNK_CLOCK_OFFSET, &offset, sizeof(offset));
		put_sample(w, 0, SYNTH_START_NS + k * 1000ULL,
			   SYNTH_START_NS + k * 1000ULL + ((u64)(n - 1) << 40));
	}
}

/* Pauses of a guest with many vCPUs. */
static void pauses(struct braid_capture_writer *w, u32 n)
{
	u32 k;

	put_host_counter(w);
	crowd_guest(w, 1, n, 1);
	for (k = 0; k < n; k++) {
		struct braid_clock_offset offset = { .vcpu = k, .offset = k };
		struct braid_clock_mark mark = {
			.kind = k & 1 ? BRAID_MARK_RESUMED : BRAID_MARK_PAUSED,
			.from_ns = SYNTH_START_NS + k * 1000,
			.to_ns = SYNTH_START_NS + k * 1000 + 10,
		};

		put_all(w, BRAID_CHUNK_CLOCK_OFFSET, &offset, sizeof(offset));
		put_all(w, BRAID_CHUNK_CLOCK_MARK, &mark, sizeof(mark));
	}
}

/* Disruptions, apart from each other, with samples between them. */
static void disruptions(struct braid_capture_writer *w, u32 n)
{
	u32 k;

	crowd_guest(w, 1, 1, 1);
	for (k = 0; k < n; k++) {
		struct braid_clock_mark mark = {
			.kind = BRAID_MARK_DISRUPTED,
			.from_ns = SYNTH_START_NS + k * 1000000ULL + 500000,
			.to_ns = SYNTH_START_NS + k * 1000000ULL + 510000 + k % 3 * 600000,
		};

		put_sample(w, 0, SYNTH_START_NS + k * 1000000ULL, 1000 + k * 1000000ULL);
		put_all(w, BRAID_CHUNK_CLOCK_MARK, &mark, sizeof(mark));
	}
}

/* A guest that may have many vCPUs, two of which contradict each other. */
static void unseen(struct braid_capture_writer *w, u32 n)
{
	u32 k;

	crowd_guest(w, 1, n, 1);
	for (k = 0; k < n; k++)
		put_sample(w, 1 + k % 2, SYNTH_START_NS + k * 1000000ULL,
			   1000 + k * 1000000ULL + (k % 2) * 777777777ULL +
				   k / 16 % 2 * 5000000ULL);
}

/* A file in which every part claims to be a chunk. */
static void forged(struct braid_capture_writer *w, u32 n)
{
	struct braid_chunk claim = { .magic = BRAID_CHUNK_MAGIC, .payload_bytes = 512 };
	u8 *bytes = calloc(n, sizeof(claim));
	u32 k;

	NEED(bytes);
	for (k = 0; k < n; k++)
		memcpy(bytes + k * sizeof(claim), &claim, sizeof(claim));
	crowd_guest(w, 1, 1, 1);
	put_all(w, BRAID_CHUNK_NOTE, bytes, n * sizeof(claim));
	free(bytes);
}

static void break_file(u32 n)
{
	FILE *file = fopen(path, "r+b");

	/* The note's checksum: its content is then searched for chunks. */
	NEED(file && !fseek(file, -(long)(n * sizeof(struct braid_chunk)) - 40, SEEK_END) &&
	     fputc(0x5a, file) != EOF && !fclose(file));
}

static void read_columns(const char *file)
{
	const char *const paths[] = { file }, *const names[] = { "comm", "word" };
	s64 values[2][256];
	s64 *const columns[] = { values[0], values[1] };
	struct tracebraid_trace *trace;
	struct tracebraid_walk *walk;

	NEED(!tracebraid_open(&trace, paths, 1, NULL, NULL, NULL));
	NEED(!tracebraid_walk_new(&walk, trace, NULL));
	while (tracebraid_columns(walk, names, columns, 2, 256) > 0)
		;
	tracebraid_walk_free(walk);
	tracebraid_close(trace);
}

static void pack(void)
{
	char packed[sizeof(path) + 8];
	struct braid_pack_run run = { 0 };
	int from = open(path, O_RDONLY | O_CLOEXEC), to;

	snprintf(packed, sizeof(packed), "%s.packed", path);
	to = open(packed, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	NEED(from >= 0 && to >= 0 && !braid_pack(to, from, path, &run));
	close(from);
	close(to);
	NEED(!rename(packed, path));
}

/* A segment with as many ranges of chunks that are not pages. */
static void ranges(struct braid_capture_writer *w, u32 n)
{
	u32 k;

	crowd_guest(w, 1, 1, 1);
	for (k = 0; k < n; k++) {
		struct braid_chunk_note note = { .host_ns = SYNTH_START_NS + k };

		put_all(w, BRAID_CHUNK_NOTE, &note, sizeof(note));
		put_page(w, 0, 0, k, k, 1);
	}
}

/* A chunk of a trace.dat with so many pages that can't be unpacked; it takes the file's place. */
static void damaged_chunk(struct braid_capture_writer *w, u32 n)
{
	const struct synth_dat p = {
		.version = 7, .compressed = true, .bloated = 1, .bloated_bytes = n * 4096,
		.clock = "[mono_raw]", .uname = "Linux host", .start = SYNTH_START_NS, .step = 10,
	};

	(void)w;
	unlink(path);		/* the writer's */
	synth_trace_dat(path, &p);
}

/* All that the library lists of a capture, one by one. */
static void list_all(void)
{
	const struct tracebraid_stream *stream;
	struct tracebraid_trace *trace;
	const char *paths[] = { path };
	struct tracebraid_ring ring;
	size_t k, n;

	NEED(!tracebraid_open(&trace, paths, 1, NULL, NULL, NULL));
	for (k = 0; (stream = tracebraid_stream(trace, k)); k++)
		for (n = 0; !tracebraid_stream_ring(stream, n, &ring); n++)
			;
	tracebraid_close(trace);
}

/* Analyses ------------------------------------------------------------------------------------ */

static bool is_analyzed(void (*make)(struct braid_capture_writer *w, u32 n))
{
	return make == crowd_waiters || make == crowd_losses || make == crowd_culprits ||
	       make == crowd_lives;
}

static void analyze(FILE *null, struct braid_source *source)
{
	struct braid_analysis_options wants = { .top = 10 };
	struct braid_walk_options options = { 0 };
	struct braid_walk_totals totals = { 0 };
	const struct braid_analysis *analysis;
	u32 k;
	int err;

	for (k = 0; (analysis = braid_analysis_by_number(k)); k++) {
		braid_source_rewind(source);
		err = braid_analysis_write(null, source, &options, analysis, &wants);
		NEED(!err || err == -ENODATA);	/* exits, without the events that it needs */
	}
	braid_source_rewind(source);
	NEED(!braid_export_html("/dev/null", source, &options, &totals));
	braid_source_rewind(source);
	err = braid_export_perfetto(null, source, &options, &totals);
	NEED(!err || err == -ERANGE);		/* it has at most 1024 CPUs */
}

static u64 work_of(void (*make)(struct braid_capture_writer *w, u32 n), u32 n)
{
	const struct braid_source_options how = { .by_index = make == ranges };
	struct braid_walk_options options = { 0 };
	struct braid_walk_totals totals;
	struct braid_capture_writer *w = synth_capture(path);
	struct braid_source *source;
	char *paths[] = { path };
	FILE *null = fopen("/dev/null", "w");
	u64 work;

	NEED(null);
	make(w, n);
	NEED(!braid_capture_finish(w));
	if (make == forged)
		break_file(n);
	if (make == ranges)
		pack();
	blocks = 0;
	list_all();
	NEED(!braid_source_open_captures(&source, paths, 1, &how));
	NEED(!braid_export_text(null, source, &options, &totals));
	braid_source_rewind(source);
	NEED(!braid_export_stats(null, source, &options, &totals));
	if (is_analyzed(make))
		analyze(null, source);
	braid_source_free(source);
	read_columns(path);
	work = blocks;
	fclose(null);
	return work;
}

/* Many captures, which are read as one trace. */
static u64 work_of_captures(u32 n)
{
	struct braid_source *source;
	char **paths = calloc(n, sizeof(*paths));
	FILE *null = fopen("/dev/null", "w");
	struct braid_capture_writer *w;
	u32 k;

	NEED(paths && null);
	for (k = 0; k < n; k++) {
		NEED(asprintf(&paths[k], "%s.%u", path, k) > 0);
		w = synth_capture(paths[k]);
		crowd_capture(w, k);
		NEED(!braid_capture_finish(w));
	}
	blocks = 0;
	NEED(!braid_source_open_captures(&source, paths, n, NULL));
	analyze(null, source);
	braid_source_free(source);
	for (k = 0; k < n; k++) {
		unlink(paths[k]);
		free(paths[k]);
	}
	free(paths);
	fclose(null);
	return blocks;
}

static void compare(const char *what, u32 n, u64 once, u64 more)
{
	if (once < 10000 || more > MOST * once) {
		fprintf(stderr, "%s: %llu blocks for %u, %llu for %u\n", what,
			(unsigned long long)once, n, (unsigned long long)more, GROWTH * n);
		check_failures++;
	}
	printf("%s %s\n", once >= 10000 && more <= MOST * once ? "ok" : "FAIL", what);
	fflush(stdout);
}

#define LINEAR(make, n)	compare(#make, n, work_of(make, n), work_of(make, GROWTH * n))

int main(void)
{
	snprintf(path, sizeof(path), "/tmp/braid-work-%d.braid", getpid());
	LINEAR(streams, 1000);
	LINEAR(rings, 4096);
	LINEAR(parts, 2000);
	LINEAR(notes, 2000);
	LINEAR(comms, 2000);
	LINEAR(stacks, 2000);
	LINEAR(formats, 2000);
	LINEAR(pids, 2000);
	LINEAR(words, 2000);
	LINEAR(steps, 2000);
	LINEAR(offsets, 1024);
	LINEAR(pauses, 1024);
	LINEAR(disruptions, 1024);
	LINEAR(unseen, 1024);
	LINEAR(forged, 4096);
	LINEAR(ranges, 4096);
	LINEAR(damaged_chunk, 512);
	LINEAR(crowd_waiters, 512);
	LINEAR(crowd_losses, 512);
	LINEAR(crowd_culprits, 512);
	LINEAR(crowd_lives, 512);
	compare("captures", 64, work_of_captures(64), work_of_captures(GROWTH * 64));
	unlink(path);
	return VERDICT();
}
