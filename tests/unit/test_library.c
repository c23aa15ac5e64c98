// SPDX-License-Identifier: GPL-2.0-or-later
/* The public functions give what the walk inside gives, and refuse what they must. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/walk/walk.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tracebraid/tracebraid.h"

#define GUESTS		2u
#define TICKS		500u
#define HOST_EVENTS	300u

static char path[] = "/tmp/test_library.XXXXXX";

static void make(void)
{
	static const struct synth_guest_params params[GUESTS] = {
		{ .name = "guest1", .incarnation = 11, .boot = 1, .ppm = 20,
		  .start_ns = SYNTH_START_NS, .nr_slots = 8, .subbuf_bytes = 4096 },
		{ .name = "guest2", .incarnation = 12, .boot = 2, .ppm = -35,
		  .start_ns = SYNTH_START_NS + 5000, .nr_slots = 2, .subbuf_bytes = 256 },
	};
	struct braid_capture_writer *w = synth_capture(path);
	struct synth_guest guests[GUESTS];
	u32 g, k;

	for (g = 0; g < GUESTS; g++) {
		synth_guest_init(&guests[g], &params[g]);
		synth_begin(w, &guests[g], g + 1);
		synth_sample(w, &guests[g], 500, 700);
	}
	synth_host(w, GUESTS + 1, HOST_EVENTS, SYNTH_START_NS + 1000, 9000);
	for (k = 0; k < TICKS; k++)
		for (g = 0; g < GUESTS; g++) {
			guests[g].now += 4000 + 17 * (k % 7);
			synth_tick(&guests[g], k % SYNTH_CPUS, k, k % 5 ? "some text" : "other");
			/* The second guest's ring is full now and then. */
			if (k % (g ? 400 : 50) == 0)
				synth_drain(w, &guests[g], 0);
		}
	for (g = 0; g < GUESTS; g++) {
		synth_sample(w, &guests[g], 500, 700);
		synth_drain(w, &guests[g], 0);
		synth_end(w, &guests[g], BRAID_END_STOPPED);
		synth_guest_free(&guests[g]);
	}
	NEED(!braid_capture_finish(w));
}

static struct tracebraid_trace *open_it(void)
{
	const char *const paths[] = { path };
	struct tracebraid_trace *trace = NULL;

	NEED(!tracebraid_open(&trace, paths, 1, NULL, NULL, NULL));
	return trace;
}

/* An event as the walk inside has it. */
static void same_event(struct tracebraid_walk *walk, const struct braid_walk *inside)
{
	const struct tracebraid_type *type = tracebraid_event_type(walk);
	const struct tracebraid_field *field;
	struct braid_text text = { 0 };
	const u8 *payload;
	size_t bytes, k;
	int64_t number;

	braid_format_text_of(inside->item, inside->info, &text);
	braid_text_putc(&text, '\0');
	CHECK(!strcmp(tracebraid_text(walk), text.data));
	text.bytes = 0;
	braid_format_json(inside->format, inside->item, &text);
	braid_text_putc(&text, '\0');
	CHECK(!strcmp(tracebraid_json(walk), text.data));
	braid_text_free(&text);
	CHECK_EQ(tracebraid_seq(walk), inside->item->seq);
	CHECK_EQ(tracebraid_pid(walk), braid_format_pid(inside->item));
	CHECK(!strcmp(tracebraid_comm(walk),
		      braid_format_comm(inside->item, tracebraid_pid(walk))));
	CHECK(!strcmp(tracebraid_type_name(type), braid_format_label(inside->info)));
	payload = tracebraid_payload(walk, &bytes);
	CHECK(bytes == inside->item->payload_bytes &&
	      !memcmp(payload, inside->item->payload, bytes));
	for (k = 0; (field = tracebraid_type_field(type, k)); k++) {
		CHECK(tracebraid_type_find(type, tracebraid_field_name(field)) == field);
		CHECK_EQ(tracebraid_number(walk, field, &number),
			 tracebraid_field_kind(field) == TRACEBRAID_NUMBER ? 0 : -EINVAL);
		CHECK(tracebraid_bytes(walk, field, &bytes));
	}
}

static void same_item(struct tracebraid_walk *walk, const struct braid_walk *inside, int got)
{
	CHECK_EQ(tracebraid_ns(walk), inside->ns);
	CHECK_EQ(tracebraid_bound_ns(walk), inside->bound_ns);
	CHECK_EQ(tracebraid_uncertain(walk), inside->uncertain);
	CHECK(!strcmp(tracebraid_stream_name(tracebraid_item_stream(walk)),
		      inside->item->stream->name));
	CHECK_EQ(tracebraid_cpu(walk), inside->item->ring->cpu);
	CHECK_EQ(tracebraid_lost(walk), got == BRAID_WALK_LOST ? inside->item->lost_before : 0);
	if (got == BRAID_WALK_EVENT)
		same_event(walk, inside);
}

