// SPDX-License-Identifier: GPL-2.0-or-later
/* Parses filters: the names of events, and an expression. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/util/error.h"
#include "host_agent/util/text.h"
#include "host_agent/walk/filter.h"

static const char example[] = "sched_switch: prev_prio < 100 && next_comm ~ \"q*\"";

/* Events ---------------------------------------------------------------------------------- */

/* A name is a regular expression of the whole, as it is for trace-cmd. */
static bool compile_name(regex_t *to, const char *from, size_t bytes)
{
	char *whole;
	int err;

	while (bytes && isspace((unsigned char)*from))
		from++, bytes--;
	while (bytes && isspace((unsigned char)from[bytes - 1]))
		bytes--;
	if (!bytes || asprintf(&whole, "^%.*s$", (int)bytes, from) < 0)
		return false;
	err = regcomp(to, whole, REG_ICASE | REG_NOSUB);
	free(whole);
	return !err;
}

/* "EVENT", "SYSTEM" or "SYSTEM/EVENT". */
static bool filter_take_event(struct braid_filter *f, const char *from, size_t bytes)
{
	struct braid_filter_event *event = &f->events[f->nr_events];
	const char *slash = memchr(from, '/', bytes);

	if (f->nr_events == BRAID_FILTER_EVENTS)
		return false;
	f->nr_events++;
	if (slash) {
		event->has_system = compile_name(&event->system, from, slash - from);
		if (!event->has_system)
			return false;
		bytes -= slash + 1 - from;
		from = slash + 1;
	}
	event->has_name = compile_name(&event->name, from, bytes);
	return event->has_name;
}

/* Return: NULL with braid_fail(), or where the names end. */
static const char *filter_take_events(struct braid_filter *f, const char *at)
{
	const char *end = strchr(at, ':'), *next;

	if (!end)
		end = at + strlen(at);
	for (; at <= end; at = next + 1) {
		next = memchr(at, ',', end - at);
		if (!next)
			next = end;
		if (!filter_take_event(f, at, next - at)) {
			braid_expression_complain(f->text, at, "expected the name of an event",
						  example);
			return NULL;
		}
	}
	return end;
}

bool braid_filter_names(const struct braid_filter *filter, const char *system, const char *name)
{
	u32 k;

	for (k = 0; k < filter->nr_events; k++) {
		const struct braid_filter_event *e = &filter->events[k];
		bool of_name = !regexec(&e->name, name, 0, NULL, 0);
		const regex_t *of = e->has_system ? &e->system : &e->name;
		bool of_system = !regexec(of, system, 0, NULL, 0);

		if (e->has_system ? of_name && of_system : of_name || of_system)
			return true;
	}
	return false;
}

/* SYSTEM:EVENT, as for -e: no other expression has a single word, or a word and a colon, there. */
static int explain_colon(const struct braid_filter *f, int err)
{
	size_t system = strcspn(f->text, ":,/"), event;
	const char *rest;

	if (f->text[system] != ':')
		return err;
	rest = f->text + system + 1;
	event = strspn(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_*?");
	if (!event || (rest[event] && rest[event] != ':'))
		return err;
	return braid_fail(-EINVAL, "filter '%s': SYSTEM:EVENT is how -e names events; here it is SYSTEM/EVENT: '%.*s/%s'",
			  f->text, (int)system, f->text, rest);
}

static int filter_new(struct braid_filter **out, const char *text)
{
	struct braid_filter *f = *out = calloc(1, sizeof(*f));

	if (f)
		f->text = strdup(text);
	if (!f || !f->text) {
		free(f);
		return braid_out_of_memory();
	}
	braid_text_clean(f->text);
	return 0;
}

/* Frees it after an error. */
static int filter_finish(struct braid_filter **out, struct braid_filter *f, int err)
{
	if (err)
		braid_filter_free(f);
	else
		*out = f;
	return err;
}

int braid_filter_parse(struct braid_filter **out, const char *text)
{
	struct braid_filter *f;
	const char *end;
	int err = filter_new(&f, text);

	if (err)
		return err;
	end = filter_take_events(f, text);
	if (!end)
		err = -EINVAL;
	else if (*end)
		err = braid_expression_parse(&f->e, f->text, end + 1, example);
	if (err == -EINVAL)
		err = explain_colon(f, err);
	return filter_finish(out, f, err);
}

int braid_filter_parse_condition(struct braid_filter **out, const char *text)
{
	struct braid_filter *f;
	int err = filter_new(&f, text);

	return err ?: filter_finish(out, f, braid_expression_parse(&f->e, f->text, text,
								   strchr(example, ':') + 2));
}

void braid_filter_free(struct braid_filter *filter)
{
	u32 k;

	if (!filter)
		return;
	for (k = 0; k < filter->nr_events; k++) {
		if (filter->events[k].has_system)
			regfree(&filter->events[k].system);
		if (filter->events[k].has_name)
			regfree(&filter->events[k].name);
	}
	braid_expression_free(&filter->e);
	free(filter->text);
	free(filter);
}
