// SPDX-License-Identifier: GPL-2.0-or-later
/* The life of a recorded guest: waiting, recording, down, gone, and back again. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/discover/discover.h"
#include "host_agent/live/region_private.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

#define RETRY_NS	20000000ULL	/* interval between checks for a file or a driver */
#define BROKEN_RETRY_NS	1000000000ULL	/* likewise, for a file that can't be a region */
#define CHANGE_NS	15000000ULL	/* longer than that its buffers are not changed: it died */
#define GIVE_BACK_NS	700000000ULL	/* a guest is promised its memory within a second */
#define FILE_CHECK_NS	1000000000ULL
#define CLOSE_STEP_NS	1000000ULL

/* Finds the QEMU that maps the region, and a file descriptor that signals its end. */
static void watch_qemu(struct braid_region_source *s)
{
	const struct braid_mapping *m = s->stream.mapping;

	s->stream.qemu_pid = m->qemu_pid ? m->qemu_pid : braid_qemu_of(m->device, m->inode);
	if (s->stream.qemu_pid)
		s->qemu_pidfd = syscall(SYS_pidfd_open, s->stream.qemu_pid, 0);
}

static bool qemu_ended(const struct braid_region_source *s)
{
	struct pollfd p = { .fd = s->qemu_pidfd, .events = POLLIN };

	return s->qemu_pidfd >= 0 && poll(&p, 1, 0) > 0;
}

static void close_mapping(struct braid_region_source *s)
{
	braid_live_clock_end(&s->clock, &s->stream);
	if (s->qemu_pidfd >= 0)
		close(s->qemu_pidfd);
	s->qemu_pidfd = -1;
	s->stream.qemu_pid = 0;
	if (s->stream.mapping)
		braid_endpoint_leave(s->endpoint);
	braid_mapping_close(s->stream.mapping);
	s->stream.mapping = NULL;
}

/* Streams ---------------------------------------------------------------------------- */

static int begin_stream(void *arg)
{
	struct braid_region_source *s = arg;
	int err;

	err = braid_live_tables_reset(&s->tables, &s->stream);
	if (!err)
		err = braid_live_tables_send(&s->tables, &s->stream, true);
	if (!err)
		err = braid_live_attach(&s->rings, &s->stream, !s->stream.o.flight);
	if (!err && s->stream.o.flight)
		err = braid_live_flight_begin(s);
	if (!err && s->stream.started && !s->stream.o.backlog &&
	    s->stream.sb.incarnation == s->old_incarnation)
		braid_live_mark_start(&s->rings, &s->stream);
	return err;
}

/* Handles a failure of the region while it was drained: decides how to continue. */
static int handle_loss(struct braid_region_source *s, int err)
{
	const char *gone = s->stream.mapping->gone;
	int failed;

	if (s->stream.fatal)
		return s->stream.fatal;
	if (err == -ESTALE && !gone) {
		/* The capture has it in the stream's end, and a reboot in the next stream. */
		if (s->stream.o.say)
			s->stream.o.say(s->stream.o.say_arg, s->stream.name,
					"the driver restarted, or the region was overwritten");
		failed = braid_live_cut(s, BRAID_PHASE_WAITING, BRAID_END_REINIT);
	} else {
		failed = braid_live_note(&s->stream, "%s", gone ? gone : braid_failure());
		if (!failed)
			failed = braid_live_cut(s, BRAID_PHASE_GONE, BRAID_END_GONE);
		if (gone)
			s->ended_incarnation = 0;	/* as in go_on_to_end() */
		s->phase = BRAID_PHASE_GONE;	/* also when the capture failed: no mapping */
		close_mapping(s);
	}
	return failed;
}

/* What is only read can't be asked for events: what to do in the guest. */
static int note_one_way(struct braid_region_source *s)
{
	const struct braid_pattern *first = s->stream.o.nr_patterns ? s->stream.o.patterns : NULL;

	if (first && s->stream.o.asked_elsewhere)
		return 0;
	if (!first)
		return braid_live_note(&s->stream, "its memory is only read: recorded are the events that are enabled in the guest");
	return braid_live_note(&s->stream, "its memory is only read, so no event can be enabled from here; those that the guest enables are recorded: 'modprobe tracebraid events=%s%s%s', or tracebraid-select",
			       first->system, *first->event ? ":" : "", first->event);
}

