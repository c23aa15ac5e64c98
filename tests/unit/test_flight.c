// SPDX-License-Identifier: GPL-2.0-or-later
/* Flight recorders: fake guests whose rings are watched, and read completely for a snapshot. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/capture/capture.h"
#include "host_agent/clock_sync/host.h"
#include "host_agent/live/region.h"
#include "host_agent/live/tracefs_private.h"
#include "host_agent/trace/source.h"
#include "host_agent/trace/vcpu.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/fake_guest.h"
#include "tests/unit/need.h"
#include "tests/unit/own_memory.h"
#include "tests/unit/scratch.h"

#define MIB		(1u << 20)
#define LIMIT_NS	60000000000ULL
#define ON_EVENT	"irq:irq_handler_entry"	/* every FAKE_NR_EVENTS-th event of a vCPU */

static char *region_path, *capture_paths[2];

static const struct fake_params usual = {
	.name = "fake", .bytes = 1 << 20, .nr_vcpus = 2, .subbuf_bytes = 4096, .nr_slots = 16,
	.flags = BRAID_BUFFER_OVERWRITE, .always = true,
};

/* A flight recorder of one guest. */
struct flight {
	struct braid_live_sink sink;
	struct braid_exchange *exchange;
	struct braid_region_source *source;
	struct braid_pattern on;
	struct braid_region_status status;
	u32 notes;
	char said[1024];	/* the notes */
};

static void hear(void *arg, const char *name, const char *line)
{
	struct flight *f = arg;

	(void)name;
	f->notes += strcmp(line, BRAID_VCPUS_UNKNOWN) != 0;	/* no QEMU maps a fake's region */
	snprintf(f->said + strlen(f->said), sizeof(f->said) - strlen(f->said), "%s\n", line);
}

static void turn(struct flight *f)
{
	NEED(braid_region_source_poll(f->source) >= 0);
	f->status = braid_region_source_status(f->source);
}

static void begin(struct flight *f, const char *on)
{
	struct braid_region_options o = {
		.path = region_path, .name = "fake", .sink = &f->sink, .flight = true,
		.on = &f->on, .nr_on = !!on, .say = hear, .say_arg = f, .exchange = f->exchange,
	};

	f->sink.next_stream = 1;
	NEED(!on || !braid_pattern_parse(&f->on, on));
	NEED(!braid_capture_create_history(&f->sink.capture, false));
	NEED(!braid_region_source_open(&f->source, &o));
	turn(f);
	CHECK_EQ(f->status.phase, BRAID_PHASE_RECORDING);
}

static void end(struct flight *f)
{
	CHECK_EQ(braid_region_source_finish(f->source), 0);
	braid_region_source_close(f->source);
	CHECK_EQ(braid_capture_finish(f->sink.capture), 0);
}

static void take(struct flight *f, const char *path)
{
	struct braid_chunk_file head = {
		.version_major = BRAID_CAPTURE_MAJOR, .version_minor = BRAID_CAPTURE_MINOR,
		.clock = "mono_raw",
	};
	struct braid_capture_writer *out;
	u64 start_ns = braid_host_clock_ns();

	braid_host_clock_pair(&head.start_host_ns, &head.start_realtime_ns);
	NEED(!braid_capture_create(&out, path, &head));
	NEED(!braid_capture_tee(f->sink.capture, out));
	CHECK_EQ(braid_region_source_take(f->source), 0);
	braid_region_source_ask(f->source);
	do
		turn(f);
	while (!braid_region_source_asked(f->source) &&
	       braid_host_clock_ns() - start_ns < LIMIT_NS);
	CHECK_EQ(braid_region_source_took(f->source, out), 0);
	CHECK_EQ(braid_capture_tee(f->sink.capture, NULL), 0);
	CHECK_EQ(braid_capture_finish(out), 0);
	f->status = braid_region_source_status(f->source);
}

