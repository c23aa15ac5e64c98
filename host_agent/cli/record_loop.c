// SPDX-License-Identifier: GPL-2.0-or-later
/* The recording itself: polls all sources, sleeps as long as it may, stops when told. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "host_agent/cli/record.h"
#include "host_agent/clock/host.h"
#include "host_agent/util/error.h"

#define SLEEP_MIN_NS	1000000ULL
#define SLEEP_MAX_NS	20000000ULL	/* a guest looks at its mailbox as often, while we move */
#define SHARE_NS	200000ULL	/* a guest at rest is polled this seldom for each guest ... */
#define REST_MAX_NS	80000000ULL	/* ... and not too seldom for our heartbeat */
#define LIVE_REST_NS	40000000ULL	/* ... nor for who looks on */
#define ARM_LIMIT_NS	3000000000ULL
#define DISARM_LIMIT_NS	2500000000ULL
#define PROGRESS_NS	1000000000ULL
#define SECOND_NS	1000000000ULL

/*
 * How long a guest may be left alone that has nothing for us: many cost no more than few, and
 * who is going to ring is not looked at before.
 */
static u64 longest_rest_ns(const struct braid_recording *r, const struct braid_record_guest *guest)
{
	u64 ns = r->nr_guests * SHARE_NS, most_ns = r->live.wanted ? LIVE_REST_NS : REST_MAX_NS;

	if (ns >= most_ns || braid_region_source_rings(guest->source))
		return most_ns;
	return ns < SLEEP_MAX_NS ? SLEEP_MAX_NS : ns;
}

/*
 * Polls a guest if it is due, or nearly: those at rest come to be polled together. Returns
 * enum braid_poll_result or the capture's error.
 */
static int poll_guest(struct braid_recording *r, struct braid_record_guest *guest, u64 now_ns)
{
	u64 longest_ns;
	int ret;

	if (guest->due_ns > now_ns + guest->rest_ns / 8)
		return BRAID_POLL_IDLE;
	ret = braid_region_source_poll(guest->source);
	longest_ns = longest_rest_ns(r, guest);
	if (ret != BRAID_POLL_IDLE || !guest->rest_ns)
		guest->rest_ns = SLEEP_MIN_NS;
	else
		guest->rest_ns = 2 * guest->rest_ns < longest_ns ? 2 * guest->rest_ns : longest_ns;
	guest->due_ns = ret == BRAID_POLL_MORE ? 0 : now_ns + guest->rest_ns;
	return ret;
}

/* Polls everybody who is due. Returns enum braid_poll_result or the capture's error. */
static int poll_all(struct braid_recording *r)
{
	u64 before = braid_capture_bytes(r->sink.capture), now_ns = braid_host_clock_ns();
	int result = BRAID_POLL_IDLE, ret;
	size_t k;

	ret = braid_record_poll_domains(r);
	if (ret)
		return ret;
	if (r->kvm_watch)
		braid_kvm_watch_poll(r->kvm_watch);
	for (k = 0; k < r->nr_guests; k++) {
		ret = poll_guest(r, &r->guests[k], now_ns);
		if (ret < 0)
			return ret;
		result = ret > result ? ret : result;
	}
	if (r->host_source) {
		ret = braid_tracefs_source_poll(r->host_source);
		if (ret < 0)
			return ret;
		result = ret > result ? ret : result;
	}
	ret = braid_sampler_turn(r->sampler, r->sink.capture, false);
	if (ret)
		return ret;
	/* Rings' bytes are written already; what else was taken in is nowhere else until it is. */
	if (braid_capture_bytes(r->sink.capture) != before) {
		ret = braid_capture_flush(r->sink.capture);
		if (ret)
			return ret;
	}
	ret = braid_record_live_turn(r);
	return ret ? ret : result;
}

/* Who has rung, or has a message, is due. */
static void heed_ports(struct braid_recording *r)
{
	u64 now_ns = braid_host_clock_ns();
	size_t k, i, nr, at = BRAID_LOOP_FDS;

	for (k = 0; k < r->nr_guests; k++) {
		nr = r->guests[k].nr_fds;
		for (i = 0; i < nr; i++) {
			if (!r->fds[at + i].revents)
				continue;
			r->guests[k].due_ns = 0;
			r->guests[k].heard_ns = now_ns;
		}
		at += nr;
	}
}

/*
 * What the guests' ports want watched, behind the @nr that are there: returns how many there are
 * then. Who was just heard is not listened to for a moment: ringing all the time keeps nobody
 * awake. *ns is shortened to that.
 */
