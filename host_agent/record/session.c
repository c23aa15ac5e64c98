// SPDX-License-Identifier: GPL-2.0-or-later
/* A recording from its beginning to its end: opens everything in order, and closes it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/record/private.h"
#include "host_agent/transport/endpoint.h"
#include "host_agent/util/error.h"

/* From here on signals are read, so that every end is a clean one. */
static int open_signals(struct braid_recording *r, sigset_t *before)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGHUP);
	if (r->o.rotate.bytes)
		sigaddset(&mask, SIGUSR1);
	sigprocmask(SIG_BLOCK, &mask, before);
	r->signal_fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
	return r->signal_fd < 0 ? braid_fail(-errno, "cannot create a signalfd: %s", strerror(errno)) : 0;
}

/* Everything is closed in any case; a failed capture is valid up to its failure. */
static int close_all(struct braid_recording *r, int err)
{
	char failure[1024];
	int finish_err = 0;
	size_t k;

	snprintf(failure, sizeof(failure), "%s", braid_failure());
	braid_record_close_flight(r);
	braid_child_stop(&r->command);
	braid_record_live_end(r);
	braid_domain_watch_stop(&r->watch);
	braid_guest_agent_stop(&r->agents.process);
	free(r->agents.files);
	for (k = 0; k < r->nr_guests; k++)
		braid_region_source_leave(r->guests[k].source);
	for (k = 0; k < r->nr_guests; k++) {
		braid_wait_forget(&r->guests[k].wait);
		braid_region_source_close(r->guests[k].source);
		braid_endpoint_close(r->guests[k].endpoint);
	}
	braid_peers_close(r->peers);
	braid_declared_stop(&r->declared);
	braid_sampler_close(r->sampler);	/* it may hold a file of the instance that is to go */
	braid_tracefs_source_close(r->host_source);
	braid_tracefs_quota_stop(&r->quota);
	braid_vm_sources_close(r->vms);
	braid_record_close_memories(r);
	braid_exchange_stop(r->exchange);
	braid_kvm_watch_close(r->kvm_watch);
	finish_err = braid_record_end_rotation(r, err);
	if (r->sink.capture && !err && !finish_err)
		finish_err = braid_capture_finish(r->sink.capture);
	else
		braid_capture_abandon(r->sink.capture);
	braid_flusher_stop(r->flusher);
	if (r->signal_fd >= 0)
		close(r->signal_fd);
	braid_wait_close(&r->wait);
	free(r->guests);
	if (err)
		return braid_fail(err, "%s", failure);
	return finish_err;
}

/* A guest of which less is recorded than was asked for. */
static bool lacks(const struct braid_record_guest *guest, const struct braid_region_status *status)
{
	if (!status->nr_streams)
		return guest->given || *guest->domain;
	return status->unconfirmed || status->refused || (status->silent && !status->events);
}

static bool less_than_asked(const struct braid_recording *r)
{
	struct braid_region_status status;
	bool any = r->host_source, lack = false;
	size_t k;

	for (k = 0; k < r->nr_guests; k++) {
		status = braid_region_source_status(r->guests[k].source);
		any |= status.nr_streams;
		lack |= lacks(&r->guests[k], &status);
	}
	return lack || !any;
}

/* Checks that -B named a buffer of some guest, unless unknown. -ENOENT with braid_fail(). */
static int check_buffer(const struct braid_recording *r)
{
	struct braid_region_status status;
	bool known = false;
	size_t k;

	for (k = 0; k < r->nr_guests && r->o.buffer; k++) {
		status = braid_region_source_status(r->guests[k].source);
		if (status.nr_streams && !status.no_buffer)
			return 0;
		known |= status.no_buffer;
	}
	if (!known)
		return 0;
	return braid_fail(-ENOENT, "no buffer '%s' appeared; 'tracebraid stat' lists all", r->o.buffer);
}

/* Copies the given regions into the list of guests. -ENOMEM with braid_fail(). */
static int session_begin(struct braid_recording *r)
{
	size_t k;

	r->guests = calloc(r->o.nr_given ? r->o.nr_given : 1, sizeof(*r->guests));
	if (!r->guests)
		return braid_out_of_memory();
	r->guests_capacity = r->nr_guests = r->o.nr_given;
	for (k = 0; k < r->o.nr_given; k++) {
		struct braid_record_guest *guest = &r->guests[k];

		strcpy(guest->path, r->o.given[k].path);
		strcpy(guest->name, r->o.given[k].name);
		guest->given = true;
		guest->named = r->o.given[k].named;
		guest->wait = BRAID_WAIT_GUEST_NONE;
	}
	return 0;
}

/* What must be made before we are confined. */
static int start_processes(struct braid_recording *r)
{
	int err = braid_wait_open(&r->wait);

	if (!err)
		err = braid_record_watch_domains(r);
	if (!err)
		err = braid_record_start_agents(r);
	if (!err)
		err = braid_record_live_start(r);
	if (!err)
		err = braid_child_prepare(&r->command);
	if (!err)
		err = braid_record_start_flusher(r);
	if (!err)
		err = braid_record_start_quota(r);
	if (!err)
		err = braid_declared_start(&r->declared);
	r->ops->forked(r->arg);
	return err ? err : braid_record_confine(r);
}

static int open_all(struct braid_recording *r)
{
	int err = braid_record_find_guests(r);

	if (!err)
		err = braid_record_take_domains(r);
	if (!err)
		err = braid_record_open_guests(r);
	if (!err)	/* before a former capture is replaced */
		err = braid_record_check_host(r);
	if (!err)
		err = braid_record_open_file(r);
	if (!err)
		err = braid_record_open_host(r);
	if (!err)
		err = braid_peers_start(r->peers);
	return err ? err : braid_record_open_vms(r);
}

int braid_record_session(struct braid_record_options *o, const struct braid_record_ops *ops,
			 void *arg, struct braid_record_result *result)
{
	struct braid_recording r = {
		.o = *o, .ops = ops, .arg = arg,
		.quota = BRAID_TRACEFS_QUOTA_NONE, .declared.fd = -1,
		.signal_fd = -1, .wait = BRAID_WAIT_NONE, .watch.fd = -1,
		.agents.process.fd = -1,
		.command = { .argv = o->command, .pidfd = -1, .go_fd = -1, .failure_fd = -1 },
		.flight.requests = { .fd = -1, .listener.fd = -1 },
		.viewer = { .memory_fd = -1, .pidfd = -1, .marks_fd = -1 },
	};
	int err, no_buffer = 0;
	char why[1024];
	sigset_t before;

	braid_host_id(r.host_id);
	err = open_signals(&r, &before);
	if (!err)
		err = session_begin(&r);
	if (!err)
		err = start_processes(&r);
	if (!err)
		err = open_all(&r);
	if (!err)
		err = braid_record_run(&r);
	snprintf(why, sizeof(why), "%s", braid_failure());
	braid_record_undo_agents(&r);
	if (err)
		braid_fail(err, "%s", why);
	if (!err) {
		braid_record_live_end(&r);
		result->lacks = less_than_asked(&r);
		ops->stopped(arg, &r);
		no_buffer = check_buffer(&r);
		snprintf(why, sizeof(why), "%s", braid_failure());
	}
	err = close_all(&r, err);
	if (!err && no_buffer)	/* the capture is complete, but empty */
		err = braid_fail(no_buffer, "%s", why);
	result->status = r.command.ended ? r.command.status : 0;
	*o = r.o;
	sigprocmask(SIG_SETMASK, &before, NULL);
	return err;
}