/* The content of captures that are read together. */
struct found {
	size_t nr_streams;
	u64 events;
	u64 lost;
	u64 elsewhere;
	u64 faults;
	u64 round_trips;		/* from before snapshot_ns */
	u32 ends;		/* why the first stream ended */
	u64 written, read, left;
};

static u64 snapshot_ns;

static struct found found_in(size_t nr)
{
	char *paths[2] = { capture_paths[0], capture_paths[1] };
	struct braid_source *source;
	struct found f = { 0 };
	size_t s, k;

	NEED(!braid_source_open_captures(&source, paths, nr, NULL));
	f.nr_streams = source->nr_streams;
	for (s = 0; s < source->nr_streams; s++) {
		struct braid_stream *stream = source->streams[s];

		for (k = 0; k < stream->clock_inputs.nr_round_trips; k++)
			f.round_trips += stream->clock_inputs.round_trips[k].s.h2_ns < snapshot_ns;
		f.ends = stream->end_reason;
		for (k = 0; k < stream->nr_rings; k++) {
			while (braid_ring_next(stream->rings[k]) > 0)
				;
			f.events += stream->rings[k]->walk.events;
			f.lost += stream->rings[k]->walk.lost;
			f.elsewhere += stream->rings[k]->walk.elsewhere;
			f.written += stream->rings[k]->report.last.written;
			f.read += stream->rings[k]->report.read;
			f.left += stream->rings[k]->report.last.left;
		}
	}
	f.faults = source->faults;
	braid_source_free(source);
	return f;
}

/* Snapshots ---------------------------------------------------------------------------------- */

static void takes_repeated_snapshots(void)
{
	struct fake_params p = usual;
	struct fake_guest *g;
	struct flight f = { 0 };
	struct found found;

	p.bytes = 4 * MIB;	/* more than is drained in one turn of a recording */
	p.nr_slots = 128;
	g = fake_guest_new(region_path, &p);
	begin(&f, NULL);
	CHECK_EQ(f.notes, 0);
	fake_guest_write(g, 0, 100);
	fake_guest_write(g, 1, 7);
	turn(&f);
	CHECK_EQ(f.status.events, 0);		/* it stays in the ring */
	take(&f, capture_paths[0]);
	found = found_in(1);
	CHECK_EQ(found.events, 107);
	CHECK_EQ(found.faults, 0);
	CHECK_EQ(found.ends, BRAID_END_STOPPED);

	/* Far more than the ring holds: the oldest are overwritten and counted. */
	fake_guest_write(g, 0, 100000);
	fake_guest_write(g, 1, 5);
	turn(&f);
	/* permille: one ring of two is full */
	CHECK(braid_region_source_fill(f.source) > 400);
	take(&f, capture_paths[1]);
	found = found_in(2);
	CHECK_EQ(found.nr_streams, 1);
	CHECK_EQ(found.written, 100112);
	CHECK_EQ(found.events + found.lost, 100112);
	CHECK(found.lost > 50000 && found.events > 10000);
	CHECK_EQ(found.left + found.elsewhere + found.faults, 0);
	CHECK_EQ(f.status.events, found.events);
	CHECK_EQ(f.status.lost, found.lost);
	end(&f);
	fake_guest_free(g);
}

static void takes_from_a_running_guest(void)
{
	struct fake_params p = usual;
	struct fake_guest *g;
	struct flight f = { 0 };
	struct found found;
	u64 start_ns;

	p.rate = 20000;
	g = fake_guest_new(region_path, &p);
	fake_guest_start_thread(g);
	NEED(!braid_exchange_start(&f.exchange));
	begin(&f, NULL);
	start_ns = braid_host_clock_ns();
	/* Round-trip samples from before the snapshot are kept for it. */
	while (braid_capture_bytes(f.sink.capture) < 1000 &&
	       braid_host_clock_ns() - start_ns < LIMIT_NS) {
		turn(&f);
		braid_sleep_ns(500000);
	}
	snapshot_ns = braid_host_clock_ns();
	take(&f, capture_paths[0]);
	take(&f, capture_paths[1]);
	found = found_in(2);
	CHECK_EQ(found.nr_streams, 1);
	CHECK_EQ(found.faults + found.elsewhere, 0);
	/* Losses after the last page are only in the accounting. */
	CHECK_EQ(found.events, found.read);
	CHECK(found.events > 0);
	CHECK(found.round_trips > 0);
	end(&f);
	braid_exchange_stop(f.exchange);
	fake_guest_stop(g);
	fake_guest_free(g);
}

