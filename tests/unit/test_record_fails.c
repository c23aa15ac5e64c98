// SPDX-License-Identifier: GPL-2.0-or-later
/* What a recording says when a part of it fails: that failure, not one of the work afterwards. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/capture/sink.h"
#include "host_agent/record/private.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

static char capture_path[] = "/tmp/test_record_fails.XXXXXX";
static char runtime[] = "/tmp/test_record_fails.XXXXXX";
static char said[512];

static void say(void *arg, const char *name, const char *line)
{
	(void)arg;
	(void)name;
	snprintf(said, sizeof(said), "%s", line);
}

static void capture_head(struct braid_chunk_file *head)
{
	*head = (struct braid_chunk_file){
		.version_major = BRAID_CAPTURE_MAJOR, .version_minor = BRAID_CAPTURE_MINOR,
		.clock = "mono_raw",
	};
}

static int view(const char *path, int marks_fd, bool json)
{
	(void)path;
	(void)marks_fd;
	(void)json;
	return EXIT_SUCCESS;
}

static const struct braid_record_ops ops = {
	.say = say, .capture_head = capture_head, .view = view,
};

/* A live view ------------------------------------------------------------------------------- */

/* In a process of its own: its limit permits a pipe's two descriptors, but none for the viewer. */
static int start_without_pidfd(void)
{
	struct braid_recording r = {
		.ops = &ops, .o = { .live.wanted = true, .file = capture_path },
		.viewer = { .memory_fd = -1, .pidfd = -1, .marks_fd = -1 },
	};
	int next = dup(STDERR_FILENO);
	struct rlimit limit = { .rlim_cur = next + 2, .rlim_max = next + 2 };
	int err;

	NEED(next >= 0 && !close(next) && !setrlimit(RLIMIT_NOFILE, &limit));
	errno = 0;
	err = braid_record_live_start(&r);
	CHECK_EQ(err, -EMFILE);
	CHECK(strstr(braid_failure(), "live view") && strstr(braid_failure(), strerror(EMFILE)));
	CHECK(r.viewer.pid > 0 && waitpid(r.viewer.pid, NULL, 0) == r.viewer.pid);
	return VERDICT();
}

static void a_live_view_without_a_pidfd(void)
{
	pid_t pid = fork();
	int status;

	NEED(pid >= 0);
	if (!pid)
		_exit(start_without_pidfd());
	NEED(waitpid(pid, &status, 0) == pid);
	CHECK_EQ(status, 0);
}

/* A snapshot -------------------------------------------------------------------------------- */

static const struct braid_capture_ops *true_ops;

static int put_fails(struct braid_capture_writer *w, u16 type, u32 stream, const void *head,
		     u32 head_bytes, const void *body, u32 body_bytes)
{
	(void)w, (void)type, (void)stream, (void)head, (void)head_bytes, (void)body, (void)body_bytes;
	return braid_fail(-ENOSPC, "the disk is full");
}

static void free_fails(struct braid_capture_writer *w)
{
	true_ops->free(w);
	braid_fail(-EIO, "a later failure");
}

/* The disk is full; giving the file up then fails for a reason of its own. */
static void a_snapshot_on_a_full_disk(void)
{
	struct braid_recording r = {
		.ops = &ops, .o = { .flight.wanted = true, .file = capture_path },
	};
	struct braid_capture_ops fails;
	struct braid_chunk_file head;

	capture_head(&head);
	NEED(!braid_request_open(&r.flight.requests));
	NEED(!braid_sampler_open(&r.sampler, NULL, NULL));
	NEED(!braid_capture_create_history(&r.sink.capture, false));
	NEED(!braid_capture_create(&r.flight.out, capture_path, &head));
	NEED(!braid_capture_tee(r.sink.capture, r.flight.out));
	true_ops = r.flight.out->ops;
	fails = *true_ops;
	fails.put = put_fails;
	fails.free = free_fails;
	r.flight.out->ops = &fails;
	CHECK_EQ(braid_capture_put(r.sink.capture, BRAID_CHUNK_NOTE, 0, NULL, 0, NULL, 0), 0);

	CHECK_EQ(braid_record_poll_flight(&r), 0);	/* the recording goes on */
	CHECK(!r.flight.out);
	CHECK(!strcmp(said, "the snapshot is incomplete: No space left on device"));
	CHECK_EQ(r.flight.nr_taken, 0);
	braid_sampler_close(r.sampler);
	braid_record_close_flight(&r);
	CHECK_EQ(braid_capture_finish(r.sink.capture), 0);
}

int main(void)
{
	int fd = mkstemp(capture_path);

	NEED(fd >= 0 && mkdtemp(runtime));
	close(fd);
	setenv("XDG_RUNTIME_DIR", runtime, 1);
	RUN(a_live_view_without_a_pidfd);
	RUN(a_snapshot_on_a_full_disk);
	unlink(capture_path);
	snprintf(said, sizeof(said), "%s/tracebraid", runtime);
	rmdir(said);
	rmdir(runtime);
	return VERDICT();
}
