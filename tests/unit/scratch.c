// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/util/io.h"
#include "tests/unit/need.h"
#include "tests/unit/scratch.h"

#define MOST_PATHS	64u

static char folder[64];
static char paths[MOST_PATHS][96];
static unsigned int nr_paths;
static pid_t owner;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

/* A process that was forked leaves it. */
static void remove_folder(void)
{
	if (getpid() == owner)
		nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

char *scratch(const char *name)
{
	if (!owner) {
		owner = getpid();
		snprintf(folder, sizeof(folder), "/tmp/%s.XXXXXX", program_invocation_short_name);
		NEED(mkdtemp(folder) && !atexit(remove_folder));
	}
	NEED(nr_paths < MOST_PATHS);
	snprintf(paths[nr_paths], sizeof(paths[0]), "%s/%s", folder, name);
	return paths[nr_paths++];
}

void *read_file(const char *path, size_t *bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	char *data;

	NEED(fd >= 0 && !fstat(fd, &st));
	*bytes = st.st_size;
	data = calloc(1, *bytes + 1);
	NEED(data && braid_pread_all(fd, data, *bytes, 0) == st.st_size);
	close(fd);
	return data;
}

void write_file(const char *path, const void *data, size_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	NEED(fd >= 0 && !braid_write_all(fd, data, bytes));
	close(fd);
}

bool same_files(const char *a, const char *b)
{
	size_t a_bytes, b_bytes;
	void *one = read_file(a, &a_bytes), *two = read_file(b, &b_bytes);
	bool same = a_bytes == b_bytes && !memcmp(one, two, a_bytes);

	free(one);
	free(two);
	return same;
}
