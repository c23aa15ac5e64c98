// SPDX-License-Identifier: GPL-2.0-or-later
/* The hexadecimal examples of docs/format.md equal the encoders' output, byte for byte. */
#include <string.h>

#include "host_agent/capture/checksum.h"
#include "shared/page.h"
#include "shared/ring.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

#define DOC	"docs/format.md"

struct example {
	const char *name;
	u32 (*make)(u8 *to);	/* returns bytes */
};

static u32 put_event(u8 *to, const void *payload, u32 bytes, u32 delta)
{
	u32 words[64] = { 0 }, size = braid_event_bytes(bytes);

	memcpy(braid_page_put_event(words, size, delta), payload, bytes);
	memcpy(to, words, size);
	return size;
}

static u32 seven(u8 *to)
{
	return put_event(to, "1234567", 7, 5);
}

static u32 eighty_two(u8 *to)
{
	char payload[82];
	u32 k;

	for (k = 0; k < sizeof(payload); k++)
		payload[k] = 'A' + k % 26;
	return put_event(to, payload, sizeof(payload), 300);
}

static u32 extent(u8 *to)
{
	u32 words[2];

	braid_page_put_extent(words, 0x123456789aULL);
	memcpy(to, words, sizeof(words));
	return sizeof(words) + put_event(to + sizeof(words), "late", 4, 0);
}

static u32 stamp(u8 *to)
{
	u32 words[5];

	braid_page_put_stamp(words, 0x0123456789abcdefULL, 1700000000000000000ULL);
	memcpy(to, words, sizeof(words));
	return sizeof(words);
}

/* A sub-buffer of two events whose second one needs the whole counter. */
static u32 absolute(u8 *to)
{
	struct braid_subbuf head = { .time_stamp = 0x1000000010ULL };
	u32 at = sizeof(head), words[2];

	at += put_event(to + at, "one", 3, 0x1000000010ULL & BRAID_DELTA_MASK);
	braid_page_put_extent(words, 0x1020000020ULL);
	memcpy(to + at, words, sizeof(words));
	at += sizeof(words);
	at += put_event(to + at, "two", 3, 0x1020000020ULL & BRAID_DELTA_MASK);
	head.commit = at - sizeof(head);
	memcpy(to, &head, sizeof(head));
	return at;
}

static u32 mark(u8 *to)
{
	u64 word = BRAID_MARK;

	memcpy(to, &word, sizeof(word));
	return sizeof(word);
}

static u32 slot_word(u8 *to)
{
	u64 word = braid_slot_word(5, BRAID_SLOT_OPEN, 3);

	memcpy(to, &word, sizeof(word));
	return sizeof(word);
}

static u32 commit_word(u8 *to)
{
	u64 word = 5ULL << BRAID_COMMIT_POS_SHIFT | BRAID_COMMIT_FINAL | 104;

	memcpy(to, &word, sizeof(word));
	return sizeof(word);
}

static u32 put_chunk(u8 *to, struct braid_chunk chunk, const void *payload, u32 bytes)
{
	u32 total = sizeof(chunk) + ((bytes + 7) & ~7u);

	chunk.magic = BRAID_CHUNK_MAGIC;
	chunk.payload_bytes = bytes;
	chunk.checksum = braid_chunk_checksum(&chunk, payload, bytes, NULL, 0);
	memset(to, 0, total);
	memcpy(to, &chunk, sizeof(chunk));
	if (bytes)
		memcpy(to + sizeof(chunk), payload, bytes);
	return total;
}

static u32 clock_chunk(u8 *to)
{
	struct braid_clock_sample sample = {
		.h1_ns = 5000000000, .counter = 123456789, .h2_ns = 5000001500,
	};

	return put_chunk(to,
			 (struct braid_chunk){
				 .type = BRAID_CHUNK_CLOCK, .stream = 1, .number = 7 },
			 &sample, sizeof(sample));
}

static u32 page_chunk(u8 *to)
{
	struct {
		struct braid_chunk_page page;
		u8 data[12];
	} payload = {
		.page = {
			.vcpu = 1, .flags = BRAID_PAGE_FINAL, .position = 5, .to_bytes = 12,
			.time_stamp = 123456000, .first_seq = 40, .host_ns = 5000002000,
		},
	};

	seven(payload.data);
	return put_chunk(to,
			 (struct braid_chunk){ .type = BRAID_CHUNK_PAGE, .stream = 1, .number = 8 },
			 &payload, sizeof(payload.page) + sizeof(payload.data));
}

