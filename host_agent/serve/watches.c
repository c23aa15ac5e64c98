// SPDX-License-Identifier: GPL-2.0-or-later
/* Waits for conditions that the fleet has asked for. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host_agent/serve/watches.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"

static struct braid_watch *watches_find(struct braid_watches *w, u32 number)
{
	size_t k;

	for (k = 0; number && k < BRAID_ANALYST_MOST_WATCHES; k++)
		if (w->items[k].number == number)
			return &w->items[k];
	return NULL;
}

/* Return: whether the analyst has got it. */
static bool watches_send(const struct braid_watches *w, const struct braid_watch *one, bool over)
{
	struct braid_analyst_watch m = {
		.magic = BRAID_ANALYST_WATCH, .number = one->number, .over = over,
	};

	strcpy(m.text, one->rule.text);
	strcpy(m.guests, one->rule.guests);
	return w->fd >= 0 && send(w->fd, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(m);
}

static void watches_end(struct braid_watches *w, struct braid_watch *one)
{
	if (*one->rule.text)
		watches_send(w, one, true);
	close(one->out);
	*one = (struct braid_watch){ 0 };
}

/* "GUESTS CONDITION" */
static int watches_parse(struct braid_watch *one, const char *text)
{
	size_t n = strcspn(text, " ");
	char guests[sizeof(one->rule.guests)];

	if (!*text)
		return 0;
	if (!n || n >= sizeof(guests) || !text[n])
		return braid_fail(-EINVAL, "'%.40s': expected a name or glob of guests, and a condition", text);
	snprintf(guests, sizeof(guests), "%.*s", (int)n, text);
	return braid_rule_parse(&one->rule, text + n + 1, guests);
}

static int watches_begin(struct braid_watches *w, const struct braid_fleet_ask *ask, int out)
{
	struct braid_watch *one = w->items, *end = one + BRAID_ANALYST_MOST_WATCHES, new = {
		.number = ask->number, .seconds = ask->seconds,
		.end_ns = braid_monotonic_ns() + ask->seconds * BRAID_SECOND_NS,
	};
	int err = braid_shots_can(w->shots);

	while (one < end && one->number)
		one++;
	if (!err && one == end)
		err = braid_fail(-EBUSY, "busy: it waits for %u conditions already",
				 BRAID_ANALYST_MOST_WATCHES);
	if (!err)
		err = watches_parse(&new, ask->text);
	if (!err && *new.rule.text)
		err = braid_recorder_records(w->recorded, &new.rule);
	if (err)
		return err;
	braid_shots_name(ask->name, new.name);
	new.out = fcntl(out, F_DUPFD_CLOEXEC, 0);
	if (new.out < 0)
		return braid_fail(-errno, "no descriptor: %s", strerror(errno));
	*one = new;
	if (!*new.rule.text)
		braid_watches_confirm(w, new.number);
	else if (w->fd >= 0 && !watches_send(w, one, false))	/* else the next analyst gets it */
		err = braid_fail(-EAGAIN, "the analyst does not answer; try again");
	if (err)
		watches_end(w, one);
	return err;
}

static void watches_fired(struct braid_watch *one, const struct braid_analyst_message *why)
{
	if (one->fired)
		return;
	one->fired = true;
	one->why = *why;
	dprintf(one->out, BRAID_WATCHES_FIRED "%s\n", why->line);
}

int braid_watches_ask(struct braid_watches *w, const struct braid_fleet_ask *ask, int out)
{
	struct braid_watch *one = watches_find(w, ask->number);
	struct braid_analyst_message why = { .guest = "fleet", .what = "joined" };
	size_t k;

	if (ask->kind == BRAID_FLEET_WATCH)
		return watches_begin(w, ask, out);
	if (ask->kind == BRAID_FLEET_CANCEL && one)
		watches_end(w, one);
	if (ask->kind != BRAID_FLEET_TRIGGER)
		return 0;
	snprintf(why.line, sizeof(why.line), "%.*s", (int)sizeof(why.line) - 1, ask->text);
	for (k = 0; k < BRAID_ANALYST_MOST_WATCHES; k++)
		if (w->items[k].number && !strcmp(w->items[k].name, ask->name))
			watches_fired(&w->items[k], &why);
	return 0;
}

void braid_watches_tell(struct braid_watches *w, int fd)
{
	size_t k;

	w->fd = fd;
	for (k = 0; k < BRAID_ANALYST_MOST_WATCHES && fd >= 0; k++)
		if (w->items[k].number && *w->items[k].rule.text)
			watches_send(w, &w->items[k], false);
}

void braid_watches_confirm(struct braid_watches *w, u32 number)
{
	struct braid_watch *one = watches_find(w, number);

	if (one && !one->armed)
		dprintf(one->out, BRAID_WATCHES_ARMED "\n");
	if (one)
		one->armed = true;
}

void braid_watches_fire(struct braid_watches *w, const struct braid_analyst_message *m)
{
	struct braid_watch *one = watches_find(w, m->watch);

	if (!one || one->fired)
		return;
	braid_serve_fleet_alarm(w->fleet, m, one->name);
	watches_fired(one, m);
}

void braid_watches_turn(struct braid_watches *w, pid_t recorder)
{
	char line[BRAID_FLEET_LINE];
	size_t k;

	for (k = 0; k < BRAID_ANALYST_MOST_WATCHES; k++) {
		struct braid_watch *one = &w->items[k];
		u32 number = one->number;
		int err;

		if (!number || (!one->fired && braid_monotonic_ns() < one->end_ns))
			continue;
		if (one->fired)
			err = braid_shots_watch(w->shots, &one->why, one->name, number, one->out,
						recorder);
		else
			err = braid_fail(-ETIME, "no host has seen the condition within %llu s",
					 (unsigned long long)one->seconds);
		snprintf(line, sizeof(line), "%s", err ? braid_failure() : "");
		if (err == -EBUSY)
			continue;	/* when that snapshot is complete */
		watches_end(w, one);
		if (err)
			braid_serve_fleet_ended(w->fleet, number, line);
	}
}

void braid_watches_clear(struct braid_watches *w)
{
	size_t k;

	for (k = 0; k < BRAID_ANALYST_MOST_WATCHES; k++)
		if (w->items[k].number)
			watches_end(w, &w->items[k]);
}
