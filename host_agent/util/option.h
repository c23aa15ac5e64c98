/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Options as rows of tables: of a command line, and of the library, whose options are words. */
#ifndef BRAID_UTIL_OPTION_H
#define BRAID_UTIL_OPTION_H

#include <stdbool.h>
#include <stddef.h>

#include "tracebraid/types.h"

struct braid_option;

/*
 * Parses @value (NULL: the option has none) into @to. Return: 0, or -errno with braid_fail(). Its text
 * says only what is wrong with the value; the caller prepends the option.
 */
typedef int braid_option_take(const struct braid_option *o, void *to, const char *value);

struct braid_option {
	char letter;			/* 0: only a name */
	const char *name;
	const char *argument;		/* NULL: none; "[=EVENTS]": may be left out; "[GLOB]": the
					   next word, unless that is an option */
	braid_option_take *take;
	size_t at;			/* its destination in the state of who parses */
	const char *help;
	const char *values;		/* for completion: words, and "@KIND"s of names */
	u64 least, most;		/* of a count; no most: INT64_MAX */
	unsigned int of;		/* library/options.h: what takes it */
};

braid_option_take braid_take_flag;	/* a bool, which becomes true */
braid_option_take braid_take_string;
braid_option_take braid_take_count;	/* a u64 */
braid_option_take braid_take_word;	/* an unsigned int: which of ->values */
braid_option_take braid_take_named;	/* a const char *: one of ->values */
braid_option_take braid_take_list;	/* one more of a struct braid_option_list */

struct braid_option_list {
	const char **items;
	size_t nr, capacity;
};

/* Function and destination of an option, for members of the right type only. */
#define BRAID_TAKE(function, kind, type, member) \
	.take = function, .at = offsetof(type, member) + \
	0 * sizeof(char[__builtin_types_compatible_p(kind, __typeof__(((type *)0)->member)) ? 1 : -1])
#define BRAID_FLAG(type, member)	BRAID_TAKE(braid_take_flag, bool, type, member)
#define BRAID_STRING(type, member)	BRAID_TAKE(braid_take_string, const char *, type, member)
#define BRAID_LIST(type, member) \
	BRAID_TAKE(braid_take_list, struct braid_option_list, type, member)
#define BRAID_COUNT(type, member)	BRAID_TAKE(braid_take_count, u64, type, member)
#define BRAID_WORD(type, member)	BRAID_TAKE(braid_take_word, unsigned int, type, member)

/**
 * braid_parse_u64 - read a decimal number
 * @text: all of it must be digits
 * @max: the largest allowed
 * @value: set on success
 *
 * Return: 0, or -EINVAL with braid_fail().
 */
int braid_parse_u64(const char *text, u64 max, u64 *value);

#endif /* BRAID_UTIL_OPTION_H */