static u32 buffer_chunk(u8 *to)
{
	struct braid_chunk_buffer buffer = {
		.index = 2,
		.desc = {
			.name = "net", .flags = BRAID_BUFFER_OVERWRITE | BRAID_BUFFER_ABSOLUTE,
			.subbuf_bytes = 4096, .nr_slots = 16, .meta_bytes = 4096,
			.rings_offset = 0x200000, .ring_stride = 0x13000, .nr_rings = 1,
			.layout = 3, .events_of = 2, .private_bytes = 4096,
		},
	};

	return put_chunk(to,
			 (struct braid_chunk){
				 .type = BRAID_CHUNK_BUFFER, .stream = 1, .number = 6 },
			 &buffer, sizeof(buffer));
}

static u32 end_chunk(u8 *to)
{
	return put_chunk(to, (struct braid_chunk){ .type = BRAID_CHUNK_FILE_END, .number = 9 },
			 NULL, 0);
}

static const struct example examples[] = {
	{ "seven", seven }, { "eighty-two", eighty_two }, { "extent", extent }, { "stamp", stamp },
	{ "absolute", absolute }, { "mark", mark }, { "slot", slot_word }, { "commit", commit_word },
	{ "buffer-chunk", buffer_chunk }, { "clock-chunk", clock_chunk }, { "page-chunk", page_chunk }, { "end-chunk", end_chunk },
};

#define NR_EXAMPLES	(sizeof(examples) / sizeof(examples[0]))

static FILE *open_doc(void)
{
	FILE *doc = fopen(DOC, "r");

	if (!doc) {
		fprintf(stderr, "run from the root of the tree: %s is not there\n", DOC);
		exit(EXIT_FAILURE);
	}
	return doc;
}

/* The bytes of one "```hex NAME" block; what follows a '#' or precedes a ':' is comment. */
static s32 read_block(FILE *doc, u8 *to, u32 room)
{
	char line[256];
	u32 n = 0;

	while (fgets(line, sizeof(line), doc) && strncmp(line, "```", 3)) {
		char *s = strchr(line, ':'), *end;

		line[strcspn(line, "#")] = 0;
		s = s && s < line + strlen(line) ? s + 1 : line;
		for (;;) {
			unsigned long byte = strtoul(s, &end, 16);

			if (end == s)
				break;
			if (end - s > 3 || byte > 255 || n == room)
				return -1;
			to[n++] = byte;
			s = end;
		}
	}
	return n;
}

static void print_block(const u8 *data, u32 bytes)
{
	u32 k;

	for (k = 0; k < bytes; k++)
		fprintf(stderr, "%s%02x", k % 16 ? " " : k ? "\n" : "", data[k]);
	fputc('\n', stderr);
}

static void check_example(const struct example *example, FILE *doc)
{
	u8 want[512], have[512];
	u32 bytes = example->make(want);
	s32 n = read_block(doc, have, sizeof(have));

	CHECK_EQ(n, bytes);
	if (n == (s32)bytes && !memcmp(want, have, bytes))
		return;
	check_failures++;
	fprintf(stderr, "%s: example '%s' should be\n", DOC, example->name);
	print_block(want, bytes);
}

static void examples_match(void)
{
	bool seen[NR_EXAMPLES] = { false };
	FILE *doc = open_doc();
	char line[256];
	u32 k;

	while (fgets(line, sizeof(line), doc)) {
		if (strncmp(line, "```hex ", 7))
			continue;
		line[strcspn(line, "\n")] = 0;
		for (k = 0; k < NR_EXAMPLES && strcmp(line + 7, examples[k].name); k++)
			;
		if (k == NR_EXAMPLES) {
			fprintf(stderr, "%s: no check for example '%s'\n", DOC, line + 7);
			check_failures++;
			continue;
		}
		seen[k] = true;
		check_example(&examples[k], doc);
	}
	fclose(doc);
	for (k = 0; k < NR_EXAMPLES; k++)
		if (!seen[k]) {
			u8 want[512];

			fprintf(stderr, "%s: example '%s' is missing:\n", DOC, examples[k].name);
			print_block(want, examples[k].make(want));
			check_failures++;
		}
}

static void documented_sizes(void)
{
	CHECK_EQ(braid_event_bytes(7), 12);
	CHECK_EQ(braid_event_bytes(82), 92);
}

int main(void)
{
	RUN(documented_sizes);
	RUN(examples_match);
	return VERDICT();
}