static void gives_what_the_walk_gives(void)
{
	char *paths[] = { path };
	const struct braid_walk_options all = { 0 };
	struct tracebraid_trace *trace = open_it();
	struct braid_walk_totals totals;
	struct tracebraid_walk *walk = NULL;
	struct braid_source *source = NULL;
	struct braid_walk inside;
	u64 seen[4] = { 0 };
	int got;

	NEED(!braid_source_open_captures(&source, paths, 1, NULL));
	NEED(!braid_walk_begin(&inside, source, &all, &totals) && !braid_walk_start(&inside));
	NEED(!tracebraid_walk_new(&walk, trace, NULL));
	while ((got = braid_walk_next(&inside)) > 0) {
		NEED(tracebraid_walk_next(walk) == got);
		same_item(walk, &inside, got);
		seen[got]++;
	}
	CHECK_EQ(tracebraid_walk_next(walk), TRACEBRAID_END);
	CHECK(seen[TRACEBRAID_EVENT] > TICKS && seen[TRACEBRAID_LOST]);
	tracebraid_walk_free(walk);
	tracebraid_close(trace);
	braid_walk_end(&inside);
	braid_source_free(source);
}

static u64 count(struct tracebraid_trace *trace, const char *const *select)
{
	struct tracebraid_walk *walk = NULL;
	u64 nr = 0;
	int got;

	NEED(!tracebraid_walk_new(&walk, trace, select));
	while ((got = tracebraid_walk_next(walk)) > 0)
		nr += got == TRACEBRAID_EVENT;
	CHECK_EQ(got, 0);
	tracebraid_walk_free(walk);
	return nr;
}

static void selects(void)
{
	struct tracebraid_trace *trace = open_it();
	u64 all = count(trace, NULL), one, other, host;

	one = count(trace, (const char *const[]){ "stream=guest1", NULL });
	other = count(trace, (const char *const[]){ "stream=guest2", NULL });
	host = count(trace, (const char *const[]){ "stream=host", NULL });
	CHECK_EQ(one, TICKS);
	CHECK_EQ(one + other + host, all);
	CHECK_EQ(count(trace, (const char *const[]){ "stream=guest1", "filter=tick: number < 10", NULL }),
		 10);
	CHECK_EQ(count(trace, (const char *const[]){ "stream=guest1",
						     "filter-not=tick: number < 10", NULL }),
		 TICKS - 10);
	CHECK_EQ(count(trace, (const char *const[]){ "lines=7", "stream=guest1", NULL }), 7);
	tracebraid_close(trace);
}

static void refused(struct tracebraid_trace *trace, const char *word, int err)
{
	const char *const select[] = { word, NULL };
	struct tracebraid_walk *walk = NULL;

	CHECK_EQ(tracebraid_walk_new(&walk, trace, select), err);
	CHECK(!walk && *tracebraid_error());
}

static void refuses(void)
{
	const char *const none[] = { "/nonexistent/x.braid" };
	struct tracebraid_trace *trace = open_it(), *other = NULL;
	struct tracebraid_walk *walk = NULL, *second = NULL;
	struct tracebraid_totals totals;
	char *json = NULL;

	refused(trace, "stream=nobody", -ENOENT);
	refused(trace, "events=x", -EINVAL);
	refused(trace, "event", -EINVAL);
	refused(trace, "cpu=x", -EINVAL);
	refused(trace, "cpu=-1", -EINVAL);
	refused(trace, "since=yesterday", -EINVAL);
	refused(trace, "since=2026-01-31T25:00:00", -EINVAL);
	refused(trace, "filter=tick: nothing == 1", -ENOENT);
	refused(trace, "top=3", -EINVAL);
	CHECK_EQ(tracebraid_analyze(trace, "nothing", NULL, &json), -EINVAL);
	CHECK_EQ(tracebraid_analyze(trace, "stalls", (const char *const[]){ "by=syscall", NULL }, &json),
		 -EINVAL);
	NEED(!tracebraid_walk_new(&walk, trace, NULL));
	CHECK_EQ(tracebraid_walk_new(&second, trace, NULL), -EBUSY);
	CHECK_EQ(tracebraid_analyze(trace, "summary", NULL, &json), -EBUSY);
	CHECK_EQ(tracebraid_export(trace, "perfetto", "/tmp/never", NULL), -EBUSY);
	tracebraid_walk_free(walk);
	CHECK_EQ(tracebraid_export(trace, "perfetto", path, NULL), -EINVAL);	/* onto itself */
	CHECK_EQ(tracebraid_totals(trace, &totals), -ENODATA);
	NEED(!tracebraid_export(trace, "json", "/dev/null", NULL));
	CHECK(!tracebraid_totals(trace, &totals));
	NEED(!tracebraid_walk_new(&walk, trace, NULL));	/* freed with the trace */
	CHECK_EQ(tracebraid_export(trace, "json", "/dev/null", NULL), -EBUSY);
	CHECK_EQ(tracebraid_totals(trace, &totals), -ENODATA);
	CHECK_EQ(tracebraid_open(&other, none, 1, NULL, NULL, NULL), -ENOENT);
	CHECK_EQ(tracebraid_open(&other, none, 0, NULL, NULL, NULL), -EINVAL);
	CHECK_EQ(tracebraid_open(&other, none, 1, "sundial", NULL, NULL), -EINVAL);
	tracebraid_close(trace);
}