static size_t watch_ports(struct braid_recording *r, size_t nr, u64 *ns)
{
	u64 now_ns = braid_host_clock_ns();
	size_t k;

	for (k = 0; k < r->nr_guests; k++) {
		struct braid_record_guest *guest = &r->guests[k];

		guest->nr_fds = 0;
		if (now_ns - guest->heard_ns < SLEEP_MIN_NS)
			*ns = *ns < SLEEP_MIN_NS ? *ns : SLEEP_MIN_NS;
		else
			guest->nr_fds = braid_region_source_fds(guest->source, &r->fds[nr]);
		nr += guest->nr_fds;
	}
	return nr;
}

static u64 time_left_ns(const struct braid_recording *r)
{
	u64 spent_ns = braid_host_clock_ns() - r->start_ns, all_ns = r->seconds * SECOND_NS;

	return spent_ns < all_ns ? all_ns - spent_ns : 0;
}

/* Sleeps, or not. Returns true when told to stop; early also at the command's end. */
static bool rest(struct braid_recording *r, int result, u64 *sleep_ns)
{
	struct signalfd_siginfo info;
	struct timespec t = { 0 };
	u64 ns = 0;
	size_t nr;

	r->fds[0] = (struct pollfd){ .fd = r->signal_fd, .events = POLLIN };
	r->fds[1] = (struct pollfd){ .fd = r->child.pidfd, .events = POLLIN };
	r->fds[2] = (struct pollfd){ .fd = -1, .events = POLLIN };
	if (!r->flight.out)	/* who asks meanwhile waits */
		r->fds[2].fd = braid_request_fd(&r->flight.requests);

	if (result == BRAID_POLL_BUSY || result == BRAID_POLL_MORE)
		*sleep_ns = SLEEP_MIN_NS;
	else if (*sleep_ns < SLEEP_MAX_NS)
		*sleep_ns = 2 * *sleep_ns < SLEEP_MAX_NS ? 2 * *sleep_ns : SLEEP_MAX_NS;
	if (result != BRAID_POLL_MORE)
		ns = *sleep_ns;
	nr = watch_ports(r, BRAID_LOOP_FDS, &ns);
	if (r->seconds > 0 && r->start_ns && !r->end_ns && ns > time_left_ns(r))
		ns = time_left_ns(r);
	t.tv_nsec = ns;
	if (ppoll(r->fds, nr, &t, NULL) <= 0)
		return false;
	heed_ports(r);
	return r->fds[0].revents &&
	       read(r->signal_fd, &info, sizeof(info)) == sizeof(info);
}

/* Every guest has gone, there was one, and nobody tells of its return. */
static bool all_gone(const struct braid_recording *r)
{
	struct braid_region_status status;
	size_t k;

	for (k = 0; k < r->nr_guests; k++) {
		braid_region_source_status(r->guests[k].source, &status);
		if (status.phase != BRAID_PHASE_GONE)
			return false;
	}
	return (r->nr_guests || braid_record_expects(r)) && r->domains.watch.fd < 0;
}

static bool time_is_up(const struct braid_recording *r)
{
	return r->seconds > 0 && !time_left_ns(r);
}

static bool all_armed(const struct braid_recording *r)
{
	struct braid_region_status status;
	size_t k;

	for (k = 0; k < r->nr_guests; k++) {
		braid_region_source_status(r->guests[k].source, &status);
		if (!status.armed)
			return false;
	}
	return true;
}

static bool all_disarmed(const struct braid_recording *r)
{
	struct braid_region_status status;
	size_t k;

	for (k = 0; k < r->nr_guests; k++) {
		braid_region_source_status(r->guests[k].source, &status);
		if (!status.disarmed)
			return false;
	}
	return true;
}

static void tell_who_waits(struct braid_recording *r)
{
	struct braid_region_status status;
	size_t k;

	for (k = 0; k < r->nr_guests; k++) {
		braid_region_source_status(r->guests[k].source, &status);
		if (status.phase == BRAID_PHASE_WAITING && !r->guests[k].told_waiting && !r->quiet)
			braid_record_say(r, r->guests[k].name, "waiting for the driver in %s",
					 r->guests[k].path);
		r->guests[k].told_waiting = true;
	}
}

/* Until every guest has its events on: what runs now is to be seen by all. */
static int arm(struct braid_recording *r, bool *stop)
{
	u64 start_ns = braid_host_clock_ns(), sleep_ns = SLEEP_MIN_NS;
	int ret;

	do {
		ret = poll_all(r);
		if (ret < 0)
			return ret;
		*stop = rest(r, ret, &sleep_ns);
	} while (!*stop && !all_armed(r) && braid_host_clock_ns() - start_ns < ARM_LIMIT_NS);
	return 0;
}

