// SPDX-License-Identifier: GPL-2.0-or-later
/* Captures as a source: joined, deduplicated, merged in order, with exact losses. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/trace/merge.h"
#include "host_agent/trace/vcpu.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"

static char paths[2][64];
static char *both[2] = { paths[0], paths[1] };
static char last_fault[512];

static void on_fault(void *arg, const struct braid_stream *stream, const char *line)
{
	(void)arg;
	snprintf(last_fault, sizeof(last_fault), "%s: %s", stream ? stream->name : "", line);
}

static struct braid_source *open_captures(char **names, size_t nr)
{
	struct braid_source_options options = { .fault = on_fault };
	struct braid_source *source;
	int err;

	last_fault[0] = 0;
	err = braid_source_open_captures(&source, names, nr, &options);
	if (err)
		fprintf(stderr, "%s\n", braid_failure());
	NEED(!err);
	return source;
}

/* The results of a merge. */
struct tally {
	u64 events, lost, damaged, notes, backwards, numbers_wrong;
	u32 numbers[4096];	/* number of occurrences of each tick of one guest */
	char note[160];
};

static u32 tick_number(const struct braid_item *item)
{
	u32 number;

	memcpy(&number, item->payload + 8, sizeof(number));
	return number;
}

static void merge_all(struct braid_source *source, struct tally *t)
{
	const struct braid_item *item;
	struct braid_merge *merge;
	s64 last = INT64_MIN;
	int ret;

	memset(t, 0, sizeof(*t));
	NEED(!braid_merge_begin(&merge, source, NULL, NULL));
	while ((ret = braid_merge_next(merge, &item)) > 0) {
		t->backwards += item->host_ns < last;
		last = item->host_ns;
		if (item->kind == BRAID_ITEM_NOTE) {
			t->notes++;
			snprintf(t->note, sizeof(t->note), "%s", (const char *)item->payload);
			continue;
		}
		t->lost += item->lost_before;
		t->damaged += item->damaged_before;
		if (item->kind != BRAID_ITEM_EVENT)
			continue;
		t->events++;
		if (item->stream->kind == BRAID_STREAM_GUEST && tick_number(item) < 4096)
			t->numbers[tick_number(item)]++;
	}
	CHECK_EQ(ret, 0);
	braid_merge_end(merge);
}

static const struct synth_guest_params usual = {
	.name = "guest", .incarnation = 7, .boot = 1, .start_ns = SYNTH_START_NS,
	.nr_slots = 4, .subbuf_bytes = 256,
};

/* Ticks first..last on CPU 0, with occasional samples. */
static void tick(struct braid_capture_writer *w, struct synth_guest *g, u32 first, u32 last)
{
	u32 k;

	for (k = first; k <= last; k++) {
		g->now += 10000;
		synth_tick(g, 0, k, "t");
		if (w && k % 10 == 0)
			synth_sample(w, g, 500, 500);
	}
}

static void standard(void)
{
	struct braid_source *source;
	struct tally first, second;
	u64 events = synth_standard(paths[0]);

	source = open_captures(both, 1);
	CHECK_EQ(source->nr_streams, 3);
	merge_all(source, &first);
	CHECK_EQ(first.events, events + 250);
	CHECK_EQ(first.backwards, 0);
	CHECK_EQ(first.damaged, 0);
	CHECK_EQ(source->faults, 0);
	braid_source_rewind(source);
	merge_all(source, &second);
	CHECK(!memcmp(&first, &second, sizeof(first)));
	braid_source_free(source);
}

/* A page that states a read time long before its events does not turn the timeline back. */
static void forged_page_time(void)
{
	struct braid_capture_writer *w = synth_capture(paths[0]);
	struct braid_source *source;
	struct synth_guest g;
	struct tally t;

	synth_guest_init(&g, &usual);
	synth_begin(w, &g, 1);
	tick(w, &g, 0, 9);
	synth_drain(w, &g, 0);
	g.start_ns = 0;		/* the source of the pages' host_ns */
	tick(NULL, &g, 10, 19);
	synth_drain(w, &g, 0);
	g.start_ns = SYNTH_START_NS;
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	source = open_captures(both, 1);
	merge_all(source, &t);
	CHECK_EQ(t.events, 20);
	CHECK_EQ(t.backwards, 0);
	braid_source_free(source);
	synth_guest_free(&g);
}

