// SPDX-License-Identifier: GPL-2.0-or-later
/* Captures of a busy host: a scheduler in small. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/busy_host.h"
#include "tests/unit/format_text.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/truth.h"

enum { WEB1 = 1, WEB2, HOST };
enum {
	SWITCH = 1, WAKEUP, MIGRATE, IRQ, IRQ_END, ENTRY, EXIT, USER, THROTTLE, THROTTLED,
	UNTHROTTLE,
};
enum { GUEST_SWITCH = 20, GUEST_WAKEUP };

#define CPUS		3u
#define THREADS		8u
#define PAGE_BYTES	4096u
#define EVENT_WORDS	6u
#define SLEEPS		1
#define PREEMPTED	0x100
#define HLT		0x78
#define SVM		2
#define CGROUP		77
#define LATE_TID	201
#define QUEUE		0xffff888000000000ULL

struct record {
	u32 head;
	struct braid_record common;
	s32 a, b;
	u64 c;
} __attribute__((__packed__));

/* A thread of the host. */
struct thread {
	s32 tid;
	u32 stream, vcpu;	/* BRAID_VCPU_NONE: a VMM's, or the recorder's; 0: nobody's */
	enum { ASLEEP, QUEUED, CURRENT } is;
	u32 cpu;
	enum { IN_USER, IN_KVM, IN_GUEST } in;
	u32 reason;
};

struct world {
	struct busy_host *b;
	struct braid_capture_writer *w;
	struct synth_guest guest;
	struct thread threads[THREADS];
	struct cpu {
		struct thread *current;	/* NULL: idle */
		bool irq, throttled;
		u64 first_ns, last_ns, lost;
		u32 bytes;
		u8 data[PAGE_BYTES - 16];
	} cpus[CPUS];
	u64 now;
	u32 waked;		/* task of the guest, that is woken on a vCPU + 1; 0: none */
	bool web1_ended;
	u32 nr_cpus;		/* that are used now */
	u32 nr_files;
	bool rests;		/* the sleeper */
};

static const struct thread first_threads[THREADS] = {
	{ .tid = 100, .stream = WEB1, .vcpu = 0 }, { .tid = 101, .stream = WEB1, .vcpu = 1 },
	{ .tid = 200, .stream = WEB2, .vcpu = 0 }, { .tid = 201, .stream = WEB2, .vcpu = 1 },
	{ .tid = 50 }, { .tid = 51 },
	{ .tid = 60, .stream = HOST, .vcpu = BRAID_VCPU_NONE },
	{ .tid = 70, .stream = WEB2, .vcpu = BRAID_VCPU_NONE },
};

/* Pages ------------------------------------------------------------------------------------- */

static void put_page(struct world *x, u32 number)
{
	struct cpu *cpu = &x->cpus[number];
	struct braid_chunk_host_page head = {
		.cpu = number, .bytes = PAGE_BYTES, .lost_before = cpu->lost,
	};
	static u8 page[PAGE_BYTES];
	u64 commit = cpu->bytes;

	if (!cpu->bytes)
		return;
	if (x->b->wild && !truth_below(x->b->wild))
		cpu->first_ns = truth_below(2) ? truth_random() :
						 cpu->first_ns + truth_below(1ULL << 40);
	memset(page, 0, sizeof(page));
	memcpy(page, &cpu->first_ns, 8);
	memcpy(page + 8, &commit, 8);
	memcpy(page + 16, cpu->data, cpu->bytes);
	NEED(!braid_capture_put(x->w, BRAID_CHUNK_HOST_PAGE, HOST, &head, sizeof(head), page,
				sizeof(page)));
	cpu->bytes = 0;
	cpu->lost = 0;
	if (x->b->lose && !truth_below(x->b->lose)) {
		cpu->lost = 1 + truth_below(3);
		x->b->host_lost += cpu->lost;
	}
}

static void event(struct world *x, u32 number, u16 id, s32 tid, struct record r)
{
	struct cpu *cpu = &x->cpus[number];

	if (cpu->bytes + sizeof(r) > sizeof(cpu->data))
		put_page(x, number);
	if (!cpu->bytes)
		cpu->first_ns = cpu->last_ns = x->now;
	r.head = EVENT_WORDS | (u32)(x->now - cpu->last_ns) << 5;
	r.common = (struct braid_record){ .common_type = id, .common_pid = tid };
	if (x->b->wild && !truth_below(x->b->wild))
		r.a = truth_below(2) ? truth_random() : truth_below(300);
	if (x->b->wild && !truth_below(x->b->wild))
		r.b = truth_below(2) ? truth_random() : truth_below(300);
	if (x->b->wild && !truth_below(x->b->wild))
		r.common.common_pid = truth_below(2) ? truth_random() : truth_below(300);
	memcpy(cpu->data + cpu->bytes, &r, sizeof(r));
	cpu->bytes += sizeof(r);
	cpu->last_ns = x->now++;
	x->b->host_events++;
}

