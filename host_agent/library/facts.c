// SPDX-License-Identifier: GPL-2.0-or-later
/* Facts about vCPUs and tasks: what the states find out, one at a time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/analysis.h"
#include "host_agent/library/private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

/* A fact with what its texts point to. */
struct entry {
	struct tracebraid_fact fact;
	char comm[BRAID_NAME_TEXT], culprit[BRAID_NAME_TEXT], reason[BRAID_NAME_TEXT];
	char call[BRAID_CALL_BYTES];
	uint64_t ns[BRAID_NR_VCPU_STATES];
};

struct tracebraid_facts {
	struct tracebraid_trace *trace;
	struct braid_walk_options options;
	struct braid_walk_totals totals;
	struct braid_walk walk;
	struct braid_states states;
	struct braid_states_ops ops;
	struct entry *entries;		/* found by the last event */
	size_t nr, capacity, next;
	bool ended;
};

const char *tracebraid_state_name(unsigned int number)
{
	return number < BRAID_NR_VCPU_STATES ? braid_vcpu_state_name(number) : NULL;
}

/* Texts are pointed to when the fact is handed on: until then entries move. Return: NULL: no memory. */
static struct entry *facts_add(struct tracebraid_facts *f, enum tracebraid_fact_kind kind,
			       u32 number,
			       s32 pid)
{
	const struct braid_vcpu *vcpu = &f->states.vcpus[number];
	const struct braid_guest_task *task = pid > 0 ?
		braid_states_task(&f->states, vcpu->guest->number, pid) : NULL;
	struct entry *e = braid_array_reserve(f->entries, f->nr, &f->capacity, sizeof(*e));

	if (!e) {
		braid_out_of_memory();
		return NULL;
	}
	f->entries = e;
	e += f->nr++;
	memset(e, 0, sizeof(*e));
	e->fact.kind = kind;
	e->fact.guest = (const void *)vcpu->guest;
	e->fact.vcpu = vcpu->number;
	e->fact.pid = pid < 0 ? BRAID_PID_UNKNOWN : pid;
	if (pid == BRAID_PID_NOT_TRACED)
		braid_task_name(&f->states, vcpu->guest->number, pid, e->comm);
	else
		snprintf(e->comm, sizeof(e->comm), "%s", !pid ? "<idle>" : task ? task->comm : "");
	return e;
}

static int facts_take_span(void *arg, const struct braid_state_span *span)
{
	struct tracebraid_facts *f = arg;
	struct entry *e = facts_add(f, TRACEBRAID_FACT_STATE, span->vcpu, span->task);

	if (!e)
		return -ENOMEM;
	e->fact.state = braid_vcpu_state_name(span->state);
	e->fact.from_ns = span->from_ns;
	e->fact.to_ns = span->to_ns;
	e->fact.bound_ns = span->from_bound_ns > span->to_bound_ns ? span->from_bound_ns :
								     span->to_bound_ns;
	if (span->state == BRAID_VCPU_STOLEN || span->state == BRAID_VCPU_THROTTLED)
		braid_culprit_name(&f->states, &span->culprit, e->culprit);
	if (span->state == BRAID_VCPU_KVM && span->reason)
		braid_exit_name(span->reason, e->reason);
	return 0;
}

static int take_wait(void *arg, const struct braid_queue_wait *wait)
{
	struct tracebraid_facts *f = arg;
	struct entry *e = facts_add(f, TRACEBRAID_FACT_WAIT, wait->vcpu, wait->pid);

	if (!e)
		return -ENOMEM;
	e->fact.from_ns = wait->from_ns;
	e->fact.to_ns = wait->to_ns;
	e->fact.bound_ns = wait->bound_ns;
	e->fact.woken = wait->woken;
	e->fact.waker = wait->woken && wait->waker < f->states.nr_vcpus ?
			f->states.vcpus[wait->waker].number : UINT32_MAX;
	e->fact.known = wait->known;
	memcpy(e->ns, wait->ns, sizeof(e->ns));
	return 0;
}

