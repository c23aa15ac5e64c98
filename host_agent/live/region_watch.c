// SPDX-License-Identifier: GPL-2.0-or-later
/* Watches for events in a guest's rings without consuming them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/live/watch.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

#define TURN_BYTES	(1u << 20)	/* checked in one guest per turn */

void braid_live_watch_free(struct braid_live_watch *w)
{
	free(w->wanted);
	free(w->seen);
	braid_text_free(&w->names);
	w->wanted = NULL;
	w->seen = NULL;
}

int braid_live_watch_reset(struct braid_live_watch *w, struct braid_live_stream *s)
{

	if (!s->o.nr_on)
		return 0;
	free(w->seen);
	w->seen = calloc((size_t)BRAID_MAX_BUFFERS * s->sb.nr_vcpus, sizeof(*w->seen));
	w->generation = ~0ULL;
	return w->seen ? 0 : braid_fail(-ENOMEM, "no memory for %u vCPUs", s->sb.nr_vcpus);
}

/* The watched events ------------------------------------------------------------------------- */

static int want(struct braid_live_watch *w, const struct braid_live_stream *s,
		const struct braid_schema_event *event)
{
	struct braid_live_wanted wanted = {
		.id = event->id,
		.buffer = event->buffer,
		.sub = event->flags & BRAID_EVENT_SUB,
		.number = event->number,
		.number_offset = event->flags >> BRAID_SUB_OFFSET_SHIFT,
		.number_bytes = event->flags >> BRAID_SUB_BYTES_SHIFT & BRAID_SUB_BYTES_MASK,
	};

	size_t k = 0;

	while (k < s->o.nr_on && !braid_pattern_matches(&s->o.on[k], event->system, event->name))
		k++;
	if (k == s->o.nr_on || event->flags & BRAID_EVENT_GONE ||
	    (wanted.sub && (!wanted.number_bytes || wanted.number_bytes > sizeof(u64))))
		return 0;
	wanted.name = w->names.bytes;
	braid_text_printf(&w->names, "%s:%s", event->system, event->name);
	braid_text_putc(&w->names, '\0');
	if (w->names.failed)
		return -ENOMEM;
	return braid_array_push(w->wanted, w->nr_wanted, w->wanted_capacity, wanted);
}

/* Order of the index: by buffer, then id, an event before its sub-events, those by number. */
static u64 key_of(u32 buffer, u16 id, bool sub, u32 number)
{
	return (u64)buffer << 49 | (u64)id << 33 | (u64)sub << 32 | number;
}

static u64 key_of_wanted(const struct braid_live_wanted *w)
{
	return key_of(w->buffer & 0x7fff, w->id, w->sub, w->sub ? w->number : 0);
}

static int by_key(const void *a, const void *b)
{
	u64 x = key_of_wanted(a), y = key_of_wanted(b);

	return x < y ? -1 : x > y;
}

/* Each once, however often a directory lists it: bounds the checks per event. */
static void index_wanted(struct braid_live_watch *w)
{
	size_t k, nr = 0;

	if (w->nr_wanted)
		qsort(w->wanted, w->nr_wanted, sizeof(*w->wanted), by_key);
	for (k = 0; k < w->nr_wanted; k++)
		if (!nr || by_key(&w->wanted[nr - 1], &w->wanted[k]))
			w->wanted[nr++] = w->wanted[k];
	w->nr_wanted = nr;
}

/* The first that is not before the key, or NULL. */
static const struct braid_live_wanted *find_wanted(const struct braid_live_watch *w, u64 key)
{
	size_t from = 0, to = w->nr_wanted, middle;

	while (from < to) {
		middle = from + (to - from) / 2;
		if (key_of_wanted(&w->wanted[middle]) < key)
			from = middle + 1;
		else
			to = middle;
	}
	return from < w->nr_wanted ? &w->wanted[from] : NULL;
}

