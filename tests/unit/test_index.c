// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A capture's index changes how it is read, but never what is read: reports from a time on are the
 * same with it and without it, whatever happened to the file.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/capture/capture.h"
#include "host_agent/capture/checksum.h"
#include "host_agent/capture/pack.h"
#include "host_agent/export/ctf/form.h"
#include "host_agent/export/text/form.h"
#include "host_agent/trace/source.h"
#include "host_agent/util/io.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/scratch.h"
#include "tracebraid/tracebraid.h"

#define ROUNDS		40000u
#define STEP_NS		5000u

int main(void);

static char path[64], other[64], folder[64];
static u64 random_state = 0x853c49e6748fea9bULL;
static u8 *file;
static size_t file_bytes;
static u64 read_bytes;		/* of the last report */
static u32 differ;		/* lines that say that an index does */
static u32 refused;		/* lines that say that one is damaged */

static u32 any(u32 nr)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state >> 32) % nr;
}

static void begin_guest(struct braid_capture_writer *w, struct synth_guest *g, u32 stream)
{
	struct synth_guest_params params = {
		.name = stream == 1 ? "one" : "two", .incarnation = stream, .boot = stream,
		.ppm = stream == 1 ? 12 : -7, .start_ns = SYNTH_START_NS - stream * 1000000,
		.nr_slots = 8, .subbuf_bytes = 4096,
	};

	synth_guest_init(g, &params);
	g->now = 2000000;
	synth_begin(w, g, stream);
	synth_sample(w, g, 200, 300);
}

/*
 * Guests that are read late at times, and then lose events; pages in parts; a host that loses some.
 */
static void make(const char *to)
{
	struct braid_capture_writer *w = synth_capture(to);
	struct synth_guest guests[2];
	u32 k, g, lazy = 0, first = 1;

	begin_guest(w, &guests[0], 1);
	begin_guest(w, &guests[1], 2);
	synth_host(w, 3, 1, SYNTH_START_NS, 1);
	for (k = 0; k < ROUNDS; k++) {
		u32 step = 1 + any(2 * STEP_NS);

		for (g = 0; g < 2; g++) {
			guests[g].now += step;
			if (any(4))
				synth_tick(&guests[g], any(SYNTH_CPUS), k, "some text");
			if (!any(100))
				synth_sample(w, &guests[g], 100 + any(900), 100 + any(900));
		}
		if (!any(400))
			lazy = any(1200);
		lazy -= lazy > 0;
		if (!lazy && any(2))
			synth_drain(w, &guests[any(2)], any(3));
		if (!any(20)) {
			synth_host_page(w, 3, first, 5, synth_host_ns(&guests[0], guests[0].now), 100);
			first += 5;
		}
	}
	for (g = 0; g < 2; g++) {
		synth_sample(w, &guests[g], 200, 300);
		synth_drain(w, &guests[g], 0);
		synth_end(w, &guests[g], BRAID_END_STOPPED);
		synth_guest_free(&guests[g]);
	}
	NEED(!braid_capture_finish(w));
}

static void note_fault(void *arg, const struct braid_stream *stream, const char *line)
{
	(void)arg;
	(void)stream;
	differ += !!strstr(line, "index does not match");
}

static void note_line(void *arg, const char *line)
{
	(void)arg;
	refused += !!strstr(line, "index is damaged");
}

/* What a file in a folder holds, but for the random id of the trace; the file is removed. */
static void take_file(FILE *to, int folder, const char *name)
{
	static const u8 magic[] = { 0xc1, 0x1f, 0xfc, 0xc1 };
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
	bool text = !strcmp(name, "metadata");
	char *id, *data;
	struct stat st;
	off_t k;

	NEED(fd >= 0 && !fstat(fd, &st));
	data = calloc(1, st.st_size + 24);
	NEED(data && braid_pread_all(fd, data, st.st_size, 0) == st.st_size);
	close(fd);
	for (id = data; text && (id = strstr(id, "uuid = \"")); id += 44)
		memset(id + 8, 0x20, 36);
	for (k = 0; !text && k < st.st_size; k += 8)
		if (!memcmp(data + k, magic, sizeof(magic)))
			memset(data + k + 4, 0, 16);
	fprintf(to, "%s\n", name);
	for (k = 0; k < st.st_size; k++)
		fprintf(to, text ? "%c" : "%02x", (u8)data[k]);
	free(data);
	unlinkat(folder, name, 0);
}

