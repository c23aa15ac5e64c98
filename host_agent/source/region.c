// SPDX-License-Identifier: GPL-2.0-or-later
/* The life of a recorded guest: waiting, recording, down, gone, and back again. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host_agent/clock/host.h"
#include "host_agent/discover/discover.h"
#include "host_agent/source/region_private.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

#define RETRY_NS	20000000ULL	/* between two looks for a file or a driver */
#define BROKEN_RETRY_NS	1000000000ULL	/* likewise, at what can't be a region */
#define CHANGE_NS	15000000ULL	/* longer than that its buffers are not changed: it died */
#define GIVE_BACK_NS	700000000ULL	/* a guest is promised its memory within a second */
#define FILE_CHECK_NS	1000000000ULL
#define CLOSE_TIMEOUT_NS	500000000ULL
#define CLOSE_STEP_NS	1000000ULL

/* Finds the QEMU that maps the region, and a file descriptor that tells its end. */
static void watch_qemu(struct braid_region_source *s)
{
	const struct braid_mapping *m = s->mapping;

	s->qemu_pid = m->qemu_pid ? m->qemu_pid : braid_qemu_of(m->device, m->inode);
	if (s->qemu_pid)
		s->qemu_pidfd = syscall(SYS_pidfd_open, s->qemu_pid, 0);
}

static bool qemu_ended(const struct braid_region_source *s)
{
	struct pollfd p = { .fd = s->qemu_pidfd, .events = POLLIN };

	return s->qemu_pidfd >= 0 && poll(&p, 1, 0) > 0;
}

static void close_mapping(struct braid_region_source *s)
{
	braid_live_clock_end(s);
	if (s->qemu_pidfd >= 0)
		close(s->qemu_pidfd);
	s->qemu_pidfd = -1;
	s->qemu_pid = 0;
	braid_mapping_close(s->mapping);
	s->mapping = NULL;
}

/* Streams ---------------------------------------------------------------------------- */

static int begin_stream(void *arg)
{
	struct braid_region_source *s = arg;
	int err;

	err = braid_live_tables_reset(s);
	if (!err)
		err = braid_live_tables_send(s, true);
	if (!err)
		err = braid_live_attach(s);
	if (!err && s->o.flight)
		err = braid_live_flight_begin(s);
	if (!err)
		braid_live_control_reset(s);
	if (!err && s->started && !s->o.backlog && s->sb.incarnation == s->old_incarnation)
		braid_live_mark_start(s);
	return err;
}

/* Whether a former agent left events on; needs no guard. */
static bool find_stale_events(struct braid_region_source *s)
{
	struct braid_directory_copy copy;
	bool found;

	if (braid_directory_load(&copy, s->mapping, &s->sb, 0))
		return false;
	found = braid_directory_count(&copy).host_on;
	braid_directory_free(&copy);
	return found;
}

/* What went wrong with the region while it was drained: decides how it goes on. */
static int handle_loss(struct braid_region_source *s, int err)
{
	const char *gone = s->mapping->gone;
	int failed;

	if (s->fatal)
		return s->fatal;
	if (err == -ESTALE && !gone) {
		failed = braid_live_note(s, "the driver restarted, or the region was overwritten");
		if (!failed)
			failed = braid_live_cut(s, BRAID_PHASE_WAITING, BRAID_END_REINIT);
	} else {
		failed = braid_live_note(s, "%s", gone ? gone : braid_failure());
		if (!failed)
			failed = braid_live_cut(s, BRAID_PHASE_GONE, BRAID_END_GONE);
		if (gone)
			s->ended_incarnation = 0;	/* as in go_on_to_end() */
		s->phase = BRAID_PHASE_GONE;	/* also when the capture failed: no mapping */
		close_mapping(s);
	}
	return failed;
}

static int start_stream(struct braid_region_source *s)
{
	u64 start_ns = braid_live_cpu_ns();
	int err;

	s->phase = BRAID_PHASE_RECORDING;
	s->wake_asked = false;
	s->heartbeat_ns = 0;
	s->silent = s->o.dead_ns;
	s->stream = s->o.sink->next_stream++;
	s->nr_streams++;
	err = braid_live_put_stream(s);
	if (err)
		return err;
	s->stale_events = !s->o.dead_ns && find_stale_events(s);
	err = braid_guard_run(s->mapping->base, s->mapping->bytes, begin_stream, s);
	s->begin_cost_ns = braid_live_cpu_ns() - start_ns;
	if (err)
		return handle_loss(s, err);
	if (s->o.dead_ns)
		return 0;
	if (s->qemu_pidfd < 0)
		watch_qemu(s);
	err = braid_live_clock_begin(s);
	if (!err)
		err = braid_live_threads_begin(s);
	return err ? s->fatal = err : 0;
}

