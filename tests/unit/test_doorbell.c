// SPDX-License-Identifier: GPL-2.0-or-later
/* The ivshmem-doorbell server, and the agent's wake requests: a script acts as QEMU. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "host_agent/transport/endpoint.h"
#include "host_agent/transport/listener.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/scratch.h"
#include "tests/unit/session.h"

static char *region_path, *socket_path, *capture_path, address[256];

static const struct fake_params usual = {
	.name = "fake", .bytes = 8 << 20, .nr_vcpus = 2, .subbuf_bytes = 4096, .nr_slots = 64,
};

/* QEMU's end. */
struct client {
	int fd;
	int shm_fd, agents_fd, own_fd;
};

static int connect_to(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strcpy(a.sun_path, path);
	NEED(fd >= 0 && !connect(fd, (struct sockaddr *)&a, sizeof(a)));
	return fd;
}

/* One message, and the descriptor with it, or -1. */
static s64 receive(int from, int *fd)
{
	char room[CMSG_SPACE(sizeof(int))];
	s64 number = -100;
	struct iovec iov = { .iov_base = &number, .iov_len = sizeof(number) };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = room, .msg_controllen = sizeof(room),
	};
	struct cmsghdr *c;

	*fd = -1;
	NEED(recvmsg(from, &msg, MSG_DONTWAIT) == sizeof(number));
	c = CMSG_FIRSTHDR(&msg);
	if (c)
		memcpy(fd, CMSG_DATA(c), sizeof(*fd));
	return number;
}

static void take_greeting(struct client *c)
{
	int fd;

	CHECK_EQ(receive(c->fd, &fd), 0);	/* the protocol's version */
	CHECK_EQ(fd, -1);
	CHECK_EQ(receive(c->fd, &fd), 0);	/* our peer id */
	CHECK_EQ(fd, -1);
	CHECK_EQ(receive(c->fd, &c->shm_fd), -1);
	CHECK(c->shm_fd >= 0);
	CHECK_EQ(receive(c->fd, &c->agents_fd), 1);
	CHECK(c->agents_fd >= 0);
	CHECK_EQ(receive(c->fd, &c->own_fd), 0);
	CHECK(c->own_fd >= 0);
}

static void drop(const struct client *c)
{
	close(c->fd);
	close(c->shm_fd);
	close(c->agents_fd);
	close(c->own_fd);
}

static bool is_rung(int fd)
{
	u64 count;

	return read(fd, &count, sizeof(count)) == sizeof(count);
}

static void ring(int fd)
{
	u64 one = 1;

	NEED(write(fd, &one, sizeof(one)) == sizeof(one));
}

static bool has_work(const struct braid_endpoint *endpoint)
{
	struct pollfd fds[BRAID_ENDPOINT_FDS];

	return poll(fds, braid_endpoint_fds(endpoint, fds), 0) > 0;
}

static bool keep_blocking;

static void *make_blocking(void *arg)
{
	const int *fd = arg;

	while (__atomic_load_n(&keep_blocking, __ATOMIC_RELAXED))
		NEED(!fcntl(*fd, F_SETFL, 0));
	return NULL;
}

