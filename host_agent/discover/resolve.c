// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds the region that a word names, and refuses to guess. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host_agent/discover/libvirt_private.h"
#include "host_agent/transport/vm_mirror.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/folder.h"
#include "host_agent/util/text.h"

#define NAME_KEY	",name="

#define MAX_FILES	3	/* that a word may name: in /dev/shm, attach's, in this folder */

/* The scopes in which one word is looked up. */
struct lookup {
	const char *word;
	const struct braid_found *guests;	/* of this machine */
	size_t nr_guests;
	struct braid_found *files;		/* candidates by name */
	size_t nr_files;
	size_t denied;				/* files that this user may not read */
	const struct braid_found *match;
};

static bool resolve_same(const struct braid_found *a, const struct braid_found *b)
{
	return a->inode ? a->inode == b->inode && a->device == b->device :
			  !strcmp(a->path, b->path);
}

/* Return: 0, or -ENOTUNIQ with braid_fail(). */
static int match(struct lookup *l, const struct braid_found *f)
{
	if (f->untrusted)
		return 0;
	if (l->match && !resolve_same(l->match, f))
		return braid_fail(-ENOTUNIQ, "%s: %s and %s both have this name; use a path",
				  l->word, l->match->path, f->path);
	if (!l->match)
		l->match = f;
	return 0;
}

/* Names given by the host: no guest can claim one of these. */
static int match_host_names(struct lookup *l)
{
	int err = 0;
	size_t k;

	for (k = 0; k < l->nr_guests && !err; k++)
		if (!strcmp(l->guests[k].given, l->word) ||
		    !strcmp(braid_folder_name(l->guests[k].path), l->word))
			err = match(l, &l->guests[k]);
	/* A match that is not a region, such as a folder, is used only if there is no other. */
	for (k = 0; k < l->nr_files && !err; k++)
		if (l->files[k].error != -EMEDIUMTYPE)
			err = match(l, &l->files[k]);
	for (k = 0; k < l->nr_files && !err && !l->match; k++)
		err = match(l, &l->files[k]);
	return err;
}

/* Names chosen by guests: not considered for one that QEMU named. */
static int match_guest_names(struct lookup *l)
{
	int err = 0;
	size_t k;

	for (k = 0; k < l->nr_guests && !err; k++)
		if (!*l->guests[k].given && (!strcmp(l->guests[k].name, l->word) ||
					     !strcmp(l->guests[k].sb.guest_name, l->word)))
			err = match(l, &l->guests[k]);
	return err;
}

static int resolve_fail(const struct lookup *l)
{
	size_t k;

	for (k = 0; k < l->nr_files; k++)
		if (l->files[k].untrusted)
			return braid_fail(-EPERM, "%s", l->files[k].why);
	if (l->denied)
		return braid_fail(-ENOENT, "%s: no such file or region that this user may read (permission denied for %zu: run as root); 'tracebraid list' shows them",
				  l->word, l->denied);
	return braid_mapping_fail_open(l->word, ENOENT);
}

static int look_up_files(struct lookup *l)
{
	char shm[256], attached[256 + sizeof(BRAID_SHM_DIR)], name[200];
	const char *candidates[MAX_FILES] = { shm, attached, l->word }, *paths[MAX_FILES];
	struct stat st;
	size_t nr = 0, k;

	snprintf(shm, sizeof(shm), BRAID_SHM_DIR "%s", l->word);
	braid_shmem_name(l->word, l->word, name, sizeof(name));
	snprintf(attached, sizeof(attached), BRAID_SHM_DIR "%s", name);
	for (k = 0; k < MAX_FILES; k++)
		if (!lstat(candidates[k], &st))
			paths[nr++] = candidates[k];
	return nr ? braid_discover(&l->files, &l->nr_files, paths, nr, BRAID_DISCOVER_OWNERS, NULL) :
		    0;
}

static int look_up(struct lookup *l, char path[256])
{
	int err = look_up_files(l);

	if (!err)
		err = match_host_names(l);
	if (!err && !l->match)
		err = match_guest_names(l);
	if (!err && !l->match)
		err = resolve_fail(l);
	if (!err)
		strcpy(path, l->match->path);
	free(l->files);
	return err;
}

int braid_resolve(struct braid_named *named, size_t nr)
{
	braid_auto_free struct braid_found *guests = NULL;
	size_t nr_guests = 0, denied = 0, k;
	bool searched = false;
	int err = 0;

	for (k = 0; k < nr && !err; k++) {
		struct lookup l = { .word = named[k].word };

		if (strlen(l.word) >= sizeof(named[k].path))
			return braid_fail(-ENAMETOOLONG, "%s: the name is too long", l.word);
		if (strchr(l.word, '/') || !strncmp(l.word, BRAID_VM_SCHEME, strlen(BRAID_VM_SCHEME))) {
			strcpy(named[k].path, l.word);
			continue;
		}
		if (!searched)
			err = braid_discover(&guests, &nr_guests, NULL, 0, 0, &denied);
		searched = true;
		l.guests = guests;
		l.nr_guests = nr_guests;
		l.denied = denied;
		if (!err)
			err = look_up(&l, named[k].path);
	}
	return err;
}

int braid_split_name(const char *argument, char place[256], char name[BRAID_GUEST_NAME_BYTES])
{
	const char *comma = strstr(argument, NAME_KEY);
	size_t n = comma ? (size_t)(comma - argument) : strlen(argument);

	*name = 0;
	if (!n || n >= 256)
		return braid_fail(-EINVAL, "\"%s\": a region's name or path has 1 to 255 characters",
				  argument);
	memcpy(place, argument, n);
	place[n] = 0;
	if (!comma)
		return 0;
	comma += strlen(NAME_KEY);
	if (!*comma || strlen(comma) >= BRAID_GUEST_NAME_BYTES)
		return braid_fail(-EINVAL, "%s: a name has 1 to %d characters", argument,
				  BRAID_GUEST_NAME_BYTES - 1);
	strcpy(name, comma);
	braid_text_clean(name);
	return 0;
}
