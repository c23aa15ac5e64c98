// SPDX-License-Identifier: GPL-2.0-or-later
/* Metrics as protobuf have the samples of the text, and native histograms that agree with them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/online/metrics.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/online_engine.h"
#include "tests/unit/scratch.h"

#define SECOND		1000000000ULL
#define MS		1000000ULL
#define SERIES_BYTES	512u

/* One field of a message. */
struct field {
	u32 number, type;
	u64 value;		/* of types 0 and 1 */
	const u8 *data;		/* of type 2 ... */
	size_t bytes;
};

struct message {
	const u8 *at, *end;
};

static u64 varint(struct message *m)
{
	u64 value = 0;
	u32 shift = 0;

	do {
		NEED(m->at < m->end && shift < 64);
		value |= (u64)(*m->at & 0x7f) << shift;
		shift += 7;
	} while (*m->at++ & 0x80);
	return value;
}

/* Return: whether there is one more. */
static bool next(struct message *m, struct field *f)
{
	u64 key;

	if (m->at == m->end)
		return false;
	key = varint(m);
	*f = (struct field){ .number = key >> 3, .type = key & 7 };
	if (f->type == 0) {
		f->value = varint(m);
	} else if (f->type == 1) {
		NEED(m->end - m->at >= 8);
		memcpy(&f->value, m->at, 8);
		m->at += 8;
	} else {
		NEED(f->type == 2);
		f->bytes = varint(m);
		NEED(f->bytes <= (size_t)(m->end - m->at));
		f->data = m->at;
		m->at += f->bytes;
	}
	return true;
}

static struct message inside(const struct field *f)
{
	NEED(f->type == 2);
	return (struct message){ f->data, f->data + f->bytes };
}

static double real(const struct field *f)
{
	double value;

	NEED(f->type == 1);
	memcpy(&value, &f->value, sizeof(value));
	return value;
}

static s64 zigzag(u64 value)
{
	return (s64)(value >> 1) ^ -(s64)(value & 1);
}

/* The value of a series in the text; NaN: it is not there. */
static double in_text(const char *text, const char *series)
{
	size_t bytes = strlen(series);
	const char *at;

	for (at = strstr(text, series); at; at = strstr(at + 1, series))
		if ((at == text || at[-1] == '\n') && at[bytes] == ' ')
			return strtod(at + bytes, NULL);
	return NAN;
}

/* One metric, of which all samples are compared. */
struct metric {
	const char *text;
	char name[128], labels[256];
	u32 nr;			/* samples that were found */
	u64 count;		/* of a histogram */
};

static void compare(struct metric *m, const char *suffix, const char *le, double value)
{
	char series[SERIES_BYTES];

	snprintf(series, sizeof(series), "%s%s%s%s%s%s", m->name, suffix,
		 *m->labels || *le ? "{" : "", m->labels, le, *m->labels || *le ? "}" : "");
	CHECK_EQ(in_text(m->text, series) == value, true);
	m->nr++;
}

static void take_label(struct metric *m, const struct field *label)
{
	struct message in = inside(label);
	struct field key, value;
	size_t used = strlen(m->labels), k;

	NEED(next(&in, &key) && next(&in, &value) && in.at == in.end);
	NEED(key.number == 1 && value.number == 2);
	used += snprintf(m->labels + used, sizeof(m->labels) - used, "%s%.*s=\"", used ? "," : "",
			 (int)key.bytes, (const char *)key.data);
	for (k = 0; k < value.bytes; k++) {
		NEED(used + 4 < sizeof(m->labels));
		if (value.data[k] == '"' || value.data[k] == '\\')
			m->labels[used++] = '\\';
		m->labels[used++] = (char)value.data[k];
	}
	m->labels[used++] = '"';
	m->labels[used] = 0;
}

static void take_bucket(struct metric *m, const struct field *bucket)
{
	struct message in = inside(bucket);
	struct field count, limit;
	char le[64];
	double value;

	NEED(next(&in, &count) && next(&in, &limit));
	value = real(&limit);
	if (isinf(value))
		strcpy(le, ",le=\"+Inf\"");
	else
		snprintf(le, sizeof(le), ",le=\"%.*f\"", value >= 1 ? 1 : 6, value);
	/* As the text has it: without zeros at its end. */
	while (value < 1 && strstr(le, "0\""))
		strcpy(strstr(le, "0\""), "\"");
	compare(m, "_bucket", le, count.value);
}