static int start_stream(struct braid_region_source *s)
{
	u64 start_ns = braid_live_cpu_ns();
	int err;

	s->phase = BRAID_PHASE_RECORDING;
	s->stream.silent = s->stream.o.dead_ns;
	s->stream.number = s->stream.o.sink->next_stream++;
	s->nr_streams++;
	err = braid_live_put_stream(&s->stream);
	if (!s->begun_ns)
		s->begun_ns = s->stream.found_ns;
	if (err)
		return err;
	err = braid_live_control_begin(&s->control, &s->stream) ?:
	      braid_live_filters_note_unused(&s->stream) ?:
	      s->stream.mapping->one_way ? note_one_way(s) : 0;
	if (err)
		return err;
	err = braid_live_guard(&s->stream, begin_stream, s);
	s->end.begin_cost_ns = braid_live_cpu_ns() - start_ns;
	if (err)
		return handle_loss(s, err);
	if (s->stream.o.dead_ns)
		return 0;
	if (s->qemu_pidfd < 0)
		watch_qemu(s);
	err = braid_live_clock_begin(&s->clock, &s->stream);
	if (!err)
		err = braid_live_threads_begin(&s->threads, &s->stream);
	return err ? s->stream.fatal = err : 0;
}

/* -errno with braid_fail(). */
static int open_mapping(struct braid_region_source *s)
{
	return s->stream.mapping ? 0 : braid_endpoint_map(s->endpoint, &s->stream.mapping);
}

/* Identifies the region between two turns of others: never sleeps. -errno with braid_fail(). */
static int identify(struct braid_region_source *s, u64 now_ns, struct braid_superblock *sb)
{
	int err = open_mapping(s);

	if (err)
		return err;
	err = braid_mapping_probe(s->stream.mapping, sb,
				  s->changing_ns && now_ns - s->changing_ns >= CHANGE_NS);
	if (err != -EINPROGRESS)
		s->changing_ns = 0;
	else if (!s->changing_ns)
		s->changing_ns = now_ns;
	if (err == -EBADMSG)
		s->retry_due_ns = now_ns + BROKEN_RETRY_NS;
	return err;
}

/* A guest that unmapped its region still runs. */
static enum braid_region_phase phase_without(const struct braid_mapping *m)
{
	return m->taken_back ? BRAID_PHASE_DOWN : BRAID_PHASE_GONE;
}

/* For the user; and for the capture, as long as no stream was ended. */
static int note_between(struct braid_region_source *s, const char *line)
{
	if (!s->nr_streams)
		return braid_live_note(&s->stream, "%s", line);
	if (s->stream.o.say)
		s->stream.o.say(s->stream.o.say_arg, s->stream.name, line);
	return 0;
}

/* WAITING, DOWN, GONE: checks for a driver. Only errors of the capture are fatal. */
static int try_start(struct braid_region_source *s)
{
	u64 now_ns = braid_host_clock_ns();
	struct braid_superblock sb;
	int err;

	if (s->stream.stopped ||
	    (now_ns < s->retry_due_ns && !(s->stream.mapping && s->stream.mapping->gone)))
		return 0;
	s->retry_due_ns = now_ns + RETRY_NS;
	if (s->stream.mapping && braid_mapping_gone(s->stream.mapping)) {
		if (s->phase == BRAID_PHASE_WAITING && !s->nr_streams)
			braid_live_note(&s->stream, "%s", braid_mapping_gone(s->stream.mapping));
		s->phase = phase_without(s->stream.mapping);
		close_mapping(s);
	}
	if (s->stream.mapping && qemu_ended(s))
		s->phase = BRAID_PHASE_GONE;
	err = identify(s, now_ns, &sb);
	if (err == -ESRCH)	/* its VMM: another process may have the number later */
		s->over = true;
	if (s->over || (err == -ENOTCONN && s->phase == BRAID_PHASE_DOWN))
		s->phase = BRAID_PHASE_GONE;
	if (err == -EFAULT)
		close_mapping(s);
	if ((err == -EPERM || err == -ESTALE) && !s->refused) {
		s->refused = true;
		note_between(s, braid_failure());
	}
	if (err || sb.incarnation == s->ended_incarnation)
		return 0;
	if (qemu_ended(s)) {
		close(s->qemu_pidfd);
		s->qemu_pidfd = -1;
	}
	s->stream.sb = sb;
	return start_stream(s);
}

/* Work --------------------------------------------------------------------------------- */

