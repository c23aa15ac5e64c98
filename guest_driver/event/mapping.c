// SPDX-License-Identifier: GPL-2.0
/* Writes which files are mapped where user code was sampled, with their build ids. */
#include <linux/atomic.h>
#include <linux/elf.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/irq_work.h>
#include <linux/mm.h>
#include <linux/pid.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "guest_driver/compat.h"
#include "guest_driver/event/event.h"
#include "guest_driver/event/mapping.h"

#define PAGES_BITS	12	/* pages known to be handled: of the latest in each cell */
#define NR_NOTED	64	/* addresses that the worker has not looked at */
#define BUILD_ID_BYTES	20
#define PATH_BYTES	512
#define NOTE_BYTES	512
#define NOTE_BUILD_ID	3	/* NT_GNU_BUILD_ID */
#define MOST_HEADERS	64

struct mapping_record {
	struct braid_record head;
	u64 space;
	u64 start, end;
	u64 offset;		/* in the file, of start */
	s32 tgid;
	u32 path;		/* __data_loc */
	u32 id_bytes;		/* of build_id; 0: the file has none */
	u8 build_id[BUILD_ID_BYTES];
	char text[];
};

struct noted {
	atomic_t state;
	struct mm_struct *mm;
	pid_t tgid;
	unsigned long address;
};
enum { FREE, FILLING, FILLED };

static struct braid_event event;
static bool on;
static u64 seed;
static u64 enabled;		/* how often it was: what was known before is void */
static u64 pages[1 << PAGES_BITS];
static u64 written[1 << PAGES_BITS];		/* the worker's: mappings */
static struct noted noted[NR_NOTED];

/* All 64 bits: the kernel's hash_64() has 32. */
static u64 braid_mapping_hash(u64 x)
{
	x = (x ^ x >> 33) * 0xff51afd7ed558ccdULL;
	x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ULL;
	return x ^ x >> 33;
}

/* The memory of an address space that is gone soon is another one's. */
u64 braid_mapping_space(const struct mm_struct *mm, pid_t tgid)
{
	return braid_mapping_hash(braid_mapping_hash((unsigned long)mm ^ seed) + tgid) >> 1;
}

/* Noting --------------------------------------------------------------------------------- */

static void braid_mapping_work(struct work_struct *work);
static DECLARE_WORK(work, braid_mapping_work);

/* The context of an event may hold any lock, as that of the run queue: queue no work there. */
static void braid_mapping_queue(struct irq_work *unused)
{
	queue_work(braid_unbound_wq, &work);
}

static DEFINE_IRQ_WORK(later, braid_mapping_queue);

/* Of an address in a page that is not known to be handled. */
static noinline void braid_mapping_note_page(struct mm_struct *mm, unsigned long address, u64 key)
{
	u64 *cell = &pages[key >> (64 - PAGES_BITS)];
	u32 k;

	if (!READ_ONCE(on))
		return;
	for (k = 0; k < NR_NOTED; k++)
		if (atomic_read(&noted[k].state) == FREE &&
		    atomic_cmpxchg(&noted[k].state, FREE, FILLING) == FREE)
			break;
	if (k == NR_NOTED)
		return;
	mmgrab(mm);
	noted[k].mm = mm;
	noted[k].tgid = current->tgid;
	noted[k].address = address;
	atomic_set_release(&noted[k].state, FILLED);
	WRITE_ONCE(*cell, key);
	irq_work_queue(&later);
}

void braid_mapping_note(struct mm_struct *mm, u64 space, const unsigned long *addresses, u32 nr)
{
	unsigned long page, before = ~0UL;
	u64 key;
	u32 k;

	space += READ_ONCE(enabled);
	for (k = 0; k < nr; k++, before = page) {
		page = addresses[k] >> PAGE_SHIFT;
		if (page == before)	/* often a caller in the same page */
			continue;
		key = braid_mapping_hash(space ^ page) | 1;
		if (READ_ONCE(pages[key >> (64 - PAGES_BITS)]) != key)
			braid_mapping_note_page(mm, addresses[k], key);
	}
}

/* Build ids ------------------------------------------------------------------------------- */

