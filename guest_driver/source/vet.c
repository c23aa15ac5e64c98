// SPDX-License-Identifier: GPL-2.0
/*
 * Decides which of the kernel's print functions can be given a record that a hostile host wrote.
 *
 * What is judged is the print format, which is the function's source: a text
 * and expressions of REC's fields. Only what is known to be harmless passes:
 *
 *   a field              REC->name, REC->name.member, REC->name[constant]
 *   an operator          all but / and %, which trap on 0, unless a constant follows;
 *                        no dereference, no assignment, no statement
 *   a function           of the list below: each stays in the record, and in
 *                        64 KiB behind an offset of 16 bits, by its arguments' types
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

/* A pointer that these return lies in the record, or in memory of the printer's own. */
static const char *const harmless_pointers[] __initconst = {
	"__print_symbolic", "__print_flags", "__get_str", "__get_rel_str", "__get_bitmask",
	"__get_rel_bitmask", "__get_cpumask", "__get_rel_cpumask", "__get_sockaddr",
	"__get_rel_sockaddr", "__get_dynamic_array",
};

struct word {
	const char *at;
	size_t length;
};

static bool __init is_one_of(const char *const *names, size_t nr, struct word word)
{
	while (nr--)
		if (strlen(names[nr]) == word.length && !strncmp(names[nr], word.at, word.length))
			return true;
	return false;
}

static struct word __init take_word(const char *at)
{
	struct word word = { .at = at };

	while (isalnum(at[word.length]) || at[word.length] == '_')
		word.length++;
	return word;
}

static const char *__init skip_string(const char *at)
{
	for (at++; *at && *at != '"'; at++)
		if (*at == '\\' && at[1])
			at++;
	return *at ? at + 1 : at;
}

static const struct braid_field *__init find_field(const struct braid_tracepoint *tp,
						   struct word word)
{
	const struct braid_field *field;

	for (field = tp->fields; field->type; field++)
		if (is_one_of(&field->name, 1, word))
			return field;
	return NULL;
}

/* A pointer, or an array of them; what a __data_loc leads to lies in the record. */
static bool __init is_pointer(const struct braid_field *field)
{
	return strchr(field->type, '*') &&
	       !strstr(field->type, "__data_loc") && !strstr(field->type, "__rel_loc");
}

/* Behind REC: "->name", then members and constant indices. Return: behind it, or NULL. */
static const char *__init vet_field(const struct braid_tracepoint *tp, const char *at)
{
	struct word word;

	if (strncmp(at, "->", 2))
		return NULL;
	word = take_word(at + 2);
	if (!find_field(tp, word))
		return NULL;
	at = word.at + word.length;
	while (*at == '.' || *at == '[') {
		word = take_word(at + 1);
		if (!word.length)
			return NULL;
		at = word.at + word.length;
		if (word.at[-1] == '[' && (!isdigit(*word.at) || *at++ != ']'))
			return NULL;
	}
	return strncmp(at, "->", 2) ? at : NULL;
}

/* What a '*' is: a pointer's type, "(struct sockaddr *)", or a product; else it may follow one. */
static bool __init is_type_or_product(const char *start, const char *at)
{
	const char *next = skip_spaces(at + 1);

	while (at > start && isspace(at[-1]))
		at--;
	return *next == ')' || *next == '*' || isdigit(*next) || (at > start && isdigit(at[-1]));
}

static bool __init vet_sign(const char *start, const char *at)
{
	const char *next = skip_spaces(at + 1);

	switch (*at) {
	case '/':
	case '%':
		return isdigit(*next) && *next != '0';
	case '*':
		return is_type_or_product(start, at);
	case '&':	/* and, not an address: a value stands before it */
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

/* Vets one argument, or all that follow. */
static bool __init vet_expression(const struct braid_tracepoint *tp, const char *at,
				  const char *end)
{
	const char *start = at;
	struct word word;

	while (at && at < end && *at) {
		if (*at == '"') {
			at = skip_string(at);
			continue;
		}
		word = take_word(at);
		if (!word.length) {
			if (!vet_sign(start, at))
				return false;
			at++;
			continue;
		}
		at = word.at + word.length;
		if (is_one_of((const char *const[]){ "REC" }, 1, word))
			at = vet_field(tp, at);
		else if (!isdigit(*word.at) && *skip_spaces(at) == '(' &&
			 !is_one_of(harmless_functions, ARRAY_SIZE(harmless_functions), word))
			return false;
	}
	return at;
}

/* Return: the comma or bracket that ends the argument, or the text's end. */
static const char *__init argument_end(const char *at)
{
	int depth = 0;

	while (*at) {
		if (*at == '"') {
			at = skip_string(at);
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

/* Whether what an argument points to lies in the record, or is a constant. */
static bool __init points_inside(const struct braid_tracepoint *tp, const char *at,
				 const char *end)
{
	const struct braid_field *field;
	struct word word;

	while (at < end) {
		if (*at == '"') {
			at = skip_string(at);
			continue;
		}
		word = take_word(at);
		at += word.length ?: 1;
		if (!word.length || isdigit(*word.at))
			continue;
		if (is_one_of(harmless_pointers, ARRAY_SIZE(harmless_pointers), word)) {
			at = skip_spaces(at);
			at += *at == '(' ? argument_end(at + 1) - at : 0;
		} else if (is_one_of((const char *const[]){ "REC" }, 1, word)) {
			field = find_field(tp, take_word(at + 2));
			if (!field || is_pointer(field))
				return false;
		}
	}
	return true;
}

/*
 * A number that is cast to a pointer lies nowhere: of what is printed by %s or %pI4,
 * only arrays may be cast.
 */
static bool __init casts_number(const struct braid_tracepoint *tp, const char *at, const char *end)
{
	const char *star = strnchr(at, end - at, '*');
	const struct braid_field *field;

	if (!star)
		return false;
	at = strnstr(star, "REC->", end - star);
	if (!at)
		return false;
	field = find_field(tp, take_word(at + strlen("REC->")));
	return !field || (!field->len && !strchr(field->type, '['));
}

/* @letters: of the conversion, from its last on: "s", "pI4" */
static bool __init vet_conversion(const struct braid_tracepoint *tp, const char *letters,
				  const char *at, const char *end)
{
	if (*letters == 's')
		return points_inside(tp, at, end) && !casts_number(tp, at, end);
	if (*letters != 'p')
		return !!strchr("diuxXoc", *letters);
	if (strchr("sSBxK", letters[1]) || !isalnum(letters[1]))
		return true;
	return strchr("IMmU", letters[1]) && points_inside(tp, at, end) &&
	       !casts_number(tp, at, end);
}

bool __init braid_vet_print(const struct braid_tracepoint *tp)
{
	const char *text = tp->print_fmt, *text_end = skip_string(text);
	const char *at = text_end, *end;

	if (*text != '"' || !vet_expression(tp, at, at + strlen(at)))
		return false;
	for (; text < text_end; text++) {
		if (*text != '%')
			continue;
		if (*++text == '%')
			continue;
		text += strspn(text, "-+ #0123456789.hlLzjt");
		if (*at != ',')
			return false;
		end = argument_end(at + 1);
		if (!vet_conversion(tp, text, at + 1, end))
			return false;
		at = end;
	}
	if (*at == ',')		/* it stands there without any argument, too */
		at = skip_spaces(at + 1);
	return !*at;
}
