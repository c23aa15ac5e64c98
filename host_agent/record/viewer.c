// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * record --live: the recorder's side. Sends a process that follows the capture its complete
 * position.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/record/private.h"
#include "host_agent/util/helper.h"
#include "host_agent/util/error.h"

#define MARK_NS		1000000ULL	/* minimum interval */
#define DEADLINE_NS	120000000ULL	/* guests not complete by then are late */
#define KEEP_BYTES	(64ULL << 20)	/* in memory: for a viewer that lags */
#define FREE_BYTES	(1ULL << 20)

static int make_memory(struct braid_record_viewer *live)
{
	live->memory_fd = memfd_create("tracebraid-live", MFD_CLOEXEC);
	if (live->memory_fd < 0)
		return braid_fail(-errno, "cannot create the memory of the live view: %s", strerror(errno));
	snprintf(live->path, sizeof(live->path), "/proc/self/fd/%d", live->memory_fd);
	return 0;
}

/* Never returns. Keeps only the files it needs, so that it holds no other pipe open. */
static void become_viewer(struct braid_recording *r, int marks_fd)
{
	/* The memory was made first. */
	int first = r->viewer.memory_fd < 0 ? marks_fd : r->viewer.memory_fd;

	close_range(marks_fd + 1, ~0U, 0);
	if (first + 1 < marks_fd)
		close_range(first + 1, marks_fd - 1, 0);
	if (first > STDERR_FILENO + 1)
		close_range(STDERR_FILENO + 1, first - 1, 0);
	_exit(r->ops->view(braid_record_path(r), marks_fd, r->o.live.json));
}

int braid_record_live_start(struct braid_recording *r)
{
	struct braid_record_viewer *live = &r->viewer;
	struct stat st, null;
	int fds[2], err;

	if (!r->o.live.wanted)
		return 0;
	live->in_memory = !stat(r->o.file, &st) && !stat("/dev/null", &null) &&
			  st.st_rdev == null.st_rdev && S_ISCHR(st.st_mode);
	err = live->in_memory ? make_memory(live) : 0;
	if (err)
		return err;
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK))
		return braid_fail(-errno, "cannot create a pipe: %s", strerror(errno));
	live->marks_fd = fds[1];
	live->pid = fork();
	if (!live->pid)
		become_viewer(r, fds[0]);
	if (live->pid > 0) {
		braid_children_add(live->pid);
		live->pidfd = syscall(SYS_pidfd_open, live->pid, 0);
	}
	err = live->pidfd < 0 ? -errno : 0;
	close(fds[0]);
	return err ? braid_fail(err, "cannot create a process for the live view: %s", strerror(-err)) : 0;
}

/* Sends the mark once all that is before it is written. */
static int send_mark(struct braid_recording *r)
{
	struct braid_capture_mark mark = r->viewer.mark;

	if (!mark.bytes || braid_capture_written(r->sink.capture) < mark.bytes)
		return 0;
	r->viewer.mark.bytes = 0;
	/* A pipe that is full has older ones; a viewer that ended is noticed by itself. */
	if (write(r->viewer.marks_fd, &mark, sizeof(mark)) < 0 && errno != EAGAIN && errno != EPIPE)
		return braid_fail(-errno, "cannot reach the live view: %s", strerror(errno));
	return 0;
}

int braid_record_live_turn(struct braid_recording *r)
{
	struct braid_record_viewer *live = &r->viewer;
	u64 now_ns, bytes;
	int err;

	if (!live->forgotten_bytes)	/* the first data of streams is kept */
		live->forgotten_bytes = (braid_capture_bytes(r->sink.capture) | (FREE_BYTES - 1)) + 1;
	/* Before all are armed, rings hold events older than those of others. */
	if (live->marks_fd < 0 || !r->start_ns)
		return 0;
	now_ns = braid_host_clock_ns();
	if (!live->mark.bytes && now_ns - live->marked_ns >= MARK_NS) {
		live->marked_ns = now_ns;
		live->mark.until_ns = braid_record_complete_ns(r, DEADLINE_NS);
		live->mark.bytes = braid_capture_bytes(r->sink.capture);
	}
	err = send_mark(r);
	bytes = braid_capture_bytes(r->sink.capture) & ~(FREE_BYTES - 1);
	if (err || !live->in_memory || bytes < live->forgotten_bytes + KEEP_BYTES + FREE_BYTES)
		return err;
	bytes -= KEEP_BYTES;
	fallocate(live->memory_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		  live->forgotten_bytes, bytes - live->forgotten_bytes);
	live->forgotten_bytes = bytes;
	return 0;
}

/* Ends the viewer, unless it has ended. Return: whether it succeeded. */
static bool bury(struct braid_record_viewer *live)
{
	int status = 0;

	waitpid(live->pid, &status, 0);
	close(live->pidfd);
	if (live->marks_fd >= 0)
		close(live->marks_fd);
	live->pidfd = live->marks_fd = -1;
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

bool braid_record_live_gone(struct braid_recording *r)
{
	struct pollfd p = { .fd = r->viewer.pidfd, .events = POLLIN };

	if (r->viewer.pidfd < 0 || poll(&p, 1, 0) <= 0)
		return false;
	braid_wait_for(&r->wait, BRAID_WAIT_VIEWER, -1);
	if (bury(&r->viewer))
		return true;
	braid_record_say(r, NULL, "the live view has failed%s",
			 r->viewer.in_memory ? "" : "; the recording continues");
	return r->viewer.in_memory;
}

/* Waits until it has printed all; a second signal stops it. */
static void viewer_await(struct braid_recording *r)
{
	struct pollfd fds[] = {
		{ .fd = r->viewer.pidfd, .events = POLLIN }, { .fd = r->signal_fd, .events = POLLIN },
	};

	while (poll(fds, 2, -1) < 0 && errno == EINTR)
		;
	if (!fds[0].revents)
		kill(r->viewer.pid, SIGKILL);
	bury(&r->viewer);
}

void braid_record_live_end(struct braid_recording *r)
{
	struct braid_record_viewer *live = &r->viewer;

	if (live->marks_fd >= 0) {
		if (r->sink.capture)
			braid_capture_settle(r->sink.capture);	/* the failure is reported
								   elsewhere */
		close(live->marks_fd);
	}
	live->marks_fd = -1;
	if (live->pidfd >= 0)
		viewer_await(r);
	if (live->memory_fd >= 0)
		close(live->memory_fd);
	live->memory_fd = -1;
}
