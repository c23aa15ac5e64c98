// SPDX-License-Identifier: GPL-2.0-or-later
/* What is to be recorded, as given by the user. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/control/compile.h"
#include "host_agent/control/probe.h"
#include "host_agent/discover/discover.h"
#include "host_agent/record/record.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"

/* REGION[,name=NAME], and a socket's REGION has its own options. */
int braid_record_add_guest(struct braid_record_options *o, const char *argument)
{
	struct braid_record_given guest = { .named = false };
	int err = braid_split_name(argument, guest.path, guest.name);

	if (err)
		return err;
	guest.named = *guest.name;
	if (braid_array_push(o->given, o->nr_given, o->given_capacity, guest))
		return braid_out_of_memory();
	return 0;
}

/* SYSTEM[:EVENT][,SYSTEM[:EVENT]]... */
int braid_record_add_events(struct braid_record_patterns *list, const char *argument)
{
	braid_auto_free char *copy = strdup(argument);
	struct braid_pattern pattern;
	char *at = copy, *one;
	int err;

	if (!copy)
		return braid_out_of_memory();
	list->last = list->nr;
	while ((one = strsep(&at, ","))) {
		err = braid_pattern_parse(&pattern, one);
		if (err)
			return err;
		if (braid_array_push(list->items, list->nr, list->capacity, pattern))
			return braid_out_of_memory();
	}
	return 0;
}

static int record_options_add_probe(struct braid_record_options *o, const char *argument, bool user)
{
	struct braid_record_patterns *list = &o->events;
	struct braid_pattern pattern;
	struct braid_probe *probe = malloc(sizeof(*probe));
	size_t k;
	int err;

	if (!probe || braid_array_push(o->probes.items, o->probes.nr, o->probes.capacity, probe)) {
		free(probe);
		return braid_out_of_memory();
	}
	err = braid_probe_parse(probe, &pattern, argument, user);
	for (k = 0; !err && k < list->nr; k++)
		if (list->items[k].probe && !strcmp(list->items[k].system, pattern.system) &&
		    !strcmp(list->items[k].event, pattern.event))
			err = braid_fail(-EINVAL, "two probes are called %s:%s; name one, as 'p:%s/NAME ...'",
					 pattern.system, pattern.event, pattern.system);
	if (err)
		return err;
	pattern.probe = probe;
	list->last = list->nr;
	return braid_array_push(list->items, list->nr, list->capacity, pattern) ?
	       braid_out_of_memory() : 0;
}

int braid_record_add_kprobe(struct braid_record_options *o, const char *argument)
{
	return record_options_add_probe(o, argument, false);
}

int braid_record_add_uprobe(struct braid_record_options *o, const char *argument)
{
	return record_options_add_probe(o, argument, true);
}

int braid_record_add_filter(struct braid_record_patterns *list, const char *argument)
{
	size_t k;
	int err = braid_filter_syntax(argument);

	if (err)
		return err;
	if (!list->nr)
		return braid_fail(-EINVAL, "a filter follows the -e, --kprobe or --uprobe whose events it is for");
	for (k = list->last; k < list->nr; k++) {
		if (list->items[k].filter)
			return braid_fail(-EINVAL, "these events have a filter; join the two by &&");
		list->items[k].filter = argument;
	}
	return 0;
}

int braid_record_add_pid(struct braid_record_options *o, const char *argument)
{
	char *end;
	long pid = strtol(argument, &end, 10);

	if (end == argument || *end || pid < 0 || pid > 1 << 22)
		return braid_fail(-EINVAL, "expected a task's number, as `ps` in the guest shows it");
	if (braid_array_push(o->pids, o->who.nr_pids, o->pids_capacity, (s32)pid))
		return braid_out_of_memory();
	o->who.pids = o->pids;
	return 0;
}

int braid_record_add_trigger(struct braid_record_options *o, const char *argument)
{
	struct braid_trigger_wish wish;
	int err;

	if (o->nr_triggers == BRAID_TRIGGERS)
		return braid_fail(-EINVAL, "more than %u triggers", BRAID_TRIGGERS);
	err = braid_trigger_parse(&wish, argument);
	if (!err && braid_array_push(o->triggers, o->nr_triggers, o->triggers_capacity, wish)) {
		braid_trigger_wish_free(&wish);
		err = braid_out_of_memory();
	}
	return err;
}

int braid_record_complete_events(struct braid_record_options *o)
{
	size_t k;
	int err = 0;

	if (!o->events.nr && !o->clock_only)
		err = braid_record_add_events(&o->events, BRAID_GUEST_EVENTS);
	for (k = 0; !err && k < o->events.nr; k++)
		o->events.items[k].stacks = o->stacks;
	if (!err && o->sample_hz)
		err = braid_record_add_events(&o->events, BRAID_SAMPLE_EVENTS);
	else if (!err && o->user_stacks)
		err = braid_record_add_events(&o->events, BRAID_MAPPING_EVENTS);
	return err;
}

u64 braid_record_sampling(const struct braid_record_options *o)
{
	return !o->sample_hz ? 0 :
	       braid_sample_request(o->sample_hz, o->user_stacks ? BRAID_SAMPLE_USER_STACKS : 0);
}

int braid_record_add_domain(struct braid_record_options *o, const char *name)
{
	if (strlen(name) >= BRAID_GUEST_NAME_BYTES)
		return braid_fail(-EINVAL, "the name is too long; use the domain's UUID");
	if (braid_array_push(o->domains.names, o->domains.nr, o->domains.capacity, name))
		return braid_out_of_memory();
	return 0;
}

void braid_record_options_free(struct braid_record_options *o)
{
	size_t k;

	while (o->nr_triggers)
		braid_trigger_wish_free(&o->triggers[--o->nr_triggers]);
	free(o->triggers);
	free(o->peers.hosts.items);
	for (k = 0; k < o->probes.nr; k++)
		free(o->probes.items[k]);
	free(o->probes.items);
	free(o->given);
	free(o->pids);
	free(o->domains.names);
	free(o->events.items);
	free(o->host_events.items);
	free(o->flight.on.items);
}
