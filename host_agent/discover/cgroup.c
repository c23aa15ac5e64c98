// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads what cgroups say of CPU quotas. */
#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/discover/cgroup.h"
#include "host_agent/util/cleanup.h"

#define FILE_BYTES	4096u

/* Whether a word is in a list with commas. */
static bool cgroup_lists(const char *list, const char *word)
{
	size_t bytes = strlen(word);

	for (; list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL)
		if (!strncmp(list, word, bytes) && (!list[bytes] || list[bytes] == ','))
			return true;
	return false;
}

bool braid_cgroups_find(struct braid_cgroups *of)
{
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	char line[FILE_BYTES];
	struct mntent one;
	bool found = false;

	while (mounts && getmntent_r(mounts, &one, line, sizeof(line))) {
		bool is_v1 = !strcmp(one.mnt_type, "cgroup") && cgroup_lists(one.mnt_opts, "cpu");

		if ((!is_v1 && strcmp(one.mnt_type, "cgroup2")) || (found && !is_v1) ||
		    strlen(one.mnt_dir) >= sizeof(of->mount))
			continue;
		snprintf(of->mount, sizeof(of->mount), "%s", one.mnt_dir);
		of->is_v2 = !is_v1;
		found = true;
	}
	if (mounts)
		endmntent(mounts);
	return found;
}

/* All of a small file, terminated. Return: bytes, or -errno. */
static ssize_t cgroup_read(const char *path, char text[FILE_BYTES])
{
	braid_auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : pread(fd, text, FILE_BYTES - 1, 0);

	if (got < 0)
		return -errno;
	text[got] = 0;
	return got;
}

static int cgroup_file(const struct braid_cgroups *of, const char *path, const char *name,
		       char file[1024])
{
	int bytes = snprintf(file, 1024, "%s%s%s%s", of->mount, path, *name ? "/" : "", name);

	return bytes < 1024 ? 0 : -ENAMETOOLONG;
}

int braid_cgroup_of_thread(const struct braid_cgroups *of, pid_t tid, char path[BRAID_CGROUP_PATH])
{
	char file[1024], text[FILE_BYTES], *line, *next, *controllers, *at;
	ssize_t got;

	snprintf(file, sizeof(file), "/proc/%d/cgroup", (int)tid);
	got = cgroup_read(file, text);
	for (line = text; got > 0 && *line; line = next) {
		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = 0;
		controllers = strchr(line, ':');
		at = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!at)
			continue;
		*at++ = 0;
		if (of->is_v2 ? controllers[1] : !cgroup_lists(controllers + 1, "cpu"))
			continue;
		if (strstr(at, "/..") || strlen(at) >= BRAID_CGROUP_PATH)
			return -ENOENT;
		strcpy(path, strcmp(at, "/") ? at : "");
		return cgroup_file(of, path, "", file) || access(file, F_OK) ? -ENOENT : 0;
	}
	return got < 0 ? (int)got : -ENOENT;
}

bool braid_cgroup_has_quota(const struct braid_cgroups *of, const char *path, u64 *id)
{
	char file[1024], text[FILE_BYTES];
	struct stat st;

	if (cgroup_file(of, path, of->is_v2 ? "cpu.max" : "cpu.cfs_quota_us", file) ||
	    cgroup_read(file, text) <= 0 || strtoll(text, NULL, 10) <= 0)
		return false;
	if (cgroup_file(of, path, "", file) || stat(file, &st))
		return false;
	*id = st.st_ino;
	return true;
}

int braid_cgroup_stat(const struct braid_cgroups *of, const char *path)
{
	char file[1024];
	int fd = cgroup_file(of, path, "cpu.stat", file);

	if (!fd)
		fd = open(file, O_RDONLY | O_CLOEXEC);
	return fd == -1 ? -errno : fd;
}

bool braid_cgroup_throttled(int stat, u64 *ns)
{
	char text[FILE_BYTES], *line;
	ssize_t got = pread(stat, text, sizeof(text) - 1, 0);

	if (got <= 0)
		return false;
	text[got] = 0;
	line = strstr(text, "throttled_usec ");
	if (line) {
		*ns = strtoull(line + strlen("throttled_usec "), NULL, 10) * 1000;
		return true;
	}
	line = strstr(text, "throttled_time ");
	if (line)
		*ns = strtoull(line + strlen("throttled_time "), NULL, 10);
	return line;
}
