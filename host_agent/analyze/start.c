// SPDX-License-Identifier: GPL-2.0-or-later
/* What each vCPU did when a recording started: its first events after that prove it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/private.h"
#include "host_agent/trace/merge.h"
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
	bool seen;		/* an event was its thread's, or about it */
	s32 tid;		/* 0: none is known */
	bool settled;		/* later events prove no more */
	int thread;		/* BRAID_THREAD_* at the start */
	u32 cpu;		/* ON, WAITS */
	bool woken, moved;	/* an event of that kind was its first one ... */
	u32 moved_from;		/* ... from this CPU */
	bool in_guest, halted;	/* at the start */
};

struct pass {
	struct braid_states *s;
	const struct braid_host_state *host;	/* whose start it is */
	struct braid_format *format;
	struct braid_roles roles;
	struct first *vcpus;
	u32 *seen, nr_seen;	/* of these */
	struct current {	/* of its CPUs: the first event's task */
		bool known;
		s32 tid;
	} *cpus;
	const struct braid_window **windows;	/* that have a host, by it and their starts ... */
	size_t nr_windows, window;	/* ... and the next one */
	struct braid_source part;	/* the hosts of this recording, perhaps by several files */
	bool wakeups, moves, entries;	/* the first one has events of these kinds */
	s64 from_ns, to_ns;
};

/* Threads ----------------------------------------------------------------------------------- */

/* Whether a guest's thread comes after a place in its list. */
static bool is_after(const struct braid_vcpu_thread *t, u32 vcpu, s64 ns)
{
	return t->vcpu != vcpu ? t->vcpu > vcpu : (s64)t->from_ns > ns;
}

/* The last one that was identified before a time, or the first one after it; 0: none is known. */
static s32 thread_of(const struct braid_stream *guest, u32 vcpu, s64 ns)
{
	const struct braid_vcpu_thread *all = guest->threads;
	size_t from = 0, to = guest->nr_threads;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (is_after(&all[middle], vcpu, ns))
			to = middle;
		else
			from = middle + 1;
	}
	if (from && all[from - 1].vcpu == vcpu)
		return all[from - 1].tid;
	return from < guest->nr_threads && all[from].vcpu == vcpu ? (s32)all[from].tid : 0;
}

static struct first *first_of(struct pass *p, s64 tid)
{
	const struct braid_vcpu *v = braid_vcpu_of_thread(p->s, p->host, tid, p->from_ns);
	struct first *f = v ? &p->vcpus[v - p->s->vcpus] : NULL;
	const struct braid_stream *part;

	if (f && !f->seen) {
		f->seen = true;
		p->seen[p->nr_seen++] = v - p->s->vcpus;
		part = braid_vcpu_part_on(v->guest, braid_host_number(p->s, p->host), p->from_ns);
		f->tid = thread_of(part, v->number, p->from_ns) ?:
			 thread_of(part, BRAID_VCPU_ALL, p->from_ns);
	}
	return f && f->tid == tid && !f->settled ? f : NULL;
}

/* Events ------------------------------------------------------------------------------------ */

static void start_take_switch(struct pass *p, u32 cpu, const struct braid_item *item,
			      const struct braid_role_info *info)
{
	struct first *f;
	s64 prev, next;

	if (!braid_role_number(info, 0, item, &prev) || !braid_role_number(info, 2, item, &next))
		return;
	f = first_of(p, prev);
	if (f)			/* without an event of KVM: what it did there is unknown */
		f->settled = true;
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
		f->settled = true;	/* it did not exist at the start */
	} else if (info->role == BRAID_ROLE_WAKEUP) {
		f->woken = true;
	} else if (!f->moved) {
		f->moved = true;
		f->moved_from = braid_role_number(info, 3, item, &from) && from >= 0 &&
				from < p->host->nr_cpus ? (u32)from : p->host->nr_cpus;
	}
}

