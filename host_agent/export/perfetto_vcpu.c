// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * When a host's thread ran a vCPU: a slice for the host, and one for the guest. Perfetto's flows
 * don't lead from one machine to another; so both have the task's name, which makes the colour.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/perfetto.h"
#include "host_agent/util/error.h"


static int by_thread(const void *a, const void *b)
{
	const struct braid_perfetto_vcpu *x = a, *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	if (x->guest->stream->found_ns != y->guest->stream->found_ns)
		return x->guest->stream->found_ns < y->guest->stream->found_ns ? -1 : 1;
	return x->guest < y->guest ? -1 : x->guest > y->guest;
}

int braid_perfetto_vcpus(struct braid_perfetto *x)
{
	const struct braid_source *source = x->walk.source;
	size_t k, t, nr = 0;

	for (k = 0; k < source->nr_streams; k++)
		nr += source->streams[k]->nr_threads;
	x->vcpus = calloc(nr + 1, sizeof(*x->vcpus));
	if (!x->vcpus)
		return braid_fail(-ENOMEM, "out of memory");
	for (k = 0; k < source->nr_streams; k++)
		for (t = 0; t < source->streams[k]->nr_threads; t++)
			x->vcpus[x->nr_vcpus++] = (struct braid_perfetto_vcpu){
				.tid = source->streams[k]->threads[t].tid,
				.vcpu = source->streams[k]->threads[t].vcpu,
				.guest = &x->machines[k],
			};
	qsort(x->vcpus, x->nr_vcpus, sizeof(*x->vcpus), by_thread);
	return 0;
}

/* The vCPU that a thread was at a time: a guest that came back has its thread twice. */
static struct braid_perfetto_vcpu *find(struct braid_perfetto *x, s32 tid, s64 ns)
{
	size_t low = 0, high = x->nr_vcpus;

	/* The first one that is behind (tid, ns). */
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct braid_perfetto_vcpu *v = &x->vcpus[middle];

		if (v->tid < tid || (v->tid == tid && (s64)v->guest->stream->found_ns <= ns))
			low = middle + 1;
		else
			high = middle;
	}
	if (low && x->vcpus[low - 1].tid == tid)
		return &x->vcpus[low - 1];
	return low < x->nr_vcpus && x->vcpus[low].tid == tid ? &x->vcpus[low] : NULL;
}

/* The tracks of a vCPU, when it is first seen to run. */
static int put_tracks(struct braid_perfetto *x, struct braid_perfetto_vcpu *v)
{
	const char *guest = v->guest->name;
	char name[BRAID_PERFETTO_NAME];
	int err;

	snprintf(name, sizeof(name), "Guest %s on its host", guest);
	err = braid_perfetto_track(x, v->host, &v->guest->vcpus_track, 0, name,
				   "When the host's threads ran this guest, from kvm_entry to kvm_exit. A slice has the name of the task that the vCPU was seen to run last.");
	snprintf(name, sizeof(name), "%s vCPU %u, thread %d", guest, v->vcpu, v->tid);
	if (!err)
		err = braid_perfetto_track(x, v->host, &v->host_track, v->guest->vcpus_track, name,
					   NULL);
	snprintf(name, sizeof(name), "%s vCPU %u in guest mode", guest, v->vcpu);
	if (!err && v->guest->wanted)
		err = braid_perfetto_track(x, v->guest, &v->guest_track, 0, name,
					   "When the host ran this vCPU, from kvm_entry to kvm_exit. A slice has the name of the task that the vCPU was seen to run last.");
	return err;
}

static int put_end(struct braid_perfetto *x, struct braid_perfetto_vcpu *v, s64 ns,
		   struct braid_perfetto_args *args)
{
	struct braid_perfetto_args none = { .nr = 0 };
	Braid__TrackEvent event = BRAID__TRACK_EVENT__INIT;
	int err;

	v->open = false;
	BRAID_PERFETTO_SET(&event, type, BRAID__TRACK_EVENT__TYPE__SLICE_END);
	BRAID_PERFETTO_SET(&event, track_uuid, v->host_track);
	err = braid_perfetto_on_track(x, v->host, ns, &event, args);
	if (err || !v->guest_track)
		return err;
	BRAID_PERFETTO_SET(&event, track_uuid, v->guest_track);
	return braid_perfetto_on_track(x, v->guest, ns, &event, &none);
}

