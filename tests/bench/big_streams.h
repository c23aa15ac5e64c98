/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The streams of a large capture: what they say before their events. */
#ifndef BRAID_TESTS_BIG_STREAMS_H
#define BRAID_TESTS_BIG_STREAMS_H

#include "host_agent/capture/capture.h"

#define NR_CPUS		4u
#define NR_TASKS	24u		/* of a stream */
#define FIRST_PID	1000
#define SUBBUF_BYTES	4096u
#define COUNTER_KHZ	2400000ULL
#define KERNEL_TEXT	0xffffffff81000000ULL
#define NR_FUNCTIONS	8u

enum scene {
	WINDOW,		/* the capture says when its recording started and stopped */
	LATER,		/* it is of the same guests, 10 s later */
	LOSSES,		/* of many rings */
	RESET,		/* guest1 is, in the middle */
	OFFLINE,	/* guests' vCPUs go off and on */
	MIGRATE,	/* the host and the guests record migrations, often, */
	RARE,		/* or as 0.1 % of all events, evenly, */
	BURSTS,		/* or as many, 50 at a time on a CPU */
	DRIVERLESS,	/* guest2 has no driver, guest1 has one from the middle on */
	QUOTAS,		/* guests' vCPUs are in cgroups, whose cpu.stat counts now and then */
	FIRST,		/* it is of a host that has an id */
	SECOND,		/* of another one, whose clock differs, and that exchanges times with FIRST */
	SAMPLES,	/* CPUs are sampled, in user space, too */
	SCENES
};

struct cpu {
	u32 index;
	u32 used;		/* bytes of data[] */
	u64 stamp;		/* of the page */
	u64 last;		/* counter of the last event */
	u64 position;
	u64 first_seq;		/* of the page */
	u64 next_seq;
	u64 lost, lost_before;
	u32 task;		/* that runs */
	s64 syscall;		/* it is in; -1: none */
	s32 irq;		/* being handled; 0: none */
	bool in_guest;		/* a host's: its task runs a vCPU */
	u8 page[SUBBUF_BYTES] __attribute__((__aligned__(8)));
};

struct stream {
	u32 number;
	const char *name;
	u16 first_id;
	s64 ppm;
	u64 booted_ns;		/* the host's clock at counter 0 */
	u64 sampled_ns;
	bool vm;		/* no driver runs in it: it has no events */
	struct cpu cpus[NR_CPUS];
};

extern bool scene[SCENES];
extern const char *const names[NR_TASKS];
extern const char *const functions[NR_FUNCTIONS];

/* Where the kernel has a function. */
u64 function_address(u32 k);

/* STREAM and what belongs to it, at a time. A VM's is of the process with its first thread. */
void begin_vm(struct braid_capture_writer *w, const struct stream *s, u64 now);
void begin_guest(struct braid_capture_writer *w, struct stream *s, u64 now);
void begin_host(struct braid_capture_writer *w, struct stream *s, u64 now);

/* The names of its tasks. */
void put_comms(struct braid_capture_writer *w, const struct stream *s);

#endif /* BRAID_TESTS_BIG_STREAMS_H */
