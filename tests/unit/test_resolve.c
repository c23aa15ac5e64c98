// SPDX-License-Identifier: GPL-2.0-or-later
/* The region that a word names, the same for every command; and files that are never opened. */
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/discover/discover.h"
#include "host_agent/transport/endpoint.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/fake_guest.h"
#include "tests/unit/need.h"
#include "tests/unit/run_command.h"

#define STRANGER	65534

static char dir[] = "/tmp/test_resolve.XXXXXX";
static char guest_name[32], other_name[32];
static char paths[2][64];

static struct fake_guest *new_guest(const char *path, const char *name)
{
	const struct fake_params p = {
		.name = name, .bytes = 1 << 20, .nr_vcpus = 1, .subbuf_bytes = 1024, .nr_slots = 16,
	};

	return fake_guest_new(path, &p);
}

static const char *base(const char *path)
{
	return strrchr(path, '/') + 1;
}

static int resolve(const char *word, char path[256])
{
	struct braid_named named = { .word = word };
	int err = braid_resolve(&named, 1);

	strcpy(path, named.path);
	return err;
}

static const struct {
	char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "stat", braid_cmd_stat }, { "verify", braid_cmd_verify }, { "list", braid_cmd_list },
};

/* A path, a file's name and a guest's name are one region to all commands. */
static void all_names(void)
{
	struct fake_guest *g = new_guest(paths[0], guest_name);
	const char *words[] = { paths[0], base(paths[0]), guest_name };
	char path[256];
	size_t k, i;

	for (k = 0; k < 3; k++) {
		CHECK_EQ(resolve(words[k], path), 0);
		CHECK(!strcmp(path, paths[0]));
		for (i = 0; i < sizeof(commands) / sizeof(*commands); i++)
			CHECK_EQ(RUN_COMMAND(commands[i].run, commands[i].name, words[k]), EXIT_SUCCESS);
	}
	fake_guest_free(g);
	CHECK_EQ(resolve(guest_name, path), -ENOENT);
	for (i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		CHECK_EQ(RUN_COMMAND(commands[i].run, commands[i].name, guest_name), EXIT_FAILURE);
		CHECK(strstr(printed, ": no such file or region"));
	}
}

/* If two have the same name, both are listed and none is chosen. */
static void ambiguity(void)
{
	struct fake_guest *a = new_guest(paths[0], guest_name),
			  *b = new_guest(paths[1], guest_name);
	char path[256], here[80];
	struct fake_guest *c;

	CHECK_EQ(resolve(guest_name, path), -ENOTUNIQ);
	CHECK(strstr(braid_failure(), paths[0]) && strstr(braid_failure(), paths[1]));
	CHECK_EQ(resolve(base(paths[0]), path), 0);
	CHECK(!strcmp(path, paths[0]));
	fake_guest_free(b);
	/* A file's name has precedence over a guest's own name. */
	b = new_guest(paths[1], base(paths[0]));
	CHECK_EQ(resolve(base(paths[0]), path), 0);
	CHECK(!strcmp(path, paths[0]));
	/* A file of this folder has no precedence over one in /dev/shm. */
	NEED(!chdir(dir));
	snprintf(here, sizeof(here), "%s/%s", dir, base(paths[0]));
	c = new_guest(here, other_name);
	CHECK_EQ(resolve(base(paths[0]), path), -ENOTUNIQ);
	CHECK(strstr(braid_failure(), paths[0]));
	NEED(!chdir("/"));
	fake_guest_free(c);
	NEED(!chdir(dir) && !mkdir(base(paths[0]), 0700));	/* not a region */
	CHECK_EQ(resolve(base(paths[0]), path), 0);
	CHECK(!strcmp(path, paths[0]));
	NEED(!rmdir(base(paths[0])) && !chdir("/"));
	fake_guest_free(a);
	fake_guest_free(b);
}

