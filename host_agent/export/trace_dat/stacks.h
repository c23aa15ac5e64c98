/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Stacks of events, as the events that ftrace writes for them. */
#ifndef BRAID_EXPORT_TRACE_DAT_STACKS_H
#define BRAID_EXPORT_TRACE_DAT_STACKS_H

#include "host_agent/export/trace_dat/trace_dat.h"

/** braid_dat_out_stacks_format - write their formats */
void braid_dat_out_stacks_format(struct braid_dat_out_file *file);

/** braid_dat_out_stacks_is - whether the events of a type are stacks */
bool braid_dat_out_stacks_is(const struct braid_event_type_info *info);

/**
 * braid_dat_out_stacks_find - the frames of a stack
 * @item: holds all fields of @info
 * @info: its type: a stack
 * @user: the user stack, not the kernel's
 * @frames: set: addresses, not aligned
 *
 * Return: bytes of the frames; 0: it has none.
 */
u32 braid_dat_out_stacks_find(const struct braid_item *item,
			      const struct braid_event_type_info *info, bool user,
			      const u8 **frames);

/** braid_dat_out_stacks_bytes - of the record of so many bytes of frames */
u32 braid_dat_out_stacks_bytes(u32 frames_bytes);

/** braid_dat_out_stacks_fill - fill that record; the arguments are those of the others */
void braid_dat_out_stacks_fill(void *record, const struct braid_item *item, bool user,
			       const u8 *frames, u32 bytes);

#endif /* BRAID_EXPORT_TRACE_DAT_STACKS_H */
