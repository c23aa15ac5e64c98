// SPDX-License-Identifier: GPL-2.0-or-later
/* Sizes that a small capture claims are bounded. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "host_agent/trace/source.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"

static char path[64], last_fault[512];

static void on_fault(void *arg, const struct braid_stream *stream, const char *line)
{
	(void)arg;
	(void)stream;
	snprintf(last_fault, sizeof(last_fault), "%s", line);
}

static struct braid_source *open_capture(void)
{
	struct braid_source_options options = { .fault = on_fault };
	char *paths[] = { path };
	struct braid_source *source;

	last_fault[0] = 0;
	NEED(!braid_source_open_captures(&source, paths, 1, &options));
	return source;
}

static void put_host(struct braid_capture_writer *w, u32 stream, u32 nr_cpus)
{
	struct braid_chunk_stream head = {
		.kind = BRAID_STREAM_HOST, .nr_cpus = nr_cpus, .subbuf_bytes = 4096, .name = "host",
	};

	NEED(!braid_capture_put(w, BRAID_CHUNK_STREAM, stream, &head, sizeof(head), NULL, 0));
}

/* Data that decompresses to far more: bounded in a file, and decompressed only when used. */
static void oversized_symbols(void)
{
	struct braid_chunk_text head = { .kind = BRAID_TEXT_KALLSYMS, .raw_bytes = 40 << 20 };
	struct braid_capture_writer *w = synth_capture(path);
	char *raw = malloc(head.raw_bytes), *text;
	size_t room = ZSTD_compressBound(head.raw_bytes), packed_bytes;
	void *packed = malloc(room);
	struct braid_source *source;
	u32 k;

	NEED(raw && packed);
	memset(raw, 'x', head.raw_bytes);
	packed_bytes = ZSTD_compress(packed, room, raw, head.raw_bytes, 1);
	NEED(!ZSTD_isError(packed_bytes));
	for (k = 1; k <= 3; k++) {
		put_host(w, k, 4);
		NEED(!braid_capture_put(w, BRAID_CHUNK_TEXT, k, &head, sizeof(head), packed,
					packed_bytes));
	}
	NEED(!braid_capture_finish(w));
	source = open_capture();
	CHECK_EQ(source->faults, 2);
	CHECK(strstr(last_fault, "kernel symbols ignored"));
	CHECK_EQ(source->streams[0]->kallsyms_packed_bytes, packed_bytes);
	CHECK(!source->streams[1]->kallsyms && !source->streams[2]->kallsyms);
	CHECK(!braid_stream_kallsyms(source->streams[0], &text));
	CHECK(text && !memcmp(text, raw, head.raw_bytes) && !text[head.raw_bytes]);
	free(text);
	CHECK(!braid_stream_kallsyms(source->streams[1], &text) && !text);
	braid_source_free(source);
	free(packed);
	free(raw);
}

/* Each stream may have 4096 CPUs, but a file may not have many such streams. */
static void too_many_cpus(void)
{
	struct braid_capture_writer *w = synth_capture(path);
	struct braid_source *source;
	u64 cpus = 0;
	u32 k;

	for (k = 1; k <= 70; k++)
		put_host(w, k, 4096);
	NEED(!braid_capture_finish(w));
	source = open_capture();
	for (k = 0; k < source->nr_streams; k++)
		cpus += source->streams[k]->nr_cpus;
	CHECK_EQ(cpus, 1 << 18);
	CHECK(strstr(last_fault, "too many CPUs"));
	braid_source_free(source);
}

int main(void)
{
	snprintf(path, sizeof(path), "/tmp/braid-bounds-%d.braid", getpid());
	RUN(oversized_symbols);
	RUN(too_many_cpus);
	unlink(path);
	return VERDICT();
}
