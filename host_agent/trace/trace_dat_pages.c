// SPDX-License-Identifier: GPL-2.0-or-later
/* Index of the pages of a trace.dat. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/trace_dat.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

/* A ring of a buffer's CPU. NULL: out of memory. */
static struct braid_capture_ring *trace_dat_pages_add_ring(struct braid_trace_dat *dat, u32 buffer,
							   u32 cpu)
{
	struct braid_capture_ring *ring = braid_capture_host_ring(dat->stream, cpu);
	struct braid_dat_cache none = { 0 };

	if (!ring || braid_array_push(dat->caches, dat->nr_caches, dat->caches_capacity, none))
		return NULL;
	ring->ring.buffer = buffer;
	ring->file = dat->file;
	return ring;
}

/* Pages at @place, or at an offset in the compressed chunk there. */
static int add_pages(struct braid_trace_dat *dat, struct braid_capture_ring *ring, u64 place,
		     u64 bytes, bool compressed)
{
	u32 page_bytes = dat->buffers[ring->ring.buffer].page_bytes;
	struct braid_extent extent = {
		.file = dat->file, .to_bytes = page_bytes,
		.position = compressed ? dat->nr_caches : 0,	/* its cache, + 1 */
	};
	u64 at;

	/* No trace compresses that well: the same page is listed repeatedly. */
	if (bytes > dat->bytes_left)
		return braid_dat_broken(dat, "it claims more pages than it can hold");
	dat->bytes_left -= bytes;
	for (at = 0; at + page_bytes <= bytes; at += page_bytes) {
		extent.offset = (compressed ? place : place + at) << BRAID_DAT_PLACE_SHIFT;
		extent.from_bytes = compressed ? at : 0;
		if (braid_extents_add(&ring->extents, &extent, 0, false))
			return braid_out_of_memory();
	}
	if (at != bytes)
		braid_source_faulty(&dat->source->source, ring->ring.stream,
				    "CPU %u: a page in it is truncated", ring->ring.cpu);
	dat->source->source.bytes += at;
	return 0;
}

/* A number of chunks, then each with its two lengths. */
static int add_chunks(struct braid_trace_dat *dat, struct braid_capture_ring *ring, u64 at)
{
	struct braid_dat_input in = braid_dat_at(dat, at);
	u64 nr = braid_dat_number(&in, 4), packed, bytes, place, most = 0;

	while (!in.err && nr--) {
		place = in.at;
		braid_dat_take_lengths(&in, &packed, &bytes);
		if (in.err)
			return in.err;
		in.at += packed;
		most = bytes > most ? bytes : most;
		in.err = add_pages(dat, ring, place, bytes, true);
	}
	dat->cache_bytes += most;
	/* Each ring keeps its current chunk while merging, so that none is unpacked twice. */
	if (!in.err && dat->cache_bytes > BRAID_DAT_MAX_CACHE)
		return braid_fail(-EFBIG, "'%s' needs more than %u MiB of memory to be unpacked; 'trace-cmd convert --compression none -i FILE -o OUT' makes one that does not",
				  dat->path, BRAID_DAT_MAX_CACHE >> 20);
	return in.err;
}

static int add_cpu(struct braid_trace_dat *dat, u32 buffer, const struct braid_dat_cpu *cpu,
		   bool compressed)
{
	struct braid_capture_ring *ring;
	u64 bytes = cpu->bytes;

	if (!bytes)
		return 0;
	if (cpu->cpu >= BRAID_MAX_CPUS)
		return braid_dat_broken(dat, "invalid CPU number");
	if (cpu->cpu >= dat->nr_cpus)
		dat->nr_cpus = cpu->cpu + 1;
	ring = trace_dat_pages_add_ring(dat, buffer, cpu->cpu);
	if (!ring)
		return braid_out_of_memory();
	if (compressed)
		return add_chunks(dat, ring, cpu->at);
	if (cpu->at > dat->file_bytes || bytes > dat->file_bytes - cpu->at) {
		braid_source_faulty(&dat->source->source, &dat->stream->stream,
				    "'%s' is truncated: pages of CPU %u are missing", dat->path,
				    cpu->cpu);
		bytes = cpu->at > dat->file_bytes ? 0 : dat->file_bytes - cpu->at;
	}
	return add_pages(dat, ring, cpu->at, bytes, false);
}

/* Version 6: two numbers for each CPU, and after those of an instance a word. */
static int index_table(struct braid_trace_dat *dat, u32 number)
{
	struct braid_dat_buffer *b = &dat->buffers[number];
	struct braid_dat_input in = braid_dat_at(dat, b->at);
	struct braid_dat_cpu cpu = { 0 };
	char word[10];

	braid_dat_take(&in, word, sizeof(word));
	if (!in.err && !memcmp(word, "latency", 7))
		return braid_fail(-EOPNOTSUPP, "'%s' holds the text of a latency tracer, and no events",
				  dat->path);
	if (memcmp(word, "flyrecord", 9))
		return braid_dat_refuse(&in, "no pages at the expected offset");
	if (dat->nr_cpus > BRAID_MAX_CPUS)
		return braid_dat_broken(dat, "it has too many CPUs");
	b->nr_cpus = dat->nr_cpus;
	for (; cpu.cpu < b->nr_cpus && !in.err; cpu.cpu++) {
		cpu.at = braid_dat_number(&in, 8);
		cpu.bytes = braid_dat_number(&in, 8);
		in.err = in.err ?: add_cpu(dat, number, &cpu, false);
	}
	return in.err;
}

/* Version 7: a section whose header states whether they are compressed. */
static int index_section(struct braid_trace_dat *dat, const struct braid_dat_buffer *b, u32 number)
{
	struct braid_dat_input in;
	u64 id, flags;
	u32 k;

	if (!b->nr_cpus)
		return 0;
	in = braid_dat_at(dat, b->at);
	id = braid_dat_number(&in, 2);
	flags = braid_dat_number(&in, 2);
	if (id != BRAID_DAT_BUFFER)
		braid_dat_refuse(&in, "no pages at the expected offset");
	for (k = 0; k < b->nr_cpus && !in.err; k++)
		in.err = add_cpu(dat, number, &b->cpus[k], flags & BRAID_DAT_COMPRESSED);
	return in.err;
}

int braid_dat_index_buffer(struct braid_trace_dat *dat, u32 number)
{
	struct braid_dat_buffer *b = &dat->buffers[number];

	if (!b->page_bytes)
		b->page_bytes = dat->page_bytes;
	if (b->page_bytes < 64 || b->page_bytes > BRAID_MAX_HOST_BYTES || b->page_bytes & 7)
		return braid_dat_broken(dat, "invalid page size");
	return dat->sections ? index_section(dat, b, number) : index_table(dat, number);
}
