// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid export, merge: captures as one timeline, in a form that other tools open. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/trace_options.h"
#include "host_agent/util/error.h"

static const char usage[] =
	"Usage: tracebraid export --to FORM [OPTION]... FILE... -o OUT\n"
	"Writes merged captures in a format that other tools open. The FILEs may include a trace.dat\n"
	"that trace-cmd recorded on the host, see 'tracebraid merge --help'. FILE may be -, standard\n"
	"input, up to 1 GiB.\n"
	"\n"
	"      --to=FORM       see below\n"
	"  -o, --output=OUT    the file or folder to make; -: standard output, for forms of one file\n"
	BRAID_TRACE_USAGE
	"      --help          this text\n"
	"\n"
	"Forms:\n";

static const char merge_usage[] =
	"Usage: tracebraid merge [OPTION]... CAPTURE... TRACE.DAT...\n"
	"Prints captures and a trace.dat that trace-cmd recorded on their host at the same time, as\n"
	"one timeline. The commands report and export also accept a trace.dat among their FILEs. Its\n"
	"times are converted with the capture's clock, so record with 'trace-cmd record -C mono_raw';\n"
	"x86-tsc and the clock of 'tracebraid record --host-clock' work too. For a trace instance,\n"
	"trace-cmd saves the clock only if the instance was recorded alone.\n"
	"\n"
	"      --to=FORM       write another format than text, see 'tracebraid export --help'\n"
	"  -o, --output=OUT    write to OUT instead of standard output\n"
	BRAID_TRACE_USAGE
	"      --help          this text\n"
	BRAID_TRACE_STATUS;

struct export {
	const char *command;		/* "export" or "merge" */
	struct braid_trace_options trace;
	const struct braid_export_form *form;
	const char *out;
};

enum { OPT_TO = 256, OPT_HELP };

static const struct option long_options[] = {
	{ "to", required_argument, NULL, OPT_TO },
	{ "output", required_argument, NULL, 'o' },
	BRAID_TRACE_LONG,
	{ "help", no_argument, NULL, OPT_HELP },
	{ 0 },
};

static void print_usage(const struct export *x)
{
	const struct braid_export_form *form;
	size_t k;

	if (!strcmp(x->command, "merge")) {
		fputs(merge_usage, stdout);
		return;
	}
	fputs(usage, stdout);
	for (k = 0; (form = braid_export_form_by_number(k)); k++)
		printf("  %-14s %s\n", form->name, form->help);
	fputs(BRAID_TRACE_STATUS, stdout);
}

/* One option. Return: 0, 1 when there is nothing left to do, -errno. */
static int take_option(struct export *x, int option)
{
	int ret;

	switch (option) {
	case OPT_TO:
		x->form = braid_export_form_by_name(optarg);
		return x->form ? 0 :
		       braid_fail(-EINVAL, "%s: unknown form '%s'; 'tracebraid export --help' lists all",
				  x->command, optarg);
	case 'o':
		x->out = optarg;
		return 0;
	case OPT_HELP:
		print_usage(x);
		return 1;
	}
	ret = braid_trace_take(&x->trace, option, optarg);
	return ret > 0 ? 0 : ret ?: -EINVAL;
}

static int check(const struct export *x, int nr_files)
{
	if (!nr_files)
		return braid_fail(-EINVAL, "%s: expected a capture; see 'tracebraid %s --help'",
				  x->command, x->command);
	if (!x->form)
		return braid_fail(-EINVAL, "export: expected --to FORM; 'tracebraid export --help' lists all forms");
	if (!x->out)
		return braid_fail(-EINVAL, "export: expected -o OUT");
	if (braid_trace_check_output(x->form->name, x->out))
		return -EINVAL;
	if (x->form->makes_many && !strcmp(x->out, "-"))
		return braid_fail(-EINVAL, "%s: %s can't go to standard output: it consists of several files; name them with '-o OUT'",
				  x->command, x->form->name);
	return 0;
}

static int export(struct export *x, char **paths, size_t nr)
{
	struct braid_export_totals totals;
	struct braid_source *source = NULL;
	int err;

	err = x->form->prepare ? x->form->prepare() : 0;
	if (!err)
		err = braid_cli_confine_to(strcmp(x->out, "-") ? BRAID_CONFINE_CONVERT :
					   BRAID_CONFINE_FILES, paths, nr);
	if (!err)
		err = braid_trace_open(&x->trace, &source, paths, nr);
	if (!err && strcmp(x->out, "-"))
		braid_trace_stoppable(&x->trace);
	if (!err)
		err = x->form->run(x->out, source, &x->trace.options, &totals);
	if (!err)
		err = braid_trace_verdict(&x->trace, &totals);
	braid_source_free(source);
	return err;
}

/* @x: what goes without saying. */
static int run(struct export *x, int argc, char **argv)
{
	int option, err = 0;

	optind = 0;
	opterr = 0;
	while (!err && (option = getopt_long(argc, argv, "o:h" BRAID_TRACE_SHORT, long_options,
					     NULL)) != -1) {
		if (option == '?') {
			braid_trace_free(&x->trace);
			return braid_complain_option(x->command, argc, argv);
		}
		err = take_option(x, option == 'h' ? OPT_HELP : option);
	}
	if (!err)
		err = check(x, argc - optind);
	if (!err)
		err = export(x, argv + optind, argc - optind);
	return braid_trace_exit(&x->trace, err);
}

int braid_cmd_export(int argc, char **argv)
{
	struct export x = { .command = "export" };

	return run(&x, argc, argv);
}

int braid_cmd_merge(int argc, char **argv)
{
	struct export x = {
		.command = "merge", .form = braid_export_form_by_name("text"), .out = "-",
	};

	return run(&x, argc, argv);
}
