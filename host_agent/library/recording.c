// SPDX-License-Identifier: GPL-2.0-or-later
/* Recordings, and what is in regions: the program tracebraid makes captures of them. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host_agent/library/private.h"
#include "host_agent/library/program.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"

#define LACKS		3	/* the status of a recording that has less than was asked for */
#define MOST_LINE_BYTES	(1u << 20)

struct tracebraid_recording {
	struct braid_program program;
	int status_fd;		/* -1: at its end */
	char *text;		/* of the status that was read: lines, the last one perhaps not whole */
	size_t bytes, capacity;
	size_t from;		/* the next line */
};

/* Recordings ---------------------------------------------------------------------------------- */

/* Return: words for the program, then NULL, to be freed; the last @nr of them are @options. */
static const char **words_of(const char *const *first, const char *const *options)
{
	size_t nr_first, nr;
	const char **words;

	for (nr_first = 0; first[nr_first]; nr_first++)
		;
	for (nr = 0; options && options[nr]; nr++)
		;
	words = calloc(nr_first + nr + 1, sizeof(*words));
	if (!words)
		return NULL;
	memcpy(words, first, nr_first * sizeof(*words));
	if (nr)
		memcpy(words + nr_first, options, nr * sizeof(*words));
	return words;
}

static int recording_start(struct tracebraid_recording *r, const char *path,
			   const char *const *options,
			   const char *program)
{
	const char *const first[] = {
		"tracebraid", "record", "-q", "--status-fd", "3", "-o", path, NULL,
	};
	const char **words = words_of(first, options);
	int fds[2], err;

	_Static_assert(BRAID_PROGRAM_STATUS_FD == 3, "as in the words");
	if (!words)
		return braid_out_of_memory();
	err = pipe2(fds, O_CLOEXEC) ? braid_fail(-errno, "cannot create a pipe: %s", strerror(errno)) : 0;
	if (!err) {
		err = braid_program_start(&r->program, program, words, -1, fds[1]);
		close(fds[1]);
		r->status_fd = fds[0];
		fcntl(fds[0], F_SETFL, O_NONBLOCK);
	}
	free(words);
	return err;
}

int tracebraid_record(struct tracebraid_recording **recording, const char *path,
		      const char *const *options, const char *program)
{
	struct tracebraid_recording *r;
	int err;

	if (!strcmp(path, "-"))
		return braid_fail(-EINVAL, "a recording needs a file name; '-' is not supported");
	r = calloc(1, sizeof(*r));
	if (!r)
		return braid_out_of_memory();
	r->status_fd = r->program.errors_fd = -1;
	err = recording_start(r, path, options, program);
	if (err)
		tracebraid_recording_free(r);
	else
		*recording = r;
	return err;
}

int tracebraid_recording_fd(const struct tracebraid_recording *r)
{
	return r->status_fd;
}

/* Reads what is there, without waiting. Return: 0, or -ENOMEM with braid_fail(). */
static int recording_take(struct tracebraid_recording *r)
{
	ssize_t n;

	while (r->status_fd >= 0) {
		if (r->from) {
			memmove(r->text, r->text + r->from, r->bytes - r->from);
			r->bytes -= r->from;
			r->from = 0;
		}
		if (r->capacity - r->bytes < 4096) {
			char *more = r->capacity < MOST_LINE_BYTES ? realloc(r->text, r->capacity + 65536) :
								     NULL;

			if (!more)
				return r->bytes && memchr(r->text, '\n', r->bytes) ? 0 :
				       braid_out_of_memory();
			r->text = more;
			r->capacity += 65536;
		}
		n = read(r->status_fd, r->text + r->bytes, r->capacity - r->bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0) {
			close(r->status_fd);
			r->status_fd = -1;
			return 0;
		}
		r->bytes += n;
	}
	return 0;
}

/* Return: the next whole line; NULL: none is there. */
static const char *next_line(struct tracebraid_recording *r)
{
	const char *line = r->text + r->from;
	char *end = r->bytes > r->from ? memchr(line, '\n', r->bytes - r->from) : NULL;

	if (!end)
		return NULL;
	*end = 0;
	r->from = end + 1 - r->text;
	return line;
}

int tracebraid_recording_next(struct tracebraid_recording *r, int timeout_ms, const char **json)
{
	u64 start_ns = braid_monotonic_ns();
	struct pollfd p[2];
	s64 left_ms;
	int err;

	for (;;) {
		*json = next_line(r);
		if (*json)
			return 1;
		braid_program_listen(&r->program);
		err = recording_take(r);
		if (err)
			return err;
		*json = next_line(r);
		if (*json)
			return 1;
		if (r->status_fd < 0)
			return 0;
		left_ms = timeout_ms < 0 ? -1 :
			  timeout_ms - (s64)((braid_monotonic_ns() - start_ns) / 1000000);
		if (timeout_ms >= 0 && left_ms <= 0)
			return -EAGAIN;
		p[0] = (struct pollfd){ .fd = r->status_fd, .events = POLLIN };
		p[1] = (struct pollfd){ .fd = r->program.errors_fd, .events = POLLIN };
		if (poll(p, 2, left_ms) < 0)
			return errno == EINTR ? -EAGAIN : braid_fail(-errno, "cannot wait: %s",
								     strerror(errno));
	}
}

int tracebraid_recording_stop(struct tracebraid_recording *r)
{
	if (!r->program.pid)
		return 0;	/* it has ended */
	return kill(r->program.pid, SIGINT) ?
	       braid_fail(-errno, "cannot stop the recording: %s", strerror(errno)) : 0;
}

int tracebraid_recording_wait(struct tracebraid_recording *r, int *status)
{
	const char *line;
	int err;

	while ((err = tracebraid_recording_next(r, -1, &line)) == 1 || err == -EAGAIN)
		;
	if (!err)
		err = braid_program_wait(&r->program, LACKS);
	if (status && !r->program.pid)
		*status = r->program.status;
	return err;
}

void tracebraid_recording_free(struct tracebraid_recording *r)
{
	if (!r)
		return;
	if (r->program.pid) {
		tracebraid_recording_stop(r);
		tracebraid_recording_wait(r, NULL);
		braid_program_kill(&r->program);
	}
	if (r->status_fd >= 0)
		close(r->status_fd);
	free(r->text);
	free(r);
}

/* Regions --------------------------------------------------------------------------------------- */

static int recover(int fd, const char *const *sources, const char *program)
{
	const char *const first[] = { "tracebraid", "recover", "-q", "-o", "-", "--", NULL };
	const char **words = words_of(first, sources);
	struct braid_program p;
	int err;

	if (!words)
		return braid_out_of_memory();
	err = braid_program_start(&p, program, words, fd, -1);
	free(words);
	return err ? err : braid_program_wait(&p, 0);
}

int tracebraid_open_regions(struct tracebraid_trace **trace, const char *const *sources,
			    const char *program, void (*warn)(void *arg, const char *line), void *arg)
{
	int fd = memfd_create("tracebraid-region", MFD_CLOEXEC), err;
	char path[64];
	const char *const paths[] = { path };

	if (fd < 0)
		return braid_fail(-errno, "cannot create the memory of the region: %s", strerror(errno));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	err = *sources ? recover(fd, sources, program) : braid_fail(-EINVAL, "no region or dump given");
	if (!err)
		err = tracebraid_open(trace, paths, 1, NULL, warn, arg);
	close(fd);
	return err;
}
