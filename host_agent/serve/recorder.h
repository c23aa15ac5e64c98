/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The recorder that the service starts. */
#ifndef BRAID_SERVE_RECORDER_H
#define BRAID_SERVE_RECORDER_H

#include "host_agent/library/program.h"
#include "host_agent/serve/conf.h"

/**
 * braid_recorder_start - start one
 * @p: the process
 * @conf: what it records
 * @directory: for its files
 * @program: tracebraid
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_recorder_start(struct braid_program *p, const struct braid_conf *conf,
			 const char *directory, const char *program);

#endif /* BRAID_SERVE_RECORDER_H */