/* Returns 0 or the capture's error. */
static int heartbeat(struct braid_region_source *s)
{
	int ret = braid_live_heartbeat(&s->control, &s->stream);

	if (ret > 0)
		braid_live_clock_soon(&s->clock, &s->stream);	/* not asked meanwhile */
	return ret < 0 ? ret : 0;
}

/* Returns 0 or -ESTALE, or the capture's error. */
static int poll_control(struct braid_region_source *s)
{
	/* Events that come after the first load of the directory are noticed. */
	bool ready = s->tables.directory_read && braid_live_clock_ready(&s->clock, &s->stream);
	return braid_live_control_poll(&s->control, &s->stream, s->endpoint, ready);
}

/* Sends new entries of the tables. Returns 0, -ESTALE or the capture's error. */
static int send_tables(struct braid_region_source *s)
{
	int err = braid_live_tables_send(&s->tables, &s->stream, false);

	s->control.more_events |= s->tables.more_events;
	s->tables.more_events = false;
	return err;
}

/* With the result of a turn's drain: asks the guest to wake us, or not to. Returns the result. */
static int wake(struct braid_region_source *s, int result)
{
	if (!braid_live_wake(&s->control, &s->stream, braid_endpoint_doorbell(s->endpoint),
			     result == BRAID_POLL_IDLE))
		return result;
	braid_live_drain_again(&s->rings);	/* for events in between */
	return BRAID_POLL_BUSY;
}

/* One turn, under the guard. Returns enum braid_poll_result, -ESTALE or the capture's error. */
static int work(void *arg)
{
	struct braid_region_source *s = arg;
	int err, result;

	if (!braid_mapping_same(s->stream.mapping, s->stream.sb.incarnation))
		return -ESTALE;
	/* Also when it is down: a driver that is reloaded waits for us. */
	braid_live_beat(&s->stream);
	s->stream.down = braid_mapping_state(s->stream.mapping) == BRAID_STATE_DOWN;
	if (!s->stream.down && !s->stream.o.dead_ns) {
		err = braid_live_clock_take_poll(&s->clock, &s->stream);
		if (!err)
			err = braid_live_clock_pair(&s->clock, &s->stream, false);
		if (!err)
			err = heartbeat(s);
		if (!err)
			err = poll_control(s);
		/* A driver that went down: handled in the next turn. */
		if (err == -ESTALE &&
		    braid_mapping_same(s->stream.mapping, s->stream.sb.incarnation))
			return BRAID_POLL_IDLE;
		if (err)
			return err;
	}
	err = braid_live_buffers(&s->rings, &s->stream, false);
	if (err)
		return err == -EAGAIN ? BRAID_POLL_BUSY : err;
	err = send_tables(s);
	if (!err)
		err = braid_live_ring_roles(&s->rings, &s->stream, false);
	if (!err)
		err = s->stream.o.flight ? braid_live_watch_poll(&s->watch, &s->stream) :
					   braid_live_drain(&s->rings, &s->stream, false);
	if (err < 0)
		return err;
	result = wake(s, err);
	err = braid_live_close(&s->rings, &s->stream);
	return err ? err : result;
}

/*
 * A guest that unmaps its memory waits for us, or its VM does: do not read the rest, it counts as
 * left.
 */
static bool is_awaited(const struct braid_region_source *s)
{
	return s->stream.mapping->gone && s->stream.mapping->taken_back &&
	       !s->stream.mapping->one_way &&
	       braid_host_clock_ns() - s->end.began_ns >= GIVE_BACK_NS;
}

/* A turn of a stream's end. Returns enum braid_poll_result or the capture's error. */
static int go_on_to_end(struct braid_region_source *s)
{
	int ret;

	if (s->stream.o.flight && !s->let_go && !is_awaited(s))
		return BRAID_POLL_IDLE;
	ret = braid_live_end_turn(s);

	if (ret < 0 || s->stream.fatal)
		return handle_loss(s, ret);
	if (ret != BRAID_POLL_IDLE && !is_awaited(s))
		return ret;
	ret = braid_live_end(s);
	if (!ret && s->stream.mapping->gone) {
		s->ended_incarnation = 0;	/* its guest may provide it again, unchanged */
		close_mapping(s);		/* and may wait for us */
	}
	return ret;
}

/* Whether the guest has answered to the last command, all off, or will not. */
static bool is_disarmed(const struct braid_region_source *s)
{
	return s->control.disarming && braid_live_control_idle(&s->control, &s->stream);
}

