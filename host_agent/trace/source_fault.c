// SPDX-License-Identifier: GPL-2.0-or-later
/* Faults of a source: counted, and reported by callback. */
#include <stdarg.h>
#include <stdio.h>

#include "host_agent/trace/source.h"
#include "host_agent/util/text.h"

void braid_source_faulty(struct braid_source *source, const struct braid_stream *stream,
			 const char *format, ...)
{
	char line[512];
	va_list args;

	source->faults++;
	if (!source->fault)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	braid_text_clean(line);
	source->fault(source->fault_arg, stream, line);
}
