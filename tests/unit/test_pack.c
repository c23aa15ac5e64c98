// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A packed capture is read as the capture, whatever happened to its file; unpacked, it is the same
 * bytes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/capture/capture.h"
#include "host_agent/capture/checksum.h"
#include "host_agent/capture/pack.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/scratch.h"

#define NR		300u
#define MOST_BYTES	2000u
#define SEGMENT_BYTES	4096u

static char plain[64], packed[64], other[64];
static u8 *content;		/* of plain */
static size_t content_bytes;
static u8 *file;		/* of packed */
static size_t file_bytes;
static u32 segment_bytes = SEGMENT_BYTES;
static u32 all;			/* chunks of the capture, but for FILE, which is read by open */

/* Chunks that compress well, hardly, and not at all; pages and others. */
static void make_plain(void)
{
	const struct braid_chunk_file head = {
		.version_major = BRAID_CAPTURE_MAJOR, .clock = "mono_raw", .host_name = "h",
	};
	struct braid_capture_writer *w;
	u8 payload[MOST_BYTES];
	u32 k, i, bytes;

	srandom(1);
	NEED(!braid_capture_create(&w, plain, &head));
	for (k = 0; k < NR; k++) {
		bytes = random() % MOST_BYTES;
		for (i = 0; i < bytes; i++)
			payload[i] = k % 3 == 0 ? random() : k % 3 == 1 ? i / 16 : 0;
		NEED(!braid_capture_put(w, k % 4 ? BRAID_CHUNK_PAGE : 100 + k, 0, payload, bytes,
					NULL, 0));
	}
	NEED(!braid_capture_finish(w));
}

typedef int convert(int to, int from, const char *path, struct braid_pack_run *run);

