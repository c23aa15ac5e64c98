// SPDX-License-Identifier: GPL-2.0-or-later
/* While captures of several hosts are read: what they have of guests that both have. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/capture_stays.h"
#include "host_agent/util/array.h"

/* Whether a guest of two hosts' captures may be one that was migrated. */
static bool may_move(const struct braid_capture_source *cs, const struct braid_superblock *sb)
{
	const struct braid_capture_apart *apart = cs->apart;
	size_t k;

	for (k = 0; apart && k < apart->nr; k++)
		if (apart->items[k].incarnation == sb->incarnation &&
		    !memcmp(apart->items[k].boot_id, sb->boot_id, sizeof(sb->boot_id)))
			return false;
	return !apart || !apart->all;
}

static int by_incarnation(const struct braid_capture_source *cs, const struct braid_stream *s,
			  enum braid_stream_kind kind, const struct braid_superblock *sb,
			  bool moves)
{
	return braid_compare(s->kind, kind) ?: braid_compare(s->incarnation, sb->incarnation) ?:
	       memcmp(s->boot_id, sb->boot_id, sizeof(s->boot_id)) ?:
	       (moves ? 0 : braid_compare(s->host->number, cs->files[cs->file].host));
}

size_t braid_capture_find_guest(const struct braid_capture_source *cs, enum braid_stream_kind kind,
				const struct braid_superblock *sb, bool *there)
{
	bool moves = kind == BRAID_STREAM_GUEST && may_move(cs, sb);
	size_t k;

	braid_array_first(k, cs->nr_guests,
			  by_incarnation(cs, &cs->guests[k]->stream, kind, sb, moves) >= 0);
	*there = k < cs->nr_guests &&
		 !by_incarnation(cs, &cs->guests[k]->stream, kind, sb, moves);
	return k;
}

int braid_capture_add_guest(struct braid_capture_source *cs, size_t place,
			    struct braid_capture_stream *s)
{
	if (braid_array_push(cs->guests, cs->nr_guests, cs->guests_capacity, s))
		return -ENOMEM;
	memmove(cs->guests + place + 1, cs->guests + place,
		(cs->nr_guests - 1 - place) * sizeof(*cs->guests));
	cs->guests[place] = s;
	return 0;
}

struct braid_capture_stream *braid_capture_part_here(struct braid_capture_stream *s)
{
	const struct braid_host *host = &braid_capture_host_now(s->source)->host;
	size_t k;

	if (s->stream.kind != BRAID_STREAM_GUEST || s->stream.host == host)
		return s;
	for (k = 0; k < s->stream.nr_parts; k++)
		if (s->stream.parts[k]->host == host)
			return (struct braid_capture_stream *)s->stream.parts[k];
	return NULL;
}

struct braid_capture_stream *braid_capture_add_part(struct braid_capture_stream *s)
{
	struct braid_capture_stream *part = calloc(1, sizeof(*part));

	if (!part)
		return NULL;
	part->source = s->source;
	part->file = s->source->file;
	part->stream.host = &braid_capture_host_now(s->source)->host;
	part->stream.number = s->stream.number;
	if (!braid_array_push(s->stream.parts, s->stream.nr_parts, s->parts_capacity,
			      &part->stream))
		return part;
	free(part);
	return NULL;
}

int braid_capture_add_visit(struct braid_capture_stream *s, u32 number)
{
	const struct braid_capture_visit visit = {
		.file = s->source->file, .number = number, .part = braid_capture_part_here(s),
	};

	s->more_visits |= s->nr_visits == BRAID_MAX_VISITS;
	if (s->more_visits || s->source->source.nr_hosts < 2)
		return 0;
	return braid_array_push(s->visits, s->nr_visits, s->visits_capacity, visit);
}

/* NULL: it is not followed. */
static struct braid_capture_visit *visit_of(struct braid_capture_stream *s, u32 number)
{
	u32 file = s->source->file;
	size_t k;

	if (s->visit < s->nr_visits && s->visits[s->visit].file == file &&
	    s->visits[s->visit].number == number)
		return &s->visits[s->visit];
	for (k = 0; k < s->nr_visits; k++)
		if (s->visits[k].file == file && s->visits[k].number == number)
			break;
	s->visit = k;
	return k < s->nr_visits ? &s->visits[k] : NULL;
}

void braid_capture_note_visit(struct braid_capture_stream *s, u32 number,
			      const struct braid_round_trip *samples, size_t nr)
{
	struct braid_capture_visit *visit = nr ? visit_of(s, number) : NULL;
	size_t k;

	for (k = 0; visit && k < nr; k++) {
		const struct braid_clock_sample *one = &samples[k].s;

		if (one->h2_ns < one->h1_ns || one->h2_ns > INT64_MAX)
			continue;
		if (!visit->nr || (s64)(one->counter - visit->first_counter) < 0) {
			visit->first_counter = one->counter;
			visit->first_h2_ns = one->h2_ns;
		}
		if (!visit->nr || (s64)(one->counter - visit->last_counter) > 0) {
			visit->last_counter = one->counter;
			visit->last_h1_ns = one->h1_ns;
		}
		visit->nr++;
	}
}

void braid_capture_name_at(struct braid_stream *s, size_t plain, const char *hosts)
{
	size_t bytes = strlen(hosts), most = sizeof(s->name) - 2;

	bytes = bytes < most ? bytes : most;
	plain = plain < most - bytes ? plain : most - bytes;
	s->name[plain] = '@';
	memcpy(s->name + plain + 1, hosts, bytes);
	s->name[plain + 1 + bytes] = 0;
}
