// SPDX-License-Identifier: GPL-2.0-or-later
/* Writes tables: aligned for people, JSON, CSV. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "host_agent/analyze/table.h"
#include "host_agent/util/array.h"

#define CELL_BYTES	64	/* of a number as people see it */

void braid_duration_text(s64 ns, char text[24])
{
	static const struct { const char *unit; u64 ns; } units[] = {
		{ " s", 1000000000 }, { " ms", 1000000 }, { " µs", 1000 }, { " ns", 1 },
	};
	u64 value = ns < 0 ? -(u64)ns : (u64)ns, unit, part;
	u32 k = 0, digits;
	char *at = text;

	while (k < 3 && value < units[k].ns)
		k++;
	unit = units[k].ns;
	digits = k == 3 ? 0 : value < 10 * unit - unit / 2000 ? 3 :
		 value < 100 * unit - unit / 200 ? 2 : 1;
	part = digits == 3 ? unit / 1000 : digits == 2 ? unit / 100 : digits ? unit / 10 : 1;
	value = (value + part / 2) / part;	/* of the last digit shown */
	unit /= part;
	if (ns < 0)
		*at++ = '-';
	at += braid_text_digits(at, value / unit);
	if (digits)
		*at++ = '.';
	for (value %= unit; digits--; value %= unit) {
		unit /= 10;
		*at++ = (char)('0' + value / unit);
	}
	strcpy(at, units[k].unit);
}

static void table_put(struct braid_table *t, struct braid_cell cell)
{
	if (braid_array_push(t->cells, t->nr_cells, t->capacity, cell))
		t->failed = true;
}

void braid_table_text(struct braid_table *t, const char *value)
{
	size_t at = t->texts.bytes;

	braid_text_put(&t->texts, value, strlen(value) + 1);
	table_put(t, (struct braid_cell){ .text = at });
}

void braid_table_number(struct braid_table *t, s64 value)
{
	table_put(t, (struct braid_cell){ .number = value });
}

static const char *show(const struct braid_table *t, size_t cell, char buffer[CELL_BYTES])
{
	const struct braid_cell *c = &t->cells[cell];
	u64 us;

	if (c->number == BRAID_CELL_NONE)	/* a text's is 0 */
		return "-";
	switch (t->columns[cell % t->nr_columns].kind) {
	case BRAID_CELL_TEXT:
	case BRAID_CELL_LIST:
	case BRAID_CELL_FIGURE:
		return t->texts.data + c->text;
	case BRAID_CELL_DURATION:
		braid_duration_text(c->number, buffer);
		break;
	case BRAID_CELL_BOUND:
		braid_bound_text(c->number, buffer);
		break;
	case BRAID_CELL_TIME:
		us = (c->number < 0 ? -(u64)c->number : (u64)c->number) / 1000;
		snprintf(buffer, CELL_BYTES, "%s%llu.%06llu", c->number < 0 ? "-" : "",
			 (unsigned long long)(us / 1000000), (unsigned long long)(us % 1000000));
		break;
	case BRAID_CELL_SHARE:
		snprintf(buffer, CELL_BYTES, "%.2f %%", c->number / 1e4);
		break;
	default:
		snprintf(buffer, CELL_BYTES, "%lld", (long long)c->number);
	}
	return buffer;
}

/* Columns on a terminal: bytes that continue a UTF-8 sequence have none. */
static int width_of(const char *text)
{
	int width = 0;

	for (; *text; text++)
		width += (*text & 0xc0) != 0x80;
	return width;
}

static void put_padded(const struct braid_table *t, u32 column, const char *text, int width,
		       struct braid_text *out)
{
	bool left = t->columns[column].kind == BRAID_CELL_TEXT ||
		    t->columns[column].kind == BRAID_CELL_LIST;
	int pad = width - width_of(text);

	if (column)
		braid_text_puts(out, "  ");
	if (!left)
		braid_text_repeat(out, ' ', pad);
	braid_text_puts(out, text);
	if (left && column + 1 < t->nr_columns)
		braid_text_repeat(out, ' ', pad);
}

