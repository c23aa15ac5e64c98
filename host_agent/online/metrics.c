// SPDX-License-Identifier: GPL-2.0-or-later
/* The sums of an engine as metrics. */
#include <ctype.h>

#include "host_agent/online/metrics.h"

/* What all families have in common. */
struct metrics {
	const struct braid_online *o;
	struct braid_exposition *e;
	const struct braid_online_guest *const *guests;
	size_t nr;
};

/* A sample of a guest; its value follows. */
static void begin_sample(struct metrics *m, const struct braid_online_guest *g)
{
	braid_exposition_sample(m->e);
	braid_exposition_label(m->e, "guest", g->name);
}

/* A family of which each guest that @has it has one number. */
static void put_numbers(struct metrics *m, const char *name, const char *help,
			bool (*has)(const struct braid_online_guest *g),
			u64 (*number)(const struct braid_online_guest *g))
{
	size_t k;

	braid_exposition_family(m->e, name, BRAID_COUNTER, help);
	for (k = 0; k < m->nr; k++) {
		if (!has(m->guests[k]))
			continue;
		begin_sample(m, m->guests[k]);
		braid_exposition_number(m->e, number(m->guests[k]));
	}
}

/* States ------------------------------------------------------------------------------------- */

static void state_name(enum braid_vcpu_state state, char name[16])
{
	const char *from = braid_vcpu_state_name(state);
	u32 k;

	for (k = 0; from[k] && k < 15; k++)
		name[k] = tolower((unsigned char)from[k]);
	name[k] = 0;
}

static bool shows(const struct braid_online_guest *g, enum braid_vcpu_state state)
{
	return g->states >> state & 1;
}

static void put_states_of(struct metrics *m, const struct braid_online_guest *g)
{
	char name[16];
	u32 state;
	size_t k;

	for (k = 0; k < g->nr_vcpus; k++)
		for (state = 0; state < BRAID_NR_VCPU_STATES; state++) {
			if (!shows(g, state))
				continue;
			state_name(state, name);
			begin_sample(m, g);
			braid_exposition_label_number(m->e, "vcpu", k);
			braid_exposition_label(m->e, "state", name);
			braid_exposition_ns(m->e, g->vcpus[k].ns[state]);
		}
}

static void put_states(struct metrics *m)
{
	size_t k;

	braid_exposition_family(m->e, "tracebraid_vcpu_seconds", BRAID_COUNTER,
				"Time of a vCPU in each state; the states add up to its observed time.");
	for (k = 0; k < m->nr; k++)
		put_states_of(m, m->guests[k]);
}

/* Rows --------------------------------------------------------------------------------------- */

/* The class of a culprit, and its name, unless that is a guest's. */
static const char *const culprits[][2] = {
	[BRAID_CULPRIT_NOTHING] = { "idle", "idle" },
	[BRAID_CULPRIT_UNKNOWN] = { "unknown", "unknown" },
	[BRAID_CULPRIT_OTHERS] = { "others", "others" },
	[BRAID_CULPRIT_GUEST] = { "guest" },
	[BRAID_CULPRIT_RECORDER] = { "recorder", "recorder" },
	[BRAID_CULPRIT_HOST] = { "host", "host threads" },
	[BRAID_CULPRIT_INTERRUPTS] = { "interrupts", "interrupts" },
};

static void put_culprit(struct metrics *m, const struct braid_online_guest *g, u64 kind,
			const char *name, u64 ns)
{
	const u64 nr = sizeof(culprits) / sizeof(culprits[0]);

	if (kind >= nr || !culprits[kind][0])
		kind = BRAID_CULPRIT_UNKNOWN;
	begin_sample(m, g);
	braid_exposition_label(m->e, "culprit_class", culprits[kind][0]);
	braid_exposition_label(m->e, "culprit", culprits[kind][1] ?: name);
	braid_exposition_ns(m->e, ns);
}

/* Several at a time, and culprits beyond the limit, are all others. */
static void put_stolen_of(struct metrics *m, const struct braid_online_guest *g)
{
	const struct braid_online_rows *rows = &g->culprits;
	u64 others_ns = rows->others.ns;
	bool others = rows->others.count;
	size_t k;

	for (k = 0; k < rows->nr; k++) {
		const struct braid_online_row *row = &rows->items[k];

		if (row->key != BRAID_CULPRIT_OTHERS) {
			put_culprit(m, g, row->key, row->name, row->ns);
			continue;
		}
		others = true;
		others_ns += row->ns;
	}
	if (others)
		put_culprit(m, g, BRAID_CULPRIT_OTHERS, "", others_ns);
}

