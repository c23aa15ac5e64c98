// SPDX-License-Identifier: GPL-2.0
/* Maps a ring into user space, as Linux does with its own since 6.10. */
#define pr_fmt(fmt) "tracebraid: " fmt

#include <linux/fs.h>
#include <linux/io.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "guest_driver/compat.h"
#include "guest_driver/core/reader_private.h"

static unsigned long braid_map_pfn_of(const void *address)
{
	return is_vmalloc_addr(address) ? vmalloc_to_pfn(address) :
					  PHYS_PFN(virt_to_phys((void *)address));
}

struct fill {
	struct vm_area_struct *vma;
	const u8 *from;
};

static int braid_map_fill_pte(pte_t *pte, unsigned long address, void *arg)
{
	struct fill *fill = arg;
	/* As the transport mapped it: memory shared with the host is not encrypted. */
	pte_t now = pfn_pte(braid_map_pfn_of(fill->from),
			    pgprot_decrypted(fill->vma->vm_page_prot));

	if (pte_none(ptep_get(pte)))
		set_pte_at(fill->vma->vm_mm, address, pte, pte_mkspecial(now));
	fill->from += PAGE_SIZE;
	return 0;
}

/*
 * Memory of a PCI device. The usual helpers would consult the MTRRs, which mark a PCI hole as
 * uncached; but this one is ordinary host memory, mapped write-back.
 */
static int braid_map_fill_pfns(struct vm_area_struct *vma, const u8 *from)
{
	struct fill fill = { .vma = vma, .from = from };

	return apply_to_page_range(vma->vm_mm, vma->vm_start, vma->vm_end - vma->vm_start,
				   braid_map_fill_pte, &fill);
}

/* The guest's own memory: whoever uses the mapping can hold its pages. */
static int braid_map_fill_pages(struct vm_area_struct *vma, const u8 *from)
{
	unsigned long at;
	int err = 0;

	for (at = vma->vm_start; !err && at < vma->vm_end; at += PAGE_SIZE, from += PAGE_SIZE) {
		err = vm_insert_page(vma, at, vmalloc_to_page(from));
		if (err == -EBUSY)	/* another thread's fault was faster */
			err = 0;
	}
	return err;
}

/*
 * Maps all pages at the first fault: by then the mapping is in the file's address space, where
 * braid_reader_unmap() finds it.
 */
static vm_fault_t braid_map_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct braid_ring_mapping *m = vma->vm_private_data;
	struct braid_guest_reader *r = m->reader;
	vm_fault_t ret = VM_FAULT_SIGBUS;
	const u8 *from;
	int err;

	mutex_lock(&r->map_lock);
	if (m->generation == r->generation) {
		from = r->base + (vma->vm_pgoff << PAGE_SHIFT);
		err = m->has_pages ? braid_map_fill_pages(vma, from) :
				     braid_map_fill_pfns(vma, from);
		ret = err ? VM_FAULT_OOM : VM_FAULT_NOPAGE;
	}
	mutex_unlock(&r->map_lock);
	return ret;
}

static void braid_map_open(struct vm_area_struct *vma)
{
	struct braid_ring_mapping *m = vma->vm_private_data;

	refcount_inc(&m->users);
}

static void braid_map_close(struct vm_area_struct *vma)
{
	struct braid_ring_mapping *m = vma->vm_private_data;
	struct braid_guest_reader *r = m->reader;

	if (!refcount_dec_and_test(&m->users))
		return;
	mutex_lock(&r->map_lock);
	if (m->generation == r->generation)
		r->nr_mapped--;
	mutex_unlock(&r->map_lock);
	braid_reader_put(r);
	kfree(m);
}

static const struct vm_operations_struct ring_vm_ops = {
	.open = braid_map_open,
	.close = braid_map_close,
	.fault = braid_map_fault,
};

/* Whether the vma lies within the ring, and the ring can be mapped. */
static int braid_map_check_shape(const struct braid_guest_reader *r, struct vm_area_struct *vma)
{
	const struct braid_ring_map *map = &r->ring.map;
	u64 bytes = map->page_bytes + (u64)map->subbuf_bytes * (map->nr_slots + 1);
	u64 pages = bytes >> PAGE_SHIFT;

	if ((map->subbuf_bytes | (unsigned long)map->meta) & ~PAGE_MASK) {
		pr_info("buffer %s cannot be mapped: its sub-buffers of %u bytes are not a multiple of the page size %lu\n",
			r->buffer->name, map->subbuf_bytes, PAGE_SIZE);
		return -EINVAL;
	}
	return vma->vm_pgoff < pages && vma_pages(vma) <= pages - vma->vm_pgoff ? 0 : -EINVAL;
}

