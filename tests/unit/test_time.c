// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From a guest's counter to the times of a capture: changes of the counter, reported or not.
 */
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/cli.h"
#include "host_agent/clock_sync/host.h"
#include "host_agent/live/region_private.h"
#include "host_agent/trace/source.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/report_text.h"
#include "tests/unit/run_command.h"
#include "tests/unit/scratch.h"
#include "tests/unit/session.h"

#define MILLI		1000000ULL
#define SECOND		1000000000ULL
#define STOP_NS		(300 * MILLI)
#define JUMP_NS		(5 * SECOND)	/* more than any sample is wide, also on a loaded machine */
#define BACK_NS		(100 * SECOND)
#define LITTLE_NS	(5 * MILLI)
#define SOME_EVENTS	4000u

static char *region_path, *capture_path;

static const struct fake_params usual = {
	.name = "fake", .bytes = 8 << 20, .nr_vcpus = 2, .subbuf_bytes = 4096, .nr_slots = 128,
	.rate = 5000, .always = true,
};

/* A change of the guest's counter: events from these numbers on were stamped after it. */
static struct {
	u64 first[FAKE_MAX_VCPUS];
	u64 gain;
	u64 began_ns;
} change;

static bool mark_unstable;	/* the guest's TSC, from the start */
static bool has_vmclock;	/* the guest, likewise */
static u64 wanted;	/* events of the recording so far */

static bool wanted_are_there(struct session *s)
{
	return s->status.events >= wanted;
}

static void record_some(struct session *s)
{
	wanted = s->status.events + SOME_EVENTS;
	session_until(s, wanted_are_there);
}

static bool stands(struct session *s)
{
	return braid_load_acquire(&s->guest->ctl->stands);
}

static bool stood_long_enough(struct session *s)
{
	(void)s;
	return braid_host_clock_ns() - change.began_ns >= STOP_NS;
}

static bool has_note(struct session *s)
{
	return s->notes;
}

static bool is_disarmed(struct session *s)
{
	return s->status.disarmed;
}

static void freeze(struct session *s)
{
	u32 k;

	braid_store_release(&s->guest->ctl->frozen, 1);
	session_until(s, stands);
	change.began_ns = braid_host_clock_ns();
	for (k = 0; k < s->guest->p.nr_vcpus; k++)
		change.first[k] = s->guest->ctl->offered[k];
}

static void thaw(struct session *s, u64 gain)
{
	change.gain = gain;
	braid_store(&s->guest->ctl->counter_gain, gain);
	braid_store_release(&s->guest->ctl->frozen, 0);
}

static void begin(struct session *s)
{
	memset(s, 0, sizeof(*s));
	memset(&change, 0, sizeof(change));
	s->guest = fake_guest_new(region_path, &usual);
	s->guest->ctl->wall_flags = mark_unstable ? BRAID_WALL_TSC_UNSTABLE : 0;
	s->guest->ctl->vmclock = has_vmclock;
	s->guest->ctl->marker = 5;
	fake_guest_start_thread(s->guest);
	NEED(!braid_exchange_start(&s->exchange));
	session_begin(s, region_path, capture_path, NULL);
	record_some(s);
}

static void end(struct session *s)
{
	record_some(s);
	braid_region_source_disarm(s->source);
	session_until(s, is_disarmed);
	session_end(s);
	braid_exchange_stop(s->exchange);
	fake_guest_free(s->guest);
}

static struct braid_source *open_capture(void)
{
	char *names[] = { capture_path };
	struct braid_source *source;

	NEED(!braid_source_open_captures(&source, names, 1, NULL));
	NEED(source->nr_streams == 1);
	return source;
}

/* The true time of an event. */
static s64 truth_of(const struct braid_item *item)
{
	u64 number;

	memcpy(&number, item->payload + sizeof(struct braid_record), sizeof(number));
	return (s64)(item->counter - FAKE_COUNTER_OFFSET -
		     (number >= change.first[item->ring->cpu] ? change.gain : 0));
}

/* Checks that each event's true time is within its bound. Return: how many had one. */
static u64 check_events(const struct braid_source *source, u64 *events)
{
	const struct braid_stream *stream = source->streams[0];
	u64 known = 0;
	size_t k;

	*events = 0;
	for (k = 0; k < stream->nr_rings; k++) {
		struct braid_ring *ring = stream->rings[k];
		const struct braid_item *i = &ring->item;

		while (ring->cpu != BRAID_RING_NOTES && braid_ring_next(ring) > 0) {
			if (i->kind != BRAID_ITEM_EVENT)
				continue;
			++*events;
			if (i->bound_ns == BRAID_BOUND_UNKNOWN)
				continue;
			known++;
			if ((u64)llabs(i->host_ns - truth_of(i)) <= i->bound_ns)
				continue;
			CHECK(!"the truth is within the bound");
			fprintf(stderr, "off by %lld, bound %llu\n", (long long)(i->host_ns - truth_of(i)),
				(unsigned long long)i->bound_ns);
			return known;
		}
	}
	return known;
}

