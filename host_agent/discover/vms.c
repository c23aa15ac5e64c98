// SPDX-License-Identifier: GPL-2.0-or-later
/* Follows which processes of this host run VMs. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/discover/vms.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"

struct braid_vms_seen {
	pid_t pid;
	u32 looks;		/* since it was new */
};

/* When a process began; 0: it is gone, or only waits to be reaped. */
static u64 start_of(pid_t pid)
{
	char path[64], text[512], state;
	unsigned long long ticks;
	braid_auto_file FILE *f = NULL;
	const char *at;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
	text[n] = 0;
	at = strrchr(text, ')');	/* a program's name may contain one */
	if (!at || sscanf(at + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
			  "%*s %*s %*s %*s %*s %llu", &state, &ticks) != 2 ||
	    state == 'Z' || state == 'X')
		return 0;
	return ticks;
}

static int vms_by_pid(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	static_assert(!offsetof(struct braid_vm, pid), "key");
	static_assert(!offsetof(struct braid_vms_seen, pid), "key");
	return x < y ? -1 : x > y;
}

const struct braid_vm *braid_vms_find(const struct braid_vms *vms, pid_t pid)
{
	return vms->nr ? bsearch(&pid, vms->items, vms->nr, sizeof(*vms->items), vms_by_pid) : NULL;
}

/* All processes, by their number. Return: 0, or -errno with braid_fail(). */
static int list_processes(struct braid_vms_seen **to, size_t *nr)
{
	struct braid_vms_seen *all = NULL;
	size_t capacity = 0;
	struct dirent *entry;
	DIR *proc = opendir("/proc");
	int err = proc ? 0 : braid_fail(-ENOENT, "cannot read /proc");

	*nr = 0;
	while (!err && (entry = readdir(proc))) {
		struct braid_vms_seen one = { .pid = atoi(entry->d_name) };

		if (isdigit((unsigned char)*entry->d_name) &&
		    braid_array_push(all, *nr, capacity, one))
			err = braid_out_of_memory();
	}
	if (proc)
		closedir(proc);
	if (err) {
		free(all);
		return err;
	}
	if (*nr)
		qsort(all, *nr, sizeof(*all), vms_by_pid);
	*to = all;
	return 0;
}

/* Whether a process runs a VM, not only has a VMM's name. */
static bool runs_vm(pid_t pid, const struct braid_vmm *vmm)
{
	struct braid_qemu_threads threads;

	if (vmm->has_vcpu || !vmm->by_name)
		return vmm->has_vcpu;
	if (!strncmp(vmm->program, "qemu-system-", 12) || !strcmp(vmm->program, "qemu-kvm") ||
	    !strcmp(vmm->program, "kvm"))
		return true;
	braid_qemu_threads(pid, &threads);
	return threads.nr || threads.all;
}

/* Adds a process to the new list if it is a VM. Return: 0, or -ENOMEM with braid_fail(). */
static int examine(struct braid_vms *to, const struct braid_vms *before,
		   struct braid_vms_seen *one)
{
	const struct braid_vm *known = braid_vms_find(before, one->pid);
	struct braid_vm vm = { .pid = one->pid };
	struct braid_vmm vmm;
	int err;

	if (known) {
		vm = *known;
		if (start_of(one->pid) == vm.start_ticks)
			return braid_array_push(to->items, to->nr, to->capacity, vm) ?
			       braid_out_of_memory() : 0;
		one->looks = 0;		/* another process of that number */
	}
	if (one->looks & (one->looks - 1))
		return 0;
	err = braid_vmm_of(one->pid, &vmm);
	if (err || !runs_vm(one->pid, &vmm))
		return err;
	if (*vmm.name)
		strcpy(vm.name, vmm.name);
	else
		snprintf(vm.name, sizeof(vm.name), "%.40s[%d]", vmm.program, (int)vm.pid);
	vm.start_ticks = start_of(one->pid);
	return vm.start_ticks && braid_array_push(to->items, to->nr, to->capacity, vm) ?
	       braid_out_of_memory() : 0;
}

int braid_vms_look(struct braid_vms *vms)
{
	struct braid_vms now = { 0 };
	size_t k, at = 0;
	int err = list_processes(&now.seen, &now.nr_seen);

	for (k = 0; k < now.nr_seen && !err; k++) {
		struct braid_vms_seen *one = &now.seen[k];

		while (at < vms->nr_seen && vms->seen[at].pid < one->pid)
			at++;
		if (at < vms->nr_seen && vms->seen[at].pid == one->pid)
			one->looks = vms->seen[at].looks + 1;
		err = examine(&now, vms, one);
	}
	if (err) {
		braid_vms_free(&now);
		return err;
	}
	braid_vms_free(vms);
	*vms = now;
	return 0;
}

void braid_vms_free(struct braid_vms *vms)
{
	free(vms->items);
	free(vms->seen);
	*vms = (struct braid_vms){ 0 };
}
