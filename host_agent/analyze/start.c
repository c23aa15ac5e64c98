// SPDX-License-Identifier: GPL-2.0-or-later
/* What each vCPU did when the recording started: its first events after that prove it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/private.h"
#include "host_agent/merge/merge.h"
#include "host_agent/util/error.h"

/*
 * The host is traced from before the start on, and no event of it is missing up to where this pass
 * ends. So the task of a CPU's first event was current there at the start, and a thread that was
 * current nowhere had been switched out before. Its first event is a wakeup if it slept, and a
 * switch to it if it was runnable. (A wakeup may also find a thread that was preempted on its way to
 * sleep and is still queued: the kernel's events do not differ then.)
 */
#define MAX_EVENTS	(1u << 17)	/* of the pass; threads without an event stay unknown */

/* The thread that is a vCPU at the start. */
struct first {
	s32 tid;		/* 0: none is known ... */
	s64 since_ns;		/* ... and identified then */
	bool settled;		/* later events prove no more */
	int thread;		/* BRAID_THREAD_* at the start */
	u32 cpu;		/* ON, WAITS */
	bool woken, moved;	/* an event of that kind was its first one ... */
	u32 moved_from;		/* ... from this CPU */
	bool in_guest, halted;	/* at the start */
};

struct pass {
	struct braid_states *s;
	struct braid_format *format;
	struct braid_roles roles;
	struct first *vcpus;
	u32 open;		/* threads that are not settled */
	const struct braid_stream *host;
	s64 from_ns, to_ns;
};

/* Threads ----------------------------------------------------------------------------------- */

static struct first *first_of(const struct pass *p, s64 tid)
{
	const struct braid_vcpu *v = braid_vcpu_of_thread(p->s, tid, p->from_ns);
	struct first *f = v ? &p->vcpus[v - p->s->vcpus] : NULL;

	return f && f->tid == tid && !f->settled ? f : NULL;
}

static void settle(struct pass *p, struct first *f)
{
	f->settled = true;
	p->open--;
}

/* Of two times at which a vCPU got a thread: whether the first is the one that applies at the start. */
static bool applies(s64 a, s64 b, s64 start_ns)
{
	if ((a <= start_ns) != (b <= start_ns))
		return a <= start_ns;
	return a <= start_ns ? a > b : a < b;
}

static void find_threads(struct pass *p)
{
	const struct braid_vcpu_map *map = &p->s->threads;
	size_t k;

	for (k = 0; k < map->nr; k++) {
		s32 tid = map->spans[k].tid;
		const struct braid_vcpu *v = braid_vcpu_of_thread(p->s, tid, p->from_ns);
		const struct braid_vcpu_span *span = braid_vcpu_map_find(map, tid, p->from_ns);
		struct first *f = v ? &p->vcpus[v - p->s->vcpus] : NULL;

		if (!f || (f->tid && !applies(span->from_ns, f->since_ns, p->from_ns)))
			continue;
		p->open += !f->tid;
		f->tid = tid;
		f->since_ns = span->from_ns;
	}
}

/* Events ------------------------------------------------------------------------------------ */

static void take_switch(struct pass *p, u32 cpu, const struct braid_item *item,
			const struct braid_role_info *info)
{
	struct first *f;
	s64 prev, next;

	if (!braid_role_number(info, 0, item, &prev) || !braid_role_number(info, 2, item, &next))
		return;
	f = first_of(p, prev);
	if (f)			/* without an event of KVM: what it did there is unknown */
		settle(p, f);
	f = first_of(p, next);
	if (!f || f->thread != BRAID_THREAD_UNKNOWN)
		return;
	f->thread = f->woken ? BRAID_THREAD_SLEEPS : BRAID_THREAD_WAITS;
	f->cpu = f->moved ? f->moved_from : cpu;
}

static void take_place(struct pass *p, const struct braid_item *item,
		       const struct braid_role_info *info, const struct braid_event_type_info *type)
{
	struct first *f;
	s64 pid, from;

	f = braid_role_number(info, 0, item, &pid) ? first_of(p, pid) : NULL;
	if (!f || f->thread != BRAID_THREAD_UNKNOWN)
		return;
	if (!strcmp(type->name, "sched_wakeup_new")) {
		settle(p, f);	/* it did not exist at the start */
	} else if (info->role == BRAID_ROLE_WAKEUP) {
		f->woken = true;
	} else if (!f->moved) {
		f->moved = true;
		f->moved_from = braid_role_number(info, 3, item, &from) && from >= 0 &&
				from < p->s->nr_cpus ? (u32)from : p->s->nr_cpus;
	}
}

