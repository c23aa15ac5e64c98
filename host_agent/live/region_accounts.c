// SPDX-License-Identifier: GPL-2.0-or-later
/* Notes what became of filters and probes, and puts their accounts. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/capture/account.h"
#include "host_agent/live/control.h"

/* @event: NULL: all events without a filter of their own. */
static struct braid_account account_of(u32 kind, const struct braid_pattern *event, size_t nr)
{
	struct braid_account row = { .kind = kind, .nr_events = nr };

	if (event) {
		strcpy(row.system, event->system);
		strcpy(row.event, event->event);
	}
	return row;
}

static int put_account(struct braid_live_stream *s, const struct braid_account *row)
{
	return s->number ? braid_live_emit(s, BRAID_CHUNK_ACCOUNTS, NULL, 0, row, sizeof(*row)) : 0;
}

static size_t nr_shared(const struct braid_live_control *c)
{
	return c->filters.nr - c->filters.nr_own;
}

int braid_live_accounts_begin(const struct braid_live_control *c, struct braid_live_stream *s)
{
	struct braid_account row;
	size_t k;
	int err = 0;

	for (k = 0; k < c->filters.nr_own && !err; k++) {
		const struct braid_live_filter *filter = &c->filters.items[k];

		row = account_of(BRAID_ACCOUNT_FILTER, &filter->event, 1);
		row.flags = BRAID_ACCOUNT_UNKNOWN;
		err = filter->refused ? 0 : put_account(s, &row);
	}
	row = account_of(BRAID_ACCOUNT_FILTER, NULL, nr_shared(c));
	row.flags = BRAID_ACCOUNT_UNKNOWN;
	return err || !nr_shared(c) ? err : put_account(s, &row);
}

int braid_live_hits_answered(struct braid_live_control *c, struct braid_live_stream *s,
			     const struct braid_control_answer *answer)
{
	const struct braid_pattern *p = &c->control.pattern;
	struct braid_account row = account_of(BRAID_ACCOUNT_PROBE, p, 1);
	int err;

	if (answer->result)
		return 0;
	row.hits = answer->hits;
	row.hits.reserved = 0;
	err = put_account(s, &row);
	if (err)
		return err;
	if (!answer->hits.placed)
		return braid_live_note(s, "probe %s:%s was never placed: its module was not loaded, or has no such function",
				       p->system, p->event);
	return answer->hits.missed ? braid_live_note(s, "probe %s:%s: %llu hits missed", p->system,
		p->event, (unsigned long long)answer->hits.missed) : 0;
}

static int note_account(struct braid_live_stream *s, const char *of,
			const struct braid_account *row)
{
	const struct braid_filter_account *a = &row->filter;
	char unjudged[64] = "";
	int err = put_account(s, row);

	if (err)
		return err;
	if (a->unjudged)
		snprintf(unjudged, sizeof(unjudged), "; %llu could not be judged, and passed",
			 (unsigned long long)a->unjudged);
	return braid_live_note(s, "filter of %s: %llu offered = %llu filtered + %llu written + %llu lost%s",
			       of, (unsigned long long)a->offered, (unsigned long long)a->filtered,
			       (unsigned long long)a->written, (unsigned long long)a->lost,
			       unjudged);
}

int braid_live_account_answered(struct braid_live_control *c, struct braid_live_stream *s,
				const struct braid_live_filter *filter,
				const struct braid_control_answer *answer)
{
	struct braid_account row = account_of(BRAID_ACCOUNT_FILTER, filter ? &filter->event : NULL,
					      filter ? 1 : nr_shared(c));
	struct braid_filter_account rest = answer->account;
	char of[2 * BRAID_PATTERN_BYTES];

	if (answer->result || !answer->matched || (filter && filter->refused))
		return 0;
	if (filter) {
		c->own.offered += rest.offered;
		c->own.filtered += rest.filtered;
		c->own.written += rest.written;
		c->own.lost += rest.lost;
		c->own.unjudged += rest.unjudged;
		snprintf(of, sizeof(of), "%.63s:%.63s", filter->event.system, filter->event.event);
		row.filter = rest;
		return note_account(s, of, &row);
	}
	rest.offered -= c->own.offered;
	rest.filtered -= c->own.filtered;
	rest.written -= c->own.written;
	rest.lost -= c->own.lost;
	rest.unjudged -= c->own.unjudged;
	snprintf(of, sizeof(of), "%s%zu events", c->filters.nr_own ? "the other " : "",
		 nr_shared(c));
	row.filter = rest;
	return note_account(s, of, &row);
}

/* @nr: events. What is selected unattended is all of it, or nothing. */
static const char *unfiltered(const struct braid_live_stream *s, u32 nr)
{
	return s->o.unattended ? "cannot be filtered" :
	       nr == 1 ? "is recorded unfiltered" : "are recorded unfiltered";
}

static int note_unfiltered(struct braid_live_control *c, struct braid_live_stream *s)
{
	u32 nr = c->nr_unfiltered;

	c->nr_unfiltered = 0;
	return !nr ? 0 : braid_live_note(s, "%u event%s %s: %s", nr, nr == 1 ? "" : "s",
					 unfiltered(s, nr), c->unfiltered);
}

/* What the options say of tasks and CPUs is refused for all events, for one reason: one note. */
int braid_live_filter_answered(struct braid_live_control *c, struct braid_live_stream *s,
			       struct braid_live_filter *filter,
			       const struct braid_control_answer *answer)
{
	const char *why = answer->result ? answer->reason : strerror(ENOENT);
	int err = 0;

	if (!filter)
		return 0;
	/* An event that is gone, and comes again, stays off until the next round. */
	filter->refused = answer->result ||
			  (!answer->matched && s->sb.version_minor < BRAID_ONLY_SEEN_MINOR);
	c->refused |= filter->refused;
	if (braid_live_filter_is_own(filter))
		return !filter->refused ? 0 :
		       braid_live_note(s, "%.63s:%.63s %s: %s", filter->event.system,
				       filter->event.event, unfiltered(s, 1), why);
	if (filter->refused && strcmp(why, c->unfiltered))
		err = note_unfiltered(c, s);
	if (filter->refused) {
		snprintf(c->unfiltered, sizeof(c->unfiltered), "%s", why);
		c->nr_unfiltered++;
	}
	if (!err && filter == &c->filters.items[c->filters.nr - 1])
		err = note_unfiltered(c, s);
	return err;
}
