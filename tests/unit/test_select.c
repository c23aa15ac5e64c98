// SPDX-License-Identifier: GPL-2.0-or-later
/* Selections: filters, tasks, times; invalid selections; exit codes. */
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/export/text/form.h"
#include "host_agent/util/error.h"
#include "host_agent/walk/around.h"
#include "host_agent/walk/walk.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/report_text.h"
#include "tests/unit/shell.h"

#define TICKS	607	/* of the standard capture: numbers 0..399 of guest1, some of guest2's */
#define TOCKS	250	/* counts 0..249, 40 us apart */

static char path[64];

/* Events that pass. */
static u64 events(const struct braid_walk_options *options)
{
	struct braid_walk_totals totals;

	free(report_text(path, false, options, &totals));
	return totals.events;
}

static u64 filtered(const char *text)
{
	struct braid_walk_filter filter = { .text = text };
	struct braid_walk_options options = { .filters = &filter, .nr_filters = 1 };

	return events(&options);
}

/* The error of a refused filter. */
static bool refused(const char *text, const char *why)
{
	struct braid_walk_filter filter = { .text = text };
	struct braid_walk_options options = { .filters = &filter, .nr_filters = 1 };
	struct braid_walk_totals totals;
	struct braid_source *source;
	char *names[] = { path };
	FILE *to = fopen("/dev/null", "w");
	int err;

	NEED(to && !braid_source_open_captures(&source, names, 1, NULL));
	err = braid_export_text(to, source, &options, &totals);
	braid_source_free(source);
	fclose(to);
	if (err < 0 && strstr(braid_failure(), why) && strstr(braid_failure(), "filter '"))
		return true;
	fprintf(stderr, "'%s': %d, %s\n", text, err, braid_failure());
	return false;
}

static void numbers(void)
{
	CHECK_EQ(filtered("tock"), TOCKS);
	CHECK_EQ(filtered("tock: count < 10"), 10);
	CHECK_EQ(filtered("tock:count<=0xa"), 11);
	CHECK_EQ(filtered("test/tock: count >= 240 || count == 3"), 11);
	CHECK_EQ(filtered("tock: count != 0"), TOCKS - 1);
	CHECK_EQ(filtered("tock: count & 1"), TOCKS / 2);
	CHECK_EQ(filtered("tock: !(count & 1) && count < 100"), 50);
	CHECK_EQ(filtered("tock: count > -1"), TOCKS);
	CHECK_EQ(filtered("tock: common_pid < 0"), 0);
	CHECK_EQ(filtered("tock: common_pid > -5 && common_pid == 55"), TOCKS);
	CHECK_EQ(filtered("tock: count < common_pid"), 55);
	CHECK_EQ(filtered("tock: count == 18446744073709551615"), 0);
	/* && before ||, from left to right. */
	CHECK_EQ(filtered("tock: count == 1 || count == 2 && count == 3"), 1);
	CHECK_EQ(filtered("tock: (count == 1 || count == 2) && count == 2"), 1);
	CHECK_EQ(filtered("tock: CPU == 0"), 0);
	CHECK_EQ(filtered("tock: CPU == 1"), TOCKS);
}

static void texts(void)
{
	u64 hello = filtered("tick: text == \"hello\"");

	CHECK_EQ(hello, 400);	/* a complete string that another field points to */
	CHECK_EQ(filtered("tick: text == \"hell\""), 0);
	CHECK_EQ(filtered("tick: text != 'hello'"), TICKS - hello);
	CHECK_EQ(filtered("tick: text ~ \"h*o\""), hello);
	CHECK_EQ(filtered("tick: text ~ \"ello\""), 0);
	CHECK_EQ(filtered("tick: text =~ \"ELLO$\""), hello);
	CHECK_EQ(filtered("tick: text !~ \"ello\""), TICKS - hello);
	CHECK_EQ(filtered("tock: COMM == \"qemu\""), TOCKS);
	CHECK_EQ(filtered(".*: COMM ~ \"q?mu\""), TOCKS);
}

