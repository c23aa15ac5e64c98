// SPDX-License-Identifier: GPL-2.0-or-later
/* When vCPUs are observed: within recordings, their selected part, and their guest's trace. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

/* Windows ------------------------------------------------------------------------------------ */

/* While the sets of windows are made. */
struct sets {
	struct braid_states *s;
	struct braid_observed *each;	/* of the source's; stop_ns INT64_MIN: not valid */
	struct braid_observed *some;	/* a set */
	u32 nr;				/* of it */
};

static int observe_by_start(const void *a, const void *b)
{
	const struct braid_observed *x = a, *y = b;

	return braid_compare(x->start_ns, y->start_ns);
}

/* Sorts the set, and makes one of those that overlap. */
static void unite(struct sets *sets)
{
	struct braid_observed *all = sets->some;
	u32 k, n = 0;

	qsort(all, sets->nr, sizeof(*all), observe_by_start);
	for (k = 1; k < sets->nr; k++) {
		if (all[k].start_ns > all[n].stop_ns)
			all[++n] = all[k];
		else if (all[k].stop_ns > all[n].stop_ns)
			all[n].stop_ns = all[n].to_ns = all[k].stop_ns;
	}
	sets->nr = sets->nr ? n + 1 : 0;
}

static void add_up(struct braid_observed *w, u32 nr)
{
	u32 k;

	for (k = 1; k < nr; k++)
		w[k].before_ns = w[k - 1].before_ns + (w[k - 1].to_ns > w[k - 1].from_ns ?
				 (u64)w[k - 1].to_ns - (u64)w[k - 1].from_ns : 0);
}

static void observe_add(struct sets *sets, size_t window)
{
	if (sets->each[window].stop_ns != INT64_MIN)
		sets->some[sets->nr++] = sets->each[window];
}

static bool is_valid(const struct braid_window *w)
{
	return braid_states_takes(w->start_ns) && w->stop_ns >= w->start_ns;
}

/* A recording that was killed did not go on until another one started. */
static void take_each(struct sets *sets)
{
	const struct braid_source *source = sets->s->source;
	s64 latest_ns = INT64_MIN, stop_ns;
	size_t k;

	for (k = 0; k < source->nr_windows; k++)
		if (is_valid(&source->windows[k]) && source->windows[k].start_ns > latest_ns)
			latest_ns = source->windows[k].start_ns;
	for (k = 0; k < source->nr_windows; k++) {
		const struct braid_window *w = &source->windows[k];

		stop_ns = braid_states_takes(w->stop_ns) ? w->stop_ns : INT64_MAX;
		if (stop_ns == INT64_MAX && w->start_ns < latest_ns)
			stop_ns = w->last_ns > w->start_ns ? w->last_ns : w->start_ns;
		if (!is_valid(w))
			stop_ns = INT64_MIN;
		sets->each[k] = (struct braid_observed){ w->start_ns, stop_ns, w->start_ns, stop_ns, 0 };
	}
}

/* Edges ------------------------------------------------------------------------------------ */

int braid_observe_edge(struct braid_states *s, struct braid_edge edge)
{
	return braid_array_push(s->edges, s->nr_edges, s->edges_capacity, edge) ?
	       braid_out_of_memory() : 0;
}

/* All stops of the set, but those with which the whole ends. */
static int add_stops(struct sets *sets, int kind, u32 which)
{
	int err = 0;
	u32 k;

	for (k = 0; k < sets->nr && !err; k++)
		if (sets->some[k].stop_ns < sets->s->end_ns)
			err = braid_observe_edge(sets->s, (struct braid_edge){
				.due_ns = sets->some[k].stop_ns + 1, .kind = kind, .which = which,
			});
	return err;
}

/* From the first start to the last stop of the set. */
static struct braid_observed whole_of(const struct sets *sets)
{
	struct braid_observed whole = { INT64_MIN, INT64_MAX, INT64_MIN, INT64_MAX, 0 };

