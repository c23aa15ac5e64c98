// SPDX-License-Identifier: GPL-2.0-or-later
/* Takes a private copy of the region of a guest that runs no more. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host_agent/transport/post_mortem.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"

#define BEATS	3	/* times BRAID_POLL_MS: longer than a running guest's heartbeat can stop */

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
	else if (flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK)
		err = braid_fail(-EBUSY, "%s: busy: a recording is active; stop it first (for `record --snapshot`, use `tracebraid snapshot`)",
				 path);
	else
		return fd;
	close(fd);
	return err;
}

/* A region's file ----------------------------------------------------------------------- */

/* Whether the guest polls its mailbox. The mailbox's place is not validated: it is only read. */
static bool guest_runs(int fd, const struct braid_superblock *sb)
{
	const struct timespec step = { .tv_nsec = BRAID_POLL_MS * 1000000 };
	u64 at = sb->sections[BRAID_SECTION_MAILBOX].offset +
		 offsetof(struct braid_mailbox, guest_heartbeat), before, now;
	int k;

	if (sb->state != BRAID_STATE_LIVE ||
	    braid_pread_all(fd, &before, sizeof(before), at) != sizeof(before))
		return false;
	for (k = 0; k < BEATS; k++) {
		nanosleep(&step, NULL);
		if (braid_pread_all(fd, &now, sizeof(now), at) == sizeof(now) && now != before)
			return true;
	}
	return false;
}

/* The file over zeros: what a copy that was cut off lacks is missing, and the rest is there. */
static int open_file(struct braid_post_mortem_regions *regions, int fd, const char *path,
		     const struct braid_superblock *sb)
{
	struct braid_post_mortem_region region = { 0 };
	struct stat st;
	u64 there;

	if (guest_runs(fd, sb))
		return braid_fail(-EBUSY, "%s: its guest is running; record it with `tracebraid record -r %s`", path,
				  path);
	if (fstat(fd, &st))
		return braid_fail(-errno, "%s: %s", path, strerror(errno));
	there = st.st_size;
	region.mapping = braid_post_mortem_mapping(there > sb->region_bytes ? there :
						   sb->region_bytes,
						   path);
	if (!region.mapping)
		return -ENOMEM;
	if (mmap(region.mapping->base, there, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED |
		 MAP_NORESERVE, fd, 0) == MAP_FAILED) {
		braid_mapping_close(region.mapping);
		return braid_fail(-errno, "%s: cannot be mapped: %s", path, strerror(errno));
	}
	region.pages = region.mapping->bytes / BRAID_PAGE_BYTES;
	if (there < sb->region_bytes)
		region.missing_pages = (sb->region_bytes - there + BRAID_PAGE_BYTES - 1) /
				       BRAID_PAGE_BYTES;
	if (braid_array_push(regions->items, regions->nr, regions->capacity, region)) {
		braid_mapping_close(region.mapping);
		return braid_fail(-ENOMEM, "%s: out of memory", path);
	}
	return 0;
}

int braid_post_mortem_open(struct braid_post_mortem_regions *regions, int fd, const char *path,
			   const struct braid_post_mortem_options *o)
{
	struct braid_superblock sb = { 0 };
	ssize_t n = braid_pread_all(fd, &sb, sizeof(sb), 0);

	if (n < 0)
		return braid_fail(n, "%s: cannot be read: %s", path, strerror(-n));
	if (sb.magic == BRAID_MAGIC)
		return open_file(regions, fd, path, &sb);
	return braid_dump_open(regions, fd, path, o);
}

struct wall_call {
	const struct braid_mapping *m;
	u64 offset;
	u64 ns;
};

static int load_wall(void *arg)
{
	struct wall_call *call = arg;
	const struct braid_clock_cells *cells = (const void *)(call->m->base + call->offset);

	call->ns = braid_load(&cells->wall_seq) ? braid_load(&cells->wall_realtime_ns) : 0;
	return 0;
}

u64 braid_post_mortem_wall_ns(const struct braid_post_mortem_region *region)
{
	struct wall_call call = { .m = region->mapping };
	struct braid_superblock sb;

	if (braid_mapping_probe(call.m, &sb, true))
		return 0;
	call.offset = sb.sections[BRAID_SECTION_CLOCK].offset;
	braid_guard_run(call.m->base, call.m->bytes, load_wall, &call);
	return call.ns;
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
