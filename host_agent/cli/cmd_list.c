// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid list: the regions that this machine has. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/cli/list.h"
#include "host_agent/clock_sync/kvm.h"
#include "host_agent/control/control.h"
#include "host_agent/discover/discover.h"
#include "host_agent/discover/whole_search.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

static const char *mode_name(const struct braid_buffer_desc *desc)
{
	return desc->flags & BRAID_BUFFER_OVERWRITE ? "overwrite" : "producer/consumer";
}

/* The other buffer whose events a buffer uses; NULL: its own, or none. */
static const char *events_of(const struct braid_found *f, u32 k)
{
	const struct braid_buffer_desc *desc = &f->sb.buffers[k];

	if (desc->flags & BRAID_BUFFER_RAW || desc->events_of == k)
		return NULL;
	return f->sb.buffers[desc->events_of].name;
}

static bool described(const struct braid_found *f)
{
	return f->state == BRAID_DRIVER_LIVE || f->state == BRAID_DRIVER_SILENT ||
	       f->state == BRAID_DRIVER_DOWN;
}

/* One buffer, on a line: name, mode, sub-buffers x bytes, fill. */
static void print_buffer(const struct braid_found *f, u32 k)
{
	const struct braid_buffer_desc *desc = &f->sb.buffers[k];

	printf("  %s %s%s %ux%u, %u.%u%% full", desc->name, mode_name(desc),
	       desc->flags & BRAID_BUFFER_RAW ? " raw" : "", desc->nr_slots + 1,
	       desc->subbuf_bytes, f->fill_permille[k] / 10, f->fill_permille[k] % 10);
	if (events_of(f, k))
		printf(", events of %s", events_of(f, k));
	putchar('\n');
}

#define NO_DRIVER	"no driver has used it yet; in the guest: modprobe tracebraid"
#define NO_MARK		"not marked yet, so no driver will use it: 'tracebraid create' marks it"

#define MOST_KERNEL	24

/* Why no more is known of a region. */
static const char *why_bare(const struct braid_found *f)
{
	if (f->state != BRAID_DRIVER_NONE)
		return f->why;
	return f->marked ? NO_DRIVER : NO_MARK;
}

static const char *shown_name(const struct braid_found *f)
{
	return *f->name ? f->name : "-";
}

static int format_events(char *to, size_t size, const struct braid_found *f)
{
	return snprintf(to, size, "%u/%u", f->events.on, f->events.total);
}

static const char *shown_state(const struct braid_found *f)
{
	return f->ended ? "ended" : braid_driver_state_name(f->state);
}

/*
 * The path is the row's last word, or has a line of its own; it is never broken, so that it can be
 * copied.
 */
static void print_path(const char *path, int at)
{
	printf("%s%s\n", at + 2 + strlen(path) > BRAID_COLUMNS ? "\n  " : "  ", path);
}

static void print_found(const struct braid_found *f, const struct braid_list_widths *w)
{
	bool known = described(f);
	char events[32], vcpus[16];
	int at = 0;
	u32 k;

	format_events(events, sizeof(events), f);
	snprintf(vcpus, sizeof(vcpus), "%u", f->sb.nr_vcpus);
	at = braid_list_cell(shown_name(f), w->name, at);
	at = braid_list_cell(shown_state(f), w->driver, at);
	at = braid_list_cell(known ? f->sb.kernel_release : "-", w->kernel, at);
	at += printf("%5s  %*s", known ? vcpus : "-", w->events, known ? events : "-");
	print_path(braid_cli_clean(f->path), at);
	if (!known) {
		printf("  ");
		braid_print_wrapped(why_bare(f), 2, 2);
	}
	for (k = 0; known && k < f->sb.nr_buffers; k++)
		if (f->sb.buffers[k].nr_rings)
			print_buffer(f, k);
}

/* What is left of a guest that died: it is read by its name, or by its path if that is all it has. */
static void print_ended(const struct braid_found *f)
{
	if (f->ended && !f->untrusted)
		fprintf(stderr, "tracebraid: %s: no running QEMU maps it; what its guest left: tracebraid recover '%s' -o FILE\n",
			braid_cli_clean(f->path), *f->name ? f->name : f->path);
}

