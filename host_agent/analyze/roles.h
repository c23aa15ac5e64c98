/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which events change the state of a task, a CPU or a vCPU, and where their fields are. */
#ifndef BRAID_ANALYZE_ROLES_H
#define BRAID_ANALYZE_ROLES_H

#include "host_agent/format/format.h"

#define BRAID_ROLE_FIELDS	4u

/* What an event means. The fields of each, in this order: */
enum braid_role {
	BRAID_ROLE_NONE = 0,
	BRAID_ROLE_SWITCH,	/* prev_pid, prev_state, next_pid, next_comm */
	BRAID_ROLE_WAKING,	/* pid: its wakeup follows, perhaps on another CPU */
	BRAID_ROLE_WAKEUP,	/* pid, target_cpu, comm */
	BRAID_ROLE_MIGRATE,	/* pid, dest_cpu, comm, orig_cpu */
	BRAID_ROLE_IRQ_ENTRY,	/* irq */
	BRAID_ROLE_IRQ_EXIT,
	BRAID_ROLE_SOFTIRQ_ENTRY,	/* vec */
	BRAID_ROLE_SOFTIRQ_EXIT,
	BRAID_ROLE_KVM_ENTRY,	/* vcpu_id */
	BRAID_ROLE_KVM_EXIT,	/* exit_reason, isa, guest_rip, vcpu_id */
	BRAID_ROLE_KVM_USER,	/* reason: to the VMM, in user space */
	BRAID_ROLE_KVM_NESTED,	/* the kvm_exit before it left a guest of the guest */
	BRAID_ROLE_CALL_ENTER,	/* id: of a system call whose name is not known */
	BRAID_ROLE_CALL_EXIT,
	BRAID_ROLE_KVM_IPI,	/* icr_low: a vCPU sends an interrupt to others */
	BRAID_ROLE_KVM_RAISE,	/* apicid, vec: a vCPU's APIC accepts an interrupt */
	BRAID_ROLE_KVM_INJECT,	/* vector, reinjected */
	BRAID_ROLE_KVM_HALTED,	/* waited: a vCPU's halt is over */
	BRAID_ROLE_VECTOR_ENTRY,	/* vector: an interrupt of the CPU itself, without a number */
	BRAID_ROLE_VECTOR_EXIT,
	BRAID_ROLE_ONLINE,	/* cpu, online: of the guest; our driver's event */
	/* Of probes that the recorder puts into the host's kernel; docs/analyze.md: */
	BRAID_ROLE_THROTTLE,	/* queue, cgroup, cpu: the quota's run queue may be throttled ... */
	BRAID_ROLE_THROTTLED,	/* ret: ... it was, on the same CPU */
	BRAID_ROLE_UNTHROTTLE,	/* queue */
	BRAID_ROLE_HELD_BACK,	/* the current thread is from now on */
};

/* A field of fixed place in a record. */
struct braid_role_field {
	u16 offset;
	u16 bytes;		/* 0: the event has no such field */
	bool is_signed;
};

struct braid_role_info {
	bool met;
	enum braid_role role;
	u32 call;		/* CALL_ENTER: which; or BRAID_CALL_UNKNOWN */
	u64 handler;		/* it begins or ends this one of an interrupt or timer, whatever
				   its role; 0: none */
	bool begins;		/* a handler */
	struct braid_role_field fields[BRAID_ROLE_FIELDS];
};

/* What a task does that a switch leaves. */
enum braid_left {
	BRAID_LEFT_RUNNABLE,	/* it was preempted, or yielded */
	BRAID_LEFT_SLEEPS,
	BRAID_LEFT_STOPPED,	/* or traced */
	BRAID_LEFT_DEAD,
};

/** braid_role_left - by sched_switch's prev_state */
enum braid_left braid_role_left(s64 prev_state);

/* A system call of a task. Values from BRAID_CALL_NUMBER on are numbers without a name. */
#define BRAID_CALL_UNKNOWN	0u
#define BRAID_CALL_NONE		1u	/* it executes user code; or is the idle task */
#define BRAID_CALL_FIRST	2u	/* in braid_roles.calls */
#define BRAID_CALL_NUMBER	(1u << 31)
#define BRAID_CALL_BYTES	32u

/* The roles of a source's event types, each looked up once. */
struct braid_roles {
	struct braid_role_info *infos;	/* by braid_event_type_info.number */
	size_t nr;
	char (*calls)[BRAID_CALL_BYTES];	/* names, sanitized; each once */
	size_t nr_calls, calls_capacity;
};

/**
 * braid_roles_find - the role of an event type
 * @roles: zeroed before the first call
 * @info: the type
 *
 * Return: its role, valid until the next call; NULL when out of memory, without braid_fail().
 */
const struct braid_role_info *braid_roles_find(struct braid_roles *roles,
					       const struct braid_event_type_info *info);

/** braid_role_call - the system call that a CALL_ENTER begins */
u32 braid_role_call(const struct braid_role_info *info, const struct braid_item *item);

/** braid_role_reason - why a KVM_EXIT left: isa << 32 | reason; 0: it does not say */
u64 braid_role_reason(const struct braid_role_info *info, const struct braid_item *item);

/** braid_call_name - "write", "-" for none, "?" when unknown, the number of one without a name */
void braid_call_name(const struct braid_roles *roles, u32 call, char name[BRAID_CALL_BYTES]);

/** braid_roles_renew - look all up again: types have other numbers; those of system calls stay */
void braid_roles_renew(struct braid_roles *roles);

/** braid_roles_free - free the table */
void braid_roles_free(struct braid_roles *roles);

/**
 * braid_role_number - the number in a field of a record
 * @info: its type's
 * @field: below BRAID_ROLE_FIELDS
 * @item: the event
 * @number: set on success
 *
 * Return: false when the event has no such field, or the record ends before it.
 */
bool braid_role_number(const struct braid_role_info *info, u32 field,
		       const struct braid_item *item, s64 *number);

/**
 * braid_role_comm - the task name in a field of a record
 * @info: its type's
 * @field: below BRAID_ROLE_FIELDS
 * @item: the event
 * @comm: updated, sanitized; unchanged when there is no such field
 *
 * Return: whether it was another name.
 */
bool braid_role_comm(const struct braid_role_info *info, u32 field,
		     const struct braid_item *item, char comm[BRAID_COMM_BYTES]);

#endif /* BRAID_ANALYZE_ROLES_H */
