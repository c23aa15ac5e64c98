// SPDX-License-Identifier: GPL-2.0-or-later
/* Recovers regions that fake guests have in their own memory: from a VMM, a dump, and a core. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/transport/vm_core.h"
#include "host_agent/util/error.h"
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

#define NOTES	4096u	/* offsets in an ELF file */
#define PARTS	65536u

static Elf64_Ehdr head_of(u32 nr_parts)
{
	return (Elf64_Ehdr){
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_CORE, .e_machine = EM_X86_64, .e_version = EV_CURRENT,
		.e_phoff = sizeof(Elf64_Ehdr), .e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr), .e_phnum = nr_parts,
	};
}

/* With the memory at PARTS. Return: the file. @nr: of parts, the one of notes included */
static int write_elf(const struct guest *guest, const Elf64_Phdr *parts, u32 nr, u64 bytes)
{
	Elf64_Nhdr note = { .n_namesz = 5, .n_descsz = 336, .n_type = NT_PRSTATUS };
	Elf64_Ehdr head = head_of(nr);
	int fd = open(dump_path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	NEED(fd >= 0 && pwrite(fd, &head, sizeof(head), 0) == sizeof(head));
	NEED(pwrite(fd, parts, nr * sizeof(*parts), sizeof(head)) ==
	     (ssize_t)(nr * sizeof(*parts)));
	NEED(pwrite(fd, &note, sizeof(note), NOTES) == sizeof(note));
	NEED(pwrite(fd, "CORE", 5, NOTES + sizeof(note)) == 5);
	NEED(pwrite(fd, guest->memory.vm, bytes, PARTS) == (ssize_t)bytes);
	return fd;
}

/* As QEMU's dump-guest-memory writes it. */
static void write_dump(const struct guest *guest, u64 bytes)
{
	const Elf64_Phdr parts[2] = {
		{ .p_type = PT_NOTE, .p_offset = NOTES, .p_filesz = 4096 },
		{ .p_type = PT_LOAD, .p_offset = PARTS, .p_paddr = GUEST, .p_filesz = bytes,
		  .p_memsz = bytes },
	};

	close(write_elf(guest, parts, 2, bytes));
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

/* Where a VMM has the two halves of a region, whose chunk 0 is the last. */
struct core {
	u64 at[2];
	u64 before;		/* bytes of something else in the same mapping */
	u64 missing_bytes[2];	/* that the file lacks of each */
};

/* As the kernel, or gcore, writes that of a process. */
static void write_core(const struct guest *guest, const struct core *core)
{
	const u64 half = guest->memory.bytes / 4;	/* the rest is unused */
	Elf64_Phdr parts[4] = {
		{ .p_type = PT_NOTE, .p_offset = NOTES, .p_filesz = 2 * (12 + 8 + 336) },
		{ .p_type = PT_LOAD, .p_offset = NOTES, .p_vaddr = 1 << 22, .p_filesz = 4096,
		  .p_memsz = 4096, .p_flags = PF_R | PF_X },
	};
	Elf64_Nhdr note = { .n_namesz = 5, .n_descsz = 336, .n_type = NT_AUXV };
	u64 at = NOTES + 12 + 8 + 336;
	int fd, k;

	for (k = 0; k < 2; k++)
		parts[2 + k] = (Elf64_Phdr){
			.p_type = PT_LOAD, .p_offset = PARTS + k * half - core->before,
			.p_vaddr = core->at[k] - core->before,
			.p_filesz = core->before + half - core->missing_bytes[k],
			.p_memsz = core->before + half, .p_flags = PF_R | PF_W,
		};
	fd = write_elf(guest, parts, 4, 2 * half);
	NEED(pwrite(fd, &note, sizeof(note), at) == sizeof(note));
	NEED(pwrite(fd, "CORE", 5, at + sizeof(note)) == 5);
	close(fd);
}

/* In one mapping, in two, and at no usual place. */
static void recovers_a_core(void)
{
	static const u64 at = 1ULL << 45, step = BRAID_BEACON_STEP, page = BRAID_PAGE_BYTES;
	static const struct core cores[] = {
		{ .at = { at, at + step } }, { .at = { at + 5 * step, at } },
		{ .at = { at + 7 * page, at + 5 * step + page }, .before = 3 * page },
	};
	struct recovery r;
	struct guest g;
	size_t k;

	begin(&g, 0);
	fake_guest_write(g.g, 0, 300);
	fake_guest_write(g.g, 1, 44);
	for (k = 0; k < sizeof(cores) / sizeof(*cores); k++) {
		write_core(&g, &cores[k]);
		r = recover(dump_path);
		CHECK_EQ(r.err, 0);
		CHECK_EQ(r.nr_regions, 1);
		CHECK_EQ(r.events, 344);
		CHECK_EQ(r.missing_pages + r.faults + r.cut_off + r.running, 0);
	}
	end(&g);
}

/* A core without guest memory, without a part of it, and one that was truncated. */
static void core_without_a_region(void)
{
	static const u64 at = 1ULL << 45, step = BRAID_BEACON_STEP;
	struct core core = { { at, at + step }, 0, { step, step } };
	struct guest g;

	begin(&g, 0);
	write_core(&g, &core);
	CHECK_EQ(recover(dump_path).err, -ENOENT);
	CHECK(strstr(braid_failure(), "the core has no guest memory"));
	core.missing_bytes[1] = 0;
	write_core(&g, &core);
	CHECK_EQ(recover(dump_path).err, -ENOENT);
	CHECK(strstr(braid_failure(), "lacks some chunks"));
	core.missing_bytes[0] = 0;
	write_core(&g, &core);
	NEED(!truncate(dump_path, PARTS + step));
	CHECK_EQ(recover(dump_path).err, -ENOENT);
	CHECK(strstr(braid_failure(), "truncated"));
	end(&g);
}

/* Its mappings together are no larger than the file. */
static void check_sizes(int fd)
{
	struct braid_vm_memory vm;
	u64 bytes = 0;
	struct stat st;
	bool cut_off;
	size_t k;

	NEED(!fstat(fd, &st));
	if (braid_vm_core_open(&vm, fd, &cut_off))
		return;
	for (k = 0; k < vm.nr_mappings; k++)
		bytes += vm.mappings[k].end - vm.mappings[k].start;
	CHECK(bytes <= (u64)st.st_size);
	braid_vm_memory_close(&vm);
}

/* Each word of the heads, forged: it ends, with what the file has or without. */
static void forged_core(void)
{
	static const u64 nasty[] = { 0, ~0ULL, 1ULL << 63, ~0ULL << 12, 1ULL << 44, -(3ULL << 20) };
	static const u64 last = sizeof(Elf64_Ehdr) + 4 * sizeof(Elf64_Phdr);
	static const struct core core = {
		.at = { 1ULL << 45, (1ULL << 45) + 5 * BRAID_BEACON_STEP },
		.before = 3 * BRAID_PAGE_BYTES,
	};
	struct braid_superblock *sb;
	u64 at, true_word;
	struct guest g;
	size_t k;
	int fd;

	begin(&g, 0);
	sb = (struct braid_superblock *)g.g->base;
	sb->state = BRAID_STATE_DOWN;	/* no wait for a heartbeat */
	write_core(&g, &core);
	fd = open(dump_path, O_RDWR);
	NEED(fd >= 0);
	for (at = offsetof(Elf64_Ehdr, e_phoff); at < last; at += 8) {
		NEED(pread(fd, &true_word, 8, at) == 8);
		for (k = 0; k < sizeof(nasty) / sizeof(*nasty); k++) {
			NEED(pwrite(fd, &nasty[k], 8, at) == 8);
			check_sizes(fd);
			CHECK(!braid_vm_core_is(fd) || recover(dump_path).err <= 0);
		}
		NEED(pwrite(fd, &true_word, 8, at) == 8);
	}
	CHECK(!recover(dump_path).err);
	close(fd);
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
	RUN(recovers_a_core);
	RUN(core_without_a_region);
	RUN(forged_core);
	return VERDICT();
}
