// SPDX-License-Identifier: GPL-2.0-or-later
/* What the guest's driver says of times when recording was off becomes a note of the recording. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/live/account.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/report_text.h"
#include "tests/unit/scratch.h"
#include "tests/unit/session.h"

static char *region_path, *capture_path;

static const struct fake_params usual = {
	.name = "fake", .bytes = 4 << 20, .nr_vcpus = 2, .subbuf_bytes = 1024, .nr_slots = 16,
};

/* As the guest's driver publishes that a ring was off. */
static void publish_off(struct session *s, u32 vcpu, u64 times, u64 steps, bool now)
{
	struct braid_ring_map map;

	fake_guest_ring(s->guest, 0, vcpu, &map);
	braid_store(&map.priv->off_times, times);
	braid_store(&map.priv->off_steps, steps);
	braid_store(&map.priv->off_now, now);
	braid_store_release(&map.priv->off_seq, map.priv->off_seq + 2);
}

/* Records while the guest's counts change; the note, or "". */
static const char *note_of_off(const u64 (*before)[3], const u64 (*within)[3],
			       const u64 (*after)[3])
{
	static struct session s;
	u32 vcpu;

	memset(&s, 0, sizeof(s));
	s.window = true;
	s.guest = fake_guest_new(region_path, &usual);
	for (vcpu = 0; before && vcpu < usual.nr_vcpus; vcpu++)
		publish_off(&s, vcpu, before[vcpu][0], before[vcpu][1], before[vcpu][2]);
	session_begin(&s, region_path, capture_path, NULL);
	session_settle(&s);
	braid_region_source_start(s.source);
	session_settle(&s);
	for (vcpu = 0; within && vcpu < usual.nr_vcpus; vcpu++)
		publish_off(&s, vcpu, within[vcpu][0], within[vcpu][1], within[vcpu][2]);
	session_settle(&s);
	braid_region_source_stop(s.source);
	for (vcpu = 0; after && vcpu < usual.nr_vcpus; vcpu++)
		publish_off(&s, vcpu, after[vcpu][0], after[vcpu][1], after[vcpu][2]);
	session_settle(&s);
	s.last_note[0] = 0;
	session_end(&s);
	fake_guest_free(s.guest);
	return s.last_note;
}

static void check(const u64 (*before)[3], const u64 (*within)[3], const u64 (*after)[3],
		  const char *wanted)
{
	const char *note = note_of_off(before, within, after);
	char line[256] = "";

	if (*wanted)
		snprintf(line, sizeof(line), "recording into buffer main was off in the guest %s: "
			 "events of that time are neither recorded nor counted as lost", wanted);
	if (strcmp(note, line))
		fprintf(stderr, "  \"%s\" instead of \"%s\"\n", note, line);
	CHECK(!strcmp(note, line));
}

static void off_in_the_guest(void)
{
	/* times, steps of the counter (of 1 GHz), whether it is off */
	static const u64 none[2][3] = { { 0, 0, 0 }, { 0, 0, 0 } };
	static const u64 earlier[2][3] = { { 7, 5000000, 0 }, { 7, 5000100, 0 } };
	static const u64 once[2][3] = { { 8, 255000000, 0 }, { 8, 255000100, 0 } };
	static const u64 still[2][3] = { { 9, 3255000000, 1 }, { 9, 3255000100, 1 } };
	static const u64 longer[2][3] = { { 9, 3955000000, 1 }, { 9, 3955000100, 1 } };
	static const u64 one[2][3] = { { 7, 5000000, 0 }, { 9, 2005000100, 0 } };
	static const u64 unlike[2][3] = { { 8, 6000000, 0 }, { 9, 2005000100, 0 } };
	static const u64 made_anew[2][3] = { { 1, 4000000, 0 }, { 1, 4000000, 0 } };

	check(NULL, NULL, NULL, "");
	check(none, none, once, "");
	check(earlier, earlier, NULL, "");
	check(earlier, once, still, "1 time, for 0.250000 s");
	check(earlier, still, longer, "2 times, for 3.250000 s");
	check(still, longer, NULL, "1 time, for 0.700000 s");
	check(still, NULL, NULL, "1 time, for 0.000000 s");
	check(earlier, one, NULL, "on 1 of 2 vCPUs 2 times, for 2.000000 s");
	check(earlier, unlike, NULL, "up to 2 times, for up to 2.000000 s");
	check(once, made_anew, NULL, "1 time, for 0.004000 s");
}

/* A guest may claim any number of steps. */
static void any_number_of_steps(void)
{
	CHECK(braid_ring_off_ns(2500000000, 10000000) == 250000000000);
	CHECK(braid_ring_off_ns(~0ULL, 1000000000) == UINT64_MAX);
	CHECK(braid_ring_off_ns(~0ULL, 10000000) == UINT64_MAX);
}

/* The report has it in its place, before the stop. */
static void off_in_the_report(void)
{
	static const u64 none[2][3] = { { 0, 0, 0 }, { 0, 0, 0 } };
	static const u64 once[2][3] = { { 1, 250000000, 0 }, { 1, 250000000, 0 } };
	char *text;

	note_of_off(none, once, NULL);
	text = report_text(capture_path, false, NULL, NULL);
	CHECK(strstr(text, "NOTE recording into buffer main was off in the guest 1 time, for 0.250000 s: "));
	free(text);
}

int main(void)
{
	region_path = scratch("region");
	capture_path = scratch("capture");
	RUN(off_in_the_guest);
	RUN(any_number_of_steps);
	RUN(off_in_the_report);
	return VERDICT();
}
