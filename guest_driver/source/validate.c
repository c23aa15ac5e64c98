// SPDX-License-Identifier: GPL-2.0
/*
 * Decides which of the kernel's print functions can be given a record that a hostile host wrote.
 *
 * It checks the print format, which is the function's source: a text
 * and expressions of REC's fields. Only what is known to be harmless passes:
 *
 *   a field              REC->name, REC->name.member, REC->name[constant]
 *   an operator          all but / and %, which trap on 0, unless a constant follows;
 *                        no dereference, no assignment, no statement
 *   a function           of the list below: each stays in the record, and in
 *                        64 KiB after an offset of 16 bits, by its arguments' types
 *   a conversion         of a number, of a symbol, of a string or address that lies in
 *                        the record; none whose width or precision is an argument
 */
#include <linux/ctype.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/string.h>

#include "guest_driver/source/print.h"

/* Must not be given a length; the kernel's tables of names are constants. */
static const char *const harmless_functions[] __initconst = {
	"__print_symbolic", "__print_symbolic_u64", "__print_flags", "__print_flags_u64",
	"__get_str", "__get_rel_str", "__get_bitmask", "__get_rel_bitmask", "__get_cpumask",
	"__get_rel_cpumask", "__get_sockaddr", "__get_rel_sockaddr", "__get_dynamic_array",
	"__get_dynamic_array_len", "__print_ns_to_secs", "__print_ns_without_secs", "sizeof",
	"__builtin_constant_p", "__builtin_expect", "fls", "ffs", "ilog2", "be16_to_cpu", "be32_to_cpu",
	"le16_to_cpu", "le32_to_cpu", "__builtin_bswap16", "__builtin_bswap32", "ntohs", "ntohl",
};

/* A pointer that these return is into the record, or into the printer's own memory. */
static const char *const harmless_pointers[] __initconst = {
	"__print_symbolic", "__print_flags", "__get_str", "__get_rel_str", "__get_bitmask",
	"__get_rel_bitmask", "__get_cpumask", "__get_rel_cpumask", "__get_sockaddr",
	"__get_rel_sockaddr", "__get_dynamic_array",
};

struct word {
	const char *at;
	size_t length;
};

static bool __init braid_validate_is_one_of(const char *const *names, size_t nr, struct word word)
{
	while (nr--)
		if (strlen(names[nr]) == word.length && !strncmp(names[nr], word.at, word.length))
			return true;
	return false;
}

static struct word __init braid_validate_take_word(const char *at)
{
	struct word word = { .at = at };

	while (isalnum(at[word.length]) || at[word.length] == '_')
		word.length++;
	return word;
}

static const char *__init braid_validate_skip_string(const char *at)
{
	for (at++; *at && *at != '"'; at++)
		if (*at == '\\' && at[1])
			at++;
	return *at ? at + 1 : at;
}

static const struct braid_field *__init braid_validate_find_field(const struct braid_tracepoint *tp,
								  struct word word)
{
	const struct braid_field *field;

	for (field = tp->fields; field->type; field++)
		if (braid_validate_is_one_of(&field->name, 1, word))
			return field;
	return NULL;
}

/* A pointer, or an array of them; the target of a __data_loc is in the record. */
static bool __init braid_validate_is_pointer(const struct braid_field *field)
{
	return strchr(field->type, '*') &&
	       !strstr(field->type, "__data_loc") && !strstr(field->type, "__rel_loc");
}

/*
 * After REC: "->name", then members and constant indices. Return: the position after it, or NULL.
 */
static const char *__init braid_validate_field(const struct braid_tracepoint *tp, const char *at)
{
	struct word word;

	if (strncmp(at, "->", 2))
		return NULL;
	word = braid_validate_take_word(at + 2);
	if (!braid_validate_find_field(tp, word))
		return NULL;
	at = word.at + word.length;
	while (*at == '.' || *at == '[') {
		word = braid_validate_take_word(at + 1);
		if (!word.length)
			return NULL;
		at = word.at + word.length;
		if (word.at[-1] == '[' && (!isdigit(*word.at) || *at++ != ']'))
			return NULL;
	}
	return strncmp(at, "->", 2) ? at : NULL;
}

/*
 * Classifies a '*': a pointer's type, "(struct sockaddr *)", or a product; else it may follow one.
 */
static bool __init braid_validate_is_type_or_product(const char *start, const char *at)
{
	const char *next = skip_spaces(at + 1);

	while (at > start && isspace(at[-1]))
		at--;
	return *next == ')' || *next == '*' || isdigit(*next) || (at > start && isdigit(at[-1]));
}