/* All that is in a folder, by name; it is removed. */
static void take_folder(FILE *to, const char *path)
{
	struct dirent **names;
	int nr = scandir(path, &names, NULL, alphasort), folder, k;

	folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	NEED(nr >= 0 && folder >= 0);
	for (k = 0; k < nr; k++) {
		char inner[512];

		snprintf(inner, sizeof(inner), "%s/%s", path, names[k]->d_name);
		if (names[k]->d_type == DT_DIR && names[k]->d_name[0] != '.')
			take_folder(to, inner);
		else if (names[k]->d_type == DT_REG)
			take_file(to, folder, names[k]->d_name);
		free(names[k]);
	}
	free(names);
	close(folder);
	rmdir(path);
}

static int export_ctf(FILE *to, struct braid_source *source,
		      const struct braid_walk_options *options,
		      struct braid_walk_totals *totals)
{
	int err = braid_export_ctf(folder, source, options, totals);

	if (!err)
		take_folder(to, folder);
	return err;
}

typedef int write_form(FILE *to, struct braid_source *source,
		       const struct braid_walk_options *options,
		       struct braid_walk_totals *totals);

/* Files from @since on, in a form; to be freed. NULL: they can't be read. */
static char *reports(write_form *form, const char *const *names, u32 nr, bool by_index,
		     struct braid_walk_moment since)
{
	struct braid_source_options how = { .by_index = by_index, .fault = note_fault,
					    .say = note_line };
	struct braid_walk_options options = { .from = since };
	struct braid_walk_totals totals;
	struct braid_source *source;
	char *text = NULL;
	size_t bytes;
	FILE *to;

	differ = refused = 0;
	if (braid_source_open_captures(&source, (char *const *)names, nr, &how))
		return NULL;
	to = open_memstream(&text, &bytes);
	NEED(to);
	CHECK_EQ(form(to, source, &options, &totals), 0);
	fclose(to);
	read_bytes = source->bytes_read;
	braid_source_free(source);
	return text;
}

static char *report(const char *name, bool by_index, s64 since)
{
	return reports(braid_export_text, &name, 1, by_index,
		       (struct braid_walk_moment){ BRAID_MOMENT_SINCE, since });
}

/* Without the line that counts what was found to be wrong: damage may be found later. */
static void drop_faults(char *text)
{
	char *line = text ? strstr(text, "found so far;") : NULL, *end;

	if (!line)
		return;
	end = strchr(line, '\n') + 1;
	while (line > text && line[-1] != '\n')
		line--;
	memmove(line, end, strlen(end) + 1);
}

static void compare(const char *name, s64 since)
{
	char *a = report(name, false, since), *b = report(name, true, since);

	drop_faults(a);
	drop_faults(b);
	CHECK(!a == !b && (!a || !strcmp(a, b)));
	free(a);
	free(b);
}

static s64 some_time(void)
{
	return (s64)(any(2) ? any(ROUNDS) : ROUNDS - any(ROUNDS / 3)) * STEP_NS;
}

static void reports_are_the_same(void)
{
	u64 all, of_last;
	u32 n, k;

	for (n = 0; n < 2; n++) {
		make(path);
		for (k = 0; k < 8; k++)
			compare(path, some_time());
		compare(path, 0);
		compare(path, (s64)ROUNDS * STEP_NS * 2);
		free(report(path, false, (s64)ROUNDS * STEP_NS * 9 / 10));
		CHECK_EQ(differ, 0);
		all = read_bytes;
		free(report(path, true, (s64)ROUNDS * STEP_NS * 9 / 10));
		of_last = read_bytes;
		CHECK(of_last < all * 3 / 4);	/* pages before that are not even read */
	}
	free(file);
	file = read_file(path, &file_bytes);
}

static write_form *const forms[] = { braid_export_text, braid_export_json, export_ctf };