static void write_text(const struct braid_table *t, struct braid_text *out)
{
	char buffer[CELL_BYTES];
	int widths[16] = { 0 };
	u32 n;
	size_t k;

	if (!t->nr_cells && t->empty) {
		braid_text_printf(out, "%s\n", t->empty);
		return;
	}
	if (t->title)
		braid_text_printf(out, "%s\n", t->title);
	for (n = 0; n < t->nr_columns; n++)
		widths[n] = width_of(t->columns[n].head);
	for (k = 0; k < t->nr_cells; k++) {
		int width = width_of(show(t, k, buffer));

		n = k % t->nr_columns;
		widths[n] = width > widths[n] ? width : widths[n];
	}
	for (n = 0; n < t->nr_columns; n++)
		put_padded(t, n, t->columns[n].head, widths[n], out);
	for (k = 0; k < t->nr_cells; k++) {
		if (k % t->nr_columns == 0)
			braid_text_putc(out, '\n');
		n = k % t->nr_columns;
		put_padded(t, n, show(t, k, buffer), widths[n], out);
	}
	braid_text_putc(out, '\n');
}

static void write_json(const struct braid_table *t, struct braid_text *out)
{
	size_t k;

	braid_text_printf(out, "\"%s\":[", t->key);
	for (k = 0; k < t->nr_cells; k++) {
		const struct braid_column *column = &t->columns[k % t->nr_columns];

		if (k % t->nr_columns == 0)
			braid_text_puts(out, k ? "},{" : "{");
		else
			braid_text_putc(out, ',');
		braid_text_printf(out, "\"%s\":", column->key);
		if (column->kind == BRAID_CELL_TEXT)
			braid_text_json(out, t->texts.data + t->cells[k].text,
					strlen(t->texts.data + t->cells[k].text));
		else if (column->kind == BRAID_CELL_LIST)
			braid_text_puts(out, t->texts.data + t->cells[k].text);
		else if (t->cells[k].number == BRAID_CELL_NONE)
			braid_text_puts(out, "null");
		else
			braid_text_printf(out, "%lld", (long long)t->cells[k].number);
	}
	braid_text_puts(out, t->nr_cells ? "}]" : "]");
}

/* Quoted where RFC 4180 asks for it. */
static void put_csv(const char *text, struct braid_text *out)
{
	if (!text[strcspn(text, ",\"\n\r")]) {
		braid_text_puts(out, text);
		return;
	}
	braid_text_putc(out, '"');
	for (; *text; text++) {
		if (*text == '"')
			braid_text_putc(out, '"');
		braid_text_putc(out, *text);
	}
	braid_text_putc(out, '"');
}

static void write_csv(const struct braid_table *t, struct braid_text *out)
{
	size_t k;
	u32 n;

	for (n = 0; n < t->nr_columns; n++)
		braid_text_printf(out, "%s%s", n ? "," : "", t->columns[n].key);
	braid_text_putc(out, '\n');
	for (k = 0; k < t->nr_cells; k++) {
		if (t->columns[k % t->nr_columns].kind == BRAID_CELL_TEXT ||
		    t->columns[k % t->nr_columns].kind == BRAID_CELL_LIST)
			put_csv(t->texts.data + t->cells[k].text, out);
		else if (t->cells[k].number != BRAID_CELL_NONE)
			braid_text_printf(out, "%lld", (long long)t->cells[k].number);
		braid_text_putc(out, (k + 1) % t->nr_columns ? ',' : '\n');
	}
}

void braid_table_write(const struct braid_table *t, enum braid_table_form form,
		       struct braid_text *out)
{
	out->failed |= t->failed || t->texts.failed;
	if (out->failed)
		return;
	if (form == BRAID_TABLE_TEXT)
		write_text(t, out);
	else if (form == BRAID_TABLE_JSON)
		write_json(t, out);
	else
		write_csv(t, out);
}

void braid_table_write_next(const struct braid_table *t, enum braid_table_form form,
			    struct braid_text *out)
{
	if (form == BRAID_TABLE_CSV || (form == BRAID_TABLE_TEXT && !t->nr_cells))
		return;
	braid_text_putc(out, form == BRAID_TABLE_JSON ? ',' : '\n');
	braid_table_write(t, form, out);
}

void braid_table_free(struct braid_table *t)
{
	braid_text_free(&t->texts);
	free(t->cells);
	t->cells = NULL;
	t->nr_cells = t->capacity = 0;
}
