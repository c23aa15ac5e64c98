// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Where a confined process may write: at the places that it has named before, and only as it has
 * said.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/util/confine.h"
#include "host_agent/util/landlock.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

static char dir[] = "/tmp/test_landlock.XXXXXX";
static char file[64];		/* files are made, written and removed there */
static char written[64];	/* ... are written, not made or removed */
static char removed[64];	/* ... are removed */
static char elsewhere[64];	/* no place of ours */
static long abi;		/* the version of the kernel's Landlock */

/* An operation to try: 0, or -errno. */
typedef int trial(void);

static int result(long ret)
{
	return ret < 0 ? -errno : 0;
}

static int try_open(const char *path, int flags)
{
	return result(open(path, flags | O_CLOEXEC, 0600));
}

/* The kernel writes there regardless of a page's protection. */
static int try_own_text(void)
{
	return try_open("/proc/self/mem", O_RDWR);
}

static int try_make(void)
{
	char path[80];

	snprintf(path, sizeof(path), "%s.new", file);
	return try_open(path, O_WRONLY | O_CREAT) ?: result(rename(path, file));
}

static int try_write_elsewhere(void)
{
	return try_open(elsewhere, O_WRONLY);
}

static int try_make_elsewhere(void)
{
	char path[80];

	snprintf(path, sizeof(path), "%s.new", elsewhere);
	return try_open(path, O_WRONLY | O_CREAT);
}

static int try_remove_elsewhere(void)
{
	return result(unlink(elsewhere));
}

static int try_replace_elsewhere(void)
{
	return result(rename(file, elsewhere));
}

static int try_written(void)
{
	return try_open(written, O_RDWR);
}

static int try_shorten_written(void)
{
	return try_open(written, O_WRONLY | O_TRUNC);
}

static int try_make_beside_written(void)
{
	char path[80];

	snprintf(path, sizeof(path), "%s.new", written);
	return try_open(path, O_WRONLY | O_CREAT);
}

static int try_remove_written(void)
{
	return result(unlink(written));
}

static int try_write_removed(void)
{
	return try_open(removed, O_WRONLY | O_NONBLOCK);
}

static int try_removed(void)
{
	return result(unlink(removed));
}

static int try_device(void)
{
	return try_open("/dev/null", O_WRONLY);
}

static int try_other_device(void)
{
	return try_open("/dev/zero", O_WRONLY);
}

static int try_read_written(void)
{
	return try_open(written, O_RDONLY);
}

static int try_read_elsewhere(void)
{
	return try_open(elsewhere, O_RDONLY);
}

/* The result in a confined process. A positive number: it cannot be confined. */
static int confined(enum braid_confine what, trial *one)
{
	int status = 0;
	pid_t pid = fork();

	NEED(pid >= 0);
	if (!pid)
		_exit(braid_confine(what, NULL) ? 255 : -one());
	NEED(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status) == 255 ? 255 : -WEXITSTATUS(status);
}

/* Landlock lets files be written only where the process said that it needs that. */
static void other_places_are_read_only(void)
{
	static trial *const refused[] = {
		try_own_text, try_write_elsewhere, try_make_elsewhere, try_remove_elsewhere,
		try_replace_elsewhere,
		try_make_beside_written, try_remove_written, try_write_removed, try_other_device,
	};
	enum braid_confine what;
	size_t k;

	for (what = BRAID_CONFINE_CONVERT; what <= BRAID_CONFINE_RECORD; what += 2) {
		for (k = 0; k < sizeof(refused) / sizeof(*refused); k++)
			CHECK_EQ(confined(what, refused[k]), -EACCES);
		CHECK_EQ(confined(what, try_make), 0);
		CHECK_EQ(confined(what, try_written), 0);
		CHECK_EQ(confined(what, try_shorten_written), abi < 3 ? 0 : -EACCES);
		CHECK_EQ(confined(what, try_device), 0);
		CHECK_EQ(confined(what, try_removed), 0);
		NEED(!mkfifo(removed, 0600));
	}
	CHECK(!access(elsewhere, F_OK) && !access(written, F_OK) && !access(file, F_OK));
}

/* A process that says where it reads can read nowhere else. */
static void other_places_are_not_read(void)
{
	CHECK_EQ(confined(BRAID_CONFINE_FLEET, try_read_elsewhere), 0);
	NEED(!braid_landlock_allow(written, BRAID_PLACE_READ));
	CHECK_EQ(confined(BRAID_CONFINE_FLEET, try_read_written), 0);
	CHECK_EQ(confined(BRAID_CONFINE_FLEET, try_read_elsewhere), -EACCES);
	CHECK_EQ(confined(BRAID_CONFINE_FETCH, try_read_elsewhere), -EACCES);
	CHECK_EQ(confined(BRAID_CONFINE_FETCH, try_make), 0);
}

/*
 * A file in a folder of its own, in which files may be handled as @place says, or (NULL) not at
 * all.
 */
static void make_place(char *path, const char *name, const enum braid_place *place)
{
	char folder[48];
	int fd;

	snprintf(folder, sizeof(folder), "%s/%s", dir, name);
	snprintf(path, sizeof(file), "%s/file", folder);
	NEED(!mkdir(folder, 0700));
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	NEED(fd >= 0);
	close(fd);
	if (path == removed)	/* as a socket is */
		NEED(!unlink(path) && !mkfifo(path, 0600));
	NEED(!place || !braid_landlock_allow(path, *place));
}

static void make_places(void)
{
	static const enum braid_place places[] = {
		BRAID_PLACE_OUTPUT, BRAID_PLACE_WRITTEN, BRAID_PLACE_REMOVED,
	};

	make_place(file, "output", &places[0]);
	make_place(written, "written", &places[1]);
	make_place(removed, "removed", &places[2]);
	make_place(elsewhere, "elsewhere", NULL);
	NEED(!braid_landlock_allow("/dev/null", BRAID_PLACE_OUTPUT));	/* not its folder */
	NEED(!braid_landlock_allow("/proc/self/mem", BRAID_PLACE_OUTPUT));	/* never */
	NEED(!braid_landlock_allow("/file-of-the-root", BRAID_PLACE_WRITTEN));	/* not all of it */
	NEED(!braid_landlock_allow("-", BRAID_PLACE_OUTPUT));
}

static void remove_places(void)
{
	static char *const files[] = { file, written, removed, elsewhere };
	size_t k;

	for (k = 0; k < sizeof(files) / sizeof(*files); k++) {
		unlink(files[k]);
		rmdir(dirname(files[k]));
	}
	rmdir(dir);
}

int main(void)
{
	abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1);
	if (abi < 1) {
		printf("skip %s: this kernel has no Landlock\n", __FILE__);
		return 0;
	}
	NEED(mkdtemp(dir) && !chdir("/"));	/* as a service; it makes no difference */
	make_places();
	RUN(other_places_are_read_only);
	RUN(other_places_are_not_read);
	remove_places();
	return VERDICT();
}
