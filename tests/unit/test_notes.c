// SPDX-License-Identifier: GPL-2.0-or-later
/* What befell a clock is told where it happened: once for all vCPUs alike. */
#include <string.h>
#include <unistd.h>

#include "host_agent/export/export.h"
#include "host_agent/source/source.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"

static char path[64];

static const struct synth_guest_params params = {
	.name = "guest1", .incarnation = 5, .boot = 1, .start_ns = SYNTH_START_NS,
	.nr_slots = 64, .subbuf_bytes = 4096,
};

static char *report(bool json)
{
	struct braid_export_options options = { 0 };
	struct braid_export_totals totals;
	struct braid_source *source;
	char *names[] = { path }, *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	NEED(to && !braid_source_open_captures(&source, names, 1, NULL));
	NEED(!(json ? braid_export_json : braid_export_text)(to, source, &options, &totals));
	fclose(to);
	braid_source_free(source);
	return text;
}

/* Ticks and samples for 50 ms of the guest's time. */
static void run_guest(struct braid_capture_writer *w, struct synth_guest *g, bool samples)
{
	u32 k;

	for (k = 0; k < 50; k++) {
		g->now += 1000000;
		synth_tick(g, k & 1, k, "x");
		if (samples)
			synth_sample(w, g, 500, 500);
	}
	synth_drain(w, g, 0);
}

static void finish(struct braid_capture_writer *w, struct synth_guest *g)
{
	synth_end(w, g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	synth_guest_free(g);
}

/* Lines with a text, in all. */
static u32 count(const char *text, const char *what)
{
	u32 n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

static void steps(void)
{
	struct braid_capture_writer *w = synth_capture(path);
	const char *note, *at;
	struct synth_guest g;
	char *text;
	u32 ticks;

	synth_guest_init(&g, &params);
	synth_begin(w, &g, 1);
	run_guest(w, &g, true);
	g.start_ns += 2013000000;
	run_guest(w, &g, true);
	g.start_ns -= 600000;
	run_guest(w, &g, true);
	finish(w, &g);
	text = report(false);
	CHECK(strstr(text, ", 3 epochs\n"));
	CHECK_EQ(count(text, "NOTE clock: a new epoch: "), 2);
	CHECK_EQ(count(text, "the counter jumped ahead by 600.0 µs, in the "), 1);
	note = strstr(text, "NOTE clock: a new epoch: the counter stood still for 2.013 s, in the 2.014 s before this\n");
	CHECK(note);
	/* Where it is: behind all of the one epoch, and what tells of the next. */
	for (at = text, ticks = 0; (at = strstr(at, " tick: ")) && at < note; at++)
		ticks++;
	CHECK(ticks == 50 || ticks == 51);
	free(text);
	text = report(true);
	CHECK_EQ(count(text, "{\"type\":\"note\",\"stream\":\"guest1\",\"ns\":"), 2);
	CHECK_EQ(count(text, "\"text\":\"clock: a new epoch: the counter stood still for 2.013 s"), 1);
	free(text);
}

static void paused(void)
{
	struct braid_clock_mark marks[2] = {
		{ BRAID_MARK_PAUSED, 0, SYNTH_START_NS + 50100000, SYNTH_START_NS + 50200000 },
		{ BRAID_MARK_RESUMED, 0, SYNTH_START_NS + 1070000000, SYNTH_START_NS + 1070100000 },
	};
	struct braid_capture_writer *w = synth_capture(path);
	struct synth_guest g;
	char *text;

	synth_guest_init(&g, &params);
	synth_begin(w, &g, 1);
	run_guest(w, &g, true);
	NEED(!braid_capture_put(w, BRAID_CHUNK_CLOCK_MARK, 1, NULL, 0, marks, sizeof(marks)));
	g.start_ns += 1020000000;
	run_guest(w, &g, true);
	finish(w, &g);
	text = report(false);
	CHECK_EQ(count(text, "1001.070100000: NOTE clock: a new epoch: the guest was paused for 1.020 s\n"), 1);
	free(text);
}

static void put_offset(struct braid_capture_writer *w, u32 vcpu, u64 offset, u64 after_ns, u64 seen_ns)
{
	struct braid_clock_offset o = {
		.vcpu = vcpu, .offset = offset, .after_counter = after_ns, .from_counter = seen_ns,
	};

	NEED(!braid_capture_put(w, BRAID_CHUNK_CLOCK_OFFSET, 1, NULL, 0, &o, sizeof(o)));
}

/* KVM's offsets of two vCPUs; both are moved, or the second alone. */
static void offsets(bool both)
{
	struct braid_capture_writer *w = synth_capture(path);
	u64 first = -SYNTH_START_NS, then = first + 3200000, at = SYNTH_START_NS + 20000000;
	struct synth_guest g;
	char *text;

	synth_host_clock(w, BRAID_HOST_CLOCK_COUNTER, "tsc", 0);
	synth_guest_init(&g, &params);
	synth_begin(w, &g, 1);
	put_offset(w, 0, first, 0, SYNTH_START_NS);
	put_offset(w, 1, first, 0, SYNTH_START_NS);
	if (both)
		put_offset(w, 0, then, at, at + 500000);
	put_offset(w, 1, then, at + 1000, at + 501000);
	run_guest(w, &g, false);
	finish(w, &g);
	text = report(false);
	CHECK(strstr(text, "clock kvm (KVM tells the offset of each vCPU; 0 crossings agree), bound ≤ "));
	CHECK_EQ(count(text, "KVM set another offset"), 1);
	CHECK_EQ(count(text, "KVM set another offset (vCPU 1), in the 500."), !both);
	CHECK_EQ(count(text, "KVM set another offset, in the 500."), both);
	free(text);
}

static void of_one_vcpu(void)
{
	offsets(false);
}

static void of_all_vcpus(void)
{
	offsets(true);
}

/* Nothing to tell of the first epoch, or of a guest whose clock nobody knows. */
static void quiet(void)
{
	struct braid_capture_writer *w = synth_capture(path);
	struct synth_guest g;
	char *text;

	synth_guest_init(&g, &params);
	synth_begin(w, &g, 1);
	run_guest(w, &g, false);
	finish(w, &g);
	text = report(false);
	CHECK_EQ(count(text, "NOTE"), 0);
	CHECK(strstr(text, "clock nominal ("));
	free(text);
}

int main(void)
{
	snprintf(path, sizeof(path), "/tmp/braid-notes-%d", getpid());
	RUN(steps);
	RUN(paused);
	RUN(of_one_vcpu);
	RUN(of_all_vcpus);
	RUN(quiet);
	unlink(path);
	return VERDICT();
}
