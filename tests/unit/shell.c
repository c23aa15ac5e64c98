// SPDX-License-Identifier: GPL-2.0-or-later
/* Runs shell commands, and stores their output. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/need.h"
#include "tests/unit/shell.h"

char *shell_output(const char *format, ...)
{
	char command[1024], part[4096], *text = NULL;
	size_t bytes, n;
	va_list args;
	FILE *from, *to;
	int length;

	va_start(args, format);
	length = vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	NEED(length > 0 && (size_t)length < sizeof(command));
	from = popen(command, "r");
	to = open_memstream(&text, &bytes);
	NEED(from && to);
	while ((n = fread(part, 1, sizeof(part), from)))
		NEED(fwrite(part, 1, n, to) == n);
	NEED(!fclose(to));
	if (pclose(from)) {
		fprintf(stderr, "failed: %s\n%s\n", command, text);
		exit(EXIT_FAILURE);
	}
	return text;
}
