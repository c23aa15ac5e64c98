// SPDX-License-Identifier: GPL-2.0-or-later
/* Selects guests and events, and opens all sources. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <tracefs.h>
#include <unistd.h>

#include "host_agent/capture/packer.h"
#include "host_agent/clock_sync/host.h"
#include "host_agent/discover/discover.h"
#include "host_agent/discover/whole_search.h"
#include "host_agent/record/private.h"
#include "host_agent/transport/endpoint.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/landlock.h"
#include "host_agent/util/text.h"

#define SYMBOLS_BYTES	(64ULL << 20)	/* smaller files do not have the host kernel's symbols */

/* A region that is named twice would be recorded by us and refused to us. */
static int refuse_twins(const struct braid_recording *r)
{
	braid_auto_free struct stat *files = calloc(r->nr_guests, sizeof(*files));
	size_t k, i;

	if (!files)
		return braid_out_of_memory();
	for (k = 0; k < r->nr_guests; k++) {
		if (stat(r->guests[k].path, &files[k]))
			files[k].st_ino = 0;
		for (i = 0; i < k; i++)
			if (!strcmp(r->guests[i].path, r->guests[k].path) ||
			    (files[k].st_ino && files[i].st_ino == files[k].st_ino &&
			     files[i].st_dev == files[k].st_dev))
				return braid_fail(-EINVAL, "%s: given twice", r->guests[k].path);
	}
	return 0;
}

/* Sets the paths of the -r arguments, except those with a scheme. */
static int resolve_paths(struct braid_recording *r, const char **paths, size_t *nr_files)
{
	braid_auto_free struct braid_named *named = calloc(r->nr_guests, sizeof(*named));
	size_t nr = 0, k;
	int err;

	if (!named)
		return braid_out_of_memory();
	for (k = 0; k < r->nr_guests; k++)
		if (!braid_endpoint_has_scheme(r->guests[k].path))
			named[nr++].word = r->guests[k].path;
	err = braid_resolve(named, nr);
	for (k = nr = 0; k < r->nr_guests && !err; k++) {
		if (braid_endpoint_has_scheme(r->guests[k].path))
			continue;
		memcpy(r->guests[k].path, named[nr].path, sizeof(r->guests[k].path));
		paths[nr++] = r->guests[k].path;
	}
	*nr_files = nr;
	return err;
}

/* Fills in paths and names of the -r arguments. */
static int resolve_given(struct braid_recording *r)
{
	braid_auto_free struct braid_found *given = NULL;
	braid_auto_free const char **paths = calloc(r->nr_guests, sizeof(*paths));
	size_t nr, k, nr_files = 0;
	int err;

	if (!paths)
		return braid_out_of_memory();
	err = resolve_paths(r, paths, &nr_files);
	if (!err)
		err = braid_discover(&given, &nr, paths, nr_files, 0, NULL);
	if (!err)
		err = refuse_twins(r);
	for (k = 0; k < r->nr_guests && !err; k++) {
		struct braid_record_guest *guest = &r->guests[k];
		size_t i;

		if (braid_endpoint_has_scheme(guest->path))
			continue;
		for (i = 0; i < nr && strcmp(given[i].path, guest->path); i++)
			;
		if (i == nr)
			err = braid_fail(-EINVAL, "%s: given twice", guest->path);
		else if (given[i].state == BRAID_DRIVER_UNREADABLE)
			err = braid_fail(given[i].error, "%s", given[i].why);
		else if (!*guest->name)
			strcpy(guest->name, given[i].name);
	}
	return err;
}

static bool given(const struct braid_recording *r, const struct braid_found *found)
{
	struct stat st;
	size_t k;

	for (k = 0; k < r->nr_guests && r->guests[k].given; k++)
		if (!strcmp(r->guests[k].path, found->path) ||
		    (!stat(r->guests[k].path, &st) && st.st_ino == found->inode &&
		     st.st_dev == found->device))
			return true;
	return false;
}

static bool setup_is_named(const struct braid_recording *r, const char *name)
{
	size_t k;

	for (k = 0; k < r->nr_guests && *name; k++)
		if (!strcmp(r->guests[k].name, name))
			return true;
	return false;
}

