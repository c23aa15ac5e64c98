// SPDX-License-Identifier: GPL-2.0-or-later
/* Parses a moment of the timeline. */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "host_agent/export/moment.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"

/* Digits, optionally a point and up to nine more. NULL: invalid. */
static const char *parse_seconds(const char *s, s64 *ns)
{
	u64 seconds = 0, fraction = 0, unit = BRAID_SECOND_NS;

	if (!isdigit((unsigned char)*s))
		return NULL;
	for (; isdigit((unsigned char)*s); s++)
		if ((seconds = 10 * seconds + (*s - '0')) >= INT64_MAX / BRAID_SECOND_NS)
			return NULL;
	if (*s == '.')
		for (s++; isdigit((unsigned char)*s); s++)
			if (unit > 1)
				fraction += (*s - '0') * (unit /= 10);
	*ns = seconds * BRAID_SECOND_NS + fraction;
	return s;
}

/* 2026-01-31T12:00:00.5, with or without Z. */
static bool parse_date(const char *text, s64 *ns)
{
	struct tm tm = { .tm_isdst = -1 };
	const char *seconds, *rest = strptime(text, "%Y-%m-%dT%H:%M:", &tm);
	s64 second_ns;
	time_t t;

	seconds = rest;
	rest = rest ? parse_seconds(seconds, &second_ns) : NULL;
	if (!rest || (*rest && strcmp(rest, "Z")))
		return false;
	t = *rest ? timegm(&tm) : mktime(&tm);
	return t > 0 && !__builtin_mul_overflow(t, (s64)BRAID_SECOND_NS, ns) &&
	       !__builtin_add_overflow(*ns, second_ns, ns);
}

int braid_moment_parse(struct braid_export_moment *m, const char *text, bool *date)
{
	const char *rest;

	*date = false;
	m->kind = *text == '+' ? BRAID_MOMENT_SINCE : *text == '-' ? BRAID_MOMENT_BEFORE :
		  BRAID_MOMENT_AT;
	rest = parse_seconds(text + (m->kind != BRAID_MOMENT_AT), &m->ns);
	if (rest && !*rest)
		return 0;
	if (!parse_date(text, &m->ns))
		return braid_fail(-EINVAL, "'%s' is not a time: SECONDS, +SECONDS, -SECONDS, or 2026-01-31T12:00:00 with --clock=realtime",
				  text);
	*date = true;
	return 0;
}
