// SPDX-License-Identifier: GPL-2.0-or-later
/* Moments of the timeline: parses them, and finds the times that they mean. */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "host_agent/analyze/states.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"
#include "host_agent/walk/moment.h"

/* Digits, optionally a point and up to nine more. NULL: invalid. */
static const char *parse_seconds(const char *s, s64 *ns)
{
	u64 seconds = 0, fraction = 0, unit = BRAID_SECOND_NS;

	if (!isdigit((unsigned char)*s))
		return NULL;
	for (; isdigit((unsigned char)*s); s++)
		if ((seconds = 10 * seconds + (*s - '0')) >= INT64_MAX / BRAID_SECOND_NS)
			return NULL;
	if (*s == '.')
		for (s++; isdigit((unsigned char)*s); s++)
			if (unit > 1)
				fraction += (*s - '0') * (unit /= 10);
	*ns = seconds * BRAID_SECOND_NS + fraction;
	return s;
}

static bool count_ns(struct tm *tm, bool utc, s64 seconds_ns, s64 *ns)
{
	time_t t = utc ? timegm(tm) : mktime(tm);

	return t > 0 && !__builtin_mul_overflow(t, (s64)BRAID_SECOND_NS, ns) &&
	       !__builtin_add_overflow(*ns, seconds_ns, ns);
}

/* [2026-01-31T]12:00[:00.5][Z] */
static bool parse_wall(struct braid_walk_moment *m, const char *text)
{
	struct tm tm = { .tm_isdst = -1 };
	const char *date = strptime(text, "%Y-%m-%d", &tm), *rest;
	s64 second_ns = 0;

	if (date && *date != 'T' && *date != ' ')
		return false;
	rest = strptime(date ? date + 1 : text, "%H:%M", &tm);
	if (rest && *rest == ':')
		rest = parse_seconds(rest + 1, &second_ns);
	if (!rest || (*rest && strcmp(rest, "Z")) || second_ns > 60 * (s64)BRAID_SECOND_NS)
		return false;
	m->kind = date ? BRAID_MOMENT_DATE : *rest ? BRAID_MOMENT_CLOCK_UTC : BRAID_MOMENT_CLOCK;
	m->ns = (tm.tm_hour * 60 + tm.tm_min) * 60 * (s64)BRAID_SECOND_NS + second_ns;
	return !date || count_ns(&tm, *rest, second_ns, &m->ns);
}

int braid_moment_parse(struct braid_walk_moment *m, const char *text)
{
	const char *rest;

	*m = (struct braid_walk_moment){
		.kind = *text == '+' ? BRAID_MOMENT_SINCE : *text == '-' ? BRAID_MOMENT_BEFORE :
			BRAID_MOMENT_AT,
	};
	rest = parse_seconds(text + (m->kind != BRAID_MOMENT_AT), &m->ns);
	if ((rest && !*rest) || parse_wall(m, text))
		return 0;
	return braid_fail(-EINVAL, "'%s' is not a time: SECONDS, +SECONDS, -SECONDS, or wall time as 2026-01-31T12:00:00 or 12:00:00",
			  text);
}

/* Wall time ----------------------------------------------------------------------------------- */

static s64 wall_of(const struct braid_source *source, s64 host_ns)
{
	return (s64)braid_clock_reading_at(&source->clocks.realtime, host_ns).value;
}