static int put_edge(struct braid_recording *r, enum braid_window_edge edge, u64 host_ns)
{
	struct braid_chunk_window window = { .edge = edge, .host_ns = host_ns };

	if (r->flight.wanted)	/* a snapshot has all there is */
		return 0;
	return braid_capture_put(r->sink.capture, BRAID_CHUNK_WINDOW, 0, &window, sizeof(window),
				 NULL, 0);
}

/* The recording starts: what happens from here on is in the capture. */
static int start(struct braid_recording *r)
{
	size_t k;
	int err;

	r->start_ns = r->last_progress_ns = braid_host_clock_ns();
	err = put_edge(r, BRAID_WINDOW_START, r->start_ns);
	for (k = 0; k < r->nr_guests; k++)
		braid_region_source_start(r->guests[k].source);
	if (!err && r->host_source && !r->flight.wanted)
		err = braid_tracefs_source_on(r->host_source);
	return err;
}

/* And stops: what happens from here on is not. */
static int stop(struct braid_recording *r)
{
	size_t k;

	if (r->host_source && !r->flight.wanted)
		braid_tracefs_source_off(r->host_source);
	for (k = 0; k < r->nr_guests; k++)
		braid_region_source_stop(r->guests[k].source);
	r->end_ns = braid_host_clock_ns();
	return put_edge(r, BRAID_WINDOW_STOP, r->end_ns);
}

static int record(struct braid_recording *r)
{
	u64 sleep_ns = SLEEP_MIN_NS;
	int ret, err = 0;

	for (;;) {
		ret = poll_all(r);
		if (ret >= 0)
			err = braid_record_poll_flight(r);
		if (ret < 0 || err)
			return ret < 0 ? ret : err;
		if (time_is_up(r) || braid_child_ended(&r->child) || braid_record_live_gone(r))
			return 0;
		if (all_gone(r) && !r->child.argv) {
			braid_record_say(r, NULL, "all guests have gone");
			return 0;
		}
		if (braid_host_clock_ns() - r->last_progress_ns >= PROGRESS_NS)
			braid_record_progress(r);
		if (rest(r, ret, &sleep_ns))
			return 0;
	}
}

static int disarm(struct braid_recording *r)
{
	u64 start_ns = braid_host_clock_ns(), sleep_ns = SLEEP_MIN_NS;
	size_t k;
	int ret;

	for (k = 0; k < r->nr_guests; k++) {
		braid_region_source_disarm(r->guests[k].source);
		r->guests[k].due_ns = 0;
	}
	while (!all_disarmed(r) && braid_host_clock_ns() - start_ns < DISARM_LIMIT_NS) {
		ret = poll_all(r);
		if (ret < 0)
			return ret;
		if (rest(r, ret, &sleep_ns))	/* told once more: at once */
			break;
	}
	return 0;
}

static int finish(struct braid_recording *r)
{
	int err = 0;
	size_t k;

	if (r->host_source)
		err = braid_tracefs_source_finish(r->host_source);
	for (k = 0; k < r->nr_guests && !err; k++)
		err = braid_region_source_finish(r->guests[k].source);
	/* Behind the last event: no clock is to be guessed there. */
	return err ? err : braid_sampler_turn(r->sampler, r->sink.capture, true);
}

int braid_record_run(struct braid_recording *r)
{
	bool told = false;
	int err = arm(r, &told);

	if (!err)
		err = start(r);
	if (!err && !told && r->child.argv)
		err = braid_child_start(&r->child);
	/* Nothing of the start can fail any more: a former capture of that name may go. */
	if (!err)
		err = braid_capture_publish(r->sink.capture);
	if (err)
		return err;
	tell_who_waits(r);
	braid_record_start_line(r);
	if (!told)
		err = record(r);
	if (!err)
		err = stop(r);
	if (!err)
		err = disarm(r);
	if (!err)
		err = finish(r);
	return err;
}

int braid_record_check_buffer(const struct braid_recording *r)
{
	struct braid_region_status status;
	bool known = false;
	size_t k;

	for (k = 0; k < r->nr_guests && r->buffer; k++) {
		braid_region_source_status(r->guests[k].source, &status);
		if (status.nr_streams && !status.no_buffer)
			return 0;
		known |= status.no_buffer;
	}
	if (!known)
		return 0;
	return braid_fail(-ENOENT, "no buffer '%s' appeared; 'tracebraid stat' lists all", r->buffer);
}
