// SPDX-License-Identifier: GPL-2.0-or-later
/* Index of the pages of a trace.dat. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/trace_dat.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"

/* A ring of a buffer's CPU. NULL: out of memory. */
static struct braid_capture_ring *trace_dat_pages_add_ring(struct braid_trace_dat *dat, u32 buffer,
							   u32 cpu)
{
	struct braid_capture_ring *ring = braid_capture_host_ring(dat->stream, cpu);
	struct braid_dat_cache none = { 0 };

	if (!ring || braid_array_push(dat->caches, dat->nr_caches, dat->caches_capacity, none))
		return NULL;
	ring->ring.buffer = buffer;
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
	struct braid_dat_input in = { .dat = dat, .at = at, .end = dat->file_bytes };
	u64 nr, packed, bytes, place, most = 0;
	int err;

	err = at > in.end ? braid_dat_broken(dat, "it is truncated") :
			    braid_dat_take_number(&in, 4, &nr);
	while (!err && nr--) {
		place = in.at;
		err = braid_dat_take_number(&in, 4, &packed);
		if (!err)
			err = braid_dat_take_number(&in, 4, &bytes);
		if (err)
			return err;
		if (packed > in.end - in.at || bytes > BRAID_DAT_MAX_CHUNK)
			return braid_dat_broken(dat, "invalid compression of its pages");
		in.at += packed;
		most = bytes > most ? bytes : most;
		err = add_pages(dat, ring, place, bytes, true);
	}
	dat->cache_bytes += most;
	/* Each ring keeps its current chunk while merging, so that none is unpacked twice. */
	if (!err && dat->cache_bytes > BRAID_DAT_MAX_CACHE)
		return braid_fail(-EFBIG, "'%s' needs more than %u MiB of memory to be unpacked; 'trace-cmd convert --compression none -i FILE -o OUT' makes one that does not",
				  dat->path, BRAID_DAT_MAX_CACHE >> 20);
	return err;
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
	struct braid_dat_input in = { .dat = dat, .at = b->at, .end = dat->file_bytes };
	struct braid_dat_cpu cpu = { 0 };
	char word[10];
	int err;

	if (in.at > in.end)
		return braid_dat_broken(dat, "it is truncated");
	err = braid_dat_take(&in, word, sizeof(word));
	if (!err && !memcmp(word, "latency", 7))
		return braid_fail(-EOPNOTSUPP, "'%s' holds the text of a latency tracer, and no events",
				  dat->path);
	if (!err && memcmp(word, "flyrecord", 9))
		return braid_dat_broken(dat, "no pages at the expected offset");
	if (dat->nr_cpus > BRAID_MAX_CPUS)
		return braid_dat_broken(dat, "it has too many CPUs");
	b->nr_cpus = dat->nr_cpus;
	for (; cpu.cpu < b->nr_cpus && !err; cpu.cpu++) {
		err = braid_dat_take_number(&in, 8, &cpu.at);
		if (!err)
			err = braid_dat_take_number(&in, 8, &cpu.bytes);
		if (!err)
			err = add_cpu(dat, number, &cpu, false);
	}
	return err;
}

/* Version 7: a section whose header states whether they are compressed. */
static int index_section(struct braid_trace_dat *dat, const struct braid_dat_buffer *b, u32 number)
{
	struct braid_dat_input in = { .dat = dat, .at = b->at, .end = dat->file_bytes };
	u64 id, flags;
	u32 k;
	int err;

	if (!b->nr_cpus)
		return 0;
	if (in.at > in.end)
		return braid_dat_broken(dat, "it is truncated");
	err = braid_dat_take_number(&in, 2, &id);
	if (!err)
		err = braid_dat_take_number(&in, 2, &flags);
	if (!err && id != BRAID_DAT_BUFFER)
		err = braid_dat_broken(dat, "no pages at the expected offset");
	for (k = 0; k < b->nr_cpus && !err; k++)
		err = add_cpu(dat, number, &b->cpus[k], flags & BRAID_DAT_COMPRESSED);
	return err;
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
