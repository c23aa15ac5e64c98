/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The stacks that a guest's records refer to. The guest writes tracebraid:stack with numbers; an
 * item of a walk has the same event with the frames.
 */
#ifndef BRAID_TRACE_STACKS_H
#define BRAID_TRACE_STACKS_H

#include "host_agent/capture/capture.h"
#include "shared/stack.h"

#define BRAID_STACK_SYSTEM	"tracebraid"
#define BRAID_STACK_EVENT	"stack"

struct braid_stacks;

/**
 * braid_stacks_take - add those of a chunk
 * @stacks: NULL at first
 * @v: BRAID_CHUNK_STACKS; what is invalid in it is left out
 *
 * Of two with one number the first counts. Return: 0 or -ENOMEM.
 */
int braid_stacks_take(struct braid_stacks **stacks, const struct braid_chunk_view *v);

/** braid_stacks_free - free; NULL is fine */
void braid_stacks_free(struct braid_stacks *stacks);

/* The bytes of a record with both stacks, at most. */
#define BRAID_STACK_RECORD	(48u + 2 * BRAID_STACK_FRAMES * (u32)sizeof(u64))

/**
 * braid_stacks_fill - a record of tracebraid:stack with its frames
 * @stacks: of its stream; NULL: none
 * @to: of BRAID_STACK_RECORD bytes, 8-byte aligned
 * @payload: the guest's
 * @bytes: of it
 *
 * Return: the bytes of the record in @to; 0: it is no such record: take the guest's.
 */
u32 braid_stacks_fill(const struct braid_stacks *stacks, u8 *to, const u8 *payload, u32 bytes);

#endif /* BRAID_TRACE_STACKS_H */
