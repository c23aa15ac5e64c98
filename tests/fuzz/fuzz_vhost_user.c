// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A VM that sends arbitrary messages over vhost-user, with arbitrary virtqueues: it is
 * served or disconnected, and no file, mapping or descriptor is leaked.
 */
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host_agent/transport/vhost_user.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/front_end.h"

#define MAX_STEPS	200
#define REGION		0x40000000ULL
#define REGION_BYTES	0x40000u
#define MAX_FAULTS	7	/* after more, the endpoint rarely listens */

static struct {
	struct fuzz_input in;
	struct braid_endpoint *endpoint;
	struct front_end f;
	struct braid_mapping *m;
	int region_fd;
	u32 faults;
} vm;

static char dir[] = "/tmp/fuzz_vhost_user.XXXXXX";
static char socket_path[64], address[96];

static void remove_dir(void)
{
	rmdir(dir);
}

static int serve(void *arg)
{
	int ret = braid_endpoint_serve(arg);

	MUST(ret <= 1);
	vm.faults += ret < 0;
	if (vm.m && braid_mapping_gone(vm.m)) {
		braid_mapping_close(vm.m);
		vm.m = NULL;
	}
	return ret;
}

static int touch(void *arg)
{
	struct braid_mapping *m = arg;

	return m->base[0] ^ m->base[m->bytes - 1] ? 0 : 1;
}

static void map(void)
{
	if (vm.m || braid_endpoint_map(vm.endpoint, &vm.m))
		return;
	MUST(vm.m->bytes && vm.m->bytes % BRAID_PAGE_BYTES == 0 && vm.m->bytes <= 1ULL << 30);
	braid_guard_run(vm.m->base, vm.m->bytes, touch, vm.m);
}

static void unmap(void)
{
	braid_mapping_close(vm.m);
	vm.m = NULL;
}

/* Any bytes, with any of the available file descriptors. */
static void send_message(u32 how)
{
	struct braid_vhost_header header = { .request = fuzz_take(&vm.in, 1) };
	const int there[] = { vm.f.memory_fd, vm.region_fd, vm.f.queues[0].kick_fd,
			      vm.f.queues[0].call_fd };
	u32 nr_fds = how >> 4 & 3, payload_bytes, k;
	u8 payload[300];
	int fds[3];

	header.flags = BRAID_VHOST_VERSION | (how & 0x40 ? BRAID_VHOST_NEED_REPLY : 0);
	header.bytes = payload_bytes = fuzz_take(&vm.in, 1);
	for (k = 0; k < payload_bytes; k++)
		payload[k] = fuzz_take(&vm.in, 1);
	if (how & 0x80)		/* a length that may be wrong */
		header.bytes = fuzz_take(&vm.in, 2);
	for (k = 0; k < nr_fds; k++)
		fds[k] = there[fuzz_take(&vm.in, 1) % 4];
	front_end_send(&vm.f, &header, payload, payload_bytes, fds, nr_fds);
}

/* Changes a word of a queue or of a buffer. */
static void poke(void)
{
	u32 at = fuzz_take(&vm.in, 2) % (FRONT_BYTES / 2) * 2, bytes = 1 + fuzz_take(&vm.in, 1) % 8;
	u64 value = fuzz_take(&vm.in, bytes);

	memcpy(vm.f.memory + at, &value, bytes < FRONT_BYTES - at ? bytes : 1);
}

/* Makes any descriptors available. */
static void put_descriptors(u32 how)
{
	struct front_queue *q = &vm.f.queues[how >> 4 & 1];
	u32 nr = 1 + (how >> 5), k, head = fuzz_take(&vm.in, 1) % (FRONT_RING + 1);

	for (k = 0; k < nr; k++) {
		struct vring_desc *d = &q->ring.desc[(head + k) % FRONT_RING];

		d->addr = FRONT_GUEST_ADDRESS + fuzz_take(&vm.in, 3);
		d->len = fuzz_take(&vm.in, 2);
		d->flags = fuzz_take(&vm.in, 1) & 7;
		d->next = (head + k + 1) % FRONT_RING;
	}
	q->ring.avail->ring[q->ring.avail->idx % FRONT_RING] = head;
	q->ring.avail->idx += 1 + (fuzz_take(&vm.in, 1) == 0xff);
}

