// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A capture that is packed while it is recorded is the file that packing it afterwards would make.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/capture/pack.h"
#include "host_agent/capture/packed.h"
#include "host_agent/capture/packer.h"
#include "host_agent/capture/queue.h"
#include "host_agent/cli/check.h"
#include "host_agent/trace/source.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/report_text.h"
#include "tests/unit/scratch.h"
#include "tests/unit/session.h"

#define EVENTS		30000u		/* of each vCPU; the rings hold them */
#define LAPS		4
#define CHUNKS		400u
#define SEGMENT_BYTES	(1u << 20)
#define MOST_SEGMENTS	(BRAID_CHUNK_MAX_BYTES / sizeof(struct braid_chunk_packed_place))

int main(void);

static char *region_path, *packed, *plain, *other;

static const struct fake_params usual = {
	.name = "fake", .bytes = 16 << 20, .nr_vcpus = 2, .subbuf_bytes = 4096, .nr_slots = 512,
};

static u64 size_of(const char *path)
{
	struct stat st;

	NEED(!stat(path, &st));
	return st.st_size;
}

typedef int convert(int to, int from, const char *path, struct braid_pack_run *run);

static int run(convert *to_do, const char *from_path, const char *to_path)
{
	struct braid_pack_run how = { .level = BRAID_PACKER_LEVEL };
	int from = open(from_path, O_RDONLY | O_CLOEXEC);
	int to = open(to_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int err;

	NEED(from >= 0 && to >= 0);
	err = to_do(to, from, from_path, &how);
	close(from);
	close(to);
	return err;
}

/* Chunks of any size, those that no queue's slot holds included. */
static void put_chunks(struct braid_capture_writer *w)
{
	static u8 payload[5 << 20];
	u32 k, i, bytes;

	srandom(1);
	for (k = 0; k < CHUNKS; k++) {
		bytes = k % 97 == 50 ? SEGMENT_BYTES + random() % (4 << 20) : random() % 30000;
		for (i = 0; i < bytes; i++)
			payload[i] = k % 3 == 0 ? random() : k % 3 == 1 ? i / 16 : 0;
		NEED(!braid_capture_put(w, 100 + k, k, payload, bytes / 3, payload + bytes / 3,
					bytes - bytes / 3));
		if (k % 10 == 0)
			NEED(!braid_capture_flush(w));
	}
}

static void make(const char *path, struct braid_flusher *flusher)
{
	const struct braid_chunk_file head = {
		.version_major = BRAID_CAPTURE_MAJOR, .clock = "mono_raw", .host_name = "h",
	};
	struct braid_capture_writer *w;

	NEED(!braid_capture_create_queued(&w, path, &head, flusher));
	put_chunks(w);
	NEED(!braid_capture_finish(w));
}

/* Byte for byte: the same capture as without packing, and the same file as packed later. */
static void is_the_file_that_pack_makes(void)
{
	struct braid_flusher *flusher;

	make(plain, NULL);
	NEED(!braid_flusher_start(&flusher, BRAID_PACKER_LEVEL, NULL));
	make(packed, flusher);
	braid_flusher_stop(flusher);
	CHECK_EQ(run(braid_unpack, packed, other), 0);
	CHECK(same_files(plain, other));
	CHECK_EQ(run(braid_pack, plain, other), 0);
	CHECK(same_files(packed, other));
	CHECK(size_of(packed) < size_of(plain));
}

/* The guest's events; each ring's account must add up. */
static u64 count_events(struct braid_source *source)
{
	struct braid_text why = { 0 };
	u64 events = 0;
	size_t k;

	NEED(!braid_walk_rings(source));
	for (k = 0; source->nr_streams && k < source->streams[0]->nr_rings; k++) {
		const struct braid_ring *ring = source->streams[0]->rings[k];

		if (ring->cpu == BRAID_RING_NOTES)
			continue;
		events += ring->walk.events;
		CHECK_EQ(ring->walk.lost, 0);
		CHECK(braid_check_account(ring, &why));
	}
	braid_text_free(&why);
	return events;
}

static u64 events_of(const char *path)
{
	char *paths[] = { (char *)path };
	struct braid_source_options options = { 0 };
	struct braid_source *source;
	u64 events;

	NEED(!braid_source_open_captures(&source, paths, 1, &options));
	events = count_events(source);
	braid_source_free(source);
	return events;
}

static u64 offered(const struct session *s)
{
	return s->guest->ctl->offered[0] + s->guest->ctl->offered[1];
}

static bool all_taken(struct session *s)
{
	return s->status.events == offered(s);
}

static void begin(struct session *s, const char *capture)
{
	memset(s, 0, sizeof(*s));
	s->guest = fake_guest_new(region_path, &usual);
	NEED(!braid_flusher_start(&s->flusher, BRAID_PACKER_LEVEL, NULL));
	session_begin(s, region_path, capture, NULL);
}

static void write_laps(struct session *s)
{
	int lap;

	for (lap = 0; lap < LAPS; lap++) {
		fake_guest_write(s->guest, 0, EVENTS);
		fake_guest_write(s->guest, 1, EVENTS);
		session_until(s, all_taken);
	}
}

static void end(struct session *s)
{
	session_end(s);
	braid_flusher_stop(s->flusher);
	s->flusher = NULL;
}

/* Every event is there, once; the report is that of the unpacked capture. */
static void is_reported_as_unpacked(void)
{
	struct braid_walk_totals totals = { 0 };
	struct session s;
	char *text[2];

	begin(&s, packed);
	write_laps(&s);
	end(&s);
	CHECK_EQ(events_of(packed), offered(&s));
	NEED(!run(braid_unpack, packed, plain));
	CHECK(size_of(packed) < size_of(plain) / 2);
	text[0] = report_text(packed, true, NULL, &totals);
	text[1] = report_text(plain, true, NULL, NULL);
	CHECK(!strcmp(text[0], text[1]));
	CHECK_EQ(totals.events, offered(&s));
	free(text[0]);
	free(text[1]);
	CHECK_EQ(run(braid_pack, plain, other), 0);
	CHECK(same_files(packed, other));
	fake_guest_free(s.guest);
}

/* The process packs what it has, while the file has whole segments only. */
static void is_readable_while_it_is_recorded(void)
{
	struct braid_capture_reader *reader;
	struct braid_chunk_file head;
	struct session s;

	begin(&s, packed);
	session_settle(&s);
	CHECK_EQ(size_of(packed), sizeof(struct braid_chunk) + sizeof(head));
	CHECK_EQ(braid_capture_open(&reader, packed, &head), -EBADMSG);
	CHECK(strstr(braid_failure(), "has no whole segment: it is compressed while it is recorded"));
	write_laps(&s);
	NEED(!braid_capture_settle(s.sink.capture));
	NEED(!braid_capture_open(&reader, packed, &head));
	CHECK(braid_capture_unfinished(reader));
	CHECK_EQ(braid_capture_size(reader), braid_capture_bytes(s.sink.capture) / SEGMENT_BYTES *
		 SEGMENT_BYTES);
	braid_capture_close(reader);
	CHECK(events_of(packed) > 0);
	end(&s);
	fake_guest_free(s.guest);
}

/* Until the file has all that was put. */
static void await_file(const struct session *s)
{
	struct braid_capture_reader *reader;
	struct braid_chunk_file head;
	u64 bytes = 0;

	while (bytes < braid_capture_bytes(s->sink.capture)) {
		NEED(!braid_capture_follow(&reader, packed, &head));
		bytes = braid_capture_size(reader);
		braid_capture_close(reader);
	}
}

/* From its beginning, when the file has no segment, to its end. */
static void is_followed(bool promptly)
{
	struct braid_source *source;
	struct session s;
	int turn, ret;

	begin(&s, packed);
	NEED(!braid_source_follow(&source, packed, NULL));
	for (turn = 0; turn < 2; turn++) {
		write_laps(&s);
		NEED(!braid_capture_settle(s.sink.capture));
		if (promptly) {
			braid_flusher_end_segment(s.flusher);
			NEED(!braid_flusher_wake(s.flusher));
			await_file(&s);
		}
		while ((ret = braid_source_grow_alone(source, false)) > 0)
			;
		NEED(!ret);
		CHECK(source->until_ns < INT64_MAX);
	}
	end(&s);
	while (source->until_ns < INT64_MAX)
		NEED(braid_source_grow_alone(source, false) >= 0);
	CHECK_EQ(count_events(source), offered(&s));
	CHECK_EQ(events_of(packed), offered(&s));
	braid_source_free(source);
	fake_guest_free(s.guest);
}

static void can_be_followed(void)
{
	is_followed(false);
	is_followed(true);
}

/* A recorder that is killed: the process packs and writes all that it took, with the file's end. */
static void outlives_the_agent(void)
{
	struct braid_capture_reader *reader;
	struct braid_chunk_file head;
	struct session s = { 0 };
	int status, ends[2];
	pid_t pid;
	char byte;

	NEED(!pipe(ends));
	s.guest = fake_guest_new(region_path, &usual);
	pid = fork();
	NEED(pid >= 0);
	if (!pid) {
		NEED(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);	/* the process keeps that */
		NEED(!braid_flusher_start(&s.flusher, BRAID_PACKER_LEVEL, NULL));
		session_begin(&s, region_path, packed, NULL);
		write_laps(&s);
		raise(SIGKILL);
	}
	close(ends[1]);
	NEED(waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	NEED(read(ends[0], &byte, 1) == 0);	/* it has ended, too */
	close(ends[0]);
	CHECK_EQ(events_of(packed), offered(&s));
	NEED(!braid_capture_open(&reader, packed, &head));
	CHECK(!braid_capture_unfinished(reader));
	braid_capture_close(reader);
	fake_guest_free(s.guest);
}

static void cut_off(const char *path, const u8 *file, size_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	NEED(fd >= 0 && !braid_write_all(fd, file, bytes));
	close(fd);
}

/*
 * A reader that opened the beginning of a file finds the segments that it gains, however it grows.
 */
static void grows_with_its_file(void)
{
	struct braid_packed *growing;
	size_t bytes, there, before, plain_bytes;
	u8 *file, *expected, *got;
	int fd;

	make(plain, NULL);
	NEED(!run(braid_pack, plain, packed));
	file = read_file(packed, &bytes);
	expected = read_file(plain, &plain_bytes);
	got = malloc(plain_bytes);
	fd = open(other, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	NEED(got && fd >= 0 && !braid_write_all(fd, file, 200));
	NEED(!braid_packed_open(&growing, fd, 200));
	for (there = 200, before = 0; there < bytes; before = braid_packed_bytes(growing)) {
		size_t more = there % 3 ? 7 + there % 4099 : 100003;

		more = more < bytes - there ? more : bytes - there;
		NEED(!braid_write_all(fd, file + there, more));
		there += more;
		NEED(!braid_packed_grow(growing, there));
		CHECK(braid_packed_bytes(growing) >= before);
		CHECK_EQ(braid_packed_no_end(growing), there < bytes);
		more = braid_packed_bytes(growing) - before;
		CHECK_EQ(braid_packed_read(growing, got, more, before), (ssize_t)more);
	}
	CHECK_EQ(braid_packed_bytes(growing), plain_bytes);
	CHECK_EQ(braid_packed_read(growing, got, plain_bytes, 0), (ssize_t)plain_bytes);
	CHECK(!memcmp(got, expected, plain_bytes));
	CHECK_EQ(braid_packed_damaged(growing), 0);
	braid_packed_free(growing);
	close(fd);
	free(file);
	free(expected);
	free(got);
}

/* A file cut off anywhere is good up to its last whole segment. */
static void is_good_up_to_its_last_segment(void)
{
	u64 events, before = 0, all;
	struct braid_capture_reader *reader;
	struct braid_chunk_file head;
	struct session s;
	size_t bytes, cut;
	u8 *file;

	begin(&s, packed);
	write_laps(&s);
	end(&s);
	all = offered(&s);
	file = read_file(packed, &bytes);
	for (cut = bytes / 8; cut < bytes - bytes / 16; cut += bytes / 16) {
		cut_off(other, file, cut);
		if (braid_capture_open(&reader, other, &head))
			continue;
		CHECK(braid_capture_unfinished(reader));
		CHECK_EQ(braid_capture_size(reader) % SEGMENT_BYTES, 0);
		braid_capture_close(reader);
		events = events_of(other);
		CHECK(events >= before && events < all);
		before = events;
	}
	CHECK(before > all / 2);
	cut_off(other, file, bytes - 8);	/* all segments, and half an end */
	NEED(!braid_capture_open(&reader, other, &head));
	CHECK(braid_capture_unfinished(reader));
	braid_capture_close(reader);
	CHECK_EQ(events_of(other), all);
	free(file);
	fake_guest_free(s.guest);
}

/* The limits of the format ------------------------------------------------------------------- */

/* Keeps the end of what is written. */
struct tail {
	u64 bytes;
	u64 largest;
	struct braid_chunk last;
	struct braid_chunk_packed_end end;
};

static int keep_tail(void *arg, const void *data, size_t bytes)
{
	struct tail *t = arg;

	memcpy(&t->last, data, sizeof(t->last));
	if (t->last.type == BRAID_CHUNK_FILE_END)
		memcpy(&t->end, (const u8 *)data + sizeof(t->last), sizeof(t->end));
	t->bytes += bytes;
	t->largest = bytes > t->largest ? bytes : t->largest;
	return 0;
}

static struct tail pack_parts(u64 nr)
{
	static const struct {
		struct braid_chunk chunk;
		struct braid_chunk_file file;
	} first = {
		.chunk = { .magic = BRAID_CHUNK_MAGIC, .type = BRAID_CHUNK_FILE },
		.file = { .version_major = BRAID_CAPTURE_MAJOR },
	};
	struct tail tail = { 0 };
	const struct braid_packer_options options = {
		.level = 1, .segment_bytes = 8, .write = keep_tail, .arg = &tail,
	};
	struct braid_packer *p = braid_packer_new(&options);
	u64 k;

	NEED(p && !braid_packer_add(p, &first, sizeof(first)));	/* a segment */
	for (k = 1; k < nr; k++)
		NEED(!braid_packer_add(p, &k, sizeof(k)));
	NEED(!braid_packer_finish(p));
	CHECK_EQ(braid_packer_written(p), tail.bytes);
	CHECK_EQ(tail.end.bytes, sizeof(first) + 8 * (nr - 1));
	braid_packer_free(p);
	return tail;
}

/* An index that no chunk holds is left out; the memory for it is given back. */
static void too_many_parts_have_no_index(void)
{
	struct tail tail = pack_parts(MOST_SEGMENTS);

	CHECK_EQ(tail.largest, sizeof(struct braid_chunk) + BRAID_CHUNK_MAX_BYTES);
	CHECK(tail.end.index_offset);
	tail = pack_parts(MOST_SEGMENTS + 1);
	CHECK(tail.largest < 1000);
	CHECK_EQ(tail.end.index_offset, 0);
}

/* What is no capture, or packed, is refused; so is the end of a capture that never began. */
static void what_is_no_capture_is_refused(void)
{
	struct {
		struct braid_chunk chunk;
		struct braid_chunk_file file;
	} first = { .chunk = { .magic = BRAID_CHUNK_MAGIC, .type = BRAID_CHUNK_FILE } };
	struct tail tail = { 0 };
	const struct braid_packer_options options = {
		.level = 1, .write = keep_tail, .arg = &tail,
	};
	struct braid_packer *p = braid_packer_new(&options);

	NEED(p);
	CHECK_EQ(braid_packer_add(p, &first, 100), 0);
	CHECK_EQ(braid_packer_finish(p), -EBADMSG);
	braid_packer_free(p);
	first.file.version_major = BRAID_PACKED_MAJOR;
	p = braid_packer_new(&options);
	NEED(p);
	CHECK_EQ(braid_packer_add(p, &first, sizeof(first)), -EBADMSG);
	braid_packer_free(p);
	CHECK_EQ(tail.bytes, 0);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	region_path = scratch("region");
	packed = scratch("packed.braid");
	plain = scratch("plain.braid");
	other = scratch("other.braid");
	RUN(outlives_the_agent);
	RUN(is_the_file_that_pack_makes);
	RUN(is_reported_as_unpacked);
	RUN(is_readable_while_it_is_recorded);
	RUN(can_be_followed);
	RUN(grows_with_its_file);
	RUN(is_good_up_to_its_last_segment);
	RUN(too_many_parts_have_no_index);
	RUN(what_is_no_capture_is_refused);
	return VERDICT();
}
