/* SPDX-License-Identifier: GPL-2.0 */
/* The files of a buffer that show or deliver its events. */
#ifndef BRAID_EVENT_READ_FILES_H
#define BRAID_EVENT_READ_FILES_H

#include <linux/kref.h>
#include <linux/srcu.h>

#include "guest_driver/core/reader.h"
#include "guest_driver/event/output.h"

/**
 * braid_read_files_add - make trace, output, and per_cpu/cpuN/{trace_pipe_raw,stats}
 * @buffer: made; with or without rings
 * @dir: its directory
 *
 * Context: may sleep. Return: 0 or -ENOMEM.
 */
int braid_read_files_add(struct braid_buffer *buffer, struct dentry *dir);

/**
 * braid_read_files_remove - remove them
 * @buffer: as added, or not added
 *
 * No user is inside on return; waiting readers were woken. Files that are still open return -ENODEV
 * from then on.
 */
void braid_read_files_remove(struct braid_buffer *buffer);

/* The rest is for the files alone ---------------------------------------------------- */

struct braid_read_cpu {
	struct braid_read_files *files;
	int cpu;
};

/* One buffer's files. Lives as long as one of them is open. */
struct braid_read_files {
	struct list_head list;		/* of all; while the buffer has files */
	struct kref kref;
	struct srcu_struct users;	/* users of the buffer, sleeping or not */
	struct braid_buffer *buffer;	/* NULL: gone */
	enum braid_output kind;
	struct mutex lock;		/* of traces */
	struct list_head traces;	/* open trace files; trace_text.c's */
	struct dentry *trace, *output, *per_cpu;
	int nr_cpus;
	struct braid_read_cpu cpus[];
};

/**
 * braid_read_enter - use a file's buffer
 * @files: the buffer's files
 * @index: for braid_read_leave()
 *
 * Return: the buffer, which stays until then; NULL: gone; do not call braid_read_leave().
 */
struct braid_buffer *braid_read_enter(struct braid_read_files *files, int *index);
void braid_read_leave(struct braid_read_files *files, int index);

/** braid_read_files_put - a file is closed that did kref_get() at its opening */
void braid_read_files_put(struct braid_read_files *files);

/** braid_trace_close_all - the buffer is being freed: end all iterators of its trace files */
void braid_trace_close_all(struct braid_read_files *files);

extern const struct file_operations braid_trace_fops;	/* i_private: struct braid_read_files */
extern const struct file_operations braid_pipe_fops;	/* i_private: struct braid_read_cpu */

#endif /* BRAID_EVENT_READ_FILES_H */
