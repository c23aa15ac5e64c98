// SPDX-License-Identifier: GPL-2.0-or-later
/* The reader role on a guest's rings: taken, lost, released, with the accounts of what was read. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/live/account.h"
#include "host_agent/live/rings.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define CHECK_NS		20000000ULL	/* interval of checks of a ring that the guest reads */

bool braid_live_settled(const struct braid_live_rings *r, const struct braid_live_stream *s)
{
	u32 seq = braid_mapping_buffers_seq(s->mapping);

	return seq == s->sb.buffers_seq || seq == r->refused_seq;
}

/* Recording off in the guest: a time without events and losses -------------------------------- */

static struct braid_live_off *off_of(const struct braid_live_rings *r,
				     const struct braid_live_stream *s, u32 buffer, u32 vcpu)
{
	return &r->off[(size_t)buffer * s->sb.nr_vcpus + vcpu];
}

void braid_live_off_take(struct braid_live_rings *r, const struct braid_live_stream *s,
			 const struct braid_live_ring *ring)
{
	struct braid_live_off *off = off_of(r, s, ring->buffer, ring->vcpu);
	struct braid_ring_off now;

	if (!s->o.window || !braid_live_takes(s) || s->stopped)
		return;
	now = braid_ring_off(&ring->reader.map);
	if (!now.known)
		return;
	if (!off->known) {
		off->times = now.now;
	} else if (now.times < off->last_times || now.steps < off->last_steps) {
		off->times += now.times;	/* of another buffer of the same name */
		off->steps += now.steps;
	} else {
		off->times += now.times - off->last_times;
		off->steps += now.steps - off->last_steps;
	}
	off->known = true;
	off->last_times = now.times;
	off->last_steps = now.steps;
}

/* Of a buffer's rings, those that were off. */
struct span {
	u32 nr;
	struct braid_live_off least, most;
};

static struct span span_of(const struct braid_live_rings *r, const struct braid_live_stream *s,
			   u32 buffer)
{
	struct span span = { .least = { .times = ~0ULL, .steps = ~0ULL } };
	u32 vcpu;

	for (vcpu = 0; vcpu < s->sb.nr_vcpus; vcpu++) {
		const struct braid_live_off *off = off_of(r, s, buffer, vcpu);

		if (!off->times)
			continue;
		span.nr++;
		if (off->times < span.least.times)
			span.least.times = off->times;
		if (off->times > span.most.times)
			span.most.times = off->times;
		if (off->steps < span.least.steps)
			span.least.steps = off->steps;
		if (off->steps > span.most.steps)
			span.most.steps = off->steps;
	}
	return span;
}

static int note_buffer(struct braid_live_stream *s, u32 buffer, const struct span *span)
{
	u64 least_ns = braid_ring_off_ns(span->least.steps, s->sb.counter_hz);
	u64 most_ns = braid_ring_off_ns(span->most.steps, s->sb.counter_hz);
	/* One switch of all rings turns off one after another. */
	bool differ = span->least.times != span->most.times || most_ns - least_ns > 1000000;
	char where[64] = "";

	if (span->nr < s->sb.nr_vcpus)
		snprintf(where, sizeof(where), " on %u of %u vCPUs", span->nr, s->sb.nr_vcpus);
	return braid_live_note(s, "recording into buffer %s was off in the guest%s %s%llu time%s, for %s%.6f s: events of that time are neither recorded nor counted as lost",
			       braid_live_buffer_name(s, buffer).text, where,
			       differ ? "up to " : "", (unsigned long long)span->most.times,
			       span->most.times == 1 ? "" : "s", differ ? "up to " : "",
			       (double)most_ns / 1e9);
}

int braid_live_off_note(const struct braid_live_rings *r, struct braid_live_stream *s)
{
	struct span span;
	u32 buffer;
	int err = 0;

	for (buffer = 0; buffer < s->sb.nr_buffers && r->off && !err; buffer++) {
		span = span_of(r, s, buffer);
		if (span.nr)
			err = note_buffer(s, buffer, &span);
	}
	return err;
}

/* Role ------------------------------------------------------------------------------- */

bool braid_live_ring_ours(const struct braid_live_ring *ring)
{
	return braid_load(&ring->reader.map.priv->reader_owner) == BRAID_READER_HOST;
}

/*
 * NONE is free, HOST a dead agent's: we hold the file's lock. Any other value, also an invalid one,
 * means the guest, until the guest is known not to run.
 */
static bool is_guests(const struct braid_live_stream *s, u64 word)
{
	return word != BRAID_READER_NONE && word != BRAID_READER_HOST && !s->silent && !s->down;
}

static bool take_role(struct braid_live_stream *s, struct braid_live_ring *ring)
{
	const struct braid_ring_map *map = &ring->reader.map;
	u64 word = braid_load(&map->priv->reader_owner);

	return !is_guests(s, word) && braid_reader_own(map, BRAID_READER_HOST, word);
}

