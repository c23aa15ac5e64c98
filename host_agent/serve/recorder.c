// SPDX-License-Identifier: GPL-2.0-or-later
/* Starts the recorder of the window's files: tracebraid record --rotate. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/serve/recorder.h"
#include "host_agent/util/error.h"

#define KEPT_FILES	"3"	/* two of half a window each, and the one that is written */
#define WORDS		2048u	/* of its command ... */
#define OTHER_WORDS	(16 + BRAID_CONF_WORDS)	/* ... that name no guest */

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

int braid_recorder_start(struct braid_program *p, const struct braid_conf *conf,
			 const char *directory, const char *program)
{
	char file[PATH_MAX], rotate[64], host[BRAID_CONF_PATH + 16] = "--host";
	static char guests[BRAID_CONF_GUESTS], peers[BRAID_CONF_GUESTS];
	char listen[BRAID_CONF_PATH + 16], rate[32];
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
