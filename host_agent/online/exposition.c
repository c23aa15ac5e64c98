// SPDX-License-Identifier: GPL-2.0-or-later
/* Metrics for Prometheus: its text format 0.0.4, OpenMetrics 1.0.0, or protobuf. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/online/exposition.h"
#include "host_agent/online/native.h"
#include "host_agent/util/wire.h"

#define SECOND_NS	1000000000ULL

#define NUMBER(field)	braid_wire_key(field, BRAID_WIRE_VARINT)
#define DOUBLE(field)	braid_wire_key(field, BRAID_WIRE_FIXED64)
#define BYTES(field)	braid_wire_key(field, BRAID_WIRE_BYTES)

/* Fields of io.prometheus.client's messages. */
enum exposition_fields {
	FAMILY_NAME = 1, FAMILY_HELP = 2, FAMILY_TYPE = 3, FAMILY_METRIC = 4,
	METRIC_LABEL = 1, METRIC_GAUGE = 2, METRIC_COUNTER = 3, METRIC_HISTOGRAM = 7,
	LABEL_NAME = 1, LABEL_VALUE = 2,
	VALUE = 1,
	HISTOGRAM_COUNT = 1, HISTOGRAM_SUM = 2, HISTOGRAM_BUCKET = 3, HISTOGRAM_SCHEMA = 5,
	HISTOGRAM_ZERO_THRESHOLD = 6, HISTOGRAM_ZERO_COUNT = 7, HISTOGRAM_SPAN = 12,
	HISTOGRAM_DELTA = 13,
	BUCKET_COUNT = 1, BUCKET_LIMIT = 2,
	SPAN_OFFSET = 1, SPAN_LENGTH = 2,
};

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

/* Protobuf ---------------------------------------------------------------------------------- */

static void put_double(struct braid_text *out, u32 field, double value)
{
	u64 bits;

	memcpy(&bits, &value, sizeof(bits));
	braid_wire_fixed64(out, DOUBLE(field), bits);
}

/* Signed, of types sint32 and sint64. */
static void put_signed(struct braid_text *out, u32 field, s64 value)
{
	braid_wire_number(out, NUMBER(field), (u64)value << 1 ^ (u64)(value >> 63));
}

static void put_text(struct braid_text *out, u32 field, const char *text)
{
	braid_wire_bytes(out, BYTES(field), text, strlen(text));
}

static void end_family(struct braid_exposition *e)
{
	if (e->family)
		braid_wire_end(e->out, e->family);
	e->family = 0;
}

static void begin_family(struct braid_exposition *e, const char *help)
{
	static const u8 types[] = {
		[BRAID_COUNTER] = 0, [BRAID_GAUGE] = 1, [BRAID_INFO] = 1, [BRAID_HISTOGRAM] = 4,
	};
	char name[128];

	end_family(e);
	/* A length without a key. */
	braid_text_putc(e->out, 0);
	e->family = e->out->bytes;
	snprintf(name, sizeof(name), "%s%s", e->name, suffix_of(e));
	put_text(e->out, FAMILY_NAME, name);
	put_text(e->out, FAMILY_HELP, help);
	braid_wire_number(e->out, NUMBER(FAMILY_TYPE), types[e->type]);
}

static void put_label(struct braid_exposition *e, const char *key, const char *value)
{
	size_t label = braid_wire_begin(e->out, BYTES(METRIC_LABEL));

	put_text(e->out, LABEL_NAME, key);
	put_text(e->out, LABEL_VALUE, value);
	braid_wire_end(e->out, label);
}

static void end_sample(struct braid_exposition *e, double value)
{
	u32 field = e->type == BRAID_COUNTER ? METRIC_COUNTER : METRIC_GAUGE;
	size_t message = braid_wire_begin(e->out, BYTES(field));

	put_double(e->out, VALUE, value);
	braid_wire_end(e->out, message);
	braid_wire_end(e->out, e->sample);
}

static void put_classic(struct braid_text *out, const struct braid_exposition_histogram *h)
{
	size_t bucket;
	u64 sum = 0;
	u32 k;

	for (k = 0; k <= h->nr_limits; k++) {
		sum += h->counts[k];
		bucket = braid_wire_begin(out, BYTES(HISTOGRAM_BUCKET));
		braid_wire_number(out, NUMBER(BUCKET_COUNT), sum);
		put_double(out, BUCKET_LIMIT,
			   k < h->nr_limits ? h->limits_ns[k] / 1e9 : INFINITY);
		braid_wire_end(out, bucket);
	}
}