/* -errno with braid_fail(). */
static int open_mapping(struct braid_region_source *s)
{
	return s->mapping ? 0 : braid_port_map(s->port, &s->mapping);
}

/* Identifies the region between two turns of others: never sleeps. -errno with braid_fail(). */
static int look(struct braid_region_source *s, u64 now_ns, struct braid_superblock *sb)
{
	int err = open_mapping(s);

	if (err)
		return err;
	err = braid_mapping_glance(s->mapping, sb,
				   s->changing_ns && now_ns - s->changing_ns >= CHANGE_NS);
	if (err != -EINPROGRESS)
		s->changing_ns = 0;
	else if (!s->changing_ns)
		s->changing_ns = now_ns;
	if (err == -EBADMSG)
		s->retry_due_ns = now_ns + BROKEN_RETRY_NS;
	return err;
}

/* A guest that took its region back is still there. */
static enum braid_region_phase phase_without(const struct braid_mapping *m)
{
	return m->taken_back ? BRAID_PHASE_DOWN : BRAID_PHASE_GONE;
}

/* WAITING, DOWN, GONE: has a driver come? Never fatal but for the capture. */
static int try_start(struct braid_region_source *s)
{
	u64 now_ns = braid_host_clock_ns();
	struct braid_superblock sb;
	int err;

	if (s->stopped || (now_ns < s->retry_due_ns && !(s->mapping && s->mapping->gone)))
		return 0;
	s->retry_due_ns = now_ns + RETRY_NS;
	if (s->mapping && braid_mapping_gone(s->mapping)) {
		if (s->phase == BRAID_PHASE_WAITING && !s->nr_streams)
			braid_live_note(s, "%s", braid_mapping_gone(s->mapping));
		s->phase = phase_without(s->mapping);
		close_mapping(s);
	}
	if (s->mapping && qemu_ended(s))
		s->phase = BRAID_PHASE_GONE;
	err = look(s, now_ns, &sb);
	if (err == -ENOTCONN && s->phase == BRAID_PHASE_DOWN)
		s->phase = BRAID_PHASE_GONE;
	if (err == -EFAULT)
		close_mapping(s);
	if (err == -EPERM && !s->refused) {
		s->refused = true;
		braid_live_note(s, "%s", braid_failure());
	}
	if (err || sb.incarnation == s->ended_incarnation)
		return 0;
	if (qemu_ended(s)) {
		close(s->qemu_pidfd);
		s->qemu_pidfd = -1;
	}
	s->sb = sb;
	return start_stream(s);
}

/* Work --------------------------------------------------------------------------------- */

struct turn {
	struct braid_region_source *s;
	int result;
};

static int work(void *arg)
{
	struct turn *turn = arg;
	struct braid_region_source *s = turn->s;
	int err;

	if (!braid_mapping_same(s->mapping, s->sb.incarnation))
		return -ESTALE;
	braid_live_beat(s);	/* also when it is down: a driver that comes again waits for us */
	s->down = braid_mapping_state(s->mapping) == BRAID_STATE_DOWN;
	if (!s->down && !s->o.dead_ns) {
		err = braid_live_clock_look(s);
		if (!err)
			err = braid_live_clock_pair(s, false);
		if (!err)
			err = braid_live_heartbeat(s);
		if (!err)
			err = braid_live_control_poll(s);
		if (err)	/* -ESTALE of a driver that went down: the next turn sees */
			return err == -ESTALE && braid_mapping_same(s->mapping, s->sb.incarnation) ?
			       0 : err;
	}
	turn->result = BRAID_POLL_BUSY;
	err = braid_live_buffers(s, false);
	if (err)
		return err == -EAGAIN ? 0 : err;
	err = braid_live_tables_send(s, false);
	if (!err)
		err = braid_live_ring_roles(s, false);
	if (!err)
		err = s->o.flight ? braid_live_watch_poll(s) : braid_live_drain(s, false);
	if (err < 0)
		return err;
	turn->result = braid_live_wake(s, err);
	return braid_live_close(s);
}

/* A guest that wants its memory back stands still meanwhile, or its VM: the rest counts as left. */
static bool is_awaited(const struct braid_region_source *s)
{
	return s->mapping->gone && s->mapping->taken_back &&
	       braid_host_clock_ns() - s->end_began_ns >= GIVE_BACK_NS;
}

/* A turn of a stream's end. Returns enum braid_poll_result or the capture's error. */
static int go_on_to_end(struct braid_region_source *s)
{
	int ret;

	if (s->o.flight && !s->let_go && !is_awaited(s))
		return BRAID_POLL_IDLE;
	ret = braid_live_end_turn(s);

	if (ret < 0 || s->fatal)
		return handle_loss(s, ret);
	if (ret != BRAID_POLL_IDLE && !is_awaited(s))
		return ret;
	ret = braid_live_end(s);
	if (!ret && s->mapping->gone) {
		s->ended_incarnation = 0;	/* its guest may give it again, as it is */
		close_mapping(s);		/* and may wait for us */
	}
	return ret;
}