	if (sets->nr) {
		whole.start_ns = whole.from_ns = sets->some[0].start_ns;
		whole.stop_ns = whole.to_ns = sets->some[sets->nr - 1].stop_ns;
	}
	return whole;
}

/* Return: 0 or -ENOMEM with braid_fail(). */
static int take_whole(struct sets *sets)
{
	struct braid_states *s = sets->s;
	struct braid_observed whole;
	size_t k;

	sets->nr = 0;
	for (k = 0; k < s->source->nr_windows; k++)
		observe_add(sets, k);
	unite(sets);
	s->windowed = sets->nr;
	s->recorded = calloc(sets->nr + 1, sizeof(*s->recorded));
	if (!s->recorded)
		return braid_out_of_memory();
	memcpy(s->recorded, sets->some, sets->nr * sizeof(*s->recorded));
	s->nr_recorded = sets->nr;
	add_up(s->recorded, s->nr_recorded);
	whole = whole_of(sets);
	s->begin_ns = s->windowed ? whole.start_ns : INT64_MAX;
	s->end_ns = whole.stop_ns;
	return 0;
}

static int by_stream(const void *a, const void *b)
{
	u32 x = (*(const struct braid_stream *const *)a)->number;
	u32 y = (*(const struct braid_stream *const *)b)->number;

	return braid_compare(x, y);
}

static bool observe_is_of(const struct braid_stream *stream, u32 host)
{
	return stream->kind == BRAID_STREAM_HOST && braid_stream_host_number(stream) == host;
}

/* Whether all events of a host are of recordings whose windows are known. */
static int find_hosts(const struct braid_source *source, u32 host, bool *known)
{
	const struct braid_stream **hosts = calloc(source->nr_windows + 1,
						   sizeof(const struct braid_stream *));
	size_t k, nr = 0;

	if (!hosts)
		return braid_out_of_memory();
	for (k = 0; k < source->nr_windows; k++)
		if (source->windows[k].host)
			hosts[nr++] = source->windows[k].host;
	qsort(hosts, nr, sizeof(*hosts), by_stream);
	for (k = 0; k < source->nr_streams; k++)
		if (observe_is_of(source->streams[k], host) &&
		    !bsearch(&source->streams[k], hosts, nr, sizeof(*hosts), by_stream))
			*known = false;
	free(hosts);
	return 0;
}

/* The starts of the set, if no stream of the host is trace-cmd's, which overwrites pages. */
static void take_starts(const struct sets *sets, u32 host)
{
	struct braid_states *s = sets->s;
	size_t k;
	u32 n;

	for (k = 0; k < s->source->nr_streams; k++)
		if (observe_is_of(s->source->streams[k], host) && s->source->streams[k]->nr_buffers)
			return;
	for (n = 0; n < sets->nr; n++)
		s->starts[s->nr_starts++] = (struct braid_start){
			.host = host, .ns = sets->some[n].start_ns,
			.until_ns = sets->some[n].stop_ns,
		};
}

/* A host's recordings. */
static int observe_take_host(struct sets *sets, u32 host)
{
	struct braid_states *s = sets->s;
	const struct braid_source *source = s->source;
	bool known = true;
	size_t k;
	int err = find_hosts(source, host, &known);

	sets->nr = 0;
	for (k = 0; k < source->nr_windows; k++)
		if (source->windows[k].of == host)
			observe_add(sets, k);
	unite(sets);
	s->windows[s->nr_windows++] = whole_of(sets);
	/* If not, what was known is so until any recording stops. */
	if (!err && !known)
		err = add_stops(sets, BRAID_EDGE_HOST_STOPS, host);
	sets->nr = 0;
	for (k = 0; k < source->nr_windows; k++)
		if (source->windows[k].host && source->windows[k].of == host)
			observe_add(sets, k);
	unite(sets);
	if (err)
		return err;
	take_starts(sets, host);
	return known ? add_stops(sets, BRAID_EDGE_HOST_STOPS, host) : 0;
}

