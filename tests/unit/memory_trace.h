/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A trace in memory: a host of two CPUs (rings 0 and 1), and a guest of one vCPU (ring 2), thread
 * 70; which may come back after a reset (ring 3).
 */
#ifndef BRAID_TESTS_MEMORY_TRACE_H
#define BRAID_TESTS_MEMORY_TRACE_H

#include "host_agent/trace/source.h"
#include "tests/unit/format_text.h"

#define MEMORY_EVENTS	64u	/* in each ring, as a rule ... */
#define MEMORY_MOST	8192u	/* ... and at most */

enum {
	MEMORY_SWITCH = 1, MEMORY_WAKEUP, MEMORY_ENTRY, MEMORY_EXIT, MEMORY_USER, MEMORY_MIGRATE,
	MEMORY_IRQ, MEMORY_IRQ_END, MEMORY_WAKEUP_ON, MEMORY_NESTED, MEMORY_CALL, MEMORY_CALL_END,
	MEMORY_WRITE, MEMORY_WRITE_END,	/* of tracefs' system syscalls */
	MEMORY_IPI, MEMORY_RAISE, MEMORY_INJECT, MEMORY_HALTED, MEMORY_TIMER, MEMORY_TIMER_END,
	MEMORY_WAKING, MEMORY_FLUSH,	/* they change no state */
	MEMORY_ONLINE, MEMORY_SAMPLE,
	MEMORY_USER_SAMPLE, MEMORY_MAPPING, MEMORY_STACK,
	MEMORY_FORMATS = MEMORY_STACK,
};

struct memory_ring {
	struct braid_ring ring;
	struct memory_event {
		s64 ns;
		u64 lost;
		u64 bound;
		u64 counter;
		bool at_end;		/* it is a loss, and no event */
		u8 payload[96];
	} events[MEMORY_MOST];
	u32 nr, at;
	bool switched;
	s32 current;		/* since the last switch that was added */
};

extern struct memory_ring memory_rings[4];
extern struct braid_stream memory_host, memory_guest, memory_again;
extern struct braid_source memory_source;
extern struct braid_event_format memory_formats[MEMORY_FORMATS];

/* Empties all rings, and restores the streams; call it first. */
void memory_begin(void);

/*
 * memory_begin(), then: the guest's task 33 is preempted twice in the vCPU's thread 70, first by 9,
 * then by 9 and 8.
 */
void memory_stolen(void);

/* An event of a format, of a task; its fields are to be put. Events of a ring are in time order. */
struct memory_event *memory_add(u32 ring, s64 ns, u16 id, s32 pid);
void memory_put(struct memory_event *e, u32 offset, u64 value, u32 bytes);

s32 memory_current(u32 ring);
struct memory_event *memory_switch(u32 ring, s64 ns, s32 prev, u64 state, s32 next_pid);
struct memory_event *memory_wakeup(u32 ring, s64 ns, s32 pid);
void memory_wakeup_on(u32 ring, s64 ns, s32 pid, u32 cpu);
void memory_irq(u32 ring, s64 ns, bool begins, u32 number);
void memory_entry(u32 ring, s64 ns, s32 tid);
struct memory_event *memory_exit(u32 ring, s64 ns, s32 tid, u32 reason);
void memory_user(u32 ring, s64 ns, s32 tid);
struct memory_event *memory_migrate(u32 ring, s64 ns, s32 pid, u32 to_cpu);

/* The guest's vCPU @ring records that vCPU @cpu goes online or offline. */
struct memory_event *memory_online(u32 ring, s64 ns, u32 cpu, bool online);

/* The recording started and stopped then. */
void memory_window(s64 start_ns, s64 stop_ns);

/* So did one more; of the host and the guest, or only of one of them. Return: it, to be changed. */
struct braid_window *memory_more_window(s64 start_ns, s64 stop_ns, bool host, bool guest);

/*
 * The guest answers about its clock, the last time, and is reset; at the second time its driver
 * begins again.
 */
void memory_reset(s64 answers_ns, s64 again_ns);

#endif /* BRAID_TESTS_MEMORY_TRACE_H */
