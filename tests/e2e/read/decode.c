// SPDX-License-Identifier: GPL-2.0-or-later
/* An independent decoder of the format: from the event's header, without the driver's code. */
#include <stdbool.h>
#include <string.h>

#include "decode.h"

#define TAILS		6
#define PRIME		0x9e3779b97f4a7c15ULL
#define MISSED_EVENTS	(1u << 31)
#define MISSED_STORED	(1u << 30)

struct payload {
	uint16_t id;
	uint8_t flags, preempt_count;
	int32_t pid;
	uint32_t cpu, context;
	uint64_t number, check;		/* then number % TAILS times the latter */
};

static void judge(struct decoder *d, const uint8_t *bytes, uint32_t length)
{
	struct tally *t = d->tally;
	struct payload p;
	bool whole;
	uint32_t k;

	__atomic_fetch_add(&t->events, 1, __ATOMIC_RELAXED);
	if (d->time < d->last)
		__atomic_fetch_add(&t->disordered, 1, __ATOMIC_RELAXED);
	d->last = d->time;
	if (length < sizeof(p)) {
		__atomic_fetch_add(&t->bad, 1, __ATOMIC_RELAXED);
		return;
	}
	memcpy(&p, bytes, sizeof(p));
	whole = p.id == d->event_id && p.cpu == d->cpu && p.context < NR_CONTEXTS &&
		p.number < MAX_NUMBER && p.check == p.number * PRIME + p.cpu * 4 + p.context &&
		length == sizeof(p) + p.number % TAILS * sizeof(p.check);
	for (k = sizeof(p); whole && k < length; k += sizeof(p.check))
		whole = !memcmp(bytes + k, &p.check, sizeof(p.check));
	if (!whole) {
		__atomic_fetch_add(&t->bad, 1, __ATOMIC_RELAXED);
		return;
	}
	if (__atomic_exchange_n(&t->seen[p.cpu][p.context][p.number], 1, __ATOMIC_RELAXED))
		__atomic_fetch_add(&t->duplicated, 1, __ATOMIC_RELAXED);
}

/* The counter value after @before whose low @bits bits are @value. */
static uint64_t counter(uint64_t before, uint64_t value, int bits)
{
	return before + ((value - before) & ((1ULL << bits) - 1));
}

void decode(struct decoder *d, uint64_t time_stamp, const uint8_t *data, uint32_t from,
	    uint32_t to)
{
	uint32_t at = from, head, type, words, skip;
	uint64_t delta;

	if (!from)
		d->time = time_stamp;
	while (at + 4 <= to) {
		memcpy(&head, data + at, 4);
		type = head & 3;
		words = head >> 2 & 7;
		delta = head >> 5;
		skip = 4;
		if (type == 0) {			/* padding: nothing follows */
			return;
		} else if (type == 1) {			/* extent: the high part */
			memcpy(&head, data + at + 4, 4);
			delta |= (uint64_t)head << 27;
			d->time = d->absolute ? counter(d->time, delta, 59) : d->time + delta;
			at += 8;
			continue;
		} else if (type == 2) {			/* stamp */
			memcpy(&d->time, data + at + 4, 8);
			at += 20;
			continue;
		}
		d->time = d->absolute ? counter(d->time, delta, 27) : d->time + delta;
		words *= 4;
		if (!words) {
			memcpy(&words, data + at + 4, 4);
			skip = 8;
		}
		if (at + skip + words > to)
			break;
		judge(d, data + at + skip, words);
		at += skip + words;
	}
	if (at != to)
		__atomic_fetch_add(&d->tally->bad, 1, __ATOMIC_RELAXED);
}

uint32_t decode_page(struct decoder *d, const uint8_t *page, uint32_t bytes)
{
	uint64_t time_stamp, commit, lost;
	uint32_t used;

	memcpy(&time_stamp, page, 8);
	memcpy(&commit, page + 8, 8);
	used = commit & (MISSED_STORED - 1);
	if (used > bytes - 16) {
		d->tally->bad++;
		return 0;
	}
	if (commit & MISSED_STORED) {
		memcpy(&lost, page + 16 + used, 8);
		__atomic_fetch_add(&d->tally->lost, lost, __ATOMIC_RELAXED);
	}
	if ((commit & MISSED_EVENTS) && !(commit & MISSED_STORED))
		__atomic_fetch_add(&d->tally->unreported, 1, __ATOMIC_RELAXED);
	decode(d, time_stamp, page + 16, 0, used);
	return used;
}
