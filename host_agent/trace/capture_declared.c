// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What hosts' daemons and devices declare of the time. Each source gives a clock: of UTC, on its
 * host's clock. Two of them tie hosts that have not exchanged times; and sources that contradict
 * each other, or what is proven, are not used, and named.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/capture_private.h"
#include "host_agent/util/array.h"

static const char *const names[BRAID_DECLARED_KINDS] = {
	[BRAID_DECLARED_CHRONY] = "chrony", [BRAID_DECLARED_PTP] = "PTP",
	[BRAID_DECLARED_VMCLOCK] = "vmclock", [BRAID_DECLARED_NTP] = "NTP",
};

/* A source of a host. */
struct place {
	struct braid_capture_host *host;
	struct braid_capture_declared *source;
	const char *name;
	u32 contradicts;		/* how many others */
	const struct place *against;	/* one of them */
};

int braid_capture_take_declared(struct braid_capture_source *cs, const struct braid_chunk_view *v)
{
	struct braid_capture_declared *source;
	struct braid_declared_time one;
	int err = 0;
	u32 at = 0;

	while (!cs->source.grows && !err && braid_view_take(v, &at, &one, sizeof(one))) {
		if (!one.kind || one.kind >= BRAID_DECLARED_KINDS || one.h1_ns > one.h2_ns ||
		    one.h2_ns >> 62 || one.time_ns >> 62 || one.bound_ns >= one.time_ns)
			continue;
		source = &braid_capture_host_now(cs)->declared[one.kind];
		if (source->nr < BRAID_MAX_TABLE)
			err = braid_array_push(source->items, source->nr, source->capacity, one);
	}
	return err;
}

static void put(struct braid_clock_crossing *to, size_t *nr, u64 value, s64 ns, bool later)
{
	to[(*nr)++] = (struct braid_clock_crossing){ .value = value, .ns = ns, .later = later };
}

static double wander_of(const struct braid_capture_source *cs)
{
	return cs->wander > 0 ? cs->wander : BRAID_WANDER_DEFAULT;
}

/* Return: 0 or -ENOMEM; without a clock nothing is usable. */
static int fit_source(const struct braid_capture_source *cs, struct braid_capture_declared *source)
{
	struct braid_clock_crossing *crossings = calloc(2 * source->nr + 1, sizeof(*crossings));
	size_t nr = 0, k;
	int err;

	if (!crossings)
		return -ENOMEM;
	for (k = 0; k < source->nr; k++) {
		const struct braid_declared_time *t = &source->items[k];

		source->flags |= t->flags;
		if (t->flags)
			continue;
		put(crossings, &nr, t->time_ns + t->bound_ns, (s64)t->h1_ns, true);
		put(crossings, &nr, t->time_ns - t->bound_ns, (s64)t->h2_ns, false);
		source->bound_ns += (double)t->bound_ns;
	}
	source->bound_ns /= nr ? (double)nr / 2 : 1;
	err = nr ? braid_clock_wander(&source->clock, crossings, nr, wander_of(cs)) : 0;
	free(crossings);
	source->contradicts_itself = err == -EBADMSG;
	return err == -ENOMEM ? err : 0;
}

/* The limits of a time on the clock of the host whose tie it is, on the timeline. */
static s64 tied_low(const struct braid_clock *clock, s64 ns)
{
	struct braid_clock_time t;

	if (ns == INT64_MIN)
		return ns;
	t = braid_clock_convert(clock, 0, (u64)ns, BRAID_TAKEN_UNKNOWN, 0);
	return braid_clock_earliest(t.ns, t.bound_ns);
}

static s64 tied_high(const struct braid_clock *clock, s64 ns)
{
	struct braid_clock_time t;

	if (ns == INT64_MAX)
		return ns;
	t = braid_clock_convert(clock, 0, (u64)ns, BRAID_TAKEN_UNKNOWN, 0);
	return braid_clock_latest(t.ns, t.bound_ns);
}

