// SPDX-License-Identifier: GPL-2.0-or-later
/* The timeline in Perfetto's format: each stream is a machine, its events are ftrace's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/perfetto/form.h"
#include "host_agent/export/perfetto/perfetto.h"
#include "host_agent/util/wire.h"
#include "host_agent/util/error.h"
#include "host_agent/walk/parts.h"
#include "host_agent/walk/select.h"
#include "host_agent/walk/slices.h"

#define BUNDLE_BYTES	(32u << 10)	/* of events, about */

/* Fields of the .proto file that are encoded here. */
#define LOST_KEY	braid_wire_key(3, BRAID_WIRE_VARINT)	/* FtraceEventBundle.lost_events */
#define CLOCK_KEY	braid_wire_key(5, BRAID_WIRE_VARINT)	/* .ftrace_clock */
#define DESCRIPTOR_KEY	braid_wire_key(11, BRAID_WIRE_BYTES)	/* .generic_event_descriptors */

/*
 * An export under way. On several CPUs parts of time have the events, each complete in itself: it
 * defines its event types and function names again. What depends on all earlier events is written
 * apart from them: slices in guest mode by the caller's thread, from what each part has noted, and
 * vCPUs' states, if there are any, by a thread that walks along the whole trace. Perfetto sorts
 * packets by time.
 */
struct perfetto_export {
	struct braid_walk walk;
	struct braid_perfetto_out out;
	struct braid_perfetto_machine *machines;	/* by stream */
	struct braid_vcpu_map map;
	struct braid_perfetto_types *types;
	struct braid_perfetto_vcpus *vcpus;
	struct braid_perfetto_states *states;	/* NULL: they are written apart */
};

/* Bundles ------------------------------------------------------------------------------------ */

/* The messages of the types that a bundle is the first to have events of. */
static void put_descriptors(struct braid_perfetto_bundle *b, struct braid_text *out)
{
	size_t k, begin;

	for (k = 0; k < b->nr_described; k++) {
		begin = braid_wire_begin(out, DESCRIPTOR_KEY);
		braid_perfetto_describe(b->described[k], out);
		braid_wire_end(out, begin);
	}
	b->nr_described = 0;
}

/* Writes the pending bundle of a CPU. */
static int flush_bundle(struct perfetto_export *x, struct braid_perfetto_machine *m, u32 cpu)
{
	struct braid_perfetto_bundle *b = &m->bundles[cpu];
	struct braid_text *rest = &x->out.text;
	int err;

	if (!b->nr && !b->lost)
		return 0;
	rest->bytes = 0;
	if (b->lost)
		braid_wire_number(rest, LOST_KEY, true);
	braid_wire_number(rest, CLOCK_KEY, BRAID__FTRACE_CLOCK__FTRACE_CLOCK_MONO_RAW);
	put_descriptors(b, rest);
	err = rest->failed || b->events.failed ? braid_out_of_memory() :
	      braid_perfetto_bundle_packet(&x->out, m, cpu, &b->events, rest);
	b->events.bytes = 0;
	b->nr = 0;
	b->lost = false;
	return err;
}

/* The walk ----------------------------------------------------------------------------------- */

static int perfetto_put_event(void *arg, const struct braid_item *item,
			      const struct braid_event_type_info *info)
{
	struct perfetto_export *x = arg;
	struct braid_perfetto_machine *m = &x->machines[item->stream->number];
	u32 cpu = item->ring->cpu;
	struct braid_perfetto_bundle *b = &m->bundles[cpu];
	struct braid_perfetto_type *type = braid_perfetto_type_of(x->types, info);
	int err = type ? braid_perfetto_put_event(x->types, m, item, type) : braid_out_of_memory();

	if (!err && (b->nr == BRAID_PERFETTO_EVENTS || b->events.bytes >= BUNDLE_BYTES))
		err = flush_bundle(x, m, cpu);
	return err ? err : braid_perfetto_vcpu_event(x->vcpus, item, info);
}

static int perfetto_put_lost(void *arg, const struct braid_item *item)
{
	struct perfetto_export *x = arg;
	struct braid_perfetto_machine *m = &x->machines[item->stream->number];
	u32 cpu = item->ring->cpu;
	int err = m->bundles[cpu].nr ? flush_bundle(x, m, cpu) : 0;

	m->bundles[cpu].lost = true;
	return err ? err : braid_perfetto_lost(&x->out, m, item);
}

