// SPDX-License-Identifier: GPL-2.0-or-later
/* Follows a guest's buffers as they come, move and go while they are recorded. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock/host.h"
#include "host_agent/source/region_private.h"
#include "host_agent/util/error.h"

static bool same_place(const struct braid_buffer_desc *a, const struct braid_buffer_desc *b)
{
	return a->layout == b->layout && a->rings_offset == b->rings_offset &&
	       a->ring_stride == b->ring_stride && a->nr_rings == b->nr_rings &&
	       a->nr_slots == b->nr_slots && a->subbuf_bytes == b->subbuf_bytes &&
	       !((a->flags ^ b->flags) & ~BRAID_BUFFER_CLOSING);
}

/* Ends all rings of a buffer. @walk: they are still where they were. */
static int end_rings(struct braid_region_source *s, u32 buffer, bool walk)
{
	size_t k = 0;
	int err;

	while (k < s->nr_rings) {
		struct braid_live_ring *ring = &s->rings[k];

		if (ring->buffer != buffer) {
			k++;
			continue;
		}
		err = braid_live_ring_end(s, ring, walk);
		if (err)
			return err;
		*ring = s->rings[--s->nr_rings];
	}
	return 0;
}

/* A CLOSING buffer: what is there now is taken, beside the others, before it is let go of. */
static void begin_closing(struct braid_region_source *s, u32 buffer)
{
	size_t k;

	for (k = 0; k < s->nr_rings; k++)
		if (s->rings[k].buffer == buffer)
			s->rings[k].rest_bytes = braid_live_ring_bytes(&s->rings[k]);
	s->follow[buffer] = BRAID_FOLLOW_CLOSING;
}

/* Which CLOSING buffers are not empty yet. One walk for all: there may be very many rings. */
static void find_unemptied(const struct braid_region_source *s, bool unemptied[BRAID_MAX_BUFFERS])
{
	size_t k;

	for (k = 0; k < s->nr_rings; k++)
		if (s->rings[k].rest_bytes)
			unemptied[s->rings[k].buffer] = true;
}

static bool is_closing(const struct braid_region_source *s)
{
	u32 k;

	for (k = 0; k < BRAID_MAX_BUFFERS; k++)
		if (s->follow[k] == BRAID_FOLLOW_CLOSING)
			return true;
	return false;
}

/* Says to the guest that its buffers are as it wants them, once none is being emptied. */
static void tell_guest(struct braid_region_source *s)
{
	struct braid_mailbox *box =
		braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_MAILBOX);

	if (!is_closing(s) && braid_live_settled(s))
		braid_store_release(&box->agent_buffers_seq, s->sb.buffers_seq);	/* (B4) */
}

int braid_live_close(struct braid_region_source *s)
{
	bool unemptied[BRAID_MAX_BUFFERS] = { false }, any = false;
	int err = 0;
	u32 k;

	if (!is_closing(s) || !braid_live_settled(s))
		return 0;	/* the next look at the buffers sees */
	find_unemptied(s, unemptied);
	for (k = 0; k < BRAID_MAX_BUFFERS && !err; k++) {
		if (s->follow[k] != BRAID_FOLLOW_CLOSING || unemptied[k])
			continue;
		err = end_rings(s, k, true);
		s->follow[k] = BRAID_FOLLOW_CLOSED;
		any = true;
	}
	if (any && !err)
		tell_guest(s);
	return err;
}

static int open_buffer(struct braid_region_source *s, u32 buffer, bool tell)
{
	struct braid_chunk_buffer chunk = { .index = buffer, .desc = s->sb.buffers[buffer] };
	u32 vcpu;
	int err = 0;

	if (tell)
		err = braid_live_emit(s, BRAID_CHUNK_BUFFER, &chunk, sizeof(chunk), NULL, 0);
	s->follow[buffer] = BRAID_FOLLOW_RINGS;
	s->buffer_came = true;
	for (vcpu = 0; vcpu < s->sb.buffers[buffer].nr_rings && !err; vcpu++)
		err = braid_live_ring_add(s, buffer, vcpu);
	return err;
}

/* Does what the copy of the superblock asks for, and says so to the guest. */
static int act(struct braid_region_source *s, bool tell)
{
	int err = 0;
	u32 k;

	for (k = 0; k < s->sb.nr_buffers && !err; k++) {
		const struct braid_buffer_desc *desc = &s->sb.buffers[k];
		bool closing = desc->flags & BRAID_BUFFER_CLOSING;

		if (!desc->nr_rings || !braid_live_follows(s) ||
		    (s->o.buffer && strcmp(desc->name, s->o.buffer)))
			continue;
		if (s->follow[k] == BRAID_FOLLOW_NOT ||
		    (s->follow[k] == BRAID_FOLLOW_CLOSED && !closing))
			err = open_buffer(s, k, tell);
		if (!err && closing && s->follow[k] == BRAID_FOLLOW_RINGS)
			begin_closing(s, k);
		if (!closing && s->follow[k] == BRAID_FOLLOW_CLOSING)
			s->follow[k] = BRAID_FOLLOW_RINGS;	/* it stays after all */
	}
	if (!err)
		tell_guest(s);
	return err;
}

int braid_live_attach(struct braid_region_source *s)
{
	int err;

	s->nr_rings = s->nr_accounted = s->nr_quiet = 0;
	s->first_ring = s->next_role = 0;
	s->refused_seq = s->sb.buffers_seq;
	s->down = s->sb.state == BRAID_STATE_DOWN;
	memset(s->follow, 0, sizeof(s->follow));
	free(s->untold);
	s->untold = calloc((size_t)BRAID_MAX_BUFFERS * s->sb.nr_vcpus, sizeof(*s->untold));
	if (!s->untold)
		return s->fatal = braid_fail(-ENOMEM, "no memory for %u vCPUs", s->sb.nr_vcpus);
	err = act(s, false);
	if (err || !s->o.buffer || s->buffer_came || s->told_no_buffer)
		return err;
	s->told_no_buffer = true;
	return braid_live_note(s, "buffer '%s' does not exist yet: recording starts when it appears",
			       s->o.buffer);
}

int braid_live_buffers(struct braid_region_source *s, bool now)
{
	u32 seq = braid_mapping_buffers_seq(s->mapping), k;
	struct braid_superblock next = s->sb;
	int err;

	if (seq == s->sb.buffers_seq || seq == s->refused_seq)
		return 0;
	if (!now && !braid_rate_allows(&s->layouts, braid_host_clock_ns(), BRAID_LAYOUTS_A_SECOND))
		return -EAGAIN;
	err = braid_mapping_buffers(s->mapping, &next);
	if (err == -EAGAIN && (s->silent || s->down)) {
		s->refused_seq = seq;	/* it died meanwhile: what we know holds */
		return 0;
	}
	s->layouts.nr += err != -EAGAIN;
	if (err == -EBADMSG) {
		s->refused_seq = seq;
		return braid_live_note(s, "its buffer changes are not followed: %s",
				       braid_failure());
	}
	if (err)
		return err;
	for (k = 0; k < BRAID_MAX_BUFFERS; k++) {
		if (k < next.nr_buffers && next.buffers[k].nr_rings &&
		    same_place(&s->sb.buffers[k], &next.buffers[k]))
			continue;
		/* If it was not CLOSING before, the guest did not wait for us. */
		err = s->follow[k] == BRAID_FOLLOW_NOT ? 0 : end_rings(s, k, false);
		if (err)
			return err;
		s->follow[k] = BRAID_FOLLOW_NOT;
	}
	s->sb = next;
	s->refused_seq = next.buffers_seq;
	return act(s, true);
}
