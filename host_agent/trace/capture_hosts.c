// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The hosts of captures, and how their clocks are tied to each other. Each file's times are of its
 * host's clock; those of the first file's host are the timeline.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/capture_private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

#define UNORDERED(what)	"--unordered places " what " by wall time, without a bound"

static const u8 unknown_id[BRAID_HOST_ID_BYTES];

/* Which host a file is of -------------------------------------------------------------------- */

/* From the second chunk; all 0: it has none. */
static void read_id(struct braid_capture_reader *r, u8 id[BRAID_HOST_ID_BYTES])
{
	struct braid_chunk_view view;

	memset(id, 0, BRAID_HOST_ID_BYTES);
	if (braid_capture_at(r, braid_chunk_bytes(sizeof(struct braid_chunk_file)), &view) > 0 &&
	    view.type == BRAID_CHUNK_HOST && view.bytes >= BRAID_HOST_ID_BYTES)
		memcpy(id, view.payload, BRAID_HOST_ID_BYTES);
}

/* Two captures without ids share a timeline only if the host did not boot in between. */
static bool heads_agree(const struct braid_chunk_file *a, const struct braid_chunk_file *b)
{
	u64 age = b->start_host_ns - a->start_host_ns;	/* below 0: @b is the earlier one */
	s64 shift = (s64)(b->start_realtime_ns - a->start_realtime_ns - age);
	s64 limit = 10000000000LL + (s64)(((s64)age < 0 ? -age : age) / 1000);

	if (!a->start_realtime_ns || !b->start_realtime_ns)
		return true;	/* the head was damaged */
	return !strcmp(a->host_name, b->host_name) && !strcmp(a->clock, b->clock) &&
	       shift <= limit && shift >= -limit;
}

static bool is_id(const u8 id[BRAID_HOST_ID_BYTES])
{
	return memcmp(id, unknown_id, sizeof(unknown_id));
}

static bool is_host(const struct braid_capture_host *host, const u8 id[BRAID_HOST_ID_BYTES],
		    const struct braid_chunk_file *head)
{
	return is_id(id) && is_id(host->id) ? !memcmp(host->id, id, sizeof(host->id)) :
					      heads_agree(&host->head, head);
}

static bool has_name(const struct braid_capture_source *cs, const char *name)
{
	size_t k;

	for (k = 0; k < cs->source.nr_hosts; k++)
		if (!strcmp(cs->source.hosts[k]->name, name))
			return true;
	return false;
}

/* Two boots of a host have one name. */
static void set_name(struct braid_capture_source *cs, struct braid_host *host, const char *name)
{
	u32 turn = 1;

	snprintf(host->name, sizeof(host->name), "%.30s", *name ? name : "unnamed");
	braid_text_clean(host->name);
	while (has_name(cs, host->name)) {
		snprintf(host->name, sizeof(host->name), "%.24s", *name ? name : "unnamed");
		braid_text_clean(host->name);
		snprintf(host->name + strlen(host->name), 12, "#%u", ++turn);
	}
}

static int add_host(struct braid_capture_source *cs, const u8 id[BRAID_HOST_ID_BYTES],
		    const struct braid_chunk_file *head)
{
	struct braid_capture_host *made = calloc(1, sizeof(*made));

	if (!made)
		return braid_out_of_memory();
	memcpy(made->id, id, sizeof(made->id));
	made->head = *head;
	made->host.number = cs->source.nr_hosts;
	set_name(cs, &made->host, head->host_name);
	if (!braid_array_push(cs->source.hosts, cs->source.nr_hosts, cs->hosts_capacity,
			      &made->host))
		return 0;
	free(made);
	return braid_out_of_memory();
}

int braid_capture_find_host(struct braid_capture_source *cs, u32 file, const char *path,
			    const struct braid_chunk_file *head)
{
	u8 id[BRAID_HOST_ID_BYTES];
	size_t k;

	read_id(cs->files[file].reader, id);
	for (k = 0; k < cs->source.nr_hosts; k++) {
		if (!is_host(braid_capture_host(cs, k), id, head))
			continue;
		cs->files[file].host = k;
		return 0;
	}
	if (k && !cs->unordered && !(is_id(id) && is_id(braid_capture_host(cs, 0)->id)))
		return braid_fail(-EXDEV,
				  "'%s' was recorded on another host or during another boot: "
				  "its times cannot be merged with the others; "
				  UNORDERED("it"),
				  path);
	cs->files[file].host = k;
	return add_host(cs, id, head);
}

