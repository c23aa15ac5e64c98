// SPDX-License-Identifier: GPL-2.0-or-later
/* Prints the clock data of a trace, for people and for scripts. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/cli/cli.h"
#include "host_agent/export/text/line.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"
#include "host_agent/util/text.h"

#define MAX_SHOWN	32	/* epochs and vCPUs of a guest, for people */

/* A stream's clocks: the one chosen, and each that can be had. */
struct clocks {
	const struct braid_stream *stream;
	struct braid_clock kvm, exchange;
	bool has_kvm, has_exchange;
	struct braid_clock_quality chosen_q, kvm_q, exchange_q;
	struct braid_clock_comparison comparison;
	struct braid_clock_check check;
};

/* The worst is that of all times, as other commands show it, not only of the moments that are evaluated. */
static int clock_print_judge(const struct braid_clock *clock, const struct braid_stream *stream,
			     struct braid_clock_quality *q)
{
	int err = braid_clock_quality(clock, &stream->clock_inputs, q);

	q->worst_ns = braid_clock_worst_bound(clock, stream->end_ns);
	if (!err && !q->points)
		q->median_ns = q->p99_ns = q->worst_ns;
	return err;
}

static int build(struct clocks *c, const struct braid_stream *stream)
{
	const struct braid_clock_inputs *in = &stream->clock_inputs;
	int err;

	memset(c, 0, sizeof(*c));
	c->stream = stream;
	err = braid_clock_by_offset(&c->kvm, in);
	c->has_kvm = !err;
	if (err == -ENODATA || !err)
		err = braid_clock_fit(&c->exchange, in);
	c->has_exchange = !err;
	if (err == -ENODATA)
		err = 0;
	if (!err)
		err = clock_print_judge(&stream->clock, stream, &c->chosen_q);
	if (!err && c->has_kvm)
		err = clock_print_judge(&c->kvm, stream, &c->kvm_q);
	if (!err && c->has_exchange)
		err = clock_print_judge(&c->exchange, stream, &c->exchange_q);
	if (!err && c->has_kvm && c->has_exchange)
		braid_clock_compare(&c->kvm, &c->exchange, in, &c->comparison);
	braid_clock_check(&stream->clock, in, &c->check);
	return err ? braid_out_of_memory() : 0;
}

static void clock_print_drop(struct clocks *c)
{
	braid_clock_free(&c->kvm);
	braid_clock_free(&c->exchange);
}

/* People ------------------------------------------------------------------------------------- */

static void put_ns(struct braid_text *t, u64 ns)
{
	char text[32];

	braid_bound_text(ns, text);
	braid_text_puts(t, ns == BRAID_BOUND_UNKNOWN ? "unknown" : text);
}

static void put_quality(struct braid_text *t, const struct braid_clock_quality *q)
{
	braid_text_puts(t, "bound: median ");
	put_ns(t, q->median_ns);
	braid_text_puts(t, ", 99 % ");
	put_ns(t, q->p99_ns);
	braid_text_puts(t, ", worst ");
	put_ns(t, q->worst_ns);
	braid_text_putc(t, '\n');
}

static void clock_print_put_seconds(struct braid_text *t, s64 ns)
{
	if (ns == INT64_MIN || ns == INT64_MAX || ns < 0) {
		braid_text_puts(t, "at an unknown time");
		return;
	}
	braid_text_printf(t, "%lld.%06lld", (long long)(ns / (s64)BRAID_SECOND_NS),
			  (long long)(ns % (s64)BRAID_SECOND_NS / 1000));
}

