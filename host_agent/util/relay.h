/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Batches of work that two threads, on two CPUs, take through the same stages. */
#ifndef BRAID_UTIL_RELAY_H
#define BRAID_UTIL_RELAY_H

#include <stdbool.h>
#include <stddef.h>

#define BRAID_RELAY_RUNNERS	2u	/* threads, each with one batch */
#define BRAID_RELAY_STAGES	4u	/* at most */

/* A stage: all that is to be done with a batch before the next stage. */
struct braid_relay_stage {
	/*
	 * The first stage fills the runner's batch, and returns 1 if more follow and 0 if this is the last one; the
	 * others return 0. Each may fail: -errno with braid_fail(), or -EPIPE.
	 */
	int (*run)(void *arg, size_t runner);
	bool at_once;	/* for both batches at the same time; else for one after the other, in their order */
};

/** braid_relay_can - whether this thread may run on two CPUs or more */
bool braid_relay_can(void);

/**
 * braid_relay_run - run batches through all stages
 * @stages: the first one is not at_once
 * @nr: of them
 * @arg: for them
 *
 * This thread is runner 0, one that ends before the return is runner 1. A runner keeps its batch to the last stage, so
 * that it stays in the cache of one CPU. What a stage that is not at_once uses alone needs no lock.
 *
 * A batch that fails goes no further, nor do those after it; those before it do. If the first stage fails, what it put
 * into the batch before still goes through the others.
 *
 * Return: 0; or of the first batch that failed, what its stage returned, with its message.
 */
int braid_relay_run(const struct braid_relay_stage *stages, size_t nr, void *arg);

#endif /* BRAID_UTIL_RELAY_H */
