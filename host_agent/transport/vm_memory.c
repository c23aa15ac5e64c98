// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads pages of another process that are present. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host_agent/transport/vm_memory.h"
#include "host_agent/transport/vm_reader.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"
#include "host_agent/util/peek.h"

#define PRESENT		(1ULL << 63)
#define MOST_MAPPINGS	65536u
#define ENTRIES		BRAID_VM_SCAN
#define NEAR		8u		/* pages: to read their entries costs less than a call */

/* Mappings that continue one another: QEMU's advice for a part splits one. */
static bool vm_memory_continues(const struct braid_vm_mapping *a, const struct braid_vm_mapping *b)
{
	return a->end == b->start && a->inode == b->inode && a->device == b->device &&
	       (!a->inode || a->offset + (a->end - a->start) == b->offset);
}

int braid_vm_memory_add(struct braid_vm_memory *vm, size_t *capacity,
			const struct braid_vm_mapping *mapping)
{
	struct braid_vm_mapping *last = vm->nr_mappings ? &vm->mappings[vm->nr_mappings - 1] : NULL;

	if (last && vm_memory_continues(last, mapping)) {
		last->end = mapping->end;
		return 0;
	}
	if (vm->nr_mappings == MOST_MAPPINGS)
		return braid_fail(-E2BIG, "process %d: too many mappings", (int)vm->pid);
	return braid_array_push(vm->mappings, vm->nr_mappings, *capacity, *mapping) ?
		       braid_out_of_memory() : 0;
}

/* 00400000-00452000 rw-s 00000000 08:02 173521 /path */
static bool vm_memory_parse(const char *line, struct braid_vm_mapping *mapping)
{
	unsigned int major, minor;
	char mode[5];

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64,
		   &mapping->start, &mapping->end, mode, &mapping->offset, &major, &minor,
		   &mapping->inode) != 7 || mapping->start >= mapping->end)
		return false;
	mapping->device = makedev(major, minor);
	return mode[0] == 'r' && mode[1] == 'w';
}

static int vm_memory_read_maps(struct braid_vm_memory *vm, FILE *maps)
{
	braid_auto_free char *line = NULL;
	struct braid_vm_mapping mapping;
	size_t room = 0, capacity = 0;
	int err = 0;

	while (!err && getline(&line, &room, maps) > 0)
		if (vm_memory_parse(line, &mapping))
			err = braid_vm_memory_add(vm, &capacity, &mapping);
	return err;
}

static bool vm_memory_lives(const struct braid_vm_memory *vm)
{
	struct pollfd p = { .fd = vm->pidfd, .events = POLLIN };

	return !poll(&p, 1, 0);
}

/* What was read, if it is still the same process. */
static ssize_t vm_memory_call(const struct braid_vm_memory *vm, const struct iovec *local,
			      size_t nr_local, const struct iovec *remote, size_t nr_remote)
{
	ssize_t got = braid_vm_reader_read(vm->pid, local, nr_local, remote, nr_remote);

	return got < 0 || vm_memory_lives(vm) ? got : -ESRCH;
}

/* Whether reads are permitted: the last page of all addresses is nobody's. Return: 0 or -errno. */
static int vm_memory_try(const struct braid_vm_memory *vm)
{
	u8 byte;
	const struct iovec local = { &byte, 1 }, remote = { (void *)-(uintptr_t)vm->page_bytes, 1 };
	ssize_t got = vm_memory_call(vm, &local, 1, &remote, 1);

	return got == -EPERM ? -EACCES : got < 0 && got != -EFAULT ? got : 0;
}

static int vm_memory_load_maps(struct braid_vm_memory *vm)
{
	int err, fd = braid_peek_maps(vm->pid);
	FILE *maps = fd < 0 ? NULL : fdopen(fd, "r");

	if (fd < 0)
		return braid_vm_memory_refused(vm->pid, fd);
	if (!maps) {
		close(fd);
		return braid_out_of_memory();
	}
	err = vm_memory_read_maps(vm, maps);
	fclose(maps);
	return err;
}

