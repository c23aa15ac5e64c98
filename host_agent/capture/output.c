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
#include "host_agent/util/folder.h"
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

static int fail_create(const struct braid_output *o, int err)
{
	return braid_fail(err, "cannot create '%s': %s", o->path, strerror(-err));
}

static int make_part(struct braid_output *o)
{
	int err, fd;

	unlinkat(o->folder, o->part, 0);	/* of a start that was killed */
	fd = openat(o->folder, o->part,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);
	if (fd < 0)
		return -errno;
	if (!fstat(fd, &o->made))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static int open_beside(struct braid_output *o)
{
	int fd = -ENAMETOOLONG;

	o->folder = braid_folder_open(o->path);
	if (o->folder < 0)
		return fail_create(o, o->folder);
	if (snprintf(o->part, sizeof(o->part), "%s.part", braid_folder_name(o->path)) <
	    (int)sizeof(o->part))
		fd = make_part(o);
	if (fd >= 0)
		return fd;
	close(o->folder);
	*o->part = 0;
	return fail_create(o, fd);
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

/* The capture has its name, or never will. */
static void forget(struct braid_output *o)
{
	close(o->folder);
	*o->part = 0;
}

static int keep_former(const struct braid_output *o)
{
	const char *name = braid_folder_name(o->path);
	char old[sizeof(o->path) + 8];

	snprintf(old, sizeof(old), "%s.old", name);
	if (!renameat(o->folder, name, o->folder, old) || errno == ENOENT)
		return 0;
	return braid_fail(-errno, "cannot rename '%s' to '%s.old': %s; the new capture is in the same folder, as '%s.*'",
			  o->path, o->path, strerror(errno), name);
}

int braid_output_publish(struct braid_output *o)
{
	const char *name = braid_folder_name(o->path);
	int err;

	if (!*o->part)
		return 0;
	if (!braid_folder_has(o->folder, o->part, &o->made))
		return braid_fail(-ESTALE, "cannot complete '%s': its unfinished file was removed or replaced; does another recorder write to it?",
				  o->path);
	err = o->keep_former ? keep_former(o) : 0;
	if (!err) {
		err = braid_folder_rename(o->folder, o->part, name, &o->made);
		if (err)
			err = braid_fail(err, "the capture can't be named '%s': %s; it is in the same folder, as '%s.*'",
					 o->path, strerror(-err), name);
	}
	forget(o);	/* never discarded: its content exists nowhere else */
	return err;
}

void braid_output_discard(struct braid_output *o)
{
	if (!*o->part)
		return;
	braid_folder_remove(o->folder, o->part, &o->made);
	forget(o);
}
