// SPDX-License-Identifier: GPL-2.0-or-later
/* VMs without the driver in captures: what the host shows of them, and nothing else. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/trace/capture_private.h"
#include "tests/unit/check.h"
#include "tests/unit/host_events.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/report_text.h"
#include "tracebraid/tracebraid.h"

#define VM	3u	/* a further stream; 1 and 2 are those of host_begin() */

static char paths[2][32] = { "/tmp/test_vm.XXXXXX", "/tmp/test_vm.XXXXXX" };
static char said[4096];

static void warn(void *arg, const char *line)
{
	(void)arg;
	NEED(strlen(said) + strlen(line) + 2 < sizeof(said));
	strcat(strcat(said, line), "\n");
}

/* The trace of one or both files. */
static struct tracebraid_trace *open_trace(size_t nr)
{
	const char *const both[] = { paths[0], paths[1] };
	struct tracebraid_trace *trace = NULL;

	*said = 0;
	NEED(!tracebraid_open_with(&trace, both, nr, NULL, warn, NULL));
	return trace;
}

/* An analysis of one or both files has the text. */
static void shows(size_t nr, const char *analysis, const char *want)
{
	struct tracebraid_trace *trace = open_trace(nr);
	char *json = NULL;

	NEED(!tracebraid_analyze(trace, analysis, NULL, &json));
	if (!strstr(json, want))
		fprintf(stderr, "no %s in %s\n", want, json);
	CHECK(strstr(json, want));
	tracebraid_free(json);
	tracebraid_close(trace);
}

static void put_stream(struct braid_capture_writer *w, u32 stream, s32 pid, u32 nr_cpus, u64 ns)
{
	struct braid_chunk_stream head = {
		.kind = BRAID_STREAM_VM, .nr_cpus = nr_cpus, .host_ns = SYNTH_START_NS + ns,
		.name = "web1",
	};
	struct braid_chunk_vm vm = { .pid = pid, .start_ticks = 4711 };

	NEED(!braid_capture_put(w, BRAID_CHUNK_STREAM, stream, &head, sizeof(head), &vm,
				sizeof(vm)));
}

static void put_end(struct braid_capture_writer *w, u32 stream, u32 reason, u64 ns)
{
	struct braid_chunk_stream_end end = { .reason = reason, .host_ns = SYNTH_START_NS + ns };

	NEED(!braid_capture_put(w, BRAID_CHUNK_STREAM_END, stream, &end, sizeof(end), NULL, 0));
}

static void put_edge(struct braid_capture_writer *w, u32 edge, u64 ns)
{
	struct braid_chunk_window window = { .edge = edge, .host_ns = SYNTH_START_NS + ns };

	NEED(!braid_capture_put(w, BRAID_CHUNK_WINDOW, 0, &window, sizeof(window), NULL, 0));
}

/* vCPU 0 runs from 1000 to 4000 and from 8000 on, vCPU 1 from 4000 to 6000. */
static void put_switches(struct braid_capture_writer *w, u64 from)
{
	host_event(w, from + 1000, HOST_SWITCH, 7, HOST_FIRST_TID, false);
	host_event(w, from + 4000, HOST_SWITCH, HOST_FIRST_TID, HOST_FIRST_TID + 1, false);
	host_event(w, from + 6000, HOST_SWITCH, HOST_FIRST_TID + 1, 7, false);
	host_event(w, from + 8000, HOST_SWITCH, 7, HOST_FIRST_TID, false);
}

/* A VM, of which the second vCPU is found later. */
static void make_alone(const char *path, u64 from, u32 reason)
{
	struct braid_capture_writer *w = synth_capture(path);

	put_stream(w, 1, 4242, 1, from);
	host_begin(w, 2, HOST_FIRST_TID);
	put_edge(w, BRAID_WINDOW_START, from);
	put_switches(w, from);
	put_end(w, 1, reason, from + 10000);
	put_edge(w, BRAID_WINDOW_STOP, from + 10000);
	NEED(!braid_capture_finish(w));
}

