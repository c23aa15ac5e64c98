// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The library follows a capture: while it is written, piece by piece, and one whose recorder is
 * killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/trace/source.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/scratch.h"
#include "tracebraid/tracebraid.h"

#define ROUNDS		40u
#define TICKS		16u	/* of each guest in a round */
#define STEP_NS		10000u	/* between two events */
#define MOST_LINES	4096u

static char *path, *whole;

/* Two guests, of which the second is drained in every fourth round. */
struct scene {
	struct braid_capture_writer *w;
	struct synth_guest a, b;
};

static void scene_begin(struct scene *s)
{
	struct synth_guest_params one = {
		.name = "guest1", .incarnation = 11, .boot = 1, .start_ns = SYNTH_START_NS,
		.nr_slots = 64, .subbuf_bytes = 512,
	};
	struct synth_guest_params two = one;

	two.name = "guest2";
	two.incarnation = 22;
	two.boot = 2;
	s->w = synth_capture(path);
	synth_guest_init(&s->a, &one);
	synth_guest_init(&s->b, &two);
	NEED(!braid_capture_flush(s->w));
	NEED(!braid_capture_publish(s->w));
}

static void put_mark(struct scene *s, s64 until_ns)
{
	struct braid_chunk_complete mark = { .until_ns = until_ns };

	NEED(!braid_capture_put(s->w, BRAID_CHUNK_COMPLETE, 0, &mark, sizeof(mark), NULL, 0));
}

/* Return: up to when the capture says that it is complete. */
static s64 scene_round(struct scene *s, u32 round, bool impatient)
{
	s64 until_ns = 0;
	u32 k;

	if (round == 1)
		synth_begin(s->w, &s->a, 1);
	if (round == 4)
		synth_begin(s->w, &s->b, 2);
	for (k = 0; k < TICKS; k++) {
		s->a.now += STEP_NS;
		s->b.now = s->a.now + STEP_NS / 2;
		synth_tick(&s->a, k & 1, k, "a");
		if (round >= 4)
			synth_tick(&s->b, k & 1, k, "b");
	}
	synth_sample(s->w, &s->a, 50, 50);
	synth_drain(s->w, &s->a, 0);
	if (round >= 4)
		synth_sample(s->w, &s->b, 50, 50);
	if (round % 4 == 0)
		synth_drain(s->w, &s->b, 0);
	if (round % 4 == 0 || impatient) {
		until_ns = synth_host_ns(&s->a, s->a.now);
		put_mark(s, until_ns);
	}
	NEED(!braid_capture_flush(s->w));
	return until_ns;
}

static void scene_end(struct scene *s, bool killed)
{
	synth_end(s->w, &s->a, BRAID_END_STOPPED);
	synth_end(s->w, &s->b, BRAID_END_STOPPED);
	NEED(!braid_capture_flush(s->w));
	if (killed)
		braid_capture_abandon(s->w);
	else
		NEED(!braid_capture_finish(s->w));
	synth_guest_free(&s->a);
	synth_guest_free(&s->b);
}

/* What a walk has returned. */
struct seen {
	u64 events, late, notes;
	int64_t latest_ns;
	u32 too_early;		/* events later than the capture says that it is complete */
	char *lines[MOST_LINES];	/* of events: stream and text */
	bool forged;
};

