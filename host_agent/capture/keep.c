// SPDX-License-Identifier: GPL-2.0-or-later
/* Keeps the chunks that tell time and names, within bounds, while no file is written. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/capture/keep.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

/*
 * Of each class of a stream. At a guest's 300 bytes a second that is two hours of samples; the
 * host's own clocks are read oftener.
 */
#define GUEST_BYTES	(2u << 20)
#define LEAST_BYTES	(256u << 10)	/* of each of very many guests; else they share ... */
#define GUESTS_BYTES	(128u << 20)
#define HOST_BYTES	(8u << 20)

struct kept {
	u16 type;
	u32 bytes;
	u8 payload[];
};

enum kept_class {
	KEPT_PAST = 0,		/* some of the samples before: spread over all the time there was */
	KEPT_SAMPLES = 1,	/* one more or less changes a bound, never what is true */
	KEPT_REST = 2,		/* the oldest goes first, as if the recording had begun later */
	KEPT_CLASSES,
	KEPT_NOT,
};

struct kept_list {
	struct kept **items;
	size_t nr;
	size_t capacity;
	u64 bytes;
};

struct kept_stream {
	u32 stream;
	u32 halvings;		/* of the past: one sample in 2^halvings gets there */
	struct kept_list lists[KEPT_CLASSES];
};

struct braid_capture_keep {
	struct kept_stream *streams;
	size_t nr;
	size_t capacity;
	u64 bytes;
	u64 random;
};

struct braid_capture_keep *braid_keep_new(void)
{
	return calloc(1, sizeof(struct braid_capture_keep));
}

static void drop(struct braid_capture_keep *keep, struct kept_list *list, size_t index)
{
	u64 bytes = sizeof(struct kept) + list->items[index]->bytes;

	list->bytes -= bytes;
	keep->bytes -= bytes;
	free(list->items[index]);
	list->items[index] = NULL;
}

static void forget(struct braid_capture_keep *keep, struct kept_stream *s)
{
	size_t k;
	int c;

	for (c = 0; c < KEPT_CLASSES; c++) {
		for (k = 0; k < s->lists[c].nr; k++)
			drop(keep, &s->lists[c], k);
		free(s->lists[c].items);
	}
	*s = keep->streams[--keep->nr];
}

void braid_keep_free(struct braid_capture_keep *keep)
{
	if (!keep)
		return;
	while (keep->nr)
		forget(keep, &keep->streams[keep->nr - 1]);
	free(keep->streams);
	free(keep);
}

static enum kept_class class_of(u16 type)
{
	switch (type) {
	case BRAID_CHUNK_CLOCK:
	case BRAID_CHUNK_CLOCK_VCPU:
	case BRAID_CHUNK_CLOCK_PAIR:
	case BRAID_CHUNK_HOST_CLOCK:
		return KEPT_SAMPLES;
	case BRAID_CHUNK_CLOCK_OFFSET:
	case BRAID_CHUNK_CLOCK_MARK:
	case BRAID_CHUNK_VCPU_THREADS:
	case BRAID_CHUNK_COMMS:
	case BRAID_CHUNK_NOTE:
		return KEPT_REST;
	}
	return KEPT_NOT;	/* what a file needs beside is put anew for each */
}

static struct kept_stream *find(struct braid_capture_keep *keep, u32 stream)
{
	size_t k;

	for (k = 0; k < keep->nr; k++)
		if (keep->streams[k].stream == stream)
			return &keep->streams[k];
	return NULL;
}

/* By chance: one after the other would do away with whole kinds that take turns. */
static bool toss(struct braid_capture_keep *keep, u32 times)
{
	while (times--) {
		keep->random = keep->random * 6364136223846793005ULL + 1442695040888963407ULL;
		if (keep->random >> 63)
			return false;
	}
	return true;
}

static void close_ranks(struct kept_list *list)
{
	size_t k, at = 0;

	for (k = 0; k < list->nr; k++)
		if (list->items[k])
			list->items[at++] = list->items[k];
	list->nr = at;
}

static void halve_past(struct braid_capture_keep *keep, struct kept_stream *s)
{
	struct kept_list *past = &s->lists[KEPT_PAST];
	size_t k;

	for (k = 0; k < past->nr; k++)
		if (toss(keep, 1))
			drop(keep, past, k);
	close_ranks(past);
	s->halvings++;
}

