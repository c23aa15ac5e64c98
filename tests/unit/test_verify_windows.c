// SPDX-License-Identifier: GPL-2.0-or-later
/* What `verify` and --clock-source=windows say of a guest's clock in a capture with kvm events. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/memory_trace.h"
#include "tests/unit/need.h"
#include "tests/unit/run_command.h"
#include "tests/unit/scratch.h"

#define THREAD		70
#define NR_WINDOWS	40u
#define EVERY_NS	1000000u	/* a window begins ... */
#define WINDOW_NS	100000u		/* ... and lasts so long; the guest's event is in its middle */
#define FIRST_NS	2000000u
#define EVENT_BYTES	64u

static char *path;

/* A guest's clock by the exchange, and what the host recorded. */
struct how {
	s64 wrong_ns;		/* the samples are later than the truth by this */
	u64 bound_ns;		/* half of their width */
	bool without_kvm;
};

/* One event of the host's CPU 0, in a page of its own. */
static void host_event(struct braid_capture_writer *w, u64 ns, u16 id, s32 next)
{
	struct braid_record record = { .common_type = id, .common_pid = next ? 0 : THREAD };
	struct braid_chunk_host_page head = { .cpu = 0, .bytes = 4096 };
	u32 word = EVENT_BYTES / 4;
	u64 commit = 4 + EVENT_BYTES;
	u8 page[4096] = { 0 };

	ns += SYNTH_START_NS;
	memcpy(page, &ns, 8);
	memcpy(page + 8, &commit, 8);
	memcpy(page + 16, &word, 4);
	memcpy(page + 20, &record, sizeof(record));
	if (next)
		memcpy(page + 20 + 40, &next, 4);
	NEED(!braid_capture_put(w, BRAID_CHUNK_HOST_PAGE, 2, &head, sizeof(head), page,
				sizeof(page)));
}

static void host_begin(struct braid_capture_writer *w, const struct how *how)
{
	struct braid_chunk_stream head = {
		.kind = BRAID_STREAM_HOST, .nr_cpus = 1, .subbuf_bytes = 4096,
		.host_ns = SYNTH_START_NS, .name = "host",
	};
	u32 k;

	NEED(!braid_capture_put(w, BRAID_CHUNK_STREAM, 2, &head, sizeof(head), NULL, 0));
	for (k = 0; k < MEMORY_FORMATS; k++) {
		const struct braid_event_format *f = &memory_formats[k];
		struct braid_chunk_text text = { .kind = BRAID_TEXT_FORMAT };
		char room[4096];
		int bytes;

		if (how->without_kvm && !strcmp(f->system, "kvm"))
			continue;
		snprintf(text.name, sizeof(text.name), "%s", f->system);
		bytes = snprintf(room, sizeof(room), "name: %s\nID: %u\n%s", f->name, f->id, f->format);
		NEED(bytes < (int)sizeof(room));
		NEED(!braid_capture_put(w, BRAID_CHUNK_TEXT, 2, &text, sizeof(text), room, bytes));
	}
}

static void host_end(struct braid_capture_writer *w, u64 nr)
{
	struct braid_chunk_stream_end stop = { .reason = BRAID_END_STOPPED };
	struct braid_chunk_ring_end end = { .written = nr, .read = nr };

	NEED(!braid_capture_put(w, BRAID_CHUNK_RING_END, 2, &end, sizeof(end), NULL, 0));
	NEED(!braid_capture_put(w, BRAID_CHUNK_STREAM_END, 2, &stop, sizeof(stop), NULL, 0));
}

static void make(const struct how *how)
{
	struct synth_guest_params params = {
		.name = "guest1", .incarnation = 11, .boot = 1, .start_ns = SYNTH_START_NS,
		.nr_slots = 8, .subbuf_bytes = 512,
	};
	struct braid_vcpu_thread thread = { 0, THREAD, 0 };
	struct braid_capture_writer *w = synth_capture(path);
	u64 early = how->bound_ns - how->wrong_ns, late = how->bound_ns + how->wrong_ns;
	struct synth_guest g;
	u64 nr = 1;
	u32 k;

	synth_guest_init(&g, &params);
	synth_begin(w, &g, 1);
	NEED(!braid_capture_put(w, BRAID_CHUNK_VCPU_THREADS, 1, NULL, 0, &thread, sizeof(thread)));
	host_begin(w, how);
	host_event(w, FIRST_NS / 2, MEMORY_SWITCH, THREAD);
	g.now = FIRST_NS / 2;
	synth_sample(w, &g, early, late);
	for (k = 0; k < NR_WINDOWS; k++) {
		u64 ns = FIRST_NS + k * EVERY_NS;

		g.now = ns + WINDOW_NS / 2;
		synth_tick(&g, 0, k, "x");
		if (!how->without_kvm) {
			host_event(w, ns, MEMORY_ENTRY, 0);
			host_event(w, ns + WINDOW_NS, MEMORY_EXIT, 0);
			nr += 2;
		}
		/* pages are read later than any of the clocks says */
		g.now = ns + EVERY_NS - 1;
		synth_drain(w, &g, 0);
	}
	synth_sample(w, &g, early, late);
	synth_end(w, &g, BRAID_END_STOPPED);
	host_end(w, nr);
	NEED(!braid_capture_finish(w));
	synth_guest_free(&g);
}

