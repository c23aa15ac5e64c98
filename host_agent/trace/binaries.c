// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads symbols of ELF files, by libelf. */
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/trace/binaries.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

#define MOST_PARTS	64u
#define MOST_KALLSYMS	(64u << 20)

struct function {
	u64 start, end;		/* addresses */
	char *name;
};

struct binary {
	struct braid_binary_name name;	/* its path is our copy */
	struct part {
		u64 from, to;		/* in the file */
		u64 address;		/* of from */
	} parts[MOST_PARTS];
	u32 nr_parts;
	struct function *functions;
	size_t nr, capacity;
};

struct braid_binaries {
	int folder;
	struct binary *all;
	size_t nr, capacity;
};

int braid_binaries_open(struct braid_binaries **out, const char *folder)
{
	struct braid_binaries *b = calloc(1, sizeof(*b));

	if (!b)
		return braid_out_of_memory();
	if (elf_version(EV_CURRENT) == EV_NONE) {
		free(b);
		return braid_fail(-ENOSYS, "libelf is older than its header");
	}
	b->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (b->folder < 0) {
		int err = braid_fail(-errno, "%s: %s", folder, strerror(errno));

		free(b);
		return err;
	}
	*out = b;
	return 0;
}

/* Files ------------------------------------------------------------------------------------ */

static bool binaries_has_id(Elf *elf, const struct braid_binary_name *name)
{
	size_t nr = 0, k, at, desc, text;
	GElf_Nhdr note;

	if (elf_getphdrnum(elf, &nr))
		return false;
	for (k = 0; k < nr; k++) {
		GElf_Phdr part;
		Elf_Data *data;

		if (!gelf_getphdr(elf, k, &part) || part.p_type != PT_NOTE)
			continue;
		data = elf_getdata_rawchunk(elf, part.p_offset, part.p_filesz, ELF_T_NHDR);
		for (at = 0; data && (at = gelf_getnote(data, at, &note, &text, &desc)) > 0;)
			if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof("GNU") &&
			    !memcmp((char *)data->d_buf + text, "GNU", sizeof("GNU")))
				return note.n_descsz >= name->id_bytes &&
				       !memcmp((char *)data->d_buf + desc, name->id,
					       name->id_bytes);
	}
	return false;
}

static void binaries_read_parts(struct binary *one, Elf *elf)
{
	size_t nr = 0, k;
	GElf_Phdr part;

	one->nr_parts = 0;
	if (elf_getphdrnum(elf, &nr))
		return;
	for (k = 0; k < nr && one->nr_parts < MOST_PARTS; k++)
		if (gelf_getphdr(elf, k, &part) && part.p_type == PT_LOAD)
			one->parts[one->nr_parts++] = (struct part){
				.from = part.p_offset, .to = part.p_offset + part.p_filesz,
				.address = part.p_vaddr,
			};
}

static int binaries_add(struct binary *one, const GElf_Sym *symbol, const char *text)
{
	struct function f = {
		.start = symbol->st_value, .end = symbol->st_value + symbol->st_size,
	};

	if (GELF_ST_TYPE(symbol->st_info) != STT_FUNC || !symbol->st_shndx || !text || !*text)
		return 0;
	f.name = strdup(text);
	if (!f.name)
		return -ENOMEM;
	braid_text_clean(f.name);
	if (!braid_array_push(one->functions, one->nr, one->capacity, f))
		return 0;
	free(f.name);
	return -ENOMEM;
}

static int binaries_read_table(struct binary *one, Elf *elf, Elf_Scn *section,
			       const GElf_Shdr *head)
{
	Elf_Data *data = elf_getdata(section, NULL);
	size_t nr = data && head->sh_entsize ? data->d_size / head->sh_entsize : 0, k;
	GElf_Sym symbol;
	int err = 0;

	for (k = 0; k < nr && k <= INT_MAX && !err; k++)
		if (gelf_getsym(data, k, &symbol))
			err = binaries_add(one, &symbol,
					   elf_strptr(elf, head->sh_link, symbol.st_name));
	return err;
}

/* Of .symtab, or else of .dynsym. Return: 0 or -ENOMEM. */
static int binaries_read_functions(struct binary *one, Elf *elf)
{
	static const u32 kinds[] = { SHT_SYMTAB, SHT_DYNSYM };
	Elf_Scn *section;
	GElf_Shdr head;
	int err = 0;
	size_t k;

	for (k = 0; k < sizeof(kinds) / sizeof(*kinds) && !one->nr && !err; k++)
		for (section = NULL; !err && (section = elf_nextscn(elf, section));)
			if (gelf_getshdr(section, &head) && head.sh_type == kinds[k])
				err = binaries_read_table(one, elf, section, &head);
	return err;
}

