// SPDX-License-Identifier: GPL-2.0-or-later
/* A stream's notes: those of the capture, those of its clock, and the cursor over all. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/capture_private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/text.h"

#define MAX_CHANGES	512u	/* reported per clock; no clock changes that often */

int braid_capture_add_note(struct braid_capture_stream *s, u64 host_ns, const char *text,
			   size_t bytes)
{
	struct braid_note note = { .host_ns = host_ns, .order = s->nr_notes };

	if (s->nr_notes >= BRAID_MAX_TABLE)
		return 0;
	note.text = strndup(text, bytes);
	if (!note.text)
		return -ENOMEM;
	braid_text_clean(note.text);
	if (braid_array_push(s->notes, s->nr_notes, s->notes_capacity, note)) {
		free(note.text);
		return -ENOMEM;
	}
	return 0;
}

int braid_capture_take_note(struct braid_capture_stream *s, const struct braid_chunk_view *v)
{
	struct braid_chunk_note head;
	u32 at = 0;

	return !braid_view_take(v, &at, &head, sizeof(head)) ? 0 :
	       braid_capture_add_note(s, head.host_ns, (const char *)v->payload + at, v->bytes - at);
}

static int capture_notes_by_time(const void *a, const void *b)
{
	const struct braid_note *x = a, *y = b;

	return braid_compare(x->host_ns, y->host_ns) ?: braid_compare(x->order, y->order);
}

/* Notes of a clock --------------------------------------------------------------------------- */

/* An epoch's beginning, of one vCPU or of several alike. */
struct change {
	const struct braid_clock_epoch *e;
	u32 last_vcpu;
	u32 nr_vcpus;
};

/* "2.013 s", "3.2 ms" */
void braid_capture_put_duration(struct braid_text *t, u64 ns)
{
	if (ns >= 1000000000)
		braid_text_printf(t, "%.3f s", ns / 1e9);
	else if (ns >= 1000000)
		braid_text_printf(t, "%.1f ms", ns / 1e6);
	else if (ns >= 1000)
		braid_text_printf(t, "%.1f µs", ns / 1e3);
	else
		braid_text_printf(t, "%llu ns", (unsigned long long)ns);
}

static bool is_alike(const struct braid_clock_epoch *a, const struct braid_clock_epoch *b)
{
	return a->cause == b->cause && a->disrupted == b->disrupted &&
	       a->from_ns <= b->begun_ns && b->from_ns <= a->begun_ns;
}

/* @vcpus: how many have this track. */
static u32 take_change(struct change *changes, u32 nr, const struct braid_clock_epoch *e, u32 vcpu,
		       u32 vcpus)
{
	u32 k;

	for (k = 0; k < nr; k++) {
		if (changes[k].last_vcpu == vcpu || !is_alike(changes[k].e, e))
			continue;
		changes[k].last_vcpu = vcpu;
		changes[k].nr_vcpus += vcpus;
		return nr;
	}
	if (nr == MAX_CHANGES)
		return nr;
	changes[nr] = (struct change){ .e = e, .last_vcpu = vcpu, .nr_vcpus = vcpus };
	return nr + 1;
}

static void put_cause(struct braid_text *t, const struct braid_clock_epoch *e, const char *what)
{
	u64 step = e->step_ns < 0 ? -(u64)e->step_ns : (u64)e->step_ns;

	if (e->disrupted) {
		braid_text_printf(t, "the hypervisor disrupted %s (vmclock)", what);
		if (e->cause != BRAID_EPOCH_DISRUPTED)
			braid_text_puts(t, ": ");
	}
	switch (e->cause) {
	case BRAID_EPOCH_STOOD_STILL:
		braid_text_printf(t, "%s stood still for ", what);
		braid_capture_put_duration(t, step);
		return;
	case BRAID_EPOCH_JUMPED:
		braid_text_printf(t, "%s jumped ahead by ", what);
		braid_capture_put_duration(t, step);
		return;
	case BRAID_EPOCH_WENT_BACK:
		braid_text_printf(t, "%s went back", what);
		return;
	case BRAID_EPOCH_DISRUPTED:
		return;
	case BRAID_EPOCH_OFFSET:
		braid_text_puts(t, "KVM set another offset");
		return;
	case BRAID_EPOCH_UNSEEN:
		braid_text_printf(t, "%s was not sampled", what);
		return;
	case BRAID_EPOCH_PAUSED:
		braid_text_puts(t, "the guest was paused for ");
		braid_capture_put_duration(t, (u64)e->begun_ns - (u64)e->from_ns);
		return;
	default:
		braid_text_printf(t, "%s runs at another rate", what);
	}
}

