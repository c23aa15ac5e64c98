// SPDX-License-Identifier: GPL-2.0-or-later
/* Captures with the same content: it is merged once, and a message says so. */
#include <string.h>
#include <unistd.h>

#include "host_agent/export/text/form.h"
#include "host_agent/trace/merge.h"
#include "host_agent/trace/source.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tracebraid/tracebraid.h"

#define STEP_NS	40000u

static char paths[2][64];
static char *both[2] = { paths[0], paths[1] };
static char said[512];
static u32 lines;

static void say(void *arg, const char *line)
{
	(void)arg;
	snprintf(said, sizeof(said), "%s", line);
	lines++;
}

/* Events of both files' hosts, each of which must occur once; *total: includes guests' events. */
static u64 merge(char **names, u64 *total, size_t *hosts)
{
	struct braid_source_options options = { .say = say };
	const struct braid_item *item;
	struct braid_source *source;
	struct braid_merge *m;
	u64 host = 0;
	s64 last = 0;
	size_t k;

	lines = 0;
	*total = *hosts = 0;
	NEED(!braid_source_open_captures(&source, names, 2, &options));
	for (k = 0; k < source->nr_streams; k++)
		*hosts += source->streams[k]->kind == BRAID_STREAM_HOST;
	NEED(!braid_merge_begin(&m, source, NULL, NULL));
	while (braid_merge_next(m, &item) > 0) {
		if (item->kind != BRAID_ITEM_EVENT)
			continue;
		++*total;
		if (item->stream->kind != BRAID_STREAM_HOST)
			continue;
		host++;
		CHECK(item->host_ns > last);
		last = item->host_ns;
	}
	CHECK_EQ(source->faults, 0);
	braid_merge_end(m);
	braid_source_free(source);
	return host;
}

static void copy(const char *from, const char *to)
{
	FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
	int c;

	NEED(in && out);
	while ((c = fgetc(in)) != EOF)
		fputc(c, out);
	NEED(!fclose(in) && !fclose(out));
}

static void one_file_twice(void)
{
	u64 total, events = synth_standard(paths[0]);
	char *twice[] = { paths[0], paths[0] };
	size_t hosts;

	CHECK_EQ(merge(twice, &total, &hosts), 250);
	CHECK_EQ(total, events + 250);
	CHECK_EQ(lines, 1);
	CHECK(strstr(said, "read once"));
	unlink(paths[1]);
	NEED(!symlink(paths[0], paths[1]));
	CHECK_EQ(merge(both, &total, &hosts), 250);
	CHECK_EQ(total, events + 250);
	unlink(paths[1]);
}

static void a_copy(void)
{
	u64 total, events = synth_standard(paths[0]);
	size_t hosts;

	copy(paths[0], paths[1]);
	CHECK_EQ(merge(both, &total, &hosts), 250);
	CHECK_EQ(total, events + 250);
	CHECK_EQ(hosts, 1);
	CHECK_EQ(lines, 1);
	CHECK(strstr(said, paths[1]) && strstr(said, "are left out"));
}

static void put_edge(struct braid_capture_writer *w, u32 edge, u64 ns)
{
	struct braid_chunk_window window = { .edge = edge, .host_ns = SYNTH_START_NS + ns };

	NEED(!braid_capture_put(w, BRAID_CHUNK_WINDOW, 0, &window, sizeof(window), NULL, 0));
}

/* A recording of a guest, from the first nanosecond on. */
static void put_guest(const char *path, u64 incarnation, u64 stop_ns)
{
	struct synth_guest_params params = {
		.name = "guest", .incarnation = incarnation, .start_ns = SYNTH_START_NS,
		.nr_slots = 8, .subbuf_bytes = 1024,
	};
	struct braid_capture_writer *w = synth_capture(path);
	struct synth_guest g;

	synth_guest_init(&g, &params);
	synth_begin(w, &g, 1);
	put_edge(w, BRAID_WINDOW_START, 0);
	put_edge(w, BRAID_WINDOW_STOP, stop_ns);
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	synth_guest_free(&g);
}

