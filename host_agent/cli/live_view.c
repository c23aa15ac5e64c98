// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * record --live: the viewer's side. Merges new data of the capture, and never blocks on a slow
 * reader.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/capture/capture.h"
#include "host_agent/cli/cli.h"
#include "host_agent/cli/live_view.h"
#include "host_agent/export/text/form.h"
#include "host_agent/record/record.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

#define WAITING_BYTES	(2u << 20)	/* of unread lines: no more are printed */
#define PIECE_BYTES	4096u		/* PIPE_BUF: a pipe that is ready accepts this much at
					   once */
#define NR_MARKS	64

struct viewer {
	const struct braid_live_view *v;
	struct braid_source *source;
	struct braid_capture_mark mark;	/* the last one */
	bool ended;			/* there will be no other */
	bool complete;			/* and all of it was taken in */
	int out_fd;
	struct braid_text waiting;	/* lines, from ... */
	size_t from;			/* ... on; those before were taken */
	bool refused;			/* the reader is gone */
};

/* Taking ----------------------------------------------------------------------------------- */

/*
 * A descriptor of our own that does not block: its flags are shared with others otherwise.
 * Of what can't be opened so, little is given at a time.
 */
static int open_out(void)
{
	struct stat st;
	int fd;

	if (fstat(STDOUT_FILENO, &st) || !(S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
		return STDOUT_FILENO;
	fd = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? STDOUT_FILENO : fd;
}

/* Writes what the reader accepts without waiting. Return: 0, or -errno. */
static int live_view_give(struct viewer *w)
{
	struct pollfd p = { .fd = w->out_fd, .events = POLLOUT };
	size_t bytes;
	ssize_t n;

	while (w->from < w->waiting.bytes && !w->refused) {
		if (poll(&p, 1, 0) <= 0)
			return 0;
		bytes = w->waiting.bytes - w->from;
		n = write(w->out_fd, w->waiting.data + w->from,
			  bytes < PIECE_BYTES ? bytes : PIECE_BYTES);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n < 0) {
			w->refused = true;
			return -errno;
		}
		w->from += n;
	}
	w->waiting.bytes = w->from = 0;
	return 0;
}

/* What stdio writes to. */
static ssize_t live_view_keep(void *arg, const char *data, size_t bytes)
{
	struct viewer *w = arg;
	int err;

	if (w->from) {
		memmove(w->waiting.data, w->waiting.data + w->from, w->waiting.bytes - w->from);
		w->waiting.bytes -= w->from;
		w->from = 0;
	}
	braid_text_put(&w->waiting, data, bytes);
	err = w->waiting.failed ? -ENOMEM : live_view_give(w);
	if (!err)
		return bytes;
	errno = -err;
	return 0;
}

static bool may_write(void *arg)
{
	struct viewer *w = arg;

	return w->waiting.bytes - w->from < WAITING_BYTES;
}

/* Writes the last lines, while the reader accepts them; a signal now ends this. */
static void give_rest(struct viewer *w)
{
	struct pollfd p = { .fd = w->out_fd, .events = POLLOUT };
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	while (!live_view_give(w) && w->from < w->waiting.bytes)
		poll(&p, 1, -1);
}

/* Following -------------------------------------------------------------------------------- */

/* Reads the pending marks; true: there were some, or the end. -errno with braid_fail(). */
static int take_marks(struct viewer *w)
{
	struct braid_capture_mark marks[NR_MARKS];
	bool any = false;
	ssize_t n;

	for (;;) {
		n = read(w->v->marks_fd, marks, sizeof(marks));
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return any;
		if (n < 0)
			return braid_fail(-errno, "cannot receive from the recorder: %s", strerror(errno));
		if (n < (ssize_t)sizeof(*marks)) {
			w->ended = true;
			w->mark = (struct braid_capture_mark){ .bytes = BRAID_CAPTURE_ALL,
							       .until_ns = INT64_MAX };
			return true;
		}
		w->mark = marks[n / sizeof(*marks) - 1];
		any = true;
	}
}

/* Waits for the recorder's next mark; writes lines meanwhile. 1, or -errno. */
static int await_marks(struct viewer *w)
{
	struct pollfd fds[2] = { { .fd = w->v->marks_fd, .events = POLLIN },
				 { .fd = w->out_fd, .events = POLLOUT } };
	int ret;

	for (;;) {
		ret = live_view_give(w);
		if (ret)
			return ret;
		ret = take_marks(w);
		if (ret)
			return ret;
		poll(fds, w->from < w->waiting.bytes ? 2 : 1, -1);
	}
}

static int more(void *arg)
{
	struct viewer *w = arg;
	int ret = 1;

	if (w->complete)
		return 0;
	if (!w->ended)
		ret = await_marks(w);
	if (ret < 0)
		return ret;
	w->complete = w->ended;
	ret = braid_source_grow(w->source, w->mark.bytes, w->mark.until_ns);
	return ret ? ret : 1;
}

static int view(struct viewer *w)
{
	static const cookie_io_functions_t io = { .write = live_view_keep };
	struct braid_walk_options options = { .more = more, .may_write = may_write, .live_arg = w };
	struct braid_walk_totals totals;
	FILE *to;
	int err;

	err = await_marks(w);
	if (err < 0 || w->ended)	/* or it never began */
		return err < 0 ? err : 0;
	err = braid_source_follow(&w->source, w->v->path, NULL);
	if (err)
		return err;
	to = fopencookie(w, "w", io);
	if (!to)
		return braid_out_of_memory();
	setvbuf(to, NULL, _IONBF, 0);
	err = w->v->json ? braid_export_json(to, w->source, &options, &totals) :
			   braid_export_text(to, w->source, &options, &totals);
	fclose(to);
	if (!err)
		give_rest(w);
	return err;
}

int braid_live_view(const struct braid_live_view *v)
{
	struct viewer w = { .v = v, .out_fd = open_out() };
	int err = braid_cli_confine(BRAID_CONFINE_FILES, NULL);

	if (!err)
		err = view(&w);
	braid_source_free(w.source);
	braid_text_free(&w.waiting);
	return err && err != -EPIPE ? braid_complain() : EXIT_SUCCESS;
}
