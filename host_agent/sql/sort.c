// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Rows in the order of keys, which have few values: a bucket for each value, that has the other
 * columns of its rows, packed, in the order of time.
 *
 * Memory is bounded: when it is used up, the buckets of the greatest keys are dropped, and the pass
 * keeps only rows of lesser keys from then on. The next pass keeps rows of the greater ones. A
 * bucket that takes half of the memory alone is dropped, too; once it is the least, its rows are
 * taken along a walk, and none is kept.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/sql/private.h"
#include "host_agent/util/array.h"

#define MOST_BYTES	(256u << 20)
#define MOST_BUCKETS	(1u << 28)
#define NO_PLACE	UINT16_MAX

struct packed {
	unsigned char *data;
	size_t bytes, capacity;
};

struct bucket {
	uint64_t rows;
	struct packed others;
	uint32_t key_bytes;
	int64_t last[];		/* numbers of the last row, by other column; then the key */
};

struct braid_sql_sort {
	struct braid_sql_cursor *cursor;
	struct braid_sql_order order;
	struct braid_sql *sql;
	uint16_t *others;	/* columns */
	size_t nr_others;
	uint16_t *places;	/* by column: in ->values; NO_PLACE: not asked for */
	struct bucket **buckets;
	size_t nr, capacity;
	struct braid_hash by_key;
	size_t bytes;		/* of buckets */
	struct packed key;	/* of the row where the walk is */
	struct packed after;	/* the greatest key whose rows were taken; empty: none */
	struct packed before;	/* keys from it on are left to the next pass; empty: none */
	bool over;		/* the last pass left none */
	/* The row that is taken: */
	size_t bucket;
	uint64_t row;		/* of the bucket */
	const unsigned char *at;
	struct braid_sql_value *values;	/* keys, others */
};

static size_t most_bytes(const struct braid_sql_sort *s)
{
	return s->sql->options.most_kept ?: MOST_BYTES;
}

static unsigned char *key_of(const struct braid_sql_sort *s, struct bucket *b)
{
	return (unsigned char *)&b->last[s->nr_others];
}

/*
 * Packed values: a byte of kind and length; the bytes of a number's difference from the last one, or
 * of a length, after which there is as much text.
 */

static unsigned char *packed_reserve(struct packed *to, size_t more)
{
	size_t capacity = to->capacity;
	unsigned char *data;

	if (to->capacity - to->bytes >= more)
		return to->data + to->bytes;
	while (capacity - to->bytes < more)
		capacity += capacity / 2 + 32;
	data = realloc(to->data, capacity);
	if (!data)
		return NULL;
	to->data = data;
	to->capacity = capacity;
	return data + to->bytes;
}

static unsigned char *pack_number(unsigned char *at, unsigned int kind, uint64_t number)
{
	unsigned char *head = at++;

	for (; number; number >>= 8)
		*at++ = (unsigned char)number;
	*head = (unsigned char)(kind | (unsigned int)(at - head - 1) << 2);
	return at;
}

/* Return: 0, or -ENOMEM, also for a text that there was no memory for. */
static int pack(struct packed *to, const struct braid_sql_value *value, int64_t *last)
{
	bool text = value->kind > BRAID_SQL_NUMBER;
	uint64_t number = text ? value->bytes : 0;
	unsigned char *at;

	if (text && !value->data)
		return -ENOMEM;
	at = packed_reserve(to, 9 + number);
	if (!at)
		return -ENOMEM;
	if (value->kind == BRAID_SQL_NUMBER) {
		int64_t step = (int64_t)((uint64_t)value->number - (uint64_t)*last);

		number = (uint64_t)step << 1 ^ (uint64_t)(step >> 63);
		*last = value->number;
	}
	at = pack_number(at, value->kind, number);
	if (number && text)
		memcpy(at, value->data, number);
	to->bytes = (size_t)(at - to->data) + (text ? number : 0);
	return 0;
}

static const unsigned char *unpack(const unsigned char *at, struct braid_sql_value *value,
				   int64_t *last)
{
	unsigned int head = *at++, bytes = head >> 2, k;
	uint64_t number = 0;

	*value = (struct braid_sql_value){ .kind = head & 3 };
	for (k = 0; k < bytes; k++)
		number |= (uint64_t)*at++ << 8 * k;
	if (value->kind == BRAID_SQL_NUMBER) {
		number = number >> 1 ^ -(number & 1);
		*last = value->number = (int64_t)((uint64_t)*last + number);
	} else if (value->kind != BRAID_SQL_NULL) {
		value->data = (const char *)at;
		value->bytes = number;
		at += number;
	}
	return at;
}

/* Order --------------------------------------------------------------------------------------- */

