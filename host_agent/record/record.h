/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A recording: of which guests, until when, into what. It prints nothing.
 *
 * Invariants:
 * - All processes are forked, then the recorder is confined, and only then it reads a byte of a guest. The command
 *   and the process that talks to libvirt are not confined.
 * - One thread reads guests' rings and the host's tracefs, in turns of bounded work; between turns it sleeps in
 *   braid_wait() alone. Another thread reads clock cells (host_agent/clock_sync/exchange.h).
 * - It does not wait for the disk while the queue of host_agent/capture/flusher.h has room; after that sub-buffers
 *   stay in the rings, which count what they lose. A snapshot has no queue: the recorder itself writes it.
 * - An error of a guest during the recording is reported, and does not end it; an error of the capture, of the host's
 *   tracefs or of memory does.
 * - A former capture of the same name is replaced after the start has succeeded, not before.
 * - The caller is informed through struct braid_record_ops, and changes nothing in the recording.
 */
#ifndef BRAID_RECORD_RECORD_H
#define BRAID_RECORD_RECORD_H

#include "host_agent/capture/flusher.h"
#include "host_agent/clock_sync/declared.h"
#include "host_agent/clock_sync/peer.h"
#include "host_agent/clock_sync/sampler.h"
#include "host_agent/discover/guest_agent.h"
#include "host_agent/discover/libvirt.h"
#include "host_agent/discover/vms.h"
#include "host_agent/live/region.h"
#include "host_agent/live/tracefs.h"
#include "host_agent/live/tracefs_quota.h"
#include "host_agent/live/vm.h"
#include "host_agent/record/wait.h"
#include "host_agent/transport/request.h"
#include "host_agent/util/confine.h"
#include "host_agent/util/defaults.h"
#include "host_agent/util/option.h"

#define BRAID_SAMPLE_EVENTS	"sample:cpu,sample:mapping"
#define BRAID_MAPPING_EVENTS	"sample:mapping"

/* What is to be recorded ------------------------------------------------------------------- */

enum braid_record_host {
	BRAID_HOST_NO,
	BRAID_HOST_TRY,		/* continue without it on failure */
	BRAID_HOST_YES,
};

/* A list of patterns. */
struct braid_record_patterns {
	struct braid_pattern *items;
	size_t nr;
	size_t capacity;
	size_t last;		/* the first one of the last -e */
};

/* Probes of guests; each has a pattern. */
struct braid_record_probes {
	struct braid_probe **items;
	size_t nr, capacity;
};

/* A region by -r. */
struct braid_record_given {
	char path[256];
	char name[64];
	bool named;		/* by ,name=: takes precedence */
};

/* Domains of libvirt. */
struct braid_record_domains {
	const char *uri;	/* NULL: libvirt's usual */
	const char **names;
	size_t nr;
	size_t capacity;
	bool all;		/* later ones too */
	bool agents;		/* guest agents enable events where a memory is only read */
};

#define BRAID_FLIGHT_PATH_BYTES		256	/* of a snapshot */
#define BRAID_FLIGHT_NUMBER_BYTES	16	/* and a suffix, after a name */

/* A flight recorder: snapshots, no capture. */
struct braid_record_flight_options {
	bool wanted;
	struct braid_record_patterns on;	/* events that call for a snapshot */
	u64 most;			/* of those found automatically */
	double hold_off;		/* seconds from one to the next */
};

/* A sequence of files, FILE-1.braid, FILE-2.braid..., each a complete capture. */
struct braid_record_rotate_options {
	u64 bytes;		/* of a file, about; 0: one file */
	double seconds;		/* likewise; 0: any time */
	u64 keep;		/* the newest files; 0: all */
};

/* Other hosts, with which times are exchanged. */
struct braid_record_peer_options {
	struct braid_option_list hosts;	/* HOST[:PORT], that are asked */
	const char *listen;		/* [ADDRESS:]PORT, where others ask; NULL: they may not */
	u64 rate;			/* questions in a second */
	bool packets;		/* the host's probes of packets are recorded */
};

