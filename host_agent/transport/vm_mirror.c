// SPDX-License-Identifier: GPL-2.0-or-later
/* Copies a region turn by turn. What is read may be forged: it is checked as a shared region is. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host_agent/transport/vm_mirror_private.h"
#include "host_agent/util/error.h"

#define DOWN_NS		1000000000ULL	/* a kernel that ends lives so long after it was LIVE */
#define SETTLE_STEP_NS	1000000
#define SETTLE_TURNS	64	/* that copy something */
#define SILENT_NS	1000000000ULL
#define BEACON_NS	1000000000ULL	/* between looks at it at rest ... */
#define TABLES_NS	4000000000ULL	/* ... and at the tables */
#define REST_MIN_NS	1000000ULL
#define REST_MAX_NS	32000000ULL
#define EARLY_MAX_NS	16000000ULL	/* a clock is bounded by how far looks are apart ... */
#define EARLY_NS	20000000000ULL	/* ... above all of those of this time */

/* The head ------------------------------------------------------------------------------------- */

static void vm_mirror_add_head(struct braid_vm_mirror *m, struct braid_vm_head *to)
{
	struct braid_vm_batch *b = &m->batch;

	braid_vm_batch_add(b, 0, &to->region, sizeof(to->region));
	braid_vm_batch_add(b, offsetof(struct braid_superblock, buffers_seq), &to->buffers_seq,
			   sizeof(to->buffers_seq));
}

static void vm_mirror_add_beat(struct braid_vm_mirror *m)
{
	braid_vm_batch_add(&m->batch, m->sb.sections[BRAID_SECTION_MAILBOX].offset +
			   offsetof(struct braid_mailbox, guest_heartbeat), &m->beat_seen,
			   sizeof(m->beat_seen));
}

static void vm_mirror_add_beacon(struct braid_vm_mirror *m, struct braid_vm_head *to)
{
	braid_vm_batch_add_beacon(&m->batch, &to->beacon, sizeof(to->beacon));
}

static void vm_mirror_add_cells(struct braid_vm_mirror *m, struct braid_vm_head *to)
{
	braid_vm_batch_add(&m->batch, m->sb.sections[BRAID_SECTION_CLOCK].offset, &to->cells,
			   sizeof(to->cells));
}

static bool vm_mirror_is_same(const struct braid_vm_mirror *m, const struct braid_vm_head *head)
{
	return head->beacon.magic == BRAID_BEACON_MAGIC && head->beacon.nonce == m->region.nonce &&
	       head->region.magic == BRAID_MAGIC && head->region.incarnation == m->sb.incarnation &&
	       (head->region.state == BRAID_STATE_LIVE || head->region.state == BRAID_STATE_DOWN);
}

/*
 * Whether the guest's poll thread has run since the last look. The heartbeat is its counter: what a
 * new kernel writes over it is hardly ever a little more than it was. When a saved state of the VM
 * is restored it is less, and nothing shows when it was stored.
 */
static bool vm_mirror_beats(struct braid_vm_mirror *m, u64 now_ns)
{
	struct braid_mailbox *box = braid_vm_mirror_section(m, BRAID_SECTION_MAILBOX);
	u64 steps = m->beat_seen - m->beat, elapsed_us = (now_ns - m->beat_ns) / 1000;
	u64 most = (2 * elapsed_us + 1000000) * (m->sb.counter_hz / 1000000 + 1);

	if (!steps)
		return false;
	box->guest_heartbeat = m->beat_seen;
	m->unbeaten_ns = steps <= most ? m->looked_ns : 0;
	m->beat = m->beat_seen;
	m->beat_ns = now_ns;
	return steps <= most;
}

/* A turn --------------------------------------------------------------------------------------- */

/* All that was copied in former turns. */
static bool vm_mirror_prove(struct braid_vm_mirror *m)
{
	bool any = false;
	size_t k;

	for (k = 0; k < m->nr_rings; k++)
		any |= braid_vm_ring_prove(&m->rings[k].r);
	m->proven = m->turn;
	m->staged = false;
	return any;
}

/* Each step of a turn uses what the step before it had read, and adds what is to be read next. */

