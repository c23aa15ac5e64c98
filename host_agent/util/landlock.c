// SPDX-License-Identifier: GPL-2.0-or-later
/* Takes files, and other processes, out of reach, where the kernel has Landlock. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/landlock.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
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
#define OF_A_FILE	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | TRUNCATE)

static const u64 accesses[] = {
	[BRAID_PLACE_OUTPUT] = READS | WRITES | TRUNCATE,
	[BRAID_PLACE_WRITTEN] = LANDLOCK_ACCESS_FS_WRITE_FILE,
	[BRAID_PLACE_REMOVED] = LANDLOCK_ACCESS_FS_REMOVE_FILE,
	[BRAID_PLACE_READ] = READS,
};

static struct allowed {
	char *path;
	enum braid_place place;
} *allowed;
static size_t nr_allowed, allowed_capacity;

int braid_landlock_allow(const char *path, enum braid_place place)
{
	struct allowed one = { .path = strdup(path), .place = place };

	if (one.path && !braid_array_push(allowed, nr_allowed, allowed_capacity, one))
		return 0;
	free(one.path);
	return braid_out_of_memory();
}

static int add_rule(int rules, const char *path, u64 access)
{
	braid_auto_fd int fd = open(path, O_PATH | O_CLOEXEC);
	struct landlock_path_beneath_attr rule = { .allowed_access = access, .parent_fd = fd };
	struct statfs fs;

	if (fd < 0)	/* the use of it fails, too, and says why */
		return 0;
	/* Our own text could be written through /proc/self/mem. */
	if (access & ~READS && !fstatfs(fd, &fs) && fs.f_type == PROC_SUPER_MAGIC)
		return 0;
	if (!syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0))
		return 0;
	return errno == EBADFD ? 0 : -errno;	/* a pipe, which is not restricted */
}

/* @handled: the kernel's Landlock knows these. */
static int add_allowed(int rules, const struct allowed *one, u64 handled)
{
	const u64 access = accesses[one->place] & handled;
	braid_auto_free char *copy = strdup(one->path);
	const char *folder = copy ? dirname(copy) : NULL;
	struct stat st, root, above;
	bool alone = false;

	if (!folder)
		return braid_out_of_memory();
	if (!strcmp(one->path, "-"))
		return 0;
	if (one->place != BRAID_PLACE_REMOVED)
		alone = !stat(one->path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
	/*
	 * A rule for / would be one for everything. Nothing less lets a file be made or removed
	 * there.
	 */
	if (one->place == BRAID_PLACE_WRITTEN && !stat("/", &root) && !stat(folder, &above))
		alone |= root.st_ino == above.st_ino && root.st_dev == above.st_dev;
	return alone ? add_rule(rules, one->path, access & OF_A_FILE) : add_rule(rules, folder, access);
}

int braid_landlock(bool writes)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	const u64 may_write = WRITES | (abi >= 3 ? TRUNCATE : 0);
	const struct landlock_ruleset_attr attr = { .handled_access_fs = READS | may_write | NEVER };
	bool some = false;
	size_t k;
	int err = 0;

	if (abi < 1)
		return -EOPNOTSUPP;
	braid_auto_fd int rules = syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);

	if (rules < 0)
		return -errno;
	for (k = 0; k < nr_allowed && !err; k++) {
		some |= allowed[k].place == BRAID_PLACE_READ;
		if (writes || allowed[k].place == BRAID_PLACE_READ)
			err = add_allowed(rules, &allowed[k], attr.handled_access_fs);
	}
	if (!err && !some)
		err = add_rule(rules, "/", READS);
	if (!err && syscall(SYS_landlock_restrict_self, rules, 0))
		err = -errno;
	return err;
}
