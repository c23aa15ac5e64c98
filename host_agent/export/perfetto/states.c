// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A track of each vCPU's states. It is on its host's machine, since the host's events show them, and
 * Perfetto's flows don't lead from one machine to another. Slices are written when they end:
 * trace_processor sorts packets by time, and keeps the file's order at the same time.
 */
#include <stdio.h>
#include <stdlib.h>

#include "host_agent/export/perfetto/perfetto.h"
#include "host_agent/util/wire.h"
#include "host_agent/util/error.h"
#include "host_agent/walk/slices.h"

/* Fields of the .proto file that are encoded here. */
#define TIMESTAMP_KEY	braid_wire_key(8, BRAID_WIRE_VARINT)	/* TracePacket.timestamp */
#define EVENT_KEY	braid_wire_key(11, BRAID_WIRE_BYTES)	/* its track_event ... */
#define CATEGORY_KEY	braid_wire_key(3, BRAID_WIRE_VARINT)	/* .category_iids */
#define ARG_KEY		braid_wire_key(4, BRAID_WIRE_BYTES)	/* .debug_annotations */
#define TYPE_KEY	braid_wire_key(9, BRAID_WIRE_VARINT)	/* .type */
#define NAME_IID_KEY	braid_wire_key(10, BRAID_WIRE_VARINT)	/* .name_iid */
#define TRACK_KEY	braid_wire_key(11, BRAID_WIRE_VARINT)	/* .track_uuid */
#define NAME_KEY	braid_wire_key(23, BRAID_WIRE_BYTES)	/* .name */
#define FLOW_KEY	braid_wire_key(47, BRAID_WIRE_FIXED64)	/* .flow_ids */
#define ARG_NAME_KEY	braid_wire_key(1, BRAID_WIRE_VARINT)	/* DebugAnnotation.name_iid ... */
#define ARG_TEXT_KEY	braid_wire_key(6, BRAID_WIRE_BYTES)	/* .string_value */
#define ARG_IID_KEY	braid_wire_key(17, BRAID_WIRE_VARINT)	/* .string_value_iid */

/* Of InternedData: which kind of string. */
#define CATEGORIES	1u
#define NAMES		2u
#define ARG_NAMES	3u
#define ARG_TEXTS	29u

#define MAX_ARGS	3u	/* of a slice */
#define FIELD_BYTES	(2 * BRAID_VARINT_BYTES)	/* of a number, at most */

/* What a packet of an event has; strings that are too many for a number are written as such. */
struct event {
	s64 ns;
	Braid__TrackEvent__Type type;
	u64 track;
	u32 category;
	u32 name_iid;
	const char *name;
	struct arg {
		u32 name_iid, text_iid;
		const char *text;
	} args[MAX_ARGS];
	u32 nr_args;
	const struct braid_flow *flows;
	u32 nr_flows;
};

/* Strings that all events of vCPUs' states have. */
enum constant {
	CONSTANT_CATEGORY, CONSTANT_TASK, CONSTANT_CULPRIT, CONSTANT_CULPRITS, CONSTANTS
};

#define KNOWN		256u
#define KNOWN_STATES	64u

/* The vCPUs of a host: a sequence of packets, and what is known of its strings. */
struct of_host {
	struct braid_perfetto_machine *machine;
	struct braid_perfetto_sequence sequence;
	u32 constants[CONSTANTS];		/* their numbers; 0: not written yet */
	/* Names whose strings are written, the last one of each hash. */
	struct known {
		struct braid_culprit of;	/* kind GUEST_TASK: also a vCPU's own task */
		u64 renamed;			/* of the states, when it was made: no task has
						   another name since */
		u32 iid;			/* 0: none */
	} known[KNOWN];
	struct known_state {
		enum braid_vcpu_state state;
		u64 reason;
		u32 iid;
	} known_states[KNOWN_STATES];
};

/* Only the walk uses it. */
struct braid_perfetto_states {
	struct braid_perfetto_out *out;
	struct braid_perfetto_machine *machines;	/* by stream */
	struct braid_slices *slices;
	struct of_host *hosts, *now;		/* NULL: none yet; that of the slice under way */
	struct braid_text text;			/* scratch space */
};

