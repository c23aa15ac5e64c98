// SPDX-License-Identifier: GPL-2.0-or-later
/* The recording itself: polls all sources, sleeps as long as possible, stops on request. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/record/pace.h"
#include "host_agent/record/private.h"
#include "host_agent/transport/endpoint.h"
#include "host_agent/util/error.h"

#define SLEEP_MIN_NS	1000000ULL
#define SLEEP_MAX_NS	20000000ULL	/* a guest polls its mailbox as often, while our heartbeat
					   advances */
#define SHARE_NS	800000ULL	/* a guest at rest is polled this seldom for each guest ... */
#define REST_MAX_NS	80000000ULL	/* ... and not too seldom for our heartbeat */
#define LIVE_REST_NS	40000000ULL	/* ... nor for the viewer */
#define COPY_SHARE_NS	2000000ULL	/* likewise, where a poll reads another process' memory */
#define COPY_REST_NS	512000000ULL	/* (such a guest does not see our heartbeat) */
#define OTHERS_NS	100000000ULL	/* so long can wait what is no source of events */
#define ARM_LIMIT_NS	3000000000ULL
#define DISARM_LIMIT_NS	6000000000ULL	/* of slow guests; silent ones are given up before */
#define PROGRESS_MOST_NS	30000000000ULL	/* of guests that have many or long commands */
#define PROGRESS_NS	1000000000ULL
#define SECOND_NS	1000000000ULL

/*
 * How long an idle guest is not polled: many cost no more than few, and one that will ring is not
 * polled before.
 */
static u64 longest_rest_ns(const struct braid_recording *r, const struct braid_record_guest *guest)
{
	bool copied = braid_region_source_rest_ns(guest->source);
	u64 ns = r->nr_guests * (copied ? COPY_SHARE_NS : SHARE_NS);
	u64 most_ns = r->sink.prompt_ns ? LIVE_REST_NS : copied ? COPY_REST_NS : REST_MAX_NS;

	/* A guest rings for a share of its ring, but a viewer waits for each event. */
	if (ns >= most_ns || (braid_region_source_rings(guest->source) && !r->o.live.wanted))
		return most_ns;
	return ns < SLEEP_MAX_NS ? SLEEP_MAX_NS : ns;
}

/* Or nearly: so idle ones are polled together. */
static bool is_due(const struct braid_record_guest *guest, u64 now_ns)
{
	return guest->due_ns <= now_ns + guest->rest_ns / 8;
}

/* Reads what the polls of all due guests need: for all of them together, step by step. */
static void gather(struct braid_recording *r, u64 now_ns)
{
	bool more;
	size_t k;

	do {
		more = false;
		for (k = 0; k < r->nr_guests; k++)
			if (is_due(&r->guests[k], now_ns))
				more |= braid_region_source_gather(r->guests[k].source);
		braid_endpoint_fetch();
	} while (more);
}

/* Polls a guest if it is due. Returns enum braid_poll_result or the capture's error. */
static int poll_guest(struct braid_recording *r, struct braid_record_guest *guest, u64 now_ns)
{
	u64 longest_ns, shortest_ns;
	int ret;

	if (!is_due(guest, now_ns))
		return BRAID_POLL_IDLE;
	ret = braid_region_source_poll(guest->source);
	if (braid_region_source_status(guest->source).over) {
		guest->due_ns = ~0ULL;
		return ret;
	}
	longest_ns = longest_rest_ns(r, guest);
	shortest_ns = braid_region_source_rest_ns(guest->source);
	if (ret != BRAID_POLL_IDLE || guest->rest_ns < shortest_ns || !guest->rest_ns)
		guest->rest_ns = shortest_ns > SLEEP_MIN_NS ? shortest_ns : SLEEP_MIN_NS;
	else if (2 * guest->rest_ns <= longest_ns)
		guest->rest_ns *= 2;
	else if (!shortest_ns)
		guest->rest_ns = longest_ns;
	guest->due_ns = ret == BRAID_POLL_MORE ? 0 : now_ns + guest->rest_ns;
	if (shortest_ns)	/* so that guests whose memory is read are due together */
		guest->due_ns = (guest->due_ns + guest->rest_ns / 2) / guest->rest_ns *
				guest->rest_ns;
	return ret;
}

