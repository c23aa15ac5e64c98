// SPDX-License-Identifier: GPL-2.0-or-later
/* Exports of a whole trace. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/export.h"
#include "host_agent/library/private.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"
#include "host_agent/walk/around.h"
#include "host_agent/walk/slices.h"

const char *tracebraid_form(size_t number, const char **help)
{
	const struct braid_export_form *form = braid_export_form_by_number(number);

	*help = form ? form->help : "";
	return form ? form->name : NULL;
}

static int unknown_form(const char *name)
{
	struct braid_text_near near = { .word = name };
	const struct braid_export_form *form;
	size_t k;

	for (k = 0; (form = braid_export_form_by_number(k)); k++)
		braid_text_nearer(&near, form->name);
	if (near.nearest)
		return braid_fail(-EINVAL, "unknown form '%.63s'; did you mean '%s'?", name, near.nearest);
	return braid_fail(-EINVAL, "unknown form '%.63s'; 'tracebraid export --help' lists all", name);
}

/* @s: filled; to be freed in any case. Return: 0, or -errno with braid_fail(). */
static int export_check(struct braid_library_select *s, const struct braid_export_form **form,
			const char *name, const char *path, const char *const *select)
{
	int err = braid_library_parse(s, select, BRAID_LIBRARY_EXPORT);

	*form = braid_export_form_by_name(name);
	if (err)
		return err;
	if (!*form)
		return unknown_form(name);
	if (s->options.states && !(*form)->takes_states)
		return braid_fail(-EINVAL, "states: only trace.dat (version 7) and ctf take this option, not %s; perfetto and html always show states",
				  name);
	if ((*form)->makes_many && !strcmp(path, "-"))
		return braid_fail(-EINVAL, "%s consists of several files and cannot be written to standard output; name an output",
				  name);
	return 0;
}

int tracebraid_export_check(const char *form, const char *path, const char *const *select)
{
	const struct braid_export_form *to;
	struct braid_library_select s;
	int err = export_check(&s, &to, form, path, select);

	braid_library_select_free(&s);
	return err;
}

static void warn_of_no_states(const struct tracebraid_trace *trace)
{
	const char *why = braid_slices_missing(trace->source);
	struct braid_text text = { 0 };

	if (!why)
		return;
	braid_text_printf(&text, "no states to add: %s", why);
	braid_text_putc(&text, '\0');
	if (!text.failed)
		braid_library_warn(trace, text.data);
	braid_text_free(&text);
}

static int export_reopen(void *arg, struct braid_source **source)
{
	const struct tracebraid_trace *trace = arg;
	const struct braid_source_options options = {
		.force_clock = trace->clock, .clock = trace->clock, .by_index = true,
	};

	return braid_source_open_captures(source, trace->paths, trace->nr_paths, &options);
}

/* Standard input is read once, and a clock that was refined is not in the capture. */
static bool can_reopen(const struct tracebraid_trace *trace)
{
	return trace->nr_paths == 1 && strcmp(trace->paths[0], "-") &&
	       trace->clock != BRAID_CLOCK_WINDOWS;
}

static int export_run(struct tracebraid_trace *trace, const struct braid_export_form *form,
		      const char *path, struct braid_walk_options *options)
{
	int err = braid_select_check(options, trace->source);

	if (err)
		return err;
	if (options->states)
		warn_of_no_states(trace);
	options->clock_asked = trace->clock;
	options->clock = trace->clock;
	options->stop = trace->stop;
	options->inputs = trace->paths;
	options->nr_inputs = trace->nr_paths;
	options->reopen = can_reopen(trace) ? export_reopen : NULL;
	options->reopen_arg = trace;
	braid_library_report_progress(options);
	return braid_export_run(form, path, trace->source, options, &trace->totals);
}

int tracebraid_export(struct tracebraid_trace *trace, const char *form, const char *path,
		      const char *const *select)
{
	const struct braid_export_form *to;
	struct braid_select_times times = { 0 };
	struct braid_library_select s;
	int err;

	trace->exported = false;
	err = braid_library_claim(trace);
	if (err)
		return err;
	err = export_check(&s, &to, form, path, select);
	s.options.stop = trace->stop;
	if (!err && s.options.around) {
		err = braid_around_find(&times, trace->source, &s.options);
		s.options.times = &times;
	}
	if (!err)
		err = export_run(trace, to, path, &s.options);
	free(times.all);
	trace->exported = !err;
	braid_library_select_free(&s);
	braid_library_release(trace);
	return err;
}

int tracebraid_totals(const struct tracebraid_trace *trace, struct tracebraid_totals *totals)
{
	const struct braid_walk_totals *t = &trace->totals;

	if (!trace->exported)
		return braid_fail(-ENODATA, "no export of the trace was completed");
	*totals = (struct tracebraid_totals){
		.events = t->events, .lines = t->lines, .lost = t->lost, .some_lost = t->some_lost,
	};
	return 0;
}
