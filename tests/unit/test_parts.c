// SPDX-License-Identifier: GPL-2.0-or-later
/* Exports in parts of time or groups of rings: the same output and failures as of one walk. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/export/export.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/walk/walk.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"

#define NR(list)	(sizeof(list) / sizeof(*(list)))
#define PART_NS		8000000	/* of 24 ms */
#define MOST_CUTS	64u

int main(void);

static char dir[] = "/tmp/test_parts.XXXXXX";
static char capture[64];
static s64 cuts[MOST_CUTS];
static size_t nr_cuts;

static const char *const names[] = { "text", "json", "perfetto" };
/*
 * The thread sanitizer looks for races alone: one number of threads is enough, and nothing is compared
 * with the export of one walk.
 */
#ifdef __SANITIZE_THREAD__
static const u32 cpus[] = { 3 };
static const bool compares = false;
#else
static const u32 cpus[] = { 2, 3, 7 };
static const bool compares = true;
#endif

/* Exports -------------------------------------------------------------------------------------- */

struct result {
	int err;
	char failure[256];
	struct braid_walk_totals totals;
	u64 faults;
};

static _Atomic u32 nr_reopened;

static int reopen(void *arg, struct braid_source **source)
{
	const struct braid_source_options by_index = { .by_index = true };
	char *paths[] = { arg };

	nr_reopened++;
	return braid_source_open_captures(source, paths, 1, &by_index);
}

static struct result export(const char *form, const char *out,
			    const struct braid_walk_options *selected, u32 nr, bool by_index)
{
	const struct braid_source_options opened = { .by_index = by_index };
	struct braid_walk_options options = *selected;
	struct braid_source *source;
	char *paths[] = { capture };
	struct result r = { .err = 0 };

	NEED(!braid_source_open_captures(&source, paths, 1, &opened));
	options.cpus = nr;
	options.reopen = reopen;
	options.reopen_arg = capture;
	options.cuts = cuts;
	options.nr_cuts = nr_cuts;
	r.err = braid_export_run(braid_export_form_by_name(form), out, source, &options, &r.totals);
	if (r.err)
		snprintf(r.failure, sizeof(r.failure), "%s", braid_failure());
	r.faults = source->faults;
	braid_source_free(source);
	return r;
}

static void same_result(const struct result *a, const struct result *b)
{
	CHECK_EQ(a->err, b->err);
	CHECK(!strcmp(a->failure, b->failure));
	if (a->err)
		return;
	CHECK_EQ(a->totals.events, b->totals.events);
	CHECK_EQ(a->totals.lost, b->totals.lost);
	CHECK_EQ(a->totals.some_lost, b->totals.some_lost);
	CHECK_EQ(a->totals.uncertain, b->totals.uncertain);
	CHECK_EQ(a->totals.lines, b->totals.lines);
	CHECK_EQ(a->faults, b->faults);
}

static void same_files(const char *a, const char *b)
{
	char command[400];

	snprintf(command, sizeof(command), "cmp -s %s %s 2>/dev/null || tests/unit/same_files.py %s %s", a, b,
		 a, b);
	CHECK_EQ(system(command), 0);
}

static void remove_all(const char *path)
{
	char command[100];

	snprintf(command, sizeof(command), "rm -r %s", path);
	NEED(!system(command));
}

/*
 * Return: of how many parts the last export was; 0: of one walk. Content takes long to compare: that
 * of one number of threads, in turn.
 */
static u64 same_parts(const char *form, const struct braid_walk_options *options, bool by_index)
{
	bool bytes = strcmp(form, "perfetto");
	char one[80], more[80];
	static u32 turn;
	struct result a, b = { .err = 0 };
	size_t k;

	snprintf(one, sizeof(one), "%s/one.%s", dir, form);
	snprintf(more, sizeof(more), "%s/more.%s", dir, form);
	if (compares) {
		a = export(form, one, options, 1, by_index);
		CHECK_EQ(a.err, 0);
		CHECK_EQ(a.totals.parts, 0);
	}
	for (k = 0; k < NR(cpus); k++) {
		b = export(form, more, options, cpus[k], by_index);
		CHECK_EQ(b.err, 0);
		if (compares)
			same_result(&a, &b);
		if (compares && (bytes || k == turn % NR(cpus)))
			same_files(one, more);
		remove_all(more);
	}
	turn += !bytes;
	if (compares)
		remove_all(one);
	return b.totals.parts;
}