/* A condition on a field that an event does not have is neither true nor false. */
static void several_events(void)
{
	CHECK_EQ(filtered("tick,tock: count < 10"), 10);
	CHECK_EQ(filtered("t.ck: number < 1 || count < 1"), 2);
	CHECK_EQ(filtered("test"), TICKS + TOCKS);
	CHECK_EQ(filtered("TES./T[IO]CK"), TICKS + TOCKS);
}

static void several_filters(void)
{
	struct braid_walk_filter filters[] = {
		{ .text = "tick: text == \"hello\"" }, { .text = "tock: count < 10" },
		{ .text = "tock: count < 5", .invert = true },
	};
	struct braid_walk_options options = { .filters = filters, .nr_filters = 2 };
	char *tock[] = { "tock" };

	CHECK_EQ(events(&options), 410);
	options.nr_filters = 3;
	CHECK_EQ(events(&options), 405);
	options.events = tock;
	options.nr_events = 1;
	CHECK_EQ(events(&options), 5);
	options.nr_events = 0;
	options.filters += 2;
	options.nr_filters = 1;
	CHECK_EQ(events(&options), TICKS + TOCKS - 5);
}

static void slips(void)
{
	char deep[200];

	CHECK(refused("nosuch: a == 1", "no such event"));
	CHECK(refused("tick: nosuch == 1", "has a field 'nosuch'"));
	CHECK(refused("tick: number == 1 || nosuch == 1", "has a field 'nosuch'"));
	CHECK(refused("tick: number < nosuch", "has a field 'nosuch'"));
	CHECK(refused("tock: number == 1", "has a field 'number'"));
	CHECK(refused("tick: text == 1", "'text' is not a number"));
	CHECK(refused("tick: number == \"1\"", "'number' is not a string"));
	CHECK(refused("", "expected the name of an event"));
	CHECK(refused(":", "expected the name of an event"));
	CHECK(refused("tick,: number == 1", "expected the name of an event"));
	CHECK(refused("ti[ck: number == 1", "expected the name of an event"));
	CHECK(refused("tick:", "name of a field is missing"));
	CHECK(refused("tick: number", "expected an operator: =="));
	CHECK(refused("tick: number && 1", "expected an operator: =="));
	CHECK(refused("tick: number <", "is missing, at its end"));
	CHECK(refused("tick: number / 0", "expected an operator: =="));
	CHECK(refused("tick: number == 1 number == 2", "&& or || is missing"));
	CHECK(refused("tick: number == 99999999999999999999", "is missing"));
	CHECK(refused("tick: (number == 1", "')' is missing"));
	CHECK(refused("tick: number == 1)", "&& or || is missing"));
	CHECK(refused("tick: !", "name of a field is missing"));
	CHECK(refused("tick: text < \"a\"", "compared by this operator"));
	CHECK(refused("tick: text == \"a", "is missing"));
	CHECK(refused("tick: text =~ \"a[\"", "not a valid regular expression"));
	CHECK(refused("tick: text =~ 3", "pattern in quotes"));
	memset(deep, '(', sizeof(deep) - 1);
	memcpy(deep, "tick:", 5);
	deep[sizeof(deep) - 1] = 0;
	CHECK(refused(deep, "nested too deeply"));
}

static void tasks(void)
{
	s32 pids[] = { 55, 99999, 100 };
	char *comms[] = { "nosuch", "sec*" };
	struct braid_walk_options options = { .pids = pids, .nr_pids = 2 };
	u64 first, second;

	CHECK_EQ(events(&options), TOCKS);
	options.nr_pids = 3;
	first = events(&options);
	CHECK(first > TOCKS);
	options.nr_pids = 0;
	options.comms = comms;
	options.nr_comms = 1;
	CHECK_EQ(events(&options), 0);
	options.nr_comms = 2;
	second = events(&options);
	CHECK(second > 0 && second < TICKS);
	options.pids = pids;
	options.nr_pids = 2;
	CHECK_EQ(events(&options), 0);
}