/* Packets ------------------------------------------------------------------------------------ */

static void put_arg(struct braid_text *t, const struct arg *arg)
{
	char *at = braid_text_reserve(t, 3 * FIELD_BYTES);
	size_t begin;

	if (!at)
		return;
	at = braid_wire_head(at, ARG_KEY);
	begin = at - t->data;
	at = braid_wire_field(at, ARG_NAME_KEY, arg->name_iid);
	if (arg->text_iid)
		at = braid_wire_field(at, ARG_IID_KEY, arg->text_iid);
	t->bytes = at - t->data;
	if (!arg->text_iid)
		braid_wire_string(t, ARG_TEXT_KEY, arg->text, strlen(arg->text));
	braid_wire_end(t, begin);
}

static int perfetto_states_put_event(struct braid_perfetto_states *x, const struct event *e)
{
	size_t packet = braid_perfetto_begin(&x->now->sequence), event;
	struct braid_text *t = &x->out->bytes;
	char *at = braid_text_reserve(t, 6 * FIELD_BYTES);
	u32 k;

	if (!at)
		return braid_out_of_memory();
	at = braid_wire_field(at, TIMESTAMP_KEY, (u64)e->ns);
	at = braid_wire_head(at, EVENT_KEY);
	event = at - t->data;
	at = braid_wire_field(at, TYPE_KEY, e->type);
	at = braid_wire_field(at, TRACK_KEY, e->track);
	if (e->category)
		at = braid_wire_field(at, CATEGORY_KEY, e->category);
	if (e->name_iid)
		at = braid_wire_field(at, NAME_IID_KEY, e->name_iid);
	t->bytes = at - t->data;
	if (!e->name_iid && e->name)
		braid_wire_string(t, NAME_KEY, e->name, strlen(e->name));
	for (k = 0; k < e->nr_args; k++)
		put_arg(t, &e->args[k]);
	for (k = 0; k < e->nr_flows; k++)
		braid_wire_fixed64(t, FLOW_KEY, e->flows[k].id);
	braid_wire_end(t, event);
	return braid_perfetto_end(&x->now->sequence, packet);
}

/* Strings ------------------------------------------------------------------------------------ */

/* The number of a string that is always the same. */
static int constant(struct braid_perfetto_states *x, enum constant which, u32 *iid)
{
	static const struct {
		u32 field;
		const char *text;
	} constants[CONSTANTS] = {
		[CONSTANT_CATEGORY] = { CATEGORIES, "tracebraid" },
		[CONSTANT_TASK] = { ARG_NAMES, "task" },
		[CONSTANT_CULPRIT] = { ARG_NAMES, "culprit" },
		[CONSTANT_CULPRITS] = { ARG_NAMES, "culprits" },
	};
	u32 *known = &x->now->constants[which];
	int err = *known ? 0 : braid_perfetto_intern(&x->now->sequence, constants[which].field,
						     constants[which].text, known);

	*iid = *known;
	return err;
}

/* Its name and its category. */
static int name_event(struct braid_perfetto_states *x, struct event *e, const char *name)
{
	int err = constant(x, CONSTANT_CATEGORY, &e->category);

	e->name = name;
	return err ? err : braid_perfetto_intern(&x->now->sequence, NAMES, name, &e->name_iid);
}

/* The name of a slice, made in @name if it is not known. */
static int name_slice(struct braid_perfetto_states *x, struct event *e,
		      const struct braid_slice *slice, char name[BRAID_NAME_TEXT])
{
	u64 hash = (slice->reason * BRAID_NR_VCPU_STATES + slice->state) * 0x9e3779b97f4a7c15ULL;
	struct known_state *known =
		&x->now->known_states[hash >> 32 & (KNOWN_STATES - 1)];
	int err;

	if (known->iid && known->state == slice->state && known->reason == slice->reason) {
		e->name_iid = known->iid;
		return constant(x, CONSTANT_CATEGORY, &e->category);
	}
	braid_slice_name(slice, name);
	err = name_event(x, e, name);
	*known = (struct known_state){ slice->state, slice->reason, e->name_iid };
	return err;
}

