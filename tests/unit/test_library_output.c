// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Forms and analyses, as programs run them by the public functions; and what is refused before
 * that.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/scratch.h"
#include "tracebraid/tracebraid.h"

#define TICKS		3000u
#define HOST_EVENTS	300u

static char *path, *out, *other_out;

#define WORDS(...)	((const char *const[]){ __VA_ARGS__, NULL })

static void make(void)
{
	const struct synth_guest_params params = {
		.name = "guest1", .incarnation = 11, .boot = 1, .ppm = 20,
		.start_ns = SYNTH_START_NS, .nr_slots = 64, .subbuf_bytes = 4096,
	};
	struct braid_capture_writer *w = synth_capture(path);
	struct synth_guest guest;
	u32 k;

	synth_guest_init(&guest, &params);
	synth_begin(w, &guest, 1);
	synth_sample(w, &guest, 500, 700);
	synth_host(w, 2, HOST_EVENTS, SYNTH_START_NS + 1000, 9000);
	for (k = 0; k < TICKS; k++) {
		guest.now += 4000;
		synth_tick(&guest, k % SYNTH_CPUS, k, "some text");
		if (k % 50 == 0)
			synth_drain(w, &guest, 0);
	}
	synth_sample(w, &guest, 500, 700);
	synth_drain(w, &guest, 0);
	synth_end(w, &guest, BRAID_END_STOPPED);
	synth_guest_free(&guest);
	NEED(!braid_capture_finish(w));
}

static struct tracebraid_trace *open_with(const char *const *options)
{
	const char *const paths[] = { path };
	struct tracebraid_trace *trace = NULL;

	NEED(!tracebraid_open_with(&trace, paths, 1, options, NULL, NULL));
	return trace;
}

/* Whether the last failure says so. */
static bool said(const char *what)
{
	if (strstr(tracebraid_error(), what))
		return true;
	fprintf(stderr, "not '%s' but '%s'\n", what, tracebraid_error());
	return false;
}

static void opens(void)
{
	const char *const paths[] = { path };
	struct tracebraid_trace *trace = open_with(WORDS("read=all", "--faults=count", "clock-source=nominal"));

	CHECK(!strcmp(tracebraid_stream_clock(tracebraid_stream(trace, 0)), "nominal"));
	tracebraid_close(trace);
	tracebraid_close(open_with(NULL));
	trace = NULL;
	CHECK_EQ(tracebraid_open_with(&trace, paths, 1, WORDS("read=some"), NULL, NULL), -EINVAL);
	CHECK(said("read=some: expected index or all"));
	CHECK_EQ(tracebraid_open_with(&trace, paths, 1, WORDS("faults=none"), NULL, NULL), -EINVAL);
	CHECK_EQ(tracebraid_open_with(&trace, paths, 1, WORDS("clock-source=sundial"), NULL, NULL), -EINVAL);
	CHECK_EQ(tracebraid_open_with(&trace, paths, 1, WORDS("stream=guest1"), NULL, NULL), -EINVAL);
	CHECK(said("'stream=guest1' is not an option"));
	CHECK(!trace);
}

static u64 exported(struct tracebraid_trace *trace, const char *form, const char *to,
		    const char *const *select)
{
	struct tracebraid_totals totals = { 0 };

	CHECK(!tracebraid_export_check(form, to, select));
	CHECK(!tracebraid_export(trace, form, to, select));
	CHECK(!tracebraid_totals(trace, &totals));
	return totals.events;
}

static void writes_each_form(void)
{
	struct tracebraid_trace *trace = open_with(NULL);
	const char *form, *help;
	size_t k;

	for (k = 0; (form = tracebraid_form(k, &help)); k++) {
		CHECK(*help);
		CHECK(!tracebraid_export_check(form, out, NULL));
	}
	CHECK(k >= 9 && !*help);
	CHECK_EQ(exported(trace, "text", out, NULL), TICKS + HOST_EVENTS);
	CHECK_EQ(exported(trace, "text", other_out, WORDS("cpus=2")), TICKS + HOST_EVENTS);
	CHECK(same_files(out, other_out));
	CHECK_EQ(exported(trace, "text", other_out, WORDS("cpus=1", "no-header")), TICKS + HOST_EVENTS);
	CHECK(!same_files(out, other_out));
	CHECK_EQ(exported(trace, "json", out, WORDS("--stream=guest1", "--lines=7")), 7);
	CHECK_EQ(exported(trace, "json", other_out, WORDS("stream=guest1", "lines=7")), 7);
	CHECK(same_files(out, other_out));
	CHECK_EQ(exported(trace, "stats", out, WORDS("stream=guest1")), TICKS);
	CHECK_EQ(exported(trace, "stats.json", out, WORDS("event=tick", "event=nothing")), TICKS);
	/* More than any list holds at first. */
	CHECK_EQ(exported(trace, "json", out, WORDS("pid=1", "pid=2", "pid=3", "pid=4", "pid=5", "pid=6",
						    "pid=7", "pid=8", "pid=9", "filter=tick",
						    "filter-not=tick: number > 3")), 0);
	tracebraid_close(trace);
}

