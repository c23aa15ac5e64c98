// SPDX-License-Identifier: GPL-2.0-or-later
/* Parses values of options. */
#include <errno.h>
#include <stdlib.h>

#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/option.h"
#include "host_agent/util/text.h"

int braid_parse_u64(const char *text, u64 max, u64 *value)
{
	unsigned long long n;
	char *end;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text < '0' || *text > '9' || n > max)
		return braid_fail(-EINVAL, "'%s' is not a number from 0 to %llu", text,
				  (unsigned long long)max);
	*value = n;
	return 0;
}

int braid_take_flag(const struct braid_option *o, void *to, const char *value)
{
	(void)o, (void)value;
	*(bool *)to = true;
	return 0;
}

int braid_take_string(const struct braid_option *o, void *to, const char *value)
{
	(void)o;
	*(const char **)to = value;
	return 0;
}

int braid_take_list(const struct braid_option *o, void *to, const char *value)
{
	struct braid_option_list *list = to;

	(void)o;
	return braid_array_push(list->items, list->nr, list->capacity, value) ?
	       braid_out_of_memory() : 0;
}

int braid_take_count(const struct braid_option *o, void *to, const char *value)
{
	u64 most = o->most ? o->most : INT64_MAX, got = 0;

	if (braid_parse_u64(value, most, &got) || got < o->least)
		return braid_fail(-EINVAL, "expected a number from %llu to %llu",
				  (unsigned long long)o->least, (unsigned long long)most);
	*(u64 *)to = got;
	return 0;
}

int braid_take_word(const struct braid_option *o, void *to, const char *value)
{
	const char *named;
	int err = braid_take_named(o, &named, value);

	if (!err)
		*(unsigned int *)to = braid_text_one_of(o->values, value);
	return err;
}

int braid_take_named(const struct braid_option *o, void *to, const char *value)
{
	char list[BRAID_TEXT_LIST];

	if (braid_text_one_of(o->values, value) < 0)
		return braid_fail(-EINVAL, "expected %s", braid_text_list(o->values, list));
	return braid_take_string(o, to, value);
}
