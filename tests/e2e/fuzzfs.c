// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Simulates a misbehaving user: opens, reads, writes, seeks and maps every file below a folder, in
 * ways that the kernel may not expect. Every call must return; its result does not matter.
 *
 * Of a hundred files 99 are those of events and their systems, which all have the same code, and to
 * enable a system takes an emulated kernel a second: of these it tries a random part, another one
 * in each round.
 *
 * usage: fuzzfs DIR ROUNDS SEED     tries all files ROUNDS times
 *        fuzzfs --hold DIR FLAG     opens all files, creates the file FLAG, and once FLAG is
 *                                   removed uses them: their events may be gone by then
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_FILES	8192
#define MAX_HELD	900
#define EVENT_PART	8	/* one of so many files of events and systems */
#define BIG_BYTES	(1u << 20)

static char *paths[MAX_FILES];
static int nr_paths;
static unsigned long state, done;
static char *big;

static unsigned long next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Whether it is ".../events/SYSTEM/...". */
static bool is_of_events(const char *path)
{
	const char *rest = strstr(path, "/events/");

	return rest && strchr(rest + strlen("/events/"), '/');
}

static int note(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)ftw;
	if (is_of_events(path) && next_random() % EVENT_PART)
		return 0;
	if (type == FTW_F && nr_paths < MAX_FILES)
		paths[nr_paths++] = strdup(path);
	return 0;
}

static void find_files(const char *dir)
{
	while (nr_paths)
		free(paths[--nr_paths]);
	nftw(dir, note, 16, FTW_PHYS);
}

static off_t odd_offset(void)
{
	static const off_t offsets[] = {
		0, 1, 7, 4095, 4096, 65537, INT32_MAX, UINT32_MAX, INT64_MAX - 4096, INT64_MAX, -1,
	};

	return offsets[next_random() % (sizeof(offsets) / sizeof(offsets[0]))];
}

static size_t odd_size(void)
{
	static const size_t sizes[] = { 0, 1, 2, 3, 7, 15, 16, 31, 63, 64, 255, 4095, 4096, 4097, BIG_BYTES };

	return sizes[next_random() % (sizeof(sizes) / sizeof(sizes[0]))];
}

/* Text that a file accepts or almost accepts, or arbitrary bytes. */
static void write_something(int fd)
{
	static const char * const words[] = {
		"0", "1", "0\n", "1\n", "2", "-1", "", "\n", "y", "N", "on", "0x", "1 2 3", "64", "4", "18446744073709551615",
		"18014398509481984", "99999999999999999999999", "overwrite", "consume", "absolute",
		"delta\n", "latency", "raw", "hex", "nooverwrite", "storm:storm", "*:*", "%s%n%p", "trace",
	};
	unsigned long k, r = next_random();
	const char *word = words[r % (sizeof(words) / sizeof(words[0]))];
	size_t bytes = strlen(word);
	ssize_t n;

	switch (r >> 60) {
	case 0:
		n = write(fd, (void *)8, odd_size());
		break;
	case 1:
		bytes = odd_size();
		for (k = 0; k < bytes && k < 4096; k++)
			big[k] = next_random();
		n = write(fd, big, bytes);
		break;
	case 2:
		n = pwrite(fd, word, bytes, odd_offset());
		break;
	case 3:
		memset(big, '1', BIG_BYTES);
		n = write(fd, big, odd_size());
		break;
	default:
		n = write(fd, word, bytes);
	}
	done += n > 0;
}

static void read_something(int fd)
{
	ssize_t n;

	switch (next_random() % 4) {
	case 0:
		n = pread(fd, big, odd_size(), odd_offset());
		break;
	case 1:
		lseek(fd, odd_offset(), next_random() % 4);
		n = read(fd, big, odd_size());
		break;
	case 2:
		n = read(fd, (void *)8, odd_size());
		break;
	default:
		n = read(fd, big, odd_size());
	}
	done += n > 0;
}

static void use(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT };
	void *map;
	int k;

	for (k = 0; k < 4; k++)
		read_something(fd);
	for (k = 0; k < 4; k++)
		write_something(fd);
	poll(&p, 1, 0);
	ioctl(fd, (unsigned int)next_random(), next_random());
	map = mmap(NULL, odd_size(), PROT_READ | (next_random() & 1 ? PROT_WRITE : 0),
		   next_random() & 1 ? MAP_SHARED : MAP_PRIVATE, fd,
		   next_random() % 4 ? 0 : odd_offset() & ~4095L);
	if (map != MAP_FAILED)
		munmap(map, 1);
	ftruncate(fd, odd_offset()) ? errno = 0 : 0;
}

static int open_somehow(const char *path)
{
	static const int ways[] = { O_RDWR, O_RDONLY, O_WRONLY, O_RDWR | O_TRUNC, O_WRONLY | O_APPEND };

	return open(path, ways[next_random() % 5] | O_NONBLOCK | O_CLOEXEC);
}

static int hold(const char *dir, const char *flag)
{
	int fds[MAX_HELD], nr = 0, k;

	find_files(dir);
	for (k = 0; k < nr_paths && nr < MAX_HELD; k++) {
		fds[nr] = open(paths[k], O_RDWR | O_NONBLOCK);
		if (fds[nr] < 0)
			fds[nr] = open(paths[k], O_RDONLY | O_NONBLOCK);
		if (fds[nr] >= 0)
			nr++;
	}
	printf("%d held\n", nr);
	fflush(stdout);
	close(open(flag, O_CREAT | O_WRONLY, 0600));
	while (!access(flag, F_OK))
		usleep(1000);
	for (k = 0; k < nr; k++) {
		use(fds[k]);
		close(fds[k]);
	}
	return 0;
}

int main(int argc, char **argv)
{
	unsigned long rounds, round;
	int k, fd;

	if (argc != 4) {
		fprintf(stderr, "usage: fuzzfs DIR ROUNDS SEED | fuzzfs --hold DIR FLAG\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	big = malloc(BIG_BYTES);
	state = 88172645463325252UL;
	if (!strcmp(argv[1], "--hold"))
		return hold(argv[2], argv[3]);
	rounds = strtoul(argv[2], NULL, 0);
	state += strtoul(argv[3], NULL, 0);
	for (round = 0; round < rounds; round++) {
		find_files(argv[1]);
		for (k = 0; k < nr_paths; k++) {
			fd = open_somehow(paths[next_random() % nr_paths]);
			if (fd < 0)
				continue;
			use(fd);
			close(fd);
		}
	}
	printf("%lu reads and writes succeeded\n", done);
	return !done;
}