static bool braid_mapping_read(struct file *file, void *to, size_t bytes, u64 at)
{
	loff_t pos = at;

	return at <= S64_MAX && kernel_read(file, to, bytes, &pos) == bytes;
}

/* Finds the build id in the notes of a segment. Return: its length, or 0. */
static u32 braid_mapping_find_id(const u8 *notes, u32 bytes, u8 id[BUILD_ID_BYTES])
{
	u32 at = 0;

	while (at + sizeof(Elf64_Nhdr) <= bytes) {
		const Elf64_Nhdr *note = (const void *)(notes + at);
		u32 name = at + sizeof(*note), desc;

		if (note->n_namesz > bytes || note->n_descsz > bytes)
			return 0;
		desc = name + ALIGN(note->n_namesz, 4);
		if (desc > bytes || note->n_descsz > bytes - desc)
			return 0;
		if (note->n_type == NOTE_BUILD_ID && note->n_namesz == sizeof("GNU") &&
		    !memcmp(notes + name, "GNU", sizeof("GNU"))) {
			u32 len = min_t(u32, note->n_descsz, BUILD_ID_BYTES);

			memcpy(id, notes + desc, len);
			return len;
		}
		at = desc + ALIGN(note->n_descsz, 4);
	}
	return 0;
}

static u32 braid_mapping_build_id(struct file *file, u8 id[BUILD_ID_BYTES])
{
	u8 notes[NOTE_BYTES] __aligned(4);
	Elf64_Ehdr head;
	Elf64_Phdr part;
	u32 k, len = 0, bytes;

	/* To read a device has effects. */
	if (!S_ISREG(file_inode(file)->i_mode) ||
	    !braid_mapping_read(file, &head, sizeof(head), 0) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) || head.e_ident[EI_CLASS] != ELFCLASS64)
		return 0;
	for (k = 0; k < head.e_phnum && k < MOST_HEADERS && !len; k++) {
		if (!braid_mapping_read(file, &part, sizeof(part),
					head.e_phoff + k * sizeof(part)))
			return 0;
		bytes = min_t(u64, part.p_filesz, sizeof(notes));
		if (part.p_type == PT_NOTE &&
		    braid_mapping_read(file, notes, bytes, part.p_offset))
			len = braid_mapping_find_id(notes, bytes, id);
	}
	return len;
}

/* Records --------------------------------------------------------------------------------- */

struct mapping {
	struct file *file;	/* NULL: anonymous */
	u64 start, end, offset;
};

static void braid_mapping_write(const struct noted *n, const struct mapping *m)
{
	u32 bytes, id_bytes = 0, fixed = offsetof(struct mapping_record, text);
	char *buffer = kmalloc(PATH_BYTES, GFP_KERNEL), *path = "[anonymous]";
	struct mapping_record *record;
	u8 id[BUILD_ID_BYTES] = { 0 };
	struct braid_slot slot;

	if (m->file && buffer) {
		path = file_path(m->file, buffer, PATH_BYTES);
		if (IS_ERR(path))
			path = "[long path]";
		id_bytes = braid_mapping_build_id(m->file, id);
	}
	bytes = strlen(path) + 1;
	preempt_disable();
	/* It has no filters; and what gives events their stacks uses this file. */
	record = !READ_ONCE(on) ? NULL :	/* braid_mapping_synchronize() waits no longer */
		 braid_record_reserve(event.buffer, event.id, fixed + bytes, 0, false, &slot);
	if (record) {
		record->space = braid_mapping_space(n->mm, n->tgid);
		record->start = m->start;
		record->end = m->end;
		record->offset = m->offset;
		record->tgid = n->tgid;
		record->path = braid_data_loc(fixed, bytes);
		record->id_bytes = id_bytes;
		memcpy(record->build_id, id, sizeof(id));
		memcpy(record->text, path, bytes);
		braid_record_commit(&slot);
	}
	preempt_enable();
	kfree(buffer);
}

/* Whether code is mapped there; then the caller puts ->file. */
static bool braid_mapping_find(struct mm_struct *mm, unsigned long address, struct mapping *m)
{
	struct vm_area_struct *vma;
	bool found;

	mmap_read_lock(mm);
	vma = find_vma(mm, address);
	found = vma && vma->vm_start <= address && vma->vm_flags & VM_EXEC;
	if (found) {
		m->file = vma->vm_file ? get_file(vma->vm_file) : NULL;
		m->start = vma->vm_start;
		m->end = vma->vm_end;
		m->offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	}
	mmap_read_unlock(mm);
	return found;
}

