// SPDX-License-Identifier: GPL-2.0-or-later
/* Statistics as tables for people. */
#include <stdio.h>
#include <stdlib.h>

#include "host_agent/export/stats/stats.h"
#include "host_agent/export/text/line.h"

#define MOST_TASKS	10u	/* of each stream */

/* Seconds, to the microsecond; times of the clock that is shown, or lengths. */
static void stats_text_put_seconds(struct braid_text *t, s64 ns, int width)
{
	u64 us = (ns < 0 ? -(u64)ns : (u64)ns) / 1000;
	char number[32];

	snprintf(number, sizeof(number), "%s%llu.%06llu", ns < 0 ? "-" : "",
		 (unsigned long long)(us / 1000000), (unsigned long long)(us % 1000000));
	braid_text_printf(t, " %*s", width, number);
}

/* "  12.3 %" */
static void put_share(struct braid_text *t, u64 part, u64 whole)
{
	braid_text_printf(t, " %5.1f %%", 100.0 * part / whole);
}

static void stats_text_put_lost(struct braid_text *t, const struct braid_stats_cpu *cpu)
{
	braid_text_printf(t, " %9llu%c", (unsigned long long)cpu->lost, cpu->some_lost ? '+' : ' ');
}

static void stats_text_put_events(const struct braid_stats *s, struct braid_text *t)
{
	double seconds = (s->last_ns - s->first_ns) / 1e9;
	const struct braid_stats_type **list;
	size_t k, n, nr;

	braid_text_printf(t, "\n%-16s %10s %12s  %s\n", "STREAM", "EVENTS", "EVENTS/s", "EVENT");
	for (k = 0; k < s->source->nr_streams; k++) {
		list = braid_stats_types_of(s, k, &nr);
		for (n = 0; n < nr; n++)
			braid_text_printf(t, "%-16s %10llu %12.1f  %s:%s\n",
					  s->source->streams[k]->name,
					  (unsigned long long)list[n]->events,
					  seconds > 0 ? list[n]->events / seconds : 0.0,
					  list[n]->info->system,
					  braid_format_label(list[n]->info));
		free(list);
	}
}

static void put_cpus(const struct braid_stats *s, struct braid_text *t)
{
	const struct braid_stats_cpu *cpu;
	const struct braid_cpu_sums *sums;
	size_t k, n;

	braid_text_printf(t, "\n%-16s  CPU %10s %10s %15s %7s %7s %9s\n", "STREAM", "EVENTS", "LOST ",
			  "TRACED", "BUSY", "IDLE", "SWITCHES");
	for (k = 0; k < s->source->nr_streams; k++) {
		for (n = 0; n < s->streams[k].nr_cpus; n++) {
			cpu = &s->streams[k].cpus[n];
			if (!cpu->events && !cpu->lost && !cpu->some_lost)
				continue;
			braid_text_printf(t, "%-16s  %03zu %10llu", s->source->streams[k]->name, n,
					  (unsigned long long)cpu->events);
			stats_text_put_lost(t, cpu);
			sums = braid_stats_cpu(s, k, n);
			if (!sums) {	/* busy or idle: sched was not traced */
				braid_text_printf(t, " %15s %7s %7s %9s\n", "unknown", "?", "?", "?");
				continue;
			}
			stats_text_put_seconds(t, sums->busy_ns + sums->idle_ns, 15);
			put_share(t, sums->busy_ns, sums->busy_ns + sums->idle_ns);
			put_share(t, sums->idle_ns, sums->busy_ns + sums->idle_ns);
			braid_text_printf(t, " %8llu\n", (unsigned long long)sums->switches);
		}
	}
}

static void put_tasks(const struct braid_stats *s, struct braid_text *t)
{
	const struct braid_guest_task **list;
	size_t k, n, nr;

	braid_text_printf(t, "\n%-16s %-16s %8s %15s %15s %9s\n", "STREAM", "TASK", "PID", "RAN",
			  "WAITED TO RUN", "SWITCHES");
	for (k = 0; k < s->source->nr_streams; k++) {
		list = braid_stats_tasks_of(s, k, &nr);
		for (n = 0; n < nr && n < MOST_TASKS && braid_task_current_ns(list[n]); n++) {
			braid_text_printf(t, "%-16s %-16s %8d", s->source->streams[k]->name,
					  *list[n]->comm ? list[n]->comm : "<...>", list[n]->pid);
			stats_text_put_seconds(t, braid_task_current_ns(list[n]), 15);
			stats_text_put_seconds(t, list[n]->queued_ns, 15);
			braid_text_printf(t, " %9llu\n", (unsigned long long)list[n]->switches);
		}
		if (n < nr)
			braid_text_printf(t, "%-16s and %zu more\n", s->source->streams[k]->name,
					  nr - n);
		free(list);
	}
}

