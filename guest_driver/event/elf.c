// SPDX-License-Identifier: GPL-2.0
/*
 * Finds a symbol in an ELF file. The file may be anything: each offset and count in it is bounded,
 * and what is read is copied first.
 */
#include <linux/cred.h>
#include <linux/elf.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/overflow.h>
#include <linux/slab.h>

#include "guest_driver/event/probe_private.h"

#define MOST_HEADERS	4096u
#define MOST_SYMBOLS	(1u << 18)	/* of all tables */
#define SYMBOLS		128u		/* read at a time */

struct elf_file {
	struct file *file;
	Elf64_Ehdr head;
	const char *symbol;
	u32 left;			/* symbols that may still be read */
	Elf64_Sym symbols[SYMBOLS];
	char name[BRAID_PROBE_TARGET];
};

static int braid_elf_read(struct elf_file *elf, void *to, size_t bytes, u64 offset)
{
	loff_t at = offset;
	ssize_t n;

	if (offset > LLONG_MAX - bytes)
		return -ENOEXEC;
	n = kernel_read(elf->file, to, bytes, &at);
	return n < 0 ? n : (size_t)n == bytes ? 0 : -ENOEXEC;
}

/* The file's offset of an address of code. */
static int braid_elf_place(struct elf_file *elf, u64 address, u64 *offset)
{
	Elf64_Phdr segment;
	u32 k;
	int err;

	for (k = 0; k < elf->head.e_phnum; k++) {
		err = braid_elf_read(elf, &segment, sizeof(segment),
				     elf->head.e_phoff + k * sizeof(segment));
		if (err)
			return err;
		if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X) ||
		    address < segment.p_vaddr || address - segment.p_vaddr >= segment.p_filesz)
			continue;
		*offset = address - segment.p_vaddr + segment.p_offset;
		return 0;
	}
	return -ENOENT;
}

/* Return: 1: it is this one; 0: not; or -errno. */
static int braid_elf_is(struct elf_file *elf, const Elf64_Shdr *names, const Elf64_Sym *symbol)
{
	size_t bytes = strlen(elf->symbol) + 1;
	int err;

	if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_shndx == SHN_UNDEF ||
	    symbol->st_name > names->sh_size || bytes > names->sh_size - symbol->st_name)
		return 0;
	err = braid_elf_read(elf, elf->name, bytes, names->sh_offset + symbol->st_name);
	return err ? err : !memcmp(elf->name, elf->symbol, bytes);
}

/* Return: 0, -ENOENT or another error. */
static int braid_elf_search(struct elf_file *elf, const Elf64_Shdr *table,
			    const Elf64_Shdr *names, u64 *offset)
{
	u64 nr = min_t(u64, table->sh_size / sizeof(Elf64_Sym), elf->left), k;
	u32 n, i;
	int err;

	elf->left -= nr;
	for (k = 0; k < nr; k += n) {
		n = min_t(u64, nr - k, SYMBOLS);
		err = braid_elf_read(elf, elf->symbols, n * sizeof(Elf64_Sym),
				     table->sh_offset + k * sizeof(Elf64_Sym));
		for (i = 0; !err && i < n; i++) {
			err = braid_elf_is(elf, names, &elf->symbols[i]);
			if (err > 0)
				return braid_elf_place(elf, elf->symbols[i].st_value, offset);
		}
		if (err)
			return err;
		cond_resched();
	}
	return nr < table->sh_size / sizeof(Elf64_Sym) ? -EFBIG : -ENOENT;
}

static int braid_elf_section(struct elf_file *elf, u32 at, Elf64_Shdr *section)
{
	return at < elf->head.e_shnum ?
	       braid_elf_read(elf, section, sizeof(*section),
			      elf->head.e_shoff + at * sizeof(*section)) : -ENOEXEC;
}

static int braid_elf_search_all(struct elf_file *elf, u64 *offset)
{
	Elf64_Shdr table, names;
	int err = -ENOENT;
	u32 k;

	for (k = 0; k < elf->head.e_shnum && err == -ENOENT; k++) {
		err = braid_elf_section(elf, k, &table);
		if (err)
			return err;
		err = -ENOENT;
		if (table.sh_type != SHT_SYMTAB && table.sh_type != SHT_DYNSYM)
			continue;
		err = braid_elf_section(elf, table.sh_link, &names);
		if (!err)
			err = braid_elf_search(elf, &table, &names, offset);
	}
	return err;
}

int braid_elf_find(const struct path *path, const char *symbol, u64 *offset)
{
	struct elf_file *elf = kmalloc(sizeof(*elf), GFP_KERNEL);
	const Elf64_Ehdr *head = &elf->head;
	int err;

	if (!elf)
		return -ENOMEM;
	elf->symbol = symbol;
	elf->left = MOST_SYMBOLS;
	elf->file = dentry_open(path, O_RDONLY | O_LARGEFILE, current_cred());
	if (IS_ERR(elf->file)) {
		err = PTR_ERR(elf->file);
		kfree(elf);
		return err;
	}
	err = braid_elf_read(elf, &elf->head, sizeof(elf->head), 0);
	if (!err && (memcmp(head->e_ident, ELFMAG, SELFMAG) ||
		     head->e_ident[EI_CLASS] != ELFCLASS64 ||
		     head->e_shentsize != sizeof(Elf64_Shdr) ||
		     head->e_phentsize != sizeof(Elf64_Phdr) || head->e_shnum > MOST_HEADERS ||
		     head->e_phnum > MOST_HEADERS || head->e_shoff > LLONG_MAX / 2 ||
		     head->e_phoff > LLONG_MAX / 2))
		err = -ENOEXEC;
	if (!err)
		err = braid_elf_search_all(elf, offset);
	fput(elf->file);
	kfree(elf);
	return err;
}
