// SPDX-License-Identifier: GPL-2.0-or-later
/* libvirt's domains in the output of `list`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/list.h"
#include "host_agent/clock/kvm.h"

void braid_list_name_regions(struct braid_found *found, size_t nr,
			     const struct braid_domain *domains, size_t nr_domains)
{
	const struct braid_domain *d;
	size_t k;

	for (k = 0; k < nr; k++) {
		d = braid_list_domain_of(&found[k], domains, nr_domains);
		if (d)
			strcpy(found[k].name, d->name);
	}
}

const struct braid_domain *braid_list_domain_of(const struct braid_found *f,
						const struct braid_domain *domains, size_t nr)
{
	size_t k;

	for (k = 0; k < nr; k++)
		if (*domains[k].path && !strcmp(domains[k].path, f->path))
			return &domains[k];
	return NULL;
}

static const struct braid_found *region_of(const struct braid_domain *d,
					   const struct braid_found *found, size_t nr)
{
	size_t k;

	for (k = 0; k < nr && *d->path; k++)
		if (!strcmp(d->path, found[k].path))
			return &found[k];
	return NULL;
}

/* One word for a domain's memory and one for its driver. */
static const char *memory_word(const struct braid_domain *d)
{
	if (d->attached)
		return d->configured ? "attached, configured" : "attached";
	return d->configured ? "configured" : "none";
}

static const char *driver_word(const struct braid_domain *d, const struct braid_found *f)
{
	if (!d->attached)
		return "-";
	return f ? braid_driver_state_name(f->state) : braid_driver_state_name(BRAID_DRIVER_NONE);
}

static void print_vcpus(const struct braid_domain *d)
{
	struct braid_qemu_threads threads = { 0 };
	size_t k;

	if (d->qemu_pid)
		braid_vcpu_threads(d->qemu_pid, &threads);
	for (k = 0; k < threads.nr; k++)
		printf("%s%d", k ? " " : "", (int)threads.of[k]);
	if (!threads.nr && threads.all)
		printf("%d (all vCPUs)", (int)threads.all);
	else if (!threads.nr)
		fputs(d->qemu_pid ? BRAID_VCPUS_UNKNOWN : "-", stdout);
}

void braid_list_print_domains(const struct braid_domain *domains, size_t nr,
			      const struct braid_found *found, size_t nr_found)
{
	int width = strlen("DOMAIN"), n;
	size_t k;

	for (k = 0; k < nr; k++) {
		n = strlen(domains[k].name);
		width = n > width ? n : width;
	}
	printf("%-*s  %-11s  %-20s  %-10s  %7s  %s\n", width, "DOMAIN", "STATE", "MEMORY", "DRIVER",
	       "QEMU", "VCPU THREADS");
	for (k = 0; k < nr; k++) {
		const struct braid_domain *d = &domains[k];

		printf("%-*s  %-11s  %-20s  %-10s  ", width, d->name, d->state, memory_word(d),
		       driver_word(d, region_of(d, found, nr_found)));
		if (d->qemu_pid)
			printf("%7d  ", (int)d->qemu_pid);
		else
			printf("%7s  ", "-");
		print_vcpus(d);
		putchar('\n');
	}
}

void braid_list_json_domain(struct braid_text *t, const struct braid_domain *d)
{
	struct braid_qemu_threads threads = { 0 };
	size_t k;

	if (d->qemu_pid)
		braid_vcpu_threads(d->qemu_pid, &threads);
	braid_text_puts(t, "\"domain\":");
	braid_text_json(t, d->name, strlen(d->name));
	braid_text_printf(t, ",\"domain_state\":\"%s\",\"attached\":%s,\"configured\":%s,\"vcpu_threads\":[",
			  d->state, d->attached ? "true" : "false",
			  d->configured ? "true" : "false");
	for (k = 0; k < threads.nr; k++)
		braid_text_printf(t, "%s%d", k ? "," : "", (int)threads.of[k]);
	braid_text_puts(t, "],");
	if (threads.all)
		braid_text_printf(t, "\"vcpus_thread\":%d,", (int)threads.all);
}

void braid_list_json_others(struct braid_text *t, const struct braid_domain *domains, size_t nr,
			    const struct braid_found *found, size_t nr_found)
{
	bool any = nr_found;
	size_t k;

	for (k = 0; k < nr; k++) {
		const struct braid_domain *d = &domains[k];

		if (region_of(d, found, nr_found))
			continue;
		braid_text_puts(t, any ? ",\n {\"guest\":" : "{\"guest\":");
		any = true;
		braid_text_json(t, d->name, strlen(d->name));
		braid_text_putc(t, ',');
		braid_list_json_domain(t, d);
		if (d->attached) {
			braid_text_puts(t, "\"region\":");
			braid_text_json(t, d->path, strlen(d->path));
			braid_text_putc(t, ',');
		}
		if (d->qemu_pid)
			braid_text_printf(t, "\"qemu_pid\":%d,", (int)d->qemu_pid);
		braid_text_printf(t, "\"driver\":\"%s\"}",
				  braid_driver_state_name(BRAID_DRIVER_NONE));
	}
}