/* In each form, of one file and of two, with the numbers of events. */
static void all_forms_are_the_same(void)
{
	const char *const names[] = { path, other };
	char *a, *b;
	u32 f, k;

	for (f = 0; f < 3; f++)
		for (k = 0; k < 6; k++) {
			const struct braid_walk_moment since = {
				k % 3 ? BRAID_MOMENT_SINCE : BRAID_MOMENT_BEFORE, some_time(),
			};

			a = reports(forms[f], names, 1 + k / 3, false, since);
			CHECK_EQ(differ, 0);
			b = reports(forms[f], names, 1 + k / 3, true, since);
			NEED(a && b);
			CHECK(strlen(a) > 100);
			CHECK(!strcmp(a, b));
			free(a);
			free(b);
		}
}

/* How a walk begins at a time: by `since=`, by a seek, or by dropping the items before it. */
enum way { SELECT, SEEK, DROP };

/* The items of a walk of the library from @since_ns on; to be freed. */
static char *walk_of(const char *name, s64 since_ns, enum way how)
{
	const char *words[] = { NULL, NULL };
	struct tracebraid_trace *trace;
	struct tracebraid_walk *walk;
	char since[40], *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	snprintf(since, sizeof(since), "since=%llu.%09llu", (unsigned long long)since_ns / 1000000000,
		 (unsigned long long)since_ns % 1000000000);
	words[0] = how == SELECT ? since : NULL;
	NEED(to && !tracebraid_open(&trace, &name, 1, NULL, NULL, NULL));
	NEED(!tracebraid_walk_new(&walk, trace, words));
	if (how == SEEK)
		NEED(!tracebraid_walk_seek(walk, since_ns));
	while (tracebraid_walk_next(walk) > 0)
		if (tracebraid_ns(walk) >= since_ns)
			fprintf(to, "%lld %u %llu %llu %s\n", (long long)tracebraid_ns(walk),
				tracebraid_cpu(walk), (unsigned long long)tracebraid_seq(walk),
				(unsigned long long)tracebraid_lost(walk), tracebraid_text(walk));
	fclose(to);
	tracebraid_close(trace);
	return text;
}

static void the_library_too(const char *name)
{
	s64 since_ns = SYNTH_START_NS + some_time();
	char *all = walk_of(name, since_ns, DROP), *selected = walk_of(name, since_ns, SELECT);
	char *found = walk_of(name, since_ns, SEEK);

	CHECK(strlen(all) > 100 && !strcmp(all, selected) && !strcmp(all, found));
	free(all);
	free(selected);
	free(found);
}

