// SPDX-License-Identifier: GPL-2.0-or-later
/* Turns the SIGBUS of a shrunk mapping into an errno. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>

#include "host_agent/transport/guard.h"
#include "host_agent/util/error.h"

struct guard {
	struct guard *outer;
	uintptr_t base;
	u64 bytes;
	sigjmp_buf env;
};

/* Effectively initial-exec: it is accessed before any signal can arrive, see braid_guard_run(). */
static _Thread_local struct guard *volatile innermost;
static pthread_once_t installed = PTHREAD_ONCE_INIT;

static void on_sigbus(int signal_number, siginfo_t *info, void *context)
{
	uintptr_t address = (uintptr_t)info->si_addr;
	struct guard *g;

	(void)context;
	for (g = innermost; g; g = g->outer) {
		if (address - g->base >= g->bytes)
			continue;
		innermost = g->outer;
		siglongjmp(g->env, 1);
	}
	/* Not ours: let it do what it would have done. */
	signal(signal_number, SIG_DFL);
}

static void install(void)
{
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_sigaction = on_sigbus;
	/* Not blocked inside, since siglongjmp() leaves without restoring the mask. */
	action.sa_flags = SA_SIGINFO | SA_NODEFER;
	sigaction(SIGBUS, &action, NULL);
}

int braid_guard_run(const void *base, u64 bytes, int (*fn)(void *arg), void *arg)
{
	struct guard g;
	int ret;

	pthread_once(&installed, install);
	g.outer = innermost;
	g.base = (uintptr_t)base;
	g.bytes = bytes;
	if (sigsetjmp(g.env, 0))
		return braid_fail(-EFAULT, "the region's file was truncated");
	innermost = &g;
	ret = fn(arg);
	innermost = g.outer;
	return ret;
}

struct copy {
	void *to;
	const void *from;
	size_t bytes;
};

static int guard_copy(void *arg)
{
	const struct copy *copy = arg;

	memcpy(copy->to, copy->from, copy->bytes);
	return 0;
}

int braid_guard_copy(const void *base, u64 bytes, void *to, const void *from, size_t nr)
{
	struct copy copy = { to, from, nr };

	return braid_guard_run(base, bytes, guard_copy, &copy);
}
