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
	*i = (struct braid_feed_item){ .kind = k };
	memcpy(i->name, file, n);
	return braid_fleet_name_is_valid(i->name);
}

/* A capture before a mark or a note of its name. */
static int feed_item_by_name(const void *a, const void *b)
{
	const struct braid_feed_item *one = a, *two = b;

	return strcmp(one->name, two->name) ?: (int)one->kind - (int)two->kind;
}

static int feed_item_by_turn(const void *a, const void *b)
{
	const struct braid_feed_item *one = a, *two = b;
	int marks = (one->kind == BRAID_FEED_IS_MARK) - (two->kind == BRAID_FEED_IS_MARK);

	return marks ?: strcmp(one->name, two->name);
}

/* One of these items: by its name, and whether it is a mark. */
static struct braid_feed_item *feed_item_find(const struct braid_feed_items *s,
					      const struct braid_feed_item *like)
{
	return s->nr ? bsearch(like, s->items, s->nr, sizeof(*s->items), feed_item_by_turn) : NULL;
}

/* Adds a file of the folder. Return: 0, or -ENOMEM with braid_fail(). */
static int feed_item_look(const struct braid_feed_items *s, const char *file,
			  struct braid_feed_items *now)
{
	const struct braid_feed_item *former;
	struct braid_feed_item one;
	struct stat st;

	if (!feed_item_parse(&one, file) || fstatat(s->folder, file, &st, AT_SYMLINK_NOFOLLOW) ||
	    !S_ISREG(st.st_mode))
		return 0;
	former = feed_item_find(s, &one);
	if (former && former->kind == one.kind)
		one = *former;
	one.bytes = one.kind == BRAID_FEED_IS_LOST ? 0 : st.st_size;
	one.shared = st.st_nlink > 1;
	/* The recorder removes only files that are complete. */
	one.complete = one.kind != BRAID_FEED_IS_CAPTURE || !(st.st_mode & S_IWUSR) || !one.shared;
	if (!braid_array_push(now->items, now->nr, now->capacity, one))
		return 0;
	return braid_out_of_memory();
}

/* A name is of one file: of a note of a loss and its capture, the latter was not removed. */
static void feed_items_unite(struct braid_feed_items *now)
{
	size_t k, kept = 0;

	if (now->nr)
		qsort(now->items, now->nr, sizeof(*now->items), feed_item_by_name);
	for (k = 0; k < now->nr; k++) {
		if (!kept || strcmp(now->items[kept - 1].name, now->items[k].name))
			now->items[kept++] = now->items[k];
		else if (now->items[k].kind == BRAID_FEED_IS_LOST)
			braid_feed_item_remove(now, &now->items[k]);
	}
	now->nr = kept;
	if (now->nr)
		qsort(now->items, now->nr, sizeof(*now->items), feed_item_by_turn);
}

int braid_feed_items_look(struct braid_feed_items *s)
{
	struct braid_feed_items now = { .folder = s->folder, .lost = s->lost };
	int fd = openat(s->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), err = 0;
	braid_auto_dir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir) {
		err = braid_fail(-errno, "the folder of captures for the store: %s", strerror(errno));
		if (fd >= 0)
			close(fd);
		return err;
	}
	while (!err && (entry = readdir(dir)))
		err = feed_item_look(s, entry->d_name, &now);
	if (err) {
		free(now.items);
		return err;
	}
	feed_items_unite(&now);
	free(s->items);
	*s = now;
	return 0;
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
	char text[24] = "", *end;
	u64 bytes;
	ssize_t n;

	piece->end = true;
	if (i->kind != BRAID_FEED_IS_LOST)
		return feed_item_check(s, i, piece->check);
	n = braid_feed_item_read(s, i, 0, text, sizeof(text) - 1);
	bytes = strtoull(text, &end, 10);
	if (end == text || *end != '\n')	/* there was no space for the note */
		piece->lost = BRAID_STORE_UNKNOWN;
	else
		piece->lost = bytes > i->from ? bytes - i->from : 0;
	return n < 0 ? n : 0;
}

bool braid_feed_item_waits(const struct braid_feed_items *s, const struct braid_feed_item *i)
{
	braid_auto_free char *text = NULL;
	struct braid_feed_item like = { .kind = BRAID_FEED_IS_CAPTURE };
	const struct braid_feed_item *other;
	const char *at;
	ssize_t n;

	if (i->kind != BRAID_FEED_IS_MARK)
		return false;
	text = malloc(BRAID_STORE_MOST_MARK);
	n = text ? braid_feed_item_read(s, i, 0, text, BRAID_STORE_MOST_MARK) : 0;
	if (n <= 0 || !braid_store_mark_is(text, n, &at))
		return false;
	while (braid_store_mark_next(&at, text + n, like.name)) {
		other = feed_item_find(s, &like);
		if (other && other->state != BRAID_FEED_STORED)
			return true;
	}
	return false;
}

int braid_feed_item_remove(const struct braid_feed_items *s, const struct braid_feed_item *i)
{
	char file[BRAID_FEED_FILE];

	feed_item_file(i, file);
	if (!unlinkat(s->folder, file, 0) || errno == ENOENT)
		return 0;
	return braid_fail(-errno, "%s: cannot be removed: %s", file, strerror(errno));
}

s64 braid_feed_item_lose(struct braid_feed_items *s, struct braid_feed_item *i)
{
	u64 lost = i->bytes > i->from ? i->bytes - i->from : 0;
	struct braid_feed_item note = *i;
	char file[BRAID_FEED_FILE], text[24];
	int n = snprintf(text, sizeof(text), "%llu\n", (unsigned long long)i->bytes), err;

	note.kind = BRAID_FEED_IS_LOST;
	feed_item_file(&note, file);
	braid_auto_fd int fd = openat(s->folder, file, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW |
				      O_CLOEXEC, 0600);

	if (fd < 0)
		return braid_fail(-errno, "%s: %s", file, strerror(errno));
	/* How much of these is stored is known when the store has said it. */
	braid_write_all(fd, text, n);	/* without space the note is empty: unknown */
	err = braid_feed_item_remove(s, i);
	if (err)
		return err;
	i->kind = BRAID_FEED_IS_LOST;
	i->state = BRAID_FEED_ASK;
	i->bytes = 0;
	i->complete = true;
	s->lost += lost;
	return lost;
}
