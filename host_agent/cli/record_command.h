/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of `tracebraid record` share among themselves. */
#ifndef BRAID_CLI_RECORD_COMMAND_H
#define BRAID_CLI_RECORD_COMMAND_H

#include "host_agent/record/record.h"

#define BRAID_RECORD_FILE	"tracebraid.braid"

/* The export of the capture when it is complete. */
struct braid_record_to {
	const char *form;			/* NULL: none */
	const char *out;
	char capture[4096];			/* kept beside it */
};

struct braid_record_command {
	struct braid_record_options o;
	struct braid_record_to to;
	u64 status_fd;		/* 0: none */
};

/*
 * record_show.c: records, and prints on stderr what happens, and to @status_fd if that is not 0. 0 or
 * -errno with braid_fail().
 */
int braid_record_show(struct braid_record_options *o, u64 status_fd,
		      struct braid_record_result *result);

/*
 * record_export.c: --to. Checks before we are confined; and the export, once the capture is complete. 0
 * or -errno with braid_fail().
 */
int braid_record_prepare_export(struct braid_record_command *r);
int braid_record_export(struct braid_record_command *r);

#endif /* BRAID_CLI_RECORD_COMMAND_H */