static int perfetto_put_note(void *arg, const struct braid_item *item)
{
	struct perfetto_export *x = arg;

	return braid_perfetto_note(&x->out, &x->machines[item->stream->number], item);
}

static int flush_bundles(void *arg)
{
	struct perfetto_export *x = arg;
	size_t k;
	u32 cpu;
	int err = 0;

	for (k = 0; !err && k < x->walk.source->nr_streams; k++)
		for (cpu = 0; !err && cpu < x->machines[k].nr_cpus; cpu++)
			err = flush_bundle(x, &x->machines[k], cpu);
	return err;
}

/* Machines ----------------------------------------------------------------------------------- */

static int prepare_machine(struct perfetto_export *x, struct braid_perfetto_machine *m)
{
	const struct braid_stream *s = m->stream;
	size_t k;

	/* A VM without the driver has no events: its vCPUs are on tracks of the host. */
	for (k = 0; k < s->nr_rings && s->kind != BRAID_STREAM_VM; k++) {
		u32 cpu = s->rings[k]->cpu;

		if (!braid_select_ring((void *)x->walk.options, s->rings[k]))
			continue;
		m->wanted = true;
		if (cpu == BRAID_RING_NOTES)
			continue;
		if (cpu >= BRAID_PERFETTO_CPUS)
			return braid_fail(-ERANGE, "'%s' has a CPU %u, but Perfetto accepts only CPUs below %u; select one with --cpu",
					  m->name, cpu, BRAID_PERFETTO_CPUS);
		m->nr_cpus = cpu >= m->nr_cpus ? cpu + 1 : m->nr_cpus;
	}
	m->bundles = calloc(m->nr_cpus + 1, sizeof(*m->bundles));
	m->tasks = calloc(m->nr_cpus + 1, sizeof(*m->tasks));
	return m->bundles && m->tasks ? 0 : braid_out_of_memory();
}

static int perfetto_prepare(struct perfetto_export *x)
{
	const struct braid_source *source = x->walk.source;
	bool host = false;
	u32 nr_formats = 0;
	size_t k;
	int err = 0;

	x->machines = calloc(source->nr_streams + 1, sizeof(*x->machines));
	if (!x->machines)
		return braid_out_of_memory();
	for (k = 0; !err && k < source->nr_streams; k++) {
		struct braid_perfetto_machine *m = &x->machines[k];

		m->stream = source->streams[k];
		m->id = m->stream->kind == BRAID_STREAM_HOST && !host ? 0 : m->stream->number + 1;
		host |= !m->id;
		m->first_format = nr_formats;
		nr_formats += m->stream->nr_formats;
		braid_stream_label(m->stream, m->name);
		err = prepare_machine(x, m);
	}
	if (!err)
		err = braid_vcpu_map_make(&x->map, source);
	if (err)
		return err;
	x->types = braid_perfetto_types_new(&x->out);
	x->vcpus = braid_perfetto_vcpus_new(&x->out, x->machines, &x->map);
	return x->types && x->vcpus ? 0 : braid_out_of_memory();
}

/* @x: zeros; perfetto_finish() it in any case. @to: NULL: it is one of a part. */
static int perfetto_begin(struct perfetto_export *x, FILE *to, struct braid_source *source,
			  const struct braid_walk_options *options,
			  struct braid_walk_totals *totals)
{
	int err = braid_walk_begin(&x->walk, source, options, totals);

	x->walk.no_order = true;
	x->out.to = to;
	x->out.walk = &x->walk;
	return err ? err : perfetto_prepare(x);
}

static void free_machine(struct braid_perfetto_machine *m)
{
	u32 cpu;

	for (cpu = 0; m->bundles && cpu < m->nr_cpus; cpu++) {
		braid_text_free(&m->bundles[cpu].events);
		free(m->bundles[cpu].described);
	}
	free(m->bundles);
	free(m->tasks);
	free(m->functions);
}

static void perfetto_finish(struct perfetto_export *x)
{
	size_t k;

	for (k = 0; x->machines && k < x->walk.source->nr_streams; k++)
		free_machine(&x->machines[k]);
	free(x->machines);
	braid_perfetto_types_free(x->types);
	braid_perfetto_vcpus_free(x->vcpus);
	braid_perfetto_states_free(x->states);
	braid_vcpu_map_free(&x->map);
	braid_text_free(&x->out.bytes);
	braid_text_free(&x->out.text);
	braid_walk_end(&x->walk);
}

