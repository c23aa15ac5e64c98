// SPDX-License-Identifier: GPL-2.0-or-later
/* Matches events by pattern, and suggests similar names. */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/control/control.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

#define NAME_BYTES	(2 * BRAID_PATTERN_BYTES)
#define MAX_SUGGESTIONS	3

static int copy_name(char *to, const char *from, size_t bytes, const char *text)
{
	if (bytes >= BRAID_PATTERN_BYTES)
		return braid_fail(-EINVAL, "%s: names of events have at most %d characters", text,
				  BRAID_PATTERN_BYTES - 1);
	memset(to, 0, BRAID_PATTERN_BYTES);
	memcpy(to, from, bytes);
	return 0;
}

int braid_pattern_check(const char *text)
{
	if (!*text)
		return braid_fail(-EINVAL, "expected SYSTEM[:EVENT]");
	return strpbrk(text, " =<>&|~") ?
	       braid_fail(-EINVAL, "'%s' is a filter; expected SYSTEM:EVENT; 'record -f' and 'report -F' take conditions",
			  text) : 0;
}

int braid_pattern_parse(struct braid_pattern *p, const char *text)
{
	size_t system = strcspn(text, ":/");
	struct braid_pattern parsed = { .filter = NULL };
	int err;

	if (!*text || !system)
		return braid_fail(-EINVAL, "expected SYSTEM[:EVENT]");
	if (!strcmp(text, "all"))
		text = "*", system = 1;
	err = braid_pattern_check(text);
	if (err)
		return err;
	err = copy_name(parsed.system, text, system, text);
	text += system + !!text[system];
	if (!err)
		err = copy_name(parsed.event, text, strlen(text), text);
	if (!err)
		*p = parsed;
	return err;
}

bool braid_pattern_matches(const struct braid_pattern *p, const char *system, const char *event)
{
	return (!*p->system || !fnmatch(p->system, system, 0)) &&
	       (!*p->event || !fnmatch(p->event, event, 0));
}

u32 braid_pattern_count(const struct braid_pattern *p, const struct braid_directory_copy *copy)
{
	struct braid_schema_event event;
	u32 at = 0, nr = 0;

	while (braid_schema_next(copy->data, copy->bytes, &at, &event) > 0)
		nr += !(event.flags & (BRAID_EVENT_GONE | BRAID_EVENT_SUB)) &&
		      braid_pattern_matches(p, event.system, event.name);
	return nr;
}

struct suggestion {
	char name[NAME_BYTES];
	u32 distance;
};

/* Keeps the nearest names, each once, nearest first. */
static void offer(struct suggestion *best, const char *name, u32 distance)
{
	int k, last = MAX_SUGGESTIONS - 1;

	for (k = 0; k < MAX_SUGGESTIONS; k++)
		if (!strcmp(best[k].name, name))
			return;
	if (distance >= best[last].distance)
		return;
	for (k = last; k && distance < best[k - 1].distance; k--)
		best[k] = best[k - 1];
	snprintf(best[k].name, NAME_BYTES, "%s", name);
	best[k].distance = distance;
}

/* Finds the living event of a buffer and id. */
static bool find_event(const struct braid_directory_copy *copy, u32 buffer, u32 id,
		       struct braid_schema_event *found)
{
	struct braid_schema_event event;
	bool any = false;
	u32 at = 0;

	while (braid_schema_next(copy->data, copy->bytes, &at, &event) > 0) {
		if (event.flags & (BRAID_EVENT_GONE | BRAID_EVENT_SUB) || event.buffer != buffer ||
		    event.id != id)
			continue;
		*found = event;
		any = true;
	}
	return any;
}

/*
 * Whether the named event is recorded as part of another one: tracefs' syscalls:sys_enter_openat is
 * a sub-event of raw_syscalls:sys_enter. Return: true with braid_fail() if so.
 */
static bool suggest_event_of(const struct braid_directory_copy *copy,
			     const struct braid_pattern *pattern, const char *guest)
{
	const char *name = *pattern->event ? pattern->event : pattern->system;
	struct braid_schema_event sub, event;
	u32 at = 0;

	while (braid_schema_next(copy->data, copy->bytes, &at, &sub) > 0) {
		if (!(sub.flags & BRAID_EVENT_SUB) || sub.flags & BRAID_EVENT_GONE ||
		    fnmatch(name, sub.name, 0))
			continue;
		if (!find_event(copy, sub.buffer, sub.id, &event))
			return false;
		braid_fail(-ENOENT, "no event \"%s%s%s\" in %s: %.63s is part of %.63s:%.63s; record -e %.63s:%.63s, then report -e '%s'",
			   pattern->system, *pattern->event ? ":" : "", pattern->event, guest,
			   sub.name, event.system, event.name, event.system, event.name, name);
		return true;
	}
	return false;
}

int braid_directory_suggest(const struct braid_directory_copy *copy,
			    const struct braid_pattern *pattern, const char *guest)
{
	struct suggestion best[MAX_SUGGESTIONS] = { 0 };
	char wanted[NAME_BYTES], name[NAME_BYTES], line[MAX_SUGGESTIONS * (NAME_BYTES + 4)] = "";
	struct braid_schema_event event;
	u32 at = 0, used = 0;
	int k;

	if (suggest_event_of(copy, pattern, guest))
		return -ENOENT;
	snprintf(wanted, sizeof(wanted), "%s%s%s", pattern->system, *pattern->event ? ":" : "",
		 pattern->event);
	for (k = 0; k < MAX_SUGGESTIONS; k++)	/* names at a greater distance are not suggested */
		best[k].distance = strlen(wanted) / 3 + 2;
	while (braid_schema_next(copy->data, copy->bytes, &at, &event) > 0) {
		if (event.flags & (BRAID_EVENT_GONE | BRAID_EVENT_SUB))
			continue;
		snprintf(name, sizeof(name), "%.63s:%.63s", event.system, event.name);
		if (!*pattern->event) {
			offer(best, name, braid_text_distance(wanted, event.name) + 1);
			*strchr(name, ':') = 0;
			if (strstr(name, wanted))	/* "syscalls" */
				offer(best, name, 1);
		}
		offer(best, name, braid_text_distance(wanted, name));
		/* The right event of a wrong system is near, however the system is called. */
		if (*pattern->event && !strcmp(event.name, pattern->event))
			offer(best, name, 1);
	}
	if (!copy->bytes)
		return braid_fail(-ENOENT, "no event \"%s\" in %s: it has no events at all", wanted,
				  guest);
	for (k = 0; k < MAX_SUGGESTIONS && *best[k].name; k++)
		used += snprintf(line + used, sizeof(line) - used, "%s%s", k ? " or " : "",
				 best[k].name);
	if (!used)
		return braid_fail(-ENOENT, "no event \"%s\" in %s", wanted, guest);
	return braid_fail(-ENOENT, "no event \"%s\" in %s; did you mean %s?", wanted, guest, line);
}
