// SPDX-License-Identifier: GPL-2.0-or-later
/* Data for Perfetto besides events: machines and their clocks, tasks' names, accounting. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/perfetto/perfetto.h"
#include "host_agent/trace/epochs.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define CLOCKS_NS	1000000000	/* between two snapshots of the clocks ... */
#define MOST_CLOCKS	(1u << 15)	/* ... unless there would be more */
#define NR_CLOCKS	3u	/* in a snapshot */

/* Clocks ------------------------------------------------------------------------------------ */

/*
 * What the host's clocks showed at one time. The timeline of the file is either of them: no
 * other one is related to it, CLOCK_BOOTTIME above all, which Perfetto takes for granted.
 */
static int put_clocks(struct braid_perfetto_out *o, s64 ns, s64 realtime_ns, bool first)
{
	const u64 values[][2] = {
		{ BRAID__BUILTIN_CLOCK__MONOTONIC_RAW, (u64)ns },
		{ BRAID__BUILTIN_CLOCK__TRACE_FILE,
		  (u64)(o->walk->options->realtime ? realtime_ns : ns) },
		{ BRAID__BUILTIN_CLOCK__REALTIME, (u64)realtime_ns },
	};
	Braid__ClockSnapshot__Clock clocks[NR_CLOCKS], *list[NR_CLOCKS];
	Braid__ClockSnapshot snapshot = BRAID__CLOCK_SNAPSHOT__INIT;
	Braid__TracePacket packet = BRAID__TRACE_PACKET__INIT;
	u32 k;

	for (k = 0; k < NR_CLOCKS; k++) {
		list[k] = &clocks[k];
		braid__clock_snapshot__clock__init(list[k]);
		BRAID_PERFETTO_SET(list[k], clock_id, values[k][0]);
		BRAID_PERFETTO_SET(list[k], timestamp, values[k][1]);
	}
	snapshot.n_clocks = realtime_ns ? NR_CLOCKS : NR_CLOCKS - 1;
	snapshot.clocks = list;
	if (first)
		BRAID_PERFETTO_SET(&snapshot, primary_trace_clock,
				   BRAID__BUILTIN_CLOCK__TRACE_FILE);
	packet.clock_snapshot = &snapshot;
	return braid_perfetto_packet(o, NULL, &packet);
}

/* Until when the trace is known to be recorded. */
static s64 recorded_until(const struct braid_source *source)
{
	s64 end_ns = 0;
	size_t k;

	for (k = 0; k < source->nr_streams; k++)
		if ((s64)source->streams[k]->end_ns > end_ns)
			end_ns = source->streams[k]->end_ns;
	for (k = 0; k < source->nr_windows; k++) {
		const struct braid_window *w = &source->windows[k];
		s64 stop_ns = w->stop_ns == INT64_MAX ? w->last_ns : w->stop_ns;

		end_ns = stop_ns > end_ns ? stop_ns : end_ns;
	}
	return end_ns;
}

/*
 * Wall time during the recording. trace_processor converts a packet's time when it reads it, by the
 * snapshots before it in the file.
 */
static int put_all_clocks(struct braid_perfetto_out *o)
{
	const struct braid_source *source = o->walk->source;
	const struct braid_clock *real = &source->clocks.realtime;
	s64 ns = source->head.start_host_ns, end_ns = recorded_until(source), step_ns = CLOCKS_NS;
	int err;

	if (!real->nr_tracks)
		return put_clocks(o, ns, source->head.start_realtime_ns, true);
	err = put_clocks(o, ns, (s64)braid_clock_reading_at(real, ns).value, true);
	if (ns < 0 || end_ns < ns)
		return err;
	if ((end_ns - ns) / MOST_CLOCKS > step_ns)
		step_ns = (end_ns - ns) / MOST_CLOCKS;
	while (!err && end_ns - ns >= step_ns) {
		ns += step_ns;
		err = put_clocks(o, ns, (s64)braid_clock_reading_at(real, ns).value, false);
	}
	return err;
}