static void take_kvm(struct pass *p, const struct braid_item *item,
		     const struct braid_role_info *info)
{
	struct first *f = first_of(p, braid_format_pid(item));
	s64 slept = 0;

	if (!f)
		return;
	if (f->thread == BRAID_THREAD_ON && info->role == BRAID_ROLE_KVM_EXIT)
		f->in_guest = true;
	if (f->thread == BRAID_THREAD_SLEEPS && info->role == BRAID_ROLE_KVM_HALTED &&
	    braid_role_number(info, 0, item, &slept) && slept)
		f->halted = true;
	settle(p, f);
}

/* An event's task is the current one of its CPU. */
static void take_current(struct pass *p, const struct braid_item *item)
{
	struct braid_host_cpu *cpu = &p->s->cpus[item->ring->cpu];
	s32 tid = braid_format_pid(item);
	struct first *f = first_of(p, tid);

	if (tid == BRAID_PID_UNKNOWN)
		return;
	if (f && f->thread == BRAID_THREAD_UNKNOWN) {
		if (cpu->started) {	/* the kernel did not record the switch to it */
			settle(p, f);
		} else {
			f->thread = BRAID_THREAD_ON;
			f->cpu = item->ring->cpu;
		}
	}
	if (!cpu->started)
		cpu->start_tid = tid;
	cpu->started = true;
}

/* Return: 0, or -errno with braid_fail(). */
static int take(struct pass *p, const struct braid_item *item)
{
	const struct braid_event_type_info *type = braid_format_event(p->format, item);
	const struct braid_role_info *info = type ? braid_roles_find(&p->roles, type) : NULL;

	if (!info)
		return braid_out_of_memory();
	if (info->role != BRAID_ROLE_NONE)
		take_current(p, item);
	switch (info->role) {
	case BRAID_ROLE_SWITCH:
		take_switch(p, item->ring->cpu, item, info);
		break;
	case BRAID_ROLE_WAKEUP:
	case BRAID_ROLE_MIGRATE:
		take_place(p, item, info, type);
		break;
	case BRAID_ROLE_KVM_ENTRY:
	case BRAID_ROLE_KVM_EXIT:
	case BRAID_ROLE_KVM_USER:
	case BRAID_ROLE_KVM_HALTED:
		take_kvm(p, item, info);
		break;
	default:
		break;
	}
	return 0;
}

/* The pass ---------------------------------------------------------------------------------- */

static bool of_host(void *arg, const struct braid_ring *ring)
{
	const struct braid_states *s = arg;

	return ring->stream->kind == BRAID_STREAM_HOST && ring->cpu < s->nr_cpus;
}

/* Whether a ring lost events before its first one: that may have been at any time. */
static bool lost_first(const struct braid_states *s)
{
	size_t k, n;

	for (k = 0; k < s->source->nr_streams; k++)
		for (n = 0; n < s->source->streams[k]->nr_rings; n++)
			if (of_host((void *)s, s->source->streams[k]->rings[n]) &&
			    s->source->streams[k]->rings[n]->item.lost_before)
				return true;
	return false;
}

/* Up to the first loss. Return: 0, or -errno with braid_fail(). */
static int walk(void *arg)
{
	struct pass *p = arg;
	const struct braid_ring *last = NULL;
	struct braid_merge *merge = NULL;
	const struct braid_item *item;
	u32 left = MAX_EVENTS;
	int ret;

	ret = braid_merge_begin(&merge, p->s->source, of_host, p->s);
	if (!ret && lost_first(p->s))
		left = 0;
	while (ret >= 0 && p->open && left && (ret = braid_merge_next(merge, &item)) > 0) {
		/* The merge has moved the last event's ring on. */
		if ((last && last->item.lost_before) || item->kind != BRAID_ITEM_EVENT ||
		    item->host_ns >= p->to_ns)
			break;
		last = item->ring;
		left--;
		if (item->host_ns >= p->from_ns)
			ret = take(p, item);
	}
	braid_merge_end(merge);
	braid_source_rewind(p->s->source);
	return ret < 0 ? ret : 0;
}

