/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The service: a recording into a window of files, a process that follows it, and what is to happen
 * when a condition begins to hold.
 *
 * Invariants:
 * - It reads nothing that a guest has written: the recorder and the analyst do, confined. It starts
 *   processes, copies files, and speaks to the service manager.
 * - If the recorder or the analyst ends, it is started again, later each time. What was not
 *   observed meanwhile is in no sum.
 * - A configuration that is not valid changes nothing.
 */
#ifndef BRAID_SERVE_SERVICE_H
#define BRAID_SERVE_SERVICE_H

#include "host_agent/serve/analyst.h"

struct braid_service_options {
	const char *path;	/* of the configuration, read again on SIGHUP; NULL: conf is all */
	struct braid_conf *conf;
	const char *directory;	/* for the recording's files; made, and emptied at the end */
	const char *program;	/* tracebraid */
	double seconds;		/* 0: until a signal */
	/* What guests record is valid. Return: 0, or -errno with braid_fail(). NULL: it is */
	int (*check)(const struct braid_conf *conf, const char *name);
	int (*confine)(void);	/* of the analyst */
	int (*confine_fleet)(void);	/* of the process that speaks to the fleet's server */
	int (*confine_stream)(const char *folder);	/* of the one that stores captures there */
	void (*say)(const char *line);	/* without a journal */
	/* A condition began to hold; @line: why. NULL: the journal has it. */
	void (*fired)(void *arg, const struct braid_analyst_message *m);
	void *arg;
};

/**
 * braid_service_run - until SIGTERM or SIGINT, or for some time
 *
 * Return: 0 or -errno with braid_fail(): it could not start.
 */
int braid_service_run(const struct braid_service_options *o);

#endif /* BRAID_SERVE_SERVICE_H */
