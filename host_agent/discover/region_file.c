// SPDX-License-Identifier: GPL-2.0-or-later
/* Makes the files that guests' regions live in, with the mark that invites the driver. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/discover/discover.h"
#include "host_agent/discover/region_file.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/folder.h"
#include "tracebraid/abi.h"

#define MIB	(1ull << 20)

static bool parse_number(const char *word, unsigned long *number)
{
	char *end;

	if (*word == '+')
		word++;
	*number = strtoul(word, &end, 10);
	return *word >= '0' && *word <= '9' && !*end;
}

static int parse_user(const char *word, uid_t *uid)
{
	const struct passwd *user;
	unsigned long number;

	if (parse_number(word, &number)) {
		*uid = number;
		return 0;
	}
	user = getpwnam(word);
	if (!user)
		return braid_fail(-EINVAL, "user %s: unknown on this host; use a name from /etc/passwd, or a number",
				  word);
	*uid = user->pw_uid;
	return 0;
}

static int parse_group(const char *word, gid_t *gid)
{
	const struct group *group;
	unsigned long number;

	if (parse_number(word, &number)) {
		*gid = number;
		return 0;
	}
	group = getgrnam(word);
	if (!group)
		return braid_fail(-EINVAL, "group %s: unknown on this host; use a name from /etc/group, or a number",
				  word);
	*gid = group->gr_gid;
	return 0;
}

int braid_owner_parse(const char *text, uid_t *uid, gid_t *gid)
{
	braid_auto_free char *user = strdup(text);
	char *colon = user ? strchr(user, ':') : NULL;
	int err;

	if (!user)
		return braid_out_of_memory();
	if (colon)
		*colon = 0;
	err = parse_user(user, uid);
	if (err)
		return err;
	*gid = getegid();
	return colon ? parse_group(colon + 1, gid) : 0;
}

/* Whether an existing file may be used: only its intended users can read it. */
static int region_file_check_file(const struct braid_region_file *file, const struct stat *st)
{
	if (!S_ISREG(st->st_mode) || st->st_nlink != 1 || st->st_uid != file->uid ||
	    st->st_mode & ~file->mode & 077)
		return braid_fail(-EEXIST, "%s exists and is not a plain file of user %u with mode %03o; find out whose it is, then remove it",
				  file->path, (unsigned int)file->uid, (unsigned int)file->mode);
	if ((u64)st->st_size != file->bytes)
		return braid_fail(-EEXIST, "%s exists and has %llu MiB; use --size %lluM, or remove it if it is unused",
				  file->path, (unsigned long long)(st->st_size / MIB),
				  (unsigned long long)(st->st_size / MIB));
	return 0;
}

/* An existing file: left over from a stopped guest, or of another program. */
static int take_file(const struct braid_region_file *file)
{
	struct stat st;

	if (lstat(file->path, &st))
		return braid_fail(-errno, "%s: %s", file->path, strerror(errno));
	return region_file_check_file(file, &st);
}

/* Opened, then checked: its owner may have put another there meanwhile. */
static int open_checked(const struct braid_region_file *file)
{
	int err, fd = open(file->path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return braid_fail(-errno, "%s cannot be opened: %s", file->path, strerror(errno));
	err = fstat(fd, &st) ? braid_fail(-errno, "%s: %s", file->path, strerror(errno)) :
			       region_file_check_file(file, &st);
	if (!err)
		return fd;
	close(fd);
	return err;
}

static int region_file_write_head(const struct braid_region_file *file, int fd, const void *head,
				  size_t bytes)
{
	if (pwrite(fd, head, bytes, 0) == (ssize_t)bytes)
		return 0;
	return braid_fail(-EIO, "%s cannot be marked for the driver: %s", file->path,
			  strerror(errno));
}

static int write_mark(const struct braid_region_file *file, int fd)
{
	static const u64 mark = BRAID_MARK;

	return region_file_write_head(file, fd, &mark, sizeof(mark));
}

int braid_region_file_mark(const struct braid_region_file *file)
{
	static const struct braid_superblock marked = { .magic = BRAID_MARK };
	braid_auto_fd int fd = open_checked(file);

	return fd < 0 ? fd : region_file_write_head(file, fd, &marked, sizeof(marked));
}

int braid_region_file_invite(const struct braid_region_file *file)
{
	braid_auto_fd int fd = open_checked(file);
	u8 page[BRAID_PAGE_BYTES];
	u64 word;
	size_t k;

	if (fd < 0)
		return fd;
	if (pread(fd, page, sizeof(page), 0) != sizeof(page))
		return braid_fail(-EIO, "%s cannot be read: %s", file->path, strerror(errno));
	memcpy(&word, page, sizeof(word));
	if (word == BRAID_MARK || word == BRAID_MAGIC)
		return 0;
	for (k = 0; k < sizeof(page); k++)
		if (page[k])
			return braid_fail(-EEXIST, "%s holds something that is not a trace; use another file, or remove it",
					  file->path);
	return write_mark(file, fd);
}

static int region_file_fill(const struct braid_region_file *file, int fd)
{
	/* The memory is taken now: a guest that finds it missing later would be killed. */
	int err = posix_fallocate(fd, 0, file->bytes);

	if (err)
		return braid_fail(-err, "%s: no room for %llu MiB: %s", file->path,
				  (unsigned long long)(file->bytes / MIB), strerror(err));
	err = write_mark(file, fd);
	if (err)
		return err;
	if ((file->uid != geteuid() || file->gid != getegid()) && fchown(fd, file->uid, file->gid))
		return braid_fail(-errno, "%s cannot be given to QEMU's user %u: %s; run as root",
				  file->path, (unsigned int)file->uid, strerror(errno));
	return fchmod(fd, file->mode) ? braid_fail(-errno, "%s: %s", file->path, strerror(errno)) : 0;
}

/* It has no name until it is complete, so there is never anything to remove. */
int braid_region_file_make(const struct braid_region_file *file, struct stat *made)
{
	const char *name = braid_folder_name(file->path);
	braid_auto_fd int folder = braid_folder_open(file->path);
	braid_auto_fd int fd = -1;
	char self[32];
	int err;

	memset(made, 0, sizeof(*made));
	if (folder < 0)
		return braid_fail(folder, "%s cannot be created: %s", file->path, strerror(-folder));
	if (!faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW))
		return take_file(file);
	fd = openat(folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return braid_fail(-errno, "%s cannot be created: %s", file->path, strerror(errno));
	err = region_file_fill(file, fd);
	if (err)
		return err;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	if (!linkat(AT_FDCWD, self, folder, name, AT_SYMLINK_FOLLOW) && !fstat(fd, made))
		return 0;
	if (errno == EEXIST)
		return take_file(file);
	return braid_fail(-errno, "%s cannot be created: %s", file->path, strerror(errno));
}

bool braid_region_file_unread(const char *path)
{
	braid_auto_free struct braid_found *found = NULL;
	size_t nr = 0;
	u32 k;

	if (braid_discover(&found, &nr, &path, 1, 0, NULL) || !nr)
		return false;
	for (k = 0; k < BRAID_MAX_BUFFERS; k++)
		if (found->fill_permille[k])
			return true;
	return false;
}
