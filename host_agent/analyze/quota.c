// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which waiting vCPUs the CPU quota of a cgroup holds back; throttle.c has what is throttled.
 *
 * - By the kernel's own moments, if the trace has them: from when a run queue of the cgroup is
 *   throttled until it is not, all its threads on that CPU are held back; on kernels that throttle
 *   each thread, only those that have had "held_back" since. What else runs there changes nothing.
 * - Else by cpu.stat: where a thread waits for an idle CPU, within an interval in which its cgroup
 *   was throttled, that may have been the quota. This is never proven.
 * - A quota of any of its thread's cgroups counts, from the one below the root on.
 */
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

static int quota_by_id(const void *a, const void *b)
{
	const struct braid_quota *x = a, *y = b;

	return braid_compare(x->host, y->host) ?: braid_compare(x->id, y->id);
}

u32 braid_quota_of(const struct braid_states *s, u32 host, u64 id)
{
	const struct braid_quota key = { .host = host, .id = id };
	u32 k;

	braid_array_first(k, s->nr_quotas, quota_by_id(&s->quotas[k], &key) >= 0);
	return k < s->nr_quotas && !quota_by_id(&s->quotas[k], &key) ? k : s->nr_quotas;
}

/* Rows of all that hosts know of guests. */
static size_t count_cgroups(const struct braid_states *s)
{
	const struct braid_stream *part;
	size_t k, n, nr = 0;

	for (k = 0; k < s->source->nr_streams; k++)
		for (n = 0; (part = braid_stream_part(s->source->streams[k], n)); n++)
			nr += part->nr_cgroups;
	return nr;
}

static void add_quotas(struct braid_states *s, const struct braid_stream *of)
{
	size_t k;

	for (k = 0; k < of->nr_cgroups; k++)
		if (of->cgroups[k].id)
			s->quotas[s->nr_quotas++] = (struct braid_quota){
				.host = braid_stream_host_number(of),
				.id = of->cgroups[k].id, .path = of->cgroups[k].path,
			};
}

/* Return: 0 or -ENOMEM. */
static int find_quotas(struct braid_states *s)
{
	const struct braid_stream *part;
	size_t k, n, nr;
	u32 kept = 0;

	nr = count_cgroups(s);
	s->nr_cgroups = nr;
	s->nr_quotas = 0;
	s->quotas = calloc(nr + 1, sizeof(*s->quotas));
	if (!s->quotas)
		return braid_out_of_memory();
	for (k = 0; k < s->source->nr_streams; k++)
		for (n = 0; (part = braid_stream_part(s->source->streams[k], n)); n++)
			add_quotas(s, part);
	qsort(s->quotas, s->nr_quotas, sizeof(*s->quotas), quota_by_id);
	for (k = 0; k < s->nr_quotas; k++)
		if (!kept || quota_by_id(&s->quotas[kept - 1], &s->quotas[k]))
			s->quotas[kept++] = s->quotas[k];
	s->nr_quotas = kept;
	return 0;
}

int braid_quota_begin(struct braid_states *s)
{
	size_t k, n;
	int err = find_quotas(s);

	for (k = 0; k < s->source->nr_streams; k++) {
		const struct braid_stream *of = s->source->streams[k];
		struct braid_host_state *host = braid_states_host(s, of);

		for (n = 0; of->kind == BRAID_STREAM_HOST && n < of->nr_formats; n++) {
			bool is_moment = !strncmp(of->formats[n].system, BRAID_QUOTA_SYSTEM,
						  strlen(BRAID_QUOTA_SYSTEM));

			host->quota_moments |= is_moment;
			host->quota_threads |= is_moment && !strcmp(of->formats[n].name, "held_back");
		}
	}
	return err;
}

/* The present number of one that was @number in @old. */
static u32 quota_now(const struct braid_states *s, const struct braid_quota *old, u32 number)
{
	return braid_quota_of(s, old[number].host, old[number].id);
}

