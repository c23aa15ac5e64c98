// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid report: captures as one timeline. */
#include <errno.h>
#include <string.h>

#include "host_agent/cli/trace_options.h"
#include "host_agent/control/control.h"
#include "tracebraid/tracebraid.h"

struct report {
	struct braid_trace_options trace;
	const char *out;
	bool json;
	bool stats;
};

#define REPORT	struct report

static int take_lines(const struct braid_option *o, void *to, const char *value)
{
	return braid_take_count(o, to, value) ?: braid_trace_take(o, (char *)to - o->at, value);
}

static int take_around(const struct braid_option *o, void *to, const char *value)
{
	return braid_pattern_check(value) ?: braid_trace_take(o, to, value);
}

static const struct braid_option options[] = {
	{ 'j', "json", NULL, BRAID_FLAG(REPORT, json), "one JSON object per line" },
	{ 'o', "output", "OUT", BRAID_STRING(REPORT, out),
	  "write to OUT instead of standard output" },
	BRAID_TRACE_OPTION("around", take_around),
	BRAID_TRACE_OPTION("uncertain", braid_trace_take),
	BRAID_TRACE_OPTION("no-header", braid_trace_take),
	{ .name = "lines", BRAID_TAKE(take_lines, u64, REPORT, trace.max_lines), .least = 1,
	  .of = BRAID_LIBRARY_EXPORT },
	{ 0, "stats", NULL, BRAID_FLAG(REPORT, stats),
	  "event counts; how long each CPU, task and vCPU ran, waited and slept; time in guests, "
	  "exits by reason, steal; losses. With --json as one object. Lists what could not be "
	  "determined" },
	BRAID_TRACE_OPTION("cpus", braid_trace_take),
	{ 0 },
};

const struct braid_cli_command braid_command_report = {
	.name = "report", .summary = "print captures as one timeline", .run = braid_cmd_report,
	.usage = "[OPTION]... FILE...",
	.text =
	"Prints captures as one timeline: all guests and their host, in time order. The FILEs may "
	"include, or all be, what trace-cmd recorded, see `tracebraid merge --help`. "
	"FILE may be -, standard input, up to 1 GiB. A host task that runs a guest's vCPU is "
	"followed by [GUEST/vCPU N], or by [GUEST/all vCPUs] if one thread runs all of them.",
	.options = options, .common = braid_trace_common, .status = BRAID_TRACE_STATUS,
	.least = 1, .most = BRAID_ANY_NUMBER, .expected = "a capture: 'tracebraid report FILE...'",
};

static int report(struct report *r, char **paths, size_t nr)
{
	const char *form = r->stats ? r->json ? "stats.json" : "stats" : r->json ? "json" : "text";
	const char *out = r->out ? r->out : "-";
	const char *const *words = braid_trace_words(&r->trace);
	int err = words ? tracebraid_export_check(form, out, words) : -ENOMEM;

	if (!err)
		err = braid_cli_confine_to(out, paths, nr);
	return err ? err : braid_trace_export(&r->trace, form, out, paths, nr);
}

int braid_cmd_report(int argc, char **argv)
{
	struct report r = { 0 };
	int err = braid_options_parse(&braid_command_report, &r, argc, argv);

	if (!err)
		err = report(&r, argv + optind, argc - optind);
	return braid_trace_exit(&r.trace, err);
}
