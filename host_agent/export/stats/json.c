// SPDX-License-Identifier: GPL-2.0-or-later
/* Statistics as one JSON object. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/stats/stats.h"
#include "host_agent/export/text/line.h"

static void stats_json_put_events(const struct braid_stats *s, u32 stream, struct braid_text *t)
{
	const struct braid_stats_type **list;
	size_t k, nr;

	list = braid_stats_types_of(s, stream, &nr);
	braid_text_puts(t, ",\"events\":[");
	for (k = 0; k < nr; k++) {
		braid_json_string(t, k ? ",{\"system\":" : "{\"system\":", list[k]->info->system);
		braid_json_string(t, ",\"event\":", list[k]->info->name);
		if (list[k]->info->subevent)
			braid_json_string(t, ",\"subevent\":", list[k]->info->subevent);
		braid_json_u64(t, ",\"count\":", list[k]->events);
		braid_text_putc(t, '}');
	}
	braid_text_putc(t, ']');
	free(list);
}

static void put_cpus(const struct braid_stats_stream *stream, struct braid_text *t)
{
	const struct braid_stats_cpu *cpu;
	bool any = false;
	size_t k;

	braid_text_puts(t, ",\"cpus\":[");
	for (k = 0; k < stream->nr_cpus; k++) {
		cpu = &stream->cpus[k];
		if (!cpu->events && !cpu->lost && !cpu->some_lost)
			continue;
		braid_json_u64(t, any ? ",{\"cpu\":" : "{\"cpu\":", k);
		braid_json_u64(t, ",\"events\":", cpu->events);
		braid_json_u64(t, ",\"lost\":", cpu->lost);
		if (cpu->some_lost)
			braid_text_puts(t, ",\"more_lost\":true");
		if (cpu->switches) {
			braid_json_u64(t, ",\"busy_ns\":", cpu->busy_ns);
			braid_json_u64(t, ",\"idle_ns\":", cpu->idle_ns);
			braid_json_u64(t, ",\"switches\":", cpu->switches);
		}
		braid_text_putc(t, '}');
		any = true;
	}
	braid_text_putc(t, ']');
}

/* Without sched_switch nothing is known of them. */
static void put_times(const struct braid_stats *s, const struct braid_stats_task *task, struct braid_text *t)
{
	if (!s->streams[task->stream].any_switch)
		return;
	braid_json_u64(t, ",\"ran_ns\":", task->runs_ns);
	braid_json_u64(t, ",\"waited_ns\":", task->waits_ns);
	braid_json_u64(t, ",\"slept_ns\":", task->sleeps_ns);
	braid_json_u64(t, ",\"switches\":", task->switches);
}

static void put_tasks(const struct braid_stats *s, u32 stream, struct braid_text *t)
{
	const struct braid_stats_task **list;
	size_t k, nr;

	list = braid_stats_tasks_of(s, stream, &nr);
	braid_text_puts(t, ",\"tasks\":[");
	for (k = 0; k < nr; k++) {
		braid_text_printf(t, "%s{\"pid\":%d", k ? "," : "", list[k]->pid);
		braid_json_string(t, ",\"comm\":", *list[k]->comm ? list[k]->comm : "<...>");
		put_times(s, list[k], t);
		braid_text_putc(t, '}');
	}
	braid_text_putc(t, ']');
	free(list);
}

static void put_kvm(const struct braid_stats_kvm *kvm, struct braid_text *t)
{
	size_t k;

	braid_json_u64(t, ",\"in_guest_ns\":", kvm->guest_ns);
	braid_json_u64(t, ",\"entries\":", kvm->entries);
	braid_json_u64(t, ",\"exits\":", kvm->exits);
	braid_text_puts(t, ",\"reasons\":[");
	for (k = 0; k < kvm->nr_reasons; k++) {
		braid_json_string(t, k ? ",{\"reason\":" : "{\"reason\":", kvm->reasons[k].name);
		braid_json_u64(t, ",\"count\":", kvm->reasons[k].count);
		braid_json_u64(t, ",\"returned\":", kvm->reasons[k].returned);
		braid_json_u64(t, ",\"away_ns\":", kvm->reasons[k].total_ns);
		braid_json_u64(t, ",\"longest_ns\":", kvm->reasons[k].max_ns);
		braid_text_putc(t, '}');
	}
	braid_text_putc(t, ']');
}

