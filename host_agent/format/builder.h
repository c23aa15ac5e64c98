/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Adds steps to a program that is being compiled. What returns false has noted why. */
#ifndef BRAID_FORMAT_BUILDER_H
#define BRAID_FORMAT_BUILDER_H

#include "host_agent/format/program.h"

#define BRAID_NUMBER_BYTES	200u	/* that a number takes at most: width, precision, digits */
#define BRAID_MOST_WIDTH	64
#define BRAID_NO_CONVERSION	"its print format has an unknown conversion"

/* A compilation under way. */
struct braid_compiler {
	struct braid_format_program *steps;
	const char *at;			/* in the format */
	const struct braid_node *arg;	/* the next one */
	const char *why;		/* it failed */
};

/* "%-08.3lx", taken apart. */
struct braid_conversion {
	struct braid_shape shape;
	bool alternate, plus, space, precise;	/* # + space . */
	bool counted;		/* .*: an argument says how much */
	bool wide;		/* *: likewise; only for bytes and bits */
	char length[3];		/* h, hh, l, ll, L, z, Z */
	char type;
};

/** braid_compile_fail - note why, unless something failed before; Return: false */
bool braid_compile_fail(struct braid_compiler *c, const char *why);

/** braid_step_free - free what a step holds */
void braid_step_free(struct braid_step *p);

/** braid_step_text - a copy of a text that a step may read blocks of; NULL: out of memory */
char *braid_step_text(const char *text, size_t bytes);

/** braid_add_step - add a step, and take over what it holds; it writes so many bytes at most */
bool braid_add_step(struct braid_compiler *c, struct braid_step *p, u64 most, u64 most_each);

/** braid_add_text - add a constant text */
bool braid_add_text(struct braid_compiler *c, const char *text, size_t bytes);

/** braid_add_value - add the step of a number */
bool braid_add_value(struct braid_compiler *c, struct braid_step *p, const struct braid_node *arg,
		     u64 most);

/** braid_set_place - set where a field's bytes are, or a dynamic field's data */
bool braid_set_place(struct braid_compiler *c, struct braid_step *p,
		     const struct braid_node *where);

/** braid_add_string - add what %s prints; @count of bytes at most, if not NULL */
bool braid_add_string(struct braid_compiler *c, const struct braid_conversion *v,
		      const struct braid_node *arg, const struct braid_node *count);

#endif /* BRAID_FORMAT_BUILDER_H */