/*
 * Streams are distinguished by name. If two guests are found with the same name, the process number
 * of its VMM is added to that of the second. Return: false: it has no running VMM, and is left out.
 */
static bool setup_name_found(const struct braid_recording *r, struct braid_record_guest *guest,
			     pid_t pid)
{
	char name[sizeof(guest->name)];

	if (!setup_is_named(r, guest->name) && strcmp(guest->name, "host"))
		return true;
	if (pid) {
		snprintf(name, sizeof(name), "%.48s[%d]", guest->name, (int)pid);
		strcpy(guest->name, name);
		if (!setup_is_named(r, name))
			return true;
	}
	braid_record_say(r, NULL, "left out: another guest has the same name as %s; use -r %s,name=NAME",
			 guest->path, guest->path);
	return false;
}

static int setup_take_all(struct braid_recording *r)
{
	braid_auto_free struct braid_found *found = NULL;
	size_t nr, k;
	int err = braid_discover(&found, &nr, NULL, 0, 0, NULL);

	for (k = 0; k < nr && !err; k++) {
		struct braid_record_guest guest = { .wait = BRAID_WAIT_GUEST_NONE };

		if (given(r, &found[k]))
			continue;
		if (found[k].state == BRAID_DRIVER_UNREADABLE) {
			braid_record_say(r, NULL, "left out: %s", found[k].why);
			continue;
		}
		strcpy(guest.path, found[k].path);
		strcpy(guest.name, found[k].name);
		if (!setup_name_found(r, &guest, found[k].qemu_pid))
			continue;
		if (braid_array_push(r->guests, r->nr_guests, r->guests_capacity, guest))
			err = braid_out_of_memory();
	}
	if (!err && !r->nr_guests && !r->o.domains.all && r->o.host == BRAID_HOST_NO)
		err = braid_fail(-ENOENT, "no region found; add one with 'tracebraid attach DOMAIN' (libvirt) or 'tracebraid create FILE' (plain QEMU), then load the driver; or name one with -r");
	return err;
}

/* A signal ends the search, and the recording before it has begun. */
static int setup_searched(void *arg, u64 done, u64 total)
{
	const struct braid_recording *r = arg;
	struct pollfd p = { .fd = r->signal_fd, .events = POLLIN };

	r->ops->searched(r->arg, done, total);
	return poll(&p, 1, 0) > 0 ? braid_fail(-EINTR, "interrupted; nothing was recorded") : 0;
}

static int setup_search(struct braid_recording *r)
{
	braid_auto_free const char **words = calloc(r->nr_guests + 1, sizeof(*words));
	bool all = r->o.domains.all || r->o.domains.nr;
	size_t k;

	if (!words)
		return braid_out_of_memory();
	for (k = 0; k < r->nr_guests; k++)
		words[k] = r->guests[k].path;
	return braid_whole_search(words, all ? 0 : r->nr_guests, setup_searched, r);
}

int braid_record_find_guests(struct braid_recording *r)
{
	size_t k, i;
	int err = 0;

	if (r->o.search)
		err = setup_search(r);
	if (!err && r->nr_guests)
		err = resolve_given(r);
	if (!err && (r->o.domains.all || (!r->nr_guests && !r->o.domains.nr))) {
		r->memories.wanted = r->o.domains.all || r->o.flight.wanted;
		err = setup_take_all(r);
	}
	/* The report distinguishes streams by name. */
	for (k = 0; k < r->nr_guests && !err; k++)
		if (!strcmp(r->guests[k].name, "host"))
			err = braid_fail(-EINVAL, "%s: \"host\" is reserved for the host; use -r %s,name=NAME",
					 r->guests[k].path, r->guests[k].path);
	for (k = 0; k < r->nr_guests && !err; k++)
		for (i = 0; i < k && !err; i++)
			if (*r->guests[i].name && !strcmp(r->guests[i].name, r->guests[k].name))
				err = braid_fail(-EINVAL, "%s and %s would both be named \"%s\"; use -r %s,name=NAME",
						 r->guests[i].path, r->guests[k].path,
						 r->guests[k].name, r->guests[k].path);
	return err;
}

