// SPDX-License-Identifier: GPL-2.0-or-later
/* `tracebraid list`: VMs without a region. */
#include <stdio.h>
#include <string.h>

#include "host_agent/cli/cli.h"
#include "host_agent/cli/list.h"
#include "host_agent/clock_sync/kvm.h"

/* Whether a VM is listed already, with its region or as a domain. */
static bool is_listed(pid_t pid, const struct braid_found *found, size_t nr,
		      const struct braid_domain *domains, size_t nr_domains)
{
	size_t k;

	for (k = 0; k < nr; k++)
		if (found[k].qemu_pid == pid)
			return true;
	for (k = 0; k < nr_domains; k++)
		if (domains[k].qemu_pid == pid)
			return true;
	return false;
}

int braid_list_find_vms(struct braid_vms *vms, const struct braid_found *found, size_t nr,
			const struct braid_domain *domains, size_t nr_domains)
{
	int err = braid_vms_look(vms);
	size_t k, kept = 0;

	for (k = 0; k < vms->nr && !err; k++)
		if (!is_listed(vms->items[k].pid, found, nr, domains, nr_domains))
			vms->items[kept++] = vms->items[k];
	vms->nr = err ? vms->nr : kept;
	return err;
}

static size_t vcpus_of(const struct braid_vm *vm)
{
	struct braid_qemu_threads threads;

	braid_vcpu_threads(vm->pid, &threads);
	return threads.nr;
}

void braid_list_print_vm(const struct braid_vm *vm, const struct braid_list_widths *w)
{
	size_t nr = vcpus_of(vm);
	char vcpus[24] = "-";
	int at;

	if (nr)
		snprintf(vcpus, sizeof(vcpus), "%zu", nr);
	at = braid_list_cell(vm->name, w->name, 0);
	at = braid_list_cell(braid_driver_state_name(BRAID_DRIVER_NONE), w->driver, at);
	braid_list_cell("-", w->kernel, at);
	printf("%5s  %*s  - (process %d)\n", vcpus, w->events, "-", (int)vm->pid);
}

void braid_list_json_vms(struct braid_text *t, const struct braid_vms *vms, bool first)
{
	size_t k, nr;

	for (k = 0; k < vms->nr; k++) {
		const struct braid_vm *vm = &vms->items[k];

		braid_text_puts(t, first && !k ? "{\"guest\":" : ",\n {\"guest\":");
		braid_text_json(t, vm->name, strlen(vm->name));
		braid_text_printf(t, ",\"qemu_pid\":%d,", (int)vm->pid);
		nr = vcpus_of(vm);
		if (nr)
			braid_text_printf(t, "\"vcpus\":%zu,", nr);
		braid_text_printf(t, "\"driver\":\"%s\"}",
				  braid_driver_state_name(BRAID_DRIVER_NONE));
	}
}