static void releases_a_guest_after_a_snapshot(void)
{
	struct fake_guest *g = fake_guest_new(region_path, &usual);
	struct flight f = { 0 };
	struct found found;
	u64 start_ns;

	begin(&f, NULL);
	fake_guest_write(g, 0, 50);
	fake_guest_start_thread(g);
	braid_store(&g->ctl->go_down, 1);
	start_ns = braid_host_clock_ns();
	while (!f.status.leaving && braid_host_clock_ns() - start_ns < LIMIT_NS)
		turn(&f);
	CHECK(f.status.leaving);
	turn(&f);
	CHECK(f.status.leaving);	/* it waits for us */
	{
		struct braid_chunk_file head = {
			.version_major = BRAID_CAPTURE_MAJOR, .version_minor = BRAID_CAPTURE_MINOR,
			.clock = "mono_raw",
		};
		struct braid_capture_writer *out;

		NEED(!braid_capture_create(&out, capture_paths[0], &head));
		NEED(!braid_capture_tee(f.sink.capture, out));
		CHECK_EQ(braid_region_source_take(f.source), 0);
		braid_region_source_let_go(f.source);
		turn(&f);
		CHECK_EQ(f.status.phase, BRAID_PHASE_DOWN);
		CHECK_EQ(braid_region_source_took(f.source, out), 0);
		CHECK_EQ(braid_capture_tee(f.sink.capture, NULL), 0);
		CHECK_EQ(braid_capture_finish(out), 0);
	}
	found = found_in(1);
	CHECK_EQ(found.events, 50);
	CHECK_EQ(found.ends, BRAID_END_DOWN);
	CHECK_EQ(found.faults, 0);
	end(&f);
	fake_guest_stop(g);
	fake_guest_free(g);
}

static void reports_buffers_that_stop(void)
{
	struct fake_params p = usual;
	struct fake_guest *g;
	struct flight f = { 0 };

	p.flags = 0;
	g = fake_guest_new(region_path, &p);
	begin(&f, NULL);
	CHECK_EQ(f.notes, 1);
	CHECK(strstr(f.said, "load its driver with overwrite=1\n"));
	end(&f);
	fake_guest_free(g);
}

/* A flight recorder of a guest whose region is in its own memory, of one chunk. */
static struct fake_guest *begin_own(struct flight *f, struct own_memory *memory,
				    const struct fake_params *p, const char *on)
{
	struct fake_guest *g = fake_guest_new(region_path, p);
	char path[32], *file = region_path;

	own_memory_begin(memory, g, 0x51525354);
	if (p->poll_ns)
		fake_guest_start_process(g);
	snprintf(path, sizeof(path), "pid:%d", memory->pid);
	region_path = path;
	begin(f, on);
	region_path = file;
	return g;
}

