// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads conditions. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/serve/rules.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

#define TRIGGER_EVENT	"tracebraid:trigger"	/* which the guest's driver records */
#define LEAST_NS	100000000ULL	/* sums are not more recent than that */
#define MOST_NS		3600000000000ULL

static const struct braid_rule_word {
	const char *name;
	const char *units;	/* that its limit may have, the first one is the default */
	const char *example;
} rule_words[BRAID_NR_RULES] = {
	[BRAID_RULE_STOLEN] = { "stolen", "%", "stolen > 20% for 1s" },
	[BRAID_RULE_THROTTLED] = { "throttled", "%", "throttled > 0" },
	[BRAID_RULE_WAKE_UP] = { "wake-up", "s ms us", "wake-up > 2ms" },
	[BRAID_RULE_SILENT] = { "silent", "s ms us", "silent > 1s" },
	[BRAID_RULE_LOST] = { "lost", "", "lost > 0" },
	[BRAID_RULE_EXITS] = { "exits", "/s k/s M/s", "exits > 100k/s" },
	[BRAID_RULE_TRIGGER] = { "trigger", "", "" },
	[BRAID_RULE_EVENT] = { "event", "", "sched:sched_process_exit > 10 for 1s if prio < 100" },
};

static const struct {
	const char *name;
	double factor;
} rule_units[] = {
	{ "%", BRAID_RULE_PPM / 100 }, { "s", 1e9 }, { "ms", 1e6 }, { "us", 1e3 }, { "m", 60e9 },
	{ "/s", 1 }, { "k/s", 1e3 }, { "M/s", 1e6 }, { "", 1 },
};

const char *braid_rule_name(enum braid_rule_what what)
{
	return rule_words[what].name;
}

static const char *rule_skip(const char *text)
{
	return text + strspn(text, " \t");
}

/* A number and its unit, one of @units. Return: what follows; NULL: it is not one. */
static const char *rule_number(const char *text, const char *units, double *number)
{
	char *end;
	double value = strtod(text, &end);
	const char *unit = rule_skip(end);
	size_t n = strcspn(unit, " \t"), k;
	char word[8];

	if (end == text || n >= sizeof(word) || !(value >= 0 && value < 1e12))
		return NULL;
	snprintf(word, sizeof(word), "%.*s", (int)n, unit);
	if (!*word || braid_text_one_of("for if", word) >= 0) {	/* the unit may be left out */
		snprintf(word, sizeof(word), "%.*s", (int)strcspn(units, " "), units);
		n = 0;
	} else if (braid_text_one_of(units, word) < 0) {
		return NULL;
	}
	for (k = 0; strcmp(rule_units[k].name, word); k++)
		;
	*number = value * rule_units[k].factor;
	return rule_skip(unit + n);
}

static int rule_fail(const char *text, const struct braid_rule_word *word)
{
	return braid_fail(-EINVAL, "'%s' is not a valid condition; expected, for example, '%s'", text,
			  word->example);
}

static const struct braid_rule_word *rule_find(const char *text)
{
	struct braid_text_near near = { 0 };
	char word[16];
	size_t k, n = strcspn(text, " \t>");

	if (memchr(text, ':', n) || memchr(text, '/', n))
		return &rule_words[BRAID_RULE_EVENT];
	snprintf(word, sizeof(word), "%.*s", (int)n, text);
	near.word = word;
	for (k = 0; k < BRAID_RULE_EVENT; k++) {
		if (!strcmp(word, rule_words[k].name))
			return &rule_words[k];
		braid_text_nearer(&near, rule_words[k].name);
	}
	if (near.nearest)
		braid_fail(-EINVAL, "'%s' cannot be watched; did you mean '%s'?", word, near.nearest);
	else
		braid_fail(-EINVAL, "'%s' cannot be watched; stolen, throttled, wake-up, silent, lost, exits and events, SYSTEM:EVENT, can",
			   word);
	return NULL;
}

static bool rule_has_word(const char *at, const char *word)
{
	size_t n = strlen(word);

	return !strncmp(at, word, n) && (at[n] == ' ' || at[n] == '\t');
}

/* Its name. Return: what follows; NULL: it is too long. */
static const char *rule_take_event(struct braid_rule *rule, const char *at)
{
	size_t n = strcspn(at, " \t>");

	snprintf(rule->event, sizeof(rule->event), "%.*s", (int)n, at);
	return n < sizeof(rule->event) ? rule_skip(at + n) : NULL;
}

/* "> LIMIT for TIME". Return: what follows; NULL: it is not valid. */
static const char *rule_take_limit(struct braid_rule *rule, const struct braid_rule_word *word,
				   const char *at)
{
	double limit = 0, for_ns = 1e9;

	if (*at == '>')
		at = rule_number(rule_skip(at + 1), word->units, &limit);
	if (at && rule_has_word(at, "for"))
		at = rule_number(rule_skip(at + 3), "s ms m", &for_ns);
	rule->limit = limit;
	rule->for_ns = for_ns;
	return at;
}

int braid_rule_parse(struct braid_rule *rule, const char *text, const char *guests)
{
	struct braid_rule parsed = { 0 };
	const struct braid_rule_word *word;
	const char *at = rule_skip(text);
	bool event;
	int err = 0;

	if (strlen(text) >= sizeof(rule->text) || strlen(guests) >= sizeof(rule->guests))
		return braid_fail(-EINVAL, "'%.40s...' is too long", text);
	word = rule_find(at);
	if (!word)
		return -EINVAL;
	parsed.what = word - rule_words;
	event = parsed.what == BRAID_RULE_EVENT;
	at = event ? rule_take_event(&parsed, at) : rule_skip(at + strlen(word->name));
	if (!at || (*at != '>' && !event))
		return rule_fail(text, word);
	at = rule_take_limit(&parsed, word, at);
	if (at && event && rule_has_word(at, "if")) {
		snprintf(parsed.filter, sizeof(parsed.filter), "%s", rule_skip(at + 2));
		at = "";
	}
	if (!at || *at)
		return rule_fail(text, word);
	if (parsed.for_ns < LEAST_NS || parsed.for_ns > MOST_NS)
		return braid_fail(-EINVAL, "'%s': the time must be between 100ms and 60m", text);
	if (event)
		err = braid_online_watch_check(parsed.event, parsed.filter);
	if (err)
		return err;
	*rule = parsed;
	strcpy(rule->text, text);
	strcpy(rule->guests, guests);
	return 0;
}

void braid_rule_trigger(struct braid_rule *rule, const char *text, u32 number)
{
	*rule = (struct braid_rule){
		.what = BRAID_RULE_TRIGGER, .for_ns = LEAST_NS, .guests = "*",
		.event = TRIGGER_EVENT,
	};
	snprintf(rule->filter, sizeof(rule->filter), "trigger == %u", number);
	snprintf(rule->text, sizeof(rule->text), "%s", text);
}
