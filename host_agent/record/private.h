/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of a recording share among themselves. */
#ifndef BRAID_RECORD_PRIVATE_H
#define BRAID_RECORD_PRIVATE_H

#include "host_agent/record/record.h"
#include "host_agent/util/array.h"

/* setup.c: selects guests and events. 0 or -errno with braid_fail(). */
int braid_record_find_guests(struct braid_recording *r);
int braid_record_open_guests(struct braid_recording *r);
int braid_record_open_guest(struct braid_recording *r, struct braid_record_guest *guest);
int braid_record_check_host(struct braid_recording *r);
int braid_record_open_host(struct braid_recording *r);
int braid_record_open_file(struct braid_recording *r);

/* setup.c: starts the process that makes the probes of CPU quotas; before we are confined. */
int braid_record_start_quota(struct braid_recording *r);

/* setup.c: opens what can't be opened later, then drops unneeded privileges. */
int braid_record_confine(struct braid_recording *r);

/* setup.c: the process that writes the capture, before we are confined. */
int braid_record_start_flusher(struct braid_recording *r);

/* domains.c. 0 or -errno with braid_fail(). */

/* Begins to watch libvirt, in a separate process: before we are confined. */
int braid_record_watch_domains(struct braid_recording *r);

/* Adds the guests that libvirt has reported by now. */
int braid_record_take_domains(struct braid_recording *r);

/* Handles events of domains: new guests are recorded too. An error is the capture's. */
int braid_record_poll_domains(struct braid_recording *r);

/* guest_agent.c. 0 or -errno with braid_fail(): without memory, or the capture's. */

/* Starts the process that asks guest agents, if they are to be asked; before we are confined. */
int braid_record_start_agents(struct braid_recording *r);

/* Has events enabled in guests that are only read; each command is said before it is sent. */
int braid_record_poll_agents(struct braid_recording *r);

/* Whether a guest agent has not answered yet. */
bool braid_record_asks_agents(const struct braid_recording *r);

/*
 * Has all disabled that was enabled, and waits for that, or for a signal; says what may still be
 * on.
 */
void braid_record_undo_agents(struct braid_recording *r);

/* snapshot.c. 0 or -errno with braid_fail(); no effect without it. */
int braid_record_open_flight(struct braid_recording *r);	/* before we are confined */
int braid_record_watch_host(struct braid_recording *r);		/* call once the host is recorded */
void braid_record_close_flight(struct braid_recording *r);

/* Adds the events that call for a snapshot to those that are enabled. */
int braid_record_add_on(struct braid_recording *r, struct braid_record_patterns *list);

/* Continues a snapshot, or begins a requested one. Fails only without memory. */
int braid_record_poll_flight(struct braid_recording *r);

/* rotate.c. 0 or -errno with braid_fail(); no effect unless the recording rotates. */
int braid_record_open_rotation(struct braid_recording *r);	/* before we are confined */
int braid_record_begin_rotation(struct braid_recording *r);	/* makes the first file */

/* After a turn: ends a file, and begins the next one. */
int braid_record_poll_rotation(struct braid_recording *r);

/* Acts on triggers that fired, but a flight recorder's. Return: whether one ends the recording. */
bool braid_record_poll_triggers(struct braid_recording *r);

/* The last file is complete, or its recording failed. */
int braid_record_end_rotation(struct braid_recording *r, bool failed);

/* Where a recording's chunks go: the file whose size and completeness count. */
static inline struct braid_capture_writer *braid_record_out(const struct braid_recording *r)
{
	return r->rotation.out ? r->rotation.out : r->sink.capture;
}

/* loop.c: from the first event to the last. 0 or -errno with braid_fail(). */
int braid_record_run(struct braid_recording *r);

/* command.c */

/*
 * Forks the process that will become the command, while we still can, and with the privileges that
 * we are about to drop. No effect without a command. -errno with braid_fail().
 */
int braid_child_prepare(struct braid_record_child *child);

/* Starts the command; -errno with braid_fail() when it can't be run. */
int braid_child_start(struct braid_record_child *child);

/* Whether it has ended; its status is kept. */
bool braid_child_ended(struct braid_record_child *child);

/* Ends it if it still runs, and waits for it. */
void braid_child_stop(struct braid_record_child *child);

/* say.c */

/* All before this is in the capture, as far as can be known; at least what is older than the deadline. */
s64 braid_record_complete_ns(const struct braid_recording *r, u64 deadline_ns);

/* Notes that in the capture, after all else of a turn. 0 or -errno with braid_fail(). */
int braid_record_mark_complete(struct braid_recording *r);

/* Says in a file that begins whose times it has. 0 or -errno with braid_fail(). */
int braid_record_put_host(const struct braid_recording *r, struct braid_capture_writer *out);

/* A line for the user, through ops. */
void braid_record_say(const struct braid_recording *r, const char *name, const char *format, ...)
	__attribute__((__format__(printf, 3, 4)));

/* viewer.c */

/*
 * Starts the process, before we are confined. No effect when not requested. -errno with
 * braid_fail().
 */
int braid_record_live_start(struct braid_recording *r);

/* What the capture is made as. */
static inline const char *braid_record_path(const struct braid_recording *r)
{
	return r->viewer.in_memory ? r->viewer.path : r->o.file;
}

/*
 * After a turn whose bytes are written: sends the complete position. 0 or -errno with braid_fail().
 */
int braid_record_live_turn(struct braid_recording *r);

/* Whether the recording ends with it: its reader is gone, or it is the only output. */
bool braid_record_live_gone(struct braid_recording *r);

/*
 * The capture is complete: waits until it is printed, or for a signal. No effect when none was
 * started, or it has ended.
 */
void braid_record_live_end(struct braid_recording *r);

/*
 * names.c. Whether a guest at that path can be named so, or is of the same domain. Return: 0, or
 * -EINVAL with braid_fail().
 */
int braid_record_check_name(struct braid_recording *r, const char *path, const char *name,
			    const char *domain);

/* memories.c. 0 or -ENOMEM with braid_fail(). */
int braid_record_note_domain(struct braid_recording *r, const char *path, const char *name);
int braid_record_poll_memories(struct braid_recording *r);
u64 braid_record_memories_rest_ns(const struct braid_recording *r);	/* until it has work */
bool braid_record_awaits_moved(struct braid_recording *r);	/* all guests are gone */
void braid_record_close_memories(struct braid_recording *r);

/* vms.c. 0 or -errno with braid_fail(): the capture's, or without memory. */
int braid_record_open_vms(struct braid_recording *r);	/* after the host; nothing without it */
int braid_record_poll_vms(struct braid_recording *r);
int braid_record_finish_vms(struct braid_recording *r);

#endif /* BRAID_RECORD_PRIVATE_H */
