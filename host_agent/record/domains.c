// SPDX-License-Identifier: GPL-2.0-or-later
/* Records domains of libvirt: existing and new ones. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/record/private.h"
#include "host_agent/transport/endpoint.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define LIST_LIMIT_MS	15000	/* timeout for libvirt's list of domains */
#define TURN_CHANGES	64	/* handled per turn */

static struct braid_record_guest *find_path(struct braid_recording *r, const char *path)
{
	size_t k;

	for (k = 0; k < r->nr_guests; k++)
		if (!strcmp(r->guests[k].path, path))
			return &r->guests[k];
	return NULL;
}

/* The newest: a domain may have returned with another file. */
static struct braid_record_guest *find_domain(struct braid_recording *r, const char *domain)
{
	size_t k;

	for (k = r->nr_guests; k--;)
		if (!strcmp(r->guests[k].domain, domain))
			return &r->guests[k];
	return NULL;
}

/* A guest that was found by its file, or named by it, turns out to be a domain. */
static int know_domain(struct braid_recording *r, struct braid_record_guest *guest,
		       const struct braid_domain_change *change)
{
	int err;

	strcpy(guest->domain, change->name);
	if (guest->source || guest->named || !strcmp(guest->name, change->name))
		return 0;
	err = braid_record_check_name(r, change->path, change->name, change->name);
	if (!err)
		strcpy(guest->name, change->name);
	return err;
}

/* A domain with a region: 1 when it is new; 0; -errno with braid_fail(). */
static int domains_add_guest(struct braid_recording *r, const struct braid_domain_change *change)
{
	struct braid_record_guest guest = {
		.given = !r->o.domains.all, .wait = BRAID_WAIT_GUEST_NONE,
	};
	struct braid_record_guest *known = find_path(r, change->path);
	int err;

	if (known)
		return know_domain(r, known, change);
	err = braid_record_check_name(r, change->path, change->name, change->name);
	if (err)
		return err;
	strcpy(guest.path, change->path);
	strcpy(guest.name, change->name);
	strcpy(guest.domain, change->name);
	if (braid_array_push(r->guests, r->nr_guests, r->guests_capacity, guest))
		return braid_out_of_memory();
	return 1;
}

/* Of all domains, those are recorded whose region is found; others may have no driver. */
static int domains_note_memory(struct braid_recording *r, const struct braid_domain_change *change)
{
	struct braid_record_guest *known = find_path(r, change->path);

	return known ? know_domain(r, known, change) :
		       braid_record_note_domain(r, change->path, change->name);
}

/* Before the recording begins. Returns 1 at the list's end, 0, or -errno with braid_fail(). */
static int take_listed(struct braid_recording *r, const struct braid_domain_change *change)
{
	int ret;

	switch (change->kind) {
	case BRAID_DOMAIN_FAILED:
		return braid_fail(-ENOTCONN, "%s", change->detail);
	case BRAID_DOMAIN_LISTED:
		return 1;
	case BRAID_DOMAIN_BARE:
		braid_record_say(r, change->name, "%s", change->detail);
		return 0;
	case BRAID_DOMAIN_REGION:
		ret = domains_add_guest(r, change);
		if (ret >= 0 || !r->o.domains.all)
			return ret < 0 ? ret : 0;
		braid_record_say(r, change->name, "left out: %s", braid_failure());
		return 0;
	case BRAID_DOMAIN_MEMORY:
		if (r->o.domains.all)
			return domains_note_memory(r, change);
		braid_record_say(r, change->name, "%s", change->detail);
		ret = domains_add_guest(r, change);
		return ret < 0 ? ret : 0;
	default:
		return 0;
	}
}

static int take_list(struct braid_recording *r)
{
	struct pollfd p[] = {
		{ .fd = r->watch.fd, .events = POLLIN },
		{ .fd = r->signal_fd, .events = POLLIN },
	};
	struct braid_domain_change change;
	int ret = 0;

	while (!ret) {
		if (poll(p, 2, LIST_LIMIT_MS) == 0)
			return braid_fail(-ETIMEDOUT, "libvirt does not answer; check libvirtd");
		if (p[1].revents)
			return braid_fail(-EINTR, "interrupted before libvirt answered");
		ret = braid_domain_watch_next(&r->watch, &change);
		if (ret > 0)
			ret = take_listed(r, &change);
	}
	return ret < 0 ? ret : 0;
}

int braid_record_watch_domains(struct braid_recording *r)
{
	struct braid_record_domains *d = &r->o.domains;

	if (!d->nr && !d->all)
		return d->uri ? braid_fail(-EINVAL, "--connect=%s: needs -d DOMAIN or --all",
					   d->uri) : 0;
	if (d->nr && d->all)
		return braid_fail(-EINVAL, "--domain cannot be combined with --all, which includes every domain");
	return braid_domain_watch_start(&r->watch, d->uri, d->all ? NULL : d->names, d->nr);
}

