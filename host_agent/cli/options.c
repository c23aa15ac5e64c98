// SPDX-License-Identifier: GPL-2.0-or-later
/* Parses a command's options by its table, and prints the table, for people and for programs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/cli.h"
#include "host_agent/cli/options.h"
#include "host_agent/library/options.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

/* Not in the guest's program, none of whose options are the library's. */
#pragma weak braid_library_option

#define MAX_OPTIONS	64
#define BY_NAME		256	/* getopt's value of an option's name: this plus its number */
#define WIDTH		80	/* of --help */
#define COLUMN		26	/* of it, where the sentences on options begin */
#define FORM_COLUMN	17
#define READERS		"report export merge analyze sql stat verify clock"
#define IN_THE_GUEST	"; its events are recorded too (docs/ftrace.md)"
#define USUAL_STATUS	"0 on success, 1 on error."

static const struct braid_option help_option[] = {
	{ 'h', "help", .help = "this text" },
	{ 0 },
};

bool braid_option_by_number(const struct braid_cli_command *c, size_t number,
			    struct braid_option *o)
{
	const struct braid_option *const tables[] = { c->options, c->common, help_option };
	const struct braid_option *row;
	size_t t;

	for (t = 0; t < 3; t++)
		for (row = tables[t]; row && row->name; row++) {
			if (number--)
				continue;
			*o = row->of ? *braid_library_option(row->name, row->of) : *row;
			o->take = row->take;
			o->at = row->at;
			o->least = row->least ? row->least : o->least;
			return true;
		}
	return false;
}

/* @got: a letter, or BY_NAME and a number. */
static bool option_of(const struct braid_cli_command *c, int got, struct braid_option *o)
{
	size_t k;

	if (got >= BY_NAME)
		return braid_option_by_number(c, got - BY_NAME, o);
	for (k = 0; braid_option_by_number(c, k, o); k++)
		if (o->letter == got)
			return true;
	return false;
}

static bool takes_next_word(const struct braid_option *o)
{
	return o->argument && *o->argument == '[' && o->argument[1] != '=';
}

static int argument_kind(const struct braid_option *o)
{
	return !o->argument || takes_next_word(o) ? no_argument :
	       *o->argument == '[' ? optional_argument : required_argument;
}

/* Values ------------------------------------------------------------------------------------ */

int braid_take_duration(const struct braid_option *o, void *to, const char *value)
{
	static const struct { const char *name; double seconds; } units[] = {
		{ "", 1 }, { "s", 1 }, { "ms", 1e-3 }, { "m", 60 }, { "h", 3600 },
	};
	size_t k = 0, nr = sizeof(units) / sizeof(units[0]);
	char *end;
	double seconds = strtod(value, &end);

	(void)o;
	while (k < nr && strcmp(end, units[k].name))
		k++;
	seconds *= k < nr ? units[k].seconds : 0;
	if (end == value || !(seconds > 0 && seconds < 1e9))
		return braid_fail(-EINVAL, "expected a duration, such as 10, 10s, 500ms, 2m or 1h");
	*(double *)to = seconds;
	return 0;
}

int braid_take_region_size(const struct braid_option *o, void *to, const char *value)
{
	(void)o;
	return braid_parse_region_size(value, to);
}

/* Printing ---------------------------------------------------------------------------------- */

/* How much of a word goes into a line: one that is too long for any is broken at a comma or a bracket. */
static int piece_of(const char *word, int indent)
{
	int n = strcspn(word, " \n"), k;

	for (k = WIDTH - indent; n > WIDTH - indent && k > 1; k--)
		if (word[k - 1] == ',' || word[k] == '[')
			return k;
	return n;
}

const char *braid_print_wrapped(const char *text, int at, int indent)
{
	const char *end = strchrnul(text, '\n');
	int n;

	while (text < end) {
		n = piece_of(text, indent);
		if (at > indent && at + 1 + n > WIDTH)
			at = printf("\n%*s", indent, "") - 1;
		else if (at > indent)
			at += printf(" ");
		at += printf("%.*s", n, text);
		text += n;
		if (*text == ' ')
			text++;
		else
			at = WIDTH;	/* a piece: the next one has its own line */
	}
	putchar('\n');
	return *end ? end + 1 : end;
}

static void print_paragraphs(const char *text)
{
	while (*text) {
		text = braid_print_wrapped(text, 0, 0);
		if (*text)
			putchar('\n');
	}
}

