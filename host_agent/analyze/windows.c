// SPDX-License-Identifier: GPL-2.0-or-later
/* Holds guests' events against the times in which their vCPUs executed guest code. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/windows.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define MAX_PENDING	32u		/* events of a vCPU; others are not judged, or give no sample */
#define MAX_SAMPLES	65536u		/* of a guest */
#define SLICE_NS	10000000	/* a vCPU's samples: the two that say most in each of these */

/* An event that waits until its windows are known. */
struct pending {
	s64 ns, lo, hi;		/* its time, and with its bound */
	u64 counter;
	bool placed;		/* one window is known that intersects: it begins ... */
	s64 entry_ns;		/* ... here; the next one is not known yet */
};

/* A sample, and by how much it moves one side of the clock's bound. */
struct candidate {
	struct braid_clock_sample s;
	s64 by_ns;		/* more is better */
	bool found;
};

struct braid_windows_vcpu {
	s64 since_ns;		/* what came before is unknown, or of no use */
	u32 times_unseen;
	bool entered;		/* the last window's entry is known: */
	s64 entry_ns;
	s64 before_ns;		/* in the last window, or in none, after this */
	struct pending pending[MAX_PENDING];
	u32 nr_pending, next;
	s64 slice;
	struct candidate low, high;
};

static void windows_flush(struct braid_windows *x, u32 vcpu)
{
	const struct braid_vcpu *of = &x->s->vcpus[vcpu];
	struct braid_windows_found *f = &x->found[of->guest->number];
	struct braid_windows_vcpu *v = &x->vcpus[vcpu];
	struct candidate *best[] = { &v->low, &v->high };
	u32 k;

	if (v->low.found && v->low.s.counter == v->high.s.counter)
		v->high.found = false;	/* one event says both */
	for (k = 0; k < 2; k++) {
		struct braid_round_trip sample = { .s = best[k]->s, .vcpu = of->number + 1 };

		if (best[k]->found && f->nr_samples < MAX_SAMPLES &&
		    braid_array_push(f->samples, f->nr_samples, f->capacity, sample))
			x->failed = true;
		if (best[k]->found)	/* a vCPU without events costs no memory */
			best[k]->found = false;
	}
}

/* The event was in this window only. */
static void take_sample(struct braid_windows *x, u32 vcpu, const struct pending *p, s64 exit_ns)
{
	struct braid_windows_vcpu *v = &x->vcpus[vcpu];
	s64 from = p->entry_ns > p->lo ? p->entry_ns : p->lo;
	s64 to = exit_ns < p->hi ? exit_ns : p->hi;
	struct braid_clock_sample s = { .h1_ns = from, .counter = p->counter, .h2_ns = to };
	s64 slice = p->ns / SLICE_NS;

	if ((from <= p->lo && to >= p->hi) || from < 0 || to < from)
		return;		/* nothing new; or not possible */
	if (slice != v->slice)
		windows_flush(x, vcpu);
	v->slice = slice;
	if (!v->low.found || from - p->ns > v->low.by_ns)
		v->low = (struct candidate){ .s = s, .by_ns = from - p->ns, .found = true };
	if (!v->high.found || p->ns - to > v->high.by_ns)
		v->high = (struct candidate){ .s = s, .by_ns = p->ns - to, .found = true };
}

/* Neither the window before @exit_ns nor the one from @entry_ns on intersects its interval. */
static void blame(struct braid_windows_found *f, const struct pending *p, s64 exit_ns, s64 entry_ns)
{
	u64 after = p->lo - exit_ns, before = entry_ns - p->hi, by = after < before ? after : before;

	f->outside++;
	if (by < f->worst_ns || (by == f->worst_ns && f->outside > 1 && p->ns >= f->worst_at_ns))
		return;
	f->worst_ns = by;
	f->worst_at_ns = p->ns;
}

/* Whether it left guest code at of->exit.from_ns, and has not been back. */
static bool left(const struct braid_windows *x, u32 vcpu, s64 ns)
{
	const struct braid_vcpu *of = &x->s->vcpus[vcpu];
	struct braid_windows_vcpu *v = &x->vcpus[vcpu];

	if (v->times_unseen != of->times_unseen) {
		v->times_unseen = of->times_unseen;
		v->nr_pending = 0;
		v->entered = false;
		v->since_ns = ns;
	}
	return (of->kvm == BRAID_KVM_HOST || of->kvm == BRAID_KVM_USER) &&
	       of->exit.from_ns > v->since_ns;
}

