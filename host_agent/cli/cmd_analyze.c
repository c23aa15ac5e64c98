// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid analyze: answers a question about captures. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/cli/trace_options.h"
#include "host_agent/export/analysis.h"
#include "host_agent/util/error.h"

#define DEFAULT_TOP	10
#define MOST_TOP	10000

enum { BY_VCPU, BY_TASK, BY_SYSCALL, BY_FUNCTION,	/* values of --by */
       FOLDED, ONE_TASK, AGAINST, NR_LIMITED };

struct analyze {
	struct braid_trace_options trace;	/* first, as its functions expect it */
	const char *out;
	const char *against;
	u64 top;
	bool json, csv;
	bool one_task;
	u64 task;
	unsigned int by;
	bool folded;
	unsigned int weight;
};

#define ANALYZE	struct analyze

static int take_task(const struct braid_option *o, void *to, const char *value)
{
	struct analyze *a = to;

	a->one_task = true;
	return braid_take_count(o, &a->task, value);
}

static const struct braid_option options[] = {
	{ 'n', "top", "COUNT", BRAID_COUNT(ANALYZE, top),
	  "maximum rows of each table. Default: 10. In JSON and CSV it limits only the tables of "
	  "longest episodes, waits and stalls",
	  .most = MOST_TOP },
	{ 0, "json", NULL, BRAID_FLAG(ANALYZE, json), "one JSON object; times and durations in ns" },
	{ 0, "csv", NULL, BRAID_FLAG(ANALYZE, csv),
	  "comma-separated values; the first line names the columns" },
	{ 'o', "output", "OUT", BRAID_STRING(ANALYZE, out),
	  "write to OUT instead of standard output" },
	{ 0, "against", "OTHER", BRAID_STRING(ANALYZE, against),
	  "compare with the capture OTHER: show what differs, and whether significantly" },
	{ 0, "stream", "NAME", BRAID_STRING(ANALYZE, trace.options.stream), "only this guest",
	  .values = "@stream" },
	{ 0, "cpu", "N", .take = braid_trace_take_cpu, .help = "only this vCPU of each guest",
	  .most = 65535 },
	{ 0, "task", "PID", .take = take_task,
	  .help = "only while this task of a guest is current on its vCPU",
	  .most = INT32_MAX },
	{ 0, "by", "WHAT", BRAID_WORD(ANALYZE, by),
	  "group rows by vcpu (default), task, syscall or function of the guest",
	  .values = "vcpu task syscall function" },
	{ 0, "folded", NULL, BRAID_FLAG(ANALYZE, folded),
	  "print stacks for flamegraph.pl and speedscope; --by function changes them, other --by "
	  "values do not" },
	{ 0, "weight", "WHAT", BRAID_WORD(ANALYZE, weight),
	  "weight of a folded stack: time in ns (default) or count", .values = "time count" },
	{ 0, "since", "TIME",
	  BRAID_TAKE(braid_trace_take_moment, struct braid_export_moment, ANALYZE,
		     trace.options.from),
	  "from TIME on: seconds as the report shows them, +SECONDS from the first event, or "
	  "-SECONDS from the recording's end" },
	{ 0, "until", "TIME",
	  BRAID_TAKE(braid_trace_take_moment, struct braid_export_moment, ANALYZE,
		     trace.options.to), "up to TIME, in the same formats" },
	{ 0 },
};

/* Options that not every analysis takes; those of --by come first, by their values. */
static const struct {
	const char *text;
	enum braid_analysis_option option;
} limited[] = {
	[BY_VCPU] = { NULL, BRAID_ANALYSIS_ANY },
	[BY_TASK] = { "--by task", BRAID_ANALYSIS_BY_TASK },
	[BY_SYSCALL] = { "--by syscall", BRAID_ANALYSIS_BY_CALL },
	[BY_FUNCTION] = { "--by function", BRAID_ANALYSIS_BY_CALL },
	[FOLDED] = { "--folded", BRAID_ANALYSIS_FOLDED },
	[ONE_TASK] = { "--task", BRAID_ANALYSIS_ONE_TASK },
	[AGAINST] = { "--against", BRAID_ANALYSIS_COMPARES },
};

/* *help is valid until the next call. */
static const char *analysis_by_number(size_t k, const char **help)
{
	const struct braid_analysis *analysis = braid_analysis_by_number(k);
	static char text[256];
	const char *before = "; takes ";
	size_t n, bytes;

	*help = text;
	if (!analysis)
		return NULL;
	bytes = snprintf(text, sizeof(text), "%s", analysis->help);
	for (n = BY_TASK; n < NR_LIMITED && bytes < sizeof(text); n++)
		if (braid_analysis_takes(analysis, limited[n].option)) {
			bytes += snprintf(text + bytes, sizeof(text) - bytes, "%s%s", before,
					  limited[n].text);
			before = ", ";
		}
	return analysis->name;
}

