// SPDX-License-Identifier: GPL-2.0-or-later
/* Takes the options that commands which read captures have in common, for libtracebraid, which checks them. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/trace_options.h"
#include "host_agent/control/control.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"
#include "host_agent/util/thread.h"
#include "tracebraid/tracebraid.h"

/* Return: 0, or -ENOMEM with braid_fail(). */
static int trace_options_add(struct braid_option_list *to, const char *name, const char *value)
{
	char *word;

	if (asprintf(&word, value ? "--%s=%s" : "--%s", name, value) < 0)
		return braid_out_of_memory();
	if (!braid_array_push(to->items, to->nr, to->capacity, word))
		return 0;
	free(word);
	return braid_out_of_memory();
}

int braid_trace_take(const struct braid_option *o, void *to, const char *value)
{
	struct braid_trace_options *t = to;

	t->selects |= !!(o->of & BRAID_LIBRARY_LIMITS);
	return trace_options_add(&t->words, o->name, value);
}

int braid_trace_take_form(const struct braid_option *o, void *to, const char *value)
{
	int err = tracebraid_export_check(value, "", NULL);

	(void)o;
	if (!err)
		*(const char **)to = value;
	return err;
}

static int take_clock_source(const struct braid_option *o, void *to, const char *value)
{
	struct braid_trace_options *t = to;
	const char *named;

	return braid_take_named(o, &named, value) ?: trace_options_add(&t->opening, o->name, value);
}

static int take_wander(const struct braid_option *o, void *to, const char *value)
{
	struct braid_trace_options *t = to;
	u64 us;

	return braid_take_count(o, &us, value) ?: trace_options_add(&t->opening, o->name, value);
}

static int take_unordered(const struct braid_option *o, void *to, const char *value)
{
	struct braid_trace_options *t = to;

	(void)o;
	(void)value;
	return trace_options_add(&t->opening, "hosts", "unordered");
}

/* Two languages: -e has globs, -F expressions. */
static int trace_options_take_event(const struct braid_option *o, void *to, const char *text)
{
	braid_auto_free char *copy = strdup(text);
	char *at = copy, *one;
	int err = copy ? 0 : braid_out_of_memory();

	/* Several are separated by commas, as for record. */
	while (!err && (one = strsep(&at, ",")))
		err = braid_pattern_check(one) ?: braid_trace_take(o, to, one);
	return err;
}

static int take_filter(const struct braid_option *o, void *to, const char *text)
{
	struct braid_trace_options *t = to;

	t->selects = true;
	return trace_options_add(&t->words, t->invert ? "filter-not" : o->name, text);
}

#define TRACE	struct braid_trace_options

const struct braid_option braid_trace_common[] = {
	BRAID_TRACE_OPTION("clock", braid_trace_take),
	{ 0, "clock-source", "SOURCE", .take = take_clock_source, .help =
	  "convert guests' times only by SOURCE: kvm, exchange, pairs, nominal, windows (the "
	  "exchange or reads, made tighter by the host's kvm_entry and kvm_exit events) or reads; "
	  "auto (default) selects the best except windows", .values = BRAID_WORDS_SOURCE },
	{ 0, "wander", "NUMBER", .take = take_wander, .help =
	  "captures of several hosts: the largest wander between two hosts' clocks, in µs in a second; "
	  "bounds between hosts hold if this is true. Default: 30",
	  .least = 1, .most = BRAID_MOST_WANDER_US },
	{ 0, "unordered", NULL, .take = take_unordered, .help =
	  "place captures of hosts that exchanged no times by wall time, without a bound; without "
	  "this option they are refused" },
	BRAID_TRACE_OPTION("stream", braid_trace_take),
	BRAID_TRACE_OPTION("cpu", braid_trace_take),
	BRAID_TRACE_OPTION("buffer", braid_trace_take),
	BRAID_TRACE_OPTION("event", trace_options_take_event),
	BRAID_TRACE_OPTION("filter", take_filter),
	{ 'v', "invert", NULL, BRAID_FLAG(TRACE, invert), "invert the filters that follow" },
	BRAID_TRACE_OPTION("pid", braid_trace_take),
	BRAID_TRACE_OPTION("comm", braid_trace_take),
	BRAID_TRACE_OPTION("since", braid_trace_take),
	BRAID_TRACE_OPTION("until", braid_trace_take),
	{ 0 },
};

/* The words, ended by NULL. NULL with braid_fail(): out of memory. */
static const char *const *ended(struct braid_option_list *list)
{
	if (braid_array_push(list->items, list->nr, list->capacity, NULL)) {
		braid_out_of_memory();
		return NULL;
	}
	list->nr--;
	return list->items;
}

const char *const *braid_trace_words(struct braid_trace_options *t)
{
	return ended(&t->words);
}

static bool has(const struct braid_option_list *list, const char *start)
{
	size_t k;

	for (k = 0; k < list->nr; k++)
		if (!strncmp(list->items[k], start, strlen(start)))
			return true;
	return false;
}

