// SPDX-License-Identifier: GPL-2.0-or-later
/* The capture's writer and reader: chunks are read back unchanged, and damage stays local. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/capture/capture.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

#define NR	40u

static char path[64];

static const struct braid_chunk_file head = {
	.version_major = BRAID_CAPTURE_MAJOR, .clock = "mono_raw", .host_name = "h",
};

/* The payload of chunk k: its size and every byte follow from k. */
static u32 fill(u8 *to, u32 k)
{
	u32 bytes = k * 37 % 1000, i;

	for (i = 0; i < bytes; i++)
		to[i] = k + i;
	return bytes;
}

static void write_chunks(void)
{
	struct braid_capture_writer *w;
	u8 payload[1000], *room;
	u32 k, bytes, some;

	NEED(!braid_capture_create(&w, path, &head));
	for (k = 0; k < NR; k++) {
		bytes = fill(payload, k);
		some = bytes / 3 & ~7u;
		if (k & 1) {
			room = braid_capture_reserve(w, some, 1000);
			NEED(room);
			memcpy(room, payload + some, bytes - some);
			CHECK_EQ(braid_capture_put(w, 100 + k, k, payload, some, room,
						   bytes - some), 0);
		} else {
			CHECK_EQ(braid_capture_put(w, 100 + k, k, payload, some, payload + some,
						   bytes - some), 0);
		}
	}
	CHECK_EQ(braid_capture_finish(w), 0);
}

static u64 file_bytes(void)
{
	struct stat st;

	NEED(!stat(path, &st));
	return st.st_size;
}

/* Reserving flushes before the copy: the following put needs no write, wherever the buffer ends. */
static void reserve_flushes_first(void)
{
	static const u32 sizes[] = { 8, 4000, 65536 - 24, 1u << 20 };
	struct braid_capture_writer *w;
	u32 k, turn, flushes = 0;
	u64 before;
	u8 *room;

	for (k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
		NEED(!braid_capture_create(&w, path, &head));
		NEED(!braid_capture_publish(w));
		for (turn = 0; turn < (8u << 20) / (sizes[k] + 4000); turn++) {
			before = file_bytes();
			room = braid_capture_reserve(w, sizeof(head), sizes[k]);
			NEED(room);
			flushes += file_bytes() != before;
			before = file_bytes();
			memset(room, turn, sizes[k]);
			CHECK_EQ(braid_capture_put(w, 100, 1, &head, sizeof(head), room,
						   sizes[k]), 0);
			CHECK_EQ(file_bytes(), before);
		}
		CHECK_EQ(braid_capture_finish(w), 0);
	}
	CHECK(flushes > 10);
}

/* Reads all chunks; returns how many of the numbered ones are correct. */
static u32 read_chunks(struct braid_capture_damage *damage, u64 *offsets)
{
	struct braid_capture_reader *r;
	struct braid_chunk_view view;
	struct braid_chunk_file got;
	u8 payload[1000];
	u32 good = 0, bytes;
	int ret;

	ret = braid_capture_open(&r, path, &got);
	if (ret)
		return 0;
	while ((ret = braid_capture_next(r, &view)) > 0) {
		CHECK_EQ((uintptr_t)view.payload & 7, 0);
		if (view.type == BRAID_CHUNK_FILE_END || view.type == BRAID_CHUNK_INDEX ||
		    view.type == BRAID_CHUNK_INDEX_BLOCKS)
			continue;
		bytes = fill(payload, view.type - 100);
		CHECK_EQ(view.bytes, bytes);
		CHECK_EQ(view.stream, view.type - 100);
		CHECK_EQ(view.number, view.type - 100 + 1);
		CHECK(!memcmp(view.payload, payload, bytes));
		if (offsets)
			offsets[good] = view.offset;
		good++;
	}
	CHECK_EQ(ret, 0);
	*damage = *braid_capture_damage(r);
	braid_capture_close(r);
	return good;
}

