// SPDX-License-Identifier: GPL-2.0-or-later
/* Says if a guest does not sample as asked. */
#include <errno.h>
#include <string.h>

#include "host_agent/live/sampling.h"

int braid_live_sampling_answered(struct braid_live_stream *s,
				 const struct braid_control_answer *answer)
{
	if (!answer->result)
		return 0;
	if (answer->result == -EBUSY)
		return braid_live_note(s, "the guest's own user has sample:cpu on: it samples at that user's rate");
	return braid_live_note(s, "the guest samples as its parameter sample_hz says: %s",
			       strerror(-answer->result));
}
