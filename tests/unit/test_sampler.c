// SPDX-License-Identifier: GPL-2.0-or-later
/* The host's clocks as sampled by a recording: correct, tight, no more often than needed. */
#include <errno.h>
#include <string.h>
#include <tracefs.h>
#include <unistd.h>

#include "host_agent/clock_model/timeline.h"
#include "host_agent/clock_sync/host.h"
#include "host_agent/clock_sync/sampler.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

#define MAX_SAMPLES	2000u
#define TURNS_NS	300000000ULL	/* long enough for a fit */

static char path[64];

/* The samples of one clock in a capture. */
struct found {
	u32 chunks;
	u32 nr;
	char name[24];
	struct braid_round_trip samples[MAX_SAMPLES];
};

static struct found found[BRAID_HOST_CLOCK_KINDS];

static struct braid_capture_writer *begin(void)
{
	struct braid_chunk_file head = { .version_major = BRAID_CAPTURE_MAJOR, .clock = "mono_raw" };
	struct braid_capture_writer *w;

	NEED(!braid_capture_create(&w, path, &head));
	return w;
}

static void take_chunk(const struct braid_chunk_view *v)
{
	struct braid_chunk_host_clock head;
	struct found *f;
	u32 at;

	CHECK_EQ(v->stream, 0);
	memcpy(&head, v->payload, sizeof(head));
	NEED(head.kind && head.kind < BRAID_HOST_CLOCK_KINDS);
	f = &found[head.kind];
	f->chunks++;
	strcpy(f->name, head.name);
	CHECK_EQ((v->bytes - sizeof(head)) / sizeof(struct braid_clock_sample), 4);
	for (at = sizeof(head); at < v->bytes && f->nr < MAX_SAMPLES;
	     at += sizeof(f->samples[0].s)) {
		struct braid_clock_sample *s = &f->samples[f->nr++].s;

		memcpy(s, v->payload + at, sizeof(*s));
		CHECK(s->h1_ns <= s->h2_ns);
	}
}

static void end(struct braid_capture_writer *w)
{
	struct braid_capture_reader *r;
	struct braid_chunk_file head;
	struct braid_chunk_view v;

	memset(found, 0, sizeof(found));
	NEED(!braid_capture_finish(w));
	NEED(!braid_capture_open(&r, path, &head));
	while (braid_capture_next(r, &v) > 0)
		if (v.type == BRAID_CHUNK_HOST_CLOCK)
			take_chunk(&v);
	braid_capture_close(r);
}

/* Samples for some time, with @trace as the trace's clock. */
static int sample(const char *trace, const char *stats)
{
	struct braid_capture_writer *w = begin();
	u64 start_ns = braid_host_clock_ns();
	struct braid_sampler *s;
	int err = braid_sampler_open(&s, trace, stats);

	if (!err) {
		while (braid_host_clock_ns() - start_ns < TURNS_NS) {
			CHECK_EQ(braid_sampler_turn(s, w, false), 0);
			braid_sleep_ns(1000000);
		}
		CHECK_EQ(braid_sampler_turn(s, w, true), 0);
		braid_sampler_close(s);
	}
	end(w);
	return err;
}

/* A clock fitted to the samples agrees with the clock itself. */
static void check_fit(enum braid_host_clock_kind kind, clockid_t id, u64 bound_ns)
{
	struct braid_clock_inputs in = {
		.counter_hz = 1000000000, .nr_vcpus = 1, .round_trips = found[kind].samples,
		.nr_round_trips = found[kind].nr,
	};
	u64 h1 = braid_host_clock_ns(), value = braid_clock_read_ns(id), h2 = braid_host_clock_ns();
	struct braid_clock clock;
	struct braid_clock_time t;

	NEED(!braid_clock_fit(&clock, &in));
	CHECK_EQ(clock.tracks[0].nr_epochs, 1);
	CHECK(braid_clock_worst_bound(&clock, 0) <= bound_ns);
	t = braid_clock_convert(&clock, 0, value, BRAID_TAKEN_UNKNOWN, 0);
	CHECK(t.ns + (s64)t.bound_ns >= (s64)h1 && t.ns - (s64)t.bound_ns <= (s64)h2);
	braid_clock_free(&clock);
}