const struct braid_cli_command braid_command_analyze = {
	.name = "analyze", .summary = "show why a guest was slow, and what took its CPU time",
	.run = braid_cmd_analyze, .usage = "NAME [OPTION]... FILE...",
	.text =
	"Runs the analysis NAME on captures. At any time each vCPU is in exactly one state, such "
	"as guest, stolen or halted. The first line of the output shows how much of the vCPUs' "
	"time is proven, how much is within the error bounds of the clocks, and how much is "
	"unknown because events were lost or not recorded; the following lines list what to "
	"record for more.",
	.options = options, .form = analysis_by_number, .forms = "Analyses",
	.least = 2, .most = BRAID_ANY_NUMBER,
	.expected = "NAME and at least one FILE: 'tracebraid analyze summary FILE...'; the file of "
	"--against does not count as FILE",
};

/* braid_export_to_file() calls back without an argument: one analysis runs at a time. */
static const struct braid_analysis *chosen;
static struct braid_analysis_options wants;
static struct braid_source *other;	/* NULL: no comparison */

static int write_to(FILE *to, struct braid_source *source,
		    const struct braid_export_options *o, struct braid_export_totals *totals)
{
	memset(totals, 0, sizeof(*totals));
	return other ? braid_export_comparison(to, source, other, o, &wants) :
		       braid_export_analysis(to, source, o, chosen, &wants);
}

/* @option: in limited[]; @given: whether the user wants it. */
static int check_takes(unsigned int option, bool given)
{
	char names[BRAID_ANALYSIS_NAMES];

	if (!given || braid_analysis_takes(chosen, limited[option].option))
		return 0;
	return braid_fail(-EINVAL, "%s does not apply to %s: use it with %s", limited[option].text,
			  chosen->name, braid_analysis_names(limited[option].option, names));
}

static int choose(const struct analyze *a, const char *name)
{
	chosen = braid_analysis_by_name(name);
	if (!chosen)
		return -EINVAL;
	if (check_takes(ONE_TASK, a->one_task) || check_takes(a->by, a->by) ||
	    check_takes(FOLDED, a->folded) || check_takes(AGAINST, a->against))
		return -EINVAL;
	if (a->folded && (a->json || a->csv))
		return braid_fail(-EINVAL, "--folded cannot be combined with --json or --csv");
	if (a->weight && !a->folded)
		return braid_fail(-EINVAL, "--weight needs --folded");
	if (a->against && (a->by || a->folded))
		return braid_fail(-EINVAL, "--against cannot be combined with --by or --folded");
	if (!a->top)
		return braid_fail(-EINVAL, "--top 0: expected at least 1");
	if (a->json && a->csv)
		return braid_fail(-EINVAL, "--json cannot be combined with --csv");
	wants = (struct braid_analysis_options){
		.top = a->top, .stream = a->trace.options.stream,
		.one_cpu = a->trace.options.one_cpu, .cpu = a->trace.options.cpu,
		.by_task = a->by == BY_TASK, .by_call = a->by == BY_SYSCALL,
		.by_function = a->by == BY_FUNCTION, .folded = a->folded, .by_count = a->weight == 1,
		.one_task = a->one_task, .task = a->task,
		.compares = chosen->compares,
		.form = a->json ? BRAID_TABLE_JSON : a->csv ? BRAID_TABLE_CSV : BRAID_TABLE_TEXT,
	};
	return 0;
}

/* @paths: OTHER first, if there is one. */
static int analyze(struct analyze *a, char **paths, size_t nr)
{
	const char *out = a->out ? a->out : "-";
	struct braid_trace_options of_other = a->trace;
	struct braid_export_totals totals;
	struct braid_source *source = NULL;
	int err, first = !!a->against;

	err = braid_cli_confine_to(strcmp(out, "-") ? BRAID_CONFINE_CONVERT : BRAID_CONFINE_FILES,
				   paths, nr);
	if (!err && a->against)
		err = braid_trace_open(&of_other, &other, paths, 1);
	braid_progress_end(&of_other.progress);
	if (!err)
		err = braid_trace_open(&a->trace, &source, paths + first, nr - first);
	wants.names[0] = paths[first];
	wants.names[1] = paths[0];
	a->trace.options.inputs = paths;
	a->trace.options.nr_inputs = nr;
	if (!err)
		err = braid_export_to_file(out, source, &a->trace.options, &totals, write_to);
	braid_source_free(source);
	braid_source_free(other);
	return err;
}

int braid_cmd_analyze(int argc, char **argv)
{
	struct analyze a = { .top = DEFAULT_TOP };
	int err = braid_options_parse(&braid_command_analyze, &a, argc, argv);

	if (!err)
		err = choose(&a, argv[optind]);
	if (!err && a.against)
		argv[optind] = (char *)a.against;	/* the name's place is free: OTHER precedes the files */
	if (!err)
		err = analyze(&a, argv + optind + !a.against, argc - optind - !a.against);
	return braid_trace_exit(&a.trace, err);
}
