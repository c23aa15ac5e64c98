// SPDX-License-Identifier: GPL-2.0-or-later
/* Gathers all that tells of a guest's time while it is recorded. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock/counter.h"
#include "host_agent/clock/host.h"
#include "host_agent/source/region_private.h"
#include "host_agent/util/error.h"

#define TAKE_CROSSINGS	64
#define LOOK_PUT_NS	1000000000ULL	/* an ordinary look goes to the capture this often */
#define OFFSET_NS	1000000000ULL	/* KVM's offsets are read again */
#define PAIR_NS		1000000000ULL
#define FIRST_LIMIT_NS	400000000ULL	/* for the first burst, which bounds all events from below */
#define MAX_TOUR	64		/* vCPUs asked one by one when KVM does not tell how many there are */
#define STILL_NS	70000000ULL	/* a guest that runs looks more than three times meanwhile */
#define STEP_LEAST_NS	1000000		/* between two looks, beyond the counter's 2 % */

/* Crossings ---------------------------------------------------------------------------------- */

/* Puts crossings, those of one vCPU in a row by one chunk. */
static int put_crossings(struct braid_region_source *s, const struct braid_crossing *c, size_t nr)
{
	struct braid_clock_sample samples[TAKE_CROSSINGS];
	size_t from, to, k;
	int err = 0;

	for (from = 0; from < nr && !err; from = to) {
		struct braid_chunk_clock_vcpu head = { .vcpu = c[from].vcpu - 1 };

		for (to = from; to < nr && to - from < TAKE_CROSSINGS && c[to].vcpu == c[from].vcpu; to++)
			;
		for (k = from; k < to; k++)
			samples[k - from] = c[k].s;
		if (c[from].vcpu)
			err = braid_live_emit(s, BRAID_CHUNK_CLOCK_VCPU, &head, sizeof(head), samples,
					      (to - from) * sizeof(*samples));
		else
			err = braid_live_emit(s, BRAID_CHUNK_CLOCK, NULL, 0, samples,
					      (to - from) * sizeof(*samples));
	}
	return err;
}

/* Puts the crossings that came in. Returns 0 or the capture's error. */
static int put_new_crossings(struct braid_region_source *s)
{
	struct braid_crossing c[TAKE_CROSSINGS];
	size_t n = 0;

	if (s->clock.peer)
		n = braid_exchange_take(s->o.exchange, s->clock.peer, c, TAKE_CROSSINGS);
	return put_crossings(s, c, n);
}

/* The counter moved against the host's clock by more than it can: the bounds of two looks say so. */
static bool stepped(const struct braid_region_source *s, const struct braid_crossing *a,
		    const struct braid_crossing *b)
{
	struct braid_clock_map rate = { .mult = braid_clock_nominal_mult(s->sb.counter_hz) };
	s64 guest_ns = braid_clock_to_ns(&rate, b->s.counter - a->s.counter);
	s64 least_ns = (s64)(b->s.h1_ns - a->s.h2_ns), most_ns = (s64)(b->s.h2_ns - a->s.h1_ns);
	s64 may_ns = STEP_LEAST_NS + most_ns / 50;

	return rate.mult && a->vcpu == b->vcpu &&
	       (guest_ns < least_ns - may_ns || guest_ns > most_ns + may_ns);
}

/* Under the guard. The guest's last look as a crossing; false: nothing new. */
static bool load_look(struct braid_region_source *s, const struct braid_clock_cells *cells,
		      struct braid_crossing *c)
{
	u32 seq = braid_load_acquire(&cells->look_seq);			/* (K6) */

	if (!seq || seq & 1 || seq == s->clock.look_seq)
		return false;
	c->vcpu = braid_load(&cells->look_vcpu);
	c->s.h1_ns = braid_load(&cells->look_host_ns);
	c->s.counter = braid_load(&cells->look_counter);
	braid_fence();							/* (K6) */
	if (braid_load(&cells->look_seq) != seq)
		return false;
	c->s.h2_ns = braid_host_clock_ns();
	s->clock.look_seq = seq;
	/* A look at what a former agent told, or at nothing, is no crossing. */
	return c->vcpu && c->s.h1_ns >= s->clock.begin_ns && c->s.h1_ns <= c->s.h2_ns;
}

int braid_live_clock_look(struct braid_region_source *s)
{
	struct braid_clock_cells *cells =
		braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_CLOCK);
	struct braid_live_clock *clock = &s->clock;
	struct braid_crossing c, *last = &clock->look;
	bool moved = load_look(s, cells, &c), step;
	int err = 0;

	braid_store_release(&cells->host_ns, braid_host_clock_ns());	/* (K5) */
	if (!moved)
		return 0;
	step = clock->looked && stepped(s, last, &c);
	if (step && clock->put_ns != last->s.h2_ns)
		err = put_crossings(s, last, 1);
	if (!err && (step || c.s.h2_ns - clock->put_ns >= LOOK_PUT_NS)) {
		err = put_crossings(s, &c, 1);
		clock->put_ns = c.s.h2_ns;
	}
	*last = c;
	clock->looked = true;
	if (step && clock->peer)
		braid_exchange_soon(s->o.exchange, clock->peer, true);
	return err;
}

