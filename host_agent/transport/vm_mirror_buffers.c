// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The buffers of a region's copy. The guest waits for no agent when it removes one, but for
 * BRAID_BEACON_LINGER_MS; the copy does: as a guest with an agent, it first shows the buffer as
 * CLOSING, so that all that was copied is read.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/transport/vm_mirror_private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "shared/region.h"

#define PROOF_NS	(3000000ULL * BRAID_POLL_MS)	/* three heartbeats */
#define AGENT_NS	1000000000ULL		/* as long as a guest waits */
#define TRIES		16

int braid_vm_mirror_load_superblock(struct braid_vm_mirror *m, struct braid_superblock *sb)
{
	struct braid_superblock again;
	int tries;

	for (tries = 0; tries < TRIES; tries++) {
		braid_vm_batch_add(&m->batch, 0, sb, sizeof(*sb));
		if (braid_vm_batch_read(&m->batch))
			return -EAGAIN;
		braid_vm_batch_add(&m->batch, 0, &again, sizeof(again));
		if (braid_vm_batch_read(&m->batch))
			return -EAGAIN;
		if (!(sb->buffers_seq & 1) && !memcmp(sb, &again, sizeof(again)))
			return 0;
	}
	return -EAGAIN;
}

void braid_vm_mirror_place(struct braid_vm_mirror *m, struct braid_vm_ring *r)
{
	struct braid_ring_private head;
	u32 seq;
	u64 *slots = realloc(m->slots, r->map.nr_slots * sizeof(*slots));

	if (!slots)
		return;
	m->slots = slots;
	braid_vm_batch_add(&m->batch, r->private_at, &head, sizeof(head));
	braid_vm_batch_add(&m->batch, r->private_at + BRAID_RING_SLOTS_OFFSET, slots,
			   r->map.nr_slots * sizeof(*slots));
	if (!braid_vm_mirror_read(m, m->now_ns))
		return;
	braid_vm_batch_add(&m->batch, offsetof(struct braid_superblock, buffers_seq), &seq,
			   sizeof(seq));
	if (braid_vm_mirror_read(m, m->now_ns) && seq == m->next.buffers_seq &&	/* (R3) */
	    head.incarnation == m->sb.incarnation)
		braid_vm_ring_place(r, &head, slots);
}

/* Where the block of a reader is kept whose ring was left. */
static struct braid_reader_block *vm_buffers_past(struct braid_vm_mirror *m, u32 buffer, u32 vcpu)
{
	return &m->past[(size_t)buffer * m->sb.nr_vcpus + vcpu];
}

static void vm_buffers_drop(struct braid_vm_mirror *m, u32 buffer)
{
	size_t k, kept = 0;

	for (k = 0; k < m->nr_rings; k++) {
		struct braid_vm_mirror_ring *ring = &m->rings[k];
		const struct braid_ring_private *priv = ring->r.map.priv;

		if (ring->buffer != buffer) {
			m->rings[kept++] = *ring;
			continue;
		}
		if (priv->incarnation == m->sb.incarnation)
			*vm_buffers_past(m, buffer, ring->vcpu) =
				priv->reader_block[priv->reader_index & 1];
		braid_vm_ring_end(&ring->r);
	}
	m->nr_rings = kept;
}

void braid_vm_mirror_leave(struct braid_vm_mirror *m)
{
	u32 k;

	for (k = 0; k < BRAID_MAX_BUFFERS; k++)
		vm_buffers_drop(m, k);
}

/*
 * Return: 0, -EAGAIN (there is no such ring yet, or no more), -ESTALE (it is older than what was
 * read of it), or another -errno.
 */
