/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads definitions of probes in the syntax of tracefs' kprobe_events and uprobe_events. */
#ifndef BRAID_CONTROL_PROBE_H
#define BRAID_CONTROL_PROBE_H

#include "host_agent/control/control.h"

/**
 * braid_probe_parse - read a definition
 * @out: filled on success; braid_probe_check() accepts it
 * @event: filled on success: the event's name
 * @text: [p|r][:[SYSTEM/]EVENT] PLACE [ARGUMENT]..., as in tracefs, where "p" may be left out and
 *	PLACE may end in %return; @user: PLACE is FILE:OFFSET or FILE:SYMBOL[+OFFSET], else
 *	[MODULE:]SYMBOL[+OFFSET]
 * @user: in a program
 *
 * Return: 0, or -EINVAL with braid_fail().
 */
int braid_probe_parse(struct braid_probe *out, struct braid_pattern *event, const char *text,
		      bool user);

#endif /* BRAID_CONTROL_PROBE_H */
