/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads other processes' memory, also for a confined process.
 *
 * Invariants:
 * - The process that reads a VMM's memory holds CAP_SYS_PTRACE alone, and does nothing else: it is
 *   given addresses, and hands out bytes. What the bytes mean is for the confined process, which
 *   holds no such capability.
 * - A read that does not end, because userfaultfd fills the page, ends with the reader, which is
 *   replaced.
 */
#ifndef BRAID_TRANSPORT_VM_READER_H
#define BRAID_TRANSPORT_VM_READER_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "tracebraid/types.h"

#define BRAID_VM_READ_PARTS	64u
#define BRAID_VM_READ_BYTES	(1u << 20)
#define BRAID_VM_READS		32u	/* at a time */
#define BRAID_VM_READS_PARTS	1024u	/* of all of them */

/* As the arguments of process_vm_readv(), and what it returned. */
struct braid_vm_read {
	pid_t pid;
	const struct iovec *local, *remote;
	size_t nr_local, nr_remote;	/* BRAID_VM_READ_PARTS at most */
	bool check;			/* only if move_pages() shows that all pages are present */
	ssize_t got;			/* bytes; or -errno; -ENODATA: the check failed */
};

/**
 * braid_vm_reader_start - start the process that reads
 *
 * Call before braid_confine(), once. Without it reads are made by the calling process.
 *
 * Return: 0 or -errno with braid_fail().
 */
int braid_vm_reader_start(void);

/**
 * braid_vm_reader_read_many - several process_vm_readv()
 * @reads: BRAID_VM_READ_BYTES, and BRAID_VM_READS_PARTS parts elsewhere, at most in all
 * @nr: BRAID_VM_READS at most
 *
 * One is made after the other.
 *
 * If one does not end, its ->got is -ETIMEDOUT, and that of the others -EAGAIN.
 */
void braid_vm_reader_read_many(struct braid_vm_read *reads, size_t nr);

/**
 * braid_vm_reader_read - process_vm_readv(), without a check
 * @pid: the process
 * @local: where to
 * @nr_local: at most BRAID_VM_READ_PARTS
 * @remote: where from, BRAID_VM_READ_BYTES at most in all
 * @nr_remote: at most BRAID_VM_READ_PARTS
 *
 * Return: bytes read; or -errno: -ETIMEDOUT: it did not end.
 */
ssize_t braid_vm_reader_read(pid_t pid, const struct iovec *local, size_t nr_local,
			     const struct iovec *remote, size_t nr_remote);

#endif /* BRAID_TRANSPORT_VM_READER_H */
