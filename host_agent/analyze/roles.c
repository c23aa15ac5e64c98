// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds the events that change states, once per event type, and reads their fields. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "host_agent/analyze/roles.h"
#include "host_agent/util/array.h"
#include "host_agent/util/number.h"
#include "shared/platform.h"

#define MAX_CALLS	4096u	/* names of system calls; later ones are unknown */
#define MAX_CALL	0xffffu	/* number of one without a name */

/* Of prev_state, as all kernels print it; the bit above them means preempted. */
#define SLEEP_STATES	0xffu
#define STOP_STATES	0x0cu
#define DEAD_STATES	0x30u

/* Systems whose events come in pairs, HANDLER_entry and HANDLER_exit. */
static const char *const paired[] = { "irq", "irq_vectors", "timer" };

/* Fields by name; an event without the first @needed of them has no role. */
static const struct {
	const char *system, *name;
	enum braid_role role;
	u32 needed;
	const char *fields[BRAID_ROLE_FIELDS];
} roles[] = {
	{ "sched", "sched_switch", BRAID_ROLE_SWITCH, 3,
	  { "prev_pid", "prev_state", "next_pid", "next_comm" } },
	{ "sched", "sched_waking", BRAID_ROLE_WAKING, 1, { "pid" } },
	{ "sched", "sched_wakeup", BRAID_ROLE_WAKEUP, 1, { "pid", "target_cpu", "comm" } },
	{ "sched", "sched_wakeup_new", BRAID_ROLE_WAKEUP, 1, { "pid", "target_cpu", "comm" } },
	{ "sched", "sched_migrate_task", BRAID_ROLE_MIGRATE, 2, { "pid", "dest_cpu", "comm", "orig_cpu" } },
	{ "irq", "irq_handler_entry", BRAID_ROLE_IRQ_ENTRY, 1, { "irq" } },
	{ "irq", "irq_handler_exit", BRAID_ROLE_IRQ_EXIT, 0, { NULL } },
	{ "irq", "softirq_entry", BRAID_ROLE_SOFTIRQ_ENTRY, 1, { "vec" } },
	{ "irq", "softirq_exit", BRAID_ROLE_SOFTIRQ_EXIT, 0, { NULL } },
	{ "kvm", "kvm_entry", BRAID_ROLE_KVM_ENTRY, 0, { "vcpu_id" } },
	{ "kvm", "kvm_exit", BRAID_ROLE_KVM_EXIT, 1, { "exit_reason", "isa", "guest_rip", "vcpu_id" } },
	{ "kvm", "kvm_exit", BRAID_ROLE_KVM_EXIT, 1, { "esr_ec", "isa", "vcpu_pc" } },	/* arm64 */
	{ "kvm", "kvm_userspace_exit", BRAID_ROLE_KVM_USER, 0, { "reason" } },
	{ "kvm", "kvm_nested_vmexit", BRAID_ROLE_KVM_NESTED, 0, { NULL } },
	{ "kvm", "kvm_apic_ipi", BRAID_ROLE_KVM_IPI, 1, { "icr_low" } },
	{ "kvm", "kvm_apic_accept_irq", BRAID_ROLE_KVM_RAISE, 2, { "apicid", "vec" } },
	{ "kvm", "kvm_inj_virq", BRAID_ROLE_KVM_INJECT, 1, { "vector", "reinjected" } },
	{ "kvm", "kvm_inj_virq", BRAID_ROLE_KVM_INJECT, 1, { "irq" } },	/* before 6.0 */
	{ "kvm", "kvm_vcpu_wakeup", BRAID_ROLE_KVM_HALTED, 1, { "waited" } },
	{ "irq_vectors", "local_timer_entry", BRAID_ROLE_VECTOR_ENTRY, 1, { "vector" } },
	{ "irq_vectors", "local_timer_exit", BRAID_ROLE_VECTOR_EXIT, 0, { NULL } },
	{ "irq_vectors", "reschedule_entry", BRAID_ROLE_VECTOR_ENTRY, 1, { "vector" } },
	{ "irq_vectors", "reschedule_exit", BRAID_ROLE_VECTOR_EXIT, 0, { NULL } },
	{ "irq_vectors", "call_function_entry", BRAID_ROLE_VECTOR_ENTRY, 1, { "vector" } },
	{ "irq_vectors", "call_function_exit", BRAID_ROLE_VECTOR_EXIT, 0, { NULL } },
	{ "irq_vectors", "call_function_single_entry", BRAID_ROLE_VECTOR_ENTRY, 1, { "vector" } },
	{ "irq_vectors", "call_function_single_exit", BRAID_ROLE_VECTOR_EXIT, 0, { NULL } },
	{ "irq_vectors", "irq_work_entry", BRAID_ROLE_VECTOR_ENTRY, 1, { "vector" } },
	{ "irq_vectors", "irq_work_exit", BRAID_ROLE_VECTOR_EXIT, 0, { NULL } },
	{ "tracebraid", "cpu_online", BRAID_ROLE_ONLINE, 2, { "cpu", "online" } },
	{ BRAID_QUOTA_SYSTEM, "throttle", BRAID_ROLE_THROTTLE, 3, { "queue", "cgroup", "cpu" } },
	{ BRAID_QUOTA_SYSTEM, "throttled", BRAID_ROLE_THROTTLED, 1, { "ret" } },
	{ BRAID_QUOTA_SYSTEM, "unthrottle", BRAID_ROLE_UNTHROTTLE, 1, { "queue", "throttled" } },
	{ BRAID_QUOTA_SYSTEM, "held_back", BRAID_ROLE_HELD_BACK, 0, { NULL } },
	{ "raw_syscalls", "sys_enter", BRAID_ROLE_CALL_ENTER, 0, { "id" } },
	{ "raw_syscalls", "sys_exit", BRAID_ROLE_CALL_EXIT, 0, { "id" } },
};

