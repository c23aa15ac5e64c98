// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * When a host's thread ran a vCPU: a slice for the host, and one for the guest. Perfetto's flows
 * don't lead from one machine to another; so both have the task's name, which makes the colour.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/analysis.h"
#include "host_agent/export/perfetto/perfetto.h"
#include "host_agent/util/error.h"

/* A vCPU's thread, as the host knows it. */
struct vcpu {
	u32 number;				/* of its span in the map */
	s32 tid;
	u32 vcpu;
	struct braid_perfetto_machine *guest;
	struct braid_perfetto_machine *host;	/* its tracks; NULL: none yet */
	bool open;				/* in guest mode */
	bool named;				/* what follows is made: */
	struct braid_perfetto_task task;	/* name and link are of it */
	char name[BRAID_PERFETTO_NAME], link[2 * BRAID_PERFETTO_NAME];
	u32 cpu;				/* of the host ... */
	char where[BRAID_PERFETTO_NAME];	/* ... which this says */
};

/* What events say of vCPUs, in order. */
struct step {
	enum { STEP_TASK, STEP_ENTRY, STEP_EXIT } kind;
	u32 stream;		/* TASK: the guest's; else the host's */
	u32 cpu;		/* of that */
	u32 vcpu;		/* ENTRY, EXIT: the span of its thread */
	s32 pid;		/* TASK: from here on */
	const char *comm;	/* likewise; NULL: unknown */
	s64 ns;			/* ENTRY, EXIT */
	u64 reason;		/* EXIT */
};

struct braid_perfetto_vcpus {
	struct braid_perfetto_out *out;
	struct braid_perfetto_machine *machines;	/* by stream */
	const struct braid_vcpu_map *map;
	struct vcpu *vcpus;				/* by the map's spans */
	struct braid_roles roles;
	struct braid_text steps;			/* of a part: not taken yet */
};

struct braid_perfetto_vcpus *braid_perfetto_vcpus_new(struct braid_perfetto_out *out,
						      struct braid_perfetto_machine *machines,
						      const struct braid_vcpu_map *map)
{
	struct braid_perfetto_vcpus *x = calloc(1, sizeof(*x));
	size_t k;

	if (!x)
		return NULL;
	*x = (struct braid_perfetto_vcpus){
		.out = out, .machines = machines, .map = map,
		.vcpus = calloc(map->nr + 1, sizeof(*x->vcpus)),
	};
	if (!x->vcpus) {
		braid_perfetto_vcpus_free(x);
		return NULL;
	}
	for (k = 0; k < map->nr; k++)
		x->vcpus[k] = (struct vcpu){
			.number = k,
			.tid = map->spans[k].tid,
			.vcpu = map->spans[k].vcpu,
			.guest = &machines[map->spans[k].guest->number],
		};
	return x;
}

void braid_perfetto_vcpus_free(struct braid_perfetto_vcpus *x)
{
	if (!x)
		return;
	braid_roles_free(&x->roles);
	braid_text_free(&x->steps);
	free(x->vcpus);
	free(x);
}

u64 braid_perfetto_guest_track(const struct braid_perfetto_machine *guest)
{
	return braid_perfetto_track_of(BRAID_PERFETTO_GUEST, guest->stream->number);
}

int braid_perfetto_put_guest_track(struct braid_perfetto_out *o,
				   struct braid_perfetto_machine *host,
				   struct braid_perfetto_machine *guest)
{
	char name[BRAID_PERFETTO_NAME];

	if (guest->has_vcpus)
		return 0;
	guest->has_vcpus = true;
	snprintf(name, sizeof(name), "Guest %s on its host", guest->name);
	return braid_perfetto_track(o, host, braid_perfetto_guest_track(guest), 0, name,
				    "What the guest's vCPUs did; and when the host's threads ran them, from kvm_entry to kvm_exit. A slice of a thread has the name of the task that the vCPU was seen to run last.");
}

static u64 track_on_host(const struct vcpu *v)
{
	return braid_perfetto_track_of(BRAID_PERFETTO_THREAD, v->number);
}

static u64 track_in_guest(const struct vcpu *v)
{
	return braid_perfetto_track_of(BRAID_PERFETTO_GUEST_MODE, v->number);
}

