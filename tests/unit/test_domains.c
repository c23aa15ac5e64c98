// SPDX-License-Identifier: GPL-2.0-or-later
/* Domains of libvirt: their XML, their memory's files, and the process that watches them. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/discover/libvirt_private.h"
#include "host_agent/discover/region_file.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"

#define TEST_URI	"test:///default"	/* libvirt's test driver: one simulated domain */
#define MIB		(1ull << 20)
#define LIMIT_MS	20000

static char dir[] = "/tmp/test_domains.XXXXXX";
static char path[64], other[64];

/* Words that look like ours, in parts of the XML that users may fill in. */
static const char xml[] =
	"<domain type='kvm'><name>web1</name>"
	"<description>&lt;shmem name='tracebraid-web1'&gt;</description>"
	"<metadata><x:devices xmlns:x='urn:x'><x:shmem name='evil'/></x:devices>"
	"<shmem name='evil'><model type='ivshmem-plain'/><size unit='M'>1</size></shmem></metadata>"
	"<devices>"
	"<shmem name='bell'><model type='ivshmem-doorbell'/><server path='/s'/></shmem>"
	"<shmem name='test_domains-none'><model type='ivshmem-plain'/><size unit='M'>4</size></shmem>"
	"<shmem name='tracebraid-web1'><model type='ivshmem-plain'/><size unit='M'>16</size>"
	"<alias name='shmem1'/></shmem>"
	"</devices>"
	"<seclabel type='dynamic' model='apparmor'><label>libvirt-1</label></seclabel>"
	"<seclabel type='dynamic' model='dac'><label>+64055:+107</label></seclabel></domain>";

static void test_device_is_found(void)
{
	struct braid_shmem shmem;

	CHECK_EQ(braid_shmem_find(xml, "tracebraid-web1", &shmem), 0);
	CHECK(!strcmp(shmem.name, "tracebraid-web1"));
	CHECK_EQ(shmem.bytes, 16 * MIB);
	CHECK(shmem.xml && strstr(shmem.xml, "shmem1") && !strstr(shmem.xml, "test_domains-none"));
	free(shmem.xml);
	/* A domain that was renamed or cloned keeps its device; others belong to other programs. */
	CHECK_EQ(braid_shmem_find(xml, "tracebraid-web2", &shmem), 0);
	CHECK(!strcmp(shmem.name, "tracebraid-web1"));
	free(shmem.xml);
	CHECK_EQ(braid_shmem_find("<domain><name>x</name></domain>", "a", &shmem), 0);
	CHECK(!*shmem.name);
	CHECK_EQ(braid_shmem_find("no XML", "a", &shmem), -EBADMSG);
}

static void put_word(const char *name, u64 word)
{
	char file[64];
	int fd;

	snprintf(file, sizeof(file), BRAID_SHM_DIR "%s", name);
	fd = open(file, O_RDWR | O_CREAT, 0600);
	CHECK(fd >= 0 && pwrite(fd, &word, sizeof(word), 0) == sizeof(word));
	close(fd);
}

/* Like Looking Glass's memory before its first use: blank, but not ours. */
static void test_foreign_devices_are_left(void)
{
	char text[512], stranger[40], file[64];
	struct braid_shmem shmem;

	snprintf(stranger, sizeof(stranger), "test_domains-%d", (int)getpid());
	snprintf(file, sizeof(file), BRAID_SHM_DIR "%s", stranger);
	snprintf(text, sizeof(text), "<domain><devices>"
		 "<shmem name='tracebraid-x'><model type='ivshmem-plain'/><size unit='M'>16</size></shmem>"
		 "<shmem name='../%s'><model type='ivshmem-plain'/><size unit='M'>4</size></shmem>"
		 "<shmem name='%s'><model type='ivshmem-plain'/><size unit='M'>4</size></shmem>"
		 "</devices></domain>", stranger, stranger);
	put_word(stranger, 0);
	CHECK_EQ(braid_shmem_find(text, "tracebraid-web1", &shmem), 0);
	CHECK(!strcmp(shmem.name, "tracebraid-x") && !strcmp(shmem.blank, stranger));
	free(shmem.xml);
	memset(strstr(text, "tracebraid-x"), 'y', strlen("tracebraid-x"));
	CHECK_EQ(braid_shmem_find(text, "tracebraid-web1", &shmem), 0);
	CHECK(!*shmem.name && !shmem.xml && !strcmp(shmem.blank, stranger));
	put_word(stranger, BRAID_MAGIC);
	CHECK_EQ(braid_shmem_find(text, "tracebraid-web1", &shmem), 0);
	CHECK(!strcmp(shmem.name, stranger) && !*shmem.blank);
	free(shmem.xml);
	put_word(stranger, BRAID_MARK);
	CHECK_EQ(braid_shmem_find(text, "tracebraid-web1", &shmem), 0);
	CHECK(!strcmp(shmem.name, stranger) && !*shmem.blank);
	free(shmem.xml);
	CHECK_EQ(braid_shmem_find_named(text, "tracebraid-web1", &shmem), 0);
	CHECK(!*shmem.name && !shmem.xml);
	CHECK_EQ(braid_shmem_find_named(text, "yyyyyyyyyyyy", &shmem), 0);
	CHECK(!strcmp(shmem.name, "yyyyyyyyyyyy") && shmem.bytes == 16 * MIB);
	free(shmem.xml);
	CHECK(!unlink(file));
}

