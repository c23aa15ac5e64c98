/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A kernel's formats of its most common events, and the matching payloads. */
#ifndef BRAID_TESTS_BIG_FORMATS_H
#define BRAID_TESTS_BIG_FORMATS_H

#include <stddef.h>

#include "tracebraid/abi.h"

enum big_event {
	BIG_SWITCH = 1, BIG_WAKEUP, BIG_RUNTIME, BIG_IRQ_ENTRY, BIG_IRQ_EXIT, BIG_SOFTIRQ,
	BIG_SYS_ENTER, BIG_SYS_EXIT, BIG_TIMER_START, BIG_TIMER_EXPIRE, BIG_KVM_ENTRY, BIG_KVM_EXIT,
	BIG_EVENTS,		/* the others are in captures that ask for them */
	BIG_MIGRATE = BIG_EVENTS, BIG_ONLINE, BIG_SAMPLE, BIG_MAPPING, BIG_STACK, BIG_FORMATS
};

#define BIG_FRAMES	3u	/* at most, of a sample's stacks */

struct big_switch {
	struct braid_record r;
	char prev_comm[16];
	s32 prev_pid, prev_prio;
	u64 prev_state;
	char next_comm[16];
	s32 next_pid, next_prio;
};

struct big_wakeup {
	struct braid_record r;
	char comm[16];
	s32 pid, prio, target_cpu;
};

struct big_migrate {
	struct braid_record r;
	char comm[16];
	s32 pid, prio, orig_cpu, dest_cpu;
};

struct big_online {
	struct braid_record r;
	u32 cpu, online;
};

struct big_sample {
	struct braid_record r;
	u64 ip;
	u32 missed;
	u16 user, ends;
	u32 stack_location, user_location;
	u64 space;
	u32 late_ns, reserved;
	u64 frames[2 * BIG_FRAMES];	/* as many as there are */
};

struct big_mapping {
	struct braid_record r;
	u64 space, start, end, offset;
	u32 reserved, path_location, id_bytes;
	u8 id[20];
	char path[16];
};

struct big_stack {
	struct braid_record r;
	s32 size, reserved;
	u64 callers[8];
};

struct big_runtime {
	struct braid_record r;
	u32 comm_location;
	s32 pid;
	u64 runtime;
	char comm[16];		/* as long as it is */
};

struct big_irq_entry {
	struct braid_record r;
	s32 irq;
	u32 name_location;
	char name[16];		/* as long as it is */
};

struct big_irq_exit {
	struct braid_record r;
	s32 irq, ret;
};

struct big_softirq {
	struct braid_record r;
	u32 vec;
};

struct big_sys_enter {
	struct braid_record r;
	u64 id, args[6];
};

struct big_sys_exit {
	struct braid_record r;
	u64 id, ret;
};

struct big_timer_start {
	struct braid_record r;
	u64 hrtimer, function, expires, softexpires;
	u32 mode, reserved;
};

struct big_timer_expire {
	struct braid_record r;
	u64 hrtimer, now, function;
};

struct big_kvm_entry {
	struct braid_record r;
	u32 vcpu, reserved;
	u64 rip;
	u32 immediate_exit, reserved1;
};

struct big_kvm_exit {
	struct braid_record r;
	u32 exit_reason, reserved;
	u64 guest_rip;
	u32 isa, reserved1;
	u64 info1, info2;
	u32 intr_info, error_code, vcpu, reserved2;
};

/* An event's name and format. */
struct big_format {
	const char *system;
	const char *name;
	const char *fields;
	const char *print;
};

extern const struct big_format big_formats[BIG_FORMATS];

/* The text as in tracefs. Return: its bytes, without the NUL. */
size_t big_format_text(enum big_event event, u16 id, char *to, size_t room);

#endif /* BRAID_TESTS_BIG_FORMATS_H */
