// SPDX-License-Identifier: GPL-2.0-or-later
/* Follows a guest's buffers while they are added, moved and removed during a recording. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/live/rings.h"
#include "host_agent/util/error.h"

/* Ends all rings of a buffer. @walk: they are still where they were. */
static int end_rings(struct braid_live_rings *r, struct braid_live_stream *s, u32 buffer,
		     bool walk)
{
	size_t k = 0;
	int err;

	while (k < r->nr_rings) {
		struct braid_live_ring *ring = &r->rings[k];

		if (ring->buffer != buffer) {
			k++;
			continue;
		}
		err = braid_live_ring_end(r, s, ring, walk);
		if (err)
			return err;
		*ring = r->rings[--r->nr_rings];
	}
	return 0;
}

/* A CLOSING buffer: its current events are read, besides the others', before it is released. */
static void begin_closing(struct braid_live_rings *r, u32 buffer)
{
	size_t k;

	for (k = 0; k < r->nr_rings; k++)
		if (r->rings[k].buffer == buffer)
			r->rings[k].rest_bytes = braid_live_ring_bytes(&r->rings[k]);
	r->follow[buffer] = BRAID_FOLLOW_CLOSING;
}

/* Which CLOSING buffers are not empty yet. One walk for all: there may be very many rings. */
static void find_unemptied(const struct braid_live_rings *r, bool unemptied[BRAID_MAX_BUFFERS])
{
	size_t k;

	for (k = 0; k < r->nr_rings; k++)
		if (r->rings[k].rest_bytes)
			unemptied[r->rings[k].buffer] = true;
}

static bool is_closing(const struct braid_live_rings *r)
{
	u32 k;

	for (k = 0; k < BRAID_MAX_BUFFERS; k++)
		if (r->follow[k] == BRAID_FOLLOW_CLOSING)
			return true;
	return false;
}

/* Acknowledges the guest's change of buffers, once none is being drained. */
static void acknowledge(const struct braid_live_rings *r, struct braid_live_stream *s)
{
	struct braid_mailbox *box =
		braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_MAILBOX);

	if (!is_closing(r) && braid_live_settled(r, s))
		braid_store_release(&box->agent_buffers_seq, s->sb.buffers_seq);	/* (B4) */
}

int braid_live_close(struct braid_live_rings *r, struct braid_live_stream *s)
{
	bool unemptied[BRAID_MAX_BUFFERS] = { false }, any = false;
	int err = 0;
	u32 k;

	if (!is_closing(r) || !braid_live_settled(r, s))
		return 0;	/* handled at the next check of the buffers */
	find_unemptied(r, unemptied);
	for (k = 0; k < BRAID_MAX_BUFFERS && !err; k++) {
		if (r->follow[k] != BRAID_FOLLOW_CLOSING || unemptied[k])
			continue;
		err = end_rings(r, s, k, true);
		r->follow[k] = BRAID_FOLLOW_CLOSED;
		any = true;
	}
	if (any && !err)
		acknowledge(r, s);
	return err;
}

static int open_buffer(struct braid_live_rings *r, struct braid_live_stream *s, u32 buffer,
		       bool note)
{
	struct braid_chunk_buffer chunk = { .index = buffer, .desc = s->sb.buffers[buffer] };
	u32 vcpu;
	int err = 0;

	if (note)
		err = braid_live_emit(s, BRAID_CHUNK_BUFFER, &chunk, sizeof(chunk), NULL, 0);
	r->follow[buffer] = BRAID_FOLLOW_RINGS;
	r->buffer_came = true;
	for (vcpu = 0; vcpu < s->sb.buffers[buffer].nr_rings && !err; vcpu++)
		err = braid_live_ring_add(r, s, buffer, vcpu);
	return err;
}

/* It is gone, so no later event shows how many. */
static int note_cut_off(struct braid_live_stream *s, u32 buffer)
{
	return braid_live_note(s, "buffer %s was freed in the guest before all of its events were surely copied: an unknown number of the last ones may be missing",
			       s->sb.buffers[buffer].name);
}

/* Acts on the copy of the superblock, and acknowledges to the guest. */
static int act(struct braid_live_rings *r, struct braid_live_stream *s, bool note)
{
	int err = 0;
	u32 k;

	for (k = 0; k < s->sb.nr_buffers && !err; k++) {
		const struct braid_buffer_desc *desc = &s->sb.buffers[k];
		bool closing = desc->flags & BRAID_BUFFER_CLOSING;

		if (!desc->nr_rings || !r->follows ||
		    (s->o.buffer && strcmp(desc->name, s->o.buffer)))
			continue;
		if (r->follow[k] == BRAID_FOLLOW_NOT ||
		    (r->follow[k] == BRAID_FOLLOW_CLOSED && !closing))
			err = open_buffer(r, s, k, note);
		if (!err && closing && r->follow[k] == BRAID_FOLLOW_RINGS)
			begin_closing(r, k);
		if (!closing && r->follow[k] == BRAID_FOLLOW_CLOSING)
			r->follow[k] = BRAID_FOLLOW_RINGS;	/* it is kept */
	}
	if (!err)
		acknowledge(r, s);
	return err;
}

