// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Finds regions in the memory of another process: whatever backs it, whatever is in it, and without
 * a trace.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/transport/beacon.h"
#include "host_agent/transport/vm_mirror.h"
#include "host_agent/transport/vm_search.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"

#define MIB		(1ULL << 20)
#define STEP		((u64)BRAID_BEACON_STEP)
#define PAGE		4096u
#define BYTES		(96 * MIB)
#define GUEST		(1ULL << 32)	/* guest-physical address of the memory */
#define NONCE		0x1234567890abcdefULL

struct vm {
	pid_t pid;
	int in;				/* its standard input: it ends with that */
	u64 base;
	struct braid_vm_memory memory;
};

/* Chunks of a region, as offsets in the memory. */
struct chunk {
	u64 offset, bytes;
};

static const struct chunk usual[] = { { 64 * MIB, STEP }, { 6 * MIB, STEP }, { 30 * MIB, STEP } };

static const struct chunk small[] = {
	{ 10 * MIB, STEP }, { 70 * MIB, STEP }, { 3 * MIB, MIB }, { 65 * MIB + 65536, 65536 },
};

static const char *machine = "q35";	/* of the process' command line */
static u64 vm_bytes = BYTES;

/* KIND as vm_process.py has it, or "chance"; false: it can't have such memory here. */
static bool vm_start(struct vm *vm, const char *kind)
{
	bool chance = !strcmp(kind, "chance");	/* where mmap() finds room, as Cloud Hypervisor */
	int in[2], out[2];
	char bytes[24], base[24], answer[8] = "";

	/* QEMU's mappings of files begin a page before a multiple of 2 MiB. */
	vm->base = (1ULL << 45) + (*kind == 's' || *kind == 'p' ? STEP - PAGE : chance ? 5 * PAGE : 0);
	if (chance)
		kind = "anonymous";
	snprintf(bytes, sizeof(bytes), "%" PRIu64, (uint64_t)vm_bytes);
	snprintf(base, sizeof(base), "%" PRIu64, (uint64_t)vm->base);
	if (pipe(in) || pipe(out))
		exit(1);
	fflush(NULL);
	vm->pid = fork();
	if (!vm->pid) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[1]);
		close(out[0]);
		execlp("python3", "python3", "tests/unit/vm_process.py", kind, bytes, base,
		       "-machine", machine, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	vm->in = in[1];
	if (read(out[0], answer, sizeof(answer)) < 0)
		exit(1);
	close(out[0]);
	if (!strncmp(answer, "ready", 5) && !braid_vm_memory_open(&vm->memory, vm->pid))
		return true;
	close(vm->in);
	waitpid(vm->pid, NULL, 0);
	return false;
}

static void vm_stop(struct vm *vm)
{
	braid_vm_memory_close(&vm->memory);
	close(vm->in);
	waitpid(vm->pid, NULL, 0);
}

/* As the guest does. */
static void vm_write(const struct vm *vm, u64 offset, const void *data, size_t bytes)
{
	struct iovec local = { (void *)data, bytes };
	struct iovec remote = { (void *)(vm->base + offset), bytes };

	CHECK_EQ(process_vm_writev(vm->pid, &local, 1, &remote, 1, 0), bytes);
}

#define PART	(40 * MIB)	/* the guest's memory can have two parts; where the second one begins */

static u64 hole;		/* bytes of guest addresses between them */

static u64 guest_address(u64 offset)
{
	return GUEST + offset + (offset >= PART ? hole : 0);
}

static void beacon_of(struct braid_beacon *b, const struct chunk *chunks, u32 nr, u32 index)
{
	u32 k;

	memset(b, 0, sizeof(*b));
	b->magic = BRAID_BEACON_MAGIC;
	b->version_major = BRAID_BEACON_VERSION_MAJOR;
	b->page_bytes = PAGE;
	b->nonce = NONCE;
	b->index = index;
	b->nr_chunks = nr;
	b->address = guest_address(chunks[index].offset);
	b->bytes = chunks[index].bytes;
	for (k = 0; k < nr; k++) {
		b->region_bytes += chunks[k].bytes - PAGE;
		if (!index)
			b->chunks[k] = (struct braid_beacon_chunk){
				guest_address(chunks[k].offset), chunks[k].bytes,
			};
	}
}

/* Of a page of the region. */
static void fill(u8 *page, u64 n)
{
	size_t k;

	for (k = 0; k < PAGE; k++)
		page[k] = n * 31 + k * 7 + (k >> 8);
}

