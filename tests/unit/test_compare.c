// SPDX-License-Identifier: GPL-2.0-or-later
/* Two captures side by side: their measures are exact, and chance is not taken for a change. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/compare.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/memory_trace.h"
#include "tests/unit/need.h"

#define MILLI	1000000LL

static u64 seed = 7;

static u64 random_below(u64 n)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (seed >> 33) % n;
}

/* Statistics ---------------------------------------------------------------------------------- */

static void near(double value, double wanted, double part)
{
	if (fabs(value - wanted) > part * fabs(wanted)) {
		fprintf(stderr, "%g, wanted %g\n", value, wanted);
		CHECK(!"the values differ");
	}
}

static void quantiles_of_student(void)
{
	static const struct { u32 bins; double t; } known[] = {
		{ 4, 5.841 }, { 6, 4.032 }, { 11, 3.169 }, { 21, 2.845 }, { 40, 2.708 },
	};
	size_t k;

	for (k = 0; k < sizeof(known) / sizeof(known[0]); k++) {
		const struct braid_estimate a = { .variance = 4, .nr = known[k].bins };
		const struct braid_estimate b = { .variance = 0, .nr = known[k].bins };

		near(braid_interval_of(&a, &b), 2 * known[k].t, k ? 0.01 : 0.04);
	}
}

static void ratio_of_sums(void)
{
	static const u64 part[] = { 1, 3, 9, 2 }, whole[] = { 10, 10, 0, 20 };
	static const u64 parts[] = { 1, 3, 0, 2 };
	struct braid_estimate e = braid_estimate_of(parts, whole, 4);

	/* Residuals of 0.15 * whole: -0.5, 1.5, -1; 3.5 * 3 / 2 / 40^2. */
	near(e.ratio, 6.0 / 40, 1e-9);
	near(e.variance, 3.5 * 3 / 2 / 1600, 1e-9);
	CHECK_EQ(e.nr, 3);
	e = braid_estimate_of(part, whole, 1);
	near(e.ratio, 0.1, 1e-9);
	CHECK(e.variance < 0);
	CHECK(braid_interval_of(&e, &e) < 0);
	e = braid_estimate_of(part, whole + 2, 1);
	CHECK(e.nr == 0 && e.variance < 0);
}

/*
 * Of pairs of one cause, about one in a hundred seems to differ; of another cause, nearly all do.
 */
static void chance(void)
{
	u32 alike = 0, unlike = 0, turn, k;

	for (turn = 0; turn < 2000; turn++) {
		u64 parts[3][30], whole[30];
		struct braid_estimate e[3];

		for (k = 0; k < 30; k++) {
			whole[k] = 900 + random_below(200);
			parts[0][k] = random_below(400);
			parts[1][k] = random_below(400);
			parts[2][k] = 200 + random_below(400);
		}
		for (k = 0; k < 3; k++)
			e[k] = braid_estimate_of(parts[k], whole, 30);
		alike += fabs(e[0].ratio - e[1].ratio) > braid_interval_of(&e[0], &e[1]);
		unlike += fabs(e[0].ratio - e[2].ratio) > braid_interval_of(&e[0], &e[2]);
	}
	CHECK(alike > 2 && alike < 50);
	CHECK(unlike > 1950);
}

/* The chance of a difference agrees with the quantiles. */
static void chances(void)
{
	static const struct { u32 bins; double t; } known[] = {
		{ 4, 5.841 }, { 6, 4.032 }, { 11, 3.169 }, { 21, 2.845 }, { 40, 2.708 },
	};
	struct braid_estimate a = { .variance = 4 }, b = { .variance = 0 };
	size_t k;

	for (k = 0; k < sizeof(known) / sizeof(known[0]); k++) {
		a.nr = b.nr = known[k].bins;
		a.ratio = 2 * known[k].t;
		near(braid_chance_of(&a, &b), 0.01, k ? 0.05 : 0.12);
		CHECK(braid_chance_of(&a, &b) == braid_chance_of(&b, &a));
	}
	a.variance = 0;
	CHECK(braid_chance_of(&a, &b) == 0);
	a.ratio = 0;
	CHECK(braid_chance_of(&a, &b) == 1);
	a.variance = -1;
	CHECK(braid_chance_of(&a, &b) < 0);
}

/* Measures ------------------------------------------------------------------------------------ */

