// SPDX-License-Identifier: GPL-2.0-or-later
/* Collects all clock data of a guest while it is recorded. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/live/clock.h"
#include "host_agent/util/error.h"

#define TAKE_ROUND_TRIPS	64
#define POLL_PUT_NS	1000000000ULL	/* interval of ordinary poll samples in the capture */
#define READ_PUT_NS	10000000000ULL	/* so long all of those that are the only samples */
#define OFFSET_NS	1000000000ULL	/* interval for reading KVM's offsets */
#define PAIR_NS		1000000000ULL
#define VMCLOCK_NS	10000000000ULL	/* interval in the capture, where only the time goes on */
#define FIRST_LIMIT_NS	400000000ULL	/* for the first burst, which bounds all events from below */
#define MAX_TOUR	64		/* vCPUs probed one by one when KVM does not report their
					   number */
#define STILL_NS	70000000ULL	/* a running guest polls more than three times meanwhile */
#define READ_STILL_NS	300000000ULL	/* likewise one that does not know of an agent */
#define STEP_LEAST_NS	1000000		/* between two poll samples, beyond the counter's 2 % */

/* Round-trip samples ------------------------------------------------------------------------- */

/* Puts round-trip samples, those of one vCPU in a row by one chunk. */
static int put_round_trips(struct braid_live_stream *s, const struct braid_round_trip *c,
			   size_t nr)
{
	struct braid_clock_sample samples[TAKE_ROUND_TRIPS];
	size_t from, to, k;
	int err = 0;

	for (from = 0; from < nr && !err; from = to) {
		struct braid_chunk_clock_vcpu head = {
			.vcpu = c[from].vcpu - 1,
			.flags = s->mapping->one_way ? BRAID_CLOCK_READ : 0,
		};

		for (to = from; to < nr && to - from < TAKE_ROUND_TRIPS &&
		     c[to].vcpu == c[from].vcpu; to++)
			;
		for (k = from; k < to; k++)
			samples[k - from] = c[k].s;
		if (c[from].vcpu)
			err = braid_live_emit(s, BRAID_CHUNK_CLOCK_VCPU, &head, sizeof(head),
					      samples, (to - from) * sizeof(*samples));
		else
			err = braid_live_emit(s, BRAID_CHUNK_CLOCK, NULL, 0, samples,
					      (to - from) * sizeof(*samples));
	}
	return err;
}

static int put_mark(struct braid_live_stream *s, u32 kind, u64 from_ns, u64 to_ns)
{
	struct braid_clock_mark mark = { .kind = kind, .from_ns = from_ns, .to_ns = to_ns };

	return braid_live_emit(s, BRAID_CHUNK_CLOCK_MARK, NULL, 0, &mark, sizeof(mark));
}

/* Writes the new samples. Returns 0 or the capture's error. */
static int put_new_round_trips(struct braid_live_clock *clock, struct braid_live_stream *s)
{
	struct braid_round_trip c[TAKE_ROUND_TRIPS];
	size_t n = 0;

	if (clock->peer)
		n = braid_exchange_take(s->o.exchange, clock->peer, c, TAKE_ROUND_TRIPS);
	return put_round_trips(s, c, n);
}

/*
 * The counter deviated from the host's clock by more than possible, by the bounds of two poll
 * samples.
 */
static bool stepped(const struct braid_live_stream *s, const struct braid_round_trip *a,
		    const struct braid_round_trip *b)
{
	struct braid_clock_map rate = { .mult = braid_clock_nominal_mult(s->sb.counter_hz) };
	s64 guest_ns = braid_clock_to_ns(&rate, b->s.counter - a->s.counter);
	s64 least_ns = (s64)(b->s.h1_ns - a->s.h2_ns), most_ns = (s64)(b->s.h2_ns - a->s.h1_ns);
	s64 may_ns = STEP_LEAST_NS + most_ns / 50;

	return rate.mult && a->vcpu == b->vcpu &&
	       (guest_ns < least_ns - may_ns || guest_ns > most_ns + may_ns);
}

/* Under the guard. The guest's last poll as a sample; false: none new. */
static bool load_poll(struct braid_live_clock *clock, const struct braid_clock_cells *cells,
		      struct braid_round_trip *c, u32 *flags, u64 *marker)
{
	struct braid_clock_cells now;
	u32 seq = braid_stable_copy(&now.poll_seq, &cells->poll_seq, BRAID_CACHELINE_BYTES,
				    clock->poll_seq);