/* Messages between hosts --------------------------------------------------------------------- */

static struct braid_capture_peer *peer_of(struct braid_capture_host *host,
					  const u8 id[BRAID_HOST_ID_BYTES])
{
	struct braid_capture_peer new = { .items = NULL };
	size_t k;

	for (k = 0; k < host->nr_peers; k++)
		if (!memcmp(host->peers[k].id, id, sizeof(new.id)))
			return &host->peers[k];
	if (k == BRAID_MAX_FILES)
		return NULL;
	memcpy(new.id, id, sizeof(new.id));
	return braid_array_push(host->peers, host->nr_peers, host->peers_capacity, new) ? NULL :
	       &host->peers[k];
}

int braid_capture_take_peer(struct braid_capture_source *cs, const struct braid_chunk_view *v)
{
	struct braid_peer_crossing crossing;
	struct braid_capture_peer *peer;
	struct braid_chunk_peer head;
	int err = 0;
	u32 at = 0;

	if (v->type == BRAID_CHUNK_DECLARED)
		return braid_capture_take_declared(cs, v);
	if (cs->source.grows || !braid_view_take(v, &at, &head, sizeof(head)))
		return 0;	/* a capture that is followed is alone */
	peer = peer_of(braid_capture_host_now(cs), head.id);
	while (peer && !err && peer->nr < BRAID_MAX_TABLE &&
	       braid_view_take(v, &at, &crossing, sizeof(crossing)))
		err = braid_array_push(peer->items, peer->nr, peer->capacity, crossing);
	return err;
}

/* What one host says of messages to and from the other one. NULL: nothing. */
static const struct braid_capture_peer *said_of(const struct braid_capture_host *host,
						const struct braid_capture_host *other)
{
	size_t k;

	for (k = 0; k < host->nr_peers && is_id(other->id); k++)
		if (!memcmp(host->peers[k].id, other->id, sizeof(other->id)))
			return &host->peers[k];
	return NULL;
}

/*
 * Adds one between a host and @via, which is on the timeline. A time of @via's is as much earlier
 * or later on the timeline as its own bound permits.
 */
static void add_crossing(struct braid_clock_crossing *to, size_t *nr,
			 struct braid_clock_crossing one, const struct braid_capture_host *via)
{
	struct braid_clock_time t = { .ns = one.ns };

	if (via->host.number)
		t = braid_capture_tied(&via->host.tie, one.ns);
	if (t.bound_ns == BRAID_BOUND_UNKNOWN)
		return;
	one.ns = one.later ? braid_clock_earliest(t.ns, t.bound_ns) :
			     braid_clock_latest(t.ns, t.bound_ns);
	to[(*nr)++] = one;
}

/* Adds what is said of messages; @by: @via says it. */
static void add_crossings(struct braid_clock_crossing *to, size_t *nr,
			  const struct braid_capture_peer *said, bool by,
			  const struct braid_capture_host *via)
{
	size_t k;

	for (k = 0; said && k < said->nr; k++) {
		const struct braid_peer_crossing *c = &said->items[k];
		bool sent = c->flags & BRAID_CROSSING_TO;
		const struct braid_clock_crossing one = {
			.value = by ? c->peer_ns : c->own_ns,
			.ns = (s64)(by ? c->own_ns : c->peer_ns),
			.later = by == sent,	/* @via sent it */
		};

		add_crossing(to, nr, one, via);
	}
}