static int vm_buffers_add_ring(struct braid_vm_mirror *m, u32 buffer, u32 vcpu)
{
	struct braid_vm_mirror_ring ring = { .buffer = buffer, .vcpu = vcpu };
	struct braid_ring_map map;
	int err;

	braid_mapping_ring(m->mapping, &m->next, buffer, vcpu, &map);
	memset(map.priv, 0, braid_ring_private_used(map.nr_slots));
	err = braid_vm_ring_begin(&ring.r, &map, m->mapping->base);
	if (!err && braid_array_push(m->rings, m->nr_rings, m->capacity, ring)) {
		braid_vm_ring_end(&ring.r);
		err = braid_out_of_memory();
	}
	if (err)
		return err;
	m->rings[m->nr_rings - 1].r.past = *vm_buffers_past(m, buffer, vcpu);
	braid_vm_mirror_place(m, &m->rings[m->nr_rings - 1].r);
	if (m->rings[m->nr_rings - 1].r.older)
		return -ESTALE;
	return m->rings[m->nr_rings - 1].r.placed ? 0 : -EAGAIN;
}

/* The table that the copy's readers see. @closing: buffers that are about to be removed. */
static void vm_buffers_show(struct braid_vm_mirror *m, u32 closing)
{
	struct braid_superblock *copy = (struct braid_superblock *)m->mapping->base;
	u32 seq = copy->buffers_seq + 2, state = copy->magic ? copy->state : m->sb.state, k;

	*copy = m->sb;
	copy->state = state;
	for (k = 0; k < copy->nr_buffers; k++)
		if (closing >> k & 1 && copy->buffers[k].nr_rings)
			copy->buffers[k].flags |= BRAID_BUFFER_CLOSING;
	braid_store_release(&copy->buffers_seq, seq);
}

void braid_vm_mirror_note_copied(struct braid_vm_mirror *m)
{
	u32 left = 0;
	size_t k;

	for (k = 0; k < m->nr_rings && m->closing; k++)
		if (m->rings[k].r.nr || !m->rings[k].r.placed || m->rings[k].r.left)
			left |= 1u << m->rings[k].buffer;
	m->copied |= m->closing & ~left;
}

/* Notes a buffer that is gone before all was copied. A ring that comes again counts its losses. */
static void vm_buffers_cut_off(struct braid_vm_mirror *m, u32 buffer)
{
	const struct braid_buffer_desc *was = &m->sb.buffers[buffer];
	const struct braid_buffer_desc *is = &m->next.buffers[buffer];

	if (buffer < m->sb.nr_buffers && was->nr_rings && !(m->copied >> buffer & 1) &&
	    (buffer >= m->next.nr_buffers || !is->nr_rings ||
	     strncmp(was->name, is->name, sizeof(was->name))))
		m->mapping->cut_off |= 1u << buffer;
}

/* Takes over what the guest has. Return: 0, -EAGAIN, or another -errno. */
static int vm_buffers_adopt(struct braid_vm_mirror *m)
{
	u32 k, vcpu;
	int err = 0;

	for (k = 0; k < BRAID_MAX_BUFFERS; k++) {
		if (!(m->changed >> k & 1))
			continue;
		vm_buffers_cut_off(m, k);
		vm_buffers_drop(m, k);
	}
	for (k = 0; k < m->next.nr_buffers && !err; k++)
		for (vcpu = 0; m->changed >> k & 1 && vcpu < m->next.buffers[k].nr_rings && !err;
		     vcpu++)
			err = vm_buffers_add_ring(m, k, vcpu);
	for (k = 0; k < BRAID_MAX_BUFFERS && err; k++)
		if (m->changed >> k & 1)
			vm_buffers_drop(m, k);
	if (err)
		return err;
	m->sb = m->next;
	m->copied &= ~m->changed;
	m->changed = 0;
	m->changed_ns = m->closing_ns = 0;
	m->tries = 0;
	vm_buffers_show(m, 0);
	return 0;
}

/* Whether a buffer's rings are other ones than before. */
static bool vm_buffers_moved(const struct braid_superblock *a, const struct braid_superblock *b,
			     u32 buffer)
{
	static const struct braid_buffer_desc none;

	return !braid_mapping_same_place(buffer < a->nr_buffers ? &a->buffers[buffer] : &none,
					 buffer < b->nr_buffers ? &b->buffers[buffer] : &none);
}