/* The scheduler ------------------------------------------------------------------------------ */

static s32 tid_of(const struct thread *t)
{
	return t ? t->tid : 0;
}

static struct thread *queued_on(struct world *x, u32 cpu)
{
	u32 k, first = truth_below(THREADS);

	for (k = 0; k < THREADS; k++) {
		struct thread *t = &x->threads[(first + k) % THREADS];

		if (t->is == QUEUED && t->cpu == cpu &&
		    !(x->cpus[cpu].throttled && t->stream == WEB2 && t->vcpu != BRAID_VCPU_NONE))
			return t;
	}
	return NULL;
}

static void switch_from(struct world *x, u32 number, bool sleeps)
{
	struct cpu *cpu = &x->cpus[number];
	struct thread *prev = cpu->current, *next = queued_on(x, number);

	if (prev == next || (!next && !sleeps && prev))
		return;
	event(x, number, SWITCH, tid_of(prev), (struct record){
		.a = tid_of(prev), .b = tid_of(next), .c = sleeps ? SLEEPS : PREEMPTED,
	});
	if (prev)
		prev->is = sleeps ? ASLEEP : QUEUED;
	cpu->current = next;
	if (next)
		next->is = CURRENT;
}

static void wake_one(struct world *x, u32 by)
{
	struct thread *t = &x->threads[truth_below(THREADS)];

	if (t->is != ASLEEP || (t->tid == LATE_TID && x->rests))
		return;
	t->is = QUEUED;
	t->cpu = truth_below(x->nr_cpus);
	event(x, by, WAKEUP, tid_of(x->cpus[by].current),
	      (struct record){ .a = t->tid, .b = t->cpu });
}

static void move_one(struct world *x, u32 by)
{
	struct thread *t = &x->threads[truth_below(THREADS)];
	u32 from = t->cpu;

	if (t->is != QUEUED)
		return;
	t->cpu = truth_below(x->nr_cpus);
	if (!x->b->no_migrations)
		event(x, by, MIGRATE, tid_of(x->cpus[by].current),
		      (struct record){ .a = t->tid, .b = t->cpu, .c = from });
}

/* A run queue of web2's cgroup. */
static void throttle(struct world *x, u32 number)
{
	struct cpu *cpu = &x->cpus[number];
	s32 tid = tid_of(cpu->current);

	if (cpu->current && cpu->current->stream == WEB2)
		return;
	cpu->throttled = !cpu->throttled;
	if (!cpu->throttled) {
		event(x, number, UNTHROTTLE, tid, (struct record){ .c = QUEUE + number });
		return;
	}
	event(x, number, THROTTLE, tid,
	      (struct record){ .a = CGROUP, .b = number, .c = QUEUE + number });
	event(x, number, THROTTLED, tid, (struct record){ .a = 1 });
}

/* vCPUs -------------------------------------------------------------------------------------- */

/* Events of web1's tasks, by what runs there. */
static void guest_event(struct world *x, const struct thread *t)
{
	struct {
		struct braid_record common;
		s32 a, b;
		u64 c;
	} r = { .common = { .common_type = GUEST_WAKEUP, .common_pid = 0 }, .a = 33, .b = t->vcpu };

	if (t->stream != WEB1 || x->b->no_guest_events || x->web1_ended || truth_below(4))
		return;
	x->guest.now = x->now - x->guest.start_ns;
	if (x->waked && x->waked != t->vcpu + 1)
		return;
	if (x->waked) {
		r.common.common_type = GUEST_SWITCH;
		r.a = 0;
		r.b = 33;
		NEED(synth_event(&x->guest, t->vcpu, &r, sizeof(r)));
		x->now += 100;
		x->guest.now += 100;
		r.common.common_pid = r.a = 33;
		r.b = 0;
		r.c = SLEEPS;
		x->b->guest_events++;
	}
	NEED(synth_event(&x->guest, t->vcpu, &r, sizeof(r)));
	x->b->guest_events++;
	x->waked = x->waked ? 0 : t->vcpu + 1;
	x->now += 100;
}

