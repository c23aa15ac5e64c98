// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds the limits of epochs, for any model. */
#include <errno.h>

#include "host_agent/clock_model/model.h"
#include "host_agent/util/array.h"

#define UNEVEN_NS	100000	/* a step this small may be a change of rate as well */

/* The counters that an epoch's samples show, and the narrowest of them. */
static void cover(struct braid_clock_epoch *e, const struct braid_stretch *stretch)
{
	size_t k;

	e->first_counter = e->last_counter = stretch->samples[stretch->first].s.counter;
	e->shortest_ns = ~0ULL;
	for (k = stretch->first; k < stretch->end; k++) {
		const struct braid_clock_sample *s = &stretch->samples[k].s;

		if (!braid_sample_sane(s))
			continue;
		if ((s64)(s->counter - e->first_counter) < 0)
			e->first_counter = s->counter;
		if ((s64)(s->counter - e->last_counter) > 0)
			e->last_counter = s->counter;
		if (s->h2_ns - s->h1_ns < e->shortest_ns)
			e->shortest_ns = s->h2_ns - s->h1_ns;
	}
}

bool braid_epoch_explains(const struct braid_clock *clock, const struct braid_clock_epoch *e,
			  const struct braid_clock_sample *s)
{
	struct braid_clock_time t = e->model->to_host(clock, e, s->counter);

	return braid_clock_latest(t.ns, t.bound_ns) >= (s64)s->h1_ns &&
	       braid_clock_earliest(t.ns, t.bound_ns) <= (s64)s->h2_ns;
}

/* Whether a sample fits both the former epoch and the one that begins. */
static bool of_either(const struct braid_clock *clock, const struct braid_stretch *stretch,
		      const struct braid_clock_epoch *before, const struct braid_clock_epoch *e,
		      size_t index)
{
	const struct braid_clock_sample *s = &stretch->samples[index].s;

	if (stretch->parted)
		return false;	/* each sample is known to be before or after */
	if (stretch->mark)	/* the model may well be the same one */
		return index < stretch->first && s->h2_ns > stretch->mark[1].from_ns;
	return braid_epoch_explains(clock, index < stretch->first ? e : before, s);
}

/*
 * Finds the limits between two epochs: only samples that contradict the other model determine them.
 * A wide one may belong to either.
 */
static void part(const struct braid_clock *clock, const struct braid_stretch *stretch,
		 struct braid_clock_epoch *before, struct braid_clock_epoch *e)
{
	u64 last = before->first_counter, first = e->last_counter;
	s64 from_ns = INT64_MIN, begun_ns = INT64_MAX;
	size_t k;

	for (k = stretch->before; k < stretch->end; k++) {
		const struct braid_clock_sample *s = &stretch->samples[k].s;

		if (!braid_sample_sane(s) || of_either(clock, stretch, before, e, k))
			continue;
		if (k < stretch->first) {
			last = (s64)(s->counter - last) > 0 ? s->counter : last;
			from_ns = (s64)s->h1_ns > from_ns ? (s64)s->h1_ns : from_ns;
		} else {
			first = (s64)(s->counter - first) < 0 ? s->counter : first;
			begun_ns = (s64)s->h2_ns < begun_ns ? (s64)s->h2_ns : begun_ns;
		}
	}
	before->last_counter = last;
	e->first_counter = first;
	e->from_ns = from_ns;
	e->begun_ns = begun_ns > from_ns ? begun_ns : from_ns;
}

/* What the step from one epoch to the next was. */
static void name_cause(const struct braid_clock *clock, const struct braid_stretch *stretch,
		       const struct braid_clock_epoch *before, struct braid_clock_epoch *e)
{
	struct braid_clock_time then = before->model->to_host(clock, before, e->first_counter);
	struct braid_clock_time now = e->model->to_host(clock, e, e->first_counter);
	s64 step = (s64)((u64)now.ns - (u64)then.ns);
	bool sure = braid_clock_latest(then.ns, then.bound_ns) < braid_clock_earliest(now.ns, now.bound_ns) ||
		    braid_clock_latest(now.ns, now.bound_ns) < braid_clock_earliest(then.ns, then.bound_ns);

	if (before->model == e->model && e->model->step) {	/* about it both models are wide */
		step = e->model->step(before, e);
		sure = true;
	}
	e->step_ns = step;
	if ((s64)(e->first_counter - before->last_counter) < 0)
		e->cause = BRAID_EPOCH_WENT_BACK;
	else if (step >= UNEVEN_NS)
		e->cause = BRAID_EPOCH_STOOD_STILL;
	else if (step <= -UNEVEN_NS)
		e->cause = BRAID_EPOCH_JUMPED;
	else
		e->cause = BRAID_EPOCH_RATE;
	if (stretch->parted) {
		e->parted = true;
		e->disrupted = stretch->brk.kind == BRAID_MARK_DISRUPTED;
		if (e->cause == BRAID_EPOCH_RATE || (e->cause != BRAID_EPOCH_WENT_BACK && !sure))
			e->cause = braid_break_cause(&stretch->brk);
		if (e->cause == BRAID_EPOCH_UNSEEN)
			e->step_ns = 0;
		e->from_ns = (s64)stretch->brk.from_ns;
		e->begun_ns = (s64)stretch->brk.to_ns;
	} else if (stretch->mark) {
		if (e->cause != BRAID_EPOCH_WENT_BACK)
			e->cause = BRAID_EPOCH_PAUSED;
		e->from_ns = (s64)stretch->mark[0].from_ns;
		e->begun_ns = (s64)stretch->mark[1].to_ns;
	}
}

int braid_epoch_put(struct braid_clock *clock, struct braid_clock_track *track,
		    const struct braid_stretch *stretch, struct braid_clock_epoch *e)
{
	struct braid_clock_epoch *last;

	cover(e, stretch);
	if (braid_array_push(track->epochs, track->nr_epochs, track->capacity, *e))
		return -ENOMEM;
	clock->nr_samples += e->nr_samples;
	last = &track->epochs[track->nr_epochs - 1];
	if (track->nr_epochs > 1) {
		part(clock, stretch, last - 1, last);
		name_cause(clock, stretch, last - 1, last);
	}
	return 0;
}

void braid_stretch_begin(struct braid_stretch *stretch, size_t index,
			 const struct braid_clock_mark *mark,
			 const struct braid_clock_mark *brk)
{
	stretch->before = stretch->first;
	stretch->first = index;
	stretch->end = index + 1;
	stretch->mark = mark;
	stretch->parted = brk;
	if (brk)
		stretch->brk = *brk;
}

/* The pause before a sample that did not begin an epoch yet; or NULL. */
const struct braid_clock_mark *braid_pause_before(const struct braid_clock_inputs *in, size_t *at,
						  const struct braid_clock_sample *s)
{
	const struct braid_clock_mark *found = NULL;

	for (; *at + 1 < in->nr_marks && in->marks[*at].to_ns <= s->h1_ns; ++*at)
		if (in->marks[*at].kind == BRAID_MARK_PAUSED &&
		    in->marks[*at + 1].kind == BRAID_MARK_RESUMED)
			found = found ? found : &in->marks[*at];	/* of several the first */
	return found;
}
