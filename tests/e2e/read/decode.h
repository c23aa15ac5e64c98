/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Checks that the storm module's events in sub-buffers are intact, not duplicated, and in order. */
#ifndef BRAID_TESTS_DECODE_H
#define BRAID_TESTS_DECODE_H

#include <stdint.h>

#define MAX_CPUS	8
#define NR_CONTEXTS	4
#define MAX_NUMBER	(1u << 20)

/* Shared by all processes that read concurrently. */
struct tally {
	uint64_t events, lost;
	uint64_t unreported;		/* sub-buffers without room for the count of lost events */
	uint64_t bad;			/* not an event, or not one that storm offered */
	uint64_t duplicated;
	uint64_t disordered;		/* earlier than its predecessor */
	uint8_t seen[MAX_CPUS][NR_CONTEXTS][MAX_NUMBER];
};

/* A walk over one sub-buffer after another. */
struct decoder {
	struct tally *tally;
	unsigned int event_id, cpu;
	int absolute;			/* headers hold the counter's low bits */
	uint64_t time;			/* of the last event in the sub-buffer */
	uint64_t last;			/* of the last event of all */
};

/* The events in [from, to) of a sub-buffer's data; time_stamp is used when from is 0. */
void decode(struct decoder *d, uint64_t time_stamp, const uint8_t *data, uint32_t from,
	    uint32_t to);

/* A whole sub-buffer with its header, as read() gives it: returns its events' bytes. */
uint32_t decode_page(struct decoder *d, const uint8_t *page, uint32_t bytes);

#endif /* BRAID_TESTS_DECODE_H */