	if (!seq)
		return false;
	c->vcpu = now.poll_vcpu;
	c->s.h1_ns = now.poll_host_ns;
	c->s.counter = now.poll_counter;
	*marker = now.poll_marker;
	*flags = now.poll_flags;
	c->s.h2_ns = braid_host_clock_ns();
	clock->poll_seq = seq;
	/* Memory that was restored from a snapshot holds an old poll, and perhaps an old host_ns. */
	if (clock->polled && c->s.h1_ns < clock->poll.s.h1_ns)
		return false;
	/* A poll of a value stored by a former agent, or of none, is not a sample. */
	return c->vcpu && c->s.h1_ns >= clock->begin_ns && c->s.h1_ns <= c->s.h2_ns;
}

/*
 * Whether vmclock's marker has changed since a former poll that had one. That poll and this one
 * show on which sides of the disruption they are, so both are put. Returns 1, 0, or the capture's
 * error.
 */
static int take_marker(struct braid_live_clock *clock, struct braid_live_stream *s,
		       const struct braid_round_trip *c, u64 marker)
{
	struct braid_live_vmclock *vm = &clock->vmclock;
	struct braid_round_trip former = vm->poll;
	u64 former_marker = vm->marker;
	bool changed = vm->marked && marker != former_marker;
	int err;

	vm->poll = *c;
	vm->marker = marker;
	vm->marked = true;
	if (!changed)
		return 0;
	vm->due_ns = clock->offset_due_ns = 0;
	err = put_mark(s, BRAID_MARK_DISRUPTED, former.s.h1_ns, c->s.h2_ns);
	if (!err)
		err = braid_live_note(s, "the hypervisor disrupted the guest's counter, as by a migration or a restored snapshot: vmclock's marker changed from %llu to %llu",
				      (unsigned long long)former_marker, (unsigned long long)marker);
	if (!err && clock->put_ns != former.s.h2_ns)
		err = put_round_trips(s, &former, 1);
	return err ? err : 1;
}

/* The first sample since a stream of the same incarnation: the guest may have been elsewhere. */
static int put_return(struct braid_live_clock *clock, struct braid_live_stream *s,
		      const struct braid_round_trip *c)
{
	int err = put_mark(s, BRAID_MARK_UNSEEN, clock->former.h1_ns, c->s.h2_ns);

	clock->put_ns = c->s.h2_ns;
	return err ? err : put_round_trips(s, c, 1);
}

/*
 * Without an exchange the best limits of all samples make the bound. All go to the capture at
 * first, then the narrowest of each interval.
 */
static int put_read(struct braid_live_clock *clock, struct braid_live_stream *s,
		    const struct braid_round_trip *c)
{
	u64 now_ns = c->s.h2_ns;
	int err = 0;

	if (now_ns - clock->begin_ns < READ_PUT_NS) {
		clock->put_ns = now_ns;
		return put_round_trips(s, c, 1);
	}
	if (!clock->narrow.vcpu || c->s.h2_ns - c->s.h1_ns <
				   clock->narrow.s.h2_ns - clock->narrow.s.h1_ns)
		clock->narrow = *c;
	if (now_ns - clock->put_ns >= POLL_PUT_NS) {
		clock->put_ns = now_ns;
		err = put_round_trips(s, &clock->narrow, 1);
		clock->narrow.vcpu = 0;
	}
	return err;
}

int braid_live_clock_take_poll(struct braid_live_clock *clock, struct braid_live_stream *s)
{
	struct braid_clock_cells *cells =
		braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_CLOCK);
	struct braid_round_trip c, *last = &clock->poll;
	u64 marker = 0;
	u32 flags = 0;
	bool moved = load_poll(clock, cells, &c, &flags, &marker), step;
	int disrupted = 0, err = 0;

	braid_store_release(&cells->host_ns, braid_host_clock_ns());	/* (K5) */
	if (!moved)
		return 0;
	if (flags & BRAID_POLL_MARKER)
		disrupted = take_marker(clock, s, &c, marker);
	if (disrupted < 0)
		return disrupted;
	step = disrupted || (clock->polled && stepped(s, last, &c));
	if (step && !disrupted && clock->put_ns != last->s.h2_ns)
		err = put_round_trips(s, last, 1);
	if (!err && s->mapping->one_way && !clock->polled &&
	    clock->former.incarnation == s->sb.incarnation) {
		err = put_return(clock, s, &c);
	} else if (!err && !step && s->mapping->one_way) {
		err = put_read(clock, s, &c);
	} else if (!err && (step || c.s.h2_ns - clock->put_ns >= POLL_PUT_NS)) {
		err = put_round_trips(s, &c, 1);
		clock->put_ns = c.s.h2_ns;
	}
	*last = c;
	clock->polled = true;
	if (step && clock->peer)
		braid_exchange_soon(s->o.exchange, clock->peer, true);
	return err;
}