/* The error of converted times is at most the bound. */
static void truth_within_bound(void)
{
	struct synth_guest_params params = usual;
	const struct braid_item *item;
	struct braid_capture_writer *w;
	struct braid_source *source;
	struct braid_merge *merge;
	struct synth_guest g;
	u32 k;

	params.ppm = 123;
	params.nr_slots = 128;
	w = synth_capture(paths[0]);
	synth_guest_init(&g, &params);
	synth_begin(w, &g, 1);
	for (k = 0; k < 100; k++)
		tick(w, &g, 10 * k, 10 * k + 9), synth_drain(w, &g, 0);
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	source = open_captures(both, 1);
	NEED(!braid_merge_begin(&merge, source, NULL, NULL));
	for (k = 0; braid_merge_next(merge, &item) > 0; k++) {
		s64 off = item->host_ns - (s64)synth_host_ns(&g, item->counter);

		CHECK(off <= (s64)item->bound_ns && -off <= (s64)item->bound_ns);
		CHECK_EQ(tick_number(item), k);
	}
	CHECK_EQ(k, 1000);
	braid_merge_end(merge);
	braid_source_free(source);
	synth_guest_free(&g);
}

/* An agent dies, another continues: two captures, one stream, no duplicates. */
static void two_recordings(bool overlap)
{
	struct braid_capture_writer *w = synth_capture(paths[0]);
	struct synth_ring *ring;
	struct braid_source *source;
	struct synth_guest g;
	struct tally t;
	u32 k;

	synth_guest_init(&g, &usual);
	ring = &g.rings[0];
	synth_begin(w, &g, 1);
	tick(w, &g, 0, 24);
	synth_drain(w, &g, 0);		/* including a live tail */
	NEED(!braid_capture_flush(w));
	braid_capture_abandon(w);	/* as after SIGKILL */

	if (overlap)			/* the successor rereads the reader's sub-buffer */
		ring->reader.taken_bytes = 0;
	ring->began_seq = ring->reader.next_seq;
	ring->began_read = ring->reader.read;
	ring->began_lost = ring->reader.lost;
	w = synth_capture(paths[1]);
	synth_begin(w, &g, 5);
	for (k = 25; k < 100; k++) {
		tick(w, &g, k, k);
		synth_drain(w, &g, 0);
	}
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));

	source = open_captures(both, 2);
	CHECK_EQ(source->nr_streams, 1);
	merge_all(source, &t);
	CHECK_EQ(t.events, 100);
	CHECK_EQ(t.lost, 0);
	for (k = 0; k < 100; k++)
		CHECK_EQ(t.numbers[k], 1);
	braid_source_free(source);

	/* In the other order too; the second alone shows the events that it can place. */
	source = open_captures((char *[]){ paths[1], paths[0] }, 2);
	merge_all(source, &t);
	CHECK_EQ(t.events, 100);
	CHECK_EQ(t.lost, 0);
	braid_source_free(source);
	source = open_captures(both + 1, 1);
	merge_all(source, &t);
	CHECK(t.events >= 75 - 12 && t.events <= 100);
	if (!overlap)
		CHECK_EQ(t.events + t.lost, 75);
	CHECK_EQ(t.lost, t.damaged);
	CHECK_EQ(source->faults, 0);
	braid_source_free(source);
	synth_guest_free(&g);
}

static void successor(void)
{
	two_recordings(false);
}

static void successor_overlaps(void)
{
	two_recordings(true);
}