int braid_record_take_domains(struct braid_recording *r)
{
	struct braid_record_domains *d = &r->o.domains;
	int err;

	if (r->watch.fd < 0)
		return 0;
	err = take_list(r);
	if ((err != -ENOTCONN && err != -ETIMEDOUT && err != -EPIPE) || !d->all || d->uri)
		return err;
	/* All regions, on a machine without libvirt. */
	braid_record_say(r, NULL, "continuing without libvirt: %s", braid_failure());
	braid_domain_watch_stop(&r->watch);
	d->all = false;
	return r->nr_guests || r->o.host != BRAID_HOST_NO ? 0 : braid_fail(-ENOENT, "no region found, and libvirt is unavailable; name one with -r");
}

/* A domain whose memory is read, and in which no driver has been loaded; NULL: none. */
static struct braid_record_guest *find_waiting(struct braid_recording *r, const char *domain)
{
	struct braid_record_guest *guest = find_domain(r, domain);

	return guest && guest->source && braid_endpoint_has_scheme(guest->path) &&
	       !braid_region_source_status(guest->source).nr_streams ? guest : NULL;
}

/* A waiting domain waits at another place. Return: 0, or -errno with braid_fail(): it stays. */
static int move_guest(struct braid_recording *r, struct braid_record_guest *guest,
		      const char *path)
{
	struct braid_record_guest to = *guest;
	int err;

	strcpy(to.path, path);
	to.source = NULL;
	err = braid_record_open_guest(r, &to);
	if (err)
		return err;
	braid_wait_forget(&guest->wait);
	braid_region_source_close(guest->source);
	to.wait = BRAID_WAIT_GUEST_NONE;
	to.due_ns = 0;
	*guest = to;
	braid_record_say(r, guest->name, "recorded from now on");
	return 0;
}

/* A guest added during the recording. One that can't be recorded is skipped. */
static void begin_guest(struct braid_recording *r, const struct braid_domain_change *change)
{
	struct braid_record_guest *waiting = find_path(r, change->path) ? NULL :
					     find_waiting(r, change->name);
	int ret = waiting ? move_guest(r, waiting, change->path) : domains_add_guest(r, change);

	if (ret > 0) {
		struct braid_record_guest *guest = &r->guests[r->nr_guests - 1];

		ret = braid_record_open_guest(r, guest);
		if (!ret)
			braid_record_say(r, guest->name, "recorded from now on");
		else
			r->nr_guests--;
	}
	if (ret < 0)
		braid_record_say(r, change->name, "left out: %s", braid_failure());
}

/* An event of a domain: written to the capture, if there is a guest of that name. */
static int domains_note(struct braid_recording *r, const struct braid_domain_change *change)
{
	struct braid_record_guest *guest = find_domain(r, change->name);
	char line[sizeof(change->detail) + 16];

	snprintf(line, sizeof(line), "the domain %s", change->detail);
	if (guest)
		return braid_region_source_note(guest->source, line);
	braid_record_say(r, change->name, "%s", line);
	return 0;
}

/* A driver is often loaded before its guest's agent runs. */
static void ask_again(struct braid_recording *r, const char *domain)
{
	struct braid_record_guest *guest = find_domain(r, domain);

	if (guest && guest->agent_failed)
		guest->agent_stream = 0;
}

static int take_change(struct braid_recording *r, const struct braid_domain_change *change)
{
	switch (change->kind) {
	case BRAID_DOMAIN_REGION:
		begin_guest(r, change);
		return 0;
	case BRAID_DOMAIN_MEMORY:
		if (r->o.domains.all)
			return domains_note_memory(r, change);
		braid_record_say(r, change->name, "%s", change->detail);
		begin_guest(r, change);
		return 0;
	case BRAID_DOMAIN_EVENT:
		return domains_note(r, change);
	case BRAID_DOMAIN_AGENT:
		ask_again(r, change->name);
		return 0;
	case BRAID_DOMAIN_BARE:
		braid_record_say(r, change->name, "%s", change->detail);
		return 0;
	case BRAID_DOMAIN_LOST:
		braid_record_say(r, NULL, "%s; continuing, and retrying", change->detail);
		return 0;
	case BRAID_DOMAIN_FOUND:
		braid_record_say(r, NULL, "libvirt is available again");
		return 0;
	default:
		return 0;
	}
}

int braid_record_poll_domains(struct braid_recording *r)
{
	struct braid_domain_change change;
	int ret = 0, turns, err = 0;

	if (r->watch.fd < 0)
		return 0;
	for (turns = 0; turns < TURN_CHANGES && !err; turns++) {
		ret = braid_domain_watch_next(&r->watch, &change);
		if (ret <= 0)
			break;
		err = take_change(r, &change);
	}
	if (ret < 0) {
		braid_record_say(r, NULL, "%s; continuing without it", braid_failure());
		braid_wait_for(&r->wait, BRAID_WAIT_DOMAINS, -1);
		braid_domain_watch_stop(&r->watch);
	}
	return err;
}