/* Return: 0, also if the file has nothing; or -ENOMEM. */
static int binaries_try(struct braid_binaries *b, struct binary *one, const char *path)
{
	braid_auto_fd int fd = openat(b->folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	int err = 0;
	Elf *elf;

	if (one->nr || fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return 0;
	elf = elf_begin(fd, ELF_C_READ, NULL);
	if (elf && elf_kind(elf) == ELF_K_ELF &&
	    (!one->name.id_bytes || binaries_has_id(elf, &one->name))) {
		if (!one->nr_parts)
			binaries_read_parts(one, elf);
		err = binaries_read_functions(one, elf);
	}
	elf_end(elf);
	return err;
}

static int binaries_by_start(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	return braid_compare(x->start, y->start) ?: braid_compare(x->end, y->end) ?:
	       strcmp(x->name, y->name);
}

/* Symbols without a size end at the next one. */
static void binaries_sort(struct binary *one)
{
	size_t k;

	if (one->nr)
		qsort(one->functions, one->nr, sizeof(*one->functions), binaries_by_start);
	for (k = 0; k + 1 < one->nr; k++)
		if (one->functions[k].end == one->functions[k].start)
			one->functions[k].end = one->functions[k + 1].start;
}

/* Those with debugging symbols first. */
static int binaries_read(struct braid_binaries *b, struct binary *one)
{
	static const char *const by_id[] = {
		"usr/lib/debug/.build-id/%.2s/%s.debug", ".build-id/%.2s/%s.debug",
		"%.2s%s/debuginfo", "%.2s%s/executable",
	};
	char hex[2 * BRAID_BUILD_ID_BYTES + 1] = "", path[PATH_MAX];
	const char *inside = one->name.path + strspn(one->name.path, "/");
	int err = 0;
	size_t k;

	for (k = 0; k < one->name.id_bytes; k++)
		sprintf(hex + 2 * k, "%02x", one->name.id[k]);
	for (k = 0; k < sizeof(by_id) / sizeof(*by_id) && *hex && !err; k++) {
		snprintf(path, sizeof(path), by_id[k], hex, hex + 2);
		err = binaries_try(b, one, path);
	}
	/* Of a guest: no path may leave the folder. */
	if (!err && *inside && !strstr(inside, ".."))
		err = binaries_try(b, one, inside);
	if (!err && strrchr(inside, '/'))
		err = binaries_try(b, one, strrchr(inside, '/') + 1);
	binaries_sort(one);
	return err;
}

/* Asking ----------------------------------------------------------------------------------- */

int braid_binaries_get(struct braid_binaries *b, const struct braid_binary_name *name)
{
	struct binary one = { .name = *name };
	size_t k;

	for (k = 0; k < b->nr; k++)
		if (!strcmp(b->all[k].name.path, name->path) &&
		    b->all[k].name.id_bytes == name->id_bytes &&
		    !memcmp(b->all[k].name.id, name->id, name->id_bytes))
			return k;
	one.name.path = strdup(name->path);
	if (!one.name.path)
		return -ENOMEM;
	if (braid_array_push(b->all, b->nr, b->capacity, one)) {
		free((char *)one.name.path);
		return -ENOMEM;
	}
	k = b->nr - 1;
	return binaries_read(b, &b->all[k]) ?: (int)k;
}

const char *braid_binaries_find(const struct braid_binaries *b, int number, u64 offset, u64 *start)
{
	const struct binary *one = &b->all[number];
	const struct part *part = one->parts;
	size_t after;
	u64 address;

	while (part < one->parts + one->nr_parts && (offset < part->from || offset >= part->to))
		part++;
	if (part == one->parts + one->nr_parts)
		return NULL;
	address = offset - part->from + part->address;
	braid_array_first(after, one->nr, one->functions[after].start > address);
	if (!after || address >= one->functions[after - 1].end)
		return NULL;
	*start = one->functions[after - 1].start;
	return one->functions[after - 1].name;
}

/* Return: 0, also if there is no such file; or -errno with braid_fail(). */
static int binaries_read_text(const struct braid_binaries *b, const char *path, char **text)
{
	braid_auto_fd int fd = openat(b->folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	braid_auto_free char *all = NULL;
	struct stat st;
	size_t bytes;

	if (fd < 0)
		return errno == ENOENT ? 0 : braid_fail(-errno, "%s: %s", path, strerror(errno));
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return braid_fail(-EINVAL, "%s: not a regular file", path);
	if (st.st_size > MOST_KALLSYMS)
		return braid_fail(-EFBIG, "%s: more than %u MiB", path, MOST_KALLSYMS >> 20);
	bytes = st.st_size;
	all = malloc(bytes + 1);
	if (!all)
		return braid_out_of_memory();
	if (pread(fd, all, bytes, 0) != (ssize_t)bytes)
		return braid_fail(-EIO, "%s: cannot be read", path);
	all[bytes] = 0;
	*text = braid_take(all);
	return 0;
}

int braid_binaries_kallsyms(const struct braid_binaries *b, const char *guest, char **text)
{
	char path[NAME_MAX + 1];
	int n = snprintf(path, sizeof(path), "%s.kallsyms", guest), err = 0;

	*text = NULL;
	if (n < (int)sizeof(path) && !strchr(guest, '/'))
		err = binaries_read_text(b, path, text);
	return err || *text ? err : binaries_read_text(b, "kallsyms", text);
}

void braid_binaries_free(struct braid_binaries *b)
{
	size_t k, f;

	if (!b)
		return;
	for (k = 0; k < b->nr; k++) {
		for (f = 0; f < b->all[k].nr; f++)
			free(b->all[k].functions[f].name);
		free(b->all[k].functions);
		free((char *)b->all[k].name.path);
	}
	free(b->all);
	close(b->folder);
	free(b);
}