/* `clock` and reports cover a TSC that was unstable before the first pair. */
static int note_unstable(struct braid_region_source *s, bool first, u32 flags)
{
	u32 came = flags & ~s->clock.wall_flags;

	s->clock.wall_flags = flags;
	if (first || !(came & BRAID_WALL_TSC_UNSTABLE))
		return 0;
	return braid_live_note(s, "the guest's kernel has marked its TSC unstable; 'tracebraid clock' says whether the error bounds still hold");
}

int braid_live_clock_pair(struct braid_region_source *s, bool now)
{
	const struct braid_clock_cells *cells =
		braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_CLOCK);
	struct braid_clock_pair pair = { 0 };
	u64 now_ns = braid_host_clock_ns();
	bool first = !s->clock.wall_seq;
	u32 seq;
	int err;

	if (!now && now_ns < s->clock.pair_due_ns)
		return 0;
	seq = braid_load_acquire(&cells->wall_seq);			/* (K3) */
	if (!seq || seq & 1 || seq == s->clock.wall_seq)
		return 0;
	pair.source = braid_load(&cells->wall_source);
	pair.counter = braid_load(&cells->wall_counter);
	pair.realtime_ns = braid_load(&cells->wall_realtime_ns);
	pair.flags = braid_load(&cells->wall_flags);
	braid_fence();							/* (K3) */
	if (braid_load(&cells->wall_seq) != seq)
		return 0;	/* it was being renewed: the next turn takes it */
	s->clock.pair_due_ns = now_ns + PAIR_NS;
	s->clock.wall_seq = seq;
	err = braid_live_emit(s, BRAID_CHUNK_CLOCK_PAIR, NULL, 0, &pair, sizeof(pair));
	return err ? err : note_unstable(s, first, pair.flags);
}

/* KVM ------------------------------------------------------------------------------------------ */

static int put_offset(struct braid_region_source *s, const struct braid_clock_offset *o)
{
	s->clock.offsets[o->vcpu] = *o;
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

/* Some change was missed: what KVM tells from now on says nothing of what lies behind. */
static int lose_offsets(struct braid_region_source *s)
{
	struct braid_clock_offset o = { .ratio_bits = BRAID_OFFSET_LOST };
	int err = put_offset(s, &o);

	close_kvm(&s->clock);
	return err ? err : braid_live_note(s, "KVM changes its counters' offsets too often; its clock is measured instead");
}

/* What the tracepoint told since the last time: each change, to the counter's step. */
static int take_changes(struct braid_region_source *s)
{
	const struct braid_kvm_change *change;
	struct braid_clock_offset o;
	int err = 0;
	u32 k;

	if (braid_kvm_watch_missed(s->o.kvm_watch, s->clock.changes_taken))
		return lose_offsets(s);
	while (!err && (change = braid_kvm_watch_next(s->o.kvm_watch, &s->clock.changes_taken))) {
		if (!change->tid)
			return lose_offsets(s);
		for (k = 0; k < s->clock.nr_offsets; k++) {
			if (braid_kvm_thread(s->clock.vm, k) != change->tid)
				continue;
			o = s->clock.offsets[k];
			if (o.offset == change->offset || change->host_counter < o.from_counter)
				break;
			o.offset = change->offset;
			o.after_counter = o.from_counter = change->host_counter;
			err = put_offset(s, &o);
			if (!err && s->clock.peer)
				braid_exchange_soon(s->o.exchange, s->clock.peer, true);
			break;
		}
	}
	return err;
}

/* Reads all offsets. @last: tell those that are as they were, too: they held to the end. */
static int read_offsets(struct braid_region_source *s, bool last)
{
	struct braid_clock_offset o;
	u64 before, seen;
	int err = 0;
	u32 k;

	for (k = 0; k < s->clock.nr_offsets && !err; k++) {
		before = braid_host_counter();
		if (braid_kvm_offset(s->clock.vm, k, &o))
			continue;	/* its QEMU is ending */
		seen = s->clock.offset_seen[k];
		s->clock.offset_seen[k] = before;
		if (braid_offset_same(&o, &s->clock.offsets[k]) && seen && !last)
			continue;
		o.after_counter = seen;
		o.from_counter = braid_host_counter();
		err = put_offset(s, &o);
	}
	return err;
}

/* KVM is a help, not a need: a guest without it has the exchange. */
static int open_kvm(struct braid_region_source *s)
{
	struct braid_live_clock *clock = &s->clock;
	u32 nr;
	int err;

	if (s->sb.counter_type != BRAID_COUNTER_TSC || !s->qemu_pid || !braid_host_counter_name())
		return 0;
	err = braid_kvm_open(&clock->vm, s->qemu_pid);
	if (err) {
		if (err != -EACCES || clock->told_kvm)
			return 0;
		clock->told_kvm = true;
		return braid_live_note(s, "its exact clock can't be read from /sys/kernel/debug/kvm: run as root; it is measured instead");
	}
	nr = braid_kvm_vcpus(clock->vm);
	nr = nr < s->sb.nr_vcpus ? nr : s->sb.nr_vcpus;
	clock->offsets = calloc(nr, sizeof(*clock->offsets));
	clock->offset_seen = calloc(nr, sizeof(*clock->offset_seen));
	if (!clock->offsets || !clock->offset_seen) {
		close_kvm(clock);
		return braid_fail(-ENOMEM, "out of memory");
	}
	clock->nr_offsets = nr;
	while (braid_kvm_watch_next(s->o.kvm_watch, &clock->changes_taken))
		;	/* older than what is read now */
	return read_offsets(s, false);
}

/* Pauses --------------------------------------------------------------------------------------- */

static int put_mark(struct braid_region_source *s, u32 kind, u64 from_ns, u64 to_ns)
{
	struct braid_clock_mark mark = { .kind = kind, .from_ns = from_ns, .to_ns = to_ns };

	return braid_live_emit(s, BRAID_CHUNK_CLOCK_MARK, NULL, 0, &mark, sizeof(mark));
}

/* A guest that does not look, and none of whose vCPUs is in KVM, twice: it was paused. */
static int watch_pause(struct braid_region_source *s)
{
	struct braid_live_clock *clock = &s->clock;
	u64 now_ns = braid_host_clock_ns();
	bool still = clock->looked && now_ns - clock->look.s.h2_ns > STILL_NS;
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
		return put_mark(s, BRAID_MARK_PAUSED, clock->look.s.h1_ns, now_ns);
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
	err = put_mark(s, BRAID_MARK_RESUMED, clock->stood_ns, clock->look.s.h2_ns);
	if (clock->peer)
		braid_exchange_soon(s->o.exchange, clock->peer, true);
	return err;
}

/* Life ----------------------------------------------------------------------------------------- */

int braid_live_clock_begin(struct braid_region_source *s)
{
	struct braid_exchange_guest guest = {
		.base = s->mapping->base,
		.bytes = s->mapping->bytes,
		.cells = braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_CLOCK),
		.nr_vcpus = s->sb.nr_vcpus,
		.emulated = s->sb.counter_type == BRAID_COUNTER_TSC_EMULATED,
	};
	int err;

	s->clock.begin_ns = s->clock.put_ns = braid_host_clock_ns();
	if (s->sb.state != BRAID_STATE_LIVE)
		return 0;
	err = open_kvm(s);
	if (s->clock.vm)
		guest.nr_vcpus = s->clock.nr_offsets;
	else if (guest.nr_vcpus > MAX_TOUR)
		guest.nr_vcpus = MAX_TOUR;
	if (!err && s->o.exchange)
		err = braid_exchange_add(s->o.exchange, &guest, &s->clock.peer);
	return err;
}