static int run(convert *to_do, const char *from_path, const char *to_path)
{
	struct braid_pack_run how = { .level = 3, .segment_bytes = segment_bytes };
	int from = open(from_path, O_RDONLY | O_CLOEXEC);
	int to = open(to_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int err;

	NEED(from >= 0 && to >= 0);
	err = to_do(to, from, from_path, &how);
	close(from);
	close(to);
	return err;
}

static void unpacks_to_the_same(void)
{
	size_t bytes;
	u8 *again;

	CHECK_EQ(run(braid_unpack, packed, other), 0);
	again = read_file(other, &bytes);
	CHECK(bytes == content_bytes && !memcmp(again, content, bytes));
	CHECK(file_bytes < content_bytes);
	free(again);
	CHECK_EQ(run(braid_pack, packed, other), -EBADMSG);
	CHECK_EQ(run(braid_unpack, plain, other), -EBADMSG);
	write_file(other, (const u8 *)"BRCK", 4);
	CHECK_EQ(run(braid_pack, other, plain), -EBADMSG);	/* which is written again: */
	write_file(plain, content, content_bytes);
}

/* Reads @path beside the plain file. Return: chunks that both have; each must be the same. */
static u32 compare(const char *path, struct braid_capture_damage *damage)
{
	struct braid_capture_reader *a, *b;
	struct braid_chunk_view one, same;
	struct braid_chunk_file head;
	struct { struct braid_chunk chunk; u8 payload[16]; } loaded;
	u32 nr = 0, least;

	memset(damage, 0, sizeof(*damage));
	NEED(!braid_capture_open(&a, plain, &head));
	if (braid_capture_open(&b, path, &head)) {
		braid_capture_close(a);
		return 0;
	}
	while (braid_capture_next(b, &same) == 1) {
		do
			NEED(braid_capture_next(a, &one) == 1);
		while (one.number < same.number);
		CHECK(one.number == same.number && one.offset == same.offset &&
		      one.type == same.type && one.bytes == same.bytes &&
		      !memcmp(one.payload, same.payload, one.bytes));
		least = one.bytes < 16 ? one.bytes : 16;
		CHECK(!braid_capture_load(b, one.offset, &loaded, least, false));
		CHECK(!memcmp(loaded.payload, one.payload, least));
		nr++;
	}
	*damage = *braid_capture_damage(b);
	braid_capture_close(a);
	braid_capture_close(b);
	return nr;
}

static void is_read_as_the_capture(void)
{
	struct braid_capture_damage damage;

	CHECK_EQ(compare(packed, &damage), all);
	CHECK(!damage.stretches && !damage.cut_off && !damage.no_end);
}

/* The chunk after another one of a packed file; after NULL the first. NULL: there are no more. */
static struct braid_chunk *chunk_after(u8 *data, size_t bytes, struct braid_chunk *chunk)
{
	u8 *at = data;

	if (chunk)
		at = (u8 *)(chunk + 1) + (((size_t)chunk->payload_bytes + 7) & ~7ul);
	return at + sizeof(*chunk) <= data + bytes ? (struct braid_chunk *)at : NULL;
}

/* As of a recording with --prompt: their number does not exhaust what a reader may unpack. */
static void thousands_of_segments_are_read(void)
{
	struct braid_capture_damage damage;

	segment_bytes = content_bytes / 4000;
	NEED(!run(braid_pack, plain, other));
	CHECK_EQ(compare(other, &damage), all);
	CHECK(!damage.stretches && !damage.no_end);
	NEED(!rename(other, packed));
	unpacks_to_the_same();
	write_file(packed, file, file_bytes);
	segment_bytes = SEGMENT_BYTES;
}

/* Chunks other than pages are read even if all pages are damaged. */
static void others_need_no_pages(void)
{
	struct braid_capture_reader *a, *b;
	struct braid_chunk_view one, same;
	struct braid_chunk_file head;
	struct braid_chunk *chunk = NULL;
	u8 *copy = malloc(file_bytes);
	u32 nr = 0, lost = 0;
	int ret;

	NEED(copy);
	memcpy(copy, file, file_bytes);
	while ((chunk = chunk_after(copy, file_bytes, chunk)))
		if (chunk->type == BRAID_CHUNK_PACKED &&
		    ((struct braid_chunk_packed *)(chunk + 1))->codec & BRAID_PACKED_REST)
			chunk->checksum++;
	write_file(other, copy, file_bytes);
	free(copy);
	NEED(!braid_capture_open(&a, plain, &head) && !braid_capture_open(&b, other, &head));
	while (braid_capture_next(a, &one) == 1) {
		ret = braid_capture_at(b, one.offset, &same);
		lost += one.type == BRAID_CHUNK_PAGE && !ret;
		if (one.type == BRAID_CHUNK_PAGE)
			continue;
		nr++;
		CHECK(ret == 1 && one.type == same.type && one.bytes == same.bytes &&
		      !memcmp(one.payload, same.payload, one.bytes));
	}
	CHECK(nr >= NR / 4 && lost > NR / 4);
	braid_capture_close(a);
	braid_capture_close(b);
}

static void append(u8 *to, size_t *at, u16 type, const void *head, u32 head_bytes, const void *body,
		   u32 body_bytes)
{
	struct braid_chunk chunk = {
		.magic = BRAID_CHUNK_MAGIC, .type = type, .payload_bytes = head_bytes + body_bytes,
	};

	chunk.checksum = braid_chunk_checksum(&chunk, head, head_bytes, body, body_bytes);
	memcpy(to + *at, &chunk, sizeof(chunk));
	memcpy(to + *at + sizeof(chunk), head, head_bytes);
	if (body_bytes)
		memcpy(to + *at + sizeof(chunk) + head_bytes, body, body_bytes);
	*at += sizeof(chunk) + ((head_bytes + body_bytes + 7) & ~7u);
}

/* A file of major version 2, which has no PACKED_SMALL. */
static void files_of_version_2_are_read(void)
{
	struct braid_capture_damage damage;
	struct braid_chunk_packed segment = { 0 };
	struct braid_chunk_packed_end end = { .bytes = content_bytes };
	u8 *data = calloc(2, content_bytes);
	struct braid_chunk_file head;
	size_t at = 0;

	NEED(data);
	memcpy(&head, content + sizeof(struct braid_chunk), sizeof(head));
	head.version_major = BRAID_PACKED_MAJOR_FIRST;
	append(data, &at, BRAID_CHUNK_FILE, &head, sizeof(head), NULL, 0);
	for (; segment.at < content_bytes; segment.at += segment.bytes) {
		segment.bytes = content_bytes - segment.at < SEGMENT_BYTES ? content_bytes - segment.at : SEGMENT_BYTES;
		append(data, &at, BRAID_CHUNK_PACKED, &segment, sizeof(segment),
		       content + segment.at, segment.bytes);
	}
	append(data, &at, BRAID_CHUNK_FILE_END, &end, sizeof(end), NULL, 0);
	write_file(other, data, at);
	free(data);
	CHECK_EQ(compare(other, &damage), all);
	CHECK(!damage.stretches && !damage.cut_off && !damage.no_end);
	CHECK_EQ(run(braid_pack, other, plain), -EBADMSG);	/* which is written again: */
	write_file(plain, content, content_bytes);
}

/* Any beginning of the file is a beginning of the capture. */
static void a_cut_off_file_is_good_up_to_its_last_segment(void)
{
	struct braid_capture_damage damage;
	u32 nr, before = 0;
	size_t bytes;

	for (bytes = 0; bytes < file_bytes; bytes += 997) {
		write_file(other, file, bytes);
		nr = compare(other, &damage);
		CHECK(nr >= before);
		CHECK(!nr || damage.no_end || nr == all);
		before = nr;
	}
	CHECK(before > NR - 20);
}

/* Each byte that changes costs no more than the chunks of one segment; none of the index. */
static void damage_stays_in_its_segment(void)
{
	struct braid_capture_damage damage;
	u32 nr, worst = NR, k;

	srandom(2);
	for (k = 0; k < 200; k++) {
		size_t at = sizeof(struct braid_chunk) + sizeof(struct braid_chunk_file) +
			    random() % (file_bytes - 400);
		u8 *copy = malloc(file_bytes);

		NEED(copy);
		memcpy(copy, file, file_bytes);
		copy[at < file_bytes ? at : file_bytes - 1] ^= 1 << random() % 8;
		write_file(other, copy, file_bytes);
		free(copy);
		nr = compare(other, &damage);
		CHECK(nr == all || damage.stretches || damage.cut_off);
		worst = nr < worst ? nr : worst;
	}
	CHECK(worst > NR - 40);
}

/* The chunk of a type in ->file. */
static struct braid_chunk *chunk_of(u8 *data, size_t bytes, u16 type)
{
	size_t at = 0;

	while (at + sizeof(struct braid_chunk) <= bytes) {
		struct braid_chunk *chunk = (struct braid_chunk *)(data + at);

		if (chunk->type == type)
			return chunk;
		at += sizeof(*chunk) + (((size_t)chunk->payload_bytes + 7) & ~7ul);
	}
	return NULL;
}

static void fix(struct braid_chunk *chunk)
{
	chunk->checksum = braid_chunk_checksum(chunk, chunk + 1, chunk->payload_bytes, NULL, 0);
}

/* Lies with right checksums: nothing breaks, and no chunk is made up. */
static void lies_are_found(void)
{
	static const u64 lies[] = {
		0, 1, 8, 4095, 4097, 1u << 20, 1ULL << 40, 1ULL << 63, ~0ULL, ~0ULL - 4096,
	};
	const u16 types[] = {
		BRAID_CHUNK_PACKED, BRAID_CHUNK_PACKED_INDEX, BRAID_CHUNK_FILE_END,
		BRAID_CHUNK_PACKED_SMALL,
	};
	struct braid_capture_damage damage;
	u32 t, word, k;

	for (t = 0; t < 4; t++)
		for (word = 0; word < 6; word++)
			for (k = 0; k < sizeof(lies) / sizeof(*lies); k++) {
				u8 *copy = malloc(file_bytes);
				struct braid_chunk *chunk;

				NEED(copy);
				memcpy(copy, file, file_bytes);
				chunk = chunk_of(copy, file_bytes, types[t]);
				NEED(chunk);
				if (word < chunk->payload_bytes / 8)
					memcpy((u64 *)(chunk + 1) + word, &lies[k], 8);
				fix(chunk);
				write_file(other, copy, file_bytes);
				free(copy);
				compare(other, &damage);
			}
}

/*
 * Segments that claim to be far apart: what a reader would search stays in proportion to the file.
 */
static void gaps_are_bounded(void)
{
	u64 at = 0, offset = 0, step;
	struct braid_capture_reader *r;
	struct braid_chunk_file head;
	u8 *copy = malloc(file_bytes);

	NEED(copy);
	memcpy(copy, file, file_bytes);
	while (offset + sizeof(struct braid_chunk) <= file_bytes) {
		struct braid_chunk *chunk = (struct braid_chunk *)(copy + offset);

		if (chunk->type == BRAID_CHUNK_PACKED || chunk->type == BRAID_CHUNK_PACKED_SMALL) {
			memcpy(chunk + 1, &at, sizeof(at));
			fix(chunk);
		}
		if (chunk->type == BRAID_CHUNK_PACKED) {
			at += 60 * offset + SEGMENT_BYTES;
		} else if (chunk->type == BRAID_CHUNK_PACKED_INDEX) {
			break;
		}
		step = sizeof(*chunk) + (((u64)chunk->payload_bytes + 7) & ~7ULL);
		offset += step;
	}
	write_file(other, copy, offset);
	free(copy);
	NEED(!braid_capture_open(&r, other, &head));
	CHECK(braid_capture_size(r) <= BRAID_PACKED_RATIO * offset + SEGMENT_BYTES);
	braid_capture_close(r);
}

int main(void)
{
	snprintf(plain, sizeof(plain), "/tmp/test_pack.%d", getpid());
	snprintf(packed, sizeof(packed), "/tmp/test_pack.%d.packed", getpid());
	snprintf(other, sizeof(other), "/tmp/test_pack.%d.other", getpid());
	make_plain();
	content = read_file(plain, &content_bytes);
	all = ((struct braid_chunk *)(content + content_bytes - sizeof(struct braid_chunk) -
				      sizeof(struct braid_chunk_end)))->number;
	NEED(!run(braid_pack, plain, packed));
	file = read_file(packed, &file_bytes);
	RUN(unpacks_to_the_same);
	RUN(is_read_as_the_capture);
	RUN(thousands_of_segments_are_read);
	RUN(others_need_no_pages);
	RUN(files_of_version_2_are_read);
	RUN(a_cut_off_file_is_good_up_to_its_last_segment);
	RUN(damage_stays_in_its_segment);
	RUN(lies_are_found);
	RUN(gaps_are_bounded);
	free(content);
	free(file);
	unlink(plain);
	unlink(packed);
	unlink(other);
	return VERDICT();
}