/* Followed live, no guest rests longer than the pace, which restarts with each event. */
static void loop_pace(struct braid_recording *r, u64 now_ns, bool busy)
{
	u64 most_ns = r->nr_guests * SHARE_NS, rest_ns;
	size_t k;

	if (!r->o.live.wanted)
		return;
	if (busy)
		r->flow_ns = now_ns;
	most_ns = most_ns > SLEEP_MAX_NS ? most_ns : SLEEP_MAX_NS;
	most_ns = most_ns < LIVE_REST_NS ? most_ns : LIVE_REST_NS;
	r->sink.prompt_ns = braid_pace_ns(now_ns - r->flow_ns, r->nr_guests, most_ns);
	for (k = 0; k < r->nr_guests; k++) {
		rest_ns = braid_region_source_rest_ns(r->guests[k].source);
		rest_ns = rest_ns > r->sink.prompt_ns ? rest_ns : r->sink.prompt_ns;
		if (r->guests[k].due_ns > now_ns + rest_ns && r->guests[k].due_ns != ~0ULL)
			r->guests[k].due_ns = now_ns + rest_ns;
	}
}

/* Polls all guests that are due. Returns enum braid_poll_result or the capture's error. */
static int poll_all(struct braid_recording *r)
{
	u64 before = braid_capture_bytes(braid_record_out(r)), now_ns = braid_host_clock_ns();
	int result = BRAID_POLL_IDLE, ret;
	size_t k;

	ret = braid_record_poll_domains(r);
	if (ret)
		return ret;
	if (r->kvm_watch)
		braid_kvm_watch_poll(r->kvm_watch);
	gather(r, now_ns);
	for (k = 0; k < r->nr_guests; k++) {
		ret = poll_guest(r, &r->guests[k], now_ns);
		if (ret < 0)
			return ret;
		result = ret > result ? ret : result;
	}
	loop_pace(r, now_ns, result != BRAID_POLL_IDLE);
	ret = braid_record_poll_agents(r);
	if (ret < 0)
		return ret;
	if (r->host_source) {
		ret = braid_tracefs_source_poll(r->host_source);
		if (ret < 0)
			return ret;
		result = ret > result ? ret : result;
	}
	ret = braid_record_poll_vms(r);
	if (!ret)
		ret = braid_record_poll_memories(r);
	if (!ret)
		ret = braid_sampler_turn(r->sampler, r->sink.capture, false);
	if (!ret)
		ret = braid_peers_turn(r->peers, r->sink.capture, false);
	if (!ret)
		ret = braid_declared_turn(&r->declared, r->sink.capture, false);
	if (!ret)
		ret = braid_record_mark_complete(r);
	if (ret)
		return ret;
	/*
	 * Rings' bytes are written already; other received data exists nowhere else until written.
	 */
	if (braid_capture_bytes(braid_record_out(r)) != before) {
		ret = braid_capture_flush(r->sink.capture);
		if (ret)
			return ret;
	}
	ret = braid_record_live_turn(r);
	return ret ? ret : result;
}

/* How long what is no guest can wait. A flight recorder and a viewer go on. */
static u64 others_rest_ns(const struct braid_recording *r)
{
	u64 ns = r->o.live.wanted ? r->sink.prompt_ns :
		 r->o.flight.wanted || r->sink.prompt_ns ? SLEEP_MAX_NS : OTHERS_NS, host_ns;
	u64 memories_ns = braid_record_memories_rest_ns(r);

	host_ns = r->host_source ? braid_tracefs_source_rest_ns(r->host_source) : ns;
	ns = host_ns < ns ? host_ns : ns;
	return memories_ns < ns ? memories_ns : ns;
}

/* How long no guest is due, but no longer than all others can wait. */
static u64 guests_rest_ns(const struct braid_recording *r)
{
	u64 now_ns = braid_host_clock_ns(), ns = others_rest_ns(r), left_ns;
	size_t k;

	for (k = 0; k < r->nr_guests; k++) {
		left_ns = r->guests[k].due_ns > now_ns ? r->guests[k].due_ns - now_ns : 0;
		ns = left_ns < ns ? left_ns : ns;
	}
	return r->nr_guests ? ns : 0;
}

