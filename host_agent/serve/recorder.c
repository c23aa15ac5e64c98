// SPDX-License-Identifier: GPL-2.0-or-later
/* Starts the recorder of the window's files: tracebraid record --rotate. */
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/serve/recorder.h"
#include "host_agent/util/defaults.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

#define EVENT_OPTION	"--event="

#define KEPT_FILES	"3"	/* two of half a window each, and the one that is written */
#define WORDS		2048u	/* of its command ... */
#define LEAST_HOLD_OFF_NS	100000000ULL
#define OTHER_WORDS	(17 + BRAID_CONF_WORDS + BRAID_RECORDED_MOST)	/* ... that name no guest */

/* Appends the words of one setting, "web1 web2", each after an option. 0 or -E2BIG with braid_fail(). */
static int recorder_add_words(const char **words, size_t *nr, const char *option, char *list)
{
	char *word, *rest = NULL;

	for (word = strtok_r(list, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
		if (*nr + 2 >= WORDS)
			return braid_fail(-E2BIG, "more than %u guests and peers are named; without "
					  "'guests' all are recorded",
					  (WORDS - OTHER_WORDS) / 2);
		words[(*nr)++] = option;
		words[(*nr)++] = word;
	}
	return 0;
}

/* Events ------------------------------------------------------------------------------------- */

/* The system and the name of the event to enable. Return: false: an option of its own does that. */
static bool recorder_event(const struct braid_rule *rule, char system[BRAID_RULE_EVENT_BYTES],
			   char name[BRAID_RULE_EVENT_BYTES])
{
	size_t n = strcspn(rule->event, ":/");

	snprintf(system, BRAID_RULE_EVENT_BYTES, "%.*s", (int)n, rule->event);
	snprintf(name, BRAID_RULE_EVENT_BYTES, "%s", rule->event + n + !!rule->event[n]);
	/* A system call is recorded as part of the event of all. */
	if (!strcmp(system, "syscalls")) {
		strcpy(system, "raw_syscalls");
		strcpy(name, !strncmp(name, "sys_enter_", 10) ? "sys_enter" :
			     !strncmp(name, "sys_exit_", 9) ? "sys_exit" : "*");
	}
	return braid_text_one_of("kprobes uprobes tracebraid", system) < 0;
}

static bool recorder_has(const char *word, const char *option)
{
	return !strncmp(word, option, strlen(option));
}

static void recorder_add_event(struct braid_recorded *r, const char *system, const char *name)
{
	snprintf(r->words[r->nr++], BRAID_CONF_WORD, EVENT_OPTION "%s%s%s", system, *name ? ":" : "",
		 name);
}

/* Those of rules come first: a filter belongs to the event before it. */
static void recorder_find_events(struct braid_recorded *r, const struct braid_conf *conf)
{
	char system[BRAID_RULE_EVENT_BYTES], name[BRAID_RULE_EVENT_BYTES];
	bool chosen = false;
	size_t k;

	r->nr = 0;
	r->probes = false;
	for (k = 0; k < conf->rules.nr; k++)
		if (conf->rules.items[k].what == BRAID_RULE_EVENT &&
		    recorder_event(&conf->rules.items[k], system, name))
			recorder_add_event(r, system, name);
	r->nr_added = r->nr;
	for (k = 0; k < conf->chosen.nr; k++) {
		const char *word = conf->chosen.words[k];

		r->probes |= recorder_has(word, "--kprobe=") || recorder_has(word, "--uprobe=");
		chosen |= recorder_has(word, EVENT_OPTION);
		if (recorder_has(word, EVENT_OPTION))
			strcpy(r->words[r->nr++], word);
	}
	if (chosen || r->probes)
		return;
	recorder_add_event(r, BRAID_GUEST_EVENTS, "");
	r->nr_added = r->nr_added ? r->nr : 0;	/* else these are recorded by default */
}

/* "sched,irq:*": whether an event is one of a list. */
static bool recorder_lists(const char *list, const char *system, const char *name)
{
	char copy[BRAID_CONF_WORD], *one, *rest = NULL;
	size_t n;

	snprintf(copy, sizeof(copy), "%s", list);
	for (one = strtok_r(copy, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
		n = strcspn(one, ":/");
		if (!strcmp(one, "all"))
			return true;
		if (one[n])
			one[n++] = 0;
		if (!fnmatch(one, system, 0) && (!one[n] || !fnmatch(one + n, name, 0)))
			return true;
	}
	return false;
}

int braid_recorder_records(const struct braid_recorded *recorded, const struct braid_rule *rule)
{
	char system[BRAID_RULE_EVENT_BYTES], name[BRAID_RULE_EVENT_BYTES];
	size_t k;

	if (rule->what != BRAID_RULE_EVENT)
		return 0;
	if (!recorder_event(rule, system, name)) {
		if (recorded->probes || !strcmp(system, "tracebraid"))
			return 0;
		return braid_fail(-ENOENT, "%s is not recorded: no probe is set in [record]", rule->event);
	}
	for (k = 0; k < recorded->nr; k++)
		if (recorder_lists(recorded->words[k] + strlen(EVENT_OPTION), system, name))
			return 0;
	return braid_fail(-ENOENT, "%s is not recorded: name it in 'events' of [record] or in [watch], and restart the service",
			  rule->event);
}

/* Starting ----------------------------------------------------------------------------------- */

int braid_recorder_start(struct braid_program *p, const struct braid_conf *conf,
			 const char *directory, const char *program,
			 struct braid_recorded *recorded)
{
	char file[PATH_MAX], rotate[64], host[BRAID_CONF_PATH + 16] = "--host";
	static char guests[BRAID_CONF_GUESTS], peers[BRAID_CONF_GUESTS];
	char listen[BRAID_CONF_PATH + 16], rate[32], hold_off[48];
	const char *words[WORDS] = {
		"tracebraid", "record", "-q", "--keep=" KEPT_FILES, rotate, "-o", file,
	};
	size_t nr = 7, k;
	int err = 0;

	snprintf(file, sizeof(file), "%s/window.braid", directory);
	snprintf(rotate, sizeof(rotate), "--rotate=%lluK,%.3fs",
		 (unsigned long long)(conf->window_bytes / 2 >> 10), conf->window_ns / 2e9);
	if (*conf->host_events)
		snprintf(host, sizeof(host), "--host=%s", conf->host_events);
	if (strcmp(conf->host_events, BRAID_CONF_NONE))
		words[nr++] = host;
	snprintf(guests, sizeof(guests), "%s", conf->guests);
	snprintf(peers, sizeof(peers), "%s", conf->peers);
	snprintf(listen, sizeof(listen), "--peer-listen=%s", conf->peer_listen);
	snprintf(rate, sizeof(rate), "--peer-rate=%llu", (unsigned long long)conf->peer_rate);
	if (*conf->peer_listen)
		words[nr++] = listen;
	if (conf->peer_rate)
		words[nr++] = rate;
	/* A trigger that fired sooner would stop the rings for no snapshot. */
	snprintf(hold_off, sizeof(hold_off), "--hold-off=%.3f",
		 (conf->apart_ns > LEAST_HOLD_OFF_NS ? conf->apart_ns : LEAST_HOLD_OFF_NS) / 1e9);
	words[nr++] = hold_off;
	recorder_find_events(recorded, conf);
	for (k = 0; k < recorded->nr_added; k++)
		words[nr++] = recorded->words[k];
	for (k = 0; k < conf->chosen.nr; k++)
		words[nr++] = conf->chosen.words[k];
	if (*guests)
		err = recorder_add_words(words, &nr, "-r", guests);
	else
		words[nr++] = "--all";
	if (!err)
		err = recorder_add_words(words, &nr, "--peer", peers);
	words[nr] = NULL;
	return err ? err : braid_program_start(p, program, words, -1, -1);
}
