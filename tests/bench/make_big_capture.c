// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Creates a large capture for benches and tests, always the same: two busy guests and their host.
 * Words add what not all captures have (enum scene).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/page.h"
#include "tests/bench/big_formats.h"
#include "tests/bench/big_streams.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"

#define DEFAULT_EVENTS	2400000ULL
#define NR_STREAMS	3u		/* at a time */
#define HOST		2u		/* index of its stream */
#define DATA_BYTES	(SUBBUF_BYTES - BRAID_SUBBUF_HEADER_BYTES)
#define STEP_NS		1000u		/* between two events of all streams, about */
#define SAMPLE_NS	20000000ULL	/* between two clock samples */
#define LOSE_PAGES	997u		/* events are lost once in so many pages ... */
#define LOSE_MANY	11u		/* ... or in so many */
#define LATER_NS	10000000000ULL
#define LATER_POSITION	(1u << 20)	/* of pages */
#define LATER_SEQ	(1u << 24)
#define AHEAD_NS	777000000000ULL	/* the second host's clock is, ... */
#define PPM		40.0		/* ... and faster */
#define CROSS_NS	1000000u	/* between two messages of hosts ... */
#define DELAY_NS	3000u		/* ... which take so long */

int main(int argc, char **argv);

static const char *const scenes[SCENES] = {
	"window", "later", "losses", "reset", "offline", "migrate", "rare", "bursts", "driverless",
	"quotas", "first", "second", "samples",
};

static struct stream streams[NR_STREAMS] = {
	{ .number = 1, .name = "guest1", .first_id = 300, .ppm = 17, .booted_ns = 900000000000ULL },
	{ .number = 2, .name = "guest2", .first_id = 410, .ppm = -9, .booted_ns = 950000000000ULL },
	{ .number = 3, .name = "host", .first_id = 520 },
};

static struct braid_capture_writer *w;
static u64 now = SYNTH_START_NS;
static u64 random_state = 88172645463325252ULL;

static u32 pick(u32 nr)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state >> 32) % nr;
}

/* The host's stream has ns; a guest's counter drifts. */
static u64 counter_of(const struct stream *s)
{
	unsigned __int128 product;

	if (s == &streams[HOST])
		return now;
	product = (unsigned __int128)(now - s->booted_ns) * COUNTER_KHZ * (1000000 + s->ppm);
	return (u64)(product / 1000000 / 1000000);
}

/* Pages ------------------------------------------------------------------------------------ */

static void put_guest_page(struct stream *s, struct cpu *c)
{
	struct braid_chunk_page page = {
		.vcpu = c->index, .flags = BRAID_PAGE_FINAL, .position = c->position++,
		.to_bytes = c->used, .time_stamp = c->stamp, .first_seq = c->first_seq,
		.lost_before = c->lost_before, .host_ns = now,
	};

	NEED(!braid_capture_put(w, BRAID_CHUNK_PAGE, s->number, &page, sizeof(page),
				c->page + BRAID_SUBBUF_HEADER_BYTES, c->used));
}

static void put_host_page(struct stream *s, struct cpu *c)
{
	struct braid_chunk_host_page page = {
		.cpu = c->index, .bytes = SUBBUF_BYTES, .lost_before = c->lost_before,
	};
	u64 commit = c->used;

	memcpy(c->page, &c->stamp, sizeof(c->stamp));
	memcpy(c->page + 8, &commit, sizeof(commit));
	memset(c->page + BRAID_SUBBUF_HEADER_BYTES + c->used, 0, DATA_BYTES - c->used);
	NEED(!braid_capture_put(w, BRAID_CHUNK_HOST_PAGE, s->number, &page, sizeof(page), c->page,
				SUBBUF_BYTES));
	c->position++;
}

static void put_page(struct stream *s, struct cpu *c)
{
	u32 pages;

	if (!c->used)
		return;
	if (s == &streams[HOST])
		put_host_page(s, c);
	else
		put_guest_page(s, c);
	c->used = 0;
	pages = scene[LOSSES] ? LOSE_MANY : LOSE_PAGES;
	c->lost_before = c->position % pages == pages - 1 ? 1 + pick(200) : 0;
	c->lost += c->lost_before;
	c->next_seq += c->lost_before;
}

/* ftrace's header: type_len:5, time_delta:27. Both formats have 27 bits for a delta. */
static void *put_header(const struct stream *s, u32 *at, u32 bytes, u32 delta)
{
	if (s != &streams[HOST])
		return braid_page_put_event(at, braid_event_bytes(bytes), delta);
	at[0] = bytes / 4 | delta << 5;
	return at + 1;
}

