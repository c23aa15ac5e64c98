// SPDX-License-Identifier: GPL-2.0-or-later
/* What each vCPU did when a recording started: its first events after that prove it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/private.h"
#include "host_agent/merge/merge.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

/*
 * The host is traced from before the start on, and no event of it is missing up to where this pass
 * ends. So the task of a CPU's first event was current there at the start, and a thread that was
 * current nowhere had been switched out before. Its first event is a wakeup if it slept, and a
 * switch to it if it was runnable. (A wakeup may also find a thread that was preempted on its way to
 * sleep and is still queued: the kernel's events do not differ then.)
 */
#define MAX_EVENTS	(1u << 17)	/* of a pass; threads without an event stay unknown */

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
	struct current {	/* of the host's CPUs: the first event's task */
		bool known;
		s32 tid;
	} *cpus;
	const struct braid_stream *host;
	bool wakeups, moves, entries;	/* it has events of these kinds */
	bool *of;		/* by stream: it has the events of this recording */
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
	struct current *cpu = &p->cpus[item->ring->cpu];
	s32 tid = braid_format_pid(item);
	struct first *f = first_of(p, tid);

	if (tid == BRAID_PID_UNKNOWN)
		return;
	if (f && f->thread == BRAID_THREAD_UNKNOWN) {
		if (cpu->known) {	/* the kernel did not record the switch to it */
			settle(p, f);
		} else {
			f->thread = BRAID_THREAD_ON;
			f->cpu = item->ring->cpu;
		}
	}
	if (!cpu->known)
		cpu->tid = tid;
	cpu->known = true;
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

static bool of_recording(void *arg, const struct braid_ring *ring)
{
	const struct pass *p = arg;

	return p->of[ring->stream->number] && ring->cpu < p->s->nr_cpus;
}

