// SPDX-License-Identifier: GPL-2.0-or-later
/* Opens, maps and locks a region's file; memory for a private copy. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "host_agent/transport/transport.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "shared/region.h"

/* Files of other mount namespaces, which a confined process can't open. */
static struct kept {
	char path[256];
	dev_t device;
	ino_t inode;
	int fd;
	bool writable;
} *kept;
static size_t nr_kept, kept_capacity;

static int mapping_open_file(const char *path, bool writable)
{
	size_t k;

	for (k = 0; k < nr_kept; k++)
		if (!strcmp(kept[k].path, path) && (kept[k].writable || !writable))
			return fcntl(kept[k].fd, F_DUPFD_CLOEXEC, 0);
	return open(path, (writable ? O_RDWR : O_RDONLY) | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
}

int braid_mapping_keep(const char *path, dev_t device, ino_t inode, bool writable)
{
	struct kept file = { .device = device, .inode = inode, .writable = writable };
	struct stat st;

	if (braid_mapping_kept(device, inode) || strlen(path) >= sizeof(file.path))
		return 0;
	strcpy(file.path, path);
	file.fd = mapping_open_file(path, writable);
	if (file.fd < 0)
		return 0;
	if (fstat(file.fd, &st) || st.st_dev != device || st.st_ino != inode) {
		close(file.fd);
		return 0;
	}
	if (!braid_array_push(kept, nr_kept, kept_capacity, file))
		return 0;
	close(file.fd);
	return braid_out_of_memory();
}

const char *braid_mapping_kept(dev_t device, ino_t inode)
{
	size_t k;

	for (k = 0; k < nr_kept; k++)
		if (kept[k].device == device && kept[k].inode == inode)
			return kept[k].path;
	return NULL;
}

int braid_mapping_fail_open(const char *path, int err)
{
	switch (err) {
	case ENOENT:
		return braid_fail(-err, "%s: no such file or region; 'tracebraid list' shows the regions",
				  path);
	case EACCES:
	case EPERM:
		if (!strncmp(path, "/proc/", 6) && !geteuid())
			return braid_fail(-EACCES, "%s: in another mount namespace, and not shared by a running QEMU under this path; 'tracebraid list' shows the paths",
					  path);
		return braid_fail(-EACCES, "%s: permission denied; run as root or as its owner", path);
	case ELOOP:
		return braid_fail(-EMEDIUMTYPE, "%s: not a region: a symbolic link", path);
	case EMFILE:
		return braid_fail(-err, "%s: too many guests for this process' limit of open files; raise it (ulimit -Hn, or LimitNOFILE= of a systemd unit)",
				  path);
	}
	return braid_fail(-err, "%s: cannot be opened: %s", path, strerror(err));
}

/* Only a regular file of a plausible size is mapped. */
static int mapping_check_file(const char *path, int fd, struct stat *st)
{
	if (fstat(fd, st))
		return braid_fail(-errno, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st->st_mode))
		return braid_fail(-EMEDIUMTYPE, "%s: not a region: not a regular file", path);
	if (!st->st_size)
		return braid_fail(-ENODATA, "%s: the file is empty: its QEMU has not set its size yet", path);
	if (st->st_size < (off_t)BRAID_PAGE_BYTES)
		return braid_fail(-EMEDIUMTYPE, "%s: not a region: too small (size %lld)", path,
				  (long long)st->st_size);
	return 0;
}

int braid_mapping_open(struct braid_mapping **out, const char *path, bool writable)
{
	int fd, err, prot = PROT_READ | (writable ? PROT_WRITE : 0);
	struct braid_mapping *m = NULL;
	struct stat st;
	void *base;

	if (strlen(path) >= sizeof(m->path))
		return braid_fail(-ENAMETOOLONG, "%s: the path is too long", path);
	fd = mapping_open_file(path, writable);
	if (fd < 0)
		return braid_mapping_fail_open(path, errno);
	err = mapping_check_file(path, fd, &st);
	if (err)
		goto close_fd;
	base = mmap(NULL, st.st_size, prot, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED) {
		err = braid_fail(-errno, "%s: cannot be mapped: %s", path, strerror(errno));
		goto close_fd;
	}
	m = calloc(1, sizeof(*m));
	if (!m) {
		err = braid_fail(-ENOMEM, "%s: out of memory", path);
		goto unmap;
	}
	strcpy(m->path, path);
	m->base = base;
	m->bytes = st.st_size;
	m->fd = fd;
	m->writable = writable;
	m->device = st.st_dev;
	m->inode = st.st_ino;
	m->uid = st.st_uid;
	m->gid = st.st_gid;
	m->mode = st.st_mode;
	*out = m;
	return 0;

unmap:
	munmap(base, st.st_size);
close_fd:
	close(fd);
	return err;
}

