// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * VMs that break the rules of vhost-user: each is disconnected with a message that gives the
 * reason, leaves no resources behind, and the next one is served.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/util/error.h"
#include "tests/unit/bad_vm.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

/* Invalid messages ------------------------------------------------------------ */

static const struct bad_message {
	u32 request;
	u32 flags;
	u32 bytes;		/* as the header says */
	u32 nr_fds;
	u64 payload[3];
	const char *why;
} bad_messages[] = {
	{ 0, 1, 0, 0, { 0 }, "unsupported message" },
	{ 6, 1, 8, 0, { 0 }, "unsupported message" },
	{ 22, 1, 8, 0, { 0 }, "unsupported message" },
	{ 36, 1, 0, 0, { 0 }, "unsupported message" },
	{ 0xffffffff, 1, 0, 0, { 0 }, "unsupported message" },
	{ BRAID_VHOST_GET_FEATURES, 0, 0, 0, { 0 }, "not a request" },
	{ BRAID_VHOST_GET_FEATURES, 2, 0, 0, { 0 }, "not a request" },
	{ BRAID_VHOST_GET_FEATURES, 5, 0, 0, { 0 }, "not a request" },
	{ BRAID_VHOST_GET_FEATURES, 1, 4096, 0, { 0 }, "4096 bytes" },
	{ BRAID_VHOST_GET_FEATURES, 1, 0xffffffff, 0, { 0 }, "4294967295 bytes" },
	{ BRAID_VHOST_GET_FEATURES, 1, 8, 0, { 0 }, "of 8 bytes" },
	{ BRAID_VHOST_GET_FEATURES, 1, 0, 1, { 0 }, "with 1 file" },
	{ BRAID_VHOST_GET_FEATURES, 1, 0, 9, { 0 }, "more than" },
	{ BRAID_VHOST_GET_FEATURES, 1, 0, 24, { 0 }, "more than" },
	{ BRAID_VHOST_SET_FEATURES, 1, 4, 0, { 0 }, "of 4 bytes" },
	{ BRAID_VHOST_SET_FEATURES, 1, 8, 0, { FRONT_FEATURES | 1ULL << 34 }, "unsupported" },
	{ BRAID_VHOST_SET_FEATURES, 1, 8, 0, { 1ULL << 30 }, "legacy" },
	{ BRAID_VHOST_SET_PROTOCOL_FEATURES, 1, 8, 0, { 1ULL << 15 }, "unsupported" },
	{ BRAID_VHOST_SET_PROTOCOL_FEATURES, 1, 8, 0, { FRONT_INBAND }, "without the features they need" },
	{ BRAID_VHOST_SET_MEM_TABLE, 1, 8, 0, { 1 }, "a memory table" },
	{ BRAID_VHOST_SET_MEM_TABLE, 1, 8, 1, { 1 }, "a memory table" },
	{ BRAID_VHOST_SET_MEM_TABLE, 1, 8, 0, { 9 }, "a memory table" },
	{ BRAID_VHOST_SET_MEM_TABLE, 1, 8, 8, { 0xffffffff }, "a memory table" },
	{ BRAID_VHOST_SET_MEM_TABLE, 1, 0, 1, { 0 }, "a memory table" },
	{ BRAID_VHOST_SET_VRING_NUM, 1, 8, 0, { 2 | 64ULL << 32 }, "virtqueue 2" },
	{ BRAID_VHOST_SET_VRING_NUM, 1, 8, 0, { 0 }, "of 0 descriptors" },
	{ BRAID_VHOST_SET_VRING_NUM, 1, 8, 0, { 63ULL << 32 }, "of 63 descriptors" },
	{ BRAID_VHOST_SET_VRING_NUM, 1, 8, 0, { 2048ULL << 32 }, "of 2048 descriptors" },
	{ BRAID_VHOST_SET_VRING_BASE, 1, 8, 0, { 0x10000ULL << 32 }, "virtqueue base" },
	{ BRAID_VHOST_SET_VRING_BASE, 1, 8, 0, { 77 }, "virtqueue 77" },
	{ BRAID_VHOST_SET_VRING_ADDR, 1, 24, 0, { 0 }, "of 24 bytes" },
	{ BRAID_VHOST_GET_VRING_BASE, 1, 8, 0, { 0xffffffff }, "virtqueue" },
	{ BRAID_VHOST_SET_VRING_KICK, 1, 8, 0, { 0 }, "with 0 file" },
	{ BRAID_VHOST_SET_VRING_KICK, 1, 8, 2, { 0 }, "with 2 file" },
	{ BRAID_VHOST_SET_VRING_KICK, 1, 8, 1, { 0x100 }, "with 1 file" },
	{ BRAID_VHOST_SET_VRING_KICK, 1, 8, 1, { 0x200 }, "with 1 file" },
	{ BRAID_VHOST_SET_VRING_CALL, 1, 8, 1, { 2 }, "virtqueue 2" },
	{ BRAID_VHOST_SET_VRING_ERR, 1, 8, 1, { 0xff }, "virtqueue 255" },
	{ BRAID_VHOST_SET_VRING_ENABLE, 1, 8, 0, { 2 }, "virtqueue 2" },
	{ BRAID_VHOST_SET_VRING_ENABLE, 1, 8, 0, { 7ULL << 32 }, "enable value 7" },
	{ BRAID_VHOST_VRING_KICK, 1, 8, 0, { 0 }, "in-band" },
	{ BRAID_VHOST_SET_BACKEND_REQ_FD, 1, 0, 0, { 0 }, "with 0 file" },
	{ BRAID_VHOST_GET_CONFIG, 1, 8, 0, { 0 }, "configuration" },
	{ BRAID_VHOST_GET_CONFIG, 1, 16, 0, { 8ULL << 32, 0 }, "configuration" },
	{ BRAID_VHOST_GET_CONFIG, 1, 16, 0, { 4ULL << 32 | 0xfffffffe, 0 }, "configuration" },
	{ BRAID_VHOST_SET_CONFIG, 1, 0, 0, { 0 }, "configuration" },
};