static void text_epochs(struct braid_text *t, const struct braid_clock *clock)
{
	const struct braid_clock_track *track = clock->tracks;
	size_t k;
	u32 n;

	for (n = 0; n < clock->nr_tracks && n < MAX_SHOWN; n++, track++) {
		for (k = 1; k < track->nr_epochs && k < MAX_SHOWN; k++) {
			const struct braid_clock_epoch *e = &track->epochs[k];

			braid_text_puts(t, "  epoch ");
			braid_text_u64(t, k, 0, ' ');
			if (clock->nr_tracks > 1)
				braid_text_printf(t, " of vCPU %u", n);
			braid_text_puts(t, ": begins between ");
			clock_print_put_seconds(t, e->from_ns);
			braid_text_puts(t, " and ");
			clock_print_put_seconds(t, e->begun_ns);
			braid_text_printf(t, " s: %s", braid_epoch_cause_name(e->cause));
			if (e->step_ns) {
				braid_text_puts(t, ", by ");
				put_ns(t, e->step_ns < 0 ? -(u64)e->step_ns : (u64)e->step_ns);
			}
			if (e->disrupted)
				braid_text_puts(t, e->cause == BRAID_EPOCH_DISRUPTED ? " (vmclock)" :
						"; the hypervisor disrupted it (vmclock)");
			braid_text_putc(t, '\n');
		}
		if (k < track->nr_epochs)
			braid_text_printf(t, "  ... and %zu more\n", track->nr_epochs - k);
	}
}

static const char *type_name(u32 type)
{
	static const char *const names[BRAID_VM_TIME_TYPES] = {
		[BRAID_VM_UTC] = "utc",
		[BRAID_VM_TAI] = "tai",
		[BRAID_VM_MONOTONIC] = "monotonic",
	};

	return type < BRAID_VM_TIME_TYPES ? names[type] : "invalid";
}

static const char *status_name(u32 status)
{
	static const char *const names[BRAID_VM_STATUSES] = {
		[BRAID_VM_UNKNOWN] = "unknown",
		[BRAID_VM_INITIALIZING] = "initializing",
		[BRAID_VM_SYNCHRONIZED] = "synchronized",
		[BRAID_VM_FREERUNNING] = "freerunning",
		[BRAID_VM_UNRELIABLE] = "unreliable",
	};

	return status < BRAID_VM_STATUSES ? names[status] : "invalid";
}

static void text_vmclock(struct braid_text *t, const struct braid_stream *s)
{
	const struct braid_clock_vm *vm = &s->vmclock;

	braid_text_printf(t, "  vmclock: disruption marker %llu", (unsigned long long)vm->marker);
	if (vm->changes)
		braid_text_printf(t, ", changed %u time%s since the driver was loaded", vm->changes,
				  vm->changes == 1 ? "" : "s");
	if (!(vm->flags & BRAID_VM_TIME)) {
		braid_text_puts(t, "; the hypervisor gives no time\n");
		return;
	}
	braid_text_printf(t, "; %s time %llu.%09llu s at counter %llu, ", type_name(vm->time_type),
			  (unsigned long long)(vm->time_ns / BRAID_SECOND_NS),
			  (unsigned long long)(vm->time_ns % BRAID_SECOND_NS),
			  (unsigned long long)vm->counter);
	if (vm->flags & BRAID_VM_BOUND)
		braid_text_printf(t, "bound %llu ns by the hypervisor, %s\n",
				  (unsigned long long)vm->bound_ns, status_name(vm->status));
	else
		braid_text_printf(t, "without a bound, %s\n", status_name(vm->status));
}

static void text_kvm(struct braid_text *t, const struct clocks *c)
{
	const struct braid_stream *s = c->stream;
	u32 n;
	size_t k;

	if (!c->has_kvm) {
		braid_text_printf(t, "  kvm: unavailable: %s\n", c->kvm.reason);
		return;
	}
	braid_text_puts(t, "  kvm: ");
	put_quality(t, &c->kvm_q);
	for (n = 0; n < c->kvm.nr_tracks && n < MAX_SHOWN; n++) {
		const struct braid_clock_track *track = &c->kvm.tracks[n];
		const struct braid_clock_offset *o = &track->epochs[track->nr_epochs - 1].offset;

		braid_text_puts(t, c->kvm.nr_tracks > 1 ? "    vCPU " : "    every vCPU");
		if (c->kvm.nr_tracks > 1)
			braid_text_u64(t, n, 0, ' ');
		braid_text_printf(t, ": offset %lld", (long long)o->offset);
		if (o->ratio_bits)
			braid_text_printf(t, ", scaled by %llu/2^%u",
					  (unsigned long long)o->ratio, o->ratio_bits);
		braid_text_putc(t, '\n');
	}
	for (k = 0; k < s->nr_threads; k++) {
		braid_text_puts(t, k ? ", " : "    vCPU threads: ");
		if (s->threads[k].vcpu == BRAID_VCPU_ALL)
			braid_text_printf(t, "all: %d", s->threads[k].tid);
		else
			braid_text_printf(t, "%u: %d", s->threads[k].vcpu, s->threads[k].tid);
	}
	if (s->nr_threads)
		braid_text_putc(t, '\n');
}