static void vcpu_goes_on(struct world *x, u32 number, struct thread *t)
{
	static const u32 reasons[] = { HLT, 0x7c, 0x400, 0x60 };

	switch (t->in) {
	case IN_GUEST:
		guest_event(x, t);
		t->reason = reasons[truth_below(4)];
		t->in = IN_KVM;
		event(x, number, EXIT, t->tid,
		      (struct record){ .a = t->reason, .b = SVM, .c = 0x1000 });
		return;
	case IN_KVM:
		if (t->reason == HLT && truth_below(3)) {
			switch_from(x, number, true);
			return;
		}
		if (!truth_below(8)) {
			t->in = IN_USER;
			event(x, number, USER, t->tid, (struct record){ 0 });
			return;
		}
		/* fall through */
	default:
		t->in = IN_GUEST;
		event(x, number, ENTRY, t->tid, (struct record){ .a = t->vcpu });
		guest_event(x, t);
	}
}

static void step(struct world *x)
{
	u32 number = truth_below(x->nr_cpus);
	struct cpu *cpu = &x->cpus[number];
	struct thread *t = cpu->current;

	x->now += 1 + truth_below(truth_below(50) ? 20000 : 3000000);
	if (cpu->irq || !truth_below(20)) {
		cpu->irq = !cpu->irq;
		event(x, number, cpu->irq ? IRQ : IRQ_END, tid_of(t), (struct record){ .a = 9 });
		return;
	}
	if (!truth_below(40) && !x->b->late_web2)
		throttle(x, number);
	else if (!truth_below(4))
		wake_one(x, number);
	else if (!truth_below(12))
		move_one(x, number);
	else if (!t || (!truth_below(5) && t->in != IN_GUEST))
		switch_from(x, number, false);
	else if (t->stream && t->vcpu != BRAID_VCPU_NONE)
		vcpu_goes_on(x, number, t);
	else
		switch_from(x, number, truth_below(2));
}

/* The file ----------------------------------------------------------------------------------- */

static void put_format(struct braid_capture_writer *w, const char *system, u32 id, const char *name,
		       const char *fields)
{
	struct braid_chunk_text text = { .kind = BRAID_TEXT_FORMAT };
	char format[2048];
	int n = snprintf(format, sizeof(format), "name: %s\nID: %u\n" FORMAT_HEAD "%s" FORMAT_END, name,
			 id, fields);

	strcpy(text.name, system);
	NEED(!braid_capture_put(w, BRAID_CHUNK_TEXT, HOST, &text, sizeof(text), format, n));
}

#define FIELDS(a, b, c)								\
	FORMAT_FIELD(a, 8, 4, 1) FORMAT_FIELD(b, 12, 4, 1) FORMAT_FIELD(c, 16, 8, 0)

static void put_formats(struct braid_capture_writer *w)
{
	put_format(w, "sched", SWITCH, "sched_switch",
		   FIELDS("pid_t prev_pid", "pid_t next_pid", "long prev_state"));
	put_format(w, "sched", WAKEUP, "sched_wakeup", FIELDS("pid_t pid", "int target_cpu", "long x"));
	put_format(w, "sched", MIGRATE, "sched_migrate_task",
		   FIELDS("pid_t pid", "int dest_cpu", "long orig_cpu"));
	put_format(w, "irq", IRQ, "irq_handler_entry", FIELDS("int irq", "int x", "long y"));
	put_format(w, "irq", IRQ_END, "irq_handler_exit", FIELDS("int irq", "int x", "long y"));
	put_format(w, "kvm", ENTRY, "kvm_entry", FIELDS("unsigned int vcpu_id", "int x", "long y"));
	put_format(w, "kvm", EXIT, "kvm_exit", FIELDS("unsigned int exit_reason", "u32 isa",
						      "unsigned long guest_rip"));
	put_format(w, "kvm", USER, "kvm_userspace_exit", FIELDS("__u32 reason", "int x", "long y"));
	put_format(w, "tracebraid_quota_0", THROTTLE, "throttle",
		   FIELDS("u32 cgroup", "u32 cpu", "u64 queue"));
	put_format(w, "tracebraid_quota_0", THROTTLED, "throttled", FIELDS("int ret", "int x", "long y"));
	put_format(w, "tracebraid_quota_0", UNTHROTTLE, "unthrottle",
		   FIELDS("int x", "int throttled", "u64 queue"));
}

