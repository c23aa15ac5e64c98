/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The groups of trace headers, each a file that includes generate.h.
 */
#ifndef BRAID_SOURCE_GROUP_H
#define BRAID_SOURCE_GROUP_H

#include "guest_driver/source/source.h"

/**
 * struct braid_eval - A name that a print format uses, and its number.
 * @system: System whose formats use it.
 * @name: An enumerator, or "sizeof(TYPE)".
 * @value: The number.
 */
struct braid_eval {
	const char *system;
	const char *name;
	unsigned long value;
};

/**
 * struct braid_visitor - Receives all that a group has.
 * @tracepoint: Called for each event.
 * @eval: Called for each name of a number.
 */
struct braid_visitor {
	void (*tracepoint)(struct braid_visitor *visitor, const struct braid_tracepoint *tp);
	void (*eval)(struct braid_visitor *visitor, const struct braid_eval *eval);
};

void braid_group_cpu(struct braid_visitor *visitor);
void braid_group_io(struct braid_visitor *visitor);
void braid_group_kernel(struct braid_visitor *visitor);
void braid_group_mm(struct braid_visitor *visitor);
void braid_group_net(struct braid_visitor *visitor);

bool braid_leave_out(const struct braid_tracepoint *tp);

const struct braid_eval *braid_eval_find(const char *system, const char *name, size_t length);

#endif /* BRAID_SOURCE_GROUP_H */
