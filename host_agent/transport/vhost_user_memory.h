/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A front end's memory: only the needed part is mapped, only while needed. */
#ifndef BRAID_TRANSPORT_VHOST_USER_MEMORY_H
#define BRAID_TRANSPORT_VHOST_USER_MEMORY_H

#include <stddef.h>

#include "host_agent/transport/vhost_user_message.h"

/* A guest-physical range: a struct braid_virtio_chunk in the host's byte order. */
struct braid_vhost_chunk {
	u64 address;
	u64 bytes;
};

/* One entry of the memory table. */
struct braid_vhost_memory_slot {
	struct braid_vhost_region region;
	int fd;
	u64 page_bytes;		/* what a mapping of the file is a multiple of */
	dev_t device;
	ino_t inode;
};

struct braid_vhost_memory {
	u32 nr_slots;
	struct braid_vhost_memory_slot slots[BRAID_VHOST_MAX_REGIONS];
};

/* Mapped bytes. Others may write them, and take them away, at any time. */
struct braid_vhost_window {
	u8 *at;			/* NULL: not mapped */
	u64 bytes;
	u8 *base;		/* of the mapping */
	u64 mapped_bytes;
};

/**
 * braid_vhost_memory_set - take over a memory table
 * @memory: empty; filled on success
 * @m: a SET_MEM_TABLE message; its file descriptors go over on success
 *
 * Return: 0, or -EPROTO with braid_fail().
 */
int braid_vhost_memory_set(struct braid_vhost_memory *memory, struct braid_vhost_message *m);

/** braid_vhost_memory_clear - forget the table; mappings stay */
void braid_vhost_memory_clear(struct braid_vhost_memory *memory);

/**
 * braid_vhost_memory_same - whether two tables have pages at the same place of the same files
 * @a: one table
 * @b: the other
 * @chunks: guest-physical ranges
 * @nr_chunks: of them
 */
bool braid_vhost_memory_same(const struct braid_vhost_memory *a,
			     const struct braid_vhost_memory *b,
			     const struct braid_vhost_chunk *chunks, u32 nr_chunks);

/**
 * braid_vhost_memory_copy - copy to or from guest-physical memory
 * @memory: the table
 * @address: guest-physical
 * @data: the bytes
 * @bytes: of it
 * @write: into the guest's memory; else out of it
 *
 * Return: 0, -ERANGE: not in the table, or -errno; with braid_fail().
 */
int braid_vhost_memory_copy(const struct braid_vhost_memory *memory, u64 address, void *data,
			    u32 bytes, bool write);

/**
 * braid_vhost_window_open - map a range by user address
 * @w: filled on success
 * @memory: the table
 * @address: in the front end
 * @bytes: all in one entry of the table
 *
 * Return: 0, -ERANGE: not in the table, or -errno; with braid_fail().
 */
int braid_vhost_window_open(struct braid_vhost_window *w, const struct braid_vhost_memory *memory,
			    u64 address, u64 bytes);

/** braid_vhost_window_close - unmap; one that isn't open is fine */
void braid_vhost_window_close(struct braid_vhost_window *w);

/*
 * Access to a window: @offset and bytes are within it. 0, or -EFAULT with braid_fail() when the
 * memory has gone. 16 bit words are aligned; loaded with acquire and stored with release.
 */
int braid_vhost_window_read(const struct braid_vhost_window *w, u64 offset, void *to, u32 bytes);
int braid_vhost_window_write(const struct braid_vhost_window *w, u64 offset, const void *from,
			     u32 bytes);
int braid_vhost_window_load(const struct braid_vhost_window *w, u64 offset, u16 *value);
int braid_vhost_window_store(const struct braid_vhost_window *w, u64 offset, u16 value);

/**
 * braid_vhost_map_chunks - map chunks in sequence, writable
 * @memory: the table
 * @chunks: guest-physical, multiples of BRAID_PAGE_BYTES, not empty, not overlapping
 * @nr_chunks: of them
 * @bytes: in all
 * @out: set on success; to be unmapped as one, by braid_mapping_close() or the below
 *
 * Return: 0, or -errno with braid_fail(): not in the table, the file is too short, or its
 * huge pages can't be mapped that way.
 */
int braid_vhost_map_chunks(const struct braid_vhost_memory *memory,
			   const struct braid_vhost_chunk *chunks, u32 nr_chunks, u64 bytes,
			   u8 **out);

/**
 * braid_vhost_part_chunks - detach a mapping from its guest's memory
 * @memory: the table
 * @chunks: as they were mapped
 * @nr_chunks: of them
 * @bytes: in all
 * @base: of braid_vhost_map_chunks(); stays mapped, and may be used meanwhile
 * @keep: keep the guest's content readable; else, or if that fails, all zeros
 *
 * From here on writes to it do not reach the guest.
 */
void braid_vhost_part_chunks(const struct braid_vhost_memory *memory,
			     const struct braid_vhost_chunk *chunks, u32 nr_chunks, u64 bytes,
			     u8 *base, bool keep);

/** braid_vhost_unmap_chunks - undo braid_vhost_map_chunks() */
void braid_vhost_unmap_chunks(u8 *base, u64 bytes);

#endif /* BRAID_TRANSPORT_VHOST_USER_MEMORY_H */
