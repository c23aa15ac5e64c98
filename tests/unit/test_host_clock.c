// SPDX-License-Identifier: GPL-2.0-or-later
/* A host's trace with another clock than the file's: its times are converted correctly. */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/clock_sync/sampler.h"
#include "host_agent/live/tracefs.h"
#include "host_agent/trace/source.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/report_text.h"

#define CALLS		300u
#define BUFFER_KB	(32 << 10)	/* so that all of a busy machine's system calls fit */
#define MONO_AHEAD_NS	7000000000ULL

static char path[64];

/* The times between which a system call was made. */
static struct { u64 h1, h2; } made[CALLS];

static void record(const char *clock)
{
	struct braid_chunk_file head = { .version_major = BRAID_CAPTURE_MAJOR, .clock = "mono_raw" };
	struct braid_pattern pattern;
	struct braid_live_sink sink = { .next_stream = 1 };
	struct braid_tracefs_options o = {
		.sink = &sink, .patterns = &pattern, .nr_patterns = 1, .clock = clock,
		.buffer_kb = BUFFER_KB,
	};
	struct braid_tracefs_source *s;
	struct braid_sampler *sampler;
	u32 k;

	NEED(!braid_capture_create(&sink.capture, path, &head));
	NEED(!braid_pattern_parse(&pattern, "raw_syscalls:sys_enter"));
	NEED(!braid_tracefs_source_open(&s, &o));
	NEED(!braid_sampler_open(&sampler, clock, braid_tracefs_source_stats(s)));
	NEED(!braid_sampler_turn(sampler, sink.capture, false));
	NEED(!braid_tracefs_source_start(s));
	for (k = 0; k < CALLS; k++) {
		made[k].h1 = braid_host_clock_ns();
		syscall(SYS_getppid);
		made[k].h2 = braid_host_clock_ns();
		if (k % 10)
			continue;
		braid_sleep_ns(5000000);
		NEED(braid_tracefs_source_poll(s) >= 0);
		NEED(!braid_sampler_turn(sampler, sink.capture, false));
	}
	NEED(!braid_tracefs_source_finish(s));
	NEED(!braid_sampler_turn(sampler, sink.capture, true));
	braid_sampler_close(sampler);
	braid_tracefs_source_close(s);
	NEED(!braid_capture_finish(sink.capture));
}

/* Our calls are in the trace, each at a possible time; none is missing without a counted loss. */
static void check_calls(const struct braid_source *source)
{
	const struct braid_stream *host = source->streams[0];
	u64 calls = 0, lost = 0;
	size_t k;

	CHECK(host->bound_ns < 50000);
	for (k = 0; k < host->nr_rings; k++) {
		struct braid_ring *ring = host->rings[k];
		const struct braid_item *i = &ring->item;
		struct braid_record record;
		u64 number;
		u32 at;

		while (braid_ring_next(ring) > 0) {
			if (i->kind != BRAID_ITEM_EVENT || i->payload_bytes < 16)
				continue;
			memcpy(&record, i->payload, sizeof(record));
			memcpy(&number, i->payload + sizeof(record), sizeof(number));
			if (record.common_pid != getpid() || number != SYS_getppid)
				continue;
			CHECK(i->bound_ns <= host->bound_ns + 1);	/* rounded */
			for (at = 0; at < CALLS; at++)
				if (i->host_ns + i->bound_ns >= made[at].h1 &&
				    i->host_ns - i->bound_ns <= made[at].h2)
					break;
			CHECK(at < CALLS);
			calls++;
		}
		lost += ring->walk.lost;
	}
	CHECK(calls && calls <= CALLS);
	CHECK(calls + lost >= CALLS);
}

static void recorded(void)
{
	static const char *const clocks[] = {
		"mono_raw", "mono", "boot", "tai", "local", "global", "perf",
#if defined(__x86_64__)
		"x86-tsc",
#endif
	};
	struct braid_source *source;
	char *names[] = { path };
	size_t k;

	for (k = 0; k < sizeof(clocks) / sizeof(*clocks); k++) {
		record(clocks[k]);
		NEED(!braid_source_open_captures(&source, names, 1, NULL));
		CHECK(!strcmp(source->clocks.trace_name, k ? clocks[k] : ""));
		check_calls(source);
		braid_source_free(source);
	}
}

/* The header names the clock and its bound. */
static void header(void)
{
	struct braid_capture_writer *w = synth_capture(path);
	char *text;

	synth_host_clock(w, BRAID_HOST_CLOCK_TRACE, "mono", MONO_AHEAD_NS);
	synth_host(w, 1, 3, SYNTH_START_NS + MONO_AHEAD_NS, 1000);
	NEED(!braid_capture_finish(w));
	text = report_text(path, false, NULL, NULL);
	CHECK(strstr(text, "clock mono_raw\n"));
	CHECK(strstr(text, "4 CPUs, clock mono, bound ≤ "));
	CHECK(strstr(text, "qemu-55      [001]   1000.000001000: tock:                  count=1\n"));
	free(text);
	text = report_text(path, true, NULL, NULL);
	CHECK(strstr(text, "\"clock\":\"host\",\"bound_ns\":"));
	CHECK(strstr(text, ",\"trace_clock\":\"mono\""));
	CHECK(strstr(text, "\"ns\":1000000001000,"));
	free(text);
}

int main(void)
{
	snprintf(path, sizeof(path), "/tmp/braid-host-clock-%d", getpid());
	RUN(header);
	if (braid_tracefs_check(NULL, 0, true, NULL))
		printf("skip: %s\n", braid_failure());
	else
		RUN(recorded);
	unlink(path);
	return VERDICT();
}