/* A separate process that prints events as they are recorded. */
struct braid_record_live_options {
	bool wanted;
	bool json;
};

struct braid_record_options {
	const char *file;
	int fd;			/* open to be written, instead of @file; 0: none */
	bool keep_former;	/* an existing file is renamed to FILE.old, not replaced */
	const char *buffer;	/* of the guests; NULL: all */
	double seconds;		/* 0: until interrupted */
	bool quiet;		/* say only what went wrong */
	bool clock_only;	/* no event is enabled or read */
	bool prompt;		/* unfinished sub-buffers are read soon */
	bool compress;		/* the capture is packed as it is written */
	bool backlog;		/* what rings held before the start is recorded too */
	bool search;		/* each page of VMs' memory, before the recording */
	enum braid_record_host host;
	struct braid_record_patterns events;	/* none: BRAID_GUEST_EVENTS */
	struct braid_record_patterns host_events;
	bool host_events_given;
	struct braid_record_probes probes;
	struct braid_who who;	/* of the guests' events */
	struct braid_trigger_wish *triggers;
	size_t nr_triggers, triggers_capacity;
	struct braid_reshape reshape;	/* of the guests' buffers */
	u64 sample_hz;		/* 0: not */
	bool stacks;		/* of the kernel, with each event of the guests */
	bool user_stacks;	/* with either: also those of tasks */
	s32 *pids;		/* who.pids */
	size_t pids_capacity;
	const char *host_clock;	/* the trace clock; NULL: the file's */
	char **command;		/* to run meanwhile; NULL: none */
	struct braid_record_given *given;
	size_t nr_given;
	size_t given_capacity;
	struct braid_record_domains domains;
	struct braid_record_flight_options flight;
	struct braid_record_rotate_options rotate;
	struct braid_record_live_options live;
	struct braid_record_peer_options peers;
};

/* 0 or -errno with braid_fail(). REGION[,name=NAME]; SYSTEM[:EVENT],...; a name or UUID. */
int braid_record_add_guest(struct braid_record_options *o, const char *argument);
int braid_record_add_events(struct braid_record_patterns *list, const char *argument);
/* A task whose records alone are wanted. */
int braid_record_add_pid(struct braid_record_options *o, const char *argument);
/* Definitions as of braid_probe_parse(). */
int braid_record_add_kprobe(struct braid_record_options *o, const char *argument);
int braid_record_add_uprobe(struct braid_record_options *o, const char *argument);
/* A filter of the last -e's events; the text must outlive the options. */
int braid_record_add_filter(struct braid_record_patterns *list, const char *argument);
/* A trigger in the guests; the text must outlive the options. */
int braid_record_add_trigger(struct braid_record_options *o, const char *argument);
int braid_record_add_domain(struct braid_record_options *o, const char *name);

/** braid_record_complete_events - the default ones, and what --stacks and --sample add */
int braid_record_complete_events(struct braid_record_options *o);

/** braid_record_sampling - arg0 of BRAID_CMD_SAMPLE; 0: none is sent */
u64 braid_record_sampling(const struct braid_record_options *o);

/** braid_record_options_free - what was added */
void braid_record_options_free(struct braid_record_options *o);

/* The recording ---------------------------------------------------------------------------- */

