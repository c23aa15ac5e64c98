/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of `tracebraid top` share: samples of guests, and the rates between two. */
#ifndef BRAID_CLI_TOP_H
#define BRAID_CLI_TOP_H

#include "host_agent/clock_sync/kvm.h"
#include "host_agent/discover/vms.h"
#include "host_agent/live/account.h"
#include "host_agent/online/online.h"

/* From one sample to the next, each a second; NAN: unknown. */
struct braid_top_rates {
	double events;
	double read;
	double bytes;
	double lost;
	double run;		/* of a CPU: 1 is all of it */
	double steal;		/* likewise, while it could have run */
	double exits;
};

/* One vCPU, by all its rings. */
struct braid_top_vcpu {
	u64 events;		/* written so far */
	u64 read;
	u64 bytes;
	u64 lost;
	u32 fill_permille;	/* of its fullest ring */
	pid_t tid;		/* of this host; 0: not known */
	bool timed;		/* times are known: */
	struct braid_thread_times times;
	u64 ns[BRAID_NR_VCPU_STATES];	/* of a capture's */
	struct braid_top_rates rates;
};

struct braid_top_guest {
	char path[256];
	char name[BRAID_GUEST_NAME_BYTES];
	struct braid_mapping *m;	/* NULL: not now */
	struct braid_superblock sb;	/* validated; of the last sample */
	enum braid_driver_state state;
	bool recorded;			/* an agent follows it */
	u64 guest_heartbeat, agent_heartbeat;
	u64 seen_ns;			/* when the former moved last */
	u64 sampled_ns;			/* 0: no sample of this incarnation */
	pid_t qemu_pid;
	bool bare;			/* a VM without a region that is mapped: no path */
	bool captured;			/* of a capture: likewise */
	bool counted;			/* of that: its events are in it */
	struct braid_kvm_vm *vm;	/* NULL: no data from KVM */
	u64 exits;
	bool exits_known;
	struct braid_top_vcpu *vcpus;
	u32 nr_vcpus;
	u64 events;			/* captured */
	u64 lost;			/* of all vCPUs */
	u32 fill_permille;		/* of the fullest */
	struct braid_top_rates rates;	/* summed up */
};

struct braid_top {
	struct braid_top_guest *guests;
	size_t nr, capacity;
	bool all;		/* new guests are shown too */
	const char *buffer;	/* of the guests, the only one; NULL: all */
	struct braid_vms vms;	/* if all */
	u64 scan_due_ns;	/* when to scan for guests, and for threads */
	struct braid_online *online;	/* of a capture, which is all then; or NULL */
	bool over;		/* the capture is complete, and all of it was sampled */
};

/* top_sample.c. Each: 0, or -errno with braid_fail(). */

/* Adds a guest by its region's file; @name: NULL: as it is found. */
int braid_top_add(struct braid_top *top, const char *path, const char *name);

/* Takes a sample of each guest, and has the rates since the one before. */
int braid_top_sample(struct braid_top *top);
void braid_top_free(struct braid_top *top);

/* top_capture.c: the guests are those of a capture. Likewise. */
int braid_top_open_capture(struct braid_top *top, const char *path);

/* Takes what it has by now. The first rates are since the recording's start. */
int braid_top_sample_capture(struct braid_top *top);

/* What guests can be in the order of. */
enum braid_top_key {
	BRAID_TOP_NAME,
	BRAID_TOP_EVENTS,
	BRAID_TOP_BYTES,
	BRAID_TOP_LOST,
	BRAID_TOP_FILL,
	BRAID_TOP_RUN,
	BRAID_TOP_STEAL,
	BRAID_TOP_EXITS,
	BRAID_TOP_KEYS
};

#define BRAID_TOP_KEY_NAMES	"name events bytes lost fill run steal exits"

/* top_show.c: the word for --sort; its first letter is the key on a terminal. */
const char *braid_top_key_name(enum braid_top_key key);

/* Sorts the guests: names ascending, all other columns descending. */
void braid_top_sort(struct braid_top *top, enum braid_top_key key);

/* Where the table goes. */
struct braid_top_screen {
	bool terminal;		/* replacing the former content, with a line on its keys */
	u32 rows, columns;	/* of it; ~0: no limit */
	u64 first;		/* of all rows, the first to be shown */
	bool keys;		/* what they do, instead of the table */
	enum braid_top_key key;	/* what guests are in the order of */
};

/* Prints the table, with the columns and rows that fit. */
void braid_top_print(const struct braid_top *top, const struct braid_top_screen *screen);

/* The number of rows, and of those shown at once. */
u64 braid_top_rows(const struct braid_top *top);
u32 braid_top_page(const struct braid_top *top, const struct braid_top_screen *screen);

/* Prints one JSON object on one line. */
void braid_top_print_json(const struct braid_top *top);

#endif /* BRAID_CLI_TOP_H */