static u32 count_notes(const struct braid_source *source, const char *what)
{
	const struct braid_stream *stream = source->streams[0];
	u32 notes = 0;
	size_t k;

	for (k = 0; k < stream->nr_rings; k++) {
		struct braid_ring *ring = stream->rings[k];

		while (ring->cpu == BRAID_RING_NOTES && braid_ring_next(ring) > 0)
			notes += !!strstr((const char *)ring->item.payload, what);
	}
	return notes;
}

static u64 count_faults(const struct braid_source *source)
{
	const struct braid_stream *stream = source->streams[0];
	u64 faults = 0;
	size_t k;

	for (k = 0; k < stream->nr_rings; k++)
		faults += stream->rings[k]->walk.faults;
	return faults;
}

/* Two epochs, one of the cause; the change is where the second began. */
static void check_change(enum braid_epoch_cause cause, const char *note)
{
	struct braid_source *source = open_capture();
	const struct braid_clock *clock = &source->streams[0]->clock;
	const struct braid_clock_epoch *e;
	u64 events;

	CHECK_EQ(clock->kind, BRAID_CLOCK_EXCHANGE);
	NEED(clock->nr_tracks == 1);
	CHECK_EQ(clock->tracks->nr_epochs, 2);
	e = &clock->tracks->epochs[clock->tracks->nr_epochs - 1];
	CHECK_EQ(e->cause, cause);
	CHECK(e->from_ns <= (s64)change.began_ns && (s64)change.began_ns <= e->begun_ns);
	CHECK_EQ(count_notes(source, note), 1);
	CHECK_EQ(check_events(source, &events), events);
	CHECK(events >= 3 * SOME_EVENTS);
	CHECK_EQ(count_faults(source), 0);
	braid_source_free(source);
}

/* A machine that is stopped and resumed: its counter stops meanwhile. */
static void stopped_for_a_while(void)
{
	struct session s;

	begin(&s);
	record_some(&s);
	freeze(&s);
	session_until(&s, stood_long_enough);
	thaw(&s, change.began_ns - braid_host_clock_ns());
	end(&s);
	check_change(BRAID_EPOCH_STOOD_STILL, "the counter stood still for ");
}

static void jumped_ahead(void)
{
	struct session s;

	begin(&s);
	record_some(&s);
	freeze(&s);
	thaw(&s, JUMP_NS);
	end(&s);
	check_change(BRAID_EPOCH_JUMPED, "the counter jumped ahead by ");
}

/* A machine that slept, or was reset to a snapshot: its counter starts below all former values. */
static void goes_back(void)
{
	struct session s;

	begin(&s);
	record_some(&s);
	freeze(&s);
	session_until(&s, stood_long_enough);
	thaw(&s, 0 - BACK_NS);
	end(&s);
	check_change(BRAID_EPOCH_WENT_BACK, "the counter went back");
}

/* By so little that samples may look like a stop: the rings' data keeps the bounds valid. */
static void goes_back_a_little(void)
{
	struct braid_source *source;
	struct session s;
	u64 events;

	begin(&s);
	record_some(&s);
	freeze(&s);
	thaw(&s, 0 - LITTLE_NS);
	end(&s);
	source = open_capture();
	CHECK_EQ(count_notes(source, "the counter "), 1);
	CHECK(check_events(source, &events) > SOME_EVENTS);
	CHECK(events >= 3 * SOME_EVENTS);
	CHECK_EQ(count_faults(source), 0);
	braid_source_free(source);
}

static bool has_look(struct session *s)
{
	return s->source->clock.vmclock.marked;
}

/* Memory that a snapshot restored: the guest's poll of that time, with the marker of that time. */
static void restore_look(struct session *s)
{
	struct braid_live_stream *stream = &s->source->stream;
	struct braid_clock_cells *cells =
		braid_mapping_section(stream->mapping, &stream->sb, BRAID_SECTION_CLOCK);

	braid_store(&cells->poll_host_ns, s->source->clock.poll.s.h1_ns - 1);
	braid_store(&cells->poll_marker, 4);
	braid_store(&cells->host_ns, s->source->clock.poll.s.h1_ns - 1);
	braid_store_release(&cells->poll_seq, cells->poll_seq + 2);
	session_turn(s);
	CHECK_EQ(s->source->clock.vmclock.marker, 5);
	CHECK_EQ(s->source->clock.poll_seq, cells->poll_seq);
	CHECK_EQ(s->notes, 0);
}

