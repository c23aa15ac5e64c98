// SPDX-License-Identifier: GPL-2.0-or-later
/* Enables the host's events, and records the texts needed to print them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "host_agent/discover/discover.h"
#include "host_agent/live/tracefs_private.h"
#include "host_agent/live/tracefs_quota.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"

#define ZSTD_LEVEL	3

int braid_host_tracefs(const char **root)
{
	if (!braid_pids_of_host())
		return braid_fail(-EXDEV, "the host cannot be recorded from another PID namespace: processes have other numbers there; run this in the host's (a container: --pid=host)");
	*root = tracefs_tracing_dir();
	if (!*root)
		return braid_fail(-ENOENT, "the host cannot be recorded: tracefs is not mounted (mount -t tracefs nodev /sys/kernel/tracing)");
	/* access() ignores the capabilities of a process that is not root. */
	if (faccessat(AT_FDCWD, *root, R_OK | W_OK | X_OK, AT_EACCESS))
		return braid_fail(-EACCES, "the host cannot be recorded: no permission for %s; run as root",
				  *root);
	return 0;
}

/* Texts ---------------------------------------------------------------------------------- */

int braid_host_emit(struct braid_tracefs_source *s, u16 type, const void *head, u32 head_bytes,
		    const void *body, u32 body_bytes)
{
	return braid_capture_put(s->o.sink->capture, type, s->stream, head, head_bytes, body,
				 body_bytes);
}

u32 braid_host_subbuf_bytes(const char *header_page)
{
	const char *data = strstr(header_page, "char data;");
	unsigned int offset, size;

	if (!data || sscanf(data, "char data; offset:%u; size:%u;", &offset, &size) != 2)
		return 0;
	return offset == BRAID_SUBBUF_HEADER_BYTES && size && size <= 1u << 20 ? offset + size : 0;
}

static int tracefs_text_put_text(struct braid_tracefs_source *s, enum braid_text_kind kind,
				 const char *name,
				 const void *text, size_t bytes, size_t raw_bytes)
{
	struct braid_chunk_text head = { .kind = kind, .raw_bytes = raw_bytes };

	if (bytes > BRAID_CHUNK_MAX_BYTES - sizeof(head) || raw_bytes > ~0u)
		return 0;	/* no real text is that long */
	strncpy(head.name, name, sizeof(head.name) - 1);
	return braid_host_emit(s, BRAID_CHUNK_TEXT, &head, sizeof(head), text, bytes);
}

/*
 * Without permission all are 0; with it those of per-CPU variables are, which come first before
 * Linux 6.15.
 */
static bool shows_addresses(const char *kallsyms)
{
	static const char hidden[] = "0000000000000000 ";

	while (kallsyms && !strncmp(kallsyms, hidden, strlen(hidden))) {
		kallsyms = strchr(kallsyms, '\n');
		kallsyms += !!kallsyms;
	}
	return kallsyms && *kallsyms;
}

/* Addresses without names are less useful, but the capture is still valid. */
static int put_kallsyms(struct braid_tracefs_source *s)
{
	braid_auto_free char *packed = NULL;
	braid_auto_free char *text = NULL;
	size_t bytes, allocated, n;

	text = braid_host_read_file("/proc/kallsyms", &bytes);
	if (!text || !shows_addresses(text))
		return 0;	/* not shown to this user */
	allocated = ZSTD_compressBound(bytes);
	packed = malloc(allocated);
	if (!packed)
		return 0;
	n = ZSTD_compress(packed, allocated, text, bytes, ZSTD_LEVEL);
	return ZSTD_isError(n) ? 0 : tracefs_text_put_text(s, BRAID_TEXT_KALLSYMS, "", packed, n, bytes);
}

int braid_host_put_texts(struct braid_tracefs_source *s)
{
	static const struct {
		const char *file;
		enum braid_text_kind kind;
	} files[] = {
		{ "events/header_page", BRAID_TEXT_HEADER_PAGE },
		{ "printk_formats", BRAID_TEXT_PRINTK },
	};
	size_t k;
	int err;

	for (k = 0; k < sizeof(files) / sizeof(*files); k++) {
		int bytes = 0;
		char *text = tracefs_instance_file_read(NULL, files[k].file, &bytes);

		err = text ? tracefs_text_put_text(s, files[k].kind, "", text, bytes, bytes) : 0;
		free(text);
		if (err)
			return err;
	}
	return s->o.brief ? 0 : put_kallsyms(s);
}

/* Enabling ------------------------------------------------------------------------------ */

/* An agent's probes: while another agent has them enabled, they could not be removed. */
static bool is_of_agents(const char *system)
{
	return !strncmp(system, BRAID_QUOTA_SYSTEM, strlen(BRAID_QUOTA_SYSTEM)) ||
	       !strncmp(system, BRAID_PACKETS_SYSTEM, strlen(BRAID_PACKETS_SYSTEM));
}

typedef int (*event_fn)(void *arg, const char *system, const char *event);

static bool is_wanted(const struct braid_pattern *patterns, size_t nr, const char *system,
		      const char *event)
{
	size_t k;

	for (k = 0; k < nr; k++)
		if (braid_pattern_matches(&patterns[k], system, event))
			return true;
	return !patterns;
}

/*
 * Calls @fn for each event of the kernel that a pattern matches, NULL: for all, until it returns
 * non-zero.
 */
