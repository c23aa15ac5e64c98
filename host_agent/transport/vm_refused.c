// SPDX-License-Identifier: GPL-2.0-or-later
/* Why a process' memory can't be read, and who could. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/transport/vm_memory.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"

/* The number that follows a word in a file; -1: not found. */
static long vm_refused_number(const char *path, const char *word)
{
	char line[128];
	long value = -1;
	FILE *f = fopen(path, "r");

	while (f && value < 0 && fgets(line, sizeof(line), f))
		if (!strncmp(line, word, strlen(word)) &&
		    sscanf(line + strlen(word), "%ld", &value) != 1)
			value = -1;
	if (f)
		fclose(f);
	return value;
}

static bool vm_refused_is_ours(pid_t pid)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	return vm_refused_number(path, "Uid:") == (long)geteuid();
}

static const char *vm_refused_advice(pid_t pid)
{
	long scope = vm_refused_number("/proc/sys/kernel/yama/ptrace_scope", "");

	if (scope == 3)
		return "kernel.yama.ptrace_scope is 3, so nobody may until the host boots again; give the VM a device";
	if (!geteuid())
		return "this root has no CAP_SYS_PTRACE over it, or no CAP_DAC_READ_SEARCH; run outside of the container";
	if (!vm_refused_is_ours(pid))
		return "run as root, or as its user";
	if (scope > 0)
		return "kernel.yama.ptrace_scope is not 0; run as root";
	return "it is not dumpable (QEMU with -runas, for one); run as root";
}

bool braid_vm_memory_is_encrypted(pid_t pid)
{
	/* Of -machine, and of older QEMUs'; libvirt's launchSecurity becomes the former. */
	static const char *const options[] = { "confidential-guest-support=", "memory-encryption=" };
	braid_auto_free char *line = NULL;
	char path[40];
	size_t room = 0, k;
	bool is = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	f = fopen(path, "r");
	while (f && !is && getdelim(&line, &room, 0, f) > 0)
		for (k = 0; k < sizeof(options) / sizeof(*options); k++)
			is |= !!strstr(line, options[k]);
	if (f)
		fclose(f);
	return is;
}

int braid_vm_memory_refused(pid_t pid, int err)
{
	if (err == -ENOENT || err == -ESRCH)
		return braid_fail(-ESRCH, "process %d: no such process", (int)pid);
	if (err == -ETIMEDOUT)
		return braid_fail(err, "process %d: a read of its memory did not end: userfaultfd fills it",
				  (int)pid);
	if (err == -EACCES || err == -EPERM)
		return braid_fail(-EACCES, "process %d: its memory cannot be read: %s", (int)pid,
				  vm_refused_advice(pid));
	return braid_fail(err, "process %d: its memory cannot be read: %s", (int)pid,
			  strerror(-err));
}
