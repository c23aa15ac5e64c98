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
	s32 tid;
	u32 vcpu;
	struct braid_perfetto_machine *guest;
	struct braid_perfetto_machine *host;	/* its tracks; NULL: none yet */
	u64 host_track, guest_track;	/* 0: not written yet */
	bool open;				/* in guest mode */
	bool named;				/* what follows is made: */
	struct braid_perfetto_task task;	/* name and link are of it */
	char name[BRAID_PERFETTO_NAME], link[2 * BRAID_PERFETTO_NAME];
	u32 cpu;				/* of the host ... */
	char where[BRAID_PERFETTO_NAME];	/* ... which this says */
};

struct braid_perfetto_vcpus {
	struct braid_perfetto_out *out;
	struct braid_perfetto_machine *machines;	/* by stream */
	const struct braid_vcpu_map *map;
	struct vcpu *vcpus;				/* by the map's spans */
	struct braid_roles roles;
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
	free(x->vcpus);
	free(x);
}

/* The vCPU of a thread at a time: a guest that returned has its thread twice. */
static struct vcpu *perfetto_vcpu_find(struct braid_perfetto_vcpus *x, s32 tid, s64 ns)
{
	const struct braid_vcpu_span *span = braid_vcpu_map_find(x->map, tid, ns);

	return span ? &x->vcpus[span - x->map->spans] : NULL;
}

int braid_perfetto_guest_track(struct braid_perfetto_out *o, struct braid_perfetto_machine *host,
			       struct braid_perfetto_machine *guest)
{
	char name[BRAID_PERFETTO_NAME];

	snprintf(name, sizeof(name), "Guest %s on its host", guest->name);
	return braid_perfetto_track(o, host, &guest->vcpus_track, 0, name,
				    "What the guest's vCPUs did; and when the host's threads ran them, from kvm_entry to kvm_exit. A slice of a thread has the name of the task that the vCPU was seen to run last.");
}

/* The tracks of a vCPU, when it is first seen to run. */
static int put_tracks(struct braid_perfetto_vcpus *x, struct vcpu *v)
{
	const char *guest = v->guest->name;
	char name[BRAID_PERFETTO_NAME];
	int err;

	err = braid_perfetto_guest_track(x->out, v->host, v->guest);
	snprintf(name, sizeof(name), "%s vCPU %u, thread %d", guest, v->vcpu, v->tid);
	if (!err)
		err = braid_perfetto_track(x->out, v->host, &v->host_track,
					   v->guest->vcpus_track, name, NULL);
	snprintf(name, sizeof(name), "%s vCPU %u in guest mode", guest, v->vcpu);
	if (!err && v->guest->wanted)
		err = braid_perfetto_track(x->out, v->guest, &v->guest_track, 0, name,
					   "When the host ran this vCPU, from kvm_entry to kvm_exit. A slice has the name of the task that the vCPU was seen to run last.");
	return err;
}

static int perfetto_vcpu_put_end(struct braid_perfetto_vcpus *x, struct vcpu *v, s64 ns,
				 const char *exit)
{
	struct braid_perfetto_event event = { .type = BRAID__TRACK_EVENT__TYPE__SLICE_END };
	int err;

	v->open = false;
	event.track = v->host_track;
	braid_perfetto_arg_string(&event, "exit", exit);
	err = braid_perfetto_on_track(x->out, v->host, ns, &event);
	if (err || !v->guest_track)
		return err;
	event.track = v->guest_track;
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

static int put_begin(struct braid_perfetto_vcpus *x, struct vcpu *v,
		     const struct braid_item *item)
{
	struct braid_perfetto_event event = { .type = BRAID__TRACK_EVENT__TYPE__SLICE_BEGIN };
	int err;

	v->open = true;
	name_slice(v, item->ring->cpu);
	event.name = v->name;
	event.link = v->link;
	event.track = v->host_track;
	braid_perfetto_arg_string(&event, "guest", v->guest->name);
	braid_perfetto_arg_number(&event, "vcpu", v->vcpu);
	braid_perfetto_arg_number(&event, "host_cpu", item->ring->cpu);
	err = braid_perfetto_on_track(x->out, v->host, item->host_ns, &event);
	if (err || !v->guest_track)
		return err;
	event.track = v->guest_track;
	event.nr_args = 0;
	braid_perfetto_arg_string(&event, "on", v->where);
	braid_perfetto_arg_number(&event, "host_thread", v->tid);
	return braid_perfetto_on_track(x->out, v->guest, item->host_ns, &event);
}

static int put_exit(struct braid_perfetto_vcpus *x, struct vcpu *v,
		    const struct braid_item *item, const struct braid_role_info *role)
{
	char reason[BRAID_NAME_TEXT];

	braid_exit_name(braid_role_reason(role, item), reason);
	return perfetto_vcpu_put_end(x, v, item->host_ns, reason);
}

static int entry(struct braid_perfetto_vcpus *x, struct vcpu *v,
		 const struct braid_item *item)
{
	int err = 0;

	if (!v->host)
		v->host = &x->machines[item->stream->number];
	if (!v->host_track)
		err = put_tracks(x, v);
	if (!err && v->open)
		err = perfetto_vcpu_put_end(x, v, item->host_ns, "not seen");
	return err ? err : put_begin(x, v, item);
}

/* What a guest's CPU runs from this event on. */
static void note_task(struct braid_perfetto_task *task, const struct braid_item *item,
		      const struct braid_role_info *role)
{
	s64 pid;

	if (role->role != BRAID_ROLE_SWITCH || !braid_role_number(role, 2, item, &pid))
		pid = braid_format_pid(item);
	if (task->comm && task->pid == pid && item->counter >= task->from &&
	    item->counter <= task->until)
		return;
	task->pid = (s32)pid;
	task->comm = braid_format_comm_for(item, task->pid, &task->from, &task->until);
}

int braid_perfetto_vcpu_event(struct braid_perfetto_vcpus *x, const struct braid_item *item,
			      const struct braid_event_type_info *info)
{
	const struct braid_role_info *role = braid_roles_find(&x->roles, info);
	struct braid_perfetto_machine *m = &x->machines[item->stream->number];
	struct vcpu *v;

	if (!role)
		return braid_out_of_memory();
	if (item->stream->kind == BRAID_STREAM_GUEST && !item->raw)
		note_task(&m->tasks[item->ring->cpu], item, role);
	if (item->stream->kind != BRAID_STREAM_HOST ||
	    (role->role != BRAID_ROLE_KVM_ENTRY && role->role != BRAID_ROLE_KVM_EXIT))
		return 0;
	v = perfetto_vcpu_find(x, braid_format_pid(item), item->host_ns);
	if (!v)
		return 0;
	if (role->role == BRAID_ROLE_KVM_ENTRY)
		return entry(x, v, item);
	return v->open ? put_exit(x, v, item, role) : 0;
}