/* Other parameters of its driver are of use. */
static void advises_guests_that_are_only_read(void)
{
	struct flight f = { 0 }, second = { 0 };
	struct fake_params p = usual;
	struct own_memory memory;
	struct fake_guest *g;

	p.bytes = OWN_CHUNK_ROOM;
	p.flags = 0;
	g = begin_own(&f, &memory, &p, NULL);
	CHECK(strstr(f.said, "in the guest: echo overwrite >/sys/kernel/debug/tracebraid/"));
	CHECK(strstr(f.said, "/mode\n") && !strstr(f.said, "overwrite=1"));
	end(&f);
	own_memory_end(&memory);
	fake_guest_free(g);

	p.flags = BRAID_BUFFER_OVERWRITE;
	g = begin_own(&second, &memory, &p, ON_EVENT);
	while (!strstr(second.said, "--on may miss events")) {
		fake_guest_write(g, 0, 20000);
		fake_guest_look(g);
		turn(&second);
	}
	CHECK(strstr(second.said, "; load its driver with a larger memory_mb=\n"));
	end(&second);
	own_memory_end(&memory);
	fake_guest_free(g);
}

/* Triggers ---------------------------------------------------------------------------------- */

static void notices_events(void)
{
	struct fake_guest *g = fake_guest_new(region_path, &usual);
	struct flight f = { 0 };
	u64 before;
	int k;

	fake_guest_write(g, 0, 40);	/* earlier: not noticed */
	begin(&f, "irq:irq_*");		/* what is noticed is the event, not the pattern */
	turn(&f);
	CHECK_EQ(f.status.noticed, 0);
	fake_guest_write(g, 0, FAKE_NR_EVENTS);
	turn(&f);
	CHECK_EQ(f.status.noticed, 1);
	CHECK(!strcmp(f.status.noticed_event, ON_EVENT));
	fake_guest_write(g, 1, 2 * FAKE_NR_EVENTS);
	turn(&f);
	CHECK_EQ(f.status.noticed, 3);
	turn(&f);
	CHECK_EQ(f.status.noticed, 3);
	/* Over many sub-buffers; then all are read, and the reader holds the unfinished one. */
	fake_guest_write(g, 0, 200 * FAKE_NR_EVENTS);
	turn(&f);
	CHECK_EQ(f.status.noticed, 203);
	fake_guest_write(g, 0, 100 * FAKE_NR_EVENTS);
	take(&f, capture_paths[0]);
	before = f.status.noticed;
	CHECK_EQ(before, 203);		/* events that were read are not noticed */
	for (k = 0; k < 300; k++) {
		fake_guest_write(g, 0, FAKE_NR_EVENTS);
		turn(&f);
		CHECK_EQ(f.status.noticed, before + k + 1);
	}
	/* Faster than we check: reported, and noticed again from then on. */
	k = f.notes;
	fake_guest_write(g, 0, 100000);
	turn(&f);
	turn(&f);
	CHECK_EQ(f.notes, k + 1);
	before = f.status.noticed;
	fake_guest_write(g, 0, FAKE_NR_EVENTS);
	turn(&f);
	CHECK_EQ(f.status.noticed, before + 1);
	end(&f);
	fake_guest_free(g);
}

/* Memory ------------------------------------------------------------------------------------ */

static struct braid_capture_writer *history_with(u16 type, u64 nr)
{
	struct braid_clock_sample sample = { 0 };
	struct braid_capture_writer *w;
	u64 k;

	NEED(!braid_capture_create_history(&w, false));
	for (k = 0; k < nr; k++) {
		sample.h1_ns = sample.counter = sample.h2_ns = k + 1;
		CHECK_EQ(braid_capture_put(w, type, 7, NULL, 0, &sample, sizeof(sample)), 0);
	}
	return w;
}

/* The samples of the history that a file gets; the smallest and largest gap between them. */
static u64 replayed(struct braid_capture_writer *w, u64 *first, u64 *last)
{
	struct braid_chunk_file head = { .version_major = BRAID_CAPTURE_MAJOR, .clock = "mono_raw" };
	struct braid_capture_writer *out;
	struct braid_capture_reader *r;
	struct braid_chunk_view view;
	u64 nr = 0;

	NEED(!braid_capture_create(&out, capture_paths[0], &head));
	NEED(!braid_capture_tee(w, out));
	braid_capture_replay(w, 7);
	NEED(!braid_capture_tee(w, NULL) && !braid_capture_finish(out));
	NEED(!braid_capture_open(&r, capture_paths[0], &head));
	*first = *last = 0;
	while (braid_capture_next(r, &view) > 0) {
		if (view.stream != 7)
			continue;
		*last = ((const struct braid_clock_sample *)view.payload)->counter;
		*first = *first ? *first : *last;
		nr++;
	}
	braid_capture_close(r);
	return nr;
}