static int note_change(struct braid_capture_stream *s, const struct braid_clock *clock,
		       const struct change *c)
{
	const char *what = s->stream.kind == BRAID_STREAM_HOST ? "its clock" : "the counter";
	s64 from = c->e->from_ns, begun = c->e->begun_ns;
	struct braid_text t = { 0 };
	int err;

	if (begun < 0 || begun == INT64_MAX)	/* time unknown */
		begun = from;
	if (begun < 0)
		return 0;
	braid_text_puts(&t, "clock: a new epoch: ");
	put_cause(&t, c->e, what);
	if (c->nr_vcpus < clock->nr_tracks && c->nr_vcpus == 1)
		braid_text_printf(&t, " (vCPU %u)", c->last_vcpu);
	else if (c->nr_vcpus < clock->nr_tracks)
		braid_text_printf(&t, " (%u of %u vCPUs)", c->nr_vcpus, clock->nr_tracks);
	if (c->e->cause != BRAID_EPOCH_PAUSED && from > 0 && begun > from) {
		braid_text_puts(&t, ", in the ");
		braid_capture_put_duration(&t, begun - from);
		braid_text_puts(&t, " before this");
	}
	err = t.failed ? -ENOMEM : braid_capture_add_note(s, begun, t.data, t.bytes);
	braid_text_free(&t);
	return err;
}

/* vCPUs without samples share one track. */
static u32 take_changes(struct change *changes, const struct braid_clock *clock)
{
	const struct braid_clock_epoch *shared = NULL;
	u32 nr = 0, sharers = 0, track;
	size_t at;

	for (track = 0; track < clock->nr_tracks; track++) {
		if (!clock->tracks[track].shared)
			continue;
		shared = clock->tracks[track].epochs;
		sharers++;
	}
	for (track = 0; track < clock->nr_tracks; track++) {
		const struct braid_clock_track *t = &clock->tracks[track];

		for (at = 1; !t->shared && at < t->nr_epochs; at++)
			nr = take_change(changes, nr, &t->epochs[at], track,
					 1 + (t->epochs == shared ? sharers : 0));
	}
	return nr;
}

int braid_capture_finish_notes(struct braid_capture_stream *s)
{
	const struct braid_clock *clock = s->stream.kind == BRAID_STREAM_HOST ?
					  &braid_capture_stream_clocks(s)->trace : &s->stream.clock;
	struct change *changes = calloc(MAX_CHANGES, sizeof(*changes));
	u32 nr = changes ? take_changes(changes, clock) : 0, k;
	int err = changes ? 0 : -ENOMEM;

	for (k = 0; k < nr && !err; k++)
		err = note_change(s, clock, &changes[k]);
	free(changes);
	braid_capture_sort_notes(s);
	return err;
}

void braid_capture_sort_notes(struct braid_capture_stream *s)
{
	if (s->nr_notes)
		qsort(s->notes, s->nr_notes, sizeof(*s->notes), capture_notes_by_time);
}

int braid_capture_move_notes(struct braid_capture_stream *s, struct braid_capture_stream *part)
{
	struct braid_note note;

	for (; part->nr_notes; part->nr_notes--) {
		note = part->notes[part->nr_notes - 1];
		if (braid_array_push(s->notes, s->nr_notes, s->notes_capacity, note))
			return -ENOMEM;
	}
	return 0;
}

/* The cursor --------------------------------------------------------------------------------- */