/* One span, from the first bucket that has any to the last. */
static void put_native(struct braid_text *out, const u64 natives[BRAID_NATIVE_BUCKETS])
{
	u32 first = 1, end = BRAID_NATIVE_BUCKETS, k;
	u64 former = 0;
	size_t span;

	put_signed(out, HISTOGRAM_SCHEMA, BRAID_NATIVE_SCHEMA);
	put_double(out, HISTOGRAM_ZERO_THRESHOLD, BRAID_NATIVE_ZERO);
	braid_wire_number(out, NUMBER(HISTOGRAM_ZERO_COUNT), natives[0]);
	while (end > 1 && !natives[end - 1])
		end--;
	while (first < end && !natives[first])
		first++;
	if (first == end)
		return;
	span = braid_wire_begin(out, BYTES(HISTOGRAM_SPAN));
	put_signed(out, SPAN_OFFSET, BRAID_NATIVE_FIRST + (s64)first - 1);
	braid_wire_number(out, NUMBER(SPAN_LENGTH), end - first);
	braid_wire_end(out, span);
	for (k = first; k < end; k++) {
		put_signed(out, HISTOGRAM_DELTA, (s64)(natives[k] - former));
		former = natives[k];
	}
}

static void put_histogram(struct braid_exposition *e, const char *key, const char *value,
			  const struct braid_exposition_histogram *h)
{
	size_t metric = braid_wire_begin(e->out, BYTES(FAMILY_METRIC)), message;

	put_label(e, key, value);
	message = braid_wire_begin(e->out, BYTES(METRIC_HISTOGRAM));
	braid_wire_number(e->out, NUMBER(HISTOGRAM_COUNT), h->nr);
	put_double(e->out, HISTOGRAM_SUM, h->sum_ns / 1e9);
	put_classic(e->out, h);
	put_native(e->out, h->natives);
	braid_wire_end(e->out, message);
	braid_wire_end(e->out, metric);
}

/* All forms --------------------------------------------------------------------------------- */

static bool is_protobuf(const struct braid_exposition *e)
{
	return e->form == BRAID_EXPOSITION_PROTOBUF;
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
	bool open = e->form == BRAID_EXPOSITION_OPEN;
	const char *tail, *unit = ends_with(name, "_seconds") ? "seconds" :
				  ends_with(name, "_bytes") ? "bytes" : NULL;

	e->name = name;
	e->type = type;
	if (is_protobuf(e)) {
		begin_family(e, help);
		return;
	}
	/* In the old format a family has the name of its samples. */
	tail = open ? "" : suffix_of(e);
	braid_text_printf(e->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, tail, help, name, tail,
			  types[type][open]);
	if (open && unit)
		braid_text_printf(e->out, "# UNIT %s %s\n", name, unit);
}

static void begin_line(struct braid_exposition *e, const char *suffix)
{
	braid_text_puts(e->out, e->name);
	braid_text_puts(e->out, suffix);
	e->labels = false;
}

void braid_exposition_sample(struct braid_exposition *e)
{
	if (is_protobuf(e))
		e->sample = braid_wire_begin(e->out, BYTES(FAMILY_METRIC));
	else
		begin_line(e, suffix_of(e));
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
	if (is_protobuf(e)) {
		put_label(e, key, value);
		return;
	}
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
	char digits[24];

	snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value);
	braid_exposition_label(e, key, digits);
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

static void begin_value(struct braid_exposition *e)
{
	braid_text_puts(e->out, e->labels ? "} " : " ");
}

void braid_exposition_number(struct braid_exposition *e, u64 value)
{
	if (is_protobuf(e)) {
		end_sample(e, value);
		return;
	}
	begin_value(e);
	braid_text_number(e->out, value);
	braid_text_putc(e->out, '\n');
}

void braid_exposition_ns(struct braid_exposition *e, u64 ns)
{
	if (is_protobuf(e)) {
		end_sample(e, ns == UINT64_MAX ? INFINITY : ns / 1e9);
		return;
	}
	begin_value(e);
	if (ns == UINT64_MAX)
		braid_text_puts(e->out, "+Inf");
	else
		put_seconds(e->out, ns);
	braid_text_putc(e->out, '\n');
}

static void put_buckets(struct braid_exposition *e, const char *key, const char *value,
			const struct braid_exposition_histogram *h)
{
	u64 sum = 0;
	u32 k;

	for (k = 0; k <= h->nr_limits; k++) {
		sum += h->counts[k];
		begin_line(e, "_bucket");
		braid_exposition_label(e, key, value);
		exposition_key(e, "le");
		if (k < h->nr_limits)
			put_seconds(e->out, h->limits_ns[k]);
		else
			braid_text_puts(e->out, "+Inf");
		braid_text_putc(e->out, '"');
		braid_exposition_number(e, sum);
	}
}

void braid_exposition_durations(struct braid_exposition *e, const char *key, const char *value,
				const struct braid_exposition_histogram *h)
{
	if (is_protobuf(e)) {
		put_histogram(e, key, value, h);
		return;
	}
	put_buckets(e, key, value, h);
	begin_line(e, "_sum");
	braid_exposition_label(e, key, value);
	braid_exposition_ns(e, h->sum_ns);
	begin_line(e, "_count");
	braid_exposition_label(e, key, value);
	braid_exposition_number(e, h->nr);
}

void braid_exposition_end(struct braid_exposition *e)
{
	if (e->form == BRAID_EXPOSITION_OPEN)
		braid_text_puts(e->out, "# EOF\n");
	end_family(e);
}
