// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Captures of two hosts by what their daemons declare of the time: the truth within each bound; or
 * a refusal. A source that contradicts another one, or what is proven, is named.
 */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/trace/merge.h"
#include "host_agent/trace/source.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"

#define SECONDS		12u
#define AHEAD_NS	777000000000LL	/* of the other host's clock */
#define UTC_NS		1800000000000000000LL	/* at the start */
#define EVENTS		200u
#define POINTS		20000u

static const double ppm[2] = { 35, -17 };	/* of each host's clock, against UTC */
static char paths[2][64];
static char *both[2] = { paths[0], paths[1] };
static u64 state = 1, nr_checks;

static double uniform(void)
{
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (double)(state >> 11) / (double)(1ULL << 53);
}

/* A host's clock at ns after the start, of UTC. */
static u64 clock_at(u32 host, double ns)
{
	return SYNTH_START_NS + (host ? AHEAD_NS : 0) + (u64)(s64)(ns * (1 + ppm[host] / 1e6));
}

/* What a source declares, once a second. */
struct declares {
	u32 kind;
	double error_ns;	/* it is off by up to this, and says so; */
	double lie_ns;		/* and by that, and does not */
	u32 flags;		/* of all, or ... */
	u32 until;		/* ... of those before this second */
	double step_ns;		/* it steps by that after half of the time */
};

static void put_declared(struct braid_capture_writer *w, u32 host, const struct declares *d)
{
	struct braid_declared_time t = { .kind = d->kind };
	u32 k;

	for (k = 0; k < SECONDS; k++) {
		double at = k * 1e9 + uniform() * 1e8;

		t.h1_ns = clock_at(host, at) - (u64)(uniform() * 300);
		t.h2_ns = clock_at(host, at) + (u64)(uniform() * 300);
		t.bound_ns = (u64)d->error_ns;
		t.time_ns = UTC_NS + (u64)(s64)(at + (2 * uniform() - 1) * d->error_ns +
						d->lie_ns + (k >= SECONDS / 2 ? d->step_ns : 0));
		t.flags = !d->until || k < d->until ? d->flags : 0;
		NEED(!braid_capture_put(w, BRAID_CHUNK_DECLARED, 0, &t, sizeof(t), NULL, 0));
	}
}

static void put_crossings(struct braid_capture_writer *w, u32 host)
{
	struct braid_peer_crossing c[2] = { { .flags = host ? 0 : BRAID_CROSSING_TO },
					    { .flags = host ? BRAID_CROSSING_TO : 0 } };
	u64 ns;

	for (ns = 0; ns < SECONDS * 1000000000ULL; ns += 100000000) {
		u64 there = ns + 30000, back = there + 35000;

		c[0].own_ns = clock_at(host, host ? there : ns);
		c[0].peer_ns = clock_at(!host, host ? ns : there);
		c[1].own_ns = clock_at(host, host ? there : back);
		c[1].peer_ns = clock_at(!host, host ? back : there);
		synth_peer(w, host ? 1 : 2, c, 2);
	}
}

static void make(u32 host, const struct declares *declares, u32 nr, bool contact)
{
	struct braid_chunk_window edge = {
		.edge = BRAID_WINDOW_START, .host_ns = clock_at(host, 0),
	};
	struct braid_capture_writer *w = synth_capture_of(paths[host], host ? "beta" : "alpha",
							  host ? 2 : 1, edge.host_ns);
	u32 k;

	NEED(!braid_capture_put(w, BRAID_CHUNK_WINDOW, 0, &edge, sizeof(edge), NULL, 0));
	synth_host(w, 1, EVENTS, edge.host_ns + 1000000, SECONDS * 1000000000ULL / EVENTS - 10000);
	for (k = 0; k < nr; k++)
		put_declared(w, host, &declares[k]);
	if (contact)
		put_crossings(w, host);
	edge.edge = BRAID_WINDOW_STOP;
	edge.host_ns = clock_at(host, SECONDS * 1e9);
	NEED(!braid_capture_put(w, BRAID_CHUNK_WINDOW, 0, &edge, sizeof(edge), NULL, 0));
	NEED(!braid_capture_finish(w));
}

