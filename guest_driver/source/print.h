/* SPDX-License-Identifier: GPL-2.0 */
/* Prints records of the kernel's tracepoints as the kernel does. */
#ifndef BRAID_SOURCE_PRINT_H
#define BRAID_SOURCE_PRINT_H

#include "guest_driver/source/source.h"
#include "tracebraid/event.h"

/**
 * braid_print_init - find the kernel's print functions
 *
 * After braid_source_init(). Context: may sleep. Return: 0 or -ENOMEM.
 */
int braid_print_init(void);

/** braid_print_exit - forget them; no printer is active */
void braid_print_exit(void);

/**
 * braid_print_record - print a record of a tracepoint
 * @out: the output
 * @item: the record, of any id; a private copy, but untrusted
 * @tp: the tracepoint
 *
 * Prints the text of tracefs if the kernel's print function is safe with any record; else the
 * fields, one by one.
 *
 * Context: may sleep. Return: 0, or -EBADMSG: it is too short.
 */
int braid_print_record(struct seq_file *out, const struct braid_item *item,
		       const struct braid_tracepoint *tp);

/** braid_print_native - a braid_print_fn for events whose source is a tracepoint */
int braid_print_native(struct seq_file *out, const struct braid_item *item);

/**
 * braid_validate_print - whether a print function is safe with any record
 * @tp: its tracepoint
 *
 * Return: true if, whatever the record holds, it reads only the record and the 128 KiB after it,
 * has bounded loops, and divides by no field.
 */
bool braid_validate_print(const struct braid_tracepoint *tp);

#endif /* BRAID_SOURCE_PRINT_H */