static void by_the_host_alone(void)
{
	const struct tracebraid_stream *vm;
	struct tracebraid_counts counts;
	struct tracebraid_trace *trace;
	char *text;

	make_alone(paths[0], 0, BRAID_END_STOPPED);
	shows(1, "summary", "\"guest\":\"web1\",\"vcpus\":2,");
	shows(1, "summary", "\"offline_ppm\":null,");
	shows(1, "summary", "\"exits\":null,\"lost_events\":null,\"bound_ns\":null,"
	      "\"worst_stall_ns\":null,");
	shows(1, "summary", "no driver runs in a VM");
	shows(1, "states", "\"vcpu\":\"web1/vCPU 0\",\"observed_ns\":10000,");
	shows(1, "states", "\"running_ns\":5000,\"stolen_ns\":4000,");
	shows(1, "steal", "\"victim\":\"web1/vCPU 0\",\"culprit\":\"web1/vCPU 1\","
	      "\"total_ns\":2000,");
	trace = open_trace(1);
	vm = tracebraid_stream(trace, 0);
	CHECK(!strcmp(tracebraid_stream_name(vm), "web1") && !tracebraid_stream_is_host(vm));
	CHECK(!*tracebraid_stream_clock(vm) && !*tracebraid_stream_kernel(vm));
	CHECK_EQ(tracebraid_stream_bound_ns(vm), TRACEBRAID_UNKNOWN);
	CHECK_EQ(tracebraid_stream_nr_cpus(vm), 2);
	CHECK(tracebraid_stream_counts(vm, &counts));
	tracebraid_close(trace);
	CHECK(!*said);
	text = report_text(paths[0], false, NULL, NULL);
	CHECK(strstr(text, "# web1: a VM without the driver, process 4242, 2 vCPUs\n"));
	CHECK_EQ(count_of(text, "clock"), 2);	/* of the host */
	free(text);
	text = report_text(paths[0], true, NULL, NULL);
	CHECK(strstr(text, "\"stream\":\"web1\",\"kind\":\"vm\",\"pid\":4242,\"cpus\":2,"
		     "\"vcpus\":[{\"vcpu\":0,\"tid\":100},"));
	free(text);
}

/* Its threads are not known: that it is there is known. */
static void by_its_process_alone(void)
{
	struct braid_capture_writer *w = synth_capture(paths[0]);
	char *text;

	put_stream(w, 1, 4242, 0, 0);
	host_begin(w, 0, HOST_FIRST_TID);
	put_switches(w, 0);
	NEED(!braid_capture_finish(w));
	shows(1, "summary", "\"guest\":\"web1\",\"vcpus\":null,\"busy_ppm\":null,\"stolen_ppm\":null,"
	      "\"throttled_ppm\":null,\"asleep_ppm\":null,\"offline_ppm\":null,\"unknown_ppm\":null,");
	text = report_text(paths[0], false, NULL, NULL);
	CHECK(strstr(text, "process 4242, vCPU threads unknown ("));
	free(text);
}

/* The driver is loaded at 5000: each moment of a vCPU counts once. */
static void until_the_driver_is_loaded(void)
{
	struct braid_vcpu_thread threads[] = {
		{ 0, HOST_FIRST_TID, 0 }, { 1, HOST_FIRST_TID + 1, 0 },
	};
	struct synth_guest_params params = {
		.name = "web1", .incarnation = 11, .start_ns = SYNTH_START_NS + 4000, .nr_slots = 8,
		.subbuf_bytes = 512,
	};
	struct braid_capture_writer *w = synth_capture(paths[0]);
	struct synth_guest g;
	char *text;

	synth_guest_init(&g, &params);
	put_stream(w, 1, 4242, 2, 0);
	host_begin(w, 2, HOST_FIRST_TID);
	put_edge(w, BRAID_WINDOW_START, 0);
	put_switches(w, 0);
	put_end(w, 1, BRAID_END_DRIVER, 5000);
	synth_begin(w, &g, VM);
	NEED(!braid_capture_put(w, BRAID_CHUNK_VCPU_THREADS, VM, NULL, 0, threads,
				sizeof(threads)));
	synth_end(w, &g, BRAID_END_STOPPED);
	put_edge(w, BRAID_WINDOW_STOP, 10000);
	NEED(!braid_capture_finish(w));
	synth_guest_free(&g);
	shows(1, "states", "\"vcpus\":4,\"observed_ns\":20000,");
	shows(1, "states", "\"vcpu\":\"web1 (no driver)/vCPU 0\",\"observed_ns\":5000,");
	shows(1, "states", "\"vcpu\":\"web1/vCPU 0\",\"observed_ns\":5000,");
	text = report_text(paths[0], false, NULL, NULL);
	CHECK(strstr(text, "2 vCPUs; ended: driver loaded\n"));
	CHECK_EQ(count_of(text, "NOTE the driver was loaded"), 1);
	free(text);
}

