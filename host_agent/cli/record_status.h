/* SPDX-License-Identifier: GPL-2.0-or-later */
/* record --status-fd: the state of a recording as JSON lines, for the program that started it. */
#ifndef BRAID_CLI_RECORD_STATUS_H
#define BRAID_CLI_RECORD_STATUS_H

#include "host_agent/record/record.h"
#include "host_agent/util/text.h"

struct braid_record_status {
	int fd;			/* -1: not wanted, or its reader is gone: */
	bool gone;
	struct braid_text line;	/* what is left of it to write, from ... */
	size_t from;		/* ... on */
	u64 dropped;		/* lines since the last: not read in time */
};

/**
 * braid_record_status_begin - take the descriptor
 * @fd: a pipe, FIFO, socket or file; 0: none
 *
 * It does not block from then on, and COMMAND does not get it.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_record_status_begin(struct braid_record_status *s, u64 fd);

/** braid_record_status_put - write a line: "started", "progress" or "stopped" */
void braid_record_status_put(struct braid_record_status *s, const char *type,
			     const struct braid_recording *r);

/** braid_record_status_say - write a message; @name: the guest, or NULL */
void braid_record_status_say(struct braid_record_status *s, const char *name, const char *text);

/** braid_record_status_gone - whether it is wanted, and its reader is gone */
bool braid_record_status_gone(const struct braid_record_status *s);

/** braid_record_status_end - free */
void braid_record_status_end(struct braid_record_status *s);

#endif /* BRAID_CLI_RECORD_STATUS_H */