/* A guest given or found. */
struct braid_record_guest {
	char path[256];
	char name[64];
	char domain[64];	/* libvirt's, used in its events; "": unknown */
	bool given;		/* by -r: it must be recordable */
	bool named;		/* and by ,name=: takes precedence */
	struct braid_endpoint *endpoint;	/* until source has it; or NULL */
	struct braid_region_source *source;
	u64 due_ns;		/* time of the next poll; 0: at once */
	u64 rest_ns;		/* between two polls */
	u64 active_ns;		/* when it last rang, or sent a message */
	struct braid_wait_guest wait;
	u32 agent_stream;	/* its guest agent was last asked for events of; 0: none */
	bool agent_asked;	/* it has not answered to all of that */
	bool agent_failed;	/* an answer was a failure */
	bool reported_waiting;
	u64 noticed;		/* flight: of its status, as acted upon */
	bool was_silent;
	u64 frozen_ns;		/* rotation: rings that a trigger stopped are drained up to then */
	u64 resumed_ns;		/* likewise, when they were last written again */
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

/* The snapshots of a flight recorder. */
struct braid_record_flight {
	struct braid_request_endpoint requests;
	struct braid_tracefs_watch *host_watch;	/* or NULL */
	struct braid_capture_writer *out;	/* the snapshot that is being written; NULL: none */
	char path[BRAID_FLIGHT_PATH_BYTES];	/* of it */
	char why[208];
	bool by_request;		/* a client waits for the answer */
	u64 deadline_ns;
	u64 events_before;
	u32 number;			/* in the last name */
	u64 nr_by_itself;
	u64 nr_taken;
	u64 last_ns;
	bool reported_refusal;
};

/* The files of a recording that rotates. */
struct braid_record_rotation {
	struct braid_capture_writer *out;	/* the present one; NULL: none */
	char path[BRAID_FLIGHT_PATH_BYTES];	/* of it */
	u32 number;			/* in that name */
	u64 began_ns;
	bool counted;			/* its first turn was; then: */
	u32 nr_streams;			/* that there were, and those of them that went on */
	u32 nr_live;
	u64 changed_ns;			/* when that was last the reason for a file; 0: never */
	u64 stop_ns;			/* it ends once it has all of before; 0: not yet */
	bool asked;			/* by a request */
	u32 nr_files;			/* that were begun ... */
	u64 bytes;			/* ... and the size of those that are complete */
};

/* What guest agents are asked for, and what they have enabled. */
struct braid_record_agents {
	struct braid_guest_agent process;
	struct braid_record_agent_file {
		struct braid_guest_agent_file file;
		size_t guest;		/* index */
		enum {
			BRAID_AGENT_WANTED,
			BRAID_AGENT_ASKED,	/* one at a time */
			BRAID_AGENT_ON,		/* enabled, or maybe */
		} state;
	} *files;
	size_t nr, capacity;
};

/* The search for regions in guests' own memory that come while others are recorded. */
struct braid_record_memories {
	bool wanted;
	struct braid_vms vms;
	size_t at;			/* of the VM that is searched next */
	u64 look_ns;			/* when the VMs are listed again */
	u64 search_ns;			/* when the next one is searched */
	u64 gone_ns;			/* since when all guests are gone; 0: they are not */
	size_t gone_at;			/* at then */
	struct braid_record_copy {	/* of a guest's region, in another VM: it may be migrated */
		pid_t pid;
		u64 incarnation;
		u64 beat;		/* as it was last seen */
		u32 beats;		/* how often that was new, while the guest was silent */
	} *copies;
	size_t nr_copies, copies_capacity;
	struct braid_record_domain {
		char path[32];		/* of the memory of its VMM */
		char name[64];
	} *domains;			/* of libvirt, that run without a device */
	size_t nr_domains, capacity;
};

/* A separate process that prints events as they are recorded. */
struct braid_record_viewer {
	bool in_memory;		/* the capture is not kept: it is a file without a name ... */
	char path[64];		/* ... to be opened by this */
	int memory_fd;		/* or -1 */
	u64 forgotten_bytes;	/* of it, from its start on */
	pid_t pid;		/* or 0 */
	int pidfd;		/* or -1 */
	int marks_fd;		/* receives the complete position of the capture; or -1 */
	u64 marked_ns;		/* time of the last mark */
	struct braid_capture_mark mark;	/* not sent until that much is written; 0 bytes: none */
};

/* The capture's reports about its own completeness. */
struct braid_record_marks {
	u64 marked_ns;		/* time of the last mark ... */
	s64 until_ns;		/* ... and the reported time */
	u64 bytes;		/* of the capture then */
	s64 grew_ns;		/* when it was last found to have more */
};

struct braid_recording {
	struct braid_record_options o;
	const struct braid_record_ops *ops;
	void *arg;		/* of ops */
	struct braid_record_guest *guests;
	size_t nr_guests;
	size_t guests_capacity;
	struct braid_record_child command;
	struct braid_domain_watch watch;
	struct braid_record_agents agents;
	struct braid_record_flight flight;
	struct braid_record_rotation rotation;
	struct braid_record_viewer viewer;
	struct braid_record_marks marks;
	struct braid_record_memories memories;
	struct braid_live_sink sink;
	struct braid_flusher *flusher;	/* writes the capture; NULL: none is kept, or many are */
	struct braid_exchange *exchange;
	struct braid_kvm_watch *kvm_watch;	/* NULL: no KVM here, or not ours to see */
	struct braid_tracefs_quota quota;
	struct braid_tracefs_source *host_source;
	struct braid_vm_sources *vms;	/* NULL: not noted */
	struct braid_sampler *sampler;
	struct braid_peers *peers;	/* NULL: none */
	struct braid_declared declared;
	u8 host_id[BRAID_HOST_ID_BYTES];	/* all 0: not known */
	int signal_fd;
	struct braid_wait wait;
	u64 flow_ns;		/* when a guest was last found to have written; 0: never */
	u64 start_ns;		/* 0: not yet */
	u64 end_ns;
};

/* Of all that was recorded. */
static inline u64 braid_record_bytes(const struct braid_recording *r)
{
	return r->rotation.out ? r->rotation.bytes + braid_capture_bytes(r->rotation.out) :
	       r->sink.capture ? braid_capture_bytes(r->sink.capture) : 0;
}

/* Whether guests may still be added. */
static inline bool braid_record_expects(const struct braid_recording *r)
{
	return r->o.domains.nr || r->o.domains.all;
}

/* What a recording calls: those with @arg in its own thread, between turns; say() during a turn, too. */
struct braid_record_ops {
	/* A line about a guest, or about all with a NULL or empty @name. */
	void (*say)(void *arg, const char *name, const char *line);
	void (*forked)(void *arg);	/* the last process that keeps its privileges was started */
	void (*started)(void *arg, const struct braid_recording *r);
	/* Of a VM's memory, before the recording, with options.search: bytes. */
	void (*searched)(void *arg, u64 done, u64 total);
	void (*progress)(void *arg, const struct braid_recording *r);	/* each second */
	void (*stopped)(void *arg, const struct braid_recording *r);	/* all is taken */
	/* Drops privileges: of the recorder, and of those that write open files. 0 or -errno. */
	int (*confine)(enum braid_confine what, const pid_t children[BRAID_CONFINE_CHILDREN]);
	int (*confine_writer)(void);
	/* The description of the host in a capture that begins now. */
	void (*capture_head)(struct braid_chunk_file *head);
	/* In a process of its own: prints what is recorded. @marks_fd ends with the recording. */
	int (*view)(const char *path, int marks_fd, bool json);
};

/* How it ended. */
struct braid_record_result {
	bool lacks;		/* less is recorded of some guest than was asked for */
	int status;		/* the command's exit code; 0 without one, or while it ran */
};

/**
 * braid_record_session - record, from the choice of guests to the end of the capture
 * @o: what; changed, for example by defaults. The caller frees it
 * @ops: called during the recording
 * @arg: handed to @ops
 * @result: filled on success
 *
 * SIGINT, SIGTERM and SIGHUP end the recording; a second one does not wait for guests.
 *
 * Return: 0, or -errno with braid_fail(): a capture that was begun is valid up to its last whole
 * chunk.
 */
int braid_record_session(struct braid_record_options *o, const struct braid_record_ops *ops,
			 void *arg, struct braid_record_result *result);

#endif /* BRAID_RECORD_RECORD_H */