static u64 time_left_ns(const struct braid_recording *r)
{
	u64 spent_ns = braid_host_clock_ns() - r->start_ns, all_ns = r->o.seconds * SECOND_NS;

	return spent_ns < all_ns ? all_ns - spent_ns : 0;
}

/*
 * Listens to what can wake us. A guest that just rang is ignored for a short time, so that constant
 * ringing does not keep us awake; *ns is shortened accordingly.
 */
static void listen_to_guests(struct braid_recording *r, u64 *ns)
{
	struct pollfd fds[BRAID_ENDPOINT_FDS];
	u64 now_ns = braid_host_clock_ns();
	size_t k, nr;

	for (k = 0; k < r->nr_guests; k++) {
		struct braid_record_guest *guest = &r->guests[k];

		if (now_ns - guest->active_ns < SLEEP_MIN_NS) {
			*ns = *ns < SLEEP_MIN_NS ? *ns : SLEEP_MIN_NS;
			continue;
		}
		nr = braid_region_source_fds(guest->source, fds);
		braid_wait_for_guest(&r->wait, &guest->wait, k, fds, nr);
	}
}

/* Watch a descriptor only while someone reads it; otherwise epoll spins. */
static void listen_to_others(struct braid_recording *r)
{
	bool runs = r->start_ns && !r->end_ns;

	braid_wait_for(&r->wait, BRAID_WAIT_SIGNAL, r->signal_fd);
	braid_wait_for(&r->wait, BRAID_WAIT_DOMAINS, r->watch.fd);
	braid_wait_for(&r->wait, BRAID_WAIT_AGENT, r->agents.process.fd);
	braid_wait_for(&r->wait, BRAID_WAIT_CHILD, runs ? r->command.pidfd : -1);
	braid_wait_for(&r->wait, BRAID_WAIT_VIEWER, runs ? r->viewer.pidfd : -1);
	/* During a snapshot new requests wait. */
	braid_wait_for(&r->wait, BRAID_WAIT_REQUEST,
		       runs && !r->flight.out ? braid_request_fd(&r->flight.requests) : -1);
}

/* Guests that rang, or have a message, are due. */
static void heed_guests(struct braid_recording *r, const struct braid_woke *woke)
{
	u64 now_ns = braid_host_clock_ns();
	u32 k;

	for (k = 0; k < woke->nr_guests; k++) {
		struct braid_record_guest *guest = &r->guests[woke->guests[k]];

		guest->due_ns = 0;
		guest->active_ns = now_ns;
		braid_wait_forget(&guest->wait);
	}
}

/*
 * Sleeps if possible, until the next turn is due or something happens. Returns true on a request to
 * stop.
 */
static bool rest(struct braid_recording *r, int result, u64 *sleep_ns, struct braid_woke *woke)
{
	struct signalfd_siginfo info;
	u64 ns;

	if (result == BRAID_POLL_BUSY || result == BRAID_POLL_MORE)
		*sleep_ns = SLEEP_MIN_NS;
	else if (*sleep_ns < SLEEP_MAX_NS)
		*sleep_ns = 2 * *sleep_ns < SLEEP_MAX_NS ? 2 * *sleep_ns : SLEEP_MAX_NS;
	if (r->o.live.wanted && *sleep_ns > r->sink.prompt_ns)
		*sleep_ns = r->sink.prompt_ns;
	if (r->viewer.mark.bytes)	/* it is sent once all before it is written */
		*sleep_ns = SLEEP_MIN_NS;
	ns = guests_rest_ns(r);
	ns = ns > *sleep_ns ? ns : *sleep_ns;
	listen_to_guests(r, &ns);
	listen_to_others(r);
	if (result != BRAID_POLL_MORE)
		braid_wait_timer(&r->wait, BRAID_WAIT_TICK, ns, 0);
	braid_wait(&r->wait, result != BRAID_POLL_MORE, woke);
	heed_guests(r, woke);
	if (!braid_woke_by(woke, BRAID_WAIT_SIGNAL) ||
	    read(r->signal_fd, &info, sizeof(info)) != sizeof(info))
		return false;
	r->rotation.asked |= info.ssi_signo == SIGUSR1;
	return info.ssi_signo != SIGUSR1;
}