/* Hands the results on to the states; there they are applied at the start. */
static void hand_on(struct pass *p)
{
	struct braid_states *s = p->s;
	bool wakeups = braid_stream_has_event(p->host, "sched_wakeup");
	bool moves = braid_stream_has_event(p->host, "sched_migrate_task");
	bool entries = braid_stream_has_event(p->host, "kvm_entry");
	u32 k;

	s->start_ns = braid_stream_has_event(p->host, "sched_switch") ? p->from_ns : INT64_MAX;
	for (k = 0; k < s->nr_vcpus; k++) {
		const struct first *f = &p->vcpus[k];
		struct braid_vcpu *v = &s->vcpus[k];

		v->start = (struct braid_vcpu_start){ .tid = f->tid, .cpu = f->cpu };
		/* Without all kinds of events, there may have been one before the first one. */
		if (f->thread == BRAID_THREAD_ON || wakeups)
			v->start.thread = f->thread;
		if (f->thread == BRAID_THREAD_WAITS && !moves)
			v->start.cpu = s->nr_cpus;
		v->start.kvm = f->in_guest && entries ? BRAID_KVM_GUEST :
			       f->halted ? BRAID_KVM_HOST : BRAID_KVM_UNSEEN;
		v->halted = f->halted;
	}
}

/* The recording whose host's events go back furthest; NULL: none states its start. */
static const struct braid_window *window_of(const struct braid_source *source)
{
	const struct braid_window *first = NULL;
	size_t k;

	for (k = 0; k < source->nr_streams; k++)
		if (source->streams[k]->kind == BRAID_STREAM_HOST &&
		    source->streams[k]->nr_buffers)
			return NULL;	/* trace-cmd's: what it overwrote is not known */
	for (k = 0; k < source->nr_windows; k++)
		if (source->windows[k].host && braid_states_takes(source->windows[k].start_ns) &&
		    (!first || source->windows[k].start_ns < first->start_ns))
			first = &source->windows[k];
	return first;
}

int braid_states_silently(struct braid_source *source, int (*pass)(void *arg), void *arg)
{
	void (*fault)(void *, const struct braid_stream *, const char *) = source->fault;
	u64 faults = source->faults;
	int err;

	source->fault = NULL;
	err = pass(arg);
	source->fault = fault;
	source->faults = faults;
	return err;
}

int braid_start_find(struct braid_states *s)
{
	const struct braid_window *window = window_of(s->source);
	struct pass p = { .s = s };
	int err;

	s->start_ns = INT64_MAX;
	if (!window || !s->nr_vcpus || !s->threads.nr)
		return 0;
	p.host = window->host;
	p.from_ns = window->start_ns;
	p.to_ns = window->stop_ns;
	p.vcpus = calloc(s->nr_vcpus, sizeof(*p.vcpus));
	if (!p.vcpus)
		return braid_out_of_memory();
	find_threads(&p);
	err = braid_format_open(&p.format, s->source);
	if (!err)
		err = braid_states_silently(s->source, walk, &p);
	if (!err)
		hand_on(&p);
	braid_format_close(p.format);
	braid_roles_free(&p.roles);
	free(p.vcpus);
	return err;
}

/* The start ----------------------------------------------------------------------------------- */

int braid_start_apply(struct braid_states *s)
{
	s64 ns = s->start_ns;
	int err = 0;
	u32 k;

	s->start_ns = INT64_MAX;
	s->any_switch = true;	/* recorded, even if there was none */
	for (k = 0; k < s->nr_cpus; k++) {
		const struct braid_vcpu *v = braid_vcpu_of_thread(s, s->cpus[k].start_tid, ns);

		if (!s->cpus[k].started)
			continue;
		s->cpus[k].known = true;
		s->cpus[k].tid = s->cpus[k].start_tid;
		s->cpus[k].vcpu = v ? (u32)(v - s->vcpus) : BRAID_NO_VCPU;
	}
	for (k = 0; k < s->nr_vcpus; k++) {
		struct braid_vcpu *v = &s->vcpus[k];

		if (v->start.thread == BRAID_THREAD_UNKNOWN)
			continue;
		v->tid = v->start.tid;
		braid_vcpu_set_thread(s, v, v->start.thread, v->start.cpu);
		v->kvm = v->start.kvm;
	}
	for (k = 0; k < s->nr_vcpus && !err; k++)
		err = braid_vcpu_refresh(s, &s->vcpus[k], ns, 0);
	return err;
}