/*
 * Counts that the shared code does not have while it reads: unread events, and losses before them.
 */
static void braid_map_publish_counts(struct braid_guest_reader *r)
{
	struct braid_meta *meta = r->ring.map.meta;
	struct braid_ring_counts counts;

	if (braid_reader_count(r, &counts))
		return;		/* unchanged */
	meta->read = counts.read;
	meta->overrun = counts.overruns + counts.dropped;
	meta->entries = counts.entries + meta->overrun + counts.read;
}

static void braid_map_join(struct braid_guest_reader *r, struct vm_area_struct *vma,
			   struct braid_ring_mapping *m)
{
	kref_get(&r->kref);
	refcount_set(&m->users, 1);
	m->reader = r;
	m->has_pages = r->buffer->region->range.has_pages;
	mutex_lock(&r->map_lock);
	m->generation = r->generation;
	r->mapping = vma->vm_file->f_mapping;
	r->base = (u8 *)r->ring.map.meta;
	r->nr_mapped++;
	mutex_unlock(&r->map_lock);
	braid_vma_flags(vma, (m->has_pages ? VM_MIXEDMAP : VM_IO | VM_PFNMAP) |
			VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP, VM_MAYWRITE);
	vma->vm_private_data = m;
	vma->vm_ops = &ring_vm_ops;
}

int braid_reader_map(struct braid_guest_reader *r, struct vm_area_struct *vma)
{
	struct braid_ring_mapping *m;
	int err;

	if (vma->vm_flags & (VM_WRITE | VM_EXEC) || !(vma->vm_flags & VM_MAYSHARE))
		return -EPERM;
	m = kzalloc(sizeof(*m), GFP_KERNEL);
	if (!m)
		return -ENOMEM;
	braid_lock(&r->buffer->lock);
	err = braid_reader_take_role(r);
	if (!err)
		err = braid_map_check_shape(r, vma);
	if (!err) {
		braid_map_publish_counts(r);
		braid_map_join(r, vma, m);
	} else {
		braid_reader_give_role(r);
	}
	braid_unlock(&r->buffer->lock);
	if (err)
		kfree(m);
	return err;
}

/*
 * The header of the reader's sub-buffer, which the writer fills only when it closes it: set to the
 * consumed bytes. If the writer fills it concurrently, the next call sets it again.
 */
static void braid_map_publish_header(struct braid_guest_reader *r, u32 bytes)
{
	struct braid_subbuf *subbuf = braid_ring_subbuf(&r->ring.map, r->span.id);
	u32 room = r->ring.map.subbuf_bytes - BRAID_SUBBUF_HEADER_BYTES;
	u64 commit = bytes;

	if (r->shown_lost)
		commit |= BRAID_MISSED_EVENTS;
	/* The writer continues after the events of a sub-buffer that is not final. */
	if (r->shown_lost && r->span.final && room - bytes >= sizeof(r->shown_lost)) {
		memcpy(subbuf->data + bytes, &r->shown_lost, sizeof(r->shown_lost));
		commit |= BRAID_MISSED_STORED;
	}
	braid_store(&subbuf->commit, commit);
}

/* Consumes the rest of the copy after @c. */
static int braid_map_take_rest(struct braid_guest_reader *r, struct braid_cursor *c)
{
	u64 lost = braid_reader_unreported(r);
	s64 rest = braid_page_count(c);

	if (rest < 0) {
		r->bad = true;
		return -EBADMSG;
	}
	r->lost_reported += lost;
	if (!r->span.from_bytes)
		r->shown_lost = lost;
	braid_reader_take(r, c, rest + 1);
	r->ring.map.meta->reader.lost_events = r->shown_lost;
	braid_map_publish_counts(r);
	braid_map_publish_header(r, c->offset);
	return 0;
}

int braid_reader_advance(struct braid_guest_reader *r)
{
	struct braid_event_view view;
	struct braid_cursor c;
	int ret;

	braid_lock(&r->buffer->lock);
	ret = braid_reader_mapped(r) ? braid_reader_take_role(r) : -ENODEV;
	if (!ret)
		ret = braid_reader_view(r, &c, &view);
	if (ret > 0)
		ret = braid_map_take_rest(r, &c) ?: 1;
	braid_unlock(&r->buffer->lock);
	return ret;
}
