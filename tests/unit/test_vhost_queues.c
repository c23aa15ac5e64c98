// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Guests that break the rules of virtqueues and of the device "trace": some are disconnected, some
 * get an error; none does harm.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host_agent/transport/vhost_user.h"
#include "host_agent/util/error.h"
#include "tests/unit/bad_vm.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

/* Virtqueues ---------------------------------------------------------------------------------- */

static struct vring *control(void)
{
	return &vm.front.queues[BRAID_VIRTIO_CONTROLQ].ring;
}

static void make_available(u16 head)
{
	control()->avail->ring[control()->avail->idx % FRONT_RING] = head;
	control()->avail->idx++;
}

static void describe(u32 k, u64 at, u32 bytes, u16 flags, u16 next)
{
	control()->desc[k] = (struct vring_desc){ at, bytes, flags, next };
}

static void jump(void)
{
	control()->avail->idx += FRONT_RING + 1;
}

static void go_back(void)
{
	control()->avail->idx--;
}

static void head_outside(void)
{
	make_available(FRONT_RING);
}

static void next_outside(void)
{
	describe(0, FRONT_GUEST_ADDRESS, 8, VRING_DESC_F_NEXT, FRONT_RING);
	make_available(0);
}

static void loop(void)
{
	describe(0, FRONT_GUEST_ADDRESS, 8, VRING_DESC_F_NEXT, 1);
	describe(1, FRONT_GUEST_ADDRESS, 8, VRING_DESC_F_NEXT, 0);
	make_available(0);
}

static void indirect(void)
{
	describe(0, FRONT_GUEST_ADDRESS, 32, VRING_DESC_F_INDIRECT, 0);
	make_available(0);
}

static void readable_last(void)
{
	describe(0, FRONT_GUEST_ADDRESS, 8, VRING_DESC_F_WRITE | VRING_DESC_F_NEXT, 1);
	describe(1, FRONT_GUEST_ADDRESS, 8, 0, 0);
	make_available(0);
}

static void buffer_outside(void)
{
	describe(0, 1ULL << 50, 8, VRING_DESC_F_NEXT, 1);
	describe(1, FRONT_GUEST_ADDRESS, 8, VRING_DESC_F_WRITE, 0);
	make_available(0);
}

static void buffer_half_outside(void)
{
	describe(0, FRONT_GUEST_ADDRESS + FRONT_BYTES - 4, 8, VRING_DESC_F_NEXT, 1);
	describe(1, FRONT_GUEST_ADDRESS, 8, VRING_DESC_F_WRITE, 0);
	make_available(0);
}

static void status_outside(void)
{
	struct braid_virtio_control revoke = { .command = BRAID_VIRTIO_REVOKE };

	front_end_put(&vm.front, BRAID_VIRTIO_CONTROLQ, &revoke, sizeof(revoke), 4);
	control()->desc[(vm.front.queues[0].next - 1) % FRONT_RING].addr = ~0ULL - 2;
}

static void memory_shrinks(void)
{
	NEED(!ftruncate(vm.front.memory_fd, 0));
}

static void trouble_of_doorbell(void)
{
	struct vring *r = &vm.front.queues[BRAID_VIRTIO_NOTIFYQ].ring;

	r->avail->ring[0] = 0xffff;
	r->avail->idx++;
	braid_endpoint_ring(vm.endpoint);
}

static void change_running(void)
{
	struct braid_vhost_ring_state state = { BRAID_VIRTIO_CONTROLQ, 32 };

	bad_vm_send(BRAID_VHOST_SET_VRING_NUM, 1, sizeof(state), &state, sizeof(state), 0);
}

static void log_dirty(void)
{
	struct braid_vhost_ring_address at = { .index = 0, .flags = 1 };

	NEED(front_end_stop(&vm.front));
	bad_vm_send(BRAID_VHOST_SET_VRING_ADDR, 1, sizeof(at), &at, sizeof(at), 0);
}

static void run_control(void)
{
	NEED(front_end_ask_value(&vm.front, BRAID_VHOST_SET_VRING_KICK, 0,
				 vm.front.queues[0].kick_fd));
	front_end_ask_state(&vm.front, BRAID_VHOST_SET_VRING_ENABLE, 0, 1);
}

static void ring_at(u64 descriptors)
{
	struct braid_vhost_ring_address at = {
		.descriptors = descriptors, .available = FRONT_USER_ADDRESS,
		.used = FRONT_USER_ADDRESS,
	};

	NEED(front_end_stop(&vm.front));
	NEED(front_end_ask(&vm.front, BRAID_VHOST_SET_VRING_ADDR, &at, sizeof(at), -1));
	run_control();
}

static void ring_outside(void)
{
	ring_at(0);
}

