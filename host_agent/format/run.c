// SPDX-License-Identifier: GPL-2.0-or-later
/* Runs compiled print formats: space is reserved once per event, then bytes are written. */
#include <stdio.h>
#include <string.h>

#include "host_agent/format/constants.h"
#include "host_agent/format/format.h"
#include "host_agent/format/program.h"
#include "host_agent/trace/symbols.h"
#include "host_agent/util/address.h"
#include "host_agent/util/array.h"

#define FRAME_BYTES	18u		/* of an address, with 0x */

/* What the steps of one event work on. */
struct run {
	const struct braid_format_program *steps;
	const u8 *data;
	u32 bytes;
	struct braid_text *out;
	char *at;		/* in out: where the next byte goes */
	bool special;		/* some bytes are not braid_text_simple() */
};

static void run_put(struct run *r, const char *text, size_t bytes)
{
	memcpy(r->at, text, bytes);
	r->at += bytes;
}

/* A text of the steps' own. */
static void run_put_text(struct run *r, const char *text, u32 bytes)
{
	u32 k;

	for (k = 0; k < bytes; k += BRAID_STEP_BLOCK)
		memcpy(r->at + k, text + k, BRAID_STEP_BLOCK);
	r->at += bytes;
}

static void pad(struct run *r, char with, s64 nr)
{
	while (nr-- > 0)
		*r->at++ = with;
}

/* Pads to the requested width: strings, and digits with their sign or prefix. */
static void put_shaped(struct run *r, const struct braid_shape *shape, const char *text,
		       size_t bytes)
{
	s64 missing = shape->width - (s64)bytes;

	if (missing > 0 && !shape->left)
		pad(r, ' ', missing);
	run_put(r, text, bytes);
	if (missing > 0 && shape->left)
		pad(r, ' ', missing);
}

static u64 run_cut(u64 value, u32 bytes)
{
	return bytes == 8 ? value : value & ((1ULL << 8 * bytes) - 1);
}

static s64 run_widen(u64 value, u32 bytes)
{
	u32 shift = 64 - 8 * bytes;

	return (s64)(value << shift) >> shift;
}

/* A sign or a prefix, zeros, then digits. */
static void put_digits(struct run *r, const struct braid_shape *shape, const char *before,
		       u32 before_bytes, const char *digits, u32 nr)
{
	s64 missing = shape->width - (s64)before_bytes - nr;

	if (missing > 0 && !shape->zeros && !shape->left)
		pad(r, ' ', missing);
	run_put(r, before, before_bytes);
	if (missing > 0 && shape->zeros)
		pad(r, '0', missing);
	run_put(r, digits, nr);
	if (missing > 0 && shape->left)
		pad(r, ' ', missing);
}

static void put_decimal(struct run *r, const struct braid_shape *shape, u64 value)
{
	bool negative = false;
	char digits[BRAID_U64_DIGITS];
	u32 nr;

	if (shape->sign) {
		negative = run_widen(value, shape->bytes) < 0;
		value = run_widen(value, shape->bytes);
		value = negative ? -value : value;
	} else {
		value = run_cut(value, shape->bytes);
	}
	if (!shape->width) {
		*r->at = '-';
		r->at += negative;
		r->at += braid_text_digits(r->at, value);
		return;
	}
	nr = braid_text_digits(digits, value);
	put_digits(r, shape, "-", negative, digits, nr);
}

/* Eight digits of a number, a byte each, the first one lowest. */
static u64 eight_hex(u32 value, bool upper)
{
	const u64 ones = BRAID_TEXT_ONES;
	u64 x = value;

	x = (x | x << 16) & 0x0000ffff0000ffffULL;
	x = (x | x << 8) & 0x00ff00ff00ff00ffULL;
	x = __builtin_bswap64((x | x << 4) & 0x0f0f0f0f0f0f0f0fULL);
	/* Those from 10 on are letters. */
	return x + ones * '0' + ((x + 6 * ones) >> 4 & ones) * ((upper ? 'A' : 'a') - '0' - 10);
}

/* At least @least digits, 1 to 16. Return: their number; 16 bytes may be written to. */
static inline u32 hex_digits(char *to, u64 value, u32 least, bool upper)
{
	u32 nr = (67 - __builtin_clzll(value | 1)) / 4;
	u64 high, low;

	nr = nr < least ? least : nr;
	value <<= 64 - 4 * nr;
	high = eight_hex(value >> 32, upper);
	memcpy(to, &high, sizeof(high));
	if (nr > 8) {
		low = eight_hex(value, upper);
		memcpy(to + 8, &low, sizeof(low));
	}
	return nr;
}