static void a_packed_one_too(void)
{
	struct braid_pack_run how = { .level = 1, .segment_bytes = 64 << 10 };
	int from = open(path, O_RDONLY | O_CLOEXEC);
	int to = open(other, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	const char *const plain[] = { path }, *const packed[] = { other };
	char *a, *b;
	u32 k;

	NEED(from >= 0 && to >= 0 && !braid_pack(to, from, path, &how));
	close(from);
	close(to);
	for (k = 0; k < 6; k++) {
		const struct braid_walk_moment since = { BRAID_MOMENT_SINCE, some_time() };

		compare(other, since.ns);
		a = reports(forms[k % 3], plain, 1, false, since);
		b = reports(forms[k % 3], packed, 1, true, since);
		NEED(a && b);
		CHECK(!strcmp(a, b));
		free(a);
		free(b);
		the_library_too(k % 2 ? path : other);
	}
}

static void cut_anywhere(void)
{
	u32 k;

	for (k = 0; k < 8; k++) {
		write_file(other, file, k < 4 ? file_bytes - 8 * k - 8 : any(file_bytes));
		compare(other, some_time());
	}
}

static void damaged_anywhere(void)
{
	u8 *copy = malloc(file_bytes);
	u32 k;

	NEED(copy);
	for (k = 0; k < 12; k++) {
		size_t at = k % 2 ? 1000 + any(file_bytes - 1000) : file_bytes - 1 - any(600);

		memcpy(copy, file, file_bytes);
		copy[at] ^= 1 << any(8);
		write_file(other, copy, file_bytes);
		compare(other, some_time());
	}
	free(copy);
}

/* The @nr-th chunk of a type. */
static struct braid_chunk *chunk_of(u8 *data, u16 type, u32 nr)
{
	size_t at = 0;

	while (at + sizeof(struct braid_chunk) <= file_bytes) {
		struct braid_chunk *chunk = (struct braid_chunk *)(data + at);

		if (chunk->type == type && !nr--)
			return chunk;
		at += sizeof(*chunk) + (((size_t)chunk->payload_bytes + 7) & ~7ul);
	}
	return NULL;
}

/* Lies with right checksums: who reads all chunks finds the lie, and the same events as ever. */
static void lies_change_nothing(void)
{
	static const u16 types[] = { BRAID_CHUNK_INDEX, BRAID_CHUNK_INDEX_BLOCKS,
				     BRAID_CHUNK_FILE_END };
	u8 *copy = malloc(file_bytes);
	char *right = report(path, false, 0), *text;
	u32 k;

	NEED(copy && right);
	for (k = 0; k < 12; k++) {
		u16 type = types[k % 3];
		struct braid_chunk *chunk;
		u8 *payload;

		memcpy(copy, file, file_bytes);
		chunk = chunk_of(copy, type, k % 3 ? 0 : any(6));
		NEED(chunk);
		payload = (u8 *)(chunk + 1);
		payload[any(chunk->payload_bytes)] += 1 + any(255);
		chunk->checksum = braid_chunk_checksum(chunk, payload, chunk->payload_bytes, NULL, 0);
		write_file(other, copy, file_bytes);
		text = report(other, false, 0);
		drop_faults(text);
		CHECK(text && !strcmp(text, right));
		CHECK(type != BRAID_CHUNK_INDEX || differ == 1);
		free(text);
		free(report(other, true, some_time()));
	}
	free(copy);
	free(right);
}

/* An index that leaves out pages is not used: its sums are wrong. */
static void a_page_left_out_is_found(void)
{
	size_t bytes = file_bytes - sizeof(struct braid_index_block);
	u8 *copy = malloc(file_bytes);
	struct braid_chunk *chunk;
	struct braid_index_block *block;
	u32 k;

	NEED(copy);
	memcpy(copy, file, file_bytes);
	chunk = chunk_of(copy, BRAID_CHUNK_INDEX_BLOCKS, 0);
	NEED(chunk);
	block = (struct braid_index_block *)(chunk + 1);
	for (k = 0; !block[k].stream; k++)
		;
	/* The rest of the file moves up: the chunk is as long as its blocks. */
	memmove(&block[k], &block[k + 1], copy + file_bytes - (u8 *)&block[k + 1]);
	chunk->payload_bytes -= sizeof(*block);
	chunk->checksum = braid_chunk_checksum(chunk, chunk + 1, chunk->payload_bytes, NULL, 0);
	write_file(other, copy, bytes);
	free(report(other, true, some_time()));
	CHECK_EQ(refused, 1);
	compare(other, 0);
	compare(other, some_time());
	free(copy);
}

/*
 * Ten chunks of the same size; the index names one of them twice and another one not at all, so
 * that all sums are right. It is refused: a large chunk could be named as often, and read each
 * time. So is a place that no file has.
 */
static void chunks_are_named_once(void)
{
	static const struct { u8 from, to, refused; } lies[] = { { 14, 14, 0 }, { 0, 28, 1 } };
	struct braid_capture_writer *w = synth_capture(path);
	struct braid_chunk *chunk;
	u64 far = 1ULL << 63;
	u8 *places;
	u32 k;

	for (k = 0; k < 10; k++)
		NEED(!braid_capture_put(w, 100, 0, "24 bytes of an odd chunk", 24, NULL, 0));
	NEED(!braid_capture_finish(w));
	free(file);
	file = read_file(path, &file_bytes);
	chunk = chunk_of(file, BRAID_CHUNK_INDEX, 0);
	NEED(chunk);
	places = (u8 *)(chunk + 1) + sizeof(struct braid_chunk_index);
	/* the first is 0; each takes 2 bytes: 0, and twice 56 / 8 */
	for (k = 0; k < 2; k++) {
		NEED(places[15] < 29 && places[17] < 29);
		places[2 * 7 + 1] = lies[k].from;
		places[2 * 8 + 1] = lies[k].to;
		chunk->checksum = braid_chunk_checksum(chunk, chunk + 1, chunk->payload_bytes, NULL, 0);
		write_file(other, file, file_bytes);
		free(report(other, true, 1));
		CHECK_EQ(refused, lies[k].refused);
	}
	chunk = chunk_of(file, BRAID_CHUNK_FILE_END, 0);
	memcpy(chunk + 1, &far, sizeof(far));
	chunk->checksum = braid_chunk_checksum(chunk, chunk + 1, sizeof(far), NULL, 0);
	write_file(other, file, file_bytes);
	places = (u8 *)report(other, true, 1);
	CHECK(places != NULL);
	free(places);
}

/* Faults that are found if the types of pages are compared with what the index says. */
static u64 check_types(const char *name)
{
	const struct braid_source_options how = { .check_types = true };
	struct braid_source *source;
	u64 faults, k, n;

	NEED(!braid_source_open_captures(&source, (char *[]){ (char *)name }, 1, &how));
	for (k = 0; k < source->nr_streams; k++)
		for (n = 0; n < source->streams[k]->nr_rings; n++)
			while (braid_ring_next(source->streams[k]->rings[n]) > 0)
				;
	faults = source->faults;
	braid_source_free(source);
	return faults;
}

/* The number of lines of one type, by the index; there is another type. */
static u64 ticks_of(const char *name)
{
	const struct braid_walk_options ticks = { .events = (char *[]){ "tick" }, .nr_events = 1 };
	const struct braid_source_options how = { .by_index = true };
	struct braid_walk_totals totals;
	struct braid_source *source;
	FILE *to = fopen("/dev/null", "w");

	NEED(to && !braid_source_open_captures(&source, (char *[]){ (char *)name }, 1, &how));
	NEED(!braid_export_text(to, source, &ticks, &totals));
	fclose(to);
	braid_source_free(source);
	return totals.events;
}

/* Wrong types with right checksums: verify finds them; those that can't be are not used. */
static void false_types(void)
{
	static const struct { u8 at, to; bool invalid; } lies[] = {
		{ 8, 77, 0 }, { 10, 0, 0 }, { 0, 3, 1 }, { 4, 64, 1 }, { 4, 0, 1 }, { 10, 0x80, 1 },
	};
	struct braid_chunk *chunk;
	u8 *payload, was;
	u64 ticks, faults, k, n;

	make(path);
	free(file);
	file = read_file(path, &file_bytes);
	ticks = ticks_of(path);
	faults = check_types(path);
	for (k = 0; (chunk = chunk_of(file, BRAID_CHUNK_TYPES, k)) && chunk->stream > 2; k++)
		;
	NEED(chunk && ticks > 1000);
	payload = (u8 *)(chunk + 1), n = chunk->payload_bytes;
	for (k = 0; k < sizeof(lies) / sizeof(*lies); k++) {
		was = payload[lies[k].at];
		payload[lies[k].at] = lies[k].to;
		chunk->checksum = braid_chunk_checksum(chunk, payload, n, NULL, 0);
		write_file(other, file, file_bytes);
		CHECK_EQ(check_types(other), faults + 1);
		CHECK(lies[k].invalid ? ticks_of(other) == ticks : ticks_of(other) <= ticks);
		compare(other, 0);
		payload[lies[k].at] = was;
	}
}

int main(void)
{
	snprintf(path, sizeof(path), "/tmp/test_index.%d", getpid());
	snprintf(other, sizeof(other), "/tmp/test_index.%d.other", getpid());
	snprintf(folder, sizeof(folder), "/tmp/test_index.%d.folder", getpid());
	RUN(reports_are_the_same);
	make(other);
	RUN(all_forms_are_the_same);
	RUN(a_packed_one_too);
	RUN(cut_anywhere);
	RUN(damaged_anywhere);
	RUN(lies_change_nothing);
	RUN(a_page_left_out_is_found);
	RUN(chunks_are_named_once);
	RUN(false_types);
	free(file);
	unlink(path);
	unlink(other);
	return VERDICT();
}
