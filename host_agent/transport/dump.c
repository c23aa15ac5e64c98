// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads dumps of a guest's memory through libkdumpfile. */
#include <elf.h>
#include <errno.h>
#include <libkdumpfile/kdumpfile.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host_agent/transport/dump.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"

/* Minimum size of a page in a dump: the page itself, or its descriptor where it is packed. */
#define PAGE_TAKES	512u	/* at a segment's ends there may be an extent of it alone */
#define PACKED_TAKES	16u

struct braid_dump {
	kdump_ctx_t *ctx;
	kdump_bmp_t *there;	/* the pages that are, by number */
	u32 shift;		/* of a page of the dump */
	u64 end_address;
	u64 pages_left;		/* pages to visit: at most as many as a file of its size can hold */
};

static int fail_begin(const struct braid_dump *d, const char *path, const char *what)
{
	return braid_fail(-EMEDIUMTYPE, "%s: not a tracebraid region or a supported memory dump (%s: %s); `virsh dump --memory-only` makes one, `makedumpfile -R` restores a flattened one",
			  path, what, kdump_get_err(d->ctx));
}

static int open_dump(struct braid_dump *d, int fd, const char *path)
{
	kdump_attr_t there = { .type = KDUMP_BITMAP };
	kdump_num_t number;
	const char *format;
	struct stat st;
	u32 takes;

	if (fstat(fd, &st))
		return braid_fail(-errno, "%s: %s", path, strerror(errno));

	/* Mapping a truncated file, or one being truncated, would cause SIGBUS. */
	if (kdump_set_number_attr(d->ctx, KDUMP_ATTR_FILE_MMAP_POLICY,
				  KDUMP_MMAP_NEVER) != KDUMP_OK)
		return fail_begin(d, path, "mapping");
	if (kdump_open_fd(d->ctx, fd) != KDUMP_OK)
		return fail_begin(d, path, "format");
	/* An ELF dump of arm64 lacks it. Its segments are bytes, so any size serves. */
	if (kdump_get_number_attr(d->ctx, KDUMP_ATTR_PAGE_SHIFT, &number) == KDUMP_ERR_NODATA)
		kdump_set_number_attr(d->ctx, KDUMP_ATTR_PAGE_SIZE, BRAID_PAGE_BYTES);
	if (kdump_get_number_attr(d->ctx, KDUMP_ATTR_PAGE_SHIFT, &number) != KDUMP_OK)
		return fail_begin(d, path, "size of a page");
	if (number < 12 || number > 16)
		return braid_fail(-EMEDIUMTYPE, "%s: a dump with an invalid page size", path);
	d->shift = number;
	if (kdump_get_string_attr(d->ctx, KDUMP_ATTR_FILE_FORMAT, &format) != KDUMP_OK)
		return fail_begin(d, path, "format");
	takes = strcmp(format, "elf") ? PACKED_TAKES : PAGE_TAKES;
	d->pages_left = (u64)st.st_size / takes << (d->shift - 12);
	if (kdump_get_typed_attr(d->ctx, KDUMP_ATTR_FILE_PAGEMAP, &there) != KDUMP_OK)
		return fail_begin(d, path, "pages");
	d->there = there.val.bitmap;
	kdump_bmp_incref(d->there);
	if (kdump_get_number_attr(d->ctx, "max_pfn", &number) == KDUMP_OK)
		d->end_address = number << d->shift;
	return 0;
}

int braid_dump_begin(struct braid_dump **out, int fd, const char *path)
{
	struct braid_dump *d = calloc(1, sizeof(*d));
	int err = -ENOMEM;

	if (d)
		d->ctx = kdump_new();
	if (d && d->ctx)
		err = open_dump(d, fd, path);
	else
		braid_fail(err, "%s: out of memory", path);
	if (err) {
		braid_dump_end(d);
		return err;
	}
	*out = d;
	return 0;
}

void braid_dump_end(struct braid_dump *d)
{
	if (!d)
		return;
	if (d->there)
		kdump_bmp_decref(d->there);
	if (d->ctx)
		kdump_free(d->ctx);
	free(d);
}

static bool read_page(struct braid_dump *d, u64 address, void *to, size_t bytes)
{
	size_t n = bytes;

	return kdump_read(d->ctx, KDUMP_MACHPHYSADDR, address, to, &n) == KDUMP_OK && n == bytes;
}

bool braid_dump_next(struct braid_dump *d, u64 *address, void *page)
{
	kdump_addr_t number = *address >> d->shift;

	/* A head may claim all there can be, or the same bytes a thousand times. */
	while (d->pages_left) {
		d->pages_left--;
		if (kdump_bmp_find_set(d->there, &number) != KDUMP_OK || number > ~0ULL >> d->shift)
			return false;
		if (*address >> d->shift < number)
			*address = number << d->shift;
		if (read_page(d, *address, page, BRAID_PAGE_BYTES))
			return true;
		*address = ++number << d->shift;
	}
	return false;
}

bool braid_dump_claims_more(const struct braid_dump *d)
{
	return !d->pages_left;
}

u64 braid_dump_read(struct braid_dump *d, u64 address, void *to, u64 bytes)
{
	u64 missing = 0, done, extent;

	for (done = 0; done < bytes; done += extent) {
		extent = BRAID_PAGE_BYTES - ((address + done) & (BRAID_PAGE_BYTES - 1));
		if (extent > bytes - done)
			extent = bytes - done;
		missing += !read_page(d, address + done, (u8 *)to + done, extent);
	}
	return missing;
}

u64 braid_dump_end_address(const struct braid_dump *d)
{
	return d->end_address;
}

bool braid_dump_cut_off(int fd)
{
	struct stat st;
	Elf64_Phdr part;
	Elf64_Ehdr head;
	u32 k;

	if (fstat(fd, &st) || braid_pread_all(fd, &head, sizeof(head), 0) != sizeof(head) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) || head.e_ident[EI_CLASS] != ELFCLASS64)
		return false;
	for (k = 0; k < head.e_phnum; k++) {
		if (braid_pread_all(fd, &part, sizeof(part), head.e_phoff + k * sizeof(part)) !=
		    sizeof(part))
			return true;
		if (part.p_offset + part.p_filesz > (u64)st.st_size)
			return true;
	}
	return false;
}
