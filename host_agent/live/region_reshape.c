// SPDX-License-Identifier: GPL-2.0-or-later
/* Has a guest give its buffers another shape. */
#include <errno.h>
#include <string.h>

#include "host_agent/live/control.h"

/* Which buffers are to be reshaped: those that shrink make room for those that grow. */
int braid_live_reshapes_find(struct braid_live_control *c, struct braid_live_stream *s)
{
	const struct braid_reshape *to = &s->o.reshape;
	bool grows;
	u32 k;

	c->nr_reshapes = 0;
	if (!to->ring_bytes && !to->subbuf_bytes && !to->set && !to->clear)
		return 0;
	if (s->mapping->one_way || s->sb.version_minor < BRAID_TRIGGER_MINOR)
		return braid_live_note(s, "its buffers stay as they are: %s", s->mapping->one_way ?
				       "its memory is only read" : "its driver is too old; update it");
	for (grows = false;; grows = true) {
		for (k = 0; k < s->sb.nr_buffers; k++) {
			const struct braid_buffer_desc *desc = &s->sb.buffers[k];

			if (!desc->nr_rings ||
			    (s->o.buffer && strncmp(desc->name, s->o.buffer, sizeof(desc->name))) ||
			    grows != ((u64)desc->nr_slots * desc->subbuf_bytes < to->ring_bytes))
				continue;
			c->reshapes[c->nr_reshapes++] = k;
		}
		if (grows)
			return 0;
	}
}

int braid_live_reshape_answered(struct braid_live_control *c, struct braid_live_stream *s,
				const struct braid_control_answer *answer)
{
	const struct braid_live_name name = braid_live_buffer_name(s, c->control.arg0);
	const char *why = answer->reason;

	if (!answer->result)
		return 0;
	c->refused |= answer->result == -EPERM;
	if (answer->result == -EBUSY)
		why = "it is being read or mapped in the guest";
	if (answer->result == -ENOSPC)
		why = "the guest's trace memory has no room for that";
	if (answer->result == -EINVAL)
		why = "a sub-buffer has 256 to 65536 bytes, a multiple of 8, and a ring 2 to 32768 of them";
	return braid_live_note(s, "buffer %s stays as it is: %s", name.text, why);
}