static u64 between(int from_kind, s64 from_ns, int to_kind, s64 to_ns, bool realtime)
{
	char *tock[] = { "tock" };
	struct braid_walk_options options = {
		.from = { .kind = from_kind, .ns = from_ns },
		.to = { .kind = to_kind, .ns = to_ns },
		.events = tock, .nr_events = 1, .realtime = realtime,
	};

	return events(&options);
}

/* The first event is a tock at SYNTH_START_NS + 1000. */
static void times(void)
{
	const s64 first = SYNTH_START_NS + 1000, wall = 1700000000000000000;

	CHECK_EQ(between(BRAID_MOMENT_AT, first, BRAID_MOMENT_AT, first + 400000, false), 11);
	CHECK_EQ(between(BRAID_MOMENT_AT, first + 1, BRAID_MOMENT_AT, first + 399999, false), 9);
	CHECK_EQ(between(BRAID_MOMENT_SINCE, 40000, BRAID_MOMENT_SINCE, 80000, false), 2);
	CHECK_EQ(between(BRAID_MOMENT_NONE, 0, BRAID_MOMENT_AT, 0, false), 0);
	CHECK_EQ(between(BRAID_MOMENT_AT, INT64_MAX, BRAID_MOMENT_NONE, 0, false), 0);
	CHECK_EQ(between(BRAID_MOMENT_BEFORE, INT64_MAX, BRAID_MOMENT_NONE, 0, false), TOCKS);
	CHECK(between(BRAID_MOMENT_BEFORE, 1000000, BRAID_MOMENT_NONE, 0, false) < TOCKS);
	CHECK_EQ(between(BRAID_MOMENT_NONE, 0, BRAID_MOMENT_BEFORE, 1000000000, false), 0);
	synth_standard_at(path, wall - SYNTH_START_NS);
	CHECK_EQ(between(BRAID_MOMENT_AT, wall - 1000, BRAID_MOMENT_AT, wall + 401500, true), 11);
	CHECK_EQ(between(BRAID_MOMENT_SINCE, 39000, BRAID_MOMENT_SINCE, 81000, true), 2);
	CHECK_EQ(between(BRAID_MOMENT_AT, first, BRAID_MOMENT_AT, first + 400000, true), 0);
	synth_standard(path);
}

/* The times around events that are near each other are one. */
static void around(void)
{
	struct braid_walk_options options = { .around = "tock" };
	struct braid_select_times times = { 0 };
	struct braid_source *source;
	char *names[] = { path };

	synth_standard(path);
	NEED(!braid_source_open_captures(&source, names, 1, NULL));
	CHECK_EQ(braid_around_find(&times, source, &options), 0);
	CHECK_EQ(times.nr, 1);
	CHECK(braid_select_near(&times, SYNTH_START_NS + 1000 - BRAID_AROUND_NS));
	CHECK(!braid_select_near(&times, SYNTH_START_NS + 1000 - BRAID_AROUND_NS - 1));
	CHECK(braid_select_near(&times,
				SYNTH_START_NS + 1000 + (TOCKS - 1) * 40000 + BRAID_AROUND_NS));
	CHECK(!braid_select_near(&times,
				 SYNTH_START_NS + 1001 + (TOCKS - 1) * 40000 + BRAID_AROUND_NS));
	braid_source_free(source);
	options.times = &times;
	times.all[0].to_ns = SYNTH_START_NS + 1000 + 400000;
	CHECK(events(&options) < TICKS);
	free(times.all);
}

/* Commands ------------------------------------------------------------------------------------ */