static void stats_json_put_vcpu(const struct braid_stats *s, const struct braid_stats_task *task,
				u32 vcpu, bool *any,
				struct braid_text *t)
{
	braid_text_printf(t, "%s{\"tid\":%d", *any ? "," : "", task->pid);
	if (vcpu == BRAID_VCPU_ALL)
		braid_text_puts(t, ",\"vcpu\":null");
	else if (vcpu != ~0u)
		braid_json_u64(t, ",\"vcpu\":", vcpu);
	put_times(s, task, t);
	if (task->kvm)
		put_kvm(task->kvm, t);
	braid_text_putc(t, '}');
	*any = true;
}

/* A guest's own; a host's: those of guests that are not in the trace. */
static void put_vcpus(const struct braid_stats *s, const struct braid_stream *stream,
		      struct braid_text *t)
{
	const struct braid_stats_task *task;
	bool any = false;
	size_t k;

	braid_text_puts(t, ",\"vcpus\":[");
	for (k = 0; k < stream->nr_threads; k++) {
		task = braid_stats_vcpu(s, stream->threads[k].tid);
		if (task)
			stats_json_put_vcpu(s, task, stream->threads[k].vcpu, &any, t);
	}
	for (k = 0; k < s->nr_tasks; k++)
		if (s->tasks[k].stream == stream->number && s->tasks[k].kvm &&
		    !braid_stats_is_covered(s, &s->tasks[k]))
			stats_json_put_vcpu(s, &s->tasks[k], s->tasks[k].kvm->vcpu, &any, t);
	braid_text_putc(t, ']');
}

static void stats_json_put_stream(const struct braid_stats *s, const struct braid_stream *stream,
				  struct braid_text *t)
{
	const char *unknown;
	u32 n;

	braid_json_string(t, "{\"stream\":", stream->name);
	braid_json_string(t, ",\"kind\":", stream->kind == BRAID_STREAM_HOST ? "host" : "guest");
	braid_json_account(t, stream);
	stats_json_put_events(s, stream->number, t);
	put_cpus(&s->streams[stream->number], t);
	put_tasks(s, stream->number, t);
	put_vcpus(s, stream, t);
	braid_text_puts(t, ",\"unknown\":[");
	for (n = 0; (unknown = braid_stats_unknown(s, stream, n)); n++)
		braid_json_string(t, n ? "," : "", unknown);
	braid_text_puts(t, "]}");
}

void braid_stats_json(const struct braid_stats *s, struct braid_text *t)
{
	bool any = false;
	size_t k;

	braid_json_u64(t, "{\"type\":\"stats\",\"events\":", s->totals->events);
	braid_json_u64(t, ",\"lost\":", s->totals->lost);
	if (s->totals->some_lost)
		braid_text_puts(t, ",\"more_lost\":true");
	if (s->tasks_left_out)
		braid_text_puts(t, ",\"tasks_left_out\":true");
	braid_json_windows(t, &s->walk);
	braid_text_printf(t, ",\"first_ns\":%lld,\"last_ns\":%lld,\"streams\":[",
			  (long long)s->first_ns, (long long)s->last_ns);
	for (k = 0; k < s->source->nr_streams; k++) {
		if (!s->streams[k].nr_cpus && !s->source->streams[k]->nr_threads)
			continue;
		if (any)
			braid_text_putc(t, ',');
		stats_json_put_stream(s, s->source->streams[k], t);
		any = true;
	}
	braid_text_puts(t, "]}\n");
}
