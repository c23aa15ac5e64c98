// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Files are named and removed in the folder that was opened for them: one that takes its place
 * meanwhile, by a link, keeps what it has.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/capture/output.h"
#include "host_agent/export/export.h"
#include "host_agent/transport/endpoint.h"
#include "host_agent/transport/listener.h"
#include "host_agent/util/error.h"
#include "host_agent/util/folder.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"

static char dir[] = "/tmp/test_folder.XXXXXX";
static char capture[64], folder[64], moved[64], other[64];

/* What may not be touched in the other folder: each name that an output has at some time. */
static const char *const victims[] = { "out", "out.part", "out.dat", "out.dat.part", "out.old" };

#define EVENTS		80000	/* more than an export writes before it reports its progress */
#define NR_VICTIMS	(sizeof(victims) / sizeof(*victims))

static const char *in(const char *where, const char *name)
{
	static char path[2][128];
	static int turn;

	turn = !turn;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", where, name);
	return path[turn];
}

/* A link to another folder takes the folder's place. */
static void exchange(void)
{
	if (!access(moved, F_OK))
		return;
	NEED(!rename(folder, moved) && !symlink(other, folder));
}

/* Whether nothing of the other folder is missing or replaced; then the folder is back. */
static bool is_untouched(void)
{
	bool untouched = true;
	struct stat st;
	size_t k;

	for (k = 0; k < NR_VICTIMS; k++)
		untouched &= !lstat(in(other, victims[k]), &st) && st.st_size == 6;
	NEED(!access(moved, F_OK));	/* it was exchanged at all */
	NEED(!unlink(folder) && !rename(moved, folder));
	return untouched;
}

static bool is_empty(void)
{
	bool empty = !rmdir(folder);

	NEED(!empty || !mkdir(folder, 0700));
	return empty;
}

static void make_capture(void)
{
	struct braid_capture_writer *w = synth_capture(capture);

	synth_host(w, 1, EVENTS, SYNTH_START_NS, 100);
	NEED(!braid_capture_finish(w));
}

static void make_folders(void)
{
	size_t k;
	int fd;

	NEED(!mkdir(folder, 0700) && !mkdir(other, 0700));
	for (k = 0; k < NR_VICTIMS; k++) {
		fd = open(in(other, victims[k]), O_WRONLY | O_CREAT | O_EXCL, 0600);
		NEED(fd >= 0 && write(fd, "victim", 6) == 6 && !close(fd));
	}
}

static void remove_folders(void)
{
	size_t k;

	for (k = 0; k < NR_VICTIMS; k++)
		unlink(in(other, victims[k]));
	rmdir(other);
	rmdir(folder);
}

static void helper(void)
{
	struct stat made, st;
	int at, fd;

	CHECK_EQ(braid_folder_open(in(folder, "")), -EISDIR);
	CHECK_EQ(braid_folder_open("/"), -EISDIR);
	CHECK_EQ(braid_folder_open(in(folder, "..")), -EISDIR);
	CHECK_EQ(braid_folder_open(""), -ENOENT);
	CHECK_EQ(braid_folder_open("/nonexistent/x"), -ENOENT);
	at = braid_folder_open(in(folder, "out"));
	fd = openat(at, "out", O_WRONLY | O_CREAT | O_EXCL, 0600);
	NEED(at >= 0 && fd >= 0 && !fstat(fd, &made));
	CHECK(braid_folder_has(at, "out", &made) && !braid_folder_has(at, "out.part", &made));
	CHECK_EQ(braid_folder_rename(at, "out", "out.old", &made), 0);
	CHECK_EQ(braid_folder_remove(at, "out", &made), -ESTALE);
	/* Another file, or a link to ours, has the name now. */
	NEED(!renameat(at, "out.old", at, "kept") && !symlinkat("kept", at, "out.old"));
	CHECK_EQ(braid_folder_remove(at, "out.old", &made), -ESTALE);
	CHECK_EQ(braid_folder_rename(at, "out.old", "out", &made), -ESTALE);
	CHECK(!fstatat(at, "out.old", &st, AT_SYMLINK_NOFOLLOW) && !unlinkat(at, "out.old", 0));
	CHECK_EQ(braid_folder_remove(at, "kept", &made), 0);
	close(fd);
	close(at);
	CHECK(is_empty());
}