static void text_exchange(struct braid_text *t, const struct clocks *c)
{
	const struct braid_clock_inputs *in = &c->stream->clock_inputs;

	if (!c->has_exchange) {
		braid_text_puts(t, "  exchange: unavailable: no round-trip samples\n");
		return;
	}
	braid_text_printf(t, "  %s: %zu %ssample%s, the shortest ",
			  braid_clock_kind_name(c->exchange.kind), in->nr_round_trips,
			  in->reads ? "" : "round-trip ", in->nr_round_trips == 1 ? "" : "s");
	put_ns(t, c->check.shortest_ns);
	braid_text_printf(t, ", drift %+.3f ppm, ", braid_clock_drift(&c->exchange));
	put_quality(t, &c->exchange_q);
	if (!c->has_kvm)
		return;
	braid_text_printf(t, "    compared with kvm: %llu of %llu points outside both bounds, ",
			  (unsigned long long)c->comparison.outside,
			  (unsigned long long)c->comparison.points);
	put_ns(t, c->comparison.farthest_ns);
	braid_text_puts(t, " largest difference\n");
}

static void text_unstable(struct braid_text *t, const struct braid_clock *clock)
{
	braid_text_puts(t, "  " BRAID_LINE_UNSTABLE);
	if (braid_clock_trusts_counter(clock))
		braid_text_puts(t, BRAID_LINE_UNSTABLE_BOUNDS);
	else if (clock->kind == BRAID_CLOCK_KVM || clock->kind == BRAID_CLOCK_EXCHANGE ||
		 clock->kind == BRAID_CLOCK_READS)
		braid_text_puts(t, "; the error bounds do not depend on that");
	braid_text_putc(t, '\n');
}

static void text_stream(struct braid_text *t, const struct clocks *c)
{
	const struct braid_stream *s = c->stream;

	braid_text_printf(t, "%s: %s", s->name, braid_clock_kind_name(s->clock.kind));
	if (*s->clock.reason)
		braid_text_printf(t, " (%s)", s->clock.reason);
	braid_text_puts(t, ", ");
	put_quality(t, &c->chosen_q);
	if (s->tsc_unstable)
		text_unstable(t, &s->clock);
	text_epochs(t, &s->clock);
	if (s->has_vmclock)
		text_vmclock(t, s);
	text_kvm(t, c);
	text_exchange(t, c);
	if (s->clock.kind == BRAID_CLOCK_PAIRS || s->clock.kind == BRAID_CLOCK_NOMINAL)
		braid_text_puts(t, "  timestamps have no error bound: they give the order of this guest's own events, and their approximate times\n");
}

static void text_host(struct braid_text *t, const struct braid_source *source)
{
	const struct braid_host_clocks *h = &source->clocks;

	braid_text_puts(t, "host: times are of ");
	braid_text_safe(t, source->head.clock, sizeof(source->head.clock));
	if (h->counter.nr_tracks) {
		braid_text_printf(t, "; counter %s, %u samples, ", h->counter_name,
				  h->counter.nr_samples);
		braid_text_puts(t, "bound ");
		put_ns(t, braid_clock_worst_bound(&h->counter, 0));
	} else {
		braid_text_puts(t, "; its counter was not sampled, or the host does not trust it");
	}
	if (h->trace.nr_tracks) {
		braid_text_printf(t, "; trace clock %s, bound ", h->trace_name);
		put_ns(t, braid_clock_worst_bound(&h->trace, 0));
	}
	braid_text_putc(t, '\n');
}

