/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Regions that are read from files, from copies of files, from dumps of memory, or from cores. */
#ifndef BRAID_TRANSPORT_POST_MORTEM_H
#define BRAID_TRANSPORT_POST_MORTEM_H

#include "host_agent/transport/endpoint.h"

/* A private copy of a region: writes to it are not shared. */
struct braid_post_mortem_region {
	struct braid_mapping *mapping;
	u64 address;		/* guest-physical, of its superblock; 0 where it is a file */
	u64 pages;		/* of BRAID_PAGE_BYTES, in all */
	u64 missing_pages;	/* of those: missing, read as zeros */
	bool running;		/* its guest runs: later events are not in the copy */
};

struct braid_post_mortem_regions {
	struct braid_post_mortem_region *items;
	size_t nr;
	size_t capacity;
	u64 unplaced;		/* superblocks without rings: their other pages are not in the dump,
				   or were reused */
	bool cut_off;		/* the last file opened lacks its end, which counts as zeros */
};

/* How to open. */
struct braid_post_mortem_options {
	const char *folder;	/* with space for a converted copy of a flattened dump */
	void (*progress)(void *arg, const char *what, u64 done, u64 total);	/* or NULL */
	void *progress_arg;
};

/**
 * braid_post_mortem_take - open the memory of a guest
 * @path: a region's file, a dump or a core; opened for reading, links are followed
 *
 * Its content is not read. Call before the process is confined.
 *
 * Return: a descriptor; or -errno with braid_fail().
 */
int braid_post_mortem_take(const char *path);

/**
 * braid_post_mortem_open - find the regions in it
 * @regions: those found are added
 * @fd: from braid_post_mortem_take(), not needed afterwards
 * @path: for messages
 * @o: options
 *
 * A region's file may be in use: see braid_region_copy().
 *
 * Return: 0, or -errno with braid_fail(): -EAGAIN: it changed during all attempts to copy it; -ENOENT: no region found; -EMEDIUMTYPE: it is neither a region nor a dump; or as
 * braid_mapping_identify().
 */
int braid_post_mortem_open(struct braid_post_mortem_regions *regions, int fd, const char *path,
			   const struct braid_post_mortem_options *o);

/**
 * braid_post_mortem_wall_ns - the last CLOCK_REALTIME that the guest published
 *
 * Return: ns; 0: none.
 */
u64 braid_post_mortem_wall_ns(const struct braid_post_mortem_region *region);

/** braid_post_mortem_free - close all that no endpoint has taken */
void braid_post_mortem_free(struct braid_post_mortem_regions *regions);

/**
 * braid_post_mortem_endpoint - an endpoint that provides a region once
 * @region: the endpoint takes over its mapping
 *
 * Return: the endpoint, or NULL when memory is out.
 */
struct braid_endpoint *braid_post_mortem_endpoint(struct braid_post_mortem_region *region);

/**
 * braid_post_mortem_open_vm - braid_post_mortem_open() of a process' memory
 * @regions: those found are added
 * @pid: of a VMM, which is only read
 * @path: for messages
 *
 * The region of a guest that runs is followed until all that its rings had is copied, and proven
 * (docs/guest-memory.md). Sleeps for up to half a second for each region.
 *
 * Return: 0, or -errno with braid_fail(): -ENOENT: no region found.
 */
int braid_post_mortem_open_vm(struct braid_post_mortem_regions *regions, pid_t pid,
			      const char *path);

/**
 * braid_post_mortem_open_core - braid_post_mortem_open() of the core file of a VMM
 *
 * Regions in a guest's own memory are found; other memory that guests share is not theirs, and has
 * files of its own.
 */
int braid_post_mortem_open_core(struct braid_post_mortem_regions *regions, int fd,
				const char *path, const struct braid_post_mortem_options *o);

/** braid_dump_open - braid_post_mortem_open() of a dump */
int braid_dump_open(struct braid_post_mortem_regions *regions, int fd, const char *path,
		    const struct braid_post_mortem_options *o);

#endif /* BRAID_TRANSPORT_POST_MORTEM_H */
