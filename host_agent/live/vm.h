/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The VMs of the host in a recording, while their guests have no driver.
 *
 * - Each is a stream with its process and vCPU threads, from /proc and KVM's debugfs alone: nothing
 *   of a guest is read.
 * - A VM's stream ends where that of its driver begins. Once a driver was seen, its process has
 *   none any more.
 */
#ifndef BRAID_LIVE_VM_H
#define BRAID_LIVE_VM_H

#include "host_agent/live/live.h"

struct braid_vm_sources;

struct braid_vm_options {
	struct braid_live_sink *sink;
	/* as in struct braid_region_options */
	void (*say)(void *arg, const char *name, const char *line);
	void *say_arg;
};

/* A guest that is recorded by its driver, or will be. */
struct braid_vm_taken {
	s32 pid;		/* of its VMM */
	u64 from_ns;		/* when its first stream began; 0: none yet */
	const char *name;
};

/**
 * braid_vm_sources_open - follow the VMs of this host
 * @out: set on success
 * @o: copied
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_vm_sources_open(struct braid_vm_sources **out, const struct braid_vm_options *o);

/** braid_vm_sources_due - whether a poll would do something */
bool braid_vm_sources_due(const struct braid_vm_sources *s);

/**
 * braid_vm_sources_poll - begin and end streams, once a second
 * @s: the source
 * @taken: the guests with a known process; sorted here
 * @nr: their number
 *
 * Return: 0, or -errno with braid_fail() when the capture can't be written, or without memory.
 */
int braid_vm_sources_poll(struct braid_vm_sources *s, struct braid_vm_taken *taken, size_t nr);

/**
 * braid_vm_sources_finish - the last poll, and the streams' ends
 *
 * Return: as braid_vm_sources_poll()
 */
int braid_vm_sources_finish(struct braid_vm_sources *s, struct braid_vm_taken *taken, size_t nr);

/**
 * braid_vm_sources_take - write the streams, as they are so far, to a snapshot: the file that the
 * sink's capture also writes to
 *
 * Return: as braid_vm_sources_poll()
 */
int braid_vm_sources_take(struct braid_vm_sources *s);

/**
 * braid_vm_sources_took - write the streams' ends to a snapshot
 * @s: the source
 * @to: its file
 *
 * Return: 0, or the error of the file
 */
int braid_vm_sources_took(struct braid_vm_sources *s, struct braid_capture_writer *to);

/** braid_vm_sources_number - how many streams there are now */
size_t braid_vm_sources_number(const struct braid_vm_sources *s);

/** braid_vm_sources_close - free; NULL is fine */
void braid_vm_sources_close(struct braid_vm_sources *s);

#endif /* BRAID_LIVE_VM_H */
