// SPDX-License-Identifier: GPL-2.0-or-later
/* Calls a function with known arguments, so that probes of it have known records: probed COUNT */
#include <stdio.h>
#include <stdlib.h>

int probed(int number, const char *text);

__attribute__((noinline, noclone)) int probed(int number, const char *text)
{
	__asm__ volatile("" : : "r"(text) : "memory");
	return 3 * number;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1, k;
	char text[32];

	for (k = -1; k < count - 1; k++) {
		snprintf(text, sizeof(text), "call %d", k);
		if (probed(k, text) != 3 * k)
			return 1;
	}
	return 0;
}