static void start_take_kvm(struct pass *p, const struct braid_item *item,
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
	f->settled = true;
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
			f->settled = true;
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
static int start_take(struct pass *p, const struct braid_item *item)
{
	const struct braid_event_type_info *type = braid_format_event(p->format, item);
	const struct braid_role_info *info = type ? braid_roles_find(&p->roles, type) : NULL;

	if (!info)
		return braid_out_of_memory();
	if (info->role != BRAID_ROLE_NONE)
		take_current(p, item);
	switch (info->role) {
	case BRAID_ROLE_SWITCH:
		start_take_switch(p, item->ring->cpu, item, info);
		break;
	case BRAID_ROLE_WAKEUP:
	case BRAID_ROLE_MIGRATE:
		take_place(p, item, info, type);
		break;
	case BRAID_ROLE_KVM_ENTRY:
	case BRAID_ROLE_KVM_EXIT:
	case BRAID_ROLE_KVM_USER:
	case BRAID_ROLE_KVM_HALTED:
		start_take_kvm(p, item, info);
		break;
	default:
		break;
	}
	return 0;
}

/* The pass ---------------------------------------------------------------------------------- */

static bool is_followed(void *arg, const struct braid_ring *ring)
{
	const struct pass *p = arg;

	return ring->cpu < p->host->nr_cpus;
}

/* Whether a ring lost events before its first one: that may have been at any time. */
static bool lost_first(struct pass *p)
{
	const struct braid_stream *host;
	size_t k, n;

	for (k = 0; k < p->part.nr_streams; k++) {
		host = p->part.streams[k];
		for (n = 0; n < host->nr_rings; n++)
			if (is_followed(p, host->rings[n]) && host->rings[n]->item.lost_before)
				return true;
	}
	return false;
}

/* Up to the first loss. Return: 0, or -errno with braid_fail(). */
static int start_walk(void *arg)
{
	struct pass *p = arg;
	const struct braid_ring *last = NULL;
	struct braid_merge *merge = NULL;
	const struct braid_item *item;
	u32 left = MAX_EVENTS;
	int ret;

	ret = braid_merge_begin(&merge, &p->part, is_followed, p);
	if (!ret && lost_first(p))
		left = 0;
	while (ret >= 0 && left && (ret = braid_merge_next(merge, &item)) > 0) {
		/* The merge has moved the last event's ring on. */
		if ((last && last->item.lost_before) || item->kind != BRAID_ITEM_EVENT ||
		    item->host_ns >= p->to_ns)
			break;
		last = item->ring;
		left--;
		if (item->host_ns >= p->from_ns)
			ret = start_take(p, item);
	}
	braid_merge_end(merge);
	braid_source_rewind(&p->part);
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
		start.cpu = p->host->nr_cpus;
	return start;
}

/* The first events' tasks, of the CPUs of a host. */
static int hand_on_cpus(struct pass *p, const struct braid_stream *host, struct braid_start *to,
			size_t *capacity)
{
	int err = 0;
	size_t k;

	for (k = 0; k < host->nr_rings && !err; k++) {
		struct braid_start_cpu start = { .cpu = host->rings[k]->cpu };

		if (!is_followed(p, host->rings[k]) || !p->cpus[start.cpu].known)
			continue;
		start.tid = p->cpus[start.cpu].tid;
		p->cpus[start.cpu].known = false;
		err = braid_array_push(to->cpus, to->nr_cpus, *capacity, start);
	}
	return err;
}

/* Keeps what is known. Return: 0, or -ENOMEM with braid_fail(). */
static int start_hand_on(struct pass *p, u32 which)
{
	struct braid_states *s = p->s;
	struct braid_start *to = &s->starts[which];
	size_t vcpus = 0, cpus = 0, n;
	int err = 0;
	u32 k;

	for (k = 0; k < p->nr_seen && !err; k++) {
		struct braid_start_vcpu start = start_of(p, p->seen[k]);

		p->vcpus[p->seen[k]] = (struct first){ 0 };
		if (start.thread != BRAID_THREAD_UNKNOWN)
			err = braid_array_push(to->vcpus, to->nr_vcpus, vcpus, start);
	}
	p->nr_seen = 0;
	for (n = 0; n < p->part.nr_streams && !err; n++)
		err = hand_on_cpus(p, p->part.streams[n], to, &cpus);
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

static int start_by_start(const void *a, const void *b)
{
	const struct braid_window *x = *(const struct braid_window *const *)a;
	const struct braid_window *y = *(const struct braid_window *const *)b;

	return braid_compare(x->of, y->of) ?: braid_compare(x->start_ns, y->start_ns) ?:
	       braid_compare(x, y);
}

static void find_windows(struct pass *p)
{
	const struct braid_source *source = p->s->source;
	size_t k;

	for (k = 0; k < source->nr_windows; k++)
		if (source->windows[k].host)
			p->windows[p->nr_windows++] = &source->windows[k];
	qsort(p->windows, p->nr_windows, sizeof(*p->windows), start_by_start);
}

/*
 * The recordings of which this start is: the first one's host says which kinds of events there are.
 */
static const struct braid_window *find_streams(struct pass *p, const struct braid_start *start)
{
	const struct braid_window *first = NULL, *w;

	p->part.nr_streams = 0;
	for (; p->window < p->nr_windows; p->window++) {
		w = p->windows[p->window];
		if (w->of > start->host || (w->of == start->host && w->start_ns > start->until_ns))
			break;
		if (w->of < start->host || w->start_ns < start->ns)
			continue;
		first = first ? first : w;
		p->part.streams[p->part.nr_streams++] = p->s->source->streams[w->host->number];
	}
	return first;
}

static int find_one(struct pass *p, u32 which)
{
	struct braid_states *s = p->s;
	const struct braid_window *first = find_streams(p, &s->starts[which]);
	int err;

	p->host = &s->hosts[s->starts[which].host];
	if (!first || !braid_stream_has_event(first->host, "sched_switch"))
		return 0;
	p->from_ns = s->starts[which].ns;
	p->to_ns = first->stop_ns;
	p->wakeups = braid_stream_has_event(first->host, "sched_wakeup");
	p->moves = braid_stream_has_event(first->host, "sched_migrate_task");
	p->entries = braid_stream_has_event(first->host, "kvm_entry");
	err = braid_states_silently(s->source, start_walk, p);
	return err ? err : start_hand_on(p, which);
}

int braid_start_find(struct braid_states *s)
{
	struct pass p = { .s = s, .part = *s->source };
	u32 k, cpus = 0;
	int err = 0;

	if (!s->nr_starts || !s->nr_vcpus || !s->threads.nr)
		return 0;
	p.vcpus = calloc(s->nr_vcpus, sizeof(*p.vcpus));
	p.seen = calloc(s->nr_vcpus, sizeof(*p.seen));
	for (k = 0; k < s->nr_hosts; k++)
		cpus = s->hosts[k].nr_cpus > cpus ? s->hosts[k].nr_cpus : cpus;
	p.cpus = calloc((size_t)cpus + 1, sizeof(*p.cpus));
	p.windows = calloc(s->source->nr_windows, sizeof(*p.windows));
	p.part.streams = calloc(s->source->nr_windows, sizeof(*p.part.streams));
	if (!p.vcpus || !p.seen || !p.cpus || !p.windows || !p.part.streams)
		err = braid_out_of_memory();
	if (!err)
		err = braid_format_open(&p.format, s->source);
	if (!err)
		find_windows(&p);
	for (k = 0; k < s->nr_starts && !err; k++)
		err = find_one(&p, k);
	braid_format_close(p.format);
	braid_roles_free(&p.roles);
	free(p.vcpus);
	free(p.seen);
	free(p.cpus);
	free(p.windows);
	free(p.part.streams);
	braid_source_rewind(s->source);
	return err;
}

/* The start ----------------------------------------------------------------------------------- */

int braid_start_apply(struct braid_states *s, u32 which)
{
	const struct braid_start *start = &s->starts[which];
	struct braid_host_state *host = &s->hosts[start->host];
	int err = 0;
	u32 k;

	host->seen.switches = true;	/* recorded, even if there was none */
	for (k = 0; k < start->nr_cpus; k++) {
		const struct braid_vcpu *v = braid_vcpu_of_thread(s, host, start->cpus[k].tid,
								  start->ns);
		struct braid_host_cpu *cpu = &host->cpus[start->cpus[k].cpu];

		if (s->went_on && cpu->known)
			continue;
		braid_list_touch_cpu(host, start->cpus[k].cpu);
		braid_cpu_settle(s, cpu, start->ns);
		cpu->known = true;
		cpu->tid = start->cpus[k].tid;
		cpu->call = BRAID_CALL_UNKNOWN;
		cpu->vcpu = v ? (u32)(v - s->vcpus) : BRAID_NO_VCPU;
	}
	for (k = 0; k < start->nr_vcpus; k++) {
		struct braid_vcpu *v = &s->vcpus[start->vcpus[k].vcpu];

		/* Of a guest that arrives there at this very time, that is not passed yet. */
		if (v->host != host || (s->went_on && v->thread != BRAID_THREAD_UNKNOWN))
			continue;
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
