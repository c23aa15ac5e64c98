// SPDX-License-Identifier: GPL-2.0-or-later
/* Joins the spans of vCPUs' states to slices, and finds out which slices depend on each other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/util/error.h"
#include "host_agent/walk/slices.h"

/* A vCPU. */
struct braid_slice_lane {
	bool wanted;
	bool any;			/* this slice is one, and may go on: */
	struct braid_slice slice;
	struct braid_flows next;	/* for the slice of the span that comes next */
	bool woken;			/* likewise: its task was, which is not handed on yet: */
	struct braid_slice_wake wake;
};

struct braid_slices {
	bool active;
	struct braid_states states;
	const struct braid_slices_ops *ops;
	void *arg;
	struct braid_slice_lane *lanes;	/* by vCPU */
	struct braid_tally culprits;	/* of these lanes' slices */
	u64 last_flow;
};

static int slices_hand_on(struct braid_slices *x, struct braid_slice_lane *lane)
{
	if (lane->any)
		braid_tally_shares(&x->culprits, lane->slice.vcpu, &lane->slice.culprits);
	return lane->any && x->ops->slice ? x->ops->slice(x->arg, &lane->slice) : 0;
}

/* Flows -------------------------------------------------------------------------------------- */

static bool add_flow(struct braid_flows *flows, u64 id, u32 stolen)
{
	if (flows->nr == BRAID_SLICE_FLOWS)
		return false;
	flows->of[flows->nr++] = (struct braid_flow){ .id = id, .stolen = stolen };
	return true;
}

static bool leads_to(const struct braid_slice *slice, u32 culprit)
{
	u32 k;

	for (k = 0; k < slice->flows.nr; k++)
		if (slice->flows.of[k].stolen == culprit)
			return true;
	return false;
}

/*
 * From a stolen slice to the one in which the culprit was until now. That is either its last slice,
 * or the one of the span that is still open in the state machine.
 */
static void link_culprit(struct braid_slices *x, struct braid_slice *slice, u32 culprit)
{
	struct braid_slice_lane *lane = &x->lanes[culprit];
	const struct braid_vcpu *v = &x->states.vcpus[culprit];
	struct braid_flows *flows = &lane->next;
	s64 ns = slice->to_ns;

	/* A trace may claim that a thread runs on one CPU, and waits on another. */
	if (!lane->wanted || culprit == slice->vcpu || leads_to(slice, culprit) ||
	    v->begin_ns >= ns || v->end_ns < ns)
		return;
	if (lane->any && lane->slice.to_ns >= ns) {
		if (lane->slice.from_ns >= ns)
			return;
		flows = &lane->slice.flows;
	}
	if (slice->flows.nr == BRAID_SLICE_FLOWS ||
	    lane->slice.flows.nr + lane->next.nr >= BRAID_SLICE_FLOWS)
		return;
	add_flow(&slice->flows, ++x->last_flow, culprit);
	add_flow(flows, x->last_flow, BRAID_NO_VCPU);
}

/*
 * The slice begins or goes on with a span: what waited for that is its own. If events are missing
 * after the switch to the woken task, the span's task is unknown, and no arrow leads to it.
 */
static int take_next(struct braid_slices *x, struct braid_slice_lane *lane)
{
	u32 k;

	for (k = 0; k < lane->next.nr; k++)
		add_flow(&lane->slice.flows, lane->next.of[k].id, BRAID_NO_VCPU);
	lane->next.nr = 0;
	if (!lane->woken)
		return 0;
	lane->woken = false;
	if (lane->slice.task != lane->wake.pid ||
	    !add_flow(&lane->slice.flows, x->last_flow + 1, BRAID_NO_VCPU))
		return 0;
	lane->wake.flow = ++x->last_flow;
	return x->ops->wake ? x->ops->wake(x->arg, &lane->wake) : 0;
}

/* States ------------------------------------------------------------------------------------- */

static bool goes_on(const struct braid_slice *slice, const struct braid_state_span *span)
{
	return slice->state == span->state && slice->task == span->task &&
	       slice->reason == span->reason && slice->to_ns == span->from_ns;
}

static int slices_take_span(void *arg, const struct braid_state_span *span)
{
	struct braid_slices *x = arg;
	struct braid_slice_lane *lane = &x->lanes[span->vcpu];
	struct braid_slice *slice = &lane->slice;
	int err = 0;

	if (!lane->wanted)
		return 0;
	if (!lane->any || !goes_on(slice, span)) {
		err = slices_hand_on(x, lane);
		lane->any = true;
		slice->vcpu = span->vcpu;
		slice->state = span->state;
		slice->from_ns = span->from_ns;
		slice->task = span->task;
		slice->reason = span->reason;
		slice->flows.nr = 0;
		braid_tally_clear(&x->culprits, span->vcpu);
	}
	slice->to_ns = span->to_ns;
	if (!err)
		err = take_next(x, lane);
	if (!err && span->culprit.kind != BRAID_CULPRIT_NONE)
		err = braid_tally_add(&x->culprits, span->vcpu, &span->culprit,
				      span->to_ns - span->from_ns);
	if (span->culprit.kind == BRAID_CULPRIT_VCPU)
		link_culprit(x, slice, span->culprit.vcpu);
	return err;
}

