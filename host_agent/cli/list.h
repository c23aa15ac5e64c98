/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of `tracebraid list` share: events of guests, and libvirt's domains. */
#ifndef BRAID_CLI_LIST_H
#define BRAID_CLI_LIST_H

#include "host_agent/discover/libvirt.h"
#include "host_agent/discover/vms.h"
#include "host_agent/util/text.h"

/* What `list -e` shows. */
struct braid_list_events {
	const char *glob;	/* SYSTEM[:EVENT], or an event's name; NULL: all */
	bool subevents;		/* too; else only if there is no other match */
	bool json;
};

/**
 * braid_list_events - print guests' events, each on its line
 * @found: the regions
 * @nr: their number
 * @how: selection and form
 *
 * Return: 0, or -errno with braid_fail(): -ENOENT: none.
 */
int braid_list_events(const struct braid_found *found, size_t nr,
		      const struct braid_list_events *how);

/* The domain of a region, or NULL. */
const struct braid_domain *braid_list_domain_of(const struct braid_found *f,
						const struct braid_domain *domains, size_t nr);

/* A region of a domain is called as libvirt calls it. */
void braid_list_name_regions(struct braid_found *found, size_t nr,
			     const struct braid_domain *domains, size_t nr_domains);

#define BRAID_COLUMNS	80	/* of tables */
#define BRAID_LIST_MOST_NAME	20	/* characters of a name that make its column wider */

/*
 * A cell of a table: text, padded to its column's width. After one that is too long the row goes on on the
 * next line, where it would have. @at: the column. Return: the next cell's.
 */
int braid_list_cell(const char *text, int width, int at);

/* How wide the columns of regions are that hold names, at most so that all fit. */
struct braid_list_widths {
	int name, driver, kernel, events;
};

/* list_vms.c: VMs without region that are no domains. 0 or -errno with braid_fail(). */
int braid_list_find_vms(struct braid_vms *vms, const struct braid_found *found, size_t nr,
			const struct braid_domain *domains, size_t nr_domains);

/* A row of the table of regions. */
void braid_list_print_vm(const struct braid_vm *vm, const struct braid_list_widths *w);

/* Elements of the array. @first: there are none before. */
void braid_list_json_vms(struct braid_text *t, const struct braid_vms *vms, bool first);

/* The table of domains. */
void braid_list_print_domains(const struct braid_domain *domains, size_t nr,
			      const struct braid_found *found, size_t nr_found);

/* JSON members of a domain. */
void braid_list_json_domain(struct braid_text *t, const struct braid_domain *d);

/* The domains without a region, as further elements of the array. */
void braid_list_json_others(struct braid_text *t, const struct braid_domain *domains, size_t nr,
			    const struct braid_found *found, size_t nr_found);

#endif /* BRAID_CLI_LIST_H */
