/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The states of the trace in memory (memory_trace.h), as text. */
#ifndef BRAID_TESTS_SPAN_TEXT_H
#define BRAID_TESTS_SPAN_TEXT_H

#include "host_agent/analyze/states.h"

extern struct braid_states span_states;
extern bool span_queues;	/* the next walk follows tasks in their guests' queues */

/* Walks the trace. span_states are to be freed. Return: 0, or -errno with braid_fail(). */
int span_walk(void);

/* The spans of vCPU 0 that it found, a line each. */
const char *span_found(void);

/* Walks it, and checks that vCPU 0 has these spans: "1000-2000 stolen by task9[9]", a line each. */
void span_expect(const char *want);

/* Frees the text. */
void span_free(void);

#endif /* BRAID_TESTS_SPAN_TEXT_H */
