// SPDX-License-Identifier: GPL-2.0-or-later
/* The forms that there are, and files that are whole or not there. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/export/export.h"
#include "host_agent/export/form_ctf.h"
#include "host_agent/export/trace_dat.h"
#include "host_agent/util/error.h"

/* As private as the capture: it tells the same. */
static FILE *create_private(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	return fd < 0 ? NULL : fdopen(fd, "w");
}

int braid_export_to_file(const char *out, struct braid_source *source,
			 const struct braid_export_options *options,
			 struct braid_export_totals *totals,
			 int (*write)(FILE *to, struct braid_source *source,
				      const struct braid_export_options *options,
				      struct braid_export_totals *totals))
{
	char part[4096];
	struct stat st;
	bool direct;
	FILE *to;
	int err;

	if (!strcmp(out, "-"))
		return write(stdout, source, options, totals);
	direct = !stat(out, &st) && !S_ISREG(st.st_mode);
	if (snprintf(part, sizeof(part), direct ? "%s" : "%s.part", out) >= (int)sizeof(part))
		return braid_fail(-ENAMETOOLONG, "the name of the output file is too long");
	to = create_private(part);
	if (!to)
		return braid_fail(-errno, "cannot create '%s': %s", part, strerror(errno));
	err = write(to, source, options, totals);
	if (fclose(to) && !err)
		err = braid_fail(-errno, "cannot write '%s': %s", part, strerror(errno));
	if (!err && !direct && rename(part, out))
		err = braid_fail(-errno, "cannot rename '%s' to '%s': %s", part, out,
				 strerror(errno));
	if (err && !direct)
		unlink(part);
	return err;
}

static int run_text(const char *out, struct braid_source *source,
		    const struct braid_export_options *options,
		    struct braid_export_totals *totals)
{
	return braid_export_to_file(out, source, options, totals, braid_export_text);
}

static int run_json(const char *out, struct braid_source *source,
		    const struct braid_export_options *options,
		    struct braid_export_totals *totals)
{
	return braid_export_to_file(out, source, options, totals, braid_export_json);
}

static int run_perfetto(const char *out, struct braid_source *source,
			const struct braid_export_options *options,
			struct braid_export_totals *totals)
{
	return braid_export_to_file(out, source, options, totals, braid_export_perfetto);
}

static const struct braid_export_form forms[] = {
	{ "text", "one file of lines for people, as 'report' prints them", false, NULL,
	  run_text },
	{ "json", "one file of JSON objects, one a line, as 'report --json' prints them", false,
	  NULL, run_json },
	{ "ctf", "a folder of CTF traces, one a stream: for babeltrace2, Trace Compass", true,
	  braid_export_ctf_prepare, braid_export_ctf },
	{ "html", "one file for any browser: lanes, spans, a table of all events; no network",
	  false, NULL, braid_export_html },
	{ "perfetto", "one file for ui.perfetto.dev and trace_processor: each guest is a machine",
	  false, NULL, run_perfetto },
	{ "trace.dat", "OUT.dat of the host and OUT-GUEST.dat of each guest, for trace-cmd, KernelShark",
	  true, NULL, braid_export_trace_dat },
	{ "trace.dat-v6", "the same in the older version 6, for trace-cmd before 3.0", true, NULL,
	  braid_export_trace_dat_v6 },
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