/* Whether what @of declares, of any moment, cannot be true if @by is. */
static bool refutes(const struct place *by, const struct place *of)
{
	bool same = by->host == of->host;
	size_t k;

	for (k = 0; k < of->source->nr; k++) {
		const struct braid_declared_time *t = &of->source->items[k];
		s64 low, high, from = (s64)t->h1_ns, to = (s64)t->h2_ns;

		if (t->flags)
			continue;
		low = tied_low(&by->source->clock, (s64)(t->time_ns - t->bound_ns));
		high = tied_high(&by->source->clock, (s64)(t->time_ns + t->bound_ns));
		if (!same && by->host->host.number) {
			low = tied_low(&by->host->host.tie, low);
			high = tied_high(&by->host->host.tie, high);
		}
		if (!same && of->host->host.number) {
			from = tied_low(&of->host->host.tie, from);
			to = tied_high(&of->host->host.tie, to);
		}
		if (low > to || high < from)
			return true;
	}
	return false;
}

static bool usable(const struct braid_capture_declared *source)
{
	return source->clock.tracks && !source->lies;
}

static bool comparable(const struct place *a, const struct place *b)
{
	return usable(a->source) && usable(b->source) &&
	       (a->host == b->host || (a->host->proven && b->host->proven));
}

/* Counts what each source contradicts. Return: the most. */
static u32 compare(struct place *places, size_t nr)
{
	u32 most = 0;
	size_t a, b;

	for (a = 0; a < nr; a++)
		places[a].contradicts = 0;
	for (a = 0; a < nr; a++)
		for (b = 0; b < a; b++) {
			if (!comparable(&places[a], &places[b]) ||
			    !(refutes(&places[a], &places[b]) || refutes(&places[b], &places[a])))
				continue;
			places[a].contradicts++;
			places[b].contradicts++;
			places[a].against = &places[b];
			places[b].against = &places[a];
		}
	for (a = 0; a < nr; a++)
		most = places[a].contradicts > most ? places[a].contradicts : most;
	return most;
}

static void say(struct braid_host *host, const char *format, const char *name, const char *other,
		const char *of)
{
	size_t used = strlen(host->lies);

	if (used && used + 2 < sizeof(host->lies)) {
		strcat(host->lies, "; ");
		used += 2;
	}
	snprintf(host->lies + used, sizeof(host->lies) - used, format, name, other, of);
}

/* Those that contradict most others are not used any more. */
static void name_liars(struct place *places, size_t nr)
{
	u32 most, liars;
	size_t k;

	while ((most = compare(places, nr))) {
		for (k = liars = 0; k < nr; k++)
			liars += places[k].contradicts == most;
		for (k = 0; k < nr; k++) {
			const struct place *other = places[k].against;
			struct braid_host *host = &places[k].host->host;

			if (places[k].contradicts != most)
				continue;
			places[k].source->lies = true;
			if (other->host == places[k].host)
				say(host, liars == 1 ? "%s lies: it contradicts %s of %s" :
				    "%s or %s of %s lies: they contradict each other",
				    places[k].name, other->name, other->host->host.name);
			else
				say(host, liars == 1 ?
				    "%s lies: by the proven clock it contradicts %s of %s" :
				    "%s or %s of %s lies: they contradict the proven clock",
				    places[k].name, other->name, other->host->host.name);
		}
	}
}

int braid_capture_fit_declared(struct braid_capture_source *cs)
{
	struct place *places = calloc(cs->source.nr_hosts * BRAID_DECLARED_KINDS, sizeof(*places));
	size_t k, nr = 0;
	u32 kind;
	int err = places ? 0 : -ENOMEM;

	for (k = 0; k < cs->source.nr_hosts && !err; k++) {
		struct braid_capture_host *host = braid_capture_host(cs, k);

		for (kind = 1; kind < BRAID_DECLARED_KINDS && !err; kind++) {
			struct braid_capture_declared *source = &host->declared[kind];

			err = source->nr ? fit_source(cs, source) : 0;
			if (source->contradicts_itself)
				say(&host->host, "%s lies: it contradicts itself", names[kind],
				    NULL, NULL);
			if (source->clock.tracks)
				places[nr++] = (struct place){
					.host = host, .source = source, .name = names[kind],
				};
		}
	}
	if (!err)
		name_liars(places, nr);
	free(places);
	return err;
}