/* The driver was unloaded: its last words are taken, and it is told so. */
static int go_down(struct braid_region_source *s)
{
	braid_live_end_begin(s, BRAID_PHASE_DOWN, BRAID_END_DOWN);
	return braid_live_note(s, "the driver was unloaded");
}

/* Once a second: is there still a file, and somebody behind it? */
static int check_file(struct braid_region_source *s)
{
	u64 now_ns = braid_host_clock_ns();
	const char *why;

	if (now_ns < s->file_due_ns && !s->mapping->gone)
		return 0;
	s->file_due_ns = now_ns + FILE_CHECK_NS;
	why = braid_mapping_gone(s->mapping);
	if (!why && qemu_ended(s))
		why = "its QEMU has ended";
	if (!why)
		return 0;
	braid_live_end_begin(s, phase_without(s->mapping), BRAID_END_GONE);
	return braid_live_note(s, "%s", why);
}

int braid_region_source_poll(struct braid_region_source *s)
{
	struct turn turn = { .s = s };
	int err;

	if (s->fatal)
		return s->fatal;
	err = braid_port_serve(s->port);
	if (err > 0) {
		s->wake_asked = false;	/* it will be asked anew, when there is nothing to do */
		if (s->retry_due_ns - braid_host_clock_ns() <= RETRY_NS)
			s->retry_due_ns = 0;	/* there may be a region now */
	}
	err = err < 0 ? braid_live_note(s, "%s", braid_failure()) : braid_live_notes_poll(s, false);
	if (err)
		return err;
	if (s->phase != BRAID_PHASE_RECORDING) {
		err = try_start(s);
		if (err || s->phase != BRAID_PHASE_RECORDING)
			return err;
	}
	if (s->ending)
		return go_on_to_end(s);
	err = braid_guard_run(s->mapping->base, s->mapping->bytes, work, &turn);
	if (err || s->fatal)
		return handle_loss(s, err);
	err = braid_live_clock_poll(s, s->disarming && braid_live_control_idle(s));
	if (!err)
		err = braid_live_threads_poll(s);
	if (!err && s->down && turn.result == BRAID_POLL_IDLE)
		err = go_down(s);
	else if (!err)
		err = check_file(s);
	if (err)
		return err;
	return s->ending ? BRAID_POLL_BUSY : turn.result;
}

int braid_region_source_finish(struct braid_region_source *s)
{
	if (s->fatal)
		return s->fatal;
	if (s->phase != BRAID_PHASE_RECORDING)
		return 0;
	if (!s->ending)
		braid_live_end_begin(s, BRAID_PHASE_WAITING, BRAID_END_STOPPED);
	s->ending = false;	/* all that is left, at once */
	return braid_live_end(s);
}

int braid_region_source_note(struct braid_region_source *s, const char *line)
{
	return s->fatal ? s->fatal : braid_live_note(s, "%s", line);
}

void braid_region_source_disarm(struct braid_region_source *s)
{
	braid_live_control_disarm(s);
}

/* Door ----------------------------------------------------------------------------------- */

void braid_region_source_status(const struct braid_region_source *s,
				struct braid_region_status *status)
{
	bool recording = s->phase == BRAID_PHASE_RECORDING;
	bool idle = !recording || braid_live_control_idle(s);

	memset(status, 0, sizeof(*status));
	status->phase = s->phase;
	status->armed = idle || s->told_timeout;
	status->disarmed = s->disarming && idle && (!recording || braid_live_clock_idle(s));
	status->silent = recording && s->silent;
	status->unconfirmed = s->unconfirmed || s->was_unconfirmed;
	strcpy(status->name, s->name);
	status->stream = s->stream;
	status->nr_streams = s->nr_streams;
	status->events = s->events;
	status->lost = s->lost + braid_live_lost(s);
	status->bytes = s->bytes;
	status->skipped = s->skipped;
	status->sums = s->sums;
	status->unreadable = s->unreadable;
	status->leaving = recording && s->ending && s->o.flight && !s->let_go;
	status->noticed = s->watch.noticed;
	status->noticed_event = s->watch.event;
	status->no_buffer = s->o.buffer && s->nr_streams && !s->buffer_came;
}

size_t braid_region_source_fds(const struct braid_region_source *s, struct pollfd *fds)
{
	return braid_port_fds(s->port, fds);
}

bool braid_region_source_rings(const struct braid_region_source *s)
{
	return s->wake_asked;
}