/*
 * While nothing is copied, a turn begins with a brief look: each page costs a third of a
 * microsecond, each line of the cache a tenth. The beacon is needed to prove something, and before
 * anything is kept aside, which is the second look's; clock cells are needed if they may be copied.
 */
static void vm_mirror_begin_turn(struct braid_vm_mirror *m)
{
	size_t k;

	m->now_ns = braid_vm_mirror_now_ns();
	m->news = false;
	if (!m->brief || m->staged || m->now_ns - m->beacon_ns >= BEACON_NS) {
		vm_mirror_add_beacon(m, &m->now);
		m->beacon_ns = m->now_ns;
	}
	vm_mirror_add_head(m, &m->now);
	vm_mirror_add_beat(m);
	if (!m->brief || braid_vm_mirror_wants_cells(m))
		vm_mirror_add_cells(m, &m->now);
	for (k = 0; k < m->nr_rings; k++)
		braid_vm_ring_look(&m->rings[k].r, &m->batch, m->brief);
}

/* Return: whether a brief look shows that a thorough one is needed: the turn begins with that. */
static bool vm_mirror_begins_anew(struct braid_vm_mirror *m)
{
	bool any = m->now.buffers_seq != m->next.buffers_seq;
	size_t k;

	if (!m->brief)
		return false;
	for (k = 0; k < m->nr_rings && !any; k++)
		any = braid_vm_ring_has_news(&m->rings[k].r);
	if (!any)
		return false;
	m->brief = false;
	vm_mirror_begin_turn(m);
	return true;
}

/* Return: whether the turn goes on: in the same region, with the same table of buffers. */
static bool vm_mirror_first_look(struct braid_vm_mirror *m)
{
	size_t k;

	if (!vm_mirror_is_same(m, &m->now)) {
		braid_vm_mirror_gone(m, "the guest has freed it, or was reset");
		return false;
	}
	braid_vm_mirror_seek(m);
	for (k = 0; k < m->nr_rings; k++)
		m->news |= braid_vm_ring_lives(&m->rings[k].r);
	m->news |= vm_mirror_beats(m, m->now_ns);
	m->news = m->news && vm_mirror_prove(m);
	m->turn++;
	m->looked_ns = m->now_ns;
	m->begun_ns = m->begun_ns ? m->begun_ns : m->now_ns;
	if (m->now.region.state == BRAID_STATE_LIVE)
		m->live_ns = m->now_ns;
	braid_vm_mirror_follow_buffers(m);
	return m->now.buffers_seq == m->next.buffers_seq;
}

static bool vm_mirror_choose(struct braid_vm_mirror *m)
{
	size_t k;

	for (k = 0; k < m->nr_rings; k++) {
		if (m->rings[k].r.placed || m->rings[k].r.left)
			continue;
		braid_vm_mirror_place(m, &m->rings[k].r);
		/* At once: it is about to be lapped. */
		braid_vm_ring_look(&m->rings[k].r, &m->batch, false);
	}
	if (!braid_vm_mirror_read(m, m->now_ns))
		return false;
	for (k = 0; k < m->nr_rings; k++)
		braid_vm_ring_choose(&m->rings[k].r, &m->batch);
	return true;
}

static void vm_mirror_copy(struct braid_vm_mirror *m)
{
	size_t k;

	for (k = 0; k < m->nr_rings; k++)
		braid_vm_ring_copy(&m->rings[k].r, &m->batch);
}

/* The eighths of a ring, or of four turns' most, that this turn copies; 8: it may be lapped. */
static u32 vm_mirror_eighths(const struct braid_vm_ring *r)
{
	u32 most = r->map.nr_slots < 4 * BRAID_VM_RING_WINDOW ? r->map.nr_slots :
							       4 * BRAID_VM_RING_WINDOW;

	return r->left ? 0 : r->placed ? 8 * r->nr / most : 8;
}

