/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A front end's memory, of which only the needed part is mapped, only while needed; and the split
 * virtqueues in it, from the device's side.
 */
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
int braid_vhost_window_copy(const struct braid_vhost_window *w, u64 offset, void *data, u32 bytes,
			    bool write);
int braid_vhost_window_load(const struct braid_vhost_window *w, u64 offset, u16 *value);
int braid_vhost_window_store(const struct braid_vhost_window *w, u64 offset, u16 value);

/**
 * braid_vhost_map_chunks - map chunks in sequence, writable
 * @memory: the table
 * @chunks: guest-physical, multiples of BRAID_PAGE_BYTES, not empty, not overlapping
 * @nr_chunks: of them
 * @bytes: in all
 * @out: set on success; to be unmapped as one, as braid_mapping_close() does
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

/* Virtqueues: vhost_user_queue.c ------------------------------------------------------------- */

#define BRAID_VHOST_MAX_RING	1024u	/* descriptors */
#define BRAID_VHOST_MAX_CHAIN	256u	/* of them, in one buffer */

struct braid_vhost_queue {
	u32 index;
	/* as set by the front end */
	u32 size;		/* descriptors; 0: not set */
	struct braid_vhost_ring_address address;
	bool has_address;
	bool enabled;
	bool kicked;		/* once: from then on it is started */
	int kick_fd;		/* or -1 */
	int call_fd;		/* or -1 */
	bool polled;		/* the front end wants no call, not even in band */
	/* ours */
	u16 seen;		/* available buffers taken */
	u16 returned;		/* of them, given back */
	struct braid_vhost_window descriptors;	/* open while it runs */
	struct braid_vhost_window available;
	struct braid_vhost_window used;
};

/* An extent of a buffer. */
struct braid_vhost_extent {
	u64 address;		/* guest-physical */
	u32 bytes;
};

/* An available buffer: nr_readable extents, then nr_writable ones. */
struct braid_vhost_chain {
	u16 head;
	u32 nr_readable;
	u32 nr_writable;
	struct braid_vhost_extent extents[BRAID_VHOST_MAX_CHAIN];
};

/** braid_vhost_queue_init - initialize a queue without state */
void braid_vhost_queue_init(struct braid_vhost_queue *q, u32 index);

/** braid_vhost_queue_reset - close its descriptors, and initialize it again */
void braid_vhost_queue_reset(struct braid_vhost_queue *q);

/** braid_vhost_queue_unmap - its memory is not touched before braid_vhost_queue_map() */
void braid_vhost_queue_unmap(struct braid_vhost_queue *q);

/**
 * braid_vhost_queue_map - map the ring, if it is not
 * @q: size and address are known
 * @memory: the table
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_vhost_queue_map(struct braid_vhost_queue *q, const struct braid_vhost_memory *memory);

/**
 * braid_vhost_queue_pop - get the next available buffer
 * @q: mapped
 * @chain: filled on success; its extents are not looked up
 *
 * Return: 1; 0: none; -errno with braid_fail(): the ring is broken.
 */
int braid_vhost_queue_pop(struct braid_vhost_queue *q, struct braid_vhost_chain *chain);

/**
 * braid_vhost_queue_push - return a buffer; in the order of the pops
 * @q: mapped
 * @head: the buffer
 * @written: bytes written into it
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_vhost_queue_push(struct braid_vhost_queue *q, u16 head, u32 written);

/**
 * braid_vhost_queue_wants_call - whether the driver is to be interrupted
 * @q: mapped
 *
 * Return: 1, 0, or -errno with braid_fail().
 */
int braid_vhost_queue_wants_call(const struct braid_vhost_queue *q);

/* Of all readable, or of all writable extents. */
u64 braid_vhost_chain_bytes(const struct braid_vhost_chain *chain, bool writable);

/**
 * braid_vhost_chain_copy - read a buffer's readable part, or write into its writable one
 * @chain: the buffer
 * @memory: the table
 * @data: the bytes
 * @bytes: at most the size of that part
 * @write: the writable part; else the readable one
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_vhost_chain_copy(const struct braid_vhost_chain *chain,
			   const struct braid_vhost_memory *memory, void *data, u32 bytes,
			   bool write);

#endif /* BRAID_TRANSPORT_VHOST_USER_MEMORY_H */
