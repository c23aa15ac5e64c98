/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Makes the files that guests' regions live in, with the mark that invites the driver. */
#ifndef BRAID_DISCOVER_REGION_FILE_H
#define BRAID_DISCOVER_REGION_FILE_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "tracebraid/types.h"

/**
 * braid_owner_parse - find a file's owner
 * @text: USER or USER:GROUP, each a name or a number, which may have a '+' before it
 * @uid: set on success
 * @gid: set on success; without GROUP it is this process's own
 *
 * Return: 0, or -EINVAL with braid_fail().
 */
int braid_owner_parse(const char *text, uid_t *uid, gid_t *gid);

/* What a region's file is to be. */
struct braid_region_file {
	const char *path;
	u64 bytes;
	uid_t uid;
	gid_t gid;
	mode_t mode;		/* readers of the file can read the trace */
};

/**
 * braid_region_file_make - make a region's file, or accept the one that is there
 * @file: what it is to be
 * @made: filled if it was made; it then has the mark and all its memory. All 0: it was there
 *
 * Never follows a link. One that is there must be a plain file of that owner, size and
 * access; it is left as it is.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_region_file_make(const struct braid_region_file *file, struct stat *made);

/**
 * braid_region_file_mark - clear a former region, and invite the next driver
 * @file: as above; it is there
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_region_file_mark(const struct braid_region_file *file);

/**
 * braid_region_file_invite - ensure that a driver accepts the file's content
 * @file: as above; it exists
 *
 * A mark, or a former region, is kept; a blank file is marked.
 *
 * Return: 0, -EEXIST (it holds other data), or -errno; with braid_fail().
 */
int braid_region_file_invite(const struct braid_region_file *file);

/** braid_region_file_unread - whether a file holds a region with events that nobody has read */
bool braid_region_file_unread(const char *path);

#endif /* BRAID_DISCOVER_REGION_FILE_H */