static void ring_at_the_end(void)
{
	ring_at(FRONT_USER_ADDRESS + FRONT_BYTES - 64);
}

static void ring_unaligned(void)
{
	ring_at(FRONT_USER_ADDRESS + 8);
}

static void ring_without_memory(void)
{
	NEED(front_end_stop(&vm.front));
	bad_vm_send(BRAID_VHOST_SET_MEM_TABLE, 1, 8, &(u64){ 0 }, 8, 0);
	run_control();
}

static void test_queues(void)
{
	static const struct {
		void (*breaks)(void);
		const char *why;
	} bad[] = {
		{ jump, "jumps" }, { go_back, "jumps" }, { head_outside, "descriptor index 64 out of range" },
		{ next_outside, "descriptor index 64 out of range" }, { loop, "without an end" },
		{ indirect, "unsupported" }, { readable_last, "descriptor after a writable one" },
		{ buffer_outside, "outside" }, { buffer_half_outside, "outside" },
		{ status_outside, "outside" }, { memory_shrinks, "truncated" },
		{ trouble_of_doorbell, "descriptor index 65535 out of range" },
		{ change_running, "while it runs" }, { log_dirty, "dirty" },
		{ ring_outside, "outside" }, { ring_at_the_end, "outside" },
		{ ring_unaligned, "aligned" }, { ring_without_memory, "outside" },
	};
	int fds = count_fds(), mappings = count_mappings();
	size_t k;

	for (k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
		bad_vm_begin(0);
		NEED(front_end_start(&vm.front));
		bad[k].breaks();
		if (!bad_vm_dropped() || vm.front.pumped >= 0 ||
		    !strstr(braid_failure(), bad[k].why)) {
			fprintf(stderr, "queue %zu: %d, %s\n", k, vm.front.pumped, braid_failure());
			CHECK(!"it is let go of");
		}
		bad_vm_end();
		CHECK(fds_come_to(fds));
		CHECK_EQ(count_mappings(), mappings);
	}
}

/* The device ---------------------------------------------------------------------------------- */

/* Announcements and their results. The connection stays. */
static void test_announcements(void)
{
	static const struct {
		struct braid_virtio_chunk chunks[2];
		u32 nr, result;
		const char *why;
	} bad[] = {
		{ { { REGION, 0 } }, 1, BRAID_VIRTIO_BAD, "page-aligned" },
		{ { { REGION + 8, 4096 } }, 1, BRAID_VIRTIO_BAD, "page-aligned" },
		{ { { REGION, 4097 } }, 1, BRAID_VIRTIO_BAD, "page-aligned" },
		{ { { -4096ULL, 8192 } }, 1, BRAID_VIRTIO_BAD, "page-aligned" },
		{ { { REGION, 8192 }, { REGION + 4096, 8192 } }, 2, BRAID_VIRTIO_BAD, "overlap" },
		{ { { REGION + 4096, 4096 }, { REGION, 8192 } }, 2, BRAID_VIRTIO_BAD, "overlap" },
		{ { { 1ULL << 45, 4096 } }, 1, BRAID_VIRTIO_BAD, "outside" },
		{ { { REGION, REGION_BYTES + 4096 } }, 1, BRAID_VIRTIO_BAD, "outside" },
		{ { { REGION, 1ULL << 31 } }, 1, BRAID_VIRTIO_REFUSED, "more than" },
		{ { { REGION, 4096 }, { 1ULL << 40, -8192ULL - (1ULL << 40) } }, 2,
		  BRAID_VIRTIO_REFUSED, "more than" },
	};
	const struct braid_virtio_chunk good = { REGION, 8192 };
	struct braid_mapping *m;
	u32 *result;
	size_t k;

	for (k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
		bad_vm_begin(0);
		NEED(front_end_start(&vm.front));
		result = front_end_announce(&vm.front, bad[k].chunks, bad[k].nr);
		CHECK_EQ(front_end_await(&vm.front, BRAID_VIRTIO_CONTROLQ), 4);
		CHECK_EQ(*result, bad[k].result);
		CHECK(vm.front.pumped < 0 && strstr(braid_failure(), bad[k].why));
		CHECK(strstr(braid_failure(), "refused"));
		CHECK_EQ(braid_endpoint_map(vm.endpoint, &m), -ENODATA);
		vm.front.pumped = 0;
		result = front_end_announce(&vm.front, &good, 1);
		CHECK(bad_vm_serve() >= 0);
		CHECK(!braid_endpoint_map(vm.endpoint, &m));
		braid_mapping_close(m);
		bad_vm_end();
	}
}

