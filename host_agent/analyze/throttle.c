// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What is throttled: cgroups within intervals of cpu.stat, or run queues from moment to moment.
 * After lost events nothing is until a moment shows it: meanwhile the time counts as stolen.
 */
#include "host_agent/analyze/private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define MAX_QUEUES	65536u	/* that are throttled at a time; further ones are ignored */

/* Intervals ---------------------------------------------------------------------------------- */

/* Return: 0 or -ENOMEM. */
static int add_interval(struct braid_states *s, u32 quota, s64 from_ns, s64 to_ns)
{
	int err = braid_observe_edge(s, (struct braid_edge){
		.due_ns = from_ns, .kind = BRAID_EDGE_QUOTA_BEGINS, .which = quota,
	});

	return err ? err : braid_observe_edge(s, (struct braid_edge){
		.due_ns = to_ns, .kind = BRAID_EDGE_QUOTA_ENDS, .which = quota,
	});
}

/* A stream's intervals; those of a cgroup that meet are one. Return: 0 or -ENOMEM. */
static int add_intervals(struct braid_states *s, const struct braid_stream *of)
{
	s64 from_ns = 0, to_ns = 0;
	size_t k;
	u32 quota;
	int err = 0;

	for (k = 0; k < of->nr_throttled && !err; k++) {
		const struct braid_throttled *row = &of->throttled[k];
		bool again = k && row->id == row[-1].id;

		if (!again)
			from_ns = to_ns = 0;
		quota = braid_quota_of(s, braid_stream_host_number(of), row->id);
		if (quota == s->nr_quotas || row->to_ns <= row->from_ns ||
		    row->to_ns >= (u64)BRAID_STATES_MAX_NS)
			continue;
		if (to_ns && (s64)row->from_ns > to_ns) {
			err = add_interval(s, quota, from_ns, to_ns);
			to_ns = 0;
		}
		from_ns = to_ns ? from_ns : (s64)row->from_ns;
		to_ns = (s64)row->to_ns > to_ns ? (s64)row->to_ns : to_ns;
		if (!err && (k + 1 == of->nr_throttled || row[1].id != row->id))
			err = add_interval(s, quota, from_ns, to_ns);
	}
	return err;
}

int braid_throttle_begin(struct braid_states *s)
{
	const struct braid_stream *part;
	size_t k, n;
	int err = 0;

	for (k = 0; k < s->source->nr_streams; k++)
		for (n = 0; (part = braid_stream_part(s->source->streams[k], n)) && !err; n++)
			if (!braid_states_host(s, part)->quota_moments)
				err = add_intervals(s, part);
	return err;
}

/* Waiting vCPUs ------------------------------------------------------------------------------ */

/* Return: 0 or the op's error. */
static int refresh_list(struct braid_states *s, u32 first, s64 ns)
{
	int err = 0;
	u32 k;

	for (k = first; k != BRAID_NO_VCPU && !err; k = s->vcpus[k].next)
		err = braid_vcpu_refresh(s, &s->vcpus[k], ns, 0);
	return err;
}

/* Those that wait on a CPU. Return: 0 or the op's error. */
static int throttle_refresh(struct braid_states *s, const struct braid_host_state *host, u32 cpu,
			    s64 ns)
{
	int err;

	if (cpu >= host->nr_cpus)
		return 0;
	err = refresh_list(s, host->cpus[cpu].first_waiter, ns);
	return err ? err : refresh_list(s, host->cpus[cpu].first_behind, ns);
}

/* An interval: of those that wait on any CPU of its host. */
int braid_throttle_pass(struct braid_states *s, const struct braid_edge *edge)
{
	const struct braid_host_state *host = &s->hosts[s->quotas[edge->which].host];
	int err = 0;
	u32 cpu;

	if (edge->kind == BRAID_EDGE_QUOTA_BEGINS)
		s->quotas[edge->which].nr_intervals++;
	else
		s->quotas[edge->which].nr_intervals--;
	for (cpu = host->first_cpu; cpu != BRAID_NO_CPU && !err; cpu = host->cpus[cpu].next_touched)
		err = throttle_refresh(s, host, cpu, edge->due_ns);
	return err;
}

/* Moments ------------------------------------------------------------------------------------ */

static size_t find_queue(const struct braid_host_state *host, u64 address)
{
	size_t k;

	for (k = 0; k < host->nr_throttled && host->throttled[k].address != address; k++)
		;
	return k;
}

/*
 * An interrupt may throttle a run queue between a thread's "held_back" and the kernel's check of
 * that queue: then it holds the thread back, too, unless kvm_entry has shown that it went on.
 */
