// SPDX-License-Identifier: GPL-2.0-or-later
/* Regions at no usual place are found by a search of each present page, without a trace. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/transport/vm_search.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/own_memory.h"
#include "tests/unit/run_command.h"
#include "tests/unit/scratch.h"

#define NONCE	0x7071727374757677ULL
#define PAGE	((u64)BRAID_PAGE_BYTES)
#define STEP	((u64)BRAID_BEACON_STEP)

static const struct fake_params usual = {
	.name = "fake", .bytes = 3 * OWN_CHUNK_ROOM, .nr_vcpus = 2, .subbuf_bytes = 4096,
	.nr_slots = 16, .always = true, .flags = BRAID_BUFFER_OVERWRITE,
};

static struct fake_guest *guest;
static struct own_memory memory;
static char path[32];

static void begin(void)
{
	guest = fake_guest_new(scratch("one"), &usual);
	own_memory_begin_joined(&memory, guest, NONCE);
	snprintf(path, sizeof(path), "pid:%d", (int)memory.pid);
}

static void end(void)
{
	own_memory_end(&memory);
	fake_guest_free(guest);
}

struct steps {
	u32 nr, most;			/* 0: all */
	u64 done, total;
};

static int count_step(void *arg, u64 done, u64 total)
{
	struct steps *steps = arg;

	CHECK(done > steps->done && done <= total);
	steps->done = done;
	steps->total = total;
	return ++steps->nr == steps->most ? braid_fail(-EINTR, "enough") : 0;
}

/* Return: how many regions the usual search finds then. @most: steps, as in struct steps */
static u32 search(struct braid_vm_region *regions, u32 most)
{
	struct steps steps = { .most = most };
	struct braid_vm_search search;
	struct braid_vm_memory vm;

	NEED(!braid_vm_memory_open(&vm, memory.pid));
	CHECK_EQ(braid_vm_search_whole(&vm, count_step, &steps), most ? -EINTR : 0);
	CHECK(most ? steps.nr == most : steps.done == steps.total);
	CHECK(steps.total >= memory.before + memory.bytes);
	NEED(!braid_vm_search(&vm, regions, &search));
	braid_vm_memory_close(&vm);
	return search.nr_regions;
}

/* The guest has a file with pages of its memory in its page cache: copies of beacons. */
static void put_copies(void)
{
	/* Of chunk 0, before it; of chunk 1, at a usual place. */
	memcpy(memory.vm - PAGE, memory.vm + 2 * STEP, PAGE);
	memcpy(memory.vm + 4 * STEP - 2 * PAGE, memory.vm + STEP, PAGE);
}

static void finds_regions(void)
{
	struct braid_vm_region regions[BRAID_VM_REGIONS];
	u64 base;
	u32 k;

	begin();
	put_copies();
	CHECK_EQ(search(regions, 2), 0);
	NEED(search(regions, 0) == 1);
	CHECK_EQ(regions[0].nonce, NONCE);
	CHECK_EQ(regions[0].nr_chunks, 3);
	base = regions[0].chunks[2].at;		/* the last one is the first in memory */
	CHECK_EQ(base % STEP, 2 * PAGE);	/* the file and three pages before */
	for (k = 0; k < 3; k++)
		CHECK_EQ(regions[0].chunks[k].at, base + (2 - k) * STEP);
	end();
}

/* KiB that the process has in its tables. */
static u64 resident(void)
{
	char line[128], file[40];
	u64 kib = 0;
	FILE *f;

	snprintf(file, sizeof(file), "/proc/%d/smaps_rollup", (int)memory.pid);
	f = fopen(file, "re");
	while (f && fgets(line, sizeof(line), f) && sscanf(line, "Rss: %" SCNu64, &kib) != 1)
		;
	if (f)
		fclose(f);
	return kib;
}

static void reads_present_pages_only(void)
{
	struct braid_vm_region regions[BRAID_VM_REGIONS];
	u64 before;

	begin();
	own_memory_set_present(&memory, false);
	before = resident();
	NEED(before);
	CHECK_EQ(search(regions, 0), 0);
	CHECK_EQ(resident(), before);
	own_memory_set_present(&memory, true);
	CHECK(resident() > before);
	CHECK_EQ(search(regions, 0), 1);
	end();
}

static void list_searches(void)
{
	begin();
	CHECK_EQ(RUN_COMMAND(braid_cmd_list, "list", path), EXIT_SUCCESS);
	CHECK(strstr(printed, "no driver has used it yet"));
	CHECK_EQ(RUN_COMMAND(braid_cmd_list, "list", "--search", path), EXIT_SUCCESS);
	CHECK(strstr(printed, "silent") && strstr(printed, path));
	end();
}

static void record_searches(void)
{
	begin();
	CHECK_EQ(RUN_COMMAND(braid_cmd_record, "record", "-r", path, "-t", "0.1", "-o",
			     scratch("x.braid")), 3);
	CHECK(strstr(printed, "no driver was loaded"));
	fake_guest_start_thread(guest);
	CHECK_EQ(RUN_COMMAND(braid_cmd_record, "record", "--search", "-r", path, "-t", "0.3",
			     "-o", scratch("x.braid")), EXIT_SUCCESS);
	CHECK(!strstr(printed, "no driver") && strstr(printed, " events, 0 lost"));
	fake_guest_stop(guest);
	end();
}

/* A signal that comes before the search has ended. */
static void record_is_interrupted(void)
{
	sigset_t mask, before;
	int number;

	begin();
	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigprocmask(SIG_BLOCK, &mask, &before);
	raise(SIGINT);
	CHECK_EQ(RUN_COMMAND(braid_cmd_record, "record", "--search", "-r", path, "-o",
			     scratch("y.braid")), EXIT_FAILURE);
	CHECK(strstr(printed, "interrupted; nothing was recorded"));
	CHECK(access(scratch("y.braid"), F_OK));
	if (!sigpending(&mask) && sigismember(&mask, SIGINT))
		sigwait(&mask, &number);
	sigprocmask(SIG_SETMASK, &before, NULL);
	end();
}

int main(void)
{
	RUN(finds_regions);
	RUN(reads_present_pages_only);
	RUN(list_searches);
	RUN(record_searches);
	RUN(record_is_interrupted);
	return VERDICT();
}