/* One that is recent no more. Without memory it is forgotten. */
static void make_past(struct braid_capture_keep *keep, struct kept_stream *s, size_t index)
{
	struct kept_list *from = &s->lists[KEPT_SAMPLES], *past = &s->lists[KEPT_PAST];
	struct kept *kept = from->items[index];
	u64 bytes = sizeof(*kept) + kept->bytes;

	if (!toss(keep, s->halvings) ||
	    braid_array_push(past->items, past->nr, past->capacity, kept)) {
		drop(keep, from, index);
		return;
	}
	from->items[index] = NULL;
	from->bytes -= bytes;
	past->bytes += bytes;
}

/* Of a full list the older half goes. */
static void make_room(struct braid_capture_keep *keep, struct kept_stream *s, enum kept_class class,
		      u64 limit)
{
	struct kept_list *list = &s->lists[class];
	size_t half = list->nr / 2, k;

	for (k = 0; k < half; k++) {
		if (class == KEPT_SAMPLES)
			make_past(keep, s, k);
		else
			drop(keep, list, k);
	}
	close_ranks(list);
	while (s->lists[KEPT_PAST].bytes > limit)
		halve_past(keep, s);
}

static struct kept *make(u16 type, const void *head, u32 head_bytes, const void *body,
			 u32 body_bytes)
{
	struct kept *kept = malloc(sizeof(*kept) + head_bytes + body_bytes);

	if (!kept)
		return NULL;
	kept->type = type;
	kept->bytes = head_bytes + body_bytes;
	if (head_bytes)
		memcpy(kept->payload, head, head_bytes);
	if (body_bytes)
		memcpy(kept->payload + head_bytes, body, body_bytes);
	return kept;
}

static u64 limit_of(const struct braid_capture_keep *keep, u32 stream)
{
	u64 share = GUESTS_BYTES / (keep->nr ? keep->nr : 1);

	if (!stream)
		return HOST_BYTES;
	if (share < LEAST_BYTES)
		return LEAST_BYTES;
	return share < GUEST_BYTES ? share : GUEST_BYTES;
}

int braid_keep_put(struct braid_capture_keep *keep, u16 type, u32 stream, const void *head,
		   u32 head_bytes, const void *body, u32 body_bytes)
{
	u64 limit = limit_of(keep, stream);
	struct kept_stream *s = find(keep, stream);
	enum kept_class class = class_of(type);
	struct kept_list *list;
	struct kept *kept;

	if (type == BRAID_CHUNK_STREAM_END && s)
		forget(keep, s);
	if (class == KEPT_NOT || (u64)head_bytes + body_bytes > limit / 4)
		return 0;
	if (!s) {
		struct kept_stream made = { .stream = stream };

		if (braid_array_push(keep->streams, keep->nr, keep->capacity, made))
			return braid_fail(-ENOMEM, "out of memory");
		s = &keep->streams[keep->nr - 1];
	}
	list = &s->lists[class];
	kept = make(type, head, head_bytes, body, body_bytes);
	if (!kept || braid_array_push(list->items, list->nr, list->capacity, kept)) {
		free(kept);
		return braid_fail(-ENOMEM, "out of memory");
	}
	list->bytes += sizeof(*kept) + kept->bytes;
	keep->bytes += sizeof(*kept) + kept->bytes;
	while (list->bytes > limit)
		make_room(keep, s, class, limit);
	return 0;
}

u64 braid_keep_bytes(const struct braid_capture_keep *keep)
{
	return keep->bytes;
}

int braid_keep_replay(const struct braid_capture_keep *keep, u32 stream,
		      struct braid_capture_writer *to)
{
	const struct kept_stream *s = find((struct braid_capture_keep *)keep, stream);
	int err = 0, c;
	size_t k;

	for (c = 0; s && c < KEPT_CLASSES; c++)
		for (k = 0; k < s->lists[c].nr && !err; k++)
			err = braid_capture_put(to, s->lists[c].items[k]->type, stream, NULL, 0,
						s->lists[c].items[k]->payload,
						s->lists[c].items[k]->bytes);
	return err;
}