static void braid_mapping_look(const struct noted *n)
{
	struct mapping m;
	u64 key, *cell;

	if (!READ_ONCE(on) || !mmget_not_zero(n->mm))	/* it has exited */
		return;
	if (braid_mapping_find(n->mm, n->address, &m)) {
		key = braid_mapping_space(n->mm, n->tgid) + READ_ONCE(enabled);
		key = braid_mapping_hash(key ^ m.start ^ m.end << 20 ^ m.offset) | 1;
		cell = &written[key >> (64 - PAGES_BITS)];
		if (*cell != key)
			braid_mapping_write(n, &m);
		*cell = key;
		if (m.file)
			fput(m.file);
	}
	mmput(n->mm);
}

static void braid_mapping_work(struct work_struct *unused)
{
	u32 k;

	for (k = 0; k < NR_NOTED; k++) {
		struct noted *n = &noted[k];

		if (atomic_read_acquire(&n->state) != FILLED)
			continue;
		braid_mapping_look(n);
		mmdrop(n->mm);
		atomic_set_release(&n->state, FREE);
		cond_resched();
	}
}

/* The event ------------------------------------------------------------------------------- */

static int braid_mapping_enable(struct braid_event *ev)
{
	WRITE_ONCE(enabled, enabled + 1);
	WRITE_ONCE(on, true);
	return 0;
}

static void braid_mapping_disable(struct braid_event *ev)
{
	WRITE_ONCE(on, false);
}

/*
 * Does not wait for the worker: it can block without limit in a file of a FUSE file system, and the
 * caller holds the registry's lock. The worker writes no record while the event is off.
 */
static void braid_mapping_synchronize(void)
{
	braid_synchronize_writers();
}

static int braid_mapping_format(const struct braid_event *ev, u16 id, char *text, size_t bytes)
{
	int len = snprintf(text, bytes,
			   "name: %s\nID: %u\nformat:\n" BRAID_COMMON_FIELDS
			   "\tfield:unsigned long space;\toffset:8;\tsize:8;\tsigned:0;\n"
			   "\tfield:unsigned long start;\toffset:16;\tsize:8;\tsigned:0;\n"
			   "\tfield:unsigned long end;\toffset:24;\tsize:8;\tsigned:0;\n"
			   "\tfield:unsigned long offset;\toffset:32;\tsize:8;\tsigned:0;\n"
			   "\tfield:pid_t tgid;\toffset:40;\tsize:4;\tsigned:1;\n"
			   "\tfield:__data_loc char[] path;\toffset:44;\tsize:4;\tsigned:0;\n"
			   "\tfield:unsigned int id_bytes;\toffset:48;\tsize:4;\tsigned:0;\n"
			   "\tfield:unsigned char build_id[20];\toffset:52;\tsize:20;\tsigned:0;\n"
			   "\nprint fmt: \"tgid=%%d %%lx-%%lx offset=%%lx %%s\", REC->tgid, REC->start, REC->end, REC->offset, __get_str(path)\n",
			   ev->name, id);

	return len < bytes ? len : -ENOSPC;
}

static const struct braid_event_ops mapping_ops = {
	.enable = braid_mapping_enable,
	.disable = braid_mapping_disable,
	.synchronize = braid_mapping_synchronize,
	.format = braid_mapping_format,
};

int braid_mapping_init(void)
{
	int id;

	BUILD_BUG_ON(offsetof(struct mapping_record, text) != 72);
	seed = get_random_u64();
	event = (struct braid_event){
		.buffer = braid_trace_buffer(), .system = "sample", .name = "mapping",
		.ops = &mapping_ops,
	};
	id = braid_event_add(&event, 0);
	return id < 0 ? id : 0;
}

void braid_mapping_exit(void)
{
	braid_event_remove_all(&event, 1);
	irq_work_sync(&later);
	flush_work(&work);	/* what was noted is dropped */
}
