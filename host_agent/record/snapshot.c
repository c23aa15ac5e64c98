// SPDX-License-Identifier: GPL-2.0-or-later
/* A flight recorder: no file is written until a snapshot is requested, or an event occurs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/record/private.h"
#include "host_agent/util/error.h"

#define CLOCK_LIMIT_NS	1000000000ULL	/* for the guests' clocks after the last event */
#define NUMBERS_MOST	1000000u
#define SUFFIX		".braid"
#define WHY_BYTES	sizeof(((struct braid_record_flight *)0)->why)

int braid_record_open_flight(struct braid_recording *r)
{
	return r->o.flight.wanted ? braid_request_open(&r->flight.requests) : 0;
}

/* Watched events must be enabled, in guests and host. */
int braid_record_add_on(struct braid_recording *r, struct braid_record_patterns *list)
{
	const struct braid_record_patterns *on = &r->o.flight.on;
	size_t k;

	for (k = 0; k < on->nr; k++)
		if (braid_array_push(list->items, list->nr, list->capacity, on->items[k]))
			return braid_out_of_memory();
	return 0;
}

int braid_record_watch_host(struct braid_recording *r)
{
	struct braid_record_flight *f = &r->flight;

	if (!r->o.flight.on.nr || !r->host_source)
		return 0;
	return braid_tracefs_watch_open(&f->host_watch, r->o.flight.on.items, r->o.flight.on.nr);
}

/* A snapshot ----------------------------------------------------------------------------- */

static u64 events_so_far(const struct braid_recording *r)
{
	u64 events = r->host_source ? braid_tracefs_source_status(r->host_source).events : 0;
	size_t k;

	for (k = 0; k < r->nr_guests; k++)
		events += braid_region_source_status(r->guests[k].source).events;
	return events;
}

/*
 * Reads the rings; the clocks are sampled afterwards. Once the disk is full the other guests' rings
 * are not read. Fails only without memory.
 */
static int snapshot_take_all(struct braid_recording *r)
{
	int err = 0, host_err = 0;
	size_t k;

	braid_capture_replay(r->sink.capture, 0);
	for (k = 0; k < r->nr_guests && !err && !braid_capture_tee_failed(r->sink.capture); k++)
		err = braid_region_source_take(r->guests[k].source);
	if (r->vms && !err)
		err = braid_vm_sources_take(r->vms);
	if (r->host_source && !err && !braid_capture_tee_failed(r->sink.capture))
		host_err = braid_tracefs_source_take(r->host_source);
	if (host_err)
		braid_record_say(r, "host", "%s", braid_failure());
	for (k = 0; k < r->nr_guests; k++) {
		braid_region_source_ask(r->guests[k].source);
		r->guests[k].due_ns = 0;
	}
	return err;
}

static void say_result(struct braid_recording *r, int err, const char *line)
{
	struct braid_record_flight *f = &r->flight;

	if (!r->o.quiet || err)
		braid_record_say(r, NULL, "%s", line);
	if (f->by_request)
		braid_request_answer(&f->requests, err, line);
	f->by_request = false;
	f->nr_taken += !err;
	f->last_ns = braid_host_clock_ns();
}

/* Before other work, which may fail, too. */
static void keep_failure(int err, char line[BRAID_REQUEST_LINE_BYTES])
{
	if (err)
		snprintf(line, BRAID_REQUEST_LINE_BYTES, "%.500s", braid_failure());
}

/* Creates the file: @fd, or one of the next unused name. */
static int snapshot_begin(struct braid_recording *r, int fd)
{
	struct braid_record_flight *f = &r->flight;
	struct braid_chunk_file head;
	int err;

	r->ops->capture_head(&head);
	err = fd >= 0 ? braid_capture_create_at(&f->out, fd, f->path, &head) :
			braid_capture_create(&f->out, f->path, &head);
	if (err)
		return err;
	braid_record_put_host(r, f->out);	/* if it fails, so does what follows */
	braid_capture_tee(r->sink.capture, f->out);
	f->events_before = events_so_far(r);
	f->deadline_ns = braid_host_clock_ns() + CLOCK_LIMIT_NS;
	return snapshot_take_all(r);
}

