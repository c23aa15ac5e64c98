// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A process whose memory has forged beacons: many, with any sizes and lists, that may change after
 * each read, and pages that are not present. A search may find nothing, but it reads only what is
 * mapped and present, and not more than its bound; the regions that it reports are sound; and one
 * that is really there is found, unless it is beyond the stated limits.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host_agent/transport/beacon.h"
#include "host_agent/transport/vm_reader.h"
#include "host_agent/transport/vm_search.h"
#include "tests/fuzz/fuzz.h"

#define BASE		(1ULL << 40)	/* of the process' memory */
#define GUEST		(1ULL << 32)	/* guest-physical address of that */
#define STEP		((u64)BRAID_BEACON_STEP)
#define STEPS		20u
#define AREA		(STEPS * STEP)
#define PAGE		4096u
#define PRESENT		(1ULL << 63)
#define PLACES		32u		/* of small chunks, in a step */
#define MOST_OPS	64u
#define MOST_LIST	8u
#define MOST_READS	(3 * STEPS + BRAID_VM_TRIES * (BRAID_BEACON_CHUNKS + 2))
#define NONCE		0x5a17b3c4d2e1f607ULL	/* of the region that is really there */

/* The first byte of an input. */
enum { HOW_REAL = 1, HOW_CHANGES = 2, HOW_TWO = 4, HOW_FILE = 8, HOW_PAGEMAP = 16 };

static struct {
	struct fuzz_input in;
	struct braid_vm_memory memory;
	struct braid_vm_mapping mappings[2];
	u8 *bytes;			/* the process' memory */
	bool written[AREA / PAGE];
	u64 entries[AREA / PAGE];	/* as in pagemap */
	struct braid_beacon last;
	bool changes, absent;
	u32 reads;
} vm;

/* The process -------------------------------------------------------------------------------- */

static void write_at(u64 offset, const void *data, u32 bytes)
{
	MUST(offset + bytes <= AREA && offset / PAGE == (offset + bytes - 1) / PAGE);
	memcpy(vm.bytes + offset, data, bytes);
	vm.written[offset / PAGE] = true;
}

static void set_present(u64 page, bool present)
{
	vm.entries[page] = present ? PRESENT : 0;
	MUST(pwrite(vm.memory.pagemap, &vm.entries[page], 8, (BASE / PAGE + page) * 8) == 8);
}

/* Its guest overwrites a word of a beacon, or the process ends. Return: whether it lives. */
static bool change(void)
{
	u8 how = fuzz_take(&vm.in, 1);
	u64 word = how & 1 ? fuzz_take(&vm.in, 8) : fuzz_take(&vm.in, 1);

	if (how < 0xf0)
		write_at((how >> 1) % STEPS * STEP + fuzz_take(&vm.in, 1) % 64 * 8, &word, 8);
	return how != 0xff;
}

/* What is read must be there; the rest is as process_vm_readv() does it. */
static ssize_t give(const struct iovec *local, size_t nr_local, const struct iovec *remote,
		    size_t nr_remote)
{
	size_t k, at = 0, n = 0, bytes = 0, page;

	MUST(nr_local && nr_local <= BRAID_VM_READ_PARTS && nr_remote <= BRAID_VM_READ_PARTS);
	MUST(vm.reads++ < MOST_READS);
	for (k = 0; k < nr_remote; k++) {
		u64 from = (u64)remote[k].iov_base - BASE, i;

		MUST(from < AREA && remote[k].iov_len <= AREA - from);
		for (page = from / PAGE; page * PAGE < from + remote[k].iov_len; page++)
			MUST(vm.entries[page]);
		for (i = 0; i < remote[k].iov_len; i++) {
			while (n < nr_local && at == local[n].iov_len) {
				n++;
				at = 0;
			}
			MUST(n < nr_local);
			((u8 *)local[n].iov_base)[at++] = vm.bytes[from + i];
		}
		bytes += remote[k].iov_len;
	}
	if (vm.changes && vm.in.left && !change())
		return -ESRCH;
	return bytes;
}

