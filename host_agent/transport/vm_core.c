// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds the memory of a process in its core file. */
#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "host_agent/transport/vm_core.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"
#include "tracebraid/abi.h"

#define MOST_NOTES	65536u
#define END		(1ULL << 63)	/* no process has memory beyond it */

static bool vm_core_read_head(int fd, Elf64_Ehdr *head)
{
	return braid_pread_all(fd, head, sizeof(*head), 0) == sizeof(*head) &&
	       !memcmp(head->e_ident, ELFMAG, SELFMAG) &&
	       head->e_ident[EI_CLASS] == ELFCLASS64 && head->e_ident[EI_DATA] == ELFDATA2LSB &&
	       head->e_type == ET_CORE && head->e_phentsize == sizeof(Elf64_Phdr);
}

static bool vm_core_read_part(int fd, const Elf64_Ehdr *head, u32 k, Elf64_Phdr *part)
{
	return braid_pread_all(fd, part, sizeof(*part), head->e_phoff + k * sizeof(*part)) ==
	       sizeof(*part);
}

/* Whether notes have that of the auxiliary vector. @budget: how many may be looked at */
static bool vm_core_has_vector(int fd, const Elf64_Phdr *notes, u32 *budget)
{
	u64 at = 0, bytes;
	Elf64_Nhdr note;

	for (; at < notes->p_filesz && *budget; at += bytes, --*budget) {
		if (braid_pread_all(fd, &note, sizeof(note), notes->p_offset + at) != sizeof(note))
			return false;
		if (note.n_type == NT_AUXV && note.n_namesz == sizeof("CORE"))
			return true;
		bytes = sizeof(note) + (((u64)note.n_namesz + 3) & ~3ULL) +
			(((u64)note.n_descsz + 3) & ~3ULL);
	}
	return false;
}

bool braid_vm_core_is(int fd)
{
	u32 budget = MOST_NOTES, k;
	Elf64_Ehdr head;
	Elf64_Phdr part;

	if (!vm_core_read_head(fd, &head))
		return false;
	for (k = 0; k < head.e_phnum && vm_core_read_part(fd, &head, k, &part); k++)
		if (part.p_type == PT_NOTE && vm_core_has_vector(fd, &part, &budget))
			return true;
	return false;
}

/* Adds what the file has of it. @left: bytes that the file has room for */
static int vm_core_add(struct braid_vm_memory *vm, size_t *capacity, const Elf64_Phdr *part,
		       const struct stat *st, u64 *left, bool *cut_off)
{
	const u64 size = st->st_size;
	struct braid_vm_mapping mapping = {
		.start = part->p_vaddr, .offset = part->p_offset, .device = st->st_dev,
		.inode = st->st_ino,
	};
	u64 bytes = part->p_filesz, there = part->p_offset < size ? size - part->p_offset : 0;

	if (part->p_type != PT_LOAD || (part->p_flags & (PF_R | PF_W)) != (PF_R | PF_W))
		return 0;
	*cut_off |= bytes > there;
	bytes = bytes < there ? bytes : there;
	bytes = bytes < *left ? bytes : *left;
	if (!bytes || mapping.start >= END || bytes > END - mapping.start)
		return 0;
	*left -= bytes;
	mapping.end = mapping.start + bytes;
	return braid_vm_memory_add(vm, capacity, &mapping);
}

int braid_vm_core_open(struct braid_vm_memory *out, int fd, bool *cut_off)
{
	struct braid_vm_memory vm = {
		.core = fd, .pidfd = -1, .pagemap = -1, .page_bytes = BRAID_PAGE_BYTES,
	};
	size_t capacity = 0;
	Elf64_Ehdr head;
	Elf64_Phdr part;
	struct stat st;
	int err = 0;
	u64 left;
	u32 k;

	if (fstat(fd, &st) || !vm_core_read_head(fd, &head))
		return braid_fail(-EIO, "a core file cannot be read");
	*cut_off = false;
	left = st.st_size;
	for (k = 0; k < head.e_phnum && !err; k++) {
		if (vm_core_read_part(fd, &head, k, &part))
			err = vm_core_add(&vm, &capacity, &part, &st, &left, cut_off);
		else
			*cut_off = true;
	}
	if (err)
		braid_vm_memory_close(&vm);
	else
		*out = vm;
	return err;
}
