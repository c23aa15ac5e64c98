/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The interface of source/: the kernel's tracepoints, as native probes with their formats.
 *
 * Every event of the trace headers that the groups list is a struct
 * braid_tracepoint. Only those whose tracepoint the running kernel has are
 * handed out.
 *
 * Invariants:
 * - braid_source_init() fixes the set of tracepoints; later only state->event changes.
 * - A probe reserves, writes and commits with preemption off. It takes no address and no length
 *   from the record, because the host may rewrite that (assign_private.h).
 * - An event that reads a private structure of the kernel is handed out only if BTF confirms the
 *   layout (layout.h).
 * - A print function of the kernel is called only if its print format is safe with any record, and
 *   gets a private copy.
 * - The ftrace export (export.h) copies records unchanged. Their ids are looked up later, in a
 *   context that may sleep; that activity is not recorded.
 * - tracefs and sysfs are read through private mounts, so what the guest has mounted does not
 *   matter.
 * - Without BTF, tracefs or the kernel's ftrace export fewer events exist; the rest works.
 */
#ifndef BRAID_SOURCE_SOURCE_H
#define BRAID_SOURCE_SOURCE_H

#include <linux/tracepoint.h>
#include <linux/types.h>

struct braid_event;

/* Addresses in one record that print as symbols, at most. */
#define BRAID_SYMBOLS_MAX	4

/**
 * struct braid_field - One field of a record, as the trace header declares it.
 * @type: C type; an array's with its dimension, a dynamic one's with __data_loc before it.
 *        NULL ends a list of fields.
 * @name: Name.
 * @size: Bytes in the record's fixed part.
 * @align: Alignment in bytes.
 * @is_signed: Whether the type, or the array's element, is signed.
 * @filter_type: Filled by the stage macros, unused.
 * @len: Elements of an array, or 0.
 */
struct braid_field {
	const char *type;
	const char *name;
	u16 size;
	u16 align;
	u8 is_signed;
	u8 filter_type;
	u16 len;
};

/**
 * struct braid_source_state - The variable part of an event.
 * @tracepoint: The running kernel's tracepoint, NULL if it has none.
 * @event: Where the probe writes; NULL while off. Guarded by source.c's mutex.
 * @index: Place among all events that the running kernel has.
 */
struct braid_source_state {
	struct tracepoint *tracepoint;
	struct braid_event *event;
	unsigned int index;
};

/**
 * struct braid_tracepoint - One event, generated.
 * @system: System, as in tracefs.
 * @name: Name, as in tracefs: also its tracepoint's.
 * @probe: void probe(void *event, <the tracepoint's arguments>).
 * @fields: Its fields, ended by one with a NULL type.
 * @print_fmt: TP_printk() as the kernel makes it a string, with names not yet replaced by numbers.
 * @fixed_size: Bytes of a record without its dynamic fields.
 * @symbols: Offsets of its symbol fields, ended by 0; the class's, set at init.
 * @state: The variable part.
 */
struct braid_tracepoint {
	const char *system;
	const char *name;
	void *probe;
	const struct braid_field *fields;
	const char *print_fmt;
	u16 fixed_size;
	u16 *symbols;
	struct braid_source_state *state;
};

int braid_source_init(void);
void braid_source_exit(void);

const struct braid_tracepoint *braid_source_next(const struct braid_tracepoint *prev);
unsigned int braid_source_count(void);
unsigned int braid_source_missing(void);
unsigned int braid_source_left_out(void);

int braid_source_enable(const struct braid_tracepoint *tp, struct braid_event *event);
int braid_source_disable(const struct braid_tracepoint *tp);
void braid_source_synchronize(void);

int braid_source_format(const struct braid_tracepoint *tp, u16 id, char *buf, size_t size);
int braid_source_symbol_fields(const struct braid_tracepoint *tp, u16 offsets[], int max);

#endif /* BRAID_SOURCE_SOURCE_H */