/* A buffer that the guest is about to remove is followed until it does. */
static void vm_buffers_set_next(struct braid_vm_mirror *m, const struct braid_superblock *sb)
{
	size_t ring;
	u32 k;

	m->next = *sb;
	m->closing = 0;
	for (k = 0; k < BRAID_MAX_BUFFERS; k++) {
		if (m->next.buffers[k].flags & BRAID_BUFFER_CLOSING)
			m->closing |= 1u << k;
		m->next.buffers[k].flags &= ~BRAID_BUFFER_CLOSING;
		if (vm_buffers_moved(&m->sb, &m->next, k))
			m->changed |= 1u << k;
	}
	m->copied &= m->closing | m->changed;
	for (ring = 0; ring < m->nr_rings; ring++)
		if (m->changed >> m->rings[ring].buffer & 1)
			braid_vm_ring_leave(&m->rings[ring].r);
}

/* Reads the guest's table, if it is another one. */
static void vm_buffers_load(struct braid_vm_mirror *m)
{
	struct braid_superblock sb;

	if (m->now.buffers_seq == m->next.buffers_seq || m->now.buffers_seq & 1 ||
	    braid_vm_mirror_load_superblock(m, &sb) || sb.incarnation != m->sb.incarnation)
		return;
	if (braid_region_check(&sb, m->region.bytes) || sb.nr_vcpus != m->sb.nr_vcpus ||
	    memcmp(sb.sections, m->sb.sections, sizeof(sb.sections))) {
		braid_vm_mirror_gone(m, "its superblock is not valid any more");
		return;
	}
	vm_buffers_set_next(m, &sb);
	if (!m->changed_ns)
		m->changed_ns = m->now_ns;
}

/* Whether rings that are about to be removed still have something for the copy's reader. */
static bool vm_buffers_busy(struct braid_vm_mirror *m)
{
	const struct braid_mailbox *box = braid_vm_mirror_section(m, BRAID_SECTION_MAILBOX);
	const struct braid_superblock *copy = (const struct braid_superblock *)m->mapping->base;
	u64 unproven = 0;
	bool any = false;
	size_t k;

	for (k = 0; k < m->nr_rings; k++) {
		if (!m->rings[k].r.left)
			continue;
		any = true;
		unproven += braid_vm_ring_unproven(&m->rings[k].r);
	}
	if (!any)
		return false;
	if (unproven && m->now_ns - m->changed_ns < PROOF_NS)
		return true;
	if (!braid_load(&box->agent_heartbeat))
		return false;		/* nobody reads them */
	if (!m->closing_ns) {
		m->closing_ns = m->now_ns;
		vm_buffers_show(m, m->changed);
	}
	return braid_load_acquire(&box->agent_buffers_seq) != copy->buffers_seq &&	/* (B4) */
	       m->now_ns - m->closing_ns < AGENT_NS;
}

void braid_vm_mirror_follow_buffers(struct braid_vm_mirror *m)
{
	int err;

	vm_buffers_load(m);
	if (!m->changed_ns || m->mapping->gone || vm_buffers_busy(m))
		return;
	err = vm_buffers_adopt(m);
	if (err && (err != -EAGAIN || ++m->tries == TRIES))
		braid_vm_mirror_gone(m, err == -ENOMEM ? "out of memory" :
							 "its rings are not valid");
}

int braid_vm_mirror_begin_buffers(struct braid_vm_mirror *m, const struct braid_vm_mirror *former)
{
	const struct braid_superblock sb = m->sb;
	size_t nr = (size_t)BRAID_MAX_BUFFERS * sb.nr_vcpus;
	int err, tries = 0;

	m->past = calloc(nr, sizeof(*m->past));
	if (!m->past)
		return braid_out_of_memory();
	if (former && former->sb.incarnation == sb.incarnation &&
	    former->sb.nr_vcpus == sb.nr_vcpus)
		memcpy(m->past, former->past, nr * sizeof(*m->past));
	m->sb.nr_buffers = 0;
	vm_buffers_set_next(m, &sb);
	do
		err = vm_buffers_adopt(m);
	while (err == -EAGAIN && ++tries < TRIES);
	if (err == -ESTALE)
		return braid_fail(err, "%s: its rings have less than was read of them, as after a snapshot is restored: not recorded until they have more",
				  m->mapping->path);
	return err == -EAGAIN ? braid_fail(-ENODATA, "%s: its rings are not valid",
					   m->mapping->path) : err;
}