/* Whether a ring lost events before its first one: that may have been at any time. */
static bool lost_first(const struct pass *p)
{
	const struct braid_states *s = p->s;
	size_t k, n;

	for (k = 0; k < s->source->nr_streams; k++)
		for (n = 0; n < s->source->streams[k]->nr_rings; n++)
			if (of_recording((void *)p, s->source->streams[k]->rings[n]) &&
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

	ret = braid_merge_begin(&merge, p->s->source, of_recording, p);
	if (!ret && lost_first(p))
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

/*
 * A thread at the start. Without all kinds of events, there may have been one before the first one.
 */
static struct braid_start_vcpu start_of(const struct pass *p, u32 vcpu)
{
	const struct first *f = &p->vcpus[vcpu];
	struct braid_start_vcpu start = {
		.vcpu = vcpu, .tid = f->tid, .thread = BRAID_THREAD_UNKNOWN, .cpu = f->cpu,
		.halted = f->halted,
		.kvm = f->in_guest && p->entries ? BRAID_KVM_GUEST :
		       f->halted ? BRAID_KVM_HOST : BRAID_KVM_UNSEEN,
	};

	if (f->thread == BRAID_THREAD_ON || p->wakeups)
		start.thread = f->thread;
	if (f->thread == BRAID_THREAD_WAITS && !p->moves)
		start.cpu = p->s->nr_cpus;
	return start;
}

/* Keeps what is known. Return: 0, or -ENOMEM with braid_fail(). */
static int hand_on(const struct pass *p, u32 which)
{
	struct braid_states *s = p->s;
	struct braid_start *to = &s->starts[which];
	size_t vcpus = 0, cpus = 0;
	int err = 0;
	u32 k;

	for (k = 0; k < s->nr_vcpus && !err; k++) {
		struct braid_start_vcpu start = start_of(p, k);

		if (start.thread != BRAID_THREAD_UNKNOWN)
			err = braid_array_push(to->vcpus, to->nr_vcpus, vcpus, start);
	}
	for (k = 0; k < s->nr_cpus && !err; k++) {
		struct braid_start_cpu start = { .cpu = k, .tid = p->cpus[k].tid };

		if (p->cpus[k].known)
			err = braid_array_push(to->cpus, to->nr_cpus, cpus, start);
	}
	return err ? braid_out_of_memory() :
	       braid_observe_edge(s, (struct braid_edge){
			.due_ns = p->from_ns, .kind = BRAID_EDGE_STARTS, .which = which,
	       });
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

/*
 * The recordings of which this start is: the first one's host says which kinds of events there are.
 */
static void find_streams(struct pass *p, const struct braid_start *start)
{
	const struct braid_source *source = p->s->source;
	size_t k;

	memset(p->of, 0, source->nr_streams * sizeof(*p->of));
	for (k = 0; k < source->nr_windows; k++) {
		const struct braid_window *w = &source->windows[k];

		if (!w->host || w->start_ns < start->ns || w->start_ns > start->until_ns)
			continue;
		p->of[w->host->number] = true;
		if (w->start_ns != start->ns || p->host)
			continue;
		p->host = w->host;
		p->to_ns = w->stop_ns;
	}
}

static int find_one(struct pass *p, u32 which)
{
	struct braid_states *s = p->s;
	int err;

	p->host = NULL;
	p->open = 0;
	p->from_ns = s->starts[which].ns;
	find_streams(p, &s->starts[which]);
	memset(p->vcpus, 0, s->nr_vcpus * sizeof(*p->vcpus));
	memset(p->cpus, 0, s->nr_cpus * sizeof(*p->cpus));
	if (!braid_stream_has_event(p->host, "sched_switch"))
		return 0;
	p->wakeups = braid_stream_has_event(p->host, "sched_wakeup");
	p->moves = braid_stream_has_event(p->host, "sched_migrate_task");
	p->entries = braid_stream_has_event(p->host, "kvm_entry");
	find_threads(p);
	err = braid_states_silently(s->source, walk, p);
	return err ? err : hand_on(p, which);
}

int braid_start_find(struct braid_states *s)
{
	struct pass p = { .s = s };
	int err = 0;
	u32 k;

	if (!s->nr_starts || !s->nr_vcpus || !s->threads.nr)
		return 0;
	p.vcpus = calloc(s->nr_vcpus, sizeof(*p.vcpus));
	p.cpus = calloc((size_t)s->nr_cpus + 1, sizeof(*p.cpus));
	p.of = calloc(s->source->nr_streams, sizeof(*p.of));
	if (!p.vcpus || !p.cpus || !p.of)
		err = braid_out_of_memory();
	if (!err)
		err = braid_format_open(&p.format, s->source);
	for (k = 0; k < s->nr_starts && !err; k++)
		err = find_one(&p, k);
	braid_format_close(p.format);
	braid_roles_free(&p.roles);
	free(p.vcpus);
	free(p.cpus);
	free(p.of);
	return err;
}

/* The start ----------------------------------------------------------------------------------- */

int braid_start_apply(struct braid_states *s, u32 which)
{
	const struct braid_start *start = &s->starts[which];
	int err = 0;
	u32 k;

	s->any_switch = true;	/* recorded, even if there was none */
	for (k = 0; k < start->nr_cpus; k++) {
		const struct braid_vcpu *v = braid_vcpu_of_thread(s, start->cpus[k].tid, start->ns);
		struct braid_host_cpu *cpu = &s->cpus[start->cpus[k].cpu];

		cpu->known = true;
		cpu->tid = start->cpus[k].tid;
		cpu->vcpu = v ? (u32)(v - s->vcpus) : BRAID_NO_VCPU;
	}
	for (k = 0; k < start->nr_vcpus; k++) {
		struct braid_vcpu *v = &s->vcpus[start->vcpus[k].vcpu];

		v->tid = start->vcpus[k].tid;
		braid_vcpu_set_thread(s, v, start->vcpus[k].thread, start->vcpus[k].cpu);
		v->kvm = start->vcpus[k].kvm;
		v->halted = start->vcpus[k].halted;
	}
	for (k = 0; k < start->nr_vcpus && !err; k++)
		err = braid_vcpu_refresh(s, &s->vcpus[start->vcpus[k].vcpu], start->ns, 0);
	return err;
}

void braid_start_free(struct braid_states *s)
{
	u32 k;

	for (k = 0; s->starts && k < s->nr_starts; k++) {
		free(s->starts[k].vcpus);
		free(s->starts[k].cpus);
	}
	free(s->starts);
}