static void test_names_need_no_quotes(void)
{
	static const char uuid[] = "6c0a7a4e-1111-2222-3333-444444444444";
	char name[64], *device;

	braid_shmem_name("web1", uuid, name, sizeof(name));
	CHECK(!strcmp(name, "tracebraid-web1"));
	braid_shmem_name("it's a <domain>", uuid, name, sizeof(name));
	CHECK(!strcmp(name + strlen("tracebraid-"), uuid));
	braid_shmem_name("a name that is longer than any file's may be, since it goes on and on", uuid,
			 name, sizeof(name));
	CHECK(!strcmp(name + strlen("tracebraid-"), uuid));
	device = braid_shmem_xml("tracebraid-web1", 32 * MIB);
	CHECK(device && strstr(device, "name='tracebraid-web1'") && strstr(device, "'M'>32<"));
	free(device);
	CHECK(!braid_shmem_xml("a'b", 32 * MIB) && strstr(braid_failure(), "a'b"));
}

static void test_owner(void)
{
	uid_t uid = 1;
	gid_t gid = 1;

	CHECK_EQ(braid_dac_owner(xml, &uid, &gid), 0);
	CHECK_EQ(uid, 64055);
	CHECK_EQ(gid, 107);
	CHECK_EQ(braid_dac_owner("<capabilities><host><secmodel><model>selinux</model>"
				 "<baselabel type='kvm'>s0</baselabel></secmodel><secmodel><model>dac</model>"
				 "<baselabel type='kvm'>root:root</baselabel></secmodel></host></capabilities>",
				 &uid, &gid), 0);
	CHECK_EQ(uid, 0);
	CHECK_EQ(gid, 0);
	CHECK_EQ(braid_dac_owner("<domain/>", &uid, &gid), -ENODATA);
	CHECK_EQ(braid_dac_owner("<domain><seclabel model='dac'><label>no_such_user_:x</label></seclabel></domain>",
				 &uid, &gid), -EINVAL);
	CHECK(strstr(braid_failure(), "no_such_user_"));
}

static u64 first_word_of(const char *file)
{
	u64 word = 0;
	int fd = open(file, O_RDONLY);

	CHECK(fd >= 0 && pread(fd, &word, sizeof(word), 0) == sizeof(word));
	close(fd);
	return word;
}

static int make(u64 bytes, bool *made)
{
	const struct braid_region_file file = {
		.path = path, .bytes = bytes, .uid = geteuid(), .gid = getegid(), .mode = 0660,
	};

	struct stat st;
	int err = braid_region_file_make(&file, &st);

	*made = st.st_mode;
	return err;
}

static bool ours(u64 bytes)
{
	struct stat st;

	return !lstat(path, &st) && braid_shmem_file_ours(&st, bytes, geteuid());
}

static int mark(uid_t uid)
{
	const struct braid_region_file file = {
		.path = path, .bytes = MIB, .uid = uid, .gid = getegid(), .mode = 0660,
	};

	return braid_region_file_mark(&file);
}

