// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds and maps a front end's memory, page by page. */
#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "host_agent/transport/guard.h"
#include "host_agent/transport/untrusted_fd.h"
#include "host_agent/transport/vhost_user_memory.h"
#include "host_agent/util/error.h"
#include "shared/platform.h"
#include "tracebraid/abi.h"

#define MAX_PAGE_BYTES	(1ULL << 30)

/* The table ---------------------------------------------------------------------------- */

static int check_slot(struct braid_vhost_memory_slot *slot)
{
	const struct braid_vhost_region *r = &slot->region;
	struct statfs fs;
	struct stat st;

	if (!r->bytes || r->guest_address + r->bytes < r->guest_address ||
	    r->user_address + r->bytes < r->user_address || r->offset + r->bytes < r->offset ||
	    (s64)(r->offset + r->bytes) < 0)
		return braid_fail(-EPROTO, "memory table: invalid range: %llu bytes at guest address 0x%llx, file offset 0x%llx",
				  (unsigned long long)r->bytes, (unsigned long long)r->guest_address,
				  (unsigned long long)r->offset);
	/* A file elsewhere could block in its file system at each call. */
	if (braid_untrusted_fd_kind(slot->fd) != BRAID_FD_MEMORY || fstat(slot->fd, &st) ||
	    fstatfs(slot->fd, &fs))
		return braid_fail(-EPROTO, "memory that is not a file of tmpfs or hugetlbfs; give its VM memory-backend-memfd,share=on (user-mode Linux: a TMPDIR on tmpfs, as /dev/shm)");
	slot->device = st.st_dev;
	slot->inode = st.st_ino;
	slot->page_bytes = BRAID_PAGE_BYTES;
	if (fs.f_type == HUGETLBFS_MAGIC)
		slot->page_bytes = fs.f_bsize;
	if (slot->page_bytes < BRAID_PAGE_BYTES || slot->page_bytes > MAX_PAGE_BYTES ||
	    (slot->page_bytes & (slot->page_bytes - 1)))
		return braid_fail(-EPROTO, "memory with an invalid page size: %llu",
				  (unsigned long long)slot->page_bytes);
	return 0;
}

int braid_vhost_memory_set(struct braid_vhost_memory *memory, struct braid_vhost_message *m)
{
	u32 nr = m->payload.memory.nr_regions, k;
	struct braid_vhost_memory made = { .nr_slots = nr };
	int err;

	/* Some front ends send space for unused regions. */
	if (nr > BRAID_VHOST_MAX_REGIONS || nr != m->nr_fds ||
	    m->header.bytes < offsetof(union braid_vhost_payload, memory.regions[nr]))
		return braid_fail(-EPROTO, "a memory table of %u ranges, %u file descriptors and %u bytes",
				  nr, m->nr_fds, m->header.bytes);
	for (k = 0; k < nr; k++) {
		made.slots[k].region = m->payload.memory.regions[k];
		made.slots[k].fd = m->fds[k];
		err = check_slot(&made.slots[k]);
		if (err)
			return err;
	}
	m->nr_fds = 0;
	*memory = made;
	return 0;
}

void braid_vhost_memory_clear(struct braid_vhost_memory *memory)
{
	while (memory->nr_slots)
		braid_untrusted_fd_close(memory->slots[--memory->nr_slots].fd);
}

/* Finds a guest-physical address; *bytes is set to the contiguous length there. */
static const struct braid_vhost_memory_slot *find_guest(const struct braid_vhost_memory *memory,
							u64 address, u64 *bytes, u64 *offset)
{
	u32 k;

	for (k = 0; k < memory->nr_slots; k++) {
		const struct braid_vhost_region *r = &memory->slots[k].region;
		u64 at = address - r->guest_address;

		if (address < r->guest_address || at >= r->bytes)
			continue;
		if (*bytes > r->bytes - at)
			*bytes = r->bytes - at;
		*offset = r->offset + at;
		return &memory->slots[k];
	}
	return NULL;
}

