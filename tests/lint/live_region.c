// SPDX-License-Identifier: GPL-2.0-or-later
/* A guest for the examples of the man pages: live_region FILE NAME, until it is killed. */
#include <stdio.h>
#include <unistd.h>

#include "tests/unit/fake_guest.h"

int main(int argc, char **argv);

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

	if (argc != 3)
		return 1;
	params.name = argv[2];
	g = fake_guest_new(argv[1], &params);
	fake_guest_tell(g, &enter);
	fake_guest_tell(g, &openat);
	fake_guest_start_thread(g);
	puts("live");
	fflush(stdout);
	pause();
	return 0;
}