static int take(struct tracebraid_walk *walk, struct seen *seen, s64 until_ns)
{
	char line[256];
	int got;

	while ((got = tracebraid_walk_next(walk)) > 0 && got != TRACEBRAID_PAUSE) {
		seen->late += tracebraid_late(walk);
		CHECK_EQ(tracebraid_late(walk), tracebraid_ns(walk) < seen->latest_ns);
		if (tracebraid_ns(walk) > seen->latest_ns)
			seen->latest_ns = tracebraid_ns(walk);
		seen->too_early += until_ns && tracebraid_ns(walk) > until_ns;
		seen->notes += got == TRACEBRAID_NOTE;
		seen->forged |= !!strstr(tracebraid_text(walk), "forged");
		if (got != TRACEBRAID_EVENT)
			continue;
		NEED(seen->events < MOST_LINES);
		snprintf(line, sizeof(line), "%s %u %llu %s",
			 tracebraid_stream_name(tracebraid_item_stream(walk)), tracebraid_cpu(walk),
			 (unsigned long long)tracebraid_seq(walk), tracebraid_text(walk));
		seen->lines[seen->events++] = strdup(line);
	}
	return got;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The events of the whole capture; those of @seen are freed. */
static void same_as_whole(struct seen *seen, const char *file)
{
	struct tracebraid_trace *trace = NULL;
	struct tracebraid_walk *walk = NULL;
	static struct seen all;
	u32 k, differ = 0;

	memset(&all, 0, sizeof(all));
	all.latest_ns = INT64_MIN;
	NEED(!tracebraid_open(&trace, &file, 1, NULL, NULL, NULL));
	NEED(!tracebraid_walk_new(&walk, trace, NULL));
	CHECK_EQ(take(walk, &all, 0), TRACEBRAID_END);
	CHECK_EQ(all.late, 0);
	CHECK_EQ(seen->events, all.events);
	CHECK_EQ(seen->notes, all.notes);
	qsort(seen->lines, seen->events, sizeof(*seen->lines), by_text);
	qsort(all.lines, all.events, sizeof(*all.lines), by_text);
	for (k = 0; k < all.events && k < seen->events; k++)
		differ += strcmp(seen->lines[k], all.lines[k]) != 0;
	CHECK_EQ(differ, 0);
	for (k = 0; k < all.events; k++)
		free(all.lines[k]);
	for (k = 0; k < seen->events; k++)
		free(seen->lines[k]);
	tracebraid_walk_free(walk);
	tracebraid_close(trace);
}

static void count_warning(void *arg, const char *line)
{
	u32 *nr = arg;

	*nr += !!strstr(line, "has no end mark");
}

static void follow(bool impatient, bool killed, struct seen *seen)
{
	struct tracebraid_trace *trace = NULL;
	struct tracebraid_walk *walk = NULL;
	s64 until_ns = 0, latest_ns;
	u32 round, warnings = 0;
	struct scene s;

	memset(seen, 0, sizeof(*seen));
	seen->latest_ns = INT64_MIN;
	scene_begin(&s);
	NEED(!tracebraid_follow(&trace, path, NULL, count_warning, &warnings));
	NEED(!tracebraid_walk_new(&walk, trace, NULL));
	CHECK_EQ(tracebraid_walk_next(walk), TRACEBRAID_PAUSE);
	CHECK_EQ(tracebraid_grow(trace, 0), 0);
	for (round = 1; round <= ROUNDS; round++) {
		latest_ns = scene_round(&s, round, impatient);
		until_ns = latest_ns ? latest_ns : until_ns;
		CHECK_EQ(tracebraid_grow(trace, 0), 1);
		CHECK_EQ(tracebraid_grow(trace, 0), 0);
		CHECK_EQ(take(walk, seen, until_ns ? until_ns : INT64_MIN), TRACEBRAID_PAUSE);
		/* All that is complete is there. */
		if (!impatient && round % 4 == 0)
			CHECK_EQ(seen->events, (2 * round - 3) * TICKS - 1);
	}
	scene_end(&s, killed);
	CHECK_EQ(tracebraid_grow(trace, -1), 1);
	if (killed) {
		CHECK_EQ(take(walk, seen, until_ns), TRACEBRAID_PAUSE);
		CHECK_EQ(tracebraid_grow(trace, 0), 0);
		CHECK_EQ(warnings, 0);
		CHECK_EQ(tracebraid_finish(trace), 0);
		CHECK_EQ(tracebraid_grow(trace, 0), 1);
	}
	CHECK_EQ(warnings, killed);
	CHECK_EQ(take(walk, seen, 0), TRACEBRAID_END);
	CHECK_EQ(tracebraid_grow(trace, -1), 0);
	CHECK_EQ(tracebraid_walk_next(walk), TRACEBRAID_END);
	CHECK_EQ(tracebraid_nr_streams(trace), 2);
	CHECK_EQ(seen->events, (2 * ROUNDS - 3) * TICKS);
	tracebraid_walk_free(walk);
	tracebraid_close(trace);
	same_as_whole(seen, path);
}

static void returns_what_is_complete(void)
{
	static struct seen seen;

	follow(false, false, &seen);
	CHECK_EQ(seen.late, 0);
	CHECK_EQ(seen.too_early, 0);
}

static void tells_late_events(void)
{
	static struct seen seen;

	follow(true, false, &seen);
	CHECK(seen.late > ROUNDS / 4 * TICKS);
}

static void a_killed_recording_is_finished_by_its_reader(void)
{
	static struct seen seen;

	follow(false, true, &seen);
	CHECK_EQ(seen.late, 0);
}

/* The file grows by any number of bytes. */
static void follow_bytes(const char *from, u64 step, struct seen *seen)
{
	struct tracebraid_trace *trace = NULL;
	struct tracebraid_walk *walk = NULL;
	int in = open(from, O_RDONLY), out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	static char bytes[1 << 20];
	u32 warnings = 0;
	ssize_t n, had = 0;
	int got = 0;

	memset(seen, 0, sizeof(*seen));
	seen->latest_ns = INT64_MIN;
	NEED(in >= 0 && out >= 0 && step <= sizeof(bytes));
	while ((n = read(in, bytes, had ? step : 512)) > 0) {
		NEED(write(out, bytes, n) == n);
		had += n;
		if (!trace) {
			NEED(!tracebraid_follow(&trace, path, NULL, count_warning, &warnings));
			NEED(!tracebraid_walk_new(&walk, trace, NULL));
		}
		NEED(tracebraid_grow(trace, 0) >= 0);
		got = take(walk, seen, 0);
		CHECK(got == TRACEBRAID_PAUSE || (got == TRACEBRAID_END && !warnings));
	}
	CHECK_EQ(got, TRACEBRAID_END);
	CHECK_EQ(warnings, 0);
	tracebraid_walk_free(walk);
	tracebraid_close(trace);
	close(in);
	close(out);
}

static void a_part_of_a_chunk_is_no_damage(void)
{
	static struct seen seen;
	u64 steps[] = { 333, 4096, 100000 };
	size_t k;

	synth_standard(whole);
	for (k = 0; k < sizeof(steps) / sizeof(*steps); k++) {
		follow_bytes(whole, steps[k], &seen);
		same_as_whole(&seen, whole);
	}
}

/* What a chunk contains is not taken for chunks while the rest of it is not there yet. */
static void chunks_within_a_part_are_not_read(void)
{
	static u64 inner[512];
	struct braid_chunk_note note = { .host_ns = SYNTH_START_NS };
	struct braid_chunk_text text = { .kind = 1 };
	struct scene s;
	static struct seen seen;
	struct stat st;
	int fd;

	/* A file of one whole chunk, for its bytes. */
	scene_begin(&s);
	synth_begin(s.w, &s.a, 1);
	NEED(!braid_capture_flush(s.w) && !stat(path, &st));
	NEED(!braid_capture_put(s.w, BRAID_CHUNK_NOTE, 1, &note, sizeof(note), "forged", 6));
	scene_end(&s, false);
	fd = open(path, O_RDONLY);
	NEED(fd >= 0 && pread(fd, inner, 64, st.st_size) == 64);
	close(fd);

	s.w = synth_capture(whole);
	synth_guest_init(&s.a, &(struct synth_guest_params){
		.name = "guest1", .incarnation = 11, .boot = 1, .start_ns = SYNTH_START_NS,
		.nr_slots = 64, .subbuf_bytes = 512,
	});
	synth_begin(s.w, &s.a, 1);
	NEED(!braid_capture_put(s.w, BRAID_CHUNK_TEXT, 1, &text, sizeof(text), inner,
				sizeof(inner)));
	NEED(!braid_capture_finish(s.w));
	synth_guest_free(&s.a);
	follow_bytes(whole, 256, &seen);
	CHECK(!seen.forged);
	same_as_whole(&seen, whole);
}

static void waits_for_more(void)
{
	static struct seen seen;
	struct tracebraid_trace *trace = NULL;
	struct tracebraid_walk *walk = NULL;
	struct scene s;
	u32 round;
	int got;
	pid_t pid;

	seen.latest_ns = INT64_MIN;
	scene_begin(&s);
	NEED(!tracebraid_follow(&trace, path, NULL, NULL, NULL));
	NEED(!tracebraid_walk_new(&walk, trace, NULL));
	pid = fork();
	if (!pid) {
		for (round = 1; round <= ROUNDS; round++)
			scene_round(&s, round, false);
		scene_end(&s, false);
		_exit(0);
	}
	NEED(pid > 0);
	while ((got = take(walk, &seen, 0)) == TRACEBRAID_PAUSE)
		NEED(tracebraid_grow(trace, -1) >= 0);
	CHECK_EQ(got, TRACEBRAID_END);
	CHECK_EQ(seen.events, (2 * ROUNDS - 3) * TICKS);
	NEED(waitpid(pid, &got, 0) == pid && !got);
	braid_capture_abandon(s.w);
	tracebraid_walk_free(walk);
	tracebraid_close(trace);
	same_as_whole(&seen, path);
	synth_guest_free(&s.a);
	synth_guest_free(&s.b);
}

/* Columns and selections along the growing file; types may get other numbers, words stay. */
static void columns_grow(void)
{
	static const char *const names[] = { "ns", "number", "text" };
	static int64_t ns[4096], number[4096], text[4096];
	int64_t *const columns[] = { ns, number, text };
	struct tracebraid_trace *trace = NULL;
	struct tracebraid_walk *walk = NULL;
	u32 round, right = 0;
	struct scene s;
	long nr, sum = 0, k;

	scene_begin(&s);
	NEED(!tracebraid_follow(&trace, path, NULL, NULL, NULL));
	NEED(!tracebraid_walk_new(&walk, trace, (const char *const[]){ "stream=guest2", NULL }));
	for (round = 1; round <= ROUNDS + 1; round++) {
		if (round <= ROUNDS)
			scene_round(&s, round, false);
		else
			scene_end(&s, false);
		NEED(tracebraid_grow(trace, 0) == 1);
		nr = tracebraid_columns(walk, names, columns, 3, 4096);
		NEED(nr >= 0);
		for (k = 0; k < nr; k++, sum++)
			right += number[k] == (sum & (TICKS - 1)) &&
				 !strcmp(tracebraid_word(walk, text[k]), "b");
	}
	CHECK_EQ(sum, (ROUNDS - 3) * TICKS);
	CHECK_EQ(right, sum);
	tracebraid_walk_free(walk);
	tracebraid_close(trace);
}

/* Names of tasks arrive while their events do, and are sorted; a word stays that of its task. */
static void columns_have_names_in_flight(void)
{
	const char *const names[] = { "pid", "comm" };
	s64 values[2][64];
	s64 *const columns[] = { values[0], values[1] };
	struct tracebraid_trace *trace = NULL;
	struct tracebraid_walk *walk = NULL;
	u32 round, k, wrong = 0, all = 0;
	char want[16];
	struct scene s;
	long rows, row;

	scene_begin(&s);
	NEED(!tracebraid_follow(&trace, path, NULL, NULL, NULL));
	NEED(!tracebraid_walk_new(&walk, trace, NULL));
	synth_begin(s.w, &s.a, 1);
	for (round = 1; round <= 10; round++) {
		struct braid_comm comm = { .seq = 2, .pid = 50 - round };
		struct braid_record record = { .common_type = 1, .common_pid = 50 - round };
		u8 payload[32] = { 0 };

		snprintf(comm.comm, sizeof(comm.comm), "task-%d", comm.pid);
		NEED(!braid_capture_put(s.w, BRAID_CHUNK_COMMS, 1, &comm, sizeof(comm), NULL, 0));
		memcpy(payload, &record, sizeof(record));
		for (k = 0; k < 3; k++) {
			s.a.now += STEP_NS;
			synth_event(&s.a, 0, payload, sizeof(payload));
		}
		synth_sample(s.w, &s.a, 50, 50);
		synth_drain(s.w, &s.a, 0);
		put_mark(&s, synth_host_ns(&s.a, s.a.now));
		NEED(!braid_capture_flush(s.w));
		CHECK_EQ(tracebraid_grow(trace, 0), 1);
		rows = tracebraid_columns(walk, names, columns, 2, 64);
		for (row = 0; row < rows; row++) {
			const char *word = tracebraid_word(walk, values[1][row]);

			snprintf(want, sizeof(want), "task-%d", (int)values[0][row]);
			wrong += !word || strcmp(word, want) != 0;
			all++;
		}
	}
	CHECK(all >= 25);
	CHECK_EQ(wrong, 0);
	synth_end(s.w, &s.a, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(s.w));
	tracebraid_walk_free(walk);
	tracebraid_close(trace);
	synth_guest_free(&s.a);
	synth_guest_free(&s.b);
}

static void refuses(void)
{
	struct tracebraid_trace *trace = NULL, *other = NULL;
	struct tracebraid_walk *walk = NULL;
	struct tracebraid_facts *facts = NULL;
	const char *paths[] = { whole };
	volatile int stop = 1;
	char *json = NULL;

	synth_standard(whole);
	CHECK_EQ(tracebraid_follow(&other, "/nonexistent", NULL, NULL, NULL), -ENOENT);
	CHECK_EQ(tracebraid_follow(&other, whole, "windows", NULL, NULL), -EINVAL);
	CHECK_EQ(tracebraid_follow(&other, whole, "sundial", NULL, NULL), -EINVAL);
	CHECK(!other);
	NEED(!tracebraid_follow(&trace, whole, NULL, NULL, NULL));
	CHECK_EQ(tracebraid_analyze(trace, "summary", NULL, &json), -EINVAL);
	CHECK_EQ(tracebraid_export(trace, "perfetto", "/tmp/never", NULL), -EINVAL);
	CHECK_EQ(tracebraid_facts_new(&facts, trace, TRACEBRAID_FACT_STATE), -EINVAL);
	NEED(!tracebraid_walk_new(&walk, trace, NULL));
	NEED(tracebraid_walk_next(walk) > 0);
	CHECK_EQ(tracebraid_walk_seek(walk, 0), -EINVAL);
	tracebraid_walk_free(walk);
	CHECK_EQ(tracebraid_walk_new(&walk, trace, NULL), -EBUSY);
	tracebraid_stop_when(trace, &stop);
	CHECK_EQ(tracebraid_grow(trace, -1), -EINTR);
	tracebraid_close(trace);
	NEED(!tracebraid_open(&trace, paths, 1, NULL, NULL, NULL));
	CHECK_EQ(tracebraid_grow(trace, 0), -EINVAL);
	CHECK_EQ(tracebraid_finish(trace), -EINVAL);
	tracebraid_close(trace);
}

int main(void)
{
	path = scratch("grows.braid");
	whole = scratch("whole.braid");
	RUN(returns_what_is_complete);
	RUN(tells_late_events);
	RUN(a_killed_recording_is_finished_by_its_reader);
	RUN(a_part_of_a_chunk_is_no_damage);
	RUN(chunks_within_a_part_are_not_read);
	RUN(waits_for_more);
	RUN(columns_grow);
	RUN(columns_have_names_in_flight);
	RUN(refuses);
	return VERDICT();
}