static void put_threads(struct world *x, u32 stream)
{
	u32 k;

	for (k = 0; k < THREADS; k++) {
		const struct thread *t = &x->threads[k];
		struct braid_vcpu_thread row = { .vcpu = t->vcpu, .tid = t->tid };

		if (t->stream == stream && (t->tid != LATE_TID || !x->b->late_thread))
			NEED(!braid_capture_put(x->w, BRAID_CHUNK_VCPU_THREADS, stream, &row,
						sizeof(row), NULL, 0));
	}
}

static void make_web1(struct world *x)
{
	const struct synth_guest_params params = {
		.name = "web1", .incarnation = 11, .boot = 1, .start_ns = SYNTH_START_NS,
		.nr_slots = 64, .subbuf_bytes = 4096,
	};

	synth_guest_init(&x->guest, &params);
}

static void put_web1(struct world *x)
{
	x->guest.now = x->now - SYNTH_START_NS;
	synth_begin(x->w, &x->guest, WEB1);
	synth_format(x->w, GUEST_SWITCH, "sched", "sched_switch", "name: sched_switch\nID: 20\n"
		     FORMAT_HEAD FIELDS("pid_t prev_pid", "pid_t next_pid", "long prev_state") FORMAT_END);
	synth_format(x->w, GUEST_WAKEUP, "sched", "sched_wakeup", "name: sched_wakeup\nID: 21\n"
		     FORMAT_HEAD FIELDS("pid_t pid", "int target_cpu", "long x") FORMAT_END);
	put_threads(x, WEB1);
}

static void put_web2(struct world *x)
{
	struct braid_chunk_stream head = {
		.kind = BRAID_STREAM_VM, .nr_cpus = 2, .host_ns = x->now,
	};
	struct braid_chunk_vm vm = { .pid = 4242, .start_ticks = 4711 };
	u32 k;

	snprintf(head.name, sizeof(head.name), "%s", x->b->web2 ?: "web2");
	NEED(!braid_capture_put(x->w, BRAID_CHUNK_STREAM, WEB2, &head, sizeof(head), &vm,
				sizeof(vm)));
	put_threads(x, WEB2);
	for (k = 0; k < 2; k++) {
		struct braid_cgroup row = { .id = CGROUP, .tid = 200 + k, .path = "machine/web2" };

		NEED(!braid_capture_put(x->w, BRAID_CHUNK_CGROUPS, WEB2, &row, sizeof(row), NULL,
					0));
	}
}

static void put_host(struct world *x)
{
	struct braid_chunk_stream head = {
		.kind = BRAID_STREAM_HOST, .nr_cpus = CPUS, .subbuf_bytes = PAGE_BYTES,
		.host_ns = x->now, .name = "host",
	};

	NEED(!braid_capture_put(x->w, BRAID_CHUNK_STREAM, HOST, &head, sizeof(head), NULL, 0));
	put_formats(x->w);
	put_threads(x, HOST);
}

static void put_edge_at(struct world *x, u32 edge, u64 ns, u32 after_ns)
{
	struct braid_chunk_window window = { .edge = edge, .host_ns = ns, .after_ns = after_ns };

	NEED(!braid_capture_put(x->w, BRAID_CHUNK_WINDOW, 0, &window, sizeof(window), NULL, 0));
}

static void put_edge(struct world *x, u32 edge)
{
	put_edge_at(x, edge, x->now++, 0);
}

static void put_mark(struct world *x)
{
	struct braid_chunk_complete complete = { .until_ns = x->now };
	u32 k;

	for (k = 0; k < CPUS; k++)
		put_page(x, k);
	x->guest.now = x->now - x->guest.start_ns;
	if (!x->web1_ended) {
		synth_drain(x->w, &x->guest, 0);
		synth_sample(x->w, &x->guest, 50, 50);
	}
	if (x->b->absurd && !truth_below(3))
		complete.until_ns = truth_random();
	NEED(!braid_capture_put(x->w, BRAID_CHUNK_COMPLETE, 0, &complete, sizeof(complete), NULL,
				0));
	NEED(!braid_capture_flush(x->w));
	NEED(x->b->nr_marks < BUSY_MARKS);
	x->b->marks[x->b->nr_marks++] = (struct braid_capture_mark){
		.bytes = braid_capture_bytes(x->w), .until_ns = x->now,
	};
}