static void put_region(const struct vm *vm, const struct chunk *chunks, u32 nr, u64 nonce)
{
	static u8 page[PAGE];
	struct braid_beacon b;
	u64 n = 0, at;
	u32 k;

	for (k = 0; k < nr; k++) {
		beacon_of(&b, chunks, nr, k);
		b.nonce = nonce;
		vm_write(vm, chunks[k].offset, &b, sizeof(b));
		for (at = PAGE; at < chunks[k].bytes; at += PAGE) {
			fill(page, n++);
			vm_write(vm, chunks[k].offset + at, page, PAGE);
		}
	}
}

static struct braid_vm_search search(struct vm *vm, struct braid_vm_region *regions)
{
	struct braid_vm_search s;

	CHECK_EQ(braid_vm_search(&vm->memory, regions, &s), 0);
	return s;
}

static void check_region(struct vm *vm, const struct braid_vm_region *region,
			 const struct chunk *chunks, u32 nr)
{
	static u8 want[PAGE], got[3 * PAGE];
	u64 at;
	u32 k;

	CHECK_EQ(region->nr_chunks, nr);
	for (k = 0; k < nr && k < region->nr_chunks; k++)
		CHECK_EQ(region->chunks[k].at, vm->base + chunks[k].offset);
	for (at = 0; at < region->bytes; at += PAGE) {
		fill(want, at / PAGE);
		CHECK_EQ(braid_vm_region_read(&vm->memory, region, at, got, PAGE), 0);
		if (memcmp(want, got, PAGE)) {
			CHECK(!"the region's bytes");
			break;
		}
	}
	/* Across the end of chunk 0. */
	at = chunks[0].bytes - 2 * PAGE;
	CHECK_EQ(braid_vm_region_read(&vm->memory, region, at, got, 3 * PAGE), 0);
	fill(want, at / PAGE + 2);
	CHECK(!memcmp(got + 2 * PAGE, want, PAGE));
	CHECK_EQ(braid_vm_region_read(&vm->memory, region, region->bytes - 1, got, 2), -EINVAL);
	CHECK_EQ(braid_vm_region_read(&vm->memory, region, -1ULL, got, 2), -EINVAL);
	CHECK(braid_vm_region_holds(&vm->memory, region));
}

/* A line's number, by what it begins with; of all lines that do, the sum. */
static u64 number_in(const char *path, const char *name)
{
	char line[256];
	u64 sum = 0, n;
	FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)) &&
		    sscanf(line + strlen(name), ": %" SCNu64, &n) == 1)
			sum += n;
	if (f)
		fclose(f);
	return sum;
}

/* What reading could change: of the process, and of the machine. */
struct use {
	u64 kib[8];
};

static struct use use_of(const struct vm *vm)
{
	static const char *const names[] = {
		"Rss", "AnonHugePages", "ShmemPmdMapped", "Shared_Hugetlb", "Private_Hugetlb",
		"Swap", "Private_Dirty",
	};
	struct use use = { { 0 } };
	char path[40];
	size_t k;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)vm->pid);
	for (k = 0; k < sizeof(names) / sizeof(*names); k++)
		use.kib[k] = number_in(path, names[k]);
	use.kib[7] = number_in("/proc/meminfo", "HugePages_Free");
	return use;
}

/* Pages that were not touched stay so, whatever backs them, and none is written. */
static void leaves_no_trace(const char *kind)
{
	struct braid_vm_region regions[BRAID_VM_REGIONS];
	struct braid_vm_search s;
	struct use before, after;
	struct vm vm;
	size_t k;
	u8 byte;

	if (!vm_start(&vm, kind)) {
		printf("# %s: no such memory here\n", kind);
		return;
	}
	put_region(&vm, usual, 3, NONCE);
	before = use_of(&vm);
	s = search(&vm, regions);
	CHECK_EQ(s.nr_regions, 1);
	CHECK_EQ(s.nr_beacons, 3);
	CHECK_EQ(s.nr_invalid + s.nr_incomplete, 0);
	if (s.nr_regions == 1)
		check_region(&vm, regions, usual, 3);
	CHECK_EQ(braid_vm_memory_read(&vm.memory, vm.base + 80 * MIB, &byte, 1), -ENODATA);
	CHECK_EQ(braid_vm_memory_read(&vm.memory, vm.base + BYTES, &byte, 1), -ENODATA);
	CHECK_EQ(braid_vm_memory_read(&vm.memory, -1ULL, &byte, 2), -ENODATA);
	after = use_of(&vm);
	for (k = 0; k < 8; k++)
		CHECK_EQ(after.kib[k], before.kib[k]);
	vm_stop(&vm);
}