/* The line of trace_pipe that says which event of the host it was. */
static void names_host_events(void)
{
	static const struct { const char *line, *event; } lines[] = {
		{ "  bash-17  [003] d..2.  12345.678901: sched_switch: prev_comm=a\n", "sched_switch" },
		{ "  a: b: c-17  [003] .....  5.6: oom_kill: x: y\n", "oom_kill" },
		{ "CPU:3 [LOST 17 EVENTS]\n", "unknown" }, { "", "unknown" }, { ": ", "unknown" },
	};
	char event[64];
	size_t k;

	for (k = 0; k < sizeof(lines) / sizeof(lines[0]); k++) {
		braid_host_event_of_line(lines[k].line, event, sizeof(event));
		CHECK(!strcmp(event, lines[k].event));
	}
}

static void keeps_within_bounds(void)
{
	u64 nr = 2000000, first, last, found;
	struct braid_capture_writer *w = history_with(BRAID_CHUNK_CLOCK, nr);

	CHECK(braid_capture_bytes(w) <= 4 * MIB && braid_capture_bytes(w) > MIB);
	found = replayed(w, &first, &last);
	CHECK(found > 20000 && found < 200000);
	CHECK_EQ(last, nr);
	CHECK(first < nr / 1000);		/* older ones are fewer, not gone */
	CHECK_EQ(braid_capture_put(w, BRAID_CHUNK_STREAM_END, 7, NULL, 0, NULL, 0), 0);
	CHECK_EQ(braid_capture_bytes(w), 0);
	CHECK_EQ(braid_capture_finish(w), 0);

	w = history_with(BRAID_CHUNK_COMMS, nr);
	CHECK(braid_capture_bytes(w) <= 4 * MIB);
	found = replayed(w, &first, &last);
	CHECK_EQ(last, nr);
	CHECK_EQ(first, nr - found + 1);	/* the newest, without a gap */
	CHECK_EQ(braid_capture_finish(w), 0);
	/* The history does not keep events. */
	w = history_with(BRAID_CHUNK_PAGE, 10);
	CHECK_EQ(braid_capture_bytes(w), 0);
	CHECK_EQ(braid_capture_finish(w), 0);
}

/* What is written once and still holds is kept, however much else comes. */
static void keeps_what_holds(void)
{
	static const u16 types[] = {
		BRAID_CHUNK_CLOCK_OFFSET, BRAID_CHUNK_VCPU_THREADS, BRAID_CHUNK_CGROUPS,
	};
	static const u16 frequent[] = { BRAID_CHUNK_COMMS, BRAID_CHUNK_THROTTLED };
	struct braid_clock_sample one = { .counter = 5 };
	struct braid_capture_writer *w;
	u64 k, first, last;
	size_t t;

	for (t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
		w = history_with(types[t], 1);
		for (k = 0; k < 200000; k++)
			CHECK_EQ(braid_capture_put(w, frequent[k & 1], 7, NULL, 0, &one,
						   sizeof(one)), 0);
		replayed(w, &first, &last);
		CHECK_EQ(first, 1);
		CHECK_EQ(last, 5);
		CHECK_EQ(braid_capture_finish(w), 0);
	}
}

