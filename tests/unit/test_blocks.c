// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads through blocks give the file's bytes, also of one that grows, and make few system calls. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/capture/blocks.h"
#include "host_agent/util/io.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

#define FILE_BYTES	(1u << 20)
#define MOST_BYTES	(3u * BRAID_BLOCK_BYTES)

int main(void);

static u8 content[FILE_BYTES], got[MOST_BYTES];
static u64 random_state = 0x9e3779b97f4a7c15ULL;
static int fd;

static u32 any(u32 nr)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state >> 32) % nr;
}

static void set_size(u32 bytes)
{
	NEED(!ftruncate(fd, 0) && pwrite(fd, content, bytes, 0) == bytes);
}

/* One read, compared with the file, which has @there bytes. */
static void compare(struct braid_blocks *b, u32 there, u32 bytes, u64 offset)
{
	u32 expected = offset >= there ? 0 : bytes < there - offset ? bytes : there - offset;

	memset(got, 0xee, bytes);
	CHECK_EQ(braid_blocks_read(b, fd, got, bytes, offset), expected);
	CHECK(offset >= there || !memcmp(got, content + offset, expected));
}

static void reads_are_the_files_bytes(void)
{
	struct braid_blocks b = { 0 };
	u32 k;

	set_size(FILE_BYTES - 1000);
	for (k = 0; k < 3000; k++)
		compare(&b, FILE_BYTES - 1000, any(k % 10 ? 5000 : MOST_BYTES),
			any(k % 20 ? FILE_BYTES : 2 * FILE_BYTES));
	CHECK_EQ(braid_blocks_read(&b, -1, got, 100, 10u << 20), -EBADF);
	braid_blocks_free(&b);
}

/* What was read of the end may be less than there is now. */
static void a_file_may_grow(void)
{
	struct braid_blocks b = { 0 };
	u32 bytes, k;

	for (bytes = 1; bytes < FILE_BYTES; bytes += 1 + any(40000)) {
		set_size(bytes);
		for (k = 0; k < 20; k++)
			compare(&b, bytes, any(5000),
				any(4) ? bytes - any(bytes < 9000 ? bytes : 9000) : any(bytes));
	}
	braid_blocks_free(&b);
}

/* A block is read the second time that it is wanted; then the file is not looked at again. */
static void near_pieces_are_read_together(void)
{
	struct braid_blocks b = { 0 };
	u32 k;

	set_size(FILE_BYTES);
	compare(&b, FILE_BYTES, 100, 0);
	compare(&b, FILE_BYTES, 100, 200);
	NEED(!ftruncate(fd, 0));
	for (k = 0; k < 50; k++)
		compare(&b, FILE_BYTES, 100, any(BRAID_BLOCK_BYTES - 100));
	CHECK_EQ(braid_blocks_read(&b, fd, got, 100, BRAID_BLOCK_BYTES), 0);
	braid_blocks_free(&b);
}

int main(void)
{
	char path[] = "/tmp/test_blocks.XXXXXX";
	u32 k;

	fd = mkstemp(path);
	NEED(fd >= 0);
	unlink(path);
	for (k = 0; k < FILE_BYTES; k++)
		content[k] = any(256);
	RUN(reads_are_the_files_bytes);
	RUN(a_file_may_grow);
	RUN(near_pieces_are_read_together);
	close(fd);
	return VERDICT();
}
