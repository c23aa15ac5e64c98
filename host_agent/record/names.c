// SPDX-License-Identifier: GPL-2.0-or-later
/* Names of guests that are added: each is one guest's. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/record/private.h"
#include "host_agent/transport/endpoint.h"
#include "host_agent/util/error.h"

/* A guest with that name by its own claim, or by its file, yields the name to a domain. */
static bool gives_way(struct braid_record_guest *guest)
{
	const char *slash = strrchr(guest->path, '/');
	const char *base = slash ? slash + 1 : guest->path;

	if (guest->source || guest->named || *guest->domain || !strcmp(base, guest->name))
		return false;
	snprintf(guest->name, sizeof(guest->name), "%.63s", base);
	return true;
}

/*
 * Names distinguish streams. A domain keeps its name when it returns with another file, or its region
 * moves from its own memory to a device: its driver has one region.
 */
int braid_record_check_name(struct braid_recording *r, const char *path, const char *name,
			    const char *domain)
{
	struct braid_record_guest *guest;
	bool gone;
	size_t k;

	if (!strcmp(name, "host"))
		return braid_fail(-EINVAL, "%s: \"host\" is reserved for the host; use -r %s,name=NAME",
				  path, path);
	for (k = 0; k < r->nr_guests; k++) {
		guest = &r->guests[k];
		if (strcmp(guest->name, name) || !strcmp(guest->path, path))
			continue;
		if (*domain && !strcmp(guest->domain, domain) &&
		    (braid_endpoint_has_scheme(guest->path) || braid_endpoint_has_scheme(path)))
			continue;
		gone = guest->source &&
		       braid_region_source_status(guest->source).phase == BRAID_PHASE_GONE;
		if (!gone && !gives_way(guest))
			return braid_fail(-EINVAL, "%s and %s would both be named \"%s\"; use -r %s,name=NAME",
					  guest->path, path, name, guest->path);
	}
	return 0;
}
