// SPDX-License-Identifier: GPL-2.0-or-later
/* Common parts of the host's recording: tracefs' path, stale instances, chunks. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/live/tracefs_private.h"
#include "host_agent/util/error.h"

int braid_host_emit(struct braid_tracefs_source *s, u16 type, const void *head, u32 head_bytes,
		    const void *body, u32 body_bytes)
{
	return braid_capture_put(s->o.sink->capture, type, s->stream, head, head_bytes, body,
				 body_bytes);
}

int braid_host_tracefs(const char **root)
{
	*root = tracefs_tracing_dir();
	if (!*root)
		return braid_fail(-ENOENT, "the host can't be recorded: tracefs is not mounted (mount -t tracefs nodev /sys/kernel/tracing)");
	if (access(*root, R_OK | W_OK | X_OK))
		return braid_fail(-EACCES, "the host can't be recorded: no permission for %s; run as root",
				  *root);
	return 0;
}

/* Dead, or an unreaped zombie, which has no open files either. */
static bool is_dead(const char *name)
{
	char path[64], line[128], *end, *state;
	long pid = strtol(name, &end, 10);
	size_t n;
	FILE *f;

	if (!isdigit((unsigned char)*name) || pid <= 0 ||
	    (*end && strcmp(end, "-clock") && strcmp(end, "-on")))
		return false;
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

int braid_tracefs_remove_stale(void)
{
	const char *root = tracefs_tracing_dir();
	char path[512];
	struct dirent *entry;
	int removed = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/instances", root ? root : "");
	dir = root ? opendir(path) : NULL;
	while (dir && (entry = readdir(dir))) {
		if (strncmp(entry->d_name, BRAID_HOST_INSTANCE, strlen(BRAID_HOST_INSTANCE)) ||
		    !is_dead(entry->d_name + strlen(BRAID_HOST_INSTANCE)))
			continue;
		snprintf(path, sizeof(path), "%s/instances/%.64s", root, entry->d_name);
		removed += !rmdir(path);
	}
	if (dir)
		closedir(dir);
	return removed;
}