static void say_for_guest(void *arg, const char *name, const char *line)
{
	braid_record_say(arg, name, "%s", line);
}

/*
 * A pattern must match an event of some guest whose events are known; --on's may match the host's.
 */
static int check_events(struct braid_recording *r, bool defaults)
{
	size_t own = r->o.events.nr - r->o.flight.on.nr, k, i;
	char failure[512];
	int ret;

	for (k = defaults ? own : 0; k < r->o.events.nr; k++) {
		bool known = false, found = k >= own && r->o.host != BRAID_HOST_NO;

		for (i = 0; i < r->nr_guests; i++) {
			ret = braid_region_source_check(r->guests[i].source, k);
			found |= ret > 0;
			if (ret < 0 && !known)
				snprintf(failure, sizeof(failure), "%s", braid_failure());
			known |= ret < 0;
		}
		if (known && !found)
			return braid_fail(-ENOENT, "%s", failure);
	}
	/* Of all guests, one that supports no filters is recorded without, with a note. */
	for (i = 0; i < r->nr_guests && !r->o.domains.all; i++) {
		ret = braid_region_source_check_filters(r->guests[i].source);
		if (ret)
			return ret;
	}
	return 0;
}

static void drop_guest(struct braid_recording *r, size_t k)
{
	memmove(&r->guests[k], &r->guests[k + 1], (r->nr_guests - k - 1) * sizeof(*r->guests));
	r->nr_guests--;
}

/* Each guest takes a few descriptors; the soft limit is for programs that select(). */
static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* Guests that return, and snapshots, need the paths later, too. */
static int allow_writing(const struct braid_recording *r)
{
	const char *root = tracefs_tracing_dir();	/* it is mounted if necessary */
	int err = braid_landlock_allow(braid_record_path(r), BRAID_PLACE_OUTPUT);
	char path[PATH_MAX];
	struct stat st;
	size_t k;

	if (!err)	/* libvirt's regions */
		err = braid_landlock_allow(BRAID_SHM_DIR "-", BRAID_PLACE_WRITTEN);
	for (k = 0; k < r->nr_guests && !err; k++) {
		const struct braid_record_guest *guest = &r->guests[k];

		if (guest->endpoint)
			err = braid_endpoint_allow(guest->endpoint);
		else if (strchr(guest->path, '/') || !lstat(guest->path, &st))
			err = braid_landlock_allow(guest->path, BRAID_PLACE_WRITTEN);
	}
	if (!err && r->flight.requests.listener.fd >= 0)
		err = braid_landlock_allow(r->flight.requests.address.path, BRAID_PLACE_REMOVED);
	if (err || !root)
		return err;
	snprintf(path, sizeof(path), "%s/instances/-", root);
	return braid_landlock_allow(path, BRAID_PLACE_OUTPUT);
}

int braid_record_confine(struct braid_recording *r)
{
	const pid_t children[BRAID_CONFINE_CHILDREN] = {
		r->command.pid, r->watch.pid, r->agents.process.pid, r->viewer.pid,
		r->declared.pid,
	};
	const struct braid_peers_options peers = {
		.hosts = r->o.peers.hosts.items, .nr_hosts = r->o.peers.hosts.nr,
		.listen = r->o.peers.listen, .rate = r->o.peers.rate,
	};
	size_t k;
	int err = 0;

	raise_file_limit();
	for (k = 0; k < r->nr_guests && !err; k++)	/* a socket can't be made afterwards */
		if (braid_endpoint_has_scheme(r->guests[k].path))
			err = braid_endpoint_open(&r->guests[k].endpoint, r->guests[k].path);
	if (!err)
		err = braid_record_open_flight(r);
	if (!err)
		err = braid_record_open_rotation(r);
	if (!err)
		err = braid_peers_open(&r->peers, &peers);
	if (!err)
		err = allow_writing(r);
	return err ? err : r->ops->confine(BRAID_CONFINE_RECORD, children);
}

