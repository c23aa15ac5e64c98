/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The recorder as a user starts it, and what it costs, its helper processes included. */
#ifndef BRAID_TESTS_RECORDER_H
#define BRAID_TESTS_RECORDER_H

#include <stdio.h>
#include <sys/types.h>

#include "tracebraid/types.h"

/**
 * recorder_start - start `tracebraid record` of some regions
 * @regions: as for -r
 * @nr: of them, 500 at most
 * @capture: for -o
 * @said: file for its standard error
 */
pid_t recorder_start(char *const *regions, int nr, const char *capture, const char *said);

/* Starts `tracebraid watch` of them, which records the host, too. */
pid_t recorder_watch(char *const *regions, int nr, const char *said);

/*
 * Starts `tracebraid record --live --json` of two regions, without a file. *lines: its output, to
 * be closed.
 */
pid_t recorder_live(const char *region, const char *other, FILE **lines, const char *said);

/* Memory that a process and its descendants alone have, without files. */
u64 recorder_memory_kb(pid_t pid);

/* Waits until it records. Exits on failure. */
void recorder_await(const char *said);

/* The CPU time of a process and its descendants, in ns. */
u64 recorder_cpu_ns(pid_t pid);

/* Ends it. Exits if it failed. */
void recorder_stop(pid_t pid);

void sleep_ns(u64 ns);

#endif /* BRAID_TESTS_RECORDER_H */
