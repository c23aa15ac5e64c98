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

static void put_cpus(const struct braid_stats *s, u32 number, struct braid_text *t)
{
	const struct braid_stats_stream *stream = &s->streams[number];
	const struct braid_stats_cpu *cpu;
	const struct braid_cpu_sums *sums;
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
		sums = braid_stats_cpu(s, number, k);
		if (sums) {
			braid_json_u64(t, ",\"busy_ns\":", sums->busy_ns);
			braid_json_u64(t, ",\"idle_ns\":", sums->idle_ns);
			braid_json_u64(t, ",\"switches\":", sums->switches);
		}
		braid_text_putc(t, '}');
		any = true;
	}
	braid_text_putc(t, ']');
}

static void put_times(u64 runs_ns, u64 waits_ns, u64 sleeps_ns, u64 switches, struct braid_text *t)
{
	braid_json_u64(t, ",\"ran_ns\":", runs_ns);
	braid_json_u64(t, ",\"waited_ns\":", waits_ns);
	braid_json_u64(t, ",\"slept_ns\":", sleeps_ns);
	braid_json_u64(t, ",\"switches\":", switches);
}

static void put_tasks(const struct braid_stats *s, u32 stream, struct braid_text *t)
{
	const struct braid_guest_task **list;
	size_t k, nr;

	list = braid_stats_tasks_of(s, stream, &nr);
	braid_text_puts(t, ",\"tasks\":[");
	for (k = 0; k < nr; k++) {
		braid_text_printf(t, "%s{\"pid\":%d", k ? "," : "", list[k]->pid);
		braid_json_string(t, ",\"comm\":", *list[k]->comm ? list[k]->comm : "<...>");
		put_times(braid_task_current_ns(list[k]), list[k]->queued_ns, list[k]->blocked_ns,
			  list[k]->switches, t);
		braid_text_putc(t, '}');
	}
	braid_text_putc(t, ']');
	free(list);
}

static void put_kvm(const struct braid_stats_vcpu *vcpu, struct braid_text *t)
{
	char name[BRAID_NAME_TEXT];
	size_t k;

	braid_json_u64(t, ",\"in_guest_ns\":", vcpu->kvm->ns[BRAID_VCPU_GUEST]);
	braid_json_u64(t, ",\"entries\":", vcpu->kvm->entries);
	braid_json_u64(t, ",\"exits\":", vcpu->kvm->exits);
	braid_text_puts(t, ",\"reasons\":[");
	for (k = 0; k < vcpu->nr_exits; k++) {
		braid_exit_name(vcpu->exits[k]->key.reason, name);
		braid_json_string(t, k ? ",{\"reason\":" : "{\"reason\":", name);
		braid_json_u64(t, ",\"count\":", vcpu->exits[k]->count);
		braid_json_u64(t, ",\"returned\":", vcpu->exits[k]->returned);
		braid_json_u64(t, ",\"away_ns\":", vcpu->exits[k]->total_ns);
		braid_json_u64(t, ",\"longest_ns\":", vcpu->exits[k]->histogram.longest_ns);
		braid_text_putc(t, '}');
	}
	braid_text_putc(t, ']');
}

/* A guest's own; a host's: those of guests that are not in the trace. */
static void put_vcpus(const struct braid_stats *s, const struct braid_stream *stream,
		      struct braid_text *t)
{
	const struct braid_stats_vcpu *vcpu;
	bool any = false;

	braid_text_puts(t, ",\"vcpus\":[");
	for (vcpu = s->vcpus; vcpu < s->vcpus + s->nr_vcpus; vcpu++) {
		if (vcpu->stream != stream)
			continue;
		braid_text_printf(t, "%s{\"tid\":%d", any ? "," : "", vcpu->tid);
		if (vcpu->number == BRAID_VCPU_ALL)
			braid_text_puts(t, ",\"vcpu\":null");
		else if (vcpu->number != BRAID_NO_VCPU)
			braid_json_u64(t, ",\"vcpu\":", vcpu->number);
		if (braid_states_seen_of(&s->states, stream).switches)
			put_times(vcpu->runs_ns, vcpu->waits_ns, vcpu->sleeps_ns, vcpu->switches,
				  t);
		if (vcpu->knows_throttled)
			braid_json_u64(t, ",\"throttled_ns\":", vcpu->throttled_ns);
		if (vcpu->kvm)
			put_kvm(vcpu, t);
		braid_text_putc(t, '}');
		any = true;
	}
	braid_text_putc(t, ']');
}

static void stats_json_put_stream(const struct braid_stats *s, const struct braid_stream *stream,
				  struct braid_text *t)
{
	const char *unknown;
	u32 n;

	braid_json_string(t, "{\"stream\":", stream->name);
	braid_json_string(t, ",\"kind\":", braid_json_kind(stream));
	braid_json_account(t, stream);
	stats_json_put_events(s, stream->number, t);
	put_cpus(s, stream->number, t);
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
	if (s->states.tasks_left_out)
		braid_text_puts(t, ",\"tasks_left_out\":true");
	if (braid_stats_other_exits(s))
		braid_json_u64(t, ",\"exits_left_out\":", braid_stats_other_exits(s));
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