/* The ids of watched events change with the guest's modules. */
static int load_wanted(struct braid_live_watch *w, struct braid_live_stream *s)
{
	const struct braid_directory *dir =
		braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_DIRECTORY);
	struct braid_directory_copy copy;
	struct braid_schema_event event;
	u32 at = 0;
	int err;

	if (braid_load(&dir->generation) == w->generation ||
	    !braid_rate_allows(&w->loads, braid_host_clock_ns(), BRAID_DIRECTORIES_A_SECOND))
		return 0;	/* changes are loaded in a later turn */
	w->loads.nr++;
	err = braid_directory_load(&copy, s->mapping, &s->sb, 0);
	if (err)
		return err;
	w->generation = copy.generation;
	w->nr_wanted = 0;
	w->names.bytes = 0;
	while (!err && braid_schema_next(copy.data, copy.bytes, &at, &event) > 0)
		err = want(w, s, &event);
	index_wanted(w);
	braid_directory_free(&copy);
	return err ? s->fatal = braid_out_of_memory() : 0;
}

/* Records are little endian, as we are. */
static const struct braid_live_wanted *wanted_of(const struct braid_live_watch *watch, u32 buffer,
						 const struct braid_event_view *view)
{
	const struct braid_record *record = view->payload;
	const struct braid_live_wanted *w;
	u64 number = 0;
	u16 id;

	if (view->payload_bytes < sizeof(*record))
		return NULL;
	id = record->common_type;
	w = find_wanted(watch, key_of(buffer, id, false, 0));
	if (!w || w->id != id || w->buffer != buffer || !w->sub)
		return w && w->id == id && w->buffer == buffer ? w : NULL;
	/* All sub-events of an event have their number in the same place. */
	if ((u32)w->number_offset + w->number_bytes > view->payload_bytes)
		return NULL;
	memcpy(&number, (const u8 *)view->payload + w->number_offset, w->number_bytes);
	w = number > ~0U ? NULL : find_wanted(watch, key_of(buffer, id, true, number));
	return w && w->id == id && w->buffer == buffer && w->number == number ? w : NULL;
}

static void notice(struct braid_live_watch *w, const struct braid_live_wanted *wanted)
{
	w->noticed++;
	snprintf(w->event, sizeof(w->event), "%s", w->names.data + wanted->name);
	braid_text_clean(w->event);
}

/* Watching ---------------------------------------------------------------------------------- */

/* Copies a span, and checks its events if the copy is valid. False: it was overwritten. */
static bool scan_span(struct braid_live_watch *w, const struct braid_peek *peek,
		      const struct braid_span *span, u32 events_of)
{
	static u64 copy[BRAID_MAX_SUBBUF_BYTES / 8];
	struct braid_event_view view;
	const struct braid_live_wanted *wanted;
	struct braid_cursor c;

	memcpy(copy, span->data + span->from_bytes, span->to_bytes - span->from_bytes);
	if (!braid_peek_valid(peek, span))
		return false;
	braid_cursor_init(&c, copy, span->to_bytes - span->from_bytes, span->time_stamp,
			  peek->map.flags);
	while (braid_page_next(&c, &view) > 0) {
		wanted = wanted_of(w, events_of, &view);
		if (wanted)
			notice(w, wanted);
	}
	return true;
}

/* Finds the newest sub-buffer: earlier ones precede this watch. */
static void find_end(const struct braid_ring_map *map, u64 incarnation,
		     struct braid_live_seen *seen)
{
	struct braid_span span;
	struct braid_peek peek;

	seen->known = false;
	if (braid_peek_begin(&peek, map, incarnation))
		return;
	while (braid_peek_next(&peek, &span) > 0) {
		seen->known = true;
		seen->id = span.id;
		seen->position = span.position;
		seen->bytes = span.to_bytes;
		seen->final = span.final;
	}
}

/* The sub-buffer after the one that was fully checked. False: not written yet, or overwritten. */
static bool go_on(const struct braid_ring_map *map, struct braid_live_seen *seen)
{
	u64 position = (seen->position + 1) & BRAID_POS_MASK;
	u64 word = braid_load_acquire(&map->slots[position & (map->nr_slots - 1)]);
	s64 ahead = braid_position_diff(braid_slot_position(word), position);

	if (ahead || braid_slot_state(word) != BRAID_SLOT_OPEN ||
	    braid_slot_id(word) > map->nr_slots) {
		seen->known = ahead <= 0;	/* lapped, or consumed by another reader: restart */
		return false;
	}
	seen->position = position;
	seen->id = braid_slot_id(word);
	seen->bytes = 0;
	seen->final = false;
	return true;
}