s64 braid_moment_reached(const struct braid_source *source, s64 ns, s64 low, s64 high)
{
	while (low < high) {
		s64 middle = low + (high - low) / 2;

		if (wall_of(source, middle) < ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void braid_moment_cover(const struct braid_source *source, s64 *from_ns, s64 *to_ns)
{
	const struct braid_clock_track *track = source->clocks.realtime.tracks;
	s64 first = BRAID_STATES_MAX_NS - 1, last = -first, low = -BRAID_STATES_MAX_NS, high, ns;
	size_t k;

	for (k = 0; k < track->nr_epochs; k++, low = high) {
		high = BRAID_STATES_MAX_NS;
		if (k + 1 < track->nr_epochs && track->epochs[k + 1].begun_ns < high)
			high = track->epochs[k + 1].begun_ns + 1;
		high = high > low ? high : low;
		ns = braid_moment_reached(source, *from_ns, low, high);
		if (ns < high && ns < first)
			first = ns;
		ns = braid_moment_reached(source, *to_ns, low, high);
		if (ns > low)
			last = ns;
	}
	if (*from_ns != INT64_MIN)
		*from_ns = first;
	if (*to_ns != INT64_MAX)
		*to_ns = last;
}

/* Placing ------------------------------------------------------------------------------------- */

/* The end of the recording, by the host's clock. Return: whether it is known. */
static bool find_end(const struct braid_source *source, s64 *end_ns)
{
	size_t k;

	*end_ns = 0;
	for (k = 0; k < source->nr_streams; k++)
		if ((s64)source->streams[k]->end_ns > *end_ns)
			*end_ns = source->streams[k]->end_ns;
	for (k = 0; k < source->nr_windows; k++)
		if (source->windows[k].stop_ns != INT64_MAX && source->windows[k].stop_ns > *end_ns)
			*end_ns = source->windows[k].stop_ns;
	return *end_ns;
}

/* Likewise its start. */
static bool find_start(const struct braid_source *source, s64 *start_ns)
{
	size_t k;

	*start_ns = source->head.start_host_ns ? (s64)source->head.start_host_ns : INT64_MAX;
	for (k = 0; k < source->nr_windows; k++)
		if (source->windows[k].start_ns < *start_ns)
			*start_ns = source->windows[k].start_ns;
	return *start_ns != INT64_MAX;
}

/* A time of day: of the day with which it is in the recording, or nearest to it. */
static int date_of(const struct braid_walk_moment *m, const struct braid_source *source, s64 *ns)
{
	const bool utc = m->kind == BRAID_MOMENT_CLOCK_UTC;
	const s64 minute_ns = 60 * (s64)BRAID_SECOND_NS;
	s64 start_ns, end_ns, at_ns, off_ns, best_ns = INT64_MAX;
	bool started = find_start(source, &start_ns), ended = find_end(source, &end_ns);
	struct tm day = { 0 };
	time_t t;
	int k;

	start_ns = started || ended ? wall_of(source, started ? start_ns : end_ns) : 0;
	end_ns = ended ? wall_of(source, end_ns) : start_ns;
	t = start_ns / (s64)BRAID_SECOND_NS;
	for (k = -1; t > 0 && (utc ? gmtime_r(&t, &day) : localtime_r(&t, &day)) && k <= 1; k++) {
		struct tm tm = {
			.tm_year = day.tm_year, .tm_mon = day.tm_mon, .tm_mday = day.tm_mday + k,
			.tm_min = m->ns / minute_ns, .tm_isdst = -1,
		};

		if (!count_ns(&tm, utc, m->ns % minute_ns, &at_ns))
			continue;
		off_ns = at_ns < start_ns ? start_ns - at_ns : at_ns > end_ns ? at_ns - end_ns : 0;
		if (off_ns < best_ns)
			*ns = at_ns;
		best_ns = off_ns < best_ns ? off_ns : best_ns;
	}
	return best_ns != INT64_MAX ? 0 :
	       braid_fail(-ENODATA, "the day of the recording is unknown: give the date, too");
}

static int place_wall(const struct braid_walk_moment *m, const struct braid_source *source,
		      bool realtime, bool last, s64 *ns)
{
	s64 wall_ns = m->ns, from_ns, to_ns;
	int err;

	if (!source->clocks.realtime.nr_tracks)
		return braid_fail(-ENODATA, "the capture has no wall time: use SECONDS, +SECONDS or -SECONDS");
	err = m->kind != BRAID_MOMENT_DATE ? date_of(m, source, &wall_ns) : 0;
	if (err)
		return err;
	from_ns = to_ns = wall_ns;
	if (!realtime)
		braid_moment_cover(source, &from_ns, &to_ns);
	*ns = last ? to_ns : from_ns;
	return 0;
}

int braid_moment_place(const struct braid_walk_moment *m, const struct braid_source *source,
		       bool realtime, bool last, s64 *ns)
{
	s64 end_ns;

	switch (m->kind) {
	case BRAID_MOMENT_BEFORE:
		if (!find_end(source, &end_ns))
			return braid_fail(-ENODATA, "end time unknown; '-SECONDS' needs it; '+SECONDS' counts from the first event");
		if (__builtin_sub_overflow(realtime ? wall_of(source, end_ns) : end_ns, m->ns, ns))
			*ns = INT64_MIN;
		return 0;
	case BRAID_MOMENT_DATE:
	case BRAID_MOMENT_CLOCK:
	case BRAID_MOMENT_CLOCK_UTC:
		return place_wall(m, source, realtime, last, ns);
	default:
		*ns = m->ns;
		return 0;
	}
}
