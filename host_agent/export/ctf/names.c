// SPDX-License-Identifier: GPL-2.0-or-later
/* Makes names for CTF of any string: identifiers, plain strings, files. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/ctf/names.h"
#include "host_agent/util/array.h"

#define MAX_NAME_BYTES	96u	/* of a field's own name; longer ones are cut */

/* Members --------------------------------------------------------------------------------- */

static bool ctf_names_same(const void *in, u32 number, const void *name)
{
	return !strcmp(((const struct braid_ctf_names *)in)->names[number], name);
}

static u32 ctf_names_hash_of(const char *name)
{
	return braid_hash_of(name, strlen(name), 0);
}

static u32 ctf_names_find(const struct braid_ctf_names *n, const char *name)
{
	return braid_hash_find(&n->by_name, ctf_names_hash_of(name), ctf_names_same, n, name);
}

static const char *ctf_names_add(struct braid_ctf_names *n, const char *name)
{
	char *to = n->names[n->nr];

	snprintf(to, BRAID_CTF_MEMBER_BYTES, "%s", name);
	n->next[n->nr] = 2;
	if (braid_hash_reserve(&n->by_name, BRAID_CTF_MOST_MEMBERS))
		n->failed = true;
	else
		braid_hash_put(&n->by_name, ctf_names_hash_of(to), n->nr);
	n->nr++;
	return to;
}

/* Each number is tried once per name, so all names together take linear time. */
static const char *add_unique(struct braid_ctf_names *n, const char *name)
{
	char numbered[BRAID_CTF_MEMBER_BYTES];
	u32 first = ctf_names_find(n, name);

	if (first == BRAID_HASH_NONE)
		return ctf_names_add(n, name);
	do {
		snprintf(numbered, sizeof(numbered), "%s_%u", name, n->next[first]++);
	} while (ctf_names_find(n, numbered) != BRAID_HASH_NONE);
	return ctf_names_add(n, numbered);
}

void braid_ctf_names_begin(struct braid_ctf_names *n)
{
	/* With the leading '_' these would be keywords. */
	static const char *const reserved[] = { "Bool", "Complex", "Imaginary" };
	u32 k;

	n->nr = 0;
	braid_hash_clear(&n->by_name);
	for (k = 0; k < sizeof(reserved) / sizeof(*reserved); k++)
		ctf_names_add(n, reserved[k]);
}

void braid_ctf_names_free(struct braid_ctf_names *n)
{
	braid_hash_free(&n->by_name);
}

/* LTTng, whose names Trace Compass knows, calls a tid what the scheduler's events call a pid. */
static void name_tid(char *name)
{
	size_t bytes = strlen(name);

	if (!strcmp(name, "pid") || (bytes > 4 && !strcmp(name + bytes - 4, "_pid")))
		name[bytes - 3] = 't';
}

/* Replaces what an identifier can't have. */
static void copy_word(char *to, size_t size, const char *from)
{
	size_t k;

	for (k = 0; from[k] && k + 1 < size; k++)
		to[k] = isalnum((unsigned char)from[k]) ? from[k] : '_';
	to[k] = 0;
}

const char *braid_ctf_names_field(struct braid_ctf_names *n, const struct braid_field *field)
{
	const char *system = field->layout->system;
	char name[MAX_NAME_BYTES];

	copy_word(name, sizeof(name), field->name);
	if (system && !strcmp(system, "sched"))
		name_tid(name);
	return add_unique(n, *name ? name : "field");
}

const char *braid_ctf_names_length(struct braid_ctf_names *n, const char *name)
{
	char length[BRAID_CTF_MEMBER_BYTES];

	snprintf(length, sizeof(length), "__%.*s_len", (int)(MAX_NAME_BYTES + 8), name);
	return add_unique(n, length);
}

/* Others ---------------------------------------------------------------------------------- */

void braid_ctf_plain(char *to, size_t size, const char *from)
{
	size_t k;

	/* Readers differ in how they treat escapes. */
	for (k = 0; from[k] && k + 1 < size; k++) {
		u8 c = from[k];

		to[k] = c < ' ' || c > '~' || c == '"' || c == '\\' ? '?' : c;
	}
	to[k] = 0;
}

static bool is_keyword(const char *name)
{
	static const char *const words[] = {
		"align", "callsite", "char", "clock", "const", "double", "enum", "env", "event",
		"float", "floating_point", "int", "integer", "long", "short", "signed", "stream",
		"string", "struct", "trace", "typealias", "typedef", "unsigned", "variant", "void",
	};
	size_t k;

	for (k = 0; k < sizeof(words) / sizeof(*words); k++)
		if (!strcmp(name, words[k]))
			return true;
	return false;
}

void braid_ctf_clock_name(char *to, size_t size, const char *from)
{
	copy_word(to, size, from);
	if (!isalpha((unsigned char)*to) || is_keyword(to))
		snprintf(to, size, "host_clock");
}

/* Paths ----------------------------------------------------------------------------------- */

/* A name for a file, the same for every file system and shell. */
static void file_name(char to[BRAID_CTF_NAME_BYTES], const char *from)
{
	size_t k;

	for (k = 0; from[k] && k + 1 < BRAID_CTF_NAME_BYTES; k++)
		to[k] = isalnum((unsigned char)from[k]) || (k && strchr("-.", from[k])) ?
			from[k] : '_';
	to[k] = 0;
}

static bool same_path(const void *in, u32 number, const void *path)
{
	return !strcasecmp(((const struct braid_ctf_paths *)in)->all[number], path);
}

static u32 hash_of_path(const char *path)
{
	char small[BRAID_CTF_PATH_BYTES];
	size_t k;

	for (k = 0; path[k]; k++)
		small[k] = tolower((unsigned char)path[k]);
	return braid_hash_of(small, k, 0);
}

const char *braid_ctf_paths_add(struct braid_ctf_paths *p, const char *folder, const char *name,
				u64 number)
{
	char file[BRAID_CTF_NAME_BYTES], path[BRAID_CTF_PATH_BYTES], *kept;
	const char *slash = *folder ? "/" : "";

	file_name(file, name);
	snprintf(path, sizeof(path), "%s%s%s", folder, slash, file);
	while (braid_hash_find(&p->by_path, hash_of_path(path), same_path, p, path) !=
	       BRAID_HASH_NONE)
		snprintf(path, sizeof(path), "%s%s%s-%llu", folder, slash, file,
			 (unsigned long long)number++);
	kept = strdup(path);
	if (!kept || braid_hash_reserve(&p->by_path, BRAID_HASH_NONE / 4) ||
	    braid_array_push(p->all, p->nr, p->capacity, kept)) {
		free(kept);
		return NULL;
	}
	braid_hash_put(&p->by_path, hash_of_path(path), p->nr - 1);
	return kept;
}

void braid_ctf_paths_free(struct braid_ctf_paths *p)
{
	size_t k;

	for (k = 0; k < p->nr; k++)
		free(p->all[k]);
	free(p->all);
	braid_hash_free(&p->by_path);
}
