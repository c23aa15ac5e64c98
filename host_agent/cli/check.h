/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether a ring's accounting agrees with what its capture holds. */
#ifndef BRAID_CLI_CHECK_H
#define BRAID_CLI_CHECK_H

#include "host_agent/trace/source.h"
#include "host_agent/util/text.h"

/**
 * braid_check_account - check that a ring's counts are consistent
 * @ring: walked to its end
 * @why: extended by one phrase for each contradiction, "; " between them
 *
 * Return: true when consistent; unknown counts are not checked.
 */
bool braid_check_account(const struct braid_ring *ring, struct braid_text *why);

/**
 * braid_walk_rings - move every ring to its end, so that its walk is complete
 * @source: rewound
 *
 * Return: 0, or -errno with braid_fail() (I/O).
 */
int braid_walk_rings(struct braid_source *source);

#endif /* BRAID_CLI_CHECK_H */