static void round_trip(void)
{
	struct braid_capture_damage damage;
	struct stat st;

	write_chunks();
	CHECK_EQ(read_chunks(&damage, NULL), NR);
	CHECK_EQ(damage.stretches, 0);
	CHECK(!damage.cut_off && !damage.no_end);
	CHECK(!stat(path, &st));
	CHECK_EQ(st.st_mode & 0777, 0600);
	CHECK_EQ(st.st_size & 7, 0);
}

static void load_again(void)
{
	struct braid_capture_damage damage;
	struct braid_capture_reader *r;
	struct braid_chunk_file got;
	u64 offsets[NR];
	struct {
		struct braid_chunk chunk;
		u8 payload[1001];
	} have;
	u8 want[1000];
	u32 bytes, k;

	write_chunks();
	NEED(read_chunks(&damage, offsets) == NR);
	NEED(!braid_capture_open(&r, path, &got));
	for (k = NR; k-- > 1;) {
		bytes = fill(want, k);
		CHECK_EQ(braid_capture_load(r, offsets[k], &have, bytes, false), 0);
		CHECK(!memcmp(have.payload, want, bytes));
		CHECK_EQ(braid_capture_load(r, offsets[k], &have, bytes / 2, false), 0);
		CHECK_EQ(braid_capture_load(r, offsets[k], &have, bytes + 1, false), -EBADMSG);
	}
	CHECK_EQ(braid_capture_load(r, offsets[3] + 8, &have, 8, false), -EBADMSG);
	CHECK_EQ(braid_capture_load(r, 1ULL << 50, &have, 8, false), -EBADMSG);
	braid_capture_close(r);
}

/* A truncated file is valid up to its last complete chunk. */
static void truncated_anywhere(void)
{
	struct braid_capture_damage damage;
	u64 offsets[NR], size, end;
	struct stat st;
	u8 payload[1000];
	u32 k, good;
	s64 cut;

	write_chunks();
	NEED(read_chunks(&damage, offsets) == NR);
	NEED(!stat(path, &st));
	end = offsets[NR - 1] + 32 + ((fill(payload, NR - 1) + 7) & ~7u);
	for (cut = st.st_size - 1; cut >= 248 + 32; cut -= cut % 5 ? 3 : 8) {
		NEED(!truncate(path, cut));
		for (good = 0; good < NR; good++) {
			size = good + 1 < NR ? offsets[good + 1] : end;
			if (size > (u64)cut)
				break;
		}
		k = read_chunks(&damage, NULL);
		CHECK_EQ(k, good);
		CHECK(damage.no_end);
		CHECK_EQ(damage.stretches, 0);
	}
	for (; cut >= 0; cut -= 7) {
		NEED(!truncate(path, cut));
		CHECK_EQ(read_chunks(&damage, NULL), 0);
	}
}

static void flip(u64 offset, u8 mask)
{
	int fd = open(path, O_RDWR);
	u8 byte;

	NEED(fd >= 0 && pread(fd, &byte, 1, offset) == 1);
	byte ^= mask;
	NEED(pwrite(fd, &byte, 1, offset) == 1);
	close(fd);
}

/* One flipped bit costs one chunk. */
static void flip_anywhere(void)
{
	struct braid_capture_damage damage;
	u64 offsets[NR];
	u64 at;
	u32 k, good;

	write_chunks();
	NEED(read_chunks(&damage, offsets) == NR);
	for (at = offsets[0]; at < offsets[NR - 1]; at += 13) {
		u8 mask = 1 << (at & 7);

		flip(at, mask);
		good = read_chunks(&damage, NULL);
		CHECK(good == NR - 1 || (good == NR && !damage.stretches));	/* padding */
		CHECK(damage.stretches <= 1);
		flip(at, mask);
	}
	for (k = 0; k < NR; k += 2)
		flip(offsets[k] + 24, 1);	/* every other checksum */
	CHECK_EQ(read_chunks(&damage, NULL), NR / 2);
	CHECK_EQ(damage.stretches, NR / 2);
	CHECK_EQ(damage.first_offset, offsets[0]);
}