/* Events of the host could not be assigned to the guest's vCPUs. */
static void print_unknown(const struct braid_found *f)
{
	struct braid_qemu_threads threads = { 0 };

	if (f->state != BRAID_DRIVER_LIVE)
		return;
	if (f->qemu_pid)
		braid_vcpu_threads(f->qemu_pid, &threads);
	if (!threads.nr && !threads.all)
		fprintf(stderr, "tracebraid: %s: %s\n", *f->name ? f->name : braid_cli_clean(f->path),
			BRAID_VCPUS_UNKNOWN);
}

static void cmd_list_widen(int *width, const char *text, int most)
{
	int n = strlen(text);

	*width = n > *width && n <= most ? n : *width;
}

static void print_table(const struct braid_found *found, size_t nr, const struct braid_vms *vms)
{
	struct braid_list_widths w = { 0 };
	char events[32];
	size_t k;

	cmd_list_widen(&w.name, "GUEST", BRAID_LIST_MOST_NAME);
	cmd_list_widen(&w.driver, "DRIVER", INT_MAX);
	cmd_list_widen(&w.kernel, "KERNEL", MOST_KERNEL);
	cmd_list_widen(&w.events, "EVENTS ON", INT_MAX);
	for (k = 0; k < nr; k++) {
		cmd_list_widen(&w.name, shown_name(&found[k]), BRAID_LIST_MOST_NAME);
		cmd_list_widen(&w.driver, shown_state(&found[k]), INT_MAX);
		if (!described(&found[k]))
			continue;
		cmd_list_widen(&w.kernel, found[k].sb.kernel_release, MOST_KERNEL);
		format_events(events, sizeof(events), &found[k]);
		cmd_list_widen(&w.events, events, INT_MAX);
	}
	for (k = 0; k < vms->nr; k++) {
		cmd_list_widen(&w.name, vms->items[k].name, BRAID_LIST_MOST_NAME);
		cmd_list_widen(&w.driver, braid_driver_state_name(BRAID_DRIVER_NONE), INT_MAX);
	}
	printf("%-*s  %-*s  %-*s  %5s  %*s  %s\n", w.name, "GUEST", w.driver, "DRIVER", w.kernel,
	       "KERNEL", "VCPUS", w.events, "EVENTS ON", "REGION");
	puts("  BUFFER MODE SUB-BUFFERSxBYTES, FILL");
	for (k = 0; k < nr; k++)
		print_found(&found[k], &w);
	for (k = 0; k < vms->nr; k++)
		braid_list_print_vm(&vms->items[k], &w);
	fflush(stdout);
	for (k = 0; k < nr; k++) {
		print_unknown(&found[k]);
		print_ended(&found[k]);
	}
}

static void json_buffers(struct braid_text *t, const struct braid_found *f)
{
	const char *between = "{";
	u32 k;

	braid_text_puts(t, ",\"buffers\":[");
	for (k = 0; k < f->sb.nr_buffers; k++) {
		const struct braid_buffer_desc *desc = &f->sb.buffers[k];

		if (!desc->nr_rings)
			continue;
		braid_text_puts(t, between);
		between = ",{";
		braid_text_member(t, "name", desc->name);
		braid_text_member(t, "mode", mode_name(desc));
		if (events_of(f, k))
			braid_text_member(t, "events_of", events_of(f, k));
		braid_text_printf(t, ",\"raw\":%s,\"rings\":%u,\"subbufs\":%u,\"subbuf_bytes\":%u,\"fill_permille\":%u}",
				  desc->flags & BRAID_BUFFER_RAW ? "true" : "false", desc->nr_rings, desc->nr_slots + 1,
				  desc->subbuf_bytes, f->fill_permille[k]);
	}
	braid_text_puts(t, "]");
}

static void json_found(struct braid_text *t, const struct braid_found *f,
		       const struct braid_domain *domain)
{
	braid_text_putc(t, '{');
	braid_text_member(t, "region", f->path);
	braid_text_member(t, "guest", f->name);
	if (f->qemu_pid)
		braid_text_printf(t, ",\"qemu_pid\":%d", (int)f->qemu_pid);
	if (domain)
		braid_list_json_domain(t, domain);
	if (described(f)) {
		braid_text_member(t, "kernel", f->sb.kernel_release);
		braid_text_member(t, "machine", f->sb.machine);
		braid_text_printf(t, ",\"vcpus\":%u,\"events_on\":%u,\"events\":%u",
				  f->sb.nr_vcpus, f->events.on, f->events.total);
		json_buffers(t, f);
	}
	if (f->state == BRAID_DRIVER_UNREADABLE)
		braid_text_member(t, "error", f->why);
	braid_text_member(t, "driver", shown_state(f));
	braid_text_putc(t, '}');
}

