// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Samples the host's clocks. Each sample is a read of the file's clock, of the other one and of the
 * file's again, so it is correct whatever the delays; of several the tightest are kept.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/clock_sync/sampler.h"
#include "host_agent/util/error.h"

#define TRIES		16
#define KEPT		4
#define START_NS	1000000000ULL	/* a short recording needs its samples soon */
#define START_STEP_NS	20000000ULL
#define EVEN_STEP_NS	1000000000ULL	/* of a clock that keeps its rate */
#define SLEWED_STEP_NS	100000000ULL	/* of one whose rate is adjusted under way */
#define ROUNDED_NS	500		/* tracefs reports µs, rounded */

enum how {
	BY_ID,		/* clock_gettime() */
	BY_COUNTER,	/* an instruction */
	BY_STATS,	/* reported by tracefs: the only access to sched_clock() with its offset */
};

struct known_clock {
	const char *name;
	enum how how;
	clockid_t id;		/* BY_ID: all of those are slewed */
};

static const struct known_clock realtime = { "realtime", BY_ID, CLOCK_REALTIME };

/* Its name is braid_host_counter_name(). */
static const struct known_clock counter = { .how = BY_COUNTER };

static const struct known_clock trace_clocks[] = {
	{ "mono", BY_ID, CLOCK_MONOTONIC },
	{ "boot", BY_ID, CLOCK_BOOTTIME },
	{ "tai", BY_ID, CLOCK_TAI },
#if defined(__x86_64__)
	{ .name = "x86-tsc", .how = BY_COUNTER },
#endif
	{ .name = "local", .how = BY_STATS },
	{ .name = "global", .how = BY_STATS },
	{ .name = "perf", .how = BY_STATS },
};

#define NR_TRACE_CLOCKS	(sizeof(trace_clocks) / sizeof(*trace_clocks))

struct sampled {
	const struct known_clock *clock;	/* NULL: not sampled */
	u64 due_ns;
};

struct braid_sampler {
	struct sampled clocks[BRAID_HOST_CLOCK_KINDS];	/* by enum braid_host_clock_kind */
	u64 start_ns;
	int stats_fd;
};

/* Reading ---------------------------------------------------------------------------------- */

/* "now ts: 24565.736243" of the stats. Return: false when it is not there. */
static bool read_stats(int fd, u64 *ns)
{
	unsigned long long seconds, us;
	char text[1024];
	const char *at;
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return false;
	text[n] = 0;
	at = strstr(text, "now ts:");
	if (!at || sscanf(at, "now ts: %llu.%6llu", &seconds, &us) != 2)
		return false;
	*ns = seconds * 1000000000 + us * 1000;
	return true;
}

static bool take_one(const struct braid_sampler *s, const struct known_clock *c,
		     struct braid_clock_sample *sample)
{
	bool good = true;

	sample->h1_ns = braid_host_clock_ns();
	if (c->how == BY_ID)
		sample->counter = braid_clock_read_ns(c->id);
	else if (c->how == BY_COUNTER)
		sample->counter = braid_host_counter();
	else
		good = read_stats(s->stats_fd, &sample->counter);
	sample->h2_ns = braid_host_clock_ns();
	if (c->how == BY_STATS) {
		sample->h1_ns -= ROUNDED_NS;
		sample->h2_ns += ROUNDED_NS;
	}
	return good;
}

/* Keeps the tightest, tightest first. Return: their number. */
static u32 sampler_take(const struct braid_sampler *s, const struct known_clock *c,
			struct braid_clock_sample *kept)
{
	struct braid_clock_sample one;
	u32 nr = 0, at, k;

	for (k = 0; k < TRIES; k++) {
		if (!take_one(s, c, &one))
			continue;
		for (at = nr; at && kept[at - 1].h2_ns - kept[at - 1].h1_ns >
				    one.h2_ns - one.h1_ns; at--)
			if (at < KEPT)
				kept[at] = kept[at - 1];
		if (at < KEPT)
			kept[at] = one;
		nr += nr < KEPT;
	}
	return nr;
}

/* Turns -------------------------------------------------------------------------------------- */

