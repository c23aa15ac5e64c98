// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A guest for tests without a VM, until it is killed: live_region FILE NAME. SIGUSR1 makes it write
 * many events at once, SIGUSR2 no more at all; then it prints how many there were.
 * live_region FOLDER NAME NUMBER: so many guests, which rest: FOLDER/NAME1, ...
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/fake_guest.h"

#define BURST		400000u	/* events of each vCPU; of two, less than the service keeps */
#define POLL_US		2000u

int main(int argc, char **argv);

static int rest(const char *folder, const char *name, int nr)
{
	struct fake_guest **guests = calloc(nr, sizeof(struct fake_guest *));
	char path[256], one[64];
	struct fake_params params = {
		.name = one, .bytes = 256 << 10, .nr_vcpus = 1, .subbuf_bytes = 4096, .nr_slots = 8,
	};
	int k;

	for (k = 0; guests && k < nr; k++) {
		snprintf(one, sizeof(one), "%s%d", name, k + 1);
		snprintf(path, sizeof(path), "%s/%s", folder, one);
		guests[k] = fake_guest_new(path, &params);
	}
	puts("live");
	fflush(stdout);
	for (;; usleep(POLL_US))
		for (k = 0; guests && k < nr; k++)
			fake_guest_look(guests[k]);
	return 1;
}

static void write_now(struct fake_guest *g, u64 events)
{
	u64 until = g->ctl->burst + events;

	braid_store_release(&g->ctl->burst, until);
	while (braid_load_acquire(&g->ctl->burst_done) != until)
		usleep(POLL_US);
}

/* It still answers. The last event is written after the rate was set. */
static void end(struct fake_guest *g)
{
	u64 offered = 0;
	u32 k;

	g->p.rate = 0;
	write_now(g, 1);
	for (k = 0; k < g->p.nr_vcpus; k++)
		offered += braid_load(&g->ctl->offered[k]);
	printf("offered %llu\n", (unsigned long long)offered);
}

int main(int argc, char **argv)
{
	struct fake_params params = {
		.bytes = 4 << 20, .nr_vcpus = 2, .subbuf_bytes = 4096, .nr_slots = 64, .rate = 1000,
		.flags = BRAID_BUFFER_OVERWRITE, .always = true,
	};
	struct braid_schema_event enter = {
		.id = 77, .system = "raw_syscalls", .name = "sys_enter", .format = "",
	}, openat = {
		.id = 77, .number = 257, .system = "raw_syscalls", .name = "sys_enter_openat",
		.format = "", .flags = BRAID_EVENT_SUB,
	};
	struct fake_guest *g;
	sigset_t set;
	int number;

	if (argc == 4)
		return rest(argv[1], argv[2], atoi(argv[3]));
	if (argc != 3)
		return 1;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	params.name = argv[2];
	g = fake_guest_new(argv[1], &params);
	fake_guest_tell(g, &enter);
	fake_guest_tell(g, &openat);
	fake_guest_start_thread(g);
	puts("live");
	fflush(stdout);
	while (!sigwait(&set, &number)) {
		if (number == SIGUSR1)
			write_now(g, BURST);
		else
			end(g);
		fflush(stdout);
	}
	return 0;
}
