// SPDX-License-Identifier: GPL-2.0-or-later
/* Knows the kernel's events that begin, end or name what lasts. */
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "host_agent/export/html/seen.h"

static const char enter[] = "sys_enter", leave[] = "sys_exit";

static const struct {
	const char *system, *name;
	enum braid_html_action action;
} known[] = {
	{ "sched", "sched_switch", BRAID_HTML_SWITCH },
	{ "sched", "sched_waking", BRAID_HTML_WAKE },
	{ "sched", "sched_wakeup", BRAID_HTML_WAKE },
	{ "sched", "sched_wakeup_new", BRAID_HTML_WAKE },
	{ "sched", "sched_process_exit", BRAID_HTML_TASK_EXIT },
	{ "kvm", "kvm_entry", BRAID_HTML_KVM_ENTRY },
	{ "kvm", "kvm_exit", BRAID_HTML_KVM_EXIT },
	{ "raw_syscalls", enter, BRAID_HTML_CALL_ENTER },
	{ "raw_syscalls", leave, BRAID_HTML_CALL_EXIT },
};

/* Systems whose events come in pairs, NAME_entry and NAME_exit. */
static const char *const paired[] = { "irq", "irq_vectors", "timer" };

/* How the text of such an event names what it is about. */
static const struct {
	const char *stem, *called, *before;
	char after;
} details[] = {
	{ "irq_handler", "irq", "name=", '\0' },
	{ "softirq", "softirq", "[action=", ']' },
	{ "hrtimer_expire", "hrtimer", "function=", ' ' },
	{ "timer_expire", "timer", "function=", ' ' },
};

#define NR(list)	(sizeof(list) / sizeof(*(list)))

