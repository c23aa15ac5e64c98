// SPDX-License-Identifier: GPL-2.0-or-later
/* Opening, finding and naming regions, and each way in which that fails. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/discover/discover.h"
#include "host_agent/discover/region_file.h"
#include "host_agent/transport/transport.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/fake_guest.h"
#include "tests/unit/scratch.h"

static char dir[] = "/tmp/test_transport.XXXXXX";
static char path[64], other[64];

static const struct fake_params usual = {
	.name = "nodename", .bytes = 1 << 20, .nr_vcpus = 1, .subbuf_bytes = 1024, .nr_slots = 8,
};

/* Opens and identifies a region. Return: the errno of the failed step. */
static int look(const char *at, struct braid_superblock *sb)
{
	struct braid_mapping *m;
	int err = braid_mapping_open(&m, at, false);

	if (err)
		return err;
	err = braid_mapping_identify(m, sb);
	braid_mapping_close(m);
	return err;
}

static void test_invalid_regions(void)
{
	static const u64 mark = BRAID_MARK;
	struct braid_superblock sb;
	struct braid_mapping *m;
	char page[4096];

	CHECK_EQ(look(other, &sb), -ENOENT);
	CHECK(strstr(braid_failure(), "no such file or region"));
	CHECK_EQ(look(dir, &sb), -EMEDIUMTYPE);
	CHECK_EQ(look("/dev/null", &sb), -EMEDIUMTYPE);
	write_file(other, "", 0);
	CHECK_EQ(look(other, &sb), -ENODATA);
	write_file(other, "short", 5);
	CHECK_EQ(look(other, &sb), -EMEDIUMTYPE);
	memset(page, 0, sizeof(page));
	write_file(other, page, sizeof(page));
	CHECK_EQ(look(other, &sb), -ENODATA);
	CHECK(strstr(braid_failure(), "no driver has used it yet") && strstr(braid_failure(), "tracebraid create"));
	memcpy(page, &mark, sizeof(mark));
	write_file(other, page, sizeof(page));
	CHECK_EQ(look(other, &sb), -ENODATA);
	CHECK(strstr(braid_failure(), "no driver has used it yet") && !strstr(braid_failure(), "create"));
	CHECK_EQ(braid_mapping_open(&m, other, false), 0);
	CHECK(braid_mapping_marked(m));
	braid_mapping_close(m);
	memset(page, 'x', sizeof(page));
	write_file(other, page, sizeof(page));
	CHECK_EQ(look(other, &sb), -EMEDIUMTYPE);
	unlink(other);
	CHECK_EQ(symlink(path, other), 0);
	CHECK_EQ(look(other, &sb), -EMEDIUMTYPE);
	unlink(other);
}

static void test_superblock(void)
{
	struct fake_guest *g = fake_guest_new(path, &usual);
	struct braid_superblock *shared = (struct braid_superblock *)g->base, sb;

	CHECK_EQ(look(path, &sb), 0);
	CHECK_EQ(sb.incarnation, g->sb.incarnation);
	shared->state = BRAID_STATE_DOWN;
	CHECK_EQ(look(path, &sb), 0);
	shared->state = BRAID_STATE_INIT;
	CHECK_EQ(look(path, &sb), -EAGAIN);
	shared->state = 77;
	CHECK_EQ(look(path, &sb), -EBADMSG);
	shared->state = BRAID_STATE_LIVE;
	shared->version_major++;
	CHECK_EQ(look(path, &sb), -EPROTO);
	shared->version_major--;
	shared->version_minor += 9;
	CHECK_EQ(look(path, &sb), 0);
	shared->sections[BRAID_SECTION_DIRECTORY].offset = ~0ULL << 12;
	CHECK_EQ(look(path, &sb), -EBADMSG);
	fake_guest_free(g);
}

static int touch(void *arg)
{
	return *(volatile u8 *)arg;
}

