/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Serves the metrics over HTTP, by libmicrohttpd, without a thread of its own. */
#ifndef BRAID_SERVE_EXPORTER_H
#define BRAID_SERVE_EXPORTER_H

#include <poll.h>

#include "host_agent/online/exposition.h"
#include "host_agent/serve/conf.h"
#include "host_agent/util/text.h"

/* Writes all metrics. */
typedef void braid_exporter_fn(void *arg, enum braid_exposition_form form, struct braid_text *out);

struct braid_exporter {
	int fds[BRAID_CONF_LISTENS];	/* that listen */
	size_t nr;
	struct MHD_Daemon *daemons[BRAID_CONF_LISTENS];	/* NULL: not started */
	braid_exporter_fn *write;
	void *arg;
};

/**
 * braid_exporter_listen - open all addresses
 * @e: filled on success
 * @conf: "HOST:PORT" with a numeric address, "[IPv6]:PORT", or "unix:PATH"
 *
 * Call before the process is confined.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_exporter_listen(struct braid_exporter *e, const struct braid_conf *conf);

/**
 * braid_exporter_start - answer requests from now on, by braid_exporter_turn()
 * @e: listens
 * @write: called for each request of /metrics
 * @arg: passed to it
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_exporter_start(struct braid_exporter *e, braid_exporter_fn *write, void *arg);

/** braid_exporter_fds - what to sleep on, one for each address. Return: their number */
size_t braid_exporter_fds(const struct braid_exporter *e, struct pollfd fds[BRAID_CONF_LISTENS]);

/** braid_exporter_turn - do what can be done without waiting */
void braid_exporter_turn(const struct braid_exporter *e);

/** braid_exporter_close - close all; a zeroed one is fine */
void braid_exporter_close(struct braid_exporter *e);

#endif /* BRAID_SERVE_EXPORTER_H */
