/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The library: the public functions of tracebraid/tracebraid.h over traces, walks and analyses.
 *
 * Invariants:
 * - An opaque public struct is another name of an internal one, or contains it; none of its members is
 *   visible to callers.
 * - A trace has at most one walk, facts, analysis or export, since its rings have one cursor each: each
 *   claims the trace, which rewinds it, and releases it. A followed trace is claimed once, by a walk.
 * - What a function returns lives with the object that it was given, except the text of
 *   tracebraid_analyze(), which the caller frees. Of a caller's memory, only the stop flag and the
 *   arguments of the functions for warnings and progress are kept.
 * - A failure is reported by braid_fail(); tracebraid_error() is its line. Nothing is printed.
 * - The room reads captures only. Recordings and regions are the work of another process (program.c).
 */
#ifndef BRAID_LIBRARY_PRIVATE_H
#define BRAID_LIBRARY_PRIVATE_H

#include "host_agent/library/options.h"
#include "host_agent/trace/vcpu.h"
#include "host_agent/walk/walk.h"
#include "tracebraid/tracebraid.h"

struct tracebraid_trace {
	struct braid_source *source;
	bool busy;		/* a walk, analysis or export has its cursors */
	struct tracebraid_walk *walk;	/* that it is, and ... */
	void (*free_walk)(struct tracebraid_walk *walk);	/* ... what closing the trace calls */
	const volatile sig_atomic_t *stop;	/* or NULL */
	unsigned int clock;	/* how guests' times were to be converted, by enum braid_clock_kind; 0: not said */
	char **paths;		/* of its captures: copies */
	size_t nr_paths;
	bool last;		/* of it: it gets no more */
	bool walked;		/* of it: what a walk has passed is forgotten */
	void (*warn)(void *arg, const char *line);
	void *warn_arg;
	bool exported;		/* ->totals are of the last export */
	struct braid_walk_totals totals;
};

/* A selection, with all that its options point to. */
struct braid_library_select {
	struct braid_walk_options options;
	struct braid_option_list strings;	/* copies of values, that the others point to */
	struct braid_option_list events, comms;
	struct braid_walk_filter *filters;
	s32 *pids;
	size_t filters_capacity, pids_capacity;
	const char *word;		/* the last one, as the caller wrote it; NULL: none */
	unsigned int clock;		/* 1: realtime */
	u64 cpus;			/* 0: not given */
	/* Of analyses: */
	u64 top;			/* 0: not given */
	u64 task;
	unsigned int by, weight;	/* which of the options' words: */
	bool json, csv, folded, speedscope;
	struct braid_walk_moment against[2];	/* from, to, of the trace that is compared with; NONE: as
						   ->options has it */
};

enum { BRAID_BY_VCPU, BRAID_BY_TASK, BRAID_BY_SYSCALL, BRAID_BY_FUNCTION, BRAID_BY_GUEST };
enum { BRAID_WEIGHT_TIME, BRAID_WEIGHT_COUNT };

/**
 * braid_library_parse - parse options
 * @s: filled; braid_library_select_free() it in any case
 * @words: "OPTION=VALUE" or "OPTION", perhaps after "--", then NULL; or NULL
 * @use: what they are for
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_library_parse(struct braid_library_select *s, const char *const *words,
			enum braid_library_use use);

/**
 * braid_library_select - likewise, and check that a selected stream and buffer are in a trace
 * @source: the trace
 *
 * Other parameters and return as braid_library_parse(); -ENOENT: they are not.
 */
int braid_library_select(struct braid_library_select *s, const struct braid_source *source,
			 const char *const *words, enum braid_library_use use);

/** braid_library_find - the option of a word in a table, of those with a bit of @use; NULL: none */
const struct braid_option *braid_library_find(const struct braid_option *table, const char *word,
					      unsigned int use);

/** braid_library_value - the value in a word; NULL: none */
const char *braid_library_value(const char *word);

/** braid_library_take - parse a word's value, or NULL. Return: 0, or -errno with braid_fail() */
int braid_library_take(const struct braid_option *o, void *to, const char *word, const char *value);