static int print_json(const struct braid_found *found, size_t nr,
		      const struct braid_domain *domains, size_t nr_domains,
		      const struct braid_vms *vms)
{
	struct braid_text t = { 0 };
	size_t k;
	int ret;

	braid_text_putc(&t, '[');
	for (k = 0; k < nr; k++) {
		if (k)
			braid_text_puts(&t, ",\n ");
		json_found(&t, &found[k], braid_list_domain_of(&found[k], domains, nr_domains));
	}
	braid_list_json_others(&t, domains, nr_domains, found, nr);
	braid_list_json_vms(&t, vms, t.bytes == 1);
	braid_text_puts(&t, "]\n");
	ret = t.failed ? -1 : 0;
	fwrite(t.data, 1, t.bytes, stdout);
	braid_text_free(&t);
	return ret;
}

static void print_hint(void)
{
	puts("No region found. To give a guest one:\n"
	     "  libvirt domain: tracebraid attach DOMAIN\n"
	     "  plain QEMU:     tracebraid create /dev/shm/guest1, which prints QEMU's options\n"
	     "Then load the driver in the guest: modprobe tracebraid");
}

/* Unreadable files may be regions. */
static void print_denied(size_t denied)
{
	if (denied && geteuid())
		fprintf(stderr, "tracebraid: %zu file%s could not be examined; run as root\n", denied,
			denied == 1 ? "" : "s");
}

/* The request, and the result. */
struct listing {
	struct braid_list_events how;
	bool events;			/* instead of regions */
	bool search;			/* each page of VMs' memory first */
	const char *uri;
	const char *const *paths;	/* NULL: all */
	size_t nr_paths;
	struct braid_named *named;	/* what the paths are of, and ... */
	const char **resolved;		/* ... the paths */
	struct braid_found *found;
	size_t nr;
	size_t denied;
	struct braid_domain *domains;
	size_t nr_domains;
	struct braid_vms vms;		/* without a region; none if regions are named */
};

/* As in trace-cmd: a word after -e that is not an option is the glob. */
static int cmd_list_take_events(const struct braid_option *o, void *to, const char *glob)
{
	struct listing *l = to;

	(void)o;
	l->events = true;
	l->how.glob = glob ? glob : l->how.glob;
	return glob ? braid_pattern_check(glob) : 0;
}

#define LIST	struct listing

static const struct braid_option options[] = {
	{ 'e', "events", "[GLOB]", .take = cmd_list_take_events, .help =
	  "list the guests' events instead, one SYSTEM:EVENT per line. GLOB, directly after -e: "
	  "only events that 'record -e GLOB' enables, or events of that name in any system",
	  .values = "@event" },
	{ 'v', "verbose", NULL, BRAID_FLAG(LIST, how.subevents),
	  "with -e: also list sub-events, such as system calls; without -v they are listed only if "
	  "nothing else matches" },
	{ 'j', "json", NULL, BRAID_FLAG(LIST, how.json),
	  "one JSON array; a domain is an element too. With -e: an element for each event of a "
	  "guest: whether it is on, its buffer and id" },
	{ 0, "search", NULL, BRAID_FLAG(LIST, search),
	  "first search each page of the memory of VMs in which no region is found, or of those "
	  "named as pid:PID: some VMMs have their guest's memory at an unusual address. Takes a "
	  "second or two for 4 GiB" },
	BRAID_OPTION_CONNECT(LIST, uri, ", if it answers"),
	{ 0 },
};

const struct braid_cli_command braid_command_list = {
	.name = "list", .summary = "list guests and their regions", .run = braid_cmd_list,
	.usage = "[-v] [--json] [--search] [-c URI] [REGION]...\n"
		 "-e [GLOB] [-v] [--json] [--search] [REGION]...",
	.text =
	"Shows the regions that guests share with this host: all in /dev/shm and all that running "
	"QEMU processes map, or only those named by a path, a file's name or a guest's name; and, if "
	"none is named, the VMs without a region, as \"no driver\". With "
	"libvirt, also shows its domains: whether they have a region now (attached) or from their "
	"next start on (configured), and which host threads run their vCPUs.\n"
	"A guest's driver is live, silent (the guest hangs or is paused), ended (no running QEMU "
	"maps the region: `tracebraid recover` reads it), down (unloaded), "
	"starting, or not loaded yet. A file whose owner's QEMU processes do not map it is listed "
	"but not opened further: it has no name, and can be used only by its path.",
	.options = options, .operands = "@region",
};