/* The tracks of a vCPU, when it is first seen to run. */
static int put_tracks(struct braid_perfetto_vcpus *x, struct vcpu *v)
{
	const char *guest = v->guest->name;
	char name[BRAID_PERFETTO_NAME];
	int err;

	err = braid_perfetto_put_guest_track(x->out, v->host, v->guest);
	snprintf(name, sizeof(name), "%s vCPU %u, thread %d", guest, v->vcpu, v->tid);
	if (!err)
		err = braid_perfetto_track(x->out, v->host, track_on_host(v),
					   braid_perfetto_guest_track(v->guest), name, NULL);
	snprintf(name, sizeof(name), "%s vCPU %u in guest mode", guest, v->vcpu);
	if (!err && v->guest->wanted)
		err = braid_perfetto_track(x->out, v->guest, track_in_guest(v), 0, name,
					   "When the host ran this vCPU, from kvm_entry to kvm_exit. A slice has the name of the task that the vCPU was seen to run last.");
	return err;
}

static int perfetto_vcpu_put_end(struct braid_perfetto_vcpus *x, struct vcpu *v, s64 ns,
				 const char *exit)
{
	struct braid_perfetto_event event = { .type = BRAID__TRACK_EVENT__TYPE__SLICE_END };
	int err;

	v->open = false;
	event.track = track_on_host(v);
	braid_perfetto_arg_string(&event, "exit", exit);
	err = braid_perfetto_on_track(x->out, v->host, ns, &event);
	if (err || !v->guest->wanted)
		return err;
	event.track = track_in_guest(v);
	event.nr_args = 0;
	return braid_perfetto_on_track(x->out, v->guest, ns, &event);
}

/* Strings are made for each task that a vCPU runs: too often for snprintf(). */
static char *perfetto_vcpu_put_text(char *to, const char *text)
{
	return mempcpy(to, text, strnlen(text, BRAID_PERFETTO_MACHINE));
}

static void perfetto_vcpu_put_number(char *to, s64 number)
{
	if (number < 0)
		*to++ = '-';
	to[braid_text_digits(to, number < 0 ? -(u64)number : (u64)number)] = '\0';
}

/* The strings of a slice that begins, which are mostly those of the last one. */
static void name_slice(struct vcpu *v, u32 cpu)
{
	static const struct braid_perfetto_task none = { 0 };
	const struct braid_perfetto_machine *m = v->guest;
	/* What the vCPU's guest was seen to run there last. */
	const struct braid_perfetto_task *task = v->vcpu < m->nr_cpus ? &m->tasks[v->vcpu] : &none;
	char *at;

	if (!v->named || v->cpu != cpu)
		perfetto_vcpu_put_number(perfetto_vcpu_put_text(v->where, "host CPU "), cpu);
	v->cpu = cpu;
	if (v->named && v->task.comm == task->comm && v->task.pid == task->pid)
		return;
	v->named = true;
	v->task = *task;
	at = perfetto_vcpu_put_text(v->name, task->comm ? task->comm : "vCPU ");
	if (task->comm)
		*at++ = '-';
	perfetto_vcpu_put_number(at, task->comm ? task->pid : (s64)v->vcpu);
	at = perfetto_vcpu_put_text(v->link, m->name);
	*at++ = ' ';
	strcpy(at, v->name);
}

static int put_begin(struct braid_perfetto_vcpus *x, struct vcpu *v, const struct step *step)
{
	struct braid_perfetto_event event = { .type = BRAID__TRACK_EVENT__TYPE__SLICE_BEGIN };
	int err;

	v->open = true;
	name_slice(v, step->cpu);
	event.name = v->name;
	event.link = v->link;
	event.track = track_on_host(v);
	braid_perfetto_arg_string(&event, "guest", v->guest->name);
	braid_perfetto_arg_number(&event, "vcpu", v->vcpu);
	braid_perfetto_arg_number(&event, "host_cpu", step->cpu);
	err = braid_perfetto_on_track(x->out, v->host, step->ns, &event);
	if (err || !v->guest->wanted)
		return err;
	event.track = track_in_guest(v);
	event.nr_args = 0;
	braid_perfetto_arg_string(&event, "on", v->where);
	braid_perfetto_arg_number(&event, "host_thread", v->tid);
	return braid_perfetto_on_track(x->out, v->guest, step->ns, &event);
}

static int entry(struct braid_perfetto_vcpus *x, struct vcpu *v, const struct step *step)
{
	int err = 0;

	if (!v->host) {
		v->host = &x->machines[step->stream];
		err = put_tracks(x, v);
	}
	if (!err && v->open)
		err = perfetto_vcpu_put_end(x, v, step->ns, "not seen");
	return err ? err : put_begin(x, v, step);
}