int braid_live_clock_poll(struct braid_region_source *s, bool disarmed)
{
	u64 now_ns = braid_host_clock_ns();
	int err = put_new_crossings(s);

	/* The last event lies behind us: what crosses now bounds it from above. */
	if (disarmed && !s->clock.asked_last) {
		s->clock.asked_last = true;
		if (s->clock.peer && !s->silent)
			braid_exchange_soon(s->o.exchange, s->clock.peer, false);
	}
	if (err || !s->clock.vm)
		return err;
	err = take_changes(s);
	if (!err && s->clock.vm && now_ns >= s->clock.offset_due_ns) {
		s->clock.offset_due_ns = now_ns + OFFSET_NS;
		err = read_offsets(s, false);
	}
	return err || !s->clock.vm ? err : watch_pause(s);
}

bool braid_live_clock_idle(const struct braid_region_source *s)
{
	return !s->clock.peer || s->silent ||
	       (s->clock.asked_last && !braid_exchange_pending(s->o.exchange, s->clock.peer));
}

bool braid_live_clock_ready(const struct braid_region_source *s)
{
	return !s->clock.peer || braid_exchange_bursts(s->o.exchange, s->clock.peer) ||
	       braid_host_clock_ns() - s->clock.begin_ns > FIRST_LIMIT_NS;
}

int braid_live_clock_finish(struct braid_region_source *s)
{
	bool measured = s->clock.peer && braid_exchange_bursts(s->o.exchange, s->clock.peer);
	int err = put_new_crossings(s);

	/* Wide, but better than nothing. */
	if (!err && !measured && s->clock.looked && s->clock.put_ns != s->clock.look.s.h2_ns)
		err = put_crossings(s, &s->clock.look, 1);
	if (!err && s->clock.vm) {
		err = take_changes(s);
		if (!err && s->clock.vm)
			err = read_offsets(s, true);
	}
	return err;
}

void braid_live_clock_end(struct braid_region_source *s)
{
	braid_exchange_remove(s->o.exchange, s->clock.peer);
	close_kvm(&s->clock);
	s->clock = (struct braid_live_clock){ .told_kvm = s->clock.told_kvm };
}