static void put_hex(struct run *r, const struct braid_shape *shape, u64 value)
{
	char digits[16];
	u32 nr;

	value = run_cut(value, shape->bytes);
	if (!shape->width && !shape->prefix) {
		r->at += hex_digits(r->at, value, 1, shape->upper);
		return;
	}
	nr = hex_digits(digits, value, 1, shape->upper);
	put_digits(r, shape, shape->upper ? "0X" : "0x", shape->prefix && value ? 2 : 0, digits,
		   nr);
}

static void run_put_rest(struct run *r, u64 value)
{
	run_put(r, "0x", 2);
	r->at += hex_digits(r->at, value, 1, false);
}

static void put_printf(struct run *r, const struct braid_shape *shape, u64 value)
{
	value = shape->sign ? (u64)run_widen(value, shape->bytes) : run_cut(value, shape->bytes);
	r->at += sprintf(r->at, shape->format, value);
}

static void put_char(struct run *r, const struct braid_shape *shape, u64 value)
{
	char c = value;

	r->special |= !braid_text_simple(&c, 1);
	put_shaped(r, shape, &c, !!c);	/* what is printed holds no NUL */
}

/* glibc's %p */
static void put_pointer(struct run *r, u64 value)
{
	if (value)
		run_put_rest(r, value);
	else
		run_put(r, "(nil)", 5);
}

/* Space for what has any length, and for all steps after it. Return: false: out of memory. */
static bool run_reserve(struct run *r, size_t bytes)
{
	r->out->bytes = r->at - r->out->data;
	r->at = braid_text_reserve(r->out, bytes + r->steps->most +
				   r->steps->most_each * r->bytes);
	return r->at;
}

/* A symbol's name has any length. */
static bool put_function(struct run *r, const struct braid_step *p, u64 address)
{
	unsigned long long start = address;
	const char *name = r->steps->symbols ?
			   braid_symbols_find(r->steps->symbols, &start) : NULL;
	size_t bytes;

	if (!name) {
		run_put_rest(r, address);
		return true;
	}
	bytes = strlen(name);
	if (!run_reserve(r, bytes))
		return false;
	run_put(r, name, bytes);
	r->special |= !braid_text_simple(name, bytes);
	if (p->offset_too) {
		*r->at++ = '+';
		run_put_rest(r, address - start);
	}
	return true;
}

/* Likewise the text at an address. */
static bool put_constant(struct run *r, const struct braid_step *p, u64 address)
{
	const char *text = braid_constants_find(r->steps->constants, address);
	size_t bytes;

	if (!text) {
		r->at += hex_digits(r->at, address, 1, false);
		return true;
	}
	bytes = strlen(text);
	if (p->shape.most >= 0 && (size_t)p->shape.most < bytes)
		bytes = p->shape.most;
	if (!run_reserve(r, bytes + (u32)p->shape.width))
		return false;
	r->special |= !braid_text_simple(text, bytes);
	put_shaped(r, &p->shape, text, bytes);
	return true;
}

/* A string that ends at a NUL or after @room bytes. */
static void run_put_string(struct run *r, const struct braid_step *p, const u8 *from, size_t room)
{
	s64 most = p->shape.most;
	size_t bytes;

	if (p->value) {
		most = (s32)braid_node_number(p->value, r->data, r->bytes);
		if (most < 0)	/* C has it so */
			most = -1;
	}
	if (most >= 0 && (u64)most < room)
		room = most;
	bytes = strnlen((const char *)from, room);
	r->special |= !braid_text_simple((const char *)from, bytes);
	put_shaped(r, &p->shape, (const char *)from, bytes);
}

static void put_dynamic_string(struct run *r, const struct braid_step *p)
{
	u32 length, at = braid_node_locate(r->data, r->bytes, p->offset, p->base, &length);

	if (length)	/* it ends at its NUL, or where the payload does */
		run_put_string(r, p, r->data + at, r->bytes - at);
}

static void run_put_name(struct run *r, const struct braid_step *p, s64 value)
{
	u32 k;

	braid_array_first(k, p->nr_names, p->names[k].value >= value);
	if (k < p->nr_names && p->names[k].value == value)
		run_put_text(r, p->names[k].text, p->names[k].bytes);
	else
		run_put_rest(r, value);
}

static void put_flags(struct run *r, const struct braid_step *p, s64 value)
{
	bool any = false;
	u32 k;

	for (k = 0; k < p->nr_names; k++) {
		const struct braid_value_name *name = &p->names[k];

		if (!value && name->value < 0) {
			run_put_text(r, name->text, name->bytes);
			break;
		}
		if (name->value <= 0 || (value & name->value) != name->value)
			continue;
		if (any)
			run_put_text(r, p->text, p->text_bytes);
		run_put_text(r, name->text, name->bytes);
		any = true;
		value &= ~name->value;
	}
	if (!value)
		return;
	if (any)
		run_put_text(r, p->text, p->text_bytes);
	run_put_rest(r, value);
}

