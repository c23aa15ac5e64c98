// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Samples a capture for `tracebraid top`, also while it is recorded: its figures are those of
 * `watch` and `analyze`, because the same engine adds them up.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/top.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

static const struct braid_top_rates unknown = { NAN, NAN, NAN, NAN, NAN, NAN, NAN };

int braid_top_open_capture(struct braid_top *top, const char *path)
{
	int err = braid_online_begin(&top->online, NULL);

	return err ? err : braid_online_open(top->online, path);
}

/* All that the capture has by now. Return: 0, or -errno with braid_fail(). */
static int take_all(struct braid_top *top)
{
	int ret;

	do
		ret = braid_online_turn(top->online, false);
	while (ret == 1);
	if (ret == BRAID_ONLINE_END) {
		top->over = true;
		ret = braid_online_finish(top->online);
	}
	return ret < 0 ? ret : 0;
}

/* They are in the order that was shown last. */
static size_t place_of(const struct braid_top *top, const char *name)
{
	size_t k;

	for (k = 0; k < top->nr && strcmp(top->guests[k].name, name); k++)
		;
	return k;
}

/* A guest's row, and those of its vCPUs. Return: 0, or -ENOMEM with braid_fail(). */
static int row_of(struct braid_top *top, const struct braid_online_guest *of,
		  struct braid_top_guest **out)
{
	struct braid_top_guest made = { .captured = true, .rates = unknown }, *g;
	struct braid_top_vcpu *vcpus;
	size_t k = place_of(top, of->name);

	static_assert(sizeof(made.name) >= sizeof(of->name), "a name fits");
	strcpy(made.name, of->name);
	if (k == top->nr && braid_array_push(top->guests, top->nr, top->capacity, made))
		return braid_out_of_memory();
	*out = g = &top->guests[k];
	if (g->nr_vcpus >= of->nr_vcpus)
		return 0;
	vcpus = reallocarray(g->vcpus, of->nr_vcpus, sizeof(*vcpus));
	if (!vcpus)
		return braid_out_of_memory();
	memset(vcpus + g->nr_vcpus, 0, (of->nr_vcpus - g->nr_vcpus) * sizeof(*vcpus));
	g->vcpus = vcpus;
	g->nr_vcpus = of->nr_vcpus;
	return 0;
}

/* Shares of the time that was observed since the last sample. Return: that time, in seconds. */
static double sample_vcpu(struct braid_top_vcpu *v, const u64 ns[BRAID_NR_VCPU_STATES], bool states)
{
	double all = braid_states_sum(ns) - braid_states_sum(v->ns);

	v->rates = unknown;
	if (all > 0 && states) {
		v->rates.run = (braid_states_ran(ns) - braid_states_ran(v->ns)) / all;
		v->rates.steal = (ns[BRAID_VCPU_STOLEN] - v->ns[BRAID_VCPU_STOLEN]) / all;
	}
	memcpy(v->ns, ns, sizeof(v->ns));
	return all / 1e9;
}

static void sum_up(struct braid_top_guest *g)
{
	u32 k;

	for (k = 0; k < g->nr_vcpus; k++) {
		const struct braid_top_rates *r = &g->vcpus[k].rates;

		if (isnan(r->run))
			continue;
		g->rates.run = isnan(g->rates.run) ? r->run : g->rates.run + r->run;
		g->rates.steal = isnan(g->rates.steal) ? r->steal : g->rates.steal + r->steal;
	}
}

static u64 exits_of(const struct braid_online_guest *g)
{
	u64 exits = g->exits.others.count;
	size_t k;

	for (k = 0; k < g->exits.nr; k++)
		exits += g->exits.items[k].count;
	return exits;
}

/* Return: 0, or -ENOMEM with braid_fail(). */
static int sample_guest(struct braid_top *top, const struct braid_online_guest *of)
{
	bool events = of->driver || of->events, kvm = of->states >> BRAID_VCPU_GUEST & 1;
	bool states = of->states >> BRAID_VCPU_STOLEN & 1;
	double seconds = 0, one;
	struct braid_top_guest *g;
	u64 exits = exits_of(of);
	size_t k;
	int err = row_of(top, of, &g);

	if (err)
		return err;
	g->rates = unknown;
	for (k = 0; k < of->nr_vcpus; k++) {
		one = sample_vcpu(&g->vcpus[k], of->vcpus[k].ns, states);
		seconds = one > seconds ? one : seconds;
	}
	sum_up(g);
	if (seconds > 0 && events) {
		g->rates.events = (of->events - g->events) / seconds;
		g->rates.lost = (of->lost - g->lost) / seconds;
	}
	if (seconds > 0 && kvm)
		g->rates.exits = (exits - g->exits) / seconds;
	g->exits = exits;
	g->events = of->events;
	g->lost = of->lost;
	g->counted = events;
	g->state = of->driver ? BRAID_DRIVER_LIVE : BRAID_DRIVER_NONE;
	g->recorded = of->present && of->driver && !top->over;
	g->sampled_ns = 1;
	return 0;
}

int braid_top_sample_capture(struct braid_top *top)
{
	const struct braid_online_guest *const *guests;
	int err = take_all(top);
	size_t nr, k;

	guests = braid_online_guests(top->online, &nr);
	for (k = 0; k < nr && !err; k++)
		err = sample_guest(top, guests[k]);
	return err;
}