/* The next window of a vCPU begins: what waits for that is decided, or in this one. */
static void windows_enter(struct braid_windows *x, u32 vcpu, s64 ns)
{
	const struct braid_vcpu *of = &x->s->vcpus[vcpu];
	struct braid_windows_found *f = &x->found[of->guest->number];
	struct braid_windows_vcpu *v = &x->vcpus[vcpu];
	bool known = left(x, vcpu, ns);
	s64 exit_ns = of->exit.from_ns;
	u32 k, left_over = 0;

	for (k = 0; k < v->nr_pending && known; k++) {
		struct pending *p = &v->pending[k];

		if (p->placed && ns > p->hi)
			take_sample(x, vcpu, p, exit_ns);
		if (p->placed)
			continue;
		f->judged++;
		if (ns > p->hi) {
			if (exit_ns < p->lo)
				blame(f, p, exit_ns, ns);
			continue;
		}
		p->placed = true;
		p->entry_ns = ns;
		v->pending[left_over++] = *p;
	}
	v->nr_pending = left_over;
	v->entered = true;
	v->entry_ns = ns;
	v->before_ns = known ? exit_ns : ns;
}

static void take_mark(void *arg, const struct braid_mark *mark)
{
	struct braid_windows *x = arg;

	if (mark->kind == BRAID_MARK_ENTERED)
		windows_enter(x, mark->vcpu, mark->ns);
}

/* The first one of a window says most of its entry, later ones of its exit. */
static void windows_keep(struct braid_windows_vcpu *v, const struct pending *p)
{
	if (v->nr_pending < MAX_PENDING)
		v->pending[v->nr_pending++] = *p;
	else
		v->pending[1 + v->next++ % (MAX_PENDING - 1)] = *p;
}

/* Of another host's guest: the tie stretches times by at most 2 %, and rounds them. */
static u64 bound_on_timeline(const struct braid_item *item)
{
	u64 bound_ns = braid_item_bound_of_host(item);

	return item->ring->tie && bound_ns != BRAID_BOUND_UNKNOWN ? bound_ns + bound_ns / 32 + 2 :
								    bound_ns;
}

static int windows_take_event(void *state, const struct braid_item *item,
			      const struct braid_event_type_info *info)
{
	struct braid_windows *x = state;
	u32 number = braid_states_vcpu_of(x->s, item);
	u64 bound_ns = bound_on_timeline(item);
	struct pending p = {
		.ns = item->host_ns, .counter = item->counter,
		.lo = braid_clock_earliest(item->host_ns, bound_ns),
		.hi = braid_clock_latest(item->host_ns, bound_ns),
	};
	struct braid_windows_vcpu *v;
	bool out;

	(void)info;
	if (number == BRAID_NO_VCPU || !braid_item_is_sure(item) || !braid_states_takes(p.lo) ||
	    !braid_states_takes(p.hi))
		return 0;
	v = &x->vcpus[number];
	out = left(x, number, p.ns);
	if (!out && x->s->vcpus[number].kvm != BRAID_KVM_GUEST)
		return 0;
	/* The vCPU's last window has not ended yet, or ended within the bound. */
	p.placed = !out || x->s->vcpus[number].exit.from_ns >= p.lo;
	p.entry_ns = v->entry_ns;
	x->found[item->stream->number].judged += p.placed;
	if (!p.placed || (v->entered && v->before_ns < p.lo))
		windows_keep(v, &p);
	return x->failed ? braid_out_of_memory() : 0;
}

/* Life --------------------------------------------------------------------------------------- */

static int windows_begin(void *state, struct braid_states *s,
			 const struct braid_analysis_options *options)
{
	struct braid_windows *x = state;

	(void)options;
	x->s = s;
	x->found = calloc(s->source->nr_streams + 1, sizeof(*x->found));
	x->vcpus = calloc((size_t)s->nr_vcpus + 1, sizeof(*x->vcpus));
	if (!x->found || !x->vcpus)
		return braid_out_of_memory();
	return 0;
}

/* Without some of its entries, exits may be missing, too: none of its windows is certain. */
static void windows_drop(struct braid_windows_found *f)
{
	free(f->samples);
	*f = (struct braid_windows_found){ .entries_missing = true };
}

static int windows_end(void *state)
{
	struct braid_windows *x = state;
	u32 k;

	for (k = 0; k < x->s->nr_vcpus; k++)
		windows_flush(x, k);
	for (k = 0; k < x->s->source->nr_streams; k++)
		if (x->s->guests[k].entries_missing)
			windows_drop(&x->found[k]);
	return x->failed ? braid_out_of_memory() : 0;
}

static void windows_free_state(void *state)
{
	struct braid_windows *x = state;
	size_t k;

	for (k = 0; x->found && k < x->s->source->nr_streams; k++)
		free(x->found[k].samples);
	free(x->found);
	free(x->vcpus);
}

const struct braid_analysis braid_analysis_windows = {
	.state_bytes = sizeof(struct braid_windows),
	.begin = windows_begin,
	.states = { .mark = take_mark },
	.event = windows_take_event,
	.end = windows_end,
	.free = windows_free_state,
};