/* Wall time, and the page of vmclock --------------------------------------------------------- */

/* Whether two pages differ in more than the time. */
static bool differs(const struct braid_clock_vm *a, const struct braid_clock_vm *b)
{
	return a->marker != b->marker || a->generation != b->generation || a->flags != b->flags ||
	       a->changes != b->changes || a->time_type != b->time_type || a->status != b->status;
}

/* Under the guard: puts what the page says, if that is new. @now: in any case. */
static int poll_vmclock(struct braid_live_vmclock *vm, struct braid_live_stream *s, bool now)
{
	const struct braid_clock_cells *cells =
		braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_CLOCK);
	struct braid_clock_cells cell;
	struct braid_clock_vm one = { .host_ns = braid_host_clock_ns() };
	u32 seq = braid_stable_copy(&cell.vm_seq, &cells->vm_seq, BRAID_CACHELINE_BYTES, vm->seq);

	if (!seq)
		return 0;	/* if it was being renewed, the next turn takes it */
	one.marker = cell.vm_marker;
	one.counter = cell.vm_counter;
	one.time_ns = cell.vm_time_ns;
	one.bound_ns = cell.vm_bound_ns;
	one.generation = cell.vm_generation;
	one.flags = cell.vm_flags;
	one.changes = cell.vm_changes;
	one.time_type = cell.vm_time_type;
	one.status = cell.vm_status;
	vm->seq = seq;
	if (!now && vm->taken && one.host_ns < vm->due_ns && !differs(&one, &vm->last))
		return 0;
	vm->taken = true;
	vm->due_ns = one.host_ns + VMCLOCK_NS;
	vm->last = one;
	return braid_live_emit(s, BRAID_CHUNK_CLOCK_VM, NULL, 0, &one, sizeof(one));
}

/* A TSC that was unstable before the first pair is reported by `clock` and by reports. */
static int note_unstable(struct braid_live_clock *clock, struct braid_live_stream *s, bool first,
			 u32 flags)
{
	u32 came = flags & ~clock->wall_flags;

	clock->wall_flags = flags;
	if (first || !(came & BRAID_WALL_TSC_UNSTABLE))
		return 0;
	return braid_live_note(s, "the guest's kernel has marked its TSC unstable; 'tracebraid clock' says whether the error bounds still hold");
}

int braid_live_clock_pair(struct braid_live_clock *clock, struct braid_live_stream *s, bool now)
{
	const struct braid_clock_cells *cells =
		braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_CLOCK);
	struct braid_clock_pair pair = { 0 };
	struct braid_clock_cells cell;
	u64 now_ns = braid_host_clock_ns();
	bool first = !clock->wall_seq;
	int err = poll_vmclock(&clock->vmclock, s, now);
	u32 seq;

	if (err || (!now && now_ns < clock->pair_due_ns))
		return err;
	seq = braid_stable_copy(&cell.wall_seq, &cells->wall_seq, BRAID_CACHELINE_BYTES,
				clock->wall_seq);
	if (!seq)
		return 0;	/* if it was being renewed, the next turn takes it */
	pair.source = cell.wall_source;
	pair.counter = cell.wall_counter;
	pair.realtime_ns = cell.wall_realtime_ns;
	pair.flags = cell.wall_flags;
	clock->pair_due_ns = now_ns + PAIR_NS;
	clock->wall_seq = seq;
	err = braid_live_emit(s, BRAID_CHUNK_CLOCK_PAIR, NULL, 0, &pair, sizeof(pair));
	return err ? err : note_unstable(clock, s, first, pair.flags);
}

/* KVM ------------------------------------------------------------------------------------------ */

static int put_offset(struct braid_live_clock *clock, struct braid_live_stream *s,
		      const struct braid_clock_offset *o)
{
	clock->offsets[o->vcpu] = *o;
	return braid_live_emit(s, BRAID_CHUNK_CLOCK_OFFSET, NULL, 0, o, sizeof(*o));
}

static void close_kvm(struct braid_live_clock *clock)
{
	braid_kvm_close(clock->vm);
	free(clock->offsets);
	free(clock->offset_seen);
	clock->vm = NULL;
	clock->offsets = NULL;
	clock->offset_seen = NULL;
	clock->nr_offsets = 0;
}

/* A change was missed: later offsets from KVM do not apply to earlier times. */
static int lose_offsets(struct braid_live_clock *clock, struct braid_live_stream *s)
{
	struct braid_clock_offset o = { .ratio_bits = BRAID_OFFSET_LOST };
	int err = put_offset(clock, s, &o);

	close_kvm(clock);
	return err ? err : braid_live_note(s, "KVM changes the counters' offsets too often; using the exchange instead");
}