struct braid_mapping *braid_mapping_private(u64 bytes, const char *path)
{
	struct braid_mapping *m = calloc(1, sizeof(*m));

	if (!m || bytes > BRAID_REGION_MAX_BYTES) {
		free(m);
		braid_fail(-ENOMEM, "%s: no memory for a region of %llu bytes", path,
			   (unsigned long long)bytes);
		return NULL;
	}
	m->bytes = (bytes + BRAID_PAGE_BYTES - 1) & ~(u64)(BRAID_PAGE_BYTES - 1);
	m->base = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m->base == MAP_FAILED) {
		braid_fail(-errno, "%s: no memory for a region of %llu bytes", path,
			   (unsigned long long)bytes);
		free(m);
		return NULL;
	}
	strncpy(m->path, path, sizeof(m->path) - 1);
	m->fd = -1;
	m->writable = true;
	return m;
}

int braid_mapping_open_again(struct braid_mapping **out, const char *path,
			     const struct braid_superblock *sb)
{
	struct braid_mapping *m = NULL;
	int err = braid_mapping_open(&m, path, false);

	if (err)
		return err;
	if (m->bytes < sb->region_bytes) {
		braid_mapping_close(m);
		return braid_fail(-ESTALE, "%s: replaced by a smaller file", path);
	}
	*out = m;
	return 0;
}

void braid_mapping_close(struct braid_mapping *m)
{
	if (!m)
		return;
	munmap(m->base, m->bytes);
	if (m->fd >= 0)
		close(m->fd);
	if (m->owner)
		*m->owner = NULL;
	free(m);
}

/* The pid that holds the file's flock, as /proc/locks has it, or 0. */
static int lock_holder(const struct braid_mapping *m)
{
	braid_auto_file FILE *f = fopen("/proc/locks", "re");
	unsigned int major_number, minor_number;
	unsigned long long inode;
	char line[256];
	int pid;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%*d: FLOCK %*s WRITE %d %x:%x:%llu", &pid, &major_number,
			   &minor_number, &inode) == 4 &&
		    inode == m->inode && major_number == major(m->device) &&
		    minor_number == minor(m->device))
			return pid;
	return 0;
}

static int lock(const struct braid_mapping *m)
{
	int holder;

	if (!flock(m->fd, LOCK_EX | LOCK_NB))
		return 0;
	if (errno != EWOULDBLOCK)
		return braid_fail(-errno, "%s: cannot be locked: %s", m->path, strerror(errno));
	holder = lock_holder(m);
	if (holder)
		return braid_fail(-EBUSY, "%s: already being recorded, by process %d; stop that recording first",
				  m->path, holder);
	return braid_fail(-EBUSY, "%s: already being recorded by another agent; stop that recording first",
			  m->path);
}

int braid_mapping_take(struct braid_mapping **out, const char *path)
{
	struct braid_mapping *m = NULL;
	int err = braid_mapping_open(&m, path, true);

	if (err)
		return err;
	err = lock(m);
	if (err) {
		braid_mapping_close(m);
		return err;
	}
	*out = m;
	return 0;
}

const char *braid_mapping_gone(const struct braid_mapping *m)
{
	struct stat st;

	if (m->gone || m->fd < 0)
		return m->gone;
	if (fstat(m->fd, &st) || !st.st_nlink)
		return "the region's file was removed";
	if ((u64)st.st_size < m->bytes)
		return "the region's file was truncated";
	return NULL;
}

void braid_mapping_ring(const struct braid_mapping *m, const struct braid_superblock *sb,
			u32 buffer, u32 vcpu, struct braid_ring_map *map)
{
	braid_region_ring(&sb->buffers[buffer], m->base, vcpu, map);
}
