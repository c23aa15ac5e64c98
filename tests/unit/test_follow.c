// SPDX-License-Identifier: GPL-2.0-or-later
/* Follows captures while they are written: events held back, late events, and unread lines. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/cli/live_view.h"
#include "host_agent/clock_sync/host.h"
#include "host_agent/export/text/form.h"
#include "host_agent/record/record.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/report_text.h"
#include "tests/unit/scratch.h"
#include "tests/unit/session.h"

#define ROUNDS		40u
#define TICKS		16u	/* of each guest in a round */
#define STEP_NS		10000u	/* between two events */
#define MOST_ENDS	4096u
#define LIMIT_NS	60000000000ULL	/* limit of a wait */

static char *path;

/* A capture that is followed. */
struct follow {
	struct braid_source *source;
	int (*step)(struct follow *f);		/* makes it grow; 0: no more data */
	u32 round;
	u32 hidden_from, hidden_to;		/* rounds in which no line is read */
	s64 until_ns;
	FILE *to;
	char *text;
	size_t bytes;
	u32 early;				/* lines that were written too early */
	struct braid_walk_totals totals;
	/* of a scenario */
	struct braid_capture_writer *w;
	struct synth_guest a, b;
	bool impatient;				/* reports incomplete data as complete */
	size_t most_comms;
	u64 ends[MOST_ENDS];			/* of chunks */
	u32 nr_ends;
};

/* The latest time of the lines so far, JSON. */
static s64 latest(struct follow *f)
{
	s64 ns = INT64_MIN, one;
	char *at;

	fflush(f->to);
	for (at = f->text; at && (at = strstr(at, "\"type\":\"event\"")); at++) {
		one = strtoll(strstr(at, "\"ns\":") + 5, NULL, 10);
		ns = one > ns ? one : ns;
	}
	return ns;
}

static int more(void *arg)
{
	struct follow *f = arg;

	if (f->round)
		f->early += latest(f) > f->until_ns;
	f->round++;
	return f->step(f);
}

static bool may_write(void *arg)
{
	const struct follow *f = arg;

	return f->round < f->hidden_from || f->round > f->hidden_to;
}

static void follow(struct follow *f, bool json)
{
	struct braid_walk_options options = { .more = more,
						.may_write = may_write,
						.live_arg = f };

	f->to = open_memstream(&f->text, &f->bytes);
	NEED(f->to && !braid_source_follow(&f->source, path, NULL));
	NEED(!(json ? braid_export_json : braid_export_text)(f->to, f->source, &options,
							     &f->totals));
	fclose(f->to);
	braid_source_free(f->source);
}

/* A complete capture, chunk by chunk ----------------------------------------------------------- */

static void find_ends(struct follow *f)
{
	struct braid_capture_reader *r;
	struct braid_chunk_view view;
	struct braid_chunk_file head;

	NEED(!braid_capture_open(&r, path, &head));
	while (braid_capture_next(r, &view) > 0 && f->nr_ends < MOST_ENDS)
		f->ends[f->nr_ends++] = view.offset + sizeof(struct braid_chunk) +
					((view.bytes + 7) & ~7u);
	braid_capture_close(r);
}