static const struct braid_found *found_at(const struct braid_found *found, size_t nr,
					  const char *path)
{
	size_t k;

	for (k = 0; k < nr; k++)
		if (!strcmp(found[k].path, path))
			return &found[k];
	return NULL;
}

/* The result of a search for another user's file. */
static void check_foreign(void)
{
	const struct braid_found *f;
	struct braid_found *found;
	size_t nr;

	NEED(!braid_discover(&found, &nr, NULL, 0, 0, NULL));
	f = found_at(found, nr, paths[1]);
	NEED(f);
	CHECK(f->untrusted && !*f->name && !f->sb.magic && !*f->sb.guest_name);
	CHECK_EQ(f->error, -EPERM);
	CHECK(strstr(f->why, "owned by user 65534"));
	free(found);
}

/* A user's file in /dev/shm that none of the user's QEMUs maps is never root's guest. */
static void foreign_files(void)
{
	struct fake_guest *g, *s;
	struct braid_found *found;
	char path[256];
	size_t nr;

	if (geteuid())
		return;
	g = new_guest(paths[0], guest_name);
	s = new_guest(paths[1], guest_name);
	NEED(!chown(paths[1], STRANGER, STRANGER));
	check_foreign();
	CHECK_EQ(resolve(guest_name, path), 0);
	CHECK(!strcmp(path, paths[0]));
	CHECK_EQ(resolve(base(paths[1]), path), -EPERM);
	CHECK(strstr(braid_failure(), paths[1]));
	fake_guest_free(g);
	CHECK_EQ(resolve(guest_name, path), -ENOENT);
	/* Its content is not parsed. */
	((struct braid_superblock *)s->base)->version_major = 99;
	check_foreign();
	((struct braid_superblock *)s->base)->version_major = BRAID_VERSION_MAJOR;
	((struct braid_superblock *)s->base)->nr_vcpus = 0;
	check_foreign();
	/* No search shows a file that does not begin like a region. */
	memset(s->base, 0, 8);
	NEED(!braid_discover(&found, &nr, NULL, 0, 0, NULL));
	CHECK(!found_at(found, nr, paths[1]));
	free(found);
	fake_guest_free(s);
}

/*
 * Whether the list's line of a region says that. Regions of others may be there, too; they widen the
 * columns, and the path may then have a line of its own, which begins with a blank.
 */
static bool listed_as(const char *path, const char *state)
{
	char line[512], *end = strstr(printed, path), *start = end;

	while (start && start > printed && (start[-1] != '\n' || *start == ' '))
		start--;
	snprintf(line, sizeof(line), "%.*s", end ? (int)(end - start) : 0, start ? start : "");
	return strstr(line, state);
}

/*
 * What a dead guest left is found, by the name that list shows, and has that name in the capture.
 */
static void dead_guest(void)
{
	struct fake_guest *g = new_guest(paths[0], guest_name);
	char capture[80], recover[128];

	snprintf(capture, sizeof(capture), "%s/dead.braid", dir);
	CHECK_EQ(RUN_COMMAND(braid_cmd_list, "list"), EXIT_SUCCESS);
	CHECK(listed_as(paths[0], "  ended  ") && strstr(printed, "no running QEMU maps it"));
	CHECK_EQ(RUN_COMMAND(braid_cmd_recover, "recover", guest_name, "-o", capture), EXIT_SUCCESS);
	CHECK_EQ(RUN_COMMAND(braid_cmd_recover, "recover", base(paths[0]), "-o", capture), EXIT_SUCCESS);
	CHECK_EQ(RUN_COMMAND(braid_cmd_stat, "stat", capture), EXIT_SUCCESS);
	CHECK(strstr(printed, base(paths[0])));
	if (!geteuid()) {
		NEED(!chown(paths[0], STRANGER, STRANGER));
		CHECK_EQ(RUN_COMMAND(braid_cmd_list, "list"), EXIT_SUCCESS);
		snprintf(recover, sizeof(recover), "tracebraid recover '%s'", paths[0]);
		CHECK(listed_as(paths[0], "  ended  ") && strstr(printed, recover));
	}
	CHECK_EQ(RUN_COMMAND(braid_cmd_recover, "recover", "no-such-guest", "-o", capture), EXIT_FAILURE);
	CHECK(strstr(printed, "no-such-guest: no such file or region"));
	unlink(capture);
	fake_guest_free(g);
}

