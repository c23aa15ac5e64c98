// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Reads chunks back, also from a damaged file. Never maps it, so that a truncated file can't cause
 * SIGBUS.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/capture/blocks.h"
#include "host_agent/capture/capture.h"
#include "host_agent/capture/checksum.h"
#include "host_agent/capture/packed.h"
#include "host_agent/util/error.h"
#include "host_agent/util/input.h"
#include "host_agent/util/io.h"

#define WINDOW_BYTES	(1u << 20)
#define HEADER_BYTES	sizeof(struct braid_chunk)
#define FIRST_BYTES	512u	/* of a chunk at an offset: read first; most chunks are smaller */

/*
 * Bytes that may be hashed in vain while searching for a chunk: bounds the work on a file of forged
 * headers.
 */
#define VAIN_BYTES(file_bytes)	((1ULL << 30) + 4 * (file_bytes))

struct braid_capture_reader {
	int fd;
	struct braid_packed *packed;	/* NULL: it is not; else all offsets are of what it unpacks to */
	u64 file_bytes;			/* as far as it is read: as it was opened, or has grown */
	u64 at;				/* of the next chunk */
	u64 window_at;			/* what of the file the window holds */
	size_t window_bytes;
	size_t window_allocated;
	u8 *window;
	u64 vain_bytes;
	bool ended;
	bool waits;			/* what goes past the end is not written yet */
	struct braid_capture_damage damage;
	struct braid_blocks blocks;	/* for what is loaded again */
	char path[256];
};

static int read_error(const struct braid_capture_reader *r, int err)
{
	if (r->packed && err == -EOVERFLOW)
		return braid_fail(err, "'%s': its chunks are too scattered to be read packed; 'tracebraid unpack' it first",
				  r->path);
	return braid_fail(err, "cannot read '%s': %s", r->path, strerror(-err));
}

static ssize_t fetch(struct braid_capture_reader *r, void *to, size_t bytes, u64 offset)
{
	return r->packed ? braid_packed_read(r->packed, to, bytes, offset) :
			   braid_pread_all(r->fd, to, bytes, offset);
}

/* Makes room in the window, which is empty then. */
static int grow_window(struct braid_capture_reader *r, size_t bytes)
{
	size_t room = bytes > WINDOW_BYTES ? (bytes + WINDOW_BYTES - 1) & ~(WINDOW_BYTES - 1ul) :
			WINDOW_BYTES;
	u8 *grown;

	r->window_bytes = 0;
	if (room <= r->window_allocated)
		return 0;
	grown = aligned_alloc(64, room);
	if (!grown)
		return braid_out_of_memory();
	free(r->window);
	r->window = grown;
	r->window_allocated = room;
	return 0;
}

/*
 * Makes the window hold [offset, offset + bytes), or its existing part.
 * Return: bytes there from offset on, or -errno.
 */
static s64 look(struct braid_capture_reader *r, u64 offset, size_t bytes)
{
	ssize_t n;

	if (offset >= r->window_at && offset + bytes <= r->window_at + r->window_bytes)
		return r->window_at + r->window_bytes - offset;
	if (offset == r->window_at && r->window_bytes && r->window_bytes < r->window_allocated)
		return r->window_bytes;		/* the file ended there */
	if (grow_window(r, bytes))
		return -ENOMEM;
	n = fetch(r, r->window, r->window_allocated, offset);
	if (n < 0)
		return read_error(r, n);
	r->window_at = offset;
	r->window_bytes = n;
	return n;
}

/* A whole chunk at @offset? 1 yes, 0 no (*cut: it would go past the end), -errno. */
static int probe(struct braid_capture_reader *r, u64 offset, struct braid_chunk *chunk, bool *cut)
{
	s64 there = look(r, offset, HEADER_BYTES);
	const u8 *payload;
	u64 total;

	*cut = false;
	if (there < 0)
		return there;
	if ((u64)there < HEADER_BYTES) {
		*cut = true;
		return 0;
	}
	memcpy(chunk, r->window + (offset - r->window_at), HEADER_BYTES);
	if (chunk->magic != BRAID_CHUNK_MAGIC || chunk->payload_bytes > BRAID_CHUNK_MAX_BYTES)
		return 0;
	total = braid_chunk_bytes(chunk->payload_bytes);
	there = offset + total > r->file_bytes ? 0 : look(r, offset, total);
	if (there < 0)
		return there;
	if ((u64)there < total) {
		*cut = true;
		return 0;
	}
	payload = r->window + (offset - r->window_at) + HEADER_BYTES;
	if (braid_chunk_checksum(chunk, payload, chunk->payload_bytes, NULL, 0) == chunk->checksum)
		return 1;
	r->vain_bytes += total;
	return 0;
}