ssize_t braid_vm_reader_read(pid_t pid, const struct iovec *local, size_t nr_local,
			     const struct iovec *remote, size_t nr_remote)
{
	(void)pid;
	return give(local, nr_local, remote, nr_remote);
}

/* As move_pages() shows them. */
static bool all_present(const struct iovec *ranges, size_t nr)
{
	size_t k;
	u64 page, from;

	for (k = 0; k < nr; k++) {
		from = (u64)ranges[k].iov_base - BASE;
		MUST(from < AREA && ranges[k].iov_len <= AREA - from);
		for (page = from / PAGE; page * PAGE < from + ranges[k].iov_len; page++)
			if (!vm.entries[page])
				return false;
	}
	return true;
}

void braid_vm_reader_read_many(struct braid_vm_read *reads, size_t nr)
{
	struct braid_vm_read *r;

	for (r = reads; r < reads + nr; r++)
		r->got = r->check && !all_present(r->remote, r->nr_remote) ?
			 -ENODATA : give(r->local, r->nr_local, r->remote, r->nr_remote);
}

static void begin(u8 how)
{
	u64 page;

	if (!vm.bytes) {
		vm.bytes = mmap(NULL, AREA, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		vm.memory = (struct braid_vm_memory){
			.pid = getpid(), .core = -1, .pidfd = eventfd(0, EFD_CLOEXEC),
			.page_bytes = PAGE,
			.pagemap = memfd_create("pagemap", MFD_CLOEXEC), .mappings = vm.mappings,
		};
		MUST(vm.bytes != MAP_FAILED && vm.memory.pidfd >= 0 && vm.memory.pagemap >= 0);
	}
	for (page = 0; page < AREA / PAGE; page++) {
		if (vm.written[page])
			memset(vm.bytes + page * PAGE, 0, PAGE);
		vm.written[page] = false;
		if (!vm.entries[page])
			set_present(page, true);
	}
	vm.memory.nr_mappings = 1 + !!(how & HOW_TWO);
	vm.memory.by_pagemap = how & HOW_PAGEMAP;
	vm.mappings[0] = (struct braid_vm_mapping){ .start = BASE, .end = BASE + AREA };
	vm.mappings[1] = vm.mappings[0];
	if (how & HOW_TWO)
		vm.mappings[0].end = vm.mappings[1].start = BASE + AREA / 2;
	if (how & HOW_FILE) {	/* QEMU's begin a page before a multiple of 2 MiB */
		vm.mappings[0].start += STEP - PAGE;
		vm.mappings[0].inode = 7;
		vm.mappings[1].inode = 8;
		vm.mappings[1].offset = 3 * PAGE;
	}
	vm.changes = vm.absent = false;
	vm.reads = 0;
	memset(&vm.last, 0, sizeof(vm.last));
}

/* Beacons ------------------------------------------------------------------------------------ */

/* A multiple of 2 MiB, a page before one, or a small chunk's. */
static u64 take_place(void)
{
	u64 at = fuzz_take(&vm.in, 1) % STEPS * STEP;
	u8 how = fuzz_take(&vm.in, 1);

	if (how >> 6 == 1)
		return at + (how % PLACES) * (STEP / PLACES);
	return how >> 6 == 2 ? at + STEP - PAGE : how >> 6 == 3 ? at + 3 * PAGE : at;
}

/* As large as its place allows, as a rule. */
static u64 take_size(u64 at)
{
	u8 how = fuzz_take(&vm.in, 1);

	if (how >= 0xf8)
		return fuzz_take(&vm.in, 8);
	return how < 0xe0 ? at % STEP ? STEP / PLACES : STEP : STEP >> 5 << (how & 7);
}

/* Almost valid: what could be believed. */
static void forge(struct braid_beacon *b, u64 at)
{
	u32 k, nr = 1 + fuzz_take(&vm.in, 1) % MOST_LIST;
	u64 place;

	*b = (struct braid_beacon){
		.magic = BRAID_BEACON_MAGIC, .version_major = BRAID_BEACON_VERSION_MAJOR,
		.page_bytes = PAGE, .nonce = 1 + (fuzz_take(&vm.in, 1) & 3), .nr_chunks = nr,
		.index = fuzz_take(&vm.in, 1) % nr, .address = GUEST + at,
	};
	for (k = 0; k < nr; k++) {
		place = k == b->index ? at : take_place();
		b->chunks[k].address = GUEST + place;
		b->chunks[k].bytes = take_size(place);
		b->region_bytes += b->chunks[k].bytes - PAGE;
	}
	b->bytes = b->chunks[b->index].bytes;
}

/* One of its words is a bit off, or anything; the nonce of the real one can't be guessed. */
static void bend(struct braid_beacon *b)
{
	u16 how = fuzz_take(&vm.in, 2);
	u64 word, at = how % (how & 0x1000 ? sizeof(*b) / 8 : 16) * 8;

	if (how >> 14)
		return;
	memcpy(&word, (u8 *)b + at, 8);
	word = how & 0x2000 ? fuzz_take(&vm.in, 8) : word + (s8)fuzz_take(&vm.in, 1);
	memcpy((u8 *)b + at, &word, 8);
	b->nonce = b->nonce == NONCE ? 1 : b->nonce;
}

/* The same one everywhere, of one region or of one each. */
static void put_many(void)
{
	bool each = fuzz_take(&vm.in, 1) & 1;
	u64 k;

	for (k = 0; k < STEPS; k++) {
		vm.last.nonce = 1 + (each ? k : 0);
		write_at(k * STEP, &vm.last, sizeof(vm.last));
	}
}

/* A chunk of the last region that was forged, as its list has it, or almost. */
static void put_listed(u32 index)
{
	struct braid_beacon b = vm.last;
	u64 at = vm.last.chunks[index].address - GUEST;

	b.index = index;
	b.address = vm.last.chunks[index].address;
	b.bytes = vm.last.chunks[index].bytes;
	if (index)
		memset(b.chunks, 0, sizeof(b.chunks));
	bend(&b);
	if (!(at % PAGE) && at <= AREA - PAGE)
		write_at(at, &b, sizeof(b));
}

/* All of them; the sum may be wrong in each. */
static void put_all(void)
{
	u8 how = fuzz_take(&vm.in, 1);
	u32 k;

	vm.last.region_bytes += how & 3 ? 0 : how;
	for (k = 0; k < vm.last.nr_chunks && k < MOST_LIST; k++)
		put_listed(k);
}

static void put_one(void)
{
	u64 at = take_place();

	forge(&vm.last, at);
	bend(&vm.last);
	write_at(at, &vm.last, sizeof(vm.last));
}

static void operate(void)
{
	u8 how = fuzz_take(&vm.in, 1);

	if (how < 0x80)
		put_one();
	else if (how < 0xa0)
		put_listed(fuzz_take(&vm.in, 1) % MOST_LIST);
	else if (how < 0xe0)
		put_all();
	else if (how < 0xf0)
		put_many();
	else {
		set_present(take_place() / PAGE, false);
		vm.absent = true;
	}
}

static const struct braid_beacon_chunk real[] = {
	{ GUEST + 12 * STEP, 2 * STEP }, { GUEST + 4 * STEP, STEP },
	{ GUEST + 14 * STEP + STEP / 2, STEP / 4 },
};

#define NR_REAL		(sizeof(real) / sizeof(real[0]))

static void put_real(void)
{
	struct braid_beacon b = {
		.magic = BRAID_BEACON_MAGIC, .version_major = BRAID_BEACON_VERSION_MAJOR,
		.page_bytes = PAGE, .nonce = NONCE, .nr_chunks = NR_REAL,
	};
	u32 k;

	for (k = 0; k < NR_REAL; k++)
		b.region_bytes += real[k].bytes - PAGE;
	for (k = 0; k < NR_REAL; k++) {
		b.index = k;
		b.address = real[k].address;
		b.bytes = real[k].bytes;
		memset(b.chunks, 0, sizeof(b.chunks));
		if (!k)
			memcpy(b.chunks, real, sizeof(real));
		write_at(real[k].address - GUEST, &b, sizeof(b));
	}
}

/* What a search reports ---------------------------------------------------------------------- */

/* Where the byte of a region is in the process. */
static u64 place_of(const struct braid_vm_region *r, u64 offset)
{
	u32 k;

	for (k = 0; k + 1 < r->nr_chunks && r->chunks[k + 1].offset <= offset; k++)
		;
	return r->chunks[k].at + r->page_bytes + (offset - r->chunks[k].offset);
}

static void read_some(const struct braid_vm_region *r)
{
	u64 offset = fuzz_take(&vm.in, 4) % (r->bytes + 1), k;
	u32 bytes = fuzz_take(&vm.in, 2);
	u8 *to = malloc(bytes);
	int err;

	vm.reads = 0;
	err = braid_vm_region_read(&vm.memory, r, offset, to, bytes);
	MUST((err == -EINVAL) == (bytes > r->bytes - offset));
	if (!vm.absent && !vm.changes)
		MUST(!err || err == -EINVAL);
	for (k = 0; k < bytes && !err && !vm.changes; k++)
		MUST(to[k] == vm.bytes[place_of(r, offset + k) - BASE]);
	free(to);
}

static void check_region(const struct braid_vm_region *r)
{
	u64 sum = 0;
	u32 k;

	MUST(r->nr_chunks && r->nr_chunks <= BRAID_BEACON_CHUNKS && r->nonce);
	for (k = 0; k < r->nr_chunks; k++) {
		MUST(r->chunks[k].bytes > r->page_bytes && r->chunks[k].offset == sum);
		MUST(braid_vm_memory_mapping(&vm.memory, r->chunks[k].at, r->chunks[k].bytes));
		sum += r->chunks[k].bytes - r->page_bytes;
	}
	MUST_EQ(r->bytes, sum);
	read_some(r);
	vm.reads = 0;
	MUST(braid_vm_region_holds(&vm.memory, r) || vm.changes);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	struct braid_vm_region *regions = calloc(BRAID_VM_REGIONS, sizeof(*regions));
	struct braid_vm_search search;
	bool found = false;
	u32 k, nr;
	u8 how;

	vm.in = (struct fuzz_input){ data, bytes };
	how = fuzz_take(&vm.in, 1);
	begin(how);
	nr = fuzz_take(&vm.in, 1) % MOST_OPS;
	for (k = 0; k < nr && vm.in.left; k++)
		operate();
	if (how & HOW_REAL)
		put_real();
	vm.changes = how & HOW_CHANGES;
	if (braid_vm_search(&vm.memory, regions, &search)) {
		MUST(vm.changes);	/* it ended */
		search.nr_regions = 0;
		how &= ~HOW_REAL;
	}
	MUST(search.nr_regions <= BRAID_VM_REGIONS);
	MUST(search.nr_regions + search.nr_incomplete <= BRAID_VM_TRIES);
	for (k = 0; k < search.nr_regions; k++) {
		check_region(&regions[k]);
		found |= regions[k].nonce == NONCE;
	}
	if ((how & HOW_REAL) && !vm.changes && !vm.absent &&
	    search.nr_regions < BRAID_VM_REGIONS &&
	    search.nr_regions + search.nr_incomplete < BRAID_VM_TRIES)
		MUST(found);
	free(regions);
	return 0;
}
