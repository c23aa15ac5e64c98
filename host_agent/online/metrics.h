/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The sums of an engine as metrics; docs/metrics.md has their names. */
#ifndef BRAID_ONLINE_METRICS_H
#define BRAID_ONLINE_METRICS_H

#include "host_agent/online/exposition.h"
#include "host_agent/online/online.h"

/**
 * braid_online_metrics - write all families
 * @o: the engine
 * @e: the text; other families, and its end, may follow
 */
void braid_online_metrics(const struct braid_online *o, struct braid_exposition *e);

#endif /* BRAID_ONLINE_METRICS_H */
