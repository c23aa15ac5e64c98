// SPDX-License-Identifier: GPL-2.0-or-later
/* Indexes the threads that vCPUs are. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "host_agent/trace/vcpu.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

static int by_thread(const void *a, const void *b)
{
	const struct braid_vcpu_span *x = a, *y = b;

	return braid_compare(x->host, y->host) ?:
	       braid_compare(x->tid, y->tid) ?:
	       braid_compare(x->from_ns, y->from_ns) ?:
	       braid_compare(x->guest->number, y->guest->number) ?:
	       braid_compare(x->vcpu, y->vcpu);
}

static int by_owned(const void *a, const void *b)
{
	const struct braid_vcpu_owned *x = a, *y = b;

	return braid_compare(x->host, y->host) ?: braid_compare(x->tid, y->tid) ?:
	       braid_compare(x->owner->number, y->owner->number);
}

/* What one host knows of a guest. */
static void add_spans(struct braid_vcpu_map *map, const struct braid_stream *guest,
		      const struct braid_stream *part)
{
	size_t k;

	for (k = 0; k < part->nr_threads; k++) {
		const struct braid_vcpu_thread *row = &part->threads[k];

		map->spans[map->nr++] = (struct braid_vcpu_span){
			.tid = row->tid, .vcpu = row->vcpu, .guest = guest,
			.host = braid_stream_host_number(part),
			.from_ns = (s64)(row->from_ns ? row->from_ns : part->found_ns),
		};
	}
	for (k = 0; k < part->nr_others; k++)
		map->owned[map->nr_owned++] = (struct braid_vcpu_owned){
			.host = braid_stream_host_number(part), .tid = part->others[k].tid,
			.owner = guest,
		};
}

int braid_vcpu_map_make(struct braid_vcpu_map *map, const struct braid_source *source)
{
	const struct braid_stream *part;
	size_t k, n, nr = 0, nr_owned = 0;

	map->nr = map->nr_owned = 0;
	for (k = 0; k < source->nr_streams; k++)
		for (n = 0; (part = braid_stream_part(source->streams[k], n)); n++) {
			nr += part->nr_threads;
			nr_owned += part->nr_others;
		}
	map->spans = calloc(nr + 1, sizeof(*map->spans));
	map->owned = calloc(nr_owned + 1, sizeof(*map->owned));
	if (!map->spans || !map->owned)
		return braid_out_of_memory();
	for (k = 0; k < source->nr_streams; k++)
		for (n = 0; (part = braid_stream_part(source->streams[k], n)); n++)
			add_spans(map, source->streams[k], part);
	qsort(map->spans, map->nr, sizeof(*map->spans), by_thread);
	qsort(map->owned, map->nr_owned, sizeof(*map->owned), by_owned);
	return 0;
}

/* Order of a span's thread and one of a host. */
static int by_key(const struct braid_vcpu_span *s, u32 host, s32 tid)
{
	return braid_compare(s->host, host) ?: braid_compare(s->tid, tid);
}

const struct braid_vcpu_span *braid_vcpu_map_find(const struct braid_vcpu_map *map, u32 host,
						  s32 tid, s64 ns)
{
	const struct braid_vcpu_span *s = map->spans;
	size_t k;

	braid_array_first(k, map->nr, by_key(&s[k], host, tid) > 0 ||
				      (!by_key(&s[k], host, tid) && s[k].from_ns > ns));
	if (k && !by_key(&s[k - 1], host, tid))
		return &s[k - 1];
	return k < map->nr && !by_key(&s[k], host, tid) ? &s[k] : NULL;
}

const struct braid_stream *braid_vcpu_part_on(const struct braid_stream *guest, u32 host, s64 ns)
{
	const struct braid_stay *stay = guest->stays;
	size_t k = guest->nr_stays;

	if (!k)
		return braid_stream_host_number(guest) == host ? guest : NULL;
	while (k > 1 && stay[k - 1].begun_ns >= ns)
		k--;
	return braid_stream_host_number(stay[k - 1].of) == host &&
	       (k == guest->nr_stays || stay[k].from_ns >= ns) ? stay[k - 1].of : NULL;
}

bool braid_vcpu_map_only(const struct braid_vcpu_map *map, const struct braid_vcpu_span *span)
{
	u32 host = span->host;

	return (span == map->spans || by_key(span - 1, host, span->tid)) &&
	       (span + 1 == map->spans + map->nr || by_key(span + 1, host, span->tid));
}

#define SUFFIX	32	/* capacity: */

/* What a label has after the name. */
static void put_suffix(const struct braid_stream *stream, char suffix[SUFFIX])
{
	*suffix = 0;
	if (stream->had_driver && stream->life > 1)
		snprintf(suffix, SUFFIX, " (no driver, %u)", stream->life);
	else if (stream->had_driver)
		strcpy(suffix, " (no driver)");
	else if (stream->life > 1)
		snprintf(suffix, SUFFIX, " (%u)", stream->life);
}

