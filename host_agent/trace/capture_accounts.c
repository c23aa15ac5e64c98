// SPDX-License-Identifier: GPL-2.0-or-later
/* The accounts of a guest's filters and probes. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/capture_private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/text.h"

#define NAME_BYTES	(2 * BRAID_PATTERN_BYTES)	/* system and event are adjacent */

static_assert(offsetof(struct braid_account, event) ==
	      offsetof(struct braid_account, system) + BRAID_PATTERN_BYTES, "name of an account");

static const u8 *name_of(const struct braid_account *row)
{
	return (const u8 *)row + offsetof(struct braid_account, system);
}

static bool is_same(const void *in, u32 number, const void *key)
{
	const struct braid_stream_account *known = (const struct braid_stream_account *)in + number;
	const struct braid_stream_account *other = key;

	return known->file == other->file &&
	       !memcmp(name_of(&known->row), name_of(&other->row), NAME_BYTES);
}

/* The bytes after the text are 0 then. */
static void clean(char *text)
{
	text[BRAID_PATTERN_BYTES - 1] = 0;
	braid_text_clean(text);
	memset(text + strlen(text), 0, BRAID_PATTERN_BYTES - strlen(text));
}

static int put_row(struct braid_capture_stream *s, const struct braid_stream_account *account)
{
	struct braid_stream_accounts *to = &s->stream.accounts[account->row.kind];
	struct braid_hash *by_name = &s->accounts_by_name[account->row.kind];
	u32 hash = braid_hash_of(name_of(&account->row), NAME_BYTES, account->file);
	u32 number = braid_hash_find(by_name, hash, is_same, to->items, account);

	if (number != BRAID_HASH_NONE) {
		to->items[number] = *account;
		return 0;
	}
	if (to->nr >= BRAID_MAX_TABLE)
		return 0;
	if (braid_hash_reserve(by_name, BRAID_MAX_TABLE) ||
	    braid_array_push(to->items, to->nr, s->accounts_capacity[account->row.kind], *account))
		return -ENOMEM;
	braid_hash_put(by_name, hash, to->nr - 1);
	return 0;
}

int braid_capture_take_accounts(struct braid_capture_stream *s, const struct braid_chunk_view *v)
{
	struct braid_stream_account account = { .file = s->source->file };
	int err = 0;
	u32 at = 0;

	while (!err && braid_view_take(v, &at, &account.row, sizeof(account.row))) {
		if (!account.row.kind || account.row.kind >= BRAID_ACCOUNT_KINDS)
			continue;
		clean(account.row.system);
		clean(account.row.event);
		err = put_row(s, &account);
	}
	return err;
}

void braid_capture_free_accounts(struct braid_capture_stream *s)
{
	u32 k;

	for (k = 0; k < BRAID_ACCOUNT_KINDS; k++) {
		free(s->stream.accounts[k].items);
		braid_hash_free(&s->accounts_by_name[k]);
	}
}