/* Searches for the next whole chunk after @r->at. 1 found, 0 none, -errno. */
static int resync(struct braid_capture_reader *r, struct braid_chunk *chunk, bool cut)
{
	u64 from = r->at, at = from + 8;
	int ret = 0;
	bool past;

	for (;;) {
		s64 there = look(r, at, HEADER_BYTES);
		u32 magic;

		if (there < 0)
			return there;
		if ((u64)there < HEADER_BYTES || r->vain_bytes > VAIN_BYTES(r->file_bytes))
			break;
		memcpy(&magic, r->window + (at - r->window_at), sizeof(magic));
		if (magic == BRAID_CHUNK_MAGIC) {
			ret = probe(r, at, chunk, &past);
			if (ret)
				break;
		}
		at += 8;
	}
	if (ret < 0)
		return ret;
	if (!ret)
		at = r->file_bytes > from ? r->file_bytes : from;
	if (!ret && r->waits)	/* a chunk may begin there later */
		at &= ~7ULL;
	if (!ret && cut) {
		r->damage.cut_off = true;
		return 0;
	}
	if (!r->damage.stretches++)
		r->damage.first_offset = from;
	r->damage.bytes += at - from;
	r->at = at;
	return ret;
}

static void set_view(struct braid_chunk_view *view, u64 offset, const struct braid_chunk *chunk,
		     const u8 *payload)
{
	*view = (struct braid_chunk_view){
		.offset = offset, .type = chunk->type, .stream = chunk->stream,
		.number = chunk->number, .bytes = chunk->payload_bytes, .payload = payload,
	};
}

int braid_capture_next(struct braid_capture_reader *r, struct braid_chunk_view *view)
{
	struct braid_chunk chunk;
	bool cut;
	int ret;

	ret = r->at < r->file_bytes ? look(r, r->at, 1) : 0;
	if (ret <= 0) {
		r->damage.no_end = !r->ended;
		return ret;
	}
	ret = probe(r, r->at, &chunk, &cut);
	if (!ret && cut && r->waits)
		return 0;
	if (!ret)
		ret = resync(r, &chunk, cut);
	if (ret <= 0) {
		r->damage.no_end = !r->ended || r->damage.cut_off;
		return ret;
	}
	set_view(view, r->at, &chunk, r->window + (r->at - r->window_at) + HEADER_BYTES);
	r->ended = chunk.type == BRAID_CHUNK_FILE_END;
	r->at += braid_chunk_bytes(chunk.payload_bytes);
	return 1;
}

int braid_capture_at(struct braid_capture_reader *r, u64 offset, struct braid_chunk_view *view)
{
	/* In a packed file, reading bytes of the next chunk may unpack a segment for nothing. */
	size_t first = r->packed ? HEADER_BYTES : FIRST_BYTES;
	struct braid_chunk chunk;
	u64 total;
	ssize_t n;

	if (grow_window(r, first))
		return -ENOMEM;
	n = fetch(r, r->window, first, offset);
	if (n < 0)
		return read_error(r, n);
	memcpy(&chunk, r->window, sizeof(chunk));
	if (n < (ssize_t)sizeof(chunk) || chunk.magic != BRAID_CHUNK_MAGIC ||
	    chunk.payload_bytes > BRAID_CHUNK_MAX_BYTES)
		return 0;
	total = sizeof(chunk) + (u64)chunk.payload_bytes;
	if (total > (u64)n) {
		if (grow_window(r, total))
			return -ENOMEM;
		n = fetch(r, r->window, total, offset);
		if (n < 0)
			return read_error(r, n);
		memcpy(&chunk, r->window, sizeof(chunk));	/* it may have changed */
	}
	if ((u64)n < total || total != sizeof(chunk) + (u64)chunk.payload_bytes ||
	    chunk.magic != BRAID_CHUNK_MAGIC ||
	    braid_chunk_checksum(&chunk, r->window + sizeof(chunk), chunk.payload_bytes, NULL, 0) !=
	    chunk.checksum)
		return 0;
	set_view(view, offset, &chunk, r->window + sizeof(chunk));
	return 1;
}

