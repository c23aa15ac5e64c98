// SPDX-License-Identifier: GPL-2.0-or-later
/* Durations and bounds as people see them. */
#include <string.h>

#include "host_agent/analyze/table.h"
#include "tests/unit/check.h"

static void durations_have_four_digits_and_a_unit(void)
{
	static const struct { s64 ns; const char *text; } some[] = {
		{ 0, "0 ns" }, { 1, "1 ns" }, { -1, "-1 ns" }, { 999, "999 ns" },
		{ 1000, "1.000 µs" }, { 9999, "9.999 µs" }, { 10000, "10.00 µs" },
		{ 99994, "99.99 µs" }, { 99995, "100.0 µs" }, { 123456, "123.5 µs" },
		{ 999949, "999.9 µs" }, { 999951, "1000.0 µs" }, { 1000000, "1.000 ms" },
		{ 9999499, "9.999 ms" }, { 9999500, "10.00 ms" }, { -534349999, "-534.3 ms" },
		{ 1000000000, "1.000 s" }, { 1000499999, "1.000 s" }, { 1000500001, "1.001 s" },
		{ 12345000001, "12.35 s" }, { 99994999999, "99.99 s" }, { 99995000000, "100.0 s" },
		{ 3600000000000, "3600.0 s" },
		{ INT64_MAX, "9223372036.9 s" }, { INT64_MIN, "-9223372036.9 s" },
	};
	char text[24];
	size_t k;

	for (k = 0; k < sizeof(some) / sizeof(*some); k++) {
		braid_duration_text(some[k].ns, text);
		CHECK(!strcmp(text, some[k].text));
		if (strcmp(text, some[k].text))
			fprintf(stderr, "%lld ns: %s, not %s\n", (long long)some[k].ns, text, some[k].text);
	}
}

static void bounds_are_rounded_up(void)
{
	static const struct { u64 ns; const char *text; } some[] = {
		{ 0, "0 ns" }, { 999, "999 ns" }, { 1000, "1.000 µs" }, { 1312, "1.312 µs" },
		{ 999999, "999.999 µs" }, { 1000000, "1.000 ms" }, { 1000001, "1.001 ms" },
		{ 999999001, "1.000 s" }, { 5000000001, "5.001 s" },
	};
	char text[32];
	size_t k;

	for (k = 0; k < sizeof(some) / sizeof(*some); k++) {
		braid_bound_text(some[k].ns, text);
		CHECK(!strcmp(text, some[k].text));
		if (strcmp(text, some[k].text))
			fprintf(stderr, "%llu ns: %s, not %s\n", (unsigned long long)some[k].ns, text, some[k].text);
	}
}

int main(void)
{
	RUN(bounds_are_rounded_up);
	RUN(durations_have_four_digits_and_a_unit);
	return VERDICT();
}
