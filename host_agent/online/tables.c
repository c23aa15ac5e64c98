// SPDX-License-Identifier: GPL-2.0-or-later
/* The tables of an engine: guests by name, their rows, their histograms. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/online/tables.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define SECOND_NS	1000000000

/* Guests ------------------------------------------------------------------------------------- */

static struct braid_online_guest *tables_find(const struct braid_online_table *t, const char *name)
{
	size_t k;

	for (k = 0; k < t->nr; k++)
		if (!strcmp(t->items[k]->name, name))
			return t->items[k];
	return NULL;
}

int braid_online_guest_of(struct braid_online_table *t, const char *name, u32 max,
			  struct braid_online_guest **out)
{
	struct braid_online_guest *g = tables_find(t, name);

	*out = g;
	if (g || t->nr >= max)
		return 0;
	g = calloc(1, sizeof(*g));
	if (!g || braid_array_push(t->items, t->nr, t->capacity, g)) {
		free(g);
		return braid_out_of_memory();
	}
	snprintf(g->name, sizeof(g->name), "%s", name);
	*out = g;
	return 0;
}

int braid_online_vcpus(struct braid_online_guest *g, size_t nr)
{
	struct braid_online_vcpu *vcpus;

	if (nr <= g->nr_vcpus)
		return 0;
	vcpus = reallocarray(g->vcpus, nr, sizeof(*vcpus));
	if (!vcpus)
		return braid_out_of_memory();
	memset(vcpus + g->nr_vcpus, 0, (nr - g->nr_vcpus) * sizeof(*vcpus));
	g->vcpus = vcpus;
	g->nr_vcpus = nr;
	return 0;
}

static void free_guest(struct braid_online_guest *g)
{
	free(g->vcpus);
	free(g->culprits.items);
	free(g->cgroups.items);
	free(g->exits.items);
	free(g->seen);
	free(g);
}

void braid_online_table_free(struct braid_online_table *t)
{
	while (t->nr)
		free_guest(t->items[--t->nr]);
	free(t->items);
	*t = (struct braid_online_table){ 0 };
}

/* Rows --------------------------------------------------------------------------------------- */

struct braid_online_row *braid_online_of_key(const struct braid_online_rows *rows, u64 key)
{
	size_t k;

	for (k = 0; k < rows->nr; k++)
		if (rows->items[k].key == key)
			return &rows->items[k];
	return NULL;
}

void braid_online_add_to(struct braid_online_row *row, u64 ns, s64 now_ns)
{
	row->count++;
	row->ns += ns;
	row->last_ns = now_ns;
}

int braid_online_add(struct braid_online_rows *rows, u32 max, u64 key, const char *name, u64 ns,
		     s64 now_ns)
{
	struct braid_online_row *row = &rows->others;
	size_t k;

	for (k = 0; k < rows->nr; k++)
		if (rows->items[k].key == key && !strcmp(rows->items[k].name, name))
			break;
	if (k == rows->nr && k < max) {
		struct braid_online_row made = { .key = key };

		snprintf(made.name, sizeof(made.name), "%s", name);
		if (braid_array_push(rows->items, rows->nr, rows->capacity, made))
			return braid_out_of_memory();
	}
	if (k < rows->nr)
		row = &rows->items[k];
	braid_online_add_to(row, ns, now_ns);
	return 0;
}

/* A culprit that is a guest is kept as long as that guest is. */
static bool is_gone(const struct braid_online_table *t, const struct braid_online_row *row,
		    s64 before_ns)
{
	return row->key == BRAID_CULPRIT_GUEST && row->last_ns < before_ns &&
	       !tables_find(t, row->name);
}

static void drop_culprits(const struct braid_online_table *t, struct braid_online_rows *rows,
			  s64 before_ns)
{
	size_t k, nr = 0;

	for (k = 0; k < rows->nr; k++)
		if (!is_gone(t, &rows->items[k], before_ns))
			rows->items[nr++] = rows->items[k];
	rows->nr = nr;
}

u64 braid_online_drop(struct braid_online_table *t, s64 before_ns)
{
	size_t k, nr = 0, all = t->nr;

	for (k = 0; k < all; k++) {
		if (t->items[k]->present || t->items[k]->seen_ns >= before_ns)
			t->items[nr++] = t->items[k];
		else
			free_guest(t->items[k]);
	}
	t->nr = nr;
	for (k = 0; k < nr; k++)
		drop_culprits(t, &t->items[k]->culprits, before_ns);
	return all - nr;
}

/* Histograms --------------------------------------------------------------------------------- */

#define DECADE(ns)	1 * (ns), 2 * (ns), 5 * (ns)

const u64 braid_online_limits_ns[BRAID_ONLINE_BUCKETS] = {
	DECADE(1000ULL), DECADE(10000ULL), DECADE(100000ULL), DECADE(1000000ULL),
	DECADE(10000000ULL), DECADE(100000000ULL), DECADE(1000000000ULL), 10000000000ULL,
};

void braid_online_compare(struct braid_online_histogram *h, u64 ns, s64 at_ns)
{
	s64 second = at_ns / SECOND_NS;

	if (second > h->now.second) {
		if (h->now.ns)
			h->before = h->now;
		h->now = (struct braid_online_worst){ .second = second };
	}
	if (ns > h->now.ns) {
		h->now.ns = ns;
		h->now.at_ns = at_ns;
	}
}

void braid_online_count(struct braid_online_histogram *h, u64 ns, s64 at_ns)
{
	size_t k;

	braid_array_first(k, BRAID_ONLINE_BUCKETS, braid_online_limits_ns[k] >= ns);
	h->counts[k]++;
	h->natives[braid_native_bucket(ns)]++;
	h->nr++;
	h->sum_ns += ns;
	braid_online_compare(h, ns, at_ns);
}
