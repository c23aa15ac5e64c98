// SPDX-License-Identifier: GPL-2.0-or-later
/* The copier and what it calls, compiled again with the hook. */
#include "tests/unit/hooked_ring_copy.h"

void (*hooked_ring_copy_others)(void);

static void *copy_in_two(void *to, const void *from, size_t bytes)
{
	size_t half = bytes / 2;

	memcpy(to, from, half);
	hooked_ring_copy_others();
	memcpy((u8 *)to + half, (const u8 *)from + half, bytes - half);
	return to;
}

#undef braid_load
#undef braid_load_acquire
#define braid_load(p)		({ hooked_ring_copy_others(); __atomic_load_n(p, __ATOMIC_RELAXED); })
#define braid_load_acquire(p)	({ hooked_ring_copy_others(); __atomic_load_n(p, __ATOMIC_ACQUIRE); })
#define memcpy(to, from, bytes)	copy_in_two(to, from, bytes)
#define braid_reader_own		hooked_copy_own
#define braid_reader_disown		hooked_copy_disown
#define braid_reader_attach		hooked_copy_attach
#define braid_reader_next		hooked_copy_next
#define braid_reader_span_events	hooked_copy_span_events
#define braid_reader_done		hooked_copy_done
#define braid_peek_begin		hooked_copy_peek_begin
#define braid_peek_next			hooked_copy_peek_next
#define braid_peek_subbuf		hooked_copy_peek_subbuf
#define braid_peek_valid		hooked_copy_peek_valid
#define braid_ring_copy			hooked_ring_copy
#include "shared/ring_reader.c"			/* NOLINT: for the hook */
#include "host_agent/transport/ring_copy.c"
