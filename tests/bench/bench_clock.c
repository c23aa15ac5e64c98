// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The cost of the clocks of ten idle guests: recorders with and without the exchange, side
 * by side, each with ten guests of its own, which poll their region as often as a driver does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/live/region.h"
#include "tests/bench/timing.h"
#include "tests/unit/fake_guest.h"
#include "tests/unit/need.h"

#define NR_GUESTS	10
#define POLL_NS		20000000	/* a driver's, while an agent is present */
#define STEP_NS		1000000ULL	/* as the recorder's own loop: short under load, ... */
#define STEP_MAX_NS	20000000ULL	/* ... up to this when idle */
#define SETTLE_S	15		/* the first bursts are over: an idle interval is 8 s */
#define MEASURE_S	24		/* three of these */

int main(void);

/* One recorder, with guests of its own. */
struct variant {
	const char *name;
	bool exchange;
	u32 counter_type;
	struct fake_guest *guests[NR_GUESTS];
	pid_t pid;
	int result;		/* a pipe's end */
};

static double cpu_seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
	       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Runs the recorder's loop for @seconds. */
static void turn(struct braid_region_source **sources, struct braid_capture_writer *capture,
		 u64 seconds)
{
	u64 end_ns = monotonic_ns() + seconds * 1000000000, step_ns = STEP_NS;
	int k, ret, most;

	while (monotonic_ns() < end_ns) {
		u64 before = braid_capture_bytes(capture);
		struct timespec step;

		for (k = 0, most = BRAID_POLL_IDLE; k < NR_GUESTS; k++) {
			ret = braid_region_source_poll(sources[k]);
			NEED(ret >= 0);
			most = ret > most ? ret : most;
		}
		if (braid_capture_bytes(capture) != before)
			NEED(!braid_capture_flush(capture));
		step_ns = most != BRAID_POLL_IDLE ? STEP_NS :
			  2 * step_ns < STEP_MAX_NS ? 2 * step_ns : STEP_MAX_NS;
		step = (struct timespec){ .tv_nsec = step_ns };
		nanosleep(&step, NULL);
	}
}

/* The share of a core that recording a variant's idle guests takes. */
static double record(const struct variant *v, const char *path)
{
	const struct braid_chunk_file head = {
		.version_major = BRAID_CAPTURE_MAJOR, .version_minor = BRAID_CAPTURE_MINOR,
		.clock = "mono_raw",
	};
	struct braid_live_sink sink = { .next_stream = 1 };
	struct braid_region_source *sources[NR_GUESTS];
	struct braid_exchange *exchange = NULL;
	double before, share;
	u64 start_ns;
	int k;

	NEED(!braid_capture_create(&sink.capture, path, &head));
	if (v->exchange)
		NEED(!braid_exchange_start(&exchange));
	for (k = 0; k < NR_GUESTS; k++) {
		struct braid_region_options o = {
			.path = v->guests[k]->path, .sink = &sink, .exchange = exchange,
		};

		NEED(!braid_region_source_open(&sources[k], &o));
	}
	turn(sources, sink.capture, is_short() ? 0 : SETTLE_S);
	before = cpu_seconds();
	start_ns = monotonic_ns();
	turn(sources, sink.capture, is_short() ? 1 : MEASURE_S);
	share = (cpu_seconds() - before) / ((monotonic_ns() - start_ns) / 1e9);
	for (k = 0; k < NR_GUESTS; k++)
		braid_region_source_close(sources[k]);
	braid_exchange_stop(exchange);
	NEED(!braid_capture_finish(sink.capture));
	unlink(path);
	return share;
}

static void start(struct variant *v)
{
	char path[64], name[16];
	int fds[2], k;
	double share;

	for (k = 0; k < NR_GUESTS; k++) {
		struct fake_params p = {
			.name = name, .bytes = 4 << 20, .nr_vcpus = 2, .subbuf_bytes = 4096,
			.nr_slots = 64, .poll_ns = POLL_NS, .counter_type = v->counter_type,
		};

		snprintf(name, sizeof(name), "rest%d", k);
		snprintf(path, sizeof(path), "/tmp/braid-bench-%d-%s-%d", getpid(), v->name, k);
		v->guests[k] = fake_guest_new(path, &p);
		fake_guest_start_process(v->guests[k]);
	}
	NEED(!pipe(fds));
	v->pid = fork();
	NEED(v->pid >= 0);
	if (!v->pid) {
		snprintf(path, sizeof(path), "/tmp/braid-bench-%d-%s", getpid(), v->name);
		share = record(v, path);
		NEED(write(fds[1], &share, sizeof(share)) == sizeof(share));
		_exit(0);
	}
	close(fds[1]);
	v->result = fds[0];
}

static double stop(struct variant *v)
{
	double share = -1;
	int k;

	NEED(read(v->result, &share, sizeof(share)) == sizeof(share));
	waitpid(v->pid, NULL, 0);
	for (k = 0; k < NR_GUESTS; k++)
		fake_guest_free(v->guests[k]);
	return 100 * share;
}

int main(void)
{
	struct variant off = { .name = "off" };
	struct variant on = { .name = "on", .exchange = true };
	struct variant emulated = { .name = "emulated", .exchange = true,
				    .counter_type = BRAID_COUNTER_TSC_EMULATED };
	double without, with, with_emulated;

	start(&off);
	start(&on);
	start(&emulated);
	without = stop(&off);
	with = stop(&on);
	with_emulated = stop(&emulated);
	printf("agent_at_rest_ten_guests_without_exchange\t%.2f\tpercent of a core\n", without);
	printf("clock_exchange_ten_guests\t%.2f\tpercent of a core\n", with - without);
	printf("clock_exchange_ten_emulated_guests\t%.2f\tpercent of a core\n",
	       with_emulated - without);
	return 0;
}
