// SPDX-License-Identifier: GPL-2.0-or-later
/* A capture's bytes in parts, each compressed by itself. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "host_agent/capture/checksum.h"
#include "host_agent/capture/pack.h"
#include "host_agent/capture/packed.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"

/* Unpacked, of each part. Larger ones cost more where a reader goes from ring to ring. */
#define PART_BYTES	(1u << 20)

struct packer {
	int to;
	const char *path;
	struct braid_pack_run *run;
	u64 number;			/* of the next chunk */
	struct braid_chunk_packed_place *places;
	size_t nr, capacity;
	u8 *plain, *packed;
	size_t room;			/* of packed */
	ZSTD_CCtx *zstd;
};

static int write_out(struct packer *p, const void *data, size_t bytes)
{
	int err = braid_write_all(p->to, data, bytes);

	if (err)
		return braid_fail(err, "cannot write: %s", strerror(-err));
	p->run->written_bytes += bytes;
	return 0;
}

static int put_chunk(struct packer *p, u16 type, const void *head, u32 head_bytes, const void *body,
		     u32 body_bytes)
{
	static const u8 zeros[8];
	struct braid_chunk chunk = {
		.magic = BRAID_CHUNK_MAGIC, .type = type, .payload_bytes = head_bytes + body_bytes,
		.number = p->number++,
	};
	int err;

	chunk.checksum = braid_chunk_checksum(&chunk, head, head_bytes, body, body_bytes);
	err = write_out(p, &chunk, sizeof(chunk));
	if (!err && head_bytes)
		err = write_out(p, head, head_bytes);
	if (!err && body_bytes)
		err = write_out(p, body, body_bytes);
	return err ? err : write_out(p, zeros, -chunk.payload_bytes & 7);
}

static int stopped(const struct braid_pack_run *run)
{
	return run->stop && *run->stop ? braid_fail(-EINTR, "stopped before the end: no output is kept") :
					 0;
}

static int put_part(struct packer *p, u64 at, u32 bytes)
{
	struct braid_chunk_packed packed = { .at = at, .bytes = bytes, .codec = BRAID_PACKED_ZSTD };
	struct braid_chunk_packed_place place = { .offset = p->run->written_bytes, .at = at };
	size_t n = ZSTD_compressCCtx(p->zstd, p->packed, p->room, p->plain, bytes, p->run->level);
	const u8 *body = p->packed;

	if (braid_array_push(p->places, p->nr, p->capacity, place))
		return braid_out_of_memory();
	/* What compresses better than any trace is kept as it is: readers refuse it otherwise. */
	if (ZSTD_isError(n) || n >= bytes || bytes / BRAID_PACKED_RATIO > n) {
		packed.codec = BRAID_PACKED_PLAIN;
		body = p->plain;
		n = bytes;
	}
	return put_chunk(p, BRAID_CHUNK_PACKED, &packed, sizeof(packed), body, n);
}

static int put_end(struct packer *p, u64 bytes)
{
	struct braid_chunk_packed_end end = { .index_offset = p->run->written_bytes, .bytes = bytes };
	u64 index_bytes = p->nr * sizeof(*p->places);
	int err = 0;

	if (index_bytes <= BRAID_CHUNK_MAX_BYTES)
		err = put_chunk(p, BRAID_CHUNK_PACKED_INDEX, NULL, 0, p->places, index_bytes);
	else
		end.index_offset = 0;	/* of more than a TiB: readers look for the parts */
	return err ? err : put_chunk(p, BRAID_CHUNK_FILE_END, NULL, 0, &end, sizeof(end));
}

static int read_error(const char *path, int err)
{
	return braid_fail(err, "cannot read '%s': %s", path, strerror(-err));
}

/* The capture's FILE chunk, as one of a packed capture. */
static int put_head(struct packer *p, int from)
{
	struct {
		struct braid_chunk chunk;
		struct braid_chunk_file file;
	} first;
	ssize_t n = braid_pread_all(from, &first, sizeof(first), 0);

	if (n < 0)
		return read_error(p->path, n);
	if ((size_t)n < sizeof(first) || first.chunk.magic != BRAID_CHUNK_MAGIC ||
	    first.chunk.type != BRAID_CHUNK_FILE)
		return braid_fail(-EBADMSG, "'%s' is not a tracebraid capture", p->path);
	if (first.file.version_major == BRAID_PACKED_MAJOR)
		return braid_fail(-EBADMSG, "'%s' is packed already", p->path);
	first.file.version_major = BRAID_PACKED_MAJOR;
	return put_chunk(p, BRAID_CHUNK_FILE, NULL, 0, &first.file, sizeof(first.file));
}

static int pack(struct packer *p, int from, u64 total)
{
	u32 part = p->run->part_bytes && p->run->part_bytes < PART_BYTES ? p->run->part_bytes :
									    PART_BYTES;
	u64 at = 0;
	ssize_t n;
	int err = put_head(p, from);

	while (!err && (n = braid_pread_all(from, p->plain, part, at))) {
		if (n < 0)
			return read_error(p->path, n);
		err = stopped(p->run) ?: put_part(p, at, n);
		at += n;
		if (p->run->progress)
			p->run->progress(p->run->progress_arg, "packing", at, total);
	}
	p->run->read_bytes = at;
	return err ? err : put_end(p, at);
}

int braid_pack(int to, int from, const char *path, struct braid_pack_run *run)
{
	struct packer p = {
		.to = to, .path = path, .run = run, .plain = malloc(PART_BYTES),
		.room = ZSTD_compressBound(PART_BYTES), .zstd = ZSTD_createCCtx(),
	};
	struct stat st;
	int err = 0;

	run->read_bytes = run->written_bytes = 0;
	p.packed = malloc(p.room);
	if (!p.plain || !p.packed || !p.zstd)
		err = braid_out_of_memory();
	else if (fstat(from, &st))
		err = read_error(path, -errno);
	if (!err)
		err = pack(&p, from, st.st_size);
	ZSTD_freeCCtx(p.zstd);
	free(p.places);
	free(p.packed);
	free(p.plain);
	return err;
}

/* Unpacking ---------------------------------------------------------------------------------- */

static int unpack(struct packer *p, struct braid_packed *from)
{
	u64 at = 0, total = braid_packed_bytes(from);
	ssize_t n;
	int err = 0;

	while (!err && (n = braid_packed_read(from, p->plain, PART_BYTES, at))) {
		if (n < 0)
			return read_error(p->path, n);
		if (braid_packed_damaged(from))
			return braid_fail(-EBADMSG, "'%s' is damaged; 'tracebraid report' reads its intact parts",
					  p->path);
		err = stopped(p->run) ?: write_out(p, p->plain, n);
		at += n;
		if (p->run->progress)
			p->run->progress(p->run->progress_arg, "unpacking", at, total);
	}
	return err;
}

int braid_unpack(int to, int from, const char *path, struct braid_pack_run *run)
{
	struct packer p = { .to = to, .path = path, .run = run, .plain = malloc(PART_BYTES) };
	struct braid_packed *packed = NULL;
	struct braid_chunk_file head;
	struct stat st;
	int err = p.plain ? braid_packed_is(from, &head) : braid_out_of_memory();

	run->read_bytes = run->written_bytes = 0;
	if (!err)
		err = braid_fail(-EBADMSG, "'%s' is not a packed capture", path);
	if (err > 0)
		err = fstat(from, &st) ? -errno : braid_packed_open(&packed, from, st.st_size);
	if (!err) {
		run->read_bytes = st.st_size;
		err = unpack(&p, packed);
	}
	braid_packed_free(packed);
	free(p.plain);
	return err;
}
