// SPDX-License-Identifier: GPL-2.0-or-later
/* Puts what trace-cmd recorded on the host on the timeline of captures: by one of their clocks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/trace_dat.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"

#define LONGEST_PAGE_NS	60000000000LL	/* what a calm CPU's last page may span */
#define COUNTER_CLOCK	"x86-tsc"	/* ftrace's name of the counter that a capture has samples of */
#define SCALED_CLOCK	"tsc2nsec"	/* trace-cmd's, of that counter with its rate */
#define ROUNDED_NS	1u		/* a tick has no ns of its own */

/* An address that differs from boot to boot; 0: unknown. */
static u64 text_start(struct braid_stream *stream)
{
	struct braid_capture_stream *s = (struct braid_capture_stream *)stream;
	braid_auto_free char *text = NULL;
	const char *at;

	if (s->text_start_known)
		return s->text_start;
	s->text_start_known = true;
	braid_stream_kallsyms(stream, &text);
	at = text ? strstr(text, " T _stext\n") : NULL;
	while (at && at > text && at[-1] != '\n')
		at--;
	s->text_start = at ? strtoull(at, NULL, 16) : 0;
	return s->text_start;
}

/* ftrace's clocks, and trace-cmd's. */
static enum unit { UNKNOWN_UNIT, NS, TICKS, OTHER_UNIT } unit_of(const char *clock)
{
	static const struct { const char *name; enum unit unit; } clocks[] = {
		{ "local", NS }, { "global", NS }, { "perf", NS }, { "mono", NS },
		{ "mono_raw", NS }, { "boot", NS }, { "tai", NS },
		{ COUNTER_CLOCK, TICKS }, { SCALED_CLOCK, TICKS },
		{ "counter", OTHER_UNIT }, { "uptime", OTHER_UNIT },
	};
	size_t k;

	for (k = 0; k < sizeof(clocks) / sizeof(*clocks); k++)
		if (!strcmp(clock, clocks[k].name))
			return clocks[k].unit;
	return UNKNOWN_UNIT;
}

/* Evidence that a trace.dat is from another host than the captures, or from another boot of it. */
static int check_host(const struct braid_trace_dat *dat)
{
	const struct braid_source *source = &dat->source->source;
	const struct braid_chunk_file *head = &source->head;
	u64 here = text_start(&dat->stream->stream), there;
	const char *what = NULL;
	size_t k;

	if (dat->host)
		return 0;
	if (dat->of_guest && source->nr_streams > 1)
		return braid_fail(-EXDEV, "'%s' is the trace of a guest that trace-cmd recorded: it can be read alone, or with the file of its host, which is not among these",
				  dat->path);
	if (*dat->host_name && strncmp(dat->host_name, head->host_name, sizeof(head->host_name) - 1))
		what = "host";
	else if (*dat->release &&
		 strncmp(dat->release, head->kernel_release, sizeof(head->kernel_release) - 1))
		what = "kernel";
	for (k = 0; k < source->nr_streams && !what && here; k++) {
		if (source->streams[k]->kind != BRAID_STREAM_HOST)
			continue;
		there = text_start(source->streams[k]);
		if (there && there != here)
			what = "boot of the host";
	}
	return what ? braid_fail(-EXDEV, "'%s' and the capture differ in their %s: its times cannot be merged with the others",
				 dat->path, what) : 0;
}

/* The clock that converts a buffer's stamps to host times; NULL: they are host times; or none. */
static const struct braid_clock *clock_of(const struct braid_trace_dat *dat, const char *name,
					  bool *there)
{
	const struct braid_source *source = &dat->source->source;
	const struct braid_host_clocks *clocks = &source->clocks;

	*there = true;
	if (!strncmp(name, source->head.clock, sizeof(source->head.clock)))
		return NULL;
	if (clocks->trace.nr_tracks && !strcmp(name, clocks->trace_name))
		return &clocks->trace;
	if (clocks->counter.nr_tracks && unit_of(name) == TICKS)
		return &clocks->counter;
	*there = false;
	return NULL;
}

/* The clock's name ---------------------------------------------------------------------------- */

static bool has_pages(const struct braid_dat_buffer *b)
{
	u32 k;

	for (k = 0; k < b->nr_cpus; k++)
		if (b->cpus[k].bytes)
			return true;
	return false;
}

/* trace-cmd names this clock in some places by the counter that it scales. */
static void name_scaled(const struct braid_trace_dat *dat, char clock[24])
{
	if (dat->times.multiplier && !strcmp(clock, COUNTER_CLOCK))
		snprintf(clock, 24, "%s", SCALED_CLOCK);
}