u64 braid_region_source_complete(const struct braid_region_source *s)
{
	u64 ns = BRAID_TAKEN_UNKNOWN;
	size_t k;

	for (k = 0; k < s->nr_rings && s->phase == BRAID_PHASE_RECORDING; k++)
		if (s->rings[k].hold == BRAID_HOLD_OURS && s->rings[k].complete_ns < ns)
			ns = s->rings[k].complete_ns;
	return ns;
}

struct fill_call {
	struct braid_region_source *s;
	u32 permille;
};

static int measure_fill(void *arg)
{
	struct fill_call *call = arg;
	u32 k, permille;

	for (k = 0; k < call->s->sb.nr_buffers; k++) {
		const struct braid_buffer_desc *desc = &call->s->sb.buffers[k];
		/* A flight recorder follows none until a snapshot is taken. */
		bool wanted = call->s->o.flight ?
			      !call->s->o.buffer || !strcmp(desc->name, call->s->o.buffer) :
			      call->s->follow[k] != BRAID_FOLLOW_NOT;

		permille = wanted && desc->nr_rings ?
			   braid_mapping_fill(call->s->mapping, &call->s->sb, k) : 0;
		if (permille > call->permille)
			call->permille = permille;
	}
	return 0;
}

u32 braid_region_source_fill(struct braid_region_source *s)
{
	struct fill_call call = { .s = s };

	if (s->phase == BRAID_PHASE_RECORDING)
		braid_guard_run(s->mapping->base, s->mapping->bytes, measure_fill, &call);
	return call.permille;
}

int braid_region_source_check(struct braid_region_source *s, size_t index)
{
	const struct braid_pattern *pattern = &s->o.patterns[index];
	struct braid_directory_copy copy;
	int ret = 1;

	if (!s->mapping || !s->sb.incarnation)
		return 0;
	if (braid_directory_load(&copy, s->mapping, &s->sb, 0))
		return 0;
	if (!braid_pattern_count(pattern, &copy))
		ret = braid_directory_suggest(&copy, pattern, s->name);
	braid_directory_free(&copy);
	return ret;
}

int braid_region_source_open(struct braid_region_source **out,
			     const struct braid_region_options *o)
{
	struct braid_region_source *s;
	struct braid_superblock sb;
	int err;

	s = calloc(1, sizeof(*s));
	if (!s) {
		braid_port_close(o->port);
		return braid_fail(-ENOMEM, "out of memory");
	}
	s->o = *o;
	s->qemu_pidfd = -1;
	s->matched = calloc(o->nr_patterns + 1, sizeof(*s->matched));
	if (o->name)
		snprintf(s->name, sizeof(s->name), "%s", o->name);
	braid_text_clean(s->name);
	s->port = o->port;
	err = s->matched ? 0 : braid_fail(-ENOMEM, "out of memory");
	if (!err && !s->port)
		err = braid_port_open(&s->port, o->path);
	if (!err)
		err = open_mapping(s);
	if (!err)
		err = braid_mapping_identify(s->mapping, &sb);
	if (err && err != -ENODATA && err != -ENOTCONN && err != -EAGAIN) {
		braid_region_source_close(s);
		return err;
	}
	if (!err)
		s->sb = sb;	/* for braid_region_source_check(); the first poll looks again */
	*out = s;
	return 0;
}

static int release(void *arg)
{
	struct braid_region_source *s = arg;

	if (braid_mapping_same(s->mapping, s->sb.incarnation)) {
		braid_live_ring_release(s);
		braid_live_wake_not(s);
	}
	return 0;
}

static int ask_to_stop(void *arg)
{
	struct braid_region_source *s = arg;
	struct braid_control_answer answer;

	return braid_control_poll(&s->control, &answer);
}

void braid_region_source_leave(struct braid_region_source *s)
{
	if (!s || s->left_ns || !s->mapping || s->phase != BRAID_PHASE_RECORDING)
		return;
	braid_guard_run(s->mapping->base, s->mapping->bytes, release, s);
	if (s->sb.state != BRAID_STATE_LIVE || s->silent)
		return;
	braid_control_begin(&s->control, s->mapping, &s->sb, BRAID_CMD_DISABLE, 0, NULL,
			    CLOSE_TIMEOUT_NS);
	s->left_ns = braid_host_clock_ns();
	braid_guard_run(s->mapping->base, s->mapping->bytes, ask_to_stop, s);
	braid_port_ring(s->port);
}

void braid_region_source_close(struct braid_region_source *s)
{
	if (!s)
		return;
	braid_region_source_leave(s);
	while (s->left_ns && braid_guard_run(s->mapping->base, s->mapping->bytes, ask_to_stop, s) == -EAGAIN)
		braid_sleep_ns(CLOSE_STEP_NS);
	close_mapping(s);
	braid_port_close(s->port);
	free(s->rings);
	free(s->untold);
	free(s->matched);
	braid_live_tables_free(s);
	braid_live_watch_free(s);
	free(s);
}
