// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid export: captures in a form that other tools open. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/trace_options.h"
#include "host_agent/util/error.h"

static const char usage[] =
	"Usage: tracebraid export --to FORM [OPTION]... FILE... -o OUT\n"
	"Writes captures, merged, in a form that other tools open.\n"
	"\n"
	"      --to=FORM       see below\n"
	"  -o, --output=OUT    the file or folder to make\n"
	BRAID_TRACE_USAGE
	"      --help          this text\n"
	"\n"
	"Forms:\n";

struct export {
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

static void print_usage(void)
{
	const struct braid_export_form *form;
	size_t k;

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
		       braid_fail(-EINVAL, "export: there is no form '%s'; 'tracebraid export --help' lists all",
				  optarg);
	case 'o':
		x->out = optarg;
		return 0;
	case OPT_HELP:
		print_usage();
		return 1;
	}
	ret = braid_trace_take(&x->trace, option, optarg);
	return ret > 0 ? 0 : ret ?: -EINVAL;
}

static int check(const struct export *x, int nr_files)
{
	if (!nr_files)
		return braid_fail(-EINVAL, "export: which capture? 'tracebraid export --to FORM FILE... -o OUT'");
	if (!x->form)
		return braid_fail(-EINVAL, "export: --to which form? 'tracebraid export --help' lists all");
	if (!x->out)
		return braid_fail(-EINVAL, "export: where to? '-o OUT'");
	if (x->form->makes_many && !strcmp(x->out, "-"))
		return braid_fail(-EINVAL, "export: %s can't go to standard output: it is several files",
				  x->form->name);
	return 0;
}

static int export(struct export *x, char **paths, size_t nr)
{
	struct braid_export_totals totals;
	struct braid_source *source = NULL;
	int err;

	err = x->form->prepare ? x->form->prepare() : 0;
	if (!err)
		err = braid_cli_confine(BRAID_CONFINE_CONVERT, NULL);
	if (!err)
		err = braid_trace_open(&x->trace, &source, paths, nr, x->out);
	if (!err)
		err = x->form->run(x->out, source, &x->trace.options, &totals);
	if (!err)
		err = braid_trace_verdict(&x->trace, &totals);
	braid_source_free(source);
	return err;
}

int braid_cmd_export(int argc, char **argv)
{
	struct export x = { 0 };
	int option, err = 0;

	optind = 1;
	opterr = 0;
	while (!err && (option = getopt_long(argc, argv, "o:h" BRAID_TRACE_SHORT, long_options,
					     NULL)) != -1) {
		if (option == '?') {
			braid_trace_free(&x.trace);
			return braid_complain_option("export", argv[optind - 1]);
		}
		err = take_option(&x, option == 'h' ? OPT_HELP : option);
	}
	if (!err)
		err = check(&x, argc - optind);
	if (!err)
		err = export(&x, argv + optind, argc - optind);
	return braid_trace_exit(&x.trace, err);
}