/* No part is complete before everything is. */
static int grow_by_chunk(struct follow *f)
{
	bool last = f->round >= f->nr_ends;

	if (f->round > f->nr_ends)
		return 0;
	f->until_ns = last ? INT64_MAX : INT64_MIN;
	NEED(!braid_source_grow(f->source, last ? BRAID_CAPTURE_ALL : f->ends[f->round - 1],
				f->until_ns));
	return 1;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The event lines, sorted, without their times, which are from another fit. Modifies @text. */
static u32 event_lines(char *text, char ***out)
{
	char **lines = calloc(count_of(text, "\n") + 1, sizeof(*lines)), *line, *ns, *seq;
	u32 nr = 0;

	NEED(lines);
	while ((line = strsep(&text, "\n")) && *line) {
		ns = strstr(line, "\"ns\":");
		seq = strstr(line, ",\"seq\":");
		if (!strstr(line, "\"type\":\"event\""))
			continue;
		NEED(ns && seq);
		memset(ns, '#', strcspn(ns, ","));
		ns = strstr(line, ",\"bound_ns\"");
		memset(ns, '#', seq - ns);
		memmove(ns, seq, strlen(seq) + 1);
		line = strstr(line, "\"stream\"");
		seq = strchr(line, '#');
		memmove(seq, seq + strspn(seq, "#"), strlen(seq + strspn(seq, "#")) + 1);
		lines[nr++] = line;
	}
	qsort(lines, nr, sizeof(*lines), by_text);
	*out = lines;
	return nr;
}

static void shows_the_same_as_a_report(void)
{
	struct follow f = { .step = grow_by_chunk };
	u64 events = synth_standard(path);
	char **live, **whole, *report;
	u32 nr_live, nr_whole, k, differ = 0;

	find_ends(&f);
	follow(&f, true);
	report = report_text(path, true, NULL, NULL);
	CHECK(strstr(f.text, "\"type\":\"end\""));
	CHECK_EQ(f.early, 0);
	nr_live = event_lines(f.text, &live);
	nr_whole = event_lines(report, &whole);
	CHECK_EQ(nr_live, nr_whole);
	CHECK_EQ(nr_live, events + 250);
	for (k = 0; k < nr_live && k < nr_whole; k++)
		differ += strcmp(live[k], whole[k]) != 0;
	CHECK_EQ(differ, 0);
	CHECK_EQ(f.totals.hidden, 0);
	free(live);
	free(whole);
	free(report);
	free(f.text);
}

/*
 * Two guests, one of which is drained rarely
 * --------------------------------------------------------
 */

static void open_scenario(struct follow *f)
{
	struct synth_guest_params one = {
		.name = "guest1", .incarnation = 11, .boot = 1, .start_ns = SYNTH_START_NS,
		.nr_slots = 64, .subbuf_bytes = 512,
	};
	struct synth_guest_params two = one;

	two.name = "guest2";
	two.incarnation = 22;
	two.boot = 2;
	f->w = synth_capture(path);
	synth_guest_init(&f->a, &one);
	synth_guest_init(&f->b, &two);
	synth_begin(f->w, &f->a, 1);
	synth_begin(f->w, &f->b, 2);
	NEED(!braid_capture_flush(f->w));
}

static void close_scenario(struct follow *f)
{
	NEED(!braid_capture_finish(f->w));
	synth_guest_free(&f->a);
	synth_guest_free(&f->b);
	free(f->text);
}

/* A round in both guests; guest2 is drained only in every fourth. */
static int work(struct follow *f)
{
	u32 k;

	if (f->round > ROUNDS)
		return 0;
	for (k = 0; k < TICKS; k++) {
		f->a.now += STEP_NS;
		f->b.now = f->a.now + STEP_NS / 2;
		synth_tick(&f->a, k & 1, k, "a");
		synth_tick(&f->b, k & 1, k, "b");
	}
	synth_sample(f->w, &f->a, 50, 50);
	synth_sample(f->w, &f->b, 50, 50);
	synth_drain(f->w, &f->a, 0);
	if (f->round % 4 == 0) {
		synth_drain(f->w, &f->b, 0);
		f->until_ns = synth_host_ns(&f->a, f->a.now);
	} else if (f->impatient) {
		f->until_ns = synth_host_ns(&f->a, f->a.now);
	} else if (f->round < 4) {
		f->until_ns = SYNTH_START_NS;
	}
	NEED(!braid_capture_flush(f->w));
	if (f->round == ROUNDS)
		f->until_ns = INT64_MAX;
	NEED(!braid_source_grow(f->source, braid_capture_bytes(f->w), f->until_ns));
	return 1;
}

static void holds_back_incomplete_events(void)
{
	struct follow f = { .step = work };

	open_scenario(&f);
	follow(&f, true);
	CHECK_EQ(f.early, 0);
	CHECK_EQ(f.totals.events, 2 * ROUNDS * TICKS);
	CHECK_EQ(f.totals.late, 0);
	CHECK_EQ(count_of(f.text, "\"type\":\"late\""), 0);
	CHECK_EQ(count_of(f.text, "\"type\":\"stream\",\"stream\":\"guest2\""), 2);
	close_scenario(&f);
}

static void marks_late_events(void)
{
	struct follow f = { .step = work, .impatient = true };
	u32 late;

	open_scenario(&f);
	follow(&f, false);
	CHECK_EQ(f.totals.events, 2 * ROUNDS * TICKS);
	/* Three rounds of four; their last events were not before any of guest1. */
	CHECK(f.totals.late > ROUNDS / 4 * 2 * TICKS);
	CHECK(f.totals.late < ROUNDS / 4 * 4 * TICKS);
	late = count_of(f.text, "# late: the next event was ");
	CHECK_EQ(late, ROUNDS / 4);
	CHECK_EQ(count_of(f.text, "guest2:") - 2, ROUNDS * TICKS);
	close_scenario(&f);
}

static void counts_unread_events(void)
{
	struct follow f = { .step = work, .hidden_from = 9, .hidden_to = 20 };
	u32 shown;

	open_scenario(&f);
	follow(&f, false);
	shown = count_of(f.text, " tick: ");
	CHECK(f.totals.hidden > 0);
	CHECK_EQ(shown + f.totals.hidden, 2 * ROUNDS * TICKS);
	CHECK_EQ(count_of(f.text, " lines dropped: "), 1);
	CHECK(strstr(f.text, "# live: 0 lines late, "));
	close_scenario(&f);
}

/* A stream without clock data is still shown. */
static int work_without_clock(struct follow *f)
{
	u32 k;

	if (f->round > 1)
		return 0;
	for (k = 0; k < TICKS; k++) {
		f->a.now += STEP_NS;
		synth_tick(&f->a, 0, k, "a");
	}
	synth_drain(f->w, &f->a, 0);
	NEED(!braid_capture_flush(f->w));
	f->until_ns = INT64_MAX;
	NEED(!braid_source_grow(f->source, braid_capture_bytes(f->w), f->until_ns));
	return 1;
}

static void shows_a_guest_without_a_clock(void)
{
	struct follow f = { .step = work_without_clock };

	open_scenario(&f);
	follow(&f, true);
	CHECK_EQ(f.totals.events, TICKS);
	CHECK_EQ(count_of(f.text, "\"bound_ns\":null,\"seq\""), TICKS);
	CHECK_EQ(count_of(f.text, "\"clock\":\"nominal\""), 1);
	close_scenario(&f);
}

/* A guest that starts anew is found to be the same one as soon as its stream is there. */
static void links_a_guest_that_starts_anew(void)
{
	struct synth_guest_params params = {
		.name = "guest1", .incarnation = 11, .boot = 1, .start_ns = SYNTH_START_NS,
		.nr_slots = 64, .subbuf_bytes = 512,
	};
	struct braid_capture_writer *w = synth_capture(path);
	struct braid_source *source;
	struct synth_guest lives[3];
	u32 k;

	NEED(!braid_capture_flush(w) && !braid_source_follow(&source, path, NULL));
	for (k = 0; k < 3; k++) {
		params.incarnation++;
		params.start_ns += STEP_NS;
		synth_guest_init(&lives[k], &params);
		synth_begin(w, &lives[k], k + 1);
		synth_sample(w, &lives[k], 50, 50);
		NEED(!braid_capture_flush(w));
		NEED(!braid_source_grow(source, braid_capture_bytes(w), SYNTH_START_NS));
		NEED(source->nr_streams == k + 1);
		CHECK(source->streams[k]->before == (k ? source->streams[k - 1] : NULL));
		CHECK_EQ(source->streams[k]->life, k + 1);
	}
	NEED(!braid_capture_finish(w));
	for (k = 0; k < 3; k++)
		synth_guest_free(&lives[k]);
	braid_source_free(source);
}

/*
 * Tasks that keep starting and exiting: each has its latest name, and the table does not grow with
 * them.
 */
static int work_of_many(struct follow *f)
{
	static struct braid_comm comms[100];
	u32 k;

	if (f->round > 200)
		return 0;
	for (k = 0; k < 100; k++) {
		comms[k].pid = 1000 + k;
		comms[k].since_counter = f->a.now;
		snprintf(comms[k].comm, sizeof(comms[k].comm), "r%u-%u", f->round, k);
	}
	NEED(!braid_capture_put(f->w, BRAID_CHUNK_COMMS, 1, comms, sizeof(comms), NULL, 0));
	f->until_ns = INT64_MAX;
	NEED(!braid_capture_flush(f->w));
	NEED(!braid_source_grow(f->source, braid_capture_bytes(f->w), f->until_ns));
	f->most_comms = f->source->streams[0]->nr_comms > f->most_comms ?
			f->source->streams[0]->nr_comms : f->most_comms;
	f->a.now += STEP_NS;
	return 1;
}

static void forgets_former_names(void)
{
	struct follow f = { .step = work_of_many };

	open_scenario(&f);
	follow(&f, true);
	CHECK(f.most_comms > 1000 && f.most_comms < 6000);
	close_scenario(&f);
}

/* The recorder's guarantee -------------------------------------------------------------------- */

static int grow_at_once(struct follow *f)
{
	f->until_ns = INT64_MAX;
	NEED(!braid_source_grow(f->source, BRAID_CAPTURE_ALL, f->until_ns));
	return f->round == 1;
}

static u64 events_in_file(void)
{
	struct follow f = { .step = grow_at_once };
	u64 events;

	follow(&f, false);
	events = f.totals.events;
	free(f.text);
	return events;
}

/* All that a prompt source reports as complete is in the capture, unfinished sub-buffers too. */
static void complete_is_in_the_capture(void)
{
	struct fake_params p = {
		.name = "fake", .bytes = 4 << 20, .nr_vcpus = 2, .subbuf_bytes = 4096, .nr_slots = 64,
		.always = true,
	};
	struct session s = { .sink.prompt_ns = BRAID_PROMPT_NS };
	char *region = scratch("region");
	u64 wrote_ns, round;

	s.guest = fake_guest_new(region, &p);
	session_begin(&s, region, path, NULL);
	for (round = 1; round <= 5; round++) {
		fake_guest_write(s.guest, 0, 3);
		fake_guest_write(s.guest, 1, 300);
		wrote_ns = braid_host_clock_ns();
		do
			NEED(session_turn(&s) >= 0 && braid_host_clock_ns() - wrote_ns < LIMIT_NS);
		while (braid_region_source_complete(s.source) < wrote_ns);
		NEED(!braid_capture_flush(s.sink.capture));
		CHECK_EQ(events_in_file(), round * 303);
	}
	session_end(&s);
	fake_guest_free(s.guest);
}

/* The viewer ----------------------------------------------------------------------------------- */

static pid_t start_viewer(int *marks_fd, int *lines_fd)
{
	int marks[2], lines[2];
	pid_t pid;

	NEED(!pipe2(marks, O_NONBLOCK) && !pipe(lines));
	pid = fork();
	NEED(pid >= 0);
	if (!pid) {
		struct braid_live_view v = { .path = path, .marks_fd = marks[0] };

		dup2(lines[1], STDOUT_FILENO);
		close(lines[0]);
		close(lines[1]);
		close(marks[1]);
		_exit(braid_live_view(&v));
	}
	close(marks[0]);
	close(lines[1]);
	*marks_fd = marks[1];
	*lines_fd = lines[0];
	return pid;
}

static char *read_all(int fd)
{
	char *text = NULL, buffer[65536];
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);
	ssize_t n;

	NEED(to);
	while ((n = read(fd, buffer, sizeof(buffer))) > 0)
		fwrite(buffer, 1, n, to);
	fclose(to);
	return text;
}

