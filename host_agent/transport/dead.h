/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Regions of guests that run no more: from their files, copies of them, or dumps of memory. */
#ifndef BRAID_TRANSPORT_DEAD_H
#define BRAID_TRANSPORT_DEAD_H

#include "host_agent/transport/port.h"

/* A private copy of a region: what is written to it, nobody else sees. */
struct braid_dead_region {
	struct braid_mapping *mapping;
	u64 address;		/* guest-physical, of its superblock; 0 where it is a file */
	u64 pages;		/* of BRAID_PAGE_BYTES, in all */
	u64 missing_pages;	/* of those: not there, taken as zeros */
};

struct braid_dead_regions {
	struct braid_dead_region *items;
	size_t nr;
	size_t capacity;
	u64 unplaced;		/* superblocks without rings: their other pages are not in the dump,
				   or were used again */
	bool cut_off;		/* the last file opened lacks its end, which counts as zeros */
};

/* How to open. */
struct braid_dead_options {
	const char *folder;	/* with room for a dump that has to be put in order first */
	void (*progress)(void *arg, const char *what, u64 done, u64 total);	/* or NULL */
	void *progress_arg;
};

/**
 * braid_dead_take - open what a guest left
 * @path: a region's file or a dump; opened to be read, links are followed
 *
 * Nothing in it is looked at. To be called before the process is confined.
 *
 * Return: a descriptor; or -errno with braid_fail(): -EBUSY: an agent drains it.
 */
int braid_dead_take(const char *path);

/**
 * braid_dead_open - find the regions in it
 * @regions: those found are added
 * @fd: from braid_dead_take(), not needed any more afterwards
 * @path: for messages
 * @o: how
 *
 * Return: 0, or -errno with braid_fail(): -EBUSY: the guest of a region's file runs; -ENOENT: there
 * is none; -EMEDIUMTYPE: it is neither a region nor a dump; or as braid_mapping_identify().
 */
int braid_dead_open(struct braid_dead_regions *regions, int fd, const char *path,
		    const struct braid_dead_options *o);

/**
 * braid_dead_wall_ns - the last CLOCK_REALTIME that the guest told
 *
 * Return: ns; 0: it told none.
 */
u64 braid_dead_wall_ns(const struct braid_dead_region *region);

/** braid_dead_free - close all that no port has taken */
void braid_dead_free(struct braid_dead_regions *regions);

/**
 * braid_dead_port - a port that gives a region once
 * @region: its mapping is the port's from here on
 *
 * Return: the port, or NULL when memory is out.
 */
struct braid_port *braid_dead_port(struct braid_dead_region *region);

/**
 * braid_dead_mapping - memory for a region's copy, all zeros
 * @bytes: of it; at most BRAID_DEAD_MAX_BYTES
 * @path: for messages
 *
 * Return: the mapping, or NULL with braid_fail().
 */
struct braid_mapping *braid_dead_mapping(u64 bytes, const char *path);

#define BRAID_DEAD_MAX_BYTES	(1ULL << 38)	/* more is no region, but a lie */

/** braid_dump_open - braid_dead_open() of a dump */
int braid_dump_open(struct braid_dead_regions *regions, int fd, const char *path,
		    const struct braid_dead_options *o);

#endif /* BRAID_TRANSPORT_DEAD_H */