/* A guest that is loaded from a snapshot, or migrated: its counter gains something, perhaps 0. */
static void disrupt(u64 gain)
{
	struct session s;

	has_vmclock = true;
	begin(&s);
	session_until(&s, has_look);
	record_some(&s);
	CHECK_EQ(s.notes, 0);
	freeze(&s);
	session_turn(&s);
	restore_look(&s);
	braid_store(&s.guest->ctl->marker, 6);
	thaw(&s, gain);
	end(&s);
	has_vmclock = false;
	CHECK_EQ(s.notes, 1);
	CHECK(strstr(s.last_note, "vmclock's marker changed from 5 to 6"));
}

/* The epoch begins whether or not the counter shows anything. */
static void disrupted(void)
{
	disrupt(0);
	check_change(BRAID_EPOCH_DISRUPTED, "clock: a new epoch: the hypervisor disrupted the counter (vmclock), in the ");
	CHECK_EQ(RUN_COMMAND(braid_cmd_clock, "clock", capture_path), EXIT_SUCCESS);
	CHECK_EQ(count_of(printed, " s: the hypervisor disrupted the counter"), 1);
	CHECK_EQ(count_of(printed, "\n  vmclock: disruption marker 6; tai time 1700000000.000000005 s at counter "), 1);
	CHECK_EQ(count_of(printed, ", bound 1234 ns by the hypervisor, synchronized\n"), 1);
	CHECK_EQ(RUN_COMMAND(braid_cmd_clock, "clock", "--json", capture_path), EXIT_SUCCESS);
	CHECK_EQ(count_of(printed, "\"vmclock\":{\"marker\":6,\"changes\":0,\"generation\":77,\"counter\":"), 1);
	CHECK_EQ(count_of(printed, ",\"time_type\":\"tai\",\"time_ns\":1700000000000000005,\"status\":\"synchronized\",\"bound_ns\":1234}"), 1);
	CHECK_EQ(count_of(printed, "\"cause\":\"the hypervisor disrupted the counter\""), 1);
	CHECK_EQ(count_of(printed, "\"disrupted\":true"), 1);
}

static void disrupted_and_ahead(void)
{
	disrupt(JUMP_NS);
	check_change(BRAID_EPOCH_JUMPED, "clock: a new epoch: the hypervisor disrupted the counter (vmclock): the counter jumped ahead by ");
	CHECK_EQ(RUN_COMMAND(braid_cmd_clock, "clock", capture_path), EXIT_SUCCESS);
	CHECK_EQ(count_of(printed, "; the hypervisor disrupted it (vmclock)\n"), 1);
}

static void disrupted_and_back(void)
{
	disrupt(0 - BACK_NS);
	check_change(BRAID_EPOCH_WENT_BACK, "clock: a new epoch: the hypervisor disrupted the counter (vmclock): the counter went back");
}

/* A guest that says so at each poll: fewer notes, and no bound that is false. */
static void disrupted_all_the_time(void)
{
	struct braid_source *source;
	struct session s;
	u64 events;

	has_vmclock = true;
	begin(&s);
	braid_store(&s.guest->ctl->marker_spins, 1);
	end(&s);
	has_vmclock = false;
	CHECK(s.notes > 1);
	source = open_capture();
	CHECK(source->streams[0]->clock.tracks->nr_epochs <= 256);
	check_events(source, &events);
	CHECK(events >= 2 * SOME_EVENTS);
	CHECK_EQ(count_faults(source), 0);
	braid_source_free(source);
}

/* The counter does not change. */
static void steady(void)
{
	struct braid_source *source;
	struct session s;
	u64 events;

	begin(&s);
	end(&s);
	source = open_capture();
	CHECK_EQ(source->streams[0]->clock.tracks->nr_epochs, 1);
	CHECK_EQ(check_events(source, &events), events);
	CHECK(events >= 2 * SOME_EVENTS);
	CHECK_EQ(count_notes(source, "clock"), 0);
	CHECK(!source->streams[0]->tsc_unstable);
	braid_source_free(source);
	CHECK_EQ(RUN_COMMAND(braid_cmd_clock, "clock", "--json", capture_path), EXIT_SUCCESS);
	CHECK_EQ(count_of(printed, "\"tsc_unstable\":false"), 1);
	CHECK_EQ(count_of(printed, "\"vmclock\":null"), 1);
}

/* A TSC that the guest's kernel has marked by then was marked before. */
static bool has_pair(struct session *s)
{
	return s->source->clock.wall_seq;
}

