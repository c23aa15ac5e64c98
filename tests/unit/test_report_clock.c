// SPDX-License-Identifier: GPL-2.0-or-later
/* Reports by wall time, and by a requested clock source. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/analyze/states.h"
#include "host_agent/cli/cli.h"
#include "host_agent/export/text/form.h"
#include "host_agent/trace/source.h"
#include "host_agent/walk/walk.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/run_command.h"

#define AHEAD_NS	1700000000000000000ULL	/* wall time's start, in the file's clock */

static char path[64];

static char *report(bool json, const struct braid_walk_options *options)
{
	struct braid_source_options how = {
		.force_clock = options->clock_asked, .clock = options->clock,
	};
	struct braid_walk_totals totals;
	struct braid_source *source;
	char *names[] = { path }, *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);
	int err;

	NEED(to && !braid_source_open_captures(&source, names, 1, &how));
	err = (json ? braid_export_json : braid_export_text)(to, source, options, &totals);
	fclose(to);
	braid_source_free(source);
	if (!err)
		return text;
	free(text);
	return NULL;
}

static u64 number_after(const char *text, const char *key)
{
	const char *at = text ? strstr(text, key) : NULL;

	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

/* The same lines at wall times; bounds are those of both clocks. */
static void realtime(void)
{
	struct braid_walk_options host = { 0 }, wall = { .realtime = true };
	char *a, *b, *text;
	const char *at, *bt;

	synth_standard_at(path, AHEAD_NS);
	text = report(false, &wall);
	CHECK(strstr(text, "# tracebraid: times are UTC (CLOCK_REALTIME), by the host's clock mono_raw\n"));
	CHECK(strstr(text, "host:               qemu-55      [001] 2023-11-14T22:30:00.000001000Z: tock: "));
	free(text);
	a = report(true, &host);
	b = report(true, &wall);
	CHECK(strstr(b, "\"ns\":1700001000000001000,\"time\":\"2023-11-14T22:30:00.000001000Z\","));
	CHECK(!strstr(a, "\"time\":"));
	CHECK(strstr(a, "{\"type\":\"header\",\"clock\":\"mono_raw\",\"host\":"));
	CHECK(strstr(b, "{\"type\":\"header\",\"clock\":\"realtime\",\"bound_ns\":"));
	for (at = a, bt = b; (at = strstr(at, "{\"type\":\"event\"")) &&
			     (bt = strstr(bt, "{\"type\":\"event\"")); at++, bt++) {
		u64 bound = number_after(at, "\"bound_ns\":");
		u64 both = number_after(bt, "\"bound_ns\":");
		u64 away = number_after(bt, "\"ns\":") - number_after(at, "\"ns\":") - AHEAD_NS;

		CHECK(llabs((s64)away) <= 2);
		CHECK(both > bound + 30 && both < bound + bound / 500 + 1000);
	}
	CHECK(!at && !strstr(bt + 1, "{\"type\":\"event\""));
	free(a);
	free(b);
}

#define BACK_NS		40000000u	/* wall time is set back by that ... */
#define BACK_AT_NS	44000000u	/* ... between the samples 39 and 49 ms after the start */

static void put_wall_time_set_back(struct braid_capture_writer *w)
{
	struct braid_chunk_host_clock head = { .kind = BRAID_HOST_CLOCK_REALTIME, .name = "realtime" };
	struct braid_clock_sample samples[20];
	u32 k;

	for (k = 0; k < 20; k++) {
		u64 ns = SYNTH_START_NS - 1000000 + k * 10000000ULL;

		samples[k] = (struct braid_clock_sample){
			.h1_ns = ns,
			.h2_ns = ns + 60,
			.counter = ns + 30 + AHEAD_NS -
				   (ns > SYNTH_START_NS + BACK_AT_NS ? BACK_NS : 0),
		};
	}
	NEED(!braid_capture_put(w, BRAID_CHUNK_HOST_CLOCK, 0, &head, sizeof(head), samples,
				sizeof(samples)));
}

/* What a walk by wall time with vCPUs' states takes in. */
struct taken {
	u32 events;
	s64 from_ns, to_ns;	/* the states; host time */
};

static struct taken walk_with_states(const struct braid_walk_options *options)
{
	struct braid_walk_totals totals;
	struct braid_source *source;
	struct braid_states states;
	struct braid_walk walk;
	char *names[] = { path };
	struct taken taken;
	int ret;

	NEED(!braid_source_open_captures(&source, names, 1, NULL));
	NEED(!braid_states_begin(&states, source, NULL, NULL));
	NEED(!braid_walk_begin(&walk, source, options, &totals));
	walk.states = &states;
	NEED(!braid_walk_start(&walk));
	taken = (struct taken){ .from_ns = states.begin_ns, .to_ns = states.end_ns };
	while ((ret = braid_walk_next(&walk)) > 0)
		taken.events += ret == BRAID_WALK_EVENT;
	CHECK_EQ(ret, 0);
	braid_walk_end(&walk);
	braid_states_free(&states);
	braid_source_free(source);
	return taken;
}

static bool near_ms(s64 ns, s64 ms)
{
	return llabs(ns - (s64)SYNTH_START_NS - ms * 1000000) < 10000;
}

/* A range that wall time shows twice: events of both times, states from the first to the second. */
static void set_back(void)
{
	const s64 wall_ns = AHEAD_NS + SYNTH_START_NS, never_ns = 300000000000000000LL;
	struct braid_capture_writer *w = synth_capture(path);
	struct braid_walk_options wall = {
		.realtime = true,
		.from = { BRAID_MOMENT_AT, wall_ns + 10000000 },
		.to = { BRAID_MOMENT_AT, wall_ns + 20000000 },
	};
	struct taken taken;

	put_wall_time_set_back(w);
	synth_host(w, 1, 1000, SYNTH_START_NS + 1000, 100000);
	NEED(!braid_capture_finish(w));
	taken = walk_with_states(&wall);
	CHECK_EQ(taken.events, 200);
	CHECK(near_ms(taken.from_ns, 10) && near_ms(taken.to_ns, 60));
	wall.from.ns = wall_ns + 43000000;
	wall.to.kind = BRAID_MOMENT_NONE;
	taken = walk_with_states(&wall);
	CHECK(taken.events > 170 && near_ms(taken.from_ns, 43));
	wall.from.ns = wall_ns + never_ns;
	taken = walk_with_states(&wall);
	CHECK_EQ(taken.events, 0);
	CHECK(taken.from_ns > (s64)SYNTH_START_NS + never_ns / 2);
}

/* Captures of earlier versions have one pair, in their header. */
static void head_alone(void)
{
	struct braid_walk_options wall = { .realtime = true, .max_lines = 1 };
	char *text;

	synth_standard(path);
	text = report(true, &wall);
	CHECK(text && number_after(text, "\"start_realtime_ns\":"));
	free(text);
}

static void requested_source(void)
{
	struct braid_walk_options kvm = { .clock_asked = true, .clock = BRAID_CLOCK_KVM };
	char *text;

	synth_standard(path);
	text = report(false, &kvm);
	CHECK(strstr(text, "2 vCPUs, clock nominal, bound unknown\n#   clock source kvm is unavailable: KVM offset unavailable\n"));
	free(text);
	text = report(true, &kvm);
	CHECK(strstr(text, "\"clock\":\"nominal\",\"bound_ns\":null,\"clock_asked\":\"kvm\",\"reason\":\"KVM offset unavailable\""));
	free(text);
	kvm.clock = BRAID_CLOCK_EXCHANGE;
	text = report(false, &kvm);
	CHECK(strstr(text, "clock exchange") && !strstr(text, "is unavailable"));
	free(text);
	kvm.clock = BRAID_CLOCK_NOMINAL;
	text = report(false, &kvm);
	CHECK(strstr(text, "clock nominal") && !strstr(text, "is unavailable"));
	free(text);
}

/* The bound after a mark in the line of guest1 that the last command printed. */
static void take_bound(const char *line, const char *mark, char bound[32])
{
	const char *at = strstr(printed, line);

	at = at ? strstr(at, mark) : NULL;
	NEED(at);
	snprintf(bound, 32, "%.*s", (int)strcspn(at + strlen(mark), ",\n"), at + strlen(mark));
}

/* Whichever command shows it. */
static void a_bound_is_one_figure(void)
{
	char reported[32], worst[32];

	synth_standard(path);
	CHECK_EQ(RUN_COMMAND(braid_cmd_report, "report", "-e", "tock", path), 0);
	take_bound("guest1: ", "bound ≤ ", reported);
	CHECK_EQ(RUN_COMMAND(braid_cmd_clock, "clock", path), 0);
	take_bound("guest1: ", ", worst ", worst);
	CHECK(!strcmp(reported, worst));
	CHECK_EQ(RUN_COMMAND(braid_cmd_analyze, "analyze", "summary", path), 0);
	CHECK(strstr(printed, reported));
}

int main(void)
{
	snprintf(path, sizeof(path), "/tmp/braid-report-clock-%d", getpid());
	RUN(realtime);
	RUN(set_back);
	RUN(head_alone);
	RUN(requested_source);
	RUN(a_bound_is_one_figure);
	unlink(path);
	return VERDICT();
}
