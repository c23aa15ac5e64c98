// SPDX-License-Identifier: GPL-2.0-or-later
/* Files that are put into the fleet's store. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "host_agent/fleet/feed_item.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"

#define STEP_BYTES	(1u << 20)
#define MOST_MARK	((size_t)64 << 10)

static const char *const suffixes[] = {
	[BRAID_FEED_IS_CAPTURE] = BRAID_FEED_CAPTURE,
	[BRAID_FEED_IS_MARK] = BRAID_FEED_MARK,
	[BRAID_FEED_IS_LOST] = BRAID_FEED_LOST,
};

#define NR_KINDS	(sizeof(suffixes) / sizeof(*suffixes))

static void feed_item_file(const struct braid_feed_item *i, char file[BRAID_FEED_FILE])
{
	snprintf(file, BRAID_FEED_FILE, "%s%s", i->name, suffixes[i->kind]);
}

/* The folder ---------------------------------------------------------------------------------- */

static bool feed_item_parse(struct braid_feed_item *i, const char *file)
{
	const char *dot = strrchr(file, '.');
	size_t n = dot ? dot - file : 0, k;

	for (k = 0; n && k < NR_KINDS && strcmp(dot, suffixes[k]); k++)
		;
	if (!n || k == NR_KINDS || n >= BRAID_FLEET_NAME)
		return false;
	*i = (struct braid_feed_item){ .kind = k, .seen = true };
	memcpy(i->name, file, n);
	return braid_fleet_name_is_valid(i->name);
}

static struct braid_feed_item *feed_item_find(const struct braid_feed_items *s, const char *name)
{
	size_t k;

	for (k = 0; k < s->nr; k++)
		if (!strcmp(s->items[k].name, name))
			return &s->items[k];
	return NULL;
}

static int feed_item_by_name(const void *a, const void *b)
{
	const struct braid_feed_item *one = a, *two = b;
	int marks = (one->kind == BRAID_FEED_IS_MARK) - (two->kind == BRAID_FEED_IS_MARK);

	return marks ?: strcmp(one->name, two->name);
}

static int feed_item_look(struct braid_feed_items *s, const char *file)
{
	struct braid_feed_item one, *i;
	struct stat st;

	if (!feed_item_parse(&one, file) || fstatat(s->folder, file, &st, AT_SYMLINK_NOFOLLOW) ||
	    !S_ISREG(st.st_mode))
		return 0;
	i = feed_item_find(s, one.name);
	if (i && i->kind != one.kind && !i->seen)
		*i = one;
	if (i && i->kind != one.kind) {
		/* A note of a loss, and its capture: it was to be removed, and was not. */
		if (i->kind == BRAID_FEED_IS_LOST)
			braid_feed_item_remove(s, i);
		if (i->kind != BRAID_FEED_IS_LOST || one.kind != BRAID_FEED_IS_CAPTURE)
			return 0;
		*i = one;
	}
	if (!i) {
		if (braid_array_push(s->items, s->nr, s->capacity, one))
			return braid_out_of_memory();
		i = &s->items[s->nr - 1];
	}
	i->seen = true;
	i->bytes = i->kind == BRAID_FEED_IS_LOST ? 0 : st.st_size;
	i->complete = i->kind != BRAID_FEED_IS_CAPTURE || !(st.st_mode & S_IWUSR);
	i->shared = st.st_nlink > 1;
	return 0;
}

int braid_feed_items_look(struct braid_feed_items *s)
{
	int fd = openat(s->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), err = 0;
	braid_auto_dir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	size_t k, kept = 0;

	if (!dir) {
		err = braid_fail(-errno, "the folder of captures for the store: %s", strerror(errno));
		if (fd >= 0)
			close(fd);
		return err;
	}
	for (k = 0; k < s->nr; k++)
		s->items[k].seen = false;
	while (!err && (entry = readdir(dir)))
		err = feed_item_look(s, entry->d_name);
	for (k = 0; k < s->nr; k++)
		if (s->items[k].seen)
			s->items[kept++] = s->items[k];
	s->nr = kept;
	if (s->nr)
		qsort(s->items, s->nr, sizeof(*s->items), feed_item_by_name);
	return err;
}

/* Files -------------------------------------------------------------------------------------- */