static void anonymous_memory(void)
{
	leaves_no_trace("anonymous");
	leaves_no_trace("chance");
}

static void files(void)
{
	leaves_no_trace("shared");
	leaves_no_trace("private");
}

static void huge_pages(void)
{
	static const char nr_path[] = "/proc/sys/vm/nr_hugepages";
	FILE *f = fopen(nr_path, "r+e");
	unsigned int old = 0;

	/* A few more than there are: the region's, and some that a search could take. */
	if (f && fscanf(f, "%u", &old) == 1) {
		rewind(f);
		fprintf(f, "%u", old + 48);
		fflush(f);
	}
	leaves_no_trace("hugetlb");
	if (f) {
		rewind(f);
		fprintf(f, "%u", old);
		fclose(f);
	}
}

/* They are found by chunk 0's list, at their distance from it. */
static void small_chunks(void)
{
	struct braid_vm_region regions[BRAID_VM_REGIONS];
	struct vm vm;

	CHECK(vm_start(&vm, "shared"));
	put_region(&vm, small, 4, NONCE);
	CHECK_EQ(search(&vm, regions).nr_regions, 1);
	check_region(&vm, regions, small, 4);
	vm_stop(&vm);
}

/* Of a guest's memory in two parts: each small one is found beside a chunk of its own part. */
static void small_chunks_in_parts(void)
{
	struct braid_vm_region regions[BRAID_VM_REGIONS];
	struct braid_vm_mapping parts[2];
	struct braid_vm_memory whole;
	struct vm vm;

	CHECK(vm_start(&vm, "anonymous"));
	hole = 1 << 30;
	put_region(&vm, small, 4, NONCE);
	CHECK_EQ(search(&vm, regions).nr_regions, 1);
	check_region(&vm, regions, small, 4);

	/* Two mappings. */
	hole = 0;
	put_region(&vm, small, 4, NONCE);
	whole = vm.memory;
	parts[0] = parts[1] = *braid_vm_memory_mapping(&vm.memory, vm.base, BYTES);
	parts[0].end = parts[1].start = vm.base + PART;
	vm.memory.mappings = parts;
	vm.memory.nr_mappings = 2;
	CHECK_EQ(search(&vm, regions).nr_regions, 1);
	check_region(&vm, regions, small, 4);
	vm.memory = whole;
	vm_stop(&vm);
}

/* What a reset leaves of earlier regions is not mixed with the one that is there. */
static void stale_beacons(void)
{
	static const struct chunk old[] = {
		{ 70 * MIB, STEP }, { 8 * MIB, STEP }, { 30 * MIB, STEP }
	};
	struct braid_vm_region regions[BRAID_VM_REGIONS];
	struct braid_vm_search s;
	struct vm vm;
	u64 zero = 0;

	CHECK(vm_start(&vm, "anonymous"));
	put_region(&vm, old, 3, NONCE + 1);
	put_region(&vm, usual, 3, NONCE);	/* took the old one's last chunk */
	s = search(&vm, regions);
	CHECK_EQ(s.nr_regions, 1);
	CHECK_EQ(s.nr_incomplete, 1);
	CHECK_EQ(regions[0].nonce, NONCE);
	check_region(&vm, regions, usual, 3);
	/* The guest unloads its driver. */
	vm_write(&vm, usual[1].offset, &zero, sizeof(zero));
	CHECK(!braid_vm_region_holds(&vm.memory, regions));
	s = search(&vm, regions);
	CHECK_EQ(s.nr_regions, 0);
	CHECK_EQ(s.nr_incomplete, 2);
	vm_stop(&vm);
}

/* Each of many resets left the beacon of a chunk 0, before the one that is there. */
static void many_stale_beacons(void)
{
	struct braid_vm_region regions[BRAID_VM_REGIONS];
	struct braid_vm_search s;
	struct braid_beacon b;
	struct vm vm;
	u32 k;

	CHECK(vm_start(&vm, "anonymous"));
	put_region(&vm, usual, 3, NONCE);
	for (k = 0; k < 12; k++) {
		struct chunk old[2] = { { (8 + 2 * k) * MIB, STEP }, { 80 * MIB, STEP } };

		if (old[0].offset == usual[2].offset)
			continue;
		beacon_of(&b, old, 2, 0);
		b.nonce = NONCE + 1 + k;
		vm_write(&vm, old[0].offset, &b, sizeof(b));
	}
	s = search(&vm, regions);
	CHECK_EQ(s.nr_regions, 1);
	CHECK_EQ(s.nr_incomplete, 11);
	if (s.nr_regions)
		check_region(&vm, regions, usual, 3);
	vm_stop(&vm);
}