static void renumber(const struct braid_states *s, const struct braid_quota *old,
		     struct braid_state_span *span)
{
	if (span->culprit.kind == BRAID_CULPRIT_QUOTA)
		span->culprit.id = quota_now(s, old, span->culprit.id);
}

static void renumber_host(const struct braid_states *s, const struct braid_quota *old,
			  struct braid_host_state *host)
{
	size_t k;

	for (k = 0; k < host->nr_throttled; k++)
		host->throttled[k].quota = quota_now(s, old, host->throttled[k].quota);
	for (k = 0; k < host->nr_cpus; k++)
		if (host->cpus[k].throttles)
			host->cpus[k].throttles_quota = quota_now(s, old,
								  host->cpus[k].throttles_quota);
}

int braid_quota_grown(struct braid_states *s)
{
	struct braid_quota *old = s->quotas;
	u32 nr = s->nr_quotas, k;
	size_t n;
	int err;

	if (count_cgroups(s) == s->nr_cgroups)
		return 0;
	err = find_quotas(s);
	if (err) {
		s->quotas = old;
		s->nr_quotas = nr;
		return err;
	}
	for (k = 0; k < nr; k++)
		s->quotas[quota_now(s, old, k)].nr_intervals = old[k].nr_intervals;
	for (k = 0; k < s->nr_hosts; k++)
		renumber_host(s, old, &s->hosts[k]);
	for (k = 0; k < s->nr_vcpus; k++)
		renumber(s, old, &s->vcpus[k].now);
	for (n = 0; n < s->nr_held; n++)
		renumber(s, old, braid_held_span(s, n));
	free(old);
	return 0;
}

bool braid_states_knows_throttled(const struct braid_states *s, const struct braid_stream *guest)
{
	const struct braid_stream *part;
	size_t n;

	for (n = 0; (part = braid_stream_part(guest, n)); n++)
		if (braid_states_host(s, part)->seen.switches && part->nr_cgroups)
			return true;
	return false;
}

static bool is_throttled(const struct braid_host_state *host, u32 quota, u32 cpu)
{
	size_t k;

	for (k = 0; k < host->nr_throttled; k++)
		if (host->throttled[k].cpu == cpu && host->throttled[k].quota == quota)
			return true;
	return false;
}

/* The first of its thread's quotas that is in force on its CPU, or nr_quotas. */
static u32 quota_in_force(const struct braid_states *s, const struct braid_vcpu *v, s64 now_ns)
{
	const struct braid_cgroup *row;
	size_t nr, k;
	u32 quota;

	row = braid_vcpu_cgroups(v->part, v->tid, now_ns, &nr);
	for (k = 0; k < nr; k++) {
		quota = braid_quota_of(s, braid_host_number(s, v->host), row[k].id);
		if (quota < s->nr_quotas &&
		    (v->host->quota_moments ? is_throttled(v->host, quota, v->cpu) :
					      s->quotas[quota].nr_intervals > 0))
			return quota;
	}
	return s->nr_quotas;
}

bool braid_quota_is_in_force(const struct braid_states *s, const struct braid_vcpu *v, s64 now_ns)
{
	return quota_in_force(s, v, now_ns) < s->nr_quotas;
}

bool braid_quota_holds(const struct braid_states *s, const struct braid_vcpu *v, s64 now_ns,
		       struct braid_state_span *span)
{
	const struct braid_host_state *host = v->host;
	u32 quota;

	if (host->quota_moments ? !host->nr_throttled : span->culprit.kind != BRAID_CULPRIT_NOTHING)
		return false;
	if (host->quota_moments && host->quota_threads && v->held_back != BRAID_HELD)
		return false;
	quota = quota_in_force(s, v, now_ns);
	if (quota == s->nr_quotas)
		return false;
	span->culprit = (struct braid_culprit){
		.kind = BRAID_CULPRIT_QUOTA, .id = quota, .vcpu = BRAID_NO_VCPU,
		.task = BRAID_PID_UNKNOWN,
	};
	span->cpu = BRAID_NO_CPU;
	span->within = !host->quota_moments;
	return true;
}
