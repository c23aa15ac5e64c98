// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From an event to its line in `record --live`: while a guest writes all the time, beside one that
 * is idle, and of single events after a rest. And what it costs while two guests are idle.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/recorder.h"
#include "tests/bench/timing.h"
#include "tests/unit/fake_guest.h"
#include "tests/unit/need.h"

#define FLOW_RATE	200		/* events a second, of each of two vCPUs */
#define POLL_NS		1000000		/* the guest's: it writes what is due */
#define NR_FLOW		2000		/* lines */
#define NR_SINGLE	30
#define SINGLE_NS	300000000	/* between two of them, and a pseudorandom part */
#define REST_NS		8000000000	/* in which the agent's CPU time is measured */
#define SETTLE_NS	2000000000	/* the first clock samples */

static char dir[] = "/dev/shm/braid-bench-live.XXXXXX";
static char said[64];
static double ms[NR_FLOW];

static u64 raw_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/* The next line of an event: the time from it, in ms. */
static double next_delay(FILE *lines)
{
	static const char key[] = "\"ns\":";
	char line[4096], *at;

	for (;;) {
		NEED(fgets(line, sizeof(line), lines));
		at = strstr(line, key);
		if (!strncmp(line, "{\"type\":\"event\"", 15) && at)
			return ((double)raw_ns() - strtoull(at + strlen(key), NULL, 10)) / 1e6;
	}
}

static struct fake_guest *make_guest(const char *name, u64 rate)
{
	struct fake_params p = {
		.name = name, .bytes = 4 << 20, .nr_vcpus = 2, .subbuf_bytes = 65536,
		.nr_slots = 16, .always = true, .rate = rate, .poll_ns = POLL_NS,
		.flags = BRAID_BUFFER_OVERWRITE,
	};
	char path[64];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return fake_guest_new(path, &p);
}

static void print(const char *name, size_t nr)
{
	double middle = median(ms, nr);

	printf("live_%s_median\t%.2f\tms\n", name, middle);
	printf("live_%s_99\t%.2f\tms\n", name, ms[nr * 99 / 100]);
}

/* @rate: 0: single events */
static void measure(const char *name, u64 rate)
{
	struct fake_guest *guests[] = { make_guest("writes", rate), make_guest("idle", 0) };
	size_t nr = rate ? NR_FLOW : NR_SINGLE, k;
	FILE *lines;
	pid_t agent;

	if (is_short())
		nr /= 10;
	for (k = 0; k < 2; k++)
		fake_guest_start_thread(guests[k]);
	agent = recorder_live(guests[0]->path, guests[1]->path, &lines, said);
	recorder_await(said);
	sleep_ns(is_short() ? 0 : SETTLE_NS);
	for (k = 0; rate && k < nr / 2; k++)	/* those of meanwhile */
		next_delay(lines);
	for (k = 0; k < nr; k++) {
		if (!rate) {
			sleep_ns(SINGLE_NS + k * 7919 % 20 * 1000000);
			__atomic_fetch_add(&guests[0]->ctl->burst, 1, __ATOMIC_RELEASE);
			next_delay(lines);	/* of the other vCPU */
		}
		ms[k] = next_delay(lines);
	}
	print(name, nr);
	recorder_stop(agent);
	fclose(lines);
	unlink(said);		/* the next recorder has said nothing yet */
	for (k = 0; k < 2; k++)
		fake_guest_free(guests[k]);
}

/* The share of a core that the recorder and its viewer take while two guests are idle. */
static void measure_rest(void)
{
	struct fake_guest *guests[] = { make_guest("one", 0), make_guest("two", 0) };
	u64 cpu_ns, start_ns;
	FILE *lines;
	pid_t agent;
	size_t k;

	for (k = 0; k < 2; k++)
		fake_guest_start_thread(guests[k]);
	agent = recorder_live(guests[0]->path, guests[1]->path, &lines, said);
	recorder_await(said);
	sleep_ns(is_short() ? 0 : SETTLE_NS);
	cpu_ns = recorder_cpu_ns(agent);
	start_ns = monotonic_ns();
	sleep_ns(is_short() ? SINGLE_NS : REST_NS);
	printf("live_at_rest\t%.2f\tpercent of a core\n",
	       100.0 * (recorder_cpu_ns(agent) - cpu_ns) / (monotonic_ns() - start_ns));
	recorder_stop(agent);
	fclose(lines);
	for (k = 0; k < 2; k++)
		fake_guest_free(guests[k]);
	unlink(said);
}

int main(void)
{
	NEED(mkdtemp(dir));
	snprintf(said, sizeof(said), "%s/said", dir);
	measure("flow", FLOW_RATE);
	measure("single", 0);
	measure_rest();
	rmdir(dir);
	return 0;
}