static void refused(const char *form, const char *to, const char *word, const char *why)
{
	struct tracebraid_trace *trace = open_with(NULL);
	const char *const select[] = { word, NULL };

	CHECK_EQ(tracebraid_export_check(form, to, select), -EINVAL);
	CHECK(said(why));
	CHECK_EQ(tracebraid_export(trace, form, to, select), -EINVAL);
	CHECK(said(why));
	tracebraid_close(trace);
}

static void refuses_exports(void)
{
	struct tracebraid_trace *trace = open_with(NULL);
	const char *words[] = { "stream=nobody", NULL };

	refused("pigeon", out, NULL, "unknown form 'pigeon'");
	refused("json", out, "states", "states: only trace.dat (version 7) and ctf");
	refused("ctf", "-", NULL, "cannot be written to standard output");
	refused("text", out, "--cpu=70000", "--cpu=70000: expected a number from 0 to 65535");
	refused("text", out, "cpus=257", "cpus=257: expected a number from 1 to 256");
	refused("text", out, "pid", "pid: value missing");
	refused("text", out, "--uncertain=yes", "--uncertain=yes: takes no value");
	refused("text", out, "--clock=tai", "--clock=tai: expected host or realtime");
	refused("text", out, "--until=noon", "--until=noon: not a time: expected SECONDS");
	refused("text", out, "top=3", "'top=3' is not an option of an export: expected OPTION=VALUE, such as event=");
	CHECK(!tracebraid_export_check("text", out, words));	/* a trace may have it */
	CHECK_EQ(tracebraid_export(trace, "text", out, words), -ENOENT);
	CHECK_EQ(access(out, F_OK), -1);
	tracebraid_close(trace);
}

static void writes_each_analysis(void)
{
	struct tracebraid_trace *trace = open_with(NULL), *other = open_with(NULL);
	const char *name, *help;
	char *json, *text;
	size_t k, bytes;
	int err;

	for (k = 0; (name = tracebraid_analysis(k, &help)); k++) {
		CHECK(*help);
		CHECK(!tracebraid_analyze_check(name, WORDS("top=3"), 0));
		err = tracebraid_analyze_to(trace, NULL, name, WORDS("--json"), out);
		if (!strcmp(name, "exits")) {	/* this capture has none */
			CHECK_EQ(err, -ENODATA);
			continue;
		}
		NEED(!err && !tracebraid_analyze(trace, name, NULL, &json));
		text = read_file(out, &bytes);
		CHECK(*text == '{' && !strcmp(text, json));
		free(text);
		tracebraid_free(json);
		CHECK(!tracebraid_analyze_to(trace, NULL, name, NULL, out));
		CHECK(!tracebraid_analyze_to(trace, NULL, name, WORDS("csv"), other_out));
		CHECK(!same_files(out, other_out));
		CHECK_EQ(tracebraid_analyze_check(name, WORDS("folded", "weight=count"), 0),
			 tracebraid_analysis_takes(name, "folded") ? 0 : -EINVAL);
		CHECK_EQ(tracebraid_analyze_check(name, WORDS("by=syscall"), 0),
			 tracebraid_analysis_takes(name, "by=syscall") ? 0 : -EINVAL);
		CHECK_EQ(tracebraid_analyze_check(name, WORDS("task=0"), 0),	/* the idle task */
			 tracebraid_analysis_takes(name, "task") ? 0 : -EINVAL);
		CHECK_EQ(tracebraid_analyze_to(trace, other, name, NULL, out),
			 tracebraid_analysis_takes(name, "against") ? 0 : -EINVAL);
	}
	CHECK(k >= 6 && !*help);
	tracebraid_close(other);
	tracebraid_close(trace);
}

static void refused_analysis(const char *const *words, int compares, const char *why)
{
	CHECK_EQ(tracebraid_analyze_check("steal", words, compares), -EINVAL);
	CHECK(said(why));
}

/* The output's temporary name is that of the capture that is compared with. */
static void keeps_the_other_capture(void)
{
	const char *part = scratch("out.part"), *paths[] = { part };
	struct tracebraid_trace *trace = open_with(NULL), *other = NULL;
	char name[128];

	NEED(!link(path, part) && !tracebraid_open(&other, paths, 1, NULL, NULL, NULL));
	CHECK_EQ(tracebraid_analyze_to(trace, other, "steal", NULL, out), -EINVAL);
	snprintf(name, sizeof(name), "'%s' is an input file", part);
	CHECK(said(name));
	CHECK(!access(part, F_OK));
	unlink(part);
	tracebraid_close(other);
	tracebraid_close(trace);
}