/** braid_library_word - the last word of an option, as the caller wrote it; NULL: none */
const char *braid_library_word(const char *const *words, const char *name);

/** braid_library_dashes - what a word begins with, "--" or "", for errors that name other words */
const char *braid_library_dashes(const char *word);

/** braid_library_select_free - free what it has */
void braid_library_select_free(struct braid_library_select *s);

/** braid_library_keep_paths - copy the paths of a trace's captures. Return: 0, or -ENOMEM with braid_fail() */
int braid_library_keep_paths(struct tracebraid_trace *trace, const char *const *paths, size_t nr);

/** braid_library_claim - take a trace's cursors, rewound. Return: 0, or -EBUSY with braid_fail() */
int braid_library_claim(struct tracebraid_trace *trace);

/** braid_library_claim_walk - likewise for a walk, which may be along a followed capture */
int braid_library_claim_walk(struct tracebraid_trace *trace);

/** braid_library_trace_new - a trace without a source. NULL with braid_fail() */
struct tracebraid_trace *braid_library_trace_new(void (*warn)(void *arg, const char *line), void *arg);

/**
 * braid_library_options - how to open a source, by words; notes the clock source in @trace
 *
 * Return: 0, or -EINVAL with braid_fail().
 */
int braid_library_options(struct tracebraid_trace *trace, const char *const *words,
			  struct braid_source_options *options);

/** braid_library_warn - warn of something; as the trace was opened */
void braid_library_warn(const struct tracebraid_trace *trace, const char *line);

/** braid_library_report_progress - as this thread wants it */
void braid_library_report_progress(struct braid_walk_options *options);

/** braid_library_walk_more - let a walk along a followed capture go on */
int braid_library_walk_more(struct tracebraid_walk *walk);

/** braid_library_release - give them back */
void braid_library_release(struct tracebraid_trace *trace);

struct braid_library_words;

struct tracebraid_walk {
	struct tracebraid_trace *trace;
	struct braid_library_select select;
	struct braid_walk_totals totals;
	struct braid_walk walk;
	int got;				/* the item where it is: enum braid_walk_got */
	bool waiting;				/* the item was found by a seek: it is next */
	bool validated;				/* ->layout is of the item */
	const struct braid_layout *layout;	/* of the event, whose payload holds all fields */
	struct braid_text text;
	struct braid_vcpu_map vcpus;
	struct braid_library_words *words;	/* of columns; NULL: none yet */
	struct braid_library_plan *plan;	/* of the last columns, or NULL */
};

/** braid_library_next - move on: as tracebraid_walk_next() */
static inline int braid_library_next(struct tracebraid_walk *w)
{
	if (!w->waiting)
		w->got = braid_walk_next(&w->walk);
	w->waiting = false;
	w->validated = false;
	return w->got;
}

/** braid_library_pid - the task that was current; -1: it is no event, or does not say */
static inline s32 braid_library_pid(const struct tracebraid_walk *w)
{
	return w->got == BRAID_WALK_EVENT ? braid_format_pid(w->walk.item) : BRAID_PID_UNKNOWN;
}

/** braid_library_comm - its name */
static inline const char *braid_library_comm(const struct tracebraid_walk *w)
{
	s32 pid = braid_library_pid(w);

	return pid < 0 ? BRAID_COMM_UNKNOWN : braid_format_comm(w->walk.item, pid);
}

/** braid_library_layout - the fields of the event where a walk is; NULL: bytes only */
const struct braid_layout *braid_library_layout(struct tracebraid_walk *walk);

/** braid_library_field_number - a field's number: as tracebraid_number() */
int braid_library_field_number(const struct braid_field *field, const struct braid_item *item,
			       s64 *value);

/** braid_library_plan_free - forget what is known of types; words stay */
void braid_library_plan_free(struct tracebraid_walk *walk);

/** braid_library_columns_free - free what columns have kept in a walk */
void braid_library_columns_free(struct tracebraid_walk *walk);

#endif /* BRAID_LIBRARY_PRIVATE_H */