/* Two captures of one process are of one VM, unless it was something else in between. */
static void in_two_captures(void)
{
	make_alone(paths[0], 0, BRAID_END_STOPPED);
	make_alone(paths[1], 20000, BRAID_END_STOPPED);
	shows(2, "states", "\"vcpus\":2,\"observed_ns\":40000,");
	make_alone(paths[0], 0, BRAID_END_DRIVER);
	shows(2, "states", "\"vcpus\":4,\"observed_ns\":40000,");
	/* Both saw the driver being loaded. */
	make_alone(paths[1], 0, BRAID_END_DRIVER);
	shows(2, "states", "\"vcpus\":2,\"observed_ns\":20000,");
}

/* The file is anyone's: each of these is left out with a line, or ignored. */
static void from_a_hostile_file(void)
{
	struct braid_vcpu_thread threads[] = {
		{ BRAID_VCPU_NONE - 1, 70, 0 }, { BRAID_MAX_CPUS, 71, 0 }, { 2, 72, 0 },
		{ 0, -1, 0 },
	};
	struct braid_chunk_stream head = { .kind = BRAID_STREAM_VM, .nr_cpus = 1, .name = "x" };
	struct braid_capture_writer *w = synth_capture(paths[0]);
	struct braid_chunk_host_page host_page = { .bytes = 16 };
	struct braid_chunk_ring_end ring = { .written = 9 };
	struct braid_chunk_page page = { 0 };
	struct tracebraid_trace *trace;
	u8 bytes[16] = { 0 };

	NEED(!braid_capture_put(w, BRAID_CHUNK_STREAM, 1, &head, sizeof(head), bytes, 8));
	put_stream(w, 2, -3, 1, 0);
	put_stream(w, VM, 4242, 1, 0);
	put_stream(w, 4, 4243, BRAID_MAX_CPUS + 1, 0);
	NEED(!braid_capture_put(w, BRAID_CHUNK_VCPU_THREADS, VM, NULL, 0, threads,
				sizeof(threads)));
	NEED(!braid_capture_put(w, BRAID_CHUNK_PAGE, VM, &page, sizeof(page), bytes, 16));
	NEED(!braid_capture_put(w, BRAID_CHUNK_HOST_PAGE, VM, &host_page, sizeof(host_page), bytes,
				16));
	NEED(!braid_capture_put(w, BRAID_CHUNK_RING_END, VM, &ring, sizeof(ring), NULL, 0));
	NEED(!braid_capture_finish(w));
	trace = open_trace(1);
	CHECK_EQ(tracebraid_nr_streams(trace), 1);
	CHECK_EQ(tracebraid_stream_nr_cpus(tracebraid_stream(trace, 0)), 3);
	tracebraid_close(trace);
	CHECK(strstr(said, "stream 1 is left out: its process is missing"));
	CHECK(strstr(said, "stream 2 is left out: its process has an invalid number"));
	CHECK(strstr(said, "stream 4 is left out: invalid type or number of CPUs"));
	CHECK(strstr(said, "it is not of a guest") && strstr(said, "it is not of a host"));
	CHECK(strstr(said, "refers to a nonexistent ring"));
}

int main(void)
{
	size_t k;

	for (k = 0; k < 2; k++)
		NEED(mkstemp(paths[k]) >= 0);
	RUN(by_the_host_alone);
	RUN(by_its_process_alone);
	RUN(until_the_driver_is_loaded);
	RUN(in_two_captures);
	RUN(from_a_hostile_file);
	for (k = 0; k < 2; k++)
		unlink(paths[k]);
	return VERDICT();
}