/* All of it is one process', which has not ended since its number was taken for this. */
static int vm_memory_begin(struct braid_vm_memory *vm)
{
	int err = vm_memory_load_maps(vm);

	if (err)
		return err;
	vm->pagemap = braid_peek_pagemap(vm->pid);
	err = vm->pagemap < 0 ? vm->pagemap : vm_memory_lives(vm) ? vm_memory_try(vm) : -ESRCH;
	return err ? braid_vm_memory_refused(vm->pid, err) : 0;
}

int braid_vm_memory_open(struct braid_vm_memory *out, pid_t pid)
{
	struct braid_vm_memory vm = {
		.pid = pid, .core = -1, .pidfd = syscall(SYS_pidfd_open, pid, 0), .pagemap = -1,
		.page_bytes = sysconf(_SC_PAGESIZE),
	};
	int err;

	if (vm.pidfd < 0)	/* -EINVAL: a thread's number */
		return braid_vm_memory_refused(pid, errno == EINVAL ? -ESRCH : -errno);
	err = vm_memory_begin(&vm);
	if (err)
		braid_vm_memory_close(&vm);
	else
		*out = vm;
	return err;
}

void braid_vm_memory_close(struct braid_vm_memory *vm)
{
	if (vm->pagemap >= 0)
		close(vm->pagemap);
	if (vm->pidfd >= 0)
		close(vm->pidfd);
	free(vm->mappings);
	vm->mappings = NULL;
	vm->nr_mappings = 0;
}

const struct braid_vm_mapping *braid_vm_memory_mapping(const struct braid_vm_memory *vm,
						       u64 address, u64 bytes)
{
	const struct braid_vm_mapping *mapping;
	size_t k;

	for (k = 0; k < vm->nr_mappings; k++) {
		mapping = &vm->mappings[k];
		if (address >= mapping->start && address < mapping->end)
			return bytes <= mapping->end - address ? mapping : NULL;
	}
	return NULL;
}

/* Of a core file. What it lacks is not present. */
static int vm_memory_read_core(const struct braid_vm_memory *vm, u64 address, void *to,
			       size_t bytes)
{
	const struct braid_vm_mapping *mapping = braid_vm_memory_mapping(vm, address, bytes);

	return mapping && braid_pread_all(vm->core, to, bytes, mapping->offset +
					  (address - mapping->start)) == (ssize_t)bytes ?
	       0 : -ENODATA;
}

/* 0: it is not present. */
static u64 vm_memory_core_word(const struct braid_vm_memory *vm, u64 address)
{
	u64 word;

	return vm_memory_read_core(vm, address, &word, sizeof(word)) ? 0 : word;
}

/* What pagemap says of consecutive pages. */
struct vm_pages {
	u64 first, nr;
	u64 entries[ENTRIES];
};

/* Of at least one page. The kernel reads each one's struct page: often a miss of the cache. */
static int vm_memory_load_pages(const struct braid_vm_memory *vm, struct vm_pages *pages,
				u64 first, u64 wanted)
{
	u64 nr = wanted < ENTRIES ? wanted : ENTRIES;
	ssize_t got = pread(vm->pagemap, pages->entries, nr * sizeof(*pages->entries),
			    first * sizeof(*pages->entries));

	pages->first = first;
	pages->nr = got > 0 ? got / sizeof(*pages->entries) : 0;
	return got < 0 ? -ENODATA : pages->nr ? 0 : -ESRCH;
}

static u64 vm_memory_page(const struct braid_vm_memory *vm, const struct iovec *range, u64 byte)
{
	return ((u64)range->iov_base + byte) / vm->page_bytes;
}

/* The end of the pages that the first range needs, and those after it that lie near. */
static u64 vm_memory_end(const struct braid_vm_memory *vm, const struct iovec *ranges, size_t nr)
{
	u64 end = vm_memory_page(vm, ranges, ranges->iov_len - 1) + 1, first, last;
	size_t k;

	for (k = 1; k < nr; k++) {
		first = vm_memory_page(vm, &ranges[k], 0);
		last = vm_memory_page(vm, &ranges[k], ranges[k].iov_len - 1);
		if (first + 1 < end || first > end + NEAR)
			break;
		end = last + 1 > end ? last + 1 : end;
	}
	return end;
}

/*
 * @pages: of a look just before, or of none
 * @ranges: the first one is checked; entries of those that follow nearby may be read with it
 * Return: 0: all pages of the range are present; -ENODATA; or -ESRCH: the process has ended.
 */