static int take_hosts(struct sets *sets)
{
	struct braid_states *s = sets->s;
	int err = 0;
	u32 k;

	s->starts = calloc(s->source->nr_windows + 1, sizeof(*s->starts));
	if (!s->starts)
		return braid_out_of_memory();
	for (k = 0; k < s->nr_hosts && !err; k++)
		err = observe_take_host(sets, k);
	return err;
}

/* A guest, and a window of a recording that has it. */
struct of_guest {
	u32 stream;
	size_t window;
};

static int observe_by_guest(const void *a, const void *b)
{
	const struct of_guest *x = a, *y = b;

	return braid_compare(x->stream, y->stream) ?: braid_compare(x->window, y->window);
}

/* The recordings of a guest. Return: 0 or -ENOMEM with braid_fail(). */
static int observe_take_guest(struct sets *sets, u32 stream)
{
	struct braid_states *s = sets->s;
	struct braid_guest_state *guest = &s->guests[stream];

	unite(sets);
	if (!sets->nr)
		return 0;
	guest->windows = &s->windows[s->nr_windows];
	guest->nr_windows = sets->nr;
	memcpy(guest->windows, sets->some, sets->nr * sizeof(*guest->windows));
	s->nr_windows += sets->nr;
	return add_stops(sets, BRAID_EDGE_GUEST_STOPS, stream);
}

static int take_guests(struct sets *sets, struct of_guest *all)
{
	struct braid_states *s = sets->s;
	size_t nr = 0, k, n;
	int err = 0;

	for (k = 0; k < s->source->nr_streams; k++) {
		s->guests[k].windows = &s->windows[braid_stream_host_number(s->source->streams[k])];
		s->guests[k].nr_windows = 1;
	}
	for (k = 0; k < s->source->nr_windows; k++)
		for (n = 0; n < s->source->windows[k].nr_guests; n++)
			all[nr++] = (struct of_guest){ s->source->windows[k].guests[n]->number, k };
	qsort(all, nr, sizeof(*all), observe_by_guest);
	for (k = 0; k < nr && !err; k = n) {
		sets->nr = 0;
		for (n = k; n < nr && all[n].stream == all[k].stream; n++)
			observe_add(sets, all[n].window);
		err = observe_take_guest(sets, all[k].stream);
	}
	return err;
}

int braid_observe_begin(struct braid_states *s)
{
	struct sets sets = {
		.s = s,
		.each = calloc(s->source->nr_windows + 1, sizeof(*sets.each)),
		.some = calloc(s->source->nr_windows + 1, sizeof(*sets.some)),
	};
	struct of_guest *all;
	size_t nr = s->nr_hosts, k;
	int err;

	for (k = 0; k < s->source->nr_windows; k++)
		nr += s->source->windows[k].nr_guests;
	all = calloc(nr, sizeof(*all));
	s->windows = calloc(nr, sizeof(*s->windows));
	err = sets.each && sets.some && all && s->windows ? 0 : braid_out_of_memory();
	s->edge_ns = INT64_MAX;
	if (!err) {
		take_each(&sets);
		err = take_whole(&sets);
	}
	if (!err)
		err = take_hosts(&sets);
	if (!err)
		err = take_guests(&sets, all);
	free(sets.each);
	free(sets.some);
	free(all);
	return err;
}

/* vCPUs ------------------------------------------------------------------------------------ */

/* Its observation in its guest's present window. */
static void observe_place(const struct braid_states *s, struct braid_vcpu *v)
{
	const struct braid_guest_state *guest = &s->guests[v->guest->number];
	const struct braid_observed *w = &guest->windows[guest->window];

	v->begin_ns = w->from_ns > v->first_ns ? w->from_ns : v->first_ns;
	v->end_ns = w->to_ns < v->last_ns ? w->to_ns : v->last_ns;
}

