// SPDX-License-Identifier: GPL-2.0-or-later
/* Recovers events of fake guests from their regions' files, truncated copies, and dumps. */
#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "tests/unit/check.h"
#include "tests/unit/fake_guest.h"
#include "tests/unit/need.h"
#include "tests/unit/recovery.h"
#include "tests/unit/scratch.h"
#include "tests/unit/session.h"
#include "tracebraid/virtio.h"

#define PAGE		BRAID_PAGE_BYTES
#define BASE		0x100000ULL	/* where the dump's memory begins */
#define DUMP_PAGES	2048u

static char *dir, *region_path, *capture_path, *dump_path, *first_path;

static const struct fake_params usual = {
	.name = "fake", .bytes = 1 << 20, .nr_vcpus = 2, .subbuf_bytes = 4096, .nr_slots = 16,
	.always = true,
};

static struct recovery recover(const char *path)
{
	return recovery_run(path, capture_path, dir);
}

static struct fake_guest *guest_with(u64 events, u64 more)
{
	struct fake_guest *g = fake_guest_new(region_path, &usual);

	fake_guest_write(g, 0, events);
	fake_guest_write(g, 1, more);
	return g;
}

/* Files --------------------------------------------------------------------------------- */

static void recovers_all_unread_events(void)
{
	struct fake_guest *g = guest_with(1000, 7);
	struct session s = { .guest = g };
	struct recovery r;

	session_begin(&s, region_path, first_path, NULL);
	session_settle(&s);
	session_end(&s);
	fake_guest_write(g, 0, 200);
	fake_guest_write(g, 1, 3);	/* they stay in the unfinished sub-buffer */
	r = recover(region_path);
	CHECK_EQ(r.err, 0);
	CHECK_EQ(r.events, 203);
	CHECK_EQ(r.status.sums.read, 203);
	CHECK_EQ(r.status.sums.read_before, 1007);
	CHECK_EQ(r.status.sums.left, 0);
	CHECK_EQ(r.faults, 0);
	fake_guest_free(g);
}

static void leaves_the_source_unchanged(void)
{
	struct fake_guest *g = guest_with(500, 20);
	u8 *before = malloc(usual.bytes), *after = malloc(usual.bytes);
	int fd = open(region_path, O_RDONLY), k;

	NEED(before && after && fd >= 0 && !chmod(region_path, 0400));
	NEED(pread(fd, before, usual.bytes, 0) == (ssize_t)usual.bytes);
	for (k = 0; k < 2; k++)
		CHECK_EQ(recover(region_path).events, 520);
	NEED(pread(fd, after, usual.bytes, 0) == (ssize_t)usual.bytes);
	CHECK(!memcmp(before, after, usual.bytes));
	close(fd);
	free(before);
	free(after);
	fake_guest_free(g);
}

/* A reader in the guest died with it, at any point. */
static void recovers_rings_held_in_the_guest(void)
{
	struct fake_guest *g = guest_with(100, 100);
	struct braid_ring_map map;

	fake_guest_ring(g, 0, 1, &map);
	CHECK(braid_reader_own(&map, BRAID_READER_GUEST, BRAID_READER_NONE));
	CHECK_EQ(recover(region_path).events, 200);
	fake_guest_free(g);
}

static void counts_events_missing_in_a_short_copy(void)
{
	struct fake_guest *g = guest_with(400, 400);
	u64 ring1 = braid_ring_offset(&g->sb.buffers[0], 1);
	u64 data1 = ring1 + g->sb.buffers[0].private_bytes + g->sb.buffers[0].meta_bytes;
	struct recovery r;

	/* Of the second ring all but its first pages and a sub-buffer and a half. */
	NEED(!ftruncate(g->fd, data1 + 6144));
	r = recover(region_path);
	CHECK_EQ(r.err, 0);
	CHECK_EQ(r.missing_pages,
		 (usual.bytes - data1 - 6144 + PAGE - 1) / PAGE);
	CHECK(r.status.sums.written > 600);	/* the last sub-buffer's events are unknown */
	CHECK(r.status.unreadable > 0 && r.status.unreadable < 400);
	CHECK_EQ(r.events, r.status.sums.read - r.status.unreadable);
	/* Of the second ring's first page too. */
	NEED(!ftruncate(g->fd, ring1));
	r = recover(region_path);
	CHECK_EQ(r.events, 400);
	fake_guest_free(g);
}

