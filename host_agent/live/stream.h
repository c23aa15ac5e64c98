/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The stream of a recorded guest: what every part of a live region needs, and how it writes chunks.
 *
 * - The lifecycle (region.c) sets these fields, and the parts read them. Besides, region_buffers.c
 *   updates the buffers in sb and down, region_control.c updates silent, any part sets fatal.
 * - sb is a validated private copy. A part never reads the shared superblock, except by functions
 *   of transport/ that validate what they return.
 * - While a stream is open the mapping is not NULL. Its memory is read under braid_guard_run(): a
 *   SIGBUS leaves a function by longjmp, so heap pointers are kept in a part's struct, never only
 *   on the stack.
 * - An error of the capture, or of our memory, is in fatal; it ends the recording.
 * - No part knows another part's struct, nor the source that holds them all.
 */
#ifndef BRAID_LIVE_STREAM_H
#define BRAID_LIVE_STREAM_H

#include "host_agent/live/region.h"
#include "host_agent/util/rate.h"

#define BRAID_TURN_RINGS	1024u	/* checked in one guest per turn */
#define BRAID_NOTES_A_SECOND	32u	/* more are counted, and their number is noted */

struct braid_live_stream {
	struct braid_region_options o;
	char name[64];
	struct braid_mapping *mapping;
	struct braid_superblock sb;	/* of the stream; validated */
	u32 number;			/* 0: no stream yet */
	u64 found_ns;			/* as its STREAM has it */
	pid_t qemu_pid;			/* 0: not known */
	bool silent;			/* the guest's heartbeat has stopped */
	bool down;			/* the driver's last word is written */
	bool started;			/* o.window: the recording has begun ... */
	bool stopped;			/* ... and ended */
	int fatal;			/* the capture's error */
	struct braid_rate notes;
	u64 notes_left_out;		/* since the last one */
};

/* region_stream.c ------------------------------------------------------------------ */

/* Puts a chunk of the current stream; remembers a failure in ->fatal. */
int braid_live_emit(struct braid_live_stream *s, u16 type, const void *head, u32 head_bytes,
		    const void *body, u32 body_bytes);

/* Now, by the capture's clock. */
u64 braid_live_now_ns(const struct braid_live_stream *s);

/* Puts the STREAM of the current incarnation. */
int braid_live_put_stream(struct braid_live_stream *s);

/* Whether events are read, or skipped, at this time. */
static inline bool braid_live_takes(const struct braid_live_stream *s)
{
	return !s->o.window || s->o.backlog || s->started;
}

/* Runs a function that reads the region: as braid_guard_run(). */
static inline int braid_live_guard(const struct braid_live_stream *s, int (*fn)(void *), void *arg)
{
	return braid_guard_run(s->mapping->base, s->mapping->bytes, fn, arg);
}

/* Under the guard: moves the agent's heartbeat. */
void braid_live_beat(struct braid_live_stream *s);

/* A buffer's name, fit for a note. */
struct braid_live_name {
	char text[BRAID_NAME_BYTES];
};
struct braid_live_name braid_live_buffer_name(const struct braid_live_stream *s, u32 buffer);

/*
 * Reports to the user, and to the capture when a stream is open. Notes beyond BRAID_NOTES_A_SECOND
 * are only counted. Returns 0 or the capture's error.
 */
int braid_live_note(struct braid_live_stream *s, const char *format, ...)
	__attribute__((__format__(printf, 2, 3)));

/* Reports the number of suppressed notes, when due, or @now. Returns 0 or the capture's error. */
int braid_live_notes_poll(struct braid_live_stream *s, bool now);

#endif /* BRAID_LIVE_STREAM_H */