static void forged_lists(void)
{
	static const struct chunk overlapping[] = { { 64 * MIB, 2 * STEP }, { 66 * MIB, STEP } };
	static const struct chunk twice[] = { { 64 * MIB, STEP }, { 64 * MIB, STEP } };
	static const struct chunk huge[] = { { 0, 1ULL << 31 } };
	static const struct chunk far[] = { { 64 * MIB, STEP }, { 1ULL << 40, STEP } };
	static const struct chunk over[] = { { 64 * MIB, 64 * MIB } };
	static const struct chunk tiny[] = { { 64 * MIB, STEP }, { 6 * MIB, 8192 } };
	static const struct {
		const struct chunk *chunks;
		u32 nr;
		bool valid;		/* by itself */
	} lists[] = {
		{ overlapping, 2, false }, { twice, 2, false }, { huge, 1, false },
		{ far, 2, true }, { over, 1, true }, { tiny, 2, false },
	};
	struct braid_vm_region regions[BRAID_VM_REGIONS];
	struct braid_vm_search s;
	struct braid_beacon b;
	struct vm vm;
	size_t k;

	CHECK(vm_start(&vm, "anonymous"));
	for (k = 0; k < sizeof(lists) / sizeof(*lists); k++) {
		beacon_of(&b, lists[k].chunks, lists[k].nr, 0);
		vm_write(&vm, 64 * MIB, &b, sizeof(b));
		s = search(&vm, regions);
		CHECK_EQ(s.nr_regions, 0);
		CHECK_EQ(s.nr_beacons, lists[k].valid);
		CHECK_EQ(s.nr_invalid, !lists[k].valid);
	}
	vm_stop(&vm);
}

/* Every place has a beacon that claims to be chunk 0: the work stays bounded, none is believed. */
static void many_beacons(void)
{
	struct braid_vm_region regions[BRAID_VM_REGIONS];
	struct chunk chunks[BRAID_BEACON_CHUNKS];
	struct braid_vm_search s;
	struct braid_beacon b;
	struct vm vm;
	u32 k, nr;

	CHECK(vm_start(&vm, "shared"));
	for (k = 0; k < BRAID_BEACON_CHUNKS; k++)
		chunks[k] = (struct chunk){ k * STEP, STEP };
	nr = BYTES / STEP;
	for (k = 0; k < nr; k++) {
		beacon_of(&b, chunks, BRAID_BEACON_CHUNKS, 0);
		b.nonce += k;
		b.address = b.chunks[0].address = GUEST + k * STEP;
		b.chunks[k].address = GUEST;
		vm_write(&vm, k * STEP, &b, sizeof(b));
	}
	s = search(&vm, regions);
	CHECK_EQ(s.nr_beacons, nr);
	CHECK_EQ(s.nr_regions, 0);
	CHECK_EQ(s.nr_incomplete, nr < BRAID_VM_TRIES ? nr : BRAID_VM_TRIES);
	/* All of one region, and no chunk 0. */
	for (k = 0; k < nr; k++) {
		beacon_of(&b, chunks, BRAID_BEACON_CHUNKS, 5);
		vm_write(&vm, k * STEP, &b, sizeof(b));
	}
	s = search(&vm, regions);
	CHECK_EQ(s.nr_beacons, nr);
	CHECK_EQ(s.nr_regions + s.nr_incomplete, 0);
	vm_stop(&vm);
}

/* More than a search takes note of, each a region of one chunk. */
static void flood_of_beacons(void)
{
	static const struct chunk one[] = { { 0, STEP } };
	struct braid_vm_region regions[BRAID_VM_REGIONS];
	struct braid_vm_search s;
	struct braid_beacon b;
	struct vm vm;
	u32 k;

	vm_bytes = (BRAID_VM_BEACONS + 100) * STEP;
	CHECK(vm_start(&vm, "shared"));
	beacon_of(&b, one, 1, 0);
	for (k = 0; k < vm_bytes / STEP; k++) {
		b.nonce = NONCE + k;
		b.address = b.chunks[0].address = GUEST + k * STEP;
		vm_write(&vm, k * STEP, &b, sizeof(b));
	}
	put_region(&vm, usual, 3, NONCE - 1);
	s = search(&vm, regions);
	CHECK_EQ(s.nr_beacons, BRAID_VM_BEACONS);
	CHECK_EQ(s.nr_regions, BRAID_VM_REGIONS);
	for (k = 0; k < s.nr_regions; k++)
		CHECK_EQ(regions[k].nr_chunks, regions[k].nonce == NONCE - 1 ? 3 : 1);
	vm_stop(&vm);
	vm_bytes = BYTES;
}