/*
 * trace-cmd writes the top buffer's clock for each of its instances, whatever their setting, and
 * also the clock of the first one recorded. If both differ, the clock is known only if a single one
 * was recorded.
 */
void braid_dat_name_clocks(struct braid_trace_dat *dat)
{
	u32 k, nr = 0;

	name_scaled(dat, dat->clock);
	for (k = 0; k < dat->nr_buffers; k++)
		name_scaled(dat, dat->buffers[k].clock);
	for (k = 0; k < dat->nr_buffers; k++)
		nr += has_pages(&dat->buffers[k]);
	for (k = 0; k < dat->nr_buffers; k++) {
		struct braid_dat_buffer *b = &dat->buffers[k];
		bool differ = *b->name && *dat->clock && strcmp(b->clock, dat->clock);

		if (!dat->sections || (differ && nr == 1 && has_pages(b)))
			memcpy(b->clock, dat->clock, sizeof(b->clock));
		else if (differ)
			*b->clock = 0;
		if (!dat->sections && !*b->clock)
			memcpy(b->clock, "local", sizeof("local"));
	}
}

const char *braid_dat_clock(const struct braid_trace_dat *dat)
{
	const struct braid_stream *s = &dat->stream->stream;

	return s->nr_rings ? dat->buffers[s->rings[0]->buffer].clock : dat->clock;
}

/* Its time range ------------------------------------------------------------------------------- */

/* The time that a page begins with. 0 or -errno. */
static int page_time(struct braid_trace_dat *dat, const struct braid_capture_ring *ring,
		     const struct braid_extent *page, s64 *ns)
{
	u64 stamp;
	int err = braid_dat_load(dat, page, &stamp, sizeof(stamp));

	if (!err && ring->times &&
	    !braid_dat_time(ring->times, false, ring->ring.cpu, stamp, &stamp))
		return -EBADMSG;
	if (!err)
		*ns = !ring->clock ? (s64)stamp :
		      braid_clock_convert(ring->clock, 0, stamp, BRAID_TAKEN_UNKNOWN, 0).ns;
	return err;
}

/* The time range of the captures; false: none, or unknown. */
static bool covered(const struct braid_source *source, s64 *from_ns, s64 *to_ns)
{
	size_t k;

	*from_ns = source->head.start_host_ns;
	*to_ns = 0;
	for (k = 0; k < source->nr_streams; k++)
		if ((s64)source->streams[k]->end_ns > *to_ns)
			*to_ns = source->streams[k]->end_ns;
	return *from_ns && *to_ns > *from_ns;
}

/* Times of another boot, or of another clock than stated, are outside. */
static int check_times(struct braid_trace_dat *dat, struct braid_capture_ring *ring)
{
	const struct braid_dat_buffer *b = &dat->buffers[ring->ring.buffer];
	struct braid_extent_cursor first = { 0 };
	s64 from_ns, to_ns, first_ns, last_ns;
	int err;

	if (braid_extents_next(&ring->extents, &first) <= 0 ||
	    !covered(&dat->source->source, &from_ns, &to_ns))
		return 0;
	err = page_time(dat, ring, &first.extent, &first_ns);
	if (!err)
		err = page_time(dat, ring, &ring->extents.latest, &last_ns);
	if (err)
		return err == -EBADMSG ? 0 : err;	/* reported when it is read */
	if ((last_ns >= from_ns || (u64)from_ns - (u64)last_ns <= LONGEST_PAGE_NS) && first_ns <= to_ns)
		return 0;
	return braid_fail(-EXDEV, "'%s' has no time in common with the capture: CPU %u%s%s from %.3f s on by its clock %s, the capture from %.3f to %.3f s; it is from another time, another boot, or another clock (trace-cmd does not save the clock of each instance)",
			  dat->path, ring->ring.cpu, *b->name ? " of instance " : "", b->name,
			  first_ns / 1e9, b->clock, from_ns / 1e9, to_ns / 1e9);
}

/* Without a capture a trace.dat makes the timeline, if it can say what its times are in seconds. */
static int place_alone(const struct braid_trace_dat *dat, struct braid_capture_ring *ring,
		       const char *clock)
{
	enum unit unit = unit_of(clock);

	if (unit == UNKNOWN_UNIT)
		return braid_fail(-EXDEV, "the times in '%s' are of the clock %s, whose unit is not known: record with 'trace-cmd record -C mono_raw'",
				  dat->path, clock);
	if (unit == OTHER_UNIT || (unit == TICKS && !dat->times.multiplier))
		return braid_fail(-EXDEV, "the times in '%s' are of the clock %s, not in seconds; merge it with a capture of the same time",
				  dat->path, clock);
	ring->times = &dat->times;
	ring->ticks = unit == TICKS;
	return 0;
}