static void seeks(void)
{
	struct tracebraid_trace *trace = open_it();
	struct tracebraid_walk *walk = NULL;
	int64_t ns[3];
	u32 k, steps;

	NEED(!tracebraid_walk_new(&walk, trace, NULL));
	for (k = 0; k < 3; k++)
		for (steps = 0; steps < 200; steps++) {
			NEED(tracebraid_walk_next(walk) > 0);
			ns[k] = tracebraid_ns(walk);
		}
	for (k = 0; k < 3; k++) {	/* back, then forth */
		CHECK(!tracebraid_walk_seek(walk, ns[2 - k]));
		CHECK(tracebraid_walk_next(walk) > 0);
		CHECK_EQ(tracebraid_ns(walk), ns[2 - k]);
	}
	CHECK(!tracebraid_walk_seek(walk, INT64_MAX));
	CHECK_EQ(tracebraid_walk_next(walk), TRACEBRAID_END);
	tracebraid_walk_free(walk);
	tracebraid_close(trace);
}

/* Columns against the same walk, event by event. */
static void columns_are_the_events(void)
{
	static const char *const names[] = {
		"ns", "stream", "cpu", "pid", "seq", "type", "comm", "number", "text",
	};
	enum { NR = sizeof(names) / sizeof(*names), ROWS = 64 };
	static int64_t rows[NR][ROWS];
	int64_t *const columns[] = {
		rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], rows[6], rows[7], rows[8],
	};
	struct tracebraid_trace *trace = open_it(), *other = open_it();
	struct tracebraid_walk *walk = NULL, *each = NULL;
	const struct tracebraid_field *field;
	int64_t number;
	const char *text;
	size_t bytes;
	long nr, k;
	u64 total = 0;

	NEED(!tracebraid_walk_new(&walk, trace, NULL) && !tracebraid_walk_new(&each, other, NULL));
	while ((nr = tracebraid_columns(walk, names, columns, NR, ROWS)) > 0) {
		for (k = 0; k < nr; k++, total++) {
			while (tracebraid_walk_next(each) != TRACEBRAID_EVENT)
				;
			CHECK_EQ(rows[0][k], tracebraid_ns(each));
			CHECK_EQ(rows[1][k],
				 tracebraid_stream_number(tracebraid_item_stream(each)));
			CHECK_EQ(rows[2][k], tracebraid_cpu(each));
			CHECK_EQ(rows[3][k], tracebraid_pid(each));
			CHECK_EQ((u64)rows[4][k], tracebraid_seq(each));
			CHECK_EQ(rows[5][k], tracebraid_type_number(tracebraid_event_type(each)));
			CHECK(!strcmp(tracebraid_word(walk, rows[6][k]), tracebraid_comm(each)));
			field = tracebraid_type_find(tracebraid_event_type(each), "number");
			CHECK_EQ(rows[7][k], field && !tracebraid_number(each, field, &number) ? number : INT64_MIN);
			field = tracebraid_type_find(tracebraid_event_type(each), "text");
			text = field ? tracebraid_bytes(each, field, &bytes) : NULL;
			CHECK(text ? !strncmp(tracebraid_word(walk, rows[8][k]), text, bytes) :
				     rows[8][k] == INT64_MIN);
		}
		CHECK(nr == ROWS || tracebraid_walk_next(walk) == TRACEBRAID_END);
	}
	CHECK_EQ(nr, 0);
	CHECK(total > TICKS);
	CHECK(!tracebraid_word(walk, -1) && !tracebraid_word(walk, INT64_MAX));
	tracebraid_walk_free(walk);
	tracebraid_walk_free(each);
	tracebraid_close(trace);
	tracebraid_close(other);
}

