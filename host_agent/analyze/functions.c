// SPDX-License-Identifier: GPL-2.0-or-later
/* Names the functions of kernels. */
#include <stdio.h>
#include <stdlib.h>

#include "host_agent/analyze/functions.h"
#include "host_agent/util/error.h"

static int functions_read(struct braid_symbols **to, const struct braid_stream *of,
			  const struct braid_binaries *binaries)
{
	bool none = of->kind != BRAID_STREAM_HOST && !of->nr_symbols && !of->kallsyms;
	char *text = NULL;
	int err = none && binaries ? braid_binaries_kallsyms(binaries, of->name, &text) : 0;

	if (err)
		return err;
	*to = text ? braid_symbols_from(text) : braid_symbols_new(of);
	return *to ? 0 : braid_out_of_memory();
}

int braid_functions_begin(struct braid_functions *f, const struct braid_source *source,
			  bool hosts, const struct braid_binaries *binaries)
{
	int err = 0;
	size_t k;

	f->symbols = calloc(source->nr_streams + 1, sizeof(*f->symbols));
	if (!f->symbols)
		return braid_out_of_memory();
	f->nr = source->nr_streams;
	for (k = 0; k < f->nr && !err; k++)
		if (source->streams[k]->kind != BRAID_STREAM_HOST || hosts)
			err = functions_read(&f->symbols[k], source->streams[k], binaries);
	return err;
}

bool braid_functions_known(const struct braid_functions *f, const struct braid_stream *of)
{
	return braid_symbols_any(f->symbols[of->number]);
}

u64 braid_function_of(struct braid_functions *f, const struct braid_stream *of, u64 ip)
{
	unsigned long long at = ip;

	f->any |= !!ip;
	if (!ip || !(ip & BRAID_FUNCTION_KERNEL))
		return ip ? BRAID_FUNCTION_USER : 0;
	braid_symbols_find(f->symbols[of->number], &at);
	/* A guest's symbol may begin below its kernel. */
	return at & BRAID_FUNCTION_KERNEL ? at : ip;
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
