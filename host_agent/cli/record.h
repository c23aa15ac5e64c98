/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of `tracebraid record` share among themselves. */
#ifndef BRAID_CLI_RECORD_H
#define BRAID_CLI_RECORD_H

#include "host_agent/clock/sampler.h"
#include "host_agent/discover/libvirt.h"
#include "host_agent/export/export.h"
#include "host_agent/source/region.h"
#include "host_agent/source/tracefs.h"
#include "host_agent/transport/request.h"
#include "host_agent/util/array.h"

#define BRAID_RECORD_FILE	"tracebraid.braid"
#define BRAID_GUEST_EVENTS	"sched,irq"
#define BRAID_LOOP_FDS		3	/* that the loop sleeps on, before those of guests */

enum braid_record_host {
	BRAID_HOST_NO,
	BRAID_HOST_TRY,		/* go on without when it can't be */
	BRAID_HOST_YES,
};

/* A guest given or found. */
struct braid_record_guest {
	char path[256];
	char name[64];
	char domain[64];	/* libvirt's, which events of libvirt speak of; "": none is known */
	bool given;		/* by -r: it must be recordable */
	bool named;		/* and by ,name=: nobody knows better */
	struct braid_port *port;	/* made before we were confined, until source has it; or NULL */
	struct braid_region_source *source;
	u64 due_ns;		/* when it is polled again; 0: at once */
	u64 rest_ns;		/* between two polls */
	u64 heard_ns;		/* when it last rang, or sent a message */
	size_t nr_fds;		/* of the loop's, that are its port's */
	u64 last_events;	/* at the last progress line */
	bool told_waiting;
	u64 noticed;		/* flight: of its status, as acted upon */
	bool was_silent;
};

/* A list of patterns. */
struct braid_record_patterns {
	struct braid_pattern *items;
	size_t nr;
	size_t capacity;
};

/* The command that runs while we record. */
struct braid_record_child {
	char **argv;		/* NULL: none */
	pid_t pid;
	int pidfd;		/* or -1 */
	int go_fd;		/* a byte: become the command; or -1 */
	int failure_fd;		/* why it could not; or -1 */
	int status;		/* an exit code, once it ended */
	bool ended;
};

/* Domains of libvirt that are recorded. */
struct braid_record_domains {
	const char *uri;	/* NULL: libvirt's usual */
	const char **names;	/* by -d */
	size_t nr;
	size_t capacity;
	bool all;		/* those that come later too */
	struct braid_domain_watch watch;
};

#define BRAID_FLIGHT_NUMBER_BYTES	16	/* and a suffix, behind a name */

/* --snapshot: a flight recorder. */
struct braid_record_flight {
	bool wanted;
	struct braid_record_patterns on;	/* events that call for a snapshot */
	u64 most;			/* of those that are taken by themselves */
	double hold_off;		/* seconds from one to the next */
	struct braid_request_port requests;
	struct braid_tracefs_watch *host_watch;	/* or NULL */
	struct braid_capture_writer *out;	/* the snapshot that is being written; NULL: none */
	char path[256];			/* of it */
	char why[208];
	bool by_request;		/* somebody waits for the answer */
	u64 deadline_ns;
	u64 events_before;
	u32 number;			/* in the last name */
	u64 nr_by_itself;
	u64 nr_taken;
	u64 last_ns;
	bool told_refusal;
};

/* A process of its own that prints what is recorded, as it comes. */
struct braid_record_live {
	bool wanted;
	bool json;
	bool in_memory;		/* nobody wants the capture: it is a file without a name ... */
	char path[64];		/* ... to be opened by this */
	int memory_fd;		/* or -1 */
	u64 forgotten_bytes;	/* of it, from its start on */
	pid_t pid;		/* or 0 */
	int pidfd;		/* or -1 */
	int marks_fd;		/* where it is told how far the capture is good; or -1 */
	u64 told_ns;		/* when it was told last */
};

/* What is made of the capture when it is whole. */
struct braid_record_to {
	const struct braid_export_form *form;	/* NULL: nothing */
	const char *out;
	char capture[4096];			/* kept beside it */
};

struct braid_recording {
	const char *file;
	const char *buffer;	/* of the guests; NULL: all */
	double seconds;		/* 0: until told */
	bool quiet;
	bool clock_only;	/* no event is enabled, none is taken */
	bool backlog;		/* what rings held before the start is recorded too */
	enum braid_record_host host;
	struct braid_record_patterns events;
	struct braid_record_patterns host_events;
	bool host_events_given;
	const char *host_clock;	/* the trace clock; NULL: the file's */
	struct braid_record_guest *guests;
	size_t nr_guests;
	size_t guests_capacity;
	struct braid_record_child child;
	struct braid_record_domains domains;
	struct braid_record_flight flight;
	struct braid_record_live live;
	struct braid_record_to to;