#define BY(name, ns)	.kind = BRAID_DECLARED_##name, .error_ns = ns

#define MAKE(host, contact, ...)							\
	do {										\
		const struct declares list[] = { __VA_ARGS__ };				\
											\
		make(host, list, sizeof(list) / sizeof(*list), contact);		\
	} while (0)

/* The other host's times are within their bounds. @lies: of either host; NULL: none. */
static void check_merged(const char *reason, const char *lies, const char *first_lies)
{
	struct braid_source *source;
	const struct braid_host *host;
	struct braid_clock_time t;
	u64 worst = 0;
	u32 k;

	NEED(!braid_source_open_captures(&source, both, 2, NULL));
	CHECK_EQ(source->nr_hosts, 2);
	host = source->hosts[1];
	CHECK(!strcmp(host->tie.reason, reason));
	CHECK_EQ(host->declared, !strncmp(reason, "declared", 8));
	CHECK(!strcmp(host->lies, lies ? lies : ""));
	CHECK(!strcmp(source->hosts[0]->lies, first_lies ? first_lies : ""));
	for (k = 0; k < POINTS; k++) {
		double at = SECONDS * 1e9 * uniform();

		t = braid_clock_convert(&host->tie, 0, clock_at(1, at), BRAID_TAKEN_UNKNOWN, 0);
		CHECK(fabs((double)(t.ns - (s64)clock_at(0, at))) <= (double)t.bound_ns + 2);
		worst = t.bound_ns > worst ? t.bound_ns : worst;
		nr_checks++;
	}
	CHECK(worst <= host->bound_ns + 20000 && worst < 30000000);
	braid_source_free(source);
}

static void declared(void)
{
	u32 k;

	for (k = 0; k < 10; k++) {
		MAKE(0, false, { BY(CHRONY, 100000) });
		MAKE(1, false, { BY(CHRONY, 2000000) });
		check_merged("declared by chrony", NULL, NULL);
	}
	/* The one with the least error is used. */
	MAKE(0, false, { BY(NTP, 5000000) }, { BY(PTP, 1000) });
	MAKE(1, false, { BY(VMCLOCK, 30000) }, { BY(NTP, 9000000) });
	check_merged("declared by vmclock of beta and PTP of alpha", NULL, NULL);
	/* Distrusted for a while. */
	MAKE(1, false, { BY(CHRONY, 100000), .lie_ns = 1e9,
			 .flags = BRAID_DECLARED_UNCONFIRMED },
	     { BY(NTP, 700000) });
	check_merged("declared by NTP of beta and PTP of alpha", NULL, NULL);
}

static void refuse(const char *why)
{
	struct braid_source *source;

	CHECK_EQ(braid_source_open_captures(&source, both, 2, NULL), -EXDEV);
	if (!strstr(braid_failure(), why))
		printf("'%s', not '%s'\n", braid_failure(), why);
	CHECK(strstr(braid_failure(), why));
}

static void refused(void)
{
	MAKE(0, false, { BY(CHRONY, 100000) });
	make(1, NULL, 0, false);
	refuse("they exchanged no times, and no daemon of beta declares its time; record with");
	MAKE(1, false, { BY(NTP, 0), .flags = BRAID_DECLARED_UNSYNCHRONIZED });
	refuse("and NTP of beta is not synchronized;");
	MAKE(1, false, { BY(NTP, 0), .flags = BRAID_DECLARED_NO_ERROR });
	refuse("and NTP of beta states no error;");
	MAKE(1, false, { BY(CHRONY, 1000), .flags = BRAID_DECLARED_UNCONFIRMED });
	refuse("and chrony of beta has not measured since the clock was set or disrupted;");
	/* One that steps is no clock. */
	MAKE(1, false, { BY(CHRONY, 1000), .step_ns = 400000000 });
	refuse("and on beta chrony lies: it contradicts itself;");
	/* Of two that contradict each other neither is used. */
	MAKE(1, false, { BY(CHRONY, 1000) }, { BY(NTP, 1000), .lie_ns = 1e6 });
	refuse("and on beta chrony or NTP of beta lies: they contradict each other");
	make(0, NULL, 0, false);
	MAKE(1, false, { BY(CHRONY, 1000) });
	refuse("and no daemon of alpha declares its time;");
}