/* As SQLite compares: NULL, numbers, strings, bytes. */
static int sort_compare(const struct braid_sql_value *a, const struct braid_sql_value *b)
{
	size_t bytes = a->bytes < b->bytes ? a->bytes : b->bytes;
	int ret;

	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	if (a->kind == BRAID_SQL_NULL)
		return 0;
	if (a->kind == BRAID_SQL_NUMBER)
		return (a->number > b->number) - (a->number < b->number);
	ret = memcmp(a->data, b->data, bytes);
	return ret ?: (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static int compare_keys(const struct braid_sql_order *order, const unsigned char *a,
			const unsigned char *b)
{
	struct braid_sql_value one, other;
	unsigned int k;
	int ret = 0;

	for (k = 0; k < order->nr && !ret; k++) {
		a = unpack(a, &one, &(int64_t){ 0 });
		b = unpack(b, &other, &(int64_t){ 0 });
		ret = sort_compare(&one, &other);
		if (order->keys[k].down)
			ret = -ret;
	}
	return ret;
}

static int compare_buckets(const void *a, const void *b, void *arg)
{
	const struct braid_sql_sort *s = arg;

	return compare_keys(&s->order, key_of(s, *(struct bucket *const *)a),
			    key_of(s, *(struct bucket *const *)b));
}

static void sort_buckets(struct braid_sql_sort *s)
{
	if (s->nr)
		qsort_r(s->buckets, s->nr, sizeof(*s->buckets), compare_buckets, s);
}

static int copy_key(struct packed *to, const unsigned char *key, size_t bytes)
{
	to->bytes = 0;
	if (!packed_reserve(to, bytes))
		return -ENOMEM;
	memcpy(to->data, key, bytes);
	to->bytes = bytes;
	return 0;
}

/* Buckets ------------------------------------------------------------------------------------- */

static size_t bucket_bytes(const struct braid_sql_sort *s, const struct bucket *b)
{
	return sizeof(*b) + s->nr_others * sizeof(*b->last) + b->key_bytes + b->others.capacity +
	       sizeof(b) + 4 * sizeof(struct braid_hash_slot);
}

static void free_bucket(struct bucket *b)
{
	free(b->others.data);
	free(b);
}

static void forget_buckets(struct braid_sql_sort *s)
{
	while (s->nr)
		free_bucket(s->buckets[--s->nr]);
	braid_hash_clear(&s->by_key);
	s->bytes = 0;
}

/* Leaves those of the least keys that take half of the memory. */
static int shrink(struct braid_sql_sort *s)
{
	size_t bytes = 0, nr = 0, k;
	int err;

	sort_buckets(s);
	while (nr < s->nr && bytes + bucket_bytes(s, s->buckets[nr]) <= most_bytes(s) / 2)
		bytes += bucket_bytes(s, s->buckets[nr++]);
	if (nr == s->nr)
		return 0;
	err = copy_key(&s->before, key_of(s, s->buckets[nr]), s->buckets[nr]->key_bytes);
	while (s->nr > nr)
		free_bucket(s->buckets[--s->nr]);
	s->bytes = bytes;
	braid_hash_clear(&s->by_key);
	for (k = 0; k < nr && !err; k++) {
		struct bucket *b = s->buckets[k];

		err = braid_hash_reserve(&s->by_key, MOST_BUCKETS);
		if (!err)
			braid_hash_put(&s->by_key, braid_hash_of(key_of(s, b), b->key_bytes, 0), k);
	}
	return err ? -ENOMEM : 0;
}

static bool sort_same(const void *in, u32 number, const void *key)
{
	const struct braid_sql_sort *s = in;
	const struct packed *wanted = key;
	struct bucket *b = s->buckets[number];

	return b->key_bytes == wanted->bytes && !memcmp(key_of(s, b), wanted->data, wanted->bytes);
}

static int add_bucket(struct braid_sql_sort *s, u32 hash)
{
	struct bucket *b;

	if (braid_hash_reserve(&s->by_key, MOST_BUCKETS))
		return -ENOMEM;
	b = calloc(1, sizeof(*b) + s->nr_others * sizeof(*b->last) + s->key.bytes);
	if (!b || braid_array_push(s->buckets, s->nr, s->capacity, b)) {
		free(b);
		return -ENOMEM;
	}
	b->key_bytes = (uint32_t)s->key.bytes;
	memcpy(key_of(s, b), s->key.data, s->key.bytes);
	braid_hash_put(&s->by_key, hash, s->nr - 1);
	s->bytes += bucket_bytes(s, b);
	return 0;
}

static int find_key(struct braid_sql_sort *s)
{
	struct braid_sql_value value;
	unsigned int k;
	int err = 0;

	s->key.bytes = 0;
	for (k = 0; k < s->order.nr && !err; k++) {
		braid_sql_value_of(s->cursor, s->order.keys[k].column, &value);
		err = pack(&s->key, &value, &(int64_t){ 0 });
	}
	return err;
}

static bool is_in_pass(const struct braid_sql_sort *s)
{
	return (!s->after.bytes || compare_keys(&s->order, s->key.data, s->after.data) > 0) &&
	       (!s->before.bytes || compare_keys(&s->order, s->key.data, s->before.data) < 0);
}

static int add_row(struct braid_sql_sort *s, struct bucket *b)
{
	size_t capacity = b->others.capacity, k;
	int err = 0;

	for (k = 0; k < s->nr_others && !err; k++) {
		struct braid_sql_value value;

		braid_sql_value_of(s->cursor, s->others[k], &value);
		err = pack(&b->others, &value, &b->last[k]);
	}
	s->bytes += b->others.capacity - capacity;
	if (!s->order.once || s->nr_others || !b->rows)
		b->rows++;
	return err;
}

int braid_sql_sort_keep(struct braid_sql_sort *s)
{
	int err = find_key(s);
	u32 hash, number;

	if (err)
		return err;
	hash = braid_hash_of(s->key.data, s->key.bytes, 0);
	number = braid_hash_find(&s->by_key, hash, sort_same, s, &s->key);
	if (number == BRAID_HASH_NONE) {
		if (!is_in_pass(s))
			return 0;
		err = add_bucket(s, hash);
		number = (u32)s->nr - 1;
	}
	if (!err)
		err = add_row(s, s->buckets[number]);
	if (s->bytes > s->sql->most_kept)
		s->sql->most_kept = s->bytes;
	return !err && s->bytes > most_bytes(s) ? shrink(s) : err;
}

/* Passes -------------------------------------------------------------------------------------- */

bool braid_sql_sort_more(const struct braid_sql_sort *s)
{
	return !s->over;
}

int braid_sql_sort_end_pass(struct braid_sql_sort *s)
{
	struct bucket *last;
	bool left = s->before.bytes;
	int err;

	s->sql->further_passes += left;
	sort_buckets(s);
	last = s->nr ? s->buckets[s->nr - 1] : NULL;
	s->over = !left;
	s->bucket = 0;
	s->row = 0;
	if (!last && !left)
		return BRAID_SQL_PASS_END;
	err = last ? copy_key(&s->after, key_of(s, last), last->key_bytes) :
		     copy_key(&s->after, s->before.data, s->before.bytes);
	s->before.bytes = 0;
	return err ? err : last ? BRAID_SQL_PASS_KEPT : BRAID_SQL_PASS_DIRECT;
}

int braid_sql_sort_is_direct(struct braid_sql_sort *s)
{
	int err = find_key(s);

	return err ? err : s->key.bytes == s->after.bytes &&
			   !memcmp(s->key.data, s->after.data, s->key.bytes);
}

static void begin_bucket(struct braid_sql_sort *s, struct bucket *b)
{
	const unsigned char *key = key_of(s, b);
	unsigned int k;

	for (k = 0; k < s->order.nr; k++)
		key = unpack(key, &s->values[k], &(int64_t){ 0 });
	memset(b->last, 0, s->nr_others * sizeof(*b->last));
	s->at = b->others.data;
}

bool braid_sql_sort_next(struct braid_sql_sort *s)
{
	struct bucket *b;
	size_t k;

	while (s->bucket < s->nr && s->row == s->buckets[s->bucket]->rows) {
		s->bucket++;
		s->row = 0;
	}
	if (s->bucket == s->nr) {
		forget_buckets(s);
		return false;
	}
	b = s->buckets[s->bucket];
	if (!s->row++)
		begin_bucket(s, b);
	for (k = 0; k < s->nr_others; k++)
		s->at = unpack(s->at, &s->values[s->order.nr + k], &b->last[k]);
	return true;
}

const struct braid_sql_value *braid_sql_sort_value(const struct braid_sql_sort *s,
						   unsigned int column)
{
	return s->places[column] == NO_PLACE ? NULL : &s->values[s->places[column]];
}

/* New, free ----------------------------------------------------------------------------------- */

static bool is_needed(const struct braid_sql_order *order, size_t column)
{
	return order->columns >> (column < 63 ? column : 63) & 1;
}

static void place_columns(struct braid_sql_sort *s, size_t nr_columns)
{
	size_t k;

	for (k = 0; k < nr_columns; k++)
		s->places[k] = NO_PLACE;
	for (k = 0; k < s->order.nr; k++)
		s->places[s->order.keys[k].column] = (uint16_t)k;
	for (k = 0; k < nr_columns; k++) {
		if (s->places[k] != NO_PLACE || !is_needed(&s->order, k))
			continue;
		s->places[k] = (uint16_t)(s->order.nr + s->nr_others);
		s->others[s->nr_others++] = (uint16_t)k;
	}
}

struct braid_sql_sort *braid_sql_sort_new(struct braid_sql_cursor *cursor,
					  const struct braid_sql_order *order)
{
	struct braid_sql_sort *s = calloc(1, sizeof(*s));
	size_t nr = cursor->table->nr_columns;

	if (!s)
		return NULL;
	s->cursor = cursor;
	s->order = *order;
	s->sql = cursor->table->sql;
	s->others = calloc(nr, sizeof(*s->others));
	s->places = calloc(nr, sizeof(*s->places));
	s->values = calloc(nr, sizeof(*s->values));
	if (!s->others || !s->places || !s->values) {
		braid_sql_sort_free(s);
		return NULL;
	}
	place_columns(s, nr);
	return s;
}

void braid_sql_sort_free(struct braid_sql_sort *s)
{
	if (!s)
		return;
	forget_buckets(s);
	braid_hash_free(&s->by_key);
	free(s->buckets);
	free(s->key.data);
	free(s->after.data);
	free(s->before.data);
	free(s->others);
	free(s->places);
	free(s->values);
	free(s);
}
