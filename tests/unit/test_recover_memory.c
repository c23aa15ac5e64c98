// SPDX-License-Identifier: GPL-2.0-or-later
/* Recovers regions that fake guests have in their own memory: from a VMM, and from a dump. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/own_memory.h"
#include "tests/unit/recovery.h"
#include "tests/unit/scratch.h"

#define NONCE	0x7071727374757677ULL
#define GUEST	(1ULL << 32)	/* as own_memory.c has it */

static char *dir, *region_path, *capture_path, *dump_path;

static const struct fake_params usual = {
	.name = "fake", .bytes = 2 * OWN_CHUNK_ROOM, .nr_vcpus = 2, .subbuf_bytes = 4096,
	.nr_slots = 64, .always = true, .flags = BRAID_BUFFER_OVERWRITE,
};

struct guest {
	struct fake_guest *g;
	struct own_memory memory;
	char path[32];		/* of its VMM */
};

static void begin(struct guest *guest, u64 rate)
{
	struct fake_params p = usual;

	p.rate = rate;
	guest->g = fake_guest_new(region_path, &p);
	own_memory_begin(&guest->memory, guest->g, NONCE);
	snprintf(guest->path, sizeof(guest->path), "pid:%d", (int)guest->memory.pid);
}

static void end(struct guest *guest)
{
	fake_guest_free(guest->g);
	own_memory_end(&guest->memory);
}

static struct recovery recover(const char *path)
{
	return recovery_run(path, capture_path, dir);
}

/* Of a guest that hangs, or has rebooted in order: all, though no sign of life proves it. */
static void recovers_a_vmm(void)
{
	struct braid_superblock *sb;
	struct recovery r;
	struct guest g;
	int k;

	begin(&g, 0);
	fake_guest_write(g.g, 0, 300);
	fake_guest_write(g.g, 1, 44);
	sb = (struct braid_superblock *)g.g->base;
	for (k = 0; k < 2; k++) {
		r = recover(g.path);
		CHECK_EQ(r.err, 0);
		CHECK_EQ(r.nr_regions, 1);
		CHECK_EQ(r.events, 344);
		CHECK_EQ(r.status.sums.left + r.faults + r.missing_pages, 0);
		CHECK(!r.running);
		sb->state = BRAID_STATE_DOWN;
	}
	end(&g);
}

static void recovers_from_a_running_guest(void)
{
	struct recovery r;
	struct guest g;

	begin(&g, 100000);
	fake_guest_start_process(g.g);
	while (__atomic_load_n(&g.g->ctl->offered[0], __ATOMIC_RELAXED) < 20000)
		usleep(1000);
	r = recover(g.path);
	fake_guest_stop(g.g);
	CHECK_EQ(r.err, 0);
	CHECK(r.running);
	CHECK(r.events > 3000);
	CHECK_EQ(r.events, r.status.sums.read);
	CHECK_EQ(r.faults, 0);
	end(&g);
}

static void finds_no_incomplete_region(void)
{
	struct recovery r;
	struct guest g;

	begin(&g, 0);
	own_memory_scribble(&g.memory, 1, 0, 1);
	r = recover(g.path);
	CHECK_EQ(r.err, -ENOENT);
	own_memory_clear(&g.memory);
	CHECK_EQ(recover(g.path).err, -ENOENT);
	CHECK_EQ(recover("pid:2000000000").err, -ESRCH);
	end(&g);
}

/* As QEMU's dump-guest-memory writes it. */
static void write_dump(const struct guest *guest, u64 bytes)
{
	Elf64_Ehdr head = {
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_CORE, .e_machine = EM_X86_64, .e_version = EV_CURRENT,
		.e_phoff = sizeof(head), .e_ehsize = sizeof(head),
		.e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 2,
	};
	Elf64_Phdr parts[2] = {
		{ .p_type = PT_NOTE, .p_offset = 4096, .p_filesz = 4096 },
		{ .p_type = PT_LOAD, .p_offset = 8192, .p_paddr = GUEST, .p_filesz = bytes,
		  .p_memsz = bytes },
	};
	Elf64_Nhdr note = { .n_namesz = 5, .n_descsz = 336, .n_type = NT_PRSTATUS };
	int fd = open(dump_path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	NEED(fd >= 0 && pwrite(fd, &head, sizeof(head), 0) == sizeof(head));
	NEED(pwrite(fd, parts, sizeof(parts), sizeof(head)) == sizeof(parts));
	NEED(pwrite(fd, &note, sizeof(note), 4096) == sizeof(note));
	NEED(pwrite(fd, "CORE", 5, 4096 + sizeof(note)) == 5);
	NEED(pwrite(fd, guest->memory.vm, bytes, 8192) == (ssize_t)bytes);
	close(fd);
}

static void recovers_a_dump(void)
{
	struct recovery r;
	struct guest g;

	begin(&g, 0);
	fake_guest_write(g.g, 0, 300);
	fake_guest_write(g.g, 1, 44);
	write_dump(&g, g.memory.bytes);
	r = recover(dump_path);
	CHECK_EQ(r.err, 0);
	CHECK_EQ(r.nr_regions, 1);
	CHECK_EQ(r.events, 344);
	CHECK_EQ(r.missing_pages + r.unplaced + r.faults, 0);
	/* Chunk 0 is the last one in memory. What the dump lacks is counted. */
	write_dump(&g, g.memory.bytes / 2 - 8 * BRAID_PAGE_BYTES);
	r = recover(dump_path);
	CHECK_EQ(r.err, 0);
	CHECK_EQ(r.missing_pages, 8);
	/* After a reset one chunk's pages are used by the next kernel: none is believed. */
	own_memory_scribble(&g.memory, 1, 0, 1);
	write_dump(&g, g.memory.bytes);
	r = recover(dump_path);
	CHECK_EQ(r.err, -ENOENT);
	CHECK_EQ(r.unplaced, 1);
	end(&g);
}

int main(void)
{
	dir = scratch(".");
	region_path = scratch("region");
	capture_path = scratch("x.braid");
	dump_path = scratch("dump");
	RUN(recovers_a_vmm);
	RUN(recovers_from_a_running_guest);
	RUN(finds_no_incomplete_region);
	RUN(recovers_a_dump);
	return VERDICT();
}