/* The tracepoint's events since the last call: each change, exact to the counter's step. */
static int take_changes(struct braid_live_clock *clock, struct braid_live_stream *s)
{
	const struct braid_kvm_change *change;
	struct braid_clock_offset o;
	int err = 0;
	u32 k;

	if (braid_kvm_watch_missed(s->o.kvm_watch, clock->changes_taken))
		return lose_offsets(clock, s);
	while (!err && (change = braid_kvm_watch_next(s->o.kvm_watch, &clock->changes_taken))) {
		if (!change->tid)
			return lose_offsets(clock, s);
		for (k = 0; clock->vm && k < braid_kvm_vcpus(clock->vm); k++) {
			if (braid_kvm_thread(clock->vm, k) != change->tid)
				continue;
			clock->written_ns = braid_host_clock_ns();
			if (k >= clock->nr_offsets)
				break;
			o = clock->offsets[k];
			if (o.offset == change->offset || change->host_counter < o.from_counter)
				break;
			o.offset = change->offset;
			o.after_counter = o.from_counter = change->host_counter;
			err = put_offset(clock, s, &o);
			if (!err && clock->peer)
				braid_exchange_soon(s->o.exchange, clock->peer, true);
			break;
		}
	}
	return err;
}

/* Reads all offsets. @last: report unchanged ones too: they were valid to the end. */
static int read_offsets(struct braid_live_clock *clock, struct braid_live_stream *s, bool last)
{
	struct braid_clock_offset o;
	u64 before, seen;
	int err = 0;
	u32 k;

	for (k = 0; k < clock->nr_offsets && !err; k++) {
		before = braid_host_counter();
		if (braid_kvm_offset(clock->vm, k, &o))
			continue;	/* its QEMU is ending */
		seen = clock->offset_seen[k];
		clock->offset_seen[k] = before;
		if (braid_offset_same(&o, &clock->offsets[k]) && seen && !last)
			continue;
		o.after_counter = seen;
		o.from_counter = braid_host_counter();
		err = put_offset(clock, s, &o);
	}
	return err;
}

/* KVM is a help, not a need: a guest without it has the exchange. */
static int open_kvm(struct braid_live_clock *clock, struct braid_live_stream *s)
{
	u32 nr;
	int err;

	if (s->sb.counter_type != BRAID_COUNTER_TSC || !s->qemu_pid || !braid_host_counter_name())
		return 0;
	err = braid_kvm_open(&clock->vm, s->qemu_pid);
	if (err) {
		if (err != -EACCES || clock->reported_kvm)
			return 0;
		clock->reported_kvm = true;
		return braid_live_note(s, "KVM's clock offset cannot be read from /sys/kernel/debug/kvm; run as root; using the exchange instead");
	}
	nr = braid_kvm_vcpus(clock->vm);
	nr = nr < s->sb.nr_vcpus ? nr : s->sb.nr_vcpus;
	clock->offsets = calloc(nr, sizeof(*clock->offsets));
	clock->offset_seen = calloc(nr, sizeof(*clock->offset_seen));
	if (!clock->offsets || !clock->offset_seen) {
		close_kvm(clock);
		return braid_out_of_memory();
	}
	clock->nr_offsets = nr;
	while (braid_kvm_watch_next(s->o.kvm_watch, &clock->changes_taken))
		;	/* older than the value read now */
	clock->written_ns = braid_host_clock_ns();
	return read_offsets(clock, s, false);
}

bool braid_live_clock_unreset(struct braid_live_clock *clock, struct braid_live_stream *s)
{
	/* In this order: what a reset before the vCPU entered has written, the poll reads. */
	if (!clock->vm || !s->o.kvm_watch || !braid_kvm_enters(clock->vm) ||
	    !braid_kvm_watch_poll(s->o.kvm_watch))
		return false;
	return !take_changes(clock, s) && clock->vm;
}

/* Pauses --------------------------------------------------------------------------------------- */