static void reboot(void)
{
	struct synth_guest_params params = usual;
	struct braid_capture_writer *w = synth_capture(paths[0]);
	struct braid_source *source;
	char label[BRAID_STREAM_LABEL];
	struct synth_guest a, b;
	struct tally t;

	synth_guest_init(&a, &params);
	synth_begin(w, &a, 1);
	tick(w, &a, 0, 20);
	synth_drain(w, &a, 0);
	synth_end(w, &a, BRAID_END_REINIT);
	params.incarnation = 8;
	params.boot = 9;
	params.start_ns += 5000000000ULL;
	synth_guest_init(&b, &params);
	synth_begin(w, &b, 2);
	tick(w, &b, 21, 40);
	synth_drain(w, &b, 0);
	synth_end(w, &b, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	source = open_captures(both, 1);
	CHECK_EQ(source->nr_streams, 2);
	CHECK(source->streams[1]->before == source->streams[0]);
	CHECK(!source->streams[0]->before);
	braid_stream_label(source->streams[0], label);
	CHECK(!strcmp(label, "guest"));
	braid_stream_label(source->streams[1], label);
	CHECK(!strcmp(label, "guest (2)"));
	merge_all(source, &t);
	CHECK_EQ(t.events, 41);
	CHECK_EQ(t.notes, 1);
	CHECK(strstr(t.note, "rebooted"));
	CHECK_EQ(t.backwards, 0);
	braid_source_free(source);
	synth_guest_free(&a);
	synth_guest_free(&b);
}

/* Drops of a full ring are reported exactly, with their place. */
static void losses(void)
{
	struct braid_capture_writer *w = synth_capture(paths[0]);
	const struct braid_item *item;
	struct braid_source *source;
	struct braid_merge *merge;
	struct synth_guest g;
	u32 expected = 0;
	u64 lost = 0;

	synth_guest_init(&g, &usual);
	synth_begin(w, &g, 1);
	tick(w, &g, 0, 300);		/* far too many */
	synth_drain(w, &g, 0);
	tick(w, &g, 301, 310);
	synth_drain(w, &g, 0);
	tick(w, &g, 311, 500);
	synth_drain(w, &g, 0);
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	source = open_captures(both, 1);
	NEED(!braid_merge_begin(&merge, source, NULL, NULL));
	while (braid_merge_next(merge, &item) > 0) {
		lost += item->lost_before;
		expected += item->lost_before;
		if (item->kind != BRAID_ITEM_EVENT)
			continue;
		CHECK_EQ(tick_number(item), expected);
		expected++;
	}
	CHECK(lost > 100);
	CHECK_EQ(lost, g.rings[0].reader.lost);
	CHECK_EQ(source->faults, 0);
	braid_merge_end(merge);
	braid_source_free(source);
	synth_guest_free(&g);
}

/* An extent is damaged: the rest of its sub-buffer is skipped, and the count stays exact. */
static void missing_extent(void)
{
	struct braid_capture_writer *w = synth_capture(paths[0]);
	struct braid_chunk_file head;
	struct braid_capture_reader *r;
	struct braid_chunk_view view;
	struct braid_source *source;
	struct synth_guest g;
	struct tally t;
	u32 k, pages = 0;
	FILE *f;

	synth_guest_init(&g, &usual);
	synth_begin(w, &g, 1);
	for (k = 0; k < 100; k++) {
		tick(w, &g, k, k);
		if (k % 3 == 2)
			synth_drain(w, &g, 0);
	}
	synth_drain(w, &g, 0);
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	NEED(!braid_capture_open(&r, paths[0], &head));
	while (braid_capture_next(r, &view) > 0)
		if (view.type == BRAID_CHUNK_PAGE && ++pages == 9)
			break;
	f = fopen(paths[0], "r+");
	NEED(f && !fseek(f, view.offset + 40, SEEK_SET));
	fputc(0x55, f);
	fclose(f);
	braid_capture_close(r);
	source = open_captures(both, 1);
	merge_all(source, &t);
	CHECK(source->faults >= 2);
	CHECK(t.lost > 0 && t.lost < 15);
	CHECK_EQ(t.lost, t.damaged);
	CHECK_EQ(t.events + t.lost, 100);
	CHECK_EQ(t.backwards, 0);
	braid_source_free(source);
	synth_guest_free(&g);
}

/* Without samples times are estimates, but none is in the future. */
static void no_samples(void)
{
	struct braid_capture_writer *w = synth_capture(paths[0]);
	const struct braid_item *item;
	struct braid_source *source;
	struct braid_merge *merge;
	struct synth_guest g;
	s64 latest;

	synth_guest_init(&g, &usual);
	synth_begin(w, &g, 1);
	tick(NULL, &g, 0, 30);
	synth_drain(w, &g, 0);
	latest = synth_host_ns(&g, g.now);
	NEED(!braid_capture_finish(w));
	source = open_captures(both, 1);
	CHECK_EQ(source->streams[0]->clock.kind, BRAID_CLOCK_NOMINAL);
	CHECK_EQ(source->streams[0]->bound_ns, BRAID_BOUND_UNKNOWN);
	NEED(!braid_merge_begin(&merge, source, NULL, NULL));
	while (braid_merge_next(merge, &item) > 0) {
		CHECK(item->host_ns <= latest);
		CHECK(item->host_ns > latest - 1000000);
		CHECK_EQ(item->bound_ns, BRAID_BOUND_UNKNOWN);
	}
	braid_merge_end(merge);
	braid_source_free(source);
	synth_guest_free(&g);
}

/* Captures of different boots of the host can't be merged. */
static void other_host(void)
{
	struct braid_chunk_file head = {
		.version_major = BRAID_CAPTURE_MAJOR, .clock = "mono_raw", .host_name = "testhost",
		.start_host_ns = 5, .start_realtime_ns = 1700000000000000000ULL,
	};
	struct braid_capture_writer *w = synth_capture(paths[0]);
	struct braid_source *source;

	NEED(!braid_capture_finish(w));
	NEED(!braid_capture_create(&w, paths[1], &head));
	NEED(!braid_capture_finish(w));
	CHECK_EQ(braid_source_open_captures(&source, both, 2, NULL), -EXDEV);
	CHECK(strstr(braid_failure(), "another boot"));
}

/* Chunks of every type with random payload cause only faults. */
static void random_chunks(void)
{
	static u8 payload[6000];
	u64 seed = 99;
	u32 turn, k, i;

	for (turn = 0; turn < 60; turn++) {
		struct braid_capture_writer *w = synth_capture(paths[0]);
		struct braid_source *source;
		struct synth_guest g;
		struct tally t;

		synth_guest_init(&g, &usual);
		synth_begin(w, &g, 1);
		synth_host(w, 2, 5, SYNTH_START_NS, 1000);
		for (k = 0; k < 200; k++) {
			u32 bytes;

			seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
			bytes = (seed >> 33) % sizeof(payload);
			for (i = 0; i < bytes; i++)
				payload[i] = (seed >> (i % 50)) * (i & 1 ? 1 : i);
			if (turn & 1)	/* small numbers get further */
				for (i = 0; i < bytes; i++)
					payload[i] &= i % 4 ? 0 : 3;
			NEED(!braid_capture_put(w, 2 + k % 13, 1 + (k & 1), NULL, 0, payload, bytes));
		}
		NEED(!braid_capture_finish(w));
		source = open_captures(both, 1);
		merge_all(source, &t);
		CHECK_EQ(t.backwards, 0);
		braid_source_free(source);
		synth_guest_free(&g);
	}
}

/* A chunk unchanged, or with changed descriptions of buffers and pages. */
static void put_forged(struct braid_capture_writer *w, const struct braid_chunk_view *v, u64 random)
{
	struct braid_chunk_buffer buffer = { .index = random % 40 };
	struct braid_superblock sb;
	u8 *copy = malloc(v->bytes + 1);

	NEED(copy);
	memcpy(copy, v->payload, v->bytes);
	if (v->type == BRAID_CHUNK_PAGE && random % 3) {
		struct braid_chunk_page *page = (struct braid_chunk_page *)copy;

		page->flags ^= random >> 20 & 15;
		page->buffer = random >> 8 & 1;
		if (random >> 9 & 1)
			page->first_seq += (s64)(random >> 24 & 63) - 32;
	}
	if (v->type != BRAID_CHUNK_FILE && v->type != BRAID_CHUNK_FILE_END)
		NEED(!braid_capture_put(w, v->type, v->stream, NULL, 0, copy, v->bytes));
	if (v->type == BRAID_CHUNK_STREAM && v->bytes > sizeof(sb)) {
		u32 word = random >> 16 & 31, turn;

		memcpy(&sb, copy + sizeof(struct braid_chunk_stream), sizeof(sb));
		buffer.desc = sb.buffers[0];
		for (turn = 0; turn < 40; turn++) {
			u8 *desc = (u8 *)&buffer.desc;

			buffer.index = turn;
			NEED(!braid_capture_put(w, BRAID_CHUNK_BUFFER, v->stream, NULL, 0, &buffer,
						sizeof(buffer)));
			desc[(word + turn * 7) % sizeof(buffer.desc)] ^= 1 << (turn & 7);
		}
	}
	free(copy);
}

static void forged_buffers_and_pages(void)
{
	struct braid_capture_reader *r;
	struct braid_capture_writer *w;
	struct braid_source *source;
	struct braid_chunk_file head;
	struct braid_chunk_view v;
	char *names[] = { paths[1] };
	u64 seed = 17;
	struct tally t;
	u32 turn;

	for (turn = 0; turn < 40; turn++) {
		synth_standard(paths[0]);
		NEED(!braid_capture_open(&r, paths[0], &head));
		NEED(!braid_capture_create(&w, paths[1], &head));
		while (braid_capture_next(r, &v) > 0) {
			seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
			put_forged(w, &v, seed >> 16);
		}
		braid_capture_close(r);
		NEED(!braid_capture_finish(w));
		NEED(!braid_source_open_captures(&source, names, 1, NULL));
		merge_all(source, &t);
		CHECK_EQ(t.backwards, 0);
		CHECK(source->faults > 0);
		braid_source_free(source);
	}
}

/* A capture as of the first agents: fewer buffers, pages without data about stamps. */
static void make_old(const char *to, const char *from)
{
	u32 old_bytes = sizeof(struct braid_chunk_stream) +
			offsetof(struct braid_superblock, buffers) +
			16 * sizeof(struct braid_buffer_desc);
	struct braid_capture_reader *r;
	struct braid_capture_writer *w;
	struct braid_chunk_file head;
	struct braid_chunk_view v;
	u8 *copy;

	NEED(!braid_capture_open(&r, from, &head));
	head.version_minor = 0;
	NEED(!braid_capture_create(&w, to, &head));
	while (braid_capture_next(r, &v) > 0) {
		copy = malloc(v.bytes + 1);
		NEED(copy);
		memcpy(copy, v.payload, v.bytes);
		if (v.type == BRAID_CHUNK_PAGE)
			((struct braid_chunk_page *)copy)->flags &= BRAID_PAGE_FINAL;
		if (v.type == BRAID_CHUNK_STREAM && v.bytes > old_bytes)
			v.bytes = old_bytes;
		if (v.type != BRAID_CHUNK_FILE && v.type != BRAID_CHUNK_FILE_END)
			NEED(!braid_capture_put(w, v.type, v.stream, NULL, 0, copy, v.bytes));
		free(copy);
	}
	braid_capture_close(r);
	NEED(!braid_capture_finish(w));
}

static void old_captures(void)
{
	char *names[] = { paths[1] };
	struct braid_source *source;
	u64 read = synth_standard(paths[0]), events = 0;
	size_t k, j;

	make_old(paths[1], paths[0]);
	NEED(!braid_source_open_captures(&source, names, 1, NULL));
	for (k = 0; k < source->nr_streams; k++)
		for (j = 0; j < source->streams[k]->nr_rings; j++) {
			struct braid_ring *ring = source->streams[k]->rings[j];

			while (braid_ring_next(ring) > 0)
				;
			if (source->streams[k]->kind == BRAID_STREAM_GUEST)
				events += ring->walk.events;
		}
	CHECK_EQ(source->faults, 0);
	CHECK_EQ(events, read);
	braid_source_free(source);
}

int main(void)
{
	snprintf(paths[0], sizeof(paths[0]), "/tmp/braid-source-%d-0", getpid());
	snprintf(paths[1], sizeof(paths[1]), "/tmp/braid-source-%d-1", getpid());
	RUN(standard);
	RUN(forged_page_time);
	RUN(truth_within_bound);
	RUN(successor);
	RUN(successor_overlaps);
	RUN(reboot);
	RUN(losses);
	RUN(missing_extent);
	RUN(no_samples);
	RUN(other_host);
	RUN(random_chunks);
	RUN(forged_buffers_and_pages);
	RUN(old_captures);
	unlink(paths[0]);
	unlink(paths[1]);
	return VERDICT();
}
