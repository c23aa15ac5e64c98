// SPDX-License-Identifier: GPL-2.0-or-later
/* record --live: the recorder's side. A process that follows the capture is told how far it is good. */
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

#include "host_agent/cli/live_view.h"
#include "host_agent/cli/record.h"
#include "host_agent/clock/host.h"
#include "host_agent/util/error.h"

#define TELL_NS		5000000ULL	/* not oftener */
#define SLACK_NS	10000000ULL	/* an event may be committed so much later than it began */
#define DEADLINE_NS	120000000ULL	/* who is not complete by then comes late */
#define KEEP_BYTES	(64ULL << 20)	/* in memory: of a viewer that is behind */
#define FREE_BYTES	(1ULL << 20)

static int make_memory(struct braid_record_live *live)
{
	live->memory_fd = memfd_create("tracebraid-live", MFD_CLOEXEC);
	if (live->memory_fd < 0)
		return braid_fail(-errno, "no memory for the live view: %s", strerror(errno));
	snprintf(live->path, sizeof(live->path), "/proc/self/fd/%d", live->memory_fd);
	return 0;
}

/* Never returns. Keeps the files it needs: nobody's end is held open by it. */
static void become_viewer(struct braid_recording *r, int marks_fd)
{
	struct braid_live_view v = { .path = braid_record_path(r), .json = r->live.json };
	int first = r->live.memory_fd < 0 ? marks_fd : r->live.memory_fd;	/* it was made first */

	close_range(marks_fd + 1, ~0U, 0);
	if (first + 1 < marks_fd)
		close_range(first + 1, marks_fd - 1, 0);
	if (first > STDERR_FILENO + 1)
		close_range(STDERR_FILENO + 1, first - 1, 0);
	v.marks_fd = marks_fd;
	_exit(braid_live_view(&v));
}

int braid_record_live_start(struct braid_recording *r)
{
	struct braid_record_live *live = &r->live;
	struct stat st, null;
	int fds[2], err;

	if (!live->wanted)
		return 0;
	/* Lines and a progress line would be in each other's way. */
	r->terminal &= !isatty(STDOUT_FILENO);
	live->in_memory = !stat(r->file, &st) && !stat("/dev/null", &null) &&
			  st.st_rdev == null.st_rdev && S_ISCHR(st.st_mode);
	err = live->in_memory ? make_memory(live) : 0;
	if (err)
		return err;
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK))
		return braid_fail(-errno, "no pipe: %s", strerror(errno));
	live->marks_fd = fds[1];
	live->pid = fork();
	if (!live->pid)
		become_viewer(r, fds[0]);
	err = errno;
	close(fds[0]);
	if (live->pid > 0)
		live->pidfd = syscall(SYS_pidfd_open, live->pid, 0);
	return live->pidfd >= 0 ? 0 : braid_fail(-err, "no process for the live view: %s",
						 strerror(err));
}

/* All before this is in the capture, as far as can be known. */
static s64 complete_ns(const struct braid_recording *r)
{
	u64 now_ns = braid_host_clock_ns(), ns = now_ns, one_ns;
	size_t k;

	for (k = 0; k < r->nr_guests; k++) {
		one_ns = braid_region_source_complete(r->guests[k].source);
		ns = one_ns < ns ? one_ns : ns;
	}
	if (r->host_source) {
		one_ns = braid_tracefs_source_complete(r->host_source);
		ns = one_ns < ns ? one_ns : ns;
	}
	/* Nobody waits for one who never gets there. */
	return ns > now_ns - DEADLINE_NS + SLACK_NS ? ns - SLACK_NS : now_ns - DEADLINE_NS;
}

static int tell(struct braid_recording *r)
{
	struct braid_live_mark mark = {
		.bytes = braid_capture_bytes(r->sink.capture), .until_ns = complete_ns(r),
	};

	/* A pipe that is full has older ones; a viewer that ended is noticed by itself. */
	if (write(r->live.marks_fd, &mark, sizeof(mark)) < 0 && errno != EAGAIN && errno != EPIPE)
		return braid_fail(-errno, "cannot reach the live view: %s", strerror(errno));
	return 0;
}

int braid_record_live_turn(struct braid_recording *r)
{
	struct braid_record_live *live = &r->live;
	u64 now_ns, bytes;
	int err;

	if (!live->forgotten_bytes)	/* what is known of streams at first is kept */
		live->forgotten_bytes = (braid_capture_bytes(r->sink.capture) | (FREE_BYTES - 1)) + 1;
	/* Before all are armed, rings are found full of what is older than others' events. */
	if (live->marks_fd < 0 || !r->start_ns)
		return 0;
	now_ns = braid_host_clock_ns();
	if (now_ns - live->told_ns < TELL_NS)
		return 0;
	live->told_ns = now_ns;
	err = tell(r);
	bytes = braid_capture_bytes(r->sink.capture) & ~(FREE_BYTES - 1);
	if (err || !live->in_memory || bytes < live->forgotten_bytes + KEEP_BYTES + FREE_BYTES)
		return err;
	bytes -= KEEP_BYTES;
	fallocate(live->memory_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		  live->forgotten_bytes, bytes - live->forgotten_bytes);
	live->forgotten_bytes = bytes;
	return 0;
}

/* Takes leave of the viewer, which has ended or is told to. Return: whether all went well. */
static bool bury(struct braid_record_live *live)
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
	struct pollfd p = { .fd = r->live.pidfd, .events = POLLIN };

	if (r->live.pidfd < 0 || poll(&p, 1, 0) <= 0)
		return false;
	if (bury(&r->live))
		return true;
	braid_record_say(r, NULL, "the live view has failed%s",
			 r->live.in_memory ? "" : "; the recording continues");
	return r->live.in_memory;
}

/* Until it has printed all; told to stop once more, it is stopped. */
static void await(struct braid_recording *r)
{
	struct pollfd fds[] = {
		{ .fd = r->live.pidfd, .events = POLLIN }, { .fd = r->signal_fd, .events = POLLIN },
	};

	while (poll(fds, 2, -1) < 0 && errno == EINTR)
		;
	if (!fds[0].revents)
		kill(r->live.pid, SIGKILL);
	bury(&r->live);
}

void braid_record_live_end(struct braid_recording *r)
{
	struct braid_record_live *live = &r->live;

	if (live->marks_fd >= 0) {
		if (r->sink.capture)
			braid_capture_flush(r->sink.capture);	/* a failure is told by others */
		close(live->marks_fd);
	}
	live->marks_fd = -1;
	if (live->pidfd >= 0)
		await(r);
	if (live->memory_fd >= 0)
		close(live->memory_fd);
	live->memory_fd = -1;
}
