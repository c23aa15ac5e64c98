// SPDX-License-Identifier: GPL-2.0-or-later
/* The formats of exports, by name. */
#include <string.h>

#include "host_agent/export/ctf/form.h"
#include "host_agent/export/export.h"
#include "host_agent/export/html/form.h"
#include "host_agent/export/perfetto/form.h"
#include "host_agent/export/stats/form.h"
#include "host_agent/export/text/form.h"
#include "host_agent/export/trace_dat/form.h"
#include "host_agent/export/trace_dat/trace_dat.h"

static const struct braid_export_form forms[] = {
	{ "text", "one text file, as 'report' prints it", .write = braid_export_text },
	{ "json", "one file with a JSON object per line, as 'report --json' prints it",
	  .write = braid_export_json },
	{ "ctf", "a folder with a CTF trace per stream, for babeltrace2 and Trace Compass",
	  .makes_many = true, .takes_states = true, .run = braid_export_ctf },
	{ "html", "one page for any browser: lanes, spans, a table of all events; needs no network",
	  .run = braid_export_html },
	{ "perfetto", "one file for ui.perfetto.dev and trace_processor: each guest is a machine",
	  .write = braid_export_perfetto },
	{ "trace.dat", "OUT.dat for the host and OUT-GUEST.dat for each guest, for trace-cmd and KernelShark",
	  .makes_many = true, .takes_states = true, .run = braid_export_trace_dat },
	{ "trace.dat-v6", "the same in the older version 6, for trace-cmd before 3.0",
	  .makes_many = true, .run = braid_export_trace_dat_v6 },
	{ "stats", "one text file with counts, times and losses, as 'report --stats' prints it",
	  .write = braid_export_stats },
	{ "stats.json", "the same as one JSON object, as 'report --stats --json' prints it",
	  .write = braid_export_stats_json },
};

#define NR_FORMS	(sizeof(forms) / sizeof(forms[0]))

const struct braid_export_form *braid_export_form_by_number(size_t number)
{
	return number < NR_FORMS ? &forms[number] : NULL;
}

const struct braid_export_form *braid_export_form_by_name(const char *name)
{
	size_t k;

	for (k = 0; k < NR_FORMS; k++)
		if (!strcmp(forms[k].name, name))
			return &forms[k];
	return NULL;
}

int braid_export_run(const struct braid_export_form *form, const char *out,
		     struct braid_source *source, const struct braid_walk_options *options,
		     struct braid_walk_totals *totals)
{
	return form->write ? braid_export_to_file(out, source, options, totals, form->write) :
			     form->run(out, source, options, totals);
}
