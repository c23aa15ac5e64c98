// SPDX-License-Identifier: GPL-2.0-or-later
/* A host's kernel symbols: kept as they are stored, decompressed when they are needed. */
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "host_agent/trace/capture_private.h"

int braid_capture_take_kallsyms(struct braid_capture_stream *s, u32 raw_bytes, const u8 *data,
				u32 bytes)
{
	struct braid_capture_source *cs = s->source;

	if (s->stream.kallsyms)
		return 0;
	if (!raw_bytes || raw_bytes > BRAID_MAX_KALLSYMS - cs->kallsyms_bytes) {
		braid_source_faulty(&cs->source, &s->stream,
				    "kernel symbols ignored: the file's would take more than %u MiB",
				    BRAID_MAX_KALLSYMS >> 20);
		return 0;
	}
	s->stream.kallsyms = malloc((size_t)bytes + 1);
	if (!s->stream.kallsyms)
		return -ENOMEM;
	memcpy(s->stream.kallsyms, data, bytes);
	s->stream.kallsyms_packed_bytes = bytes;
	s->stream.kallsyms_bytes = raw_bytes;
	cs->kallsyms_bytes += raw_bytes;
	return 0;
}

const char *braid_stream_kallsyms(const struct braid_stream *s, char **text)
{
	size_t n = s->kallsyms_bytes;

	*text = NULL;
	if (!s->kallsyms)
		return NULL;
	*text = malloc(n + 1);
	if (!*text)
		return "out of memory";
	if (!s->kallsyms_packed_bytes)
		memcpy(*text, s->kallsyms, n);
	else
		n = ZSTD_decompress(*text, n, s->kallsyms, s->kallsyms_packed_bytes);
	if (ZSTD_isError(n)) {
		free(*text);
		*text = NULL;
		return ZSTD_getErrorName(n);
	}
	(*text)[n] = 0;
	return NULL;
}