/* When a guest ended; INT64_MAX: it did not. */
static s64 end_of(const struct braid_stream *guest)
{
	bool ended = guest->end_reason && guest->end_reason != BRAID_END_STOPPED;

	return ended && braid_states_takes(guest->end_ns) ? (s64)guest->end_ns : INT64_MAX;
}

void braid_observe_vcpu(struct braid_states *s, u32 vcpu, const struct braid_stream *guest,
			u32 number)
{
	struct braid_vcpu *v = &s->vcpus[vcpu];
	const struct braid_stream *part = braid_stream_first_part(guest);

	*v = (struct braid_vcpu){
		.guest = guest, .host = braid_states_host(s, part), .part = part, .number = number,
		.task = BRAID_PID_UNKNOWN, .kvm_id = -1, .ipi = -1,
		.first_ns = INT64_MIN, .last_ns = end_of(guest),
		.now = {
			.vcpu = vcpu, .from_ns = INT64_MIN, .task = BRAID_PID_UNKNOWN,
			.culprit = { .vcpu = BRAID_NO_VCPU, .task = BRAID_PID_UNKNOWN },
		},
	};
	/* A later incarnation: until then the vCPU counts for the one before. */
	if (guest->before && braid_states_takes(guest->found_ns))
		v->first_ns = guest->found_ns;
	observe_place(s, v);
}

void braid_states_limit(struct braid_states *s, s64 from_ns, s64 to_ns)
{
	u32 k;

	if (!braid_states_takes(from_ns))
		from_ns = INT64_MIN;
	if (!braid_states_takes(to_ns))
		to_ns = INT64_MAX;
	if (from_ns != INT64_MIN && (s->begin_ns == INT64_MAX || from_ns > s->begin_ns))
		s->begin_ns = from_ns;
	if (to_ns < s->end_ns)
		s->end_ns = to_ns;
	for (k = 0; k < s->nr_windows; k++) {
		if (from_ns > s->windows[k].from_ns)
			s->windows[k].from_ns = from_ns;
		if (to_ns < s->windows[k].to_ns)
			s->windows[k].to_ns = to_ns;
	}
	for (k = 0; k < s->nr_vcpus; k++)
		observe_place(s, &s->vcpus[k]);
}

void braid_observe_grown(struct braid_states *s)
{
	const struct braid_source *source = s->source;
	s64 stop_ns = source->nr_windows == 1 ? source->windows[0].stop_ns : INT64_MAX, end_ns;
	struct braid_guest_state *guest;
	size_t k;
	u32 n;

	for (k = 0; k < s->nr_streams; k++) {
		guest = &s->guests[k];
		end_ns = end_of(source->streams[k]);
		for (n = 0; n < guest->nr_vcpus && end_ns != INT64_MAX; n++) {
			struct braid_vcpu *v = &s->vcpus[guest->first_vcpu + n];

			if (v->last_ns != INT64_MAX)
				break;
			v->last_ns = end_ns > s->paused_ns ? end_ns : s->paused_ns;
			observe_place(s, v);
		}
	}
	if (s->windowed && s->end_ns == INT64_MAX && braid_states_takes(stop_ns))
		braid_states_limit(s, INT64_MIN, stop_ns > s->paused_ns ? stop_ns : s->paused_ns);
}

void braid_states_cut(struct braid_states *s)
{
	s->windowed = false;
}

/* What is before a time. */
static u64 before(const struct braid_observed *w, u32 nr, s64 ns)
{
	s64 end_ns;
	u32 k;

	braid_array_first(k, nr, w[k].start_ns > ns);
	w += k ? k - 1 : 0;
	end_ns = ns < w->to_ns ? ns : w->to_ns;
	return w->before_ns + (end_ns > w->from_ns ? (u64)end_ns - (u64)w->from_ns : 0);
}

