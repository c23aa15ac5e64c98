// SPDX-License-Identifier: GPL-2.0-or-later
/* Names in a folder that was opened once. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/util/folder.h"

const char *braid_folder_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

int braid_folder_open(const char *path)
{
	const char *name = braid_folder_name(path);
	char folder[PATH_MAX];
	int fd;

	if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
		return *path ? -EISDIR : -ENOENT;
	if (name - path >= (int)sizeof(folder))
		return -ENAMETOOLONG;
	snprintf(folder, sizeof(folder), "%.*s", (int)(name - path), path);
	fd = open(*folder ? folder : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd >= 0 ? fd : -errno;
}

bool braid_folder_has(int folder, const char *name, const struct stat *made)
{
	struct stat st;

	return !fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) && st.st_dev == made->st_dev &&
	       st.st_ino == made->st_ino;
}

int braid_folder_remove(int folder, const char *name, const struct stat *made)
{
	if (!braid_folder_has(folder, name, made))
		return -ESTALE;
	return unlinkat(folder, name, S_ISDIR(made->st_mode) ? AT_REMOVEDIR : 0) ? -errno : 0;
}

int braid_folder_rename(int folder, const char *name, const char *to, const struct stat *made)
{
	if (!braid_folder_has(folder, name, made))
		return -ESTALE;
	return renameat(folder, name, folder, to) ? -errno : 0;
}