bool braid_vhost_memory_same(const struct braid_vhost_memory *a,
			     const struct braid_vhost_memory *b,
			     const struct braid_vhost_chunk *chunks, u32 nr_chunks)
{
	const struct braid_vhost_memory_slot *in_a, *in_b;
	u64 done, bytes, at_a, at_b;
	u32 k;

	for (k = 0; k < nr_chunks; k++) {
		for (done = 0; done < chunks[k].bytes; done += bytes) {
			bytes = chunks[k].bytes - done;
			in_a = find_guest(a, chunks[k].address + done, &bytes, &at_a);
			in_b = in_a ? find_guest(b, chunks[k].address + done, &bytes, &at_b) : NULL;
			if (!in_b || in_a->inode != in_b->inode || in_a->device != in_b->device ||
			    at_a != at_b)
				return false;
		}
	}
	return true;
}

/* Windows ------------------------------------------------------------------------------ */

static int map_window(struct braid_vhost_window *w, const struct braid_vhost_memory_slot *slot,
		      u64 offset, u64 bytes)
{
	u64 start = offset & ~(slot->page_bytes - 1);
	u64 end = (offset + bytes + slot->page_bytes - 1) & ~(slot->page_bytes - 1);
	u8 *base = mmap(NULL, end - start, PROT_READ | PROT_WRITE, MAP_SHARED, slot->fd, start);

	if (base == MAP_FAILED)
		return braid_fail(-errno, "memory that cannot be mapped: %s", strerror(errno));
	w->base = base;
	w->mapped_bytes = end - start;
	w->at = base + (offset - start);
	w->bytes = bytes;
	return 0;
}

int braid_vhost_window_open(struct braid_vhost_window *w, const struct braid_vhost_memory *memory,
			    u64 address, u64 bytes)
{
	u32 k;

	for (k = 0; k < memory->nr_slots; k++) {
		const struct braid_vhost_region *r = &memory->slots[k].region;
		u64 at = address - r->user_address;

		if (address >= r->user_address && at < r->bytes && bytes <= r->bytes - at)
			return map_window(w, &memory->slots[k], r->offset + at, bytes);
	}
	return braid_fail(-ERANGE, "virtqueue at 0x%llx: outside of the memory table",
			  (unsigned long long)address);
}

void braid_vhost_window_close(struct braid_vhost_window *w)
{
	if (w->at)
		munmap(w->base, w->mapped_bytes);
	memset(w, 0, sizeof(*w));
}

struct access {
	u8 *at;
	void *data;
	u32 bytes;
	bool write;
};

static int do_copy(void *arg)
{
	const struct access *a = arg;

	if (a->write)
		memcpy(a->at, a->data, a->bytes);
	else
		memcpy(a->data, a->at, a->bytes);
	return 0;
}

static int do_word(void *arg)
{
	const struct access *a = arg;

	if (a->write)
		braid_store_release((u16 *)a->at, *(u16 *)a->data);
	else
		*(u16 *)a->data = braid_load_acquire((u16 *)a->at);
	return 0;
}

static int vhost_user_memory_run(const struct braid_vhost_window *w, int (*fn)(void *arg),
				 struct access *a)
{
	int err = braid_guard_run(w->base, w->mapped_bytes, fn, a);

	return err ? braid_fail(err, "memory that was truncated") : 0;
}

int braid_vhost_window_copy(const struct braid_vhost_window *w, u64 offset, void *data, u32 bytes,
			    bool write)
{
	struct access a = { w->at + offset, data, bytes, write };

	return vhost_user_memory_run(w, do_copy, &a);
}

int braid_vhost_window_load(const struct braid_vhost_window *w, u64 offset, u16 *value)
{
	struct access a = { .at = w->at + offset, .data = value };

	return vhost_user_memory_run(w, do_word, &a);
}

int braid_vhost_window_store(const struct braid_vhost_window *w, u64 offset, u16 value)
{
	struct access a = { .at = w->at + offset, .data = &value, .write = true };

	return vhost_user_memory_run(w, do_word, &a);
}

int braid_vhost_memory_copy(const struct braid_vhost_memory *memory, u64 address, void *data,
			    u32 bytes, bool write)
{
	const struct braid_vhost_memory_slot *slot;
	struct braid_vhost_window w;
	u64 extent, offset;
	u32 done;
	int err;

	for (done = 0; done < bytes; done += extent) {
		extent = bytes - done;
		slot = find_guest(memory, address + done, &extent, &offset);
		if (!slot)
			return braid_fail(-ERANGE, "buffer at 0x%llx: outside of the memory table",
					  (unsigned long long)(address + done));
		err = map_window(&w, slot, offset, extent);
		if (err)
			return err;
		err = braid_vhost_window_copy(&w, 0, (u8 *)data + done, extent, write);
		braid_vhost_window_close(&w);
		if (err)
			return err;
	}
	return 0;
}

