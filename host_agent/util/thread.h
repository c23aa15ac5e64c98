/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Threads other than the main one. */
#ifndef BRAID_UTIL_THREAD_H
#define BRAID_UTIL_THREAD_H

#include <pthread.h>

/** braid_thread_begin - pthread_create(); the thread blocks all signals but those of CPU faults */
int braid_thread_begin(pthread_t *thread, void *(*run)(void *arg), void *arg);

/** braid_thread_cpus - on how many CPUs this thread may run; 1 if that is unknown */
unsigned int braid_thread_cpus(void);

#endif /* BRAID_UTIL_THREAD_H */