static void test_file_is_created_once(void)
{
	struct stat st;
	bool made;

	CHECK_EQ(make(MIB, &made), 0);
	CHECK(made);
	CHECK_EQ(first_word_of(path), BRAID_MARK);
	CHECK(!lstat(path, &st) && st.st_size == (off_t)MIB && (st.st_mode & 0777) == 0660);
	CHECK(ours(MIB));
	CHECK(!ours(2 * MIB));
	CHECK_EQ(make(MIB, &made), 0);
	CHECK(!made);
	CHECK_EQ(make(2 * MIB, &made), -EEXIST);
	CHECK(strstr(braid_failure(), "--size 1M"));
	CHECK(!chmod(path, 0664));
	CHECK_EQ(make(MIB, &made), -EEXIST);
	CHECK(!chmod(path, 0660));
	/* A hard link or symbolic link to it: files that another user may have put there. */
	CHECK(!link(path, other));
	CHECK_EQ(make(MIB, &made), -EEXIST);
	CHECK(!ours(MIB));
	CHECK(!unlink(path) && !symlink(other, path));
	CHECK_EQ(make(MIB, &made), -EEXIST);
	CHECK(!made && !ours(MIB));
	CHECK(!unlink(path) && !unlink(other));
}

/*
 * A file that has no room never gets a name: what another user puts there meanwhile is not removed.
 */
static void test_file_without_room(void)
{
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	struct inotify_event event[16];
	bool made;

	CHECK(fd >= 0 && inotify_add_watch(fd, dir, IN_CREATE | IN_DELETE) >= 0);
	CHECK_EQ(make(1ull << 62, &made), -EFBIG);
	CHECK(!made && strstr(braid_failure(), "no room for 4398046511104 MiB"));
	CHECK(read(fd, event, sizeof(event)) < 0 && errno == EAGAIN);
	CHECK(access(path, F_OK) && errno == ENOENT);
	close(fd);
}

static void test_file_is_cleared(void)
{
	struct braid_superblock sb = { .magic = BRAID_MAGIC, .state = BRAID_STATE_LIVE };
	bool made;
	int fd;

	CHECK_EQ(make(MIB, &made), 0);
	fd = open(path, O_RDWR);
	CHECK(fd >= 0 && pwrite(fd, &sb, sizeof(sb), 0) == sizeof(sb));
	CHECK_EQ(mark(geteuid() + 1), -EEXIST);
	CHECK(!link(path, other));
	CHECK_EQ(mark(geteuid()), -EEXIST);
	CHECK(!unlink(other));
	CHECK(pread(fd, &sb, sizeof(sb), 0) == sizeof(sb) && sb.magic == BRAID_MAGIC);
	CHECK_EQ(mark(geteuid()), 0);
	CHECK(pread(fd, &sb, sizeof(sb), 0) == sizeof(sb) && sb.magic == BRAID_MARK && !sb.state);
	close(fd);
	CHECK(!unlink(path));
	CHECK_EQ(mark(geteuid()), -ENOENT);
}

/* create with an existing file: a blank one is marked, any other is unchanged. */
static void test_file_is_marked(void)
{
	const struct braid_region_file file = {
		.path = path, .bytes = MIB, .uid = geteuid(), .gid = getegid(), .mode = 0600,
	};
	static const u64 words[] = { BRAID_MARK, BRAID_MAGIC, 0x123 };
	struct stat made;
	u64 k;
	int fd;

	CHECK_EQ(braid_region_file_make(&file, &made), 0);
	CHECK(made.st_mode && first_word_of(path) == BRAID_MARK);
	fd = open(path, O_RDWR);
	for (k = 0; k < 3; k++) {
		CHECK(pwrite(fd, &words[k], 8, 0) == 8);
		CHECK_EQ(braid_region_file_invite(&file), k < 2 ? 0 : -EEXIST);
		CHECK_EQ(first_word_of(path), words[k]);
	}
	k = 0;
	CHECK(pwrite(fd, &k, 8, 0) == 8 && pwrite(fd, "x", 1, 4095) == 1);
	CHECK_EQ(braid_region_file_invite(&file), -EEXIST);
	CHECK(pwrite(fd, &k, 8, 4088) == 8);
	CHECK_EQ(braid_region_file_invite(&file), 0);
	CHECK_EQ(first_word_of(path), BRAID_MARK);
	/* Its group may read it, unlike files of create. */
	CHECK(!fchmod(fd, 0640));
	CHECK_EQ(braid_region_file_make(&file, &made), -EEXIST);
	CHECK_EQ(braid_region_file_invite(&file), -EEXIST);
	close(fd);
	CHECK(!unlink(path));
}

static void test_owners(void)
{
	uid_t uid;
	gid_t gid;

	CHECK(!braid_owner_parse("root", &uid, &gid) && !uid && gid == getegid());
	CHECK(!braid_owner_parse("+12:+34", &uid, &gid) && uid == 12 && gid == 34);
	CHECK(!braid_owner_parse("12:root", &uid, &gid) && uid == 12 && !gid);
	CHECK_EQ(braid_owner_parse("no such user", &uid, &gid), -EINVAL);
	CHECK_EQ(braid_owner_parse("root:no such group", &uid, &gid), -EINVAL);
	CHECK_EQ(braid_owner_parse("", &uid, &gid), -EINVAL);
	CHECK_EQ(braid_owner_parse("12:", &uid, &gid), -EINVAL);
}

