/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A stream's time: counters become host times with a bound, epoch by epoch.
 *
 * Invariants:
 * - The room reads no file and no clock, and keeps no state: results depend on the arguments only. Errors are
 *   -ENODATA and -ENOMEM, without braid_fail().
 * - In this room only braid_clock_free() changes a clock that was built, so any thread may convert by it. It has no
 *   pointer into its inputs, except to ->host.
 * - The true time is within ns +- bound_ns if the samples are true and the model's assumptions hold (docs/clock.md).
 *   Where neither limits the error, the bound is BRAID_BOUND_UNKNOWN.
 * - Nothing is interpolated across the start of an epoch. Where two epochs match a value, the bound covers both.
 * - Impossible samples are left out and counted. If a line's corners or epochs are too many, bounds become larger or
 *   unknown, never smaller.
 * - A conversion allocates nothing, and tries at most BRAID_MAX_EPOCHS models (model.h).
 */
#ifndef BRAID_CLOCK_MODEL_TIMELINE_H
#define BRAID_CLOCK_MODEL_TIMELINE_H

#include <stddef.h>
#include <sys/types.h>

#include "host_agent/capture/chunk.h"
#include "shared/clock.h"

#define BRAID_BOUND_UNKNOWN	(~0ULL)	/* in place of a bound in ns */
#define BRAID_TAKEN_UNKNOWN	(~0ULL)	/* in place of the host time at which an event was taken */

/* How a stream's times become host times; the first that can be had is the best. */
enum braid_clock_kind {
	BRAID_CLOCK_HOST = 0,		/* they are host times */
	BRAID_CLOCK_KVM = 1,		/* by KVM's offset */
	BRAID_CLOCK_EXCHANGE = 2,	/* by values that crossed the region */
	BRAID_CLOCK_PAIRS = 3,		/* by wall times in the stream */
	BRAID_CLOCK_NOMINAL = 4,	/* by the frequency stated by the guest; bound unknown */
	BRAID_CLOCK_WINDOWS = 5,	/* by the exchange, and by kvm_entry and kvm_exit */
	BRAID_CLOCK_READS = 6,		/* by what looks at the guest's memory show */
	BRAID_CLOCK_TRACE_CMD = 7,	/* by trace-cmd's file; there is no model of it */
	BRAID_CLOCK_PEER = 8,		/* of another host: by what crossed between both */
	BRAID_CLOCK_KINDS
};

/** braid_clock_latest - the latest moment that a time can stand for; saturated */
static inline s64 braid_clock_latest(s64 ns, u64 bound_ns)
{
	s64 sum;

	return bound_ns == BRAID_BOUND_UNKNOWN ||
	       __builtin_add_overflow(ns, (s64)bound_ns, &sum) ? INT64_MAX : sum;
}

/** braid_clock_earliest - likewise the earliest */
static inline s64 braid_clock_earliest(s64 ns, u64 bound_ns)
{
	s64 difference;

	return bound_ns == BRAID_BOUND_UNKNOWN ||
	       __builtin_sub_overflow(ns, (s64)bound_ns, &difference) ? INT64_MIN : difference;
}

/**
 * braid_clock_kind_name - "host", "kvm", "exchange", "pairs", "nominal", "windows", "reads",
 * "trace-cmd"
 */
const char *braid_clock_kind_name(enum braid_clock_kind kind);

/* A value that crossed the region: h1 <= host time of counter <= h2. */
struct braid_round_trip {
	struct braid_clock_sample s;
	u32 vcpu;			/* vCPU of the counter; + 1, 0: unknown */
	u32 era;			/* breaks before it; set by braid_breaks_part() */
};

struct braid_clock_line;
struct braid_clock_model;
struct braid_clock;

/* A sample's constraint on an emulated counter, in its steps. */
struct braid_clock_gain {
	u64 counter;
	s64 low;		/* from here on it has gained at least this ... */
	s64 high;		/* ... and up to here at most this */
};

/* A moment at which a slewed clock was seen. */
struct braid_clock_breakpoint {
	u64 value;			/* of that clock, in ns */
	s64 ns;				/* host time ... */
	u64 error_ns;			/* ... to within this */
	u64 bend_ns;			/* up to the next it is off the straight line by no more */
};

/* Whether two offsets are one model. */
static inline bool braid_offset_same(const struct braid_clock_offset *a,
				     const struct braid_clock_offset *b)
{
	return a->offset == b->offset && a->ratio_bits == b->ratio_bits && a->ratio == b->ratio;
}

