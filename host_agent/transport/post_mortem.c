// SPDX-License-Identifier: GPL-2.0-or-later
/* Takes a private copy of the region that a guest left, or uses. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/transport/post_mortem.h"
#include "host_agent/transport/region_copy.h"
#include "host_agent/transport/vm_core.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"

int braid_post_mortem_take(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), err;
	struct stat st;

	if (fd < 0)
		return braid_mapping_fail_open(path, errno);
	if (fstat(fd, &st))
		err = braid_fail(-errno, "%s: %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		err = braid_fail(-EMEDIUMTYPE, "%s: not a regular file", path);
	else
		return fd;
	close(fd);
	return err;
}

/* A region's file ----------------------------------------------------------------------- */

static int post_mortem_add(struct braid_post_mortem_regions *regions,
			   const struct braid_post_mortem_region *region, const char *path)
{
	if (!braid_array_push(regions->items, regions->nr, regions->capacity, *region))
		return 0;
	braid_mapping_close(region->mapping);
	return braid_fail(-ENOMEM, "%s: out of memory", path);
}

/*
 * A copy of the whole region, which its guest, an agent or a reader in the guest may be using.
 * Return: as braid_region_copy().
 */
static int open_whole(struct braid_post_mortem_regions *regions, int fd, const char *path,
		      u64 bytes)
{
	struct braid_post_mortem_region region = { 0 };
	struct braid_mapping from = { .bytes = bytes, .fd = -1 };
	int err;

	snprintf(from.path, sizeof(from.path), "%s", path);
	from.base = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (from.base == MAP_FAILED)
		return braid_fail(-errno, "%s: cannot be mapped: %s", path, strerror(errno));
	err = braid_region_copy(&region.mapping, &from, &region.running);
	munmap(from.base, bytes);
	if (err)
		return err;
	region.pages = region.mapping->bytes / BRAID_PAGE_BYTES;
	return post_mortem_add(regions, &region, path);
}

/* The file over zeros: what a copy that was cut off lacks is missing, and the rest is there. */
static int open_parts(struct braid_post_mortem_regions *regions, int fd, const char *path,
		      u64 bytes, u64 there)
{
	struct braid_post_mortem_region region = { 0 };

	region.mapping = braid_mapping_private(there > bytes ? there : bytes, path);
	if (!region.mapping)
		return -ENOMEM;
	if (mmap(region.mapping->base, there, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED |
		 MAP_NORESERVE, fd, 0) == MAP_FAILED) {
		braid_mapping_close(region.mapping);
		return braid_fail(-errno, "%s: cannot be mapped: %s", path, strerror(errno));
	}
	region.pages = region.mapping->bytes / BRAID_PAGE_BYTES;
	if (there < bytes)
		region.missing_pages = (bytes - there + BRAID_PAGE_BYTES - 1) / BRAID_PAGE_BYTES;
	return post_mortem_add(regions, &region, path);
}

static int post_mortem_open_file(struct braid_post_mortem_regions *regions, int fd,
				 const char *path,
				 const struct braid_superblock *sb)
{
	struct stat st;
	int err;

	if (fstat(fd, &st))
		return braid_fail(-errno, "%s: %s", path, strerror(errno));
	if (st.st_size >= (off_t)BRAID_PAGE_BYTES && (u64)st.st_size >= sb->region_bytes) {
		err = open_whole(regions, fd, path, st.st_size);
		/* What is no region is reported where the regions are read. */
		if (err != -EPROTO && err != -EBADMSG)
			return err;
	}
	return open_parts(regions, fd, path, sb->region_bytes, st.st_size);
}

int braid_post_mortem_open(struct braid_post_mortem_regions *regions, int fd, const char *path,
			   const struct braid_post_mortem_options *o)
{
	struct braid_superblock sb = { 0 };
	ssize_t n = braid_pread_all(fd, &sb, sizeof(sb), 0);

	if (n < 0)
		return braid_fail(n, "%s: cannot be read: %s", path, strerror(-n));
	if (sb.magic == BRAID_MAGIC)
		return post_mortem_open_file(regions, fd, path, &sb);
	if (sb.magic == BRAID_MARK)
		return braid_fail(-ENODATA, "%s: no driver has used it yet, so it holds no trace", path);
	return braid_vm_core_is(fd) ? braid_post_mortem_open_core(regions, fd, path, o) :
				      braid_dump_open(regions, fd, path, o);
}

u64 braid_post_mortem_wall_ns(const struct braid_post_mortem_region *region)
{
	const struct braid_mapping *m = region->mapping;
	struct braid_clock_cells cells;
	struct braid_superblock sb;

	if (braid_mapping_probe(m, &sb, true) ||
	    braid_guard_copy(m->base, m->bytes, &cells,
			     braid_mapping_section(m, &sb, BRAID_SECTION_CLOCK), sizeof(cells)))
		return 0;
	return cells.wall_seq ? cells.wall_realtime_ns : 0;
}

void braid_post_mortem_free(struct braid_post_mortem_regions *regions)
{
	while (regions->nr)
		braid_mapping_close(regions->items[--regions->nr].mapping);
	free(regions->items);
	memset(regions, 0, sizeof(*regions));
}

/* The endpoint -------------------------------------------------------------------------------- */

struct post_mortem_endpoint {
	struct braid_endpoint endpoint;
	struct braid_mapping *mapping;	/* NULL: it was given */
};

static void post_mortem_close(struct braid_endpoint *endpoint)
{
	struct post_mortem_endpoint *p = (struct post_mortem_endpoint *)endpoint;

	braid_mapping_close(p->mapping);
	free(p);
}

static int post_mortem_map(struct braid_endpoint *endpoint, struct braid_mapping **out)
{
	struct post_mortem_endpoint *p = (struct post_mortem_endpoint *)endpoint;

	if (!p->mapping)
		return braid_fail(-ENODATA, "a region can be given only once");
	*out = p->mapping;
	p->mapping = NULL;
	return 0;
}

static const struct braid_endpoint_ops post_mortem_ops = {
	.scheme = "",
	.close = post_mortem_close,
	.map = post_mortem_map,
};

struct braid_endpoint *braid_post_mortem_endpoint(struct braid_post_mortem_region *region)
{
	struct post_mortem_endpoint *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->endpoint.ops = &post_mortem_ops;
	p->mapping = region->mapping;
	region->mapping = NULL;
	return &p->endpoint;
}