static int take_step(struct braid_perfetto_vcpus *x, const struct step *step)
{
	struct vcpu *v = &x->vcpus[step->vcpu];
	struct braid_perfetto_task *task;
	char reason[BRAID_NAME_TEXT];

	if (step->kind == STEP_ENTRY)
		return entry(x, v, step);
	if (step->kind == STEP_TASK) {
		task = &x->machines[step->stream].tasks[step->cpu];
		task->comm = step->comm;
		task->pid = step->pid;
		return 0;
	}
	if (!v->open)
		return 0;
	braid_exit_name(step->reason, reason);
	return perfetto_vcpu_put_end(x, v, step->ns, reason);
}

/* What a guest's CPU runs from this event on. Return: whether that is another task. */
static bool is_other_task(struct braid_perfetto_task *task, const struct braid_item *item,
			  const struct braid_role_info *role, struct step *step)
{
	s64 pid;

	if (role->role != BRAID_ROLE_SWITCH || !braid_role_number(role, 2, item, &pid))
		pid = braid_format_pid(item);
	if (task->comm && task->pid == pid && item->counter >= task->from &&
	    item->counter <= task->until)
		return false;
	step->kind = STEP_TASK;
	step->pid = (s32)pid;
	step->comm = braid_format_comm_for(item, step->pid, &task->from, &task->until);
	if (task->seen && task->pid == step->pid && task->comm == step->comm)
		return false;
	task->seen = true;
	task->pid = step->pid;
	task->comm = step->comm;
	return true;
}

static bool is_step(struct braid_perfetto_vcpus *x, const struct braid_item *item,
		    const struct braid_role_info *role, struct step *step)
{
	const struct braid_vcpu_span *span;

	step->stream = item->stream->number;
	step->cpu = item->ring->cpu;
	if (item->stream->kind == BRAID_STREAM_GUEST)
		return !item->raw && is_other_task(&x->machines[step->stream].tasks[step->cpu],
						   item, role, step);
	if (role->role != BRAID_ROLE_KVM_ENTRY && role->role != BRAID_ROLE_KVM_EXIT)
		return false;
	/* The vCPU of a thread at a time: a guest that returned has its thread twice. */
	span = braid_vcpu_map_find(x->map, braid_stream_host_number(item->stream),
				   braid_format_pid(item), item->host_ns);
	if (!span)
		return false;
	step->kind = role->role == BRAID_ROLE_KVM_ENTRY ? STEP_ENTRY : STEP_EXIT;
	step->vcpu = span - x->map->spans;
	step->ns = item->host_ns;
	step->reason = step->kind == STEP_EXIT ? braid_role_reason(role, item) : 0;
	return true;
}

int braid_perfetto_vcpu_event(struct braid_perfetto_vcpus *x, const struct braid_item *item,
			      const struct braid_event_type_info *info)
{
	const struct braid_role_info *role = braid_roles_find(&x->roles, info);
	struct step step = { .vcpu = 0 };

	if (!role)
		return braid_out_of_memory();
	if (!is_step(x, item, role, &step))
		return 0;
	if (x->out->to)
		return take_step(x, &step);
	braid_text_put(&x->steps, (const char *)&step, sizeof(step));
	return x->steps.failed ? braid_out_of_memory() : 0;
}

void braid_perfetto_vcpus_hand_on(struct braid_perfetto_vcpus *x)
{
	const struct braid_source *source = x->out->walk->source;
	size_t k;

	braid_text_put(&x->out->bytes, x->steps.data, x->steps.bytes);
	braid_text_put(&x->out->bytes, (const char *)&x->steps.bytes, sizeof(x->steps.bytes));
	x->steps.bytes = 0;
	for (k = 0; k < source->nr_streams; k++)
		memset(x->machines[k].tasks, 0,
		       x->machines[k].nr_cpus * sizeof(*x->machines[k].tasks));
}

int braid_perfetto_vcpus_take(struct braid_perfetto_vcpus *x, struct braid_text *part)
{
	const char *end = part->data + part->bytes - sizeof(size_t);
	struct step step;
	size_t bytes;
	int err = 0;

	memcpy(&bytes, end, sizeof(bytes));
	part->bytes -= sizeof(bytes) + bytes;
	for (; bytes && !err; bytes -= sizeof(step)) {
		memcpy(&step, end - bytes, sizeof(step));
		err = take_step(x, &step);
	}
	return err;
}
