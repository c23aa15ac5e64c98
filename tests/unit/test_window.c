// SPDX-License-Identifier: GPL-2.0-or-later
/* The window's files: in order; of too many, the newest, and the rest is counted. */
#include <stdio.h>

#include "host_agent/serve/window.h"
#include "tests/unit/check.h"
#include "tests/unit/scratch.h"

static const char *folder;

static void make(u32 from, u32 to)
{
	char path[256];

	for (; from <= to; from++) {
		snprintf(path, sizeof(path), "%s/window-%u.braid", folder, from);
		write_file(path, "", 0);
	}
}

static void in_order(void)
{
	u32 numbers[BRAID_WINDOW_FILES], k;
	size_t left_out;

	folder = scratch(".");
	CHECK_EQ(braid_window_files(folder, numbers, &left_out), 0);
	make(1, BRAID_WINDOW_FILES);
	CHECK_EQ(braid_window_files(folder, numbers, &left_out), BRAID_WINDOW_FILES);
	CHECK_EQ(left_out, 0);
	for (k = 0; k < BRAID_WINDOW_FILES; k++)
		CHECK_EQ(numbers[k], k + 1);
	make(995, 1000);
	CHECK_EQ(braid_window_files(folder, numbers, &left_out), BRAID_WINDOW_FILES);
	CHECK_EQ(left_out, 6);
	CHECK_EQ(numbers[0], 7);
	CHECK_EQ(numbers[BRAID_WINDOW_FILES - 7], BRAID_WINDOW_FILES);
	for (k = 0; k < 6; k++)
		CHECK_EQ(numbers[BRAID_WINDOW_FILES - 6 + k], 995 + k);
}

int main(void)
{
	RUN(in_order);
	return VERDICT();
}