/* `tracebraid report PATH` with up to two more words. */
/* A command confines its process, which then can make no other capture. */
static int in_a_child(int (*command)(int argc, char **argv), int argc, char **argv)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid)
		exit(command(argc, argv));
	NEED(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int status_of(const char *option, const char *value)
{
	char *argv[] = { "report", "-o", "/dev/null", path, (char *)option, (char *)value, NULL };

	return in_a_child(braid_cmd_report, value ? 6 : option ? 5 : 4, argv);
}

static void exit_codes(void)
{
	CHECK_EQ(status_of(NULL, NULL), 0);
	CHECK_EQ(status_of("--help", NULL), 0);
	CHECK_EQ(status_of("-F", "tock: count == 3"), 0);
	CHECK_EQ(status_of("-F", "tock: count == 333"), 2);
	CHECK_EQ(status_of("-F", "tock: nosuch == 333"), 1);
	CHECK_EQ(status_of("-e", "nosuch"), 2);
	CHECK_EQ(status_of("-e", "nosuch,tock"), 0);
	CHECK_EQ(status_of("--stream", "nosuch"), 1);
	CHECK_EQ(status_of("--stream", "guest2"), 0);
	CHECK_EQ(status_of("--pid", "55"), 0);
	CHECK_EQ(status_of("--pid", "56"), 2);
	CHECK_EQ(status_of("--pid", "-1"), 1);
	CHECK_EQ(status_of("--comm", "qe*"), 0);
	CHECK_EQ(status_of("--cpu", "77"), 2);
	CHECK_EQ(status_of("--since", "1000.000001"), 0);
	CHECK_EQ(status_of("--since", "+0.000001"), 0);
	CHECK_EQ(status_of("--until", "-9"), 2);
	CHECK_EQ(status_of("--since", "2000"), 2);
	CHECK_EQ(status_of("--until", "999.999999999"), 2);
	CHECK_EQ(status_of("--until", "x"), 1);
	CHECK_EQ(status_of("--until", "1e3"), 1);
	CHECK_EQ(status_of("--until", "99999999999999999999"), 1);
	CHECK_EQ(status_of("--around", "test:tock"), 0);
	CHECK_EQ(status_of("--around", "nosuch"), 2);
	CHECK_EQ(status_of("--no-such-option", NULL), 1);
}

static int status_by_wall(const char *since)
{
	char *argv[] = { "report", "-o", "/dev/null", path, "--clock=realtime", "--since",
			 (char *)since, NULL };

	return in_a_child(braid_cmd_report, 7, argv);
}

static void dates(void)
{
	synth_standard_at(path, 1700000000000000000 - SYNTH_START_NS);
	CHECK_EQ(status_by_wall("2023-11-14T22:13:20Z"), 0);
	CHECK_EQ(status_by_wall("2023-11-14T22:13:20.5Z"), 2);
	CHECK_EQ(status_by_wall("2023-11-16T00:00:00"), 2);
	CHECK_EQ(status_by_wall("2023-11-13T00:00:00"), 0);
	CHECK_EQ(status_by_wall("2023-11-14"), 1);
	CHECK_EQ(status_by_wall("2023-11-14T22:13:20+01"), 1);
	CHECK_EQ(status_by_wall("9999-11-14T22:13:20"), 1);
	CHECK_EQ(status_by_wall("2023-11-14 22:13:20Z"), 0);
	CHECK_EQ(status_by_wall("22:13:20Z"), 0);
	CHECK_EQ(status_by_wall("22:13:20.5Z"), 2);
	CHECK_EQ(status_by_wall("22:13Z"), 0);
	CHECK_EQ(status_by_wall("22:14Z"), 2);
	CHECK_EQ(status_by_wall("22:13:61Z"), 1);
	CHECK_EQ(status_by_wall("25:13:20"), 1);
	/* Whichever clock is shown. */
	CHECK_EQ(status_of("--since", "2023-11-14 22:13:20Z"), 0);
	CHECK_EQ(status_of("--since", "2023-11-14T22:13:20.5Z"), 2);
	CHECK_EQ(status_of("--until", "22:13:19.9Z"), 2);
	CHECK_EQ(status_of("--until", "22:13:20.5Z"), 0);
}

/* A recording over midnight of UTC. */
static void midnight(void)
{
	struct braid_walk_moment from = { .kind = BRAID_MOMENT_CLOCK_UTC };
	const s64 day_ns = 86400 * 1000000000LL, before_ns = 4000000;
	char *tock[] = { "tock" };
	struct braid_walk_options options = { .events = tock, .nr_events = 1 };

	/* The first event is a tock, and they are 40 us apart. */
	synth_standard_at(path, 19676 * day_ns - before_ns - SYNTH_START_NS);
	options.from = from;
	CHECK_EQ(events(&options), TOCKS - (before_ns - 1000 + 39999) / 40000);
	from.ns = day_ns - 1000000000;	/* before the recording, by less than any other day's */
	options.from = from;
	CHECK_EQ(events(&options), TOCKS);
	options.realtime = true;
	CHECK_EQ(events(&options), TOCKS);
}

/* `tracebraid analyze states PATH` from a time on, or up to it. */
static int analyzed(const char *option, const char *time)
{
	char *argv[] = { "analyze", "states", "-o", "/dev/null", path, (char *)option, (char *)time,
			 NULL };

	return in_a_child(braid_cmd_analyze, 7, argv);
}

static void analyses(void)
{
	synth_standard_at(path, 1700000000000000000 - SYNTH_START_NS);
	CHECK_EQ(analyzed("--since", "2023-11-14 22:13:20Z"), 0);
	CHECK_EQ(analyzed("--since", "22:13:20Z"), 0);
	CHECK_EQ(analyzed("--since", "2023-11-14T23:13:20Z"), 1);
	CHECK_EQ(analyzed("--until", "22:13:19Z"), 1);
	CHECK_EQ(analyzed("--until", "noon"), 1);
	/* Two times of one capture. */
	CHECK_EQ(analyzed("--against-until", "+0.005"), 0);
	CHECK_EQ(analyzed("--against-since", "22:14Z"), 1);
}

/* What items() had to do. */
struct work {
	u64 merged;		/* items */
	u64 read;		/* bytes */
	u64 faults;
};

/*
 * What is selected of the capture, without or with the walk's help and that of its index: a line
 * for each item.
 */
static char *items(bool helped, const char *name, struct work *work)
{
	const struct braid_source_options how = { .by_index = helped };
	const struct braid_walk_options plain = { .nr_events = 0 };
	const struct braid_walk_options chosen = {
		.events = (char *[]){ (char *)name }, .nr_events = 1,
	};
	struct braid_walk_totals totals;
	struct braid_text text = { 0 };
	struct braid_source *source;
	struct braid_walk w;
	size_t k, n;
	int got;

	NEED(!braid_source_open_captures(&source, (char *[]){ path }, 1, &how));
	NEED(!braid_walk_begin(&w, source, helped ? &chosen : &plain, &totals));
	NEED(!braid_walk_start(&w));
	while ((got = braid_walk_next(&w)) > 0) {
		if (got == BRAID_WALK_EVENT && fnmatch(name, braid_format_label(w.info), 0) &&
		    fnmatch(name, w.info->name, 0))
			continue;
		braid_text_printf(&text, "%d %lld %llu %d %u %u %llu %lld %d ", got, (long long)w.ns,
				  (unsigned long long)w.bound_ns, w.item->sure,
				  w.item->stream->number, w.item->ring->cpu,
				  (unsigned long long)w.item->seq,
				  got == BRAID_WALK_LOST ? (long long)w.item->lost_before : 0,
				  w.item->kind);
		if (got == BRAID_WALK_EVENT)
			braid_text_hex(&text, w.item->payload, w.item->payload_bytes);
		braid_text_putc(&text, '\n');
	}
	CHECK_EQ(got, 0);
	for (k = 0; k < source->nr_streams; k++)
		for (n = 0; n < source->streams[k]->nr_rings; n++) {
			const struct braid_ring_walk *walk = &source->streams[k]->rings[n]->walk;

			braid_text_printf(&text, "%llu %llu %llu %llu %llu\n",
					  (unsigned long long)walk->events,
					  (unsigned long long)walk->lost,
					  (unsigned long long)walk->next_seq,
					  (unsigned long long)walk->outside,
					  (unsigned long long)walk->pages);
		}
	*work = (struct work){ w.turns, source->bytes_read, source->faults };
	braid_walk_end(&w);
	braid_source_free(source);
	braid_text_putc(&text, '\0');
	NEED(!text.failed);
	return text.data;
}

/* Events of other types are passed over in their rings, and nothing else changes. */
static void others_are_passed_over(void)
{
	static const struct {
		const char *scene, *name;
		bool quick;
		u32 read_percent;	/* of the bytes, at most */
	} cases[] = {
		{ "", "sched_wakeup", true, 100 }, { "", "irq_handler_*", true, 100 },
		{ "", "sys_enter", true, 100 }, { "", "none", true, 8 },
		{ "later", "kvm_exit", true, 70 }, { "losses", "sched_switch", true, 100 },
		{ "losses", "none", true, 50 },	/* two pages of eleven, and the ends */
		{ "rare", "sched_migrate_task", true, 18 },
		{ "bursts", "sched_migrate_task", true, 8 },
		{ "bursts losses", "sched_migrate_task", true, 50 },
		{ "migrate", "sched_switch", false, 100 }, { "reset", "kvm_*", false, 100 },
	};
	struct work all, chosen;
	size_t k;

	for (k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
		char *one, *other;

		free(shell_output("build/make_big_capture %s 30000 %s", path, cases[k].scene));
		one = items(false, cases[k].name, &all);
		other = items(true, cases[k].name, &chosen);
		CHECK(!strcmp(one, other));
		CHECK(strlen(one) > 100 && all.merged >= 30000);
		CHECK_EQ(chosen.faults, 0);
		CHECK(chosen.read <= all.read * cases[k].read_percent / 100);
		if (cases[k].quick)
			CHECK(chosen.merged < all.merged / 2);
		free(one);
		free(other);
	}
	synth_standard(path);
	for (k = 0; k < 2; k++) {
		char *one = items(false, k ? "tick" : "tock", &all);
		char *other = items(true, k ? "tick" : "tock", &chosen);

		CHECK(!strcmp(one, other));
		free(one);
		free(other);
	}
}

static u64 bytes_read(void)
{
	char *text = shell_output("sed -n 's/^rchar: //p' /proc/%d/io", getpid());
	u64 bytes = strtoull(text, NULL, 10);

	free(text);
	return bytes;
}

static void a_report_reads_once(void)
{
	struct stat st;
	u64 before;

	free(shell_output("build/make_big_capture %s 60000", path));
	NEED(!stat(path, &st));
	before = bytes_read();
	CHECK_EQ(status_of("--cpus", "1"), 0);
	CHECK(bytes_read() - before < (u64)st.st_size * 3 / 2);
}

int main(void)
{
	snprintf(path, sizeof(path), "/tmp/braid-select-%d", getpid());
	synth_standard(path);
	RUN(numbers);
	RUN(texts);
	RUN(several_events);
	RUN(several_filters);
	RUN(slips);
	RUN(tasks);
	RUN(times);
	RUN(around);
	RUN(exit_codes);
	RUN(dates);
	RUN(midnight);
	RUN(analyses);
	RUN(others_are_passed_over);
	RUN(a_report_reads_once);
	unlink(path);
	return VERDICT();
}