static void give_role(struct braid_live_ring *ring)
{
	if (ring->hold == BRAID_HOLD_OURS)
		braid_reader_disown(&ring->reader.map, BRAID_READER_HOST);
	ring->hold = BRAID_HOLD_GUEST;
}

int braid_live_ring_give_up(struct braid_live_stream *s, struct braid_live_ring *ring,
			    enum braid_reader_fault fault, const char *why)
{
	give_role(ring);	/* a guest reader may keep it */
	ring->hold = BRAID_HOLD_DEAD;
	ring->reader.fault = fault;
	return braid_live_note(s, "ring %u of buffer %s violated the protocol and is no longer read: %s",
			       ring->vcpu, braid_live_buffer_name(s, ring->buffer).text, why);
}

void braid_live_ring_release(struct braid_live_rings *r)
{
	size_t k;

	for (k = 0; k < r->nr_rings; k++)
		give_role(&r->rings[k]);
}

static int leave_to_guest(struct braid_live_stream *s, struct braid_live_ring *ring)
{
	u64 word = braid_load(&ring->reader.map.priv->reader_owner);

	ring->hold = BRAID_HOLD_GUEST;
	ring->check_due_ns = braid_host_clock_ns() + CHECK_NS;
	if (ring->reported_guest)
		return 0;
	ring->reported_guest = true;
	if (word > BRAID_READER_GUEST)
		return braid_live_note(s, "ring %u of buffer %s has invalid reader id %llu: not read until the id is valid or the guest is silent",
				       ring->vcpu, braid_live_buffer_name(s, ring->buffer).text,
				       (unsigned long long)word);
	return braid_live_note(s, "ring %u of buffer %s is being read in the guest; events read there are not recorded",
			       ring->vcpu, braid_live_buffer_name(s, ring->buffer).text);
}

/*
 * A torn list of buffers must not lead to a false ring. A ring that the guest is emptying is
 * temporarily invalid, with the guest as its reader.
 */
static bool is_ring(const struct braid_live_stream *s, const struct braid_live_ring *ring)
{
	const struct braid_ring_map *map = &ring->reader.map;

	return braid_load(&map->priv->incarnation) == s->sb.incarnation &&
	       braid_load(&map->priv->buffer) == ring->buffer &&
	       braid_load(&map->priv->vcpu) == ring->vcpu &&
	       braid_load(&map->priv->nr_slots) == map->nr_slots;
}

static struct braid_live_unreported *unreported_of(struct braid_live_rings *r,
						   const struct braid_live_stream *s,
						   const struct braid_live_ring *ring)
{
	return &r->unreported[(size_t)ring->buffer * s->sb.nr_vcpus + ring->vcpu];
}

/* Later reads get an account of their own, which begins with the reader's present counts. */
static void begin_part(struct braid_live_rings *r, const struct braid_live_stream *s,
		       struct braid_live_ring *ring)
{
	struct braid_live_unreported *unreported = unreported_of(r, s, ring);
	s64 unknown = (s64)(unreported->next_seq - ring->reader.next_seq);

	ring->began_seq = ring->reader.next_seq;
	ring->began_read = ring->reader.read;
	ring->began_lost = ring->reported_lost = ring->reader.lost;
	/* Losses not yet in the reader block are detected again. */
	if (unreported->lost && unknown > 0)
		unreported->lost -= (u64)unknown < unreported->lost ? (u64)unknown :
								       unreported->lost;
	ring->reported_lost -= unreported->lost;
	unreported->lost = 0;
}

/* Our part of a ring has ended: losses not in its pages are left to the next part. */
static void keep_unreported(struct braid_live_rings *r, const struct braid_live_stream *s,
			    const struct braid_live_ring *ring)
{
	struct braid_live_unreported *unreported = unreported_of(r, s, ring);

	if (ring->hold == BRAID_HOLD_GUEST)
		return;
	unreported->lost = (s64)(ring->reader.lost - ring->reported_lost) > 0 ?
		       ring->reader.lost - ring->reported_lost : 0;
	unreported->next_seq = ring->reader.next_seq;
}

/* A ring that can't be read: events read before are not reported twice. */
static int give_up_early(struct braid_live_rings *r, struct braid_live_stream *s,
			 struct braid_live_ring *ring, const char *why)
{
	begin_part(r, s, ring);
	return braid_live_ring_give_up(s, ring, BRAID_READER_BAD_SLOT, why);
}

static int attach(struct braid_live_rings *r, struct braid_live_stream *s,
		  struct braid_live_ring *ring)
{
	struct braid_ring_map map = ring->reader.map;

