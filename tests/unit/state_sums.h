/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long each vCPU of a capture was in each state, by the state machine alone. */
#ifndef BRAID_TESTS_STATE_SUMS_H
#define BRAID_TESTS_STATE_SUMS_H

#include "host_agent/walk/options.h"

/*
 * Writes a line for each state that a vCPU was in to a file: guest, vCPU, state, ns. Of the
 * options, stream, one_cpu, and from and to of kind BRAID_MOMENT_SINCE apply.
 */
void state_sums(const char *capture, const struct braid_walk_options *options, const char *path);

#endif /* BRAID_TESTS_STATE_SUMS_H */