struct side {
	struct braid_states states;
	struct braid_vcpu vcpus[2];
	struct braid_guest_state guests[4];	/* by stream */
	struct braid_host_state host;
	struct braid_measures *measures;
	u64 stolen_ns;
};

static const struct braid_analysis_options every = {
	.top = 100, .compares = ~0u, .form = BRAID_TABLE_JSON, .names = { "now", "other" },
};

static void begin_side(struct side *side, s64 begin_ns)
{
	memory_begin();
	memset(side, 0, sizeof(*side));
	side->host.seen = (struct braid_seen){
		.switches = true, .wakeups = true, .kvm = true, .user = true,
	};
	side->vcpus[0].guest = side->vcpus[1].guest = &memory_guest;
	side->vcpus[0].host = side->vcpus[1].host = &side->host;
	side->vcpus[0].end_ns = side->vcpus[1].end_ns = INT64_MAX;
	side->states = (struct braid_states){
		.source = &memory_source, .vcpus = side->vcpus, .nr_vcpus = 2, .begin_ns = begin_ns,
		.guests = side->guests, .hosts = &side->host, .nr_hosts = 1,
	};
	NEED(memory_source.nr_streams <= sizeof(side->guests) / sizeof(side->guests[0]));
	side->guests[memory_guest.number].any_wakeup = true;
	side->measures = calloc(1, braid_analysis_compare.state_bytes);
	NEED(side->measures);
	NEED(!braid_analysis_compare.begin(side->measures, &side->states, &every));
}

static void put_span(struct side *side, u32 vcpu, enum braid_vcpu_state state, s64 from_ns,
		     s64 to_ns)
{
	const struct braid_state_span span = {
		.vcpu = vcpu, .state = state, .from_ns = from_ns, .to_ns = to_ns,
		.culprit = { .kind = state == BRAID_VCPU_STOLEN ? BRAID_CULPRIT_IRQ : 0, .id = 11 },
	};

	NEED(!braid_analysis_compare.states.span(side->measures, &span));
	if (state == BRAID_VCPU_STOLEN)
		side->stolen_ns += to_ns - from_ns;
}

/* Both vCPUs run and are stolen in turn, up to @most of a period of 10 ms. */
static void fill_side(struct side *side, s64 from_ns, u32 periods, u64 most_ns)
{
	s64 ns = from_ns, stolen;
	u32 k;

	for (k = 0; k < periods; k++, ns += 10 * MILLI) {
		stolen = 1 + random_below(most_ns);
		put_span(side, k % 2, BRAID_VCPU_STOLEN, ns, ns + stolen);
		put_span(side, k % 2, BRAID_VCPU_GUEST, ns + stolen, ns + 10 * MILLI);
	}
}

static void end_side(struct side *side)
{
	braid_analysis_compare.free(side->measures);
	free(side->measures);
}

static char *compare(struct side *now, struct side *other)
{
	struct braid_text text = { 0 };

	NEED(!braid_comparison_write(now->measures, other->measures, &text));
	braid_text_putc(&text, 0);
	return text.data;
}

static void has(const char *text, const char *what)
{
	if (!strstr(text, what)) {
		fprintf(stderr, "no '%s' in:\n%s\n", what, text);
		CHECK(!"it is missing");
	}
}

/* However long it was, nothing is lost when bins are joined, nor at their borders. */
static void bins_add_up(void)
{
	static const u32 periods[] = { 1, 3, 4, 5, 37, 1000, 12345 };
	struct side side;
	size_t k, n;
	u32 w;

	for (k = 0; k < sizeof(periods) / sizeof(periods[0]); k++) {
		u64 time_ns = 0, stolen_ns = 0, culprit_ns = 0;

		begin_side(&side, 77);
		fill_side(&side, 77, periods[k], 9 * MILLI);
		for (n = 0; n < side.measures->nr; n++) {
			const struct braid_measure *m = &side.measures->all[n];

			for (w = 0; w < BRAID_COMPARE_BINS; w++) {
				CHECK(w < side.measures->nr_bins || !m->of[w]);
				if (m->key.kind == BRAID_MEASURE_TIME) {
					time_ns += m->of[w];
					CHECK(m->of[w] <= side.measures->width_ns);
				}
				if (m->key.kind == BRAID_MEASURE_STATE &&
				    m->key.id == BRAID_VCPU_STOLEN)
					stolen_ns += m->of[w];
				if (m->key.kind == BRAID_MEASURE_CULPRIT)
					culprit_ns += m->of[w];
			}
		}
		CHECK_EQ(time_ns, periods[k] * 10 * MILLI);
		CHECK_EQ(stolen_ns, side.stolen_ns);
		CHECK_EQ(culprit_ns, side.stolen_ns);
		CHECK(side.measures->nr_bins > BRAID_COMPARE_BINS / 2 || periods[k] <= 4);
		end_side(&side);
	}
}