static void put_event(struct stream *s, struct cpu *c, enum big_event event, void *payload,
		      u32 bytes)
{
	u32 room = braid_event_bytes(bytes);
	u64 counter = counter_of(s), delta;
	struct braid_record *r = payload;
	void *at;

	if (c->used + room > DATA_BYTES)
		put_page(s, c);
	if (!c->used) {
		c->stamp = c->last = counter;
		c->first_seq = c->next_seq;
	}
	r->common_type = s->first_id + event;
	r->common_flags = c->irq ? 0x08 : 0;
	r->common_pid = c->task ? (s32)(FIRST_PID + c->task) : 0;
	at = c->page + BRAID_SUBBUF_HEADER_BYTES + c->used;
	delta = counter - c->last;
	NEED(!(bytes & 3) && !(delta >> BRAID_DELTA_BITS));
	at = put_header(s, at, bytes, delta);
	memcpy(at, payload, bytes);
	c->used = (u8 *)at + bytes - c->page - BRAID_SUBBUF_HEADER_BYTES;
	c->last = counter;
	c->next_seq++;
}

/* Events ----------------------------------------------------------------------------------- */

static u32 location(u32 offset, const char *text)
{
	return offset | ((u32)strlen(text) + 1) << 16;
}

/* The payload's bytes, followed by a text. */
static u32 end_with(char *to, const void *payload, const char *text)
{
	memset(to, 0, 16);
	memcpy(to, text, strlen(text));
	return (to - (const char *)payload + (u32)strlen(text) + 1 + 3) & ~3u;
}

static void put_switch(struct stream *s, struct cpu *c)
{
	static const u64 states[] = { 0, 1, 1, 1, 2, 0x100, 0x80 };
	struct big_switch e = {
		.prev_pid = c->task ? FIRST_PID + c->task : 0, .prev_prio = 120, .next_prio = 120,
		.prev_state = c->task ? states[pick(7)] : 0,
	};
	u32 next = pick(NR_TASKS - 1);

	next += next >= c->task;
	e.next_pid = next ? FIRST_PID + next : 0;
	snprintf(e.prev_comm, sizeof(e.prev_comm), "%s", names[c->task]);
	snprintf(e.next_comm, sizeof(e.next_comm), "%s", names[next]);
	put_event(s, c, BIG_SWITCH, &e, sizeof(e));
	c->task = next;
	c->syscall = -1;
	c->in_guest = false;
}

static void put_wakeup(struct stream *s, struct cpu *c)
{
	u32 task = 1 + pick(NR_TASKS - 1);
	struct big_wakeup e = { .pid = FIRST_PID + task, .prio = 120, .target_cpu = pick(NR_CPUS) };

	snprintf(e.comm, sizeof(e.comm), "%s", names[task]);
	put_event(s, c, BIG_WAKEUP, &e, sizeof(e));
}

static void put_migrate(struct stream *s, struct cpu *c)
{
	u32 task = 1 + pick(NR_TASKS - 1);
	struct big_migrate e = {
		.pid = FIRST_PID + task, .prio = 120,
		.orig_cpu = pick(NR_CPUS), .dest_cpu = pick(NR_CPUS),
	};

	snprintf(e.comm, sizeof(e.comm), "%s", names[task]);
	put_event(s, c, BIG_MIGRATE, &e, sizeof(e));
}

static void put_online(struct stream *s, struct cpu *c)
{
	struct big_online e = { .cpu = pick(NR_CPUS), .online = pick(2) };

	put_event(s, c, BIG_ONLINE, &e, sizeof(e));
}

static void put_runtime(struct stream *s, struct cpu *c)
{
	struct big_runtime e = {
		.comm_location = location(offsetof(struct big_runtime, comm), names[c->task]),
		.pid = c->task ? FIRST_PID + c->task : 0, .runtime = 1000 + pick(4000000),
	};

	put_event(s, c, BIG_RUNTIME, &e, end_with(e.comm, &e, names[c->task]));
}

