// SPDX-License-Identifier: GPL-2.0-or-later
/* Notes of a clock are at the time of their cause: once for all vCPUs alike. */
#include <string.h>
#include <unistd.h>

#include "host_agent/trace/source.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/report_text.h"

static char path[64];

static const struct synth_guest_params params = {
	.name = "guest1", .incarnation = 5, .boot = 1, .start_ns = SYNTH_START_NS,
	.nr_slots = 64, .subbuf_bytes = 4096,
};

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
	text = report_text(path, false, NULL, NULL);
	CHECK(strstr(text, ", 3 epochs\n"));
	CHECK_EQ(count_of(text, "NOTE clock: a new epoch: "), 2);
	CHECK_EQ(count_of(text, "the counter jumped ahead by 600.0 µs, in the "), 1);
	note = strstr(text, "NOTE clock: a new epoch: the counter stood still for 2.013 s, in the 2.014 s before this\n");
	CHECK(note);
	/* Its place: after all events of one epoch, and before the next. */
	for (at = text, ticks = 0; (at = strstr(at, " tick: ")) && at < note; at++)
		ticks++;
	CHECK(ticks == 50 || ticks == 51);
	free(text);
	text = report_text(path, true, NULL, NULL);
	CHECK_EQ(count_of(text, "{\"type\":\"note\",\"stream\":\"guest1\",\"ns\":"), 2);
	CHECK_EQ(count_of(text, "\"text\":\"clock: a new epoch: the counter stood still for 2.013 s"), 1);
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
	text = report_text(path, false, NULL, NULL);
	CHECK_EQ(count_of(text, "1001.070100000: NOTE clock: a new epoch: the guest was paused for 1.020 s\n"), 1);
	free(text);
}

static void put_offset(struct braid_capture_writer *w, u32 vcpu, u64 offset, u64 after_ns,
		       u64 seen_ns)
{
	struct braid_clock_offset o = {
		.vcpu = vcpu, .offset = offset, .after_counter = after_ns, .from_counter = seen_ns,
	};

	NEED(!braid_capture_put(w, BRAID_CHUNK_CLOCK_OFFSET, 1, NULL, 0, &o, sizeof(o)));
}

/* KVM's offsets of two vCPUs; both change, or only the second. */
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
	text = report_text(path, false, NULL, NULL);
	CHECK(strstr(text, "clock kvm (offset from KVM for each vCPU, "
			   "confirmed by 0 round-trip samples), bound ≤ "));
	CHECK_EQ(count_of(text, "KVM set another offset"), 1);
	CHECK_EQ(count_of(text, "KVM set another offset (vCPU 1), in the 500."), !both);
	CHECK_EQ(count_of(text, "KVM set another offset, in the 500."), both);
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

/* No notes of the first epoch, or of a guest whose clock is unknown. */
static void quiet(void)
{
	struct braid_capture_writer *w = synth_capture(path);
	struct synth_guest g;
	char *text;

	synth_guest_init(&g, &params);
	synth_begin(w, &g, 1);
	run_guest(w, &g, false);
	finish(w, &g);
	text = report_text(path, false, NULL, NULL);
	CHECK_EQ(count_of(text, "NOTE"), 0);
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