static void clocks(void)
{
	static const struct {
		const char *name;
		clockid_t id;
	} slewed[] = { { "mono", CLOCK_MONOTONIC }, { "boot", CLOCK_BOOTTIME }, { "tai", CLOCK_TAI } };
	size_t k;

	for (k = 0; k < sizeof(slewed) / sizeof(*slewed); k++) {
		CHECK_EQ(braid_sampler_check(slewed[k].name), 0);
		NEED(!sample(slewed[k].name, NULL));
		CHECK(!strcmp(found[BRAID_HOST_CLOCK_TRACE].name, slewed[k].name));
		check_fit(BRAID_HOST_CLOCK_TRACE, slewed[k].id, 10000);
		CHECK(!strcmp(found[BRAID_HOST_CLOCK_REALTIME].name, "realtime"));
		check_fit(BRAID_HOST_CLOCK_REALTIME, CLOCK_REALTIME, 10000);
	}
}

/* At the start, every 20 ms, at the end: not at every turn. */
static void rhythm(void)
{
	NEED(!sample(NULL, NULL));
	CHECK(found[BRAID_HOST_CLOCK_REALTIME].chunks >= 2);
	CHECK(found[BRAID_HOST_CLOCK_REALTIME].chunks <= TURNS_NS / 20000000 + 2);
	CHECK_EQ(found[BRAID_HOST_CLOCK_TRACE].chunks, 0);
	NEED(!sample("mono_raw", NULL));
	CHECK_EQ(found[BRAID_HOST_CLOCK_TRACE].chunks, 0);
}

#ifdef __x86_64__
#define ON_X86	true
#else
#define ON_X86	false
#endif

/* The counter is sampled only if the host uses it for timekeeping. */
static void counter(void)
{
	char name[64] = "";
	FILE *f = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
	struct braid_clock_inputs in = { .nr_vcpus = 1 };
	struct found *c = &found[BRAID_HOST_CLOCK_COUNTER];
	struct braid_clock clock;

	if (f && !fgets(name, sizeof(name), f))
		*name = 0;
	if (f)
		fclose(f);
	NEED(!sample(NULL, NULL));
	/* An agent of arm64 under qemu-user finds x86's there. */
	if (strcmp(name, "tsc\n") || !ON_X86) {
		CHECK(!c->nr || !strcmp(c->name, "cntvct"));
		return;
	}
	CHECK(!strcmp(c->name, "tsc"));
	in.round_trips = c->samples;
	in.nr_round_trips = c->nr;
	NEED(!braid_clock_fit(&clock, &in));
	CHECK_EQ(clock.tracks[0].nr_epochs, 1);
	CHECK(braid_clock_worst_bound(&clock, 0) <= 10000);
	braid_clock_free(&clock);
}

static void refused(void)
{
	CHECK_EQ(braid_sampler_check("uptime"), -EINVAL);
	CHECK(strstr(braid_failure(), "'uptime'") && strstr(braid_failure(), "mono_raw, mono, boot"));
	CHECK_EQ(braid_sampler_check("counter"), -EINVAL);
	CHECK_EQ(braid_sampler_check("mono_raw"), 0);
	CHECK_EQ(sample("local", "/nonexistent"), -ENOENT);
	CHECK_EQ(sample("local", "/dev/null"), -EPROTO);
}

/* The clock available only from tracefs, against its events. */
static void local(void)
{
	struct tracefs_instance *instance;
	char *stats, name[32];

	snprintf(name, sizeof(name), "tracebraid-test-%d", getpid());
	instance = tracefs_instance_create(name);
	if (!instance) {
		printf("skip: no tracefs instance can be made\n");
		return;
	}
	NEED(tracefs_instance_file_write(instance, "trace_clock", "mono") > 0);
	stats = tracefs_instance_get_file(instance, "per_cpu/cpu0/stats");
	/* It is declared as local but is mono, so that it can be compared with mono. */
	CHECK_EQ(sample("local", stats), 0);
	CHECK(!strcmp(found[BRAID_HOST_CLOCK_TRACE].name, "local"));
	check_fit(BRAID_HOST_CLOCK_TRACE, CLOCK_MONOTONIC, 50000);
	tracefs_put_tracing_file(stats);
	tracefs_instance_destroy(instance);
	tracefs_instance_free(instance);
}

int main(void)
{
	snprintf(path, sizeof(path), "/tmp/braid-sampler-%d", getpid());
	RUN(clocks);
	RUN(rhythm);
	RUN(counter);
	RUN(refused);
	RUN(local);
	unlink(path);
	return VERDICT();
}
