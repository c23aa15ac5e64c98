// SPDX-License-Identifier: GPL-2.0-or-later
/* The agent's own tracefs instances. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tracefs.h>
#include <unistd.h>

#include "host_agent/util/instance.h"

#define PREFIX	"tracebraid-"
#define TRIES	50		/* the kernel releases a mapping's user slightly later */
#define STEP_NS	2000000

struct tracefs_instance *braid_instance_create(const char *suffix)
{
	struct tracefs_instance *instance;
	char name[64];

	snprintf(name, sizeof(name), PREFIX "%d%s", (int)getpid(), suffix);
	errno = 0;
	instance = tracefs_instance_create(name);
	if (!instance && !errno)
		errno = EIO;
	return instance;
}

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

/* Dead, or an unreaped zombie, which has no open files either. */
bool braid_instance_owner_is_dead(long pid)
{
	char path[64], line[128], *state;
	size_t n;
	FILE *f;

	if (kill(pid, 0))
		return errno == ESRCH;
	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fread(line, 1, sizeof(line) - 1, f);
	fclose(f);
	line[n] = 0;
	state = strrchr(line, ')');
	return state && (!strncmp(state, ") Z", 3) || !strncmp(state, ") X", 3));
}

/* An instance of an agent that is dead. */
static bool is_stale(const char *name)
{
	char *end;
	long pid;

	if (strncmp(name, PREFIX, strlen(PREFIX)))
		return false;
	name += strlen(PREFIX);
	pid = strtol(name, &end, 10);
	return isdigit((unsigned char)*name) && pid > 0 &&
	       (!strcmp(end, BRAID_INSTANCE_RECORD) || !strcmp(end, BRAID_INSTANCE_CLOCK) ||
		!strcmp(end, BRAID_INSTANCE_WATCH)) && braid_instance_owner_is_dead(pid);
}

void braid_instance_remove_stale(void)
{
	const char *root = tracefs_tracing_dir();
	char path[512];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/instances", root ? root : "");
	dir = root ? opendir(path) : NULL;
	while (dir && (entry = readdir(dir)))
		if (is_stale(entry->d_name))
			unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
	if (dir)
		closedir(dir);
}