static void hold_late(struct braid_states *s, const struct braid_host_state *host, u32 cpu, s64 ns)
{
	u32 k = cpu < host->nr_cpus && host->seen.kvm ? host->cpus[cpu].first_on : BRAID_NO_VCPU;

	for (; k != BRAID_NO_VCPU; k = s->vcpus[k].next)
		if (s->vcpus[k].held_back == BRAID_HELD_PERHAPS)
			braid_throttle_hold(s, &s->vcpus[k], ns);
}

/* Return: 0, -ENOMEM or the op's error. */
static int throttle(struct braid_states *s, struct braid_host_state *host,
		    const struct braid_host_cpu *cpu, s64 ns)
{
	struct braid_quota_queue queue = {
		.address = cpu->throttles, .quota = cpu->throttles_quota, .cpu = cpu->throttles_cpu,
	};

	if (find_queue(host, queue.address) < host->nr_throttled ||
	    host->nr_throttled == MAX_QUEUES)
		return 0;
	if (braid_array_push(host->throttled, host->nr_throttled, host->throttled_capacity, queue))
		return braid_out_of_memory();
	hold_late(s, host, queue.cpu, ns);
	return throttle_refresh(s, host, queue.cpu, ns);
}

static void check_list(const struct braid_states *s, u32 first, s64 ns)
{
	for (; first != BRAID_NO_VCPU; first = s->vcpus[first].next)
		braid_throttle_check(s, &s->vcpus[first], ns);
}

/* Return: 0 or the op's error. */
static int unthrottle(struct braid_states *s, struct braid_host_state *host, u64 address, s64 ns)
{
	size_t k = find_queue(host, address);
	u32 cpu;

	if (k == host->nr_throttled)
		return 0;
	cpu = host->throttled[k].cpu;
	host->throttled[k] = host->throttled[--host->nr_throttled];
	if (cpu >= host->nr_cpus)
		return 0;
	check_list(s, host->cpus[cpu].first_on, ns);
	check_list(s, host->cpus[cpu].first_waiter, ns);
	check_list(s, host->cpus[cpu].first_behind, ns);
	return throttle_refresh(s, host, cpu, ns);
}

int braid_throttle_take(struct braid_states *s, u32 number, const struct braid_item *item,
		     const struct braid_role_info *info)
{
	struct braid_host_state *host = braid_states_host(s, item->stream);
	struct braid_host_cpu *cpu = &host->cpus[number];
	s64 value = 0, id = 0, of = 0;
	u32 quota;
	int err = 0;

	braid_role_number(info, 0, item, &value);
	if (info->role == BRAID_ROLE_THROTTLE) {
		cpu->throttles = 0;
		if (!braid_role_number(info, 1, item, &id) ||
		    !braid_role_number(info, 2, item, &of))
			return 0;
		quota = braid_quota_of(s, braid_host_number(s, host), id);
		if (quota == s->nr_quotas)
			return 0;
		cpu->throttles = value;
		cpu->throttles_quota = quota;
		cpu->throttles_cpu = of;
	} else if (info->role == BRAID_ROLE_THROTTLED) {
		if (cpu->throttles && value)
			err = throttle(s, host, cpu, item->host_ns);
		cpu->throttles = 0;
	} else if (!braid_role_number(info, 1, item, &of) || !of) {
		err = unthrottle(s, host, value, item->host_ns);
	}
	return err;
}

/* Threads ------------------------------------------------------------------------------------ */

void braid_throttle_hold(const struct braid_states *s, struct braid_vcpu *v, s64 ns)
{
	v->held_back = braid_quota_is_in_force(s, v, ns) ? BRAID_HELD : BRAID_HELD_PERHAPS;
}

void braid_throttle_check(const struct braid_states *s, struct braid_vcpu *v, s64 ns)
{
	if (v->held_back == BRAID_HELD && !braid_quota_is_in_force(s, v, ns))
		v->held_back = BRAID_HELD_NOT;
}

void braid_throttle_ran(struct braid_states *s, struct braid_vcpu *v, u32 cpu, s64 ns)
{
	struct braid_host_state *host = v->host;
	const struct braid_cgroup *row;
	size_t nr, k, n;

	/* It may have been preempted after "held_back": only kvm_entry shows that it goes on. */
	if (!host->seen.kvm)
		v->held_back = BRAID_HELD_NOT;
	/* Where threads are throttled, a thread that runs in the kernel proves nothing. */
	if (!host->nr_throttled || host->quota_threads)
		return;
	row = braid_vcpu_cgroups(v->part, v->tid, ns, &nr);
	for (k = host->nr_throttled; k--; ) {
		for (n = 0; n < nr && row[n].id != s->quotas[host->throttled[k].quota].id; n++)
			;
		if (n < nr && host->throttled[k].cpu == cpu)
			host->throttled[k] = host->throttled[--host->nr_throttled];
	}
}

void braid_throttle_forget(struct braid_host_state *host)
{
	u32 k;

	host->nr_throttled = 0;
	for (k = 0; k < host->nr_cpus; k++)
		host->cpus[k].throttles = 0;
}