static int feed_item_open(const struct braid_feed_items *s, const struct braid_feed_item *i)
{
	char file[BRAID_FEED_FILE];
	int fd;

	feed_item_file(i, file);
	fd = openat(s->folder, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return fd < 0 ? braid_fail(-errno, "%s: %s", file, strerror(errno)) : fd;
}

ssize_t braid_feed_item_read(const struct braid_feed_items *s, const struct braid_feed_item *i,
			     u64 from, void *to, size_t bytes)
{
	braid_auto_fd int fd = feed_item_open(s, i);
	ssize_t n = fd < 0 ? fd : braid_pread_all(fd, to, bytes, from);

	return fd >= 0 && n < 0 ? braid_fail(n, "%s: %s", i->name, strerror(-n)) : n;
}

static int feed_item_check(const struct braid_feed_items *s, const struct braid_feed_item *i,
			   char check[BRAID_STORE_CHECK])
{
	braid_auto_free char *buffer = malloc(STEP_BYTES);
	XXH3_state_t *state = XXH3_createState();
	size_t most;
	u64 at = 0;
	ssize_t n = 1;

	if (!buffer || !state) {
		XXH3_freeState(state);
		return braid_out_of_memory();
	}
	XXH3_64bits_reset(state);
	while (at < i->from && n > 0) {
		most = i->from - at < STEP_BYTES ? i->from - at : STEP_BYTES;
		n = braid_feed_item_read(s, i, at, buffer, most);
		if (n > 0)
			XXH3_64bits_update(state, buffer, n);
		at += n > 0 ? n : 0;
	}
	snprintf(check, BRAID_STORE_CHECK, "%016llx",
		 (unsigned long long)XXH3_64bits_digest(state));
	XXH3_freeState(state);
	return n < 0 ? n : 0;
}

int braid_feed_item_end(const struct braid_feed_items *s, const struct braid_feed_item *i,
			struct braid_store_piece *piece)
{
	char text[24] = "";
	ssize_t n;

	piece->end = true;
	if (i->kind != BRAID_FEED_IS_LOST)
		return feed_item_check(s, i, piece->check);
	n = braid_feed_item_read(s, i, 0, text, sizeof(text) - 1);
	piece->lost = n > 0 ? strtoull(text, NULL, 10) : BRAID_STORE_UNKNOWN;
	return n < 0 ? n : 0;
}

bool braid_feed_item_waits(const struct braid_feed_items *s, const struct braid_feed_item *i)
{
	braid_auto_free char *text = NULL;
	char name[BRAID_FLEET_NAME];
	const struct braid_feed_item *other;
	const char *at;
	ssize_t n;

	if (i->kind != BRAID_FEED_IS_MARK)
		return false;
	text = malloc(MOST_MARK);
	n = text ? braid_feed_item_read(s, i, 0, text, MOST_MARK) : 0;
	if (n <= 0 || !braid_store_mark_is(text, n, &at))
		return false;
	while (braid_store_mark_next(&at, text + n, name)) {
		other = feed_item_find(s, name);
		if (other && other->kind != BRAID_FEED_IS_MARK && other->state != BRAID_FEED_STORED)
			return true;
	}
	return false;
}

void braid_feed_item_remove(const struct braid_feed_items *s, struct braid_feed_item *i)
{
	char file[BRAID_FEED_FILE];

	feed_item_file(i, file);
	unlinkat(s->folder, file, 0);
}

s64 braid_feed_item_lose(struct braid_feed_items *s, struct braid_feed_item *i)
{
	u64 lost = i->bytes > i->from ? i->bytes - i->from : 0;
	struct braid_feed_item note = *i;
	char file[BRAID_FEED_FILE], text[24];
	int n = snprintf(text, sizeof(text), "%llu\n", (unsigned long long)lost), err;

	note.kind = BRAID_FEED_IS_LOST;
	feed_item_file(&note, file);
	braid_auto_fd int fd = openat(s->folder, file, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW |
				      O_CLOEXEC, 0600);

	err = fd < 0 ? -errno : braid_write_all(fd, text, n);
	if (err)
		return braid_fail(err, "%s: %s", file, strerror(-err));
	braid_feed_item_remove(s, i);
	i->kind = BRAID_FEED_IS_LOST;
	i->state = BRAID_FEED_ASK;
	i->bytes = 0;
	i->complete = true;
	s->lost += lost;
	return lost;
}
