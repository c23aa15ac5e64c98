// SPDX-License-Identifier: GPL-2.0-or-later
/* What several culprits took of one time: added up for each, and the largest. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/analysis.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define SHOWN	3u

static void add_others(struct braid_shares *p, const struct braid_share *share)
{
	p->others++;
	p->others_ns += share->ns;
}

void braid_shares_keep(struct braid_shares *p, const struct braid_share *share)
{
	u32 k = p->nr;

	if (k == BRAID_MAX_SHARES) {
		if (share->ns <= p->of[k - 1].ns) {
			add_others(p, share);
			return;
		}
		add_others(p, &p->of[--k]);
	} else {
		p->nr++;
	}
	for (; k && p->of[k - 1].ns < share->ns; k--)
		p->of[k] = p->of[k - 1];
	p->of[k] = *share;
}

/* A JSON array of all. */
static void write_json(const struct braid_states *s, const struct braid_shares *p,
		       struct braid_text *out)
{
	char name[BRAID_NAME_TEXT];
	u32 k;

	braid_text_putc(out, '[');
	for (k = 0; k < p->nr; k++) {
		braid_culprit_name(s, &p->of[k].culprit, name);
		braid_text_puts(out, k ? ",{\"culprit\":" : "{\"culprit\":");
		braid_text_json(out, name, strlen(name));
		braid_text_printf(out, ",\"ns\":%llu}", (unsigned long long)p->of[k].ns);
	}
	if (p->others)
		braid_text_printf(out, ",{\"culprit\":\"others\",\"ns\":%llu}",
				  (unsigned long long)p->others_ns);
	braid_text_putc(out, ']');
}

void braid_shares_write(const struct braid_states *s, const struct braid_shares *p,
			enum braid_table_form form, struct braid_text *out)
{
	char name[BRAID_NAME_TEXT], took[24];
	u32 k;

	if (form == BRAID_TABLE_JSON) {
		write_json(s, p, out);
		return;
	}
	for (k = 0; k < p->nr && k < SHOWN; k++) {
		braid_culprit_name(s, &p->of[k].culprit, name);
		braid_duration_text(p->of[k].ns, took);
		braid_text_puts(out, k ? ", " : "");
		braid_text_puts(out, name);
		braid_text_puts(out, " (");
		braid_text_puts(out, took);
		braid_text_putc(out, ')');
	}
	if (k < p->nr + p->others)
		braid_text_printf(out, ", %u more", p->nr + p->others - k);
}

void braid_shares_put(const struct braid_states *s, const struct braid_shares *p,
		      enum braid_table_form form, struct braid_table *t)
{
	struct braid_text text = { 0 };

	braid_shares_write(s, p, form, &text);
	braid_text_putc(&text, 0);
	t->failed |= text.failed;
	braid_table_text(t, text.failed ? "" : text.data);
	braid_text_free(&text);
}

/* Tallies ------------------------------------------------------------------------------------ */

struct key {
	u32 vcpu;
	const struct braid_culprit *culprit;
};

int braid_tally_begin(struct braid_tally *t, u32 nr_vcpus)
{
	*t = (struct braid_tally){ .lanes = calloc((size_t)nr_vcpus + 1, sizeof(*t->lanes)) };
	return t->lanes ? 0 : braid_out_of_memory();
}

static u32 tally_hash_of(u32 vcpu, const struct braid_culprit *c)
{
	const u64 parts[] = {
		(u64)vcpu << 32 | (u32)c->id, (u64)c->vcpu << 32 | (u32)c->task, c->kind,
	};

	return braid_hash_of(parts, sizeof(parts), 0);
}

static bool is_of_key(const void *in, u32 number, const void *of)
{
	const struct braid_tally_cell *cell = (const struct braid_tally_cell *)in + number;
	const struct key *key = of;

	return cell->lane == key->vcpu && braid_culprit_same(&cell->share.culprit, key->culprit);
}

/* A cell that is not in the table; *number 0: there are too many. Return: 0 or -ENOMEM. */
static int take_cell(struct braid_tally *t, u32 *number)
{
	*number = t->first_free;
	if (*number) {
		t->first_free = t->cells[*number - 1].next;
		return 0;
	}
	if (t->nr_cells == BRAID_TALLY_MOST)
		return 0;
	if (braid_hash_reserve(&t->table, BRAID_TALLY_MOST) ||
	    braid_array_push(t->cells, t->nr_cells, t->capacity, (struct braid_tally_cell){ 0 }))
		return -ENOMEM;
	*number = t->nr_cells;
	return 0;
}

int braid_tally_add(struct braid_tally *t, u32 vcpu, const struct braid_culprit *culprit, u64 ns)
{
	struct braid_tally_lane *lane = &t->lanes[vcpu];
	const struct key key = { vcpu, culprit };
	u32 hash = tally_hash_of(vcpu, culprit), number = braid_hash_find(&t->table, hash,
									  is_of_key, t->cells,
									  &key);

	if (number != BRAID_HASH_NONE) {
		t->cells[number].share.ns += ns;
		return 0;
	}
	if (take_cell(t, &number))
		return braid_out_of_memory();
	if (!number) {
		lane->others_ns += ns;
		return 0;
	}
	t->cells[number - 1] = (struct braid_tally_cell){
		.share = { .culprit = *culprit, .ns = ns }, .lane = vcpu, .next = lane->first,
	};
	lane->first = number;
	braid_hash_put(&t->table, hash, number - 1);
	return 0;
}

const struct braid_share *braid_tally_next(const struct braid_tally *t, u32 vcpu, u32 *at)
{
	*at = *at ? t->cells[*at - 1].next : t->lanes[vcpu].first;
	return *at ? &t->cells[*at - 1].share : NULL;
}

u64 braid_tally_others(const struct braid_tally *t, u32 vcpu)
{
	return t->lanes[vcpu].others_ns;
}

void braid_tally_shares(const struct braid_tally *t, u32 vcpu, struct braid_shares *out)
{
	const struct braid_share *share;
	u32 at = 0;

	*out = (struct braid_shares){
		.others = !!t->lanes[vcpu].others_ns, .others_ns = t->lanes[vcpu].others_ns,
	};
	while ((share = braid_tally_next(t, vcpu, &at)))
		braid_shares_keep(out, share);
}

void braid_tally_clear(struct braid_tally *t, u32 vcpu)
{
	struct braid_tally_lane *lane = &t->lanes[vcpu];
	u32 number, next;

	for (number = lane->first; number; number = next) {
		next = t->cells[number - 1].next;
		braid_hash_remove(&t->table, tally_hash_of(vcpu,
							   &t->cells[number - 1].share.culprit),
							   number - 1);
		t->cells[number - 1].next = t->first_free;
		t->first_free = number;
	}
	*lane = (struct braid_tally_lane){ 0 };
}

void braid_tally_free(struct braid_tally *t)
{
	free(t->lanes);
	free(t->cells);
	braid_hash_free(&t->table);
	*t = (struct braid_tally){ 0 };
}
