// SPDX-License-Identifier: GPL-2.0-or-later
/* Keeps the stacks of a stream by their numbers, and puts them into records. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/stacks.h"
#include "host_agent/util/array.h"
#include "host_agent/util/hash.h"

#define MOST_STACKS	(1u << 22)	/* of a stream */

/* The beginning of a record, as its format says. */
struct head {
	struct braid_record record;
	u32 kernel, user;
	u32 stack, user_stack;		/* __data_loc */
};

struct stack {
	u32 id;
	u32 nr;
	size_t at;		/* in frames */
};

struct braid_stacks {
	struct stack *items;
	size_t nr, capacity;
	u64 *frames;
	size_t nr_frames, frames_capacity;
	struct braid_hash hash;
};

static bool is_same(const void *in, u32 number, const void *key)
{
	return ((const struct braid_stacks *)in)->items[number].id == *(const u32 *)key;
}

static const struct stack *stacks_find(const struct braid_stacks *s, u32 id)
{
	u32 number = BRAID_HASH_NONE;

	if (s && id)
		number = braid_hash_find(&s->hash, braid_hash_of_number(id), is_same, s, &id);
	return number == BRAID_HASH_NONE ? NULL : &s->items[number];
}

static int stacks_add(struct braid_stacks *s, u32 id, u32 nr, const u64 *frames)
{
	struct stack stack = { .id = id, .nr = nr, .at = s->nr_frames };
	u32 k;
	int err;

	if (stacks_find(s, id))
		return 0;
	err = braid_hash_reserve(&s->hash, MOST_STACKS);
	if (err)
		return err == -ENOSPC ? 0 : err;
	for (k = 0; k < nr; k++)
		if (braid_array_push(s->frames, s->nr_frames, s->frames_capacity, frames[k]))
			return -ENOMEM;
	if (braid_array_push(s->items, s->nr, s->capacity, stack))
		return -ENOMEM;
	braid_hash_put(&s->hash, braid_hash_of_number(id), s->nr - 1);
	return 0;
}

int braid_stacks_take(struct braid_stacks **stacks, const struct braid_chunk_view *v)
{
	struct braid_chunk_stack head;
	u64 frames[BRAID_STACK_FRAMES];
	u32 at = 0;
	int err = 0;

	if (!*stacks)
		*stacks = calloc(1, sizeof(**stacks));
	if (!*stacks)
		return -ENOMEM;
	while (!err && braid_view_take(v, &at, &head, sizeof(head))) {
		if (!head.id || !head.nr || head.nr > BRAID_STACK_FRAMES ||
		    !braid_view_take(v, &at, frames, head.nr * sizeof(u64)))
			break;
		err = stacks_add(*stacks, head.id, head.nr, frames);
	}
	return err;
}

void braid_stacks_free(struct braid_stacks *stacks)
{
	if (!stacks)
		return;
	braid_hash_free(&stacks->hash);
	free(stacks->items);
	free(stacks->frames);
	free(stacks);
}

/* Puts a stack at @at, if it is known. Return: the end of the record. */
static u32 put_frames(const struct braid_stacks *s, u32 id, u8 *to, u32 at, u32 *word)
{
	const struct stack *stack = stacks_find(s, id);
	u32 bytes = stack ? stack->nr * sizeof(u64) : 0;

	if (stack)
		memcpy(to + at, s->frames + stack->at, bytes);
	*word = bytes << 16 | at;
	return at + bytes;
}

u32 braid_stacks_fill(const struct braid_stacks *stacks, u8 *to, const u8 *payload, u32 bytes)
{
	u32 at = (bytes + 7) & ~7u;
	struct head head;

	if (bytes < sizeof(head) || at > BRAID_STACK_RECORD - 2 * BRAID_STACK_FRAMES * sizeof(u64))
		return 0;
	memset(to, 0, at);
	memcpy(to, payload, bytes);
	memcpy(&head, payload, sizeof(head));
	at = put_frames(stacks, head.kernel, to, at, &head.stack);
	at = put_frames(stacks, head.user, to, at, &head.user_stack);
	memcpy(to, &head, sizeof(head));
	return at;
}
