/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Moments of the timeline as people write them. */
#ifndef BRAID_EXPORT_MOMENT_H
#define BRAID_EXPORT_MOMENT_H

#include <stdbool.h>

#include "host_agent/export/export.h"

/**
 * braid_moment_parse - parse a moment
 * @m: set on success
 * @text: seconds as a report shows them, +SECONDS from the first event, -SECONDS from the
 *	recording's end, or a date as 2026-01-31T12:00:00.5, in UTC if a Z follows
 * @date: set: it is a date, which needs wall time
 *
 * Return: 0, or -EINVAL with braid_fail().
 */
int braid_moment_parse(struct braid_export_moment *m, const char *text, bool *date);

#endif /* BRAID_EXPORT_MOMENT_H */
