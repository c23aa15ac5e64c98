// SPDX-License-Identifier: GPL-2.0-or-later
/* Creates threads that leave signals to the main one. */
#include <sched.h>
#include <signal.h>

#include "host_agent/util/thread.h"

int braid_thread_begin(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	err = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

unsigned int braid_thread_cpus(void)
{
	cpu_set_t set;

	/* The call fails if the machine has more CPUs than the set. */
	return sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);
}