/* The driver was unloaded: its last events are read, and it is notified. */
static int go_down(struct braid_region_source *s)
{
	braid_live_end_begin(s, BRAID_PHASE_DOWN, BRAID_END_DOWN);
	return braid_live_note(&s->stream, "the driver was unloaded");
}

/* Once a second: checks that the file and its QEMU still exist. */
static int region_check_file(struct braid_region_source *s)
{
	u64 now_ns = braid_host_clock_ns();
	const char *why;

	if (now_ns < s->file_due_ns && !s->stream.mapping->gone)
		return 0;
	s->file_due_ns = now_ns + FILE_CHECK_NS;
	why = braid_mapping_gone(s->stream.mapping);
	if (!why && qemu_ended(s))
		why = "its QEMU has ended";
	if (!why)
		return 0;
	braid_live_end_begin(s, phase_without(s->stream.mapping), BRAID_END_GONE);
	return braid_live_note(&s->stream, "%s", why);
}

int braid_region_source_poll(struct braid_region_source *s)
{
	int err, result;

	if (s->stream.fatal)
		return s->stream.fatal;
	err = braid_endpoint_serve(s->endpoint);
	if (err > 0) {
		s->control.wake_asked = false;	/* the next idle turn asks again */
		if (s->retry_due_ns - braid_host_clock_ns() <= RETRY_NS)
			s->retry_due_ns = 0;	/* there may be a region now */
	}
	err = err < 0 ? braid_live_note(&s->stream, "%s", braid_failure()) :
			braid_live_notes_poll(&s->stream, false);
	if (err)
		return err;
	if (s->over)
		return BRAID_POLL_IDLE;
	if (s->phase != BRAID_PHASE_RECORDING) {
		err = try_start(s);
		if (err || s->phase != BRAID_PHASE_RECORDING)
			return err;
	}
	if (s->end.ending)
		return go_on_to_end(s);
	result = braid_live_guard(&s->stream, work, s);
	if (result < 0 || s->stream.fatal)
		return handle_loss(s, result);
	err = braid_live_clock_poll(&s->clock, &s->stream, is_disarmed(s));
	if (!err)
		err = braid_live_threads_poll(&s->threads, &s->stream);
	if (!err && s->stream.down && result == BRAID_POLL_IDLE)
		err = go_down(s);
	else if (!err)
		err = region_check_file(s);
	if (err)
		return err;
	return s->end.ending ? BRAID_POLL_BUSY : result;
}

/* The window ------------------------------------------------------------------------------ */

static int mark_start(void *arg)
{
	struct braid_region_source *s = arg;

	braid_live_mark_start(&s->rings, &s->stream);
	return 0;
}

static int mark_stop(void *arg)
{
	struct braid_region_source *s = arg;

	braid_live_mark_stop(&s->rings, &s->stream);
	return 0;
}

static int read_confirmed(void *arg)
{
	struct braid_region_source *s = arg;

	return braid_live_control_check_confirmed(&s->control, &s->stream, s->endpoint);
}

/* An error of the capture is returned by the next turn. */
static void check_confirmed(struct braid_region_source *s)
{
	if (s->phase == BRAID_PHASE_RECORDING && !s->end.ending)
		braid_live_guard(&s->stream, read_confirmed, s);
}

void braid_region_source_start(struct braid_region_source *s)
{
	if (s->stream.started || !s->stream.o.window)
		return;
	s->stream.started = true;
	braid_live_triggers_start(&s->control.triggers);
	braid_live_settle(s);
	if (!s->stream.o.backlog && s->phase == BRAID_PHASE_RECORDING)
		braid_live_guard(&s->stream, mark_start, s);
	else if (!s->stream.o.backlog)
		s->old_incarnation = s->stream.sb.incarnation;
	check_confirmed(s);
}

void braid_region_source_stop(struct braid_region_source *s)
{
	if (s->stream.stopped || !s->stream.started)
		return;
	braid_live_settle(s);
	if (s->phase == BRAID_PHASE_RECORDING)
		braid_live_guard(&s->stream, mark_stop, s);
	s->stream.stopped = true;
	check_confirmed(s);
}

