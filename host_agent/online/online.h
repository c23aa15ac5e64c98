/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Analyses that go on while the host is recorded: sums that only grow.
 *
 * Invariants:
 * - A recording is a sequence of captures, the files. One file is followed at a time, up to the
 *   recorder's marks. Sums go on from file to file. A file is observed up to its stop.
 * - If the next file says that it goes on there, it is observed from there on: what was known of
 *   vCPUs and tasks holds, and events that the former file has of later times count as the next
 *   one's. Else what is between the stop and the next file's start is not observed.
 * - A guest is known by its name, in all files. Its vCPUs' times in all states add up to the time
 *   of their observation, to the nanosecond. They equal those of an analysis of all files that go
 *   on, together, where no event is lost or late, and each vCPU has an event in the first 0.3 s of
 *   the recording, and of its guest's first file. Late is what precedes a mark that was taken up:
 *   for the states it counts as lost.
 * - No sum of a guest goes back, until the guest has been gone for so long that it is dropped.
 * - Sums are as of the last mark that was taken up. Culprits lag behind while it is not certain on
 *   which CPU a vCPU waits.
 * - Work for an event does not depend on the number of guests. If events are watched, each event
 *   costs a look into a table; otherwise a test.
 * - Reading costs the number of series, and never an event.
 * - Memory is that of two files' streams and of pages between two marks, and of the tables, which
 *   have limits: what is beyond them is "others".
 * - A damaged or hostile file never crashes: it is counted, and left where it cannot be read on.
 * - No lock: one thread at a time uses an engine, and what it returns is valid until the next call.
 */
#ifndef BRAID_ONLINE_ONLINE_H
#define BRAID_ONLINE_ONLINE_H

#include "host_agent/analyze/states.h"
#include "host_agent/capture/capture.h"
#include "host_agent/online/native.h"

#define BRAID_ONLINE_BUCKETS	22u
#define BRAID_ONLINE_NAME	128u	/* capacity */
#define BRAID_ONLINE_EVENTS	96u	/* that are watched at a time */

struct braid_online;

/* 0: the default. */
struct braid_online_options {
	u64 every_ns;		/* marks that are closer than this are not taken up; 100 ms */
	u64 retain_ns;		/* guests that are gone for longer are dropped, and culprits; 1 h */
	u32 max_guests;		/* others are counted as left out; 1024 */
	u32 max_culprits;	/* rows of a guest; 32 */
	u32 max_cgroups;	/* likewise; 8 */
	u32 max_reasons;	/* of exits, likewise; 64 */
};

/* Durations, exactly by the upper limits of buckets, which are inclusive. */
struct braid_online_histogram {
	u64 counts[BRAID_ONLINE_BUCKETS + 1];	/* of each bucket alone; the last one is open */
	u64 nr, sum_ns;
	u64 natives[BRAID_NATIVE_BUCKETS];	/* by braid_native_bucket() */
	struct braid_online_worst {
		s64 second;		/* of the host's clock */
		u64 ns;			/* the longest that ended in it, or goes on; 0: none */
		s64 at_ns;		/* its end */
	} now, before;			/* of the present second, and of the last one with any */
};

extern const u64 braid_online_limits_ns[BRAID_ONLINE_BUCKETS];

/* A sum by something else than the guest. */
struct braid_online_row {
	u64 key;		/* a culprit's enum braid_culprit_kind; an exit's reason; else 0 */
	char name[BRAID_ONLINE_NAME];	/* sanitized, UTF-8 */
	u64 count, ns;
	s64 last_ns;		/* when it was last added to */
};

struct braid_online_rows {
	struct braid_online_row *items;
	size_t nr, capacity;
	struct braid_online_row others;	/* beyond the limit; count 0: none */
};

struct braid_online_vcpu {
	u64 ns[BRAID_NR_VCPU_STATES];
	s64 event_ns;		/* its last event; 0: none. Of a guest with the driver */
};

/* What was seen of a watched event in a guest. */
struct braid_online_seen {
	u64 count;
	/* The first one since braid_online_look_again(); without any, the one before: */
	u64 look;
	s64 host_ns;
	u32 cpu;
	s32 pid;		/* or BRAID_PID_UNKNOWN */
	char comm[32];		/* sanitized */
	char event[BRAID_ONLINE_NAME];	/* likewise, "sched:sched_switch" */
};