static bool stop_changing;

static void *change(void *arg)
{
	struct vm *vm = arg;
	struct braid_beacon b[2];
	u32 turn = 0, k;

	while (!__atomic_load_n(&stop_changing, __ATOMIC_RELAXED)) {
		for (k = 0; k < 2; k++) {
			beacon_of(&b[k], usual, 2, k);
			b[k].nonce = NONCE + turn % 2;
			if (turn % 3 == 2)
				b[k].chunks[0].bytes = b[k].bytes = 1ULL << 40;
			vm_write(vm, usual[k].offset, &b[k], sizeof(b[k]));
		}
		turn++;
	}
	return NULL;
}

/* What is found was there in one piece, as far as each beacon goes. */
static void changing_beacons(void)
{
	struct braid_vm_region regions[BRAID_VM_REGIONS];
	struct braid_vm_search s;
	pthread_t thread;
	struct vm vm;
	u32 k, found = 0;

	CHECK(vm_start(&vm, "anonymous"));
	put_region(&vm, usual, 2, NONCE);
	CHECK_EQ(pthread_create(&thread, NULL, change, &vm), 0);
	for (k = 0; k < 2000 || (!found && k < 200000); k++) {
		s = search(&vm, regions);
		CHECK(s.nr_regions <= 1);
		found += s.nr_regions;
		if (!s.nr_regions)
			continue;
		CHECK(regions[0].nonce == NONCE || regions[0].nonce == NONCE + 1);
		CHECK_EQ(regions[0].nr_chunks, 2);
		CHECK_EQ(regions[0].chunks[0].at, vm.base + usual[0].offset);
		CHECK_EQ(regions[0].chunks[1].at, vm.base + usual[1].offset);
		CHECK_EQ(regions[0].chunks[0].bytes, STEP);
	}
	CHECK(found);
	__atomic_store_n(&stop_changing, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	vm_stop(&vm);
}

/* Where nothing is found because the guest's memory is encrypted, that is said. */
static void encrypted_memory(void)
{
	struct braid_vm_mirror *mirror;
	struct vm vm;
	int k;

	for (k = 0; k < 2; k++) {
		machine = k ? "q35,confidential-guest-support=sev0" : "q35";
		CHECK(vm_start(&vm, "anonymous"));
		CHECK_EQ(braid_vm_mirror_open(&mirror, vm.pid, "pid:1", NULL), -ENODATA);
		CHECK(strstr(braid_failure(), k ? "the guest's memory is encrypted" :
						  "load the driver in the guest"));
		vm_stop(&vm);
	}
	machine = "q35";
}

static void process_ends(void)
{
	struct braid_vm_region regions[BRAID_VM_REGIONS];
	struct braid_vm_memory memory;
	struct vm vm;
	u8 byte;

	CHECK(vm_start(&vm, "anonymous"));
	put_region(&vm, usual, 3, NONCE);
	CHECK_EQ(search(&vm, regions).nr_regions, 1);
	kill(vm.pid, SIGKILL);
	close(vm.in);
	waitpid(vm.pid, NULL, 0);
	CHECK(braid_vm_region_read(&vm.memory, regions, 0, &byte, 1) < 0);
	CHECK(!braid_vm_region_holds(&vm.memory, regions));
	CHECK_EQ(search(&vm, regions).nr_regions, 0);
	braid_vm_memory_close(&vm.memory);
	CHECK_EQ(braid_vm_memory_open(&memory, vm.pid), -ESRCH);
}

int main(void)
{
	RUN(anonymous_memory);
	RUN(files);
	RUN(huge_pages);
	RUN(small_chunks);
	RUN(small_chunks_in_parts);
	RUN(stale_beacons);
	RUN(many_stale_beacons);
	RUN(forged_lists);
	RUN(many_beacons);
	RUN(flood_of_beacons);
	RUN(changing_beacons);
	RUN(encrypted_memory);
	RUN(process_ends);
	return VERDICT();
}