/* Where a field's bytes are, or a dynamic field's data. */
static const u8 *run_place(const struct braid_step *p, const u8 *data, u32 bytes, u32 *length)
{
	*length = p->bytes ? p->bytes : bytes - p->offset;
	return data + (p->dynamic ? braid_node_locate(data, bytes, p->offset, p->base, length) :
				    p->offset);
}

/* Where an array's elements are, and how many. */
static const u8 *array_at(struct run *r, const struct braid_step *p, u32 *nr)
{
	u32 room, count = braid_node_number(p->value, r->data, r->bytes);
	const u8 *at = run_place(p, r->data, r->bytes, &room);

	if (p->op != BRAID_STEP_DUMP)	/* others may read past the field */
		room = r->bytes - (at - r->data);
	*nr = count < room / p->element ? count : room / p->element;
	return at;
}

static void put_bytes(struct run *r, const struct braid_step *p)
{
	static const char digit[] = "0123456789abcdef";
	const u8 *from;
	u32 nr, k;

	from = array_at(r, p, &nr);
	for (k = 0; k < nr; k++) {
		if (k && p->between)
			*r->at++ = p->between;
		*r->at++ = digit[from[k] >> 4];
		*r->at++ = digit[from[k] & 15];
	}
}

static void put_mask(struct run *r, const struct braid_step *p)
{
	u32 length, bits, missing;
	const u8 *from = run_place(p, r->data, r->bytes, &length);
	char *start = r->at;
	bool more;

	bits = 8 * length;
	if (p->value) {
		u64 count = braid_node_number(p->value, r->data, r->bytes);

		bits = count < bits ? count : bits;
	}
	more = bits > BRAID_MASK_BITS;
	bits = more ? BRAID_MASK_BITS : bits;
	r->at = p->op == BRAID_STEP_CPUS ? braid_cpus_put(r->at, from, bits) :
					   braid_mask_put(r->at, from, bits);
	if (more)
		run_put(r, "...", 3);
	if (r->at - start >= p->shape.width)
		return;
	missing = p->shape.width - (r->at - start);
	if (!p->shape.left) {
		memmove(start + missing, start, r->at - start);
		memset(start, ' ', missing);
		r->at += missing;
	} else {
		pad(r, ' ', missing);
	}
}

static void put_address(struct run *r, const struct braid_step *p)
{
	u32 length;
	const u8 *from = run_place(p, r->data, r->bytes, &length);

	r->at = braid_address_put(r->at, p->variant, from, length);
}

/* As the kernel's trace_print_array_seq() does. */
static void put_array(struct run *r, const struct braid_step *p)
{
	const u8 *from;
	u32 nr, k;

	from = array_at(r, p, &nr);
	*r->at++ = '{';
	for (k = 0; k < nr; k++) {
		if (k)
			*r->at++ = ',';
		run_put_rest(r, braid_node_load(from + k * p->element, p->element));
	}
	*r->at++ = '}';
}

/* One line, unlike the kernel's. */
static bool put_frames(struct run *r, const struct braid_step *p)
{
	u32 length, at;
	const u8 *from = run_place(p, r->data, r->bytes, &length);

	for (at = 0; at + sizeof(u64) <= length; at += sizeof(u64)) {
		if (!run_reserve(r, strlen(BRAID_FRAME_BEFORE) + FRAME_BYTES))
			return false;
		run_put(r, BRAID_FRAME_BEFORE, strlen(BRAID_FRAME_BEFORE));
		if (!put_function(r, p, braid_node_load(from + at, sizeof(u64))))
			return false;
	}
	return true;
}