static void put_reasons(const struct braid_stats_vcpu *vcpu, struct braid_text *t)
{
	char name[BRAID_NAME_TEXT];
	size_t k;

	if (vcpu->nr_exits)
		braid_text_printf(t, "    %-32s %9s %15s %11s %11s\n", "exit reason", "count",
				  "total, s", "mean, us", "longest, us");
	for (k = 0; k < vcpu->nr_exits; k++) {
		const struct braid_sum *r = vcpu->exits[k];

		braid_exit_name(r->key.reason, name);
		braid_text_printf(t, "    %-32s %9llu", name, (unsigned long long)r->count);
		stats_text_put_seconds(t, r->total_ns, 15);
		braid_text_printf(t, " %11.1f %11.1f\n", r->total_ns / 1e3 / r->count,
				  r->histogram.longest_ns / 1e3);
	}
}

static void stats_text_put_vcpu(const struct braid_stats *s, const struct braid_stats_vcpu *vcpu,
				struct braid_text *t)
{
	braid_text_printf(t, "%-16s ", vcpu->stream->kind == BRAID_STREAM_GUEST ?
			  vcpu->stream->name : vcpu->comm);
	if (vcpu->number == BRAID_NO_VCPU)
		braid_text_puts(t, "   ?");
	else if (vcpu->number == BRAID_VCPU_ALL)
		braid_text_puts(t, " all");
	else
		braid_text_printf(t, " %03u", vcpu->number);
	braid_text_printf(t, " %8d", vcpu->tid);
	if (vcpu->kvm)
		stats_text_put_seconds(t, vcpu->kvm->ns[BRAID_VCPU_GUEST], 15);
	else
		braid_text_printf(t, " %15s", "?");
	if (braid_states_seen_of(&s->states, vcpu->stream).switches) {
		stats_text_put_seconds(t, vcpu->runs_ns, 15);
		stats_text_put_seconds(t, vcpu->waits_ns, 15);
		if (vcpu->knows_throttled)
			stats_text_put_seconds(t, vcpu->throttled_ns, 15);
		else
			braid_text_printf(t, " %15s", "?");
		stats_text_put_seconds(t, vcpu->sleeps_ns, 15);
	} else {
		braid_text_printf(t, " %15s %15s %15s %15s", "?", "?", "?", "?");
	}
	if (vcpu->kvm)
		braid_text_printf(t, " %9llu\n", (unsigned long long)vcpu->kvm->exits);
	else
		braid_text_printf(t, " %9s\n", "?");
	put_reasons(vcpu, t);
}

static void put_vcpus(const struct braid_stats *s, struct braid_text *t)
{
	size_t k;

	if (s->nr_vcpus)
		braid_text_printf(t, "\n%-16s VCPU %8s %15s %15s %15s %15s %15s %9s\n", "GUEST",
				  "THREAD", "IN GUEST", "RAN", "STOLEN", "THROTTLED", "SLEPT", "EXITS");
	for (k = 0; k < s->nr_vcpus; k++)
		stats_text_put_vcpu(s, &s->vcpus[k], t);
}

void braid_stats_text(const struct braid_stats *s, struct braid_text *t)
{
	const char *unknown;
	size_t k;
	u32 n;

	braid_text_printf(t, "# %llu event%s, %llu lost%s, from", (unsigned long long)s->totals->events,
			  s->totals->events == 1 ? "" : "s",
			  (unsigned long long)s->totals->lost,
			  s->totals->some_lost ? " plus an unknown number" : "");
	stats_text_put_seconds(t, s->first_ns, 0);
	braid_text_puts(t, " to");
	stats_text_put_seconds(t, s->last_ns, 0);
	braid_text_puts(t, " s; times are in seconds unless noted\n");
	braid_line_put_windows(t, &s->walk);
	for (k = 0; k < s->source->nr_streams; k++) {
		braid_text_printf(t, "# %s: ", s->source->streams[k]->name);
		braid_line_put_account(t, s->source->streams[k]);
		braid_text_putc(t, '\n');
		if (s->source->streams[k]->unconfirmed)
			braid_text_printf(t, "# %s: " BRAID_LINE_UNCONFIRMED "\n",
					  s->source->streams[k]->name);
	}
	for (k = 0; k < s->source->nr_streams; k++)
		for (n = 0; s->streams[k].events &&
		     (unknown = braid_stats_unknown(s, s->source->streams[k], n)); n++)
			braid_text_printf(t, "# %s: unknown: %s\n", s->source->streams[k]->name,
					  unknown);
	if (s->states.tasks_left_out)
		braid_text_printf(t, "# only %u tasks are shown; there are more\n",
				  BRAID_STATES_MAX_TASKS);
	if (braid_stats_other_exits(s))
		braid_text_printf(t, "# %llu more exits are of too many vCPUs and reasons\n",
				  (unsigned long long)braid_stats_other_exits(s));
	stats_text_put_events(s, t);
	put_cpus(s, t);
	put_tasks(s, t);
	put_vcpus(s, t);
}
