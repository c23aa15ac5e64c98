// SPDX-License-Identifier: GPL-2.0
/* Reads the parameter allow=, at each request: requests are rare. */
#include <linux/glob.h>
#include <linux/moduleparam.h>
#include <linux/string.h>

#include "guest_driver/event/policy.h"

static char *allow = "all";
module_param(allow, charp, 0444);
MODULE_PARM_DESC(allow, "what a host may ask: all (default), none, or system[:event],... (* and ? are wildcards) and of the words +filter, +kprobe, +uprobe, +trigger, +stack, +buffer");

static bool lifted;

void braid_policy_lift(bool lift)
{
	WRITE_ONCE(lifted, lift);
}

#define WORD_BYTES	(2 * BRAID_PATTERN_BYTES)

/* Copies the next word of the list. Return: the rest of the list, or NULL at its end. */
static const char *braid_policy_next(const char *at, char word[WORD_BYTES])
{
	size_t length = strcspn(at, ",");

	if (!*at)
		return NULL;
	snprintf(word, WORD_BYTES, "%.*s", (int)min_t(size_t, length, WORD_BYTES), at);
	return at + length + (at[length] == ',');
}

static bool braid_policy_has(const char *wanted)
{
	const char *at = allow;
	char word[WORD_BYTES];

	while ((at = braid_policy_next(at, word)))
		if (!strcmp(word, "all") || (*word == '+' && !strcmp(word + 1, wanted)))
			return true;
	return false;
}

int braid_policy_check(const char *class, struct braid_refusal *refusal)
{
	return READ_ONCE(lifted) || braid_policy_has(class) ? 0 :
	       braid_refuse(refusal, -EPERM, "not allowed by the guest (+%s is not in its driver's allow=)",
			    class);
}

bool braid_policy_allows_event(const char *system, const char *name)
{
	const char *at = allow;
	char word[WORD_BYTES], *event;

	if (READ_ONCE(lifted))
		return true;
	while ((at = braid_policy_next(at, word))) {
		if (!strcmp(word, "all"))
			return true;
		event = strchr(word, ':');
		if (event)
			*event++ = 0;
		if (glob_match(word, system) && (!event || glob_match(event, name)))
			return true;
	}
	return false;
}