static void try_message(const struct bad_message *bad)
{
	u32 there = bad->bytes <= sizeof(bad->payload) ? bad->bytes : 0;

	bad_vm_begin(0);
	bad_vm_send(bad->request, bad->flags, bad->bytes, bad->payload, there, bad->nr_fds);
	if (!bad_vm_dropped() || vm.front.pumped >= 0 || !strstr(braid_failure(), bad->why) ||
	    !strstr(braid_failure(), "connection was closed")) {
		fprintf(stderr, "message %u: %d, %s\n", bad->request, vm.front.pumped,
			braid_failure());
		CHECK(!"it is let go of");
	}
	/* The next one is served. */
	front_end_hang_up(&vm.front);
	vm.front.pumped = 0;
	front_end_connect(&vm.front, vm.socket_path);
	CHECK(front_end_start(&vm.front));
	bad_vm_end();
}

static void test_messages(void)
{
	int fds = count_fds();
	size_t k;

	for (k = 0; k < sizeof(bad_messages) / sizeof(bad_messages[0]); k++) {
		try_message(&bad_messages[k]);
		CHECK(fds_come_to(fds));
	}
}

/* A message in pieces is awaited; one that never ends delays only its sender. */
static void test_extents(void)
{
	const struct braid_vhost_header header = { BRAID_VHOST_GET_FEATURES, 1, 0 };
	int fds = count_fds();
	u32 k;

	bad_vm_begin(0);
	for (k = 0; k < sizeof(header); k++) {
		CHECK_EQ(front_end_receive(&vm.front, BRAID_VHOST_GET_FEATURES), 0);
		NEED(write(vm.front.socket, (const u8 *)&header + k, 1) == 1);
		CHECK_EQ(bad_vm_serve(), 0);
	}
	CHECK_EQ(front_end_receive(&vm.front, BRAID_VHOST_GET_FEATURES), 1);
	bad_vm_send(BRAID_VHOST_SET_VRING_KICK, 1, 8, NULL, 0, 1);
	CHECK_EQ(bad_vm_serve(), 0);
	front_end_hang_up(&vm.front);
	CHECK_EQ(bad_vm_serve(), 0);
	front_end_connect(&vm.front, vm.socket_path);
	CHECK(front_end_start(&vm.front));
	bad_vm_end();
	CHECK(fds_come_to(fds));
}