static int vm_memory_look(const struct braid_vm_memory *vm, struct vm_pages *pages,
			  const struct iovec *ranges, size_t nr)
{
	u64 page = vm_memory_page(vm, ranges, 0), last;
	int err;

	if (!ranges->iov_len || (u64)ranges->iov_base + ranges->iov_len - 1 < (u64)ranges->iov_base)
		return -ENODATA;
	for (last = vm_memory_page(vm, ranges, ranges->iov_len - 1); page <= last; page++) {
		if (page - pages->first >= pages->nr) {
			err = vm_memory_load_pages(vm, pages, page,
						   vm_memory_end(vm, ranges, nr) - page);
			if (err)
				return err;
		}
		if (!(pages->entries[page - pages->first] & PRESENT))
			return -ENODATA;
	}
	return 0;
}

bool braid_vm_memory_present(const struct braid_vm_memory *vm, u64 address, u64 bytes)
{
	const struct iovec range = { (void *)address, bytes };
	struct vm_pages pages;

	pages.first = pages.nr = 0;
	return !vm_memory_look(vm, &pages, &range, 1);
}

/* Appends a range to a vector, or extends its last one. */
static size_t vm_memory_append(struct iovec *vector, size_t nr, void *base, size_t bytes)
{
	if (nr && (u8 *)vector[nr - 1].iov_base + vector[nr - 1].iov_len == base) {
		vector[nr - 1].iov_len += bytes;
		return nr;
	}
	vector[nr] = (struct iovec){ base, bytes };
	return nr + 1;
}

/* A read of parts. */
struct vm_vectors {
	struct iovec local[BRAID_VM_READ_PARTS], remote[BRAID_VM_READ_PARTS];
	size_t nr_local, nr_remote, bytes;
};

/* Whether pagemap calls all pages of a read present. Return: as vm_memory_look(). */
static int vm_memory_look_all(const struct braid_vm_memory *vm, const struct vm_vectors *v)
{
	struct vm_pages pages;
	size_t k;
	int err = 0;

	pages.first = pages.nr = 0;
	for (k = 0; k < v->nr_remote && !err; k++)
		err = vm_memory_look(vm, &pages, v->remote + k, v->nr_remote - k);
	return err;
}

static int vm_memory_prepare(const struct braid_vm_memory *vm, const struct braid_vm_part *parts,
			     size_t nr, struct vm_vectors *v)
{
	size_t k;

	v->nr_local = v->nr_remote = v->bytes = 0;
	for (k = 0; k < nr; k++) {
		v->nr_local = vm_memory_append(v->local, v->nr_local, parts[k].to, parts[k].bytes);
		v->nr_remote = vm_memory_append(v->remote, v->nr_remote, (void *)parts[k].address,
						parts[k].bytes);
		v->bytes += parts[k].bytes;
	}
	return vm->by_pagemap ? vm_memory_look_all(vm, v) : 0;
}

static struct braid_vm_read vm_memory_request(const struct braid_vm_memory *vm,
					      const struct vm_vectors *v)
{
	return (struct braid_vm_read){
		vm->pid, v->local, v->remote, v->nr_local, v->nr_remote, !vm->by_pagemap, 0,
	};
}

/*
 * move_pages() did not show all pages: it may be unable to, as without CONFIG_NUMA and for some
 * huge pages. From then on pagemap is asked.
 */
static ssize_t vm_memory_retry(struct braid_vm_memory *vm, const struct vm_vectors *v)
{
	int err = vm_memory_look_all(vm, v);

	if (err)
		return err;
	vm->by_pagemap = true;
	return vm_memory_call(vm, v->local, v->nr_local, v->remote, v->nr_remote);
}

/* @lives: the process. Return: 0 or -errno. */
static int vm_memory_finish(struct braid_vm_memory *vm, const struct vm_vectors *v,
			    const struct braid_vm_read *r, bool lives)
{
	ssize_t got = r->got == -ENODATA && r->check ? vm_memory_retry(vm, v) : r->got;

	if (got < 0)
		return got;
	return !lives ? -ESRCH : (size_t)got == v->bytes ? 0 : -EFAULT;
}