static void make_big(const char *words)
{
	char command[160];

	snprintf(command, sizeof(command), "build/make_big_capture %s %s", capture, words);
	NEED(!system(command));
}

/* Some times of events: the cuts are at them, and just before and after. */
static void cut_at_events(u64 each)
{
	const struct braid_walk_options all = { .stream = NULL };
	struct braid_walk_totals totals;
	struct braid_source *source;
	struct braid_walk w;
	u64 k = 0;

	NEED(!reopen(capture, &source));
	NEED(!braid_walk_begin(&w, source, &all, &totals));
	NEED(!braid_walk_start(&w));
	for (nr_cuts = 0; braid_walk_next(&w) > 0; k++) {
		s64 ns = w.item->host_ns + (s64)nr_cuts % 3 - 1;

		if (k % each == each - 1 && nr_cuts < MOST_CUTS &&
		    (!nr_cuts || ns > cuts[nr_cuts - 1]))
			cuts[nr_cuts++] = ns;
	}
	braid_walk_end(&w);
	braid_source_free(source);
}

/* ---------------------------------------------------------------------------------------------- */

static void parts_of_all_selections(void)
{
	static char *some[] = { "sched_switch" }, *none[] = { "no_such_event" };
	static char *comms[] = { "*a*" };
	const struct braid_walk_options all[] = {
		{ .uncertain = true },
		{ .realtime = true },
		{ .events = some, .nr_events = 1, .no_header = true },
		{ .events = none, .nr_events = 1 },
		{ .comms = comms, .nr_comms = 1, .uncertain = true },
		{ .stream = "guest1" },
		{ .from = { BRAID_MOMENT_SINCE, PART_NS },
		  .to = { BRAID_MOMENT_SINCE, 2 * PART_NS } },
		{ .from = { BRAID_MOMENT_BEFORE, PART_NS }, .realtime = true },
	};
	const struct braid_walk_options states = { .states = true };
	size_t k, n;

	make_big("24000");
	cut_at_events(1000);
	CHECK(nr_cuts > 10);
	for (n = 0; n < NR(all); n++) {
		for (k = 0; k < NR(names); k++)
			CHECK(same_parts(names[k], &all[n], true) > nr_cuts / 4);
		CHECK(same_parts("ctf", &all[n], true) > 1);
	}
	CHECK_EQ(same_parts("ctf", &states, true), 0);
	CHECK_EQ(same_parts("ctf", &all[0], false), 0);
}

static void parts_of_all_captures(void)
{
	static const char *const words[] = {
		"20000 losses", "20000 window losses", "20000 later", "20000 reset", "20000 offline",
		"20000 migrate losses",
	};
	const struct braid_walk_options all = { .uncertain = true };
	size_t k, n;

	for (k = 0; k < NR(words); k++) {
		make_big(words[k]);
		cut_at_events(601);
		for (n = 0; n < NR(names); n++)
			CHECK_EQ(same_parts(names[n], &all, n), nr_cuts + 1);
		CHECK(same_parts("ctf", &all, true) > 1);
	}
}

/* Those that are not made in parts take the option, too. A page's chunks are packed in a thread. */
static void other_forms(void)
{
	static const char *const others[] = { "html", "stats" };
	const struct braid_walk_options all = { .stream = NULL };
	size_t k;

	make_big("24000");
	for (k = 0; k < NR(others); k++)
		CHECK_EQ(same_parts(others[k], &all, true), 0);
}

/* Without cuts of the test: parts of 1024 pages. Content is compared slowly: bytes alone. */
static void parts_of_a_large_capture(void)
{
	const struct braid_walk_options all = { .stream = NULL };
	size_t n;

	make_big("150000");
	nr_cuts = 0;
	for (n = 0; n < 2; n++)
		CHECK(same_parts(names[n], &all, true) > 1);
}

/* How often an export in parts opens the capture. */
static u32 count_opened(const char *form)
{
	const struct braid_walk_options all = { .stream = NULL };
	char out[80];
	struct result r;

	snprintf(out, sizeof(out), "%s/out", dir);
	nr_reopened = 0;
	r = export(form, out, &all, 2, true);
	CHECK_EQ(r.err, 0);
	CHECK(r.totals.parts > 1);
	remove_all(out);
	return nr_reopened;
}