static int touch_within(void *arg)
{
	struct braid_mapping *m = arg;

	/* The inner guard is of other memory: the fault is the outer one's. */
	return braid_guard_run(&m->bytes, sizeof(m->bytes), touch, m->base + 8192);
}

static void test_guard(void)
{
	struct fake_guest *g = fake_guest_new(path, &usual);
	struct braid_mapping *m;
	int turn;

	CHECK_EQ(braid_mapping_open(&m, path, false), 0);
	CHECK(braid_guard_run(m->base, m->bytes, touch, m->base + 8192) >= 0);
	CHECK(!braid_mapping_gone(m));
	CHECK_EQ(ftruncate(g->fd, 4096), 0);
	CHECK(braid_mapping_gone(m));
	for (turn = 0; turn < 3; turn++) {
		CHECK_EQ(braid_guard_run(m->base, m->bytes, touch, m->base + 8192), -EFAULT);
		CHECK_EQ(braid_guard_run(m->base, m->bytes, touch_within, m), -EFAULT);
		CHECK(braid_guard_run(m->base, m->bytes, touch, m->base) >= 0);
	}
	braid_mapping_close(m);
	fake_guest_free(g);
}

/* A process called @program that maps the region and has a name. */
static pid_t start_vmm(char *program, char *name)
{
	char *argv[] = { program, "-name", name, "-daemon", NULL };
	int pipe_fds[2];
	char c;
	pid_t pid;

	CHECK_EQ(pipe(pipe_fds), 0);
	pid = fork();
	if (!pid) {
		dup2(pipe_fds[1], 1);
		setenv("TEST_TRANSPORT_QEMU", path, 1);
		execv("/proc/self/exe", argv);
		_exit(1);
	}
	close(pipe_fds[1]);
	CHECK_EQ(read(pipe_fds[0], &c, 1), 1);
	close(pipe_fds[0]);
	return pid;
}

static pid_t start_qemu(char *name)
{
	return start_vmm("/usr/bin/qemu-system-test", name);
}

static int be_qemu(const char *region)
{
	int fd = open(region, O_RDWR);

	if (mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED)
		return 1;
	if (write(1, "!", 1) != 1)
		return 1;
	for (;;)
		pause();
}

static void test_names(void)
{
	struct fake_guest *g = fake_guest_new(path, &usual);
	const char *paths[] = { path };
	struct braid_found *found;
	size_t nr, k;
	pid_t pid;

	CHECK_EQ(braid_discover(&found, &nr, paths, 1, 0, NULL), 0);
	CHECK_EQ(nr, 1);
	CHECK(!strcmp(found->name, "nodename"));
	CHECK_EQ(found->state, BRAID_DRIVER_LIVE);
	CHECK_EQ(found->events.total, FAKE_NR_EVENTS);
	free(found);

	pid = start_qemu("guest=web,debug-threads=on");
	CHECK_EQ(braid_discover(&found, &nr, NULL, 0, 0, NULL), 0);
	for (k = 0; k < nr && strcmp(found[k].path, path); k++)
		;
	CHECK(k < nr && !strcmp(found[k].name, "web") && found[k].qemu_pid == pid);
	free(found);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	fake_guest_free(g);
}

static pid_t found_by(char *program)
{
	pid_t pid = start_vmm(program, "web"), found_pid;
	const char *paths[] = { path };
	struct braid_found *found;
	size_t nr;

	CHECK_EQ(braid_discover(&found, &nr, paths, 1, 0, NULL), 0);
	CHECK_EQ(nr, 1);
	found_pid = found->qemu_pid;
	CHECK(!found_pid || found_pid == pid);
	free(found);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return found_pid;
}

/* A guest's VMM is found by the program's name, not by a folder's. */
static void test_vmms(void)
{
	struct fake_guest *g = fake_guest_new(path, &usual);

	CHECK(found_by("qemu-kvm"));
	CHECK(found_by("/usr/bin/cloud-hypervisor-static"));
	CHECK(found_by("./crosvm"));
	CHECK(found_by("/srv/jailer/firecracker-v1.15"));
	CHECK(!found_by("/opt/firecracker/bin/uploader"));
	fake_guest_free(g);
}