static void put_irq(struct stream *s, struct cpu *c)
{
	static const char *const irqs[] = { "eth0", "nvme0q1", "virtio2-req.0", "i8042" };
	u32 k = pick(4);
	struct big_irq_entry e = {
		.irq = 24 + k,
		.name_location = location(offsetof(struct big_irq_entry, name), irqs[k]),
	};
	struct big_irq_exit x = { .irq = c->irq, .ret = pick(16) != 0 };

	if (c->irq) {
		put_event(s, c, BIG_IRQ_EXIT, &x, sizeof(x));
		c->irq = 0;
		return;
	}
	c->irq = e.irq;
	put_event(s, c, BIG_IRQ_ENTRY, &e, end_with(e.name, &e, irqs[k]));
}

static void put_softirq(struct stream *s, struct cpu *c)
{
	struct big_softirq e = { .vec = pick(10) };

	put_event(s, c, BIG_SOFTIRQ, &e, sizeof(e));
}

static void put_syscall(struct stream *s, struct cpu *c)
{
	struct big_sys_enter e = {
		.id = pick(330),
		.args = { pick(64), 0x7ffc00000000ULL + pick(1u << 30), pick(65536), 0, 0x8000,
			  pick(2) },
	};
	struct big_sys_exit x = { .id = c->syscall, .ret = pick(8) ? pick(65536) : -(u64)pick(40) };

	if (c->syscall >= 0)
		put_event(s, c, BIG_SYS_EXIT, &x, sizeof(x));
	else
		put_event(s, c, BIG_SYS_ENTER, &e, sizeof(e));
	c->syscall = c->syscall >= 0 ? -1 : (s64)e.id;
}

static void put_timer(struct stream *s, struct cpu *c)
{
	u64 timer = 0xffff888100000000ULL + pick(64) * 0x1c0;
	u64 function = function_address(pick(NR_FUNCTIONS));
	struct big_timer_start e = {
		.hrtimer = timer, .function = function, .expires = now - 899000000000ULL + 4000000,
		.softexpires = now - 899000000000ULL + 4000000, .mode = pick(4),
	};
	struct big_timer_expire x = {
		.hrtimer = timer, .function = function, .now = now - 899000000000ULL,
	};

	if (pick(2))
		put_event(s, c, BIG_TIMER_START, &e, sizeof(e));
	else
		put_event(s, c, BIG_TIMER_EXPIRE, &x, sizeof(x));
}

static void put_kvm(struct stream *s, struct cpu *c)
{
	static const u32 reasons[] = { 1, 12, 12, 30, 32, 32, 48, 49, 52, 56 };
	u64 rip = KERNEL_TEXT + pick(1u << 24);
	struct big_kvm_entry e = { .vcpu = c->index, .rip = rip };
	struct big_kvm_exit x = {
		.vcpu = c->index, .exit_reason = reasons[pick(10)], .guest_rip = rip, .isa = 1,
		.info1 = pick(4096), .intr_info = pick(4) ? 0 : 0x800000ec,
	};

	if (c->in_guest)
		put_event(s, c, BIG_KVM_EXIT, &x, sizeof(x));
	else
		put_event(s, c, BIG_KVM_ENTRY, &e, sizeof(e));
	c->in_guest = !c->in_guest;
}

/* Of a task's program, whose mapping is recorded after some samples; its path is markup. */
static void put_mapping(struct stream *s, struct cpu *c)
{
	struct big_mapping e = {
		.space = 1 + c->task, .start = 0x400000, .end = 0x500000, .id_bytes = 0,
	};
	char path[sizeof(e.path)];

	snprintf(path, sizeof(path), "/<i>/%.8s", names[c->task]);
	e.path_location = location(offsetof(struct big_mapping, path), path);
	strcpy(e.path, path);
	put_event(s, c, BIG_MAPPING, &e, sizeof(e));
}

static void put_sample(struct stream *s, struct cpu *c)
{
	u32 user = c->task && pick(2), nr = pick(BIG_FRAMES + 1), k;
	const u32 at = offsetof(struct big_sample, frames);
	u32 nr_user = c->task ? 1 + pick(BIG_FRAMES) : 0;
	struct big_sample e = {
		.user = user, .missed = pick(9) ? 0 : pick(3), .space = 1 + c->task,
		.ends = pick(4) ? 0 : 2,
	};

	nr = user ? 0 : nr;
	e.stack_location = at | nr * 8 << 16;
	e.user_location = (at + nr * 8) | nr_user * 8 << 16;
	for (k = 0; k < nr; k++)
		e.frames[k] = function_address(pick(NR_FUNCTIONS)) + 0x10;
	for (k = 0; k < nr_user; k++)
		e.frames[nr + k] = 0x400000 + pick(16) * 0x1000;
	e.ip = user ? e.frames[0] : function_address(pick(NR_FUNCTIONS)) + 4;
	put_event(s, c, BIG_SAMPLE, &e, at + (nr + nr_user) * 8);
}