static void put_stolen(struct metrics *m)
{
	size_t k;

	braid_exposition_family(m->e, "tracebraid_stolen_seconds", BRAID_COUNTER,
				"Time stolen from a guest's vCPUs, by what ran on the host's CPU instead.");
	for (k = 0; k < m->nr; k++)
		put_stolen_of(m, m->guests[k]);
}

static void put_row(struct metrics *m, const struct braid_online_guest *g, const char *label,
		    const char *name, const struct braid_online_row *row, bool counts)
{
	begin_sample(m, g);
	braid_exposition_label(m->e, label, name);
	if (counts)
		braid_exposition_number(m->e, row->count);
	else
		braid_exposition_ns(m->e, row->ns);
}

/* A family of rows that have a name each. */
static void put_rows(struct metrics *m, const char *name, const char *help, const char *label,
		     const struct braid_online_rows *(*of)(const struct braid_online_guest *g),
		     bool counts)
{
	size_t k, n;

	braid_exposition_family(m->e, name, BRAID_COUNTER, help);
	for (k = 0; k < m->nr; k++) {
		const struct braid_online_guest *g = m->guests[k];
		const struct braid_online_rows *rows = of(g);

		for (n = 0; n < rows->nr; n++)
			put_row(m, g, label, rows->items[n].name, &rows->items[n], counts);
		if (rows->others.count)
			put_row(m, g, label, "(others)", &rows->others, counts);
	}
}

static const struct braid_online_rows *cgroups_of(const struct braid_online_guest *g)
{
	return &g->cgroups;
}

static const struct braid_online_rows *exits_of(const struct braid_online_guest *g)
{
	return &g->exits;
}

/* Histograms --------------------------------------------------------------------------------- */

static void put_histogram_of(struct metrics *m, const struct braid_online_guest *g,
			     const struct braid_online_histogram *h)
{
	const struct braid_exposition_histogram durations = {
		.limits_ns = braid_online_limits_ns, .counts = h->counts,
		.nr_limits = BRAID_ONLINE_BUCKETS, .nr = h->nr, .sum_ns = h->sum_ns,
		.natives = h->natives,
	};

	braid_exposition_durations(m->e, "guest", g->name, &durations);
}

static bool has_events(const struct braid_online_guest *g)
{
	return g->driver || g->events || g->lost || g->losses;
}

static void put_histograms(struct metrics *m)
{
	size_t k;

	braid_exposition_family(m->e, "tracebraid_wakeup_seconds", BRAID_HISTOGRAM,
				"Time from the wake-up of a guest's task until it gets its vCPU.");
	for (k = 0; k < m->nr; k++)
		if (has_events(m->guests[k]))
			put_histogram_of(m, m->guests[k], &m->guests[k]->wakeups);
	braid_exposition_family(m->e, "tracebraid_vcpu_wakeup_seconds", BRAID_HISTOGRAM,
				"Time from the wake-up of a vCPU's thread until it gets a CPU of the host.");
	for (k = 0; k < m->nr; k++)
		if (shows(m->guests[k], BRAID_VCPU_SLEEPS))
			put_histogram_of(m, m->guests[k], &m->guests[k]->vcpu_wakeups);
	braid_exposition_family(m->e, "tracebraid_stolen_episode_seconds", BRAID_HISTOGRAM,
				"Length of the times in which a vCPU was stolen without interruption.");
	for (k = 0; k < m->nr; k++)
		if (shows(m->guests[k], BRAID_VCPU_STOLEN))
			put_histogram_of(m, m->guests[k], &m->guests[k]->steals);
}

/* Events and clocks -------------------------------------------------------------------------- */

static u64 events_of(const struct braid_online_guest *g)
{
	return g->events;
}

static u64 lost_of(const struct braid_online_guest *g)
{
	return g->lost;
}

static u64 losses_of(const struct braid_online_guest *g)
{
	return g->losses;
}

static void put_events(struct metrics *m)
{
	put_numbers(m, "tracebraid_events", "Events of a guest that were recorded.", has_events,
		    events_of);
	put_numbers(m, "tracebraid_lost_events", "Events of a guest that were lost.", has_events,
		    lost_of);
	put_numbers(m, "tracebraid_uncounted_losses",
		    "Times that a guest lost an unknown number of events, which are not in lost_events.",
		    has_events, losses_of);
}

