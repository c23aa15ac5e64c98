// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <ftw.h>
#include <unistd.h>

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