static void put_stack(struct stream *s, struct cpu *c)
{
	struct big_stack e = { .size = 2 };

	e.callers[0] = KERNEL_TEXT + 0x100000 + pick(16) * 0x80 + 9;
	e.callers[1] = KERNEL_TEXT + 0x100000 + pick(4) * 0x80 + 9;
	e.callers[2] = ~0ULL;
	put_event(s, c, BIG_STACK, &e, sizeof(e));
}

/* Whether it was one of those. */
static bool put_sampled(struct stream *s, struct cpu *c)
{
	if (!scene[SAMPLES] || pick(10))
		return false;
	if (s == &streams[HOST])
		put_stack(s, c);
	else if (pick(8))
		put_sample(s, c);
	else
		put_mapping(s, c);
	return true;
}

/* The next event on a CPU, as likely as on a busy machine. */
static void put_any(struct stream *s, struct cpu *c)
{
	u32 choice;

	if (put_sampled(s, c))
		return;
	choice = pick(100);
	if (c->in_guest)
		put_kvm(s, c);
	else if (c->irq)
		choice < 30 ? put_softirq(s, c) : choice < 50 ? put_wakeup(s, c) : put_irq(s, c);
	else if (s == &streams[HOST] && choice < 45)
		put_kvm(s, c);
	else if (scene[OFFLINE] && s != &streams[HOST] && choice < 2)
		put_online(s, c);
	else if (scene[MIGRATE] && choice < 50)
		put_migrate(s, c);
	else if (choice < 55)
		put_syscall(s, c);
	else if (choice < 70)
		put_switch(s, c);
	else if (choice < 78)
		put_wakeup(s, c);
	else if (choice < 86)
		put_runtime(s, c);
	else if (choice < 95)
		put_timer(s, c);
	else
		put_irq(s, c);
}

/* Streams ---------------------------------------------------------------------------------- */

static void sample(struct stream *s)
{
	struct braid_clock_sample sample = {
		.h1_ns = now - 400 - pick(600), .counter = counter_of(s),
		.h2_ns = now + 300 + pick(500),
	};

	s->sampled_ns = now;
	NEED(!braid_capture_put(w, BRAID_CHUNK_CLOCK, s->number, NULL, 0, &sample, sizeof(sample)));
}

static u64 end_stream(struct stream *s, u32 reason)
{
	struct braid_chunk_stream_end end = { .reason = reason, .host_ns = now };
	u64 events = 0;
	u32 k;

	if (s != &streams[HOST] && !s->vm)
		sample(s);
	for (k = 0; k < NR_CPUS && !s->vm; k++) {
		struct cpu *c = &s->cpus[k];
		struct braid_chunk_ring_end ring = { .vcpu = k };

		put_page(s, c);
		c->lost -= c->lost_before;	/* no later page would report them */
		c->next_seq -= c->lost_before;
		ring.first_seq = scene[LATER] ? LATER_SEQ : 0;
		ring.written = c->next_seq;
		ring.lost = c->lost;
		ring.read = c->next_seq - c->lost;
		ring.read_before = ring.before = ring.first_seq;
		ring.lost_within = c->lost;
		events += ring.read - ring.read_before;
		NEED(!braid_capture_put(w, BRAID_CHUNK_RING_END, s->number, &ring, sizeof(ring),
					NULL, 0));
	}
	NEED(!braid_capture_put(w, BRAID_CHUNK_STREAM_END, s->number, &end, sizeof(end), NULL, 0));
	return events;
}

/* The first host's time at one of the second's. */
static u64 first_ns(u64 ns)
{
	return SYNTH_START_NS + (u64)((double)(ns - SYNTH_START_NS - AHEAD_NS) / (1 + PPM / 1e6));
}

/* The second host sends a message, and gets one. */
static void cross(void)
{
	static u64 crossed_ns;
	const struct braid_peer_crossing c[2] = {
		{ .flags = BRAID_CROSSING_TO, .own_ns = now, .peer_ns = first_ns(now + DELAY_NS) },
		{ .own_ns = now, .peer_ns = first_ns(now - DELAY_NS) },
	};

	if (!scene[SECOND] || now - crossed_ns < CROSS_NS)
		return;
	crossed_ns = now;
	synth_peer(w, 1, c, 2);
}