/* Why an epoch began. */
enum braid_epoch_cause {
	BRAID_EPOCH_FIRST = 0,
	BRAID_EPOCH_STOOD_STILL,	/* the counter, for a while: a pause, or a step back of its offset */
	BRAID_EPOCH_JUMPED,		/* ahead */
	BRAID_EPOCH_WENT_BACK,		/* the counter itself: a reset, a restore, a migration */
	BRAID_EPOCH_RATE,		/* it runs at another rate, or not evenly */
	BRAID_EPOCH_OFFSET,		/* KVM's offset was changed */
	BRAID_EPOCH_PAUSED,		/* the guest was paused and resumed */
	BRAID_EPOCH_DISRUPTED,		/* the hypervisor says so, and no step shows */
	BRAID_EPOCH_UNSEEN,		/* no samples for a time, in which a step may be hidden */
};

/** braid_epoch_cause_name - "the guest was paused", ...; FIRST: "" */
const char *braid_epoch_cause_name(enum braid_epoch_cause cause);

/*
 * A period of a stream in which one model gives host times. It began between from_ns and begun_ns
 * of host time, where the previous one ended.
 */
struct braid_clock_epoch {
	const struct braid_clock_model *model;	/* which of the models below it has */
	enum braid_epoch_cause cause;
	bool disrupted;			/* the hypervisor says so (vmclock), whatever the cause */
	bool parted;			/* each sample is known to be of it, or of another epoch */
	s64 from_ns;			/* the first epoch: INT64_MIN, as begun_ns */
	s64 begun_ns;
	s64 step_ns;			/* host time gained on the model before; 0: not known */

	/* Of a line: it, and the corners of the set of lines that explain all samples. */
	struct braid_clock_map map;
	u64 ref_counter;		/* what the lines' slopes are relative to ... */
	s64 ref_nominal_ns;		/* ... and what the nominal line says of it */
	u64 first_counter;		/* covered by samples: from ... */
	u64 last_counter;		/* ... to */
	s64 base_ns;			/* what the lines' offsets are relative to */
	u32 nr_samples;
	u32 slack_ns;			/* maximum deviation from a line; part of every bound */
	u32 nr_lines;
	struct braid_clock_line *lines;
	double drift_ppm;		/* of the counter against its nominal frequency */
	u64 shortest_ns;		/* of its round-trip samples */

	/* The model of KVM: by the host's counter. */
	const struct braid_clock *host;	/* NULL: the model of a fit */
	struct braid_clock_offset offset;

	/* The model of an emulated counter: the same, plus its drift. */
	struct braid_clock_gain *gains;	/* by counter; NULL: another model */
	size_t nr_gains;
	u64 most_gain;			/* from one to the next */
	ssize_t first_narrow, last_narrow;	/* of gains; all are wide: -1 and ->nr_gains */

	/* The model of a slewed clock, or another host's: straight lines between breakpoints. */
	struct braid_clock_breakpoint *breakpoints;	/* NULL: another model */
	size_t nr_breakpoints;
	double edge_rate;		/* before and after them it runs fast or slow by no more;
					   0: not known */
};

/* The epochs of one vCPU, or of all. */
struct braid_clock_track {
	struct braid_clock_epoch *epochs;	/* in order of host time; at least one */
	size_t nr_epochs;
	size_t capacity;
	bool shared;				/* the epochs belong to another track of the clock */
};

struct braid_clock {
	enum braid_clock_kind kind;
	char reason[160];		/* why this kind and no better one */
	struct braid_clock_map nominal;	/* reference of all residuals */
	struct braid_clock_track *tracks;	/* 1: of all vCPUs; or one for each */
	u32 nr_tracks;			/* 0: HOST */
	u64 init_counter;		/* no event of the first epoch is older; 0: not known */
	u32 nr_samples;			/* used */
	u32 nr_refused;			/* impossible in themselves: h2 before h1 */
	bool jittery;			/* an emulated counter */
};

/* The clock data of a stream. */
struct braid_clock_inputs {
	u64 counter_hz;			/* as stated; any */
	u32 counter_type;		/* enum braid_counter_type */
	u32 nr_vcpus;
	u64 init_counter;		/* when the stream began; 0: not known */
	bool reads;			/* its samples are of a guest that is only read */
	const struct braid_round_trip *round_trips;	/* by era, then h1 */
	size_t nr_round_trips;
	const struct braid_clock_mark *marks;	/* by time */
	size_t nr_marks;
	const struct braid_clock_mark *breaks;	/* by time, apart from each other */
	size_t nr_breaks;
	const struct braid_clock_offset *offsets;	/* of each vCPU, in the order seen */
	size_t nr_offsets;
	const struct braid_clock *host;		/* of the host's counter; must outlive the clock; or NULL */
};