/* All times are of the host's clock: on other machines the clock of that name shows the same. */
static int put_sync(struct braid_perfetto_out *o, struct braid_perfetto_machine *m)
{
	Braid__RemoteClockSync__SyncedClocks syncs[2], *sync_list[] = { &syncs[0], &syncs[1] };
	Braid__ClockSnapshot__Clock clocks[2], *list[] = { &clocks[0], &clocks[1] };
	Braid__RemoteClockSync sync = BRAID__REMOTE_CLOCK_SYNC__INIT;
	Braid__TracePacket packet = BRAID__TRACE_PACKET__INIT;
	Braid__ClockSnapshot snapshots[2];
	u32 k;

	/* An exchange is two rounds. */
	for (k = 0; k < 2; k++) {
		braid__clock_snapshot__clock__init(&clocks[k]);
		BRAID_PERFETTO_SET(&clocks[k], clock_id, BRAID__BUILTIN_CLOCK__MONOTONIC_RAW);
		BRAID_PERFETTO_SET(&clocks[k], timestamp,
				   o->walk->source->head.start_host_ns + 1 + k);
		braid__clock_snapshot__init(&snapshots[k]);
		snapshots[k].n_clocks = 1;
		snapshots[k].clocks = &list[k];
		braid__remote_clock_sync__synced_clocks__init(&syncs[k]);
		syncs[k].client_clocks = &snapshots[k];
		syncs[k].host_clocks = &snapshots[k];
	}
	sync.n_synced_clocks = 2;
	sync.synced_clocks = sync_list;
	packet.remote_clock_sync = &sync;
	return braid_perfetto_packet(o, m, &packet);
}

