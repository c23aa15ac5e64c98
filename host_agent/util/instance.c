// SPDX-License-Identifier: GPL-2.0-or-later
/* Removes tracefs instances that the agent has made. */
#include <errno.h>
#include <time.h>
#include <tracefs.h>

#include "host_agent/util/instance.h"

#define TRIES	50		/* the kernel releases a mapping's user slightly later */
#define STEP_NS	2000000

void braid_instance_remove(struct tracefs_instance *instance)
{
	const struct timespec step = { .tv_nsec = STEP_NS };
	int tries;

	if (!instance)
		return;
	tracefs_trace_off(instance);
	for (tries = 0; tries < TRIES; tries++) {
		if (!tracefs_instance_destroy(instance) || errno != EBUSY)
			break;
		nanosleep(&step, NULL);
	}
	tracefs_instance_free(instance);
}
