// SPDX-License-Identifier: GPL-2.0-or-later
/* Names the functions of kernels. */
#include <stdio.h>
#include <stdlib.h>

#include "host_agent/analyze/functions.h"
#include "host_agent/util/error.h"

int braid_functions_begin(struct braid_functions *f, const struct braid_source *source,
			  bool hosts)
{
	size_t k;

	f->symbols = calloc(source->nr_streams + 1, sizeof(*f->symbols));
	if (!f->symbols)
		return braid_out_of_memory();
	f->nr = source->nr_streams;
	for (k = 0; k < f->nr; k++) {
		if (source->streams[k]->kind == BRAID_STREAM_VM ||
		    (source->streams[k]->kind == BRAID_STREAM_HOST && !hosts))
			continue;
		f->symbols[k] = braid_symbols_new(source->streams[k]);
		if (!f->symbols[k])
			return braid_out_of_memory();
	}
	return 0;
}

u64 braid_function_of(struct braid_functions *f, const struct braid_stream *of, u64 ip)
{
	unsigned long long at = ip;

	f->any |= !!ip;
	if (!ip || !(ip & BRAID_FUNCTION_KERNEL))
		return ip ? BRAID_FUNCTION_USER : 0;
	braid_symbols_find(f->symbols[of->number], &at);
	return at;
}

void braid_function_name(const struct braid_functions *f, const struct braid_stream *of,
			 u64 function, char name[BRAID_NAME_TEXT])
{
	unsigned long long at = function;
	const char *found;

	if (function <= BRAID_FUNCTION_USER) {
		snprintf(name, BRAID_NAME_TEXT, "%s", function ? "user space" : "-");
		return;
	}
	found = braid_symbols_find(f->symbols[of->number], &at);
	if (found)
		snprintf(name, BRAID_NAME_TEXT, "%s", found);
	else
		snprintf(name, BRAID_NAME_TEXT, "0x%llx", at);
	braid_text_clean(name);
}

void braid_functions_free(struct braid_functions *f)
{
	size_t k;

	for (k = 0; k < f->nr; k++)
		braid_symbols_free(f->symbols[k]);
	free(f->symbols);
}