/* The name from a QEMU has precedence over another guest's own name. */
static void test_names_of_qemu_stay(void)
{
	struct fake_guest *g = fake_guest_new(path, &usual), *liar = fake_guest_new(other, &usual);
	const char *paths[] = { other, path };
	struct braid_found *found;
	pid_t pid = start_qemu("guest=nodename");
	size_t nr;

	CHECK_EQ(braid_discover(&found, &nr, paths, 2, 0, NULL), 0);
	CHECK_EQ(nr, 2);
	CHECK(!strcmp(found[0].name, "other") && !found[0].qemu_pid);
	CHECK(!strcmp(found[1].name, "nodename") && found[1].qemu_pid == pid);
	free(found);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	fake_guest_free(liar);
	fake_guest_free(g);
}

/* The result of a search for a region in /dev/shm; -1: not found. */
static int found_as(const char *shm)
{
	struct braid_found *found;
	int state = -1;
	size_t nr, k;

	CHECK_EQ(braid_discover(&found, &nr, NULL, 0, 0, NULL), 0);
	for (k = 0; k < nr; k++)
		if (!strcmp(found[k].path, shm))
			state = found[k].state;
	free(found);
	return state;
}

/* An ordinary user's file there is not a guest for root's agent, unless it is given by path. */
static void test_foreign_files(void)
{
	char shm[] = "/dev/shm/test_transport.XXXXXX";
	const char *paths[] = { shm };
	struct braid_found *found;
	struct fake_guest *g;
	size_t nr;
	int fd;

	if (geteuid())
		return;
	fd = mkstemp(shm);
	CHECK(fd >= 0);
	close(fd);
	g = fake_guest_new(shm, &usual);
	CHECK_EQ(found_as(shm), BRAID_DRIVER_LIVE);
	CHECK_EQ(chown(shm, 65534, -1), 0);
	CHECK_EQ(found_as(shm), BRAID_DRIVER_UNREADABLE);
	CHECK_EQ(braid_discover(&found, &nr, paths, 1, 0, NULL), 0);
	CHECK_EQ(found->state, BRAID_DRIVER_LIVE);
	free(found);
	fake_guest_free(g);
}

static void test_liveness(void)
{
	struct fake_guest *g = fake_guest_new(path, &usual);
	const char *paths[] = { path };
	struct braid_found *found;
	size_t nr;

	fake_guest_start_thread(g);
	CHECK_EQ(braid_discover(&found, &nr, paths, 1, BRAID_DISCOVER_LIVENESS, NULL), 0);
	CHECK_EQ(found->state, BRAID_DRIVER_LIVE);
	free(found);
	fake_guest_stop(g);
	CHECK(!braid_region_file_unread(path));
	fake_guest_write(g, 0, 1);	/* little, but not nothing */
	CHECK(braid_region_file_unread(path) && !braid_region_file_unread("/nonexistent"));
	CHECK_EQ(braid_discover(&found, &nr, paths, 1, BRAID_DISCOVER_LIVENESS, NULL), 0);
	CHECK_EQ(found->state, BRAID_DRIVER_SILENT);
	CHECK(found->fill_permille[0] > 0 && found->fill_permille[0] <= 1000);
	free(found);
	fake_guest_free(g);
}

int main(void)
{
	if (getenv("TEST_TRANSPORT_QEMU"))
		return be_qemu(getenv("TEST_TRANSPORT_QEMU"));
	if (!mkdtemp(dir))
		return EXIT_FAILURE;
	snprintf(path, sizeof(path), "%s/region", dir);
	snprintf(other, sizeof(other), "%s/other", dir);
	RUN(test_invalid_regions);
	RUN(test_superblock);
	RUN(test_guard);
	RUN(test_names);
	RUN(test_names_of_qemu_stay);
	RUN(test_vmms);
	RUN(test_foreign_files);
	RUN(test_liveness);
	rmdir(dir);
	return VERDICT();
}