/* Adds packets between a host and @via. Return: whether there are any. */
static bool add_packets(struct braid_clock_crossing *to, size_t *nr,
			const struct braid_packet_pair *pairs, size_t nr_pairs,
			const struct braid_capture_host *via)
{
	size_t k, before = *nr;

	for (k = 0; k < nr_pairs; k++) {
		const struct braid_packet_pair *p = &pairs[k];
		bool by = p->from == via->host.number;	/* @via sent it */
		const struct braid_clock_crossing one = {
			.value = (u64)(by ? p->received_ns : p->sent_ns),
			.ns = by ? p->sent_ns : p->received_ns,
			.later = by,
		};

		add_crossing(to, nr, one, via);
	}
	return *nr > before;
}

/* By messages and packets between a host and @via. Return: as braid_clock_wander(). */
static int fit_tie(struct braid_capture_source *cs, struct braid_capture_host *host,
		   const struct braid_capture_host *via)
{
	const struct braid_capture_peer *ours = said_of(via, host), *its = said_of(host, via);
	size_t nr_pairs, nr = 0;
	const struct braid_packet_pair *pairs = braid_packet_pairs_of(cs->packets,
								      host->host.number,
								      via->host.number, &nr_pairs);
	size_t all = (ours ? ours->nr : 0) + (its ? its->nr : 0) + nr_pairs;
	struct braid_clock_crossing *crossings = calloc(all + 1, sizeof(*crossings));
	double wander = cs->wander > 0 ? cs->wander : BRAID_WANDER_DEFAULT;
	bool packets;
	int err;

	if (!crossings)
		return -ENOMEM;
	add_crossings(crossings, &nr, ours, true, via);
	add_crossings(crossings, &nr, its, false, via);
	packets = add_packets(crossings, &nr, pairs, nr_pairs, via);
	err = braid_clock_wander(&host->host.tie, crossings, nr, wander);
	free(crossings);
	if (!err)
		snprintf(host->host.tie.reason, sizeof(host->host.tie.reason),
			 "proven given wander %.6g µs/s%s%s%s", wander / 1e3,
			 packets ? ", also by packets" : "",
			 via->host.number ? ", by way of " : "",
			 via->host.number ? via->host.name : "");
	return err;
}

static void note_end(struct braid_capture_source *cs, const struct braid_capture_stream *s)
{
	struct braid_capture_host *host = s->stream.host ?
		braid_capture_host(cs, s->stream.host->number) : NULL;

	if (host && (s64)s->own_end_ns > host->end_ns)
		host->end_ns = (s64)s->own_end_ns;
}

/* When the hosts were recorded, as their captures tell: where no window has ended, by streams. */
static void find_spans(struct braid_capture_source *cs)
{
	struct braid_capture_host *host;
	const struct braid_stream *part;
	size_t k, n;

	for (k = 0; k < cs->source.nr_hosts; k++) {
		host = braid_capture_host(cs, k);
		host->first_ns = INT64_MAX;
		host->last_ns = host->end_ns = 0;
	}
	for (k = 0; k < cs->source.nr_windows; k++) {
		const struct braid_window *w = &cs->source.windows[k];

		host = braid_capture_host(cs, cs->files[cs->edges[k].file].host);
		if (w->start_ns < host->first_ns)
			host->first_ns = w->start_ns;
		if (w->stop_ns != INT64_MAX && w->stop_ns > host->last_ns)
			host->last_ns = w->stop_ns;
	}
	for (k = 0; k < cs->source.nr_streams; k++)
		for (n = 0; (part = braid_stream_part(cs->source.streams[k], n)); n++)
			note_end(cs, (const struct braid_capture_stream *)part);
	for (k = 0; k < cs->source.nr_hosts; k++) {
		host = braid_capture_host(cs, k);
		if (host->first_ns == INT64_MAX)
			host->first_ns = (s64)host->head.start_host_ns;
		if (!host->last_ns)
			host->last_ns = host->end_ns;
		if (host->last_ns < host->first_ns)
			host->last_ns = host->first_ns;
	}
}

static u64 tie_bound(const struct braid_capture_host *host, s64 own_ns)
{
	return braid_clock_convert(&host->host.tie, 0, (u64)own_ns, BRAID_TAKEN_UNKNOWN,
				   0).bound_ns;
}

/*
 * The part of a host's recording in which the first host was recorded, too, by its own clock: there
 * the order matters. All of it, if they were recorded at different times.
 */
