// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid list: the regions that this machine has. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/discover/discover.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

static const char usage[] =
	"Usage: tracebraid list [--json] [REGION]...\n"
	"Shows the regions that guests share with this host: all in /dev/shm, and all that\n"
	"running QEMUs map; or those named.\n"
	"\n"
	"A guest's driver is live, silent (it hangs, is paused, or died), down (unloaded),\n"
	"starting, or not there.\n";

static const char *mode_name(const struct braid_buffer_desc *desc)
{
	return desc->flags & BRAID_BUFFER_OVERWRITE ? "overwrite" : "produce-consume";
}

static bool described(const struct braid_found *f)
{
	return f->state == BRAID_DRIVER_LIVE || f->state == BRAID_DRIVER_SILENT ||
	       f->state == BRAID_DRIVER_DOWN;
}

/* One buffer: name, mode, shape, fill. */
static void print_buffer(const struct braid_found *f, u32 k)
{
	const struct braid_buffer_desc *desc = &f->sb.buffers[k];

	printf("%s %s %ux%u, %u.%u%% full", desc->name, mode_name(desc), desc->nr_slots + 1,
	       desc->subbuf_bytes, f->fill_permille[k] / 10, f->fill_permille[k] % 10);
}

static void print_found(const struct braid_found *f, int path_width, int name_width)
{
	bool first = true;
	u32 k;

	printf("%-*s  %-*s  %-9s  ", path_width, f->path, name_width, f->name,
	       braid_driver_state_name(f->state));
	if (!described(f)) {
		printf("%s\n", f->why);
		return;
	}
	printf("%-20s  %5u  %5u/%-5u  ", f->sb.kernel_release, f->sb.nr_vcpus, f->events.on,
	       f->events.total);
	for (k = 0; k < f->sb.nr_buffers; k++) {
		if (!f->sb.buffers[k].nr_rings)
			continue;
		if (!first)
			printf("\n%*s", path_width + name_width + 60, "");
		first = false;
		print_buffer(f, k);
	}
	putchar('\n');
}

static void print_table(const struct braid_found *found, size_t nr)
{
	int path_width = strlen("REGION"), name_width = strlen("GUEST");
	size_t k;

	for (k = 0; k < nr; k++) {
		int path = strlen(found[k].path), name = strlen(found[k].name);

		path_width = path > path_width ? path : path_width;
		name_width = name > name_width ? name : name_width;
	}
	printf("%-*s  %-*s  %-9s  %-20s  %5s  %11s  %s\n", path_width, "REGION", name_width, "GUEST",
	       "DRIVER", "KERNEL", "VCPUS", "EVENTS ON  ", "BUFFERS (SUB-BUFFERS x BYTES)");
	for (k = 0; k < nr; k++)
		print_found(&found[k], path_width, name_width);
}

static void json_string(struct braid_text *t, const char *key, const char *value)
{
	braid_text_printf(t, "\"%s\":", key);
	braid_text_json(t, value, strlen(value));
	braid_text_putc(t, ',');
}

static void json_buffers(struct braid_text *t, const struct braid_found *f)
{
	bool first = true;
	u32 k;

	braid_text_puts(t, "\"buffers\":[");
	for (k = 0; k < f->sb.nr_buffers; k++) {
		const struct braid_buffer_desc *desc = &f->sb.buffers[k];

		if (!desc->nr_rings)
			continue;
		braid_text_puts(t, first ? "{" : ",{");
		first = false;
		json_string(t, "name", desc->name);
		json_string(t, "mode", mode_name(desc));
		braid_text_printf(t, "\"rings\":%u,\"subbufs\":%u,\"subbuf_bytes\":%u,\"fill_permille\":%u}",
				  desc->nr_rings, desc->nr_slots + 1, desc->subbuf_bytes,
				  f->fill_permille[k]);
	}
	braid_text_puts(t, "]");
}

static void json_found(struct braid_text *t, const struct braid_found *f)
{
	braid_text_putc(t, '{');
	json_string(t, "region", f->path);
	json_string(t, "guest", f->name);
	if (f->qemu_pid)
		braid_text_printf(t, "\"qemu_pid\":%d,", (int)f->qemu_pid);
	if (described(f)) {
		json_string(t, "kernel", f->sb.kernel_release);
		json_string(t, "machine", f->sb.machine);
		braid_text_printf(t, "\"vcpus\":%u,\"events_on\":%u,\"events\":%u,",
				  f->sb.nr_vcpus, f->events.on, f->events.total);
		json_buffers(t, f);
		braid_text_putc(t, ',');
	}
	if (*f->why)
		json_string(t, "error", f->why);
	braid_text_puts(t, "\"driver\":");
	braid_text_json(t, braid_driver_state_name(f->state),
			strlen(braid_driver_state_name(f->state)));
	braid_text_putc(t, '}');
}

static int print_json(const struct braid_found *found, size_t nr)
{
	struct braid_text t = { 0 };
	size_t k;
	int ret;

	braid_text_putc(&t, '[');
	for (k = 0; k < nr; k++) {
		if (k)
			braid_text_puts(&t, ",\n ");
		json_found(&t, &found[k]);
	}
	braid_text_puts(&t, "]\n");
	ret = t.failed ? -1 : 0;
	fwrite(t.data, 1, t.bytes, stdout);
	braid_text_free(&t);
	return ret;
}

static void print_hint(void)
{
	if (geteuid())
		puts("Not root: regions that belong to others are not seen.");
	puts("No region found.\n"
	     "Give a guest one: start its QEMU with\n"
	     "  -object memory-backend-file,id=shm,mem-path=/dev/shm/guest1,size=16M,share=on\n"
	     "  -device ivshmem-plain,memdev=shm\n"
	     "and load tracebraid.ko in it.");
}

int braid_cmd_list(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	braid_auto_free struct braid_found *found = NULL;
	bool json = false, failed = false;
	size_t nr, k;
	int c;

	optind = 1;
	opterr = 0;
	while ((c = getopt_long(argc, argv, "jh", options, NULL)) != -1) {
		if (c == 'h') {
			fputs(usage, stdout);
			return EXIT_SUCCESS;
		}
		if (c != 'j')
			return braid_complain_option("list", argv[optind - 1]);
		json = true;
	}
	if (braid_discover(&found, &nr, optind < argc ? (const char *const *)argv + optind : NULL,
			   argc - optind, BRAID_DISCOVER_LIVENESS))
		return braid_complain();
	for (k = 0; k < nr; k++)
		failed |= optind < argc && found[k].state == BRAID_DRIVER_UNREADABLE;
	if (json)
		failed |= print_json(found, nr) != 0;
	else if (nr)
		print_table(found, nr);
	else
		print_hint();
	if (fflush(stdout) || ferror(stdout))
		failed = true;
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