/* Many guests share the memory limit. */
static void keeps_within_bounds_of_many(void)
{
	static const u8 names[16 << 10];
	struct braid_capture_writer *w;
	u32 k, stream;

	NEED(!braid_capture_create_history(&w, false));
	for (k = 0; k < 64; k++)
		for (stream = 1; stream <= 256; stream++)
			CHECK_EQ(braid_capture_put(w, BRAID_CHUNK_COMMS, stream, NULL, 0, names,
						   sizeof(names)), 0);
	CHECK(braid_capture_bytes(w) <= 128 * MIB && braid_capture_bytes(w) > 32 * MIB);
	CHECK_EQ(braid_capture_finish(w), 0);
}

/* A directory that lists one event many times: each record is looked up and noticed once. */
static void notices_each_event_once(void)
{
	struct braid_schema_event again = {
		.id = 3, .system = "irq", .name = "irq_handler_entry", .format = "",
	};
	struct fake_guest *g = fake_guest_new(region_path, &usual);
	struct flight f = { 0 };
	u32 k;

	for (k = 0; k < 200; k++)
		fake_guest_tell(g, &again);
	begin(&f, ON_EVENT);
	turn(&f);
	fake_guest_write(g, 0, 10 * FAKE_NR_EVENTS);
	turn(&f);
	CHECK_EQ(f.status.noticed, 10);
	end(&f);
	fake_guest_free(g);
}

/* A full disk ends only the snapshot: the events not written are in the next one. */
static void continues_after_a_failed_snapshot(void)
{
	struct fake_guest *g = fake_guest_new(region_path, &usual);
	struct braid_chunk_file head = {
		.version_major = BRAID_CAPTURE_MAJOR, .version_minor = BRAID_CAPTURE_MINOR,
		.clock = "mono_raw",
	};
	struct braid_capture_writer *out;
	struct flight f = { 0 };
	struct found found;
	int fd = open("/dev/full", O_WRONLY);

	NEED(fd >= 0);
	begin(&f, NULL);
	fake_guest_write(g, 0, 2000);
	NEED(!braid_capture_create_at(&out, fd, "/dev/full", &head));
	NEED(!braid_capture_tee(f.sink.capture, out));
	CHECK_EQ(braid_region_source_take(f.source), 0);
	CHECK(braid_capture_tee_failed(f.sink.capture));
	turn(&f);
	CHECK_EQ(braid_capture_tee(f.sink.capture, NULL), -ENOSPC);
	braid_capture_abandon(out);
	fake_guest_write(g, 0, 30);
	turn(&f);
	take(&f, capture_paths[0]);
	found = found_in(1);
	CHECK(found.events > 30);
	CHECK_EQ(found.events + found.lost, 2030);
	end(&f);
	fake_guest_free(g);
}

/* What is only read is kept aside until it is proven. */
static void takes_what_is_proven_later(void)
{
	struct flight f = { 0 };
	struct fake_params p = usual;
	struct own_memory memory;
	struct fake_guest *g;

	p.bytes = OWN_CHUNK_ROOM;
	p.poll_ns = 20000000;
	g = begin_own(&f, &memory, &p, NULL);
	braid_store_release(&g->ctl->burst, 300);
	while (braid_load_acquire(&g->ctl->burst_done) != 300)
		turn(&f);
	take(&f, capture_paths[0]);
	CHECK_EQ(found_in(1).events, 600);
	end(&f);
	fake_guest_free(g);
	own_memory_end(&memory);
}

int main(void)
{
	region_path = scratch("region");
	capture_paths[0] = scratch("0.braid");
	capture_paths[1] = scratch("1.braid");
	RUN(takes_repeated_snapshots);
	RUN(takes_from_a_running_guest);
	RUN(releases_a_guest_after_a_snapshot);
	RUN(reports_buffers_that_stop);
	RUN(advises_guests_that_are_only_read);
	RUN(takes_what_is_proven_later);
	RUN(notices_events);
	RUN(names_host_events);
	RUN(notices_each_event_once);
	RUN(keeps_within_bounds);
	RUN(keeps_what_holds);
	RUN(keeps_within_bounds_of_many);
	RUN(continues_after_a_failed_snapshot);
	return VERDICT();
}