static bool __init braid_validate_sign(const char *start, const char *at)
{
	const char *next = skip_spaces(at + 1);

	switch (*at) {
	case '/':
	case '%':
		return isdigit(*next) && *next != '0';
	case '*':
		return braid_validate_is_type_or_product(start, at);
	case '&':	/* bitwise and, not an address: a value precedes it */
		return at > start && (at[1] == '&' || at[-1] == '&' || isspace(at[-1]) ||
				      at[-1] == ')');
	case '=':
		return at[1] == '=' || (at > start && strchr("=!<>", at[-1]));
	case '-':
		return at[1] != '>' && at[1] != '-';
	case '+':
		return at[1] != '+';
	default:
		return !!strchr("(){},?:|^~!<> \t\n", *at);
	}
}

/* Validates one argument, or all that follow. */
static bool __init braid_validate_expression(const struct braid_tracepoint *tp, const char *at,
					     const char *end)
{
	const char *start = at;
	struct word word;

	while (at && at < end && *at) {
		if (*at == '"') {
			at = braid_validate_skip_string(at);
			continue;
		}
		word = braid_validate_take_word(at);
		if (!word.length) {
			if (!braid_validate_sign(start, at))
				return false;
			at++;
			continue;
		}
		at = word.at + word.length;
		if (braid_validate_is_one_of((const char *const[]){ "REC" }, 1, word))
			at = braid_validate_field(tp, at);
		else if (!isdigit(*word.at) && *skip_spaces(at) == '(' &&
			 !braid_validate_is_one_of(harmless_functions,
						   ARRAY_SIZE(harmless_functions), word))
			return false;
	}
	return at;
}

/* Return: the comma or bracket that ends the argument, or the text's end. */
static const char *__init braid_validate_argument_end(const char *at)
{
	int depth = 0;

	while (*at) {
		if (*at == '"') {
			at = braid_validate_skip_string(at);
			continue;
		}
		if (*at == '(' || *at == '{')
			depth++;
		else if ((*at == ')' || *at == '}') && depth-- == 0)
			break;
		else if (*at == ',' && !depth)
			break;
		at++;
	}
	return at;
}

/* Whether the target of an argument is in the record, or is a constant. */
static bool __init braid_validate_points_inside(const struct braid_tracepoint *tp, const char *at,
						const char *end)
{
	const struct braid_field *field;
	struct word word;

	while (at < end) {
		if (*at == '"') {
			at = braid_validate_skip_string(at);
			continue;
		}
		word = braid_validate_take_word(at);
		at += word.length ?: 1;
		if (!word.length || isdigit(*word.at))
			continue;
		if (braid_validate_is_one_of(harmless_pointers, ARRAY_SIZE(harmless_pointers),
					     word)) {
			at = skip_spaces(at);
			at += *at == '(' ? braid_validate_argument_end(at + 1) - at : 0;
		} else if (braid_validate_is_one_of((const char *const[]){ "REC" }, 1, word)) {
			field = braid_validate_find_field(tp, braid_validate_take_word(at + 2));
			if (!field || braid_validate_is_pointer(field))
				return false;
		}
	}
	return true;
}

/*
 * A number cast to a pointer has no valid target: among arguments of %s or %pI4, only arrays may be
 * cast.
 */
static bool __init braid_validate_casts_number(const struct braid_tracepoint *tp, const char *at,
					       const char *end)
{
	const char *star = strnchr(at, end - at, '*');
	const struct braid_field *field;

	if (!star)
		return false;
	at = strnstr(star, "REC->", end - star);
	if (!at)
		return false;
	field = braid_validate_find_field(tp, braid_validate_take_word(at + strlen("REC->")));
	return !field || (!field->len && !strchr(field->type, '['));
}

/* @letters: of the conversion, from its last on: "s", "pI4" */
static bool __init braid_validate_conversion(const struct braid_tracepoint *tp, const char *letters,
					     const char *at, const char *end)
{
	if (*letters == 's')
		return braid_validate_points_inside(tp, at, end) &&
		       !braid_validate_casts_number(tp, at, end);
	if (*letters != 'p')
		return !!strchr("diuxXoc", *letters);
	if (strchr("sSBxK", letters[1]) || !isalnum(letters[1]))
		return true;
	return strchr("IMmU", letters[1]) && braid_validate_points_inside(tp, at, end) &&
	       !braid_validate_casts_number(tp, at, end);
}

bool __init braid_validate_print(const struct braid_tracepoint *tp)
{
	const char *text = tp->print_fmt, *text_end = braid_validate_skip_string(text);
	const char *at = text_end, *end;

	if (*text != '"' || !braid_validate_expression(tp, at, at + strlen(at)))
		return false;
	for (; text < text_end; text++) {
		if (*text != '%')
			continue;
		if (*++text == '%')
			continue;
		text += strspn(text, "-+ #0123456789.hlLzjt");
		if (*at != ',')
			return false;
		end = braid_validate_argument_end(at + 1);
		if (!braid_validate_conversion(tp, text, at + 1, end))
			return false;
		at = end;
	}
	if (*at == ',')		/* also valid without any argument */
		at = skip_spaces(at + 1);
	return !*at;
}
