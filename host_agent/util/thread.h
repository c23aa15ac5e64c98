/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Threads other than the main one. */
#ifndef BRAID_UTIL_THREAD_H
#define BRAID_UTIL_THREAD_H

#include <pthread.h>

/** braid_thread_begin - pthread_create(); the thread blocks all signals but those of CPU faults */
int braid_thread_begin(pthread_t *thread, void *(*run)(void *arg), void *arg);

/** braid_thread_cpus - on how many CPUs this thread may run; 1 if that is unknown */
unsigned int braid_thread_cpus(void);

/** braid_thread_relax - in a loop that waits for another thread: leaves the core to its other hardware thread */
static inline void braid_thread_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif /* BRAID_UTIL_THREAD_H */
