// SPDX-License-Identifier: GPL-2.0-or-later
/* What several culprits took of one time. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/analysis.h"

#define SHOWN	3u

/* Those of one time beyond the limit are together one of unknown name. */
static const struct braid_culprit too_many = {
	.kind = BRAID_CULPRIT_UNKNOWN, .vcpu = BRAID_NO_VCPU, .task = BRAID_PID_UNKNOWN,
};

void braid_shares_add(struct braid_shares *p, const struct braid_culprit *culprit, u64 ns)
{
	u32 k;

	for (k = 0; k < p->nr && !braid_culprit_same(&p->of[k].culprit, culprit); k++)
		;
	if (k == p->nr && k >= BRAID_MAX_SHARES - 1) {
		k = BRAID_MAX_SHARES - 1;
		culprit = &too_many;
	}
	if (k == p->nr)
		p->of[p->nr++] = (struct braid_share){ .culprit = *culprit };
	p->of[k].ns += ns;
}

static int by_ns(const void *a, const void *b)
{
	const struct braid_share *x = a, *y = b;

	return x->ns != y->ns ? (x->ns > y->ns ? -1 : 1) : 0;
}

/* A JSON array of all. */
static void write_json(const struct braid_states *s, const struct braid_shares *sorted,
		       struct braid_text *out)
{
	char name[BRAID_NAME_TEXT];
	u32 k;

	for (k = 0; k < sorted->nr; k++) {
		braid_culprit_name(s, &sorted->of[k].culprit, name);
		braid_text_puts(out, k ? ",{\"culprit\":" : "[{\"culprit\":");
		braid_text_json(out, name, strlen(name));
		braid_text_printf(out, ",\"ns\":%llu}", (unsigned long long)sorted->of[k].ns);
	}
	braid_text_puts(out, k ? "]" : "[]");
}

void braid_shares_write(const struct braid_states *s, const struct braid_shares *p,
			enum braid_table_form form, struct braid_text *out)
{
	struct braid_shares sorted = *p;
	char name[BRAID_NAME_TEXT], took[24];
	u32 k;

	qsort(sorted.of, sorted.nr, sizeof(*sorted.of), by_ns);
	if (form == BRAID_TABLE_JSON) {
		write_json(s, &sorted, out);
		return;
	}
	for (k = 0; k < sorted.nr && k < SHOWN; k++) {
		braid_culprit_name(s, &sorted.of[k].culprit, name);
		braid_duration_text(sorted.of[k].ns, took);
		braid_text_puts(out, k ? ", " : "");
		braid_text_puts(out, name);
		braid_text_puts(out, " (");
		braid_text_puts(out, took);
		braid_text_putc(out, ')');
	}
	if (k < sorted.nr)
		braid_text_printf(out, ", %u more", sorted.nr - k);
}