/* A client that reads no answers is not waited for. */
static void test_unread_answers(void)
{
	int n;

	bad_vm_begin(0);
	for (n = 0; n < 100000 && vm.front.pumped >= 0; n++) {
		bad_vm_send(BRAID_VHOST_GET_FEATURES, 1, 0, NULL, 0, 0);
		vm.front.pumped = bad_vm_serve();
	}
	CHECK(vm.front.pumped < 0 && strstr(braid_failure(), "does not read"));
	bad_vm_end();
}

/* File descriptors ------------------------------------------------------------------------ */

/* A socket whose last close() waits for an hour, or until @other is closed. */
static int lingering(int *other)
{
	const struct linger hour = { .l_onoff = 1, .l_linger = 3600 };
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int server = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
	static const u8 bytes[65536];
	socklen_t n = sizeof(at);

	NEED(!bind(server, (struct sockaddr *)&at, n) && !listen(server, 1));
	NEED(!getsockname(server, (struct sockaddr *)&at, &n));
	NEED(!connect(fd, (struct sockaddr *)&at, n));
	*other = accept(server, NULL, NULL);
	close(server);
	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	NEED(!setsockopt(fd, SOL_SOCKET, SO_LINGER, &hour, sizeof(hour)));
	return fd;
}

/* A file that is not a doorbell is not used as one. */
static void test_doorbells(void)
{
	static const struct {
		u32 request;
		const char *file;	/* NULL: a pipe */
		const char *why;
	} bad[] = {
		{ BRAID_VHOST_SET_VRING_KICK, "/dev/zero", "not an eventfd" },
		{ BRAID_VHOST_SET_VRING_KICK, NULL, "not an eventfd" },
		{ BRAID_VHOST_SET_VRING_CALL, "/dev/zero", "not an eventfd, pipe or socket" },
		{ BRAID_VHOST_SET_BACKEND_REQ_FD, "/dev/null", "not a socket or pipe" },
	};
	struct braid_vhost_header header = { .flags = BRAID_VHOST_VERSION };
	int fds = count_fds(), ends[2];
	size_t k;

	for (k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
		bad_vm_begin(0);
		header.request = bad[k].request;
		header.bytes = header.request == BRAID_VHOST_SET_BACKEND_REQ_FD ? 0 : 8;
		NEED(!pipe(ends));
		if (bad[k].file) {
			close(ends[0]);
			ends[0] = open(bad[k].file, O_RDWR | O_CLOEXEC);
		}
		front_end_send(&vm.front, &header, &(u64){ 0 }, header.bytes, ends, 1);
		close(ends[0]);
		close(ends[1]);
		CHECK(bad_vm_dropped() && strstr(braid_failure(), bad[k].why));
		bad_vm_end();
	}
	CHECK(fds_come_to(fds));
}

/* A descriptor that can't be closed delays no peer, however it was received. */
static void test_lingering(void)
{
	int fds = count_fds(), others[3], given[3], k;
	struct braid_vhost_header header = { BRAID_VHOST_GET_FEATURES, 1, 0 };

	alarm(100);	/* otherwise it would take an hour */
	for (k = 0; k < 3; k++)
		given[k] = lingering(&others[k]);
	bad_vm_begin(0);
	NEED(front_end_send(&vm.front, &header, NULL, 0, &given[0], 1));
	close(given[0]);
	CHECK(bad_vm_dropped());
	front_end_hang_up(&vm.front);
	front_end_connect(&vm.front, vm.socket_path);
	/*
	 * Two that are never read: after an invalid message, and from a client that was not
	 * accepted.
	 */
	header.request = 99;
	NEED(front_end_send(&vm.front, &header, NULL, 0, NULL, 0));
	NEED(front_end_send(&vm.front, &header, NULL, 0, &given[1], 1));
	close(given[1]);
	CHECK(bad_vm_dropped());
	front_end_hang_up(&vm.front);
	front_end_connect(&vm.front, vm.socket_path);
	NEED(front_end_send(&vm.front, &header, NULL, 0, &given[2], 1));
	close(given[2]);
	bad_vm_end();
	for (k = 0; k < 3; k++)
		close(others[k]);
	CHECK(fds_come_to(fds));
	alarm(0);
}