/* All guests are gone, and none can return. */
static bool all_gone(const struct braid_recording *r)
{
	size_t k;

	for (k = 0; k < r->nr_guests; k++)
		if (braid_region_source_status(r->guests[k].source).phase != BRAID_PHASE_GONE)
			return false;
	return (r->nr_guests || braid_record_expects(r)) && r->watch.fd < 0;
}

static bool is_over(struct braid_recording *r)
{
	if (!all_gone(r)) {
		r->memories.gone_ns = 0;
		return false;
	}
	/* A recording in many files is one that goes on: other guests will come. */
	if (r->rotation.out && r->o.domains.all)
		return false;
	return !r->command.argv && !braid_record_awaits_moved(r);
}

/* The timer's clock is corrected while it runs; the recording's is not. */
static bool time_is_up(struct braid_recording *r, const struct braid_woke *woke)
{
	u64 left_ns;

	if (!braid_woke_by(woke, BRAID_WAIT_END))
		return false;
	left_ns = time_left_ns(r);
	if (left_ns)
		braid_wait_timer(&r->wait, BRAID_WAIT_END, left_ns, 0);
	return !left_ns;
}

static bool all_armed(const struct braid_recording *r)
{
	size_t k;

	for (k = 0; k < r->nr_guests; k++)
		if (!braid_region_source_status(r->guests[k].source).armed)
			return false;
	return !braid_record_asks_agents(r);
}

static bool all_disarmed(const struct braid_recording *r)
{
	size_t k;

	for (k = 0; k < r->nr_guests; k++)
		if (!braid_region_source_status(r->guests[k].source).disarmed)
			return false;
	return true;
}

static void report_waiting(struct braid_recording *r)
{
	size_t k;

	for (k = 0; k < r->nr_guests; k++) {
		struct braid_record_guest *guest = &r->guests[k];

		if (braid_region_source_status(guest->source).phase == BRAID_PHASE_WAITING &&
		    !guest->reported_waiting && !r->o.quiet)
			braid_record_say(r, guest->name, "waiting for the driver in %s", guest->path);
		guest->reported_waiting = true;
	}
}

/* Whether guests are waited for: one makes progress, and not all has taken too long. */
static bool loop_waits(const struct braid_recording *r, u64 start_ns, u64 limit_ns)
{
	u64 progress_ns = start_ns, now_ns;
	size_t k;

	for (k = 0; k < r->nr_guests; k++) {
		u64 ns = braid_region_source_status(r->guests[k].source).progress_ns;

		progress_ns = ns > progress_ns ? ns : progress_ns;
	}
	now_ns = braid_host_clock_ns();
	return now_ns - progress_ns < limit_ns && now_ns - start_ns < PROGRESS_MOST_NS;
}

/* Until every guest has its events on: what runs now is to be seen by all. */
static int arm(struct braid_recording *r, bool *stop)
{
	u64 start_ns = braid_host_clock_ns();
	u64 sleep_ns = SLEEP_MIN_NS;
	struct braid_woke woke;
	int ret;

	do {
		ret = poll_all(r);
		if (ret < 0)
			return ret;
		*stop = rest(r, ret, &sleep_ns, &woke);
	} while (!*stop && !all_armed(r) && loop_waits(r, start_ns, ARM_LIMIT_NS));
	return 0;
}

static int put_edge(struct braid_recording *r, enum braid_window_edge edge, u64 host_ns)
{
	struct braid_chunk_window window = { .edge = edge, .host_ns = host_ns };

	if (r->o.flight.wanted)	/* a snapshot has all events */
		return 0;
	return braid_capture_put(r->sink.capture, BRAID_CHUNK_WINDOW, 0, &window, sizeof(window),
				 NULL, 0);
}

/* The recording starts: what happens from here on is in the capture. */
static int loop_start(struct braid_recording *r)
{
	size_t k;
	int err = 0;

	/* First, since it may wait for long: the kernel has one lock for all tracing instances. */
	if (r->host_source && !r->o.flight.wanted)
		err = braid_tracefs_source_on(r->host_source);
	if (err)
		return err;
	r->start_ns = braid_host_clock_ns();
	err = put_edge(r, BRAID_WINDOW_START, r->start_ns);
	for (k = 0; k < r->nr_guests; k++)
		braid_region_source_start(r->guests[k].source);
	if (!err)
		err = braid_record_poll_vms(r);
	if (!err && r->host_source && !r->o.flight.wanted)
		err = braid_tracefs_source_name_tasks(r->host_source);
	return err;
}