/* Scripts ------------------------------------------------------------------------------------ */

static void json_ns(struct braid_text *t, const char *key, u64 ns)
{
	if (ns == BRAID_BOUND_UNKNOWN)
		braid_text_printf(t, ",\"%s\":null", key);
	else
		braid_text_printf(t, ",\"%s\":%llu", key, (unsigned long long)ns);
}

static void json_quality(struct braid_text *t, const struct braid_clock_quality *q)
{
	json_ns(t, "bound_median_ns", q->median_ns);
	json_ns(t, "bound_p99_ns", q->p99_ns);
	json_ns(t, "bound_worst_ns", q->worst_ns);
}

/* Null if the time is unknown. */
static void json_moment(struct braid_text *t, const char *key, s64 ns)
{
	json_ns(t, key, ns < 0 || ns == INT64_MAX ? BRAID_BOUND_UNKNOWN : (u64)ns);
}

static void json_epoch_begin(struct braid_text *t, const struct braid_clock_epoch *e)
{
	json_moment(t, "from_ns", e->from_ns);
	json_moment(t, "begun_ns", e->begun_ns);
	braid_text_printf(t, ",\"step_ns\":%lld,\"disrupted\":%s", (long long)e->step_ns,
			  e->disrupted ? "true" : "false");
}

static void json_epochs(struct braid_text *t, const struct braid_clock *clock)
{
	const char *between = "";
	size_t k;
	u32 n;

	braid_text_puts(t, ",\"epochs\":[");
	for (n = 0; n < clock->nr_tracks; n++) {
		for (k = 0; k < clock->tracks[n].nr_epochs; k++, between = ",") {
			const struct braid_clock_epoch *e = &clock->tracks[n].epochs[k];

			braid_text_printf(t, "%s{\"vcpu\":", between);
			braid_text_printf(t, clock->nr_tracks > 1 ? "%u" : "null", n);
			braid_text_printf(t, ",\"number\":%zu", k);
			braid_text_member(t, "cause", braid_epoch_cause_name(e->cause));
			if (k)
				json_epoch_begin(t, e);
			braid_text_printf(t, ",\"drift_ppm\":%.6f", e->drift_ppm);
			if (e->host)
				braid_text_printf(t, ",\"offset\":%lld,\"ratio\":%llu,\"ratio_bits\":%u",
						  (long long)e->offset.offset,
						  (unsigned long long)e->offset.ratio,
						  e->offset.ratio_bits);
			braid_text_putc(t, '}');
		}
	}
	braid_text_putc(t, ']');
}

/* How long after the guest was found its clock was tied to the host's. */
static void json_first_fix(struct braid_text *t, const struct braid_stream *s)
{
	const struct braid_clock_inputs *in = &s->clock_inputs;
	u64 first_ns = in->round_trips[0].s.h2_ns;
	size_t k;

	for (k = 1; k < in->nr_round_trips; k++)
		if (in->round_trips[k].s.h2_ns < first_ns)
			first_ns = in->round_trips[k].s.h2_ns;
	if (first_ns >= s->found_ns)
		json_ns(t, "first_fix_ns", first_ns - s->found_ns);
}

static void json_vmclock(struct braid_text *t, const struct braid_stream *s)
{
	const struct braid_clock_vm *vm = &s->vmclock;

	if (!s->has_vmclock) {
		braid_text_puts(t, ",\"vmclock\":null");
		return;
	}
	braid_text_printf(t, ",\"vmclock\":{\"marker\":%llu,\"changes\":%u",
			  (unsigned long long)vm->marker, vm->changes);
	if (vm->flags & BRAID_VM_GENERATION)
		braid_text_printf(t, ",\"generation\":%llu", (unsigned long long)vm->generation);
	if (vm->flags & BRAID_VM_TIME)
		braid_text_printf(t, ",\"counter\":%llu,\"time_type\":\"%s\",\"time_ns\":%llu,\"status\":\"%s\"",
				  (unsigned long long)vm->counter, type_name(vm->time_type),
				  (unsigned long long)vm->time_ns, status_name(vm->status));
	if (vm->flags & BRAID_VM_BOUND)
		braid_text_printf(t, ",\"bound_ns\":%llu", (unsigned long long)vm->bound_ns);
	braid_text_putc(t, '}');
}

