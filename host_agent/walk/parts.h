/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A walk on several CPUs: the time is cut into parts, threads walk along one each, and what they
 * make of it is written in order.
 *
 * Invariants:
 * - What is written, and the totals, are those of one walk. Each part is compared with the one
 *   before it at their cut: the next items of all rings, and the order of events. If they differ,
 *   or a fault is found, one walk makes the rest.
 * - A thread has a source of its own, so that nothing of a walk is shared.
 * - What depends on all earlier events is made apart from the parts, in one of the threads, while
 *   others make parts.
 * - Memory is that of what a few parts more than threads are made into.
 */
#ifndef BRAID_WALK_PARTS_H
#define BRAID_WALK_PARTS_H

#include "host_agent/util/text.h"
#include "host_agent/walk/walk.h"

/* What makes parts in a thread. */
struct braid_parts_maker {
	struct braid_walk *walk;		/* begun */
	const struct braid_walk_ops *ops;	/* called for each item of a part */
	void *arg;				/* passed to them */
	struct braid_text *out;			/* they append to it, and do not empty it */
	int (*finish)(void *arg);		/* at a part's end; NULL: no more to append */
};

struct braid_parts_form {
	/*
	 * Called in a thread, with its own source, options and totals: fills @maker. Return: 0, or
	 * -errno with braid_fail(); end() is called in either case.
	 */
	int (*begin)(void *arg, struct braid_source *source,
		     const struct braid_walk_options *options, struct braid_walk_totals *totals,
		     struct braid_parts_maker *maker);
	void (*end)(struct braid_parts_maker *maker);
	/* Called in the caller's thread, part by part; may cut @text. Return: 0, or that error. */
	int (*write)(void *arg, struct braid_text *text);
	/*
	 * NULL: nothing. Called once, in a thread, with its own source and options: makes what is
	 * not made in parts, while those are written. Return: 0, or -errno with braid_fail().
	 */
	int (*apart)(void *arg, struct braid_source *source,
		     const struct braid_walk_options *options);
};

/**
 * braid_parts_try - make all on several CPUs, if options->cpus is more than 1 and the source
 *	can be cut
 * @w: begun
 * @ops: as for braid_walk_run(): called for the rest, where parts are not possible any more
 * @arg: passed to @ops and @form
 * @form: how parts are made
 *
 * Return: 1: w->totals are complete; 0: parts are not possible, and nothing was done; or -errno as
 * braid_walk_run().
 */
int braid_parts_try(struct braid_walk *w, const struct braid_walk_ops *ops, void *arg,
		    const struct braid_parts_form *form);

/** braid_parts_run - the same; without parts, braid_walk_run(). Return: 0 or -errno, as that */
int braid_parts_run(struct braid_walk *w, const struct braid_walk_ops *ops, void *arg,
		    const struct braid_parts_form *form);

#endif /* BRAID_WALK_PARTS_H */