/* A path that is given explicitly is used. */
static void path_of_a_foreign_file(void)
{
	struct fake_guest *s = new_guest(paths[1], guest_name);
	char path[256];

	if (!geteuid())
		NEED(!chown(paths[1], STRANGER, STRANGER));
	CHECK_EQ(resolve(paths[1], path), 0);
	CHECK_EQ(RUN_COMMAND(braid_cmd_stat, "stat", paths[1]), EXIT_SUCCESS);
	fake_guest_free(s);
}

/* While a guest is away, another user's file does not replace it. */
static void guest_returns(void)
{
	struct braid_mapping *m;
	struct braid_endpoint *endpoint;
	struct fake_guest *g;

	if (geteuid())
		return;
	NEED(!braid_endpoint_open(&endpoint, paths[0]));
	g = new_guest(paths[0], guest_name);
	NEED(!chown(paths[0], STRANGER - 1, STRANGER - 1) && !braid_endpoint_map(endpoint, &m));
	braid_mapping_close(m);
	fake_guest_free(g);
	g = new_guest(paths[0], guest_name);
	NEED(!chown(paths[0], STRANGER, STRANGER));
	CHECK_EQ(braid_endpoint_map(endpoint, &m), -EPERM);
	CHECK(strstr(braid_failure(), "belongs to user 65534 now"));
	NEED(!chown(paths[0], STRANGER - 1, STRANGER - 1));
	CHECK_EQ(braid_endpoint_map(endpoint, &m), 0);
	braid_mapping_close(m);
	fake_guest_free(g);
	braid_endpoint_close(endpoint);
}

static int make_blank(const char *path, u64 first)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	NEED(fd >= 0 && !ftruncate(fd, 1 << 20) && pwrite(fd, &first, 8, 0) == 8);
	return close(fd);
}

/* Maps a vCPU of a machine, as a VMM that uses KVM does. */
static void map_vcpu(void)
{
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), vm = ioctl(kvm, KVM_CREATE_VM, 0);
	int vcpu = ioctl(vm, KVM_CREATE_VCPU, 0), bytes = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);

	mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
}

