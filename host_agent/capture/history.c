// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A capture without a file. Per stream it keeps the chunks with time, names and notes for later
 * files, within bounds for any duration: the newest samples and some of all earlier ones; of
 * everything else the newest. What holds until it changes has room of its own, so that frequent
 * chunks do not displace it. For a while its chunks also go to a file.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/capture/sink.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

/*
 * Of each class of a stream. At a guest's 300 bytes a second that is two hours of samples; the
 * host's own clocks are read oftener.
 */
#define GUEST_BYTES	(2u << 20)
#define LEAST_BYTES	(256u << 10)	/* per guest, with very many guests; else they share ... */
#define GUESTS_BYTES	(128u << 20)
#define HOST_BYTES	(8u << 20)
/* Of a brief one: what holds now, and the samples of about the last minute. */
#define BRIEF_GUEST_BYTES	(32u << 10)
#define BRIEF_HOST_BYTES	(128u << 10)

struct history_chunk {
	u16 type;
	u32 bytes;
	u8 payload[];
};

enum history_class {
	HISTORY_PAST = 0,		/* some earlier samples, spread over the whole time */
	HISTORY_SAMPLES = 1,	/* one more or less changes a bound, never its validity */
	HISTORY_STANDING = 2,	/* holds until the next one; there are few */
	HISTORY_REST = 3,		/* the oldest goes first, as if the recording had begun later */
	HISTORY_CLASSES,
	HISTORY_NOT,
};

struct history_list {
	struct history_chunk **items;
	size_t nr;
	size_t capacity;
	u64 bytes;
};

struct history_stream {
	u32 stream;
	u32 halvings;		/* of the past: keeps one sample in 2^halvings */
	struct history_list lists[HISTORY_CLASSES];
};

struct history {
	struct braid_capture_writer base;
	struct history_stream *streams;
	size_t nr;
	size_t capacity;
	u64 bytes;
	bool brief;			/* files follow each other: no names and notes are kept */
	u64 random;
	struct braid_capture_writer *also;	/* a file that is written to also, or NULL */
	int also_error;				/* of a write to it: it gets no more */
	u8 *scratch;				/* for bodies that go to no file */
};

static void history_drop(struct history *history, struct history_list *list, size_t index)
{
	u64 bytes = sizeof(struct history_chunk) + list->items[index]->bytes;

	list->bytes -= bytes;
	history->bytes -= bytes;
	free(list->items[index]);
	list->items[index] = NULL;
}

static void forget(struct history *history, struct history_stream *s)
{
	size_t k;
	int c;

	for (c = 0; c < HISTORY_CLASSES; c++) {
		for (k = 0; k < s->lists[c].nr; k++)
			history_drop(history, &s->lists[c], k);
		free(s->lists[c].items);
	}
	*s = history->streams[--history->nr];
}

static enum history_class class_of(const struct history *history, u16 type)
{
	switch (type) {
	case BRAID_CHUNK_CLOCK:
	case BRAID_CHUNK_CLOCK_VCPU:
	case BRAID_CHUNK_CLOCK_PAIR:
	case BRAID_CHUNK_HOST_CLOCK:
	case BRAID_CHUNK_PEER:
	case BRAID_CHUNK_DECLARED:
		return HISTORY_SAMPLES;
	case BRAID_CHUNK_CLOCK_OFFSET:
	case BRAID_CHUNK_VCPU_THREADS:
	case BRAID_CHUNK_CGROUPS:
		return HISTORY_STANDING;
	case BRAID_CHUNK_CLOCK_MARK:
	case BRAID_CHUNK_CLOCK_VM:
		return HISTORY_REST;
	case BRAID_CHUNK_THROTTLED:
	case BRAID_CHUNK_COMMS:
	case BRAID_CHUNK_NOTE:
		return history->brief ? HISTORY_NOT : HISTORY_REST;
	}
	return HISTORY_NOT;	/* other chunks that a file needs are written again for each */
}

static struct history_stream *history_find(struct history *history, u32 stream)
{
	size_t k;

	for (k = 0; k < history->nr; k++)
		if (history->streams[k].stream == stream)
			return &history->streams[k];
	return NULL;
}