static struct known *known_of(struct braid_perfetto_states *x,
					     const struct braid_culprit *of)
{
	u64 hash = ((u64)of->kind << 56 ^ (u64)of->vcpu << 32 ^ (u32)of->id) *
		   0x9e3779b97f4a7c15ULL;

	hash = (hash ^ (u32)of->task) * 0x9e3779b97f4a7c15ULL;
	return &x->now->known[hash >> 32 & (KNOWN - 1)];
}

/* An argument: the name of a culprit or task, made in @name if it is not known. */
static int add_name(struct braid_perfetto_states *x, struct event *e, enum constant label,
		    const struct braid_culprit *of, char name[BRAID_NAME_TEXT])
{
	u64 renamed = braid_slices_states(x->slices)->renamed;
	struct known *known = known_of(x, of);
	struct arg *arg = &e->args[e->nr_args++];
	int err = constant(x, label, &arg->name_iid);

	if (!err && known->iid && known->renamed == renamed &&
	    braid_culprit_same(&known->of, of)) {
		arg->text_iid = known->iid;
		return 0;
	}
	braid_culprit_name(braid_slices_states(x->slices), of, name);
	arg->text = name;
	if (!err)
		err = braid_perfetto_intern(&x->now->sequence, ARG_TEXTS, name, &arg->text_iid);
	*known = (struct known){ *of, renamed, arg->text_iid };
	return err;
}

/* Tracks ------------------------------------------------------------------------------------- */

/* That of the host's first stream; of a host without one: the first one. */
static struct braid_perfetto_machine *machine_of(struct braid_perfetto_states *x, u32 host)
{
	const struct braid_source *source = x->out->walk->source;
	size_t k;

	for (k = 0; k < source->nr_streams; k++)
		if (source->streams[k]->kind == BRAID_STREAM_HOST &&
		    braid_stream_host_number(source->streams[k]) == host)
			return &x->machines[k];
	for (k = 0; x->machines[k].id; k++)
		;
	return &x->machines[k];
}

static struct of_host *host_of(const struct braid_perfetto_states *x, u32 vcpu)
{
	const struct braid_states *s = braid_slices_states(x->slices);

	/* Its track stays where it began, also if the guest moves to another host. */
	return &x->hosts[braid_stream_host_number(braid_stream_first_part(s->vcpus[vcpu].guest))];
}

static u64 track_of(u32 vcpu)
{
	return braid_perfetto_track_of(BRAID_PERFETTO_STATE, vcpu);
}

static int put_track(struct braid_perfetto_states *x, u32 vcpu)
{
	const struct braid_vcpu *v = &braid_slices_states(x->slices)->vcpus[vcpu];
	struct braid_perfetto_machine *host, *guest = &x->machines[v->guest->number];
	char name[BRAID_PERFETTO_NAME];
	int err;

	host = host_of(x, vcpu)->machine;
	err = braid_perfetto_put_guest_track(x->out, host, guest);
	snprintf(name, sizeof(name), "%s vCPU %u, state", guest->name, v->number);
	return err ? err : braid_perfetto_track(x->out, host, track_of(vcpu),
						braid_perfetto_guest_track(guest), name,
						"What this vCPU did at each ns: docs/analyze.md of tracebraid explains the states.");
}

/* Slices ------------------------------------------------------------------------------------- */

static int describe_stolen(struct braid_perfetto_states *x, const struct braid_slice *slice,
			   struct event *e, char culprit[BRAID_NAME_TEXT])
{
	const struct braid_shares *p = &slice->culprits;
	int err;

	err = add_name(x, e, CONSTANT_CULPRIT, &p->of[0].culprit, culprit);
	if (err || p->nr < 2)
		return err;
	x->text.bytes = 0;
	braid_slices_culprits(x->slices, slice, &x->text);
	if (x->text.failed)
		return braid_out_of_memory();
	e->args[e->nr_args].text = x->text.data;
	return constant(x, CONSTANT_CULPRITS, &e->args[e->nr_args++].name_iid);
}