static bool have_kvm(void)
{
	int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

/* A container: /dev/shm is another tmpfs here, with a marked region's file as its first. */
static void enter_container(void)
{
	NEED(!unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	NEED(!mount("test", "/dev/shm", "tmpfs", 0, NULL));
	make_blank(paths[0], BRAID_MARK);
}

/* Looks like a VMM to others: maps the given file, and reports when. */
static int be_qemu(const char *program, const char *path)
{
	void *base;
	int fd;

	if (strstr(program, "container")) {
		snprintf(paths[0], sizeof(paths[0]), "%s", path);
		enter_container();
	}
	if (strstr(program, "vmm"))
		map_vcpu();
	fd = open(path, O_RDWR | O_CLOEXEC);
	base = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (base == MAP_FAILED || write(STDOUT_FILENO, "", 1) != 1)
		return EXIT_FAILURE;
	pause();
	return EXIT_SUCCESS;
}

/*
 * Starts a program of a given user, with arguments that give the guest's name. @device: ivshmem or
 * not.
 */
static pid_t start_vmm(const char *program, const char *path, uid_t uid, const char *option,
		       const char *name, const char *device)
{
	char object[128], file[80], byte;
	int ready[2];
	pid_t pid;

	snprintf(object, sizeof(object), "memory-backend-file,id=m,mem-path=%s,size=1M,share=on", path);
	snprintf(file, sizeof(file), "%s", path);
	NEED(!pipe(ready));
	pid = fork();
	if (!pid) {
		char *argv[] = { (char *)program, "-be-qemu", file, (char *)option, (char *)name, "-object",
				 object, "-device", (char *)device, NULL };

		dup2(ready[1], STDOUT_FILENO);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!setuid(uid))
			execv("/proc/self/exe", argv);
		_exit(EXIT_FAILURE);
	}
	close(ready[1]);
	NEED(pid > 0 && read(ready[0], &byte, 1) == 1);
	close(ready[0]);
	return pid;
}

static pid_t start_qemu(const char *path, uid_t uid, const char *name, const char *device)
{
	return start_vmm("qemu-of-test", path, uid, "-name", name, device);
}

static void stop_qemu(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* The state of a file in a search, and its name in @name; -1: not shown. */
static int searched(const char *path, char *name)
{
	const struct braid_found *f;
	struct braid_found *found;
	int state;
	size_t nr;

	NEED(!braid_discover(&found, &nr, NULL, 0, 0, NULL));
	f = found_at(found, nr, path);
	state = f ? (int)f->state : -1;
	strcpy(name, f ? f->name : "");
	free(found);
	return state;
}

/* A region without a driver: a file with the host's mark, or one that a QEMU has as ivshmem. */
static void no_driver_yet(void)
{
	char name[BRAID_GUEST_NAME_BYTES];
	pid_t pid;

	make_blank(paths[0], BRAID_MARK);
	CHECK_EQ(searched(paths[0], name), BRAID_DRIVER_NONE);
	CHECK(!strcmp(name, base(paths[0])));
	CHECK_EQ(RUN_COMMAND(braid_cmd_list, "list", paths[0]), EXIT_SUCCESS);
	CHECK_EQ(RUN_COMMAND(braid_cmd_recover, "recover", paths[0], "-o", "/tmp/x.braid"), EXIT_FAILURE);
	CHECK(strstr(printed, "no driver has used it yet"));
	CHECK_EQ(RUN_COMMAND(braid_cmd_list, "list", paths[0]), EXIT_SUCCESS);
	CHECK(strstr(printed, "no driver has used it yet; in the guest: modprobe tracebraid"));
	make_blank(paths[0], 0);
	CHECK_EQ(searched(paths[0], name), -1);
	pid = start_qemu(paths[0], geteuid(), other_name, "virtio-rng-pci");
	CHECK_EQ(searched(paths[0], name), -1);		/* possibly a guest's own memory */
	stop_qemu(pid);
	pid = start_qemu(paths[0], geteuid(), other_name, "ivshmem-plain,memdev=m");
	CHECK_EQ(searched(paths[0], name), BRAID_DRIVER_NONE);
	CHECK(!strcmp(name, other_name));
	CHECK_EQ(RUN_COMMAND(braid_cmd_list, "list", paths[0]), EXIT_SUCCESS);
	CHECK(strstr(printed, "not marked yet"));
	stop_qemu(pid);
	pid = start_qemu(paths[0], geteuid(), other_name, "{\"driver\":\"ivshmem-plain\",\"memdev\":\"m\"}");
	CHECK_EQ(searched(paths[0], name), BRAID_DRIVER_NONE);
	stop_qemu(pid);
	unlink(paths[0]);
}

/* A VMM is found by what it is: a name of QEMU's, or vCPUs of KVM under any name. */
static void any_vmm(void)
{
	static const struct {
		const char *program, *option, *before;
	} vmms[] = {
		{ "/usr/bin/kvm", "-name", "" }, { "/usr/bin/kvm-spice", "-name", "guest=" },
		{ "qemu-of-test", "--name=", "" }, { "my-vmm", "--name=", "" },
	};
	char name[BRAID_GUEST_NAME_BYTES], option[80], value[80];
	size_t k;
	pid_t pid;

	make_blank(paths[0], BRAID_MARK);
	for (k = 0; k < sizeof(vmms) / sizeof(*vmms); k++) {
		if (strstr(vmms[k].program, "vmm") && !have_kvm())
			continue;
		snprintf(value, sizeof(value), "%s%s,x=on", vmms[k].before, other_name);
		snprintf(option, sizeof(option), "%s%s", vmms[k].option,
			 strchr(vmms[k].option, '=') ? value : "");
		pid = start_vmm(vmms[k].program, paths[0], geteuid(), option,
				strchr(vmms[k].option, '=') ? "-x" : value, "none");
		CHECK_EQ(searched(paths[0], name), BRAID_DRIVER_NONE);
		CHECK(!strcmp(name, other_name));
		stop_qemu(pid);
	}
	pid = start_vmm("editor", paths[0], geteuid(), "-name", other_name, "none");
	CHECK_EQ(searched(paths[0], name), BRAID_DRIVER_NONE);
	CHECK(!strcmp(name, base(paths[0])));
	stop_qemu(pid);
	unlink(paths[0]);
}

/*
 * A container's region is its guest's; a file of the same path and inode on another tmpfs is not.
 */
static void other_namespace(void)
{
	char name[BRAID_GUEST_NAME_BYTES], there[128], path[256];
	pid_t pid;

	if (geteuid())
		return;
	enter_container();
	pid = start_vmm("qemu-container", paths[0], 0, "-name", other_name, "none");
	CHECK_EQ(searched(paths[0], name), BRAID_DRIVER_NONE);
	CHECK(!strcmp(name, base(paths[0])));
	snprintf(there, sizeof(there), "/proc/%d/root%s", pid, paths[0]);
	CHECK_EQ(searched(there, name), BRAID_DRIVER_NONE);
	CHECK(!strcmp(name, other_name));
	CHECK_EQ(resolve(other_name, path), 0);
	CHECK(!strcmp(path, there));
	/* Kept open, it needs no path. */
	CHECK_EQ(braid_qemu_keep(true), 0);
	CHECK_EQ(searched(there, name), BRAID_DRIVER_NONE);
	CHECK(!strcmp(name, other_name));
	stop_qemu(pid);
	CHECK_EQ(RUN_COMMAND(braid_cmd_list, "list", there), EXIT_SUCCESS);
	unlink(paths[0]);
}

/* A user's own QEMU makes the user's file a guest, but not a world-writable file of others. */
static void users_qemus(void)
{
	char name[BRAID_GUEST_NAME_BYTES], path[256];
	struct fake_guest *g;
	pid_t pid;

	if (geteuid())
		return;
	g = new_guest(paths[0], guest_name);
	NEED(!chown(paths[0], STRANGER, STRANGER));
	CHECK_EQ(searched(paths[0], name), BRAID_DRIVER_UNREADABLE);
	pid = start_qemu(paths[0], STRANGER, other_name, "ivshmem-plain,memdev=m");
	CHECK_EQ(searched(paths[0], name), BRAID_DRIVER_LIVE);
	CHECK(!strcmp(name, other_name));
	CHECK_EQ(resolve(other_name, path), 0);
	CHECK_EQ(resolve(guest_name, path), -ENOENT);	/* QEMU has named it */
	NEED(!chown(paths[0], 0, 0) && !chmod(paths[0], 0666));
	CHECK_EQ(searched(paths[0], name), BRAID_DRIVER_LIVE);
	CHECK(!strcmp(name, guest_name));
	CHECK_EQ(resolve(other_name, path), -ENOENT);
	stop_qemu(pid);
	fake_guest_free(g);
}

/*
 * After a restart of the host all files of a list are made; a wrong line does not keep the others
 * from it.
 */
static void made_from_a_list(void)
{
	char list[80], name[BRAID_GUEST_NAME_BYTES];
	FILE *f;

	snprintf(list, sizeof(list), "%s/memory", dir);
	f = fopen(list, "w");
	NEED(f);
	fprintf(f, "# web1\n1M %u:%u %s\n17M 0:0 /dev/shm/never\nnonsense\n\n2M +%u:+%u %s\n", geteuid(), getegid(),
		paths[0], geteuid(), getegid(), paths[1]);
	fclose(f);
	CHECK_EQ(RUN_COMMAND(braid_cmd_create, "create", "--from", list), EXIT_FAILURE);
	CHECK(strstr(printed, "memory: line 3: expected a power of two") &&
	      strstr(printed, "memory: line 4: \"nonsense\" is not SIZE USER:GROUP FILE"));
	CHECK_EQ(searched(paths[0], name), BRAID_DRIVER_NONE);
	CHECK_EQ(searched(paths[1], name), BRAID_DRIVER_NONE);
	CHECK_EQ(RUN_COMMAND(braid_cmd_create, "create", "--from", list, paths[0]), EXIT_FAILURE);
	CHECK_EQ(RUN_COMMAND(braid_cmd_create, "create"), EXIT_FAILURE);
	CHECK_EQ(RUN_COMMAND(braid_cmd_create, "create", "--from", "/nonexistent"), EXIT_FAILURE);
	unlink(paths[0]);
	unlink(paths[1]);
	unlink(list);
}

/* A clock without data is an error, not an empty answer. */
static void no_clock(void)
{
	make_blank(paths[0], BRAID_MARK);
	CHECK_EQ(RUN_COMMAND(braid_cmd_clock, "clock", paths[0]), EXIT_FAILURE);
	CHECK(strstr(printed, "no driver within 2 s; in the guest: modprobe tracebraid\n"));
	unlink(paths[0]);
}

/* PLACE[,name=NAME], as record, top and recover take it. */
static void names_in_options(void)
{
	char place[256], name[BRAID_GUEST_NAME_BYTES], text[600];

	CHECK(!braid_split_name("web1", place, name) && !strcmp(place, "web1") && !*name);
	CHECK(!braid_split_name("/dev/shm/a,b,name=web\n1", place, name));
	CHECK(!strcmp(place, "/dev/shm/a,b") && !strcmp(name, "web?1"));
	CHECK_EQ(braid_split_name("", place, name), -EINVAL);
	CHECK_EQ(braid_split_name(",name=x", place, name), -EINVAL);
	CHECK_EQ(braid_split_name("web1,name=", place, name), -EINVAL);
	memset(text, 'x', sizeof(text));
	text[255] = 0;
	CHECK(!braid_split_name(text, place, name) && strlen(place) == 255);
	text[255] = 'x';
	text[256] = 0;
	CHECK_EQ(braid_split_name(text, place, name), -EINVAL);
	memcpy(text, "web1,name=", 10);
	text[10 + 63] = 0;
	CHECK(!braid_split_name(text, place, name) && strlen(name) == 63);
	text[10 + 63] = 'x';
	text[10 + 64] = 0;
	CHECK_EQ(braid_split_name(text, place, name), -EINVAL);
}

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "-be-qemu"))
		return be_qemu(argv[0], argv[2]);
	NEED(mkdtemp(dir));
	snprintf(guest_name, sizeof(guest_name), "resolved-%d", getpid());
	snprintf(other_name, sizeof(other_name), "other-%d", getpid());
	snprintf(paths[0], sizeof(paths[0]), "/dev/shm/test-resolve-%d", getpid());
	snprintf(paths[1], sizeof(paths[1]), "/dev/shm/test-resolve-%d-b", getpid());
	RUN(names_in_options);
	RUN(all_names);
	RUN(ambiguity);
	RUN(foreign_files);
	RUN(dead_guest);
	RUN(path_of_a_foreign_file);
	RUN(guest_returns);
	RUN(no_driver_yet);
	RUN(users_qemus);
	RUN(any_vmm);
	RUN(made_from_a_list);
	RUN(no_clock);
	RUN(other_namespace);
	rmdir(dir);
	return VERDICT();
}