/* A guest that does not poll, with no vCPU in KVM, twice in a row: it was paused. */
static int watch_pause(struct braid_live_clock *clock, struct braid_live_stream *s)
{
	u64 now_ns = braid_host_clock_ns();
	u64 limit_ns = s->mapping->one_way ? READ_STILL_NS : STILL_NS;
	bool still = clock->polled && now_ns - clock->poll.s.h2_ns > limit_ns;
	int err;

	if (still && !clock->paused) {
		if (!braid_kvm_stands(clock->vm)) {
			clock->stood = 0;
			return 0;
		}
		if (++clock->stood < 2)
			return 0;
		clock->paused = true;
		clock->stood_ns = now_ns;
		return put_mark(s, BRAID_MARK_PAUSED, clock->poll.s.h1_ns, now_ns);
	}
	if (!clock->paused)
		return 0;
	if (still) {
		if (braid_kvm_stands(clock->vm))
			clock->stood_ns = now_ns;
		return 0;
	}
	clock->paused = false;
	clock->stood = 0;
	err = put_mark(s, BRAID_MARK_RESUMED, clock->stood_ns, clock->poll.s.h2_ns);
	if (clock->peer)
		braid_exchange_soon(s->o.exchange, clock->peer, true);
	return err;
}

/* Life ----------------------------------------------------------------------------------------- */

int braid_live_clock_begin(struct braid_live_clock *clock, struct braid_live_stream *s)
{
	struct braid_exchange_guest guest = {
		.base = s->mapping->base,
		.bytes = s->mapping->bytes,
		.cells = braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_CLOCK),
		.nr_vcpus = s->sb.nr_vcpus,
		.emulated = s->sb.counter_type == BRAID_COUNTER_TSC_EMULATED,
	};
	int err;

	clock->begin_ns = clock->put_ns = braid_host_clock_ns();
	if (s->sb.state != BRAID_STATE_LIVE)
		return 0;
	err = open_kvm(clock, s);
	if (clock->vm)
		guest.nr_vcpus = clock->nr_offsets;
	else if (guest.nr_vcpus > MAX_TOUR)
		guest.nr_vcpus = MAX_TOUR;
	if (!err && s->o.exchange && !s->mapping->one_way)
		err = braid_exchange_add(s->o.exchange, &guest, &clock->peer);
	return err;
}

int braid_live_clock_poll(struct braid_live_clock *clock, struct braid_live_stream *s,
			  bool disarmed)
{
	u64 now_ns = braid_host_clock_ns();
	int err = put_new_round_trips(clock, s);

	/* The last event is in the past: a sample now bounds it from above. */
	if (disarmed && !clock->asked_last) {
		clock->asked_last = true;
		braid_live_clock_soon(clock, s);
	}
	if (err || !clock->vm)
		return err;
	err = take_changes(clock, s);
	if (!err && clock->vm && now_ns >= clock->offset_due_ns) {
		clock->offset_due_ns = now_ns + OFFSET_NS;
		err = read_offsets(clock, s, false);
	}
	return err || !clock->vm ? err : watch_pause(clock, s);
}

void braid_live_clock_soon(struct braid_live_clock *clock, struct braid_live_stream *s)
{
	if (clock->peer && !s->silent)
		braid_exchange_soon(s->o.exchange, clock->peer, false);
}

bool braid_live_clock_asked(const struct braid_live_clock *clock,
			    const struct braid_live_stream *s)
{
	return !clock->peer || s->silent || !braid_exchange_pending(s->o.exchange, clock->peer);
}

bool braid_live_clock_idle(const struct braid_live_clock *clock, const struct braid_live_stream *s)
{
	return !clock->peer || s->silent ||
	       (clock->asked_last && !braid_exchange_pending(s->o.exchange, clock->peer));
}

bool braid_live_clock_ready(const struct braid_live_clock *clock, const struct braid_live_stream *s)
{
	return !clock->peer || braid_exchange_bursts(s->o.exchange, clock->peer) ||
	       braid_host_clock_ns() - clock->begin_ns > FIRST_LIMIT_NS;
}

int braid_live_clock_finish(struct braid_live_clock *clock, struct braid_live_stream *s)
{
	bool measured = clock->peer && braid_exchange_bursts(s->o.exchange, clock->peer);
	int err = put_new_round_trips(clock, s);

	/* Wide, but better than nothing. */
	if (!err && !measured && clock->polled && clock->put_ns != clock->poll.s.h2_ns)
		err = put_round_trips(s, &clock->poll, 1);
	if (!err && clock->vm) {
		err = take_changes(clock, s);
		if (!err && clock->vm)
			err = read_offsets(clock, s, true);
	}
	return err;
}

void braid_live_clock_end(struct braid_live_clock *clock, struct braid_live_stream *s)
{
	braid_exchange_remove(s->o.exchange, clock->peer);
	close_kvm(clock);
	if (clock->polled) {
		clock->former.incarnation = s->sb.incarnation;
		clock->former.h1_ns = clock->poll.s.h1_ns;
	}
	*clock = (struct braid_live_clock){
		.reported_kvm = clock->reported_kvm, .former = clock->former,
	};
}
