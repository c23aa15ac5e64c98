// SPDX-License-Identifier: GPL-2.0-or-later
/* The hosts' CPUs: which there are, and on which of them vCPUs are seen to execute. */
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

static bool is_of(const struct braid_stream *stream, u32 host)
{
	return stream->kind == BRAID_STREAM_HOST && braid_stream_host_number(stream) == host;
}

/* Number of a host's CPUs: those with rings or, if @all, every CPU. */
static u32 cpus_count(const struct braid_source *source, u32 host, bool all)
{
	const struct braid_stream *stream;
	u32 nr = 0;
	size_t k, n;

	for (k = 0; k < source->nr_streams; k++) {
		stream = source->streams[k];
		if (!is_of(stream, host))
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
static void shows_switches(struct braid_host_state *host, u32 number, u32 stream)
{
	struct braid_host_cpu *cpu = &host->cpus[number];

	host->nr_silent -= !cpu->shows_switches;
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
	struct braid_host_state *host;
	size_t k, n;

	for (k = 0; k < s->source->nr_streams; k++) {
		stream = s->source->streams[k];
		host = braid_states_host(s, stream);
		if (stream->kind != BRAID_STREAM_HOST ||
		    !braid_stream_has_event(stream, "sched_switch"))
			continue;
		for (n = 0; n < stream->nr_rings; n++)
			if (stream->rings[n]->cpu < host->nr_cpus)
				shows_switches(host, stream->rings[n]->cpu, k);
		for (n = 0; n < host->nr_cpus && s->source->grows; n++)
			shows_switches(host, n, k);
	}
}

static int begin_host(struct braid_states *s, struct braid_host_state *host)
{
	u32 number = braid_host_number(s, host), k;

	host->nr_cpus = cpus_count(s->source, number, s->source->grows);
	host->nr_silent = cpus_count(s->source, number, true);
	host->first_touched = BRAID_NO_VCPU;
	host->first_cpu = BRAID_NO_CPU;
	host->first_task = BRAID_NO_TASK;
	host->cpus = calloc((size_t)host->nr_cpus + 1, sizeof(*host->cpus));
	if (!host->cpus)
		return -ENOMEM;
	for (k = 0; k < host->nr_cpus; k++) {
		struct braid_host_cpu *cpu = &host->cpus[k];

		cpu->vcpu = cpu->hides = cpu->first_on = cpu->first_waiter =
			cpu->first_behind = BRAID_NO_VCPU;
		cpu->left = BRAID_PID_UNKNOWN;
	}
	return 0;
}

int braid_cpus_begin(struct braid_states *s)
{
	int err = 0;
	u32 k;

	s->nr_hosts = s->source->nr_hosts ? s->source->nr_hosts : 1;
	s->hosts = calloc(s->nr_hosts, sizeof(*s->hosts));
	if (!s->hosts)
		return -ENOMEM;
	for (k = 0; k < s->nr_hosts && !err; k++)
		err = begin_host(s, &s->hosts[k]);
	if (!err)
		find_switches(s);
	return err;
}

void braid_cpu_has_kvm(struct braid_host_state *host, u32 number)
{
	struct braid_host_cpu *cpu = &host->cpus[number];

	host->nr_silent -= !cpu->any_kvm && !cpu->shows_switches;
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
	const struct braid_host_state *host = braid_states_host(s, s->source->streams[stream]);

	if (s->source->streams[stream]->kind == BRAID_STREAM_HOST)
		return cpu < host->nr_cpus ? &host->cpus[cpu].sums : NULL;
	return cpu < guest->nr_vcpus ? &s->vcpus[guest->first_vcpu + cpu].sums : NULL;
}

bool braid_vcpu_may_hide(const struct braid_vcpu *v)
{
	const struct braid_host_state *host = v->host;

	if (v->thread == BRAID_THREAD_ON && v->cpu < host->nr_cpus &&
	    host->cpus[v->cpu].shows_switches)
		return !host->cpus[v->cpu].any_kvm;
	return host->nr_silent > 0;
}

bool braid_states_lack_kvm(const struct braid_host_state *host)
{
	u32 k;

	for (k = 0; k < host->nr_cpus && host->seen.kvm; k++)
		if (host->cpus[k].any_vcpu && !host->cpus[k].any_kvm)
			return true;
	return false;
}

static void see(struct braid_seen *all, const struct braid_seen *seen)
{
	all->switches |= seen->switches;
	all->wakeups |= seen->wakeups;
	all->migrations |= seen->migrations;
	all->kvm |= seen->kvm;
	all->user |= seen->user;
	all->nested |= seen->nested;
	all->raises |= seen->raises;
	all->injections |= seen->injections;
	all->halts |= seen->halts;
	all->other_vms |= seen->other_vms;
}

struct braid_seen braid_states_seen(const struct braid_states *s)
{
	struct braid_seen all = { 0 };
	u32 k;

	for (k = 0; k < s->nr_hosts; k++)
		see(&all, &s->hosts[k].seen);
	return all;
}

struct braid_seen braid_states_seen_of(const struct braid_states *s,
				       const struct braid_stream *guest)
{
	const struct braid_stream *part;
	struct braid_seen all = { 0 };
	size_t k;

	for (k = 0; (part = braid_stream_part(guest, k)); k++)
		see(&all, &braid_states_host(s, part)->seen);
	return all;
}