static void damaged_head(void)
{
	struct braid_capture_damage damage;

	write_chunks();
	flip(32 + 100, 1);	/* in FILE's payload: the rest is still valid */
	CHECK_EQ(read_chunks(&damage, NULL), NR);
	CHECK_EQ(damage.stretches, 1);
	flip(0, 1);
	CHECK_EQ(read_chunks(&damage, NULL), 0);
	CHECK(strstr(braid_failure(), "not a tracebraid capture"));
}

static void newer_version(void)
{
	struct braid_chunk_file later = head, got;
	struct braid_capture_reader *r;
	struct braid_capture_writer *w;

	later.version_major = BRAID_PACKED_MAJOR + 1;
	NEED(!braid_capture_create(&w, path, &later));
	CHECK_EQ(braid_capture_finish(w), 0);
	CHECK_EQ(braid_capture_open(&r, path, &got), -EPROTONOSUPPORT);
	later.version_major = BRAID_CAPTURE_MAJOR;
	later.version_minor = 99;
	NEED(!braid_capture_create(&w, path, &later));
	CHECK_EQ(braid_capture_finish(w), 0);
	NEED(!braid_capture_open(&r, path, &got));
	CHECK_EQ(got.version_minor, 99);
	braid_capture_close(r);
}

/* A failed write leaves complete chunks, and the error is permanent. */
static void full_disk(void)
{
	struct rlimit before, limit;
	struct braid_capture_damage damage;
	struct braid_capture_writer *w;
	u8 payload[1000];
	u32 k, bytes, puts = 0;
	struct stat st;
	int err = 0;

	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &before);
	limit = before;
	limit.rlim_cur = 9999;
	NEED(!braid_capture_create(&w, path, &head));
	NEED(!braid_capture_publish(w));
	setrlimit(RLIMIT_FSIZE, &limit);
	for (k = 0; k < NR && !err; k++, puts++) {
		bytes = fill(payload, k);
		err = braid_capture_put(w, 100 + k, k, NULL, 0, payload, bytes);
		if (!err)
			err = braid_capture_flush(w);
	}
	CHECK_EQ(err, -EFBIG);
	CHECK(strstr(braid_failure(), "valid up to byte"));
	CHECK_EQ(braid_capture_put(w, 1, 1, NULL, 0, payload, 8), -EFBIG);
	CHECK(!braid_capture_reserve(w, 8, 8));
	CHECK_EQ(braid_capture_bytes(w) & 7, 0);
	CHECK(!stat(path, &st));
	CHECK_EQ(st.st_size, braid_capture_bytes(w));
	CHECK_EQ(braid_capture_finish(w), -EFBIG);
	setrlimit(RLIMIT_FSIZE, &before);
	CHECK_EQ(read_chunks(&damage, NULL), puts - 1);
	CHECK(damage.no_end && !damage.cut_off && !damage.stretches);
}

/* The same, when it fails in the middle of a buffer of many chunks. */
static void full_disk_in_buffer(void)
{
	struct rlimit before, limit;
	struct braid_capture_damage damage;
	struct braid_capture_writer *w;
	u8 payload[1000];
	u32 k;

	getrlimit(RLIMIT_FSIZE, &before);
	limit = before;
	limit.rlim_cur = 7777;
	NEED(!braid_capture_create(&w, path, &head));
	for (k = 0; k < NR; k++)
		CHECK_EQ(braid_capture_put(w, 100 + k, k, NULL, 0, payload, fill(payload, k)), 0);
	setrlimit(RLIMIT_FSIZE, &limit);
	CHECK_EQ(braid_capture_flush(w), -EFBIG);
	setrlimit(RLIMIT_FSIZE, &before);
	k = braid_capture_bytes(w);
	CHECK(k <= 7777 && k > 5000);
	braid_capture_abandon(w);
	CHECK(read_chunks(&damage, NULL) > 5);
	CHECK(damage.no_end && !damage.cut_off && !damage.stretches);
}