/* The place of an address among the sorted ones already written. */
static size_t perfetto_head_place_of(const struct braid_perfetto_machine *m, u64 address)
{
	size_t low = 0, high = m->nr_functions;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (m->functions[middle] < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int braid_perfetto_function(struct braid_perfetto_out *o, struct braid_perfetto_machine *m,
			    u64 address)
{
	Braid__InternedString item = BRAID__INTERNED_STRING__INIT, *list[] = { &item };
	Braid__InternedData interned = BRAID__INTERNED_DATA__INIT;
	Braid__TracePacket packet = BRAID__TRACE_PACKET__INIT;
	size_t place = perfetto_head_place_of(m, address);
	const char *name;

	if (place < m->nr_functions && m->functions[place] == address)
		return 0;
	name = braid_format_function(o->walk->format, m->stream, address);
	if (!name)
		return 0;
	if (braid_array_push(m->functions, m->nr_functions, m->functions_capacity, address))
		return braid_out_of_memory();
	memmove(m->functions + place + 1, m->functions + place,
		(m->nr_functions - 1 - place) * sizeof(*m->functions));
	m->functions[place] = address;
	BRAID_PERFETTO_SET(&item, iid, address);
	o->text.bytes = 0;
	braid_text_safe(&o->text, name, strlen(name));
	if (o->text.failed)
		return braid_out_of_memory();
	item.has_str = true;
	item.str.data = (u8 *)o->text.data;
	item.str.len = o->text.bytes;
	interned.n_kernel_symbols = 1;
	interned.kernel_symbols = list;
	packet.interned_data = &interned;
	return braid_perfetto_packet(o, m, &packet);
}

/* Accounting -------------------------------------------------------------------------------- */

/* A ring's share of its CPU: what had been before the recording, or at its end. */
static void perfetto_head_add_ring(Braid__FtraceCpuStats *cpu, const struct braid_ring *ring,
				   bool end)
{
	const struct braid_chunk_ring_end *first = &ring->report.first;
	u64 lost = first->lost_before + (end ? ring->report.lost : 0);

	cpu->read_events += first->read_before + (end ? ring->report.read : 0);
	cpu->entries += end ? ring->report.left : 0;
	if (ring->buffer < ring->stream->nr_buffers &&
	    ring->stream->buffers[ring->buffer].flags & BRAID_BUFFER_OVERWRITE)
		cpu->overrun += lost;
	else
		cpu->dropped_events += lost;
}

static void begin_cpu(Braid__FtraceCpuStats *cpu, u32 number)
{
	braid__ftrace_cpu_stats__init(cpu);
	BRAID_PERFETTO_SET(cpu, cpu, number);
	BRAID_PERFETTO_SET(cpu, entries, 0);
	BRAID_PERFETTO_SET(cpu, overrun, 0);
	BRAID_PERFETTO_SET(cpu, dropped_events, 0);
	BRAID_PERFETTO_SET(cpu, read_events, 0);
}

static int put_stats(struct braid_perfetto_out *o, struct braid_perfetto_machine *m, bool end)
{
	const struct braid_stream *s = m->stream;
	Braid__FtraceStats stats = BRAID__FTRACE_STATS__INIT;
	Braid__TracePacket packet = BRAID__TRACE_PACKET__INIT;
	Braid__FtraceCpuStats *items = calloc(m->nr_cpus + 1, sizeof(*items));
	Braid__FtraceCpuStats **list = calloc(m->nr_cpus + 1, sizeof(*list));
	int err = items && list ? 0 : braid_out_of_memory();
	size_t k;
	u32 cpu;

	for (cpu = 0; !err && cpu < m->nr_cpus; cpu++) {
		list[cpu] = &items[cpu];
		begin_cpu(list[cpu], cpu);
	}
	for (k = 0; !err && k < s->nr_rings; k++)
		if (s->rings[k]->cpu < m->nr_cpus && s->rings[k]->report.nr_parts)
			perfetto_head_add_ring(list[s->rings[k]->cpu], s->rings[k], end);
	BRAID_PERFETTO_SET(&stats, phase, end ? BRAID__FTRACE_STATS__PHASE__END_OF_TRACE :
						BRAID__FTRACE_STATS__PHASE__START_OF_TRACE);
	stats.n_cpu_stats = m->nr_cpus;
	stats.cpu_stats = list;
	packet.ftrace_stats = &stats;
	if (!err)
		err = braid_perfetto_packet(o, m, &packet);
	free(items);
	free(list);
	return err;
}

/* Machines ---------------------------------------------------------------------------------- */

static int put_system(struct braid_perfetto_out *o, struct braid_perfetto_machine *m)
{
	const struct braid_stream *s = m->stream;
	Braid__SystemInfo info = BRAID__SYSTEM_INFO__INIT;
	Braid__TracePacket packet = BRAID__TRACE_PACKET__INIT;
	Braid__Utsname utsname = BRAID__UTSNAME__INIT;
	char agent[BRAID_PERFETTO_NAME];

	snprintf(agent, sizeof(agent), "tracebraid %.*s",
		 (int)sizeof(o->walk->source->head.agent_version),
		 o->walk->source->head.agent_version);
	braid_text_clean(agent);
	utsname.sysname = "Linux";
	utsname.release = (char *)s->kernel_release;
	utsname.machine = (char *)s->machine;
	info.utsname = &utsname;
	info.tracing_service_version = agent;
	info.machine_name = m->name;
	BRAID_PERFETTO_SET(&info, num_cpus, s->nr_cpus);
	packet.system_info = &info;
	return braid_perfetto_packet(o, m, &packet);
}

static void describe_model(struct braid_text *t, const struct braid_clock *clock)
{
	braid_text_puts(t, braid_clock_kind_name(clock->kind));
	if (*clock->reason)
		braid_text_printf(t, " (%s)", clock->reason);
	braid_text_printf(t, ", %u samples", clock->nr_samples);
	if (clock->kind == BRAID_CLOCK_EXCHANGE || clock->kind == BRAID_CLOCK_READS)
		braid_text_printf(t, ", drift %+.3f ppm", braid_clock_drift(clock));
}

/* What the report's header says of a stream's clock, or of its clocks on several hosts. */
static void describe_clock(struct braid_perfetto_out *o, const struct braid_stream *s)
{
	u64 bound = s->bound_ns;
	struct braid_text *t = &o->text;
	size_t k, n;

	t->bytes = 0;
	for (k = 0; k < s->nr_stays; k++) {
		for (n = 0; n < k && s->stays[n].of != s->stays[k].of; n++)
			;
		if (n < k)
			continue;
		braid_text_printf(t, "%son %s: ", k ? "; " : "", s->stays[k].of->host->name);
		describe_model(t, &s->stays[k].of->clock);
	}
	if (s->kind == BRAID_STREAM_HOST)
		braid_text_puts(t, braid_clock_kind_name(s->clock.kind));
	else if (!s->nr_stays)
		describe_model(t, &s->clock);
	if (s->kind != BRAID_STREAM_HOST)
		braid_text_printf(t, "%s%u epochs", s->nr_stays ? "; " : ", ", braid_epochs_most(s));
	if (bound == BRAID_BOUND_UNKNOWN)
		braid_text_puts(t, ", bound unknown");
	else
		braid_text_printf(t, ", bound %llu ns", (unsigned long long)bound);
	braid_text_putc(t, '\0');
}

/* A line of the UI's information on the whole trace. */
static int put_attribute(struct braid_perfetto_out *o, struct braid_perfetto_machine *m,
			 const char *what, char *value)
{
	Braid__TraceAttributes__Attribute item = BRAID__TRACE_ATTRIBUTES__ATTRIBUTE__INIT;
	Braid__TraceAttributes__Attribute *list[] = { &item };
	Braid__TraceAttributes attributes = BRAID__TRACE_ATTRIBUTES__INIT;
	Braid__TracePacket packet = BRAID__TRACE_PACKET__INIT;
	char key[BRAID_PERFETTO_NAME];

	snprintf(key, sizeof(key), "%s.%s", m->name, what);
	item.key = key;
	item.string_value = value;
	attributes.n_attribute = 1;
	attributes.attribute = list;
	packet.trace_attributes = &attributes;
	return braid_perfetto_packet(o, m, &packet);
}

static int perfetto_head_put_name(struct braid_perfetto_out *o, struct braid_perfetto_machine *m,
				  s32 tid, char *name)
{
	Braid__GenericKernelTaskRenameEvent rename = BRAID__GENERIC_KERNEL_TASK_RENAME_EVENT__INIT;
	Braid__TracePacket packet = BRAID__TRACE_PACKET__INIT;

	BRAID_PERFETTO_SET(&rename, tid, tid);
	rename.comm = name;
	packet.generic_kernel_task_rename_event = &rename;
	return braid_perfetto_timed_packet(o, m, o->walk->source->head.start_host_ns, &packet);
}

/*
 * The last name that each task had, since only one is kept; a vCPU's thread is named after its
 * guest.
 */
static int put_names(struct braid_perfetto_out *o, struct braid_perfetto_machine *m,
		     const struct braid_vcpu_map *map)
{
	const struct braid_stream *s = m->stream;
	bool host = s->kind == BRAID_STREAM_HOST;
	size_t k;
	int err = 0;

	for (k = 0; !err && k < s->nr_comms; k++) {
		const struct braid_comm *c = &s->comms[k];
		const struct braid_vcpu_span *span;
		char name[sizeof(c->comm) + BRAID_VCPU_LABEL + sizeof(" []")];
		char comm[sizeof(c->comm) + 1], label[BRAID_VCPU_LABEL];

		if (!c->pid || (k + 1 < s->nr_comms && s->comms[k + 1].pid == c->pid))
			continue;
		snprintf(comm, sizeof(comm), "%.*s", (int)sizeof(c->comm), c->comm);
		braid_text_clean(comm);
		span = host ? braid_vcpu_map_find(map, braid_stream_host_number(s), c->pid,
						  INT64_MAX) : NULL;
		if (!span) {
			err = perfetto_head_put_name(o, m, c->pid, comm);
			continue;
		}
		braid_vcpu_label(span, label);
		snprintf(name, sizeof(name), "%s [%s]", comm, label);
		err = perfetto_head_put_name(o, m, c->pid, name);
	}
	return err;
}

static int put_machine(struct braid_perfetto_out *o, struct braid_perfetto_machine *m,
		       const struct braid_vcpu_map *map)
{
	int err = m->id ? put_sync(o, m) : 0;
	char name[BRAID_PERFETTO_NAME];

	if (!err)
		err = put_system(o, m);
	describe_clock(o, m->stream);
	if (o->text.failed)
		return braid_out_of_memory();
	if (!err)
		err = put_attribute(o, m, "clock", o->text.data);
	snprintf(name, sizeof(name), "%s: losses and notes", m->name);
	if (!err)
		err = braid_perfetto_track(o, m, braid_perfetto_track_of(BRAID_PERFETTO_LOSSES,
									 m->stream->number),
					   0, name, o->text.data);
	if (!err)
		err = put_names(o, m, map);
	return err ? err : put_stats(o, m, false);
}

int braid_perfetto_head(struct braid_perfetto_out *o, struct braid_perfetto_machine *machines,
			const struct braid_vcpu_map *map)
{
	size_t k;
	int err = put_all_clocks(o);

	for (k = 0; !err && k < o->walk->source->nr_streams; k++)
		if (machines[k].wanted)
			err = put_machine(o, &machines[k], map);
	return err;
}

int braid_perfetto_tail(struct braid_perfetto_out *o, struct braid_perfetto_machine *machines)
{
	size_t k;
	int err = 0;

	for (k = 0; !err && k < o->walk->source->nr_streams; k++)
		if (machines[k].nr_cpus)
			err = put_stats(o, &machines[k], true);
	return err;
}