static bool is_comm(const struct braid_field *f)
{
	return f->flags & BRAID_FIELD_STRING && !(f->flags & BRAID_FIELD_DYNAMIC) &&
	       f->size == BRAID_COMM_BYTES;
}

static void find_fields(struct braid_role_info *info, const struct braid_layout *layout, size_t row)
{
	u32 n, found = 0;

	memset(info->fields, 0, sizeof(info->fields));
	for (n = 0; n < BRAID_ROLE_FIELDS && roles[row].fields[n]; n++) {
		const char *name = roles[row].fields[n];
		const struct braid_field *f = braid_layout_find(layout, name);

		if (!f || f->offset > 0xffff ||
		    !(strstr(name, "comm") ? is_comm(f) : braid_field_is_number(f)))
			continue;
		info->fields[n] = (struct braid_role_field){
			.offset = f->offset, .bytes = f->size,
			.is_signed = f->flags & BRAID_FIELD_SIGNED,
		};
		found += n < roles[row].needed;
	}
	if (found == roles[row].needed)
		info->role = roles[row].role;
}

/* The number of a name. Return: false when out of memory. */
static bool find_call(struct braid_roles *r, const char *name, u32 *call)
{
	char clean[BRAID_CALL_BYTES];
	size_t k;

	snprintf(clean, sizeof(clean), "%s", name);
	braid_text_clean(clean);
	for (k = 0; k < r->nr_calls && strcmp(r->calls[k], clean); k++)
		;
	if (k == r->nr_calls && k < MAX_CALLS) {
		if (braid_array_cover(r->calls, r->calls_capacity, k))
			return false;
		memcpy(r->calls[r->nr_calls++], clean, sizeof(clean));
	}
	*call = k < MAX_CALLS ? BRAID_CALL_FIRST + k : BRAID_CALL_UNKNOWN;
	return true;
}

/* A system call by its name: tracefs' syscalls:sys_enter_write, or a sub-event of raw_syscalls. */
static bool find_call_role(struct braid_roles *r, struct braid_role_info *role,
			   const struct braid_event_type_info *info)
{
	const char *label = braid_format_label(info);

	if (strcmp(info->system, "syscalls") && strcmp(info->system, "raw_syscalls"))
		return true;
	if (!strncmp(label, "sys_exit_", 9)) {
		role->role = BRAID_ROLE_CALL_EXIT;
	} else if (!strncmp(label, "sys_enter_", 10)) {
		role->role = BRAID_ROLE_CALL_ENTER;
		return find_call(r, label + 10, &role->call);
	}
	return true;
}

/* The bytes of a name before the suffix, if it has that suffix; else 0. */
static size_t stem_bytes(const char *name, const char *end)
{
	size_t all = strlen(name), tail = strlen(end);

	return all > tail && !strcmp(name + all - tail, end) ? all - tail : 0;
}

static void find_handler(struct braid_role_info *role, const struct braid_event_type_info *info)
{
	size_t begin = stem_bytes(info->name, "_entry"), end = stem_bytes(info->name, "_exit"), k;

	role->begins = begin;
	for (k = 0; k < sizeof(paired) / sizeof(paired[0]) && begin + end; k++)
		if (!strcmp(info->system, paired[k]))
			role->handler = XXH3_64bits(info->name, begin + end) | 1;
}

