// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid list: the regions that this machine has. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/cli/list.h"
#include "host_agent/discover/discover.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

static const char usage[] =
	"Usage: tracebraid list [-v] [--json] [-c URI] [REGION]...\n"
	"Shows the regions that guests share with this host: all in /dev/shm, and all that\n"
	"running QEMUs map; or those named. Where there is libvirt, its domains too: whether they\n"
	"have a region now (attached) or from their next start on (configured), and which\n"
	"threads of this host run their vCPUs.\n"
	"\n"
	"A guest's driver is live, silent (it hangs, is paused, or died), down (unloaded),\n"
	"starting, or not there.\n"
	"\n"
	"  -v, --verbose       also the sub-events that events are split into\n"
	"      --json          one JSON array, sub-events included; a domain is an element too\n"
	"  -c, --connect URI   libvirt's; default: $LIBVIRT_DEFAULT_URI or qemu:///system, if it\n"
	"                      answers\n"
	"      --help          this text\n";

static const char *mode_name(const struct braid_buffer_desc *desc)
{
	return desc->flags & BRAID_BUFFER_OVERWRITE ? "overwrite" : "produce-consume";
}

/* The buffer whose events a buffer takes, if that is another one; NULL: its own, or none. */
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

/* One buffer: name, mode, shape, fill. */
static void print_buffer(const struct braid_found *f, u32 k)
{
	const struct braid_buffer_desc *desc = &f->sb.buffers[k];

	printf("%s %s%s %ux%u, %u.%u%% full", desc->name, mode_name(desc),
	       desc->flags & BRAID_BUFFER_RAW ? " raw" : "", desc->nr_slots + 1,
	       desc->subbuf_bytes, f->fill_permille[k] / 10, f->fill_permille[k] % 10);
	if (events_of(f, k))
		printf(", events of %s", events_of(f, k));
}

/* Told of each living sub-event of a region; strings are tame. */
typedef void (*subevent_fn)(void *arg, const char *event, const char *name, u32 number);

/* An event of a directory, to be found by its buffer and id. */
struct event_name {
	u32 key;
	u32 order;		/* in the directory: the last one counts */
	const char *system, *name;
};

static u32 event_key(const struct braid_schema_event *event)
{
	return (u32)event->buffer << 16 | event->id;
}

static int by_key(const void *a, const void *b)
{
	const struct event_name *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* All living events, by key; false: out of memory. */
static bool name_events(const struct braid_directory_copy *copy, struct event_name **names,
			size_t *nr)
{
	struct braid_schema_event event;
	size_t capacity = 0;
	u32 at = 0;

	while (braid_schema_next(copy->data, copy->bytes, &at, &event) > 0) {
		struct event_name name = { event_key(&event), *nr, event.system, event.name };

		if (event.flags & (BRAID_EVENT_SUB | BRAID_EVENT_GONE))
			continue;
		if (braid_array_push(*names, *nr, capacity, name))
			return false;
	}
	if (*nr)
		qsort(*names, *nr, sizeof(**names), by_key);
	return true;
}

/* "system:name" of a sub-event's event, in @to. */
static void put_event_name(const struct event_name *names, size_t nr,
			   const struct braid_schema_event *sub, char *to, size_t room)
{
	u32 key = event_key(sub);
	size_t from = 0, end = nr;

	while (from < end) {	/* the first one behind the key */
		size_t middle = from + (end - from) / 2;

		if (names[middle].key > key)
			end = middle;
		else
			from = middle + 1;
	}
	if (from && names[from - 1].key == key)
		snprintf(to, room, "%s:%s", names[from - 1].system, names[from - 1].name);
	else
		snprintf(to, room, "%u", sub->id);
	braid_text_clean(to);
}

static void each_subevent(const struct braid_found *f, subevent_fn fn, void *arg)
{
	struct braid_directory_copy copy = { 0 };
	struct event_name *names = NULL;
	struct braid_mapping *m = NULL;
	struct braid_schema_event sub;
	char event[256], name[128];
	size_t nr = 0;
	u32 at = 0;

	if (!f->events.subevents || braid_mapping_open_again(&m, f->path, &f->sb))
		return;
	if (braid_directory_load(&copy, m, &f->sb, 0) || !name_events(&copy, &names, &nr))
		copy.bytes = 0;
	while (braid_schema_next(copy.data, copy.bytes, &at, &sub) > 0) {
		if (!(sub.flags & BRAID_EVENT_SUB) || sub.flags & BRAID_EVENT_GONE)
			continue;
		put_event_name(names, nr, &sub, event, sizeof(event));
		snprintf(name, sizeof(name), "%s", sub.name);
		braid_text_clean(name);
		fn(arg, event, name, sub.number);
	}
	free(names);
	braid_directory_free(&copy);
	braid_mapping_close(m);
}

static void print_subevent(void *arg, const char *event, const char *name, u32 number)
{
	(void)arg;
	printf("  %s %u is %s\n", event, number, name);
}

static void print_found(const struct braid_found *f, int path_width, int name_width, bool verbose)
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
	if (verbose)
		each_subevent(f, print_subevent, NULL);
}

static void print_table(const struct braid_found *found, size_t nr, bool verbose)
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
		print_found(&found[k], path_width, name_width, verbose);
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
		if (events_of(f, k))
			json_string(t, "events_of", events_of(f, k));
		braid_text_printf(t, "\"raw\":%s,", desc->flags & BRAID_BUFFER_RAW ? "true" : "false");
		braid_text_printf(t, "\"rings\":%u,\"subbufs\":%u,\"subbuf_bytes\":%u,\"fill_permille\":%u}",
				  desc->nr_rings, desc->nr_slots + 1, desc->subbuf_bytes,
				  f->fill_permille[k]);
	}
	braid_text_puts(t, "]");
}