/* Guests ------------------------------------------------------------------------------------- */

static bool same_clock(const char *a, const char *b)
{
	return !strcmp(a, b) || (unit_of(a) == TICKS && unit_of(b) == TICKS);
}

/* A guest's stamps, once shifted, are of its host's clock: its name is that one's. */
static int take_hosts_clock(const struct braid_trace_dat *dat, const char **name)
{
	const char *of_host = braid_dat_clock(dat->host);

	if (!dat->of_guest)
		return braid_fail(-EXDEV, "'%s' lacks the shift of the guest's times to the host's (option TIME_SHIFT): trace-cmd did not compare the clocks; record with 'trace-cmd record -C tsc2nsec', without '--tsync-interval=-1'",
				  dat->path);
	if (**name && !same_clock(*name, of_host))
		return braid_fail(-EXDEV, "the times in '%s' are of the clock %s, those of its host's '%s' of the clock %s: they cannot be compared",
				  dat->path, *name, dat->host->path, of_host);
	*name = *of_host ? of_host : *name;
	return 0;
}

/* Its clock, and how far off its times are in that of its host; the same for all of its rings. */
static u64 judge_guest(struct braid_trace_dat *dat)
{
	struct braid_clock *clock = &dat->stream->stream.clock;
	bool exact;

	clock->kind = BRAID_CLOCK_TRACE_CMD;
	snprintf(clock->reason, sizeof(clock->reason), "%s",
		 braid_dat_judge_shifts(dat, unit_of(braid_dat_clock(dat)) == TICKS, &exact));
	return exact ? ROUNDED_NS : BRAID_BOUND_UNKNOWN;
}

/* Rings -------------------------------------------------------------------------------------- */

static int place_ring(struct braid_trace_dat *dat, struct braid_capture_ring *ring)
{
	const char *name = dat->buffers[ring->ring.buffer].clock;
	const char *head = dat->source->source.head.clock;
	const char *file_clock = *head ? head : BRAID_HOST_CLOCK;
	struct braid_stream *s = &dat->stream->stream;
	bool there;
	u64 bound;
	int err;

	if (!*name)
		return braid_fail(-EXDEV, "'%s' lacks the clock of its instance '%s': trace-cmd saves it only for an instance that is recorded alone, with 'trace-cmd record -B %s -C %s'",
				  dat->path, dat->buffers[ring->ring.buffer].name,
				  dat->buffers[ring->ring.buffer].name, file_clock);
	err = dat->host ? take_hosts_clock(dat, &name) : 0;
	if (!err && !dat->source->source.head.start_host_ns)
		err = place_alone(dat, ring, name);
	else if (dat->host)
		ring->times = &dat->times;
	if (err)
		return err;
	ring->own_clock = true;
	ring->clock = clock_of(dat, name, &there);
	if (!there)
		return braid_fail(-EXDEV, "the times in '%s' are of the clock %s, which has no relation to the capture's %s: record with 'trace-cmd record -C %s', or with 'tracebraid record --host-clock %s'",
				  dat->path, name, file_clock, file_clock, name);
	memcpy(s->trace_clock, name, sizeof(s->trace_clock));
	bound = ring->clock ? braid_clock_worst_bound(ring->clock, 0) : 0;
	bound = braid_dat_add_bounds(bound, ring->own_bound_ns);
	s->bound_ns = bound > s->bound_ns ? bound : s->bound_ns;
	return check_times(dat, ring);
}

int braid_dat_place(struct braid_trace_dat *dat)
{
	struct braid_stream *s = &dat->stream->stream;
	u64 own_bound_ns = dat->host ? judge_guest(dat) : 0;
	size_t k;
	int err;

	/* By a capture's clock, its times are placed as they were recorded. */
	if (dat->source->source.head.start_host_ns)
		dat->times.offset_ns = 0;
	memcpy(s->trace_clock, dat->source->source.head.clock, sizeof(s->trace_clock) - 1);
	err = check_host(dat);
	for (k = 0; k < s->nr_rings && !err; k++) {
		struct braid_capture_ring *ring = (struct braid_capture_ring *)s->rings[k];

		ring->own_bound_ns = own_bound_ns;
		err = place_ring(dat, ring);
	}
	return err;
}
