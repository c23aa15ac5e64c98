// SPDX-License-Identifier: GPL-2.0-or-later
/* Packs a file, and unpacks one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/capture/pack.h"
#include "host_agent/capture/packed.h"
#include "host_agent/capture/packer.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"

#define READ_BYTES	(1u << 20)	/* at a time */

struct run {
	int to;
	const char *path;
	struct braid_pack_run *run;
	u8 *plain;
};

static int pack_write_out(void *arg, const void *data, size_t bytes)
{
	struct run *r = arg;
	int err = braid_write_all(r->to, data, bytes);

	if (err)
		return braid_fail(err, "cannot write: %s", strerror(-err));
	r->run->written_bytes += bytes;
	return 0;
}

static int read_error(const char *path, int err)
{
	return braid_fail(err, "cannot read '%s': %s", path, strerror(-err));
}

static int stopped(const struct braid_pack_run *run)
{
	return run->stop && *run->stop ? braid_fail(-EINTR, "interrupted: the output was discarded") :
					 0;
}

/* Packs what is a capture, and not packed. */
static int check_first(const struct run *r, size_t bytes)
{
	struct {
		struct braid_chunk chunk;
		struct braid_chunk_file file;
	} first;

	if (bytes >= sizeof(first))
		memcpy(&first, r->plain, sizeof(first));
	if (bytes < sizeof(first) || first.chunk.magic != BRAID_CHUNK_MAGIC ||
	    first.chunk.type != BRAID_CHUNK_FILE)
		return braid_fail(-EBADMSG, "'%s' is not a tracebraid capture", r->path);
	if (braid_packed_is_major(first.file.version_major))
		return braid_fail(-EBADMSG, "'%s' is packed already", r->path);
	return 0;
}

static int pack(struct run *r, struct braid_packer *packer, int from, u64 total)
{
	u64 at = 0;
	ssize_t n;
	int err;

	do {
		n = braid_pread_all(from, r->plain, READ_BYTES, at);
		if (n < 0)
			return read_error(r->path, n);
		err = (at ? 0 : check_first(r, n)) ?: stopped(r->run) ?:
		      braid_packer_add(packer, r->plain, n);
		at += n;
		if (r->run->progress && n)
			r->run->progress(r->run->progress_arg, "packing", at, total);
	} while (!err && n);
	r->run->read_bytes = at;
	return err ? err : braid_packer_finish(packer);
}

int braid_pack(int to, int from, const char *path, struct braid_pack_run *run)
{
	struct run r = { .to = to, .path = path, .run = run, .plain = malloc(READ_BYTES) };
	const struct braid_packer_options options = {
		.level = run->level, .segment_bytes = run->segment_bytes, .write = pack_write_out,
		.arg = &r,
	};
	struct braid_packer *packer = braid_packer_new(&options);
	struct stat st;
	int err = 0;

	run->read_bytes = run->written_bytes = 0;
	if (!r.plain || !packer)
		err = braid_out_of_memory();
	else if (fstat(from, &st))
		err = read_error(path, -errno);
	if (!err)
		err = pack(&r, packer, from, st.st_size);
	braid_packer_free(packer);
	free(r.plain);
	return err;
}

/* Unpacking ---------------------------------------------------------------------------------- */

static int pack_unpack(struct run *r, struct braid_packed *from)
{
	u64 at = 0, total = braid_packed_bytes(from);
	ssize_t n;
	int err = 0;

	while (!err && (n = braid_packed_read(from, r->plain, READ_BYTES, at))) {
		if (n < 0)
			return read_error(r->path, n);
		if (braid_packed_damaged(from))
			return braid_fail(-EBADMSG, "'%s' is damaged; 'tracebraid report' reads its intact segments",
					  r->path);
		err = stopped(r->run) ?: pack_write_out(r, r->plain, n);
		at += n;
		if (r->run->progress)
			r->run->progress(r->run->progress_arg, "unpacking", at, total);
	}
	return err;
}

int braid_unpack(int to, int from, const char *path, struct braid_pack_run *run)
{
	struct run r = { .to = to, .path = path, .run = run, .plain = malloc(READ_BYTES) };
	struct braid_packed *packed = NULL;
	struct braid_chunk_file head;
	struct stat st;
	int err = r.plain ? braid_packed_is(from, &head) : braid_out_of_memory();

	run->read_bytes = run->written_bytes = 0;
	if (!err)
		err = braid_fail(-EBADMSG, "'%s' is not a packed capture", path);
	if (err > 0)
		err = fstat(from, &st) ? -errno : braid_packed_open(&packed, from, st.st_size);
	if (!err) {
		run->read_bytes = st.st_size;
		err = pack_unpack(&r, packed);
	}
	braid_packed_free(packed);
	free(r.plain);
	return err;
}
