/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The epochs of a stream's clock; of a guest that moved between hosts, those on each of them. */
#ifndef BRAID_TRACE_EPOCHS_H
#define BRAID_TRACE_EPOCHS_H

#include "host_agent/trace/source.h"

#define BRAID_EPOCH_MOVED	"the guest moved to another host"	/* why one began */

struct braid_epoch {
	const struct braid_stream *of;		/* the stream, or its part where it was */
	const struct braid_clock_epoch *e;
	const struct braid_stay *moved;		/* it began by that; NULL: as ->e says */
	u32 vcpu;				/* UINT32_MAX: of all */
	size_t number;				/* of the vCPU's, from 0 */
	size_t stay;
	s64 from_ns, begun_ns;			/* on the timeline; the first one: INT64_MIN */
};

/**
 * braid_epoch_next - all of a stream, vCPU by vCPU, in order
 * @stream: any
 * @epoch: all 0 for the first one; filled
 *
 * Return: whether there is one more.
 */
bool braid_epoch_next(const struct braid_stream *stream, struct braid_epoch *epoch);

/** braid_epoch_at - the @number-th of these, from 0. Return: whether there is one */
bool braid_epoch_at(const struct braid_stream *stream, size_t number, struct braid_epoch *epoch);

/** braid_epochs_most - of the vCPU that has the most */
u32 braid_epochs_most(const struct braid_stream *stream);

/** braid_epoch_cause - why it began; the first one: "" */
const char *braid_epoch_cause(const struct braid_epoch *epoch);

#endif /* BRAID_TRACE_EPOCHS_H */