/* Replaces names by paths. */
static int resolve(struct listing *l)
{
	const char **paths;
	size_t k;
	int err;

	if (!l->paths)
		return 0;
	l->named = calloc(l->nr_paths, sizeof(*l->named));
	paths = calloc(l->nr_paths, sizeof(*paths));
	l->resolved = paths;
	if (!l->named || !paths)
		return braid_out_of_memory();
	for (k = 0; k < l->nr_paths; k++)
		l->named[k].word = l->paths[k];
	err = braid_resolve(l->named, l->nr_paths);
	for (k = 0; k < l->nr_paths; k++)
		paths[k] = l->named[k].path;
	l->paths = paths;
	return err;
}

static int cmd_list_step(void *arg, u64 done, u64 total)
{
	braid_progress_show(arg, BRAID_SEARCHING, done, total);
	return 0;
}

static int cmd_list_search(const struct listing *l)
{
	struct braid_progress progress;
	int err;

	braid_progress_begin(&progress);
	err = braid_whole_search(l->paths, l->nr_paths, cmd_list_step, &progress);
	braid_progress_end(&progress);
	return err;
}

/* A missing libvirt is an error only if it was requested. */
static int find_all(struct listing *l)
{
	int err = 0;

	if (l->uri || !l->paths)
		err = braid_domains_list(l->uri, &l->domains, &l->nr_domains);
	if (err && l->uri)
		return err;
	if (err == -ETIMEDOUT)
		fprintf(stderr, "tracebraid: continuing without libvirt: %s\n", braid_failure());
	err = braid_cli_confine(BRAID_CONFINE_INSPECT, NULL);
	if (!err && l->search)
		err = cmd_list_search(l);
	if (!err)
		err = resolve(l);
	if (!err)
		err = braid_discover(&l->found, &l->nr, l->paths, l->nr_paths,
				     l->events ? 0 : BRAID_DISCOVER_LIVENESS, &l->denied);
	if (!err)
		braid_list_name_regions(l->found, l->nr, l->domains, l->nr_domains);
	if (!err && !l->paths && !l->events)
		err = braid_list_find_vms(&l->vms, l->found, l->nr, l->domains, l->nr_domains);
	return err;
}

static void print_tables(const struct listing *l)
{
	bool any = l->nr || l->vms.nr;

	if (any)
		print_table(l->found, l->nr, &l->vms);
	if (any && l->nr_domains)
		putchar('\n');
	if (l->nr_domains)
		braid_list_print_domains(l->domains, l->nr_domains, l->found, l->nr);
	else if (!any)
		print_hint();
}

static void cmd_list_release(struct listing *l)
{
	free(l->found);
	free(l->domains);
	free(l->named);
	free(l->resolved);
	braid_vms_free(&l->vms);
}

int braid_cmd_list(int argc, char **argv)
{
	struct listing l = { 0 };
	bool failed = false;
	int ret = braid_options_parse(&braid_command_list, &l, argc, argv);
	size_t k;

	if (ret)
		return braid_options_exit(ret);
	l.paths = optind < argc ? (const char *const *)argv + optind : NULL;
	l.nr_paths = argc - optind;
	if (find_all(&l)) {
		cmd_list_release(&l);
		return braid_complain();
	}
	for (k = 0; k < l.nr; k++)
		failed |= l.paths && l.found[k].state == BRAID_DRIVER_UNREADABLE;
	if (l.events)
		failed |= braid_list_events(l.found, l.nr, &l.how) && braid_complain();
	else if (l.how.json)
		failed |= print_json(l.found, l.nr, l.domains, l.nr_domains, &l.vms) != 0;
	else
		print_tables(&l);
	if (fflush(stdout) || ferror(stdout))
		failed = true;
	if (!l.paths)
		print_denied(l.denied);
	cmd_list_release(&l);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