static void print_option(const struct braid_option *o)
{
	const char *argument = o->argument ? o->argument : "";
	int n;

	n = o->letter ? printf("  -%c, --%s", o->letter, o->name) : printf("      --%s", o->name);
	n += printf("%s%s", *argument == '[' ? takes_next_word(o) ? " " : "" : *argument ? "=" : "",
		    argument);
	if (n >= COLUMN) {
		putchar('\n');
		n = 0;
	}
	printf("%*s", COLUMN - n, "");
	braid_print_wrapped(o->help, COLUMN, COLUMN);
}

static void print_help(const struct braid_cli_command *c)
{
	struct braid_option o;
	const char *usage, *end, *help, *form;
	size_t k;

	for (usage = c->usage; *usage; usage = *end ? end + 1 : end) {
		end = strchrnul(usage, '\n');
		printf("%s %s%s %.*s\n", usage == c->usage ? "Usage:" : "      ",
		       braid_cli_program(), c->name, (int)(end - usage), usage);
	}
	print_paragraphs(c->text);
	putchar('\n');
	for (k = 0; braid_option_by_number(c, k, &o); k++)
		print_option(&o);
	if (c->form)
		printf("\n%s:\n", c->forms ? c->forms : "Forms");
	for (k = 0; c->form && (form = c->form(k, &help)); k++)
		braid_print_wrapped(help, printf("  %-14s ", form), FORM_COLUMN);
	putchar('\n');
	if (c->notes) {
		print_paragraphs(c->notes);
		putchar('\n');
	}
	printf("Exits with");
	braid_print_wrapped(c->status ? c->status : USUAL_STATUS, strlen("Exits with"), 0);
}

/* One row for each line of @text. */
static void describe_lines(const char *what, const char *text)
{
	const char *end;

	for (; text && *text; text = *end ? end + 1 : end) {
		end = strchrnul(text, '\n');
		printf("%s\t%.*s\n", what, (int)(end - text), text);
	}
}

void braid_options_describe(const struct braid_cli_command *c)
{
	struct braid_option o;
	const char *help, *form;
	size_t k;

	describe_lines("summary", c->summary);
	describe_lines("usage", c->usage);
	describe_lines("text", c->text);
	for (k = 0; braid_option_by_number(c, k, &o); k++) {
		printf(o.letter ? "option\t-%c" : "option\t", o.letter);
		printf("\t--%s\t%s%s\t%s\t%s\n", o.name, o.argument && *o.argument != '[' ? "=" : "",
		       o.argument ? o.argument : "", o.values ? o.values : "", o.help);
	}
	for (k = 0; c->form && (form = c->form(k, &help)); k++)
		printf("form\t%s\t%s\n", form, help);
	describe_lines("notes", c->notes);
	describe_lines("status", c->status ? c->status : USUAL_STATUS);
	describe_lines("operands", c->operands);
}

/* Parsing ----------------------------------------------------------------------------------- */

/* The table, as getopt takes it. */
struct getopt_table {
	char letters[3 * MAX_OPTIONS + 3];
	struct option names[MAX_OPTIONS + 1];
};

static void make_table(const struct braid_cli_command *c, struct getopt_table *t)
{
	static const char *const marks[] = {
		[no_argument] = "", [required_argument] = ":", [optional_argument] = "::",
	};
	struct braid_option o;
	char *at = t->letters;
	size_t k;

	memset(t, 0, sizeof(*t));
	at = stpcpy(at, c->stops ? "+:" : ":");
	for (k = 0; k < MAX_OPTIONS && braid_option_by_number(c, k, &o); k++) {
		t->names[k] = (struct option){ o.name, argument_kind(&o), NULL, BY_NAME + k };
		if (o.letter) {
			*at++ = o.letter;
			at = stpcpy(at, marks[argument_kind(&o)]);
		}
	}
}

/* @word: "--name", perhaps with a value. */
static int refuse_name(const struct braid_cli_command *c, const char *word)
{
	struct braid_option o;
	char name[64];
	struct braid_text_near near = { .word = name };
	size_t k;

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
	memmove(name, name + 2, strlen(name) - 1);
	for (k = 0; braid_option_by_number(c, k, &o); k++)
		braid_text_nearer(&near, o.name);
	if (near.nearest)
		return braid_fail(-EINVAL, "%s: unknown option '%s'; did you mean '--%s'?", c->name,
				  word, near.nearest);
	return braid_fail(-EINVAL, "%s: unknown option '%s'; '%s%s --help' lists all",
			  c->name, word, braid_cli_program(), c->name);
}