/* size= is the size requested from the driver, and its limit. */
static void test_size(void)
{
	const struct braid_virtio_chunk more[2] = { { REGION, 65536 }, { REGION + 131072, 4096 } };
	struct braid_mapping *m;
	u32 *result;

	vm.options = ",size=64K";
	bad_vm_begin(0);
	NEED(front_end_start(&vm.front));
	result = front_end_announce(&vm.front, more, 2);
	CHECK_EQ(front_end_await(&vm.front, BRAID_VIRTIO_CONTROLQ), 4);
	CHECK_EQ(*result, BRAID_VIRTIO_REFUSED);
	CHECK(strstr(braid_failure(), "more than 65536 bytes, the limit of size="));
	CHECK_EQ(braid_endpoint_map(vm.endpoint, &m), -ENODATA);
	vm.front.pumped = 0;
	result = front_end_announce(&vm.front, more, 1);
	CHECK(bad_vm_serve() >= 0);
	CHECK(!braid_endpoint_map(vm.endpoint, &m));
	braid_mapping_close(m);
	bad_vm_end();
	vm.options = NULL;
}

static void try_control(const void *data, u32 bytes, u32 room, u32 expected)
{
	u32 *result = (u32 *)front_end_put(&vm.front, BRAID_VIRTIO_CONTROLQ, data, bytes, room);

	vm.front.pumped = 0;
	CHECK_EQ(front_end_await(&vm.front, BRAID_VIRTIO_CONTROLQ), room >= 4 ? 4 : 0);
	if (room >= 4)
		CHECK_EQ(*result, expected);
	CHECK_EQ(vm.front.pumped, expected == BRAID_VIRTIO_OK && room >= 4 ? 0 : -EINVAL);
	vm.front.pumped = 0;
}

static void test_control(void)
{
	struct {
		struct braid_virtio_control head;
		struct braid_virtio_chunk chunks[2];
	} c = { .chunks = { { REGION, 4096 }, { REGION + 4096, 4096 } } };

	bad_vm_begin(0);
	NEED(front_end_start(&vm.front));
	while (bad_vm_serve() > 0)
		;
	c.head.command = BRAID_VIRTIO_REVOKE;
	try_control(&c, 8, 4, BRAID_VIRTIO_OK);		/* of nothing */
	try_control(&c, 8, 0, BRAID_VIRTIO_OK);
	try_control(&c, 4, 4, BRAID_VIRTIO_BAD);
	try_control(&c, 24, 4, BRAID_VIRTIO_BAD);
	bad_vm_end();
	bad_vm_begin(0);
	NEED(front_end_start(&vm.front));
	while (bad_vm_serve() > 0)
		;
	c.head.command = BRAID_VIRTIO_ANNOUNCE;
	try_control(&c, 8, 4, BRAID_VIRTIO_BAD);
	c.head.nr_chunks = 2;
	try_control(&c, 24, 4, BRAID_VIRTIO_BAD);
	try_control(&c, sizeof(c), 3, BRAID_VIRTIO_BAD);
	c.head.nr_chunks = 0x10000001;
	try_control(&c, 24, 4, BRAID_VIRTIO_BAD);
	bad_vm_end();
	bad_vm_begin(0);
	NEED(front_end_start(&vm.front));
	while (bad_vm_serve() > 0)
		;
	c.head.command = 3;
	try_control(&c, 8, 4, BRAID_VIRTIO_BAD);
	bad_vm_end();
}

/* A second announcement waits after the first, and gets its answer in turn. */
static void test_busy(void)
{
	const struct braid_virtio_chunk chunk = { REGION, 8192 };
	u32 *first, *second;

	bad_vm_begin(0);
	NEED(front_end_start(&vm.front));
	first = front_end_announce(&vm.front, &chunk, 1);
	second = front_end_announce(&vm.front, &chunk, 1);
	while (bad_vm_serve() >= 0 && *second != BRAID_VIRTIO_BUSY)
		;
	CHECK_EQ(front_end_used(&vm.front, BRAID_VIRTIO_CONTROLQ), -1);
	front_end_revoke(&vm.front);
	CHECK_EQ(front_end_await(&vm.front, BRAID_VIRTIO_CONTROLQ), 4);
	CHECK_EQ(front_end_await(&vm.front, BRAID_VIRTIO_CONTROLQ), 4);
	CHECK_EQ(front_end_await(&vm.front, BRAID_VIRTIO_CONTROLQ), 4);
	CHECK(*first == BRAID_VIRTIO_OK && *second == BRAID_VIRTIO_BUSY);
	bad_vm_end();
}