/* Too many of them disable the socket. Some stay open. */
static void test_lingering_many(void)
{
	const struct braid_vhost_header header = { BRAID_VHOST_GET_FEATURES, 1, 0 };
	int given[24], other, k, n;

	alarm(100);
	bad_vm_begin(0);
	for (n = 0; n < 5 && !strstr(braid_failure(), "listener disabled"); n++) {
		for (k = 0; k < 24; k++)
			given[k] = n || k ? socket(AF_INET, SOCK_STREAM, 0) : lingering(&other);
		NEED(front_end_send(&vm.front, &header, NULL, 0, given, 24));
		for (k = 0; k < 24; k++)
			close(given[k]);
		CHECK(bad_vm_dropped());
		front_end_hang_up(&vm.front);
		front_end_connect(&vm.front, vm.socket_path);
	}
	CHECK(n > 1 && n < 5);
	CHECK_EQ(braid_endpoint_serve(vm.endpoint), 0);
	CHECK_EQ(front_end_receive(&vm.front, 0), 0);
	CHECK_EQ(braid_endpoint_fds(vm.endpoint, (struct pollfd[BRAID_ENDPOINT_FDS]){ 0 }), 0);
	bad_vm_end();
	close(other);
	alarm(0);
}

/* Memory ---------------------------------------------------------------------------------- */

static void test_tables(void)
{
	static const struct {
		struct braid_vhost_region region;
		const char *file;	/* instead of memory */
		const char *why;
	} bad[] = {
		{ { 0, 0, 0, 0 }, NULL, "invalid range" },
		{ { ~0ULL, 4096, 0, 0 }, NULL, "invalid range" },
		{ { 0, 4096, ~0ULL, 0 }, NULL, "invalid range" },
		{ { 0, 4096, 0, ~0ULL - 5 }, NULL, "invalid range" },
		{ { 0, 4096, 0, 1ULL << 63 }, NULL, "invalid range" },
		{ { 0, 4096, 0, 0 }, "/dev/zero", "not a file of tmpfs" },
		{ { 0, 4096, 0, 0 }, "/proc/self/exe", "not a file of tmpfs" },
	};
	int fds = count_fds(), fd;
	union braid_vhost_payload payload = { .memory.nr_regions = 1 };
	struct braid_vhost_header header = { BRAID_VHOST_SET_MEM_TABLE, 1, 40 };
	size_t k;

	for (k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
		bad_vm_begin(0);
		payload.memory.regions[0] = bad[k].region;
		fd = bad[k].file ? open(bad[k].file, O_RDONLY | O_CLOEXEC) : dup(vm.region_fd);
		front_end_send(&vm.front, &header, &payload, 40, &fd, 1);
		close(fd);
		CHECK(bad_vm_dropped() && vm.front.pumped < 0);
		CHECK(strstr(braid_failure(), bad[k].why));
		bad_vm_end();
	}
	CHECK(fds_come_to(fds));
}

/* Repeated invalid connections are accepted more and more rarely. */
static void test_flood(void)
{
	u32 complaints = 0;
	int n;

	bad_vm_begin(0);
	for (n = 0; n < 12; n++) {	/* no more than the backlog of accept() */
		if (vm.front.socket < 0)
			front_end_connect(&vm.front, vm.socket_path);
		bad_vm_send(0, 1, 0, NULL, 0, 0);
		complaints += braid_endpoint_serve(vm.endpoint) < 0;
		front_end_hang_up(&vm.front);
	}
	CHECK(complaints >= 8 && complaints < 12);
	bad_vm_end();
}

int main(void)
{
	bad_vm_init();
	RUN(test_messages);
	RUN(test_extents);
	RUN(test_unread_answers);
	RUN(test_doorbells);
	RUN(test_lingering);
	RUN(test_tables);
	RUN(test_flood);
	RUN(test_lingering_many);
	bad_vm_deinit();
	return VERDICT();
}