static void put_middle(struct world *x)
{
	struct braid_vcpu_thread row = { .vcpu = 1, .tid = LATE_TID };

	x->nr_cpus = CPUS;
	if (x->b->late_web2 && !x->b->nr_next)
		put_web2(x);
	if (x->b->late_format)
		put_format(x->w, "sched", 3 * USER, "sched_pi_setprio",
			   FIELDS("pid_t pid", "int oldprio", "long newprio"));
	if (x->b->late_thread)
		NEED(!braid_capture_put(x->w, BRAID_CHUNK_VCPU_THREADS, WEB2, &row, sizeof(row),
					NULL, 0));
	if (!x->b->ends_web1)
		return;
	put_mark(x);
	synth_end(x->w, &x->guest, BRAID_END_GONE);
	x->web1_ended = true;
}

static void put_ends(struct world *x)
{
	struct braid_chunk_stream_end end = { .reason = BRAID_END_STOPPED, .host_ns = x->now };
	u32 k;

	if (!x->web1_ended)
		synth_end(x->w, &x->guest, BRAID_END_STOPPED);
	for (k = WEB2; k <= HOST; k++)
		NEED(!braid_capture_put(x->w, BRAID_CHUNK_STREAM_END, k, &end, sizeof(end), NULL,
					0));
}

static void step_on(struct world *x, u32 steps)
{
	while (steps--)
		step(x);
}

/* A file has what each source was read up to when it was left, and the next one the rest. */
static void put_next_file(struct world *x)
{
	u64 stop_ns;
	u32 k;

	/* A handler runs on beyond it. */
	if (!x->cpus[0].irq)
		event(x, 0, IRQ, tid_of(x->cpus[0].current), (struct record){ .a = 9 });
	x->cpus[0].irq = true;
	stop_ns = x->now;
	put_mark(x);
	x->now++;
	for (k = 0; k < CPUS; k++) {
		step_on(x, 20);
		put_page(x, k);
	}
	if (!x->web1_ended)
		synth_drain(x->w, &x->guest, 0);
	put_edge_at(x, BRAID_WINDOW_STOP, stop_ns, 0);
	put_ends(x);
	NEED(!braid_capture_finish(x->w));
	step_on(x, 20);
	x->w = synth_capture(x->b->next[x->nr_files++]);
	x->b->nr_marks = 0;
	put_edge_at(x, BRAID_WINDOW_START, x->now, x->now - stop_ns);
	x->now++;
	synth_next_file(&x->guest);
	/* In another order: streams and vCPUs have other numbers. */
	put_host(x);
	put_web2(x);
	if (!x->web1_ended)
		put_web1(x);
}

/* What happens up to the recording's end, or up to the next file's begin. */
static void run(struct world *x)
{
	u64 end_ns = x->now + x->b->for_ns / (x->b->nr_next + 1), mark_ns = x->now;
	u64 middle_ns = x->nr_files ? UINT64_MAX : x->now + (end_ns - x->now) / 2;

	for (; x->now < end_ns; step(x)) {
		if (x->now >= middle_ns) {
			put_middle(x);
			middle_ns = UINT64_MAX;
		}
		if (x->now < mark_ns)
			continue;
		put_mark(x);
		mark_ns = x->now + x->b->mark_ns;
	}
}

void busy_host(struct busy_host *b)
{
	struct world *x = calloc(1, sizeof(*x));

	NEED(x);
	memcpy(x->threads, first_threads, sizeof(x->threads));
	x->b = b;
	x->nr_cpus = b->late_cpu ? CPUS - 1 : CPUS;
	x->w = synth_capture(b->path);
	x->now = SYNTH_START_NS + b->from_ns;
	b->nr_marks = 0;
	b->host_events = b->host_lost = b->guest_events = 0;
	make_web1(x);
	put_web1(x);
	if (!b->late_web2)
		put_web2(x);
	put_host(x);
	while (x->now < SYNTH_START_NS + b->from_ns + 1000000)
		step(x);
	put_edge(x, BRAID_WINDOW_START);
	run(x);
	while (x->nr_files < b->nr_next) {
		x->rests = b->sleeper;
		put_next_file(x);
		run(x);
	}
	put_mark(x);
	if (!b->killed) {
		put_edge(x, BRAID_WINDOW_STOP);
		put_ends(x);
	}
	NEED(!braid_capture_finish(x->w));
	synth_guest_free(&x->guest);
	free(x);
}
