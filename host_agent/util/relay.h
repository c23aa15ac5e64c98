/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Two threads, on two CPUs, take batches of work through the same stages. */
#ifndef BRAID_UTIL_RELAY_H
#define BRAID_UTIL_RELAY_H

#include <stdbool.h>
#include <stddef.h>

#define BRAID_RELAY_RUNNERS	2u	/* threads; each has one batch at a time */
#define BRAID_RELAY_STAGES	4u	/* the largest number */

/* A step of the work on a batch. */
struct braid_relay_stage {
	/*
	 * The first stage fills the runner's batch. It returns 1 if more batches follow, and 0 if
	 * this is the last one. The other stages return 0. On failure a stage returns -errno with
	 * braid_fail(), or -EPIPE.
	 */
	int (*run)(void *arg, size_t runner);
	/* Both runners may be in it at the same time; else it takes one batch after the other. */
	bool at_once;
};

/** braid_relay_can - whether this thread may run on two or more CPUs */
bool braid_relay_can(void);

/**
 * braid_relay_run - take batches through all stages
 * @stages: the first one must not be at_once
 * @nr: number of stages
 * @arg: passed to them
 *
 * The calling thread is runner 0. Runner 1 is a thread that ends before this function returns. A
 * runner takes its batch through all stages, so that the batch stays in the cache of one CPU. Data
 * that only one stage uses needs no lock, unless that stage is at_once.
 *
 * If a batch fails, it and all later batches go no further; earlier ones do. If the first stage
 * fails, the other stages still process what it has put into the batch.
 *
 * Return: 0, or what the stage of the earliest failed batch returned, with its message.
 */
int braid_relay_run(const struct braid_relay_stage *stages, size_t nr, void *arg);

#endif /* BRAID_UTIL_RELAY_H */