int braid_trace_open(struct braid_trace_options *t, struct tracebraid_trace **trace,
		     char *const *paths, size_t nr)
{
	if (trace_options_add(&t->opening, "faults", "count") || !ended(&t->opening))
		return -ENOMEM;
	braid_progress_begin(&t->progress);
	tracebraid_progress(braid_progress_show, &t->progress);
	return tracebraid_open_with(trace, (const char *const *)paths, nr, t->opening.items,
				    braid_cli_warn, NULL);
}

static volatile sig_atomic_t stopped;

static void trace_options_stop(int signal)
{
	stopped = signal;
}

const volatile sig_atomic_t *braid_trace_stoppable(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = trace_options_stop, .sa_flags = SA_RESTART | SA_RESETHAND };
	size_t k;

	for (k = 0; k < sizeof(signals) / sizeof(*signals); k++)
		sigaction(signals[k], &action, NULL);
	return &stopped;
}

int braid_trace_check_output(const char *form, const char *out)
{
	size_t n = strlen(out), end = strlen(".braid");

	if (n && out[n - 1] == '/' && strcmp(form, "ctf"))
		return braid_fail(-EINVAL, "--output=%s: it ends with a '/', but %s makes no folder; name a file",
				  out, form);
	if (n < end || strcmp(out + n - end, ".braid"))
		return 0;
	return braid_fail(-EINVAL, "--output=%s: *.braid is the name of a capture; for --to, use -o %.*s.%s",
			  out, (int)(n - end), out, form);
}

static int offer(void *arg, const struct tracebraid_stream *stream,
		 const struct tracebraid_type *type)
{
	(void)stream;
	braid_text_nearer(arg, tracebraid_type_name(type));
	return 0;
}

/* The name of an event that may be meant. */
static void print_near(struct tracebraid_trace *trace, const char *event)
{
	const char *colon = strchr(event, ':');
	struct braid_text_near near = { .word = colon ? colon + 1 : event };
	struct tracebraid_walk *walk;

	if (tracebraid_walk_new(&walk, trace, NULL))
		return;
	if (!tracebraid_types(walk, offer, &near) && near.nearest && strcmp(near.nearest, near.word))
		fprintf(stderr, "; did you mean '%s'?", near.nearest);
	tracebraid_walk_free(walk);
}

/* Whether a selection matched: 0; or BRAID_TRACE_NOTHING, after a message: possibly a typing error. */
static int trace_options_judge(struct braid_trace_options *t, struct tracebraid_trace *trace,
			       const struct tracebraid_totals *totals)
{
	static const char event[] = "--event=";
	const char *before = "", *one = NULL;
	size_t k;

	if (totals->events || !t->selects || (t->max_lines && totals->lines >= t->max_lines))
		return 0;
	braid_progress_end(&t->progress);
	fputs("tracebraid: no event matches", stderr);
	for (k = 0; k < t->words.nr; k++) {
		if (strncmp(t->words.items[k], event, strlen(event)))
			continue;
		fprintf(stderr, "%s '%s'", before, braid_cli_clean(t->words.items[k] + strlen(event)));
		one = *before ? NULL : t->words.items[k] + strlen(event);
		before = " or";
	}
	if (one)
		print_near(trace, one);
	fputs(*before ? "\n" : " the selection\n", stderr);
	return BRAID_TRACE_NOTHING;
}

int braid_trace_export(struct braid_trace_options *t, const char *form, const char *out,
		       char *const *paths, size_t nr)
{
	struct tracebraid_trace *trace = NULL;
	struct tracebraid_totals totals;
	const char *const *words;
	char cpus[16];
	int err;

	snprintf(cpus, sizeof(cpus), "%u", braid_thread_cpus());
	err = has(&t->words, "--cpus=") ? 0 : trace_options_add(&t->words, "cpus", cpus);
	words = err ? NULL : braid_trace_words(t);
	if (!words)
		return -ENOMEM;
	err = braid_trace_open(t, &trace, paths, nr);
	if (!err && strcmp(out, "-"))
		tracebraid_stop_when(trace, braid_trace_stoppable());
	if (!err)
		err = tracebraid_export(trace, form, out, words);
	if (!err)
		err = tracebraid_totals(trace, &totals);
	if (!err)
		err = trace_options_judge(t, trace, &totals);
	tracebraid_close(trace);
	return err;
}

int braid_trace_exit(struct braid_trace_options *t, int ret)
{
	braid_progress_end(&t->progress);
	braid_trace_free(t);
	if (ret == BRAID_TRACE_NOTHING)
		return ret;
	return ret >= 0 || ret == -EPIPE ? EXIT_SUCCESS : braid_complain();
}

static void free_list(struct braid_option_list *list)
{
	while (list->nr)
		free((char *)list->items[--list->nr]);
	free(list->items);
	*list = (struct braid_option_list){ 0 };
}

void braid_trace_free(struct braid_trace_options *t)
{
	tracebraid_progress(NULL, NULL);	/* which has a pointer to them */
	free_list(&t->words);
	free_list(&t->opening);
}