static void streams_have_accounts(void)
{
	struct tracebraid_trace *trace = open_it();
	struct tracebraid_counts counts;
	struct tracebraid_ring ring;
	u64 sum;
	size_t k, r;

	CHECK_EQ(tracebraid_nr_streams(trace), GUESTS + 1);
	for (k = 0; k < GUESTS; k++) {
		const struct tracebraid_stream *stream = tracebraid_stream(trace, k);

		CHECK(!tracebraid_stream_is_host(stream));
		CHECK(!tracebraid_stream_counts(stream, &counts));
		if (!strcmp(tracebraid_stream_name(stream), "guest1"))
			CHECK_EQ(counts.written, TICKS);
		CHECK_EQ(counts.written, counts.read + counts.lost + counts.left);
		CHECK(!strcmp(tracebraid_stream_end(stream), "recording stopped"));
		for (r = sum = 0; !tracebraid_stream_ring(stream, r, &ring); r++)
			sum += ring.counts.written;
		CHECK_EQ(sum, counts.written);
		CHECK_EQ(r, SYNTH_CPUS);
	}
	CHECK(!tracebraid_stream(trace, GUESTS + 1));
	tracebraid_close(trace);
}

#define STEP_NS	3000000000ULL

/* A capture of a guest whose counter stood still for STEP_NS in the middle. */
static void make_stepped(const char *name)
{
	static const struct synth_guest_params params = {
		.name = "guest1", .incarnation = 11, .boot = 1, .ppm = 20,
		.start_ns = SYNTH_START_NS, .nr_slots = 8, .subbuf_bytes = 4096,
	};
	struct braid_capture_writer *w = synth_capture(name);
	struct synth_guest guest;
	u32 k;

	synth_guest_init(&guest, &params);
	synth_begin(w, &guest, 1);
	for (k = 0; k < 8; k++) {
		guest.now += 1000000;
		guest.start_ns += k == 4 ? STEP_NS : 0;
		synth_sample(w, &guest, 500, 700);
		synth_tick(&guest, 0, k, "");
	}
	synth_drain(w, &guest, 0);
	synth_end(w, &guest, BRAID_END_STOPPED);
	synth_guest_free(&guest);
	NEED(!braid_capture_finish(w));
}

static void clocks_have_epochs(void)
{
	char name[] = "/tmp/test_library.XXXXXX";
	const char *const paths[] = { name };
	struct tracebraid_trace *trace = NULL;
	const struct tracebraid_stream *stream;
	struct tracebraid_epoch epoch;
	int fd = mkstemp(name);

	NEED(fd >= 0);
	close(fd);
	make_stepped(name);
	NEED(!tracebraid_open(&trace, paths, 1, NULL, NULL, NULL));
	stream = tracebraid_stream(trace, 0);
	NEED(!tracebraid_stream_epoch(stream, 0, &epoch));
	CHECK_EQ(epoch.number, 0);
	CHECK_EQ(epoch.vcpu, UINT32_MAX);
	CHECK(epoch.from_ns == INT64_MIN && epoch.begun_ns == INT64_MIN && !*epoch.cause);
	NEED(!tracebraid_stream_epoch(stream, 1, &epoch));
	CHECK_EQ(epoch.number, 1);
	CHECK(!strcmp(epoch.cause, "the counter stood still"));
	CHECK(epoch.from_ns <= epoch.begun_ns && epoch.from_ns >= (s64)SYNTH_START_NS &&
	      epoch.begun_ns <= (s64)(SYNTH_START_NS + STEP_NS + 10000000));
	CHECK(epoch.step_ns > (s64)STEP_NS - 2000 && epoch.step_ns < (s64)STEP_NS + 2000);
	CHECK_EQ(tracebraid_stream_epoch(stream, 2, &epoch), -ENOENT);
	tracebraid_close(trace);

	/* A host's times are not converted. */
	trace = open_it();
	CHECK_EQ(tracebraid_stream_epoch(tracebraid_stream(trace, GUESTS), 0, &epoch), -ENOENT);
	tracebraid_close(trace);
	unlink(name);
}

int main(void)
{
	int fd = mkstemp(path);

	NEED(fd >= 0);
	close(fd);
	make();
	RUN(gives_what_the_walk_gives);
	RUN(selects);
	RUN(refuses);
	RUN(seeks);
	RUN(columns_are_the_events);
	RUN(streams_have_accounts);
	RUN(clocks_have_epochs);
	unlink(path);
	return VERDICT();
}
