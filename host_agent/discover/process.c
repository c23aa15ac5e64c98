// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds a domain's QEMU and the threads of its vCPUs in /proc. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/discover/libvirt.h"
#include "host_agent/util/cleanup.h"

#define ARGUMENT_BYTES	4096	/* those that count are shorter */

/* An argument, cut at the buffer's end; false at the last one's. */
static bool next_argument(FILE *f, char *to, size_t room)
{
	size_t n = 0;
	int c;

	while ((c = getc(f)) != EOF && c)
		if (n < room - 1)
			to[n++] = c;
	to[n] = 0;
	return c != EOF || n;
}

static bool runs_uuid(const char *pid, const char *uuid)
{
	char path[64], argument[ARGUMENT_BYTES];
	braid_auto_file FILE *f = NULL;
	bool is_next = false;

	snprintf(path, sizeof(path), "/proc/%.20s/cmdline", pid);
	f = fopen(path, "re");
	if (!f || !next_argument(f, argument, sizeof(argument)) || !strstr(argument, "qemu"))
		return false;
	while (next_argument(f, argument, sizeof(argument))) {
		if (is_next)
			return !strcmp(argument, uuid);
		is_next = !strcmp(argument, "-uuid");
	}
	return false;
}

pid_t braid_qemu_of_uuid(const char *uuid)
{
	struct dirent *entry;
	pid_t found = 0;
	DIR *proc = opendir("/proc");

	while (proc && !found && (entry = readdir(proc)))
		if (isdigit((unsigned char)*entry->d_name) && runs_uuid(entry->d_name, uuid))
			found = atoi(entry->d_name);
	if (proc)
		closedir(proc);
	return found;
}

/* "CPU 3/KVM" is vCPU 3's; else -1. */
static int vcpu_of_thread(pid_t pid, const char *tid)
{
	braid_auto_file FILE *f = NULL;
	char path[96], comm[64];
	unsigned int vcpu;
	char slash;

	snprintf(path, sizeof(path), "/proc/%d/task/%.20s/comm", (int)pid, tid);
	f = fopen(path, "re");
	if (!f || !fgets(comm, sizeof(comm), f) ||
	    sscanf(comm, "CPU %u%c", &vcpu, &slash) != 2 || slash != '/' ||
	    vcpu >= BRAID_DOMAIN_VCPUS)
		return -1;
	return vcpu;
}

size_t braid_qemu_vcpus(pid_t pid, pid_t *tids)
{
	struct dirent *entry;
	size_t nr = 0;
	char path[64];
	int vcpu;
	DIR *tasks;

	memset(tids, 0, BRAID_DOMAIN_VCPUS * sizeof(*tids));
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks))) {
		vcpu = vcpu_of_thread(pid, entry->d_name);
		if (vcpu < 0)
			continue;
		tids[vcpu] = atoi(entry->d_name);
		if ((size_t)vcpu >= nr)
			nr = vcpu + 1;
	}
	if (tasks)
		closedir(tasks);
	return nr;
}