static void find_common(const struct braid_capture_host *host,
			const struct braid_capture_host *first, s64 *from, s64 *to)
{
	const struct braid_clock *tie = &host->host.tie;
	s64 begin = (s64)braid_clock_reading_at(tie, first->first_ns).value;
	s64 end = (s64)braid_clock_reading_at(tie, first->last_ns).value;

	*from = begin > host->first_ns ? begin : host->first_ns;
	*to = end < host->last_ns ? end : host->last_ns;
	if (*from <= *to)
		return;
	*from = host->first_ns;
	*to = host->last_ns;
}

/* The largest bound from a time to another; BRAID_BOUND_UNKNOWN: no contact for a part of that. */
static u64 worst_bound(const struct braid_capture_host *host, s64 from, s64 to)
{
	const struct braid_clock_track *track = host->host.tie.tracks;
	u64 worst = tie_bound(host, from), bound = tie_bound(host, to);
	size_t k, n;

	worst = bound > worst ? bound : worst;
	for (k = 0; k < track->nr_epochs; k++) {
		const struct braid_clock_epoch *e = &track->epochs[k];

		for (n = 0; n < e->nr_breakpoints; n++) {
			s64 at = (s64)e->breakpoints[n].value;

			if (at >= from && at <= to && e->breakpoints[n].error_ns > worst)
				worst = e->breakpoints[n].error_ns;
			/* Between two epochs nothing is known. */
			if (k && !n && at > from &&
			    (s64)e[-1].breakpoints[e[-1].nr_breakpoints - 1].value < to)
				return BRAID_BOUND_UNKNOWN;
		}
	}
	return worst;
}

/* Sets the bound of a tie, and what its reason has to say. */
static void judge_tie(struct braid_capture_host *host, const struct braid_capture_host *first)
{
	char *reason = host->host.tie.reason;
	size_t used = strlen(reason), room = sizeof(host->host.tie.reason);
	s64 from, to;

	find_common(host, first, &from, &to);
	host->host.bound_ns = worst_bound(host, from, to);
	if (worst_bound(host, host->first_ns, host->last_ns) == BRAID_BOUND_UNKNOWN)
		snprintf(reason + used, room - used, ", unknown before or after the %s",
			 host->host.declared ? "samples" : "messages");
}

/* By wall time, which can be set to anything. Return: 0 or -ENOMEM. */
static int place_unordered(struct braid_capture_source *cs, struct braid_capture_host *host)
{
	const struct braid_chunk_file *own = &host->head, *first = &cs->source.head;
	s64 ns = (s64)(first->start_host_ns + own->start_realtime_ns - first->start_realtime_ns);
	int err;

	braid_clock_free(&host->host.tie);
	err = braid_clock_nominal(&host->host.tie, 1000000000, own->start_host_ns, ns);
	host->host.unordered = true;
	host->host.bound_ns = BRAID_BOUND_UNKNOWN;
	snprintf(host->host.tie.reason, sizeof(host->host.tie.reason), "unordered: by wall time");
	return err;
}

static int refuse_host(const struct braid_capture_source *cs, const struct braid_capture_host *host,
		       int err)
{
	const struct braid_host *first = cs->source.hosts[0];
	char why[sizeof(host->host.tie.reason)], lack[512];

	snprintf(why, sizeof(why), "%s", host->host.tie.reason);
	braid_capture_declared_lack(braid_capture_declares(host) ? braid_capture_host(cs, 0) : host,
				    lack, sizeof(lack));
	if (err == -EBADMSG)
		return braid_fail(-EXDEV, "%s cannot be merged with %s: %s; " UNORDERED("it"),
				  host->host.name, first->name, why);
	if (err == -ENODATA)
		return braid_fail(-EXDEV, "%s cannot be merged with %s: they exchanged no times, "
				  "and %s; record with --peer; " UNORDERED("it"),
				  host->host.name, first->name, lack);
	return braid_fail(-EXDEV, "%s cannot be merged with %s: they exchanged no times for a part "
			  "of the time in which both were recorded; " UNORDERED("it"),
			  host->host.name, first->name);
}