int braid_live_attach(struct braid_live_rings *r, struct braid_live_stream *s, bool follow)
{
	int err;

	r->nr_rings = r->nr_accounted = r->nr_quiet = 0;
	r->first_ring = r->next_role = 0;
	r->refused_seq = s->sb.buffers_seq;
	r->follows = follow && !s->o.clock_only;
	s->down = s->sb.state == BRAID_STATE_DOWN;
	memset(r->follow, 0, sizeof(r->follow));
	free(r->unreported);
	free(r->off);
	r->unreported = calloc((size_t)BRAID_MAX_BUFFERS * s->sb.nr_vcpus, sizeof(*r->unreported));
	r->off = calloc((size_t)BRAID_MAX_BUFFERS * s->sb.nr_vcpus, sizeof(*r->off));
	if (!r->unreported || !r->off)
		return s->fatal = braid_fail(-ENOMEM, "no memory for %u vCPUs", s->sb.nr_vcpus);
	err = act(r, s, false);
	if (err || !s->o.buffer || r->buffer_came || r->reported_no_buffer)
		return err;
	r->reported_no_buffer = true;
	return braid_live_note(s, "buffer '%s' does not exist yet: recording starts when it appears",
			       s->o.buffer);
}

void braid_live_detach(struct braid_live_rings *r, const struct braid_live_stream *s)
{
	r->lost += braid_live_lost(r, s);
	r->nr_rings = 0;
	r->follows = false;
	memset(r->follow, 0, sizeof(r->follow));
}

int braid_live_buffers(struct braid_live_rings *r, struct braid_live_stream *s, bool now)
{
	u32 seq = braid_mapping_buffers_seq(s->mapping), k;
	struct braid_superblock next = s->sb;
	int err;

	if (seq == s->sb.buffers_seq || seq == r->refused_seq)
		return 0;
	if (!now && !braid_rate_allows(&r->layouts, braid_host_clock_ns(), BRAID_LAYOUTS_A_SECOND))
		return -EAGAIN;
	err = braid_mapping_buffers(s->mapping, &next);
	if (err == -EAGAIN && (s->silent || s->down)) {
		r->refused_seq = seq;	/* it died meanwhile: what we know holds */
		return 0;
	}
	r->layouts.nr += err != -EAGAIN;
	if (err == -EBADMSG) {
		r->refused_seq = seq;
		return braid_live_note(s, "changes of its buffers are not followed: %s",
				       braid_failure());
	}
	if (err)
		return err;
	for (k = 0; k < BRAID_MAX_BUFFERS; k++) {
		if (k < next.nr_buffers && next.buffers[k].nr_rings &&
		    braid_mapping_same_place(&s->sb.buffers[k], &next.buffers[k]))
			continue;
		/* If it was not CLOSING before, the guest did not wait for us. */
		err = r->follow[k] == BRAID_FOLLOW_NOT ? 0 : end_rings(r, s, k, false);
		if (!err && r->follow[k] != BRAID_FOLLOW_NOT && s->mapping->cut_off >> k & 1)
			err = note_cut_off(s, k);
		s->mapping->cut_off &= ~(1u << k);
		if (err)
			return err;
		r->follow[k] = BRAID_FOLLOW_NOT;
	}
	s->sb = next;
	r->refused_seq = next.buffers_seq;
	return act(r, s, true);
}

u32 braid_live_fill(const struct braid_live_rings *r, const struct braid_live_stream *s)
{
	u32 k, permille, most = 0;

	for (k = 0; k < s->sb.nr_buffers; k++) {
		const struct braid_buffer_desc *desc = &s->sb.buffers[k];
		/* A flight recorder reads no ring until a snapshot is taken. */
		bool wanted = s->o.flight ?
			      !s->o.buffer || !strcmp(desc->name, s->o.buffer) :
			      r->follow[k] != BRAID_FOLLOW_NOT;

		permille = wanted && desc->nr_rings ?
			   braid_mapping_fill(s->mapping, &s->sb, k) : 0;
		if (permille > most)
			most = permille;
	}
	return most;
}