/* A link stays a link, and its file what it is: /dev/stdout is one. */
static void replaces_no_link(void)
{
	struct tracebraid_trace *trace = open_with(NULL);
	const char *target = scratch("target");
	struct stat st;

	unlink(out);
	NEED(!close(open(target, O_WRONLY | O_CREAT | O_EXCL, 0600)) && !symlink(target, out));
	CHECK_EQ(tracebraid_analyze_to(trace, NULL, "steal", NULL, out), -ELOOP);
	CHECK(said("it is a symbolic link; name the file itself"));
	CHECK(!lstat(out, &st) && S_ISLNK(st.st_mode));
	CHECK(!stat(target, &st) && !st.st_size);
	CHECK(!unlink(out) && !unlink(target));
	tracebraid_close(trace);
}

static void refuses_analyses(void)
{
	struct tracebraid_trace *trace = open_with(NULL), *other = open_with(NULL);
	struct tracebraid_walk *walk = NULL;
	char *json;

	refused_analysis(WORDS("--folded", "--json"), 0, "--folded cannot be combined with --json or --csv");
	refused_analysis(WORDS("json", "csv"), 0, "json cannot be combined with csv");
	refused_analysis(WORDS("--weight=count"), 0, "--weight=count needs --folded");
	refused_analysis(WORDS("--by=task"), 1, "--by and --folded do not apply to a comparison");
	refused_analysis(WORDS("by=month"), 0, "by=month: expected vcpu, task");
	refused_analysis(WORDS("top=0"), 0, "top=0: expected a number from 1 to");
	refused_analysis(WORDS("event=tick"), 0, "is not an option of an analysis: expected OPTION=VALUE, such as stream=");
	CHECK_EQ(tracebraid_analyze_check("nothing", NULL, 0), -EINVAL);
	CHECK(said("unknown analysis 'nothing'"));
	CHECK_EQ(tracebraid_analyze_check("stalls", WORDS("--by=syscall"), 0), -EINVAL);
	CHECK(said("--by=syscall does not apply to stalls: use it with "));
	CHECK_EQ(tracebraid_analysis_takes("steal", "colour"), -EINVAL);
	CHECK_EQ(tracebraid_analysis_takes("nothing", "folded"), -EINVAL);
	CHECK_EQ(tracebraid_analyze(trace, "steal", WORDS("csv"), &json), -EINVAL);
	CHECK_EQ(tracebraid_analyze_to(trace, NULL, "steal", NULL, path), -EINVAL);	/* onto itself */
	CHECK_EQ(tracebraid_analyze_to(trace, other, "steal", NULL, path), -EINVAL);
	keeps_the_other_capture();
	replaces_no_link();
	CHECK(!tracebraid_analyze_check("steal", WORDS("weight=time"), 0));
	CHECK_EQ(tracebraid_analyze_check("steal", WORDS("--since=2026-01-31T12:00:00"), 0), 0);
	CHECK_EQ(tracebraid_analyze_check("stalls", NULL, 1), -EINVAL);
	CHECK(said("stalls cannot compare two captures; summary, "));
	CHECK_EQ(tracebraid_analyze_check("steal", WORDS("--against-since=+1"), 0), -EINVAL);
	CHECK(said("--against-since and --against-until need a comparison"));
	CHECK_EQ(tracebraid_analyze_check("steal", WORDS("--against-since=+1", "--since=22:12"), 1), 0);
	CHECK_EQ(tracebraid_analyze_to(trace, NULL, "steal", WORDS("stream=nobody"), out), -ENOENT);
	/* Two walks along one trace. */
	CHECK_EQ(tracebraid_analyze_to(trace, trace, "steal", NULL, out), -EBUSY);
	CHECK(said("cannot be compared with itself"));
	NEED(!tracebraid_walk_new(&walk, other, NULL));
	CHECK_EQ(tracebraid_analyze_to(trace, other, "steal", NULL, out), -EBUSY);
	CHECK(!tracebraid_analyze_to(trace, NULL, "steal", NULL, out));	/* it was released */
	tracebraid_close(other);
	tracebraid_close(trace);
}

static void clean(void)
{
	unlink(out);
	unlink(other_out);
}

int main(void)
{
	path = scratch("x.braid");
	out = scratch("out");
	other_out = scratch("other");
	make();
	RUN(opens);
	RUN(writes_each_form);
	clean();
	RUN(refuses_exports);
	RUN(writes_each_analysis);
	clean();
	RUN(refuses_analyses);
	clean();
	return VERDICT();
}