/* Ties ---------------------------------------------------------------------------------------- */

/* The one with the least error. 0: none. */
static u32 best_of(const struct braid_capture_host *host)
{
	u32 kind, best = 0;

	for (kind = 1; kind < BRAID_DECLARED_KINDS; kind++)
		if (usable(&host->declared[kind]) &&
		    (!best || host->declared[kind].bound_ns < host->declared[best].bound_ns))
			best = kind;
	return best;
}

static int tie_by(const struct braid_capture_source *cs, struct braid_capture_host *host,
		  const struct braid_clock *utc, const struct braid_capture_declared *its)
{
	struct braid_clock_crossing *crossings = calloc(2 * its->nr + 1, sizeof(*crossings));
	size_t nr = 0, k;
	int err;

	if (!crossings)
		return -ENOMEM;
	for (k = 0; k < its->nr; k++) {
		const struct braid_declared_time *t = &its->items[k];
		s64 low = tied_low(utc, (s64)(t->time_ns - t->bound_ns));
		s64 high = tied_high(utc, (s64)(t->time_ns + t->bound_ns));

		if (t->flags)
			continue;
		if (low != INT64_MIN)
			put(crossings, &nr, t->h2_ns, low, true);
		if (high != INT64_MAX)
			put(crossings, &nr, t->h1_ns, high, false);
	}
	err = braid_clock_wander(&host->host.tie, crossings, nr, wander_of(cs));
	free(crossings);
	return err;
}

int braid_capture_tie_declared(struct braid_capture_source *cs, struct braid_capture_host *host)
{
	struct braid_capture_host *first = braid_capture_host(cs, 0);
	u32 ours = best_of(first), its = best_of(host);
	char *reason = host->host.tie.reason;
	int err;

	if (!ours || !its)
		return -ENODATA;
	braid_clock_free(&host->host.tie);
	err = tie_by(cs, host, &first->declared[ours].clock, &host->declared[its]);
	if (err)
		return err;
	host->host.declared = true;
	if (ours == its)
		snprintf(reason, sizeof(host->host.tie.reason), "declared by %s", names[its]);
	else
		snprintf(reason, sizeof(host->host.tie.reason), "declared by %s of %s and %s of %s",
			 names[its], host->host.name, names[ours], first->host.name);
	return 0;
}

void braid_capture_declared_lack(const struct braid_capture_host *host, char *text, size_t size)
{
	u32 kind;

	if (*host->host.lies) {
		snprintf(text, size, "on %s %s", host->host.name, host->host.lies);
		return;
	}
	for (kind = 1; kind < BRAID_DECLARED_KINDS; kind++) {
		u32 flags = host->declared[kind].flags;

		if (!host->declared[kind].nr || !flags)
			continue;
		snprintf(text, size, "%s of %s %s", names[kind], host->host.name,
			 flags & BRAID_DECLARED_UNCONFIRMED ?
			 "has not measured since the clock was set or disrupted" :
			 flags & BRAID_DECLARED_UNSYNCHRONIZED ? "is not synchronized" :
			 "states no error");
		return;
	}
	snprintf(text, size, "no daemon of %s declares its time", host->host.name);
}

bool braid_capture_declares(const struct braid_capture_host *host)
{
	return best_of(host);
}

void braid_capture_free_declared(struct braid_capture_host *host)
{
	u32 kind;

	for (kind = 1; kind < BRAID_DECLARED_KINDS; kind++) {
		free(host->declared[kind].items);
		braid_clock_free(&host->declared[kind].clock);
	}
}