static bool clocks_known(const struct braid_recording *r)
{
	size_t k;

	for (k = 0; k < r->nr_guests; k++)
		if (!braid_region_source_asked(r->guests[k].source))
			return false;
	return true;
}

/* The clocks and the ends. What fails is the snapshot, never the recording. */
static int snapshot_finish(struct braid_recording *r)
{
	struct braid_record_flight *f = &r->flight;
	char line[BRAID_REQUEST_LINE_BYTES];
	int err = braid_sampler_turn(r->sampler, r->sink.capture, true), tee_err;
	u64 events;
	size_t k;

	for (k = 0; k < r->nr_guests && !err; k++)
		err = braid_region_source_took(r->guests[k].source, f->out);
	if (r->vms && !err)
		err = braid_vm_sources_took(r->vms, f->out);
	if (r->host_source && !err)
		err = braid_tracefs_source_took(r->host_source, f->out);
	keep_failure(err, line);
	tee_err = braid_capture_tee(r->sink.capture, NULL);
	keep_failure(tee_err, line);
	err = tee_err ? tee_err : err;
	if (err) {
		braid_capture_abandon(f->out);
	} else {
		err = braid_capture_finish(f->out);
		keep_failure(err, line);
	}
	f->out = NULL;
	events = events_so_far(r) - f->events_before;
	if (!err)
		snprintf(line, sizeof(line), "%s: %llu event%s, %s", f->path, (unsigned long long)events,
			 events == 1 ? "" : "s", f->why);
	say_result(r, err, line);
	return 0;
}

/* By themselves -------------------------------------------------------------------------- */

/* FILE-1.braid, FILE-2.braid...: existing files are not replaced. */
static int next_name(struct braid_recording *r)
{
	struct braid_record_flight *f = &r->flight;
	size_t n = strlen(r->o.file), suffix = strlen(SUFFIX);

	if (n > suffix && !strcmp(r->o.file + n - suffix, SUFFIX))
		n -= suffix;
	while (++f->number < NUMBERS_MOST) {
		snprintf(f->path, sizeof(f->path), "%.*s-%u" SUFFIX, (int)n, r->o.file, f->number);
		if (access(f->path, F_OK))
			return 0;
	}
	return braid_fail(-EEXIST, "%s: no unused number left for a snapshot", r->o.file);
}

enum cause {
	CAUSE_NONE = 0,
	CAUSE_EVENT,		/* it is over */
	CAUSE_GUEST,		/* one ends or is silent, till that was taken */
};

/* The reason for a snapshot. Events are seen only once. */
static enum cause find_cause(struct braid_recording *r, char *why)
{
	enum cause cause = CAUSE_NONE;
	struct braid_region_status status;
	char event[BRAID_PATTERN_BYTES];
	size_t k;

	for (k = 0; k < r->nr_guests; k++) {
		struct braid_record_guest *guest = &r->guests[k];

		status = braid_region_source_status(guest->source);
		guest->was_silent &= status.silent;
		if (status.leaving || (status.silent && !guest->was_silent)) {
			cause = CAUSE_GUEST;
			snprintf(why, WHY_BYTES, "%s %s", status.name,
				 status.leaving ? "ends" : "is silent");
		} else if (status.noticed != guest->noticed && !cause) {
			cause = CAUSE_EVENT;
			snprintf(why, WHY_BYTES, "%s: %s", status.name, status.noticed_event);
		} else if (status.trigger && !cause &&
			   status.trigger->action == BRAID_TRIGGER_SNAPSHOT) {
			cause = CAUSE_EVENT;
			snprintf(why, WHY_BYTES, "%s: trigger '%.120s'", status.name,
				 status.trigger->text);
		}
		guest->noticed = status.noticed;
	}
	if (r->flight.host_watch &&
	    braid_tracefs_watch_poll(r->flight.host_watch, event, sizeof(event)) && !cause) {
		cause = CAUSE_EVENT;
		snprintf(why, WHY_BYTES, "host: %s", event);
	}
	return cause;
}

/* All that guests call for was taken, or never will be. */
static void settle_guests(struct braid_recording *r)
{
	size_t k;

	for (k = 0; k < r->nr_guests; k++) {
		r->guests[k].was_silent = braid_region_source_status(r->guests[k].source).silent;
		braid_region_source_let_go(r->guests[k].source);
	}
}

