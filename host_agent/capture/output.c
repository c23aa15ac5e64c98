// SPDX-License-Identifier: GPL-2.0-or-later
/* Opens, names and removes the file that a capture is written to. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/capture/output.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "tracebraid/abi.h"

/* A guest's region is not to be replaced, least of all while it is recorded. */
static bool is_region(const char *path)
{
	braid_auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW);
	u64 magic = 0;

	return fd >= 0 && read(fd, &magic, sizeof(magic)) == sizeof(magic) &&
	       (magic == BRAID_MAGIC || magic == BRAID_MARK);
}

/* A file that is not regular is written directly. */
static int open_special(const char *path)
{
	/* Without waiting: a FIFO without a reader would block, and signals are read later. */
	int fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0)
		return braid_fail(-errno, "cannot create '%s': %s", path,
				  errno == ENXIO ? "no process reads the FIFO" : strerror(errno));
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	return fd;
}

static int open_beside(struct braid_output *o)
{
	int fd;

	if (snprintf(o->part, sizeof(o->part), "%s.part", o->path) >= (int)sizeof(o->part))
		return braid_fail(-ENAMETOOLONG, "cannot create '%s': its name is too long", o->path);
	unlink(o->part);	/* of a start that was killed */
	fd = open(o->part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);
	if (fd < 0)
		return braid_fail(-errno, "cannot create '%s': %s", o->path, strerror(errno));
	return fd;
}

int braid_output_open(struct braid_output *o, const char *path)
{
	struct stat st;

	*o->part = 0;
	o->keep_former = false;
	if (snprintf(o->path, sizeof(o->path), "%s", path) >= (int)sizeof(o->path))
		return braid_fail(-ENAMETOOLONG, "cannot create '%s': its name is too long", path);
	if (lstat(path, &st))
		return open_beside(o);
	if (S_ISLNK(st.st_mode))
		return braid_fail(-ELOOP, "cannot create '%s': it is a symbolic link; name the file itself",
				  path);
	if (!S_ISREG(st.st_mode))
		return open_special(path);
	if (is_region(path))
		return braid_fail(-EEXIST, "cannot create '%s': it is a guest's region; use -o to name the capture",
				  path);
	return open_beside(o);
}

/* Whether the file beside is still the one that we made. */
static bool is_ours(const struct braid_output *o, int fd)
{
	struct stat named, ours;

	return !lstat(o->part, &named) && !fstat(fd, &ours) && named.st_ino == ours.st_ino &&
	       named.st_dev == ours.st_dev;
}

static int keep_former(const struct braid_output *o)
{
	char old[sizeof(o->path) + 8];

	snprintf(old, sizeof(old), "%s.old", o->path);
	if (!rename(o->path, old) || errno == ENOENT)
		return 0;
	return braid_fail(-errno, "cannot rename '%s' to '%s': %s; the new capture is '%s'", o->path, old,
			  strerror(errno), o->part);
}

int braid_output_publish(struct braid_output *o, int fd)
{
	int err;

	if (!*o->part)
		return 0;
	if (!is_ours(o, fd))
		return braid_fail(-ESTALE, "'%s' was removed or replaced; does another recorder write to '%s'?",
				  o->part, o->path);
	err = o->keep_former ? keep_former(o) : 0;
	if (!err && rename(o->part, o->path))
		err = braid_fail(-errno, "cannot rename '%s' to '%s': %s", o->part, o->path,
				 strerror(errno));
	*o->part = 0;	/* never discarded: its content exists nowhere else */
	return err;
}

void braid_output_discard(struct braid_output *o, int fd)
{
	if (*o->part && is_ours(o, fd))
		unlink(o->part);
	*o->part = 0;
}