/* Reports about a TSC that the guest's kernel marks unstable, now or before the recording. */
static void unstable_tsc(bool before)
{
	struct braid_source *source;
	struct session s;
	char *text;

	mark_unstable = before;
	begin(&s);
	session_until(&s, has_pair);
	CHECK_EQ(s.notes, 0);
	braid_store(&s.guest->ctl->wall_flags, BRAID_WALL_TSC_UNSTABLE);
	if (!before)
		session_until(&s, has_note);
	end(&s);
	mark_unstable = false;
	CHECK_EQ(s.notes, !before);
	CHECK(before || strstr(s.last_note, "marked its TSC unstable; 'tracebraid clock' says"));
	source = open_capture();
	CHECK(source->streams[0]->tsc_unstable);
	CHECK_EQ(count_notes(source, "the guest's kernel has marked its TSC unstable"), !before);
	braid_source_free(source);
	text = report_text(capture_path, false, NULL, NULL);
	CHECK_EQ(count_of(text, "\n#   the guest's kernel has marked its TSC unstable: the error bounds may be wrong\n"), 1);
	free(text);
	text = report_text(capture_path, true, NULL, NULL);
	CHECK_EQ(count_of(text, "\"tsc_unstable\":true"), 1);
	free(text);
	CHECK_EQ(RUN_COMMAND(braid_cmd_clock, "clock", capture_path), EXIT_SUCCESS);
	CHECK_EQ(count_of(printed, "\n  the guest's kernel has marked its TSC unstable: the error bounds may be wrong\n"), 1);
	CHECK_EQ(RUN_COMMAND(braid_cmd_clock, "clock", "--json", capture_path), EXIT_SUCCESS);
	CHECK_EQ(count_of(printed, "\"tsc_unstable\":true"), 1);
}

static void unstable_before(void)
{
	unstable_tsc(true);
}

static void unstable_during_the_recording(void)
{
	unstable_tsc(false);
}

/* The guest has died: no more samples; but it published its wall time. */
static struct braid_source *record_the_dead(u64 wall_ahead_ns)
{
	struct session s = { 0 };
	struct fake_guest *g = fake_guest_new(region_path, &usual);

	memset(&change, 0, sizeof(change));
	g->ctl->wall_ahead_ns = wall_ahead_ns;
	fake_guest_start_thread(g);
	while (braid_load(&g->ctl->offered[1]) < 100)
		braid_sleep_ns(MILLI);
	fake_guest_stop(g);
	s.guest = g;
	NEED(!braid_exchange_start(&s.exchange));
	session_begin(&s, region_path, capture_path, NULL);
	wanted = g->ctl->offered[0] + g->ctl->offered[1];
	session_until(&s, wanted_are_there);
	session_end(&s);
	braid_exchange_stop(s.exchange);
	fake_guest_free(g);
	return open_capture();
}

/* Checks that no event has a bound. Return: the largest error. */
static u64 farthest(const struct braid_source *source)
{
	const struct braid_stream *stream = source->streams[0];
	u64 off, most = 0, events = 0;
	size_t k;

	for (k = 0; k < stream->nr_rings; k++) {
		struct braid_ring *ring = stream->rings[k];

		while (ring->cpu != BRAID_RING_NOTES && braid_ring_next(ring) > 0) {
			if (ring->item.kind != BRAID_ITEM_EVENT)
				continue;
			CHECK_EQ(ring->item.bound_ns, BRAID_BOUND_UNKNOWN);
			off = (u64)llabs(ring->item.host_ns - truth_of(&ring->item));
			most = off > most ? off : most;
			events++;
		}
	}
	CHECK_EQ(events, wanted);
	return most;
}

static void placed_by_wall_time(void)
{
	struct braid_source *source = record_the_dead(0);

	CHECK_EQ(source->streams[0]->clock.kind, BRAID_CLOCK_PAIRS);
	CHECK_EQ(source->streams[0]->bound_ns, BRAID_BOUND_UNKNOWN);
	CHECK(farthest(source) < SECOND);
	braid_source_free(source);
}

/* A wrong wall time: no event can be newer than its page. */
static void wall_time_ahead(void)
{
	struct braid_source *source = record_the_dead(3600 * SECOND);

	CHECK_EQ(source->streams[0]->clock.kind, BRAID_CLOCK_NOMINAL);
	CHECK(strstr(source->streams[0]->clock.reason, "ahead of the host's"));
	CHECK(farthest(source) < 600 * SECOND);
	braid_source_free(source);
}

int main(void)
{
	region_path = scratch("region");
	capture_path = scratch("capture");
	RUN(steady);
	RUN(stopped_for_a_while);
	RUN(jumped_ahead);
	RUN(goes_back);
	RUN(goes_back_a_little);
	RUN(disrupted);
	RUN(disrupted_and_ahead);
	RUN(disrupted_and_back);
	RUN(disrupted_all_the_time);
	RUN(unstable_before);
	RUN(unstable_during_the_recording);
	RUN(placed_by_wall_time);
	RUN(wall_time_ahead);
	return VERDICT();
}
