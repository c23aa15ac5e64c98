// SPDX-License-Identifier: GPL-2.0-or-later
/* An online engine in tests. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/need.h"
#include "tests/unit/online_engine.h"
#include "tests/unit/scratch.h"

const struct braid_online_guest *online_guest(const struct braid_online *o, const char *name)
{
	const struct braid_online_guest *const *all;
	size_t k, nr;

	all = braid_online_guests(o, &nr);
	for (k = 0; k < nr; k++)
		if (!strcmp(all[k]->name, name))
			return all[k];
	return NULL;
}

struct braid_online *online_engine(u64 every_ns)
{
	const struct braid_online_options options = { .every_ns = every_ns };
	struct braid_online *o;

	NEED(!braid_online_begin(&o, &options));
	return o;
}

u64 online_stolen_by(const struct braid_online_guest *g, u64 kind, const char *name)
{
	size_t k;

	for (k = 0; k < g->culprits.nr; k++)
		if (g->culprits.items[k].key == kind && !strcmp(g->culprits.items[k].name, name))
			return g->culprits.items[k].ns;
	return 0;
}

int online_feed(struct braid_online *o, const struct busy_host *b)
{
	int err = braid_online_open(o, b->path);
	u32 k;

	for (k = 0; k < b->nr_marks && !err; k++)
		err = braid_online_take(o, &b->marks[k]);
	return err ? err : braid_online_finish(o);
}

int online_follow(struct braid_online *o, const char *file, u32 parts)
{
	char growing[512];
	size_t bytes;
	u8 *all = read_file(file, &bytes);
	int ret = 0;
	u32 k;

	snprintf(growing, sizeof(growing), "%s.growing", file);
	for (k = 1; k <= parts; k++) {
		write_file(growing, all, bytes * k / parts);
		if (k == 1)
			NEED(!braid_online_open(o, growing));
		do
			ret = braid_online_turn(o, k == parts);
		while (ret == 1);
	}
	unlink(growing);
	free(all);
	return ret;
}
