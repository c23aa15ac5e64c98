// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds a domain's QEMU and the threads of its vCPUs in /proc, and what these were given. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host_agent/discover/libvirt.h"
#include "host_agent/util/cleanup.h"

#define FIRST_PID_NAMESPACE	0xeffffffcu	/* the host's inode, since Linux 3.8 */
#define CMDLINE_BYTES	(64 * 1024)	/* libvirt says -uuid long before */
#define MAX_TASKS	4096u		/* of a process that are checked: those of vCPUs come
					   early */

/* The domain that a process claims to run, by -uuid; NULL: none. */
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
	for (at = cmdline; at < cmdline + bytes && !is_next; at += strlen(at) + 1)
		is_next = !strcmp(at, "-uuid");
	for (k = 0; k < nr && is_next && at < cmdline + bytes; k++)
		if (domains[k].active && !strcmp(domains[k].uuid, at))
			return braid_is_vmm(atoi(pid), cmdline) ? &domains[k] : NULL;
	return NULL;
}

/*
 * Whether root or that user runs a process, and started it: any user can choose the name of an own
 * or a set-user-id process.
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

static bool process_is_of_host(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) || st.st_ino == FIRST_PID_NAMESPACE;
}

bool braid_pids_of_host(void)
{
	static pid_t asked;	/* a process keeps its namespace; its child may have another */
	static bool of_host;

	if (asked != getpid()) {
		asked = getpid();
		of_host = process_is_of_host();
	}
	return of_host;
}

size_t braid_process_threads(pid_t pid, pid_t *tids, size_t room)
{
	struct dirent *entry;
	char path[64];
	size_t nr = 0;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	while (tasks && nr < room && (entry = readdir(tasks)))
		if (isdigit((unsigned char)*entry->d_name))
			tids[nr++] = atoi(entry->d_name);
	if (tasks)
		closedir(tasks);
	return nr;
}

/* Names of vCPUs' threads: QEMU's "CPU 3/KVM" or "CPU 3/TCG", Cloud Hypervisor's, Firecracker's, crosvm's. */
static const char *const vcpu_names[] = {
	"CPU %u/%*s\n%n", "vcpu%u\n%n", "fc_vcpu %u\n%n", "crosvm_vcpu%u\n%n",
};

/* The vCPU that a thread's name stands for; BRAID_QEMU_VCPUS: none. */
static unsigned int vcpu_of_name(const char *comm)
{
	unsigned int vcpu;
	size_t k;
	int end;

	for (k = 0; k < sizeof(vcpu_names) / sizeof(*vcpu_names); k++) {
		end = 0;
		if (sscanf(comm, vcpu_names[k], &vcpu, &end) == 1 && end && !comm[end])
			return vcpu < BRAID_QEMU_VCPUS ? vcpu : BRAID_QEMU_VCPUS;
	}
	return BRAID_QEMU_VCPUS;
}

static void take_thread(struct braid_qemu_threads *to, pid_t pid, pid_t tid)
{
	braid_auto_file FILE *f = NULL;
	char path[96], comm[64];
	unsigned int vcpu;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", (int)pid, (int)tid);
	f = fopen(path, "re");
	if (!f || !fgets(comm, sizeof(comm), f))
		return;
	if (!strcmp(comm, "ALL CPUs/TCG\n"))
		to->all = tid;
	vcpu = vcpu_of_name(comm);
	if (vcpu == BRAID_QEMU_VCPUS)
		return;
	to->of[vcpu] = tid;
	if (vcpu >= to->nr)
		to->nr = vcpu + 1;
}

void braid_qemu_threads(pid_t pid, struct braid_qemu_threads *to)
{
	pid_t tids[MAX_TASKS];
	size_t k, nr = braid_process_threads(pid, tids, MAX_TASKS);

	memset(to, 0, sizeof(*to));
	for (k = 0; k < nr; k++)
		take_thread(to, pid, tids[k]);
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
