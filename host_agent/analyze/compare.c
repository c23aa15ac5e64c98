// SPDX-License-Identifier: GPL-2.0-or-later
/* Collects a capture's measures, bin by bin of its time, in one pass and in bounded memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/compare.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define FIRST_WIDTH_NS	1000000u
#define MAX_MEASURES	(1u << 12)
#define MAX_CULPRITS	(MAX_MEASURES * 3 / 4)	/* later ones are together one of unknown name */

static bool compare_same(const void *in, u32 number, const void *of)
{
	const struct braid_measure_key *found = &((const struct braid_measure *)in)[number].key;
	const struct braid_measure_key *key = of;

	return found->kind == key->kind && found->stream == key->stream &&
	       found->id == key->id && found->culprit == key->culprit;
}

static u32 compare_hash_of(const struct braid_measure_key *key)
{
	const u64 parts[] = {
		(u64)key->stream << 32 | (u32)key->kind, key->id, key->culprit,
	};

	return braid_hash_of(parts, sizeof(parts), 0);
}

static u32 compare_find(const struct braid_measures *m, const struct braid_measure_key *key)
{
	return braid_hash_find(&m->by_key, compare_hash_of(key), compare_same, m->all, key);
}

/* Return: 0, with *out NULL when there are too many; or -ENOMEM with braid_fail(). */
static int measure_of(struct braid_measures *m, const struct braid_measure_key *key,
		      struct braid_measure **out)
{
	u32 number = compare_find(m, key);
	int err;

	*out = NULL;
	if (number == BRAID_HASH_NONE) {
		err = braid_hash_reserve(&m->by_key, MAX_MEASURES);
		if (err == -ENOSPC)
			return 0;
		if (err || braid_array_push(m->all, m->nr, m->capacity,
					    (struct braid_measure){ .key = *key }))
			return braid_out_of_memory();
		number = m->nr - 1;
		braid_hash_put(&m->by_key, compare_hash_of(key), number);
	}
	*out = &m->all[number];
	return 0;
}

/* Two bins become one. */
static void compare_widen(struct braid_measures *m)
{
	const u32 half = BRAID_COMPARE_BINS / 2;
	size_t n;
	u32 k;

	for (n = 0; n < m->nr; n++) {
		u64 *of = m->all[n].of;

		for (k = 0; k < half; k++)
			of[k] = of[2 * k] + of[2 * k + 1];
		memset(of + half, 0, half * sizeof(*of));
	}
	m->width_ns *= 2;
	m->nr_bins = (m->nr_bins + 1) / 2;
}

/* Of recorded time, what precedes a time: what is between recordings is in no bin. */
static u64 compare_place_of(struct braid_measures *m, s64 ns)
{
	if (!m->width_ns) {
		m->width_ns = FIRST_WIDTH_NS;
		m->begin_ns = m->s->begin_ns;
	}
	return braid_states_recorded(m->s, m->begin_ns, ns);
}

/* The bin that has a place. */
static u32 bin_of(struct braid_measures *m, u64 at)
{
	while (at / m->width_ns >= BRAID_COMPARE_BINS)
		compare_widen(m);
	if (at / m->width_ns >= m->nr_bins)
		m->nr_bins = at / m->width_ns + 1;
	return at / m->width_ns;
}

static int compare_count(struct braid_measures *m, const struct braid_measure_key *key, s64 at_ns,
			 u64 by)
{
	struct braid_measure *measure;
	u32 bin = bin_of(m, compare_place_of(m, at_ns));
	int err = measure_of(m, key, &measure);

	if (measure)
		measure->of[bin] += by;
	return err;
}