static void put_clocks(struct metrics *m)
{
	size_t k;

	braid_exposition_family(m->e, "tracebraid_clock_bound_seconds", BRAID_GAUGE,
				"Largest possible error of the times of a guest's events; +Inf if unknown.");
	for (k = 0; k < m->nr; k++) {
		if (!m->guests[k]->driver)
			continue;
		begin_sample(m, m->guests[k]);
		braid_exposition_ns(m->e, m->guests[k]->bound_ns);
	}
	braid_exposition_family(m->e, "tracebraid_guest_silent_seconds", BRAID_GAUGE,
				"Time since a guest's last event, or answer about its clock.");
	for (k = 0; k < m->nr; k++) {
		u64 ns = braid_online_silent_ns(m->o, m->guests[k]);

		if (ns == UINT64_MAX)
			continue;
		begin_sample(m, m->guests[k]);
		braid_exposition_ns(m->e, ns);
	}
}

static void put_info(struct metrics *m)
{
	size_t k;

	braid_exposition_family(m->e, "tracebraid_guest", BRAID_INFO,
				"A guest that is recorded now: whether with the driver, and what its clock is derived from.");
	for (k = 0; k < m->nr; k++) {
		const struct braid_online_guest *g = m->guests[k];

		if (!g->present)
			continue;
		begin_sample(m, g);
		braid_exposition_label(m->e, "driver", g->driver ? "yes" : "no");
		braid_exposition_label(m->e, "clock", g->driver ? braid_clock_kind_name(g->clock) : "");
		braid_exposition_number(m->e, 1);
	}
}

/* The engine ---------------------------------------------------------------------------------- */

static void put_total(struct metrics *m, const char *name, const char *help, u64 value)
{
	braid_exposition_family(m->e, name, BRAID_COUNTER, help);
	braid_exposition_sample(m->e);
	braid_exposition_number(m->e, value);
}

static void put_totals(struct metrics *m)
{
	const struct braid_online_totals *t = braid_online_totals(m->o);

	put_total(m, "tracebraid_host_events", "Events of the host that were recorded.", t->host_events);
	put_total(m, "tracebraid_host_lost_events", "Events of the host that were lost.", t->host_lost);
	put_total(m, "tracebraid_host_uncounted_losses",
		  "Times that the host lost an unknown number of events, which are not in host_lost_events.",
		  t->host_losses);
	put_total(m, "tracebraid_late_events",
		  "Events that came too late for the states of vCPUs, which count them as lost.", t->late);
	put_total(m, "tracebraid_captures", "Captures that were followed.", t->files);
	put_total(m, "tracebraid_failed_captures", "Captures that could not be read up to their end.",
		  t->failed);
	put_total(m, "tracebraid_capture_faults", "Damages and errors in captures.", t->faults);
	put_total(m, "tracebraid_streams_left_out", "Guests of captures that were not followed.",
		  t->streams_left_out);
	put_total(m, "tracebraid_guests_dropped", "Guests that were gone for so long that they were forgotten.",
		  t->guests_dropped);
	braid_exposition_family(m->e, "tracebraid_analyzed_until_seconds", BRAID_GAUGE,
				"Time up to which events were analyzed, by the host's monotonic raw clock.");
	braid_exposition_sample(m->e);
	braid_exposition_ns(m->e, t->now_ns > 0 ? t->now_ns : 0);
}

void braid_online_metrics(const struct braid_online *o, struct braid_exposition *e)
{
	struct metrics m = { .o = o, .e = e };

	m.guests = braid_online_guests(o, &m.nr);
	put_info(&m);
	put_states(&m);
	put_stolen(&m);
	put_rows(&m, "tracebraid_throttled_seconds",
		 "Time in which a CPU quota held a guest's vCPUs back, by the cgroup that has it.", "cgroup",
		 cgroups_of, false);
	put_rows(&m, "tracebraid_exits", "Exits from guest code.", "reason", exits_of, true);
	put_rows(&m, "tracebraid_exit_seconds",
		 "Time from exits until the guest went on, including the time in which it was halted.",
		 "reason", exits_of, false);
	put_histograms(&m);
	put_events(&m);
	put_clocks(&m);
	put_totals(&m);
}
