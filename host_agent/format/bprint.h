/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events of trace_printk(): the kernel records the address of a format, and its arguments. */
#ifndef BRAID_FORMAT_BPRINT_H
#define BRAID_FORMAT_BPRINT_H

#include "host_agent/fields/layout.h"
#include "host_agent/util/text.h"

/** braid_is_bprint - whether events of a name and layout are such ones */
bool braid_is_bprint(const struct braid_layout *layout, const char *name);

/**
 * braid_bprint_put - append "FUNCTION: TEXT"
 * @layout: braid_is_bprint(); its symbols and constants are used
 * @data: the payload, which holds the layout
 * @bytes: of it
 * @out: extended; may contain control characters
 *
 * Return: false: its format is not known, and nothing was appended.
 */
bool braid_bprint_put(const struct braid_layout *layout, const u8 *data, u32 bytes,
		      struct braid_text *out);

#endif /* BRAID_FORMAT_BPRINT_H */