const char *braid_stream_label(const struct braid_stream *stream, char label[BRAID_STREAM_LABEL])
{
	char suffix[SUFFIX];

	put_suffix(stream, suffix);
	snprintf(label, BRAID_STREAM_LABEL, "%s%s", stream->name, suffix);
	return label;
}

bool braid_stream_is(const struct braid_stream *stream, const char *name)
{
	size_t bytes = strlen(stream->name);
	char suffix[SUFFIX];

	if (strncmp(name, stream->name, bytes))
		return false;
	put_suffix(stream, suffix);
	return !name[bytes] || (*suffix ? !strcmp(name + bytes, suffix) :
				!strcmp(name + bytes, " (1)"));
}

void braid_vcpu_label(const struct braid_vcpu_span *span, char label[BRAID_VCPU_LABEL])
{
	char guest[BRAID_STREAM_LABEL];

	braid_stream_label(span->guest, guest);
	if (span->vcpu == BRAID_VCPU_ALL)
		snprintf(label, BRAID_VCPU_LABEL, "%.95s/all vCPUs", guest);
	else
		snprintf(label, BRAID_VCPU_LABEL, "%.95s/vCPU %u", guest, span->vcpu);
}

void braid_vcpu_map_free(struct braid_vcpu_map *map)
{
	free(map->spans);
	free(map->owned);
	*map = (struct braid_vcpu_map){ 0 };
}

static int vcpu_by_vcpu(const void *a, const void *b)
{
	const struct braid_vcpu_thread *x = a, *y = b;

	return braid_compare(x->vcpu, y->vcpu) ?:
	       braid_compare(x->from_ns, y->from_ns) ?:
	       braid_compare(x->tid, y->tid);
}

void braid_vcpu_sort(struct braid_vcpu_thread *threads, size_t *nr, u32 nr_cpus)
{
	size_t k, kept = 0;

	if (*nr)
		qsort(threads, *nr, sizeof(*threads), vcpu_by_vcpu);
	for (k = 0; k < *nr; k++) {
		const struct braid_vcpu_thread *row = &threads[k];

		if (row->tid <= 0 || (row->vcpu >= nr_cpus && row->vcpu != BRAID_VCPU_ALL))
			continue;
		/*
		 * Several captures may list the same thread, or one repeatedly: the first applies.
		 */
		if (kept && threads[kept - 1].vcpu == row->vcpu &&
		    threads[kept - 1].tid == row->tid)
			continue;
		threads[kept++] = *row;
	}
	*nr = kept;
}

const struct braid_stream *braid_vcpu_owner(const struct braid_vcpu_map *map, u32 host, s32 tid)
{
	const struct braid_vcpu_owned *o = map->owned;
	size_t k;

	braid_array_first(k, map->nr_owned,
			  (braid_compare(o[k].host, host) ?: braid_compare(o[k].tid, tid)) >= 0);
	return k < map->nr_owned && o[k].host == host && o[k].tid == tid ? o[k].owner : NULL;
}

static int by_thread_and_time(const void *a, const void *b)
{
	const struct braid_cgroup *x = a, *y = b;

	return braid_compare(x->tid, y->tid) ?: braid_compare(x->from_ns, y->from_ns) ?:
	       braid_compare(x->id, y->id);
}

static int by_id_and_time(const void *a, const void *b)
{
	const struct braid_throttled *x = a, *y = b;

	return braid_compare(x->id, y->id) ?: braid_compare(x->from_ns, y->from_ns) ?:
	       braid_compare(x->to_ns, y->to_ns);
}

void braid_vcpu_sort_cgroups(struct braid_stream *stream)
{
	if (stream->nr_cgroups)
		qsort(stream->cgroups, stream->nr_cgroups, sizeof(*stream->cgroups),
		      by_thread_and_time);
	if (stream->nr_throttled)
		qsort(stream->throttled, stream->nr_throttled, sizeof(*stream->throttled),
		      by_id_and_time);
}

const struct braid_cgroup *braid_vcpu_cgroups(const struct braid_stream *stream, s32 tid, s64 ns,
					      size_t *nr)
{
	const struct braid_cgroup *rows = stream->cgroups;
	struct braid_cgroup at = { .tid = tid, .from_ns = ns < 0 ? 0 : ns, .id = UINT64_MAX };
	size_t first, past;

	*nr = 0;
	braid_array_first(past, stream->nr_cgroups, by_thread_and_time(&rows[past], &at) > 0);
	/* The first ones hold before them, too. */
	if ((!past || rows[past - 1].tid != tid) && past < stream->nr_cgroups) {
		at.from_ns = rows[past].from_ns;
		braid_array_first(past, stream->nr_cgroups,
				  by_thread_and_time(&rows[past], &at) > 0);
	}
	if (!past || rows[past - 1].tid != tid)
		return NULL;
	at.from_ns = rows[past - 1].from_ns;
	at.id = 0;
	braid_array_first(first, past, by_thread_and_time(&rows[first], &at) >= 0);
	*nr = past - first < BRAID_MAX_QUOTAS ? past - first : BRAID_MAX_QUOTAS;
	return rows + first;
}
