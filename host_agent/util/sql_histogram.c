// SPDX-License-Identifier: GPL-2.0-or-later
/* Histograms as values of SQL. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/util/histogram.h"
#include "host_agent/util/sql_histogram.h"

#define FLAGS	(SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS)

/* Unlike those of analyses, sums of many hosts may exceed 32 bits. */
struct slots {
	u64 counts[BRAID_HISTOGRAM_SLOTS];
	u64 nr;
};

static const char *slots_blank(const char *at)
{
	return at + strspn(at, " \t\r\n");
}

/* Reads a character of the syntax, and blanks on both sides of it. Return: NULL: another one. */
static const char *slots_take(const char *at, char wanted)
{
	at = slots_blank(at);
	return *at == wanted ? slots_blank(at + 1) : NULL;
}

static const char *slots_number(const char *at, u64 *value)
{
	if (*at < '0' || *at > '9' || strspn(at, "0123456789") > 18)
		return NULL;
	*value = 0;
	for (; *at >= '0' && *at <= '9'; at++)
		*value = *value * 10 + (*at - '0');
	return at;
}

/* Adds "[[least, count], ...]". Return: false: the text is not a histogram, or a sum overflows. */
static bool slots_read(struct slots *h, const char *at)
{
	u64 least, count, *slot;

	at = slots_take(at, '[');
	if (at && *at == ']')
		return !*slots_blank(at + 1);
	while (at) {
		at = slots_take(at, '[');
		at = at ? slots_number(at, &least) : NULL;
		at = at ? slots_take(at, ',') : NULL;
		at = at ? slots_number(at, &count) : NULL;
		at = at ? slots_take(at, ']') : NULL;
		if (!at)
			return false;
		slot = &h->counts[braid_histogram_slot(least)];
		if (__builtin_add_overflow(h->nr, count, &h->nr) || h->nr > INT64_MAX)
			return false;
		*slot += count;
		if (*at == ']')
			return !*slots_blank(at + 1);
		at = slots_take(at, ',');
	}
	return false;
}

static void slots_result(sqlite3_context *context, const struct slots *h)
{
	sqlite3_str *text = sqlite3_str_new(sqlite3_context_db_handle(context));
	bool some = false;
	char *value;
	u32 k;

	sqlite3_str_appendchar(text, 1, '[');
	for (k = 0; h && k < BRAID_HISTOGRAM_SLOTS; k++) {
		if (!h->counts[k])
			continue;
		sqlite3_str_appendf(text, "%s[%llu,%llu]", some ? "," : "",
				    (unsigned long long)braid_histogram_least(k),
				    (unsigned long long)h->counts[k]);
		some = true;
	}
	sqlite3_str_appendchar(text, 1, ']');
	value = sqlite3_str_finish(text);
	if (value)
		sqlite3_result_text(context, value, -1, sqlite3_free);
	else
		sqlite3_result_error_nomem(context);
}

/* Aggregates --------------------------------------------------------------------------------- */

static struct slots *slots_of(sqlite3_context *context)
{
	struct slots *h = sqlite3_aggregate_context(context, sizeof(*h));

	if (!h)
		sqlite3_result_error_nomem(context);
	return h;
}

/* Return: false: the value is not a number from 0. */
static bool slots_value(sqlite3_value *value, u64 *number)
{
	sqlite3_int64 whole;
	double real;

	switch (sqlite3_value_type(value)) {
	case SQLITE_INTEGER:
		whole = sqlite3_value_int64(value);
		*number = whole;
		return whole >= 0;
	case SQLITE_FLOAT:
		real = sqlite3_value_double(value);
		*number = real >= 0 && real < 0x1p63 ? (u64)real : UINT64_MAX;
		return real >= 0;
	default:
		return false;
	}
}

static void histogram_step(sqlite3_context *context, int nr, sqlite3_value **values)
{
	struct slots *h;
	u64 number;

	(void)nr;
	if (sqlite3_value_type(values[0]) == SQLITE_NULL)
		return;
	h = slots_of(context);
	if (!h)
		return;
	if (!slots_value(values[0], &number)) {
		sqlite3_result_error(context, "histogram() counts numbers from 0; use WHERE or FILTER to leave out others", -1);
		return;
	}
	h->counts[braid_histogram_slot(number)]++;
	h->nr++;
}

static void slots_not_valid(sqlite3_context *context)
{
	sqlite3_result_error(context, "not a valid histogram: expected [[VALUE, COUNT], ...], as histogram() returns it", -1);
}

static void histogram_sum_step(sqlite3_context *context, int nr, sqlite3_value **values)
{
	const char *text = (const char *)sqlite3_value_text(values[0]);
	struct slots *h;

	(void)nr;
	if (!text)
		return;
	h = slots_of(context);
	if (h && !slots_read(h, text))
		slots_not_valid(context);
}

static void slots_final(sqlite3_context *context)
{
	slots_result(context, sqlite3_aggregate_context(context, 0));
}

/* Percentiles -------------------------------------------------------------------------------- */

static void histogram_percentile(sqlite3_context *context, int nr, sqlite3_value **values)
{
	const char *text = (const char *)sqlite3_value_text(values[0]);
	double percent = sqlite3_value_double(values[1]);
	struct slots h = { 0 };
	u64 rank, seen = 0;
	u32 k;

	(void)nr;
	if (!text)
		return;
	if (!slots_read(&h, text)) {
		slots_not_valid(context);
		return;
	}
	if (sqlite3_value_numeric_type(values[1]) == SQLITE_TEXT ||
	    sqlite3_value_type(values[1]) == SQLITE_NULL || !(percent >= 0 && percent <= 100)) {
		sqlite3_result_error(context, "not a valid percentile: expected a number from 0 to 100", -1);
		return;
	}
	rank = ceil(h.nr * percent / 100);
	for (k = 0; k < BRAID_HISTOGRAM_SLOTS; k++) {
		seen += h.counts[k];
		if (seen && seen >= rank) {
			sqlite3_result_int64(context, braid_histogram_least(k));
			return;
		}
	}
}

int braid_sql_add_histograms(sqlite3 *db)
{
	int ret = sqlite3_create_function(db, "histogram", 1, FLAGS, NULL, NULL, histogram_step,
					  slots_final);

	if (!ret)
		ret = sqlite3_create_function(db, "histogram_sum", 1, FLAGS, NULL, NULL,
					      histogram_sum_step, slots_final);
	if (!ret)
		ret = sqlite3_create_function(db, "histogram_percentile", 2, FLAGS, NULL,
					      histogram_percentile, NULL, NULL);
	return ret;
}
