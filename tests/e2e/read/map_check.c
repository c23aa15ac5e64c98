// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Prints the layout and numbers of a mapped ring, ours or one of tracefs:
 *
 *   map_check TRACE_PIPE_RAW COMMAND    COMMAND records 16 events in the empty ring
 *
 * Each line has a check's name and its result; together they cover the checks of Linux's own
 * selftest of mapped rings.
 */
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

int main(int argc, char **argv)
{
	size_t page = getpagesize(), data_bytes, subbuf;
	const struct trace_buffer_meta *meta;
	int fd;

	if (argc != 3)
		return 2;
	setvbuf(stdout, NULL, _IONBF, 0);
	fd = open(argv[1], O_RDONLY | O_NONBLOCK);
	meta = fd < 0 ? MAP_FAILED : mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0);
	if (meta == MAP_FAILED) {
		perror(argv[1]);
		return 1;
	}
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