/* By chance: one after the other would do away with whole kinds that take turns. */
static bool toss(struct history *history, u32 times)
{
	while (times--) {
		history->random = history->random * 6364136223846793005ULL + 1442695040888963407ULL;
		if (history->random >> 63)
			return false;
	}
	return true;
}

static void close_ranks(struct history_list *list)
{
	size_t k, at = 0;

	for (k = 0; k < list->nr; k++)
		if (list->items[k])
			list->items[at++] = list->items[k];
	list->nr = at;
}

static void halve_past(struct history *history, struct history_stream *s)
{
	struct history_list *past = &s->lists[HISTORY_PAST];
	size_t k;

	for (k = 0; k < past->nr; k++)
		if (toss(history, 1))
			history_drop(history, past, k);
	close_ranks(past);
	s->halvings++;
}

/* One that is recent no more. Without memory it is forgotten. */
static void make_past(struct history *history, struct history_stream *s, size_t index)
{
	struct history_list *from = &s->lists[HISTORY_SAMPLES], *past = &s->lists[HISTORY_PAST];
	struct history_chunk *chunk = from->items[index];
	u64 bytes = sizeof(*chunk) + chunk->bytes;

	if (history->brief || !toss(history, s->halvings) ||
	    braid_array_push(past->items, past->nr, past->capacity, chunk)) {
		history_drop(history, from, index);
		return;
	}
	from->items[index] = NULL;
	from->bytes -= bytes;
	past->bytes += bytes;
}

/* Of a full list the older half goes. */
static void drop_oldest(struct history *history, struct history_stream *s,
			enum history_class class, u64 limit)
{
	struct history_list *list = &s->lists[class];
	size_t half = list->nr / 2, k;

	for (k = 0; k < half; k++) {
		if (class == HISTORY_SAMPLES)
			make_past(history, s, k);
		else
			history_drop(history, list, k);
	}
	close_ranks(list);
	while (s->lists[HISTORY_PAST].bytes > limit)
		halve_past(history, s);
}

static struct history_chunk *history_make(u16 type, const void *head, u32 head_bytes,
					  const void *body,
					  u32 body_bytes)
{
	struct history_chunk *chunk = malloc(sizeof(*chunk) + head_bytes + body_bytes);

	if (!chunk)
		return NULL;
	chunk->type = type;
	chunk->bytes = head_bytes + body_bytes;
	if (head_bytes)
		memcpy(chunk->payload, head, head_bytes);
	if (body_bytes)
		memcpy(chunk->payload + head_bytes, body, body_bytes);
	return chunk;
}

static u64 limit_of(const struct history *history, u32 stream, enum history_class class)
{
	u64 share = GUESTS_BYTES / (history->nr ? history->nr : 1);

	if (history->brief && class != HISTORY_STANDING)
		return stream ? BRIEF_GUEST_BYTES : BRIEF_HOST_BYTES;
	if (!stream)
		return HOST_BYTES;
	if (share < LEAST_BYTES)
		return LEAST_BYTES;
	return share < GUEST_BYTES ? share : GUEST_BYTES;
}

/* Keeps or discards one chunk; a STREAM_END discards all of its stream. */
static int keep(struct history *history, u16 type, u32 stream, const void *head, u32 head_bytes,
		const void *body, u32 body_bytes)
{
	struct history_stream *s = history_find(history, stream);
	enum history_class class = class_of(history, type);
	u64 limit = limit_of(history, stream, class);
	struct history_list *list;
	struct history_chunk *chunk;

	if (type == BRAID_CHUNK_STREAM_END && s)
		forget(history, s);
	if (class == HISTORY_NOT || (u64)head_bytes + body_bytes > limit / 4)
		return 0;
	if (!s) {
		struct history_stream made = { .stream = stream };

		if (braid_array_push(history->streams, history->nr, history->capacity, made))
			return braid_out_of_memory();
		s = &history->streams[history->nr - 1];
	}
	list = &s->lists[class];
	chunk = history_make(type, head, head_bytes, body, body_bytes);
	if (!chunk || braid_array_push(list->items, list->nr, list->capacity, chunk)) {
		free(chunk);
		return braid_out_of_memory();
	}
	list->bytes += sizeof(*chunk) + chunk->bytes;
	history->bytes += sizeof(*chunk) + chunk->bytes;
	while (list->bytes > limit)
		drop_oldest(history, s, class, limit);
	return 0;
}

