// SPDX-License-Identifier: GPL-2.0-or-later
/* Counts what it takes to follow regions in guests' own memory. */
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host_agent/transport/endpoint.h"
#include "host_agent/transport/vm_mirror_private.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/vm_follower.h"

#define NONCE	0x7071727374757677ULL

/* In place of the C library's: counts the reads. */
ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long nr_local,
			 const struct iovec *remote, unsigned long nr_remote, unsigned long flags);

static u64 nr_reads;

ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long nr_local,
			 const struct iovec *remote, unsigned long nr_remote, unsigned long flags)
{
	nr_reads++;
	return syscall(SYS_process_vm_readv, pid, local, nr_local, remote, nr_remote, flags);
}

static char region_path[] = "/tmp/test_vm_reads.XXXXXX";

static const struct fake_params usual = {
	.name = "fake", .bytes = 2 * OWN_CHUNK_ROOM, .nr_vcpus = 2, .subbuf_bytes = 4096,
	.nr_slots = 16,
	.always = true, .flags = BRAID_BUFFER_OVERWRITE,
};

/*
 * All that a turn reads is read with the other guests': no more than four readings, one after the
 * other, however many they are; and one at rest.
 */
static void shares_all_reads(void)
{
	struct vm_follower f[3];
	u64 read = 0, steps, most = 0, least = ~0ULL;
	int k, n;
	bool more;

	for (n = 0; n < 3; n++) {
		vm_follower_begin(&f[n], region_path, &usual, NONCE + n);
		vm_follower_attach(&f[n]);
	}
	for (k = 0; k < 100; k++) {
		for (n = 0; n < 3; n++) {
			fake_guest_write(f[n].g, k % 2, k % 10 ? 40 : 0);
			fake_guest_look(f[n].g);
		}
		for (steps = 0, more = true; more; steps += more) {
			more = false;
			for (n = 0; n < 3; n++)
				more |= braid_vm_mirror_gather(f[n].mirror);
			braid_vm_memory_fetch();
		}
		most = steps > most ? steps : most;
		least = steps < least ? steps : least;
		nr_reads = 0;
		for (n = 0; n < 3; n++)
			braid_vm_mirror_pull(f[n].mirror);
		CHECK_EQ(nr_reads, 0);
		for (n = 0; n < 3; n++)
			read += vm_follower_read(&f[n], 0, 0) + vm_follower_read(&f[n], 0, 1);
	}
	CHECK(most <= 4);
	CHECK_EQ(least, 1);
	CHECK_EQ(read, 3 * 89 * 40);	/* the last is not proven */
	for (n = 0; n < 3; n++) {
		CHECK_EQ(f[n].wrong + f[n].faults, 0);
		vm_follower_detach(&f[n]);
		vm_follower_end(&f[n]);
	}
}

/* What a turn copied may take several polls to drain: they read nothing more. */
static void reads_once_for_many_polls(void)
{
	struct braid_endpoint *endpoint;
	struct braid_mapping *m;
	struct vm_follower f;
	char address[32];
	u64 first;
	int k;

	vm_follower_begin(&f, region_path, &usual, NONCE);
	snprintf(address, sizeof(address), "pid:%d", (int)f.memory.pid);
	NEED(!braid_endpoint_open(&endpoint, address) && !braid_endpoint_map(endpoint, &m));
	for (k = 0; k < 6; k++) {	/* turns become rarer */
		braid_endpoint_serve(endpoint);
		usleep(20000);
	}
	CHECK(braid_endpoint_rest_ns(endpoint) > 10000000);
	nr_reads = 0;
	braid_endpoint_serve(endpoint);
	first = nr_reads;
	CHECK(first > 0);
	braid_endpoint_gather(endpoint);
	braid_endpoint_fetch();
	braid_endpoint_serve(endpoint);
	CHECK_EQ(nr_reads, first);
	usleep(20000);
	braid_endpoint_serve(endpoint);
	CHECK(nr_reads > first);
	braid_mapping_close(m);
	braid_endpoint_close(endpoint);
	vm_follower_end(&f);
}

/*
 * With nothing new a turn looks at one slot of each ring. It misses nothing: the next event makes
 * it look at all, and all that the ring has is copied in the same turn.
 */
static void looks_briefly_at_rest(void)
{
	struct vm_follower f;
	u64 k, written = 0;

	vm_follower_begin(&f, region_path, &usual, NONCE);
	vm_follower_attach(&f);
	for (k = 0; k < 100; k++) {
		bool news = k % 20 == 10, rest = k > 2 && !news && k % 20 != 11;

		if (news) {
			fake_guest_write(f.g, k / 20 % 2, 400);	/* several sub-buffers */
			written += 400;
		}
		braid_vm_mirror_pull(f.mirror);
		CHECK_EQ(braid_vm_mirror_unproven(f.mirror), news ? 400 : 0);
		if (rest || news)
			CHECK_EQ(f.mirror->rings[0].r.window, rest ? 1 : usual.nr_slots);
		fake_guest_look(f.g);
	}
	CHECK_EQ(vm_follower_read(&f, 0, 0) + vm_follower_read(&f, 0, 1), written);
	CHECK_EQ(f.wrong + f.faults, 0);
	vm_follower_detach(&f);
	vm_follower_end(&f);
}

int main(void)
{
	int fd = mkstemp(region_path);

	NEED(fd >= 0);
	close(fd);
	RUN(shares_all_reads);
	RUN(reads_once_for_many_polls);
	RUN(looks_briefly_at_rest);
	unlink(region_path);
	return VERDICT();
}
