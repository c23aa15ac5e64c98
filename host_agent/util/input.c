// SPDX-License-Identifier: GPL-2.0-or-later
/* Input files of a command, opened before it drops its privileges. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/input.h"

struct input {
	const char *path;	/* the caller's */
	int fd;			/* until the process ends */
};

static struct input *inputs;
static size_t nr_inputs, capacity;

static int open_to_read(const char *path)
{
	int fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) :
		 fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	return fd < 0 ? -errno : fd;
}

int braid_input_keep(const char *path)
{
	struct input input = { .path = path, .fd = open_to_read(path) };

	if (input.fd < 0)
		return 0;
	if (braid_array_push(inputs, nr_inputs, capacity, input))
		return braid_out_of_memory();
	return 0;
}

int braid_input_open(const char *path)
{
	size_t k;
	int fd;

	for (k = 0; k < nr_inputs; k++) {
		if (strcmp(inputs[k].path, path))
			continue;
		fd = fcntl(inputs[k].fd, F_DUPFD_CLOEXEC, 0);
		return fd < 0 ? -errno : fd;
	}
	return open_to_read(path);
}