static int put_slice(void *arg, const struct braid_slice *slice)
{
	struct braid_perfetto_states *x = arg;
	const struct braid_culprit self = {
		.kind = BRAID_CULPRIT_GUEST_TASK, .vcpu = slice->vcpu, .task = slice->task,
	};
	char name[BRAID_NAME_TEXT], task[BRAID_NAME_TEXT], culprit[BRAID_NAME_TEXT];
	struct event e = {
		.ns = slice->from_ns, .type = BRAID__TRACK_EVENT__TYPE__SLICE_BEGIN,
		.track = track_of(slice->vcpu),
		.flows = slice->flows.of, .nr_flows = slice->flows.nr,
	};
	int err;

	x->now = host_of(x, slice->vcpu);
	err = name_slice(x, &e, slice, name);
	if (!err && slice->task != BRAID_PID_UNKNOWN)
		err = add_name(x, &e, CONSTANT_TASK, &self, task);
	if (!err && slice->culprits.nr)
		err = describe_stolen(x, slice, &e, culprit);
	if (!err)
		err = perfetto_states_put_event(x, &e);
	e = (struct event){
		.ns = slice->to_ns, .type = BRAID__TRACK_EVENT__TYPE__SLICE_END, .track = e.track,
	};
	return err ? err : perfetto_states_put_event(x, &e);
}

/* An instant at the wakeup, from which an arrow leads to the woken task's slice. */
static int put_wake(void *arg, const struct braid_slice_wake *wake)
{
	struct braid_perfetto_states *x = arg;
	const struct braid_flow flow = { .id = wake->flow };
	static const char wakes[] = "wakes ";
	char name[sizeof(wakes) + BRAID_NAME_TEXT];
	struct event e = {
		.ns = wake->ns, .type = BRAID__TRACK_EVENT__TYPE__INSTANT,
		.track = track_of(wake->vcpu),
		.flows = &flow, .nr_flows = 1,
	};
	int err;

	x->now = host_of(x, wake->vcpu);
	braid_slices_task(x->slices, wake->vcpu, wake->pid, stpcpy(name, wakes));
	err = name_event(x, &e, name);
	return err ? err : perfetto_states_put_event(x, &e);
}

static int begin_hosts(struct braid_perfetto_states *x, u32 first_id)
{
	const struct braid_states *s = braid_slices_states(x->slices);
	u32 k;

	x->hosts = calloc(s->nr_hosts, sizeof(*x->hosts));
	if (!x->hosts)
		return braid_out_of_memory();
	for (k = 0; k < s->nr_hosts; k++) {
		x->hosts[k].machine = machine_of(x, k);
		x->hosts[k].sequence = (struct braid_perfetto_sequence){
			.out = x->out, .id = first_id + k, .machine = x->hosts[k].machine->id,
		};
	}
	return 0;
}

int braid_perfetto_states_begin(struct braid_perfetto_states **out, struct braid_walk *walk,
				struct braid_perfetto_out *o,
				struct braid_perfetto_machine *machines)
{
	static const struct braid_slices_ops ops = { .slice = put_slice, .wake = put_wake };
	struct braid_perfetto_states *x = calloc(1, sizeof(*x));
	int err;
	u32 k;

	*out = x;
	if (!x)
		return braid_out_of_memory();
	x->out = o;
	x->machines = machines;
	err = braid_slices_begin(&x->slices, walk, &ops, x);
	if (!err)
		err = begin_hosts(x, walk->source->nr_streams + 1);
	if (err)
		return err;
	for (k = 0; k < braid_slices_states(x->slices)->nr_vcpus && !err; k++)
		if (braid_slices_has(x->slices, k))
			err = put_track(x, k);
	return err;
}

int braid_perfetto_states_end(struct braid_perfetto_states *x)
{
	return braid_slices_end(x->slices);
}

void braid_perfetto_states_free(struct braid_perfetto_states *x)
{
	u32 k;

	if (!x)
		return;
	for (k = 0; x->hosts && k < braid_slices_states(x->slices)->nr_hosts; k++)
		braid_perfetto_sequence_free(&x->hosts[k].sequence);
	free(x->hosts);
	braid_slices_free(x->slices);
	braid_text_free(&x->text);
	free(x);
}