static void verifies(s64 wrong_ns, u64 bound_ns)
{
	struct how how = { .wrong_ns = wrong_ns, .bound_ns = bound_ns };

	make(&how);
	CHECK_EQ(RUN_COMMAND(braid_cmd_verify, "verify", path), EXIT_SUCCESS);
	CHECK(strstr(printed, ": 0 faults\n"));
}

/* @by: without what rounding adds to the bound */
static void is_wrong(s64 wrong_ns, u64 bound_ns, u64 by)
{
	static const char want[] = "guest1: 39 of 39 events are outside the times in which their vCPU executed, by up to ";
	struct how how = { .wrong_ns = wrong_ns, .bound_ns = bound_ns };
	unsigned long long found = 0;
	const char *line;

	make(&how);
	CHECK_EQ(RUN_COMMAND(braid_cmd_verify, "verify", path), EXIT_FAILURE);
	line = strstr(printed, want);
	CHECK(line && sscanf(line + strlen(want), "%llu ns more than their", &found) == 1);
	CHECK(found <= by && found > by - 100);
	CHECK(strstr(printed, "): its clock is wrong\n"));
	CHECK(strstr(printed, ": 1 fault\n"));
}

/* The middle of a window, and its ends are 50 us away. */
static void polices(void)
{
	verifies(0, 100);
	verifies(0, 100000);
	verifies(45000, 100);
	verifies(60000, 20000);
	verifies(-60000, 20000);
	is_wrong(60000, 5000, 5000);
	is_wrong(200000, 20000, 130000);
	is_wrong(-60000, 5000, 5000);
	verifies(200000, 160000);
}

/* As the last report's header has it. */
static double bound_us(void)
{
	const char *at = strstr(printed, " bound ≤ ");
	double us = 0;

	CHECK(at && sscanf(at, " bound ≤ %lf µs", &us) == 1);
	return us;
}

static void says(const struct how *how, const char *want, bool falls_back)
{
	make(how);
	CHECK_EQ(RUN_COMMAND(braid_cmd_report, "report", "--clock-source=windows", path), EXIT_SUCCESS);
	if (!strstr(printed, want))
		fprintf(stderr, "no \"%s\" in:\n%.1500s", want, printed);
	CHECK(strstr(printed, want));
	CHECK(!!strstr(printed, "clock source windows is unavailable: ") == falls_back);
	CHECK(!!strstr(printed, "2 vCPUs, clock exchange, 2 round-trip samples, drift ") == falls_back);
}

/* Windows make the bound of 300 us smaller; else the exchange stays, and a line says why. */
static void refines(void)
{
	says(&(struct how){ .bound_ns = 300000 }, "2 vCPUs, clock windows (requested), ", false);
	CHECK(!strstr(printed, "clock windows (requested), 2 round-trip samples"));
	CHECK(bound_us() < 60);
	says(&(struct how){ .wrong_ns = 300000, .bound_ns = 100000 },
	     "#   clock source windows is unavailable: 39 of 39 events contradict the host's kvm_entry and kvm_exit events\n",
	     true);
	CHECK(bound_us() >= 100);
	says(&(struct how){ .bound_ns = 300000, .without_kvm = true },
	     "#   clock source windows is unavailable: the host has no kvm_entry and kvm_exit events\n",
	     true);
	says(&(struct how){ .bound_ns = 10000 },
	     "#   clock source windows is unavailable: kvm_entry and kvm_exit events do not make its bound smaller\n",
	     true);
}

int main(void)
{

	path = scratch("file");
	RUN(polices);
	RUN(refines);
	return VERDICT();
}