static void large_chunks(void)
{
	struct braid_chunk_view view;
	struct braid_capture_reader *r;
	struct braid_capture_writer *w;
	struct braid_chunk_file got;
	u32 bytes = BRAID_CHUNK_MAX_BYTES;
	u8 *body = calloc(1, bytes);

	NEED(body);
	body[bytes - 1] = 42;
	NEED(!braid_capture_create(&w, path, &head));
	CHECK_EQ(braid_capture_put(w, 100, 1, body, 8, body + 8, bytes - 8), 0);
	CHECK_EQ(braid_capture_put(w, 101, 1, body, 3, NULL, 0), 0);
	CHECK_EQ(braid_capture_put(w, 102, 1, body, 8, body, bytes), -EMSGSIZE);
	CHECK_EQ(braid_capture_put(w, 103, 1, NULL, 0, NULL, 0), 0);
	CHECK_EQ(braid_capture_finish(w), 0);
	NEED(!braid_capture_open(&r, path, &got));
	CHECK_EQ(braid_capture_next(r, &view), 1);
	CHECK_EQ(view.bytes, bytes);
	CHECK_EQ(view.payload[bytes - 1], 42);
	CHECK_EQ(braid_capture_next(r, &view), 1);
	CHECK_EQ(view.bytes, 3);
	CHECK_EQ(braid_capture_next(r, &view), 1);
	CHECK_EQ(view.bytes, 0);
	CHECK_EQ(braid_capture_next(r, &view), 1);
	CHECK_EQ(view.type, BRAID_CHUNK_INDEX);
	CHECK_EQ(braid_capture_next(r, &view), 1);
	CHECK_EQ(view.type, BRAID_CHUNK_INDEX_BLOCKS);
	CHECK_EQ(braid_capture_next(r, &view), 1);
	CHECK_EQ(view.type, BRAID_CHUNK_FILE_END);
	CHECK_EQ(braid_capture_next(r, &view), 0);
	CHECK(!braid_capture_damage(r)->no_end);
	braid_capture_close(r);
	free(body);
}

/* A file full of forged headers is refused in finite time. */
static void forged_headers(void)
{
	struct braid_chunk_file got;
	struct braid_chunk_view view;
	struct braid_capture_reader *r;
	struct braid_capture_writer *w;
	struct braid_chunk forged = {
		.magic = BRAID_CHUNK_MAGIC, .type = 1, .payload_bytes = BRAID_CHUNK_MAX_BYTES,
	};
	static u8 body[1 << 20];
	u32 k;

	for (k = 0; k + sizeof(forged) <= sizeof(body); k += 16)
		memcpy(body + k, &forged, 16);
	NEED(!braid_capture_create(&w, path, &head));
	for (k = 0; k < 24; k++)
		CHECK_EQ(braid_capture_put(w, 100, 1, body, sizeof(body), NULL, 0), 0);
	CHECK_EQ(braid_capture_finish(w), 0);
	flip(sizeof(struct braid_chunk) + sizeof(head) + 24, 1);
	NEED(!braid_capture_open(&r, path, &got));
	while (braid_capture_next(r, &view) > 0)
		;
	CHECK_EQ(braid_capture_damage(r)->stretches, 1);
	braid_capture_close(r);
}

static void no_files(void)
{
	struct braid_capture_reader *r;
	struct braid_capture_writer *w;
	struct braid_chunk_file got;

	CHECK_EQ(braid_capture_open(&r, "/nonexistent/x", &got), -ENOENT);
	CHECK_EQ(braid_capture_open(&r, "/tmp", &got), -EBADMSG);
	CHECK_EQ(braid_capture_open(&r, "/dev/null", &got), -EBADMSG);
	CHECK_EQ(braid_capture_create(&w, "/nonexistent/x", &head), -ENOENT);
	CHECK(strstr(braid_failure(), "/nonexistent/x"));
}