/* Return: how many the native buckets hold. */
static u64 take_histogram(struct metric *m, struct message in)
{
	u64 in_buckets = 0;
	s64 now = 0;
	struct field f;

	while (next(&in, &f)) {
		if (f.number == 1)
			m->count = f.value;
		if (f.number == 1)
			compare(m, "_count", "", f.value);
		else if (f.number == 2)
			compare(m, "_sum", "", real(&f));
		else if (f.number == 3)
			take_bucket(m, &f);
		else if (f.number == 5)
			CHECK_EQ(zigzag(f.value), 2);
		else if (f.number == 6)
			CHECK_EQ(real(&f) == ldexp(1, -20), true);
		else if (f.number == 7)
			in_buckets += f.value;
		else if (f.number == 13)
			in_buckets += now += zigzag(f.value);
		else
			CHECK_EQ(f.number, 12);
	}
	return in_buckets;
}

static void take_metric(struct metric *m, struct message in)
{
	struct field f, value;
	struct message gauge;

	*m->labels = 0;
	while (next(&in, &f)) {
		if (f.number == 1) {
			take_label(m, &f);
		} else if (f.number == 7) {
			CHECK_EQ(take_histogram(m, inside(&f)), m->count);
		} else {
			gauge = inside(&f);
			NEED(next(&gauge, &value) && value.number == 1);
			compare(m, "", "", real(&value));
		}
	}
}

static u32 samples_of(const char *text)
{
	const char *at = text;
	u32 nr = 0;

	for (; *at; at = strchr(at, '\n') + 1)
		nr += *at != '#';
	return nr;
}

static void write_all(const struct braid_online *o, enum braid_exposition_form form,
		      struct braid_text *text)
{
	struct braid_exposition e = { .out = text, .form = form };

	braid_online_metrics(o, &e);
	braid_exposition_end(&e);
	NEED(!text->failed);
}

static void same_samples(void)
{
	static struct busy_host b = { .for_ns = SECOND, .mark_ns = 5 * MS, .web2 = "a\"b\\c}{,=" };
	static const struct braid_online_options options;
	struct braid_text text = { 0 }, wire = { 0 };
	struct metric m = { 0 };
	struct message all, in;
	struct braid_online *o;
	struct field f;
	u64 bytes;

	b.path = scratch("metrics.braid");
	busy_host(&b);
	NEED(!braid_online_begin(&o, &options) && !online_feed(o, &b));
	write_all(o, BRAID_EXPOSITION_TEXT, &text);
	braid_text_putc(&text, 0);
	write_all(o, BRAID_EXPOSITION_PROTOBUF, &wire);
	m.text = text.data;
	all = (struct message){ (u8 *)wire.data, (u8 *)wire.data + wire.bytes };
	while (all.at < all.end) {
		bytes = varint(&all);
		NEED(bytes <= (size_t)(all.end - all.at));
		in = (struct message){ all.at, all.at + bytes };
		all.at += bytes;
		while (next(&in, &f)) {
			if (f.number == 1)
				snprintf(m.name, sizeof(m.name), "%.*s", (int)f.bytes,
					 (const char *)f.data);
			if (f.number == 4)
				take_metric(&m, inside(&f));
		}
	}
	CHECK_EQ(m.nr, samples_of(text.data));
	CHECK(m.count > 0);
	braid_text_free(&text);
	braid_text_free(&wire);
	braid_online_end(o);
}

/* Limits belong to their buckets, and the next nanosecond to the next one. */
static void buckets(void)
{
	u32 k;

	for (k = 0; k < BRAID_NATIVE_BUCKETS; k++) {
		long double limit_ns = powl(2, ((int)k + BRAID_NATIVE_FIRST - 1) / 4.0L) * 1e9L;
		u64 ns = (u64)limit_ns;

		CHECK_EQ(braid_native_bucket(ns), k);
		CHECK_EQ(braid_native_bucket(ns + 1), k + 1 < BRAID_NATIVE_BUCKETS ? k + 1 : k);
	}
	CHECK_EQ(braid_native_bucket(0), 0);
	CHECK_EQ(braid_native_bucket(SECOND), 80);
}

int main(void)
{
	RUN(buckets);
	RUN(same_samples);
	return VERDICT();
}