static void captures(void)
{
	struct braid_output output;
	int fd = braid_output_open(&output, in(folder, "out"));

	NEED(fd >= 0);
	exchange();
	braid_output_discard(&output);
	close(fd);
	CHECK(is_untouched() && is_empty());
	fd = braid_output_open(&output, in(folder, "out"));
	NEED(fd >= 0);
	output.keep_former = true;
	exchange();
	CHECK_EQ(braid_output_publish(&output), 0);
	close(fd);
	CHECK(is_untouched() && !unlink(in(folder, "out")) && is_empty());
}

/* The unfinished files have other names, which no message has. */
static void messages(void)
{
	struct braid_output output;
	int fd = braid_output_open(&output, in(folder, "out"));

	NEED(fd >= 0 && !unlink(in(folder, "out.part")));
	CHECK_EQ(braid_output_publish(&output), -ESTALE);
	CHECK(!strstr(braid_failure(), ".part"));
	braid_output_discard(&output);
	close(fd);
	fd = braid_output_open(&output, in(folder, "out"));
	NEED(fd >= 0 && !mkdir(in(folder, "out"), 0700));
	CHECK_EQ(braid_output_publish(&output), -EISDIR);
	CHECK(!strstr(braid_failure(), ".part") && strstr(braid_failure(), "in the same folder, as 'out.*'"));
	close(fd);
	CHECK(!unlink(in(folder, "out.part")) && !rmdir(in(folder, "out")) && is_empty());
}

static volatile sig_atomic_t stop;

/* In the midst of an export, that may then be stopped. */
static void exchange_at(void *arg, const char *what, u64 done, u64 total)
{
	(void)what;
	(void)done;
	(void)total;
	exchange();
	stop = *(const bool *)arg;
}

static int run(const char *form, bool stopped)
{
	const struct braid_walk_options options = {
		.progress = exchange_at, .progress_arg = &stopped, .stop = &stop,
	};
	struct braid_walk_totals totals;
	struct braid_source *source;
	char *names[] = { capture };
	int err;

	stop = 0;
	NEED(!braid_source_open_captures(&source, names, 1, NULL));
	err = braid_export_run(braid_export_form_by_name(form), in(folder, "out"), source, &options,
			       &totals);
	braid_source_free(source);
	return err;
}

static void exports(void)
{
	static const char *const forms[] = { "json", "trace.dat", "ctf", "html" };
	static const char *const made[] = { "out", "out.dat", "out/host/metadata", "out" };
	char command[160];
	size_t k;

	for (k = 0; k < sizeof(forms) / sizeof(*forms); k++) {
		CHECK(run(forms[k], true) < 0);
		CHECK(is_untouched() && is_empty());
		CHECK_EQ(run(forms[k], false), 0);
		CHECK(is_untouched() && !access(in(folder, made[k]), F_OK));
		snprintf(command, sizeof(command), "rm -r %s/*", folder);
		NEED(!system(command) && is_empty());
	}
}

static void sockets(void)
{
	struct braid_socket_address address = { .group = (gid_t)-1 };
	struct braid_listener listener;
	struct braid_endpoint *endpoint;
	char text[256];

	strcpy(address.path, in(folder, "out"));
	NEED(!braid_listener_open(&listener, &address));
	exchange();
	braid_listener_close(&listener, &address);
	CHECK(is_untouched() && is_empty());
	/* Its memory, too. */
	snprintf(text, sizeof(text), "ivshmem-doorbell:%s,shm=%s/out.dat,size=1M", address.path, folder);
	NEED(!braid_endpoint_open(&endpoint, text));
	exchange();
	braid_endpoint_close(endpoint);
	CHECK(is_untouched() && is_empty());
}

int main(void)
{
	NEED(mkdtemp(dir));
	snprintf(capture, sizeof(capture), "%s/capture.braid", dir);
	snprintf(folder, sizeof(folder), "%s/folder", dir);
	snprintf(moved, sizeof(moved), "%s/moved", dir);
	snprintf(other, sizeof(other), "%s/other", dir);
	make_capture();
	make_folders();
	RUN(helper);
	RUN(captures);
	RUN(messages);
	RUN(exports);
	RUN(sockets);
	remove_folders();
	unlink(capture);
	CHECK(!rmdir(dir));
	return VERDICT();
}
