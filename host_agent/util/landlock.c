// SPDX-License-Identifier: GPL-2.0-or-later
/* Takes files, and other processes, out of reach, where the kernel has Landlock. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host_agent/util/cleanup.h"
#include "host_agent/util/landlock.h"
#include "tracebraid/types.h"

#define TRUNCATE	(1ULL << 14)	/* LANDLOCK_ACCESS_FS_TRUNCATE, of Linux 6.2 */
#define READS		(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITES		(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | \
			 LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR | \
			 LANDLOCK_ACCESS_FS_MAKE_REG)
#define NEVER		(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR | \
			 LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | \
			 LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM)

static int allow_below(int rules, int dir, const char *name, u64 access)
{
	braid_auto_fd int fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct landlock_path_beneath_attr rule = { .allowed_access = access, .parent_fd = fd };

	if (fd < 0)	/* not a folder, or a link to one: which is below another one */
		return 0;
	return syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) ? -errno : 0;
}

/* A rule covers the whole subtree, so each folder of / except /proc gets its own. */
static int allow_writing(int rules, u64 access)
{
	struct dirent *entry;
	struct stat root, here;
	int err = 0;
	DIR *dir;

	/* Files of / itself can't be separated from those below /proc. */
	if (!stat("/", &root) && !stat(".", &here) && root.st_ino == here.st_ino &&
	    root.st_dev == here.st_dev)
		return allow_below(rules, AT_FDCWD, "/", access);
	dir = opendir("/");
	if (!dir)
		return -errno;
	while (!err && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") &&
		    strcmp(entry->d_name, "proc"))
			err = allow_below(rules, dirfd(dir), entry->d_name, access);
	closedir(dir);
	return err;
}

int braid_landlock(bool writes)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	const u64 may_write = WRITES | (abi >= 3 ? TRUNCATE : 0);
	const struct landlock_ruleset_attr attr = { .handled_access_fs = READS | may_write | NEVER };
	int err;

	if (abi < 1)
		return -EOPNOTSUPP;
	braid_auto_fd int rules = syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);

	if (rules < 0)
		return -errno;
	err = allow_below(rules, AT_FDCWD, "/", READS);
	if (!err && writes)
		err = allow_writing(rules, READS | may_write);
	if (!err && syscall(SYS_landlock_restrict_self, rules, 0))
		err = -errno;
	return err;
}
