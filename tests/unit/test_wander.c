// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The clock of another host, whose truth is known: for any drift, wander within what is stated,
 * delays, losses and order of messages the truth is within the bound. Prints how large the bound
 * is, beside half of the best round trip, and compares that with the table of docs/clock.md.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock_model/timeline.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

#define START_NS	5000000000000LL
#define AHEAD_NS	123456789012345LL	/* of the other host's clock */
#define STEP_NS		10000000LL		/* its rate changes that often */
#define MAX_STEPS	60000u
#define MAX_CROSSINGS	400000u
#define EDGE_NS		9000000000LL
#define CHECKS_LEAST	1000000u
#define SHOWN		4u		/* networks in the table */
#define NETWORKS	7u
#define RATES		3u
#define TABLE		"docs/clock.md"
#define TABLE_HEAD	"| network | W |"

struct network {
	const char *name;
	double there_us, there_median_us;	/* least delay, and median */
	double back_us, back_median_us;
	double lost;			/* share, each way */
	double repeated;		/* share that comes again, later */
	double reroute_us;		/* more on the way there, every other second */
};

static const struct network networks[NETWORKS] = {
	{ "veth", 0.8, 1.7, 0.8, 1.7, 0, 0, 0 },
	{ "rack", 22, 40, 22, 40, 0.01, 0, 0 },
	{ "asymmetric", 20, 60, 220, 400, 0.05, 0, 0 },
	{ "wide area", 2000, 3000, 2000, 9000, 0.2, 0, 0 },
	/* Many messages overtake others. */
	{ "reordered", 50, 30000, 50, 30000, 0.05, 0.2, 0 },
	{ "rerouted", 20, 40, 20, 40, 0.01, 0.05, 500 },
	{ "queues", 20, 21, 20, 5000, 0.3, 0.1, 2000 },
};

static const double rates[RATES] = { 100, 10, 1 };
static const double allowed[] = { 30000, 5000 };	/* wander */
static double medians_us[NETWORKS][RATES][2];

static double gained_ns[MAX_STEPS + 1];	/* by the other clock, up to each step */
static u32 nr_steps;
static struct braid_clock_crossing crossings[MAX_CROSSINGS];
static size_t nr_crossings;
static u64 nr_checks, state = 1;

static double uniform(void)
{
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (double)(state >> 11) / (double)(1ULL << 53);
}

static double delay_ns(double least_us, double median_us)
{
	double u = uniform() + 1e-12, v = uniform();
	double normal = sqrt(-2 * log(u)) * cos(2 * M_PI * v);

	return 1e3 * (least_us + exp(normal) * (median_us - least_us));
}

/* How its rate wanders, in shares of what is allowed. */
static double wander_random(u32 step)
{
	(void)step;
	return 2 * uniform() - 1;
}

static double wander_square(u32 step)
{
	return step / 700 % 2 ? 1 : -1;
}

static double wander_slow(u32 step)
{
	return sin(step / 900.0);
}

static void run_clock(double seconds, double drift_ppm, double wander, double (*wanders)(u32 step))
{
	u32 k;

	nr_steps = seconds * 1e9 / STEP_NS + 2 * EDGE_NS / STEP_NS + 2;
	NEED(nr_steps <= MAX_STEPS);
	gained_ns[0] = 0;
	for (k = 0; k < nr_steps; k++)
		gained_ns[k + 1] = gained_ns[k] +
				   (drift_ppm * 1e3 + wander * wanders(k)) * STEP_NS / 1e9;
}

/* The other clock at a time of ours. */
static u64 other_at(s64 ns)
{
	s64 since = ns - START_NS + EDGE_NS;
	u32 step = since / STEP_NS;
	double part = since % STEP_NS / (double)STEP_NS;

	NEED(since >= 0 && step < nr_steps);
	return ns + AHEAD_NS + (s64)floor(gained_ns[step] + part *
					  (gained_ns[step + 1] - gained_ns[step]));
}

static void put(u64 value, s64 ns, bool later)
{
	NEED(nr_crossings < MAX_CROSSINGS);
	crossings[nr_crossings++] = (struct braid_clock_crossing){ value, ns, later };
}