static int vm_memory_read_vector(struct braid_vm_memory *vm, const struct braid_vm_part *parts,
				 size_t nr)
{
	struct vm_vectors v;
	struct braid_vm_read r;
	int err = vm_memory_prepare(vm, parts, nr, &v);

	if (err)
		return err;
	r = vm_memory_request(vm, &v);
	braid_vm_reader_read_many(&r, 1);
	return vm_memory_finish(vm, &v, &r, r.got < 0 || vm_memory_lives(vm));
}

/* As many of the parts as one read takes, at least one; 0: the first is larger than that. */
static size_t vm_memory_at_once(const struct braid_vm_part *parts, size_t nr)
{
	size_t bytes = 0, n;

	for (n = 0; n < nr && n < BRAID_VM_READ_PARTS; n++) {
		bytes += parts[n].bytes;
		if (bytes > BRAID_VM_READ_BYTES)
			break;
	}
	return n;
}

static int vm_memory_read_large(struct braid_vm_memory *vm, struct braid_vm_part part)
{
	struct braid_vm_part piece = part;
	int err = 0;

	for (; part.bytes && !err; part.bytes -= piece.bytes) {
		piece.bytes = part.bytes < BRAID_VM_READ_BYTES ? part.bytes : BRAID_VM_READ_BYTES;
		err = vm_memory_read_vector(vm, &piece, 1);
		piece.address += piece.bytes;
		piece.to = (u8 *)piece.to + piece.bytes;
	}
	return err;
}

int braid_vm_memory_parts(struct braid_vm_memory *vm, const struct braid_vm_part *parts, size_t nr)
{
	size_t done = 0, n;
	int err = 0;

	for (; vm->core >= 0 && done < nr && !err; done++)
		err = vm_memory_read_core(vm, parts[done].address, parts[done].to,
					  parts[done].bytes);
	for (; done < nr && !err; done += n) {
		n = vm_memory_at_once(parts + done, nr - done);
		err = n ? vm_memory_read_vector(vm, parts + done, n) :
			  vm_memory_read_large(vm, parts[done]);
		n += !n;
	}
	return err;
}

/* Many at once --------------------------------------------------------------------------------- */

static struct vm_gathered {
	struct braid_vm_memory *vm;
	struct vm_vectors v;
	int *err;
} gathered[BRAID_VM_READS];
static size_t nr_gathered, parts_gathered, bytes_gathered;

/* As many parts as one read takes. Return: whether they wait. */
static bool vm_memory_gather_one(struct braid_vm_memory *vm, const struct braid_vm_part *parts,
				 size_t nr, int *err)
{
	struct vm_gathered *g;
	size_t bytes = 0, k;

	for (k = 0; k < nr; k++)
		bytes += parts[k].bytes;
	if (nr_gathered == BRAID_VM_READS || parts_gathered + nr > BRAID_VM_READS_PARTS ||
	    bytes_gathered + bytes > BRAID_VM_READ_BYTES)
		braid_vm_memory_fetch();
	g = &gathered[nr_gathered];
	*err = *err ? *err : vm_memory_prepare(vm, parts, nr, &g->v);
	if (*err)
		return false;
	g->vm = vm;
	g->err = err;
	nr_gathered++;
	parts_gathered += g->v.nr_remote;
	bytes_gathered += bytes;
	return true;
}

bool braid_vm_memory_gather(struct braid_vm_memory *vm, const struct braid_vm_part *parts,
			    size_t nr, int *err)
{
	size_t done = 0, n;
	bool waits = false;

	for (; done < nr && !*err; done += n) {
		n = vm_memory_at_once(parts + done, nr - done);
		if (n) {
			waits = vm_memory_gather_one(vm, parts + done, n, err);
			continue;
		}
		n = 1;
		braid_vm_memory_fetch();	/* what precedes it is read first */
		waits = false;
		if (!*err)
			*err = vm_memory_read_large(vm, parts[done]);
	}
	return waits;
}

/* Sets ->revents for each of the processes that were read and may have ended. */
static void vm_memory_gathered_ended(struct pollfd *p, size_t nr)
{
	size_t k;

	for (k = 0; k < nr; k++)
		p[k] = (struct pollfd){ .fd = gathered[k].vm->pidfd, .events = POLLIN };
	if (poll(p, nr, 0) < 0)
		for (k = 0; k < nr; k++)
			p[k].revents = POLLERR;
}