/* One step that writes. Return: whether there was memory. */
static bool step(struct run *r, const struct braid_step *p)
{
	switch (p->op) {
	case BRAID_STEP_DECIMAL:
		put_decimal(r, &p->shape, braid_node_number(p->value, r->data, r->bytes));
		return true;
	case BRAID_STEP_HEX:
		put_hex(r, &p->shape, braid_node_number(p->value, r->data, r->bytes));
		return true;
	case BRAID_STEP_PRINTF:
		put_printf(r, &p->shape, braid_node_number(p->value, r->data, r->bytes));
		return true;
	case BRAID_STEP_CHAR:
		put_char(r, &p->shape, braid_node_number(p->value, r->data, r->bytes));
		return true;
	case BRAID_STEP_POINTER:
		put_pointer(r, braid_node_number(p->value, r->data, r->bytes));
		return true;
	case BRAID_STEP_FUNCTION:
		return put_function(r, p, braid_node_number(p->value, r->data, r->bytes));
	case BRAID_STEP_CONSTANT:
		return put_constant(r, p, braid_node_number(p->value, r->data, r->bytes));
	case BRAID_STEP_CHARS:
		run_put_string(r, p, r->data + p->offset,
			       p->bytes ? p->bytes : r->bytes - p->offset);
		return true;
	case BRAID_STEP_STRING:
		put_dynamic_string(r, p);
		return true;
	case BRAID_STEP_NAME:
		run_put_name(r, p, braid_node_number(p->value, r->data, r->bytes));
		return true;
	case BRAID_STEP_FLAGS:
		put_flags(r, p, braid_node_number(p->value, r->data, r->bytes));
		return true;
	case BRAID_STEP_BYTES:
	case BRAID_STEP_DUMP:
		put_bytes(r, p);
		return true;
	case BRAID_STEP_ARRAY:
		put_array(r, p);
		return true;
	case BRAID_STEP_FRAMES:
		return put_frames(r, p);
	case BRAID_STEP_MASK:
	case BRAID_STEP_CPUS:
		put_mask(r, p);
		return true;
	case BRAID_STEP_ADDRESS:
		put_address(r, p);
		return true;
	}
	return true;
}

bool braid_program_holds(const struct braid_format_program *s, const u8 *data, u32 bytes)
{
	u32 length, from;
	size_t k;

	if (!s->arrays)
		return true;
	for (k = 0; k < s->nr; k++) {
		const struct braid_step *p = &s->at[k];

		if (p->op != BRAID_STEP_BYTES && p->op != BRAID_STEP_ARRAY)
			continue;
		from = run_place(p, data, bytes, &length) - data;
		if ((u32)braid_node_number(p->value, data, bytes) > (bytes - from) / p->element)
			return false;
	}
	return true;
}

/* Up to a NUL, of 16 bytes. */
static char *put_comm(char *at, const u8 *from, bool *special)
{
	const u64 ones = BRAID_TEXT_ONES, high = 0x8080808080808080ULL;
	u32 bytes;
	u64 v[2];

	memcpy(v, from, sizeof(v));
	memcpy(at, v, sizeof(v));
	v[0] = (v[0] - ones) & ~v[0] & high;	/* the lowest bit is the first NUL's */
	v[1] = (v[1] - ones) & ~v[1] & high;
	bytes = v[0] ? __builtin_ctzll(v[0]) / 8 : v[1] ? 8 + __builtin_ctzll(v[1]) / 8 : 16;
	*special |= !braid_text_simple(at, bytes);
	return at + bytes;
}

static char *put_signed(char *at, s64 value)
{
	*at = '-';
	at += value < 0;
	return at + braid_text_digits(at, value < 0 ? -(u64)value : (u64)value);
}

bool braid_program_run(const struct braid_format_program *s, const u8 *data, u32 bytes,
		       struct braid_text *out)
{
	struct run r = { .steps = s, .data = data, .bytes = bytes, .out = out,
			 .special = s->special };
	const struct braid_quick *q = s->quick, *end = q + s->nr_quick;
	char *at = braid_text_reserve(out, s->most + s->most_each * bytes);

	/* Jump targets are ahead, so this terminates. */
	for (; at && q < end; q++) {
		memcpy(at, q->text, sizeof(q->text));
		at += q->text_bytes;
		switch (q->op) {
		case BRAID_QUICK_S32:
			at = put_signed(at, (s32)braid_node_load(data + q->offset, 4));
			break;
		case BRAID_QUICK_U32:
			at += braid_text_digits(at, braid_node_load(data + q->offset, 4));
			break;
		case BRAID_QUICK_S64:
			at = put_signed(at, (s64)braid_node_load(data + q->offset, 8));
			break;
		case BRAID_QUICK_U64:
			at += braid_text_digits(at, braid_node_load(data + q->offset, 8));
			break;
		case BRAID_QUICK_HEX32:
			at += hex_digits(at, braid_node_load(data + q->offset, 4), q->digits, false);
			break;
		case BRAID_QUICK_HEX64:
			at += hex_digits(at, braid_node_load(data + q->offset, 8), q->digits, false);
			break;
		case BRAID_QUICK_COMM:
			at = put_comm(at, data + q->offset, &r.special);
			break;
		case BRAID_QUICK_CHOOSE:
			if (!braid_node_number(q->value, data, bytes))
				q = s->quick + q->target - 1;
			break;
		case BRAID_QUICK_GO:
			q = s->quick + q->target - 1;
			break;
		case BRAID_QUICK_STEP:
			r.at = at;
			at = step(&r, q->step) ? r.at : NULL;
		}
	}
	if (at)
		out->bytes = at - out->data;
	return at && !r.special;
}
