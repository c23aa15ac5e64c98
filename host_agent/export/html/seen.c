// SPDX-License-Identifier: GPL-2.0-or-later
/* What spans are called, by the events that begin them. */
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/analysis.h"
#include "host_agent/export/html/seen.h"

/* How the text of an event that begins a handler names what it is about. */
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

u32 braid_html_irq_name(struct braid_html_names *n, const struct braid_html_seen *seen)
{
	size_t k, bytes = strlen(seen->info->name) - strlen("_entry");
	const char *from, *to;
	char name[160], *at;

	for (k = 0; k < NR(details); k++) {
		if (strlen(details[k].stem) != bytes ||
		    memcmp(seen->info->name, details[k].stem, bytes))
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
static u32 number_name(struct braid_html_names *n, u32 machine, u32 id)
{
	char number[32], *name = NULL;
	const char *label = number;
	u32 ret;

	snprintf(number, sizeof(number), "syscall %u", id);
	if (machine < BRAID_HTML_MACHINES)
		name = seccomp_syscall_resolve_num_arch(archs[machine].arch, id);
	if (name)
		label = name;
	ret = braid_html_name(n, BRAID_HTML_SYSCALL, 0, 0, label, strlen(label));
	free(name);
	return ret;
}

u32 braid_html_call_name(struct braid_html_names *n, struct braid_html_calls *calls,
			 u32 call, const char *name, const char *machine)
{
	u32 id = call - BRAID_CALL_NUMBER, number = 0, *known;

	if (call < BRAID_CALL_NUMBER)
		return braid_html_name(n, BRAID_HTML_SYSCALL, 0, 0, name, strlen(name));
	while (number < BRAID_HTML_MACHINES && strcmp(machine, archs[number].machine))
		number++;
	if (number == BRAID_HTML_MACHINES || id >= BRAID_HTML_CALLS)
		return number_name(n, number, id);
	known = &calls->names[number][id];
	if (!*known)
		*known = number_name(n, number, id) + 1;
	return *known - 1;
}

u32 braid_html_exit_name(struct braid_html_names *n, const struct braid_html_seen *seen)
{
	char name[BRAID_NAME_TEXT];

	braid_exit_name(braid_role_reason(seen->role, seen->item), name);
	return braid_html_name(n, BRAID_HTML_EXIT, 0, 0, name, strlen(name));
}

u32 braid_html_next_name(struct braid_html_names *n, const struct braid_html_seen *seen, s32 pid)
{
	const char *comm = braid_format_comm(seen->item, pid);
	char last[BRAID_COMM_BYTES] = "";

	/* The host's tracefs drops names; the event has it. */
	if (!strcmp(comm, BRAID_COMM_UNKNOWN) && braid_role_comm(seen->role, 3, seen->item, last))
		comm = last;
	return braid_html_name(n, BRAID_HTML_TASK, seen->group, pid, comm, strlen(comm));
}