static void liars(void)
{
	const char *proven = "proven given wander 30 µs/s";

	/* What agrees changes nothing. */
	MAKE(0, true, { BY(CHRONY, 100000) });
	MAKE(1, true, { BY(CHRONY, 100000) }, { BY(NTP, 100000) });
	check_merged(proven, NULL, NULL);
	/* One against two. */
	MAKE(1, true, { BY(CHRONY, 100000), .lie_ns = 5e6 },
	     { BY(NTP, 200000) });
	check_merged(proven, "chrony lies: it contradicts NTP of beta", NULL);
	MAKE(0, true, { BY(CHRONY, 100000) }, { BY(NTP, 100000) });
	MAKE(1, true, { BY(CHRONY, 100000), .lie_ns = -5e6 });
	check_merged(proven, "chrony lies: by the proven clock it contradicts NTP of alpha", NULL);
	/* One against one. */
	MAKE(0, true, { BY(CHRONY, 100000) });
	check_merged(proven, "chrony or chrony of alpha lies: they contradict the proven clock",
		     "chrony or chrony of beta lies: they contradict the proven clock");
	/* Without contact what the liar says is not used either, but nothing shows that it lies. */
	MAKE(0, false, { BY(NTP, 100000) }, { BY(PTP, 90000) },
	     { BY(CHRONY, 1000), .lie_ns = 5e6 });
	MAKE(1, false, { BY(CHRONY, 100000) });
	check_merged("declared by chrony of beta and PTP of alpha", NULL,
		     "chrony lies: it contradicts NTP of alpha");
}

/* Any numbers: an answer, or a refusal. */
static void hostile(void)
{
	struct braid_chunk_window edge = { .edge = BRAID_WINDOW_START, .host_ns = SYNTH_START_NS };
	struct braid_source *source;
	u32 round, k, n;

	for (round = 0; round < 60; round++) {
		u64 wide = 1ULL << (round + 4);

		for (n = 0; n < 2; n++) {
			struct braid_capture_writer *w = synth_capture_of(paths[n], "x", n + 1,
									  SYNTH_START_NS);

			NEED(!braid_capture_put(w, BRAID_CHUNK_WINDOW, 0, &edge, sizeof(edge), NULL,
						0));
			for (k = 0; k < 60; k++) {
				struct braid_declared_time t = {
					.h1_ns = (u64)(uniform() * wide),
					.time_ns = (u64)(uniform() * wide),
					.bound_ns = (u64)(uniform() * wide),
					.kind = (u32)(uniform() * 6),
					.flags = uniform() < 0.1 ? (u32)(uniform() * 255) : 0,
				};

				t.h2_ns = t.h1_ns + (k % 5 ? k : (u64)(uniform() * wide));
				NEED(!braid_capture_put(w, BRAID_CHUNK_DECLARED, 0, &t, sizeof(t),
							NULL, 0));
			}
			NEED(!braid_capture_finish(w));
		}
		if (!braid_source_open_captures(&source, both, 2, NULL))
			braid_source_free(source);
	}
	CHECK(true);
}

int main(void)
{
	u32 k;

	for (k = 0; k < 2; k++)
		snprintf(paths[k], sizeof(paths[k]), "/tmp/declared_hosts.%d.%u", (int)getpid(), k);
	RUN(declared);
	RUN(refused);
	RUN(liars);
	RUN(hostile);
	printf("%llu checks\n", (unsigned long long)nr_checks);
	for (k = 0; k < 2; k++)
		unlink(paths[k]);
	return VERDICT();
}
