/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Threads beside the main one. */
#ifndef BRAID_UTIL_THREAD_H
#define BRAID_UTIL_THREAD_H

#include <pthread.h>

/** braid_thread_begin - as pthread_create(); signals, but for those of its own faults, are the other threads' */
int braid_thread_begin(pthread_t *thread, void *(*run)(void *arg), void *arg);

#endif /* BRAID_UTIL_THREAD_H */