struct json_list {
	struct braid_text *t;
	bool any;
};

static void json_subevent(void *arg, const char *event, const char *name, u32 number)
{
	struct json_list *list = arg;

	braid_text_puts(list->t, list->any ? ",{" : "{");
	list->any = true;
	json_string(list->t, "event", event);
	json_string(list->t, "name", name);
	braid_text_printf(list->t, "\"number\":%u}", number);
}

static void json_found(struct braid_text *t, const struct braid_found *f,
		       const struct braid_domain *domain)
{
	struct json_list list = { .t = t };

	braid_text_putc(t, '{');
	json_string(t, "region", f->path);
	json_string(t, "guest", f->name);
	if (f->qemu_pid)
		braid_text_printf(t, "\"qemu_pid\":%d,", (int)f->qemu_pid);
	if (domain)
		braid_list_json_domain(t, domain);
	if (described(f)) {
		json_string(t, "kernel", f->sb.kernel_release);
		json_string(t, "machine", f->sb.machine);
		braid_text_printf(t, "\"vcpus\":%u,\"events_on\":%u,\"events\":%u,",
				  f->sb.nr_vcpus, f->events.on, f->events.total);
		json_buffers(t, f);
		braid_text_puts(t, ",\"subevents\":[");
		each_subevent(f, json_subevent, &list);
		braid_text_puts(t, "],");
	}
	if (*f->why)
		json_string(t, "error", f->why);
	braid_text_puts(t, "\"driver\":");
	braid_text_json(t, braid_driver_state_name(f->state),
			strlen(braid_driver_state_name(f->state)));
	braid_text_putc(t, '}');
}

static int print_json(const struct braid_found *found, size_t nr,
		      const struct braid_domain *domains, size_t nr_domains)
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
	braid_text_puts(&t, "]\n");
	ret = t.failed ? -1 : 0;
	fwrite(t.data, 1, t.bytes, stdout);
	braid_text_free(&t);
	return ret;
}

static void print_hint(void)
{
	puts("No region found.\n"
	     "Give a guest one: start its QEMU with\n"
	     "  -object memory-backend-file,id=shm,mem-path=/dev/shm/guest1,size=16M,share=on\n"
	     "  -device ivshmem-plain,memdev=shm\n"
	     "and load tracebraid.ko in it. A domain of libvirt: tracebraid attach DOMAIN");
}

/* What this user may not read could be a region. */
static void tell_denied(size_t denied)
{
	if (denied && geteuid())
		fprintf(stderr, "tracebraid: not root: %zu file%s could not be looked at\n", denied,
			denied == 1 ? "" : "s");
}

/* What was asked for, and what there is. */
struct listing {
	bool json;
	bool verbose;
	const char *uri;
	const char *const *paths;	/* NULL: all */
	size_t nr_paths;
	struct braid_found *found;
	size_t nr;
	size_t denied;
	struct braid_domain *domains;
	size_t nr_domains;
};

/* 0, 1 when help was printed, or -EINVAL when an option is not understood. */
static int parse(struct listing *l, int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "connect", required_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c;

	optind = 1;
	opterr = 0;
	while ((c = getopt_long(argc, argv, "jvc:h", options, NULL)) != -1) {
		if (c == 'h') {
			fputs(usage, stdout);
			return 1;
		}
		if (c != 'j' && c != 'v' && c != 'c')
			return -EINVAL;
		l->json |= c == 'j';
		l->verbose |= c == 'v';
		if (c == 'c')
			l->uri = optarg;
	}
	l->paths = optind < argc ? (const char *const *)argv + optind : NULL;
	l->nr_paths = argc - optind;
	return 0;
}

/* No libvirt is no error, unless it was asked for. */
static int find_all(struct listing *l)
{
	int err = 0;

	if (l->uri || !l->paths)
		err = braid_domains_list(l->uri, &l->domains, &l->nr_domains);
	if (err && l->uri)
		return err;
	if (err == -ETIMEDOUT)
		fprintf(stderr, "tracebraid: going on without libvirt: %s\n", braid_failure());
	err = braid_cli_confine(BRAID_CONFINE_READ, NULL);
	if (!err)
		err = braid_discover(&l->found, &l->nr, l->paths, l->nr_paths,
				     BRAID_DISCOVER_LIVENESS, &l->denied);
	if (!err)
		braid_list_name_regions(l->found, l->nr, l->domains, l->nr_domains);
	return err;
}

static void print_tables(const struct listing *l)
{
	if (l->nr)
		print_table(l->found, l->nr, l->verbose);
	if (l->nr && l->nr_domains)
		putchar('\n');
	if (l->nr_domains)
		braid_list_print_domains(l->domains, l->nr_domains, l->found, l->nr);
	else if (!l->nr)
		print_hint();
}

int braid_cmd_list(int argc, char **argv)
{
	struct listing l = { 0 };
	bool failed = false;
	int ret = parse(&l, argc, argv);
	size_t k;

	if (ret)
		return ret > 0 ? EXIT_SUCCESS : braid_complain_option("list", argv[optind - 1]);
	if (find_all(&l)) {
		free(l.domains);
		return braid_complain();
	}
	for (k = 0; k < l.nr; k++)
		failed |= l.paths && l.found[k].state == BRAID_DRIVER_UNREADABLE;
	if (l.json)
		failed |= print_json(l.found, l.nr, l.domains, l.nr_domains) != 0;
	else
		print_tables(&l);
	if (fflush(stdout) || ferror(stdout))
		failed = true;
	if (!l.paths)
		tell_denied(l.denied);
	free(l.found);
	free(l.domains);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