/** braid_clock_sampled - the kind of a clock that is made of samples alone */
static inline enum braid_clock_kind braid_clock_sampled(const struct braid_clock_inputs *in)
{
	return in->reads ? BRAID_CLOCK_READS : BRAID_CLOCK_EXCHANGE;
}

/**
 * braid_breaks_merge - sort breaks, and make one of those that overlap
 * @breaks: as found; impossible ones are removed
 * @nr: how many
 *
 * Return: how many there are then.
 */
size_t braid_breaks_merge(struct braid_clock_mark *breaks, size_t nr);

/**
 * braid_breaks_part - sort samples by era, then h1, and remove those of an unknown era
 * @samples: in any order
 * @nr: how many
 * @breaks: from braid_breaks_merge()
 * @nr_breaks: how many
 *
 * The two samples that a break was found by are of the eras before and after it.
 * Return: how many samples are left.
 */
size_t braid_breaks_part(struct braid_round_trip *samples, size_t nr,
			 const struct braid_clock_mark *breaks, size_t nr_breaks);

/**
 * braid_clock_fit - build a clock from samples alone
 * @clock: filled on success; braid_clock_free() it
 * @in: the clock data
 *
 * A counter within 2 % of its stated frequency is followed. Where no line explains all samples, the
 * counter may be off a line by some ns (at most 512, the least that suffices; more for an emulated
 * one); a sample that still does not fit begins a new epoch, and so does a pause or a break. When
 * vCPUs contradict each other, each gets its own track.
 *
 * Return: 0, -ENODATA when there is no usable sample, or -ENOMEM.
 */
int braid_clock_fit(struct braid_clock *clock, const struct braid_clock_inputs *in);

/**
 * braid_clock_by_offset - build a clock from KVM's offsets
 * @clock: filled on success; braid_clock_free() it
 * @in: the clock data
 *
 * Return: 0, or -ENODATA with clock->reason (no offsets, no map of the host's counter),
 * or -ENOMEM.
 */
int braid_clock_by_offset(struct braid_clock *clock, const struct braid_clock_inputs *in);

/**
 * braid_clock_slewed - build a clock for ns that are adjusted while running, as by NTP
 * @clock: filled on success; braid_clock_free() it
 * @in: its samples, of one vCPU
 *
 * Between two samples it is straight except for the curvature that nearby rates allow; before the
 * first and after the last, and in long gaps, it may run as fast or slow as the kernel allows. Only
 * a step begins an epoch.
 *
 * Return: 0, -ENODATA when there is no usable sample, or -ENOMEM.
 */
int braid_clock_slewed(struct braid_clock *clock, const struct braid_clock_inputs *in);

/* What crossed between two hosts: one inequality. */
struct braid_clock_crossing {
	u64 value;			/* of the clock, in ns, when it was sent or received */
	s64 ns;				/* of the timeline's host, when it was received or sent */
	bool later;			/* value's moment is not before ns's; else not after */
};

#define BRAID_WANDER_DEFAULT	30000	/* ns in a second */

/**
 * braid_clock_wander - build the clock of another host, by what crossed between the two
 * @clock: filled on success; braid_clock_free() it
 * @crossings: in any order; sorted
 * @nr: how many
 * @wander: ns in a second: within 20 s of a moment the clock's rate differs by no more from a
 *	constant. The bound holds if this does
 *
 * No crossing for 20 s begins an epoch; nothing is known later than 10 s after one.
 *
 * Return: 0; -ENODATA with clock->reason: they do not limit the clock on both sides; -EBADMSG with
 * clock->reason: they contradict each other; or -ENOMEM.
 */
int braid_clock_wander(struct braid_clock *clock, struct braid_clock_crossing *crossings, size_t nr,
		       double wander);

/** braid_clock_name_slewed - whether the host's clock of that name is adjusted under way, as by NTP */
bool braid_clock_name_slewed(const char *name);

/**
 * braid_clock_nominal - build a clock from a frequency alone
 * @clock: filled on success; braid_clock_free() it
 * @counter_hz: as stated; any
 * @counter: some counter value ...
 * @ns: ... and its assumed host time
 *
 * Return: 0 or -ENOMEM.
 */
int braid_clock_nominal(struct braid_clock *clock, u64 counter_hz, u64 counter, s64 ns);

/**
 * braid_clock_choose - choose the best clock of KVM's and the exchange's
 * @clock: filled on success, with the reason; braid_clock_free() it
 * @in: the clock data
 * @wanted: only this kind; BRAID_CLOCK_KINDS: the best
 *
 * KVM's offset is used only when every sample agrees with it.
 *
 * Return: 0, -ENODATA with clock->reason when neither is available, or -ENOMEM.
 */
