// SPDX-License-Identifier: GPL-2.0-or-later
/* What a command does before it reads a guest or a capture: it opens its files, and gives up the rest. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/discover/discover.h"
#include "host_agent/trace/trace_dat_ids.h"
#include "host_agent/transport/vm_mirror.h"
#include "host_agent/transport/vm_reader.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/input.h"
#include "host_agent/util/io.h"
#include "host_agent/util/landlock.h"
#include "host_agent/util/peek.h"

#define MOST_BYTES	(1ULL << 30)
#define STEP_BYTES	(256u << 10)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CONFINES	0
#elif defined(__has_feature)
#define CONFINES	!(__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define CONFINES	1
#endif

bool braid_is_capture(const char *path)
{
	struct stat st;
	char head[4];
	ssize_t n;
	int fd;

	if (!strcmp(path, "-"))
		return true;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return false;
	n = fstat(fd, &st) || !S_ISREG(st.st_mode) ? -1 : read(fd, head, sizeof(head));
	close(fd);
	return n < (ssize_t)sizeof(head) || !memcmp(head, "BRCK", sizeof(head)) ||
	       !memcmp(head, BRAID_TRACE_DAT_MAGIC, sizeof(head));
}

bool braid_cli_confines(void)
{
	return CONFINES;
}

int braid_cli_confine(enum braid_confine what, const pid_t children[BRAID_CONFINE_CHILDREN])
{
	int err = 0;

	if (!CONFINES)
		return 0;
	if (what == BRAID_CONFINE_INSPECT || what == BRAID_CONFINE_RECORD) {
		err = braid_qemu_keep(what == BRAID_CONFINE_RECORD);
		if (!err)
			err = braid_peek_start();
		if (!err)
			err = braid_vm_reader_start();
	}
	return err ? err : braid_confine(what, children);
}

/* A capture is read more than once, so a pipe is read to its end. */
static int copy_input(int to)
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

/* Reads standard input into memory if it is among the captures. Return: 0, or -errno with braid_fail(). */
static int keep_input(char *const *paths, size_t nr)
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
	err = copy_input(fd);
	if (!err && dup2(fd, STDIN_FILENO) < 0)
		err = braid_fail(-errno, "standard input: %s", strerror(errno));
	close(fd);
	return err;
}

int braid_cli_confine_to(const char *out, char *const *paths, size_t nr)
{
	bool writes = out && strcmp(out, "-");
	size_t k;
	int err = keep_input(paths, nr);

	for (k = 0; k < nr && CONFINES && !err; k++)
		err = braid_input_keep(paths[k]);
	if (!err && writes)
		err = braid_landlock_allow(out, BRAID_PLACE_OUTPUT);
	return err ? err : braid_cli_confine(writes ? BRAID_CONFINE_CONVERT : BRAID_CONFINE_FILES, NULL);
}

int braid_cli_confine_fleet(const char *folder)
{
	static const char *const read[] = { "/etc/-", "/usr/-" };
	char path[PATH_MAX];
	size_t k;
	int err = 0;

	for (k = 0; k < sizeof(read) / sizeof(*read) && !err; k++)
		err = braid_landlock_allow(read[k], BRAID_PLACE_READ);
	if (!err && folder) {
		snprintf(path, sizeof(path), "%s/-", folder);
		err = braid_landlock_allow(path, BRAID_PLACE_OUTPUT);
	}
	return err ? err :
	       braid_cli_confine(folder ? BRAID_CONFINE_FETCH : BRAID_CONFINE_FLEET, NULL);
}

int braid_cli_needs_mapping(const char *word, const char *path)
{
	if (strncmp(path, BRAID_VM_SCHEME, strlen(BRAID_VM_SCHEME)))
		return 0;
	return braid_fail(-EOPNOTSUPP, "%s: this region is in the guest's own memory, which is only read: 'tracebraid recover %s' makes a capture of it, 'tracebraid record -r %s' records it",
			  word, word, word);
}

int braid_cli_target(char *const *word, char path[256])
{
	struct braid_named named = { .word = *word };
	bool capture = braid_is_capture(*word);
	int err = capture ? braid_cli_confine_to(NULL, word, 1) :
			    braid_cli_confine(BRAID_CONFINE_INSPECT, NULL);

	if (err || capture)
		return err ? err : BRAID_TARGET_CAPTURE;
	err = braid_resolve(&named, 1);
	if (err)
		return err;
	err = braid_cli_needs_mapping(*word, named.path);
	if (err)
		return err;
	strcpy(path, named.path);
	return 0;
}