static int for_each_event(const struct braid_pattern *patterns, size_t nr, event_fn fn, void *arg)
{
	char **systems = tracefs_event_systems(NULL), **events;
	int i, j, ret = 0;

	for (i = 0; systems && systems[i] && !ret; i++) {
		if (!strcmp(systems[i], "ftrace") || is_of_agents(systems[i]))
			continue;	/* what they describe is not switched as events are */
		events = tracefs_system_events(NULL, systems[i]);
		for (j = 0; events && events[j] && !ret; j++)
			if (is_wanted(patterns, nr, systems[i], events[j]))
				ret = fn(arg, systems[i], events[j]);
		tracefs_list_free(events);
	}
	tracefs_list_free(systems);
	return ret;
}

struct enabling {
	struct braid_tracefs_source *s;
	bool formats_only;	/* they are enabled already */
	u32 enabled;
};

static int enable_one(void *arg, const char *system, const char *event)
{
	struct enabling *e = arg;
	int bytes = 0, err;
	char *format;

	if (!tracefs_event_file_exists(e->s->instance, system, event, "enable"))
		return 0;
	format = tracefs_event_file_read(e->s->instance, system, event, "format", &bytes);
	if (!format)
		return 0;
	err = tracefs_text_put_text(e->s, BRAID_TEXT_FORMAT, system, format, bytes, bytes);
	free(format);
	if (err)
		return err;
	e->enabled++;
	if (!e->formats_only &&
	    tracefs_event_file_write(e->s->instance, system, event, "enable", "1") < 0)
		return braid_fail(-errno, "the host's %s:%s cannot be enabled: %s", system, event,
				  strerror(errno));
	return 0;
}

struct listing {
	struct braid_directory *dir;
	u32 allocated;
	u32 used;
};

static int list_one(void *arg, const char *system, const char *event)
{
	struct listing *l = arg;
	struct braid_schema_event e = { .id = 1, .system = system, .name = event, .format = "" };

	braid_schema_append(l->dir, l->allocated, &l->used, &e);
	return 0;
}

/* The same help as for a guest's events, from the same code. */
static int suggest(const struct braid_pattern *pattern)
{
	struct listing l = { .allocated = 1u << 20 };
	struct braid_directory_copy copy = { 0 };
	int err;

	l.dir = calloc(1, sizeof(*l.dir) + l.allocated);
	if (!l.dir)
		return braid_out_of_memory();
	for_each_event(NULL, 0, list_one, &l);
	copy.data = l.dir->data;
	copy.bytes = l.used;
	err = braid_directory_suggest(&copy, pattern, "the host");
	free(l.dir);
	return err;
}

struct switching {
	struct tracefs_instance *instance;
	u32 nr;
};

static int switch_one(void *arg, const char *system, const char *event)
{
	struct switching *x = arg;

	x->nr += tracefs_event_file_write(x->instance, system, event, "enable", "1") >= 0;
	return 0;
}

u32 braid_host_switch_on(struct tracefs_instance *instance, const struct braid_pattern *patterns,
			 size_t nr_patterns)
{
	struct switching x = { .instance = instance };

	for_each_event(patterns, nr_patterns, switch_one, &x);
	return x.nr;
}

/* Our own probes, if they are still there. */
static int enable_probes(struct enabling *e, const char *of)
{
	char system[48], **events;
	int err = 0, k;

	snprintf(system, sizeof(system), "%s%d", of, (int)getpid());
	events = tracefs_system_events(NULL, system);
	for (k = 0; events && events[k] && !err; k++)
		err = enable_one(e, system, events[k]);
	tracefs_list_free(events);
	return err;
}

/* Stacks are records of ftrace itself. Where there can be none, an analysis has none. */
static int enable_stacks(struct enabling *e)
{
	int bytes = 0, err = 0;
	char *format = tracefs_instance_file_read(NULL, "events/ftrace/kernel_stack/format", &bytes);

	if (format && (e->formats_only || braid_host_sample_stacks(e->s)))
		err = tracefs_text_put_text(e->s, BRAID_TEXT_FORMAT, "ftrace", format, bytes, bytes);
	free(format);
	return err;
}

int braid_host_enable_events(struct braid_tracefs_source *s, bool formats_only)
{
	struct enabling e = { .s = s, .formats_only = formats_only };
	int err = for_each_event(s->o.patterns, s->o.nr_patterns, enable_one, &e);

	if (!err && !e.enabled)
		err = braid_fail(-ENOENT, "the host has none of the requested events");
	if (!err && s->o.probes & BRAID_PROBES_QUOTA)
		err = enable_probes(&e, BRAID_QUOTA_SYSTEM);
	if (!err && s->o.probes & BRAID_PROBES_PACKETS)
		err = enable_probes(&e, BRAID_PACKETS_SYSTEM);
	return err || !s->o.stacks ? err : enable_stacks(&e);
}

/* Returns 1 at the first event that the pattern matches. */
static int match_one(void *arg, const char *system, const char *event)
{
	return braid_pattern_matches(arg, system, event);
}

/* Whether trace_clock, "[local] global counter", lists a clock. */
static int check_clock(const char *clock)
{
	braid_auto_free char *listed = tracefs_instance_file_read(NULL, "trace_clock", NULL);
	char *at = listed, *one;

	while ((one = strsep(&at, " []\n")))
		if (!strcmp(one, clock))
			return 0;
	return braid_fail(-EINVAL, "the host's kernel has no trace clock '%s'", clock);
}

int braid_tracefs_check(const struct braid_pattern *patterns, size_t nr_patterns, bool optional,
			const char *clock)
{
	const char *root;
	size_t k;
	int err = braid_host_tracefs(&root);

	if (!err && clock)
		err = check_clock(clock);

	for (k = 0; k < nr_patterns && !err && !optional; k++)
		if (!for_each_event(NULL, 0, match_one, (void *)&patterns[k]))
			err = suggest(&patterns[k]);
	return err;
}