static void json_stream(struct braid_text *t, const struct clocks *c)
{
	const struct braid_stream *s = c->stream;

	braid_text_putc(t, '{');
	braid_text_member(t, "stream", s->name);
	braid_text_member(t, "source", braid_clock_kind_name(s->clock.kind));
	braid_text_member(t, "reason", s->clock.reason);
	json_quality(t, &c->chosen_q);
	braid_text_printf(t, ",\"tsc_unstable\":%s", s->tsc_unstable ? "true" : "false");
	json_vmclock(t, s);
	json_epochs(t, &s->clock);
	braid_json_vcpus(t, s);
	if (c->has_kvm) {
		braid_text_printf(t, ",\"kvm\":{\"epochs\":%u", braid_clock_epochs(&c->kvm));
		json_quality(t, &c->kvm_q);
		braid_text_putc(t, '}');
	}
	if (c->has_exchange) {
		braid_text_printf(t, ",\"%s\":{\"epochs\":%u,\"%s\":%zu",
				  braid_clock_kind_name(c->exchange.kind),
				  braid_clock_epochs(&c->exchange),
				  s->clock_inputs.reads ? "samples" : "round_trips",
				  s->clock_inputs.nr_round_trips);
		json_ns(t, "shortest_ns", c->check.shortest_ns);
		json_first_fix(t, s);
		json_quality(t, &c->exchange_q);
		braid_text_putc(t, '}');
	}
	if (c->has_kvm && c->has_exchange)
		braid_text_printf(t, ",\"check\":{\"samples\":%llu,\"violations\":%llu,\"farthest_ns\":%llu,\"unknown\":%llu}",
				  (unsigned long long)c->comparison.points,
				  (unsigned long long)c->comparison.outside,
				  (unsigned long long)c->comparison.farthest_ns,
				  (unsigned long long)c->comparison.unknown);
	braid_text_putc(t, '}');
}

static void json_host(struct braid_text *t, const struct braid_source *source)
{
	const struct braid_host_clocks *h = &source->clocks;

	braid_text_member(t, "clock", source->head.clock);
	if (h->counter.nr_tracks) {
		braid_text_puts(t, ",\"counter\":{");
		braid_text_member(t, "name", h->counter_name);
		braid_text_printf(t, ",\"samples\":%u", h->counter.nr_samples);
		json_ns(t, "bound_ns", braid_clock_worst_bound(&h->counter, 0));
		braid_text_putc(t, '}');
	}
	if (h->trace.nr_tracks) {
		braid_text_puts(t, ",\"trace_clock\":{");
		braid_text_member(t, "name", h->trace_name);
		json_ns(t, "bound_ns", braid_clock_worst_bound(&h->trace, 0));
		braid_text_putc(t, '}');
	}
}

/* -------------------------------------------------------------------------------------------- */

int braid_clock_print(const struct braid_source *source, bool json)
{
	struct braid_text t = { 0 };
	const char *between = "";
	struct clocks c;
	int err = 0;
	size_t k;

	if (json)
		braid_text_putc(&t, '{');
	(json ? json_host : text_host)(&t, source);
	if (json)
		braid_text_puts(&t, ",\"streams\":[");
	for (k = 0; k < source->nr_streams && !err; k++) {
		if (source->streams[k]->kind != BRAID_STREAM_GUEST)
			continue;
		err = build(&c, source->streams[k]);
		if (json)
			braid_text_puts(&t, between);
		if (!err)
			(json ? json_stream : text_stream)(&t, &c);
		clock_print_drop(&c);
		between = ",\n";
	}
	if (json)
		braid_text_puts(&t, "]}\n");
	if (!err && t.failed)
		err = braid_out_of_memory();
	if (!err)
		fwrite(t.data, 1, t.bytes, stdout);
	braid_text_free(&t);
	return err;
}
