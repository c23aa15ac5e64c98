// SPDX-License-Identifier: GPL-2.0-or-later
/* What several culprits took of one time. */
#include <string.h>

#include "host_agent/analyze/analysis.h"

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