/* The capture ------------------------------------------------------------------------------- */

#define ROOM_BYTES	((1u << 20) + 4096u)	/* a body of 1 MiB, its head, and padding */

static struct history *history_of(struct braid_capture_writer *w)
{
	return (struct history *)w;
}

/* The file that is written to also; NULL without one, or after it failed. */
static struct braid_capture_writer *also_of(const struct history *history)
{
	return history->also_error ? NULL : history->also;
}

static int history_put(struct braid_capture_writer *w, u16 type, u32 stream, const void *head,
		       u32 head_bytes, const void *body, u32 body_bytes)
{
	struct history *history = history_of(w);
	struct braid_capture_writer *also = also_of(history);

	if (also)
		history->also_error = braid_capture_put(also, type, stream, head, head_bytes, body,
							body_bytes);
	return keep(history, type, stream, head, head_bytes, body, body_bytes);
}

static void *history_reserve(struct braid_capture_writer *w, u32 head_bytes, u32 bytes)
{
	struct history *history = history_of(w);
	struct braid_capture_writer *also = also_of(history);
	size_t total = (size_t)head_bytes + bytes;
	void *there;

	if (also) {
		there = braid_capture_reserve(also, head_bytes, bytes);
		if (there)
			return there;
		/* From here on recorded data is in no file. */
		history->also_error = braid_capture_error(also);
	}
	if (total <= ROOM_BYTES)
		return history->scratch;
	braid_fail(-EMSGSIZE, "no room for a chunk of %zu bytes at once", total);
	return NULL;
}

static int history_flush(struct braid_capture_writer *w)
{
	struct history *history = history_of(w);
	struct braid_capture_writer *also = also_of(history);

	if (also)
		history->also_error = braid_capture_flush(also);
	return 0;
}

static int nothing(struct braid_capture_writer *w)
{
	(void)w;
	return 0;
}

static u64 bytes(const struct braid_capture_writer *w)
{
	return ((const struct history *)w)->bytes;
}

static bool never_full(const struct braid_capture_writer *w)
{
	(void)w;
	return false;
}

static void history_release(struct braid_capture_writer *w)
{
	struct history *history = history_of(w);

	while (history->nr)
		forget(history, &history->streams[history->nr - 1]);
	free(history->streams);
	free(history->scratch);
	free(history);
}

static const struct braid_capture_ops history_ops = {
	.put = history_put,
	.reserve = history_reserve,
	.flush = history_flush,
	.settle = history_flush,
	.publish = nothing,
	.close = nothing,
	.bytes = bytes,
	.written = bytes,
	.full = never_full,
	.free = history_release,
};

int braid_capture_create_history(struct braid_capture_writer **out, bool brief)
{
	struct history *history = calloc(1, sizeof(*history));

	if (history)
		history->brief = brief;
	if (history)
		history->scratch = aligned_alloc(64, ROOM_BYTES);
	if (!history || !history->scratch) {
		free(history);
		return braid_out_of_memory();
	}
	history->base.ops = &history_ops;
	*out = &history->base;
	return 0;
}

int braid_capture_tee(struct braid_capture_writer *w, struct braid_capture_writer *also)
{
	struct history *history = history_of(w);
	int err = history->also_error;

	history->also = also;
	history->also_error = 0;
	return err ? braid_fail(err, "%s is incomplete: %s",
				history->brief ? "the capture" : "the snapshot", strerror(-err)) : 0;
}

bool braid_capture_tee_failed(const struct braid_capture_writer *w)
{
	return w->ops == &history_ops && ((const struct history *)w)->also_error;
}

void braid_capture_replay(struct braid_capture_writer *w, u32 stream)
{
	struct history *history = history_of(w);
	struct braid_capture_writer *also = w->ops == &history_ops ? also_of(history) : NULL;
	const struct history_stream *s = also ? history_find(history, stream) : NULL;
	size_t k;
	int c;

	for (c = 0; s && c < HISTORY_CLASSES; c++)
		for (k = 0; k < s->lists[c].nr && !history->also_error; k++)
			history->also_error =
				braid_capture_put(also, s->lists[c].items[k]->type, stream, NULL, 0,
						  s->lists[c].items[k]->payload,
						  s->lists[c].items[k]->bytes);
}