static void announce_and_revoke(u64 hold_ns)
{
	const struct braid_virtio_chunk chunk = { REGION, 8192 };

	bad_vm_begin(0);
	((struct braid_vhost_endpoint *)vm.endpoint)->hold_ns = hold_ns;
	NEED(front_end_start(&vm.front));
	front_end_announce(&vm.front, &chunk, 1);
	front_end_revoke(&vm.front);
}

/* A region that is revoked at once can still be mapped in time. */
static void test_hold(void)
{
	struct braid_mapping *m;
	int n;

	announce_and_revoke(~0ULL);
	for (n = 0; n < 100; n++)
		CHECK(bad_vm_serve() >= 0);
	CHECK_EQ(front_end_used(&vm.front, BRAID_VIRTIO_CONTROLQ), -1);
	NEED(!braid_endpoint_map(vm.endpoint, &m));
	CHECK(braid_mapping_gone(m) && m->taken_back);
	CHECK_EQ(front_end_used(&vm.front, BRAID_VIRTIO_CONTROLQ), -1);
	braid_mapping_close(m);
	CHECK_EQ(front_end_await(&vm.front, BRAID_VIRTIO_CONTROLQ), 4);
	CHECK_EQ(front_end_await(&vm.front, BRAID_VIRTIO_CONTROLQ), 4);
	CHECK(vm.front.pumped >= 0);
	bad_vm_end();

	/* Too late, and reported. */
	announce_and_revoke(0);
	CHECK_EQ(front_end_await(&vm.front, BRAID_VIRTIO_CONTROLQ), 4);
	CHECK_EQ(front_end_await(&vm.front, BRAID_VIRTIO_CONTROLQ), 4);
	CHECK(vm.front.pumped == -ENODATA && strstr(braid_failure(), "its events are lost"));
	CHECK_EQ(braid_endpoint_map(vm.endpoint, &m), -ENODATA);
	bad_vm_end();
}

/* Files that cannot be the announced memory. */
static void test_files(void)
{
	struct braid_virtio_chunk chunk = { REGION, REGION_BYTES };
	struct braid_mapping *m;
	u32 *result;

	bad_vm_begin(0);
	NEED(!ftruncate(vm.region_fd, REGION_BYTES - 4096) && front_end_start(&vm.front));
	result = front_end_announce(&vm.front, &chunk, 1);
	CHECK_EQ(front_end_await(&vm.front, BRAID_VIRTIO_CONTROLQ), 4);
	CHECK_EQ(*result, BRAID_VIRTIO_REFUSED);
	CHECK(strstr(braid_failure(), "of its memory's file"));
	bad_vm_end();

	bad_vm_begin(0);
	vm.front.more[0].offset = 512;
	chunk.bytes = 8192;
	NEED(front_end_start(&vm.front));
	result = front_end_announce(&vm.front, &chunk, 1);
	CHECK_EQ(front_end_await(&vm.front, BRAID_VIRTIO_CONTROLQ), 4);
	CHECK_EQ(*result, BRAID_VIRTIO_REFUSED);
	bad_vm_end();

	/* Made shorter while it is mapped: an error, not a signal. */
	bad_vm_begin(0);
	NEED(front_end_start(&vm.front));
	front_end_announce(&vm.front, &chunk, 1);
	CHECK(bad_vm_serve() >= 0 && !braid_endpoint_map(vm.endpoint, &m) &&
	      !ftruncate(vm.region_fd, 0));
	CHECK_EQ(braid_mapping_identify(m, &(struct braid_superblock){ 0 }), -EFAULT);
	braid_mapping_close(m);
	CHECK_EQ(braid_endpoint_map(vm.endpoint, &m), -EFAULT);
	bad_vm_end();
}

static void test_huge_pages(void)
{
	struct braid_virtio_chunk chunk = { 1ULL << 32, 65536 };
	int fd = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB);
	u32 *result;

	if (fd < 0 || ftruncate(fd, 4 << 20)) {
		printf("     this kernel has no huge pages\n");
		return;
	}
	bad_vm_begin(0);
	front_end_add_memory(&vm.front, 1ULL << 32, fd, 0, 4 << 20);
	NEED(front_end_start(&vm.front));
	result = front_end_announce(&vm.front, &chunk, 1);
	CHECK_EQ(front_end_await(&vm.front, BRAID_VIRTIO_CONTROLQ), 4);
	CHECK_EQ(*result, BRAID_VIRTIO_REFUSED);
	CHECK(strstr(braid_failure(), "huge page"));
	bad_vm_end();
	close(fd);
}

int main(void)
{
	bad_vm_init();
	RUN(test_queues);
	RUN(test_announcements);
	RUN(test_size);
	RUN(test_control);
	RUN(test_busy);
	RUN(test_hold);
	RUN(test_files);
	RUN(test_huge_pages);
	bad_vm_deinit();
	return VERDICT();
}
