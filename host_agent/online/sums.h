/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Adds up what the states of one file show, in the tables. */
#ifndef BRAID_ONLINE_SUMS_H
#define BRAID_ONLINE_SUMS_H

#include "host_agent/online/tables.h"

/* Of a vCPU of the file. */
struct braid_online_sum {
	u64 done_ns[BRAID_NR_VCPU_STATES];	/* that are in its guest's sums */
	s64 from_ns, to_ns;	/* an episode that may go on; to_ns 0: none */
	bool woken;		/* its thread was, and has not run since ... */
	s64 woken_ns;		/* ... then */
};

struct braid_online_sums {
	const struct braid_online_options *options;
	struct braid_states states;
	struct braid_online_guest **guests;	/* by stream's number; NULL: a host, or left out */
	struct braid_online_sum *vcpus;		/* by number in the states */
};

/**
 * braid_online_sums_begin - prepare for a file
 * @x: zeroed; braid_online_sums_free() it in any case
 * @source: as for braid_states_begin()
 * @t: gets the guests that the file has
 * @totals: streams that are left out are counted
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_online_sums_begin(struct braid_online_sums *x, struct braid_source *source,
			    struct braid_online_table *t,
			    const struct braid_online_options *options,
			    struct braid_online_totals *totals);

/**
 * braid_online_sums_go_on - begin where those of the recording's former file are
 * @x: begun, before the first event
 * @former: as for braid_states_go_on(); braid_online_sums_free() is all that may follow
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_online_sums_go_on(struct braid_online_sums *x, struct braid_online_sums *former);

/** braid_online_sums_publish - add what vCPUs did up to a time, of which all is known */
void braid_online_sums_publish(struct braid_online_sums *x, s64 now_ns);

/** braid_online_sums_end - the file ends. Return: 0, or -errno with braid_fail() */
int braid_online_sums_end(struct braid_online_sums *x);

/** braid_online_sums_free - free what the file needed */
void braid_online_sums_free(struct braid_online_sums *x);

#endif /* BRAID_ONLINE_SUMS_H */