int braid_record_open_guest(struct braid_recording *r, struct braid_record_guest *guest)
{
	struct braid_region_options o = {
		.path = guest->path,
		.endpoint = guest->endpoint,
		.name = guest->name,
		.sink = &r->sink,
		.exchange = r->exchange,
		.kvm_watch = r->kvm_watch,
		.patterns = r->o.events.items,
		.nr_patterns = r->o.events.nr,
		.who = r->o.who,
		.triggers = r->o.triggers,
		.nr_triggers = r->o.nr_triggers,
		.reshape = r->o.reshape,
		.sampling = braid_record_sampling(&r->o),
		.user_stacks = r->o.user_stacks,
		.asked_elsewhere = r->o.domains.agents && *guest->domain,
		.buffer = r->o.buffer,
		.clock_only = r->o.clock_only,
		.window = !r->o.flight.wanted,
		.backlog = r->o.backlog,
		.flight = r->o.flight.wanted,
		.on = r->o.flight.on.items,
		.nr_on = r->o.flight.on.nr,
		.say = say_for_guest,
		.say_arg = r,
	};
	int err;

	guest->endpoint = NULL;
	err = braid_region_source_open(&guest->source, &o);
	if (!err && r->start_ns)	/* added during the recording */
		braid_region_source_start(guest->source);
	return err;
}

int braid_record_open_guests(struct braid_recording *r)
{
	bool expects = braid_record_expects(r);
	bool some = r->nr_guests || expects || r->memories.wanted;
	size_t k = 0, found = r->nr_guests;
	bool defaults = !r->o.events.nr;
	int err = braid_record_complete_events(&r->o);

	if (!err)
		err = braid_record_add_on(r, &r->o.events);
	if (!err && some)
		err = braid_exchange_start(&r->exchange);
	if (!err && some)	/* a help: the offsets are read now and then anyway */
		braid_kvm_watch_open(&r->kvm_watch);
	while (k < r->nr_guests && !err) {
		err = braid_record_open_guest(r, &r->guests[k]);
		if (!err) {
			k++;
		} else if (!r->guests[k].given && (found > 1 || expects)) {
			braid_record_say(r, NULL, "left out: %s", braid_failure());
			drop_guest(r, k);
			err = 0;
		}
	}
	if (!err && found && !r->nr_guests && !expects)
		err = braid_fail(-ENOENT, "no guest can be recorded");
	return err || r->o.clock_only ? err : check_events(r, defaults);
}

/* The host can't be recorded: an error, or not. */
static int without_host(struct braid_recording *r, int err)
{
	if (r->o.host == BRAID_HOST_YES || !(r->nr_guests || braid_record_expects(r)))
		return err;
	braid_record_say(r, NULL, "%s; continuing without the host", braid_failure());
	r->o.host = BRAID_HOST_NO;
	return 0;
}

int braid_record_check_host(struct braid_recording *r)
{
	int err;

	if (r->o.host == BRAID_HOST_NO)
		return r->o.host_clock ? braid_fail(-EINVAL, "--host-clock=%s: needs --host",
						  r->o.host_clock) : 0;
	err = r->o.host_clock ? braid_sampler_check(r->o.host_clock) : 0;
	if (err)
		return err;
	if (!r->o.host_events_given) {
		err = braid_record_add_events(&r->o.host_events, BRAID_HOST_EVENTS);
		if (err)
			return err;
	}
	err = braid_tracefs_check(r->o.host_events.items, r->o.host_events.nr,
				  !r->o.host_events_given, r->o.host_clock);
	return err ? without_host(r, err) : braid_record_add_on(r, &r->o.host_events);
}

static int open_tracefs(struct braid_recording *r)
{
	struct braid_tracefs_options o = {
		.sink = &r->sink,
		.patterns = r->o.host_events.items,
		.nr_patterns = r->o.host_events.nr,
		.clock = r->o.host_clock,
		.held = !r->o.flight.wanted,
		.stacks = r->o.sample_hz,
		.probes = r->quota.made,
		.rotates = r->o.rotate.bytes,
		.brief = r->o.rotate.bytes && r->o.rotate.bytes < SYMBOLS_BYTES,
		.flight = r->o.flight.wanted,
	};
	int err;

	if (r->o.host == BRAID_HOST_NO)
		return 0;
	err = braid_tracefs_source_open(&r->host_source, &o);
	return err && err != -ENOSPC ? without_host(r, err) : err;
}

