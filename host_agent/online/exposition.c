// SPDX-License-Identifier: GPL-2.0-or-later
/* Metrics as text for Prometheus: its format 0.0.4, or OpenMetrics 1.0.0. */
#include <string.h>

#include "host_agent/online/exposition.h"

#define SECOND_NS	1000000000ULL

static bool ends_with(const char *name, const char *end)
{
	size_t all = strlen(name), tail = strlen(end);

	return all > tail && !strcmp(name + all - tail, end);
}

/* What follows the family's name in those of its samples. */
static const char *suffix_of(const struct braid_exposition *e)
{
	return e->type == BRAID_COUNTER ? "_total" : e->type == BRAID_INFO ? "_info" : "";
}

void braid_exposition_family(struct braid_exposition *e, const char *name,
			     enum braid_exposition_type type, const char *help)
{
	/* The old format knows no info. */
	static const char *const types[][2] = {
		[BRAID_COUNTER] = { "counter", "counter" },
		[BRAID_GAUGE] = { "gauge", "gauge" },
		[BRAID_HISTOGRAM] = { "histogram", "histogram" },
		[BRAID_INFO] = { "gauge", "info" },
	};
	const char *tail, *unit = ends_with(name, "_seconds") ? "seconds" :
				  ends_with(name, "_bytes") ? "bytes" : NULL;

	e->name = name;
	e->type = type;
	/* In the old format a family has the name of its samples. */
	tail = e->open ? "" : suffix_of(e);
	braid_text_printf(e->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, tail, help, name, tail,
			  types[type][e->open]);
	if (e->open && unit)
		braid_text_printf(e->out, "# UNIT %s %s\n", name, unit);
}

void braid_exposition_sample(struct braid_exposition *e, const char *suffix)
{
	braid_text_puts(e->out, e->name);
	braid_text_puts(e->out, suffix ?: suffix_of(e));
	e->labels = false;
}

static void exposition_key(struct braid_exposition *e, const char *key)
{
	braid_text_putc(e->out, e->labels ? ',' : '{');
	e->labels = true;
	braid_text_puts(e->out, key);
	braid_text_puts(e->out, "=\"");
}

void braid_exposition_label(struct braid_exposition *e, const char *key, const char *value)
{
	exposition_key(e, key);
	for (; *value; value++) {
		if (*value == '\\' || *value == '"')
			braid_text_putc(e->out, '\\');
		if (*value == '\n')
			braid_text_puts(e->out, "\\n");
		else
			braid_text_putc(e->out, *value);
	}
	braid_text_putc(e->out, '"');
}

void braid_exposition_label_number(struct braid_exposition *e, const char *key, u64 value)
{
	exposition_key(e, key);
	braid_text_number(e->out, value);
	braid_text_putc(e->out, '"');
}

/* In seconds: all digits that are not 0, and one. */
static void put_seconds(struct braid_text *out, u64 ns)
{
	u64 rest = ns % SECOND_NS, digit = SECOND_NS / 10;

	braid_text_number(out, ns / SECOND_NS);
	braid_text_putc(out, '.');
	do {
		braid_text_putc(out, '0' + rest / digit);
		rest %= digit;
		digit /= 10;
	} while (rest);
}

void braid_exposition_label_ns(struct braid_exposition *e, const char *key, u64 ns)
{
	exposition_key(e, key);
	put_seconds(e->out, ns);
	braid_text_putc(e->out, '"');
}

static void begin_value(struct braid_exposition *e)
{
	braid_text_puts(e->out, e->labels ? "} " : " ");
}

void braid_exposition_number(struct braid_exposition *e, u64 value)
{
	begin_value(e);
	braid_text_number(e->out, value);
	braid_text_putc(e->out, '\n');
}

void braid_exposition_ns(struct braid_exposition *e, u64 ns)
{
	begin_value(e);
	if (ns == UINT64_MAX)
		braid_text_puts(e->out, "+Inf");
	else
		put_seconds(e->out, ns);
	braid_text_putc(e->out, '\n');
}

void braid_exposition_end(struct braid_exposition *e)
{
	if (e->open)
		braid_text_puts(e->out, "# EOF\n");
}