/* Runs the command on one or two sources, with its standard error. Return: its exit code. */
static int command(char *one, char *other, char *said, size_t room)
{
	char *argv[] = { "recover", "-o", capture_path, one, other, NULL };
	FILE *out = tmpfile();
	int before = dup(STDERR_FILENO), code;
	ssize_t n;

	NEED(out && before >= 0 && dup2(fileno(out), STDERR_FILENO) >= 0);
	code = braid_cmd_recover(other ? 5 : 4, argv);
	NEED(dup2(before, STDERR_FILENO) >= 0);
	n = pread(fileno(out), said, room - 1, 0);
	said[n > 0 ? n : 0] = 0;
	close(before);
	fclose(out);
	return code;
}

/* It cannot be copied yet: it is left out, unless it is the only one. */
static void leaves_out_what_is_busy(void)
{
	struct fake_guest *busy = fake_guest_new(first_path, &usual), *g = guest_with(200, 3);
	static char said[1 << 16];

	((struct braid_superblock *)busy->base)->state = BRAID_STATE_INIT;
	CHECK_EQ(command(first_path, region_path, said, sizeof(said)), 3);
	CHECK(strstr(said, "its driver is starting"));
	CHECK(strstr(said, "Recovered 203 events of 1 region to "));
	CHECK(strstr(said, "; 1 of 2 sources left out\n"));
	unlink(capture_path);
	CHECK_EQ(command(first_path, NULL, said, sizeof(said)), 1);
	CHECK(strstr(said, "its driver is starting"));
	CHECK(access(capture_path, F_OK));
	fake_guest_free(busy);
	fake_guest_free(g);
}