/* Turns are as rare as the fastest ring permits: each costs several reads, whatever they bring. */
static void vm_mirror_pace(struct braid_vm_mirror *m)
{
	u64 longest_ns = m->now_ns - m->begun_ns < EARLY_NS ? EARLY_MAX_NS : REST_MAX_NS;
	u32 most = 0, eighths;
	size_t k;

	for (k = 0; k < m->nr_rings; k++) {
		eighths = vm_mirror_eighths(&m->rings[k].r);
		most = eighths > most ? eighths : most;
	}
	m->rest_ns = most >= 4 ? REST_MIN_NS : most > 1 ? m->rest_ns / 2 :
		     most ? m->rest_ns : 2 * m->rest_ns;
	if (m->rest_ns < REST_MIN_NS)
		m->rest_ns = REST_MIN_NS;
	if (m->rest_ns > longest_ns)
		m->rest_ns = longest_ns;
}

u64 braid_vm_mirror_rest_ns(const struct braid_vm_mirror *m)
{
	return m->rest_ns;
}

static bool vm_mirror_copies(const struct braid_vm_mirror *m)
{
	size_t k;

	for (k = 0; k < m->nr_rings; k++)
		if (m->rings[k].r.nr)
			return true;
	return false;
}

/* Return: whether a second look is needed. */
static bool vm_mirror_look_again(struct braid_vm_mirror *m)
{
	size_t k;

	braid_vm_mirror_note_copied(m);
	vm_mirror_pace(m);
	m->brief = !vm_mirror_copies(m);
	braid_vm_batch_then(&m->batch);
	if (m->brief && !braid_vm_mirror_cells_are_due(m) &&
	    m->now.region.state != BRAID_STATE_DOWN)
		return false;
	for (k = 0; k < m->nr_rings; k++)
		braid_vm_ring_again(&m->rings[k].r, &m->batch);
	vm_mirror_add_beacon(m, &m->then);
	vm_mirror_add_head(m, &m->then);
	vm_mirror_add_cells(m, &m->then);
	if (!m->brief || m->now.region.state == BRAID_STATE_DOWN ||
	    m->now_ns - m->tables_ns >= TABLES_NS)
		braid_vm_mirror_add_tables(m);
	return true;
}

/*
 * The guest writes no more. Its driver clears the beacons before it frees a page; a kernel that
 * reboots lives a while. What is found DOWN may be the remains of a kernel that was reset.
 */
static bool vm_mirror_down(struct braid_vm_mirror *m, bool copied)
{
	struct braid_superblock *sb = (struct braid_superblock *)m->mapping->base;
	bool any = m->live_ns && m->now_ns - m->live_ns < DOWN_NS && vm_mirror_prove(m);

	if (!copied)
		sb->state = BRAID_STATE_DOWN;
	else
		m->live_ns = m->live_ns ? m->now_ns : 0;
	return any;
}

static void vm_mirror_second_look(struct braid_vm_mirror *m)
{
	bool copied = !m->brief;
	size_t k;

	if (!vm_mirror_is_same(m, &m->then)) {
		braid_vm_mirror_gone(m, "the guest has freed it, or was reset");
		return;
	}
	for (k = 0; k < m->nr_rings; k++) {
		if (m->then.buffers_seq != m->next.buffers_seq)
			m->rings[k].r.nr = 0;	/* (R3) it may be another ring's */
		braid_vm_ring_stage(&m->rings[k].r);
	}
	m->staged |= copied;
	braid_vm_mirror_copy_tables(m, m->now_ns);
	if (m->now.region.state == BRAID_STATE_DOWN)
		m->news |= vm_mirror_down(m, copied);
}

/* Return: whether the turn has another step, once what is in the batch has been read. */
static bool vm_mirror_step(struct braid_vm_mirror *m)
{
	if (m->step && !braid_vm_mirror_read(m, m->now_ns))
		return false;
	switch (m->step++) {
	case BRAID_VM_BEGIN:
		vm_mirror_begin_turn(m);
		return true;
	case BRAID_VM_LOOKED:
		if (vm_mirror_begins_anew(m)) {
			m->step = BRAID_VM_LOOKED;
			return true;
		}
		return vm_mirror_first_look(m) && vm_mirror_choose(m);
	case BRAID_VM_CHOSEN:
		vm_mirror_copy(m);
		return vm_mirror_look_again(m);
	default:
		vm_mirror_second_look(m);
		return false;
	}
}

