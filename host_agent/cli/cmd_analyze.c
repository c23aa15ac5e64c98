// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid analyze: answers a question about captures. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/cli/trace_options.h"
#include "tracebraid/tracebraid.h"

struct analyze {
	struct braid_trace_options trace;	/* first, as its functions expect it */
	const char *out;
	const char *against;
	bool windows;			/* OTHER's time is not FILE's */
};

#define ANALYZE	struct analyze

static int take_window(const struct braid_option *o, void *to, const char *value)
{
	struct analyze *a = to;

	a->windows = true;
	return braid_trace_take(o, to, value);
}

static const struct braid_option options[] = {
	BRAID_TRACE_ANALYSIS("top", braid_trace_take),
	BRAID_TRACE_ANALYSIS("json", braid_trace_take),
	BRAID_TRACE_ANALYSIS("csv", braid_trace_take),
	{ 'o', "output", "OUT", BRAID_STRING(ANALYZE, out),
	  "write to OUT instead of standard output" },
	{ 0, "against", "OTHER", BRAID_STRING(ANALYZE, against),
	  "compare with the capture OTHER: show what differs, and whether significantly" },
	BRAID_TRACE_ANALYSIS("against-since", take_window),
	BRAID_TRACE_ANALYSIS("against-until", take_window),
	BRAID_TRACE_ANALYSIS("stream", braid_trace_take),
	BRAID_TRACE_ANALYSIS("cpu", braid_trace_take),
	BRAID_TRACE_ANALYSIS("task", braid_trace_take),
	BRAID_TRACE_ANALYSIS("by", braid_trace_take),
	BRAID_TRACE_ANALYSIS("folded", braid_trace_take),
	BRAID_TRACE_ANALYSIS("speedscope", braid_trace_take),
	BRAID_TRACE_ANALYSIS("symbols", braid_trace_take),
	BRAID_TRACE_ANALYSIS("weight", braid_trace_take),
	BRAID_TRACE_ANALYSIS("since", braid_trace_take),
	BRAID_TRACE_ANALYSIS("until", braid_trace_take),
	{ 0 },
};

/* *help is valid until the next call. */
static const char *analysis_by_number(size_t k, const char **help)
{
	const char *name = tracebraid_analysis(k, help), *before = "; takes --", *option;
	static char text[256];
	size_t n, bytes, word;

	if (!name)
		return NULL;
	bytes = snprintf(text, sizeof(text), "%s", *help);
	for (n = 0; (option = braid_library_limited(n)) && bytes < sizeof(text); n++)
		if (tracebraid_analysis_takes(name, option) > 0) {
			word = strcspn(option, "=");
			bytes += snprintf(text + bytes, sizeof(text) - bytes, "%s%.*s%s%s", before,
					  (int)word, option, option[word] ? " " : "",
					  option + word + !!option[word]);
			before = ", --";
		}
	*help = text;
	return name;
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
	.operands = "@analysis",
	.least = 2, .most = BRAID_ANY_NUMBER,
	.expected = "NAME and at least one FILE: 'tracebraid analyze summary FILE...'; the file of "
	"--against does not count as FILE",
};

/* @paths: OTHER first, if there is one. */
static int cmd_analyze_run(struct analyze *a, const char *name, const char *const *words,
			   char **paths, size_t nr,
			   const char *out)
{
	struct braid_trace_options of_other = { 0 };
	struct tracebraid_trace *trace = NULL, *other = NULL;
	int err = 0, first = !!a->against;

	if (a->against)
		err = braid_trace_open(&of_other, &other, paths, 1);
	braid_progress_end(&of_other.progress);
	if (!err)
		err = braid_trace_open(&a->trace, &trace, paths + first, nr - first);
	if (!err && strcmp(out, "-"))
		tracebraid_stop_when(trace, braid_trace_stoppable());
	if (!err)
		err = tracebraid_analyze_to(trace, other, name, words, out);
	tracebraid_close(trace);
	tracebraid_close(other);
	braid_trace_free(&of_other);
	return err;
}

static int analyze(struct analyze *a, const char *name, char **paths, size_t nr)
{
	const char *out = a->out ? a->out : "-";
	const char *const *words = braid_trace_words(&a->trace);
	int err = words ? tracebraid_analyze_check(name, words, !!a->against) : -ENOMEM;

	if (!err)
		err = braid_cli_confine_to(out, paths, nr);
	return err ? err : cmd_analyze_run(a, name, words, paths, nr, out);
}

int braid_cmd_analyze(int argc, char **argv)
{
	struct analyze a = { 0 };
	int err = braid_options_parse(&braid_command_analyze, &a, argc, argv);
	const char *name = argv[optind];

	if (!err && a.windows && !a.against && argc - optind == 2)
		a.against = argv[optind + 1];
	if (!err && a.against)
		argv[optind] = (char *)a.against;	/* the name's place is free: OTHER precedes the files */
	if (!err)
		err = analyze(&a, name, argv + optind + !a.against, argc - optind - !a.against);
	return braid_trace_exit(&a.trace, err);
}