/* What is between two recordings is in no bin: they are as fine as those of one of that length. */
static void holes_have_no_bins(void)
{
	struct braid_observed recorded[] = {
		{ .start_ns = 0 }, { .start_ns = 9000000 * MILLI, .before_ns = 400 * MILLI },
	};
	struct side whole, parts;
	char *text;
	u32 k, n;

	for (k = 0; k < 2; k++) {
		recorded[k].from_ns = recorded[k].start_ns;
		recorded[k].to_ns = recorded[k].stop_ns = recorded[k].start_ns + 400 * MILLI;
	}
	begin_side(&whole, 0);
	begin_side(&parts, 0);
	parts.states.recorded = recorded;
	parts.states.nr_recorded = 2;
	fill_side(&whole, 0, 80, 2 * MILLI);
	fill_side(&parts, 0, 40, 2 * MILLI);
	fill_side(&parts, 9000000 * MILLI, 40, 2 * MILLI);
	CHECK_EQ(parts.measures->nr_bins, whole.measures->nr_bins);
	CHECK_EQ(parts.measures->width_ns, whole.measures->width_ns);
	for (k = 0; k < parts.measures->nr; k++)
		for (n = 0; n < parts.measures->nr_bins; n++)
			CHECK(parts.measures->all[k].key.kind != BRAID_MEASURE_TIME ||
			      parts.measures->all[k].of[n] == parts.measures->width_ns);
	text = compare(&parts, &whole);
	CHECK(!strstr(text, "\"significant\":1"));
	free(text);
	end_side(&parts);
	end_side(&whole);
}

static void change_is_found(void)
{
	struct side few, more;
	char wanted[64], *text;

	begin_side(&few, 0);
	begin_side(&more, 5000 * MILLI);
	fill_side(&few, 0, 500, 2 * MILLI);
	fill_side(&more, 5000 * MILLI, 700, 6 * MILLI);
	text = compare(&more, &few);
	snprintf(wanted, sizeof(wanted), "\"now\":%.0f,", more.stolen_ns / 7000.0 / MILLI * 1e6);
	has(text, wanted);
	has(text, "\"measure\":\"stolen by irq 11\",\"unit\":\"ppm\"");
	has(text, "\"measure\":\"stolen\",\"unit\":\"ppm\"");
	CHECK(!strstr(text, "\"significant\":0"));
	free(text);
	end_side(&more);
	begin_side(&more, 0);
	fill_side(&more, 0, 300, 2 * MILLI);
	text = compare(&more, &few);
	CHECK(!strstr(text, "\"significant\":1"));
	free(text);
	end_side(&few);
	end_side(&more);
}

/*
 * Culprits of the same behaviour in both: few comparisons show any change, however many measures
 * they have.
 */
static void many_measures(void)
{
	u32 turn, any = 0, culprit, ms;

	for (turn = 0; turn < 100; turn++) {
		struct side sides[2];
		char *text;
		int k;

		for (k = 0; k < 2; k++) {
			begin_side(&sides[k], 0);
			for (ms = 0; ms < 1200; ms++)
				for (culprit = 0; culprit < 30; culprit++) {
					struct braid_state_span span = {
						.state = BRAID_VCPU_STOLEN,
						.from_ns = ms * MILLI + culprit * 30000,
						.culprit = { .kind = BRAID_CULPRIT_IRQ,
							     .id = culprit },
					};

					span.to_ns = span.from_ns + 1 + random_below(29000);
					NEED(!braid_analysis_compare.states.span(sides[k].measures,
										 &span));
				}
		}
		text = compare(&sides[0], &sides[1]);
		any += !!strstr(text, "\"significant\":1");
		free(text);
		end_side(&sides[0]);
		end_side(&sides[1]);
	}
	CHECK(any <= 5);
}

/*
 * Waits and exits are counted; without kvm events in one capture, states that they distinguish are
 * one.
 */