/* What the vCPU's guest was seen to run there last. */
static void task_name(const struct braid_perfetto_vcpu *v, char *name, size_t bytes)
{
	const struct braid_perfetto_machine *m = v->guest;

	if (v->vcpu < m->nr_cpus && m->tasks[v->vcpu].comm)
		snprintf(name, bytes, "%s-%d", m->tasks[v->vcpu].comm, m->tasks[v->vcpu].pid);
	else
		snprintf(name, bytes, "vCPU %u", v->vcpu);
}

static int put_begin(struct braid_perfetto *x, struct braid_perfetto_vcpu *v,
		     const struct braid_item *item)
{
	struct braid_perfetto_args args = { .nr = 0 }, guest_args = { .nr = 0 };
	Braid__TrackEvent event = BRAID__TRACK_EVENT__INIT;
	char task[BRAID_PERFETTO_NAME], link[2 * BRAID_PERFETTO_NAME], where[BRAID_PERFETTO_NAME];
	int err;

	v->open = true;
	task_name(v, task, sizeof(task));
	snprintf(link, sizeof(link), "%s %s", v->guest->name, task);
	event.name = task;
	event.correlation_id_str = link;
	BRAID_PERFETTO_SET(&event, type, BRAID__TRACK_EVENT__TYPE__SLICE_BEGIN);
	BRAID_PERFETTO_SET(&event, track_uuid, v->host_track);
	braid_perfetto_arg_string(&args, "guest", v->guest->name);
	braid_perfetto_arg_number(&args, "vcpu", v->vcpu);
	braid_perfetto_arg_number(&args, "host_cpu", item->ring->cpu);
	err = braid_perfetto_on_track(x, v->host, item->host_ns, &event, &args);
	if (err || !v->guest_track)
		return err;
	snprintf(where, sizeof(where), "host CPU %u", item->ring->cpu);
	BRAID_PERFETTO_SET(&event, track_uuid, v->guest_track);
	braid_perfetto_arg_string(&guest_args, "on", where);
	braid_perfetto_arg_number(&guest_args, "host_thread", v->tid);
	return braid_perfetto_on_track(x, v->guest, item->host_ns, &event, &guest_args);
}

/* Of "vcpu 0 reason hlt rip ..." the word behind "reason"; all when there is none. */
static int put_exit(struct braid_perfetto *x, struct braid_perfetto_vcpu *v,
		    const struct braid_item *item)
{
	static const char key[] = " reason ";
	struct braid_perfetto_args args = { .nr = 0 };
	char *at;

	x->text.bytes = 0;
	braid_format_text(x->walk.format, item, &x->text);
	braid_text_putc(&x->text, '\0');
	if (x->text.failed)
		return braid_fail(-ENOMEM, "out of memory");
	at = strstr(x->text.data, key);
	if (at) {
		at += sizeof(key) - 1;
		at[strcspn(at, " ")] = '\0';
	}
	braid_perfetto_arg_string(&args, "exit", at ? at : x->text.data);
	return put_end(x, v, item->host_ns, &args);
}

static int entry(struct braid_perfetto *x, struct braid_perfetto_vcpu *v,
		 const struct braid_item *item)
{
	struct braid_perfetto_args args = { .nr = 0 };
	int err = 0;

	if (!v->host)
		v->host = &x->machines[item->stream->number];
	if (!v->host_track)
		err = put_tracks(x, v);
	if (!err && v->open) {
		braid_perfetto_arg_string(&args, "exit", "not seen");
		err = put_end(x, v, item->host_ns, &args);
	}
	return err ? err : put_begin(x, v, item);
}

int braid_perfetto_vcpu_event(struct braid_perfetto *x, const struct braid_item *item,
			      const struct braid_perfetto_kind *kind)
{
	enum braid_perfetto_role role = braid_perfetto_kind_role(kind);
	struct braid_perfetto_vcpu *v;

	if (item->stream->kind == BRAID_STREAM_GUEST && !item->raw) {
		struct braid_perfetto_machine *m = &x->machines[item->stream->number];
		struct braid_perfetto_task *task = &m->tasks[item->ring->cpu];
		s32 pid = braid_perfetto_kind_next(kind, item);

		if (!task->comm || task->pid != pid)
			*task = (struct braid_perfetto_task){
				.pid = pid, .comm = braid_format_comm(item, pid),
			};
		return 0;
	}
	if (role == BRAID_PERFETTO_PLAIN)
		return 0;
	v = find(x, braid_format_pid(item), item->host_ns);
	if (!v)
		return 0;
	if (role == BRAID_PERFETTO_ENTRY)
		return entry(x, v, item);
	return v->open ? put_exit(x, v, item) : 0;
}
