// SPDX-License-Identifier: GPL-2.0-or-later
/* Analyses and exports of a whole trace. */
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
	braid_library_report_progress(&select.options);
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
		return -EINVAL;
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

/* Exports ----------------------------------------------------------------------------------- */

int tracebraid_export(struct tracebraid_trace *trace, const char *form, const char *path,
		      const char *const *select)
{
	const struct braid_export_form *to = braid_export_form_by_name(form);
	struct braid_library_select selection;
	int err;

	trace->exported = false;
	if (!to)
		return braid_fail(-EINVAL, "unknown form '%.63s': 'tracebraid export --help' lists all", form);
	err = braid_library_claim(trace);
	if (err)
		return err;
	err = braid_library_select(&selection, trace->source, select, false);
	selection.options.stop = trace->stop;
	braid_library_report_progress(&selection.options);
	selection.options.inputs = trace->paths;
	selection.options.nr_inputs = trace->nr_paths;
	if (!err)
		err = to->run(path, trace->source, &selection.options, &trace->totals);
	trace->exported = !err;
	braid_library_select_free(&selection);
	braid_library_release(trace);
	return err;
}

int tracebraid_totals(const struct tracebraid_trace *trace, struct tracebraid_totals *totals)
{
	const struct braid_export_totals *t = &trace->totals;

	if (!trace->exported)
		return braid_fail(-ENODATA, "no export of the trace was completed");
	*totals = (struct tracebraid_totals){
		.events = t->events, .lines = t->lines, .lost = t->lost, .some_lost = t->some_lost,
	};
	return 0;
}
