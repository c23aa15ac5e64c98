// SPDX-License-Identifier: GPL-2.0-or-later
/* The VMs of the host that have no driver: noted unless guests are named. */
#include <errno.h>
#include <stdlib.h>

#include "host_agent/record/private.h"
#include "host_agent/util/error.h"

static void vms_say(void *arg, const char *name, const char *line)
{
	braid_record_say(arg, name, "%s", line);
}

int braid_record_open_vms(struct braid_recording *r)
{
	struct braid_vm_options o = { .sink = &r->sink, .say = vms_say, .say_arg = r };

	bool named = r->o.nr_given || r->o.domains.nr;

	/* Without the host's events nothing could be said of them. */
	if (!r->host_source || r->o.clock_only || (named && !r->o.domains.all))
		return 0;
	return braid_vm_sources_open(&r->vms, &o);
}

static int with_guests(struct braid_recording *r,
		       int (*fn)(struct braid_vm_sources *, struct braid_vm_taken *, size_t))
{
	struct braid_vm_taken *taken = calloc(r->nr_guests + 1, sizeof(*taken));
	struct braid_region_status status;
	size_t k;
	int err;

	if (!taken)
		return braid_out_of_memory();
	for (k = 0; k < r->nr_guests; k++) {
		status = braid_region_source_status(r->guests[k].source);
		taken[k] = (struct braid_vm_taken){
			.pid = status.qemu_pid, .from_ns = status.begun_ns,
			.name = r->guests[k].name,
		};
	}
	err = fn(r->vms, taken, r->nr_guests);
	free(taken);
	return err;
}

int braid_record_poll_vms(struct braid_recording *r)
{
	if (!r->vms || !r->start_ns || r->end_ns || !braid_vm_sources_due(r->vms))
		return 0;
	return with_guests(r, braid_vm_sources_poll);
}

int braid_record_finish_vms(struct braid_recording *r)
{
	return r->vms ? with_guests(r, braid_vm_sources_finish) : 0;
}
