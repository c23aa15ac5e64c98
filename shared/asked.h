/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What a host asks of a guest's buffers and records: checked as if an enemy had written it. */
#ifndef BRAID_SHARED_ASKED_H
#define BRAID_SHARED_ASKED_H

#include "shared/filter.h"
#include "shared/platform.h"
#include "tracebraid/abi.h"

/** braid_slots_of - slots for @size bytes in sub-buffers of @subbuf_bytes; 0: too many */
u32 braid_slots_of(u64 size, u32 subbuf_bytes);

/* What a buffer is to become. */
struct braid_reshape_to {
	u32 nr_slots;		/* 0: unchanged */
	u32 subbuf_bytes;	/* 0: unchanged */
	u32 set, clear;		/* of its flags */
};

/**
 * braid_reshape_check - what a request for a buffer means
 * @asked: a private copy
 * @nr_slots: of the buffer now
 * @subbuf_bytes: likewise
 * @to: set on success
 *
 * Return: 0 or -EINVAL: no buffer can be so.
 */
int braid_reshape_check(const struct braid_reshape *asked, u32 nr_slots, u32 subbuf_bytes,
			struct braid_reshape_to *to);

/**
 * braid_trigger_check - whether a test of a trigger is well-formed
 * @program: a private copy; without instructions: true of all records
 * @trigger: likewise
 *
 * Return: 0; -EINVAL; -EOPNOTSUPP: another version.
 */
int braid_trigger_check(const struct braid_filter_program *program,
			const struct braid_trigger *trigger);

#endif /* BRAID_SHARED_ASKED_H */