/* Checks a ring's new bytes. Returns their number; *missed: some were overwritten before. */
static u32 scan_ring(struct braid_live_watch *w,
		     const struct braid_ring_map *map, struct braid_live_seen *seen,
		     u32 events_of, u32 budget, bool *missed)
{
	struct braid_peek peek = { .map = *map };
	struct braid_span span;
	u32 scanned = 0;

	while (scanned < budget) {
		if (seen->final && !go_on(map, seen)) {
			*missed |= !seen->known;
			break;
		}
		if (braid_peek_subbuf(&peek, seen->id, seen->position, seen->bytes, &span) < 0 ||
		    !scan_span(w, &peek, &span, events_of)) {
			*missed = true;
			seen->known = false;
			break;
		}
		scanned += span.to_bytes - span.from_bytes;
		seen->bytes = span.to_bytes;
		seen->final = span.final;
		if (!span.final)
			break;
	}
	return scanned;
}

static u32 scan_one(struct braid_live_watch *w, struct braid_live_stream *s, u32 buffer,
		    u32 vcpu, u32 budget, bool *missed)
{
	const struct braid_buffer_desc *desc = &s->sb.buffers[buffer];
	struct braid_live_seen *seen = &w->seen[(size_t)buffer * s->sb.nr_vcpus + vcpu];
	struct braid_ring_map map;

	braid_mapping_ring(s->mapping, &s->sb, buffer, vcpu, &map);
	if (braid_load(&map.priv->incarnation) != s->sb.incarnation)
		return 0;
	if (!seen->known || seen->layout != desc->layout)
		find_end(&map, s->sb.incarnation, seen);
	seen->layout = desc->layout;
	return seen->known ? scan_ring(w, &map, seen, desc->events_of, budget, missed) : 0;
}

static bool is_watched(const struct braid_buffer_desc *desc)
{
	return desc->nr_rings && !(desc->flags & BRAID_BUFFER_RAW);
}

/* The next ring of all, in a circle. False: the circle is at its end. */
static bool next_ring(struct braid_live_watch *w, const struct braid_live_stream *s, u32 *buffer,
		      u32 *vcpu)
{

	for (; w->next_buffer < s->sb.nr_buffers; w->next_buffer++, w->next_vcpu = 0) {
		const struct braid_buffer_desc *desc = &s->sb.buffers[w->next_buffer];

		if (!is_watched(desc) || w->next_vcpu >= desc->nr_rings)
			continue;
		*buffer = w->next_buffer;
		*vcpu = w->next_vcpu++;
		return true;
	}
	w->next_buffer = w->next_vcpu = 0;
	return false;
}

/* Checks a bounded number of rings, and a bounded part of each. Returns whether to continue. */
static bool scan_rings(struct braid_live_watch *w, struct braid_live_stream *s, bool *missed)
{
	u32 all = 0, scanned = 0, nr, k, buffer, vcpu;

	for (k = 0; k < s->sb.nr_buffers; k++)
		all += is_watched(&s->sb.buffers[k]) ? s->sb.buffers[k].nr_rings : 0;
	nr = all < BRAID_TURN_RINGS ? all : BRAID_TURN_RINGS;
	for (k = 0; k < nr && scanned < TURN_BYTES; k++) {
		if (!next_ring(w, s, &buffer, &vcpu) && !next_ring(w, s, &buffer, &vcpu))
			break;
		scanned += scan_one(w, s, buffer, vcpu, TURN_BYTES / nr + 1, missed);
	}
	if (scanned)
		w->nr_quiet = 0;
	else if (w->nr_quiet < all)
		w->nr_quiet += k;
	return scanned || w->nr_quiet < all;
}

int braid_live_watch_poll(struct braid_live_watch *w, struct braid_live_stream *s)
{
	const char *remedy = s->mapping->one_way ? "load its driver with a larger memory_mb=" :
						   "enlarge its rings";
	bool missed = false, more;
	int err;

	if (!s->o.nr_on)
		return BRAID_POLL_IDLE;
	err = load_wanted(w, s);
	if (err)
		return err;
	more = scan_rings(w, s, &missed);
	if (missed && !w->reported_missed) {
		w->reported_missed = true;
		err = braid_live_note(s, "it overwrites its rings faster than they can be scanned: --on may miss events; %s",
				      remedy);
		if (err)
			return err;
	}
	return more ? BRAID_POLL_BUSY : BRAID_POLL_IDLE;
}