	struct braid_live_sink sink;
	struct braid_exchange *exchange;
	struct braid_kvm_watch *kvm_watch;	/* NULL: no KVM here, or not ours to see */
	struct braid_tracefs_source *host_source;
	struct braid_sampler *sampler;
	int signal_fd;
	struct pollfd *fds;	/* all that the loop sleeps on: room for every guest's */
	u64 start_ns;		/* 0: not yet */
	u64 end_ns;
	u64 last_progress_ns;
	bool terminal;		/* stderr is one */
	bool line_open;		/* a progress line stands there */
	bool lacks;		/* it is over, and braid_record_lacks() */
};

/* cmd_record.c: all of a recording that was filled in. 0 or -errno with braid_fail(). */
int braid_record_whole(struct braid_recording *r);

/*
 * record_export.c: --to. The form; what is checked and loaded before we are confined; and the
 * export, once the capture is whole. 0 or -errno with braid_fail().
 */
int braid_record_take_form(struct braid_recording *r, const char *name);
int braid_record_prepare_export(struct braid_recording *r);
int braid_record_export(struct braid_recording *r);

/* record_setup.c: who and what is recorded. 0 or -errno with braid_fail(). */
int braid_record_add_guest(struct braid_recording *r, const char *argument);
int braid_record_add_events(struct braid_record_patterns *list, const char *argument);
int braid_record_find_guests(struct braid_recording *r);
int braid_record_open_guests(struct braid_recording *r);
int braid_record_open_guest(struct braid_recording *r, struct braid_record_guest *guest);

/* Has the loop sleep on as many guests as there are now. */
int braid_record_make_room(struct braid_recording *r);
int braid_record_check_host(struct braid_recording *r);
int braid_record_open_host(struct braid_recording *r);
int braid_record_open_file(struct braid_recording *r);

/* record_setup.c: opens what can't be opened later, then gives up what is not needed any more. */
int braid_record_confine(struct braid_recording *r);

/* record_domains.c: -d, --all and -c. 0 or -errno with braid_fail(). */
int braid_record_add_domain(struct braid_recording *r, const char *name);

/* Begins to watch libvirt, in a process of its own: before we are confined. */
int braid_record_watch_domains(struct braid_recording *r);

/* Adds the guests that libvirt tells of by now. */
int braid_record_take_domains(struct braid_recording *r);

/* Takes what befell domains: guests that came are recorded too. An error is the capture's. */
int braid_record_poll_domains(struct braid_recording *r);

/* Whether guests may yet come. */
static inline bool braid_record_expects(const struct braid_recording *r)
{
	return r->domains.nr || r->domains.all;
}

/* record_snapshot.c: --snapshot. 0 or -errno with braid_fail(); nothing without it. */
int braid_record_open_flight(struct braid_recording *r);	/* before we are confined */
int braid_record_watch_host(struct braid_recording *r);		/* once the host is recorded */
void braid_record_close_flight(struct braid_recording *r);

/* Adds --on's events to those that are enabled. */
int braid_record_add_on(struct braid_recording *r, struct braid_record_patterns *list);

/* Goes on with a snapshot, or begins one when there is cause. An error is memory's. */
int braid_record_poll_flight(struct braid_recording *r);

/* record_loop.c: from the first event to the last. 0 or -errno with braid_fail(). */
int braid_record_run(struct braid_recording *r);

/* Whether -B named a buffer that some guest had, or nothing is known. -ENOENT with braid_fail(). */
int braid_record_check_buffer(const struct braid_recording *r);

/* record_child.c */

/*
 * Forks the process that is to become the command, before we can't any more, and with all
 * that we have and are about to give up. Does nothing without one. -errno with braid_fail().
 */
int braid_child_prepare(struct braid_record_child *child);

/* Starts the command; -errno with braid_fail() when it can't be run. */
int braid_child_start(struct braid_record_child *child);

/* Whether it has ended; its status is kept. */
bool braid_child_ended(struct braid_record_child *child);

/* Ends it if it still runs, and waits for it. */
void braid_child_stop(struct braid_record_child *child);

/* record_live.c: --live */

/* Starts the process, before we are confined. Does nothing when none is wanted. -errno with braid_fail(). */
int braid_record_live_start(struct braid_recording *r);

/* What the capture is made as. */
static inline const char *braid_record_path(const struct braid_recording *r)
{
	return r->live.in_memory ? r->live.path : r->file;
}

/* Behind a turn whose bytes are written: tells what is complete. 0 or -errno with braid_fail(). */
int braid_record_live_turn(struct braid_recording *r);

/* Whether the recording is to end with it: nobody reads it any more, or nothing else is wanted. */
bool braid_record_live_gone(struct braid_recording *r);

/*
 * All is put that will be: waits until it is printed, or a signal comes. Fine when none was
 * started, or it was ended before.
 */
void braid_record_live_end(struct braid_recording *r);

/* record_progress.c: all that is printed, on stderr. */
void braid_record_say(struct braid_recording *r, const char *name, const char *format, ...)
	__attribute__((__format__(printf, 3, 4)));
void braid_record_start_line(struct braid_recording *r);
void braid_record_progress(struct braid_recording *r);
void braid_record_summary(struct braid_recording *r);

/* Whether less is recorded of some guest than was asked for. */
bool braid_record_lacks(const struct braid_recording *r);

#endif /* BRAID_CLI_RECORD_H */