static void other_measures(void)
{
	struct side now, other;
	struct braid_exit left = { .reason = 1ull << 32 | 12 };
	struct braid_queue_wait wait = { .woken = true };
	char *text;
	u32 k;

	begin_side(&now, 0);
	begin_side(&other, 0);
	fill_side(&now, 0, 100, 2 * MILLI);
	put_span(&other, 0, BRAID_VCPU_RUNS, 0, 1000 * MILLI);
	other.states.hosts->seen.kvm = false;
	for (k = 0; k < 100; k++) {
		left.from_ns = k * 10 * MILLI;
		NEED(!braid_analysis_compare.states.exit(now.measures, &left));
		wait.from_ns = k * 10 * MILLI;
		wait.to_ns = wait.from_ns + MILLI;
		NEED(!braid_analysis_compare.states.queued(now.measures, &wait));
		wait.to_ns += MILLI;
		NEED(!braid_analysis_compare.states.queued(other.measures, &wait));
	}
	text = compare(&now, &other);
	has(text, "\"measure\":\"exits\",\"unit\":\"per_1000_s\",\"other\":null,\"now\":100000,\"change\":null,");
	has(text, "\"measure\":\"wait after a wakeup\",\"unit\":\"ns\",\"other\":2000000,\"now\":1000000,\"change\":-1000000,\"interval\":0,\"significant\":1");
	has(text, "\"measure\":\"running\",\"unit\":\"ppm\",\"other\":1000000,");
	CHECK(!strstr(text, "\"measure\":\"guest\""));
	free(text);
	end_side(&now);
	end_side(&other);
}

/* What one of the captures has no events for is not 0. */
static void missing_events(void)
{
	struct side now, other;
	struct braid_queue_wait wait = { .woken = true, .to_ns = MILLI };
	char *text;

	begin_side(&now, 0);
	begin_side(&other, 0);
	fill_side(&now, 0, 100, 2 * MILLI);
	fill_side(&other, 0, 100, 2 * MILLI);
	put_span(&now, 0, BRAID_VCPU_VMM, 1000 * MILLI, 1500 * MILLI);
	put_span(&other, 0, BRAID_VCPU_KVM, 1000 * MILLI, 1500 * MILLI);
	other.states.hosts->seen.user = false;
	other.guests[memory_guest.number].any_wakeup = false;
	NEED(!braid_analysis_compare.states.queued(now.measures, &wait));
	text = compare(&now, &other);
	has(text, "\"measure\":\"wakeups\",\"unit\":\"per_1000_s\",\"other\":null,");
	has(text, "\"measure\":\"hypervisor\",\"unit\":\"ppm\",\"other\":333333,\"now\":333333,\"change\":0,");
	CHECK(!strstr(text, "\"measure\":\"VMM\""));
	free(text);
	end_side(&now);
	end_side(&other);
}

/* A host with more threads than measures: time is not lost. */
static void many_culprits(void)
{
	struct braid_state_span span = {
		.state = BRAID_VCPU_STOLEN, .culprit = { .kind = BRAID_CULPRIT_TASK },
	};
	struct side side;
	u64 sum = 0;
	size_t k;
	u32 w;

	begin_side(&side, 0);
	for (k = 0; k < 10000; k++) {
		span.culprit.id = k + 1;
		span.from_ns = k * 1000;
		span.to_ns = span.from_ns + 1000;
		NEED(!braid_analysis_compare.states.span(side.measures, &span));
	}
	for (k = 0; k < side.measures->nr; k++)
		for (w = 0; w < BRAID_COMPARE_BINS; w++)
			if (side.measures->all[k].key.kind == BRAID_MEASURE_CULPRIT)
				sum += side.measures->all[k].of[w];
	CHECK_EQ(sum, 10000000);
	end_side(&side);
}

static void no_common_guest(void)
{
	struct side now, other;
	struct braid_text text = { 0 };

	begin_side(&now, 0);
	begin_side(&other, 0);
	put_span(&now, 0, BRAID_VCPU_RUNS, 0, MILLI);
	CHECK_EQ(braid_comparison_write(now.measures, other.measures, &text), -2);
	has(braid_failure(), "no guest is in both captures (");
	end_side(&now);
	end_side(&other);
	braid_text_free(&text);
}

int main(void)
{
	RUN(quantiles_of_student);
	RUN(ratio_of_sums);
	RUN(chance);
	RUN(chances);
	RUN(many_measures);
	RUN(bins_add_up);
	RUN(holes_have_no_bins);
	RUN(change_is_found);
	RUN(other_measures);
	RUN(missing_events);
	RUN(many_culprits);
	RUN(no_common_guest);
	return VERDICT();
}