/* Guests whose rings a trigger has frozen for a snapshot go on, and cause no other one yet. */
static void settle_triggers(struct braid_recording *r)
{
	const struct braid_trigger_wish *trigger;
	size_t k;

	for (k = 0; k < r->nr_guests; k++) {
		trigger = braid_region_source_status(r->guests[k].source).trigger;
		if (trigger && trigger->action == BRAID_TRIGGER_SNAPSHOT)
			braid_region_source_resume(r->guests[k].source, true, false);
	}
}

static bool is_held_off(const struct braid_recording *r)
{
	const struct braid_record_flight *f = &r->flight;

	return f->nr_taken && braid_host_clock_ns() - f->last_ns < r->o.flight.hold_off * 1e9;
}

static void snapshot_refuse(struct braid_recording *r, const char *why, const char *reason)
{
	if (!r->flight.reported_refusal)
		braid_record_say(r, NULL, "snapshot (%s) not taken: %s", why, reason);
	r->flight.reported_refusal = true;
}

static int take_by_itself(struct braid_recording *r, enum cause cause, const char *why)
{
	struct braid_record_flight *f = &r->flight;
	char line[BRAID_REQUEST_LINE_BYTES];
	int err;

	if (f->nr_by_itself >= r->o.flight.most) {
		snapshot_refuse(r, why, "the limit of --on-count is reached");
		settle_guests(r);
		return 0;
	}
	/* A guest's end can't wait: what boots next clears its region. */
	if (cause == CAUSE_EVENT && is_held_off(r)) {
		snapshot_refuse(r, why, "the last snapshot was less than --hold-off ago");
		return 0;
	}
	f->reported_refusal = false;
	f->nr_by_itself++;
	snprintf(f->why, sizeof(f->why), "%s", why);
	err = next_name(r);
	if (!err)
		err = snapshot_begin(r, -1);
	keep_failure(err, line);
	settle_guests(r);
	if (err && !f->out) {	/* a full disk, a folder that went: the next may be better */
		say_result(r, err, line);
		err = 0;
	}
	return err;
}

/* Triggers may cause a snapshot again. */
static void arm_triggers(struct braid_recording *r)
{
	size_t k;

	if (is_held_off(r) || r->flight.nr_by_itself >= r->o.flight.most)
		return;
	for (k = 0; k < r->nr_guests; k++)
		if (braid_region_source_status(r->guests[k].source).held)
			braid_region_source_resume(r->guests[k].source, true, true);
}

int braid_record_poll_flight(struct braid_recording *r)
{
	struct braid_record_flight *f = &r->flight;
	struct braid_request request;
	char why[WHY_BYTES] = "", line[BRAID_REQUEST_LINE_BYTES];
	enum cause cause;
	int err;

	if (!r->o.flight.wanted)
		return 0;
	if (f->out)
		return clocks_known(r) || braid_host_clock_ns() >= f->deadline_ns ? snapshot_finish(r) : 0;
	if (!is_held_off(r))
		braid_tracefs_watch_again(f->host_watch);
	if (braid_request_poll(&f->requests, &request) > 0) {
		f->by_request = true;
		snprintf(f->path, sizeof(f->path), "%s", request.path);
		snprintf(f->why, sizeof(f->why), "on request");
		err = snapshot_begin(r, request.fd);
		keep_failure(err, line);
		settle_guests(r);
		if (!err || f->out)
			return err;
		say_result(r, err, line);
		return 0;
	}
	arm_triggers(r);
	cause = find_cause(r, why);
	err = cause ? take_by_itself(r, cause, why) : 0;
	if (cause)
		settle_triggers(r);
	return err;
}

void braid_record_close_flight(struct braid_recording *r)
{
	struct braid_record_flight *f = &r->flight;

	if (f->out)
		snapshot_finish(r);
	if (f->requests.fd >= 0)
		braid_request_answer(&f->requests, -EPIPE, "the flight recorder has ended");
	braid_request_close(&f->requests);
	braid_tracefs_watch_close(f->host_watch);
	f->host_watch = NULL;
}