static int put_samples(const struct braid_sampler *s, struct braid_capture_writer *capture,
		       enum braid_host_clock_kind kind)
{
	struct braid_chunk_host_clock head = { .kind = kind };
	struct braid_clock_sample samples[KEPT];
	u32 nr = sampler_take(s, s->clocks[kind].clock, samples);

	if (!nr)
		return 0;
	snprintf(head.name, sizeof(head.name), "%s", kind == BRAID_HOST_CLOCK_COUNTER ?
		 braid_host_counter_name() : s->clocks[kind].clock->name);
	return braid_capture_put(capture, BRAID_CHUNK_HOST_CLOCK, 0, &head, sizeof(head), samples,
				 nr * sizeof(*samples));
}

int braid_sampler_turn(struct braid_sampler *s, struct braid_capture_writer *capture, bool last)
{
	u64 now_ns = braid_host_clock_ns(), step_ns;
	u32 kind;
	int err;

	if (!s->start_ns)
		s->start_ns = now_ns;
	for (kind = 0; kind < BRAID_HOST_CLOCK_KINDS; kind++) {
		struct sampled *c = &s->clocks[kind];

		if (!c->clock || (now_ns < c->due_ns && !last))
			continue;
		step_ns = c->clock->how == BY_ID ? SLEWED_STEP_NS : EVEN_STEP_NS;
		if (now_ns - s->start_ns < START_NS)
			step_ns = START_STEP_NS;
		c->due_ns = now_ns + step_ns;
		err = put_samples(s, capture, kind);
		if (err)
			return err;
	}
	return 0;
}

/* Opening ------------------------------------------------------------------------------------ */

static const struct known_clock *sampler_find(const char *name)
{
	size_t k;

	for (k = 0; k < NR_TRACE_CLOCKS; k++)
		if (!strcmp(trace_clocks[k].name, name))
			return &trace_clocks[k];
	return NULL;
}

int braid_sampler_check(const char *trace_clock)
{
	char known[256];
	size_t used = 0, k;

	if (!strcmp(trace_clock, BRAID_HOST_CLOCK) || sampler_find(trace_clock))
		return 0;
	for (k = 0; k < NR_TRACE_CLOCKS; k++)
		used += snprintf(known + used, sizeof(known) - used, ", %s", trace_clocks[k].name);
	return braid_fail(-EINVAL, "the host's trace clock '%s' cannot be merged; these can: "
			  BRAID_HOST_CLOCK "%s", trace_clock, known);
}

static int open_trace(struct braid_sampler *s, const char *name, const char *stats)
{
	const struct known_clock *clock = sampler_find(name);
	u64 ns;
	int err;

	if (!clock)	/* the file's own, or wrong */
		return braid_sampler_check(name);
	if (clock->how == BY_STATS) {
		s->stats_fd = open(stats, O_RDONLY | O_CLOEXEC);
		err = -errno;
		if (s->stats_fd < 0)
			return braid_fail(err, "cannot open '%s': %s", stats, strerror(-err));
		if (!read_stats(s->stats_fd, &ns))
			return braid_fail(-EPROTO, "'%s' contains no time: the host's trace clock '%s' cannot be merged",
					  stats, name);
	}
	s->clocks[BRAID_HOST_CLOCK_TRACE].clock = clock;
	return 0;
}

int braid_sampler_open(struct braid_sampler **out, const char *trace_clock, const char *stats)
{
	struct braid_sampler *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return braid_out_of_memory();
	s->stats_fd = -1;
	s->clocks[BRAID_HOST_CLOCK_COUNTER].clock = braid_host_counter_name() ? &counter : NULL;
	s->clocks[BRAID_HOST_CLOCK_REALTIME].clock = &realtime;
	err = trace_clock ? open_trace(s, trace_clock, stats) : 0;
	if (err) {
		braid_sampler_close(s);
		return err;
	}
	*out = s;
	return 0;
}

void braid_sampler_close(struct braid_sampler *s)
{
	if (!s)
		return;
	if (s->stats_fd >= 0)
		close(s->stats_fd);
	free(s);
}
