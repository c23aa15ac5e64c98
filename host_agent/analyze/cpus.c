// SPDX-License-Identifier: GPL-2.0-or-later
/* The host's CPUs: which there are, and on which of them vCPUs are seen to execute. */
#include <errno.h>
#include <stdlib.h>

#include "host_agent/analyze/private.h"

/*
 * Events of KVM may have been recorded on some CPUs only: another tool's capture may be of some
 * CPUs, its filters may select them, or the file of one may be lost. Where a CPU has events of KVM,
 * it has all. Where it has sched_switch, it shows at least which threads ran there.
 */

static u32 more(u32 nr, u32 most)
{
	return most <= BRAID_STATES_MAX_CPUS && most > nr ? most : nr;
}

/* Number of host CPUs: those with rings or, if @all, every CPU. */
static u32 cpus_count(const struct braid_source *source, bool all)
{
	const struct braid_stream *stream;
	u32 nr = 0;
	size_t k, n;

	for (k = 0; k < source->nr_streams; k++) {
		stream = source->streams[k];
		if (!braid_stream_is_first_host(stream))
			continue;
		for (n = 0; n < stream->nr_rings; n++)
			if (stream->rings[n]->cpu < BRAID_STATES_MAX_CPUS)
				nr = more(nr, stream->rings[n]->cpu + 1);
		if (all)
			nr = more(nr, stream->nr_cpus);
	}
	return nr;
}

/* A CPU of a host that has sched_switch events. */
static void shows_switches(struct braid_states *s, u32 number, u32 stream)
{
	struct braid_host_cpu *cpu = &s->cpus[number];

	s->nr_silent -= !cpu->shows_switches;
	cpu->shows_switches = true;
	cpu->stream = stream;
}

/*
 * A capture has a ring for each CPU; while it is followed, a ring may come later. A trace.dat has
 * none for a CPU without pages, which may have been idle, or not recorded.
 */
static void find_switches(struct braid_states *s)
{
	const struct braid_stream *stream;
	size_t k, n;

	for (k = 0; k < s->source->nr_streams; k++) {
		stream = s->source->streams[k];
		if (!braid_stream_is_first_host(stream) ||
		    !braid_stream_has_event(stream, "sched_switch"))
			continue;
		for (n = 0; n < stream->nr_rings; n++)
			if (stream->rings[n]->cpu < s->nr_cpus)
				shows_switches(s, stream->rings[n]->cpu, k);
		for (n = 0; n < s->nr_cpus && s->source->grows; n++)
			shows_switches(s, n, k);
	}
}

int braid_cpus_begin(struct braid_states *s)
{
	u32 k;

	s->nr_cpus = cpus_count(s->source, s->source->grows);
	s->nr_silent = cpus_count(s->source, true);
	s->cpus = calloc((size_t)s->nr_cpus + 1, sizeof(*s->cpus));
	if (!s->cpus)
		return -ENOMEM;
	for (k = 0; k < s->nr_cpus; k++) {
		s->cpus[k].vcpu = s->cpus[k].hides = s->cpus[k].first_on =
			s->cpus[k].first_waiter = s->cpus[k].first_behind = BRAID_NO_VCPU;
		s->cpus[k].left = BRAID_PID_UNKNOWN;
	}
	find_switches(s);
	return 0;
}

void braid_cpu_has_kvm(struct braid_states *s, u32 number)
{
	struct braid_host_cpu *cpu = &s->cpus[number];

	s->nr_silent -= !cpu->any_kvm && !cpu->shows_switches;
	cpu->any_kvm = true;
}

void braid_cpu_settle(struct braid_states *s, struct braid_host_cpu *cpu, s64 now_ns)
{
	s64 from_ns = cpu->since_ns > s->begin_ns ? cpu->since_ns : s->begin_ns;
	s64 to_ns = now_ns < s->end_ns ? now_ns : s->end_ns;

	if (!s->whole_host)
		return;
	cpu->since_ns = now_ns;
	if (!cpu->known || to_ns <= from_ns)
		return;
	if (cpu->tid)
		cpu->sums.busy_ns += to_ns - from_ns;
	else
		cpu->sums.idle_ns += to_ns - from_ns;
	if (cpu->tid)
		braid_task_add_run(s, cpu->stream, cpu->tid, to_ns - from_ns);
}

const struct braid_cpu_sums *braid_states_cpu(const struct braid_states *s, u32 stream, u32 cpu)
{
	const struct braid_guest_state *guest = &s->guests[stream];

	if (s->source->streams[stream]->kind == BRAID_STREAM_HOST)
		return cpu < s->nr_cpus && braid_stream_is_first_host(s->source->streams[stream]) ?
		       &s->cpus[cpu].sums : NULL;
	return cpu < guest->nr_vcpus ? &s->vcpus[guest->first_vcpu + cpu].sums : NULL;
}

bool braid_vcpu_may_hide(const struct braid_states *s, const struct braid_vcpu *v)
{
	if (v->thread == BRAID_THREAD_ON && v->cpu < s->nr_cpus && s->cpus[v->cpu].shows_switches)
		return !s->cpus[v->cpu].any_kvm;
	return s->nr_silent > 0;
}

bool braid_states_lack_kvm(const struct braid_states *s)
{
	u32 k;

	for (k = 0; k < s->nr_cpus && s->any_kvm; k++)
		if (s->cpus[k].any_vcpu && !s->cpus[k].any_kvm)
			return true;
	return false;
}
