/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A simulated guest: lays out a region in a file, writes events, answers the host. */
#ifndef BRAID_TESTS_FAKE_GUEST_H
#define BRAID_TESTS_FAKE_GUEST_H

#include <pthread.h>
#include <sys/types.h>

#include "shared/region.h"
#include "shared/ring.h"
#include "shared/schema.h"

#define FAKE_MAX_VCPUS		64
#define FAKE_COUNTER_OFFSET	1000000000000000ULL	/* counter = host ns + this, at 1 GHz */
#define FAKE_NR_EVENTS		4

/* The parameters of a guest. */
struct fake_params {
	const char *name;
	u64 bytes;
	u32 nr_vcpus;
	u32 subbuf_bytes;
	u32 nr_slots;
	u32 flags;		/* BRAID_BUFFER_* */
	bool always;		/* writes whether or not its events are enabled */
	u64 rate;		/* events a second and vCPU */
	u64 poll_ns;		/* between two polls; 0: far more often than a guest */
	u32 counter_type;	/* its counter's type; 0: synthetic */
	u32 nr_comms;		/* entries; 0: 64 */
};

/* Shared between the test and the guest, which may be another process. */
struct fake_control {
	u32 stop;
	u32 go_down;		/* unload */
	u32 begin_anew;		/* reload */
	u32 frozen;		/* neither writes nor answers */
	u64 burst;		/* events to write now on each vCPU, in addition to the rate */
	u64 counter_gain;	/* of the counter, modulo 2^64 */
	u64 wall_ahead_ns;	/* of the wall time that it publishes */
	u32 wall_flags;		/* BRAID_WALL_* */
	u32 vmclock;		/* it has a vmclock page, with this ... */
	u64 marker;		/* ... disruption marker */
	u32 marker_spins;	/* the marker changes at each poll */
	u32 list_again;		/* before the next ENABLE, its first event is listed again */
	/* reported by the guest */
	u32 state;		/* as the region's */
	u32 stands;		/* it is frozen and does nothing */
	u32 nr_inits;
	u64 incarnation;
	u64 commands;		/* answered */
	u32 unseen;		/* events that ENABLE left out, since the host had not seen them */
	u64 offered[FAKE_MAX_VCPUS];	/* of this incarnation */
	u64 burst_done;
};

struct fake_guest {
	struct fake_params p;
	char path[256];
	int fd;
	u8 *base;
	struct fake_control *ctl;
	struct braid_superblock sb;		/* the guest's own copy */
	struct braid_writer *writers[BRAID_MAX_BUFFERS][FAKE_MAX_VCPUS];
	struct braid_ring_past past[BRAID_MAX_BUFFERS][FAKE_MAX_VCPUS];
	bool has_past[BRAID_MAX_BUFFERS];
	struct braid_clock_latch external;	/* sub-buffers begin with a TIME_STAMP */
	u32 directory_used;
	u32 event_offsets[FAKE_NR_EVENTS];
	u32 event_flags[FAKE_NR_EVENTS];
	u64 event_listed_at[FAKE_NR_EVENTS];	/* generations of the directory */
	u64 burst_seen;
	u64 pong_idle_ns;
	u64 next_ns;
	pthread_t thread;
	pid_t pid;
};

/* Creates the file and the first incarnation. Exits the test on failure. */
struct fake_guest *fake_guest_new(const char *path, const struct fake_params *p);

/* Runs in a thread, or in a process of its own. */
void fake_guest_start_thread(struct fake_guest *g);
void fake_guest_start_process(struct fake_guest *g);

/* Ends thread or process; the region stays as it is. */
void fake_guest_stop(struct fake_guest *g);

/* Stops, unmaps, removes the file. */
void fake_guest_free(struct fake_guest *g);

/* The following run in the calling thread: the guest must not run. */

/* Looks at its region once, as a live guest does repeatedly. */
void fake_guest_look(struct fake_guest *g);

/* Writes events into buffer 0, or into another one; their numbers continue across all of them. */
void fake_guest_write(struct fake_guest *g, u32 vcpu, u64 events);
void fake_guest_write_to(struct fake_guest *g, u32 buffer, u32 vcpu, u64 events);

/*
 * Creates a buffer, or recreates it so that it continues after its former end. Returns its index.
 */
u32 fake_guest_open_buffer(struct fake_guest *g, const struct braid_buffer_params *params);

/* Announces that a buffer is about to be removed. */
void fake_guest_closing(struct fake_guest *g, u32 buffer);

/* Removes its rings, whether or not an agent follows. @scribble: and reuses the memory. */
void fake_guest_close_buffer(struct fake_guest *g, u32 buffer, bool scribble);

/* Adds an entry to the event directory. */
void fake_guest_tell(struct fake_guest *g, struct braid_schema_event *event);

/* Whether the agent has acted upon all changes. */
bool fake_guest_followed(struct fake_guest *g);

/* A ring's parts as the guest sees them. */
void fake_guest_ring(struct fake_guest *g, u32 buffer, u32 vcpu, struct braid_ring_map *map);

/* Reads a ring of the first buffer in the guest, unfinished sub-buffers too; events found. */
u64 fake_guest_read(struct fake_guest *g, u32 vcpu);

/* The guest's counter, now. */
u64 fake_counter(void);

#endif /* BRAID_TESTS_FAKE_GUEST_H */