void braid_capture_soon(const struct braid_capture_reader *r, u64 offset)
{
	if (!r->packed)
		posix_fadvise(r->fd, offset, FIRST_BYTES, POSIX_FADV_WILLNEED);
}

int braid_capture_load(struct braid_capture_reader *r, u64 offset, void *to, u32 bytes, bool alone)
{
	const struct braid_chunk *chunk = to;
	ssize_t n = alone || r->packed ? fetch(r, to, sizeof(*chunk) + bytes, offset) :
		    braid_blocks_read(&r->blocks, r->fd, to, sizeof(*chunk) + bytes, offset);

	if (n < 0)
		return read_error(r, n);
	if (n < (ssize_t)sizeof(*chunk) || chunk->magic != BRAID_CHUNK_MAGIC ||
	    chunk->payload_bytes > BRAID_CHUNK_MAX_BYTES || bytes > chunk->payload_bytes)
		return braid_fail(-EBADMSG, "'%s' changed while it was read", r->path);
	if ((size_t)n < sizeof(*chunk) + bytes)
		return braid_fail(-EBADMSG, "'%s' was truncated while it was read", r->path);
	return 0;
}

/* A packed capture is read as what it unpacks to. @head: its own, which it has twice. */
static int open_packed(struct braid_capture_reader *r, struct braid_chunk_file *head)
{
	int ret = braid_packed_is(r->fd, head);

	if (ret > 0)
		ret = braid_packed_open(&r->packed, r->fd, r->file_bytes);
	if (ret < 0)
		return ret == -ENOMEM ? ret : read_error(r, ret);
	if (r->packed)
		r->file_bytes = braid_packed_bytes(r->packed);
	return 0;
}

/* Opens without waiting for the other end of a FIFO; requires a seekable file. */
static int open_input(struct braid_capture_reader *r, const char *path,
		      struct braid_chunk_file *head)
{
	struct stat st;

	r->fd = braid_input_open(path);
	if (r->fd < 0)
		return braid_fail(r->fd, "cannot open '%s': %s", path, strerror(-r->fd));
	if (fstat(r->fd, &st))
		return read_error(r, -errno);
	if (S_ISFIFO(st.st_mode))
		return braid_fail(-EBADMSG, "'%s' is a pipe, and a capture is read more than once; '-' reads standard input: ... | tracebraid report -",
				  path);
	if (!S_ISREG(st.st_mode))
		return braid_fail(-EBADMSG, "'%s' is not a regular file, so not a capture", path);
	r->file_bytes = st.st_size;
	return open_packed(r, head);
}

static int check_head(const struct braid_capture_reader *r, struct braid_chunk_file *head)
{
	if (head->version_major != BRAID_CAPTURE_MAJOR)
		return braid_fail(-EPROTONOSUPPORT,
				  "'%s' is of capture format %u, this program reads %u: use the tracebraid that wrote it",
				  r->path, head->version_major, BRAID_CAPTURE_MAJOR);
	head->clock[sizeof(head->clock) - 1] = 0;
	head->host_name[sizeof(head->host_name) - 1] = 0;
	head->kernel_release[sizeof(head->kernel_release) - 1] = 0;
	head->machine[sizeof(head->machine) - 1] = 0;
	head->agent_version[sizeof(head->agent_version) - 1] = 0;
	return 0;
}

static int refuse_other(const struct braid_capture_reader *r, size_t bytes)
{
	static const struct {
		const char *magic, *name, *reader;
	} packers[] = {
		{ "\x1f\x8b", "gzip", "zcat" }, { "\xfd" "7zXZ", "xz", "xzcat" }, { "BZh", "bzip2", "bzcat" },
		{ "\x28\xb5\x2f\xfd", "zstd", "zstdcat" },
	};
	size_t k, n;

	for (k = 0; k < sizeof(packers) / sizeof(*packers); k++) {
		n = strlen(packers[k].magic);
		if (bytes >= n && !memcmp(r->window, packers[k].magic, n))
			return braid_fail(-EBADMSG, "'%s' is compressed by %s; read it by: %s '%s' | tracebraid report -",
					  r->path, packers[k].name, packers[k].reader, r->path);
	}
	return braid_fail(-EBADMSG, "'%s' is not a tracebraid capture; 'tracebraid record -o FILE' makes one",
			  r->path);
}

