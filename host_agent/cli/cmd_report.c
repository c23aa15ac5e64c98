// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid report: captures as one timeline. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/trace_options.h"
#include "host_agent/util/error.h"

static const char usage[] =
	"Usage: tracebraid report [OPTION]... FILE...\n"
	"Prints captures as one timeline: all guests and their host, in time order. The FILEs may\n"
	"include a trace.dat that trace-cmd recorded on the host, see 'tracebraid merge --help'.\n"
	"FILE may be -, standard input, up to 1 GiB.\n"
	"A host task that runs a guest's vCPU is followed by [GUEST/vCPU N], or by\n"
	"[GUEST/all vCPUs] if one thread runs all of them.\n"
	"\n"
	"      --json          one JSON object per line\n"
	"  -o, --output=OUT    write to OUT instead of standard output\n"
	"      --uncertain     mark with ~ each event that may have happened before an event printed\n"
	"                      above it, because their error bounds overlap. The last line counts\n"
	"                      such events, marked or not; filtered-out events are not considered\n"
	"      --no-header     print only the lines of the timeline\n"
	"  -n, --lines=COUNT   stop after COUNT lines\n"
	"      --stats         event counts; how long each CPU, task and vCPU ran, waited and slept;\n"
	"                      time in guests, exits by reason, steal; losses. With --json as one\n"
	"                      object. States what could not be determined\n"
	BRAID_TRACE_USAGE
	"      --help          this text\n"
	BRAID_TRACE_STATUS;

struct report {
	struct braid_trace_options trace;
	const char *out;
	bool json;
	bool stats;
};

enum { OPT_JSON = 256, OPT_NO_HEADER, OPT_UNCERTAIN, OPT_STATS, OPT_HELP };

static const struct option long_options[] = {
	{ "json", no_argument, NULL, OPT_JSON },
	{ "output", required_argument, NULL, 'o' },
	{ "uncertain", no_argument, NULL, OPT_UNCERTAIN },
	{ "no-header", no_argument, NULL, OPT_NO_HEADER },
	{ "stats", no_argument, NULL, OPT_STATS },
	{ "lines", required_argument, NULL, 'n' },
	BRAID_TRACE_LONG,
	{ "help", no_argument, NULL, OPT_HELP },
	{ 0 },
};

/* One option. Return: 0, 1 when there is nothing left to do, -errno. */
static int take_option(struct report *r, int option)
{
	int ret;

	switch (option) {
	case OPT_JSON:
		r->json = true;
		return 0;
	case 'o':
		r->out = optarg;
		return 0;
	case OPT_STATS:
		r->stats = true;
		return 0;
	case OPT_NO_HEADER:
		r->trace.options.no_header = true;
		return 0;
	case OPT_UNCERTAIN:
		r->trace.options.uncertain = true;
		return 0;
	case 'n':
		return braid_parse_u64(optarg, INT64_MAX, &r->trace.options.max_lines);
	case OPT_HELP:
		fputs(usage, stdout);
		return 1;
	}
	ret = braid_trace_take(&r->trace, option, optarg);
	return ret > 0 ? 0 : ret ?: -EINVAL;
}

static int write_to(const struct report *r, const char *out, struct braid_source *source,
		    struct braid_export_totals *totals)
{
	const struct braid_export_options *o = &r->trace.options;

	if (r->stats)
		return braid_export_to_file(out, source, o, totals,
					    r->json ? braid_export_stats_json : braid_export_stats);
	return braid_export_to_file(out, source, o, totals,
				    r->json ? braid_export_json : braid_export_text);
}

static int report(struct report *r, char **paths, size_t nr)
{
	const char *out = r->out ? r->out : "-";
	struct braid_export_totals totals;
	struct braid_source *source = NULL;
	int err;

	err = braid_cli_confine_to(strcmp(out, "-") ? BRAID_CONFINE_CONVERT : BRAID_CONFINE_FILES,
				   paths, nr);
	if (!err)
		err = braid_trace_open(&r->trace, &source, paths, nr);
	if (!err)
		err = write_to(r, out, source, &totals);
	if (!err)
		err = braid_trace_verdict(&r->trace, &totals);
	braid_source_free(source);
	return err;
}

int braid_cmd_report(int argc, char **argv)
{
	struct report r = { 0 };
	int option, err = 0;

	optind = 0;
	opterr = 0;
	while (!err && (option = getopt_long(argc, argv, "o:n:h" BRAID_TRACE_SHORT, long_options,
					     NULL)) != -1) {
		if (option == '?') {
			braid_trace_free(&r.trace);
			return braid_complain_option("report", argc, argv);
		}
		err = take_option(&r, option == 'h' ? OPT_HELP : option);
	}
	if (!err && optind == argc)
		err = braid_fail(-EINVAL, "report: expected a capture: 'tracebraid report FILE...'");
	if (!err)
		err = report(&r, argv + optind, argc - optind);
	return braid_trace_exit(&r.trace, err);
}