static void test_list(void)
{
	struct braid_domain *domains;
	size_t nr;

	CHECK_EQ(braid_domains_list(TEST_URI, &domains, &nr), 0);
	CHECK_EQ(nr, 1);
	CHECK(!strcmp(domains->name, "test") && domains->active && !strcmp(domains->state, "running"));
	CHECK(!domains->attached && !domains->configured && !domains->qemu_pid);
	free(domains);
	CHECK(braid_domains_list("qemu+unix:///system?socket=/nowhere/sock", &domains, &nr) < 0);
	CHECK(strstr(braid_failure(), "cannot connect to libvirt at qemu+unix:"));
}

/* A process named like a domain's QEMU, of a given user. */
static pid_t pose_as_qemu(uid_t uid, const char *uuid)
{
	char *argv[] = { "qemu-system-test", "-uuid", (char *)uuid, NULL };
	int pipe_fds[2];
	pid_t pid;
	char c;

	CHECK(!pipe(pipe_fds));
	pid = fork();
	if (!pid) {
		dup2(pipe_fds[1], STDOUT_FILENO);
		if (setuid(uid) || setenv("TEST_DOMAINS_QEMU", "1", 1))
			_exit(1);
		execv("/proc/self/exe", argv);
		_exit(1);
	}
	close(pipe_fds[1]);
	CHECK_EQ(read(pipe_fds[0], &c, 1), 1);
	close(pipe_fds[0]);
	return pid;
}

/* Only processes of root and of libvirt's QEMU user can be a domain's QEMU. */
static void test_users_of_qemu(void)
{
	struct braid_domain domain = { .active = true, .uuid = "6c0a7a4e-1111-2222-3333-444444444444" };
	pid_t pid = pose_as_qemu(geteuid(), domain.uuid);

	domain.uid = geteuid();
	braid_qemus_of_domains(&domain, 1);
	CHECK_EQ(domain.qemu_pid, pid);
	domain.qemu_pid = 0;
	domain.active = false;
	braid_qemus_of_domains(&domain, 1);
	CHECK_EQ(domain.qemu_pid, 0);
	domain.active = true;
	strcpy(domain.uuid + 30, "555555");
	braid_qemus_of_domains(&domain, 1);
	CHECK_EQ(domain.qemu_pid, 0);
	CHECK(!kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid);
	if (geteuid())
		return;
	pid = pose_as_qemu(65534, domain.uuid);
	braid_qemus_of_domains(&domain, 1);
	CHECK_EQ(domain.qemu_pid, 0);
	domain.uid = 65534;
	braid_qemus_of_domains(&domain, 1);
	CHECK_EQ(domain.qemu_pid, pid);
	CHECK(!kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid);
}

static void test_only_this_host(void)
{
	CHECK(braid_uri_is_local("qemu:///system"));
	CHECK(braid_uri_is_local("qemu+unix:///system?socket=/run/x"));
	CHECK(braid_uri_is_local("qemu+tcp://localhost/system"));
	CHECK(!braid_uri_is_local("qemu+ssh://root@far/system"));
	CHECK(!braid_uri_is_local("qemu+tls://far:16514/system"));
	CHECK(!braid_uri_is_local("qemu+ssh://[fe80::1]/system"));
	CHECK(!braid_uri_is_local(NULL));
}

static int next(struct braid_domain_watch *watch, struct braid_domain_change *change)
{
	struct pollfd p = { .fd = watch->fd, .events = POLLIN };

	CHECK_EQ(poll(&p, 1, LIMIT_MS), 1);
	return braid_domain_watch_next(watch, change);
}

