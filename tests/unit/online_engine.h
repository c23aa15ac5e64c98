/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An online engine in tests. */
#ifndef BRAID_TESTS_ONLINE_ENGINE_H
#define BRAID_TESTS_ONLINE_ENGINE_H

#include "host_agent/online/online.h"
#include "tests/unit/busy_host.h"

/* With the default limits. */
struct braid_online *online_engine(u64 every_ns);

/* NULL: there is none of that name. */
const struct braid_online_guest *online_guest(const struct braid_online *o, const char *name);

/* The time that a culprit took; 0: it has no row. */
u64 online_stolen_by(const struct braid_online_guest *g, u64 kind, const char *name);

/* A capture that was written, by all its marks. Return: 0, or -errno with braid_fail(). */
int online_feed(struct braid_online *o, const struct busy_host *b);

/*
 * A capture that was written, as if it were recorded now: it gets more in so many parts. Return: of
 * braid_online_turn().
 */
int online_follow(struct braid_online *o, const char *file, u32 parts);

#endif /* BRAID_TESTS_ONLINE_ENGINE_H */