/* QEMU makes what it receives blocking: the server shares the flags, and must not wait. */
static void check_blocking(struct braid_endpoint *endpoint, struct client *c)
{
	pthread_t thread;
	u32 k;

	keep_blocking = true;
	NEED(!pthread_create(&thread, NULL, make_blocking, &c->agents_fd));
	alarm(60);
	for (k = 0; k < 20000; k++)
		CHECK_EQ(braid_endpoint_serve(endpoint), 0);
	alarm(0);
	__atomic_store_n(&keep_blocking, false, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	ring(c->agents_fd);
	CHECK(braid_endpoint_serve(endpoint) > 0);
}

static void test_addresses(void)
{
	struct braid_socket_address a;
	size_t k;
	static const char *const bad[] = {
		"", ",size=1M", "s,", "s,size", "s,size=", "s,size=0", "s,size=1T", "s,size=-1",
		"s,size=1M2", "s,shm=", "s,color=red", "s,group=no such group", "s,=",
		"s,size=99999999999999999999", "s,size=17179869185G", "s,size=1MM", "s,size=M",
	};

	for (k = 0; k < sizeof(bad) / sizeof(*bad); k++)
		if (!braid_socket_address_parse(&a, bad[k]))
			CHECK(!bad[k]);
	CHECK_EQ(braid_socket_address_parse(&a, "/a/b,size=3K,shm=/c"), 0);
	CHECK(!strcmp(a.path, "/a/b") && !strcmp(a.shm, "/c"));
	CHECK_EQ(a.bytes, 3072);
	CHECK_EQ(a.group, (gid_t)-1);
	CHECK_EQ(braid_socket_address_parse(&a, "s,group=root"), 0);
	CHECK_EQ(a.group, 0);
	CHECK_EQ(a.bytes, 0);
}

/* What a connected client may do, and what it may not. */
static void check_client(struct braid_endpoint *endpoint, struct client *c)
{
	struct client late;
	char byte;

	CHECK_EQ(braid_endpoint_doorbell(endpoint), 1 << 16);
	braid_endpoint_ring(endpoint);
	CHECK(is_rung(c->own_fd));
	ring(c->agents_fd);
	CHECK(has_work(endpoint));
	CHECK_EQ(braid_endpoint_serve(endpoint), 1);
	CHECK_EQ(braid_endpoint_serve(endpoint), 0);

	/* Flags of shared descriptors are not trusted to stay. */
	CHECK(!fcntl(c->agents_fd, F_SETFL, 0) && !fcntl(c->own_fd, F_SETFL, 0));
	CHECK_EQ(braid_endpoint_serve(endpoint), 0);
	CHECK_EQ(write(c->own_fd, &(u64){ -2ULL }, 8), 8);
	braid_endpoint_ring(endpoint);
	CHECK(is_rung(c->own_fd));
	check_blocking(endpoint, c);

	/* A second one is rejected, and the first stays connected. */
	late.fd = connect_to(socket_path);
	CHECK_EQ(braid_endpoint_serve(endpoint), -EBUSY);
	CHECK_EQ(read(late.fd, &byte, 1), 0);
	close(late.fd);
	ring(c->agents_fd);
	CHECK_EQ(braid_endpoint_serve(endpoint), 1);

	/* A client must not send anything. */
	CHECK(send(c->fd, "nonsense", 8, MSG_NOSIGNAL) < 0 && errno == EPIPE);
	CHECK_EQ(braid_endpoint_serve(endpoint), 0);
	CHECK(!has_work(endpoint));
}

static void test_server(void)
{
	struct client c = { 0 };
	struct braid_mapping *m;
	struct braid_endpoint *endpoint, *second;
	struct stat st;

	snprintf(address, sizeof(address), "ivshmem-doorbell:%s,shm=%s,size=1M", socket_path,
		 region_path);
	NEED(!braid_endpoint_open(&endpoint, address));
	CHECK(!stat(socket_path, &st) && (st.st_mode & 0777) == 0660);
	CHECK(!stat(region_path, &st) && (st.st_mode & 0777) == 0600 && st.st_size == 1 << 20);
	CHECK_EQ(braid_endpoint_open(&second, address), -EADDRINUSE);
	CHECK_EQ(braid_endpoint_doorbell(endpoint), 0);
	braid_endpoint_ring(endpoint);	/* no listener */
	CHECK_EQ(braid_endpoint_serve(endpoint), 0);
	CHECK(!has_work(endpoint));
	NEED(!braid_endpoint_map(endpoint, &m));
	CHECK(braid_mapping_marked(m));	/* otherwise its driver would not use it */

	c.fd = connect_to(socket_path);
	CHECK(has_work(endpoint));
	CHECK_EQ(braid_endpoint_serve(endpoint), 0);
	take_greeting(&c);
	CHECK(!fstat(c.shm_fd, &st) && st.st_ino == m->inode);
	CHECK(!has_work(endpoint));
	check_client(endpoint, &c);

	/* Another QEMU gets other eventfds. */
	drop(&c);
	CHECK_EQ(braid_endpoint_serve(endpoint), 0);
	CHECK(!has_work(endpoint));
	c.fd = connect_to(socket_path);
	CHECK_EQ(braid_endpoint_serve(endpoint), 0);
	take_greeting(&c);
	braid_endpoint_ring(endpoint);
	CHECK(is_rung(c.own_fd));
	drop(&c);

	braid_mapping_close(m);
	braid_endpoint_close(endpoint);
	CHECK(stat(socket_path, &st) && errno == ENOENT);
	CHECK(!stat(region_path, &st));	/* the guest may still write there */

	/* Memory of another size may be a guest's. */
	CHECK_EQ(truncate(region_path, 2 << 20), 0);
	CHECK_EQ(braid_endpoint_open(&endpoint, address), -EINVAL);
	CHECK_EQ(unlink(region_path), 0);
}

/* Repeated failing connections are reported a few times, then rarely. */
static void test_flood(void)
{
	struct braid_endpoint *endpoint;
	struct client c;
	u32 reported = 0;
	int fd, n;

	snprintf(address, sizeof(address), "ivshmem-doorbell:%s,shm=%s,size=1M", socket_path,
		 region_path);
	NEED(!braid_endpoint_open(&endpoint, address));
	c.fd = connect_to(socket_path);
	CHECK_EQ(braid_endpoint_serve(endpoint), 0);
	take_greeting(&c);
	for (n = 0; n < 12; n++) {	/* no more than the backlog of accept() */
		fd = connect_to(socket_path);
		reported += braid_endpoint_serve(endpoint) < 0;
		close(fd);
	}
	CHECK(reported >= 8 && reported < 12);
	CHECK(!has_work(endpoint));
	ring(c.agents_fd);
	CHECK_EQ(braid_endpoint_serve(endpoint), 1);
	drop(&c);
	braid_endpoint_close(endpoint);
	CHECK_EQ(unlink(region_path), 0);
}

/* Without a free descriptor, retries are rare. */
static void test_no_room(void)
{
	struct rlimit limit, none;
	struct braid_endpoint *endpoint;
	int fd, ret;

	NEED(!braid_endpoint_open(&endpoint, address));
	fd = connect_to(socket_path);
	NEED(!getrlimit(RLIMIT_NOFILE, &limit));
	none = limit;
	none.rlim_cur = 0;
	CHECK(has_work(endpoint));
	NEED(!setrlimit(RLIMIT_NOFILE, &none));
	ret = braid_endpoint_serve(endpoint);
	NEED(!setrlimit(RLIMIT_NOFILE, &limit));
	CHECK_EQ(ret, -EMFILE);
	CHECK(strstr(braid_failure(), "raise the limit"));
	CHECK(!has_work(endpoint));
	while (!has_work(endpoint))
		usleep(1000);
	CHECK_EQ(braid_endpoint_serve(endpoint), 0);
	close(fd);
	braid_endpoint_close(endpoint);
	unlink(region_path);
}

static void test_stale_socket(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct braid_endpoint *endpoint;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strcpy(a.sun_path, socket_path);
	NEED(!bind(fd, (struct sockaddr *)&a, sizeof(a)));
	close(fd);
	NEED(!braid_endpoint_open(&endpoint, address));
	braid_endpoint_close(endpoint);
	CHECK(access(region_path, F_OK));	/* it was not handed out */

	/* A file that is not a socket is not removed. */
	fd = creat(socket_path, 0600);
	close(fd);
	CHECK_EQ(braid_endpoint_open(&endpoint, address), -EADDRINUSE);
	CHECK_EQ(unlink(socket_path), 0);
	CHECK_EQ(braid_endpoint_open(&endpoint, "ivshmem-doorbell:/nowhere/s,shm=/nowhere/m"),
		 -ENOENT);
	snprintf(address, sizeof(address), "ivshmem-doorbell:%s,shm=%s,size=3M", socket_path,
		 region_path);
	CHECK_EQ(braid_endpoint_open(&endpoint, address), -EINVAL);
}

/* Its memory must be a plain file that the agent's user owns: files of others are refused. */
static void test_foreign_memory(void)
{
	struct braid_endpoint *endpoint;
	char other[80];
	struct stat st;
	int fd;

	snprintf(address, sizeof(address), "ivshmem-doorbell:%s,shm=%s,size=1M", socket_path,
		 region_path);
	snprintf(other, sizeof(other), "%s.other", region_path);
	fd = creat(other, 0600);
	NEED(fd >= 0 && !close(fd));
	NEED(!symlink(other, region_path));
	CHECK_EQ(braid_endpoint_open(&endpoint, address), -ELOOP);
	NEED(!unlink(region_path) && !link(other, region_path));
	CHECK_EQ(braid_endpoint_open(&endpoint, address), -EPERM);
	NEED(!unlink(region_path));
	CHECK(!stat(other, &st) && !st.st_size);
	NEED(!rename(other, region_path) && !chmod(region_path, 0606));
	CHECK_EQ(braid_endpoint_open(&endpoint, address), -EPERM);
	if (!geteuid()) {
		NEED(!chmod(region_path, 0600) && !chown(region_path, 1, 1));
		CHECK_EQ(braid_endpoint_open(&endpoint, address), -EPERM);
	}
	CHECK(!stat(region_path, &st) && !st.st_size);
	unlink(region_path);
}

static struct braid_mailbox *box_of(struct session *s)
{
	return (void *)(s->guest->base + s->guest->sb.sections[BRAID_SECTION_MAILBOX].offset);
}

static bool asked(struct session *s)
{
	return braid_load(&box_of(s)->wake_doorbell) == 1 << 16;
}

static bool not_asked(struct session *s)
{
	return !braid_load(&box_of(s)->wake_doorbell);
}

static bool recording(struct session *s)
{
	return s->status.phase == BRAID_PHASE_RECORDING;
}

static u32 asked_since;

static bool asked_again(struct session *s)
{
	return asked(s) && braid_load(&box_of(s)->wake_seq) != asked_since;
}

/* An idle guest is asked to ring; a busy one is not, nor one that is not recorded. */
static void test_waking(void)
{
	struct session s = { 0 };
	struct client c;

	snprintf(address, sizeof(address), "ivshmem-doorbell:%s,shm=%s", socket_path, region_path);
	s.guest = fake_guest_new(region_path, &usual);
	session_begin(&s, address, capture_path, NULL);
	session_until(&s, recording);
	session_settle(&s);
	CHECK(not_asked(&s));	/* no doorbell */

	c.fd = connect_to(socket_path);
	session_until(&s, asked);
	take_greeting(&c);
	CHECK(braid_load(&box_of(&s)->wake_permille) >= 1);
	CHECK(braid_load(&box_of(&s)->wake_permille) <= 1000);
	asked_since = braid_load(&box_of(&s)->wake_seq);

	fake_guest_write(s.guest, 0, 2000);
	session_until(&s, not_asked);
	session_until(&s, asked_again);
	asked_since = braid_load(&box_of(&s)->wake_seq);
	session_settle(&s);
	CHECK_EQ(braid_load(&box_of(&s)->wake_seq), asked_since);	/* once is enough */
	ring(c.agents_fd);
	session_until(&s, asked_again);

	session_end(&s);
	CHECK(not_asked(&s));
	drop(&c);
	fake_guest_free(s.guest);
}

static struct client commanded;

static bool rung_for_command(struct session *s)
{
	(void)s;
	return is_rung(commanded.own_fd);
}

/* A recording's commands to enable events are sent with an interrupt. */
static void test_commands_ring(void)
{
	struct session s = { 0 };
	struct braid_pattern pattern;

	NEED(!braid_pattern_parse(&pattern, "test"));
	s.pattern = &pattern;
	snprintf(address, sizeof(address), "ivshmem-doorbell:%s,shm=%s", socket_path, region_path);
	s.guest = fake_guest_new(region_path, &usual);
	session_begin(&s, address, capture_path, NULL);
	commanded.fd = connect_to(socket_path);
	session_turn(&s);
	take_greeting(&commanded);
	session_until(&s, rung_for_command);
	CHECK(not_asked(&s));	/* the answer is polled for as usual */
	session_end(&s);
	drop(&commanded);
	fake_guest_free(s.guest);
}

int main(void)
{
	region_path = scratch("region");
	socket_path = scratch("socket");
	capture_path = scratch("capture");
	RUN(test_addresses);
	RUN(test_server);
	RUN(test_flood);
	RUN(test_no_room);
	RUN(test_stale_socket);
	RUN(test_foreign_memory);
	RUN(test_waking);
	RUN(test_commands_ring);
	return VERDICT();
}