int braid_clock_choose(struct braid_clock *clock, const struct braid_clock_inputs *in,
		       enum braid_clock_kind wanted);

/**
 * braid_clock_worst_bound - the largest bound in the time that a clock covers
 * @clock: any
 * @end_ns: host time up to which there are events; 0: the last sample's
 *
 * Where two epochs match, an event's own bound may be larger.
 *
 * Return: ns, or BRAID_BOUND_UNKNOWN.
 */
u64 braid_clock_worst_bound(const struct braid_clock *clock, u64 end_ns);

/* How well a clock agrees with what crossed the region. */
struct braid_clock_check {
	u64 round_trips;
	u64 violations;		/* the clock's time, bound included, is outside */
	u64 shortest_ns;	/* h2 - h1 */
};

/**
 * braid_clock_check - check a clock against samples; only some of them if it has very many epochs
 * @clock: any with tracks
 * @in: its samples
 * @check: filled
 */
void braid_clock_check(const struct braid_clock *clock, const struct braid_clock_inputs *in,
		       struct braid_clock_check *check);

/* Bounds at the samples and half way between them. */
struct braid_clock_quality {
	u64 points;
	u64 median_ns;		/* BRAID_BOUND_UNKNOWN is the largest of all */
	u64 p99_ns;
	u64 worst_ns;
};

/**
 * braid_clock_quality - statistics of a clock's bounds
 * @clock: any with tracks
 * @in: what it was built from
 * @q: filled on success
 *
 * Return: 0 or -ENOMEM.
 */
int braid_clock_quality(const struct braid_clock *clock, const struct braid_clock_inputs *in,
			struct braid_clock_quality *q);

/* Two clocks of one stream, at the same points. */
struct braid_clock_comparison {
	u64 points;
	u64 unknown;		/* skipped: no bound */
	u64 outside;		/* farther apart than both bounds allow */
	u64 farthest_ns;
};

/**
 * braid_clock_compare - hold two clocks against each other
 * @a: one, perhaps exact
 * @b: the other
 * @in: what they were built from
 * @c: filled
 */
void braid_clock_compare(const struct braid_clock *a, const struct braid_clock *b,
			 const struct braid_clock_inputs *in, struct braid_clock_comparison *c);

/* A host time and its error bound. */
struct braid_clock_time {
	s64 ns;
	u64 bound_ns;		/* the truth is within; or BRAID_BOUND_UNKNOWN */
	u32 epoch;		/* of the vCPU's track */
	bool sure;		/* no other epoch matches */
};

/**
 * braid_clock_convert - the host time of a counter value
 * @clock: the stream's
 * @vcpu: whose counter; from 0
 * @counter: any
 * @taken_ns: host time at which the event already existed; or BRAID_TAKEN_UNKNOWN
 * @from_epoch: no earlier epoch applies: that of a preceding event of its ring; or 0
 */
struct braid_clock_time braid_clock_convert(const struct braid_clock *clock, u32 vcpu, u64 counter,
					    u64 taken_ns, u32 from_epoch);

/* What a clock showed at a host time. */
struct braid_clock_reading {
	u64 value;		/* ns */
	u64 bound_ns;		/* the truth is within; or BRAID_BOUND_UNKNOWN */
};

/**
 * braid_clock_reading_at - reading of a clock of ns at a host time
 * @clock: of the host; with tracks
 * @ns: host time
 */
struct braid_clock_reading braid_clock_reading_at(const struct braid_clock *clock, s64 ns);

/** braid_clock_track_of - the track of a vCPU's times; NULL for HOST */
const struct braid_clock_track *braid_clock_track_of(const struct braid_clock *clock, u32 vcpu);

/**
 * braid_clock_trusts_counter - whether a bound assumes that the guest's counter has a constant rate
 * @clock: any
 *
 * A line through samples does. Counters that KVM or QEMU derive from the host's have bounds that
 * depend only on the host's counter.
 */
bool braid_clock_trusts_counter(const struct braid_clock *clock);

/** braid_clock_epochs - the largest number of epochs of a track; 0 for HOST */
u32 braid_clock_epochs(const struct braid_clock *clock);

/**
 * braid_clock_drift - deviation of the counter from its nominal frequency, in the last epoch
 * Return: ppm; 0 when unknown.
 */
double braid_clock_drift(const struct braid_clock *clock);

/** braid_clock_free - free what the clock holds; it is then HOST's */
void braid_clock_free(struct braid_clock *clock);

#endif /* BRAID_CLOCK_MODEL_TIMELINE_H */