/*
 * @head: of a packed capture, already from its file: used if its first segment is damaged, or, if
 * the capture @grows, not written yet.
 */
static int read_head(struct braid_capture_reader *r, bool grows, struct braid_chunk_file *head)
{
	struct braid_chunk_view view;
	struct braid_chunk chunk;
	s64 there = look(r, 0, HEADER_BYTES);
	bool cut;
	int ret;

	if (there < 0)
		return there;
	if (!there && braid_capture_unfinished(r))
		return grows ? check_head(r, head) :
		       braid_fail(-EBADMSG, "'%s' has no whole segment: it is compressed while it is recorded, or was cut off",
				  r->path);
	if (!there)
		return braid_fail(-EBADMSG, "'%s' is empty: the recording may never have started",
				  r->path);
	if (!r->packed && (there < 4 || memcmp(r->window, "BRCK", 4)))
		return refuse_other(r, there);
	if (!r->packed)
		memset(head, 0, sizeof(*head));
	ret = probe(r, 0, &chunk, &cut);
	if (ret < 0)
		return ret;
	if (!ret && cut)
		return braid_fail(-EBADMSG, "'%s' is truncated before its first event", r->path);
	if (!ret)	/* damaged: what follows may still be good */
		return r->packed ? check_head(r, head) : 0;
	if (chunk.type != BRAID_CHUNK_FILE || chunk.payload_bytes < sizeof(*head))
		return braid_fail(-EBADMSG, "'%s' does not begin with a FILE chunk", r->path);
	ret = braid_capture_next(r, &view);
	if (ret <= 0)
		return ret ? ret : braid_fail(-EBADMSG, "'%s' changed while it was read", r->path);
	memcpy(head, view.payload, sizeof(*head));
	return check_head(r, head);
}

static int open_capture(struct braid_capture_reader **out, const char *path, bool grows,
			struct braid_chunk_file *head)
{
	struct braid_capture_reader *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return braid_out_of_memory();
	strncpy(r->path, path, sizeof(r->path) - 1);
	err = open_input(r, path, head);
	if (!err)
		err = read_head(r, grows, head);
	if (err) {
		braid_capture_close(r);
		return err;
	}
	*out = r;
	return 0;
}

int braid_capture_open(struct braid_capture_reader **out, const char *path,
		       struct braid_chunk_file *head)
{
	return open_capture(out, path, false, head);
}

int braid_capture_follow(struct braid_capture_reader **out, const char *path,
			 struct braid_chunk_file *head)
{
	return open_capture(out, path, true, head);
}

int braid_capture_grow(struct braid_capture_reader *r, u64 bytes)
{
	struct stat st;
	int err;

	if (bytes == BRAID_CAPTURE_ALL && fstat(r->fd, &st))
		return read_error(r, -errno);
	if (bytes == BRAID_CAPTURE_ALL)
		bytes = st.st_size;
	if (r->packed) {
		err = braid_packed_grow(r->packed, bytes);
		if (err)
			return err == -ENOMEM ? err : read_error(r, err);
		bytes = braid_packed_bytes(r->packed);
	}
	if (bytes < r->at || bytes == r->file_bytes)	/* shorter: it is read as it was */
		return 0;
	r->file_bytes = bytes;
	r->window_bytes = 0;	/* it may end where the file did */
	return 0;
}

bool braid_capture_unfinished(const struct braid_capture_reader *r)
{
	return r->packed && braid_packed_no_end(r->packed);
}

void braid_capture_wait(struct braid_capture_reader *r, bool waits)
{
	r->waits = waits;
}

const struct braid_capture_damage *braid_capture_damage(const struct braid_capture_reader *r)
{
	return &r->damage;
}

u64 braid_capture_size(const struct braid_capture_reader *r)
{
	return r->file_bytes;
}

void braid_capture_close(struct braid_capture_reader *r)
{
	if (!r)
		return;
	if (r->fd >= 0)
		close(r->fd);
	braid_packed_free(r->packed);
	braid_blocks_free(&r->blocks);
	free(r->window);
	free(r);
}