/* Sends the complete position; on return all earlier ones are processed. */
static void send_position(int marks_fd, const struct follow *f)
{
	struct braid_capture_mark mark = {
		.bytes = braid_capture_bytes(f->w), .until_ns = synth_host_ns(&f->a, f->a.now),
	};
	int unread;

	NEED(write(marks_fd, &mark, sizeof(mark)) == sizeof(mark));
	do
		NEED(!ioctl(marks_fd, FIONREAD, &unread));
	while (unread && !usleep(1000));
}

/* The reader stops: the recorder continues, and lines not shown are counted. */
static void never_waits_for_the_reader(void)
{
	int marks_fd, lines_fd, status;
	u32 round, k, rounds = 100;
	unsigned long long hidden;
	struct follow f = { 0 };
	char *text, *tail;
	pid_t pid;

	open_scenario(&f);
	pid = start_viewer(&marks_fd, &lines_fd);
	for (round = 0; round < rounds; round++) {
		for (k = 0; k < 20 * TICKS; k++) {
			f.a.now += STEP_NS;
			synth_tick(&f.a, k & 1, k, "a text that makes a line longer than it was");
		}
		synth_sample(f.w, &f.a, 50, 50);
		synth_drain(f.w, &f.a, 0);
		NEED(!braid_capture_flush(f.w));
		send_position(marks_fd, &f);
	}
	close(marks_fd);
	text = read_all(lines_fd);
	NEED(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
	tail = strstr(text, "# live: 0 lines late");
	CHECK(tail && sscanf(tail, "# live: 0 lines late, %llu not shown", &hidden) == 1);
	CHECK(tail && hidden > 0);
	CHECK_EQ(count_of(text, " tick: ") + hidden, rounds * 20 * TICKS);
	free(text);
	close(lines_fd);
	close_scenario(&f);
}

/* A reader that exits is not an error. */
static void ends_without_a_reader(void)
{
	struct braid_capture_mark mark = { .until_ns = INT64_MAX };
	int marks_fd, lines_fd, status;
	struct follow f = { 0 };
	pid_t pid;

	open_scenario(&f);
	pid = start_viewer(&marks_fd, &lines_fd);
	close(lines_fd);
	mark.bytes = braid_capture_bytes(f.w);
	NEED(write(marks_fd, &mark, sizeof(mark)) == sizeof(mark));
	NEED(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
	close(marks_fd);
	close_scenario(&f);
}

int main(void)
{
	path = scratch("c.braid");
	signal(SIGPIPE, SIG_IGN);
	RUN(shows_the_same_as_a_report);
	RUN(holds_back_incomplete_events);
	RUN(marks_late_events);
	RUN(counts_unread_events);
	RUN(shows_a_guest_without_a_clock);
	RUN(links_a_guest_that_starts_anew);
	RUN(forgets_former_names);
	RUN(complete_is_in_the_capture);
	RUN(never_waits_for_the_reader);
	RUN(ends_without_a_reader);
	return VERDICT();
}