	braid_live_off_take(r, s, ring);
	if (s->stopped) {
		ring->check_due_ns = ~0ULL;
		return 0;
	}
	if (is_guests(s, braid_load_acquire(&map.priv->reader_owner)))	/* (O1) */
		return leave_to_guest(s, ring);
	if (!is_ring(s, ring) && !braid_mapping_same(s->mapping, s->sb.incarnation))
		return -ESTALE;
	if (!is_ring(s, ring) && !braid_live_settled(r, s))
		return 0;	/* it is removed again: handled at the next check of the buffers */
	if (!is_ring(s, ring))
		return give_up_early(r, s, ring, s->o.dead_ns ? "its ring header is invalid" :
				     "its memory is that of another ring");
	if (!take_role(s, ring))
		return leave_to_guest(s, ring);
	ring->hold = BRAID_HOLD_OURS;
	if (braid_reader_attach(&ring->reader, &map, s->sb.incarnation)) {
		give_role(ring);
		return give_up_early(r, s, ring, "invalid slot word");
	}
	begin_part(r, s, ring);
	if (ring->from.set && (s64)(ring->reader.next_seq - ring->from.seq) >= 0)
		ring->from.set = false;		/* the guest read all of before */
	ring->tail_ns = 0;
	ring->took_extent = false;
	if (!ring->reported_guest || ring->reported_ours)
		return 0;
	ring->reported_ours = true;
	return braid_live_note(s, "ring %u of buffer %s is recorded from here on", ring->vcpu,
			       braid_live_buffer_name(s, ring->buffer).text);
}

int braid_live_ring_add(struct braid_live_rings *r, struct braid_live_stream *s, u32 buffer,
			u32 vcpu)
{
	struct braid_live_ring ring = { .buffer = buffer, .vcpu = vcpu };

	braid_mapping_ring(s->mapping, &s->sb, buffer, vcpu, &ring.reader.map);
	if (braid_array_push(r->rings, r->nr_rings, r->capacity, ring))
		return s->fatal = braid_out_of_memory();
	return attach(r, s, &r->rings[r->nr_rings - 1]);
}

int braid_live_ring_roles(struct braid_live_rings *r, struct braid_live_stream *s, bool all)
{
	size_t nr = all || r->nr_rings < BRAID_TURN_RINGS ? r->nr_rings : BRAID_TURN_RINGS, k;
	u64 now_ns = 0;
	int err = 0;

	for (k = 0; k < nr && !err; k++) {
		struct braid_live_ring *ring = &r->rings[r->next_role++ % r->nr_rings];

		braid_live_off_take(r, s, ring);
		if (ring->hold != BRAID_HOLD_GUEST)
			continue;
		now_ns = now_ns ? now_ns : braid_host_clock_ns();
		if (s->down || now_ns >= ring->check_due_ns)
			err = attach(r, s, ring);
	}
	return err;
}

/* Accounting ------------------------------------------------------------------------- */

static int region_rings_put_end(struct braid_live_rings *r, struct braid_live_stream *s,
				const struct braid_live_ring *ring,
				struct braid_chunk_ring_end *end)
{
	struct braid_region_sums *sums = &r->sums;

	sums->written += end->written;
	sums->read_before += end->read_before;
	sums->read += end->read - end->read_before;
	sums->lost_before += end->lost_before;
	sums->lost += end->lost - end->lost_before;
	sums->left += end->left;
	end->buffer = ring->buffer;
	end->vcpu = ring->vcpu;
	return braid_live_emit(s, BRAID_CHUNK_RING_END, end, sizeof(*end), NULL, 0);
}

/* Walks the ring. Returns 1 when its counts are valid, 0, or the capture's error. */
static int walk_ring(struct braid_live_stream *s, struct braid_live_ring *ring,
		     struct braid_chunk_ring_end *end)
{
	struct braid_ring_account a;

	if (braid_ring_account(&a, &ring->reader.map, s->mapping, s->sb.incarnation, NULL, NULL))
		return 0;
	if (*a.fault)
		return braid_live_note(s, "ring %u of buffer %s does not add up: %s", ring->vcpu,
				       braid_live_buffer_name(s, ring->buffer).text, a.fault);
	if (ring->hold == BRAID_HOLD_GUEST) {
		if (a.moving)
			return 0;
		end->first_seq = a.next_seq;	/* none of it is ours */
		end->read_before = a.read;
		end->lost_before = a.lost;
		end->before = a.read + a.lost;
		end->left_within = a.left;
	}
	end->written = a.written;
	end->read = a.read;
	end->lost = a.lost;
	end->left = a.left;
	end->broken = a.broken;
	return 1;
}

static u64 at_least_0(u64 difference)
{
	return (s64)difference > 0 ? difference : 0;
}

