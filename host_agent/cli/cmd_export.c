// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid export, merge: captures as one timeline, in a form that other tools open. */
#include <errno.h>
#include <string.h>

#include "host_agent/cli/trace_options.h"
#include "host_agent/util/error.h"
#include "tracebraid/tracebraid.h"

struct export {
	struct braid_trace_options trace;
	const char *form;
	const char *out;
};

#define TO(help) \
	{ 0, "to", "FORM", BRAID_TAKE(braid_trace_take_form, const char *, struct export, form), help, \
	  .values = "@form" }
#define OUTPUT(help)	{ 'o', "output", "OUT", BRAID_STRING(struct export, out), help }

static const struct braid_option export_options[] = {
	TO("see below"),
	OUTPUT("the output file or folder; -: standard output, for forms of one file"),
	BRAID_TRACE_OPTION("states", braid_trace_take),
	BRAID_TRACE_OPTION("cpus", braid_trace_take),
	BRAID_TRACE_OPTION("symbols", braid_trace_take),
	{ 0 },
};

const struct braid_cli_command braid_command_export = {
	.name = "export", .summary = "write captures in a format that other tools open",
	.run = braid_cmd_export, .usage = "--to FORM [OPTION]... FILE... -o OUT",
	.text =
	"Writes merged captures in a format that other tools open. The FILEs may include, or all "
	"be, what trace-cmd recorded, see `tracebraid merge --help`. FILE may be -, standard input, "
	"up to 1 GiB.",
	.options = export_options, .common = braid_trace_common, .form = tracebraid_form,
	.status = BRAID_TRACE_STATUS,
	.least = 1, .most = BRAID_ANY_NUMBER, .expected = "a capture; see 'tracebraid export --help'",
};

static const struct braid_option merge_options[] = {
	TO("write another format than text, see `tracebraid export --help`"),
	OUTPUT("write to OUT instead of standard output"),
	BRAID_TRACE_OPTION("states", braid_trace_take),
	BRAID_TRACE_OPTION("cpus", braid_trace_take),
	BRAID_TRACE_OPTION("symbols", braid_trace_take),
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
	"instance, trace-cmd saves the clock only if the instance was recorded alone. The files "
	"of guests that `trace-cmd record -A` recorded are read with that of their host, with or "
	"without captures.",
	.options = merge_options, .common = braid_trace_common, .status = BRAID_TRACE_STATUS,
	.least = 1, .most = BRAID_ANY_NUMBER, .expected = "a capture; see 'tracebraid merge --help'",
};

static int cmd_export_check(struct export *x)
{
	const char *const *words = braid_trace_words(&x->trace);

	if (!words)
		return -ENOMEM;
	if (!x->form)
		return braid_fail(-EINVAL, "export: expected --to FORM; 'tracebraid export --help' lists all forms");
	if (!x->out)
		return braid_fail(-EINVAL, "export: expected -o OUT");
	return braid_trace_check_output(x->form, x->out) ?:
	       tracebraid_export_check(x->form, x->out, words);
}

static int cmd_export_export(struct export *x, char **paths, size_t nr)
{
	int err = braid_cli_confine_to(x->out, paths, nr);

	return err ? err : braid_trace_export(&x->trace, x->form, x->out, paths, nr);
}

/* @x: the defaults. */
static int cmd_export_run(struct export *x, const struct braid_cli_command *c, int argc,
			  char **argv)
{
	int err = braid_options_parse(c, x, argc, argv);

	if (!err)
		err = cmd_export_check(x);
	if (!err)
		err = cmd_export_export(x, argv + optind, argc - optind);
	return braid_trace_exit(&x->trace, err);
}

int braid_cmd_export(int argc, char **argv)
{
	struct export x = { 0 };

	return cmd_export_run(&x, &braid_command_export, argc, argv);
}

int braid_cmd_merge(int argc, char **argv)
{
	struct export x = { .form = "text", .out = "-" };

	return cmd_export_run(&x, &braid_command_merge, argc, argv);
}