static void announce(u32 how)
{
	struct braid_virtio_chunk chunks[8];
	u32 nr = how >> 4 & 7, k;

	for (k = 0; k < nr; k++) {
		u32 shape = fuzz_take(&vm.in, 1);

		chunks[k].address = REGION + (u64)(shape & 63) * BRAID_PAGE_BYTES;
		chunks[k].bytes = (u64)(1 + (shape >> 6)) * BRAID_PAGE_BYTES;
		if (how & 0x80)
			chunks[k].bytes += fuzz_take(&vm.in, 8);
	}
	front_end_announce(&vm.f, chunks, nr);
}

static void begin_connection(bool inband)
{
	u32 k;

	vm.f.protocol = FRONT_PROTOCOL | (inband ? FRONT_INBAND : 0);
	for (k = 0; k < BRAID_VIRTIO_NR_QUEUES; k++) {
		vm.f.queues[k].ring.avail->idx = vm.f.queues[k].ring.used->idx;
		vm.f.queues[k].next = 0;
	}
	front_end_connect(&vm.f, socket_path);
	while (serve(vm.endpoint) > 0)
		;
}

static void start_connection(u32 how)
{
	begin_connection(how & 0x40);
	if (how & 0x20)
		front_end_start(&vm.f);
	/* From here on no one waits for an answer; kicks use the descriptor. */
	vm.f.protocol = FRONT_PROTOCOL;
}

/* Only for a moment: this process has it mapped. */
static void shrink(u32 how)
{
	int fd = how & 0x10 ? vm.region_fd : vm.f.memory_fd;

	if (ftruncate(fd, how & 0x20 ? BRAID_PAGE_BYTES : 0))
		abort();
	if (how & 0x40)
		map();
	serve(vm.endpoint);
	if (ftruncate(fd, how & 0x10 ? REGION_BYTES : FRONT_BYTES))
		abort();
}

static void reconnect(u32 how)
{
	front_end_hang_up(&vm.f);
	while (serve(vm.endpoint) > 0)
		;
	unmap();
	if (vm.faults >= MAX_FAULTS)
		return;
	start_connection(how);
}

static void step(void)
{
	u32 how = fuzz_take(&vm.in, 1);
	u64 one = 1;

	switch (how & 15) {
	case 0 ... 4:
		send_message(how);
		break;
	case 5 ... 6:
		poke();
		break;
	case 7:
		put_descriptors(how);
		break;
	case 8:
		announce(how);
		break;
	case 9:
		front_end_revoke(&vm.f);
		break;
	case 10:
		map();
		break;
	case 11:
		unmap();
		break;
	case 12:
		braid_endpoint_ring(vm.endpoint);
		break;
	case 13:
		shrink(how);
		break;
	case 14:
		reconnect(how);
		return;
	default:
		if (write(vm.f.queues[how >> 4 & 1].kick_fd, &one, sizeof(one)) != sizeof(one))
			abort();
	}
	serve(vm.endpoint);
}

static int lowest_fd(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	static bool made;
	int lowest, n;

	if (!made) {
		MUST(mkdtemp(dir));
		snprintf(socket_path, sizeof(socket_path), "%s/socket", dir);
		snprintf(address, sizeof(address), "vhost-user:%s", socket_path);
		atexit(remove_dir);
		signal(SIGPIPE, SIG_IGN);	/* like the agent's main() */
		made = true;
	}
	lowest = lowest_fd();
	memset(&vm, 0, sizeof(vm));
	vm.in = (struct fuzz_input){ data, bytes };
	vm.region_fd = memfd_create("region", MFD_CLOEXEC);
	MUST(vm.region_fd >= 0 && !ftruncate(vm.region_fd, REGION_BYTES));
	MUST(!braid_endpoint_open(&vm.endpoint, address));
	/* For inputs that never map. */
	((struct braid_vhost_endpoint *)vm.endpoint)->hold_ns = 20000;
	front_end_init(&vm.f, serve, vm.endpoint);
	front_end_add_memory(&vm.f, REGION, vm.region_fd, 0, REGION_BYTES);
	start_connection(fuzz_take(&vm.in, 1));
	for (n = 0; n < MAX_STEPS && vm.in.left && vm.f.socket >= 0; n++)
		step();
	unmap();
	front_end_free(&vm.f);
	braid_endpoint_close(vm.endpoint);
	close(vm.region_fd);
	for (n = 0; n < 10000 && lowest_fd() != lowest; n++)
		usleep(1000);	/* a thread closes some of them */
	MUST_EQ(lowest_fd(), lowest);
	return 0;
}
