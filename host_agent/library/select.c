// SPDX-License-Identifier: GPL-2.0-or-later
/* Selections: the options of commands, as words. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/library/private.h"
#include "host_agent/library/words.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/walk/moment.h"
#include "host_agent/walk/select.h"

#define NR(list)	(sizeof(list) / sizeof(*(list)))
#define MOST_TOP	10000
#define MOST_CPU	65535
#define MOST_CPUS	256

/* An option with a value. @text lives with the selection. Return: 0, or -errno with braid_fail(). */
struct option {
	const char *name;
	unsigned int of;	/* what takes it */
	int (*take)(struct braid_library_select *s, const char *text);
};

/* One without, and the bool that it sets. */
struct flag {
	const char *name;
	unsigned int of;
	size_t at;
};

/* The word as the caller wrote it is what an error is about. */
static int select_refuse(const struct braid_library_select *s, const char *why)
{
	return braid_fail(-EINVAL, "%.80s: %s", s->word, why);
}

static int select_take_number(struct braid_library_select *s, const char *text, u64 least, u64 most,
			      u64 *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	if (*text >= '0' && *text <= '9' && !*end && !errno && *value >= least && *value <= most)
		return 0;
	return braid_fail(-EINVAL, "%.80s: expected a number from %llu to %llu", s->word,
			  (unsigned long long)least, (unsigned long long)most);
}

/* Return: which of @words @text is, or -EINVAL with braid_fail(). */
static int take_one_of(struct braid_library_select *s, const char *text, const char *words)
{
	int which = braid_text_one_of(words, text);
	char list[BRAID_TEXT_LIST];

	return which >= 0 ? which : braid_fail(-EINVAL, "%.80s: expected %s", s->word,
					       braid_text_list(words, list));
}

static int select_add(struct braid_library_list *list, const char *text)
{
	return braid_array_push(list->items, list->nr, list->capacity, (char *)text) ?
	       braid_out_of_memory() : 0;
}

static int take_stream(struct braid_library_select *s, const char *text)
{
	s->options.stream = text;
	return 0;
}

static int take_buffer(struct braid_library_select *s, const char *text)
{
	s->options.buffer = text;
	return 0;
}

static int take_cpu(struct braid_library_select *s, const char *text)
{
	u64 value;
	int err = select_take_number(s, text, 0, MOST_CPU, &value);

	s->options.one_cpu = true;
	s->options.cpu = value;
	return err;
}

static int select_take_event(struct braid_library_select *s, const char *text)
{
	return select_add(&s->events, text);
}

static int take_around(struct braid_library_select *s, const char *text)
{
	s->options.around = text;
	return 0;
}

static int take_comm(struct braid_library_select *s, const char *text)
{
	return select_add(&s->comms, text);
}

static int add_filter(struct braid_library_select *s, const char *text, bool invert)
{
	struct braid_walk_filter filter = { .text = text, .invert = invert };

	return braid_array_push(s->filters, s->options.nr_filters, s->filters_capacity, filter) ?
	       braid_out_of_memory() : 0;
}

static int take_filter(struct braid_library_select *s, const char *text)
{
	return add_filter(s, text, false);
}

static int take_filter_not(struct braid_library_select *s, const char *text)
{
	return add_filter(s, text, true);
}

static int take_pid(struct braid_library_select *s, const char *text)
{
	u64 value;
	int err = select_take_number(s, text, 0, INT32_MAX, &value);

	if (!err && braid_array_push(s->pids, s->options.nr_pids, s->pids_capacity, (s32)value))
		err = braid_out_of_memory();
	return err;
}

static int take_moment(struct braid_library_select *s, struct braid_walk_moment *m,
		       const char *text)
{
	return braid_moment_parse(m, text) ?
	       select_refuse(s, "not a time: expected SECONDS, +SECONDS, -SECONDS or, as wall time, 2026-01-31T12:00:00 or 12:00:00") :
	       0;
}

static int take_since(struct braid_library_select *s, const char *text)
{
	return take_moment(s, &s->options.from, text);
}

static int take_until(struct braid_library_select *s, const char *text)
{
	return take_moment(s, &s->options.to, text);
}

static int take_against_since(struct braid_library_select *s, const char *text)
{
	return take_moment(s, &s->against[0], text);
}

static int take_against_until(struct braid_library_select *s, const char *text)
{
	return take_moment(s, &s->against[1], text);
}

static int take_clock(struct braid_library_select *s, const char *text)
{
	int which = take_one_of(s, text, BRAID_WORDS_CLOCK);

	s->options.realtime = which == 1;
	return which < 0 ? which : 0;
}

static int take_lines(struct braid_library_select *s, const char *text)
{
	return select_take_number(s, text, 0, UINT64_MAX, &s->options.max_lines);
}

static int take_cpus(struct braid_library_select *s, const char *text)
{
	u64 value;
	int err = select_take_number(s, text, 1, MOST_CPUS, &value);

	s->options.cpus = value;
	return err;
}

static int take_top(struct braid_library_select *s, const char *text)
{
	return select_take_number(s, text, 1, MOST_TOP, &s->top);
}

static int take_task(struct braid_library_select *s, const char *text)
{
	u64 value;
	int err = select_take_number(s, text, 0, INT32_MAX, &value);

	s->task_word = s->word;
	s->task = value;
	return err;
}