bool braid_vm_mirror_gather(struct braid_vm_mirror *m)
{
	while (!m->done && !m->mapping->gone) {
		m->done = !vm_mirror_step(m);
		if (braid_vm_batch_gather(&m->batch))
			return true;
	}
	return false;
}

bool braid_vm_mirror_pull(struct braid_vm_mirror *m)
{
	if (m->mapping->gone)
		return false;
	while (!m->done)
		m->done = !vm_mirror_step(m);
	m->done = false;
	m->step = BRAID_VM_BEGIN;
	return m->news;
}

void braid_vm_mirror_settle(struct braid_vm_mirror *m)
{
	const struct timespec step = { .tv_nsec = SETTLE_STEP_NS };
	u64 now_ns = braid_vm_mirror_now_ns(), end_ns = now_ns + 3000000ULL * BRAID_POLL_MS, turn;
	u32 turns = 0;

	if (now_ns - m->beat_ns < SILENT_NS)
		end_ns = now_ns + SILENT_NS;	/* it only waits for a CPU */
	if (m->step != BRAID_VM_BEGIN)	/* a turn that began before */
		braid_vm_mirror_pull(m);
	do	/* a turn copies a part of what a fast guest has written */
		braid_vm_mirror_pull(m);
	while (!m->brief && !m->mapping->gone && ++turns < SETTLE_TURNS);
	for (turn = m->turn; m->proven < turn && !m->mapping->gone && braid_vm_mirror_unproven(m) &&
	     braid_vm_mirror_now_ns() < end_ns; braid_vm_mirror_pull(m))
		nanosleep(&step, NULL);
}

void braid_vm_mirror_vouch(struct braid_vm_mirror *m, u64 since_ns)
{
	/* It lived after the look before that which showed the heartbeat. */
	if (!m->mapping->gone && m->step == BRAID_VM_BEGIN && since_ns < m->unbeaten_ns &&
	    m->now.region.state == BRAID_STATE_LIVE)
		vm_mirror_prove(m);
}

/* Open and close ------------------------------------------------------------------------------- */

u64 braid_vm_mirror_unproven(const struct braid_vm_mirror *m)
{
	u64 events = 0;
	size_t k;

	for (k = 0; k < m->nr_rings; k++)
		events += braid_vm_ring_unproven(&m->rings[k].r);
	return events;
}

struct braid_mapping *braid_vm_mirror_mapping(struct braid_vm_mirror *m)
{
	return m->mapping;
}

void braid_vm_mirror_close(struct braid_vm_mirror *m)
{
	size_t k;

	if (!m)
		return;
	for (k = 0; k < m->nr_rings; k++)
		braid_vm_ring_end(&m->rings[k].r);
	free(m->rings);
	free(m->slots);
	free(m->past);
	braid_vm_memory_close(&m->vm);
	free(m);
}

static int vm_mirror_begin(struct braid_vm_mirror *m, pid_t pid, const char *path,
			   const struct braid_vm_mirror *former)
{
	int err = braid_vm_mirror_find(m, path);

	if (err)
		return err;
	m->mapping = braid_mapping_private(m->sb.region_bytes, path);
	if (!m->mapping)
		return -ENOMEM;
	m->mapping->qemu_pid = pid;
	m->mapping->one_way = true;
	err = braid_vm_mirror_begin_buffers(m, former);
	if (!err)
		braid_vm_mirror_pull(m);
	if (!err && m->mapping->gone)
		err = braid_fail(-ENODATA, "%s: %s", path, m->mapping->gone);
	if (err)
		braid_mapping_close(m->mapping);
	return err;
}

int braid_vm_mirror_open(struct braid_vm_mirror **out, pid_t pid, const char *path,
			 const struct braid_vm_mirror *former)
{
	struct braid_vm_mirror *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return braid_out_of_memory();
	err = braid_vm_memory_open(&m->vm, pid);
	if (err) {
		free(m);
		return err;
	}
	m->batch.vm = &m->vm;
	m->batch.region = &m->region;
	err = vm_mirror_begin(m, pid, path, former);
	if (err) {
		braid_vm_mirror_close(m);
		return err;
	}
	*out = m;
	return 0;
}