static struct braid_capture_writer *create(const char *path)
{
	if (scene[SECOND]) {
		now += AHEAD_NS;
		random_state = 0x9e3779b97f4a7c15ULL;
		return synth_capture_of(path, "beta", 2, now);
	}
	return scene[FIRST] ? synth_capture_of(path, "alpha", 1, now) : synth_capture(path);
}

static void put_edge(u32 edge)
{
	struct braid_chunk_window window = { .edge = edge, .host_ns = now };

	if (scene[WINDOW])
		NEED(!braid_capture_put(w, BRAID_CHUNK_WINDOW, 0, &window, sizeof(window),
					NULL, 0));
}

static void begin_stream(struct stream *s)
{
	u32 c;

	for (c = 0; c < NR_CPUS; c++) {
		s->cpus[c] = (struct cpu){ .index = c, .syscall = -1 };
		if (!scene[LATER])
			continue;
		s->cpus[c].position = LATER_POSITION;
		s->cpus[c].next_seq = LATER_SEQ;
	}
	if (s == &streams[HOST]) {
		begin_host(w, s, now);
	} else if (s->vm) {
		begin_vm(w, s, now);
		return;
	} else {
		begin_guest(w, s, now);
		sample(s);
	}
	put_comms(w, s);
}

static void begin(void)
{
	u32 k;

	now += scene[LATER] ? LATER_NS : 0;
	synth_host_clock(w, BRAID_HOST_CLOCK_REALTIME, "realtime",
			 1700000000000000000ULL - SYNTH_START_NS);
	put_edge(BRAID_WINDOW_START);
	for (k = 0; k < NR_STREAMS; k++) {
		streams[k].vm = scene[DRIVERLESS] && k != HOST;
		begin_stream(&streams[k]);
	}
	if (!scene[DRIVERLESS])
		synth_accounts(w);
}

/* A guest's driver is loaded. */
static void load(struct stream *s)
{
	end_stream(s, BRAID_END_DRIVER);
	s->vm = false;
	s->number = NR_STREAMS + 1;
	begin_stream(s);
}

/* The next boot, whose driver begins after a while. */
static u64 reset(struct stream *s)
{
	u64 events = end_stream(s, BRAID_END_REINIT);

	s->number = NR_STREAMS + 1;
	s->booted_ns = now;
	begin_stream(s);
	return events;
}

/* Whether an event is one of those few; *s: those of a burst are of one stream. */
static bool is_rare(struct stream **s, u64 event)
{
	if (scene[BURSTS] && event % 50000 < 50) {
		*s = &streams[1];
		return true;
	}
	return scene[RARE] && !pick(1000);
}

static void take_words(int nr, char **words)
{
	u32 k;

	for (; nr--; words++) {
		for (k = 0; k < SCENES && strcmp(*words, scenes[k]); k++)
			;
		NEED(k < SCENES);
		scene[k] = true;
	}
}

int main(int argc, char **argv)
{
	u64 events = argc > 2 ? strtoull(argv[2], NULL, 0) : DEFAULT_EVENTS, written = 0, k;

	if (argc < 2 || !events) {
		fprintf(stderr, "make_big_capture OUT [EVENTS [WORD...]]\n");
		return EXIT_FAILURE;
	}
	take_words(argc > 3 ? argc - 3 : 0, argv + 3);
	w = create(argv[1]);
	begin();
	for (k = 0; k < events; k++) {
		struct stream *s = &streams[pick(NR_STREAMS)];

		now += 1 + pick(2 * STEP_NS);
		cross();
		if (scene[RESET] && k == events / 2)
			written += reset(&streams[0]);
		if (scene[DRIVERLESS] && k == events / 2)
			load(&streams[0]);
		if (s->vm)
			s = &streams[HOST];
		if (s != &streams[HOST] && now - s->sampled_ns > SAMPLE_NS)
			sample(s);
		if (is_rare(&s, k))
			put_migrate(s, &s->cpus[scene[RARE] ? pick(NR_CPUS) : 0]);
		else
			put_any(s, &s->cpus[pick(NR_CPUS)]);
	}
	for (k = 0; k < NR_STREAMS; k++)
		written += end_stream(&streams[k], BRAID_END_STOPPED);
	put_edge(BRAID_WINDOW_STOP);
	NEED(!braid_capture_finish(w) && written == events);
	return EXIT_SUCCESS;
}