/* A former capture exists until the new one replaces it; a start that fails keeps it. */
static void replaces_a_former_capture(void)
{
	struct braid_capture_writer *w;
	char part[80];
	struct stat st, former;

	snprintf(part, sizeof(part), "%s.part", path);
	write_chunks();
	NEED(!stat(path, &former));
	NEED(!braid_capture_create(&w, path, &head));
	CHECK(!stat(part, &st) && (st.st_mode & 0777) == 0600);
	braid_capture_abandon(w);
	CHECK(access(part, F_OK) && !stat(path, &st) && st.st_ino == former.st_ino);
	NEED(!braid_capture_create(&w, path, &head));
	CHECK(!stat(path, &st) && st.st_ino == former.st_ino && st.st_size == former.st_size);
	CHECK_EQ(braid_capture_publish(w), 0);
	CHECK(access(part, F_OK) && !stat(path, &st) && st.st_ino != former.st_ino);
	CHECK(st.st_size > 0);		/* its head is readable from now on */
	braid_capture_sync_at_end(w);
	CHECK_EQ(braid_capture_finish(w), 0);
	/* Or until it is renamed, not before the new one is there. */
	snprintf(part, sizeof(part), "%s.old", path);
	NEED(!stat(path, &former) && !braid_capture_create(&w, path, &head));
	braid_capture_keep_former(w);
	CHECK(!stat(path, &st) && st.st_ino == former.st_ino && access(part, F_OK));
	CHECK_EQ(braid_capture_finish(w), 0);
	CHECK(!stat(path, &st) && st.st_ino != former.st_ino);
	CHECK(!stat(part, &st) && st.st_ino == former.st_ino && !unlink(part));
}

/* A user who can create names in the folder can't redirect writes to another file. */
static void follows_no_link(void)
{
	char part[80], victim[80];
	struct braid_capture_writer *w;
	struct stat st;
	int fd;

	snprintf(part, sizeof(part), "%s.part", path);
	snprintf(victim, sizeof(victim), "%s.victim", path);
	fd = open(victim, O_CREAT | O_WRONLY, 0600);
	NEED(fd >= 0 && !close(fd));
	unlink(path);
	NEED(!symlink(victim, path));
	CHECK_EQ(braid_capture_create(&w, path, &head), -ELOOP);
	CHECK(strstr(braid_failure(), "symbolic link"));
	unlink(path);
	NEED(!symlink(victim, part));
	NEED(!braid_capture_create(&w, path, &head));
	CHECK_EQ(braid_capture_finish(w), 0);
	CHECK(!lstat(path, &st) && S_ISREG(st.st_mode));
	/* A file that replaces ours meanwhile is not renamed. */
	NEED(!braid_capture_create(&w, path, &head));
	NEED(!unlink(part) && !symlink(victim, part));
	CHECK_EQ(braid_capture_finish(w), -ESTALE);
	CHECK(!lstat(path, &st) && S_ISREG(st.st_mode));
	CHECK(!stat(victim, &st) && !st.st_size);
	unlink(part);
	unlink(victim);
}

/* As root, -o may name /dev/null. */
static void keeps_special_files(void)
{
	struct braid_capture_writer *w;
	char fifo[80];
	struct stat st;
	int fd;

	snprintf(fifo, sizeof(fifo), "%s.fifo", path);
	NEED(!mkfifo(fifo, 0600));
	CHECK_EQ(braid_capture_create(&w, fifo, &head), -ENXIO);
	fd = open(fifo, O_RDONLY | O_NONBLOCK);
	NEED(fd >= 0);
	NEED(!braid_capture_create(&w, fifo, &head));
	CHECK_EQ(braid_capture_finish(w), 0);
	NEED(!braid_capture_create(&w, fifo, &head));
	braid_capture_abandon(w);
	CHECK(!lstat(fifo, &st) && S_ISFIFO(st.st_mode));
	close(fd);
	unlink(fifo);
}

int main(void)
{
	snprintf(path, sizeof(path), "/tmp/braid-capture-%d", getpid());
	RUN(round_trip);
	RUN(load_again);
	RUN(reserve_flushes_first);
	RUN(truncated_anywhere);
	RUN(flip_anywhere);
	RUN(damaged_head);
	RUN(newer_version);
	RUN(full_disk);
	RUN(full_disk_in_buffer);
	RUN(large_chunks);
	RUN(forged_headers);
	RUN(no_files);
	RUN(replaces_a_former_capture);
	RUN(follows_no_link);
	RUN(keeps_special_files);
	unlink(path);
	return VERDICT();
}
