// SPDX-License-Identifier: GPL-2.0-or-later
/* The directory of the recording's files. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "host_agent/serve/analyst.h"
#include "host_agent/serve/journal.h"
#include "host_agent/serve/window.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"

/* Return: how many files of a recording it had; @bytes: of all of them. */
static u32 window_empty(const char *directory, u64 *bytes)
{
	DIR *dir = opendir(directory);
	struct dirent *entry;
	struct stat st;
	u32 nr = 0;

	*bytes = 0;
	while (dir && (entry = readdir(dir))) {
		if (!braid_analyst_number(entry->d_name))
			continue;
		if (!fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
			*bytes += st.st_size;
		unlinkat(dirfd(dir), entry->d_name, 0);
		nr++;
	}
	if (dir)
		closedir(dir);
	return nr;
}

int braid_window_make(const char *path)
{
	struct stat st;

	if (mkdir(path, 0700) && errno != EEXIST)
		return braid_fail(-errno, "%s: cannot be created: %s", path, strerror(errno));
	if (lstat(path, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
		return braid_fail(-EPERM, "%s: not a directory of this user; remove it", path);
	return 0;
}

void braid_window_discard(const char *directory)
{
	char line[256];
	u64 bytes;
	u32 nr = window_empty(directory, &bytes);

	if (!nr)
		return;
	snprintf(line, sizeof(line), "the former service did not stop by itself: its window is removed, %llu KB in %u file%s; all counters begin at 0",
		 (unsigned long long)(bytes >> 10), nr, nr == 1 ? "" : "s");
	braid_journal_say(LOG_WARNING, line, NULL);
}

void braid_window_empty(const char *directory)
{
	u64 bytes;

	window_empty(directory, &bytes);
}

size_t braid_window_files(const char *directory, u32 numbers[BRAID_WINDOW_FILES],
			  size_t *left_out)
{
	braid_auto_dir DIR *dir = opendir(directory);
	struct dirent *entry;
	size_t nr = 0, more = 0, k;
	u32 number;

	while (dir && (entry = readdir(dir))) {
		number = braid_analyst_number(entry->d_name);
		if (!number)
			continue;
		for (k = nr; k && numbers[k - 1] > number; k--)
			;	/* before those that are newer */
		if (nr < BRAID_WINDOW_FILES) {
			memmove(&numbers[k + 1], &numbers[k], (nr++ - k) * sizeof(*numbers));
			numbers[k] = number;
			continue;
		}
		more++;
		if (!k)
			continue;
		memmove(&numbers[0], &numbers[1], (k - 1) * sizeof(*numbers));
		numbers[k - 1] = number;
	}
	if (left_out)
		*left_out = more;
	return nr;
}