static int slices_take_queued(void *arg, const struct braid_queue_wait *wait)
{
	struct braid_slices *x = arg;
	struct braid_slice_lane *lane = &x->lanes[wait->vcpu];
	const struct braid_vcpu *waker = &x->states.vcpus[wait->waker];
	int err;

	if (!x->ops->wake || !wait->woken || !lane->wanted || !x->lanes[wait->waker].wanted ||
	    wait->from_ns < waker->begin_ns || wait->from_ns > waker->end_ns)
		return 0;
	/* So the span that comes next is the woken task's. */
	err = braid_states_settle(&x->states, wait->vcpu, wait->to_ns);
	lane->woken = true;
	lane->wake = (struct braid_slice_wake){
		.vcpu = wait->waker, .ns = wait->from_ns, .pid = wait->pid,
	};
	return err;
}

/* Life --------------------------------------------------------------------------------------- */

static bool slices_wanted(const struct braid_walk_options *o, const struct braid_vcpu *v)
{
	return (!o->stream || braid_stream_is(v->guest, o->stream)) &&
	       (!o->one_cpu || o->cpu == v->number);
}

/* A host's name selects all that its events show. */
static bool names_guest(const struct braid_source *source, const char *name)
{
	size_t k;

	for (k = 0; name && k < source->nr_streams; k++)
		if (braid_stream_is_guest(source->streams[k]) &&
		    braid_stream_is(source->streams[k], name))
			return true;
	return false;
}

const char *braid_slices_missing(const struct braid_source *source)
{
	bool any_host = false, any_thread = false;
	size_t k, n;

	for (k = 0; k < source->nr_streams; k++) {
		const struct braid_stream *s = source->streams[k], *part;

		for (n = 0; (part = braid_stream_part(s, n)); n++)
			any_thread |= part->nr_threads;
		for (n = 0; n < s->nr_rings && s->kind == BRAID_STREAM_HOST; n++)
			any_host |= s->rings[n]->cpu != BRAID_RING_NOTES;
	}
	return !any_host ? "the capture has no events of the host; record them with --host" :
	       any_thread ? NULL : BRAID_VCPUS_UNKNOWN;
}

int braid_slices_begin(struct braid_slices **out, struct braid_walk *walk,
		       const struct braid_slices_ops *ops, void *arg)
{
	static const struct braid_states_ops states_ops = {
		.span = slices_take_span, .queued = slices_take_queued,
	};
	struct braid_walk_options select = *walk->options;
	struct braid_slices *x = calloc(1, sizeof(*x));
	int err;
	u32 k;

	*out = x;
	if (!x)
		return braid_out_of_memory();
	x->ops = ops;
	x->arg = arg;
	err = braid_states_begin(&x->states, walk->source, &states_ops, x);
	if (err)
		return err;
	x->lanes = calloc((size_t)x->states.nr_vcpus + 1, sizeof(*x->lanes));
	if (!x->lanes)
		return braid_out_of_memory();
	err = braid_tally_begin(&x->culprits, x->states.nr_vcpus);
	if (err)
		return err;
	if (!names_guest(walk->source, select.stream))
		select.stream = NULL;
	x->active = !braid_slices_missing(walk->source);
	for (k = 0; k < x->states.nr_vcpus; k++) {
		x->lanes[k].wanted = x->active && slices_wanted(&select, &x->states.vcpus[k]);
		x->lanes[k].slice.vcpu = k;
	}
	if (x->active)
		walk->states = &x->states;
	return 0;
}

int braid_slices_end(struct braid_slices *x)
{
	int err = x->active ? braid_states_end(&x->states) : 0;
	u32 k;

	for (k = 0; k < x->states.nr_vcpus && !err; k++)
		err = slices_hand_on(x, &x->lanes[k]);
	return err;
}

bool braid_slices_any(const struct braid_slices *x)
{
	return x->active;
}

const struct braid_states *braid_slices_states(const struct braid_slices *x)
{
	return &x->states;
}

void braid_slices_culprits(const struct braid_slices *x, const struct braid_slice *slice,
			   struct braid_text *out)
{
	if (slice->culprits.nr)
		braid_shares_write(&x->states, &slice->culprits, BRAID_TABLE_TEXT, out);
	else
		braid_text_putc(out, '-');
	braid_text_putc(out, '\0');
}

void braid_slices_task(const struct braid_slices *x, u32 vcpu, s32 pid, char name[BRAID_NAME_TEXT])
{
	braid_task_name(&x->states, x->states.vcpus[vcpu].guest->number, pid, name);
}

bool braid_slices_has(const struct braid_slices *x, u32 vcpu)
{
	return x->lanes[vcpu].wanted;
}

void braid_slice_name(const struct braid_slice *slice, char name[BRAID_NAME_TEXT])
{
	const char *state = braid_vcpu_state_name(slice->state);
	char exit[BRAID_NAME_TEXT];

	if (slice->state != BRAID_VCPU_KVM || !slice->reason) {
		strcpy(name, state);
		return;
	}
	braid_exit_name(slice->reason, exit);
	snprintf(name, BRAID_NAME_TEXT, "%s: %.80s", state, exit);
}

void braid_slices_free(struct braid_slices *x)
{
	if (!x)
		return;
	braid_states_free(&x->states);
	braid_tally_free(&x->culprits);
	free(x->lanes);
	free(x);
}