/* Systems of the moments of quotas are many. */
static bool is_system(const char *name, const char *wanted)
{
	return strcmp(wanted, BRAID_QUOTA_SYSTEM) ? !strcmp(name, wanted) :
	       !strncmp(name, wanted, strlen(wanted));
}

/* Return: false when out of memory. */
static bool find_role(struct braid_roles *r, struct braid_role_info *role,
		      const struct braid_event_type_info *info)
{
	size_t k;

	role->met = true;
	if (!info->layout || info->raw)
		return true;
	if (!find_call_role(r, role, info))
		return false;
	find_handler(role, info);
	for (k = 0; k < sizeof(roles) / sizeof(roles[0]) && !role->role; k++)
		if (is_system(info->system, roles[k].system) && !strcmp(info->name, roles[k].name))
			find_fields(role, info->layout, k);
	return true;
}

enum braid_left braid_role_left(s64 prev_state)
{
	return !(prev_state & SLEEP_STATES) ? BRAID_LEFT_RUNNABLE :
	       prev_state & STOP_STATES ? BRAID_LEFT_STOPPED :
	       prev_state & DEAD_STATES ? BRAID_LEFT_DEAD : BRAID_LEFT_SLEEPS;
}

u32 braid_role_call(const struct braid_role_info *info, const struct braid_item *item)
{
	s64 id;

	if (!info->call && braid_role_number(info, 0, item, &id) && id >= 0 && id <= MAX_CALL)
		return BRAID_CALL_NUMBER + (u32)id;
	return info->call;
}

u64 braid_role_reason(const struct braid_role_info *info, const struct braid_item *item)
{
	s64 reason = 0, isa = 0;

	braid_role_number(info, 0, item, &reason);
	braid_role_number(info, 1, item, &isa);
	return (u64)isa << 32 | (u32)reason;
}

void braid_call_name(const struct braid_roles *r, u32 call, char name[BRAID_CALL_BYTES])
{
	if (call >= BRAID_CALL_NUMBER)
		snprintf(name, BRAID_CALL_BYTES, "%u", call - BRAID_CALL_NUMBER);
	else if (call >= BRAID_CALL_FIRST)
		memcpy(name, r->calls[call - BRAID_CALL_FIRST], BRAID_CALL_BYTES);
	else
		snprintf(name, BRAID_CALL_BYTES, "%s", call == BRAID_CALL_NONE ? "-" : "?");
}

/* A type that is new. */
static noinline const struct braid_role_info *add_role(struct braid_roles *r,
						       const struct braid_event_type_info *info)
{
	return braid_array_cover(r->infos, r->nr, info->number) ||
	       !find_role(r, &r->infos[info->number], info) ? NULL : &r->infos[info->number];
}

const struct braid_role_info *braid_roles_find(struct braid_roles *r,
					       const struct braid_event_type_info *info)
{
	return info->number < r->nr && r->infos[info->number].met ? &r->infos[info->number] :
								    add_role(r, info);
}

void braid_roles_renew(struct braid_roles *r)
{
	free(r->infos);
	r->infos = NULL;
	r->nr = 0;
}

void braid_roles_free(struct braid_roles *r)
{
	free(r->infos);
	free(r->calls);
	*r = (struct braid_roles){ 0 };
}

bool braid_role_number(const struct braid_role_info *info, u32 field,
		       const struct braid_item *item, s64 *number)
{
	const struct braid_role_field *f = &info->fields[field];

	if (!f->bytes || (u32)f->offset + f->bytes > item->payload_bytes)
		return false;
	*number = (s64)braid_number_load(item->payload + f->offset, f->bytes, f->is_signed);
	return true;
}

bool braid_role_comm(const struct braid_role_info *info, u32 field,
		     const struct braid_item *item, char comm[BRAID_COMM_BYTES])
{
	const struct braid_role_field *f = &info->fields[field];
	const char *from = (const char *)item->payload + f->offset;
	size_t length;

	if (!f->bytes || (u32)f->offset + f->bytes > item->payload_bytes)
		return false;
	length = strnlen(from, BRAID_COMM_BYTES - 1);
	if (!memcmp(comm, from, length) && !comm[length])
		return false;
	memcpy(comm, from, length);
	comm[length] = 0;
	braid_text_clean(comm);
	return true;
}
