/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which event types pages have, as TYPES chunks list them (chunk.h). */
#ifndef BRAID_CAPTURE_TYPES_H
#define BRAID_CAPTURE_TYPES_H

#include <stdbool.h>
#include <string.h>

#include "host_agent/capture/chunk.h"

/* The ids that a TYPES chunk names. */
struct braid_types_ids {
	u32 nr;
	u16 ids[BRAID_TYPES_IDS];
};

/* What one page has; begins as all 0, and is so again after braid_types_put(). */
struct braid_types_page {
	bool odd;			/* BRAID_TYPES_READ */
	struct braid_types_ids has;
	u64 seen[65536 / 64];		/* a bit for each id in @has */
};

/** braid_types_note - a page has an event */
static inline void braid_types_note(struct braid_types_page *page, const u8 *payload, u32 bytes)
{
	u16 id;

	if (bytes < sizeof(id)) {
		page->odd = true;
		return;
	}
	memcpy(&id, payload, sizeof(id));
	if (page->seen[id / 64] >> id % 64 & 1)
		return;
	if (page->has.nr == BRAID_TYPES_IDS) {
		page->odd = true;
		return;
	}
	page->has.ids[page->has.nr++] = id;
	page->seen[id / 64] |= 1ULL << id % 64;
}

/**
 * braid_types_guest - note the events of a guest's page
 * @page: the page
 * @head: as in its chunk
 * @data: what follows that; untrusted
 * @bytes: of it
 */
void braid_types_guest(struct braid_types_page *page, const struct braid_chunk_page *head,
		       const u8 *data, u32 bytes);

/** braid_types_put - the page's number, by @ids, to which those of the page are added */
u64 braid_types_put(struct braid_types_page *page, struct braid_types_ids *ids);

/** braid_types_clear - as before the first event */
void braid_types_clear(struct braid_types_page *page);

/** braid_types_agree - whether a page has just what a number says */
bool braid_types_agree(const struct braid_types_page *page, const struct braid_types_ids *ids,
		       u64 number);

/**
 * braid_types_open - read a TYPES chunk's payload
 * @payload: its payload, untrusted
 * @bytes: of it
 * @nr: places in its INDEX chunk
 * @ids: set
 *
 * Return: its numbers, one for each place, which are valid; NULL: it is not a valid TYPES chunk.
 */
const char *braid_types_open(const u8 *payload, u32 bytes, u32 nr, struct braid_types_ids *ids);

#endif /* BRAID_CAPTURE_TYPES_H */