/* Splits a RING_END by start and stop; written, read, lost and left are filled in. */
static void split_end(const struct braid_live_stream *s, const struct braid_live_ring *ring,
		      struct braid_chunk_ring_end *end)
{
	const struct braid_reader *r = &ring->reader;
	u64 first = r->next_seq - r->read - r->lost, last = first + end->written;
	u64 start = end->first_seq, stop = last, read, next;

	if (!braid_live_takes(s)) {	/* it ended before the recording began */
		start = end->first_seq = last;
		end->read_before = end->read;
		end->lost_before = end->lost;
	} else if (ring->from.set) {	/* it ended before all was skipped */
		start = end->first_seq = ring->from.seq;
		end->read_before = end->read;
		end->lost_before = end->lost;
	}
	if (ring->to.set && (s64)(last - ring->to.seq) > 0)
		stop = ring->to.seq;
	read = end->read - end->read_before;
	next = (s64)(r->next_seq - start) > 0 ? r->next_seq : start;
	end->before = start - first;
	end->after = at_least_0(last - stop);
	end->left_within = at_least_0(stop - next);
	if (end->left_within > end->left)
		end->left_within = end->left;
	end->lost_within = at_least_0(stop - start - read - end->left_within);
}

int braid_live_ring_end(struct braid_live_rings *r, struct braid_live_stream *s,
			struct braid_live_ring *ring, bool walk)
{
	struct braid_chunk_ring_end end = {
		.first_seq = ring->began_seq,
		.fault = ring->reader.fault,
		/* The reader's own counts, for a ring that can't be walked. */
		.written = ring->reader.read + ring->reader.lost,
		.read = ring->reader.read,
		.lost = ring->reader.lost,
		.read_before = ring->began_read,
		.lost_before = ring->began_lost,
	};
	bool guests = ring->hold == BRAID_HOLD_GUEST;
	/*
	 * Another reader took the role while we wrote: the ring's state is now its responsibility.
	 */
	bool taken = walk && ring->hold == BRAID_HOLD_OURS && !braid_live_ring_ours(ring);
	int ret = 0;

	if (walk)
		braid_live_off_take(r, s, ring);
	if (walk && !taken && ring->hold != BRAID_HOLD_DEAD)
		ret = walk_ring(s, ring, &end);
	if (ret < 0)
		return ret;
	if (!guests)
		split_end(s, ring, &end);
	ret = guests && !ret ? 0 : region_rings_put_end(r, s, ring, &end);
	r->lost += guests ? 0 : end.lost_within;
	keep_unreported(r, s, ring);
	if (walk)
		give_role(ring);
	ring->hold = BRAID_HOLD_GUEST;
	return ret;
}

int braid_live_ring_lose(struct braid_live_rings *r, struct braid_live_stream *s,
			 struct braid_live_ring *ring)
{
	int err = braid_live_ring_end(r, s, ring, false);

	return err ? err : leave_to_guest(s, ring);
}

int braid_live_account(struct braid_live_rings *r, struct braid_live_stream *s, bool walk)
{
	int err = 0;

	while (r->nr_accounted < r->nr_rings && !err) {
		struct braid_live_ring *ring = &r->rings[r->nr_accounted];

		err = braid_live_ring_end(r, s, ring, walk);
		r->nr_accounted++;
	}
	return err;
}

u64 braid_live_lost(const struct braid_live_rings *r, const struct braid_live_stream *s)
{
	u64 lost = 0;
	size_t k;

	for (k = 0; k < r->nr_rings; k++) {
		const struct braid_live_ring *ring = &r->rings[k];
		s64 more = (s64)(ring->reader.lost - ring->began_lost);

		if (ring->hold != BRAID_HOLD_GUEST && braid_live_takes(s) && !ring->from.set)
			lost += more > 0 ? more : 0;
	}
	return lost;
}

s64 braid_live_ring_bytes(const struct braid_live_ring *ring)
{
	const struct braid_ring_map *map = &ring->reader.map;

	return (s64)(map->nr_slots + 1) * (map->subbuf_bytes + sizeof(struct braid_chunk_page));
}

s64 braid_live_rings_bytes(const struct braid_live_rings *r)
{
	s64 bytes = 0;
	size_t k;

	for (k = 0; k < r->nr_rings; k++)
		bytes += braid_live_ring_bytes(&r->rings[k]);
	return bytes;
}

u64 braid_live_complete(const struct braid_live_rings *r)
{
	u64 ns = BRAID_TAKEN_UNKNOWN;
	size_t k;

	for (k = 0; k < r->nr_rings; k++)
		if (r->rings[k].hold == BRAID_HOLD_OURS && r->rings[k].complete_ns < ns)
			ns = r->rings[k].complete_ns;
	return ns;
}

void braid_live_rings_free(struct braid_live_rings *r)
{
	free(r->rings);
	free(r->unreported);
	free(r->off);
	r->rings = NULL;
	r->unreported = NULL;
	r->off = NULL;
}