static bool begins(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

/* The bytes of a name before the suffix, if it has that suffix; else 0. */
static size_t stem_bytes(const char *name, const char *end)
{
	size_t all = strlen(name), tail = strlen(end);

	return all > tail && !strcmp(name + all - tail, end) ? all - tail : 0;
}

static bool is_paired(const char *system)
{
	size_t k;

	for (k = 0; k < NR(paired); k++)
		if (!strcmp(system, paired[k]))
			return true;
	return false;
}

/* The field of that name; NULL: it does not exist, or is not a number. */
static const struct braid_field *number_field(const struct braid_layout *layout, const char *name)
{
	const struct braid_field *f = braid_layout_find(layout, name);

	return f && !(f->flags & (BRAID_FIELD_ARRAY | BRAID_FIELD_DYNAMIC)) && f->size &&
	       f->size <= sizeof(u64) && !(f->size & (f->size - 1)) ? f : NULL;
}

static void find_fields(struct braid_html_meaning *m, const struct braid_layout *layout)
{
	static const char *const names[BRAID_HTML_FIELDS][2] = {
		[BRAID_HTML_FIELD_PID] = { "pid" },
		[BRAID_HTML_FIELD_NEXT_PID] = { "next_pid" },
		[BRAID_HTML_FIELD_PREV_STATE] = { "prev_state" },
		[BRAID_HTML_FIELD_VCPU] = { "vcpu_id", "vcpu" },
		[BRAID_HTML_FIELD_CALL] = { "id", "__syscall_nr" },
		[BRAID_HTML_FIELD_EXIT_REASON] = { "exit_reason" },
	};
	size_t k, j;

	for (k = 0; layout && k < BRAID_HTML_FIELDS; k++)
		for (j = 0; j < 2 && names[k][j] && !m->fields[k]; j++)
			m->fields[k] = number_field(layout, names[k][j]);
}

struct braid_html_meaning braid_html_meaning_of(const struct braid_event_type_info *info)
{
	struct braid_html_meaning m = { .examined = true };
	size_t k, begin, end;

	find_fields(&m, info->layout);

	for (k = 0; k < NR(known); k++)
		if (!strcmp(info->system, known[k].system) && !strcmp(info->name, known[k].name))
			m.action = known[k].action;
	if (!strcmp(info->system, "syscalls") && begins(info->name, enter))
		m.action = BRAID_HTML_CALL_ENTER;
	if (!strcmp(info->system, "syscalls") && begins(info->name, leave))
		m.action = BRAID_HTML_CALL_EXIT;
	begin = stem_bytes(info->name, "_entry");
	end = stem_bytes(info->name, "_exit");
	if (is_paired(info->system) && (begin || end)) {
		m.action = begin ? BRAID_HTML_IRQ_BEGIN : BRAID_HTML_IRQ_END;
		m.stem = XXH3_64bits(info->name, begin + end);
	}
	return m;
}

bool braid_html_field(const struct braid_html_seen *seen, enum braid_html_field which, u64 *value)
{
	const struct braid_field *field = seen->meaning->fields[which];

	if (!seen->layout || !field)
		return false;
	*value = 0;
	memcpy(value, seen->item->payload + field->offset, field->size);
	return true;
}

u32 braid_html_irq_name(struct braid_html_names *n, const struct braid_html_seen *seen)
{
	size_t k, bytes = stem_bytes(seen->info->name, "_entry");
	const char *from, *to;
	char name[160], *at;

	for (k = 0; k < NR(details); k++) {
		if (strlen(details[k].stem) != bytes || !begins(seen->info->name, details[k].stem))
			continue;
		from = strstr(seen->text, details[k].before);
		if (!from)
			break;
		from += strlen(details[k].before);
		to = strchrnul(from, details[k].after);
		at = stpcpy(stpcpy(name, details[k].called), " ");
		at = mempcpy(at, from, to - from < 128 ? to - from : 128);
		return braid_html_name(n, BRAID_HTML_IRQ, 0, 0, name, at - name);
	}
	return braid_html_name(n, BRAID_HTML_IRQ, 0, 0, seen->info->name, bytes);
}

/* libseccomp's words for machines as uname(1) names them. */
static const struct {
	const char *machine;
	u32 arch;
} archs[BRAID_HTML_MACHINES] = {
	{ "x86_64", SCMP_ARCH_X86_64 }, { "aarch64", SCMP_ARCH_AARCH64 },
	{ "riscv64", SCMP_ARCH_RISCV64 }, { "ppc64le", SCMP_ARCH_PPC64LE },
	{ "s390x", SCMP_ARCH_S390X }, { "i686", SCMP_ARCH_X86 },
	{ "i586", SCMP_ARCH_X86 }, { "armv7l", SCMP_ARCH_ARM },
};

/* By its number: libseccomp searches through all names. */
static u32 number_name(struct braid_html_names *n, u32 machine, u64 id)
{
	char number[32], *name = NULL;
	const char *label = number;
	u32 ret;

	snprintf(number, sizeof(number), "syscall %lld", (long long)id);
	if (id <= INT32_MAX && machine < BRAID_HTML_MACHINES)
		name = seccomp_syscall_resolve_num_arch(archs[machine].arch, id);
	if (name)
		label = name;
	ret = braid_html_name(n, BRAID_HTML_SYSCALL, 0, 0, label, strlen(label));
	free(name);
	return ret;
}

u32 braid_html_call_name(struct braid_html_names *n, struct braid_html_calls *calls,
			 const struct braid_html_seen *seen)
{
	const char *label = braid_format_label(seen->info);
	u32 machine = 0, *known;
	u64 id = 0;

	if (begins(label, enter) && label[strlen(enter)] == '_') {
		label += strlen(enter) + 1;
		return braid_html_name(n, BRAID_HTML_SYSCALL, 0, 0, label, strlen(label));
	}
	if (!braid_html_field(seen, BRAID_HTML_FIELD_CALL, &id))
		return braid_html_name(n, BRAID_HTML_SYSCALL, 0, 0, label, strlen(label));
	while (machine < BRAID_HTML_MACHINES &&
	       strcmp(seen->item->stream->machine, archs[machine].machine))
		machine++;
	if (machine == BRAID_HTML_MACHINES || id >= BRAID_HTML_CALLS)
		return number_name(n, machine, id);
	known = &calls->names[machine][id];
	if (!*known)
		*known = number_name(n, machine, id) + 1;
	return *known - 1;
}

u32 braid_html_exit_name(struct braid_html_names *n, const struct braid_html_seen *seen)
{
	const char *from = strstr(seen->text, "reason "), *to;
	char number[32];
	u64 reason;

	if (from) {
		from += strlen("reason ");
		to = strchrnul(from, ' ');
		return braid_html_name(n, BRAID_HTML_EXIT, 0, 0, from, to - from);
	}
	if (!braid_html_field(seen, BRAID_HTML_FIELD_EXIT_REASON, &reason))
		return braid_html_name(n, BRAID_HTML_EXIT, 0, 0, "exit", strlen("exit"));
	snprintf(number, sizeof(number), "exit %llu", (unsigned long long)reason);
	return braid_html_name(n, BRAID_HTML_EXIT, 0, 0, number, strlen(number));
}

u32 braid_html_next_name(struct braid_html_names *n, const struct braid_html_seen *seen, s32 pid)
{
	const char *comm = braid_format_comm(seen->item, pid);
	const struct braid_item *item = seen->item;
	const struct braid_field *field = NULL;
	u32 offset, length;

	/* The host's tracefs drops names; the event has it. */
	if (!strcmp(comm, BRAID_COMM_UNKNOWN) && seen->layout)
		field = braid_layout_find(seen->layout, "next_comm");
	if (field && braid_format_range(field, item->payload, item->payload_bytes, &offset,
					&length))
		return braid_html_name(n, BRAID_HTML_TASK, seen->group, pid,
				       (const char *)item->payload + offset, length);
	return braid_html_name(n, BRAID_HTML_TASK, seen->group, pid, comm, strlen(comm));
}
