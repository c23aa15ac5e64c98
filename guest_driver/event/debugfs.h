/* SPDX-License-Identifier: GPL-2.0 */
/* The debugfs tree: the files of the guest's user. */
#ifndef BRAID_EVENT_DEBUGFS_H
#define BRAID_EVENT_DEBUGFS_H

#include "guest_driver/event/event.h"

/**
 * braid_debugfs_init - create tracebraid/, and listen for events; optional: not an error without
 * debugfs
 */
void braid_debugfs_init(void);

/** braid_debugfs_exit - remove it; its buffers' directories are gone */
void braid_debugfs_exit(void);

/**
 * braid_debugfs_add_buffer - create tracebraid/<buffer>/
 * @buffer: the buffer; its events get their directories
 *
 * Context: may sleep. Return: 0 or -ENOMEM.
 */
int braid_debugfs_add_buffer(struct braid_buffer *buffer);

/**
 * braid_debugfs_remove_buffer - remove it and its contents; no user is inside on return
 * @buffer: the buffer; one without files is fine
 *
 * Must not hold any lock that a user of the files takes.
 */
void braid_debugfs_remove_buffer(struct braid_buffer *buffer);

/** braid_debugfs_files - add a buffer's own files to its directory (debugfs_buffer.c) */
void braid_debugfs_files(struct braid_buffer *buffer, struct dentry *dir);

#endif /* BRAID_EVENT_DEBUGFS_H */
