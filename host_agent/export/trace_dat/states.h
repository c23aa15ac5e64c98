/* SPDX-License-Identifier: GPL-2.0-or-later */
/* vCPUs' states as events of a trace.dat, in a buffer of their own. */
#ifndef BRAID_EXPORT_TRACE_DAT_STATES_H
#define BRAID_EXPORT_TRACE_DAT_STATES_H

#include "host_agent/export/trace_dat/trace_dat.h"

#define BRAID_DAT_OUT_STATES	"tracebraid"	/* the buffer's name */

struct braid_dat_out_states;

/**
 * braid_dat_out_states_make - walk over the trace, and keep the events of all vCPUs' states
 * @out: set; NULL: no state is known
 * @source: rewound before and after
 * @options: of the export
 *
 * Return: 0, or -errno with braid_fail(). Memory is that of the events: about 150 bytes each.
 */
int braid_dat_out_states_make(struct braid_dat_out_states **out, struct braid_source *source,
			      const struct braid_walk_options *options);

/** braid_dat_out_states_format - write the events' format */
void braid_dat_out_states_format(struct braid_dat_out_file *file);

/**
 * braid_dat_out_states_put - write the pages of a vCPU
 * @s: made
 * @guest: the stream
 * @vcpu: of it
 * @pages: get its events, and are closed
 *
 * Return: 0; -EMSGSIZE as braid_dat_out_pages_put(); -errno with braid_fail().
 */
int braid_dat_out_states_put(const struct braid_dat_out_states *s, const struct braid_stream *guest,
			     u32 vcpu, struct braid_dat_out_pages *pages);

/** braid_dat_out_states_free - free them; NULL is fine */
void braid_dat_out_states_free(struct braid_dat_out_states *s);

#endif /* BRAID_EXPORT_TRACE_DAT_STATES_H */