int braid_region_source_move(struct braid_region_source *s, pid_t pid)
{
	int err = s->stream.fatal;
	char line[64];

	snprintf(line, sizeof(line), "the guest was migrated to pid:%d", (int)pid);
	if (!err)
		err = s->phase == BRAID_PHASE_RECORDING ? braid_live_note(&s->stream, "%s", line) :
							  note_between(s, line);
	if (!err && s->phase == BRAID_PHASE_RECORDING) {
		s->end.moves = true;
		braid_live_end_begin(s, BRAID_PHASE_GONE, BRAID_END_GONE);
		s->end.ending = false;	/* at once: the next stream goes on with its rings */
		err = braid_live_end(s);
		s->end.moves = false;
	}
	if (err)
		return err;
	close_mapping(s);
	braid_endpoint_move(s->endpoint, pid);
	s->phase = BRAID_PHASE_WAITING;
	s->ended_incarnation = 0;
	s->retry_due_ns = 0;
	s->refused = s->over = false;
	return 0;
}

int braid_region_source_finish(struct braid_region_source *s)
{
	if (s->stream.fatal || s->phase != BRAID_PHASE_RECORDING ||
	    braid_live_control_give_up(&s->control, &s->stream))
		return s->stream.fatal;
	if (!s->end.ending)
		braid_live_end_begin(s, BRAID_PHASE_WAITING, BRAID_END_STOPPED);
	s->end.ending = false;	/* the whole rest, at once */
	return braid_live_end(s);
}

int braid_region_source_note(struct braid_region_source *s, const char *line)
{
	return s->stream.fatal ? s->stream.fatal : braid_live_note(&s->stream, "%s", line);
}

void braid_region_source_disarm(struct braid_region_source *s)
{
	braid_live_control_disarm(&s->control, &s->stream);
}

/* Open and close ------------------------------------------------------------------------- */

int braid_region_source_open(struct braid_region_source **out,
			     const struct braid_region_options *o)
{
	struct braid_region_source *s;
	struct braid_superblock sb;
	int err;

	s = calloc(1, sizeof(*s));
	if (!s) {
		braid_endpoint_close(o->endpoint);
		return braid_out_of_memory();
	}
	s->stream.o = *o;
	s->qemu_pidfd = -1;
	if (o->name)
		snprintf(s->stream.name, sizeof(s->stream.name), "%s", o->name);
	braid_text_clean(s->stream.name);
	s->endpoint = o->endpoint;
	err = braid_live_control_open(&s->control, &s->stream);
	if (!err && !s->endpoint)
		err = braid_endpoint_open(&s->endpoint, o->path);
	if (!err)
		err = open_mapping(s);
	if (!err)
		err = braid_mapping_identify(s->stream.mapping, &sb);
	if (err && err != -ENODATA && err != -ENOTCONN && err != -EAGAIN) {
		braid_region_source_close(s);
		return err;
	}
	if (!err)
		s->stream.sb = sb;	/* for braid_region_source_check(); the first poll checks
					   again */
	*out = s;
	return 0;
}

static int region_release(void *arg)
{
	struct braid_region_source *s = arg;

	if (braid_mapping_same(s->stream.mapping, s->stream.sb.incarnation)) {
		braid_live_ring_release(&s->rings);
		braid_live_wake_not(&s->control, &s->stream);
	}
	return 0;
}

static int ask_to_stop(void *arg)
{
	struct braid_region_source *s = arg;

	return braid_live_control_left(&s->control);
}

void braid_region_source_leave(struct braid_region_source *s)
{
	if (!s || s->left_ns || !s->stream.mapping || s->phase != BRAID_PHASE_RECORDING)
		return;
	braid_live_guard(&s->stream, region_release, s);
	if (s->stream.sb.state != BRAID_STATE_LIVE || s->stream.silent ||
	    s->stream.mapping->one_way)
		return;
	braid_live_control_leave(&s->control, &s->stream);
	s->left_ns = braid_host_clock_ns();
	braid_live_guard(&s->stream, ask_to_stop, s);
	braid_endpoint_ring(s->endpoint);
}

void braid_region_source_close(struct braid_region_source *s)
{
	if (!s)
		return;
	braid_region_source_leave(s);
	while (s->left_ns && braid_live_guard(&s->stream, ask_to_stop, s) == -EAGAIN)
		braid_sleep_ns(CLOSE_STEP_NS);
	close_mapping(s);
	braid_endpoint_close(s->endpoint);
	braid_live_control_free(&s->control);
	braid_live_rings_free(&s->rings);
	braid_live_tables_free(&s->tables);
	braid_live_watch_free(&s->watch);
	braid_live_threads_free(&s->threads);
	free(s);
}