static void test_watch(void)
{
	static const char *const names[] = { "test" }, *const nobody[] = { "nobody" };
	struct braid_domain_change change;
	struct braid_domain_watch watch;

	CHECK_EQ(braid_domain_watch_start(&watch, TEST_URI, names, 1), 0);
	CHECK_EQ(next(&watch, &change), 1);
	CHECK_EQ(change.kind, BRAID_DOMAIN_BARE);
	CHECK(!strcmp(change.name, "test") && strstr(change.detail, "tracebraid attach test"));
	CHECK_EQ(next(&watch, &change), 1);
	CHECK_EQ(change.kind, BRAID_DOMAIN_LISTED);
	CHECK_EQ(braid_domain_watch_next(&watch, &change), 0);
	braid_domain_watch_stop(&watch);
	CHECK_EQ(watch.fd, -1);

	CHECK_EQ(braid_domain_watch_start(&watch, TEST_URI, nobody, 1), 0);
	CHECK_EQ(next(&watch, &change), 1);
	CHECK_EQ(change.kind, BRAID_DOMAIN_FAILED);
	CHECK(strstr(change.detail, "no domain 'nobody'"));
	CHECK_EQ(next(&watch, &change), -EPIPE);
	braid_domain_watch_stop(&watch);
	braid_domain_watch_stop(&watch);
}

/* A libvirtd that accepts connections but does not answer. */
static int silent_libvirtd(char *uri, size_t room)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	CHECK(!bind(fd, (struct sockaddr *)&address, sizeof(address)) && !listen(fd, 8));
	snprintf(uri, room, "qemu+unix:///system?socket=%s", path);
	return fd;
}

static bool same_file(pid_t a, int a_fd, pid_t b, int b_fd)
{
	struct stat x, y;
	char file[64];

	snprintf(file, sizeof(file), "/proc/%d/fd/%d", (int)a, a_fd);
	CHECK(!stat(file, &x));
	snprintf(file, sizeof(file), "/proc/%d/fd/%d", (int)b, b_fd);
	return !stat(file, &y) && x.st_ino == y.st_ino && x.st_dev == y.st_dev;
}

static void test_list_of_silent_libvirtd(void)
{
	struct braid_domain *domains;
	char uri[128];
	size_t nr;
	int libvirtd = silent_libvirtd(uri, sizeof(uri));

	CHECK_EQ(braid_domains_list(uri, &domains, &nr), -ETIMEDOUT);
	CHECK(strstr(braid_failure(), "check libvirtd"));
	close(libvirtd);
	CHECK(!unlink(path));
}

/* A hung watch ends when its recorder is killed, and holds none of its files. */
static void test_watch_dies_with_recorder(void)
{
	int libvirtd, held[2], reported[2];
	struct braid_domain_watch watch;
	struct pollfd p = { .events = POLLIN };
	pid_t recorder;
	char uri[128];

	libvirtd = silent_libvirtd(uri, sizeof(uri));
	CHECK(!pipe(held) && !pipe(reported));
	recorder = fork();
	if (!recorder) {
		if (braid_domain_watch_start(&watch, uri, NULL, 0) ||
		    write(reported[1], &watch.pid, sizeof(watch.pid)) < 0)
			_exit(1);
		pause();
	}
	close(held[1]);
	CHECK_EQ(read(reported[0], &watch.pid, sizeof(watch.pid)), sizeof(watch.pid));
	p.fd = libvirtd;
	CHECK_EQ(poll(&p, 1, LIMIT_MS), 1);	/* it has its own files, and connects */
	CHECK(!same_file(getpid(), held[0], watch.pid, held[1]));
	CHECK(same_file(getpid(), held[0], recorder, held[1]));
	p.fd = syscall(SYS_pidfd_open, watch.pid, 0);
	CHECK(p.fd >= 0 && !poll(&p, 1, 0));
	CHECK(!kill(recorder, SIGKILL) && waitpid(recorder, NULL, 0) == recorder);
	CHECK_EQ(poll(&p, 1, LIMIT_MS), 1);
	close(p.fd);
	close(held[0]);
	close(reported[0]);
	close(reported[1]);
	close(libvirtd);
	CHECK(!unlink(path));
}

int main(void)
{
	while (getenv("TEST_DOMAINS_QEMU"))
		if (write(STDOUT_FILENO, "!", 1) == 1)
			pause();
	CHECK(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/region", dir);
	snprintf(other, sizeof(other), "%s/other", dir);
	RUN(test_device_is_found);
	RUN(test_foreign_devices_are_left);
	RUN(test_names_need_no_quotes);
	RUN(test_owner);
	RUN(test_file_is_created_once);
	RUN(test_file_without_room);
	RUN(test_file_is_cleared);
	RUN(test_file_is_marked);
	RUN(test_owners);
	RUN(test_list);
	RUN(test_users_of_qemu);
	RUN(test_only_this_host);
	RUN(test_list_of_silent_libvirtd);
	RUN(test_watch);
	RUN(test_watch_dies_with_recorder);
	rmdir(dir);
	return VERDICT();
}
