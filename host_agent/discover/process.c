// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds a domain's QEMU and the threads of its vCPUs in /proc, and what these were given. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/discover/libvirt.h"
#include "host_agent/util/cleanup.h"

#define CMDLINE_BYTES	(64 * 1024)	/* libvirt says -uuid long before */
#define MAX_TASKS	4096u		/* of a process that are looked at: vCPUs' come early */

/* The domain that a process says it runs: whom -uuid names; NULL: none. */
static struct braid_domain *claimed(const char *pid, struct braid_domain *domains, size_t nr,
				    char *cmdline)
{
	braid_auto_file FILE *f = NULL;
	bool is_next = false;
	char path[64], *at;
	size_t bytes, k;

	snprintf(path, sizeof(path), "/proc/%.20s/cmdline", pid);
	f = fopen(path, "re");
	bytes = f ? fread(cmdline, 1, CMDLINE_BYTES - 1, f) : 0;
	cmdline[bytes] = 0;
	if (!strstr(cmdline, "qemu"))
		return NULL;
	for (at = cmdline; at < cmdline + bytes && !is_next; at += strlen(at) + 1)
		is_next = !strcmp(at, "-uuid");
	for (k = 0; k < nr && is_next && at < cmdline + bytes; k++)
		if (domains[k].active && !strcmp(domains[k].uuid, at))
			return &domains[k];
	return NULL;
}

bool braid_process_users(pid_t pid, uid_t *real, uid_t *effective)
{
	braid_auto_file FILE *f = NULL;
	char line[256];

	snprintf(line, sizeof(line), "/proc/%d/status", (int)pid);
	f = fopen(line, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Uid: %u %u", real, effective) == 2)
			return true;
	return false;
}

/*
 * Whether root or that user runs a process, by who started it too: anybody can call a process
 * of his, or a set-user-id one, as he likes.
 */
static bool runs_as(pid_t pid, uid_t uid)
{
	uid_t real, effective;

	return braid_process_users(pid, &real, &effective) && (!real || real == uid) &&
	       (!effective || effective == uid);
}

void braid_qemus_of_domains(struct braid_domain *domains, size_t nr)
{
	braid_auto_free char *cmdline = malloc(CMDLINE_BYTES);
	DIR *proc = opendir("/proc");
	struct braid_domain *domain;
	struct dirent *entry;

	while (proc && cmdline && (entry = readdir(proc))) {
		if (!isdigit((unsigned char)*entry->d_name))
			continue;
		domain = claimed(entry->d_name, domains, nr, cmdline);
		if (domain && !domain->qemu_pid && runs_as(atoi(entry->d_name), domain->uid))
			domain->qemu_pid = atoi(entry->d_name);
	}
	if (proc)
		closedir(proc);
}

/* A thread's name as QEMU gives it: "CPU 3/KVM", "CPU 3/TCG", or "ALL CPUs/TCG". */
static void take_thread(struct braid_qemu_threads *to, pid_t pid, const char *tid)
{
	braid_auto_file FILE *f = NULL;
	char path[96], comm[64], slash;
	unsigned int vcpu;

	snprintf(path, sizeof(path), "/proc/%d/task/%.20s/comm", (int)pid, tid);
	f = fopen(path, "re");
	if (!f || !fgets(comm, sizeof(comm), f))
		return;
	if (!strcmp(comm, "ALL CPUs/TCG\n"))
		to->all = atoi(tid);
	if (sscanf(comm, "CPU %u%c", &vcpu, &slash) != 2 || slash != '/' ||
	    vcpu >= BRAID_QEMU_VCPUS)
		return;
	to->of[vcpu] = atoi(tid);
	if (vcpu >= to->nr)
		to->nr = vcpu + 1;
}

void braid_qemu_threads(pid_t pid, struct braid_qemu_threads *to)
{
	struct dirent *entry;
	char path[64];
	DIR *tasks;
	u32 looks;

	memset(to, 0, sizeof(*to));
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	for (looks = 0; tasks && looks < MAX_TASKS && (entry = readdir(tasks)); looks++)
		if (isdigit((unsigned char)*entry->d_name))
			take_thread(to, pid, entry->d_name);
	if (tasks)
		closedir(tasks);
}

int braid_thread_times(pid_t tid, struct braid_thread_times *times)
{
	unsigned long long run, wait;
	braid_auto_file FILE *f = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)tid);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	if (fscanf(f, "%llu %llu", &run, &wait) != 2)
		return -ENODATA;
	times->run_ns = run;
	times->wait_ns = wait;
	return 0;
}
