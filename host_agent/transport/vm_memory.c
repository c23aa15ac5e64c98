// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads pages of another process that are present. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host_agent/transport/vm_memory.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"

#define PRESENT		(1ULL << 63)
#define MOST_MAPPINGS	65536u
#define ENTRIES		512u		/* of pagemap, at a time */

/* Mappings that continue one another: QEMU's advice for a part splits one. */
static bool vm_memory_continues(const struct braid_vm_mapping *a, const struct braid_vm_mapping *b)
{
	return a->end == b->start && a->inode == b->inode && a->device == b->device &&
	       (!a->inode || a->offset + (a->end - a->start) == b->offset);
}

static int vm_memory_add(struct braid_vm_memory *vm, size_t *capacity,
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
			err = vm_memory_add(vm, &capacity, &mapping);
	return err;
}

static int vm_memory_refused(const char *path)
{
	int err = -errno;

	return braid_fail(err, "%s: %s%s", path, strerror(-err), err == -EACCES || err == -EPERM ?
			  "; reading a VMM's memory takes its user, or root" : "");
}

int braid_vm_memory_open(struct braid_vm_memory *out, pid_t pid)
{
	struct braid_vm_memory vm = { .pid = pid, .page_bytes = sysconf(_SC_PAGESIZE) };
	braid_auto_file FILE *maps = NULL;
	char path[40];
	int err;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	if (!maps)
		return vm_memory_refused(path);
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pid);
	vm.pagemap = open(path, O_RDONLY | O_CLOEXEC);
	if (vm.pagemap < 0)
		return vm_memory_refused(path);
	err = vm_memory_read_maps(&vm, maps);
	if (err) {
		braid_vm_memory_close(&vm);
		return err;
	}
	*out = vm;
	return 0;
}

void braid_vm_memory_close(struct braid_vm_memory *vm)
{
	close(vm->pagemap);
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

bool braid_vm_memory_present(const struct braid_vm_memory *vm, u64 address, u64 bytes)
{
	u64 first = address / vm->page_bytes, left, entries[ENTRIES], k, n;

	if (!bytes || address + bytes - 1 < address)
		return false;
	left = (address + bytes - 1) / vm->page_bytes - first + 1;
	for (; left; left -= n, first += n) {
		n = left < ENTRIES ? left : ENTRIES;
		if (pread(vm->pagemap, entries, n * sizeof(*entries), first * sizeof(*entries)) !=
		    (ssize_t)(n * sizeof(*entries)))
			return false;
		for (k = 0; k < n; k++)
			if (!(entries[k] & PRESENT))
				return false;
	}
	return true;
}

int braid_vm_memory_read(const struct braid_vm_memory *vm, u64 address, void *to, size_t bytes)
{
	struct iovec local = { to, bytes }, remote = { (void *)address, bytes };
	ssize_t got;

	if (!braid_vm_memory_present(vm, address, bytes))
		return -ENODATA;
	got = process_vm_readv(vm->pid, &local, 1, &remote, 1, 0);
	if (got < 0)
		return -errno;
	return (size_t)got == bytes ? 0 : -EFAULT;
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

static int vm_memory_read_vector(const struct braid_vm_memory *vm,
				 const struct braid_vm_part *parts, size_t nr)
{
	struct iovec local[BRAID_VM_WORDS], remote[BRAID_VM_WORDS];
	size_t nr_local = 0, nr_remote = 0, bytes = 0, k;
	ssize_t got;

	for (k = 0; k < nr; k++) {
		nr_local = vm_memory_append(local, nr_local, parts[k].to, parts[k].bytes);
		nr_remote = vm_memory_append(remote, nr_remote, (void *)parts[k].address,
					     parts[k].bytes);
		bytes += parts[k].bytes;
	}
	for (k = 0; k < nr_remote; k++)
		if (!braid_vm_memory_present(vm, (u64)remote[k].iov_base, remote[k].iov_len))
			return -ENODATA;
	got = process_vm_readv(vm->pid, local, nr_local, remote, nr_remote, 0);
	if (got < 0)
		return -errno;
	return (size_t)got == bytes ? 0 : -EFAULT;
}

int braid_vm_memory_parts(const struct braid_vm_memory *vm, const struct braid_vm_part *parts,
			  size_t nr)
{
	size_t done, n;
	int err = 0;

	for (done = 0; done < nr && !err; done += n) {
		n = nr - done < BRAID_VM_WORDS ? nr - done : BRAID_VM_WORDS;
		err = vm_memory_read_vector(vm, parts + done, n);
	}
	return err;
}

void braid_vm_memory_words(const struct braid_vm_memory *vm, const u64 *addresses, u64 *words,
			   size_t nr)
{
	struct iovec local[BRAID_VM_WORDS], remote[BRAID_VM_WORDS];
	size_t k, n = 0, done = 0;
	ssize_t got;

	for (k = 0; k < nr; k++) {
		words[k] = 0;
		if (!braid_vm_memory_present(vm, addresses[k], sizeof(*words)))
			continue;
		local[n] = (struct iovec){ &words[k], sizeof(*words) };
		remote[n++] = (struct iovec){ (void *)addresses[k], sizeof(*words) };
	}
	/* A place that has gone meanwhile ends a call; the rest follows in the next. */
	while (done < n) {
		got = process_vm_readv(vm->pid, local + done, n - done, remote + done, n - done, 0);
		done += got > 0 ? got / sizeof(*words) : 1;
	}
}