/*
 * Ties a host by messages to and from the first of those that are @steps from the timeline's: then
 * it is one more. Return: as braid_clock_wander(); 1: for a part of the time that is not possible.
 */
static int tie_host(struct braid_capture_source *cs, struct braid_capture_host *host, u32 steps)
{
	int err = -ENODATA;
	size_t k;

	for (k = 0; k < cs->source.nr_hosts && (err == -ENODATA || err > 0); k++) {
		const struct braid_capture_host *via = braid_capture_host(cs, k);

		if (via->steps != steps)
			continue;
		braid_clock_free(&host->host.tie);
		err = fit_tie(cs, host, via);
		if (!err) {
			judge_tie(host, braid_capture_host(cs, 0));
			err = host->host.bound_ns == BRAID_BOUND_UNKNOWN;
		}
	}
	if (!err)
		host->steps = steps + 1;
	return err;
}

/* All hosts that are one step farther. *any: set if there are some. Return: 0 or -ENOMEM. */
static int tie_step(struct braid_capture_source *cs, u32 steps, bool *any)
{
	size_t k;
	int err;

	for (k = 1; k < cs->source.nr_hosts; k++) {
		struct braid_capture_host *host = braid_capture_host(cs, k);

		if (host->proven || host->tie_err == -EBADMSG)
			continue;
		err = tie_host(cs, host, steps);
		if (err == -ENOMEM)
			return err;
		host->proven = !err;
		if (steps == 1 || err != -ENODATA)
			host->tie_err = err;
		*any |= !err;
	}
	return 0;
}

/* Return: 0 or -ENOMEM. */
static int tie_by_messages(struct braid_capture_source *cs)
{
	bool any = true;
	u32 steps;
	int err = 0;

	braid_capture_host(cs, 0)->proven = true;
	braid_capture_host(cs, 0)->steps = 1;
	for (steps = 1; any && !err; steps++) {
		any = false;
		err = tie_step(cs, steps, &any);
	}
	return err;
}

/* By what it and the first one declare. Return: 0, or -errno with braid_fail(). */
static int tie_otherwise(struct braid_capture_source *cs, struct braid_capture_host *host)
{
	int err = host->tie_err, declared_err;

	if (err != -EBADMSG) {
		declared_err = braid_capture_tie_declared(cs, host);
		if (declared_err == -ENOMEM)
			return braid_out_of_memory();
		if (declared_err == -EBADMSG)
			err = declared_err;
		if (!declared_err) {
			judge_tie(host, braid_capture_host(cs, 0));
			if (host->host.bound_ns != BRAID_BOUND_UNKNOWN)
				return 0;
		}
	}
	if (!cs->unordered)
		return refuse_host(cs, host, err);
	return place_unordered(cs, host) ? braid_out_of_memory() : 0;
}

int braid_capture_tie_hosts(struct braid_capture_source *cs)
{
	size_t k;
	int err = 0;

	if (cs->source.nr_hosts < 2)
		return 0;
	find_spans(cs);
	if (tie_by_messages(cs) || braid_capture_fit_declared(cs))
		return braid_out_of_memory();
	for (k = 1; k < cs->source.nr_hosts && !err; k++)
		if (!braid_capture_host(cs, k)->proven)
			err = tie_otherwise(cs, braid_capture_host(cs, k));
	return err;
}

void braid_capture_free_hosts(struct braid_capture_source *cs)
{
	struct braid_capture_host *host;
	size_t k, n;

	for (k = 0; k < cs->source.nr_hosts; k++) {
		host = braid_capture_host(cs, k);
		braid_clock_free(&host->host.tie);
		braid_clock_free(&host->clocks.counter);
		braid_clock_free(&host->clocks.realtime);
		braid_clock_free(&host->clocks.trace);
		for (n = 0; n < BRAID_HOST_CLOCK_KINDS; n++)
			free(host->round_trips[n].items);
		for (n = 0; n < host->nr_peers; n++)
			free(host->peers[n].items);
		free(host->peers);
		braid_capture_free_declared(host);
		free(host);
	}
	free(cs->source.hosts);
}