/* A region ------------------------------------------------------------------------------ */

/* Address space for the region, so aligned that huge pages can be mapped into it. */
static int vhost_user_memory_reserve(u64 bytes, u64 align, u8 **out)
{
	u8 *room = mmap(NULL, bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			-1, 0);
	u64 before, after;

	if (room == MAP_FAILED)
		return braid_fail(-errno, "no room for a region of %llu bytes",
				  (unsigned long long)bytes);
	before = -(uintptr_t)room & (align - 1);
	after = align - before;
	if (before)
		munmap(room, before);
	if (after)
		munmap(room + before + bytes, after);
	*out = room + before;
	return 0;
}

/* @flags: MAP_SHARED or MAP_PRIVATE. */
static int map_extent(const struct braid_vhost_memory_slot *slot, u64 offset, u64 bytes, u8 *at,
		      u64 in_region, int flags)
{
	struct stat st;

	if ((offset | bytes | in_region) & (slot->page_bytes - 1))
		return braid_fail(-EINVAL, slot->page_bytes == BRAID_PAGE_BYTES ?
				  "a chunk that does not begin at a page of its memory's file" :
				  "a chunk that is not a whole huge page; load its driver early, while large chunks are available");
	if (fstat(slot->fd, &st) || (u64)st.st_size < offset + bytes)
		return braid_fail(-EFAULT, "chunk ends at 0x%llx of its memory's file, which has 0x%llx bytes",
				  (unsigned long long)(offset + bytes), (unsigned long long)st.st_size);
	if (mmap(at, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, slot->fd, offset) ==
	    MAP_FAILED)
		return braid_fail(-errno, "a chunk that cannot be mapped: %s", strerror(errno));
	return 0;
}

/* Replaces the mapping at @base. @flags: as above. */
static int map_extents(const struct braid_vhost_memory *memory,
		       const struct braid_vhost_chunk *chunks, u32 nr_chunks, u8 *base, int flags)
{
	const struct braid_vhost_memory_slot *slot;
	u64 at = 0, done, extent, offset;
	int err = 0;
	u32 k;

	for (k = 0; k < nr_chunks && !err; k++) {
		for (done = 0; done < chunks[k].bytes && !err; done += extent, at += extent) {
			extent = chunks[k].bytes - done;
			slot = find_guest(memory, chunks[k].address + done, &extent, &offset);
			if (slot)
				err = map_extent(slot, offset, extent, base + at, at, flags);
			else
				err = braid_fail(-ERANGE, "chunk %u, at 0x%llx: outside of the memory table",
						 k, (unsigned long long)(chunks[k].address + done));
		}
	}
	return err;
}

int braid_vhost_map_chunks(const struct braid_vhost_memory *memory,
			   const struct braid_vhost_chunk *chunks, u32 nr_chunks, u64 bytes,
			   u8 **out)
{
	u64 align = BRAID_PAGE_BYTES;
	u8 *base = NULL;
	int err;
	u32 k;

	for (k = 0; k < memory->nr_slots; k++)
		if (memory->slots[k].page_bytes > align)
			align = memory->slots[k].page_bytes;
	err = vhost_user_memory_reserve(bytes, align, &base);
	if (err)
		return err;
	err = map_extents(memory, chunks, nr_chunks, base, MAP_SHARED);
	if (err)
		munmap(base, bytes);
	else
		*out = base;
	return err;
}

void braid_vhost_part_chunks(const struct braid_vhost_memory *memory,
			     const struct braid_vhost_chunk *chunks, u32 nr_chunks, u64 bytes,
			     u8 *base, bool keep)
{
	if (keep && !map_extents(memory, chunks, nr_chunks, base,
				 MAP_PRIVATE | MAP_NORESERVE))
		return;
	/* Fail rather than write to the wrong guest's memory. */
	if (mmap(base, bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED)
		abort();
}