/* What is listed of two recordings. */
static void recorded(u32 nr, u32 notes)
{
	struct braid_walk_options options = { 0 };
	struct braid_walk_totals totals;
	struct braid_source *source;
	struct tracebraid_trace *trace;
	int64_t start_ns, stop_ns;
	char *text = NULL, *at;
	u32 found = 0;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	NEED(to && !braid_source_open_captures(&source, both, 2, NULL));
	NEED(!braid_export_text(to, source, &options, &totals) && !fclose(to));
	for (at = text; (at = strstr(at, "# recorded from ")); at++)
		found++;
	CHECK_EQ(found, nr);
	for (found = 0, at = text; (at = strstr(at, "NOTE the recording ")); at++)
		found++;
	CHECK_EQ(found, notes);
	free(text);
	NEED(source->nr_windows == 2);
	CHECK_EQ(source->windows[0].nr_guests, 1);
	CHECK_EQ(source->windows[1].nr_guests, 1);
	braid_source_free(source);
	NEED(!tracebraid_open(&trace, (const char *const *)both, 2, NULL, NULL, NULL));
	for (found = 0; !tracebraid_window(trace, found, &start_ns, &stop_ns); found++)
		CHECK_EQ(start_ns, SYNTH_START_NS);
	CHECK_EQ(found, nr);
	tracebraid_close(trace);
}

/* Two recordings that start at one time are two; one and its copy are listed once. */
static void one_start(void)
{
	put_guest(paths[0], 1, 1000);
	put_guest(paths[1], 2, 2000);
	recorded(2, 4);
	copy(paths[0], paths[1]);
	recorded(1, 2);
}

static void put_host(const char *path, u32 first, u32 nr)
{
	struct braid_capture_writer *w = synth_capture(path);

	synth_host(w, 1, nr, SYNTH_START_NS + (u64)first * STEP_NS, STEP_NS);
	NEED(!braid_capture_finish(w));
}

/* Two recorders at the same time; one after the other; one within the other. */
static void two_recordings(void)
{
	u64 total;
	size_t hosts;

	put_host(paths[0], 0, 250);
	put_host(paths[1], 125, 250);
	CHECK_EQ(merge(both, &total, &hosts), 375);
	CHECK_EQ(hosts, 2);
	CHECK_EQ(lines, 1);
	CHECK(strstr(said, paths[1]));
	put_host(paths[1], 250, 250);
	CHECK_EQ(merge(both, &total, &hosts), 500);
	CHECK_EQ(lines, 0);
	put_host(paths[0], 300, 50);
	CHECK_EQ(merge(both, &total, &hosts), 250);
	CHECK_EQ(hosts, 2);
	put_host(paths[1], 310, 20);
	CHECK_EQ(merge(both, &total, &hosts), 50);
	CHECK_EQ(hosts, 1);
}

/* A flight recorder that started long before its first remaining event has no data of that time. */
static void a_flight_recorder(void)
{
	struct braid_capture_writer *w = synth_capture(paths[0]);
	struct braid_chunk_stream head = {
		.kind = BRAID_STREAM_HOST, .nr_cpus = 4, .subbuf_bytes = 4096,
		.host_ns = SYNTH_START_NS, .name = "host",
	};
	u64 total;
	size_t hosts;

	NEED(!braid_capture_put(w, BRAID_CHUNK_STREAM, 1, &head, sizeof(head), NULL, 0));
	synth_host_page(w, 1, 200, 50, SYNTH_START_NS + 200ULL * STEP_NS, STEP_NS);
	NEED(!braid_capture_finish(w));
	put_host(paths[1], 0, 250);
	CHECK_EQ(merge(both, &total, &hosts), 250);
	CHECK_EQ(lines, 1);
}

int main(void)
{
	snprintf(paths[0], sizeof(paths[0]), "/tmp/braid-join-%d.a", getpid());
	snprintf(paths[1], sizeof(paths[1]), "/tmp/braid-join-%d.b", getpid());
	RUN(one_file_twice);
	RUN(a_copy);
	RUN(two_recordings);
	RUN(one_start);
	RUN(a_flight_recorder);
	unlink(paths[0]);
	unlink(paths[1]);
	return VERDICT();
}
