/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Conditions: a measured value of a guest above a limit over a time, or an event of the guest.
 *
 * Invariants:
 * - A rule is checked against the sums of host_agent/online/ alone: never against an event.
 * - A rule fires once, when it begins to hold; and again after it has not held for its time.
 * - What the sums do not know of a guest, as its events without a driver, never fires.
 */
#ifndef BRAID_SERVE_RULES_H
#define BRAID_SERVE_RULES_H

#include "host_agent/online/online.h"
#include "host_agent/util/hash.h"

#define BRAID_RULE_TEXT		192u
#define BRAID_RULE_EVENT_BYTES	128u
#define BRAID_RULES_MOST	64u
#define BRAID_RULE_PPM		1000000u	/* all of a time */
#define BRAID_RULE_LINE		1024u	/* why it fired */

enum braid_rule_what {
	BRAID_RULE_STOLEN,	/* of a vCPU's time, in ppm */
	BRAID_RULE_THROTTLED,	/* likewise */
	BRAID_RULE_WAKE_UP,	/* the longest wait of a task that was woken, in ns */
	BRAID_RULE_SILENT,	/* since the guest's last sign of life, in ns */
	BRAID_RULE_LOST,	/* events, of the guest's rings */
	BRAID_RULE_EXITS,	/* a second, of all vCPUs */
	BRAID_RULE_EVENT,	/* times that an event was seen */
	BRAID_RULE_TRIGGER,	/* likewise, of a trigger of the guest */
	BRAID_NR_RULES
};

struct braid_rule {
	enum braid_rule_what what;
	u64 limit;		/* it holds above that */
	u64 for_ns;		/* the time that is looked at */
	char guests[64];	/* a glob of names */
	/* Of an event: */
	char event[BRAID_RULE_EVENT_BYTES];	/* "SYSTEM:EVENT", each a glob */
	char filter[BRAID_RULE_TEXT];		/* an expression over its fields; "": none */
	u32 watched;		/* of braid_online_watch(); set before a check */
	char text[BRAID_RULE_TEXT];	/* as it was written */
};

/**
 * braid_rule_parse - "stolen > 20% for 1s", "wake-up > 2ms", "exits > 100k/s", "lost > 0", or
 * "sched:sched_process_exit > 100 for 1s if comm == "nginx"", where only the event is needed
 * @rule: filled
 * @text: the condition; without a time it is 1 s
 * @guests: a glob of names
 *
 * Return: 0, or -EINVAL with braid_fail().
 */
int braid_rule_parse(struct braid_rule *rule, const char *text, const char *guests);

/** braid_rule_trigger - that the recorder's trigger of a number fires, in any guest */
void braid_rule_trigger(struct braid_rule *rule, const char *text, u32 number);

/** braid_rule_is_event - whether it is about events: ->event, ->filter, ->watched */
static inline bool braid_rule_is_event(const struct braid_rule *rule)
{
	return rule->what == BRAID_RULE_EVENT || rule->what == BRAID_RULE_TRIGGER;
}

/** braid_rule_name - "stolen", "wake-up": one word */
const char *braid_rule_name(enum braid_rule_what what);

/* What a rule has seen of a guest. */
struct braid_rule_state;

struct braid_rules {
	struct braid_rule items[BRAID_RULES_MOST];
	size_t nr;
	struct braid_rule_state **states;
	size_t nr_states, capacity;
	struct braid_hash by_name;	/* numbers in states */
};

/** braid_rules_add - one more; -ENOSPC with braid_fail(): there are too many */
int braid_rules_add(struct braid_rules *rules, const struct braid_rule *rule);

/* It fired. @line: a sentence that says what was measured, and who is to blame, as far as known. */
typedef void braid_rule_fn(void *arg, const struct braid_rule *rule,
			   const struct braid_online_guest *guest, const char *line);

/* A guest as it is now. */
struct braid_rule_guest {
	const struct braid_online_guest *guest;
	s64 now_ns;		/* the sums are as of then */
	u64 silent_ns;		/* as of braid_online_silent_ns() */
	u64 wake_up_ns;		/* as of braid_online_wakeup_ns() */
};

/**
 * braid_rules_check - compare a guest with all rules
 * @rules: the rules
 * @g: the guest
 * @fire: called for each rule that begins to hold
 * @arg: passed to it
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_rules_check(struct braid_rules *rules, const struct braid_rule_guest *g,
		      braid_rule_fn *fire, void *arg);

/** braid_rules_forget - what was seen of guests that were not checked since the last call */
void braid_rules_forget(struct braid_rules *rules);

/** braid_rules_clear - remove all, with what they have seen */
void braid_rules_clear(struct braid_rules *rules);

#endif /* BRAID_SERVE_RULES_H */
