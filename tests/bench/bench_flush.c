// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What writing a capture costs while it is recorded, as it is and packed: bench_flush CAPTURE OUT
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "host_agent/capture/flusher.h"
#include "host_agent/capture/packer.h"
#include "host_agent/util/io.h"
#include "tests/unit/need.h"

#define PIECE_BYTES	(64u << 10)	/* committed at a time */
#define ROUNDS		3

int main(int argc, char **argv);

static double cpu_seconds(int who)
{
	struct rusage usage;

	NEED(!getrusage(who, &usage));
	return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
	       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Return: MB for each second of CPU time, of both processes. */
static double rate(int from, const char *path, int level)
{
	double before = cpu_seconds(RUSAGE_CHILDREN) + cpu_seconds(RUSAGE_SELF);
	int to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct braid_flusher *flusher;
	u64 bytes = 0;
	ssize_t n;
	u8 *place;

	NEED(to >= 0 && !braid_flusher_start(&flusher, level, NULL));
	NEED(!braid_flusher_take(flusher, to));
	for (;;) {
		place = braid_flusher_place(flusher, PIECE_BYTES);
		NEED(place);
		n = braid_pread_all(from, place, PIECE_BYTES, bytes);
		NEED(n >= 0);
		if (!n)
			break;
		braid_flusher_commit(flusher, n);
		NEED(!braid_flusher_wake(flusher));
		bytes += n;
	}
	NEED(!braid_flusher_finish(flusher));
	braid_flusher_stop(flusher);
	close(to);
	return bytes / 1e6 / (cpu_seconds(RUSAGE_CHILDREN) + cpu_seconds(RUSAGE_SELF) - before);
}

static int compare(const void *a, const void *b)
{
	double one = *(const double *)a, two = *(const double *)b;

	return (one > two) - (one < two);
}

int main(int argc, char **argv)
{
	double plain[ROUNDS], packed[ROUNDS];
	int k, from;

	NEED(argc == 3);
	from = open(argv[1], O_RDONLY | O_CLOEXEC);
	NEED(from >= 0);
	for (k = 0; k < ROUNDS; k++) {
		plain[k] = rate(from, argv[2], 0);
		packed[k] = rate(from, argv[2], BRAID_PACKER_LEVEL);
	}
	qsort(plain, ROUNDS, sizeof(*plain), compare);
	qsort(packed, ROUNDS, sizeof(*packed), compare);
	printf("record_write_rate\t%.0f\tMB/s\n", plain[ROUNDS / 2]);
	printf("record_packed_rate\t%.0f\tMB/s\n", packed[ROUNDS / 2]);
	close(from);
	return EXIT_SUCCESS;
}
