// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "shared/asked.h"

u32 braid_slots_of(u64 size, u32 subbuf_bytes)
{
	u32 nr = BRAID_MIN_SLOTS;

	if (!size || size > (u64)BRAID_MAX_SLOTS * subbuf_bytes)
		return 0;
	while ((u64)nr * subbuf_bytes < size)
		nr *= 2;
	return nr;
}

int braid_reshape_check(const struct braid_reshape *asked, u32 nr_slots, u32 subbuf_bytes,
			struct braid_reshape_to *to)
{
	u64 bytes = asked->ring_bytes ? asked->ring_bytes : (u64)nr_slots * subbuf_bytes;
	struct braid_reshape_to is = { .set = asked->set, .clear = asked->clear };

	if ((asked->set | asked->clear) & ~BRAID_BUFFER_OVERWRITE)
		return -EINVAL;
	if (asked->subbuf_bytes != subbuf_bytes)
		is.subbuf_bytes = asked->subbuf_bytes;
	if (is.subbuf_bytes &&
	    (is.subbuf_bytes < BRAID_MIN_SUBBUF_BYTES || is.subbuf_bytes > BRAID_MAX_SUBBUF_BYTES ||
	     is.subbuf_bytes % 8))
		return -EINVAL;
	if (asked->ring_bytes || is.subbuf_bytes) {
		is.nr_slots = braid_slots_of(bytes, is.subbuf_bytes ? is.subbuf_bytes :
						    subbuf_bytes);
		if (!is.nr_slots)
			return -EINVAL;
	}
	if (!is.subbuf_bytes && is.nr_slots == nr_slots)
		is.nr_slots = 0;
	*to = is;
	return 0;
}

int braid_trigger_check(const struct braid_filter_program *program,
			const struct braid_trigger *trigger)
{
	if (trigger->index >= BRAID_TRIGGERS || trigger->role >= BRAID_TRIGGER_ROLES)
		return -EINVAL;
	return program->nr_insns ? braid_filter_check(program) : 0;
}