/* What stands here for options that users of trace-cmd and perf type by reflex. */
static const struct {
	const char *commands;	/* separated by spaces */
	char letter;
	const char *hint;
} habits[] = {
	{ READERS, 'i', "name the file alone, without -i" },
	{ "export merge", 'j', "JSON is a form: --to json; two CPUs are used without an option" },
	{ "record", 'p', "tracers are the guest's: there, echo function >/sys/kernel/tracing/current_tracer" IN_THE_GUEST },
	{ "record", 'g', "call graphs are the guest's: there, echo function_graph >/sys/kernel/tracing/current_tracer" IN_THE_GUEST },
	{ "record", 'l', "filters of functions are the guest's: there, echo FUNCTION >/sys/kernel/tracing/set_ftrace_filter" IN_THE_GUEST },
	{ "record", 'F', "to record while a command runs: record ... -- COMMAND; when reading, report --comm NAME selects" },
	{ "record", 'b', "the size of rings is the guest driver's: modprobe tracebraid ring_size_kb=N (modinfo lists all)" },
	{ "record", 'A', "guests need no agent: -r GUEST or -d DOMAIN names them, as 'tracebraid list' does" },
	{ "record", 'm', "a capture has no largest size: -t SECONDS ends it, and --snapshot keeps what is recent" },
};

static bool has_word(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (; words; words = strchr(words, ' '), words += words ? 1 : 0)
		if (!strncmp(words, word, n) && (!words[n] || words[n] == ' '))
			return true;
	return false;
}

/* What a command has in place of an option of trace-cmd or perf; NULL: not known. */
static const char *habit_of(const char *command, char letter)
{
	size_t k;

	for (k = 0; k < sizeof(habits) / sizeof(*habits); k++)
		if (habits[k].letter == letter && has_word(habits[k].commands, command))
			return habits[k].hint;
	return NULL;
}

/* What getopt did not understand. @got: ':': a value is missing. */
static int options_refuse(const struct braid_cli_command *c, int got, const char *word)
{
	char letter[3] = { '-', optopt };
	struct braid_option o;
	bool known = optopt && option_of(c, optopt, &o);

	if (optopt && optopt < BY_NAME)
		word = letter;
	if (got == ':' && known)
		return braid_fail(-EINVAL, "%s: '%s' needs a value: %s", c->name, word, o.argument);
	if (known)
		return braid_fail(-EINVAL, "%s: '%s': --%s takes no value", c->name, word, o.name);
	if (!optopt)
		return refuse_name(c, word);
	if (habit_of(c->name, optopt))
		return braid_fail(-EINVAL, "%s: no option '%s'; %s", c->name, word, habit_of(c->name, optopt));
	return braid_fail(-EINVAL, "%s: unknown option '%s'; '%s%s --help' lists all",
			  c->name, word, braid_cli_program(), c->name);
}

/* A fault of a value has one shape, whatever it is. @err: of the option's function. */
static int refuse_value(const struct braid_cli_command *c, const struct braid_option *o,
			const char *value, int err)
{
	char why[512];

	if (err == -ENOMEM)
		return err;
	snprintf(why, sizeof(why), "%s", braid_failure());
	return braid_fail(err, "%s: --%s=%.80s: %s", c->name, o->name, value ? value : "", why);
}

int braid_options_parse(const struct braid_cli_command *c, void *state, int argc, char **argv)
{
	struct braid_option o;
	struct getopt_table t;
	unsigned int nr;
	int got, err;

	braid_complain_as(c->name);
	make_table(c, &t);
	optind = 0;
	opterr = 0;
	while ((got = getopt_long(argc, argv, t.letters, t.names, NULL)) != -1) {
		if (got == '?' || got == ':')
			return options_refuse(c, got, argv[optind - 1]);
		option_of(c, got, &o);
		if (!o.take) {
			print_help(c);
			return 1;
		}
		if (takes_next_word(&o))
			optarg = optind < argc && *argv[optind] != '-' ? argv[optind++] : NULL;
		err = o.take(&o, (char *)state + o.at, optarg);
		if (err)
			return refuse_value(c, &o, optarg, err);
	}
	nr = argc - optind;
	if (c->expected && (nr < c->least || nr > c->most))
		return braid_fail(-EINVAL, "%s: expected %s", c->name, c->expected);
	return 0;
}

int braid_options_exit(int ret)
{
	return ret < 0 ? braid_complain() : EXIT_SUCCESS;
}
