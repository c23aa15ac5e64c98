/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A guest's event directory, copied before it is believed. */
#ifndef BRAID_TRANSPORT_DIRECTORY_H
#define BRAID_TRANSPORT_DIRECTORY_H

#include "host_agent/transport/transport.h"
#include "shared/schema.h"

/* A private copy of an event directory, and how far it makes sense. */
struct braid_directory_copy {
	u8 *data;		/* 8-byte aligned */
	u32 bytes;		/* of whole, valid entries */
	u64 generation;		/* at the start of the copy */
	u64 nr_reused;		/* likewise */
	bool damaged;		/* what follows @bytes is not an entry */
};

/**
 * braid_directory_load - copy the event directory, or its new entries
 * @copy: filled on success; braid_directory_free()
 * @m: the mapping
 * @sb: the validated copy of its superblock
 * @from: bytes of the directory to skip at the start
 *
 * Return: 0, or -errno with braid_fail() (-ENOMEM, -EFAULT).
 */
int braid_directory_load(struct braid_directory_copy *copy, const struct braid_mapping *m,
			 const struct braid_superblock *sb, u32 from);

/**
 * braid_directory_generation - load the directory's generation
 * @generation: set on success; a copy that is loaded later has at least what was listed by then
 * @m: the mapping
 * @sb: the validated copy of its superblock
 *
 * Return: 0, or -EFAULT with braid_fail().
 */
int braid_directory_generation(u64 *generation, const struct braid_mapping *m,
			       const struct braid_superblock *sb);

/** braid_directory_free - free the result of braid_directory_load() */
void braid_directory_free(struct braid_directory_copy *copy);

/* Events counted in a directory. */
struct braid_event_count {
	u32 total;
	u32 on;			/* enabled by the guest or by the host */
	u32 host_on;		/* enabled through the mailbox */
	u32 subevents;		/* of these events, not counted among them */
};

/** braid_directory_count - count the living events of a directory */
struct braid_event_count braid_directory_count(const struct braid_directory_copy *copy);

#endif /* BRAID_TRANSPORT_DIRECTORY_H */