/*
 * Two vCPUs have events at the same times; and a guest's order is never certain. Without events of
 * the host there are no states, for which Perfetto's form would walk along the trace once more.
 */
static void equal_times(void)
{
	struct synth_guest guests[2];
	struct braid_capture_writer *w = synth_capture(capture);
	const struct braid_walk_options all = { .uncertain = true };
	u32 k, g;

	for (g = 0; g < 2; g++) {
		struct synth_guest_params params = {
			.name = g ? "second" : "first", .incarnation = 5 + g, .boot = 6 + g,
			.start_ns = SYNTH_START_NS, .nr_slots = 16, .subbuf_bytes = 4096,
		};

		synth_guest_init(&guests[g], &params);
		synth_begin(w, &guests[g], g + 1);
		synth_sample(w, &guests[g], 500, 500);
	}
	for (k = 0; k < 6000; k++) {
		for (g = 0; g < 2; g++) {
			guests[g].now = 1000ULL * (k + 1);
			synth_tick(&guests[g], 0, k, "zero");
			synth_tick(&guests[g], 1, k, "one");
			if (k % 200 == 199)
				synth_drain(w, &guests[g], 0);
			if (k % 1000 == 999 && g)
				synth_sample(w, &guests[g], 700, 300);
		}
	}
	for (g = 0; g < 2; g++) {
		synth_drain(w, &guests[g], 0);
		synth_end(w, &guests[g], BRAID_END_STOPPED);
		synth_guest_free(&guests[g]);
	}
	NEED(!braid_capture_finish(w));
	cut_at_events(333);
	CHECK(nr_cuts > 10);
	for (k = 0; k < NR(names); k++)
		same_parts(names[k], &all, true);
	CHECK(same_parts("ctf", &all, true) > 1);
	CHECK_EQ(count_opened("perfetto"), count_opened("text"));
}

/* Ids are the same, whichever thread meets a type first. */
static void many_types(void)
{
	const struct braid_walk_options all = { .stream = NULL };

	synth_many_types(capture);
	CHECK(same_parts("ctf", &all, true) > 1);
}

/* A page in the middle is damaged: parts end there, and one walk makes the rest. */
static void damage(void)
{
	const struct braid_walk_options all = { .uncertain = true };
	struct stat st;
	size_t k;
	int fd;

	make_big("24000");
	cut_at_events(1000);
	fd = open(capture, O_RDWR);
	NEED(fd >= 0 && !fstat(fd, &st));
	NEED(pwrite(fd, "damaged", 7, st.st_size / 2) == 7);
	close(fd);
	CHECK_EQ(same_parts("text", &all, false), 0);
	for (k = 0; k < NR(names); k++)
		CHECK_EQ(same_parts(names[k], &all, true), 0);
	CHECK_EQ(same_parts("ctf", &all, true), 0);
}

static void failures(void)
{
	static const char *const all[] = { "text", "json", "ctf" };
	static const volatile sig_atomic_t stop = 1;
	const struct braid_walk_options stopped = { .stop = &stop }, usual = { .stop = NULL };
	struct result a, b;
	char out[80];
	size_t k;

	make_big("24000");
	cut_at_events(2400);
	snprintf(out, sizeof(out), "%s/out", dir);
	for (k = 0; k < NR(all); k++) {
		a = export(all[k], out, &stopped, 1, true);
		b = export(all[k], out, &stopped, 3, true);
		same_result(&a, &b);
		CHECK_EQ(a.err, -EINTR);
		CHECK(access(out, F_OK));
	}
	for (k = 0; k < NR(names); k++) {
		a = export(names[k], "/dev/full", &usual, 1, true);
		b = export(names[k], "/dev/full", &usual, 3, true);
		CHECK_EQ(a.err, -ENOSPC);
		CHECK_EQ(b.err, -ENOSPC);
		CHECK(!strcmp(a.failure, b.failure));
	}
}

int main(void)
{
	NEED(mkdtemp(dir));
	snprintf(capture, sizeof(capture), "%s/capture", dir);
	RUN(parts_of_all_selections);
	RUN(parts_of_all_captures);
	RUN(parts_of_a_large_capture);
	RUN(other_forms);
	RUN(equal_times);
	RUN(many_types);
	RUN(damage);
	RUN(failures);
	unlink(capture);
	NEED(!rmdir(dir));
	return VERDICT();
}
