// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid export, merge: captures as one timeline, in a form that other tools open. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/trace_options.h"
#include "host_agent/export/slices.h"
#include "host_agent/util/error.h"

struct export {
	struct braid_trace_options trace;
	const char *command;		/* "export" or "merge" */
	const struct braid_export_form *form;
	const char *out;
};

static int take_form(const struct braid_option *o, void *to, const char *name)
{
	const struct braid_export_form **form = to;

	(void)o;
	*form = braid_export_form_by_name(name);
	return *form ? 0 : braid_fail(-EINVAL, "unknown form '%s'; 'tracebraid export --help' lists all",
				      name);
}

static const char *form_by_number(size_t k, const char **help)
{
	const struct braid_export_form *form = braid_export_form_by_number(k);

	*help = form ? form->help : NULL;
	return form ? form->name : NULL;
}

#define TO(help) \
	{ 0, "to", "FORM", \
	  BRAID_TAKE(take_form, const struct braid_export_form *, struct export, form), help, \
	  .values = "@form" }
#define OUTPUT(help)	{ 'o', "output", "OUT", BRAID_STRING(struct export, out), help }

#define STATES \
	{ 0, "states", NULL, BRAID_FLAG(struct export, trace.options.states), \
	  "trace.dat and ctf: add vCPUs' states as events of a buffer 'tracebraid'" }

static const struct braid_option export_options[] = {
	TO("see below"),
	OUTPUT("the output file or folder; -: standard output, for forms of one file"),
	STATES,
	{ 0 },
};

const struct braid_cli_command braid_command_export = {
	.name = "export", .summary = "write captures in a format that other tools open",
	.run = braid_cmd_export, .usage = "--to FORM [OPTION]... FILE... -o OUT",
	.text =
	"Writes merged captures in a format that other tools open. The FILEs may include a "
	"trace.dat that trace-cmd recorded on the host, see `tracebraid merge --help`. FILE may be "
	"-, standard input, up to 1 GiB.",
	.options = export_options, .common = braid_trace_common, .form = form_by_number,
	.status = BRAID_TRACE_STATUS,
	.least = 1, .most = BRAID_ANY_NUMBER, .expected = "a capture; see 'tracebraid export --help'",
};

static const struct braid_option merge_options[] = {
	TO("write another format than text, see `tracebraid export --help`"),
	OUTPUT("write to OUT instead of standard output"),
	STATES,
	{ 0 },
};

const struct braid_cli_command braid_command_merge = {
	.name = "merge",
	.summary = "report or export captures together with a trace.dat of their host",
	.run = braid_cmd_merge, .usage = "[OPTION]... CAPTURE... TRACE.DAT...",
	.text =
	"Prints captures and a trace.dat that trace-cmd recorded on their host at the same time, as "
	"one timeline. The commands report and export also accept a trace.dat among their FILEs. "
	"Its times are converted with the capture's clock, so record with `trace-cmd record -C "
	"mono_raw`; x86-tsc and the clock of `tracebraid record --host-clock` work too. For a trace "
	"instance, trace-cmd saves the clock only if the instance was recorded alone.",
	.options = merge_options, .common = braid_trace_common, .status = BRAID_TRACE_STATUS,
	.least = 1, .most = BRAID_ANY_NUMBER, .expected = "a capture; see 'tracebraid merge --help'",
};

static int check(const struct export *x)
{
	if (!x->form)
		return braid_fail(-EINVAL, "export: expected --to FORM; 'tracebraid export --help' lists all forms");
	if (!x->out)
		return braid_fail(-EINVAL, "export: expected -o OUT");
	if (braid_trace_check_output(x->form->name, x->out))
		return -EINVAL;
	if (x->trace.options.states && !x->form->takes_states)
		return braid_fail(-EINVAL, "%s: --states needs --to trace.dat (version 7) or ctf; perfetto and html show states without it",
				  x->command);
	if (x->form->makes_many && !strcmp(x->out, "-"))
		return braid_fail(-EINVAL, "%s: %s cannot go to standard output: it consists of several files; name them with '-o OUT'",
				  x->command, x->form->name);
	return 0;
}

static int export(struct export *x, char **paths, size_t nr)
{
	struct braid_export_totals totals;
	struct braid_source *source = NULL;
	const char *why = NULL;
	int err = braid_cli_confine_to(strcmp(x->out, "-") ? BRAID_CONFINE_CONVERT :
				       BRAID_CONFINE_FILES, paths, nr);

	x->trace.by_index = !x->form->counts_faults;
	if (!err)
		err = braid_trace_open(&x->trace, &source, paths, nr);
	if (!err && x->trace.options.states)
		why = braid_slices_missing(source);
	if (why)
		fprintf(stderr, "tracebraid: --states: no states to add: %s\n", why);
	if (!err && strcmp(x->out, "-"))
		braid_trace_stoppable(&x->trace);
	if (!err)
		err = x->form->run(x->out, source, &x->trace.options, &totals);
	if (!err)
		err = braid_trace_verdict(&x->trace, &totals);
	braid_source_free(source);
	return err;
}

/* @x: the defaults. */
static int run(struct export *x, const struct braid_cli_command *c, int argc, char **argv)
{
	int err = braid_options_parse(c, x, argc, argv);

	x->command = c->name;
	if (!err)
		err = check(x);
	if (!err)
		err = export(x, argv + optind, argc - optind);
	return braid_trace_exit(&x->trace, err);
}

int braid_cmd_export(int argc, char **argv)
{
	struct export x = { 0 };

	return run(&x, &braid_command_export, argc, argv);
}

int braid_cmd_merge(int argc, char **argv)
{
	struct export x = { .form = braid_export_form_by_name("text"), .out = "-" };

	return run(&x, &braid_command_merge, argc, argv);
}
