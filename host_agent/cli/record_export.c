// SPDX-License-Identifier: GPL-2.0-or-later
/* What `record --to` does when the recording has ended: `export`, in the same process. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/cli/record_command.h"
#include "host_agent/cli/trace_options.h"
#include "host_agent/util/error.h"
#include "host_agent/util/landlock.h"
#include "tracebraid/tracebraid.h"

int braid_record_prepare_export(struct braid_record_command *r)
{
	size_t bytes = strlen(r->o.file);
	int n, err;

	if (!r->to.form)
		return 0;
	err = tracebraid_export_check(r->to.form, r->o.file, NULL);
	if (err)
		return err;
	if (r->o.flight.wanted || r->o.live.wanted)
		return braid_fail(-EINVAL, "--to cannot be combined with %s: export the captures afterwards",
				  r->o.live.wanted ? "--live" : "--snapshot");
	if (!strcmp(r->o.file, BRAID_RECORD_FILE) || !strcmp(r->o.file, "-"))
		return braid_fail(-EINVAL, "--to=%s: needs -o OUT, the output file or folder",
				  r->to.form);
	if (braid_trace_check_output(r->to.form, r->o.file))
		return -EINVAL;
	while (bytes > 1 && r->o.file[bytes - 1] == '/')	/* beside the folder, not in it */
		bytes--;
	n = snprintf(r->to.capture, sizeof(r->to.capture), "%.*s.braid", (int)bytes, r->o.file);
	if (n < 0 || (size_t)n >= sizeof(r->to.capture))
		return braid_fail(-ENAMETOOLONG, "--output: the name is too long");
	r->to.out = r->o.file;
	r->o.file = r->to.capture;
	return braid_landlock_allow(r->to.out, BRAID_PLACE_OUTPUT);
}

int braid_record_export(struct braid_record_command *r)
{
	char *paths[] = { r->to.capture };
	struct braid_trace_options trace = { 0 };
	int err;

	if (!r->to.form)
		return 0;
	err = braid_trace_export(&trace, r->to.form, r->to.out, paths, 1);
	braid_progress_end(&trace.progress);
	braid_trace_free(&trace);
	if (!err && !r->o.quiet)
		fprintf(stderr, "Exported to %s as %s\n", r->to.out, r->to.form);
	return err;
}