static void reports_invalid_regions(void)
{
	int fd = open(dump_path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	u64 magic = BRAID_MAGIC;

	NEED(fd >= 0);
	CHECK_EQ(recover(dump_path).err, -EMEDIUMTYPE);
	NEED(write(fd, "hello", 5) == 5);
	CHECK_EQ(recover(dump_path).err, -EMEDIUMTYPE);
	NEED(pwrite(fd, &magic, 8, 0) == 8);
	CHECK_EQ(recover(dump_path).err, -EPROTO);
	CHECK_EQ(recover("/nonexistent").err, -ENOENT);
	CHECK_EQ(recover(dir).err, -EMEDIUMTYPE);
	close(fd);
}

/* Dumps --------------------------------------------------------------------------------- */

/* A machine's memory that is dumped. */
struct memory {
	u8 *bytes;
	u32 next;		/* page */
};

static struct memory memory_new(void)
{
	struct memory m = { .bytes = calloc(DUMP_PAGES, PAGE), .next = 3 };

	NEED(m.bytes);
	return m;
}

static u64 place_bytes(struct memory *m, const void *from, u64 bytes)
{
	u64 at = (u64)m->next * PAGE;

	NEED(at + bytes <= (u64)DUMP_PAGES * PAGE);
	memcpy(m->bytes + at, from, bytes);
	m->next += (bytes + PAGE - 1) / PAGE + 1;	/* a hole after it */
	return BASE + at;
}

/* The region in chunks of growing size, the last ones first in memory. Returns how many. */
static u32 scatter(struct memory *m, const struct fake_guest *g, struct braid_virtio_chunk *chunks)
{
	u64 at = 0, bytes;
	u32 nr = 0;

	while (at < usual.bytes) {
		bytes = (nr % 7 + 1) * PAGE;
		bytes = bytes < usual.bytes - at ? bytes : usual.bytes - at;
		chunks[nr].bytes = bytes;
		at += bytes;
		nr++;
	}
	for (u32 k = nr; k--; ) {
		at -= chunks[k].bytes;
		chunks[k].address = place_bytes(m, g->base + at, chunks[k].bytes);
	}
	return nr;
}

/* The driver's announcement, 8 bytes before a page's end. */
static void announce(struct memory *m, const struct braid_virtio_chunk *chunks, u32 nr)
{
	struct braid_virtio_control control = { BRAID_VIRTIO_ANNOUNCE, nr };
	u8 *at = m->bytes + (u64)m->next * PAGE + PAGE - sizeof(control);

	memcpy(at, &control, sizeof(control));
	memcpy(at + sizeof(control), chunks, nr * sizeof(*chunks));
	m->next += 2 + nr * sizeof(*chunks) / PAGE;
}

/* As from QEMU: a note, and the memory in two parts. */
static void write_elf(const struct memory *m, u32 machine)
{
	u64 half = (u64)DUMP_PAGES * PAGE / 2, note_bytes = 4096;
	Elf64_Ehdr head = {
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_CORE, .e_machine = machine, .e_version = EV_CURRENT,
		.e_phoff = sizeof(head), .e_ehsize = sizeof(head),
		.e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 3,
	};
	Elf64_Phdr parts[3] = {
		{ .p_type = PT_NOTE, .p_offset = 4096, .p_filesz = note_bytes },
		{ .p_type = PT_LOAD, .p_offset = 8192, .p_paddr = BASE, .p_filesz = half,
		  .p_memsz = half },
		{ .p_type = PT_LOAD, .p_offset = 8192 + half, .p_paddr = BASE + half,
		  .p_filesz = half, .p_memsz = half },
	};
	Elf64_Nhdr note = {
		.n_namesz = 5, .n_descsz = machine == EM_X86_64 ? 336 : 392, .n_type = NT_PRSTATUS,
	};
	int fd = open(dump_path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	NEED(fd >= 0 && pwrite(fd, &head, sizeof(head), 0) == sizeof(head));
	NEED(pwrite(fd, parts, sizeof(parts), sizeof(head)) == sizeof(parts));
	NEED(pwrite(fd, &note, sizeof(note), 4096) == sizeof(note));
	NEED(pwrite(fd, "CORE", 5, 4096 + sizeof(note)) == 5);
	NEED(pwrite(fd, m->bytes, 2 * half, 8192) == (ssize_t)(2 * half));
	close(fd);
}

/* The dump as a stream of extents, the last ones first. @end: with its end mark. */
static void flatten(bool end)
{
	struct { char signature[16]; u64 type, version; } head = {
		"makedumpfile", htobe64(1), htobe64(1),
	};
	u64 extent[2], at, step = 300000, none = ~0ULL;
	u8 *copy;
	struct stat st;
	int fd = open(dump_path, O_RDWR);

	NEED(fd >= 0 && !fstat(fd, &st));
	copy = malloc(st.st_size);
	NEED(copy && pread(fd, copy, st.st_size, 0) == st.st_size);
	NEED(!ftruncate(fd, 0) && pwrite(fd, &head, sizeof(head), 0) == sizeof(head));
	NEED(lseek(fd, 4096, SEEK_SET) == 4096);
	for (at = (st.st_size - 1) / step * step; ; at -= step) {
		u64 n = st.st_size - at < step ? st.st_size - at : step;

		extent[0] = htobe64(at);
		extent[1] = htobe64(n);
		NEED(write(fd, extent, sizeof(extent)) == sizeof(extent));
		NEED(write(fd, copy + at, n) == (ssize_t)n);
		if (!at)
			break;
	}
	extent[0] = extent[1] = none;
	NEED(!end || write(fd, extent, sizeof(extent)) == sizeof(extent));
	free(copy);
	close(fd);
}

static void finds_regions_in_a_dump(void)
{
	struct fake_guest *g = guest_with(300, 44);
	struct braid_virtio_chunk chunks[1024], wrong[1024];
	struct memory m = memory_new();
	struct recovery r;
	u32 nr;

	place_bytes(&m, g->base, usual.bytes);		/* of an ivshmem device */
	nr = scatter(&m, g, chunks);
	memcpy(wrong, chunks, sizeof(wrong));
	wrong[nr - 1].address = chunks[nr - 2].address;
	wrong[nr - 2].address = chunks[nr - 1].address;
	wrong[4].address = BASE;	/* the one with the first ring's head */
	announce(&m, wrong, nr);	/* of a former device: freed, but still in memory */
	announce(&m, chunks, nr);
	announce(&m, chunks, nr - 1);
	write_elf(&m, EM_X86_64);
	r = recover(dump_path);
	CHECK_EQ(r.err, 0);
	CHECK_EQ(r.nr_regions, 2);
	CHECK_EQ(r.missing_pages, 0);
	CHECK_EQ(r.status.sums.read, 344);
	CHECK_EQ(r.events, 344);	/* one incarnation: duplicates count once */
	CHECK(!r.cut_off && !r.unplaced);

	write_elf(&m, EM_AARCH64);	/* whose dumps do not say how large a page is */
	r = recover(dump_path);
	CHECK_EQ(r.err, 0);
	CHECK_EQ(r.nr_regions, 2);
	CHECK_EQ(r.events, 344);

	write_elf(&m, EM_X86_64);
	flatten(true);
	r = recover(dump_path);
	CHECK_EQ(r.err, 0);
	CHECK_EQ(r.nr_regions, 2);
	CHECK_EQ(r.events, 344);
	CHECK(!r.cut_off);

	write_elf(&m, EM_X86_64);
	flatten(false);
	r = recover(dump_path);
	CHECK_EQ(r.events, 344);
	CHECK(r.cut_off);
	free(m.bytes);
	fake_guest_free(g);
}

static void reports_regions_without_rings(void)
{
	struct fake_guest *g = guest_with(30, 4);
	struct braid_virtio_chunk chunks[1024];
	struct memory m = memory_new();
	struct recovery r;

	scatter(&m, g, chunks);		/* not announced */
	write_elf(&m, EM_X86_64);
	r = recover(dump_path);
	CHECK_EQ(r.err, -ENOENT);
	CHECK_EQ(r.unplaced, 1);
	NEED(!truncate(dump_path, 8192 + 100 * PAGE));
	CHECK_EQ(recover(dump_path).err, -ENOENT);
	free(m.bytes);
	fake_guest_free(g);
}

/* Pages that do not fit a dump are reported, and the rest is read. */
static void counts_events_missing_in_a_dump(void)
{
	struct fake_guest *g = guest_with(400, 400);
	struct braid_virtio_chunk chunks[1024];
	struct memory m = memory_new();
	struct recovery r;
	u64 at = 0, wanted = braid_ring_offset(&g->sb.buffers[0], 1) +
			     g->sb.buffers[0].private_bytes + g->sb.buffers[0].meta_bytes;
	u32 nr = scatter(&m, g, chunks), k;

	for (k = 0; at + chunks[k].bytes <= wanted; k++)
		at += chunks[k].bytes;
	chunks[k].address = 1ULL << 40;	/* the one with the second ring's first sub-buffer */
	announce(&m, chunks, nr);
	write_elf(&m, EM_X86_64);
	r = recover(dump_path);
	CHECK_EQ(r.err, 0);
	CHECK_EQ(r.nr_regions, 1);
	CHECK_EQ(r.missing_pages, chunks[k].bytes / PAGE);
	free(m.bytes);
	fake_guest_free(g);
}

/* A guest can put anything into its memory; the work is always bounded. */
static void survives_forged_memory(void)
{
	struct fake_guest *g = guest_with(10, 10);
	struct braid_virtio_control control = { BRAID_VIRTIO_ANNOUNCE, 1024 };
	struct memory m = memory_new();
	struct braid_superblock *sb;
	u32 k, i;

	for (k = 0; k < DUMP_PAGES; k++) {
		u64 *words = (u64 *)(m.bytes + (u64)k * PAGE);

		for (i = 0; i + 3 <= PAGE / 8; i += 3) {
			memcpy(&words[i], &control, 8);
			words[i + 1] = BASE;
			words[i + 2] = PAGE;
		}
	}
	for (k = 0; k < DUMP_PAGES; k += 2) {
		sb = (struct braid_superblock *)(m.bytes + (u64)k * PAGE);
		*sb = g->sb;
		sb->state = BRAID_STATE_LIVE;
		if (k & 2)
			sb->region_bytes = 1ULL << 60;
		sb->incarnation = k + 1;
	}
	write_elf(&m, EM_X86_64);
	CHECK_EQ(recover(dump_path).err, -ENOENT);
	free(m.bytes);
	fake_guest_free(g);
}

/* A header that claims the largest possible memory, in a file without any. */
static void search_is_bounded_by_the_file(void)
{
	struct memory m = memory_new();
	u64 at = sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr);	/* of the last one */
	Elf64_Phdr part;
	int fd;

	write_elf(&m, EM_X86_64);
	fd = open(dump_path, O_RDWR);
	NEED(fd >= 0);
	CHECK_EQ(pread(fd, &part, sizeof(part), at), sizeof(part));
	part.p_filesz = part.p_memsz = 1ULL << 44;
	CHECK_EQ(pwrite(fd, &part, sizeof(part), at), sizeof(part));
	close(fd);
	CHECK_EQ(recover(dump_path).err, -ENOENT);
	free(m.bytes);
}

static void overwrite(u64 at, const void *bytes, size_t nr)
{
	int fd = open(dump_path, O_RDWR);

	NEED(fd >= 0 && pwrite(fd, bytes, nr, at) == (ssize_t)nr);
	close(fd);
}

/* libkdumpfile 0.5.1 reads missing sections, and crashes. */
static void a_crash_is_reported(void)
{
	struct memory m = memory_new();
	u64 nowhere = 128;
	static char said[1 << 16];

	write_elf(&m, EM_X86_64);
	overwrite(offsetof(Elf64_Ehdr, e_shoff), &nowhere, sizeof(nowhere));
	CHECK_EQ(command(dump_path, NULL, said, sizeof(said)), 1);
	CHECK(strstr(said, "tracebraid: ") && strstr(said, dump_path));
	CHECK(strstr(said, "crashed") && strstr(said, "damaged"));
	CHECK(access(capture_path, F_OK));
	free(m.bytes);
}

/* For any header, the command ends with a capture or with a message. */
static void any_header(void)
{
	struct fake_guest *g = guest_with(30, 4);
	struct memory m = memory_new();
	static char said[1 << 16];
	u32 seed = 7, turn;
	int code;

	place_bytes(&m, g->base, usual.bytes);
	for (turn = 0; turn < 16; turn++) {
		u8 bytes[8];

		seed = seed * 1664525 + 1013904223;
		memset(bytes, seed >> 24 & 1 ? 0x80 : 0xff, sizeof(bytes));
		write_elf(&m, EM_X86_64);
		/* Of the header, of the parts, of the note. */
		overwrite(turn & 1 ? 4096 + (seed >> 8) % 300 : 16 + (seed >> 8) % 216, bytes,
			  1 + (seed >> 16) % 8);
		code = command(dump_path, NULL, said, sizeof(said));
		CHECK(!code || (code == 1 && strstr(said, "tracebraid: ")));
	}
	free(m.bytes);
	fake_guest_free(g);
}

int main(void)
{
	dir = scratch(".");
	region_path = scratch("region");
	capture_path = scratch("x.braid");
	first_path = scratch("first.braid");
	dump_path = scratch("dump");
	RUN(recovers_all_unread_events);
	RUN(leaves_the_source_unchanged);
	RUN(recovers_rings_held_in_the_guest);
	RUN(counts_events_missing_in_a_short_copy);
	RUN(leaves_out_what_is_busy);
	RUN(reports_invalid_regions);
	RUN(finds_regions_in_a_dump);
	RUN(reports_regions_without_rings);
	RUN(counts_events_missing_in_a_dump);
	RUN(survives_forged_memory);
	RUN(search_is_bounded_by_the_file);
	unlink(capture_path);
	RUN(a_crash_is_reported);
	RUN(any_header);
	return VERDICT();
}