u64 braid_states_within(const struct braid_states *s, u32 stream, s64 from_ns, s64 to_ns)
{
	const struct braid_guest_state *guest = &s->guests[stream];

	return to_ns > from_ns ? before(guest->windows, guest->nr_windows, to_ns) -
				 before(guest->windows, guest->nr_windows, from_ns) : 0;
}

u64 braid_states_recorded(const struct braid_states *s, s64 from_ns, s64 to_ns)
{
	if (to_ns <= from_ns)
		return 0;
	return !s->nr_recorded ? (u64)to_ns - (u64)from_ns :
	       before(s->recorded, s->nr_recorded, to_ns) -
	       before(s->recorded, s->nr_recorded, from_ns);
}

/* The vCPU's observation in the present window is over. Returns 0 or the op's error. */
static int close_window(struct braid_states *s, struct braid_vcpu *v)
{
	if (v->end_ns <= v->begin_ns)
		return 0;
	v->observed_ns += (u64)v->end_ns - (u64)v->begin_ns;
	return braid_vcpu_end(s, v);
}

/* An exit goes on in the next window, with what is in it. */
static int cut_exit(struct braid_states *s, struct braid_vcpu *v)
{
	int err = braid_vcpu_report_exit(s, v, v->end_ns);

	v->out = true;
	memcpy(v->exit.ns, v->ns, sizeof(v->ns));
	return err;
}

int braid_observe_next(struct braid_states *s, u32 stream)
{
	struct braid_guest_state *guest = &s->guests[stream];
	struct braid_vcpu *v = &s->vcpus[guest->first_vcpu], *past = v + guest->nr_vcpus;
	int err = 0;

	if (guest->window + 1 == guest->nr_windows)
		return 0;
	guest->window++;
	for (; v < past && !err; v++) {
		err = close_window(s, v);
		if (!err && v->out)
			err = cut_exit(s, v);
		observe_place(s, v);
		v->now.from_ns = v->since_ns = v->begin_ns;
		v->now.from_bound_ns = v->since_bound_ns = 0;
	}
	return err;
}

static int observe_check(const struct braid_vcpu *v)
{
	u64 sum = braid_states_sum(v->ns);

	if (sum == v->observed_ns)
		return 0;
	return braid_fail(-EINVAL, "%s/vCPU %u: its states add up to %llu ns, but it was observed for %llu ns: a bug in tracebraid",
			  v->guest->name, v->number, (unsigned long long)sum,
			  (unsigned long long)v->observed_ns);
}

void braid_observe_end(struct braid_states *s)
{
	size_t k;

	if (s->end_ns == INT64_MAX || (!s->windowed && s->last_ns < s->end_ns))
		s->end_ns = s->last_ns > s->paused_ns ? s->last_ns : s->paused_ns;
	braid_states_limit(s, INT64_MIN, s->end_ns);
	for (k = 0; k < s->nr_streams; k++)
		add_up(s->guests[k].windows, s->guests[k].nr_windows);
}

/* Its observation is over. */
static int close_all(struct braid_states *s, struct braid_vcpu *v)
{
	int err = s->begin_ns == INT64_MAX ? 0 : close_window(s, v);	/* there is no event */

	if (!err && v->out)	/* no entry follows */
		err = braid_vcpu_report_exit(s, v, v->end_ns);
	return err ? err : observe_check(v);
}

int braid_observe_close(struct braid_states *s)
{
	int err = 0;
	u32 k;

	for (k = 0; k < s->nr_vcpus && !err; k++)
		err = close_all(s, &s->vcpus[k]);
	return err;
}

int braid_observe_leave(struct braid_states *s, u32 vcpu, s64 ns)
{
	struct braid_vcpu *v = &s->vcpus[vcpu];

	v->end_ns = v->end_ns < ns ? v->end_ns : ns;
	return close_all(s, v);
}
