// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Prints the layout and numbers of a mapped ring, ours or one of tracefs:
 *
 *   map_check TRACE_PIPE_RAW COMMAND        COMMAND records 16 events in the empty ring
 *   map_check TRACE_PIPE_RAW COMMAND pin    runs COMMAND while a pipe holds a page of the mapping
 *
 * Each line has a check's name and its result; together they cover the checks of Linux's own
 * selftest of mapped rings, and what uses the mapping's pages without a copy by the program.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/trace_mmap.h>

#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>

static void show_numbers(const char *when, const struct trace_buffer_meta *meta)
{
	printf("%s: entries %llu, overrun %llu, read %llu, lost %llu\n", when, meta->entries,
	       meta->overrun, meta->read, meta->reader.lost_events);
	printf("%s: reader %u\n", when, meta->reader.id);
}

static void get_reader(const char *when, int fd)
{
	int ret = ioctl(fd, TRACE_MMAP_IOCTL_GET_READER);

	printf("%s: GET_READER %s\n", when, ret ? strerror(errno) : "done");
}

static void try_map(const char *what, int fd, size_t bytes, int prot, int flags, size_t at)
{
	void *map = mmap(NULL, bytes, prot, flags, fd, at);

	printf("%s: %s\n", what, map == MAP_FAILED ? strerror(errno) : "mapped");
	if (map != MAP_FAILED)
		munmap(map, bytes);
}

/* The bytes after the struct, to the meta page's end. */
static void show_padding(const struct trace_buffer_meta *meta, size_t page)
{
	const uint8_t *bytes = (const uint8_t *)meta;
	size_t k, set = 0;

	for (k = meta->meta_struct_len; k < page; k++)
		set += bytes[k] != 0;
	printf("meta page: flags %llu, reserved %llu %llu, %zu bytes set after the struct\n",
	       meta->flags, meta->Reserved1, meta->Reserved2, set);
}

static void show_same(const char *what, ssize_t got, const void *copy, const void *map,
		      size_t bytes)
{
	printf("%s: %s\n", what, got < 0 ? strerror(errno) : (size_t)got < bytes ? "too little" :
	       memcmp(copy, map, bytes) ? "other bytes" : "the same bytes");
}

/* Puts the mapping's page itself into a pipe, and runs the command. */
static int pin(void *map, size_t page, const char *command, char *copy)
{
	struct iovec iov = { .iov_base = map, .iov_len = page };
	int ends[2];
	ssize_t got;

	if (pipe(ends))
		return 1;
	got = vmsplice(ends[1], &iov, 1, 0);
	if (got > 0 && command && system(command))
		return 1;
	if (got > 0)
		got = read(ends[0], copy, page);
	if (command)
		printf("pinned: %zd bytes\n", got);
	else
		show_same("vmsplice", got, copy, map, page);
	close(ends[0]);
	close(ends[1]);
	return 0;
}

static void show_uses(const char *which, void *map, size_t page)
{
	char copy[65536];
	struct iovec to = { .iov_base = copy, .iov_len = page };
	struct iovec from = { .iov_base = map, .iov_len = page };

	printf("%s, read by others\n", which);
	show_same("process_vm_readv", process_vm_readv(getpid(), &to, 1, &from, 1, 0), copy, map, page);
	memset(copy, 0, sizeof(copy));
	pin(map, page, NULL, copy);
}

int main(int argc, char **argv)
{
	static char held[65536];
	size_t page = getpagesize(), data_bytes, subbuf;
	const struct trace_buffer_meta *meta;
	void *data;
	int fd;

	if (argc < 3)
		return 2;
	setvbuf(stdout, NULL, _IONBF, 0);
	fd = open(argv[1], O_RDONLY | O_NONBLOCK);
	meta = fd < 0 ? MAP_FAILED : mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0);
	if (meta == MAP_FAILED) {
		perror(argv[1]);
		return 1;
	}
	if (argc > 3)
		return pin((void *)meta, page, argv[2], held);
	subbuf = meta->subbuf_size;
	data_bytes = subbuf * meta->nr_subbufs;
	printf("meta_page_size: %s\n", meta->meta_page_size == page ? "a page" : "another");
	printf("meta_struct_len: %u\n", meta->meta_struct_len);
	show_padding(meta, page);
	show_numbers("empty", meta);
	get_reader("empty", fd);
	show_numbers("still empty", meta);

	if (system(argv[2]))
		return 1;
	get_reader("16 events", fd);
	show_numbers("16 events", meta);
	get_reader("again", fd);
	show_numbers("again", meta);
	show_padding(meta, page);

	show_uses("meta page", (void *)meta, page);
	data = mmap(NULL, subbuf, PROT_READ, MAP_SHARED, fd,
		    meta->meta_page_size + meta->reader.id * subbuf);
	if (data == MAP_FAILED)
		return 1;
	show_uses("sub-buffer", data, page);
	munmap(data, subbuf);

	try_map("all data", fd, data_bytes, PROT_READ, MAP_SHARED, meta->meta_page_size);
	try_map("all but one", fd, data_bytes - subbuf, PROT_READ, MAP_SHARED, meta->meta_page_size);
	try_map("one too far", fd, data_bytes - subbuf, PROT_READ, MAP_SHARED,
		meta->meta_page_size + 2 * subbuf);
	try_map("one too many", fd, data_bytes + subbuf, PROT_READ, MAP_SHARED, meta->meta_page_size);
	try_map("after the end", fd, page, PROT_READ, MAP_SHARED, meta->meta_page_size + data_bytes);
	try_map("private", fd, page, PROT_READ, MAP_PRIVATE, 0);
	try_map("writable", fd, page, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
	try_map("executable", fd, page, PROT_READ | PROT_EXEC, MAP_SHARED, 0);
	munmap((void *)meta, meta->meta_page_size);
	close(fd);
	return 0;
}