static int start_tracefs(struct braid_recording *r)
{
	int err = r->host_source ? braid_tracefs_source_start(r->host_source) : 0;

	if (err && err != -ENOSPC)
		err = without_host(r, err);
	if (r->o.host == BRAID_HOST_NO) {
		braid_tracefs_source_close(r->host_source);
		r->host_source = NULL;
	}
	return err;
}

int braid_record_open_host(struct braid_recording *r)
{
	int err = open_tracefs(r);

	if (!err && r->host_source)
		err = braid_sampler_open(&r->sampler, r->o.host_clock,
					 braid_tracefs_source_stats(r->host_source));
	else if (!err)
		err = braid_sampler_open(&r->sampler, NULL, NULL);
	/* The clocks are sampled before the first event, so that no time must be extrapolated. */
	if (!err)
		err = braid_sampler_turn(r->sampler, r->sink.capture, false);
	if (!err)
		err = start_tracefs(r);
	return err ? err : braid_record_watch_host(r);
}

/* They show why a thread does not run: of use only with sched_switch, which shows who runs. */
int braid_record_start_quota(struct braid_recording *r)
{
	const struct braid_record_patterns *events = &r->o.host_events;
	bool wanted = !r->o.host_events_given;
	u32 probes;
	size_t k;
	int err;

	for (k = 0; k < events->nr && !wanted; k++)
		wanted = braid_pattern_matches(&events->items[k], "sched", "sched_switch");
	if (r->o.peers.packets && r->o.host == BRAID_HOST_NO)
		return braid_fail(-EINVAL, "--packets: needs --host");
	probes = wanted ? BRAID_PROBES_QUOTA : 0;
	probes |= r->o.peers.packets ? BRAID_PROBES_PACKETS : 0;
	if (!probes || r->o.host == BRAID_HOST_NO)
		return 0;
	err = braid_tracefs_quota_start(&r->quota, BRAID_VMLINUX_BTF, probes,
					r->ops->confine_writer);
	if (!err && r->o.peers.packets && !(r->quota.made & BRAID_PROBES_PACKETS))
		err = braid_fail(-EOPNOTSUPP, "--packets: this kernel has no such probes; it needs "
				 "CONFIG_KPROBE_EVENTS and CONFIG_DEBUG_INFO_BTF");
	return err;
}

int braid_record_start_flusher(struct braid_recording *r)
{
	if (r->o.flight.wanted || r->o.rotate.bytes || r->viewer.in_memory || r->o.fd)
		return 0;
	return braid_flusher_start(&r->flusher, r->o.compress ? BRAID_PACKER_LEVEL : 0,
				   r->ops->confine_writer);
}

static int open_one_file(struct braid_recording *r, const struct braid_chunk_file *head)
{
	int err;

	if (r->viewer.in_memory || r->o.fd)
		return braid_capture_create_at(&r->sink.capture,
					       fcntl(r->o.fd ? r->o.fd : r->viewer.memory_fd,
						     F_DUPFD_CLOEXEC, 0),
					       braid_record_path(r), head);
	err = braid_capture_create_queued(&r->sink.capture, r->o.file, head, r->flusher);
	if (!err)
		braid_capture_sync_at_end(r->sink.capture);
	if (!err && r->o.keep_former)
		braid_capture_keep_former(r->sink.capture);
	return err;
}

int braid_record_open_file(struct braid_recording *r)
{
	struct braid_chunk_file head;
	int err;

	r->sink.next_stream = 1;
	if (r->o.flight.wanted)
		return braid_capture_create_history(&r->sink.capture, false);
	if (!strcmp(r->o.file, "-") && isatty(STDOUT_FILENO))
		return braid_fail(-EINVAL, "standard output is a terminal: use -o FILE or redirect it");
	r->ops->capture_head(&head);
	r->sink.prompt_ns = r->o.live.wanted || r->o.prompt ? BRAID_PROMPT_NS : 0;
	if (r->o.rotate.bytes)
		return braid_record_begin_rotation(r);
	err = open_one_file(r, &head);
	return err ? err : braid_record_put_host(r, r->sink.capture);
}