static int take_by(struct braid_library_select *s, const char *text)
{
	int which = take_one_of(s, text, BRAID_WORDS_BY);

	s->by = which;
	s->by_word = s->word;
	return which < 0 ? which : 0;
}

static int take_weight(struct braid_library_select *s, const char *text)
{
	int which = take_one_of(s, text, BRAID_WORDS_WEIGHT);

	s->weight_word = s->word;
	s->by_count = which == 1;
	return which < 0 ? which : 0;
}

#define ITEMS	(BRAID_LIBRARY_WALK | BRAID_LIBRARY_EXPORT)
#define ANY	(ITEMS | BRAID_LIBRARY_ANALYSIS | BRAID_LIBRARY_TABLES)
#define ANALYSES	(BRAID_LIBRARY_ANALYSIS | BRAID_LIBRARY_TABLES)

static const struct option options[] = {
	{ "stream", ANY, take_stream },
	{ "cpu", ANY, take_cpu },
	{ "buffer", ITEMS, take_buffer },
	{ "event", ITEMS, select_take_event },
	{ "filter", ITEMS, take_filter },
	{ "filter-not", ITEMS, take_filter_not },
	{ "pid", ITEMS, take_pid },
	{ "comm", ITEMS, take_comm },
	{ "since", ANY, take_since },
	{ "until", ANY, take_until },
	{ "clock", ITEMS, take_clock },
	{ "lines", ITEMS, take_lines },
	{ "around", BRAID_LIBRARY_EXPORT, take_around },
	{ "cpus", BRAID_LIBRARY_EXPORT, take_cpus },
	{ "top", ANALYSES, take_top },
	{ "task", ANALYSES, take_task },
	{ "by", ANALYSES, take_by },
	{ "against-since", BRAID_LIBRARY_TABLES, take_against_since },
	{ "against-until", BRAID_LIBRARY_TABLES, take_against_until },
	{ "weight", BRAID_LIBRARY_TABLES, take_weight },
};

#define FLAG(member)	offsetof(struct braid_library_select, member)

static const struct flag flags[] = {
	{ "uncertain", BRAID_LIBRARY_EXPORT, FLAG(options.uncertain) },
	{ "no-header", BRAID_LIBRARY_EXPORT, FLAG(options.no_header) },
	{ "states", BRAID_LIBRARY_EXPORT, FLAG(options.states) },
	{ "json", BRAID_LIBRARY_TABLES, FLAG(json) },
	{ "csv", BRAID_LIBRARY_TABLES, FLAG(csv) },
	{ "folded", BRAID_LIBRARY_TABLES, FLAG(folded) },
};

const char *braid_library_dashes(const char *word)
{
	return strncmp(word, "--", 2) ? "" : "--";
}

/* @text: of the word. Return: 0, or -ENOMEM with braid_fail(). */
static int take_value(struct braid_library_select *s, const struct option *o, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return braid_out_of_memory();
	if (select_add(&s->strings, copy)) {
		free(copy);
		return -ENOMEM;
	}
	return o->take(s, copy);
}

static int select_take(struct braid_library_select *s, const char *word, enum braid_library_use use)
{
	const char *name = word + strlen(braid_library_dashes(word));
	size_t k, n = strcspn(name, "=");

	s->word = word;
	for (k = 0; k < NR(options); k++)
		if (options[k].of & use && strlen(options[k].name) == n && !memcmp(options[k].name, name, n))
			return name[n] ? take_value(s, &options[k], name + n + 1) :
					 select_refuse(s, "value missing");
	for (k = 0; k < NR(flags); k++) {
		if (!(flags[k].of & use) || strlen(flags[k].name) != n || memcmp(flags[k].name, name, n))
			continue;
		*(bool *)((char *)s + flags[k].at) = true;
		return name[n] ? select_refuse(s, "takes no value") : 0;
	}
	return braid_fail(-EINVAL, "'%.63s' is not an option of %s: expected OPTION=VALUE, such as %s", word,
			  use == BRAID_LIBRARY_WALK ? "a walk" : use == BRAID_LIBRARY_EXPORT ? "an export" :
			  "an analysis", use & ITEMS ? "event=sched:*" : "stream=guest1");
}

int braid_library_parse(struct braid_library_select *s, const char *const *words,
			enum braid_library_use use)
{
	int err = 0;

	memset(s, 0, sizeof(*s));
	for (; words && *words && !err; words++)
		err = select_take(s, *words, use);
	s->options.events = s->events.items;
	s->options.nr_events = s->events.nr;
	s->options.comms = s->comms.items;
	s->options.nr_comms = s->comms.nr;
	s->options.filters = s->filters;
	s->options.pids = s->pids;
	return err;
}

int braid_library_select(struct braid_library_select *s, const struct braid_source *source,
			 const char *const *words, enum braid_library_use use)
{
	return braid_library_parse(s, words, use) ?: braid_select_check(&s->options, source);
}

void braid_library_select_free(struct braid_library_select *s)
{
	while (s->strings.nr)
		free(s->strings.items[--s->strings.nr]);
	free(s->strings.items);
	free(s->events.items);
	free(s->comms.items);
	free(s->filters);
	free(s->pids);
}
