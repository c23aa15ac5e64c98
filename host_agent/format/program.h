/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A print format compiled to a list of output steps, and their execution. */
#ifndef BRAID_FORMAT_PROGRAM_H
#define BRAID_FORMAT_PROGRAM_H

#include <assert.h>

#include "host_agent/format/tree.h"
#include "host_agent/util/text.h"

/* Texts of steps are copied in blocks: up to this many bytes may be read and written after them. */
#define BRAID_STEP_BLOCK	32u

enum braid_step_op {
	BRAID_STEP_TEXT,	/* as it is */
	BRAID_STEP_DECIMAL,	/* a number */
	BRAID_STEP_HEX,
	BRAID_STEP_PRINTF,	/* a number, in one of the ways that are seldom */
	BRAID_STEP_CHAR,
	BRAID_STEP_POINTER,
	BRAID_STEP_FUNCTION,	/* a symbol at an address */
	BRAID_STEP_CHARS,	/* bytes of a field, up to a NUL */
	BRAID_STEP_STRING,	/* of a dynamic array */
	BRAID_STEP_CONSTANT,	/* a text at an address, or the address */
	BRAID_STEP_NAME,	/* of a number: __print_symbolic() */
	BRAID_STEP_FLAGS,	/* names of bits: __print_flags() */
	BRAID_STEP_BYTES,	/* __print_hex(), __print_hex_str() */
	BRAID_STEP_ARRAY,	/* __print_array() */
	BRAID_STEP_FRAMES,	/* __get_stacktrace(): symbols, " => " before each */
	BRAID_STEP_DUMP,	/* %*ph: as BYTES, as many as there are */
	BRAID_STEP_MASK,	/* __get_bitmask(), %*pb */
	BRAID_STEP_CPUS,	/* __get_cpumask(), %*pbl */
	BRAID_STEP_ADDRESS,	/* %pI4, %pM, %pU etc.: see variant */
	BRAID_STEP_CHOOSE,	/* when the value is 0, continue at target */
	BRAID_STEP_GO,		/* continue at target */
};

/* How a conversion shapes what it prints. */
struct braid_shape {
	u8 bytes;		/* of a number: the rest is cut off */
	bool sign;		/* it may be negative */
	bool zeros;		/* pads with zeros, else with spaces */
	bool left;		/* pads on the right */
	bool prefix;		/* "0x" before what is not 0 */
	bool upper;
	s16 width;
	s16 most;		/* of a string, in bytes; -1: all */
	char format[32];	/* PRINTF: for a long long */
};

/* A name of a number or of bits. */
struct braid_value_name {
	s64 value;
	u32 order;		/* as in the format */
	u32 bytes;
	char *text;
};

struct braid_step {
	u8 op;			/* enum braid_step_op */
	bool offset_too;	/* FUNCTION: how far into it */
	bool dynamic;		/* offset is of the word that says where, if it may be either */
	char between;		/* BYTES, DUMP: 0: none */
	char variant[6];	/* ADDRESS: the letters after "%p" */
	u32 target;
	u32 offset, bytes;	/* of a field; CHARS: 0 bytes: the payload's rest */
	u32 base;		/* of a dynamic one */
	u32 element;		/* ARRAY: bytes of one */
	struct braid_shape shape;
	const struct braid_node *value;	/* arrays: their number; CHARS, STRING: maximum */
	char *text;			/* TEXT; FLAGS: between two */
	u32 text_bytes;
	u32 nr_names;
	struct braid_value_name *names;	/* NAME: by value; FLAGS: in the format's order */
};

/* What is run: a step with the text before it, and the usual ones' operands, in one cache line. */
enum braid_quick_op {
	BRAID_QUICK_TEXT,	/* nothing after the text */
	BRAID_QUICK_S32,	/* a number in decimal, of the field's 32 bits with a sign */
	BRAID_QUICK_U32,
	BRAID_QUICK_S64,
	BRAID_QUICK_U64,
	BRAID_QUICK_HEX32,	/* likewise in hexadecimal, of at least so many digits */
	BRAID_QUICK_HEX64,
	BRAID_QUICK_COMM,	/* 16 bytes, up to a NUL */
	BRAID_QUICK_CHOOSE,	/* when the value is 0, continue at target */
	BRAID_QUICK_GO,		/* continue at target */
	BRAID_QUICK_STEP,	/* the step says */
};

struct braid_quick {
	u8 op;			/* enum braid_quick_op */
	u8 digits;		/* HEX */
	u8 text_bytes;
	u32 offset;		/* of the field */
	u32 target;
	const struct braid_node *value;	/* CHOOSE */
	const struct braid_step *step;	/* STEP */
	char text[BRAID_STEP_BLOCK];
};

static_assert(sizeof(struct braid_quick) == 64, "one cache line");

struct braid_format_program {
	struct braid_quick *quick;
	size_t nr_quick;
	bool special;		/* its texts are not all braid_text_simple() */
	struct braid_step *at;	/* as they were compiled */
	size_t nr, capacity;
	u64 most;		/* bytes that all steps write at most, a block included ... */
	u64 most_each;		/* ... and for each byte of the payload, beside functions */
	bool arrays;		/* some must be checked for each payload */
	bool frames;		/* it prints stacks */
	bool portable;		/* libtraceevent may print it too */
	struct braid_symbols *symbols;
	const struct braid_constants *constants;
	struct braid_tree tree;	/* the values' */
};

/**
 * braid_program_compile - compile a print format
 * @out: set on success
 * @text: from "print fmt:" on; ends with NUL
 * @layout: of the event; must outlive the result, as must its symbols
 *
 * Return: NULL, or why not.
 */
const char *braid_program_compile(struct braid_format_program **out, const char *text,
				  const struct braid_layout *layout);

/** braid_program_free - free steps; NULL is fine */
void braid_program_free(struct braid_format_program *s);

/** braid_program_finish - make what is run of the compiled steps; Return: false: out of memory */
bool braid_program_finish(struct braid_format_program *s);

/** braid_program_holds - whether a payload, which braid_layout_holds(), has all its arrays print */
bool braid_program_holds(const struct braid_format_program *s, const u8 *data, u32 bytes);

/**
 * braid_program_run - append a payload formatted by an event's print format
 * @s: the steps
 * @data: the payload; it passed braid_program_holds()
 * @bytes: of it
 * @out: extended; may contain control characters
 *
 * Return: whether what was appended is sure to be braid_text_simple().
 */
bool braid_program_run(const struct braid_format_program *s, const u8 *data, u32 bytes,
		       struct braid_text *out);

#endif /* BRAID_FORMAT_PROGRAM_H */
