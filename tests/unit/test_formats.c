// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Print formats of kernels beside libtraceevent: all of the running kernel's, where they may be
 * read, and all that the captures named by arguments define.
 */
#include <glob.h>
#include <string.h>

#include "host_agent/trace/source.h"
#include "tests/unit/beside.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

#define ROUNDS	24u	/* payloads for a format */

int main(int argc, char **argv);

/* Formats of kernels that do not print as libtraceevent has it, or are not compiled. */
static const struct {
	const char *what, *why;		/* what: in the print format */
} known[] = {
	{ "({", "statements: printed as fields, also by libtraceevent" },
	{ "jiffies_to_msecs(", "the kernel's HZ is unknown; libtraceevent calls it undefined" },
	{ "%c", "libtraceevent prints \">c<\"" },
	{ "%pB", "libtraceevent prints a number" },
	{ "%px", "libtraceevent prints the x" },
	{ "%pK", "libtraceevent prints the K" },
	{ "%*pb", "libtraceevent prints a pointer and \"b\"" },
	{ "__print_array(", "libtraceevent before 1.8 prints decimal numbers" },
	{ "%*ph", "libtraceevent prints it for dynamic arrays only" },
	{ "%+", "libtraceevent prints \">+<\"" },
	{ "sizeof(", "libtraceevent knows few types" },
	{ "mc_event_error_type(", "a function: printed as fields, also by libtraceevent" },
	{ "(int)REC->buf[0]", "one element of an array of unknown length: printed as fields" },
	{ "{ })", "libtraceevent does not parse empty pairs" },
	{ "{ -1, 0 }", "libtraceevent takes the list's end for a name" },
	{ "REC->stripe_nr - REC->nr_data + 1", "libtraceevent computes a - (b + 1)" },
	{ "REC->fallback_order < (((", "libtraceevent ignores the brackets after <" },
	{ "REC->flags & (0x00040000 |", "libtraceevent ignores the brackets after &" },
	{ "!REC->tdp_enabled ? ", "libtraceevent computes !(a ? b : c)" },
	{ "REC->ent.", "libtraceevent does not know this name of a common field" },
	{ "__builtin_expect(", "libtraceevent takes no operators in it" },
};

static u32 nr_compiled, nr_differ, nr_refused;

/* The reason why a kernel's format differs; NULL: none. */
static const char *known_difference(const char *format)
{
	size_t k;

	for (k = 0; k < sizeof(known) / sizeof(known[0]); k++)
		if (strstr(format, known[k].what))
			return known[k].why;
	return NULL;
}

static void compare_format(const char *system, const char *text)
{
	const char *format = strstr(text, "format:");
	struct beside p;
	bool equal;

	if (!format)
		return;
	beside_parse(&p, system, format, !known_difference(format));
	CHECK(p.layout);
	if (!p.layout)
		fprintf(stderr, "%s: %s\n", text, p.why);
	if (p.event && p.layout)
		CHECK(beside_fields(&p));
	equal = p.steps && (known_difference(format) ? true : beside_compare(&p, ROUNDS));
	nr_compiled += !!p.steps;
	nr_differ += p.steps && known_difference(format);
	nr_refused += !p.steps;
	if (p.layout && !equal && !known_difference(format)) {
		fprintf(stderr, "%s: %.60s %s\n", system, text, p.why ? p.why : "");
		CHECK(!"it prints as libtraceevent does, or is known to differ");
	}
	beside_free(&p);
}

static void count(const char *whose)
{
	printf("of %s formats %u compiled, %u of these not as libtraceevent prints them, "
	       "%u to fields\n", whose, nr_compiled, nr_differ, nr_refused);
	CHECK(nr_compiled > 50 * nr_refused);
	nr_compiled = nr_differ = nr_refused = 0;
}

static void the_kernels_own(void)
{
	static char text[65536];
	char system[64];
	glob_t found;
	size_t k;

	if (glob("/sys/kernel/tracing/events/*/*/format", 0, NULL, &found)) {
		printf("the running kernel's formats can't be read here\n");
		return;
	}
	for (k = 0; k < found.gl_pathc; k++) {
		FILE *file = fopen(found.gl_pathv[k], "r");
		size_t bytes = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

		if (file)
			fclose(file);
		text[bytes] = 0;
		if (sscanf(found.gl_pathv[k], "/sys/kernel/tracing/events/%63[^/]", system) == 1)
			compare_format(system, text);
	}
	globfree(&found);
	count("the kernel's");
}

static void those_of_a_capture(char *path)
{
	struct braid_source *source;
	size_t n, k;

	NEED(!braid_source_open_captures(&source, &path, 1, NULL));
	for (n = 0; n < source->nr_streams; n++) {
		const struct braid_stream *stream = source->streams[n];

		for (k = 0; k < stream->nr_formats; k++)
			compare_format(stream->formats[k].system, stream->formats[k].format);
		count(stream->name);
	}
	braid_source_free(source);
}

int main(int argc, char **argv)
{
	int k;

	if (argc < 2)
		RUN(the_kernels_own);
	for (k = 1; k < argc; k++)
		those_of_a_capture(argv[k]);
	return VERDICT();
}