/* Return: half of the best round trip, as stamped. */
static double exchange(const struct network *n, double seconds, double rate)
{
	double best = INFINITY;
	u32 nr = seconds * rate, k;

	nr_crossings = 0;
	for (k = 0; k < nr; k++) {
		s64 sent = START_NS + (s64)(k / rate * 1e9);
		double there = delay_ns(n->there_us, n->there_median_us) +
			       (k / (u32)rate % 2 ? 1e3 * n->reroute_us : 0);
		double back = delay_ns(n->back_us, n->back_median_us);
		s64 there_ns = sent + (s64)there;
		s64 back_ns = there_ns + 3000 + (s64)(uniform() * 20000);

		if (uniform() < n->lost || back_ns + back > START_NS + seconds * 1e9)
			continue;
		put(other_at(there_ns), sent, true);
		if (n->repeated > 0 && uniform() < n->repeated)
			put(other_at(there_ns + (s64)(uniform() * 5e7)), sent, true);
		if (uniform() < n->lost)
			continue;
		put(other_at(back_ns), back_ns + (s64)back, false);
		best = fmin(best, there + back);
	}
	return best / 2;
}

static int by_size(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

/* Return: the median bound. */
static u64 check_truth(const struct braid_clock *clock, double seconds, u32 nr)
{
	u64 *bounds = calloc(nr, sizeof(*bounds)), value, median;
	s64 last = START_NS + (s64)(seconds * 1e9) - 1, before = INT64_MIN;
	u32 k;

	NEED(bounds);
	for (k = 0; k < nr; k++) {
		s64 ns = START_NS + (s64)((last - START_NS) * ((k + uniform()) / nr));
		struct braid_clock_time t;
		struct braid_clock_reading r;

		value = other_at(ns);
		t = braid_clock_convert(clock, 0, value, BRAID_TAKEN_UNKNOWN, 0);
		CHECK((u64)llabs(t.ns - ns) <= t.bound_ns);
		CHECK(t.ns >= before);
		r = braid_clock_reading_at(clock, ns);
		CHECK((u64)llabs((s64)(r.value - value)) <= r.bound_ns);
		bounds[k] = t.bound_ns;
		before = t.ns;
		nr_checks++;
	}
	qsort(bounds, nr, sizeof(*bounds), by_size);
	median = bounds[nr / 2];
	free(bounds);
	return median;
}

/* Beyond the first and the last message the bound grows, and then there is none. */
static void check_edges(const struct braid_clock *clock, double seconds, bool known)
{
	s64 at[2] = { START_NS - EDGE_NS / 4, START_NS + (s64)(seconds * 1e9) + EDGE_NS / 4 };
	struct braid_clock_time t;
	u32 k;

	for (k = 0; k < 2; k++) {
		t = braid_clock_convert(clock, 0, other_at(at[k]), BRAID_TAKEN_UNKNOWN, 0);
		CHECK((u64)llabs(t.ns - at[k]) <= t.bound_ns);
		CHECK(!known || t.bound_ns != BRAID_BOUND_UNKNOWN);
		t = braid_clock_convert(clock, 0, (u64)at[k] + AHEAD_NS +
					(k ? 10 : -10) * (s64)EDGE_NS, BRAID_TAKEN_UNKNOWN, 0);
		CHECK(t.bound_ns == BRAID_BOUND_UNKNOWN);
	}
}

static void truth(void)
{
	static double (*const wanders[])(u32 step) = { wander_random, wander_square, wander_slow };
	u32 n, r, w, a, k = 0;

	for (n = 0; n < NETWORKS; n++)
		for (r = 0; r < RATES; r++)
			for (a = 0; a < 2; a++)
				for (w = 0; w < 3; w++) {
			double seconds = rates[r] == 1 ? 60 : 20, half;
			struct braid_clock clock;
			u64 median;

			run_clock(seconds, 80 * uniform() - 40, allowed[a], wanders[w]);
			half = exchange(&networks[n], seconds, rates[r]);
			NEED(!braid_clock_wander(&clock, crossings, nr_crossings, allowed[a]));
			median = check_truth(&clock, seconds, 14000);
			check_edges(&clock, seconds, n < SHOWN);
			if (w == 0)
				medians_us[n][r][a] = median / 1e3;
			if (w == 0)
				printf("%-10s %3.0f/s, wander %2.0f µs/s: median bound %9.2f µs, "
				       "half of the best round trip %8.2f µs, ratio %.2f\n",
				       networks[n].name, rates[r], allowed[a] / 1e3, median / 1e3,
				       half / 1e3, median / half);
			if (rates[r] == 100 && n < SHOWN)
				CHECK(median <= 2 * half);
			braid_clock_free(&clock);
			k++;
		}
	CHECK_EQ(k, NETWORKS * 18);
	CHECK(nr_checks >= CHECKS_LEAST);
	printf("%llu checks\n", (unsigned long long)nr_checks);
}

/* A number as "2,380" or "1.6"; NAN: none. */
static double cell_of(const char *text)
{
	char digits[32];
	size_t n = 0;

	for (; *text && *text != '|' && n + 1 < sizeof(digits); text++)
		if (*text != ',' && *text != ' ')
			digits[n++] = *text;
	digits[n] = 0;
	return n ? atof(digits) : NAN;
}

/* Each cell is what was measured, to two digits or so. */
static void check_row(char *line, u32 n, u32 a)
{
	char *at = line;
	u32 r;

	at = strchr(at + 1, '|');
	NEED(at);
	CHECK_EQ(cell_of(at + 1), allowed[a] / 1e3);
	for (r = 0; r < RATES; r++) {
		at = strchr(at + 1, '|');
		NEED(at);
		if (fabs(cell_of(at + 1) - medians_us[n][r][a]) <= 0.05 * medians_us[n][r][a] + 0.05)
			continue;
		printf(TABLE ": %s, %g/s, W %g: measured %.2f, not %g\n", networks[n].name,
		       rates[r], allowed[a] / 1e3, medians_us[n][r][a], cell_of(at + 1));
		CHECK(false);
	}
}

static void documented(void)
{
	FILE *f = fopen(TABLE, "re");
	char line[1024];
	u32 row = 0;

	NEED(f);
	while (fgets(line, sizeof(line), f) && strncmp(line, TABLE_HEAD, strlen(TABLE_HEAD)))
		;
	NEED(fgets(line, sizeof(line), f));	/* the line below the head */
	for (; row < 2 * SHOWN && fgets(line, sizeof(line), f) && *line == '|'; row++)
		check_row(line, row / 2, !(row % 2));	/* W is 5, then 30 */
	CHECK_EQ(row, 2 * SHOWN);
	fclose(f);
}

/*
 * A clock that steps while it is observed: it is refused; or the step is smaller than what delays
 * hide, and no time is farther from the truth than that and its bound.
 */
static void steps(void)
{
	static const double sizes[] = { 0.25, 0.5, 1, 2, 4, 16, 1000 };	/* of the best round trip */
	u32 n, k, at, refused = 0, hidden = 0;
	struct braid_clock clock;

	for (n = 0; n < NETWORKS; n++)
		for (k = 0; k < 2 * sizeof(sizes) / sizeof(*sizes); k++) {
			s64 from = START_NS + 10000000000LL, step;
			double half;
			int err;

			run_clock(20, 10, 5000, wander_random);
			half = exchange(&networks[n], 20, 100);
			step = (s64)((k & 1 ? -2 : 2) * half * sizes[k / 2]);
			for (at = 0; at < nr_crossings; at++)
				if (crossings[at].value - AHEAD_NS > (u64)from)
					crossings[at].value += (u64)step;
			err = braid_clock_wander(&clock, crossings, nr_crossings, 5000);
			CHECK(!err || err == -EBADMSG);
			if (sizes[k / 2] >= 16)
				CHECK_EQ(err, -EBADMSG);
			refused += err == -EBADMSG;
			hidden += !err;
			for (at = 0; at < 2000 && !err; at++) {
				s64 ns = START_NS + (s64)(19.9e9 * uniform());
				u64 value = other_at(ns);
				struct braid_clock_time t;

				if (value - AHEAD_NS > (u64)from)
					value += (u64)step;
				t = braid_clock_convert(&clock, 0, value, BRAID_TAKEN_UNKNOWN, 0);
				CHECK((u64)llabs(t.ns - ns) <= t.bound_ns + (u64)llabs(step));
				nr_checks++;
			}
			braid_clock_free(&clock);
		}
	printf("steps: %u refused, %u hidden by delays\n", refused, hidden);
	CHECK(refused && hidden);
}

/* A clock that steps, or stops, is not one that wanders. */
static void contradicts(void)
{
	struct braid_clock clock;
	size_t k;

	run_clock(20, 10, 5000, wander_random);
	exchange(&networks[1], 20, 10);
	for (k = 0; k < nr_crossings; k++)
		if (crossings[k].ns > START_NS + 10000000000LL)
			crossings[k].value += 500000;
	CHECK_EQ(braid_clock_wander(&clock, crossings, nr_crossings, 5000), -EBADMSG);
	CHECK(strstr(clock.reason, "contradict"));
	braid_clock_free(&clock);
	/* The wander is more than is stated. */
	run_clock(20, 10, 200000, wander_square);
	exchange(&networks[0], 20, 100);
	CHECK_EQ(braid_clock_wander(&clock, crossings, nr_crossings, 5000), -EBADMSG);
	braid_clock_free(&clock);
}

static void one_way(void)
{
	struct braid_clock clock;
	size_t k, nr = 0;

	run_clock(20, 10, 5000, wander_random);
	exchange(&networks[1], 20, 10);
	for (k = 0; k < nr_crossings; k++)
		if (crossings[k].later)
			crossings[nr++] = crossings[k];
	CHECK_EQ(braid_clock_wander(&clock, crossings, nr, 5000), -ENODATA);
	CHECK(*clock.reason);
	braid_clock_free(&clock);
	CHECK_EQ(braid_clock_wander(&clock, crossings, 0, 5000), -ENODATA);
	braid_clock_free(&clock);
}

/* No message for a minute: nothing is known in between. */
static void gap(void)
{
	s64 from = START_NS + 20000000000LL, to = from + 60000000000LL;
	s64 middle = from + 30000000000LL;
	struct braid_clock_time t;
	struct braid_clock clock;
	size_t k, nr = 0;

	run_clock(100, -20, 5000, wander_random);
	exchange(&networks[1], 100, 10);
	for (k = 0; k < nr_crossings; k++)
		if (crossings[k].ns < from || crossings[k].ns > to)
			crossings[nr++] = crossings[k];
	NEED(!braid_clock_wander(&clock, crossings, nr, 5000));
	CHECK_EQ(braid_clock_epochs(&clock), 2);
	t = braid_clock_convert(&clock, 0, other_at(middle), BRAID_TAKEN_UNKNOWN, 0);
	CHECK(t.bound_ns == BRAID_BOUND_UNKNOWN);
	t = braid_clock_convert(&clock, 0, other_at(from - 5000000000LL), BRAID_TAKEN_UNKNOWN, 0);
	CHECK(t.bound_ns < 1000000);
	t = braid_clock_convert(&clock, 0, other_at(to + 5000000000LL), BRAID_TAKEN_UNKNOWN, 0);
	CHECK(t.bound_ns < 1000000);
	braid_clock_free(&clock);
}

/* Any numbers, as a hostile peer states them: an answer, or a refusal. */
static void hostile(void)
{
	struct braid_clock clock;
	u32 round, k;
	int err;

	for (round = 0; round < 300; round++) {
		u64 wide = 1ULL << (round % 64);

		for (k = 0; k < 200; k++)
			crossings[k] = (struct braid_clock_crossing){
				(u64)(uniform() * wide), (s64)(u64)(uniform() * wide), k & 1,
			};
		err = braid_clock_wander(&clock, crossings, 200, round % 3 ? 30000 : 0);
		CHECK(!err || err == -ENODATA || err == -EBADMSG);
		if (!err)
			braid_clock_convert(&clock, 0, wide / 2, BRAID_TAKEN_UNKNOWN, 0);
		braid_clock_free(&clock);
	}
}

int main(void)
{
	RUN(truth);
	RUN(documented);
	RUN(steps);
	RUN(contradicts);
	RUN(one_way);
	RUN(gap);
	RUN(hostile);
	return VERDICT();
}
