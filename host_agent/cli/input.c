// SPDX-License-Identifier: GPL-2.0-or-later
/* Standard input as a capture: read to its end, since a capture is read more than once. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"

#define MOST_BYTES	(1ULL << 30)
#define STEP_BYTES	(256u << 10)

static int copy(int to)
{
	braid_auto_free u8 *buffer = malloc(STEP_BYTES);
	u64 bytes = 0;
	ssize_t n;
	int err;

	if (!buffer)
		return braid_out_of_memory();
	for (;;) {
		n = read(STDIN_FILENO, buffer, STEP_BYTES);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? braid_fail(-errno, "standard input: %s", strerror(errno)) : 0;
		bytes += n;
		if (bytes > MOST_BYTES)
			return braid_fail(-EFBIG, "standard input: more than %llu MiB; save it to a file and give its name",
					  MOST_BYTES >> 20);
		err = braid_write_all(to, buffer, n);
		if (err)
			return braid_fail(err, "standard input: cannot buffer it in memory: %s",
					  strerror(-err));
	}
}

int braid_cli_input(char *const *paths, size_t nr)
{
	struct stat st;
	size_t k;
	int fd, err;

	for (k = 0; k < nr && strcmp(paths[k], "-"); k++)
		;
	if (k == nr || (!fstat(STDIN_FILENO, &st) && S_ISREG(st.st_mode)))
		return 0;
	if (isatty(STDIN_FILENO))
		return braid_fail(-EINVAL, "standard input is a terminal; '-' reads what 'tracebraid record -o -' writes");
	fd = memfd_create("capture", MFD_CLOEXEC);
	if (fd < 0)
		return braid_fail(-errno, "standard input: cannot buffer it in memory: %s", strerror(errno));
	err = copy(fd);
	if (!err && dup2(fd, STDIN_FILENO) < 0)
		err = braid_fail(-errno, "standard input: %s", strerror(errno));
	close(fd);
	return err;
}