/* A time, divided among the bins that it is in. */
static int take_time(struct braid_measures *m, const struct braid_measure_key *key, s64 from_ns,
		     s64 to_ns)
{
	u64 from = compare_place_of(m, from_ns), to = compare_place_of(m, to_ns), end;
	struct braid_measure *measure;
	u32 last = bin_of(m, to ? to - 1 : 0), k = bin_of(m, from);
	int err = measure_of(m, key, &measure);

	for (; measure && k <= last; k++) {
		end = k == last ? to : (k + 1) * m->width_ns;
		measure->of[k] += end - from;
		from = end;
	}
	return err;
}

/* Culprits by guest or thread. */
static struct braid_measure_key key_of_culprit(const struct braid_measures *m, u32 stream,
					       const struct braid_culprit *culprit)
{
	u64 id = culprit->kind == BRAID_CULPRIT_VCPU ? m->s->vcpus[culprit->vcpu].guest->number :
		 (u32)culprit->id;

	return (struct braid_measure_key){ BRAID_MEASURE_CULPRIT, stream, id, culprit->kind };
}

static int compare_take_span(void *arg, const struct braid_state_span *span)
{
	struct braid_measures *m = arg;
	u32 stream = m->s->vcpus[span->vcpu].guest->number;
	struct braid_measure_key key = { .kind = BRAID_MEASURE_TIME, .stream = stream };
	int err;

	if (!braid_analysis_wants(m->s, &m->o, span->vcpu, span->task))
		return 0;
	err = take_time(m, &key, span->from_ns, span->to_ns);
	key.kind = BRAID_MEASURE_STATE;
	key.id = span->state;
	if (!err)
		err = take_time(m, &key, span->from_ns, span->to_ns);
	if (err || span->state != BRAID_VCPU_STOLEN ||
	    !(m->o.compares & 1u << BRAID_MEASURE_CULPRIT))
		return err;
	key = key_of_culprit(m, stream, &span->culprit);
	if (m->nr >= MAX_CULPRITS && compare_find(m, &key) == BRAID_HASH_NONE) {
		key.culprit = BRAID_CULPRIT_UNKNOWN;
		key.id = 0;
	}
	return take_time(m, &key, span->from_ns, span->to_ns);
}

static int compare_take_exit(void *arg, const struct braid_exit *exit)
{
	struct braid_measures *m = arg;
	struct braid_measure_key key = {
		.kind = BRAID_MEASURE_EXITS, .stream = m->s->vcpus[exit->vcpu].guest->number,
	};
	int err;

	if (!braid_analysis_wants(m->s, &m->o, exit->vcpu, exit->task))
		return 0;
	err = compare_count(m, &key, exit->from_ns, 1);
	key.kind = BRAID_MEASURE_REASON;
	key.id = exit->reason;
	return err ? err : compare_count(m, &key, exit->from_ns, 1);
}

static int compare_take_queued(void *arg, const struct braid_queue_wait *wait)
{
	struct braid_measures *m = arg;
	struct braid_measure_key key = {
		.kind = BRAID_MEASURE_WOKEN, .stream = m->s->vcpus[wait->vcpu].guest->number,
	};
	int err;

	if (!wait->woken || !braid_analysis_wants(m->s, &m->o, wait->vcpu, wait->pid))
		return 0;
	err = compare_count(m, &key, wait->to_ns, 1);
	key.kind = BRAID_MEASURE_WAIT;
	return err ? err : compare_count(m, &key, wait->to_ns, wait->to_ns - wait->from_ns);
}

static int compare_begin(void *state, struct braid_states *s,
			 const struct braid_analysis_options *options)
{
	struct braid_measures *m = state;

	m->s = s;
	m->o = *options;
	return 0;
}

static void compare_free_state(void *state)
{
	struct braid_measures *m = state;

	free(m->all);
	braid_hash_free(&m->by_key);
}

const struct braid_analysis braid_analysis_compare = {
	.name = "compare",
	.help = "two captures side by side",
	.state_bytes = sizeof(struct braid_measures),
	.begin = compare_begin,
	.states = { .span = compare_take_span, .queued = compare_take_queued, .exit = compare_take_exit },
	.free = compare_free_state,
};