static int facts_take_exit(void *arg, const struct braid_exit *exit)
{
	struct tracebraid_facts *f = arg;
	struct entry *e = facts_add(f, TRACEBRAID_FACT_EXIT, exit->vcpu, exit->task);

	if (!e)
		return -ENOMEM;
	e->fact.from_ns = exit->from_ns;
	e->fact.to_ns = exit->to_ns;
	e->fact.level = exit->level;
	e->fact.ip = exit->ip;
	e->fact.known = 1;
	memcpy(e->ns, exit->ns, sizeof(e->ns));
	if (exit->reason)
		braid_exit_name(exit->reason, e->reason);
	braid_call_name(&f->states.roles, exit->call, e->call);
	return 0;
}

static int facts_begin(struct tracebraid_facts *f, unsigned int kinds)
{
	int err;

	f->ops = (struct braid_states_ops){
		.span = kinds & TRACEBRAID_FACT_STATE ? facts_take_span : NULL,
		.queued = kinds & TRACEBRAID_FACT_WAIT ? take_wait : NULL,
		.exit = kinds & TRACEBRAID_FACT_EXIT ? facts_take_exit : NULL,
	};
	f->options.stop = f->trace->stop;
	err = braid_walk_begin(&f->walk, f->trace->source, &f->options, &f->totals);
	if (err)
		return err;
	f->walk.states = &f->states;
	f->walk.no_order = true;
	err = braid_states_begin(&f->states, f->trace->source, &f->ops, f);
	return err ? err : braid_walk_start(&f->walk);
}

int tracebraid_facts_new(struct tracebraid_facts **facts, struct tracebraid_trace *trace,
			 unsigned int kinds)
{
	struct tracebraid_facts *f;
	int err = braid_library_claim(trace);

	if (err)
		return err;
	f = calloc(1, sizeof(*f));
	if (!f) {
		braid_library_release(trace);
		return braid_out_of_memory();
	}
	f->trace = trace;
	err = facts_begin(f, kinds);
	if (err)
		tracebraid_facts_free(f);
	else
		*facts = f;
	return err;
}

void tracebraid_facts_free(struct tracebraid_facts *f)
{
	if (!f)
		return;
	braid_walk_end(&f->walk);
	braid_states_free(&f->states);
	braid_library_release(f->trace);
	free(f->entries);
	free(f);
}

/* What the next item brings. Return: 0, or -errno. */
static int step(struct tracebraid_facts *f)
{
	int got = braid_walk_next(&f->walk);

	f->ended = got == BRAID_WALK_END;
	return f->ended ? braid_states_end(&f->states) : got < 0 ? got : 0;
}

int tracebraid_facts_next(struct tracebraid_facts *f, struct tracebraid_fact *fact)
{
	struct entry *e;
	int err;

	while (f->next == f->nr) {
		if (f->ended)
			return 0;
		f->next = f->nr = 0;
		err = step(f);
		if (err)
			return err;
	}
	e = &f->entries[f->next++];
	e->fact.state = e->fact.state ?: "";
	e->fact.comm = e->comm;
	e->fact.culprit = e->culprit;
	e->fact.reason = e->reason;
	e->fact.call = e->call;
	e->fact.ns = e->ns;
	*fact = e->fact;
	return e->fact.kind;
}

/* Each state of a trace at once. */
int tracebraid_states(struct tracebraid_trace *trace,
		      int (*span)(void *arg, const struct tracebraid_span *span), void *arg)
{
	struct tracebraid_facts *facts;
	struct tracebraid_fact fact;
	int ret = tracebraid_facts_new(&facts, trace, TRACEBRAID_FACT_STATE);

	if (ret)
		return ret;
	while ((ret = tracebraid_facts_next(facts, &fact)) > 0) {
		const struct tracebraid_span seen = {
			.guest = fact.guest, .vcpu = fact.vcpu, .state = fact.state,
			.from_ns = fact.from_ns, .to_ns = fact.to_ns, .task = fact.pid,
			.comm = fact.comm, .culprit = fact.culprit, .reason = fact.reason,
			.bound_ns = fact.bound_ns,
		};

		ret = span(arg, &seen);
		if (ret)
			break;
	}
	tracebraid_facts_free(facts);
	return ret;
}
