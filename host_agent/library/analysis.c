// SPDX-License-Identifier: GPL-2.0-or-later
/* Analyses, states and exports of a whole trace. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/analysis.h"
#include "host_agent/export/analysis.h"
#include "host_agent/library/private.h"
#include "host_agent/util/error.h"

#define DEFAULT_TOP	10u

/* Analyses ---------------------------------------------------------------------------------- */

static int choose(const struct braid_library_select *s, const struct braid_analysis *analysis,
		  struct braid_analysis_options *wants)
{
	const char *by = s->by ?: "vcpu";

	*wants = (struct braid_analysis_options){
		.top = s->top ?: DEFAULT_TOP, .stream = s->options.stream,
		.one_cpu = s->options.one_cpu, .cpu = s->options.cpu,
		.one_task = s->one_task, .task = s->task,
		.by_task = !strcmp(by, "task"), .by_call = !strcmp(by, "syscall"),
		.by_function = !strcmp(by, "function"), .form = BRAID_TABLE_JSON,
	};
	if (strcmp(by, "vcpu") && !wants->by_task && !wants->by_call && !wants->by_function)
		return braid_fail(-EINVAL, "by '%.63s': expected vcpu, task, syscall or function", by);
	if ((wants->by_task && !analysis->by_task) ||
	    ((wants->by_call || wants->by_function) && !analysis->by_call) ||
	    (wants->one_task && !analysis->of_task))
		return braid_fail(-EINVAL, "the analysis %s does not take such an option",
				  analysis->name);
	return 0;
}

static int analyze(struct tracebraid_trace *trace, const struct braid_analysis *analysis,
		   const char *const *options, FILE *to)
{
	struct braid_library_select select;
	struct braid_analysis_options wants;
	int err = braid_library_select(&select, trace->source, options, true);

	select.options.stop = trace->stop;
	if (!err)
		err = choose(&select, analysis, &wants);
	if (!err)
		err = braid_export_analysis(to, trace->source, &select.options, analysis, &wants);
	braid_library_select_free(&select);
	return err;
}

int tracebraid_analyze(struct tracebraid_trace *trace, const char *name,
		       const char *const *options, char **json)
{
	const struct braid_analysis *analysis = braid_analysis_by_name(name);
	char *text = NULL;
	size_t bytes;
	FILE *to;
	int err;

	if (!analysis)
		return braid_fail(-EINVAL, "unknown analysis '%.63s': expected summary, states, steal, stalls, exits or wake",
				  name);
	err = braid_library_claim(trace);
	if (err)
		return err;
	to = open_memstream(&text, &bytes);
	err = to ? analyze(trace, analysis, options, to) : braid_out_of_memory();
	if (to && fclose(to) && !err)
		err = braid_out_of_memory();
	braid_library_release(trace);
	if (err)
		free(text);
	else
		*json = text;
	return err;
}

/* States ------------------------------------------------------------------------------------ */

struct subscriber {
	struct braid_states states;
	struct braid_walk walk;
	int (*span)(void *arg, const struct tracebraid_span *span);
	void *arg;
};

static int take_span(void *arg, const struct braid_state_span *span)
{
	struct subscriber *s = arg;
	const struct braid_vcpu *vcpu = &s->states.vcpus[span->vcpu];
	const struct braid_guest_task *task =
		braid_states_task(&s->states, vcpu->guest->number, span->task);
	char culprit[BRAID_NAME_TEXT] = "", reason[BRAID_NAME_TEXT] = "";
	const struct tracebraid_span seen = {
		.guest = (const void *)vcpu->guest, .vcpu = vcpu->number,
		.state = braid_vcpu_state_name(span->state),
		.from_ns = span->from_ns, .to_ns = span->to_ns,
		.task = span->task, .comm = !span->task ? "<idle>" : task ? task->comm : "",
		.culprit = culprit, .reason = reason,
		.bound_ns = span->from_bound_ns > span->to_bound_ns ? span->from_bound_ns :
								      span->to_bound_ns,
	};

	if (span->state == BRAID_VCPU_STOLEN)
		braid_culprit_name(&s->states, &span->culprit, culprit);
	if (span->state == BRAID_VCPU_KVM && span->reason)
		braid_exit_name(span->reason, reason);
	return s->span(s->arg, &seen);
}

static int take_event(void *arg, const struct braid_item *item,
		      const struct braid_event_type_info *info)
{
	struct subscriber *s = arg;

	return braid_states_takes(item->host_ns) ? braid_states_event(&s->states, item, info) : 0;
}

static int take_lost(void *arg, const struct braid_item *item)
{
	struct subscriber *s = arg;

	return braid_states_takes(item->host_ns) ? braid_states_lost(&s->states, item) : 0;
}

static int pass(struct subscriber *s, struct tracebraid_trace *trace)
{
	static const struct braid_states_ops states = { .span = take_span };
	static const struct braid_walk_ops ops = { .event = take_event, .lost = take_lost };
	const struct braid_export_options all = { .stop = trace->stop };
	struct braid_export_totals totals;
	int err = braid_states_begin(&s->states, trace->source, &states, s);

	if (!err) {
		err = braid_walk_begin(&s->walk, trace->source, &all, &totals);
		if (!err)
			err = braid_walk_run(&s->walk, &ops, s);
		braid_walk_end(&s->walk);
	}
	if (!err)
		err = braid_states_end(&s->states);
	braid_states_free(&s->states);
	return err;
}

int tracebraid_states(struct tracebraid_trace *trace,
		      int (*span)(void *arg, const struct tracebraid_span *span), void *arg)
{
	struct subscriber *s;
	int err = braid_library_claim(trace);

	if (err)
		return err;
	s = calloc(1, sizeof(*s));
	if (s) {
		s->span = span;
		s->arg = arg;
		err = pass(s, trace);
	} else {
		err = braid_out_of_memory();
	}
	free(s);
	braid_library_release(trace);
	return err;
}

/* Exports ----------------------------------------------------------------------------------- */

int tracebraid_export(struct tracebraid_trace *trace, const char *form, const char *path,
		      const char *const *select)
{
	const struct braid_export_form *to = braid_export_form_by_name(form);
	struct braid_library_select selection;
	struct braid_export_totals totals;
	int err;

	if (!to)
		return braid_fail(-EINVAL, "unknown form '%.63s': 'tracebraid export --help' lists all", form);
	err = braid_library_claim(trace);
	if (err)
		return err;
	err = braid_library_select(&selection, trace->source, select, false);
	selection.options.stop = trace->stop;
	if (!err)
		err = to->run(path, trace->source, &selection.options, &totals);
	braid_library_select_free(&selection);
	braid_library_release(trace);
	return err;
}
