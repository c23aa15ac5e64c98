/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Recovers regions as the command does, and reads the capture. */
#ifndef BRAID_TESTS_RECOVERY_H
#define BRAID_TESTS_RECOVERY_H

#include "host_agent/live/region.h"

/* The result of a recovery. */
struct recovery {
	int err;
	size_t nr_regions;
	u64 unplaced;
	bool cut_off;
	u64 missing_pages;
	bool running;
	struct braid_region_status status;	/* of the last region */
	u64 events;		/* found in the capture */
	u64 faults;
	u32 notes;
	char last_note[256];
};

/*
 * Recovers the regions of a file or a dump into a capture. @folder: for a dump's conversion. Exits
 * the test if the sums do not add up.
 */
struct recovery recovery_run(const char *path, const char *capture, const char *folder);

#endif /* BRAID_TESTS_RECOVERY_H */