struct braid_online_guest {
	char name[64];		/* sanitized, UTF-8 */
	bool present;		/* in the file that is followed, or was last */
	bool driver;		/* and its events are recorded */
	s64 seen_ns;		/* when it was last present */
	u32 states;		/* a bit for each state that its files can show */
	struct braid_online_vcpu *vcpus;
	size_t nr_vcpus;
	struct braid_online_rows culprits;	/* of its stolen time, by kind and name */
	struct braid_online_rows cgroups;	/* of its throttled time, by path */
	struct braid_online_rows exits;		/* from guest code until it goes on, by reason */
	struct braid_online_histogram wakeups;	/* from a task's wake-up to its vCPU */
	struct braid_online_histogram vcpu_wakeups;	/* from that of a vCPU to its CPU */
	struct braid_online_histogram steals;	/* episodes of its vCPUs */
	u64 events, lost;
	u64 losses;		/* of unknown size, which are not in lost */
	enum braid_clock_kind clock;
	u64 bound_ns;		/* or BRAID_BOUND_UNKNOWN; with the driver */
	struct braid_online_seen *seen;	/* by the number of braid_online_watch() */
	size_t nr_seen;
	s64 sign_ns;		/* its last event, or answer about its clock; 0: none */
};

struct braid_online_totals {
	s64 now_ns;		/* the last mark that was taken up, by the host's clock; 0: none */
	u64 files;		/* that were opened */
	u64 failed;		/* of them: left before their end */
	u64 faults;		/* in files: damaged, or against the format */
	u64 host_events, host_lost, host_losses;	/* as of guests */
	u64 late;		/* events that came after their time had been summed up */
	u64 streams_left_out;	/* beyond max_guests, or not there when their file began */
	u64 guests_dropped;
};

/**
 * braid_online_begin - an engine without a file
 * @out: set on success
 * @options: copied; NULL: the defaults
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_online_begin(struct braid_online **out, const struct braid_online_options *options);

/**
 * braid_online_open - follow the next file
 * @o: follows none: the last one was finished, or failed
 * @path: has its head; copied
 *
 * Return: 0, or -errno with braid_fail(), which is counted: then it follows none.
 */
int braid_online_open(struct braid_online *o, const char *path);

/**
 * braid_online_take - go on to a mark
 * @o: without a file, it does nothing
 * @mark: of that file; until_ns INT64_MAX: as braid_online_finish()
 *
 * Return: 0, or -errno with braid_fail(), which is counted: then it follows no file any more, and
 * what it had summed up stays.
 */
int braid_online_take(struct braid_online *o, const struct braid_capture_mark *mark);

/**
 * braid_online_finish - the file is complete, and none goes on: take up the rest, and leave it
 *
 * If braid_online_turn() has taken the file up to its end, what it left for the next one counts as
 * its own. Return: likewise.
 */
int braid_online_finish(struct braid_online *o);

#define BRAID_ONLINE_END	2

/**
 * braid_online_turn - go on by what the file itself says of its completeness
 * @o: follows a file
 * @last: it gets no more
 *
 * Return: 1: there was some; 0: not now; BRAID_ONLINE_END: that was all, and it follows none; or
 * -errno, as of braid_online_take(). At its end, exits and episodes go on: they count when they are
 * over.
 */
int braid_online_turn(struct braid_online *o, bool last);

/**
 * braid_online_watch - count an event from now on
 * @o: the engine
 * @pattern: SYSTEM:EVENT, each a glob
 * @filter: an expression over its fields; NULL or "": none
 * @number: set on success: the index in ->seen of struct braid_online_guest
 *
 * Counts recorded events of guests with the driver, also those that are late.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_online_watch(struct braid_online *o, const char *pattern, const char *filter,
		       u32 *number);

/** braid_online_watch_check - check them alone. Return: 0, or -errno with braid_fail() */
int braid_online_watch_check(const char *pattern, const char *filter);

/** braid_online_unwatch - stop counting an event; its number becomes free */
void braid_online_unwatch(struct braid_online *o, u32 number);

/** braid_online_look_again - describe the next event of each pattern, in each guest */
void braid_online_look_again(struct braid_online *o);

/** braid_online_guests - all guests, in no order; *nr: set to their number */
const struct braid_online_guest *const *braid_online_guests(const struct braid_online *o,
							    size_t *nr);

/** braid_online_totals - what is not of one guest */
const struct braid_online_totals *braid_online_totals(const struct braid_online *o);

/** braid_online_silent_ns - for how long it gave no sign; UINT64_MAX: without driver, or gone */
u64 braid_online_silent_ns(const struct braid_online *o, const struct braid_online_guest *g);

/** braid_online_worst_ns - the longest of the present and the last second. Goes back */
u64 braid_online_worst_ns(const struct braid_online *o, const struct braid_online_histogram *h);

/** braid_online_shows_tasks - whether a guest's events show wake-ups of its tasks */
static inline bool braid_online_shows_tasks(const struct braid_online_guest *g)
{
	return g->driver && g->wakeups.nr;
}

/**
 * braid_online_wakeup_ns - the longest wake-up of the present and the last second: of tasks, or if
 * the guest shows none, of vCPUs. Goes back
 */
u64 braid_online_wakeup_ns(const struct braid_online *o, const struct braid_online_guest *g);

/** braid_online_end - free all; NULL is fine */
void braid_online_end(struct braid_online *o);

#endif /* BRAID_ONLINE_ONLINE_H */
