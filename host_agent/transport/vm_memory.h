/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory of another process, a VMM, which is only read; or a core file of it.
 *
 * Invariants:
 * - Nothing is written to it: the kernel interfaces used here are process_vm_readv(), move_pages()
 *   that moves nothing, and files in /proc that are opened for reading.
 * - Only pages that move_pages() or pagemap show to be present are read. To read another one would
 *   allocate it in a file of memory or of huge pages, map the zero page so that a later write gets
 *   no huge page, swap it in, or wait for userfaultfd. A page may stop being present between the
 *   look and the read; no interface prevents that.
 * - The process may run, change its mappings and its memory, and end at any moment. All that is
 *   read is its claim, and its guest's.
 */
#ifndef BRAID_TRANSPORT_VM_MEMORY_H
#define BRAID_TRANSPORT_VM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "tracebraid/types.h"

/* A range of addresses that can be read and written, with neighbors that continue it. */
struct braid_vm_mapping {
	u64 start, end;
	u64 offset;			/* in its file */
	u64 device, inode;		/* inode 0: no file */
};

struct braid_vm_memory {
	pid_t pid;
	int core;			/* a core that is read in its place (vm_core.h); or -1 */
	int pidfd;			/* shows that the number was not given to another process */
	int pagemap;
	bool by_pagemap;		/* move_pages() does not show all pages that are present */
	u64 page_bytes;			/* of the host */
	struct braid_vm_mapping *mappings;
	size_t nr_mappings;
};

/**
 * braid_vm_memory_open - get ready to read a process' memory
 * @out: set on success
 * @pid: in this process' namespace
 *
 * Return: 0; -ESRCH, -EACCES (also if only the reads are refused) or another -errno, with
 * braid_fail().
 */
int braid_vm_memory_open(struct braid_vm_memory *out, pid_t pid);

/**
 * braid_vm_memory_add - add a mapping, or extend the last one if this continues it
 * @vm: the memory
 * @capacity: of its mappings; 0 at first
 * @mapping: after those that were added before
 *
 * Return: 0; -E2BIG or -ENOMEM, with braid_fail().
 */
int braid_vm_memory_add(struct braid_vm_memory *vm, size_t *capacity,
			const struct braid_vm_mapping *mapping);

/** braid_vm_memory_refused - the line for a -errno of a process: who could read it; returns @err */
int braid_vm_memory_refused(pid_t pid, int err);

/** braid_vm_memory_is_encrypted - whether a QEMU was started with a confidential guest */
bool braid_vm_memory_is_encrypted(pid_t pid);

/** braid_vm_memory_close - the reverse */
void braid_vm_memory_close(struct braid_vm_memory *vm);

/** braid_vm_memory_mapping - the mapping that has all of a range; NULL: none has */
const struct braid_vm_mapping *braid_vm_memory_mapping(const struct braid_vm_memory *vm,
						       u64 address, u64 bytes);

/** braid_vm_memory_present - whether all pages of a range are present */
bool braid_vm_memory_present(const struct braid_vm_memory *vm, u64 address, u64 bytes);

/**
 * braid_vm_memory_read - copy a range
 * @vm: the memory
 * @address: in the process
 * @to: room for @bytes
 * @bytes: of it
 *
 * Return: 0; -ENODATA (a page is not present; nothing was read); -EFAULT (not mapped any more);
 * -ESRCH (the process has ended); -ETIMEDOUT (userfaultfd); another -errno. Without braid_fail():
 * a search goes on.
 */
int braid_vm_memory_read(struct braid_vm_memory *vm, u64 address, void *to, size_t bytes);

/* What is to be copied. */
struct braid_vm_part {
	u64 address;			/* in the process */
	void *to;
	size_t bytes;			/* not 0 */
};

/**
 * braid_vm_memory_parts - copy many ranges, in their order
 * @vm: the memory
 * @parts: which; neighbors that continue one another are read as one
 * @nr: of them
 *
 * Return: as braid_vm_memory_read(); on failure some parts were copied.
 */
int braid_vm_memory_parts(struct braid_vm_memory *vm, const struct braid_vm_part *parts, size_t nr);

/**
 * braid_vm_memory_gather - braid_vm_memory_parts(), at the next braid_vm_memory_fetch() at latest
 * @vm: the memory; it stays open until then
 * @parts: which; not used after this
 * @nr: of them
 * @err: 0; then set to the result: as that of braid_vm_memory_parts(), or -EAGAIN
 *
 * What was gathered of many processes is read at once, which costs little more than one of them.
 *
 * Return: whether it waits for braid_vm_memory_fetch(); if not, @err is the result.
 */
bool braid_vm_memory_gather(struct braid_vm_memory *vm, const struct braid_vm_part *parts,
			    size_t nr, int *err);

/** braid_vm_memory_fetch - read what was gathered */
void braid_vm_memory_fetch(void);

/**
 * braid_vm_memory_words - copy one word of each of many places
 * @vm: the memory
 * @addresses: multiples of 8
 * @words: set; 0 where the page is not present, or can't be read
 * @nr: BRAID_VM_WORDS at most
 *
 * Return: 0; -ESRCH, -EPERM or -ETIMEDOUT: of this process nothing more can be read now.
 */
int braid_vm_memory_words(const struct braid_vm_memory *vm, const u64 *addresses, u64 *words,
			  size_t nr);

#define BRAID_VM_WORDS	64	/* no more than BRAID_VM_READ_PARTS */
#define BRAID_VM_SCAN	512	/* pages whose entries of pagemap are read at a time */

/**
 * braid_vm_memory_scan - copy the first word of each page of a range that is present
 * @vm: the memory
 * @at: where to begin, a multiple of the page; then where to go on
 * @end: of the range
 * @addresses: set to those of the words; room for BRAID_VM_SCAN
 * @words: likewise
 * @nr: set to their number
 *
 * Looks at BRAID_VM_SCAN pages at most.
 *
 * Return: as braid_vm_memory_words().
 */
int braid_vm_memory_scan(const struct braid_vm_memory *vm, u64 *at, u64 end, u64 *addresses,
			 u64 *words, size_t *nr);

#endif /* BRAID_TRANSPORT_VM_MEMORY_H */