struct note_ring {
	struct braid_capture_ring base;
	const struct braid_capture_stream *stream;
	size_t at;
	bool restart_reported;
	s64 last_ns;
	char restart[160];
};

/* The time of a ring's first event, if it is before @ns; or @ns. */
static s64 ring_begin(struct braid_ring *ring, s64 ns, bool grows)
{
	static const struct braid_ring_walk unread;
	/* It is not in the walk, which others of its stream are in. */
	bool alone = !grows && !ring->merging && !memcmp(&ring->walk, &unread, sizeof(unread));

	if (alone && braid_ring_next(ring) < 0)
		ring->walk.events = 0;
	if (ring->walk.events && ring->item.host_ns < ns)
		ns = ring->item.host_ns;
	if (alone)
		ring->ops->rewind(ring);
	return ns;
}

/* The first moment of a stream: its first event, or when it was found. */
static s64 stream_begin(const struct note_ring *n)
{
	const struct braid_stream *stream = n->base.ring.stream;
	s64 begin = stream->found_ns;
	size_t k;

	for (k = 0; k < stream->nr_rings; k++)
		if (stream->rings[k]->cpu != BRAID_RING_NOTES)
			begin = ring_begin(stream->rings[k], begin, n->base.source->source.grows);
	return begin;
}

/* Of a VM, or of a guest that was one: it had no driver, or has none any more. */
static const char *restart_of_vm(const struct braid_stream *s)
{
	if (s->kind == BRAID_STREAM_GUEST)
		return "the driver was loaded";
	if (s->before->kind == BRAID_STREAM_GUEST)
		return "no driver runs any more";
	return "the VM was started again";
}

static void say_restart(struct note_ring *n, const struct braid_stream *s)
{
	const u8 *id = s->boot_id;

	if (s->kind == BRAID_STREAM_VM || s->before->kind == BRAID_STREAM_VM)
		strcpy(n->restart, restart_of_vm(s));
	else if (memcmp(s->boot_id, s->before->boot_id, sizeof(s->boot_id)))
		snprintf(n->restart, sizeof(n->restart),
			 "the guest rebooted: boot %02x%02x%02x%02x-%02x%02x, Linux %s", id[0],
			 id[1], id[2], id[3], id[4], id[5], s->kernel_release);
	else
		snprintf(n->restart, sizeof(n->restart), "the driver was reloaded");
}

static int note_next(struct braid_ring *ring)
{
	struct note_ring *n = (struct note_ring *)ring;
	const struct braid_stream *s = ring->stream;
	const struct braid_note *note;
	struct braid_item *item = &ring->item;

	item->kind = BRAID_ITEM_NOTE;
	item->bound_ns = 0;
	item->seq = n->at + n->restart_reported;
	if (s->before && !n->restart_reported) {
		n->restart_reported = true;
		say_restart(n, s);
		item->host_ns = stream_begin(n);
		item->payload = (const u8 *)n->restart;
	} else if (n->at < n->stream->nr_notes) {
		note = &n->stream->notes[n->at++];
		item->host_ns = note->host_ns;
		item->bound_ns = note->bound_ns;
		item->payload = (const u8 *)note->text;
	} else {
		return 0;
	}
	if (item->host_ns < n->last_ns)
		item->host_ns = n->last_ns;
	n->last_ns = item->host_ns;
	item->payload_bytes = strlen((const char *)item->payload);
	return 1;
}

static void note_rewind(struct braid_ring *ring)
{
	struct note_ring *n = (struct note_ring *)ring;

	n->at = 0;
	n->restart_reported = false;
	n->last_ns = INT64_MIN;
}

struct braid_capture_ring *braid_capture_note_ring(struct braid_capture_stream *s)
{
	static const struct braid_ring_ops ops = {
		.next = note_next,
		.rewind = note_rewind,
	};
	struct note_ring *n = braid_capture_add_ring(s, sizeof(*n), BRAID_RING_NOTES, &ops);

	if (!n)
		return NULL;
	n->stream = s;
	n->last_ns = INT64_MIN;
	return &n->base;
}
