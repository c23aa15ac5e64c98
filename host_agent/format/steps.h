/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A print format compiled: what is to be written, one step after another. Prints what
 * libtraceevent prints, letter by letter, without looking at the format again.
 */
#ifndef BRAID_FORMAT_STEPS_H
#define BRAID_FORMAT_STEPS_H

#include "host_agent/format/private.h"
#include "host_agent/format/value.h"

/* Texts of steps are copied in blocks: so many bytes may be read and written behind them. */
#define BRAID_STEP_BLOCK	16u

enum braid_step_op {
	BRAID_STEP_TEXT,	/* as it is */
	BRAID_STEP_DECIMAL,	/* a number */
	BRAID_STEP_HEX,
	BRAID_STEP_PRINTF,	/* a number, in one of the ways that are seldom */
	BRAID_STEP_POINTER,
	BRAID_STEP_FUNCTION,	/* a symbol at an address */
	BRAID_STEP_CHARS,	/* bytes of a field, up to a NUL */
	BRAID_STEP_STRING,	/* of a dynamic array */
	BRAID_STEP_NAME,	/* of a number: __print_symbolic() */
	BRAID_STEP_FLAGS,	/* names of bits: __print_flags() */
	BRAID_STEP_BYTES,	/* __print_hex(), __print_hex_str() */
	BRAID_STEP_ARRAY,	/* __print_array() */
	BRAID_STEP_CHOOSE,	/* when the value is 0, go on at target */
	BRAID_STEP_GO,		/* go on at target */
};

/* How a conversion shapes what it prints. */
struct braid_shape {
	u8 bytes;		/* of a number: the rest is cut off */
	bool sign;		/* it may be negative */
	bool zeros;		/* pads with zeros, else with spaces */
	bool left;		/* pads behind */
	bool prefix;		/* "0x" before what is not 0 */
	bool upper;
	s16 width;
	s16 most;		/* of a string, in bytes; -1: all */
	char format[32];	/* PRINTF: for a long long */
};

/* A name that stands for a number or for bits. */
struct braid_value_name {
	s64 value;
	u32 order;		/* as told */
	u32 bytes;
	char *text;
};

struct braid_step {
	u8 op;			/* enum braid_step_op */
	bool offset_too;	/* FUNCTION: how far into it */
	bool dynamic;		/* BYTES, ARRAY: offset is of the word that says where */
	char between;		/* BYTES: 0: nothing */
	u32 target;
	u32 offset, bytes;	/* of a field; CHARS: 0 bytes: the payload's rest */
	u32 base;		/* of a dynamic one */
	u32 element;		/* ARRAY: bytes of one */
	struct braid_shape shape;
	struct braid_value *value;	/* BYTES, ARRAY: how many; CHARS, STRING: at most so many */
	char *text;			/* TEXT; FLAGS: between two */
	u32 text_bytes;
	u32 nr_names;
	struct braid_value_name *names;	/* NAME: by value; FLAGS: as told */
};

struct braid_steps {
	struct braid_step *at;
	size_t nr, capacity;
	u64 most;		/* bytes that all steps write at most, a block included ... */
	u64 most_each;		/* ... and for each byte of the payload, beside functions */
	struct braid_symbols *symbols;
};

/**
 * braid_steps_compile - compile an event's print format
 * @event: it passed braid_vet_print()
 * @symbols: for addresses; may be NULL; stays
 *
 * Return: NULL when something in it is libtraceevent's alone, or memory is out.
 */
struct braid_steps *braid_steps_compile(struct tep_event *event, struct braid_symbols *symbols);

/** braid_steps_free - free steps; NULL is fine */
void braid_steps_free(struct braid_steps *s);

/**
 * braid_steps_run - append what an event's print format makes of a payload
 * @s: the steps
 * @data: the payload; it passed braid_vet_payload()
 * @bytes: of it
 * @out: extended; foreign strings are not tamed yet, and hold no NUL
 */
void braid_steps_run(const struct braid_steps *s, const u8 *data, u32 bytes,
		     struct braid_text *out);

#endif /* BRAID_FORMAT_STEPS_H */