static void set_timers(struct braid_recording *r)
{
	u64 left_ns = time_left_ns(r);

	if (r->o.seconds > 0)
		braid_wait_timer(&r->wait, BRAID_WAIT_END, left_ns ? left_ns : 1, 0);
	braid_wait_timer(&r->wait, BRAID_WAIT_PROGRESS, PROGRESS_NS, PROGRESS_NS);
}

/* And stops: what happens from here on is not. */
static int loop_stop(struct braid_recording *r)
{
	size_t k;

	if (r->host_source && !r->o.flight.wanted)
		braid_tracefs_source_off(r->host_source);
	for (k = 0; k < r->nr_guests; k++)
		braid_region_source_stop(r->guests[k].source);
	r->end_ns = braid_host_clock_ns();
	return put_edge(r, BRAID_WINDOW_STOP, r->end_ns);
}

static int record(struct braid_recording *r)
{
	struct braid_woke woke = { 0 };
	u64 sleep_ns = SLEEP_MIN_NS;
	int ret, err = 0;

	for (;;) {
		ret = poll_all(r);
		if (ret >= 0)
			err = braid_record_poll_flight(r) ?: braid_record_poll_rotation(r);
		if (ret < 0 || err)
			return ret < 0 ? ret : err;
		if (braid_record_poll_triggers(r) || time_is_up(r, &woke) ||
		    braid_child_ended(&r->command) || braid_record_live_gone(r))
			return 0;
		if (is_over(r)) {
			braid_record_say(r, NULL, "all guests are gone");
			return 0;
		}
		if (braid_woke_by(&woke, BRAID_WAIT_PROGRESS))
			r->ops->progress(r->arg, r);
		if (rest(r, ret, &sleep_ns, &woke))
			return 0;
	}
}

static int disarm(struct braid_recording *r)
{
	u64 start_ns = braid_host_clock_ns();
	u64 sleep_ns = SLEEP_MIN_NS;
	struct braid_woke woke;
	size_t k;
	int ret;

	for (k = 0; k < r->nr_guests; k++) {
		braid_region_source_disarm(r->guests[k].source);
		r->guests[k].due_ns = 0;
	}
	while (!all_disarmed(r) && loop_waits(r, start_ns, DISARM_LIMIT_NS)) {
		ret = poll_all(r);
		if (ret < 0)
			return ret;
		if (rest(r, ret, &sleep_ns, &woke))	/* second request: at once */
			break;
	}
	return 0;
}

static int loop_finish(struct braid_recording *r)
{
	int err = 0;
	size_t k;

	if (r->host_source)
		err = braid_tracefs_source_finish(r->host_source);
	for (k = 0; k < r->nr_guests && !err; k++)
		err = braid_region_source_finish(r->guests[k].source);
	if (!err)
		err = braid_record_finish_vms(r);
	/* After the last event, so that no clock must be extrapolated there. */
	if (!err)
		err = braid_sampler_turn(r->sampler, r->sink.capture, true);
	if (!err)
		err = braid_declared_turn(&r->declared, r->sink.capture, true);
	return err ? err : braid_peers_turn(r->peers, r->sink.capture, true);
}

int braid_record_run(struct braid_recording *r)
{
	bool ended = false;
	int err = arm(r, &ended);

	if (!err)
		err = loop_start(r);
	/* Triggers: what led to one that fires is in the capture, and none misses the command. */
	if (!err && !ended && r->o.nr_triggers)
		err = arm(r, &ended);
	if (!err)
		set_timers(r);
	if (!err && !ended && r->command.argv)
		err = braid_child_start(&r->command);
	/* The start can't fail any more: a former capture of that name may be replaced. */
	if (!err)
		err = braid_capture_publish(braid_record_out(r));
	if (err)
		return err;
	report_waiting(r);
	r->ops->started(r->arg, r);
	if (!ended)
		err = record(r);
	if (!err)
		err = loop_stop(r);
	if (!err)
		err = disarm(r);
	if (!err)
		err = loop_finish(r);
	return err;
}
