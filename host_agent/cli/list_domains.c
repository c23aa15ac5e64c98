// SPDX-License-Identifier: GPL-2.0-or-later
/* libvirt's domains in the output of `list`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/list.h"
#include "host_agent/cli/options.h"
#include "host_agent/clock_sync/kvm.h"

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

int braid_list_cell(const char *text, int width, int at)
{
	int n = printf("%-*s", width, text);

	if (n > width)
		printf("\n%*s", at + width, "");
	printf("  ");
	return at + width + 2;
}

/* A line of its own, of a domain that runs here. */
static void print_vcpus(const struct braid_domain *d)
{
	struct braid_qemu_threads threads = { 0 };
	struct braid_text line = { 0 };
	size_t k;

	if (!d->qemu_pid)
		return;
	braid_vcpu_threads(d->qemu_pid, &threads);
	for (k = 0; k < threads.nr; k++)
		braid_text_printf(&line, " %d", (int)threads.of[k]);
	if (!threads.nr && threads.all)
		braid_text_printf(&line, " %d (all vCPUs)", (int)threads.all);
	else if (!threads.nr)
		braid_text_printf(&line, " " BRAID_VCPUS_UNKNOWN);
	braid_text_putc(&line, '\0');
	if (!line.failed)
		braid_print_wrapped(line.data + 1, printf("  "), 2);
	braid_text_free(&line);
}

void braid_list_print_domains(const struct braid_domain *domains, size_t nr,
			      const struct braid_found *found, size_t nr_found)
{
	int width = strlen("DOMAIN"), n, at;
	size_t k;

	for (k = 0; k < nr; k++) {
		n = strlen(domains[k].name);
		width = n > width && n <= BRAID_LIST_MOST_NAME ? n : width;
	}
	printf("%-*s  %-11s  %-20s  %-10s  %7s\n  VCPU THREADS\n", width, "DOMAIN", "STATE", "MEMORY",
	       "DRIVER", "QEMU");
	for (k = 0; k < nr; k++) {
		const struct braid_domain *d = &domains[k];

		at = braid_list_cell(d->name, width, 0);
		at = braid_list_cell(d->state, 11, at);
		at = braid_list_cell(memory_word(d), 20, at);
		braid_list_cell(driver_word(d, region_of(d, found, nr_found)), 10, at);
		if (d->qemu_pid)
			printf("%7d\n", (int)d->qemu_pid);
		else
			printf("%7s\n", "-");
		print_vcpus(d);
	}
}

void braid_list_json_domain(struct braid_text *t, const struct braid_domain *d)
{
	struct braid_qemu_threads threads = { 0 };
	size_t k;

	if (d->qemu_pid)
		braid_vcpu_threads(d->qemu_pid, &threads);
	braid_text_member(t, "domain", d->name);
	braid_text_printf(t, ",\"domain_state\":\"%s\",\"attached\":%s,\"configured\":%s,\"vcpu_threads\":[",
			  d->state, d->attached ? "true" : "false",
			  d->configured ? "true" : "false");
	for (k = 0; k < threads.nr; k++)
		braid_text_printf(t, "%s%d", k ? "," : "", (int)threads.of[k]);
	braid_text_putc(t, ']');
	if (threads.all)
		braid_text_printf(t, ",\"vcpus_thread\":%d", (int)threads.all);
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
		braid_text_puts(t, any ? ",\n {" : "{");
		any = true;
		braid_text_member(t, "guest", d->name);
		braid_list_json_domain(t, d);
		if (d->attached)
			braid_text_member(t, "region", d->path);
		if (d->qemu_pid)
			braid_text_printf(t, ",\"qemu_pid\":%d", (int)d->qemu_pid);
		braid_text_member(t, "driver", braid_driver_state_name(BRAID_DRIVER_NONE));
		braid_text_putc(t, '}');
	}
}