void braid_vm_memory_fetch(void)
{
	struct braid_vm_read reads[BRAID_VM_READS];
	struct pollfd ended[BRAID_VM_READS];
	size_t nr = nr_gathered, k;

	for (k = 0; k < nr; k++)
		reads[k] = vm_memory_request(gathered[k].vm, &gathered[k].v);
	if (nr) {
		braid_vm_reader_read_many(reads, nr);
		vm_memory_gathered_ended(ended, nr);
	}
	for (k = 0; k < nr; k++) {
		const struct vm_gathered *g = &gathered[k];

		if (!*g->err)
			*g->err = vm_memory_finish(g->vm, &g->v, &reads[k], !ended[k].revents);
	}
	nr_gathered = parts_gathered = bytes_gathered = 0;
}

int braid_vm_memory_read(struct braid_vm_memory *vm, u64 address, void *to, size_t bytes)
{
	const struct braid_vm_part part = { address, to, bytes };

	return braid_vm_memory_parts(vm, &part, 1);
}

/* Words of pages that were present just now; those that can't be read stay as they are. */
static int vm_memory_read_words(const struct braid_vm_memory *vm, const struct iovec *local,
				const struct iovec *remote, size_t n)
{
	size_t done = 0;
	ssize_t got;

	/* A place that has gone meanwhile ends a call; the rest follows in the next. */
	while (done < n) {
		got = vm_memory_call(vm, local + done, n - done, remote + done, n - done);
		if (got < 0 && got != -EFAULT)
			return got;
		done += got > 0 ? got / sizeof(u64) : 1;
	}
	return 0;
}

int braid_vm_memory_words(const struct braid_vm_memory *vm, const u64 *addresses, u64 *words,
			  size_t nr)
{
	struct iovec local[BRAID_VM_WORDS], remote[BRAID_VM_WORDS];
	size_t k, n = 0;

	for (k = 0; k < nr; k++) {
		words[k] = vm->core >= 0 ? vm_memory_core_word(vm, addresses[k]) : 0;
		if (vm->core >= 0 ||
		    !braid_vm_memory_present(vm, addresses[k], sizeof(*words)))
			continue;
		local[n] = (struct iovec){ &words[k], sizeof(*words) };
		remote[n++] = (struct iovec){ (void *)addresses[k], sizeof(*words) };
	}
	return vm_memory_read_words(vm, local, remote, n);
}

static void vm_memory_scan_core(const struct braid_vm_memory *vm, u64 *at, u64 end,
				u64 *addresses, u64 *words, size_t *nr)
{
	for (*nr = 0; *nr < BRAID_VM_SCAN && *at < end; *at += vm->page_bytes, ++*nr) {
		addresses[*nr] = *at;
		words[*nr] = vm_memory_core_word(vm, *at);
	}
}

int braid_vm_memory_scan(const struct braid_vm_memory *vm, u64 *at, u64 end, u64 *addresses,
			 u64 *words, size_t *nr)
{
	struct iovec local[BRAID_VM_WORDS], remote[BRAID_VM_WORDS];
	struct vm_pages pages;
	size_t k, n;
	int err;

	if (vm->core >= 0) {
		vm_memory_scan_core(vm, at, end, addresses, words, nr);
		return 0;
	}
	*nr = 0;
	err = vm_memory_load_pages(vm, &pages, *at / vm->page_bytes, (end - *at) / vm->page_bytes);
	*at = err ? end : (pages.first + pages.nr) * vm->page_bytes;
	for (k = 0; !err && k < pages.nr; k++)
		if (pages.entries[k] & PRESENT)
			addresses[(*nr)++] = (pages.first + k) * vm->page_bytes;
	memset(words, 0, *nr * sizeof(*words));
	for (k = 0; k < *nr && !err; k += n) {
		for (n = 0; n < BRAID_VM_WORDS && k + n < *nr; n++) {
			local[n] = (struct iovec){ &words[k + n], sizeof(*words) };
			remote[n] = (struct iovec){ (void *)addresses[k + n], sizeof(*words) };
		}
		err = vm_memory_read_words(vm, local, remote, n);
	}
	return err == -ENODATA ? 0 : err;
}
