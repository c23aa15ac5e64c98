// SPDX-License-Identifier: GPL-2.0-or-later
/* Names functions of guests' user code. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/user_code.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define MOST_MAPPINGS	(1u << 14)
#define MOST_LOOKED	512u		/* mappings of a space, the latest ones */
#define MOST_FUNCTIONS	(1u << 16)	/* further ones are user space */
#define NO_FILE		UINT32_MAX
#define NO_MAPPING	UINT32_MAX

static int user_code_file(struct braid_user_code *u, const struct braid_binary_name *name,
			  u32 *file)
{
	struct user_file one = { .binary = -1 };
	size_t k;

	if (u->binaries && *name->path == '/') {
		one.binary = braid_binaries_get(u->binaries, name);
		if (one.binary == -ENOMEM)
			return braid_out_of_memory();
	}
	for (k = 0; k < u->nr_files; k++)
		if (!strcmp(u->files[k].path, name->path) && u->files[k].binary == one.binary)
			break;
	*file = k;
	if (k < u->nr_files)
		return 0;
	one.path = strdup(name->path);
	if (!one.path || braid_array_push(u->files, u->nr_files, u->files_capacity, one)) {
		free(one.path);
		return braid_out_of_memory();
	}
	braid_text_clean(u->files[k].path);
	return 0;
}

static bool user_code_same_space(const void *in, u32 number, const void *key)
{
	const struct user_mapping *x = &((const struct user_mapping *)in)[number], *y = key;

	return x->space == y->space && x->stream == y->stream;
}

static u32 user_code_last(const struct braid_user_code *u, const struct user_mapping *like)
{
	u32 hash = braid_hash_of_number(like->space ^ like->stream);
	u32 number = braid_hash_find(&u->by_space, hash, user_code_same_space, u->mappings, like);

	return number == BRAID_HASH_NONE ? NO_MAPPING : u->mappings[number].last;
}

/* The first one of a space has the number of its last one. */
static int user_code_link(struct braid_user_code *u, struct user_mapping *one)
{
	u32 hash = braid_hash_of_number(one->space ^ one->stream), number = u->nr_mappings, first;

	one->before = NO_MAPPING;
	one->last = number;
	first = braid_hash_find(&u->by_space, hash, user_code_same_space, u->mappings, one);
	if (first != BRAID_HASH_NONE) {
		one->before = u->mappings[first].last;
		u->mappings[first].last = number;
	}
	if (braid_hash_reserve(&u->by_space, MOST_MAPPINGS) ||
	    braid_array_push(u->mappings, u->nr_mappings, u->mappings_capacity, *one))
		return braid_out_of_memory();
	if (first == BRAID_HASH_NONE)
		braid_hash_put(&u->by_space, hash, number);
	return 0;
}

int braid_user_code_map(struct braid_user_code *u, const struct braid_stream *guest,
			const struct user_mapping *m, const struct braid_binary_name *name)
{
	struct user_mapping one = *m;
	int err;

	if (m->start >= m->end)
		return 0;
	if (u->nr_mappings >= MOST_MAPPINGS) {
		u->nr_unmapped++;
		return 0;
	}
	one.stream = guest->number;
	err = user_code_file(u, name, &one.file);
	if (err)
		return err;
	return user_code_link(u, &one);
}

/* The latest one holds. */
static const struct user_mapping *user_code_mapping(struct braid_user_code *u, u32 stream,
						    u64 space, u64 address)
{
	const struct user_mapping like = { .space = space, .stream = stream }, *m;
	u32 at = user_code_last(u, &like), k;

	for (k = 0; at != NO_MAPPING && k < MOST_LOOKED; k++, at = m->before) {
		m = &u->mappings[at];
		if (address >= m->start && address < m->end)
			return m;
	}
	u->nr_unnamed += at != NO_MAPPING;
	return NULL;
}

static bool user_code_same(const void *in, u32 number, const void *key)
{
	const struct user_function *x = &((const struct user_function *)in)[number], *y = key;

	return x->file == y->file && x->start == y->start && x->named == y->named &&
	       (x->file != NO_FILE || (x->stream == y->stream && x->space == y->space));
}

/* Return: its number; BRAID_FUNCTION_USER: there are too many; 0: out of memory. */
static u64 user_code_number(struct braid_user_code *u, const struct user_function *f)
{
	u32 hash = braid_hash_of_number(f->start ^ (u64)f->file << 48), number;

	number = braid_hash_find(&u->by_key, hash, user_code_same, u->functions, f);
	if (number != BRAID_HASH_NONE)
		return BRAID_FUNCTION_CODE + number;
	if (u->nr_functions >= MOST_FUNCTIONS) {
		u->nr_unnamed++;
		return BRAID_FUNCTION_USER;
	}
	number = u->nr_functions;
	if (braid_hash_reserve(&u->by_key, MOST_FUNCTIONS) ||
	    braid_array_push(u->functions, u->nr_functions, u->functions_capacity, *f))
		return 0;
	braid_hash_put(&u->by_key, hash, number);
	return BRAID_FUNCTION_CODE + number;
}

static u64 user_code_in(struct braid_user_code *u, const struct user_mapping *m, u64 address)
{
	struct user_function f = {
		.file = m->file, .stream = m->stream, .start = address - m->start + m->offset,
	};
	int binary = u->files[m->file].binary;

	if (binary >= 0)
		f.name = braid_binaries_find(u->binaries, binary, f.start, &f.start);
	f.named = f.name;
	return user_code_number(u, &f);
}

int braid_user_code_of(struct braid_user_code *u, const struct braid_stream *guest, u64 space,
		       u64 address, bool caller, u64 *function)
{
	const struct user_mapping *m;

	address -= caller && address;	/* the call is before it */
	m = user_code_mapping(u, guest->number, space, address);
	*function = m ? user_code_in(u, m, address) : user_code_number(u, &(struct user_function){
		.file = NO_FILE, .stream = guest->number, .space = space, .start = address,
	});
	return *function ? 0 : braid_out_of_memory();
}

u64 braid_user_code_settle(struct braid_user_code *u, u64 function)
{
	const struct user_mapping *m;
	struct user_function f;

	if (function < BRAID_FUNCTION_CODE || function - BRAID_FUNCTION_CODE >= u->nr_functions)
		return function;
	f = u->functions[function - BRAID_FUNCTION_CODE];
	if (f.file != NO_FILE)
		return function;
	m = user_code_mapping(u, f.stream, f.space, f.start);
	return m ? user_code_in(u, m, f.start) : 0;
}

void braid_user_code_name(const struct braid_user_code *u, u64 function,
			  char name[BRAID_NAME_TEXT])
{
	const struct user_function *f = &u->functions[function - BRAID_FUNCTION_CODE];
	const char *path = u->files[f->file].path;
	size_t bytes = strlen(path), most = BRAID_NAME_TEXT - 24;

	if (f->name)
		snprintf(name, BRAID_NAME_TEXT, "%s", f->name);
	else
		snprintf(name, BRAID_NAME_TEXT, "[%s+0x%llx]",
			 path + (bytes > most ? bytes - most : 0), (unsigned long long)f->start);
}

void braid_user_code_free(struct braid_user_code *u)
{
	size_t k;

	for (k = 0; k < u->nr_files; k++)
		free(u->files[k].path);
	braid_hash_free(&u->by_key);
	braid_hash_free(&u->by_space);
	free(u->files);
	free(u->mappings);
	free(u->functions);
}
