// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Samples of what the host's kernel executes: its stack at each tick of a CPU that is not idle, by
 * a trigger of the tick's timer. So samples come at the kernel's own rate, CONFIG_HZ.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/live/tracefs_private.h"
#include "host_agent/util/cleanup.h"

#define TIMER_SYSTEM	"timer"
#define TIMER_EVENT	"hrtimer_expire_entry"

/* The address of a function, of a line "address type name"; 0: none. */
static unsigned long long stacks_find(const char *kallsyms, const char *name)
{
	const char *at = kallsyms;
	size_t bytes = strlen(name);

	for (; (at = strstr(at, name)); at += bytes)
		if (at - kallsyms >= 19 && at[-1] == ' ' && strchr("tT", at[-2]) &&
		    strchr("\n \t", at[bytes]))
			return strtoull(at - 19, NULL, 16);
	return 0;
}

/*
 * What the tick's timer calls: tick_sched_timer() before Linux 6.9, which also has another function
 * with the later one's name.
 */
static unsigned long long stacks_find_tick(void)
{
	braid_auto_free char *text = braid_host_read_file("/proc/kallsyms", NULL);

	if (!text)
		return 0;
	return stacks_find(text, "tick_sched_timer") ?: stacks_find(text, "tick_nohz_handler");
}

bool braid_host_sample_stacks(struct braid_tracefs_source *s)
{
	unsigned long long tick = stacks_find_tick();
	char trigger[64];

	snprintf(trigger, sizeof(trigger), "stacktrace if function == 0x%llx", tick);
	return tick && tracefs_event_file_write(s->instance, TIMER_SYSTEM, TIMER_EVENT, "trigger",
						trigger) >= 0;
}