/* All of the walk that also writes vCPUs' states. */
static int walk_states(struct perfetto_export *x, const struct braid_walk_ops *ops)
{
	int err = braid_perfetto_states_begin(&x->states, &x->walk, &x->out, x->machines);

	if (!err)
		err = braid_walk_run(&x->walk, ops, x);
	return err ? err : braid_perfetto_states_end(x->states);
}

/* Several CPUs ------------------------------------------------------------------------------- */

static const struct braid_walk_ops event_ops = {
	.event = perfetto_put_event, .lost = perfetto_put_lost, .note = perfetto_put_note,
};

/* Machines' sequences of packets are begun. */
static void follow_head(struct perfetto_export *x, const struct perfetto_export *head)
{
	size_t k;

	for (k = 0; k < head->walk.source->nr_streams; k++)
		x->machines[k].begun = head->machines[k].begun;
}

static int finish_part(void *arg)
{
	struct perfetto_export *x = arg;
	int err = flush_bundles(x);

	braid_perfetto_vcpus_hand_on(x->vcpus);
	return err;
}

static int perfetto_begin_part(void *arg, struct braid_source *source,
			       const struct braid_walk_options *options,
			       struct braid_walk_totals *totals, struct braid_parts_maker *maker)
{
	struct perfetto_export *x = calloc(1, sizeof(*x));
	int err;

	maker->arg = x;
	if (!x)
		return braid_out_of_memory();
	maker->walk = &x->walk;
	maker->ops = &event_ops;
	maker->out = &x->out.bytes;
	maker->finish = finish_part;
	err = perfetto_begin(x, NULL, source, options, totals);
	if (!err)
		follow_head(x, arg);
	return err;
}

static void perfetto_end_part(struct braid_parts_maker *maker)
{
	if (maker->arg)
		perfetto_finish(maker->arg);
	free(maker->arg);
}

static int perfetto_write_part(void *arg, struct braid_text *text)
{
	struct perfetto_export *x = arg;
	int err = braid_perfetto_vcpus_take(x->vcpus, text);

	return err ? err : braid_perfetto_write(x->out.to, text);
}

static int put_states_apart(void *arg, struct braid_source *source,
			    const struct braid_walk_options *options)
{
	static const struct braid_walk_ops ops = { .event = NULL };
	const struct perfetto_export *head = arg;
	struct braid_walk_totals totals;
	struct perfetto_export x = { .types = NULL };
	int err = perfetto_begin(&x, head->out.to, source, options, &totals);

	if (!err) {
		follow_head(&x, head);
		x.walk.only_states = true;
		err = walk_states(&x, &ops);
	}
	if (!err)
		err = braid_perfetto_flush(&x.out);
	perfetto_finish(&x);
	return err;
}

/* -------------------------------------------------------------------------------------------- */

static int put_timeline(struct perfetto_export *x)
{
	const struct braid_parts_form parts = {
		.begin = perfetto_begin_part, .end = perfetto_end_part,
		.write = perfetto_write_part,
		.apart = braid_slices_missing(x->walk.source) ? NULL : put_states_apart,
	};
	int ret = braid_perfetto_flush(&x->out);

	if (!ret)
		ret = braid_parts_try(&x->walk, &event_ops, x, &parts);
	if (!ret)
		ret = walk_states(x, &event_ops);
	return ret < 0 ? ret : flush_bundles(x);
}

int braid_export_perfetto(FILE *to, struct braid_source *source,
			  const struct braid_walk_options *options,
			  struct braid_walk_totals *totals)
{
	struct perfetto_export x = { .types = NULL };
	int err = perfetto_begin(&x, to, source, options, totals);

	if (!err)
		err = braid_perfetto_head(&x.out, x.machines, &x.map);
	if (!err)
		err = braid_perfetto_profile(&x.out);
	if (!err)
		err = put_timeline(&x);
	if (!err)
		err = braid_perfetto_tail(&x.out, x.machines);
	if (!err)
		err = braid_perfetto_flush(&x.out);
	if (!err && fflush(to))
		err = errno == EPIPE ? -EPIPE :
		      braid_fail(-errno, "cannot write the export: %s", strerror(errno));
	perfetto_finish(&x);
	return err;
}
