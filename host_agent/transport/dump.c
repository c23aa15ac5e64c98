// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Reads dumps of a guest's memory through libkdumpfile. Those that were written as a stream, which
 * makedumpfile and QEMU call flattened, are put in order first.
 */
#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <libkdumpfile/kdumpfile.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/transport/dump.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"

/* Minimum size of a page in a dump: the page itself, or its descriptor where it is packed. */
#define PAGE_TAKES	512u	/* at a segment's ends there may be an extent of it alone */
#define PACKED_TAKES	16u

struct braid_dump {
	int ordered_fd;		/* of a flattened one, in order; or -1 */
	kdump_ctx_t *ctx;
	kdump_bmp_t *there;	/* the pages that are, by number */
	u32 shift;		/* of a page of the dump */
	u64 end_address;
	u64 pages_left;		/* pages to visit: at most as many as a file of its size can hold */
};

/* Flattened dumps ------------------------------------------------------------------------ */

/*
 * A header of 4096 bytes, then extents: u64 offset, u64 bytes, both big endian, then the bytes.
 * An offset of ~0 ends it.
 */
#define SIGNATURE	"makedumpfile"
#define HEADER_BYTES	4096u
#define TYPE		1u
#define VERSION		1u
#define COPY_BYTES	(1u << 20)

struct flat_header {
	char signature[16];
	u64 type;
	u64 version;
};

struct flat_extent {
	u64 offset;
	u64 bytes;
};

static bool is_flattened(int fd)
{
	struct flat_header header;

	return braid_pread_all(fd, &header, sizeof(header), 0) == sizeof(header) &&
	       !strncmp(header.signature, SIGNATURE, sizeof(header.signature)) &&
	       be64toh(header.type) == TYPE && be64toh(header.version) == VERSION;
}

static int make_file(const char *folder, const char *path)
{
	int fd = open(folder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);

	return fd < 0 ? braid_fail(-errno, "%s: flattened dump; cannot create a file in %s to reorder it: %s",
				   path, folder, strerror(errno)) : fd;
}

/* Copies an extent. Returns 0, 1 when some of it is missing, or -errno with braid_fail(). */
static int copy_extent(int from, int to, u64 at, const struct flat_extent *extent, u8 *buffer,
		       const char *path)
{
	u64 done, n;
	ssize_t got;
	int err;

	if (lseek(to, extent->offset, SEEK_SET) < 0)
		return braid_fail(-EBADMSG, "%s: a flattened dump with an invalid offset", path);
	for (done = 0; done < extent->bytes; done += n) {
		n = extent->bytes - done < COPY_BYTES ? extent->bytes - done : COPY_BYTES;
		got = braid_pread_all(from, buffer, n, at + done);
		if (got < 0)
			return braid_fail(got, "%s: cannot be read: %s", path, strerror(-got));
		err = braid_write_all(to, buffer, got);
		if (err)
			return braid_fail(err, "%s: flattened dump; cannot reorder it: %s; use `makedumpfile -R`",
					  path, strerror(-err));
		if ((u64)got < n)
			return 1;	/* use the part that exists */
	}
	return 0;
}

/* The file that it makes has no name. Return: a descriptor; or -errno with braid_fail(). */
static int unflatten(int fd, const char *folder, const char *path, bool *cut_off)
{
	braid_auto_free u8 *buffer = malloc(COPY_BYTES);
	struct flat_extent extent;
	u64 at = HEADER_BYTES;
	int err = 0, to;

	if (!buffer)
		return braid_fail(-ENOMEM, "%s: out of memory", path);
	to = make_file(folder, path);
	if (to < 0)
		return to;
	*cut_off = true;
	while (!err && braid_pread_all(fd, &extent, sizeof(extent), at) == sizeof(extent)) {
		extent.offset = be64toh(extent.offset);
		extent.bytes = be64toh(extent.bytes);
		at += sizeof(extent);
		*cut_off = extent.offset != ~0ULL;
		if (!*cut_off || at + extent.bytes < at)
			break;
		err = copy_extent(fd, to, at, &extent, buffer, path);
		at += extent.bytes;
	}
	if (err < 0) {
		close(to);
		return err;
	}
	return to;
}

/* Opening -------------------------------------------------------------------------------- */

/* Whether an ELF dump lacks its end; the missing part reads as zeros. */
static bool lacks_end(int fd)
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

int braid_dump_begin(struct braid_dump **out, int fd, const char *folder, const char *path,
		     bool *cut_off)
{
	struct braid_dump *d = calloc(1, sizeof(*d));
	int err;

	if (!d)
		return braid_fail(-ENOMEM, "%s: out of memory", path);
	d->ordered_fd = -1;
	*cut_off = lacks_end(fd);
	if (is_flattened(fd))
		fd = d->ordered_fd = unflatten(fd, folder, path, cut_off);
	d->ctx = kdump_new();
	if (fd < 0)
		err = fd;
	else if (d->ctx)
		err = open_dump(d, fd, path);
	else
		err = braid_fail(-ENOMEM, "%s: out of memory", path);
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
	if (d->ordered_fd >= 0)
		close(d->ordered_fd);
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
