// SPDX-License-Identifier: GPL-2.0-or-later
/* A file of memory, mapped as by a VMM, and chunk by chunk where the guest has its region. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/need.h"
#include "tests/unit/own_memory.h"

#define STEP	((u64)BRAID_BEACON_STEP)
#define GUEST	(1ULL << 32)	/* guest-physical address of the memory */

/* A chunk's place in the memory. */
static u64 place(const struct own_memory *memory, u32 chunk)
{
	return (memory->nr_chunks - 1 - chunk) * STEP;
}

/* @at: of the memory: where the chunks are */
static void put_beacon(struct own_memory *memory, u64 at, u32 chunk, u64 nonce)
{
	struct braid_beacon *b = (struct braid_beacon *)(memory->vm + at + place(memory, chunk));
	u32 k;

	b->version_major = BRAID_BEACON_VERSION_MAJOR;
	b->page_bytes = BRAID_PAGE_BYTES;
	b->nonce = nonce;
	b->index = chunk;
	b->nr_chunks = memory->nr_chunks;
	b->address = GUEST + at + place(memory, chunk);
	b->bytes = STEP;
	b->region_bytes = memory->nr_chunks * OWN_CHUNK_ROOM;
	for (k = 0; !chunk && k < memory->nr_chunks; k++)
		b->chunks[k] = (struct braid_beacon_chunk){
			GUEST + at + place(memory, k), STEP,
		};
	b->magic = BRAID_BEACON_MAGIC;
}

static void await_process(const struct own_memory *memory)
{
	char answer[8] = "";

	NEED(read(memory->out, answer, sizeof(answer)) > 0 && !strncmp(answer, "ready", 5));
}

/* As QEMU maps files: a page before a multiple of 2 MiB. */
static void start_process(struct own_memory *memory, int fd)
{
	char path[40], bytes[24], base[24];
	int in[2], out[2];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), fd);
	snprintf(bytes, sizeof(bytes), "%llu",
		 (unsigned long long)(memory->before + memory->bytes));
	snprintf(base, sizeof(base), "%llu",
		 (unsigned long long)(1ULL << 45) + STEP - BRAID_PAGE_BYTES);
	NEED(!pipe2(in, O_CLOEXEC) && !pipe2(out, O_CLOEXEC));
	fflush(NULL);
	memory->pid = fork();
	if (!memory->pid) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		execlp("python3", "python3", "tests/unit/vm_process.py", path, bytes, base, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	memory->in = in[1];
	memory->out = out[0];
	await_process(memory);
}

/* A page of each 2 MiB is present. */
static void map_more(u64 bytes)
{
	volatile u8 *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	u64 k;

	if (at == MAP_FAILED || madvise((void *)at, bytes, MADV_NOHUGEPAGE))
		_exit(1);
	for (k = -(uintptr_t)at % STEP; k < bytes; k += STEP)
		at[k] = 1;
}

/* Likewise, without a program: hundreds of these are small. */
static void start_fork(struct own_memory *memory, int fd, u64 more)
{
	void *at = (void *)((1ULL << 45) + STEP - BRAID_PAGE_BYTES);
	int in[2], out[2];

	NEED(!pipe2(in, O_CLOEXEC) && !pipe2(out, O_CLOEXEC));
	fflush(NULL);
	memory->pid = fork();
	if (!memory->pid) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		if (mmap(at, memory->bytes, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0) != at ||
		    madvise(at, memory->bytes / 2, MADV_POPULATE_READ) || close_range(3, ~0U, 0))
			_exit(1);
		if (more)
			map_more(more);
		_exit(write(1, "ready\n", 6) != 6 || read(0, in, 1) != 0);
	}
	close(in[0]);
	close(out[1]);
	memory->in = in[1];
	memory->out = out[0];
	await_process(memory);
}

/* Return: its file. @before: bytes of the file before the memory */
static int move(struct own_memory *memory, struct fake_guest *g, u64 nonce, u64 before)
{
	u64 at;
	u32 k;
	int fd = memfd_create("own_memory", MFD_CLOEXEC);
	u8 *base;

	memory->nr_chunks = g->p.bytes / OWN_CHUNK_ROOM;
	memory->bytes = 2 * memory->nr_chunks * STEP;
	memory->nonce = nonce;
	memory->before = before;
	NEED(memory->nr_chunks * OWN_CHUNK_ROOM == g->p.bytes);
	NEED(fd >= 0 && !ftruncate(fd, before + memory->bytes));
	base = mmap(NULL, before + memory->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	NEED(base != MAP_FAILED);
	memory->vm = base + before;
	for (k = 0; k < memory->nr_chunks; k++) {
		base = g->base + k * OWN_CHUNK_ROOM;
		at = place(memory, k) + BRAID_PAGE_BYTES;
		memcpy(memory->vm + at, base, OWN_CHUNK_ROOM);
		NEED(mmap(base, OWN_CHUNK_ROOM, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
			  before + at) == base);
		put_beacon(memory, 0, k, nonce);
	}
	/* The next guest's process shall have no more than its own. */
	NEED(!madvise(memory->vm - before, before + memory->bytes, MADV_DONTFORK));
	return fd;
}

void own_memory_begin(struct own_memory *memory, struct fake_guest *g, u64 nonce)
{
	int fd = move(memory, g, nonce, 0);

	start_process(memory, fd);
	close(fd);
}

void own_memory_begin_joined(struct own_memory *memory, struct fake_guest *g, u64 nonce)
{
	int fd = move(memory, g, nonce, 3 * BRAID_PAGE_BYTES);

	start_process(memory, fd);
	close(fd);
}

void own_memory_begin_small(struct own_memory *memory, struct fake_guest *g, u64 nonce, u64 more)
{
	int fd = move(memory, g, nonce, 0);

	start_fork(memory, fd, more);
	close(fd);
}

void own_memory_leave_copy(struct own_memory *memory, u64 nonce)
{
	u64 at = memory->nr_chunks * STEP;
	u32 k;

	memcpy(memory->vm + at, memory->vm, at);
	for (k = 0; k < memory->nr_chunks; k++)
		put_beacon(memory, at, k, nonce);
}

void *own_memory_in_copy(const struct own_memory *memory, u64 offset)
{
	NEED(offset < OWN_CHUNK_ROOM);
	return memory->vm + memory->nr_chunks * STEP + place(memory, 0) + BRAID_PAGE_BYTES + offset;
}

void own_memory_set_present(struct own_memory *memory, bool present)
{
	NEED(write(memory->in, present ? "present\n" : "absent\n", 7 + present) == 7 + present);
	await_process(memory);
}

void own_memory_clear(struct own_memory *memory)
{
	u32 k;

	for (k = 0; k < memory->nr_chunks; k++)
		((struct braid_beacon *)(memory->vm + place(memory, k)))->magic = 0;
}

void own_memory_scribble(struct own_memory *memory, u32 chunk, u32 page, u32 nr)
{
	memset(memory->vm + place(memory, chunk) + (u64)page * BRAID_PAGE_BYTES, 0xa5,
	       (u64)nr * BRAID_PAGE_BYTES);
}

void own_memory_end(struct own_memory *memory)
{
	munmap(memory->vm - memory->before, memory->before + memory->bytes);
	close(memory->in);
	close(memory->out);
	waitpid(memory->pid, NULL, 0);
}
